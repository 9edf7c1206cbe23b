"""What a process holds of a tensor that several share: its part as a plain tensor, and which part that is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from backsight.traces.records import Shard


def parts(tensors: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, Shard]]:
    """Return tensors with the local part in place of each DTensor, and which part of it that is, where it can be said.

    To be called without gradients, within hooks of ours.
    """
    module = sys.modules.get("torch.distributed.tensor")
    kind: Any = getattr(module, "DTensor", None)
    if kind is None or not any(issubclass(type(each), kind) for each in tensors.values()):
        return dict(tensors), {}
    local, shards = {}, {}
    for name, tensor in tensors.items():
        local[name] = tensor
        if issubclass(type(tensor), kind) and (found := _shard(module, tensor)) is not None:
            local[name] = kind.to_local(tensor)
            shards[name] = found
    return local, shards


def _shard(module: Any, tensor: Any) -> Shard | None:
    """Return which part of a tensor is here; None for meshes of several dimensions, and for partial sums."""
    mesh, placements = tensor.device_mesh, tensor.placements
    if mesh.ndim != 1 or len(placements) != 1 or (coordinate := mesh.get_coordinate()) is None:
        return None
    (placement,) = placements
    if not placement.is_shard() and not placement.is_replicate():
        return None
    dimension = int(placement.dim) if placement.is_shard() else -1
    return Shard(tuple(map(int, tensor.shape)), dimension, int(coordinate[0]), int(mesh.size()))
