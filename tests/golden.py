"""The tables real Hudi wrote, packed in tests/data/<hudi version>/<name>.tar.xz."""

from __future__ import annotations

import contextlib
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

DATA = Path(__file__).parent / "data"

GOLDEN: list[tuple[str, str]] = sorted(
    (path.parent.name, path.name.removesuffix(".tar.xz")) for path in DATA.glob("*/*.tar.xz")
)
"""Every (Hudi version, table name) that is packed."""


def folders(unpacked: Path) -> list[str]:
    """The folders of what Hudi read back: `name`, `name_read_optimized`, `name_asof_0`, ..."""
    return sorted(path.name for path in (unpacked / "_expected").iterdir() if path.is_dir())


def unpack(version: str, name: str, into: Path) -> Path:
    """Unpack one table and what Hudi read back; return the folder that holds both."""
    folder = into / version / name
    if not folder.exists():
        # Renamed into place whole, since several test processes share `into`.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unpacked:
            with tarfile.open(DATA / version / f"{name}.tar.xz") as archive:
                archive.extractall(unpacked, filter="fully_trusted")  # this repository made it
            with contextlib.suppress(OSError):  # another process was first
                Path(unpacked).rename(folder)
                Path(unpacked).mkdir()
    return folder


def expected(folder: Path, name: str, suffix: str = "") -> pa.Table:
    """What Hudi itself read back: columns sorted by name, row order free."""
    return ds.dataset(folder / "_expected" / f"{name}{suffix}", format="parquet").to_table()
