"""`checked`: one operation tested, and what is wrong with its backward put into words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

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
from backsight.verification.surrogates import declared
from backsight.verification.trial import Wrong, tried
from backsight.verification.written import Written, written

UNTESTABLE = {
    "CheckpointFunction": "what a checkpoint other than PyTorch's runs is not seen; test the function that it is given",
    "torch_nn::_linear_cross_entropy_batch_chunked": "it is PyTorch's own, and returns intermediate results that no "
    "program uses as outputs",
}
"""Functions of PyTorch that no test of one operation fits."""

NEARBY = "Tested at a point nearby: at these values themselves forward has a kink or is singular."


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
    operation: Operation, clock: Clock, generator: torch.Generator, surrogates: frozenset[type] = frozenset()
) -> Outcome | None:
    """Test the backward of one operation; None if it has nothing to differentiate.

    The gradients of `surrogates`, and of Functions that are declared so, may differ from the derivative.

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
    findings += [each for each in explained if each.code not in ("BS400", "BS418") or not unsteady]
    unclear = "; ".join(sorted(set(trial.unclear.values())))
    judged = bool(findings) or len(trial.unclear) < len(point.inputs)
    return Outcome(tuple(findings), judged, trial.how, unclear)


def _explained(wrong: Wrong, nearby: bool, kind: str | None, generator: torch.Generator) -> WrongGradient:
    """Find out how a gradient is wrong, and say so; `kind` is what it is declared to be."""
    operation = wrong.pull.point.operation
    try:
        case = Measured(wrong, generator)
        code, explanation = certain(case)
        if kind is not None and code != UNINTENDED:
            code, explanation = "BS417", as_declared(case, kind, explanation)
    except OutOfTime as over:
        return _finding(operation, "BS400", out_of_time(wrong, over))
    if nearby:
        explanation = replace(explanation, evidence=(*explanation.evidence, NEARBY))
    return _finding(operation, code, explanation, case)


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
