"""Buckets with several file groups, and rows that are written to several: made-up layouts.

No engine has them yet. They go through the same code as the engines there are: only the layout is
made up, so that what reads and writes assume of a layout is what a layout says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.index.layout import BucketLayout, FixedBuckets
from tests.write.models import SCHEMA, rows

pytestmark = pytest.mark.rotated

N = 2


def file_id_of(number: int, letter: str) -> str:
    return f"{number:08d}-0000-0000-0000-00000000000{letter}-0"


@dataclass(frozen=True, slots=True)
class PairedBuckets(FixedBuckets):
    """Every bucket has the file groups a and b, and every row is written to both."""

    has_several_groups: ClassVar[bool] = True

    def write_targets(self, bucket_id: int, groups: Sequence[str]) -> Sequence[str | None]:
        return [file_id_of(bucket_id, letter) for letter in "ab"]


@dataclass(frozen=True, slots=True)
class GrowingBuckets(FixedBuckets):
    """Every write to a bucket begins a file group."""

    has_several_groups: ClassVar[bool] = True

    def write_targets(self, bucket_id: int, groups: Sequence[str]) -> Sequence[str | None]:
        return [None]


@dataclass(frozen=True, slots=True)
class SplitBuckets(FixedBuckets):
    """Each of N file groups is being split: a row goes to its file group and to its half of it.

    Bucket b of 2N is in the file group of number b mod N, and in its own one of number N + b.
    """

    has_several_groups: ClassVar[bool] = True

    def bucket_of(self, file_id: str) -> int:
        number = int(file_id[:8])
        return number if number < N else number - N

    def groups(self, file_ids: Iterable[str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for file_id in file_ids:
            number = int(file_id[:8])
            for bucket_id in (number, number + N) if number < N else (number - N,):
                found.setdefault(bucket_id, []).append(file_id)
        return found

    def write_targets(self, bucket_id: int, groups: Sequence[str]) -> Sequence[str | None]:
        return [file_id_of(bucket_id % N, "0"), file_id_of(bucket_id + N, "0")]


@dataclass(frozen=True, slots=True)
class MadeUpIndex(bf.SimpleBucketIndex):
    """A simple bucket index, but for the layout."""

    make: Callable[..., BucketLayout] = FixedBuckets

    def unproved_layout(self, partition_path, hash_fields, dialect, *_):  # type: ignore[no-untyped-def]
        return self.make(self.num_buckets, hash_fields, dialect)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def uri(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    uri = f"memory://several/{request.node.name}"
    bf.create(
        uri,
        name="several",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(N),
        table_type=kind,
    )
    return uri


def opened(uri: str, make: Callable[..., BucketLayout]) -> bf.Table:
    return bf.open(uri, index=MadeUpIndex(N, None, make))


def ids(table: pa.Table) -> Counter[str]:
    return Counter(table["id"].to_pylist())


def groups_of(table: bf.Table) -> dict[str, Counter[str]]:
    """The keys of each file group."""
    found: dict[str, Counter[str]] = {}
    for task in table.scan().tasks():
        for batch in table.scan(meta_columns=True).task_reader().read(task.payload):
            for name, key in zip(
                batch["_hoodie_file_name"].to_pylist(), batch["id"].to_pylist(), strict=True
            ):
                file_id = name.partition("_")[0] if not name.startswith(".") else name[1:40]
                found.setdefault(file_id, Counter())[key] += 1
    return found


def keys(numbers: Iterable[int]) -> list[str]:
    return [f"key-{number:06d}" for number in numbers]


class TestPairs:
    """Two file groups a bucket, and two write targets."""

    def test_a_lookup_reads_both_and_an_upsert_writes_to_both(self, uri: str) -> None:
        table = opened(uri, PairedBuckets)
        table.upsert(rows(range(30), ts=1))
        table.upsert(rows(range(10), ts=2, price=5.0))
        found = table.lookup(keys([3, 20]))
        assert sorted((row["id"], row["ts"]) for row in found.to_pylist()) == [
            *[("key-000003", 2)] * 2,
            *[("key-000020", 1)] * 2,
        ]
        assert ids(table.scan().to_arrow()) == dict.fromkeys(keys(range(30)), 2)
        by_group = groups_of(table)
        for number in range(N):
            one, other = (file_id_of(number, letter) for letter in "ab")
            assert by_group[one] == by_group[other] != Counter()
        assert len(by_group) == 2 * N

    def test_locate_names_both(self, uri: str) -> None:
        table = opened(uri, PairedBuckets)
        table.upsert(rows(range(30), ts=1))
        asked = pa.table({"id": keys([4, 5, 4]), "region": ["eu", "ap", "eu"]})
        found = table.locate(asked).to_pylist()
        assert [row["record_key"] for row in found] == [k for k in keys([4, 5, 4]) for _ in "ab"]
        for one, other in zip(found[::2], found[1::2], strict=True):
            assert one["bucket_id"] == other["bucket_id"]
            pair = [file_id_of(one["bucket_id"], letter) for letter in "ab"]
            assert [one["file_id"], other["file_id"]] == pair
        assert table.locator().locate(asked).to_pylist() == found

    def test_a_delete_deletes_from_both(self, uri: str) -> None:
        table = opened(uri, PairedBuckets)
        table.upsert(rows(range(30), ts=1))
        table.delete(pa.table({"id": keys([4, 5]), "region": ["eu", "ap"]}))
        assert table.lookup(keys([4, 5])).num_rows == 0
        assert ids(table.scan().to_arrow()) == dict.fromkeys(
            keys(n for n in range(30) if n not in (4, 5)), 2
        )

    def test_an_overwrite_begins_both(self, uri: str) -> None:
        table = opened(uri, PairedBuckets)
        table.insert_overwrite(rows(range(30), ts=1))
        assert ids(table.scan().to_arrow()) == dict.fromkeys(keys(range(30)), 2)

    def test_other_processes_write_to_both(self, uri: str) -> None:
        table = opened(uri, PairedBuckets)
        with table.start_write("upsert", SCHEMA) as write:
            write.publish(list(write.task.write(rows(range(30), ts=1), "0-0-0")))
        assert ids(table.scan().to_arrow()) == dict.fromkeys(keys(range(30)), 2)


class TestGrowth:
    """File groups of one bucket that hold different keys."""

    def test_all_are_looked_into(self, uri: str) -> None:
        table = opened(uri, GrowingBuckets)
        table.upsert(rows(range(15), ts=1))
        table.upsert(rows(range(15, 30), ts=2))
        assert len(groups_of(table)) == 2 * N * 3
        assert ids(table.lookup(keys(range(30)))) == dict.fromkeys(keys(range(30)), 1)
        one_bucket = [("id", "=", "key-000007")]
        assert ids(table.scan(filter=one_bucket).to_arrow()) == {"key-000007": 1}
        assert table.scan(filter=one_bucket).plan().file_groups_pruned > 0

    def test_where_buckets_have_one_a_second_is_damage(self, uri: str) -> None:
        opened(uri, GrowingBuckets).upsert(rows(range(15), ts=1))
        opened(uri, GrowingBuckets).upsert(rows(range(15, 30), ts=2))
        table = bf.open(uri)
        with pytest.raises(bf.CorruptError, match="two file groups in one bucket"):
            table.locate(keys([7]))
        with pytest.raises(bf.CorruptError, match="two file groups in one bucket"):
            table.upsert(rows([7], ts=3))
        assert ids(table.lookup(keys(range(30)))) == dict.fromkeys(keys(range(30)), 1)


class TestSplit:
    """Buckets that share a file group: rows of both are written to one file of the group."""

    @pytest.fixture
    def table(self, uri: str) -> bf.Table:
        table = bf.open(uri, index=MadeUpIndex(N, None, lambda n, *how: SplitBuckets(2 * n, *how)))
        table.upsert(rows(range(60), ts=1))
        return table

    def test_the_shared_group_takes_the_rows_of_both(self, table: bf.Table) -> None:
        by_group = groups_of(table)
        assert sorted(by_group) == sorted(file_id_of(number, "0") for number in range(3 * N))
        for number in range(N):
            halves = [by_group[file_id_of(N + b, "0")] for b in (number, number + N)]
            assert all(halves)
            assert by_group[file_id_of(number, "0")] == halves[0] + halves[1]
        assert sum(by_group.values(), Counter()) == dict.fromkeys(keys(range(60)), 2)

    def test_a_lookup_reads_the_shared_group_and_the_half(self, table: bf.Table) -> None:
        assert ids(table.lookup(keys([1, 2, 3]))) == dict.fromkeys(keys([1, 2, 3]), 2)
        one = table.locate(pa.table({"id": keys([4]), "region": ["eu"]})).to_pylist()
        bucket = one[0]["bucket_id"]
        assert [row["file_id"] for row in one] == [
            file_id_of(bucket % N, "0"),
            file_id_of(N + bucket, "0"),
        ]

    def test_an_update_reaches_both(self, table: bf.Table) -> None:
        table.upsert(rows(range(20), ts=2, price=9.0))
        found = table.lookup(keys(range(60))).to_pylist()
        assert Counter((row["id"], row["ts"]) for row in found) == {
            (key, 2 if number < 20 else 1): 2 for number, key in enumerate(keys(range(60)))
        }
