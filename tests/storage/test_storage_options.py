"""Options of a store as text."""

from __future__ import annotations

import pytest

import bucketfmt as bf


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
