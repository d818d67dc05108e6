"""Which number of buckets partitions get by new rules, and what a rescale rewrites.

Pure. Source: RFC-89, PartitionBucketIndexManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bucketfmt.errors import CorruptError
from bucketfmt.index.model import BucketIndex
from bucketfmt.index.numbered_buckets import PartitionBucketIndex
from bucketfmt.limits import Limits
from bucketfmt.resize.plan_rewrite import RewriteStep, measure_steps

__all__ = ["PartitionRescale", "RescalePreview", "plan_rules", "preview_rescale"]


@dataclass(frozen=True, slots=True)
class PartitionRescale:
    """A partition, and how many buckets it has.

    Attributes:
        partition_path: The partition.
        before: The number of its buckets now.
        after: The number of its buckets then. A partition is rewritten where both differ.
    """

    partition_path: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class RescalePreview:
    """What `Table.rescale` would do.

    Attributes:
        rules: The rules then, `regex,number` at each `;`.
        default: The number of buckets then of partitions that no rule matches.
        partitions: Every partition that has file groups, sorted by path.
        file_groups: How many file groups would be read and hidden.
        bytes: The sizes of their files together, which is about what is written too.
        steps: In how many independent pieces.
    """

    rules: str
    default: int
    partitions: tuple[PartitionRescale, ...] = ()
    file_groups: int = 0
    bytes: int = 0
    steps: int = 0


def plan_rules(
    index: BucketIndex,
    rules: str,
    default: int | None,
    table_type: str,
    table_version: int,
    *,
    add: bool,
    limits: Limits,
) -> PartitionBucketIndex:
    """Return the index of a table with new rules.

    Args:
        index: The index of the table now; its buckets are numbered.
        rules: The new rules.
        default: The number of buckets where no rule matches; None for that of now.
        table_type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        table_version: 6, 8 or 9.
        add: The new rules go before those of now, instead of taking their place.
        limits: Bounds on rules.

    Raises:
        ValueError: the rules are malformed, or a number of buckets is.
        LimitError: there are too many rules.
        UnsupportedError: a regex is not supported.
    """
    now = index.hashing_config
    if default is None:
        default = index.num_buckets_of("", limits) if now is None else now.default_num_buckets
    if add and now is not None:
        rules = f"{rules};{now.expressions}"
    planned = PartitionBucketIndex(default, rules, index.hash_fields)
    try:
        planned.check_creatable(table_type, table_version)
    except CorruptError as error:
        raise ValueError(f"rules={rules!r}: {error.message}") from None
    return planned


def preview_rescale(
    planned: PartitionBucketIndex,
    numbers: Mapping[str, tuple[int, int]],
    steps: Sequence[RewriteStep],
) -> RescalePreview:
    """Return a rescale in numbers.

    Args:
        planned: The index then.
        numbers: The number of buckets now and then, by partition path.
        steps: What would be rewritten.
    """
    file_groups, size = measure_steps(steps)
    partitions = tuple(PartitionRescale(path, *both) for path, both in sorted(numbers.items()))
    return RescalePreview(planned.rules, planned.default, partitions, file_groups, size, len(steps))
