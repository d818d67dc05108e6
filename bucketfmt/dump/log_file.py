"""Annotates log files: frames, headers, delete payloads, first rows of data blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bucketfmt.dump.annotation import Annotation, annotated_damage, text_of
from bucketfmt.dump.avro import annotate_value
from bucketfmt.dump.hfile import annotate_hfile
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.encoding.avro_container import check_writer_schema
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.log.delete_records import AVRO_VERSION, decode_delete_block
from bucketfmt.format.log.log_block import MAGIC, BlockType, CorruptSpan, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.ordering_values import OrderingKind
from bucketfmt.format.log.virtual_log import decode_virtual_log, is_virtual_log
from bucketfmt.limits import Limits

__all__ = ["annotate_log_file"]

_WRAPPED = {
    OrderingKind.BOOLEAN: "boolean",
    OrderingKind.INT: "int",
    OrderingKind.LONG: "long",
    OrderingKind.FLOAT: "float",
    OrderingKind.DOUBLE: "double",
    OrderingKind.BYTES: "bytes",
    OrderingKind.STRING: "string",
    OrderingKind.DATE: "int",
    OrderingKind.DECIMAL: "bytes",
    OrderingKind.TIME_MICROS: "long",
    OrderingKind.TIMESTAMP_MICROS: "long",
}


def annotate_log_file(data: Buffer, limits: Limits, records_max: int) -> Iterator[Annotation]:
    """Yield every field of every block, and the first `records_max` rows of each data block."""
    try:
        for number, span in enumerate(decode_log_file(data, limits)):
            name = f"block[{number}]"
            if isinstance(span, CorruptSpan):
                length = span.end - span.offset
                yield Annotation(span.offset, length, name, span.reason, "LOG-14", is_damage=True)
            else:
                cursor = Cursor(data, span.offset, span.end, limits)
                yield from _annotate_block(cursor, span, name, records_max)
    except BucketfmtError as error:
        yield from annotated_damage("damage", error, Cursor(data, limits=limits))


def _annotate_block(
    cursor: Cursor, block: LogBlock, name: str, records_max: int
) -> Iterator[Annotation]:
    def number(field: str, value: int, size: int, rule: str, text: str = "") -> Annotation:
        return Annotation(cursor.position - size, size, f"{name}.{field}", text or str(value), rule)

    cursor.take(len(MAGIC))
    yield Annotation(block.offset, len(MAGIC), f"{name}.magic", "#HUDI#", "LOG-1")
    yield number("length", cursor.i64(), 8, "LOG-2")
    yield number("version", cursor.i32(), 4, "LOG-5")
    kind = cursor.i32()
    yield number("type", kind, 4, "LOG-6", f"{kind} {block.block_type.name}")
    entries = cursor.i32()
    yield number("header.count", entries, 4, "LOG-8")
    for _ in range(entries):
        offset = cursor.position
        key = cursor.i32()
        label = HeaderKey(key).name if key in set(HeaderKey) else str(key)
        value = text_of(cursor.utf8(cursor.i32()))
        length = cursor.position - offset
        yield Annotation(offset, length, f"{name}.header.{label}", value, "LOG-10")
    yield number("content.length", cursor.i64(), 8, "LOG-2")
    end = cursor.position + len(block.content)
    content = Cursor(cursor.data, cursor.position, end, cursor.limits)
    try:
        yield from _annotate_content(content, block, f"{name}.content", records_max)
    except BucketfmtError as error:
        yield from annotated_damage(f"{name}.content", error, content)
    cursor.take(len(block.content))
    yield number("footer.count", cursor.i32(), 4, "LOG-7")
    yield number("echo", cursor.i64(), 8, "LOG-2")


def _annotate_content(
    cursor: Cursor, block: LogBlock, name: str, records_max: int
) -> Iterator[Annotation]:
    offset, size = cursor.position, cursor.remaining
    if not size:
        return
    if block.block_type is BlockType.DELETE:
        yield from _annotate_deletes(cursor, block, name)
    elif block.block_type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
        yield Annotation(offset, 4, f"{name}.version", str(cursor.i32()), "LOG-11")
        count = cursor.i32()
        yield Annotation(offset + 4, 4, f"{name}.count", str(count), "LOG-11")
        schema = check_writer_schema(decode_json(block.schema, object, "SCHEMA"), cursor.limits)
        for index in range(min(cursor.count(count, 4, "records"), records_max)):
            length = cursor.i32()
            start = cursor.position
            record = f"{name}.record[{index}]"
            yield Annotation(start - 4, 4, f"{record}.length", str(length), "LOG-11")
            own = Cursor(cursor.data, start, start + len(cursor.take(length)), cursor.limits)
            yield from annotate_value(own, schema, record)
        if count > records_max:
            left = f"{count - records_max} more records"
            yield Annotation(cursor.position, cursor.remaining, f"{name}.records", left)
    elif block.block_type is BlockType.HFILE_DATA:
        yield from annotate_hfile(
            block.content, cursor.limits, records_max, at=offset, name=f"{name}."
        )
    elif is_virtual_log(block):
        for number, file in enumerate(decode_virtual_log(block, cursor.limits).files):
            text = f"{file.name}, {file.size} bytes"
            yield Annotation(offset, size, f"{name}.log_files[{number}]", text, "VLOG-4")
    else:
        yield Annotation(offset, size, name, f"{block.block_type.name}, {size} bytes", "LOG-12")


def _annotate_deletes(cursor: Cursor, block: LogBlock, name: str) -> Iterator[Annotation]:
    offset = cursor.position
    version = cursor.i32()
    yield Annotation(offset, 4, f"{name}.version", str(version), "DEL-1")
    yield Annotation(offset + 4, 4, f"{name}.length", str(cursor.i32()), "DEL-1")
    if version == AVRO_VERSION:
        yield from annotate_value(cursor, _delete_list_schema(), name)
        return
    # Kryo shares objects by reference: a record has no bytes of its own.
    for index, record in enumerate(decode_delete_block(block.content, cursor.limits)):
        ordering = record.ordering_value
        place = f"{record.record_key} in {record.partition_path}"
        value = f"{place}, {ordering.kind.name} {ordering.value!r}"
        yield Annotation(
            cursor.position, cursor.remaining, f"{name}.record[{index}]", text_of(value), "DEL-11"
        )


def _delete_list_schema() -> object:
    """The schema of a version 3 payload, its wrappers named after `OrderingKind`."""

    def wrapper(kind: OrderingKind, wrapped: object) -> dict[str, object]:
        fields = [{"name": kind.name, "type": wrapped}]
        return {"type": "record", "name": f"Ordering{kind.name}", "fields": fields}

    # Inside an array the same branches by name, and one for a date where the array would be.
    names = [f"Ordering{kind.name}" for kind in _WRAPPED]
    items = ["null", *names, wrapper(OrderingKind.LOCAL_DATE, "int")]
    array_wrapper = wrapper(OrderingKind.ARRAY, ["null", {"type": "array", "items": items}])
    scalars = (wrapper(kind, wrapped) for kind, wrapped in _WRAPPED.items())
    branches: list[object] = ["null", *scalars, array_wrapper]
    fields = [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": branches},
    ]
    record = {"type": "record", "name": "HoodieDeleteRecord", "fields": fields}
    array = {"type": "array", "items": record}
    return {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": array}],
    }
