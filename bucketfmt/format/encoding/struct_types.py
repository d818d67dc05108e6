"""Makes struct types ready to be decoded from many threads.

Pure. msgspec prepares a type when it first decodes a value of the type, and two threads that do so
at once crash the process (msgspec 0.22). Types are therefore prepared where they are defined: the
import lock admits one thread.
"""

from __future__ import annotations

import msgspec

__all__ = ["prepare_to_decode"]


def prepare_to_decode(*kinds: type[msgspec.Struct]) -> None:
    """Have msgspec prepare these types, and the types of their fields. To be called on import."""
    for kind in kinds:
        msgspec.json.Decoder(kind)
