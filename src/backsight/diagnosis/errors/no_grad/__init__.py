"""BS203: backward was called on a tensor without a history.

Every place where the text may cut a history off is weighed by what the variables still hold: one that turns a tensor
with a history into one without is the cause. Else it is looked for in what the loss was computed from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import torch

from backsight.diagnosis.errors.no_grad.beside import computed_beside, never_added
from backsight.diagnosis.errors.no_grad.causes import (
    by_forward_hook,
    cut_as_seen,
    cut_off,
    likely,
    nothing_requires_grad,
    off_around,
    reentrant,
)
from backsight.diagnosis.errors.no_grad.frozen import cut_from_itself, frozen, frozen_in_optimizer, rebound
from backsight.diagnosis.errors.no_grad.inputs import constant_derivative, input_without_grad
from backsight.diagnosis.errors.no_grad.left_off import left_by_generator, left_by_task, switched_off, within_backward
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.no_grad.strict import without_graph
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, listed, lost, shown
from backsight.findings.evidence import Fact
from backsight.source import Place, assignments, calls_of
from backsight.source.body import callee, calls_in, statements
from backsight.source.edits import on_line
from backsight.source.rewriting import rewritten
from backsight.story.cut_fixes import silenced
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.sections import sections

Clue = Callable[[Scene], "Finding | None"]

CLUES: tuple[Clue, ...] = (
    left_by_generator,
    switched_off,
    off_around,
    rebound,
    constant_derivative,
    frozen_in_optimizer,
    cut_off,
    cut_from_itself,
    frozen,
    by_forward_hook,
    reentrant,
    left_by_task,
    likely,
    never_added,
    nothing_requires_grad,
)


@explains(
    "BS203",
    r"element (\d+) of (?:the input )?tensors does not require grad",
    r"of the differentiated Tensors does not require grad",
    r"Output (?P<output>\d+) of the user-provided function does not require gradients",
)
def no_grad(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the statement that cut the loss off from what is to be trained."""
    if match.groupdict().get("output"):
        return without_graph(failure, match)
    if not match.groups() or match.group(1) is None:
        return input_without_grad(failure)
    scene = Scene(failure, _root(failure, int(match.group(1))))
    if (told := within_backward(scene)) is not None:
        return told
    if torch.is_grad_enabled() and (beside := computed_beside(scene)) is not None:
        return beside
    read = next((found for clue in CLUES if (found := clue(scene)) is not None), None)
    if read is None or not (read.exact or scene.saw(read)):
        read = cut_as_seen(scene) or read
    return read or _unlocated(scene)


def _root(failure: Failure, index: int) -> torch.Tensor | None:
    """The tensor that the message speaks of; containers may list one twice, so the place alone is not trusted."""
    bare = [root for root in failure.roots if isinstance(root, torch.Tensor) and not root.requires_grad]
    at = failure.roots[index] if index < len(failure.roots) else None
    return next((root for root in bare if root is at), bare[0] if bare else None)


def _unlocated(scene: Scene) -> Finding:
    level = scene.failure.user
    made = assignments(level.body, scene.loss, before=level.line) if level else ()
    evidence: list[Fact] = [shown(place, f"computes {scene.loss}.") for place in made[-3:]]
    if level:
        evidence.append(shown(level.place, "has nothing to backpropagate through."))
    if len(made) > 1:
        evidence.append(f"If only the first of them ran, {scene.loss} is still a constant.")
    drawn = list(_drawn(scene.failure))
    evidence += [shown(place, "draws with sample(), which has no gradient.", "read") for place, _ in drawn]
    if scene.root is not None:
        evidence.append(f"{scene.loss}: {described(scene.root)}{_made_in(scene.root)}.")
    if not drawn:
        evidence.append(
            lost("Where it was detached")
            if level is None or level.body
            else "The source of this code is not available, so what detached it is unknown."
        )
    return explanation(
        scene.title("none of its inputs does, or it was detached on the way"),
        evidence,
        f"If {scene.loss} should train through what is drawn, draw with rsample(): "
        f"{listed([on_line(place, new) for place, new in drawn])}. {silenced(scene.loss)}"
        if drawn
        else "Look between the model's output and the loss for .detach(), .item(), .data, argmax, torch.tensor(...) "
        f"and torch.no_grad(), and for frozen parameters. {silenced(scene.loss)}",
        source=drawn[0][0] if drawn else scene.failure.source,
        exact=False,
    )


def _drawn(failure: Failure) -> Iterator[tuple[Place, str]]:
    """The statements behind the loss that call `sample()`, with `rsample()`, where each distribution has that."""
    known = {name for name in torch.distributions.__all__ if name[0].isupper()}
    files = user_files(failure)
    made = {callee(call)[1] for _, _, call in calls_of(*files)} & known
    if not made or not all(getattr(torch.distributions, each).has_rsample for each in made):
        return
    for section in sections(failure):
        for each in statements(section.body.node):
            calls = ((call, *callee(call)) for call in calls_in(each))
            drawn = [(call, on) for call, on, name in calls if name == "sample" and on is not None]
            new: dict[ast.expr, str] = {call.func: f"{section.body.text(on)}.rsample" for call, on in drawn}
            line = rewritten(section.body, each, new) if new else ""
            if line:
                yield section.body.place(each), line


def _made_in(root: torch.Tensor) -> str:
    if root.is_inference():
        return ", made under torch.inference_mode()"
    if not (root.is_floating_point() or root.is_complex()):
        return ", and integers and booleans never require grad"
    return ""
