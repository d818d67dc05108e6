"""Consistent hashing: the ring of each partition, whole, committed, and with all data on it.

`find_*` are pure; `load_ring` reads the metadata of one partition. C001 to C005.
Source: ConsistentBucketIndexUtils.loadMetadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.buckets.hashing_metadata import HashingMetadata, decode_hashing_metadata
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.location.hashing_files import (
    choose_hashing_instant,
    list_hashing_files,
    load_hashing_metadata,
    read_hashing_file,
)
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.storage.store import FileInfo
from bucketfmt.timeline.load import load_resized_partitions, load_resizes, load_timeline
from bucketfmt.timeline.timeline import REPLACING_ACTIONS

__all__ = [
    "Ring",
    "find_lost_ring",
    "find_off_ring_groups",
    "find_replaced_groups",
    "find_ring_faults",
    "load_dropped_rings",
    "load_lost_rings",
    "load_ring",
]


@dataclass(frozen=True)
class Ring:
    """The hashing metadata of one partition, as far as it could be read.

    Attributes:
        partition_path: Of the partition.
        files: Every metadata file by its instant.
        markers: Instants with a marker.
        loaded: What decodes, by instant. Empty at depth quick.
        in_force: The instant whose ring counts; None where there is none or nobody can tell.
        unsound: Instants whose metadata contradicts itself.
        unfollowed: Instants of rings that no later ring follows: they are pending, or were rolled
            back by Hudi, which leaves the rings.
    """

    partition_path: str
    files: dict[str, FileInfo]
    markers: frozenset[str]
    loaded: dict[str, HashingMetadata]
    in_force: str | None
    unsound: frozenset[str]
    unfollowed: frozenset[str]

    @property
    def metadata(self) -> HashingMetadata | None:
        """The ring in force, if it can be relied on."""
        if self.in_force is None or self.in_force in self.unsound:
            return None
        return self.loaded.get(self.in_force)


def load_ring(
    state: ExaminedState,
    partition_path: str,
    live: Sequence[FileSlice],
    events: list[Event],
    names_only: bool,
) -> Ring:
    """Return the hashing metadata of a partition; what is damaged goes to `events`.

    Args:
        state: The table.
        partition_path: Of the partition.
        live: The slices readers see.
        events: Taken further.
        names_only: Open no file.
    """
    listed = list_hashing_files(state.store, partition_path)
    files, markers = listed.by_instant(), listed.marked(state.lister.other_files(partition_path))
    for instant in _find_late(state, {*files, *markers}):
        files.pop(instant, None)
        markers.discard(instant)
    events.append(Counted("hashing metadata files", len(files)))
    loaded: dict[str, HashingMetadata] = {}
    unsound: set[str] = set()
    damaged: dict[str, Event] = {}
    for instant, entry in sorted(files.items()):
        if entry.size == 0:
            damaged[instant] = _fault("C001", partition_path, "no bytes", [entry.path], [instant])
        elif not names_only:
            fault = _load(state, entry, instant, partition_path, loaded)
            if fault is not None:
                damaged[instant] = fault
                unsound.add(instant)
    unfollowed = _find_not_completed(state, files) - markers
    for finding in _find_contradictions(partition_path, files, loaded, unfollowed):
        events.append(finding)
        unsound.update(finding.instants)

    bases = {s.file_id for s in live if s.base_file is not None}
    in_force = None
    try:
        in_force = choose_hashing_instant(
            state,
            files,
            markers,
            lambda instant: instant in loaded and not loaded[instant].file_ids.isdisjoint(bases),
        )
    except CorruptError as error:
        events.append(_fault("C001", partition_path, error.message, [], [max(markers)]))
    for instant, fault in damaged.items():
        is_followed = in_force is not None and instant < in_force
        events.append(_as_followed(fault) if is_followed else fault)
    return Ring(
        partition_path,
        files,
        frozenset(markers),
        loaded,
        in_force,
        frozenset(unsound),
        frozenset(unfollowed),
    )


def _find_not_completed(state: ExaminedState, instants: Iterable[str]) -> set[str]:
    """Return the instants of rings that are neither completed nor archived, as far as is listed."""
    commits = state.timeline.commits
    known = {INIT_INSTANT, *(i.requested_time for i in commits.completed.instants)}
    return {i for i in instants if i not in known and not commits.is_before_start(i)}


def _find_late(state: ExaminedState, instants: Iterable[str]) -> set[str]:
    """Return the instants of resizes that began, or were completed, since the timeline was listed.

    A ring may be marked as committed by then, and leads to file groups that this check does not
    see.
    """
    listed, late = state.timeline, _find_not_completed(state, instants)
    if not late:
        return late
    now = load_timeline(state.store, state.config, state.limits)
    return {
        instant
        for instant in late
        if now.is_completed(instant) or (now.contains(instant) and not listed.contains(instant))
    }


def _load(
    state: ExaminedState,
    entry: FileInfo,
    instant: str,
    partition_path: str,
    loaded: dict[str, HashingMetadata],
) -> Event | None:
    """Load a metadata file; return what is wrong: C003 where it decodes and is no ring."""
    try:
        data = read_hashing_file(state, entry)
        try:
            loaded[instant] = decode_hashing_metadata(data, state.limits)
        except CorruptError as error:
            loaded[instant] = decode_json(data, HashingMetadata, "hashing metadata")
            return _fault("C003", partition_path, error.message, [entry.path], [instant])
    except BucketfmtError as error:
        error.within(path=entry.path)
        return event_of_error(
            error, "C001", entry.path, partition=partition_path, instants=[instant]
        )
    return None


def _as_followed(fault: Event) -> Event:
    """Return what is said of a damaged ring that is in force no more."""
    if not isinstance(fault, Finding):
        return fault
    return replace(
        fault,
        severity="warning",
        evidence=f"{fault.evidence}; a later ring is in force",
        fix="Nobody goes by it unless the later ring is taken back: then make it again by "
        "`repair_rings()`. `clean()` deletes it once the commits of its time are archived.",
        data_loss=False,
    )


def find_lost_ring(ring: Ring, live: Sequence[FileSlice]) -> Iterator[Finding]:
    """Yield C001 for a partition that has data and no metadata."""
    if live and not ring.files:
        text = f"no metadata, but {len(live)} live file groups"
        yield _fault("C001", ring.partition_path, text, file_ids=[s.file_id for s in live])


def load_lost_rings(state: ExaminedState, partitions: Collection[str]) -> Iterator[Finding]:
    """Yield C001 for partitions with rings that a resize changed or is to change.

    Asked of a table without rings: where all are lost, nothing else says that it had some.
    """
    store, config, limits = state.store, state.config, state.limits
    resizes = load_resizes(store, config, state.timeline, limits)
    for instant in state.timeline.pending.of(*REPLACING_ACTIONS).instants:
        time = instant.requested_time
        resizes |= dict.fromkeys(load_resized_partitions(store, config, time, limits), time)
    for path in sorted(resizes.keys() & {*partitions}):
        is_pending = state.timeline.is_pending(resizes[path])
        did, first = "gave the partition a ring", ""
        if is_pending:
            did = "is about to change the ring of the partition"
            first = f"roll the pending resize {resizes[path]} back, "
        yield Finding.of(
            "C001",
            f"no metadata, but the resize {resizes[path]} {did}",
            partition=path,
            instants=[resizes[path]],
            fix=f"Stop the writers and restore the folder of hashing metadata; or {first}open the "
            "table with the index that it was made with, and make the rings again by "
            "`repair_rings()`, from the keys of the file groups.",
        )


def find_ring_faults(
    ring: Ring,
    live: Sequence[FileSlice],
    completed: Collection[str],
    pending_resizes: Collection[str],
    pending: Collection[str],
    archived: Collection[str],
    listed: Collection[str],
) -> Iterator[Finding]:
    """Yield C002 and C005 about the metadata files of one partition.

    Args:
        ring: What was loaded.
        live: The slices readers see.
        completed: Completed commits of the active timeline.
        pending_resizes: Pending instants that have a clustering plan.
        pending: All pending instants.
        archived: Completed instants of the archived timeline.
        listed: File ids of all files of the partition, committed or not.
    """
    path = ring.partition_path
    last_marked = max(ring.markers, default="")
    bases = {s.file_id for s in live if s.base_file is not None}
    groups = {s.file_id for s in live}
    for instant, entry in sorted(ring.files.items()):
        if instant in (INIT_INSTANT, *ring.markers, *completed) or instant <= last_marked:
            continue
        metadata = ring.loaded.get(instant)
        if metadata is None:
            continue  # C001 tells
        own = metadata.file_ids
        if instant in pending:
            # Rows that are moved to a new ring are in its file groups before it is written.
            is_moving = not (own - groups).isdisjoint(listed)
            if instant not in pending_resizes and not is_moving:
                text = f"metadata of {instant}, which is pending and has no plan to resize"
                yield _fault("C002", path, text, [entry.path], [instant])
        elif instant in ring.unfollowed and instant not in archived:
            continue  # Hudi rolled it back, and left its ring
        elif own & bases:
            text = f"the resize {instant} has no marker, and has left the active timeline; base "
            text += "files of its ring are live"
            ids = sorted(own & bases)
            yield _fault("C002", path, text, [entry.path], [instant], file_ids=ids, warning=True)
        elif instant in archived or own & groups:
            text = f"the resize {instant} has no marker, has left the active timeline, and no base "
            text += "file is on its ring: Hudi falls back to the ring before it"
            ids = sorted(own & groups)
            yield _fault("C002", path, text, [entry.path], [instant], file_ids=ids)
    metadata = ring.metadata
    if metadata is not None and len(metadata.nodes) != metadata.num_buckets:
        yield Finding.of(
            "C005",
            f"{len(metadata.nodes)} buckets are live; numBuckets is {metadata.num_buckets}, the "
            "number at first",
            partition=path,
            instants=[metadata.instant],
        )


def _find_contradictions(
    partition_path: str,
    files: Mapping[str, FileInfo],
    loaded: Mapping[str, HashingMetadata],
    unfollowed: Collection[str],
) -> Iterator[Finding]:
    """Yield C003 for what is wrong with rings that ascend.

    Args:
        partition_path: The partition.
        files: Of the rings, by instant.
        loaded: The rings.
        unfollowed: As of `Ring`.
    """
    previous: HashingMetadata | None = None
    for instant, metadata in sorted(loaded.items()):
        faults = []
        if metadata.instant != instant:
            faults.append(f"it says it is of instant {metadata.instant}")
        if metadata.partition_path != partition_path:
            faults.append(f"it says it is of partition {metadata.partition_path!r}")
        if any(node.tag != "NORMAL" for node in metadata.nodes):
            faults.append("a node has the tag of a resize under way")
        prefixes = [node.file_id_prefix for node in metadata.nodes]
        if len(set(prefixes)) < len(prefixes):
            faults.append("two nodes share a file group")
        if instant == INIT_INSTANT:
            if metadata.seq_no:
                faults.append(f"the initial ring has sequence number {metadata.seq_no}, not 0")
            if metadata.nodes and metadata.nodes[-1].value != HASH_VALUE_MASK:
                faults.append("the last node of the initial ring does not own the largest hash")
            if len(metadata.nodes) != metadata.num_buckets:
                faults.append(
                    f"the initial ring has {len(metadata.nodes)} nodes, not {metadata.num_buckets}"
                )
        elif previous is not None and metadata.seq_no <= previous.seq_no:
            faults.append(
                f"its sequence number {metadata.seq_no} does not follow {previous.seq_no} of "
                f"{previous.instant}"
            )
        for fault in faults:
            yield _fault("C003", partition_path, fault, [files[instant].path], [instant])
        if instant not in unfollowed:
            previous = metadata


def find_off_ring_groups(
    ring: Ring, live: Sequence[FileSlice], resized: Collection[str]
) -> Iterator[Finding | NotChecked]:
    """Yield C004 for live file groups the ring in force does not lead to.

    C001 instead where the metadata of the resize that made them is missing: only the initial
    ring is there, and its own file groups were replaced. C001 also as `find_replaced_groups`.

    Args:
        ring: What was loaded.
        live: The slices readers see.
        resized: File ids of the partition that completed commits replaced.
    """
    if ring.metadata is None:
        if live:
            why = (
                "no hashing ring that can be relied on: neither file groups nor keys have a bucket"
            )
            yield NotChecked(f"the buckets of partition {ring.partition_path!r}", why)
        return
    own = ring.metadata.file_ids
    off = [file_slice for file_slice in live if file_slice.file_id not in own]
    gone = own - {file_slice.file_id for file_slice in live}
    if off and set(ring.files) == {INIT_INSTANT} and own & set(resized) and gone:
        yield _fault(
            "C001",
            ring.partition_path,
            f"only the initial ring is there, and {len(gone)} of its {len(own)} file groups were "
            f"replaced by a resize, or an INSERT OVERWRITE of Hudi: {len(off)} live ones are on no "
            "ring",
            slices=off,
            file_ids=sorted(gone),
        )
        return
    if not off:
        yield from find_replaced_groups(ring.metadata, resized)
    for file_slice in off:
        yield _fault(
            "C004",
            ring.partition_path,
            f"no node of the ring of {ring.in_force} leads to file group {file_slice.file_id}",
            instants=[ring.in_force or ""],
            slices=[file_slice],
        )


def find_replaced_groups(metadata: HashingMetadata, replaced: Collection[str]) -> Iterator[Finding]:
    """Yield C001 for a ring in force that leads to file groups which readers hide.

    Args:
        metadata: The ring.
        replaced: File ids of the partition that completed commits replaced.
    """
    hidden = metadata.file_ids.intersection(replaced)
    if hidden:
        yield Finding.of(
            "C001",
            f"{len(hidden)} of the {len(metadata.nodes)} file groups of the ring were replaced, "
            "by a dropped partition: what is written to them stays hidden",
            partition=metadata.partition_path,
            file_groups=[(metadata.partition_path, file_id) for file_id in sorted(hidden)],
            fix="Stop the writers, and give the ring other file groups by `repair_rings()` before "
            "the next write to the partition. Rows that were written there since are in the files "
            "that T003 names: write them again.",
        )


def load_dropped_rings(
    state: ExaminedState, replaced: Mapping[str, Collection[str]]
) -> Iterator[Event]:
    """Yield C001 for dropped partitions whose folder is gone, and whose ring is there.

    Args:
        state: The table.
        replaced: The file ids that completed commits replaced, by the path of such a partition.
    """
    for path, file_ids in sorted(replaced.items()):
        try:
            metadata = load_hashing_metadata(state, path)
        except BucketfmtError as error:
            yield event_of_error(error, "C001", error.path or path, partition=path)
            continue
        if metadata is not None:
            yield from find_replaced_groups(metadata, file_ids)


def _fault(
    finding_id: str,
    partition_path: str,
    evidence: str,
    paths: Sequence[str] = (),
    instants: Sequence[str] = (),
    *,
    slices: Iterable[FileSlice] = (),
    file_ids: Iterable[str] = (),
    warning: bool = False,
) -> Finding:
    return Finding.of(
        finding_id,
        evidence,
        partition=partition_path,
        slices=slices,
        file_groups=[(partition_path, file_id) for file_id in file_ids],
        paths=paths,
        instants=instants,
        severity="warning" if warning else None,
    )
