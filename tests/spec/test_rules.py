from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.spec.rules import chapters, load_dumps, load_rules, rules_of_tests
from tests.spec.vectors import SPEC, load_vectors, vector_bytes


def test_ids_are_unique_and_ascend_within_their_chapter() -> None:
    rules = load_rules()
    ids = [rule.id for rule in rules]
    assert len(ids) == len(set(ids))
    by_prefix: dict[str, list[int]] = defaultdict(list)
    homes: dict[str, set[str]] = defaultdict(set)
    for rule in rules:
        by_prefix[rule.prefix].append(rule.number)
        homes[rule.prefix].add(rule.chapter)
    for prefix, numbers in by_prefix.items():
        assert numbers == sorted(numbers), prefix
        assert len(homes[prefix]) == 1, f"{prefix} is used in {homes[prefix]}"


def test_every_must_has_a_test_or_a_vector() -> None:
    named = {rule for rules in rules_of_tests().values() for rule in rules}
    missing = [rule.id for rule in load_rules() if rule.is_must and rule.id not in named]
    assert missing == []


def test_the_text_lists_every_must_without_a_vector() -> None:
    named = {rule for vector in load_vectors().values() for rule in vector["rules"]}
    section = (SPEC / "15-vectors.md").read_text().partition("## 15.6 ")[2]
    listed = re.findall(r"^\| ([A-Z]+-[0-9]+) \| [^|]+ \|$", section, re.MULTILINE)
    missing = [rule.id for rule in load_rules() if rule.is_must and rule.id not in named]
    assert sorted(missing) == sorted(listed)


def test_every_rule_that_is_named_exists() -> None:
    known = {rule.id for rule in load_rules()}
    unknown = {
        place: [rule for rule in rules if rule not in known]
        for place, rules in rules_of_tests().items()
    }
    assert {place: rules for place, rules in unknown.items() if rules} == {}


def test_every_rule_that_the_text_refers_to_exists() -> None:
    known = {rule.id for rule in load_rules()}
    prefixes = {rule.prefix for rule in load_rules()}
    for chapter, text in chapters().items():
        for prefix, number in re.findall(r"\b([A-Z]+)-([0-9]+)\b", text):
            if prefix in prefixes:
                assert f"{prefix}-{number}" in known, f"{chapter} refers to {prefix}-{number}"


def test_every_rule_that_the_package_names_exists() -> None:
    known = {rule.id for rule in load_rules()}
    prefixes = "|".join(sorted({rule.prefix for rule in load_rules()}))
    for path in sorted((SPEC.parent / "bucketfmt").rglob("*.py")):
        for rule_id in re.findall(rf"\b(?:{prefixes})-[0-9]+\b", path.read_text()):
            assert rule_id in known, f"{path.name} names {rule_id}"


def test_the_index_lists_every_chapter_and_its_prefixes() -> None:
    index = (SPEC / "README.md").read_text()
    for chapter in chapters():
        row = next(line for line in index.splitlines() if f"]({chapter})" in line)
        prefixes = dict.fromkeys(r.prefix for r in load_rules() if r.chapter == chapter)
        assert row.split("|")[2].strip() == ", ".join(prefixes), chapter


def test_links_lead_somewhere() -> None:
    texts = {**chapters(), "README.md": (SPEC / "README.md").read_text()}
    for name, text in texts.items():
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (SPEC / target).exists(), f"{name} links to {target}"


@pytest.mark.parametrize("chapter", sorted(chapters()))
def test_chapters_are_short(chapter: str) -> None:
    assert len(chapters()[chapter].splitlines()) <= 300


@pytest.mark.parametrize("dump", load_dumps(), ids=lambda dump: f"{dump.chapter}-{dump.vector}")
def test_dumps_show_their_vector(dump) -> None:
    vectors = {vector["id"]: vector for vector in load_vectors().values()}
    data = vector_bytes(vectors[dump.vector])
    position = 0
    for offset, shown in dump.lines:
        assert offset >= position, f"{offset:04x} is shown twice"
        assert data[offset : offset + len(shown)] == shown, f"at {offset:04x}"
        position = offset + len(shown)
