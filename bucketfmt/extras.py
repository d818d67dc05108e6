"""The packages of extras, `pip install 'bucketfmt[...]'`, imported where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["of_extra"]


@contextmanager
def of_extra(extra: str) -> Iterator[None]:
    """Import packages of an extra within the block.

    Raises:
        ModuleNotFoundError: a package is not installed; the message names the extra to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        told = f"{error.name} is not installed: pip install 'bucketfmt[{extra}]'"
        raise ModuleNotFoundError(told, name=error.name) from None
