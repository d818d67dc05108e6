"""The timeline files of the golden tables, data and metadata tables alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bucketfmt.format.names.instants import InstantFile, find_instant_file
from tests.golden import GOLDEN

Golden = Callable[[str, str], Path]


class TimelineFile(NamedTuple):
    version: str
    table: str
    instant: InstantFile
    data: bytes

    def is_a(self, action: str, state: str) -> bool:
        return (self.instant.action, self.instant.state.value) == (action, state)

    @property
    def label(self) -> str:
        return f"{self.version}/{self.table}/{self.instant.name}"


@cache
def timeline_files(golden: Golden) -> list[TimelineFile]:
    """Every one. Cached: many tests walk them."""
    files = []
    for version, table in GOLDEN:
        layout = 1 if version.startswith("0.") else 2
        folder = ".hoodie" if layout == 1 else "timeline"
        for path in sorted(golden(version, table).rglob("*")):
            instant = find_instant_file(path.name, layout) if path.parent.name == folder else None
            if instant is not None:
                files.append(TimelineFile(version, table, instant, path.read_bytes()))
    return files


def without_empties(record: dict[str, Any]) -> dict[str, Any]:
    """A decoded record without nulls, empty lists and empty maps, which mean the same to Hudi."""
    items = {key: _without_empties(item) for key, item in record.items()}
    return {key: item for key, item in items.items() if item not in (None, [], {})}


def _without_empties(value: Any) -> Any:
    if isinstance(value, dict):
        return without_empties(value)
    return [_without_empties(item) for item in value] if isinstance(value, list) else value
