"""FSDP2 and DDP with NCCL on one device: recorded, watched and released, with the bits of the plain training."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from at_hand import DEVICE, SECONDS, environment

pytestmark = pytest.mark.device("DDP and FSDP2 with NCCL")

PROGRAM = """
import contextlib, os, sys, warnings
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
import backsight as bs

device, how, what, store, run = sys.argv[1:]
warnings.filterwarnings("error", message=".*(Triton|not recorded|nothing more).*")
dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method="file://" + store, rank=0, world_size=1)
if device == "cuda":
    torch.cuda.set_device(0)

def trained(what):
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh()))).to(device)
    if how == "ddp":
        model = DistributedDataParallel(model)
    else:
        mesh = dist.device_mesh.init_device_mesh(device, (1,))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    release = bs.release(optimizer, bucket=20_000, ddp=model if how == "ddp" else None) if what == "release" else None
    with contextlib.ExitStack() as stack:
        if what == "record":
            stack.enter_context(bs.record(model, optimizer, run))
        if what == "watch":
            stack.enter_context(bs.watch(level="exact", nonfinite=True))
        for step in range(4):
            torch.manual_seed(step)
            loss = model(torch.randn(8, 64).to(device)).square().mean()
            if what == "watch":
                assert bs.graph(loss).leaves
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    if release is not None:
        release.remove()
    whole = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()]
    return [each.detach().cpu() for each in whole]

expected, found = trained("plain"), trained(what)
assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True)), "other bits"
if what == "record":
    kept = bs.open_run(run)
    assert len(kept.steps) == 4
    rows = kept.frame(as_="numpy", kind="grad")
    assert len(set(rows["tensor"])) == 8, set(rows["tensor"])
    assert (rows["max"] > rows["min"]).all()
print("equal", flush=True)
dist.destroy_process_group()
os._exit(0)  # a thread of gloo may still free a tensor at the interpreter's end
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="a build of PyTorch without torch.distributed")
@pytest.mark.parametrize("what", ["record", "release", "watch"])
@pytest.mark.parametrize("how", ["ddp", "fsdp2"])
def test_one_rank_comes_to_the_same_bits(tmp_path, how, what):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            torch.device(DEVICE).type,
            how,
            what,
            str(tmp_path / "store"),
            str(tmp_path / "run"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS - 5,
        env=environment(),
    )
    assert done.stdout.strip().splitlines()[-1:] == ["equal"], done.stdout + done.stderr
