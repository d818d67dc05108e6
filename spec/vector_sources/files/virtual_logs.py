"""Vectors of virtual logs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from spec.vector_sources.files.logs import encode_block, parse_blocks
from spec.vector_sources.vector import ListOf, Vector

__all__ = ["vectors"]

_TEXT = "written for this text"
_WRITE, _RESIZE = "20261123050000001", "20261123050000000"
_LOW = f".00000000-0000-4000-8000-000000000000-0_{_RESIZE}.log.1_2-0-7"
_HIGH = f".00000000-0000-4000-8000-000000000001-0_{_RESIZE}.log.1_2-0-7"


def _content(*files: tuple[object, object]) -> bytes:
    members = [{"name": name, "size": size} for name, size in files]
    return json.dumps({"logFiles": members}, separators=(",", ":")).encode()


_TWO = _content((_LOW, 1200), (_HIGH, 1300))


def _question(content: bytes) -> dict[str, str]:
    return {"content": content.hex(), "resize": _RESIZE}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    data = encode_block(0, {0: _WRITE, 3: "42", 1: _RESIZE}, _TWO)
    told = [block.told() for block in parse_blocks(data)]
    yield Vector("log-file.virtual", ["VLOG-2", "VLOG-4"], _TEXT, data, told)
    yield Vector(
        "virtual-log.content",
        ["VLOG-4"],
        _TEXT,
        ListOf(
            [
                _question(_TWO),
                _question(f'{{ "logFiles" : [ {{ "size" : 5, "name" : "{_HIGH}" }} ] }}'.encode()),
            ]
        ),
        [[[_LOW, 1200], [_HIGH, 1300]], [[_HIGH, 5]]],
    )
    corrupt = (
        b"",
        _TWO[:-1],
        _content(),
        _content((_LOW, 1), (_LOW, 2)),
        _TWO.replace(b'"size":1200', b'"size":1200,"size":1200'),
        _TWO.replace(b"{", b'{"version":0,', 1),
        _content((_LOW, "1200")),
        _TWO.replace(b',"size":1300', b""),
        _content((_LOW, 0)),
        _content(("a-0_1-0-1_20261123050000000.parquet", 1)),
        _content((f"us/{_LOW}", 1)),
        _content((f"../{_LOW}", 1)),
        _content((_LOW.replace(_RESIZE, _WRITE), 1)),
        _content((f"{_LOW}.cdc", 1)),
    )
    questions = ListOf([_question(content) for content in corrupt])
    yield Vector("virtual-log.corrupt", ["VLOG-4"], _TEXT, questions, error="corrupt")
    block = {"type": 0, "header": {"0": _WRITE, "1": _RESIZE, "3": "42"}}
    rows = {"type": 3, "header": {"0": _WRITE}}
    back = {"type": 0, "header": {"0": "20261123050000002", "1": _WRITE, "3": "0"}}
    yield Vector(
        "log-selection.virtual",
        ["VLOG-3", "LOG-17", "LOG-18", "LOG-19"],
        _TEXT,
        ListOf(
            [
                {"files": [[rows], [block]]},
                {"files": [[block], [back], [block]]},
                {"files": [[block]], "latest": _RESIZE},
                {"files": [[block]], "valid": [_RESIZE]},
            ]
        ),
        [[[0, 0], [1, 0]], [[2, 0]], [], []],
    )
