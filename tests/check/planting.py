"""Damage planted in copies of tables real Hudi wrote, and what the check says of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import bucketfmt as bf
from bucketfmt.check.report import CheckReport, Finding
from bucketfmt.check.run import check_table
from bucketfmt.choices import Depth
from bucketfmt.format.names.instants import parse_instant_time
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    decode_commit_metadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.timeline import Timeline

_REFUSED_PATH = re.compile(r"path '\.\./[^']*' is refused")
_FILE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-[0-9]+)?")
_INSTANT = re.compile(r"(?<![\w.-])20[0-9]{12}(?:[0-9]{3})?(?![\w.-])")

__all__ = ["Patient", "check_at", "check_soon", "found"]


def found(report: CheckReport) -> set[str]:
    """The ids of what makes a table unclean."""
    return {finding.id for finding in report.findings if finding.severity != "info"}


def check_soon(root: Path, depth: Depth = "full", index: bf.Index | None = None) -> CheckReport:
    """Check a table as if an hour had gone by since its last instant."""
    return check_at(root, timedelta(hours=1), depth, index)


def check_at(
    root: Path, later: timedelta, depth: Depth = "full", index: bf.Index | None = None
) -> CheckReport:
    """Check a table so long after its last instant."""
    table = bf.open(root)
    last = timeline_of(root).last
    assert last is not None
    now = parse_instant_time(last.requested_time).astimezone(timezone.utc) + later
    finder = IndexFinder(table.store, table.config, table.limits, index)
    report = check_table(
        table.store, table.config, table.limits, finder, depth=depth, now=now.astimezone()
    )
    known = {instant.requested_time for instant in timeline_of(root).instants}
    for finding in report.findings:
        check_subject(finding, known)
    return report


def check_subject(finding: Finding, known: set[str]) -> None:
    """What the text of a finding names, and what the paths tell, is in its subject as data.

    `known` are the instants of the timeline; a damaged file may name others.
    """
    subject = finding.subject
    ids = {file_id for _, file_id in subject.file_groups}
    evidence = _REFUSED_PATH.sub("", finding.evidence)  # leads to no file group of the table
    assert ids >= set(_FILE_ID.findall(evidence)), finding
    assert set(subject.instants) >= known & set(_INSTANT.findall(finding.evidence)), finding
    assert len(set(subject.paths)) == len(subject.paths), finding
    for path in subject.paths:
        folder, _, text = path.rpartition("/")
        name = find_data_file_name(text)
        if name is not None and not path.startswith(".hoodie/"):
            assert (folder, name.file_id) in subject.file_groups, finding
    if subject.partition is not None:
        assert {path for path, _ in subject.file_groups} <= {subject.partition}, finding


def timeline_of(root: Path) -> Timeline:
    """The active timeline as listed: what its files say may be damaged."""
    table = bf.open(root)
    return load_timeline(table.store, table.config)


class Patient:
    """A copy of a table, to be damaged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = bf.open(root).config

    def commit_path(self, requested_time: str) -> Path:
        """The file of a completed write."""
        (instant,) = (
            i
            for i in timeline_of(self.root).writes.completed.instants
            if i.requested_time == requested_time
        )
        return self.root / self.config.timeline_path / instant.file_name

    @property
    def instants(self) -> list[str]:
        """Requested times of the completed writes."""
        instants = timeline_of(self.root).writes.completed.instants
        return [instant.requested_time for instant in instants]

    def edit_commit(
        self, requested_time: str, change: Callable[[CommitMetadata], CommitMetadata]
    ) -> None:
        """Replace what a commit says."""
        path = self.commit_path(requested_time)
        metadata = change(decode_commit_metadata(path.read_bytes()))
        replaces = path.name.endswith(".replacecommit")
        encode = encode_commit_metadata_json
        if self.config.timeline_layout == 2:
            encode = encode_commit_metadata_avro
        path.write_bytes(encode(metadata, replaces))

    def record(self, path: Path, like: Path | None = None) -> None:
        """Have the commit that wrote a file name it, with its present size.

        `like` is a file of the same commit whose entry is copied.
        """
        relative = path.relative_to(self.root).as_posix()
        name = find_data_file_name(path.name)
        model = like.relative_to(self.root).as_posix() if like is not None else relative
        for instant in self.instants:
            metadata = decode_commit_metadata(self.commit_path(instant).read_bytes())
            stats = [s for own in metadata.partition_to_write_stats.values() for s in own]
            if not any(stat.path == model for stat in stats):
                continue

            def with_entry(metadata: CommitMetadata) -> CommitMetadata:
                changed = {}
                for partition, stats in metadata.partition_to_write_stats.items():
                    kept = [stat for stat in stats if stat.path != relative]
                    for stat in stats:
                        if stat.path == model:
                            entry = msgspec.structs.replace(
                                stat,
                                path=relative,
                                file_id=name.file_id,
                                file_size_in_bytes=path.stat().st_size,
                            )
                            if isinstance(name, LogFileName):
                                entry = msgspec.structs.replace(
                                    entry, log_offset=0, log_version=name.version
                                )
                            kept.append(entry)
                    changed[partition] = kept
                return msgspec.structs.replace(metadata, partition_to_write_stats=changed)

            self.edit_commit(instant, with_entry)
            return
        raise AssertionError(f"no commit names {model}")

    def slices(self, partition: str) -> dict[str, dict[str, object]]:
        """The file groups readers see, by file id."""
        rows = bf.open(self.root).inspect.file_groups().to_pylist()
        return {row["file_id"]: row for row in rows if row["partition_path"] == partition}

    def base_file(self, partition: str, bucket: int = 0) -> Path:
        """The base file readers open for a bucket."""
        (row,) = (r for r in self.slices(partition).values() if r["bucket_id"] == bucket)
        return self.root / str(row["base_file"])

    def log_file(self, partition: str, number: int = 0) -> Path:
        """A log file that readers open, by its place in the listing."""
        files = bf.open(self.root).inspect.files().to_pylist()
        paths = [
            f["path"] for f in files if f["kind"] == "log" and f["partition_path"] == partition
        ]
        return self.root / sorted(paths)[number]

    def copy_file(self, path: Path, **changes: str) -> Path:
        """Copy a data file under a name with some parts changed."""
        name = find_data_file_name(path.name)
        fields = {field: getattr(name, field) for field in type(name).__slots__}
        target = path.with_name(str(type(name)(**{**fields, **changes})))
        shutil.copyfile(path, target)
        if target.suffix == ".parquet":
            _name_rows(target)
        return target

    def rename_group(self, partition: str, old: str, new: str) -> None:
        """Give a file group another id, in names, rows and commits."""
        renamed_files = []
        for path in list((self.root / partition).iterdir()):
            if old in path.name and not path.name.endswith(".crc"):
                renamed_files.append(path.rename(path.with_name(path.name.replace(old, new))))

        def renamed(metadata: CommitMetadata) -> CommitMetadata:
            text = msgspec.json.encode(metadata).replace(old.encode(), new.encode())
            return msgspec.json.decode(text, type=CommitMetadata)

        for instant in self.instants:
            self.edit_commit(instant, renamed)
        for path in renamed_files:
            if path.suffix == ".parquet":
                _name_rows(path)
                self.record(path)

    def rewrite(self, path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
        """Replace the rows of a base file, and have the commit know its size."""
        rows = _named(change(pq.read_table(path)), path)
        pq.write_table(rows, path, compression="gzip", write_page_checksum=True)
        self.record(path)

    def state(self, **properties: str) -> None:
        """Add properties, with dots for `__`."""
        path = self.root / ".hoodie/hoodie.properties"
        lines = [f"{key.replace('__', '.')}={value}\n" for key, value in properties.items()]
        path.write_text(path.read_text() + "".join(lines))

    def state_buckets(self, number: int, *fields: str) -> None:
        """State a simple bucket index."""
        self.state(hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets=str(number))
        if fields:
            self.state(hoodie__bucket__index__hash__field=",".join(fields))


def _name_rows(path: Path) -> None:
    """Have the rows of a base file name it."""
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(_named(rows, path), path, compression="gzip", write_page_checksum=True)


def _named(rows: pa.Table, path: Path) -> pa.Table:
    """Return the rows as a writer has them in a file of this name."""
    at = rows.schema.get_field_index("_hoodie_file_name")
    if at < 0 or not pc.any(pc.not_equal(rows.column(at), "")).as_py():  # keys are virtual
        return rows
    names = pa.array([path.name] * rows.num_rows, pa.string())
    return rows.set_column(at, rows.schema.field(at), names)
