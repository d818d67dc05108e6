"""Servers that stall, reset, refuse, or lie: no row is lost, and none is there twice.

As `tests/write/remote/test_faulty_s3.py`, for the services that are no S3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace

import pytest

from tests.rotation import seed
from tests.storage.faulty_server import ServerFault
from tests.stores.proxied import proxied
from tests.write.remote.faulty_trial import Trial

_LISTINGS, _REQUESTS = 7, 23  # of an upsert, see `test_requests.py`
_SERVERS = ("fake-gcs-server", "azurite")
_NOT_REPEATED = {("azurite", ServerFault.TOO_MANY)}  # by Azure's client: its service answers 503


def retry_at_once(patch: pytest.MonkeyPatch, server: str) -> None:
    """Have the client of a service repeat requests without waiting."""
    if server == "azurite":
        from azure.storage.blob.aio import ExponentialRetry

        patch.setattr(ExponentialRetry, "get_backoff_time", lambda *_: 0)
    else:
        import gcsfs.retry

        patch.setattr(gcsfs.retry, "asyncio", SimpleNamespace(sleep=lambda _: asyncio.sleep(0)))


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.stores) for name in _SERVERS]
)
def trial(request: pytest.FixtureRequest) -> Iterator[tuple[str, Trial]]:
    with pytest.MonkeyPatch.context() as patch, proxied(request.param) as server:
        retry_at_once(patch, request.param)
        uri = server.direct.new_uri()
        yield request.param, Trial(server.proxy, uri, server.direct.options, server.options)


def cases(draw: str) -> list[tuple[ServerFault, int]]:
    """Return each fault with each request that it may strike, in an order drawn by the seed."""
    found = [
        (fault, at)
        for fault in ServerFault
        for at in range(1, 1 + (_LISTINGS if fault is ServerFault.LATE_LISTING else _REQUESTS))
    ]
    Random(seed() + draw).shuffle(found)
    return found


def taken(request: pytest.FixtureRequest, draw: str, number: int) -> list[tuple[ServerFault, int]]:
    every = cases(draw)
    if request.config.getoption("--every-case"):
        return every
    return [case for fault in ServerFault for case in [c for c in every if c[0] is fault][:number]]


def test_a_fault_that_passes(trial: tuple[str, Trial], request: pytest.FixtureRequest) -> None:
    server, table = trial
    for fault, at in taken(request, "passes", 2):
        is_done = table.upsert(at, fault)
        assert is_done or (server, fault) in _NOT_REPEATED, (fault, at)


def test_an_outage(trial: tuple[str, Trial], request: pytest.FixtureRequest) -> None:
    _, table = trial
    for fault, at in taken(request, "lasts", 1):
        table.upsert(at, fault, lasts=True)
    assert table.upsert(0, ServerFault.RESET_BEFORE)
