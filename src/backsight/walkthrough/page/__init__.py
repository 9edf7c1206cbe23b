"""The walk as one page: the steps, a card for the one that is looked at, forward and back. It needs no other file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

import torch

from backsight.tape.ops import VIEWS
from backsight.tape.rows import dimensions
from backsight.text.page import data, document, own, script, style
from backsight.walkthrough.errors import WalkError
from backsight.walkthrough.gradient import Gradient, number, numbers
from backsight.walkthrough.jacobian import Jacobian
from backsight.walkthrough.step import Step
from backsight.walkthrough.table import FORMULA

if TYPE_CHECKING:
    from backsight.walkthrough.walk import Walk

MOST_STEPS = 2000
"""Steps told on one page; of a longer walk the last so many."""

GRID, FEW = 128, 16
"""A gradient of at most so many elements is shown as numbers: in a short walk, and in one of many steps."""

JACOBIAN = 4096
"""A Jacobian of at most so many entries is shown as a picture."""

CLOSELY, SMALL = 200, 1 << 16
"""In a walk of more steps, Jacobian and check, which call a node ten times, are left to `print(step)`; in one of more
than `FORMULA` steps also those of larger gradients."""

SCRIPTS = ("card.js", "picture.js", "curve.js", "page.js")
_KEY = '<figcaption><i class="lit">runs</i><i class="next">receives</i><i class="run">has run</i></figcaption>'


def page(walk: Walk, picture: str | None = None) -> str:
    """Return the page.

    No name in it can do harm: all of them are data, and the page's own policy forbids whatever comes from elsewhere.

    Args:
        walk: its steps so far are told.
        picture: an SVG that stands beside them; the graph's own if None is given.
    """
    title = f"backward of {', '.join(dict.fromkeys(name for name in walk.graph.root_names if name)) or 'graph'}"
    if picture is None:
        picture = walk.graph.to_svg(heat=None, views=len(walk) <= FORMULA)  # colour says which node runs, and no more
    beside = f'<figure id="picture" tabindex="0" aria-label="graph">{picture}{_KEY}</figure>' if picture else ""
    body = f"""<header><h1>{escape(title)}</h1><p>{escape(_facts(walk))}</p><nav>
<button id="back" aria-label="one step back" title="←">◀</button>
<input id="at" type="range" min="0" value="0" aria-label="step">
<button id="forth" aria-label="one step forward" title="→">▶</button><output id="count"></output></nav></header>
<main><ol id="steps" aria-label="steps and the norm of what arrives"></ol>{beside}
<section><article id="card" aria-live="polite"></article><figure id="curve"></figure></section></main>
{data("walk", _data(walk))}
{script(own(__package__, *SCRIPTS))}"""
    return document(title, body, head=style(own(__package__, "page.css")))


def framed(walk: Walk) -> str:
    """Return the page in a frame, as a notebook shows it."""
    style = "width:100%;height:560px;border:1px solid #8884;border-radius:6px"
    return f'<iframe srcdoc="{escape(page(walk), quote=True)}" style="{style}" title="backward, step by step"></iframe>'


def _facts(walk: Walk) -> str:
    facts = [f"all {len(walk):,} steps" if walk.done else f"{len(walk.steps):,} of {len(walk):,} steps have run"]
    if len(walk.steps) > MOST_STEPS:
        facts.append(f"the last {MOST_STEPS:,} are shown")
    return "; ".join([*facts, *([f"stopped: {walk.stopped}"] if walk.stopped else []), *walk.notes])


def _data(walk: Walk) -> dict[str, Any]:
    """Return what the page's script reads; what all steps of an operation share is there once."""
    full, closely = len(walk) <= FORMULA, len(walk) <= CLOSELY
    shown = walk.steps[-MOST_STEPS:]
    steps = [{k: v for k, v in _told(step, full, closely).items() if v not in ("", [], None)} for step in shown]
    ops = {step.node.name: _op(step) for step in shown if step.node.leaf is None}
    return {"ops": ops, "steps": steps, "done": walk.done}


def _op(step: Step) -> dict[str, Any]:
    """Return what is told of every step of an operation."""
    return {
        "words": step.words,
        "view": step.node.op in VIEWS,
        "signature": step.formula.signature if step.formula else step.node.definition or "",
        "formula": [[name, text] for name, text in step.formula.of.items()] if step.formula else [],
    }


def _told(step: Step, full: bool, closely: bool) -> dict[str, Any]:
    """Return what the card of a step tells, with Jacobians and check where calling the node again is not too much."""
    leaf = step.node.leaf
    small = all(g is None or g.elements <= SMALL for g in (*step.grad_in, *step.grad_out))
    computes = leaf is None and (full or (closely and small))
    return {
        "n": step.number,
        "node": step.node.index,
        "name": leaf.label if leaf else step.op,
        "kind": step.node.kind,
        "trained": _trained(step),
        "module": step.node.graph.called(step.node.module) if step.node.module else "",
        "op": "" if leaf else step.node.name,
        "words": step.words if leaf else "",
        "notes": list(step.notes),
        "norm": _norm(step),
        "bad": "" if step.finite else "yes",
        "in": [_gradient("g", g, full) for g in step.grad_in if g is not None],
        "out": list(_leaving(step, full)),
        "jacobians": list(_jacobians(step, full)) if computes else [],
        "check": [step.check.ok, str(step.check)] if computes else [],
    }


def _trained(step: Step) -> str:
    """Return what the picture says of a leaf by its colour; empty where no optimizer is known, and of an operation."""
    leaf = step.node.leaf
    if leaf is None or leaf.kind == "overwritten" or not any(each.owner is not None for each in step.node.graph.leaves):
        return ""
    return "trained" if leaf.owner is not None else "untrained"


def _norm(step: Step) -> str:
    """Return the norm of what arrives, and of what leaves where it is that which is not finite."""
    arrives = number(step.norm_in)
    breaks = math.isfinite(step.norm_in) and not math.isfinite(step.norm_out)
    return f"{arrives} → {number(step.norm_out)}" if breaks else arrives


def _leaving(step: Step, full: bool) -> Iterator[dict[str, Any]]:
    for name, gradient, edge in zip(step.arguments, step.grad_out, step.node.inputs, strict=True):
        if gradient is not None and edge is not None:
            yield {**_gradient(name, gradient, full), "node": edge.node.index}


def _gradient(name: str, gradient: Gradient, full: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "shape": dimensions(gradient.shape), "norm": number(gradient.norm)}
    if gradient.value is not None and gradient.elements <= (GRID if full else FEW):
        told["grid"] = _grid(gradient.value)
    elif gradient.value is not None:
        told["first"] = numbers(gradient.value)
    return told


def _jacobians(step: Step, full: bool) -> Iterator[dict[str, Any]]:
    try:
        found: tuple[Jacobian, ...] = step.jacobian
    except (WalkError, RuntimeError):  # complex gradients, a graph freed since: the card then goes without
        return
    for each in found:
        matrix = each.matrix if each.matrix is not None and each.matrix.numel() <= JACOBIAN and full else None
        yield {"name": each.argument, "text": str(each), "grid": None if matrix is None else _grid(matrix)}


def _grid(tensor: torch.Tensor) -> list[list[float | str]] | None:
    """Return the values as rows: the last dimension across, all others down. None for what is no grid of numbers."""
    if tensor.layout != torch.strided or tensor.is_complex() or not tensor.numel():
        return None
    try:
        flat = tensor.detach().reshape(-1, tensor.shape[-1] if tensor.dim() else 1).tolist()
    except RuntimeError:  # nested tensors, and those without storage
        return None
    return [[float(f"{x:.3g}") if math.isfinite(x) else str(x) for x in row] for row in flat]
