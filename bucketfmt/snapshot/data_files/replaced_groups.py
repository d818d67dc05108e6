"""File groups that commits replaced, against those that are there. Pure.

A flipped bit in what a replacecommit says it replaced brings old rows back. The file groups that
are there tell which id was meant (docs/decisions/0007).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.damaged_names import differ_in_one

__all__ = ["check_replaced"]

_UUID_SIZE, _UUID_HALF = 36, 18


def check_replaced(
    partition_path: str,
    file_ids: Collection[str],
    replaced: Collection[str],
    strays: Mapping[str, str],
) -> None:
    """Check that no file group is still read because the commit that replaced it is damaged.

    Only ids with a UUID of their own are looked at: no two of those are alike by chance.

    Args:
        partition_path: The partition to be read.
        file_ids: Its file groups.
        replaced: Those that commits replaced in it.
        strays: The partitions of replaced file groups that no commit wrote there, by file id.

    Raises:
        CorruptError: a commit replaced what never was, and it is a file group of this partition
            but for one character of its id, or but for the partition.
    """
    unknown = [file_id for file_id in replaced if file_id not in file_ids]
    if unknown:
        halves = {half: file_id for file_id in file_ids for half in _halves(file_id)}
        for file_id in unknown:
            for meant in {halves[half] for half in _halves(file_id) if half in halves}:
                if meant not in replaced and differ_in_one(file_id, meant):
                    raise _replaced_wrongly(meant, file_id, partition_path)
    for file_id in strays.keys() & file_ids:
        if strays[file_id] != partition_path and any(_halves(file_id)):
            raise _replaced_wrongly(file_id, file_id, strays[file_id])


def _halves(file_id: str) -> Iterator[str]:
    """Yield the id without either half of its UUID; nothing where that is no random one."""
    if len(file_id) >= _UUID_SIZE and not file_id[8:_UUID_SIZE].endswith("0" * 12):
        yield "<" + file_id[:_UUID_HALF]
        yield ">" + file_id[_UUID_HALF:]


def _replaced_wrongly(meant: str, file_id: str, partition_path: str) -> CorruptError:
    return CorruptError(
        f"file group {meant}: a commit replaced {file_id} in partition {partition_path!r}, which "
        "no commit wrote: the commit is damaged; restore it"
    )
