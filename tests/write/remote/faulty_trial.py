"""A table that is written to while requests fail, and what it is to hold afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import bucketfmt as bf
from tests.storage.faulty_server import FaultyProxy, ServerFault
from tests.write.models import create_table, rows

__all__ = ["Trial"]


class Trial:
    """A table behind a proxy, the same table without it, and the rows that it is to have.

    `options` lead to the server, and `through` to the proxy, unless `proxied_uri` does.
    """

    def __init__(
        self,
        proxy: FaultyProxy,
        uri: str,
        options: Mapping[str, Any],
        through: Mapping[str, Any],
        proxied_uri: str | None = None,
    ) -> None:
        self.direct = create_table(uri, bf.SimpleBucketIndex(1), storage_options=options)
        writer = bf.WriterConfig(clock_skew_s=0, lock_lease_s=2.0, lock_timeout_s=3.0)
        self.struck = bf.open(proxied_uri or uri, through, writer=writer)
        self.proxy = proxy
        self.ts = 0
        self.direct.upsert(self._given())
        self.expected = self.read()
        # A commit of others that this table never read, and no listing has, cannot be known of.
        assert self.struck.scan().count() == len(self.expected)

    def _given(self) -> pa.Table:
        """Return a row of a key that is there, and a new one."""
        self.ts += 1
        return rows([0, 3 * self.ts], self.ts)

    def read(self) -> dict[str, dict[str, Any]]:
        found = self.direct.scan().to_arrow().to_pylist()
        by_key = {row["id"]: row for row in found}
        assert len(by_key) == len(found)
        return by_key

    def upsert(self, at: int, fault: ServerFault, *, lasts: bool = False) -> bool:
        """Write while a request is struck; return whether the write says it was done."""
        given = self._given()
        after = {**self.expected, **{row["id"]: row for row in given.to_pylist()}}
        self.proxy.strike(at, fault, lasts=lasts)
        is_unknown = is_done = False
        try:
            self.struck.upsert(given)
            is_done = True
        except bf.CommitUnknownError:
            is_unknown = True
        except bf.BucketfmtError:
            pass
        struck = self.proxy.struck
        self.proxy.strike(0, None)
        found = self.read()
        told = f"{fault.value}: {struck}"
        assert found == after or (not is_done and found == self.expected), told
        assert is_done or is_unknown or found == self.expected, told
        self.expected = found
        return is_done
