"""Record keys taken apart as each Hudi release does it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import KeyEncodingError, UnsupportedError
from bucketfmt.format.keys.record_keys import (
    KeyDialect,
    KeyEncoding,
    dialect_for_table_version,
    extract_hash_values,
    format_record_key,
    hudi_never_returns,
    parse_record_key,
)
from bucketfmt.format.table.table_config import KeyGenerator

HANGS = "never returns"
FAILS = "fails"

# (key, hash fields, what BucketIdentifier.getHashKeys gives in 1.x, in 0.13 to 0.15, in 0.12)
EXTRACTIONS = [
    ("key1", "id", ["key1"], ["key1"], ["key1"]),
    ("", "id", [""], [""], [""]),
    ("__null__", "id", ["__null__"], ["__null__"], ["__null__"]),
    ("a,b", "id", ["a,b"], ["a,b"], ["a,b"]),
    ("id:7", "id", ["id:7"], ["7"], ["7"]),
    ("id:7", "ts", ["id:7"], [], [None]),
    ("2024-10-24 10:11:11", "ts", ["2024-10-24 10:11:11"], [], [None]),
    ("id:1,k2:x", "id", ["1"], ["1"], ["1"]),
    ("id:1,k2:x", "k2", ["x"], ["x"], ["x"]),
    ("id:1,k2:x", "id,k2", ["1", "x"], ["1", "x"], ["1", "x"]),
    ("id:1,k2:x", "k2,id", ["1", "x"], ["1", "x"], ["x", "1"]),
    ("id:1,k2:__null__", "id,k2", ["1", None], ["1", None], ["1", "__null__"]),
    ("id:1,k2:__empty__", "k2", [""], [""], ["__empty__"]),
    ("id:1,k2:x", "nope", ["id:1,k2:x"], [], [None]),
    (
        "ts:2014-10-22 13:50:42,b:c",
        "ts",
        ["2014-10-22 13:50:42"],
        ["2014-10-22 13:50:42"],
        ["2014-10-22 13"],
    ),
    ("ts:2014-10-22 13:50:42,b:c", "b", ["c"], ["c"], ["c"]),
    ("a,b:c", "id", ["a,b:c"], ["a"], FAILS),
    ("a:1,2,b:3", "a", ["1,2"], ["1", "2"], FAILS),
    ("a:1,2,b:3", "b", ["3"], ["2", "3"], FAILS),
    ("f1:abc,f2:bcd,efg", "f1,f2", ["abc", "bcd,efg"], ["abc", "bcd", "efg"], FAILS),
    ("a:1,,", "a", ["1,,"], ["1"], ["1"]),
    ("a:1,a:2", "a", ["1", "2"], ["1", "2"], FAILS),
    (",:", "id", [",:"], [""], FAILS),
    (":,", "id", [":,"], [], FAILS),
    ("a:,b:x", "a", [""], [""], FAILS),
    ("id:7,note:a:b", "id", HANGS, ["7"], ["7"]),
    ("id:7,note:a:b", "note", ["a:b"], ["a:b"], ["a"]),
    ("id:7,note:a:b", "id,note", ["7", "a:b"], ["7", "a:b"], ["7", "a"]),
    ("id:7,url:http://x/y", "id", HANGS, ["7"], ["7"]),
    ("f1:a,f2:b,note:x:y", "f2", HANGS, ["b"], ["b"]),
    ("f1:a:b,f2:c", "f2", ["c"], ["c"], ["c"]),
    ("a,b:c:d", "x", HANGS, ["a"], FAILS),
]


@pytest.mark.parametrize(("key", "fields", "index_of", "split_filter", "colon_map"), EXTRACTIONS)
def test_extract_hash_values(
    key: str, fields: str, index_of: object, split_filter: object, colon_map: object
) -> None:
    hash_fields = fields.split(",")
    assert extract(key, hash_fields, KeyDialect.INDEX_OF) == index_of
    assert extract(key, hash_fields, KeyDialect.SPLIT_FILTER) == split_filter
    assert extract(key, hash_fields, KeyDialect.COLON_MAP) == colon_map
    assert hudi_never_returns(key, hash_fields) == (index_of == HANGS)


def extract(key: str, fields: list[str], dialect: KeyDialect) -> object:
    try:
        return extract_hash_values(key, fields, dialect)
    except KeyEncodingError as error:
        return HANGS if "never returns" in str(error) else FAILS


@pytest.mark.parametrize("fields", [[], [""]])
def test_no_hash_fields_means_all_of_them(fields: list[str]) -> None:
    assert extract_hash_values("a:1,b:x:y", fields, KeyDialect.INDEX_OF) == ["1", "x:y"]
    assert extract_hash_values("a:1,b:2", [], KeyDialect.SPLIT_FILTER) == ["1", "2"]


def scan_as_hudi_1x_does(
    key: str, fields: list[str], steps_max: int = 1000
) -> list[str | None] | None:
    """The loops of `KeyGenUtils.extractRecordKeysByFields`, step by step; None past `steps_max`."""
    if "," not in key or ":" not in key:
        return [key]
    values: list[str | None] = []
    processed = steps = 0
    while processed < len(key):
        first = key.find(":", processed)
        second = key.find(":", first + 1)
        selected = not fields or fields == [""] or key[processed:first] in fields
        end = len(key)
        if second >= 0:
            comma = key.rfind(",", 0, second + 1)
            while comma < first and (second > 0 or not selected):
                second = key.find(":", second + 1)
                comma = key.rfind(",", 0, second + 1)
                steps += 1
                if steps > steps_max:
                    return None
            end = comma if comma >= 0 else len(key)
        value = key[first + 1 : end]
        if selected:
            values.append({"__null__": None, "__empty__": ""}.get(value, value))
        processed = end + 1
    return values or [key]


KEYS = st.lists(
    st.sampled_from(["a", "b", ",", ":", ",", ":", "id", "__null__", "__empty__", "é"]), max_size=12
).map("".join)


@given(KEYS, st.sampled_from([[], [""], ["a"], ["id"], ["a", "b"], ["nope"]]))
def test_index_of_and_its_endless_loop_are_those_of_hudi(key: str, fields: list[str]) -> None:
    expected = scan_as_hudi_1x_does(key, fields)
    assert hudi_never_returns(key, fields) == (expected is None)
    if expected is not None:
        assert extract_hash_values(key, fields, KeyDialect.INDEX_OF) == expected


def test_the_error_says_what_to_do_and_quotes_little() -> None:
    with pytest.raises(
        KeyEncodingError, match=r"last field is not a hash field.*list it before"
    ) as info:
        extract_hash_values("id:7,note:" + "a:" * 5000, ["id"], KeyDialect.INDEX_OF)
    assert len(str(info.value)) < 400


@pytest.mark.parametrize(
    ("version", "dialect"),
    [(5, "split-filter"), (6, "split-filter"), (8, "indexOf"), (9, "indexOf")],
)
def test_dialect_for_table_version(version: int, dialect: str) -> None:
    assert dialect_for_table_version(version) is KeyDialect(dialect)


VALUE, NAMED = KeyEncoding.VALUE, KeyEncoding.NAMED


@pytest.mark.parametrize(
    ("values", "generator", "encoding", "key"),
    [
        (["1"], KeyGenerator.SIMPLE, NAMED, "1"),
        (["1"], KeyGenerator.TIMESTAMP, NAMED, "1"),
        (["1"], KeyGenerator.NON_PARTITION, NAMED, "1"),
        (["1"], KeyGenerator.CUSTOM, NAMED, "1"),
        (["7"], KeyGenerator.COMPLEX, VALUE, "7"),
        (["7"], KeyGenerator.COMPLEX, NAMED, "f0:7"),
        (["7"], KeyGenerator.GLOBAL_DELETE, VALUE, "f0:7"),
        (["x", "y:z"], KeyGenerator.COMPLEX, VALUE, "f0:x,f1:y:z"),
        (["x", None], KeyGenerator.NON_PARTITION, VALUE, "f0:x,f1:__null__"),
        (["", "1"], KeyGenerator.CUSTOM, VALUE, "f0:__empty__,f1:1"),
    ],
)
def test_format_record_key(
    values: list[str | None], generator: KeyGenerator, encoding: KeyEncoding, key: str
) -> None:
    fields = [f"f{i}" for i in range(len(values))]
    assert format_record_key(fields, values, generator, encoding) == key
    named = NAMED if key.startswith("f0:") else VALUE
    assert parse_record_key(key, fields, named) == tuple(values)


@pytest.mark.parametrize("values", [[None], [""], [None, None], ["", None]])
def test_a_key_of_nothing_is_refused(values: list[str | None]) -> None:
    with pytest.raises(KeyEncodingError, match="null or empty"):
        format_record_key(["a", "b"][: len(values)], values, KeyGenerator.COMPLEX, VALUE)


def test_generators_that_do_not_follow_from_fields_are_refused() -> None:
    for generator in (KeyGenerator.AUTO_RECORD, KeyGenerator.USER_PROVIDED):
        with pytest.raises(UnsupportedError, match="pass the record keys"):
            format_record_key(["a"], ["1"], generator, VALUE)
    with pytest.raises(ValueError, match="one key field"):
        format_record_key(["a", "b"], ["1", "2"], KeyGenerator.SIMPLE, VALUE)
    with pytest.raises(ValueError, match="values for"):
        format_record_key(["a"], ["1", "2"], KeyGenerator.COMPLEX, VALUE)
    with pytest.raises(ValueError, match="at least one"):
        parse_record_key("x", [])


@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        ("7", ["id"], "does not have"),
        ("x:7", ["id"], "does not have"),
        ("id:7", ["id", "k"], "does not have"),
        ("k:1,id:7", ["id", "k"], "does not have"),
        ("id:1,k:2,k:3", ["id", "k"], "more than one way"),
    ],
)
def test_parse_record_key_refuses_what_it_cannot_read_in_one_way(
    key: str, fields: list[str], message: str
) -> None:
    with pytest.raises(KeyEncodingError, match=message):
        parse_record_key(key, fields, NAMED)


FIELDS = ["a", "b", "ab", "a:b"]
VALUES = st.one_of(
    st.none(),
    st.text("ab:,", max_size=9),
    st.text(max_size=6),
    st.lists(
        st.sampled_from([",a:", ",b:", ",ab:", ",a:b:", "__null__", "__empty__", "x"]), max_size=3
    ).map("".join),
)


def take_apart_in_every_way(key: str, fields: list[str]) -> set[tuple[str | None, ...]]:
    """Return the values of all rows whose key is this text, by trying every place of a name."""
    first, rest = fields[0], fields[1:]
    if not key.startswith(f"{first}:"):
        return set()
    text = key[len(first) + 1 :]
    if not rest:
        return {(value,) for value in meanings(text)}
    found = set()
    for end in range(len(text)):
        if text.startswith(f",{rest[0]}:", end):
            for further in take_apart_in_every_way(text[end + 1 :], rest):
                found |= {(value, *further) for value in meanings(text[:end])}
    return found


def meanings(text: str) -> list[str | None]:
    placeholders: dict[str, list[str | None]] = {
        "": [],
        "__null__": [None, "__null__"],
        "__empty__": ["", "__empty__"],
    }
    return placeholders.get(text, [text])


@pytest.mark.rule("KEY-12")
@given(st.permutations(FIELDS), st.lists(VALUES, min_size=2, max_size=4).filter(any))
def test_a_key_is_made_only_of_values_that_no_other_row_shares_it_with(
    names: list[str], values: list[str | None]
) -> None:
    fields = names[: len(values)]
    try:
        key = format_record_key(fields, values, KeyGenerator.COMPLEX, NAMED)
    except KeyEncodingError:
        # Refused: by the rule, and so that what is refused is no more than the rule says.
        marks = [f",{name}:" for name in fields]
        assert any(
            value in ("__null__", "__empty__")
            or any(mark in (value or "") for mark in marks[max(at, 1) : at + 2])
            for at, value in enumerate(values)
        )
    else:
        assert take_apart_in_every_way(key, fields) >= {tuple(values)}
        of_rows = {
            row
            for row in take_apart_in_every_way(key, fields)
            if not {"__null__", "__empty__"} & set(row)
        }
        assert of_rows == {tuple(values)}
        assert parse_record_key(key, fields, NAMED) == tuple(values)


@pytest.mark.rule("KEY-12")
@pytest.mark.parametrize(
    "values",
    [
        ("1,b:2", "3"),
        ("1", "2,b:3"),
        (",b:", "1"),
        ("1", ",b:"),
        ("__null__", "1"),
        ("1", "__empty__"),
    ],
)
def test_an_ambiguous_value_is_refused(values: tuple[str, str]) -> None:
    with pytest.raises(KeyEncodingError, match="would have the same record key"):
        format_record_key(["a", "b"], values, KeyGenerator.COMPLEX, NAMED)


@pytest.mark.rule("KEY-12")
@pytest.mark.parametrize(
    "values",
    [
        ("1,a:2", "3"),
        ("1", "2,a:3"),
        ("1,c:2", "x:y,z"),
        (",,", "::"),
        ("b:1", "a:2"),
        ("__null", "empty__"),
    ],
)
def test_a_value_with_separators_is_taken_where_the_key_stays_clear(
    values: tuple[str, str],
) -> None:
    key = format_record_key(["a", "b"], values, KeyGenerator.COMPLEX, NAMED)
    assert parse_record_key(key, ["a", "b"]) == values


@given(st.text("ab:,_", max_size=20) | st.text(max_size=20), st.sampled_from(list(KeyDialect)))
def test_any_text_gives_values_or_a_key_encoding_error(key: str, dialect: KeyDialect) -> None:
    try:
        assert len(extract_hash_values(key, ["a"], dialect)) <= max(1, key.count(",") + 1)
    except KeyEncodingError:
        assert ":" in key
