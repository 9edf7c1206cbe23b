"""BS205: a leaf that requires grad, or a view of one, is changed in place while autograd records."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeGuard

import torch

from backsight.diagnosis.errors.leaf_entries import carrying, computed_with, entries, instead_of
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.evidence.written import Written, receiver, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import Place, assignments, read_at
from backsight.source.bindings import bound, names_read, parameters_of, target_names, uses
from backsight.source.body import LOOPS, Loop, callee, calls_in, dotted, expressions, is_shared, keyword, statements
from backsight.source.changes import changed_memory, changed_names
from backsight.source.edits import OR, lines_of, on_line, on_line_with, put, without_marks, wrap, write
from backsight.source.imports import is_gradient_call, library
from backsight.source.out_of_place import out_of_place
from backsight.source.rewriting import rewritten, without_request
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.fixes import too
from backsight.story.holders import results_in, structure
from backsight.story.hooks import asking_hook
from backsight.story.made_in_place import made_in_place, not_in_place, said_of
from backsight.story.memory import base_of, is_leaf, is_module, is_tensor, needs_gradient
from backsight.story.modes import disabled_at
from backsight.tape import parameters_in
from backsight.text import lines_at
from backsight.tracing.steps import parameters

_NEAR = 3
"""Levels of the traceback that are looked at for a condition."""


class Case(NamedTuple):
    """What the statement does with the leaf, why that is refused, and what to do.

    of_all: whether that says what to do with the next ones, too. changes_all: whether its edits do it. covered: the
    lines of those that it does something with.
    """

    does: str
    reason: str
    fix: str
    of_all: bool = False
    changes_all: bool = True
    covered: Collection[int] = ()


@explains("BS205", r"a (view of a )?leaf Variable that requires grad (is being|has been) used in an in-place operation")
def leaf_in_place(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the leaf, and tell an update of a weight from a first value and from a part of the computation."""
    found = written(failure, is_leaf)
    if found is None or (found.tensor is None and not found.name and not found.module):
        return unlocated(
            failure,
            "A leaf that requires grad was modified in place while autograd was recording.",
            "is the statement that failed.",
            "Update weights inside `with torch.no_grad():`. To compute with changed values, modify a copy: x.clone().",
        )
    others = _next_ones(found)
    case = _case(failure, found, others)
    left = [place for place in others if place.line not in case.covered]
    fix = case.fix if case.changes_all or not left else without_marks(case.fix)
    made = _maker(found)
    lines: list[Fact] = [shown(made, f"creates {found.here}, a leaf that requires grad.")] if made else []
    lines += [shown(found.level.place, case.does), case.reason]
    lines += [f"Line {place.line} would raise the same error: {place.text}" for place in others]
    part = "part of it" if match[1] else "it"
    return explanation(
        f"{found.label} is a leaf that requires grad, and this statement modifies {part} in place.",
        lines,
        case.fix if case.of_all else fix + too([place.line for place in left]),
        source=found.level.place,
        exact=found.tensor is not None,
    )


def _case(failure: Failure, found: Written, others: Sequence[Place]) -> Case:
    if found.name and (adapted := _adapted(found)) is not None:
        return adapted._replace(changes_all=not others)
    if found.statement is not None and _reads_gradient(found):
        return _update(found, others)
    if not found.name:
        return _handed_over(failure, found)._replace(changes_all=not others)
    if _follows_parameters(found):
        return _average(found, others)
    if _is_first_value(found):
        return _first_value(found, others)
    return _initial(found, others) if _runs_once(found) else _computation(found, others)


def _in_block(*places: Place) -> str:
    """The edits that put statements into blocks without recording: those at one depth together."""
    depths = dict.fromkeys(each.column for each in places)
    each_in = ([each for each in places if each.column == depth] for depth in depths)
    return "".join(str(wrap(inside, _BLOCK)) for inside in each_in)


_BLOCK = "with torch.no_grad():"


_RECORDED = "Autograd is recording here, so the update itself would become part of the graph."


def _unrecorded(found: Written, others: Sequence[Place]) -> str:
    """The statement in such a block on its own line, with the edits for it and the next ones."""
    new, (body, _) = f"{_BLOCK} {found.outer.text}", read_at(found.outer)
    plain = "…" not in new and not new.endswith(":") and body is not None and not is_shared(body, found.outer.line)
    edit = str(write(found.outer, new)) if plain else _in_block(found.outer)
    return f"`{new}`{edit}{_in_block(*others)}"


def _update(found: Written, others: Sequence[Place]) -> Case:
    name = found.here
    away = out_of_place(found.level.body, found.level.line)
    collects = away and _reads_own_gradient(found)
    no_fix = (
        f" ({away} won't help: {name} would no longer be a leaf, and its .grad would stay None.)" if collects else ""
    )
    new = {each: f"{_BLOCK} {each.text}" for each in (found.outer, *others)}
    all_written = len(new) > 1 and all("…" not in code and not code.endswith(":") for code in new.values())
    how = listed([on_line(at, code) for at, code in new.items()]) if all_written else _unrecorded(found, others)
    return Case(
        f"updates {name} with its gradient.",
        _RECORDED,
        f"Update without recording: {how}. Or let an optimizer do it.{no_fix}",
        all_written,
    )


def _adapted(found: Written) -> Case | None:
    """Weights in a dict that a loop moves by their gradients, for `functional_call`: each has to be another tensor."""
    body, away = found.level.body, out_of_place(found.level.body, found.level.line)
    rebuilt = _rebuilt(found, away) if body is not None and away and isinstance(found.statement, ast.AugAssign) else ""
    held = rebuilt.partition(" = ")[0]
    loop = _loop_of(found) if rebuilt else None
    if body is None or loop is None or type(found.level.value(held)) is not dict:
        return None
    if not _is_optimized(found) or not any(_computes_with(each, held) for each in statements(body.node)):
        return None  # an update by hand: the weights themselves are to change
    made = assignments(body, held, before=found.level.line)
    grads = [each for each in statements(body.node) if each.lineno < loop.lineno and _derives(each)]
    graph = f" Second derivatives also need create_graph=True on line {grads[-1].lineno}." if grads else ""
    return Case(
        f"updates {found.here}, held in {held}" + (f" since line {made[0].line}." if made else "."),
        f"{found.label} trains through what is computed from {held}, so the update must create a new tensor.",
        f"Build a new dict in place of the loop on line {loop.lineno}: {rebuilt}"
        f"{write(body.place(loop), rebuilt)}. (Under torch.no_grad(), the update "
        f"would overwrite {found.label} itself.){graph}",
    )


def _computes_with(statement: ast.stmt, held: str) -> bool:
    """Whether a statement runs a module with the weights in a dict."""
    calls = (each for each in calls_in(statement) if callee(each)[1] == "functional_call")
    return any(dotted(given) == held for each in calls for given in each.args)


def _derives(statement: ast.stmt) -> bool:
    """Whether a statement takes a derivative without a graph of its own."""
    calls = (each for each in calls_in(statement) if is_gradient_call(each))
    return any(keyword(each, "create_graph") is None for each in calls)


def _average(found: Written, others: Sequence[Place]) -> Case:
    body, loop = found.level.body, _loop_over_parameters(found)
    block = body.place(loop) if body is not None and loop else found.outer
    inside = _in_block(block, *(each for each in others if not loop or each.line > (loop.end_lineno or 0)))
    where = f"the loop on line {loop.lineno}" if loop else f"line {found.outer.line}"
    return _apart(found, "which is not part of computing a loss", where, inside)


def _apart(found: Written, which: str, where: str, inside: str) -> Case:
    """An update of a weight that is no part of a computation: it must change the weight itself."""
    return Case(
        f"updates {found.here}, {which}.",
        _RECORDED,
        f"Update without recording: put {where} inside `{_BLOCK}`{inside}. A new tensor won't help: {found.label} "
        "itself would never change.",
    )


def _follows_parameters(found: Written) -> bool:
    """Whether the statement moves a parameter by other parameters or in a loop over them: an average, a target net."""
    statement, level = found.statement, found.level
    if statement is None or not isinstance(found.tensor, torch.nn.Parameter):
        return False
    read = [value for use in uses(statement) if is_tensor(value := level.value(use.name)) and value is not found.tensor]
    others = [value for value in read if needs_gradient(value)]
    if not all(is_leaf(value) for value in others) or _calls_a_model(found):
        return False
    moved = any(isinstance(value, torch.nn.Parameter) for value in others) and _is_average(statement)
    return moved or _loop_over_parameters(found) is not None


def _is_average(statement: ast.stmt) -> bool:
    """Whether the statement overwrites or blends: `t.copy_(p)`, `t.lerp_(p, 0.1)`, `t.mul_(0.9).add_(p, alpha=0.1)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="copy_" | "lerp_"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_", value=ast.Call(func=ast.Attribute(attr="mul_"))))):
            return True
    return False


def _calls_a_model(found: Written) -> bool:
    calls = (dotted(node.func) for node in calls_in(found.statement))
    return any(_may_compute(found.level.value(name)) for name in calls if name)


def _loop_over_parameters(found: Written) -> ast.For | None:
    """The loop around the statement that runs over parameters, with the changed tensor among its targets."""
    for loop in (each for each in statements(found.level.body) if isinstance(each, ast.For)):
        calls = (callee(node)[1] for node in ast.walk(loop.iter) if isinstance(node, ast.Call))
        runs = any(name in ("parameters", "named_parameters") for name in calls)
        if runs and found.name in target_names(loop.target) and any(n is found.statement for n in ast.walk(loop)):
            return loop
    return None


def _handed_over(failure: Failure, found: Written) -> Case:
    body, statement, module = found.level.body, found.statement, found.module
    read = [each for each in expressions(statement) if body and found.text and body.text(each) == found.text]
    line = (
        rewritten(body, statement, dict.fromkeys(read, f"{found.text}.clone()")) if body and statement and read else ""
    )
    copied = f"Pass a copy: {on_line(found.level.place, line)}" if line else ""
    taker, without = "a function that modifies it in place", "use a function that does not"
    if module:
        made = made_in_place(failure, module, *receiver(found))
        where = f"{said_of(made)}{not_in_place(made)}"
        taker = f"{a_kind(module)} created with inplace=True"
        without = f"make that {module} without inplace=True{where}"
    return Case(
        f"hands {found.here} to {taker}.",
        "A leaf must not change: its gradient belongs to the value that the graph started from.",
        f"{copied or f'Pass a copy of {found.label}, made with .clone()'}, {OR}or {without}.",
    )


def _first_value(found: Written, others: Sequence[Place]) -> Case:
    name, inside = found.here, _in_block(found.outer, *others)
    does = f"sets the values of {name}."
    reason = f"{name} already requires grad, so autograd would record this as part of the computation."
    if isinstance(found.tensor, torch.nn.Parameter) or base_of(found.tensor) is not None or _is_optimized(found):
        which = lines_at([found.outer.line, *(each.line for each in others)])
        fix = f"Put {which} inside `{_BLOCK}`{inside}, as the functions of torch.nn.init do."
        return Case(does, reason, fix, of_all=True)
    fix = (
        f"Fill {name} first and call {name}.requires_grad_() afterwards{_asking_last(found, others)}, {OR}or put line "
        f"{found.outer.line} inside `{_BLOCK}`{inside}."
    )
    return Case(does, reason, fix)


def _asking_last(found: Written, others: Sequence[Place]) -> str:
    """The statement that makes the leaf without asking for its gradient, and that below what fills it, as edits."""
    body, statement = read_at(_maker(found))
    plain = without_request(body, statement) if body is not None and statement is not None else ""
    if body is None or statement is None or not plain or found.outer != found.level.place:
        return ""
    last = max([found.outer, *others], key=lambda each: each.line)
    loops = (
        each for each in statements(found.level.body) if isinstance(each, LOOPS) and each.lineno > statement.lineno
    )
    around = next((body.place(each) for each in loops if covers(each, last.line)), last)
    return f"{write(body.place(statement), plain)}{put(f'{found.name}.requires_grad_()', 'beside', around)}"


def _is_optimized(found: Written) -> bool:
    """Whether an optimizer that a variable or an attribute holds trains the leaf: it is no first value, then."""
    every = [value for level in found.callers for value in level.variables.values()]
    every += [each for value in every for each in dict.values(namespace(value) or {})]
    trained = (each for value in every if isinstance(value, torch.optim.Optimizer) for each in parameters(value))
    return any(each is _leaf(found) for each in trained)


def _initial(found: Written, others: Sequence[Place]) -> Case:
    """A weight whose first value depends on data: another tensor in its place would be gone with the call."""
    return Case(
        f"sets the first value of {found.here}, under a condition that holds once.",
        "Autograd is recording here, so this would become part of the computation.",
        f"Set it without recording: {_unrecorded(found, others)}. A new tensor won't help: {found.label} itself would "
        "never be set.",
    )


def _runs_once(found: Written) -> bool:
    """Whether a weight is written under a condition that what it guards changes: `if not self.ready:`."""
    if not isinstance(_leaf(found), torch.nn.Parameter):
        return False
    inside: set[str] = set()
    for level in found.callers[:_NEAR]:
        for each in _conditions(level):
            changes = inside.union(
                *(bound(inner) | changed_names(inner) for inner in ast.walk(each) if _is_plain(inner))
            )
            if any(use.name in changes for use in uses(each.test) if not use.binds):
                return True
        for statement in statements(level.body):
            inside |= bound(statement) | changed_names(statement)
    return False


def _is_plain(node: ast.AST) -> TypeGuard[ast.stmt]:
    return isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr)


def _conditions(level: Level) -> list[ast.If]:
    """The conditions around the line of a level, the outermost first."""
    every = [each for each in statements(level.body) if isinstance(each, ast.If)]
    return [each for each in every if each.body[0].lineno <= level.line <= (each.body[-1].end_lineno or 0)]


def _computation(found: Written, others: Sequence[Place]) -> Case:
    name, label, at, body = found.here, found.label, found.level.place, found.level.body
    away = out_of_place(body, found.level.line)
    rebuilt = _rebuilt(found, away) if away else ""
    if not rebuilt and _is_lost(found):
        where = f"line {found.outer.line}"
        return _apart(found, "which nothing reads afterwards", where, _in_block(found.outer, *others))
    reason = f"{label} is where the graph starts: its gradient belongs to its current value."
    if model := _model_of(found) if rebuilt else "":
        does = f"modifies {name} in place, as part of the computation."
        return Case(does, reason, _called_with(found, model, rebuilt))
    if (given := _given_by_module(found)) is not None:
        return given
    new, reading = f"new_{found.name.rpartition('.')[2]}", _statements_reading(found, at.line)
    view = f", a view of {label}," if base_of(found.tensor) is not None and name != label else ""
    covered = {each.lineno for each in reading if changed_names(each) <= {found.name}}
    stays = f" {label} stays the leaf and keeps its gradient."
    if rebuilt:
        loop = _loop_of(found)
        whole = write(lines_of(at.file, loop.lineno), rebuilt) if loop is not None else ""
        fix, covered = f"Build a new list instead of the loop: {rebuilt}{whole}.", set()
    elif not away:
        copy = f"{new} = {name}.clone()"
        fix = f"Modify a copy: put {copy} before line {at.line}{put(copy, 'above', at)}, and use {new}"
        fix = entries(found) or f"{fix}{_below(found, reading)}{_used(found, new, reading)}."
    elif (through := carrying(found)) is not None:
        fix, stays = _summed(found, through, away), stays if body and name not in parameters_of(body.node) else ""
    elif name.isidentifier() and any(each.line > at.line for each in assignments(body, name)):
        fix, stays = f"Create a new tensor: {on_line(at, away)}.", ""  # the name is given another one below, too
    else:
        after = [each for each in reading if each.lineno > at.line]
        used, value = f"{_below(found, after)}{_used(found, new, after)}", f"{new} = {away.partition(' = ')[2]}"
        around = next(iter(_conditions(found.level)), None)
        if around is not None and any(each.lineno > (around.end_lineno or 0) for each in after):
            above = put(f"{new} = {name}", "above", lines_of(at.file, around.lineno)[0])
            fix = (
                f"Create a new tensor: put {new} = {name} above line {around.lineno}{above}, write {value} on line "
                f"{at.line}{write(at, value)}, and use {new}{used}."
            )
        else:
            fix = f"Create a new tensor: {on_line(at, value)}, and use {new}{used or ' from there on'}."
            fix = fix if used else without_marks(fix)  # nothing reads it so far
    does = f"modifies {name}{view} in place, as part of the computation."
    return Case(does, reason, f"{fix}{stays}", changes_all=False, covered=covered)


def _given_by_module(found: Written) -> Case | None:
    """A view of what a module has returned, or that itself: a copy of the whole, where it is given, is no leaf."""
    name, body, whole = found.label if base_of(found.tensor) is not None else found.name, found.level.body, _leaf(found)
    places = assignments(body, name, before=found.level.line) if name.isidentifier() else ()
    made, statement = read_at(places[-1] if places else None)
    call = statement.value if isinstance(statement, ast.Assign) else None
    module = value_of(found.level, call.func) if isinstance(call, ast.Call) else None
    if made is None or not isinstance(call, ast.Call) or not is_module(module) or found.level.value(name) is not whole:
        return None
    hook = asking_hook(module)
    view = f", a view of {name}," if name != found.here else ""
    at = f" on line {hook.line}" if hook is not None and hook.file == made.file else f" ({hook})"
    asks = f" A hook of {made.text(call.func)} makes it one: `{hook.text}`{at}." if hook is not None else ""
    copied = on_line_with(made, statement, {call: f"{made.text(call)}.clone()"})
    return Case(
        f"modifies {found.here}{view} in place, as part of the computation.",
        f"{made.text(call.func)} returns {name} as a leaf.{asks}",
        f"Modify a copy: {copied or f'clone {name} on line {places[-1].line}'}. Then {name} is no leaf, and this "
        "statement changes what is read afterwards.",
        of_all=True,
    )


def _summed(found: Written, loop: Loop, away: str) -> str:
    """A new tensor that each turn of a loop goes on with: under the name of a parameter, which is the function's own,
    else under one that is given the leaf above the loop."""
    name, at, body = _called(found), found.level.place, found.level.body
    if body is not None and name in parameters_of(body.node):
        return f"Create a new tensor in each turn: {on_line(at, away)}."
    new, above = f"new_{found.name.rpartition('.')[2]}", lines_of(at.file, loop.lineno)[0]
    value = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.(])", new, away)
    reading = [each for each in _statements_reading(found, loop.lineno + 1) if each.lineno != at.line]
    used = f", and use {new}{_below(found, reading)}{_used(found, new, reading)}" if reading else ""
    first = f"put {new} = {name} above line {loop.lineno}{put(f'{new} = {name}', 'above', above)}"
    return f"Create a new tensor in each turn: {first}, {on_line(at, value)}{used}."


def _is_lost(found: Written) -> bool:
    """Whether a new tensor for a weight would be gone: a loop outside of a forward names it, and nothing reads it."""
    line = found.level.line
    loops = [each for each in statements(found.level.body) if isinstance(each, ast.For) and covers(each, line)]
    named = any(found.name in target_names(each.target) for each in loops)
    return named and _is_kept_up(found) and not _statements_reading(found, line + 1)


def _below(found: Written, reading: Sequence[ast.stmt]) -> str:
    """Where a new tensor stands in for the leaf: ` instead of x on lines 16 and 17`; empty if nowhere."""
    return f" instead of {_called(found)} on {lines_at((each.lineno for each in reading), 4)}" if reading else ""


def _called(found: Written) -> str:
    """What the statements call the leaf: a variable, or an element of a list, `params[0]`."""
    return found.text or found.name


def _used(found: Written, new: str, reading: Sequence[ast.stmt]) -> str:
    """The statements with a new tensor in place of the leaf, as edits."""
    return instead_of(found, _called(found), dict.fromkeys(reading, new))


def _statements_reading(found: Written, first: int) -> list[ast.stmt]:
    """The statements from a line on that read what the failing one calls the leaf: a variable, `layers[0].weight`."""
    text, name = found.level.body.text if found.level.body else ast.unparse, _called(found)
    return [
        each
        for each in statements(found.level.body)
        if each.lineno >= first and any(text(node) == name for node in computed_with(each))
    ]


def _model_of(found: Written) -> str:
    """The module that is called beside the statement and has this very parameter: a list would not reach it."""
    for name in sorted({dotted(node.func) or "" for each in statements(found.level.body) for node in calls_in(each)}):
        value = found.level.value(name)
        if is_module(value) and any(each is _leaf(found) for each in parameters_in(value)):
            return name
    return ""


def _called_with(found: Written, model: str, rebuilt: str) -> str:
    """How a module computes with updated weights that are not its own: gradients go through them to its parameters."""
    held, _, new = rebuilt.partition(" = ")
    new = new.replace(f", {held}", f", {held}.values()").replace(f"({held},", f"({held}.values(),")
    made = assignments(found.level.body, held, before=found.level.line)
    where = f" (line {made[-1].line})" if made else ""
    return (
        f"{model} computes with its own parameters, whatever {held} holds. Keep the updated ones in a dict: {held} = "
        f"dict({model}.named_parameters()){where}; differentiate with respect to list({held}.values()); update with "
        f"{held} = dict(zip({held}, {new})), in place of the loop; and wherever the updated model is used, by callers "
        f"too, write torch.func.functional_call({model}, {held}, (x,)) for {model}(x)."
    )


def _rebuilt(found: Written, away: str) -> str:
    """The comprehension that does what a loop over a list does to each of its elements; empty where it is no such loop.

    A name that is bound in the loop leaves the list as it was.
    """
    body, loop = found.level.body, _loop_of(found)
    if body is None or loop is None:
        return ""
    held, of = [loop.target], [loop.iter]
    if isinstance(loop.target, ast.Tuple) and isinstance(loop.iter, ast.Call) and callee(loop.iter)[1] == "zip":
        held, of = loop.target.elts, loop.iter.args
    value, each_of = away.partition(" = ")[2], f"for {body.text(loop.target)} in {body.text(loop.iter)}"
    for target, each in zip(held, of, strict=False):
        name = dotted(each)
        if dotted(target) == found.name and name is not None and type(found.level.value(name)) is list:
            return f"{name} = [{value} {each_of}]"
        owner = dotted(callee(each)[0]) if isinstance(each, ast.Call) and callee(each)[1] == "items" else None
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and type(found.level.value(owner or "")) is dict:
            key, entry = (dotted(one) for one in target.elts)
            return f"{owner} = {{{key}: {value} {each_of}}}" if key and entry == found.name else ""
    return ""


def _loop_of(found: Written) -> ast.For | None:
    """The loop of which the statement is all."""
    loops = (each for each in statements(found.level.body) if isinstance(each, ast.For))
    return next((each for each in loops if len(each.body) == 1 and each.body[0] is found.statement), None)


def _reads_gradient(found: Written) -> bool:
    """Whether the statement reads a `.grad`, or a variable computed from one, or the leaf's own was read before."""
    statement, body = found.statement, found.level.body
    if statement is None or body is None:
        return False
    read = names_read(statement)
    made = (place for name in read for place in assignments(body, name, before=statement.lineno))
    return _reads_own_gradient(found) or any(".grad" in place.text for place in made)


def _reads_own_gradient(found: Written) -> bool:
    """Whether the statement reads a `.grad`, or the leaf's was read before: not what `autograd.grad` returned."""
    statement = found.statement
    attributes = (node for node in expressions(statement) if isinstance(node, ast.Attribute) and node.attr == "grad")
    if any(not library(node) for node in attributes):
        return True
    before = (each for each in statements(found.level.body) if statement is not None and each.lineno < statement.lineno)
    return any(dotted(node) == f"{found.name}.grad" for each in before for node in expressions(each))


def _is_first_value(found: Written) -> bool:
    """Whether the statement writes what has no history, or the leaf's own: constants, random numbers, its norm."""
    statement, level = found.statement, found.level
    if statement is None or (isinstance(statement, ast.AugAssign) and not _is_kept_up(found)):
        return False
    filled = isinstance(statement, ast.Assign) and isinstance(found.tensor, torch.nn.Parameter) and _is_kept_up(found)
    for use in uses(statement):
        value = level.value(use.name) if use.name != found.name and not use.binds else None
        if filled and is_leaf(value):  # a part of a weight is given what another weight holds
            continue
        if needs_gradient(value) and use.name.rpartition(".")[0] != found.name and not _comes_from(value, _leaf(found)):
            return False
    calls = (dotted(node.func) or "" for node in calls_in(statement))
    return not any(_may_compute(level.value(name)) for name in calls)


def _is_kept_up(found: Written) -> bool:
    """Whether a weight is changed outside of any forward, as after a step: no loss is computed there."""
    running = {level.function.rpartition(".")[2] for level in found.callers} | {found.level.function.rpartition(".")[2]}
    return isinstance(_leaf(found), torch.nn.Parameter) and "forward" not in running


def _leaf(found: Written) -> Any:
    return base_of(found.tensor) if base_of(found.tensor) is not None else found.tensor


def _comes_from(value: Any, leaf: object) -> bool:
    """Whether a result was computed of this leaf, and of no other."""
    held = [each.tensor() for each in structure(value).leaves] if results_in(value) else []
    return bool(held) and all(each is leaf for each in held)


def _may_compute(value: object) -> bool:
    """Whether a call of `value` may return something with a history: a module or a function of the user's."""
    return issubclass(type(value), torch.nn.Module) or type(value).__name__ in ("function", "method")


def _maker(found: Written) -> Place | None:
    """The statement of the same function that makes the leaf."""
    body = found.level.body
    made = assignments(body, found.name, before=found.level.line) if found.name else ()
    return next((place for place in reversed(made) if re.search(r"requires_grad|Parameter\(", place.text)), None)


def _next_ones(found: Written) -> list[Place]:
    """The later statements that change a leaf, or a part of one: the errors that would come next."""
    body = found.level.body
    if body is None or found.statement is None:
        return []
    later = (each for each in statements(body.node) if each.lineno > found.level.line)
    return [body.place(each) for each in later if _changes_leaf(found, each)]


def _changes_leaf(found: Written, statement: ast.stmt) -> bool:
    body = found.level.body
    if body is None or disabled_at(body, statement.lineno) is not None:
        return False
    for each in changed_memory(statement):
        name, value = dotted(each) or "", value_of(found.level, each)
        rebound = any(each.line > found.level.line for each in assignments(body, name, before=statement.lineno))
        if is_tensor(value) and _is_of_leaf(value) and not rebound:
            return True
    return False


def _is_of_leaf(tensor: torch.Tensor) -> bool:
    """Whether it is a leaf that requires grad, or a part of one."""
    whole = tensor if (base := base_of(tensor)) is None else base
    return is_leaf(whole) and needs_gradient(whole)
