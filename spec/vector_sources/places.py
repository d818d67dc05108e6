"""Vectors of lookups: which file groups may hold a key, and which buckets a filter leaves."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector

__all__ = ["vectors"]

_TEXT = "written for this text, with the hashes of java-list-hash and ring-hash"
_ZERO, _ONE = "00000000-0000-4000-8000-000000000000-0", "00000001-1111-4111-8111-111111111111-0"
_AGAIN = "00000001-2222-4222-8222-222222222222-0"


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield from _lookups()
    yield from _pruned()


def _lookups() -> Iterator[Vector]:
    # the list hash of key1 is 3288529, 1 modulo 4 and 2; its ring hash is 133378825
    fixed = {"key": "key1", "fields": ["id"], "dialect": "indexOf", "num_buckets": 4}
    yield Vector(
        "lookup.buckets",
        ["HASH-7", "HASH-8", "NAME-10"],
        _TEXT,
        ListOf(
            [
                {**fixed, "file_ids": [_ZERO, _ONE]},
                {**fixed, "file_ids": [_ZERO, _ONE, _AGAIN]},
                {**fixed, "file_ids": [_ZERO]},
                {**fixed, "file_ids": []},
            ]
        ),
        [[_ONE], [_ONE, _AGAIN], [], []],
    )
    low, high = "cd524024-9cdd-3644-b9b2-3dd0a5f000e3", "360d2334-1249-37e5-9698-814cf4b62672"
    ring = [
        {"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"}
        for value, prefix in ((1073741824, low), (2147483647, high))
    ]
    on_ring = {"key": "key1", "fields": ["id"], "dialect": "indexOf", "ring": ring}
    yield Vector(
        "lookup.nodes",
        ["RING-2", "RING-6", "RING-23"],
        _TEXT,
        ListOf(
            [
                {**on_ring, "file_ids": [f"{low}-0", f"{high}-0"]},
                {**on_ring, "file_ids": [f"{high}-0"]},
                {**on_ring, "file_ids": []},
            ]
        ),
        [[f"{low}-0"], [], []],
    )


def _pruned() -> Iterator[Vector]:
    def question(
        key_fields: str, hash_fields: list[str], row_filter: dict[str, list[str]]
    ) -> dict[str, object]:
        return {
            "properties": {
                "hoodie.table.name": "t",
                "hoodie.table.version": "9",
                "hoodie.table.recordkey.fields": key_fields,
                "hoodie.table.partition.fields": "p",
            },
            "columns": ["id", "k2", "p", "other"],
            "hash_fields": hash_fields,
            "dialect": "indexOf",
            "num_buckets": 256,
            "filter": row_filter,
        }

    # list hashes: key1 3288529, abc 96385, (1, x) 2600, (1, "") as (1, null) 2480
    cases: list[tuple[dict[str, object], list[int] | None]] = [
        (question("id", ["id"], {"id": ["key1"]}), [3288529 % 256]),
        (question("id", ["id"], {"id": ["key1", "abc"]}), sorted((3288529 % 256, 96385 % 256))),
        (question("id", ["id"], {"id": ["key1"], "other": ["x"]}), [3288529 % 256]),
        (question("id", ["id"], {"other": ["key1"]}), None),
        (question("id", ["id"], {"id": []}), []),
        (question("id,k2", ["id", "k2"], {"id": ["1"], "k2": ["x"]}), [2600 % 256]),
        (question("id,k2", ["id", "k2"], {"id": ["1"], "k2": ["x", ""]}), [2600 % 256, 2480 % 256]),
        (question("id,k2", ["id", "k2"], {"id": ["1"]}), None),
        (question("id,k2", ["k2"], {"id": ["1"]}), None),
    ]
    yield Vector(
        "prune-buckets.filters",
        ["HASH-9"],
        _TEXT,
        ListOf([asked for asked, _ in cases]),
        [None if found is None else sorted(found) for _, found in cases],
    )
