"""Remedies for what the program has given to autograd: a custom Function, a hook of a tensor or of saved tensors."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, anew, remedy, source_of
from backsight.diagnosis.evidence.custom import body_of, elements, every_applied, returned
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import shown
from backsight.naming.plain import class_name, is_class
from backsight.source import Body, function_at, only, statement_at
from backsight.source.bindings import spots
from backsight.source.body import callee, calls_in, dotted, keyword, statements
from backsight.source.changes import changed_names
from backsight.source.definitions import values_of
from backsight.source.edits import OR, on_line, without_marks
from backsight.source.imports import is_gradient_call, library
from backsight.source.out_of_place import out_of_place
from backsight.source.rewriting import rewritten
from backsight.story.attached import with_flag
from backsight.story.enabling import computing, enabled, switches
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, method
from backsight.story.fixes import removed
from backsight.story.memory import is_module
from backsight.story.sections import undecorated


@remedy(r"marked as dirty during the forward method were not returned")
def _not_returned(found: Refusal, match: Match) -> Remedy | None:
    """A custom Function changes its input in place, says so, and returns something else."""
    body = forward_of(found)
    marks = [(s, c) for s in statements(body.node) for c in calls_in(s) if callee(c)[1] == "mark_dirty"] if body else []
    if body is None or not marks or not marks[0][1].args:
        return None
    name = body.text(marks[0][1].args[0])
    changing = next((each for each in statements(body.node) if name in changed_names(each)), None)
    returning = next((each for each in statements(body.node) if isinstance(each, ast.Return)), None)
    instead = _without_underscore(body, changing) if changing is not None else ""
    without = removed(body.place(marks[0][0]))
    plain = (
        f"{OR}Or modify nothing in place: {without} and write `{instead}` on line {changing.lineno}"
        f"{anew(body, changing, instead)}."
        if instead and changing is not None
        else f"Or {without_marks(without)}, and compute a new tensor instead of changing {name}."
    )
    lines = [shown(body.place(marks[0][0]), f"declares that forward modifies {name} in place.")]
    lines += [shown(body.place(returning), f"does not return {name} itself.")] if returning else []
    return Remedy(
        f"Return {name} itself as one of the outputs. {plain}", tuple(lines), body.place(returning or marks[0][0])
    )


def forward_of(found: Refusal) -> Body | None:
    """The forward of the custom Function that failed."""
    cls = _function(found)
    forward = undecorated(method(cls, "forward")) if cls is not None else None
    return function_at(forward.__code__) if forward is not None else None


def _function(found: Refusal) -> type | None:
    call = found.expression
    receiver, name = callee(call) if isinstance(call, ast.Call) else (None, "")
    cls = value_of(found.level, receiver) if name == "apply" else None
    return cls if is_class(cls) else None


@remedy(r"implement the jvp function for custom autograd.Function")
def _without_jvp(found: Refusal, match: Match) -> Remedy | None:
    """Forward mode reaches a custom Function: its plain forward, which PyTorch differentiates itself, or a jvp."""
    cls, body, call, statement = _function(found), found.level.body, found.expression, found.level.statement
    forward = forward_of(found)
    if cls is None or body is None or forward is None or statement is None or not isinstance(call, ast.Call):
        return None
    name = class_name(cls)
    first = next(iter(getattr(getattr(forward.node, "args", None), "args", [])), None)
    with_context = first is not None and first.arg in ("ctx", "context", "self", "_")
    define = (
        f"define `@staticmethod def jvp(ctx, *tangents)` in {name}, which returns the derivative of the output along "
        "the tangents, from tensors that forward saves with `ctx.save_for_forward(...)` as well"
    )
    if with_context:
        return Remedy(
            f"To use forward mode, {define}. Or take the derivative in reverse mode: torch.func.vjp or jacrev."
        )
    line = rewritten(body, statement, {call.func: f"{body.text(call.func).removesuffix('apply')}forward"})
    return Remedy(
        f"If forward uses only PyTorch operations that have a derivative, let PyTorch differentiate it: "
        f"{on_line(body.place(statement), line)}. {OR}Otherwise, {define}."
    )


@remedy(r"post accumulate grad hooks cannot be registered on non-leaf")
def _hook_of_leaves(found: Refusal, match: Match) -> Remedy | None:
    """A hook that runs once a gradient has been accumulated: on the leaves behind a computed tensor."""
    call, body, level = found.expression, found.level.body, found.level
    receiver = found.receiver
    if receiver is None or body is None or not isinstance(call, ast.Call) or level.statement is None:
        return None
    name, hook = body.text(receiver), ", ".join(map(body.text, call.args))
    owner = receiver.value if isinstance(receiver, ast.Attribute) else None
    if owner is not None and is_module(value_of(level, owner)):
        each = f"for p in {body.text(owner)}.parameters(): p.register_post_accumulate_grad_hook({hook})"
        return Remedy(
            f"{name} is computed anew each time it is read, and has no .grad. Register the hook on the parameters that "
            f"it is computed from: {on_line(level.place, each)}."
        )
    return Remedy(
        f"{name} is a result, and has no .grad. For its gradient, {name}.register_hook(...), whose hook receives the "
        "gradient; for an update in backward, register this hook on the parameters."
    )


@remedy(r"saved tensor pack hook is modifying its input in place")
def _packing(found: Refusal, match: Match) -> Remedy | None:
    """The pack hook of saved_tensors_hooks, and its statement that works in place."""
    for level in found.failure.users:
        for call in _contexts(level):
            if callee(call)[1] != "saved_tensors_hooks" or not call.args or level.body is None:
                continue
            body = source_of(level, call.args[0])
            for each in statements(body.node) if body is not None else ():
                if body is None or not (names := changed_names(each)):
                    continue
                new = _without_underscore(body, each)
                place, name = body.place(each), min(names)
                how = f"compute with a copy, {name}.clone()"
                how = f"write `{new}` on line {place.line}{anew(body, each, new)}" if new else how
                return Remedy(
                    f"Leave {name} unchanged, because the program still uses it: {how}.",
                    (shown(place, f"modifies {name}, the program's own tensor, in place."),),
                    place,
                )
    return None


def _contexts(level: Level) -> Iterator[ast.Call]:
    """The calls in the `with` statements around a level's line."""
    around = next((s.arms for s in spots(level.body.node) if s.node is level.statement), ()) if level.body else ()
    for arm, _ in around:
        if isinstance(arm, ast.With):
            yield from (item.context_expr for item in arm.items if isinstance(item.context_expr, ast.Call))


def _without_underscore(body: Body, statement: ast.stmt) -> str:
    """A statement with each method that works in place replaced by its namesake; empty where one has none."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        receiver, name = callee(statement.value)
        given = body.text(statement.value)[len(body.text(statement.value.func)) :]
        is_method = dotted(receiver) is not None and not library(receiver)
        if is_method and hasattr(torch.Tensor, name[:-1]) and name.endswith("_"):
            return f"{dotted(receiver)} = {dotted(receiver)}.{name[:-1]}{given}"
    if not isinstance(statement, ast.Return | ast.Assign):
        return out_of_place(body, statement.lineno) or ""
    changes: dict[ast.expr, str] = {}
    for call in calls_in(statement):
        receiver, name = callee(call)
        if receiver is not None and name.endswith("_") and not name.startswith("_"):
            if not hasattr(torch.Tensor, name[:-1]):
                return ""
            given = body.text(call)[len(body.text(call.func)) :]
            changes[call] = f"{body.text(receiver)}.{name[:-1]}{given}"
    return rewritten(body, statement, changes) if changes else ""


@remedy(r"expected Variable or None \(got tuple\)")
def _tuple_returned(found: Refusal, match: Match) -> Remedy | None:
    """The backward of a custom Function returns what torch.autograd.grad() gave, a tuple, in place of a gradient."""
    for each in every_applied(found.failure):
        body = body_of(each.cls, each.backward)
        for statement in returned(body) if body is not None else ():
            every = [(node, _derivative(body, node, statement)) for node in elements(statement)]
            odd = {node: call for node, call in every if call is not None}
            if body is not None and odd and len(every) > 1:
                return _unpacked(body, statement, odd)
    return None


def _derivative(body: Body | None, node: ast.expr, statement: ast.Return) -> ast.Call | None:
    """The call of torch.autograd.grad() whose result is returned."""
    value = only(values_of(body, node.id, statement.lineno)) if body and isinstance(node, ast.Name) else node
    return value if isinstance(value, ast.Call) and is_gradient_call(value) else None


def _unpacked(body: Body, statement: ast.Return, odd: dict[ast.expr, ast.Call]) -> Remedy | None:
    """Unpack each tuple, and record what is differentiated: backward runs with gradients disabled."""
    line = rewritten(body, statement, {node: f"*{body.text(node)}" for node in odd})
    asking = [(at, each) for each in odd.values() if (at := statement_at(body, each.lineno, each.col_offset))]
    if not line or not asking:
        return None
    edits = [on_line(body.place(statement), line)]
    computed = [computing(body, at) for at, _ in asking]
    within = {n for lines in computed for n in range(lines[0].lineno, (lines[-1].end_lineno or 0) + 1)}
    is_whole = True
    if not switches(body):
        edits += dict.fromkeys(enabled(lines, body) for lines in computed)
        flags = {f"{_root(body, call)}.requires_grad" for _, call in asking}  # of a result they cannot be set
        flagged = (each for each in statements(body.node) if isinstance(each, ast.Assign))
        edits += [removed(body.place(each)) for each in flagged if dotted(each.targets[0]) in flags]
    for (at, call), (_, after) in itertools.pairwise(asking):
        if _root(body, call) == _root(body, after) and keyword(call, "retain_graph", "create_graph") is None:
            new = with_flag(body, at, call, "retain_graph")
            edits.append(f"{on_line(body.place(at), new)}, as line {after.lineno} needs that graph too")
            is_whole &= bool(switches(body)) or at.lineno not in within  # else the line is written twice
    what = "; ".join(edits) if is_whole else without_marks("; ".join(edits))
    disabled = "" if switches(body) else ", and backward runs with gradients disabled"
    first = dict.fromkeys(lines[0] for lines in computed if not switches(body))
    return Remedy(
        f"torch.autograd.grad() returns a tuple, for one tensor too{disabled}: {what}.",
        (
            *(shown(body.place(each), "runs with gradients disabled, so it has no graph.") for each in first),
            *(shown(body.place(at), "gets a tuple.") for at, _ in asking if at is not statement),
            shown(body.place(statement), "returns a tuple where a gradient is due."),
        ),
        body.place(statement),
    )


def _root(body: Body, call: ast.Call) -> str:
    node = next(iter(call.args), keyword(call, "outputs"))
    return body.text(node) if node is not None else ""
