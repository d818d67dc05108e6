"""What a folder without hoodie.properties is, for the error that there is no table.

I/O: lists the folder, and some of its subfolders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.names.layout import (
    METADATA_FOLDER,
    PARTITION_METAFILE,
    PROPERTIES,
    is_partition_metafile_name,
    is_properties_name,
)
from bucketfmt.format.table.properties import decode_partition_metadata
from bucketfmt.storage.store import FileInfo, Store

__all__ = ["describe_folder"]

_SUBFOLDERS_MAX = 32  # each is a request or two
_TABLES_SHOWN = 5
_DEPTH_MAX = 32
_METAFILE_BYTES_MAX = 4096
_ICEBERG_METADATA = re.compile(r".*\.metadata\.json(\.gz)?|version-hint\.text")


def describe_folder(store: Store) -> str:
    """Return what is at the root of the store and what to do, as the end of a message."""
    try:
        return _describe(store)
    except BucketfmtError:  # the caller has an error to tell already
        return _by_default()


def _by_default() -> str:
    return f"{PROPERTIES} is not there; give the folder above {METADATA_FOLDER}"


def _describe(store: Store) -> str:
    entries = store.list("")
    if not entries:
        found = store.info("")
        if found is not None and not found.is_dir:
            return "this is a file; give the folder of the table"
        return "the folder is empty or does not exist"
    files = [entry.name for entry in entries if not entry.is_dir]
    folders = [entry.name for entry in entries if entry.is_dir]
    uri = store.uri.rstrip("/")
    if any(map(is_properties_name, files)):
        return f"this is the {METADATA_FOLDER} folder of the table at {_parent(uri, 1)}"
    if METADATA_FOLDER in folders:
        return (
            f"{PROPERTIES} is not there, and the rest of {METADATA_FOLDER} is; restore the file "
            "from a backup"
        )
    metafile = next(filter(is_partition_metafile_name, files), None)
    if metafile is not None:
        depth = _partition_depth(store, metafile)
        return f"this is a partition of {_table_above(uri, depth)}"
    foreign = _foreign_format(folders, lambda folder: [e.name for e in store.list(folder)])
    if foreign is not None:
        return f"this is {foreign}"
    return _describe_contents(store, files, folders)


def _partition_depth(store: Store, metafile: str) -> int | None:
    """Return how many folders a partition is below its table; None if the file does not tell."""
    if not metafile.endswith(PARTITION_METAFILE):  # in parquet or another format of base files
        return None
    depth = decode_partition_metadata(store.read(metafile, _METAFILE_BYTES_MAX)).partition_depth
    return depth if 0 < depth <= _DEPTH_MAX else None


def _table_above(uri: str, depth: int | None) -> str:
    where = "" if depth is None else f" at {_parent(uri, depth)}"
    return f"the Hudi table{where}; give the folder of the table"


def _parent(uri: str, depth: int) -> str:
    return uri.rsplit("/", depth)[0] or "/"


def _foreign_format(folders: Iterable[str], names_in: Callable[[str], Iterable[str]]) -> str | None:
    """Return the format of another kind of table, by the names of its folders."""
    found = set(folders)
    if "_delta_log" in found:
        return "a Delta table; the package deltalake reads it"
    if "metadata" in found and any(map(_ICEBERG_METADATA.fullmatch, names_in("metadata"))):
        return "an Iceberg table; the package pyiceberg reads it"
    if {"snapshot", "manifest", "schema"} <= found:
        return "a Paimon table; the package pypaimon reads it"
    return None


def _describe_contents(store: Store, files: list[str], folders: list[str]) -> str:
    """Return whether a folder holds tables or parquet files."""
    tables, partition = [], None
    has_parquet = any(name.endswith(".parquet") for name in files)
    for folder in islice((name for name in folders if not name.startswith(".")), _SUBFOLDERS_MAX):
        inside = store.list(folder)
        if any(entry.is_dir and entry.name == METADATA_FOLDER for entry in inside):
            tables.append(folder)
        has_parquet |= any(_is_parquet(entry) for entry in inside)
        partition = partition or next(filter(_is_metafile, inside), None)
    if tables:
        names = [name if name.isprintable() else repr(name) for name in tables[:_TABLES_SHOWN]]
        shown = ", ".join(names) + (", ..." if len(tables) > _TABLES_SHOWN else "")
        held = "a Hudi table" if len(tables) == 1 else f"{len(tables)} Hudi tables"
        return f"this is a folder that holds {held}: {shown}; give the folder of a table"
    if partition is not None:
        depth = _partition_depth(store, partition.path)
        if depth == 1:
            return f"this folder has partitions of a Hudi table, and no {METADATA_FOLDER} folder"
        return "this folder holds partitions of " + _table_above(
            store.uri.rstrip("/"), None if depth is None else depth - 1
        )
    if has_parquet:
        return (
            "this is a folder of parquet files without a Hudi timeline; pyarrow, polars and DuckDB "
            "read it as it is"
        )
    return _by_default()


def _is_metafile(entry: FileInfo) -> bool:
    return not entry.is_dir and is_partition_metafile_name(entry.name)


def _is_parquet(entry: FileInfo) -> bool:
    return not entry.is_dir and entry.name.endswith(".parquet")
