"""Examines file slices: their files, and their keys against buckets. Also a share of a table.

I/O, read only. The process that makes the report examines slices by `Examiner`; other processes
examine a share each, and tell it which slices are sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import get_args

from bucketfmt.arguments import check_choice, check_int
from bucketfmt.check.contents.slice_contents import SliceExaminer
from bucketfmt.check.examined import ExaminedState
from bucketfmt.check.partition import PartitionChecker
from bucketfmt.check.placement.index_view import compare_with_keys, load_index_view
from bucketfmt.check.placement.keys import KeyTally, find_endless_keys, key_prefix
from bucketfmt.check.report import Event
from bucketfmt.check.sound_slices import SoundSlice
from bucketfmt.choices import Depth
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import merge_streams, reader_count
from bucketfmt.timeline.load import load_timeline

__all__ = ["Examiner", "examine_share", "load_examined_state"]

_RELOADS = 3


class Examiner:
    """Examines the file slices of a snapshot. Several threads can use an examiner.

    Attributes:
        prefix: What named keys begin with; None where no key is named, or none is stored.
    """

    def __init__(self, snapshot: Snapshot, checker: PartitionChecker, with_keys: bool) -> None:
        """Set up.

        Args:
            snapshot: The table.
            checker: Has the layouts of its partitions.
            with_keys: Whether each key is compared with its bucket.
        """
        self._checker, self._with_keys = checker, with_keys
        self._contents = SliceExaminer(snapshot, with_keys)
        config = snapshot.state.config
        self.prefix = key_prefix(config) if config.populate_meta_fields else None

    def examine(self, file_slice: FileSlice) -> tuple[Iterator[Event], KeyTally]:
        """Return the events of a slice, and the tally that reading the events fills."""
        layout = self._checker.layout(file_slice.partition_path) if self._with_keys else None
        bucket_id = layout.bucket_of(file_slice.file_id) if layout is not None else None
        tally = KeyTally(file_slice, layout, bucket_id, self.prefix)
        return chain(self._contents.examine(file_slice, tally), find_endless_keys(tally)), tally


def examine_share(
    store: Store,
    config: TableConfig,
    limits: Limits,
    finder: IndexFinder,
    depth: Depth,
    number: int,
    of: int,
) -> list[bytes]:
    """Examine every `of`-th file slice, from `number` on. As `bucketfmt.Table.examine`.

    What is wrong with the table is passed over: the process that makes the report meets it again.

    Raises:
        TypeError: a number that is no integer.
        ValueError: an unknown depth, or there is no such share.
        BucketfmtError: the timeline cannot be listed.
    """
    check_choice("depth", depth, get_args(Depth))
    of = check_int("of", of, 1)
    number = check_int("number", number, 0)
    if number >= of:
        raise ValueError(f"number is 0 to {of - 1}, not {number}")
    state, with_keys = load_examined_state(store, config, limits), depth == "full"
    snapshot = Snapshot(state)
    slices: dict[str, Sequence[FileSlice]] = {}
    for path in snapshot.partitions:
        with suppress(BucketfmtError):
            slices[path] = snapshot.slices(path)
    view = load_index_view(state, snapshot, finder, slices, [])
    if depth != "quick":
        with suppress(Exception):
            view = compare_with_keys(view, snapshot, finder, slices, with_keys, [])
    checker = PartitionChecker(state, view, slices, names_only=False)
    examiner = Examiner(snapshot, checker, with_keys)

    def find_sound(file_slice: FileSlice) -> Iterator[bytes]:
        with suppress(Exception):
            events, tally = examiner.examine(file_slice)
            found = SoundSlice.of(file_slice, events, tally)
            if found is not None:
                yield found.encode()

    share = [file_slice for own in slices.values() for file_slice in own][number::of]
    streams = [partial(find_sound, file_slice) for file_slice in share]
    workers = reader_count(store, [file_slice.size for file_slice in share])
    return list(merge_streams(streams, workers, buffered=256))


def load_examined_state(store: Store, config: TableConfig, limits: Limits) -> ExaminedState:
    """Return the table as it is now; a timeline that moves meanwhile is loaded again.

    Raises:
        BucketfmtError: the timeline cannot be listed.
    """
    for _ in range(_RELOADS):
        state = ExaminedState(store, config, load_timeline(store, config, limits), limits)
        state.load()
        if not state.has_moved:
            break
    return state
