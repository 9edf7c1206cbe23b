"""The model of CUDA's caching allocator keeps the invariants of the real one, and its sizes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.memory.caching_allocator import Block, CachingAllocator, OutOfDeviceMemory, replay, rounded

KIB, MIB = 1 << 10, 1 << 20

SIZES = st.one_of(
    st.integers(1, 4 * KIB),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 30 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 20 * MIB]),
)
PROGRAMS = st.lists(st.one_of(SIZES, st.integers(-60, -1)), max_size=80)
"""A positive number is a request of so many bytes, a negative one frees one of the blocks in use."""


def run(program: list[int], allocator: CachingAllocator) -> list[Block]:
    used: list[Block] = []
    for step in program:
        if step > 0:
            used.append(allocator.allocate(step))
        elif used:
            allocator.free(used.pop(step % len(used)))
    return used


def segment(block: Block) -> list[Block]:
    while block.left is not None:
        block = block.left
    blocks = [block]
    while (right := blocks[-1].right) is not None:
        blocks.append(right)
    return blocks


@given(PROGRAMS)
def test_blocks_in_use_never_overlap(program):
    used = sorted(run(program, CachingAllocator()), key=lambda block: block.address)
    assert all(a.address + a.size <= b.address for a, b in itertools.pairwise(used))


@given(PROGRAMS)
def test_what_is_reserved_covers_what_is_allocated_which_covers_what_was_asked_for(program):
    allocator = CachingAllocator()
    used = run(program, allocator)
    assert sum(block.size for block in used) == allocator.allocated
    assert allocator.allocated <= allocator.reserved <= allocator.peak_reserved
    assert allocator.allocated <= allocator.peak_allocated <= allocator.peak_reserved


@given(PROGRAMS)
def test_a_segment_is_tiled_by_its_blocks_and_free_neighbours_are_joined(program):
    for block in run(program, CachingAllocator()):
        blocks = segment(block)
        for left, right in itertools.pairwise(blocks):
            assert left.address + left.size == right.address
            assert right.left is left
            assert left.used or right.used


@given(PROGRAMS)
def test_when_all_is_freed_every_segment_is_whole_and_can_be_given_back(program):
    allocator = CachingAllocator()
    for block in run(program, allocator):
        allocator.free(block)
    assert allocator.allocated == 0
    reserved = allocator.reserved
    assert allocator.empty_cache() == reserved
    assert allocator.reserved == 0


@given(PROGRAMS)
def test_the_same_program_again_reserves_nothing_more_than_the_first_time(program):
    allocator = CachingAllocator()
    for block in run(program, allocator):
        allocator.free(block)
    once = allocator.peak_reserved
    for size in (step for step in program if step > 0):
        allocator.free(allocator.allocate(size))
    assert allocator.peak_reserved == once


@given(PROGRAMS, st.integers(1, 100))
@settings(max_examples=60)
def test_a_device_is_never_reserved_beyond_its_capacity(program, mib):
    allocator = CachingAllocator(capacity=mib * MIB)
    try:
        run(program, allocator)
    except OutOfDeviceMemory as error:
        assert "asked for" in str(error)
    assert allocator.peak_reserved <= mib * MIB


@pytest.mark.parametrize(
    ("request_size", "block_size", "reserved"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # the rest, 1 MiB, is not worth a block of its own: it stays in this one
        (101 * MIB, 102 * MIB, 102 * MIB),
    ],
)
def test_sizes_are_those_of_the_real_allocator(request_size, block_size, reserved):
    allocator = CachingAllocator()
    assert allocator.allocate(request_size).size == block_size
    assert allocator.reserved == reserved


def test_the_smallest_free_block_that_fits_is_used_and_of_equal_ones_the_lowest():
    allocator = CachingAllocator()
    blocks = [allocator.allocate(size * MIB) for size in (40, 12, 16, 12)]
    for block in blocks:
        allocator.free(block)
    assert allocator.allocate(11 * MIB + 512).address == blocks[1].address


def test_a_small_request_does_not_use_a_free_large_block():
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(20 * MIB))
    allocator.allocate(512)
    assert allocator.reserved == 22 * MIB


def test_fragmentation_reserves_more_than_was_ever_allocated():
    allocator = CachingAllocator()
    blocks = [allocator.allocate(4 * MIB) for _ in range(10)]
    for block in blocks[::2]:
        allocator.free(block)
    allocator.allocate(18 * MIB)
    assert allocator.peak_allocated < allocator.reserved == 58 * MIB


def test_segments_that_nothing_uses_make_room_before_the_device_is_full():
    allocator = CachingAllocator(capacity=32 * MIB)
    allocator.free(allocator.allocate(20 * MIB))
    allocator.allocate(30 * MIB)
    assert allocator.reserved == 30 * MIB
    with pytest.raises(OutOfDeviceMemory, match="31,457,280 of 33,554,432 are taken"):
        allocator.allocate(4 * MIB)


def test_a_block_is_freed_once():
    allocator = CachingAllocator()
    block = allocator.allocate(5)
    allocator.free(block)
    with pytest.raises(ValueError, match="not in use"):
        allocator.free(block)


@pytest.mark.parametrize("size", [0, -1])
def test_nothing_is_not_a_block(size):
    with pytest.raises(ValueError, match="at least 1 byte"):
        CachingAllocator().allocate(size)


def test_a_replay_follows_keys_that_are_used_again():
    allocator = replay([("a", 3 * MIB), ("b", 100), ("a", -3 * MIB), ("a", 5 * MIB)])
    assert allocator.allocated == 5 * MIB + 512
    assert allocator.reserved == 22 * MIB


@given(st.integers(1, 1 << 40))
def test_rounding_is_to_the_next_512_bytes(size):
    assert rounded(size) % 512 == 0
    assert 0 <= rounded(size) - size < 512
