"""Tables with a metadata table, and what Hudi reads of it: _expected/NAME_metadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from recipes.history import FAILING
from recipes.lab import MOR, SMALL, SQL, Lab
from pyspark.sql import DataFrame
from recipes.registry import recipe

_ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
_LOCKS = "org.apache.hudi.client.transaction.lock"
_RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.bucket.index.num.buckets": None,
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.record.index.min.filegroup.count": "3",
}
_TYPES = (
    "id string, n {n}, f float, d double, c decimal(18,4), big decimal(30,10), day date, "
    "at timestamp, flag boolean, word string, raw binary, s struct<a:int,b:string>, "
    "items array<int>, {more}ts long, region string"
)
_WORDS = ("z", "éa", "日本", "\uffee", "😀", "", "a" * 100, "Z")


def _typed_rows(keys: Iterable[int], ts: int, added: bool = False) -> list[tuple]:
    def row(i: int) -> tuple:
        at = dt.datetime(1969, 12, 31, 23, tzinfo=dt.timezone.utc) + dt.timedelta(
            minutes=i, microseconds=i
        )
        values = (
            i * 3 + ts,
            float("nan") if i % 11 == 3 else i / 4,
            None if i % 5 == 1 else -i / 3,
            Decimal(i - 20) / 8,
            Decimal(i * 10**12 - 20) / 16,
            dt.date(1969, 12, 20) + dt.timedelta(days=i),
            at,
            i % 3 == 0,
            _WORDS[i % len(_WORDS)] + str(i // len(_WORDS)),
            bytes([255 - i % 200, i % 7]),
            (i, f"b{i}") if i % 4 else None,
            [i, i + 1],
        )
        nulls = i % 13 == 12
        kept = tuple(None if nulls else value for value in values)
        region = "us" if i < 24 else "eu" if i < 48 else "ap"
        return (f"key-{i:03d}", *kept, *((f"new{i}",) if added else ()), ts, region)

    return [row(i) for i in keys]


@recipe()
@recipe("mdt_types_mor", merge_on_read=True)
def mdt_types(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Statistics of columns of every type; a column is widened and another one added."""
    options = {**SMALL, **_ON, **(MOR if merge_on_read else {})}
    narrow, wide = _TYPES.format(n="int", more=""), _TYPES.format(n="long", more="added string, ")

    def upsert(keys: range, ts: int, schema: str) -> None:
        rows = _typed_rows(keys, ts, schema is wide)
        lab.write(lab.frame(rows, schema), name, "upsert", options)

    upsert(range(60), 1, narrow)
    upsert(range(4, 10), 2, narrow)
    lab.write(lab.frame(_typed_rows(range(3), 3), narrow), name, "delete", options)
    upsert(range(40, 70), 4, wide)
    upsert(range(20, 22), 5, wide)
    lab.expect(name)
    lab.refused("reading decimals of the metadata table", lambda: lab.expect_metadata(name))


@recipe()
def mdt_services(lab: Lab, name: str) -> None:
    """All services beside a metadata table with every kind of partition, secondary ones too."""
    options = {
        **MOR,
        **_ON,
        **_RECORD_INDEX,
        # With RECORD_INDEX Hudi 1.2.0 fails in partition_stats once `files` is compacted.
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.bloom.index.filter.dynamic.max.entries": "200",
    }
    lab.write(lab.rows(0, 30, 1), name, "upsert", options)
    lab.write(lab.rows(10, 16, 2, "u").union(lab.rows(30, 36, 2)), name, "upsert", options)
    if lab.layout == 2:
        locks = {
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.write.lock.provider": f"{_LOCKS}.InProcessLockProvider",
            "hoodie.clean.failed.writes.policy": "LAZY",
        }
        given = {**SQL, **options, **locks}
        settings = {key: value for key, value in given.items() if value is not None}
        with lab.catalogued(name), lab.settings(settings):
            for statement in (
                f"create index by_name on {name} (name)",
                f"create index by_day on {name} using column_stats (ts) "
                "options (expr='from_unixtime', format='yyyy-MM-dd')",
                f"create index of_word on {name} using bloom_filters (name) options (expr='lower')",
            ):
                lab.refused(statement, lambda text=statement: lab.sql(text).collect())
    lab.write(lab.rows(0, 6, 3), name, "delete", options)
    failing = {**options, **FAILING}
    if not lab.refused(
        "the write meant to fail",
        lambda: lab.write(lab.rows(5, 40, 4, "bad"), name, "upsert", failing),
    ):
        raise RuntimeError("the write meant to fail was completed")
    lab.write(lab.rows(12, 20, 5, "v"), name, "upsert", options)
    compact = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    lab.write(lab.rows(18, 24, 6, "w"), name, "upsert", {**options, **compact})
    gone = {**options, "hoodie.datasource.write.partitions.to.delete": "eu"}
    us = lab.rows(0, 40, 8, "o").where("region = 'us'")
    # Hudi 1.0 refuses both beside a secondary index.
    lab.refused(
        "delete_partition",
        lambda: lab.write(lab.rows(0, 0, 7), name, "delete_partition", gone),
    )
    lab.refused("insert_overwrite", lambda: lab.write(us, name, "insert_overwrite", options))
    kept = {
        **options,
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    lab.write(lab.rows(20, 23, 9, "x"), name, "upsert", {**kept, **compact})
    lab.write(lab.rows(22, 24, 10, "y"), name, "upsert", kept)
    lab.write(lab.rows(40, 46, 11), name, "upsert", kept)
    lab.write(lab.rows(42, 44, 12), name, "delete", kept)
    lab.expect(name)
    lab.expect_metadata(name)


@recipe()
@recipe("mdt_keys_by_partition", since="1.2.0", partitioned=True)
def mdt_nonpart(lab: Lab, name: str, partitioned: bool = False) -> None:
    """No partitions; or a record index with file groups for each partition."""
    options = {**_ON, **_RECORD_INDEX, "hoodie.parquet.bloom.filter.enabled": "false"}
    if partitioned:
        options |= {
            "hoodie.index.type": "RECORD_LEVEL_INDEX",
            "hoodie.metadata.record.index.enable": "false",
            "hoodie.metadata.record.level.index.enable": "true",
            "hoodie.metadata.record.level.index.min.filegroup.count": "2",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.metadata.compact.max.delta.commits": "10",
            # Hudi 1.2.0 fails in partition_stats beside a record index.
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.metadata.index.partition.stats.enable": "false",
        }
    else:
        options |= {
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": (
                "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
            ),
        }
    lab.write(lab.rows(0, 30, 1), name, "upsert", options)
    lab.write(lab.rows(10, 16, 2, "u").union(lab.rows(30, 36, 2)), name, "upsert", options)
    lab.write(lab.rows(0, 6, 3), name, "delete", options)
    lab.expect(name)
    lab.expect_metadata(name)


@recipe(since="1.2.0")
@recipe("mdt_secondary_mor", since="1.0.2", until="1.0.2", merge_on_read=True)
def mdt_secondary(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Secondary indexes of text and of numbers: values to escape, equal ones, updates, deletes."""
    options = {
        **_ON,
        **_RECORD_INDEX,
        **(MOR if merge_on_read else {}),
        "hoodie.parquet.bloom.filter.enabled": "false",
        # Hudi 1.2.0 fails in partition_stats beside a record index.
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.metadata.compact.max.delta.commits": "20",
    }
    # Hudi 1.0 fails in the update of a row whose indexed column is null.
    words = ("a$b", "c\\d", "e\\$f", "", "ü", "z", "z", None if lab.version >= "1.1" else "n")

    def rows(low: int, high: int, ts: int, shift: int = 0) -> DataFrame:
        return lab.frame(
            (f"key${i:03d}", words[(i + shift) % 8], i * 1.5, i % 5, ts, ("us", "eu")[i % 2])
            for i in range(low, high)
        )

    lab.write(rows(0, 24, 1), name, "upsert", options)
    locks = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": f"{_LOCKS}.InProcessLockProvider",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    given = {**SQL, **options, **locks}
    with lab.catalogued(name), lab.settings({k: v for k, v in given.items() if v is not None}):
        lab.sql(f"create index by_name on {name} (name)").collect()
        lab.sql(f"create index by_qty on {name} (qty)").collect()
    lab.write(rows(4, 12, 2, 1), name, "upsert", options)
    lab.write(rows(22, 30, 3), name, "upsert", options)
    lab.write(rows(0, 3, 4), name, "delete", options)
    lab.expect(name)
    lab.refused("reading the metadata table", lambda: lab.expect_metadata(name))


@recipe(since="1.0.2")
def mdt_expression(lab: Lab, name: str) -> None:
    """Expression indexes: bounds of days, and bloom filters of names in lower case."""
    options = {
        **_ON,
        **SMALL,
        # CREATE INDEX takes the lock.
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": f"{_LOCKS}.InProcessLockProvider",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.metadata.compact.max.delta.commits": "20",
        # With a bucket index, CREATE INDEX ends in a NullPointerException where no option has this.
        "hoodie.datasource.write.recordkey.field": "id",
    }
    day = 86_400
    lab.write(lab.rows(0, 8, day), name, "upsert", options)
    lab.write(lab.rows(3, 5, 9 * day, "Ü"), name, "upsert", options)
    with lab.catalogued(name), lab.settings({**SQL, **options}):
        as_day = "options(expr='from_unixtime', format='yyyy-MM-dd')"
        lab.sql(f"create index by_day on {name} using column_stats(ts) {as_day}").collect()
        # Hudi 1.2.0 fails with a NullPointerException where the column has a null.
        in_lower_case = "options(expr='lower')"
        lab.sql(f"create index by_name on {name} using bloom_filters(name) {in_lower_case}")
    if lab.version < "1.1":  # Hudi 1.2.0 fails in the next write
        lab.write(lab.rows(4, 6, 20 * day, "ß"), name, "upsert", options)
    lab.expect(name)
    lab.refused("reading the metadata table", lambda: lab.expect_metadata(name))
