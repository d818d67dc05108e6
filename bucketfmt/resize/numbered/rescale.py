"""Rescale: partitions get numbers of buckets by other rules, while others read and write.

I/O. Only partitions whose number changes are rewritten. The rules are written before the
replacecommit is completed, under its instant, and count from then on. Source: RFC-89,
PartitionBucketIndexManager, DatasetBucketRescaleCommitActionExecutor.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from bucketfmt.choices import Codec
from bucketfmt.errors import BucketfmtError, ConflictError, UnsupportedError
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BucketIndex, as_bucket_index
from bucketfmt.index.numbered_buckets import PartitionBucketIndex
from bucketfmt.location.rule_files import archive_rules, put_rules
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.bucket_service import BucketService
from bucketfmt.resize.numbered.plan_rehash import plan_rehash
from bucketfmt.resize.numbered.plan_rescale import RescalePreview, plan_rules, preview_rescale
from bucketfmt.resize.numbered.rehash import slices_to_divide
from bucketfmt.resize.plan_rewrite import RewriteStep, check_new_number
from bucketfmt.resize.rewrite import (
    RewritePlan,
    StartedRewrite,
    check_nothing_pending,
    run_until_not_overtaken,
)
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.properties.pin_index import pin_index
from bucketfmt.write.rows.basis import Basis

__all__ = ["Rescaler"]


@dataclass(frozen=True)
class _Planned:
    """A rescale on a table at one moment; `numbers` of buckets before and after by partition."""

    basis: Basis
    numbers: dict[str, tuple[int, int]]
    steps: list[RewriteStep]


class Rescaler(BucketService):
    """Gives the partitions of one table numbers of buckets by rules."""

    def preview(self, rules: str, default: int | None = None, *, add: bool) -> RescalePreview:
        """Return what `run` would do now. Reads only; raises the errors of its planning."""

        def plan(basis: Basis) -> RescalePreview:
            before, after = _numbered_index(basis), _after(basis, rules, default, add=add)
            planned = _plan(basis, before, after)
            return preview_rescale(after, planned.numbers, planned.steps)

        return self._planned(plan)

    def run(
        self,
        rules: str,
        default: int | None = None,
        *,
        add: bool,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Begin a rescale, execute it on the threads of this process, and publish it.

        Returns:
            The commit; None if the table has these rules already.

        Raises:
            ValueError: the rules are malformed, or a number of buckets is.
            UnsupportedError: the buckets of the table are not numbered, a regex is not supported,
                or the table is of a kind that is not written.
            IndexUnknownError: the index is unknown, or not proved for a partition.
            ConflictError: a compaction or a clustering is pending, or others changed the table.
            LockTimeoutError: the table lock could not be acquired.
        """
        done = run_until_not_overtaken(
            lambda: self.start(rules, default, add=add, codec=codec),
            lambda started: started.run_in_threads("rescaling", progress),
        )
        if done is not None:
            with suppress(BucketfmtError):  # rules too many hurt nobody
                archive_rules(self._snapshot().state)
        return done

    def start(
        self, rules: str, default: int | None = None, *, add: bool, codec: Codec | None = None
    ) -> StartedRewrite | None:
        """Begin a rescale; None if the table has these rules already. Errors: as `run`."""

        def prepare(basis: Basis) -> tuple[BucketIndex, PartitionBucketIndex]:
            before, after = _numbered_index(basis), _after(basis, rules, default, add=add)
            if after != before:
                _plan(basis, before, after)  # refuses before anything is written
                pin_index(basis.snapshot, self._finder, self._owner, writes_rows=True)
            return before, after

        self._planned(_numbered_index)  # a table that is refused waits for nothing
        self._await_compactions()
        before, after = self._planned(prepare)
        if after == before:
            return None
        return self._begin(partial(_plan_rewrite, before, after), codec)


def _numbered_index(basis: Basis) -> BucketIndex:
    """Return the index of a table whose partitions may have numbers of buckets by rules.

    Raises:
        UnsupportedError: there are rings, or no buckets, or the table version knows no rules.
    """
    index, version = as_bucket_index(basis.index), basis.snapshot.state.config.table_version
    if index is None or not index.has_numbered_buckets or index.group_bytes is not None:
        raise UnsupportedError(
            f"a rescale of a table with {basis.index.text}; it is for a simple bucket index, with "
            "partition rules or without"
        )
    if version < 9:
        raise UnsupportedError(
            f"a rescale of a table of version {version}; Hudi knows partition rules from table "
            "version 9 on (Hudi 1.1). rehash gives all partitions another number of buckets"
        )
    return index


def _after(basis: Basis, rules: str, default: int | None, *, add: bool) -> PartitionBucketIndex:
    config, limits = basis.snapshot.state.config, basis.snapshot.state.limits
    kind = config.table_type, config.table_version
    return plan_rules(_numbered_index(basis), rules, default, *kind, add=add, limits=limits)


def _plan_rewrite(
    before: BucketIndex, after: PartitionBucketIndex, instant: str, basis: Basis
) -> RewritePlan:
    """Return the plan of a rescale.

    Raises:
        ConflictError: the buckets were changed by somebody else; or as `_plan`.
    """
    if not before.agrees_with(_numbered_index(basis)):
        raise ConflictError("somebody else changed the buckets; plan the rescale again")
    rules = msgspec.structs.replace(after.hashing_config, instant=instant)
    return RewritePlan(
        basis,
        _plan(basis, before, after).steps,
        WriteOperation.BUCKET_RESCALE,
        put_index=partial(put_rules, rules=rules),
    )


def _plan(basis: Basis, before: BucketIndex, after: PartitionBucketIndex) -> _Planned:
    """Return a rescale on the table, once nothing speaks against it.

    Raises:
        ConflictError: a compaction or a clustering is pending.
        IndexUnknownError: the index is not proved for a partition.
        UnsupportedError: non-blocking writers share file groups, or a path cannot be matched.
        ValueError: more buckets than one commit may make.
    """
    snapshot = basis.snapshot
    limits = snapshot.state.limits
    check_nothing_pending(snapshot.state)
    numbers = {
        path: (before.num_buckets_of(path, limits), after.num_buckets_of(path, limits))
        for path in snapshot.partitions
    }
    changed = tuple(path for path, (now, then) in numbers.items() if now != then)
    slices = slices_to_divide(snapshot, changed)
    layouts: dict[str, BucketLayout] = {}
    rescaled: dict[str, BucketLayout] = {}
    for path in changed:
        check_new_number(path, numbers[path][1])
        layouts[path] = basis.finder.layout(snapshot, path)
        rescaled[path] = layouts[path].rehashed(numbers[path][1])
    steps = plan_rehash(slices, layouts.__getitem__, rescaled.__getitem__)
    return _Planned(basis, numbers, steps)
