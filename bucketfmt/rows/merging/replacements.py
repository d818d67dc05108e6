"""Changes to some base rows, and the rows that result.

Pure and vectorised. What is not changed is not copied where that can be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.merging.ordering import Indexes

__all__ = ["Replacements", "replace_values"]

_HALVED_BYTES = 1 << 30  # an Arrow array of text has less than 2 GiB
_FIRST_PLACES = 64


@dataclass(frozen=True)
class Replacements:
    """Changes of a log to some base rows. The other base rows stay as they are.

    Attributes:
        places: The indexes of the changed base rows, ascending.
        rows: The new values, one row for each place.
        gone: The indexes of the base rows whose key is deleted.
    """

    places: Indexes
    rows: pa.Table = field(repr=False)
    gone: Indexes

    def find_changed_columns(self, base: pa.Table) -> set[str]:
        """Return the columns in which any value differs; nested ones are not compared."""
        unchanged = [name for name in base.column_names if name != RECORD_KEY]
        size = len(self.places)
        for count in sorted({min(_FIRST_PLACES, size), size}):  # mostly the first ones tell
            before = base.select(unchanged).take(pa.array(self.places[:count]))
            now = self.rows.slice(0, count)
            unchanged = [n for n in unchanged if _are_same(before.column(n), now.column(n))]
        return set(base.column_names) - {RECORD_KEY, *unchanged}

    def apply(self, base: pa.Table, columns: Collection[str] | None = None) -> pa.Table:
        """Return the resulting rows; `columns`: the columns that change, if known."""
        if len(self.places) == base.num_rows:
            base = self.rows.replace_schema_metadata(base.schema.metadata)
        elif len(self.places):
            found = base.columns
            for index, name in enumerate(base.column_names):
                if columns is None or name in columns:
                    found[index] = replace_values(
                        found[index], self.places, self.rows.column(index)
                    )
            base = pa.Table.from_arrays(found, schema=base.schema)
        if not len(self.gone):
            return base
        stays = np.ones(base.num_rows, np.bool_)
        stays[self.gone] = False
        return base.filter(pa.array(stays))


def replace_values(
    column: pa.ChunkedArray, places: Indexes, values: pa.ChunkedArray
) -> pa.ChunkedArray:
    """Return the column with new values at some places, which ascend."""
    chunks: list[pa.Array] = []
    start = 0
    for chunk in column.chunks:
        low, high = np.searchsorted(places, (start, start + len(chunk)))
        within = values.slice(low, high - low)
        chunks += _replace_in_chunk(chunk, places[low:high] - start, within)
        start += len(chunk)
    return pa.chunked_array(chunks, column.type)


def _replace_in_chunk(
    chunk: pa.Array, places: Indexes, values: pa.ChunkedArray
) -> Iterator[pa.Array]:
    size = len(chunk)
    if not len(places):
        yield chunk
    elif len(places) == size:
        yield from values.chunks
    elif chunk.nbytes + values.nbytes > _HALVED_BYTES:
        half = size // 2
        low = int(np.searchsorted(places, half))
        yield from _replace_in_chunk(chunk[:half], places[:low], values[:low])
        yield from _replace_in_chunk(chunk[half:], places[low:] - half, values[low:])
    else:
        sources = np.arange(size)
        sources[places] = np.arange(size, size + len(places))
        yield pa.concat_arrays([chunk, *values.chunks]).take(pa.array(sources))


def _are_same(before: pa.ChunkedArray, now: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same bits; False for nested ones."""
    if pa.types.is_nested(now.type):
        return False
    if pa.types.is_floating(now.type):  # 0.0 equals -0.0, and NaN not itself
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[now.type.bit_width]
        before, now = (
            pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
            for column in (before, now)
        )
    return bool(before.equals(now))
