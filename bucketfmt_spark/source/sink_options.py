"""The options of writing with `format("bucketfmt")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import bucketfmt as bf
from bucketfmt.choices import SharedLock, StartedOperation
from bucketfmt_spark.source.table_options import TableOptions

__all__ = ["SinkOptions"]

_WRITER = ("lock", "concurrency", "metadata_table")
_ENCODING = ("codec", "log_format")
_KNOWN = (
    "services",
    "operation",
    "evolve",
    "missing",
    *_ENCODING,
    *_WRITER,
    "idempotency_key",
    "checkpointlocation",
)


class SinkOptions(TableOptions):
    """The options of a writer, checked. Pickles.

    They are those of `TableOptions`; `operation` as in `write`, by default upsert, or
    insert_overwrite_table where Spark overwrites; `evolve` (true or false), `missing`, `codec`,
    `log_format` and `idempotency_key` as in `bucketfmt.WriteArguments`; `lock`,
    `concurrency` and `metadata_table` as in `bucketfmt.WriterConfig`; `services` (true, the
    default, or false): whether services that are due run after a commit.
    """

    def __init__(self, options: Mapping[str, str], *, overwrite: bool) -> None:
        """Check options.

        Args:
            options: The options from Spark.
            overwrite: Whether the mode is overwrite, or a stream's output is complete.

        Raises:
            ValueError: the path is missing, an option or its value is unknown, or the operation
                contradicts the mode.
        """
        super().__init__(options, _KNOWN)
        default = "insert_overwrite_table" if overwrite else "upsert"
        self.operation: Any = self.given.get("operation", default).lower()
        if self.operation not in get_args(StartedOperation):
            known = ", ".join(get_args(StartedOperation))
            raise ValueError(f"there is no operation {self.operation!r}; they are {known}")
        if overwrite and not self.operation.startswith("insert_overwrite"):
            raise ValueError(
                f'mode("overwrite") and the operation {self.operation} contradict each other: '
                'write with mode("append"), or leave the operation out to replace the whole table'
            )
        if self.given.get("lock", "auto") not in get_args(SharedLock):
            # That of a process would be held by one of several.
            raise ValueError(
                f"lock is one of {', '.join(get_args(SharedLock))}, not {self.given['lock']!r}"
            )
        self.idempotency_key = self.given.get("idempotency_key")

    def open_to_write(self) -> bf.Table:
        """Open the table for writing."""
        writer: dict[str, Any] = {name: self.given[name] for name in _WRITER if name in self.given}
        if not self.is_true("services", default=True):
            writer["services"] = None
        return self.open(bf.WriterConfig(**writer))

    @property
    def arguments(self) -> bf.WriteArguments:
        """The arguments of the write."""
        names = ("missing", *_ENCODING)
        found: Any = {name: self.given[name] for name in names if name in self.given}
        found["evolve"] = self.is_true("evolve")
        return found  # type: ignore[no-any-return]
