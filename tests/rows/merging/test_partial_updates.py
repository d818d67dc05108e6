"""Logs with partial updates: records that hold some columns only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord
from bucketfmt.format.log.ordering_values import NO_ORDERING_VALUE, OrderingKind, OrderingValue
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import MergeRules
from tests.rotation import examples

pytestmark = pytest.mark.rotated

KEY = "_hoodie_record_key"
SCHEMA = pa.schema(
    [(KEY, pa.string()), ("ts", pa.int64()), *((name, pa.int64()) for name in "abc")]
)
EVENT_TIME = MergeRules(("ts",), True, True)
NEWEST = MergeRules((), False, False)


@dataclass
class Entry:
    """A record, whole or partial, or a delete; no ordering: a delete without one."""

    key: str
    ts: int | None
    values: dict[str, int] = field(default_factory=dict)
    is_delete: bool = False

    @property
    def is_unordered(self) -> bool:
        return self.is_delete and self.ts is None


def rows_of(entries: list[Entry], held: str) -> pa.Table:
    columns = {
        KEY: [e.key for e in entries],
        "ts": [e.ts for e in entries],
        **{name: [e.values[name] if name in held else None for e in entries] for name in "abc"},
    }
    return pa.table(columns, schema=SCHEMA)


def run_of(entries: list[Entry], held: str = "abc") -> Run:
    if entries[0].is_delete:
        return DeleteRun(
            DeleteBlock.from_records(
                DeleteRecord(
                    e.key,
                    "",
                    NO_ORDERING_VALUE if e.ts is None else OrderingValue(OrderingKind.LONG, e.ts),
                )
                for e in entries
            )
        )
    return RowRun(rows_of(entries, held), frozenset({KEY, "ts", *held}), held != "abc")


def row(key: str, ts: int, **values: int) -> Entry:
    return Entry(key, ts, values)


def delete(key: str, ts: int | None = None) -> Entry:
    return Entry(key, ts, is_delete=True)


def merged(base: list[Entry], log: list[Run], rules: MergeRules) -> dict[str, list[int | None]]:
    state = merge_log(log, rules, SCHEMA)
    found = pa.concat_tables([state.apply(rows_of(base, "abc")), state.remaining()])
    assert len(set(found[KEY].to_pylist())) == found.num_rows
    return {r[KEY]: [r["ts"], r["a"], r["b"], r["c"]] for r in found.to_pylist()}


BASE = [row("k", 10, a=1, b=2, c=3), row("other", 10, a=1, b=1, c=1)]


def of_key(log: list[Run], rules: MergeRules = EVENT_TIME) -> list[int | None] | None:
    found = merged(BASE, log, rules)
    assert found["other"] == [10, 1, 1, 1]
    return found.get("k")


@pytest.mark.rule("MERGE-16")
def test_an_update_changes_its_columns() -> None:
    assert of_key([run_of([row("k", 11, a=100)], "a")]) == [11, 100, 2, 3]
    assert of_key([run_of([row("k", 10, a=100)], "a")]) == [10, 100, 2, 3]
    assert of_key([run_of([row("k", 9, a=100)], "a")]) == [10, 1, 2, 3]
    assert of_key([run_of([row("k", 9, a=100)], "a")], NEWEST) == [9, 100, 2, 3]


@pytest.mark.rule("MERGE-16")
def test_an_older_update_fills_what_a_newer_one_leaves_out() -> None:
    """As Hudi 1.0.2 and 1.2.0 read it: a@11, then b@5, over a base row @10."""
    log = [run_of([row("k", 11, a=104)], "a"), run_of([row("k", 5, b=4)], "b")]
    assert of_key(log) == [11, 104, 4, 3]
    late = [*log, run_of([row("k", 6, b=6)], "b"), run_of([row("k", 7, a=7, c=7)], "ac")]
    assert of_key(late) == [11, 104, 4, 7]


@pytest.mark.rule("MERGE-16")
def test_whole_rows_among_updates() -> None:
    whole = run_of([row("k", 20, a=7, b=8, c=9)])
    assert of_key([run_of([row("k", 11, a=100)], "a"), whole]) == [20, 7, 8, 9]
    assert of_key([whole, run_of([row("k", 11, a=100)], "a")]) == [20, 7, 8, 9]
    assert of_key([whole, run_of([row("k", 21, a=100)], "a")]) == [21, 100, 8, 9]
    older = run_of([row("k", 3, a=7, b=8, c=9)])
    assert of_key([run_of([row("k", 11, a=100)], "a"), older]) == [11, 100, 8, 9]


@pytest.mark.rule("MERGE-16")
def test_whole_rows_before_the_first_update_are_not_united() -> None:
    """A row of an older schema lacks a column, which is of the base row then."""
    narrow = RowRun(rows_of([row("k", 12, a=5, b=5)], "ab"), frozenset({KEY, "ts", "a", "b"}))
    older = run_of([row("k", 11, a=4, b=4, c=4)])
    update = run_of([row("k", 13, a=6)], "a")
    assert of_key([older, narrow, update]) == [13, 6, 5, 3]
    assert of_key([update, older, narrow]) == [13, 6, 4, 4]


@pytest.mark.rule("MERGE-16")
def test_deletes() -> None:
    update, later = run_of([row("k", 11, a=100)], "a"), run_of([row("k", 30, b=30)], "b")
    assert of_key([update, run_of([delete("k", 11)])]) is None
    assert of_key([update, run_of([delete("k")])]) is None
    assert of_key([update, run_of([delete("k", 5)])]) == [11, 100, 2, 3]
    # As Hudi reads it: nothing of the log before the delete, but the base row
    assert of_key([update, run_of([delete("k", 11)]), later]) == [30, 1, 30, 3]
    assert of_key([update, run_of([delete("k")]), later]) == [30, 1, 30, 3]
    assert of_key([run_of([delete("k", 40)]), later]) is None
    assert of_key([update, run_of([delete("k", 11)])], NEWEST) is None


def test_an_update_after_a_delete_where_the_newer_record_stays() -> None:
    """Hudi 1.2.0 fails with a NullPointerException."""
    log = [run_of([delete("k", 11)]), run_of([row("k", 30, b=30)], "b")]
    for tail in ([], [run_of([row("k", 31, a=1)], "a")]):
        with pytest.raises(UnsupportedError, match="'k' was deleted, and some of its columns"):
            of_key([*log, *tail], NEWEST)
    assert of_key([*log, run_of([row("k", 1, a=7, b=8, c=9)])], NEWEST) == [1, 7, 8, 9]
    assert of_key([*log, run_of([delete("k", 1)])], NEWEST) is None


def test_a_delete_of_another_class() -> None:
    kind = OrderingValue(OrderingKind.INT, 1)
    foreign = DeleteRun(DeleteBlock.from_records([DeleteRecord("k", "", kind)]))
    with pytest.raises(UnsupportedError, match="another type than the column"):
        of_key([run_of([row("k", 11, a=100)], "a"), foreign])
    elsewhere = DeleteRun(DeleteBlock.from_records([DeleteRecord("x", "", kind)]))
    assert of_key([run_of([row("k", 11, a=100)], "a"), elsewhere]) == [11, 100, 2, 3]


@pytest.mark.rule("MERGE-16")
def test_an_ordering_field_of_text() -> None:
    schema = SCHEMA.set(1, pa.field("ts", pa.string()))
    log = [run_of([row("k", 7, a=104)], "a"), run_of([row("k", 5, b=4)], "b")]
    runs = [replace(run, rows=run.rows.cast(schema)) for run in log]  # type: ignore[union-attr]
    state = merge_log(runs, EVENT_TIME, schema)
    base = rows_of([row("k", 6, a=1, b=2, c=3)], "abc").cast(schema)
    assert state.apply(base).to_pylist() == [{KEY: "k", "ts": "7", "a": 104, "b": 4, "c": 3}]


@pytest.mark.rule("MERGE-17")
def test_updates_of_a_row_that_is_not_there() -> None:
    """Hudi 1.0.2 reads other bytes of memory, Hudi 1.2.0 fails."""
    log = [run_of([row("new", 11, a=100)], "a"), run_of([row("new", 12, b=4, c=5)], "bc")]
    with pytest.raises(UnsupportedError, match="'new': the log has updates of some columns"):
        merged(BASE, log, EVENT_TIME)
    with pytest.raises(UnsupportedError, match="'new' and 1 more: the log has"):
        merged([], [*log, run_of([row("x", 1, a=1)], "a")], EVENT_TIME)
    whole = run_of([row("new", 10, a=1, b=2, c=3)])
    for own in ([whole, *log], [*log, whole]):
        assert merged(BASE, own, EVENT_TIME)["new"] == [12, 100, 4, 5]
    assert "new" not in merged(BASE, [*log, run_of([delete("new")])], EVENT_TIME)
    with pytest.raises(UnsupportedError, match="'new': the log has updates of some columns"):
        merged(BASE, [whole, run_of([delete("new")]), *log], EVENT_TIME)


def test_base_rows_in_pieces_and_only_some_changed() -> None:
    base = [row(f"k{n}", 10, a=n, b=n, c=n) for n in range(6)]
    log = [
        run_of([row(f"k{n}", 11, a=-n) for n in (4, 1)], "a"),
        run_of([row("k1", 12, b=-1)], "b"),
    ]
    state = merge_log(log, EVENT_TIME, SCHEMA)
    assert state.needs_base
    pieces = [state.find_replacements(rows_of(base[n : n + 3], "abc")) for n in (0, 3)]
    assert [p.places.tolist() for p in pieces] == [[1], [1]]
    assert [p.rows.to_pylist() for p in pieces] == [
        [{KEY: "k1", "ts": 12, "a": -1, "b": -1, "c": 1}],
        [{KEY: "k4", "ts": 11, "a": -4, "b": 4, "c": 4}],
    ]
    assert pieces[1].find_changed_columns(rows_of(base[3:], "abc")) == {"ts", "a"}
    assert state.remaining().num_rows == 0


# ------------------------------------------------------------------------------- a model


@dataclass
class State:
    """What is known of a key."""

    ts: int | None
    values: dict[str, int]
    is_delete: bool
    is_update: bool

    @property
    def is_unordered(self) -> bool:
        return self.is_delete and self.ts is None


def added(state: State | None, entry: Entry, is_united: bool, rules: MergeRules) -> State:
    """`DefaultSparkRecordMerger.partialMerge` and `deltaMergeDeleteRecord`, for one key."""
    is_update = not entry.is_delete and len(entry.values) < 3
    new = State(entry.ts, dict(entry.values), entry.is_delete, is_update)
    if state is None:
        return new
    if rules.log_by_ordering:
        if state.is_unordered:
            return state if entry.is_delete else new
        if not entry.is_unordered and state.ts > entry.ts:
            if not (state.is_delete or entry.is_delete) and is_united:
                still = state.is_update and is_update
                return State(state.ts, {**new.values, **state.values}, False, still)
            return state
    if state.is_delete or entry.is_delete or not is_united:
        return new
    return State(entry.ts, {**state.values, **new.values}, False, state.is_update and is_update)


def model(
    base: list[Entry], log: list[tuple[list[Entry], str]], rules: MergeRules
) -> dict[str, list[int | None]] | None:
    """Return the rows; None: there are updates of a row that is not there."""
    states: dict[str, State] = {}
    is_united = False
    for entries, held in log:
        is_united |= held != "abc" and not entries[0].is_delete
        for entry in entries:
            states[entry.key] = added(states.get(entry.key), entry, is_united, rules)
    found = {e.key: [e.ts, *(e.values[n] for n in "abc")] for e in base}
    for key, state in states.items():
        old = next((e for e in base if e.key == key), None)
        is_compared = rules.base_by_ordering and not state.is_unordered
        if old is not None and is_compared and old.ts > state.ts:
            continue
        if state.is_delete:
            found.pop(key, None)
            continue
        if old is None and state.is_update:
            return None
        values = {**({} if old is None else old.values), **state.values}
        found[key] = [state.ts, *(values.get(n) for n in "abc")]
    return found


@st.composite
def logs(draw: st.DrawFn, *, with_deletes: bool) -> list[tuple[list[Entry], str]]:
    blocks = []
    for number in range(draw(st.integers(1, 7))):
        keys = draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=4))
        kinds = ["abc", "a", "b", "ab", "c", *(["delete"] if with_deletes else [])]
        held = draw(st.sampled_from(kinds))
        entries = []
        for key in keys:
            ts = draw(st.integers(1, 6))
            if held == "delete":
                entries.append(delete(key, draw(st.sampled_from([None, ts]))))
            else:
                entries.append(row(key, ts, **{n: 100 * number + ord(n) for n in held}))
        blocks.append((entries, held))
    return blocks


@pytest.mark.rule("MERGE-16")
@pytest.mark.parametrize("rules", [EVENT_TIME, NEWEST], ids=["event time", "newest"])
@settings(max_examples=examples(100))
@given(data=st.data())
def test_random_logs(rules: MergeRules, data: st.DataObject) -> None:
    log = data.draw(logs(with_deletes=rules is EVENT_TIME))
    base = [row(key, ts, a=1, b=2, c=3) for key, ts in (("p", 3), ("q", 1), ("r", 6))]
    runs = [run_of(entries, held if held != "delete" else "abc") for entries, held in log]
    expected = model(base, log, rules)
    if expected is None:
        with pytest.raises(UnsupportedError, match="no row that they update"):
            merged(base, runs, rules)
    else:
        assert merged(base, runs, rules) == expected
