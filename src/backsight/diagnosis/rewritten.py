"""BS113, BS156: what steps do to parameters is lost in each forward pass, and pruned weights come back with them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType, FunctionType
from typing import Any

import torch

from backsight.diagnosis.amending import added
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import (
    bodies,
    calls_around,
    conditions_around,
    few_of,
    loops_around,
    names_of,
    program_frames,
    running_at,
)
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming.plain import namespace
from backsight.source import Body, Place, function_at
from backsight.source.ancestry import ancestors
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, statement_at, statements
from backsight.source.imports import meaning
from backsight.story.failure import method
from backsight.tape import modules_in, registered
from backsight.tracing import Line, Watch
from backsight.tracing.steps import parameters

_ENOUGH = 3
"""Steps after each of which the parameter was written anew."""

_MOST = 256
_VALUE = frozenset({"copy_"})
_DRAWN = frozenset({"normal_", "uniform_", "zero_", "fill_", "trunc_normal_", "exponential_"})


@dataclass(frozen=True)
class Rewritten:
    """A parameter, the statement in a forward pass that writes it, and the method that has that."""

    parameter: torch.Tensor
    name: str
    module: torch.nn.Module
    body: Body
    place: Place


def rewritten(watch: Watch, optimizer: torch.optim.Optimizer, models: Iterable[torch.nn.Module]) -> list[Rewritten]:
    """Return the parameters that were written anew after each step, by values that they have no part in.

    To write some of what is there, as a clamp or a normalization does, is meant; so is to write between two forward
    passes, as who starts each task from the same weights does. Each has a watch see it, and the text tell it.
    """
    lines = [(p, change) for p in parameters(optimizer)[:_MOST] if (change := _overwrites(watch, p)) is not None]
    if not lines:
        return []
    owners = {
        id(p): (module, name)
        for model in models
        for _, module in modules_in(model)
        for name, p in registered(module, "_parameters").items()
    }
    found = (_read(p, *change, *owners[id(p)]) for p, change in lines if id(p) in owners)
    return [each for each in found if each is not None]


def told_rewritten(found: Sequence[Rewritten], since: int) -> list[Finding]:
    """Return a finding for each class of modules."""
    by_class: dict[type, list[Rewritten]] = {}
    for each in found:
        by_class.setdefault(type(each.module), []).append(each)
    return [_finding(each, since) for each in by_class.values()]


def _overwrites(watch: Watch, parameter: torch.Tensor) -> tuple[Line | None, bool] | None:
    """Return the line that writes all of a parameter before each step, if known, and whether versions show it."""
    times: Counter[tuple[Line | None, bool]] = Counter()
    for first, then in pairwise(watch.changes(parameter)):
        whole = (first.op in _VALUE or first.op in _DRAWN) and first.line is not None
        if then.kind == "optimizer" and ((whole and first.kind in ("in place", "data")) or first.kind == "unseen"):
            times[first.line, first.kind == "in place"] += 1
    return next((found for found, count in times.most_common(1) if count >= _ENOUGH), None)


def _read(
    parameter: torch.Tensor, line: Line | None, shows: bool, module: torch.nn.Module, name: str
) -> Rewritten | None:
    """Return what a line writes in each forward pass of a module, if the old values have no part in it.

    Where no version shows it (`.data`), nobody can follow whether it goes on: there it must stand under no condition.
    """
    body = body_around(line.file, line.line) if line is not None else _forward(type(module))
    if body is None or not _is_in_forward(body, type(module)):
        return None
    if not shows and _is_conditional(body, type(module)) and not any(_unset_flags(body, type(module))):
        return None
    every = list(statements(body.node)) if line is None else [statement_at(body, *line.place.position)]
    for statement, call in ((each, call) for each in every if each is not None for call in calls_in(each)):
        target, does = callee(call)
        initial = (meaning(call.func) or "").startswith("torch.nn.init.") and bool(call.args)
        target = call.args[0] if initial else target
        if dotted(target) not in (f"self.{name}", f"self.{name}.data") or (line is None and not initial):
            continue
        known = initial or does in _DRAWN
        if known or (does in _VALUE and _is_of_data(body, call, statement.lineno, module)):
            return Rewritten(parameter, name, module, body, body.place(statement))
    return None


def _forward(kind: type) -> Body | None:
    forward = method(kind, "forward")
    return function_at(forward.__code__) if forward is not None else None


def _is_in_forward(body: Body, kind: type) -> bool:
    """Whether a method is the forward of a class, or one that this calls."""
    read = _forward(kind)
    if read is None or read.file != body.file:
        return False
    name = body.name
    methods = (
        function_at(f.__code__) for c in kind.__mro__ for f in [vars(c).get(name)] if isinstance(f, FunctionType)
    )
    own = any(each is not None and each.node is body.node for each in methods)
    called = {dotted(call.func) for each in statements(read.node) for call in calls_in(each)}
    return own and (name == "forward" or f"self.{name}" in called)


def _is_conditional(body: Body, kind: type) -> bool:
    """Whether a method, or the forward that may call it, has conditions at all."""
    every = [s for each in (body, _forward(kind)) if each is not None for s in statements(each.node)]
    return any(isinstance(each, ast.If | ast.Try | ast.Match) for each in every)


def _is_of_data(body: Body, call: ast.Call, line: int, module: torch.nn.Module) -> bool:
    """Whether a value is computed from an argument of the method, and from no tensor of the module."""
    given: Any = getattr(body.node, "args", None)
    arguments = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)} if given else set()
    names = set(ancestors(body, body.text(call.args[0]), line)) if call.args else set()
    held = {name.split(".")[1] for name in names if name.startswith("self.")}
    values = namespace(module) or {}
    kept = {name for kind in ("_parameters", "_buffers", "_modules") for name in registered(module, kind)}
    kept |= {name for name in held if isinstance(values.get(name), torch.Tensor | torch.nn.Module)}
    return bool(names & (arguments - {"self"})) and not held & kept and "self" not in names


def _finding(found: Sequence[Rewritten], since: int) -> Finding:
    first = found[0]
    places = list(dict.fromkeys(each.place for each in found))
    one = len(found) == 1
    flag = next(_unset_flags(first.body, type(first.module)), None)
    inside = getattr(first.body.node, "name", "forward")
    fix = (
        f"Set self.{flag} = True at the end of {inside}(){_set_at_end(first.body, flag)}: nothing sets it, so the "
        "condition always holds."
        if flag is not None
        else f"Write {'it' if one else 'them'} once, before training. Or register {'a buffer' if one else 'buffers'}"
        f" instead, if {'it' if one else 'they'} should not be trained."
    )
    return warning(
        "BS113",
        f"{few_of([each.parameter for each in found])} {'does' if one else 'do'} not stay where the optimizer moves "
        f"{'it' if one else 'them'}: each forward pass writes other values.",
        [shown(each, "overwrites what the step before has learned.") for each in places[:2]],
        fix,
        places[0],
        since=since,
    )


def _set_at_end(body: Body, flag: str) -> str:
    last, code = body.node.body[-1], f"self.{flag} = True"
    is_return = isinstance(last, ast.Return)
    return added(code, "above", body.place(last)) if is_return else added(code, "end", body.place(body.node))  # type: ignore[arg-type]  # a function


def _unset_flags(body: Body, kind: type) -> Iterator[str]:
    """Yield the flags of `if not self.initialized:` around a write or the call of its method, which nothing sets."""
    methods = [
        each
        for c in kind.__mro__
        for name, f in vars(c).items()
        if name != "__init__" and isinstance(f, FunctionType) and (each := function_at(f.__code__)) is not None
        if each.file == body.file
    ]
    bound = {dotted(t) for each in methods for s in statements(each.node) for t in getattr(s, "targets", ())}
    for choice in (s for m in methods for s in statements(m.node) if isinstance(s, ast.If)):
        match choice.test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr=flag) as held) if dotted(held) == f"self.{flag}":
                inside = {dotted(c.func) for s in choice.body for c in ast.walk(s) if isinstance(c, ast.Call)}
                called = f"self.{getattr(body.node, 'name', '')}" in inside
                here = called or any(s in choice.body for s in statements(body.node))
                if (
                    here
                    and f"self.{flag}" not in bound
                    and not any((name or "").startswith(f"self.{flag}.") for name in inside)
                ):
                    yield flag


# BS156: weights that were pruned come back with the next step.


_PRUNES = re.compile(r"mask|prun|spars|keep", re.IGNORECASE)
_WRITES = frozenset({"mul_", "masked_fill_", "copy_"})


def regrown(weights: Sequence[tuple[torch.Tensor, float]], since: int, frame: FrameType) -> Finding | None:
    """Return the finding that pruned weights are not zero after the next step, where the program writes by a mask."""
    found = [(body, each) for body in bodies(frame) for each in _masks(body)]
    if not found:
        return None
    names, share = names_of([each for each, _ in weights]), max(share for _, share in weights)
    body, statement = found[0]
    place = body.place(statement) if len(found) == 1 else None
    step, (function, stepping) = next(program_frames(frame), None), running_at(frame)
    line = f"line {step.f_lineno}, the optimizer step" if step is not None else "the optimizer step"
    again = _again(frame, body, statement) if place is not None else None
    edit = added(again or "", "beside", function.place(stepping)) if again and function and stepping else ""
    return warning(
        "BS156",
        f"The pruned entries of {names} do not stay zero.",
        (
            f"{share:.0%} of the values were zero before this step, and most of these are nonzero after it: their "
            "gradients, momentum or weight decay move them.",
            if_known(place, "sets them to zero once, not after each step.", "read"),
        ),
        f"Once pruned, apply the mask after each step: call {again} below {line}{edit}."
        if again is not None
        else f"Keep the mask, and multiply the weights by it after {line}, or prune with torch.nn.utils.prune, which "
        "applies it in each forward pass.",
        place,
        since=since,
    )


def is_single(frame: FrameType) -> bool:
    """Whether the text masks weights at one place that runs once: in no loop, or there under an equality."""
    found = [(body, each) for body in bodies(frame) for each in _masks(body)]
    if len(found) != 1:
        return False
    name = getattr(found[0][0].node, "name", "")
    calls = [(body, each) for body, each, call in calls_around(frame) if name and callee(call)[1] == name]
    return (len(calls) == 1 and _runs_once(*calls[0])) if name else _runs_once(*found[0])


def _runs_once(body: Body, statement: ast.stmt) -> bool:
    tests = (each.test for each in conditions_around(body, statement.lineno))
    at_once = any(isinstance(op, ast.Eq) for test in tests for op in getattr(test, "ops", ()))
    return at_once or not loops_around(body, statement.lineno)


def _masks(body: Body) -> Iterator[ast.stmt]:
    """Yield the statements that write into a tensor by a mask: `w.mul_(mask)`, `w.data *= mask`, `w[drop] = 0`."""
    inside = _PRUNES.search(body.name)
    for each in statements(body.node):
        if _writes(each) and (inside or _PRUNES.search(ast.unparse(each)) or _zeroes_weights(each)):
            yield each


def _zeroes_weights(statement: ast.stmt) -> bool:
    """Whether a statement sets some entries of a weight to zero: `layer.weight[small] = 0`."""
    goal = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(goal, ast.Subscript) and any(
        isinstance(node, ast.Attribute) and node.attr == "weight" for node in ast.walk(goal.value)
    )


def _writes(statement: ast.stmt) -> bool:
    match statement:
        case ast.AugAssign(target=ast.Attribute(attr="data" | "weight"), op=ast.Mult()):
            return True
        case ast.Assign(targets=[ast.Subscript()], value=ast.Constant(value=0 | 0.0)):
            return True
        case ast.Assign(targets=[ast.Attribute(attr="data")], value=ast.BinOp(op=ast.Mult())):
            return True
        case ast.Expr(value=ast.Call() as call):
            receiver, method = callee(call)
            return method in _WRITES and not any(
                isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(receiver or call)
            )
    return False


def _again(frame: FrameType, body: Body, statement: ast.stmt) -> str | None:
    """Return the call that applies a mask which is kept elsewhere, as the program writes it."""
    name = body.name
    own = {
        node.id
        for each in statements(body.node)
        if isinstance(each, ast.Assign)
        for node in expressions(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    used = {node.id for node in expressions(statement) if isinstance(node, ast.Name)}
    if not name or own & used:
        return None
    calls = {ast.unparse(call) for _, _, call in calls_around(frame) if callee(call)[1] == name}
    return calls.pop() if len(calls) == 1 else None
