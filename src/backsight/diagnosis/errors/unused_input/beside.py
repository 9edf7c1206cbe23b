"""The input and the output are computed from the same tensors, and the output not from the input: a part, a view of
what it is computed from, a row that a loop takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.gradient_call import GradientCall, gradient_call, gradient_calls
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.again import written_again
from backsight.diagnosis.errors.unused_input.case import Unused, computed, is_in
from backsight.diagnosis.evidence.idle import parameter_at
from backsight.diagnosis.evidence.spoken import differentiated
from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Body, assignments, loop_facts, only, parsed, statement_at
from backsight.source.bindings import assigned, uses
from backsight.source.body import callee, calls_in, dotted, expressions, is_constant, keyword, statements
from backsight.source.definitions import values_of
from backsight.source.edits import OR, Edit, lines_of, move, on_line, write
from backsight.source.imports import library
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, function_of
from backsight.story.handed import handed
from backsight.story.memory import base_of, is_module, is_tensor, shape_of, storage_of
from backsight.text import lines_at

_WEIGHTS = re.compile(r"param|weight|fast|vars|theta")


def made_beside(case: Unused) -> Finding | None:
    """The input is computed from the same tensors as the output, but the output is not computed from it."""
    if case.tensors[0].is_leaf:
        return None
    own = survey((case.tensors[0],), frames=case.failure.frames).graph
    common = {id(leaf.tensor()) for leaf in case.graph.leaves}
    names = [leaf.name or leaf.label for leaf in own.leaves if id(leaf.tensor()) in common]
    if not names:
        return None
    adapted = _with_adapted(case)
    place = case.made if adapted else case.caller and case.caller[1]
    return explanation(
        f"{case.output} is not computed from {case.name}: both are computed from {listed(names, 3)}.",
        (*computed(case), _own_tensor(case, own.roots[0].op), case.asked),
        adapted or _fix(case, names),
        source=place or case.failure.source,
    )


def _own_tensor(case: Unused, op: str) -> Fact:
    level, base, separate = case.failure.user, case.base, f"a separate tensor ({op})"
    if case.name in differentiated(case.failure) and not case.name.isidentifier():
        return f"{case.name} is {separate}: each such expression creates a new one."
    places, known = (
        assignments(case.body, base, before=level.line if level else None),
        handed(case.failure, case.tensors[0]),
    )
    place = places[-1] if places else known.assigned if known else None
    facts = loop_facts(case.body, level.line) if level else None
    if place and facts and base in facts.carried and "parameters(" in place.text:  # whose values are leaves
        place = facts.carried[base][1]
    return shown(place, f"creates {case.name}, {separate}.") if place else f"{case.name} is {separate}."


def _with_adapted(case: Unused) -> str:
    """Where the inputs are adapted weights of the model that computes the output: the call that uses them.

    To ask for the gradient of the model's own weights instead would run, and take the same step again and again.
    """
    body, made, adapted = case.body, case.making, case.value(case.base)
    if body is None or made is None or not isinstance(adapted, dict) or not adapted:
        return ""
    for call in calls_in(made):
        model = case.value(dotted(call.func) or "")
        if not is_module(model) or not all(parameter_at(model, str(name)) is not None for name in adapted):
            continue
        text, given, name = body.text(call.func), [*map(body.text, call.args)], _open_parameter(model, call)
        how = f"{text}({', '.join([*given, f'{name}={case.base}'])})"
        if call.keywords or name is None:
            how = f"torch.func.functional_call({text}, {case.base}, ({', '.join(given)},))"
        new = rewritten(body, made, {call: how})
        there = on_line(body.place(made), new) if new else f"{how} instead of {body.text(call)}"
        return f"Compute {case.output} with the adapted weights: {there}."
    return ""


def _open_parameter(model: object, call: ast.Call) -> str | None:
    """The parameter of a model's forward that may take weights, `params=None`, which a call leaves open."""
    forward = function_of(model)
    code, defaults = getattr(forward, "__code__", None), getattr(forward, "__defaults__", None) or ()
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    left = zip(reversed(names), reversed(defaults), strict=False)
    found = only(name for name, value in left if value is None and names.index(name) > len(call.args))
    return found if found is not None and _WEIGHTS.search(found) else None


def _fix(case: Unused, names: list[str]) -> str:
    level = case.failure.user
    value = only(values_of(case.body, case.name, level.line)) if level and case.body else None
    written = ast.unparse(value) if isinstance(value, ast.Subscript) else case.name
    base, bracket, rest = written.partition("[")
    if joined := _from_parts(case, names[0]):
        return joined
    if bracket and base in names:
        return (
            f"Take the gradient of {base}, then the part of it: "
            f"{_of_parts(level, base, f'torch.autograd.grad(..., {base})[0][{rest}', rest[:-1])}"
        )
    if how := _of_row(case) or _of_view(case) or ((again := written_again(case)) and again.fix):
        return how
    return f"{_of_whole(case, names[0]) or 'C'}ompute {case.name} first, then {case.output} from {case.name}."


def _of_whole(case: Unused, name: str) -> str:
    """To ask for the gradient of what both are computed from, where that has the shape of the input."""
    whole = next((leaf.tensor() for leaf in case.graph.leaves if name in (leaf.name, leaf.label)), None)
    if shape_of(whole) != shape_of(case.tensors[0]):
        return ""
    every = gradient_calls(case.body, case.failure.user.statement if case.failure.user else None)
    call = only(each for each in every if each.input is not None)
    line = call.rewritten({call.input: name}) if call and call.input and case.value(name) is whole else ""
    return f"Take the gradient of {name}{write(call.place, line) if call and line else ''}. {OR}Or c"


# Another view of what the output is computed from.


_VIEWS = frozenset(
    {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "swapaxes"}
    | {"t", "view_as", "reshape_as", "narrow", "select", "contiguous"}
)
"""Methods whose result has the same entries in another shape, as the gradient then has."""


def _of_view(case: Unused) -> str:
    """The gradient of what the input is another view of, `x.view(n, -1)`, in the shape of the view."""
    level, call = case.failure.user, gradient_call(case.failure.user)
    asked = call.input if call is not None else None
    if level is None or call is None or asked is None or len(differentiated(case.failure)) != 1:
        return ""
    name = dotted(asked)
    base, methods = _viewed(only(values_of(call.body, name, level.line)) if name is not None else asked)
    held = value_of(level, base)
    if base is None or not methods or not is_tensor(held) or not is_in(case.graph, held):
        return ""
    shaping, source, part = "".join(methods), call.body.text(base), call.taken
    line = call.rewritten({part: f"{call.of(base)}[{call.body.text(part.slice)}]{shaping}"}) if part is not None else ""
    how = f"pass {source} instead of {case.name}, and put `{shaping}` behind the result"
    if line:
        first, last = call.statement.lineno, call.statement.end_lineno or call.statement.lineno
        where = f"lines {first} to {last}" if last > first else f"line {first}"
        how = f"write `{line}` instead of {where}{write(call.place, line)}"
    return f"Take the gradient of {source}, and give it the shape of {case.name}: {how}."


def _viewed(value: ast.expr | None) -> tuple[ast.expr | None, list[str]]:
    """What an expression is a view of, and the calls that make it: `x` and `.view(n, -1)` of `x.view(n, -1)`."""
    methods: list[str] = []
    while isinstance(value, ast.Call):
        receiver, name = callee(value)
        if receiver is None or name not in _VIEWS | {"requires_grad_"} or library(receiver):
            return None, []
        if name in _VIEWS:
            methods.insert(0, ast.unparse(value)[len(ast.unparse(receiver)) :])
        value = receiver
    return value, methods


# One of the parts that a tensor is cut into.


def _from_parts(case: Unused, whole: str) -> str:
    """Where the input is one of the parts that a tensor is cut into: the output computed from all of them, joined."""
    for level in case.failure.users:
        body, base = level.body, level.value(whole)
        made = assignments(body, case.output, before=level.line)
        parts = {name: (index, line) for name, index, line in _parts(level, whole)}
        if body is None or not made or case.name not in parts or not is_tensor(base):
            continue
        axis = only({_axis(index) for index, _ in parts.values()})
        held = {name: value for name in parts if is_tensor(value := level.value(name))}
        if axis is None or len(held) < len(parts) or any(each.dim() != base.dim() for each in held.values()):
            continue
        joined, statement = _in_their_order(held, base, axis), statement_at(body, *made[-1].position)
        if statement is None or not joined:
            continue
        cat = f"torch.cat([{', '.join(joined)}], dim={axis})"
        text = re.sub(rf"(?<![\w.]){re.escape(whole)}(?![\w.])", cat, body.text(statement))
        moved, lines = "C", sorted({line for _, line in parts.values() if line > made[-1].line})
        if lines:
            moving = move(lines_of(body.file, *lines), "above", made[-1])
            moved = f"Move {lines_at(lines)} above line {made[-1].line}{moving}, and c"
        return (
            f"{moved}ompute {case.output} from the parts: {text}{write(made[-1], text)}. {OR}Or differentiate with "
            f"respect to {whole} and take the part of the gradient: "
            f"{_of_parts(level, whole, f'torch.autograd.grad({case.output}, {whole}, ...)[0][{parts[case.name][0]}]')}"
        )
    return ""


def _in_their_order(parts: Mapping[str, torch.Tensor], base: torch.Tensor, axis: int) -> list[str]:
    """The names of the parts in the order in which they make up the whole; empty if they do not, piece after piece."""
    order = sorted(parts, key=lambda name: parts[name].storage_offset())
    at, step = base.storage_offset(), base.stride(axis)
    for name in order:
        if storage_of(parts[name]) != storage_of(base) or parts[name].storage_offset() != at:
            return []
        at += step * parts[name].shape[axis]
    return order if sum(parts[name].shape[axis] for name in order) == base.shape[axis] else []


def _of_parts(level: Level | None, whole: str, plain: str, index: str = "") -> str:
    """What takes the part of a gradient: the statement as it is then, and the others that ask for that of a part, and
    would fail next.

    plain: the words for it where the text does not show the call.
    index: of the part that the failing statement asks for, where it is no variable.
    """
    node, edits, later = parsed(whole), list[Edit](), list[int]()
    if level is None or level.body is None or node is None:
        return f"{plain}."
    parts = {name: at for name, at, _ in _parts(level, whole)}
    for each in statements(level.body.node):
        changes = dict[ast.expr, str]()
        for call in gradient_calls(level.body, each) if each.lineno >= level.line else ():
            taken = (each.lineno == level.line and index) or parts.get(dotted(call.input) or "", "")
            changes |= call.result(f"{call.of(node)}[0][{taken}]") if call.input is not None and taken else {}
        if changes:
            later += [each.lineno] if each.lineno > level.line else []
            new = _unpacked(each, changes) or rewritten(level.body, each, changes)
            edits.append(write(level.body.place(each), new))
    also = f" Then {lines_at(later)} need{'s' * (len(later) == 1)} the same change." if later else ""
    if not edits or edits[0].lines != (level.place.line,) or not edits[0].code:
        return f"{plain}.{also}"
    return f"{on_line(level.place, edits[0].code)}.{also}{''.join(map(str, edits[1:]))}"


def _unpacked(statement: ast.stmt, changes: Mapping[ast.expr, str]) -> str:
    """`(x,) = grad(...)` with one tensor for the tuple; empty for any other statement."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name)])], value=value) if value in changes:
            return f"{name} = {changes[value][1:-2]}"
    return ""


def _parts(level: Level, whole: str) -> Iterator[tuple[str, str, int]]:
    """The variables that a function cuts a tensor into: name, index and line of `x, t = xt[:, 0:1], xt[:, 1:2]`."""
    for each in statements(level.body):
        for target, value in assigned(each):
            if isinstance(target, ast.Name) and isinstance(value, ast.Subscript) and dotted(value.value) == whole:
                yield target.id, level.body.text(value.slice) if level.body else "", each.lineno


def _axis(index: str) -> int | None:
    """Along which dimension an index cuts, 1 for `:, 0:1`; None where it takes single entries or cuts along several."""
    parts = [each.strip() for each in index.split(",")]
    cut = only(k for k, each in enumerate(parts) if each != ":")
    return cut if cut is not None and ":" in parts[cut] else None


# A loop goes through the rows of a tensor: each row is a new tensor, which nothing was computed from.


@dataclass(frozen=True, eq=False)
class _Rows:
    """A loop whose variable is a row of `whole`, as the loop writes it; `index`: what counts the passes, or would."""

    loop: ast.For | ast.comprehension
    whole: ast.expr
    index: str
    is_counted: bool


def _of_row(case: Unused) -> str:
    """To ask for the gradient of the whole tensors and take the row of the pass; empty where no loop gives the rows."""
    level, call = case.failure.user, gradient_call(case.failure.user)
    if level is None or call is None or call.inputs is None or len(case.failure.inputs) != len(case.tensors):
        return ""
    body, named = call.body, zip(case.names, case.tensors, strict=True)
    every = [found for name, row in named if (found := next(_rows(level, call, name, row), None)) is not None]
    held = [value_of(level, each.whole) for each in every if each.loop is every[0].loop]
    if len(held) < len(case.tensors) or not all(is_tensor(each) and is_in(case.graph, each) for each in held):
        return ""
    wholes, loop, index, first = [body.text(each.whole) for each in every], every[0].loop, every[0].index, ""
    counting, several = _counting(body, every[0]), len(every) > 1
    asking = _asking(call, f"({', '.join(wholes)})" if several else wholes[0])
    taken = call.result(f"{asking}[0][{index}]")
    if several:
        taken = {call.node: f"tuple(each[{index}] for each in {asking})"}
    if counting and isinstance(loop, ast.For):
        header = rewritten(body, loop, counting)
        if not header:
            return ""
        first, counting = f"{on_line(body.place(loop), header)}, and ", {}
    line = (not counting and _unpacked(call.statement, taken)) or call.rewritten({**counting, **taken})
    of = "of each" if several else "of it"
    return (
        f"Take the gradient of {listed(wholes)}, then the row {of}: {first}{on_line(call.place, line)}." if line else ""
    )


def _rows(level: Level, call: GradientCall, name: str, row: torch.Tensor) -> Iterator[_Rows]:
    """The loops around a statement, the innermost first, that give a name the rows of the tensor that `row` is of."""
    every, at = [*statements(call.body.node)], call.statement
    around = [each for each in every if isinstance(each, ast.For) and covers(each, at.lineno)]
    inner = [each for node in expressions(at) for each in getattr(node, "generators", ())]
    used = {use.name for each in every for use in uses(each)}
    for loop in (*reversed(inner), *reversed(around)):
        target, source, index = loop.target, loop.iter, ""
        if isinstance(source, ast.Call) and callee(source)[1] == "enumerate" and isinstance(target, ast.Tuple):
            index, target, source = dotted(target.elts[0]) or "", target.elts[1], source.args[0]
        pairs = [(target, source)]
        if isinstance(source, ast.Call) and callee(source)[1] == "zip" and isinstance(target, ast.Tuple):
            pairs = list(zip(target.elts, source.args, strict=False))
        whole = next((_unbound(each) for one, each in pairs if dotted(one) == name), None)
        held = value_of(level, whole)
        if whole is not None and is_tensor(held) and base_of(row) is held and row.shape == held.shape[1:]:
            counter = index or next(each for each in ("k", "row", "at_row") if each not in used)
            yield _Rows(loop, whole, counter, bool(index))


def _unbound(source: ast.expr) -> ast.expr:
    """`weights` of `weights.unbind(0)`."""
    match source:
        case ast.Call(func=ast.Attribute(value=receiver, attr="unbind"), args=args, keywords=keywords):
            return receiver if all(ast.unparse(each) in ("0", "dim=0") for each in (*args, *keywords)) else source
    return source


def _counting(body: Body, found: _Rows) -> dict[ast.expr, str]:
    """What makes a loop count its passes, if it does not."""
    target = body.text(found.loop.target)
    inner = f"({target.strip('()')})" if isinstance(found.loop.target, ast.Tuple) else target
    new = {found.loop.target: f"{found.index}, {inner}", found.loop.iter: f"enumerate({body.text(found.loop.iter)})"}
    return {} if found.is_counted else new


def _asking(call: GradientCall, whole: str) -> str:
    """The call for the whole tensor; its graph is needed by the next row, too."""
    body, node, asked = call.body, call.node, call.inputs
    args = [whole if each is asked else body.text(each) for each in node.args]
    keywords = [f"{each.arg}={whole if each.value is asked else body.text(each.value)}" for each in node.keywords]
    kept = any(is_constant(keyword(node, each), True) for each in ("create_graph", "retain_graph"))
    return f"{body.text(node.func)}({', '.join([*args, *keywords, *([] if kept else ['retain_graph=True'])])})"
