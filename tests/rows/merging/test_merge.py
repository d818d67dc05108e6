from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, LimitError, UnsupportedError
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord
from bucketfmt.format.log.ordering_values import NO_ORDERING_VALUE, OrderingKind, OrderingValue
from bucketfmt.limits import Limits
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run, find_merge_columns
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import MergeRules
from tests.rotation import examples
from tests.rows.merging import merge_model as model

pytestmark = pytest.mark.rotated

NEWEST = MergeRules((), False, False)
EVENT_TIME = MergeRules(("ts",), True, True)
EVENT_TIME_UNORDERED = MergeRules((), True, True)
PAIR = MergeRules(("ts", "tie"), True, True)
OVERWRITE = MergeRules(("ts",), True, False, legacy=True, delete_operations=("D",))
DEFAULT_PAYLOAD = MergeRules(("ts",), True, True, legacy=True, delete_operations=("D",))
EVENT_TIME_PAYLOAD = MergeRules(
    ("ts",), True, True, legacy=True, marked_deletes_overrule=True, delete_operations=("D",)
)
RULES = {
    "newest": NEWEST,
    "event time": EVENT_TIME,
    "event time, no field": EVENT_TIME_UNORDERED,
    "event time, two fields": PAIR,
    "0.15 overwrite": OVERWRITE,
    "0.15 default": DEFAULT_PAYLOAD,
    "0.15 event time": EVENT_TIME_PAYLOAD,
}


def schema_of(ts: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            ("_hoodie_record_key", pa.string()),
            ("ts", ts),
            ("tie", pa.int32()),
            ("_hoodie_is_deleted", pa.bool_()),
            ("row", pa.int64()),
        ]
    )


SCHEMA = schema_of(pa.int64())


def rows(*values: tuple, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows of (key, ts, row number[, tie[, is deleted]])."""
    full = [(*value, 0, False)[:5] if len(value) < 5 else value for value in values]
    full = [(*value, *(0, False)[len(value) - 3 :]) for value in values]
    keys, ts, number, tie, deleted = zip(*full, strict=True) if full else ((),) * 5
    columns = [list(column) for column in (keys, ts, tie, deleted, number)]
    return pa.table(
        [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema
    )


def deletes(*entries: tuple[str, OrderingValue]) -> DeleteRun:
    return DeleteRun(
        DeleteBlock.from_records(DeleteRecord(key, "", value) for key, value in entries)
    )


def long(value: int) -> OrderingValue:
    return OrderingValue(OrderingKind.LONG, value)


def merged(
    base: pa.Table, log: list[Run], rules: MergeRules, schema: pa.Schema = SCHEMA
) -> list[int]:
    log_state = merge_log(log, rules, schema)
    streamed = log_state.apply(base).column("row").to_pylist()
    return sorted(streamed + log_state.remaining().column("row").to_pylist())


# ---------------------------------------------------------------------------- known cases


def test_newest_wins_without_ordering() -> None:
    log: list[Run] = [RowRun(rows(("a", 5, 1), ("b", 5, 2))), RowRun(rows(("a", 1, 3)))]
    assert merged(rows(("a", 9, 0), ("c", 9, 9)), log, NEWEST) == [2, 3, 9]


def test_greater_ordering_wins_and_ties_go_to_the_newer() -> None:
    log: list[Run] = [
        RowRun(rows(("a", 5, 1), ("b", 5, 2))),
        RowRun(rows(("a", 4, 3), ("b", 5, 4))),
    ]
    assert merged(rows(("a", 5, 10), ("b", 6, 11)), log, EVENT_TIME) == [1, 11]


def test_deletes_of_a_real_batch() -> None:
    """Facts of a real table: k1@10, k2@10, k3@10; k1 deleted @20, k2 deleted @5, k3 @10 again."""
    log: list[Run] = [RowRun(rows(("k3", 10, 4))), deletes(("k2", long(5)), ("k1", long(20)))]
    assert merged(rows(("k1", 10, 1), ("k2", 10, 2), ("k3", 10, 3)), log, EVENT_TIME) == [2, 4]


@pytest.mark.rule("MERGE-6", "MERGE-8")
def test_delete_without_ordering_wins_and_a_later_row_resurrects() -> None:
    log: list[Run] = [
        RowRun(rows(("a", 9, 1), ("b", 9, 2))),
        deletes(("a", NO_ORDERING_VALUE), ("b", NO_ORDERING_VALUE)),
        RowRun(rows(("b", 1, 3))),
    ]
    # b's row was the first after the delete; but it is older than the base row
    assert merged(rows(("a", 9, 0), ("b", 5, 5)), log, EVENT_TIME) == [5]
    assert merged(rows(("a", 9, 0), ("b", 5, 5)), log, OVERWRITE) == [3]


@pytest.mark.rule("MERGE-11")
@pytest.mark.parametrize("precision", [5, 28, 38])
def test_decimals_in_logs_of_0_15_have_no_sign(precision: int) -> None:
    """Hudi 0.15.0 read these keys so, of `decimal(28, 3)`; numbers stay numbers in the base."""
    schema = schema_of(pa.decimal128(precision, 3))

    def at(number: int, *values: tuple[str, str]) -> pa.Table:
        ordered = [(key, Decimal(ts), number) for key, ts in values]
        return rows(*ordered, schema=schema)

    first = [("a", "3"), ("b", "-5"), ("c", "-5"), ("d", "7"), ("e", "30"), ("f", "0")]
    later = [("a", "-5"), ("b", "3"), ("c", "-7"), ("d", "3"), ("e", "5"), ("f", "-0.001")]
    log: list[Run] = [RowRun(at(1, *first)), RowRun(at(2, *later))]
    won = {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1, "f": 2}

    def read(rules: MergeRules, base: pa.Table) -> dict[str, int]:
        found = merge_log(log, rules, schema).apply(base)
        return dict(zip(*found.select([0, 4]).to_pydict().values(), strict=True))

    nothing = at(0, *((key, "0") for key in won))
    assert read(OVERWRITE, nothing) == won
    assert read(EVENT_TIME, at(0, *((key, "-9") for key in won))) == {
        **dict.fromkeys("abcdef", 1),
        "b": 2,
    }
    assert read(DEFAULT_PAYLOAD, nothing) == {**won, "a": 0, "b": 0, "c": 0, "f": 0}


@pytest.mark.rule("MERGE-11")
@pytest.mark.parametrize("base_by_ordering", [False, True])
def test_a_nested_ordering_field_is_missing_in_logs_of_0_15(base_by_ordering: bool) -> None:
    """Hudi 0.15.0: base @2, then @4, then @3 in the log: it reads and compacts @3; not below @9."""
    schema = pa.schema(
        [("_hoodie_record_key", pa.string()), ("m", pa.struct([("ts", pa.int64())]))]
    )

    def at(*values: tuple[str, int]) -> pa.Table:
        return pa.Table.from_pylist(
            [{"_hoodie_record_key": key, "m": {"ts": ts}} for key, ts in values], schema
        )

    log: list[Run] = [RowRun(at(("a", 4), ("b", 4))), RowRun(at(("a", 3), ("b", 3)))]
    base = at(("a", 2), ("b", 9))
    legacy = MergeRules(("m.ts",), True, base_by_ordering, legacy=True)
    assert merge_log(log, legacy, schema).apply(base).to_pylist() == (
        at(("a", 3), ("b", 9 if base_by_ordering else 3)).to_pylist()
    )
    newer = MergeRules(("m.ts",), True, True)
    assert merge_log(log, newer, schema).apply(base).to_pylist() == (
        at(("a", 4), ("b", 9)).to_pylist()
    )


def test_delete_block_entry_yields_to_an_unordered_delete() -> None:
    log: list[Run] = [deletes(("a", NO_ORDERING_VALUE)), deletes(("a", long(3)))]
    assert merged(rows(("a", 9, 0)), log, EVENT_TIME) == []


@pytest.mark.rule("MERGE-6", "MERGE-10")
def test_delete_of_another_class_wins() -> None:
    log: list[Run] = [
        RowRun(rows(("a", 9, 1))),
        deletes(
            ("a", OrderingValue(OrderingKind.INT, 1)), ("b", OrderingValue(OrderingKind.DATE, 1))
        ),
    ]
    assert merged(rows(("b", 99, 0)), log, EVENT_TIME) == []


@pytest.mark.rule("DEL-4", "MERGE-6")
def test_long_zero_is_an_ordering_value() -> None:
    log: list[Run] = [RowRun(rows(("a", 1, 1))), deletes(("a", long(0)))]
    assert merged(rows(), log, EVENT_TIME) == [1]


@pytest.mark.rule("MERGE-12")
def test_a_won_delete_removes_any_base_row_in_0_15() -> None:
    base, log = rows(("a", 9, 0)), [deletes(("a", long(3)))]
    assert merged(base, list(log), DEFAULT_PAYLOAD) == []
    assert merged(base, list(log), EVENT_TIME) == [0]


def test_marked_rows() -> None:
    log: list[Run] = [RowRun(rows(("a", 3, 1, 0, True), ("b", 3, 2, 0, True)))]
    base = rows(("a", 9, 10), ("b", 1, 11), ("c", 1, 12, 0, True))
    assert merged(base, log, EVENT_TIME) == [10, 12]
    assert merged(base, log, DEFAULT_PAYLOAD) == [10, 12]
    assert merged(base, log, EVENT_TIME_PAYLOAD) == [12]
    assert merged(base, log, OVERWRITE) == [12]


def test_operation_marks_rows() -> None:
    schema = SCHEMA.append(pa.field("_hoodie_operation", pa.string()))
    operations = pa.array(["D", "-U", "U", "I", None])
    log = rows(*((key, 1, i) for i, key in enumerate("abcde"))).append_column(
        schema.field("_hoodie_operation"), operations
    )
    assert merge_log([RowRun(log)], EVENT_TIME, schema).remaining()["row"].to_pylist() == [2, 3, 4]
    assert merge_log([RowRun(log)], OVERWRITE, schema).remaining()["row"].to_pylist() == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize(
    ("kind", "values", "marker"),
    [
        (pa.string(), ["d", "u", None], "d"),
        (pa.int32(), [7, 8, None], "7"),
        (pa.float64(), [1, 2, None], "1.0"),
    ],
)
def test_custom_delete_marker(kind: pa.DataType, values: list, marker: str) -> None:
    schema = SCHEMA.append(pa.field("op", pa.struct([("name", kind)])))
    column = pa.array([{"name": value} for value in values], schema.field("op").type)
    log = rows(("a", 1, 0), ("b", 1, 1), ("c", 1, 2)).append_column(schema.field("op"), column)
    rules = MergeRules(("ts",), True, True, delete_field="op.name", delete_markers=(marker,))
    assert merge_log([RowRun(log)], rules, schema).remaining()["row"].to_pylist() == [1, 2]
    assert find_merge_columns(rules, schema) == [
        "_hoodie_record_key",
        "_hoodie_is_deleted",
        "ts",
        "op",
    ]


def test_only_the_first_of_equal_base_keys_is_merged() -> None:
    log = merge_log([RowRun(rows(("a", 5, 1)))], NEWEST, SCHEMA)
    first = log.apply(rows(("a", 1, 10), ("a", 1, 11)))
    second = log.apply(rows(("a", 1, 12)))
    assert sorted(first["row"].to_pylist() + second["row"].to_pylist()) == [1, 11, 12]
    assert log.remaining().num_rows == 0


def test_base_streams_in_pieces() -> None:
    log = merge_log([RowRun(rows(("a", 5, 1), ("d", 5, 2)))], EVENT_TIME, SCHEMA)
    base = rows(("a", 1, 10), ("b", 1, 11), ("c", 1, 12))
    untouched = base.slice(1)
    assert log.apply(untouched) is untouched
    out = log.apply(base.slice(0, 1))
    assert out["row"].to_pylist() == [1]
    assert log.remaining()["row"].to_pylist() == [2]
    assert log.apply(base.slice(0, 0)).num_rows == 0
    assert sorted(log.record_keys.to_pylist()) == ["a", "d"]


def test_all_rows_of_a_base_are_replaced() -> None:
    log = merge_log([RowRun(rows(("b", 5, 2), ("a", 5, 1)))], EVENT_TIME, SCHEMA)
    base = rows(("a", 1, 10), ("b", 1, 11)).replace_schema_metadata({"of": "the base"})
    out = log.apply(base)
    assert out.schema.equals(base.schema, check_metadata=True)
    assert out.to_pylist() == rows(("a", 5, 1), ("b", 5, 2)).to_pylist()
    assert (log.num_updates, log.remaining().num_rows) == (2, 0)


def test_missing_ordering_column_is_the_default() -> None:
    """0.x records the precombine field `ts` even where the table has no such column."""
    schema = pa.schema([("_hoodie_record_key", pa.string()), ("row", pa.int64())])
    log = pa.table({"_hoodie_record_key": ["a", "a"], "row": [1, 2]}, schema=schema)
    state = merge_log([RowRun(log), deletes(("a", NO_ORDERING_VALUE))], EVENT_TIME, schema)
    assert state.remaining().num_rows == 0
    assert merge_log([RowRun(log)], EVENT_TIME, schema).remaining()["row"].to_pylist() == [2]


def test_empty_log() -> None:
    state = merge_log([], EVENT_TIME, SCHEMA)
    base = rows(("a", 1, 1))
    assert state.apply(base) is base
    assert state.remaining().num_rows == 0
    assert state.remaining().schema == SCHEMA


def test_refusals() -> None:
    with pytest.raises(CorruptError, match="has no record key"):
        merge_log([RowRun(rows((None, 1, 1)))], NEWEST, SCHEMA)
    with pytest.raises(CorruptError, match="has no record key"):
        merge_log([deletes((None, long(1)))], NEWEST, SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="conform"):
        merge_log([RowRun(rows(("a", 1, 1)).drop(["tie"]))], NEWEST, SCHEMA)
    with pytest.raises(ValueError, match="conform"):
        merge_log([RowRun(rows(("a", 1, 1)))], NEWEST, SCHEMA).apply(rows().drop(["tie"]))
    with pytest.raises(LimitError, match="log_rows_bytes_max"):
        merge_log([RowRun(rows(("a", 1, 1)))], NEWEST, SCHEMA, Limits(log_rows_bytes_max=8))


# ------------------------------------------------------------------- ordering value types


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
        (pa.int64(), [None, -(2**63) + 1, -1, 0, 2**63 - 1]),
        (
            pa.float32(),
            [None, float("-inf"), -1.5, -0.0, 0.0, 1e-45, 1.5, float("inf"), float("nan")],
        ),
        (
            pa.float64(),
            [None, float("-inf"), -1.5, -0.0, 0.0, 5e-324, 1.5, float("inf"), float("nan")],
        ),
        (pa.bool_(), [None, False, True]),
        (pa.string(), [None, "", "a", "ab", "b", "é", "日本", "😀"]),
        (pa.binary(), [None, b"", b"a", b"\x7f"]),
        (pa.date32(), [-5, 0, 5]),
        (pa.timestamp("us", "UTC"), [None, -5, 0, 5]),
        (pa.timestamp("ms"), [None, -5, 0, 5]),
        (pa.decimal128(10, 2), [None, -100, 0, 1, 10**6]),
        (pa.decimal128(38, 4), [None, -100, 0, 1, 10**30]),
    ],
)
def test_types_compare_as_in_java(kind: pa.DataType, ascending: list) -> None:
    """Each value is stated twice: the greater wins wherever it stands, base or log."""
    storage = {pa.types.is_timestamp: pa.int64(), pa.types.is_date32: pa.int32()}
    plain = next((store for test, store in storage.items() if test(kind)), kind)
    values = pa.array(ascending, plain).cast(kind)
    schema = schema_of(kind)

    def row_of(index: int, number: int) -> pa.Table:
        columns = [["k"], values.slice(index, 1), [0], [False], [number]]
        arrays = [
            pa.array(c, t) if isinstance(c, list) else c
            for c, t in zip(columns, schema.types, strict=True)
        ]
        return pa.table(arrays, schema=schema)

    for low in range(len(values)):
        for high in range(low, len(values)):
            older, newer = row_of(high, 1), row_of(low, 2)
            expected = [2] if low == high else [1]
            assert (
                merged(schema.empty_table(), [RowRun(older), RowRun(newer)], EVENT_TIME, schema)
                == expected
            )
            assert merged(older, [RowRun(newer)], EVENT_TIME, schema) == expected
            assert merged(newer, [RowRun(older)], EVENT_TIME, schema) == [1]


@pytest.mark.rule("MERGE-10")
@pytest.mark.parametrize(
    ("kind", "value", "older", "newer"),
    [
        (
            pa.string(),
            "m",
            OrderingValue(OrderingKind.STRING, "a"),
            OrderingValue(OrderingKind.STRING, "z"),
        ),
        (
            pa.bool_(),
            False,
            OrderingValue(OrderingKind.BOOLEAN, False),
            OrderingValue(OrderingKind.BOOLEAN, True),
        ),
        (
            pa.float64(),
            1.5,
            OrderingValue(OrderingKind.DOUBLE, 1.0),
            OrderingValue(OrderingKind.DOUBLE, 2.0),
        ),
        (
            pa.float32(),
            1.5,
            OrderingValue(OrderingKind.FLOAT, 1.0),
            OrderingValue(OrderingKind.FLOAT, 2.0),
        ),
        (pa.int32(), 5, OrderingValue(OrderingKind.INT, 4), OrderingValue(OrderingKind.INT, 6)),
        (pa.timestamp("us", "UTC"), 5, long(4), long(6)),
        (pa.date32(), 5, OrderingValue(OrderingKind.INT, 4), OrderingValue(OrderingKind.INT, 6)),
        (
            pa.binary(),
            b"m",
            OrderingValue(OrderingKind.BYTES, b"a"),
            OrderingValue(OrderingKind.BYTES, b"z"),
        ),
    ],
)
def test_delete_orderings_of_each_class(kind, value, older, newer) -> None:
    schema = schema_of(kind)
    log = rows(("old", value, 1), ("new", value, 2), schema=schema)
    block = deletes(("old", newer), ("new", older))
    expected = [2] if older.value is not False else []
    if kind == pa.bool_():  # False is not greater than False
        expected = []
    assert merged(schema.empty_table(), [RowRun(log), block], EVENT_TIME, schema) == expected


def test_decimal_delete_ordering_has_fifteen_digits() -> None:
    from decimal import Decimal

    schema = schema_of(pa.decimal128(10, 2))
    log = rows(("a", Decimal("1.50"), 1), ("b", Decimal("1.50"), 2), schema=schema)
    block = deletes(
        ("a", OrderingValue(OrderingKind.DECIMAL, Decimal("1.490000000000000"))),
        ("b", OrderingValue(OrderingKind.DECIMAL, Decimal("1.510000000000000"))),
    )
    assert merged(schema.empty_table(), [RowRun(log), block], EVENT_TIME, schema) == [1]
    # in Hudi 0.15 the classes differ, so the deletes win
    assert merged(schema.empty_table(), [RowRun(log), block], OVERWRITE, schema) == []


# --------------------------------------------------------------------------- against the model

KEYS = st.sampled_from("abc")
NUMBERS = st.integers(-2, 3)


def kinds_of(ts: pa.DataType) -> tuple[str, OrderingKind]:
    if ts == pa.int32():
        return "Integer", OrderingKind.INT
    return "Long", OrderingKind.LONG


@st.composite
def slices(draw: st.DrawFn, rules: MergeRules) -> tuple[pa.Schema, list, list]:
    """A base file and runs of (key, ts, tie, is marked) or of deletes."""
    schema = schema_of(draw(st.sampled_from([pa.int32(), pa.int64()])))
    _, kind = kinds_of(schema.field("ts").type)
    nulls = draw(st.booleans())
    ts = st.one_of(st.none(), NUMBERS) if nulls else NUMBERS
    row = st.tuples(KEYS, ts, NUMBERS, st.sampled_from([False, False, True]))
    single = st.one_of(
        st.builds(OrderingValue, st.just(kind), NUMBERS),
        st.just(NO_ORDERING_VALUE),
        st.builds(OrderingValue, st.sampled_from([OrderingKind.INT, OrderingKind.LONG]), NUMBERS),
    )
    pair = st.builds(
        lambda ts, tie: OrderingValue(
            OrderingKind.ARRAY, (OrderingValue(kind, ts), OrderingValue(OrderingKind.INT, tie))
        ),
        NUMBERS,
        NUMBERS,
    )
    ordering = st.one_of(pair, st.just(NO_ORDERING_VALUE)) if rules is PAIR else single
    delete = st.tuples(KEYS, ordering)
    run = st.one_of(st.lists(row, max_size=6), st.lists(delete, max_size=4))
    return schema, draw(st.lists(row, max_size=4)), draw(st.lists(run, max_size=8))


def to_model(ordering: OrderingValue) -> model.Ordering:
    names = {OrderingKind.INT: "Integer", OrderingKind.LONG: "Long"}
    if ordering.kind is OrderingKind.ARRAY:
        return "ArrayComparable", tuple(map(to_model, ordering.value))
    return names[ordering.kind], ordering.value


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_agrees_with_the_sequential_rules(name: str, data: st.DataObject) -> None:
    rules = RULES[name]
    schema, base, runs = data.draw(slices(rules))
    java_class, _ = kinds_of(schema.field("ts").type)
    numbers = iter(range(10_000))

    def ordering_of(ts: int | None, tie: int) -> model.Ordering:
        first = model.DEFAULT if ts is None else (java_class, ts)
        if rules is PAIR:
            return "ArrayComparable", (first, ("Integer", tie))
        return first if rules.ordering_fields else model.DEFAULT

    def records_of(part: list) -> list[model.Record]:
        return [
            model.Record(entry[0], ordering_of(*entry[1:3]), next(numbers), entry[3])
            if len(entry) == 4
            else model.Record(entry[0], to_model(entry[1]), None)
            for entry in part
        ]

    def table_of(part: list, records: list[model.Record]) -> pa.Table:
        values = [
            (key, ts, record.row, tie, marked)
            for (key, ts, tie, marked), record in zip(part, records, strict=True)
        ]
        return rows(*values, schema=schema)

    if rules.legacy and rules.ordering_fields:  # 0.15 fails on a row without ordering value
        assume(all(entry[1] is not None for run in runs for entry in run))
    base_records = records_of(base)
    if rules.legacy:
        base_records = [
            model.Record(
                r.key,
                (java_class, ts) if rules.ordering_fields else model.DEFAULT,
                r.row,
                r.is_marked,
            )
            for r, (_, ts, _, _) in zip(base_records, base, strict=True)
        ]
    log_records: list[model.Record] = []
    log: list[Run] = []
    for run in runs:
        records = records_of(run)
        log_records += records
        if run and len(run[0]) == 2:
            log.append(deletes(*run))
        else:
            log.append(RowRun(table_of(run, records)))
    try:
        streamed, remaining = model.merge(base_records, log_records, rules)
    except model.ClassCastError:
        assume(False)
    base_rows = table_of(base, base_records)
    cut = data.draw(st.integers(0, len(base)))
    refusal = ""
    try:
        state = merge_log(log, rules, schema)
        out = state.apply(base_rows.slice(0, cut))["row"].to_pylist()
        out += state.apply(base_rows.slice(cut))["row"].to_pylist()
    except UnsupportedError as error:
        refusal = str(error)
    if refusal:
        # A delete of another class, and a row without ordering value, which is the integer 0.
        assert "of another type than the column" in refusal
        assert any(entry[1] is None for part in (base, *runs) for entry in part)
        return
    assert sorted(out) == sorted(streamed)
    assert sorted(state.remaining()["row"].to_pylist()) == sorted(remaining)


@pytest.mark.parametrize("name", RULES)
def test_one_key_many_times(name: str) -> None:
    """Long runs of one key: passes grow with the logarithm, and the result is still the model's."""
    rules = RULES[name]
    rng = random.Random(7)
    log: list[Run] = []
    records: list[model.Record] = []
    for number in range(400):
        key = rng.choice("aab")
        ts = rng.randint(0, 50)
        ordering = ("Long", ts) if rules.ordering_fields else model.DEFAULT
        if rules is PAIR:
            ordering = ("ArrayComparable", (("Long", ts), ("Integer", 0)))
        if rng.random() < 0.4:
            value = long(ts)
            if rules is PAIR:
                value = OrderingValue(
                    OrderingKind.ARRAY, (long(ts), OrderingValue(OrderingKind.INT, 0))
                )
            if not rules.ordering_fields or rng.random() < 0.02:
                value = NO_ORDERING_VALUE
            log.append(deletes((key, value)))
            records.append(model.Record(key, to_model(value), None))
        else:
            log.append(RowRun(rows((key, ts, number))))
            records.append(model.Record(key, ordering, number))
        if number % 40 == 0 or number > 390:
            _, remaining = model.merge([], records, rules)
            state = merge_log(log, rules, SCHEMA)
            assert sorted(state.remaining()["row"].to_pylist()) == sorted(remaining)


def test_a_hundred_thousand_versions_of_one_key_are_quick() -> None:
    count = 100_000
    ts = np.random.default_rng(0).integers(0, 1 << 40, count)
    columns = [pa.array(["k"] * count), pa.array(ts), pa.array([0] * count, pa.int32())]
    columns += [pa.array([False] * count), pa.array(np.arange(count))]
    table = pa.table(columns, schema=SCHEMA)
    assert merged(SCHEMA.empty_table(), [RowRun(table)], EVENT_TIME) == [int(ts.argmax())]
