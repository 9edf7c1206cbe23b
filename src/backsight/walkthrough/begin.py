"""`walk`: where a walk begins, and what is refused there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from backsight.snapshot import graph
from backsight.surface import require
from backsight.tape import Graph, Models, Node, NothingToCapture, tensors_in
from backsight.tape.capture import root_edges
from backsight.tape.errors import describe
from backsight.tape.walk import walk as live_walk
from backsight.walkthrough.engine import Engine
from backsight.walkthrough.errors import WalkError
from backsight.walkthrough.walk import Walk

KEEP = 4096
"""Gradients of at most this many elements are kept for looking at; of larger ones the shape and the norm."""

Gradient = torch.Tensor | Sequence[torch.Tensor | None] | None


def walk(
    *roots: Any,
    gradient: Gradient = None,
    model: Models = None,
    names: bool = True,
    create_graph: bool = False,
    keep: int | None = KEEP,
) -> Walk:
    """Begin a backward pass from `roots` that goes one node at a time.

    ```python
    w = backsight.walk(loss)
    step = w.until("layer1.0")      # what arrives there: step.grad_in[0].norm
    print(w.run())                  # a table of the whole pass
    w.grad("layer1.0.weight")       # bit for bit what loss.backward() would add to .grad
    ```

    Nodes are called one by one in the engine's order, so the gradients are those of `loss.backward()` to the bit.
    `.grad` is not touched and nothing is freed: call `loss.backward()` afterwards if you like. Hooks do not run.

    Args:
        roots: the loss; or tensors of any shape, with `gradient`.
        gradient: the gradient of each root, as in `torch.autograd.backward`; ones for scalars.
        model: the module, or modules by name, whose paths nodes are given; found around the caller if not given.
        names: look for the variables that hold leaves and roots.
        create_graph: let the gradients have graphs of their own, for second derivatives.
        keep: elements up to which a gradient's tensor stays in its step; None keeps all of them.

    Raises:
        NothingToCapture: if no root has a graph.
        WalkError: if a root needs a gradient that was not given, or if the graph cannot be walked: it was freed, or it
            contains a reentrant checkpoint, whose backward writes to `.grad`.
        Unavailable: if this PyTorch lacks something that walking needs.
    """
    require("shapes of results")
    tensors = [t for t in tensors_in(roots) if isinstance(t, GradientEdge) or t.requires_grad]
    starts = _starts(tensors, gradient)
    captured = _captured(roots, model, names)
    engine = Engine(live_walk([node for node, _ in root_edges(tensors)]), create_graph)
    edges = zip(captured.root_edges, starts, strict=True)
    engine.begin([(node, output, start) for (node, output), start in edges])
    return Walk(captured, engine, keep)


def _captured(roots: tuple[Any, ...], model: Models, names: bool) -> Graph:
    """Return the graph, if it can be walked to its end without doing harm."""
    try:
        captured = graph(*roots, model=model, names=names)
    except NothingToCapture as error:
        said = str(error).replace("graph() ", "walk() ").replace("backsight.graph(", "backsight.walk(")
        raise NothingToCapture(said) from None
    _refuse(captured)
    return captured


def _starts(roots: Sequence[Any], gradient: Gradient) -> list[torch.Tensor]:
    """Return the gradient with which each root begins."""
    given = [gradient] if gradient is None or isinstance(gradient, torch.Tensor) else list(gradient)
    if gradient is None:
        given = [None] * len(roots)
    if roots and len(given) != len(roots):
        raise WalkError(f"{len(given)} gradients for {len(roots)} roots: pass one for each.")
    return [_start(root, one) for root, one in zip(roots, given, strict=False)]


def _start(root: Any, gradient: torch.Tensor | None) -> torch.Tensor:
    if isinstance(root, GradientEdge):
        if gradient is None:
            raise WalkError("a GradientEdge has no known shape: pass its gradient, as in walk(edge, gradient=g).")
        return gradient
    if gradient is None:
        return _ones(root)
    if tuple(gradient.shape) != tuple(root.shape):
        raise WalkError(f"the gradient is a {describe(gradient)}, but its root is a {describe(root)}.")
    if gradient.is_complex() != root.is_complex():
        raise WalkError(f"a {describe(root)} cannot start with a gradient of dtype {gradient.dtype}.")
    return gradient if gradient.dtype == root.dtype else gradient.to(root.dtype)


def _ones(root: torch.Tensor) -> torch.Tensor:
    if root.is_complex():
        raise WalkError(
            f"a {describe(root)} has no implicit gradient: only a real scalar has. Walk a real function of it, such "
            "as .abs().sum(), or pass its gradient, as in walk(z, gradient=g)."
        )
    if root.numel() != 1:
        raise WalkError(
            f"a {describe(root)} has no implicit gradient: only a scalar has. Walk its .sum() or .mean(), or pass its "
            "gradient, as in walk(y, gradient=torch.ones_like(y))."
        )
    with torch.no_grad():
        return torch.ones_like(root, memory_format=torch.preserve_format)


def _refuse(captured: Graph) -> None:
    """Refuse what could not be walked to its end, or not without doing harm."""
    for node in captured.nodes:
        if node.freed:
            raise WalkError(
                f"the graph is already freed: a backward released what {node} saved. Walk before loss.backward(), or "
                "call loss.backward(retain_graph=True)."
            )
        if _is_reentrant(node):
            raise WalkError(
                f"{node} is a reentrant checkpoint: its backward runs a whole backward of its own, which writes to "
                ".grad and cannot be stepped. Use checkpoint(..., use_reentrant=False)."
            )


def _is_reentrant(node: Node) -> bool:
    return node.kind == "checkpoint" and node.name.startswith("CheckpointFunction")
