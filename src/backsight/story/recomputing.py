"""What to write where a result is computed once and used in every pass: to compute it anew, or without its graph."""

from __future__ import annotations

import ast
import copy
import re
import threading
from collections.abc import Sequence

import torch

from backsight.naming.plain import is_class
from backsight.source import Body, Place, assignments, function_at, only, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, names_read, reads, stored_arguments, target_names, uses
from backsight.source.body import SCOPES, callee, calls_in, dotted, expressions, statements
from backsight.source.definitions import values_of
from backsight.source.edits import OR, lines_of, move, on_line, put, put_at, remove, repeat, sentence, wrap, write
from backsight.source.keeping import decorator_that_keeps
from backsight.source.rewriting import rewritten, simple, without_request
from backsight.story.anew import detached_for, trained_beside
from backsight.story.carrier import Carrier
from backsight.story.case import Case, loops
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.fixes import every_time, on_lines
from backsight.story.histories import pruned
from backsight.story.holders import below, made_in, results_in, terms
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.modes import headed
from backsight.story.ratios import ratio_of_one
from backsight.story.sections import function_called, methods_of, section_of
from backsight.story.stepping import optimizer_steps
from backsight.story.stores import held_as
from backsight.tape import Leaf, version
from backsight.text import listed
from backsight.tracing import Line


def recomputed(found: Carrier) -> str:
    """To compute it anew in each pass, or once without its graph."""
    case, name, nodes = found.case, found.name, found.nodes
    made = found.stored if not isinstance(found.made, Line) else found.made.place
    if found.when == "in __init__" and is_module(held_as(case.failure, found.variable.rpartition(".")[0])):
        if whole := _as_parameter(found):
            return whole
        body, statement = read_at(found.stored)
        single = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        cut = as_values(body, statement) if single and name == found.variable else ""
        alone = (
            f" {OR}If it need not train them, write `{cut}` there{write(found.stored, cut) if found.stored else ''}."
        )
        return _untrained(found) or (
            f"Compute {name} in forward, each time it is used: it depends on parameters that are trained, and line "
            f"{found.stored.line if found.stored else ''} of __init__ runs only once."
            f"{alone if cut else ''}"
        )
    if other := detached_for(found):
        return other
    if found.facts is not None:
        return _inside_loop(found)
    if found.function:
        return into_function(found)
    if (first := first_backward(found)) is not None:
        cut = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.(])", f"{name}.detach()", first.text)
        return (
            f"If line {first.line} should not train what computes {name}, write {cut}{write(first, cut)}. {OR}If it "
            "should, add the losses and call backward once."
        )
    if without := _untrained(found):
        return without
    other = once_without_graph(case, nodes)
    if every := uncached(made):
        return f"Recompute {name} each time it is read: {every}.{other}"
    used = _in_method_of(found)
    again = computed_again(case, name, "self") if used else ""
    if used and again:
        return f"Compute {name} each time it is used: {put_at(again, 'above', used)}.{other}"
    if rows := _embedded(found):
        return rows
    if anew := pruned(found):
        return anew
    return f"Recompute {name} in each iteration, inside the loop that uses it.{other}"


def made_in_this_call(found: Carrier) -> Level | None:
    """The running function whose variable holds the result, which it made below every loop: in this very call."""
    for level in found.case.failure.users:
        made = assignments(level.body, found.name, before=level.line)
        if made and set(made_in(found.case.graph, level.value(found.name))) & set(found.nodes):
            outside = (each for each in loops(level) if found.name not in each.assigned)
            return level if not any(each.loop.file == made[-1].file for each in outside) else None
    return None


def first_backward(found: Carrier) -> Place | None:
    """The statement that has read such a result since, and may have run the earlier backward."""
    level = made_in_this_call(found) if found.kind == "once" and not (found.facts or found.function) else None
    made = assignments(level.body, found.name, before=level.line)[-1] if level is not None else None
    if level is None or level.body is None or made is None:
        return None
    for each in statements(level.body.node):
        place = level.body.place(each)
        only = isinstance(each, ast.Assign) and any(results_in(level.value(name)) for name in bound(each))
        inside = made.position < place.position < level.place.position and not isinstance(each, SCOPES)
        if inside and reads(each, found.name) and "(" in place.text and not only:
            return place
    return None


def into_function(found: Carrier) -> str:
    """Say which lines are to be moved into a function so that what it reads from outside has a new graph in each call:
    what they are computed from goes along. Where the function around it reads one of them, too, they are repeated."""
    level, lines = found.level, dict[int, str]()
    for name in reversed(found.names):
        place = next(reversed(assignments(level.body, name, before=level.line)), None) or found.stored
        if place is not None:
            lines |= {**_computed_along(level, place), place.line: name}
    inner = next((each for each in found.case.failure.users if each.frame.f_code.co_name == found.function), None)
    first = inner.body.node.body[0].lineno if inner is not None and inner.body is not None else 0
    if level.body is None:
        return f"Compute {listed([*found.names])} inside {found.function}()."
    others = [each for each in statements(level.body.node) if each.lineno not in lines]
    others = [each for each in others if not isinstance(each, SCOPES)]
    is_read = not names_read(*others).isdisjoint(lines.values())
    verb, into = ("Repeat", "in") if is_read else ("Move", "into")
    ordered = sorted(lines)
    text = next((level.body.text(each) for each in statements(level.body.node) if each.lineno in lines), "")
    which = f"line {ordered[0]}, `{text}`," if len(ordered) == 1 else f"lines {listed([*map(str, ordered)])}"
    names = listed([*dict.fromkeys(lines[each] for each in ordered)])
    where = f", above line {first}" if first else ""
    body = inner.body if inner is not None else None
    if body is not None and body.file == level.body.file and body.name != "<lambda>":
        goes = repeat if is_read else move
        where += str(goes(lines_of(body.file, *ordered), "above", body.place(body.node.body[0])))
    return f"{verb} {which} {into} {found.function}(){where}, so that each call recomputes {names}."


def stored_at(case: Case, name: str) -> Place | None:
    """The only statement of its class that assigns an attribute: where it is computed once, whatever computes it."""
    owner, _, attribute = name.rpartition(".")
    held = held_as(case.failure, owner)
    return only(each for body in methods_of(type(held)) for each in assignments(body, f"self.{attribute}"))


def computed_again(case: Case, name: str, called: str = "") -> str:
    """The statement of a constructor that computes an attribute, as it would be written outside: `self` is the object,
    and an argument what the constructor has kept of it. Empty where not all of it is kept."""
    place, (owner, _, attribute) = stored_at(case, name), name.rpartition(".")
    body, statement = read_at(place)
    if body is None or not isinstance(body.node, ast.FunctionDef) or not isinstance(statement, ast.Assign):
        return ""
    owner = called or owner
    kept = {value: f"{owner}.{key}" for key, value in stored_arguments(body)} | {"self": owner}
    given = {each.arg for each in body.node.args.args}.union(*(bound(each) for each in statements(body.node)))
    value = copy.deepcopy(statement.value)
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in given:
            if node.id not in kept:
                return ""
            node.id = kept[node.id]
    return f"{owner}.{attribute} = {ast.unparse(value)}"


def once_without_graph(case: Case, nodes: Sequence[int]) -> str:
    """The other way: none for what this loss has to train, and reaches only through it."""
    graph, behind = case.graph, set(below(case.graph, nodes))
    trained = {leaf.node for leaf in graph.leaves if leaf.node in behind and leaf.owner}
    if trained:
        beside = set(below(graph, [root for root, _ in graph.root_edges], without=set(nodes)))
        return " If only its values are wanted, compute it once under torch.no_grad()." if trained <= beside else ""
    return " If nothing behind it is trained here, compute it once under torch.no_grad()."


def _in_method_of(found: Carrier) -> Place | None:
    """The statement that uses an attribute again, where a method of the object that keeps it does."""
    held = held_as(found.case.failure, found.name.rpartition(".")[0])
    body, _ = read_at(found.read)
    is_own = body is not None and any(each.node is body.node for each in methods_of(type(held)))
    return found.read if is_own and body is not None and body.name != "__getitem__" else None


def _embedded(found: Carrier) -> str:
    """Of a dataset that keeps what a module made of its rows, `self.rows = encoder(x)`: to keep the rows themselves."""
    case, level = found.case, found.case.failure.user
    body, statement = read_at(stored_at(case, found.name))
    call = statement.value if isinstance(statement, ast.Assign) else None
    used, _ = read_at(found.read)
    if level is None or level.body is None or body is None or not isinstance(call, ast.Call) or len(call.args) != 1:
        return ""
    facts = next(iter(loops(level)), None)
    module = _given_for(case, body, dotted(call.func) or "")
    loop = statement_at(level.body, *facts.loop.position) if facts else None
    if used is None or used.name != "__getitem__" or not module or not isinstance(loop, ast.For):
        return ""
    graph = case.graph
    behind = {each: set(below(graph, made_in(graph, level.value(each)))) for each in target_names(loop.target)}
    batch = [each for each, nodes in behind.items() if nodes & set(found.nodes)]
    if len(batch) != 1 or statement is None:
        return ""
    new = rewritten(body, statement, {call: body.text(call.args[0])})
    embed, first = f"{batch[0]} = {module}({batch[0]})", level.body.place(loop.body[0])
    return (
        f"Keep the raw rows in the dataset, and embed each batch: {on_line(body.place(statement), new)}, and "
        f"{put_at(embed, 'above', first)}. (With detach(), {dotted(call.func)} would not be trained.)"
    )


def _given_for(case: Case, init: Body, argument: str) -> str:
    """What the only call of a class gives to its constructor for an argument, if that is a module."""
    if not isinstance(init.node, ast.FunctionDef) or argument not in (names := [a.arg for a in init.node.args.args]):
        return ""
    at = names.index(argument) - 1
    for level in case.failure.users:
        for each in statements(level.body):
            for call in calls_in(each):
                cls = value_of(level, call.func)
                own = is_class(cls) and any(body.node is init.node for body in methods_of(cls))
                text = level.body.text(call.args[at]) if own and level.body and at < len(call.args) else ""
                if text and is_module(level.value(text)):
                    return text
    return ""


def uncached(made: Place | None) -> str:
    """What to write instead of a decorator that keeps the result of the function in which the old result was made."""
    body, _ = read_at(made)
    if body is None or (keeping := decorator_that_keeps(body)) is None:
        return ""
    place, text = body.place(keeping[0]), ast.unparse(keeping[0])
    if "cached_property" in text:
        return f"write `@property` on line {place.line}{headed(place, '@property')}"
    return f"remove line {place.line}, `@{text}`{remove(place)}"


def _untrained(found: Carrier) -> str:
    """What to do where optimizers train other parts of this graph, and nothing that the old result is computed from."""
    case, line = found.case, found.made if isinstance(found.made, Line) else None
    place = found.made.place if isinstance(found.made, Line) else found.stored
    behind, owned = set(below(case.graph, found.nodes)), {leaf.node for leaf in case.graph.leaves if leaf.owner}
    body, statement = read_at(place)
    if not owned or owned & behind or place is None or not isinstance(statement, ast.Assign | ast.Return):
        return ""
    if line is not None and owned & set(below(case.graph, _made_at(case, line))):
        return ""  # the same statement computes what is trained
    value = statement.value
    inside = [each for each in expressions(statement) if line and body and body.text(each) == line.segment]
    whole = line is None or value in inside
    if body is None or not (whole or isinstance(statement, ast.Assign)) or body.name in ("forward", "__call__"):
        return ""
    held = (level.value(found.name) for level in case.failure.users)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    plain = len(targets) == 1 and not isinstance(targets[0], ast.Tuple) and any(is_tensor(each) for each in held)
    if isinstance(value, ast.Call) and not whole:  # what it is given: `ContentLoss(model(x))`
        part = {each: f"{simple(body.text(each))}.detach()" for each in inside[:1]}
        new = rewritten(body, statement, part) if part else ""
    else:
        new = as_values(body, statement) if plain or isinstance(statement, ast.Return) else ""
    how = on_line(place, new) if new else _unrecorded(place)
    return f"No optimizer trains anything it is computed from: {how}."


def _unrecorded(place: Place) -> str:
    under = "with torch.no_grad():"
    return f"put line {place.line} inside `{under}`{wrap(place, under)}"


def _made_at(case: Case, made: Line) -> list[int]:
    """The operations of this graph that a line made."""
    lines = ((node.index, case.watch.line_of(node)) for node in case.graph.nodes) if case.watch else ()
    return [index for index, line in lines if line and (line.file, line.line) == (made.file, made.line)]


def _as_parameter(found: Carrier) -> str:
    """How to put all of `self.w = nn.Parameter(x) / 2` into the parameter; empty if others own what it is made of."""
    graph, (body, statement) = found.case.graph, read_at(found.stored)
    inside = below(graph, found.nodes)
    if any(leaf.module or leaf.owner for leaf in graph.leaves if leaf.node in inside):
        return ""
    if body is None or not isinstance(statement, ast.Assign):
        return ""
    inner = [node for node in calls_in(statement) if callee(node)[1] == "Parameter" and len(node.args) == 1]
    if len(inner) != 1 or inner[0] is statement.value:
        return ""
    value, call = body.text(statement.value), body.text(inner[0])
    rest = value.replace(call, body.text(inner[0].args[0]), 1)
    new = f"{body.text(statement.targets[0])} = {body.text(inner[0].func)}({rest})"
    return (
        f"Put the whole value into the parameter: {new}{write(body.place(statement), new)}. As it is, the nn.Parameter "
        "inside is registered nowhere, and no optimizer trains it."
    )


def _inside_loop(found: Carrier) -> str:
    case, level, facts, name, nodes = found.case, found.level, found.facts, found.name, found.nodes
    assert facts is not None
    made = found.stored
    if found.when == "only in some iterations":
        body, statement = read_at(made)
        every = every_time(body, statement, name, asking=False) if body and statement else ""
        how = f": {every}" if every else ""
        return f"Compute {name} in every iteration{how}.{once_without_graph(case, nodes)}"
    if facts.loop == found.read and (again := each_again(level, case.loss)):
        return again
    own = made is not None and level.body is not None and made.file == level.body.file
    own = own and any(each.lineno == made.line for each in statements(level.body.node))  # type: ignore[union-attr]
    if own and made is not None and (values := _values_of_held(found, made)):
        return values
    inside = _into_loop(level, facts.loop, name, made if own else None)
    if not own and made is not None and "." in name and made == (again_at := stored_at(case, name)):
        inside = f"compute {name} inside the loop, as line {again_at.line} does"
        if again := computed_again(case, name):
            inside = f"compute it inside the loop: {put_at(again, 'below', facts.loop)}"
    if constant := _constant(found, made if own else None):
        return f"{constant} {OR}If it should be trained, {inside}."
    if plain := _without_graph(found, own):
        return plain if ratio_of_one(case.graph, nodes) else f"{plain} {OR}Otherwise, {inside}."
    if added := _added(case, level, facts.loop):
        return f"{added} {OR}Or {inside}."
    return f"{sentence(inside)}.{_otherwise(case, nodes)}"


def _values_of_held(found: Carrier, made: Place) -> str:
    """To use values only, where the loop reads an old result out of what was built from it, which would keep it."""
    level, facts, graph, (body, statement) = found.level, found.facts, found.case.graph, read_at(made)
    loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
    computed = {made.line: found.name} if is_tensor(level.value(found.name)) else _computed_along(level, made)
    new = {line: as_values(body, statement_at(body, line)) for line in computed}
    direct = (
        [level.value(use.name) for use in uses(statement)] if statement is not None and made.line not in new else []
    )
    direct = [each for each in direct if is_tensor(each) and needs_gradient(each) and each.is_leaf]
    if not isinstance(loop, ast.For | ast.While) or not new or not all(new.values()) or direct:
        return ""
    after = _after(level, sorted(new), loop.lineno)
    built = sorted(each for one in after for each in _bound(one) if not _is_data(level.value(each)))
    named = set(computed.values()).union(*(_bound(each) for each in after)).difference(built)
    read = names_read(*(each for each in ast.walk(loop) if isinstance(each, ast.stmt)))
    if named & read or read.isdisjoint(built):
        return ""
    leaves = [leaf.label for leaf in graph.leaves if leaf.node in below(graph, found.nodes)]
    name, why = listed([*computed.values()]), f"{listed(leaves, 3)} require{'s' * (len(leaves) == 1)} grad"
    has = "has" if len(new) == 1 else "have"
    return (
        f"To use its values only, {on_lines(new, made.file)}: {name} {has} a graph because {why}. To compute {name} "
        f"again would not do, because {listed(built, 2)} keep{'s' * (len(built) == 1)} the old graph."
    )


def each_again(level: Level | None, loss: str) -> str:
    """What to write in a loop over losses of one forward pass, `for name, loss in losses.items():`, in which an
    optimizer steps each time."""
    body = level.body if level is not None else None
    for loop in (each for each in statements(body) if isinstance(each, ast.For)):
        target, call = loop.target, loop.iter
        if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call) or callee(call)[1] != "items":
            continue
        key, value = ([dotted(each) for each in target.elts] + [None])[:2]
        held = dotted(callee(call)[0])
        made = values_of(body, held, loop.lineno) if body is not None and held else []
        if level is None or body is None or value != loss or not loop.lineno < level.line <= (loop.end_lineno or 0):
            continue
        if key and len(made) == 1 and isinstance(made[0], ast.Call):
            again, first = f"{loss} = {body.text(made[0])}[{key}]", body.place(loop.body[0])
            put_there = put_at(again, "above", first)
            return f"Recompute {loss} in each iteration, because the step changes the weights: {put_there}."
    return ""


def _without_graph(found: Carrier, own: bool) -> str:
    """To detach what a loss only weighs or compares with; empty for a term of it, which would be a constant."""
    case, name, made, facts = found.case, found.name, found.stored, found.facts
    trained, by = trained_without(case, found.nodes), "the loss"
    if not trained:
        trained, by = trained_beside(case, found.nodes)
    if not trained or facts is None:
        return ""
    once = made if made is not None and "." in name and made == stored_at(case, name) else None
    block = _unrecorded(made) if made is not None else ""
    if len(found.names) > 1:
        detached = f"{', '.join(found.names)} = {', '.join(f'{each}.detach()' for each in found.names)}"
        alone = own and {found.made_of(each) for each in _first_of(found)} == {made}
        other = block if alone else "compute them under torch.no_grad()"
        how = f"put `{detached}` before line {facts.loop.line}{put(detached, 'above', facts.loop)}, {OR}or {other}"
    elif is_tensor(found.level.value(name)) or "[" in name:
        new = f"{name} = {name}.detach()"
        how = f"put {new} before line {facts.loop.line}{put(new, 'above', facts.loop)}, {OR}or "
        how += block if once else "compute it under torch.no_grad()"
    else:
        return ""
    weights = listed([leaf.label for leaf in case.graph.leaves if leaf.node in trained], 1)
    its = "its" if len(found.names) == 1 else "their"
    through = " through the rest of its graph" if by == "the loss" else ""
    return f"To use {its} values only, {how}: {by} trains {weights}{through}."


def _constant(found: Carrier, made: Place | None) -> str:
    """To use a result without its graph where nobody trains what it is computed from, as targets drawn from a model of
    their own: at its leaves, where the function called to compute it makes these, or below the statement itself."""
    graph, level = found.case.graph, found.level
    behind, trained = set(below(graph, found.nodes)), _trained(found.case)
    leaves = [leaf for leaf in graph.leaves if leaf.node in behind]
    whole = all(each.isidentifier() and is_tensor(level.value(each)) for each in found.names)
    if not trained or trained & behind or not leaves or not whole or found.facts is None:
        return ""
    cut = "; ".join(f"{each} = {each}.detach()" for each in found.names)
    below_made = made or found.facts.loop
    detached = put_at(cut, "below" if made is not None else "above", below_made)
    name, asking = listed([*found.names]), _requests(level, made)
    beside = set(below(graph, [root for root, _ in graph.root_edges], without=set(found.nodes)))
    if asking and len(asking) == len(leaves) and beside.isdisjoint(leaf.node for leaf in leaves):
        new = {at.line: each for at, each in asking.items()}
        detached = f"{on_lines(new, next(iter(asking)).file)}, {OR}or {detached}"
    verbs = "is computed from, so it needs" if len(found.names) == 1 else "are computed from, so they need"
    return f"Nothing trains what {name} {verbs} no graph: {detached}."


def _requests(level: Level, made: Place | None) -> dict[Place, str]:
    """The statements of a function called at a place that make leaves, each without its request for a gradient."""
    section, found = section_of(level), dict[Place, str]()
    for call in calls_in(statement_at(level.body, *made.position)) if made is not None else ():
        function = function_called(section, call)[0] if section is not None else None
        body = function_at(function.__code__) if function is not None else None
        for each in statements(body):
            if body is not None and (new := without_request(body, each)):
                found[body.place(each)] = new
    return found


def _trained(case: Case) -> set[int]:
    """What optimizers hold, and what has been changed by hand since it was made."""
    owned = {leaf.node for leaf in case.graph.leaves if leaf.owner}
    by_hand = (leaf for leaf in case.graph.leaves if not (owned and _is_parameter(leaf)))
    return owned | {leaf.node for leaf in by_hand if _is_stepped(leaf)}


def _is_parameter(leaf: Leaf) -> bool:
    """Whether a leaf is a parameter of a module, whose first values are written into it."""
    return bool(leaf.module) or isinstance(leaf.tensor(), torch.nn.Parameter)


def _is_stepped(leaf: Leaf) -> bool:
    """Whether a leaf has been changed in place."""
    held = leaf.tensor()
    return held is not None and bool(version(held))


def _first_of(found: Carrier) -> list[str]:
    """Those of several old results that reach what is trained without the others, which are computed from them."""
    graph, every = found.case.graph, {each: made_in(found.case.graph, found.level.value(each)) for each in found.names}
    owned = {leaf.node for leaf in graph.leaves if leaf.owner}
    others = {each: {i for other, nodes in every.items() if other != each for i in nodes} for each in every}
    return [each for each, nodes in every.items() if owned & set(below(graph, nodes, without=others[each]))]


def trained_without(case: Case, nodes: Sequence[int]) -> set[int]:
    """What optimizers hold behind some nodes, if the rest of the graph trains all of it as well; none for a term of the
    loss, which would be a constant."""
    graph, behind = case.graph, set(below(case.graph, nodes))
    owned = {leaf.node for leaf in graph.leaves if leaf.owner}
    roots, trained, left = [root for root, _ in graph.root_edges], owned & behind, set[int]()
    for term in terms(graph, roots, nodes):
        without = owned & set(below(graph, [term], without=set(nodes)))
        left |= without
        if not without and behind & set(below(graph, [term])):
            return set()
    return trained if trained <= left else set()


def _added(case: Case, level: Level, at: Place) -> str:
    """How the losses of a loop in which no optimizer steps are added up, for one backward below it."""
    body, steps = level.body, [each.line for each in optimizer_steps(level)]
    loop = statement_at(body, *at.position)
    stepped = case.watch.steps.marks.get(threading.get_ident(), -1) if case.watch else -1
    if body is None or loop is None or not steps or level is not case.failure.user or level.receiver is None:
        return ""
    last = loop.end_lineno or loop.lineno
    if any(loop.lineno <= line <= last for line in steps) or (case.earlier and case.earlier.mark <= stepped):
        return ""
    total = next(each for each in ("total", "total_loss", "sum_of_losses", "summed") if each not in level.variables)
    zero, add, call = f"{total} = 0.0", f"{total} = {total} + {simple(level.receiver)}", f"{total}.backward()"
    return (
        f"No optimizer steps in the loop, so add the losses and call backward once: put `{zero}` before line "
        f"{loop.lineno}{put(zero, 'above', at)}, write `{add}` on line {level.line}{write(level.place, add)}, and put "
        f"`{call}` below the loop, after line {last}{put(call, 'beside', at)}."
    )


def _into_loop(level: Level, loop: Place, name: str, made: Place | None) -> str:
    """Which statement to move into the loop, with those that it needs there."""
    if made is None:
        return f"compute {name} inside the loop"
    lines = sorted({made.line, *_computed_along(level, made)})
    head, every = (
        names_read(statement_at(level.body, *loop.position)),
        statements(level.body),
    )
    if any(not head.isdisjoint(bound(each)) for each in every if each.lineno in lines):  # it goes through them
        return f"compute {name} inside the loop at line {loop.line}, from what each iteration takes"
    which = f"line {lines[0]}, `{made.text}`," if len(lines) == 1 else f"lines {listed([*map(str, lines)])}"
    after, places = _after(level, lines, loop.line), lines_of(made.file, *lines)
    if any(not _is_data(level.value(each)) for statement in after for each in _bound(statement)):
        edit = repeat(places, "below", loop)  # what is built must stay
        return f"run {which} again at the start of the loop at line {loop.line}{edit}"
    if after:
        places += [Place(made.file, each.lineno, "") for each in after]
        parts = sorted({*lines, *(line for each in after for line in range(each.lineno, (each.end_lineno or 0) + 1))})
        whole = [*range(parts[0], parts[-1] + 1)] == parts
        which = f"lines {parts[0]} to {parts[-1]}" if whole else f"lines {listed([*map(str, parts)])}"
        which += f" (what {'is' if len(after) == 1 else 'was'} computed from line {lines[-1]} moves too)"
    return f"move {which} inside the loop at line {loop.line}{move(places, 'below', loop)}"


def _computed_along(level: Level, place: Place) -> dict[int, str]:
    """The variables with a graph that a statement computes with, by their lines: to be computed anew with it."""
    value = getattr(statement_at(level.body, *place.position), "value", None)
    found: dict[int, str] = {}
    if level.body is not None and value is not None:
        for name, each in ancestors(level.body, level.body.text(value), place.line).items():
            if results_in(level.value(name)):
                found |= {made.line: name for made in each.bound if made.line < place.line}
    return dict(sorted(found.items()))


def along(level: Level, made: Sequence[Place]) -> str:
    """Say what else has to be computed anew to compute anew what the last of some statements gives its value."""
    where = [f"{name} (line {line})" for line, name in _computed_along(level, made[-1]).items()] if made else []
    return f", together with {listed(where)}, which it is computed from" if where else ""


def _after(level: Level, lines: Sequence[int], loop: int) -> list[ast.stmt]:
    """The statements between those lines and the loop that read what they bind, and so on."""
    every = [*statements(level.body)]
    names = set[str]().union(*(bound(each) for each in every if each.lineno in lines))
    found: list[ast.stmt] = []
    for each in every:
        end = each.end_lineno or each.lineno
        if not lines[0] < each.lineno <= end < loop or each.lineno in lines:
            continue
        inside = (one for one in ast.walk(each) if isinstance(one, ast.stmt))
        below_all = each.lineno > max([0, *(one.end_lineno or 0 for one in found)])
        if below_all and not names.isdisjoint(names_read(*inside)):
            found.append(each)
            names |= _bound(each)
    return found


def _bound(statement: ast.stmt) -> set[str]:
    return set[str]().union(*(bound(each) for each in ast.walk(statement) if isinstance(each, ast.stmt)))


def _is_data(value: object) -> bool:
    """Whether a value may be computed anew in every iteration: not a model, an optimizer or a record of the run."""
    return is_tensor(value) or value is None or type(value) in (int, float, bool, str)


def _otherwise(case: Case, nodes: Sequence[int]) -> str:
    """What to do if it is computed once on purpose."""
    by_hand = any(_is_stepped(leaf) and not _is_parameter(leaf) for leaf in case.graph.leaves)
    if by_hand or any(optimizer_steps(each) for each in case.failure.users):
        return once_without_graph(case, nodes)
    call = f"{simple(case.receiver or 'loss')}.backward"
    return (
        " If it is computed once on purpose and no optimizer steps between the backwards, keep its graph: "
        f"{call}(retain_graph=True) in every iteration but the last."
    )


def as_values(body: Body | None, statement: ast.stmt | None) -> str:
    """A statement with what it assigns or returns detached; empty where that cannot be written."""
    value = getattr(statement, "value", None)
    if body is None or statement is None or value is None:
        return ""
    new = rewritten(body, statement, {value: f"{simple(body.text(value))}.detach()"})
    return new if "…" not in new else ""
