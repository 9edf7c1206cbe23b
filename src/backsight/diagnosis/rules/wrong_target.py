"""BS152, BS153: a causal model is given the token that it is to predict, or the target is noise of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import call_at, given_keyword, instead, written
from backsight.diagnosis.evidence.attention import (
    Seen,
    lower_right,
    masked_to_the_end,
    operands,
    seen,
    sees_later,
    triangle_of,
)
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, shaped, shown, warning
from backsight.source import Body, Place, assignments, only, read_at, statement_at
from backsight.source.bindings import parameters_of
from backsight.source.body import callee, calls_in, dotted, expressions, functions, keyword, statements
from backsight.source.definitions import values_of
from backsight.source.edits import OR
from backsight.story.holders import below, kept, users
from backsight.tape import Node
from backsight.tape.modules import ModelTree
from backsight.tracing import Line, Met

_LOSSES = ("NllLoss", "NllLoss2D")
_SHORTEST = 4
"""Positions of a sequence that are too few to tell."""

_KEEPS = frozenset(
    {"View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "T", "Clone", "ToCopy", "Unsqueeze", "Squeeze"}
    | {"Add", "Mul", "Div", "Sub", "Addmm", "Mm", "Cat", "NativeDropout", "NativeLayerNorm", "LogSoftmax"}
    | {"Relu", "Gelu", "Silu", "Tanh", "Sigmoid", "FusedRmsNorm", "FusedDropout"}
)
"""Operations whose result has, at each position, only what it was given at that position."""


class _Tokens(NamedTuple):
    samples: int
    steps: int


@rule("BS152")
def unshifted(scene: Scene) -> Iterator[Finding]:
    """What an embedding looks up has the values that the loss compares, position by position, on a way that mixes none.

    An autoencoder does so, too, as does a model that restores masked tokens. So the model has to be causal: a recurrent
    layer with one direction, or attention that no position pays to later ones. Such a one predicts what comes next,
    and learns nothing from copying. Nor does a model that is given its target shifted, but looks one position ahead.
    """
    losses = [met for met in scene.met().values() if met.target]
    lookups = [node for node in scene.graph.nodes if node.op == "Embedding"] if losses else []
    above = users(scene.graph) if lookups else {}
    for lookup in lookups:
        indices = kept(lookup, "indices")
        for met in losses if indices is not None and indices.dim() == 2 else ():
            if indices is None:
                continue
            tokens = _Tokens(*indices.shape)
            if _are_same(indices, met.target):
                causal = _leads(scene, above, lookup, tokens, _masked(scene, tokens))
                if causal is not None:
                    yield _finding(scene, lookup, met, causal, tokens)
                    return
            elif _are_next(indices, met.target) and _leads(scene, above, lookup, tokens, "attention") is not None:
                ahead = _ahead(scene, lookup, tokens)
                if ahead is not None:
                    yield _of_a_mask(scene, met, *ahead)
                    return


def _are_same(indices: torch.Tensor, target: tuple[int, ...]) -> bool:
    """Whether the tokens are those of the target, but where that is to be ignored, and differ from their neighbors."""
    if indices.numel() != len(target) or indices.shape[1] < _SHORTEST:
        return False
    return _match(indices.reshape(-1).tolist(), target) and bool((indices[:, 1:] != indices[:, :-1]).any())


def _are_next(indices: torch.Tensor, target: tuple[int, ...]) -> bool:
    """Whether the target at each position is the token of the next."""
    steps = indices.shape[1]
    if indices.numel() != len(target) or steps < _SHORTEST:
        return False
    before = [each for at, each in enumerate(target) if at % steps != steps - 1]
    varied = bool((indices[:, 2:] != indices[:, :-2]).any()) and bool((indices[:, 1:] != indices[:, :-1]).any())
    return varied and _match(indices[:, 1:].reshape(-1).tolist(), before)


def _match(tokens: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether they are the same, but where that is to be ignored, which is not the case of more than half of them."""
    counted = [(token, each) for token, each in zip(tokens, wanted, strict=True) if each >= 0]
    return 2 * len(counted) >= len(wanted) and all(token == each for token, each in counted)


def _leads(scene: Scene, users: dict[int, list[Node]], lookup: Node, tokens: _Tokens, attends: str) -> str | None:
    """Return what is causal on a way from the tokens to the loss, which keeps positions: a layer, or `attends`."""
    recurrent = _recurrent(scene)
    stack: list[tuple[Node, str]] = [(lookup, "")]
    seen = {(lookup.index, "")}
    while stack:
        at, through = stack.pop()
        for user in users.get(at.index, []):
            if user.op in _LOSSES:
                if through or attends:
                    return through or attends
                continue
            kind = recurrent.get(user.module or "")
            further = [(user, through)] if kind is None and user.op in _KEEPS else []
            if kind is not None:
                further = [(end, kind) for end in _ends(scene, users, user) if _has_positions(end, tokens)]
            for each in further:
                if (each[0].index, each[1]) not in seen and _has_positions(each[0], tokens):
                    seen.add((each[0].index, each[1]))
                    stack.append(each)
    return None


def _has_positions(node: Node, tokens: _Tokens) -> bool:
    """Whether a result has an entry for each token, in the order of samples or of steps."""
    shape, (samples, steps) = node.shape or (), tokens
    return (
        shape[:2] in ((samples, steps), (steps, samples))
        or shape[:1] == (samples * steps,)
        or (len(shape) > 2 and (shape[0], shape[-1]) == (samples, steps))
    )


def _recurrent(scene: Scene) -> dict[str, str]:
    """Return the paths of the recurrent layers of one direction, each with its class."""
    modules = ModelTree.of(scene.models).modules.items()
    return {
        path: type(module).__name__
        for path, module in modules
        if isinstance(module, torch.nn.RNNBase) and not module.__dict__.get("bidirectional", True)
    }


def _ends(scene: Scene, users: dict[int, list[Node]], entry: Node) -> list[Node]:
    """Return what a module that a node belongs to hands on of what it made of that."""
    inside = [node for node in scene.graph.nodes if node.module == entry.module]
    ends = [node for node in inside if any(user.module != entry.module for user in users.get(node.index, []))]
    return [node for node in ends if entry.index in below(scene.graph, [node.index])]


def _masked(scene: Scene, tokens: _Tokens) -> str:
    """Return what to call attention in which no position sees a later one; empty if there is none, or other as well."""
    found = [each for node in scene.graph.nodes if (each := sees_later(node, tokens.steps)) is not None]
    return "causal attention" if found and not any(found) else ""


def _ahead(scene: Scene, lookup: Node, tokens: _Tokens) -> tuple[Node, Seen] | None:
    """Return attention among the tokens that sees the next ones, and what it sees."""
    for node in scene.graph.nodes:
        both = operands(node)
        if len(both) < 2 or not all(lookup.index in below(scene.graph, [each.index]) for each in both):
            continue
        if what := seen(node, tokens.steps):
            return node, what
    return None


def _of_a_mask(scene: Scene, met: Met, node: Node, what: Seen) -> Finding:
    says, at_the_mask, fix = _AHEAD[what]
    attention = scene.line_of(node)
    triangle = triangle_of(attention.place.file, what) if attention is not None else None
    place = triangle.place if triangle is not None else attention
    cached = _with_a_cache(attention.place) if attention is not None and what == "all" else ""
    return warning(
        "BS152",
        f"The model sees the tokens that it must predict: {says}.",
        (
            if_known(attention, "lets each position see the next one."),
            if_known(triangle.place if triangle is not None else None, "makes the mask."),
            shown(met.line.place, "compares it with that token."),
            "So the loss falls by copying, and what is generated, where no next token is known, is poor.",
        ),
        f"{at_the_mask}{triangle.instead}{written(triangle.place, triangle.instead)}."
        if triangle is not None
        else f"{cached or fix.format(causal=_causal(attention))}.",
        place,
        nodes=(node.index,),
    )


def _causal(attention: Line | None) -> str:
    """Have fused attention mask what comes later, where nothing else is masked."""
    call = call_at(attention, "scaled_dot_product_attention")[2]
    if call is None or len(call.args) > 3 or keyword(call, "attn_mask") is not None:
        return ""
    return given_keyword(attention, "scaled_dot_product_attention", "is_causal", "True")


def _with_a_cache(place: Place) -> str:
    """Say how to mask what comes later where fused attention is given earlier keys too: `k = cat([cache, k], 1)`."""
    body, statement = read_at(place)
    if body is None or statement is None:
        return ""
    for call in calls_in(statement):
        names = [dotted(each) for each in call.args[:2]]
        if callee(call)[1] != "scaled_dot_product_attention" or len(names) < 2 or not all(names):
            continue
        query, key = names
        made = values_of(body, key or "", place.line)
        if any(isinstance(each, ast.Call) and callee(each)[1] in ("cat", "concat", "concatenate") for each in made):
            return (
                f"Mask what comes later: pass {lower_right(query or '', key or '')}"
                f"{masked_to_the_end(body, statement, call, query or '', key or '')}, because is_causal aligns at the "
                f"first key, and {key} has others in front"
            )
    return ""


_AHEAD: dict[Seen, tuple[str, str, str]] = {
    "next": (
        "its attention mask is off by one",
        "Mask the next position as well: ",
        "Mask the next position as well, and with it all above the diagonal",
    ),
    "later": (
        "its attention mask is inverted",
        "Invert the mask: ",
        "Invert the mask: in scaled_dot_product_attention, True means look there; in nn.MultiheadAttention and "
        "masked_fill, True means masked",
    ),
    "all": (
        "nothing masks what comes later",
        "",
        "Mask what comes later: is_causal=True in scaled_dot_product_attention{causal}, "
        f"{OR}or scores.masked_fill(torch.ones(T, T, "
        'dtype=torch.bool).triu(1), float("-inf")) before the softmax',
    ),
}
"""What is wrong, and what to do, with the statement that makes the mask and without."""


def _finding(scene: Scene, lookup: Node, met: Met, causal: str, shape: tuple[int, ...]) -> Finding:
    given = scene.line_of(lookup)
    return warning(
        "BS152",
        "The model is given the tokens that it must predict: input and target are not shifted.",
        (
            if_known(given, f"looks up the {shaped(shape)} tokens."),
            shown(met.line.place, "compares with the same ones, position by position."),
            f"Through {causal} each position sees its own token, so the loss falls by copying, and nothing that comes "
            "next is predicted.",
        ),
        "Shift them by one: give the model tokens[:, :-1] and compare with tokens[:, 1:]. A decoder starts with a "
        "token of its own: torch.cat([start, target[:, :-1]], 1).",
        met.line.place,
        nodes=(lookup.index,),
    )


# BS153: the target of a loss is noise that nothing else uses, while the model was given other noise.


_COMPARES = frozenset({"Sub", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss"})
_NORMAL = frozenset({"randn", "randn_like"})
_DRAWS = _NORMAL | {"normal", "normal_", "rand", "rand_like"}


class _Noised(NamedTuple):
    """The statement that adds noise of its own to the data, what to write to give it the target, and the edit."""

    place: Place
    drawn: Place
    hand: str
    edit: str = ""


@rule("BS153")
def other_noise(scene: Scene) -> Iterator[Finding]:
    """A loss compares with `randn_like(x)`, read nowhere else; what the model gets of `x` has noise drawn elsewhere.

    The statement of the comparison ran, as a node of this loss comes from there. Its function tells the rest: what is
    read in no other statement cannot have been added to anything.
    """
    told: set[Place] = set()
    for node in scene.graph.nodes:
        line = scene.line_of(node) if node.op in _COMPARES else None
        body, statement = read_at(line.place if line is not None else None)
        if line is None or body is None or statement is None or line.place in told:
            continue
        told.add(line.place)
        for name, made, data in _targets(body, statement, node.op):
            noised = _noised(body, statement, name, data)
            if noised is not None:
                yield _of_noise(name, made, noised, line.place, node.index)


def _of_noise(name: str, made: Place, noised: _Noised, compared: Place, node: int) -> Finding:
    draws = () if noised.drawn == noised.place else (shown(noised.drawn, "draws that noise."),)
    return warning(
        "BS153",
        f"The loss compares with {name}, but the model is given data with other noise.",
        (
            shown(made, f"draws {name}, which nothing but the loss reads."),
            shown(noised.place, "adds noise of its own to the data."),
            *draws,
            shown(compared, f"compares with {name}, which cannot be predicted: the best output is its mean, 0."),
        ),
        f"Add the noise that is the target: {noised.hand}{noised.edit if made.line < noised.place.line else ''}.",
        noised.place,
        nodes=(node,),
    )


def _targets(body: Body, statement: ast.stmt, op: str) -> Iterator[tuple[str, Place, str]]:
    """Yield the names in a comparison that were given normal noise of the shape of something, and are read here alone;
    with that statement and what it takes the shape of."""
    compared: list[ast.expr] = []
    for each in expressions(statement):
        if op == "Sub" and isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub):
            compared += [each.left, each.right]
        elif isinstance(each, ast.Call) and (op != "Sub" or callee(each)[1] == "l1_loss"):
            compared += each.args
    for name in dict.fromkeys(each.id for each in compared if isinstance(each, ast.Name)):
        places = assignments(body, name)
        made = statement_at(body, *places[0].position) if len(places) == 1 else None
        value = made.value if isinstance(made, ast.Assign) and dotted(made.targets[0]) == name else None
        if not isinstance(value, ast.Call) or callee(value)[1] not in _NORMAL or not value.args:
            continue
        if _times_read(body, name) == 1:
            yield name, places[0], _shape_of(value.args[0])


def _times_read(body: Body, name: str) -> int:
    """Return how often a function reads a name; those inside of it count unless it is a variable of their own."""
    inside = [each for each in functions(body.file) if each.node is not body.node and _is_inside(each, body)]
    others = [each for each in inside if name not in parameters_of(each.node) and not assignments(each, name)]
    nodes = (n for each in (body, *others) for s in statements(each.node) for n in expressions(s))
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in nodes)


def _is_inside(inner: Body, body: Body) -> bool:
    last = 2**31 if isinstance(body.node, ast.Module) else body.node.end_lineno or 0
    return not isinstance(inner.node, ast.Module) and getattr(body.node, "lineno", 0) < inner.node.lineno <= last


def _shape_of(given: ast.expr) -> str:
    """Return the x of `randn_like(x)`, `randn(x.shape)`, `randn(*x.shape)`, `randn(x.size())`; else nothing."""
    given = given.value if isinstance(given, ast.Starred) else given
    given = given.func if isinstance(given, ast.Call) else given
    is_shape = isinstance(given, ast.Attribute) and given.attr in ("shape", "size")
    return dotted(given.value if is_shape and isinstance(given, ast.Attribute) else given) or ""


def _noised(body: Body, statement: ast.stmt, target: str, data: str) -> _Noised | None:
    """Return the one statement that adds other noise to the data, of those that lead to a comparison."""
    found = []
    for each in _leading_to(body, statement, target) if data else ():
        if data.split(".")[0] not in _reads(each):
            continue
        for call in calls_in(each):
            if callee(call)[1] in _DRAWS:
                hand, edit = f"{target} in place of {body.text(call)}", instead(body, each, {call: target})
                found.append(_Noised(body.place(each), body.place(each), hand, edit))
            elif any(dotted(value) == data for value in call.args):
                inner = [b for b in functions(body.file) if b.name == callee(call)[1]]
                found += [n for b in inner if (n := _draws_inside(body, each, call, b, target)) is not None]
    return only(found)


def _draws_inside(body: Body, statement: ast.stmt, call: ast.Call, inner: Body, target: str) -> _Noised | None:
    """Return that a function which is given the data draws noise, for which it may take an argument."""
    drawing = [s for s in statements(inner.node) if any(callee(c)[1] in _NORMAL for c in calls_in(s))]
    if len(drawing) != 1:
        return None
    arguments = inner.node.args.args if isinstance(inner.node, ast.FunctionDef) else []
    bound = {dotted(each) for each in getattr(drawing[0], "targets", [])}
    takes = next((each.arg for each in arguments if each.arg in bound), None)
    named = [each.arg for each in arguments if each.arg != "self"]
    if takes is not None and (takes in {each.arg for each in call.keywords} or named.index(takes) < len(call.args)):
        return None
    text = body.text(call)
    hand = f"{text[:-1]}, {takes}={target})" if takes is not None else f"give {target} to {callee(call)[1]}()"
    edit = instead(body, statement, {call: hand}) if takes is not None else ""
    return _Noised(body.place(statement), inner.place(drawing[0]), hand, edit)


def _leading_to(body: Body, statement: ast.stmt, target: str) -> list[ast.stmt]:
    """Return a statement, and those of its function that give the names it reads their values, but for the target's."""
    found, names = [statement], {target}
    for each in found:  # grows as we go
        for name in {
            n.id for n in expressions(each) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        } - names:
            names.add(name)
            places = assignments(body, name, before=each.lineno)
            made = statement_at(body, *places[-1].position) if places else None
            found += [made] if made is not None and made not in found else []
    return found


def _reads(statement: ast.stmt) -> set[str]:
    return {n.id for n in expressions(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
