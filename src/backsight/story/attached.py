"""The statement that loses a history, written so that it keeps it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

import torch

from backsight.source import Body, Cut, assignments, parsed, statement_at
from backsight.source.bindings import bound, reads
from backsight.source.body import blocks, callee, calls_in, dotted, expressions, given_to, keyword, statements
from backsight.source.definitions import values_of
from backsight.source.edits import on_line, on_line_with, sentence
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, simple
from backsight.story.cuts import CutOff
from backsight.story.evaluated import value_of
from backsight.story.fixes import removed
from backsight.story.memory import is_tensor, needs_gradient, shape_of
from backsight.story.sections import Section, called_by

_CUTTING = frozenset({"detach", "detach_", "item", "tolist", "numpy", "cpu", "long", "int"})
_COPYING = frozenset({"tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor"})
_FLOATING = frozenset({"float", "double", "half"})
_SHAPING = frozenset({"view", "reshape", "unsqueeze", "squeeze", "flatten", "contiguous"})
_TAKING = frozenset({"index_select", "gather", "take", "one_hot", "embedding", "scatter", "index_add", "masked_fill"})
_ORDER: dict[type[ast.cmpop], str] = {
    ast.Gt: "{0} - {1}",
    ast.GtE: "{0} - {1}",
    ast.Lt: "{1} - {0}",
    ast.LtE: "{1} - {0}",
}


def kept(body: Body, cuts: Sequence[Cut]) -> str:
    """`On line 10, write error = output - target`, for each `.detach()`, `.data`, `.item()` and `float()` of one
    statement left out; empty where the text does not show the statement.

    One that stays would turn the error into a gradient that is None.
    """
    statement = statement_at(body, *cuts[0].place.position)
    cutting = {each.expression for each in cuts}
    bare = {node: _bare(body, node) for node in expressions(statement) if body.text(node) in cutting}
    if statement is None or {body.text(node) for node in bare} != cutting or not all(bare.values()):
        return ""
    new = rewritten(body, statement, _changes(statement, bare))
    if isinstance(statement, ast.Assign) and new.split(" = ") == [dotted(t) for t in statement.targets] * 2:
        return f"{sentence(removed(body.place(statement)))}, `{body.text(statement)}`"
    return sentence(on_line(body.place(statement), new))


def _changes(statement: ast.stmt, bare: Mapping[ast.expr, str]) -> dict[ast.expr, str]:
    """What to replace by what, so that these expressions keep their graph, and what makes a new tensor of them, too."""
    whole = getattr(statement, "value", None)
    changes = {node: text if node is whole else simple(text) for node, text in bare.items()}
    for call in calls_in(statement):
        copies = library(call.func) == "torch" and callee(call)[1] in _COPYING
        given = call.args[0] if copies and call.args else None
        if given is not None and given in bare:
            changes[call] = simple(bare[given])
        elif isinstance(given, ast.List | ast.ListComp) and any(node in bare for node in ast.walk(given)):
            changes[call.func] = "torch.stack"
    return changes


def _bare(body: Body, node: ast.expr) -> str:
    """What an expression that cuts is made of: `out` of `out.detach().cpu()`; empty for any other expression."""
    inner = node
    while True:
        match inner:
            case ast.Attribute(value=value, attr="data"):
                inner = value
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]) if name in _CUTTING:
                inner = value
            case ast.Call(func=ast.Name(id="float"), args=[value], keywords=[]):
                inner = value
            case _:
                return body.text(inner) if inner is not node else ""


def in_one_piece(suspect: CutOff) -> str:
    """The statement with what `torch.tensor(x)` copies itself, where that is surely one tensor."""
    body, statement, node = suspect.section.body, suspect.statement, suspect.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if statement is None or node is None or not isinstance(given, ast.BinOp | ast.Call):
        return ""
    if isinstance(given, ast.Call) and callee(given)[1] in ("list", "tuple", "sorted", "values"):
        return ""
    whole = getattr(statement, "value", None) is node
    return in_place_of_cut(suspect, body.text(given) if whole else simple(body.text(given)))


def in_place_of_cut(suspect: CutOff, new: str) -> str:
    """The statement with another expression where its gradient is cut."""
    body, statement, node = suspect.section.body, suspect.statement, suspect.node
    return sentence(on_line_with(body, statement, {node: new})) if node is not None else ""


def soft(suspect: CutOff) -> tuple[str, str]:
    """A comparison as the step of a sigmoid, with what takes its result for a condition; empty where the text does not
    show what the result is for. And what of it stays."""
    body, statement, node = suspect.section.body, suspect.statement, suspect.node
    if statement is not None and isinstance(node, ast.Compare) and (chosen := _chosen(body, statement, node)):
        return chosen
    if isinstance(statement, ast.Return) and isinstance(node, ast.Compare):
        return _stepped(body, statement, node)
    if not isinstance(statement, ast.Assign) or not isinstance(node, ast.Compare) or type(node.ops[0]) not in _ORDER:
        return "", ""
    name, (low, high) = dotted(statement.targets[0]), (node.left, node.comparators[0])
    further = _reasoned(body, statement, name) if name is not None else None
    if further is None or len(node.ops) > 1 or _is_index(statement, node):
        return "", ""
    one, other = simple(body.text(low)), simple(body.text(high))
    known = {each: value_of(suspect.section, each) for each in (low, high)}
    limit = next((each for each in known if isinstance(each, ast.Constant) or type(known[each]) is float), None)
    bound_at, value = None if limit is None else known[limit], one if limit is high else other
    is_written = isinstance(limit, ast.Constant)  # of a limit with a name, only the other side tells what it bounds
    above = isinstance(node.ops[0], ast.Gt | ast.GtE) is (limit is high)
    if type(bound_at) is float and 0 < bound_at < 1 and (is_written or "prob" in value.lower()):
        new = value if above else f"(1 - {value})"
    elif bound_at == 0 and is_written:
        new = f"torch.sigmoid({'' if above else '-'}{value})"
    else:
        new = f"torch.sigmoid({_ORDER[type(node.ops[0])].format(one, other)})"
    edits: dict[ast.stmt, str] = {statement: rewritten(body, statement, {_as_float(statement, node): new})}
    edits |= further
    lines = "; ".join(on_line(body.place(each), new) for each, new in edits.items())
    return (sentence(lines) if all(edits.values()) else ""), ""


def _chosen(body: Body, statement: ast.stmt, node: ast.Compare) -> tuple[str, str] | None:
    """What chooses by a comparison as a weighted sum of both choices; what selects entries, in words. Or None."""
    value, weight = getattr(statement, "value", None), _weight(body, node)
    for call in calls_in(statement):
        if callee(call)[1] == "where" and len(call.args) == 3 and call.args[0] is node and weight:
            mixed = _mixed(body, node, weight, *call.args[1:])
            first = rewritten(body, statement, {call: mixed if value is call else f"({mixed})"})
            edits, targets = {statement: first}, bound(statement) if value is call else ()
            for name in (name for name in targets if all(isinstance(each, ast.Constant) for each in call.args[1:])):
                if (further := _reasoned(body, statement, name)) is None:
                    return None
                edits |= further
            lines = "; ".join(on_line(body.place(each), new) for each, new in edits.items())
            return (sentence(lines), "") if all(edits.values()) else None
    if not isinstance(value, ast.expr):
        return None
    names = bound(statement) if any(each is node for each in ast.walk(value)) else set[str]()
    reading = [statement, *(later for name in names for later in _later(body, statement, name))]
    for mask in (each for later in reading for each in expressions(later) if isinstance(each, ast.Subscript)):
        chosen = value if dotted(mask.slice) in names else mask.slice
        if any(each is node for each in ast.walk(chosen)) and (weight := _weight(body, chosen)):
            return (
                f"Weigh all entries instead of selecting some by {body.text(chosen)}: with `weight = {weight}`, a mean "
                f"over {body.text(mask)} becomes `(weight * values).sum() / weight.sum()`, where values has every entry"
            ), ""
    return None


def _mixed(body: Body, node: ast.Compare, weight: str, one: ast.expr, other: ast.expr) -> str:
    """Both choices of a comparison, weighted: of 1 and 0 the weight itself, of 0 and 1 that of the other side."""
    if _is_number(one, 1) and _is_number(other, 0):
        return weight
    if _is_number(one, 0) and _is_number(other, 1):
        low, high = (simple(body.text(each)) for each in (node.left, node.comparators[0]))
        return f"torch.sigmoid({_ORDER[type(node.ops[0])].format(high, low)})"
    a, b = (body.text(each) if isinstance(each, ast.Constant) else simple(body.text(each)) for each in (one, other))
    return f"{b} + {weight} * ({a} - {b})"


def _is_number(node: ast.expr, number: float) -> bool:
    """Whether a number is written there, as 1 or as 1.0."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == number


def _reasoned(body: Body, statement: ast.stmt, name: str) -> dict[ast.stmt, str] | None:
    """The statements that combine a result that was 0 or 1 with others, or choose by it, as computations with what may
    lie between; None where one selects by it."""
    edits, queue = dict[ast.stmt, str](), [(statement, name)]
    for at, each in queue:  # grows as we go
        if _selects(body, at, each):
            return None
        further = {one: new for one, new in _conditions(body, at, each) if one not in edits}
        edits |= further
        queue += [(one, made) for one in further for made in bound(one) if (one, made) not in queue]
    return edits


_LOGIC = {"logical_and": "{0} * {1}", "logical_or": "{0} + {1} - {0} * {1}", "logical_not": "1 - {0}"}
"""What is 0 or 1 combined, as a computation that has a gradient in between."""


def _weight(body: Body, node: ast.expr) -> str:
    """A comparison as the step of a sigmoid, and of several that all have to hold, their product; else empty."""
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            one, other = _weight(body, left), _weight(body, right)
            return f"{one} * {other}" if one and other else ""
        case ast.Compare(left=left, ops=[order], comparators=[right]) if type(order) in _ORDER:
            one, other = (simple(body.text(each)) for each in (left, right))
            return f"torch.sigmoid({_ORDER[type(order)].format(one, other)})"
    return ""


def _stepped(body: Body, statement: ast.Return, node: ast.Compare) -> tuple[str, str]:
    """A comparison that a function returns as numbers, with the gradient of a sigmoid: the same values."""
    outer = _as_float(statement, node)
    if type(node.ops[0]) not in _ORDER or len(node.ops) > 1 or outer is node or _is_index(statement, node):
        return "", ""
    sides = (node.left, node.comparators[0])
    one, other = (body.text(each) if isinstance(each, ast.Constant) else simple(body.text(each)) for each in sides)
    step = (
        f"torch.sigmoid({one})"
        if other == "0" and isinstance(node.ops[0], ast.Gt | ast.GtE)
        else f"torch.sigmoid({_ORDER[type(node.ops[0])].format(one, other)})"
    )
    stays = ": the same values, with the gradient of a sigmoid"
    through = f"{step} + ({body.text(outer)} - {step}).detach()"
    line = on_line_with(body, statement, {outer: through if statement.value is outer else f"({through})"})
    return (sentence(line), stays) if line else ("", "")


def _as_float(statement: ast.stmt, node: ast.expr) -> ast.expr:
    """The conversion to floating point around an expression, if there is one."""
    for each in calls_in(statement):
        if callee(each)[0] is node and callee(each)[1] in _FLOATING:
            return each
    return node


def _shaped_float(body: Body, statement: ast.stmt, node: ast.expr) -> tuple[ast.expr, str]:
    """The conversion to floating point around an expression, with calls between for its shape, `.view(n)`."""
    inner = node
    for each in reversed([*calls_in(statement)]):
        if callee(each)[0] is inner and callee(each)[1] in _SHAPING:
            inner = each
    return _as_float(statement, inner), body.text(inner).removeprefix(body.text(node))


def _later(body: Body, statement: ast.stmt, name: str) -> Iterator[ast.stmt]:
    """The statements below that read what a statement has bound."""
    for each in statements(body.node):
        if each.lineno > statement.lineno and reads(each, name):
            yield each


def _selects(body: Body, statement: ast.stmt, name: str) -> bool:
    """Whether a result is an index, a mask or a condition: what only integers and booleans can be."""
    later = list(_later(body, statement, name))
    reading = [node for each in later for node in expressions(each) if dotted(node) == name]
    return any(True for each in later for _ in blocks(each)) or any(_is_index(e, n) for e in later for n in reading)


def _is_index(statement: ast.stmt, value: ast.expr) -> bool:
    """Whether an expression selects or decides in its statement: in an index, a comparison, a logical operation."""
    for node in expressions(statement):
        inside: list[ast.AST] = []
        match node:
            case ast.Subscript(slice=index):
                inside = [index]
            case ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitAnd() | ast.BitOr()) | ast.Compare():
                inside = [*ast.iter_child_nodes(node)]
            case ast.Call() if callee(node)[1] in _TAKING:
                inside = [*node.args]
        if any(each is value for part in inside for each in ast.walk(part)):
            return True
    return False


def _conditions(body: Body, statement: ast.stmt, name: str) -> Iterator[tuple[ast.stmt, str]]:
    """The statements that choose by the result, `torch.where(hard, a, b)`, with a weighted mean instead; those that
    combine it with others, `torch.logical_and(hard, other)`, with a product."""
    for each in _later(body, statement, name):
        mixed = dict[ast.expr, str]()
        for node in calls_in(each):
            given = given_to(node)
            if (form := _LOGIC.get(callee(node)[1])) and any(dotted(one) == name for one in given):
                combined = form.format(*(simple(body.text(one)) for one in given))
                mixed[node] = combined if getattr(each, "value", None) is node else f"({combined})"
            if callee(node)[1] == "where" and len(node.args) == 3:
                first, *both = node.args
                if dotted(first) == name:
                    a, b = (simple(body.text(value)) for value in both)
                    mixed[node] = f"({name} * {a} + (1 - {name}) * {b})"
        if mixed:
            yield each, rewritten(body, each, mixed)


def passed_through(suspect: CutOff) -> tuple[str, str]:
    """A rounding to integers with the gradient of what is rounded, `x + (x.round().int() - x).detach()`; empty for what
    selects entries. And what the gradient is that of."""
    body, statement, node = suspect.section.body, suspect.statement, suspect.node
    if statement is None or not isinstance(node, ast.Call) or callee(node)[0] is None:
        return "", ""
    inner = callee(node)[0]
    while isinstance(inner, ast.Call) and callee(inner)[1] in ("round", "floor", "ceil", "trunc", "sign", "detach"):
        inner = next(iter(given_to(inner)), None)
    if isinstance(suspect.section.value(dotted(inner) or ""), ModuleType) or isinstance(inner, ast.Constant):
        return "", ""
    if inner is None or any(_selects(body, statement, name) for name in bound(statement)) or _is_index(statement, node):
        return "", ""
    value = simple(body.text(inner))
    through = f"{value} + ({body.text(node)} - {value}).detach()"
    whole = getattr(statement, "value", None) is node
    line = on_line_with(body, statement, {node: through if whole else f"({through})"})
    return (sentence(line), value) if line else ("", "")


def of_second_class(suspect: CutOff) -> str:
    """`mask = prob[:, 1]` for `mask = prob.argmax(dim=1).float()`, where the result is computed with and selects
    nothing: right for two classes, and for each of several."""
    body, statement, node = suspect.section.body, suspect.statement, suspect.node
    if not isinstance(statement, ast.Assign) or not isinstance(node, ast.Call) or callee(node)[1] != "argmax":
        return ""
    name, every = dotted(statement.targets[0]), given_to(node)
    scores, rest = next(iter(every), None), every[1:]
    given = next((each.value for each in node.keywords if each.arg == "dim"), next(iter(rest), None))
    outer, shaped = _shaped_float(body, statement, node)
    if name is None or scores is None or given is None or outer is node or _selects(body, statement, name):
        return ""
    if _is_index(statement, node):
        return ""
    held, dim = value_of(suspect.section, scores), value_of(suspect.section, given)
    if is_tensor(held) and type(dim) is int and -held.dim() <= dim < held.dim() and held.shape[dim] > 2:
        return ""
    axis = body.text(given)
    likely = simple(probabilities(body, body.text(scores), axis, statement.lineno))
    of = {"1": "[:, {}]", "-1": "[..., {}]"}.get(axis, f".select({axis}, {{}})")
    if not (line := on_line_with(body, statement, {outer: f"{likely}{of.format(1)}{shaped}"})):
        return ""
    return (
        f"{sentence(line)}, the probability of the second of two classes. For more classes, add up the loss of each, "
        f"from {likely}{of.format('c')} and the targets that are c"
    )


def of_embedding(suspect: CutOff) -> tuple[str, tuple[int, ...]]:
    """The mean embedding, `probs @ emb.weight`, where the positions of the largest are then looked up in an embedding,
    here or in a function that they are handed to; with the further lines that this writes anew."""
    section, body = suspect.section, suspect.section.body
    statement, node = suspect.statement, suspect.node
    name = dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else None
    call = next((each for each in ast.walk(node) if isinstance(each, ast.Call)), None) if node is not None else None
    if statement is None or name is None or call is None or not (given := given_to(call)):
        return "", ()
    axis = keyword(call, "dim") or next(iter(given[1:]), None)
    dim = body.text(axis) if axis is not None else "-1"
    likely = probabilities(body, body.text(given[0]), dim, statement.lineno)
    for where, reading, lookup in _looked_up(section, statement, name):
        table = f"{where.text(lookup.args[0])} @ {where.text(lookup.func)}.weight"
        then = on_line_with(where, reading, {lookup: table if _is_whole(reading, lookup) else f"({table})"})
        if then:
            first = on_line(body.place(statement), f"{name} = {likely}")
            return f"Hand on probabilities, whose embedding is a mean: {first}, and {then}", (reading.lineno,)
    return "", ()


def _looked_up(section: Section, statement: ast.stmt, name: str) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """The calls of an embedding that are given `name`, which a statement binds, in the functions that it reaches."""
    for each in _later(section.body, statement, name):
        for call in calls_in(each):
            if _is_embedding(section, call) and dotted(call.args[0]) == name:
                yield section.body, each, call
            for called in called_by(section, call, ()):
                names = {inner for inner, given in called.given.items() if dotted(given) == name}
                for inside in statements(called.body.node) if names else ():
                    lookups = (node for node in calls_in(inside) if _is_embedding(called, node))
                    yield from ((called.body, inside, node) for node in lookups if dotted(node.args[0]) in names)


def _is_embedding(section: Section, call: ast.Call) -> bool:
    return bool(call.args) and issubclass(type(section.value(dotted(call.func) or "")), torch.nn.Embedding)


def _is_whole(statement: ast.stmt, node: ast.expr) -> bool:
    """Whether an expression stands for itself in its statement: as its value, or as an argument."""
    return getattr(statement, "value", None) is node or any(node in each.args for each in calls_in(statement))


def probabilities(body: Body, text: str, dim: str, line: int) -> str:
    """What holds probabilities: the scores themselves if a softmax has made them."""
    known = "softmax" in text or any("softmax" in each.text for each in assignments(body, text, before=line)[-1:])
    return text if known else f"torch.softmax({text}, dim={dim})"


def gathered(given: ast.expr | None, join: str = "stack") -> str | None:
    """A list of tensors as it would be written where numbers are gathered; None where they are not written out.

    join: the function of torch that joins them, each of which has one dimension more or less than what is made.
    """
    match given:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return ast.unparse(given)
        case ast.Call(func=ast.Attribute(attr="values"), args=[]):
            return f"list({ast.unparse(given)})"
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return f"[{', '.join(ast.unparse(_tensor(each, join)) for each in elements)}]"
        case ast.ListComp(elt=element, generators=loops) | ast.GeneratorExp(elt=element, generators=loops):
            each, first = ast.unparse(_tensor(element)), loops[0]
            if len(loops) == 1 and not first.ifs and ast.unparse(first.target) == each:
                whole = gathered(first.iter)  # its elements themselves are what was made into numbers
                if whole is not None:
                    return whole
            return ast.unparse(ast.ListComp(_tensor(element), loops))
    return None


def _tensor(element: ast.expr, join: str = "stack") -> ast.expr:
    """An element as a tensor: `loss` of `loss.item()` and `float(loss)`, a number or a row of several made one."""
    if isinstance(element, ast.List | ast.Tuple):
        return parsed(f"torch.{join}({gathered(element, join)})") or element
    if all(isinstance(each, ast.Constant | ast.UnaryOp | ast.USub) for each in ast.walk(element)):
        text = ast.unparse(element)
        return parsed(f"torch.tensor({text})" if join == "stack" else f"torch.tensor([{text}])") or element
    if isinstance(element, ast.Call):
        receiver, name = callee(element)
        if name == "item" and receiver is not None:
            return _tensor(receiver)
        if name == "float" and receiver is None and len(element.args) == 1:
            return _tensor(element.args[0])
    return element


# An accuracy as a loss.


def of_accuracy(suspect: CutOff) -> str:
    """The loss as cross entropy, where it counts how many of the classes that scores pick are the labels; empty where
    the text does not show what both are called where backward runs."""
    section, pair = suspect.section, next(_picked(suspect.section), None)
    while pair is not None and section.level is None:
        given = [section.given.get(dotted(each) or "") for each in pair]
        if section.caller is None or given[0] is None or given[1] is None:
            return ""
        section, pair = section.caller, (given[0], given[1])
    goal, end = next(iter(section.goals), ("", 0))
    made = assignments(section.body, goal, before=end)
    statement = statement_at(section.body, *made[-1].position) if pair and made else None
    if pair is None or not isinstance(statement, ast.Assign) or dotted(statement.targets[0]) != goal:
        return ""
    scores, labels = (value_of(section, each) for each in pair)
    shape = shape_of(scores) if is_tensor(scores) else None
    if not is_tensor(labels) or shape is None or len(shape) < 2 or not needs_gradient(scores):
        return ""
    known = shape_of(labels) == (shape[0], *shape[2:]) and not labels.dtype.is_complex
    if not known and (shape_of(labels) != shape or not labels.dtype.is_floating_point):
        return ""
    value, target = map(section.body.text, pair)
    function = next((each for each, held in section.globals.items() if held is torch.nn.functional), "")
    function = function or "torch.nn.functional" * (section.globals.get("torch") is torch)
    is_known = probabilities(section.body, value, "", statement.lineno) == value
    loss, value = ("nll_loss", f"{value}.clamp(min=1e-8).log()") if is_known else ("cross_entropy", value)
    target = f"{target}.long()" if known and labels.dtype != torch.int64 else target
    new = f"{goal} = {function}.{loss}({value}, {target})"
    return sentence(on_line(made[-1], new)) if function and (known or not is_known) else ""


def _picked(section: Section) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The scores and the labels of each comparison of picked classes with others, on the way to the goals."""
    for statement in (statement_at(section.body, line) for line in section.lines()):
        for node in expressions(statement):
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
                sides = [node.left, node.comparators[0]]
                scores = [_scores(section.body, each, node.lineno) for each in sides]
                for one, other in ((0, 1), (1, 0)):
                    if (picked := scores[one]) is not None:
                        yield picked, scores[other] or sides[other]


def _scores(body: Body, node: ast.expr, line: int) -> ast.expr | None:
    """`out` of `out.argmax(1)`, of a name for that, and of `_, best = out.max(1)`; each along the classes."""
    values = values_of(body, dotted(node) or "", line)
    call, named = (values[0], True) if len(values) == 1 else (node, False)
    function = callee(call)[1] if isinstance(call, ast.Call) else ""
    if not isinstance(call, ast.Call) or function not in ("argmax", "max") or (function == "max" and not named):
        return None
    given = given_to(call)
    along = keyword(call, "dim") or keyword(call, "axis") or next(iter(given[1:]), None)
    return given[0] if given and along is not None and body.text(along) in ("1", "-1") else None
