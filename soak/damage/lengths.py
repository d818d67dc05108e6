"""Every length and count of every format set to what it must not be, under a memory limit.

A count that is believed makes a decoder allocate. So after each case it is asked how much was
allocated at most, whether or not the limit of the process was met.
"""

from __future__ import annotations

import base64
import re
import resource
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from bucketfmt.errors import BucketfmtError
from bucketfmt.testing.corruptions import FORGED_VALUES
from soak.damage.seeds import NUL
from soak.damage.targets import TARGETS

__all__ = ["ALLOCATED_MAX", "FORGERS", "forge_lengths"]

ALLOCATED_MAX = 64 << 20
"""Bytes; the seeds are some kilobytes, and a decoder may still take hundreds of times that."""

_MEMORY_LIMIT = 6 << 30
_NUMBER = re.compile(rb"-?[0-9]+")


class Edit(NamedTuple):
    """Bytes to put in the place of `data[start:end]`."""

    start: int
    end: int
    value: bytes


Forger = Callable[[bytes], Iterator[Edit]]
_Unwrap = Callable[[bytes], tuple[bytes, Callable[[bytes], bytes]]]


def _values(data: bytes) -> Iterable[int]:
    size = len(data)
    return dict.fromkeys((*FORGED_VALUES, size - 1, size, size + 1))


def _integers(data: bytes) -> Iterator[Edit]:
    """Fixed width at every place, in both byte orders."""
    fields = dict.fromkeys(
        field
        for value in _values(data)
        for field in (
            (value % 2**32).to_bytes(4, "big"),
            (value % 2**32).to_bytes(4, "little"),
            (value % 2**64).to_bytes(8, "big"),
        )
    )
    for start in range(len(data)):
        for field in fields:
            if start + len(field) <= len(data):
                yield Edit(start, start + len(field), field)


def _varints(data: bytes) -> Iterator[Edit]:
    """A varint, plain and zigzag, in the place of every byte."""
    values = _values(data)
    codes = {_varint(code % 2**64) for value in values for code in (value, value * 2, -value * 2)}
    for start in range(len(data)):
        for code in sorted(codes):
            yield Edit(start, start + 1, code)


def _varint(value: int) -> bytes:
    coded = bytearray()
    while value > 0x7F:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*coded, value))


def _numbers(data: bytes) -> Iterator[Edit]:
    """A decimal number in the place of every number in text."""
    for match in _NUMBER.finditer(data):
        for value in (*_values(data), 2**64, 10**400, int(match[0]) + 1):
            yield Edit(match.start(), match.end(), str(value).encode())


def _both(data: bytes) -> Iterator[Edit]:
    yield from _integers(data)
    yield from _varints(data)


def _plain(seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    return seed, lambda data: data


def _second_part(seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    first, _, second = seed.partition(NUL)
    return second, lambda data: first + NUL + data


def _base64(seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    return base64.b64decode(seed), base64.b64encode


def _second_part_base64(seed: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    first, _, second = seed.partition(NUL)
    return base64.b64decode(second), lambda data: first + NUL + base64.b64encode(data)


FORGERS: dict[str, tuple[_Unwrap, Forger]] = {
    "log_file.decode_log_file": (_plain, _integers),
    "delete_records.decode_delete_block": (_plain, _both),
    "avro_decode.decode_avro_blocks": (_second_part, _both),
    "avro_container.decode_container": (_plain, _varints),
    "archived_timeline.decode_archived_block": (_second_part, _integers),
    "archived_timeline.decode_history_manifest": (_plain, _numbers),
    "archived_timeline.decode_history_version": (_plain, _numbers),
    "avro_schema.parse_avro_schema": (_plain, _numbers),
    "base_file.BaseFileReader": (_plain, _both),
    "bloom.decode_bloom_filter": (_second_part_base64, _integers),
    "commit_metadata.decode_commit_metadata": (_plain, _varints),
    "extendible_metadata.decode_extendible_metadata": (_plain, _numbers),
    "hashing_metadata.decode_hashing_metadata": (_plain, _numbers),
    "index_settings.IndexSettings": (_plain, _numbers),
    "instant_content.decode_instant_content": (_plain, _varints),
    "internal_schema.decode_schema_history": (_plain, _numbers),
    "parquet_chunks.decode_layout": (_plain, _varints),
    "parquet_footer.decode_footer": (_plain, _varints),
    "partition_rules.decode_hashing_config": (_plain, _numbers),
    "stored_entry_kernels.decode_blocks": (_plain, _integers),
    "reader.HFile": (_plain, _integers),
    "trailer.decode_trailer": (_plain, _varints),
    "record_positions.decode_record_positions": (_base64, _integers),
    "table_config.TableConfig": (_plain, _numbers),
}
"""By decoder: the part of the seed that is forged, and what takes the place of its numbers."""


def forge_lengths(name: str, cases_max: int | None = None, seeds_max: int = 3) -> tuple[int, int]:
    """Run the cases of one decoder; return how many there were and the most bytes allocated.

    Args:
        name: One of `FORGERS`.
        cases_max: Of each seed; evenly spread over all. None runs every case.
        seeds_max: How many seeds, the shortest first.

    Raises:
        Exception: a decoder raised something else than `BucketfmtError`.
        MemoryError: a case had more allocated than `ALLOCATED_MAX`.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    target, (unwrap, forge) = TARGETS[name], FORGERS[name]
    cases = most = 0
    for seed in sorted(target.seeds(), key=len)[:seeds_max]:
        data, wrap = unwrap(seed)
        edits = list(forge(data))
        stride = 1 if cases_max is None else -(-len(edits) // cases_max)
        tracemalloc.start()
        for edit in edits[:: max(stride, 1)]:
            forged = wrap(data[: edit.start] + edit.value + data[edit.end :])
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                target.run(forged)
            except BucketfmtError:
                pass
            except Exception as error:
                raise RuntimeError(f"{name}, seed of {len(seed)} bytes, {edit}") from error
            cases += 1
            allocated = tracemalloc.get_traced_memory()[1] - before
            allocated += pa.default_memory_pool().max_memory()
            most = max(most, allocated)
            if allocated > ALLOCATED_MAX:
                raise MemoryError(f"{name}: {allocated} bytes allocated for {edit}")
        tracemalloc.stop()
    return cases, most
