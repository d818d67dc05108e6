"""The rules of spec/*.md, and who names them: tests by a marker, vectors in JSON."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from tests.spec.vectors import SPEC, load_vectors

__all__ = ["Dump", "Rule", "chapters", "load_dumps", "load_rules", "rules_of_tests"]

TESTS = SPEC.parent / "tests"

_RULE = re.compile(r"\*\*([A-Z]+)-([0-9]+)\*\* ")
_DUMP = re.compile(r"```hexdump (\S+)\n(.*?)```", re.DOTALL)
_DUMP_LINE = re.compile(r"([0-9a-f]{4,})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?")


@dataclass(frozen=True)
class Rule:
    """A paragraph that begins with an id, and what follows it up to the next rule or heading."""

    id: str
    prefix: str
    number: int
    chapter: str
    text: str

    @property
    def is_must(self) -> bool:
        return re.search(r"\bMUST\b", self.text) is not None


@dataclass(frozen=True)
class Dump:
    """Bytes shown in a chapter: {offset: bytes} of the input of a vector."""

    chapter: str
    vector: str
    lines: tuple[tuple[int, bytes], ...]


@cache
def chapters() -> dict[str, str]:
    """Return {file name: text} of the chapters."""
    return {path.name: path.read_text() for path in sorted(SPEC.glob("[0-9]*.md"))}


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return the rules in the order of the text."""
    rules: list[Rule] = []
    for chapter, text in chapters().items():
        for paragraph in text.split("\n\n"):
            found = _RULE.match(paragraph)
            if found is not None:
                prefix, number = found.groups()
                rules.append(Rule(f"{prefix}-{number}", prefix, int(number), chapter, paragraph))
            elif rules and rules[-1].chapter == chapter and not paragraph.startswith("#"):
                last = rules[-1]  # a table or more text that belongs to it
                rules[-1] = replace(last, text=f"{last.text}\n\n{paragraph}")
    return tuple(rules)


@cache
def load_dumps() -> tuple[Dump, ...]:
    """Return the hexdump blocks."""
    dumps = []
    for chapter, text in chapters().items():
        for vector, body in _DUMP.findall(text):
            lines = []
            for line in body.splitlines():
                found = _DUMP_LINE.fullmatch(line)
                if found is None:
                    raise ValueError(f"{chapter}: not a line of a dump: {line!r}")
                lines.append((int(found[1], 16), bytes.fromhex(found[2])))
            dumps.append(Dump(chapter, vector, tuple(lines)))
    return tuple(dumps)


@cache
def rules_of_tests() -> dict[str, tuple[str, ...]]:
    """Return {test or vector: the rules it names}."""
    named = {path: tuple(vector["rules"]) for path, vector in load_vectors().items()}
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text()
        if ".rule(" in source:
            for line, rules in _marks(ast.parse(source)):
                named[f"{path.relative_to(TESTS.parent).as_posix()}:{line}"] = rules
    return named


def _marks(module: ast.Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (line, rules) of each `pytest.mark.rule(...)`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.rule":
            yield node.lineno, tuple(str(ast.literal_eval(argument)) for argument in node.args)
