"""How the findings about one node are put: its name, what its source calls things, numbers."""

from __future__ import annotations

import ast
import re

import torch

from backsight.findings import Severity
from backsight.verification.custom import body_of, place_of, returned
from backsight.verification.live.trial import Trial
from backsight.verification.report import WrongGradient


def finding(
    trial: Trial,
    code: str,
    title: str,
    evidence: tuple[str, ...],
    fix: str,
    of: str = "",
    severity: Severity = "error",
) -> WrongGradient:
    """Return a finding about a trial, with the places of the Function's methods."""
    written = trial.definition
    backward = place_of(written.backward) if written is not None else None
    return WrongGradient(
        code,
        severity,
        title,
        evidence,
        fix
        if written is not None
        else "This is PyTorch's own backward: if the error is not in its inputs, it is a bug.",
        str(backward) if backward is not None else trial.node.source,
        operation=trial.name,
        input=of,
        forward=place_of(written.forward) if written is not None else None,
        backward=backward,
    )


def the_backward(trial: Trial) -> str:
    """Return `The backward of Poly (in encoder.0)`."""
    module = f" (in {trial.node.module})" if trial.node.module else ""
    return f"The backward of {trial.name}{module}"


def grad_name(trial: Trial) -> str:
    """Return what the backward calls the gradient that comes in, `grad_output` where nothing tells."""
    function = trial.definition.backward if trial.definition is not None else None
    code = function.__code__ if function is not None else None
    if code is None or code.co_argcount < 2:
        return "grad_output"
    came = code.co_varnames[1 : code.co_argcount]
    real = [name for name, g in zip(came, trial.u, strict=False) if g is not None and g.dtype.is_floating_point]
    touched = [name for k, name in enumerate(came) if k in trial.overwritten]
    return next(iter([*touched, *real, *came]))


def percent(by: torch.Tensor) -> str:
    """Return the largest of relative differences."""
    largest = 100 * float(by.max())
    return f"{largest:.0f} %" if largest >= 10 else f"{largest:.2g} %"


def outside_of_product(trial: Trial, grad: str) -> tuple[str, str, str] | None:
    """Return a returned sum, the term of it in which grad_output does not occur, and the sum in parentheses.

    >>> outside_of_product(trial, "g")
    ('g * 6*x + 2', '2', 'g * (6*x + 2)')
    """
    body = body_of(trial.definition.backward) if trial.definition is not None else None
    for value in returned(body) if body is not None else ():
        if body is not None and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            sides = {_mentions(side, grad): body.text(side) for side in (value.left, value.right)}
            if len(sides) == 2:
                return body.text(value), sides[False], f"{grad} * ({_without(sides[True], grad)} + {sides[False]})"
    return None


def _without(product: str, grad: str) -> str:
    """Return the other factors of a product that begins or ends with grad_output; `…` where it is spelt otherwise."""
    found = re.fullmatch(rf"{grad} ?\*(?!\*) ?([^-+]+)|([^-+]+?) ?(?<!\*)\* ?{grad}", product)
    return next(filter(None, found.groups()), "…") if found else "…"


def _mentions(expression: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(expression))
