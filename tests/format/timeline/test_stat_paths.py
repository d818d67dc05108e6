"""Paths of write stats that Hudi did not make relative to the table (DEV-35)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bucketfmt.errors import LimitError, UnsafePathError
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.timeline import commit_metadata
from bucketfmt.format.timeline.archived_timeline import (
    ArchivedInstant,
    decode_archived_block,
    encode_archived_block,
)
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.format.timeline.instant_content import decode_instant_content
from bucketfmt.format.timeline.stat_paths import find_relative_path
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from tests.rotation import examples

FILE_ID = "00000001-c160-4687-a823-abf6c572f5b4-0"
LOG = f".{FILE_ID}_20261129125239458.log.3_1-37-98"
BASE = f"{FILE_ID}_0-1-0_20261129125239458.parquet"
ROOTS = [  # `StoragePath.toString` of a listed folder without the base path's text; see the module
    "file:",
    "hdfs://nn:8020",
    "hdfs://nn:8020/d/t/",
    "s3a://my.bucket_1",
    "s3a://my.bucket_1/",
    "s3a://my.bucket_1/wh/t/",
    "abfs://box@account.dfs.core.windows.net",
    "hdfs://[::1]:8020",
]


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("partition_path", ["", "eu", "region=eu/day=2026-11-29", "a/b:c"])
@pytest.mark.parametrize("name", [LOG, BASE, f"{LOG}.cdc"])
def test_what_precedes_the_partition_is_left_out(root: str, partition_path: str, name: str) -> None:
    relative = join_path(partition_path, name)
    assert find_relative_path(root + relative, partition_path, FILE_ID) == relative


@pytest.mark.parametrize(
    ("path", "partition_path"),
    [
        (f"eu/{LOG}", "eu"),  # relative as it is
        (f"/d/t/eu/{LOG}", "eu"),
        (f"C:eu/{LOG}", "eu"),
        (f"file:us/{LOG}", "eu"),
        (f"file:xeu/{LOG}", "eu"),
        (f"hdfs://nn/d/t/xeu/{LOG}", "eu"),
        (f"file:eu/../us/{LOG}", "us"),
        (f"file:../{LOG}", ""),
        (f"file:/d/../t/eu/{LOG}", "eu"),
        (f"file:/d/%2e%2e/eu/{LOG}", "eu"),
        (f"file:/d//eu/{LOG}", "eu"),
        (f"file:///d/eu/{LOG}", "eu"),
        (f"file:\\\\host\\eu/{LOG}", "eu"),
        (f"file:eu/{LOG}/", "eu"),
        (f"file:eu/x{LOG}", "eu"),
        ("file:eu/.hoodie_partition_metadata", "eu"),
        (f"file:eu/{LOG.replace('00000001', '00000002')}", "eu"),
        (f"file:eu/{BASE}_hudiext", "eu"),
        (f"file:/{'d/' * 3000}eu/{LOG}", "eu"),
    ],
)
def test_others_are_refused_as_before(path: str, partition_path: str) -> None:
    assert find_relative_path(path, partition_path, FILE_ID) is None
    stat = WriteStat(file_id=FILE_ID, path=path, partition_path=partition_path)
    metadata = CommitMetadata(partition_to_write_stats={partition_path: [stat]})
    decoded = decode_commit_metadata(encode_commit_metadata_json(metadata))
    assert decoded == metadata
    if path != f"eu/{LOG}":
        with pytest.raises((UnsafePathError, LimitError)):
            CommitRecord.from_metadata("1", "2", decoded, DEFAULT_LIMITS)


PIECES = st.lists(
    st.sampled_from(
        [*ROOTS, "..", ".", "/", "\\", "%2e", "eu", "us", ":", "\x00", "\ud800", LOG, BASE, "a b"]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)


@given(PIECES, st.sampled_from(["", "eu", "eu/us", "..", "../eu", "/eu", "a\\b"]))
@example(f"file:../eu/{LOG}", "../eu")
@settings(max_examples=examples(1000), deadline=None)
def test_nothing_else_is_made_of_a_path(path: str, partition_path: str) -> None:
    """What is returned is the end of the path, and what its partition and name say."""
    found = find_relative_path(path, partition_path, FILE_ID)
    if found is None:
        return
    name = find_data_file_name(path[path.rfind(LOG if path.endswith(LOG) else BASE) :])
    assert name is not None
    assert name.file_id == FILE_ID
    assert found == join_path(partition_path, str(name))
    assert path.endswith(found)
    assert ".." not in path[: -len(found)].split("/")


@given(PIECES, st.sampled_from(["", "eu", "..", "../eu", "/eu", "a\\b"]))
@settings(max_examples=examples(300), deadline=None)
def test_every_path_that_is_used_is_safe(path: str, partition_path: str) -> None:
    stat = WriteStat(file_id=FILE_ID, path=path, partition_path=partition_path)
    metadata = CommitMetadata(partition_to_write_stats={partition_path: [stat]}).as_read()
    with suppress(UnsafePathError, LimitError):
        record = CommitRecord.from_metadata("1", "2", metadata, DEFAULT_LIMITS)
        for file in record.files:
            assert check_relative_path(file[2]) == file[2]


def test_every_form_of_a_commit_is_read_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(root: str) -> CommitMetadata:
        own = WriteStat(file_id="f", path="us/.f_1.log.1_0-1-2", partition_path="us")
        stats = {"eu": [WriteStat(file_id=FILE_ID, path=f"{root}eu/{LOG}")], "us": [own]}
        return CommitMetadata(partition_to_write_stats=stats, operation_type="UPSERT")

    stored, read = commit("hdfs://nn:8020"), commit("")
    assert decode_commit_metadata(encode_commit_metadata_json(stored)) == read
    avro = encode_commit_metadata_avro(stored, replace=False)
    assert decode_commit_metadata(avro) == read
    assert decode_instant_content(encode_commit_metadata_json(stored)) == read
    assert decode_instant_content(avro) == read
    entry = ArchivedInstant("1", "deltacommit", State.COMPLETED, "2", stored, None)
    schema, block = encode_archived_block([entry])
    assert [instant.metadata for instant in decode_archived_block(block, schema)] == [read]
    monkeypatch.setattr(commit_metadata, "_LARGE_BYTES", 0)
    assert commit_metadata._decode_large(avro, DEFAULT_LIMITS)[1] is not None
    assert decode_commit_metadata(avro) == read
