"""A `Store` over Azure Blob Storage: conditions are on the ETag of a blob.

Does I/O, through the client of adlfs. Source: Azure's Put Blob and Put Block List with the headers
`If-None-Match: *` and `If-Match`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.storage.fsspec_store import FsspecStore

__all__ = ["AzureStore"]


class AzureStore(FsspecStore):
    """The files below one `az://` or `abfs://` URL. See `Store` for the verbs."""

    _options: ClassVar[Mapping[str, Any]] = {"use_listings_cache": False}
    _version_key: ClassVar[str] = "etag"

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
