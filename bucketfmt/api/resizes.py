"""The index of a table: recorded, and changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, get_args

from bucketfmt.api.services import MaintainedTable, check_service
from bucketfmt.arguments import (
    check_bool,
    check_callable,
    check_choice,
    check_int,
    check_kind,
    check_names,
    check_text,
)
from bucketfmt.choices import Codec, Duplicates, KeyForm, Split
from bucketfmt.errors import BucketfmtError, ConflictError
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.index.model import BucketIndex, as_bucket_index
from bucketfmt.index.numbered_buckets import SimpleBucketIndex
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.advice import (
    HORIZON_DAYS,
    TARGET_BYTES,
    BucketAdvice,
    load_figures,
    plan_advice,
)
from bucketfmt.resize.execution import Execute
from bucketfmt.resize.growth import Duration, estimate_duration
from bucketfmt.resize.migration.migrate import Migrator
from bucketfmt.resize.migration.plan_migrate import (
    PARTITIONS_PER_COMMIT,
    MigratePreview,
    MigrateResult,
    Migration,
)
from bucketfmt.resize.numbered.plan_rehash import RehashPreview
from bucketfmt.resize.numbered.plan_rescale import RescalePreview
from bucketfmt.resize.numbered.rehash import Rehasher
from bucketfmt.resize.numbered.rescale import Rescaler
from bucketfmt.resize.rewrite import StartedRewrite
from bucketfmt.resize.split_merge.directory import DirectoryResizer
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits, ResizePreview
from bucketfmt.resize.split_merge.ring import RingResizer
from bucketfmt.resize.split_merge.split_policies import SplitPolicy, parse_split_policy
from bucketfmt.resize.split_merge.started_resize import StartedResize
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.properties.pin_index import is_recorded, pin_index

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "ResizableTable",
    "ResizeArguments",
]


class ResizeArguments(TypedDict, total=False):
    """Keyword arguments of all resizes.

    Attributes:
        min_buckets: A partition keeps at least so many buckets. By default what the table states
            (`hoodie.bucket.index.min.num.buckets`), or the number of buckets that partitions begin
            with.
        max_buckets: A partition gets at most so many buckets. By default what the table states
            (`hoodie.bucket.index.max.num.buckets`), or any number.
        max_file_size: Bytes of a base file, as the writers of the table have it; by default 120
            MiB. Buckets of more than twice as much are split, and neighbours of at most a fifth are
            merged.
        split: Where buckets of a ring are divided: `"middle"`, as Hudi has it, halves the range.
            `"even"` reads the keys, and finds where parts get as many rows each.
        sort_by: Columns to sort rows by; then all other buckets are sorted as well.
        partitions: Only these partition paths; by default all that are not being resized.
        max_bytes: Bytes that one resize reads; by default 2 GiB. One bucket at least.
        max_groups: Buckets, or groups of neighbours, of one resize.
        max_partitions: Partitions of one resize.
    """

    min_buckets: int
    max_buckets: int
    max_file_size: int
    split: Split | SplitPolicy
    sort_by: Sequence[str]
    partitions: Sequence[str]
    max_bytes: int
    max_groups: int
    max_partitions: int


def _resize_limits(options: ResizeArguments) -> tuple[ResizeLimits, Sequence[str] | None]:
    given = dict(options)
    unknown = sorted(set(given) - ResizeArguments.__annotations__.keys())
    if unknown:
        raise TypeError(f"resize has no argument {unknown[0]!r}")
    partitions = given.pop("partitions", None)
    if partitions is not None:
        partitions = check_names("partitions", partitions)
    split = given.pop("split", "middle")
    policy = parse_split_policy(split) if isinstance(split, str) else split
    if not isinstance(policy, SplitPolicy):
        raise TypeError(f'split is "middle", "even" or a value such as EvenSplit(), not {split!r}')
    sort_by = given.pop("sort_by", None)
    columns = () if sort_by is None else tuple(check_names("sort_by", sort_by))
    numbers = {name: check_int(name, value, 1) for name, value in given.items()}
    return ResizeLimits(split=policy, sort_by=columns, **numbers), partitions


def _check_rescale(rules: object, default: object, add: object) -> None:
    check_text("rules", rules)
    if default is not None:
        check_int("default", default, 1)
    check_bool("add", add)


class ResizableTable(MaintainedTable):
    """A table whose buckets can be changed."""

    def pin_index(self) -> bool:
        """Record the index in hoodie.properties, where Hudi's DataFrame writers obey it.

        The index of `open`, or the index that was inferred from keys, is first proved for every
        partition. Writes record the index too, where they can (`WriterConfig.pin_index`).

        Returns:
            Whether hoodie.properties changed: False if the index was recorded before.

        Raises:
            IndexUnknownError: the index is unknown, or not proved for a partition; the message
                names the partition and the reason.
            ValueError: `index` of `open` contradicts the table.
            UnsupportedError: the index of the table has no buckets.
            ConflictError: other writers completed writes meanwhile, three times.
            LockTimeoutError: the table lock could not be acquired.
        """
        for attempts_left in (2, 1, 0):
            self._adopt(load_config(self.store, self.limits))
            snapshot = self._listed_snapshot()
            if is_recorded(self.config, snapshot):
                return False
            try:
                config = pin_index(snapshot, self._index_finder, self._transactions)
            except ConflictError:
                if not attempts_left:
                    raise
                continue
            self._adopt(config)
            break
        return True

    def advise_buckets(
        self, *, target_bytes: int = TARGET_BYTES, horizon_days: int = HORIZON_DAYS
    ) -> BucketAdvice:
        """Return which number of buckets and which engine suit the table, and what to do next.

        Goes by the sizes of its files and by what the commits of the active timeline tell of
        growth. Opens no data file, unless keys have to prove the index. Writes nothing.

        Args:
            target_bytes: How large the base file of a bucket may grow; by default as large as Hudi
                makes base files (`hoodie.parquet.max.file.size`).
            horizon_days: For how long, if the table goes on growing as it did.

        Raises:
            ValueError: an argument is not positive.
            CorruptError: the timeline, or what states the index, is damaged.
        """
        target_bytes = check_int("target_bytes", target_bytes, 1)
        horizon_days = check_int("horizon_days", horizon_days, 0)
        figures = on_newest(
            self._listed_snapshot,
            lambda newest: load_figures(newest, self._index_finder, self.uri),
        )
        return plan_advice(figures, target_bytes, horizon_days)

    def rehash(
        self,
        num_buckets: int,
        *,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Give every partition another number of buckets, in one replacecommit.

        The rows stay as they are, with their commit times. Readers see the old file groups until
        the commit is completed, and `as_of` finds them until they are cleaned. Writers of this
        package go on meanwhile, also in other processes: what they change is divided again, and a
        write that is under way at the end is routed by the new buckets. Writers of Hudi have the
        number of buckets in their options: stop them, and start them with the new number.

        From N to a multiple of N a bucket is divided locally, and back some are joined; other
        numbers bring whole partitions together, in temporary files where they are large.

        Args:
            num_buckets: The new number.
            codec: Of parquet; by default that of the table's files.
            progress: Called as pieces of the table are done.

        Returns:
            The commit; None if the table has this number of buckets already.

        Raises:
            ValueError: there is no such number of buckets.
            UnsupportedError: the table has no simple bucket index.
            ConflictError: a compaction or a clustering is pending, or other writers changed the
                table faster than it could be divided again. Nothing was published.
            CorruptError: a file is missing or damaged, or has keys of other buckets.
            LockTimeoutError: the table lock could not be acquired.
        """
        SimpleBucketIndex(num_buckets)  # checks the number
        check_service(1, codec, progress)
        return self._rehasher().run(num_buckets, codec, progress, self._record_number)

    def preview_rehash(self, num_buckets: int) -> RehashPreview:
        """Return what `rehash` would do now. Reads only; raises the errors of its planning."""
        SimpleBucketIndex(num_buckets)
        found = self._rehasher().preview(num_buckets)
        return replace(found, duration=self._duration_of(found.bytes))

    def start_rehash(
        self, num_buckets: int, *, codec: Codec | None = None
    ) -> StartedRewrite | None:
        """Begin a rehash whose files other processes write. Otherwise as `rehash`.

        >>> with t.start_rehash(16) as started:
        ...     receipts = []
        ...     for number, payload in enumerate(started.payloads):
        ...         receipts += started.task.rewrite(payload, f"{number}-0-0")
        ...     started.publish(receipts)
        """
        SimpleBucketIndex(num_buckets)
        check_service(1, codec)
        return self._rehasher().start(num_buckets, codec, self._record_number)

    def _duration_of(self, rewritten: int) -> Duration | None:
        """Return how long rewriting files of so many bytes takes; None for none."""
        return estimate_duration(rewritten, self.state.commits) if rewritten else None

    def _record_number(self) -> None:
        """Record the new number of buckets, which readers know by the commit, for Hudi's writers.

        Where that fails, the next write records the number.
        """
        self._index_finder.forget_argument()
        with suppress(BucketfmtError):
            self.pin_index()

    def _rehasher(self) -> Rehasher:
        return Rehasher(self._listed_snapshot, self._index_finder, self._transactions)

    def resize(
        self,
        *,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
        **options: Unpack[ResizeArguments],
    ) -> CommitResult | None:
        """Split buckets of rings or directories that are too large, and merge small ones.

        Only the buckets concerned are read and written, and the rows stay as they are, with their
        commit times. Readers see the old file groups until the commit is completed.

        With consistent hashing, a resize that is pending, planned here or by Hudi, is executed;
        otherwise one is planned. Writers that begin meanwhile, of this package or of Hudi, write to
        the old and to the new file groups. Left before it is completed, a resize stays pending:
        call `resize` again, have Hudi execute it, or take it back by `rollback`.

        With extendible hashing, a bucket is divided by as many bits as bring its parts below the
        bound, and two small buckets that differ in one bit are merged. What others write meanwhile
        is rewritten too, and a write to these buckets that is under way at the end routes its rows
        anew. Left before it is completed, nothing remains.

        Args:
            codec: Of parquet; by default that of the table's files.
            progress: Called as buckets are rewritten.
            **options: See `ResizeArguments`.

        Returns:
            The commit; None if no bucket is too large or too small.

        Raises:
            ValueError: options contradict one another.
            UnsupportedError: the table has neither a consistent nor an extendible hashing index, or
                is of a kind that is not written.
            ConflictError: a write is under way that does not know of the resize; one of
                `partitions` is being resized already; or somebody took the resize back.
            CorruptError: a file is missing or damaged, or a ring is.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_service(1, codec, progress)
        limits, partitions = _resize_limits(options)
        return self._resizer().run(limits, partitions, codec, progress)

    def preview_resize(self, **options: Unpack[ResizeArguments]) -> ResizePreview:
        """Return what `resize` would do now. Reads only; raises the errors of its planning."""
        found = self._resizer().preview(*_resize_limits(options))
        return replace(found, duration=self._duration_of(found.bytes))

    def start_resize(
        self, *, codec: Codec | None = None, **options: Unpack[ResizeArguments]
    ) -> StartedResize | StartedRewrite | None:
        """Begin a resize whose files other processes write. Otherwise as `resize`.

        Each of its `payloads` is a task, as in the example of `start_rehash`.
        """
        check_service(1, codec)
        limits, partitions = _resize_limits(options)
        return self._resizer().start(limits, partitions, codec)

    def schedule_resize(self, **options: Unpack[ResizeArguments]) -> str | None:
        """Put a resize on the timeline for anyone to execute: `resize`, or Hudi.

        Returns:
            The instant; None if no bucket is too large or too small.

        Raises:
            ConflictError, CorruptError, LockTimeoutError, UnsupportedError, ValueError: as
                `resize`.
        """
        return self._resizer().schedule(*_resize_limits(options))

    def _resizer(self) -> RingResizer | DirectoryResizer:
        index = as_bucket_index(self.index)
        make = DirectoryResizer if index is not None and index.has_directories else RingResizer
        return make(self._listed_snapshot, self._index_finder, self._transactions)

    def migrate(
        self,
        index: BucketIndex | None = None,
        *,
        keys: KeyForm | None = None,
        duplicates: Duplicates = "refuse",
        partitions_per_commit: int = PARTITIONS_PER_COMMIT,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
        execute: Execute | None = None,
    ) -> MigrateResult | None:
        """Give a table with another index, or without one, a bucket index.

        Each replacecommit moves some partitions. Readers go on, `as_of` reads the table as it was
        before until its files are cleaned, and rows keep their commit times. The table has its old
        index, and may be written by it, until the last step, which states the new index. A
        partition that others wrote to since it was moved is moved again. After a crash or an error
        a call with the same arguments goes on with the partitions that are left.

        Args:
            index: The bucket index; rules take table version 9, and rings a merge-on-read table.
                None, with `keys`, leaves a table its numbered buckets.
            keys: How complex keys of one field are written anew, where Hudi releases have written
                some as `7` (`value`) and some as `id:7` (`named`). Of two rows of one record the
                row stays that the ordering fields, or the commit times, say is later.
            duplicates: What to do where several rows of a partition have one key, as tables have
                that were appended to: `refuse`, or keep the `latest`.
            partitions_per_commit: How many partitions a replacecommit moves.
            codec: Of parquet; by default that of the table's files.
            progress: Called as partitions are done.
            execute: Has the steps of a replacecommit executed elsewhere: takes a `RewriteTask` and
                payloads for its `rewrite`, and returns the receipts of each payload, in their
                order. By default the threads of this process execute the steps, and only they
                call `progress`.

        Returns:
            What was done; None if the table has the index already.

        Raises:
            ValueError: the index is not for such a table; or `keys` is given for a
                table whose keys have one form only.
            UnsupportedError: the table has other buckets already; keys have several rows, or are
                written in several ways; or the table is of a kind that is not written.
            ConflictError: a compaction or a clustering is pending, or others are writing by the old
                index all the time. Partitions that were moved stay moved.
            LockTimeoutError: the table lock could not be acquired.
        """
        migration = self._migration(index, keys, duplicates)
        number = check_int("partitions_per_commit", partitions_per_commit, 1)
        check_service(1, codec, progress)
        if execute is not None:
            check_callable("execute", execute)
        done = self._migrator().run(migration, number, codec, progress, execute)
        if done is not None:
            self._index_finder.forget_argument()
            self._adopt(load_config(self.store, self.limits))
        return done

    def preview_migrate(
        self,
        index: BucketIndex | None = None,
        *,
        keys: KeyForm | None = None,
        duplicates: Duplicates = "refuse",
        partitions_per_commit: int = PARTITIONS_PER_COMMIT,
    ) -> MigratePreview:
        """Return what `migrate` would do now. Reads only; raises the errors of its planning.

        Whether keys have several rows is found when they are moved.
        """
        migration = self._migration(index, keys, duplicates)
        number = check_int("partitions_per_commit", partitions_per_commit, 1)
        return self._migrator().preview(migration, number)

    def _migration(
        self, index: BucketIndex | None, keys: KeyForm | None, duplicates: Duplicates
    ) -> Migration:
        check_choice("duplicates", duplicates, get_args(Duplicates))
        encoding = None
        if keys is not None:
            check_choice("keys", keys, get_args(KeyForm))
            encoding = KeyEncoding[keys.upper()]
        if index is None:
            index = self.resolved_index.bucket_index
            if index is None or encoding is None:
                raise ValueError(
                    "migrate takes the index that the table is to have, such as "
                    "SimpleBucketIndex(16); only keys are written anew without it, in a table that "
                    "has buckets"
                )
        check_kind("index", index, BucketIndex, "a bucket index such as SimpleBucketIndex(16)")
        return Migration(index, encoding, keeps_latest=duplicates == "latest")

    def _migrator(self) -> Migrator:
        return Migrator(self._listed_snapshot, self._index_finder, self._transactions)

    def rescale(
        self,
        rules: str,
        *,
        default: int | None = None,
        add: bool = False,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Give partitions numbers of buckets by rules (Hudi 1.1 and later, RFC-89).

        Only partitions whose number changes are rewritten, in one replacecommit, as `rehash` does.
        A simple bucket index with one number for all partitions becomes one with rules; the table
        keeps rules from then on. Other rules take the place of those of now.

        `t.rescale("^2024-,16;^2023-,4", default=8)` gives partitions of a year so many buckets, and
        `t.rescale("^2025-01-31$,32", add=True)` one partition, and no other.

        Args:
            rules: `regex,number` at each `;`. The first rule whose regex is found anywhere in the
                path of a partition tells the number of its buckets.
            default: The number of buckets where no rule matches; by default as it is.
            add: The rules go before those of now, instead of taking their place.
            codec: Of parquet; by default that of the table's files.
            progress: Called as pieces of the table are done.

        Returns:
            The commit; None if the table has these rules already.

        Raises:
            ValueError: the rules are malformed, or there is no such number of buckets.
            UnsupportedError: the table has no simple bucket index, or is of a version before 9; or
                a regex is not supported.
            LimitError: there are too many rules.
            ConflictError: a compaction or a clustering is pending, somebody else changed the
                buckets, or other writers changed the table faster than it could be divided again.
                Nothing was published.
            CorruptError: a file is missing or damaged, or has keys of other buckets.
            LockTimeoutError: the table lock could not be acquired.
        """
        _check_rescale(rules, default, add)
        check_service(1, codec, progress)
        done = self._rescaler().run(rules, default, add=add, codec=codec, progress=progress)
        if done is not None:
            self._index_finder.forget_argument()
        return done

    def preview_rescale(
        self, rules: str, *, default: int | None = None, add: bool = False
    ) -> RescalePreview:
        """Return what `rescale` would do now. Reads only; raises the errors of its planning."""
        _check_rescale(rules, default, add)
        return self._rescaler().preview(rules, default, add=add)

    def start_rescale(
        self,
        rules: str,
        *,
        default: int | None = None,
        add: bool = False,
        codec: Codec | None = None,
    ) -> StartedRewrite | None:
        """Begin a rescale whose files other processes write. Otherwise as `rescale`.

        Each of its `payloads` is a task, as in the example of `start_rehash`.
        """
        _check_rescale(rules, default, add)
        check_service(1, codec)
        return self._rescaler().start(rules, default, add=add, codec=codec)

    def _rescaler(self) -> Rescaler:
        return Rescaler(self._listed_snapshot, self._index_finder, self._transactions)
