"""Models whose parameters follow those of another one: a target network, a teacher, an average of weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch.optim.swa_utils import AveragedModel

from backsight.diagnosis.scene import Scene
from backsight.source import Body, Place
from backsight.source.averaging import Writes, writes
from backsight.source.body import LOOPS, callers, statements
from backsight.tape import Leaf

_MOST_CALLS = 3
"""Functions that call one another, between a loop and a statement."""


def followers(scene: Scene, leaves: Sequence[Leaf]) -> dict[str, tuple[list[Leaf], Place | None]]:
    """Return the models, by name, that hold leaves and are written by the program, and the statement that does it.

    No optimizer is to hold these leaves: what they learn comes from the other model.
    """
    averaged = {name for name, model in scene.models.items() if issubclass(type(model), AveragedModel)}
    written = {
        each.target.rpartition(".")[2]: each.outermost
        for each in (writes(scene.site[0]) if leaves else ())
        if each.target and each.origin and each.how in ("loads", "blends", "shares") and _again(each)
    }
    found: dict[str, tuple[list[Leaf], Place | None]] = {}
    for leaf in leaves:
        parts = leaf.name.split(".")
        paths = {".".join(parts[: at + 1]): parts[at] for at in range(len(parts) - 1)}
        for path, last in paths.items():
            if path in averaged or last in written:
                found.setdefault(path, ([], written.get(last)))[0].append(leaf)
                break
    return found


def _again(written: Writes) -> bool:
    """Whether a statement runs again while the training goes on: what is copied once may be a first value."""
    return _is_in_a_loop(written.body, written.begins) or _is_repeated(written.body, _MOST_CALLS)


def _is_repeated(body: Body, most: int) -> bool:
    """Whether a function is called in a loop, or by a function that is."""
    calls = callers(body) if most and body.name != "__init__" else ()
    return any(_is_in_a_loop(each, at.lineno) or _is_repeated(each, most - 1) for each, at, _ in calls)


def _is_in_a_loop(body: Body, line: int) -> bool:
    loops = (each for each in statements(body.node) if isinstance(each, LOOPS))
    return any(each.lineno <= line <= (each.end_lineno or 0) for each in loops)
