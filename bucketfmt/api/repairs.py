"""What other writers, or lost files, left of the buckets of a table: mended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from bucketfmt.api.resizes import ResizableTable
from bucketfmt.api.services import check_service
from bucketfmt.arguments import check_bool, check_choice, check_names
from bucketfmt.choices import Codec, Duplicates
from bucketfmt.progress import ProgressCallback
from bucketfmt.repair.buckets import BucketRepairer, Repair
from bucketfmt.repair.partitions import find_lost_partitions, repair_partitions
from bucketfmt.repair.plan_buckets import BucketRepair
from bucketfmt.repair.rings import RepairedRing, RingRepairer
from bucketfmt.write.commit.result import CommitResult

__all__ = ["RepairableTable"]


class RepairableTable(ResizableTable):
    """A table whose buckets can be mended."""

    def repair_rings(
        self, partitions: Sequence[str] | None = None, *, dry_run: bool = False
    ) -> list[RepairedRing]:
        """Make hashing metadata again that is lost or damaged, from the keys of the file groups.

        The new ring leads to every file group that is there: no row is moved, and none is written.
        Between two file groups the ring may have its boundary elsewhere than the one that was lost,
        which matters to no stored key. A ring that leads to file groups which were replaced, as
        Hudi leaves it where it drops a partition, gets new ones in their place. Stop the writers
        of Hudi before.

        Do it again, before the next write, after a rollback or a restore that takes back a resize
        from before the repair: the new ring is not of the file groups that come back.

        Args:
            partitions: Only these partition paths; by default all whose ring cannot be used.
            dry_run: Return what would be done, and change nothing.

        Returns:
            The rings that were made again.

        Raises:
            ValueError: the table has no such partition.
            UnsupportedError: the table has no rings. Where all are lost, `open` needs `index=`.
            ConflictError: a write or a resize is under way.
            CorruptError: keys of two file groups lie among one another, or a data file is damaged.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_bool("dry_run", dry_run)
        if partitions is not None:
            partitions = check_names("partitions", partitions)
        repairer = RingRepairer(self._listed_snapshot, self._index_finder, self._transactions)
        return repairer.preview(partitions) if dry_run else repairer.run(partitions)

    def repair_partitions(
        self, partitions: Sequence[str] | None = None, *, dry_run: bool = False
    ) -> list[str]:
        """Make metadata files of partitions again (`.hoodie_partition_metadata`): T005 of `check`.

        Hudi takes no folder without such a file for a partition, when it lists the folders of a
        table, and reads no row of it.

        Args:
            partitions: Only these partition paths; by default all that commits of the active
                timeline name. A folder that no commit names may be a copy that was put aside.
            dry_run: Return what would be done, and change nothing.

        Returns:
            The paths of the partitions that have their file again.

        Raises:
            ValueError: there are no data files in one of `partitions`.
            LockTimeoutError: the table lock could not be acquired.
            StorageError: the store failed.
        """
        check_bool("dry_run", dry_run)
        if partitions is not None:
            partitions = check_names("partitions", partitions)
        if dry_run:
            return list(find_lost_partitions(self._listed_snapshot(), partitions))
        return repair_partitions(self._transactions, self._listed_snapshot, partitions)

    def repair_buckets(
        self,
        partitions: Sequence[str] | None = None,
        *,
        duplicates: Duplicates = "refuse",
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Move rows that are in a wrong file group to the file groups of their buckets.

        Reads the keys of all file groups, and rewrites those that hold keys of other buckets than
        their own, share a bucket with another one, or are in no bucket, as writers with other
        settings, or tasks that ran twice, leave them: B001, B003, B004, B006, B008 and C004 of
        `check`. One replacecommit hides them and shows one file group for each of the buckets. Rows
        keep their commit times, and `as_of` and `rollback` find the old file groups until they are
        cleaned. Others go on meanwhile as in `rehash`; stop the writer that is at fault before.

        A partition of a ring gets another ring, with the same ranges. Where the ring in force is
        lost or damaged, that is one like a new partition has: `repair_rings`, which moves no row,
        comes first.

        Args:
            partitions: Only these partition paths; by default all.
            duplicates: What to do where rows that are brought together have one key: `refuse`, or
                keep the `latest`, by the ordering fields, or by commit time in a table without.
            codec: Of parquet; by default that of the table's files.
            progress: Called as pieces of the table are done.

        Returns:
            The commit; None if every row is in the file group of its bucket.

        Raises:
            ValueError: the table has no such partition.
            UnsupportedError: the table has no buckets, or those of a directory, or buckets that
                have several file groups by right; or keys have several rows, and `duplicates` is
                `refuse`.
            IndexUnknownError: the index is unknown. Or every key is in its bucket by another number
                of buckets than the one that is stated, and `partitions` does not insist.
            ConflictError: a compaction or a clustering is pending, or others write faster than rows
                can be moved. Nothing was published.
            CorruptError: a file is missing or damaged.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_service(1, codec, progress)
        return self._bucket_repairer().run(_repair(partitions, duplicates), codec, progress)

    def preview_repair_buckets(self, partitions: Sequence[str] | None = None) -> list[BucketRepair]:
        """Return what `repair_buckets` would do now. Reads only; raises the errors of its planning.

        Whether keys have several rows is found when they are moved.
        """
        return self._bucket_repairer().preview(_repair(partitions))

    def _bucket_repairer(self) -> BucketRepairer:
        return BucketRepairer(self._listed_snapshot, self._index_finder, self._transactions)


def _repair(partitions: Sequence[str] | None, duplicates: Duplicates = "refuse") -> Repair:
    check_choice("duplicates", duplicates, get_args(Duplicates))
    if partitions is not None:
        partitions = check_names("partitions", partitions)
    return Repair(partitions, keeps_latest=duplicates == "latest")
