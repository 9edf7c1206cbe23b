"""BS125: the gradients of several batches are added up for one step, and none of their losses is divided."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from itertools import pairwise

import torch

from backsight.diagnosis.amending import instead, is_known
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.misplaced import modulus
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import listed, shown
from backsight.source import Body, Place, read_at
from backsight.source.body import body_around, callee, calls_in, statements
from backsight.source.rewriting import simple
from backsight.tracing import current

_MEANS = frozenset({"Mean", "MseLoss", "NllLoss", "NllLoss2D", "SmoothL1Loss", "HuberLoss", "SoftMarginLoss"}) | {
    "BinaryCrossEntropy",
    "BinaryCrossEntropyWithLogits",
}
"""Operations that end a loss and, unless the program says otherwise, take the mean over the batch."""


@rule("BS125")
def undivided(scene: Scene) -> Iterator[Finding]:
    """A step that is taken every K batches, after K backwards of one line.

    It matters to an optimizer whose step grows with the gradient; one that normalizes it, such as Adam, does not care.
    """
    roots = scene.graph.roots
    many = batches(scene)
    if many < 2 or len(roots) != 1 or roots[0].op not in _MEANS:
        return
    body = body_around(*scene.site)
    guard = _between_steps(body, scene.site[1]) if body is not None else None
    if body is None or guard is None:
        return
    grows = [name for name, each in scene.involved().items() if isinstance(each, torch.optim.SGD)]
    here = next((body.place(each) for each in statements(body.node) if each.lineno == scene.site[1]), None)
    yield Finding(
        "BS125",
        "warning" if grows else "note",
        f"Each step uses the sum of the gradients of {many} batches, not their mean.",
        (
            *((shown(here, "adds the gradient of a batch; its loss is a mean and is not divided."),) if here else ()),
            shown(guard[0], "accumulates several batches before each step."),
            f"{listed(grows)}: the step is {many} times as large as with one batch."
            if grows
            else (
                "This optimizer normalizes the gradient, so its step stays the same size; clipping and weight decay "
                "are still affected."
            ),
        ),
        f"Divide each loss by {guard[1]} before backward(){_divided(here, guard[1])}.",
        source=str(here) if here else None,
    )


def _divided(here: Place | None, by: str) -> str:
    """Divide what a backward is called on."""
    body, statement = read_at(here)
    roots = [callee(call)[0] for call in calls_in(statement) if callee(call)[1] == "backward"]
    if body is None or here is None or len(roots) != 1 or roots[0] is None or not is_known(by, here):
        return ""
    number = by if by.isidentifier() or by.isdigit() or "." in by else f"({by})"
    return instead(body, statement, {roots[0]: f"{simple(body.text(roots[0]))} / {number}"})


def batches(scene: Scene, *, several: bool = False) -> int:
    """Return how many backwards of this very line there were between the last two steps, if there were no others.

    several: of several optimizers, which step one after the other; then between the last two with backwards between.
    """
    watch, thread = current(), threading.get_ident()
    if watch is None or scene.steps is None or scene.moment != "during backward":
        return 0
    past = [0, *scene.steps.past.get(thread, ())]
    every = [each for each in watch.backwards if each.thread == thread and each.call == "backward"]
    pairs = list(pairwise(past))[-8 if several else -1 :]
    found = ([each for each in every if each.done and a < each.mark <= b] for a, b in reversed(pairs))
    between = next(filter(None, found), [])
    alike = all(each.line is not None and (each.line.file, each.line.line) == scene.site for each in between)
    return len(between) if alike else 0


def _between_steps(body: Body, line: int) -> tuple[Place, str] | None:
    """Return what lets a step be taken after K batches, and K: `if (i + 1) % K == 0:`, `for _ in range(K):`, or
    `for part in batch.chunk(K):`.

    None where the gradients are divided, or a loss is said to be a sum; nor where the passes of such a loop differ, as
    those over the tasks of a step do.
    """
    loops = [
        each
        for each in statements(body.node)
        if isinstance(each, ast.For | ast.While) and each.lineno < line <= (each.end_lineno or 0)
    ]
    loops.sort(key=lambda each: -each.lineno)
    module = body_around(body.file, 0)
    if not loops or module is None or any(map(_divides, ast.walk(loops[-1]))) or any(map(_sums, ast.walk(module.node))):
        return None
    for each in ast.walk(loops[0]):
        if isinstance(each, ast.If) and (by := modulus(each.test)) is not None and _steps(each.body):
            return body.place(each), body.text(by)
    inner = loops[0]
    times = inner.iter if isinstance(inner, ast.For) else None
    if len(loops) < 2 or _steps(inner.body) or not isinstance(times, ast.Call):
        return None
    parts = [each for each in ast.walk(times) if isinstance(each, ast.Call) and callee(each)[1] in ("chunk", "split")]
    if parts:
        chunked = callee(parts[0])[1] == "chunk" and len(parts[0].args) == 1
        return body.place(inner), body.text(parts[0].args[0]) if chunked else "the number of parts"
    if callee(times)[1] != "range":
        return None
    target = inner.target.id if isinstance(inner, ast.For) and isinstance(inner.target, ast.Name) else ""
    reads = (node for each in inner.body for node in ast.walk(each) if isinstance(node, ast.Name))
    if len(times.args) != 1 or any(node.id == target for node in reads):
        return None
    return body.place(inner), body.text(times.args[0])


def _steps(block: list[ast.stmt]) -> bool:
    calls = (n for each in block for n in ast.walk(each) if isinstance(n, ast.Call))
    return any(callee(call)[1] == "step" for call in calls)


def _divides(node: ast.AST) -> bool:
    """Whether a statement computes with gradients, and may divide them."""
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        return False
    inside = list(ast.walk(node))
    reads = any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in inside)
    return reads and (
        any(isinstance(each, ast.Div | ast.Mult) for each in inside)
        or any(isinstance(each, ast.Call) and callee(each)[1] in ("div_", "mul_") for each in inside)
    )


def _sums(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "reduction" and getattr(node.value, "value", "") == "sum"
