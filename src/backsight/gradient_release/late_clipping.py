"""`clip_grad_norm_` after a backward pass that has used gradients already: it works until one is too long."""

from __future__ import annotations

import inspect
import math
import sys

import torch

from backsight.blame import is_of_program, warn
from backsight.gradient_release.errors import ReleaseWarning

_CLIP = getattr(inspect.unwrap(torch.nn.utils.clip_grad_norm_), "__code__", None)  # a library may have replaced it


def warn_of_clipping() -> bool:
    """Say that clipping will raise, if `clip_grad_norm_` multiplies gradients now; return whether it was said.

    A limit of infinity only asks for the norm, and never raises.
    """
    most = _max_norm()
    if most is None or math.isinf(most):
        return False
    warn(
        f"clip_grad_norm_ after a backward pass with release works only while the norm stays below {most}: longer "
        f"gradients were used for the step already, and raise GradientGone. Call release.clip({most}) once, before "
        "the training, in place of clip_grad_norm_.",
        ReleaseWarning,
    )
    return True


def _max_norm() -> float | None:
    """Return the limit of the `clip_grad_norm_` that runs, which our caller is called by; None if none does."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not is_of_program(frame.f_code.co_filename):
        if frame.f_code is _CLIP:
            held = frame.f_locals.get("max_norm")
            return float(held) if isinstance(held, (int, float, torch.Tensor)) else None
        frame = frame.f_back
    return None
