"""What `torch.autograd.functional` refuses with strict=True: a function whose result has no graph."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import torch

from backsight.diagnosis.errors.no_grad.causes import places
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.source.body import statements
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff, cuts, why
from backsight.story.failure import Failure, function_of, owner_of
from backsight.story.sections import Section, run_by
from backsight.story.trained import trained


def without_graph(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the statement of the user's function that ends the gradient."""
    at = int(match["output"])
    section = _function(failure)
    if section is None:
        return _unlocated(failure, "the function", at)
    name = f"{section.body.name}()" if section.body.name.isidentifier() else "the lambda"
    start, count = _of_output(section, at)
    found = [each for each in cuts(failure, trained(failure), starts=[start]) if each.verdict is not False]
    found = [each for each in found if each.cut.kind != "frozen"]
    if not found:
        return _unlocated(failure, name, at)
    first = found[0]
    mend = mended(first)
    scene = Scene(failure, _refused(failure))
    seen = any(scene.saw(place) for place in places(first))
    says = f"{why(first.cut)}."
    which = f"Output {at} of {name}" if count > 1 else f"What {name} returns"
    return explanation(
        f"{which} does not require grad: {_because(first)}.",
        (shown(first.cut.place, says, None if seen else "read"), *failing(failure, f"differentiates {name}.")),
        f"{mend.edit}{mend.why} With strict=False, this derivative would only be zero.",
        source=first.cut.place,
        exact=seen,
    )


def _refused(failure: Failure) -> torch.Tensor | None:
    """The output that PyTorch's check has stopped at."""
    found = failure.levels[-1].variables.get("inp") if failure.levels else None
    return found if isinstance(found, torch.Tensor) else None


def _because(cut: CutOff) -> str:
    if cut.cut.kind == "no_grad":
        return f"{cut.cut.expression} disables gradients"
    return f"{cut.cut.expression} detached it from the graph"


def _function(failure: Failure) -> Section | None:
    """The user's function, which PyTorch has called."""
    levels = (each for each in reversed(failure.levels) if each not in failure.users)
    function = next((each.variables["func"] for each in levels if "func" in each.variables), None)
    if function is None:
        return None
    return next(run_by(function_of(function), owner_of(function), whole=False), None)


def _of_output(section: Section, at: int) -> tuple[Section, int]:
    """The function as far as it leads to one of its outputs, and how many it has where the text shows that."""
    every = [each.value for each in statements(section.body.node) if isinstance(each, ast.Return)]
    tuples = [each for each in every if isinstance(each, ast.Tuple) and at < len(each.elts)]
    if not tuples or len(tuples) < len(every):
        return section, 1
    goals = tuple((section.body.text(each.elts[at]), each.lineno) for each in tuples)
    return replace(section, goals=goals), len(tuples[0].elts)


def _unlocated(failure: Failure, name: str, at: int) -> Finding:
    return explanation(
        f"Output {at} of {name} does not require grad: it is not computed from the inputs, or was detached on the way.",
        failing(failure, f"differentiates {name}."),
        f"Compute the output from the inputs of {name}, without .detach(), .item(), torch.tensor(...) and "
        "torch.no_grad(). If it is a constant, its derivative is zero: strict=False returns that.",
        source=failure.source,
        exact=False,
    )
