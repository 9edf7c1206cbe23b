"""BS208 of an operation of PyTorch's: the data of a leaf got another shape since its graph was recorded."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.findings.evidence import Certainty
from backsight.naming.plain import class_dict
from backsight.naming.roots import is_user_class
from backsight.snapshot import survey
from backsight.source import Body, Place, calls_of, only, statements_of
from backsight.source.bindings import assigned, parameters_of
from backsight.source.body import body_around, callee, calls_in, dotted, imported_in, keyword, statements
from backsight.source.changes import is_tensor_data
from backsight.source.definitions import values_of
from backsight.source.edits import on_line, put, without_marks
from backsight.story.failure import Failure, follow
from backsight.story.files import user_files
from backsight.story.memory import gradient_of, needs_gradient, shape_of
from backsight.story.sections import methods_of
from backsight.tape import Leaf
from backsight.tracing.steps import parameters


class _Replaced(NamedTuple):
    """A statement that replaces the data of a leaf, `b.data = torch.cat(...)`; `path` is what it could assign."""

    leaf: Leaf
    place: Place
    path: str
    value: str


def replaced_leaves(failure: Failure) -> list[Leaf]:
    """The leaves whose shape is no longer the one that a graph was recorded with."""
    can_be_read = any(needs_gradient(root) for root in failure.roots)
    graph = survey(failure.roots, frames=failure.frames).graph if can_be_read else None
    shapes = {leaf.index: graph.nodes[leaf.node].shape for leaf in graph.leaves} if graph else {}
    return [leaf for leaf in graph.leaves if shapes[leaf.index] not in (None, leaf.shape)] if graph else []


def added_to_another_shape(found: Refusal) -> Finding | None:
    """A gradient meets a leaf of another shape, as it is added up or in a step: the size is all that is said."""
    said = re.search(r"The size of tensor a \(\d+\) must match the size of tensor b.*", found.failure.message)
    if said is None:
        return None
    leaves = replaced_leaves(found.failure) if found.failure.call else _stepped(found)
    if not leaves:
        return None
    return replace(data_replaced(found.failure, leaves, "a leaf", f"{said[0]}."), code="BS208")


def _stepped(found: Refusal) -> list[Leaf]:
    """The leaves of the optimizer that steps whose gradient has another shape."""
    inside = (each.variables.get("self") for each in found.below)
    optimizer = next((each for each in inside if isinstance(each, torch.optim.Optimizer)), None)
    every = parameters(optimizer) if optimizer is not None else ()
    unlike = tuple(each for each in every if shape_of(gradient_of(each)) not in (None, shape_of(each)))
    return list(survey(unlike, frames=found.failure.frames).graph.leaves) if unlike else []


def data_replaced(failure: Failure, leaves: Sequence[Leaf], where: str, said: str) -> Finding:
    """Name every leaf whose shape is not that of its gradient, and the statements that have replaced their data."""
    names = [leaf.name for leaf in leaves if leaf.name]
    replaced = [each for leaf in leaves for each in _replacements(failure, leaf)]
    times = Counter(each.leaf.index for each in replaced)
    # Its shape shows that something replaced it: the only statement that can is known.
    known: dict[int, Certainty] = {index: "held" if count == 1 else "read" for index, count in times.items()}
    what = listed(names, 4) or where
    gradient = "gradients in the old shapes" if len(names) > 1 else "gradient in the old shape"
    return explanation(
        f"{what} got another shape through .data, but autograd expects {'their' if len(names) > 1 else 'its'} "
        f"{gradient}.",
        (
            *(
                shown(each.place, f"replaces the data of {each.leaf.name}.", known[each.leaf.index])
                for each in replaced
            ),
            said,
            *failing(failure, "is the call that failed."),
        ),
        _fix(failure, replaced, leaves),
        source=str(replaced[0].place) if replaced else failure.source,
        exact=bool(names) and "read" not in known.values(),
    )


def _replacements(failure: Failure, leaf: Leaf) -> Iterator[_Replaced]:
    """The assignments to `.data` of what is this leaf: by a variable that has it, or in a method of what holds it."""
    for body, statement in statements_of(*user_files(failure)):
        for target, value in assigned(statement):
            if not is_tensor_data(target):
                continue
            name, path = ast.unparse(target.value), _meant(body, target.value, statement.lineno)
            if path and _is_leaf(failure, body, path, leaf):
                written = name if "." in name else path
                yield _Replaced(leaf, body.place(statement), written, ast.unparse(value))


def _meant(body: Body, tensor: ast.expr, line: int) -> str:
    """The attributes that an expression stands for: `self.head.bias` for a `b` or an `m.bias` that was given it."""
    name = dotted(tensor) or ""
    first, dot, rest = name.partition(".")
    given = values_of(body, first, line) if first.isidentifier() and first != "self" else []
    meant = dotted(given[0]) if len(given) == 1 else None
    return f"{meant}{dot}{rest}" if meant else name


def _is_leaf(failure: Failure, body: Body, path: str, leaf: Leaf) -> bool:
    first, _, rest = path.partition(".")
    if first in parameters_of(body.node) - {"self"} and rest:
        return any(_has(failure, f"{each}.{rest}", leaf) for each in _given(failure, body, first))
    if first != "self":
        return _has(failure, path, leaf)
    owner = leaf.name.removesuffix(f".{rest}")
    held = [value for level in failure.users for value in (*level.variables.values(), level.value(owner))]
    having = [each for each in held if is_user_class(class_dict(type(each)).get("__module__"))]
    own = (each for each in having if follow(each, rest.split(".")) is leaf.tensor())
    return any(method.node is body.node for each in own for method in methods_of(type(each)))


def _has(failure: Failure, path: str, leaf: Leaf) -> bool:
    return any(level.value(path) is leaf.tensor() for level in failure.users)


def _given(failure: Failure, body: Body, name: str) -> Iterator[str]:
    """What the calls of a function give for one of its arguments."""
    positions = [each.arg for each in body.node.args.args] if isinstance(body.node, ast.FunctionDef) else []
    for _, _, call in calls_of(*user_files(failure)):
        if name in positions and dotted(call.func) == body.name:
            at = positions.index(name)
            yield dotted(call.args[at] if at < len(call.args) else keyword(call, name)) or ""


def _fix(failure: Failure, replaced: list[_Replaced], leaves: Sequence[Leaf]) -> str:
    """Write a new parameter for each, and give those to the optimizer that holds the old ones."""
    names = [leaf.name for leaf in leaves if leaf.name]
    nn = {each.place: "nn" if "nn" in imported_in(each.place.file) else "torch.nn" for each in replaced}
    written = {each.place: f"{each.path} = {nn[each.place]}.Parameter({each.value})" for each in replaced}
    owners = {leaf.owner: [each.name for each in leaves if each.owner == leaf.owner] for leaf in leaves if leaf.owner}
    adding = [f'{owner}.add_param_group({{"params": [{", ".join(held)}]}})' for owner, held in owners.items()]
    at = _below(failure, replaced, [*owners]) if adding and written else None
    added = [f"`{each}`{put(each, 'below', at) if at else ''}" for each in adding]
    writing = [on_line(place, code) for place, code in written.items()]
    if adding and at is None:  # without the optimizer, the new ones would not be trained
        writing = [without_marks(each) for each in writing]
    one = len(names) < 2
    new = f"a new nn.Parameter{'' if one else ' for each'} instead"
    create = f"Create {new}: {listed(writing)}." if written else f"Create {new}."
    of = listed(names, 4) or "that tensor"
    look = f"Look for what replaced the data of {of}: `.data = ...`, `.resize_()`, pruning. "
    pass_on = f"Then pass {'it' if one else 'them'} to the optimizer{': ' * bool(added)}{listed(added)}"
    return f"{'' if written else look}{create} {pass_on}, and rerun the forward pass."


def _below(failure: Failure, replaced: Sequence[_Replaced], owners: Sequence[str]) -> Place | None:
    """Below what the optimizers can be given the new leaves: the last that replaces one, or the only call that does."""
    last = replaced[-1]
    inner = body_around(last.place.file, last.place.line)
    for level in failure.users:
        if inner is None or level.body is None or any(level.value(each) is None for each in owners):
            continue
        if inner.node is level.body.node:
            return last.place
        calls = [
            level.body.place(each)
            for each in statements(level.body.node)
            if each.lineno <= level.line and any(callee(call)[1] == inner.name for call in calls_in(each))
        ]
        return only(calls)
    return None
