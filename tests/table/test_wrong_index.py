"""An index that is not the table's is refused, or what comes of it is exact.

Tables that do not record their index are opened with every index but their own. Whatever is done
with them raises before the first byte, or gives what it gives with the right index.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.table.tables import forget_index, state_buckets

REFUSALS = (ValueError, bf.IndexUnknownError, bf.UnsupportedError)
NUMBERS = (1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 256)

Rows = dict[tuple[str, str, str], int]
"""What a table holds: the value of each (partition, id, kind)."""


def table_of(rows: Rows) -> pa.Table:
    paths, ids, kinds = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"p": paths, "id": ids, "kind": kinds}
    return pa.table(
        {
            **{name: pa.array(values, pa.string()) for name, values in columns.items()},
            "v": pa.array(rows.values(), pa.int64()),
        }
    )


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.select(["p", "id", "kind", "v"]).to_pylist())


def make(root: Path, index: bf.Index, rows: Rows, *, is_mor: bool = False) -> Path:
    """Return a table that does not record its index."""
    table = bf.create(
        root,
        schema=table_of({}).schema,
        record_key=["id", "kind"],
        partition_by=["p"],
        index=index,
        table_type="MERGE_ON_READ" if is_mor else "COPY_ON_WRITE",
    )
    table.upsert(table_of(rows))
    return forget_index(root)


def write_by_another(root: Path, num_buckets: int, rows: Rows) -> None:
    """Write rows as one does who believes in another number of buckets."""
    bf.open(state_buckets(root, num_buckets)).upsert(table_of(rows))
    forget_index(root)


def some_rows(random: Random, sizes: dict[str, int]) -> Rows:
    return {
        (path, f"id-{random.randrange(10**6)}", f"kind {random.randrange(999)}"): random.randrange(
            99
        )
        for path, size in sizes.items()
        for _ in range(size)
    }


def wrong_indexes(right: bf.SimpleBucketIndex) -> Iterator[bf.Index]:
    for number in NUMBERS:
        for fields in (None, ("id",), ("kind",)):
            index = bf.SimpleBucketIndex(number, fields)
            # With one bucket the hash fields make no difference.
            if index != right and (number, right.num_buckets) != (1, 1):
                yield index
    yield bf.PartitionBucketIndex(
        right.num_buckets, f"new,{right.num_buckets + 3}", right.hash_fields
    )
    yield bf.ConsistentHashingIndex(right.num_buckets)
    yield bf.RecordIndex()
    yield bf.BloomIndex()


def check_reads(root: Path, index: bf.Index | None, rows: Rows, where: dict[str, str]) -> list[str]:
    """Return the reads that were refused, once the others are found exact.

    Args:
        root: A table.
        index: What to open it with.
        rows: What it holds.
        where: The file group of each record key.
    """
    some = sorted(rows)[:: max(1, len(rows) // 7)]
    keys = pa.table({name: [key[i] for key in some] for i, name in enumerate(["p", "id", "kind"])})
    of_one = {key: value for key, value in rows.items() if key == some[0]}
    absent = [f"id:nowhere{i},kind:none" for i in range(3)]

    def lookup(table: bf.Table) -> None:
        assert rows_of(table.lookup(keys)) == rows_of(table_of({key: rows[key] for key in some}))
        assert table.lookup(absent).num_rows == 0

    def locate(table: bf.Table) -> None:
        located = table.locate(keys).to_pylist()
        assert [row["file_id"] for row in located] == [
            where[f"{path}/id:{id_},kind:{kind}"] for path, id_, kind in some
        ]

    def scan(table: bf.Table) -> None:
        path, id_, kind = some[0]
        row_filter = [("id", "=", id_), ("kind", "=", kind), ("p", "=", path)]
        assert rows_of(table.scan(filter=row_filter).to_arrow()) == rows_of(table_of(of_one))
        by_id = table.scan(filter=[("id", "=", id_)]).to_arrow()
        assert (path, id_, kind, rows[some[0]]) in rows_of(by_id)

    refused = []
    for read in (lookup, locate, scan):
        try:
            read(bf.open(root, index=index))
        except REFUSALS:  # noqa: PERF203
            refused.append(read.__name__)
    return refused


def check_writes(root: Path, index: bf.Index | None, rows: Rows, scratch: Path) -> list[str]:
    """Return the writes that were refused, once the others are found exact. As `check_reads`."""
    old, new = sorted(rows)[::3], ("new", "id-new", "kind new")
    changed = dict.fromkeys(old, -1)
    writes: list[tuple[str, Callable[[bf.Table], object], Rows]] = [
        ("upsert", lambda t: t.upsert(table_of(changed)), {**rows, **changed}),
        ("insert", lambda t: t.insert(table_of({new: 7})), {**rows, new: 7}),
        (
            "delete",
            lambda t: t.delete(table_of(changed).drop_columns("v")),
            {key: value for key, value in rows.items() if key not in changed},
        ),
    ]
    refused = []
    for name, write, after in writes:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(root, scratch)
        before = files_of(scratch)
        try:
            write(bf.open(scratch, index=index))
        except REFUSALS:
            refused.append(name)
            assert files_of(scratch) == before, "something was written before the refusal"
        else:
            assert rows_of(bf.open(scratch).scan().to_arrow()) == rows_of(table_of(after))
    return refused


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def file_groups(root: Path) -> dict[str, str]:
    """The file group of each record key, as `partition/key`, by looking into every file."""
    columns = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
    rows = bf.open(root).scan(columns).to_arrow().to_pylist()
    return {f"{path}/{key}": name.split("_")[0] for path, key, name in (r.values() for r in rows)}


SIZES = {
    "even": {"a": 40, "b": 40, "c": 40},
    "skewed": {"a": 90, "b": 3, "c": 1},
    "tiny": {"a": 1, "b": 1},
}


@pytest.mark.parametrize("is_mor", [False, True], ids=["cow", "mor"])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_wrong_index_is_refused_or_harmless(tmp_path: Path, sizes: str, is_mor: bool) -> None:
    random = Random(f"{sizes} {is_mor}")
    fields = random.choice([None, ("id",), ("kind",)])
    right = bf.SimpleBucketIndex(random.choice([2, 4, 6, 16]), fields)
    rows = some_rows(random, SIZES[sizes])
    root = make(tmp_path / "t", right, rows, is_mor=is_mor)
    where = file_groups(root)
    assert check_reads(root, right, rows, where) == []
    assert check_writes(root, right, rows, tmp_path / "copy") == []
    for index in random.sample(list(wrong_indexes(right)), 10):
        check_reads(root, index, rows, where)
        refused = check_writes(root, index, rows, tmp_path / "copy")
        if isinstance(index, bf.PartitionBucketIndex):  # right but for the partition "new"
            assert sizes == "tiny" or refused == ["insert"]
        elif sizes != "tiny":  # too few keys prove nothing, and what fits them does no harm
            assert refused == ["upsert", "insert", "delete"], index


def numbered(*sizes: tuple[str, int]) -> Rows:
    return {(path, f"id-{i * 7919}", "k"): i for path, size in sizes for i in range(size)}


class TestNumbersOfBuckets:
    """Each of these was accepted once."""

    def test_twice_the_number(self, tmp_path: Path) -> None:
        rows = numbered(("a", 400))
        root = make(tmp_path / "t", bf.SimpleBucketIndex(16), rows)
        with pytest.raises(ValueError, match="contradicts the table: it puts key id:"):
            bf.open(root, index=bf.SimpleBucketIndex(32)).upsert(table_of(rows))
        bf.open(root, index=bf.SimpleBucketIndex(16)).upsert(table_of(rows))
        assert bf.open(root).scan().count() == 400

    def test_half_the_number_for_a_new_partition(self, tmp_path: Path) -> None:
        root = make(tmp_path / "t", bf.SimpleBucketIndex(32), numbered(("a", 400)))
        table = bf.open(root, index=bf.SimpleBucketIndex(16))
        with pytest.raises(ValueError, match="contradicts the table: file group") as caught:
            table.insert(table_of(numbered(("new", 1))))
        assert "partition 'a'" in str(caught.value)
        assert bf.open(root).inspect.partitions()["partition_path"].to_pylist() == ["a"]

    def test_a_number_that_one_partition_proves_and_another_does_not(self, tmp_path: Path) -> None:
        """As where somebody changed the number between the first writes to two partitions."""
        rows = numbered(("a", 40), ("b", 40))
        root = make(tmp_path / "t", bf.SimpleBucketIndex(4), numbered(("a", 40)))
        write_by_another(root, 3, numbered(("b", 40)))
        table = bf.open(root, index=bf.SimpleBucketIndex(4))
        in_a = table_of({key: v for key, v in rows.items() if key[0] == "a"})
        in_b = table_of({key: v for key, v in rows.items() if key[0] == "b"})
        assert table.lookup(in_a.drop_columns("v")).num_rows == 40
        for use in (table.lookup, table.locate):
            with pytest.raises(ValueError, match=r"contradicts the table: .*partition 'b'"):
                use(in_b.drop_columns("v"))
        assert bf.open(root).lookup(in_b.drop_columns("v")).num_rows == 40

    @pytest.mark.parametrize(("number", "fits"), [(4, False), (16, True)])
    def test_what_one_key_does_not_tell_its_siblings_do(
        self, tmp_path: Path, number: int, fits: bool
    ) -> None:
        """The key is in bucket 3, be it one of 4 or of 16."""
        rows = numbered(("a", 400))
        lone = ("b", "id-39595", "k")
        root = make(tmp_path / "t", bf.SimpleBucketIndex(16), {**rows, lone: 0})
        where = file_groups(root)[f"b/id:{lone[1]},kind:k"]
        assert where.startswith("00000003-")
        table = bf.open(root, index=bf.SimpleBucketIndex(number))
        key = table_of({lone: 5})
        if fits:
            assert table.locate(key)["file_id"].to_pylist() == [where]
            table.upsert(key)
            assert bf.open(root).scan().count() == 401
            return
        for use in (table.locate, table.lookup, table.upsert):
            with pytest.raises(ValueError, match="contradicts the table: file group"):
                use(key)

    def test_a_number_whose_multiple_fits_as_well(self, tmp_path: Path) -> None:
        """All rows are in the lower half of the buckets: half the number fits every key too."""
        rows = numbered(("a", 400))
        right = bf.SimpleBucketIndex(8)
        root = make(tmp_path / "all", right, rows)
        where = file_groups(root)
        lower = {
            k: v for k, v in rows.items() if where[f"a/id:{k[1]},kind:{k[2]}"][:8] < "00000004"
        }
        root = make(tmp_path / "t", right, lower)
        assert bf.open(root).index is None
        with pytest.raises(bf.IndexUnknownError, match="fit 8 buckets, and so any divisor"):
            bf.open(root, index=bf.SimpleBucketIndex(4)).upsert(table_of(numbered(("new", 1))))
        bf.open(root, index=right).upsert(table_of(rows))
        assert bf.open(root).scan().count() == 400

    def test_file_groups_that_hold_one_key_each(self, tmp_path: Path) -> None:
        rows = numbered(("a", 30))
        root = make(tmp_path / "t", bf.SimpleBucketIndex(4096), rows)
        for number in (2048, 8192):
            with pytest.raises(REFUSALS):
                bf.open(root, index=bf.SimpleBucketIndex(number)).upsert(table_of(rows))
        bf.open(root, index=bf.SimpleBucketIndex(4096)).upsert(table_of(rows))
        assert bf.open(root).scan().count() == 30


class TestEngines:
    def test_a_ring_where_there_is_no_hashing_metadata(self, tmp_path: Path) -> None:
        rows = numbered(("a", 40))
        root = make(tmp_path / "t", bf.SimpleBucketIndex(4), rows, is_mor=True)
        table = bf.open(root, index=bf.ConsistentHashingIndex(4))
        for use in (table.locate, table.lookup, table.upsert):
            with pytest.raises(ValueError, match="no consistent hashing metadata"):
                use(table_of(rows))

    def test_hash_fields_of_a_ring_are_held_against_its_keys(self, tmp_path: Path) -> None:
        rows = some_rows(Random(1), {"a": 60})
        right = bf.ConsistentHashingIndex(4, hash_fields=("id",))
        root = make(tmp_path / "t", right, rows, is_mor=True)
        for fields in (("kind",), None):
            wrong = bf.ConsistentHashingIndex(4, hash_fields=fields)
            for use in ("locate", "lookup", "upsert"):
                with pytest.raises(ValueError, match="contradicts the table: it puts key"):
                    getattr(bf.open(root, index=wrong), use)(table_of(rows))
        assert bf.open(root, index=right).lookup(table_of(rows)).num_rows == 60


class TestStatedByTheTable:
    """File ids that contradict what the table states make the index unknown, not wrong rows."""

    def test_more_file_groups_than_buckets(self, tmp_path: Path) -> None:
        rows = numbered(("a", 100), ("b", 100))
        root = make(tmp_path / "t", bf.SimpleBucketIndex(6), rows)
        path = root / ".hoodie" / "hoodie.properties"
        stated = "hoodie.index.type=BUCKET\nhoodie.bucket.index.num.buckets=4\n"
        path.write_text(path.read_text() + stated)
        table = bf.open(root)
        assert rows_of(table.lookup(table_of(rows).drop_columns("v"))) == rows_of(table_of(rows))
        for key in sorted(rows)[::20]:
            found = table.scan(filter=[("id", "=", key[1]), ("kind", "=", "k"), ("p", "=", key[0])])
            assert found.to_arrow()["v"].to_pylist() == [rows[key]]
        with pytest.raises(bf.IndexUnknownError, match="is in no bucket of the index"):
            table.upsert(table_of(rows))


def test_an_inferred_index_that_a_partition_contradicts(tmp_path: Path) -> None:
    """One partition of many was written with another number, and the sample missed it."""
    others = [f"p{i:02d}" for i in range(20) if i != 10]
    stray = numbered(("p10", 40))
    root = make(tmp_path / "t", bf.SimpleBucketIndex(4), numbered(*[(p, 40) for p in others]))
    write_by_another(root, 3, stray)
    table = bf.open(root)
    assert table.index == bf.SimpleBucketIndex(4)
    keys = table_of(stray).drop_columns("v")
    assert table.lookup(keys).num_rows == 40, "all file groups of the partition are looked into"
    for use in (table.locate, table.upsert):
        with pytest.raises(bf.IndexUnknownError, match="does not hold here") as caught:
            use(table_of(stray))
        assert caught.value.partition == "p10"
