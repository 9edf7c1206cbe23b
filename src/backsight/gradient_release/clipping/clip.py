"""The two calls of a release that clip: `release.clip` and `release.backward`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from backsight.gradient_release.clipping.bound import Bound
from backsight.gradient_release.clipping.clipping import Clipping, Method
from backsight.gradient_release.clipping.two_pass import two_passes
from backsight.gradient_release.errors import ReleaseError
from backsight.gradient_release.scaler import Unscaling, refuse_scaled

if TYPE_CHECKING:
    from backsight.gradient_release.stepping import Stepping

METHODS = ("auto", "two-pass", "factored")

PASS_AGAIN = 0.5
"""Of all gradients, the share that would stay dense from which "auto" runs backward twice instead."""


def clip(
    stepping: Stepping,
    max_norm: float | None,
    norm_type: float = 2.0,
    method: Method = "auto",
    error_if_nonfinite: bool = False,
) -> None:
    """Clip gradients from now on; see `Release.clip`."""
    if method not in METHODS:
        raise ValueError(f"clip(method={method!r}): it must be one of {', '.join(map(repr, METHODS))}.")
    if max_norm is not None and not float(max_norm) >= 0:
        raise ValueError(f"clip(max_norm={max_norm!r}): a norm must be 0 or more; None turns clipping off.")
    if stepping.stepped:
        raise ReleaseError(
            "clip() in the middle of a step: some parameters already took it unclipped. Call it after step()."
        )
    if stepping.clipping is not None:
        stepping.clipping.close()
    if max_norm is None:
        stepping.clipping_with(None)
    else:
        bound = Bound(float(max_norm), float(norm_type), error_if_nonfinite)
        stepping.clipping_with(Clipping(stepping, bound, method))


def backward(
    stepping: Stepping,
    loss: torch.Tensor,
    *,
    gradient: torch.Tensor | None = None,
    retain_graph: bool = False,
    scaler: Any = None,
) -> None:
    """Run a backward pass, or two; see `Release.backward`."""
    clipping = stepping.clipping
    if scaler is not None and scaler.is_enabled():
        if clipping is None:
            raise ReleaseError("backward(scaler=...) is for clipping: call release.clip(math.inf, method='two-pass').")
    else:
        scaler = None
    if clipping is None or stepping.accumulating or not passes_twice(clipping):
        torch.autograd.backward(loss, gradient, retain_graph=retain_graph)
    else:
        if scaler is None:
            refuse_scaled(loss)
        unscaling = None if scaler is None else Unscaling(scaler, stepping.optimizer)
        two_passes(clipping, loss, gradient, retain_graph, unscaling)


def passes_twice(clipping: Clipping) -> bool:
    """Whether to run backward twice: if asked to, or if most gradients of the last forward would not be factors.

    A second pass takes about as long as the first; dense gradients cost the memory that release is for.
    """
    if clipping.method != "auto" or clipping.taps is None:
        return clipping.method == "two-pass"
    trained = [each for each in clipping.parameters() if each.requires_grad]
    whole = sum(each.numel() * each.element_size() for each in trained)
    taps = clipping.taps.last
    saved = sum(
        each.numel() * each.element_size() - taps[id(each)].factor_bytes
        for each in trained
        if id(each) in taps and not taps[id(each)].reason
    )
    return whole - saved > PASS_AGAIN * whole
