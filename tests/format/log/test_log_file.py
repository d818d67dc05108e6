from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.log.delete_records import decode_delete_block, encode_delete_block
from bucketfmt.format.log.log_block import (
    MAGIC,
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    encode_log_block,
)
from bucketfmt.format.log.log_file import covers_file, decode_log_file, select_blocks
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.limits import Limits
from tests.golden import GOLDEN

Golden = Callable[[str, str], Path]


def data(instant: str, content: bytes = b"x", **header: str) -> bytes:
    keys = {HeaderKey[name]: value for name, value in header.items()}
    return encode_log_block(
        BlockType.AVRO_DATA,
        {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: "{}", **keys},
        content,
    )


def rollback(instant: str, target: str) -> bytes:
    return encode_log_block(
        BlockType.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
            HeaderKey.TARGET_INSTANT_TIME: target,
        },
    )


def spans_of(content: bytes, limits: Limits = Limits()) -> list[LogBlock | CorruptSpan]:  # noqa: B008
    spans = list(decode_log_file(content, limits))
    assert covers_file(spans, len(content))
    return spans


def shape(spans: list[LogBlock | CorruptSpan]) -> list[str | None]:
    return [f"!{s.instant_time}" if isinstance(s, CorruptSpan) else s.instant_time for s in spans]


A, B, C = data("1", b"aaa"), data("2", b"bb"), data("3", b"c")


def log_files(table: Path) -> Iterator[tuple[Path, LogFileName | None]]:
    for path in sorted(table.rglob(".*")):
        if path.is_file() and path.suffix != ".crc":
            name = find_data_file_name(path.name)
            if isinstance(name, LogFileName):
                yield path, name
            elif path.name.startswith(".commits_.archive."):
                yield path, None


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_every_log_file_of_hudi(golden: Golden, version: str, name: str) -> None:
    for path, log_name in log_files(golden(version, name)):
        content = path.read_bytes()
        for block in spans_of(content):
            assert isinstance(block, LogBlock)
            written = encode_log_block(block.block_type, block.header, block.content)
            assert written == content[block.offset : block.end]
            assert log_name is None or block.instant_time
            assert (block.block_type is BlockType.CDC_DATA) == bool(log_name and log_name.is_cdc)
            if block.block_type is BlockType.DELETE:
                deletes = decode_delete_block(block.content)
                assert encode_delete_block(deletes) == block.content
                assert deletes.record_keys == [record.record_key for record in deletes]


@pytest.mark.rule("LOG-19")
def test_rolled_back_blocks_of_hudi(golden: Golden) -> None:
    table = golden("0.15.0", "rolledback_mor")
    slices: dict[str, list[tuple[LogFileName, Path]]] = defaultdict(list)
    for path, name in log_files(table):
        if name is not None and path.parent.name != "metadata":
            slices[f"{path.parent}/{name.file_id}"].append((name, path))
    completed = {path.name.split(".")[0] for path in (table / ".hoodie").glob("*.deltacommit")}
    dropped = set()
    for entries in slices.values():
        files = [
            spans_of(path.read_bytes()) for _, path in sorted(entries, key=lambda e: e[0].sort_key)
        ]
        merged = [block.instant_time for block in select_blocks(files)]
        assert merged == sorted(merged)
        assert set(merged) <= completed | {name.instant for name, _ in entries}
        written = {b.instant_time for f in files for b in f if isinstance(b, LogBlock)}
        dropped |= written - set(merged)
    rollbacks = {path.name.split(".")[0] for path in (table / ".hoodie").glob("*.rollback")}
    assert rollbacks <= dropped
    assert len(dropped) == 2 * len(rollbacks)  # the rollback blocks and what they roll back


def test_empty_file() -> None:
    assert spans_of(b"") == []
    assert covers_file([], 0)
    assert not covers_file([], 1)


def test_blocks_in_order() -> None:
    assert shape(spans_of(A + B + C)) == ["1", "2", "3"]


def test_decoding_is_lazy() -> None:
    assert isinstance(next(decode_log_file(A + b"garbage")), CorruptSpan)
    unknown = bytearray(B)
    unknown[21] = 9
    blocks = decode_log_file(A + bytes(unknown))
    assert isinstance(next(blocks), LogBlock)
    with pytest.raises(UnsupportedError):
        next(blocks)


def test_truncated_last_block() -> None:
    for size in range(1, len(B)):
        first, last = spans_of(A + B[:size])
        assert isinstance(first, LogBlock)
        assert isinstance(last, CorruptSpan)
        assert last.truncated
        assert last.reason.startswith("truncated: ")
        assert (last.offset, last.end) == (len(A), len(A) + size)
        assert last.instant_time == ("2" if size >= 35 else None)


def test_block_cut_short_before_another() -> None:
    """A writer died; the next one appended behind what it left."""
    spans = spans_of(A + B[:50] + C)
    assert shape(spans) == ["1", "!2", "3"]
    assert isinstance(spans[1], CorruptSpan)
    assert not spans[1].truncated


def test_damaged_magic_costs_the_block_before_it() -> None:
    content = bytearray(A + B + C)
    content[len(A) + 2] ^= 1
    spans = spans_of(bytes(content))
    assert shape(spans) == ["!1", "3"]
    assert spans[0].end == len(A) + len(B)
    assert isinstance(spans[0], CorruptSpan)
    assert f"at offset {len(A)}" in spans[0].reason


def test_file_that_does_not_begin_with_a_magic() -> None:
    spans = spans_of(b"??" + A)
    assert shape(spans) == ["!None", "1"]
    assert spans_of(b"??")[0].end == 2


def test_magic_within_a_damaged_block() -> None:
    """The search for the next block finds one in the content, as Hudi's does: it is not hidden."""
    spans = spans_of(data("9", A)[:-1] + b"?" + B)
    assert shape(spans) == ["!9", "!1", "2"]


@pytest.mark.parametrize("tail", [b"\0", b"#HUDI", b"12345"])
def test_loose_bytes_at_the_end(tail: bytes) -> None:
    spans = spans_of(A + tail)
    assert isinstance(spans[0], LogBlock)
    assert isinstance(spans[1], CorruptSpan)


def test_no_flipped_bit_of_a_frame_drops_a_block_unseen() -> None:
    for byte in (*range(22), *range(len(B) - 12, len(B))):
        for bit in range(8):
            content = bytearray(A + B + C)
            content[len(A) + byte] ^= 1 << bit
            try:
                spans = spans_of(bytes(content))
            except UnsupportedError:
                continue
            if any(isinstance(span, CorruptSpan) for span in spans):
                continue
            deletes = spans[1]  # data became deletes: the content tells
            assert isinstance(deletes, LogBlock)
            assert deletes.block_type is BlockType.DELETE
            with pytest.raises(CorruptError):
                decode_delete_block(deletes.content)


@pytest.mark.rule("LOG-15")
@given(st.lists(st.sampled_from([A, B, C, MAGIC, b"#HUDI", b"\0" * 9, B[:40], B[3:]]), max_size=6))
def test_any_pieces_are_covered(pieces: list[bytes]) -> None:
    spans_of(b"".join(pieces))


@given(st.binary(max_size=120))
def test_any_bytes_decode_or_are_refused(content: bytes) -> None:
    with contextlib.suppress(BucketfmtError):
        spans_of(content)
        spans_of(MAGIC + content)


def test_limits() -> None:
    with pytest.raises(LimitError, match="log_blocks_per_file_max"):
        spans_of(MAGIC * 3, Limits(log_blocks_per_file_max=2))
    assert len(spans_of(MAGIC * 3, Limits(log_blocks_per_file_max=3))) == 3
    with pytest.raises(LimitError, match="log_file_bytes_max"):
        spans_of(A, Limits(log_file_bytes_max=len(A) - 1))


def test_covers_file_sees_gaps_and_overlaps() -> None:
    a, b = spans_of(A + B)
    size = len(A) + len(B)
    assert covers_file([a, b], size)
    assert not covers_file([a], size)
    assert not covers_file([b], size)
    assert not covers_file([b, a], size)
    assert not covers_file([a, a, b], size)
    assert not covers_file([a, b], size + 1)


# -- select_blocks


def chosen(*files: bytes, **options: object) -> list[str]:
    blocks = select_blocks([spans_of(file) for file in files], **options)  # type: ignore[arg-type]
    return [f"{block.instant_time}{bytes(block.content).decode()}" for block in blocks]


def test_blocks_of_one_instant_stay_together() -> None:
    assert chosen(A + B, data("1", b"later")) == ["1aaa", "1later", "2bb"]


def test_rollback_takes_what_was_read_before_it_from_any_file() -> None:
    assert chosen(A + B, A + C, rollback("4", "1"), data("1", b"again")) == [
        "2bb",
        "3c",
        "1again",
    ]


def test_rollback_of_nothing_is_harmless() -> None:
    assert chosen(A, rollback("4", "9")) == ["1aaa"]


def test_later_instants_are_not_seen() -> None:
    assert chosen(C, A, B, latest_instant="2") == ["1aaa", "2bb"]


def test_invalid_instants_are_left_out_but_their_rollbacks_count() -> None:
    files = (A + B, rollback("4", "1"), C)
    assert chosen(*files, is_valid_instant={"1", "3"}.__contains__) == ["3c"]
    assert chosen(*files, latest_instant="3", is_valid_instant=lambda _: True) == ["2bb", "3c"]


def test_corrupt_spans_are_passed_over() -> None:
    assert chosen(A + B[:30] + C) == ["1aaa", "3c"]


def test_log_compaction_takes_the_place_of_the_latest_it_covers() -> None:
    d, compacted = data("4", b"d"), data("5", b"m", COMPACTED_BLOCK_TIMES="1,2")
    assert chosen(A + B + C + compacted) == ["5m", "3c"]
    assert chosen(A + B + compacted + C + d) == ["5m", "3c", "4d"]
    again = data("6", b"n", COMPACTED_BLOCK_TIMES="5,3")
    assert chosen(A + B + C + compacted + d + again) == ["6n", "4d"]


def test_rolled_back_log_compaction() -> None:
    compacted = data("5", b"m", COMPACTED_BLOCK_TIMES="1,2")
    assert chosen(A + B + compacted + rollback("6", "5")) == ["1aaa", "2bb"]


def test_log_compaction_of_nothing_there_is_left_out() -> None:
    compacted = data("5", b"m", COMPACTED_BLOCK_TIMES="1,2")
    assert chosen(C + compacted) == ["3c"]
    assert chosen(data("5", b"m", COMPACTED_BLOCK_TIMES="5")) == []


def test_what_may_change_the_meaning_is_refused() -> None:
    unknown = encode_log_block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "1", 9: "?"})
    with pytest.raises(UnsupportedError, match="header key 9"):
        chosen(unknown)
    cdc = encode_log_block(BlockType.CDC_DATA, {HeaderKey.INSTANT_TIME: "1"})
    with pytest.raises(UnsupportedError, match="CDC"):
        chosen(cdc)
    command = encode_log_block(BlockType.COMMAND, {HeaderKey.INSTANT_TIME: "1"})
    with pytest.raises(UnsupportedError, match="command"):
        chosen(command)
    aimless = encode_log_block(BlockType.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "0"})
    with pytest.raises(CorruptError, match="TARGET_INSTANT_TIME"):
        chosen(aimless)
    with pytest.raises(CorruptError, match="INSTANT_TIME"):
        chosen(encode_log_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: "{}"}))
