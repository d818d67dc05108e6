"""Tables about services and writers: plans not yet run, many writers, changed bucket numbers."""

from __future__ import annotations

import threading

from recipes.basics import CONSISTENT, NOW, RESIZING
from recipes.lab import MOR, SMALL, Lab
from recipes.registry import recipe

_LOCKS = "org.apache.hudi.client.transaction.lock"


@recipe()
def pending_compaction(lab: Lab, name: str) -> None:
    """A compaction that is planned and not run, with log files before and after it."""
    options = {**SMALL, **MOR}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    lab.write(lab.rows(10, 20, 2, "u"), name, "upsert", options)
    now = "options => 'hoodie.compact.inline.max.delta.commits=1'"  # or it plans nothing
    lab.call("run_compaction", name, f"op => 'schedule', {now}")
    lab.write(lab.rows(15, 25, 3, "v").union(lab.rows(60, 70, 3)), name, "upsert", options)
    lab.write(lab.rows(0, 5, 4), name, "delete", options)
    lab.expect_all(name)
    lab.expect_as_of(name)


@recipe()
@recipe("clustered", run=True)
def pending_clustering(lab: Lab, name: str, run: bool = False) -> None:
    """A clustering is planned; the second table has it run. Bloom index: see the README."""
    options = {
        "hoodie.index.type": "BLOOM",
        "hoodie.bucket.index.num.buckets": None,
        "hoodie.index.bloom.num_entries": "200",
        "hoodie.parquet.small.file.limit": "0",  # so that each insert makes files
    }
    lab.write(lab.rows(0, 60, 1), name, "upsert", options)
    lab.write(lab.rows(50, 80, 2, "u"), name, "upsert", {**options, **(NOW if run else {})})
    if run:
        lab.write(lab.rows(75, 95, 3, "v"), name, "upsert", options)
    else:
        lab.call("run_clustering", name, "op => 'schedule'")
    lab.expect(name)
    lab.expect_as_of(name)


@recipe()
def ch_pending(lab: Lab, name: str) -> None:
    """Consistent hashing with a split planned and not run: later upserts go to both sides."""
    tiny = {"hoodie.parquet.max.file.size": "6000", "hoodie.logfile.data.block.max.size": "10000"}
    options = {**SMALL, **MOR, **CONSISTENT, **tiny}
    lab.write(lab.rows(0, 300, 1, regions=1), name, "upsert", options)
    compact = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    lab.write(lab.rows(0, 300, 2, "c", regions=1), name, "upsert", {**options, **compact})
    plan = {
        "hoodie.clustering.schedule.inline": "true",
        "hoodie.clustering.inline.max.commits": "1",
    }
    lab.write(lab.rows(0, 40, 3, "u", regions=1), name, "upsert", {**options, **RESIZING, **plan})
    dual = {**options, **RESIZING}
    lab.write(lab.rows(20, 60, 4, "v", regions=1), name, "upsert", dual)
    lab.write(lab.rows(300, 330, 5, "w", regions=1), name, "upsert", dual)
    lab.expect_all(name)


@recipe(since="1.0.0")
def nbcc(lab: Lab, name: str) -> None:
    """Non-blocking concurrency control: fixed file ids, log files only, two writers at a time."""
    options = {
        **SMALL,
        **MOR,
        "hoodie.table.type": "MERGE_ON_READ",  # the check of the mode looks at this one
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": f"{_LOCKS}.InProcessLockProvider",
        "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    }
    lab.write(lab.rows(0, 60, 1), name, "upsert", options)
    writers = [
        threading.Thread(target=lab.write, args=(data, name, "upsert", options))
        for data in (lab.rows(10, 40, 3, "first"), lab.rows(30, 70, 2, "second"))
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lab.write(lab.rows(0, 8, 5), name, "delete", options)
    lab.expect_all(name)
    lab.expect_as_of(name)


@recipe(since="1.1.0")
def partrules(lab: Lab, name: str) -> None:
    """Numbers of buckets changed per partition by the procedure: it rewrites the partitions."""
    lab.write(lab.rows(0, 90, 1), name, "upsert", SMALL)
    with lab.catalogued(name):
        for rule in ("us,4;eu,3", "us,1;ap,5"):
            lab.sql(
                f"call partition_bucket_index_manager(table => '{name}', overwrite => '{rule}', "
                "rule => 'regex', bucket_number => 2, dry_run => false)"
            ).collect()
    lab.write(lab.rows(30, 60, 2, "u").union(lab.rows(90, 120, 2)), name, "upsert", SMALL)
    lab.expect(name)
    lab.expect_as_of(name)


@recipe()
def bucket_bulk(lab: Lab, name: str) -> None:
    """bulk_insert by the row writer, whose file ids lack the suffix; upserts add logs."""
    options = {**SMALL, **MOR, "hoodie.datasource.write.row.writer.enable": "true"}
    lab.write(lab.rows(0, 90, 1), name, "bulk_insert", options)
    lab.write(lab.rows(30, 60, 2, "u").union(lab.rows(90, 100, 2)), name, "upsert", options)
    lab.write(lab.rows(0, 10, 3), name, "delete", options)
    lab.expect_all(name)


@recipe()
def log_compacted_twice(lab: Lab, name: str) -> None:
    """Log compactions of a slice, the later of which cover the earlier ones' blocks."""
    options = {
        **SMALL,
        **MOR,
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    }
    lab.write(lab.rows(0, 20, 1), name, "upsert", options)
    for ts in range(2, 9):
        lab.write(lab.rows(ts, ts + 8, ts, f"u{ts}"), name, "upsert", options)
    lab.expect_all(name)


@recipe()
def dropped_column(lab: Lab, name: str) -> None:
    """The partition column is in no file: its values are those of the paths."""
    options = {**SMALL, "hoodie.datasource.write.drop.partition.columns": "true"}
    lab.write(lab.rows(0, 30, 1), name, "upsert", options)
    lab.write(lab.rows(20, 40, 2, "u"), name, "upsert", options)
    lab.expect_all(name)
