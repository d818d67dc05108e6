"""Processes that write one file at the same moment, on each kind of server."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from bucketfmt.storage.open import open_store
from tests.stores.servers import S3PROXY_WHY, Place

_WAIT_S = 300
_RACERS = 6
_ROUNDS = 30


def race(
    uri: str, options: Mapping[str, Any], number: int, start: threading.Barrier
) -> list[tuple[bool, bool]]:
    """Return, for each round, whether this process created the file and whether it replaced it."""
    store = open_store(uri, options)
    first, second, won = b"%d" % number * 1000, b"x%d" % number * 500, []
    for round_ in range(_ROUNDS):
        file = f"race/{round_}"
        start.wait(_WAIT_S)
        is_put = store.put_if_absent(file, first)
        start.wait(_WAIT_S)
        _, version = store.read_versioned(file, 1000)
        start.wait(_WAIT_S)
        won.append((is_put, store.replace_if(file, second, version) is not None))
    return won


def test_each_round_has_one_winner(place: Place, request: pytest.FixtureRequest) -> None:
    if "s3proxy" in request.node.name:
        request.applymarker(pytest.mark.xfail(reason=S3PROXY_WHY, strict=False))
    uri, options = place.new_uri(), dict(place.options)
    context = multiprocessing.get_context("forkserver")  # imports once for all racers
    context.set_forkserver_preload([__name__])
    with context.Manager() as manager, ProcessPoolExecutor(_RACERS, context) as pool:
        start = manager.Barrier(_RACERS)
        racers = [pool.submit(race, uri, options, number, start) for number in range(_RACERS)]
        outcomes = [racer.result(_WAIT_S) for racer in racers]
    rounds = [tuple(zip(*verbs, strict=True)) for verbs in zip(*outcomes, strict=True)]
    winners = [(put.count(True), replaced.count(True)) for put, replaced in rounds]
    assert winners == [(1, 1)] * _ROUNDS
    store = open_store(uri, options)
    for round_, (_, replaced) in enumerate(rounds):
        assert store.read(f"race/{round_}", 1000) == b"x%d" % replaced.index(True) * 500
