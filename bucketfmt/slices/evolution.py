"""What columns were called in the file a row was written to, by Hudi's column ids.

Pure. Source: InternalSchemaMerger.
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.format.table.internal_schema import InternalSchema, find_schema_in_force, full_names
from bucketfmt.rows.columns.conform import Renames

__all__ = ["find_renames"]


def find_renames(
    table: InternalSchema | None, history: Sequence[InternalSchema], written_at: str
) -> Renames | None:
    """Return how columns of the table were named in what the instant `written_at` wrote.

    None where columns go by name: the table keeps no ids, or kept none yet at that instant.
    """
    if table is None or not written_at.isdigit():
        return None
    written = find_schema_in_force(history, written_at)
    if written is None or written == table:
        return None
    names_then = full_names(written)
    renames: dict[str, str | None] = {}
    for column_id, path in full_names(table).items():
        then = names_then.get(column_id)
        name = path.rpartition(".")[2]
        if then is None:
            renames[path] = None
        elif then.rpartition(".")[2] != name:
            renames[path] = then.rpartition(".")[2]
    return renames or None
