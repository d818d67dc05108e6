"""Annotates parquet base files: row groups, and Hudi's entries in the footer. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bucketfmt.dump.annotation import Annotation, annotated_damage, text_of
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.limits import Limits
from bucketfmt.rows.parquet.base_file import BaseFileReader

__all__ = ["annotate_base_file"]

_MAGIC_BYTES = 4


def annotate_base_file(data: Buffer, limits: Limits) -> Iterator[Annotation]:
    """Yield the row groups and the footer's entries."""
    size = len(data)
    try:
        reader = BaseFileReader(pa.py_buffer(data), limits)
    except BucketfmtError as error:
        yield from annotated_damage("damage", error, Cursor(data))
        return
    yield Annotation(0, _MAGIC_BYTES, "magic", "PAR1")
    # Not column by column: pyarrow ends the process over a damaged column chunk's metadata.
    offset = _MAGIC_BYTES
    for number in range(reader.metadata.num_row_groups):
        group = reader.metadata.row_group(number)
        value = f"{group.num_rows} rows, {group.num_columns} columns, {group.total_byte_size} bytes"
        yield Annotation(offset, 0, f"row_group[{number}]", f"{value} uncompressed")
    footer_bytes = reader.footer_size
    offset = size - footer_bytes - 2 * _MAGIC_BYTES
    yield Annotation(offset, footer_bytes, "footer", f"{reader.num_rows} rows")
    for key, value in reader.key_values.items():
        rule = "BLOOM-1" if "hoodie" in key or "hudi" in key else None
        yield Annotation(offset, footer_bytes, f"footer.{key}", text_of(value), rule)
    yield Annotation(size - 2 * _MAGIC_BYTES, _MAGIC_BYTES, "footer.length", str(footer_bytes))
    yield Annotation(size - _MAGIC_BYTES, _MAGIC_BYTES, "magic", "PAR1")
