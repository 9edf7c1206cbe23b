"""`checked`: one operation tested, and what is wrong with its backward put into words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from backsight.findings import SEVERITIES
from backsight.source import Place
from backsight.verification.conduct import of_error, told
from backsight.verification.custom import place_of
from backsight.verification.documented import documented
from backsight.verification.errors import CannotTest, OutOfTime, raised
from backsight.verification.hypotheses import Explanation, as_declared, certain, out_of_time
from backsight.verification.measured import Measured
from backsight.verification.noted import difference, noted
from backsight.verification.operation import Operation
from backsight.verification.point import Clock, Point
from backsight.verification.report import WrongGradient
from backsight.verification.shared import shared
from backsight.verification.surrogates import declared
from backsight.verification.together import Told, together
from backsight.verification.trial import Pull, Wrong, is_rounding, tried
from backsight.verification.variations import Variation, marked, variations
from backsight.verification.written import Written, written

UNTESTABLE = {
    "CheckpointFunction": (
        "backsight cannot see inside a checkpoint that is not PyTorch's; test the checkpointed function itself"
    ),
    "torch_nn::_linear_cross_entropy_batch_chunked": "it is PyTorch's own, and returns intermediate results that no "
    "program uses as outputs",
}
"""Functions of PyTorch that no test of one operation fits."""

FIXED = (
    "Find what is right as called only: a fixed number, perhaps, where backward must compute one from what it gets, "
    "such as `x.shape[0]`."
)
"""What to do about a factor that is 1 as called: no number undoes it."""

NEARBY = "Tested at a nearby point: at these values, forward has a kink or is singular."


@dataclass(frozen=True)
class Outcome:
    """What the test of one operation found.

    `judged` says whether anything could be said, `how` by what means; `unclear` why part of it could not be.
    """

    findings: tuple[WrongGradient, ...]
    judged: bool
    how: str = ""
    unclear: str = ""


UNINTENDED = "BS419"
"""NaN and infinity are nobody's intent, and no surrogate."""


def checked(
    operation: Operation,
    clock: Clock,
    generator: torch.Generator,
    surrogates: frozenset[type] = frozenset(),
    varied: set[Any] | None = None,
) -> Outcome | None:
    """Test the backward of one operation; None if it has nothing to differentiate.

    The gradients of `surrogates`, and of Functions that are declared so, may differ from the derivative. One that is
    the program's own and right is tested in other circumstances, too: once, of those that are in `varied`.

    Raises:
        CannotTest: if it cannot be tested.
    """
    if operation.definition is not None and (why := UNTESTABLE.get(operation.name)):
        raise CannotTest(why)
    if why := documented(operation):
        raise CannotTest(why)
    point = Point.of(operation, clock)
    if not point.outputs:
        return None
    if not any(each.numel() for each in point.inputs):
        raise CannotTest("its inputs hold no elements")
    trial = tried(point, generator)
    if trial.pull is None:
        assert trial.error is not None
        if operation.definition is None:  # PyTorch refuses, as for eigenvectors, whose phase no gradient may depend on
            raise CannotTest(f"its backward refuses a random grad_output: {raised(trial.error)}")
        return Outcome((_finding(operation, *of_error(operation, trial.error)),), judged=True)
    findings = [_finding(operation, code, explanation) for code, explanation in told(noted(trial.pull))]
    unsteady = bool(difference(trial.pull))
    point.only_once |= unsteady
    kind = declared(operation.custom, surrogates)
    explained = [_explained(wrong, wrong.pull.point is not point, kind, generator) for wrong in trial.wrong]
    # What differs from call to call is wrong for that reason.
    findings += [each for each in together(explained) if each.code not in ("BS400", "BS418") or not unsteady]
    if operation.own and not findings and kind is None and (variable := _kind(operation)) not in (varied or ()):
        if varied is not None:
            varied.add(variable)
        try:
            findings += _shared(trial.pull) or _varied(trial.pull, generator) or _marked(point, generator)
        except OutOfTime as over:
            trial = replace(trial, how=f"{trial.how}; under other conditions: {over}")
    unclear = "; ".join(sorted(set(trial.unclear.values())))
    judged = bool(findings) or len(trial.unclear) < len(point.inputs)
    return Outcome(tuple(findings), judged, trial.how, unclear)


def _kind(operation: Operation) -> Any:
    """What calls of one Function have in common that are right or wrong in the same circumstances."""
    return operation.custom or operation.definition, operation.wanted


SMALL = 1e-6
"""In other circumstances a mistake is told from this part of the gradient on: where a function saturates both are 0."""


def _shared(pull: Pull) -> list[WrongGradient]:
    """Test whether a Function keeps on its class what belongs to a call."""
    operation = pull.point.operation
    told = shared(pull) if operation.custom is not None else None
    return [_finding(operation, "BS412", told)] if told is not None else []


def _varied(pull: Pull, generator: torch.Generator) -> list[WrongGradient]:
    """Test an operation in other circumstances, up to the first in which it is wrong."""
    point = pull.point
    sizes = {k: 0.0 if g is None else float(g.norm()) for k, g in zip(point.wanted, pull.gradients, strict=True)}
    for variation in variations(point, generator):
        trial = tried(variation.point, generator)
        if trial.error is not None and not isinstance(trial.error, OutOfTime):
            code, explanation = of_error(point.operation, trial.error)
            found = [_finding(point.operation, code, replace(explanation, severity="warning"))]
        else:
            positions = variation.point.wanted
            asked = [
                each
                for each in trial.wrong
                if each.off > SMALL * sizes.get(positions[each.number], math.inf) and not _is_rounding(each, generator)
            ]
            found = together([_explained(each, False, None, generator) for each in asked])
        if found:
            return [_where(each, variation) for each in found]
    return []


def _is_rounding(wrong: Wrong, generator: torch.Generator) -> bool:
    try:
        return is_rounding(wrong, generator)
    except OutOfTime:
        raise
    except Exception:  # the backward may raise at any call
        return False


def _marked(point: Point, generator: torch.Generator) -> list[WrongGradient]:
    """Mention outputs that have no gradient on purpose, as ctx.mark_non_differentiable says, and could have one."""
    try:
        found = list(marked(point, generator))
    except OutOfTime:
        raise
    except Exception:  # the function leaves its domain
        return []
    name = point.operation.name
    return [
        _finding(
            point.operation,
            "BS409",
            Explanation(
                f"{name} marks an output as not differentiable that changes with `{argument}`.",
                ("Whatever is computed from it passes no gradient on.",),
                "Nothing to do if this is intended, as for statistics. Otherwise, remove ctx.mark_non_differentiable.",
                severity="note",
            ),
        )
        for _, argument in found
    ]


def _where(finding: WrongGradient, variation: Variation) -> WrongGradient:
    """Say in which circumstances a gradient is wrong."""
    title = f"{finding.title.removesuffix('.')}, {variation.where}."
    severity = max(finding.severity, variation.severity, key=SEVERITIES.index)
    known = "As called, it is right. A test that calls it in only one way does not see this."
    fix = FIXED if finding.code == "BS404" else finding.fix
    return replace(finding, title=title, severity=severity, evidence=(known, *finding.evidence), fix=fix)


def _explained(wrong: Wrong, nearby: bool, kind: str | None, generator: torch.Generator) -> Told:
    """Find out how a gradient is wrong, and say so; `kind` is what it is declared to be."""
    operation = wrong.pull.point.operation
    try:
        case = Measured(wrong, generator)
        code, explanation = certain(case)
        if kind is not None and code != UNINTENDED:
            code, explanation = "BS417", as_declared(case, kind, explanation)
    except OutOfTime as over:
        return Told(_finding(operation, "BS400", out_of_time(wrong, over)))
    if nearby:
        explanation = replace(explanation, evidence=(*explanation.evidence, NEARBY))
    return Told(_finding(operation, code, explanation, case), case, explanation.cause)


def _finding(operation: Operation, code: str, explanation: Explanation, case: Measured | None = None) -> WrongGradient:
    source: Written | None = written(operation.definition)
    backward = explanation.line or (case.line if case else None) or (_line(source, code) if source else None)
    called = operation.place
    forward = _forward(operation)
    at = backward or called
    return WrongGradient(
        code,
        explanation.severity,
        explanation.title,
        explanation.evidence,
        explanation.fix,
        source=None if at is None else str(at),
        operation=operation.name,
        input=case.argument if case else "",
        calls=(called,) if called else (),
        forward=forward,
        backward=backward,
    )


def _line(source: Written, code: str) -> Place:
    """Where a bad habit stands in backward."""
    return (source.in_place() if code == "BS410" else None) or source.end


def _forward(operation: Operation) -> Place | None:
    return place_of(operation.definition.forward) if operation.definition else None
