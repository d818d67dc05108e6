r"""Patterns of `java.util.regex`, as far as Python's `re` means the same by them.

Pure. Understood are literals, `.`, `^`, `$`, `|`, groups, look-around, character classes
without set operations, greedy and lazy quantifiers, back-references and the escapes
`\d \D \w \W \s \S \t \n \r \f`. All other syntax is refused: possessive quantifiers,
flags, named groups, `\b` (whose meaning changed in Java 19), `\p{..}`, `\Q..\E` and the like.

A pattern is untrusted, and `re` tries all ways to match it. So a repeated group must match in one
way only, and the number of ways to match the rest is bounded before the search.
Source: `java.util.regex.Pattern` of Java 8 to 17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bucketfmt.errors import UnsupportedError

__all__ = ["JavaPattern", "compile_java_pattern"]

_PATTERN_CHARS_MAX = 256
_WAYS_MAX = 10**9  # some seconds of `re` at worst

_ESCAPE = r"\\(?:[dDwWsStnrf]|[ -/:-@\[-`{-~])"
_TOKEN = re.compile(
    rf"""
      (?P<group> \( (?: \?[:=!] | \?<[=!] )? (?!\?) )
    | (?P<end> \) )
    | (?P<repeat> (?: [*+?] | \{{ [0-9]{{1,4}} (?: ,[0-9]{{0,4}} )? \}} ) \?? (?![*+?{{]) )
    | (?P<choice> \| )
    | (?P<atom> {_ESCAPE} | \\[1-9](?![0-9]) | [^\\()\[{{*+?|]
        | \[ \^? (?: {_ESCAPE} | (?!&&|--|\|\||~~) [^\\\[\]^] | (?<=[^\[])\^ )+ \] )
    """,
    re.VERBOSE,
)
# where Java ends a line but Python does not, `.` and `$` differ
_LINE_TERMINATORS = re.compile("[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A Java pattern that can be searched for."""

    text: str
    _compiled: re.Pattern[str]
    _ways: int  # that a match can take, apart from unbounded quantifiers
    _repeats: int  # unbounded quantifiers

    def is_found_in(self, text: str) -> bool:
        """Return `Pattern.compile(...).matcher(text).find()`.

        Raises:
            UnsupportedError: Java and Python differ on this text, or the search would take too
                long.
        """
        if _LINE_TERMINATORS.search(text):
            raise UnsupportedError(
                f"the pattern {self.text!r} cannot be searched in a text with line breaks"
            )
        if self._ways * (len(text) + 1) ** (self._repeats + 1) > _WAYS_MAX:
            raise UnsupportedError(
                f"the pattern {self.text!r} leaves too many ways to match a text of {len(text)} "
                "characters; use fewer quantifiers"
            )
        return self._compiled.search(text) is not None


def compile_java_pattern(text: str) -> JavaPattern:
    """Return the pattern.

    Raises:
        UnsupportedError: the text is not a pattern, or Java and Python may read it differently.
    """
    if len(text) > _PATTERN_CHARS_MAX:
        raise UnsupportedError(
            f"a pattern of {len(text)} characters; at most {_PATTERN_CHARS_MAX} are supported"
        )
    ways, repeats, at = 1, 0, 0
    fixed = [True]  # can what precedes, outside and in each open group, match in one way only?
    previous_is_fixed = True
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _refusal(text, f"at position {at}")
        at = token.end()
        quantifier = token.group("repeat")
        if token.lastgroup == "group":
            fixed.append(True)
        elif token.lastgroup == "end":
            if len(fixed) == 1:
                raise _refusal(text, "unbalanced parentheses")
            previous_is_fixed = fixed.pop()
            fixed[-1] &= previous_is_fixed
        elif token.lastgroup == "atom":
            previous_is_fixed = True
        elif quantifier is None or quantifier[0] == "?":  # or a choice, "|"
            ways *= 2
            fixed[-1] = False
        elif not previous_is_fixed:
            raise _refusal(text, "repeats a group that can match in several ways")
        elif quantifier[0] == "{" and not quantifier.rstrip("?").endswith(",}"):
            numbers = [int(number) for number in re.findall("[0-9]+", quantifier)]
            ways *= numbers[-1] + 1
            fixed[-1] &= len(numbers) == 1
        else:
            repeats += 1
            fixed[-1] = False
    try:
        return JavaPattern(text, re.compile(text, re.ASCII), ways, repeats)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refusal(text, str(error)) from error


def _refusal(text: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the pattern {text!r} is not read as Java would ({why}); write it with plain characters, "
        "classes and quantifiers"
    )
