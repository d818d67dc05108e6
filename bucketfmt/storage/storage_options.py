"""Options of a store: as text, for command lines, and which ones there are. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from bucketfmt.arguments import check_texts

__all__ = ["check_known_options", "parse_storage_options"]

# Options of s3fs, gcsfs, adlfs and fsspec's clients of HDFS that are text.
_CREDENTIALS = {"key", "secret", "token", "profile", "account_name", "account_key", "sas_token"}
_CREDENTIALS |= {"client_id", "client_secret", "tenant_id", "user", "username", "password"}

# What fsspec's base classes take from among the options of every client.
_OF_FSSPEC = {"asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths"}
_OF_FSSPEC |= {"skip_instance_cache", "use_listings_cache"}


def check_known_options(client: type, options: Collection[str], more: Collection[str]) -> None:
    """Refuse options that a client of fsspec does not have. The clients pass over them.

    So `endpoint` in place of `endpoint_url` would have the requests, and the keys, sent elsewhere.

    Args:
        client: The class of the file system.
        options: The names that were given.
        more: Names that the class takes besides those of its constructors.

    Raises:
        ValueError: one of the names is none of the client's.
    """
    named = (
        (name, parameter.kind)
        for kind in client.__mro__
        if "__init__" in vars(kind)
        for name, parameter in signature(vars(kind)["__init__"]).parameters.items()
    )
    variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    known = {name for name, kind in named if kind not in variable} - {"self"}
    known |= {*more, *_OF_FSSPEC}
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, 1, cutoff=0.75)
            raise ValueError(
                f"storage_options: {client.__name__} has no option {name!r}"
                + (f"; is it {close[0]!r}?" if close else f"; it has {', '.join(sorted(known))}")
            )


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
