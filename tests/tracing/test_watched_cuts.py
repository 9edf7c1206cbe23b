"""Where a gradient ended: what cut a tensor that requires none off from those that did."""

import weakref

import numpy as np
import pytest
import torch
from columns import needs_columns
from marked_lines import line
from torch import nn

import backsight as bs
from backsight import tracing


def cut_by(watch, tensor):
    return [(each.by, each.op, each.operand) for each in watch.severed(tensor)]


@pytest.fixture
def x():
    return torch.ones(3, requires_grad=True)


@needs_columns
def test_by_detaching(x):
    with bs.watch(level="exact") as watch:
        h = (x * 2).detach()  # detached
        loss = (h + 1).mean()
    (cut,) = watch.severed(loss)
    assert (cut.by, cut.op, cut.operand) == ("detach", "detach", "x * 2")
    assert cut.line.line == line("detached", test_by_detaching)


@needs_columns
def test_by_data(x):
    with bs.watch(level="exact") as watch:
        y = x * 2
        loss = y.data.sum()
    assert cut_by(watch, loss) == [("data", ".data", "y")]


@needs_columns
def test_by_a_grad_mode(x):
    with bs.watch(level="exact") as watch:
        with torch.no_grad():
            quiet = x.exp().sum()
        with torch.inference_mode():
            inferred = x.exp()
        assert cut_by(watch, quiet) == [("no_grad", "exp", "x")]
        assert cut_by(watch, inferred) == [("inference", "exp", "x")]


@needs_columns
def test_by_a_dtype_that_has_no_gradient(x):
    with bs.watch(level="exact") as watch:
        accuracy = (x.argmax(-1) == 1).float().mean()
        rounded = x.long().float()
    assert cut_by(watch, accuracy) == [("integer", "argmax", "x")]
    assert watch.severed(rounded)[0].dtype == "int64"


def test_by_wrapping_anew(x):
    with bs.watch(level="exact") as watch, pytest.warns(UserWarning, match="copy construct"):
        loss = torch.tensor((x * 2).sum())
    assert [each.by for each in watch.severed(loss)] == ["rewrapped"]


@needs_columns
def test_by_a_number_that_came_back(x):
    with bs.watch(level="exact") as watch:
        loss = torch.tensor(x.sum().item())
        losses = torch.tensor([each.item() for each in x]).mean()
    assert cut_by(watch, loss) == [("item", "item", "x.sum()")]
    assert cut_by(watch, losses) == [("item", "item", "each")]


@needs_columns
def test_by_an_array_that_came_back(x):
    with bs.watch(level="exact") as watch:
        array = x.detach().numpy()
        loss = torch.from_numpy(array).sum()
    assert cut_by(watch, loss) == [("numpy", "numpy", "x.detach()")]


@needs_columns
def test_departures_tell_what_was_computed_in_python(x):
    with bs.watch(level="exact") as watch:
        value = x.sum().item() * 2  # left
        array = np.log(x.detach().numpy())
        torch.tensor(value), torch.tensor(array), torch.ones(2).tolist()
    assert [(each.by, each.operand) for each in watch.departures] == [("item", "x.sum()"), ("numpy", "x.detach()")]
    assert watch.departures[0].line.line == line("left", test_departures_tell_what_was_computed_in_python)


def test_each_line_departs_once(x):
    with bs.watch(level="exact") as watch:
        for _ in range(10):
            float(x.sum())
    assert len(watch.departures) == 1


@needs_columns
def test_several_cuts_the_nearest_first(x):
    with bs.watch(level="exact") as watch:
        a = x.exp().detach()
        loss = a.sum() + (x * a).sum().detach()
    assert [each.operand for each in watch.severed(loss)] == ["x.exp()", "(x * a).sum()"]


def test_what_a_module_computed_without_gradients():
    model = nn.Linear(2, 2)
    with bs.watch(level="exact") as watch:
        with torch.no_grad():
            h = model(torch.ones(1, 2))  # frozen
        loss = h.sum()
    assert watch.severed(loss)[0].line.line == line("frozen", test_what_a_module_computed_without_gradients)


def test_what_has_a_gradient_or_never_had_one_is_not_cut(x):
    with bs.watch(level="exact") as watch:
        whole, constant = (x * 2).sum(), torch.ones(3).sum()
    assert watch.severed(whole) == watch.severed(constant) == ()


@needs_columns
def test_a_buffer_knows_what_it_was_filled_from(x):
    with bs.watch(level="exact") as watch:
        average = torch.zeros(3)
        with torch.no_grad():
            average.mul_(0.9).add_(x)
        assert cut_by(watch, average) == [("no_grad", "add_", "x")]


@needs_columns
def test_an_operand_that_was_given_by_name(x):
    with bs.watch(level="exact") as watch:
        cut = torch.detach(input=x * 2)
        loss = torch.add(torch.ones(3), other=cut).sum()
    assert cut_by(watch, loss) == [("detach", "detach", "x * 2")]


def test_a_tensor_without_memory_is_not_asked_for_it():
    weight = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as watch:
        kept = (weight * 2).detach().numpy()
        torch.vmap(lambda each: (each.detach() * 2).sum())(torch.ones(2, 3))
        again, later = torch.from_numpy(kept), (weight * 3).detach()
    assert [each.by for each in watch.severed(again)] == ["numpy"]
    assert [each.by for each in watch.severed(later)] == ["detach"]


def weighed(weight, given):
    return weight * given  # weighs


def under_a_block(weight, given):
    with torch.no_grad():
        return weighed(weight, given)  # evaluates


def test_what_runs_without_gradients_knows_its_callers(x):
    with bs.watch(level="exact") as watch:
        cut = under_a_block(x, torch.ones(3))  # begins
    (found,) = watch.severed(cut)
    here = test_what_runs_without_gradients_knows_its_callers
    assert found.line.line == line("weighs", weighed)
    assert [each.line for each in found.callers[:2]] == [line("evaluates", under_a_block), line("begins", here)]
    assert found.callers[0].function.endswith("under_a_block")


def test_each_tensor_knows_its_own_callers(x):
    frozen = torch.no_grad()(weighed)
    with bs.watch(level="exact") as watch:
        first = under_a_block(x, torch.ones(3))
        second = frozen(x, torch.ones(3))  # decorated
    here = test_each_tensor_knows_its_own_callers
    assert watch.severed(first)[0].callers[0].line == line("evaluates", under_a_block)
    assert watch.severed(second)[0].callers[0].line == line("decorated", here)


def test_callers_are_looked_at_again_after_a_backward(x):
    with bs.watch(level="exact") as watch:
        for _ in range(100):
            last = under_a_block(x, torch.ones(3))
        assert watch.severed(last)[0].callers == ()
        (x * 2).sum().backward()
        assert watch.severed(under_a_block(x, torch.ones(3)))[0].callers


def test_the_frames_of_callers_are_not_kept(x):
    class Held:
        pass

    def run():
        held = Held()
        return weakref.ref(held), under_a_block(x, torch.ones(3))

    with bs.watch(level="exact") as watch:
        held, cut = run()
        assert watch.severed(cut)[0].callers
        assert held() is None


def test_a_tensor_of_inference_mode_and_its_views_know_where_it_was_made():
    with bs.watch(level="exact") as watch:
        with torch.inference_mode():
            made = torch.ones(4) * 2  # made
        view, copy = made.split(2)[0][:1], made.clone()
    here = test_a_tensor_of_inference_mode_and_its_views_know_where_it_was_made
    assert tracing.inferred(watch, made).line.line == line("made", here)
    assert tracing.inferred(watch, view) == tracing.inferred(watch, made)
    assert tracing.inferred(watch, copy) is None
