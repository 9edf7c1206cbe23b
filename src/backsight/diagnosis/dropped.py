"""BS146: results that are lost: of methods that leave a tensor as it was, and of additions to the same place."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from inspect import unwrap
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, looped
from backsight.diagnosis.wording import shown, warning
from backsight.findings.evidence import Evidence
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, function_at
from backsight.source.bindings import assigned, parameters_of, uses
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.source.out_of_place import arguments
from backsight.story.failure import method
from backsight.tracing import Sighting, Spot, Write

_WITHOUT_TWIN = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16"})


def dropped(sightings: Iterable[Sighting]) -> Iterator[Finding]:
    """Yield the findings of statements that were seen to do nothing but to make a tensor, which nobody gets."""
    for seen in sightings:
        spot = seen.spot
        if not spot.dropped or not isinstance(spot.call.func, ast.Attribute):
            continue
        receiver, place = spot.body.text(spot.call.func.value), spot.body.place(spot.statement)
        yield warning(
            "BS146",
            f"{receiver} is not changed: the result of {spot.method} is thrown away.",
            (shown(place, f"returns a new tensor and leaves {receiver} as it was."),),
            _kept(seen, spot, receiver),
            place,
        )


def lost_in_step(optimizer: torch.optim.Optimizer) -> Finding | None:
    """Return the finding of an update that an optimizer of the program's computes and throws away."""
    lost = lost_update(optimizer)
    if lost is None:
        return None
    return warning(
        "BS146",
        f"{type(optimizer).__name__}.step() does not change {lost.name}: the result of {lost.lost} is thrown away.",
        lost.shown,
        lost.fix,
        lost.place,
    )


def _kept(seen: Sighting, spot: Spot, receiver: str) -> str:
    """Say how to keep the result: in place where the memory itself is meant, and where autograd allows it."""
    given = ", ".join(arguments(spot.body, spot.call))
    assigned = f"{receiver} = {spot.body.text(spot.call)}"
    in_place = f"{receiver}.{spot.method}_({given})"
    place = spot.body.place(spot.statement)
    anew, there = f"{assigned}{written(place, assigned)}", f"{in_place}{written(place, in_place)}"
    if spot.method in _WITHOUT_TWIN or not dotted(spot.call.func.value):  # type: ignore[attr-defined]  # an attribute
        return f"Assign the result: {anew}."
    last = ending(receiver)
    attached = seen.enabled and seen.requires_grad
    if receiver in looped(spot.body) and attached:
        block = written(place, f"with torch.no_grad():\n    {in_place}")
        return f"Change it in place, inside `with torch.no_grad():`: {in_place}{block}."
    if (receiver in looped(spot.body) or last in ("data", "grad") or seen.requires_grad) and not attached:
        return f"Change it in place: {there}."
    return f"Assign the result: {anew}."


def lost_writes(writes: Iterable[Write]) -> Iterator[Finding]:
    """Yield the findings of `x[index] += y` where the index was seen to have repeated entries."""
    for each in writes:
        target, index = each.target, each.body.text(each.target.slice)
        name, place = each.body.text(target.value), each.body.place(each.statement)
        yield warning(
            "BS146",
            f"{name} loses additions: {index} has repeated entries, and += through an index adds only once to each.",
            (
                shown(
                    place,
                    f"adds at {each.entries:,} entries, {each.distinct:,} of them distinct: of those that are the "
                    "same, the last one overwrites the others.",
                ),
            ),
            f"Accumulate: {_accumulated(each, name, index)}{written(place, _accumulated(each, name, index))}.",
            place,
        )


def _accumulated(write: Write, name: str, index: str) -> str:
    added = write.body.text(write.added)
    several = isinstance(write.target.slice, ast.Tuple)
    sign = "-" if write.subtracts else ""
    if several or not write.is_by_rows or isinstance(write.added, ast.Constant):
        is_plain = isinstance(write.added, ast.Name | ast.Constant | ast.Subscript)
        value = f"{sign}{added}" if is_plain or not sign else f"{sign}({added})"
        if isinstance(write.added, ast.Constant):
            value = f"torch.tensor({value}, dtype={name}.dtype)"
        indices = f"({index})" if several else f"({index},)"
        return f"{name}.index_put_({indices}, {value}, accumulate=True)"
    return f"{name}.index_add_(0, {index}, {added}{', alpha=-1' if sign else ''})"


# Updates that an optimizer of the program's computes in its step and throws away.


_KINDS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_OF = frozenset({"p", "param", "parameter", "w", "weight", "theta"})
"""What a helper calls the parameter that it is given."""


class LostUpdate(NamedTuple):
    """A statement of a step that leaves a parameter as it was: what it is called, what is lost, and what to write."""

    place: Place
    name: str
    lost: str
    fix: str

    @property
    def shown(self) -> tuple[Evidence, ...]:
        """The statement as evidence."""
        return (shown(self.place, f"returns a new tensor and leaves {self.name} as it was."),)


def lost_update(optimizer: torch.optim.Optimizer) -> LostUpdate | None:
    """Return the first statement, in a step of the program's or what it calls, whose result is lost."""
    if not is_user_class(type(optimizer).__module__):
        return None
    step = unwrap(method(type(optimizer), "step"))  # no_grad() wraps it, and so does Optimizer
    body = function_at(step.__code__) if step is not None else None
    if body is None:
        return None
    called = {callee(n)[1] for s in statements(body.node) for n in calls_in(s)}
    helpers = (each for each in functions(body.file) if each.name in called - {"step"})
    return next((found for each in (body, *helpers) for found in _lost_in(each, is_helper=each is not body)), None)


def _lost_in(body: Body, *, is_helper: bool) -> Iterator[LostUpdate]:
    held = looped(body) | (set(parameters_of(body.node)) & _OF if is_helper else set())
    for block in _blocks(body.node):
        for statement in block:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr=op)) as call) if (
                    _root(receiver) in held and hasattr(torch.Tensor, f"{op}_") and hasattr(torch.Tensor, op)
                ):
                    text = body.text(receiver)
                    given = ", ".join(arguments(body, call))
                    place, new = body.place(statement), f"{text}.{op}_({given})"
                    yield LostUpdate(place, text, op, f"Change it in place: {new}{written(place, new)}.")
            for target, value in assigned(statement):
                match target, value:
                    case ast.Name(id=name), ast.BinOp(left=left, op=operator, right=right) if (
                        name in held and _root(left) == name and not _is_read(body, statement, name)
                    ):
                        if kind := _KINDS.get(type(operator)):
                            place, new = body.place(statement), f"{name}.{kind}_({body.text(right)})"
                            fix = f"Change it in place: {new}{written(place, new)}."
                            yield LostUpdate(place, name, kind, fix)


def _root(node: ast.expr) -> str:
    """Return the `p` of `p` and `p.data`."""
    return (dotted(node) or "").removesuffix(".data")


def _is_read(body: Body, statement: ast.stmt, name: str) -> bool:
    """Whether a variable, and not only its gradient, is used after a statement."""
    later = (s for s in statements(body.node) if s.lineno > (statement.end_lineno or 0))
    return any(use.name.split(".")[0] == name and ".grad" not in use.name for s in later for use in uses(s))


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements of a function that run for each parameter, whatever the options are."""
    for field in ("body", "orelse"):
        block = getattr(node, field, [])
        if block and not (field == "orelse" and isinstance(node, ast.If)):
            yield block
        for each in block:
            if not isinstance(each, ast.If) or "grad" in ast.unparse(each.test):
                yield from _blocks(each)
