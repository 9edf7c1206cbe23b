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


PROGRAMS = {"patched": PATCHED, "numbers": NUMBERS, "traced": TRACED, "blamed": BLAMED, "clipped": CLIPPED}


@pytest.mark.parametrize("record", [(), ("--record",)], ids=["watched", "recorded"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_ends_and_prints_as_under_plain_python(bench, program, record):
    bench.write("train.py", program)
    plain, ended = bench.python("train.py"), bench.observed("--quiet", *record, "train.py")
    assert (ended.status, ended.out) == (plain.status, plain.out), ended.err
    assert "backsight/" not in ended.err
