"""HFiles annotated: blocks, the first records of each, file info and trailer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bucketfmt.dump.annotation import Annotation, annotated_damage, text_of
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.encoding.avro_container import check_writer_schema, decode_datum
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.hfile.trailer import TRAILER_BYTES
from bucketfmt.limits import Limits
from bucketfmt.rows.columns.meta_columns import META_COLUMNS

__all__ = ["annotate_hfile"]

_SCHEMA = b"schema"


def annotate_hfile(
    data: Buffer, limits: Limits, records_max: int, *, at: int = 0, name: str = ""
) -> Iterator[Annotation]:
    """Yield the blocks of an HFile, and of each data block the first `records_max` records.

    A block is compressed, so that what is in it has the place of the block.

    Args:
        data: The file.
        limits: Bounds on what is decoded.
        records_max: Records to show of each data block.
        at: Where the file begins in what is annotated.
        name: What stands before the name of each field.
    """
    size = len(memoryview(data))
    try:
        file = HFile.of(data, limits)
        yield from _annotate_blocks(file, records_max, at, name)
    except BucketfmtError as error:
        cursor = Cursor(data, limits=limits)
        for damage in annotated_damage(f"{name}damage", error, cursor):
            yield replace(damage, offset=damage.offset + at)
        return
    trailer = file.trailer
    yield Annotation(
        at + trailer.file_info_offset,
        size - TRAILER_BYTES - trailer.file_info_offset,
        f"{name}file_info",
        f"{len(file.file_info)} entries",
        "HFILE-14",
    )
    for key, value in file.file_info.items():
        shown = text_of(str(value, "utf-8", "replace") if key == _SCHEMA else value)
        field = f"{name}file_info.{text_of(str(key, 'utf-8', 'replace'))}"
        yield Annotation(at + trailer.file_info_offset, 0, field, shown, "HFILE-14")
    yield Annotation(
        at + size - TRAILER_BYTES,
        TRAILER_BYTES,
        f"{name}trailer",
        f"{trailer.num_entries} entries in {len(file.data_blocks)} blocks, codec "
        f"{trailer.codec.name}, index of {trailer.num_levels} level(s)",
        "HFILE-15",
    )


def _annotate_blocks(file: HFile, records_max: int, at: int, name: str) -> Iterator[Annotation]:
    schema = None
    if _SCHEMA in file.file_info:
        parsed = decode_json(file.file_info[_SCHEMA], object, "schema of the HFile")
        schema = check_writer_schema(parsed)
    for number, place in enumerate(file.data_blocks):
        entries = file.entries(number)
        field = f"{name}block[{number}]"
        offset = at + place.offset
        keys = entries.keys().to_pylist()
        values = entries.values().to_pylist()
        count = len(keys)
        yield Annotation(offset, place.size, field, f"{count} entries", "HFILE-3")
        for key, data in zip(keys[:records_max], values, strict=False):
            value = data if schema is None else _shown(decode_datum(data, schema))
            record = f"{field}.{text_of(str(key, 'utf-8', 'replace'))}"
            yield Annotation(offset, 0, record, text_of(value), "HFILE-6")
        if count > records_max:
            left = f"{count - records_max} more entries"
            yield Annotation(offset, 0, f"{field}.entries", left)
    for meta, place in file.meta_blocks.items():
        size = len(file.meta_block(meta) or b"")
        yield Annotation(
            at + place.offset, place.size, f"{name}meta[{meta}]", f"{size} bytes", "HFILE-9"
        )


def _shown(record: object) -> object:
    """Return what a record says: the members that are neither null nor Hudi's own columns."""
    if not isinstance(record, dict):
        return record
    return {
        name: value
        for name, value in record.items()
        if value is not None and name not in META_COLUMNS
    }
