"""Which number of buckets, and which engine, suits a table, and the command that comes next.

Pure, but for `load_figures`, which lists the table's files. Rules of thumb of users and of Hudi:
a base file has about 120 MiB (`hoodie.parquet.max.file.size`), a log shrinks to 35 % when it is
compacted (`hoodie.logfile.to.parquet.compression.ratio`), and a ring splits a bucket above twice
that size and merges buckets below a fifth (`hoodie.bucket.index.split.threshold`,
`hoodie.bucket.index.merge.threshold`).
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bucketfmt.errors import IndexUnknownError
from bucketfmt.index.model import BucketIndex
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.resize.growth import Growth, measure_growth
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.texts import size_text
from bucketfmt.timeline.history import list_archive_files

__all__ = [
    "BucketAdvice",
    "PartitionAdvice",
    "PartitionFigures",
    "Recommendation",
    "TableFigures",
    "load_figures",
    "plan_advice",
]

_MIB = 1 << 20
TARGET_BYTES = 120 * _MIB  # hoodie.parquet.max.file.size
HORIZON_DAYS = 90
_LOG_TO_PARQUET = 0.35  # hoodie.logfile.to.parquet.compression.ratio
_SPLIT_ABOVE, _MERGE_BELOW = 2.0, 0.2  # hoodie.bucket.index.split.threshold, merge.threshold
_LOG_SHARE_MAX = 0.5
_UNEVEN = 3.0
"""Largest bucket to median, above which keys are not spread by chance."""
_SPREAD_OF_RULES = 4
"""Numbers of partitions that differ by as much are worth rules."""
_RULES_MAX = 50
_NUM_BUCKETS_MAX = 1 << 16
_DOUBLES_WITHIN_DAYS = 30
_RULE_MARKS = frozenset(",;")

Engine = Literal["simple", "rules", "consistent hashing"]
Action = Literal["migrate", "rehash", "rescale", "resize", "compact", "keep"]


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """What was measured of one partition.

    Attributes:
        partition_path: The partition.
        num_buckets: Its number of buckets; None where the index has none, or is not proved for it.
        sizes: Bytes of the files of each bucket, empty buckets among them; without buckets, of each
            file group.
        log_bytes: How much of the sizes is in log files.
        growth: What it gains; None where the timeline does not tell, or where it is complete.
    """

    partition_path: str
    num_buckets: int | None
    sizes: tuple[int, ...]
    log_bytes: int = 0
    growth: Growth | None = None


@dataclass(frozen=True, slots=True)
class TableFigures:
    """What was measured of a table.

    Attributes:
        uri: Where it is, for commands.
        index: The index, if it has buckets.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        table_version: Of Hudi.
        days: Over how many days commits tell of growth; None where they are too few.
        partitions: The partitions that have files.
    """

    uri: str
    index: BucketIndex | None
    table_type: str
    table_version: int
    days: float | None
    partitions: tuple[PartitionFigures, ...]

    @property
    def number_of_all(self) -> int | None:
        """How many buckets every partition has; None where they differ or there are none."""
        return None if self.index is None else self.index.number_of_all


@dataclass(frozen=True, slots=True)
class PartitionAdvice:
    """One partition in numbers.

    Attributes:
        partition_path: The partition.
        num_buckets: The number of buckets now; None without buckets.
        file_groups: How many file groups have files.
        bytes: Of all files.
        log_bytes: Of log files.
        largest_to_median: The largest bucket to the median of those that have files.
        bytes_per_day: Growth; None where the timeline does not tell, or where it is complete.
        rows_per_day: Growth in rows of base files; None likewise.
        expected_bytes: Of base files at the end of the horizon, logs compacted.
        suggested: The smallest power of two with which a bucket stays below the target until then.
    """

    partition_path: str
    num_buckets: int | None
    file_groups: int
    bytes: int
    log_bytes: int
    largest_to_median: float
    bytes_per_day: float | None
    rows_per_day: float | None
    expected_bytes: int
    suggested: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One thing to do, or to leave.

    Attributes:
        action: What to do.
        reason: The numbers behind it, as a sentence.
        command: What shows what it would do, and changes nothing; None if there is nothing to do.
        call: The same as a call in Python, of the table `t`.
    """

    action: Action
    reason: str
    command: str | None = None
    call: str | None = None


@dataclass(frozen=True, slots=True)
class BucketAdvice:
    """What the sizes and the growth of a table speak for.

    Attributes:
        engine: Suggested.
        num_buckets: Suggested for each partition, and the default of rules; of rings the first.
        rules: Suggested rules as Hudi writes them; None for other engines.
        target_bytes: How large a bucket's base file may grow.
        horizon_days: Until when.
        measured_days: Over how many days growth was measured; None if it was not.
        partitions: In numbers.
        recommendations: What to do, the first thing first.
    """

    engine: Engine
    num_buckets: int
    rules: str | None
    target_bytes: int
    horizon_days: int
    measured_days: float | None
    partitions: tuple[PartitionAdvice, ...]
    recommendations: tuple[Recommendation, ...]


def load_figures(snapshot: Snapshot, finder: IndexFinder, uri: str) -> TableFigures:
    """Return what the folders and the timeline of a table tell. Opens no data file.

    Raises:
        CorruptError: the timeline, or what states the index, is damaged.
        StorageError: the store failed.
    """
    state, index = snapshot.state, finder.resolve(snapshot).bucket_index
    is_whole = not list_archive_files(state.store, state.config, state.limits)
    days, growths = measure_growth(snapshot.commits, begins_empty=is_whole)
    snapshot.slices_of(snapshot.partitions)  # lists them side by side
    found = []
    for path in snapshot.partitions:
        slices = snapshot.slices(path)
        sizes, number = [file_slice.size for file_slice in slices], None
        try:
            layout = finder.layout(snapshot, path)
        except IndexUnknownError:
            pass  # no buckets, or not those of the index
        else:
            number = len(layout.bucket_ids)
            sizes += [0] * max(0, number - len(sizes))
        logs = sum(file.size or 0 for each in slices for file in each.log_files)
        found.append(PartitionFigures(path, number, tuple(sizes), logs, growths.get(path)))
    config = state.config
    return TableFigures(uri, index, config.table_type, config.table_version, days, tuple(found))


def plan_advice(
    figures: TableFigures, target_bytes: int = TARGET_BYTES, horizon_days: int = HORIZON_DAYS
) -> BucketAdvice:
    """Return which buckets suit a table.

    Args:
        figures: What was measured.
        target_bytes: How large a bucket's base file may grow.
        horizon_days: For how many days of growth as measured.
    """
    partitions = tuple(
        _advise_partition(each, target_bytes, horizon_days) for each in figures.partitions
    )
    engine, rules = _choose_engine(figures, partitions)
    number = max((each.suggested for each in partitions), default=1)
    if engine == "rules":
        number = _default_of_rules(partitions)
    if engine == "simple" and figures.number_of_all is not None:
        number = _near(figures.number_of_all, number)
    plan = BucketAdvice(
        engine, number, rules, target_bytes, horizon_days, figures.days, partitions, ()
    )
    found = [*_advise_logs(figures, partitions), *_advise_buckets(figures, plan)]
    found += _advise_skew(partitions)
    return BucketAdvice(
        engine, number, rules, target_bytes, horizon_days, figures.days, partitions, tuple(found)
    )


def _advise_partition(each: PartitionFigures, target: int, horizon: int) -> PartitionAdvice:
    total = sum(each.sizes)
    now = total - each.log_bytes + each.log_bytes * _LOG_TO_PARQUET
    gained = 0.0 if each.growth is None else max(0.0, each.growth.bytes_per_day) * horizon
    there = [size for size in each.sizes if size]
    return PartitionAdvice(
        partition_path=each.partition_path,
        num_buckets=each.num_buckets,
        file_groups=len(there),
        bytes=total,
        log_bytes=each.log_bytes,
        largest_to_median=float(max(there) / np.median(there)) if there else 1.0,
        bytes_per_day=None if each.growth is None else each.growth.bytes_per_day,
        rows_per_day=None if each.growth is None else each.growth.rows_per_day,
        expected_bytes=int(now + gained),
        suggested=_power_of_two(now + gained, target),
    )


def _power_of_two(expected: float, target: int) -> int:
    number = 1
    while expected / number > target and number < _NUM_BUCKETS_MAX:
        number *= 2
    return number


def _near(present: int, wanted: int) -> int:
    """Return the number nearest to `wanted` that doubling or halving reaches."""
    number = present
    while number < wanted:
        number *= 2
    while number % 2 == 0 and number // 2 >= wanted:
        number //= 2
    return number


def _choose_engine(
    figures: TableFigures, partitions: Sequence[PartitionAdvice]
) -> tuple[Engine, str | None]:
    if figures.index is not None and figures.index.has_rings:
        return "consistent hashing", None
    numbers = [each.suggested for each in partitions]
    if len(numbers) > 1 and max(numbers) >= _SPREAD_OF_RULES * min(numbers):
        rules = _write_rules(partitions)
        if figures.table_version >= 9 and rules is not None:
            return "rules", rules
    if figures.table_type == "MERGE_ON_READ" and any(map(_doubles_soon, partitions)):
        return "consistent hashing", None
    return "simple", None


def _doubles_soon(each: PartitionAdvice) -> bool:
    gained = (each.bytes_per_day or 0.0) * _DOUBLES_WITHIN_DAYS
    return each.suggested > 1 and gained >= each.bytes > 0


def _default_of_rules(partitions: Sequence[PartitionAdvice]) -> int:
    return Counter(each.suggested for each in partitions).most_common(1)[0][0]


def _write_rules(partitions: Sequence[PartitionAdvice]) -> str | None:
    """Return rules for the partitions that the default does not suit; None if they are too many."""
    default = _default_of_rules(partitions)
    paths: dict[int, list[str]] = defaultdict(list)
    for each in partitions:
        if each.suggested != default:
            paths[each.suggested].append(each.partition_path)
    if sum(map(len, paths.values())) > _RULES_MAX:
        return None
    if any(_RULE_MARKS.intersection(path) for own in paths.values() for path in own):
        return None
    rules = []
    for number in sorted(paths, reverse=True):
        found = "|".join(map(_literal, paths[number]))
        rules.append(f"^(?:{found})$,{number}")
    return ";".join(rules)


def _literal(path: str) -> str:
    return "".join(c if c.isalnum() or c in "/_=-" or ord(c) > 127 else f"\\{c}" for c in path)


def _advise_logs(
    figures: TableFigures, partitions: Sequence[PartitionAdvice]
) -> list[Recommendation]:
    total, logs = (sum(getattr(p, name) for p in partitions) for name in ("bytes", "log_bytes"))
    if not total or logs < total * _LOG_SHARE_MAX:
        return []
    reason = (
        f"{logs / total:.0%} of the files' {size_text(total)} are logs, which readers merge each "
        "time and whose size says little of the rows; compact first, and ask again"
    )
    return [_recommend(figures, "compact", reason, "", "preview_compaction()")]


def _advise_skew(partitions: Sequence[PartitionAdvice]) -> list[Recommendation]:
    found = [
        each
        for each in partitions
        if each.num_buckets is not None
        and each.largest_to_median > _UNEVEN
        and each.bytes > TARGET_BYTES
    ]
    if not found:
        return []
    worst = max(found, key=lambda each: each.largest_to_median)
    reason = (
        f"in {len(found)} of {len(partitions)} partitions the keys are uneven: the largest bucket "
        f"of partition {worst.partition_path!r} is {worst.largest_to_median:.1f} times the median, "
        "as it is where a hash field has few values; another number of buckets divides other "
        "values, and not the rows of one value (check() tells of keys that hash alike)"
    )
    return [Recommendation("keep", reason)]


def _advise_buckets(figures: TableFigures, plan: BucketAdvice) -> list[Recommendation]:
    """Return what to do about the number of buckets and the engine."""
    if not plan.partitions:
        return [Recommendation("keep", "the table has no files yet")]
    largest = max(plan.partitions, key=lambda each: each.expected_bytes)
    until = f"in {plan.horizon_days} days" if plan.measured_days is not None else "once compacted"
    has, expected = size_text(largest.bytes), size_text(largest.expected_bytes)
    where = f"partition {largest.partition_path!r}" if largest.partition_path else "the table"
    basis = (
        f"{where} has {has}{f', {expected} {until}' * (expected != has)}: {largest.suggested} "
        f"bucket{'s' * (largest.suggested != 1)} of at most {size_text(plan.target_bytes)}"
    )
    if figures.index is None:
        return [_migrate(figures, plan, basis)]
    if figures.index.has_rings:
        return [_resize(figures, plan)]
    if figures.index.group_bytes is not None:
        return [Recommendation("keep", "buckets grow by file groups, whatever their number")]
    now = {each.num_buckets for each in plan.partitions if each.num_buckets is not None}
    if plan.engine == "consistent hashing":
        reason = (
            f"{basis}, and the partition doubles within {_DOUBLES_WITHIN_DAYS} days; a ring "
            "divides only the buckets that grow (a migration makes one of a table without "
            "buckets). Until then double the number"
        )
        present = max(now, default=1)
        return [_rehash(figures, present, _near(present, largest.suggested), reason)]
    if plan.engine == "rules":
        fits = all(
            _is_near(each.num_buckets, each.suggested)
            for each in plan.partitions
            if each.num_buckets is not None
        )
        reason = (
            f"partitions need {min(p.suggested for p in plan.partitions)} to "
            f"{max(p.suggested for p in plan.partitions)} buckets; {basis}"
        )
        if fits:
            return [Recommendation("keep", f"{reason}, as they have")]
        return [_rescale(figures, plan.rules or "", plan.num_buckets, reason)]
    if figures.number_of_all is not None:
        return [_rehash(figures, figures.number_of_all, plan.num_buckets, basis)]
    if all(_is_near(number, plan.num_buckets) for number in now):
        return [Recommendation("keep", f"{basis}, about as many as there are")]
    return [_rescale(figures, f".*,{plan.num_buckets}", plan.num_buckets, basis)]


def _is_near(present: int | None, wanted: int) -> bool:
    """Whether a number is good enough: too few is worse than too many."""
    return present is not None and present < 4 * wanted and wanted < 2 * present


def _rehash(figures: TableFigures, before: int, after: int, basis: str) -> Recommendation:
    if _is_near(before, after) or before == after:
        return Recommendation("keep", f"{basis}; {before} buckets are as they should be")
    reason = f"{basis}; there are {before}"
    return _recommend(figures, "rehash", reason, str(after), f"preview_rehash({after})")


def _rescale(figures: TableFigures, rules: str, default: int, reason: str) -> Recommendation:
    options = f"{_options(rules)} --default {default}"
    call = f"preview_rescale({rules!r}, default={default})"
    return _recommend(figures, "rescale", reason, options, call)


def _migrate(figures: TableFigures, plan: BucketAdvice, basis: str) -> Recommendation:
    reason = f"the table has no bucket index that is known; {basis}"
    options, index = f"--buckets {plan.num_buckets}", f"SimpleBucketIndex({plan.num_buckets})"
    if plan.engine == "rules":
        options += f" {_options(plan.rules or '')}"
        index = f"PartitionBucketIndex({plan.num_buckets}, {plan.rules!r})"
    elif plan.engine == "consistent hashing":
        options, index = f"--ring {plan.num_buckets}", f"ConsistentHashingIndex({plan.num_buckets})"
        reason += f"; it doubles within {_DOUBLES_WITHIN_DAYS} days, and a ring divides what grows"
    return _recommend(figures, "migrate", reason, options, f"preview_migrate(bf.{index})")


def _options(rules: str) -> str:
    """Return rules as options of a command."""
    return " ".join(f"--rule {shlex.quote(rule)}" for rule in rules.split(";"))


def _resize(figures: TableFigures, plan: BucketAdvice) -> Recommendation:
    sizes = [size for each in figures.partitions for size in each.sizes]
    split = sum(size > _SPLIT_ABOVE * plan.target_bytes for size in sizes)
    merge = sum(size < _MERGE_BELOW * plan.target_bytes for size in sizes)
    reason = (
        f"{split} of {len(sizes)} buckets are above {size_text(_SPLIT_ABOVE * plan.target_bytes)} "
        f"and {merge} below {size_text(_MERGE_BELOW * plan.target_bytes)}, where a ring splits and "
        "merges"
    )
    if not split and 2 * merge <= len(sizes):
        return Recommendation("keep", reason)
    return _recommend(figures, "resize", reason, "", "preview_resize()")


def _recommend(
    figures: TableFigures, action: Action, reason: str, options: str, call: str
) -> Recommendation:
    words = ["bucketfmt", action, shlex.quote(figures.uri), *filter(None, [options]), "--dry-run"]
    return Recommendation(action, reason, " ".join(words), f"t.{call}")
