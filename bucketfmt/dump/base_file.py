"""Parquet base files annotated: the footer, and where each column chunk stands. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bucketfmt.dump.annotation import Annotation, annotated_damage, text_of
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.cursor import Buffer, Cursor
from bucketfmt.limits import Limits
from bucketfmt.rows.base_file import BaseFileReader

__all__ = ["annotate_base_file"]

_MAGIC_BYTES = 4


def annotate_base_file(data: Buffer, limits: Limits) -> Iterator[Annotation]:
    """Yield the footer's entries and each row group's column chunks."""
    size = len(data)
    try:
        reader = BaseFileReader(pa.py_buffer(data), limits)
    except BucketfmtError as error:
        yield from annotated_damage("damage", error, Cursor(data))
        return
    yield Annotation(0, _MAGIC_BYTES, "magic", "PAR1")
    for number in range(reader.metadata.num_row_groups):
        group = reader.metadata.row_group(number)
        name = f"row_group[{number}]"
        for index in range(group.num_columns):
            chunk = group.column(index)
            offset = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                offset = min(offset, chunk.dictionary_page_offset)
            value = f"{chunk.num_values} values, {chunk.compression}"
            length = chunk.total_compressed_size
            yield Annotation(offset, length, f"{name}.{chunk.path_in_schema}", value)
    footer_bytes = reader.metadata.serialized_size
    offset = size - footer_bytes - 2 * _MAGIC_BYTES
    yield Annotation(offset, footer_bytes, "footer", f"{reader.num_rows} rows")
    for key, value in reader.key_values.items():
        rule = "BLOOM-1" if "hoodie" in key or "hudi" in key else None
        yield Annotation(offset, footer_bytes, f"footer.{key}", text_of(value), rule)
    yield Annotation(size - 2 * _MAGIC_BYTES, _MAGIC_BYTES, "footer.length", str(footer_bytes))
    yield Annotation(size - _MAGIC_BYTES, _MAGIC_BYTES, "magic", "PAR1")
