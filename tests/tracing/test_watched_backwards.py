"""Every backward is noted, with its line, what it left, and which nodes were there before it."""

import pytest
import torch
from marked_lines import line
from torch import nn

import backsight as bs

both_levels = pytest.mark.parametrize("level", ["lines", "exact"])


asks = pytest.mark.skipif(
    "handle_torch_function" not in torch.autograd.backward.__code__.co_names,
    reason="torch.autograd.backward asks no mode in this PyTorch: at the exact level only Tensor.backward is noted",
)


@pytest.mark.parametrize("level", ["lines", pytest.param("exact", marks=asks)])
def test_each_backward_has_a_line_and_a_number(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        (x * 2).sum().backward()  # method
        torch.autograd.backward((x * 3).sum())  # function
        torch.autograd.grad((x * 4).sum(), x)  # grad
    here = test_each_backward_has_a_line_and_a_number
    assert [(each.index, each.call, each.line.line) for each in watch.backwards] == [
        (0, "backward", line("method", here)),
        (1, "backward", line("function", here)),
        (2, "grad", line("grad", here)),
    ]


@both_levels
def test_what_a_backward_leaves(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        x.exp().sum().backward()
        loss = x.exp().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        torch.autograd.grad(x.exp().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    assert [(each.freed, each.done) for each in watch.backwards] == [
        (True, True),
        (False, True),
        (True, True),
        (False, True),
        (False, False),
    ]


@both_levels
def test_a_node_is_older_than_the_first_backward_after_it(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        carried = bs.graph(x.exp()).nodes[0]
        for _ in range(2):
            fresh = bs.graph(x.sin()).nodes[0]
            x.cos().sum().backward()
        last = bs.graph(x.tan()).nodes[0]
        assert watch.backward_before(carried).index == 0
        assert watch.backward_before(fresh).index == 1
        assert watch.backward_before(last) is None


@both_levels
def test_a_backward_within_a_backward_belongs_to_it(level):
    layer = nn.Linear(2, 2)
    with bs.watch(level=level) as watch:
        h = torch.utils.checkpoint.checkpoint(layer, torch.ones(1, 2, requires_grad=True), use_reentrant=True)
        h.sum().backward()
    assert [each.index for each in watch.backwards] == [0]


@both_levels
def test_nodes_of_a_differentiable_backward_have_its_line(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        y = x.pow(3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)  # differentiable
        graph = bs.graph(g)
    here = line("differentiable", test_nodes_of_a_differentiable_backward_have_its_line)
    assert watch.line_of(graph.nodes[0]).line == here


def test_only_the_latest_are_kept(monkeypatch):
    from backsight.tracing import backwards

    monkeypatch.setattr(backwards, "KEPT", 3)
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        old = bs.graph(x * 2).nodes[0]
        for _ in range(5):
            x.sum().backward()
        recent = bs.graph(x * 2).nodes[0]
        x.sum().backward()
        assert [each.index for each in watch.backwards] == [3, 4, 5]
        assert watch.backward_before(old) is None, "which was the first after it is forgotten"
        assert watch.backward_before(recent).index == 5
