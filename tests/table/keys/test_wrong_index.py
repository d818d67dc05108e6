"""An index that is not the table's is refused, or what comes of it is exact.

Tables that do not record their index are opened with every index but their own. Whatever is done
with them raises before the first byte, or gives what it gives with the right index.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random

import pytest

import bucketfmt as bf
from soak.works.indexes import (
    REFUSALS,
    WRITES,
    Rows,
    Subject,
    Trial,
    random_subjects,
    rows_of,
    table_of,
    wrong_indexes,
)
from tests.table.tables import forget_index, state_buckets


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


def file_groups(root: Path) -> dict[str, str]:
    """The file group of each record key, as `partition/key`, by looking into every file."""
    columns = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
    rows = bf.open(root).scan(columns).to_arrow().to_pylist()
    return {f"{path}/{key}": name.split("_")[0] for path, key, name in (r.values() for r in rows)}


SUBJECTS = [
    Subject(9, "cow", bf.SimpleBucketIndex(6), "even", is_recorded=False, pins=True, seed=1),
    Subject(6, "mor", bf.SimpleBucketIndex(4, ("id",)), "skewed", False, pins=False, seed=2),
    Subject(8, "logs", bf.SimpleBucketIndex(4), "even", is_recorded=False, pins=False, seed=3),
    Subject(9, "mor", bf.ConsistentHashingIndex(3, hash_fields=("kind",)), "few", False, True, 4),
    Subject(6, "cow", bf.SimpleBucketIndex(16), "tiny", is_recorded=False, pins=True, seed=5),
    Subject(8, "mor", bf.SimpleBucketIndex(2), "few", is_recorded=True, pins=True, seed=6),
]
PROVING = ("even", "skewed")


@pytest.mark.rotated(0)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.version}-{s.form}-{s.sizes}")
def test_a_wrong_index_is_refused_or_harmless(subject: Subject) -> None:
    trial = Trial(subject)
    wrong = Random(subject.seed).sample(list(wrong_indexes(subject)), 4)
    for index in (None, subject.index, *wrong):
        outcome = trial.try_index(index)
        assert not outcome.bad, "\n".join(outcome.bad)
        refused = [name for name in outcome.refused if name in WRITES]
        if index in wrong and subject.sizes in PROVING:  # few keys prove nothing
            # Rules that are right but for the partition "new" are refused for that partition.
            in_new = ["insert", "bulk_insert"]
            is_right_elsewhere = isinstance(index, bf.PartitionBucketIndex)
            assert refused == (in_new if is_right_elsewhere else list(WRITES)), index


def test_tables_are_of_all_kinds_and_the_same_each_time() -> None:
    some = list(islice(random_subjects(0), 300))
    assert some == list(islice(random_subjects(0), 300))
    kinds = {(subject.version, subject.form) for subject in some}
    assert kinds == {(v, f) for v in (6, 8, 9) for f in ("cow", "mor", "logs")} - {(6, "logs")}


def test_what_is_not_exact_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_a_row(table: bf.Table, rows: Rows) -> Rows:
        table.delete(table_of(dict([min(rows.items())])).drop_columns("v"))
        return rows

    def record_another(table: bf.Table, rows: Rows) -> Rows:
        path = ".hoodie/hoodie.properties"
        table.upsert(table_of(rows))
        data = table.store.read(path, 1 << 20)
        table.store.replace(path, data.replace(b"num.buckets=6", b"num.buckets=12"))
        return rows

    monkeypatch.setitem(WRITES, "upsert", lose_a_row)  # type: ignore[misc]
    monkeypatch.setitem(WRITES, "insert", record_another)  # type: ignore[misc]
    subject = SUBJECTS[0]
    lost, wrong = Trial(subject).try_index(subject.index).bad
    assert "upsert: _WrongError: it left" in lost
    assert "insert: _WrongError: it found" in wrong


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
            new = table_of({("new", "id-new", "kind new"): 1})
            for write in ("insert", "bulk_insert"):
                with pytest.raises(ValueError, match="contradicts the table: it puts key"):
                    getattr(bf.open(root, index=wrong), write)(new)
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
