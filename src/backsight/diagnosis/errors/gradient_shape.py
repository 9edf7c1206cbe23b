"""BS208: a gradient has another shape, dtype or device than what it belongs to; mostly from a custom Function."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from backsight.diagnosis.errors.data_replaced import data_replaced, replaced_leaves
from backsight.diagnosis.errors.gradient_assigned import gradient_assigned
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.errors.sizes_mixed import sizes_mixed
from backsight.diagnosis.evidence.custom import Applied, applied, body_of, elements, returned
from backsight.diagnosis.evidence.part_read import PartRead, part_read
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shaped, shown
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.source.ancestry import ancestors
from backsight.source.bindings import parameters_of, uses
from backsight.source.body import Body, callee, dotted, expressions, is_constant, keyword, statement_at, statements
from backsight.source.out_of_place import arguments
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Failure
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
    part = part_read(found, name, got, due)
    if part is not None:
        lines.append(shown(part.place, f"reads only {part.text} of {name}: the gradient of the rest is 0."))
    mixed = sizes_mixed(body, value, name, got, due) if body is not None and value is not None else ""
    fix = (
        _of_part(part, name, body, value)
        or _swapped(found, name, got)
        or mixed
        or _fix(found, name, got, due, body, value)
    )
    return explanation(
        f"{found.name}'s backward returns a gradient {_of(got)} for {name}, whose shape is {shaped(due)}.",
        tuple(lines),
        f"{fix} {_CHECK}",
        source=where,
    )


def _of_part(part: PartRead | None, name: str, body: Body | None, value: ast.expr | None) -> str:
    """What to do where forward reads a part of the argument alone, whose shape the gradient has."""
    if part is None:
        return ""
    text = body.text(value) if body is not None and value is not None else ""
    if part.padding is None or not text or "…" in text:
        return f"Put it into zeros of the shape of {name}, at the places of {part.text}; where one repeats, add up."
    return f"Fill the rest with zeros: {_write(body, value, part.whole(text))}."


def _swapped(found: Applied, name: str, got: Sequence[int]) -> str:
    """What to do where the gradient has the very shape of another argument, whose own stands elsewhere.

    The engine looks at one after the other: the gradients of the arguments before are right.
    """
    later = found.arguments[found.arguments.index(name) + 1 :] if name in found.arguments else ()
    shapes = {each: shape for each, shape in found.shapes.items() if each in later and shape == tuple(got)}
    transposed = tuple(reversed(found.shapes.get(name, ()))) == tuple(got)
    if len(shapes) != 1 or transposed:
        return ""
    return (
        f"That is the shape of {next(iter(shapes))}: return the gradients in the order of forward's arguments, "
        f"{', '.join(found.arguments)}{_exchanged(found, name, next(iter(shapes)))}."
    )


def _exchanged(found: Applied, name: str, other: str) -> str:
    """The statement that returns the gradients, with those of two arguments exchanged."""
    body = body_of(found.cls, found.backward)
    every = returned(body) if body else []
    values = elements(every[0]) if len(every) == 1 else []
    if body is None or len(values) != len(found.arguments):
        return ""
    one, two = (values[found.arguments.index(each)] for each in (name, other))
    return f": `{rewritten(body, every[0], {one: body.text(two), two: body.text(one)})}`"


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


def _fix(
    found: Applied, name: str, got: Sequence[int], due: Sequence[int], body: Body | None, value: ast.expr | None
) -> str:
    if len(got) == 2 and list(got) == list(reversed(due)):
        product = transposed(body, value) if body and value is not None else None
        return f"The gradient has the transposed shape: {_write(body, value, product or _then(body, value, '.T'))}."
    if _is_expanded(value):
        broadcast = tuple(k for k, size in enumerate(due) if size == 1)
        only = f", .sum(dim={broadcast}, keepdim=True)," if broadcast else ""
        return (
            f"Each entry of {name} has its own gradient, but expand() repeats one number. Sum only over the dimensions "
            f"along which {name} was broadcast{only} and do not expand the result."
        )
    if math.prod(got) == math.prod(due):
        call = value if isinstance(value, ast.Call) and is_constant(keyword(value, "keepdim"), True) else None
        if call is not None and body and [size for size in got if size != 1] == [size for size in due if size != 1]:
            given = ", ".join(arguments(body, call, but="keepdim"))
            new = f"{body.text(call.func)}({given})"
            return f"Drop the dimensions of size 1: {_write(body, value, new)}, without keepdim=True."
        shaping = _reshaping(name, due, body)
        kept = _shape_kept(found, name) if shaping.startswith(".reshape(ctx.") else ""
        return (
            f"The gradient has as many entries as {name}. If they are in the same order, reshape it: "
            f"{_write(body, value, _then(body, value, shaping))}{kept}."
        )
    total = _total(value)
    whole, summed = _before_sum(found, total, got) if total is not None else (value, got)
    how = _summing(found, name, summed, due)
    if how:
        written = _write(body, total or value, _then(body, whole, how))
        return f"{name} was broadcast, so sum its gradient over the other dimensions alone: {written}."
    if not got:
        return f"Do not reduce it to a scalar: each entry of {name} has its own gradient."
    return (
        f"Return one gradient for each entry of {name}, in its shape: the sum over all uses of that entry in forward, "
        "and 0 for one that forward does not use."
    )


def _then(body: Body | None, value: ast.expr | None, call: str) -> str:
    """A call on an expression, as text; the call alone where the expression is too long to be read."""
    text = body.text(value) if body and value is not None else ""
    return f"{simple(text)}{call}" if text and "…" not in text else call


def _write(body: Body | None, node: ast.expr | None, new: str) -> str:
    """`on line 24, write grad_step = ...`, the statement with an expression replaced."""
    statement = statement_at(body, node.lineno, node.col_offset) if body and node is not None else None
    text = rewritten(body, statement, {node: new}) if body and statement and node and new[:1] != "." else ""
    return f"on line {statement.lineno}, write `{text}`" if text and statement else new


def _total(value: ast.expr | None) -> ast.Call | None:
    """The sum that an expression is, or is a multiple of: that of `(a * b).sum() * ctx.scale`."""
    match value:
        case ast.Call() if callee(value)[1] in ("sum", "mean") and callee(value)[0] is not None:
            return value
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return _total(left) or _total(right)
        case ast.UnaryOp(operand=operand):
            return _total(operand)
    return None


def _before_sum(found: Applied, value: ast.Call, got: Sequence[int]) -> tuple[ast.expr | None, Sequence[int]]:
    """What a sum over the wrong dimensions is taken of, with its shape, where that is the output's; else the value."""
    receiver, _ = callee(value)
    given = keyword(value, "dim") or (value.args[0] if value.args else None)
    for shape in found.outputs:
        try:
            dims = ast.literal_eval(given) if given is not None else tuple(range(len(shape)))
        except ValueError:
            break
        gone = {dim % len(shape) for dim in (dims if isinstance(dims, tuple | list) else (dims,)) if shape}
        if tuple(size for k, size in enumerate(shape) if k not in gone) == tuple(got):
            return receiver, shape
    return value, got


def _summing(found: Applied, name: str, got: Sequence[int], due: Sequence[int]) -> str:
    """The call that sums a gradient over the dimensions along which an argument was broadcast; empty if unclear."""
    kept = next(_placed(found, name, len(got)), None)
    if kept is not None and [got[k] for k in kept] == list(due):
        return _sum([k for k in range(len(got)) if k not in kept])
    fill = len(got) - len(due)
    if fill < 0 or any(size not in (1, got[fill + k]) for k, size in enumerate(due)):
        return _only_choice(got, due)
    ones = [k for k in range(fill, len(got)) if due[k - fill] != got[k]]
    if ones and fill:
        return f".sum_to_size({', '.join(map(str, due))})"
    return _sum(ones, ", keepdim=True") if ones else _sum([*range(fill)])


def _only_choice(got: Sequence[int], due: Sequence[int]) -> str:
    """The sum that gives a shape, where one choice of dimensions alone does: over 0 and 2 for 24 of 16×24×1."""
    every = [kept for kept in combinations(range(len(got)), len(due)) if [got[k] for k in kept] == list(due)]
    return _sum([k for k in range(len(got)) if k not in every[0]]) if len(every) == 1 and len(due) < len(got) else ""


def _sum(dims: Sequence[int], keepdim: str = "") -> str:
    return f".sum({dims[0] if len(dims) == 1 else tuple(dims)}{keepdim})"


def _placed(found: Applied, name: str, rank: int) -> Iterator[list[int]]:
    """Which dimensions of a tensor those of an argument are, as the text spreads it: `[1]` for `x.view(1, -1, 1)`."""
    for body in filter(None, (body_of(found.cls, "forward"), body_of(found.cls, found.backward))):
        for node in (node for each in statements(body.node) for node in expressions(each)):
            sizes: list[ast.expr] = []
            if (
                isinstance(node, ast.Call)
                and callee(node)[1] in ("view", "reshape")
                and dotted(callee(node)[0]) == name
            ):
                sizes = node.args
            elif isinstance(node, ast.Subscript) and dotted(node.value) == name and isinstance(node.slice, ast.Tuple):
                sizes = node.slice.elts
            kept = [
                k for k, each in enumerate(sizes) if not (isinstance(each, ast.Constant) and each.value in (1, None))
            ]
            if len(sizes) == rank:
                yield kept


def _is_expanded(value: ast.expr | None) -> bool:
    """Whether the expression repeats values: the gradient of each entry is then the same number."""
    return isinstance(value, ast.Call) and callee(value)[1] in ("expand", "expand_as")


def _reshaping(name: str, due: Sequence[int], body: Body | None) -> str:
    """The call that reshapes to an argument's shape, in every call: by the argument where the backward has a variable
    of that name."""
    known = body is not None and any(use.name == name and use.binds for s in statements(body.node) for use in uses(s))
    if known or body is None:
        return f".view_as({name})"
    if len(due) < 2:
        return f".reshape({'-1' if due else '()'})"
    return f".reshape(ctx.{name}_shape)"


def _shape_kept(found: Applied, name: str) -> str:
    """Where forward keeps the shape of an argument for backward."""
    body, keep = body_of(found.cls, "forward"), f"`ctx.{name}_shape = {name}.shape`"
    if body is None or not {"ctx", name} <= parameters_of(body.node) or not isinstance(body.node, ast.FunctionDef):
        return f", with {keep} in {'setup_context' if found.has_setup else 'forward'}"
    first = body.node.body[1 if ast.get_docstring(body.node) else 0]
    return f", and put {keep} above line {first.lineno}"


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
    operation = op_name(match["node"]).lower()
    said = f"{match['node']}, input {index}: {match['what']}."
    return data_replaced(failure, replaced_leaves(failure), f"input {index} of {operation}", said)
