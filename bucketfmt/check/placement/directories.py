"""Extendible hashing: the directory of each partition, whole, and leading to all its data.

I/O: `find_directory_faults` reads the directories of one partition. C001 to C004.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.buckets.extendible_directory import DirectoryBucket
from bucketfmt.format.buckets.extendible_metadata import (
    ExtendibleMetadata,
    choose_extendible_metadata,
)
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.layout import parse_hashing_metadata_name
from bucketfmt.format.names.names import format_consistent_file_id
from bucketfmt.location.directory_files import list_directory_files, load_directory_file
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.store import FileInfo

__all__ = ["DirectoryCheck"]


class DirectoryCheck:
    """Checks the directories of one partition.

    Attributes:
        buckets: The directory in force once `find_faults` ran; None where nobody can tell.
    """

    def __init__(
        self, state: ExaminedState, partition_path: str, live: Sequence[FileSlice]
    ) -> None:
        """Set up.

        Args:
            state: The table.
            partition_path: The partition.
            live: The slices readers see.
        """
        self._state = state
        self._path = partition_path
        self._live = live
        self.buckets: tuple[DirectoryBucket, ...] | None = None

    def find_faults(self, resized: Collection[str], *, names_only: bool) -> Iterator[Event]:
        """Yield what is wrong.

        Args:
            resized: File ids of the partition that completed commits replaced.
            names_only: Open no file.
        """
        files: dict[str, FileInfo] = {}
        for file in list_directory_files(self._state.store, self._path):
            found = self._name(file)
            if isinstance(found, Finding):
                yield found
            else:
                files[found] = file
        yield Counted("hashing metadata files", len(files))
        if self._live and not files:
            text = f"no metadata, but {len(self._live)} live file groups"
            yield self._fault("C001", text, file_ids=[s.file_id for s in self._live])
        in_force = choose_extendible_metadata(files, Snapshot(self._state).is_visible)
        pending = self._state.timeline.pending
        for instant, file in sorted(files.items()):
            is_later = in_force is None or instant > in_force
            if not is_later or pending.contains(instant):
                continue
            if not self._state.came_or_went([instant], [file.path]):
                text = f"metadata of {instant}, which is on no timeline: what is left of a resize"
                yield self._fault("C002", text, [file.path], [instant])
        if not names_only:
            yield from self._find_faults_inside(files, in_force, resized)

    def _find_faults_inside(
        self, files: dict[str, FileInfo], in_force: str | None, resized: Collection[str]
    ) -> Iterator[Event]:
        loaded: dict[str, ExtendibleMetadata] = {}
        unsound: set[str] = set()
        for instant, file in sorted(files.items()):
            metadata = self._load(instant, file)
            if isinstance(metadata, ExtendibleMetadata):
                loaded[instant] = metadata
            else:
                unsound.add(instant)
                yield metadata
        for finding in self._find_contradictions(files, loaded):
            unsound.update(finding.instants)
            yield finding
        if in_force is not None and in_force in loaded and in_force not in unsound:
            self.buckets = loaded[in_force].buckets
            yield from self._find_stray_groups(in_force, files, resized)
        elif self._live:
            why = "no directory that can be relied on: neither file groups nor keys have a bucket"
            yield NotChecked(f"the buckets of partition {self._path!r}", why)

    def _name(self, file: FileInfo) -> str | Finding:
        try:
            return parse_hashing_metadata_name(file.name)
        except CorruptError as error:
            return self._fault("C001", error.message, [file.path])

    def _load(self, instant: str, file: FileInfo) -> ExtendibleMetadata | Event:
        try:
            return load_directory_file(self._state, file.path)
        except BucketfmtError as error:
            return event_of_error(
                error, "C001", file.path, partition=self._path, instants=[instant]
            )

    def _find_contradictions(
        self, files: dict[str, FileInfo], loaded: dict[str, ExtendibleMetadata]
    ) -> Iterator[Finding]:
        previous: ExtendibleMetadata | None = None
        for instant, metadata in sorted(loaded.items()):
            faults = []
            if metadata.instant != instant:
                faults.append(f"it says it is of instant {metadata.instant}")
            if metadata.partition_path != self._path:
                faults.append(f"it says it is of partition {metadata.partition_path!r}")
            if instant == INIT_INSTANT and metadata.seq_no:
                faults.append(f"the initial directory has sequence number {metadata.seq_no}, not 0")
            if previous is not None and metadata.seq_no <= previous.seq_no:
                faults.append(
                    f"its sequence number {metadata.seq_no} does not follow {previous.seq_no} of "
                    f"{previous.instant}"
                )
            for fault in faults:
                yield self._fault("C003", fault, [files[instant].path], [instant])
            previous = metadata

    def _find_stray_groups(
        self, in_force: str, files: Collection[str], resized: Collection[str]
    ) -> Iterator[Finding]:
        """Yield C004 for live file groups that the directory in force does not lead to.

        C001 instead where the metadata of the resize that made them is missing.
        """
        own = {format_consistent_file_id(b.file_id_prefix) for b in self.buckets or ()}
        live = {file_slice.file_id for file_slice in self._live}
        off = [file_slice for file_slice in self._live if file_slice.file_id not in own]
        gone = own - live
        if off and gone & set(resized):
            yield self._fault(
                "C001",
                f"the newest directory is that of {in_force}, but the partition was resized since: "
                f"{len(gone & set(resized))} of its {len(own)} file groups were replaced, and "
                f"{len(off)} live ones are in no directory",
                file_ids=sorted(gone),
                slices=off,
            )
            return
        for file_slice in off:
            text = f"the directory of {in_force} does not lead to file group {file_slice.file_id}"
            yield self._fault("C004", text, instants=[in_force], slices=[file_slice])

    def _fault(
        self,
        finding_id: str,
        evidence: str,
        paths: Sequence[str] = (),
        instants: Sequence[str] = (),
        *,
        slices: Sequence[FileSlice] = (),
        file_ids: Sequence[str] = (),
    ) -> Finding:
        return Finding.of(
            finding_id,
            evidence,
            partition=self._path,
            slices=slices,
            file_groups=[(self._path, file_id) for file_id in file_ids],
            paths=paths,
            instants=instants,
        )
