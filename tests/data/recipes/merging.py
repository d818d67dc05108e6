"""Tables about which record wins: deletes, late records, ties, payloads, partial updates."""

from __future__ import annotations

from recipes.lab import MOR, SMALL, SQL, Lab
from recipes.registry import recipe

_PAYLOADS = "org.apache.hudi.common.model"
_NON_DEFAULTS = "OverwriteNonDefaultsWithLatestAvroPayload"
_POSTGRES = "debezium.PostgresDebeziumAvroPayload"


@recipe()
@recipe("delete_marker_mor", merge_on_read=True)
def delete_marker(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Deletes by the column _hoodie_is_deleted, some of them late, by SQL and by operation."""
    options = {**SMALL, **(MOR if merge_on_read else {})}
    schema = "id string, name string, qty int, ts long, region string, _hoodie_is_deleted boolean"

    def rows(keys: range, ts: int, gone: bool | None, tag: str):
        names = ("us", "eu")
        return lab.frame(
            [(f"key-{i:03d}", f"{tag}{i}", i, ts, names[i % 2], gone) for i in keys], schema
        )

    lab.write(rows(range(60), 10, False, "n"), name, "upsert", options)
    lab.write(rows(range(8), 11, True, "gone"), name, "upsert", options)
    lab.write(rows(range(8, 16), 5, True, "late"), name, "upsert", options)
    lab.write(rows(range(16, 24), 10, True, "tie"), name, "upsert", options)
    both = rows(range(24, 28), 12, True, "mixed").union(rows(range(28, 34), 12, None, "mixed"))
    lab.write(both, name, "upsert", options)
    lab.write(rows(range(2, 6), 7, False, "older"), name, "upsert", options)
    lab.write(rows(range(4, 8), 13, False, "back"), name, "upsert", options)
    lab.write(rows(range(60, 64), 14, True, "never"), name, "upsert", options)
    lab.write(rows(range(40, 44), 1, False, ""), name, "delete", options)
    with lab.catalogued(name), lab.settings({**options, **SQL}):
        statement = f"delete from {name} where id in ('key-050', 'key-051', 'key-052')"
        lab.refused("SQL delete", lambda: lab.sql(statement))
    lab.expect_all(name)


@recipe()
@recipe("mor_commit", event_time=False)
@recipe("cow_event", merge_on_read=False)
@recipe("cow_commit", merge_on_read=False, event_time=False)
def mor_event(lab: Lab, name: str, merge_on_read: bool = True, event_time: bool = True) -> None:
    """Late records, ties and late deletes under event-time, and under commit-time, ordering."""
    if lab.layout == 1:
        payload = "DefaultHoodieRecordPayload" if event_time else "OverwriteWithLatestAvroPayload"
        order = {"hoodie.datasource.write.payload.class": f"{_PAYLOADS}.{payload}"}
    else:
        mode = "EVENT_TIME_ORDERING" if event_time else "COMMIT_TIME_ORDERING"
        order = {"hoodie.write.record.merge.mode": mode}
    options = {**SMALL, **order, **(MOR if merge_on_read else {})}
    lab.write(lab.rows(0, 60, 10, "n"), name, "upsert", options)
    lab.write(lab.rows(0, 8, 5, "late"), name, "upsert", options)
    lab.write(lab.rows(8, 16, 10, "tie"), name, "upsert", options)
    lab.write(lab.rows(16, 24, 20, "new"), name, "upsert", options)
    lab.write(lab.rows(20, 28, 15, "between"), name, "upsert", options)
    lab.write(lab.rows(28, 32, 5), name, "delete", options)
    lab.write(lab.rows(32, 36, 10), name, "delete", options)
    lab.write(lab.rows(36, 40, 30), name, "delete", options)
    lab.write(
        lab.rows(36, 38, 25, "older").union(lab.rows(38, 40, 40, "back")), name, "upsert", options
    )
    twice = lab.rows(40, 44, 50, "first").union(lab.rows(40, 44, 49, "second"))
    lab.write(twice, name, "upsert", options)
    lab.write(lab.rows(44, 48, -5, "negative"), name, "upsert", options)
    lab.expect_all(name)


@recipe()
@recipe("dms_mor", merge_on_read=True)
def dms(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """AWSDmsAvroPayload: the column Op says I, U or D."""
    payload = {
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload"
    }
    options = {**SMALL, **payload, **(MOR if merge_on_read else {})}
    schema = "id string, name string, Op string, ts long, region string"

    def rows(keys: range, ts: int, op: str | None):
        return lab.frame(
            [(f"key-{i:03d}", f"{op}{i}", op, ts, ("us", "eu")[i % 2]) for i in keys], schema
        )

    lab.write(rows(range(40), 10, "I"), name, "upsert", options)
    changes = rows(range(6), 11, "U").union(rows(range(6, 12), 12, "D"))
    lab.write(changes.union(rows(range(40, 44), 13, "I")), name, "upsert", options)
    lab.write(
        rows(range(12, 16), 5, "D").union(rows(range(16, 20), 5, "U")), name, "upsert", options
    )
    last = rows(range(8, 10), 14, "I")
    if lab.layout == 2 or not merge_on_read:  # 0.15 could not read it: "No value present in Option"
        last = last.union(rows(range(50, 52), 14, "D"))
    lab.write(last, name, "upsert", options)
    lab.expect_all(name)


@recipe(since="1.0.0")
def partial(lab: Lab, name: str) -> None:
    """MERGE INTO that sets some columns: log blocks that hold those columns only."""
    options = {**SMALL, **MOR}
    lab.write(lab.rows(0, 60, 1), name, "upsert", options)
    partly = {**options, **SQL, "hoodie.spark.sql.merge.into.partial.updates": "true"}
    with lab.catalogued(name), lab.settings(partly):
        for ts, low, high, assign in (
            (2, 0, 10, "t.price = s.price + 1000, t.ts = s.ts"),
            (3, 5, 15, "t.name = concat(s.name, 'x'), t.ts = s.ts"),
            (2, 12, 18, "t.qty = s.qty + 500, t.ts = s.ts"),
        ):
            lab.rows(low, high, ts, "m").createOrReplaceTempView("source")
            lab.sql(
                f"merge into {name} t using source s on t.id = s.id and t.region = s.region "
                f"when matched then update set {assign}"
            )
        lab.rows(20, 30, 4, "d").createOrReplaceTempView("source")
        lab.sql(
            f"merge into {name} t using source s on t.id = s.id and t.region = s.region "
            "when matched and s.qty = 0 then delete "
            "when matched then update set t.price = 0.0, t.ts = s.ts"
        )
    lab.write(lab.rows(8, 12, 6, "whole"), name, "upsert", options)
    lab.expect_all(name)


@recipe()
@recipe("filled_mor", merge_on_read=True)
@recipe("filled_newest_mor", since="1.1.0", merge_on_read=True, payload=_NON_DEFAULTS)
@recipe("filled_base_mor", until="0.15.0", merge_on_read=True, payload=_NON_DEFAULTS)
@recipe("filled_marker_mor", since="1.1.0", merge_on_read=True, payload=_POSTGRES)
def filled(
    lab: Lab, name: str, merge_on_read: bool = False, payload: str = "PartialUpdateAvroPayload"
) -> None:
    """Records whose nulls, or whose markers, are those of the record that they win over."""
    is_postgres = payload == _POSTGRES
    of_payload = {"hoodie.datasource.write.payload.class": f"{_PAYLOADS}.{payload}"}
    options = {**SMALL, **of_payload, **(MOR if merge_on_read else {})}
    unknown = "__debezium_unavailable_value" if is_postgres else None
    schema = "id string, name string, qty int, ts long, region string, tags array<string>, "
    if is_postgres:
        schema += "_change_operation_type string, _event_lsn long"
        options["hoodie.datasource.write.precombine.field"] = "_event_lsn"
    else:
        schema += "at struct<x: int, y: string>, _hoodie_is_deleted boolean"

    def rows(keys: range, ts: int, tag: str, gone: bool = False):
        found = []
        for i in keys:
            row = (
                f"key-{i:03d}",
                unknown if (i + ts) % 3 == 0 else f"{tag}{i}",
                None if (i + ts) % 3 == 1 else i,
                ts,
                ("us", "eu")[i % 2],
                None if i % 2 else [tag, str(ts)],
            )
            own = ("d" if gone else "u", ts) if is_postgres else (None if i % 4 else (ts, None), gone)
            found.append(row + own)
        return lab.frame(found, schema)

    lab.write(rows(range(48), 10, "n"), name, "upsert", options)
    lab.write(rows(range(16), 12, "new"), name, "upsert", options)
    lab.write(rows(range(8, 24), 5, "late"), name, "upsert", options)
    lab.write(rows(range(12, 30), 11, "between"), name, "upsert", options)
    lab.write(rows(range(20, 36), 10, "tie"), name, "upsert", options)
    gone = rows(range(30, 34), 20, "gone", True).union(rows(range(34, 38), 3, "past", True))
    lab.write(gone, name, "upsert", options)
    lab.write(rows(range(38, 42), 30, ""), name, "delete", options)
    lab.write(rows(range(31, 38), 15, "back"), name, "upsert", options)
    lab.write(rows(range(29, 33), 25, "again"), name, "upsert", options)
    twice = rows(range(42, 50), 40, "first").union(rows(range(42, 50), 39, "second"))
    lab.write(twice.coalesce(1), name, "upsert", options)
    lab.expect_all(name)
    if name == "filled_mor":
        lab.expect_as_of(name)
        lab.expect_incremental(name)


@recipe(since="1.0.0")
def positions(lab: Lab, name: str) -> None:
    """Log blocks that name the rows of the base file they replace: the bloom index knows them."""
    options = {
        **SMALL,
        **MOR,
        "hoodie.index.type": "BLOOM",
        "hoodie.bucket.index.num.buckets": None,
    }
    options |= {
        "hoodie.parquet.bloom.filter.enabled": None,
        "hoodie.index.bloom.num_entries": "200",
    }
    options |= {"hoodie.write.record.positions": "true"}
    lab.write(lab.rows(0, 90, 1), name, "insert", options)
    lab.write(lab.rows(20, 50, 2, "u").union(lab.rows(90, 96, 2)), name, "upsert", options)
    lab.write(lab.rows(5, 25, 3), name, "delete", options)
    lab.write(lab.rows(40, 60, 4, "v"), name, "upsert", options)
    lab.expect_all(name)


_CAPTURE = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
}


@recipe()
@recipe("cdc_mor", merge_on_read=True)
def cdc(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Change data capture: CDC log files beside the data, and the changes Hudi reports."""
    options = {**SMALL, **_CAPTURE, **(MOR if merge_on_read else {})}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    lab.write(lab.rows(10, 20, 2, "u").union(lab.rows(40, 44, 2)), name, "upsert", options)
    lab.write(lab.rows(0, 5, 3), name, "delete", options)
    lab.expect_all(name)
    changes = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": "000",
    }
    lab.refused("CDC query", lambda: lab.expect(name, "_changes", **changes))


@recipe("cdc_metadata")
@recipe("cdc_pending_mor", merge_on_read=True)
def cdc_listed(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """CDC log files that the metadata table lists, and that the plan of a compaction names."""
    options = {**SMALL, **_CAPTURE, "hoodie.metadata.enable": "true"}
    options |= MOR if merge_on_read else {}
    lab.write(lab.rows(0, 40, 1), name, "upsert", options)
    often = {"hoodie.compact.inline.max.delta.commits": "1"} if merge_on_read else {}
    inline = {**options, **often, "hoodie.compact.inline": str(merge_on_read).lower()}
    lab.write(lab.rows(10, 20, 2, "u").union(lab.rows(40, 44, 2)), name, "upsert", inline)
    if merge_on_read:
        plan = {**options, **often, "hoodie.compact.schedule.inline": "true"}
        lab.write(lab.rows(15, 25, 3, "v"), name, "upsert", plan)
    lab.expect_all(name)


@recipe(since="1.1.0")
@recipe("multiorder_mor", since="1.1.0", merge_on_read=True)
def multiorder(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Two ordering fields: the second decides where the first is equal."""
    fields = {"hoodie.datasource.write.precombine.field": "ts,qty"}
    mode = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    options = {**SMALL, **fields, **mode, **(MOR if merge_on_read else {})}

    def rows(keys: range, ts: int, qty: int | None, tag: str):
        return lab.frame(
            (f"key-{i:06d}", f"{tag}{i}", 0.5, qty, ts, ("us", "eu")[i % 2]) for i in keys
        )

    lab.write(rows(range(40), 10, 5, "n"), name, "upsert", options)
    lab.write(rows(range(4), 10, 6, "second"), name, "upsert", options)
    lab.write(rows(range(4, 8), 10, 4, "less"), name, "upsert", options)
    lab.write(rows(range(8, 12), 11, 1, "first"), name, "upsert", options)
    lab.write(rows(range(12, 16), 9, 99, "late"), name, "upsert", options)
    lab.write(rows(range(16, 20), 10, 5, "tie"), name, "upsert", options)
    lab.refused(
        "null in an ordering field",
        lambda: lab.write(rows(range(20, 24), 10, None, "null"), name, "upsert", options),
    )
    lab.write(rows(range(24, 28), 10, 1, ""), name, "delete", options)
    lab.expect_all(name)
