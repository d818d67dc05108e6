"""An HFile as a sorted map from keys to values: only the blocks that are asked for are read.

Pure but for the function that the caller gives to fetch bytes. Source: HFileReaderImpl.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.hfile.block import (
    BlockType,
    HFileBlock,
    StoredBlock,
    join_contents,
    read_block,
)
from bucketfmt.format.hfile.block_index import (
    BlockPlace,
    decode_branch_index,
    decode_meta_index,
    decode_root_index,
)
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.stored_entry_kernels import (
    PADDING_BYTES,
    Scratch,
    StoredEntries,
    decode_blocks,
    key_words,
)
from bucketfmt.format.hfile.trailer import TRAILER_BYTES, decode_file_info, decode_trailer
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["Fetch", "HFile"]

Fetch = Callable[[Sequence[tuple[int, int]]], Sequence[Buffer]]
"""Returns the bytes of ranges of a file, each an offset and a length. They are requested together.
"""

_TAIL_BYTES = 1 << 16  # mostly enough for the trailer, the indexes and the file info
_BATCH_BLOCKS, _BATCH_BYTES = 128, 16 << 20  # decoded together
_FETCH_BYTES = 8 << 20
_FEW_KEYS = 64  # are looked for in the index one by one
_BYTES = pa.large_binary()
_BRANCHES = (BlockType.INTERMEDIATE_INDEX, BlockType.LEAF_INDEX)


class HFile:
    """One file. Its trailer, indexes and file info are read when it is made, mostly in one fetch.

    Attributes:
        trailer: Where the parts of the file are.
        file_info: Names and values that the writer of the file chose.
        data_blocks: The data blocks, in the order of their keys.
        meta_blocks: The meta blocks by name, such as `bloomFilter`.
    """

    def __init__(self, fetch: Fetch, file_bytes: int, limits: Limits = DEFAULT_LIMITS) -> None:
        """Read what leads to the blocks.

        Args:
            fetch: See `Fetch`.
            file_bytes: Size of the file.
            limits: Bounds on what is allocated.

        Raises:
            CorruptError: the bytes are no HFile.
            UnsupportedError: the file is one that Hudi's own reader does not read either.
            LimitError: a block is larger than `hfile_block_bytes_max`.
        """
        self._fetch = fetch
        self._limits = limits
        start = max(0, file_bytes - _TAIL_BYTES)
        (tail,) = _views(fetch([(start, file_bytes - start)]))
        self.trailer = decode_trailer(tail, file_bytes, limits)
        self._end = file_bytes - TRAILER_BYTES
        first = self.trailer.load_on_open_offset
        if first < start:
            (tail,), start = _views(fetch([(first, file_bytes - first)])), first
        self._loaded, self._loaded_start = tail, start

        root = self._block(first, None, BlockType.ROOT_INDEX)
        meta = self._block(root.end, None, BlockType.ROOT_INDEX)
        info = self._block(self.trailer.file_info_offset, None, BlockType.FILE_INFO)
        places = decode_root_index(
            root.content,
            self.trailer.data_index_count,
            is_whole=self.trailer.num_levels == 1,
            limits=limits,
        )
        self.meta_blocks: Mapping[str, BlockPlace] = decode_meta_index(
            meta.content, self.trailer.meta_index_count, limits
        )
        self.file_info: Mapping[bytes, bytes] = decode_file_info(info.content, limits)
        self.data_blocks: Sequence[BlockPlace] = self._leaves(places, self.trailer.num_levels)
        self._firsts = [place.first for place in self.data_blocks]
        if self._firsts != sorted(self._firsts):
            raise CorruptError("the index of an HFile is not in the order of its keys")

    @classmethod
    def of(cls, data: Buffer, limits: Limits = DEFAULT_LIMITS) -> HFile:
        """Return a file that is in memory, such as the content of a log block."""
        view = memoryview(data).cast("B")

        def fetch(ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
            return [view[start : start + length] for start, length in ranges]

        return cls(fetch, len(view), limits)

    def __len__(self) -> int:
        return self.trailer.num_entries

    @property
    def first_key(self) -> bytes | None:
        """The least key; None of a file without entries."""
        return self._firsts[0] if self._firsts else None

    def find(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None where the file does not have the key.

        The keys come in any order; for many, `find_all` is faster.
        """
        found: list[bytes | None] = self.find_all(pa.array(keys, _BYTES)).to_pylist()
        return found

    def find_all(self, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Return the value of each key, null where the file does not have the key.

        Each block that may hold one of the keys is read once.

        Args:
            keys: `large_binary` without nulls, in any order.
        """
        if not _ascend(keys):
            coded = keys.dictionary_encode()
            sought = coded.dictionary.take(pc.sort_indices(coded.dictionary))
            return self._find_ascending(sought).take(pc.index_in(keys, value_set=sought))
        return self._find_ascending(keys)

    def _find_ascending(self, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        blocks = self._blocks_of(keys)
        bounds = np.searchsorted(blocks, np.arange(len(self._firsts) + 1))
        numbers = np.flatnonzero(np.diff(bounds)).tolist()
        places = np.full(len(keys), -1)  # of each key in what was found
        values, num_found = [pa.array([], _BYTES)], 0
        for some, entries in self._read(numbers, _BATCH_BLOCKS):
            begin, end = bounds[some[0]], bounds[some[-1] + 1]
            hits, which = entries.find(keys[begin:end])
            if len(hits):
                places[begin + which] = np.arange(num_found, num_found + len(hits))
                values.append(entries.values(hits))
                num_found += len(hits)
            del entries  # the next batch is decoded in the same memory
        found = pa.concat_arrays(values)
        if num_found == len(keys):  # in the order of the keys
            return found
        return found.take(pa.array(places, mask=places < 0))

    def _blocks_of(self, keys: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
        """Return the data block that may hold each key; -1: no block may.

        The first eight bytes mostly tell; the other keys are compared one by one.
        """
        if len(keys) <= _FEW_KEYS or not self._firsts:
            return np.array([bisect_right(self._firsts, key) - 1 for key in keys.to_pylist()], int)
        own, firsts = key_words(keys, 0), key_words(pa.array(self._firsts, _BYTES), 0)
        blocks = np.searchsorted(firsts, own, "right") - 1
        unsure = np.flatnonzero(firsts[np.maximum(blocks, 0)] == own)
        for number, key in zip(
            unsure.tolist(), keys.take(pa.array(unsure)).to_pylist(), strict=True
        ):
            blocks[number] = bisect_right(self._firsts, key, hi=int(blocks[number]) + 1) - 1
        return blocks

    def find_prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys that begin with a prefix, with their values, in the order of the keys."""
        for key, value in self.scan(prefix):
            if not key.startswith(prefix):
                return
            yield key, value

    def scan(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of the keys, from `start` to before `end`.

        Args:
            start: The first key, or what sorts before it.
            end: What sorts after the last key; None: to the end of the file.

        Raises:
            CorruptError: a block is damaged, or the whole file has another number of entries than
                its trailer says.
        """
        num_entries = 0
        first = max(0, bisect_right(self._firsts, start) - 1)
        last = len(self._firsts) if end is None else bisect_left(self._firsts, end)
        for _, entries in self._read(range(first, last)):
            keys = entries.keys().to_pylist()
            num_entries += len(keys)
            begin = bisect_left(keys, start)
            until = len(keys) if end is None else bisect_left(keys, end)
            values = entries.values(slice(begin, until)).to_pylist()
            yield from zip(keys[begin:until], values, strict=True)
        if not start and end is None:
            self._check_count(num_entries)

    def _check_count(self, num_entries: int) -> None:
        if num_entries != len(self):
            raise CorruptError(f"an HFile has {num_entries} entries and says {len(self)}")

    def columns(self) -> EntryColumns:
        """Return all keys and values, in the order of the keys.

        Raises:
            CorruptError: as `scan`.
            LimitError: the blocks have more bytes than `log_rows_bytes_max`.
        """
        keys, values, num_bytes = [pa.array([], _BYTES)], [pa.array([], _BYTES)], 0
        for batch in self.batches():
            num_bytes += batch.keys.nbytes + batch.values.nbytes
            self._limits.check("log_rows_bytes_max", num_bytes)
            keys.append(batch.keys)
            values.append(batch.values)
        return EntryColumns(pa.concat_arrays(keys), pa.concat_arrays(values))

    def batches(self) -> Iterator[EntryColumns]:
        """Yield all keys and values, in the order of the keys, some MiB at a time.

        Raises:
            CorruptError: as `scan`.
        """
        num_entries = 0
        for _, entries in self._read(range(len(self.data_blocks)), _BATCH_BLOCKS):
            num_entries += len(entries)
            yield EntryColumns(entries.keys(), entries.values())
        self._check_count(num_entries)

    def entries(self, number: int) -> StoredEntries:
        """Return the entries of a data block, given its place in `data_blocks`.

        Raises:
            CorruptError: the block is damaged, or its keys are outside of what the index says.
        """
        _, entries = next(self._read([number]))
        return entries

    def _read(
        self, numbers: Sequence[int], count: int = 1
    ) -> Iterator[tuple[Sequence[int], StoredEntries]]:
        """Yield data blocks, given in ascending order, with their entries.

        `count` blocks at first, then more at a time, up to some MiB.
        """
        position, scratch = 0, Scratch()
        while position < len(numbers):
            some = numbers[position : position + count]
            blocks: list[StoredBlock] = []
            num_bytes = 0
            for block in self._fetch_blocks(some):
                blocks.append(block)
                num_bytes += block.num_bytes
                if num_bytes >= _BATCH_BYTES:
                    break
            some = some[: len(blocks)]
            yield some, self._decode(some, blocks, scratch)
            position += len(some)
            count = min(4 * count, _BATCH_BLOCKS)

    def _decode(
        self, numbers: Sequence[int], blocks: Sequence[StoredBlock], scratch: Scratch
    ) -> StoredEntries:
        places = [self.data_blocks[number] for number in numbers]
        contents = join_contents(blocks, PADDING_BYTES)
        sizes = [block.num_bytes for block in blocks]
        try:
            entries = decode_blocks(contents, sizes, scratch, self._limits)
        except CorruptError as error:
            error.offset = places[0].offset
            raise
        for number, place, edges in zip(numbers, places, entries.edge_keys(), strict=True):
            if edges is not None:
                # HBase's writer may shorten the key of the following block, but not to a key before
                following = self._firsts[number + 1 : number + 2]
                if edges[0] < place.first or (following and edges[1] >= following[0]):
                    raise CorruptError(
                        "a block of an HFile has keys that its index does not say",
                        offset=place.offset,
                    )
        return entries

    def _fetch_blocks(self, numbers: Sequence[int]) -> Iterator[StoredBlock]:
        """Yield data blocks. Some MiB are fetched together, adjacent blocks in one range."""
        position = 0
        while position < len(numbers):
            places: list[BlockPlace] = []
            ranges: list[tuple[int, int]] = []
            num_bytes = 0
            while position < len(numbers) and num_bytes < _FETCH_BYTES:
                place = self.data_blocks[numbers[position]]
                begin, length = ranges[-1] if ranges else (0, -1)
                if place.offset == begin + length:
                    ranges[-1] = begin, length + place.size
                else:
                    ranges.append((place.offset, place.size))
                places.append(place)
                num_bytes += max(place.size, 1)
                position += 1
            parts = dict(zip((begin for begin, _ in ranges), self._bytes(ranges), strict=True))
            part, begin = memoryview(b""), 0
            for place in places:
                if place.offset in parts:
                    part, begin = parts[place.offset], place.offset
                at = place.offset - begin
                own = part[at : at + place.size]
                yield self._read_block(own, place.offset, BlockType.DATA)

    def meta_block(self, name: str) -> bytes | None:
        """Return the content of a meta block; None where there is none of that name."""
        place = self.meta_blocks.get(name)
        if place is None:
            return None
        return self._block(place.offset, place.size, BlockType.META).content

    def _block(self, offset: int, size: int | None, expected: BlockType | None) -> HFileBlock:
        """Return a block; of a size of None, it is one of those that are loaded on open."""
        (data,) = self._bytes([(offset, self._end - offset if size is None else size)])
        return self._read_block(data, offset, expected).decoded()

    def _bytes(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        for start, length in ranges:
            if start < 0 or length <= 0 or start + length > self._end:
                raise CorruptError(
                    "a block of an HFile is outside of the file", offset=max(start, 0)
                )
        base = self._loaded_start
        far = [each for each in ranges if each[0] < base]
        fetched = iter(_views(self._fetch(far)) if far else ())
        return [
            next(fetched) if start < base else self._loaded[start - base : start - base + length]
            for start, length in ranges
        ]

    def _read_block(self, data: Buffer, offset: int, expected: BlockType | None) -> StoredBlock:
        block = read_block(data, self.trailer.codec, file_offset=offset, limits=self._limits)
        if expected is not None and block.type is not expected:
            raise CorruptError(
                f"an HFile block of type {block.type.name}, where one of type {expected.name} "
                "should be",
                offset=offset,
            )
        return block

    def _leaves(self, places: list[BlockPlace], num_levels: int) -> list[BlockPlace]:
        """Return the places of data blocks, at the bottom of an index of several levels."""
        for _ in range(num_levels - 1):
            below: list[BlockPlace] = []
            for place in places:
                block = self._block(place.offset, place.size, None)
                if block.type not in _BRANCHES:
                    raise CorruptError(
                        f"an HFile block of type {block.type.name}, where an index should be",
                        offset=place.offset,
                    )
                below += decode_branch_index(block.content, self._limits)
            places = below
        return places


def _ascend(keys: pa.LargeBinaryArray) -> bool:
    return len(keys) < 2 or bool(pc.all(pc.greater(keys[1:], keys[:-1])).as_py())


def _views(parts: Sequence[Buffer]) -> list[memoryview]:
    return [memoryview(part).cast("B") for part in parts]
