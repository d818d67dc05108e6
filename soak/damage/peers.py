"""The same damage read by hudi-rs (PyPI `hudi`), for comparison: it needs the table on a disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from bucketfmt.testing.memory_store import MemoryStore
from soak.damage.judge import Answer, Outcome, content_of

__all__ = ["HudiRsJudge"]


class HudiRsJudge:
    """Judges damaged copies of a table by what hudi-rs reads of them and of the sound one."""

    def __init__(self, store: MemoryStore) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bucketfmt-peers-")
        self._root = Path(self._folder.name)
        self._sound = store.files
        for path, data in store.files.items():
            (self._root / path).parent.mkdir(parents=True, exist_ok=True)
            (self._root / path).write_bytes(data)
        self._truth = self._read()

    def outcome(self, damaged: MemoryStore) -> tuple[Outcome, str]:
        """Return what reading came to. Any Python exception is an error that was seen."""
        changed = [path for path, data in damaged.files.items() if data != self._sound[path]]
        try:
            for path in changed:
                (self._root / path).write_bytes(damaged.files[path])
            answer = self._read()
        except Exception as error:
            return Outcome.ERROR, repr(error)
        except BaseException as error:  # what a Rust panic becomes
            return Outcome.FOREIGN, repr(error)
        finally:
            for path in changed:
                (self._root / path).write_bytes(self._sound[path])
        return (Outcome.SAME if answer == self._truth else Outcome.SILENT), ""

    def _read(self) -> Answer:
        table = HudiTableBuilder.from_base_uri(str(self._root)).build()
        return content_of(pa.Table.from_batches(table.read(HudiReadOptions())))
