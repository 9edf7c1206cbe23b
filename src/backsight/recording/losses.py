"""The losses of a step: the scalars that `backward()` was called on, by the names of their variables."""

from __future__ import annotations

import ctypes
import math
import re
import weakref
from types import CodeType, FrameType

import torch

from backsight.naming.frames import locals_of
from backsight.naming.roots import is_user
from backsight.recording.statistics.measure import measure
from backsight.source import function_at, scaled_receiver
from backsight.source.body import column_at
from backsight.tape import is_captured, no_torch_dispatch, running_backward, tensors_in
from backsight.tape.saved import is_readable

Number = float | torch.Tensor
"""A number, or a tensor of ours that holds one, which its device may yet have to compute."""

UNNAMED = "loss"
"""What a scalar is called that no variable holds: `criterion(out, y).backward()`."""

_NAME = re.compile(r"[^\W\d]\w*(\.\w+|\[[\w'\"-]+\])*")

_Site = tuple[str, int, int]

_PLAIN = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}
"""Types whose numbers are read where they lie: nearly all losses are one of them, and each step has one."""


class Losses:
    """Takes down each scalar that a backward pass begins from.

    Those that are followed by the step of one optimizer are kept apart from those of another: `loss`, `loss #2`. Of
    several passes in a step, as under gradient accumulation, the mean is taken.
    """

    def __init__(self) -> None:
        self._root: weakref.ref[torch.Tensor] | None = None
        """What the last pass began from: the passes of a checkpoint within it are no passes of the program."""
        self._waiting: list[tuple[str, Number]] = []
        """Those since an optimizer has stepped."""
        self._found: dict[tuple[str, int], list[Number]] = {}
        self._optimizers: dict[str, list[weakref.ref[torch.optim.Optimizer] | None]] = {}
        self._known: dict[_Site, tuple[bool, tuple[str, bool] | None]] = {}
        """Whether a place is in code of the user's, and what backward is called on there."""

    def began(self) -> None:
        """Take what the backward pass was called on; to be called from within it."""
        called = running_backward()
        if called is None:
            return
        roots = [each for each in tensors_in(called[0]) if isinstance(each, torch.Tensor)]
        if not roots or (self._root is not None and self._root() is roots[0]):
            return
        self._root = weakref.ref(roots[0])
        name, held = self._called(called[1])
        scalars = [held] if held is not None else roots
        for k, each in enumerate(scalars):
            if (value := number(each)) is not None:
                self._waiting.append((name if len(scalars) == 1 else f"{name}[{k}]", value))

    def stepped(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Note that what has come since the last step of an optimizer was for this one."""
        for name, value in self._waiting:
            self._found.setdefault((name, self._number(name, optimizer)), []).append(value)
        self._waiting.clear()

    def taken(self) -> dict[str, list[Number]]:
        """Return the values of the step that ends, by name."""
        self.stepped(None)
        found, self._found = self._found, {}
        return {name if k == 0 else f"{name} #{k + 1}": values for (name, k), values in found.items()}

    def forget(self) -> None:
        """Leave out what has come so far: the step is not recorded."""
        self._waiting.clear()
        self._found.clear()

    def _number(self, name: str, optimizer: torch.optim.Optimizer | None) -> int:
        known = self._optimizers.setdefault(name, [])
        if optimizer is None:
            return 0
        for k, each in enumerate(known):
            if each is not None and each() is optimizer:
                return k
        # One that is gone was replaced: its successor goes on where it ended.
        gone = next((k for k, each in enumerate(known) if each is not None and each() is None), len(known))
        known[gone : gone + 1] = [weakref.ref(optimizer)]
        return gone

    def _called(self, frame: FrameType) -> tuple[str, torch.Tensor | None]:
        """Return the name of what backward was called on; and the unscaled loss, where a gradient scaler came first."""
        _, nearest = self._at(frame)
        held: torch.Tensor | None = None
        if nearest is not None and nearest[1]:
            unscaled = locals_of(frame).get(nearest[0])
            if not isinstance(unscaled, torch.Tensor):
                return f"scaled {UNNAMED}", None
            held = unscaled
        here: FrameType | None = frame
        while here is not None:
            by_user, receiver = self._at(here)
            if by_user and receiver is not None:
                return receiver[0] if _NAME.fullmatch(receiver[0]) else UNNAMED, held
            here = here.f_back
        return UNNAMED, held

    def _at(self, frame: FrameType) -> tuple[bool, tuple[str, bool] | None]:
        code: CodeType = frame.f_code
        site = code.co_filename, code.co_firstlineno, frame.f_lasti
        if site not in self._known:
            body = function_at(code)
            receiver = None if body is None else scaled_receiver(body, frame.f_lineno, column_at(frame))
            self._known[site] = is_user(frame), receiver
        return self._known[site]


def number(tensor: torch.Tensor) -> Number | None:
    """Return the one number in a tensor; no device is waited for. None where there is none, or several."""
    if tensor.numel() != 1 or tensor.is_complex() or not is_readable(tensor):
        return None
    if tensor.is_cpu:
        return _read(tensor)
    with no_torch_dispatch():
        return None if is_captured() else tensor.detach().clone()


def _read(tensor: torch.Tensor) -> float | None:
    """Return the number in a tensor as no profiler of the program sees: where it lies, or by the statistics' kernel."""
    kind = _PLAIN.get(tensor.dtype)
    if kind is not None and tensor.layout is torch.strided and not tensor.is_neg() and (at := tensor.data_ptr()):
        return kind.from_address(at).value
    measured = measure([tensor], histogram=False)
    if measured.skipped:
        return None
    (row,) = measured.rows
    if row["infs"]:  # of which sign it does not say
        with no_torch_dispatch():
            return float(tensor.item())
    return math.nan if row["nans"] else float(row["mean"])
