"""A `Store` over Azure Blob Storage: conditions are on the ETag of a blob.

Does I/O, through the client of adlfs. Source: Azure's Put Blob and Put Block List with the headers
`If-None-Match: *` and `If-Match`; Get Blob; List Blobs.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from bucketfmt.errors import StorageError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.stores.object_store import ObjectBytes, ObjectStore

__all__ = ["AzureStore"]


_UNSATISFIABLE = 416
_TRIES = 3
_FOLDER_MARKS = ("hdi_isfolder", "is_directory")  # of blobs that stand for folders


class AzureStore(ObjectStore):
    """The files below one `az://` or `abfs://` URL. See `Store` for the verbs."""

    _options: ClassVar[Mapping[str, Any]] = {"use_listings_cache": False}
    _version_key: ClassVar[str] = "etag"
    _more_options: ClassVar[Collection[str]] = ()

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says, by a request for each page."""
        from azure.core.exceptions import ResourceNotFoundError  # noqa: PLC0415  (as adlfs)

        with self._located(path) as full:
            try:
                entries = self._run(self._list(full))
            except ResourceNotFoundError:
                return []
            return self._entries(path, full, entries)

    async def _list(self, full: str) -> Iterable[Mapping[str, Any]]:
        """Return the entries of a folder as adlfs has them.

        With a hierarchical namespace, a folder is listed as an empty blob too.
        """
        container, folder, _ = self._fs.split_path(full)
        prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
        found: dict[str, dict[str, Any]] = {}
        async with self._fs.service_client.get_container_client(container=container) as client:
            async for blob in client.walk_blobs(include=["metadata"], name_starts_with=prefix):
                name = blob.name.rstrip("/")
                marks = getattr(blob, "metadata", None) or {}
                is_folder = name != blob.name or any(marks.get(m) == "true" for m in _FOLDER_MARKS)
                if is_folder:
                    found[name] = {"name": f"{container}/{name}", "type": "directory"}
                elif name not in found:
                    found[name] = {
                        "name": f"{container}/{name}",
                        "type": "file",
                        "size": blob.size,
                        "last_modified": blob.last_modified,
                    }
                self._limits.check("folder_entries_max", len(found))
        return found.values()

    async def _get_whole(self, full: str, limit_bytes: int) -> ObjectBytes:
        return await self._get(full, None, None, limit_bytes)

    async def _get_range(self, full: str, start: int, length: int) -> ObjectBytes:
        return await self._get(full, start, length)

    async def _get_end(self, full: str, length: int) -> ObjectBytes:
        # Azure knows no range that counts from the end: most objects are no longer than this.
        found = await self._get(full, 0, length)
        if found.size <= length:
            return found
        return await self._get(full, found.size - length, length)

    async def _get(
        self, full: str, start: int | None, length: int | None, limit_bytes: int | None = None
    ) -> ObjectBytes:
        """GET a range of a blob, or all of it; again where the body is not whole."""
        from azure.core.exceptions import (  # noqa: PLC0415  (an optional dependency, as adlfs)
            HttpResponseError,
            IncompleteReadError,
            ResourceNotFoundError,
        )

        container, blob, _ = self._fs.split_path(full)
        async with self._fs.service_client.get_blob_client(
            container=container, blob=blob
        ) as client:
            for _ in range(_TRIES):
                try:
                    answer = await client.download_blob(
                        offset=start, length=length, **self._fs._timeout_kwargs
                    )
                    found = ObjectBytes(b"", _find_size(answer), str(answer.properties.etag))
                    if limit_bytes is not None and found.size > limit_bytes:
                        return found
                    data = await answer.readall()
                except ResourceNotFoundError as error:
                    raise FileNotFoundError(full) from error
                except IncompleteReadError:
                    continue
                except HttpResponseError as error:
                    if start is None or error.status_code != _UNSATISFIABLE:
                        raise
                    return ObjectBytes(b"", 0, "")
                end = found.size if length is None else min(found.size, (start or 0) + length)
                if len(data) == end - (start or 0):
                    return found._replace(data=bytes(data))
        raise StorageError(f"{_TRIES} answers ended early; retry")

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            try:
                self._fs.pipe_file(full, bytes(data), overwrite=False)
            except FileExistsError:
                return False
            return True

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says."""
        from azure.core import MatchConditions  # noqa: PLC0415  (an optional dependency, as adlfs)
        from azure.core.exceptions import (  # noqa: PLC0415
            ResourceModifiedError,
            ResourceNotFoundError,
        )

        with self._located(path, to_write=True) as full:
            try:
                put = self._fs.pipe_file(
                    full,
                    bytes(data),
                    etag=version,
                    match_condition=MatchConditions.IfNotModified,
                )
            except (ResourceModifiedError, ResourceNotFoundError):
                return None
            return str(put["etag"])


def _find_size(answer: Any) -> int:
    """Return the size of the blob that an answer has a range of, or all."""
    told = (answer.properties.content_range or "").rpartition("/")[2]
    return int(told) if told.isdigit() else int(answer.size)
