"""The tables with a metadata table that real Hudi wrote, in memory."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.storage.store import Store
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config

DATA = Path(__file__).parents[1] / "data"
VERSIONS = ("0.15.0", "1.0.2", "1.2.0")

OF_METADATA: tuple[str, ...] = tuple(
    sorted(
        path.relative_to(DATA).as_posix().removesuffix(".tar.xz")
        for path in (DATA / "metadata").glob("*/*.tar.xz")
    )
)
"""Tables that were made to have a metadata table: `metadata/<hudi version>/<name>`."""

TABLES: tuple[str, ...] = (
    *(f"{version}/{name}" for version in VERSIONS for name in ("rli", "mdt_bucket")),
    *OF_METADATA,
)


def loaded(store: Store) -> MetadataTable:
    config = load_config(store, DEFAULT_LIMITS)
    timeline = load_timeline(store, config, DEFAULT_LIMITS)
    found = load_metadata_table(store, config, timeline, DEFAULT_LIMITS)
    assert found is not None
    return found


@cache
def recorded(table: str) -> pa.Table | None:
    """What Hudi itself read of the metadata table; None where Hudi could not read it."""
    folder = f"_expected/{table.rpartition('/')[2]}_metadata/"
    with tarfile.open(DATA / f"{table}.tar.xz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.startswith(folder) else None
            if content is not None and member.name.endswith(".parquet"):
                return pq.read_table(io.BytesIO(content.read()))
    return None
