"""An optimizer is given parameters with their names and others without: which statement gives the pairs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.registry import refusal
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown, sure_if
from backsight.naming.plain import is_class
from backsight.source import Body, Place, statements_of
from backsight.source.body import blocks, callee
from backsight.source.edits import write
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.files import calls_in_files, user_files

_MIXED = "should be with/without names"
_WHOLE = frozenset({"list", "tuple", "chain", "extend", "add_param_group"})
"""The calls that take a list of parameters as it is, besides that of the optimizer."""


class _Given(NamedTuple):
    """A statement that passes on all that `named_parameters()` or `parameters()` of a module gives."""

    body: Body
    statement: ast.stmt
    changes: dict[ast.expr, str]
    modules: list[ast.expr]

    @property
    def place(self) -> Place:
        return self.body.place(self.statement)

    @property
    def without_names(self) -> str:
        return rewritten(self.body, self.statement, self.changes)


def names_mixed(found: Refusal) -> Finding | None:
    """Say which statement gives the parameters with their names, and write it without; None for another error."""
    inside = found.below[-1].variables if found.below else {}
    names, tensors = inside.get("extracted_param_names"), inside.get("extracted_param_tensors")
    if _MIXED not in found.failure.message or not isinstance(names, list) or not isinstance(tensors, list):
        return None
    pairs, plain = list(_passing(found, "named_parameters")), list(_passing(found, "parameters"))
    every = [call for _, _, call in calls_in_files(found.failure) if callee(call)[1] == "named_parameters"]
    sure = bool(pairs) and len(every) == sum(len(each.modules) for each in pairs)  # nothing else asks for names
    how = ", [p for _, p in model.named_parameters()]"
    if sure and all(each.without_names for each in pairs):
        written = [f"`{each.without_names}` on line {each.place.line}" for each in pairs]
        how = f": write {listed(written, 4)}{''.join(str(write(each.place, each.without_names)) for each in pairs)}"
    what = "Some groups have parameters with names, others without."
    if names and len(names) < len(tensors):
        total = counted(len(tensors), "parameter")
        what = f"{len(names)} of the {total} of one group come with a name, the others without."
    return refusal(
        found,
        f"An optimizer takes all parameters with names or all without. {what}",
        (
            *(shown(each.place, "gives pairs of a name and a parameter.", sure_if(sure)) for each in pairs[:3]),
            *(shown(each.place, "gives parameters without names.", sure_if(sure)) for each in plain[:3]),
            shown(found.level.place, "failed."),
        ),
        f"Give it the parameters alone{how}.",
        pairs[0].place if len(pairs) == 1 else None,
        exact=sure,
    )


def _passing(found: Refusal, method: str) -> Iterator[_Given]:
    """The statements that pass the parameters of a module on as this method gives them."""
    for body, statement in statements_of(*user_files(found.failure)):
        if any(True for _ in blocks(statement)):
            continue
        roots = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)]
        taken = [each for root in roots for each in _taken(found, root, method)]
        if taken:
            changes = {node: _plain(body, node, module) for node, module in taken}
            yield _Given(body, statement, changes, [module for _, module in taken])


def _taken(found: Refusal, node: ast.AST, method: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The calls of the method in an expression that end up, as they are, in the list that it makes; each with the
    module."""
    match node:
        case ast.Call(func=ast.Attribute(value=module, attr=name)) if name == method:
            yield node, module
        case ast.ListComp(ast.Tuple(elts=[ast.Name(), ast.Name()]) as pair, [ast.comprehension(iter=inside)]):
            if method == "named_parameters" and isinstance(inside, ast.Call) and callee(inside)[1] == method:
                yield pair, inside.func.value  # type: ignore[attr-defined]
        case ast.Call() if callee(node)[1] in _WHOLE or _is_optimizer(found.level, node.func):
            for each in (*node.args, *(one.value for one in node.keywords)):
                yield from _taken(found, each, method)
        case ast.List() | ast.Tuple() | ast.Starred() | ast.BinOp(op=ast.Add()):
            for inner in ast.iter_child_nodes(node):
                yield from _taken(found, inner, method)
        case ast.Dict():
            for each in node.values:
                yield from _taken(found, each, method)


def _plain(body: Body, node: ast.expr, module: ast.expr) -> str:
    """The same without names: of a pair, the parameter."""
    return body.text(node.elts[1]) if isinstance(node, ast.Tuple) else f"{body.text(module)}.parameters()"


def _is_optimizer(level: Level, node: ast.expr) -> bool:
    held = value_of(level, node)
    return is_class(held) and issubclass(held, torch.optim.Optimizer)
