"""What objects of the program hold of an earlier graph, and what the lines of a watch tell of where it is joined."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

import torch

from backsight.source import Place, lets_through, loop_facts, parsed, read_at, statement_at
from backsight.source.bindings import Use, uses
from backsight.source.body import Body, callee, calls_in, dotted, statements
from backsight.source.keeping import Keeping, decorator_that_keeps
from backsight.story.carrier import WRITES, Carrier, Kind
from backsight.story.case import Case, runs_first
from backsight.story.failure import Level, is_users
from backsight.story.holders import attributes_held, made_in, structure, users
from backsight.story.joints import Joint, assigned, joint_of, passed_on, stored
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.stores import Store, apart, default_of, emptied, first_read, held_as, spellings, stores
from backsight.tape import NO_SEQUENCE, Node
from backsight.tape.modules import module_of


def by_object(case: Case) -> Iterator[Carrier]:
    """An attribute of an object keeps a result of this graph, and functions that have returned both read and assign
    it."""
    found: dict[str, tuple[Place, Place, bool]] = {}
    alike: dict[str, type] = {}
    for variable in _joining(case):
        owner, _, _ = variable.rpartition(".")
        held = held_as(case.failure, owner)
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
        level = case.level
        yield Carrier(case, "carried", level, (*found,), read, place, span="call", own=own, alike=(*alike,))


def _joining(case: Case) -> list[str]:
    """The attributes with results of this graph: of the modules at joints, else those that reach what is older."""
    every = [(tensor, apart(path)[0]) for tensor, path in attributes_held(case.failure.frames)]
    every = [(tensor, path) for tensor, path in every if held_as(case.failure, path.rpartition(".")[0]) is not None]
    every = [pair for pair in every if case.graph.shared(structure(pair[0])) and case.is_joint(pair[0])]
    nodes = [*(case.graph.nodes[each] for each in case.joints), *_using(case)]
    modules = {f".{module_of(each)}." for each in nodes} - {".."}
    of_joints = [pair for pair in every if any(_is_of(case, pair[1].rpartition(".")[0], module) for module in modules)]
    return [path for _, path in of_joints or [pair for pair in every if _reaches(case, pair[0])] or every]


def _using(case: Case) -> list[Node]:
    """The new operations that were given an old result."""
    every = users(case.graph) if case.joints else {}
    return [each for joint in case.joints for each in every[joint] if each.index not in case.old]


def _is_of(case: Case, owner: str, module: str) -> bool:
    """Whether a module, `.blocks.0.1.`, is an object of the program's, `net.blocks[0][1]`, or is inside it."""
    ends = [each.end() for each in re.finditer(r"\w+\]?", owner)]
    root = next((end for end in ends if is_module(held_as(case.failure, owner[:end]))), len(owner))
    every = (re.findall(r"\w+", part) for part in (owner, owner[root:]))
    return any(module.startswith("." + "".join(f"{each}." for each in parts)) for parts in every)


def _reaches(case: Case, tensor: torch.Tensor) -> bool:
    """Whether a result was computed from what an earlier pass has made."""
    made = structure(tensor).columns.sequence.tolist()
    return case.mark is not None and any(each != NO_SEQUENCE and each < case.mark for each in made)


def _passed_between(case: Case, variable: str) -> tuple[Place, Place, bool] | None:
    """Where functions read an attribute with its history, and assign it; whether a method of its owner does that."""
    running = {level.body.node for level in case.failure.users if level.body}
    every = [each for each in stores(case.failure, variable) if not (each.inside or is_once(case, each))]
    every = [each for each in every if each.has_history]
    every = [each for each in every if each.body.node not in running or "." not in each.keeping.name]
    if not every or all(each.keeping.cached for each in every):
        return None
    every.sort(key=lambda each: (not each.again, first_read(each.body, each.keeping.name) is None))
    first = every[0]
    others = [each for each in spellings(case.failure, variable) if each.body.node not in running]
    reading = ((first.body, first.keeping.name), *others)
    places = ((body, place) for body, name in reading if (place := first_read(body, name)) is not None)
    read = next((place for body, place in places if not _is_fresh(case, first, body, place)), None)
    alike = [each for each in every if each.body.node is first.body.node and each.again == first.again]
    return (read, alike[-1].place, first.keeping.name.startswith("self.")) if read is not None else None


def is_once(case: Case, store: Store) -> bool:
    """Whether a statement has run only once, before all passes."""
    return store.once or store.body.node in case.prepared


def _is_fresh(case: Case, store: Store, body: Body, read: Place) -> bool:
    """Whether each pass stores it before it reads it, as far as it shows."""
    return not store.again and not runs_first(case.failure, (body.node, read), (store.body.node, store.place))


def _detaches(level: Level, name: str) -> bool:
    """Whether a statement of the loop around this line detaches the variable already, in each pass."""
    facts = loop_facts(level.body, level.line)
    loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
    return any(
        {Use(name, True), Use(name, False)} <= set(uses(each)) and not lets_through(each, name)
        for each in getattr(loop, "body", ())
        if isinstance(each, ast.Assign)
    )


def held(case: Case) -> Iterator[Carrier]:
    """What an attribute or a container holds of this graph, which it got once, where there was none, or for good."""
    joint = joint_of(case)
    replaced = _entries_replaced(case, joint) if joint is not None else None
    if replaced is not None and len(replaced.alike) > 1:
        yield replaced
    at = joint.holder if joint else ""
    root = next((index for index, _ in case.graph.root_edges), -1)
    for path, node in sorted(case.held, key=lambda each: each[0] != at):
        if node == root or not case.is_old(node) or ("." not in path and "[" not in path):
            continue
        found = _got(case, path, node)
        if found is not None:
            if joint is not None and (path == at or joint.old.index == node):
                used = joint.used.place if joint.used else None
                found = replace(found, made=joint.made, read=used)
            yield found


def _got(case: Case, path: str, node: int) -> Carrier | None:
    variable, entries = apart(path)
    every = [each for each in stores(case.failure, variable) if _may_be(each, entries)]
    path = f"{default_of(case.failure, variable)}{entries}" if "__defaults__" in variable else path
    path = re.sub(r"\.<cached>\[(.*)\]$", r"(\1)", path)
    level, late = case.level, [each for each in every if not is_once(case, each)]
    inside = [each for each in every if each.inside]
    if entries:
        elements = [each for each in late if each.inside and each.again and _is_entry(each)]
        if elements:
            first = elements[0]
            name = passed_on(first.body, first.place.line)
            function, place = _out_of_reach(case, name, first.body), first.place
            return Carrier(case, "carried", level, (name,), place, place, nodes=(node,), span="pass", function=function)
        fresh = node not in case.old and emptied(case.failure, variable)
        store = None if fresh else _filling(inside)
    elif inside and case.graph.nodes[node].op in WRITES:
        last = inside[-1]
        return Carrier(
            case, "written", level, (path,), None, last.place, nodes=(node,), keeping=last.keeping, span="pass"
        )
    else:
        store = late[0] if late and all(each.keeping.cached for each in late) else None
    stays = store is None or store.again or node in case.old or (not case.old and not _is_replaced(case, store))
    if store is not None and stays:
        kind: Kind = "cached" if store.keeping.cached else "kept"
        nodes = dict.fromkeys([node, *made_in(case.graph, held_as(case.failure, variable))])
        return Carrier(case, kind, level, (path,), None, store.place, nodes=(*nodes,), keeping=store.keeping)
    once = [each for each in every if each.has_history]
    if late or not once:
        return None
    return Carrier(case, "once", level, (path,), _used(case, variable, once[0]), once[0].place, nodes=(node,))


def filled(case: Case, container: str) -> Store | None:
    """The statement that puts things into a container, one that may find it empty last: it may be zeros."""
    return _filling([each for each in stores(case.failure, container) if each.inside])


def _filling(inside: list[Store]) -> Store | None:
    return next((each for each in inside if not each.keeping.cached), next(iter(inside), None))


def _may_be(store: Store, entries: str) -> bool:
    """Whether a statement may store this entry: not where it says another key."""
    target = store.statement.targets[-1] if isinstance(store.statement, ast.Assign) else None
    if not entries or not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return True
    keys = [each.slice for each in ast.walk(ast.parse(f"_{entries}")) if isinstance(each, ast.Subscript)]
    return ast.dump(target.slice) in map(ast.dump, keys)


def _is_replaced(case: Case, store: Store) -> bool:
    """Whether each pass puts something else in the place of an entry before it reads that."""
    target = store.statement.targets[-1] if isinstance(store.statement, ast.Assign) else None
    known = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    read = _used(case, apart(store.keeping.name)[0], store) or first_read(store.body, store.keeping.name)
    body, _ = read_at(read)
    return known and not store.keeping.cached and (body is None or read is None or _is_fresh(case, store, body, read))


def _is_entry(store: Store) -> bool:
    """Whether a statement passes one entry on, whose key it says: `state["h"] = cell(x, state["h"])`."""
    name = passed_on(store.body, store.place.line)
    node = parsed(name)
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)


def _used(case: Case, variable: str, store: Store) -> Place | None:
    """The first statement of another function that reads what was stored once."""
    others = (each for each in spellings(case.failure, variable) if each.body.node is not store.body.node)
    return next((place for body, name in others if (place := first_read(body, name)) is not None), None)


def by_joint(case: Case) -> Iterator[Carrier]:
    """What the lines at which an old operation and a new one were made tell: one statement passes it on, or writes into
    a tensor that stays, or assigns what it made to what outlives it."""
    joint = joint_of(case)
    level = case.failure.user
    if joint is None or level is None:
        return
    told = (_passed_on(case, joint), _one_element(case, joint), _entries_replaced(case, joint))
    yield from (found for found in told if found is not None)
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
    inner, _ = read_at(joint.made.place if joint.made else None)
    memo = decorator_that_keeps(inner) if inner else None
    if inner is not None and memo is not None and memo[1] is not None:
        names, place = (f"{inner.name}()",), memo[1].place
        yield Carrier(case, "cached", level, names, used, place, joint.made, nodes, keeping=memo[1])
    if joint.made is not None and joint.used is not None and joint.made.place == joint.used.place:
        yield from _inside_a_library(case, joint.used.place)
        return
    name = joint.holder or stored(joint) or operand(case, joint) or assigned(joint) or "a result"
    yield Carrier(case, "once", level, (name,), used, joint.made.place if joint.made else None, joint.made, nodes)


def _inside_a_library(case: Case, line: Place) -> Iterator[Carrier]:
    """One statement made the old result and used it, in what it calls: the attributes that keep one from call to call,
    of objects whose classes are not the program's."""
    given = {each.index for each in _using(case)}
    every = _joining(case) or [apart(path)[0] for path, node in case.held if "." in path and node in given]
    every = [each for each in every if not is_users(type(held_as(case.failure, each.rpartition(".")[0])))]
    every.sort(key=lambda each: (len(each), each))
    owner, _, _ = every[0].rpartition(".") if every else ("", "", "")
    names = [each for each in every if each.rpartition(".")[0] == owner]
    known = type(held_as(case.failure, owner))
    alike = {each.rpartition(".")[0]: type(held_as(case.failure, each.rpartition(".")[0])) for each in every}
    owners = [each for each, cls in alike.items() if cls is known and f"{each}.{names[0].rpartition('.')[2]}" in every]
    if names:
        yield Carrier(case, "carried", case.level, (*names,), line, line, span="call", alike=(*owners,))


def _passed_on(case: Case, joint: Joint) -> Carrier | None:
    """One statement reads what it assigned a pass ago: `state["h"] = cell(x, state["h"])`."""
    if joint.made is None or joint.used is None or joint.made.place != joint.used.place:
        return None
    place = joint.used.place
    body, _ = read_at(place)
    name = passed_on(body, place.line) or stored(joint)  # or reads it by another name
    facts = loop_facts(body, place.line) if name.isidentifier() else None
    if not name or (facts is not None and name in facts.assigned and name not in facts.carried):
        return None  # or it is this iteration's own: `h = first(x); h = second(h)`
    function = _out_of_reach(case, name, body)
    return Carrier(case, "carried", case.level, (name,), place, place, span="pass", function=function)


def _entries_replaced(case: Case, joint: Joint) -> Carrier | None:
    """What was made went into a container of an object's, and each pass puts there what it computes from it."""
    made, used = (each.place if each is not None else None for each in (joint.made, joint.used))
    if joint.holder or made is None or used is None:
        return None
    called = {callee(each)[1] for each in calls_in(read_at(made)[1])}
    found: dict[str, object] = {}
    for variable in _joining(case):
        owner, _, attribute = variable.rpartition(".")
        if type(held_as(case.failure, variable)) not in (dict, list) or "__defaults__" in variable:
            continue
        known, first = held_as(case.failure, owner), next(iter(found), variable)
        inside = (each for each in stores(case.failure, variable) if each.inside and not is_once(case, each))
        alike = attribute == first.rpartition(".")[2] and type(known) is type(found.get(first, known))
        if alike and any(each.place == made or each.body.name in called for each in inside):
            found[variable] = known
    owners, (first, *_) = (*(each.rpartition(".")[0] for each in found),), (*found, "")
    own = any(each.place == made for each in stores(case.failure, first)) if found else False
    found_in = Carrier(case, "carried", case.level, (first,), used, made, span="pass", own=own, alike=owners)
    return found_in if found else None


def _out_of_reach(case: Case, name: str, body: Body | None) -> str:
    """The function that alone knows a variable by this name; empty where one that runs knows it."""
    known = held_as(case.failure, apart(name)[0]) is not None
    return "" if known or body is None else body.name


def _one_element(case: Case, joint: Joint) -> Carrier | None:
    """The only statement of the loop that passes an element on, `caches[k] = model(x, caches[k])`."""
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
        values = (level.value(given[0]) for level in case.failure.users)
        return "" if any(is_tensor(each) and not needs_gradient(each) for each in values) else given[0]
    # The operands of a line that calls a library are the ones of that call, and not of what computes inside.
    called, name = parsed(operation.line.segment), operation.op.rpartition(".")[2]
    is_inside = isinstance(called, ast.Call) and callee(called)[1] != name
    ordered = operation.operands if joint.new.op in _IN_ORDER and not is_inside else ()
    paths = (each for each in ordered if dotted(parsed(apart(each.text)[0])) is not None)
    return next((each.text for each in paths if each.position == at), "")


_IN_ORDER = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Mm", "Bmm", "Maximum", "Minimum"})
"""Operations whose node has an edge for each operand, in the order in which the program writes them."""
