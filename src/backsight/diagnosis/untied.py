"""BS171: a model's class makes one parameter of two, and by the first backward they are two."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import NamedTuple

import torch

from backsight.diagnosis.aliased import is_plain
from backsight.diagnosis.amending import added
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, endings_of, modules, named
from backsight.diagnosis.wording import shown, warning
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, function_at, only
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, dotted, functions, is_constant, keyword, statements
from backsight.tape import Graph, modules_in, registered

_FEW = 4
"""Values by which it is known which parameters may be equal."""


class _Tie(NamedTuple):
    """A statement of a class that gives one module the parameter of another, by their paths."""

    one: str
    other: str
    place: Place
    body: Body


class _Break(NamedTuple):
    """A statement that makes parameters anew, what it makes them of, and what it does."""

    of: str
    place: Place
    says: str


def untied(graph: Graph, file: str) -> Iterator[Finding]:
    """Yield the findings of parameters that a class of the program ties, and that are two with the same values.

    Only before the first step: then equal values say that they were one, or copies of one. A layer that was put in on
    purpose has its own. One statement of the program's has to be what made them two.
    """
    held = [leaf.tensor() for leaf in graph.leaves if leaf.owner and leaf.kind == "parameter"]
    alike = {id(p) for pair in _equal(p for p in held if p is not None) for p in pair}
    for model in modules() if alike else ():
        for path, module in modules_in(model):
            for tie in _ties(module):
                one, other = (_parameter(module, each) for each in (tie.one, tie.other))
                if one is None or other is None or one is other or not {id(one), id(other)} <= alike:
                    continue
                broken = (
                    only(_breaks(tie, file, endings_of(model) | endings_of(module))) if _are_equal(one, other) else None
                )
                if broken is not None:
                    yield _finding(".".join(filter(None, (named(model), path))), tie, broken)
                    return


def _equal(parameters: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield pairs of matrices that begin with the same values."""
    shapes: dict[object, list[torch.Tensor]] = {}
    for each in parameters:
        if is_plain(each) and each.dim() > 1:
            shapes.setdefault(each.shape, []).append(each)
    for several in (each for each in shapes.values() if len(each) > 1):
        first: dict[object, torch.Tensor] = {}
        for each in several:
            values = tuple(each.detach().reshape(-1)[:_FEW].tolist())
            other = first.setdefault(values, each)
            if other is not each and len(set(values)) > 1:
                yield other, each


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two parameters have the same values, each in its own memory: an optimizer moves shared memory twice."""
    with torch.no_grad():
        return one is not other and one.data_ptr() != other.data_ptr() and torch.equal(one, other)


def _ties(module: torch.nn.Module) -> Iterator[_Tie]:
    """Yield the statements of a user's class like `self.head.weight = self.embedding.weight`."""
    kind = type(module)
    for made in vars(kind).values() if is_user_class(kind.__module__) else ():
        body = function_at(made.__code__) if isinstance(made, FunctionType) else None
        for statement in statements(body):
            for target, value in assigned(statement):
                one, other = dotted(target) or "", dotted(value) or ""
                if body is not None and min(one.count("."), other.count(".")) > 1 and _is_own(one) and _is_own(other):
                    yield _Tie(one[5:], other[5:], body.place(statement), body)


def _is_own(path: str) -> bool:
    return path.startswith("self.")


def _parameter(module: torch.nn.Module, path: str) -> torch.Tensor | None:
    """Return the parameter of a module at a path, such as `head.weight`."""
    *inside, last = path.split(".")
    found: object = module
    for each in inside:
        found = registered(found, "_modules").get(each) if isinstance(found, torch.nn.Module) else None
    held = registered(found, "_parameters").get(last) if isinstance(found, torch.nn.Module) else None
    return held if isinstance(held, torch.Tensor) else None


def _breaks(tie: _Tie, file: str, names: set[str]) -> Iterator[_Break]:
    """Yield the statements that make one of the two anew: of a model that has one of some last names."""
    paths = [each.split(".") for each in (tie.one, tie.other)]
    paths += [each[:-1] for each in paths]
    for body in (each for name in dict.fromkeys((tie.place.file, file)) for each in functions(name)):
        for statement in statements(body.node) if body.node is not tie.body.node else ():
            place = body.place(statement)
            for call in calls_in(statement):
                receiver = dotted(callee(call)[0])
                assigns = callee(call)[1] == "load_state_dict" and is_constant(keyword(call, "assign"), True)
                if assigns and receiver is not None and ending(receiver) in names:
                    yield _Break(receiver, place, "assigns each of them a tensor of its own.")
            for target, value in assigned(statement):
                parts = (dotted(target) or "").split(".")
                owner = next(
                    (parts[: -len(p)] for p in (*paths, *(p[:-1] for p in paths)) if parts[-len(p) :] == p), None
                )
                if owner and owner[-1] in names and _copies(value):
                    yield _Break(
                        ".".join(owner), place, "makes a copy of one of them, which is a parameter of its own."
                    )


def _copies(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and callee(value)[1] in ("deepcopy", "Parameter")


def _finding(name: str, tie: _Tie, broken: _Break) -> Finding:
    again = f"{broken.of}.{tie.one} = {broken.of}.{tie.other}"
    return warning(
        "BS171",
        f"{name}.{tie.one} and {name}.{tie.other} are no longer one parameter: each is trained for itself.",
        (shown(tie.place, "makes them one."), shown(broken.place, broken.says)),
        f"Tie them again below line {broken.place.last}, before the optimizer is created: {again}"
        f"{added(again, 'below', broken.place)}.",
        broken.place,
    )
