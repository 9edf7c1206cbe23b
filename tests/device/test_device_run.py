"""Programs under `backsight run` on a device: they print what they print without it, whatever is asked for besides."""

from __future__ import annotations

import subprocess
import sys

import pytest
from at_hand import DEVICE, SECONDS, environment, only_there

pytestmark = pytest.mark.device("backsight run of programs on CUDA")

COMMON = f"""
import os
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torch.nn.functional as F
from torch import nn

DEVICE = {DEVICE!r}
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 64), nn.LayerNorm(64), nn.Linear(64, 4)

    def forward(self, x):
        return self.last(F.dropout(F.gelu(self.norm(self.first(x))), 0.1, self.training))


def told(net):
    print([float(each.detach().double().sum()) for each in net.parameters()])


data = [(torch.randn(32, 16, device=DEVICE), torch.randint(4, (32,), device=DEVICE)) for _ in range(40)]
net = Net().to(DEVICE)
"""

PLAIN = """
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, fused=True)
for x, y in data:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
told(net)
"""

SCALED = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**(40 if DEVICE == "cuda" else 14), growth_interval=5)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
for x, y in data:
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast(DEVICE, torch.float16 if DEVICE == "cuda" else torch.bfloat16):
        loss = F.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    if scaler.get_scale() >= before:
        schedule.step()
    print(loss.item(), scaler.get_scale())
told(net)
"""

WHOLE_STEP = """
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, capturable=True, foreach=True)
x, y = (each.clone() for each in data[0])

def step():
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(WARM):
        optimizer.zero_grad(set_to_none=True)
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = step()
for a, b in data:
    x.copy_(a)
    y.copy_(b)
    graph.replay()
    print(loss.item())
told(net)
"""

GRAPHED = (
    """
net.first = torch.cuda.make_graphed_callables(net.first, (data[0][0].clone(),))
"""
    + PLAIN
)

COMPILED = """
module = torch.compile(net, mode="reduce-overhead")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
for x, y in data[:12]:
    optimizer.zero_grad()
    torch.compiler.cudagraph_mark_step_begin()
    loss = F.cross_entropy(module(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
told(net)
"""

STREAMS = """
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
side = torch.cuda.Stream()
host = [(x.cpu().pin_memory(), y.cpu().pin_memory()) for x, y in data]
ahead = None
for x, y in host:
    with torch.cuda.stream(side):
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    x.record_stream(torch.cuda.current_stream())
    y.record_stream(torch.cuda.current_stream())
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
told(net)
"""

PROGRAMS = {
    "plain": PLAIN,
    "a gradient scaler that skips": SCALED,
    "a whole step in a CUDA graph": WHOLE_STEP.replace("WARM", "3"),
    "a whole step in a CUDA graph, later": WHOLE_STEP.replace("WARM", "11"),
    "graphed callables": GRAPHED,
    "compiled, with CUDA graphs": COMPILED,
    "streams and pinned memory": STREAMS,
}
ONLY_THERE = {name for name in PROGRAMS if name not in ("plain", "a gradient scaler that skips")}
OPTIONS = {
    "": (),
    "record": ("--record", "--into", "run"),
    "trace": ("--trace", "steps=0,4"),
    "nonfinite": ("--nonfinite",),
    "leaks": ("--leaks",),
}


_plain = {}
"""What each program does without us."""


def ran(file, *before):
    done = subprocess.run(
        [sys.executable, *before, str(file)],
        capture_output=True,
        text=True,
        timeout=SECONDS - 5,
        cwd=file.parent,
        env=environment(),
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=only_there if name in ONLY_THERE else ()) for name in PROGRAMS]
)
def test_a_program_prints_what_it_prints_without_us(program, option, tmp_path, told):
    file = tmp_path / "train.py"
    file.write_text(COMMON + PROGRAMS[program], encoding="utf-8")
    plain = _plain.get(program) or _plain.setdefault(program, ran(file))
    assert plain[0] == 0, plain[2]
    watched = ran(file, "-m", "backsight", "run", *OPTIONS[option])
    said = watched[2][watched[2].find("backsight") :]
    assert watched[:2] == plain[:2], watched[2]
    assert "Traceback" not in watched[2]
    assert "stopped" not in said
    if "--leaks" not in OPTIONS[option]:
        assert "BS1" not in said, said
    told(" / ".join(said.splitlines())[:150])


def test_memory_that_grows_on_the_device_is_found(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(
        COMMON
        + PLAIN.replace("for x, y", "total = 0.0\nfor x, y").replace("print(loss", "total += loss\n    print(loss"),
        encoding="utf-8",
    )
    code, _, said = ran(file, "-m", "backsight", "run")
    assert code == 0
    assert "BS111" in said
    assert "total += loss" in said
