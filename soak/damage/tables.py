"""The tables whose copies are damaged, unpacked into memory, and what is asked of them."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from soak.damage.judge import Question, look_up_all, open_table_in, scan_all
from soak.damage.regions import kind_of

__all__ = ["TABLES", "files_to_damage", "question_about", "read_files", "table_files", "tiny_table"]

_DATA = Path(__file__).parents[2] / "tests" / "data"
_KEYS = [f"key-{number:06}" for number in range(8)]

TABLES: tuple[str, ...] = tuple(
    f"{version}/tiny_{kind}"
    for version in ("0.15.0", "1.0.2", "1.2.0")
    for kind in ("cow", "mor", "ch")
)
"""Tables real Hudi wrote, of eight rows each: table versions 6, 8 and 9."""


@cache
def table_files(table: str) -> dict[str, bytes]:
    """Return the files of a table of tests/data, given as `<hudi version>/<name>`."""
    name = table.rpartition("/")[2]
    prefix = f"{name}/"
    files: dict[str, bytes] = {}
    with tarfile.open(_DATA / f"{table}.tar.xz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.startswith(prefix) else None
            if content is not None:
                files[member.name.removeprefix(prefix)] = content.read()
    return files


def tiny_table(table: str) -> MemoryStore:
    """Return one of `TABLES`."""
    return MemoryStore(table_files(table))


def question_about(table: str) -> Question:
    """Return what is asked: all rows; of a consistent hashing table by its index as well."""
    return look_up_all(*_KEYS) if table.endswith("_ch") else scan_all


def files_to_damage(table: str) -> list[str]:
    """Return the paths of the table's files that have a format, hence are not empty."""
    files = tiny_table(table).files
    return sorted(path for path, data in files.items() if data and kind_of(path))


@cache
def read_files(table: str) -> frozenset[str]:
    """Return the files that are opened to answer the question; the others cannot matter."""
    store = RecordingStore(tiny_table(table))
    question_about(table)(open_table_in(store))
    return frozenset(store.paths("read", "read_ranges", "open_arrow"))
