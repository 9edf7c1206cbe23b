"""What changed a tensor in place: which call, on which line, through which versions."""

import warnings

import pytest
import torch
from columns import needs_columns
from marked_lines import line
from torch import nn

import backsight as bs
from backsight.tracing import hooks


def told(watch, tensor, since=None):
    return [(each.op, each.kind, each.before, each.after) for each in watch.changes(tensor, since)]


def test_methods_operators_and_indices():
    with bs.watch(level="exact") as watch:
        h = torch.zeros(3, 3)
        h.add_(1)  # method
        h += 2  # operator
        h[:, 0] = 0  # index
        h.t()[1].mul_(3)  # view
        changes = watch.changes(h)
    here = test_methods_operators_and_indices
    assert [each.op for each in changes] == ["add_", "add_", "__setitem__", "mul_"]
    assert [each.line.line for each in changes] == [line(m, here) for m in ("method", "operator", "index", "view")]
    assert [(each.before, each.after) for each in changes] == [(n, n + 1) for n in range(4)]
    assert changes[1].line.text == "h += 2"


def test_results_written_into_a_tensor():
    with bs.watch(level="exact") as watch:
        result = torch.empty(3)
        torch.add(torch.ones(3), 1, out=result)
        assert told(watch, result) == [("add", "out", 0, 1)]


def test_many_at_once():
    with bs.watch(level="exact") as watch:
        a, b = torch.ones(3), torch.ones(3)
        torch._foreach_mul_([a, b], 2.0)
        assert told(watch, a) == told(watch, b) == [("_foreach_mul_", "in place", 0, 1)]


def test_functions_written_in_python():
    with bs.watch(level="exact") as watch:
        h = torch.ones(3) * 1
        nn.functional.relu(h, inplace=True)
        (change,) = watch.changes(h)
    assert (change.op, change.before, change.after) == ("relu", 0, 1)


@needs_columns
def test_through_modules_and_utilities():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    with bs.watch(level="exact") as watch:
        hidden = model[0](torch.ones(1, 2))
        model[1](hidden).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert [(each.op, each.via) for each in watch.changes(hidden)] == [("relu", "ReLU.forward")]
        assert [each.via for each in watch.changes(model[0].weight.grad)] == ["clip_grad_norm_"]


def test_a_change_through_data_is_not_in_the_tensors_own_version():
    with bs.watch(level="exact") as watch:
        weight = nn.Parameter(torch.ones(3))
        weight.data.clamp_(max=0.5)
        weight.data[0] = 7
        assert weight._version == 0
        assert told(watch, weight) == [("clamp_", "data", 0, 1), ("__setitem__", "data", 0, 1)]


@pytest.mark.parametrize("level", ["calls", "lines", "exact"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("foreach", [False, True])
def test_steps_of_an_optimizer_are_one_change(level, optimizer, foreach):
    model = nn.Linear(2, 1)
    opt = optimizer(model.parameters(), lr=0.1, foreach=foreach)
    with bs.watch(level=level) as watch:
        before = model.weight._version
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            opt.step()  # step
        (change,) = watch.changes(model.weight)
    assert (change.op, change.kind, change.count) == (f"{optimizer.__name__}.step()", "optimizer", 3)
    assert (change.before, change.after) == (before, model.weight._version)
    assert change.line.line == line("step", test_steps_of_an_optimizer_are_one_change)


def test_a_step_with_a_closure_is_looked_into():
    weight = nn.Parameter(torch.ones(2))
    opt = torch.optim.LBFGS([weight], max_iter=2)
    with bs.watch(level="exact") as watch:

        def closure():
            opt.zero_grad()
            loss = weight.square().sum()  # closure
            loss.backward()
            return loss

        opt.step(closure)
    assert {each.line.function.split(".")[-1] for each in watch.backwards} == {"closure"}


def test_only_what_came_after_a_version():
    with bs.watch(level="exact") as watch:
        h = torch.zeros(3)
        for _ in range(2):
            h.add_(1)
        h.mul_(2)
        h.sub_(3)
        assert told(watch, h, since=2) == [("mul_", "in place", 2, 3), ("sub_", "in place", 3, 4)]


def test_a_change_tells_which_nodes_are_older():
    w = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        before = w * 2
        for _ in range(2):
            with torch.no_grad():
                w.add_(1)
            after = w * 3
        (change,) = watch.changes(w)
    older, newer = (bs.graph(each.sum()).nodes[1].sequence for each in (before, after))
    assert (change.count, change.after) == (2, 2)
    assert older < change.mark == newer


def test_what_was_not_seen_is_said():
    with bs.watch(level="exact") as watch:
        h = torch.zeros(3)
        h.add_(1)
        with torch._C.DisableTorchFunction():
            h.add_(1)
        h.mul_(2)
        changes = watch.changes(h)
    assert [(each.kind, each.before, each.after) for each in changes] == [
        ("in place", 0, 1),
        ("unseen", 1, 2),
        ("in place", 2, 3),
    ]
    assert changes[1].line is None


def test_the_error_of_a_changed_tensor_leads_to_its_change():
    with bs.watch(level="exact") as watch:
        x = torch.ones(3, requires_grad=True)
        h = (x * 2).sigmoid()
        h[0] = 0  # culprit
        saved = next(s for node in bs.graph(h.sum()).nodes for s in node.saved if s.state == "modified")
        (change,) = watch.changes(saved.storage, since=saved.expected)
    assert change.line.line == line("culprit", test_the_error_of_a_changed_tensor_leads_to_its_change)


def test_hooks_and_backwards_are_looked_into():
    x = torch.ones(3, requires_grad=True)
    seen = []
    with bs.watch(level="exact") as watch:
        y = x * 2

        def scale(gradient):
            seen.append(gradient)
            gradient.mul_(0.5)  # in hook

        y.register_hook(scale)
        y.exp().sum().backward()
        (change,) = watch.changes(seen[0])
    assert change.line.line == line("in hook", test_hooks_and_backwards_are_looked_into)


def test_a_watch_that_another_thread_lets_idle_amid_a_step_does_no_harm(monkeypatch):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    innermost = hooks.innermost
    with warnings.catch_warnings(), bs.watch() as watch:
        warnings.simplefilter("error")

        def idle(frame):
            watch._steps.idle()
            return innermost(frame)

        monkeypatch.setattr(hooks, "innermost", idle)
        weight.sum().backward()
        optimizer.step()
    assert watch.steps.count == 1
