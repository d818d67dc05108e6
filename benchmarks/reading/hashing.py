"""Keys to buckets: the Java hash and the ring, one core."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from benchmarks.measure import UNKNOWN_CAUSE, Figure, Peer, Result, Timing, cpu_ratio, race
from bucketfmt.format.buckets.ring import find_node_indexes, initial_ring
from bucketfmt.format.keys.hashing_kernels import bucket_ids, xxhash32s
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import FixedBuckets, RingBuckets

__all__ = ["measure_java_hash", "measure_ring"]

_KEYS = 1_000_000
_REPETITIONS = 9
_BUCKETS = 256
_US, _PLAIN = "bucketfmt, record keys to buckets", "numpy, character by character"
_DIALECT = KeyDialect.INDEX_OF
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-äöüßéñЖЯшяαβγ日本語漢字한글😀🎉"
_SCRIPTS = ("abcdefghij", "äöüßéèçñåø", "абвгдежзик", "日本語漢字仮名中文", "😀😁🚀🎉😎")
_PASSES = (
    "Where scripts alternate within a key, bytes are not decoded: some forty passes over arrays of "
    "a chunk find what each byte adds to its code unit, and the polynomial takes a step in each of "
    "thousands of pieces of the text at a time."
)
_DECODED = (
    "Three quarters of the time Python decodes UTF-8 and encodes UTF-16; the passes over arrays "
    "that mixed scripts take are no faster here."
)


def _ascii_keys() -> pa.Array:
    """Return keys of 32 hexadecimal digits."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    data = digits[np.random.default_rng(1).integers(0, 16, 32 * _KEYS)]
    offsets = np.arange(_KEYS + 1, dtype=np.int32) * 32
    return pa.StringArray.from_buffers(_KEYS, pa.py_buffer(offsets), pa.py_buffer(data))


def _unicode_keys(longest: int, alphabet: str) -> pa.Array:
    """Return keys of 1 to `longest` characters, each drawn from the whole alphabet."""
    random = np.random.default_rng(2)
    bounds = np.concatenate([[0], np.cumsum(random.integers(1, longest + 1, _KEYS))]).tolist()
    characters = np.array(list(alphabet))[random.integers(0, len(alphabet), bounds[-1])]
    text = "".join(characters.tolist())
    return pa.array([text[a:b] for a, b in pairwise(bounds)])


def _keys_of_one_script() -> pa.Array:
    """Return keys of 1 to 40 characters, each of one script."""
    scripts = [_unicode_keys(40, script) for script in _SCRIPTS]
    choice = np.random.default_rng(3).integers(0, len(_SCRIPTS), _KEYS)
    return pc.choose(pa.array(choice), *scripts)


def _numpy_of_fixed_width(keys: pa.Array) -> npt.NDArray[np.int32]:
    """Return bucket ids of keys of 32 ASCII bytes the plain way: Horner's rule by column."""
    data = np.frombuffer(keys.buffers()[2], np.uint8).reshape(len(keys), 32)
    hashes = np.zeros(len(keys), np.uint32)
    for column in range(32):
        hashes *= np.uint32(31)
        hashes += data[:, column]
    return _buckets_of(hashes)


def _numpy_of_padded(keys: pa.Array) -> npt.NDArray[np.int32]:
    """Return bucket ids the plain way for any text: UTF-16 padded to one width."""
    texts = [text.encode("utf-16-le") for text in keys.to_pylist()]
    width = max(map(len, texts))
    units = np.array(texts, f"S{width}").view("<u2").reshape(len(texts), -1)
    hashes = np.zeros(len(keys), np.uint32)
    for column in units.T:
        hashes = np.where(column > 0, hashes * np.uint32(31) + column, hashes)
    return _buckets_of(hashes)


def _buckets_of(hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Return the buckets of lists of one text with these hashes."""
    masked = (hashes + np.uint32(31)).view(np.int32) & np.int32(0x7FFFFFFF)
    buckets: npt.NDArray[np.int32] = masked % np.int32(_BUCKETS)
    return buckets


def measure_java_hash(_: object) -> list[Result]:
    """Bucket ids of a simple bucket index."""
    mixed = _unicode_keys(40, "".join(_SCRIPTS))
    of_mixed = _race_java_hash(
        "Unicode keys of 1 to 40 characters, five scripts mixed in each",
        mixed,
        _numpy_of_padded,
        4.0,
        _PASSES,
    )
    times = cpu_ratio(of_mixed.timings, _PLAIN, _US)
    of_mixed.figures.append(
        Figure(f"{of_mixed.title}: against {_PLAIN}", times, "x", at_least=8, cause=_PASSES)
    )
    return [
        _race_java_hash("32-byte ASCII keys", _ascii_keys(), _numpy_of_fixed_width, 15.0),
        _race_java_hash(
            "Unicode keys of 1 to 32 characters, two in five not ASCII",
            _unicode_keys(32, _ALPHABET),
            _numpy_of_padded,
            4.0,
        ),
        _race_java_hash(
            "Unicode keys of 1 to 40 characters, one of five scripts each",
            _keys_of_one_script(),
            _numpy_of_padded,
            4.0,
            _DECODED,
        ),
        of_mixed,
    ]


def _race_java_hash(
    kind: str,
    keys: pa.Array,
    plain: Callable[[pa.Array], npt.NDArray[np.int32]],
    at_least: float,
    cause: str = UNKNOWN_CAUSE,
) -> Result:
    buckets = FixedBuckets(_BUCKETS, ("id",), _DIALECT)
    peers = [
        _on(_US, buckets.assign, keys),
        _on("bucketfmt, hash values to buckets", _ids_of_values, keys),
        _on(_PLAIN, plain, keys),
    ]
    size = f"{len(keys.buffers()[2]) / len(keys):.0f} bytes a key"
    return _rates(f"Java bucket ids, {kind}", peers, at_least, cause, [size])


def measure_ring(_: object) -> list[Result]:
    """Look-ups on a consistent hashing ring."""
    keys, results = _ascii_keys(), []
    for nodes in (256, 20_000):
        ring = initial_ring("", nodes)
        values = np.array([node.value for node in ring])
        hashes = xxhash32s([keys])
        buckets = RingBuckets(ring, ("id",), _DIALECT)
        peers = [
            _on("bucketfmt, record keys to nodes", buckets.assign, keys),
            _on("bucketfmt, hashes to nodes", partial(_nodes_of_hashes, values), hashes),
            _on("xxhash and bisect, key by key", _key_by_key(values.tolist()), keys),
        ]
        results.append(_rates(f"Look-ups on a ring of {nodes:,} nodes", peers, 5.0))
    return results


def _ids_of_values(keys: pa.Array) -> npt.NDArray[np.int32]:
    return bucket_ids([keys], _BUCKETS)


def _nodes_of_hashes(
    values: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.int64]:
    return values[find_node_indexes(values, hashes)]


def _key_by_key(values: list[int]) -> Callable[[pa.Array], npt.NDArray[np.int64]]:
    def find(keys: pa.Array) -> npt.NDArray[np.int64]:
        hashes = (xxhash.xxh32_intdigest(key.encode()) & 0x7FFFFFFF for key in keys.to_pylist())
        places = (bisect_left(values, value) for value in hashes)
        return np.array([values[place % len(values)] for place in places])

    return find


def _on(name: str, function: Callable[[Any], Any], argument: object) -> Peer:
    return Peer(name, lambda: function(argument))


def _rates(
    title: str,
    peers: list[Peer],
    at_least: float,
    cause: str = UNKNOWN_CAUSE,
    notes: Sequence[str] = (),
) -> Result:
    timings = race(peers, _REPETITIONS, lambda buckets: buckets.astype(np.int64).tobytes())
    million = _KEYS / 1e6
    figures = [
        Figure(
            f"{title}: {_short(timing)}",
            million / timing.cpu,
            "M keys/s a core",
            at_least=at_least,
            cause=cause,
        )
        for timing in timings
        if timing.peer.startswith("bucketfmt")
    ]
    return Result(title, timings, figures, million, "M keys", list(notes))


def _short(timing: Timing) -> str:
    return timing.peer.removeprefix("bucketfmt, ")
