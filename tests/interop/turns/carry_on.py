"""Tables that Hudi and bucketfmt write in turns, against a dict."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from random import Random
from typing import Any, get_args

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.choices import CleanPolicy
from bucketfmt.errors import NotFoundError
from bucketfmt.format.names.layout import HASHING_METADATA_FOLDERS
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.names.paths import escape_partition_value
from tests.interop.engines.hudi_session import HudiRefusesError, HudiSession
from tests.interop.turns.sides import Bucketfmt, Hudi, Side, assert_clean

__all__ = [
    "SCHEMA",
    "TABLE_VERSIONS",
    "Tally",
    "Turns",
    "as_table",
    "index_of",
    "kinds_of",
    "record_kinds_of",
]
__all__ += ["play_at_random", "play_in_order", "start_turns"]

_KEYS = 60
_REGIONS = ("us", "eu", "ünï/x")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("day", pa.date32()),
        ("ts", pa.int64()),
        ("region", pa.string()),
    ]
)

_KINDS: Mapping[str, tuple[str, bf.Index]] = {
    "cow-simple": ("COPY_ON_WRITE", bf.SimpleBucketIndex(3)),
    "mor-simple": ("MERGE_ON_READ", bf.SimpleBucketIndex(3)),
    "mor-ring": ("MERGE_ON_READ", bf.ConsistentHashingIndex(3)),
    "cow-rules": ("COPY_ON_WRITE", bf.PartitionBucketIndex(2, "us,4")),
    "mor-rules": ("MERGE_ON_READ", bf.PartitionBucketIndex(2, "us,4")),
    "cow-records": ("COPY_ON_WRITE", bf.RecordIndex()),
    "mor-records": ("MERGE_ON_READ", bf.RecordIndex()),
    "cow-records-by-partition": ("COPY_ON_WRITE", bf.RecordIndex(partitioned=True)),
    "mor-records-by-partition": ("MERGE_ON_READ", bf.RecordIndex(partitioned=True)),
}
TABLE_VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}
"""The version of the tables that a version of Hudi makes."""


def kinds_of(version: str) -> list[str]:
    """Return the kinds of tables with buckets that a version of Hudi has: bucket rules by
    partition from 1.1 on.
    """
    with_buckets = [kind for kind in _KINDS if "records" not in kind]
    return [kind for kind in with_buckets if version == "1.2.0" or not kind.endswith("rules")]


def record_kinds_of(version: str) -> list[str]:
    """Return the kinds of tables without buckets, whose keys the record index has: keys that are
    unique in the table, or from 1.1 on in a partition.
    """
    records = [kind for kind in _KINDS if "records" in kind]
    return [kind for kind in records if version == "1.2.0" or not kind.endswith("partition")]


def index_of(kind: str) -> tuple[str, bf.Index]:
    """Return the type and the index of the tables of a kind."""
    return _KINDS[kind]


_Rows = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Tally:
    """What a play came to.

    Attributes:
        rounds: Comparisons of both sides with each other.
        ours: Writes and services of bucketfmt.
        hudis: Those of Hudi.
    """

    rounds: int
    ours: int
    hudis: int


@dataclass
class Turns:
    """One table, and what it has to hold.

    Attributes:
        rows: The rows by partition and key.
        done: What was done, for messages.
        past: The rows after each comparison, by the requested time of the newest write; without
            those before what was taken back.
        saved: The savepoint, and at that time the rows, what was deleted, and what was given up.
        rounds: How often both were compared with the rows.
        is_non_blocking: Whether our writer only appends: a delete hides late rows of its key.
        has_record_index: Whether keys are drawn as a record index has them: unique in the table,
            or one of each in a write where the index is partitioned.
    """

    hudi: Hudi
    table: bf.Table
    random: Random
    rows: _Rows = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    past: dict[str, _Rows] = field(default_factory=dict)
    saved: tuple[str, _Rows, dict[tuple[str, str], int], set[tuple[str, str]]] | None = None
    time: int = 0
    rounds: int = 0
    is_non_blocking: bool = False
    has_record_index: bool = False

    def __post_init__(self) -> None:
        self.us: Side = Bucketfmt(self.table)
        # Deletes of Hudi 1.0 have the integer 0 for ordering value, and where Hudi logs a row of
        # the key later, Hudi 1.0 itself fails to compare the two.
        self._given_up: set[tuple[str, str]] = set()
        # What Hudi writes over a delete has a greater ordering value than what was deleted. Hudi
        # compares the row with the delete, or even with the base row, until it is compacted. What
        # bucketfmt writes over a delete is there, whatever its ordering value.
        self.deleted: dict[tuple[str, str], int] = {}

    def play(self, side: Side) -> None:
        """Do one random thing."""
        operations = ["upsert"] * 4 + ["delete"] * 2 + ["clean", "archive", "rollback"]
        if self.saved is None:
            operations.append("savepoint")
        else:
            operations.append("restore")
        if self.table.config.table_type == "MERGE_ON_READ":
            operations += ["schedule", "compact"]
        if isinstance(self.table.index, bf.ConsistentHashingIndex):
            operations.append("repair")
        else:
            operations += self._replacements(side)
        self.do(side, self.random.choice(operations))

    def _replacements(self, side: Side) -> list[str]:
        """Return what a side does to whole partitions.

        Where Hudi keeps a record index of buckets with logs, the entries of keys that are in a log
        alone stay if Hudi drops or overwrites their partition.
        """
        is_logged = self.table.config.table_type == "MERGE_ON_READ"
        has_buckets = not isinstance(self.table.index, bf.RecordIndex)
        is_indexed = self.hudi.session.has_record_index and has_buckets
        if side is self.hudi and is_logged and is_indexed:
            return []
        return ["overwrite", "drop"]

    def do(self, side: Side, *operations: str) -> None:
        """Do these things one after the other, and compare."""
        for operation in operations:
            self.act(side, operation)
        self.compare()

    def act(self, side: Side, operation: str) -> None:
        """Do one thing."""
        self.time += 1
        self.done.append(f"{operation} by {side.name}")
        try:
            getattr(self, f"_{operation}")(side)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise AssertionError(f"{why}, after {self.done}") from error

    def compare(self) -> None:
        """Both read what the model holds, no bucket has two groups, and the check is clean."""
        self.compare_ours()
        self.compare_hudis()
        self.rounds += 1
        newest = self.table.timeline.writes.completed.instants[-1]
        self.past[newest.requested_time] = dict(self.rows)

    def compare_hudis(self, **options: str) -> None:
        """Hudi reads what the model holds, and no bucket has two groups."""
        hudis = self.hudi.read(**options)
        own = _sorted(hudis.select(SCHEMA.names).cast(SCHEMA))
        differs = self._difference(own)
        assert not differs, f"Hudi reads {differs} by {options} after {self.done}"
        assert not doubled_buckets(hudis), f"{doubled_buckets(hudis)} after {self.done}"

    def tally(self) -> Tally:
        """Return what was done so far."""
        ours, hudis = (
            sum(entry.endswith(f" by {side.name}") for entry in self.done)
            for side in (self.us, self.hudi)
        )
        return Tally(self.rounds, ours, hudis)

    def compare_ours(self) -> None:
        """We read what the model holds, and the check is clean."""
        table = bf.open(self.table.uri)
        rows = _sorted(table.scan().to_arrow())
        differs = self._difference(rows)
        assert not differs, f"we read {differs} after {self.done}"
        assert_clean(self.hudi.session, table, self.done)

    def compare_past(self) -> None:
        """Both read the same of the last commits but one, and of base files alone."""
        views: list[tuple[dict[str, str], dict[str, Any]]] = []
        if self.table.config.table_type == "MERGE_ON_READ":
            query = {"hoodie__datasource__query__type": "read_optimized"}
            views.append((query, {"read_optimized": True}))
        commits = self.table.timeline.writes.completed.instants
        times = [instant.requested_time for instant in commits]
        views += [({"as__of__instant": time}, {"as_of": time}) for time in times[-4:-1]]
        for options, arguments in views:
            hudis = self.hudi.read(**options).select(SCHEMA.names).cast(SCHEMA)
            ours = self.table.scan(**arguments).to_arrow()
            assert _sorted(ours) == _sorted(hudis), f"{arguments} after {self.done}"

    def compare_moments(self) -> None:
        """We read past moments as they were, or refuse: none that Hudi reads as it was."""
        for moment, rows in self.past.items():
            expected = [rows[key] for key in sorted(rows)]
            try:
                ours = _sorted(self.table.scan(as_of=moment).to_arrow())
            except NotFoundError:
                with suppress(HudiRefusesError):
                    hudis = self.hudi.read(as__of__instant=moment)
                    own = _sorted(hudis.select(SCHEMA.names).cast(SCHEMA))
                    assert own != expected, f"Hudi reads {moment} after {self.done}"
            else:
                assert ours == expected, f"as of {moment} after {self.done}"

    # -- what can be done

    def _upsert(self, side: Side) -> None:
        given = self.draw(side=side)
        side.upsert(as_table(given))
        self.merge(given, side)

    def _delete(self, side: Side) -> None:
        given = self.draw_deletes(side)
        for row in given.values():  # above what any row has
            row["ts"] = self.time * 10 + 9
        side.delete(as_table(given))
        for key, row in given.items():
            self.rows.pop(key, None)
            self.deleted[key] = row["ts"]
        if side is self.hudi and self.table.config.table_version == 8:
            self._given_up |= given.keys()

    def _overwrite(self, side: Side) -> None:
        region = self.random.choice(_REGIONS)
        given = self.draw([region])
        side.overwrite(as_table(given))
        self._remove(region)
        self.merge(given)

    def _drop(self, side: Side) -> None:
        regions = sorted({region for region, _ in self.rows})
        if regions:
            if self.table.timeline.pending.of("compaction").instants:
                self.hudi.compact()  # Hudi drops nothing before
            region = self.random.choice(regions)
            side.drop(f"region={escape_partition_value(region)}")
            self._remove(region)

    def _schedule(self, side: Side) -> None:
        side.schedule()

    def _compact(self, side: Side) -> None:
        side.compact()

    def _clean(self, side: Side) -> None:
        if {*_REGIONS} - {region for region, _ in self.rows}:
            # Of a dropped partition Hudi removes the folder, with what a savepoint keeps there, and
            # reads what its metadata table had of the partition once that has rows again.
            side = self.us
        side.clean(self.random.choice(get_args(CleanPolicy)))

    def _clean_some(self, side: Side) -> None:
        """Clean where there is something to clean."""
        before = self._files()
        side.clean("KEEP_LATEST_FILE_VERSIONS")
        assert self._files() < before, "nothing was cleaned"

    def _archive(self, side: Side) -> None:
        side.archive()

    def _archive_some(self, side: Side) -> None:
        """Archive where there is something to archive.

        Hudi keeps what was completed since the last compaction of a metadata table, be it all.
        """
        before = len(self.table.timeline.instants)
        side.archive()
        may_keep_all = side is self.hudi and bf.open(self.table.uri).config.metadata_partitions
        assert may_keep_all or len(self.table.timeline.instants) < before, "nothing was archived"

    def _repair(self, _side: Side) -> None:
        """Lose the rings of some partitions, and make them again."""
        root = Path(self.table.uri) / HASHING_METADATA_FOLDERS[0]
        rings = {path.parent for path in root.rglob("*.hashing_meta")}
        lost = self.random.sample(sorted(rings), self.random.randint(0, len(rings)))
        for folder in lost:
            shutil.rmtree(folder)
        for marker in Path(self.table.uri).glob("region=*/*.commit"):  # of Hudi 0.15
            marker.unlink()
        with_index = bf.open(self.table.uri, index=self.table.index)
        repaired = {ring.partition_path for ring in with_index.repair_rings()}
        assert repaired == {str(folder.relative_to(root)) for folder in lost}

    def _rollback(self, side: Side) -> None:
        """Take back what either has just written.

        Hudi refuses where it has compacted the metadata table since. What bucketfmt has compacted
        after the write stays.
        """
        writer = self.random.choice((self.us, self.hudi))
        given = self.draw()
        writer.upsert(as_table(given))
        instant = self._newest_write()
        if self._is_compaction(instant):
            self.merge(given, writer)
            return
        refusal = "is earlier than the latest compaction"
        self._undo(side, lambda by: by.rollback(instant), refusal)
        self.past.clear()

    def _undo(self, side: Side, act: Callable[[Side], None], refusal: str) -> None:
        """Have a side take something back; where Hudi refuses, bucketfmt goes on."""
        try:
            act(side)
        except HudiRefusesError as error:
            if refusal not in str(error):
                raise
            act(self.us)

    def _savepoint(self, side: Side) -> None:
        # After a restore, Hudi takes what it has restored for cleaned.
        given = self.draw(side=side)
        side.upsert(as_table(given))
        self.merge(given, side)
        instant = self._newest_write()
        if self._is_compaction(instant):  # what was requested since goes in a restore to it
            instant = self.table.timeline.writes.completed.instants[-1].requested_time
        side.savepoint(instant)
        self.saved = instant, dict(self.rows), dict(self.deleted), set(self._given_up)

    def _restore(self, side: Side) -> None:
        assert self.saved is not None
        self.past.clear()
        instant, self.rows, deleted, given_up = self.saved
        self.saved = None
        self.deleted = {**self.deleted, **deleted}
        self._given_up |= given_up
        listed = bf.open(self.table.uri).config.metadata_partitions
        # Where it has compacted and cleaned the metadata table since.
        refusal = "no base file in MDT lesser than the commit to restore to"
        self._undo(side, lambda by: by.restore(instant), refusal)
        if side is self.hudi and listed:
            # What Hudi has archived since counts no more in its metadata table, and the record
            # index lacks keys of a write amid which Hudi 1.0.2 compacted the metadata table. To a
            # savepoint before its first compaction, Hudi 0.15 removes the metadata table.
            restored = bf.open(self.table.uri)
            if restored.config.metadata_partitions:
                restored.metadata_table.rebuild()
            else:
                restored.metadata_table.init(*{*listed} - {"files"})
        side.delete_savepoint(instant)

    # -- the model

    @property
    def _is_partitioned(self) -> bool:
        """Whether the table is located by a partitioned record index."""
        return bool(getattr(self.table.index, "partitioned", False))

    @property
    def _expected(self) -> list[dict[str, Any]]:
        return [self.rows[key] for key in sorted(self.rows)]

    def _difference(self, found: list[dict[str, Any]]) -> str:
        """Return in words which rows are too many and which are missing; "" if none are."""
        expected = self._expected
        if found == expected:
            return ""
        more = [row for row in found if row not in expected]
        less = [row for row in expected if row not in found]
        return f"{len(found)} of {len(expected)} rows, {more} for {less}"

    def _files(self) -> set[Path]:
        return {path for path in Path(self.table.uri).glob("*/*") if find_data_file_name(path.name)}

    def _newest_write(self) -> str:
        """Return the last write in the order in which a rollback and a restore take them back."""
        timeline = self.table.timeline
        written = timeline.writes.completed.instants
        if timeline.layout == 1:
            return written[-1].requested_time
        return max(
            written, key=lambda i: (i.completion_time or "", i.requested_time)
        ).requested_time

    def _is_compaction(self, instant: str) -> bool:
        commits = self.table.timeline.completed.of("commit").instants
        is_logged = self.table.config.table_type == "MERGE_ON_READ"
        return is_logged and instant in {i.requested_time for i in commits}

    def draw(self, regions: Sequence[str] = _REGIONS, side: Side | None = None) -> _Rows:
        """Draw rows for a side to write; None: for either."""
        drawn: _Rows = {}
        day = None if self.hudi.writes_null_dates else date(2020, 1, 1 + self.time % 28)
        is_ours = side is self.us and not self.is_non_blocking
        for _ in range(self.random.randrange(1, 25)):
            key = f"kéy-{self.random.randrange(_KEYS):03d}"
            region = self.random.choice(regions)
            if self.has_record_index and not self._is_partitioned:
                key += f"-{region}"
            if (region, key) in self._given_up and not is_ours:
                continue
            time = self.time * 10 + self.random.randrange(-15, 5)
            deleted = self.deleted.get((region, key))
            if deleted is not None:
                time = self.random.randrange(deleted) if is_ours else max(time, deleted)
            if self.has_record_index and self._is_partitioned:
                # Hudi 1.2 joins the keys of a write with their places by the key alone.
                drawn = {place: row for place, row in drawn.items() if place[1] != key}
            drawn[region, key] = {
                "id": key,
                "name": self.random.choice([None, "", "ä𝄞", f"n{self.time}"]),
                "price": self.random.random(),
                "day": day,
                "ts": time,
                "region": region,
            }
        return drawn or self.draw(regions, side)

    def draw_deletes(self, side: Side) -> _Rows:
        """Draw rows whose keys a side deletes: in one partition, where Hudi looks for a key by a
        partitioned record index.

        With event time ordering, Hudi 1.2 compares deletes of merge-on-read tables with all rows
        of the file groups that the write deletes from, by the key alone, and deletes each key in
        all of them.
        """
        drawn = self.draw()
        if side is self.us or not self._is_partitioned:
            return drawn
        first, _ = min(drawn)
        return {place: row for place, row in drawn.items() if place[0] == first}

    def merge(self, given: _Rows, side: Side | None = None) -> None:
        for key, row in given.items():
            if key not in self.rows or row["ts"] >= self.rows[key]["ts"]:
                self.rows[key] = row
        if (
            side is self.us and not self.is_non_blocking
        ):  # no delete is compared with what comes after these rows
            self.deleted = {k: time for k, time in self.deleted.items() if k not in given}
            self._given_up -= given.keys()

    def _remove(self, region: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != region}


def start_turns(
    session: HudiSession,
    folder: Path,
    kind: str,
    seed: int,
    writer: bf.WriterConfig | None = None,
    options: Mapping[str, str] | None = None,
    turns: type[Turns] = Turns,
) -> Turns:
    """Make an empty table of a kind, for both to write to: we by `writer`, Hudi by `options`."""
    table_type, index = _KINDS[kind]
    table = bf.create(
        folder / f"t_{kind.replace('-', '_')}",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=index,
        table_type=table_type,  # type: ignore[arg-type]
        table_version=TABLE_VERSIONS[session.version],
        properties={
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
        },
        writer=writer,
    )
    hudi = Hudi(session, table, options)
    random = Random(f"{seed}/{session.version}/{kind}")
    appends = writer is not None and writer.concurrency == "non_blocking"
    return turns(
        hudi,
        table,
        random,
        is_non_blocking=appends,
        has_record_index=session.has_record_index,
    )


def as_table(rows: _Rows) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), SCHEMA)


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: (row["region"], row["id"]))


def doubled_buckets(hudis: pa.Table) -> list[str]:
    """Return the file groups of buckets that have more than one, by the rows that Hudi read."""
    groups: dict[tuple[str, str], set[str]] = {}
    for row in hudis.select(["_hoodie_partition_path", "_hoodie_file_name"]).to_pylist():
        name = row["_hoodie_file_name"]
        known = find_data_file_name(name)
        file_id = name if known is None else known.file_id
        groups.setdefault((row["_hoodie_partition_path"], file_id[:8]), set()).add(file_id)
    return sorted(str(group) for group in groups.items() if len(group[1]) > 1)


def play_in_order(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Each reads, writes over and looks after what the other wrote."""
    turns = start_turns(session, folder, kind, seed)
    us, hudi = turns.us, turns.hudi
    services = ["clean_some", "archive_some"]
    if turns.table.config.table_type == "MERGE_ON_READ":
        services = ["compact", *services]
    turns.do(us, "upsert", "upsert", "delete")
    turns.do(hudi, "upsert", "delete")
    turns.compare_past()
    turns.do(hudi, *services)
    turns.do(us, "upsert", "upsert", "delete")
    turns.do(us, *services)
    if isinstance(turns.table.index, bf.ConsistentHashingIndex):
        turns.do(us, "repair")
    turns.do(hudi, "upsert")
    turns.compare_moments()
    return turns.tally()


def play_at_random(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Each does one thing after another, in ten rounds."""
    turns = start_turns(session, folder, kind, seed)
    turns.do(turns.us, "upsert")
    for _ in range(10):
        turns.play(turns.us)
        turns.play(turns.hudi)
    turns.compare_moments()
    return turns.tally()
