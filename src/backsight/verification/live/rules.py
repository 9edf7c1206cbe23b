"""What can be wrong with a backward that is called on its own, each a small rule; the first that finds something ends.

They need no forward: whatever the operation is, its backward is linear in what arrives, the same for the same, and
does not touch what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from backsight.tape._torch import input_metadata
from backsight.tape.rows import dtype_name
from backsight.verification.live.telling import finding, grad_name, outside_of_product, percent, the_backward
from backsight.verification.live.trial import Trial
from backsight.verification.report import WrongGradient
from backsight.verification.wording import number

Rule = Callable[[Trial], Iterator[WrongGradient]]

RULES: dict[str, Rule] = {}


def rule(code: str) -> Callable[[Rule], Rule]:
    """Enter a rule under the code of what it finds; they are asked in the order in which they are entered."""

    def enter(function: Rule) -> Rule:
        RULES[code] = function
        return function

    return enter


def judged(trial: Trial) -> tuple[WrongGradient, ...]:
    """Return what is wrong with a backward: the findings of the first rule that has some."""
    return next((found for each in RULES.values() if (found := tuple(each(trial)))), ())


@rule("BS406")
def refused(trial: Trial) -> Iterator[WrongGradient]:
    """The engine would raise at what the backward returned."""
    if trial.refused:
        yield finding(
            trial,
            "BS406",
            f"{the_backward(trial)} returns what autograd refuses.",
            (f"{trial.refused[:1].upper()}{trial.refused[1:]}",),
            "Return one gradient for each argument of forward, in the shape of that argument: summed over the "
            "dimensions along which it was broadcast.",
        )


@rule("BS410")
def overwrites(trial: Trial) -> Iterator[WrongGradient]:
    """The gradient that came in was changed in place."""
    if trial.overwritten:
        name = grad_name(trial)
        yield finding(
            trial,
            "BS410",
            f"{the_backward(trial)} changes {name} in place.",
            (
                f"{name} is not the same after the call as before. Other operations may be given the same tensor: what "
                "they make of it is then wrong, and which of them depends on the order.",
            ),
            f"Compute a new tensor: {name} * factor, not {name}.mul_(factor); or begin with {name}.clone().",
        )


@rule("BS412")
def changes_saved(trial: Trial) -> Iterator[WrongGradient]:
    """A saved tensor was changed by the backward."""
    if trial.changed:
        names = " and ".join(dict.fromkeys(trial.changed))
        yield finding(
            trial,
            "BS412",
            f"{the_backward(trial)} changes what forward saved for it: {names}.",
            ("Called a second time (retain_graph=True, or gradcheck) it starts from other values.",),
            "Leave saved tensors as they are: work on a copy, or use an operation that is not in place.",
        )


@rule("BS411")
def unsteady(trial: Trial) -> Iterator[WrongGradient]:
    """The same gradient came twice, and two different results left."""
    for k, name in enumerate(trial.inputs):
        by = trial.unsteadiness(k)
        if by is not None and by.numel() and float(by.max()) > trial.precision:
            yield finding(
                trial,
                "BS411",
                f"{the_backward(trial)} is not deterministic.",
                (
                    f"Called twice with the same {grad_name(trial)}, what it returns for {name} differs by "
                    f"{percent(by)} of its largest value.",
                ),
                "Draw random numbers in forward and save them: backward has to use the very same.",
                name,
            )


@rule("BS401")
def ignores(trial: Trial) -> Iterator[WrongGradient]:
    """Some entries are the same whatever arrives, and not zero."""
    for k, name, wrong in _violated(trial):
        first, second, both = trial.of_u[k], trial.of_v[k], trial.of_both[k]
        assert first is not None and second is not None and both is not None
        fixed = (first == second) & (first == both) & (first != 0)
        if bool(fixed.any()) and bool((fixed | ~wrong).all()):
            yield _ignoring(trial, name, first[fixed], first.numel())


def _ignoring(trial: Trial, name: str, fixed: torch.Tensor, entries: int) -> WrongGradient:
    grad, values = grad_name(trial), torch.unique(fixed)
    count = "every entry" if fixed.numel() == entries else f"{fixed.numel()} of {entries} entries"
    what = number(values[0]) if values.numel() == 1 else f"fixed, {number(values[0])} for instance,"
    return finding(
        trial,
        "BS401",
        f"{the_backward(trial)} ignores {grad}.",
        (
            f"What it returns for {name} is {what} in {count}, whatever arrives.",
            f"Backward multiplies what arrives by the derivative (the chain rule). Where the derivative is 1 the "
            f"result is {grad} itself, not 1. With loss = output.sum() all of {grad} is 1, so a test with sum() cannot "
            "tell.",
        ),
        f"Multiply the derivative by {grad}: for a mask, {grad} * mask.",
        name,
    )


@rule("BS402")
def adds(trial: Trial) -> Iterator[WrongGradient]:
    """Something is added that does not depend on what arrives: the rest is linear."""
    for k, name, _ in _violated(trial):
        at_zero, once, twice = trial.times(0)[k], trial.of_u[k], trial.times(2)[k]
        if at_zero is None or once is None or twice is None or not bool((at_zero != 0).any()):
            continue
        rest = (twice - at_zero) - 2 * (once - at_zero)
        if float(rest.abs().max()) <= 4 * trial.precision * float(twice.abs().max()):
            yield _adding(trial, name, at_zero)


def _adding(trial: Trial, name: str, at_zero: torch.Tensor) -> WrongGradient:
    grad, values = grad_name(trial), torch.unique(at_zero)
    added = number(values[0]) if values.numel() == 1 else f"up to {number(at_zero.abs().max())}"
    evidence = [
        f"With {grad} = 0 it returns {added} for {name}, and backward must make 0 of 0: it multiplies what arrives by "
        "the derivative, and nothing else."
    ]
    fix = f"Multiply every term of the derivative by {grad}: {grad} * (a + b)."
    if spelt := outside_of_product(trial, grad):
        text, term, right = spelt
        evidence.append(f"In `{text}` the term `{term}` stands outside of the product: * binds stronger than +.")
        fix = f"If it belongs to the derivative, put it in parentheses: {right}. If it does not, leave it out."
    title = f"{the_backward(trial)} adds {added} to the gradient, outside of the product with {grad}."
    return finding(trial, "BS402", title, tuple(evidence), fix, name)


@rule("BS418")
def bends(trial: Trial) -> Iterator[WrongGradient]:
    """Not linear, in another way."""
    for k, name, wrong in _violated(trial):
        violation = trial.violation(k)
        assert violation is not None
        grad = grad_name(trial)
        evidence = [
            f"For two gradients u and v, backward(2u − 3v) differs from 2 backward(u) − 3 backward(v) by "
            f"{percent(violation)} of the largest value, in {int(wrong.sum())} of {wrong.numel()} entries for {name}."
        ]
        once, twice = trial.of_u[k], trial.times(2)[k]
        if once is not None and twice is not None and (grown := _growth(once, twice, trial.precision)):
            evidence.append(f"Twice the {grad} makes it {grown} as large.")
        yield finding(
            trial,
            "BS418",
            f"{the_backward(trial)} is not linear in {grad}.",
            tuple(evidence),
            f"backward returns {grad} times the derivative, and the derivative does not depend on {grad}. To clip or "
            "normalise gradients, use a hook, so that the Function itself stays right.",
            name,
            "error" if trial.cls is not None else "warning",  # PyTorch's own may lose digits
        )


def _growth(once: torch.Tensor, twice: torch.Tensor, precision: float) -> str:
    """Return how much larger a result became, where it is the same factor everywhere and not two."""
    known = once.abs() > precision
    ratio = (twice[known] / once[known]).abs()
    if not ratio.numel() or float(ratio.max() - ratio.min()) > 1e-2 * float(ratio.max()):
        return ""
    grown = float(ratio.mean())
    if abs(grown - 2) < 1e-2:  # as it has to be
        return ""
    return "just" if abs(grown - 1) < 1e-2 else f"{grown:.3g} times"


@rule("BS413")
def loses_precision(trial: Trial) -> Iterator[WrongGradient]:
    """A custom Function returns a coarser dtype than its input's and its output's."""
    if trial.cls is None:
        return
    came = [g.dtype for g in trial.u if g is not None and (g.dtype.is_floating_point or g.dtype.is_complex)]
    for k, (producer, output) in enumerate(trial.live.next_functions):
        made = trial.of_u[k] if k < len(trial.of_u) else None
        if made is None or producer is None:
            continue
        wanted, name = input_metadata(producer)[output].dtype, trial.inputs[k]
        if all(torch.finfo(made.dtype).eps > torch.finfo(each).eps for each in (wanted, *came)):
            yield finding(
                trial,
                "BS413",
                f"{the_backward(trial)} returns {dtype_name(made.dtype)} for {name}, which is {dtype_name(wanted)}.",
                ("autograd casts it back, but the digits are lost.",),
                "Compute in the dtype of the input; look for .float(), torch.tensor(...) and NumPy on the way.",
                name,
                "warning",
            )


@rule("BS409")
def returns_none(trial: Trial) -> Iterator[WrongGradient]:
    """A custom Function returns None for an input that needs a gradient."""
    if trial.cls is None:
        return
    for k, (producer, _) in enumerate(trial.live.next_functions):
        if producer is not None and trial.raw[k] is None:
            yield finding(
                trial,
                "BS409",
                f"{the_backward(trial)} returns None for {trial.inputs[k]}, which needs a gradient.",
                ("No gradient goes on from here: whatever was computed before it learns nothing through this input.",),
                "Return its gradient. If there is none on purpose, detach the input before apply().",
                trial.inputs[k],
                "warning",
            )


def _violated(trial: Trial) -> Iterator[tuple[int, str, torch.Tensor]]:
    """Yield the results that are not linear: their number, the input's name, and which entries."""
    for k, name in enumerate(trial.inputs):
        violation = trial.violation(k)
        if violation is not None and violation.numel() and float(violation.max()) > trial.precision:
            yield k, name, violation > trial.precision
