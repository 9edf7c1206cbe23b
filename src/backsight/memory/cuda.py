"""A step's memory as the pickle that PyTorch's memory viewer reads: https://pytorch.org/memory_viz.

The form is that of `torch.cuda.memory._dump_snapshot`, as `torch/cuda/_memory_viz.py` makes it of a profile: a list of
allocations and frees for each device, with a category, and the blocks that are alive at the end. In place of stack
frames stand what is known here: the tensor, the operator, the autograd node, the module and the phase. Addresses are
made up: each storage has its own.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

from backsight.memory.explain import label
from backsight.memory.ledger import Block, History


def snapshot_file(history: History, path: str | os.PathLike[str]) -> None:
    """Write the snapshot of a history."""
    with open(path, "wb") as file:
        pickle.dump(snapshot(history), file)


def snapshot(history: History) -> dict[str, Any]:
    """Return the snapshot of a history: its device's traces and one segment that holds all."""
    device = _index(history)
    addresses = _addresses(history)
    sizes = [block.bytes if block.born < 0 else 0 for block in history.blocks]
    traces: list[list[dict[str, Any]]] = [[] for _ in range(device + 1)]
    for at in range(len(history.delta)):
        traces[device] += _events(history, at, addresses, sizes)
    # The viewer fails on categories without an "unknown" one: MemoryViz.js pushes to `snapshot.categores`.
    traces[device].append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "category": "unknown"})
    alive = [(block, sizes[block.number]) for block in history.blocks if block.died is None]
    return {"device_traces": traces, "segments": [_segment(device, alive, addresses)]}


def _index(history: History) -> int:
    name = next((block.device for block in history.blocks), "cpu")
    return int(name.partition(":")[2] or 0)


def _addresses(history: History) -> list[int]:
    """Return an address for each storage: one after the other, as far apart as the most bytes that it ever had."""
    most = [block.bytes for block in history.blocks]
    sizes = [block.bytes if block.born < 0 else 0 for block in history.blocks]
    for block, delta in zip(history.block.tolist(), history.delta.tolist(), strict=True):
        sizes[block] += delta
        most[block] = max(most[block], sizes[block])
    found, at = [], 512
    for size in most:
        found.append(at)
        at += size
    return found


def _events(history: History, at: int, addresses: list[int], sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the events of one change; a storage that changed its size is freed and allocated anew."""
    block, delta = history.blocks[int(history.block[at])], int(history.delta[at])
    before = sizes[block.number]
    sizes[block.number] = before + delta
    shared = {
        "addr": addresses[block.number],
        "stream": 0,
        "time_us": int(history.time[at]) // 1000,
        "frames": _frames(block),
        "category": block.kind,
    }
    if before:
        yield {**shared, "action": "free_requested", "size": before}
        yield {**shared, "action": "free_completed", "size": before}
    if before + delta:
        yield {**shared, "action": "alloc", "size": before + delta}


def _frames(block: Block) -> list[dict[str, Any]]:
    """Return what is known of a block in the form of stack frames, the innermost first."""
    told = {
        "tensor": label(block),
        "operator": block.op,
        "autograd node": block.node,
        "module": block.module,
        "phase": block.phase if block.born >= 0 else "before the step",
    }
    file, _, line = block.source.rpartition(":")
    place = [{"filename": file, "line": int(line), "name": block.module or label(block)}] if line.isdigit() else []
    return [*place, *({"filename": what, "line": 0, "name": name} for what, name in told.items() if name)]


def _segment(device: int, alive: list[tuple[Block, int]], addresses: list[int]) -> dict[str, Any]:
    """Return one segment with the blocks alive at the end and the gaps between them."""
    blocks: list[dict[str, Any]] = []
    at = 0
    for block, size in alive:
        if addresses[block.number] > at:
            blocks.append({"size": addresses[block.number] - at, "state": "inactive"})
        told = {"size": size, "requested_size": size, "state": "active_allocated", "frames": _frames(block)}
        blocks.append({"address": addresses[block.number], **told})
        at = addresses[block.number] + size
    blocks = blocks or [{"size": 512, "state": "inactive"}]
    taken = sum(size for _, size in alive)
    return {
        "device": device,
        "address": 0,
        "total_size": sum(block["size"] for block in blocks),
        "allocated_size": taken,
        "active_size": taken,
        "stream": 0,
        "segment_type": "large",
        "blocks": blocks,
    }
