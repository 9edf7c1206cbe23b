"""BS136, BS147: a softmax is taken over the wrong dimension, or dimensions are taken for one another."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.amending import expression_of, functional, given_of, instead, with_keyword
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, shaped, shown, warning
from backsight.source import calls_of, only
from backsight.source.body import callee, given_to, keyword
from backsight.source.edits import OR
from backsight.source.rewriting import simple
from backsight.story.holders import below, given, kept, users
from backsight.tape import Node
from backsight.tape.modules import ModelTree
from backsight.tracing import Line

_LAYERS = frozenset({"Addmm", "Mm"})
_VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
_ALONG = (
    _VIEWS
    | {"Unsqueeze", "Squeeze", "Expand", "Transpose", "Permute", "Clone", "ToCopy"}
    | {"Mul", "Div", "Neg", "Exp", "Log", "Where", "MaskedFill"}
)
"""Operations whose result has the rows of what they are given, where it begins with as many."""

_OF_A_LAYER = frozenset({"T", "Transpose", "Convolution", "ConvolutionOverrideable", "Embedding", "Addmm"})
"""What uses the weight of a layer first of all: its rows are none of the result."""

_LOSSES = ("NllLoss", "MseLoss", "BinaryCrossEntropy", "SmoothL1Loss")
_DEEPEST = 64

_EXCHANGES = frozenset({"Transpose", "Permute", "Contiguous", "Clone"})
_CLASS_DIM = {"CtcLoss": ("log_probs", -1), "NllLoss2D": ("self", 1)}
"""What a loss has saved of its input, and the dimension of the classes there."""


@dataclass(frozen=True)
class _Use:
    """What takes the rows of a softmax over rows for samples, and what it does."""

    node: Node
    does: str


@rule("BS136")
def softmax_dim(scene: Scene) -> Iterator[Finding]:
    """A softmax over rows each of which goes its own way from there, or over a dimension that has one entry.

    That rows are samples shows where they go: their weighted sums are taken by row and the loss has an entry for each,
    or a loss takes each row for the log-probabilities of a sample. Experts, particles and slots do neither.
    """
    found = [node for node in scene.graph.nodes if node.op in ("Softmax", "LogSoftmax")]
    above = users(scene.graph) if found else {}
    for node in found:
        shape = node.shape
        if shape is None or len(shape) < 2:
            continue
        loss, before = _given_to(above, node)
        if loss is not None and not _is_over_classes(scene, node, before, loss):
            yield _of_another(scene, node, loss)
            continue
        if len(shape) > 2 and (taken := _taken_by_queries(above, node)) is not None:
            yield _of_queries(scene, node, taken)
            continue
        if (mixed := _mixed_over(scene, above, node)) is not None:
            yield _of_components(scene, node, *mixed)
            continue
        if _is_of_one(node, shape):
            yield _finding(scene, node, "over a dimension of size 1: its result does not depend on it", None)
            continue
        rows = shape[0]
        use = _by_row(above, node, rows) if rows > 1 and shape.count(rows) == 1 else None
        if use is None and rows > 1 and len(shape) > 2 and _is_of_images(node) and _is_over_rows(scene, node):
            yield _finding(scene, node, f"over the {rows} samples of the batch", None)
        elif use is not None and _is_over_rows(scene, node) and not _are_learnt(scene, above, node, rows):
            yield _finding(scene, node, f"over the {rows} samples of the batch", use)


def _mixed_over(scene: Scene, users: dict[int, list[Node]], node: Node) -> tuple[Node, int, int] | None:
    """Return what sums a mixture whose weights this is, over which dimension, and over which they add up to 1 instead.

    The components have an entry for each weight, and no weights of their own: then it is not this that is mixed, as
    the classes of a mixture of softmaxes are.
    """
    shape = node.shape or ()
    joins = ("Add", "Sub") if node.op == "LogSoftmax" else ("Mul",)
    for each in users.get(node.index, []):
        others = [other for other in given(each) if other.index != node.index]
        if each.op not in joins or [other.shape for other in others] != [shape] or _are_weights(others[0]):
            continue
        for reduced in users.get(each.index, []):
            logged = node.op == "LogSoftmax" or _is_logged(users, reduced)
            if reduced.op != ("Logsumexp" if node.op == "LogSoftmax" else "Sum") or not logged:
                continue
            over = [at for at in range(len(shape)) if shape[:at] + shape[at + 1 :] == reduced.shape]
            ones = _normalized(scene, node, len(shape))
            if len(over) == len(ones) == 1 and over != ones and 1 not in (shape[over[0]], shape[ones[0]]):
                return reduced, over[0], ones[0]
    return None


def _normalized(scene: Scene, node: Node, dims: int) -> list[int]:
    """Return the dimensions over which a softmax adds up to 1; else the one that the text says."""
    result = kept(node, "result")
    if result is None:
        line = scene.line_of(node)
        written = _written(line.segment or line.text) if line is not None else None
        return [written % dims] if isinstance(written, int) and -dims <= written < dims else []
    with torch.no_grad():
        shares = (result.exp() if node.op == "LogSoftmax" else result).detach().double()
        return [at for at in range(dims) if _are_ones(shares.sum(at))]


def _is_logged(users: dict[int, list[Node]], node: Node) -> bool:
    """Whether the logarithm of a result is taken, or of what keeps it above 0."""
    above = users.get(node.index, [])
    kept_above = [each for each in above if each.op in ("Add", "Clamp", "ClampMin") and len(given(each)) == 1]
    return any(
        each.op == "Log" for each in (*above, *(user for one in kept_above for user in users.get(one.index, [])))
    )


def _are_weights(node: Node) -> bool:
    """Whether a result has that of a softmax in it, entry by entry or along new dimensions."""
    ends = [node]
    for each in ends:  # grows as we go
        if each.op in ("Softmax", "LogSoftmax"):
            return True
        if each.op in _ALONG | {"Add", "Sub"} and len(ends) < _DEEPEST:
            ends += given(each)
    return False


def _of_components(scene: Scene, node: Node, reduced: Node, over: int, ones: int) -> Finding:
    line, used = scene.line_of(node), scene.line_of(reduced)
    called = "log_softmax" if node.op == "LogSoftmax" else "softmax"
    dim = over - len(node.shape or ())
    return warning(
        "BS136",
        f"{called} is taken over another dimension than the components of the mixture.",
        (
            if_known(line, f"computes weights of shape {shaped(node.shape)}, which add up to 1 over dimension {ones}."),
            if_known(used, f"sums the components over dimension {over}, where they do not add up to 1."),
        ),
        f"Take it over the components: dim={dim}{_over(line, dim)}.",
        line,
        nodes=(node.index,),
    )


_TO_PRODUCT = _VIEWS | {"Expand", "Clone", "ToCopy", "NativeDropout"}


def _taken_by_queries(users: dict[int, list[Node]], node: Node) -> Node | None:
    """Return the product in which the scores of queries and keys weigh the values, if they add up to 1 over the queries
    and not over the keys. Who divides them again, as slots do, means it."""
    made, result = _score(node), kept(node, "result")
    if made is None or result is None or result.dim() < 3 or result.shape[-1] == 1 or result.shape[-2] == 1:
        return None
    at, above = node, users.get(node.index, [])
    while len(above) == 1 and (above[0].op in _TO_PRODUCT or _is_scaled(above[0])):
        at, above = above[0], users.get(above[0].index, [])
    product = above[0] if len(above) == 1 and above[0].op == "Bmm" else None
    first = product.inputs[0] if product is not None and product.inputs else None
    if product is None or first is None or first.node.index != at.index:
        return None
    with torch.no_grad():
        shares = result.detach().double()
        return product if _are_ones(shares.sum(-2)) and not _are_ones(shares.sum(-1)) else None


def _is_scaled(node: Node) -> bool:
    """Whether a result is multiplied by what has no gradient, as dropout does."""
    return node.op == "Mul" and len(given(node)) == 1


def _score(node: Node) -> Node | None:
    """Return the product of two results that a softmax is taken of, divided by a number at most."""
    first = next(iter(given(node)), None)
    while first is not None and first.op in _VIEWS | {"Div", "Mul", "MaskedFill", "ToCopy"} and len(given(first)) == 1:
        first = given(first)[0]
    return first if first is not None and first.op == "Bmm" and len(given(first)) == 2 else None


def _of_queries(scene: Scene, node: Node, taken: Node) -> Finding:
    line, used = scene.line_of(node), scene.line_of(taken)
    return warning(
        "BS136",
        "softmax is taken over the queries, not over the keys.",
        (
            if_known(line, f"computes weights of shape {shaped(node.shape)}, which add up to 1 over dimension -2."),
            if_known(used, "sums the values over dimension -1, where they do not add up to 1."),
        ),
        f"Take it over the keys: dim=-1{_over(line, -1)}.",
        line,
        nodes=(node.index,),
    )


def _is_of_one(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether all of a softmax of what a layer of one output returns, as it stands, is 1."""
    if shape[-1] != 1 or shape.count(1) != 1:
        return False
    first = next(iter(given(node)), None)
    while first is not None and first.op in _VIEWS:
        first = next(iter(given(first)), None)
    if first is None or first.op not in _LAYERS or first.shape is None or first.shape[-1] != 1:
        return False
    result = kept(node, "result")
    if result is None:
        return False
    with torch.no_grad():
        return bool(is_zero(result.detach() if node.op == "LogSoftmax" else result.detach() - 1))


def _given_to(users: dict[int, list[Node]], node: Node) -> tuple[Node | None, Node]:
    """Return the loss that takes a log-softmax, perhaps with dimensions exchanged; and what it takes."""
    while node.op == "LogSoftmax" or node.op in _EXCHANGES:
        above = users.get(node.index, [])
        if len(above) != 1:
            return None, node
        if above[0].op in _CLASS_DIM:
            return above[0], node
        node = above[0]
    return None, node


def _is_over_classes(scene: Scene, node: Node, before: Node, loss: Node) -> bool:
    """Whether what a loss takes adds up to 1 over the classes; else whether the text says so, where sizes tell."""
    name, dim = _CLASS_DIM[loss.op]
    held = kept(loss, name)
    if held is not None and held.dim() > 1 and min(held.shape) > 0:
        with torch.no_grad():
            return _are_ones(held.detach().double().exp().sum(dim))
    line, shape = scene.line_of(node), node.shape or ()
    written = _written(line.segment or line.text) if line is not None else None
    if not isinstance(written, int) or not before.shape or not -len(shape) <= written < len(shape):
        return True
    return shape[written] == before.shape[dim]


def _is_of_images(node: Node) -> bool:
    """Whether a convolution has made what a softmax is given, as it stands: its first dimension is the batch."""
    first = next(iter(given(node)), None)
    while first is not None and first.op in ("Mul", "Div", "ToCopy", "UpsampleBilinear2D", "UpsampleNearest2D"):
        first = next(iter(given(first)), None)
    made = first is not None and first.op in ("Convolution", "ConvolutionOverrideable")
    return made and first is not None and len(first.shape or ()) == len(node.shape or ())


def _is_over_rows(scene: Scene, node: Node) -> bool:
    """Whether the sums over the rows are 1, and those over the last dimension are not; else what the text says."""
    result = kept(node, "result")
    if result is None:
        line = scene.line_of(node)
        return line is not None and _written(line.segment or line.text) == 0
    with torch.no_grad():
        shares = result.detach().double()
        shares = shares.exp() if node.op == "LogSoftmax" else shares
        return _are_ones(shares.sum(0)) and not _are_ones(shares.sum(-1))


def _are_ones(sums: torch.Tensor) -> bool:
    return bool((sums - 1).abs().max() < 0.01)


def _written(text: str) -> object:
    """Return the dimension that the one softmax in an expression is given as a number; None if it is not."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return None
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and callee(n)[1] in ("softmax", "log_softmax")]
    if len(found) != 1:
        return None
    given = keyword(found[0], "dim") or next(iter(given_to(found[0])[1:]), None)
    return given.value if isinstance(given, ast.Constant) else None


def _by_row(users: dict[int, list[Node]], node: Node, rows: int) -> _Use | None:
    """Return what takes the rows of a result for samples: a loss, or a sum over something else that a loss compares."""
    stack, seen = [(node, False)], {node.index}
    for _ in range(_DEEPEST):
        if not stack:
            return None
        at, weighted = stack.pop()
        for user in users.get(at.index, []):
            if user.op.startswith("NllLoss"):
                return _Use(user, "treats each row as the log-probabilities of one sample.")
            shape = user.shape
            if user.index in seen or shape is None or not _keeps_rows(at, user, rows):
                continue
            sums = user.op == "Bmm" or (user.op == "Sum" and weighted and _leaves_rows(at.shape or ()))
            if sums and compares(users, user, rows):
                return _Use(user, "sums over each sample separately, with weights that do not add up to 1 there.")
            if user.op in _ALONG and (user.op != "Mul" or len(shape) == len(at.shape or ())):
                seen.add(user.index)
                stack.append((user, weighted or user.op == "Mul"))
    return None


def _leaves_rows(before: tuple[int, ...]) -> bool:
    """Whether a sum that has as many rows as before cannot have taken another dimension for them."""
    return len(before) > 1 and before[1] != before[0]


def _are_learnt(scene: Scene, users: dict[int, list[Node]], node: Node, rows: int) -> bool:
    """Whether the rows may be those of a parameter, as slots and centers are, and not samples."""
    inside = set(below(scene.graph, [node.index]))
    return any(
        user.index in inside and user.op not in _OF_A_LAYER
        for leaf in scene.graph.leaves
        if leaf.node in inside and len(leaf.shape) > 1 and leaf.shape[0] == rows
        for user in users.get(leaf.node, [])
    )


def compares(users: dict[int, list[Node]], node: Node, rows: int) -> bool:
    """Whether a loss has an entry for each of the rows."""
    stack, seen = [node], {node.index}
    for _ in range(_DEEPEST):
        if not stack:
            return False
        at = stack.pop()
        for user in users.get(at.index, []):
            if user.op.startswith(_LOSSES):
                return True
            if user.index not in seen and _keeps_rows(at, user, rows):
                seen.add(user.index)
                stack.append(user)
    return False


def _keeps_rows(at: Node, user: Node, rows: int) -> bool:
    """Whether a result has the first dimension of what it is given, or a view splits or joins it, as heads do."""
    shape = user.shape
    if not shape or not at.shape:
        return False
    return shape[0] == at.shape[0] or (user.op in _VIEWS and shape[0] > 0 and shape[0] % rows == 0)


def _of_another(scene: Scene, node: Node, loss: Node) -> Finding:
    line, used, shape = scene.line_of(node), scene.line_of(loss), node.shape or ()
    called = "ctc_loss" if loss.op == "CtcLoss" else "nll_loss"
    over = f"in a result of shape {shaped(shape)}"
    takes = "the last dimension" if loss.op == "CtcLoss" else "dimension 1"
    return warning(
        "BS136",
        f"log_softmax is taken over another dimension than the classes, {over}.",
        (
            if_known(line, "computes it."),
            if_known(used, f"{called} takes {takes} of its input for the classes."),
            "The probabilities of one position do not add up to 1, so the loss has no meaning.",
        ),
        f"Take it over the classes: dim=-1 if they come last{_over(line, -1)}. ctc_loss expects (time, batch, classes)."
        if loss.op == "CtcLoss"
        else f"Take it over the classes: dim=1 of (batch, classes, ...){_over(line, 1)}.",
        line,
        nodes=(node.index,),
    )


def _finding(scene: Scene, node: Node, over: str, use: _Use | None) -> Finding:
    called = "log_softmax" if node.op == "LogSoftmax" else "softmax"
    line, user = scene.line_of(node), scene.line_of(use.node) if use is not None else None
    shape = f"its result has shape {shaped(node.shape)}."
    facts = (
        shown(line.place, f"computes it; {shape}") if line is not None else f"In the graph, {shape}",
        *((shown(user.place, use.does),) if user is not None and use is not None else ()),
    )
    return warning(
        "BS136",
        f"{called} is taken {over}.",
        facts,
        f"Use the dimension of the classes or positions: dim=1{_over(line, 1)}{_or_the_last(line, node.shape or ())}."
        if use is not None or "samples" in over
        else (
            f"Use sigmoid for a single output{_sigmoid(line, called)}, {OR}or let the layer return one output "
            "per class. Or choose another dimension."
        ),
        line,
        nodes=(node.index,),
    )


def _or_the_last(line: Line | None, shape: tuple[int, ...]) -> str:
    """The other way, but over a dimension of one entry, where all weights would be 1."""
    if len(shape) > 2 and shape[-1] == 1:
        return ""
    return f", {OR}or dim=-1 for the last{_over(line, -1) if len(shape) > 2 else ''}"


def _over(line: Line | None, dim: int) -> str:
    """Take a softmax over another dimension, where the program calls it by name."""
    body, statement, node = expression_of(line)
    if body is None or not isinstance(node, ast.Call) or callee(node)[1] not in ("softmax", "log_softmax"):
        return ""
    written = keyword(node, "dim") or next(iter(given_to(node)[1:]), None)
    return instead(body, statement, {written: str(dim)}) if written is not None else ""


def _sigmoid(line: Line | None, called: str) -> str:
    """Call a sigmoid in place of a softmax."""
    body, statement, node = expression_of(line)
    inner = given_of(node, called)
    if body is None or node is None or inner is None:
        return ""
    if called == "softmax":
        return instead(body, statement, {node: f"torch.sigmoid({body.text(inner)})"})
    return f"{instead(body, statement, {node: f'F.logsigmoid({body.text(inner)})'})}{functional(body.file)}"


# BS147: samples for steps in time, or classes for pixels.


_TAKES_ONE = ("Select", "Mean", "Max", "Amax")
_MOST = 2
"""Entries of the second dimension that are taken: of a bidirectional layer the last, and the first."""


@rule("BS147")
def crossed_dimensions(scene: Scene) -> Iterator[Finding]:
    """Dimensions that are taken for one another, where the graph alone shows it."""
    yield from batch_as_time(scene)
    yield from classes_of_pixels(scene)


def batch_as_time(scene: Scene) -> Iterator[Finding]:
    """One entry is taken of the second dimension of what a layer without batch_first returns, and the loss compares
    each of the first: so the first are the samples, and the layer takes them for the steps."""
    if not any(node.op in _TAKES_ONE for node in scene.graph.nodes):
        return
    modules: dict[str, torch.nn.Module] = {}
    taken: dict[int, list[Node]] = {}
    for node, edge in scene.graph.edges:
        if node.op in _TAKES_ONE and edge.node.module is not None and _is_of_second(edge.node, node):
            modules = modules or ModelTree.of(scene.models).modules
            if _is_time_first(modules.get(edge.node.module)):
                taken.setdefault(edge.node.index, []).append(node)
    for index, nodes in taken.items():
        made = scene.graph.nodes[index]
        rows = (made.shape or (0,))[0]
        if len(nodes) <= _MOST and compares(users(scene.graph), nodes[0], rows):
            yield _of_steps(scene, made, nodes[0])


def _is_of_second(made: Node, node: Node) -> bool:
    """Whether of three dimensions the second is gone."""
    first, shape = made.shape or (), node.shape or ()
    return len(first) == 3 and shape == (first[0], first[2]) and first[1] not in (1, first[0], first[2])


def _is_time_first(module: torch.nn.Module | None) -> bool:
    return isinstance(module, torch.nn.RNNBase) and not module.__dict__.get("batch_first", True)


def _of_steps(scene: Scene, made: Node, taken: Node) -> Finding:
    modules = ModelTree.of(scene.models).modules
    kind, path = type(modules[made.module or ""]).__name__, made.module or "the layer"
    line, used = scene.line_of(made), scene.line_of(taken)
    shape = made.shape or (0, 0, 0)
    return warning(
        "BS147",
        f"{path} takes the samples of the batch for steps in time: batch_first is not set.",
        (
            if_known(line, f"returns {shaped(shape)}: {shape[0]} steps of {shape[1]} samples."),
            if_known(used, f"takes the {shape[0]} for samples, and so does the loss."),
        ),
        f"Create it with batch_first=True: nn.{kind}(..., batch_first=True){with_batch_first(scene.site[0], kind)}.",
        line,
        nodes=(made.index,),
    )


def with_batch_first(file: str, kind: str) -> str:
    """Give batch_first to the one call of a file that makes such a layer."""
    found = only(each for each in calls_of(file) if callee(each[2])[1] == kind)
    return instead(*found[:2], with_keyword(found[0], found[2], "batch_first", "True")) if found is not None else ""


_CHANNELS_SECOND = ("Convolution", "Upsample")
"""Operations whose result has its channels second, by what their names begin with."""


def classes_of_pixels(scene: Scene) -> Iterator[Finding]:
    """A log-softmax over rows into which a view has cut what a convolution returns, N×C×H×W: each row is a run of C
    neighboring pixels of one channel, and not the C channels of one pixel."""
    for node in scene.graph.nodes:
        view = next(iter(given(node)), None) if node.op == "LogSoftmax" else None
        made = next(iter(given(view)), None) if view is not None and view.op in _VIEWS else None
        if view is None or made is None or not made.op.startswith(_CHANNELS_SECOND) or not made.shape:
            continue
        pixels = math.prod(made.shape[2:])
        if len(made.shape) > 2 and pixels > 1 and view.shape == (made.shape[0] * pixels, made.shape[1]):
            yield _finding_of_pixels(scene, made, view)


def _finding_of_pixels(scene: Scene, made: Node, view: Node) -> Finding:
    before, after = made.shape or (), view.shape or ()
    line = scene.line_of(view)
    last = ", ".join(map(str, (0, *range(2, len(before)), 1)))
    moved = f".permute({last}).reshape(-1, {after[1]})"
    does = "moves no entry: a row holds pixels of a class, not classes of a pixel."
    return warning(
        "BS147",
        f"The scores of {after[1]} classes are mixed with pixels: a view cuts {shaped(before)} into {shaped(after)}.",
        (if_known(line, does), "The loss compares these rows with the classes of the pixels."),
        f"Move the classes last before the view: {moved}{_reshaped(line, moved)}. {OR}Or pass cross_entropy the "
        f"scores themselves, {shaped(before)}, with targets of {shaped((before[0], *before[2:]))}.",
        line,
        nodes=(view.index,),
    )


def _reshaped(line: Line | None, moved: str) -> str:
    """Move dimensions where a method makes the view."""
    body, statement, node = expression_of(line)
    if body is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    is_view = node.func.attr in ("view", "reshape")
    return instead(body, statement, {node: f"{simple(body.text(node.func.value))}{moved}"}) if is_view else ""
