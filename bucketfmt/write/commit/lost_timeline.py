"""Whether a table whose timeline is empty is a new one, or one whose timeline was lost.

I/O. Of a file that is older than the first instant of a timeline, readers take it that it was
committed and archived. While there is no instant they see no file. So the first write to a table
that lost its timeline would bring all its files back, those of failed and replaced writes too, and
add the rows again that it did not find. Hudi's writers do so.
"""

from __future__ import annotations

from bucketfmt.errors import CorruptError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.storage.store import Store
from bucketfmt.timeline.timeline import Timeline

__all__ = ["check_not_lost"]


def check_not_lost(store: Store, config: TableConfig, timeline: Timeline) -> None:
    """Refuse to begin the first instant of a timeline beside data files.

    Raises:
        CorruptError: there are data files. The next step is to put the timeline back, or to move
            the files away.
    """
    if timeline.instants:
        return
    lister = StoreLister(store)
    for partition in lister.partitions:
        for files in lister.files(partition).values():
            raise CorruptError(
                f"the table has data files, such as {files[0].path}, and no instant is in its "
                "timeline: a write would bring back the rows of all files, of failed and replaced "
                "writes too, beside its own. Nothing is written. Put the files of the timeline "
                "back from a copy; or move the data files away, and write their rows anew",
                path=config.timeline_path,
            )
