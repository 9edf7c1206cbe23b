"""BS152: a causal model is given, at each position, the very token that it is to predict there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.holders import below, kept, users
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import if_known, shaped, shown, warning
from backsight.tape import Node
from backsight.tape.modules import ModelTree
from backsight.tracing import Met

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
    and learns nothing from copying.
    """
    losses = [met for met in scene.met().values() if met.target]
    lookups = [node for node in scene.graph.nodes if node.op == "Embedding"] if losses else []
    above = users(scene.graph) if lookups else {}
    for lookup in lookups:
        indices = kept(lookup, "indices")
        for met in losses if indices is not None and indices.dim() == 2 else ():
            if indices is None or not _are_same(indices, met.target):
                continue
            causal = _leads(scene, above, lookup, _Tokens(*indices.shape))
            if causal is not None:
                yield _finding(scene, lookup, met, causal, tuple(indices.shape))
                return


def _are_same(indices: torch.Tensor, target: tuple[int, ...]) -> bool:
    """Whether the tokens are those of the target, but where that is to be ignored, and differ from their neighbors."""
    if indices.numel() != len(target) or indices.shape[1] < _SHORTEST:
        return False
    counted = [
        (token, wanted) for token, wanted in zip(indices.reshape(-1).tolist(), target, strict=True) if wanted >= 0
    ]
    if 2 * len(counted) < len(target) or any(token != wanted for token, wanted in counted):
        return False
    return bool((indices[:, 1:] != indices[:, :-1]).any())


def _leads(scene: Scene, users: dict[int, list[Node]], lookup: Node, tokens: _Tokens) -> str | None:
    """Return what is causal on a way from the tokens to the loss that keeps each at its position; None without one."""
    recurrent = _recurrent(scene)
    stack: list[tuple[Node, str]] = [(lookup, "")]
    seen = {(lookup.index, "")}
    attends = _masked(scene, tokens)
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
    found = [each for node in scene.graph.nodes if (each := _sees_later(node, tokens)) is not None]
    return "causal attention" if found and not any(found) else ""


def _sees_later(node: Node, tokens: _Tokens) -> bool | None:
    """Whether attention goes to later positions; None of what is no attention among the tokens, or cannot be read."""
    if node.op in ("Softmax", "SafeSoftmax"):
        result = kept(node, "result")
        if result is None or result.shape[-2:] != (tokens.steps, tokens.steps):
            return None
        with torch.no_grad():
            return bool((result.detach().triu(1) != 0).any())
    query, key, total = (kept(node, name) for name in ("query", "key", "logsumexp"))
    if query is None or key is None or total is None or query.dim() != 4 or key.shape[2] != tokens.steps:
        return None
    with torch.no_grad():  # to itself alone goes the first position's attention, if it sees none that is later
        first = (query[:, :, 0].double() * key[:, :, 0].double()).sum(-1) / query.shape[-1] ** 0.5
        sums = total[..., 0].double()
        return sums.shape != first.shape or bool(((sums - first).abs() > 1e-3 * (1 + first.abs())).any())


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
