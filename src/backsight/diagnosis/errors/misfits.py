"""BS208 without a custom Function: a gradient is assigned, or the data of a leaf is replaced, in another shape."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.gradients import Held
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import conditions_around, loops_around
from backsight.diagnosis.wording import failing, if_known, listed, shaped, shown
from backsight.findings.evidence import Certainty, Fact
from backsight.naming.plain import class_dict, namespace
from backsight.naming.roots import is_user_class
from backsight.snapshot import survey
from backsight.source import Body, Place, assignments, calls_of, only, statement_at, statements_of
from backsight.source.bindings import assigned, declared, parameters_of, target_names
from backsight.source.body import body_around, callee, calls_in, dotted, functions, imported_in, keyword, statements
from backsight.source.changes import is_tensor_data
from backsight.source.definitions import values_of
from backsight.source.edits import OR, on_line, on_line_with, put, without_marks, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, follow
from backsight.story.files import user_files
from backsight.story.memory import gradient_of, is_module, is_tensor, needs_gradient, shape_of
from backsight.story.sections import methods_of
from backsight.tape import Leaf, parameters_in
from backsight.tape.rows import dtype_name
from backsight.tracing.steps import parameters

_MADE = "The gradient of a tensor has its shape, its dtype and its device."


def gradient_assigned(failure: Failure, differs: str) -> Finding:
    """Say in what the two differ, and write the statement that assigns a gradient which fits.

    differs: "dtype", "device", "size" or "layout".
    """
    level = failure.user
    statement = level.statement if level else None
    target = _target(statement)
    if level is None or level.body is None or target is None or not isinstance(statement, ast.Assign):
        return _by_message(failure)
    text, value = level.body.text(target.value), level.body.text(statement.value)
    tensor, given = value_of(level, target.value), value_of(level, statement.value)
    name = Held(failure, level, text, tensor).name if is_tensor(tensor) else text
    has = _described(tensor, differs)
    got = _described(given, differs) or failure.message.partition("assign a gradient ")[2].partition(" to a tensor")[0]
    lines: list[Fact] = [shown(level.place, f"assigns a gradient {got} to {text}.grad." if got else "assigns it.")]
    lines.append(f"{name} {has.replace('of shape', 'has shape').replace('with', 'has')}." if has else _MADE)
    pair = paired(failure, level, text) if differs == "size" else None
    if pair is not None:
        fix = f"pair them with {pair.order}"
        if pair.mended:
            fix = f"write `{pair.mended}` on line {pair.loop.line}{write(pair.loop, pair.mended)}"
        pairs = f"pairs {pair.parameters} with {pair.gradients}, which has the shapes of {pair.order}."
        return explanation(
            f"The gradient assigned to {name}.grad belongs to another parameter: it has a different shape.",
            (if_known(pair.ordered, f"gives {pair.parameters} another order."), shown(pair.loop, pairs), *lines),
            f"Pair both in the same order: {fix}.",
            source=pair.ordered or pair.loop,
            exact=is_tensor(tensor),
        )
    stretched = _stretched(failure, level, statement.value, tensor) if differs == "size" and is_tensor(tensor) else None
    if stretched is not None:
        part, made, shape, fix = stretched
        why = f"computes {part}, of shape {shaped(shape)}, which broadcasts the gradient to more dimensions."
        return explanation(
            f"The gradient assigned to {name}.grad has a different shape than {name}: {part} gives it more dimensions.",
            (if_known(made, why), *lines),
            f"Make one number of {part}: {fix}.",
            source=made or failure.source,
        )
    return explanation(
        f"The gradient assigned to {name}.grad has a different {differs.replace('size', 'shape')} than {name}.",
        lines,
        (_of_shape(level, target, value, text, tensor, given, failure.message) if differs == "size" else "")
        or _converted(level, target, value, text, differs),
        source=failure.source,
        exact=is_tensor(tensor),
    )


def _stretched(
    failure: Failure, level: Level, value: ast.expr, tensor: torch.Tensor
) -> tuple[str, Place | None, tuple[int, ...], str] | None:
    """The only factor or term of a gradient that has one entry, but more dimensions than the tensor, so that the
    gradient has them, too: its name, what computed it, its shape, and the statement without these dimensions."""
    body, found = level.body, _SIZE.search(failure.message)
    size = [*map(int, found[1].split(","))] if found else []
    extra = len(size) - tensor.dim()
    if body is None or extra <= 0 or math.prod(size[:extra]) != 1 or size[extra:] != [*tensor.shape]:
        return None
    whole = only(values_of(body, value.id, level.line)) if isinstance(value, ast.Name) else value
    statement = statement_at(body, whole.lineno, whole.col_offset) if whole is not None else None
    shapes = [(each, shape) for each in _terms(whole) if (shape := shape_of(value_of(level, each))) is not None]
    longer = only((each, shape) for each, shape in shapes if len(shape) > tensor.dim())
    name = dotted(longer[0]) if longer is not None else None
    if longer is None or not name or math.prod(longer[1]) != 1:
        return None
    line = on_line_with(body, statement, {longer[0]: f"{name}.squeeze()"})
    made = next(reversed(assignments(body, name, before=level.line)), None)
    return (name, made, longer[1], line) if line else None


def _terms(node: ast.expr | None) -> Iterator[ast.expr]:
    """What an expression adds and multiplies."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            yield from (*_terms(left), *_terms(right))
        case ast.UnaryOp(operand=operand):
            yield from _terms(operand)
        case ast.expr():
            yield node


_SIZE = re.compile(r"gradient of size '\[([\d, ]+)\]'")
_CONVERTED = {
    "dtype": ("to({0}.dtype)", "Convert it: {1}. NumPy computes in float64 by default."),
    "device": ("to({0}.device)", "Move it: {1}."),
    "layout": ("to_dense()", "Convert it to the layout of {0}: {1}."),
    "size": (
        "view_as({0})",
        "Assign the gradient of {0} itself: pair gradients and parameters by name. "
        f"{OR}If the entries are in the same order, {{1}}.",
    ),
}
"""By what differs: the call that converts a gradient to what suits a tensor, and how that is told."""


def _target(statement: ast.stmt | None) -> ast.Attribute | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return next((each for each in targets if isinstance(each, ast.Attribute) and each.attr == "grad"), None)


def _described(value: object, differs: str) -> str:
    """`with dtype float64`, `of shape 3x2`; empty for what is no tensor."""
    if not is_tensor(value):
        return ""
    if differs == "size":
        return f"of shape {shaped(value.shape)}"
    of = {"dtype": dtype_name(value.dtype), "device": str(value.device), "layout": str(value.layout)}[differs]
    return f"with {differs} {of}"


def _converted(level: Level, target: ast.Attribute, value: str, text: str, differs: str) -> str:
    call, fix = _CONVERTED[differs]
    return fix.format(text, _assigned(level, target, value, call.format(text)))


def _assigned(level: Level, target: ast.Attribute, value: str, call: str, mark: str = "") -> str:
    """The assignment of a converted gradient, between two marks, and the edit, where it assigns nothing else."""
    new = f"{ast.unparse(target)} = {simple('gradient' if value.endswith('…') else value)}.{call}"
    alone = isinstance(level.statement, ast.Assign) and len(level.statement.targets) == 1
    return f"{mark}{new}{mark}{write(level.place, new) if alone and not value.endswith('…') else ''}"


def _of_shape(
    level: Level, target: ast.Attribute, value: str, text: str, tensor: object, given: object, message: str
) -> str:
    """The fix that the shapes tell; empty where one is a permutation of the other, perhaps another parameter's."""
    if not is_tensor(tensor) or level.body is None or value.endswith("…"):
        return ""
    if is_tensor(given):
        shape = tuple(given.shape)
    else:  # a slice is not evaluated: PyTorch's message has its size
        found = _SIZE.search(message)
        shape = tuple(map(int, found[1].split(","))) if found else ()
    if not shape or sorted(shape) == sorted(tensor.shape):
        return ""
    if math.prod(shape) != tensor.numel() or len(shape) > 1:
        return f"Assign the gradient of {text} itself: pair gradients and parameters by name."
    new = _assigned(level, target, value, f"view_as({text})", "`")
    return f"It has as many entries: on line {level.place.line}, write {new}."


def _by_message(failure: Failure) -> Finding:
    return explanation(
        "A gradient is assigned that does not fit its tensor.",
        (*failing(failure, "assigns it."), _MADE),
        "Convert it first: p.grad = gradient.to(p).",
        source=failure.source,
        exact=False,
    )


# Parameters and gradients that a loop pairs, `zip(weights, gradients)`, in two different orders.


@dataclass(frozen=True, eq=False)
class Paired:
    """A loop whose two lists do not have the same order.

    parameters, gradients: what it writes for them. ordered: what puts the parameters in another order than the module.
    order: what has the order of the gradients, `net.parameters()`; mended: the loop with that.
    """

    loop: Place
    parameters: str
    gradients: str
    ordered: Place | None
    order: str
    mended: str


def paired(failure: Failure, level: Level, parameter: str) -> Paired | None:
    """Return the loop that pairs `parameter` with a gradient; None unless the shapes tell what the gradients are of."""
    loop, mine, others = _zipped(level, parameter)
    body = level.body
    if body is None or loop is None or mine is None or others is None:
        return None
    weights, gradients = _listed(level, mine), _listed(level, others)
    if not gradients or (weights and _fits(weights, gradients)):
        return None
    named = isinstance(mine, ast.Call) and callee(mine)[1] in ("named_parameters", "items")
    for name, module in _modules(level):
        own = _own(module)
        for order, tensors in _orders(name, own, named):
            if (weights and {*map(id, weights)} - {*map(id, own)}) or not _fits(tensors, gradients):
                continue
            if weights and [*map(id, weights)] == [*map(id, tensors)]:
                continue
            is_other = bool(weights) and [*map(id, weights)] != [*map(id, own)]
            return Paired(
                body.place(loop),
                body.text(mine),
                body.text(others),
                _ordered(failure, level, mine) if is_other else None,
                order,
                rewritten(body, loop, {mine: order}),
            )
    return None


def _zipped(level: Level, parameter: str) -> tuple[ast.For, ast.expr, ast.expr] | tuple[None, None, None]:
    """The innermost loop over `zip` that gives the parameter, what it takes that from, and what the gradient."""
    every = statements(level.body)
    loops = [each for each in every if isinstance(each, ast.For) and each.lineno < level.line <= (each.end_lineno or 0)]
    for loop in reversed(loops):
        match loop:
            case ast.For(ast.Tuple([_, _] as parts), ast.Call(args=[one, other]) as call) if callee(call)[1] == "zip":
                names = [parameter in target_names(each) for each in parts]
                if any(names):
                    return (loop, one, other) if names[0] else (loop, other, one)
    return None, None, None


def _listed(level: Level, node: ast.expr) -> list[torch.Tensor]:
    """The tensors that an expression lists, in their order: a list, the values of a dict, a module's parameters."""
    receiver, name = callee(node) if isinstance(node, ast.Call) else (None, "")
    held: Any = value_of(level, receiver if receiver is not None else node)
    if is_module(held) and name in ("parameters", "named_parameters"):
        return _own(held)
    if type(held) is dict and name in ("values", "items", ""):
        held = list(held if name == "" else held.values())
    elif receiver is not None:
        return []
    return [*held] if type(held) in (list, tuple) and all(map(is_tensor, held)) else []


def _fits(weights: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> bool:
    return [*map(shape_of, weights)] == [*map(shape_of, gradients)]


def _modules(level: Level) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that the failing function has a name for, the largest first."""
    own = [f"self.{name}" for name in namespace(level.value("self")) or {}]
    names = (*own, *level.variables, *level.frame.f_globals)
    held = {name: each for name in names if is_module(each := level.value(name))}
    yield from sorted(held.items(), key=lambda pair: -len(_own(pair[1])))


def _own(module: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters as `parameters()` gives them, each once."""
    return list({id(each): each for each in parameters_in(module)}.values())


def _orders(name: str, own: Sequence[torch.Tensor], named: bool) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """The orders that gradients of a module have, each as it is written; with the names, where the loop takes those."""
    every, one = (f"{name}.named_parameters()", "(n, p)") if named else (f"{name}.parameters()", "p")
    yield every, [*own]
    yield f"[{one} for {one.strip('()')} in {every} if p.requires_grad]", [each for each in own if needs_gradient(each)]
    yield f"reversed([*{every}])", [*reversed(own)]


def _ordered(failure: Failure, level: Level, node: ast.expr) -> Place | None:
    """The only statement of the program that gives the list its value."""
    name = dotted(callee(node)[0] if isinstance(node, ast.Call) else node) or ""
    if "." not in name:
        return next(reversed(assignments(level.body, name, before=level.line)), None) if name else None
    return only(place for file in user_files(failure) for body in functions(file) for place in assignments(body, name))


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
            *(shown(at, f"replaces the data of {leaf.name}.", known[leaf.index]) for leaf, at, *_ in replaced),
            said,
            *failing(failure, "is the call that failed."),
        ),
        _new_parameters(failure, replaced, leaves),
        source=replaced[0].place if replaced else failure.source,
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
    positions = [each.arg for each in body.node.args.args] if isinstance(body.node, ast.FunctionDef) else []
    for _, _, call in calls_of(*user_files(failure)):
        if name in positions and dotted(call.func) == body.name:
            at = positions.index(name)
            yield dotted(call.args[at] if at < len(call.args) else keyword(call, name)) or ""


def _new_parameters(failure: Failure, replaced: list[_Replaced], leaves: Sequence[Leaf]) -> str:
    """Write a new parameter for each, and give those to the optimizer that holds the old ones."""
    names = [leaf.name for leaf in leaves if leaf.name]
    nn = {each.place: "nn" if "nn" in imported_in(each.place.file) else "torch.nn" for each in replaced}
    written = {each.place: f"{each.path} = {nn[each.place]}.Parameter({each.value})" for each in replaced}
    owners = {leaf.owner: [each.name for each in leaves if each.owner == leaf.owner] for leaf in leaves if leaf.owner}
    adding = [f'{owner}.add_param_group({{"params": [{", ".join(held)}]}})' for owner, held in owners.items()]
    at, is_turning = _below(failure, replaced, [*owners], names) if adding and written else (None, False)
    if is_turning:
        adding = [
            f"if {_is_new(held[0], owner)}: {each}" for each, (owner, held) in zip(adding, owners.items(), strict=True)
        ]
    added = [f"`{each}`{put(each, 'below', at) if at else ''}" for each in adding]
    writing = [on_line(place, code) for place, code in written.items()]
    if adding and at is None:  # without the optimizer, the new ones would not be trained
        writing = [without_marks(each) for each in writing]
    one = len(names) < 2
    new = f"a new nn.Parameter{'' if one else ' for each'} instead"
    create = f"Create {new}: {listed(writing)}." if written else f"Create {new}."
    of = listed(names, 4) or "that tensor"
    look = f"Look for what replaced the data of {of}: `.data = ...`, `.resize_()`, pruning. "
    where = f", below line {at.line}," if at is not None and added else ""
    pass_on = f"Then{where} pass {'it' if one else 'them'} to the optimizer{': ' * bool(added)}{listed(added)}"
    return f"{'' if written else look}{create} {pass_on}, and rerun the forward pass."


def _is_new(name: str, owner: str) -> str:
    return f'all(p is not {name} for group in {owner}.param_groups for p in group["params"])'


def _below(
    failure: Failure, replaced: Sequence[_Replaced], owners: Sequence[str], names: Sequence[str]
) -> tuple[Place | None, bool]:
    """Below what the optimizers can be given the new leaves, and whether that runs more often than they are made.

    That is the last statement that replaces one, in the function that knows the optimizers, or the only call of the
    function that does; where that may not replace them each time, the statement in it, if it sees them as globals.
    """
    last = replaced[-1]
    inner = body_around(last.place.file, last.place.line)
    for level in failure.users:
        if inner is None or level.body is None or any(level.value(each) is None for each in owners):
            continue
        if inner.node is level.body.node:
            return last.place, False
        calls = [
            level.body.place(each)
            for each in statements(level.body.node)
            if each.lineno <= level.line and any(callee(call)[1] == inner.name for call in calls_in(each))
        ]
        before = any(isinstance(s, ast.Return) and s.lineno < last.place.line for s in statements(inner.node))
        at, sometimes = only(calls), before or bool(conditions_around(inner, last.place.line))
        is_turning = at is not None and sometimes and bool(loops_around(level.body, at.line))
        if (at is None or is_turning) and _sees(inner, level.body, replaced, [*owners, *names]):
            return last.place, False
        return at, is_turning
    return None, False


def _sees(inner: Body, around: Body, replaced: Sequence[_Replaced], names: Sequence[str]) -> bool:
    """Whether a function sees these names as globals, and replaces these leaves once, not those that it is given."""
    given = parameters_of(inner.node)
    first, own = {each.partition(".")[0] for each in names}, {*given, *declared(inner.node)}
    within = (body_around(each.place.file, each.place.line) for each in replaced)
    return (
        isinstance(around.node, ast.Module)
        and around.file == inner.file
        and not first & own
        and all(body is not None and body.node is inner.node for body in within)
        and all(each.path.partition(".")[0] not in given - {"self"} for each in replaced)
        and not loops_around(inner, replaced[-1].place.line)
    )
