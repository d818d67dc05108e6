"""HFiles that are written here are read by the readers of every release of Hudi."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

from bucketfmt.format.hfile.block import Codec
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.writer import encode_hfile
from tests.interop.engines.hfile_session import (
    HFileSession,
    ReadByHudi,
    digest_of,
    find_bundle,
    write_keys,
)
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.replays.plans import VERSIONS

pytestmark = pytest.mark.judge

READERS = [
    ("0.15.0", "HBaseEngine"),
    *((version, "NativeEngine") for version in (*VERSIONS[1:], "1.1.1")),
]
OVERHEAD = 21  # of an entry
BLOCK = 64 << 10

Entries = list[tuple[bytes, bytes]]


def files() -> Iterator[tuple[str, Entries, int]]:
    """Name, entries, and bytes of a block."""
    random = Random(7)
    yield "empty", [], BLOCK
    yield "single", [(b"key", b"value")], BLOCK
    yield "no-value", [(b"%02d" % number, b"") for number in range(30)], BLOCK
    longest = [(bytes([letter]) * 32_767, b"v" * letter) for letter in b"abc"]
    yield "longest-keys", [(b"a", b"first"), *longest], BLOCK
    lengths = [(b"k" * size, bytes([size % 256])) for size in (1, 124, 125, 126, 127, 128, 300)]
    yield "lengths-of-keys", lengths, 1  # 126 bytes and more have a length of two bytes in an index
    small = [(b"%05d" % number, b"v" * random.randrange(9)) for number in range(9_000)]
    yield "small", small, BLOCK
    # blocks that end at the bound, a byte before it and a byte after it
    border: Entries = []
    for number, excess in product(range(4), (-1, 0, 1)):
        name = b"%d%d" % (number, excess + 1)
        size = BLOCK // 2 - OVERHEAD - 3
        border += [(name + b"a", b"x" * size), (name + b"b", b"y" * (size + excess))]
    yield "border", border, BLOCK
    yield "large", [(b"a", random.randbytes(3 << 20)), (b"b", b""), (b"c", b"c")], BLOCK


def asked_of(entries: Entries) -> list[bytes]:
    """Keys that are there, and keys before, between and after them."""
    keys = {key for key, _ in entries[::7]} | {key for key, _ in entries[-2:]}
    return sorted({*keys, b"!", *(key[:-1] + b"~" for key in keys), b"~~"})


@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "engine"), READERS)
def test_every_reader_finds_every_entry(
    request: pytest.FixtureRequest, tmp_path: Path, version: str, engine: str
) -> None:
    if find_bundle(version) is None:
        serve: Callable[[str], HudiSession] = request.getfixturevalue("hudi")
        serve(version)  # Spark downloads it
    session = HFileSession(version, engine, tmp_path)
    questions: list[tuple[str | Path, ...]] = []
    expected: list[tuple[str, int, str]] = []
    for (name, entries, block_bytes), codec in product(files(), Codec):
        path = tmp_path / f"{name}-{codec.name}.hfile"
        columns = EntryColumns.of(entries)
        path.write_bytes(
            encode_hfile(columns, {}, created_ms=1, codec=codec, block_bytes=block_bytes)
        )
        questions.append(("scan", path))
        expected.append((f"scan {path.name}", len(entries), digest_of(entries)))
        asked, there = asked_of(entries), dict(entries)
        write_keys(tmp_path / f"{name}.keys", asked)
        questions.append(("find", path, tmp_path / f"{name}.keys"))
        found = sum(key in there for key in asked)
        digest = digest_of((key, there.get(key)) for key in asked)
        expected.append((f"find {path.name}", found, digest))
        prefixes = [key[: len(key) // 2 + 1] for key in asked[:20]]
        write_keys(tmp_path / f"{name}.prefixes", prefixes)
        questions.append(("prefix", path, tmp_path / f"{name}.prefixes"))
        begin = [each for prefix in prefixes for each in entries if each[0].startswith(prefix)]
        expected.append((f"prefix {path.name}", len(begin), digest_of(begin)))
    wrong = [
        (name, answer)
        for (name, found, digest), answer in zip(expected, session.ask(questions), strict=True)
        if not isinstance(answer, ReadByHudi) or (answer.found, answer.digest) != (found, digest)
    ]
    assert wrong == []
