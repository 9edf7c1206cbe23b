"""Statements that write the parameters of one module from those of another: a target network, an average of weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from backsight.source.bindings import assigned, target_names
from backsight.source.body import (
    Body,
    Place,
    callee,
    calls_in,
    dotted,
    functions,
    handed,
    is_constant,
    keyword,
    statements,
)

_TENSORS = frozenset({"parameters", "named_parameters", "buffers", "state_dict", "values", "items"})

How = Literal["loads", "blends", "shares", "rebinds", "state"]


@dataclass(frozen=True)
class Writes:
    """One module's parameters are written into another's: by the names that the program has for them where it says so.

    how: "loads" a state, "blends" them in a loop in place, or "shares" their memory (`p.data = q.data`); "rebinds" the
    loop's own variable, or an entry of a "state" that is never loaded, which writes nothing.
    called: the call that hands both in, where the function with the statement has them as its parameters.
    body: the function with the outermost of the two; `begins` the line there from which all of it runs.
    """

    target: str
    origin: str
    how: How
    place: Place
    body: Body
    begins: int
    called: Place | None = None

    @property
    def outermost(self) -> Place:
        return self.called or self.place


def writes(file: str) -> Iterator[Writes]:
    """Yield all such statements of a file, and the calls of the functions that consist of them."""
    bodies = list(functions(file))
    found = {id(body.node): list(_written(body)) for body in bodies}
    named = {body.name: body for body in bodies}
    for body in bodies:
        yield from found[id(body.node)]
        for statement in statements(body.node):
            for call in calls_in(statement):
                called = named.get(callee(call)[1])
                for each in found[id(called.node)] if called is not None else ():
                    handing = handed(called, call).items() if called is not None else ()
                    given = {name: text for name, value in handing if (text := dotted(value)) is not None}
                    if each.target in given or each.origin in given:
                        yield replace(
                            each,
                            target=given.get(each.target, each.target),
                            origin=given.get(each.origin, each.origin),
                            body=body,
                            begins=statement.lineno,
                            called=body.place(statement),
                        )


def _written(body: Body) -> Iterator[Writes]:
    for statement in statements(body.node):
        for call in calls_in(statement):
            receiver, method = callee(call)
            target = dotted(receiver)
            if method == "load_state_dict" and target is not None and call.args:
                states = (n for n in ast.walk(call.args[0]) if isinstance(n, ast.Call) and callee(n)[1] == "state_dict")
                origin = next((dotted(callee(each)[0]) for each in states), None)
                how: How = "shares" if is_constant(keyword(call, "assign"), True) else "loads"
                yield Writes(target, origin or "", how, body.place(statement), body, statement.lineno)
        if (loop := _as_loop(statement)) is not None:
            yield from _pairwise(body, loop)
        if isinstance(statement, ast.For):
            yield from _pairwise(body, statement)
            yield from _by_name(body, statement)


def _as_loop(statement: ast.stmt) -> ast.For | None:
    """Return the loop of a list that is made for it alone: `[p.lerp_(q, 0.01) for p, q in zip(...)]`."""
    made = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(made, ast.ListComp) or len(made.generators) != 1 or made.generators[0].is_async:
        return None
    does, over = ast.copy_location(ast.Expr(made.elt), statement), made.generators[0]
    return ast.copy_location(ast.For(over.target, over.iter, [does], []), statement)


def _pairwise(body: Body, loop: ast.For) -> Iterator[Writes]:
    """Yield what a loop over the parameters of two modules writes: `for a, b in zip(x.parameters(), ...)`."""
    if not isinstance(loop.iter, ast.Call) or callee(loop.iter)[1] != "zip" or len(loop.iter.args) != 2:
        return
    modules = [_module(each) for each in loop.iter.args]
    variables = [target_names(each) for each in loop.target.elts] if isinstance(loop.target, ast.Tuple) else []
    if len(variables) != 2 or None in modules:
        return
    for statement in (each for each in ast.walk(loop) if isinstance(each, ast.stmt) and each is not loop):
        for at in (0, 1):
            how = _writes_to(statement, variables[at])
            if how is not None and not (how == "rebinds" and _is_read_later(body, loop, statement)):
                place = body.place(statement)
                yield Writes(modules[at] or "", modules[1 - at] or "", how, place, body, loop.lineno)
                return


def _is_read_later(body: Body, loop: ast.For, statement: ast.stmt) -> bool:
    """Whether the variable of a loop that a statement binds is read below it, or outside of all loops that bind it."""
    (target,) = statement.targets if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else (None,)
    if not isinstance(target, ast.Name):
        return True
    loops = [each for each in statements(body.node) if isinstance(each, ast.For)]
    others = [each for each in loops if each is not loop and target.id in target_names(each.target)]
    for node in ast.walk(body.node):
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
            line = node.lineno
            elsewhere = any(each.lineno < line <= (each.end_lineno or 0) for each in others)
            if line > (statement.end_lineno or 0) and not elsewhere:
                return True
    return False


def _by_name(body: Body, loop: ast.For) -> Iterator[Writes]:
    """Yield what a loop over the parameters of one module writes: `for name, value in x.state_dict().items()`."""
    over, states, variables = loop.iter, _states(body), target_names(loop.target)
    state = dotted(callee(over)[0] if isinstance(over, ast.Call) else over) or ""
    target = states.get(state) or (_module(over) if isinstance(over, ast.Call) else None) or ""
    inside = [each for each in ast.walk(loop) if isinstance(each, ast.Assign) and len(each.targets) == 1]
    for statement in inside if target else ():
        goal, others = statement.targets[0], target_names(statement.value) - variables
        origin = next((states[each] for each in sorted(others) if each in states and each != state), "")
        entry = isinstance(goal, ast.Subscript) and dotted(goal.value) == state and state in states
        lost = entry and target_names(goal) & variables and not _is_loaded(body, state)
        if lost and isinstance(statement.value, ast.BinOp | ast.Call):
            yield Writes(target, origin, "state", body.place(statement), body, loop.lineno)
        elif isinstance(goal, ast.Name) and goal.id in variables and _blends(statement.value, goal.id):
            yield Writes(target, origin, "rebinds", body.place(statement), body, loop.lineno)


def _states(body: Body) -> dict[str, str]:
    """Return the modules of the states that a function has in variables: `state = model.state_dict()`."""
    found = {}
    for statement in statements(body.node):
        for goal, value in assigned(statement):
            module = _module(value) if isinstance(value, ast.Call) and callee(value)[1] == "state_dict" else None
            if module is not None and (name := dotted(goal)) is not None:
                found[name] = module
    return found


def _is_loaded(body: Body, state: str) -> bool:
    """Whether a state is handed on or returned, and so may be loaded."""
    for statement in statements(body.node):
        handed = (value for call in calls_in(statement) for value in (*call.args, *(k.value for k in call.keywords)))
        if any(dotted(each) == state for each in handed):
            return True
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Return) and value is not None and state in target_names(value):
            return True
    return "." in state  # an attribute may be loaded elsewhere


def _blends(value: ast.expr, own: str) -> bool:
    """Whether an expression is an average of a variable and something else: `0.9 * v + 0.1 * w`, `v.lerp(w, 0.1)`."""
    averages = any(
        isinstance(each.op, ast.Add) if isinstance(each, ast.BinOp) else callee(each)[1] in ("lerp", "add")
        for each in ast.walk(value)
        if isinstance(each, ast.BinOp | ast.Call)
    )
    return averages and own in target_names(value) and len(target_names(value)) > 1


def _module(node: ast.expr) -> str | None:
    """Return the module of `module.parameters()`, `module.state_dict().values()`, `list(module.buffers())`."""
    while isinstance(node, ast.Call):
        receiver, method = callee(node)
        if method in _TENSORS and receiver is not None:
            if not isinstance(receiver, ast.Call):
                return dotted(receiver)
            node = receiver
        elif receiver is None and method in ("list", "iter", "tuple") and len(node.args) == 1:
            node = node.args[0]
        else:
            return None
    return None


def _writes_to(statement: ast.stmt, names: frozenset[str]) -> How | None:
    """Say what a statement does to a variable of a loop: change it in place, or bind the name to something else."""
    if isinstance(statement, ast.Expr | ast.Assign):
        for call in calls_in(statement):
            receiver, method = callee(call)
            while isinstance(receiver, ast.Call):
                receiver, method = callee(receiver)
            inplace = method.endswith("_") and not method.endswith("__")
            if inplace and (dotted(receiver) or "").split(".")[0] in names:
                return "blends"
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        if (dotted(target) or "").split(".")[0] not in names:
            continue
        if isinstance(target, ast.Attribute) and target.attr == "data" and isinstance(statement, ast.Assign):
            return "shares" if _is_tensor_itself(statement.value) else "blends"
        plain = isinstance(target, ast.Name) and isinstance(statement, ast.Assign)
        return "rebinds" if plain and target in getattr(statement, "targets", []) else "blends"
    return None


def _is_tensor_itself(value: ast.expr) -> bool:
    """Whether a value has the memory of a variable: `q`, `q.data`, `q.detach()`."""
    if isinstance(value, ast.Call):
        receiver, method = callee(value)
        return method == "detach" and isinstance(receiver, ast.Name)
    return isinstance(value.value if isinstance(value, ast.Attribute) else value, ast.Name)
