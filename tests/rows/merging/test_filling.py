"""Tables that fill values of a record from the record that it wins over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord
from bucketfmt.format.log.ordering_values import NO_ORDERING_VALUE, OrderingKind, OrderingValue
from bucketfmt.rows.merging.combine import combine_rows
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import Filling, MergeRules
from tests.rotation import examples

pytestmark = pytest.mark.rotated

KEY, TIME, MARK = "_hoodie_record_key", "_hoodie_commit_time", "_hoodie_is_deleted"
SCHEMA = pa.schema(
    [
        (TIME, pa.string()),
        (KEY, pa.string()),
        ("ts", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.string()),
        ("s", pa.struct([("x", pa.int64())])),
        (MARK, pa.bool_()),
    ]
)
DATA = ("ts", "a", "b", "s", MARK)
EVENT = MergeRules(("ts",), True, True, filling=Filling(ignores_defaults=True))
NEWEST = MergeRules((), False, False, filling=Filling(ignores_defaults=True))
MARKER = MergeRules(("ts",), True, True, filling=Filling(marker="?"))
V8 = MergeRules(("ts",), True, True, filling=Filling(meta_of_newer=True))
V6 = MergeRules(
    ("ts",),
    True,
    True,
    legacy=True,
    marked_deletes_overrule=True,
    delete_operations=("D",),
    filling=Filling(meta_of_newer=True),
)
V6_BASE = replace(
    V6,
    base_by_ordering=False,
    marked_deletes_overrule=False,
    filling=Filling(ignores_defaults=True, within_log=False),
)
RULES = {
    "event": EVENT,
    "newest": NEWEST,
    "marker": MARKER,
    "version 8": V8,
    "version 6": V6,
    "version 6, base rows": V6_BASE,
}


@dataclass(frozen=True)
class Entry:
    """A row, or an entry of a delete block."""

    key: str
    ts: int | None
    a: int | None = None
    b: str | None = None
    s: int | None = None
    mark: bool | None = None
    time: str = "0"
    is_block: bool = False

    @property
    def values(self) -> dict[str, object]:
        struct = None if self.s is None else {"x": self.s}
        return {"ts": self.ts, "a": self.a, "b": self.b, "s": struct, MARK: self.mark}


def table_of(entries: list[Entry], schema: pa.Schema = SCHEMA) -> pa.Table:
    rows = pa.Table.from_pylist([{KEY: e.key, TIME: e.time, **e.values} for e in entries], SCHEMA)
    return rows.cast(schema)


def run_of(entries: list[Entry], schema: pa.Schema = SCHEMA) -> Run:
    if not entries[0].is_block:
        return RowRun(table_of(entries, schema))
    is_text = pa.types.is_string(schema.field("ts").type)

    def ordering(ts: int | None) -> OrderingValue:
        if ts is None:
            return NO_ORDERING_VALUE
        if is_text:
            return OrderingValue(OrderingKind.STRING, str(ts))
        return OrderingValue(OrderingKind.LONG, ts)

    return DeleteRun(
        DeleteBlock.from_records(DeleteRecord(e.key, "", ordering(e.ts)) for e in entries)
    )


def merged(
    base: list[Entry], log: list[list[Entry]], rules: MergeRules, schema: pa.Schema = SCHEMA
) -> dict[str, object]:
    state = merge_log([run_of(entries, schema) for entries in log], rules, schema)
    assert state.needs_base
    found = pa.concat_tables([state.apply(table_of(base, schema)), state.remaining()])
    assert len(set(found[KEY].to_pylist())) == found.num_rows
    return {row.pop(KEY): row for row in found.to_pylist()}


def of_key(base: Entry | None, *log: Entry, rules: MergeRules = EVENT) -> list[object] | None:
    """The row of the key `k` as [ts, a, b, s], each entry of the log in a block of its own."""
    found = merged([] if base is None else [base], [[entry] for entry in log], rules).get("k")
    return None if found is None else [found["ts"], found["a"], found["b"], found["s"]]  # type: ignore[index]


BASE = Entry("k", 10, a=1, b="old")


@pytest.mark.rule("MERGE-18")
def test_nulls_of_the_record_that_wins_are_filled() -> None:
    assert of_key(BASE, Entry("k", 11, b="new")) == [11, 1, "new", None]
    assert of_key(BASE, Entry("k", 10, a=2)) == [10, 2, "old", None]
    assert of_key(None, Entry("k", 11, b="new")) == [11, None, "new", None]
    assert of_key(BASE, Entry("k", 5, a=2), rules=NEWEST) == [5, 2, "old", None]


@pytest.mark.rule("MERGE-18")
def test_an_older_record_fills_the_one_that_stays() -> None:
    assert of_key(BASE, Entry("k", 9, a=2, s=3)) == [10, 1, "old", {"x": 3}]
    assert of_key(None, Entry("k", 9, a=2), Entry("k", 8, a=7, b="x")) == [9, 2, "x", None]


@pytest.mark.rule("MERGE-18")
def test_the_log_is_merged_before_it_meets_the_base_row() -> None:
    """So that a value of a late record wins over the base row's, which has a greater ordering."""
    log = Entry("k", 11, b="new"), Entry("k", 4, a=9)
    assert of_key(BASE, *log) == [11, 9, "new", None]
    assert of_key(BASE, log[1], log[0]) == [11, 9, "new", None]


@pytest.mark.rule("MERGE-18")
def test_records_stand_in_a_line() -> None:
    """What filled first stays, although a later one has a greater ordering value."""
    log = Entry("k", 5), Entry("k", 3, a=3), Entry("k", 4, a=4)
    assert of_key(None, *log) == [5, 3, None, None]


@pytest.mark.rule("MERGE-18")
def test_text_that_stands_for_an_unknown_value() -> None:
    assert of_key(BASE, Entry("k", 11, b="?"), rules=MARKER) == [11, None, "old", None]
    assert of_key(BASE, Entry("k", 11), rules=MARKER) == [11, None, None, None]
    assert of_key(None, Entry("k", 11, b="?"), Entry("k", 5, b="x"), rules=MARKER) == [
        *(11, None, "x", None)
    ]
    assert of_key(None, Entry("k", 1, b="?"), Entry("k", 5, b="?"), rules=MARKER) == [
        *(5, None, "?", None)
    ]
    odd = replace(BASE, b="?")
    assert of_key(odd, Entry("k", 5, a=4, b="x"), rules=MARKER) == [10, 1, "x", None]


@pytest.mark.rule("MERGE-18")
@pytest.mark.parametrize("rules", [EVENT, NEWEST, V8])
def test_a_delete_fills_nothing(rules: MergeRules) -> None:
    gone = Entry("k", 12, is_block=True)
    back = Entry("k", 13, b="back")
    assert of_key(BASE, Entry("k", 11, a=5), gone, rules=rules) is None
    assert of_key(BASE, Entry("k", 11, a=5), gone, back, rules=rules) == [13, 1, "back", None]
    marked = replace(back, ts=12, mark=True)
    assert of_key(None, Entry("k", 11, a=5), marked, back, rules=rules) == [13, None, "back", None]


@pytest.mark.rule("MERGE-18")
def test_whose_meta_columns_a_record_has() -> None:
    base = replace(BASE, time="1")
    late = Entry("k", 5, a=4, s=1, time="2")
    for rules, time in ((EVENT, "1"), (V8, "2"), (V6, "2"), (V6_BASE, "2")):
        assert merged([base], [[late]], rules)["k"][TIME] == time  # type: ignore[index]
    later = replace(late, ts=4, time="3")
    for rules, time in ((EVENT, "1"), (V8, "3"), (V6, "3"), (V6_BASE, "2")):
        assert merged([base], [[late], [later]], rules)["k"][TIME] == time  # type: ignore[index]


@pytest.mark.rule("MERGE-18")
def test_version_6_marks_of_deletes_are_values() -> None:
    gone = Entry("k", 12, a=2, mark=True)
    after = Entry("k", 13, b="back")
    assert of_key(BASE, gone, after, rules=V6) is None
    assert of_key(BASE, gone, replace(after, mark=False), rules=V6) == [13, 2, "back", None]
    assert of_key(BASE, replace(after, mark=False), gone, rules=V6) == [13, 2, "back", None]
    assert of_key(BASE, Entry("k", 3, mark=True), rules=V6) is None


@pytest.mark.rule("MERGE-18")
def test_version_6_with_base_rows_filling() -> None:
    log = Entry("k", 11, b="new"), Entry("k", 12, s=4)
    assert of_key(BASE, *log, rules=V6_BASE) == [12, 1, "old", {"x": 4}]
    assert of_key(BASE, Entry("k", 3, a=3), rules=V6_BASE) == [3, 3, "old", None]


def test_only_changed_rows_are_replaced() -> None:
    base = [Entry(f"k{n}", 10, a=n, b="b") for n in range(4)]
    log = [Entry("k0", 5, a=9, b="x"), Entry("k1", 5, s=7), Entry("k3", 11, b="y")]
    state = merge_log([run_of(log)], EVENT, SCHEMA)
    found = state.find_replacements(table_of(base))
    assert found.places.tolist() == [1, 3]
    assert found.rows.column("a").to_pylist() == [1, 3]
    assert state.remaining().num_rows == 0
    assert state.num_updates == 2


@pytest.mark.rule("MERGE-10", "MERGE-18")
@pytest.mark.parametrize("rules", [EVENT, V8, V6])
def test_a_delete_of_another_class_always_wins(rules: MergeRules) -> None:
    def merge(*runs: Run) -> list[int | None]:
        state = merge_log(runs, rules, SCHEMA)
        return pa.concat_tables([state.apply(table_of([BASE])), state.remaining()])["a"].to_pylist()

    first, later = run_of([Entry("k", 50, a=5)]), run_of([Entry("k", 12, b="later")])
    foreign, unordered, lower = (
        DeleteRun(DeleteBlock.from_records([DeleteRecord("k", "", value)]))
        for value in (
            OrderingValue(OrderingKind.INT, 1),
            NO_ORDERING_VALUE,
            OrderingValue(OrderingKind.LONG, 13),
        )
    )
    assert merge(first, foreign) == []
    assert merge(first, foreign, later) == [1], "filled from the base row alone"
    assert merge(first, foreign, lower, later) == ([1] if rules.legacy else [])
    assert merge(first, unordered, foreign, lower, later) == [1]


def test_columns_that_are_refused() -> None:
    decimals = SCHEMA.set(2, pa.field("ts", pa.decimal128(9, 2)))
    for rules in (MARKER, V8, V6, MergeRules((), False, False)):
        rules.check_columns(SCHEMA, ["n"])
        rules.check_columns(decimals, [])
    EVENT.check_columns(SCHEMA, [])
    for rules in (EVENT, NEWEST, V6_BASE):
        with pytest.raises(UnsupportedError, match="n, m have defaults other than null"):
            rules.check_columns(SCHEMA, ["n", "m"])
    for rules in (V6, V8):
        logged = replace(rules, is_class_compared=True)
        for kind in (pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us", "UTC"), pa.bool_()):
            logged.check_columns(SCHEMA.set(2, pa.field("ts", kind)), ["n"])
        refused = [pa.decimal128(9, 2), pa.date32(), pa.binary()]
        refused += [] if rules.legacy else [pa.string()]
        for kind in refused:
            with pytest.raises(UnsupportedError, match="its ordering field ts is"):
                logged.check_columns(SCHEMA.set(2, pa.field("ts", kind)), [])
        within = replace(logged, ordering_fields=("s.x",))
        with pytest.raises(UnsupportedError, match=r"its ordering field s\.x is within a struct"):
            within.check_columns(SCHEMA, [])
    replace(V6, is_class_compared=True).check_columns(
        SCHEMA.set(2, pa.field("ts", pa.string())), []
    )


@pytest.mark.rule("MERGE-18")
def test_rows_of_one_write_fill_one_another() -> None:
    rows = [
        *(Entry("p", 5, a=1), Entry("q", 1, a=1), Entry("p", 7, b="x"), Entry("p", 6, a=6, s=1)),
        *(Entry("r", 1), Entry("q", 1, b="y", mark=True)),
    ]
    given_rows = table_of(rows).drop_columns([KEY, TIME])
    keys = pa.chunked_array([[entry.key for entry in rows]])
    found, kept = combine_rows(given_rows, keys, EVENT)
    assert kept.tolist() == [2, 4, 5]
    assert found.schema.equals(given_rows.schema)
    assert [(row["ts"], row["a"], row["b"], row["s"], row[MARK]) for row in found.to_pylist()] == [
        (7, 1, "x", {"x": 1}, None),
        (1, None, None, None, None),
        (1, None, "y", None, True),
    ]
    whole, kept = combine_rows(given_rows, keys, V6_BASE)
    assert whole.column("a").to_pylist() == [None, None, None]
    assert kept.tolist() == [2, 4, 5]


# ------------------------------------------------------------------------------- a model


@dataclass(frozen=True)
class Record:
    """What is known of a key: values, or a delete."""

    values: dict[str, object]
    ts: int | None
    is_gone: bool = False
    is_block: bool = False


def filled(high: Record, low: Record, newer: Record, rules: MergeRules) -> dict[str, object]:
    """`PartialUpdateHandler.partialMerge`, `OverwriteNonDefaultsWithLatestAvroPayload.setField`."""
    filling = rules.filling
    assert filling is not None
    unknown = (lambda v: v is None) if filling.marker is None else (lambda v: v == filling.marker)
    found = {k: low.values[k] if unknown(v) else v for k, v in high.values.items()}
    if filling.meta_of_newer:
        found[TIME] = newer.values[TIME]
    return found


def added(state: Record | None, entry: Entry, rules: MergeRules) -> Record:
    """Take an entry of the log: BufferedRecordMergerFactory; preCombine and
    processNextDeletedRecord of 0.15.
    """
    new = Record(
        {TIME: entry.time, **entry.values},
        entry.ts,
        entry.is_block or (entry.mark is True),
        entry.is_block,
    )
    if state is None:
        return new
    if not rules.log_by_ordering:
        wins = True
    elif rules.legacy:
        is_default = entry.is_block and entry.ts is None
        wins = state.is_block or is_default or not (state.ts or 0) > (entry.ts or 0)
    else:
        if state.is_gone and not state.ts:
            if entry.is_block:
                return state
            wins = True
        else:
            wins = (new.is_gone and not new.ts) or not (state.ts or 0) > (new.ts or 0)
    high, low = (new, state) if wins else (state, new)
    assert rules.filling is not None
    if rules.legacy:
        alone = high.is_block or low.is_block or (wins and new.is_gone)
    else:
        alone = high.is_gone or low.is_gone
    if alone or not rules.filling.within_log:
        return high
    values = filled(high, low, new, rules)
    return Record(values, high.ts, values[MARK] is True if rules.legacy else False)


def model(base: list[Entry], log: list[list[Entry]], rules: MergeRules) -> dict[str, object]:
    states: dict[str, Record] = {}
    for entry in (entry for entries in log for entry in entries):
        states[entry.key] = added(states.get(entry.key), entry, rules)
    found = {e.key: {TIME: e.time, **e.values} for e in base}
    for key, state in states.items():
        stored = next((e for e in base if e.key == key), None)
        is_unordered = state.is_gone and not state.ts
        removes = state.is_block if rules.legacy else is_unordered
        removes |= rules.legacy and state.is_gone and rules.marked_deletes_overrule
        is_compared = rules.base_by_ordering and not removes
        stays = stored is not None and is_compared and (stored.ts or 0) > (state.ts or 0)
        if state.is_gone:
            if not stays:
                found.pop(key, None)
        elif stored is None:
            found[key] = state.values
        else:
            old = Record({TIME: stored.time, **stored.values}, stored.ts)
            high, low = (old, state) if stays else (state, old)
            found[key] = filled(high, low, state, rules)
    return found


@st.composite
def logs(draw: st.DrawFn) -> list[list[Entry]]:
    blocks = []
    for number in range(draw(st.integers(1, 8))):
        is_block = draw(st.integers(0, 4)) == 0
        keys = draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=4))
        entries = []
        for key in keys:
            ts = draw(st.integers(1, 6))
            if is_block:
                when = draw(st.sampled_from([None, ts]))
                entries.append(Entry(key, when, is_block=True))
                continue
            n = 100 * number + len(entries)
            entries.append(
                Entry(
                    key,
                    ts,
                    a=draw(st.sampled_from([None, n])),
                    b=draw(st.sampled_from([None, "?", f"b{n}"])),
                    s=draw(st.sampled_from([None, n])),
                    mark=draw(st.sampled_from([None, False, False, True])),
                    time=f"{number + 1}",
                )
            )
        blocks.append(entries)
    return blocks


@pytest.mark.rule("MERGE-18")
@pytest.mark.parametrize("ordering", [pa.int64(), pa.string()], ids=str)
@pytest.mark.parametrize("kind", RULES)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_random_logs(kind: str, ordering: pa.DataType, data: st.DataObject) -> None:
    rules, log = RULES[kind], data.draw(logs())
    base = [
        Entry(key, ts, a=data.draw(st.sampled_from([None, 1])), b=b, s=None, mark=False)
        for key, ts, b in (("p", 3, "b"), ("q", 1, "?"), ("r", 6, None))
    ]
    at = SCHEMA.get_field_index("ts")
    schema = SCHEMA.set(at, pa.field("ts", ordering))
    found = merged(base, log, rules, schema)
    if pa.types.is_string(ordering) and rules.legacy:  # no class of rows there: MERGE-10
        log = [[replace(e, ts=None) if e.is_block else e for e in entries] for entries in log]
    expected = model(base, log, rules)
    if pa.types.is_string(ordering):
        for row in expected.values():
            row["ts"] = str(row["ts"])  # type: ignore[index]
    assert found == expected
