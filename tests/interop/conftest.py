"""One JVM for each version of Hudi, for all tests of that version."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.engines.hudi_session import HudiSession


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], HudiSession]]:
    """Return the session of a version; one runs at a time."""
    running: dict[str, HudiSession] = {}

    def serve(version: str) -> HudiSession:
        if version not in running:
            for session in running.values():
                session.close()
            running.clear()
            running[version] = HudiSession(version, tmp_path_factory.mktemp("hudi") / version)
        return running[version]

    yield serve
    for session in running.values():
        session.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a version next to each other, here and (by groups) where xdist runs them."""
    versions: dict[pytest.Item, str] = {}
    for item in items:
        if isinstance(item, pytest.Function) and "hudi" in item.fixturenames:
            versions[item] = item.callspec.params["version"]
            item.add_marker(pytest.mark.xdist_group(versions[item]))
    places = [place for place, item in enumerate(items) if item in versions]
    for place, item in zip(places, sorted(versions, key=versions.__getitem__), strict=True):
        items[place] = item
