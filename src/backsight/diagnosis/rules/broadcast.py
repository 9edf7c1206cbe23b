"""BS117: an N×1 and an N meet, and every entry of one is compared with every entry of the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.evidence.reduced import Reduced, against_features
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shaped, shown, warning
from backsight.source import assignments, statement_at
from backsight.source.body import body_around, dotted, expressions, statements
from backsight.source.rewriting import rewritten, simple
from backsight.story.fixes import too
from backsight.story.holders import users
from backsight.tracing import Met


@rule("BS117")
def broadcast(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: their N×N result goes into the loss as it is, up to a mean or sum over all of it.

    A result that is taken apart again, as by a minimum over one side, is meant; so is an operand that was given its
    shape for the purpose, and one that is the same in each step, such as levels or a grid.
    """
    told: set[str] = set()
    for index, met in scene.met().items():
        here = str(met.line.place)
        if met.column < 0 or here in told or not _all_of_it(scene, index, met.shapes[met.column][0]):
            continue
        told.add(here)  # one statement has one fix, however often they meet in it
        tall, flat = met.operands[met.column], met.operands[met.row]
        rows = met.shapes[met.column][0]
        if len(met.shapes[met.row]) == 2:
            yield _against_square(met, tall, flat, rows, index)
            continue
        first, second = (f"`{tall}`" if tall else "one", f"`{flat}`" if flat else "the other")
        fix = (
            f"Give both the same shape: {simple(tall)}.squeeze(1), or {simple(flat)}.unsqueeze(1)."
            f"{_likewise(met, tall, flat)}"
            if tall and flat and "…" not in f"{tall}{flat}"
            else "Give both the same shape: .squeeze(1) on one of them, or .unsqueeze(1) on the other."
        )
        yield warning(
            "BS117",
            f"{first} is {rows}×1 and {second} has shape {rows}: the loss compares every entry with all {rows}.",
            (
                shown(
                    met.line.place,
                    f"broadcasts {shaped(met.shapes[0])} and {shaped(met.shapes[1])} to {shaped((rows, rows))}.",
                ),
            ),
            fix,
            met.line,
            nodes=(index,),
        )
    for each in against_features(scene):
        if (here := str(each.meeting.place)) not in told:
            told.add(here)
            yield _of_samples(each)


def _of_samples(met: Reduced) -> Finding:
    text, reducing, joining = met.reduction.segment, met.reduction.place, met.meeting.place
    reduces = f"reduces {met.size}×{met.size} to {met.size} values, one for each sample"
    broadcasts = "broadcasts them along the samples: entry k goes to feature k of every sample."
    lines = (shown(reducing, f"{reduces}."), shown(joining, broadcasts))
    return warning(
        "BS117",
        f"`{text}` has a value for each sample, and meets the features: there are {met.size} of both.",
        (
            *(lines if reducing != joining else (shown(reducing, f"{reduces}, and {broadcasts}"),)),
            "With another batch size, it would raise.",
        ),
        f"Keep the dimension, so that each value goes to its own sample: {met.kept}.",
        reducing,
        nodes=(met.node.index,),
    )


def _likewise(met: Met, tall: str, flat: str) -> str:
    """Say which other lines of the function join the same two variables, and how to mend all of them at once."""
    here = met.line.place
    body = body_around(here.file, here.line)
    lines = [
        each.lineno
        for each in (statements(body.node) if body is not None else ())
        for node in expressions(each)
        if isinstance(node, ast.BinOp) and {dotted(node.left), dotted(node.right)} == {tall, flat}
    ]
    others = [line for line in dict.fromkeys(lines) if line != here.line]
    made = assignments(body, tall) if body is not None and others else []
    statement = statement_at(body, *made[0].position) if len(made) == 1 else None
    if body is None or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return too(others)
    new = rewritten(body, statement, {statement.value: f"{simple(body.text(statement.value))}.squeeze(1)"})
    return f"{too(others)} Or mend them all on line {statement.lineno}: `{new}`." if new else too(others)


def _against_square(met: Met, tall: str, flat: str, rows: int, index: int) -> Finding:
    """Tell of a target that was broadcast before, where there were no gradients."""
    first, second = (f"`{tall}`" if tall else "the prediction"), (f"`{flat}`" if flat else "the target")
    return warning(
        "BS117",
        f"{first} is {rows}×1 and {second} is {rows}×{rows}: the loss compares every entry with all {rows}.",
        (shown(met.line.place, f"broadcasts {shaped(met.shapes[0])} and {shaped(met.shapes[1])}."),),
        f"Compute {second} with shape {rows}×1: where it is computed, a tensor of shape {rows} is combined with one of "
        f"{rows}×1. Use .unsqueeze(1) on the first there.",
        met.line.place,
        nodes=(index,),
    )


def _all_of_it(scene: Scene, index: int, rows: int) -> bool:
    """Whether all that is made of the node is as large as it is, until it is one number."""
    above = users(scene.graph)
    stack, seen = [index], {index}
    while stack:
        at = stack.pop()
        shape = scene.graph.nodes[at].shape
        if shape == () or (shape is not None and not any(each != 1 for each in shape)):
            continue
        if shape != (rows, rows):
            return False
        more = [each.index for each in above.get(at, []) if each.index not in seen]
        if at not in above:
            return False
        seen.update(more)
        stack += more
    return True
