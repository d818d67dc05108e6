"""Small files that would take all memory: each is refused, in a process with 400 MB left.

The bound on memory tells a bomb that is refused from a bomb that goes off and is noticed later.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.hfile.block import BlockType, Codec, encode_block, read_block
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.thrift_compact import encode_struct, read_struct
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.timeline.load import load_timeline

PAGE = 600 << 20
LEFT = 400 << 20


def zeros_in_parquet() -> bytes:
    """A page of 600 MB, as 20 kB."""
    sink = io.BytesIO()
    rows = pa.table({"a": pa.array([bytes(PAGE)])})
    pq.write_table(rows, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    return sink.getvalue()


def with_small_sizes(file: bytes) -> bytes:
    """The same file, whose footer states a kilobyte."""
    size = int.from_bytes(file[-8:-4], "little")
    footer, _ = read_struct(file[-8 - size : -8], 0)
    group = footer[4][0]
    group[2] = group[1][0][3][6] = 1000
    data = encode_struct(footer)
    return file[: -8 - size] + data + len(data).to_bytes(4, "little") + b"PAR1"


def repeats_in_parquet(*, store_schema: bool) -> bytes:
    """A value of 500 kB that a dictionary has once and 2000 rows have, as 500 bytes."""
    sink = io.BytesIO()
    indices, values = pa.array(np.zeros(2000, np.int32)), pa.array([bytes(500_000)])
    rows = pa.table({"a": pa.DictionaryArray.from_arrays(indices, values)})
    pq.write_table(rows, sink, compression="zstd", store_schema=store_schema)
    return sink.getvalue()


def zeros_in_hfile() -> bytes:
    """A block of 200 MB, as some hundred kB, whose header states 100 bytes."""
    block = bytearray(encode_block(BlockType.DATA, bytes(200 << 20), Codec.GZ))
    block[12:16] = (100).to_bytes(4, "big")
    return bytes(block)


def nulls_in_avro(count: int) -> bytes:
    """Rows of 500 columns, of which each is null."""
    row = bytes(500)
    return (
        (1).to_bytes(4, "big")
        + count.to_bytes(4, "big")
        + (len(row).to_bytes(4, "big") + row) * count
    )


WIDE = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"c{n}", "type": ["null", "string"]} for n in range(500)],
    }
)


@contextmanager
def endless(folder: str) -> Iterator[SimpleNamespace]:
    """A folder of a million files, without the files."""
    known = os.stat(folder)
    yield (  # type: ignore[misc]
        SimpleNamespace(name=f"f{n}", is_symlink=lambda: False, stat=lambda: known)
        for n in range(1_000_000)
    )


def list_folder(limits: Limits) -> object:
    with mock.patch("os.scandir", endless):
        return LocalStore("/tmp", limits).list("")


@contextmanager
def endless_timeline(folder: str) -> Iterator[SimpleNamespace]:
    """A timeline of a million instants, without the files."""
    yield (  # type: ignore[misc]
        SimpleNamespace(
            name=f"{20250101000000000 + n}.commit.requested",
            is_symlink=lambda: False,
            is_file=lambda **_: True,
            is_dir=lambda **_: False,
        )
        for n in range(1_000_000)
    )


def list_timeline(limits: Limits) -> object:
    config = TableConfig.from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "8",
        }
    )
    with TemporaryDirectory() as root, mock.patch("os.scandir", endless_timeline):
        Path(root, config.timeline_path).mkdir(parents=True)
        return load_timeline(LocalStore(root, limits), config, limits)


BOMBS: dict[str, Callable[[], object]] = {
    "a page of a row group that is too large": lambda: BaseFileReader(
        pa.py_buffer(zeros_in_parquet()), Limits(row_group_bytes_max=64 << 20)
    ),
    "a page that the footer is silent about": lambda: BaseFileReader(
        pa.py_buffer(with_small_sizes(zeros_in_parquet()))
    ).read(),
    "a value that a dictionary repeats": lambda: BaseFileReader(
        pa.py_buffer(repeats_in_parquet(store_schema=False))
    ).read(),
    "a dictionary that is made plain": lambda: list(
        BaseFileReader(pa.py_buffer(repeats_in_parquet(store_schema=True))).iter_batches()
    ),
    "a block that is larger than its header says": lambda: read_block(
        zeros_in_hfile(), Codec.GZ, limits=Limits()
    ).decoded(),
    "rows that take more than their bytes": lambda: decode_avro_blocks(
        [nulls_in_avro(20_000)], parse_avro_schema(WIDE), Limits(log_rows_bytes_max=10 << 20)
    ),
    "a folder of a million files": lambda: list_folder(Limits(folder_entries_max=10_000)),
    "a timeline of a million instants": lambda: list_timeline(Limits(timeline_instants_max=10_000)),
}
WANTED = {
    "a page of a row group that is too large": "LimitError row_group_bytes_max",
    "a page that the footer is silent about": "LimitError ",
    "a value that a dictionary repeats": "LimitError ",
    "a dictionary that is made plain": "LimitError ",
    "a block that is larger than its header says": "CorruptError ",
    "rows that take more than their bytes": "LimitError log_rows_bytes_max",
    "a folder of a million files": "LimitError folder_entries_max",
    "a timeline of a million instants": "LimitError timeline_instants_max",
}


def outcome_of(bomb: Callable[[], object]) -> str:
    """Return the error, and the limit that it names."""
    try:
        bomb()
    except BucketfmtError as error:
        limit = next((word for word in str(error).split() if word.endswith("_max")), "")
        return f"{type(error).__name__} {limit}"
    return "nothing"


def go_off() -> dict[str, str]:
    """Return what each bomb raises where little memory is left."""
    zeros, block = zeros_in_parquet(), zeros_in_hfile()
    globals().update(zeros_in_parquet=lambda: zeros, zeros_in_hfile=lambda: block)
    bound_memory()
    return {name: outcome_of(bomb) for name, bomb in BOMBS.items()}


def bound_memory() -> None:
    pa.set_memory_pool(pa.system_memory_pool())  # gives memory back, which counts here
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + LEFT
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def look_at_much(path: str) -> dict[str, object]:
    """Return what a check finds, and a scan raises, in a sound table with a value of 600 MB."""
    rows = pa.table({"id": ["a"], "v": [b""]})
    table = bf.create(path, schema=rows, record_key="id", index=bf.SimpleBucketIndex(1))
    table.upsert(rows.set_column(1, "v", [[bytes(PAGE)]]))
    del table
    bound_memory()
    report = bf.open(path).check(depth="full")
    gaps = [text for text in report.not_checked if "memory" in text]
    scanned = outcome_of(lambda: bf.open(path).scan().to_arrow())
    return {"status": report.status, "gaps": len(gaps), "scan": scanned}


def run_apart(call: str) -> object:
    """Return what a function of this module returns in a process of its own."""
    root = Path(__file__).parents[3]
    name = call.partition("(")[0]
    own = f"from tests.reliability.damage.test_bombs import {name}"
    run = subprocess.run(
        [sys.executable, "-c", f"import json; {own}; print(json.dumps({call}))"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.rotated(0, among="every byte", one_of=4)
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept on Linux")
def test_bombs_are_refused_in_bounded_memory() -> None:
    assert run_apart("go_off()") == WANTED


@pytest.mark.rotated(0, among="every byte", one_of=4)
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept on Linux")
def test_a_lack_of_memory_is_no_damage(tmp_path: Path) -> None:
    seen = run_apart(f"look_at_much({str(tmp_path / 't')!r})")
    assert seen == {"status": "incomplete", "gaps": 1, "scan": "LimitError "}
