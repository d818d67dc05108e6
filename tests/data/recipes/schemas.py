"""Tables about columns: schema evolution with and without ids, nested types, keys and paths."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from recipes.lab import MOR, ROW_BY_ROW, SMALL, SQL, Lab
from recipes.registry import recipe


@recipe()
@recipe("evolved_mor", merge_on_read=True)
def evolved(lab: Lab, name: str, merge_on_read: bool = False) -> None:
    """Columns added and widened by plain upserts: file groups not touched keep the old schema."""
    options = {**SMALL, **(MOR if merge_on_read else {})}

    def upsert(columns: str, keys: range, ts: int, values) -> None:
        rows = [(f"key-{i:03d}", *values(i), ts, "us" if i % 2 else "eu") for i in keys]
        lab.write(
            lab.frame(rows, f"id string, {columns}, ts long, region string"),
            name,
            "upsert",
            options,
        )

    def place(i: int) -> tuple:
        return (i, f"b{i}") if i % 5 else None

    struct = "s struct<a:int,b:string>"
    upsert(f"n int, f float, q int, {struct}", range(60), 1, lambda i: (i, i / 4, i, place(i)))
    # a column at the end and int -> long, float -> double: keys of both partitions
    wide = f"n long, f double, q int, {struct}"
    upsert(wide, range(20), 2, lambda i: (2**40 + i, i / 3, i, place(i)))
    # a field inside the struct, a column after the others
    deep = "n long, f double, q int, s struct<a:int,b:string,c:double>, added string"
    upsert(deep, range(10, 24, 2), 3, lambda i: (i, 0.1, i, (i, "deep", i / 8), f"new{i}"))
    # int -> string, and int -> long in the struct: one key only, so one file group is rewritten
    text = "n long, f double, q string, s struct<a:long,b:string,c:double>, added string"
    lab.refused(
        "int to string, int to long in a struct",
        lambda: upsert(
            text, range(31, 32), 4, lambda i: (i, 0.2, "text", (2**33, "wide", 1.0), None)
        ),
    )
    # columns left out of the data
    fewer = {**options, "hoodie.write.set.null.for.missing.columns": "true"}
    rows = [("key-040", 40, 4.5, 5, "eu")]
    frame = lab.frame(rows, "id string, n long, f double, ts long, region string")
    lab.refused("data without some columns", lambda: lab.write(frame, name, "upsert", fewer))
    with lab.settings(ROW_BY_ROW):
        lab.expect_all(name)


@recipe()
@recipe("evolved_ids_mor", table_type="mor")
def evolved_ids(lab: Lab, name: str, table_type: str = "cow") -> None:
    """ALTER TABLE with schema-on-read: columns have ids, .hoodie/.schema keeps every version."""
    settings = {
        **SMALL,
        **SQL,
        **ROW_BY_ROW,
        "hoodie.compact.inline": "false",
        "hoodie.schema.on.read.enable": "true",
        # without this a rename is refused as a dropped column, and leaves a pending instant behind
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.spark.sql.insert.into.operation": "upsert",
    }
    properties = {**SMALL, **SQL, "primaryKey": "id", "preCombineField": "ts", "type": table_type}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())

    def insert(keys: Iterable[int], row: str) -> None:
        # partition s0 is written before any change, s1 before the renames, and never again
        regions = {40: "s0", 41: "s0", 42: "s1", 43: "s1"}
        texts = (row.format(i=i, region=regions.get(i, "us" if i % 2 else "eu")) for i in keys)
        lab.sql(f"insert into {name} " + " union all ".join(f"select {text}" for text in texts))

    def alter(what: str) -> None:
        lab.refused(f"alter table {what}", lambda: lab.sql(f"alter table {name} {what}"))

    with lab.settings(settings):
        lab.sql(f"drop table if exists {name}")
        lab.sql(
            f"create table {name} (id string, a int, b float, c string, d decimal(10,2), "
            "s struct<x:int,y:string>, ts long, region string) using hudi "
            f"tblproperties ({listed}) partitioned by (region) location '{lab.path(name)}'"
        )
        insert(
            range(42),
            "'key-{i:03d}', {i}, cast({i}/4 as float), 'c{i}', cast({i}/8 as decimal(10,2)), "
            "named_struct('x', {i}, 'y', 'y{i}'), cast(1 as bigint), '{region}'",
        )
        alter("add columns (e string after a)")
        alter("alter column a type bigint")
        alter("alter column b type double")
        insert(
            [*range(10, 20), 42, 43],
            "'key-{i:03d}', cast({i} + 1099511627776 as bigint), 'e{i}', cast({i}/3 as double), "
            "'c{i}', cast({i}/8 as decimal(10,2)), named_struct('x', {i}, 'y', 'y{i}'), "
            "cast(2 as bigint), '{region}'",
        )
        alter("rename column c to renamed")
        alter("rename column s.y to z")
        alter("add columns (s.w int)")
        alter("alter column d type decimal(20,4)")
        insert(
            range(15, 30, 2),
            "'key-{i:03d}', cast({i} as bigint), 'e{i}', cast(0.5 as double), 'r{i}', "
            "cast({i}/16 as decimal(20,4)), named_struct('x', {i}, 'z', 'z{i}', 'w', 7), "
            "cast(3 as bigint), '{region}'",
        )
        alter("drop column e")
        alter("alter column renamed after id")
        alter("alter column a type string")
        insert(
            range(28, 31),
            "'key-{i:03d}', 'last{i}', 'a{i}', cast(0.25 as double), cast(1 as decimal(20,4)), "
            "named_struct('x', {i}, 'z', 'z{i}', 'w', 8), cast(4 as bigint), '{region}'",
        )
        alter("add columns (e int)")  # another column: the values of the dropped one stay away
        lab.expect_all(name)
        lab.sql(f"drop table if exists {name}")
    with lab.settings(ROW_BY_ROW):
        lab.refused("reading without ids", lambda: lab.expect(name, "_plain_read"))


@recipe()
@recipe("nested_null_items", null_items=True)
def nested_mor(lab: Lab, name: str, null_items: bool = False) -> None:
    """Every type in base files and in Avro log blocks, each with nulls.

    Hudi writes lists of two levels unless told otherwise, and those cannot hold nulls.
    """
    hadoop = lab.spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("parquet.avro.write-old-list-structure", "false" if null_items else "true")
    schema = (
        "id string, st struct<a:int,b:string,in:struct<c:double,d:array<int>>>, "
        "ast array<struct<k:string,v:long>>, mp map<string,struct<x:int>>, "
        "ma map<string,array<string>>, aa array<array<int>>, "
        "d5 decimal(5,2), d18 decimal(18,9), d30 decimal(30,10), day date, at timestamp, "
        "bin binary, flag boolean, fl float, db double, i8 byte, i16 short, i int, l long, "
        "ts long, region string"
    )
    start = dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.timezone.utc)

    def row(i: int, ts: int) -> tuple:
        j = i * ts
        null = (None,) if null_items else ()
        place = (j, f"b{j}", (j / 8, [j, *null, -j]) if i % 7 else None) if i % 4 else None
        values = (
            place,
            [(f"k{j}", j), (None, None), *null] if i % 3 else [],
            {f"m{j}": (j,), "none": None} if i % 5 else {},
            {"a": [f"x{j}", *null], "b": []},
            [[j, *null], [], *null],
            Decimal(j - 50).scaleb(-2),
            Decimal(-j * 10**10 + 1).scaleb(-9),
            Decimal(f"{'-' if i % 2 else ''}{10**19 + j}.{j:010d}"),
            start.date() + dt.timedelta(days=j * 100 - 5000),
            start + dt.timedelta(days=j, microseconds=j * 1001),
            bytes([j % 256, 0, 255]),
            i % 2 == 0,
            j / 3,
            [float("nan"), float("inf"), -0.0, j / 7][i % 4],
            i - 60,
            -j,
            j * 10**6,
            -j * 10**12,
        )
        if i % 10 == 9:
            values = (None,) * len(values)
        values = tuple(None if (i + n) % 11 == 0 else value for n, value in enumerate(values))
        return (f"key-{i:03d}", *values, ts, "us" if i % 2 else "eu")

    options = {**SMALL, **MOR}
    lab.write(lab.frame([row(i, 1) for i in range(80)], schema), name, "upsert", options)
    lab.write(lab.frame([row(i, 2) for i in range(20, 100)], schema), name, "upsert", options)
    lab.write(lab.frame([row(i, 3) for i in range(0, 100, 9)], schema), name, "upsert", options)
    lab.write(lab.frame([row(i, 4) for i in range(5, 10)], schema), name, "delete", options)
    lab.expect_all(name)


SIMPLE_KEY = "org.apache.hudi.keygen.SimpleKeyGenerator"
COMPLEX_KEY = "org.apache.hudi.keygen.ComplexKeyGenerator"


@recipe()
@recipe("virtual_mor", merge_on_read=True)
@recipe("virtual_complex", key="id,qty")
@recipe("virtual_complex_mor", since="1.1.0", merge_on_read=True, key="id,qty")
def virtual(lab: Lab, name: str, merge_on_read: bool = False, key: str = "id") -> None:
    """No meta columns in the files: keys come from the key columns."""
    options = {
        **SMALL,
        **(MOR if merge_on_read else {}),
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.bucket.index.hash.field": key,
        "hoodie.datasource.write.keygenerator.class": COMPLEX_KEY if "," in key else SIMPLE_KEY,
    }
    lab.write(lab.rows(0, 90, 1), name, "insert", options)
    lab.write(lab.rows(30, 60, 2, "u").union(lab.rows(90, 100, 2)), name, "upsert", options)
    lab.refused("delete", lambda: lab.write(lab.rows(0, 10, 3), name, "delete", options))
    lab.expect_all(name)


@recipe()
def virtual_bulk(lab: Lab, name: str) -> None:
    """bulk_insert by the row writer without meta columns: Hudi breaks the table, see the README."""
    options = {
        **SMALL,
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.keygenerator.class": SIMPLE_KEY,
    }
    lab.write(lab.rows(0, 60, 1), name, "bulk_insert", options)
    lab.expect(name)


@recipe()
def multipart(lab: Lab, name: str) -> None:
    """Two partition fields, hive style, url encoded; values that need escaping, null and empty."""
    schema = "id string, name string, qty int, ts long, region string, kind string"
    kinds = ["a/b", "x=y", "sp ace", "pct%2F", "ünï", None, "", "a:b", "q?#", "__HIVE"]
    rows = [
        (f"key-{i:03d}", f"n{i}", i, 1, ("us", "eu")[i % 2], kinds[i % len(kinds)])
        for i in range(60)
    ]
    options = {
        **SMALL,
        "hoodie.datasource.write.partitionpath.field": "region,kind",
        "hoodie.datasource.write.keygenerator.class": COMPLEX_KEY,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.bucket.index.num.buckets": "1",
    }
    lab.write(lab.frame(rows, schema), name, "upsert", options)
    again = [(*row[:2], 100 + row[2], 2, *row[4:]) for row in rows[20:35]]
    lab.write(lab.frame(again, schema), name, "upsert", options)
    lab.expect(name)


@recipe()
@recipe("customkeygen", custom=True)
def tskeygen(lab: Lab, name: str, custom: bool = False) -> None:
    """The partition path is a formatted time, so it is not the column's value."""
    schema = "id string, name string, made long, ts long, region string"
    day = 86_400_000
    rows = [
        (f"key-{i:03d}", f"n{i}", 1_700_000_000_000 + i * day // 7, 1, ("us", "eu")[i % 2])
        for i in range(60)
    ]
    generator = "CustomKeyGenerator" if custom else "TimestampBasedKeyGenerator"
    options = {
        **SMALL,
        "hoodie.datasource.write.partitionpath.field": "region:SIMPLE,made:TIMESTAMP"
        if custom
        else "made",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd" if custom else "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
        "hoodie.bucket.index.num.buckets": "1",
    }
    lab.write(lab.frame(rows, schema), name, "upsert", options)
    again = [(row[0], "again", row[2], 2, row[4]) for row in rows[10:20]]
    lab.write(lab.frame(again, schema), name, "upsert", options)
    lab.expect(name)
