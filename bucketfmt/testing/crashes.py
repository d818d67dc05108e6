"""Every crash and every failure a piece of work can meet, one at a time.

Runs the work on copies of a store in memory, with a fault at its first operation, its second,
and so on until it ends without meeting it. What has to hold afterwards is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bucketfmt.errors import BucketfmtError
from bucketfmt.storage.store import Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore

__all__ = ["CRASHES", "FAILURES", "Aftermath", "strike_everywhere"]

CRASHES = (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER)


@dataclass(frozen=True)
class Aftermath:
    """What one fault left.

    Attributes:
        store: The files, to be looked at by somebody else.
        plan: Which operation was struck, and how.
        operation: It, as text.
        error: What the work raised; None if it returned.
        value: What it returned.
    """

    store: MemoryStore
    plan: FaultPlan
    operation: str
    error: BaseException | None
    value: object = None

    def __str__(self) -> str:
        how = f"{self.plan.at}: {self.operation} {self.plan.fault.value}"
        return f"{how}; {type(self.error).__name__ if self.error else 'returned'}: {self.error}"


def strike_everywhere(
    files: MemoryStore,
    work: Callable[[Store], object],
    faults: Iterable[Fault],
    *,
    writes_only: bool = False,
) -> Iterator[Aftermath]:
    """Yield what is left after a fault at each operation of `work`.

    Args:
        files: What the work begins with; it is copied.
        work: Does all its I/O through the store it is given. It may raise `BucketfmtError`,
            and anything else it raises is raised here.
        faults: The kinds of fault; each strikes every operation.
        writes_only: Strike only operations that may change something.
    """
    for fault in faults:
        at = 1
        while True:
            store = MemoryStore(files.files)
            plan = FaultPlan(at, fault, writes_only)
            faulty = FaultyStore(store, plan)
            error, value = None, None
            try:
                value = work(faulty)
            except (BucketfmtError, Killed) as raised:
                error = raised
            if faulty.struck is None:
                if error is not None:
                    raise error
                break
            faulty.deliver()
            operation = f"{faulty.struck.verb} {faulty.struck.path}"
            yield Aftermath(store, plan, operation, error, value)
            at += 1
