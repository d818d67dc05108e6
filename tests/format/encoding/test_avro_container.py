from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)
from bucketfmt.format.encoding.avro_container import (
    check_writer_schema,
    decode_container,
    decode_datum,
    encode_container,
)
from bucketfmt.limits import Limits
from tests.format.encoding.struct_strategies import mutations
from tests.rotation import examples


def record(**fields: Any) -> dict[str, Any]:
    types = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": types}


def container(schema: Any, block: bytes, count: int = 1, codec: bytes = b"null") -> bytes:
    """A container around any bytes, right in everything else."""
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec}
    entries = b"".join(
        zigzag(len(key)) + key.encode() + zigzag(len(value)) + value
        for key, value in header.items()
    )
    sync = bytes(16)
    framed = zigzag(count) + zigzag(len(block)) + block + sync
    return b"Obj\x01" + zigzag(len(header)) + entries + zigzag(0) + sync + framed


def zigzag(value: int) -> bytes:
    value = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


SIMPLE = record(id="long", names={"type": "array", "items": ["null", "string"]})


# what is written


def test_fastavro_reads_what_is_written() -> None:
    rows = [{"id": 1, "names": ["a", None]}, {"id": -2, "names": []}]
    reader = fastavro.reader(io.BytesIO(encode_container(SIMPLE, rows)))
    assert list(reader) == rows
    assert reader.codec == "null"


def test_equal_records_give_equal_bytes() -> None:
    data = encode_container(SIMPLE, [{"id": 1, "names": []}])
    assert data == encode_container(SIMPLE, [{"id": 1, "names": []}])
    assert data[-16:] == hashlib.md5(b"\x02\x00").digest()


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "id": st.integers(-(2**63), 2**63 - 1),
                "names": st.lists(st.none() | st.text(), max_size=3),
            }
        )
    )
)
def test_round_trip(rows: list[dict[str, Any]]) -> None:
    assert decode_container(encode_container(SIMPLE, rows))[1] == rows


def test_several_blocks_are_read_in_order() -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, record(x="int"), [{"x": n} for n in range(50)], sync_interval=8)
    assert decode_container(stream.getvalue())[1] == [{"x": n} for n in range(50)]


def test_header_map_may_state_its_size() -> None:
    data = container(record(x="int"), b"\x02")
    entries = data[5 : data.index(b"\x00" * 17)]
    sized = data[:4] + zigzag(-2) + zigzag(len(entries)) + data[5:]
    assert decode_container(sized)[1] == [{"x": 1}]


# schemas


def test_the_plain_schema_has_resolved_names_and_no_annotations() -> None:
    schema = {
        "type": "record",
        "name": "Outer",
        "namespace": "a.b",
        "doc": "…",
        "fields": [
            {"name": "s", "type": {"type": "string", "avro.java.string": "String"}, "default": ""},
            {"name": "d", "type": {"type": "int", "logicalType": "date"}},
            {"name": "i", "type": ["null", {"type": "fixed", "name": "Id", "size": 2}]},
            {"name": "j", "type": "Id"},
            {"name": "e", "type": {"type": "enum", "name": "c.E", "symbols": ["X"]}},
            {"name": "m", "type": {"type": "map", "values": "a.b.Id"}},
        ],
    }
    plain = check_writer_schema(schema)
    assert plain["name"] == "a.b.Outer"
    assert {field["name"]: field["type"] for field in plain["fields"]} == {
        "s": "string",
        "d": "int",
        "i": ["null", {"type": "fixed", "name": "a.b.Id", "size": 2}],
        "j": "a.b.Id",
        "e": {"type": "enum", "name": "c.E", "symbols": ["X"]},
        "m": {"type": "map", "values": "a.b.Id"},
    }


def test_dates_beyond_any_calendar_stay_numbers() -> None:
    kinds = {
        "date": {"type": "int", "logicalType": "date"},
        "time": {"type": "long", "logicalType": "timestamp-micros"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 999999, "scale": 9},
    }
    block = zigzag(2**31 - 1) + zigzag(2**63 - 1) + zigzag(2) + b"\x7f\xff"
    assert decode_container(container(record(**kinds), block))[1] == [
        {"date": 2**31 - 1, "time": 2**63 - 1, "price": b"\x7f\xff"}
    ]


@pytest.mark.parametrize(
    "schema",
    [
        record(next=["null", "R"]),
        record(next={"type": "array", "items": "R"}),
        record(x="null"),
        record(x={"type": "null"}),
        record(x={"type": "array", "items": "null"}),
        record(x={"type": "array", "items": {"type": "record", "name": "E", "fields": []}}),
        record(x={"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
        {"type": "record", "name": "R", "fields": []},
        record(x={"type": "fixed", "name": "F", "size": -1}),
    ],
)
def test_types_without_bytes_and_recursion_are_refused(schema: Any) -> None:
    with pytest.raises(UnsupportedError):
        check_writer_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        17,
        {},
        "unknown",
        {"type": "record"},
        {"type": "array"},
        {"type": 3},
        {"type": "record", "name": "R", "fields": ["x"]},
        {"type": "record", "name": "R", "fields": [{"name": "x"}]},
        record(x={"type": "enum", "name": "E", "symbols": [1]}),
        {"type": 3, "deep": json.loads("[" * 900 + "]" * 900)},
        record(x={"type": "fixed", "name": "F", "size": 1}, y={**record(z="int"), "name": "F"}),
    ],
)
def test_what_is_no_schema_is_corrupt(schema: Any) -> None:
    with pytest.raises(CorruptError):
        check_writer_schema(schema)


def test_nesting_is_bounded_also_through_names() -> None:
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(LimitError, match="schema_depth_max"):
        check_writer_schema(deep)

    # each record is shallow as written, but holds the one before it
    fields: dict[str, Any] = {"f0": {**record(x="int"), "name": "N0"}}
    for n in range(1, 100):
        fields[f"f{n}"] = {**record(x=f"N{n - 1}"), "name": f"N{n}"}
    with pytest.raises(LimitError, match="schema_depth_max"):
        check_writer_schema(record(**fields))


def test_fields_are_bounded() -> None:
    schema = record(**{f"f{n}": "int" for n in range(100)})
    with pytest.raises(LimitError, match="schema_fields_max"):
        check_writer_schema(schema, Limits(schema_fields_max=100))


# hostile files


def test_other_codecs_are_unsupported() -> None:
    data = container(record(x="int"), b"\x02", codec=b"deflate")
    with pytest.raises(UnsupportedError, match="codec b'deflate'"):
        decode_container(data)


@pytest.mark.parametrize("size", [2**31 - 1, 2**62, 2**63 - 1, -1, -(2**63)])
@pytest.mark.parametrize(
    "kind", ["string", "bytes", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}]
)
def test_lengths_inside_records_are_not_believed(kind: Any, size: int) -> None:
    with pytest.raises(CorruptError):
        decode_container(container(record(x=kind), zigzag(size) + b"\x02\x02\x02"))


@pytest.mark.parametrize("number", [2**31 - 1, 2**62, -1, -(2**63)])
def test_lengths_of_the_frame_are_not_believed(number: int) -> None:
    good = container(record(x="int"), b"\x02")
    with pytest.raises(CorruptError):
        decode_container(container(record(x="int"), b"\x02", count=number))
    for at in (4, 5, 17):  # header entries, length of a key, length of a value
        with pytest.raises(CorruptError):
            decode_container(good[:at] + zigzag(number) + good[at + 1 :])
    size_at = good.rindex(b"\x02\x02\x02") + 1
    with pytest.raises(CorruptError):
        decode_container(good[:size_at] + zigzag(number) + good[size_at + 1 :])


def test_memory_is_bounded_whatever_a_length_says() -> None:
    """The same lengths again where an allocation of that size would kill the process."""
    script = """
import resource
from tests.format.encoding.test_avro_container import container, record, zigzag
from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.avro_container import decode_container
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
kinds = ["string", "bytes", {"type": "array", "items": "int"}, {"type": "map", "values": "int"},
         {"type": "array", "items": ["null", "int"]}, {"type": "fixed", "name": "F", "size": 2**40}]
for kind in kinds:
    for size in (2**31 - 1, 2**62, 2**63 - 1, -1, -(2**63)):
        try:
            decode_container(container(record(x=kind), zigzag(size) + bytes(1000)))
        except CorruptError:
            continue
        raise SystemExit(f"{kind} {size} decoded")
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True, timeout=60)


def test_every_cut_is_noticed() -> None:
    data = encode_container(SIMPLE, [{"id": 1, "names": ["a"]}])
    complete_header = data.index(b"\x00" + data[-16:]) + 17
    for end in range(len(data)):
        if end == complete_header:
            assert decode_container(data[:end])[1] == []
        else:
            with pytest.raises(CorruptError):
                decode_container(data[:end])


def test_a_short_file_is_truncated() -> None:
    with pytest.raises(TruncatedError):
        decode_container(b"Ob")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PAR1 and more", "do not begin with Obj1"),
        (container("int", b"\x02"), "other than records"),
        (container(record(x="int"), b"\x02\x02"), "1 bytes follow the last"),
        (container(record(x="string"), b"\x02\xff"), "UnicodeDecodeError"),
        (container(record(x=["null", "int"]), b"\x08"), "IndexError"),
        (container(record(x="int"), b"\x02").replace(b"avro.schema", b"avro.schemo"), "without"),
        (container(record(x="int"), b"\x02")[:-1] + b"\x01", "sync marker"),
        (container(record(x="int"), b"\x02").replace(b'{"type"', b'("type"', 1), "avro.schema: "),
    ],
)
def test_what_is_wrong_is_said(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason):
        decode_container(data)


def test_size_is_bounded() -> None:
    with pytest.raises(LimitError, match="timeline_file_bytes_max"):
        decode_container(bytes(11), Limits(timeline_file_bytes_max=10))


def test_a_datum_fills_its_bytes() -> None:
    schema = check_writer_schema("long")
    assert decode_datum(b"\x03", schema) == -2
    with pytest.raises(CorruptError, match="1 bytes follow"):
        decode_datum(b"\x03\x00", schema)
    with pytest.raises(CorruptError, match="EOFError"):
        decode_datum(b"", schema)


@given(mutations(encode_container(SIMPLE, [{"id": 7, "names": ["a", None, "é"]}])))
@settings(max_examples=examples(300))
def test_any_change_decodes_or_raises_our_error(data: bytes) -> None:
    try:
        schema, rows = decode_container(data)
    except BucketfmtError:
        return
    assert schema["type"] == "record"
    assert all(isinstance(row, dict) for row in rows)


@given(
    st.recursive(
        st.sampled_from(["int", "null", "string", "R", "record", "", 1, None]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.fixed_dictionaries(
                {"type": inner},
                optional={
                    "name": inner,
                    "items": inner,
                    "values": inner,
                    "namespace": inner,
                    "size": inner,
                    "symbols": inner,
                    "fields": st.lists(
                        st.fixed_dictionaries({"name": inner, "type": inner}), max_size=2
                    ),
                },
            )
        ),
        max_leaves=8,
    )
)
@settings(max_examples=examples(300))
def test_any_schema_is_plain_or_refused(schema: Any) -> None:
    try:
        plain = check_writer_schema(schema)
    except BucketfmtError:
        return
    assert check_writer_schema(plain) == plain


def test_hudi_files_are_one_record_under_a_named_schema(
    golden: Callable[[str, str], Path],
) -> None:
    timeline = golden("1.2.0", "cleaned") / ".hoodie" / "timeline"
    [path] = timeline.glob("20261121044224076.compaction.requested")
    schema, rows = decode_container(path.read_bytes())
    assert schema["name"] == "org.apache.hudi.avro.model.HoodieCompactionPlan"
    assert [row["version"] for row in rows] == [2]
