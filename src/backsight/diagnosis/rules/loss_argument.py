"""BS122, BS130, BS132: a loss is given what it does not take, targets out of reach, or an advantage with its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backsight.diagnosis.amending import (
    bypassed,
    call_at,
    expression_of,
    functional,
    given_keyword,
    given_of,
    instead,
    swapped,
)
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, line_of, operation_of, rule
from backsight.diagnosis.wording import if_known, listed, shown, warning
from backsight.findings.evidence import Fact
from backsight.source import Place, parsed
from backsight.source.body import callee
from backsight.source.edits import OR
from backsight.source.imports import library
from backsight.source.rewriting import simple
from backsight.story.holders import given, leaves_below
from backsight.tape import Node
from backsight.tape.ops import VIEWS
from backsight.tracing import Line, Met, Reach

_PROBABILITIES = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
_ACTIVATIONS = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "Gelu": "gelu",
    "Silu": "silu",
    "Elu": "elu",
    "Tanh": "tanh",
    "NativeDropout": "dropout",
    "NativeBatchNorm": "a normalization",
    "NativeLayerNorm": "a normalization",
}
_LAYERS = _ACTIVATIONS | dict.fromkeys(
    ("Addmm", "Mm", "Bmm", "Baddbmm", "Convolution", "ConvolutionOverrideable"), "a layer"
)
_SAME_VALUES = VIEWS | frozenset(
    {"Slice", "Select", "Split", "SplitWithSizes", "Unbind", "Diagonal", "Narrow", "Unfold", "Clone", "ToCopy"}
    | {"Index", "IndexSelect", "Gather", "Take", "MaskedSelect", "MaskedFill", "MaskedScatter", "Where", "IndexPut"}
    | {"Cat", "Stack", "Repeat", "Flip", "Roll", "Rot90", "PixelShuffle", "PixelUnshuffle", "PackPaddedSequence"}
    | {"ConstantPadNd", "Tril", "Triu", "Scatter", "Sort", "Topk", "Kthvalue", "Median", "Max", "Min", "Amax", "Amin"}
    | {"MaxPool2DWithIndices", "MaxPool3DWithIndices", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D"}
)
"""Operations that select or rearrange values: those of the result are among those of what they are given."""


@dataclass(frozen=True)
class Takes:
    """What a loss takes, and as which input of its node; what of another kind it may be given; what it does with it."""

    loss: str
    what: str
    mistakes: dict[str, str]
    does: str
    position: int = 0

    def fix(self, given: str, line: Line | None, loss: Line | None, operands: Sequence[str]) -> str:
        """What to write; `line` is that of the operation whose result it is given, `loss` that of the loss."""
        raw = bypassed(line, given)
        if self.what == "logits":
            return f"Pass {self.loss} the input of {given}{raw}; apply {given} only where you need probabilities."
        log = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}.get(given)
        logged = _logged(line) if given == "softmax" else ""
        if self is _CTC:
            of = f"the {'input' if log else 'output'} of {given}"
            wrapped = "" if log else _wrapped(loss, operands)
            way = logged or f"Pass ctc_loss the log_softmax over the classes: log_softmax(-1) of {of}{wrapped}"
            return f"{way}."
        if self is _POISSON:
            rates = given_keyword(loss, "poisson_nll_loss", "log_input", "False")
            return f"Pass poisson_nll_loss the input of {given}{raw}, {OR}or set log_input=False{rates}."
        way = logged or f"Use {log} instead of {given}{_logarithmic(line, given, log)}" if log else ""
        way = way or f"Pass {self.loss} its log_softmax{_wrapped(loss, operands)}"
        if self is _KL:
            return f"{way}; the second argument of kl_div stays probabilities."
        entropy = "" if log else _renamed(loss, "nll_loss", "cross_entropy")
        return f"{way}; {OR}or pass cross_entropy {'its result' if log is None else f'the input of {given}'}{entropy}."


_TWICE = "applies {given} a second time: gradients are small, and the loss cannot reach 0."
_CROSS_ENTROPY = Takes("cross_entropy", "logits", {"Softmax": "softmax"}, _TWICE)
_BINARY = Takes("binary_cross_entropy_with_logits", "logits", {"Sigmoid": "sigmoid"}, _TWICE)
_NLL = Takes("nll_loss", "log-probabilities", {**_PROBABILITIES, **_LAYERS}, "takes no logarithm of them.")
_KL = Takes(
    "kl_div",
    "log-probabilities",
    {**_PROBABILITIES, **_LAYERS},
    "takes no logarithm of its first argument: the loss may be negative, and its minimum is not where the two agree.",
    position=1,
)
_CTC = Takes(
    "ctc_loss",
    "log-probabilities",
    {**_PROBABILITIES, **_LAYERS},
    "takes each row for log-probabilities, whose exp() sums to 1: the loss may be negative, and its gradient is wrong.",
)
_POISSON = Takes(
    "poisson_nll_loss",
    "the log of the rate",
    {"Exp": "exp", "Softplus": "softplus"},
    "applies exp to it again, as log_input is True.",
)


@rule("BS122")
def loss_argument(scene: Scene) -> Iterator[Finding]:
    """What goes into a loss is the result of something that makes another kind of values than the loss takes."""
    for node in scene.graph.nodes:
        takes = _loss(scene, node)
        edge = node.inputs[takes.position] if takes is not None and len(node.inputs) > takes.position else None
        made = _maker(edge.node) if edge is not None else None
        if takes is not None and made is not None and made.op in takes.mistakes:
            yield _finding(takes, node, made)


def _loss(scene: Scene, node: Node) -> Takes | None:
    """Return which loss, if any, takes what goes into a node."""
    if node.op == "LogSoftmax":
        picked = any(_reads(user, node) for user in scene.graph.nodes if user.op.startswith("NllLoss"))
        return _CROSS_ENTROPY if picked else None
    if node.op == "BinaryCrossEntropyWithLogits":
        return _BINARY
    if node.op.startswith("NllLoss"):
        return _NLL
    if node.op == "CtcLoss":
        return _CTC
    operation = operation_of(node) if node.op in ("Exp", "Mul") else None
    if operation is not None and (node.op, operation.op) == ("Exp", "poisson_nll_loss"):
        return _POISSON
    # It is put together of others; of a target, it takes a log.
    return _KL if operation is not None and (node.op, operation.op) == ("Mul", "kl_div") else None


def _logged(line: Line | None) -> str:
    """Which log_softmax a call of softmax becomes, if the program calls that itself: `log_softmax(-1)`."""
    call = parsed(line.segment) if line is not None else None
    if line is None or not isinstance(call, ast.Call) or callee(call)[1] != "softmax":
        return ""
    receiver = callee(call)[0]
    if receiver is not None and library(receiver):
        old = ast.unparse(call)
    elif all(isinstance(each, ast.Constant | ast.UnaryOp) for each in call.args):  # else a module of that name
        old = ast.unparse(ast.Call(ast.Name("softmax"), call.args, call.keywords))
    else:
        return ""
    new = old.replace("softmax(", "log_softmax(", 1)
    return f"On line {line.line}, write {new} in place of {old}{_logarithmic(line, 'softmax', 'log_softmax')}"


def _logarithmic(line: Line | None, given: str, log: str) -> str:
    """Call another function in place of the one whose result a loss is given."""
    body, statement, node = expression_of(line)
    inner = given_of(node, given)
    if body is None or inner is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    if log == "logsigmoid":  # it is no method
        return f"{instead(body, statement, {node: f'F.logsigmoid({body.text(inner)})'})}{functional(body.file)}"
    return instead(body, statement, {node.func: f"{body.text(node.func.value)}.{log}"})


def _wrapped(loss: Line | None, operands: Sequence[str]) -> str:
    """Take the log_softmax of what a loss is given."""
    given = operands[0] if operands else ""
    return swapped(loss, {given: f"{simple(given)}.log_softmax(-1)"}) if given else ""


def _renamed(loss: Line | None, old: str, new: str) -> str:
    body, statement, call = call_at(loss, old)
    if body is None or call is None or not isinstance(call.func, ast.Attribute):
        return ""
    return instead(body, statement, {call.func: f"{body.text(call.func.value)}.{new}"})


def _reads(user: Node, node: Node) -> bool:
    return any(edge is not None and edge.node.index == node.index for edge in user.inputs)


def _maker(node: Node) -> Node:
    """Return what made the values, behind what only selects or rearranges them."""
    while node.op in _SAME_VALUES or _adds_bias(node):
        first = next(iter(given(node)), None)
        if first is None:
            break
        node = first
    return node


def _adds_bias(node: Node) -> bool:
    """Whether a layer adds its bias by itself, as it does to what is not contiguous."""
    inputs = given(node)
    return node.op == "Add" and len(inputs) == 2 and inputs[0].op in _SAME_VALUES and inputs[1].kind == "leaf"


def _finding(takes: Takes, node: Node, made: Node) -> Finding:
    mistake = takes.mistakes[made.op]
    lines = [line_of(each) for each in (made, node)]
    made_at, loss_at = lines
    operation = operation_of(node)
    texts = [each.text for each in operation.operands] if operation is not None else []
    does = takes.does.format(given=mistake)
    says = ("computes its input.", does)
    if lines[0] is not None and lines[1] is not None and lines[0].place == lines[1].place:
        lines, says = [None, lines[1]], ("", f"computes its input, and {does}")
    evidence = tuple(shown(line.place, text) for line, text in zip(lines, says, strict=True) if line is not None)
    return warning(
        "BS122",
        f"{takes.loss} expects {takes.what}, but gets the output of {mistake}.",
        evidence or (f"In the graph, {made.name} goes directly into {node.name}.",),
        takes.fix(mistake, made_at, loss_at, texts),
        lines[1],
        nodes=(node.index, made.index),
    )


# BS130: targets lie where the last operation of the model never comes.


_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_DISTANCES = frozenset({"Pow", "Abs", "Mul", "Square"})


@rule("BS130")
def out_of_reach(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a prediction comes of an activation with bounds, and part of its targets lie outside."""
    for index, met in scene.met().items():
        if met.reach is not None and (met.op in _LOSSES or _is_distance(scene, scene.graph.nodes[index])):
            yield _of_range(scene, met, met.reach, index)


def _is_distance(scene: Scene, difference: Node) -> bool:
    """Whether all that is made of a difference is its square, or its absolute value."""
    users = [node for node in scene.graph.nodes if any(e and e.node.index == difference.index for e in node.inputs)]
    return bool(users) and all(each.op in _DISTANCES for each in users)


def _of_range(scene: Scene, met: Met, reach: Reach, index: int) -> Finding:
    prediction, target = (f"`{each}`" if each else "" for each in met.operands)
    sides = []
    if reach.below:
        sides.append(f"{reach.below:.0%} of them lie below {reach.low:g}")
    if reach.above:
        sides.append(f"{reach.above:.0%} {'lie' if sides else 'of them lie'} above {reach.high:g}")
    made = next((each for each in scene.graph.nodes if each.sequence == reach.number), None)
    line = scene.line_of(made) if made is not None else None
    bounds = "nothing below 0" if reach.high == float("inf") else f"nothing outside of {reach.low:g} to {reach.high:g}"
    return warning(
        "BS130",
        f"The targets{f' {target}' if target else ''} lie outside the range of {prediction or 'the prediction'}.",
        (
            f"{' and '.join(sides)}.",
            *_evidence(met.line.place, line.place if line is not None else None, f"{reach.op} returns {bounds}"),
        ),
        f"Remove the last {reach.op}, so the model can return any number{bypassed(line, reach.op)}. {OR}Or scale "
        "the targets to its range.",
        line.place if line is not None else met.line.place,
        nodes=(index,),
    )


def _evidence(compared: Place, made: Place | None, returns: str) -> tuple[Fact, ...]:
    if made is None or made == compared:
        return (shown(compared, f"compares the two; {returns}."),)
    return shown(made, f"computes it: {returns}."), shown(compared, "compares the two.")


# BS132: the loss of a policy trains the critic through the advantage.


_OF_ONE = frozenset({"Neg", "Exp", "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Sum", "Mul", "Div"})
_TOGETHER = frozenset({"Stack", "Cat"})
_JOINT = _TOGETHER | {"Add"}
"""How log-probabilities become one of all of them; a number that they start from is no input."""
_LINEAR = frozenset({"Addmm", "Mm"})
_DEEPEST = 12
_SHORT = 40
_MOST = 64
"""Log-probabilities that were put together of which it is asked whether they are some."""


@rule("BS132")
def advantage(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a log-probability, or a ratio of two, times what a layer of one output has a part in.

    What is expected is a score times a number. The other factor has to be a difference that leads to parameters which
    the log-probability does not depend on: those of a critic.
    """
    for node in scene.graph.nodes:
        first, second = node.inputs if node.op == "Mul" and len(node.inputs) == 2 else (None, None)
        if first is None or second is None:
            continue
        for score, other, position in ((first.node, second.node, 1), (second.node, first.node, 0)):
            value = _value(other) if _is_score(score) else None
            alone = _leaves(scene, other) - _leaves(scene, score)
            if value is not None and alone:
                yield _of_advantage(scene, node, position, sorted(alone))
                return


def _is_score(node: Node) -> bool:
    """Whether a node is a log-probability, or several put together, up to sign, shape, a difference and exp."""
    ends = [node]
    for _ in range(_DEEPEST + _MOST):
        more = []
        for each in ends:
            operation = operation_of(each)
            if operation is not None and operation.via.endswith(".log_prob"):
                continue
            inputs = given(each)
            passes = each.op in _JOINT or each.op in _OF_ONE or each.op == "Sub" or each.op.startswith("Clamp")
            if not inputs or not passes or (len(inputs) > 1 and each.op not in _JOINT):
                return False
            more += inputs
        if not more:
            return True
        ends = more[:_MOST]
    return False


def _value(node: Node) -> Node | None:
    """Return the layer of one output behind a difference: `returns - critic(states)`, scaled or not."""
    differs = False
    for _ in range(_DEEPEST):
        inputs = given(node)
        if node.op in _LINEAR:
            return node if differs and node.shape is not None and node.shape[-1:] == (1,) else None
        differs = differs or node.op == "Sub"
        if not inputs or node.op not in _OF_ONE | _TOGETHER | {"Sub", "Add"}:
            return None
        node = inputs[0] if len(inputs) == 1 else max(inputs, key=lambda each: each.op == "Sub")
    return None


def _leaves(scene: Scene, node: Node) -> set[str]:
    return {leaf.label for leaf in leaves_below(scene.graph, node.index)}


def _of_advantage(scene: Scene, node: Node, position: int, names: list[str]) -> Finding:
    operation = operation_of(node)
    texts = {each.position: each.text for each in operation.operands} if operation is not None else {}
    name = texts.get(position, "")
    detached = f"{simple(name)}.detach()" if 0 < len(name) <= _SHORT else "the advantage after .detach()"
    line = scene.line_of(node)
    edit = swapped(line, {name: f"{simple(name)}.detach()"}) if name else ""
    return warning(
        "BS132",
        f"The policy loss also trains {listed(names, 2)}, through {f'`{name}`' if name else 'the advantage'}.",
        (
            if_known(line, "multiplies a log-probability by a tensor that is still attached to its graph."),
            "That gradient lowers the advantage of probable actions, whatever their true value is.",
        ),
        f"Multiply by {detached}{edit}: the policy then uses only its value, and the critic learns from its own loss.",
        line,
        nodes=(node.index,),
    )
