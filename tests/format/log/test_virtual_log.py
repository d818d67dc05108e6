"""The block of a virtual log: written and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.log.log_block import LogBlock
from bucketfmt.format.log.log_file import decode_log_file, select_blocks
from bucketfmt.format.log.virtual_log import (
    PointedFile,
    VirtualLog,
    decode_virtual_log,
    encode_virtual_log,
    is_virtual_log,
)
from bucketfmt.format.names.names import LogFileName

RESIZE = "20261123050000000"

tokens = st.tuples(*[st.integers(0, 99)] * 3).map(lambda each: "-".join(map(str, each)))
names = st.builds(
    LogFileName, st.uuids().map(lambda u: f"{u}-0"), st.just(RESIZE), st.integers(1, 999), tokens
)
files = st.builds(PointedFile, names, st.integers(1, 1 << 40))
logs = st.builds(
    VirtualLog,
    st.integers(20261123050000001, 20261123060000000).map(str),
    st.just(RESIZE),
    st.lists(files, min_size=1, max_size=5, unique_by=lambda file: file.name).map(tuple),
)


def block_of(log: VirtualLog) -> LogBlock:
    (block,) = decode_log_file(encode_virtual_log(log))
    assert isinstance(block, LogBlock)
    return block


@given(logs)
def test_what_is_written_is_read(log: VirtualLog) -> None:
    block = block_of(log)
    assert is_virtual_log(block)
    assert select_blocks([[block]]) == [block]
    assert decode_virtual_log(block) == log


def test_a_file_of_another_resize_is_not_pointed_to() -> None:
    name = LogFileName("a-0", "20261123040000000", 1, "0-0-1")
    with pytest.raises(CorruptError, match="no log file of that resize"):
        decode_virtual_log(
            block_of(VirtualLog("20261123050000001", RESIZE, (PointedFile(name, 1),)))
        )
