"""How long a check takes: 100,000 file groups by names, and every key hashed again.

usage: python -m benchmarks.reading.check DEPTH TABLE          prints counts, seconds, peak bytes
       python -m benchmarks.reading.check DEPTH-floor TABLE    the same of its floor
       python -m benchmarks.reading.check make TABLE           makes the table of many file groups

There is no peer: nothing else compares the keys of a table with its buckets. The floor is what a
check cannot do without: a quick one has to list the folders and decode the commits; a full one has
to read and hash the key columns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.measure import ABSOLUTE_CAUSE, Figure, Result, Timing
from benchmarks.reading.memory import peak_bytes

if TYPE_CHECKING:
    import bucketfmt as bf

__all__ = ["make_many_groups", "measure_check"]

_PARTITIONS, _BUCKETS = 100, 1_000
_COMMITS = 10
_REPETITIONS = 3
_CONTENT = b"PAR1"  # a quick check opens no data file
_BOUND_SECONDS, _BOUND_KEYS, _BOUND_MB = 15, 3e6, 600
_FLOORS = {
    "quick": ("the folders listed and the commits decoded", 2.0),
    "full": ("the key columns read and hashed", 1.5),
}


def make_many_groups(root: Path) -> None:
    """Write the names and the timeline of a healthy table of 100,000 file groups.

    As Hudi 1.2.0 would: every commit writes a tenth of the partitions.
    """
    from bucketfmt.format.names.instants import State, format_instant_file_name
    from bucketfmt.format.names.names import BaseFileName, format_bucket_file_id
    from bucketfmt.format.table.properties import (
        PartitionMetadata,
        encode_partition_metadata,
        encode_properties,
    )
    from bucketfmt.format.timeline.commit_metadata import (
        CommitMetadata,
        WriteStat,
        encode_commit_metadata_avro,
    )

    random = Random(1)
    timeline = root / ".hoodie/timeline"
    timeline.mkdir(parents=True)
    properties = {
        "hoodie.table.name": "many_groups",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "true",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(_BUCKETS),
    }
    (root / ".hoodie/hoodie.properties").write_bytes(encode_properties(properties))
    for commit in range(_COMMITS):
        requested, completed = f"202601010000{commit:02}000", f"202601010000{commit:02}500"
        stats: dict[str, list[WriteStat]] = {}
        for number in range(commit, _PARTITIONS, _COMMITS):
            partition = f"part-{number:04}"
            folder = root / partition
            folder.mkdir()
            metadata = encode_partition_metadata(PartitionMetadata(requested, 1))
            (folder / ".hoodie_partition_metadata").write_bytes(metadata)
            for bucket in range(_BUCKETS):
                some = str(uuid.UUID(int=random.getrandbits(128), version=4))
                file_id = format_bucket_file_id(bucket, some)
                name = BaseFileName(file_id, f"{bucket}-{commit}-{bucket}", requested, "parquet")
                (folder / str(name)).write_bytes(_CONTENT)
                stat = WriteStat(
                    file_id=file_id,
                    path=f"{partition}/{name}",
                    partition_path=partition,
                    prev_commit="null",
                    num_writes=1,
                    num_inserts=1,
                    total_write_bytes=len(_CONTENT),
                    file_size_in_bytes=len(_CONTENT),
                )
                stats.setdefault(partition, []).append(stat)
        written = CommitMetadata(
            partition_to_write_stats=stats, operation_type="BULK_INSERT", extra_metadata={}
        )
        contents = (b"", b"", encode_commit_metadata_avro(written, replace=False))
        for state, content in zip(State, contents, strict=True):
            time_of_state = completed if state is State.COMPLETED else None
            name = format_instant_file_name(requested, "commit", state, time_of_state, 2)
            (timeline / name).write_bytes(content)


def measure_check(data: Path) -> list[Result]:
    """`check` by names of many file groups, and with every key of 10 million."""
    many = data / "many_groups"
    if not many.exists():
        make_many_groups(many)
    quick = _measure("quick", many)
    groups = quick.timings[0]
    quick.figures.append(
        Figure("check --depth quick, 100,000 file groups", groups.wall, "s", at_most=_BOUND_SECONDS)
    )
    full = _measure("full", data / "cow_5x")
    rate = (full.amount or 0) * 1e6 / full.timings[0].cpu
    title = "check --depth full, keys a second of processor time"
    figure = Figure(title, rate, "keys/s", at_least=_BOUND_KEYS, cause=ABSOLUTE_CAUSE)
    full.figures.insert(0, figure)
    return [quick, full]


def _measure(depth: str, table: Path) -> Result:
    timing = Timing("bucketfmt", [], [], [])
    for _ in range(_REPETITIONS):
        found = _run(depth, table)
        if found["status"] != "clean":
            raise SystemExit(f"{table} is not clean at depth {depth}: {found}")
        timing.walls.append(found["wall"])
        timing.cpus.append(found["cpu"])
        timing.peaks.append(found["peak"])
    floor, bound = _FLOORS[depth]
    least = Timing(floor, [], [], [])
    for _ in range(_REPETITIONS):
        needed = _run(f"{depth}-floor", table)
        least.walls.append(needed["wall"])
        least.cpus.append(needed["cpu"])
        least.peaks.append(needed["peak"])
    checked = found["checked"]
    counted = "keys" if depth == "full" else "file groups"
    title = f"check --depth {depth}, {checked[counted]:,} {counted}"
    memory = Figure(f"{title}: peak memory", max(timing.peaks) / 1e6, "MB", at_most=_BOUND_MB)
    by_floor = Figure(
        f"{title}: CPU time by that of {floor}",
        timing.cpu / least.cpu,
        "x",
        bound,
        cause="A value is made of each file as listed, as committed, and as both. The garbage "
        "collector passes over the lists of files by file group: 5 to 10 % of the time.",
    )
    return Result(
        title, [timing, least], [memory, by_floor], checked[counted] / 1e6, f"M {counted}"
    )


def _run(depth: str, table: Path) -> dict[str, Any]:
    """Check the table in a process of its own and return what it reports."""
    command = [sys.executable, "-m", "benchmarks.reading.check", depth, str(table)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _report(depth: str, table: Path) -> None:
    import bucketfmt as bf

    opened, found = bf.open(table), {}
    started, used = time.perf_counter(), time.process_time()
    if depth == "quick-floor":
        _list_and_decode(opened)
    elif depth == "full-floor":
        _hash_keys(opened)
    else:
        report = bf.open(table).check(depth)
        found = {"status": report.status, "checked": dict(report.checked)}
    wall = time.perf_counter() - started
    cpu = time.process_time() - used
    print(json.dumps({**found, "wall": wall, "cpu": cpu, "peak": peak_bytes()}))


def _list_and_decode(table: bf.Table) -> None:
    from bucketfmt.timeline.load import load_commit_metadata, load_timeline

    for entry in table.store.list(""):
        if entry.is_dir and entry.name != ".hoodie":
            table.store.list(entry.path)
    for instant in load_timeline(table.store, table.config).writes.completed.instants:
        load_commit_metadata(table.store, table.config, instant)


def _hash_keys(table: bf.Table) -> None:
    """Read the keys of each base file, verifying the pages, and find the buckets of the keys."""
    import pyarrow.parquet as pq

    from bucketfmt.format.keys.hashing_kernels import bucket_ids

    number = table.index.num_buckets
    for path in table.files()["path"].to_pylist():
        file = pq.ParquetFile(Path(table.uri) / path, page_checksum_verification=True)
        bucket_ids([file.read(["_hoodie_record_key"])["_hoodie_record_key"]], number)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make_many_groups(Path(sys.argv[2]))
    else:
        _report(sys.argv[1], Path(sys.argv[2]))
