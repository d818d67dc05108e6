from __future__ import annotations

import json
import struct
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.encoding.avro_container import check_writer_schema
from bucketfmt.format.log.log_block import LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.archived_timeline import (
    ArchivedInstant,
    HistoryFile,
    decode_archived_block,
    decode_history_manifest,
    decode_history_row,
    decode_history_version,
    encode_archived_block,
    encode_history_manifest,
    encode_history_version,
    parse_history_file_name,
)
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    encode_commit_metadata_json,
)
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.format.timeline.plans import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    encode_cleaner_plan,
)
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from tests.format.encoding.struct_strategies import mutations
from tests.format.timeline.timeline_files import Golden
from tests.rotation import examples

HISTORY_VERSIONS = ["1.0.2", "1.2.0"]


# layout 1


def golden_blocks(golden: Golden) -> list[LogBlock]:
    folder = golden("0.15.0", "cleaned") / ".hoodie" / "archived"
    blocks: list[LogBlock] = []
    for path in sorted(folder.glob(".commits_.archive.*")):
        for block in decode_log_file(path.read_bytes(), DEFAULT_LIMITS):
            assert isinstance(block, LogBlock)
            blocks.append(block)
    return blocks


def test_golden_archive_holds_every_state_of_every_action(golden: Golden) -> None:
    entries = [
        entry
        for block in golden_blocks(golden)
        for entry in decode_archived_block(block.content, block.schema or "")
    ]
    assert len(entries) == 36
    actions = {
        (entry.action, entry.state.value): (type(entry.metadata), type(entry.plan))
        for entry in entries
    }
    nothing = type(None)
    assert actions == {
        ("deltacommit", "REQUESTED"): (CommitMetadata, nothing),
        ("deltacommit", "INFLIGHT"): (CommitMetadata, nothing),
        ("deltacommit", "COMPLETED"): (CommitMetadata, nothing),
        ("compaction", "REQUESTED"): (nothing, CompactionPlan),
        ("compaction", "INFLIGHT"): (nothing, nothing),
        ("commit", "COMPLETED"): (CommitMetadata, nothing),
    }
    first = entries[0]
    assert first.requested_time == "20261121044500529"
    assert first.completion_time == "20261121044500537"
    completed = entries[2].metadata
    assert isinstance(completed, CommitMetadata)
    assert completed.operation_type == "UPSERT"
    assert set(completed.partition_to_write_stats) == {"eu", "us", "ap"}
    assert all(e.completion_time and e.completion_time > e.requested_time for e in entries)


ENTRY_SCHEMA = """{"type": "record", "name": "HoodieArchivedMetaEntry", "fields": [
    {"name": "commitTime", "type": ["null", "string"]},
    {"name": "actionType", "type": ["null", "string"]},
    {"name": "actionState", "type": ["null", "string"]},
    {"name": "hoodieCleanerPlan", "type": ["null", {"type": "record", "name": "HoodieCleanerPlan",
        "fields": [{"name": "policy", "type": "string"}]}]}]}"""


def entry(action: str | None, state: str | None, policy: str | None = None) -> bytes:
    texts = [b"\x00" if text is None else text_in_union(text) for text in ("1", action, state)]
    return b"".join(texts) + (b"\x00" if policy is None else text_in_union(policy))


def text_in_union(text: str) -> bytes:
    return b"\x02" + bytes([len(text) * 2]) + text.encode()


def block_of(*entries: bytes, version: int = 3) -> bytes:
    framed = b"".join(struct.pack(">i", len(data)) + data for data in entries)
    return struct.pack(">ii", version, len(entries)) + framed


def test_entries_of_very_old_archives_have_no_state() -> None:
    [old, plan] = decode_archived_block(
        block_of(entry("commit", None), entry("clean", "REQUESTED", "KEEP_LATEST_COMMITS")),
        ENTRY_SCHEMA,
    )
    assert old == ArchivedInstant("1", "commit", State.COMPLETED, None)
    assert plan.state is State.REQUESTED
    assert plan.plan == CleanerPlan(policy="KEEP_LATEST_COMMITS", version=1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        block_of(entry(None, None)),
        block_of(entry("commit", "DONE")),
        block_of(entry("commit", None))[:-1],
        block_of(entry("commit", None)) + b"\x00",
        block_of(entry("commit", None) + b"\x00"),
        struct.pack(">ii", 3, 2**31 - 1),
        struct.pack(">ii", 3, -1),
        struct.pack(">iii", 3, 1, 2**31 - 1) + entry("commit", None),
    ],
)
def test_what_is_no_archive_block_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_archived_block(content, ENTRY_SCHEMA)


def test_archive_of_something_else_than_records() -> None:
    with pytest.raises(CorruptError, match="not a record"):
        decode_archived_block(block_of(b"\x08text"), '"string"')
    with pytest.raises(CorruptError, match="archive schema"):
        decode_archived_block(block_of(), "{")


def test_archive_version_and_bounds() -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        decode_archived_block(block_of(version=4), ENTRY_SCHEMA)
    one = entry("commit", None)
    with pytest.raises(LimitError, match="timeline_instants_max"):
        decode_archived_block(block_of(one, one), ENTRY_SCHEMA, Limits(timeline_instants_max=1))
    with pytest.raises(LimitError, match="history_file_bytes_max"):
        decode_archived_block(block_of(), ENTRY_SCHEMA, Limits(history_file_bytes_max=7))


@given(
    st.binary() | mutations(block_of(entry("commit", None), entry("clean", "REQUESTED", "x"))),
    st.just(ENTRY_SCHEMA) | mutations(ENTRY_SCHEMA.encode()).map(lambda b: b.decode("latin-1")),
)
@settings(max_examples=examples(300))
def test_any_archive_bytes_decode_or_raise_our_error(content: bytes, schema: str) -> None:
    try:
        entries = decode_archived_block(content, schema)
    except BucketfmtError:
        return
    assert all(isinstance(found.state, State) for found in entries)


# layout 2


@pytest.mark.parametrize("version", HISTORY_VERSIONS)
def test_golden_history(golden: Golden, version: str) -> None:
    folder = golden(version, "cleaned") / ".hoodie" / "timeline" / "history"
    newest = decode_history_version((folder / "_version_").read_bytes())
    assert newest == 6
    data = (folder / f"manifest_{newest}").read_bytes()
    files = decode_history_manifest(data)
    assert encode_history_manifest(files) == data
    assert [file.layer for file in files] == [0] * 6
    instants = []
    for file in files:
        path = folder / file.name
        assert path.stat().st_size == file.size
        rows = [decode_history_row(row) for row in pq.read_table(path).to_pylist()]
        assert (rows[0].requested_time, rows[-1].requested_time) == (
            file.min_instant,
            file.max_instant,
        )
        instants += rows
    for instant in instants:
        assert instant.state is State.COMPLETED
        assert instant.completion_time
        assert instant.completion_time > instant.requested_time
    assert {(i.action, type(i.metadata), type(i.plan)) for i in instants} == {
        ("deltacommit", CommitMetadata, type(None)),
        ("commit", CommitMetadata, CompactionPlan),
        ("clean", CleanMetadata, CleanerPlan),
    }


@pytest.mark.parametrize("version", HISTORY_VERSIONS)
def test_golden_history_rows_have_the_schema_known_here(golden: Golden, version: str) -> None:
    folder = golden(version, "cleaned") / ".hoodie" / "timeline" / "history"
    footer = pq.read_schema(next(folder.glob("*.parquet"))).metadata[b"parquet.avro.schema"]
    assert check_writer_schema(json.loads(footer)) == check_writer_schema(
        hudi_schema("HoodieLSMTimelineInstant")
    )


ROW: dict[str, Any] = {
    "instantTime": "20260101000000000",
    "completionTime": "20260101000000009",
    "action": "clean",
    "metadata": None,
    "plan": encode_cleaner_plan(CleanerPlan(policy="KEEP_LATEST_COMMITS")),
    "version": 1,
}


def test_a_row_without_its_contents() -> None:
    times = {name: ROW[name] for name in ("instantTime", "completionTime", "action")}
    assert decode_history_row(times) == ArchivedInstant(
        "20260101000000000", "clean", State.COMPLETED, "20260101000000009"
    )
    assert decode_history_row(ROW).plan == CleanerPlan(policy="KEEP_LATEST_COMMITS")


def test_a_row_may_hold_json_of_before_the_upgrade() -> None:
    commit = CommitMetadata(operation_type="UPSERT")
    row = {**ROW, "action": "commit", "metadata": encode_commit_metadata_json(commit), "plan": None}
    assert decode_history_row(row).metadata == commit


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"instantTime": None}, CorruptError),
        ({"action": 3}, CorruptError),
        ({"metadata": "text"}, CorruptError),
        ({"plan": b"Obj\x01"}, CorruptError),
        ({"version": 2}, UnsupportedError),
    ],
)
def test_bad_rows(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_history_row({**ROW, **change})


@given(st.text() | st.from_regex(r"[0-9]{1,17}_[0-9]{1,17}_[0-9]\.parquet", fullmatch=True))
def test_file_names(name: str) -> None:
    try:
        file = parse_history_file_name(name, 1)
    except CorruptError:
        return
    assert name == f"{file.min_instant}_{file.max_instant}_{file.layer}.parquet"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"files": null}',
        b'{"files": [{"fileName": "1_2_0.parquet"}]}',
        b'{"files": [{"fileName": "../1_2_0.parquet", "fileLen": 1}]}',
        b'{"files": [{"fileName": "1_2_0.parquet", "fileLen": -1}]}',
        b'{"files": [{"fileName": "\xd9\xa1_2_0.parquet", "fileLen": 1}]}',
        b'{"files": [{"fileName": "1_2_0.parquet\\n", "fileLen": 1}]}',
    ],
)
def test_bad_manifests(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_history_manifest(data)


@given(st.lists(st.tuples(st.integers(0, 10**17), st.integers(0, 2**63 - 1), st.integers(0, 9))))
def test_manifest_round_trip(rows: list[tuple[int, int, int]]) -> None:
    files = tuple(
        HistoryFile(f"{n}_{n + 1}_{layer}.parquet", size, str(n), str(n + 1), layer)
        for n, size, layer in rows
    )
    assert decode_history_manifest(encode_history_manifest(files)) == files


@given(st.binary())
def test_any_manifest_decodes_or_raises_our_error(data: bytes) -> None:
    with suppress(BucketfmtError):
        assert isinstance(decode_history_manifest(data), tuple)


@given(st.integers(0, 10**9 - 1))
def test_version_round_trip(version: int) -> None:
    assert decode_history_version(encode_history_version(version)) == version


@pytest.mark.parametrize("data", [b"", b"-1", b"6\n", b"1" * 50, b"\xff", b"6.0"])
def test_bad_versions(data: bytes) -> None:
    with pytest.raises(CorruptError, match="highest manifest_N"):
        decode_history_version(data)


def test_archived_entries_round_trip() -> None:
    written = WriteStat(file_id="f", path="p/x", num_writes=3, partition_path="p")
    commit = CommitMetadata(
        partition_to_write_stats={"p": [written]},
        extra_metadata={"schema": "{}", "nothing": None},
        operation_type="UPSERT",
    )
    replacing = msgspec.structs.replace(commit, partition_to_replace_file_ids={"p": ["g"]})
    clean = CleanMetadata(
        start_clean_time="4",
        time_taken_in_millis=1,
        total_files_deleted=0,
        earliest_commit_to_retain="1",
        partition_metadata={},
    )
    entries = [
        ArchivedInstant("1", "deltacommit", State.REQUESTED, "1", CommitMetadata()),
        ArchivedInstant("1", "deltacommit", State.COMPLETED, "2", commit),
        ArchivedInstant("2", "compaction", State.REQUESTED, "2", None, CompactionPlan()),
        ArchivedInstant("2", "compaction", State.INFLIGHT, "2"),
        ArchivedInstant("3", "replacecommit", State.INFLIGHT, "3", commit),
        ArchivedInstant("3", "replacecommit", State.COMPLETED, "4", replacing),
        ArchivedInstant("4", "clean", State.REQUESTED, "4", None, CleanerPlan(policy="P")),
        ArchivedInstant("4", "clean", State.COMPLETED, "5", clean),
    ]
    schema, content = encode_archived_block(entries)
    found = decode_archived_block(content, schema)
    kept = {"schema": "{}"}  # Avro has no null in a map
    expected = [
        with_extra(entry, kept) if isinstance(entry.metadata, CommitMetadata) else entry
        for entry in entries
    ]
    assert found == expected


def with_extra(entry: ArchivedInstant, extra: dict[str, str]) -> ArchivedInstant:
    assert isinstance(entry.metadata, CommitMetadata)
    given = extra if entry.metadata.extra_metadata else {}
    return replace(entry, metadata=msgspec.structs.replace(entry.metadata, extra_metadata=given))


def test_what_the_archive_has_no_field_for_is_refused() -> None:
    with pytest.raises(TypeError, match="IndexPlan"):
        encode_archived_block(
            [ArchivedInstant("1", "indexing", State.REQUESTED, "1", None, IndexPlan())]
        )


@pytest.mark.rule("TL-18")
def test_texts_of_the_archive_are_strings_of_java(golden: Golden) -> None:
    """As in archives of Hudi: without the note 1.2.0 failed amid the upgrade of the table."""

    def plain(kind: object) -> list[object]:
        """The types of text, and of maps by text, without the note."""
        if isinstance(kind, list):
            return [found for each in kind for found in plain(each)]
        if not isinstance(kind, dict):
            return [kind] if kind == "string" else []
        if kind.get("avro.java.string") == "String":
            return plain(kind.get("values"))
        own = [kind] if kind["type"] in ("string", "map") else []
        inner = [field["type"] for field in kind.get("fields", [])]
        return [*own, *plain(inner), *plain(kind.get("items")), *plain(kind.get("values"))]

    theirs = json.loads(golden_blocks(golden)[0].schema or "")
    ours = json.loads(encode_archived_block([])[0])
    assert plain(theirs) == plain(ours) == []
    assert {"type": "string", "avro.java.string": "String"} in ours["fields"][-1]["type"]
    assert len(plain(hudi_schema("HoodieArchivedMetaEntry"))) > 20


def test_the_schema_of_entries_is_what_hudi_reads(golden: Golden) -> None:
    """Each of our fields is one of Hudi's, of the same record; it knows how to skip the others."""
    theirs = json.loads(golden_blocks(golden)[0].schema or "")
    schema, _ = encode_archived_block([])
    known = {field["name"]: field["type"] for field in theirs["fields"]}
    ours = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
    assert ours.keys() < known.keys()
    assert json.loads(schema)["namespace"] == theirs["namespace"]

    def record_name(kind: object) -> str | None:
        branches = kind if isinstance(kind, list) else []
        names = [b["name"] for b in branches if isinstance(b, dict) and "fields" in b]
        return names[0] if names else None

    for name, kind in ours.items():
        assert record_name(kind) in (record_name(known[name]), None), name
