"""A model of PyTorch's allocator on CUDA: how much memory it reserves on the device for what a program asks for.

    allocator = CachingAllocator()
    block = allocator.allocate(3_000_000)
    allocator.allocated, allocator.reserved      # 3000320 bytes handed out, of a segment of 20 MiB
    allocator.free(block)                        # the segment stays reserved, and is used again

Sizes are rounded to 512 bytes. What is at most 1 MiB shares segments of 2 MiB, what is below 10 MiB segments of 20 MiB,
and anything larger has a segment of its own, rounded to 2 MiB. The smallest free block that fits is used, and split if
enough is left over; a freed block joins its free neighbours. Where the device is full, segments that nothing uses go
back to it first.

This is one stream with PyTorch's default settings: no expandable segments, no largest split, no rounding to powers of
two. Addresses only grow here, and the driver may hand them out otherwise, which matters between blocks of one size.

Source: c10/cuda/CUDACachingAllocator.cpp, `malloc`, `should_split`, `get_allocation_size`, `release_cached_blocks`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

SMALLEST_BLOCK = 512
"""kMinBlockSize: every request is rounded to a multiple of it."""
SMALL_REQUEST = 1 << 20
"""kSmallSize: up to here a request is served from the small pool."""
SMALL_SEGMENT = 2 << 20
"""kSmallBuffer"""
OWN_SEGMENT = 10 << 20
"""kMinLargeAlloc: from here a request has a segment of its own size."""
SHARED_SEGMENT = 20 << 20
"""kLargeBuffer"""
SEGMENT_ROUNDING = 2 << 20
"""kRoundLarge"""


class OutOfDeviceMemory(MemoryError):
    """The device cannot hold what was asked for, even without the segments that nothing uses."""


@dataclass(eq=False, slots=True)
class Block:
    """A stretch of a segment, in use or free."""

    address: int
    size: int
    small: bool
    used: bool = False
    left: Block | None = field(default=None, repr=False)
    right: Block | None = field(default=None, repr=False)

    @property
    def whole(self) -> bool:
        """Whether the block is all of its segment."""
        return self.left is None and self.right is None


class CachingAllocator:
    """What the allocator holds at a moment, and the most it has held. `capacity`: bytes of the device, if limited.

    Bytes: `allocated` in blocks that are in use, `reserved` in segments taken from the device; `peak_allocated` and
    `peak_reserved` are the most that each has been.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.allocated = self.peak_allocated = 0
        self.reserved = self.peak_reserved = 0
        self._end = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # (size, address) by small, ascending
        self._at: dict[int, Block] = {}  # the free blocks by address

    def allocate(self, size: int) -> Block:
        """Return a block of at least `size` bytes.

        Raises OutOfDeviceMemory if `capacity` does not suffice, and ValueError for a size below 1: PyTorch does not ask
        its allocator for nothing.
        """
        if size < 1:
            raise ValueError(f"A block has at least 1 byte, and {size} were asked for.")
        size = rounded(size)
        small = size <= SMALL_REQUEST
        block = self._best_fit(size, small) or self._segment(size, small)
        if should_split(block, size):
            self._split(block, size)
        block.used = True
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def free(self, block: Block) -> None:
        """Give a block back; it joins the free blocks beside it. Raises ValueError if it is not in use."""
        if not block.used:
            raise ValueError(f"The block at {block.address} is not in use.")
        block.used = False
        self.allocated -= block.size
        left, right = block.left, block.right
        if left is not None and not left.used:
            self._leave(left)
            block.address, block.size = left.address, block.size + left.size
            _join(left.left, block)
        if right is not None and not right.used:
            self._leave(right)
            block.size += right.size
            _join(block, right.right)
        self._enter(block)

    def empty_cache(self) -> int:
        """Give the segments that nothing uses back to the device, and return their bytes."""
        unused = [block for block in self._at.values() if block.whole]
        for block in unused:
            self._leave(block)
        size = sum(block.size for block in unused)
        self.reserved -= size
        return size

    def _best_fit(self, size: int, small: bool) -> Block | None:
        """Take the smallest free block that fits, and of these the one at the lowest address."""
        free = self._free[small]
        place = bisect_left(free, (size, -1))
        if place == len(free):
            return None
        return self._at.pop(free.pop(place)[1])

    def _segment(self, size: int, small: bool) -> Block:
        """Reserve a new segment on the device."""
        size = segment_size(size)
        if self.capacity is not None and self.reserved + size > self.capacity:
            self.empty_cache()
            if self.reserved + size > self.capacity:
                raise OutOfDeviceMemory(
                    f"{size:,} bytes were asked for, and {self.reserved:,} of {self.capacity:,} are taken."
                )
        block = Block(self._end, size, small)
        self._end += size
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _split(self, block: Block, size: int) -> None:
        """Cut a block to `size`, and keep what is left over as a free block."""
        rest = Block(block.address + size, block.size - size, block.small)
        block.size = size
        _join(rest, block.right)
        _join(block, rest)
        self._enter(rest)

    def _enter(self, block: Block) -> None:
        insort(self._free[block.small], (block.size, block.address))
        self._at[block.address] = block

    def _leave(self, block: Block) -> None:
        free = self._free[block.small]
        del free[bisect_left(free, (block.size, block.address))]
        del self._at[block.address]


def rounded(size: int) -> int:
    """Return the bytes of the block that a request gets.

    >>> rounded(1), rounded(512), rounded(513)
    (512, 512, 1024)
    """
    return -(-size // SMALLEST_BLOCK) * SMALLEST_BLOCK


def segment_size(size: int) -> int:
    """Return the bytes that are reserved on the device for a block of `size` bytes where no free one fits."""
    if size <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if size < OWN_SEGMENT:
        return SHARED_SEGMENT
    return -(-size // SEGMENT_ROUNDING) * SEGMENT_ROUNDING


def should_split(block: Block, size: int) -> bool:
    """Return whether what a block has beyond `size` is worth a block of its own."""
    rest = block.size - size
    return rest >= SMALLEST_BLOCK if block.small else rest > SMALL_REQUEST


def replay(changes: Iterable[tuple[Hashable, int]], capacity: int | None = None) -> CachingAllocator:
    """Return the allocator after a sequence of (key, bytes): positive where `key` is allocated, negative where freed.

    A key may be used again after it was freed. Raises OutOfDeviceMemory where `capacity` does not suffice.
    """
    allocator = CachingAllocator(capacity)
    held: dict[Hashable, Block] = {}
    for key, size in changes:
        if size > 0:
            held[key] = allocator.allocate(size)
        elif size < 0:
            allocator.free(held.pop(key))
    return allocator


def _join(left: Block | None, right: Block | None) -> None:
    if left is not None:
        left.right = right
    if right is not None:
        right.left = left
