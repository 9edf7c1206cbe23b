"""Calling one node as the engine calls it, and making its results what the engine makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from backsight.tape._torch import forward_class, input_metadata, leaf_dtype
from backsight.tape.own_hooks import unnumbered
from backsight.tape.rows import dimensions

Gradients = Sequence[torch.Tensor | None]


class BackwardRaises(RuntimeError):
    """A node made what the engine refuses: `backward()` would raise too. The message says what."""


def call(node: Any, gradients: Gradients) -> tuple[torch.Tensor | None, ...]:
    """Return what the backward of `node` makes of `gradients`: one result for each of its `next_functions`.

    Hooks do not run: neither those of tensors nor those of nodes. They belong to the engine, not to the node.

    Raises:
        BackwardRaises: if a custom Function returned too few gradients.
        RuntimeError: what the node itself raises.
    """
    if forward_class(type(node)) is not None:
        return _custom(node, gradients)
    results = node(*gradients)
    return results if isinstance(results, tuple) else (results,)


def fitted(gradient: torch.Tensor, node: Any, output: int) -> torch.Tensor:
    """Return `gradient` as the engine hands it to output number `output` of `node`.

    Where an input was broadcast in the forward pass the engine sums over the copies, and it casts to the dtype of the
    forward (`validate_outputs` in torch/csrc/autograd/engine.cpp).

    Raises:
        BackwardRaises: if the shape is not that of the output, nor one that it was broadcast to.
    """
    expected = input_metadata(node)[output]
    try:
        shape = tuple(expected.shape)
    except RuntimeError:  # nested tensors have none, and are never broadcast
        return gradient
    if tuple(gradient.shape) != shape:
        gradient = _summed(gradient, shape, node)
    variable = getattr(node, "variable", None) if type(node).__name__ == "AccumulateGrad" else None
    dtype = expected.dtype if variable is None else leaf_dtype(variable, expected.dtype)
    if dtype is not None and gradient.dtype != dtype:
        gradient = gradient.to(dtype)
    if gradient.device != expected.device and gradient.dim() == 0:
        gradient = gradient.to(expected.device)
    return gradient


def _summed(gradient: torch.Tensor, shape: tuple[int, ...], node: Any) -> torch.Tensor:
    try:
        return gradient.sum_to_size(shape)
    except RuntimeError:
        raise BackwardRaises(
            f"a gradient of shape {dimensions(gradient.shape)} came for {type(node).__name__}, whose output has the "
            f"shape {dimensions(shape)}; backward() would raise too. The backward of a custom Function must return "
            "gradients of the shapes of its inputs."
        ) from None


def _custom(node: Any, gradients: Gradients) -> tuple[torch.Tensor | None, ...]:
    """Call the backward of a custom Function."""
    if any(g is None for g in gradients) and any(g is not None for g in gradients):
        return _by_the_engine(node, gradients)
    made = [_zeros(node, k) if g is None else g for k, g in enumerate(gradients)]
    results = node.apply(*made)
    results = results if isinstance(results, tuple) else (results,)
    return _spread(node, results)


def _spread(node: Any, results: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
    """Return one result for each edge: a backward returns one for each argument, tensor or not."""
    wanted = node.needs_input_grad
    if len(results) < len(wanted):
        raise BackwardRaises(
            f"{type(node).__name__} returned {len(results)} gradients for the {len(wanted)} arguments of its forward; "
            "backward() would raise too. Return one for each argument, None for those that need none."
        )
    needed = iter([result for result, need in zip(results, wanted, strict=False) if need])
    return tuple(next(needed, None) if producer is not None else None for producer, _ in node.next_functions)


def _zeros(node: Any, output: int) -> torch.Tensor:
    expected = input_metadata(node)[output]
    return torch.zeros(tuple(expected.shape), dtype=expected.dtype, device=expected.device)


class _Done(Exception):
    """Raised out of the engine once the one node has been called."""


def _by_the_engine(node: Any, gradients: Gradients) -> tuple[torch.Tensor | None, ...]:
    """Have the engine call one node, and stop it there.

    The one case in which a node's hooks run: some gradients are missing, and whether the Function wants zeros or None
    for them (`set_materialize_grads`) is known to C++ alone.
    """
    results: list[tuple[torch.Tensor | None, ...]] = []

    def stop(given: tuple[torch.Tensor | None, ...], _: object) -> None:
        results.append(given)
        raise _Done

    arrived = [(GradientEdge(node, k), g) for k, g in enumerate(gradients) if g is not None]
    producers = [GradientEdge(producer, k) for producer, k in node.next_functions if producer is not None]
    with unnumbered():
        handle = node.register_hook(stop)
    try:
        torch.autograd.grad(
            [edge for edge, _ in arrived],
            producers,
            [g for _, g in arrived],
            retain_graph=True,
            create_graph=torch.is_grad_enabled(),
            allow_unused=True,
        )
    except _Done:
        pass
    finally:
        handle.remove()
    return results[0]
