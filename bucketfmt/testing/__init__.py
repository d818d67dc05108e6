"""Tools for testing code that uses tables: a model, faults, and stores that record and fail.

`StoreContract` is imported when it is first used, since it needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bucketfmt.testing.store_contract import StoreContract

__all__ = ["StoreContract"]


if not TYPE_CHECKING:  # so that a type checker knows the name above, and no others

    def __getattr__(name: str) -> object:
        """Import the contract, with assertions that tell what they compared."""
        if name != "StoreContract":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import pytest  # noqa: PLC0415  (an optional dependency)

        pytest.register_assert_rewrite("bucketfmt.testing.store_contract")
        from bucketfmt.testing.store_contract import StoreContract  # noqa: PLC0415

        globals()[name] = StoreContract
        return StoreContract
