"""Whether a metadata table is in step with its table, by the names in both timelines."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import ConflictError
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.instant_content import encode_instant_content
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.in_step import Step, find_newer, find_step
from bucketfmt.metadata_table.metadata_table import load_metadata_table
from bucketfmt.metadata_table.valid_instants import (
    ValidInstants,
    find_amending_instant,
    is_amending_instant,
)
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Timeline, plan_timeline
from soak.damage.tables import table_files
from tests.instants import shift_instant
from tests.metadata_table.tables import TABLES

ZEROS = "0" * 14


def time(number: int) -> str:
    return f"20240101{number:09}"


def timeline(layout: int, *names: str) -> Timeline:
    """Of names such as `5.commit`, or `5.commit.requested`, with the number of a time."""
    files = []
    for name in names:
        number, _, action = name.partition(".")
        own = number if number.startswith(ZEROS) or len(number) > 3 else time(int(number))
        is_completed = layout == 2 and not action.endswith((".requested", ".inflight"))
        later = f"_{time(int(number[-3:]) + 1)}" if is_completed else ""
        files.append((f"{own}{later}.{action}", None))
    return plan_timeline(files, layout)


@pytest.mark.rule("MDT-18")
@pytest.mark.parametrize("table", TABLES)
def test_metadata_tables_of_hudi_are_in_step(table: str) -> None:
    store = MemoryStore(table_files(table))
    config = load_config(store, DEFAULT_LIMITS)
    found = load_metadata_table(store, config, load_timeline(store, config), DEFAULT_LIMITS)
    assert found is not None
    assert found.step == Step()


INITIAL = f"{ZEROS}000.deltacommit"
INITIAL_AT_5 = f"{time(5)}010.deltacommit"
AMENDING_5 = f"{time(5)}500.deltacommit"


@pytest.mark.parametrize(
    ("data", "metadata", "step"),
    [
        (["5.commit"], [INITIAL, "5.deltacommit"], Step()),
        (["5.commit", "7.clean"], [INITIAL, "5.deltacommit"], Step(missing=(time(7),))),
        (["5.commit", "7.savepoint", "8.rollback"], [INITIAL, "5.deltacommit"], Step()),
        (["5.commit"], [], Step(is_unfinished=True)),
        (["5.commit"], [f"{ZEROS}000.deltacommit.requested"], Step(is_unfinished=True)),
        (
            ["5.commit", "7.deltacommit.inflight"],
            [INITIAL, "5.deltacommit", "7.deltacommit"],
            Step(leftovers=(time(7),)),
        ),
        (
            ["5.commit", "9.commit"],
            [INITIAL, "5.deltacommit", "7.deltacommit", "9.deltacommit"],
            Step(ahead=(time(7),)),
        ),
        # began after the table was read
        (["5.commit"], [INITIAL, "5.deltacommit", "7.deltacommit"], Step()),
        # what 5 said again, since 3 was published after it
        (
            ["3.commit", "5.commit", "9.commit"],
            [INITIAL, "3.deltacommit", "5.deltacommit", AMENDING_5, "9.deltacommit"],
            Step(),
        ),
        (["5.commit", "7.commit"], [AMENDING_5, "5.deltacommit"], Step(missing=(time(7),))),
        # compaction and cleaning of the metadata table
        (["5.commit", "9.clean"], [INITIAL, "5.deltacommit", "6.commit", "9.deltacommit"], Step()),
        # completed before a listing made the metadata table
        (["5.commit", "30.commit"], [f"{ZEROS}010.deltacommit", "30.deltacommit"], Step()),
        # made from a listing, and log-compacted, before an upgrade from layout 1
        (
            ["3.commit", "5.commit", "30.commit"],
            [INITIAL_AT_5, f"{time(5)}005.deltacommit", "30.deltacommit"],
            Step(),
        ),
        # the table restored: its metadata table too, or not
        (
            ["5.commit", "9.restore", "20.commit"],
            [INITIAL, "5.deltacommit", "8.deltacommit", "20.deltacommit"],
            Step(missing=(time(9),), ahead=(time(8),)),
        ),
        (
            ["5.commit", "9.restore", "20.commit"],
            [INITIAL, "5.deltacommit", "10.deltacommit", "20.deltacommit"],
            Step(),
        ),
        # Hudi took the clean back there, and listed the files anew
        (
            ["5.commit", "7.clean", "9.restore", "20.commit"],
            [INITIAL, "5.deltacommit", "10.deltacommit", "20.deltacommit"],
            Step(),
        ),
        (
            ["5.commit", "7.clean", "9.restore", "12.clean"],
            [INITIAL, "5.deltacommit", "9.restore"],
            Step(missing=(time(12),)),
        ),
        (
            ["5.commit", "7.clean", "9.restore"],
            [INITIAL, "5.deltacommit"],
            Step(missing=(time(7), time(9))),
        ),
        (
            ["5.commit", "7.commit", "9.restore"],
            [INITIAL, "5.deltacommit", "9.restore"],
            Step(missing=(time(7),)),
        ),
    ],
)
def test_steps_of_layout_2(data: list[str], metadata: list[str], step: Step) -> None:
    assert find_step(timeline(2, *data), timeline(2, *metadata)) == step


@pytest.mark.parametrize(
    ("data", "metadata", "step"),
    [
        (["3.commit", "5.commit"], [INITIAL_AT_5], Step()),
        (["3.commit", "7.commit"], [INITIAL_AT_5], Step(missing=(time(7),))),
        (["7.commit", "8.rollback"], [INITIAL_AT_5, "7.deltacommit"], Step(missing=(time(8),))),
        (
            ["7.commit", "8.rollback"],
            [INITIAL_AT_5, "7.deltacommit", f"{time(7)}001.commit", "8.deltacommit"],
            Step(),
        ),
        (["1.commit"], [f"{ZEROS}010.deltacommit"], Step(missing=(time(1),))),
        (["1.commit"], [f"{ZEROS}010.deltacommit", "1.deltacommit"], Step()),
        (
            ["7.commit", "8.rollback", "9.clean", "11.restore", "12.rollback"],
            [INITIAL_AT_5, "7.deltacommit", "11.deltacommit"],
            Step(missing=(time(12),)),
        ),
    ],
)
def test_steps_of_layout_1(data: list[str], metadata: list[str], step: Step) -> None:
    assert find_step(timeline(1, *data), timeline(1, *metadata)) == step


def test_archived_instants_of_the_metadata_table_count() -> None:
    data = timeline(2, "5.commit", "7.commit", "9.commit")
    active = timeline(2, "8.commit", "9.deltacommit")
    archived = timeline(2, INITIAL, "5.deltacommit", "7.deltacommit")
    assert find_step(data, active).missing == (time(5), time(7))
    assert find_step(data, active, archived.instants) == Step()


def test_amending_instants_come_after_what_they_amend_and_before_the_next() -> None:
    amending = [find_amending_instant(time(5))]
    amending += [find_amending_instant(amending[0])]
    assert amending == [f"{time(5)}500", f"{time(5)}501"]
    assert sorted([time(6), *amending, time(5)]) == [time(5), *amending, time(6)]
    others = [time(5), f"{time(5)}010", f"{ZEROS}000", f"{time(5)}001"]
    assert [is_amending_instant(each) for each in (*amending, *others)] == [True] * 2 + [False] * 4
    with pytest.raises(ConflictError, match=f"begun before {time(5)}999 are published after"):
        find_amending_instant(f"{time(5)}999")


def test_what_is_said_of_a_step() -> None:
    assert str(Step()) == "it is in step with the table"
    assert str(Step(missing=tuple("abcde"))) == "it lacks a, b, c and 2 more"
    assert str(Step(ahead=("a",))) == "it has a, which the table lacks"
    assert not Step(is_unfinished=True).is_in_step
    assert Step(leftovers=("a",)).is_in_step


@pytest.mark.parametrize("layout", [1, 2])
def test_instants_whose_records_count(layout: int) -> None:
    data = timeline(layout, "5.commit", "7.commit.requested", "9.rollback")
    metadata = timeline(
        layout,
        INITIAL,
        "4.deltacommit",
        "5.deltacommit",
        "7.deltacommit",
        "10.deltacommit.inflight",
    )
    asked = []

    def rolled_back() -> list[str]:
        asked.append(1)
        return [time(6), time(7)]

    valid = ValidInstants(data, metadata, rolled_back)
    counts = [n for n in (1, 4, 5, 6, 7, 8, 9, 10) if time(n) in valid]
    assert f"{ZEROS}000" in valid
    assert counts == [4, 5, 6, 9]
    assert len(asked) == 1


@pytest.mark.rule("MDT-16")
@pytest.mark.parametrize("layout", [1, 2])
def test_records_of_writes_that_began_since_do_not_count(layout: int) -> None:
    """They are in the metadata table before they are completed, and move keys."""
    metadata = timeline(layout, INITIAL, "5.deltacommit", AMENDING_5, "8.deltacommit")
    asked = [time(5), f"{time(5)}500", time(8)]
    for names, counting in (
        (["5.commit"], asked[:2]),
        (["5.commit", "8.commit.inflight"], asked[:2]),
        (["5.commit", "9.commit"], asked),
        (["5.commit", "6.restore"], asked),
        ([], []),
    ):
        valid = ValidInstants(timeline(layout, *names), metadata, list)
        assert [each for each in asked if each in valid] == counting, names


# The first is what a reader knew; the second, what the table has then.
BEGUN = ["3.commit", "5.commit", "7.commit.requested"]
DONE = ["3.commit", "5.commit", "7.commit"]


@pytest.mark.rule("MDT-16")
@pytest.mark.parametrize(
    ("layout", "now", "metadata", "newer"),
    [
        (2, BEGUN, ["9.commit"], None),
        (2, DONE, [], None),  # in log blocks only
        (2, DONE, ["9.commit"], "commit 7 was completed"),
        (2, DONE, ["8.commit"], "commit 7 was completed"),  # at 8
        (2, DONE, ["7.commit"], None),  # as of before 8
        (2, DONE, ["9.commit.inflight"], None),
        (2, [*BEGUN, "8.commit"], [f"{ZEROS}007.deltacommit"], None),  # initialised at 8
        (2, [*BEGUN, "8.commit"], [f"{ZEROS}008.deltacommit"], "commit 8 was completed"),
        (2, [*BEGUN, "8.commit"], ["9.commit"], "commit 8 was completed"),
        (2, ["3.commit", "5.commit", "8.rollback"], [], "rollback 8 was begun"),
        (2, [*BEGUN, "8.rollback.requested"], [], "rollback 8 was begun"),
        (2, [*BEGUN, "8.restore.inflight"], [], "restore 8 was begun"),
        (2, ["3.commit", "7.commit.requested"], [], "commit 5 was rolled back"),
        (2, ["8.commit"], [], "what was written since 7 was archived"),
        (1, DONE, [f"{time(8)}001.commit"], "commit 7 was completed"),
        (1, DONE, [f"{time(7)}001.commit"], "commit 7 was completed"),
        (1, DONE, [f"{time(6)}001.commit"], None),
        (1, DONE, [f"{time(6)}010.deltacommit"], None),
        (1, DONE, [f"{time(7)}010.deltacommit"], "commit 7 was completed"),
    ],
)
def test_what_base_files_may_have_that_a_reader_does_not_know(
    layout: int, now: list[str], metadata: list[str], newer: str | None
) -> None:
    found = find_newer(
        timeline(layout, *BEGUN), timeline(layout, *now), timeline(layout, *metadata)
    )
    if newer is not None:
        newer = " ".join(time(int(word)) if word.isdigit() else word for word in newer.split())
    assert found == newer


def test_a_log_compaction_of_the_metadata_table_is_no_write_of_the_table(tmp_path: Path) -> None:
    """The table was taken for behind its metadata table, which each write made anew."""
    schema = pa.schema({"id": pa.string()})
    table = bf.create(
        str(tmp_path / "t"), schema=schema, record_key=["id"], index=bf.SimpleBucketIndex(1)
    )
    table.metadata_table.init("files")
    table.upsert(pa.table({"id": ["a"]}))
    below = FolderStore(table.store, METADATA_TABLE)
    config = load_config(below, DEFAULT_LIMITS)
    instant = table.upsert(pa.table({"id": ["b"]})).instant
    ahead = shift_instant(instant, -1)
    content = encode_instant_content(
        CommitMetadata(operation_type="LOG_COMPACT"), "deltacommit", State.COMPLETED, 2
    )
    name = format_instant_file_name(ahead, "deltacommit", State.COMPLETED, instant, 2)
    assert below.put_if_absent(f"{config.timeline_path}/{name}", content)
    table = bf.open(table.uri)
    assert table.check(depth="full").status == "clean"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it is made anew
        table.upsert(pa.table({"id": ["c"]}))
