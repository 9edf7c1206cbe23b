"""Gradients as they arrive in a backward pass: one `Slot` for each parameter, one ledger for all of them.

A slot is called for every gradient of every step, so it does next to nothing. PyTorch keeps it in a table of the
parameter; so it holds neither the parameter nor the optimizer.
"""

from __future__ import annotations

import inspect
import math
import sys

import torch

from backsight.blame import is_of_program, warn
from backsight.gradient_release._torch import bytes_of
from backsight.gradient_release.errors import AlreadyStepped, ReleaseWarning
from backsight.gradient_release.ledger import Ledger
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.remedy import second_gradient

PENDING, HELD, WAITING, STEPPED = range(4)
"""What became of a gradient: in the bucket; kept for `optimizer.step()`; part of a sum; used for a step, and freed."""


class Slot:
    """One parameter's place in the ledger, called by PyTorch when a gradient has been accumulated."""

    __slots__ = ("address", "bytes", "key", "ledger", "number", "placeholder", "state", "version")

    def __init__(self, ledger: Ledger, parameter: torch.Tensor):
        self.ledger = ledger
        self.key = id(parameter)
        self.bytes = bytes_of(parameter)
        self.number = -1
        self.state = PENDING
        self.placeholder: Placeholder | None = None
        self.version = self.address = 0

    def arrive(self, parameter: torch.Tensor) -> None:
        """Note that this parameter's gradient has been accumulated: the hook."""
        ledger = self.ledger
        if ledger.idle or (ledger.filter is not None and ledger.filter(parameter)):
            return
        if self.number == ledger.number:
            self._again(parameter)
            return
        self.number = ledger.number
        # Grad mode is on in a backward with create_graph=True: the gradient is part of a graph that somebody will use.
        if ledger.holding or torch.is_grad_enabled():
            self._hold(parameter)
            return
        self.state = PENDING
        if ledger.put(self, parameter):
            self._full(parameter)

    def name(self) -> str:
        """Return what the program calls the parameter."""
        flusher = self.ledger.flusher
        return "a parameter" if flusher is None else flusher.name_of(self)

    def second_gradient(self) -> str:
        """Say that this parameter gets a second gradient after it was stepped with the first."""
        return second_gradient(self)

    def zero(self) -> None:
        """Take the placeholder away; should no gradient follow, the next step finds zeros, as it would without us."""
        flusher = self.ledger.flusher
        parameter = None if flusher is None else flusher.parameter_of(self)
        if parameter is not None and parameter.grad is self.placeholder:
            parameter.grad = None
            self.ledger.zeroed.append(self)

    def left_alone(self) -> None:
        """Say, once, if it is `clip_grad_norm_` that would have scaled the gradient, had it been longer."""
        if not self.ledger.clipped_late:
            self.ledger.clipped_late = warn_of_clipping()

    def _full(self, parameter: torch.Tensor) -> None:
        flusher = self.ledger.flusher
        if flusher is not None:
            flusher.flush(self, parameter)

    def _hold(self, parameter: torch.Tensor) -> None:
        ledger = self.ledger
        graph = torch.is_grad_enabled()
        self.state = HELD if graph else WAITING
        flusher = ledger.flusher
        if not graph and flusher is not None and flusher.absorb(self, parameter):
            self.number = -1
            ledger.absorbed = True
            ledger.zeroed.append(self)
        else:
            ledger.kept += self.bytes

    def _again(self, parameter: torch.Tensor) -> None:
        """A further gradient in one step; PyTorch has added it to those that are still there."""
        ledger = self.ledger
        if self.state == STEPPED:
            raise AlreadyStepped(self.second_gradient())
        if self.state == WAITING and not ledger.holding and not torch.is_grad_enabled():
            self.state = PENDING
            ledger.kept -= self.bytes
            if ledger.put(self, parameter):
                self._full(parameter)


_CLIP = getattr(inspect.unwrap(torch.nn.utils.clip_grad_norm_), "__code__", None)  # a library may have replaced it


def warn_of_clipping() -> bool:
    """Say that clipping will raise, if `clip_grad_norm_` multiplies gradients now; return whether it was said.

    A limit of infinity only asks for the norm, and never raises.
    """
    most = _max_norm()
    if most is None or math.isinf(most):
        return False
    warn(
        f"clip_grad_norm_ after a backward pass with release works only while the norm stays below {most}: larger "
        f"gradients have already been used by the step, and raise GradientGone. Call release.clip({most}) once, before "
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
