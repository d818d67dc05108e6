"""A table as a pyarrow dataset, for DuckDB, polars and all that reads datasets.

Which columns and rows the reader wants goes to `Table.scan`, so that buckets, files and row groups
are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from bucketfmt.table.scan import Scan

__all__ = ["TableDataset"]

MakeScan = Callable[..., Scan]
"""Returns a scan for `columns`, `filter` and `limit`, as `Table.scan` does."""


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """Rows of a table at each time that they are read.

    The methods of `pyarrow.dataset.Dataset` read by `scanner`, which is made here; there are no
    fragments.
    """

    def __init__(self, make_scan: MakeScan) -> None:
        self._make_scan = make_scan

    def __repr__(self) -> str:
        return f"<bucketfmt.TableDataset of {', '.join(self.schema.names)}>"

    def __reduce__(self) -> tuple[object, ...]:
        return TableDataset, (self._make_scan,)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._make_scan().schema

    def scanner(
        self,
        columns: list[str] | dict[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """Return a scanner of some columns of the rows that pass a filter.

        Args:
            columns: Names, or expressions by name.
            filter: What rows must pass.
            limit: Read at most this many rows.
            options: `batch_size`; others of pyarrow, which concern how files are read, are left
                out of account.
        """
        names = columns if isinstance(columns, list) and columns else None
        scan = self._make_scan(columns=names, filter=filter, limit=limit)
        batch_rows = options.get("batch_size")
        batches = scan.to_batches(*([] if batch_rows is None else [batch_rows]))
        return ds.Scanner.from_batches(
            batches, schema=scan.schema, columns=columns if names is None else None
        )

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows, and read no more of them than that."""
        return self.scanner(limit=num_rows, **options).to_table()

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:  # noqa: A002
        """Refuse: the rows of a file group are merged from several files."""
        raise NotImplementedError("a Hudi table has no fragments; use scanner() or to_batches()")
