"""BS416: a factor is missing or extra; in particular, the derivative of forward's last step, an activation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.verification.case import Candidate, Case
from backsight.verification.hypotheses.completed import completed
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.steps import last_step

OF_THE_OUTPUT = {
    "the output": "{}",
    "(1 - output)": "(1 - {})",
    "(1 - output²)": "(1 - {0} * {0})",
}
"""Factors that are computed from the output, and how they are written with a name for it."""


def missing_factor(case: Case) -> Explanation | None:
    """Multiplied or divided by an input, the output or grad_output, every entry is right."""
    for name, is_missing, candidate in _candidates(case):
        if case.fits(candidate):
            what, how = ("is missing the", "multiplied by") if is_missing else ("has an extra", "divided by")
            fix = f"Multiply what it returns for `{case.argument}` by {name}" if is_missing else "Leave that factor out"
            return Explanation(
                f"{case.subject} {what} factor {name} in the gradient of `{case.argument}`.",
                (f"Every entry that it returns for `{case.argument}` would be right if it were {how} {name}.",),
                f"{(_written(case, name) if is_missing else '') or fix}: the chain rule.",
            )
    return None


def _written(case: Case, name: str) -> str:
    """Return the statement of backward with the factor, whatever backward calls it; empty where no name is the one."""
    body = case.written.body if case.written else None
    form = OF_THE_OUTPUT.get(name, "{}")
    for known in _names(body.node) if body is not None else ():
        if statement := completed(case, form.format(known)):
            return statement
    return ""


def _names(function: ast.AST) -> Iterator[str]:
    """The names that a function gives to what it computes or unpacks, each once."""
    names = (each for each in ast.walk(function) if isinstance(each, ast.Name))
    yield from dict.fromkeys(each.id for each in names if isinstance(each.ctx, ast.Store))


def _candidates(case: Case) -> Iterator[tuple[str, bool, Candidate]]:
    """Factors, whether each is missing or extra, and what the gradient then should be."""
    for name, tensor in _tensors(case):
        yield name, True, _multiplied(tensor)
        yield name, False, _divided(tensor)
    if case.elementwise:
        yield "grad_output", False, lambda draw: draw.got / draw.u


def _multiplied(tensor: torch.Tensor) -> Candidate:
    return lambda draw: draw.got * tensor


def _divided(tensor: torch.Tensor) -> Candidate:
    return lambda draw: torch.where(tensor == 0, draw.got, draw.got / tensor)


def _tensors(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of the shape of the input, or that broadcast to it."""
    known = {
        f"`{case.operation.argument(k)}`": each
        for k, each in enumerate(case.point.values)
        if isinstance(each, torch.Tensor) and each.dtype == case.input.dtype
    }
    if case.single:
        output = case.output
        known |= dict(zip(OF_THE_OUTPUT, (output, 1 - output, 1 - output * output), strict=True))
    for name, each in known.items():
        try:
            spread = each.expand(case.input.shape)
        except RuntimeError:  # it does not broadcast to the shape of the input
            continue
        yield name, spread


def missing_last_step(case: Case) -> Explanation | None:
    """Backward is right for grad_output times the derivative of an activation, as its output tells that.

    None of these derivatives is zero anywhere: of a ReLU this would say nothing where its gradient is masked anyway.
    """
    if not case.single:
        return None
    y, last = case.output, _last(case)
    steps = {
        "(1 - output**2)": ("tanh", "tanh", 1 - y * y),
        "output * (1 - output)": ("a sigmoid", "sigmoid", y * (1 - y)),
        "output": ("exp", "exp", y),
    }
    for factor, (activation, name, derivative) in steps.items():
        if last != name or not bool(torch.isfinite(derivative).all()) or bool((derivative == 1).all()):
            continue
        passed = [case.backward([draw.u * derivative]) for draw in case.draws]
        if all(
            g is not None and bool(case.equal(case.at(g), draw.right).all())
            for g, draw in zip(passed, case.draws, strict=True)
        ):
            name = case.grad_output
            return Explanation(
                f"{case.subject} leaves out the derivative of the last step, {activation}, for `{case.argument}`.",
                (
                    f"With {name} * {factor} instead of {name} every entry is right: that is the derivative of "
                    f"{activation}, in terms of its output.",
                    "The chain rule goes through all steps of forward, the last one first.",
                ),
                f"Start backward with `{name} = {name} * {factor}`, output being what forward returned.",
            )
    return None


def _last(case: Case) -> str:
    """What forward does last, as far as PyTorch sees it."""
    try:
        return last_step(case.run, case.input)
    except Exception:  # the user's forward, outside of its Function
        return ""
