"""A random table as a plan: the options and rows to give Hudi, write by write.

Pure: the same version and seed make the same plan. What no plan holds, and why, is told in
README.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import bucketfmt as bf
from bucketfmt.format.keys.record_keys import hudi_never_returns
from tests.interop.replays.columns import (
    COLUMN_TYPES,
    ORDERING_TYPES,
    ordering_value,
    random_text,
    random_value,
)

__all__ = ["VERSIONS", "Plan", "Step", "make_plan"]

VERSIONS = ("0.15.0", "1.0.2", "1.2.0")

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
_KINDS = (
    ("simple", MOR),
    ("consistent", MOR),
    ("simple", COW),
    ("rules", MOR),
    ("simple", MOR),
    ("rules", COW),
    ("consistent", MOR),
    ("simple", COW),
)
"""Index engine and table type of successive seeds, so that a few tables have them all."""

_KEYGEN = "org.apache.hudi.keygen"
_PAYLOADS = "org.apache.hudi.common.model"
_PLAN = "org.apache.hudi.client.clustering.plan.strategy"
_RUN = "org.apache.hudi.client.clustering.run.strategy"
_UPDATE = "org.apache.hudi.client.clustering.update.strategy"
_LOCKS = "org.apache.hudi.client.transaction.lock"
_VALIDATORS = "org.apache.hudi.client.validator"
_RESIZING = {
    "hoodie.clustering.plan.strategy.class": (
        f"{_PLAN}.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{_RUN}.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": (
        f"{_UPDATE}.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
    "hoodie.clustering.inline.max.commits": "1",
}
_FAILING = {
    "hoodie.precommit.validators": f"{_VALIDATORS}.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}
"""Makes a write fail after its data files are written and before it is completed."""


@dataclass(frozen=True)
class Step:
    """One write.

    Attributes:
        operation: Hudi's name of it.
        options: All options, the table's own among them.
        schema: The columns as Spark DDL.
        rows: As Spark's JSON reader takes them.
    """

    operation: str
    options: dict[str, str]
    schema: str
    rows: list[dict[str, Any]]


@dataclass
class Plan:
    """A table, and the writes that make it."""

    version: str
    seed: int
    kind: str
    table_type: str
    key_fields: list[str]
    hash_fields: list[str] | None
    num_buckets: int
    partition_rules: str | None = None
    partition_fields: list[str] = field(default_factory=list)
    partition_types: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the table and of its folders."""
        return f"t{self.seed}"

    @property
    def index(self) -> bf.Index:
        """The index Hudi is told."""
        hash_fields = tuple(self.hash_fields) if self.hash_fields else None
        if self.kind == "consistent":
            return bf.ConsistentHashingIndex(self.num_buckets, hash_fields=hash_fields)
        if self.partition_rules is not None:
            return bf.PartitionBucketIndex(self.num_buckets, self.partition_rules, hash_fields)
        return bf.SimpleBucketIndex(self.num_buckets, hash_fields)

    @property
    def has_meta_fields(self) -> bool:
        """Whether rows carry Hudi's own columns."""
        return self.steps[0].options.get("hoodie.populate.meta.fields") != "false"

    def describe(self) -> str:
        """Return the plan without its rows, for a person."""
        told: dict[str, Any] = {k: v for k, v in asdict(self).items() if k != "steps"}
        common = dict(set.intersection(*(set(step.options.items()) for step in self.steps)))
        told["options"] = dict(sorted(common.items()))
        told["steps"] = [
            {
                "operation": step.operation,
                "rows": len(step.rows),
                "schema": step.schema,
                "options": {k: v for k, v in step.options.items() if k not in common},
            }
            for step in self.steps
        ]
        return json.dumps(told, indent=1, ensure_ascii=True)

    def save(self, folder: Path) -> None:
        """Write the plan where the writer looks: `NAME.json`, and `NAME.STEP.jsonl` of rows."""
        steps = []
        for number, step in enumerate(self.steps):
            rows = f"{self.name}.{number}.jsonl"
            (folder / rows).write_text("".join(json.dumps(row) + "\n" for row in step.rows))
            steps.append({**asdict(step), "rows": rows})
        text = json.dumps({"name": self.name, "table_type": self.table_type, "steps": steps})
        (folder / f"{self.name}.json").write_text(text)


def make_plan(version: str, seed: int) -> Plan:
    """Return the plan of a table that this version of Hudi can write."""
    return _Planner(version, seed).plan()


class _Planner:
    """Draws one table."""

    def __init__(self, version: str, seed: int) -> None:
        self.version = version
        self.seed = seed
        self.random = Random(f"{version}/{seed}")
        self.is_legacy = version.startswith("0.")
        self.options: dict[str, str] = {}
        self.columns: dict[str, str] = {}
        self.timestamps: list[str] = []  # partition fields whose path is a formatted time

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def plan(self) -> Plan:
        kind, table_type = _KINDS[self.seed % len(_KINDS)]
        if kind == "rules" and self.version != "1.2.0":
            kind = "simple"
        plan = Plan(
            self.version, self.seed, kind, table_type, *self._keys(), self._num_buckets(kind)
        )
        self.is_mor = table_type == MOR
        self._basics(plan)
        self._partitions(plan)
        self._key_generator(plan)
        self._index(plan)
        self._ordering()
        self._files()
        self._services()
        for _ in range(self.random.randrange(2, 7)):
            kind_of_column = self.random.choice(COLUMN_TYPES)
            self.columns[f"c{len(self.columns)}"] = kind_of_column
        self.marks_deletes = self.chance(0.2)
        if self.marks_deletes:
            self.columns["_hoodie_is_deleted"] = "boolean"
        self._rows_pool(plan)
        self._steps(plan)
        return plan

    # -- the table

    def _keys(self) -> tuple[list[str], list[str] | None]:
        random = self.random
        count = random.choice((1, 1, 1, 2, 2, 3))
        fields = ["id", "k2", "k3"][:count]
        for name in fields:
            types = ("int", "bigint", "date", "decimal(18,9)", "boolean", "double")
            self.columns[name] = "string" if self.chance(0.75) else random.choice(types)
        if all(self.columns[name] == "boolean" for name in fields):
            self.columns["id"] = "string"
        hash_fields = None
        if self.chance(0.5 if count > 1 else 0.2):
            hash_fields = sorted(random.sample(fields, random.randrange(1, count + 1)))
        return fields, hash_fields

    def _num_buckets(self, kind: str) -> int:
        if kind == "consistent":
            return self.random.choice((1, 2, 3, 4, 7))
        return self.random.choice((1, 2, 2, 3, 4, 7, 7, 16, 64, 256))

    def _basics(self, plan: Plan) -> None:
        self.options |= {
            "hoodie.table.name": plan.name,
            "hoodie.datasource.write.table.type": plan.table_type,
            "hoodie.table.type": plan.table_type,
            "hoodie.datasource.write.recordkey.field": ",".join(plan.key_fields),
            "hoodie.metadata.enable": "true" if self.chance(0.12) else "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.compact.inline": "false",
        }
        for operation in ("upsert", "insert", "bulkinsert", "delete"):
            self.options[f"hoodie.{operation}.shuffle.parallelism"] = "2"

    def _partitions(self, plan: Plan) -> None:
        random = self.random
        count = random.choice((0, 0, 1, 1, 1, 2))
        self.encoded = count > 0 and self.chance(0.5)
        if count and self.chance(0.5):
            self.options["hoodie.datasource.write.hive_style_partitioning"] = "true"
        if self.encoded:
            self.options["hoodie.datasource.write.partitionpath.urlencode"] = "true"
        self.partition_values: dict[str, list[Any]] = {}
        for name in ("region", "kind")[:count]:
            kind = "string" if self.chance(0.8) else random.choice(("int", "date", "bigint"))
            plan.partition_fields.append(name)
            plan.partition_types.append(kind)
            self.columns[name] = kind
            values = {self._partition_value(kind) for _ in range(random.randrange(1, 4))}
            self.partition_values[name] = sorted(values, key=repr)
        plain = all(kind == "string" for kind in plan.partition_types)
        if count and plain and not self.is_legacy and self.chance(0.05):
            self.options["hoodie.datasource.write.drop.partition.columns"] = "true"

    def _partition_value(self, kind: str) -> Any:
        random = self.random
        if self.chance(0.1):
            return None
        if kind != "string":
            return random_value(random, kind, 0)
        if self.chance(0.5):
            return random.choice(("us", "eu", "ap", "a-1", "2024-01-01", "x_y", "7", "007"))
        if self.encoded:
            odd = ("a/b", "x=y", "sp ace", "pct%2F", "q?#", "a:b", "", "*", "[1]", "a\tb", "'q'")
            return random.choice((*odd, "ünï", "日本", "😀", "__HIVE", "x..y"))
        return random.choice(("ünï", "日本", "😀", "sp ace", "x.y", "a+b", "A", "e\u0301"))

    def _key_generator(self, plan: Plan) -> None:
        random = self.random
        fields, keys = plan.partition_fields, plan.key_fields
        paths = ",".join(fields)
        if not fields:
            generators = ["NonpartitionedKeyGenerator"]
        elif len(fields) == 1 and len(keys) == 1:
            generators = ["SimpleKeyGenerator", "SimpleKeyGenerator", "ComplexKeyGenerator"]
        else:
            generators = ["ComplexKeyGenerator"]
        if fields and self.chance(0.15):
            generators = ["CustomKeyGenerator"]
            paths = ",".join(f"{name}:SIMPLE" for name in fields)
        self.options["hoodie.datasource.write.partitionpath.field"] = paths
        self.generator = random.choice(generators)
        # Hudi 1.x finds the generator by the fields, where the fields tell it.
        is_usual = self.generator in ("NonpartitionedKeyGenerator", "SimpleKeyGenerator") or (
            self.generator == "ComplexKeyGenerator" and len(keys + fields) > 2
        )
        if self.is_legacy or not is_usual or self.chance(0.75):
            name = "hoodie.datasource.write.keygenerator.class"
            self.options[name] = f"{_KEYGEN}.{self.generator}"

    def _index(self, plan: Plan) -> None:
        self.options |= {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(plan.num_buckets),
            "hoodie.index.bucket.engine": "SIMPLE",
        }
        if plan.hash_fields is not None:
            self.options["hoodie.bucket.index.hash.field"] = ",".join(plan.hash_fields)
        if plan.kind == "consistent":
            self.options |= {
                "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
                "hoodie.bucket.index.min.num.buckets": "1",
                "hoodie.bucket.index.max.num.buckets": "32",
            }
        if plan.kind == "rules":
            words = ["^us", "p$", "=eu", "[0-9]+", ".*a.*", "region=(us|ap)$", "-"]
            chosen = self.random.sample(words, self.random.randrange(1, 4))
            rules = ";".join(f"{word},{self.random.choice((1, 2, 5, 8))}" for word in chosen)
            plan.partition_rules = rules
            self.options["hoodie.bucket.index.partition.expressions"] = rules
            self.options["hoodie.bucket.index.partition.rule.type"] = "regex"

    def _ordering(self) -> None:
        random = self.random
        name = "hoodie.datasource.write.precombine.field"
        self.columns["ts"] = "bigint" if self.chance(0.5) else random.choice(ORDERING_TYPES)
        if self.is_legacy:
            self.options[name] = "ts"
            payloads = ("OverwriteWithLatest", "DefaultHoodieRecord", "EventTime")
            payload = random.choice(payloads)
            suffix = "Payload" if payload == "DefaultHoodieRecord" else "AvroPayload"
            if self.chance(0.8):
                key = "hoodie.datasource.write.payload.class"
                self.options[key] = f"{_PAYLOADS}.{payload}{suffix}"
            return
        modes: tuple[str | None, ...] = (None, "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING")
        mode = random.choice(modes)
        if mode == "EVENT_TIME_ORDERING" or self.chance(0.8):
            self.options[name] = "ts"
            if self.version == "1.2.0" and self.chance(0.15):
                self.columns["ts2"] = random.choice(ORDERING_TYPES)
                self.options[name] = "ts,ts2"
        if mode:
            self.options["hoodie.write.record.merge.mode"] = mode

    def _files(self) -> None:
        random = self.random
        codecs = ("gzip", "snappy", "zstd", "uncompressed")
        self.options["hoodie.parquet.compression.codec"] = random.choice(codecs)
        self.options["hoodie.parquet.bloom.filter.enabled"] = random.choice(("true", "false"))
        if self.chance(0.3):
            self.options["hoodie.parquet.dictionary.enabled"] = "false"
        if self.chance(0.3):  # several row groups and pages
            self.options["hoodie.parquet.block.size"] = "4096"
            self.options["hoodie.parquet.page.size"] = "512"
        if self.is_mor and self.chance(0.3):
            self.options["hoodie.logfile.data.block.format"] = "parquet"
        if self.is_mor and self.chance(0.2):  # several blocks
            self.options["hoodie.logfile.data.block.max.size"] = "500"
        if self.is_mor and self.chance(0.1):  # several log files
            self.options["hoodie.logfile.max.size"] = "2000"
        if self.chance(0.08):
            self.options |= {
                "hoodie.table.cdc.enabled": "true",
                "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
            }
        if self.chance(0.08):
            self.options["hoodie.populate.meta.fields"] = "false"

    def _services(self) -> None:
        if self.chance(0.25):
            self.options |= {
                "hoodie.clean.automatic": "true",
                "hoodie.clean.commits.retained": "1",
                "hoodie.archive.automatic": "true",
                "hoodie.keep.min.commits": "2",
                "hoodie.keep.max.commits": "3",
            }
        if self.is_mor and self.chance(0.35):
            self.options |= {
                "hoodie.compact.inline": "true",
                "hoodie.compact.inline.max.delta.commits": str(self.random.choice((1, 2, 3))),
            }
        if self.is_mor and self.chance(0.1):
            self.options |= {
                "hoodie.log.compaction.inline": "true",
                "hoodie.log.compaction.blocks.threshold": "2",
            }

    # -- the rows

    def _rows_pool(self, plan: Plan) -> None:
        """Draw the keys of the table, each with its partition."""
        random = self.random
        wanted = random.choice((1, 10, 40, 40, 80, 150))
        self.pool: list[dict[str, Any]] = []
        seen = set()
        for _ in range(wanted * 2):
            keys = {name: self._key_value(plan, name) for name in plan.key_fields}
            partition = {n: random.choice(values) for n, values in self.partition_values.items()}
            if len(self.pool) < wanted and self._is_writable(plan, keys):
                row = {**keys, **partition}
                if repr(row) not in seen:
                    seen.add(repr(row))
                    self.pool.append(row)
        if not self.pool:
            self.columns["id"] = "string"
            partition = {name: values[0] for name, values in self.partition_values.items()}
            keys = {name: random_value(random, self.columns[name], 0) for name in plan.key_fields}
            self.pool.append({**keys, "id": "only", **partition})

    def _key_value(self, plan: Plan, name: str) -> Any:
        random, kind = self.random, self.columns[name]
        if len(plan.key_fields) > 1 and self.chance(0.05):
            return random.choice((None, "")) if kind == "string" else None
        return random_text(random) if kind == "string" else random_value(random, kind, 0)

    def _is_writable(self, plan: Plan, keys: dict[str, Any]) -> bool:
        """Whether Hudi takes the key, and comes back from hashing it."""
        texts = {name: "" if value is None else str(value) for name, value in keys.items()}
        if not any(texts.values()):
            return False
        if self.is_legacy:
            return True
        hash_fields = plan.hash_fields or plan.key_fields
        named = ",".join(
            f"{name}:{'__null__' if keys[name] is None else text or '__empty__'}"
            for name, text in texts.items()
        )
        bare = next(iter(texts.values()))
        forms = (named, bare) if len(texts) == 1 else (named,)
        return not any(hudi_never_returns(form, hash_fields) for form in forms)

    def _rows(self, share: float, newest: int) -> list[dict[str, Any]]:
        """Draw rows for a share of the keys, their ordering values up to `newest`."""
        random = self.random
        chosen = [key for key in self.pool if self.chance(share)] or [random.choice(self.pool)]
        if self.chance(0.2):
            chosen += random.sample(chosen, min(3, len(chosen)))  # twice in one batch
        rows = []
        for key in chosen:
            row = dict(key)
            for name, kind in self.columns.items():
                if name in ("ts", "ts2"):
                    row[name] = ordering_value(kind, random.randrange(max(0, newest - 4), newest))
                elif name == "_hoodie_is_deleted":
                    row[name] = random.choice((None, False, False, False, True))
                elif name not in row:
                    row[name] = random_value(random, kind)
            rows.append(row)
        return rows

    # -- the writes

    def _steps(self, plan: Plan) -> None:
        random = self.random
        first = random.choice(("upsert", "insert", "bulk_insert"))
        if first == "bulk_insert" and not plan.steps and self._is_virtual:
            first = "insert"
        self._add(plan, first, self._rows(0.6, 4))
        operations = ["upsert"] * 9 + ["delete"] * 3 + ["insert", "insert_overwrite"]
        operations += ["delete_partition", "fail", "insert_overwrite_table"]
        if plan.kind == "consistent":
            operations = [name for name in operations if not name.startswith("insert_overwrite")]
        for number in range(random.randrange(2, 6)):
            newest = 5 + 3 * number
            operation = random.choice(operations)
            if number == 1 and self.chance(0.2):
                self.columns["added"] = random.choice(COLUMN_TYPES)
            if operation == "fail":
                self._add(plan, "upsert", self._rows(0.3, newest), _FAILING)
            elif operation == "delete_partition":
                self._delete_partition(plan)
            elif operation == "delete":
                self._add(plan, "delete", self._rows(0.15, newest))
            elif operation.startswith("insert_overwrite"):
                self._add(plan, operation, self._rows(0.2, newest))
            else:
                self._add(plan, operation, self._rows(random.choice((0.1, 0.4, 0.8)), newest))

    @property
    def _is_virtual(self) -> bool:
        return self.options.get("hoodie.populate.meta.fields") == "false"

    def _delete_partition(self, plan: Plan) -> None:
        """Delete one partition, where its path can be told without escaping."""
        if len(plan.partition_fields) != 1:
            return
        value = self.random.choice(self.partition_values[plan.partition_fields[0]])
        if not isinstance(value, str) or not value.isalnum() or not value.isascii():
            return
        hive = "hoodie.datasource.write.hive_style_partitioning" in self.options
        path = f"{plan.partition_fields[0]}={value}" if hive else value
        gone = {"hoodie.datasource.write.partitions.to.delete": path}
        self._add(plan, "delete_partition", [], gone)

    def _add(
        self,
        plan: Plan,
        operation: str,
        rows: list[dict[str, Any]],
        options: dict[str, str] | None = None,
    ) -> None:
        own = {"hoodie.datasource.write.operation": operation, **(options or {})}
        if operation == "bulk_insert":
            own["hoodie.datasource.write.row.writer.enable"] = self.random.choice(("true", "false"))
        if plan.kind == "consistent" and plan.steps:
            own |= _RESIZING
            clustering = self.random.choice(("", "", "inline", "schedule.inline"))
            if clustering and operation == "upsert" and not options:
                own |= {
                    f"hoodie.clustering.{clustering}": "true",
                    "hoodie.parquet.max.file.size": self.random.choice(("2000", "200000")),
                }
        if self.is_mor and operation == "upsert" and self.chance(0.05):
            own["hoodie.compact.schedule.inline"] = "true"
            own["hoodie.compact.inline"] = "false"
            own["hoodie.compact.inline.max.delta.commits"] = "1"
        schema = ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())
        plan.steps.append(Step(operation, {**self.options, **own}, schema, rows))
