"""BS116: a model is trained in evaluation mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType

import torch
from torch import nn

from backsight.diagnosis.amending import added
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, named, program_frames, running
from backsight.diagnosis.wording import listed, numbered, shown, warning
from backsight.findings.evidence import Fact
from backsight.source import Place, function_at, only, read_at
from backsight.source.body import LOOPS, callee, callers, calls_in, dotted, statements

CODES = ("BS116",)

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def untrained_mode(
    model: torch.nn.Module, modal: Sequence[type], since: int, trained: bool, frame: FrameType
) -> Finding | None:
    """Return the finding that a model is trained in evaluation mode; None where that may be meant.

    A model that was never in training mode is left so on purpose where the training itself does it; so is one for which
    a function turns evaluation mode on, and then runs all of this training.
    """
    name = named(model, type(model).__name__)
    found = list(_evaluations(frame))
    aside = [(place, inside) for place, inside in found if inside not in running(frame)]
    if (not trained and not aside) or _meant(frame):
        return None
    place, inside = (aside or found)[0] if found else (None, "")
    evidence: list[Fact] = [_in_evaluation(list(dict.fromkeys(modal)))]
    if place is not None:
        says = "turns on evaluation mode; training mode is never turned on again."
        evidence.append(shown(place, says, None if len(found) == 1 else "read"))
    return warning(
        "BS116",
        f"{name} has been trained in evaluation mode since step {numbered(since)}.",
        evidence,
        f"Call {name}.train() at the end of {inside}(){_at_end(place, name)}."
        if inside
        else f"Call {name}.train() after evaluating.",
        place,
        exact=place is None or len(found) == 1,
        since=since,
    )


def _at_end(place: Place | None, name: str) -> str:
    """Turn training mode on again at the end of the function that turns it off, or above what it returns; where that
    is computed with the model, after the function was called."""
    body, statement = read_at(place)
    called = next((callee(call) for call in calls_in(statement) if callee(call)[1] in ("eval", "train")), None)
    if body is None or called is None or isinstance(body.node, ast.Module):
        return ""
    last, on = body.node.body[-1], f"{dotted(called[0])}.train()"
    returns = [each for each in statements(body.node) if isinstance(each, ast.Return)]
    if not returns:
        return added(on, "end", body.place(body.node))
    if returns == [last] and not any(dotted(call.func) == dotted(called[0]) for call in calls_in(last)):
        return added(on, "above", body.place(last))
    found = only((other, each) for other, each, _ in callers(body))
    return added(f"{name}.train()", "beside", found[0].place(found[1])) if found is not None else ""


def _in_evaluation(kinds: Sequence[type]) -> str:
    """Say what these do in evaluation mode.

    >>> _in_evaluation([nn.Dropout, nn.BatchNorm1d])
    'Dropout is off; BatchNorm1d uses its running statistics and does not update them.'
    """
    return in_mode(
        kinds,
        ("is off", "are off"),
        (
            "uses its running statistics and does not update them",
            "use their running statistics and do not update them",
        ),
    )


def in_mode(kinds: Sequence[type], dropping: tuple[str, str], norms: tuple[str, str]) -> str:
    """Say what modules do in a mode: those that drop values, then batch normalizations; of one, and of several."""
    sorts = (
        ([each.__name__ for each in kinds if not issubclass(each, BATCH_NORMS)], dropping),
        ([each.__name__ for each in kinds if issubclass(each, BATCH_NORMS)], norms),
    )
    return f"{'; '.join(f'{listed(names, 3)} {does[len(names) > 1]}' for names, does in sorts if names)}."


def _evaluations(frame: FrameType) -> Iterator[tuple[Place, str]]:
    """Yield the statements that turn evaluation mode on, each with the name of the function that it stands in."""
    for body, statement, call in calls_around(frame):
        receiver, method = callee(call)
        off = method == "train" and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
        if receiver is not None and ((method == "eval" and not call.args) or (off and call.args[0].value is False)):  # type: ignore[attr-defined]
            yield body.place(statement), body.name


def _meant(frame: FrameType) -> bool:
    """Whether a function that is running has turned evaluation mode on before the loops that lead to the step."""
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is None:
            continue
        modes = [
            (statement.lineno, callee(node)[1])
            for statement in statements(body.node)
            if statement.lineno < each.f_lineno
            for node in calls_in(statement)
            if callee(node)[1] in ("eval", "train")
        ]
        line, mode = max(modes, default=(0, ""))
        loops = (s for s in statements(body.node) if isinstance(s, LOOPS))
        again = any(s.lineno <= line and each.f_lineno <= (s.end_lineno or 0) for s in loops)
        if mode == "eval" and not again:
            return True
    return False
