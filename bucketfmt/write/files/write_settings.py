"""What a write says of all its files, and what it knows of each file that is written. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from bucketfmt.choices import Codec, DataFormat
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.write.commit.receipts import RowReport

__all__ = ["Deletes", "RowNumbering", "WriteSettings", "WrittenFile"]


@dataclass(frozen=True)
class WriteSettings:
    """What all files of one write have in common.

    Attributes:
        instant: Its requested time.
        schema: The table's columns as the write leaves them.
        avro_schema: The same as Avro JSON, Hudi's columns included.
        rules: How records merge.
        combine: Of several rows with one key only the one that stands is written.
        codec: Of base files and parquet blocks; None: as the table's files have it.
        log_format: Of data blocks.
        is_non_blocking: Others may log to the same buckets, so that no slice is rewritten.
        reports_keys: Whoever commits is told the keys, which are many: in this process alone.
        keeps_keys_in_base: Each key that a log has is in the base file below, which tells where
            the key is.
        orders_deletes: Deletes in logs have ordering values.
    """

    instant: str
    schema: TableSchema
    avro_schema: str
    rules: MergeRules
    combine: bool = True
    codec: Codec | None = None
    log_format: DataFormat = "avro"
    is_non_blocking: bool = False
    reports_keys: bool = True
    keeps_keys_in_base: bool = False
    orders_deletes: bool = True


@dataclass(frozen=True)
class Deletes:
    """Keys to delete, whatever their rows are.

    Attributes:
        record_keys: Each once.
        rows: The rows as they are, where deletes are to have their ordering values.
    """

    record_keys: pa.ChunkedArray = field(repr=False)
    rows: pa.Table | None = field(repr=False, default=None)


class RowNumbering(NamedTuple):
    """Where the sequence numbers of a file's rows begin: they are distinct within an instant.

    Attributes:
        task_partition_id: Of the task that writes the file.
        first_row: How many rows the task has written before.
    """

    task_partition_id: int
    first_row: int = 0


class WrittenFile(NamedTuple):
    """A file of one write.

    Attributes:
        stat: What the commit says of the file.
        report: What the metadata table is told of its rows; None if there is no metadata table.
    """

    stat: WriteStat
    report: RowReport | None
