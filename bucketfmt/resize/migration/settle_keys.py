"""The keys of rows that are moved to buckets: one encoding for all, and one row for each.

Pure. Where complex keys of one field are written as `7` and as `id:7`, one record has two keys, and
may have two rows. Source: KeyGenUtils.encodeSingleKeyFieldNameForComplexKeyGen, HUDI-7001.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.merging.combine import find_standing_rows
from bucketfmt.rows.merging.merge_rules import MergeRules, find_merge_rules
from bucketfmt.rows.merging.ordering import Indexes

__all__ = ["Doubled", "KeySettling", "SettledRows"]

_RENAMED = "_bucketfmt_renamed"
_KEYS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Doubled:
    """Keys that had several rows before, too.

    Attributes:
        keys: How many keys.
        rows: How many rows more than keys.
        some: Some of the keys.
    """

    keys: int = 0
    rows: int = 0
    some: tuple[str, ...] = ()

    def __add__(self, other: Doubled) -> Doubled:
        """Return both together."""
        some = (self.some + other.some)[:_KEYS_SHOWN]
        return Doubled(self.keys + other.keys, self.rows + other.rows, some)

    def error(self, partition_path: str) -> UnsupportedError:
        """Return the error about such keys of a partition."""
        return UnsupportedError(
            f"{self.keys} keys of the partition have several rows, {self.rows} rows too many: "
            f"{', '.join(map(repr, self.some))}{', ...' if self.keys > len(self.some) else ''}. A "
            "bucket index has one row for each key of a partition. lookup() shows the rows of a "
            'key; with duplicates="latest" the latest row of each key is kept',
            partition=partition_path,
        )


@dataclass(frozen=True, slots=True)
class SettledRows:
    """The rows of a bucket, one for each key.

    Attributes:
        rows: The rows.
        renamed: How many of them have another key than before.
        dropped: How many rows of keys of theirs were left out.
        doubled: Keys that are not to have several rows, and have them: nothing is to be written.
    """

    rows: pa.Table
    renamed: int = 0
    dropped: int = 0
    doubled: Doubled | None = None


@dataclass(frozen=True, slots=True)
class KeySettling:
    """What becomes of the keys of rows. Pickles.

    Attributes:
        config: The table.
        encoding: How keys are to be written; None to take them as they are.
        renames: Whether keys in another encoding are written anew. Otherwise they are refused.
        keeps_latest: Whether of several rows with one key, in one encoding, the latest is kept.
            Otherwise they are refused.
    """

    config: TableConfig
    encoding: KeyEncoding | None
    renames: bool
    keeps_latest: bool

    def name_keys(self, rows: pa.Table, partition_path: str) -> pa.Table:
        """Return rows with their keys in one encoding, for `settle`.

        Raises:
            UnsupportedError: keys are in another encoding, and are not to be written anew.
            KeyEncodingError, SchemaError: keys do not follow from the columns.
        """
        if self.encoding is None or not rows.num_rows:
            return rows
        stored = rows.column(RECORD_KEY)
        wanted = record_keys(rows, self.config, self.encoding, are_stored=True)
        differs = pc.not_equal(stored, wanted)
        number = pc.sum(differs).as_py() or 0
        if number and not self.renames:
            (field,) = self.config.record_key_fields
            raise UnsupportedError(
                f"{number} of {rows.num_rows} rows that were read have keys such as "
                f"{stored.filter(differs)[0].as_py()!r} where others have them as "
                f"{self.encoding.value.replace('id', field)!r}; Hudi releases differ in it. Say "
                'how keys are to be written (keys="value", or keys="named"): rows get such keys, '
                "and of two rows of one record the latest stays",
                partition=partition_path,
            )
        if number:
            other = next(each for each in KeyEncoding if each is not self.encoding)
            expected = record_keys(rows, self.config, other, are_stored=True)
            if not pc.all(pc.equal(stored.filter(differs), expected.filter(differs))).as_py():
                raise UnsupportedError(
                    f"keys such as {stored.filter(differs)[0].as_py()!r} do not follow from the "
                    "record key field, so that they cannot be written anew",
                    partition=partition_path,
                )
        place = rows.schema.get_field_index(RECORD_KEY)
        named = rows.set_column(place, rows.schema.field(place), wanted.cast(stored.type))
        return named.append_column(_RENAMED, differs)

    def settle(self, rows: pa.Table) -> SettledRows:
        """Return the rows of a bucket as they are written.

        Args:
            rows: What `name_keys` returned of all of them, in any order.

        Raises:
            SchemaError: an ordering field that decides is null.
            UnsupportedError: nothing tells which row of a key is the latest.
        """
        keys = rows.column(RECORD_KEY)
        if pc.count_distinct(keys, mode="all").as_py() == rows.num_rows:
            return self._settled(rows, 0)
        if not self.keeps_latest:
            doubled = _find_doubled(rows)
            if doubled.keys:
                return SettledRows(rows, doubled=doubled)
        if COMMIT_TIME in rows.column_names:
            order = pc.sort_indices(rows.column(COMMIT_TIME).cast(pa.string()))  # stable
            rows = rows.take(order)
        standing = _find_latest(rows, find_merge_rules(self.config))
        return self._settled(rows.take(pa.array(standing)), rows.num_rows - len(standing))

    def _settled(self, rows: pa.Table, dropped: int) -> SettledRows:
        if _RENAMED not in rows.column_names:
            return SettledRows(rows, 0, dropped)
        renamed = pc.sum(rows.column(_RENAMED)).as_py() or 0
        return SettledRows(rows.drop_columns([_RENAMED]), renamed, dropped)


def _find_latest(rows: pa.Table, rules: MergeRules) -> Indexes:
    """Return which rows stay: of keys with several rows the latest.

    Raises:
        SchemaError: an ordering field that decides is null.
        UnsupportedError: nothing tells which row is the latest.
    """
    keys = rows.column(RECORD_KEY)
    counted = rows.select([RECORD_KEY]).group_by(RECORD_KEY).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted.column("count_all"), 1)).column(RECORD_KEY)
    competes = pc.is_in(keys, value_set=several.combine_chunks()).to_numpy()
    competing = rows.filter(pa.array(competes))
    standing = find_standing_rows(competing, competing.column(RECORD_KEY), rules)
    if COMMIT_TIME not in rows.column_names:
        _check_told(competing, standing, rules)
    stays = ~competes
    stays[np.flatnonzero(competes)[standing]] = True
    return np.flatnonzero(stays)


def _check_told(rows: pa.Table, standing: Indexes, rules: MergeRules) -> None:
    """Refuse rows of which others would stay in another order: they have no commit time.

    Raises:
        UnsupportedError: so it is, and they are not the same.
    """
    backward = rows.take(pa.array(np.arange(rows.num_rows)[::-1]))
    last = find_standing_rows(backward, backward.column(RECORD_KEY), rules)
    chosen = rows.take(pa.array(standing)).sort_by(RECORD_KEY)
    others = backward.take(pa.array(last)).sort_by(RECORD_KEY)
    if chosen.equals(others):
        return
    places = range(chosen.num_rows)
    at = next(at for at in places if not chosen.slice(at, 1).equals(others.slice(at, 1)))
    key = chosen.column(RECORD_KEY)[at].as_py()
    fields = ", ".join(rules.ordering_fields)
    raise UnsupportedError(
        f"the latest of several rows with the key {key!r}: "
        f"{f'they are alike in {fields}' if fields else 'the table has no ordering fields'}, and "
        "its files keep no commit times (hoodie.populate.meta.fields). Read the rows of "
        "the partition, choose those that count, and overwrite the partition with them"
    )


def _find_doubled(rows: pa.Table) -> Doubled:
    """Return the keys of which several rows had one encoding."""
    columns = [name for name in (RECORD_KEY, _RENAMED) if name in rows.column_names]
    counted = rows.select(columns).group_by(columns).aggregate([([], "count_all")])
    doubled = counted.filter(pc.greater(counted.column("count_all"), 1))
    more = (pc.sum(doubled.column("count_all")).as_py() or 0) - doubled.num_rows
    some = doubled.column(RECORD_KEY)[:_KEYS_SHOWN].to_pylist()
    return Doubled(doubled.num_rows, more, tuple(map(str, some)))
