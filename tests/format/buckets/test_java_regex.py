"""Java patterns: those that are searched for as Java does, and those that are refused."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.buckets.java_regex import compile_java_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("", "x", True),
        ("2024-01", "p=2024-01-01", True),
        ("^2024-01", "p=2024-01-01", False),
        ("^a$", "a", True),
        ("^a$", "ab", False),
        (r"dt=\d{4}-0[1-3]", "dt=2024-02", True),
        (r"\d", "٣", False),  # Arabic three: Java's digits are ASCII
        (r"\w", "é", False),
        (r"[^\w]", "é", True),
        ("^.$", "😀", True),  # one character for both
        ("(us|eu)/.*", "eu/x", True),
        ("(?:us|eu)$", "us/x", False),
        ("(?<=p=)a", "p=a", True),
        ("(?<!p=)a", "p=a", False),
        ("(?=b)a", "ab", False),
        (r"(.)\1", "abba", True),
        ("a{2}b??", "caab", True),
        (r"a\.b\-c", "a.b-c", True),
        ("[]x]", "x", None),
        ("a b", "a b", True),
        ("[-a]", "-", True),
        ("[a^]", "^", True),
        ("a}", "a}", True),
    ],
)
def test_found_as_java_finds(pattern: str, text: str, is_found: bool | None) -> None:
    if is_found is None:
        with pytest.raises(UnsupportedError):
            compile_java_pattern(pattern)
    else:
        assert compile_java_pattern(pattern).is_found_in(text) is is_found


@pytest.mark.parametrize(
    "pattern",
    [
        "a++", "a*+", "a?+", "a{2}+", "(?>a)",  # possessive, atomic
        "(?i)a", "a(?i)", "(?i:a)", "(?<n>a)", "(?P<n>a)", "(?#x)", "(?(1)a)",
        r"\p{L}", r"\P{L}", r"\Qa\E", r"\Z", r"\z", r"\A", r"\G", r"\b", r"\B", r"\R", r"\h",
        r"\v", r"\x41", r"\u0041", r"\cA", r"\e", r"\k<n>", r"\0", r"\11", "\\",
        "[a[b]]", "[a&&b]", "[a--b]", "[]a]", "[^]a]", "[", "[a", r"[\b]",
        "a{", "{2}", "a{,3}", "a{x}", "*a", "a**", "(a", "a)", "(?", ")(", "(?<=a*)b",
        "x" * 257,
    ],
)  # fmt: skip
def test_refused(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnsupportedError):
            compile_java_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a?){9}b", "((a{1,2}))*", "(.*,)+"])
def test_repeats_of_what_leaves_a_choice_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="several ways"):
        compile_java_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(".*.*.*.*x", "a" * 500), ("a?" * 60 + "a" * 60, "a" * 60), ("(a|a)" * 30 + "b", "a" * 30)],
)
def test_too_many_ways_are_refused_before_they_are_tried(pattern: str, text: str) -> None:
    with pytest.raises(UnsupportedError, match="too many ways"):
        compile_java_pattern(pattern).is_found_in(text)


def test_ways_are_counted_as_they_multiply() -> None:
    """Two for each choice, at each of the places where a match may begin."""
    assert compile_java_pattern("a?" * 20).is_found_in("a" * 9)  # 2^20 * 10
    with pytest.raises(UnsupportedError, match="too many ways"):
        compile_java_pattern("a?" * 28).is_found_in("a" * 9)  # 2^28 * 10
    with pytest.raises(UnsupportedError, match="too many ways"):
        compile_java_pattern("a{0,1}" * 28).is_found_in("a" * 9)


@pytest.mark.parametrize("terminator", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_texts_with_line_breaks_are_not_decided(terminator: str) -> None:
    with pytest.raises(UnsupportedError, match="line breaks"):
        compile_java_pattern("a.b$").is_found_in(f"a{terminator}b")


@given(
    st.text(max_size=12) | st.text("ab()[]{}*+?|^$.\\-,01=!<:&", max_size=14), st.text(max_size=10)
)
def test_any_pattern_compiles_or_is_refused(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            assert compile_java_pattern(pattern).is_found_in(text) in {True, False}
        except UnsupportedError:
            return
