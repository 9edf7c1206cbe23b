"""`autograd.grad` was asked for the gradient of a tensor that requires none."""

from __future__ import annotations

import torch

from backsight.diagnosis.errors.no_grad.suspects import why
from backsight.diagnosis.evidence.spoken import differentiated, names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, listed, shown
from backsight.source import Cut, assignments, cuts
from backsight.story.failure import Failure

CODE = "BS203"


def input_without_grad(failure: Failure) -> Finding:
    """Name the inputs that do not require grad, and where they were made."""
    names = differentiated(failure)
    if len(names) != len(failure.inputs):
        names = names_of(failure, failure.inputs)
    bare = [
        (name or f"a {described(t)}", t)
        for name, t in zip(names, failure.inputs, strict=True)
        if isinstance(t, torch.Tensor) and not t.requires_grad
    ]
    called = [name for name, _ in bare]
    first = called[0] if called else "x"
    verb = "does" if len(called) == 1 else "do"
    cut = _cut(failure, first)
    made = _made(failure, first)
    evidence = [shown(cut.place, f"{why(cut)}.")] if cut else [made] if made else []
    if failure.user:
        evidence.append(shown(failure.user.place, f"asks for the gradient with respect to {listed(called) or 'it'}."))
    return Finding(
        CODE,
        "error",
        f"{listed(called) or 'An input of autograd.grad()'} {verb} not require grad, so nothing was recorded for "
        f"{'it' if len(called) == 1 else 'them'}.",
        tuple(evidence),
        f"Call {first}.requires_grad_() before anything is computed from it; after that the forward pass must "
        "run again.",
        source=str(cut.place) if cut else failure.source,
        exact=bool(bare),
    )


def _cut(failure: Failure, name: str) -> Cut | None:
    level = failure.user
    found = cuts(level.body, name, level.line) if level and level.body else ()
    return found[0] if found else None


def _made(failure: Failure, name: str) -> str:
    level = failure.user
    places = assignments(level.body, name, before=level.line) if level and level.body else ()
    return shown(places[-1], "makes it, without a request for a gradient.") if places else ""
