"""How a commit says that it moved partitions to a bucket index. Pure.

An extension of bucketfmt. The replacecommits of a migration carry the entry, so that a migration
that was interrupted goes on with the partitions that are left: spec, MIGRATE-1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

__all__ = ["MIGRATION", "format_migration"]

MIGRATION = "bucketfmt.migration"
"""The key of the entry in `extraMetadata`."""


def format_migration(properties: Mapping[str, str], key_encoding: str | None = None) -> str:
    """Return the value of the entry: equal for equal targets, and of no other meaning.

    Args:
        properties: How hoodie.properties will state the index.
        key_encoding: How record keys are written anew; None if they stay.
    """
    lines = [f"{name}={value}" for name, value in sorted(properties.items())]
    text = "\n".join([*lines, key_encoding or ""])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
