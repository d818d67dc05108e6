"""The index kinds, key kinds, log kinds and services, each in a table of its own."""

from __future__ import annotations

import datetime as dt
import decimal

from recipes.lab import MOR, Lab
from recipes.registry import recipe

CONSISTENT = {
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "32",
}
_KEYGEN = "org.apache.hudi.keygen"
_PLAN = "org.apache.hudi.client.clustering.plan.strategy"
_RUN = "org.apache.hudi.client.clustering.run.strategy"
_UPDATE = "org.apache.hudi.client.clustering.update.strategy"
_CLUSTERING = "hoodie.clustering"
RESIZING = {
    f"{_CLUSTERING}.plan.strategy.class": f"{_PLAN}.SparkConsistentBucketClusteringPlanStrategy",
    f"{_CLUSTERING}.execution.strategy.class": (
        f"{_RUN}.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    f"{_CLUSTERING}.updates.strategy": f"{_UPDATE}.SparkConsistentBucketDuplicateUpdateStrategy",
}
NOW = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


@recipe()
def cow(lab: Lab, name: str) -> None:
    lab.write(lab.rows(0, 300, 1), name, "insert")
    lab.write(lab.rows(100, 200, 2, "u").union(lab.rows(300, 330, 2)), name, "upsert")
    lab.write(lab.rows(0, 20, 3), name, "delete")
    lab.expect(name)


@recipe()
def mor(lab: Lab, name: str) -> None:
    lab.write(lab.rows(0, 300, 1), name, "upsert", MOR)
    lab.write(lab.rows(100, 200, 2, "u").union(lab.rows(300, 330, 2)), name, "upsert", MOR)
    lab.write(lab.rows(0, 20, 3), name, "delete", MOR)
    late, later = lab.rows(120, 130, 0, "late"), lab.rows(130, 140, 5, "v")
    lab.write(late.union(later), name, "upsert", MOR)
    lab.expect_all(name)


@recipe()
def mor_compacted(lab: Lab, name: str) -> None:
    compact = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    lab.write(lab.rows(0, 300, 1), name, "upsert", MOR)
    lab.write(lab.rows(100, 200, 2, "u"), name, "upsert", {**MOR, **compact})
    lab.write(lab.rows(150, 250, 3, "w"), name, "upsert", MOR)
    lab.expect(name)


@recipe()
def ch_init(lab: Lab, name: str) -> None:
    lab.write(lab.rows(0, 300, 1), name, "upsert", {**MOR, **CONSISTENT})
    lab.write(lab.rows(100, 200, 2, "u"), name, "upsert", {**MOR, **CONSISTENT})
    lab.expect(name)


@recipe()
def ch_split(lab: Lab, name: str) -> None:
    tiny = {"hoodie.parquet.max.file.size": "20000", "hoodie.logfile.data.block.max.size": "10000"}
    options = {**MOR, **CONSISTENT, **tiny}
    lab.write(lab.rows(0, 4000, 1), name, "upsert", options)
    lab.write(lab.rows(0, 4000, 2, "u"), name, "upsert", {**options, **RESIZING, **NOW})
    lab.write(lab.rows(2000, 6000, 3, "v"), name, "upsert", options)
    lab.write(lab.rows(0, 200, 4, "w"), name, "upsert", {**options, **RESIZING, **NOW})
    lab.expect(name)


@recipe()
def complexkey(lab: Lab, name: str) -> None:
    options = {
        "hoodie.datasource.write.recordkey.field": "id,name",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.ComplexKeyGenerator",
    }
    if lab.version >= "1.1":
        options["hoodie.write.complex.keygen.new.encoding"] = "false"
    lab.write(lab.rows(0, 300, 1), name, "upsert", options)
    lab.write(lab.rows(100, 200, 2), name, "upsert", options)
    lab.expect(name)


@recipe()
def intkey(lab: Lab, name: str) -> None:
    schema = (
        "id long, v decimal(18,4), d date, t timestamp, tags array<string>, m map<string,int>, "
        "ts long, region string"
    )
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    rows = [
        (
            i - 150,
            decimal.Decimal(i) / 8,
            start.date() + dt.timedelta(days=i),
            start + dt.timedelta(seconds=i, microseconds=i),
            [f"a{i}", "b"] if i % 3 else None,
            {"x": i},
            1,
            None if i % 50 == 0 else "us/ca" if i % 2 else "eu",
        )
        for i in range(300)
    ]
    options = {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    lab.write(lab.frame(rows, schema), name, "upsert", options)
    lab.expect(name)


@recipe()
def nonpart(lab: Lab, name: str) -> None:
    keys = ["a", "ß", "日本語", "😀", "x,y", "x:y", "k:1,k2:2", " sp ace", "%2F", "/slash"]
    keys += ["__null__", "__empty__", "null", "tab\t", "A" * 300]
    rows = [(key, f"n{i}", 1.0, i, 1, "r") for i, key in enumerate(keys, 1)]
    options = {
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": f"{_KEYGEN}.NonpartitionedKeyGenerator",
    }
    lab.write(lab.frame(rows), name, "upsert", options)
    lab.expect(name)


@recipe()
def rli(lab: Lab, name: str) -> None:
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.bucket.index.num.buckets": None,
        "hoodie.metadata.record.index.min.filegroup.count": "3",
        "hoodie.record.index.min.filegroup.count": "3",
    }
    lab.write(lab.rows(0, 300, 1), name, "upsert", options)
    lab.write(lab.rows(100, 200, 2, "u").union(lab.rows(300, 330, 2)), name, "upsert", options)
    lab.write(lab.rows(0, 20, 3), name, "delete", options)
    lab.expect(name)


@recipe()
def bloom(lab: Lab, name: str) -> None:
    options = {"hoodie.index.type": "BLOOM", "hoodie.bucket.index.num.buckets": None}
    lab.write(lab.rows(0, 300, 1), name, "upsert", options)
    lab.write(lab.rows(100, 200, 2, "u"), name, "upsert", options)
    lab.expect(name)


@recipe()
def mdt_bucket(lab: Lab, name: str) -> None:
    metadata = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    lab.write(lab.rows(0, 300, 1), name, "upsert", {**MOR, **metadata})
    lab.write(lab.rows(100, 200, 2, "u"), name, "upsert", {**MOR, **metadata})
    lab.write(lab.rows(0, 20, 3), name, "delete", {**MOR, **metadata})
    lab.expect(name)


@recipe(since="1.1.0")
def partlevel(lab: Lab, name: str) -> None:
    options = {
        "hoodie.bucket.index.partition.expressions": "us,8;eu,2",
        "hoodie.bucket.index.partition.rule.type": "regex",
    }
    lab.write(lab.rows(0, 300, 1), name, "upsert", options)
    lab.write(lab.rows(100, 200, 2, "u"), name, "upsert", options)
    lab.expect(name)


@recipe()
def parquet_log(lab: Lab, name: str) -> None:
    options = {**MOR, "hoodie.logfile.data.block.format": "parquet"}
    lab.write(lab.rows(0, 300, 1), name, "upsert", options)
    lab.write(lab.rows(100, 200, 2, "u"), name, "upsert", options)
    lab.write(lab.rows(0, 20, 3), name, "delete", options)
    lab.expect(name)


@recipe()
@recipe("hfile_log_key", has_key_column=True)
def hfile_log(lab: Lab, name: str, *, has_key_column: bool = False) -> None:
    """Hudi's HFiles leave a column named `key` out. The reader of Hudi 1.2.0 in Spark fails."""
    options = {**MOR, "hoodie.logfile.data.block.format": "hfile"}
    for rows, operation in (
        (lab.rows(0, 300, 1), "upsert"),
        (lab.rows(100, 200, 2, "u"), "upsert"),
        (lab.rows(0, 20, 3), "delete"),
    ):
        own = rows.selectExpr("*", "concat('own-', id) as key") if has_key_column else rows
        lab.write(own, name, operation, options)
    lab.refused("the snapshot", lambda: lab.expect(name))


@recipe()
def cleaned(lab: Lab, name: str) -> None:
    services = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    lab.write(lab.rows(0, 300, 1), name, "upsert", {**MOR, **services})
    for ts in range(2, 9):
        data = lab.rows(ts * 10, ts * 10 + 50, ts, f"u{ts}")
        lab.write(data, name, "upsert", {**MOR, **services})
    lab.expect(name)
