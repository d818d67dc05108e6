"""How a table writes complex keys of one field, and timestamps in keys, which only its keys tell.

I/O: reads a few rows of one file group, where that is open. Source: KeyGenUtils.
mayUseNewEncodingForComplexKeyGen, HUDI-7001; BuiltinKeyGenerator and
`hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled`, which no table states.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.table.table_config import KeyGenerator
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.meta_columns import PARTITION_PATH, RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import is_encoding_open, partition_paths, record_keys
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["find_key_encoding"]

_ROWS = 2_000
_PLAIN = (KeyGenerator.SIMPLE, KeyGenerator.COMPLEX, KeyGenerator.NON_PARTITION)


def find_key_encoding(snapshot: Snapshot, *, of_values: bool = True) -> KeyEncoding | None:
    """Return how keys are written; None where the table version tells, or there are no rows.

    Args:
        snapshot: The table.
        of_values: Whether keys or partition paths are to be made of values.

    Raises:
        UnsupportedError: the keys are written in both ways, or in neither; or timestamps are text
            in keys or partition paths, and `of_values`.
    """
    config = snapshot.state.config
    if not config.populate_meta_fields:
        return None
    if not is_encoding_open(config):
        if of_values:
            _check_timestamps(snapshot)
        return None
    rows = _some_rows(snapshot, config.record_key_fields)
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


def _check_timestamps(snapshot: Snapshot) -> None:
    """Refuse tables in whose keys or partition paths timestamps are text.

    Row writers of Hudi make such keys, and other writers if an option says so that the table does
    not state. A key of the number would be another one.
    """
    config = snapshot.state.config
    if config.key_generator not in _PLAIN:
        return
    made = {RECORD_KEY: config.record_key_fields, PARTITION_PATH: config.partition_fields}
    fields = [field for own in made.values() for field in own]
    try:
        empty = snapshot.schema.data.empty_table()
    except SchemaError:  # nothing is there yet
        return
    found = (find_column(empty, field) for field in fields)
    if not any(column is not None and pa.types.is_timestamp(column.type) for column in found):
        return
    rows = _some_rows(snapshot, fields)
    if rows is None:
        return
    for name, own in made.items():
        make = record_keys if name == RECORD_KEY else partition_paths
        stored, of_rows = rows.column(name), make(rows, config, are_stored=True)
        if not stored.equals(of_rows):
            at = pc.index(pc.equal(stored, of_rows), False).as_py()
            raise UnsupportedError(
                f"{name} is {stored[at].as_py()!r}, and {', '.join(own)} of its row makes "
                f"{of_rows[at].as_py()!r}: writers of Hudi differ in timestamps of keys and "
                "partition paths, so that a row written here would be another one. Give keys as "
                "they are stored; write with the writer that made them, or write the table anew "
                "with a key of another type"
            )


def _some_rows(snapshot: Snapshot, fields: Sequence[str]) -> pa.Table | None:
    """Return rows of the first file group that has any: their keys, paths and these fields."""
    columns = dict.fromkeys([RECORD_KEY, PARTITION_PATH, *(f.partition(".")[0] for f in fields)])
    table = snapshot.schema
    spec = RowSpec(table=table, output=table.select(list(columns)))
    for path in snapshot.partitions:
        for file_slice in snapshot.slices(path):
            for rows in SliceReader(snapshot, spec).read(file_slice, _ROWS):
                if rows.num_rows:
                    return rows.slice(0, _ROWS)
    return None
