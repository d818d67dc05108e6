from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.log.delete_records import DeleteRecord
from bucketfmt.format.log.kryo_deletes import KryoDelete, decode_kryo_deletes, encode_kryo_deletes
from bucketfmt.format.log.ordering_values import (
    NO_ORDERING_VALUE,
    OrderingKind,
    OrderingValue,
    RawOrderingValue,
)
from bucketfmt.limits import Limits
from tests.format.log.delete_strategies import KRYO, VECTORS, delete_records

K = OrderingKind
HUDI = VECTORS["kryo"]
ONE_DELETE = bytes.fromhex(HUDI["DeleteRecord[1] int0"])[:-2]  # up to the ordering value

KEYS: dict[str, list[tuple[str, str]]] = {
    "HoodieKey[1]": [("k1", "p1")],
    "HoodieKey[2]": [("k1", "p1"), ("key-ü", "p1")],
    "HoodieKey[0]": [],
    "HoodieKey same ref": [("k1", "p1"), ("k1", "p1")],
    "HoodieKey emptypart": [("k1", "")],
    "HoodieKey 1char": [("a", "b")],
    "HoodieKey len63/64/65": [("a" * 63, "b" * 64), ("c" * 65, "é" * 63)],
    "HoodieKey shared String": [("k1", "part"), ("k2", "part")],
}
VALUES: dict[str, tuple[OrderingKind, RawOrderingValue]] = {
    "int0": (K.INT, 0),
    "int100": (K.INT, 100),
    "int-1": (K.INT, -1),
    "long5": (K.LONG, 5),
    "long big": (K.LONG, 1_700_000_000_000),
    "double": (K.DOUBLE, 1.5),
    "float": (K.FLOAT, 1.5),
    "string": (K.STRING, "abc"),
    "stringEmpty": (K.STRING, ""),
    "bool": (K.BOOLEAN, True),
    "BigDecimal": (K.DECIMAL, Decimal("12.34")),
    "BigInteger": (K.BIG_INTEGER, 1234),
    "sqlTimestamp": (K.TIMESTAMP_MICROS, 1_700_000_000_123_000),
    "sqlDate": (K.DATE, 19724),
    "localdate": (K.LOCAL_DATE, 19724),
    "instant": (K.INSTANT, 1_700_000_000_123_000_000),
}
MORE_VALUES: dict[str, tuple[OrderingKind, RawOrderingValue]] = {
    "longmin": (K.LONG, -(1 << 63)),
    "longmax": (K.LONG, (1 << 63) - 1),
    "intmin": (K.INT, -(1 << 31)),
    "intmax": (K.INT, (1 << 31) - 1),
    "long2^54": (K.LONG, 1 << 54),
    "long2^55": (K.LONG, 1 << 55),
    "long-2^55": (K.LONG, -(1 << 55)),
    "ts-1": (K.TIMESTAMP_MICROS, -1000),
    "ts-1001": (K.TIMESTAMP_MICROS, -100_100_000),
    "date1969": (K.DATE, -1),
    "bd0": (K.DECIMAL, Decimal(0)),
    "bd-1.50": (K.DECIMAL, Decimal("-1.50")),
    "bd1E5": (K.DECIMAL, Decimal("1E+5")),
    "bi0": (K.BIG_INTEGER, 0),
    "bi128": (K.BIG_INTEGER, 128),
    "bi-128": (K.BIG_INTEGER, -128),
    "bi-129": (K.BIG_INTEGER, -129),
    "str-emoji": (K.STRING, "a😀b"),
    "str-nul": (K.STRING, "a\0b"),
    "str-e": (K.STRING, "é"),
    "str-x": (K.STRING, "x"),
    "str64": (K.STRING, "0123456789" * 6 + "0123"),
    "localdate": (K.LOCAL_DATE, -1),
    "instant-": (K.INSTANT, -999_999_995),
    "null": (K.NULL, None),
    "bool": (K.BOOLEAN, False),
    "arr0": (K.ARRAY, ()),
}


def one(kind: OrderingKind, value: RawOrderingValue) -> list[KryoDelete]:
    return [("k1", "p1", OrderingValue(kind, value))]


def java(name: str) -> bytes:
    """A class by name, the third to be named."""
    encoded = name.encode()
    return b"\1\3" + encoded[:-1] + bytes((encoded[-1] | 0x80,))


@pytest.mark.parametrize("name", KEYS)
def test_key_arrays_of_hudi(name: str) -> None:
    payload = bytes.fromhex(HUDI[name])
    deletes = [(*key, NO_ORDERING_VALUE) for key in KEYS[name]]
    assert decode_kryo_deletes(payload, 1) == deletes
    assert encode_kryo_deletes(deletes, 1) == payload


def test_key_without_partition_path() -> None:
    payload = bytearray.fromhex(HUDI["HoodieKey nullpart"])  # and a null key behind it
    with pytest.raises(CorruptError, match="None where"):
        decode_kryo_deletes(payload, 1)
    payload[payload.index(b"\xbb\1") + 2] = 2
    deletes = [("k1", None, NO_ORDERING_VALUE)]
    assert decode_kryo_deletes(payload[:-1], 1) == deletes
    assert encode_kryo_deletes(deletes, 1) == payload[:-1]


@pytest.mark.parametrize("name", VALUES)
def test_ordering_values_of_hudi(name: str) -> None:
    payload = bytes.fromhex(HUDI[f"DeleteRecord[1] {name}"])
    deletes = one(*VALUES[name])
    assert decode_kryo_deletes(payload, 2) == deletes
    assert encode_kryo_deletes(deletes, 2) == payload


@pytest.mark.parametrize("name", MORE_VALUES)
def test_more_ordering_values_of_hudi(name: str) -> None:
    payload = ONE_DELETE + bytes.fromhex(VECTORS["hudi_1_2"][name])
    deletes = one(*MORE_VALUES[name])
    assert decode_kryo_deletes(payload, 2) == deletes
    assert encode_kryo_deletes(deletes, 2) == payload


def test_decimals_keep_their_scale() -> None:
    payload = ONE_DELETE + bytes.fromhex(VECTORS["hudi_1_2"]["bd-1.50"])
    assert str(decode_kryo_deletes(payload, 2)[0][2].value) == "-1.50"


@pytest.mark.parametrize("value", ["1e0104616263", "2c0104616263", "2d0104616263", "2e0104616263"])
def test_avro_texts_of_each_release(value: str) -> None:
    assert decode_kryo_deletes(ONE_DELETE + bytes.fromhex(value), 2) == one(K.STRING, "abc")


def test_avro_text_by_class_name() -> None:
    payload = ONE_DELETE + java("org.apache.avro.util.Utf8") + b"\1\4abc"
    assert decode_kryo_deletes(payload, 2) == one(K.STRING, "abc")
    assert bytes.fromhex(HUDI["DeleteRecord[1] Utf8"]) == ONE_DELETE + b"\x2e\1\4abc"


@pytest.mark.parametrize(
    ("name", "deletes"),
    [
        (
            "DeleteRecord[3] long",
            [
                *one(K.LONG, 5),
                ("k2", "p1", OrderingValue(K.LONG, 6)),
                ("k3", "p1", OrderingValue(K.INT, 7)),
            ],
        ),
        ("DeleteRecord[2] nocompare", [*one(K.INT, 0), ("k2", "p1", NO_ORDERING_VALUE)]),
        (
            "DeleteRecord[2] shared Integer obj",
            [*one(K.INT, 100_000), ("k2", "p1", OrderingValue(K.INT, 100_000))],
        ),
        (
            "DeleteRecord ArrayComparable",
            one(K.ARRAY, (OrderingValue(K.LONG, 5), OrderingValue(K.STRING, "abc"))),
        ),
    ],
)
def test_delete_arrays_of_hudi(name: str, deletes: list[KryoDelete]) -> None:
    payload = bytes.fromhex(HUDI[name])
    assert decode_kryo_deletes(payload, 2) == deletes
    assert encode_kryo_deletes(deletes, 2) == payload


def test_shared_objects_of_hudi() -> None:
    arrays = VECTORS["hudi_1_2_arrays"]
    part = OrderingValue(K.STRING, "part")
    assert decode_kryo_deletes(bytes.fromhex(arrays["order-shares-path"]), 2) == [
        ("part", "part", part),
        ("x", "part", part),
    ]
    assert decode_kryo_deletes(bytes.fromhex(arrays["samerec"]), 2) == one(K.LONG, 5) * 2
    same_key = [*one(K.LONG, 5), *one(K.LONG, 6)]
    assert decode_kryo_deletes(bytes.fromhex(arrays["samekey2"]), 2) == same_key
    assert encode_kryo_deletes(same_key, 2).hex() == arrays["samekey2"]
    array = ONE_DELETE + bytes.fromhex(VECTORS["hudi_1_2"]["arr"])
    assert decode_kryo_deletes(array, 2) == one(
        K.ARRAY,
        (
            OrderingValue(K.NULL, None),
            OrderingValue(K.STRING, "p1"),
            OrderingValue(K.DECIMAL, Decimal(1)),
            OrderingValue(K.INT, 3),
            OrderingValue(K.LOCAL_DATE, 19724),
        ),
    )


@pytest.mark.parametrize("name", ["nullelem", "nullkey"])
def test_nulls_on_which_hudi_fails_too(name: str) -> None:
    with pytest.raises(CorruptError, match="None where"):
        decode_kryo_deletes(bytes.fromhex(VECTORS["hudi_1_2_arrays"][name]), 2)


def test_half_a_surrogate_pair_is_no_key() -> None:
    with pytest.raises(CorruptError, match="not valid Unicode"):
        decode_kryo_deletes(ONE_DELETE + bytes.fromhex(VECTORS["hudi_1_2"]["str-lone"]), 2)
    with pytest.raises(UnicodeEncodeError):
        encode_kryo_deletes([("\ud83d", "", NO_ORDERING_VALUE)], 1)


def test_every_vector_is_used() -> None:
    arrays = {name for name in HUDI if name.startswith("DeleteRecord") and "[1]" not in name}
    assert len(arrays) == 4
    singles = {f"DeleteRecord[1] {name}" for name in VALUES} | {"DeleteRecord[1] Utf8"}
    assert HUDI.keys() == arrays | singles | KEYS.keys() | {"HoodieKey nullpart"}


@given(delete_records(KRYO, frozenset()))
def test_round_trip(records: list[DeleteRecord]) -> None:
    assert decode_kryo_deletes(encode_kryo_deletes(records, 2), 2) == records
    keys = [record._replace(ordering_value=NO_ORDERING_VALUE) for record in records]
    assert decode_kryo_deletes(encode_kryo_deletes(records, 1), 1) == keys


@given(delete_records(KRYO, frozenset()), st.data())
def test_damage_decodes_or_is_refused(records: list[DeleteRecord], data: st.DataObject) -> None:
    payload = bytearray(encode_kryo_deletes(records, 2))
    position = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(CorruptError):
        decode_kryo_deletes(payload[:position], 2)
    payload[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BucketfmtError):
        decode_kryo_deletes(payload, 2)


@given(st.sampled_from([b"", ONE_DELETE, ONE_DELETE[:45]]), st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(head: bytes, tail: bytes) -> None:
    for version in (1, 2):
        with contextlib.suppress(BucketfmtError):
            decode_kryo_deletes(head + tail, version)


FOREIGN_CLASSES = [
    "java.lang.Runtime",
    "java.lang.ProcessBuilder",
    "java.lang.Thread",
    "java.lang.Class",
    "java.lang.Object",
    "java.lang.Integer",
    "java.lang.String",
    "java.lang.StringBuilder",
    "java.util.Date",
    "java.sql.Time",
    "java.util.HashMap",
    "java.util.HashSet",
    "java.util.ArrayList",
    "java.util.PriorityQueue",
    "java.util.TreeMap",
    "java.util.concurrent.ConcurrentHashMap",
    "java.net.URL",
    "java.net.URLClassLoader",
    "java.io.File",
    "java.nio.HeapByteBuffer",
    "java.security.SignedObject",
    "javax.script.ScriptEngineManager",
    "javax.management.BadAttributeValueExpException",
    "javax.naming.InitialContext",
    "com.sun.rowset.JdbcRowSetImpl",
    "com.sun.org.apache.xalan.internal.xsltc.trax.TemplatesImpl",
    "org.apache.commons.collections.functors.InvokerTransformer",
    "org.apache.hadoop.conf.Configuration",
    "org.apache.commons.beanutils.BeanComparator",
    "org.codehaus.groovy.runtime.MethodClosure",
    "org.springframework.beans.factory.config.MethodInvokingFactoryBean",
    "org.apache.spark.SparkContext",
    "org.apache.hudi.common.model.HoodieAvroRecord",
    "org.apache.hudi.common.model.HoodieKey2",
    "[Ljava.lang.Object;",
    "[Lorg.apache.hudi.common.model.HoodieRecord;",
    "[B",
    "int",
    "os.system",
    "builtins.eval",
]


@pytest.mark.rule("DEL-13")
@pytest.mark.parametrize("name", FOREIGN_CLASSES)
def test_foreign_classes_are_refused_before_they_are_read(name: str) -> None:
    payload = ONE_DELETE + java(name)
    for tail in (b"", b"\1\1\1\1", b"\xff" * 40):
        with pytest.raises(UnsupportedError, match="Java class") as caught:
            decode_kryo_deletes(payload + tail, 2)
        assert caught.value.offset == len(payload)
        with pytest.raises(UnsupportedError, match="Java class"):
            decode_kryo_deletes(java(name).replace(b"\1\3", b"\1\0", 1) + tail, 1)


@pytest.mark.parametrize("class_id", [4, 5, 6, 9, 10, 27, 29, 41, 45, 2**32 - 3])
def test_other_registered_classes_are_refused(class_id: int) -> None:
    tag, rest = bytearray(), class_id + 2
    while rest > 0x7F:
        tag.append(rest & 0x7F | 0x80)
        rest >>= 7
    tag.append(rest)
    with pytest.raises(UnsupportedError, match=f"class id {class_id}"):
        decode_kryo_deletes(ONE_DELETE + bytes(tag), 2)


def test_more_foreign_values_of_hudi() -> None:
    for name in ("short", "byte", "char", "bytes", "udate", "sqltime"):
        with pytest.raises(UnsupportedError):
            decode_kryo_deletes(ONE_DELETE + bytes.fromhex(VECTORS["hudi_1_2"][name]), 2)


COMPARABLES = (
    java("org.apache.hudi.common.util.collection.ArrayComparable")
    + b"\1\1\4[Ljava.lang.Comparable\xbb\1"
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "left"),
        (b"\3\2", "no java.lang.String"),  # the array
        (b"\3\7", "no java.lang.String"),  # not met yet: the value itself
        (b"\3\xff\x7f", "no java.lang.String"),
        (b"\1\1", "as an ordering value"),  # a DeleteRecord
        (b"\1\4", "before its name"),
        (b"\5\2", "boolean 2"),
        (b"\2\xff\xff\xff\xff\x1f", "32 bits"),
        (b"\x09\xff\xff", "left"),
        (b"\3\1\x82", "left|cannot fit"),
        (b"\3\1\x80", "negative"),
        (b"\3\1abc", "left|wanted"),
        (b"\3\1\xff\xff\xff\x1f", "cannot fit"),
        (b"\3\1\x82\xff\xff\xff", "four bytes"),
        (b"\3\1\x83\xf0\x9f\x98\x80A", "four bytes"),
        (b"\3\1\x82\xc0\x80", "Unicode"),
        (b"\x2e\1\2\xff", "UTF-8"),
        (b"\2\0\0", "follow"),
        (java("java.sql.Timestamp") + b"\1" + b"\xff" * 8 + b"\x7f", "out of range"),
        (java("java.time.LocalDate") + b"\1\xe8\x0f\x0d\1", "date 2024-13-1"),
        (java("java.time.LocalDate") + b"\1\0\1\1", "date 0-1-1"),
        (java("java.time.Instant") + b"\1\0\x80\x94\xeb\xdc\x03", "nanoseconds"),
        (COMPARABLES + b"\2\1\3\1", "as an ordering value"),
        (COMPARABLES + b"\3\3\7", "no java.lang.String"),
        (COMPARABLES + b"\xff\xff\xff\x7f", "cannot fit"),
    ],
)
def test_damage_is_named(value: bytes, message: str) -> None:
    with pytest.raises(CorruptError, match=message):
        decode_kryo_deletes(ONE_DELETE + value, 2)


def test_numbers_nobody_orders_by_are_refused() -> None:
    for value in (
        java("java.math.BigInteger") + b"\1\x22" + b"\1" * 33,
        java("java.math.BigDecimal") + b"\1\2\1" + b"\xff\xff\xff\xff\x0f",
        java("java.sql.Date") + b"\1\1",  # one millisecond past midnight
    ):
        with pytest.raises(UnsupportedError):
            decode_kryo_deletes(ONE_DELETE + value, 2)


def test_version_and_class_must_agree() -> None:
    for name, version in (("HoodieKey[1]", 2), ("DeleteRecord[1] int0", 1)):
        with pytest.raises(CorruptError, match="must be"):
            decode_kryo_deletes(bytes.fromhex(HUDI[name]), version)


def test_kinds_that_kryo_cannot_write() -> None:
    for kind in (K.BYTES, K.TIME_MICROS):
        with pytest.raises(UnsupportedError, match=kind.name):
            encode_kryo_deletes(one(kind, None), 2)


def test_objects_are_bounded() -> None:
    payload = bytes.fromhex(HUDI["HoodieKey[2]"])
    with pytest.raises(LimitError, match="kryo_objects_max"):
        decode_kryo_deletes(payload, 1, Limits(kryo_objects_max=4))
    assert len(decode_kryo_deletes(payload, 1, Limits(kryo_objects_max=6))) == 2
