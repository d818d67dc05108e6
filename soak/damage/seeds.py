"""Sound bytes of every format, to be mutated: the spec's vectors and files real Hudi wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.rows.parquet.base_file import BaseFileReader
from soak.damage.regions import kind_of
from soak.damage.tables import TABLES, table_files

__all__ = [
    "NUL",
    "bloom_filters",
    "hfiles",
    "hfiles_of",
    "log_headers",
    "row_blocks",
    "table_bytes",
    "vector_bytes",
    "vector_pairs",
]

NUL = b"\0"
"""Between the parts of a seed of several parts."""

_VECTORS = Path(__file__).parents[2] / "spec" / "vectors" / "good"


@cache
def vector_bytes(*formats: str) -> tuple[bytes, ...]:
    """Return every input of the good vectors of some formats: decoded hex, and all texts."""
    return tuple(
        dict.fromkeys(
            part
            for format_name in formats
            for vector in _vectors(format_name)
            for part in _leaves(vector)
        )
    )


def vector_pairs(format_name: str, first: str, second: str) -> tuple[bytes, ...]:
    """Return, of vectors of two parts, the text of `first`, NUL, and the bytes of `second`."""
    inputs = [vector["json"] for vector in _vectors(format_name) if "json" in vector]
    return tuple(
        str(given[first]).encode() + NUL + bytes.fromhex(given[second])
        for given in inputs
        if first in given
    )


def _vectors(format_name: str) -> list[dict[str, Any]]:
    paths = sorted(_VECTORS.glob(f"{format_name}.*.json"))
    return [json.loads(path.read_text())["input"] for path in paths]


def _leaves(value: Any, name: str = "") -> Iterator[bytes]:
    if isinstance(value, str):
        yield bytes.fromhex(value) if name == "hex" else value.encode("utf-8", "surrogatepass")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)


@cache
def table_bytes(kind: str, *tables: str) -> tuple[bytes, ...]:
    """Return the files of some kind (`kind_of`) of tables; of the tiny ones if none is named."""
    return tuple(
        dict.fromkeys(
            data
            for table in tables or TABLES
            for path, data in table_files(table).items()
            if data and kind_of(path) == kind
        )
    )


def _blocks() -> Iterator[LogBlock]:
    files = table_bytes("log file", *TABLES, "1.0.2/positions", "1.2.0/partial")
    for data in files:
        yield from (block for block in decode_log_file(data) if isinstance(block, LogBlock))


@cache
def row_blocks() -> tuple[bytes, ...]:
    """Return Avro data blocks: the schema, NUL, the content."""
    return tuple(
        dict.fromkeys(
            block.schema.encode() + NUL + bytes(block.content)
            for block in _blocks()
            if block.block_type is BlockType.AVRO_DATA
        )
    )


@cache
def log_headers(key: HeaderKey) -> tuple[bytes, ...]:
    """Return the values that log blocks have in their headers under a key."""
    values = (block.header.get(key, "").encode() for block in _blocks())
    return tuple(dict.fromkeys(value for value in values if value))


@cache
def bloom_filters() -> tuple[bytes, ...]:
    """Return the bloom filters of base files: type code, NUL, text."""
    found = []
    for data in table_bytes("base file"):
        entries = BaseFileReader(pa.py_buffer(data)).key_values
        text = entries.get("org.apache.hudi.bloomfilter")
        if text:
            code = entries.get("hoodie_bloom_filter_type_code", "")
            found.append(code.encode() + NUL + text.encode())
    return tuple(dict.fromkeys(found))


@cache
def hfiles() -> tuple[bytes, ...]:
    """Return HFiles of metadata tables: base files, and the content of log blocks.

    Those of 0.15.0 and 1.0.2 are HBase's, that of 1.2.0 Hudi's own.
    """
    return tuple(
        data
        for version in ("0.15.0", "1.0.2", "1.2.0")
        for path, data in hfiles_of(f"{version}/mdt_bucket")
        if path.startswith(".hoodie/metadata/files/")
    )


def hfiles_of(table: str) -> Iterator[tuple[str, bytes]]:
    """Yield every HFile of a table's metadata table, by the path of the file that holds it."""
    for path, data in sorted(table_files(table).items()):
        if path.endswith(".hfile"):
            yield path, data
        elif path.startswith(".hoodie/metadata/") and ".log." in path and path[-4:] != ".crc":
            for block in decode_log_file(data):
                if isinstance(block, LogBlock) and block.block_type is BlockType.HFILE_DATA:
                    yield path, bytes(block.content)
