"""Is hoodie.properties whole, and no update of it half done? T006. I/O, read only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from bucketfmt.check.examined import event_of_error
from bucketfmt.check.report import Event, Finding
from bucketfmt.errors import (
    BucketfmtError,
    IndexUnknownError,
    NotFoundError,
    UnsupportedError,
)
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.names.layout import PROPERTIES
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import list_properties_updates, load_config_of_file

__all__ = ["find_unknown_fields", "load_properties_faults"]

_UPDATING = timedelta(minutes=10)  # an update takes seconds


def load_properties_faults(store: Store, limits: Limits, now: datetime) -> Iterator[Event]:
    """Yield T006 for properties that do not decode and for what an update left behind."""
    try:
        config = load_config_of_file(store, PROPERTIES, limits)
        if config.create_schema is not None:
            parse_avro_schema(config.create_schema, limits)
        with suppress(IndexUnknownError, UnsupportedError):  # told of the index
            IndexSettings.from_properties(config.properties, limits)
    except NotFoundError:
        yield Finding.of("T006", "the file is missing; its backup was read", paths=[PROPERTIES])
    except BucketfmtError as error:
        yield event_of_error(error.within(path=PROPERTIES), "T006", PROPERTIES)
    for entry in list_properties_updates(store):
        changed = entry.modified
        if changed is not None:
            age = now - datetime.fromtimestamp(changed, timezone.utc)
            if timedelta(0) <= age < _UPDATING:
                continue  # somebody may be at it
        yield Finding.of(
            "T006",
            "an update of the properties was not finished: this file is left",
            paths=[entry.path],
            severity="warning",
        )


def find_unknown_fields(config: TableConfig, columns: pa.Schema) -> Iterator[Finding]:
    """Yield T006 where keys or partitions are of columns that the table has not."""
    rows = columns.empty_table()
    fields = dict.fromkeys((*config.record_key_fields, *config.partition_fields))
    unknown = [field for field in fields if find_column(rows, field) is None]
    if unknown:
        yield Finding.of(
            "T006",
            f"keys or partitions are of {', '.join(unknown)}, which the table has no column for",
            paths=[PROPERTIES],
        )
