"""Programs that could tell that they were watched, each of them found by somebody who tried to: now they cannot."""

import pytest

PATCHED = """
import torch, torch.nn.functional as F

torch.manual_seed(0)
plain_loss, plain_backward = F.cross_entropy, torch.Tensor.backward
F.cross_entropy = lambda *given, **named: 2 * plain_loss(*given, **named)

def backward(self, *given, **named):
    print("backward")
    return plain_backward(self * 2, *given, **named)

class Counted:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *given, **named):
        self.calls += 1
        return self.function(*given, **named)

torch.Tensor.backward = backward
F.dropout, F.mse_loss = Counted(F.dropout), Counted(F.mse_loss)
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.ones(2, 3)), torch.tensor([0, 1]))
    loss = loss + F.mse_loss(F.dropout(model(torch.ones(2, 3)), 0.5), torch.zeros(2, 2))
    loss.backward()
    optimizer.step()
    print(loss.item())
print(model.weight.sum().item(), F.dropout.calls, F.mse_loss.calls)
"""

NUMBERS = """
import io, torch
model = torch.nn.utils.weight_norm(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.nn.utils.spectral_norm(torch.nn.Linear(2, 2))
for _ in range(5):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print(model.register_forward_hook(print).id, model.weight.register_hook(print).id)
"""

TRACED = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    print(torch.jit.trace(model, torch.ones(3, 4)).graph)
"""

BLAMED = """
import warnings, torch
warnings.filterwarnings("error", module="__main__", message=".*Full backward hook.*")
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
model[0].register_full_backward_hook(lambda *given: None)
model(torch.ones(2, 3)).sum().backward()
"""


CLIPPED = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(5):
    x = torch.randn(6, 4)
    loss = (1 - model(x)).square().mean() + 1 / (1 + model(x).exp()).sum() + (2 ** model(x)).mean()
    loss = loss + 7 // (x.abs().sum() + 1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(loss.item(), [p.sum().item() for p in model.parameters()])
"""


PATCHED_METHODS = """
import gc, torch

plain, shape = torch.Tensor.square, torch.Tensor.T
torch.Tensor.square = lambda self: plain(self) * 2
torch.Tensor.T = property(lambda self: shape.__get__(self) + 1)
gc.freeze()
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).T.square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""

FROZEN = PATCHED.replace("import torch,", "import gc, torch,").replace(
    "torch.manual_seed(0)", "torch.manual_seed(0); gc.freeze()"
)

WITHOUT_VALUES = """
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map_only

class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map_only(Wrapper, lambda each: each.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapper, func(*args, **kwargs))

weight = torch.nn.Parameter(Wrapper(torch.ones(8)))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weight * 2).sum().backward()
    optimizer.step()
print(weight.inner.sum())
with FakeTensorMode():
    larger = torch.nn.Linear(2, 2)
    larger(torch.ones(1, 2)).sigmoid().sum().backward()
print(larger.weight.grad)
"""

JOINED = """
import threading, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print(threading.active_count())
"""

CLOSED = """
import os, time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())

def train():
    for _ in range(10):
        model(torch.ones(8, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    time.sleep(0.5)

train()
os.closerange(3, 256)
files = [open(f"mine-{number}", "wb") for number in range(16)]
train()
for file in files:
    file.close()
print([os.path.getsize(file.name) for file in files])
"""


SEES_CALLS = """
import torch
from torch.overrides import TorchFunctionMode
calls = 0

class Counts(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        global calls
        calls += 1
        return function(*args, **(kwargs or {}))

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    with Counts():
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(calls)
"""


PROGRAMS = {
    "sees calls": SEES_CALLS,
    "patched methods": PATCHED_METHODS,
    "frozen": FROZEN,
    "without values": WITHOUT_VALUES,
    "joined": JOINED,
    "closed": CLOSED,
    "patched": PATCHED,
    "numbers": NUMBERS,
    "traced": TRACED,
    "blamed": BLAMED,
    "clipped": CLIPPED,
}


plainly = {}
"""How each program ends under plain Python, once it has run."""


@pytest.mark.parametrize("record", [(), ("--record",), ("--nonfinite",)], ids=["watched", "recorded", "births"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_ends_and_prints_as_under_plain_python(bench, program, record):
    bench.write("train.py", program)
    ended = bench.to_the_end.observed("--quiet", *record, "train.py")
    if program not in plainly:
        plainly[program] = bench.to_the_end.python("train.py")
    plain = plainly[program]
    assert (ended.status, ended.out) == (plain.status, plain.out), ended.err
    assert "backsight/" not in ended.err
