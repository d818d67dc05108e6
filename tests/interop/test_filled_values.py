"""Tables that fill values of a record from the one it wins over: Hudi and we write in turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.rotation import seed

pytestmark = pytest.mark.judge

MODEL = "org.apache.hudi.common.model."
POSTGRES = "debezium.PostgresDebeziumAvroPayload"
UNKNOWN = "__debezium_unavailable_value"
COLUMNS = [
    ("id", pa.string()),
    ("part", pa.string()),
    ("a", pa.int32()),
    ("b", pa.string()),
    ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ("l", pa.list_(pa.int64())),
    ("ts", pa.int64()),
]
MARKED = pa.schema([*COLUMNS, ("_hoodie_is_deleted", pa.bool_())])
CAPTURED = pa.schema(
    [*COLUMNS, ("_change_operation_type", pa.string()), ("_event_lsn", pa.int64())]
)
ALONE = bf.WriterConfig(services=None)
CASES = [
    ("0.15.0", "PartialUpdateAvroPayload"),
    ("0.15.0", "OverwriteNonDefaultsWithLatestAvroPayload"),
    ("1.0.2", "PartialUpdateAvroPayload"),
    ("1.2.0", "PartialUpdateAvroPayload"),
    ("1.2.0", "OverwriteNonDefaultsWithLatestAvroPayload"),
    ("1.2.0", POSTGRES),
]


def options(payload: str, table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "_event_lsn" if payload == POSTGRES else "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.payload.class": MODEL + payload,
        "hoodie.compaction.payload.class": MODEL + payload,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.datasource.write.operation": "upsert",
    }


def draw_rows(random: Random, keys: list[int], payload: str, tag: int) -> pa.Table:
    """Rows in which about half of the values are unknown."""

    def unless(value: Any, unknown: Any = None) -> Any:
        return random.choice([unknown, value])

    found = []
    for key in keys:
        ts = random.choice((1, 5, 5, 6, 9))
        row = {
            "id": f"k{key}",
            "part": "pq"[key % 2],
            "a": unless(tag * 100 + key),
            "b": random.choice([None, UNKNOWN, f"b{tag}"])
            if payload == POSTGRES
            else unless(f"b{tag}"),
            "s": unless({"x": unless(tag), "y": "y"}),
            "l": unless([tag, key]),
            "ts": ts,
        }
        if payload == POSTGRES:
            row |= {"_event_lsn": ts, "_change_operation_type": random.choice("cuuud")}
        else:
            row["_hoodie_is_deleted"] = tag > 0 and random.random() < 0.1
        found.append(row)
    return pa.Table.from_pylist(found, schema=CAPTURED if payload == POSTGRES else MARKED)


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("version", "payload"), CASES)
def test_both_fill_alike(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    version: str,
    payload: str,
    table_type: str,
) -> None:
    session, random, uri = hudi(version), Random(seed()), str(tmp_path / "t")
    given = options(payload, table_type)
    session.write(uri, draw_rows(random, [*range(10)], payload, 0), given)

    def ours() -> bf.Table:
        return bf.open(uri, index=bf.SimpleBucketIndex(2), writer=ALONE)

    def compare() -> None:
        names = [name for name, _ in COLUMNS]
        found = ours().scan(columns=[*names, "_hoodie_commit_time"]).to_arrow()
        theirs = session.read(uri).select(found.schema.names)
        by_key = [sorted(t.to_pylist(), key=lambda row: str(row["id"])) for t in (found, theirs)]
        assert by_key[0] == by_key[1]

    compare()
    for tag in range(1, 6):
        keys = [random.randrange(12) for _ in range(6)]  # some of them twice
        rows = draw_rows(random, keys, payload, tag)
        if tag % 2:
            ours().upsert(rows)
        else:
            session.write(uri, rows, given)
        compare()
    if table_type == "MERGE_ON_READ":
        ours().compact()
        compare()
    session.write(uri, draw_rows(random, [*range(5)], payload, 9), given)
    compare()
