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

    The methods of `pyarrow.dataset.Dataset` read by `scanner`, which is made here; those that
    pyarrow has for datasets of files alone are made here too. There are no fragments.
    """

    def __init__(self, make_scan: MakeScan, row_filter: pc.Expression | None = None) -> None:
        """Set up; `row_filter` is what all rows pass."""
        self._make_scan = make_scan
        self._row_filter = row_filter

    def __repr__(self) -> str:
        return f"<bucketfmt.TableDataset of {', '.join(self.schema.names)}>"

    def __reduce__(self) -> tuple[object, ...]:
        return TableDataset, (self._make_scan, self._row_filter)

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
        scan = self._make_scan(columns=names, filter=self._both(filter), limit=limit)
        batch_rows = options.get("batch_size")
        batches = scan.to_batches(*([] if batch_rows is None else [batch_rows]))
        return ds.Scanner.from_batches(
            batches, schema=scan.schema, columns=columns if names is None else None
        )

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows, and read no more of them than that."""
        return self.scanner(limit=num_rows, **options).to_table()

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return the dataset of those rows that pass a filter too."""
        return TableDataset(self._make_scan, self._both(expression))

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """Return the rows in order, all in memory. Arguments as of pyarrow."""
        return _in_memory(self).sort_by(sorting, **options)

    def join(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.Dataset:
        """Return the rows joined with those of another dataset, all in memory. As of pyarrow."""
        return _in_memory(self).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.Dataset:
        """Return the rows joined with those before, all in memory. As of pyarrow."""
        return _in_memory(self).join_asof(_in_memory(right_dataset), *arguments, **options)

    @property
    def partition_expression(self) -> pc.Expression:
        """What is known of all rows: nothing, or the filter."""
        return pc.scalar(True) if self._row_filter is None else self._row_filter

    def replace_schema(self, schema: pa.Schema) -> Any:
        """Refuse: a table has the columns of its commits."""
        raise NotImplementedError("a table has the columns that it has; use to_table().cast()")

    def _both(self, expression: pc.Expression | None) -> pc.Expression | None:
        if expression is None or self._row_filter is None:
            return self._row_filter if expression is None else expression
        return self._row_filter & expression

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:  # noqa: A002
        """Refuse: the rows of a file group are merged from several files."""
        raise NotImplementedError("a Hudi table has no fragments; use scanner() or to_batches()")


def _in_memory(dataset: ds.Dataset) -> ds.Dataset:
    """Return a dataset that pyarrow's own code can read."""
    if isinstance(dataset, TableDataset):
        return ds.InMemoryDataset(dataset.to_table())
    return dataset
