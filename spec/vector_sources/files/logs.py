"""Vectors of log files: framing, damage, rows, and which blocks count."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

import fastavro
import pyarrow.parquet as pq

from spec.vector_sources.vector import Golden, ListOf, Vector, golden

__all__ = ["Block", "encode_block", "parse_blocks", "vectors"]

_TEXT = "written for this text"
_TYPES = ("COMMAND", "DELETE", "CORRUPT", "AVRO_DATA", "HFILE_DATA", "PARQUET_DATA", "CDC_DATA")


@dataclass(frozen=True)
class Block:
    """A block of a sound log file."""

    offset: int
    end: int
    block_type: str
    header: dict[int, str]
    content: bytes

    def told(self) -> dict[str, object]:
        """Return what a vector says about the block; texts and content as digests."""
        return {
            "offset": self.offset,
            "end": self.end,
            "type": self.block_type,
            "header": {str(key): value for key, value in sorted(self.header.items())},
            "content_bytes": len(self.content),
            "content_sha256": hashlib.sha256(self.content).hexdigest(),
        }


def parse_blocks(data: bytes) -> list[Block]:
    """Return the blocks of a sound log file; for files of real Hudi only."""
    blocks, at = [], 0
    while at < len(data):
        magic, length, version, kind, entries = struct.unpack_from(">6sqiii", data, at)
        (echo,) = struct.unpack_from(">q", data, at + length + 6)
        if (magic, version, echo) != (b"#HUDI#", 1, length + 6):
            raise ValueError(f"no sound block at {at}")
        position, header = at + 26, {}
        for _ in range(entries):
            key, size = struct.unpack_from(">ii", data, position)
            header[key] = data[position + 8 : position + 8 + size].decode()
            position += 8 + size
        (size,) = struct.unpack_from(">q", data, position)
        content = data[position + 8 : position + 8 + size]
        blocks.append(Block(at, at + length + 14, _TYPES[kind], header, content))
        at += length + 14
    return blocks


def encode_block(
    kind: int, header: dict[int, str], content: bytes = b"", version: int = 1, footer: bytes = b""
) -> bytes:
    """Return a block, sound unless told otherwise."""
    entries = b"".join(
        struct.pack(">ii", key, len(value.encode())) + value.encode()
        for key, value in header.items()
    )
    inner = struct.pack(">iii", version, kind, len(header)) + entries
    inner += struct.pack(">q", len(content)) + content
    inner += footer or struct.pack(">i", 0)
    length = len(inner) + 8
    return b"#HUDI#" + struct.pack(">q", length) + inner + struct.pack(">q", length + 6)


def _rollback_file() -> tuple[Golden, str]:
    table = golden("0.15.0", "rolledback_mor")
    return table, table.paths("ap/.00000000", end=".log.3_1-0-1")[0]


def vectors() -> Iterator[Vector]:
    """Yield them."""
    table, path = _rollback_file()
    yield _whole(
        "log-file.rollback-v6", ["LOG-1", "LOG-2", "LOG-6", "LOG-8", "LOG-10"], table, path
    )
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        table = golden(version, "mor")
        small = min(table.paths(contains=".log."), key=lambda path: len(table.files[path]))
        yield _whole(f"log-file.delete-{version}", ["LOG-1", "LOG-6", "LOG-8"], table, small)
    table = golden("1.2.0", "partial")
    path = min(table.paths(contains=".log."), key=lambda path: len(table.files[path]))
    yield _whole("log-file.partial", ["LOG-8", "LOG-6"], table, path)
    table = golden("1.2.0", "cdc")
    path = table.paths(end=".cdc")[0]
    yield _whole("log-file.cdc", ["LOG-6"], table, path)
    table = golden("1.2.0", "delete_marker_mor")
    two = [p for p in table.paths(contains=".log.") if len(parse_blocks(table.files[p])) == 2]
    path = min(two, key=lambda path: len(table.files[path]))
    yield _whole("log-file.rows-and-deletes", ["LOG-1", "LOG-14", "LOG-15", "LOG-25"], table, path)
    yield from _damaged(table, path)
    yield from _frames()
    yield from _rows()
    yield from _parquet_rows()
    yield from _selections()
    yield from _committed()


def _whole(name: str, rules: list[str], table: Golden, path: str) -> Vector:
    data = table.files[path]
    told = [block.told() for block in parse_blocks(data)]
    return Vector(name, rules, table.recipe(path), data, told)


def _span(offset: int, end: int, truncated: bool = False) -> dict[str, object]:
    return {"offset": offset, "end": end, "corrupt": True, "truncated": truncated}


def _damaged(table: Golden, path: str) -> Iterator[Vector]:
    """A real file of two blocks, hurt in one place each."""
    data = table.files[path]
    first, second = parse_blocks(data)
    size, cut = len(data), second.offset

    def vector(name: str, rules: list[str], what: str, hurt: bytes, spans: list[object]) -> Vector:
        recipe = table.recipe(path, f"whole file, {what}")
        return Vector(f"log-file.{name}", rules, recipe, hurt, spans)

    def flipped(at: int, byte: int) -> bytes:
        return data[:at] + bytes((data[at] ^ byte,)) + data[at + 1 :]

    kept, last = first.told(), second.told()
    yield vector(
        "truncated",
        ["LOG-14", "LOG-15", "LOG-4"],
        "without its last byte",
        data[:-1],
        [kept, _span(cut, size - 1, truncated=True)],
    )
    yield vector(
        "cut-in-first-length",
        ["LOG-14", "LOG-15"],
        "its first ten bytes",
        data[:10],
        [_span(0, 10, truncated=True)],
    )
    yield vector(
        "length-flipped",
        ["LOG-2", "LOG-14"],
        "a bit of the first block's length flipped",
        flipped(13, 0x01),
        [_span(0, cut), last],
    )
    yield vector(
        "length-huge",
        ["LOG-3", "LOG-4", "LOG-14"],
        "the first block's length 2^56 and more",
        flipped(6, 0x01),
        [_span(0, cut), last],
    )
    yield vector(
        "echo-flipped",
        ["LOG-2", "LOG-14"],
        "a bit of the first block's echo flipped",
        flipped(cut - 1, 0x01),
        [_span(0, cut), last],
    )
    yield vector(
        "second-magic-flipped",
        ["LOG-14"],
        "a bit of the second magic flipped: it costs the block before it too",
        flipped(cut, 0x01),
        [_span(0, size)],
    )
    yield vector(
        "first-magic-missing",
        ["LOG-14", "LOG-15"],
        "a bit of the first magic flipped",
        flipped(0, 0x01),
        [_span(0, cut), last],
    )
    yield vector(
        "loose-end",
        ["LOG-15"],
        "five more bytes behind it",
        data + b"#HUDI",
        [kept, last, _span(size, size + 5, truncated=True)],
    )
    for name, rules, loose, costs in (
        ("loose-bytes", ["LOG-14", "LOG-15"], b"abc", False),
        ("loose-byte", ["LOG-14", "LOG-15"], b"\0", False),
        ("six-loose-bytes", ["LOG-14", "LOG-15"], b"abcdef", True),
    ):
        at = cut if costs else size
        yield vector(
            name,
            rules,
            f"{len(loose)} more bytes behind it that begin no magic",
            data + loose,
            [kept, *([] if costs else [last]), _span(at, size + len(loose), truncated=not costs)],
        )
    for name, rules, tail, truncated in (
        ("magic-alone-at-end", ["LOG-15"], b"#HUDI#", True),
        ("length-cut-at-end", ["LOG-15"], b"#HUDI#" + bytes(7), True),
        ("length-31-at-end", ["LOG-3", "LOG-15"], b"#HUDI#" + struct.pack(">q", 31), False),
        ("length-32-at-end", ["LOG-3", "LOG-15"], b"#HUDI#" + struct.pack(">q", 32), True),
        (
            "length-2-to-the-31-at-end",
            ["LOG-3", "LOG-15"],
            b"#HUDI#" + struct.pack(">q", 1 << 31),
            False,
        ),
        ("length-negative-at-end", ["LOG-3", "LOG-15"], b"#HUDI#" + struct.pack(">q", -1), False),
    ):
        yield vector(
            name,
            rules,
            "and the beginning of another block",
            data + tail,
            [kept, last, _span(size, size + len(tail), truncated=truncated)],
        )
    yield vector(
        "zeros-between",
        ["LOG-14"],
        "eight zeros between the blocks",
        data[:cut] + bytes(8) + data[cut:],
        [_span(0, cut + 8), {**last, "offset": cut + 8, "end": size + 8}],
    )


def _frames() -> Iterator[Vector]:
    header = {0: "20261121074707973"}
    yield Vector("log-file.empty", ["LOG-15"], _TEXT, b"", [])
    made = encode_block(1, {8: "3", 0: "1", 42: "new"}, b"\0\0\0\3\0\0\0\1\0")
    yield Vector(
        "log-file.unknown-header-key",
        ["LOG-9", "LOG-8"],
        _TEXT,
        made,
        [block.told() for block in parse_blocks(made)],
    )
    for name, rules, data in (
        ("version-0", ["LOG-5"], encode_block(1, header, version=0)),
        ("version-2", ["LOG-5"], encode_block(1, header, version=2)),
        ("type-2", ["LOG-6", "DEV-20"], encode_block(2, header)),
        ("type-7", ["LOG-6"], encode_block(7, header)),
    ):
        yield Vector(f"log-file.{name}", rules, _TEXT, data, error="unsupported")
    sound = encode_block(1, header)
    for name, rules, data in (
        ("version-2-and-echo", ["LOG-2", "LOG-5"], encode_block(1, header, version=2)[:-1] + b"\0"),
        (
            "version-2-and-loose-bytes",
            ["LOG-2", "LOG-5"],
            encode_block(1, header, version=2) + bytes(6),
        ),
        ("type-7-and-loose-bytes", ["LOG-2", "LOG-6"], encode_block(7, header) + bytes(6)),
    ):
        yield Vector(
            f"log-file.{name}",
            rules,
            "HoodieLogFileReader.readBlock (isBlockCorrupted before readVersion), as read",
            data + sound,
            [
                _span(0, len(data)),
                {**parse_blocks(sound)[0].told(), "offset": len(data), "end": len(data + sound)},
            ],
        )
    for name, rules, data in (
        ("version-2-and-header", ["LOG-2", "LOG-5"], encode_block(1, {-1: "x"}, version=2)),
        (
            "type-7-and-footer",
            ["LOG-2", "LOG-6"],
            encode_block(7, header, footer=struct.pack(">iii", 1, 0, 1) + b"x"),
        ),
        (
            "version-2-and-one-byte",
            ["LOG-2", "LOG-5", "LOG-14"],
            encode_block(1, header, version=2) + b"\0",
        ),
    ):
        yield Vector(f"log-file.{name}", rules, _TEXT, data, error="unsupported")
    footer = struct.pack(">iii", 1, 0, 1) + b"x"
    for name, rules, data in (
        ("footer", ["LOG-7", "DEV-19"], encode_block(1, header, footer=footer)),
        (
            "header-value-of-no-text",
            ["LOG-8"],
            encode_block(1, {0: "12"}).replace(b"12", b"\xff\xfe"),
        ),
        ("negative-header-key", ["LOG-8"], encode_block(1, {-1: "x"})),
        ("content-length", ["LOG-2"], encode_block(1, header, footer=struct.pack(">iq", 0, 0))),
    ):
        yield Vector(f"log-file.{name}", rules, _TEXT, data, [_span(0, len(data))])
    twice = encode_block(1, {0: "1", 1: "2"}).replace(
        struct.pack(">ii", 1, 1) + b"2", struct.pack(">ii", 0, 1) + b"2"
    )
    yield Vector(
        "log-file.header-key-twice",
        ["LOG-8", "DEV-19"],
        _TEXT,
        twice,
        [_span(0, len(twice))],
    )


def _rows() -> Iterator[Vector]:
    for version, name in (("0.15.0", "mor"), ("1.2.0", "partial")):
        table = golden(version, name)
        files = sorted(table.paths(contains=".log."), key=lambda path: len(table.files[path]))
        path, block = next(
            (path, block)
            for path in files
            for block in parse_blocks(table.files[path])
            if block.block_type == "AVRO_DATA"
        )
        yield Vector(
            f"avro-data-block.golden-{name}",
            ["LOG-11", "LOG-13"],
            table.recipe(path, "content and SCHEMA of its data block"),
            {"content": block.content.hex(), "schema": block.header[2]},
            list(_avro_rows(block)),
        )
        if name == "mor":
            content, schema = block.content, block.header[2]
    count = struct.unpack_from(">i", content, 4)[0]
    yield Vector(
        "avro-data-block.versions-1-and-2",
        ["LOG-11"],
        _TEXT + ", of no records",
        ListOf([{"content": f"0000000{n}00000000", "schema": schema} for n in (1, 2, 3)]),
        [[], [], []],
    )
    yield Vector(
        "avro-data-block.version-4",
        ["LOG-11"],
        _TEXT,
        {"content": "0000000400000000", "schema": schema},
        error="unsupported",
    )
    one_less = content[:4] + struct.pack(">i", count - 1) + content[8:]
    one_more = content[:4] + struct.pack(">i", count + 1) + content[8:]
    long = content[:8] + b"\x7f" + content[9:]
    yield Vector(
        "avro-data-block.corrupt",
        ["LOG-11", "LOG-4"],
        "the block of avro-data-block.golden-mor with another count, length or end",
        ListOf(
            [
                {"content": data.hex(), "schema": schema}
                for data in (one_less, one_more, long, content + b"\0")
            ]
        ),
        error="corrupt",
    )


def _parquet_rows() -> Iterator[Vector]:
    table = golden("1.2.0", "parquet_log")
    blocks = [
        (len(block.content), path, block)
        for path in table.paths(contains=".log.")
        for block in parse_blocks(table.files[path])
        if block.block_type == "PARQUET_DATA"
    ]
    _, path, block = min(blocks, key=lambda found: found[:2])
    yield Vector(
        "parquet-data-block.golden",
        ["LOG-12"],
        table.recipe(path, "content of its data block"),
        block.content,
        pq.read_table(BytesIO(block.content)).to_pylist(),
    )
    yield Vector("parquet-data-block.empty", ["LOG-12"], _TEXT, b"", [])
    yield Vector(
        "parquet-data-block.cut",
        ["LOG-12"],
        table.recipe(path, "content of its data block, without its last byte"),
        block.content[:-1],
        error="corrupt",
    )


def _committed() -> Iterator[Vector]:
    sound = encode_block(1, {0: "20261121074707973"})
    size, torn = len(sound), sound[:-3]
    two, hurt = sound + sound, sound + torn + sound
    around = [[0, size], [size + len(torn), len(hurt)]]
    cases: list[tuple[bytes, list[list[int]] | None, list[list[int]]]] = [
        (two, [[0, 2 * size]], [[0, size], [size, 2 * size]]),
        (two, None, [[0, size], [size, 2 * size]]),
        (hurt, [[0, size]], around),
        (hurt, around, around),
        (hurt, [], around),
        (sound + torn, [[0, size]], [[0, size]]),
        (sound + b"abc", [[0, size]], [[0, size]]),
    ]
    yield Vector(
        "committed-log-file.damage-outside",
        ["LOG-16", "LOG-14"],
        _TEXT,
        ListOf([{"data": data.hex(), "committed": spans} for data, spans, _ in cases]),
        [found for *_, found in cases],
    )
    lost: list[tuple[bytes, list[list[int]] | None]] = [
        (hurt, [[0, len(hurt)]]),
        (hurt, [[size, size + 1]]),
        (hurt, None),
        (sound + torn, [[0, size], [size, 2 * size]]),
        (sound + b"abc", [[0, size + 3]]),
        (b"\1" + sound, None),
    ]
    yield Vector(
        "committed-log-file.damage-inside",
        ["LOG-16", "DEV-18"],
        _TEXT,
        ListOf([{"data": data.hex(), "committed": spans} for data, spans in lost]),
        error="corrupt",
    )


def _avro_rows(block: Block) -> Iterator[object]:
    schema = fastavro.parse_schema(json.loads(block.header[2]))
    _, count = struct.unpack_from(">ii", block.content)
    position = 8
    for _ in range(count):
        (size,) = struct.unpack_from(">i", block.content, position)
        record = block.content[position + 4 : position + 4 + size]
        yield fastavro.schemaless_reader(BytesIO(record), schema, None)
        position += 4 + size


def _data(instant: str, compacted: str | None = None) -> dict[str, object]:
    header = {"0": instant, "2": '"string"'}
    return {"type": 3, "header": header | ({"4": compacted} if compacted else {})}


def _delete(instant: str) -> dict[str, object]:
    return {"type": 1, "header": {"0": instant}}


def _rollback(instant: str, target: str) -> dict[str, object]:
    return {"type": 0, "header": {"0": instant, "1": target, "3": "0"}}


def _selections() -> Iterator[Vector]:
    a, b, c, d, e = (f"2024010100000{n}000" for n in range(5))
    cases: list[tuple[str, list[str], dict[str, object], list[list[int]]]] = [
        (
            "in-order",
            ["LOG-21"],
            {"files": [[_data(a)], [_data(b), _delete(b)]]},
            [[0, 0], [1, 0], [1, 1]],
        ),
        (
            "latest",
            ["LOG-17"],
            {"files": [[_data(a)], [_data(b)], [_data(c)]], "latest": b},
            [[0, 0], [1, 0]],
        ),
        (
            "valid",
            ["LOG-18"],
            {"files": [[_data(a), _data(b), _delete(c)]], "valid": [a, c]},
            [[0, 0], [0, 2]],
        ),
        (
            "rolled-back",
            ["LOG-19"],
            {"files": [[_data(a)], [_data(b), _delete(b)], [_rollback(c, b)], [_data(d)]]},
            [[0, 0], [3, 0]],
        ),
        (
            "rewritten-after-rollback",
            ["LOG-19"],
            {"files": [[_data(b)], [_rollback(c, b)], [_data(b)]]},
            [[2, 0]],
        ),
        (
            "rollback-without-target",
            ["LOG-19"],
            {"files": [[_rollback(c, b)], [_data(a)]]},
            [[1, 0]],
        ),
        (
            "rollback-of-no-valid-instant",
            ["LOG-19", "LOG-18"],
            {"files": [[_data(a), _rollback(c, a)]], "valid": [a]},
            [],
        ),
        (
            "interleaved",
            ["LOG-21", "DEV-14"],
            {"files": [[_data(a)], [_data(b)], [_data(a)]]},
            [[0, 0], [2, 0], [1, 0]],
        ),
        (
            "log-compaction",
            ["LOG-22"],
            {"files": [[_data(a)], [_data(b)], [_data(c)], [_data(d, f"{a},{b}")]]},
            [[3, 0], [2, 0]],
        ),
        ("log-compaction-alone", ["LOG-22"], {"files": [[_data(d, f"{a},{b}")]]}, []),
        (
            "log-compaction-of-instants-out-of-order",
            ["LOG-22"],
            {"files": [[_data(b)], [_data(c)], [_data(a)], [_data(d, f"{a},{b}")]]},
            [[1, 0], [3, 0]],
        ),
        (
            "log-compaction-of-a-log-compaction",
            ["LOG-22"],
            {
                "files": [
                    [_data(a)],
                    [_data(b)],
                    [_data(c, f"{a},{b}"), _delete(c)],
                    [_data(d)],
                    [_data(e, f"{c},{d}")],
                ]
            },
            [[4, 0]],
        ),
        (
            "log-compaction-placed-by-what-it-covers-through-another",
            ["LOG-22"],
            {"files": [[_data(a)], [_data(b)], [_data(c, a)], [_data(d, c)]]},
            [[3, 0], [1, 0]],
        ),
        (
            "latest-and-later-rollback",
            ["LOG-17", "LOG-19"],
            {"files": [[_data(a), _data(b)], [_rollback(d, a)]], "latest": b},
            [[0, 1]],
        ),
        (
            "latest-and-rollback-of-what-is-later",
            ["LOG-17", "LOG-19"],
            {"files": [[_data(a), _data(c)], [_rollback(d, c)]], "latest": b},
            [[0, 0]],
        ),
    ]
    recipe = "BaseHoodieLogRecordReader.scanInternal of Hudi 1.2.0, as read in its source"
    for name, rules, question, expected in cases:
        yield Vector(f"log-selection.{name}", rules, recipe, question, expected)
    malformed = [
        {"type": kind, "header": {"0": b, **header}}
        for kind, header in (
            (3, {"0": "x"}),
            (3, {"1": a}),
            (3, {"3": "0"}),
            (3, {"4": f"{a},"}),
            (3, {"5": "x"}),
            (3, {"6": "1"}),
            (3, {"7": "yes"}),
            (3, {"8": "-1"}),
            (0, {"1": "x", "3": "0"}),
            (0, {"1": a, "3": "rollback"}),
            (0, {"1": a, "7": "yes", "3": "1"}),
            (6, {"7": "yes"}),
        )
    ]
    yield Vector(
        "log-selection.corrupt",
        ["LOG-10"],
        _TEXT,
        ListOf(
            [
                {"files": [[{"type": 3, "header": {}}]]},
                {"files": [[{"type": 0, "header": {"0": a, "3": "0"}}]]},
                *({"files": [[_data(a), block]], "latest": a} for block in malformed),
            ]
        ),
        error="corrupt",
    )
    yield Vector(
        "log-selection.unsupported",
        ["LOG-9", "LOG-20", "DEV-20"],
        _TEXT,
        ListOf(
            [
                {"files": [[{"type": 3, "header": {"0": a, "9": "x"}}]]},
                {"files": [[{"type": 0, "header": {"0": a, "1": a, "3": "1"}}]]},
                {"files": [[{"type": 0, "header": {"0": a, "1": a}}]]},
                {"files": [[{"type": 6, "header": {"0": a}}]]},
                {"files": [[{"type": 6, "header": {}}]]},
                {"files": [[{"type": 0, "header": {"3": "1"}}]]},
                {"files": [[{"type": 3, "header": {"7": "yes", "9": "x"}}]]},
                {"files": [[_data(a), {"type": 3, "header": {"0": b, "9": "x"}}]], "latest": a},
                {"files": [[{"type": 3, "header": {"0": b, "9": "x"}}]], "valid": [a]},
            ]
        ),
        error="unsupported",
    )
