"""BS144: an average of the weights, kept in a dict or a list, is the memory of the weights themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FrameType

import torch

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.own_anchor import begins_with_tensor, is_plain, trained_memory
from backsight.diagnosis.program import bodies, filling
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.source import Body, Place
from backsight.source.body import callee, dotted, statements

CODES = ("BS144",)

_MODULES = frozenset({"named_parameters", "parameters", "state_dict"})
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
        last = name.path.split(".")[-1]
        values = [] if last not in averaged else [*held.values()] if isinstance(held, dict) else [*held]  # type: ignore[misc]  # a list
        if values and all(is_plain(each) and each.data_ptr() in trained for each in values):
            return [_finding(name.path, filling(frame, last), averaged[last], since)]
    return []


def _averaged(body: Body) -> Iterator[tuple[str, Place]]:
    """Yield the containers into whose entries a loop writes the parameters of a module, by their last names."""
    for loop in (each for each in statements(body.node) if isinstance(each, ast.For)):
        kept, trained = _variables(loop)
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
            if held is not None and _names(call.args[0]) & trained and "grad" not in _names(call.args[0]):
                yield held.split(".")[-1], body.place(statement)


def _variables(loop: ast.For) -> tuple[dict[str, str], frozenset[str]]:
    """Return which variables of a loop are entries of a container, and which are parameters of a module."""
    over = loop.iter
    if isinstance(over, ast.Call) and callee(over)[1] == "zip" and isinstance(loop.target, ast.Tuple):
        pairs = list(zip(loop.target.elts, over.args, strict=False))
    else:
        pairs = [(loop.target, over)]
    kept: dict[str, str] = {}
    trained: frozenset[str] = frozenset()
    for target, source in pairs:
        methods = {callee(each)[1] for each in ast.walk(source) if isinstance(each, ast.Call)}
        inner = callee(source)[0] if isinstance(source, ast.Call) and methods <= {"values", "items"} else source
        if methods & _MODULES:
            trained |= _names(target)
        elif (name := dotted(inner)) is not None:
            kept |= dict.fromkeys(_names(target), name)
    return kept, trained


def _names(node: ast.expr) -> frozenset[str]:
    """Return the variables and attributes that an expression reads."""
    own = (each.id if isinstance(each, ast.Name) else getattr(each, "attr", None) for each in ast.walk(node))
    return frozenset(each for each in own if each is not None)


def _finding(name: str, made: Place | None, averaged: Place, since: int) -> Finding:
    copied = made.text.replace(".detach()", ".detach().clone()").replace(".data ", ".data.clone() ") if made else ""
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
