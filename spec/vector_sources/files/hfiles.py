"""Vectors of HFiles."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Sequence

from spec.vector_sources.vector import ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_SUFFIX = bytes.fromhex("007fffffffffffffff04")
_GZ, _NONE = 1, 2


def _block(magic: bytes, content: bytes, codec: int = _NONE) -> bytes:
    payload = gzip.compress(content, mtime=0) if codec == _GZ else content
    size = 33 + len(payload)
    sums = bytes(4 * -(-size // 16384))
    sizes = struct.pack(">iiqbii", size - 33 + len(sums), len(content), -1, 0, 16384, size)
    return magic + sizes + payload + sums


def _entry(row: bytes, value: bytes) -> bytes:
    lengths = struct.pack(">iih", len(row) + 12, len(value), len(row))
    return lengths + row + _SUFFIX + value + b"\0"


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def _file(
    blocks: Sequence[Sequence[tuple[bytes, bytes]]],
    *,
    codec: int = _NONE,
    written_codec: int | None = None,
    suffix: bytes = b"",
    entries: int | None = None,
    version: bytes = b"\0\0\0\3",
    key_length: bytes | None = None,
    shortened: bool = False,
    behind_index: bytes = b"",
    levels: int = 1,
    leaf_magic: bytes = b"IDXLEAF2",
    info_reversed: bool = False,
) -> bytes:
    """Lay out a file: data blocks, indexes of so many levels, file info, trailer."""
    file, index = b"", b""
    places: list[tuple[bytes, int, int]] = []  # a key, and where its block is
    for rows in blocks:
        block = _block(b"DATABLK*", b"".join(_entry(*row) for row in rows), codec)
        row = rows[0][0][:1] if shortened else rows[0][0]
        places.append((struct.pack(">h", len(row)) + row + suffix, len(file), len(block)))
        file += block
    for level in range(1, levels):
        magic = leaf_magic if level == 1 else b"IDXINTE2"
        above = []
        for start in range(0, len(places), 2):
            block = _block(magic, _branch(places[start : start + 2]), codec)
            above.append((places[start][0], len(file), len(block)))
            file += block
        places = above
    for key, offset, size in places:
        index += struct.pack(">qi", offset, size) + (key_length or bytes([len(key)])) + key
    load_on_open = len(file)
    file += _block(b"IDXROOT2", index + behind_index, codec) + _block(b"IDXROOT2", b"", codec)
    info = len(file)
    pair = b"\x12\x02{}\x0a\x06schema" if info_reversed else b"\x0a\x06schema\x12\x02{}"
    pairs = b"\x0a" + _varint(len(pair)) + pair
    file += _block(b"FILEINF2", b"PBUF" + _varint(len(pairs)) + pairs, codec)
    count = sum(map(len, blocks)) if entries is None else entries
    fields = {
        1: info,
        2: load_on_open,
        5: len(places),
        6: 0,
        7: count,
        8: levels,
        12: written_codec or codec,
    }
    message = b"".join(_varint(field << 3) + _varint(value) for field, value in fields.items())
    trailer = b'TRABLK"$' + _varint(len(message)) + message
    return file + trailer.ljust(4092, b"\0") + version


def _branch(places: Sequence[tuple[bytes, int, int]]) -> bytes:
    """Lay out an index below the root index."""
    entries = [struct.pack(">qi", offset, size) + key for key, offset, size in places]
    ends = [sum(map(len, entries[:n])) for n in range(len(entries) + 1)]
    return struct.pack(f">{len(ends) + 1}i", len(entries), *ends) + b"".join(entries)


def _summed(data: bytes) -> bytes:
    """Give the first block checksums of type CRC-32."""
    on_disk, with_header = (int.from_bytes(data[at : at + 4], "big") for at in (8, 29))
    block = data[:24] + b"\x01" + data[25:with_header]
    sums = (zlib.crc32(block[at : at + 16384]) for at in range(0, with_header, 16384))
    return block + b"".join(struct.pack(">I", own) for own in sums) + data[33 + on_disk :]


_ROWS = [(b"a", b"1"), (b"bb", b"")]
_TWO_BLOCKS = [_ROWS, [(b"c", b"3"), (b"d", b"4")]]

# By release: the value of the record, and digests of the file info and the bloom filter
_HUDIS: dict[str, tuple[str, dict[str, str], str]] = {
    "0.15.0": (
        "00000000025e66696c65732d303030302d305f302d3835342d333036365f30303030303030303030"
        "303030303031302e6866696c6500020200000000",
        {
            "KEY_VALUE_VERSION": "b40711a88c703975",
            "MAX_MEMSTORE_TS_KEY": "af5570f5a1810b7a",
            "bloomFilterTypeCode": "ced95fa644e78e7f",
            "hfile.AVG_KEY_LEN": "560231689713a593",
            "hfile.AVG_VALUE_LEN": "4082763076bdaee3",
            "hfile.CREATE_TIME_TS": "af5570f5a1810b7a",
            "hfile.LASTKEY": "2749fc151c4e5af6",
            "maxRecordKey": "8edf8651afe5224f",
            "minRecordKey": "8edf8651afe5224f",
            "schema": "d451d2fb0c1084f1",
        },
        "b677cbbf2d63041c",
    ),
    "1.2.0": (
        "00000000000002020000000000",
        {
            "KEY_VALUE_VERSION": "b40711a88c703975",
            "MAX_MEMSTORE_TS_KEY": "af5570f5a1810b7a",
            "bloomFilterTypeCode": "ced95fa644e78e7f",
            "hfile.AVG_KEY_LEN": "e9f3440e5518839a",
            "hfile.AVG_VALUE_LEN": "8092fe01b9ce31a4",
            "hfile.CREATE_TIME_TS": "559d91756cca9502",
            "hfile.LASTKEY": "40e88692220e3ea1",
            "maxRecordKey": "8edf8651afe5224f",
            "minRecordKey": "8edf8651afe5224f",
            "schema": "e60ee429403d20e0",
        },
        "dc6b0b1d726e9f1f",
    ),
}


def _found(rows: Sequence[tuple[bytes, bytes]]) -> dict[str, object]:
    return {
        "entries": [[row.hex(), value.hex()] for row, value in rows],
        "file_info": {"schema": hashlib.sha256(b"{}").hexdigest()[:16]},
        "meta_blocks": {},
    }


def _rows_of_a_log() -> Iterator[Vector]:
    """Rows `{id, key}`: texts in Avro are behind their length, twice."""
    fields = [{"name": name, "type": "string"} for name in ("id", "key")]
    schema = json.dumps({"type": "record", "name": "row", "fields": fields})
    rows = [(b"r1", b"\x02a\x00"), (b"r2", b"\x00\x06own")]
    good = {"content": _file([rows], codec=_GZ).hex(), "schema": schema}
    expected = [{"id": "a", "key": "r1"}, {"id": "", "key": "own"}]
    yield Vector("hfile-data-block.key", ["LOG-26"], _TEXT, good, expected)
    bad = ListOf(
        [
            {"content": _file([[(b"r", value)]]).hex(), "schema": schema}
            for value in (b"\x02a", b"\x02a\x00\x00")
        ]
    )
    yield Vector("hfile-data-block.another-length", ["LOG-26"], _TEXT, bad, error="corrupt")


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield from _rows_of_a_log()
    both = [row for rows in _TWO_BLOCKS for row in rows]
    read = ["HFILE-1", "HFILE-2", "HFILE-3", "HFILE-6", "HFILE-9", "HFILE-14", "HFILE-15"]
    yield Vector("hfile.plain", read, _TEXT, _file([_ROWS]), _found(_ROWS))
    yield Vector("hfile.gz", [*read, "HFILE-4"], _TEXT, _file(_TWO_BLOCKS, codec=_GZ), _found(both))
    yield Vector("hfile.empty", ["HFILE-16"], _TEXT, _file([]), _found([]))
    yield Vector(
        "hfile.keys-of-hbase",
        ["HFILE-11", "HFILE-12"],
        _TEXT,
        _file(_TWO_BLOCKS, suffix=_SUFFIX),
        _found(both),
    )
    long = [(bytes(range(200)), b"v")]
    for name, length in (("vint", b"\x8f\xca"), ("protobuf-varint", b"\xca\x01")):
        yield Vector(
            f"hfile.{name}", ["HFILE-10"], _TEXT, _file([long], key_length=length), _found(long)
        )
    rows = [[(b"aa", b"1")], [(b"cc", b"2")]]
    yield Vector(
        "hfile.shortened-key",
        ["HFILE-12"],
        _TEXT,
        _file(rows, shortened=True),
        _found([rows[0][0], rows[1][0]]),
    )
    for version in _HUDIS:
        yield _hudis(version)
    rows = [[(bytes([letter]), bytes([letter - 32]))] for letter in b"abcde"]
    for levels in (2, 3):
        for codec, name in ((_NONE, ""), (_GZ, "-gz")):
            yield Vector(
                f"hfile.levels-{levels}{name}",
                ["HFILE-13"],
                _TEXT,
                _file(rows, codec=codec, suffix=_SUFFIX, levels=levels),
                _found([row for own in rows for row in own]),
            )
    info = _file([_ROWS], info_reversed=True)
    yield Vector("hfile.info-reversed", ["HFILE-14"], _TEXT, info, _found(_ROWS))
    long = [(b"k%02d" % n, bytes(800)) for n in range(42)]
    yield Vector("hfile.crc32", ["HFILE-3", "HFILE-5"], _TEXT, _summed(_file([long])), _found(long))
    yield from _refused()


def _refused() -> Iterator[Vector]:
    """Yield files that readers refuse."""
    data = _file([_ROWS])
    bad = {
        "short": (["HFILE-1"], data[-4000:], "corrupt"),
        "no-trailer": (["HFILE-15"], data[:-4096] + bytes(4092) + data[-4:], "corrupt"),
        "places-outside": (["HFILE-1"], data[200:], "corrupt"),
        "sizes-disagree": (["HFILE-3"], data[:29] + b"\0\0\1\0" + data[33:], "corrupt"),
        "more-in-the-index": (["HFILE-9"], _file([_ROWS], behind_index=b"\0"), "corrupt"),
        "no-magic": (["HFILE-3"], b"DATA\0\0\0\0" + data[8:], "corrupt"),
        "value-too-long": (["HFILE-6"], data[:37] + b"\0\0\0\x7f" + data[41:], "truncated"),
        "out-of-order": (["HFILE-7"], _file([[(b"b", b""), (b"a", b"")]]), "corrupt"),
        "blocks-out-of-order": (["HFILE-7"], _file([[(b"b", b"")], [(b"a", b"")]]), "corrupt"),
        "row-twice": (["HFILE-7"], _file([[(b"a", b"1"), (b"a", b"2")]]), "corrupt"),
        "row-in-two-blocks": (
            ["HFILE-12"],
            _file([[(b"a", b"1"), (b"b", b"2")], [(b"b", b"3")]]),
            "corrupt",
        ),
        "another-row-length": (["HFILE-11"], _file([_ROWS], suffix=b"\0"), "corrupt"),
        "another-count": (["HFILE-16"], _file([_ROWS], entries=3), "corrupt"),
        "codec-snappy": (["HFILE-2"], _file([_ROWS], written_codec=3), "unsupported"),
        "version-2": (["HFILE-15"], _file([_ROWS], version=b"\0\0\0\2"), "unsupported"),
        "encoded-block": (["HFILE-3"], b"DATABLKE" + data[8:], "unsupported"),
        "a-delete": (["HFILE-6"], data.replace(_SUFFIX, _SUFFIX[:-1] + b"\x08"), "unsupported"),
        "a-timestamp": (["HFILE-6"], data.replace(_SUFFIX, b"\0\x7e" + _SUFFIX[2:]), "unsupported"),
        "a-family": (
            ["HFILE-6"],
            data[:33] + struct.pack(">iih", 14, 0, 1) + b"a\x01f" + _SUFFIX[1:] + data[55:],
            "unsupported",
        ),
        "short-key": (["HFILE-6"], data[:33] + b"\0\0\0\x0c" + data[37:], "corrupt"),
        "mvcc": (["HFILE-6"], data[:55] + b"\x01" + data[56:], "corrupt"),
        "an-index-in-place-of-data": (["HFILE-3"], b"IDXROOT2" + data[8:], "corrupt"),
        "data-in-place-of-a-leaf": (
            ["HFILE-3", "HFILE-13"],
            _file(_TWO_BLOCKS, suffix=_SUFFIX, levels=2, leaf_magic=b"DATABLK*"),
            "corrupt",
        ),
        "row-before-its-block": (
            ["HFILE-12"],
            _file(_TWO_BLOCKS).replace(b"\0\x01c\0\x7f", b"\0\x01b\0\x7f"),
            "corrupt",
        ),
    }
    damaged = bytearray(_file([_ROWS], codec=_GZ))
    damaged[45] ^= 1
    bad["gzip-damaged"] = (["HFILE-4"], bytes(damaged), "corrupt")
    summed = bytearray(data)
    summed[24] = 1
    bad["crc32-differs"] = (["HFILE-5"], bytes(summed), "corrupt")
    size = data[data.index(b'TRABLK"$') + 8]
    start = data.index(b'TRABLK"$')
    message = data[start + 9 : start + 9 + size] + b"\x6a\x01k"
    encrypted = data[:start] + (b'TRABLK"$' + _varint(len(message)) + message).ljust(4092, b"\0")
    bad["encrypted"] = (["HFILE-15"], encrypted + data[-4:], "unsupported")
    for name, (rules, content, error) in bad.items():
        yield Vector(f"hfile.{name}", rules, _TEXT, content, error=error)


def _hudis(version: str) -> Vector:
    """The first base file of a metadata table, with one record."""
    table = golden(version, "mdt_bucket")
    path = table.paths(start=".hoodie/metadata/files/", end=".hfile")[0]
    value, info, bloom = _HUDIS[version]
    expected = {
        "entries": [[b"__all_partitions__".hex(), value]],
        "file_info": info,
        "meta_blocks": {"bloomFilter": bloom},
    }
    rules = ["HFILE-4", "HFILE-5", "HFILE-14", "HFILE-15"]
    return Vector(f"hfile.hudi-{version}", rules, table.recipe(path), table.files[path], expected)
