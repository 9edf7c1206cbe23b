"""What carries a graph into the next iteration, or the next call: hidden states, running sums, kept attributes.

Both a backward that runs into a freed graph and one that runs into weights stepped since ask this.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import attributes_held, structure
from backsight.diagnosis.evidence.spoken import simple
from backsight.naming.plain import class_dict, mro
from backsight.naming.roots import is_user_class
from backsight.source import (
    Body,
    LoopFacts,
    Place,
    assignments,
    calls_of,
    function_at,
    lets_through,
    loop_facts,
    may_have_history,
    read_at,
    statement_at,
)
from backsight.source.ancestry import Ancestor
from backsight.source.bindings import Use, uses
from backsight.source.body import body_around, callee, statements
from backsight.source.keeping import is_cached
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level, method
from backsight.story.sections import methods_of
from backsight.story.stepping import optimizer_steps


@dataclass(frozen=True, eq=False)
class Carried:
    """Variables that take results with their history from one `span` into the next: "iteration" or "call".

    level: the function that runs backward into what they carry.
    read: the statement that reads the first of them as it was left. assigned: the one that leaves it so.
    facts: the loop whose iterations these are.
    own: whether they are attributes of an object whose own methods, which have returned, call it `self`.
    alike: the objects of one class that each keep a result under this name, that one first.
    """

    level: Level
    names: tuple[str, ...]
    read: Place
    assigned: Place
    span: str
    facts: LoopFacts | None = None
    own: bool = False
    alike: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def inner(self) -> str:
        """What the statements that read and assign it call it."""
        return self.called(self.name)

    def called(self, name: str) -> str:
        """What those statements call one of the names."""
        return f"self.{name.rpartition('.')[2]}" if self.own else name

    def detached(self) -> str:
        """The statements that cut the history of all of them."""
        if len(self.alike) > 1:
            cuts = (detached_as(f"each.{name.rpartition('.')[2]}", self.level.value(name)) for name in self.names)
            return f"for each in ({', '.join(self.alike)}): {'; '.join(cuts)}"
        return "; ".join(detached_as(name, self.level.value(name)) for name in self.names)


def carried(case: Case) -> Carried | None:
    """Find what carries an older graph into this pass, as the text and what is held now show it."""
    queries: tuple[Callable[[Case], Carried | None], ...] = (_by_loop, _by_function, _by_object)
    return next((found for query in queries if (found := query(case)) is not None), None)


def _by_loop(case: Case) -> Carried | None:
    """A variable that an iteration reads before it assigns it holds a result with a history."""
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            carriers = [n for n in names if n in facts.carried and case.carries(level, n, facts.carried[n][0])]
            if carriers:
                return Carried(level, tuple(carriers), *facts.carried[carriers[0]], "iteration", facts)
    return None


def _by_function(case: Case) -> Carried | None:
    """What outlives a function that reads it before it assigns it, `self.hidden` or a global, holds a result."""
    for level in case.failure.users:
        outliving = _declared(level.body) if level.body else set()
        found: dict[str, tuple[Place, Place]] = {}
        for name, ancestor in case.ancestors(level).items():
            if level.body and ("." in name or name in outliving) and ancestor.entering:
                assigned = assignments(level.body, name)
                read = _first_read(ancestor, assigned)
                cached = all(is_cached(level.body, name, each) for each in assigned)
                if assigned and not cached and case.carries(level, name, read):
                    found[name] = read, assigned[-1]
        if found:
            return Carried(level, (*found,), *found[next(iter(found))], "call")
    return None


def _by_object(case: Case) -> Carried | None:
    """An attribute of an object keeps a result of this graph, and the methods of its class both read and assign it."""
    found: dict[str, tuple[Place, Place]] = {}
    alike: dict[str, type] = {}
    for tensor, path in attributes_held(case.failure.frames):
        owner, _, attribute = path.partition("[")[0].rpartition(".")
        if not owner or not case.graph.shared(structure(tensor)) or not case.is_joint(tensor):
            continue
        held = next((value for level in case.failure.users if (value := level.value(owner)) is not None), None)
        kept = _kept_by(type(held), f"self.{attribute}") if held is not None else None
        if kept is not None and type(held) is next(iter(alike.values()), type(held)):
            alike[owner] = type(held)
            if owner == next(iter(alike)):
                found.setdefault(f"{owner}.{attribute}", kept)
    cut = [name for name in found if any(_detaches(level, name) for level in case.failure.users)]
    if len(cut) < len(found):
        found = {name: kept for name, kept in found.items() if name not in cut}
    first = next(iter(found), None)
    return (
        Carried(case.failure.users[0], (*found,), *found[first], "call", own=True, alike=(*alike,)) if first else None
    )


def _detaches(level: Level, name: str) -> bool:
    """Whether a statement of the loop around this line detaches the variable already, in each pass."""
    facts = loop_facts(level.body, level.line)
    loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
    return any(
        {Use(name, True), Use(name, False)} <= set(uses(each)) and not lets_through(each, name)
        for each in getattr(loop, "body", ())
        if isinstance(each, ast.Assign)
    )


def _declared(body: Body) -> set[str]:
    """The names that a function declares `global` or `nonlocal`."""
    return {
        name for each in statements(body.node) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names
    }


def _first_read(ancestor: Ancestor, assigned: tuple[Place, ...]) -> Place:
    """Return the first of the statements that have to do with a name: that is where its old value comes in."""
    return min([ancestor.read, *assigned], key=lambda place: place.line)


def _kept_by(cls: type, name: str) -> tuple[Place, Place] | None:
    """Where a method of `cls` reads the attribute `name` with its history, and where it, or another, assigns it."""
    for base in mro(cls):
        if not is_user_class(class_dict(base).get("__module__")):
            continue
        methods = [m for each in class_dict(base) if each != "__init__" and (m := method(base, each)) is not None]
        bodies = [body for each in methods if (body := function_at(each.__code__)) is not None]
        kept = [(body, place) for body in bodies for place in assignments(body, name) if _may_carry(body, place)]
        if not kept or all(is_cached(body, name, place) for body, place in kept):
            continue
        kept.sort(key=lambda each: _read(each[0], name) is None)
        reading = (place for body in (kept[0][0], *bodies) if (place := _read(body, name)) is not None)
        read = next(reading, None)
        if read is not None:
            return read, [place for body, place in kept if body is kept[0][0]][-1]
    return None


def _may_carry(body: Body, place: Place) -> bool:
    statement = statement_at(body, *place.position)
    return statement is None or may_have_history(statement)


def _read(body: Body, name: str) -> Place | None:
    """The first statement that passes the history of `name` on; None where every one detaches it.

    A test, `if self.cache is not None:`, is that only where nothing computes with it.
    """
    reading = [each for each in statements(body.node) if Use(name, False) in uses(each) and lets_through(each, name)]
    first = min(reading, key=lambda each: isinstance(each, ast.If | ast.While | ast.Assert), default=None)
    return body.place(first) if first is not None else None


def detaching(found: Carried) -> str:
    """Say where to detach: not in a loop within the iteration, or the call, that assigns it, nor in a method of the
    object that keeps it, which may run many times in a step."""
    level, facts = found.level, found.facts
    if kept := _kept_without(found):
        return kept
    body = body_around(found.assigned.file, found.assigned.line)
    within = loop_facts(body, found.assigned.line)
    inner = within is not None and (facts is None or within.loop != facts.loop) and not _covers(within, level.place)
    if not inner and not found.own:
        return f"Detach after each step: {found.detached()}."
    steps = [each for each in optimizer_steps(level) if each.line >= level.line] or [level.place]
    but = f", and not in the loop at line {within.loop.line}" if inner and within else ""
    return f"Detach once per step, after line {steps[0].line}, {steps[0].text}{but}: {found.detached()}."


def _kept_without(found: Carried) -> str:
    """The statement of a method that keeps a result, with its values alone, `self.chains = z.detach()`: where each pass
    calls the method once, and nothing reads the attribute again in that pass. Empty elsewhere.
    """
    level, line = found.level, found.assigned.line
    body, statement = read_at(found.assigned)
    single = found.own and len(found.names) == len(found.alike) == 1 and isinstance(statement, ast.Assign)
    if not single or body is None or level.body is None or loop_facts(body, line) is not None:
        return ""
    calls = [each for each in calls_of(*{body.file, level.body.file}) if callee(each[2])[1] == body.name]
    loops_around = [loop_facts(caller, each.lineno) for caller, each, _ in calls if caller.node is level.body.node]
    methods = methods_of(type(level.value(found.name.rpartition(".")[0])))
    earlier = all(
        within.node is body.node and each.lineno < line
        for within, name in [(level.body, found.name), *((each, found.inner) for each in methods)]
        for each in statements(within.node)
        if Use(name, False) in uses(each)
    )
    if len(calls) != 1 or loops_around != [loop_facts(level.body, level.line)] or not earlier:
        return ""
    value = statement.value if isinstance(statement, ast.Assign) else None
    new = rewritten(body, statement, {value: f"{simple(body.text(value))}.detach()"}) if statement and value else ""
    return f"Keep its values alone: on line {line}, write `{new}`." if new else ""


def _covers(facts: LoopFacts, place: Place) -> bool:
    """Whether a statement stands in the loop."""
    body = body_around(place.file, place.line) if facts.loop.file == place.file else None
    around = loop_facts(body, place.line)
    while around is not None and around.loop != facts.loop:
        around = around.enclosing
    return around is not None


def detached_as(name: str, held: object) -> str:
    """Return the statement that cuts the history of a variable which holds `held`: a tensor, or containers of some."""
    if held is None:  # not to be read without running code
        return f"{name} = {name}.detach()"
    cut = _without_history(name, held)
    return f"{name} = {cut}" if cut else f"detach() every tensor that {name} holds"


def _without_history(name: str, held: object, inner: str = "each") -> str | None:
    """Return the expression for `held` without its history; None where it is not one line."""
    if isinstance(held, torch.Tensor):
        return f"{name}.detach()"
    if not isinstance(held, (dict, list, tuple)) or type(held) not in (dict, list, tuple):
        return None  # of a class of the user's, whose own code would run
    values = [*held.values()] if isinstance(held, dict) else [*held]
    each = "h" if values and isinstance(values[0], torch.Tensor) else inner
    cuts = {_without_history(each, value, "") for value in values} if each else set()
    cut = cuts.pop() if len(cuts) == 1 else None
    if cut is None:
        return None
    if type(held) is dict:
        return f"{{key: {cut} for key, {each} in {name}.items()}}"
    return f"[{cut} for {each} in {name}]" if type(held) is list else f"tuple({cut} for {each} in {name})"
