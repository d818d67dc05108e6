"""A `Store` over WebHDFS: a file is written beside its place, and renamed by the name node.

Does I/O. Source: Hadoop's WebHDFS REST API, `ClientProtocol.rename2`. The name node answers a read
or a write with the location of the content, which a data node takes or has. fsspec's client waits
for ever for a node that is silent, sends no request again, takes what a data node says of an error
for the content of the file, and passes on no options of a rename.

HDFS has no condition by which a file is replaced. See `WebHdfsStore.replace_if`.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa

from bucketfmt.errors import StorageError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.paths import format_temporary_name, is_temporary_name
from bucketfmt.storage.requests import count_requests
from bucketfmt.storage.stores.fsspec_store import FsspecStore
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["WebHdfsStore"]

_SILENCE_S = 60.0  # as the clients of S3 and Azure have it
_TRIES = 5
_FIRST_WAIT_S = 0.1  # and twice as long after each try
_PASSING = frozenset({429, 500, 502, 503, 504})
_NOT_FOUND = 404
_CONNECTIONS = 128  # two requests of each thread, see `streams`
_CLAIM = "user.bucketfmt.next."
_CLAIMS_MAX = 30  # an inode has at most 32 extended attributes by default
_BY_NUMBER = "/.reserved/.inodes/"  # a file by its version, whatever its name is now
_LOOKS, _LOOK_S = 30, 1.0  # at a version that as many claim as can

_T = TypeVar("_T")
_Rename = Literal["NONE", "OVERWRITE"]


class HdfsUnavailableError(OSError):
    """What may succeed when it is tried again."""


class WebHdfsStore(FsspecStore):
    """The files below one `webhdfs://` URL. See `Store` for the verbs.

    A request is sent again up to four times where a node is silent for a minute, closes the
    connection, sends less than was asked for, or answers 429, 500, 502, 503 or 504.
    """

    # A file system of its own: other users of fsspec keep the session that theirs has.
    _options: ClassVar[Mapping[str, Any]] = {"skip_instance_cache": True}
    _version_key: ClassVar[str] = "fileId"  # of the inode, which no other inode ever has
    _is_written: ClassVar[bool] = True
    _more_options: ClassVar[Collection[str]] = ()

    @property
    def writes_beside(self) -> bool:
        """True: the name node renames files that are whole."""
        return True

    def _open(self) -> tuple[tuple[Any, str], str]:
        url, options = self._url_and_options
        if "::" not in url and not urlsplit(url).hostname and "host" not in options:
            raise ValueError(f"{url}: no name node is named; give webhdfs://HOST:PORT/PATH")
        opened, root = super()._open()
        fs, _ = opened
        fs.session = _PatientSession(fs.session)
        fs._call = partial(_without_files_as_folders, fs._call)
        return opened, root

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            return self._rename(self._create_beside(full, data), full, "NONE")

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, as `Store.replace` says."""
        with self._located(path, to_write=True) as full:
            self._rename(self._create_beside(full, data), full, "OVERWRITE")

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says.

        Whoever is about to replace a version claims it first: it sets an extended attribute of the
        file, with the next free number and the name of its new file beside. The name node sets each
        number once. Whoever finds a number taken removes the new file of that other one, who can
        then no longer rename it. So of all who look at the version after that, and find it to be
        the one they know, the one with the highest number alone still has a file to rename. A
        claim of a process that died holds nobody up. The attributes go with the version, by whose
        number the file is claimed: who is late would else claim the version that comes next.
        """
        with self._located(path, to_write=True) as full:
            if self._version_now(full) != version:
                return None
            temporary = self._create_beside(full, data)
            try:
                new = self._version(temporary)
                is_done = (
                    self._claim(full, temporary, version) and self._version_now(full) == version
                )
            except BaseException:
                with suppress(Exception):
                    self._remove(temporary)
                raise
            if not is_done:
                self._remove(temporary)
                return None
            return new if self._rename(temporary, full, "OVERWRITE", new) else None

    def delete(self, path: str) -> None:
        """Remove one file. Nothing happens if the file does not exist."""
        with self._located(path, to_write=True) as full:
            self._remove(full)

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it."""
        with self._located(path, to_write=True) as full:
            self._remove(full, recursive="true")

    def _whole(self, full: str, size: int) -> bytes:
        return self._content(full, (0, size)) if size else b""

    def _parts(self, full: str, spans: Sequence[tuple[int, int]]) -> Iterable[bytes]:
        return map_in_threads(partial(self._content, full), spans, waiting_count(self))

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file for random reads, as `FsspecStore.open_arrow` does."""
        with self._located(path) as full:
            return self._open_file(full, path, lambda start, end: self._content(full, (start, end)))

    def _content(self, full: str, span: tuple[int, int]) -> bytes:
        """Return a span of a file by two requests; fsspec asks for the state of the file too."""
        start, end = span
        given = {"offset": str(start), "length": str(end - start)}
        count_requests()
        session, failed = self._fs.session, _FailedNodes()
        answer = _again(
            lambda: failed.avoided(partial(self._locate, "GET", "OPEN", full, given), session.get)
        )
        return bytes(answer.content)

    def _locate(
        self, method: str, operation: str, full: str, given: Mapping[str, str], **others: str
    ) -> str:
        """Return where a data node takes or has content, as the name node says."""
        answer = self._call(method, operation, full, **given, **others)
        return str(self._fs._apply_proxy(answer.headers["location"]))

    def _create_beside(self, full: str, data: Buffer) -> str:
        """Create a file with this content in the folder of another; return its name.

        Each try has a name of its own: a request that is late creates no file that counts.
        """
        failed = _FailedNodes()

        def create() -> str:
            name = format_temporary_name(uuid.uuid4().hex)
            temporary = f"{full.rpartition('/')[0]}/{name}"
            locate = partial(self._locate, "PUT", "CREATE", temporary, {"overwrite": "false"})
            count_requests()
            try:
                failed.avoided(locate, lambda location: self._fs.session.put(location, data))
            except BaseException:
                with suppress(Exception):
                    self._call("DELETE", "DELETE", temporary)
                raise
            return temporary

        return _again(create)

    def _rename(self, temporary: str, full: str, how: _Rename, new: str | None = None) -> bool:
        """Give a file its name; return False if another has the name, or this one was removed.

        However this ends, nothing is left beside.

        Args:
            temporary: The file.
            full: Its name to be.
            how: NONE leaves a file of that name; OVERWRITE puts this one in its place.
            new: The version of the file, if others may remove it.

        Raises:
            StorageError: the file was removed, or the folder; or whether it was renamed is unknown.
        """
        for number in _tries():
            count_requests()
            try:
                self._call("PUT", "RENAME", temporary, destination=full, renameoptions=how)
            except FileExistsError:
                self._remove(temporary)
                return False
            except FileNotFoundError:
                return self._is_renamed(full, new, was_sent=number > 0)
            except HdfsUnavailableError as error:
                failed = error  # it may have taken effect
            except BaseException:
                with suppress(Exception):
                    self._remove(temporary)
                raise
            else:
                return True
        # So that no request which is late renames it. Whether one did is told by an only try.
        count_requests()
        try:
            answer = self._call("DELETE", "DELETE", temporary)
        except HdfsUnavailableError:
            self._remove(temporary)
            raise failed from None
        if answer.json()["boolean"]:
            raise failed
        return self._is_renamed(full, new, was_sent=True)

    def _is_renamed(self, full: str, new: str | None, *, was_sent: bool) -> bool:
        """Return whether a file that is no longer beside was renamed by a request sent before."""
        if new is None:
            if was_sent:
                return True
            raise StorageError("what was written beside it is gone, as if the folder was; retry")
        if was_sent and self._version_now(full) != new:
            raise StorageError("whether it was replaced is unknown; read it, then retry")
        return was_sent

    def _claim(self, full: str, temporary: str, version: str) -> bool:
        """Say that a version is about to be replaced; return False if it is gone.

        Raises:
            StorageError: as many as can have claimed the version, and none of them replaces it.
        """
        folder, _, name = temporary.rpartition("/")
        number = 0
        while number < _CLAIMS_MAX:
            attribute = {"xattr.name": f"{_CLAIM}{number}", "xattr.value": f'"{name}"'}
            count_requests()
            try:
                self._set_attribute(version, attribute)
            except FileNotFoundError:
                return False
            except HdfsUnavailableError:
                raise
            except OSError:
                claimants = self._claimants(version)
                if claimants is None:
                    return False
                if number not in claimants:
                    raise
                if claimants[number] == name:  # by a request whose answer was lost
                    return True
                for other, claimant in claimants.items():
                    if other >= number and is_temporary_name(claimant) and "/" not in claimant:
                        self._remove(f"{folder}/{claimant}")
                number = max(claimants) + 1
            else:
                return True
        for _ in range(_LOOKS):  # of so many who claim it now, one replaces it
            if self._version_now(full) != version:
                return False
            time.sleep(_LOOK_S)
        raise StorageError(
            f"{_CLAIMS_MAX} processes died while they replaced this version of the file; copy the "
            "file, and put the copy in its place"
        )

    def _set_attribute(self, version: str, attribute: Mapping[str, str]) -> None:
        full = _BY_NUMBER + version
        _again(lambda: self._call("PUT", "SETXATTR", full, flag="CREATE", **attribute))

    def _claimants(self, version: str) -> dict[int, str] | None:
        """Return what was written beside by those who claim a version, by their numbers.

        None if no file is of that version any more.
        """
        count_requests()
        full = _BY_NUMBER + version
        try:
            answer = _again(lambda: self._call("GET", "GETXATTRS", full, encoding="TEXT"))
        except FileNotFoundError:
            return None
        found = answer.json()["XAttrs"]
        return {
            int(own["name"][len(_CLAIM) :]): own["value"].strip('"')
            for own in found
            if own["name"].startswith(_CLAIM) and own["name"][len(_CLAIM) :].isdecimal()
        }

    def _version_now(self, full: str) -> str | None:
        count_requests()
        try:
            return self._version(full)
        except FileNotFoundError:
            return None

    def _remove(self, full: str, recursive: str = "false") -> bool:
        """Remove a file, or a folder with all in it; return whether it was there."""
        answer = _again(lambda: self._call("DELETE", "DELETE", full, recursive=recursive))
        return bool(answer.json()["boolean"])

    def _call(self, method: str, operation: str, full: str, **given: str) -> Any:
        """Ask the name node once."""
        fs = self._fs
        url = fs._apply_proxy(fs.url + quote(full, safe="/="))
        params = {**given, **fs.pars, "op": operation}
        return _checked(fs.session.once(method, url, params=params, allow_redirects=False))


class _FailedNodes:
    """The data nodes that failed in one work, which the name node may not know of for minutes."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def avoided(self, locate: Callable[..., str], ask: Callable[[str], _T]) -> _T:
        """Have the name node name a data node, and ask that one.

        Raises:
            HdfsUnavailableError: it failed, and the next call avoids it; or no other has the
                content, and the next call avoids none.
        """
        names = {"excludedatanodes": ",".join(self._names)} if self._names else {}
        try:
            location = locate(**names)
        except (HdfsUnavailableError, FileExistsError, FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if not self._names:
                raise
            self._names.clear()
            raise HdfsUnavailableError(str(error)) from error
        try:
            return ask(location)
        except HdfsUnavailableError:
            self._names.append(urlsplit(location).netloc)
            raise


class _PatientSession:
    """What fsspec's client reads by, in place of its `requests.Session`."""

    def __init__(self, session: Any) -> None:
        from requests.adapters import HTTPAdapter  # noqa: PLC0415  (an optional dependency)

        self._session = session
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))

    def request(self, *, method: str, url: str, **given: Any) -> Any:
        """Ask a name node for what it knows; the caller looks at the status of the answer."""
        return _again(lambda: self.once(method, url, **given))

    def get(self, location: str) -> Any:
        """Ask a data node for content, of the length that the location names, once."""
        lengths = parse_qs(urlsplit(location).query).get("length")
        answer = self.once("GET", location)
        if lengths and answer.ok and len(answer.content) != int(lengths[0]):
            told = f"{len(answer.content)} bytes came where {lengths[0]} were asked for"
            raise HdfsUnavailableError(told)
        return _checked(answer)

    def put(self, location: str, data: Buffer) -> None:
        """Send content to a data node, once."""
        kind = {"content-type": "application/octet-stream"}  # else HttpFS refuses it
        _checked(self.once("PUT", location, data=bytes(data), headers=kind))

    def once(self, method: str, url: str, **given: Any) -> Any:
        """Send a request, and return the answer, which may be an error that stays.

        Raises:
            HdfsUnavailableError: there was no answer, or one that may be another next time.
        """
        from requests import exceptions  # noqa: PLC0415  (as above)

        try:
            answer = self._session.request(method, url, timeout=_SILENCE_S, **given)
        except (
            exceptions.ChunkedEncodingError,
            exceptions.ConnectionError,
            exceptions.Timeout,
        ) as error:
            raise HdfsUnavailableError(f"{type(error).__name__}: {error}") from error
        if answer.status_code in _PASSING:
            raise HdfsUnavailableError(f"{answer.status_code} {answer.reason}")
        return answer


def _checked(answer: Any) -> Any:
    """Return an answer that is no error.

    Raises:
        FileExistsError, FileNotFoundError, PermissionError: as the node says.
        OSError: another error of a node.
    """
    if answer.ok:
        return answer
    try:
        told = answer.json()["RemoteException"]
        kind, message = str(told["exception"]), str(told["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        kind, message = "", f"{answer.status_code} {answer.reason}"
    if kind == "FileAlreadyExistsException":
        raise FileExistsError(message)
    if kind == "FileNotFoundException" or answer.status_code == _NOT_FOUND:
        raise FileNotFoundError(message)
    if kind in ("AccessControlException", "SecurityException") and not _is_below_a_file(message):
        raise PermissionError(message)
    # Of names or of bytes, for which a file under write counts with whole blocks.
    number = [errno.EDQUOT] if kind.endswith("QuotaExceededException") else []
    raise OSError(*number, f"{kind}: {message}" if kind else message)


def _without_files_as_folders(call: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call the name node for fsspec. What is below a file is not there; HDFS forbids the access."""
    try:
        return call(*given, **options)
    except PermissionError as error:
        if _is_below_a_file(str(error)):
            raise FileNotFoundError(str(error)) from error
        raise


def _is_below_a_file(message: str) -> bool:
    return "(is not a directory)" in message.lower()


def _tries() -> Iterator[int]:
    """Yield the number of each try, and wait in between."""
    for number in range(_TRIES):
        if number:
            time.sleep(_FIRST_WAIT_S * 2 ** (number - 1))
        yield number


def _again(ask: Callable[[], _T]) -> _T:
    """Return what was asked for, and try again where an error may pass."""
    for number in _tries():
        try:
            return ask()
        except HdfsUnavailableError:  # noqa: PERF203  (each try is a request)
            if number == _TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")
