"""How a table writes complex keys of one field, which only its keys tell.

I/O: reads a few rows of one file group, where that is open. Source: KeyGenUtils.
mayUseNewEncodingForComplexKeyGen, HUDI-7001.
"""

from __future__ import annotations

import pyarrow as pa

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import is_encoding_open, record_keys
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["find_key_encoding"]

_ROWS = 2_000


def find_key_encoding(snapshot: Snapshot) -> KeyEncoding | None:
    """Return how keys are written; None where the table version tells, or there are no rows.

    Raises:
        UnsupportedError: the keys are written in both ways, or in neither.
    """
    config = snapshot.state.config
    if not (is_encoding_open(config) and config.populate_meta_fields):
        return None
    rows = _some_rows(snapshot)
    if rows is None:
        return None
    keys = rows.column(RECORD_KEY)
    for encoding in KeyEncoding:
        if keys.equals(record_keys(rows, config, encoding, are_stored=True)):
            return encoding
    (field,) = config.record_key_fields
    raise UnsupportedError(
        f"the table has keys as `7` and as `{field}:7`, written by Hudi releases that differ in "
        "it, or keys of another kind: rows may be there twice. See Hudi's deployment guide on "
        "complex key generators"
    )


def _some_rows(snapshot: Snapshot) -> pa.Table | None:
    """Return rows of the first file group that has any, with their keys and key fields."""
    (key_field,) = snapshot.state.config.record_key_fields
    for path in snapshot.partitions:
        for file_slice in snapshot.slices(path):
            table = snapshot.schema
            columns = (RECORD_KEY, key_field.partition(".")[0])
            output = table.select(columns)
            reader = SliceReader(snapshot, RowSpec(table=table, output=output))
            for rows in reader.read(file_slice, _ROWS):
                if rows.num_rows:
                    return rows.slice(0, _ROWS)
    return None
