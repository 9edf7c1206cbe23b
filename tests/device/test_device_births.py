"""Where NaN and infinities of a device come from, told without waiting for the device at each operation."""

from __future__ import annotations

import gc

import pytest
import torch
from at_hand import DEVICE, REHEARSAL, Waits, finished, only_there
from torch import nn

import backsight as bs
from backsight.tracing import births

pytestmark = pytest.mark.device("the origins of NaN on CUDA")


@pytest.fixture(autouse=True)
def as_on_a_device(monkeypatch):
    """The rehearsal treats tensors of the CPU as those of a device."""
    if REHEARSAL:
        monkeypatch.setattr(births, "is_near", lambda tensor: False)


def told(watch):
    return [(each.phase, each.kind, each.op) for each in watch.nonfinite]


def test_in_the_forward_pass_with_the_value_that_caused_it():
    with bs.watch(nonfinite=True) as watch:
        probabilities = torch.tensor([0.5, 0.0, 1.0], device=DEVICE)
        logs = torch.log(probabilities)
        (logs * 2).exp()
    (birth,) = watch.nonfinite
    assert (birth.phase, birth.kind, birth.op, birth.bad, birth.total) == ("forward", "inf", "log", 1, 3)
    assert birth.line.text.startswith("logs = torch.log")
    assert [(each.text, each.at) for each in birth.operands] == [("probabilities", (0.0,))]


def test_in_a_backward_with_the_value_that_caused_it():
    x = torch.tensor([4.0, 0.0], device=DEVICE, requires_grad=True)
    with bs.watch(nonfinite=True) as watch:
        root = x.sqrt()
        torch.where(x > 0, root, torch.zeros_like(x)).sum().backward()
    (birth,) = watch.nonfinite
    assert (birth.phase, birth.kind, birth.op) == ("backward", "nan", "SqrtBackward0")
    assert birth.line.text.startswith("root = x.sqrt()")
    assert birth.incoming == (0.0,)
    assert [(each.text, each.at) for each in birth.operands] == [("x.sqrt()", (0.0,))]


def test_overflow_of_a_half():
    with bs.watch(nonfinite=True) as watch:
        torch.full((2,), 60000.0, dtype=torch.float16, device=DEVICE) * 2
    assert told(watch) == [("forward", "inf", "mul")]


def test_only_the_first_of_what_follows_is_told():
    x = torch.zeros(2, device=DEVICE, requires_grad=True)
    with bs.watch(nonfinite=True) as watch:
        ((x * 0).sqrt() * 1.0).sum().backward()
    assert told(watch) == [("backward", "inf", "SqrtBackward0"), ("backward", "nan", "MulBackward0")]


def step_of(depth):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(depth))).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 16, device=DEVICE)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def test_waits_do_not_grow_with_the_operations(record_property):
    counts = []
    for depth in (4, 60):
        step = step_of(depth)
        with bs.watch(nonfinite=True) as watch:
            step()
            with Waits() as waits:
                for _ in range(4):
                    step()
        assert told(watch) == []
        counts.append(waits.count / 4)
    assert counts[0] == counts[1] <= 2, waits.told
    record_property("told", f"{counts[1]:g} waits in a step of 60 layers")


@only_there
def test_pytorch_sees_no_synchronizing_operation():
    step = step_of(10)
    with bs.watch(nonfinite=True):
        step()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(3):
                step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_weights_have_the_same_bits():
    def trained(watched):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4)).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters())
        for number in range(4):
            x = torch.full((8, 16), 0.1 * number, device=DEVICE)
            with bs.watch(nonfinite=watched):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return [each.detach().cpu() for each in model.parameters()]

    assert all(torch.equal(one, other) for one, other in zip(trained(False), trained(True), strict=True))


@only_there
def test_the_capture_of_a_cuda_graph_stays_whole():
    x = torch.zeros(100, device=DEVICE)
    with bs.watch(nonfinite=True):
        x.log()
        finished()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = (x - 1).sqrt() * 2
        graph.replay()
    finished()
    assert bool(y.isnan().all())


def test_no_memory_is_held():
    step = step_of(3)
    step()
    finished()
    before = 0 if REHEARSAL else torch.cuda.memory_allocated()
    with bs.watch(nonfinite=True):
        for _ in range(3):
            step()
    finished()
    gc.collect()
    assert (0 if REHEARSAL else torch.cuda.memory_allocated()) == before
