"""All plays of all kinds of tables, and a table of how they ended."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tests.interop.changed_buckets.dual_writes import play_dual_writes
from tests.interop.changed_buckets.extendible import (
    play_extendible,
    play_overwritten,
    play_several_groups,
)
from tests.interop.changed_buckets.migrated import play_migrated
from tests.interop.changed_buckets.rehashed import play_rehashed
from tests.interop.changed_buckets.repaired import play_repaired, play_repaired_ring
from tests.interop.changed_buckets.rescaled import play_rescaled
from tests.interop.changed_buckets.resized import play_resized
from tests.interop.changed_buckets.resized_amid import play_resized_amid
from tests.interop.changed_buckets.virtual_logs import play_virtual_logs
from tests.interop.engines.hudi_session import HudiSession, Metadata
from tests.interop.turns.carry_on import (
    TABLE_VERSIONS,
    Tally,
    kinds_of,
    play_at_random,
    play_in_order,
    record_kinds_of,
)
from tests.interop.turns.deletes import play_deletes
from tests.interop.turns.many_rows import play_many_rows
from tests.interop.turns.metadata_turns import (
    play_bulk_inserted,
    play_metadata_table,
    play_secondary_index,
)
from tests.interop.turns.overlapping import play_overlapping
from tests.interop.turns.pinned_index import play_pinned_index
from tests.interop.turns.shapes import play_shape, shapes_of
from tests.interop.turns.side_by_side import play_side_by_side
from tests.interop.turns.sides import copying, serving_metadata_soon
from tests.interop.turns.values import play_values

__all__ = [
    "PLAYS",
    "Ended",
    "Play",
    "all_kinds_of",
    "format_matrix",
    "play_kind",
    "play_matrix",
    "plays_of",
]

Play = Callable[[HudiSession, Path, str, int], Tally]
"""Plays with a session and in a folder, on a kind of table, as a seed says."""

PLAYS: dict[str, Play] = {
    "in order": play_in_order,
    "at random": play_at_random,
    "overlapping": play_overlapping,
    "side by side": play_side_by_side,
    "deletes": play_deletes,
    "pinned index": play_pinned_index,
    "rehashed": play_rehashed,
    "repaired": play_repaired,
    "repaired ring": play_repaired_ring,
    "rescaled": play_rescaled,
    "migrated": play_migrated,
    "extendible": play_extendible,
    "several groups": play_several_groups,
    "overwritten": play_overwritten,
    "resized": play_resized,
    "resized amid": play_resized_amid,
    "dual writes": play_dual_writes,
    "virtual logs": play_virtual_logs,
    "values": play_values,
    "metadata table": play_metadata_table,
    "secondary index": play_secondary_index,
    "bulk inserted": play_bulk_inserted,
    "many rows": play_many_rows,
    "shapes": play_shape,
}


_WITH_METADATA_TABLE = (
    "metadata table",
    "secondary index",
    "bulk inserted",
    "migrated",
)  # of their own

_HUDI_READS_ONLY = ("extendible", "several groups", "overwritten")
_MANY_ROWS = {("0.15.0", "cow-simple"), ("1.0.2", "mor-simple"), ("1.2.0", "cow-simple")}


@dataclass(frozen=True)
class Ended:
    """How a play ended.

    Attributes:
        metadata: What the table had for a metadata table that both kept in step.
        tally: What it came to; None if there was a disagreement.
    """

    version: str
    kind: str
    metadata: Metadata
    play: str
    tally: Tally | None


def all_kinds_of(version: str) -> list[str]:
    """Return the kinds of tables that are written in turns, and the shapes."""
    return [*kinds_of(version), *record_kinds_of(version), *shapes_of(version)]


def plays_of(version: str, kind: str, metadata: Metadata = "off") -> list[str]:
    """Return the plays of a kind: Hudi has non-blocking writes from 1.0 on, simple buckets only.

    Args:
        version: Of Hudi.
        kind: Of the table.
        metadata: What the table has for a metadata table that both keep in step. Plays that begin
            with another metadata table, or go without, are left out where it has one.
    """
    if metadata == "index":
        return _plays_with_record_index(version, kind)
    if metadata == "on":
        own = {*_WITH_METADATA_TABLE}
        own |= {"shapes"} if kind.endswith("metadata-table") else set()
        return [play for play in plays_of(version, kind) if play not in own]
    if kind in shapes_of(version):
        return ["shapes"]
    if kind in record_kinds_of(version):
        has_secondary = version != "0.15.0" and not kind.endswith("partition")
        return ["metadata table", "bulk inserted", *(["secondary index"] if has_secondary else [])]
    overlaps = version != "0.15.0" and kind in ("mor-simple", "mor-rules")
    has_rules = version == "1.2.0" and kind.endswith("simple")
    return [
        "in order",
        "at random",
        *(["overlapping"] if overlaps else []),
        "side by side",
        "deletes",
        *(
            [
                "pinned index",
                "rehashed",
                "repaired",
                "resized amid",
                "migrated",
                "extendible",
                "several groups",
                "overwritten",
                "values",
                "metadata table",
            ]
            if kind.endswith("simple")
            else []
        ),
        *(["rescaled"] if has_rules else []),
        *(
            ["repaired ring", "resized", "resized amid", "dual writes", "virtual logs"]
            if kind.endswith("ring")
            else []
        ),
        *(["many rows"] if (version, kind) in _MANY_ROWS else []),
    ]


def _plays_with_record_index(version: str, kind: str) -> list[str]:
    """Return the plays of a kind whose tables have a record index besides statistics."""
    if kind in record_kinds_of(version):
        of_whole_table = [] if kind.endswith("partition") else ["deletes"]  # without partitions
        return ["in order", "at random", *of_whole_table]
    # The records of the index are merged by the time at which a write was begun: bucketfmt begins a
    # change of buckets again that another write came amid, and keeps no index beside writes amid a
    # resize of a ring. Hudi's procedure for rescaling takes no options, and removes the index.
    own = {"rescaled", "resized amid", "dual writes", "virtual logs"}
    plays = [play for play in plays_of(version, kind, "on") if play not in own]
    if version == "1.0.2" and kind == "cow-virtual":
        return []  # Hudi reads the keys of each file that it writes from a column that is not there
    if version != "0.15.0":
        return plays
    if kind.startswith("cow"):
        # Hudi leaves the keys out that it adds, and a row does not tell who added its key.
        return [play for play in plays if play in _HUDI_READS_ONLY]
    # Hudi refuses to overwrite partitions.
    return [play for play in plays if play != "side by side"]


def play_kind(
    session: HudiSession, kind: str, seed: int, folder: Path, metadata: Metadata
) -> list[Ended]:
    """Play all there is of a kind of table; disagreements are told, and their folders kept."""
    ended = []
    session.metadata = metadata
    for name in plays_of(session.version, kind, metadata):
        tally, own = None, folder / name.replace(" ", "-")
        try:
            with copying(), serving_metadata_soon():
                tally = PLAYS[name](session, own, kind, seed)
        except Exception as error:
            told = f"{error}\nthe table is in {own}"
        else:
            told = str(tally)
            shutil.rmtree(own)
        where = f"{session.version} {kind} {seed} metadata={metadata}, {name}"
        print(f"{where}: {told}", file=sys.stderr, flush=True)
        ended.append(Ended(session.version, kind, metadata, name, tally))
    return ended


def play_matrix(
    versions: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    metadata_tables: Sequence[Metadata] = get_args(Metadata),
) -> list[Ended]:
    """Play everything, with one Hudi after the other, with these metadata tables."""
    ended: list[Ended] = []
    for version in versions:
        session = HudiSession(version, folder / version)
        for kind in all_kinds_of(version):
            # Nothing of a shape is random.
            for seed in seeds[:1] if kind in shapes_of(version) else seeds:
                for metadata in metadata_tables:
                    own = folder / f"{version}-{kind}-{seed}-{metadata}"
                    ended += play_kind(session, kind, seed, own, metadata)
        session.close()
    return ended


def format_matrix(ended: Sequence[Ended]) -> str:
    """Return a Markdown table: how often each play compared, by version and kind of table.

    The shapes are one row, copy-on-write and merge-on-read.
    """
    rows = [["table version", "Hudi", "kind", "metadata table", *PLAYS]]
    rows[0] += ["by bucketfmt", "by Hudi", "disagreements"]
    rows.append(["--:", "---", "---", "---", *("--:" for _ in rows[0][4:])])
    groups: dict[tuple[str, str, str], list[Ended]] = {}
    for one in ended:
        kind = f"{one.kind[:3]}, other shapes" if one.play == "shapes" else one.kind
        told = {"off": "", "on": "yes", "index": "record index"}[one.metadata]
        if one.play in _WITH_METADATA_TABLE:
            told = "yes"
        groups.setdefault((one.version, kind, told), []).append(one)
    for (version, kind, told), own in groups.items():
        row = [str(TABLE_VERSIONS[version]), version, kind, told]
        for play in PLAYS:
            rounds = [one.tally.rounds for one in own if one.play == play and one.tally]
            row.append(str(sum(rounds)) if rounds else "")
        tallies = [one.tally for one in own if one.tally]
        row += [str(sum(t.ours for t in tallies)), str(sum(t.hudis for t in tallies))]
        rows.append([*row, str(len(own) - len(tallies))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
