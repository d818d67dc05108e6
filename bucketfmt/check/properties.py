"""Is hoodie.properties whole, and no update of it half done? T006. I/O, read only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from bucketfmt.format.table.table_config import MergeMode, TableConfig
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import list_properties_updates, load_config_of_file

__all__ = ["find_lost_fields", "find_unknown_fields", "load_properties_faults"]

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
    yield from _find_cut(store, limits)
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


def _find_cut(store: Store, limits: Limits) -> Iterator[Finding]:
    """Yield T006 where the last line has no end: Java and bucketfmt end each line.

    The checksum is of the name of the table alone, and does not tell that lines are lost.
    """
    try:
        data = store.read(PROPERTIES, limits.properties_bytes_max)
    except BucketfmtError:
        return  # told by who decodes it
    if data and not data.endswith((b"\n", b"\r")):
        yield Finding.of(
            "T006",
            "the last line has no end: the file may be cut, and its last properties lost",
            paths=[PROPERTIES],
            severity="warning",
            fix="Stop the writers and compare the file with hoodie.properties.backup, or with a "
            "copy of the table. If nothing is lost, as where the file was edited by hand, end its "
            "last line.",
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


def find_lost_fields(config: TableConfig, partition_paths: Sequence[str]) -> Iterator[Finding]:
    """Yield T006 where partitions, or the merge mode, tell of fields that are not stated.

    Source: `HoodieTableConfig.inferCorrectMergingBehavior`, which warns of the ordering fields.

    Args:
        config: What the table states.
        partition_paths: The partitions that it has.
    """
    inner = [path for path in partition_paths if path]
    if inner and config.is_unpartitioned:
        more = f" and {len(inner) - 1} more" if len(inner) > 1 else ""
        yield Finding.of(
            "T006",
            f"hoodie.table.partition.fields is missing, and the table has the partition "
            f"{inner[0]!r}{more}",
            paths=[PROPERTIES],
            fix="Stop the writers and put the line hoodie.table.partition.fields= with the "
            f"partition columns back into {PROPERTIES}. No row is lost without it, but writers "
            "that go by it put rows into the root of the table, beside the rows they replace.",
        )
    stated = config.properties.get("hoodie.record.merge.mode")
    if stated == MergeMode.EVENT_TIME_ORDERING.value and not config.ordering_fields:
        yield Finding.of(
            "T006",
            "hoodie.record.merge.mode is EVENT_TIME_ORDERING, and no ordering field is stated: of "
            "the rows of a key the one that was written last is read",
            paths=[PROPERTIES],
            severity="warning",
            fix="Stop the writers and put the line hoodie.table.ordering.fields= (until table "
            "version 8 hoodie.table.precombine.field=) with the ordering columns back into "
            f"{PROPERTIES}; or state COMMIT_TIME_ORDERING if the table never had any.",
        )
