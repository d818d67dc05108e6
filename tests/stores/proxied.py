"""Servers of storage protocols behind a proxy that counts requests, and strikes some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.storage.faulty_server import AZURE, GCS, S3, FaultyProxy, Protocol, faulty_proxy
from tests.stores.servers import SERVERS, Place

__all__ = ["PROTOCOLS", "Proxied", "proxied"]

PROTOCOLS: Mapping[str, Protocol] = {"moto": S3, "fake-gcs-server": GCS, "azurite": AZURE}
"""What each server speaks that can stand behind the proxy."""

_BLOBS = "BlobEndpoint="


@dataclass(frozen=True)
class Proxied:
    """Where tables of a server are, by itself and through the proxy.

    Attributes:
        proxy: The proxy.
        direct: The server by itself.
        options: As of `storage_options`, to go through the proxy.
    """

    proxy: FaultyProxy
    direct: Place
    options: Mapping[str, Any]


@contextmanager
def proxied(name: str) -> Iterator[Proxied]:
    """Run a server, and a proxy before it."""
    with ExitStack() as running:
        place = running.enter_context(SERVERS[name]())
        key = "connection_string" if name == "azurite" else "endpoint_url"
        told = place.options[key]
        backend = "http://" + urlsplit(told.partition(_BLOBS)[2] or told).netloc
        proxy = running.enter_context(faulty_proxy(backend, PROTOCOLS[name]))
        options = {**place.options, key: told.replace(backend, proxy.url)}
        yield Proxied(proxy, place, {**options, "skip_instance_cache": True})
