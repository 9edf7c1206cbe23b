"""Optimizers that are not PyTorch's: tried on small parameters, and accepted or refused with the reason."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import torch
from loops import INFINITE, assert_same, gpt, loss_of, mlp, square, train
from torch import optim

from backsight.gradient_release import NotReleasable, release


class Counting(optim.Optimizer):
    """Momentum with a schedule, counted in the group, in an attribute, and in the state."""

    def __init__(self, params, lr=0.1, warmup=3.0):
        super().__init__(params, {"lr": lr, "warmup": warmup})
        self.calls = 0
        self.history = []

    @torch.no_grad()
    def step(self, closure=None):
        self.calls += 1
        self.history.append(self.calls)
        self.state["total"] = self.state.get("total", 0) + 1
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            rate = group["lr"] * min(1.0, group["step"] / group["warmup"]) / self.calls**0.5
            for parameter in group["params"]:
                if parameter.grad is not None:
                    momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                    momentum.lerp_(parameter.grad, 0.1)
                    parameter.data.add_(momentum, alpha=-rate)


class GlobalNorm(optim.SGD):
    """Divides by the norm of all gradients together."""

    @torch.no_grad()
    def step(self, closure=None):
        held = [each for group in self.param_groups for each in group["params"] if each.grad is not None]
        norm = torch.stack([each.grad.norm() for each in held]).norm() if held else 1.0
        for each in held:
            each.sub_(each.grad / norm, alpha=self.param_groups[0]["lr"])


class Distance(optim.SGD):
    """Estimates, in its groups, how far to go, from all gradients: what Prodigy and D-Adaptation do."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        for group in self.param_groups:
            group["distance"] = 1e-3

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            held = [each for each in group["params"] if each.grad is not None]
            group["distance"] += sum(each.grad.abs().sum().item() for each in held)
            for each in held:
                each.sub_(each.grad, alpha=group["lr"] * group["distance"])


class Noisy(optim.SGD):
    """Adds noise to each parameter, in their order."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each.sub_(each.grad + torch.randn_like(each), alpha=group["lr"])


class ByPlace(optim.SGD):
    """Goes by the places of parameters in their group."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for place, each in enumerate(group["params"]):
                if each.grad is not None:
                    each.sub_(each.grad, alpha=group["lr"] * (1 + place))


class Needing(optim.SGD):
    """Cannot be made from its defaults."""

    def __init__(self, params, lr, model):
        super().__init__(params, lr)
        self.model = model


class Subclass(optim.AdamW):
    """Calls the step of its base."""

    def step(self, closure=None):
        self.steps = getattr(self, "steps", 0) + 1
        return super().step(closure)


def trained(kind, bucket, steps=5):
    model = gpt()
    groups = [{"params": list(model.blocks.parameters())}, {"params": list(model.head.parameters()), "lr": 0.05}]
    optimizer = kind(groups, lr=0.01)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(None))
    released = train(model, optimizer, steps, bucket=bucket, loss=loss_of)
    assert released is None or released.grad_norm() > 0
    return model, optimizer, len(calls)


@pytest.mark.parametrize("kind", [Counting, ByPlace, Subclass])
@pytest.mark.parametrize("bucket", [0, "64KB", INFINITE])
def test_what_is_counted_per_step_is_counted_once(kind, bucket):
    *found, calls = trained(kind, bucket)
    *expected, expected_calls = trained(kind, None)
    assert calls == expected_calls
    if kind is Counting:
        assert found[1].state.pop("total") == expected[1].state.pop("total") == 5
        assert (found[1].calls, found[1].history) == (5, [1, 2, 3, 4, 5])
    if kind is Subclass:
        assert found[1].steps == 5
    assert_same(found, expected)


def test_the_evidence_is_kept_and_says_what_was_compared():
    released = release(Counting(mlp(8, 40, 1).parameters(), lr=0.1))
    evidence = released.evidence
    assert (evidence.known, evidence.steps, evidence.parameters, evidence.layout) == (False, 4, 4, "positions")
    compared, shown = str(evidence).split("; ")
    assert compared == (
        f"{__name__}.Counting was probed: 4 steps of 4 small parameters, made with lr=0.1, warmup=3.0, equal bit "
        "for bit to the steps of the ordinary loop in weights, state and groups"
    )
    assert re.fullmatch(
        r"no parameter's step depends on another's in \d+ steps of tiny copies up to step \d+, and \d+ runs in which a "
        r"gradient, or a value that the step reads, was replaced",
        shown,
    )
    known = release(optim.SGD(mlp(8, 40).parameters(), lr=0.1)).evidence
    assert str(known) == "torch.optim.sgd.SGD is one of torch.optim, compared bit for bit in the tests of backsight"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (
            GlobalNorm,
            r"values of several parameters flow into the step of one, at test_probe.py:\d+: `each.sub_.each.grad / ",
        ),
        (
            Distance,
            r"reads a value of one parameter into Python, and .* depends on it, at test_probe.py:\d+: `group\[.dista",
        ),
        (Noisy, r"draws random numbers, .*, at test_probe.py:\d+: `each.sub_\(each.grad \+ torch.randn_like"),
    ],
)
def test_optimizers_that_treat_their_parameters_together_are_refused_with_the_line(kind, reason):
    with pytest.raises(NotReleasable, match=f"^{kind.__name__} does not step each parameter separately: .*{reason}"):
        release(kind(mlp(8, 40, 1).parameters(), lr=0.1))


def test_one_that_cannot_be_made_anew_is_refused_until_it_is_said_how():
    model = mlp(8, 40, 1)
    optimizer = Needing(model.parameters(), 0.1, model)
    with pytest.raises(NotReleasable, match=r"^Needing cannot be probed: backsight could not create one.*Pass make="):
        release(optimizer)
    released = release(optimizer, make=lambda groups: Needing(groups, 0.1, None))
    assert released.evidence.made_with == ("make()",)


def test_settings_of_groups_that_are_no_defaults_are_passed_on_where_the_constructor_wants_them():
    class Chosen(optim.SGD):
        def __init__(self, params, lr):
            if any("use_sign" not in group for group in params):
                raise ValueError("use_sign must be set")
            super().__init__(params, lr)

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for each in group["params"]:
                    if each.grad is not None:
                        each.sub_(each.grad.sign() if group["use_sign"] else each.grad, alpha=group["lr"])

    model = mlp(8, 40, 1)
    released = release(Chosen([{"params": list(model.parameters()), "use_sign": True}], lr=0.1))
    assert "equal bit for bit" in str(released.evidence)


def test_states_that_are_objects_are_compared_by_what_they_hold():
    class Holder:
        def __init__(self):
            self.sum = 0.0

    class Holding(optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for each in group["params"]:
                    if each.grad is not None:
                        held = self.state[each].setdefault("held", Holder())
                        held.sum += each.grad.sum().item()
                        each.sub_(each.grad, alpha=group["lr"])

    assert release(Holding(mlp(8, 40, 1).parameters(), lr=0.1)).evidence.steps == 4


def test_one_whose_plain_step_fails_is_refused_with_its_failure():
    class Failing(optim.SGD):
        def step(self, closure=None):
            raise ArithmeticError("no step today")

    with pytest.raises(NotReleasable, match=r"its plain step failed with small parameters \(ArithmeticError: no step"):
        release(Failing(mlp(8, 40).parameters(), lr=0.1))


def test_the_probe_leaves_random_numbers_and_the_users_tensors_alone():
    model = mlp(8, 40, 1)
    optimizer = Counting(model.parameters())
    train(model, optimizer, 2)
    weights = [each.detach().clone() for each in model.parameters()]
    state = {key: value["momentum"].clone() for key, value in optimizer.state_dict()["state"].items() if key != "total"}
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    expected = torch.rand(1), random.random(), np.random.rand()
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    release(optimizer, 0)
    assert (torch.rand(1), random.random(), np.random.rand()) == expected
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), weights, strict=True))
    assert all(torch.equal(optimizer.state_dict()["state"][key]["momentum"], value) for key, value in state.items())
    assert (optimizer.calls, optimizer.param_groups[0]["step"]) == (2, 2)


def test_every_group_keeps_a_gradient_for_the_optimizers_own_step():
    model = mlp(8, 40, 40, 1)
    optimizer = Counting(model.parameters())
    release(optimizer, 0)
    square(model).backward()
    left = [name for name, each in model.named_parameters() if type(each.grad) is torch.Tensor]
    assert left == ["4.bias"]
