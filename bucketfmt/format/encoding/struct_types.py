"""Makes struct types ready to be decoded from many threads.

Pure. msgspec works out how to decode a type when it first does, and two threads that are both
the first crash the process (msgspec 0.22). Types that are decoded are therefore prepared where
they are defined: the import lock lets one thread do it.
"""

from __future__ import annotations

import msgspec

__all__ = ["prepare_to_decode"]


def prepare_to_decode(*kinds: type[msgspec.Struct]) -> None:
    """Have msgspec work out these types, and those of their fields, now. Call it on import."""
    for kind in kinds:
        msgspec.json.Decoder(kind)
