"""Two writers and writers that die, on each kind of server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.storage.open import open_store
from bucketfmt.storage.stores.fsspec_store import FsspecStore
from tests.stores.servers import Place
from tests.write.models import Model, create_table, rows
from tests.write.shared_counter import assert_counted, begin_counter, count_up

Options = Mapping[str, Any]
_WAIT_S = 300
MORTAL = {"lock_lease_s": 5, "heartbeat_interval_s": 2.5}  # of a writer that dies, and the next one


def open_table(uri: str, options: Options, **writer: Any) -> bf.Table:
    given = bf.WriterConfig(services=None, **writer)
    return bf.open(uri, {**options, "skip_instance_cache": True}, writer=given)


def create(uri: str, options: Options) -> bf.Table:
    create_table(uri, bf.SimpleBucketIndex(1), storage_options=options)
    return open_table(uri, options)


def us_rows(number: int, ts: int, price: float = 1.0) -> pa.Table:
    """Rows of one partition."""
    return rows(range(0, 3 * number, 3), ts, price)


def count_twice(uri: str, options: Options, number: int) -> None:
    count_up(open_table(uri, options), 2, number)


def upsert_and_die(uri: str, options: Options, what: str) -> None:
    """Be killed once the first data file, or the completed instant, is created."""
    kind = type(open_store(uri, options))
    put = kind.put_if_absent

    def put_and_die(store: FsspecStore, path: str, data: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        is_put = put(store, path, data)
        if ("data" if name.endswith(".parquet") else folder) == what and "_" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        return is_put

    kind.put_if_absent = put_and_die  # type: ignore[method-assign, assignment]
    open_table(uri, options, **MORTAL).upsert(us_rows(10, ts=2, price=2.0))


def start(play: str, uri: str, options: Options, *arguments: object) -> subprocess.Popen[bytes]:
    given = ", ".join(map(repr, (uri, dict(options), *arguments)))
    code = f"from tests.stores.test_writers import {play}\n{play}({given})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])


def read(table: bf.Table) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["region"], row["id"]): row for row in table.scan().to_arrow().to_pylist()}


def test_two_writers(place: Place) -> None:
    uri, options = place.new_uri(), place.options
    begin_counter(create(uri, options))
    began = time.monotonic()
    writers = [start("count_twice", uri, options, number) for number in range(2)]
    assert [writer.wait(_WAIT_S) for writer in writers] == [0, 0]
    print(f"two writers on {place.root}: {time.monotonic() - began:.0f} s")
    assert_counted(open_table(uri, options))


@pytest.mark.parametrize("what", ["data", ".hoodie/timeline"])
def test_a_writer_that_dies(place: Place, what: str) -> None:
    uri, options = place.new_uri(), place.options
    table, model = create(uri, options), Model()
    given = us_rows(5, ts=1)
    table.upsert(given)
    model.upsert(given)
    writer = start("upsert_and_die", uri, options, what)
    assert writer.wait(_WAIT_S) == -signal.SIGKILL
    if what == ".hoodie/timeline":
        model.upsert(us_rows(10, ts=2, price=2.0))
    assert read(open_table(uri, options)) == model.rows

    time.sleep(7)  # until its heartbeat has run out; for the end of its lease the next one waits
    more = us_rows(7, ts=3, price=3.0)
    open_table(uri, options, **MORTAL).upsert(more)
    model.upsert(more)
    table = open_table(uri, options)
    assert read(table) == model.rows
    assert table.check(depth="full").status == "clean"
    assert not table.timeline.pending.instants
