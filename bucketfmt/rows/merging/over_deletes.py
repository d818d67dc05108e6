"""How readers merge rows that are appended to a log, for keys that the log deletes.

Pure. Hudi merges a log by itself before the base file. A later row wins over a delete without
ordering value, and is then compared with the base row as if there were no delete: a base row of
greater ordering is read again, although the row was deleted. A delete with an ordering value hides
a later row of lower ordering. Where a table fills values (`MergeRules.filling`), the deleted base
row fills the later row. None of it happens if the log was compacted in between
(docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.rows.merging.merge import MergedLog

__all__ = ["OverDeletes", "count_over_deletes"]


@dataclass(frozen=True, slots=True)
class OverDeletes:
    """How appended rows whose keys are deleted will be read.

    Attributes:
        num_rows: Appended rows whose keys are deleted.
        num_hidden: Appended rows that are not read, because the delete wins.
        num_revived: Appended rows in place of which the deleted base row is read, or which it may
            fill.
        num_unordered: Appended rows, read or not, whose key has a delete without ordering value.
    """

    num_rows: int = 0
    num_hidden: int = 0
    num_revived: int = 0
    num_unordered: int = 0


def count_over_deletes(
    before: MergedLog, after: MergedLog, appended: pa.Array, base: Iterable[pa.Table]
) -> OverDeletes:
    """Count how appended rows will be read.

    Args:
        before: The log, which deletes the keys of all appended rows.
        after: The log with the rows.
        appended: The keys of the rows, each once.
        base: The base rows of these keys. A base row that wins over the delete was never deleted;
            whether the appended row is newer is decided as for any other row.
    """
    num_deleted = num_over_base = num_revived = 0
    for rows in base:
        deleted = before.find_replacements(rows).gone
        found = after.find_replacements(rows)
        num_deleted += len(deleted)
        if after.fills_values:
            num_revived += len(np.setdiff1d(deleted, found.gone))
            continue
        num_over_base += len(np.intersect1d(deleted, found.places))
        num_revived += len(np.setdiff1d(deleted, np.union1d(found.places, found.gone)))
    num_live = before.num_matched - num_deleted
    num_read = num_over_base + after.remaining().num_rows
    unordered = pc.sum(pc.is_in(appended, before.keys_deleted_without_ordering)).as_py() or 0
    return OverDeletes(
        num_rows=len(appended) - num_live,
        num_hidden=len(appended) - num_live - num_read - num_revived,
        num_revived=num_revived,
        num_unordered=unordered,
    )
