"""Log files that Hudi 1.2 reads as newer than they are: their instants are archived. T010.

Reads listings, and the archived timeline where a restore is active.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bucketfmt.check.examined import ExaminedState
from bucketfmt.check.report import Finding
from bucketfmt.format.names.names import LogFileName
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.write.services.plan_archive import find_oldest_staying

__all__ = ["load_archived_log_faults"]


def load_archived_log_faults(
    state: ExaminedState, slices: Mapping[str, Sequence[FileSlice]]
) -> Iterator[Finding]:
    """Yield T010 for file groups with log files that readers take for part of another file slice.

    Hudi 1.2 takes an archived instant for pending where an older instant is active, and reads the
    log files of pending instants with the newest base file. Source: CompletionTimeQueryViewV2,
    HoodieFileGroup.getBaseInstantTime.

    Args:
        state: The table; its partitions in `slices` have been listed.
        slices: The newest file slices of each partition that is checked.
    """
    oldest = find_oldest_staying(state.timeline)
    if oldest is None or state.timeline.layout < 2:
        return
    archived = {instant.requested_time for instant in state.archived_instants}
    archived -= state.timeline.requested_times
    archived = {time for time in archived if time > oldest}
    for path, own in slices.items():
        listed = state.lister.files(path) if archived else {}
        for newest in own:
            if newest.base_file is None:
                continue
            late = [
                file
                for file in listed.get(newest.file_id, ())
                if isinstance(file.name, LogFileName)
                and file.name.instant in archived
                and file not in newest.log_files
            ]
            if late:
                yield Finding.of(
                    "T010",
                    f"Hudi 1.2 merges log files of earlier file slices ({len(late)}) with "
                    f"{newest.base_file.name}: their instants are archived, and instant {oldest}, "
                    "which is older, is active",
                    partition=path,
                    file_groups=[(path, newest.file_id)],
                    paths=[file.path for file in late],
                    instants=sorted({oldest, *(file.name.instant for file in late)}),
                )
