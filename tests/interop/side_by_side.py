"""Commits of bucketfmt and of Hudi over the same rows, which are to say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from bucketfmt.format.instants import comparable_action
from bucketfmt.format.names import LogFileName, find_data_file_name
from bucketfmt.timeline.load import load_commit_metadata
from tests.interop.carry_on import SCHEMA, Turns, start_turns
from tests.interop.hudi_session import HudiSession

__all__ = ["play_side_by_side"]

# Measures of bytes and time, names that hold random parts, and what only engines count.
_OWN = {
    "fileId", "path", "tempPath", "runtimeStats", "totalWriteBytes", "fileSizeInBytes",
    "totalLogSizeCompacted", "totalLogReadTimeMs", "recordsStats",
}  # fmt: skip
# Which release counts what in a way of its own: 0.15 leaves out deletes of the entries it has
# read, 1.0 counts inserts of a compaction twice.
_COUNTED_OTHERWISE = {"0.15.0": {"totalLogRecords"}, "1.0.2": {"numInserts"}, "1.2.0": set[str]()}


def play_side_by_side(session: HudiSession, folder: Path, kind: str, seed: int) -> None:
    """Do the same to two tables, one side each, and compare what their commits say."""
    both = []
    for who in ("us", "hudi"):
        turns = start_turns(session, folder / who, kind, seed)
        side = getattr(turns, who)
        side.upsert(_rows(range(12), 1))
        side.upsert(_rows(range(6, 18), 2))
        side.delete(_rows([0, 1, 7], 3))
        if turns.table.config.table_type == "MERGE_ON_READ":
            side.compact()
        side.upsert(_rows(range(3, 9), 4))
        if not kind.endswith("ring"):
            side.overwrite(_rows([2, 4], 5))
        both.append(_commits(turns, session.version))
    ours, hudis = both
    assert len(ours) == len(hudis)
    for mine, theirs in zip(ours, hudis, strict=True):
        assert mine == theirs


def _rows(numbers: range | list[int], ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": f"k{i}", "name": "n", "price": 1.0, "ts": ts, "region": ("us", "eu")[i % 2]}
            for i in numbers
        ],
        SCHEMA,
    )


def _commits(turns: Turns, version: str) -> list[dict[str, Any]]:
    """Return what each commit says, with its place in the timeline for an instant."""
    table = turns.table
    instants = table.timeline.completed.instants
    numbers = {i.requested_time: number for number, i in enumerate(instants)}

    def number_of(name: str) -> int | None:
        parsed = find_data_file_name(name)
        return None if parsed is None else numbers[parsed.instant]

    found = []
    for instant in instants:
        metadata = load_commit_metadata(table.store, table.config, instant)
        stats = {}
        for path, own in metadata.partition_to_write_stats.items():
            for stat in own:
                record = msgspec.to_builtins(stat)
                ignored = _OWN | (_COUNTED_OTHERWISE[version] if metadata.compacted else set())
                kept = {name: value for name, value in record.items() if name not in ignored}
                kept["prevCommit"] = numbers.get(kept["prevCommit"], kept["prevCommit"])
                for name in ("prevBaseFile", "baseFile"):
                    kept[name] = number_of(kept[name]) if kept[name] else kept[name]
                kept["logFiles"] = [number_of(name) for name in kept["logFiles"] or ()]
                kept["numUpdates"] = kept["numUpdates"] or 0
                is_log = isinstance(find_data_file_name(record["path"]), LogFileName)
                stats[path, record["fileId"][:8]] = {**kept, "is_log": is_log}
        replaced = metadata.partition_to_replace_file_ids
        found.append(
            {
                "action": comparable_action(instant.action, 2),
                "operation": metadata.operation_type,
                "compacted": metadata.compacted,
                "extra": metadata.extra_metadata,
                "replaced": {path: len(file_ids) for path, file_ids in replaced.items()},
                "stats": stats,
            }
        )
    return found
