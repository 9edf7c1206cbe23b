"""BS208: a gradient has another shape, dtype or device than what it belongs to; mostly from a custom Function."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence

from backsight.diagnosis.errors.gradient_assigned import gradient_assigned
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.custom import Applied, applied, body_of, elements, returned
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shaped, shown
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Place
from backsight.source.ancestry import ancestors
from backsight.source.bindings import uses
from backsight.source.body import Body, callee, dotted, statement_at, statements
from backsight.story.failure import Failure
from backsight.story.memory import needs_gradient
from backsight.tape.ops import op_name

_SHAPES = re.compile(r"got \[(?P<got>[\d, ]*)\] but expected shape compatible with \[(?P<due>[\d, ]*)\]")
_CHECK = "torch.autograd.gradcheck tests a backward against finite differences."


@explains(
    "BS208",
    r"[Ff]unction (?P<node>\w+) returned an invalid gradient at index (?P<index>\d+) - (?P<what>.*)"
    r"|attempting to assign a gradient (?P<assigned>with dtype|with device|of size|with layout)",
)
def gradient_shape(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the argument, the statement that computes its gradient, and for a transposed product the right one."""
    if match["assigned"]:
        return gradient_assigned(failure, match["assigned"].rpartition(" ")[2])
    found = applied(failure, match["node"])
    shapes = _SHAPES.search(match["what"])
    if found is None or shapes is None:
        return _by_message(failure, match, found)
    index = int(match["index"])
    got, due = _sizes(shapes["got"]), _sizes(shapes["due"])
    name = found.argument_at(index) or f"its input {index}"
    computed = _computation(found, name)
    where = failure.source
    lines: list[Fact] = []
    if computed:
        body, place, value = computed
        lines.append(shown(place, f"returns a gradient {_of(got)} for {name}."))
        where = str(place)
    else:
        body, value = None, None
    lines.append(f"{name} has shape {shaped(due)}; its gradient must have the same shape.")
    return explanation(
        f"{found.name}'s backward returns a gradient {_of(got)} for {name}, whose shape is {shaped(due)}.",
        tuple(lines),
        f"{_swapped(found, name, got) or _fix(name, got, due, body, value)} {_CHECK}",
        source=where,
    )


def _swapped(found: Applied, name: str, got: Sequence[int]) -> str:
    """What to do where the gradient has the very shape of another argument, whose own stands elsewhere."""
    shapes = {each: shape for each, shape in found.shapes.items() if each != name and shape == tuple(got)}
    transposed = tuple(reversed(found.shapes.get(name, ()))) == tuple(got)
    if len(shapes) != 1 or transposed:
        return ""
    return (
        f"That is the shape of {next(iter(shapes))}: return the gradients in the order of forward's arguments, "
        f"{', '.join(found.arguments)}."
    )


def _of(shape: Sequence[int]) -> str:
    return f"of shape {shaped(shape)}" if shape else "without dimensions"


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size.strip())


def _computation(found: Applied, name: str) -> tuple[Body, Place, ast.expr] | None:
    """The statement in backward that computes the gradient of `name`, and the expression that is its value."""
    body = body_of(found.cls, found.backward)
    statements = returned(body) if body else []
    due = len(found.needed)
    statement = next((each for each in statements if len(elements(each)) >= due), None)
    if body is None or statement is None or name not in found.arguments:
        return None
    value = elements(statement)[found.arguments.index(name)]
    variable = dotted(value)
    made = ancestors(body, variable, value.lineno).get(variable) if variable else None
    if made is None or not made.bound:
        return body, body.place(statement), value
    place = made.bound[0]
    assigned = statement_at(body, place.line)
    right = assigned.value if isinstance(assigned, ast.Assign) and dotted(assigned.targets[0]) == variable else value
    return body, place, right


def _fix(name: str, got: Sequence[int], due: Sequence[int], body: Body | None, value: ast.expr | None) -> str:
    if len(got) == 2 and list(got) == list(reversed(due)):
        product = transposed(body, value) if body and value is not None else None
        return f"The gradient has the transposed shape: {f'write {product}' if product else 'transpose it with .T'}."
    if _is_expanded(value):
        broadcast = tuple(k for k, size in enumerate(due) if size == 1)
        only = f", .sum(dim={broadcast}, keepdim=True)," if broadcast else ""
        return (
            f"Each entry of {name} has its own gradient, but expand() repeats one number. Sum only over the dimensions "
            f"along which {name} was broadcast{only} and do not expand the result."
        )
    if math.prod(got) == math.prod(due):
        return (
            f"The gradient has as many entries as {name}. If they are in the same order, reshape it: "
            f"{_reshaping(name, due, body)}."
        )
    if len(due) < len(got) and list(got[len(got) - len(due) :]) == list(due):
        axes = ", ".join(str(k) for k in range(len(got) - len(due)))
        return f"{name} was used for every row: sum the gradients over all rows with .sum({axes})."
    if not got:
        return f"Do not reduce it to a scalar: each entry of {name} has its own gradient."
    return f"Return it in the shape of {name}: sum it over the dimensions along which {name} was broadcast."


def _is_expanded(value: ast.expr | None) -> bool:
    """Whether the expression repeats values: the gradient of each entry is then the same number."""
    return isinstance(value, ast.Call) and callee(value)[1] in ("expand", "expand_as")


def _reshaping(name: str, due: Sequence[int], body: Body | None) -> str:
    """The call that reshapes to an argument's shape; by the argument where the backward has a variable of that name."""
    known = body is not None and any(use.name == name and use.binds for s in statements(body.node) for use in uses(s))
    return f".view_as({name})" if known or body is None else f".reshape({', '.join(map(str, due))})"


def transposed(body: Body, value: ast.expr) -> str | None:
    """The transpose of a matrix product, as text: `grad_output.T @ x` for `x.T @ grad_output`."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult)):
        return None
    if isinstance(value.left, ast.BinOp) or isinstance(value.right, ast.BinOp):
        return f"({body.text(value)}).T"
    return f"{_turned(body, value.right)} @ {_turned(body, value.left)}"


def _turned(body: Body, value: ast.expr) -> str:
    if isinstance(value, ast.Attribute) and value.attr in ("T", "mT"):
        return body.text(value.value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "t":
        return body.text(value.func.value)
    return f"{body.text(value)}.T"


def _by_message(failure: Failure, match: re.Match[str], found: Applied | None) -> Finding:
    """A mismatch of dtype or device, or an operation of PyTorch's: then a tensor changed since the forward pass."""
    index = int(match["index"])
    where = failing(failure, "is the call that failed.")
    if found is not None or not re.search(r"Backward\d+$", match["node"]):
        function = found.name if found else match["node"].removesuffix("Backward")
        name = (found.argument_at(index) if found else "") or f"its input {index}"
        computed = _computation(found, name) if found else None
        return explanation(
            f"{function}'s backward returns a gradient for {name} that does not match it: {match['what']}.",
            (*((shown(computed[1], f"returns that gradient for {name}."),) if computed else ()), *where),
            f"Return a gradient with the shape, dtype and device of {name}. {_CHECK}",
            source=str(computed[1]) if computed else failure.source,
            exact=found is not None,
        )
    name = _leaf_at(failure, match["node"], index)
    what = name or f"input {index} of {op_name(match['node']).lower()}"
    return explanation(
        f"{what} got another shape through .data, but autograd expects its gradient in the old shape.",
        (f"{match['node']}, input {index}: {match['what']}.", *where),
        f"Look for what replaced the data of {name or 'that tensor'}: `.data = ...`, `.resize_()`, pruning. Create a "
        "new nn.Parameter instead, pass it to the optimizer, and rerun the forward pass.",
        source=failure.source,
        exact=bool(name),
    )


def _leaf_at(failure: Failure, node_name: str, index: int) -> str:
    """The name of the leaf that an operation of this kind has as its input `index`, if its shape has changed since."""
    if not any(needs_gradient(root) for root in failure.roots):
        return ""
    for node in survey(failure.roots, frames=failure.frames).graph.nodes:
        edge = node.inputs[index] if node.name == node_name and index < len(node.inputs) else None
        if edge is not None and edge.node.leaf is not None:
            return edge.node.leaf.name
    return ""
