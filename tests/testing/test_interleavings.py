"""The second process comes before each operation of the first, and both are told of."""

from __future__ import annotations

import bucketfmt as bf
from bucketfmt.testing.interleavings import interleave_everywhere
from soak.works.works import KINDS, WORKS, make, rows

KIND = KINDS[3]
FILES = make(KIND, WORKS[0])


def put_two(table: bf.Table) -> str:
    table.store.replace("one", b"1")
    table.store.replace("two", b"2")
    return "done"


def see(table: bf.Table) -> set[str]:
    return {path for path in ("one", "two") if table.store.info(path)}


def test_before_each_operation() -> None:
    before = FILES.state
    met = list(interleave_everywhere(FILES, put_two, see))
    assert [way.operation.path for way in met] == ["one", "two"]
    assert [way.second.value for way in met] == [set(), {"one"}]
    assert [way.first.value for way in met] == ["done"] * 2
    assert all({"one", "two"} <= way.store.files.keys() for way in met)
    assert "before replace two; the first returned; the second returned" in str(met[1])
    assert FILES.state == before


def test_operations_that_the_second_does_not_concern_are_passed_over() -> None:
    def read_one_and_two(table: bf.Table) -> list[bool]:
        seen = [table.store.info(path) is not None for path in ("one", "two", "three")]
        table.store.replace("four", b"4")
        return seen

    met = list(
        interleave_everywhere(FILES, read_one_and_two, lambda t: t.store.replace("two", b"2"))
    )
    assert [way.operation for way in met] == [("info", "two"), ("replace", "four")]
    assert [way.first.value for way in met] == [[False, True, False], [False] * 3]


def test_before_operations_of_some_numbers() -> None:
    threads = list(interleave_everywhere(FILES, put_two, see, shared=True, numbers=[2]))
    processes = list(interleave_everywhere(FILES, put_two, see, numbers=[1, 3]))
    assert [(way.operation.path, way.second.value) for way in threads] == [("two", {"one"})]
    assert [way.operation.verb for way in processes] == ["read", "replace"]
    assert [way.second.value for way in processes] == [set(), {"one"}]
    assert [way.first.value for way in processes] == ["done"] * 2


def test_threads_share_a_table_that_was_opened_before() -> None:
    tables = []

    def put(table: bf.Table) -> str:
        tables.append(table)
        return put_two(table)

    def see_and_keep(table: bf.Table) -> set[str]:
        tables.append(table)
        return see(table)

    met = list(interleave_everywhere(FILES, put, see_and_keep, shared=True))
    assert [way.operation.path for way in met] == ["one", "two"]
    assert [way.second.value for way in met] == [set(), {"one"}]
    assert tables[0] is tables[1]
    assert tables[2] is tables[3] is not tables[0]


def test_a_thread_that_waits_for_one_that_does_not_go_on_is_told_so() -> None:
    def write(table: bf.Table) -> str:
        return table.upsert(rows(("x", 1, "x"))).instant

    met = list(interleave_everywhere(FILES, write, write, writer=KIND.writer, shared=True))
    told = {type(way.second.error) for way in met}
    assert (
        {type(None), bf.LockTimeoutError}
        <= told
        <= {
            type(None),
            bf.LockTimeoutError,
            bf.ConflictError,
        }
    )


def test_what_is_raised_is_told() -> None:
    def refuse(table: bf.Table) -> None:
        raise bf.ConflictError("no")

    first, *_ = interleave_everywhere(FILES, put_two, refuse)
    assert (str(first.first), str(first.second)) == ("returned", "ConflictError: no")


def test_the_two_have_chance_of_their_own_and_one_clock() -> None:
    def write(table: bf.Table) -> str:
        return table.upsert(rows(("x", 1, "x"))).instant

    def write_elsewhere(table: bf.Table) -> str:
        return table.upsert(rows(("y", 1, "y"))).instant

    met = list(interleave_everywhere(FILES, write, write_elsewhere, writer=KIND.writer))
    both = [way for way in met if way.first.value and way.second.value]
    assert 4 < len(both) < len(met), "where one waits for the lock, it waits for ever"
    for way in both:
        first, second = int(str(way.first.value)), int(str(way.second.value))
        assert 0 < abs(first - second) < 10_000, "never the same, and within seconds"
