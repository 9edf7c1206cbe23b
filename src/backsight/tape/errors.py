"""What `capture` says when there is nothing to capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.tape.rows import dtype_name


class NothingToCapture(ValueError):
    """None of the roots has an autograd graph. The message says what came and what to do."""

    @classmethod
    def because(cls, roots: Sequence[Any], tensors: Sequence[Any]) -> NothingToCapture:
        """Explain why `roots`, in which `tensors` were found, have no graph."""
        if not roots:
            return cls("graph() needs at least one root: pass the loss, as in backsight.graph(loss).")
        if not tensors:
            kinds = ", ".join(sorted({_kind(root) for root in roots}))
            return cls(
                f"graph() found no tensor in its roots: it was given {kinds}, and expects tensors, GradientEdges, or "
                "tuples, lists, dicts or dataclasses of them. Pass the loss, as in backsight.graph(loss)."
            )
        first = describe(tensors[0])
        article = "an" if first.startswith("int") else "a"
        many = f" (the first of {len(tensors)} tensors, none of which has a graph)" if len(tensors) > 1 else ""
        return cls(f"graph() was given {article} {first}{many}, which has no autograd graph. {_fix(tensors[0])}")


def _kind(value: Any) -> str:
    """Return `list of int`, `empty dict` or `pathlib.Path`: the classes, without asking the objects."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if not issubclass(kind, (tuple, list, dict)):
        return name
    iterate = dict.values if issubclass(kind, dict) else tuple.__iter__ if issubclass(kind, tuple) else list.__iter__
    inner = sorted({type(item).__qualname__ for item in iterate(value)})
    return f"{name} of {' and '.join(inner)}" if inner else f"empty {name}"


def describe(tensor: torch.Tensor) -> str:
    """Return `float32 tensor of shape 2×3` for a tensor."""
    shape = "×".join(map(str, tensor.shape)) or "()"
    return f"{dtype_name(tensor.dtype)} tensor of shape {shape}"


def _fix(tensor: torch.Tensor) -> str:
    if tensor.is_inference():
        return "It was created under torch.inference_mode(); make it outside, or under torch.no_grad() and clone it."
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return "Only floating-point and complex tensors carry gradients: capture the loss before it becomes an integer."
    if not torch.is_grad_enabled():
        return "Gradients are disabled here (torch.no_grad()): compute it outside of that block."
    return (
        "Either nothing that it was computed from requires a gradient, or it was computed under torch.no_grad() or "
        "passed through .detach(), .item() or .data on the way."
    )
