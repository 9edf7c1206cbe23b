"""A training that a test starts by torchrun: of one process on the whole batch, or of several on their parts of it.

python training_on_ranks.py alone|ddp|fsdp|replicas|tensor [BUG]
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS = 3
TENSOR = 2
"""Ranks that share the work on one part of the batch, in tensor parallelism."""


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 64), nn.LayerNorm(64), nn.Linear(64, 1))


def batch(step: int) -> torch.Tensor:
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(step))


def placed(net: nn.Module, how: str) -> nn.Module:
    """Return the model as this kind of training calls it."""
    if how == "ddp":
        return nn.parallel.DistributedDataParallel(net)
    if how in ("fsdp", "replicas"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        world = dist.get_world_size()
        shape = (world,) if how == "fsdp" else (2, world // 2)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
        for part in (net[0], net[2]):
            fully_shard(part, mesh=mesh)
        return fully_shard(net, mesh=mesh)
    if how == "tensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (dist.get_world_size() // TENSOR, TENSOR), mesh_dim_names=("data", "tensor"))
        parallelize_module(net, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return fully_shard(net, mesh=mesh["data"])
    return net


def main(how: str, bug: str = "") -> None:
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if how != "alone":
        dist.init_process_group("gloo")
    if how == "tensor":
        rank, world = rank // TENSOR, world // TENSOR
    net = placed(model(), how)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(STEPS):
        part = batch(step).chunk(world)[0 if bug == "same data" else rank]
        loss = net(part).square()
        loss = loss.sum() if bug == "sum" else loss.mean()
        optimizer.zero_grad()
        loss.backward()
        if bug == "averaged twice":
            for parameter in net.parameters():
                parameter.grad.div_(world)
        optimizer.step()
    if how != "alone":
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
