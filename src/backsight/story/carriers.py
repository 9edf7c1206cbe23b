"""What brought a result of an earlier pass into this one: a variable, an attribute, an entry, a closure or a cache, who
stored it there and when, and who uses it again.

A backward that runs into a freed graph and one that runs into weights stepped since ask the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from backsight.naming.roots import is_library
from backsight.naming.suspended import suspended
from backsight.source import (
    LoopFacts,
    Place,
    assignments,
    function_at,
    lets_through,
    loop_facts,
    may_have_history,
    parsed,
    read_at,
    statement_at,
)
from backsight.source.ancestry import Ancestor
from backsight.source.bindings import Use, bound, prefixes, uses
from backsight.source.body import Body, blocks, body_around, callee, calls_in, dotted, expressions, statements
from backsight.source.keeping import Keeping, decorator_that_keeps, is_cached
from backsight.story.case import Case, loops
from backsight.story.failure import Level
from backsight.story.holders import (
    attributes_held,
    below,
    made_in,
    needs_saved,
    results_in,
    results_of_object,
    structure,
)
from backsight.story.joints import Joint, assigned, joint_of, passed_on, stored
from backsight.story.memory import is_tensor
from backsight.story.sections import function_called, sections, undecorated
from backsight.story.stores import Store, apart, emptied, first_read, held_as, spellings, stores
from backsight.tracing import Line

Kind = Literal["carried", "summed", "once", "cached", "kept", "written"]
"""How an old result comes into a new pass: a statement passes it on from pass to pass, or adds it up; it was computed
once; it is computed where there is none yet; a container keeps it; or it was written into a tensor that stays."""

WRITES = ("CopySlices", "IndexPut")
"""The operations of `x[a:b] = y` and of `x[positions] = y`."""


@dataclass(frozen=True, eq=False)
class Carrier:
    """What takes results with their history from one `span` into the next: "iteration", "call" or "pass".

    names: what the function of `level` calls it; if there are several, they are carried alike.
    read: the statement that reads it as it was left. stored: the one that left it so. made: the one that computed it,
        where that is another.
    nodes: what made the old results, where something still holds them.
    facts: the loop whose iterations these are.
    own: whether methods which have returned read and assign it, as an attribute of `self`.
    alike: the objects of one class that each keep a result under this name, that one first.
    keeping: how a container, a cache or a tensor got it.
    dropped: the statement that returns a detached copy, which nothing uses. waits: the one at which a generator waits.
    function: the function that reads it from outside each time it is called.
    sure: whether it is the one, if all else is known; another of the kind may be.
    """

    case: Case
    kind: Kind
    level: Level
    names: tuple[str, ...]
    read: Place | None = None
    stored: Place | None = None
    made: Place | Line | None = None
    nodes: tuple[int, ...] = ()
    span: str = "iteration"
    facts: LoopFacts | None = None
    own: bool = False
    alike: tuple[str, ...] = ()
    keeping: Keeping | None = None
    dropped: Place | None = None
    waits: Place | None = None
    function: str = ""
    sure: bool = True

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def variable(self) -> str:
        """The variable or the attribute itself, without an entry of it."""
        return apart(self.name)[0]

    @property
    def inner(self) -> str:
        """What the statements that read and store it call it."""
        return self.called(self.name)

    def called(self, name: str) -> str:
        """What those statements call one of the names."""
        return f"self.{name.rpartition('.')[2]}" if self.own else name

    def made_of(self, name: str) -> Place | None:
        """The statement of the level's function that gave a variable its value."""
        return next(reversed(assignments(self.level.body, name, before=self.level.line)), None)

    @property
    def value(self) -> object:
        held = self.level.value(self.name)
        return held if held is not None else held_as(self.case.failure, self.name)

    @property
    def when(self) -> str:
        """When it was stored, of what was only once."""
        body = body_around(self.stored.file, self.stored.line) if self.stored else None
        if self.facts is not None:
            return "before the loop"
        if self.function:
            return f"outside {self.function}()"
        if body is not None and isinstance(body.node, ast.ClassDef):
            return f"in the body of class {body.name}"
        return "in __init__" if body is not None and body.name == "__init__" else ""


def carriers(case: Case) -> Iterator[Carrier]:
    """Yield what may have brought an earlier graph into this pass, what fits best first; nothing that leads elsewhere
    than to the node at which the backward fails, if that is known."""
    for query in (
        _once,
        _by_loop,
        _by_function,
        _by_section,
        _by_object,
        _suspended,
        _upstream,
        _by_closure,
        _held,
        _by_joint,
    ):
        for found in query(case):
            if case.towards is None or not found.nodes or case.towards in below(case.graph, found.nodes):
                yield replace(found, dropped=_dropped(found))


def _upstream(case: Case) -> Iterator[Carrier]:
    """What holds something from before the loop, from which a part of the joint is recomputed in the loop."""
    return _once(case, upstream=True) if case.joints else iter(())


def _once(case: Case, upstream: bool = False) -> Iterator[Carrier]:
    """A variable that the loop reads and never assigns holds a result of this very graph.

    upstream: whether what the joints were computed from counts too.
    """
    joints = set(below(case.graph, case.joints) if upstream else case.joints)
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            for name, ancestor in names.items():
                value = level.value(name)
                anew = any(each in facts.assigned for each in prefixes(name))
                if anew or value is case.root or _is_namespace(value) or _acts(level, ancestor):
                    continue
                nodes = [i for i in made_in(case.graph, value) if needs_saved(case.graph, i)]
                if (passed := _passed_inside(case, name, value)) is not None:
                    yield passed
                    continue
                if not nodes or (joints and not set(nodes) & joints):
                    continue
                if not upstream or name in facts.outside or ancestor.read == facts.loop:
                    yield _put_together(case, level, ancestor, nodes) or _computed(case, level, facts, ancestor, nodes)


def _passed_inside(case: Case, name: str, value: object) -> Carrier | None:
    """It is a container in which a statement passes entries on: `memory["h"][k] = cell(x, memory["h"][k])`."""
    if is_tensor(value) or type(value) is tuple or not results_in(value) or not case.is_joint(value):
        return None
    every = (each for each in stores(case.failure, name) if each.inside and each.again and not each.once)
    store = next(every, None)
    if store is None:
        return None
    path = _with_known_keys(passed_on(store.body, store.place.line)) or name
    level = case.failure.users[0]
    span = "iteration" if level.body is not None and store.body.node is level.body.node else "call"
    return Carrier(case, "carried", level, (path,), store.place, store.place, span=span)


def _with_known_keys(path: str) -> str:
    """As much of a path as the text knows the keys of: `memory["h"]` of `memory["h"][k]`."""
    node = parsed(path)
    every = [each for each in ast.walk(node) if isinstance(each, ast.Subscript)] if node is not None else []
    unknown = [each for each in every if not isinstance(each.slice, ast.Constant)]
    return ast.unparse(unknown[-1].value) if unknown else path


def _put_together(case: Case, level: Level, ancestor: Ancestor, nodes: list[int]) -> Carrier | None:
    """It was put together from what a container keeps: to put it together again would not help."""
    name, inside = ancestor.name, set(below(case.graph, nodes)) - set(nodes)
    for path, node in reversed(case.held):
        container, entries = apart(path)
        store = _filled(case, container) if entries and container.partition(".")[0] != name and node in inside else None
        if store is not None:
            return Carrier(
                case,
                "kept",
                level,
                (container, name),
                ancestor.read,
                store.place,
                nodes=(node, *nodes),
                facts=next(loops(level), None),
                keeping=store.keeping,
            )
    return None


def _filled(case: Case, container: str) -> Store | None:
    """The statement that puts things into a container, one that may find it empty last: it may be zeros."""
    found = [each for each in stores(case.failure, container) if each.inside]
    return next((each for each in found if not each.keeping.cached), next(iter(found), None))


def _is_namespace(value: object) -> bool:
    """Whether this is the dictionary that `exec` was given: what it holds was computed by code elsewhere."""
    return type(value) is dict and "__builtins__" in value


def _acts(level: Level, ancestor: Ancestor) -> bool:
    """Whether the statement calls a method of what the name stands for: an object computes, it was not computed."""
    value = level.value(ancestor.name)
    if is_tensor(value) or type(value) in (list, tuple, dict):
        return False
    calls = calls_in(statement_at(level.body, *ancestor.read.position))
    return any((dotted(call.func) or "").startswith(f"{ancestor.name}.") for call in calls)


def _computed(case: Case, level: Level, facts: LoopFacts, ancestor: Ancestor, nodes: list[int]) -> Carrier:
    name, read = _element(case, level, ancestor, nodes)
    filled = [place for place in ancestor.bound if place.line > facts.loop.line]
    made = [place for place in ancestor.bound if place.line < facts.loop.line]
    place = next(iter(filled or made[-1:]), None)
    if place is None and "." in name:
        every = [each for each in stores(case.failure, name) if each.has_history]
        computing = [each for each in every if any(True for _ in calls_in(each.statement))]
        place = computing[0].place if len(every) == len(computing) == 1 and computing[0].keeping.value else None
    if place is None and case.watch and (line := case.watch.line_of(case.graph.nodes[nodes[0]])):
        place = line.place  # elsewhere, by who has handed it over
    kind: Kind = "kept" if filled else "once"
    return Carrier(
        case, kind, level, (name,), ancestor.read if filled else read, place, nodes=tuple(nodes), facts=facts
    )


def _element(case: Case, level: Level, ancestor: Ancestor, nodes: list[int]) -> tuple[str, Place]:
    """What is used again, and where: of a dictionary, the one entry that has this graph."""
    value = level.value(ancestor.name)
    entries = value if type(value) is dict else {}
    keys = [key for key, each in entries.items() if type(key) is str and set(made_in(case.graph, each)) & set(nodes)]
    texts = {f"{ancestor.name}[{quote}{key}{quote}]" for key in keys for quote in "'\""}
    body = level.body if len(keys) == 1 else None
    for each in statements(body.node) if body else ():
        if body and each.lineno >= ancestor.read.line and any(body.text(node) in texts for node in expressions(each)):
            return f'{ancestor.name}["{keys[0]}"]', body.place(each)
    return ancestor.name, ancestor.read


def _by_loop(case: Case) -> Iterator[Carrier]:
    """A variable that an iteration reads before it assigns it holds a result with a history."""
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            found = {name: read for name in names if (read := _entering(case, level, facts, name)) is not None}
            first = next(iter(found), "")
            if found:
                kind: Kind = "summed" if first == case.receiver else "carried"
                yield Carrier(case, kind, level, (*found,), found[first], facts.carried[first][1], facts=facts)


def _entering(case: Case, level: Level, facts: LoopFacts, name: str) -> Place | None:
    """The statement of an iteration that takes a variable with its history from the one before."""
    read = facts.carried[name][0] if name in facts.carried else None
    statement = statement_at(level.body, *read.position) if read else None
    if read is None or level.body is None:
        return None
    if isinstance(statement, ast.Expr) and _returns_copy(level, level.body, statement, name):
        after = (each for each in statements(level.body.node) if each.lineno > statement.lineno)
        following = next((each for each in after if {Use(name, False), Use(name, True)} & {*uses(each)}), None)
        if following is None or Use(name, False) not in uses(following):
            return None
        read = level.body.place(following)
    return read if case.carries(level, name, read) else None


def _by_function(case: Case) -> Iterator[Carrier]:
    """What outlives a function that reads it before it assigns it, `self.hidden` or a global, holds a result."""
    for level in case.failure.users:
        outliving = _declared(level.body) if level.body else set()
        found: dict[str, tuple[Place, Place]] = {}
        for name, ancestor in case.ancestors(level).items():
            if level.body and ("." in name or name in outliving) and ancestor.entering:
                every = assignments(level.body, name)
                read = min([ancestor.read, *every], key=lambda place: place.line)  # there its old value comes in
                cached = all(is_cached(level.body, name, each) for each in every)
                if every and not cached and case.carries(level, name, read):
                    found[name] = read, every[-1]
        if found:
            yield Carrier(case, "carried", level, (*found,), *found[next(iter(found))], span="call")


def _declared(body: Body) -> set[str]:
    """The names that a function declares `global` or `nonlocal`."""
    return {
        name for each in statements(body.node) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names
    }


def _by_section(case: Case) -> Iterator[Carrier]:
    """What outlives a function that has returned, on the way to the loss: a variable of a closure, or a global."""
    for section in sections(case.failure):
        if section.level is not None:
            continue
        for name in sorted(_declared(section.body)):
            every = [p for p in assignments(section.body, name) if may_have_history(read_at(p)[1] or ast.Pass())]
            read = first_read(section.body, name)
            value = section.value(name)
            known = made_in(case.graph, value) or (results_of_object(value) and case.joints)
            cached = all(is_cached(section.body, name, each) for each in every)
            enters = bool(every and read and read.position <= every[-1].position and not cached)
            if enters and known and case.is_joint(value):
                level, function = case.failure.users[0], section.body.name
                yield Carrier(case, "carried", level, (name,), read, every[-1], span="call", function=function)


def _by_object(case: Case) -> Iterator[Carrier]:
    """An attribute of an object keeps a result of this graph, and functions that have returned both read and assign
    it."""
    found: dict[str, tuple[Place, Place, bool]] = {}
    alike: dict[str, type] = {}
    for tensor, path in attributes_held(case.failure.frames):
        variable, _ = apart(path)
        owner, _, _ = variable.rpartition(".")
        held = held_as(case.failure, owner)
        if held is None or not case.graph.shared(structure(tensor)) or not case.is_joint(tensor):
            continue
        kept = _passed_between(case, variable)
        if kept is not None and type(held) is next(iter(alike.values()), type(held)):
            alike[owner] = type(held)
            if owner == next(iter(alike)):
                found.setdefault(variable, kept)
    cut = [name for name in found if any(_detaches(level, name) for level in case.failure.users)]
    if len(cut) < len(found):
        found = {name: kept for name, kept in found.items() if name not in cut}
    if found:
        read, place, own = found[next(iter(found))]
        level = case.failure.users[0]
        yield Carrier(case, "carried", level, (*found,), read, place, span="call", own=own, alike=(*alike,))


def _passed_between(case: Case, variable: str) -> tuple[Place, Place, bool] | None:
    """Where functions read an attribute with its history, and where they, or another, assign it: rather where it is
    computed from what it was; with whether a method of its owner's class does that."""
    running = {level.body.node for level in case.failure.users if level.body}
    every = [each for each in stores(case.failure, variable) if not (each.inside or each.once) and each.has_history]
    every = [each for each in every if each.body.node not in running or "." not in each.keeping.name]
    if not every or all(each.keeping.cached for each in every):
        return None
    every.sort(key=lambda each: (not each.again, first_read(each.body, each.keeping.name) is None))
    first = every[0]
    others = [each for each in spellings(case.failure, variable) if each.body.node not in running]
    reading = ((first.body, first.keeping.name), *others)
    read = next((place for body, name in reading if (place := first_read(body, name)) is not None), None)
    alike = [each for each in every if each.body.node is first.body.node and each.again == first.again]
    return (read, alike[-1].place, first.keeping.name.startswith("self.")) if read is not None else None


def _detaches(level: Level, name: str) -> bool:
    """Whether a statement of the loop around this line detaches the variable already, in each pass."""
    facts = loop_facts(level.body, level.line)
    loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
    return any(
        {Use(name, True), Use(name, False)} <= set(uses(each)) and not lets_through(each, name)
        for each in getattr(loop, "body", ())
        if isinstance(each, ast.Assign)
    )


def _suspended(case: Case) -> Iterator[Carrier]:
    """A variable of a generator that waits, which an iteration of its loop reads before it assigns it."""
    waiting = [Level(frame, frame.f_lineno) for frame in suspended(case.failure.frames)]
    for level in waiting:
        if level.statement is None or any(True for _ in blocks(level.statement)):
            continue
        for facts in loops(level):
            names = [
                name
                for name, (read, last) in facts.carried.items()
                if made_in(case.graph, level.value(name))
                and case.carries(level, name, read)
                and (statement := statement_at(level.body, *last.position)) is not None
                and may_have_history(statement)
            ]
            if names:
                yield Carrier(
                    case, "carried", level, tuple(names), *facts.carried[names[0]], facts=facts, waits=level.place
                )


def _by_closure(case: Case) -> Iterator[Carrier]:
    """What a function reads from outside each time it is called, as a closure that an optimizer calls does."""
    for inner in case.failure.users:
        outside: dict[str, tuple[Level, Place]] = {}
        for name, ancestor in case.ancestors(inner).items():
            nodes = [i for i in made_in(case.graph, inner.value(name)) if case.is_old(i)]
            if (
                name in inner.frame.f_code.co_freevars
                and not ancestor.bound
                and nodes
                and inner.value(name) is not (case.root)
            ):
                around = (each for each in case.failure.users if assignments(each.body, name, before=each.line))
                level = next(around, None)
                if level is not None and level.body is not None and _calls_again(case, inner, level, name):
                    outside[name] = level, assignments(level.body, name, before=level.line)[-1]
        if outside:
            level = next(iter(outside.values()))[0]
            names = sorted(outside, key=lambda name: -outside[name][1].line)
            nodes = [i for name in names for i in made_in(case.graph, level.value(name))]
            ancestors = case.ancestors(inner)
            yield Carrier(
                case,
                "once",
                level,
                tuple(names),
                ancestors[names[0]].read,
                outside[names[0]][1],
                nodes=tuple(nodes),
                span="call",
                function=inner.frame.f_code.co_name,
            )


def _calls_again(case: Case, inner: Level, outer: Level, name: str) -> bool:
    """Whether an inner function runs more than once: a library calls it, or a loop below what it reads from outside."""
    every = case.failure.levels
    between = every[every.index(outer) + 1 : every.index(inner)] if outer in every and inner in every else ()
    looping = any(name not in facts.assigned for facts in loops(outer))
    return looping or any(each not in case.failure.users for each in between)


def _held(case: Case) -> Iterator[Carrier]:
    """What an attribute or a container holds of this graph, which it got once, where there was none, or for good."""
    joint = joint_of(case)
    at = joint.holder if joint else ""
    for path, node in sorted(case.held, key=lambda each: each[0] != at):
        if not case.is_old(node) or ("." not in path and "[" not in path):
            continue
        found = _got(case, path, node)
        if found is not None:
            if joint is not None and (path == at or joint.old.index == node):
                used = joint.used.place if joint.used else None
                found = replace(found, made=joint.made, read=used)
            yield found


def _got(case: Case, path: str, node: int) -> Carrier | None:
    variable, entries = apart(path)
    every = stores(case.failure, variable)
    level, late = case.failure.users[0], [each for each in every if not each.once]
    inside = [each for each in every if each.inside]
    if entries:
        elements = [each for each in late if each.inside and each.again and _is_entry(each)]
        if elements:
            first = elements[0]
            name = passed_on(first.body, first.place.line)
            return Carrier(case, "carried", level, (name,), first.place, first.place, nodes=(node,), span="pass")
        fresh = node not in case.old and emptied(case.failure, variable)
        store = None if fresh else _filled(case, variable)
    elif inside and case.graph.nodes[node].op in WRITES:
        last = inside[-1]
        return Carrier(
            case, "written", level, (path,), None, last.place, nodes=(node,), keeping=last.keeping, span="pass"
        )
    else:
        store = late[0] if late and all(each.keeping.cached for each in late) else None
    if store is not None:
        kind: Kind = "cached" if store.keeping.cached else "kept"
        nodes = dict.fromkeys([node, *made_in(case.graph, held_as(case.failure, variable))])
        return Carrier(case, kind, level, (path,), None, store.place, nodes=(*nodes,), keeping=store.keeping)
    once = [each for each in every if each.has_history]
    if late or not once:
        return None
    return Carrier(case, "once", level, (path,), _used(case, variable, once[0]), once[0].place, nodes=(node,))


def _is_entry(store: Store) -> bool:
    """Whether a statement passes one entry on, whose key it says: `state["h"] = cell(x, state["h"])`."""
    name = passed_on(store.body, store.place.line)
    node = parsed(name)
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)


def _used(case: Case, variable: str, store: Store) -> Place | None:
    """The first statement of another function that reads what was stored once."""
    others = (each for each in spellings(case.failure, variable) if each.body.node is not store.body.node)
    return next((place for body, name in others if (place := first_read(body, name)) is not None), None)


def _by_joint(case: Case) -> Iterator[Carrier]:
    """What the lines at which an old operation and a new one were made tell: one statement passes it on, or writes into
    a tensor that stays, or assigns what it made to what outlives it."""
    joint = joint_of(case)
    level = case.failure.user
    if joint is None or level is None:
        return
    yield from (found for found in (_passed_on(case, joint), _one_element(case, joint)) if found is not None)
    body, statement = read_at(joint.made.place if joint.made is not None and joint.old.op in WRITES else None)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    name = (dotted(target.value) or "") if isinstance(target, ast.Subscript) else ""
    nodes = (joint.old.index,)
    if "." in name and body is not None and joint.made is not None and isinstance(statement, ast.Assign):
        keeping = Keeping(joint.made.place, name, body.text(statement.value))
        yield Carrier(
            case, "written", level, (name,), None, joint.made.place, nodes=nodes, keeping=keeping, span="pass"
        )
    used = joint.used.place if joint.used else None
    inner = body_around(joint.made.file, joint.made.line) if joint.made else None
    memo = decorator_that_keeps(inner) if inner else None
    if inner is not None and memo is not None and memo[1] is not None:
        names, place = (f"{inner.name}()",), memo[1].place
        yield Carrier(case, "cached", level, names, used, place, joint.made, nodes, keeping=memo[1])
    name = joint.holder or stored(joint) or operand(case, joint) or assigned(joint)
    name = name or f"the result of {joint.old.op.lower()}"
    yield Carrier(case, "once", level, (name,), used, joint.made.place if joint.made else None, joint.made, nodes)


def _passed_on(case: Case, joint: Joint) -> Carrier | None:
    """One statement reads what it assigned a pass ago: `state["h"] = cell(x, state["h"])`."""
    if joint.made is None or joint.used is None or joint.made.place != joint.used.place:
        return None
    place = joint.used.place
    name = passed_on(body_around(place.file, place.line), place.line) or stored(joint)  # or reads it by another name
    level = next(iter((*case.failure.users, *case.failure.levels)), None)  # a library may run all of it
    return Carrier(case, "carried", level, (name,), place, place, span="pass") if name and level is not None else None


def _one_element(case: Case, joint: Joint) -> Carrier | None:
    """One statement of the loop passes an element on, `out, caches[k] = model(x, caches[k])`; the old one is gone.

    Of an element the text does not say which it is, so it has to be the only one.
    """
    if joint.holder or joint.used is None:
        return None
    for level in case.failure.users:
        facts = loop_facts(level.body, level.line)
        if facts is None or level.body is None or level.place.file != facts.loop.file:
            continue
        places = [level.body.place(each) for each in statements(level.body.node) if each.lineno > facts.loop.line]
        passed = {place: name for place in places if "[" in (name := passed_on(level.body, place.line))}
        if len(passed) == 1 and joint.used.line not in {place.line for place in passed}:
            ((place, name),) = passed.items()
            return Carrier(case, "carried", level, (name,), place, place, facts=facts, sure=False)
    return None


def operand(case: Case, joint: Joint) -> str:
    """What the program wrote for the old result where it was used."""
    operation = case.watch.operation_of(joint.new) if case.watch else None
    if operation is None:
        return ""
    at = next((k for k, edge in enumerate(joint.new.inputs) if edge and edge.node.index == joint.old.index), None)
    given = [each.text for each in operation.operands if not isinstance(parsed(each.text), ast.Constant)]
    if len(given) == 1 and given[0].isidentifier() and joint.new.sequence == operation.first:
        return given[0]
    ordered = operation.operands if joint.new.op in _IN_ORDER else ()
    return next((each.text for each in ordered if each.position == at and _is_path(each.text)), "")


_IN_ORDER = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Mm", "Bmm", "Maximum", "Minimum"})
"""Operations whose node has an edge for each operand, in the order in which the program writes them."""


def _is_path(text: str) -> bool:
    return dotted(parsed(apart(text)[0])) is not None


def _dropped(found: Carrier) -> Place | None:
    """The statement that detaches what is carried, and drops what that returns: `state.detach()`, `state.cut()`."""
    body = body_around(found.stored.file, found.stored.line) if found.kind == "carried" and found.stored else None
    every = (each for each in statements(body.node) if isinstance(each, ast.Expr)) if body else ()
    return next((body.place(s) for s in every if body and _returns_copy(found.level, body, s, found.inner)), None)


def _returns_copy(level: Level, body: Body, statement: ast.Expr, name: str) -> bool:
    """Whether a statement is a call that returns a detached copy of a variable, and does nothing else."""
    call = statement.value
    if not isinstance(call, ast.Call):
        return False
    receiver, method = callee(call)
    if dotted(receiver) == name and method == "detach":
        return True
    if level.body is None or body.node is not level.body.node:
        return False
    function: Any = undecorated(function_called(level, call)[0])
    code = getattr(function, "__code__", None)
    inner = function_at(code) if code is not None and not is_library(code.co_filename) else None
    given = [dotted(receiver)] if not call.args else [dotted(each) for each in call.args]
    return inner is not None and given == [name] and _detaches_alone(inner)


def _detaches_alone(body: Body) -> bool:
    """Whether a function returns what it detaches, and changes no object."""
    calls = {callee(node)[1] for node in ast.walk(body.node) if isinstance(node, ast.Call)}
    returns = any(isinstance(each, ast.Return) and each.value is not None for each in statements(body.node))
    changes = "detach_" in calls or any("." in name for each in statements(body.node) for name in bound(each))
    return returns and not changes and "detach" in calls
