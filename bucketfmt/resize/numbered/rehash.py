"""Rehash: all partitions get another number of buckets, while others read and write.

I/O. A write that is under way when the rehash is published is in conflict with the rehash and
routes its rows anew. Source: RFC-29 (multiple rehash).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bucketfmt.choices import Codec
from bucketfmt.errors import ConflictError, UnsupportedError
from bucketfmt.format.buckets.rehashes import Rehash
from bucketfmt.format.names.names import find_bucket_id, format_nbcc_file_id
from bucketfmt.index.model import as_bucket_index
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.bucket_service import BucketService
from bucketfmt.resize.numbered.plan_rehash import RehashPreview, plan_rehash, preview_rehash
from bucketfmt.resize.plan_rewrite import RewriteStep, check_new_number, rescale_operation
from bucketfmt.resize.rewrite import (
    RewritePlan,
    StartedRewrite,
    check_nothing_pending,
    run_until_not_overtaken,
)
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.properties.pin_index import pin_index
from bucketfmt.write.rows.basis import Basis

__all__ = ["Rehasher", "slices_to_divide"]


class Rehasher(BucketService):
    """Gives one table another number of buckets."""

    def preview(self, num_buckets: int) -> RehashPreview:
        """Return what `run` would do now. Reads only; raises the errors of its planning."""

        def plan(basis: Basis) -> RehashPreview:
            before = _find_number(basis)
            steps = [] if before == num_buckets else _plan_steps(basis, num_buckets)
            return preview_rehash(steps, before, num_buckets)

        return self._planned(plan)

    def start(
        self,
        num_buckets: int,
        codec: Codec | None = None,
        after_publish: Callable[[], object] | None = None,
    ) -> StartedRewrite | None:
        """Begin a rehash; None if the table has this number of buckets already.

        Raises:
            UnsupportedError: the buckets of the table are not a fixed number in all partitions, or
                the table is of a kind that is not written.
            IndexUnknownError: the index is unknown, or not proved for a partition.
            ConflictError: a compaction or a clustering is pending.
            LockTimeoutError: the table lock could not be acquired.
        """

        def prepare(basis: Basis) -> int:
            before = _find_number(basis)
            if before != num_buckets:
                _plan_steps(basis, num_buckets)  # refuses before anything is written
                pin_index(basis.snapshot, self._finder, self._owner, writes_rows=True)
            return before

        self._planned(_find_number)  # a table that is refused waits for nothing
        self._await_compactions()
        before = self._planned(prepare)
        if before == num_buckets:
            return None
        plan = partial(_plan, before, num_buckets)
        return self._begin(plan, codec, after_publish=after_publish)

    def run(
        self,
        num_buckets: int,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
        after_publish: Callable[[], object] | None = None,
    ) -> CommitResult | None:
        """Begin a rehash, execute it on the threads of this process, and publish it."""
        return run_until_not_overtaken(
            partial(self.start, num_buckets, codec, after_publish),
            lambda started: started.run_in_threads("rehashing", progress),
        )


def _find_number(basis: Basis) -> int:
    """Return how many buckets every partition has.

    Raises:
        UnsupportedError: partitions have numbers of their own, or rings, or there are no buckets.
    """
    index = as_bucket_index(basis.index)
    if index is None or index.number_of_all is None or index.group_bytes is not None:
        raise UnsupportedError(
            f"a rehash of a table with {basis.index.text}; it is for a simple bucket index, where "
            "all partitions have the same number of buckets, and a bucket has one file group"
        )
    return index.number_of_all


def _plan(before: int, after: int, instant: str, basis: Basis) -> RewritePlan:
    """Return the plan of a rehash.

    Raises:
        ConflictError: the table no longer has `before` buckets; or as `_plan_steps`.
    """
    if _find_number(basis) != before:
        raise ConflictError(f"the table no longer has {before} buckets; plan the rehash again")
    steps = _plan_steps(basis, after)
    operation = rescale_operation(basis.snapshot.state.config.table_version)
    return RewritePlan(basis, steps, operation, Rehash(instant, before, after).entry())


def _plan_steps(basis: Basis, after: int) -> list[RewriteStep]:
    """Return the steps of a rehash, once nothing speaks against it.

    Raises:
        ConflictError: a compaction or a clustering is pending.
        UnsupportedError: non-blocking writers share file groups.
        ValueError: more buckets than one commit may make.
    """
    snapshot = basis.snapshot
    check_nothing_pending(snapshot.state)
    for path in snapshot.partitions:
        check_new_number(path, after)
    slices = slices_to_divide(snapshot, snapshot.partitions)
    layouts = {path: basis.finder.layout(snapshot, path) for path in snapshot.partitions or ("",)}
    rehashed = {path: layout.rehashed(after) for path, layout in layouts.items()}
    return plan_rehash(slices, layouts.__getitem__, rehashed.__getitem__)


def slices_to_divide(snapshot: Snapshot, partition_paths: tuple[str, ...]) -> list[FileSlice]:
    """Return what is read of the file groups of partitions with numbered buckets.

    Raises:
        UnsupportedError: non-blocking writers share file groups.
    """
    slices = snapshot.slices_of(partition_paths)
    for file_slice in slices:
        bucket = find_bucket_id(file_slice.file_id)
        if bucket is not None and file_slice.file_id == format_nbcc_file_id(bucket):
            raise UnsupportedError(
                f"other buckets for file group {file_slice.file_id}: non-blocking writers "
                "would begin this file group again, and readers would not see it",
                partition=file_slice.partition_path,
            )
    return slices
