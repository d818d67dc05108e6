"""Which store a path or URL means. Opens nothing yet."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from typing import Any

from bucketfmt.arguments import check_kind, check_text
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores.local_store import LocalStore

__all__ = ["open_above", "open_store"]

_SCHEMES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hdfs", "webhdfs", "memory"}


def open_store(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Store:
    """Return a store whose root is `uri`. Reads and creates nothing yet.

    A path, a `pathlib.Path` and a `file:` URL are local, and what begins with `/`; anything else
    goes through fsspec with `storage_options` (`s3://`, `gs://`, `memory://`, ...). Slashes that
    follow one another count as one, and `.` and `..` are folders, as in Hadoop and on disks:
    `s3://lake//./trips` is `s3://lake/trips`.

    Raises:
        TypeError: `uri` is neither text nor a path.
        ValueError: `uri` is empty or no path, lacks a slash of a URL, or fsspec knows no
            such protocol, or its client no such option; or options were given for a local path.
        StorageError: the file system of that protocol could not be set up.
    """
    check_kind("uri", uri, (str, os.PathLike), "a path or a URL")
    text = check_text("uri", os.fspath(uri))
    if not text:  # as of a variable of a shell that is not set
        raise ValueError(
            f"a table is at a path or a URL, not {text!r}; '.' is the folder of this process"
        )
    if "\0" in text:
        raise ValueError(f"uri is a path or a URL without null characters, not {text!r}")
    scheme, colon, path = text.partition(":/")
    if colon and scheme in _SCHEMES and not path.startswith("/"):
        raise ValueError(f"{text}: a URL has two slashes: {scheme}://{path}")
    if text.startswith("file://") and not text.startswith("file:///"):
        raise ValueError(f"{text}: the URL of a local path has three slashes: file:///lake/trips")
    is_url = ("://" in text or "::" in text) and not text.startswith("/")
    for prefix in ("file://", "local://", "file:"):
        if "::" not in text and text.startswith(prefix):
            text, is_url = text[len(prefix) :], False
    if is_url:
        if scheme in _SCHEMES and "::" not in text:
            text = _normalize(text)
        return _open_remote(text, storage_options or {}, limits)
    if storage_options:
        raise ValueError("storage_options are for remote stores; a local path takes none")
    return LocalStore(text, limits)


def open_above(
    store: Store, storage_options: Mapping[str, Any] | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[Store]:
    """Return stores of the folders above the root of a store, the nearest first.

    The last is that of the bucket, the host or the disk. Of a chained URL there are none.

    Args:
        store: As `open_store` returns it.
        storage_options: With which it was opened.
        limits: Likewise.
    """
    if "::" in store.uri:
        return []
    scheme, separator, path = store.uri.rstrip("/").rpartition("://")
    names = path.split("/")
    folders = ("/".join(names[:count]) or "/" for count in range(len(names) - 1, 0, -1))
    return [
        open_store(f"{scheme}{separator}{folder}", storage_options, limits) for folder in folders
    ]


def _normalize(url: str) -> str:
    """Return the URL of a folder as Hudi has it, by Hadoop's paths: no `//`, `.` and `..`."""
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}" + posixpath.normpath(f"/{path.strip('/')}").rstrip("/")


def _open_remote(url: str, storage_options: Mapping[str, Any], limits: Limits) -> Store:
    # Imported here: fsspec takes half as long as pyarrow, and local tables do without.
    from bucketfmt.storage.stores.azure_store import AzureStore  # noqa: PLC0415
    from bucketfmt.storage.stores.fsspec_memory_store import FsspecMemoryStore  # noqa: PLC0415
    from bucketfmt.storage.stores.fsspec_store import FsspecStore  # noqa: PLC0415
    from bucketfmt.storage.stores.gcs_store import GcsStore  # noqa: PLC0415
    from bucketfmt.storage.stores.s3_store import S3Store  # noqa: PLC0415
    from bucketfmt.storage.stores.webhdfs_store import WebHdfsStore  # noqa: PLC0415

    kinds = {
        **dict.fromkeys(("s3", "s3a"), S3Store),
        **dict.fromkeys(("gs", "gcs"), GcsStore),
        **dict.fromkeys(("az", "abfs", "abfss"), AzureStore),
        "memory": FsspecMemoryStore,
        "webhdfs": WebHdfsStore,
    }
    protocol = "" if "::" in url else url.partition("://")[0]
    return kinds.get(protocol, FsspecStore)(url, storage_options, limits)
