"""`open` and `Table`: the way in.

A table is put together here from what reads it and from what is done with it besides, because
the latter stands on the former (docs/decisions/0006).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from bucketfmt.check.report import CheckReport, Depth
from bucketfmt.check.run import ProgressCallback, check_table
from bucketfmt.index.model import Index
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.open import open_store
from bucketfmt.table.table import Moment, load_config
from bucketfmt.table.table import Table as ReadableTable

__all__ = ["Table", "open"]


def open(  # noqa: A001  (bucketfmt.open)
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
    limits: Limits | None = None,
) -> Table:
    """Return the Hudi table at `uri`.

    Args:
        uri: A path, or any URL fsspec knows.
        storage_options: Passed to fsspec.
        index: How keys map to buckets, where the table does not record it.
        limits: Bounds on what the table may make this process hold.

    Raises:
        TableNotFoundError: there is no `.hoodie/hoodie.properties` at `uri`.
        UnsupportedError: the table is of a version or kind that this release does not read.
        CorruptError: hoodie.properties is damaged, and so is its backup if there is one.
        ValueError: `index` contradicts what the table records.
    """
    limits = limits or DEFAULT_LIMITS
    store = open_store(uri, storage_options, limits)
    return Table(store, load_config(store, limits), limits, index)


class Table(ReadableTable):
    """A Hudi table. Follows its timeline: each call sees the newest completed commit.

    Safe to use from several threads.

    Attributes:
        config: The table's properties, typed.
        limits: The bounds it was opened with.
        store: Its files.
    """

    def check(
        self,
        depth: Depth = "default",
        partitions: Sequence[str] | None = None,
        since: Moment | None = None,
        max_findings: int = 100,
        progress: ProgressCallback | None = None,
    ) -> CheckReport:
        """Check the table as a file-system check does. Reads only.

        Whatever is wrong with the table becomes a finding, and whatever could not be looked at
        is said: nothing in a table raises here. Ctrl-C ends the check with a report of what was
        found until then.

        Args:
            depth: quick: timeline, listings and names; no data file is opened. default: also
                footers, log framing and hashing metadata. full: also the checksum of every
                page, and every key hashed again.
            partitions: Only these partition paths. The timeline is always checked.
            since: Open only the files of file groups written to after this moment.
            max_findings: Keep so many; the worst.
            progress: Called as the check goes on.

        Raises:
            ValueError: an unknown depth or partition, or the index given to `open` contradicts
                the table.
            StorageError: the timeline cannot be listed.
        """
        return check_table(
            self.store,
            self.config,
            self.limits,
            self._index_finder,
            depth=depth,
            partitions=partitions,
            since=self._instant(since),
            max_findings=max_findings,
            progress=progress,
        )
