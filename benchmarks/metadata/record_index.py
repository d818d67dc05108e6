"""Keys located by the record index: a batch of keys against very many mappings over many shards.

usage: python -m benchmarks.metadata.record_index TABLE SEED

Prints seconds and peak bytes as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import bucketfmt as bf
from benchmarks.measure import Figure, Result, Timing
from benchmarks.reading.memory import peak_bytes
from bucketfmt.format.keys.hashing_kernels import java_string_hashes
from bucketfmt.format.metadata.metadata_files import encode_metadata_base_file
from bucketfmt.format.metadata.metadata_keys import format_metadata_file_id
from bucketfmt.format.metadata.metadata_records import RecordLocation
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.metadata.record_location_kernels import (
    RecordLocations,
    encode_record_locations,
)
from bucketfmt.index.model import RecordIndex
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["measure_record_index"]

_MAPPINGS_VARIABLE = "BENCHMARKS_RECORD_INDEX_MAPPINGS"
_MAPPINGS = 100_000_000
_MAPPINGS_OF_SHARD = 1_000_000
_KEYS = 10_000
_REPETITIONS = 3
_GROUPS = 4_096  # file groups of the table
_AT_A_TIME = 1 << 20
_INITIAL = "00000000000000000"
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_CAUSE = (
    "A block of 64 KiB is decompressed for each key, and its entries are followed. That is two "
    "thirds of the CPU time; where other work shares the cores, the wall clock is not the index's."
)
_PROPERTIES = """\
hoodie.table.name=t_metadata
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=9
hoodie.table.initial.version=9
hoodie.timeline.layout.version=2
hoodie.timeline.path=timeline
hoodie.timeline.history.path=history
hoodie.table.recordkey.fields=key
hoodie.table.keygenerator.type=HOODIE_TABLE_METADATA
hoodie.table.base.file.format=HFILE
hoodie.populate.meta.fields=false
hoodie.record.merge.mode=CUSTOM
hoodie.compaction.payload.class=org.apache.hudi.metadata.HoodieMetadataPayload
"""


def measure_record_index(data: Path) -> list[Result]:
    """Locate keys of which nine in ten are there, in a process that has opened no shard."""
    mappings = int(os.environ.get(_MAPPINGS_VARIABLE, _MAPPINGS))
    shards = max(1, mappings // _MAPPINGS_OF_SHARD)
    table = data / f"record_index_{mappings}"
    if not table.exists():
        _make(table, mappings, shards)
    timing = Timing(f"bucketfmt, {mappings:,} mappings over {shards} shards", [], [])
    for seed in range(_REPETITIONS):
        command = [sys.executable, "-m", "benchmarks.metadata.record_index", str(table), str(seed)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        timing.walls.append(found["wall"])
        timing.cpus.append(found["cpu"])
        timing.peaks.append(found["peak"])
    files = list((table / ".hoodie/metadata/record_index").iterdir())
    on_disk = sum(file.stat().st_size for file in files) / mappings
    title = f"{_KEYS:,} keys in a record index, cold shards"
    figures = [
        Figure(f"{title}, of a key", timing.wall / _KEYS * 1e3, "ms", at_most=1.0, cause=_CAUSE),
        Figure(f"{title}, peak memory", max(timing.peaks) / 1e6, "MB", at_most=600),
        Figure("a mapping of the record index on disk", on_disk, "bytes", at_most=48),
    ]
    note = f"Set {_MAPPINGS_VARIABLE} for another number of mappings than {_MAPPINGS:,}."
    return [Result(title, [timing], figures, _KEYS / 1e3, "k keys", [note])]


def _keys_of(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    """Return a key of 20 characters for each number, in no order."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)  # odd, so that no key is there twice
    data = mixed.byteswap().view(np.uint8).reshape(-1, 8)
    text = np.empty((len(numbers), 20), np.uint8)
    text[:, :4] = np.frombuffer(b"key-", np.uint8)
    text[:, 4::2], text[:, 5::2] = _HEX[data >> 4], _HEX[data & 15]
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 20
    return pa.StringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))
    )


def _make(table: Path, mappings: int, shards: int) -> None:
    """Write the record index of a table without rows."""
    part = table.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    bf.create(part, name="t", schema=schema, record_key=["id"], index=bf.SimpleBucketIndex(1))
    properties = part / ".hoodie/hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if "index" not in line]
    kept += ["hoodie.index.type=RECORD_INDEX", "hoodie.table.metadata.partitions=record_index\n"]
    properties.write_text("\n".join(kept))
    own = part / ".hoodie/metadata"
    (own / ".hoodie/timeline").mkdir(parents=True)
    (own / ".hoodie/hoodie.properties").write_text(_PROPERTIES)
    for name in (f"{_INITIAL}_20260101000000000.deltacommit", f"{_INITIAL}.deltacommit.requested"):
        (own / ".hoodie/timeline" / name).write_bytes(b"")
    (own / "record_index").mkdir()
    numbers = [part / f"{shard}.numbers" for shard in range(shards)]
    for start in range(0, mappings, _AT_A_TIME):
        some = np.arange(start, min(start + _AT_A_TIME, mappings), dtype=np.uint64)
        shard_of = np.abs(java_string_hashes(_keys_of(some)).astype(np.int64)) % shards
        for shard in range(shards):
            with numbers[shard].open("ab") as file:
                file.write(some[shard_of == shard].tobytes())
    for shard, path in enumerate(numbers):
        _write_shard(own / "record_index", shard, np.fromfile(path, np.uint64))
        path.unlink()
    part.rename(table)


def _file_ids() -> list[str]:
    random = Random(0)
    return [f"{uuid.UUID(int=random.getrandbits(128), version=4)}-0" for _ in range(_GROUPS)]


def _write_shard(folder: Path, shard: int, numbers: npt.NDArray[np.uint64]) -> None:
    schema = metadata_schema(9)
    locations = [RecordLocation("", own, 1_767_225_600_000) for own in _file_ids()]
    found = RecordLocations(locations, (numbers % np.uint64(_GROUPS)).astype(np.int32))
    entries = encode_record_locations(_keys_of(numbers), found, schema).sort()
    name = f"{format_metadata_file_id('record_index', shard)}_0-0-0_{_INITIAL}.hfile"
    (folder / name).write_bytes(encode_metadata_base_file(entries, schema, created_ms=0))


def _locate(table: Path, seed: int) -> None:
    """Locate keys, once, by files that the operating system has not in memory."""
    mappings = int(table.name.rpartition("_")[2])
    numbers = np.random.default_rng(seed).integers(0, mappings * 10 // 9, _KEYS, np.uint64)
    keys = pa.chunked_array([_keys_of(numbers)])
    for path in (table / ".hoodie/metadata/record_index").iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    opened = bf.open(table)
    wall, usage = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    finder = IndexFinder(opened.store, opened.config, opened.limits, RecordIndex())
    found = finder.records(Snapshot(opened.state)).find(keys)["file_id"]
    wall = time.perf_counter() - wall
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime
    file_ids = _file_ids()
    expected = [file_ids[n % _GROUPS] if n < mappings else None for n in numbers.tolist()]
    if found.to_pylist() != expected:
        raise SystemExit("keys were located wrongly")
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak_bytes()}))


if __name__ == "__main__":
    _locate(Path(sys.argv[1]), int(sys.argv[2]))
