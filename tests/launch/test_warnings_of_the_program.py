"""What PyTorch warns of says the program's own lines, once, as under plain Python."""

import re

import pytest

WARNS = """
import torch, torch.nn.functional as F
from torch import nn

x = torch.ones(2, requires_grad=True)

def helper():
    return F.mse_loss(torch.ones(2, requires_grad=True), torch.ones(2, 1))

def train():
    helper()
    float(x.sum())
    torch.tensor(x)
    torch.range(0, 2)
    F.softmax(x)
    nn.Softmax()(x)
    F.l1_loss(torch.ones(2), torch.ones(2, 1), size_average=True)
    torch.meshgrid(x.detach(), x.detach())
    torch.ones(2, 3, 4).T
    torch.cross(torch.ones(3, 3), torch.ones(3, 3))
    torch.ones(1).storage().size()
    torch.ones(4).resize(2)
    torch.add(torch.ones(2), 2, torch.ones(2))
    torch.mul(torch.ones(2), torch.ones(2), out=torch.ones(3))
    torch.ones(2)[torch.tensor([1, 0], dtype=torch.uint8)]
    F.kl_div(torch.zeros(1, 2), torch.ones(1, 2) / 2)
    optimizer = torch.optim.SGD([x], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    schedule.step()
    optimizer.step()

for _ in range(2):
    train()
"""


@pytest.mark.parametrize("flags", [(), ("-W", "always")], ids=["once a line", "always"])
def test_they_are_the_same_in_the_same_order(bench, flags):
    bench.write("train.py", WARNS)
    plain, ended = bench.python("train.py", flags=flags), bench.observed("--quiet", "train.py", flags=flags)
    assert plain.err.count("Warning: ") >= 12
    explanation = re.compile(r"\nbacksight explains\n-+\n.*?\n  (fix|at)[: ][^\n]*\n(  [^\n]*\n)*(?!  )", re.DOTALL)
    assert explanation.sub("", ended.err) == plain.err


def test_of_a_file_that_was_left_open_all_lines_are_there(bench):
    source = """
import torch

def leave():
    open(__file__)

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
weight.square().sum().backward()
optimizer.step()
leave()
"""
    bench.write("train.py", source)
    flags = ("-W", "always::ResourceWarning")
    plain, ended = bench.python("train.py", flags=flags), bench.observed("--quiet", "train.py", flags=flags)
    assert "\nResourceWarning: Enable tracemalloc" in plain.err and ended.err == plain.err
