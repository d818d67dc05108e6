"""Any bytes given to any decoder return a value or raise `BucketfmtError`."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError
from soak.damage.targets import TARGETS, public_decoders
from tests.property.mutations import mutated
from tests.rotation import examples

_SETTINGS = settings(
    max_examples=examples(250),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_every_public_decoder_is_fuzzed() -> None:
    assert public_decoders() <= TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_sound(name: str) -> None:
    """Else mutating them would only ever meet the first check of a decoder."""
    target = TARGETS[name]
    seeds = target.seeds()
    sound = 0
    for seed in seeds:
        with contextlib.suppress(BucketfmtError):
            target.run(seed)
            sound += 1
    assert sound, f"none of {len(seeds)} seeds decodes"


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_decode_or_raise_our_error(name: str) -> None:
    target = TARGETS[name]

    @_SETTINGS
    @given(mutated(target.seeds()) | st.binary(max_size=200))
    def run(data: bytes) -> None:
        with contextlib.suppress(BucketfmtError):
            target.run(data)

    run()
