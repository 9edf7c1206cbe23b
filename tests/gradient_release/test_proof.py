"""Optimizers whose parameters hang on one another only now and then, and ones that look as if they did."""

from __future__ import annotations

import math
import random

import pytest
import torch
from loops import assert_same, decayed, mlp, square, train
from torch import optim

from backsight.gradient_release import NotReleasable, ReleaseWarning, release
from backsight.gradient_release.attributes import hand_on
from backsight.gradient_release.counters import jumps, turning_points


def with_gradient(optimizer):
    return [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]


class SkipsNan(optim.AdamW):
    """Takes no step if any gradient is not finite."""

    def step(self, closure=None):
        if all(each.grad.isfinite().all() for each in with_gradient(self)):
            super().step()


class SkipsNanByNumbers(optim.SGD):
    """The same, with a list of Python numbers."""

    def step(self, closure=None):
        numbers = [number for each in with_gradient(self) for number in each.grad.flatten().tolist()]
        if not any(math.isnan(number) for number in numbers):
            super().step()


class ClipsNumbers(optim.AdamW):
    """Clips over all parameters at 25, in Python."""

    @torch.no_grad()
    def step(self, closure=None):
        total = math.sqrt(sum(each.grad.square().sum().item() for each in with_gradient(self)))
        for each in with_gradient(self):
            each.grad.mul_(min(1.0, 25 / (total + 1e-6)))
        super().step()


class ClipsTensors(optim.AdamW):
    """Clips over all parameters at 40, without a number that Python sees."""

    @torch.no_grad()
    def step(self, closure=None):
        total = torch.stack([each.grad.norm() for each in with_gradient(self)]).norm()
        factor = torch.where(total > 40, 40 / total, torch.ones_like(total))
        for each in with_gradient(self):
            each.grad.mul_(factor)
        super().step()


class ClipsForeach(optim.SGD):
    """Clips over all parameters with PyTorch's function."""

    @torch.no_grad()
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_(with_gradient(self), 25)
        super().step()


class SkipsSmall(optim.SGD):
    """Takes no step where the norm of all gradients is small."""

    @torch.no_grad()
    def step(self, closure=None):
        if torch.stack([each.grad.norm() for each in with_gradient(self)]).norm() > 1e-7:
            super().step()


class SkipsMissing(optim.SGD):
    """Takes no step if a gradient is missing."""

    def step(self, closure=None):
        if any(each.grad is None for group in self.param_groups for each in group["params"]):
            return
        super().step()


class MasksLate(optim.SGD):
    """Draws a mask from its 700th step on."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        if self.steps > 700:
            for each in with_gradient(self):
                each.grad.mul_(torch.rand_like(each) > 0.5)
        super().step()


class ShufflesLate(optim.SGD):
    """Draws from Python's generator, each time that a setting of the group comes round."""

    def __init__(self, params, lr=0.1, every=500):
        super().__init__(params, lr)
        for group in self.param_groups:
            group.update(every=every, count=0)

    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] += 1
            if group["count"] % group["every"] == 0:
                group["last"] = random.random()
        super().step()


class MixesLate(optim.SGD):
    """Averages over all parameters from step 1000 of their state on."""

    @torch.no_grad()
    def step(self, closure=None):
        held = with_gradient(self)
        for each in held:
            self.state[each]["step"] = self.state[each].get("step", 0) + 1
            shift = sum(other.grad.mean() for other in held) if self.state[each]["step"] > 1000 else 0.0
            each.sub_(each.grad + shift, alpha=0.1)


class RemembersLast(optim.SGD):
    """Adds what is left of the parameter before, from step to step."""

    last = None

    @torch.no_grad()
    def step(self, closure=None):
        for each in with_gradient(self):
            if self.last is not None:
                each.sub_(self.last, alpha=0.01)
            self.last = each.grad.mean()
            each.sub_(each.grad, alpha=0.1)


class ShortRate(optim.Optimizer):
    """Keeps the step size of a step in a table of all groups, with the learning rate of whoever came first."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr, "table": [[None, None] for _ in range(10)]})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is None:
                    continue
                count = self.state[each]["step"] = self.state[each].get("step", 0) + 1
                kept = group["table"][count % 10]
                if kept[0] != count:
                    kept[:] = count, group["lr"] / count**0.5
                each.sub_(each.grad, alpha=kept[1])


class CountsCalls(optim.SGD):
    """Counts parameters instead of steps, and does something at the millionth."""

    calls = 0

    @torch.no_grad()
    def step(self, closure=None):
        for each in with_gradient(self):
            self.calls += 1
            each.sub_(each.grad, alpha=0.1 if self.calls % 1000003 else 0.2)


class SharesByShape(optim.SGD):
    """Keeps one momentum for all parameters of a shape."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        self.momenta = {}

    @torch.no_grad()
    def step(self, closure=None):
        for each in with_gradient(self):
            momentum = self.momenta.setdefault(each.shape, torch.zeros_like(each)).lerp_(each.grad, 0.1)
            each.sub_(momentum, alpha=0.1)


class ResetsLate(optim.SGD):
    """Forgets the momentum of all parameters at every 1000th step, those without a gradient as well."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for each in group["params"]:
                momentum = self.state[each].setdefault("momentum", torch.zeros_like(each))
                if self.steps % 1000 == 0:
                    momentum.zero_()
                if each.grad is not None:
                    each.sub_(momentum.lerp_(each.grad, 0.1), alpha=0.1)


class AveragesLate(optim.SGD):
    """Mixes momenta at every 100th step, a number of its class."""

    every = 100
    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        momenta = [self.state[each].setdefault("m", torch.zeros_like(each)) for each in with_gradient(self)]
        for each, momentum in zip(with_gradient(self), momenta, strict=True):
            each.sub_(momentum.lerp_(each.grad, 0.1), alpha=0.1)
        if self.steps % self.every == 0:
            mean = torch.stack([momentum.mean() for momentum in momenta]).mean()
            for momentum in momenta:
                momentum.add_(mean)


LATE = 4000


class ClipsFrom(optim.SGD):
    """Clips from a step on that its module names."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        if self.steps > LATE:
            torch.nn.utils.clip_grad_norm_(with_gradient(self), 1.0)
        super().step()


class SharesAtLowRates(optim.SGD):
    """Takes one sign for all parameters when a schedule has brought the learning rate down."""

    @torch.no_grad()
    def step(self, closure=None):
        signs = [each.grad.sign().mean() for each in with_gradient(self)]
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None and group["lr"] < 1e-4:
                    each.sub_(torch.stack(signs).mean(), alpha=group["lr"])
                elif each.grad is not None:
                    each.sub_(each.grad, alpha=group["lr"])


class BorrowsWhereLarge(optim.SGD):
    """Takes the gradients of all for a parameter that has grown large."""

    @torch.no_grad()
    def step(self, closure=None):
        mean = torch.stack([each.grad.mean() for each in with_gradient(self)]).sum()
        for each in with_gradient(self):
            each.sub_(each.grad + mean if each.norm().item() > 1e9 else each.grad, alpha=0.1)


class BorrowsLate(optim.SGD):
    """Takes the gradients of all when a power of its count is small."""

    @torch.no_grad()
    def step(self, closure=None):
        for each in with_gradient(self):
            count = self.state[each].setdefault("step", torch.zeros(()))
            count += 1
            gradients = [other.grad.mean() for other in with_gradient(self)]
            each.sub_(each.grad * torch.stack(gradients).sum() if 0.99 ** count.item() < 0.5 else each.grad, alpha=0.1)


class BorrowsAtLowMomentum(optim.SGD):
    """Takes the gradients of all when a schedule has brought the momentum down."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None and group["momentum"] < 0.9:
                    each.sub_(torch.stack([other.grad.mean() for other in with_gradient(self)]).sum())
                elif each.grad is not None:
                    each.sub_(each.grad, alpha=0.1)


class BorrowsAtLowPower(optim.SGD):
    """Takes the gradients of all when a power of a count that is its own is small."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for each in with_gradient(self):
            gradients = [other.grad.mean() for other in with_gradient(self)]
            each.sub_(each.grad * torch.stack(gradients).sum() if 0.99**self.steps < 0.5 else each.grad, alpha=0.1)


COUPLED = [
    (SkipsNan, r"at test_proof.py:\d+: `if all\("),
    (SkipsNanByNumbers, r"at test_proof.py:\d+: `numbers = "),
    (ClipsNumbers, r"at test_proof.py:\d+: `total = "),
    (ClipsTensors, r"at test_proof.py:\d+: `each.grad.mul_\(factor\)`.*release.clip\(max_norm\)"),
    (ClipsForeach, r"at test_proof.py:\d+: `torch.nn.utils.clip_grad_norm_"),
    (SkipsSmall, r"at test_proof.py:\d+: `if torch.stack"),
    (SkipsMissing, r"at test_proof.py:\d+: `if any\("),
    (MasksLate, r"draws random numbers.*at test_proof.py:\d+: `each.grad.mul_"),
    (ShufflesLate, r"draws random numbers"),
    (MixesLate, r"flow into the step of one, at test_proof.py:\d+: `each.sub_"),
    (RemembersLast, r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(self.last"),
    (ResetsLate, r"changes a parameter that has no gradient.*at test_proof.py:\d+: `momentum.zero_\(\)`"),
    (AveragesLate, r"flow into the step of one, at test_proof.py:\d+: `momentum.add_\(mean\)`"),
    (ClipsFrom, r"at test_proof.py:\d+: `torch.nn.utils.clip_grad_norm_"),
    (SharesAtLowRates, r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(torch.stack"),
    (BorrowsWhereLarge, r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(each.grad \+ mean"),
    (BorrowsLate, r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(each.grad \* torch"),
    (BorrowsAtLowPower, r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(each.grad \* torch"),
    (CountsCalls, r"they differ in its attribute 'calls'"),
    (SharesByShape, r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(momentum"),
    (ShortRate, r"they differ in the weight of parameter"),
]


@pytest.mark.parametrize(("kind", "line"), COUPLED, ids=lambda each: getattr(each, "__name__", None))
def test_what_couples_parameters_is_refused_with_its_line(kind, line):
    with pytest.raises(NotReleasable, match=f"^{kind.__name__} does not step each parameter separately.*{line}"):
        release(kind(decayed_without(mlp(8, 12, 12, 1)), lr=0.1), 0)


def decayed_without(model):
    return [{"params": group["params"]} for group in decayed(model)]


def test_a_momentum_that_a_schedule_may_come_to_is_looked_at():
    with pytest.raises(
        NotReleasable, match=r"flow into the step of one, at test_proof.py:\d+: `each.sub_\(torch.stack"
    ):
        release(BorrowsAtLowMomentum(mlp(8, 12, 1).parameters(), lr=0.1, momentum=0.95), 0)


class ClipsByEpoch(optim.SGD):
    """Clips from the second epoch on, which the program sets."""

    epoch = 0

    @torch.no_grad()
    def step(self, closure=None):
        if self.epoch >= 2:
            torch.nn.utils.clip_grad_norm_(with_gradient(self), 1.0)
        super().step()


def test_what_was_set_before_release_is_looked_at():
    optimizer = ClipsByEpoch(mlp(8, 12, 1).parameters(), lr=0.1)
    optimizer.epoch = 2
    with pytest.raises(NotReleasable, match=r"at test_proof.py:\d+: `torch.nn.utils.clip_grad_norm_"):
        release(optimizer, 0)


def test_copies_get_what_was_set_and_keep_their_own_sizes():
    class Sized(optim.SGD):
        def __init__(self, params):
            super().__init__(params, lr=0.1)
            self.size = sum(each.numel() for each in self.param_groups[0]["params"])
            self.epoch, self.mode = 0, "first"

    one, other = Sized(mlp(8, 12, 1).parameters()), Sized(mlp(3, 2).parameters())
    one.epoch, one.mode, one.later = 3, "second", True
    hand_on(one, other)
    assert (other.size, other.epoch, other.mode, other.later) == (8, 3, "second", True)


def test_what_is_set_later_is_told_once():
    model = mlp(8, 12, 1)
    optimizer = ClipsByEpoch(model.parameters(), lr=0.1)
    released = release(optimizer, 0)
    for optimizer.epoch in (1, 2):
        optimizer.zero_grad()
        if optimizer.epoch == 1:
            with pytest.warns(ReleaseWarning, match=r"^ClipsByEpoch.epoch was set to 1 after release\(\).*it was 0\."):
                square(model).backward()
        else:
            square(model).backward()
        optimizer.step()
    released.remove()


def test_what_the_step_itself_counts_is_not_told():
    model = mlp(8, 12, 1)
    train(model, AveragesNever(model.parameters(), lr=0.1), 5, bucket=0, loss=square)


class AveragesNever(optim.SGD):
    """Counts its steps, and divides by them."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for each in with_gradient(self):
            each.sub_(each.grad, alpha=0.1 / self.steps)


class CountsForAll(optim.SGD):
    """Counts the steps of all optimizers of its class."""

    total = 0

    @torch.no_grad()
    def step(self, closure=None):
        CountsForAll.total += 1
        super().step()


def test_what_is_counted_outside_of_the_optimizer_is_refused_by_name():
    with pytest.raises(
        NotReleasable, match=r"^CountsForAll changes CountsForAll.total in each step, which does not belong to it"
    ):
        release(CountsForAll(mlp(8, 12, 1).parameters(), lr=0.1), 0)


class Lion(optim.Optimizer):
    """As published."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for each in group["params"]:
                if each.grad is not None:
                    momentum = self.state[each].setdefault("momentum", torch.zeros_like(each))
                    each.data.mul_(1 - group["lr"] * group["weight_decay"])
                    each.add_(momentum.mul(first).add(each.grad, alpha=1 - first).sign_(), alpha=-group["lr"])
                    momentum.lerp_(each.grad, 1 - second)


class TrustRatio(optim.SGD):
    """Reads norms into Python, each parameter's for itself, and leaves out those whose gradient is not finite."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is None or bool(each.grad.isnan().any()):
                    continue
                weight, gradient = each.norm().item(), float(each.grad.norm())
                ratio = weight / gradient if weight > 0 and gradient > 0 else 1.0
                each.sub_(each.grad, alpha=group["lr"] * min(ratio, 10.0))


class Foreach(optim.Optimizer):
    """Adam with lists of tensors, whose step counts are tensors that Python reads."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            held = [each for each in group["params"] if each.grad is not None]
            if not held:
                continue
            for each in held:
                if not self.state[each]:
                    self.state[each].update(step=torch.zeros(()), v=torch.zeros_like(each))
            counts, second = ([self.state[each][key] for each in held] for key in ("step", "v"))
            torch._foreach_add_(counts, 1)
            torch._foreach_mul_(second, 0.99)
            torch._foreach_addcmul_(second, [each.grad for each in held], [each.grad for each in held], 0.01)
            scale = torch._foreach_sqrt(second)
            torch._foreach_div_(scale, [(1 - 0.99 ** count.item()) ** 0.5 for count in counts])
            torch._foreach_add_(scale, 1e-8)
            torch._foreach_addcdiv_(held, [each.grad for each in held], scale, -group["lr"])


class Flat(optim.SGD):
    """Lays all gradients side by side, and steps each from its part."""

    @torch.no_grad()
    def step(self, closure=None):
        held = with_gradient(self)
        if held:
            flat = torch.cat([each.grad.flatten() for each in held]).mul_(0.1).sign_()
            for each, part in zip(held, flat.split([each.numel() for each in held]), strict=True):
                each.sub_(part.view_as(each))


class Scratch(optim.SGD):
    """Uses the same memory for one parameter after another."""

    @torch.no_grad()
    def step(self, closure=None):
        held = with_gradient(self)
        memory = torch.empty(max((each.numel() for each in held), default=0))
        for each in held:
            part = memory[: each.numel()].view_as(each).copy_(each.grad)
            each.sub_(part.mul_(0.1))


class SeededNoise(optim.SGD):
    """Adds noise that hangs on the parameter's own count alone."""

    @torch.no_grad()
    def step(self, closure=None):
        for each in with_gradient(self):
            count = self.state[each]["step"] = self.state[each].get("step", 0) + 1
            noise = torch.empty_like(each).normal_(generator=torch.Generator().manual_seed(count))
            each.sub_(each.grad + 0.01 * noise, alpha=0.1)


@pytest.mark.parametrize("kind", [Lion, TrustRatio, Foreach, Flat, Scratch, SeededNoise])
def test_what_steps_each_parameter_by_itself_is_released(kind):
    def trained(bucket):
        model = mlp(8, 12, 12, 1)
        optimizer = kind(decayed_without(model), lr=0.01)
        train(model, optimizer, 5, bucket=bucket, loss=square)
        return model, optimizer

    for bucket in (0, 300):
        assert_same(trained(bucket), trained(None))


def test_a_state_for_parameters_that_get_no_gradient_is_stored_as_ever():
    class ByPlace(optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for place, each in enumerate(group["params"]):
                    state = self.state[each]
                    if each.grad is not None:
                        state["steps"] = state.get("steps", 0) + 1
                        each.sub_(each.grad, alpha=group["lr"] * (1 + place))

    def trained(bucket):
        model = mlp(8, 12, 12, 1)
        optimizer = ByPlace(model.parameters(), lr=0.01)
        released = train(model, optimizer, 3, bucket=bucket)
        assert bucket is None or released.evidence.layout == "positions"
        return model, optimizer

    assert_same(trained(0), trained(None))


class OnlyRates(optim.SGD):
    """Steps past PyTorch's operations, as a kernel of one's own does."""

    def step(self, closure=None):
        for each in with_gradient(self):
            each.detach().numpy()[...] -= 0.1 * each.grad.numpy()


def test_what_cannot_be_seen_into_is_refused_until_somebody_insists():
    model = mlp(8, 12, 1)
    optimizer = OnlyRates(model.parameters(), lr=0.1)
    with pytest.raises(
        NotReleasable, match=r"^OnlyRates cannot be shown to step .* kernels .*release\(optimizer, trust=T"
    ):
        release(optimizer, 0)
    evidence = release(optimizer, 0, trust=True).evidence
    assert evidence.insisted.startswith("OnlyRates cannot be shown")
    assert str(evidence).startswith(
        f"{__name__}.OnlyRates was accepted because of trust=True. Without it: OnlyRates can"
    )


def test_trust_changes_nothing_for_what_is_shown_to_be_exact():
    assert not release(Lion(mlp(8, 12, 1).parameters()), trust=True).evidence.insisted


def test_counts_are_looked_for_in_settings_and_in_code():
    class Late(Lion):
        def __init__(self, params, lr=1e-3, every=321):
            super().__init__(params, lr)
            self.every, self.calls = every, 0

        def step(self, closure=None):
            self.calls += 1
            if self.calls == 7654:
                return None
            return super().step()

    optimizer = Late(mlp(8, 12, 1).parameters())
    counts = jumps(turning_points(optimizer), 16)
    assert {319, 640, 7652, 15306} < set(counts)
    assert f"up to step {counts[-1] + 3}," in release(optimizer).evidence.proof


class NeedsEveryGradient(optim.SGD):
    """Fails where a parameter has no gradient."""

    @torch.no_grad()
    def step(self, closure=None):
        for each in self.param_groups[0]["params"]:
            held = self.state[each].setdefault("held", torch.zeros_like(each))
            held.lerp_(each.grad, 0.1)
            each.sub_(held)


def test_an_optimizer_that_cannot_leave_a_parameter_out_is_refused_with_what_to_change():
    model = mlp(8, 16, 1)
    message = (
        r"^NeedsEveryGradient cannot skip a parameter without a gradient, at test_proof\.py:\d+: `held\.lerp_.*"
        r"TypeError: lerp_.*`if p\.grad is None: continue`"
    )
    with pytest.raises(NotReleasable, match=message):
        release(NeedsEveryGradient(model.parameters(), lr=0.1), 0)


class Stacks(optim.SGD):
    """Computes parameters of one shape in one product, unless it is made with foreach=False."""

    @torch.no_grad()
    def step(self, closure=None):
        group = self.param_groups[0]
        there = [each for each in group["params"] if each.grad is not None]
        if group["foreach"] is False:
            for each in there:
                each.sub_(each.grad.flatten().softmax(0).view_as(each))
            return
        for shape in {each.shape for each in there}:
            alike = [each for each in there if each.shape == shape]
            for each, change in zip(
                alike, torch.stack([each.grad.flatten() for each in alike]).softmax(1), strict=True
            ):
                each.sub_(change.view_as(each))


def test_an_optimizer_that_stacks_parameters_of_one_shape_is_told_of_foreach():
    model = mlp(8, 8, 8)
    with pytest.raises(
        NotReleasable, match=r"If it computes parameters of one shape together, create it with foreach=Fal"
    ):
        release(Stacks(model.parameters(), lr=0.1), 0)
    release(Stacks(model.parameters(), lr=0.1, foreach=False), 0)
