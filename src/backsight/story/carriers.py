"""What brought a result of an earlier pass into this one: a variable, an attribute, an entry, a closure or a cache, who
stored it there and when, and who uses it again.

A backward that runs into a freed graph and one that runs into weights stepped since ask the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from backsight.naming.roots import is_library
from backsight.naming.suspended import suspended
from backsight.source import LoopFacts, Place, assignments, function_at, may_have_history, parsed, read_at, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.bindings import Use, bound, declared, prefixes, reads, spots, uses
from backsight.source.body import Body, callee, calls_in, covers, dotted, expressions, is_compound, keyword, statements
from backsight.source.keeping import Keeping, is_cached
from backsight.story.carrier import WRITES, Carrier, Kind
from backsight.story.case import Case, loops
from backsight.story.failure import Level, is_users, method
from backsight.story.holders import below, made_in, needs_saved, results_in, results_of_object
from backsight.story.joints import passed_on
from backsight.story.kept import by_joint, by_object, filled, held, is_once
from backsight.story.memory import is_tensor
from backsight.story.parts import fills
from backsight.story.renewing import added_to, copies_dropped
from backsight.story.sections import function_called, sections, undecorated
from backsight.story.stores import apart, first_read, stores


def carriers(case: Case) -> Iterator[Carrier]:
    """Yield what may have brought an earlier graph into this pass, what fits best first; nothing that leads elsewhere
    than to the node at which the backward fails, if that is known."""
    if not case.failure.levels:
        return
    for query in (
        _added_on,
        _by_writing,
        _once,
        _by_loop,
        _by_function,
        _by_section,
        by_object,
        _suspended,
        partial(_once, upstream=True),
        _by_closure,
        held,
        by_joint,
    ):
        for found in query(case):
            if case.towards is None or not found.nodes or case.towards in below(case.graph, found.nodes):
                yield replace(found, dropped=_dropped(found))


def _added_on(case: Case) -> Iterator[Carrier]:
    """The loss itself, which goes on from the sum through which a statement above has run backward in the same pass."""
    level, name = case.failure.user, case.receiver
    every = spots(level.body) if level is not None and name.isidentifier() else []
    at = next((each for each in every if level is not None and each.node is level.statement), None)
    above = [each for each in every if at is not None and each.order < at.order]
    ran = [each for each in above if at is not None and each.arms == at.arms and _runs_backward(each.node, name)]
    binds = [each for each in above if ran and name in bound(each.node)]
    added = [each.node for each in binds if each.order > ran[-1].order]
    if level is None or level.body is None or not added or len(added) == len(binds):
        return
    if all(added_to(each, name) is not None for each in added):
        earlier, place = level.body.place(ran[-1].node), level.body.place(added[0])
        yield Carrier(case, "summed", level, (name,), earlier, place, span="pass")


def _runs_backward(statement: ast.stmt, name: str) -> bool:
    """Whether a statement calls backward on a variable, and lets its graph go."""
    calls = () if is_compound(statement) else calls_in(statement)
    return any(
        callee(each)[1] == "backward" and dotted(callee(each)[0]) == name and keyword(each, "retain_graph") is None
        for each in calls
    )


def _by_writing(case: Case) -> Iterator[Carrier]:
    """A tensor from before the loop, into which each iteration writes results."""
    joints = {case.graph.nodes[each].op for each in case.joints}
    for level in case.failure.users if not joints or joints & {*WRITES} else ():
        names = case.ancestors(level)
        for facts in loops(level):
            loop = statement_at(level.body, *facts.loop.position)
            inside = statements(level.body) if loop is not None else ()
            last = {
                name: each
                for each in inside
                for name in names
                if loop
                and loop.lineno < each.lineno <= (loop.end_lineno or 0)
                and fills(each, name)
                and may_have_history(each)
            }
            for name, each in last.items():
                nodes = made_in(case.graph, level.value(name))
                written = is_tensor(level.value(name)) and any(case.graph.nodes[i].op in WRITES for i in nodes)
                if level.body is None or not written or not any(map(case.is_old, nodes)) or name in facts.assigned:
                    continue
                place, value = level.body.place(each), level.body.text(getattr(each, "value"))  # noqa: B009
                keeping = Keeping(place, name, value)
                yield Carrier(
                    case, "written", level, (name,), None, place, nodes=(*nodes,), facts=facts, keeping=keeping
                )


def _once(case: Case, upstream: bool = False) -> Iterator[Carrier]:
    """A variable that the loop reads and never assigns holds a result of the joints, or `upstream` of them."""
    joints = set(below(case.graph, case.joints) if upstream else case.joints)
    for level in case.failure.users if joints or not upstream else ():
        names = case.ancestors(level)
        for facts in loops(level):
            for name, ancestor in names.items():
                value = level.value(name)
                anew = any(each in facts.assigned for each in prefixes(name))
                if anew or value is case.root or _is_namespace(value) or _acts(level, ancestor):
                    continue
                nodes = [i for i in made_in(case.graph, value) if needs_saved(case.graph, i)]
                if _is_filled_elsewhere(level, facts, ancestor, value):
                    continue
                if (passed := _passed_inside(case, name, value)) is not None:
                    yield passed
                    continue
                if not nodes or (joints and not set(nodes) & joints):
                    continue
                if not upstream or name in facts.outside or ancestor.read == facts.loop:
                    yield _put_together(case, level, ancestor, nodes) or _computed(case, level, facts, ancestor, nodes)


def _is_filled_elsewhere(level: Level, facts: LoopFacts, ancestor: Ancestor, value: object) -> bool:
    """Whether a container was made empty, and what it holds was put in by other functions, `kept = {}`."""
    made = [place for place in ancestor.bound if place.line < facts.loop.line]
    later = any(place.line > facts.loop.line for place in ancestor.bound)
    every = [statement_at(level.body, *place.position) for place in made]
    empty = bool(every) and not any(each is None or may_have_history(each) for each in every)
    return not is_tensor(value) and not later and empty


def _passed_inside(case: Case, name: str, value: object) -> Carrier | None:
    """It is a container in which a statement passes entries on: `memory["h"][k] = cell(x, memory["h"][k])`."""
    if is_tensor(value) or type(value) is tuple or not results_in(value) or not case.is_joint(value):
        return None
    every = (each for each in stores(case.failure, name) if each.inside and each.again and not is_once(case, each))
    store = next(every, None)
    if store is None:
        return None
    path = _with_known_keys(passed_on(store.body, store.place.line)) or name
    level = case.level
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
        store = filled(case, container) if entries and container.partition(".")[0] != name and node in inside else None
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
    read = ancestor.read if filled else read
    before = _from_before(case, level, facts) if kind == "once" else {}
    if name not in before:
        return Carrier(case, kind, level, (name,), read, place, nodes=tuple(nodes), facts=facts)
    # What others may be made of comes first.
    places = {each: facts.outside[each] for each in before}
    names = sorted(before, key=lambda each: (places[each].position, places[each].text.find(each)))
    read = _read_inside(level, facts, names[0]) or read
    nodes = list(dict.fromkeys(node for each in names for node in before[each]))
    return Carrier(case, kind, level, (*names,), read, facts.outside[names[0]], nodes=tuple(nodes), facts=facts)


def _read_inside(level: Level, facts: LoopFacts, name: str) -> Place | None:
    """The first statement of a loop that reads a variable."""
    loop = statement_at(level.body, *facts.loop.position)
    for each in statements(level.body) if loop is not None else ():
        if loop and loop.lineno < each.lineno <= (loop.end_lineno or 0) and reads(each, name):
            return level.body.place(each) if level.body is not None else None
    return None


def _from_before(case: Case, level: Level, facts: LoopFacts) -> dict[str, list[int]]:
    """The tensors from before a loop that it reads and that need a freed graph, each with what made it."""
    found = {each: made_in(case.graph, level.value(each)) for each in facts.outside if is_tensor(level.value(each))}
    found = {each: nodes for each, nodes in found.items() if level.value(each) is not case.root}
    return {each: nodes for each, nodes in found.items() if any(needs_saved(case.graph, node) for node in nodes)}


def _element(case: Case, level: Level, ancestor: Ancestor, nodes: list[int]) -> tuple[str, Place]:
    """What is used again, and where: of a dictionary, the one entry that has this graph."""
    value = level.value(ancestor.name)
    entries = value if type(value) is dict else {}
    keys = [key for key, each in entries.items() if type(key) is str and set(made_in(case.graph, each)) & set(nodes)]
    texts = {f"{ancestor.name}[{quote}{key}{quote}]" for key in keys for quote in "'\""}
    body = level.body if len(keys) == 1 else None
    for each in statements(body):
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
                last, nodes = facts.carried[first][1], made_in(case.graph, level.value(first))
                kind: Kind = "summed" if first == case.receiver else "carried"
                kind = "once" if nodes and _is_left_over(level, first, found[first], last) else kind
                yield Carrier(case, kind, level, (*found,), found[first], last, nodes=(*nodes,), facts=facts)


def _is_left_over(level: Level, name: str, read: Place, last: Place) -> bool:
    """Whether a variable is what an iteration left in which a condition held: it is not computed from what it was."""
    statement = statement_at(level.body, *last.position)
    value = getattr(statement, "value", None)
    spot = next((each for each in spots(level.body.node) if each.node is statement), None) if level.body else None
    if spot is None or value is None or level.body is None or read.position <= last.position:
        return False
    conditions = spot.around(ast.If)
    outside = any(covers(arm, read.line) for arm in conditions[-1:])
    return bool(conditions) and not outside and name not in ancestors(level.body, level.body.text(value), last.line)


def _entering(case: Case, level: Level, facts: LoopFacts, name: str) -> Place | None:
    """The statement of an iteration that takes a variable with its history from the one before."""
    read = facts.carried[name][0] if name in facts.carried else None
    statement = statement_at(level.body, *read.position) if read else None
    if read is None or level.body is None:
        return None
    if isinstance(statement, ast.Expr) and _thrown_away(level, level.body, statement, name, level.value(name)):
        after = (each for each in statements(level.body.node) if each.lineno > statement.lineno)
        following = next((each for each in after if {Use(name, False), Use(name, True)} & {*uses(each)}), None)
        if following is None or Use(name, False) not in uses(following):
            return None
        read = level.body.place(following)
    return read if case.carries(level, name, read) else None


def _by_function(case: Case) -> Iterator[Carrier]:
    """What outlives a function that reads it before it assigns it, `self.hidden` or a global, holds a result."""
    for level in case.failure.users:
        outliving = declared(level.body.node) if level.body else set()
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


def _by_section(case: Case) -> Iterator[Carrier]:
    """What outlives a function that has returned, on the way to the loss: a variable of a closure, or a global."""
    for section in sections(case.failure):
        if section.level is not None:
            continue
        for name in sorted(declared(section.body.node)):
            every = [p for p in assignments(section.body, name) if may_have_history(read_at(p)[1] or ast.Pass())]
            read = first_read(section.body, name)
            value = section.value(name)
            known = made_in(case.graph, value) or (results_of_object(value) and case.joints)
            cached = all(is_cached(section.body, name, each) for each in every)
            enters = bool(every and read and read.position <= every[-1].position and not cached)
            if enters and known and case.is_joint(value):
                level, function = case.level, section.body.name
                yield Carrier(case, "carried", level, (name,), read, every[-1], span="call", function=function)


def _suspended(case: Case) -> Iterator[Carrier]:
    """A variable of a generator that waits, which an iteration of its loop reads before it assigns it."""
    waiting = [Level(frame, frame.f_lineno) for frame in suspended(case.failure.frames)]
    for level in waiting:
        if level.body is None or level.statement is None or is_compound(level.statement):
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
            for name, made in facts.outside.items():
                nodes = [i for i in made_in(case.graph, level.value(name)) if case.is_old(i)]
                reads = (each for each in statements(level.body.node) if each.lineno > facts.loop.line)
                read = next((each for each in reads if Use(name, False) in uses(each)), None)
                if nodes and read is not None:
                    place, at = level.body.place(read), level.place
                    yield Carrier(case, "once", level, (name,), place, made, nodes=(*nodes,), facts=facts, waits=at)


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


def _dropped(found: Carrier) -> Place | None:
    """The statement that detaches what is carried, itself or in a function that it calls, and drops the copy."""
    body, _ = read_at(found.stored if found.kind == "carried" else None)
    every = (each for each in statements(body) if isinstance(each, ast.Expr))
    places = (_thrown_away(found.level, body, each, found.inner, found.value) for each in every if body)
    return next(filter(None, places), None)


def _thrown_away(level: Level, body: Body, statement: ast.Expr, name: str, held: object) -> Place | None:
    """Where a call that should detach a variable drops the detached copy: there, or in the function that it calls."""
    call = statement.value
    if not isinstance(call, ast.Call):
        return None
    (receiver, called), place = callee(call), body.place(statement)
    function: Any = None
    if dotted(receiver) == name and is_users(type(held)):
        function = method(type(held), called)
    elif dotted(receiver) == name and called == "detach":
        return place
    elif level.body is not None and body.node is level.body.node:
        function = function_called(level, call)[0]
    code = getattr(undecorated(function), "__code__", None)
    inner = function_at(code) if code is not None and not is_library(code.co_filename) else None
    given = [dotted(receiver)] if not call.args else [dotted(each) for each in call.args]
    if inner is None or given != [name]:
        return None
    return place if _detaches_alone(inner) else next((inner.place(each) for each, _ in copies_dropped(inner)), None)


def _detaches_alone(body: Body) -> bool:
    """Whether a function returns what it detaches, and changes no object."""
    calls = {callee(node)[1] for node in ast.walk(body.node) if isinstance(node, ast.Call)}
    returns = any(isinstance(each, ast.Return) and each.value is not None for each in statements(body.node))
    changes = "detach_" in calls or any("." in name for each in statements(body.node) for name in bound(each))
    return returns and not changes and "detach" in calls
