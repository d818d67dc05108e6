"""How commits and properties say that a table was moved to a bucket index. Pure.

An extension of bucketfmt. The replacecommits of a migration carry an entry, so that a migration
that was interrupted goes on with the partitions that are left. hoodie.properties keep what they
stated of the index before, for whoever takes the migration back: spec, MIGRATE-1 and MIGRATE-3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from bucketfmt.errors import CorruptError

__all__ = ["MIGRATION", "Migrated", "format_migration"]

MIGRATION = "bucketfmt.migration"
"""The key of the entry in `extraMetadata`."""

_MIGRATED = "bucketfmt.migrated"
_BEFORE = "bucketfmt.before."
_INSTANT_DIGITS = range(14, 21)


@dataclass(frozen=True, slots=True)
class Migrated:
    """The migration that gave a table its index.

    Attributes:
        instant: The requested time of the last replacecommit that moved rows.
        before: What hoodie.properties stated of the index until then.
    """

    instant: str
    before: Mapping[str, str]

    @classmethod
    def find(cls, properties: Mapping[str, str]) -> Migrated | None:
        """Return the migration that properties tell of; None if they tell of none.

        Raises:
            CorruptError: the entry is not an instant.
        """
        instant = properties.get(_MIGRATED)
        if not instant:
            return None
        if not (instant.isascii() and instant.isdigit() and len(instant) in _INSTANT_DIGITS):
            raise CorruptError(f"{_MIGRATED}: {instant[:80]!r} is not an instant")
        names = (name for name in properties if name.startswith(_BEFORE))
        return cls(instant, {name.removeprefix(_BEFORE): properties[name] for name in names})

    def entries(self) -> dict[str, str]:
        """Return what properties tell of the migration."""
        before = {f"{_BEFORE}{name}": value for name, value in self.before.items()}
        return {_MIGRATED: self.instant, **before}


def format_migration(properties: Mapping[str, str], key_encoding: str | None = None) -> str:
    """Return the value of the entry: equal for equal targets, and of no other meaning.

    Args:
        properties: How hoodie.properties will state the index.
        key_encoding: How record keys are written anew; None if they stay.
    """
    lines = [f"{name}={value}" for name, value in sorted(properties.items())]
    text = "\n".join([*lines, key_encoding or ""])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
