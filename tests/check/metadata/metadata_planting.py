"""Damage in the metadata tables of tables that real Hudi wrote."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro

from bucketfmt.check.report import Finding
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.hfile.writer import encode_hfile
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock, encode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import find_metadata_file_name
from soak.damage.tables import table_files
from tests.check.planting import check_soon

__all__ = ["Change", "edit_records", "metadata_files", "only_finding", "unpack"]

Change = Callable[[str, dict[str, Any]], Mapping[str, dict[str, Any]]]
"""Takes a key and the fields of its record; returns the keys and fields to keep instead."""


def unpack(root: Path, name: str) -> None:
    """Unpack a table of tests/data/metadata, given as `<hudi version>/<name>`."""
    for path, data in table_files(f"metadata/{name}").items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def only_finding(root: Path, *depths: str) -> Finding:
    """Each of these depths finds this, and nothing else."""
    found = [check_soon(root, depth).findings for depth in depths]  # type: ignore[arg-type]
    assert all(findings == found[0] for findings in found)
    (finding,) = found[0]
    return finding


def metadata_files(root: Path, partition: str) -> list[Path]:
    """The data files of a partition of the metadata table."""
    folder = root / ".hoodie/metadata" / partition
    return sorted(path for path in folder.iterdir() if find_metadata_file_name(path.name))


def edit_records(root: Path, partition: str, change: Change) -> None:
    """Change every record of a partition, in every file that holds one."""
    for path in metadata_files(root, partition):
        data = path.read_bytes()
        if path.suffix == ".hfile":
            path.write_bytes(_edited_hfile(data, None, change))
        elif ".log." in path.name:
            blocks = [_edited_block(block, change) for block in _blocks(data)]
            path.write_bytes(b"".join(blocks))


def _blocks(data: bytes) -> list[LogBlock]:
    blocks = list(decode_log_file(data))
    assert all(isinstance(block, LogBlock) for block in blocks)
    return blocks


def _edited_block(block: LogBlock, change: Change) -> bytes:
    content = bytes(block.content)
    if block.block_type is BlockType.HFILE_DATA:
        content = _edited_hfile(content, block.header[HeaderKey.SCHEMA], change)
    return encode_log_block(block.block_type, block.header, content)


def _edited_hfile(data: bytes, header_schema: str | None, change: Change) -> bytes:
    file = HFile.of(data)
    text = file.file_info.get(b"schema")
    schema = fastavro.parse_schema(json.loads(text if text is not None else header_schema or ""))
    entries: dict[bytes, bytes] = {}
    for key, value in file.scan():
        fields = fastavro.schemaless_reader(
            io.BytesIO(bytes(value)),
            schema,
            None,
            return_record_name=True,
            return_record_name_override=True,
        )
        for name, changed in change(key.decode(), fields).items():
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, changed)
            entries[name.encode()] = out.getvalue()
    info = {} if text is None else {b"schema": text}
    return encode_hfile(EntryColumns.of(sorted(entries.items())), info, created_ms=0)
