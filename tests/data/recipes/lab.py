"""A Spark session with one version of Hudi, and the few verbs every recipe uses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

__all__ = ["MOR", "ROW_BY_ROW", "SMALL", "SQL", "Instant", "Lab", "root_cause"]

MOR = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
}
"""Options of a merge-on-read table that is only compacted when a recipe says so."""

SMALL = {
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.parquet.bloom.filter.enabled": "false",
}
"""Options that keep a pack small: few buckets, no bloom filters."""

SQL = {
    "hoodie.index.type": "BUCKET",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.embed.timeline.server": "false",
}
"""Options SQL statements need on top, as `Lab.write` sets them for data frames."""

ROW_BY_ROW = {"spark.sql.parquet.enableVectorizedReader": "false"}
"""Without this Hudi refuses to read nested columns whose type has changed."""

FORMER_READER = {"hoodie.file.group.reader.enabled": "false"}

SCHEMA = "id string, name string, price double, qty int, ts long, region string"
REGIONS = ("us", "eu", "ap")


@dataclass(frozen=True)
class Instant:
    """A completed instant. `completed` is None before Hudi 1.0, which does not record it."""

    requested: str
    completed: str | None
    action: str


class Lab:
    """Writes tables into `out` and keeps what Hudi reads back beside them, in `out/_expected`."""

    def __init__(self, version: str, out: Path) -> None:
        self.version, self.out = version, out
        out.mkdir(parents=True, exist_ok=True)
        settings = {
            "spark.jars.packages": f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}",
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.sql.warehouse.dir": str(out / ".warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "4g",
        }
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self._index: dict = {}

    @property
    def layout(self) -> int:
        """1 before Hudi 1.0 (table version 6), 2 since: where and how instants are kept."""
        return 1 if self.version.startswith("0.") else 2

    def stop(self) -> None:
        self.spark.stop()
        shutil.rmtree(self.out / ".warehouse", ignore_errors=True)

    def remake(self, name: str, write: Callable[[Lab, str], None]) -> None:
        """Write table `name` anew, with the index of its expectations."""
        shutil.rmtree(self.out / name, ignore_errors=True)
        self._index = {"folders": [], "as_of": {}, "incremental": [], "notes": []}
        write(self, name)
        self._index["instants"] = [asdict(instant) for instant in self.instants(name)]
        self._index["hudi"] = self.version
        text = json.dumps(self._index, indent=1) + "\n"
        (self.out / "_expected" / f"{name}.json").write_text(text)

    def path(self, name: str) -> str:
        return str(self.out / name)

    def rows(self, low: int, high: int, ts: int, tag: str = "", regions: int = 3) -> DataFrame:
        """Rows key-{low} .. key-{high - 1}, always the same, over that many partitions."""
        return self.frame(
            (f"key-{i:06d}", f"n{i}{tag}", i * 1.5, i % 7, ts, REGIONS[i % regions])
            for i in range(low, high)
        )

    def frame(self, rows: Iterable[tuple], schema: object = SCHEMA) -> DataFrame:
        return self.spark.createDataFrame(list(rows), schema)

    def write(
        self,
        data: DataFrame,
        name: str,
        operation: str,
        options: Mapping[str, str | None] = MappingProxyType({}),
        mode: str = "append",
    ) -> None:
        """Write `data`; an option of None removes the default below."""
        settings: dict[str, str | None] = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": operation,
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.insert.shuffle.parallelism": "2",
            "hoodie.bulkinsert.shuffle.parallelism": "2",
            "hoodie.delete.shuffle.parallelism": "2",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "4",
            **options,
        }
        kept = {key: value for key, value in settings.items() if value is not None}
        data.write.format("hudi").options(**kept).mode(mode).save(self.path(name))

    def sql(self, text: str) -> DataFrame:
        return self.spark.sql(text)

    def call(self, procedure: str, name: str, arguments: str) -> None:
        """Call one of Hudi's procedures for a table, without it making a metadata table."""
        with self.settings({"hoodie.metadata.enable": "false"}):
            self.sql(f"call {procedure}(path => '{self.path(name)}', {arguments})").collect()

    @contextmanager
    def settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Options of the session, which SQL and procedures take as their options."""
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.spark.conf.unset(key)

    @contextmanager
    def catalogued(self, name: str) -> Iterator[None]:
        """Make SQL know the table by its name for a while."""
        self.sql(f"drop table if exists {name}")
        self.sql(f"create table {name} using hudi location '{self.path(name)}'")
        try:
            yield
        finally:
            self.sql(f"drop table if exists {name}")

    def read(self, name: str, **options: str) -> DataFrame:
        return self.spark.read.format("hudi").options(**options).load(self.path(name))

    def expect(self, name: str, suffix: str = "", **options: str) -> int:
        """Keep what Hudi reads now, all columns sorted by name, as _expected/{name}{suffix}.

        Where Hudi 1.0 cannot read the table, its former reader is asked, and that is noted.
        """
        folder = f"{name}{suffix}"
        try:
            self._keep(self.read(name, **options), folder)
        except Exception as error:
            if self.layout == 1:
                raise
            self._keep(self.read(name, **options, **FORMER_READER), folder)
            self.note(f"{folder} read with {FORMER_READER}, as Hudi failed: {root_cause(error)}")
        if folder not in self._index["folders"]:
            self._index["folders"].append(folder)
        rows = self.spark.read.parquet(str(self.out / "_expected" / folder)).count()
        print(f"{self.version} {folder} {rows} {options or ''}", flush=True)
        return rows

    def _keep(self, data: DataFrame, folder: str) -> None:
        data = data.select(*sorted(data.columns)).coalesce(1)
        data.write.mode("overwrite").parquet(str(self.out / "_expected" / folder))

    def expect_metadata(self, name: str) -> None:
        """Keep the records of the metadata table as Hudi merges them, as _expected/{name}_metadata.

        Columns: `key`, `type`, and one for each kind of record. Bounds of statistics are in Avro's
        unions, which Spark shows as a struct with a field for each branch.
        """
        folder = f"{name}_metadata"
        table = self.path(f"{name}/.hoodie/metadata")
        self._keep(self.spark.read.format("hudi").load(table), folder)
        self._index["folders"].append(folder)

    def expect_all(self, name: str) -> None:
        """Keep the snapshot, and for a merge-on-read table the read-optimized view too."""
        self.expect(name)
        if "MERGE_ON_READ" in (self.out / name / ".hoodie/hoodie.properties").read_text():
            query = {"hoodie.datasource.query.type": "read_optimized"}
            self.expect(name, "_read_optimized", **query)

    def expect_as_of(self, name: str) -> None:
        """Keep the table as of every completed instant's requested time, and completion time."""
        times = [i.requested for i in self.instants(name)]
        times += [i.completed for i in self.instants(name) if i.completed]
        for number, time in enumerate(sorted(set(times))):
            suffix = f"_asof_{number}"
            try:
                self.expect(name, suffix, **{"as.of.instant": time})
                self._index["as_of"][time] = name + suffix
            except Exception as error:
                self.note(f"as of {time} refused: {root_cause(error)}")

    def expect_incremental(self, name: str) -> None:
        """Keep incremental queries between points of time: see "incremental" in NAME.json.

        What a range means was found by comparing the rows' commit times with it.
        """
        self._index["incremental_range"] = (
            "requested times, (begin, end]"
            if self.layout == 1
            else "completion times, [begin, end]"
            if self.version.startswith("1.0.")
            else "completion times, (begin, end]"
        )
        done = self.instants(name)
        points = [instant.completed or instant.requested for instant in done]
        ranges: list[tuple[str, str | None]] = [("000", None), (points[0], None)]
        ranges += [(points[1], points[-2]), (points[1], points[1]), (points[-1], None)]
        if self.layout == 2:  # also where the two clocks differ
            ranges += [(done[1].requested, None), (done[1].requested, done[2].requested)]
        for number, (begin, end) in enumerate(ranges):
            suffix = f"_incremental_{number}"
            options = {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": begin,
            }
            if end:
                options["hoodie.datasource.read.end.instanttime"] = end
            entry = {"begin": begin, "end": end, "options": options}
            try:
                rows = self.expect(name, suffix, **options)
                self._index["incremental"].append({**entry, "folder": name + suffix, "rows": rows})
            except Exception as error:
                self.note(f"incremental {begin}..{end} refused: {root_cause(error)}")

    def instants(self, name: str) -> list[Instant]:
        """The completed instants of the active timeline, in order of requested time."""
        folder = self.out / name / ".hoodie" / ("timeline" if self.layout == 2 else "")
        found = []
        for path in folder.iterdir():
            times, _, action = path.name.partition(".")
            if path.is_file() and times[:1].isdigit() and action.isalpha():
                requested, _, completed = times.partition("_")
                if action != "inflight" and (completed or self.layout == 1):
                    found.append(Instant(requested, completed or None, action))
        return sorted(found, key=lambda instant: (instant.requested, instant.action))

    def note(self, text: str) -> None:
        """Keep a remark in NAME.json: what Hudi refused, or did that one would not expect."""
        self._index["notes"].append(text)
        print(f"{self.version} note: {text}", flush=True)

    def refused(self, what: str, attempt: Callable[[], object]) -> bool:
        """Try something that a version may refuse; note the refusal."""
        try:
            attempt()
        except Exception as error:
            self.note(f"{what} refused: {root_cause(error)}")
            return True
        return False


def root_cause(error: Exception) -> str:
    """The line of a Java stack trace that says why; of any other error its first line."""
    lines = str(error).splitlines() or [repr(error)]
    causes = [line for line in lines if line.startswith("Caused by")]
    return (causes or [line for line in lines[1:2] if line.startswith(": ")] or lines)[-1][:400]
