"""HFiles: those that Hudi wrote, those that are written here, and damage."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from random import Random
from struct import pack_into, unpack_from

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.dump.hfile import annotate_hfile
from bucketfmt.errors import (
    BucketfmtError,
    ChecksumError,
    CorruptError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.format.hfile import block as hfile_block
from bucketfmt.format.hfile.block import (
    BlockType,
    Codec,
    encode_block,
    join_contents,
    read_block,
)
from bucketfmt.format.hfile.block_index import BlockPlace, decode_root_index, encode_index
from bucketfmt.format.hfile.entries import KEY_SUFFIX
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.hfile.stored_entry_kernels import (
    PADDING_BYTES,
    Scratch,
    StoredEntries,
    decode_blocks,
)
from bucketfmt.format.hfile.trailer import (
    TRAILER_BYTES,
    decode_file_info,
    decode_trailer,
    encode_file_info,
    encode_trailer,
)
from bucketfmt.format.hfile.variable_length import decode_hadoop_vint, encode_hadoop_vint
from bucketfmt.format.hfile.writer import encode_hfile
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from soak.damage.seeds import hfiles_of
from soak.damage.tables import table_files

OWN_INFO = {
    b"hfile.AVG_KEY_LEN",
    b"hfile.AVG_VALUE_LEN",
    b"hfile.CREATE_TIME_TS",
    b"hfile.LASTKEY",
    b"KEY_VALUE_VERSION",
    b"MAX_MEMSTORE_TS_KEY",
}


OFFSETS = ("file_info_offset", "load_on_open_offset", "last_data_block_offset")


def read_blocks(file: HFile, data: bytes) -> Iterator[tuple[object, ...]]:
    """Yield what each data block and meta block holds, and its header without sizes on disk."""
    for first, at, size in (*file.data_blocks, *file.meta_blocks.values()):
        block = read_block(data, file.trailer.codec, at=at).decoded()
        assert block.end == at + size
        header = data[at : at + 33]
        yield first, block.type, block.content, header[12:29], header[:8]


def with_entries(*entries: tuple[bytes, bytes], block_bytes: int = 64 << 10) -> bytes:
    return encode_hfile(
        EntryColumns.of(entries), {b"schema": b"{}"}, created_ms=7, block_bytes=block_bytes
    )


def decode_entries(contents: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> StoredEntries:
    data = b"".join([*contents, bytes(PADDING_BYTES)])
    sizes = [len(memoryview(content)) for content in contents]
    return decode_blocks(data, sizes, Scratch(), limits)


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
@pytest.mark.parametrize("name", ["rli", "mdt_bucket"])
def test_files_that_hudi_wrote(version: str, name: str) -> None:
    read = 0
    for path, data in hfiles_of(f"{version}/{name}"):
        file = HFile.of(data)
        entries = list(file.scan())
        keys = [key for key, _ in entries]
        assert len(entries) == len(file) > 0, path
        assert keys == sorted(set(keys)), path
        assert file.find(keys[::-1]) == [value for _, value in entries][::-1], path
        assert file.file_info[b"schema"].startswith(b'{"type":"record","name":"HoodieMetadata')
        last = file.file_info[b"hfile.LASTKEY"]
        assert last[2 : 2 + int.from_bytes(last[:2], "big")] == keys[-1], path
        read += 1
    assert read >= 5


@pytest.mark.parametrize("name", ["rli", "mdt_bucket"])
def test_blocks_are_those_of_hudis_own_writer(name: str) -> None:
    """Keys of the index are whole, as HBase's reader needs them; the file info is in order."""
    for path, data in hfiles_of(f"1.2.0/{name}"):
        theirs = HFile.of(data)
        info = {k: v for k, v in theirs.file_info.items() if k not in OWN_INFO}
        metas = {each: theirs.meta_block(each) or b"" for each in theirs.meta_blocks}
        created = int.from_bytes(theirs.file_info[b"hfile.CREATE_TIME_TS"], "big")
        entries = EntryColumns.of(theirs.scan())
        own = encode_hfile(
            entries, info, created_ms=created, meta_blocks=metas, block_bytes=1 << 20
        )
        written = HFile.of(own)
        blocks, their_blocks = (
            list(read_blocks(file, data)) for file, data in ((written, own), (theirs, data))
        )
        assert blocks == their_blocks, path
        places = {name: getattr(theirs.trailer, name) for name in OFFSETS}
        assert replace(written.trailer, **places) == theirs.trailer, path
        last = theirs.file_info[b"hfile.LASTKEY"] + KEY_SUFFIX
        assert written.file_info == {**theirs.file_info, b"hfile.LASTKEY": last}, path


def test_a_partition_and_its_files() -> None:
    """What the partition `files` says of the table's files, in the bytes of its records."""
    files = dict(hfiles_of("1.2.0/mdt_bucket"))
    path = next(p for p in files if "/files/.files-0000-0_20261121044204742" in p)
    value = HFile.of(files[path]).find([b"us"])[0]
    names = [p.removeprefix("us/") for p in table_files("1.2.0/mdt_bucket") if p[:3] == "us/"]
    written = [n for n in names if "20261121044204742" in n and not n.endswith(".crc")]
    assert value is not None
    assert written
    assert all(name.encode() in bytes(value) for name in written)


@pytest.mark.parametrize("codec", list(Codec))
@given(
    entries=st.dictionaries(st.binary(max_size=200), st.binary(max_size=300), max_size=30),
    block_bytes=st.sampled_from([1, 60, 500, 1 << 20]),
    metas=st.dictionaries(st.text(max_size=9), st.binary(max_size=90), max_size=3),
    asked=st.lists(st.binary(max_size=3), max_size=5),
)
def test_what_is_written_is_read(
    codec: Codec,
    entries: dict[bytes, bytes],
    block_bytes: int,
    metas: dict[str, bytes],
    asked: list[bytes],
) -> None:
    data = encode_hfile(
        EntryColumns.of(sorted(entries.items())),
        {b"schema": b"{}"},
        created_ms=1_700_000_000_000,
        meta_blocks=metas,
        codec=codec,
        block_bytes=block_bytes,
    )
    file = HFile.of(data)
    assert {key: bytes(value) for key, value in file.scan()} == entries
    assert [key for key, _ in file.scan()] == sorted(entries)
    keys = [*entries, *asked]
    found = [None if value is None else bytes(value) for value in file.find(keys)]
    assert found == [entries.get(key) for key in keys]
    assert {name: file.meta_block(name) for name in file.meta_blocks} == metas
    assert file.meta_block("another") is None
    for prefix in asked:
        expected = sorted(key for key in entries if key.startswith(prefix))
        assert [key for key, _ in file.find_prefix(prefix)] == expected
        in_range = sorted(key for key in entries if prefix <= key < prefix + b"m")
        assert [key for key, _ in file.scan(prefix, prefix + b"m")] == in_range


def test_blocks_of_many_and_of_few_entries_are_walked_together() -> None:
    random = Random(7)
    entries = []
    for number in range(3000):
        value = bytes(random.choice([0, 1, 7, 300, 300, 30_000 if number % 50 == 0 else 40]))
        entries.append((b"%05d" % number + bytes(random.randrange(9)), value))
    data = with_entries(*entries, block_bytes=4096)
    file = HFile.of(data)
    assert len(file.data_blocks) > 64
    assert list(file.scan()) == entries
    shuffled = random.sample(entries, len(entries))
    asked = [key for key, _ in shuffled] + [b"", b"01500", b"x", shuffled[0][0]]
    assert file.find(asked) == [value for _, value in shuffled] + [None] * 3 + [shuffled[0][1]]


def read_plainly(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block one after the other, as Hudi's reader does."""
    place = 0
    while place < len(content):
        key_bytes, value_bytes, row_bytes = unpack_from(">iih", content, place)
        row, value = place + 10, place + 8 + key_bytes
        yield content[row : row + row_bytes], content[value : value + value_bytes]
        place = value + value_bytes + 1


alike_keys = st.builds(
    lambda prefix, middle, end: prefix + middle + end,
    st.sampled_from([b"", b"a" * 7, b"a" * 8, b"a" * 8 + b"b" * 9]),
    st.sampled_from([b"", b"\0", b"\0" * 8, b"\xff" * 8]),
    st.binary(max_size=2),
)


@given(
    st.dictionaries(alike_keys, st.binary(max_size=9), max_size=300),
    st.lists(alike_keys, max_size=150),
    st.sampled_from([1, 60, 900, 1 << 20]),
    st.randoms(use_true_random=False),
)
def test_keys_that_differ_late_are_found(
    entries: dict[bytes, bytes], asked: list[bytes], block_bytes: int, random: Random
) -> None:
    """Look-ups compare eight bytes of most keys, and find what a plain reader finds."""
    data = with_entries(*sorted(entries.items()), block_bytes=block_bytes)
    file = HFile.of(data)
    contents = [
        read_block(data, Codec.GZ, at=at).decoded().content for _, at, _ in file.data_blocks
    ]
    plain = dict(entry for content in contents for entry in read_plainly(content))
    assert plain == entries
    asked += entries
    random.shuffle(asked)
    assert file.find(asked) == [plain.get(key) for key in asked]
    assert file.find(sorted(set(asked))) == [plain.get(key) for key in sorted(set(asked))]


def test_keys_are_told_from_keys_with_the_same_eight_bytes() -> None:
    """Eight bytes tell each entry from the others, and not from keys that the file lacks."""
    numbers = range(1, 200)
    file = HFile.of(with_entries(*((b"same%08d-end-of-key" % n, b"%d" % n) for n in numbers)))
    values = [b"%d" % number for number in numbers]
    assert file.find([b"same%08d-end-of-key" % number for number in numbers]) == values
    for other in (b"same%08d-end-of-KEY", b"same%08d-end-of-key.", b"Same%08d-end-of-key"):
        sought = [b"same%08d-end-of-key" % n if n % 3 else other % n for n in numbers]
        assert file.find(sought) == [b"%d" % n if n % 3 else None for n in numbers]


def test_blocks_are_decoded_alike_whatever_was_decoded_before() -> None:
    entries = [(b"key %03d" % number, b"v" * (number % 90)) for number in range(300)]
    blocks = [EntryColumns.of(entries[at : at + 10]).encode() for at in range(0, 300, 10)]
    scratch = Scratch()
    for some in (blocks[:20], blocks, blocks[12:], blocks[:3], blocks[3:]):
        data = b"".join([*some, bytes(PADDING_BYTES)])
        found = decode_blocks(data, [block.nbytes for block in some], scratch)
        assert found.keys().to_pylist() == decode_entries(some).keys().to_pylist()
        assert found.values().to_pylist() == decode_entries(some).values().to_pylist()


def test_keys_out_of_order_are_seen_whichever_keys_are_sought() -> None:
    for keys in (
        [b"b", b"a", b"c"],
        [b"p" * 20 + b"b", b"p" * 20 + b"a"],
        [b"a\0", b"a"],
        [b"a"] * 2,
    ):
        content = b"".join(EntryColumns.of([(key, b"")]).encode() for key in keys)
        with pytest.raises(CorruptError, match="order"):
            decode_entries([content])


@pytest.mark.parametrize("place", [0, 1, 150, 299])
@pytest.mark.parametrize("size", [255, 256, 70_000])
def test_an_entry_may_be_longer_than_the_others(place: int, size: int) -> None:
    entries = [(b"key %03d" % number, b"v" * (number % 90)) for number in range(300)]
    for longer in ((entries[place][0], b"v" * size), (entries[place][0] + b"k" * 300, b"")):
        given = [*entries[:place], longer, *entries[place + 1 :]]
        blocks = [
            EntryColumns.of(given[at : at + 10]).encode().tobytes() for at in range(0, 300, 10)
        ]
        found = decode_entries(blocks)
        assert found.begins.tolist() == list(range(0, 301, 10))
        pairs = zip(found.keys().to_pylist(), found.values().to_pylist(), strict=True)
        assert list(pairs) == given


@pytest.mark.parametrize("count", [1, 40])
def test_damaged_entries_are_seen_in_one_block_and_in_many(count: int) -> None:
    blocks = [EntryColumns.of([(b"%02d" % n, b"v" * n)]).encode().tobytes() for n in range(count)]
    for place, error in ((3, TruncatedError), (9, CorruptError), (13, UnsupportedError)):
        damaged = bytearray(blocks[-1])
        damaged[place] ^= 1
        with pytest.raises(error):
            decode_entries([*blocks[:-1], damaged]).values()
    with pytest.raises(CorruptError, match="transaction"):
        decode_entries([*blocks[:-1], blocks[-1][:-1] + b"\x01"]).values()
    with pytest.raises(LimitError, match="records_per_block_max"):
        decode_entries(
            [EntryColumns.of([(b"a", b""), (b"b", b"")]).encode()], Limits(records_per_block_max=1)
        )


def test_only_the_blocks_that_are_asked_for_are_fetched() -> None:
    entries = [(b"%06d" % n, bytes(1000)) for n in range(3000)]
    data = encode_hfile(EntryColumns.of(entries), {}, created_ms=1, codec=Codec.NONE)
    fetched: list[tuple[int, int]] = []

    def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        fetched.extend(ranges)
        return [data[start : start + length] for start, length in ranges]

    file = HFile(fetch, len(data))
    assert fetched == [(len(data) - (64 << 10), 64 << 10)]
    fetched.clear()
    assert file.find([b"000001", b"000002", b"001000", b"x"])[3] is None
    blocks = [(place.offset, place.size) for place in file.data_blocks]
    assert fetched == [blocks[0], blocks[15]]
    assert len(blocks) > 40


def test_an_index_of_hbase_with_keys_of_ten_bytes_more() -> None:
    suffix = bytes.fromhex("007fffffffffffffff04")
    content = b"".join(
        offset.to_bytes(8, "big") + (64).to_bytes(4, "big") + bytes([len(key)]) + key
        for offset, key in ((0, b"\x00\x01a" + suffix), (64, b"\x00\x02bb" + suffix))
    )
    assert decode_root_index(content, 2) == [BlockPlace(b"a", 0, 64), BlockPlace(b"bb", 64, 64)]


def test_an_index_of_hudi_1_1_whose_lengths_are_protobufs() -> None:
    row = bytes(range(200))
    key = len(row).to_bytes(2, "big") + row
    place = BlockPlace(row, 5, 64)
    hadoops = encode_index([place])
    protobufs = bytes(7) + b"\x05" + (64).to_bytes(4, "big") + b"\xca\x01" + key
    assert hadoops != protobufs
    assert decode_root_index(hadoops, 1) == decode_root_index(protobufs, 1) == [place]


def test_an_index_of_two_levels() -> None:
    """As HBase's writer lays it out: leaf indexes among the data blocks."""
    leaves, places, file = [], [], bytearray()
    for letters in ("ab", "cd"):
        below = []
        for letter in letters:
            content = EntryColumns.of([(letter.encode(), letter.upper().encode())]).encode()
            block = encode_block(BlockType.DATA, content, Codec.GZ)
            below.append((letter.encode(), len(file), len(block)))
            file += block
        keys = [b"\x00\x01" + key + bytes.fromhex("007fffffffffffffff04") for key, _, _ in below]
        entries = [
            offset.to_bytes(8, "big") + size.to_bytes(4, "big") + key
            for (_, offset, size), key in zip(below, keys, strict=True)
        ]
        ends = [0, len(entries[0]), len(entries[0]) + len(entries[1])]
        content = b"".join(n.to_bytes(4, "big") for n in (2, *ends)) + b"".join(entries)
        leaf = encode_block(BlockType.LEAF_INDEX, content, Codec.GZ)
        leaves.append(BlockPlace(below[0][0], len(file), len(leaf)))
        file += leaf
        places += below
    single = HFile.of(with_entries(*[(key, key.upper()) for key in (b"a", b"b", b"c", b"d")]))
    load_on_open = len(file)
    file += encode_block(BlockType.ROOT_INDEX, encode_index(leaves), Codec.GZ)
    file += encode_block(BlockType.ROOT_INDEX, b"", Codec.GZ)
    trailer = replace(
        single.trailer,
        load_on_open_offset=load_on_open,
        file_info_offset=len(file),
        data_index_count=2,
        num_levels=2,
    )
    file += encode_block(BlockType.FILE_INFO, encode_file_info({}), Codec.GZ)
    read = HFile.of(bytes(file) + encode_trailer(trailer))
    assert [(p.first, p.offset, p.size) for p in read.data_blocks] == places
    assert list(read.scan()) == list(single.scan())
    assert read.find([b"c"]) == [b"C"]


def test_an_index_of_three_levels_that_hbase_wrote() -> None:
    """By `tests/interop/hfiles/HBaseLevels.java`."""
    data = (Path(__file__).parent / "three_levels.hfile").read_bytes()
    file = HFile.of(data)
    entries = [(b"key-%02d" % number, b"v%d" % number) for number in range(60)]
    assert (file.trailer.num_levels, len(file.data_blocks)) == (3, 20)
    assert list(file.scan()) == entries
    keys = [b"a", *(key for key, _ in entries), b"key-59a"]
    assert file.find(keys) == [None, *(value for _, value in entries), None]
    *_, trailer = annotate_hfile(data, DEFAULT_LIMITS, 0)
    assert trailer.value == "60 entries in 20 blocks, codec GZ, index of 3 level(s)"


def test_an_empty_file() -> None:
    file = HFile.of(with_entries())
    assert (len(file), list(file.scan()), file.find([b"a"])) == (0, [], [None])


@given(st.integers(0, 2**63 - 1))
def test_hadoops_numbers(value: int) -> None:
    assert decode_hadoop_vint(Cursor(encode_hadoop_vint(value))) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [("7f", 127), ("90", -112), ("8f80", 128), ("8e0100", 256), ("87ff", -256), ("8700", -1)],
)
def test_hadoops_numbers_as_writable_utils_writes_them(data: str, value: int) -> None:
    assert decode_hadoop_vint(Cursor(bytes.fromhex(data))) == value


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=300)))
def test_file_info(info: dict[bytes, bytes]) -> None:
    assert decode_file_info(encode_file_info(info)) == info


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(b"b", b""), (b"a", b"")], "in order"),
        ([(b"a", b""), (b"a", b"")], "each of them once"),
        ([(bytes(32768), b"")], "32767"),
    ],
)
def test_keys_that_no_file_holds(entries: list[tuple[bytes, bytes]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encode_hfile(EntryColumns.of(entries), {}, created_ms=0)


def test_checksums_of_type_crc32() -> None:
    block = bytearray(encode_block(BlockType.DATA, bytes(range(40)), Codec.NONE))
    block[24] = 1
    block[-4:] = zlib.crc32(block[:-4]).to_bytes(4, "big")
    assert read_block(block, Codec.NONE).decoded().content == bytes(range(40))
    block[40] ^= 1
    with pytest.raises(ChecksumError, match="differs from its checksum"):
        read_block(block, Codec.NONE).decoded()


def test_a_payload_that_is_larger_than_it_says_is_not_decompressed_whole() -> None:
    block = bytearray(encode_block(BlockType.DATA, bytes(1 << 20), Codec.GZ))
    block[12:16] = (1000).to_bytes(4, "big")
    with pytest.raises(CorruptError, match="is not the 1000 bytes"):
        read_block(block, Codec.GZ).decoded()
    with pytest.raises(LimitError, match="hfile_block_bytes_max"):
        read_block(
            encode_block(BlockType.DATA, bytes(1 << 20), Codec.GZ),
            Codec.GZ,
            limits=Limits(hfile_block_bytes_max=1000),
        ).decoded()


@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from(Codec), st.integers(0, 30))
def test_contents_of_many_blocks_are_those_of_each(
    contents: list[bytes], codec: Codec, padding: int
) -> None:
    encoded = [encode_block(BlockType.DATA, content, codec) for content in contents]
    blocks = [read_block(data, codec) for data in encoded]
    assert join_contents(blocks, padding) == b"".join([*contents, bytes(padding)])


@pytest.mark.parametrize("place", ["magic", "deflate", "checksum", "size", "end", "header"])
def test_a_damaged_block_among_many_is_told_as_if_it_were_alone(place: str) -> None:
    content = b"".join(b"a key of a record, %d" % number for number in range(500))
    sound = encode_block(BlockType.DATA, content, Codec.GZ)
    payload = bytes(read_block(sound, Codec.GZ).payload)
    damaged = {
        "magic": b"\0" + payload[1:],
        "deflate": payload[:40] + bytes([payload[40] ^ 1]) + payload[41:],
        "checksum": payload[:-8] + bytes([payload[-8] ^ 1]) + payload[-7:],
        "size": payload[:-4] + bytes([payload[-4] ^ 1]) + payload[-3:],
        "end": payload[:-1],
        "header": payload[:5],
    }[place]
    blocks = [read_block(sound, Codec.GZ, file_offset=at) for at in (0, 1000, 2000)]
    blocks[1] = blocks[1]._replace(payload=memoryview(damaged))
    with pytest.raises(CorruptError) as alone:
        blocks[1].decoded()
    with pytest.raises(CorruptError) as together:
        join_contents(blocks, PADDING_BYTES)
    assert (str(together.value), together.value.offset) == (str(alone.value), 1000)


def test_blocks_that_say_one_anothers_sizes_are_not_joined() -> None:
    """Together they hold the bytes that their headers say, one has more and the other fewer."""
    blocks = [
        read_block(encode_block(BlockType.DATA, bytes(size), Codec.GZ), Codec.GZ)
        for size in (10, 20)
    ]
    swapped = [blocks[0]._replace(num_bytes=20), blocks[1]._replace(num_bytes=10)]
    with pytest.raises(CorruptError, match="not the 20 bytes"):
        join_contents(swapped, 0)


@pytest.mark.parametrize(
    ("at", "value"),
    [(12, -1), (29, hfile_block.HEADER_BYTES - 1), (29, hfile_block.HEADER_BYTES + 1_000)],
    ids=["uncompressed", "no payload", "more than is on disk"],
)
def test_sizes_of_a_block_that_cannot_be(at: int, value: int) -> None:
    header = bytearray(encode_block(BlockType.DATA, bytes(20), Codec.NONE))
    pack_into(">i", header, at, value)
    with pytest.raises(CorruptError, match="the sizes in the header of an HFile block disagree"):
        read_block(header, Codec.NONE)


def test_files_that_are_not_read() -> None:
    data = with_entries((b"a", b"1"))
    trailer = HFile.of(data).trailer
    message = encode_trailer(trailer)
    with pytest.raises(UnsupportedError, match="version 2"):
        decode_trailer(message[:-1] + b"\x02", len(data))
    snappy = message.replace(b"\x60\x01", b"\x60\x03")
    with pytest.raises(UnsupportedError, match="codec SNAPPY"):
        decode_trailer(snappy, len(data))
    encoded = data.replace(b"DATABLK*", b"DATABLKE")
    with pytest.raises(UnsupportedError, match="DATABLKE"):
        list(HFile.of(encoded).scan())
    entry = EntryColumns.of([(b"a", b"1")]).encode().tobytes()
    with pytest.raises(UnsupportedError, match="does not write"):
        decode_entries([entry.replace(b"\x04", b"\x08")]).values()
    with pytest.raises(CorruptError, match="too few"):
        HFile.of(b"PAR1")


def test_machines_without_isa_l_write_and_read_the_same_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("isal", reason="ISA-L has no wheel for this kind of machine")
    monkeypatch.setitem(sys.modules, "isal", None)
    spec = find_spec(hfile_block.__name__)
    assert spec is not None
    assert spec.loader is not None
    other = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, hfile_block.__name__, other)
    spec.loader.exec_module(other)
    assert other.zlib is zlib
    assert hfile_block.zlib.__name__ == "isal.isal_zlib"
    content = b"".join(b"a key of a record, %d" % number for number in range(5000))
    for writer, reader in ((other, hfile_block), (hfile_block, other)):
        data = writer.encode_block(writer.BlockType.DATA, content, writer.Codec.GZ)
        assert reader.read_block(data, reader.Codec.GZ).decoded().content == content
        block = reader.read_block(data, reader.Codec.GZ)
        assert reader.join_contents([block, block], 3) == content + content + bytes(3)
        damaged = bytearray(data)
        damaged[len(data) // 2] ^= 1
        with pytest.raises(CorruptError):
            reader.read_block(bytes(damaged), reader.Codec.GZ).decoded()


def test_every_flipped_bit_is_seen_or_changes_no_entry() -> None:
    """GZ carries a checksum of what it compresses."""
    entries = [(b"k%02d" % n, b"value %d" % n) for n in range(20)]
    data = with_entries(*entries, block_bytes=200)
    for place in range(len(data) - TRAILER_BYTES + 80):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        try:
            read = [(key, bytes(value)) for key, value in HFile.of(damaged).scan()]
        except BucketfmtError:
            continue
        assert read == entries, place


def test_hudi_states_no_block_in_a_file_without_entries() -> None:
    """The offsets of the first and the last data block are -1, in 64 bits."""
    data = encode_hfile(EntryColumns.of([]), {}, created_ms=1)
    start = len(data) - TRAILER_BYTES
    size = data[start + 8]
    message = bytearray(data[start + 9 : start + 9 + size])
    for field in (9, 10):
        at = message.index(bytes([field << 3, 0]))
        message[at : at + 2] = bytes([field << 3]) + b"\xff" * 9 + b"\x01"
    tail = data[start : start + 8] + bytes([len(message)]) + message
    changed = data[:start] + tail.ljust(TRAILER_BYTES - 4, b"\0") + data[-4:]
    file = HFile.of(changed)
    assert len(file) == 0
    assert file.trailer.first_data_block_offset == file.trailer.last_data_block_offset == -1
    assert file.find([b"k"]) == [None]


@given(st.lists(st.binary(max_size=12).map(lambda key: b"same" + key), unique=True))
def test_entries_are_sorted_by_unsigned_bytes(keys: list[bytes]) -> None:
    found = EntryColumns.of([(key, key) for key in keys]).sort()
    assert found.keys.to_pylist() == found.values.to_pylist() == sorted(keys)


@given(
    st.binary(max_size=9),
    st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 3)), max_size=12),
    st.integers(0, 3),
)
def test_each_part_of_the_entries_is_sorted_alone(
    prefix: bytes, rows: list[tuple[bytes, int]], skip: int
) -> None:
    entries = [(prefix + key, b"%d" % number) for number, (key, _) in enumerate(rows)]
    columns = EntryColumns.of([(b"another", b"")] * skip + entries)[skip:]
    parts = [[place for place, (_, own) in enumerate(rows) if own == part] for part in range(4)]
    found = [
        list(zip(part.keys.to_pylist(), part.values.to_pylist(), strict=True))
        for part in columns.sort_parts(np.array(part, np.int64) for part in parts)
    ]
    assert found == [sorted(dict(entries[place] for place in part).items()) for part in parts]


def test_of_entries_with_one_key_the_last_stays() -> None:
    rows = [(b"b", b"1"), (b"a", b"2"), (b"b", b"3"), (b"a", b"4"), (b"c", b"5")]
    found = EntryColumns.of(rows).sort()
    assert found.keys.to_pylist() == [b"a", b"b", b"c"]
    assert found.values.to_pylist() == [b"4", b"3", b"5"]


@pytest.mark.parametrize("end", [b"", b"-a long end"])
def test_keys_of_one_length_are_sorted_by_all_their_bytes(end: bytes) -> None:
    """Keys of which the first bytes are alike, and keys of which eight bytes are alike behind."""
    rows = [
        (
            b"%s%03d%s%d%s" % (b"same" * 5, number * 37 % 50, b"." * 8, number % 2, end),
            b"%d" % number,
        )
        for number in range(200)
    ]
    columns = EntryColumns.of([(b"another", b""), *rows])
    odd = EntryColumns(columns.keys[1:], columns.values[1:]).sort_parts([np.arange(1, 200, 2)])
    expected = sorted(dict(rows[1::2]).items())
    for found in odd:
        assert [*zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)] == expected
    found = EntryColumns.of(rows).sort()
    file = HFile.of(encode_hfile(found, {}, created_ms=1, block_bytes=256))
    assert [(key, bytes(value)) for key, value in file.scan()] == sorted(dict(rows).items())


@pytest.mark.parametrize("width", [1, 8, 40])
def test_entries_of_one_key_length_are_not_written_out_of_order(width: int) -> None:
    keys = [key.rjust(width, b"k") for key in (b"a", b"b", b"b", b"c")]
    for some in ([0, 2, 1], [0, 1, 2], [3, 0]):
        entries = EntryColumns.of([(keys[place], b"") for place in some])
        with pytest.raises(ValueError, match="in order"):
            encode_hfile(entries, {}, created_ms=1)


@given(
    st.lists(st.binary(max_size=9), min_size=1, max_size=4),
    st.sampled_from([0, 9]).flatmap(
        lambda width: st.lists(st.binary(min_size=width, max_size=9), unique=True, max_size=12)
    ),
    st.data(),
)
def test_shared_values_are_laid_out_as_values_of_their_own(
    shared: list[bytes], keys: list[bytes], data: st.DataObject
) -> None:
    which = data.draw(
        st.lists(st.integers(0, len(shared) - 1), min_size=len(keys), max_size=len(keys))
    )
    column = pa.array(keys, pa.large_binary())
    dictionary = pa.array(shared, pa.large_binary())
    coded = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), dictionary)
    entries = EntryColumns(column, coded)
    skip = data.draw(st.integers(0, len(keys)))
    plain = EntryColumns.of([(key, shared[place]) for key, place in zip(keys, which, strict=True)])
    assert bytes(entries[skip:].encode()) == bytes(plain[skip:].encode())


def test_blocks_without_the_longest_shared_value_are_laid_out() -> None:
    """Entries of short values alone have fewer bytes than that value."""
    block_bytes = 1 << 20
    keys = [b"key-%04d" % number for number in range(20)]
    values, which = [b"", b"x" * block_bytes], [1] * 2 + [0] * 18
    coded = pa.DictionaryArray.from_arrays(
        pa.array(which, pa.int32()), pa.array(values, pa.large_binary())
    )
    entries = EntryColumns(pa.array(keys, pa.large_binary()), coded)
    file = HFile.of(encode_hfile(entries, {}, created_ms=1, block_bytes=block_bytes))
    assert file.find(keys) == [values[place] for place in which]
    plain = EntryColumns.of([(key, b"") for key in keys[2:]])
    assert bytes(entries[2:].encode()) == bytes(plain.encode())


def test_many_keys_are_not_in_a_file_without_entries() -> None:
    file = HFile.of(encode_hfile(EntryColumns.of([]), {}, created_ms=1))
    keys = [b"key-%04d" % number for number in range(1_000)]
    assert file.find(keys) == [None] * len(keys)
