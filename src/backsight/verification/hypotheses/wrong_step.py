"""One step of forward is differentiated wrongly: forward run again by autograd, that step altered, says the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.operation import tensors_of
from backsight.verification.steps import found


def wrong_step(case: Case) -> tuple[str, Explanation] | None:
    """Return the code of the mistake, too: a step can be wrong in all the ways in which a whole backward can."""
    definition = case.operation.definition
    if definition is None or definition.forward is None or case.operation.spec is not None:
        return None
    try:
        if not _is_forward(case):
            return None
        mistake = found(
            lambda x: _forward(case, x),
            case.input,
            [draw.us for draw in case.draws],
            [draw.got for draw in case.draws],
            lambda k, gradient: bool(case.equal(gradient, case.draws[k].got).all()),
        )
    except Exception:  # the user's forward, outside of its Function
        return None
    if mistake is None:
        return None
    title, evidence, fix = mistake.told(case.argument)
    return mistake.alteration.code, Explanation(
        f"{case.subject} {title}, in the gradient of `{case.argument}`.", (evidence,), fix
    )


def _is_forward(case: Case) -> bool:
    """Whether autograd, differentiating what forward does, finds the right gradient."""
    x = case.input.detach().clone().requires_grad_()
    with torch.enable_grad():
        outputs = _forward(case, x.clone())
        for draw in case.draws:
            (gradient,) = torch.autograd.grad(outputs, x, draw.us, retain_graph=True)
            if not bool(case.equal(case.at(gradient), draw.right).all()):
                return False
    return True


def _forward(case: Case, x: torch.Tensor) -> Sequence[torch.Tensor]:
    values = [each.clone() if isinstance(each, torch.Tensor) else each for each in case.point.values]
    for k in case.point.wanted:  # a step of another input may be the one that is left out
        values[k] = values[k].requires_grad_().clone()
    values[case.point.wanted[case.number]] = x
    custom: Any = case.operation.custom
    assert case.operation.definition is not None
    forward: Any = custom.forward if custom is not None else case.operation.definition.forward
    takes_ctx = case.operation.definition.takes_ctx
    result = forward(_Context(len(values)), *values) if takes_ctx else forward(*values)
    made = [each for each in tensors_of(result) if each.is_floating_point() or each.is_complex()]
    return [made[k] for k in case.outputs]


class _Context:
    """Stands for `ctx` where forward runs by itself."""

    def __init__(self, count: int):
        self.needs_input_grad = (True,) * count
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def _ignored(self, *given: Any) -> None:
        pass

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = _ignored
