"""Which of several rows with one key a write takes, against the rules one record at a time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError
from bucketfmt.rows.merging.combine import find_standing_rows
from bucketfmt.rows.merging.merge_rules import MergeRules
from tests.rotation import examples
from tests.rows.merging import merge_model as model
from tests.rows.merging.test_merge import EVENT_TIME, NEWEST, OVERWRITE, PAIR, RULES


def table(
    ts: list, kind: pa.DataType | None = None, tie: list | None = None, marked: list | None = None
) -> pa.Table:
    """Rows as a user gives them: no meta columns."""
    return pa.table(
        {
            "ts": pa.array(ts, kind or pa.int64()),
            "tie": pa.array(tie or [0] * len(ts), pa.int32()),
            "_hoodie_is_deleted": pa.array(marked or [False] * len(ts)),
        }
    )


def standing(keys: list[str], rows: pa.Table, rules: MergeRules) -> list[int]:
    return find_standing_rows(rows, pa.chunked_array([keys], pa.string()), rules).tolist()


def test_the_newest_of_a_key_stands_without_ordering() -> None:
    assert standing(list("abab"), table([9, 9, 1, 1]), NEWEST) == [2, 3]


def test_the_greatest_stands_and_of_equals_the_newest() -> None:
    assert standing(list("aaabb"), table([1, 5, 3, 2, 2]), EVENT_TIME) == [1, 4]
    # 0.15 combines by ordering even where the table lets any later write win
    assert standing(list("aaabb"), table([1, 5, 3, 2, 2]), OVERWRITE) == [1, 4]
    assert standing(list("aa"), table([1, 1], tie=[5, 4]), PAIR) == [0]


def test_rows_stand_in_the_order_given() -> None:
    assert standing(list("cabac"), table([1, 1, 1, 1, 1]), NEWEST) == [2, 3, 4]
    assert standing([], table([]), EVENT_TIME) == []


def test_a_row_marked_as_deleted_competes() -> None:
    rows = table([5, 4, 4, 5], marked=[True, False, False, True])
    assert standing(list("aabb"), rows, EVENT_TIME) == [0, 3]
    assert standing(list("aabb"), rows, OVERWRITE) == [0, 3]
    unordered = table([0, -1], pa.int32(), marked=[True, False])  # the integer 0 is no ordering
    assert standing(list("aa"), unordered, EVENT_TIME) == [1]
    assert standing(list("aa"), unordered, OVERWRITE) == [0]


@pytest.mark.parametrize("rules", [EVENT_TIME, OVERWRITE, PAIR])
def test_an_ordering_value_that_is_missing(rules: MergeRules) -> None:
    with pytest.raises(SchemaError, match="column ts: null"):
        standing(["a", "b"], table([1, None]), rules)
    assert standing(["a", "a"], table([1, None]), NEWEST) == [1]


def test_a_table_without_its_ordering_column() -> None:
    """0.x records `ts` by default, whether the table has it or not."""
    rows = pa.table({"x": [1, 2, 3]})
    assert standing(list("aba"), rows, EVENT_TIME) == [1, 2]
    assert standing(list("aba"), rows, OVERWRITE) == [1, 2]


def test_a_nested_ordering_field() -> None:
    rules = MergeRules(("at.ts",), True, True)
    rows = pa.table({"at": [{"ts": 7}, {"ts": 3}], "x": [1, 2]})
    assert standing(["a", "a"], rows, rules) == [0]


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("a", "b"),
        (b"a", b"\xff"),
        (1.5, float("inf")),
        (float("inf"), float("nan")),
        (-0.0, 0.0),
        (False, True),
        (Decimal("-1.50"), Decimal("1.49")),
        (dt.date(1969, 1, 1), dt.date(2024, 1, 1)),
        (dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)),
    ],
)
def test_every_type_orders(less: object, more: object) -> None:
    kind = pa.array([less, more]).type
    assert standing(["a", "a"], table([more, less], kind), EVENT_TIME) == [0]
    assert standing(["a", "a"], table([less, more], kind), EVENT_TIME) == [1]
    assert standing(["a", "a"], table([more, more], kind), EVENT_TIME) == [1]


def test_columns_in_chunks_and_other_encodings() -> None:
    one = pa.table({"ts": pa.array(["b", "a"]).dictionary_encode()})
    rows = pa.concat_tables([one, one])
    keys = pa.chunked_array([["x"], ["y", "x", "y"]], pa.large_string())
    assert find_standing_rows(rows, keys, EVENT_TIME).tolist() == [2, 3]


NUMBERS = st.integers(-2, 3)
ROW = st.tuples(st.sampled_from("abc"), NUMBERS, NUMBERS, st.booleans())


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=examples(60), deadline=None)
@given(given_rows=st.lists(ROW, max_size=12), kind=st.sampled_from([pa.int32(), pa.int64()]))
def test_agrees_with_the_sequential_rules(name: str, given_rows: list, kind: pa.DataType) -> None:
    rules = RULES[name]
    java_class = "Integer" if kind == pa.int32() else "Long"

    def ordering_of(ts: int, tie: int) -> model.Ordering:
        if rules is PAIR:
            return "ArrayComparable", ((java_class, ts), ("Integer", tie))
        return (java_class, ts) if rules.ordering_fields else model.DEFAULT

    records = [
        model.Record(key, ordering_of(ts, tie), number, marked)
        for number, (key, ts, tie, marked) in enumerate(given_rows)
    ]
    by_key: dict[str, list[model.Record]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    try:
        expected = sorted(
            reduce(lambda old, new: new if model.replaces(new, old, rules) else old, same).row or 0
            for same in by_key.values()
        )
    except model.ClassCastError:
        assume(False)
    columns = zip(*given_rows, strict=True) if given_rows else [()] * 4
    keys, ts, tie, marked = map(list, columns)
    assert standing(keys, table(ts, kind, tie, marked), rules) == expected


def test_many_rows_of_few_keys() -> None:
    rng = np.random.default_rng(3)
    ts = rng.integers(0, 1 << 40, 50_000)
    codes = rng.integers(0, 100, 50_000)
    found = standing([f"k{code}" for code in codes], table(ts.tolist()), EVENT_TIME)
    best: dict[int, int] = {}
    for number, code in enumerate(codes.tolist()):
        if code not in best or ts[number] >= ts[best[code]]:
            best[code] = number
    assert found == sorted(best.values())
