"""Options of a store as text, for command lines. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bucketfmt.arguments import check_texts

__all__ = ["parse_storage_options"]

# Options of s3fs, gcsfs, adlfs and fsspec's clients of HDFS that are text.
_CREDENTIALS = {"key", "secret", "token", "profile", "account_name", "account_key", "sas_token"}
_CREDENTIALS |= {"client_id", "client_secret", "tenant_id", "user", "username", "password"}


def parse_storage_options(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return `storage_options` for `open` and `create`; a text that is JSON is decoded.

    Names and passwords stay text, also those of digits alone, which no client takes as a number.

    >>> import bucketfmt as bf
    >>> bf.parse_storage_options({"anon": "true", "key": "123", "endpoint_url": "http://s3"})
    {'anon': True, 'key': '123', 'endpoint_url': 'http://s3'}

    Raises:
        TypeError: `texts` is not a mapping of text to text.
    """
    options: dict[str, Any] = dict(check_texts("texts", texts))
    for name, text in texts.items():
        with suppress(ValueError):  # so that {"client_kwargs": ...} can be said
            decoded = json.loads(text)
            if name not in _CREDENTIALS or isinstance(decoded, (str, dict)):
                options[name] = decoded
    return options
