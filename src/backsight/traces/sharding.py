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
    """Return which part of a tensor is here; None where two dimensions of a mesh split it, and for partial sums.

    Over the other dimensions of a mesh it is replicated, as FSDP2 with replicas does.
    """
    mesh, placements = tensor.device_mesh, tensor.placements
    place = mesh.get_coordinate()
    splits = [k for k, each in enumerate(placements) if not each.is_replicate()]
    if place is None or len(splits) > 1 or any(not placements[k].is_shard() for k in splits):
        return None
    shape = tuple(map(int, tensor.shape))
    if not splits:
        return Shard(shape, -1, 0, 1)
    (split,) = splits
    return Shard(shape, int(placements[split].dim), int(place[split]), int(mesh.size(split)))
