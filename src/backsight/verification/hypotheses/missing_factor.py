"""BS416: a factor is missing or extra."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.verification.case import Candidate, Case
from backsight.verification.hypotheses.explanation import Explanation


def missing_factor(case: Case) -> Explanation | None:
    """Multiplied or divided by an input, the output or grad_output, every entry is right."""
    for text, candidate, fix in _candidates(case):
        if case.fits(candidate):
            return Explanation(
                f"{case.subject} {text} in the gradient of `{case.argument}`.",
                (f"Every entry that it returns for `{case.argument}` would be right {fix}.",),
                "Apply the chain rule: multiply the derivatives of all steps of forward, from its output back to "
                "this input.",
            )
    return None


def _candidates(case: Case) -> Iterator[tuple[str, Candidate, str]]:
    for name, tensor in _tensors(case):
        yield f"lacks the factor {name}", _multiplied(tensor), f"if it were multiplied by {name}"
        yield f"has an extra factor {name}", _divided(tensor), f"if it were divided by {name}"
    if case.elementwise:
        yield "has an extra factor grad_output", lambda draw: draw.got / draw.u, "if it were divided by it"


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
        known |= {"the output": output, "(1 - output)": 1 - output, "(1 - output²)": 1 - output * output}
    for name, each in known.items():
        try:
            spread = each.expand(case.input.shape)
        except RuntimeError:  # it does not broadcast to the shape of the input
            continue
        yield name, spread
