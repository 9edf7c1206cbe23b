"""BS117: an N×1 and an N meet, and every entry of one is compared with every entry of the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.amending import instead, place_on, renewed, swapped
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, shaped, shown, warning
from backsight.source import Body, assignments, parsed, statement_at
from backsight.source.body import body_around, callee, dotted, expressions, given_to, keyword, statements
from backsight.source.edits import OR
from backsight.source.rewriting import rewritten, simple
from backsight.story.fixes import too
from backsight.story.holders import given, users
from backsight.tape import Node
from backsight.tracing import Line, Met


@rule("BS117")
def broadcast(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: their N×N result goes into the loss as it is, up to a mean or sum over all of it.

    A result that is taken apart again, as by a minimum over one side, is meant; so is an operand that was given its
    shape for the purpose, and one that is the same in each step, such as levels or a grid.
    """
    told: set[str] = set()
    for index, met in scene.met().items():
        here = str(met.line.place)
        if met.column < 0 or here in told or not _all_of_it(scene, index, met.shapes[met.column][0]):
            continue
        told.add(here)  # one statement has one fix, however often they meet in it
        tall, flat = met.operands[met.column], met.operands[met.row]
        rows = met.shapes[met.column][0]
        if len(met.shapes[met.row]) == 2:
            yield _against_square(met, tall, flat, rows, index)
            continue
        first, second = (f"`{tall}`" if tall else "one", f"`{flat}`" if flat else "the other")
        fix = (
            _same_shape(met, tall, flat)
            if tall and flat and "…" not in f"{tall}{flat}"
            else "Give both the same shape: .squeeze(1) on one of them, or .unsqueeze(1) on the other."
        )
        yield warning(
            "BS117",
            f"{first} is {rows}×1 and {second} has shape {rows}: the loss compares every entry with all {rows}.",
            (
                shown(
                    met.line.place,
                    f"broadcasts {shaped(met.shapes[0])} and {shaped(met.shapes[1])} to {shaped((rows, rows))}.",
                ),
            ),
            fix,
            met.line,
            nodes=(index,),
        )
    for each in against_features(scene):
        if (here := str(each.meeting.place)) not in told:
            told.add(here)
            yield _of_samples(each)


def _of_samples(met: Reduced) -> Finding:
    text, reducing, joining = met.reduction.segment, met.reduction.place, met.meeting.place
    reduces = f"reduces {met.size}×{met.size} to {met.size} values, one for each sample"
    broadcasts = "broadcasts them along the samples: entry k goes to feature k of every sample."
    lines = (shown(reducing, f"{reduces}."), shown(joining, broadcasts))
    return warning(
        "BS117",
        f"`{text}` has a value for each sample, and meets the features: there are {met.size} of both.",
        (
            *(lines if reducing != joining else (shown(reducing, f"{reduces}, and {broadcasts}"),)),
            "With another batch size, it would raise.",
        ),
        f"Keep the dimension, so that each value goes to its own sample: {met.kept}{renewed(met.reduction, met.kept)}.",
        reducing,
        nodes=(met.node.index,),
    )


def _same_shape(met: Met, tall: str, flat: str) -> str:
    """Say how one of two operands gets the shape of the other, here and where else the function joins the two."""
    here = met.line.place
    body = body_around(here.file, here.line)
    lines = [
        each.lineno
        for each in statements(body)
        for node in expressions(each)
        if isinstance(node, ast.BinOp) and {dotted(node.left), dotted(node.right)} == {tall, flat}
    ]
    others = [line for line in dict.fromkeys(lines) if line != here.line]
    places = [met.line, *(place_on(here.file, line) for line in others)]
    lower, higher = (
        "".join(swapped(at, {old: new}) for at in places)
        for old, new in ((tall, f"{simple(tall)}.squeeze(1)"), (flat, f"{simple(flat)}.unsqueeze(1)"))
    )
    one, other = f"{simple(tall)}.squeeze(1){lower}", f"{simple(flat)}.unsqueeze(1){higher}"
    return f"Give both the same shape: {one}, {OR}or {other}.{_at_once(met, tall, body, others)}"


def _at_once(met: Met, tall: str, body: Body | None, others: list[int]) -> str:
    made = assignments(body, tall) if body is not None and others else []
    statement = statement_at(body, *made[0].position) if len(made) == 1 else None
    if body is None or not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return too(others)
    squeezed: dict[ast.expr, str] = {statement.value: f"{simple(body.text(statement.value))}.squeeze(1)"}
    new, edit = rewritten(body, statement, squeezed), instead(body, statement, squeezed)
    return f"{too(others)} {OR}Or mend them all on line {statement.lineno}: `{new}`{edit}." if new else too(others)


def _against_square(met: Met, tall: str, flat: str, rows: int, index: int) -> Finding:
    """Tell of a target, or an advantage, that was broadcast before, where there were no gradients."""
    first, second = (f"`{tall}`" if tall else "the prediction"), (f"`{flat}`" if flat else "the target")
    is_flat = len(met.shapes[met.column]) == 1
    shape, which, method = (rows, "second", "squeeze(1)") if is_flat else (f"{rows}×1", "first", "unsqueeze(1)")
    where = f"where it is computed, a tensor of shape {rows} is combined with one of {rows}×1. Use .{method} on the "
    where += f"{which} there"
    made, of = met.made, met.of[not is_flat]
    if made is not None and of:
        new = f"{simple(of)}.{method}"
        where = f"on line {made.line}, write `{new}` for `{of}`{swapped(made, {of: new})}"
    return warning(
        "BS117",
        f"{first} has shape {rows} and {second} is {rows}×{rows}: the loss combines every entry with all {rows}."
        if is_flat
        else f"{first} is {rows}×1 and {second} is {rows}×{rows}: the loss compares every entry with all {rows}.",
        (
            if_known(made, f"broadcasts {rows} and {rows}×1 to {rows}×{rows}."),
            shown(met.line.place, f"broadcasts {shaped(met.shapes[0])} and {shaped(met.shapes[1])}."),
        ),
        f"Compute {second} with shape {shape}: {where}.",
        (made or met.line).place,
        nodes=(index,),
    )


def _all_of_it(scene: Scene, index: int, rows: int) -> bool:
    """Whether all that is made of the node is as large as it is, until it is one number."""
    above = users(scene.graph)
    stack, seen = [index], {index}
    while stack:
        at = stack.pop()
        shape = scene.graph.nodes[at].shape
        if shape == () or (shape is not None and not any(each != 1 for each in shape)):
            continue
        if shape != (rows, rows):
            return False
        more = [each.index for each in above.get(at, []) if each.index not in seen]
        if at not in above:
            return False
        seen.update(more)
        stack += more
    return True


# Values of the samples that meet the features, because there happen to be as many of both.


_JOINS = frozenset({"Add", "Sub", "Mul", "Div"})
_REDUCTIONS = {
    "Sum": ("sum",),
    "Mean": ("mean",),
    "LinalgVectorNorm": ("norm", "vector_norm"),
    "Norm": ("norm",),
    "Std": ("std",),
    "Var": ("var",),
    "Amax": ("amax",),
    "Amin": ("amin",),
    "Max": ("max",),
    "Min": ("min",),
    "Logsumexp": ("logsumexp",),
}
"""The operations, each with the calls that run them."""

_ENTRY_BY_ENTRY = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Exp", "Log", "Sqrt", "Rsqrt", "Abs", "Neg", "Clamp", "ClampMin", "Reciprocal"}
    | {"Relu", "LeakyRelu", "Elu", "Gelu", "Silu", "Tanh", "Sigmoid", "Softplus", "ToCopy", "NativeDropout"}
)


class Reduced(NamedTuple):
    """A reduction over the features, where its result meets what has them, and how it keeps their dimension."""

    size: int
    reduction: Line
    meeting: Line
    node: Node
    kept: str


def against_features(scene: Scene) -> Iterator[Reduced]:
    """Yield the reductions over the features of a layer's result that go into that result along its features.

    Only where a layer has made it: then its rows are the samples, and no symmetry makes rows and columns alike.
    """
    for node in scene.graph.nodes:
        size = node.shape[0] if node.op in _JOINS and node.shape and len(node.shape) == 2 else 0
        if size < 2 or node.shape != (size, size):
            continue
        both = given(node)
        small = next((each for each in both if each.shape == (size,)), None)
        large = next((each for each in both if each.shape == (size, size)), None)
        reduction = _first(small, (size,), _REDUCTIONS) if small is not None else None
        if reduction is None or large is None:
            continue
        base = _first(large, (size, size))
        rows = [each for each in given(reduction) if each.shape == (size, size)]
        if base is None or not _is_of_a_layer(base) or [_first(each, (size, size)) for each in rows] != [base]:
            continue
        where, meeting = scene.line_of(reduction), scene.line_of(node)
        kept = _keeping(where.segment, _REDUCTIONS[reduction.op]) if where is not None else ""
        if kept and where is not None and meeting is not None:
            yield Reduced(size, where, meeting, node, kept)


def _first(node: Node, shape: tuple[int, ...], wanted: dict[str, tuple[str, ...]] | None = None) -> Node | None:
    """The first node behind some that work entry by entry; of a wanted kind, where that matters.

    None where rows were scaled on the way: with both, as in the normalization of a graph, columns are scaled too.
    """
    at: Node | None = node
    while at is not None and at.op in _ENTRY_BY_ENTRY:
        if at.op in ("Mul", "Div") and any(each.shape == (*shape[:1], 1) for each in given(at)):
            return None
        alike = [each for each in given(at) if each.shape == shape]
        at = alike[0] if alike else None
    return at if at is not None and (wanted is None or at.op in wanted) else None


def _is_of_a_layer(node: Node) -> bool:
    """Whether a node multiplies what is no weight by one from the right, as nn.Linear does."""
    both = given(node)
    weights = (each for each in both if each.op == "T")
    with_weight = any(leaf.kind == "leaf" for each in weights for leaf in given(each))
    return with_weight and (node.op == "Addmm" or (node.op == "Mm" and all(each.kind != "leaf" for each in both)))


def _keeping(segment: str, names: tuple[str, ...]) -> str:
    """A reduction over the last of two dimensions as text, with that dimension kept; empty for any other."""
    calls = [n for n in ast.walk(parsed(segment) or ast.Pass()) if isinstance(n, ast.Call) and callee(n)[1] in names]
    if len(calls) != 1:
        return ""
    call = calls[0]
    written = keyword(call, "dim", "axis") or next(iter(given_to(call)[-1:]), None)
    try:
        dim = ast.literal_eval(written) if written is not None else None
    except ValueError:
        return ""
    if (dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim) not in (1, -1):
        return ""
    call.keywords = [each for each in call.keywords if each.arg != "keepdim"]
    call.keywords.append(ast.keyword("keepdim", ast.Constant(True)))
    return ast.unparse(call)
