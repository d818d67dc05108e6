"""Contents of reports on tables that nobody wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.check.report import CheckReport, Finding
from bucketfmt.index.numbered_buckets import SimpleBucketIndex
from bucketfmt.report.contents import ReportContents
from bucketfmt.resize.advice import PartitionFigures, TableFigures, plan_advice
from bucketfmt.resize.growth import Growth, SizeAt

__all__ = ["made_contents"]

MIB = 1 << 20
BEGIN = datetime(2026, 5, 1)
HOT = 5
"""The bucket with more rows than the others."""


def instant(hours: float) -> str:
    """Return an instant so long after the first."""
    return (BEGIN + timedelta(hours=hours)).strftime("%Y%m%d%H%M%S") + "000"


def made_contents(
    partitions: Sequence[str] | int = 4,
    buckets: int = 8,
    *,
    name: str = "trips",
    findings: Sequence[Finding] = (),
    columns: Sequence[tuple[str, str]] = (("id", "string"), ("fare", "double")),
    file_id: str = "{bucket:08d}-aaaa-4000-8000-{number:012d}-0",
) -> ReportContents:
    """Return the contents of a report on a merge-on-read table.

    Sizes grow from partition to partition; bucket 5 is large, and the last of each is empty. Half
    of the partitions have log files.

    Args:
        partitions: Their paths, or how many days there are.
        buckets: Of each partition.
        name: Of the table.
        findings: Of its check.
        columns: Of the table.
        file_id: The form of file ids.
    """
    if isinstance(partitions, int):
        days = (BEGIN + timedelta(days=day) for day in range(partitions))
        partitions = [f"day={day:%Y-%m-%d}" for day in days]
    number = len(partitions) * buckets
    partition = np.repeat(np.arange(len(partitions)), buckets)
    bucket = np.tile(np.arange(buckets), len(partitions))
    spread = np.random.default_rng(7).lognormal(0, 0.2, number)
    base = (np.where(bucket == HOT, 3, 1) * (partition + 2) * 4 * MIB * spread).astype(np.int64)
    log_files = np.where(partition % 2 == 1, bucket % 4, 0)
    log_sizes = log_files * MIB
    is_there = bucket != buckets - 1

    def of_groups(values: np.ndarray[Any, Any]) -> pa.Array:
        return pa.array(values.astype(np.int64), mask=~is_there)

    ids = [
        file_id.format(bucket=each, number=at) if there else None
        for at, (each, there) in enumerate(zip(bucket, is_there, strict=True))
    ]
    file_groups = pa.table(
        {
            "partition_path": [partitions[at] for at in partition],
            "file_id": ids,
            "bucket_id": pa.array(bucket, pa.int32()),
            "base_instant": [
                instant(12 * (at % 6)) if there else None
                for at, there in zip(bucket.tolist(), is_there.tolist(), strict=True)
            ],
            "base_size": of_groups(base),
            "base_rows": of_groups(base // 100),
            "log_files": of_groups(log_files),
            "log_size": of_groups(log_sizes),
        }
    )
    every_log = int(log_files[is_there].sum())
    files = {
        "kind": ["base"] * int(is_there.sum()) + ["log"] * every_log,
        "size": np.concatenate([base[is_there], np.full(every_log, MIB)]),
    }
    size = np.where(is_there, base + log_sizes, 0)
    figures = tuple(
        PartitionFigures(
            path,
            buckets,
            tuple(size[at * buckets : (at + 1) * buckets].tolist()),
            int(log_sizes[at * buckets : (at + 1) * buckets].sum()),
            Growth(3e6, 3e4),
        )
        for at, path in enumerate(partitions)
    )
    hours = [*range(0, 60, 6), 200, 206, 212]
    times = [instant(hour) for hour in hours]
    sizes = [SizeAt(time, int(size.sum()) * (at + 5) // 17) for at, time in enumerate(times)]
    return ReportContents(
        name=name,
        facts={
            "table": name,
            "uri": f"s3://lake/{name}",
            "type": "MERGE_ON_READ",
            "record key": columns[0][0],
            "partitioned by": "day",
            "index": f"SimpleBucketIndex(num_buckets={buckets})",
            "size": int(size.sum()),
            "last instant": times[-1],
        },
        columns=tuple(columns),
        check=CheckReport(
            "findings" if findings else "clean",
            "default",
            {"file groups": int(is_there.sum()), "partitions": len(partitions)},
            ("keys: not asked for",),
            tuple(findings),
        ),
        advice=plan_advice(
            TableFigures(
                f"s3://lake/{name}", SimpleBucketIndex(buckets), "MERGE_ON_READ", 9, 9.0, figures
            )
        ),
        file_groups=file_groups,
        files=pa.table(files),
        commits=pa.table(
            {
                "requested_time": [*times, instant(214)],
                "completion_time": [*(instant(hour + 1) for hour in hours), None],
                "action": ["deltacommit" if at % 3 else "commit" for at in range(len(hours))]
                + ["compaction"],
                "state": ["COMPLETED"] * len(hours) + ["REQUESTED"],
                "operation_type": [*["UPSERT"] * len(hours), None],
                "files": pa.array([*range(len(hours)), None], pa.int64()),
                "bytes": pa.array([*(MIB << (hour % 5) for hour in hours), None], pa.int64()),
            }
        ),
        sizes=tuple(sizes),
        unreadable=(),
        made_at=instant(300),
    )
