"""Tells errors that statements of bucketfmt raise from those of libraries that it calls."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["is_raised_by"]


def is_raised_by(error: BaseException, *packages: ModuleType) -> bool:
    """Whether a `raise` of a package raised an error, and no library that it called."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = Path(trace.tb_frame.f_code.co_filename)
    folders = [Path(package.__file__ or "").parent for package in packages]
    is_ours = any(module.is_relative_to(folder) for folder in folders)
    return is_ours and any(trace.tb_lineno in lines for lines in _raises_of(str(module)))


@cache
def _raises_of(module: str) -> list[range]:
    """The lines of each `raise` statement of a module."""
    tree = ast.parse(Path(module).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in found]
