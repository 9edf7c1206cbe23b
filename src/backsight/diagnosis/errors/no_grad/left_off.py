"""Gradients that were disabled and not enabled again: by a switch, or by a block in a generator that has not ended."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import GeneratorType

import torch
from torch.utils.data import DataLoader

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import is_class, namespace
from backsight.naming.roots import is_library
from backsight.source import Body, Place, assignments, function_at, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import body_around, callee, calls_in, expressions, functions, is_constant, statements
from backsight.source.restoring import read_too_late
from backsight.story.cut_fixes import silenced
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.modes import Disabled, is_sure, nearest_at
from backsight.story.scenes import called_function
from backsight.story.sections import Section, held_by, section_of

_SWITCHED_OFF = "torch.is_grad_enabled() is still False, so some code disabled gradients and never re-enabled them."


def switched_off(scene: Scene) -> Finding | None:
    """`torch.set_grad_enabled(False)` was called and is still in force."""
    if torch.is_grad_enabled():
        return None
    places = list(_switches(scene.failure))
    late = next((each for file in user_files(scene.failure) for each in read_too_late(file, "grad mode")), None)
    exact = len(places) == 1
    others = [str(each) for each in places[1:]] if late is None else [str(p) for p in places if p != late.changed]
    beside = (f"Gradients are also disabled at {listed(others, 3)}.",) if others else ()
    if late is not None:
        return explanation(
            scene.title("gradients were disabled and never re-enabled"),
            (
                shown(late.changed, "disables gradients."),
                shown(late.read, "reads the mode only after that: False.", None if exact else "read"),
                shown(late.restored, "sets the mode to what was read.", None if exact else "read"),
                *beside,
                *fails(scene),
            ),
            f"{late.fix}. {silenced(scene.loss)}",
            source=str(late.read),
            exact=exact,
        )
    place = places[0] if places else None
    if place is not None and (again := _entered_again(scene, place)) is not None:
        return again
    says = "disables them for everything that follows."
    off: Fact = shown(place, says, None if exact else "read") if place else _SWITCHED_OFF
    return explanation(
        scene.title("gradients are disabled globally"),
        (off, *beside, *fails(scene)),
        _undone(place) if place else _BLOCK.format(".") + _EACH_TIME,
        source=str(place) if place else scene.failure.source,
        exact=exact,
    )


_BLOCK = "Wrap only what needs no gradients in `with torch.no_grad():`, which ends by itself{}"
_EACH_TIME = " Or call torch.set_grad_enabled(True) each time that it is done."


def _undone(place: Place) -> str:
    """How a switch is to end: as a block, with what follows it in a function that only evaluates; of an object that is
    entered and left, when it is left."""
    body = body_around(place.file, place.line)
    block = body.node.body if body is not None else []
    if body is not None and body.name == "__enter__":
        lines = [each.node.body[0].lineno for each in functions(place.file) if each.name == "__exit__"]
        first = min((line for line in lines if line > place.line), default=0)
        return (
            f"Above line {place.line}, keep the mode: `self.was_enabled = torch.is_grad_enabled()`. In __exit__, "
            f"{f'above line {first}, put' if first else 'call'} `torch.set_grad_enabled(self.was_enabled)`."
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
    return f"Remove line {place.line}, and put {what} inside `with torch.no_grad():`, which ends by itself.{_EACH_TIME}"


def _entered_again(scene: Scene, switch: Place) -> Finding | None:
    """`__enter__` keeps the mode and `__exit__` puts it back: of an object that was entered again before it was left,
    the mode that was kept first is lost."""
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
            *((lost,) if name else ()),
            *fails(scene),
        ),
        f"Make a new {cls} for each `with`: one that is entered again inside its own block keeps False, and puts that "
        f"back. {silenced(scene.loss)}",
        source=str(place),
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


def left_by_generator(scene: Scene) -> Finding | None:
    """The loop around the failing line runs a generator that yields inside a block without gradients."""
    if scene.seen and scene.seen[0].cut.kind != "no_grad":
        return None
    for level in scene.failure.users:
        if level.body is None or nearest_at(level.body, level.line) is False:
            return None
        found = next(_open_blocks(scene, level), None)
        if found is not None:
            off, at, used = found
            name = off.body.name
            return explanation(
                scene.title(f"{name}() yields inside {off.text}, so gradients are disabled outside it, too"),
                (
                    shown(off.place, "disables gradients."),
                    shown(at, "leaves the block open until the generator goes on."),
                    *([shown(used, "runs meanwhile, without gradients.")] if used is not None else ()),
                    *fails(scene),
                ),
                f"{_by_decorator(off)} {silenced(scene.loss)}",
                source=str(off.place),
            )
    return None


def _open_blocks(scene: Scene, level: Level) -> Iterator[tuple[Disabled, Place, Place | None]]:
    """Yield the blocks without gradients that a generator has left open at a level, each with its yield and with the
    loop that runs meanwhile: a generator that a variable holds, where it waits, and those that the loops around run."""
    section = section_of(level)
    if section is None or level.body is None:
        return
    read = (use.name for each in statements(level.body.node) for use in uses(each))
    for name in () if torch.is_grad_enabled() else dict.fromkeys(read):
        held = level.value(name)
        if type(held) is GeneratorType and held.gi_frame is not None and not is_library(held.gi_code.co_filename):
            body = function_at(held.gi_code)
            off = _around(body, held.gi_frame.f_lineno) if body is not None else None
            if body is not None and off is not None:
                waits = statement_at(body, held.gi_frame.f_lineno)
                yield off, body.place(waits) if waits is not None else off.place, None
    made = assignments(level.body, level.receiver, before=level.line) if level.receiver else ()
    loops = [each for each in statements(level.body.node) if isinstance(each, ast.For)]
    for loop in (each for each in reversed(loops) if each.lineno < level.line <= (each.end_lineno or 0)):
        outside = made and (made[-1].line < loop.lineno or nearest_at(level.body, made[-1].line) is False)
        if level is scene.failure.user and outside:
            return
        for generator in _generators(section, loop.iter):
            found = [(_around(generator.body, each.lineno), each) for each in _yields(generator.body)]
            if all(off and is_sure(generator, off) for off, _ in found):
                yield from ((off, generator.body.place(each), level.body.place(loop)) for off, each in found if off)


def _around(body: Body, line: int) -> Disabled | None:
    """The block of a function that disables gradients at a line; what a decorator disables, a yield enables."""
    off = nearest_at(body, line)
    return off if off and not off.is_decorator else None


def _yields(body: Body) -> list[ast.stmt]:
    """The statements of a function that yield."""
    every = statements(body.node)
    return [each for each in every if any(isinstance(node, _YIELDS) for node in expressions(each))]


_YIELDS = (ast.Yield, ast.YieldFrom)
_DEPTH = 4


def _generators(section: Section, iterated: ast.expr, depth: int = _DEPTH) -> Iterator[Section]:
    """Yield the user's generators that iterating over an expression runs: `batches(data)`, `enumerate(loader)`."""
    own = [each for each in _run_by(section, iterated) if _yields(each.body)] if depth else []
    for found in own:
        yield found
        for each in statements(found.body.node):
            parts = [each.iter] if isinstance(each, ast.For) else []
            parts += [node.value for node in expressions(each) if isinstance(node, ast.YieldFrom)]
            for part in parts:
                yield from _generators(found, part, depth - 1)
    if isinstance(iterated, ast.Call) and callee(iterated)[1] not in ("len", "range") and depth:
        for given in iterated.args:  # what goes through what it is given, as enumerate() does
            yield from _generators(section, given, depth - 1)


def _run_by(section: Section, node: ast.expr) -> Iterator[Section]:
    """Yield what a call of a function runs, and the `__iter__` of an object, of its class, of a loader's dataset."""
    if isinstance(node, ast.Call):
        called = called_function(section, node)
        if called is not None and not getattr(called.body.node, "decorator_list", ()):
            yield called
        return
    value = value_of(section, node)
    value = value.dataset if type(value) is DataLoader and not value.num_workers else value
    kind = value if is_class(value) else type(value)
    iterates = method(kind, "__iter__")
    if iterates is not None and not is_library(iterates.__code__.co_filename):
        body = function_at(iterates.__code__)
        if body is not None:
            own = frozenset(iterates.__code__.co_varnames)
            held = held_by(iterates, None if value is kind else value)
            yield Section(body, (), held, iterates.__globals__, own=own)


def _by_decorator(off: Disabled) -> str:
    """The block of a generator as a decorator, under which PyTorch enables gradients again at each yield."""
    line = off.place.line
    remove = f"Remove line {line}, `{off.place.text}`, dedent the lines inside it"
    if any(isinstance(each, ast.With) and each.lineno == line and each.items[1:] for each in statements(off.body.node)):
        remove = f"Remove {off.text} from line {line}"
    return (
        f"{remove}, and put `@torch.no_grad()` above line {getattr(off.body.node, 'lineno', 0)}: as a decorator of a "
        "generator, it disables gradients only while the generator itself runs."
    )


def _switches(failure: Failure) -> Iterator[Place]:
    """The statements of the user's files that switch gradients off for good, those of a function that ran too."""
    for file in user_files(failure):
        module = body_around(file, 0)
        every = ast.walk(module.node) if module else ()
        yield from (module.place(each) for each in every if module and isinstance(each, ast.stmt) and _is_switch(each))


def _is_switch(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.With):
        return False
    calls = calls_in(statement)
    return any(callee(c)[1] == "set_grad_enabled" and c.args and is_constant(c.args[0], False) for c in calls)
