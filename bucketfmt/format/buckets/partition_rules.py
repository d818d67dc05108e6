"""Partition-level bucket rules (`<instant>.hashing_config`): how many buckets a partition has.

Pure. Rules are `regex,number` parts at `;`. The first rule whose regex is found anywhere in
the partition path gives the number, otherwise the default holds.
Sources: `PartitionBucketIndexHashingConfig`, `RegexRuleEngine`, `PartitionBucketIndexCalculator`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Annotated

import msgspec

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.buckets.java_regex import JavaPattern, compile_java_pattern
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import decode_json, encode_jackson_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "PartitionBucketRules",
    "choose_hashing_config",
    "decode_hashing_config",
    "encode_hashing_config",
    "plan_archived_rules",
]

_Int32 = Annotated[int, msgspec.Meta(ge=-0x80000000, le=0x7FFFFFFF)]
_Instant = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{14}([0-9]{3})?\Z")]

_SPACES = "".join(map(chr, range(0x21)))  # what String.trim takes off
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


class PartitionBucketRules(msgspec.Struct, frozen=True):
    """Rules for the number of buckets of each partition, as of one instant.

    The fields in their order are Hudi's JSON. The rules are parsed in `num_buckets_for`, so that a
    file with an unsupported regex can still be decoded.
    """

    expressions: str
    default_num_buckets: _Int32 = msgspec.field(name="defaultBucketNumber")
    rule: str = "regex"
    version: _Int32 = 1
    instant: _Instant = INIT_INSTANT

    def num_buckets_for(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the number of buckets of a partition.

        Raises:
            CorruptError: a rule is malformed, or the number is not positive.
            LimitError: the number, or the number of rules, is too large.
            UnsupportedError: the kind of the rules, or a regex, is not supported.
        """
        if self.rule.upper() != "REGEX":
            raise UnsupportedError(f"partition bucket rules of kind {self.rule!r}")
        number = -1
        for pattern, rule_number in _parse_expressions(self.expressions, limits):
            if pattern.is_found_in(partition_path):
                number = rule_number
                break
        if number == -1:  # also where a rule says so: Hudi's sign for "no rule matched"
            number = self.default_num_buckets
        if number < 1:
            raise CorruptError(f"the rules give partition {partition_path!r} {number} buckets")
        return limits.check("num_buckets_max", number)

    def numbers(self, limits: Limits = DEFAULT_LIMITS) -> list[int]:
        """Return the number of each rule, in their order. Errors as `num_buckets_for`."""
        return [number for _, number in _parse_expressions(self.expressions, limits)]


prepare_to_decode(PartitionBucketRules)


@lru_cache(maxsize=16)
def _parse_expressions(expressions: str, limits: Limits) -> tuple[tuple[JavaPattern, int], ...]:
    rules: list[tuple[JavaPattern, int]] = []
    for expression in _split(expressions, ";"):
        limits.check("partition_rules_max", len(rules) + 1)
        parts = [part.strip(_SPACES) for part in _split(expression.strip(_SPACES), ",")]
        if len(parts) != 2 or _NUMBER.fullmatch(parts[1]) is None:
            raise CorruptError(
                f"partition bucket rule {expression!r} is not 'regex,number' "
                "(a regex here can contain neither ',' nor ';')"
            )
        try:
            rules.append((compile_java_pattern(parts[0]), int(parts[1])))
        except UnsupportedError as error:
            raise UnsupportedError(f"partition bucket rule {expression!r}: {error}") from error
    return tuple(rules)


def _split(text: str, separator: str) -> list[str]:
    """`String.split`: empty parts at the end are dropped."""
    parts = text.split(separator)
    while separator in text and parts and not parts[-1]:
        parts.pop()
    return parts


def decode_hashing_config(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> PartitionBucketRules:
    """Return the rules of a `.hashing_config` file; properties that are not known are skipped.

    Raises:
        CorruptError: the bytes are not such JSON.
        LimitError: the file is too large.
    """
    limits.check("hashing_metadata_bytes_max", len(data))
    return decode_json(data, PartitionBucketRules, "hashing config")


def encode_hashing_config(rules: PartitionBucketRules) -> bytes:
    """Return the bytes Hudi writes for these rules, to the byte."""
    return encode_jackson_json(msgspec.to_builtins(rules))


def choose_hashing_config(
    instants: Collection[str],
    pending_instants: Collection[str],
    archived_instants: Collection[str] = (),
    as_of: str | None = None,
) -> str | None:
    """Return the instant whose rules are in force: the newest one that is not pending.

    Args:
        instants: The instants with a file in the `configs` folder.
        pending_instants: Pending replace commits of the active timeline.
        archived_instants: The instants with a file in the `archive` folder. These count only if
            `as_of` is before all other instants.
        as_of: Ignore later instants.
    """
    committed = [instant for instant in instants if instant not in pending_instants]
    if as_of is None:
        return max(committed, default=None)
    for candidates in (committed, archived_instants):
        reached = [instant for instant in candidates if instant <= as_of]
        if reached:
            return max(reached)
    return None


def plan_archived_rules(
    instants: Collection[str], pending_instants: Collection[str], first_active: str | None
) -> list[str]:
    """Return the instants whose files are to be moved to the `archive` folder.

    Of the committed ones that are older than the active timeline all but the newest, which holds
    at its beginning.

    Args:
        instants: The instants with a file in the `configs` folder.
        pending_instants: Pending replace commits of the active timeline.
        first_active: When the first commit of the active timeline was requested; None for an empty
            timeline.
    """
    if first_active is None:
        return []
    committed = sorted(instant for instant in instants if instant not in pending_instants)
    return [instant for instant in committed if instant < first_active][:-1]
