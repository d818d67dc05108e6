"""Paths of write stats that Hudi did not make relative to the table, though it meant to.

Pure. Source: `HoodieWriteStat.setPath(basePath, path)` cuts the text of the base path out of the
text of the path. `MarkerBasedCommitMetadataResolver` calls it with the path of a listed file, which
has a scheme, whatever the writer was given as base path:

| base path | listed file | path of the stat |
|---|---|---|
| `/d/t` | `file:/d/t/eu/.f` | `file:eu/.f` |
| `/d/t` | `hdfs://nn:8020/d/t/eu/.f` | `hdfs://nn:8020eu/.f` |
| `hdfs:///d/t` | `hdfs://nn:8020/d/t/eu/.f` | `hdfs://nn:8020/d/t/eu/.f` |
| `s3a://b/` | `s3a://b/eu/.f` | `s3a://b/eu/.f` |
"""

from __future__ import annotations

import re

from bucketfmt.errors import LimitError, UnsafePathError, UnsupportedError
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.names.paths import check_relative_path, join_path

__all__ = ["find_relative_path"]

_ROOT = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:(?://[a-zA-Z0-9._~@:\[\]-]+)?")


def find_relative_path(path: str, partition_path: str, file_id: str) -> str | None:
    """Return the path in the table of a file whose path begins with a scheme.

    None if the path has no scheme, or is not that of a data file of the file group, right behind
    a scheme and authority or in a folder that has a scheme. Who uses the path checks it, as any.
    """
    if _ROOT.match(path) is None:
        return None
    name = _find_name(path, file_id)
    if name is None:
        return None
    relative = join_path(partition_path, name)
    if not path.endswith(relative):
        return None
    before = path[: -len(relative)]
    root = _ROOT.match(before)
    if root is None:
        return None
    folder = before[root.end() :]
    if folder in {"", "/"}:
        return relative
    if not folder.startswith("/") or not folder.endswith("/"):
        return None
    try:
        check_relative_path(folder[1:-1])
    except (LimitError, UnsafePathError):
        return None
    return relative


def _find_name(path: str, file_id: str) -> str | None:
    """Return the end of a path that is the name of a data file of a file group."""
    for begin in (f".{file_id}_", f"{file_id}_"):
        name = path[at:] if (at := path.rfind(begin)) >= 0 else ""
        try:
            parsed = find_data_file_name(name)
        except UnsupportedError:  # registered from outside Hudi: whoever reads its path says so
            continue
        if parsed is not None and parsed.file_id == file_id:
            return name
    return None
