from __future__ import annotations

import threading

from bucketfmt.errors import StorageError
from bucketfmt.timeline.locking.renewal import Renewal


def test_it_goes_on_over_failures_until_it_is_told_to_end() -> None:
    calls: list[int] = []
    ended = threading.Event()

    def renew() -> bool:
        calls.append(len(calls))
        if len(calls) == 2:
            raise StorageError("away")
        if len(calls) == 5:
            ended.set()
            return False
        return True

    renewal = Renewal(renew, 0.001)
    assert ended.wait(30)
    renewal._thread.join(30)
    assert not renewal._thread.is_alive()
    renewal.stop()
    assert calls == [0, 1, 2, 3, 4]


def test_once_stopped_no_call_follows() -> None:
    called = threading.Event()
    calls: list[None] = []

    def renew() -> bool:
        calls.append(None)
        called.set()
        return True

    renewal = Renewal(renew, 0.001)
    assert called.wait(30)
    renewal.stop()
    assert not renewal._thread.is_alive()
    number = len(calls)
    renewal.stop()
    assert len(calls) == number


def test_it_does_not_keep_a_process_alive() -> None:
    renewal = Renewal(lambda: True, 3600)
    assert renewal._thread.daemon
    renewal.stop()
