"""Buckets of keys, in a table that does not state the fields of its keys. T006.

I/O: reads a few rows of one file slice. The keys are stored, and tell the fields or are the values
of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.check.report import Finding
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.names.layout import PROPERTIES
from bucketfmt.location.sample_keys import KeySample
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.merged_keys import merged_rows
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["WHOLE_KEY", "lost_key_fields_finding", "read_key_fields"]

WHOLE_KEY = (RECORD_KEY,)
"""Stands for the field of keys that are its values: such a key is hashed as a whole."""

_NAME = re.compile(r"(?:^|,)([^,:]+):")
_FIELD = "hoodie.table.recordkey.fields"


def read_key_fields(snapshot: Snapshot, sample: KeySample) -> tuple[str, ...]:
    """Return the fields that all keys name, as `id:7,day:3` does, else `WHOLE_KEY`; () if none."""
    keys = [key for _, column in sample.found for key in column.drop_null().to_pylist()]
    if not keys:
        return ()
    rows = pa.table({})
    with suppress(BucketfmtError):  # told of what states the columns
        rows = snapshot.schema.data.empty_table()
    names = [name for name in _NAME.findall(keys[0]) if find_column(rows, name) is not None]
    is_named = re.compile(",".join(f"{re.escape(name)}:.*" for name in names), re.DOTALL).fullmatch
    return tuple(names) if names and all(map(is_named, keys)) else WHOLE_KEY


def lost_key_fields_finding(
    snapshot: Snapshot, sample: KeySample | None, key_fields: Sequence[str]
) -> Finding:
    """Return T006 for a table whose file ids hold buckets and that states no key fields.

    Args:
        snapshot: The table.
        sample: Keys of it, if any were read.
        key_fields: What `read_key_fields` returned for them.
    """
    evidence = f"{_FIELD} is missing, and file ids are those of buckets that keys are hashed to"
    fields = ",".join(key_fields)
    if tuple(key_fields) == WHOLE_KEY:
        equal = _columns_of_keys(snapshot, sample)
        fields = equal[0] if len(equal) == 1 else ""
        if equal:
            evidence += f"; the keys are the values of {' or '.join(equal)}"
    elif key_fields:
        evidence += f"; the keys name {', '.join(key_fields)}"
    line = f"the line {_FIELD}={fields}" if fields else f"the line {_FIELD}= with the key fields"
    fix = f"Stop the writers and put {line} back into {PROPERTIES}."
    if key_fields:
        fix += f" No row is lost without it: the column {RECORD_KEY} has the keys."
    return Finding.of("T006", evidence, paths=[PROPERTIES], fix=fix)


def _columns_of_keys(snapshot: Snapshot, sample: KeySample | None) -> list[str]:
    """Return the columns whose values are the keys of the first rows."""
    if sample is None or not sample.found:
        return []
    with suppress(BucketfmtError, pa.ArrowException):
        columns = [
            field.name
            for field in snapshot.schema.data
            if pa.types.is_string(field.type) or pa.types.is_integer(field.type)
        ]
        for rows in merged_rows(snapshot, sample.found[0][0], [RECORD_KEY, *columns]):
            if rows.num_rows:
                keys = rows.column(RECORD_KEY).combine_chunks().cast(pa.string())
                texts = {
                    name: java_strings(rows.column(name).combine_chunks()).cast(pa.string())
                    for name in columns
                }
                return [
                    name
                    for name, text in texts.items()
                    if not text.null_count and pc.all(pc.equal(text, keys)).as_py()
                ]
    return []
