"""The buckets that tables have in common: equal values are in one, whichever table they are of."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import KeyEncodingError, SchemaError, UnsupportedError
from bucketfmt.format.buckets.ring import HashingNode, initial_ring
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.common_buckets import HashedColumns, find_common_buckets
from bucketfmt.index.layout import FixedBuckets, RingBuckets

TEXT = pa.string()


def hashed(
    *fields: str,
    keys: tuple[str, ...] | None = None,
    kind: pa.DataType = TEXT,
    named: bool | None = False,
    dialect: KeyDialect = KeyDialect.INDEX_OF,
) -> HashedColumns:
    return HashedColumns(fields, (kind,) * len(fields), keys or fields, dialect, named)


def fixed(num_buckets: int, *fields: str) -> FixedBuckets:
    return FixedBuckets(num_buckets, fields or ("id",), KeyDialect.INDEX_OF)


def ring(*values: int) -> RingBuckets:
    nodes = tuple(HashingNode(value, f"prefix-{value}") for value in values)
    return RingBuckets(nodes, ("id",), KeyDialect.INDEX_OF)


def has_hash(key: str) -> bool:
    """Whether Hudi returns from hashing a key."""
    try:
        fixed(1).assign(pa.array([key]))
    except KeyEncodingError:
        return False
    return True


@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=20),
    st.sampled_from([(8, 4), (4, 8), (6, 4), (16, 16), (1, 5), (12, 8)]),
)
def test_a_value_has_one_common_bucket_on_every_side(
    values: list[str], numbers: tuple[int, int]
) -> None:
    column = pa.array(values)
    sides = [fixed(number) for number in numbers]
    common = find_common_buckets([hashed("id")] * 2, sides)
    assert common.num_buckets == np.gcd(*numbers)
    try:
        by_value = common.assign_rows([column]).tolist()
    except KeyEncodingError:  # Hudi never returns from hashing such a key
        for side in sides:
            with pytest.raises(KeyEncodingError, match="never returns"):
                side.assign(column)
        return
    assert by_value == common.assign_keys(column).tolist()
    for side in sides:
        own = side.assign(column).tolist()
        assert [common.bucket_of(bucket_id) for bucket_id in own] == by_value


@given(
    st.lists(st.text(min_size=1).filter(has_hash), min_size=1, max_size=20),
    st.lists(st.integers(0, 2**31 - 1), max_size=6),
    st.lists(st.integers(0, 2**31 - 1), max_size=6),
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4),
)
def test_rings_meet_at_the_nodes_they_share(
    values: list[str], one: list[int], other: list[int], shared: list[int]
) -> None:
    rings = [ring(*sorted({*own, *shared})) for own in (one, other)]
    column = pa.array(values)
    try:
        common = find_common_buckets([hashed("id")] * 2, rings)
    except UnsupportedError:
        assert len(set(shared)) == 1
        return
    assert set(common.layout.bucket_ids) == {*one, *shared} & {*other, *shared}
    by_value = common.assign_rows([column]).tolist()
    assert by_value == common.assign_keys(column).tolist()
    for side in rings:
        own = side.assign(column).tolist()
        assert [common.bucket_of(bucket_id) for bucket_id in own] == by_value


def test_initial_rings_of_8_and_4_have_4_in_common() -> None:
    rings = [
        RingBuckets(initial_ring(path, number), ("id",), KeyDialect.INDEX_OF)
        for path, number in (("a", 8), ("b", 4))
    ]
    assert find_common_buckets([hashed("id")] * 2, rings).num_buckets == 4


@given(st.lists(st.tuples(st.text(), st.none() | st.integers(-9, 9)), min_size=1, max_size=20))
def test_composite_keys_are_hashed_as_the_table_takes_them_apart(
    rows: list[tuple[str, int | None]],
) -> None:
    rows = [(a, b) for a, b in rows if a or b is not None]
    texts = pa.array([a for a, _ in rows], TEXT), pa.array([b for _, b in rows], pa.int32())
    columns = HashedColumns(("a", "b"), (TEXT, pa.int32()), ("a", "b"), KeyDialect.INDEX_OF, False)
    side = fixed(64, "a", "b")
    common = find_common_buckets([columns], [side])
    keys = [f"a:{a or '__empty__'},b:{'__null__' if b is None else b}" for a, b in rows]
    try:
        own = side.assign(pa.array(keys, TEXT)).tolist()
    except KeyEncodingError:
        return
    assert common.assign_rows(texts).tolist() == own


def test_single_keys_written_with_their_name() -> None:
    named = hashed("id", named=True)
    common = find_common_buckets([named], [fixed(1000)])
    assert (
        common.assign_rows([pa.array(["7"])]).tolist()
        == fixed(1000).assign(pa.array(["id:7"])).tolist()
    )


def test_parts_divide_on_and_pickling_keeps_all() -> None:
    column = pa.array([f"k{n}" for n in range(200)])
    common = pickle.loads(pickle.dumps(find_common_buckets([hashed("id")], [fixed(4)])))
    of_sixteen = fixed(16).assign(column)
    assert (common.assign_parts([column], 4) == of_sixteen // 4).all()
    on_ring = find_common_buckets([hashed("id")], [ring(2**30, 2**31 - 1)])
    assert len(set(on_ring.assign_parts([column], 4).tolist())) == 4


def test_integers_of_any_width_are_one_text_and_other_types_are_not() -> None:
    narrow, wide = hashed("id", kind=pa.int32()), hashed("id", kind=pa.int64())
    common = find_common_buckets([narrow, wide], [fixed(8), fixed(8)])
    small, large = pa.array([1, None, -5], pa.int32()), pa.array([1, None, -5], pa.int64())
    assert common.assign_rows([small]).tolist() == common.assign_rows([large]).tolist()
    with pytest.raises(SchemaError, match="column id is string and hashed as int32"):
        common.assign_rows([pa.array(["x"])])


@pytest.mark.parametrize(
    ("columns", "sides", "message"),
    [
        ([hashed("a"), hashed("b")], [fixed(8), fixed(8)], "hashed by a and the other by b"),
        ([hashed("a"), hashed("a", named=True)], [fixed(8), fixed(8)], "with the field's name"),
        ([hashed("a", named=None)] * 2, [fixed(8), fixed(8)], "not known how"),
        ([hashed("a"), hashed("a", kind=pa.int64())], [fixed(8), fixed(8)], "a is string in one"),
        ([hashed("a")] * 2, [fixed(8), fixed(9)], "nothing in common"),
        ([hashed("a")] * 2, [fixed(8), ring(5, 9)], "of different engines"),
        ([hashed("a")] * 2, [ring(4, 8), ring(5, 9)], "nothing in common"),
    ],
)
def test_what_hashes_otherwise_is_refused(
    columns: list[HashedColumns], sides: list[FixedBuckets], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        find_common_buckets(columns, sides)


def test_values_that_do_not_tell_are_refused() -> None:
    by_one = hashed("id", keys=("id", "k"))
    common = find_common_buckets([by_one, hashed("id")], [fixed(8), fixed(8)])
    assert not common.values_tell_all
    assert common.assign_rows([pa.array(["plain", None])]).tolist() == [
        *fixed(8).assign(pa.array(["plain"])).tolist(),
        fixed(8).assign(pa.array(["id:__null__,k:1"])).tolist()[0],
    ]
    for odd in ("a,b", "a:b"):
        with pytest.raises(KeyEncodingError, match="column id has values with"):
            common.assign_rows([pa.array(["plain", odd])])
        for kind in (TEXT, pa.large_string()):
            pieces = pa.array(["plain", odd, "plain"], kind)
            common.check_values([pieces.slice(0, 1)])
            common.check_values([pa.chunked_array([pieces.slice(2), pieces.slice(3)])])
            with pytest.raises(KeyEncodingError, match="column id has values with"):
                common.check_values([pa.chunked_array([pieces.slice(0, 1), pieces.slice(1)])])
    common.check_values([pa.array([], TEXT)])
    either = find_common_buckets([hashed("id", named=None)], [fixed(8)])
    with pytest.raises(UnsupportedError, match="as 7 or as id:7"):
        either.check_rows_tell()
