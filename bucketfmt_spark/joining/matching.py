"""Finds the matching rows of two tables with pyarrow, polars or duckdb.

An engine gets the keys and the row numbers, and never the rows, so that columns of types that the
engine does not know, or would change, stay as they are. Null keys match nothing, as in SQL. Pure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from bucketfmt_spark.engine.arguments import check_choice

__all__ = ["ENGINES", "Engine", "How", "Match", "check_engine", "match_rows"]

Engine = Literal["pyarrow", "polars", "duckdb"]
How = Literal["inner", "left", "right", "full", "semi", "anti"]

_LEFT, _RIGHT = "left_row", "right_row"
_ACERO = {
    "inner": "inner",
    "left": "left outer",
    "right": "right outer",
    "full": "full outer",
    "semi": "left semi",
    "anti": "left anti",
}


class Match(NamedTuple):
    """The numbers of matching rows; null where a row has no match.

    `right` is None where the join returns rows of the left only (semi, anti).
    """

    left: pa.ChunkedArray
    right: pa.ChunkedArray | None


def check_engine(engine: str) -> None:
    """Check that an engine exists, and that the driver has its package.

    Raises:
        ValueError: there is no engine of this name.
        ImportError: the package of the engine is not installed.
    """
    check_choice("engine", engine, ENGINES)
    if find_spec(engine) is None:
        raise ImportError(
            f"engine={engine!r} needs the package {engine} on the driver and on executors; "
            "install it, or use engine='pyarrow'"
        )


def match_rows(left: pa.Table, right: pa.Table, how: How, engine: Engine) -> Match:
    """Return the rows that match, by the values of all columns in their order.

    Args:
        left: The key columns, with the types of those of `right`.
        right: As `left`.
        how: The kind of the join.
        engine: The library that finds matches.
    """
    names = [f"k{number}" for number in range(left.num_columns)]
    numbered = [
        side.rename_columns(names).append_column(row, pa.array(np.arange(side.num_rows)))
        for side, row in ((left, _LEFT), (right, _RIGHT))
    ]
    return ENGINES[engine](numbered[0], numbered[1], names, how)


def _by_pyarrow(left: pa.Table, right: pa.Table, names: list[str], how: How) -> Match:
    found = left.join(
        right,
        names,
        join_type=_ACERO[how],
        coalesce_keys=False,
        right_suffix="_",
        use_threads=False,
    )
    only_left = how in ("semi", "anti")
    return Match(found.column(_LEFT), None if only_left else found.column(_RIGHT))


def _by_polars(left: pa.Table, right: pa.Table, names: list[str], how: How) -> Match:
    # A task has one core: threads of its own would take it from other tasks, and cost twice as
    # much. Polars looks at this when it is first imported.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    import polars  # noqa: PLC0415  (optional)

    frames = [polars.from_arrow(side, rechunk=False) for side in (left, right)]
    found = frames[0].join(frames[1], on=names, how=how)
    only_left = how in ("semi", "anti")
    rows = found.select([_LEFT] if only_left else [_LEFT, _RIGHT]).to_arrow()
    return Match(rows.column(_LEFT), None if only_left else rows.column(_RIGHT))


def _by_duckdb(left: pa.Table, right: pa.Table, names: list[str], how: How) -> Match:
    import duckdb  # noqa: PLC0415  (optional)

    only_left = how in ("semi", "anti")
    wanted = f"l.{_LEFT}" if only_left else f"l.{_LEFT}, r.{_RIGHT}"
    equal = " AND ".join(f"l.{name} = r.{name}" for name in names)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("l", left)
        connection.register("r", right)
        # Names and kinds of join are ours: nothing of a table is in this text.
        rows = connection.sql(f"SELECT {wanted} FROM l {how} JOIN r ON {equal}").to_arrow_table()  # noqa: S608
    return Match(rows.column(_LEFT), None if only_left else rows.column(_RIGHT))


ENGINES: dict[str, Callable[[pa.Table, pa.Table, list[str], How], Match]] = {
    "pyarrow": _by_pyarrow,
    "polars": _by_polars,
    "duckdb": _by_duckdb,
}
