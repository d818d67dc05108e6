"""Opens tables with every index but their own, and with their own.

Each operation raises a typed error before the first byte, or does what it does with the right
index, next to a dictionary. After each write that was done, the table still tells its index, and
the index is right.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.plan_create import plan_properties
from soak.figures import tell_figures
from soak.progress import Progress

__all__ = [
    "REFUSALS",
    "SIZES",
    "WRITES",
    "Outcome",
    "Rows",
    "Subject",
    "Trial",
    "random_subjects",
    "rows_of",
    "run_subjects",
    "table_of",
    "wrong_indexes",
]

REFUSALS = (ValueError, bf.IndexUnknownError, bf.UnsupportedError)
SIZES: Mapping[str, Mapping[str, int]] = {
    "even": {"a": 40, "b": 40, "c": 40},
    "skewed": {"a": 90, "b": 3, "c": 1},
    "many": {f"p{number:02}": 6 for number in range(12)},
    "few": {"a": 9, "b": 8},
    "tiny": {"a": 1, "b": 1},
}
"""How many keys the partitions of a table have."""

_NUMBERS = (1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 256)
_NEW = "new"
_PROPERTIES = ".hoodie/hoodie.properties"
_LOCKS = ".hoodie/.locks/"

Rows = dict[tuple[str, str, str], int]
"""What a table holds: the value of each (partition, id, kind)."""


@dataclass(frozen=True)
class Subject:
    """A table to be opened with wrong indexes.

    Attributes:
        version: Of the table.
        form: `cow`, `mor`, or `logs`: merge-on-read without a base file, as Flink writes.
        index: Its own.
        sizes: How many keys its partitions have: one of `SIZES`.
        is_recorded: Whether hoodie.properties states its index.
        pins: Whether writers record it.
        seed: Of its keys.
    """

    version: int
    form: str
    index: bf.SimpleBucketIndex | bf.ConsistentHashingIndex | bf.PartitionBucketIndex
    sizes: str
    is_recorded: bool
    pins: bool
    seed: int


@dataclass
class Outcome:
    """What came of one index.

    Attributes:
        refused: The operations that were refused.
        exact: The operations that were done.
        bad: What is wrong; empty if nothing is.
    """

    refused: list[str] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


def random_subjects(seed: int) -> Iterator[Subject]:
    """Yield tables without end."""
    random = Random(seed)  # noqa: S311  (trials, no secret)
    for number in count():
        version = random.choice([6, 8, 9])
        # Only tables from version 8 on can be written without base files here.
        form = random.choice(["cow", "mor", "mor"] if version == 6 else ["cow", "mor", "logs"])
        fields = random.choice([None, ("id",), ("kind",)])
        buckets = random.choice([1, 2, 3, 4, 6, 16])
        index: bf.SimpleBucketIndex | bf.ConsistentHashingIndex | bf.PartitionBucketIndex
        index = bf.SimpleBucketIndex(buckets, fields)
        if form == "mor" and random.random() < 0.25:
            index = bf.ConsistentHashingIndex(buckets + 1, hash_fields=fields)
        elif version == 9 and form != "logs" and random.random() < 0.25:
            index = bf.PartitionBucketIndex(buckets, f"a,{buckets + 1}", fields)
        sizes, is_recorded = random.choice(list(SIZES)), random.random() < 0.2
        yield Subject(version, form, index, sizes, is_recorded, random.random() < 0.5, number)


def wrong_indexes(subject: Subject) -> Iterator[bf.Index]:
    """Yield indexes that the table does not have: other numbers, hash fields and engines."""
    right = subject.index
    buckets = right.default if isinstance(right, bf.PartitionBucketIndex) else right.num_buckets
    for number in _NUMBERS:
        for fields in (None, ("id",), ("kind",)):
            index = bf.SimpleBucketIndex(number, fields)
            # With one bucket the hash fields make no difference.
            is_one = isinstance(right, bf.SimpleBucketIndex) and number == buckets == 1
            if index != right and not is_one:
                yield index
    yield bf.PartitionBucketIndex(buckets, f"{_NEW},{buckets + 3}", right.hash_fields)
    for fields in (None, ("id",), ("kind",)):
        ring = bf.ConsistentHashingIndex(buckets, hash_fields=fields)
        if ring != right:
            yield ring
    yield bf.RecordIndex()
    yield bf.BloomIndex()


# --- rows


def table_of(rows: Rows) -> pa.Table:
    """Return rows to write."""
    paths, ids, kinds = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"p": paths, "id": ids, "kind": kinds}
    return pa.table(
        {
            **{name: pa.array(values, pa.string()) for name, values in columns.items()},
            "v": pa.array(rows.values(), pa.int64()),
        }
    )


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    """Return what was read, in order."""
    return sorted(tuple(row.values()) for row in table.select(["p", "id", "kind", "v"]).to_pylist())


def _keys_of(keys: Sequence[tuple[str, str, str]]) -> pa.Table:
    return table_of(dict.fromkeys(keys, 0)).drop_columns("v")


def _random_rows(random: Random, sizes: Mapping[str, int]) -> Rows:
    found: Rows = {}
    for path, size in sizes.items():
        for _ in range(size):
            id_, kind = f"id-{random.randrange(10**6)}", f"kind {random.randrange(999)}"
            found[path, id_, kind] = random.randrange(99)
    return found


# --- tables


def _make(subject: Subject) -> tuple[MemoryStore, Rows]:
    rows = _random_rows(Random(subject.seed), SIZES[subject.sizes])  # noqa: S311
    store = MemoryStore()
    properties = plan_properties(
        name="t",
        schema=table_of({}).schema,
        record_key=["id", "kind"],
        partition_by=["p"],
        index=subject.index,
        table_type="COPY_ON_WRITE" if subject.form == "cow" else "MERGE_ON_READ",
        table_version=subject.version,
    )
    create_table(store, properties, subject.index)
    concurrency = "non_blocking" if subject.form == "logs" else "optimistic"
    writer = bf.WriterConfig(lock="process", concurrency=concurrency)  # type: ignore[arg-type]
    _open(store, None, writer).upsert(table_of(rows))
    if not subject.is_recorded:
        _forget_index(store)
    return store, rows


def _forget_index(store: MemoryStore) -> None:
    """Take the index out of hoodie.properties, as Hudi leaves the file."""
    lines = store.files[_PROPERTIES].splitlines(keepends=True)
    stated = (b"hoodie.index.", b"hoodie.bucket.index.")
    store.files[_PROPERTIES] = b"".join(line for line in lines if not line.startswith(stated))


def _open(store: MemoryStore, index: bf.Index | None, writer: bf.WriterConfig) -> bf.Table:
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, index, writer)


def _file_groups(table: bf.Table) -> dict[str, str]:
    """Return the file group of each record key, as `partition/key`, by a look into every file."""
    columns = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
    found = table.scan(columns).to_arrow().to_pylist()
    return {f"{path}/{key}": name.split("_")[0] for path, key, name in (r.values() for r in found)}


# --- operations


class _WrongError(Exception):
    """An operation was done and is not exact."""


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise _WrongError(otherwise)


def _look_up(table: bf.Table, rows: Rows, groups: Mapping[str, str]) -> None:
    some = _some(rows)
    found = rows_of(table.lookup(_keys_of(some)))
    _require(found == rows_of(table_of({key: rows[key] for key in some})), f"it found {found}")
    absent = table.lookup([f"id:nowhere{i},kind:none" for i in range(3)])
    _require(absent.num_rows == 0, "it found keys that are not there")


def _locate(table: bf.Table, rows: Rows, groups: Mapping[str, str]) -> None:
    some = _some(rows)
    located = [row["file_id"] for row in table.locate(_keys_of(some)).to_pylist()]
    wanted = [groups[f"{path}/id:{id_},kind:{kind}"] for path, id_, kind in some]
    _require(located == wanted, f"it located {located}, not {wanted}")


def _scan(table: bf.Table, rows: Rows, groups: Mapping[str, str]) -> None:
    key = path, id_, kind = _some(rows)[0]
    by_key = [("id", "=", id_), ("kind", "=", kind), ("p", "=", path)]
    found = rows_of(table.scan(filter=by_key).to_arrow())
    _require(found == rows_of(table_of({key: rows[key]})), f"by key it found {found}")
    by_id = rows_of(table.scan(filter=[("id", "=", id_)]).to_arrow())
    wanted = {key: value for key, value in rows.items() if key[1] == id_}
    _require(by_id == rows_of(table_of(wanted)), f"by id it found {by_id}")


def _some(rows: Rows) -> list[tuple[str, str, str]]:
    return sorted(rows)[:: max(1, len(rows) // 7)]


_READS: Mapping[str, Callable[[bf.Table, Rows, Mapping[str, str]], None]] = {
    "lookup": _look_up,
    "locate": _locate,
    "scan": _scan,
}


def _upsert(table: bf.Table, rows: Rows) -> Rows:
    path = min(rows)[0]
    changed = {**dict.fromkeys(sorted(rows)[::3], -1), (path, "id-new", "kind new"): 7}
    table.upsert(table_of(changed))
    return {**rows, **changed}


def _insert(table: bf.Table, rows: Rows) -> Rows:
    """One row into a new partition."""
    added = {(_NEW, "id-new", "kind new"): 7}
    table.insert(table_of(added))
    return {**rows, **added}


def _delete(table: bf.Table, rows: Rows) -> Rows:
    gone = sorted(rows)[::3]
    table.delete(_keys_of(gone))
    return {key: value for key, value in rows.items() if key not in gone}


def _bulk_insert(table: bf.Table, rows: Rows) -> Rows:
    added = {(_NEW, f"id-{i * 7919}", f"kind {i}"): i for i in range(12)}
    table.bulk_insert(table_of(added))
    return {**rows, **added}


WRITES: Mapping[str, Callable[[bf.Table, Rows], Rows]] = {
    "upsert": _upsert,
    "insert": _insert,
    "delete": _delete,
    "bulk_insert": _bulk_insert,
}
"""Each writes to a table that holds rows, and returns what the table then holds."""


# --- trials


class Trial:
    """A table of random rows, to be opened with one index after another."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._store, self._rows = _make(subject)
        self._writer = bf.WriterConfig(lock="process", pin_index=subject.pins)
        plain = self._open(self._store)
        self._groups = _file_groups(plain)
        self._told = plain.index

    def try_index(self, index: bf.Index | None) -> Outcome:
        """Do everything with one index, or with what the table tells itself where it is None."""
        outcome = Outcome()
        for name in (*_READS, *WRITES):
            store = self._store.copy()
            try:
                if name in _READS:
                    _READS[name](self._open(store, index), self._rows, self._groups)
                else:
                    self._write(name, store, index)
            except REFUSALS as error:
                outcome.refused.append(name)
                if _content(store) != _content(self._store):
                    outcome.bad.append(f"{name} wrote before it was refused: {error}")
            except (_WrongError, bf.BucketfmtError) as error:
                outcome.bad.append(f"{name}: {type(error).__name__}: {error}")
            else:
                outcome.exact.append(name)
        # Partition rules may leave a partition alone with its number of buckets, and few keys.
        is_provable = not isinstance(index, bf.PartitionBucketIndex)
        if index == self.subject.index and outcome.refused and is_provable:
            outcome.bad.append(f"its own index is refused: {outcome.refused}")
        outcome.bad = [f"{self.subject}, index={index}: {text}" for text in outcome.bad]
        return outcome

    def _open(self, store: MemoryStore, index: bf.Index | None = None) -> bf.Table:
        config = load_config(store, DEFAULT_LIMITS)
        return bf.Table(store, config, DEFAULT_LIMITS, index, self._writer)

    def _write(self, name: str, store: MemoryStore, index: bf.Index | None) -> None:
        after = WRITES[name](self._open(store, index), self._rows)
        try:
            self._look_at(name, store, index, after)
        except REFUSALS as error:
            raise _WrongError(f"afterwards {type(error).__name__}: {error}") from error

    def _look_at(self, name: str, store: MemoryStore, index: bf.Index | None, after: Rows) -> None:
        """Look at what a write left as whoever opens the table next does, without an index."""
        table = self._open(store)
        found = rows_of(table.scan().to_arrow())
        _require(found == rows_of(table_of(after)), f"it left {found}")
        if table.index is not None:
            groups = _file_groups(table)
            for read in _READS.values():
                read(table, after, groups)
        findings = [f for f in table.check(depth="full").findings if f.severity == "error"]
        _require(not findings, f"the check finds {findings}")
        right = self.subject.index
        if index not in (None, right):
            return
        if self._told is not None and name != "delete":  # with keys evidence may go
            _require(table.index is not None, "the table no longer tells its index")
        if table.index is not None:
            _require(
                _place(table.index, after) == _place(right, after),
                f"the table tells {table.index}",
            )
        if index == right and self.subject.pins:
            _require(table.resolved_index.is_recorded, "the index is not recorded")


def _content(store: MemoryStore) -> dict[str, bytes]:
    return {path: data for path, data in store.files.items() if not path.startswith(_LOCKS)}


def _place(index: bf.Index, rows: Rows) -> object:
    """Return what tells whether two indexes place the rows of a table alike."""
    if isinstance(index, bf.ConsistentHashingIndex):  # the ring itself is in the table
        return "ring", index.hash_fields or ("id", "kind")
    if isinstance(index, bf.PartitionBucketIndex):
        return index.default, index.rules, index.hash_fields or ("id", "kind")
    if isinstance(index, bf.SimpleBucketIndex):
        fields = index.hash_fields or ("id", "kind")
        return index.num_buckets, fields if index.num_buckets > 1 else ()
    return index


def run_subjects(seed: int, *, minutes: float, save: bool) -> int:
    """Try random tables for some minutes, print what came of it, and return 1 if anything is bad.

    Args:
        seed: Of the tables.
        minutes: Begin no table after this.
        save: Keep the figures for the report.
    """
    until = time.monotonic() + minutes * 60
    sums: dict[str, Counter[str]] = {}
    progress = Progress()
    for number, subject in enumerate(random_subjects(seed), 1):
        if time.monotonic() > until:
            break
        trial = Trial(subject)
        given = [None, subject.index, *wrong_indexes(subject)]
        outcomes = [trial.try_index(index) for index in given]
        for text in (text for outcome in outcomes for text in outcome.bad):
            print(f"\n{text}")
        sums.setdefault(f"{subject.version}-{subject.form}", Counter()).update(
            {
                "tables": 1,
                "wrong indexes": len(given) - 2,
                "refused": sum(len(outcome.refused) for outcome in outcomes),
                "exact": sum(len(outcome.exact) for outcome in outcomes),
                "bad": sum(len(outcome.bad) for outcome in outcomes),
            }
        )
        progress.tell(f"{number} tables")
    progress.end()
    saved = [{"table": form, **total} for form, total in sorted(sums.items())]
    return tell_figures(saved, "indexes", save=save)
