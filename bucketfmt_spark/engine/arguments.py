"""Checks of the arguments that a caller passes to a verb, before anything is done because of them.

A value of a wrong type is a TypeError, a value of the right type that means nothing is a
ValueError; the message names the argument and says what to give. What a verb hands to the core as
it is, the core checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import index
from typing import Any

__all__ = [
    "check_choice",
    "check_condition",
    "check_frame",
    "check_int",
    "check_kind",
    "check_names",
    "check_session",
    "check_text",
    "is_column",
    "is_frame",
    "shown",
]


def check_session(spark: Any) -> None:
    """Refuse what is no session, of a classic cluster or of Spark Connect.

    Raises:
        TypeError: it is something else.
    """
    if not _is_of_spark(spark, "SparkSession"):
        raise TypeError(f"spark is a SparkSession, not {shown(spark)}")


def check_frame(name: str, value: Any) -> None:
    """Refuse what is no DataFrame of Spark.

    Raises:
        TypeError: it is something else.
    """
    if not is_frame(value):
        raise TypeError(
            f"{name} is a DataFrame of Spark, not {shown(value)}; spark.createDataFrame() makes "
            "one of rows, of pandas or of Arrow"
        )


def check_kind(name: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    """Refuse a `value` that is not of type `kind`; `wanted` says what to give.

    Raises:
        TypeError: `value` is of another type.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {wanted}, not {shown(value)}")


def check_int(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return `value`, which is an integer of Python or NumPy, as an int.

    Raises:
        TypeError: `value` is not an integer, or is a bool.
        ValueError: `value` is less than `least`, or more than `most`.
    """
    message = f"{name} is an integer such as 4, not {shown(value)}"
    if isinstance(value, bool):
        raise TypeError(message)
    try:
        number = index(value)
    except TypeError:
        raise TypeError(message) from None
    if least is not None and number < least:
        raise ValueError(f"{name} is {least} or more, not {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} is at most {most:,}, not {number}")
    return number


def check_text(name: str, value: object, wanted: str, *, may_be_blank: bool = False) -> None:
    """Refuse what is not text that UTF-8 can hold; `wanted` says which text.

    Raises:
        TypeError: `value` is not text.
        ValueError: `value` is blank, or holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is {wanted}, not {shown(value)}")
    if not may_be_blank and not value.strip():
        raise ValueError(f"{name} is {wanted}, and {value!r} is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is {wanted}, and UTF-8 cannot hold {value!r}") from None


def check_names(name: str, value: Any) -> list[str]:
    """Return `value`, which is a text or a list (or another iterable) of texts, as a list.

    Raises:
        TypeError: `value` is neither a text nor iterable, or holds something else than text.
        ValueError: a text holds half of a surrogate pair.
    """
    if not isinstance(value, Iterable) or is_column(value):  # a Column only looks iterable
        raise TypeError(f"{name} is a list of texts, not {shown(value)}")
    found = [value] if isinstance(value, str) else list(value)
    for item in found:
        if not isinstance(item, str):
            raise TypeError(f"{name} is a list of texts, and {shown(item)} is not text")
        check_text(name, item, "a list of texts", may_be_blank=True)
    return found


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a `value` that is not one of the texts `choices`.

    Raises:
        ValueError: `value` is another text, or not text.
    """
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} is one of {', '.join(choices)}, not {shown(value)}")


def check_condition(name: str, value: Any) -> None:
    """Refuse what is neither SQL text, which is not blank, nor a Column.

    Raises:
        TypeError: `value` is something else.
        ValueError: `value` is blank.
    """
    if not is_column(value):
        check_text(name, value, "SQL text such as \"city = 'sf'\", or a Column")


def is_frame(value: Any) -> bool:
    """Return whether a value is a DataFrame, of a classic session or of Spark Connect."""
    return _is_of_spark(value, "DataFrame")


def is_column(value: Any) -> bool:
    """Return whether a value is a Column, of a classic session or of Spark Connect."""
    return _is_of_spark(value, "Column")


def shown(value: Any) -> str:
    """Return how a message shows a value: plain values as they are written, others by their type.

    The text of a DataFrame may run a job.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return f"a {kind.__name__}" if package == "builtins" else f"a {package}.{kind.__name__}"


def _is_of_spark(value: Any, name: str) -> bool:
    # Not isinstance: until Spark 4 the classes of Connect were no subclasses of the others.
    return any(
        kind.__name__ == name and kind.__module__.startswith("pyspark.sql.")
        for kind in type(value).__mro__
    )
