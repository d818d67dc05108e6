"""Options of a store as text."""

from __future__ import annotations

import pytest

import bucketfmt as bf
from bucketfmt.storage.open import open_store


def test_texts_are_json_where_they_can_be() -> None:
    texts = {
        "client_kwargs": '{"region_name": "eu-west-1"}',
        "anon": "true",
        "key": "a=b",
        "n": "01",
    }
    assert bf.parse_storage_options(texts) == {
        "client_kwargs": {"region_name": "eu-west-1"},
        "anon": True,
        "key": "a=b",
        "n": "01",
    }
    assert bf.parse_storage_options({}) == {}


def test_credentials_of_digits_stay_text() -> None:
    """A client of S3 signs by text: a number was a TypeError that spoke of a sequence item."""
    texts = {"key": "123", "secret": "1e5", "token": '"78"', "port": "8020", "account_key": "true"}
    assert bf.parse_storage_options(texts) == {
        "key": "123",
        "secret": "1e5",
        "token": "78",
        "port": 8020,
        "account_key": "true",
    }
    assert bf.parse_storage_options({"token": '{"type": "authorized_user"}'}) == {
        "token": {"type": "authorized_user"}
    }


@pytest.mark.parametrize("texts", ["key=1", [("key", "1")], {"port": 8020}, {1: "1"}, None])
def test_what_is_no_text(texts: object) -> None:
    with pytest.raises(TypeError, match="texts"):
        bf.parse_storage_options(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://b/t", {"endpoint": "http://s3"}, "no option 'endpoint'; is it 'endpoint_url'?"),
        ("s3a://b/t", {"region": "eu"}, "no option 'region'; it has anon, .*client_kwargs"),
        ("gs://b/t", {"tokn": "anon"}, "no option 'tokn'; is it 'token'?"),
        ("abfs://c@a.dfs.core.windows.net/t", {"account-key": "k"}, "is it 'account_key'?"),
        ("webhdfs://nn:9870/t", {"usr": "hdfs"}, "WebHDFS has no option 'usr'; is it 'user'?"),
    ],
)
def test_options_that_a_client_does_not_have(
    url: str, options: dict[str, str], message: str
) -> None:
    """The clients pass over some of them, and send the requests, and the keys, elsewhere."""
    with pytest.raises(ValueError, match=f"^storage_options: .*{message}"):
        bf.open(url, storage_options=options)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/t", {"profile": "p", "max_paths": 9, "use_ssl": False, "client_kwargs": {}}),
        ("gs://b/t", {"token": "anon", "requests_timeout": 5, "memmove_max_workers": 2}),
        ("webhdfs://nn:9870/t", {"user": "hdfs", "data_proxy": {}, "use_listings_cache": False}),
        ("memory://t", {"whatever": 1}),
    ],
)
def test_options_that_a_client_has(url: str, options: dict[str, object]) -> None:
    assert open_store(url, options).uri == url
