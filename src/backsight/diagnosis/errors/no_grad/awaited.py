"""A coroutine that awaits inside a block without gradients: what else the event loop runs meanwhile has none either."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Certainty
from backsight.source import Body, Place
from backsight.source.body import expressions, functions, statements
from backsight.source.coroutines import AsyncFor, AsyncFunctionDef, AsyncWith, Await
from backsight.story.cut_fixes import silenced
from backsight.story.files import user_files
from backsight.story.modes import Disabled, nearest_at

_WAITING = (Await, ast.Await)
_HANDING_OVER = (AsyncFor, AsyncWith)


def left_by_task(scene: Scene) -> Finding | None:
    """Another coroutine of the program leaves gradients disabled while it waits."""
    levels = scene.failure.users
    if not any(each.frame.f_code.co_flags & inspect.CO_COROUTINE for each in levels):
        return None
    if scene.seen and scene.seen[0].cut.kind != "no_grad":
        return None
    own = {each.body.node for each in levels if each.body is not None}
    every = (body for file in user_files(scene.failure) for body in functions(file) if body.node not in own)
    found = [pair for body in every if isinstance(body.node, AsyncFunctionDef) for pair in _open_blocks(body)]
    if not found:
        return None
    off, waits = found[0]
    is_sure = bool(scene.seen) and len(found) == 1
    certainty: Certainty | None = None if is_sure else "read"
    meanwhile = scene.seen[0].cut.place if scene.seen else None
    return explanation(
        scene.title(f"{off.function}() awaits inside {off.text}, so gradients are disabled in other tasks, too"),
        (
            shown(off.place, "disables gradients.", certainty),
            shown(waits, "hands over to other tasks, and leaves the block open until it goes on.", certainty),
            *([shown(meanwhile, "runs meanwhile, without gradients.")] if meanwhile is not None else ()),
            *fails(scene),
        ),
        f"{_outside(off, waits)}: gradients are disabled for the whole thread, not for one task. "
        f"{silenced(scene.loss)}",
        source=str(off.place),
        exact=is_sure,
    )


def _open_blocks(body: Body) -> Iterator[tuple[Disabled, Place]]:
    """The blocks of a coroutine without gradients in which it waits, each with the first statement that does."""
    for each in statements(body.node):
        waits = isinstance(each, _HANDING_OVER) or any(isinstance(node, _WAITING) for node in expressions(each))
        off = nearest_at(body, each.lineno) if waits else None
        if off and not off.is_decorator:
            yield off, body.place(each)


def _outside(off: Disabled, waits: Place) -> str:
    """Where to wait instead: above the block, where nothing comes before."""
    block = next((each for each in statements(off.body.node) if each.lineno == off.place.line), None)
    alone = isinstance(block, ast.With) and block.body[0].lineno == waits.line and isinstance(block.body[0], ast.Expr)
    if alone:
        return f"Move line {waits.line}, `{waits.text}`, above line {off.place.line}, `{off.place.text}`"
    return f"End the block of line {off.place.line} before line {waits.line}, `{waits.text}`"
