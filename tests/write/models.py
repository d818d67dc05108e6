"""A small table, and the same table in a dict, to compare what was written with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import pyarrow as pa

import bucketfmt as bf

__all__ = [
    "NO_SERVICES",
    "REGIONS",
    "SCHEMA",
    "Model",
    "assert_reads_as",
    "create_table",
    "made_once",
    "rows",
]

REGIONS = ("us", "eu", "ap")
NO_SERVICES = bf.WriterConfig(services=None)
"""For tests about services that they call themselves."""
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("ts", pa.int64()),
        ("region", pa.string()),
    ]
)

Row = dict[str, Any]
_P = ParamSpec("_P")


def rows(numbers: Iterable[int], ts: int, price: float = 1.0) -> pa.Table:
    """Rows of these keys; a key's region follows from its number."""
    numbers = list(numbers)
    return pa.table(
        {
            "id": [f"key-{i:06d}" for i in numbers],
            "name": [f"näme {i}" if i % 7 else None for i in numbers],
            "price": [price * i for i in numbers],
            "ts": [ts] * len(numbers),
            "region": [REGIONS[i % 3] for i in numbers],
        },
        SCHEMA,
    )


def create_table(
    uri: str | Path,
    index: bf.Index,
    table_type: str = "COPY_ON_WRITE",
    table_version: int = 9,
    *,
    storage_options: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.Table:
    """Create a table for `rows`, whose content `Model` tells; each region is a partition."""
    return bf.create(
        uri,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=index,
        table_type=table_type,  # type: ignore[arg-type]
        table_version=table_version,
        storage_options=storage_options,
        properties=properties,
        writer=writer,
    )


class Model:
    """What a table ordered by `ts` holds."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def upsert(self, given: pa.Table) -> None:
        for row in given.to_pylist():
            key = row["region"], row["id"]
            known = self.rows.get(key)
            if known is None or row["ts"] >= known["ts"]:
                self.rows[key] = row

    def delete(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        self.rows = {key: row for key, row in self.rows.items() if key[1] not in gone}

    def drop(self, region: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != region}


def assert_reads_as(uri: str, model: Model) -> None:
    """A fresh look at the table shows the model's rows, and the check finds nothing."""
    table = bf.open(uri)
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["region"], row["id"]))
    assert found == [model.rows[key] for key in sorted(model.rows)]
    report = table.check(depth="full")
    assert report.status == "clean", report.findings


def made_once(
    make: Callable[Concatenate[Path, _P], tuple[bf.Table, Model]],
) -> Callable[Concatenate[Path, _P], tuple[bf.Table, Model]]:
    """Make a table in a folder; what was made by these arguments before is copied there."""
    made: dict[Hashable, tuple[dict[Path, bytes], Model]] = {}

    @wraps(make)
    def copied(path: Path, *args: _P.args, **kwargs: _P.kwargs) -> tuple[bf.Table, Model]:
        key = path.name, args, tuple(sorted(kwargs.items()))
        if key not in made:
            table, model = make(path, *args, **kwargs)
            files = [file for file in path.rglob("*") if file.is_file()]
            contents = {file.relative_to(path): file.read_bytes() for file in files}
            made[key] = contents, copy.deepcopy(model)
            return table, model
        contents, model = made[key]
        for name, content in contents.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return bf.open(path), copy.deepcopy(model)

    return copied
