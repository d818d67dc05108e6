"""Opening a base file of a file slice.

I/O: opens the file, and reads what it says of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bucketfmt.errors import BucketfmtError, CorruptError, NotFoundError
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.limits import Limits
from bucketfmt.rows.row_file import RowFile, check_base_file_format, open_row_file
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.storage.store import Store

__all__ = ["open_base_file"]


@contextmanager
def open_base_file(store: Store, file: DataFile, limits: Limits) -> Iterator[RowFile]:
    """Open a base file. Errors of the body that are not of another file get the path.

    Raises:
        CorruptError: the file is missing, or damaged.
        NotFoundError: the file was deleted since it was listed.
        UnsupportedError: the format of the file is not read; then the file is not opened.
        LimitError: the file is larger than `limits` allow.
    """
    file.check_exists()
    extension = file.name.extension if isinstance(file.name, BaseFileName) else "log"
    try:
        check_base_file_format(extension.upper())
        with store.open_arrow(file.path) as source:
            yield open_row_file(source, extension, limits)
    except CorruptError as error:
        raise file.explained(error).within(path=file.path) from None
    except NotFoundError as error:
        raise (file.gone() if error.path == file.path else error) from None
    except BucketfmtError as error:
        raise error.within(path=file.path) from None
