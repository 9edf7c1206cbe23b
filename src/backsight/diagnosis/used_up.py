"""BS137: an iterator that can be gone through once, in a loop that runs in every epoch."""

from __future__ import annotations

import ast
import itertools
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType, GeneratorType

from torch.utils.data import DataLoader

from backsight.diagnosis.amending import added, block_of, instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, loops_around, program_frames
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming.plain import namespace
from backsight.source import Body, Place, assignments, function_at, only, read_at, statements_of
from backsight.source.bindings import assigned, bound, prefixes
from backsight.source.body import Loop, callee, dotted, expressions, statements
from backsight.source.edits import OR, move
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, method

_BUILT_IN: tuple[Iterable[object], ...] = ([], (), {}, {}.items(), {}.values(), "", range(0))
_ONCE = frozenset(
    {GeneratorType, zip, map, filter, enumerate, reversed, itertools.chain, itertools.islice}
    | {type(iter(each)) for each in _BUILT_IN}
)
_HANDS_ON = frozenset({"enumerate", "tqdm", "track"})


@dataclass(frozen=True)
class _Inside:
    """A statement of an `__iter__` that goes through an attribute, the attribute, and what gave it its value."""

    place: Place
    attribute: str
    made: Place | None
    holder: object


@dataclass(frozen=True)
class _Gone:
    """An iterator, what it is called, the loop that goes through it, and an `__iter__` that hands it on."""

    iterator: object
    name: str
    loop: Place
    inside: _Inside | None = None


def used_up(frame: FrameType, since: int) -> tuple[Finding, Callable[[], bool]] | None:
    """Return the finding that a loop around that which leads to a step does not make its iterator anew; and what tells
    later whether it may be used up.
    """
    gone: _Gone | None = None
    for each in program_frames(frame):
        level = Level(each, each.f_lineno)
        body = level.body
        if body is None:
            return None
        name = _name(level, gone) if gone is not None else ""
        for loop in reversed(loops_around(body, level.line)):
            if gone is None:
                gone = _gone_through(level, body, loop)
                name = gone.name if gone is not None else ""
            elif name and _goes_on(level, loop) and not _binds(loop, name):
                made = _made(body, name, loop) or (gone.loop if gone.inside is not None else None)
                if made is None:
                    return None
                return _finding(gone, name, made, body.place(loop), since), _is_over(gone)
        if gone is not None and not name:
            return None
    return None


def _gone_through(level: Level, body: Body, loop: Loop) -> _Gone | None:
    """Return what a loop goes through to its end, if that is an iterator which a variable holds."""
    given = loop.iter if isinstance(loop, ast.For) else None
    while isinstance(given, ast.Call) and callee(given)[1] in _HANDS_ON and given.args:
        given = given.args[0]
    name, held = dotted(given), value_of(level, given) if given is not None else None
    held, inside = (held, None) if type(held) in _ONCE else _behind(held)
    if name is None or type(held) not in _ONCE or any(isinstance(n, ast.Break | ast.Return) for n in ast.walk(loop)):
        return None
    return _Gone(held, name, body.place(loop), inside)


def _behind(held: object) -> tuple[object, _Inside | None]:
    """Return the iterator that an object of a class of the program's holds, and that its `__iter__` goes through."""
    data = (namespace(held) or {}).get("dataset") if type(held) is DataLoader else held
    function = method(type(data), "__iter__")
    body = function_at(function.__code__) if function is not None else None
    values = namespace(data) or {}
    if body is None or not values:
        return None, None
    for statement in statements(body.node):
        for node in filter(None, map(_handed_on, _passed(statement))):
            name = dotted(node) or ""
            value = values.get(name.removeprefix("self.")) if name.startswith("self.") else None
            if type(value) not in _ONCE or any(name in bound(each) for each in statements(body.node)):
                continue
            made = only(each.place(s) for each, s in statements_of(body.file) if name in bound(s))
            return value, _Inside(body.place(statement), name, made, held)
    return None, None


def _passed(statement: ast.stmt) -> list[ast.expr | None]:
    """Return what a statement of an `__iter__` goes through to its end, or returns."""
    if isinstance(statement, ast.Return | ast.For):
        return [statement.value if isinstance(statement, ast.Return) else statement.iter]
    return [each.value for each in ast.walk(statement) if isinstance(each, ast.YieldFrom)]


def _handed_on(given: ast.expr | None) -> ast.expr | None:
    """Return what is gone through: of `iter(x)`, `enumerate(x)` and `map(f, x)`, the last argument."""
    while isinstance(given, ast.Call) and callee(given)[1] in (*_HANDS_ON, "iter", "map", "filter") and given.args:
        given = given.args[-1]
    return given


def _name(level: Level, gone: _Gone) -> str:
    """Return what a caller calls the iterator: what it hands on, or by the same name."""
    given = (dotted(node) for node in expressions(level.statement))
    names = [gone.name, *(name for name in given if name is not None)]
    held = gone.iterator if gone.inside is None else gone.inside.holder
    return next((name for name in names if level.value(name) is held), "")


def _goes_on(level: Level, loop: Loop) -> bool:
    """Whether a loop has another pass after the first, as far as the text shows."""
    if isinstance(loop, ast.While):
        return not any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))
    times = loop.iter.args if isinstance(loop.iter, ast.Call) and callee(loop.iter)[1] == "range" else []
    return len(times) != 1 or value_of(level, times[0]) != 1


def _binds(loop: Loop, name: str) -> bool:
    inside = (node for node in ast.walk(loop) if isinstance(node, ast.stmt))
    return any(not set(prefixes(name)).isdisjoint(bound(statement)) for statement in inside)


def _made(body: Body, name: str, loop: Loop) -> Place | None:
    """Return the one statement that makes it, before the loop; of an attribute, the only one in the file."""
    if "." not in name:
        return next(reversed(assignments(body, name, before=loop.lineno)), body.place(loop))
    last = ending(name)
    every = statements_of(body.file)
    return only(each.place(s) for each, s in every if any(ending(n) == last and "." in n for n in bound(s)))


def _is_over(gone: _Gone) -> Callable[[], bool]:
    """Return what tells of a generator whether it has come to its end; of others that is not to be known."""
    if not isinstance(gone.iterator, GeneratorType):
        return lambda: True
    held = weakref.ref(gone.iterator)

    def is_over() -> bool:
        generator = held()
        return generator is None or generator.gi_frame is None

    return is_over


def _finding(gone: _Gone, name: str, made: Place, around: Place, since: int) -> Finding:
    kind = type(gone.iterator).__name__
    if gone.inside is not None:
        return _of_an_object(gone, gone.inside, name, around, kind, since)
    source, listing = made if made != around else gone.loop, f"{name} = list({name})"
    return warning(
        "BS137",
        f"{name} is exhausted after the first epoch: later epochs train nothing.",
        (
            if_known(made if made != around else None, f"creates it: a {kind}, which can be iterated only once."),
            shown(around, "runs the loop over it again without recreating it."),
            shown(gone.loop, "exhausts it in the first epoch and finds it empty afterwards."),
        ),
        f"Create it inside the loop at line {around.line}{_into(made, around)}. {OR}Or store what it yields: {listing}"
        f"{added(listing, 'below', made) if made != around else ''}.",
        source,
        since=since,
    )


def _into(made: Place, around: Place) -> str:
    """Move what makes an iterator to the start of each turn of a loop."""
    (body, statement), (other, loop) = read_at(made), read_at(around)
    if body is None or statement is None or loop is None or other is None or body.node is not other.node:
        return ""
    same = any(each is loop for each in block_of(body, statement))
    return str(move(made, "below", around)) if same and made.line < around.line else ""


def _of_an_object(gone: _Gone, inside: _Inside, name: str, around: Place, kind: str, since: int) -> Finding:
    new = f"a new {kind}" if kind != "generator" else "a new generator"
    return warning(
        "BS137",
        f"{name} is exhausted after the first epoch: its __iter__ returns the same {kind} each time.",
        (
            if_known(inside.made, f"creates it once: a {kind} can be iterated only once."),
            shown(inside.place, "goes through it again in each epoch."),
            shown(around, "runs the loop over it again."),
            shown(gone.loop, "exhausts it in the first epoch and finds it empty afterwards."),
        ),
        f"Create {new} in __iter__, in place of {inside.attribute}. {OR}Or store what it yields: {inside.attribute} = "
        f"list(...), and return iter({inside.attribute}){_listed(inside)}.",
        inside.place,
        since=since,
    )


def _listed(inside: _Inside) -> str:
    """Keep a list of what an iterator yields, and go through that."""
    (body, made), (_, used) = read_at(inside.made), read_at(inside.place)
    values = [value for goal, value in assigned(made) if dotted(goal) == inside.attribute]
    if body is None or len(values) != 1:
        return ""
    edit = instead(body, made, {values[0]: f"list({body.text(values[0])})"})
    if isinstance(used, ast.Return) and used.value is not None and dotted(used.value) == inside.attribute:
        edit += instead(read_at(inside.place)[0], used, {used.value: f"iter({inside.attribute})"})
    return edit
