"""Errors about the files of a metadata table: which files they are, and what makes them anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bucketfmt.errors import BucketfmtError, CorruptError, TableNotFoundError
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.names.paths import join_path

__all__ = ["advising_rebuild", "in_metadata_table"]


@contextmanager
def in_metadata_table() -> Iterator[None]:
    """Put the folder of the metadata table before the paths of errors."""
    try:
        yield
    except BucketfmtError as error:
        if error.path is not None:
            error.path = join_path(METADATA_TABLE, error.path)
        raise


@contextmanager
def advising_rebuild() -> Iterator[None]:
    """Have errors about damage of the metadata table end with what makes it anew."""
    try:
        yield
    except (CorruptError, TableNotFoundError) as error:
        if (error.path or METADATA_TABLE).startswith(METADATA_TABLE):
            error.message += (
                ". The files of the table are not concerned; make the metadata table anew: "
                "metadata_table.rebuild()"
            )
        raise
