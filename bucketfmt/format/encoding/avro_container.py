"""Avro object container files, read as untrusted input and written as Hudi writes them.

Pure. Source: the Avro 1.11 specification, "Object Container Files"; Hudi:
`TimelineMetadataUtils.serializeAvroMetadata` (codec null, one record).

The frame is read by `Cursor`; fastavro decodes records only, and only under a writer
schema that was checked first. Refused are recursive types (unbounded depth) and types whose values
take no bytes (2**62 such values would cost nothing in the file).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import msgspec

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "CONTAINER_MAGIC",
    "AvroBlock",
    "AvroSchema",
    "check_writer_schema",
    "container_of",
    "decode_container",
    "decode_datum",
    "encode_container",
    "encode_datum",
    "split_container",
]

AvroSchema = Any  # the JSON form of an Avro schema: a name, a list (union) or an object

CONTAINER_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_KEPT_SCHEMA_BYTES_MAX = 1 << 16
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


def decode_container(
    data: Buffer, limits: Limits = DEFAULT_LIMITS
) -> tuple[AvroSchema, list[dict[str, Any]]]:
    """Return (writer schema, records); the schema as `check_writer_schema` returns it, shared.

    Raises:
        CorruptError: the bytes are not an Avro container of records.
        UnsupportedError: the file is compressed, or Hudi never writes such a schema.
        LimitError: the file or its schema exceeds a limit.
    """
    schema, blocks = split_container(data, limits)
    records: list[dict[str, Any]] = []
    for block in blocks:
        records += _read_block(block, schema)
    return schema, records


class AvroBlock(NamedTuple):
    """One block of a container: how many values, where they begin in the file, and their bytes."""

    num_values: int
    offset: int
    data: memoryview


def split_container(data: Buffer, limits: Limits) -> tuple[AvroSchema, Iterator[AvroBlock]]:
    """Return the schema and the blocks, whose values are not decoded. As `decode_container`."""
    limits.check("timeline_file_bytes_max", len(data))
    cursor = Cursor(data, limits=limits)
    if cursor.take(len(CONTAINER_MAGIC), "Avro magic") != CONTAINER_MAGIC:
        raise CorruptError("not an Avro container: the bytes do not begin with Obj1", offset=0)
    header = dict(_header_entries(cursor))
    sync = cursor.take(_SYNC_BYTES, "sync marker")
    codec = header.get("avro.codec", b"null")
    if codec != b"null":
        raise UnsupportedError(f"Avro codec {bytes(codec[:20])!r}; Hudi writes codec null")
    if "avro.schema" not in header:
        raise CorruptError("Avro container without avro.schema")
    schema = _decode_schema(header["avro.schema"], limits)
    if not (isinstance(schema, dict) and schema["type"] == "record"):
        raise CorruptError("Avro container of something other than records")
    return schema, _blocks(cursor, sync)


def _blocks(cursor: Cursor, sync: memoryview) -> Iterator[AvroBlock]:
    while cursor.remaining:
        count = cursor.zigzag(what="Avro block count")
        size = cursor.zigzag(what="Avro block size")
        offset = cursor.position
        block = cursor.take(size, "Avro block")
        # every record takes a byte at least, so the block's size bounds its count
        Cursor(block).count(count, 1, "records of an Avro block")
        yield AvroBlock(count, offset, block)
        if cursor.take(_SYNC_BYTES, "sync marker") != sync:
            raise CorruptError("Avro block does not end with its file's sync marker", offset=offset)


def encode_container(schema: AvroSchema, records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return an Avro container of `records` in one block, codec null.

    The sync marker is the MD5 of the block, so equal content gives equal bytes.
    """
    fastavro = _fastavro()
    parsed = fastavro.parse_schema(schema)
    block, count = BytesIO(), 0
    for record in records:
        fastavro.schemaless_writer(block, parsed, record)
        count += 1
    return bytes(container_of(schema, bytearray(block.getbuffer()), count))


def container_of(schema: AvroSchema, block: bytearray, count: int) -> bytearray:
    """Return an Avro container of one block of so many encoded records. As `encode_container`.

    The block becomes the container: large ones are not copied.
    """
    sync = hashlib.md5(block, usedforsecurity=False).digest()
    schema_json = msgspec.json.encode(schema)
    block[:0] = b"".join(
        (
            CONTAINER_MAGIC,
            _zigzag(1) + _zigzag(len(b"avro.schema")) + b"avro.schema",
            _zigzag(len(schema_json)) + schema_json + _zigzag(0),
            sync,
            _zigzag(count) + _zigzag(len(block)),
        )
    )
    block += sync
    return block


def decode_datum(data: Buffer, schema: AvroSchema) -> Any:
    """Return the one Avro value that fills `data`; `schema` is from `check_writer_schema`.

    Raises:
        CorruptError: the bytes are not one such value.
    """
    return _read_values(data, schema, 1)[0]


def encode_datum(schema: AvroSchema, record: Mapping[str, Any]) -> bytes:
    """Return one Avro record, without a container around it."""
    fastavro = _fastavro()
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def check_writer_schema(schema: object, limits: Limits = DEFAULT_LIMITS) -> AvroSchema:
    """Return a schema found in a file in the plain form that is safe to decode under.

    Names are resolved; logical types, defaults and documentation are left out, so that
    values arrive in their physical form (a date as an int).

    Raises:
        CorruptError: the value is not an Avro schema.
        UnsupportedError: the schema has recursive types, or types whose values take no bytes.
        LimitError: the schema has too many fields or is nested too deeply.
    """
    plain, _ = _SchemaCheck(limits).visit(schema, namespace="", depth=1)
    with _corrupt_on_failure("Avro schema"):
        return _fastavro().parse_schema(plain)


def _decode_schema(text: Buffer, limits: Limits) -> AvroSchema:
    """Return a file's writer schema, checked: most files of a table have the same."""
    if len(text) > _KEPT_SCHEMA_BYTES_MAX:
        return check_writer_schema(decode_json(text, object, "avro.schema"), limits)
    return _decode_kept_schema(bytes(text), limits)


@lru_cache(maxsize=32)
def _decode_kept_schema(text: bytes, limits: Limits) -> AvroSchema:
    return check_writer_schema(decode_json(text, object, "avro.schema"), limits)


class _SchemaCheck:
    """One walk over an untrusted schema. `visit` returns (plain form, height of its nesting)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._visited = 0
        self._heights: dict[str, int] = {}  # of the named types that are complete
        self._open: set[str] = set()  # named types around the one in hand

    def visit(
        self, schema: AvroSchema, namespace: str, depth: int, *, in_union: bool = False
    ) -> tuple[AvroSchema, int]:
        self._visited += 1
        self._limits.check("schema_fields_max", self._visited)
        self._limits.check("schema_depth_max", depth)
        match schema:
            case "null" | {"type": "null"} if in_union:
                return "null", 1
            case str():
                return self._reference(schema, namespace, depth)
            case list():
                branches = [self.visit(s, namespace, depth + 1, in_union=True) for s in schema]
                return [plain for plain, _ in branches], 1 + max(
                    (h for _, h in branches), default=0
                )
            case {"type": "array", "items": items}:
                plain, height = self.visit(items, namespace, depth + 1)
                return {"type": "array", "items": plain}, height + 1
            case {"type": "map", "values": values}:
                plain, height = self.visit(values, namespace, depth + 1)
                return {"type": "map", "values": plain}, height + 1
            case {"type": "record" | "enum" | "fixed", "name": str()}:
                return self._definition(schema, namespace, depth)
            case {"type": str() | list() | dict() as inner}:
                return self.visit(inner, namespace, depth + 1, in_union=in_union)
        raise CorruptError(f"not an Avro schema: a JSON {type(schema).__name__}")

    def _reference(self, name: str, namespace: str, depth: int) -> tuple[str, int]:
        if name in _PRIMITIVES:
            return name, 1
        if name == "null":
            raise UnsupportedError("Avro type null outside a union: values of null take no bytes")
        name = _full_name(name, namespace)
        if name in self._open:
            raise UnsupportedError(f"Avro type {name} contains itself")
        if name not in self._heights:
            raise CorruptError(f"Avro schema names an unknown type {name[:80]!r}")
        self._limits.check("schema_depth_max", depth + self._heights[name])
        return name, self._heights[name]

    def _definition(self, schema: AvroSchema, namespace: str, depth: int) -> tuple[AvroSchema, int]:
        enclosing = schema.get("namespace", namespace)
        name = _full_name(schema["name"], enclosing if isinstance(enclosing, str) else "")
        plain: dict[str, Any] = {"type": schema["type"], "name": name}
        height = 1
        self._open.add(name)
        match schema:
            case {"type": "record", "fields": [_, *_] as fields}:
                inner = name.rpartition(".")[0]
                plain["fields"] = []
                for field in fields:
                    match field:
                        case {"name": str(field_name), "type": field_type}:
                            typed, h = self.visit(field_type, inner, depth + 1)
                            plain["fields"].append({"name": field_name, "type": typed})
                            height = max(height, h + 1)
                        case _:
                            raise CorruptError(f"Avro record {name}: a field without name or type")
            case {"type": "enum", "symbols": [_, *_] as symbols}:
                plain["symbols"] = symbols
            case {"type": "fixed", "size": int(size)} if size > 0:
                plain["size"] = size
            case _:
                raise UnsupportedError(f"Avro type {name}: values of this type would take no bytes")
        self._open.discard(name)
        self._heights[name] = height
        return plain, height


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _header_entries(cursor: Cursor) -> Iterator[tuple[str, memoryview]]:
    """Yield the entries of an Avro `map<bytes>`, which is blocks of (count, entries)."""
    while count := cursor.zigzag(what="Avro header count"):
        if count < 0:  # then the size of the block in bytes follows
            cursor.zigzag(what="Avro header block size")
            count = -count
        for _ in range(cursor.count(count, 2, "Avro header entries")):
            key = cursor.utf8(cursor.zigzag(what="Avro header key"), "Avro header key")
            yield key, cursor.take(cursor.zigzag(what="Avro header value"), "Avro header value")


def _read_block(block: AvroBlock, schema: AvroSchema) -> Sequence[Any]:
    try:
        return _read_values(block.data, schema, block.num_values)
    except CorruptError as error:
        error.offset = block.offset
        raise


def _read_values(data: Buffer, schema: AvroSchema, count: int) -> Sequence[Any]:
    read_value = _fastavro().schemaless_reader
    stream = BytesIO(data)
    with _corrupt_on_failure("Avro value"):
        values = [read_value(stream, schema, None) for _ in range(count)]
    if stream.tell() != len(data):
        raise CorruptError(f"{len(data) - stream.tell()} bytes follow the last Avro value")
    return values


def _fastavro() -> Any:
    """Return fastavro. Imported when it is first used: opening most tables needs no Avro."""
    import fastavro  # noqa: PLC0415

    return fastavro


@contextmanager
def _corrupt_on_failure(what: str) -> Iterator[None]:
    """Turn exceptions of fastavro into CorruptError: fastavro has no error type for bad input."""
    try:
        yield
    except BucketfmtError:
        raise
    except MemoryError as error:
        raise LimitError.of_memory(what, error) from error
    except Exception as error:
        reason = f"{type(error).__name__} {error}"
        raise CorruptError(f"{what}: {reason[:200]}") from error


def _zigzag(value: int) -> bytes:
    """Return a non-negative long in Avro's form."""
    value <<= 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
