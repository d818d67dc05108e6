from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.rows.recorded_keys import find_groups_of_keys
from bucketfmt.rows.row_ranges import ColumnRange

_KEYS = st.text("ab\uffff\U0001f600", max_size=3)


def _is_within(key: str, low: str, high: str) -> bool:
    return low.encode() <= key.encode() and (key.encode() <= high.encode() or key.startswith(high))


@given(st.lists(_KEYS, min_size=1, max_size=5), _KEYS, _KEYS, st.booleans())
def test_few_keys_and_many_are_looked_for_in_the_same_row_groups(
    keys: list[str], low: str, high: str, many: bool
) -> None:
    groups = [ColumnRange(low, high, 0, pa.string()), None]
    looked_for = keys * 20 if many else keys
    expected = [0, 1] if any(_is_within(key, low, high) for key in keys) else [1]
    assert find_groups_of_keys(groups, pa.array(looked_for)) == expected
    assert find_groups_of_keys(groups, pa.array([], pa.string())) == []
