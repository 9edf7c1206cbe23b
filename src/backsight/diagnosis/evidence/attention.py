"""To which positions of a sequence attention goes, as its saved tensors show."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import Literal

import torch

from backsight.diagnosis.amending import instead, without_keyword
from backsight.source import Body, Place, calls_of
from backsight.source.body import callee, given_to, keyword
from backsight.source.imports import library
from backsight.source.rewriting import rewritten
from backsight.story.holders import given, kept
from backsight.tape import Node

_LARGEST = 1 << 22
_TO_SCORES = frozenset({"View", "UnsafeView", "Expand", "Div", "Mul", "MaskedFill", "Where", "Add", "Sub", "ToCopy"})
_PRODUCTS = frozenset({"Bmm", "Baddbmm", "Mm"})
_FUSED = frozenset({"query", "key", "logsumexp"})

Seen = Literal["", "next", "later", "all"]
"""What attention sees beside what is before a position: only the one after it, only what comes after, or everything."""


@dataclass(frozen=True)
class Triangle:
    """The statement that makes a triangular mask, and what to write instead."""

    place: Place
    instead: str


def operands(node: Node) -> list[Node]:
    """Return what the scores of attention are a product of, as far as autograd follows both; nothing of other nodes."""
    if {each.name for each in node.saved} >= _FUSED:
        return given(node)[:2]
    queue = [node] if node.op in ("Softmax", "SafeSoftmax") else []
    for at in queue:  # grows as we go
        if at.op in _PRODUCTS:
            return given(at)[-2:]
        queue.extend(each for each in given(at) if each.op in _TO_SCORES | _PRODUCTS)
    return []


def sees_later(node: Node, steps: int) -> bool | None:
    """Whether attention goes to later positions; None of what is no attention among `steps`, or cannot be read."""
    if node.op in ("Softmax", "SafeSoftmax"):
        result = kept(node, "result")
        if result is None or result.shape[-2:] != (steps, steps):
            return None
        with torch.no_grad():
            return bool((result.detach().triu(1) != 0).any())
    query, key, total = (kept(node, name) for name in ("query", "key", "logsumexp"))
    if query is None or key is None or total is None or query.dim() != 4 or key.shape[2] != steps:
        return None
    with torch.no_grad():  # to itself alone goes the first position's attention, if it sees none that is later
        first = (query[:, :, 0].double() * key[:, :, 0].double()).sum(-1) / query.shape[-1] ** 0.5
        sums = total[..., 0].double()
        return sums.shape != first.shape or bool(((sums - first).abs() > 1e-3 * (1 + first.abs())).any())


def seen(node: Node, steps: int) -> Seen:
    """Say what attention among `steps` positions sees; nothing if that is all before it, something else, or unknown."""
    pairs = _of_weights(node, steps)
    if pairs is not None:
        above, below = pairs.triu(1), pairs[:-1].tril(0 if not pairs.diagonal().all() else -1)
        if not above.any():
            return ""
        if not pairs.triu(2).any():
            return "next" if bool(pairs.diagonal(1).all()) else ""
        return "later" if not below.any() else "all" if bool(pairs.all()) else ""
    return _of_sums(node, steps)


def _of_weights(node: Node, steps: int) -> torch.Tensor | None:
    """Return which positions see which, of any sample and head."""
    result = kept(node, "result") if node.op in ("Softmax", "SafeSoftmax") else None
    if result is None or result.shape[-2:] != (steps, steps) or result.numel() > _LARGEST:
        return None
    with torch.no_grad():
        return (result.detach().reshape(-1, steps, steps) != 0).any(0)


def _of_sums(node: Node, steps: int) -> Seen:
    """The same of fused attention, which keeps no weights but the logarithms of their sums."""
    query, key, total = (kept(node, name) for name in ("query", "key", "logsumexp"))
    if query is None or key is None or total is None or query.dim() != 4 or key.shape != query.shape:
        return ""
    samples, heads, length, width = query.shape
    if length != steps or total.shape != (samples, heads, steps) or samples * heads * steps**2 > _LARGEST:
        return ""
    with torch.no_grad():
        scores = query.double() @ key.double().transpose(-2, -1) / width**0.5
        every = torch.ones(steps, steps, dtype=torch.bool)
        masks: dict[Seen, torch.Tensor] = {
            "": every.tril(),
            "next": every.tril(1),
            "later": every.triu(1),
            "all": every,
        }
        for name, mask in masks.items():
            sums = scores.masked_fill(~mask.to(scores.device), float("-inf")).logsumexp(-1)
            rows = mask.any(-1)
            if bool(((sums - total.double()).abs() <= 1e-3 * (1 + sums.abs()))[..., rows].all()):
                return name
    return ""


def lower_right(query: str, key: str) -> str:
    """Say which mask lets the queries, which are the last of the keys, see what comes before each."""
    return f"attn_mask=torch.ones(L, S, dtype=torch.bool).tril(S - L), with L = {query}.size(-2) and S = {key}.size(-2)"


def masked_to_the_end(body: Body, statement: ast.stmt | None, call: ast.Call, query: str, key: str) -> str:
    """Give fused attention that mask, in place of is_causal."""
    (new,) = without_keyword(body, call, "is_causal").values() or ("",)
    rows, columns = f"{query}.size(-2)", f"{key}.size(-2)"
    mask = f"torch.ones({rows}, {columns}, dtype=torch.bool, device={query}.device).tril({columns} - {rows})"
    return instead(body, statement, {call: f"{new[:-1]}, attn_mask={mask})"}) if new else ""


def triangle_of(file: str, what: Seen) -> Triangle | None:
    """Return the only statement of a file that makes a triangle, where another one is what was meant."""
    calls = [(body, statement, call) for body, statement, call in calls_of(file) if callee(call)[1] in ("tril", "triu")]
    if len(calls) != 1 or what == "all":
        return None
    body, statement, call = calls[0]
    new = _mended(call, what)
    instead = rewritten(body, statement, {call: ast.unparse(new)}) if new is not None else ""
    return Triangle(body.place(statement), instead) if instead else None


def _mended(call: ast.Call, what: Seen) -> ast.Call | None:
    """Return a call with the diagonal before its own, or of the other triangle; None if its diagonal is no number."""
    receiver, name = callee(call)
    of_tensor = receiver is not None and not library(call.func)
    given = given_to(call)[1:]
    try:
        diagonal = ast.literal_eval(keyword(call, "diagonal", "k") or (given[0] if given else ast.Constant(0)))
    except ValueError:
        return None
    if what == "next":
        diagonal -= 1
    else:
        name, diagonal = ("tril", 0) if name == "triu" else ("triu", 1)
    new = copy.deepcopy(call)
    new.args = new.args[: 0 if of_tensor else 1]
    called = "k" if keyword(call, "k") is not None else "diagonal"
    new.keywords = [each for each in new.keywords if each.arg not in ("diagonal", "k")]
    new.keywords += [ast.keyword(called, ast.Constant(diagonal))] if diagonal else []
    if isinstance(new.func, ast.Attribute):
        new.func.attr = name
    elif isinstance(new.func, ast.Name):
        new.func.id = name
    return new
