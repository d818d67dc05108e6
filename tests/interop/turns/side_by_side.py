"""Commits of bucketfmt and of Hudi over the same rows, which are to say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from bucketfmt.format.names.instants import comparable_action
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.rows.columns.meta_columns import META_COLUMNS
from bucketfmt.timeline.load import load_commit_metadata
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import SCHEMA, Tally, Turns, start_turns

__all__ = ["play_side_by_side"]

# Measures of bytes and time, names that hold random parts, and what only engines count.
_OWN = {
    "fileId", "path", "tempPath", "runtimeStats", "totalWriteBytes", "fileSizeInBytes",
    "totalLogSizeCompacted", "totalLogReadTimeMs", "recordsStats",
}  # fmt: skip
# Which release counts what in a way of its own. 0.15 leaves out deletes of the entries it has
# read, and takes those of rows that were only logged for inserts; 1.0 counts inserts of a
# compaction twice.
_COUNTED_OTHERWISE = {
    "0.15.0": {"totalLogRecords", "numInserts"},
    "1.0.2": {"numInserts"},
    "1.2.0": set[str](),
}


def play_side_by_side(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Do the same to two tables, one side each, and compare what their commits say."""
    both = []
    for who in ("us", "hudi"):
        turns = start_turns(session, folder / who, kind, seed)
        side, random = getattr(turns, who), Random(seed)
        first, second = _draw(random), _draw(random)
        side.upsert(_rows(first, 1))
        side.upsert(_rows(second, 2))
        # Of keys that are there: Hudi counts deletes of others, too, and 0.15 their inserts.
        side.delete(_rows(random.sample(sorted({*first, *second}), 4), 3))
        if turns.table.config.table_type == "MERGE_ON_READ":
            side.compact()
        side.upsert(_rows(_draw(random), 4))
        if not kind.endswith("ring"):
            side.overwrite(_rows(_draw(random), 5))
            side.drop("region=eu")
        both.append(_commits(turns, session.version))
    ours, hudis = both
    assert len(ours) == len(hudis)
    told = [
        difference
        for mine, theirs in zip(ours, hudis, strict=True)
        for difference in _differences(mine, theirs, mine["operation"])
    ]
    assert not told, "\n".join(told)
    return Tally(len(ours), len(ours), len(hudis))


def _draw(random: Random) -> list[int]:
    return random.sample(range(20), random.randrange(4, 14))


def _rows(numbers: list[int], ts: int) -> pa.Table:
    """Return rows without nulls: Hudi 1.0 fails to log a null date beside column statistics."""
    day = date(2020, 1, ts)
    rest = {"name": "n", "price": 1.0, "day": day, "ts": ts}
    return pa.Table.from_pylist(
        [{"id": f"k{i}", **rest, "region": ("us", "eu")[i % 2]} for i in numbers], SCHEMA
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
                "extra": _extra_metadata(metadata, version),
                "replaced": {path: len(file_ids) for path, file_ids in replaced.items()},
                "stats": stats,
            }
        )
    return found


def _extra_metadata(metadata: CommitMetadata, version: str) -> dict[str, str | None]:
    """0.15 names Hudi's own columns too where it drops a partition."""
    extra = dict(metadata.extra_metadata)
    if version == "0.15.0" and metadata.operation_type == "DELETE_PARTITION":
        schema = json.loads(extra["schema"] or "")
        schema["fields"] = [f for f in schema["fields"] if f["name"] not in META_COLUMNS]
        extra["schema"] = json.dumps(schema)
    return extra


def _differences(ours: Any, hudis: Any, where: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(hudis, dict):
        for key in sorted({*ours, *hudis}, key=str):
            yield from _differences(ours.get(key), hudis.get(key), f"{where} {key}")
    elif ours != hudis:
        yield f"{where}: {ours!r}, by Hudi {hudis!r}"
