"""`autograd.grad` was asked for the gradient of a tensor that requires none."""

from __future__ import annotations

import ast
import re

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import differentiated, names_of, passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Cut, Place, assignments, cuts
from backsight.source.body import functions
from backsight.source.edits import put
from backsight.story.cuts import why
from backsight.story.failure import Failure
from backsight.story.handed import Handed, handed


def input_without_grad(failure: Failure) -> Finding:
    """Name the inputs that do not require grad, and where they were made."""
    written = differentiated(failure)
    if len(written) != len(failure.inputs):
        written = names_of(failure, failure.inputs)
    known = {id(each): handed(failure, each) for each in failure.inputs}
    bare = [
        (found.name if (found := known[id(t)]) and found.given else name or f"a {described(t)}", t)
        for name, t in zip(written, failure.inputs, strict=True)
        if isinstance(t, torch.Tensor) and not t.requires_grad
    ]
    called = [name for name, _ in bare]
    first = called[0] if called else "x"
    found = known[id(bare[0][1])] if bare else None
    verb = "does" if len(called) == 1 else "do"
    cut = _cut(found, first)
    outer = None if found is None or found.assigned or found.given else _enclosing(found)
    call = f"{first}.requires_grad_()" if len(bare) == 1 and _PATH.fullmatch(first) else ""
    evidence: list[Fact] = [shown(cut.place, f"{why(cut)}.")] if cut else _made(found, first, outer)
    evidence += passed(found)
    if failure.user:
        asked = [name for name, t in zip(written, failure.inputs, strict=True) if any(t is each for _, each in bare)]
        evidence.append(shown(failure.user.place, f"asks for the gradient with respect to {listed(asked) or 'it'}."))
    return explanation(
        f"{listed(called) or 'An input of autograd.grad()'} {verb} not require grad, so nothing was recorded for "
        f"{'it' if len(called) == 1 else 'them'}.",
        evidence,
        f"Call {first}.requires_grad_() {_where(found, outer, call)}; the forward pass must come after that.",
        source=cut.place if cut else (found and (found.assigned or found.given or outer)) or failure.source,
        exact=bool(bare),
    )


def _enclosing(found: Handed) -> Place | None:
    """Where the function around the running one gives the variable its value, for one that an inner function reads."""
    body, code = found.level.body, found.level.frame.f_code
    if body is None or found.name not in code.co_freevars:
        return None
    line = body.node.lineno if isinstance(body.node, ast.FunctionDef) else found.level.line
    around = [
        each for each in functions(body.file) if isinstance(each.node, ast.FunctionDef) and each.node is not body.node
    ]
    inside = [each for each in around if each.node.lineno <= line <= (each.node.end_lineno or 0)]  # type: ignore[union-attr]
    places = [places[-1] for each in inside if (places := assignments(each, found.name))]
    return places[-1] if places else None


_PATH = re.compile(r"[\w.]+(\[\w+\])*")


def _where(found: Handed | None, outer: Place | None, call: str) -> str:
    """Before anything is computed from it: in the function that has the variable."""
    made = outer or (found.assigned if found is not None else None)
    if made is not None:
        return f"below line {made.line}, {made.text}{put(call, 'below', made)}"
    if found is None or found.given is None:
        return "before computing anything from it"
    return f"before line {found.level.line}, {found.level.place.text}{put(call, 'above', found.level.place)}"


def _cut(found: Handed | None, name: str) -> Cut | None:
    level = found.level if found else None
    every = cuts(level.body, name, level.line) if level else ()
    return every[0] if every else None


def _made(found: Handed | None, name: str, outer: Place | None) -> list[Fact]:
    place = (found.made if found else None) or outer
    if found is None or place is None:
        return []
    lines: list[Fact] = [shown(place, "creates it without requires_grad=True.")]
    here = found.assigned
    return lines if here is None or here == place else [*lines, shown(here, f"assigns it to {name}.")]
