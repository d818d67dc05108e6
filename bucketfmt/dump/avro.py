"""Annotates Avro: containers, and single values under a schema. Pure.

A second reading of the encoding beside `avro_container`, because fastavro returns values
without their places.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from bucketfmt.dump.annotation import Annotation, annotated_damage, text_of
from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.encoding.avro_container import (
    CONTAINER_MAGIC,
    AvroSchema,
    check_writer_schema,
)
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.limits import Limits

__all__ = ["annotate_container", "annotate_value"]

_SYNC_BYTES = 16

_SCALARS: Mapping[str, Callable[[Cursor], object]] = {
    "boolean": lambda cursor: cursor.u8() != 0,
    "int": lambda cursor: cursor.zigzag(32),
    "long": lambda cursor: cursor.zigzag(64),
    "float": lambda cursor: struct.unpack("<f", cursor.take(4, "float"))[0],
    "double": lambda cursor: struct.unpack("<d", cursor.take(8, "double"))[0],
    "bytes": lambda cursor: cursor.take(cursor.zigzag(64), "bytes"),
    "string": lambda cursor: cursor.utf8(cursor.zigzag(64), "string"),
    "enum": lambda cursor: cursor.zigzag(32),
}


def annotate_container(
    data: Buffer, limits: Limits, rules: Mapping[str, str]
) -> Iterator[Annotation]:
    """Yield the fields of an Avro container file. `rules` maps a field's name to its rule."""
    cursor = Cursor(data, limits=limits)
    try:
        magic = bytes(cursor.take(len(CONTAINER_MAGIC), "magic"))
        if magic != CONTAINER_MAGIC:
            raise CorruptError("the file is not an Avro container", offset=0)
        yield Annotation(0, len(magic), "magic", "Obj1", "META-1")
        schema: AvroSchema = None
        while count := cursor.zigzag(what="header count"):
            if count < 0:
                cursor.zigzag(what="header block size")
            for _ in range(cursor.count(abs(count), 2, "header entries")):
                offset = cursor.position
                key = cursor.utf8(cursor.zigzag(what="header key"), "header key")
                value = cursor.take(cursor.zigzag(what="header value"), "header value")
                shown = text_of(str(value, "utf-8", "replace"))
                yield Annotation(offset, cursor.position - offset, f"header.{key}", shown, "META-1")
                if key == "avro.schema":
                    schema = check_writer_schema(decode_json(value, object, key), limits)
        offset = cursor.position
        sync = bytes(cursor.take(_SYNC_BYTES, "sync marker"))
        yield Annotation(offset, _SYNC_BYTES, "sync", text_of(sync), "META-1")
        number = 0
        while cursor.remaining:
            yield from _annotate_block(cursor, number, schema, sync, rules)
            number += 1
    except BucketfmtError as error:
        yield from annotated_damage("damage", error, cursor)


def _annotate_block(
    cursor: Cursor, number: int, schema: AvroSchema, sync: bytes, rules: Mapping[str, str]
) -> Iterator[Annotation]:
    offset = cursor.position
    count = cursor.zigzag(what="block count")
    size = cursor.zigzag(what="block size")
    name = f"block[{number}]"
    length = cursor.position - offset
    yield Annotation(offset, length, name, f"{count} records, {size} bytes", "META-1")
    for index in range(cursor.count(count, 1, "records of a block")):
        for annotation in annotate_value(cursor, schema, f"{name}.record[{index}]"):
            rule = rules.get(annotation.field.rpartition(".")[2])
            yield replace(annotation, rule=rule) if rule else annotation
    offset = cursor.position
    found = bytes(cursor.take(_SYNC_BYTES, "sync marker"))
    yield Annotation(
        offset, _SYNC_BYTES, f"{name}.sync", text_of(found), "META-1", is_damage=found != sync
    )


def annotate_value(cursor: Cursor, schema: AvroSchema, field: str) -> Iterator[Annotation]:
    """Yield the scalars of one value, each with its place; `schema` was checked before.

    Raises:
        CorruptError: the bytes are not a value of the schema.
    """
    yield from _Walker(schema).walk(cursor, schema, field)


class _Walker:
    def __init__(self, schema: AvroSchema) -> None:
        self._named: dict[str, AvroSchema] = {}
        self._collect(schema)

    def _collect(self, schema: AvroSchema) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
        elif isinstance(schema, dict):
            if "name" in schema:
                self._named[schema["name"]] = schema
            for inner in ("items", "values", "type"):
                if isinstance(schema.get(inner), dict | list):
                    self._collect(schema[inner])
            for entry in schema.get("fields", ()):
                self._collect(entry["type"])

    def walk(  # noqa: PLR0912  (a branch a type)
        self, cursor: Cursor, schema: Any, field: str
    ) -> Iterator[Annotation]:
        start = cursor.position
        if isinstance(schema, list):
            branch = cursor.zigzag(32, "union branch")
            if not 0 <= branch < len(schema):
                raise CorruptError(f"{field}: the union has no branch {branch}", offset=start)
            if schema[branch] == "null":
                yield Annotation(start, cursor.position - start, field, "null")
            else:
                yield from self.walk(cursor, schema[branch], field)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            yield from self.walk(cursor, kind, field)
        elif kind in self._named and kind not in _SCALARS:
            yield from self.walk(cursor, self._named[kind], field)
        elif kind == "record":
            for entry in schema["fields"]:
                yield from self.walk(cursor, entry["type"], f"{field}.{entry['name']}")
        elif kind == "array":
            for index in self._items(cursor):
                yield from self.walk(cursor, schema["items"], f"{field}[{index}]")
        elif kind == "map":
            for _ in self._items(cursor):
                key = cursor.utf8(cursor.zigzag(64), "map key")
                yield from self.walk(cursor, schema["values"], f"{field}[{key!r}]")
        elif kind == "null":
            yield Annotation(start, 0, field, "null")
        else:
            read = _SCALARS.get(kind)
            value = read(cursor) if read else cursor.take(int(schema["size"]), "fixed")
            yield Annotation(start, cursor.position - start, field, text_of(value))

    def _items(self, cursor: Cursor) -> Iterator[int]:
        index = 0
        while count := cursor.zigzag(64, "item count"):
            if count < 0:
                cursor.zigzag(64, "item block size")
            for _ in range(cursor.count(abs(count), 1, "items")):
                yield index
                index += 1
