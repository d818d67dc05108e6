"""Resize of extendible directories: buckets are split and merged while others read and write.

I/O. A resize is one replacecommit: it hides the file groups of the buckets that go, shows those of
the new buckets, and brings the new directories. A write to one of these buckets that is under way
at that moment is in conflict with the resize, and routes its rows anew; other buckets are not
concerned. Source: spec EXT-9 to EXT-13.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bucketfmt.choices import Codec
from bucketfmt.errors import ConflictError, CorruptError, UnsupportedError
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import as_bucket_index
from bucketfmt.location.directory_files import load_directory, put_directories
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.bucket_service import BucketService, choose_partitions
from bucketfmt.resize.plan_rewrite import RewriteStep
from bucketfmt.resize.rewrite import RewritePlan, StartedRewrite, run_until_not_overtaken
from bucketfmt.resize.split_merge.plan_directory import (
    DirectoryGroup,
    DirectoryOfPartition,
    plan_directories,
    preview_directories,
    resized_metadata,
)
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits, ResizePreview
from bucketfmt.resize.split_merge.split_policies import MiddleSplit
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.rows.basis import Basis

__all__ = ["DirectoryResizer"]


class DirectoryResizer(BucketService):
    """Resizes the directories of one table."""

    def preview(
        self, limits: ResizeLimits, partitions: Sequence[str] | None = None
    ) -> ResizePreview:
        """Return what `run` would do now. Reads only; errors as of `start`."""
        groups = self._planned(lambda basis: _plan_groups(basis, limits, partitions))
        return preview_directories(groups)

    def schedule(self, limits: ResizeLimits, partitions: Sequence[str] | None = None) -> str | None:
        """Refuse to put a resize on the timeline, where nobody else could execute it.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "scheduling a resize of an extendible hashing index, which Hudi does not know; resize "
            "at once"
        )

    def start(
        self,
        limits: ResizeLimits,
        partitions: Sequence[str] | None = None,
        codec: Codec | None = None,
    ) -> StartedRewrite | None:
        """Begin a resize; None if no bucket is too large or too small.

        Raises:
            ValueError: the limits contradict one another, or are about rings; or there is no such
                partition.
            UnsupportedError: the table is of a kind that is not written.
            IndexUnknownError: the index is not proved for a partition.
            CorruptError: a directory is damaged, or does not lead to a file group.
            LimitError: more buckets than a directory may have (`Limits.directory_depth_max`).
            LockTimeoutError: the table lock could not be acquired.
        """
        if not self._planned(lambda basis: _plan_groups(basis, limits, partitions)):
            return None
        return self._begin(partial(_plan, limits, partitions), codec)

    def run(
        self,
        limits: ResizeLimits,
        partitions: Sequence[str] | None = None,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Begin a resize, execute it on the threads of this process, and publish it."""
        return run_until_not_overtaken(
            partial(self.start, limits, partitions, codec),
            lambda started: started.run_in_threads("resizing", progress),
        )


def _plan(
    limits: ResizeLimits, partitions: Sequence[str] | None, instant: str, basis: Basis
) -> RewritePlan:
    """Return the plan of a resize.

    Raises:
        ConflictError: nothing is left to resize.
    """
    groups = _plan_groups(basis, limits, partitions)
    if not groups:
        raise ConflictError("the buckets were resized meanwhile, and nothing is left to do")
    steps = []
    for group in groups:
        layout = basis.finder.layout(basis.snapshot, group.partition_path)
        part = layout.with_buckets(group.new_buckets(instant))
        with_files = {file_slice.file_id for file_slice in group.slices}
        empty = tuple(i for i in group.file_ids if i not in with_files)
        steps.append(
            RewriteStep(group.partition_path, group.slices, part, group.new_ids, empty_groups=empty)
        )
    put = partial(put_directories, resized_metadata(groups, instant))
    return RewritePlan(basis, steps, WriteOperation.CLUSTER, put_index=put)


def _plan_groups(
    basis: Basis, limits: ResizeLimits, partitions: Sequence[str] | None
) -> list[DirectoryGroup]:
    """Return the groups of a resize, once nothing speaks against it. Errors: `start`."""
    snapshot, state = basis.snapshot, basis.snapshot.state
    index = as_bucket_index(basis.index)
    if index is None or not index.has_directories:
        raise UnsupportedError(f"a resize of directories of a table with {basis.index.text}")
    if limits.split != MiddleSplit() or limits.sort_by:
        raise ValueError("buckets of a directory are split by bits; leave split and sort_by out")
    limits = limits.within(index.resize_bounds(state.limits))
    state.limits.check("directory_depth_max", ((limits.max_buckets or 1) - 1).bit_length())
    paths = choose_partitions(snapshot, partitions)
    snapshot.slices_of(paths)  # lists them side by side

    def load(path: str) -> DirectoryOfPartition | None:
        layout = basis.finder.layout(snapshot, path)
        metadata = load_directory(snapshot, path)
        if metadata is None:
            return None
        slices = {}
        busy = set()
        for file_slice in snapshot.slices(path):
            bucket = layout.bucket_of(file_slice.file_id)
            if bucket is None:
                raise CorruptError(
                    f"the directory does not lead to file group {file_slice.file_id}; run check()",
                    partition=path,
                )
            slices[bucket] = file_slice
            if (path, file_slice.file_id) in state.pending_compactions:
                busy.add(bucket)
        return DirectoryOfPartition(metadata, slices, frozenset(busy))

    found = map_in_threads(load, paths, waiting_count(state.store))
    directories = [directory for directory in found if directory is not None]
    return plan_directories(directories, limits, state.limits.directory_depth_max)
