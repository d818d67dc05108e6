"""Which files make up a file group, by the rules of table version 6 and of 8 and later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, TruncatedError
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.snapshot.data_files.file_slices import (
    find_file_slices,
    find_slice_history,
    group_files,
)
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice, WrittenFile

F = "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0"
G = "00000002-1ad8-4c4f-84b0-f9f06e6013ae-0"


def t(number: int) -> str:
    """The instant `number`."""
    return f"202401010000000{number:02d}"


@dataclass
class View:
    """Instants by requested time, each with its completion time; a missing one is pending."""

    table_version: int
    completed: Mapping[int, int] = field(default_factory=dict)

    def is_visible(self, requested_time: str) -> bool:
        return requested_time in map(t, self.completed)

    def completion_time(self, requested_time: str) -> str:
        times = {t(requested): t(completed) for requested, completed in self.completed.items()}
        return times.get(requested_time, requested_time)


def at_once(*numbers: int, version: int = 8) -> View:
    return View(version, {number: number for number in numbers})


def file(name: str, committed: bool = True) -> DataFile:
    parsed = find_data_file_name(name)
    assert parsed is not None
    written = WrittenFile(f"p/{name}", parsed, 10) if committed else None
    return DataFile(f"p/{name}", parsed, 10, written)


def base(instant: int, token: str = "0-1-1", file_id: str = F, committed: bool = True) -> DataFile:
    return file(f"{file_id}_{token}_{t(instant)}.parquet", committed)


def log(instant: int, version: int = 1, token: str = "0-1-1", file_id: str = F) -> DataFile:
    return file(f".{file_id}_{t(instant)}.log.{version}_{token}")


def history(
    view: View, *files: DataFile, pending: int | None = None
) -> list[tuple[str, DataFile | None, list[DataFile]]]:
    found = find_slice_history("p", F, files, view, t(pending) if pending else None)
    return [(s.base_instant, s.base_file, list(s.log_files)) for s in found]


class TestVersion6:
    """A log file's name holds the instant of its slice."""

    def test_logs_join_the_base_file_of_their_name(self) -> None:
        files = [log(3, 2), base(1), log(1, 2), base(3), log(1, 1), log(3, 1)]
        assert history(at_once(1, 2, 3, version=6), *files) == [
            (t(1), base(1), [log(1, 1), log(1, 2)]),
            (t(3), base(3), [log(3, 1), log(3, 2)]),
        ]

    def test_log_only(self) -> None:
        assert history(at_once(1, version=6), log(1)) == [(t(1), None, [log(1)])]

    def test_whoever_wrote_a_log_file_is_told_by_its_blocks(self) -> None:
        """An uncommitted append is in a file whose name shows a committed slice."""
        files = [base(1), log(1, 1), log(1, 2, "9-9-9")]
        assert history(at_once(1, version=6), *files) == [(t(1), base(1), files[1:])]

    def test_nothing_of_an_instant_that_is_not_completed(self) -> None:
        assert history(at_once(1, version=6), base(1), base(2), log(2)) == [(t(1), base(1), [])]
        assert history(at_once(1, version=6), log(2)) == []

    def test_logs_behind_a_pending_compaction_read_on_top_of_the_slice_before(self) -> None:
        view = at_once(1, 2, 4, version=6)
        files = [base(1), log(1, 1), log(3, 1), log(3, 2)]
        assert history(view, *files, pending=3) == [(t(1), base(1), files[1:])]
        assert history(view, base(1), log(1), pending=3) == [(t(1), base(1), [log(1)])]

    def test_logs_of_a_slice_that_nothing_has_begun_are_in_the_slice_before(self) -> None:
        """A restore by Hudi took their compaction back, and left them; then all was archived."""
        files = [base(1), log(1), log(2, 1), log(2, 2)]
        view = at_once(1, 2, 3, 4, 5, version=6)
        assert history(view, *files) == [(t(1), base(1), files[1:])]
        assert history(view, *files, base(3), log(3)) == [
            (t(1), base(1), files[1:]),
            (t(3), base(3), [log(3)]),
        ]
        assert history(view, *files, log(3), pending=3) == [(t(1), base(1), [*files[1:], log(3)])]
        assert history(at_once(1, version=6), *files) == [(t(1), base(1), [log(1)])]
        assert history(view, log(1), base(2)) == [(t(1), None, [log(1)]), (t(2), base(2), [])]

    def test_a_group_that_began_behind_a_pending_compaction(self) -> None:
        assert history(at_once(4, version=6), log(3), pending=3) == [(t(3), None, [log(3)])]

    def test_the_unfinished_base_file_of_a_compaction_is_not_seen(self) -> None:
        assert history(at_once(1, version=6), base(1), base(3), log(3), pending=3) == [
            (t(1), base(1), [log(3)])
        ]


class TestVersion8:
    """A log file's name holds the instant that wrote it."""

    def test_a_log_belongs_to_the_newest_base_there_was(self) -> None:
        files = [log(2), log(4), base(1), base(3), log(5)]
        assert history(at_once(1, 2, 3, 4, 5), *files) == [
            (t(1), base(1), [log(2)]),
            (t(3), base(3), [log(4), log(5)]),
        ]

    def test_log_only(self) -> None:
        files = [log(1), log(2, 1, "10-0-1"), log(2, 1, "2-0-1"), log(2, 2)]
        assert history(at_once(1, 2), *reversed(files)) == [(t(1), None, files)]

    def test_late_completion_decides_not_the_name(self) -> None:
        """Written from 2 on, completed at 4: behind the compaction planned at 3."""
        view = View(8, {1: 1, 2: 4, 3: 5})
        assert history(view, base(1), log(2), base(3)) == [
            (t(1), base(1), []),
            (t(3), base(3), [log(2)]),
        ]

    def test_completed_before_the_compaction_was_planned(self) -> None:
        view = View(8, {1: 1, 2: 2, 3: 5})
        assert history(view, base(1), log(2), base(3)) == [
            (t(1), base(1), [log(2)]),
            (t(3), base(3), []),
        ]

    def test_a_log_completed_before_any_base(self) -> None:
        view = View(8, {1: 2, 3: 3})
        assert history(view, log(1), base(3)) == [(t(1), None, [log(1)]), (t(3), base(3), [])]

    def test_an_uncommitted_log_or_base_is_not_seen(self) -> None:
        assert history(at_once(1, 2), base(1), log(2), log(3), base(4)) == [
            (t(1), base(1), [log(2)])
        ]

    def test_logs_behind_a_pending_compaction_read_on_top_of_the_slice_before(self) -> None:
        view = at_once(1, 2, 4)
        files = [base(1), log(2), log(4)]
        assert history(view, *files, pending=3) == [(t(1), base(1), files[1:])]

    def test_a_pending_compaction_of_a_log_only_group(self) -> None:
        view = at_once(1, 4)
        assert history(view, log(1), log(4), pending=3) == [(t(1), None, [log(1), log(4)])]

    def test_the_unfinished_base_file_of_a_compaction_is_not_seen(self) -> None:
        assert history(at_once(1, 4), base(1), base(3), log(4), pending=3) == [
            (t(1), base(1), [log(4)])
        ]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_of_two_attempts_the_committed_one_counts(version: int) -> None:
    first, second = base(1, "0-1-1"), base(1, "0-2-9", committed=False)
    for files in ([first, second], [second, first]):
        assert history(at_once(1, version=version), *files) == [(t(1), first, [])]


def test_of_two_attempts_nobody_recorded_the_later_token_counts() -> None:
    files = [base(1, "0-2-9", committed=False), base(1, "0-10-1", committed=False)]
    assert history(at_once(1), *files) == [(t(1), files[0], [])]


def test_change_data_is_no_part_of_a_snapshot() -> None:
    cdc = file(f".{F}_{t(1)}.log.1_0-1-1.cdc")
    assert group_files([base(1), cdc, log(2), base(1, file_id=G)]) == {
        F: [base(1), log(2)],
        G: [base(1, file_id=G)],
    }


def test_the_newest_slice_of_each_group_is_read() -> None:
    files = [base(1), base(3), log(4), base(1, file_id=G), log(9, file_id="00000000-aa-0")]
    slices = find_file_slices("p", group_files(files), at_once(1, 3, 4), {G: t(2)})
    assert slices == [
        FileSlice("p", F, t(3), base(3), (log(4),)),
        FileSlice("p", G, t(1), base(1, file_id=G), ()),
    ]
    assert slices[0].files == (base(3), log(4))
    assert slices[0].size == 20


@given(
    st.sampled_from([6, 8]),
    st.dictionaries(st.integers(1, 9), st.integers(0, 9)),
    st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(1, 2)), unique=True),
    st.none() | st.integers(1, 9),
)
def test_no_visible_file_is_lost_or_read_twice(
    version: int,
    late: dict[int, int],
    files: list[tuple[bool, int, int]],
    pending: int | None,
) -> None:
    view = View(version, {requested: min(requested + by, 99) for requested, by in late.items()})
    made = [base(i) if is_base else log(i, n) for is_base, i, n in files]
    made = list({file.path: file for file in made}.values())
    if pending in late:
        pending = None
    found = find_slice_history("p", F, made, view, t(pending) if pending else None)
    seen = [file.path for file_slice in found for file in file_slice.files]
    visible = {f.path for f in made if view.is_visible(f.name.instant)}
    if version == 6 and pending:
        visible |= {
            f.path for f in made if f.path.startswith("p/.") and f.name.instant == t(pending)
        }
    assert sorted(seen) == sorted(visible)
    assert [s.base_instant for s in found] == sorted({s.base_instant for s in found})
    for file_slice in found:
        keys = [file.name.sort_key for file in file_slice.log_files]
        assert keys == sorted(keys)


def test_a_file_that_a_commit_names_is_there_whole() -> None:
    name = base(1).name
    path = f"p/{name}"
    whole = DataFile(path, name, 10, WrittenFile(path, name, 10))
    assert (whole.check_exists(), whole.is_short) == (10, False)
    unrecorded = DataFile(path, name, 11, None)
    assert (unrecorded.check_exists(), unrecorded.is_short) == (11, False)
    with pytest.raises(CorruptError, match=r"does not exist; restore it") as missing:
        DataFile(path, name, None, WrittenFile(path, name, 10)).check_exists()
    assert missing.value.path == path
    file = DataFile(path, name, 9, WrittenFile(path, name, 10))
    error = file.explained(CorruptError("no footer"))
    assert isinstance(error, TruncatedError)
    assert "9 bytes, but a completed commit recorded 10" in error.message
    assert (error.path, error.offset, file.is_short) == (path, 9, True)
    assert whole.explained(missing.value) is missing.value
