"""Table schemas with column ids, which let columns be renamed, dropped and re-added.

Pure. Sources: `SerDeHelper`, `InternalSchema`, `InternalSchemaBuilder`,
`InternalSchemaUtils.searchSchema`. A commit holds its schema as `latest_schema` in its extra
metadata; `.hoodie/.schema/<instant>.schemacommit` holds every schema so far, newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.timeline.timeline_record import Int32, Int64
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "ArrayType",
    "Field",
    "InternalSchema",
    "InternalType",
    "MapType",
    "RecordType",
    "decode_schema_history",
    "encode_schema_history",
    "find_schema_in_force",
    "format_internal_schema",
    "full_names",
    "parse_internal_schema",
]
NO_COLUMN = -1


class Field(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column or a field of a record. The id stays after a rename, and is never reused."""

    id: Int32
    name: str
    optional: bool
    type: InternalType
    doc: str | None = None


class RecordType(msgspec.Struct, frozen=True, tag_field="type", tag="record"):
    """A nested record."""

    fields: tuple[Field, ...]


class ArrayType(msgspec.Struct, frozen=True, tag_field="type", tag="array"):
    """A list."""

    element_id: Int32
    element: InternalType
    element_optional: bool


class MapType(msgspec.Struct, frozen=True, tag_field="type", tag="map"):
    """A map."""

    key_id: Int32
    key: InternalType
    value_id: Int32
    value: InternalType
    value_optional: bool


InternalType = str | RecordType | ArrayType | MapType
"""A nested type, or a primitive as Hudi spells it: `long`, `decimal(10, 2)`, `fixed[16]`.

Primitives stay text, so that an unknown primitive affects only readers of its column.
"""


class InternalSchema(msgspec.Struct, frozen=True, tag_field="type", tag="record"):
    """A table schema. `version_id` is the instant, as a number, that introduced the schema.

    `max_column_id` is the highest id ever assigned: higher than any id in `fields` if the newest
    column was dropped.
    """

    fields: tuple[Field, ...]
    version_id: Int64 = 0
    max_column_id: Int32 = NO_COLUMN


class SchemaHistory(msgspec.Struct, frozen=True):
    """The JSON of a `.schemacommit`."""

    schemas: list[InternalSchema]


prepare_to_decode(InternalSchema, SchemaHistory)


def parse_internal_schema(text: str, limits: Limits = DEFAULT_LIMITS) -> InternalSchema:
    """Return the schema in the JSON of `latest_schema`.

    Raises:
        CorruptError: the text is not such JSON, or two columns share an id.
        LimitError: the schema has too many fields, or is nested too deeply.
    """
    return _checked(decode_json(text, InternalSchema, "internal schema"), limits)


def format_internal_schema(schema: InternalSchema) -> str:
    """Return the JSON of `latest_schema`, as Hudi writes it."""
    fields = msgspec.to_builtins(schema.fields)
    ids = {"max_column_id": schema.max_column_id, "version_id": schema.version_id}
    return msgspec.json.encode({**ids, "type": "record", "fields": fields}).decode()


def decode_schema_history(
    data: Buffer, limits: Limits = DEFAULT_LIMITS
) -> tuple[InternalSchema, ...]:
    """Return the schemas of a `.schemacommit` file, newest first as stored.

    Only files whose instant is a completed commit count, and of those the newest.

    Raises:
        CorruptError: the bytes are not such JSON, or two columns of one schema share an id.
        LimitError: the file, or a schema in it, exceeds a limit.
    """
    limits.check("timeline_file_bytes_max", len(data))
    history = decode_json(data, SchemaHistory, "schema history")
    return tuple(_checked(schema, limits) for schema in history.schemas)


def encode_schema_history(schemas: Iterable[InternalSchema]) -> bytes:
    """Return the JSON of a `.schemacommit` file; `schemas` come newest first."""
    return f'{{"schemas":[{",".join(map(format_internal_schema, schemas))}]}}'.encode()


def find_schema_in_force(
    schemas: Sequence[InternalSchema], commit_time: str
) -> InternalSchema | None:
    """Return the schema that files of the instant `commit_time` were written with.

    This is the newest schema that is not newer than the commit; None if all schemas are newer.
    """
    instant = int(commit_time)
    older = [schema for schema in schemas if schema.version_id <= instant]
    return max(older, key=lambda schema: schema.version_id, default=None)


def full_names(schema: InternalSchema) -> dict[int, str]:
    """Return {id: full name} of every column and nested field.

    Parts are joined by dots; a list's element is `element`, a map's are `key` and `value`.
    """
    return {column_id: ".".join(path) for column_id, path in _ids(schema, ())}


def _checked(schema: InternalSchema, limits: Limits) -> InternalSchema:
    ids: set[int] = set()
    for column_id, path in _ids(schema, ()):
        limits.check("schema_depth_max", len(path))
        if column_id in ids:
            raise CorruptError(
                f"internal schema: column {path[-1]} has the id {column_id}, which "
                "another column has too"
            )
        ids.add(column_id)
        limits.check("schema_fields_max", len(ids))
    if schema.max_column_id == NO_COLUMN:
        return msgspec.structs.replace(schema, max_column_id=max(ids, default=NO_COLUMN))
    return schema


def _ids(
    kind: InternalType | InternalSchema, path: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (id, path) depth first, a parent before its children."""
    children: list[tuple[int, str, InternalType]] = []
    match kind:
        case RecordType(fields=fields) | InternalSchema(fields=fields):
            children = [(field.id, field.name, field.type) for field in fields]
        case ArrayType():
            children = [(kind.element_id, "element", kind.element)]
        case MapType():
            children = [(kind.key_id, "key", kind.key), (kind.value_id, "value", kind.value)]
    for column_id, name, child in children:
        yield column_id, (*path, name)
        yield from _ids(child, (*path, name))
