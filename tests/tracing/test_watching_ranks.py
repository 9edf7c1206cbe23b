"""Wrapped models of `torch.distributed` train under a watch as without one."""

import sys

import fresh
import pytest

PROGRAM = """
import contextlib, torch, torch.distributed as dist, backsight as bs
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

def wrapped(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    return fully_shard(model, mesh=init_device_mesh("cpu", (1,)))

def train(kind, watch):
    model = wrapped(kind)
    opt = torch.optim.AdamW(model.parameters())
    with watch:
        for _ in range(3):
            loss = model(torch.randn(6, 4)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    values = [p.detach() for p in model.parameters()]
    return [getattr(v, "_local_tensor", v).clone() for v in values]

for kind in ("ddp", "fsdp"):
    plain = train(kind, contextlib.nullcontext())
    for watch in (bs.watch(level="lines"), bs.watch(level="exact"), bs.watch(nonfinite=True)):
        assert all(map(torch.equal, plain, train(kind, watch))), kind
        assert len(watch.backwards) == 3 and not watch.notes, watch.notes
print("the same")
dist.destroy_process_group()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="gloo of one process")
def test_replicated_and_sharded_models(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    ended = fresh.run([sys.executable, "-W", "error::RuntimeWarning", str(script)], timeout=200)
    assert ended.stdout.splitlines()[-1:] == ["the same"], ended.stderr  # above it, what gloo says in some versions
