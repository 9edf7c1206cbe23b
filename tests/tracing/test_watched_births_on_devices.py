"""On a device values are not waited for at each operation. What is told is in `test_watched_births.py`."""

from __future__ import annotations

import pytest
import torch

import backsight as bs
from backsight.tracing import births, marks


@pytest.fixture(autouse=True)
def far(monkeypatch):
    """Treat tensors of the CPU as if to read them were to wait for a device."""
    monkeypatch.setattr(births, "is_near", lambda tensor: False)


def test_of_a_result_that_is_gone_the_operation_is_told():
    with bs.watch(nonfinite=True) as watch:
        torch.div(torch.ones(2), torch.zeros(2))
    (birth,) = watch.nonfinite
    assert (birth.kind, birth.op, birth.bad, birth.total) == ("inf", "div", 0, 2)
    assert [each.shape for each in birth.operands] == [(2,), (2,)]


def test_nothing_is_read_before_a_backward_begins_and_then_all_at_once(monkeypatch):
    reads = []
    fetched = marks.Marks.fetched
    monkeypatch.setattr(marks.Marks, "fetched", lambda self: reads.append(len(self)) or fetched(self))
    x = torch.ones(3, requires_grad=True)
    with bs.watch(nonfinite=True) as watch:
        loss = (x * 2 + 1).exp().sum()
        assert reads == []
        loss.backward()
        assert len(reads) == 1
        assert watch.nonfinite == ()
    assert len(reads) == 2
    assert all(count >= 4 for count in reads)


def test_marks_do_not_pile_up_without_a_backward(monkeypatch):
    monkeypatch.setattr(births, "MOST", 10)
    x = torch.ones(3)
    with bs.watch(nonfinite=True) as watch:
        for _ in range(50):
            x = x * 1.5
            assert len(watch._births._marks) <= 12
    assert watch.nonfinite == ()


def test_a_tensor_is_asked_about_once_until_it_is_modified():
    asked = marks.Marks()
    x = torch.ones(3)
    assert asked.of(x) == asked.of(x) == 0
    x.mul_(torch.nan)
    assert asked.of(x) == 1
    assert [marks.state_of(mark, asked.fetched()) for mark in (0,)] == [marks.FINITE]
    assert marks.state_of(asked.of(x), []) == marks.NAN


@pytest.mark.parametrize(
    ("values", "state"),
    [([1.0], 0), ([1.0, float("nan")], 1), ([float("inf"), 0.0], 2), ([float("-inf"), float("nan")], 1)],
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64], ids=str
)
def test_a_mark_tells_nan_from_infinity(values, state, dtype):
    asked = marks.Marks()
    mark = asked.of(torch.tensor(values, dtype=dtype))
    assert marks.state_of(mark, asked.fetched()) == state


def test_the_largest_numbers_are_finite():
    asked = marks.Marks()
    found = [asked.of(torch.full((1000,), torch.finfo(d).max, dtype=d)) for d in (torch.half, torch.float64)]
    numbers = asked.fetched()
    assert [marks.state_of(mark, numbers) for mark in found] == [0, 0]


def test_of_what_has_no_values_here_nothing_is_asked():
    asked = marks.Marks()
    assert asked.of(torch.ones(3, device="meta")) < 0
    assert asked.of(torch.ones(0)) < 0
    torch.vmap(lambda x: [asked.of(x), x][1])(torch.ones(2, 3))
    assert len(asked) == 0


class Cleared(torch.autograd.Function):
    """A backward that gives back what it saved before it returns, as that of a compiled function does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        ctx.maybe_clear_saved_tensors()
        return gradient / (x * 0)


def test_a_backward_that_gives_back_what_it_saved_is_watched():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(nonfinite=True) as watch:
        Cleared.apply(x).sum().backward()
    assert ("backward", "inf", "DivBackward0") not in {(each.phase, each.kind, each.op) for each in watch.nonfinite}
    assert [(each.phase, each.kind, each.op) for each in watch.nonfinite][-1] == ("backward", "inf", "ClearedBackward")
