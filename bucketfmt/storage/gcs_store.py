"""A `Store` over Google Cloud Storage: conditions are on the generation of an object.

Does I/O, through the client of gcsfs. Source: Cloud Storage's JSON API, request preconditions
(`ifGenerationMatch`, where 0 is "the object does not exist").
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.storage.fsspec_store import FsspecStore

__all__ = ["GcsStore"]

_ABSENT = "0"
_PARTS = (
    b"--%b\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%b\r\n"
    b"--%b\r\nContent-Type: application/octet-stream\r\n\r\n%b\r\n--%b--"
)


class GcsStore(FsspecStore):
    """The files below one `gs://` URL. See `Store` for the verbs."""

    _options: ClassVar[Mapping[str, Any]] = {"use_listings_cache": False}
    _version_key: ClassVar[str] = "generation"

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            return self._put(full, data, _ABSENT) is not None

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, as `Store.replace` says."""
        with self._located(path, to_write=True) as full:
            self._put(full, data, None)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says."""
        with self._located(path, to_write=True) as full:
            return self._put(full, data, version)

    def _put(self, full: str, data: Buffer, generation: str | None) -> str | None:
        """Put an object, in the place of this generation if one is given.

        Returns:
            The new generation; None if the object is of another one.
        """
        bucket, key, _ = self._fs.split_path(full)
        boundary = uuid.uuid4().hex  # gcsfs has the same for all files, and data may contain it
        mark = boundary.encode()
        try:
            put = self._fs.call(
                "POST",
                f"{self._fs._location}/upload/storage/v1/b/{{}}/o",
                bucket,
                uploadType="multipart",
                ifGenerationMatch=generation,
                headers={"Content-Type": f"multipart/related; boundary={boundary}"},
                data=_PARTS % (mark, msgspec.json.encode({"name": key}), mark, bytes(data), mark),
                json_out=True,
            )
        except FileExistsError:  # status 412
            return None
        return str(put["generation"])
