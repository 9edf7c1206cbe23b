"""BS148: what the parameters are compared with has their own memory, so that the difference is always zero."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, filling
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place
from backsight.source.body import Body, callee, dotted, expressions, statements
from backsight.tape import parameters_in
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters

CODES = ("BS148",)

_COMPARES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "dist", "sub"})


@dataclass(frozen=True)
class Difference:
    """A statement that compares each parameter of a model with an entry of a container; both by their last names."""

    container: str
    model: str
    place: Place


def differences(frame: FrameType | None) -> list[Difference]:
    """Return such statements in the program's files from which a step is called: most have none."""
    return [each for body in bodies(frame) for each in _differences(body)]


def own_anchor(
    found: Sequence[Difference], optimizers: Iterable[torch.optim.Optimizer], since: int, frame: FrameType | None
) -> list[Finding]:
    """Return the finding of a container that has the memory of the very parameters that are compared with it."""
    trained = trained_memory(optimizers)
    for held, name in search((), collect=(dict, list), where=begins_with_tensor).found:
        last = name.path.split(".")[-1]
        fitting = [each for each in found if each.container == last]
        values = ([*held.values()] if isinstance(held, dict) else [*held]) if fitting else []  # type: ignore[misc]  # a list
        memory = {each.data_ptr() for each in values if is_plain(each)}
        if len(memory) != len(values) or not memory or not memory <= trained:
            continue
        own = next((each for each in fitting if _are_of(each.model, held, last, memory)), None)
        if own is not None:
            return [_finding(name.path, own, filling(frame, last), since)]
    return []


def trained_memory(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """Return where the parameters of optimizers are in memory."""
    return {p.data_ptr() for each in optimizers for p in parameters(each) if is_plain(p)}


def begins_with_tensor(held: Any) -> bool:
    """Whether the first value in a dict or list is a tensor."""
    values = dict.values(held) if isinstance(held, dict) else list.__iter__(held)
    return isinstance(next(iter(values), None), torch.Tensor)


def is_plain(value: object) -> bool:
    """Whether a value is a tensor of PyTorch's own classes that has memory, which may be looked at."""
    known = isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter)
    return known and is_readable(value) and value.numel() > 0  # type: ignore[arg-type, attr-defined]


def _are_of(model: str, held: object, container: str, memory: set[int]) -> bool:
    """Whether memory is that of the parameters of every module that goes by a name."""
    modules = [each for each, _ in search((), collect=(torch.nn.Module,)).found if isinstance(each, torch.nn.Module)]
    if model == "self":
        called = [each for each in modules if (namespace(each) or {}).get(container) is held]
    else:
        named = search(modules, limit=8).names
        called = [
            each
            for each, names in zip(modules, named, strict=True)
            if any(name.path.split(".")[-1] == model for name in names)
        ]
    return bool(called) and all(memory <= {p.data_ptr() for p in parameters_in(each)} for each in called)


def _differences(body: Body) -> Iterator[Difference]:
    for statement in statements(body.node):
        comprehensions = [
            (node.generators[0].target, node.generators[0].iter, node.elt)
            for node in expressions(statement)
            if isinstance(node, ast.GeneratorExp | ast.ListComp) and len(node.generators) == 1
        ]
        loops = [(statement.target, statement.iter, statement)] if isinstance(statement, ast.For) else []
        for target, over, inside in (*loops, *comprehensions):
            kept, trained = _variables(target, over)
            for node in ast.walk(inside) if trained else ():
                for one, other in _compared(node):
                    if (model := trained.get(dotted(one) or "")) and (container := _container(other, kept)):
                        place = _place(body, statement, node)
                        yield Difference(container.split(".")[-1], model.split(".")[-1], place)


def _place(body: Body, loop: ast.stmt, node: ast.AST) -> Place:
    """Return the innermost statement that holds an expression of a loop."""
    line = getattr(node, "lineno", loop.lineno)
    around = [s for s in statements(body.node) if s.lineno <= line <= (s.end_lineno or 0)]
    return body.place(max(around, key=lambda each: each.lineno, default=loop))


def _compared(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the two sides of a difference, and each the other way."""
    match node:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield from ((left, right), (right, left))
        case ast.Call(args=[first, second, *_]) if callee(node)[1] in _COMPARES:
            yield from ((first, second), (second, first))


def _container(value: ast.expr, kept: dict[str, str]) -> str | None:
    """Return the container of which an expression is an entry: `self.anchors` of `self.anchors[name]`."""
    return dotted(value.value) if isinstance(value, ast.Subscript) else kept.get(dotted(value) or "")


def _variables(target: ast.expr, over: ast.expr) -> tuple[dict[str, str], dict[str, str]]:
    """Return which variables of a loop are entries of which container, and which are parameters of which module."""
    pairs = [(target, over)]
    if isinstance(over, ast.Call) and callee(over)[1] == "zip" and isinstance(target, ast.Tuple):
        pairs = list(zip(target.elts, over.args, strict=False))
    kept: dict[str, str] = {}
    trained: dict[str, str] = {}
    for each, source in pairs:
        last = each.elts[-1] if isinstance(each, ast.Tuple) and each.elts else each
        receiver, method = callee(source) if isinstance(source, ast.Call) else (source, "")
        name, owner = dotted(last), dotted(receiver)
        if name is None or owner is None:
            continue
        if method in ("parameters", "named_parameters"):
            trained[name] = owner
        elif method in ("", "values", "items"):
            kept[name] = owner
    return kept, trained


def _finding(name: str, found: Difference, made: Place | None, since: int) -> Finding:
    copied = made.text if made is not None else ""
    for old, new in ((".detach()", ".detach().clone()"), (".data ", ".detach().clone() ")):
        copied = copied.replace(old, new) if ".clone()" not in copied else copied
    return warning(
        "BS148",
        f"{name} is not a copy: it has the memory of the parameters that are compared with it.",
        (
            if_known(made, "keeps the memory of the parameters: no value is copied."),
            shown(found.place, "compares each parameter with itself: the difference is always zero."),
        ),
        f"Copy the values: {copied}{written(made, copied)}."
        if made is not None and copied != made.text
        else "Copy the values, with .clone().",
        made or found.place,
        since=since,
    )
