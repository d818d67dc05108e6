"""Many look-ups in one HFile of the record index, beside Hudi's own reader of the same file."""

from __future__ import annotations

import gc
import random
import tempfile
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from benchmarks.measure import Figure, Result, Timing, cpu_ratio, ratio
from bucketfmt.format.hfile.block import HEADER_BYTES
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.hfile.writer import encode_hfile
from bucketfmt.format.metadata.metadata_records import RecordLocation
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.metadata.record_location_kernels import (
    RecordLocations,
    encode_record_locations,
)
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.storage.streams import map_in_threads, worker_count
from tests.interop.engines.hfile_session import HFileSession, ReadByHudi, write_keys

__all__ = ["measure_hfile"]

_RECORDS, _LOOKUPS = 1_000_000, 100_000
_GZIP_WBITS = 31
_WARM_UP, _REPETITIONS = 2, 15
_HUDI, _BUCKETFMT, _ONE_THREAD = "Hudi 1.2.0, HFileReaderImpl", "bucketfmt", "bucketfmt, a thread"
_ZLIB = "zlib alone"
_CAUSE = (
    "More than half of bucketfmt's CPU time is ISA-L, which decompresses every block; the rest "
    "follows the lengths of a million entries and compares their keys. Where two processors are "
    "free, both threads are at work nine tenths of the time."
)
_NOTE = (
    f"{_LOOKUPS:,} keys, in order, in a file of {_RECORDS:,} entries, GZ, in blocks of 64 KiB: "
    "the keys are random UUIDs, the values 600 locations at random. Timed from opening the file to "
    "the values, which nobody decodes. Every block has some of the keys. Hudi's reader runs in one "
    "JVM, after two rounds that are not timed."
)


def measure_hfile(data: Path) -> list[Result]:
    """Return how long the look-ups take, and the bytes of a record."""
    del data  # no table is read
    with tempfile.TemporaryDirectory() as folder:
        return [_measure(Path(folder))]


def _measure(folder: Path) -> Result:
    path, keys = folder / "index.hfile", folder / "keys"
    sought = _make(path)
    write_keys(keys, sought.to_pylist())
    timings = [
        _time(_BUCKETFMT, path, sought, worker_count()),
        _time(_ONE_THREAD, path, sought, 1),
        _time_zlib(path),
    ]
    session = HFileSession("1.2.0", "NativeEngine", folder)
    answers = session.ask([("find", path, keys)] * (_WARM_UP + _REPETITIONS))
    hudi = Timing(_HUDI, [], [])
    for answer in answers[_WARM_UP:]:
        if not isinstance(answer, ReadByHudi) or answer.found != _LOOKUPS:
            raise RuntimeError(f"Hudi does not find the keys: {answer}")
        hudi.walls.append(answer.wall / 1e9)
        hudi.cpus.append(answer.cpu / 1e9)
    timings.append(hudi)
    size = path.stat().st_size / _RECORDS
    figures = [
        Figure(
            "time of 100,000 look-ups by that of Hudi",
            ratio(timings, _BUCKETFMT, _HUDI),
            "x",
            at_most=0.5,
            cause=_CAUSE,
        ),
        Figure(
            "CPU time of 100,000 look-ups by that of Hudi",
            cpu_ratio(timings, _ONE_THREAD, _HUDI),
            "x",
            at_most=0.5,
            cause=_CAUSE,
        ),
        Figure("bytes of a record in the record index", size, "bytes", at_most=48),
    ]
    return Result("Look-ups in an HFile", timings, figures, _LOOKUPS / 1000, "k keys", [_NOTE])


def _make(path: Path) -> pa.Array:
    """Write the file, and return the keys to look up, in order."""
    chance = random.Random(7)
    keys = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(_RECORDS)]
    locations = [
        RecordLocation(
            f"2024-01-{day + 1:02}",
            f"{uuid.UUID(int=chance.getrandbits(128))}-{number}",
            1795233396929 + day,
        )
        for day in range(30)
        for number in range(20)
    ]
    numbers = np.random.default_rng(7).integers(0, len(locations), _RECORDS).astype(np.int32)
    schema = metadata_schema(9)
    found = RecordLocations(locations, numbers)
    entries = encode_record_locations(pa.array(keys), found, schema).sort()
    info = {b"schema": schema.text.encode()}
    path.write_bytes(encode_hfile(entries, info, created_ms=1))
    sought = sorted(key.encode() for key in chance.sample(keys, _LOOKUPS))
    return pa.array(sought, pa.large_binary())


def _time_zlib(path: Path) -> Timing:
    """Time what no reader can do without: the payloads of all data blocks, decompressed."""
    timing = Timing(_ZLIB, [], [])
    for turn in range(-1, _REPETITIONS):
        data = path.read_bytes()
        payloads = [
            memoryview(data)[at + HEADER_BYTES : at + size]
            for _, at, size in HFile.of(data).data_blocks
        ]
        wall, cpu = perf_counter(), process_time()
        for payload in payloads:
            zlib.decompressobj(_GZIP_WBITS).decompress(payload)
        wall, cpu = perf_counter() - wall, process_time() - cpu
        if turn >= 0:
            timing.walls.append(wall)
            timing.cpus.append(cpu)
    return timing


def _time(name: str, path: Path, sought: pa.Array, threads: int) -> Timing:
    timing = Timing(name, [], [])
    step = -(-len(sought) // threads)
    parts = [sought[start : start + step] for start in range(0, len(sought), step)]
    store = LocalStore(str(path.parent))

    def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return store.read_ranges(path.name, ranges)

    for turn in range(-1, _REPETITIONS):
        gc.collect()
        wall, cpu = perf_counter(), process_time()
        found = map_in_threads(HFile(fetch, path.stat().st_size).find_all, parts, threads)
        wall, cpu = perf_counter() - wall, process_time() - cpu
        if any(part.null_count for part in found):
            raise RuntimeError("a key is not found")
        if turn >= 0:
            timing.walls.append(wall)
            timing.cpus.append(cpu)
    return timing
