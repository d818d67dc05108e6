"""Tables about the timeline: overwrites, time travel, rollbacks, savepoints."""

from __future__ import annotations

from recipes.lab import MOR, SMALL, Lab
from recipes.registry import recipe

_VALIDATORS = "org.apache.hudi.client.validator"
FAILING = {
    "hoodie.precommit.validators": f"{_VALIDATORS}.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}
"""Makes a write fail after its data files are written and before it is completed."""


@recipe()
@recipe("overwritten_mor", merge_on_read=True)
def overwritten(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """insert_overwrite, delete_partition and insert_overwrite_table between upserts."""
    options = {**SMALL, **(MOR if merge_on_read else {})}
    us = "region = 'us'"
    lab.write(lab.rows(0, 60, 1), name, "upsert", options)
    lab.write(lab.rows(20, 30, 2, "u"), name, "upsert", options)
    lab.write(lab.rows(0, 40, 3, "o").where(us), name, "insert_overwrite", options)
    lab.write(lab.rows(10, 50, 4, "v").where(us), name, "upsert", options)
    gone = {**options, "hoodie.datasource.write.partitions.to.delete": "eu"}
    lab.write(lab.rows(0, 0, 5), name, "delete_partition", gone)
    lab.write(lab.rows(50, 56, 6, "w"), name, "upsert", options)
    lab.write(lab.rows(100, 140, 7, "t"), name, "insert_overwrite_table", options)
    lab.write(lab.rows(130, 150, 8, "x"), name, "upsert", options)
    lab.expect_all(name)
    lab.expect_as_of(name)
    lab.expect_incremental(name)


@recipe()
@recipe("timetravel_mor", merge_on_read=True)
def timetravel(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Five commits with a delete among them; what Hudi reads as of each, and between them."""
    options = {**SMALL, **(MOR if merge_on_read else {})}
    lab.write(lab.rows(0, 60, 1), name, "upsert", options)
    lab.write(lab.rows(20, 40, 2, "b").union(lab.rows(60, 66, 2)), name, "upsert", options)
    lab.write(lab.rows(0, 6, 3), name, "delete", options)
    lab.write(lab.rows(30, 35, 0, "late").union(lab.rows(3, 9, 4, "d")), name, "upsert", options)
    lab.write(lab.rows(35, 50, 5, "e"), name, "upsert", options)
    lab.expect_all(name)
    lab.expect_as_of(name)
    lab.expect_incremental(name)


@recipe()
@recipe("rolledback_mor", merge_on_read=True)
@recipe("uncommitted", repaired=False)
@recipe("uncommitted_mor", merge_on_read=True, repaired=False)
def rolledback(lab: Lab, name: str, merge_on_read: bool = False, repaired: bool = True) -> None:
    """A write that failed with its files written; then rolled back by the next one, or not."""
    options = {**SMALL, **(MOR if merge_on_read else {})}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    lab.write(lab.rows(10, 20, 2, "u"), name, "upsert", options)
    failing = {**options, **FAILING}
    if not lab.refused(
        "the write meant to fail",
        lambda: lab.write(lab.rows(5, 60, 3, "bad"), name, "upsert", failing),
    ):
        raise RuntimeError("the write meant to fail was completed")
    if repaired:
        lab.write(lab.rows(15, 25, 4, "v").union(lab.rows(60, 64, 4)), name, "upsert", options)
        lab.write(lab.rows(30, 34, 5, "w"), name, "upsert", options)
    lab.expect_all(name)
    lab.expect_as_of(name)


@recipe()
@recipe("savepointed_mor", merge_on_read=True)
@recipe("restored", restored=True)
@recipe("restored_mor", merge_on_read=True, restored=True)
def savepointed(lab: Lab, name: str, merge_on_read: bool = False, restored: bool = False) -> None:
    """A savepoint with commits after it, and the table restored to it."""
    options = {**SMALL, **(MOR if merge_on_read else {})}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    lab.write(lab.rows(10, 20, 2, "u"), name, "upsert", options)
    point = lab.instants(name)[-1].requested
    lab.call("create_savepoint", name, f"commit_time => '{point}'")
    lab.write(lab.rows(15, 25, 3, "v").union(lab.rows(60, 64, 3)), name, "upsert", options)
    lab.write(lab.rows(0, 5, 4), name, "delete", options)
    if restored:
        lab.call("rollback_to_savepoint", name, f"instant_time => '{point}'")
        lab.expect_all(name)
        lab.write(lab.rows(18, 30, 5, "w"), name, "upsert", options)
    lab.expect_all(name)
    lab.expect_as_of(name)


@recipe(until="0.15.0")
def restored_planned_mor(lab: Lab, name: str) -> None:
    """A table restored over a planned compaction, after which log files are named. These stay."""
    options = {**SMALL, **MOR}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    lab.write(lab.rows(10, 20, 2, "u"), name, "upsert", options)
    point = lab.instants(name)[-1].requested
    lab.call("create_savepoint", name, f"commit_time => '{point}'")
    often = "hoodie.compact.inline.max.delta.commits=1"
    lab.call("run_compaction", name, f"op => 'schedule', options => '{often}'")
    lab.write(lab.rows(15, 25, 3, "v"), name, "upsert", options)
    lab.call("rollback_to_savepoint", name, f"instant_time => '{point}'")
    lab.call("delete_savepoint", name, f"instant_time => '{point}'")
    lab.write(lab.rows(18, 30, 4, "w"), name, "upsert", options)
    lab.expect_all(name)
    lab.expect_as_of(name)


@recipe("downgraded_3", until="0.15.0", version="THREE")
@recipe("downgraded_4", until="0.15.0", version="FOUR")
@recipe("downgraded_5", until="0.15.0", version="FIVE")
def downgraded(lab: Lab, name: str, version: str) -> None:
    """A merge-on-read table that Hudi's downgrade gives an older table version.

    The downgrade compacts first: older releases cannot read the log blocks.
    """
    options = {**SMALL, **MOR}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    lab.write(lab.rows(10, 20, 2, "u"), name, "upsert", options)
    lab.write(lab.rows(0, 5, 3), name, "delete", options)
    services = {
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.parquet.bloom.filter.enabled": "false",
    }
    with lab.catalogued(name), lab.settings(services):
        lab.sql(f"call downgrade_table(table => '{name}', to_version => '{version}')").collect()
    lab.expect_all(name)
    lab.expect_as_of(name)
    lab.expect_incremental(name)
