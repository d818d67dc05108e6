"""What hoodie.properties tell of a migration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.migrations import Migrated, format_migration

INSTANT = "20261129123456789"
NAMES = st.text("abc.", min_size=1, max_size=6)
ENTRIES = st.dictionaries(NAMES, st.text(max_size=6), max_size=4)


@given(st.sampled_from([INSTANT, INSTANT[:14]]), ENTRIES, ENTRIES)
def test_what_is_told_is_found(
    instant: str, before: dict[str, str], others: dict[str, str]
) -> None:
    migrated = Migrated(instant, before)
    assert Migrated.find({**others, **migrated.entries()}) == migrated


def test_no_migration_is_told() -> None:
    (name, *_) = Migrated(INSTANT, {}).entries()
    assert Migrated.find({}) is None
    assert Migrated.find({name: ""}) is None


@pytest.mark.parametrize(
    "instant", ["x", INSTANT[:13], INSTANT + "0000", "²" * 14, "-" + INSTANT[1:]]
)
def test_an_entry_that_is_no_instant(instant: str) -> None:
    (name, *_) = Migrated(INSTANT, {}).entries()
    with pytest.raises(CorruptError, match="is not an instant"):
        Migrated.find({name: instant})


def test_targets_are_told_apart_as_ever() -> None:
    """A migration that was begun by another release goes on: the value stays what it was."""
    target = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "8"}
    assert format_migration(target) == format_migration(dict(reversed(target.items())))
    assert format_migration(target) == "2942832276988e57bf1a7bc93cc82fd5"
    assert format_migration(target) != format_migration(target, "PLAIN")
