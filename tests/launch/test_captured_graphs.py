"""Captured CUDA graphs that go on with what was captured: on the CPU, with a stand-in whose replays do nothing."""

import pytest

DEVICE = """
import contextlib
import torch
import torch.nn.functional as F
from torch import nn

class Device:
    capturing = False

    @contextlib.contextmanager
    def capture(self, graph):
        self.capturing = True
        yield
        self.capturing = False

    def replay(self):
        pass

device = Device()
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: device.capturing
torch.manual_seed(0)

def batch(n=16):
    x = torch.randn(n, 4)
    return x, x.sum(1, keepdim=True)

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
"""

REBOUND = """
def train():
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    first = batch()
    x, y = first
    with device.capture(None):
        loss = F.mse_loss(model(x), y)
        loss.backward()
    for step in range(20):
        x, y = batch()  #!
        device.replay()
        opt.step()
train()
"""

OF_AN_OBJECT = """
class Replay:
    def __init__(self, opt):
        self.x, self.y = batch()
        self.first = self.x, self.y
        self.opt = opt
        with device.capture(None):
            self.work()

    def work(self):
        F.mse_loss(model(self.x), self.y).backward()

    def __call__(self, x, y):
        self.x, self.y = x, y  #!
        device.replay()
        self.opt.step()

step = Replay(torch.optim.SGD(model.parameters(), lr=0.01))
for _ in range(20):
    step(*batch())
"""

OUTDATED = """
def train():
    opt = torch.optim.Adam(model.parameters(), lr=0.01)  #!
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, (step + 1) / 10))
    x, y = batch()
    def work():
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss
    work()
    with device.capture(None):
        loss = work()
    for step in range(20):
        x.copy_(torch.randn(16, 4))
        device.replay()
        sched.step()
        loss.item()
train()
"""

COPIED = """
opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))
weights = torch.ones(16, 1)
x_in, y_in = batch()
with device.capture(None):
    loss = (weights * (model(x_in) - y_in) ** 2).mean()
    loss.backward()
    opt.step()
for step in range(20):
    x, y = batch()
    x_in.copy_(x)
    y_in.copy_(y)
    opt.param_groups[0]["lr"].fill_(0.01 / (step + 1))
    device.replay()
    loss.item()
"""

CAPTURED_ANEW = """
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for stage in range(3):
    x, y = batch()
    opt.zero_grad()
    with device.capture(None):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
    for step in range(10):
        x.copy_(torch.randn(16, 4))
        device.replay()
        loss.item()
    for group in opt.param_groups:
        group["lr"] *= 0.5
"""

ONE_BATCH = """
x, y = batch()
opt = torch.optim.SGD(model.parameters(), lr=0.01)
with device.capture(None):
    loss = F.mse_loss(model(x), y)
    loss.backward()
for step in range(20):
    device.replay()
    opt.step()
    new = batch()
    if step % 5 == 0:
        F.mse_loss(model(new[0]).detach(), new[1]).item()
"""


def said(bench, source):
    bench.write("train.py", DEVICE + source)
    ended = bench.observed("train.py")
    assert ended.status == 0, ended.err
    return ended.err


def line_of(source):
    return next(n for n, line in enumerate((DEVICE + source).splitlines(), 1) if line.endswith("#!"))


@pytest.mark.parametrize(
    ("source", "title", "fix"),
    [
        (
            REBOUND,
            "BS169 The captured graph never sees the new `x` and `y`: each replay reads the tensors of the capture.",
            "new_x, new_y = batch(), then x.copy_(new_x); y.copy_(new_y).",
        ),
        (
            OF_AN_OBJECT,
            "BS169 The captured graph never sees the new `self.x` and `self.y`: each replay reads the tensors of the",
            "self.x.copy_(new_x); self.y.copy_(new_y).",
        ),
        (
            OUTDATED,
            "BS170 The learning rate of opt stays 0.001 in the captured graph, whatever it changes to.",
            "opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01, device='cpu'), capturable=True).",
        ),
    ],
)
def test_what_a_replay_does_not_see_is_told(bench, source, title, fix):
    text = " ".join(said(bench, source).split())
    assert f"warning {title}" in text and text.count("warning") == 1
    assert f" train.py:{line_of(source)} " in text
    assert fix in text


@pytest.mark.parametrize("source", [COPIED, CAPTURED_ANEW, ONE_BATCH])
def test_nothing_is_said_of_what_is_copied_or_captured_anew(bench, source):
    assert "nothing found" in said(bench, source)
