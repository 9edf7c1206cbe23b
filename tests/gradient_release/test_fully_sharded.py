"""FSDP2: released steps of sharded parameters have the same bits on every rank, accumulation included."""

from __future__ import annotations

import sys

import fresh
import pytest
import torch

PROGRAM = """
import os, sys, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
import backsight.gradient_release as gradient_release

dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)

def trained(bucket, settings, micro):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(5)))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **settings)
    release = None if bucket is None else gradient_release.release(optimizer, bucket)
    norms = []
    for step in range(4):
        torch.manual_seed(10 * step + dist.get_rank())
        for part in range(micro):
            model.set_requires_gradient_sync(part == micro - 1)
            model(torch.randn(4, 32)).square().mean().backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).full_tensor())
        optimizer.step()
        if release is not None:
            torch.testing.assert_close(release.grad_norm(), norms[-1])
            assert release.peak_gradient_bytes <= 2048 + bucket
        optimizer.zero_grad()
    weights = [each.full_tensor() for each in model.parameters()]
    state = [value for each in optimizer.state_dict()["state"].values() for value in each.values()]
    return weights + [each.full_tensor() if hasattr(each, "full_tensor") else each for each in state], norms

for settings in ({"fused": True}, {"foreach": True}, {"foreach": False}):
    for micro in (1, 2):
        expected, norms = trained(None, settings, micro)
        for bucket in (0, 3000):
            found, released_norms = trained(bucket, settings, micro)
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
            torch.testing.assert_close(released_norms, norms)
print("equal", flush=True)
dist.destroy_process_group()
os._exit(0)  # at the interpreter's end a thread of gloo may still free a tensor, and PyTorch 2.13 aborts
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="a build of PyTorch without torch.distributed")
@pytest.mark.slow
def test_two_ranks_with_sharded_parameters_come_to_the_same_bits(tmp_path):
    commands = ([sys.executable, "-c", PROGRAM, str(tmp_path / "store"), str(rank)] for rank in range(2))
    ranks = fresh.run_together(*commands)
    assert [rank.stdout.strip().splitlines()[-1:] for rank in ranks] == [["equal"]] * 2, ranks
