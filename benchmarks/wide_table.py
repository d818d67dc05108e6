"""A table of 20,000 file groups, small and complete: what a lookup has to find its way in.

Hudi takes hours for a table of so many buckets, so this one is laid out here: parquet base files
with Hudi's meta columns, and one completed commit that names them all.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bucketfmt.format.keys.hashing_kernels import bucket_ids
from bucketfmt.format.names.names import BaseFileName, format_bucket_file_id
from bucketfmt.format.table.properties import (
    PartitionMetadata,
    encode_partition_metadata,
    encode_properties,
    table_checksum,
)
from bucketfmt.format.timeline.commit_metadata import (
    NULL_COMMIT,
    CommitMetadata,
    WriteStat,
    encode_commit_metadata_avro,
)
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json

__all__ = ["BUCKETS", "ROWS", "make_wide_table", "wide_key"]

BUCKETS = 20_000
ROWS = 400_000
_REQUESTED, _COMPLETED = "20260101000000000", "20260101000100000"
_PROPERTIES = {
    "hoodie.table.name": "wide",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "9",
    "hoodie.table.initial.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "",
    "hoodie.table.keygenerator.type": "NON_PARTITION",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.populate.meta.fields": "true",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.table.checksum": str(table_checksum("wide")),
}


def wide_key(row: int) -> str:
    """Return the record key of a row."""
    return hashlib.md5(str(row).encode()).hexdigest()


def make_wide_table(path: Path) -> None:
    """Write the table; hoodie.properties comes last, so that half a table is none."""
    rows = _rows()
    buckets = bucket_ids([rows.column("_hoodie_record_key")], BUCKETS)
    order = np.argsort(buckets, kind="stable")
    rows = rows.take(pa.array(order)).combine_chunks()
    bounds = np.searchsorted(buckets[order], np.arange(BUCKETS + 1)).tolist()
    path.mkdir(parents=True)
    stats = [
        _write_bucket(path, bucket, rows.slice(bounds[bucket], bounds[bucket + 1] - bounds[bucket]))
        for bucket in range(BUCKETS)
    ]
    user_columns = pa.schema([field for field in rows.schema if not field.name.startswith("_")])
    schema = avro_schema_json(user_columns, "wide_record", "hoodie.wide")
    metadata = CommitMetadata(
        partition_to_write_stats={"": stats},
        extra_metadata={"schema": schema},
        operation_type="BULK_INSERT",
    )
    timeline = path / ".hoodie" / "timeline"
    (timeline / "history").mkdir(parents=True)
    (timeline / f"{_REQUESTED}.commit.requested").touch()
    (timeline / f"{_REQUESTED}.inflight").touch()
    commit = encode_commit_metadata_avro(metadata, replace=False)
    (timeline / f"{_REQUESTED}_{_COMPLETED}.commit").write_bytes(commit)
    partition = encode_partition_metadata(PartitionMetadata(_REQUESTED, 0))
    (path / ".hoodie_partition_metadata").write_bytes(partition)
    (path / ".hoodie" / "hoodie.properties").write_bytes(encode_properties(_PROPERTIES))


def _rows() -> pa.Table:
    number = np.arange(ROWS)
    keys = pa.array([wide_key(row) for row in range(ROWS)])
    texts = {
        "_hoodie_commit_time": pa.repeat(_REQUESTED, ROWS),
        "_hoodie_commit_seqno": pa.array([f"{_REQUESTED}_0_{row}" for row in range(ROWS)]),
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": pa.repeat("", ROWS),
        "_hoodie_file_name": pa.repeat("", ROWS),
    }
    columns = {
        "id": keys,
        "name": pa.array([f"name-{row % 9973}" for row in range(ROWS)]),
        "price": pa.array(number % 1_000_003 / 100),
        "qty": pa.array(number % 1000, pa.int32()),
        "day": pa.repeat(pa.scalar(date(2026, 1, 1)), ROWS),
        "ts": pa.array(number),
    }
    return pa.table({**texts, **columns})


def _write_bucket(path: Path, bucket: int, rows: pa.Table) -> WriteStat:
    file_id = format_bucket_file_id(bucket, str(uuid.UUID(int=bucket)))
    name = str(BaseFileName(file_id, f"{bucket}-1-{bucket}", _REQUESTED, "parquet"))
    names = pa.repeat(name, rows.num_rows)
    rows = rows.set_column(4, "_hoodie_file_name", names)
    pq.write_table(rows, path / name, compression="snappy")
    return WriteStat(
        file_id=file_id,
        path=name,
        prev_commit=NULL_COMMIT,
        num_writes=rows.num_rows,
        num_inserts=rows.num_rows,
        partition_path="",
        file_size_in_bytes=(path / name).stat().st_size,
        total_write_bytes=(path / name).stat().st_size,
    )
