"""Keys that are found by the record index while others move them, or make the index anew.

Log blocks of later writes do not count; base files have them, and whoever read those finds the
keys again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.record_location_kernels import RecordLocations as Found
from bucketfmt.location.records import record_locator
from bucketfmt.location.records.record_locations import RecordLocations
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.metadata import initialise, metadata_services
from bucketfmt.write.undo.rollback_planner import RollbackPlanner
from tests.write.models import Model, assert_reads_as, create_table, rows

VERSIONS = (6, 8, 9)
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
KEYS = range(40)
IDS = [f"key-{key:06}" for key in KEYS]
MOVING = range(0, 40, 3)  # those of `us`

Overtake = Callable[[], None]


class Shared:
    """A table, another handle of it, and what it has to hold."""

    def __init__(self, uri: str, table_type: str, version: int) -> None:
        index = bf.RecordIndex(update_partition_path=True)
        self.table = create_table(f"memory://{uri}/t", index, table_type, version)
        self.model = Model()
        self.upsert(rows(KEYS, ts=1))
        self.table, self.other = bf.open(self.table.uri), bf.open(self.table.uri)

    def upsert(self, given: pa.Table) -> None:
        self.table.upsert(given)
        self.model.upsert(given)

    def moved(self) -> None:
        given = into("eu", MOVING)
        self.other.upsert(given)
        self.model.drop("us")
        self.model.upsert(given)

    def overwritten(self) -> None:
        given = pa.concat_tables([into("eu", MOVING[1:]), into("us", MOVING[:1])])
        self.other.insert_overwrite(given)
        self.model.drop("eu")
        self.model.drop("us")
        self.model.upsert(given)

    def moved_and_taken_back(self) -> None:
        moved = self.other.upsert(into("eu", MOVING))
        with pytest.MonkeyPatch.context() as patch:
            # As Hudi, which does not ask who is at work when it rolls a completed commit back.
            patch.setattr(RollbackPlanner, "check_writers_dead", lambda *_: None)
            self.other.rollback(moved.instant)


def into(region: str, keys: Iterable[int]) -> pa.Table:
    given = rows(keys, ts=2)
    return given.set_column(4, "region", pa.array([region] * given.num_rows))


CHANGES = {
    "moved": Shared.moved,
    "overwritten": Shared.overwritten,
    "taken back": Shared.moved_and_taken_back,
}
BASES = ("none", "rebuilt", "compacted")


def overtaking(
    patch: pytest.MonkeyPatch, shared: Shared, change: str, base: str, moment: str
) -> list[str]:
    """Let another writer write once at a moment; what is returned has an item after that."""
    done: list[str] = []

    def overtake() -> None:
        if done:
            return
        done.append(change)
        with pytest.MonkeyPatch.context() as due:
            if base == "compacted":
                due.setattr(metadata_services, "_DELTA_COMMITS", 1)
            CHANGES[change](shared)
        if base == "rebuilt":
            shared.other.metadata_table.rebuild("record_index")

    if moment == "before the index is read":
        load = RecordLocations._load

        def loaded(records: RecordLocations) -> MetadataPartition:
            overtake()
            return load(records)

        patch.setattr(RecordLocations, "_load", loaded)
        return done
    locate = MetadataPartition.locate

    def located(partition: MetadataPartition, *given: Any) -> Found:
        found = None if moment == "before keys are read" else locate(partition, *given)
        overtake()
        return locate(partition, *given) if found is None else found

    patch.setattr(MetadataPartition, "locate", located)
    return done


def places(table: bf.Table) -> list[dict[str, Any]]:
    located: list[dict[str, Any]] = table.locate(IDS).to_pylist()
    return located


MOMENTS = ("before the index is read", "before keys are read", "after keys were read")


@pytest.mark.rule("MDT-16")
@pytest.mark.rotated(1)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_keys_are_found_as_of_one_moment(
    version: int,
    table_type: str,
    change: str,
    base: str,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys that were moved meanwhile were looked for where they came from, and not found."""
    name = f"found_at_once/{version}{table_type}{change}{base}{moment}".replace(" ", "_")
    shared = Shared(name, table_type, version)
    states = [shared.table.scan().to_arrow().sort_by("id")]
    located = [places(shared.table)]
    with monkeypatch.context() as patch:
        done = overtaking(patch, shared, change, base, moment)
        found = bf.open(shared.table.uri).lookup(IDS)
    assert done == [change]
    states.append(bf.open(shared.table.uri).scan().to_arrow().sort_by("id"))
    assert found.sort_by("id") in states
    assert_reads_as(shared.table.uri, shared.model)

    shared = Shared(f"{name}_located", table_type, version)
    located = [places(shared.table)]
    with monkeypatch.context() as patch:
        done = overtaking(patch, shared, change, base, moment)
        own = places(bf.open(shared.table.uri))
    assert done == [change]
    located.append(places(bf.open(shared.table.uri)))
    assert own in located
    assert_reads_as(shared.table.uri, shared.model)


@pytest.mark.rotated(1)
@pytest.mark.parametrize("asked", ["keys", "filter"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_to_be_deleted_is_found_again_where_it_was_moved(
    version: int,
    table_type: str,
    change: str,
    base: str,
    moment: str,
    asked: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The delete was acknowledged, and the rows that were moved meanwhile stayed."""
    name = f"deleted/{version}{table_type}{change}{base}{moment}{asked}".replace(" ", "_")
    shared = Shared(name, table_type, version)
    gone = IDS[:12]
    with monkeypatch.context() as patch:
        done = overtaking(patch, shared, change, base, moment)
        table = bf.open(shared.table.uri)
        if asked == "keys":
            table.delete(gone)
        else:
            table.delete(filter=f"id <= '{gone[-1]}'")
    assert done == [change]
    shared.model.delete(gone)
    assert_reads_as(shared.table.uri, shared.model)


@pytest.mark.rotated(1)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_written_where_their_keys_are(
    version: int,
    table_type: str,
    change: str,
    base: str,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that was moved meanwhile had two rows."""
    name = f"written/{version}{table_type}{change}{base}{moment}".replace(" ", "_")
    shared = Shared(name, table_type, version)
    given = rows([*KEYS, 50], ts=3)
    with monkeypatch.context() as patch:
        done = overtaking(patch, shared, change, base, moment)
        bf.open(shared.table.uri).upsert(given)
    assert done == [change]
    shared.model = Model()
    shared.model.upsert(given)
    assert_reads_as(shared.table.uri, shared.model)


@pytest.mark.parametrize("given_partition", [False, True])
def test_keys_of_each_partition_are_found_as_of_one_moment(
    monkeypatch: pytest.MonkeyPatch, given_partition: bool
) -> None:
    """With a partitioned index; a rebuilt index has the places of keys that were added since."""
    uri = f"memory://found_at_once/partitioned_{given_partition}/t"
    table = create_table(uri, bf.RecordIndex(partitioned=True))
    table.upsert(rows(KEYS, ts=1))
    other, locate, done = bf.open(uri), MetadataPartition.locate, []
    asked: Any = IDS
    if given_partition:
        regions = rows(KEYS, ts=1)["region"]
        asked = pa.table({"record_key": IDS, "partition_path": regions})

    def located(partition: MetadataPartition, *given: Any) -> Found:
        if not done:
            done.append(True)
            other.delete(pa.table({"id": IDS[:1], "region": ["us"]}))
            other.upsert(into("us", [1, 2]))
            other.metadata_table.rebuild("record_index")
        return locate(partition, *given)

    monkeypatch.setattr(MetadataPartition, "locate", located)
    found = bf.open(uri).locate(asked)
    assert done
    assert found.sort_by([("record_key", "ascending"), ("partition_path", "ascending")]).equals(
        bf.open(uri)
        .locate(asked)
        .sort_by([("record_key", "ascending"), ("partition_path", "ascending")])
    )
    assert bf.open(uri).check("full").findings == ()


@pytest.mark.parametrize("keys_then", [range(40, 400), range(0)])
def test_an_index_that_is_made_anew_amid_a_look_up_is_read_again(
    monkeypatch: pytest.MonkeyPatch, keys_then: range
) -> None:
    """Its files have the names of those before: a larger one was told to be over a limit."""
    shared = Shared(f"record_index_made_anew_{len(keys_then)}", "COPY_ON_WRITE", 9)
    table, other, locate, made = shared.table, shared.other, MetadataPartition.locate, []

    def made_anew(partition: MetadataPartition, *given: Any) -> Found:
        if not made:
            made.append(True)
            if keys_then:
                other.upsert(rows(keys_then, ts=2))
            else:
                other.delete(IDS[10:])
            other.metadata_table.rebuild()
        return locate(partition, *given)

    monkeypatch.setattr(MetadataPartition, "locate", made_anew)
    found = table.locate(IDS)
    assert made
    assert found["file_id"].null_count == (0 if keys_then else 30)


def test_keys_are_looked_up_while_another_writer_makes_the_index_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Look-ups read all file groups then. What is to be located or written has to wait."""
    shared = Shared("record_index_being_made_anew", "COPY_ON_WRITE", 9)
    table, given = shared.table, rows(KEYS, ts=2)
    stored = table.scan().to_arrow().sort_by("id")
    refused = pytest.raises(
        bf.ConflictError, match="another writer is making the record index anew"
    )
    seen = []

    def put(*_: Any) -> None:
        for own in (table, bf.open(table.uri)):
            with refused:
                own.locate(IDS)
            assert own.lookup(IDS).sort_by("id") == stored
            assert own.lookup(["no such key"]).num_rows == 0
            assert own.scan(filter=f"id >= '{IDS[30]}'").count() == 10
            assert own.inspect.buckets()["file_id"].null_count == 0
            assert own.check().status == "clean"
            seen.append(True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(initialise, "_put_partition", put)
        with pytest.raises(KeyboardInterrupt):
            shared.other.metadata_table.rebuild("record_index")
    assert seen == [True, True]
    assert bf.open(table.uri).lookup(IDS).sort_by("id") == stored  # though nobody makes it
    shared.upsert(given)
    assert bf.open(table.uri).locate(IDS)["file_id"].null_count == 0
    assert_reads_as(table.uri, shared.model)


@pytest.mark.parametrize("moment", MOMENTS[:2])
def test_an_index_that_is_dropped_meanwhile_is_unknown(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It was told that there is no table at .hoodie/metadata."""
    shared = Shared(f"record_index_dropped/{moment}".replace(" ", "_"), "MERGE_ON_READ", 9)
    monkeypatch.setitem(CHANGES, "moved", lambda own: own.other.metadata_table.drop())
    for act in (
        lambda table: table.locate(IDS),
        lambda table: table.upsert(rows(KEYS, ts=2)),
        lambda table: table.delete(filter=f"id >= '{IDS[0]}'"),
    ):
        table = bf.open(shared.table.uri)
        with monkeypatch.context() as patch:
            done = overtaking(patch, shared, "moved", "none", moment)
            with pytest.raises(bf.IndexUnknownError, match="the table has no record index"):
                act(table)
            assert done
        assert bf.open(table.uri).lookup(IDS).num_rows == len(IDS)
        shared.other.metadata_table.init("record_index")
    table = bf.open(shared.table.uri)
    with monkeypatch.context() as patch:
        done = overtaking(patch, shared, "moved", "none", moment)
        assert table.lookup(IDS).num_rows == len(IDS)
        assert done


@pytest.mark.parametrize("gap", ["rebuild", "drop"])
def test_an_index_that_was_away_for_one_look(monkeypatch: pytest.MonkeyPatch, gap: str) -> None:
    """The properties are as before, so that nothing tells that the table has changed meanwhile."""
    shared = Shared(f"record_index_away_for_one_look/{gap}", "COPY_ON_WRITE", 9)
    other, ask = shared.other, RecordLocations._ask

    def looks(number: int) -> Callable[[RecordLocations, Any], Any]:
        count = []

        def asked(records: RecordLocations, question: Any) -> Any:
            count.append(True)
            if len(count) != number:
                return ask(records, question)
            if gap == "drop":
                other.metadata_table.drop("record_index")
                try:
                    return ask(records, question)
                finally:
                    other.metadata_table.init("record_index")
            answers: list[Any] = []

            def put(*given: Any) -> None:
                if not answers:
                    try:
                        answers.append(ask(records, question))
                    except bf.BucketfmtError as error:
                        answers.append(error)
                put_partition(*given)

            with pytest.MonkeyPatch.context() as amid:
                amid.setattr(initialise, "_put_partition", put)
                other.metadata_table.rebuild("record_index")
            if isinstance(answers[0], BaseException):
                raise answers[0]
            return answers[0]

        return asked

    put_partition = initialise._put_partition
    error: type[bf.BucketfmtError] = bf.ConflictError if gap == "rebuild" else bf.IndexUnknownError
    told = "is making the record index anew" if gap == "rebuild" else "has no record index"
    with monkeypatch.context() as patch:
        patch.setattr(RecordLocations, "_ask", looks(1))
        with pytest.raises(error, match=told):  # and not that it tells no file group from a key
            bf.open(shared.table.uri).locate(IDS)
    for number in (1, 2) if gap == "drop" else (1,):
        with monkeypatch.context() as patch:
            patch.setattr(RecordLocations, "_ask", looks(number))
            assert bf.open(shared.table.uri).lookup(IDS).num_rows == len(IDS)
    assert_reads_as(shared.table.uri, shared.model)


def test_a_write_beside_an_overwrite_that_gives_up_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ended in a NotFoundError: the plan of the other was gone."""
    shared = Shared("record_index_and_one_that_gives_up", "MERGE_ON_READ", 9)
    transaction = shared.other._transactions.begin("replacecommit")
    load, given = record_locator.load_pending_clusterings, rows([*KEYS, 70], ts=2)

    def given_up(*args: Any) -> Any:
        if not transaction._is_ended:
            transaction._abort()
        return load(*args)

    monkeypatch.setattr(record_locator, "load_pending_clusterings", given_up)
    shared.upsert(given)
    assert transaction._is_ended
    assert_reads_as(shared.table.uri, shared.model)


@pytest.mark.parametrize("asked", ["keys", "filter"])
def test_a_delete_makes_the_index_that_a_dead_writer_left(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    shared = Shared(f"record_index_left_by_a_dead_writer/{asked}", "MERGE_ON_READ", 9)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(initialise, "_put_partition", dies)
        with pytest.raises(KeyboardInterrupt):
            shared.other.metadata_table.rebuild("record_index")
    table = bf.open(shared.table.uri)
    done = table.delete(IDS[:3]) if asked == "keys" else table.delete(filter=f"id < '{IDS[3]}'")
    assert done.committed
    shared.model.delete(IDS[:3])
    assert bf.open(table.uri).locate(IDS)["file_id"].null_count == 3
    assert_reads_as(table.uri, shared.model)


def test_a_key_in_a_file_group_that_is_not_there_is_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was told not to be in the table."""
    shared = Shared("record_index_and_no_slice", "COPY_ON_WRITE", 9)
    monkeypatch.setattr(Snapshot, "slices_where", lambda *_: ())
    for act in (partial(shared.table.locate, IDS), partial(shared.table.lookup, IDS)):
        with pytest.raises(bf.CorruptError, match="which the table does not have; rebuild"):
            act()


def test_what_was_taken_back_amid_a_write_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index was read with a key where it was moved to, and the move was rolled back."""
    shared = Shared("record_index_and_a_rollback", "COPY_ON_WRITE", 9)
    given, find, done = rows(KEYS, ts=3), RecordLocations.find, []

    def found(records: RecordLocations, *keys: Any) -> pa.Table:
        if done:
            return find(records, *keys)
        done.append(True)
        moved = shared.other.upsert(into("eu", MOVING))
        shared.other.metadata_table.rebuild("record_index")
        places = find(records, *keys)
        shared.other.rollback(moved.instant)
        return places

    with monkeypatch.context() as patch:
        # As Hudi, which does not ask who is at work when it rolls a completed commit back.
        patch.setattr(RollbackPlanner, "check_writers_dead", lambda *_: None)
        patch.setattr(RecordLocations, "find", found)
        with pytest.raises(bf.ConflictError, match="was begun since the record index was read"):
            shared.table.upsert(given, retries=0)
    assert done
    shared.upsert(given)
    assert_reads_as(shared.table.uri, shared.model)
