"""Bronze, silver, gold: taxi trips as they come, each once, and what a day of a city earned.

usage: spark-submit examples/medallion.py FOLDER     (or: python examples/medallion.py FOLDER)

Makes its own data: three days of trips, some sent twice, some corrected a day later. A second run
in the same folder writes no trip again.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs

DAYS = 3
TRIPS_A_DAY = 20_000

TRIPS = pa.schema(
    [
        ("trip_id", pa.string()),
        ("city", pa.string()),
        ("day", pa.int32()),
        ("fare", pa.float64()),
        ("sent", pa.int64()),
    ]
)
EARNED = pa.schema(
    [
        ("city", pa.string()),
        ("day", pa.int32()),
        ("trips", pa.int64()),
        ("earned", pa.float64()),
    ]
)


def arrive(spark: SparkSession, day: int) -> DataFrame:
    """Return what a day sends: its trips, a tenth twice, and corrections of the day before."""
    first = day * TRIPS_A_DAY
    trips = spark.range(first, first + TRIPS_A_DAY).select("id", sf.lit(day).alias("day"))
    again = trips.where("id % 10 = 0")
    late = spark.range(max(first - TRIPS_A_DAY, 0), first, 50).select(
        "id", sf.lit(day - 1).alias("day")
    )
    return (
        trips.union(again)
        .union(late)
        .select(
            sf.concat(sf.lit("trip-"), sf.col("id")).alias("trip_id"),
            sf.element_at(
                sf.array(*map(sf.lit, ("berlin", "lima", "oslo"))),
                sf.pmod(sf.hash("id"), sf.lit(3)) + 1,
            ).alias("city"),
            sf.col("day").cast("int"),
            (sf.pmod(sf.hash(sf.col("id") * 7), sf.lit(4000)) / 100 + sf.lit(day)).alias("fare"),
            (sf.lit(day).cast("bigint") * 86_400 + sf.pmod("id", sf.lit(86_400))).alias("sent"),
        )
    )


def make_tables(folder: Path) -> tuple[bf.Table, bf.Table]:
    """Return the silver and the gold table, which the first run makes."""
    with suppress(bf.TableNotFoundError):
        return bf.open(folder / "silver_trips"), bf.open(folder / "gold_earned")
    silver = bf.create(
        folder / "silver_trips",
        schema=TRIPS,
        record_key=["trip_id"],
        partition_by=["city"],
        ordering=["sent"],
        index=bf.SimpleBucketIndex(4),
        table_type="MERGE_ON_READ",
    )
    gold = bf.create(
        folder / "gold_earned",
        schema=EARNED,
        record_key=["city", "day"],
        index=bf.SimpleBucketIndex(1),
    )
    return silver, gold


def main(folder: Path) -> None:
    """Run the pipeline, day after day."""
    spark = SparkSession.builder.appName("medallion").getOrCreate()
    silver, gold = make_tables(folder)
    last = None
    for day in range(DAYS):
        bronze = str(folder / "bronze" / f"day={day}")
        arrive(spark, day).write.mode("overwrite").parquet(bronze)

        # Once, however often this is run again for the day.
        trips = spark.read.schema(arrive(spark, day).schema).parquet(bronze)
        done = bs.write(trips, silver.uri, idempotency_key=f"day {day}")
        print(f"day {day}: commit {done.instant}, {len(done.files)} files")

        # What this commit changed says which days are to be summed up again.
        changed = bs.changes(spark, silver.uri, last, columns=["day"])
        days = [row.day for row in changed.distinct().collect()]
        last = done.completion_time
        earned = (
            bs.read(spark, silver.uri, ["city", "day", "fare"], [("day", "in", days)])
            .groupBy("city", "day")
            .agg(sf.count("*").alias("trips"), sf.round(sf.sum("fare"), 2).alias("earned"))
        )
        bs.write(earned, gold.uri)
    bs.compact(spark, silver.uri)
    bs.read(spark, gold.uri).orderBy("day", "city").show()
    print("trips:", bs.read(spark, silver.uri, ["trip_id"]).count())
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
