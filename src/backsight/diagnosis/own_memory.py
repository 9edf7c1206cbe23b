"""What is kept of the parameters in a dict or a list is their own memory.

BS148: what they are compared with, so that the difference is always zero. BS144: an average of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, ending, filling
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place
from backsight.source.body import Body, callee, dotted, expressions, statements
from backsight.tape import parameters_in
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters

_OF_MODULES = frozenset({"named_parameters", "parameters", "state_dict"})
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
        last = ending(name.path)
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
        named = zip(modules, search(modules, limit=8).names, strict=True)
        called = [each for each, names in named if any(ending(name.path) == model for name in names)]
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
                        yield Difference(ending(container), ending(model), place)


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
        calls = [node for node in ast.walk(source) if isinstance(node, ast.Call)]
        of_module = next((call for call in calls if callee(call)[1] in _OF_MODULES), None)
        is_view = isinstance(source, ast.Call) and {callee(call)[1] for call in calls} <= {"values", "items"}
        held = callee(source)[0] if is_view and isinstance(source, ast.Call) else source
        if of_module is not None:
            trained |= dict.fromkeys(_names(each), dotted(callee(of_module)[0]) or "a module")
        elif (name := dotted(held)) is not None:
            kept |= dict.fromkeys(_names(each), name)
    return kept, trained


def _cloned(made: Place | None) -> str:
    """Return the statement that fills a container, with copies of what it takes from the parameters."""
    copied = made.text if made is not None else ""
    for old, new in ((".detach()", ".detach().clone()"), (".data ", ".detach().clone() ")):
        copied = copied.replace(old, new) if ".clone()" not in copied else copied
    return copied


def _finding(name: str, found: Difference, made: Place | None, since: int) -> Finding:
    copied = _cloned(made)
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


# BS144: an average of the weights.


_ADDS = frozenset({"lerp_", "add_", "copy_"})


def own_average(optimizers: Iterable[torch.optim.Optimizer], since: int, frame: FrameType | None) -> list[Finding]:
    """Return the finding of a container whose tensors are to follow the parameters, and have their memory.

    Much may keep the memory of parameters. So a statement has to write the parameters into what the container holds,
    which is to write each into itself.
    """
    averaged = {name: place for body in bodies(frame) for name, place in _averaged(body)}
    if not averaged:
        return []
    trained = trained_memory(optimizers)
    for held, name in search((), collect=(dict, list), where=begins_with_tensor).found:
        last = ending(name.path)
        values = [] if last not in averaged else [*held.values()] if isinstance(held, dict) else [*held]  # type: ignore[misc]  # a list
        if values and all(is_plain(each) and each.data_ptr() in trained for each in values):
            return [_finding_of_average(name.path, filling(frame, last), averaged[last], since)]
    return []


def _averaged(body: Body) -> Iterator[tuple[str, Place]]:
    """Yield the containers into whose entries a loop writes the parameters of a module, by their last names."""
    for loop in (each for each in statements(body.node) if isinstance(each, ast.For)):
        kept, trained = _variables(loop.target, loop.iter)
        for statement in (each for each in ast.walk(loop) if isinstance(each, ast.Expr)):
            call = statement.value
            if not isinstance(call, ast.Call) or callee(call)[1] not in _ADDS or not call.args:
                continue
            if callee(call)[1] == "copy_" and not isinstance(call.args[0], ast.BinOp):
                continue  # of copies alone, nothing tells that they are to lag behind
            root = callee(call)[0]
            while isinstance(root, ast.Call):
                root = callee(root)[0]
            held = dotted(root.value) if isinstance(root, ast.Subscript) else kept.get(dotted(root) or "")
            if held is not None and _names(call.args[0]) & trained.keys() and "grad" not in _names(call.args[0]):
                yield ending(held), body.place(statement)


def _names(node: ast.expr) -> frozenset[str]:
    """Return the variables and attributes that an expression reads."""
    own = (each.id if isinstance(each, ast.Name) else getattr(each, "attr", None) for each in ast.walk(node))
    return frozenset(each for each in own if each is not None)


def _finding_of_average(name: str, made: Place | None, averaged: Place, since: int) -> Finding:
    copied = _cloned(made)
    return warning(
        "BS144",
        f"{name} is no average of the weights: its tensors are the weights themselves.",
        (
            if_known(made, "keeps the memory of the parameters: no value is copied."),
            shown(averaged, "writes each parameter into itself."),
        ),
        "Copy the values when you create it"
        + (f": {copied}{written(made, copied)}." if made and copied != made.text else ", with .clone()."),
        made or averaged,
        since=since,
    )
