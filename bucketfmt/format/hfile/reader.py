"""An HFile as a sorted map from keys to values: only the blocks that are asked for are read.

Pure but for the function that the caller gives to fetch bytes. Source: HFileReaderImpl.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.hfile.block import BlockType, HFileBlock, decode_block
from bucketfmt.format.hfile.block_index import (
    BlockPlace,
    decode_branch_index,
    decode_meta_index,
    decode_root_index,
)
from bucketfmt.format.hfile.entries import HFileEntries, decode_entries
from bucketfmt.format.hfile.trailer import TRAILER_BYTES, decode_file_info, decode_trailer
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["Fetch", "HFile"]

Fetch = Callable[[int, int], Buffer]
"""Returns the bytes of a file from an offset to another."""

_TAIL_BYTES = 1 << 16  # mostly enough for the trailer, the indexes and the file info
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
        tail = memoryview(fetch(start, file_bytes)).cast("B")
        self.trailer = decode_trailer(tail, file_bytes, limits)
        self._end = file_bytes - TRAILER_BYTES
        first = self.trailer.load_on_open_offset
        if first < start:
            tail, start = memoryview(fetch(first, file_bytes)).cast("B"), first
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
        return cls(lambda start, end: view[start:end], len(view), limits)

    def __len__(self) -> int:
        return self.trailer.num_entries

    def find(self, keys: Sequence[bytes]) -> list[memoryview | None]:
        """Return the value of each key, None where the file does not have the key.

        Each block that may hold one of the keys is read once. The keys come in any order.
        """
        found: list[memoryview | None] = [None] * len(keys)
        entries, read = None, -1
        for position in sorted(range(len(keys)), key=keys.__getitem__):
            key = keys[position]
            number = bisect_right(self._firsts, key) - 1
            if number < 0:
                continue
            if number != read:
                entries, read = self.entries(number), number
            if entries is not None:
                at = bisect_left(entries.keys, key)
                if at < len(entries.keys) and entries.keys[at] == key:
                    found[position] = entries.value(at)
        return found

    def find_prefix(self, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the keys that begin with a prefix, with their values, in the order of the keys."""
        for key, value in self.scan(prefix):
            if not key.startswith(prefix):
                return
            yield key, value

    def scan(
        self, start: bytes = b"", end: bytes | None = None
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values in the order of the keys, from `start` to before `end`.

        Args:
            start: The first key, or what sorts before it.
            end: What sorts after the last key; None: to the end of the file.

        Raises:
            CorruptError: a block is damaged, or the whole file has another number of entries than
                its trailer says.
        """
        num_entries = 0
        for number in range(max(0, bisect_right(self._firsts, start) - 1), len(self._firsts)):
            if end is not None and self._firsts[number] >= end:
                return
            entries = self.entries(number)
            num_entries += len(entries.keys)
            for at in range(bisect_left(entries.keys, start), len(entries.keys)):
                if end is not None and entries.keys[at] >= end:
                    return
                yield entries.keys[at], entries.value(at)
        if not start and num_entries != len(self):
            raise CorruptError(f"an HFile has {num_entries} entries and says {len(self)}")

    def entries(self, number: int) -> HFileEntries:
        """Return the entries of a data block, given its place in `data_blocks`.

        Raises:
            CorruptError: the block is damaged, or its keys are outside of what the index says.
        """
        place = self.data_blocks[number]
        block = self._block(place.offset, place.size, BlockType.DATA)
        entries = decode_entries(block.content, self._limits)
        following = self._firsts[number + 1 : number + 2]
        if entries.keys and (
            entries.keys[0] < place.first or (following and entries.keys[-1] > following[0])
        ):
            raise CorruptError(
                "a block of an HFile has keys that its index does not say", offset=place.offset
            )
        return entries

    def meta_block(self, name: str) -> bytes | None:
        """Return the content of a meta block; None where there is none of that name."""
        place = self.meta_blocks.get(name)
        if place is None:
            return None
        return self._block(place.offset, place.size, BlockType.META).content

    def _block(self, offset: int, size: int | None, expected: BlockType | None) -> HFileBlock:
        """Return a block; of a size of None, it is one of those that are loaded on open."""
        end = self._end if size is None else offset + size
        if not 0 <= offset < end <= self._end:
            raise CorruptError("a block of an HFile is outside of the file", offset=max(offset, 0))
        base = self._loaded_start
        if offset >= base:
            data: Buffer = self._loaded[offset - base : end - base]
        else:
            data = self._fetch(offset, end)
        block = decode_block(data, self.trailer.codec, file_offset=offset, limits=self._limits)
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
