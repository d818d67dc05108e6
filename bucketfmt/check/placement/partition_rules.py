"""Partition-level bucket rules: each `.hashing_config` whole, usable and committed.

Reads the config files; P001 and P002. Source: PartitionBucketIndexHashingConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.buckets.partition_rules import (
    PartitionBucketRules,
    choose_hashing_config,
)
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.layout import (
    HASHING_CONFIG_FOLDER,
    PARTITION_RULES_FOLDER,
    parse_hashing_config_name,
)
from bucketfmt.location.rule_files import list_rule_files, load_rule_file
from bucketfmt.storage.store import FileInfo

__all__ = ["find_unusable_rules", "load_rules_faults"]

_PATTERN_CHARS_MAX = 256
_FAULTS_IN_ANY_LANGUAGE = frozenset(
    {
        "missing ), unterminated subpattern",
        "unbalanced parenthesis",
        "nothing to repeat",
        "unterminated character set",
    }
)


@dataclass(frozen=True)
class _Config:
    instant: str
    path: str
    rules: PartitionBucketRules


def load_rules_faults(state: ExaminedState, partitions: Sequence[str]) -> Iterator[Event]:
    """Yield P001 and P002 about the hashing configs of a table; nothing where it has none."""
    listed = state.store.list(PARTITION_RULES_FOLDER)
    has_folder = any(e.is_dir and e.path == HASHING_CONFIG_FOLDER for e in listed)
    entries = [entry for entry in list_rule_files(state.store) if not entry.is_dir]
    if has_folder and not entries:
        yield Finding.of(
            "P001",
            "the folder that makes this a table with partition bucket rules holds none",
            paths=[HASHING_CONFIG_FOLDER],
        )
    configs: list[_Config] = []
    for entry in entries:
        yield Counted("hashing config files")
        loaded = _load(state, entry)
        if isinstance(loaded, _Config):
            configs.append(loaded)
        else:
            yield loaded
    pending = state.timeline.pending.requested_times
    for config in configs:
        if _is_uncommitted(state, config.instant):
            yield Finding.of(
                "P002",
                f"the rules {config.rules.expressions!r} are of {config.instant}, which is no "
                "completed replacecommit",
                paths=[config.path],
                instants=[config.instant],
            )
    chosen = choose_hashing_config([config.instant for config in configs], list(pending))
    for config in configs:
        if config.instant == chosen:
            yield from find_unusable_rules(config.rules, config.path, [config.instant], partitions)


def _load(state: ExaminedState, entry: FileInfo) -> _Config | Event:
    instants: list[str] = []
    try:
        instant = parse_hashing_config_name(entry.name)
        instants.append(instant)
        rules = load_rule_file(state, entry.path)
    except BucketfmtError as error:
        error.within(path=entry.path)
        return event_of_error(error, "P001", entry.path, instants=instants)
    if rules.instant not in (instant, INIT_INSTANT):
        evidence = f"it says it is of instant {rules.instant}"
        return Finding.of("P001", evidence, paths=[entry.path], instants=[instant])
    return _Config(instant, entry.path, rules)


def _is_uncommitted(state: ExaminedState, instant: str) -> bool:
    """Whether it is certain that no completed replacecommit wrote the rules of `instant`."""
    timeline = state.timeline
    if instant == INIT_INSTANT or timeline.contains(instant):
        known = timeline.of("replacecommit").contains(instant) or timeline.is_pending(instant)
        return instant != INIT_INSTANT and not known
    times = {archived.requested_time for archived in state.archived_instants}
    if instant in times:  # a restore or a savepoint before it may be active still
        return False
    first = timeline.first
    if first is None or instant > first.requested_time:
        return True
    return bool(times) and instant >= min(times)


def find_unusable_rules(
    rules: PartitionBucketRules, path: str, instants: Sequence[str], partitions: Sequence[str]
) -> Iterator[Event]:
    """Yield P001 for rules in force that give a partition no number of buckets.

    Args:
        rules: As stated.
        path: The file that states them.
        instants: Which it is of, if any.
        partitions: Those they have to be good for.
    """
    default = rules.default_num_buckets
    try:
        if default < 1:
            raise CorruptError(f"the number of buckets where no rule holds is {default}")
        for partition_path in partitions:
            rules.num_buckets_for(partition_path)
    except (CorruptError, LimitError) as error:
        yield Finding.of("P001", str(error), paths=[path], instants=instants)
    except UnsupportedError as error:
        if any(map(_is_no_pattern, rules.expressions.split(";"))):
            yield Finding.of("P001", str(error), paths=[path], instants=instants)
        else:
            yield NotChecked(path, error.message)


def _is_no_pattern(rule: str) -> bool:
    """Whether a rule's regex is sure to be none, in Java or in Python."""
    try:
        re.compile(rule.partition(",")[0].strip()[:_PATTERN_CHARS_MAX])
    except re.error as error:
        return error.msg in _FAULTS_IN_ANY_LANGUAGE
    except (OverflowError, RecursionError):
        pass
    return False
