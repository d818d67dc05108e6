from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.servers import SERVERS, Place


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.stores) for name in SERVERS]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Return where tables of a server may be."""
    with SERVERS[request.param]() as place:
        yield place
