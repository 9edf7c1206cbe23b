"""BS208: a gradient has another shape, dtype or device than what it belongs to; mostly from a custom Function."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from backsight.diagnosis.errors.mask_overwritten import by_mask
from backsight.diagnosis.errors.misfits import data_replaced, gradient_assigned, replaced_leaves
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.custom import Applied, applied, body_of, elements, returned
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shaped, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.source import Place, assignments
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, parameters_of, uses
from backsight.source.body import Body, callee, dotted, expressions, keyword, statement_at, statements
from backsight.source.edits import on_line, put, sentence, without_marks, write
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
    lines: list[Fact] = [f"{name} has shape {shaped(due)}; its gradient must have the same shape."]
    body, value, mixed, chosen = None, None, "", ""
    if computed is not None:
        body, place, value = computed
        why, chosen = size_chosen(body, statement_at(body, place.line), name, got, due)
        mixed = sizes_mixed(body, value, name, got, due)
        lines = [shown(place, f"returns a gradient {_of(got)} for {name}."), *lines, *why]
    part = part_read(found, name, got, due)
    if part is not None:
        lines.append(shown(part.place, f"reads only {part.text} of {name}: the gradient of the rest is 0."))
    fix = _of_part(part, name, body, value) or _swapped(found, name, got) or mixed or chosen
    fix = fix or _fix(found, name, got, due, body, value)
    return explanation(
        f"{found.name}'s backward returns a gradient {_of(got)} for {name}, whose shape is {shaped(due)}.",
        lines,
        f"{fix} {_CHECK}",
        source=computed[1] if computed else failure.source,
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
    """What to do where the shape is that of a later argument: the engine has looked at those before."""
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
    new = rewritten(body, every[0], {one: body.text(two), two: body.text(one)})
    return f": `{new}`{write(body.place(every[0]), new)}"


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
    whole = [each for each in made.bound if each in assignments(body, variable)] if made and variable else []
    if made is None or not whole:  # what writes entries, `grad[:, 0] = ...`, leaves the shape as it is
        return body, body.place(statement), value
    place = whole[0]
    assigned = statement_at(body, place.line)
    if isinstance(assigned, ast.Assign) and dotted(assigned.targets[0]) == variable and place == made.bound[0]:
        value = assigned.value
    return body, place, value


def _fix(
    found: Applied, name: str, got: Sequence[int], due: Sequence[int], body: Body | None, value: ast.expr | None
) -> str:
    if len(got) == 2 and list(got) == list(reversed(due)):
        product = transposed(body, value) if body and value is not None else None
        return f"The gradient has the transposed shape: {_write(body, value, product or _then(body, value, '.T'))}."
    if isinstance(value, ast.Call) and callee(value)[1] in ("expand", "expand_as"):  # each entry is the same number
        broadcast = tuple(k for k, size in enumerate(due) if size == 1)
        only = f", .sum(dim={broadcast}, keepdim=True)," if broadcast else ""
        return (
            f"Each entry of {name} has its own gradient, but expand() repeats one number. Sum only over the dimensions "
            f"along which {name} was broadcast{only} and do not expand the result."
        )
    if math.prod(got) == math.prod(due):
        shaping = _reshaping(name, due, body)
        kept = _shape_kept(found, name) if shaping.startswith(".reshape(ctx.") else ""
        written = _write(body, value, _then(body, value, shaping))
        if kept == without_marks(kept) != "":  # a program without that does not run
            written = without_marks(written)
        why = f"The gradient has as many entries as {name}. If they are in the same order, reshape it"
        if not math.prod(due):
            why = f"{name} has no entries in this call, and neither has its gradient: give it the same shape"
        return f"{why}: {written}{kept}."
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
    return on_line(body.place(statement), text) if text and body and statement else new


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
            match node:
                case ast.Call(ast.Attribute(of, "view" | "reshape"), sizes) | ast.Subscript(of, ast.Tuple(sizes)):
                    ones = [isinstance(each, ast.Constant) and each.value in (1, None) for each in sizes]
                    if dotted(of) == name and len(sizes) == rank:
                        yield [k for k, is_one in enumerate(ones) if not is_one]


def _reshaping(name: str, due: Sequence[int], body: Body | None) -> str:
    """The call that reshapes to an argument's shape: by the argument, where backward has a variable of that name."""
    known = body is not None and any(use.name == name and use.binds for s in statements(body.node) for use in uses(s))
    if known or body is None:
        return f".view_as({name})"
    if len(due) < 2:
        return f".reshape({'-1' if due else '()'})"
    return f".reshape(ctx.{name}_shape)"


def _shape_kept(found: Applied, name: str) -> str:
    """Where forward keeps the shape of an argument for backward."""
    body, new = body_of(found.cls, "forward"), f"ctx.{name}_shape = {name}.shape"
    keep = f"`{new}`"
    if body is None or not {"ctx", name} <= parameters_of(body.node) or not isinstance(body.node, ast.FunctionDef):
        return f", with {keep} in {'setup_context' if found.has_setup else 'forward'}"
    first = body.node.body[1 if ast.get_docstring(body.node) else 0]
    return f", and put {keep} above line {first.lineno}{put(new, 'above', body.place(first))}"


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
            source=computed[1] if computed else failure.source,
            exact=found is not None,
        )
    if (mask := by_mask(failure, match)) is not None:
        return mask
    operation = op_name(match["node"]).lower()
    said = f"{match['node']}, input {index}: {match['what']}."
    return data_replaced(failure, replaced_leaves(failure), f"input {index} of {operation}", said)


# The only part of an argument that a custom Function's forward reads: `scales[:, :2]`.


class PartRead(NamedTuple):
    """The statement, the part as it is written, and how its gradient becomes the argument's.

    dims: the dimensions that an index has removed. padding: the zeros before and after it, of the last dimension first;
    None where the part is not of consecutive entries, or where it begins is not known.
    """

    place: Place
    text: str
    dims: tuple[int, ...]
    padding: tuple[int, ...] | None

    def whole(self, gradient: str) -> str:
        """The gradient of the argument, as text, from that of the part."""
        for dim in self.dims:
            gradient = f"({gradient}).unsqueeze({dim})"
        return f"torch.nn.functional.pad({gradient}, {self.padding})" if any(self.padding or ()) else gradient


def part_read(found: Applied, name: str, got: Sequence[int], due: Sequence[int]) -> PartRead | None:
    """Return the only part of an argument that forward reads, where that can have the shape `got`."""
    body = body_of(found.cls, "forward")
    reads = list(_reads(body, name)) if body is not None else []
    statement, node = reads[0] if len(reads) == 1 else (None, None)
    spans = _spans(node.slice, got, due) if isinstance(node, ast.Subscript) else None
    if body is None or statement is None or node is None or spans is None:
        return None
    dims = tuple(k for k, span in enumerate(spans) if span is not None and span.removed)
    sides = [(0, 0) if span is None else (span.start, due[k] - span.end) for k, span in enumerate(spans)]
    while len(sides) > 1 and sides[0] == (0, 0):
        sides.pop(0)
    padding = tuple(side for pair in reversed(sides) for side in pair)
    return PartRead(body.place(statement), body.text(node), dims, None if None in spans else padding)


def _reads(body: Body, name: str) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Every expression that reads values of an argument, until the name stands for something else."""
    parents = {child: node for node in ast.walk(body.node) for child in ast.iter_child_nodes(node)}
    for statement in statements(body.node):
        names = [node for node in expressions(statement) if isinstance(node, ast.Name) and node.id == name]
        for node in names:
            around = parents[node]
            if isinstance(node.ctx, ast.Load) and not _only_keeps(around):
                yield statement, around if isinstance(around, ast.Subscript) and around.value is node else node
        if any(isinstance(node.ctx, ast.Store) for node in names):
            return


def _only_keeps(around: ast.AST) -> bool:
    """Whether what stands around an argument takes none of its values: `x.shape`, `ctx.save_for_backward(x)`."""
    if isinstance(around, ast.Attribute):
        return around.attr in ("shape", "size", "dtype", "device", "ndim", "dim", "numel")
    if isinstance(around, ast.Call):
        return callee(around)[1] in ("save_for_backward", "len")
    return isinstance(around, ast.Assign) and (dotted(around.targets[0]) or "").startswith("ctx.")


class _Span(NamedTuple):
    start: int
    end: int
    removed: bool


def _spans(index: ast.expr, got: Sequence[int], due: Sequence[int]) -> list[_Span | None] | None:
    """Which entries an index takes of each dimension, None where not known; None if they are not as many as `got`."""
    every = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    dots = [k for k, each in enumerate(every) if isinstance(each, ast.Constant) and each.value is Ellipsis]
    at = dots[0] if dots else len(every)
    full = [ast.Slice()] * (len(due) - len(every) + len(dots))
    every[at : at + len(dots)] = full
    if len(every) != len(due) or len(dots) > 1:
        return None
    if not all(isinstance(each, ast.Slice) or type(_number(each)) is int for each in every):
        rest = list(due[1:])  # a tensor of indices
        first_only = not isinstance(every[0], ast.Slice) and all(_is_full(each) for each in every[1:])
        return [None] if first_only and list(got[len(got) - len(rest) :]) == rest and len(got) > len(rest) else None
    spans: list[_Span | None] = []
    sizes = iter(got)
    for each, size in zip(every, due, strict=True):
        length = next(sizes, None) if isinstance(each, ast.Slice) else 1
        if length is None or length > size:
            return None
        spans.append(_span(each, length, size))
        if isinstance(span := spans[-1], _Span) and span.end - span.start != length:
            return None
    return spans if next(sizes, None) is None else None


def _span(index: ast.expr, length: int, size: int) -> _Span | None:
    if not isinstance(index, ast.Slice):
        start = _number(index)
        return _Span(start % size, start % size + 1, True) if isinstance(start, int) else None
    lower, upper, step = (_number(each) for each in (index.lower, index.upper, index.step))
    if step not in (None, 1):
        return None
    if "unknown" not in (lower, upper):
        start, end, _ = slice(lower, upper).indices(size)
        return _Span(start, end, False)
    if lower is None:
        return _Span(0, length, False)
    return _Span(size - length, size, False) if upper is None else None


def _number(node: ast.expr | None) -> int | str | None:
    """The number that an expression is, None without one, else "unknown"."""
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return "unknown"
    return value if type(value) is int else None if node is None else "unknown"


def _is_full(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and index.lower is index.upper is index.step is None


# The size of another dimension, where a backward cuts out or shapes a gradient: `grad[:, :, :w, :w]` of `h` by `w`.


_SHAPING = ("view", "reshape", "expand", "zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty")


def sizes_mixed(body: Body, value: ast.expr, name: str, got: Sequence[int], due: Sequence[int]) -> str:
    """Say which size stands for that of another dimension, and write the right one; empty where none does."""
    sizes = _sizes_by_name(body, name, len(due))
    wrong = [k for k in range(len(due)) if got[k] != due[k]] if len(got) == len(due) else []
    statement = statement_at(body, value.lineno, value.col_offset)
    for parts in _dimensions(value, len(due)) if statement is not None and sizes and wrong else ():
        changes, told = dict[ast.expr, str](), list[str]()
        for k in wrong:
            for node in ast.walk(parts[k]):
                other = next((each for each, at in sizes.items() if at == k), "")
                if isinstance(node, ast.Name) and sizes.get(node.id, k) != k and other:
                    changes[node] = other
                    told.append(f"dimension {k} of {name} has the size {other}, not {node.id}")
        line = rewritten(body, statement, changes) if changes and statement is not None else ""
        if line and statement is not None:
            why = "; ".join(dict.fromkeys(told))
            at = write(body.place(statement), line)
            return f"{sentence(why)}: on line {value.lineno}, write `{line}`{at}."
    return ""


def size_chosen(
    body: Body, statement: ast.stmt | None, name: str, got: Sequence[int], due: Sequence[int]
) -> tuple[list[Fact], str]:
    """Zeros of a size that has a number of its own in some calls: `m = 0`, above `if n > 0: m = x.size(1)`."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    receiver, called = callee(value) if isinstance(value, ast.Call) else (None, "")
    known = any(use.name == name and use.binds for each in statements(body.node) for use in uses(each))
    parts = next(_dimensions(value, len(due)), ()) if value is not None else ()
    wrong = [k for k in range(len(due)) if got[k] != due[k]] if len(got) == len(due) and parts else []
    if called != "zeros" or receiver is None or not known or not wrong:
        return [], ""
    evidence, told = list[Fact](), list[str]()
    for k in wrong:
        size = dotted(parts[k])
        given = [each for each in statements(body.node) if size and size in bound(each)]
        here = [each for each in given if isinstance(each, ast.Assign) and _number(each.value) == got[k]]
        if len(given) < 2 or len(here) != 1:
            return [], ""
        others = [each.value for each in given if isinstance(each, ast.Assign) and each is not here[0]]
        sure = len(others) == len(given) - 1 and all(_size(each, name) in (k, k - len(due)) for each in others)
        says = f"sets {size}, the size of dimension {k}, to {got[k]}."
        evidence.append(shown(body.place(here[0]), says, sure_if(sure)))
        told.append(f"{size} is {got[k]} in this call, and not {due[k]}")
    write = _write(body, value, f"{body.text(receiver)}.zeros_like({name})")
    return evidence, f"{'; '.join(told)}: {write}, which has the shape of {name} in every call."


def _sizes_by_name(body: Body, name: str, rank: int) -> dict[str, int]:
    """The variables that hold the sizes of a tensor, with their dimensions: of `n, c, h, w = x.shape`."""
    found = dict[str, int]()
    for each in statements(body.node):
        target, value = (each.targets[0], each.value) if isinstance(each, ast.Assign) else (None, None)
        if isinstance(target, ast.Tuple) and _of_shape(value) == name and len(target.elts) == rank:
            found |= {text: k for k, part in enumerate(target.elts) if (text := dotted(part))}
        elif isinstance(target, ast.Name) and (at := _size(value, name)) is not None:
            found[target.id] = at % rank
    return found


def _of_shape(node: ast.expr | None) -> str | None:
    """`x` of `x.shape` and of `x.size()`."""
    match node:
        case ast.Attribute(tensor, "shape") | ast.Call(ast.Attribute(tensor, "size"), []):
            return dotted(tensor)
    return None


def _size(node: ast.expr | None, name: str) -> int | None:
    """The dimension whose size an expression takes from a tensor: `x.shape[-1]`, `x.size(1)`."""
    match node:
        case ast.Subscript(shape, at) if _of_shape(shape) == name:
            pass
        case ast.Call(ast.Attribute(tensor, "size"), [at]) if dotted(tensor) == name:
            pass
        case _:
            return None
    try:
        dimension = ast.literal_eval(at)
    except ValueError:
        return None
    return dimension if type(dimension) is int else None


def _dimensions(value: ast.expr, rank: int) -> Iterator[Sequence[ast.expr]]:
    """What an expression says of each dimension: the parts of an index, or the sizes of a shape."""
    for node in (value, *ast.walk(value)):
        match node:
            case ast.Subscript(slice=ast.Tuple(elts=parts)) if len(parts) == rank:
                yield parts
            case ast.Call(args=[ast.Tuple(elts=parts)]) if callee(node)[1] in _SHAPING and len(parts) == rank:
                yield parts
            case ast.Call(args=parts) if callee(node)[1] in _SHAPING and len(parts) == rank:
                yield parts
