"""What a check leaves out, so that "clean" is not taken for more than it says.

I/O: where log files are there, the columns of the table are read if that was not done before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bucketfmt.check.placement.index_view import IndexView
from bucketfmt.check.report import NotChecked
from bucketfmt.choices import Depth
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.rows.row_file import ROW_FILE_FORMATS
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["find_omissions"]


def find_omissions(
    snapshot: Snapshot,
    view: IndexView,
    depth: Depth,
    slices: Mapping[str, Sequence[FileSlice]],
    others: int,
) -> Iterator[NotChecked]:
    """Yield what a check of this depth leaves out by design, and log files nobody can merge.

    Base files of a format that is not read are a gap: they are never called clean.

    Args:
        snapshot: The table.
        view: Its index.
        depth: As asked for.
        slices: What readers see of each partition checked.
        others: How many partitions were not asked for.
    """

    def by_design(what: str, why: str) -> NotChecked:
        return NotChecked(what, why, is_gap=False)

    config = snapshot.state.config
    formats = {config.base_file_format}
    formats |= {
        file_slice.base_file.name.extension.upper()
        for own in slices.values()
        for file_slice in own
        if file_slice.base_file is not None and isinstance(file_slice.base_file.name, BaseFileName)
    }
    only = ", ".join(sorted(ROW_FILE_FORMATS))
    for name in sorted(formats - ROW_FILE_FORMATS):
        yield NotChecked(f"base files of the format {name}", f"this release reads none but {only}")
    if others:
        yield by_design(f"{others} partitions", "not asked for")
    if depth == "quick":
        yield by_design("what is in data files", "depth quick opens none")
    elif depth == "default":
        yield by_design("keys and pages", "depth default reads footers, frames and headers")
    elif len(slices) > 1 and (view.has_stored_buckets or view.has_buckets):
        why = "a bucket index keeps keys unique within each partition only"
        yield by_design("keys that are in several partitions", why)
    if not (view.has_stored_buckets or view.has_buckets):
        index = view.index
        why = f"the index is {index}" if index else "nothing states an index, and file ids hold no"
        yield by_design("buckets", why if index else f"{why} bucket numbers")
    elif depth == "full" and view.index is None and not view.inferred:
        yield by_design(
            "the bucket of each key",
            "the number of buckets is unknown; pass index=, such as index=SimpleBucketIndex(16)",
        )
    if depth != "quick" and any(s.log_files for own in slices.values() for s in own):
        try:
            snapshot.schema.merge_rules(config)
        except BucketfmtError as error:
            yield by_design("how log files are merged", error.message)
    if depth != "quick":
        why = "older file slices are kept for time travel and were only listed"
        yield by_design("files that no snapshot reads", why)
