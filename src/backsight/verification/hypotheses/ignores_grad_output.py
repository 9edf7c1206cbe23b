"""BS401: backward ignores grad_output."""

from __future__ import annotations

import ast

import torch

from backsight.source.body import statements
from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import number


def ignores_grad_output(case: Case) -> Explanation | None:
    """Some entries are the same whatever grad_output is, and are not zero."""
    if case.together is None:
        return None
    first, second = (draw.got for draw in case.draws)
    same = (first == second) & (first != 0) & (first == case.together)
    here = case.at(same)
    if not bool((here & case.is_wrong).any()):
        return None
    judged = Known.FORWARD in case.known
    fixed = judged and case.elementwise and case.fits(lambda draw: torch.where(same, draw.got * draw.u, draw.got))
    if not fixed and not bool((here | ~case.is_wrong if not judged else here).all()):
        return None
    example = number(case.at(first)[here][0])
    evidence = [
        f"{case.counted(here).capitalize()} of the gradient that it returns for `{case.argument}` stay the same, "
        f"whatever {case.grad_output} is (the first stays {example}).",
        "By the chain rule each entry is grad_output times the derivative of forward, "
        "d loss/d input = d loss/d output · d output/d input; the first factor is missing.",
    ]
    if fixed:
        evidence.append(
            "Multiplied by grad_output, they would be right. A test with loss = out.sum() cannot see this, because "
            "grad_output is 1 there."
        )
    statement, fix = _constant_written(case)
    title = f"{case.subject} ignores {case.grad_output}."
    line = case.written.body.place(statement) if case.written and statement is not None else None
    return Explanation(title, tuple(evidence), fix, line)


def for_ones(case: Case) -> Explanation | None:
    """The gradient of the sum of the outputs, and not of the loss: of one that cannot be asked for again."""
    ones = [torch.ones_like(u) for u in case.draws[0].us]
    if Known.BACKWARD in case.known or not bool(case.equal(case.at(case.draws[0].got), case.right_for(ones)).all()):
        return None
    return Explanation(
        f"{case.subject} ignores {case.grad_output}.",
        (
            f"It is the gradient of `{case.argument}` for a {case.grad_output} of ones: the derivative of the sum of "
            "the outputs, not of the loss.",
        ),
        "Multiply by the error signal: the chain rule.",
    )


def _constant_written(case: Case) -> tuple[ast.stmt | None, str]:
    """Find `grad_input[mask] = 1`, and say what to write instead."""
    source = case.written
    general = "Multiply what backward returns by grad_output."
    if source is None:
        return None, general
    name = source.grad_output
    for statement in statements(source.body.node):
        match statement:
            case ast.Assign(targets=[ast.Subscript(slice=mask) as target], value=ast.Constant(value=value)) if value:
                times = "" if value == 1 else f"{ast.unparse(statement.value)} * "
                right = f"{ast.unparse(target)} = {times}{name}[{ast.unparse(mask)}]"
                return statement, f"Write `{right}` instead of `{source.body.text(statement)}`."
    return None, general.replace("grad_output", name)
