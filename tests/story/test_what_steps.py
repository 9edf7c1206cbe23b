"""Which statements step an optimizer: by what the names stand for, whatever they are."""

from __future__ import annotations

import linecache
import types

import pytest
import torch

from backsight.source import function_at
from backsight.story.sections import Section
from backsight.story.stepping import is_optimizer, optimizer_steps


class NoamOpt:
    """Like an optimizer, and none of PyTorch's."""

    def step(self): ...

    def zero_grad(self): ...


class Simulator:
    def step(self): ...


def section(source, **variables):
    name = f"<stepping {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return Section(function_at(compile(source, name, "exec")), (), variables, {})


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


@pytest.mark.parametrize("name", ["optimizer", "simclr_opt", "schedule_free", "tracker", "environment_model_opt"])
def test_an_optimizer_is_one_whatever_it_is_called(name):
    assert [place.text for place in optimizer_steps(section(f"{name}.step()\n", **{name: optimizer()}))] == [
        f"{name}.step()"
    ]


def test_what_else_is_stepped_is_none_whatever_it_is_called():
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer(), 3)
    variables = {"opt": Simulator(), "optimizer2": scheduler, "my_optimizer": torch.profiler.profile()}
    source = "".join(f"{name}.step()\n" for name in variables)
    assert optimizer_steps(section(source, **variables)) == ()


def test_of_entries_attributes_and_scalers():
    trainer = types.SimpleNamespace(optimizers={"g": optimizer()}, scaler=torch.amp.GradScaler("cpu"))
    source = 'self.optimizers["g"].step()\nself.scaler.step(self.optimizers["g"])\nself.scaler.update()\n'
    assert len(optimizer_steps(section(source, self=trainer))) == 2


def test_one_that_is_gone_may_have_been_an_optimizer_and_nothing_that_took_an_argument():
    source = "gone.step()\nenv.step(action)\n"
    assert [place.text for place in optimizer_steps(section(source))] == ["gone.step()"]


def test_a_class_of_the_user_s_that_steps_and_zeroes_gradients_is_one():
    assert is_optimizer(NoamOpt())
    assert not is_optimizer(Simulator())
    assert not is_optimizer(None)
