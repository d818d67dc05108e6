"""Checks of the arguments that a caller passes, before a byte is written because of them. Pure.

Each check takes the argument's name, for the message, and its value. A value of a wrong type is a
TypeError, a value of the right type that means nothing is a ValueError; the message names the
argument and says what to give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from operator import index

__all__ = [
    "check_bool",
    "check_callable",
    "check_choice",
    "check_int",
    "check_kind",
    "check_names",
    "check_number",
    "check_text",
    "check_texts",
    "did_you_mean",
    "find_repeated",
]

_NAMES_SHOWN = 20
_VALUE_CHARS_MAX = 200


def check_bool(name: str, value: object) -> bool:
    """Return `value`, which is True or False.

    Raises:
        TypeError: `value` is not a bool.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {_shown(value)}")
    return value


def check_int(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Return `value`, which is an integer of Python or NumPy, as an int.

    Raises:
        TypeError: `value` is not an integer, or is a bool.
        ValueError: `value` is less than `least`, or more than `most`.
    """
    message = f"{name} is an integer such as 4, not {_shown(value)}"
    if isinstance(value, bool):
        raise TypeError(message)
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(message) from None
    if least is not None and number < least:
        raise ValueError(f"{name} is {least} or more, not {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} is at most {most:,}, not {number}")
    return number


def check_number(name: str, value: object, least: float, most: float) -> float:
    """Return `value`, which is an int or a float.

    Raises:
        TypeError: `value` is not a number, or is a bool.
        ValueError: `value` is less than `least`, more than `most`, or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number such as 1.5, not {_shown(value)}")
    if not value >= least:
        raise ValueError(f"{name} is {least} or more, not {value}")
    if value > most:
        raise ValueError(f"{name} is at most {most:,}, not {value}")
    return value


def check_text(name: str, value: object) -> str:
    """Return `value`, which is text that UTF-8 can hold.

    Raises:
        TypeError: `value` is not text.
        ValueError: `value` holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is text, not {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is text that UTF-8 can hold, not {value!r}") from None
    return value


def check_names(name: str, value: object) -> list[str]:
    """Return `value`, which is a text or a list (or another iterable) of texts, as a list.

    Raises:
        TypeError: `value` is neither a text nor iterable, or holds something else than text.
        ValueError: a text holds half of a surrogate pair.
    """
    if isinstance(value, str):
        return [check_text(name, value)]
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} is a list of texts, not {_shown(value)}")
    found = list(value)
    for item in found:
        if not isinstance(item, str):
            raise TypeError(f"{name} is a list of texts, and {item!r} is not text")
        check_text(name, item)
    return found


def check_texts(name: str, value: object) -> dict[str, str]:
    """Return `value`, which is a mapping of texts to texts, as a dict.

    Raises:
        TypeError: `value` is not a mapping, or a key or a value in it is not text.
        ValueError: a text holds half of a surrogate pair.
    """
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{name} is a dict of texts such as {{'key': 'value'}}, not {_shown(value)}"
        )
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"{name} is a dict of texts; write {str(key)!r}: {str(text)!r}")
        check_text(f"a key of {name}", key)
        check_text(f"{name}[{key!r}]", text)
    return dict(value)


def check_kind(name: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    """Refuse a `value` that is not of type `kind`; `wanted` says what to give.

    Raises:
        TypeError: `value` is of another type.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {wanted}, not {_shown(value)}")


def check_callable(name: str, value: object) -> None:
    """Refuse a `value` that cannot be called.

    Raises:
        TypeError: `value` cannot be called.
    """
    if not callable(value):
        raise TypeError(f"{name} is a function, not {_shown(value)}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a `value` that is not one of the texts `choices`.

    Raises:
        ValueError: `value` is another text, or not text.
    """
    if not (isinstance(value, str) and value in choices):
        *others, last = choices
        raise ValueError(f"{name} is {', '.join(others)} or {last}, not {value!r}")


def find_repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return the end of a message that says there is no such name: the names that are close.

    Where none is close, the known names, or some of many.
    """
    by_folded = {each.casefold(): each for each in known}
    close = [by_folded[each] for each in get_close_matches(name.casefold(), by_folded)]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    some = list(known)[:_NAMES_SHOWN]
    more = f" and {len(known) - len(some)} more" if len(known) > len(some) else ""
    return f"there are {', '.join(some)}{more}" if some else "there are none"


def _shown(value: object) -> str:
    """Return a value as a message shows it: rows, and all else that fills lines, by its type."""
    text = repr(value)
    if "\n" not in text and len(text) <= _VALUE_CHARS_MAX:
        return text
    package = type(value).__module__.partition(".")[0]
    return f"a {package}.{type(value).__qualname__}".replace("a builtins.", "a ")
