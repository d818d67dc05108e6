"""Whatever a service is hit by, the table reads the same, and can be written to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import bucketfmt as bf
from bucketfmt.testing.crashes import CRASHES, FAILURES, strike_everywhere
from tests.reliability.test_crashes import EVERYWHERE, KINDS, Expected, look, make, read, run

SERVICES: dict[str, Callable[[bf.Table], object]] = {
    "compact": lambda t: t.compact(),
    "clean": lambda t: t.clean(retain=1, dry_run=False),
    "archive": lambda t: t.archive(min_commits=1, max_commits=1),
    "savepoint": lambda t: t.savepoint(),
}


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
def test_no_row_changes_whatever_becomes_of_a_service(
    kind: tuple[int, str, bool], name: str
) -> None:
    base = make(*kind)
    if name == "compact" and kind[1] == "COPY_ON_WRITE":
        assert run(SERVICES[name])(base) is None
        return
    same = read(base)
    points = 0
    for faults, writes_only in ((CRASHES, True), (FAILURES, not EVERYWHERE)):
        for aftermath in strike_everywhere(
            base, run(SERVICES[name]), faults, writes_only=writes_only
        ):
            look(aftermath, Expected(same, same))
            points += 1
    assert points >= 10
