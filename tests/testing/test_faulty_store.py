from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from bucketfmt.errors import StorageError
from bucketfmt.storage.store import WRITE_VERBS, Store
from bucketfmt.testing import StoreContract
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import Operation

KILLS = (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.FAIL_LATE)


class TestFaultyStore(StoreContract):
    """Without a plan it does what the store underneath does."""

    @pytest.fixture
    def memory(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def store(self, memory: Store) -> Store:
        return FaultyStore(memory)

    @pytest.fixture
    def other(self, memory: Store) -> Store:
        return memory


def work(store: Store) -> None:
    """Six operations, four of them writing."""
    store.put_if_absent("a", b"one")
    store.list("")
    store.replace("a", b"second")
    data, version = store.read_versioned("a", 9)
    store.replace_if("a", data + b"!", version)
    store.delete("a")


STATES = [None, b"one", b"second", b"second!", None]  # of "a", before and after each write


def run(plan: FaultPlan) -> tuple[FaultyStore, MemoryStore, BaseException | None]:
    memory = MemoryStore()
    store = FaultyStore(memory, plan)
    try:
        work(store)
    except (Killed, StorageError) as error:
        return store, memory, error
    return store, memory, None


@pytest.mark.parametrize("fault", [*KILLS, *FAILURES])
def test_a_harness_can_enumerate_every_point(fault: Fault) -> None:
    states = []
    for at in range(1, 100):
        store, memory, error = run(FaultPlan(at, fault, verbs=WRITE_VERBS))
        if store.struck is None:
            assert error is None
            break
        assert store.struck.path == "a"
        assert type(error) is (Killed if fault in KILLS else StorageError)
        assert fault.value in str(error)
        states.append(memory.files.get("a"))
    is_after = fault in (Fault.FAIL_AFTER, Fault.KILL_AFTER)
    assert states == (STATES[1:] if is_after else STATES[:-1])


def test_reads_are_counted_unless_told_otherwise() -> None:
    store, _, _ = run(FaultPlan(99, Fault.FAIL_BEFORE))
    assert [operation.verb for operation in store.operations] == [
        "put_if_absent",
        "list",
        "replace",
        "read_versioned",
        "replace_if",
        "delete",
    ]
    store, _, _ = run(FaultPlan(99, Fault.FAIL_BEFORE, verbs=WRITE_VERBS))
    assert {operation.verb for operation in store.operations} <= WRITE_VERBS
    assert len(store.operations) == 4
    store, memory, error = run(FaultPlan(2, Fault.FAIL_AFTER))
    assert store.struck == Operation("list", "")
    assert isinstance(error, StorageError)
    assert memory.files == {"a": b"one"}


@pytest.mark.parametrize("fault", KILLS)
def test_the_dead_do_nothing(fault: Fault) -> None:
    memory = MemoryStore({"a": b"1"})
    store = FaultyStore(memory, FaultPlan(1, fault, verbs=WRITE_VERBS))
    with pytest.raises(Killed):
        store.delete("missing")
    left = dict(memory.files)
    for attempt in (
        lambda: store.read("a", 9),
        lambda: store.read_versioned("a", 9),
        lambda: store.read_ranges("a", [(0, 1)]),
        lambda: store.open_arrow("a"),
        lambda: store.list(""),
        lambda: store.info("a"),
        lambda: store.put_if_absent("b", b""),
        lambda: store.replace("a", b""),
        lambda: store.replace_if("a", b"", "v"),
        lambda: store.delete("a"),
        lambda: store.delete_tree("x"),
    ):
        with pytest.raises(Killed):
            attempt()
    assert memory.files == left


def test_killed_is_no_error_that_code_may_catch() -> None:
    assert not issubclass(Killed, Exception)


def test_a_failure_is_over_after_one_operation_unless_it_lasts() -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(1, Fault.FAIL_BEFORE))
    with pytest.raises(StorageError):
        store.put_if_absent("a", b"1")
    assert store.put_if_absent("a", b"2") is True
    store = FaultyStore(memory, FaultPlan(2, Fault.FAIL_BEFORE, lasting=True))
    assert store.read("a", 9) == b"2"
    for _ in range(3):
        with pytest.raises(StorageError, match="a: read"):
            store.read("a", 9)
    assert store.struck == Operation("read", "a")


def test_what_was_torn() -> None:
    memory = MemoryStore({f"t/{name}": b"1" for name in ("a", "b/c", "b/d", "e")})

    def tear(act: Callable[[Store], object]) -> None:
        with pytest.raises(Killed):
            act(FaultyStore(memory, FaultPlan(1, Fault.KILL_TORN)))

    before = dict(memory.files)
    tear(lambda store: store.put_if_absent("d/new", b"123456"))
    assert memory.files == {**before, "d/.bucketfmt-torn.tmp": b"123"}
    tear(lambda store: store.replace("d/new", b"1"))
    assert memory.files == {**before, "d/.bucketfmt-torn.tmp": b""}
    tear(lambda store: store.delete("t/a"))
    assert memory.files == {**before, "d/.bucketfmt-torn.tmp": b""}
    tear(lambda store: store.delete_tree("t"))
    assert memory.files == {"d/.bucketfmt-torn.tmp": b"", "t/b/c": b"1", "t/e": b"1"}


def test_late_effects_come_in_order_when_they_are_let() -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(1, Fault.FAIL_LATE, lasting=True))
    assert store.failures_are_final is False
    for data in (b"1", b"2"):
        with pytest.raises(StorageError):
            store.put_if_absent("a", data)
    with pytest.raises(StorageError):
        store.replace("b", b"3")
    assert memory.files == {}
    store.deliver()
    assert memory.files == {"a": b"1", "b": b"3"}
    store.deliver()
    assert memory.files == {"a": b"1", "b": b"3"}


def test_threads_are_counted_together() -> None:
    store = FaultyStore(MemoryStore(), FaultPlan(50, Fault.KILL_BEFORE))
    deaths = []

    def replace_often(name: str) -> None:
        try:
            for _ in range(100):
                store.replace(name, b"1")
        except Killed:
            deaths.append(name)

    threads = [threading.Thread(target=replace_often, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(deaths) == ["0", "1", "2", "3"]
    assert len(store.operations) == 50


def test_every_verb_of_a_store_is_passed_on() -> None:
    assert {name for name in vars(Store) if not name.startswith("_")} <= set(vars(FaultyStore))
