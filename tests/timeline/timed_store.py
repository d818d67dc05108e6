from __future__ import annotations

from collections.abc import Callable

import msgspec

from bucketfmt.storage.store import WRITE_VERBS, FileInfo, Store
from bucketfmt.testing.faulty_store import Fault, FaultyStore
from bucketfmt.testing.recording_store import Operation


class TimedStore(FaultyStore):
    """A real store whose files are as old as a simulated clock says.

    Attributes:
        put_times: When each file was put last, by path; may be set.
    """

    def __init__(
        self, store: Store, now: Callable[[], float], put_times: dict[str, float] | None = None
    ) -> None:
        super().__init__(store)
        self.put_times = {} if put_times is None else put_times
        self._now = now

    def info(self, path: str) -> FileInfo | None:
        found = super().info(path)
        if found is None:
            return None
        return msgspec.structs.replace(found, modified=self.put_times[path])

    def _count(self, operation: Operation) -> Fault | None:
        if operation.verb in WRITE_VERBS:
            self.put_times[operation.path] = self._now()
        return super()._count(operation)
