"""BS143: the backward of a custom Function does not use the gradient that it is given."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from backsight.diagnosis.amending import around, instead, written
from backsight.diagnosis.evidence.custom import elements, returned
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, listed, shown, warning
from backsight.source import Body, Place
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, functions, statements
from backsight.source.definitions import flow_of
from backsight.source.rewriting import rewritten
from backsight.story.holders import users
from backsight.tape import Graph, Node

_METADATA = frozenset(
    {"shape", "dtype", "device", "layout", "size", "dim", "ndim", "numel", "is_cuda", "is_contiguous", "stride"}
    | {"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "type", "requires_grad", "data_ptr"}
)
_LIKE = frozenset(
    {
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "rand_like",
        "randn_like",
        "print",
        "isinstance",
        "type",
        "len",
    }
)
_ZEROS = frozenset({"zeros_like", "new_zeros", "zeros"})


@rule("BS143")
def ignored_gradient(scene: Scene) -> Iterator[Finding]:
    """What it returns is computed without the values of any gradient it is given, and is not None or zeros.

    A loss that computes its gradient ahead may do without, where what comes is 1: of a scalar nothing is said, nor
    where all that follows is a sum.
    """
    told: set[str] = set()
    customs = [node for node in scene.graph.nodes if node.kind == "custom"] if _has_custom(scene.graph) else []
    above = users(scene.graph) if customs else {}
    for node in customs:
        where = node.definition
        if where is None or where in told or _is_given_ones(node, above):
            continue
        told.add(where)
        file, _, line = where.rpartition(":")
        body = _method(file, int(line), ("backward", "vjp"))
        given = _gradients(body) if body is not None else ()
        if body is None or not given:
            continue
        if not any(_reads(each, given) for each in body.node.body):
            yield _finding(scene, node, body, given, "")
        elif forgotten := _forgotten(body, _method(file, int(line), ("forward",)), given):
            yield _finding(scene, node, body, given, *forgotten)
        elif mask := masked(body, _method(file, int(line), ("forward",)), given):
            yield _masked(scene, node, body, mask)


def _masked(scene: Scene, node: Node, body: Body, mask: Masked) -> Finding:
    name, applied = node.name.removesuffix("Backward"), scene.line_of(node)
    return warning(
        "BS143",
        f"The backward of {name} chooses by the sign of {mask.gradient}, its forward by that of its input.",
        (
            shown(mask.place, f"compares the gradient, so everything before {name} gets a wrong gradient."),
            shown(mask.chosen, "compares the input, which is saved and which backward never reads."),
            if_known(applied, f"applies {name}."),
        ),
        f"Compare {mask.saved}: {mask.mended or f'{mask.saved} in place of {mask.gradient}'}"
        f"{written(mask.place, mask.mended)}. "
        f"`backsight verify {os.path.basename(body.file)}` tests the result.",
        mask.place,
        nodes=(node.index,),
    )


def _finding(scene: Scene, node: Node, body: Body, given: Sequence[str], of: str, at: int | None = None) -> Finding:
    """`of`: the one argument whose gradient ignores what is given, the value that is returned `at` a position."""
    name = node.name.removesuffix("Backward")
    last = returned(body)[-1]
    place, names = body.place(last), listed(list(given))
    applied = scene.line_of(node)
    every = elements(last) if at is None else elements(last)[at : at + 1]
    values = [each for each in every if not _is_nothing(each)]
    made = flow_of(body.node).touching.get(values[0].id, ()) if of and isinstance(values[0], ast.Name) else ()
    if len(made) == 1 and len(made[0][1]) == 1 and made[0][1][0].position is None and len(made[0][1][0].values) == 1:
        place, values = body.place(made[0][1][0].spot.node), [*made[0][1][0].values]
    fix = f"Multiply each gradient that it returns by {given[0]}, by the chain rule."
    if len(values) == 1 and len(given) == 1 and not isinstance(values[0], ast.Starred):
        text = body.text(values[0])
        new = f"{given[0]} * {text if isinstance(values[0], ast.Name | ast.Call) else f'({text})'}"
        fix = f"Multiply by it: {new}{instead(body, around(body, values[0]), {values[0]: new})}."
    whose = f"The gradient of {of} in the backward of" if of else "The backward of"
    return warning(
        "BS143",
        f"{whose} {name} ignores {names}, the gradient from the loss.",
        (
            shown(place, f"is computed without it, so everything before {of or name} gets a wrong gradient."),
            if_known(applied, f"applies {name}."),
        ),
        f"{fix} `backsight verify {os.path.basename(body.file)}` tests the result.",
        place,
        nodes=(node.index,),
    )


def _has_custom(graph: Graph) -> bool:
    return any(kind.kind == "custom" for kind in graph.types)


def _is_given_ones(node: Node, users: dict[int, list[Node]]) -> bool:
    """Whether the gradient of a Function's results may be 1 all over: it is the loss, or summed up to one."""
    while node.shape is not None and any(each != 1 for each in node.shape):
        above = users.get(node.index, [])
        if not above:
            return True  # a root, with whatever gradient the program gives it
        if len(above) != 1 or above[0].op != "Sum":
            return False
        node = above[0]
    return True


def _method(file: str, line: int, names: Sequence[str]) -> Body | None:
    """Return a method of the class that a file has at a line, which may begin with decorators."""
    around = body_around(file, line)
    owner = around.node if around is not None else None
    if not isinstance(owner, ast.ClassDef):
        return None
    inside = (each for each in functions(file) if any(each.node is own for own in owner.body))
    return next((each for each in inside if each.name in names), None)


def _gradients(body: Body) -> tuple[str, ...]:
    """Return what backward calls the gradients that it is given, if it returns something."""
    arguments = getattr(body.node, "args", None)
    if not isinstance(arguments, ast.arguments) or arguments.kwarg is not None:
        return ()
    if all(_is_nothing(each) for one in returned(body) for each in elements(one)):
        return ()
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    return (*names, arguments.vararg.arg) if arguments.vararg is not None else tuple(names)


def _forgotten(body: Body, forward: Body | None, given: Sequence[str]) -> tuple[str, int] | None:
    """Return the argument of forward whose gradient is computed without what is given, and its position.

    The result has to be computed from it: what is only passed along, as a loss whose gradient is put in, needs none.
    """
    arguments = getattr(forward.node, "args", None) if forward is not None else None
    if forward is None or not isinstance(arguments, ast.arguments) or arguments.vararg is not None:
        return None
    results = [elements(each) for each in returned(body)]
    every = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    names = every[-len(results[0]) :]  # without its ctx
    if len(every) > len(names) + 1 or any(len(each) != len(names) for each in results):
        return None
    handed = [ast.walk(each) for each in statements(body.node) if isinstance(each, ast.Expr) and _reads(each, given)]
    written = {n.id for each in handed for n in each if isinstance(n, ast.Name)}  # torch.mul(m, grad, out=result)
    carried, nothing = _carrying(body, {*given, *written}), _left_out(body)
    for at, name in enumerate(names):
        values = [each[at] for each in results]
        if any(_is_nothing(each) or (isinstance(each, ast.Name) and each.id in nothing) for each in values):
            continue
        if any(_reads(each, carried) for each in values):
            continue
        used = _carrying(forward, {name})
        if any(_reads(value, used) for each in returned(forward) for value in elements(each)):
            return name, at
    return None


def _carrying(body: Body, names: set[str]) -> set[str]:
    """Return the variables that have, or may have, something of the values of others, these included."""
    every = [(name, each) for name, known in flow_of(body.node).touching.items() for _, here in known for each in here]
    carried: set[str] = set()
    while names - carried:
        carried |= names
        names = {name.split(".")[0] for name, each in every if any(_reads(value, carried) for value in each.values)}
    return carried


def _left_out(body: Body) -> set[str]:
    """Return the variables that hold nothing but None or zeros, as the text has it."""
    known = {name: [d for _, here in each for d in here] for name, each in flow_of(body.node).touching.items()}
    return {name for name, every in known.items() if all(d.values and all(map(_is_nothing, d.values)) for d in every)}


def _reads(node: ast.AST, names: Collection[str]) -> bool:
    """Whether values of one of these names are read, and not its shape or dtype alone."""
    match node:
        case ast.Name(id=name):
            return name in names and isinstance(node.ctx, ast.Load)
        case ast.Attribute(value=ast.Name(), attr=attr) if attr in _METADATA:
            return False
        case ast.Call() if callee(node)[1] in _LIKE:
            return any(_reads(each.value, names) for each in node.keywords)
        case ast.Assert():
            return False
        case ast.If(test=test):  # `if grad_output is None`
            return any(_reads(each, names) for each in (*node.body, *node.orelse)) or (
                not isinstance(test, ast.Compare) and _reads(test, names)
            )
    return any(_reads(each, names) for each in ast.iter_child_nodes(node))


def _is_nothing(value: ast.expr) -> bool:
    """Whether a returned value is None or zeros, which stop the gradient."""
    if isinstance(value, ast.Constant):
        return value.value is None
    return isinstance(value, ast.Call) and callee(value)[1] in _ZEROS


_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


class Masked(NamedTuple):
    """The statement that compares the gradient, what it should compare, where forward does that, and how to mend it."""

    place: Place
    gradient: str
    saved: str
    chosen: Place
    mended: str


def masked(backward: Body, forward: Body | None, given: Collection[str]) -> Masked | None:
    """Return where backward compares the gradient with a number, though it has saved what forward compares with one.

    What was saved is unpacked there and never read. A backward that looks at both, as guided backpropagation does, or
    that has saved nothing, means it.
    """
    saved = [name for name in _unpacked(backward) if _times_read(backward, name) == 0]
    if forward is None or len(saved) != 1:
        return None
    names = _saved(forward)
    chosen = next(((s, n) for s, n in _compared(forward) if n in names), None)
    compared = next(((s, n) for s, n in _compared(backward) if n in given), None)
    if chosen is None or compared is None:
        return None
    statement, gradient = compared
    swaps: dict[ast.expr, str] = {
        side: saved[0]
        for node in expressions(statement)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Name) and side.id == gradient
    }
    mended = rewritten(backward, statement, swaps) or ""
    return Masked(backward.place(statement), gradient, saved[0], forward.place(chosen[0]), mended)


def _unpacked(body: Body) -> Iterator[str]:
    """Yield the variables that a backward gives what was saved."""
    for each in statements(body.node):
        if isinstance(each, ast.Assign) and (dotted(each.value) or "").endswith(".saved_tensors"):
            for goal in each.targets:
                yield from (
                    n.id for n in (goal.elts if isinstance(goal, ast.Tuple) else [goal]) if isinstance(n, ast.Name)
                )


def _times_read(body: Body, name: str) -> int:
    nodes = (node for each in statements(body.node) for node in expressions(each))
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in nodes)


def _saved(forward: Body) -> set[str]:
    calls = (call for each in statements(forward.node) for call in calls_in(each))
    return {
        name for call in calls if callee(call)[1] == "save_for_backward" for each in call.args if (name := dotted(each))
    }


def _compared(body: Body) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements that compare a variable with a number, each with that variable."""
    for statement in statements(body.node):
        for node in expressions(statement):
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _ORDERS):
                sides = (node.left, node.comparators[0])
                names = [each.id for each in sides if isinstance(each, ast.Name)]
                if len(names) == 1 and any(isinstance(each, ast.Constant | ast.UnaryOp) for each in sides):
                    yield statement, names[0]
