"""Changes of the number of buckets of a table: as they are recorded, and what they add up to.

Pure. An extension of bucketfmt: Hudi's own releases keep the number of buckets in the options of
writers, or in hoodie.properties, and neither tells since when a number holds. The replacecommit
of a rehash has the entry in its `extraMetadata`, and hoodie.properties have the entry of the
newest rehash. Every replacecommit that changes buckets tells up to which write it has the rows.
Spec: REHASH-1 to REHASH-4, REHASH-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bucketfmt.errors import CorruptError
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["REHASH", "REWRITTEN_UNTIL", "Rehash", "find_num_buckets", "find_rewritten_until"]

REHASH = "bucketfmt.rehash"
"""The key of the entry, in `extraMetadata` and in hoodie.properties."""

REWRITTEN_UNTIL = "bucketfmt.rewritten.until"
"""The key in `extraMetadata` of the requested time of the newest write whose rows were rewritten.

It may be later than the replacecommit: what others change meanwhile is rewritten as well.
"""

_INSTANT_DIGITS, _NUMBER_DIGITS = range(14, 21), range(1, 11)
_PART_DIGITS = (_INSTANT_DIGITS, _NUMBER_DIGITS, _NUMBER_DIGITS)


@dataclass(frozen=True, slots=True)
class Rehash:
    """One change of the number of buckets of all partitions.

    Attributes:
        instant: The requested time of the replacecommit. The change holds if it completed.
        before: The number of buckets until then.
        after: The number of buckets from then on.
    """

    instant: str
    before: int
    after: int

    @classmethod
    def find(
        cls, entries: Mapping[str, str | None], limits: Limits = DEFAULT_LIMITS
    ) -> Rehash | None:
        """Return the change that properties or extra metadata state; None if they state none.

        Raises:
            CorruptError: the entry is not `<instant>,<before>,<after>`.
            LimitError: a number of buckets is too large.
        """
        text = entries.get(REHASH)
        if not text:
            return None
        parts = text.split(",")
        is_sound = len(parts) == len(_PART_DIGITS) and all(
            _is_number(part, digits) for part, digits in zip(parts, _PART_DIGITS, strict=True)
        )
        if not is_sound:
            raise CorruptError(f"{REHASH}: {text[:80]!r} is not `<instant>,<before>,<after>`")
        instant, *numbers = parts
        before, after = (limits.check("num_buckets_max", int(number)) for number in numbers)
        return cls(instant, before, after)

    def entry(self) -> dict[str, str]:
        """Return what states the change."""
        return {REHASH: f"{self.instant},{self.before},{self.after}"}


def find_rewritten_until(extra_metadata: Mapping[str, str | None]) -> str | None:
    """Return up to which write a replacecommit has the rows; None where the commit does not tell.

    Raises:
        CorruptError: the entry is not an instant.
    """
    text = extra_metadata.get(REWRITTEN_UNTIL)
    if text and not _is_number(text, _INSTANT_DIGITS):
        raise CorruptError(f"{REWRITTEN_UNTIL}: {text[:80]!r} is not an instant")
    return text or None


def _is_number(text: str, digits: range) -> bool:
    return text.isascii() and text.isdigit() and len(text) in digits and int(text) > 0


def find_num_buckets(
    stated: int | None, rehashes: Iterable[Rehash], is_visible: Callable[[str], bool]
) -> int | None:
    """Return the number of buckets of a table at one moment.

    Args:
        stated: The number in hoodie.properties, if there is one. It may lag behind a rehash, or be
            ahead of a moment in the past.
        rehashes: The changes that are known, in any order; one may be given twice.
        is_visible: Whether the commit of an instant is completed at the moment.

    Returns:
        `stated` where no rehash is known, or where somebody else has stated another number since.
    """
    known = sorted({each.instant: each for each in rehashes}.values(), key=lambda r: r.instant)
    numbers = {None, *(number for r in known for number in (r.before, r.after))}
    if not known or stated not in numbers:
        return stated
    seen = [each for each in known if is_visible(each.instant)]
    return seen[-1].after if seen else known[0].before
