"""Gradients that were disabled elsewhere: by a switch that nothing turned back, a function that waits in a block, and
autograd itself, in the backward of a custom Function."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, listed, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place
from backsight.source.bindings import bound, uses
from backsight.source.body import body_around, callee, calls_in, functions, statements
from backsight.source.edits import OR, put, remove, wrap
from backsight.source.restoring import read_too_late
from backsight.story.cut_fixes import silenced
from backsight.story.enabling import computing, enabled, run_by_engine
from backsight.story.files import user_files
from backsight.story.memory import holds_gradient
from backsight.story.modes import switches
from backsight.story.waiting import Waiting, waiting_generators, waiting_tasks

_SWITCHED_OFF = "torch.is_grad_enabled() is still False, so some code disabled gradients and never re-enabled them."


def switched_off(scene: Scene) -> Finding | None:
    """`torch.set_grad_enabled(False)` was called and is still in force."""
    if torch.is_grad_enabled():
        return None
    places = list(switches(scene.failure))
    late = next((each for file in user_files(scene.failure) for each in read_too_late(file, "grad mode")), None)
    exact = len(places) == 1
    others = [str(each) for each in places[1:]] if late is None else [str(p) for p in places if p != late.changed]
    beside = (f"Gradients are also disabled at {listed(others, 3)}.",) if others else ()
    if late is not None:
        return explanation(
            scene.title("gradients were disabled and never re-enabled"),
            (
                shown(late.changed, "disables gradients."),
                shown(late.read, "reads the mode only after that: False.", sure_if(exact)),
                shown(late.restored, "sets the mode to what was read.", sure_if(exact)),
                *beside,
                *fails(scene),
            ),
            f"{late.fix}. {silenced(scene.loss)}",
            source=late.read,
            exact=exact,
        )
    place = places[0] if places else None
    if place is not None and (again := _entered_again(scene, place)) is not None:
        return again
    says = "disables them for everything that follows."
    off: Fact = shown(place, says, sure_if(exact)) if place else _SWITCHED_OFF
    return explanation(
        scene.title("gradients are disabled globally"),
        (off, *beside, *fails(scene)),
        _undone(place) if place else _BLOCK.format(".") + _EACH_TIME,
        source=place or scene.failure.source,
        exact=exact,
    )


_BLOCK = "Wrap only what needs no gradients in `with torch.no_grad():`, which ends by itself{}"
_EACH_TIME = f" {OR}Or call torch.set_grad_enabled(True) each time that it is done."


def _undone(place: Place) -> str:
    """How a switch is to end: as a block with what follows it; of what is entered and left, when it is left."""
    body = body_around(place.file, place.line)
    block = body.node.body if body is not None else []
    if body is not None and body.name == "__enter__":
        lines = [each.node.body[0].lineno for each in functions(place.file) if each.name == "__exit__"]
        first = min((line for line in lines if line > place.line), default=0)
        keep, back = "self.was_enabled = torch.is_grad_enabled()", "torch.set_grad_enabled(self.was_enabled)"
        edits = f"{put(keep, 'above', place)}{put(back, 'above', Place(place.file, first, ''))}" if first else ""
        return (
            f"Above line {place.line}, keep the mode: `{keep}`. In __exit__, "
            f"{f'above line {first}, put' if first else 'call'} `{back}`{edits}."
        )
    rest = [each for each in block if each.lineno > place.line]
    switch = any(each.lineno == place.line for each in block)
    within = [node for each in rest for node in ast.walk(each)]
    trains = any(isinstance(node, ast.Call) and callee(node)[1] in ("backward", "step") for node in within)
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in within)
    if body is None or isinstance(body.node, ast.Module) or not rest or not switch or trains or yields:
        return _BLOCK.format(f", instead of line {place.line}.") + _EACH_TIME
    first, last = rest[0].lineno, rest[-1].end_lineno or rest[-1].lineno
    what = f"line {first}" if first == last else f"lines {first} to {last}"
    under = "with torch.no_grad():"
    edits = f"{remove(place)}{wrap([*map(body.place, rest)], under)}"
    return f"Remove line {place.line}, and put {what} inside `{under}`{edits}, which ends by itself.{_EACH_TIME}"


def _entered_again(scene: Scene, switch: Place) -> Finding | None:
    """An object that keeps the mode in `__enter__` was entered again before it was left: the first mode is lost."""
    body = body_around(switch.file, switch.line)
    kept = _kept(body, switch) if body is not None and body.name == "__enter__" else None
    if kept is None:
        return None
    place, cls, attribute = kept
    kinds = [kind for level in scene.failure.users if isinstance(kind := level.frame.f_globals.get(cls), type)]
    held = search((), frames=scene.failure.frames, collect=tuple(kinds[:1])).found if kinds else []
    name = next((found.path for value, found in held if (namespace(value) or {}).get(attribute) is False), "")
    lost = f"{name}.{attribute} is False: {name} was last entered where gradients were disabled already."
    return explanation(
        scene.title("gradients were disabled and never re-enabled"),
        (
            shown(place, "keeps the mode for __exit__, which puts it back."),
            shown(switch, "disables gradients."),
            lost if name else None,
            *fails(scene),
        ),
        f"Make a new {cls} for each `with`: one that is entered again inside its own block keeps False, and puts that "
        f"back. {silenced(scene.loss)}",
        source=place,
        exact=bool(name),
    )


def _kept(body: Body, switch: Place) -> tuple[Place, str, str] | None:
    """The statement of `__enter__` above a switch that keeps the mode for `__exit__`, the class, and the attribute."""
    module = body_around(body.file, 0)
    classes = [each for each in ast.walk(module.node) if isinstance(each, ast.ClassDef)] if module else []
    own = next((each for each in classes if body.node in each.body), None)
    methods = [each for each in own.body if isinstance(each, ast.FunctionDef)] if own is not None else []
    leaving = [inner for each in methods if each.name == "__exit__" for inner in statements(each)]
    read = {use.name for each in leaving if _sets_mode(each) for use in uses(each) if "." in use.name}
    for each in statements(body.node):
        asks = any(callee(call)[1] == "is_grad_enabled" for call in calls_in(each))
        names = sorted(read & bound(each)) if asks and each.lineno < switch.line else []
        if names and own is not None:
            return body.place(each), own.name, names[0].rpartition(".")[2]
    return None


def _sets_mode(statement: ast.stmt) -> bool:
    return any(callee(call)[1] == "set_grad_enabled" for call in calls_in(statement))


# A function that waits inside a block without gradients: what else runs meanwhile has none either.


def left_by_generator(scene: Scene) -> Finding | None:
    """The loop around the failing line runs a generator that yields inside a block without gradients."""
    found = next(waiting_generators(scene.failure), None) if _may_be(scene) else None
    why = "as a decorator of a generator, it disables gradients only while the generator itself runs"
    return _left_open(scene, found, "yields", why, found.meanwhile) if found is not None else None


def left_by_task(scene: Scene) -> Finding | None:
    """Another coroutine of the program leaves gradients disabled while it waits."""
    found = list(waiting_tasks(scene.failure)) if _may_be(scene) else []
    if not found:
        return None
    meanwhile, is_sure = scene.seen[0].cut.place if scene.seen else None, bool(scene.seen) and len(found) == 1
    why = "gradients are disabled for the whole thread, not for one task"
    return _left_open(scene, found[0], "awaits", why, meanwhile, is_sure=is_sure)


def _may_be(scene: Scene) -> bool:
    """Whether nothing else has been seen to end the way."""
    return not scene.seen or scene.seen[0].cut.kind == "no_grad"


def _left_open(
    scene: Scene, found: Waiting, waits: str, why: str, meanwhile: Place | None, *, is_sure: bool = True
) -> Finding:
    off, certainty = found.off, sure_if(is_sure)
    name = off.body.name
    runs = if_known(meanwhile, "runs meanwhile, without gradients.")
    return explanation(
        scene.title(f"{name}() {waits} inside {off.text}, so gradients are disabled outside it, too"),
        (
            shown(off.place, "disables gradients.", certainty),
            shown(found.at, f"leaves the block open until {name}() goes on.", certainty),
            runs if runs is not None else None,
            *fails(scene),
        ),
        f"{found.instead}: {why}. {silenced(scene.loss)}",
        source=off.place,
        exact=is_sure,
    )


# A derivative that the backward of a custom Function takes: it runs with gradients disabled.


def within_backward(scene: Scene) -> Finding | None:
    """What was differentiated was computed in the backward of a custom Function, which records nothing."""
    level = run_by_engine(scene.failure)
    if level is None or level.body is None or level.statement is None:
        return None
    held = [name for name, value in level.variables.items() if holds_gradient(value)]
    inner = scene.failure.user or level
    if not held and not any(map(holds_gradient, (*scene.failure.inputs, *inner.variables.values()))):
        return None
    lines = computing(level.body, level.statement, held)
    first, fix = level.body.place(lines[0]), enabled(lines, level.body)
    return explanation(
        scene.title("the backward of a custom Function runs with gradients disabled"),
        (
            f"{level.function.rpartition('<locals>.')[2]} is called by autograd, which disables gradients there.",
            shown(first, "runs there, so it has no graph.") if lines[0] is not level.statement else None,
            *failing(scene.failure, "has nothing to backpropagate through."),
        ),
        f"{fix[0].upper()}{fix[1:]}.",
        source=first,
    )
