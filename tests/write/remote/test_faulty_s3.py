"""A server that stalls, resets, refuses, or lies: no row is lost, and none is there twice."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.api.table import Table
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import FileInfo
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from tests.rotation import seed
from tests.storage.faulty_server import ServerFault, faulty_proxy
from tests.write.models import create_table, rows
from tests.write.remote.faulty_trial import Trial

pytest.importorskip("boto3")
pytest.importorskip("moto")

Options = dict[str, Any]
_LISTINGS, _REQUESTS = 8, 23  # of an upsert


@pytest.fixture
def trial(s3_options: Options) -> Iterator[Trial]:
    with faulty_proxy(s3_options["endpoint_url"]) as proxy:
        through = {
            **s3_options,
            "endpoint_url": proxy.url,
            "config_kwargs": {"retries": {"max_attempts": 1}, "read_timeout": 0.4},
            "skip_instance_cache": True,
        }
        trial = Trial(proxy, f"s3://tables/{uuid.uuid4().hex}/trips", s3_options, through)
        trial.struck.store._fs.retries = 2  # type: ignore[attr-defined]
        yield trial


def requests_of(
    fault: ServerFault, draw: str, options: pytest.Config, number: int = 1
) -> list[int]:
    """Return which requests a fault strikes: some, drawn by the seed; or each that it may."""
    last = _LISTINGS if fault is ServerFault.LATE_LISTING else _REQUESTS
    every = range(1, last + 1)
    if options.getoption("--every-case"):
        return list(every)
    return Random(f"{seed()} {draw} {fault.name}").sample(every, number)


@pytest.mark.rotated(1, among="works on S3", one_of=3)
@pytest.mark.parametrize("fault", ServerFault, ids=lambda fault: fault.name)
def test_a_fault_that_passes(trial: Trial, fault: ServerFault, pytestconfig: pytest.Config) -> None:
    for at in requests_of(fault, "passes", pytestconfig):
        assert trial.upsert(at, fault), at


@pytest.mark.rotated(1, among="works on S3", one_of=6)
@pytest.mark.parametrize("fault", ServerFault, ids=lambda fault: fault.name)
def test_an_outage(trial: Trial, fault: ServerFault, pytestconfig: pytest.Config) -> None:
    for at in requests_of(fault, "lasts", pytestconfig):
        trial.upsert(at, fault, lasts=True)
    assert trial.upsert(0, ServerFault.RESET_BEFORE)


class LateStore(MemoryStore):
    """A store over a network that does not list these files yet.

    If `late_at` is given, one listing of the timeline lacks them, which is counted from 1.
    """

    failures_are_final = False
    late: frozenset[str] = frozenset()
    late_at: int | None = None
    listings = 0

    def list(self, path: str) -> builtins.list[FileInfo]:
        is_late = self.late_at is None
        if path == ".hoodie/timeline":
            self.listings += 1
            is_late |= self.listings == self.late_at
        late = self.late if is_late else ()
        return [entry for entry in super().list(path) if entry.path not in late]


def test_files_that_are_not_listed_yet(tmp_path: Path) -> None:
    create_table(tmp_path, bf.SimpleBucketIndex(1))
    store = LateStore(MemoryStore.of_folder(str(tmp_path)).files)
    table = Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    first = table.upsert(rows([0, 3], 1))
    store.late = frozenset(first.files)
    assert table.scan().count() == 2
    second = table.upsert(rows([3, 6], 2))
    assert second.rows_updated == 1
    store.late = frozenset(path for path in store.files if path.endswith(".commit"))
    for attempt in (lambda: table.upsert(rows([9], 3)), lambda: table.scan().count()):
        with pytest.raises(bf.StorageError, match=r"does not list .*which is there"):
            attempt()
    store.late = frozenset()
    table.upsert(rows([9], 3))
    assert table.scan().count() == 4


@pytest.mark.parametrize("kind", ["own", "another's"])
def test_a_commit_that_one_listing_lacks_is_not_taken_back(tmp_path: Path, kind: str) -> None:
    """By that listing alone the commit would be pending, and its writer dead."""
    create_table(tmp_path, bf.SimpleBucketIndex(1))
    store = LateStore(MemoryStore.of_folder(str(tmp_path)).files)
    store.late_at = 0
    config = load_config(store, DEFAULT_LIMITS)
    table, other = (Table(store, config, DEFAULT_LIMITS, None) for _ in range(2))
    keys, number = {0}, 1
    table.upsert(rows([0], 1))
    while store.listings >= store.late_at:
        newest = (table if kind == "own" else other).upsert(rows([3 * number], number + 1))
        assert table.scan().count() == number + 1
        store.late = frozenset(path for path in store.files if newest.completion_time in path)
        assert len(store.late) == 1
        store.listings, store.late_at = 0, store.late_at + 1
        table.upsert(rows([0], number + 2))
        keys.add(3 * number)
        number += 1
        assert other.scan().count() == len(keys)
    assert store.late_at > 3
