"""The contract of a store, kept on each kind of server."""

from __future__ import annotations

import pytest

from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.testing import StoreContract
from tests.stores.servers import S3PROXY_WHY, Place


class TestServer(StoreContract):
    @pytest.fixture
    def uri(self, place: Place) -> str:
        return place.new_uri()

    @pytest.fixture
    def store(self, place: Place, uri: str, request: pytest.FixtureRequest) -> Store:
        if "one_winner" in request.node.name and "s3proxy" in request.node.name:
            request.applymarker(pytest.mark.xfail(reason=S3PROXY_WHY, strict=False))
        return open_store(uri, place.options)

    @pytest.fixture
    def other(self, place: Place, uri: str) -> Store:
        return open_store(uri, {**place.options, "skip_instance_cache": True})
