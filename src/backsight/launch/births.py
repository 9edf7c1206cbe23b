"""`backsight run --nonfinite`: where the NaN or infinity came from that reached the gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from backsight.diagnosis import Finding
from backsight.diagnosis.births import BIRTH, told
from backsight.diagnosis.wording import counted, listed, numbered, shaped
from backsight.launch.voice import failed
from backsight.naming import search
from backsight.naming.roots import ours
from backsight.tape import is_jit_traced, no_torch_dispatch, no_torch_function, tensors_in, uncompiled, unnumbered
from backsight.tape.saved import holds_values
from backsight.tracing import Watch
from backsight.tracing.births import what_is
from backsight.tracing.steps import parameters

_MANY = 32
"""Births that did no harm after which they are forgotten, so that others are noted: only so many are kept."""

_DATA_FIX = "Check where this data comes from: drop or replace non-finite values before they reach the model."


class BirthWatch:
    """Looks at the gradients before each optimizer step, and tells once where what is not finite in them was born.

    A gradient scaler that skips a step leaves nothing to tell. A failure of ours ends this and not the training.
    """

    def __init__(self, watch: Watch, tell: Callable[[Finding], None]):
        self._watch, self._tell = watch, tell
        self.told = self._ended = False
        self._came_in = ""
        self._steps = 0
        with unnumbered():
            self._handles = [
                register_module_forward_pre_hook(self._guarded(self._called)),
                register_optimizer_step_pre_hook(self._guarded(self._before_step)),
            ]

    def finish(self) -> None:
        """Remove the hooks; tell of the last loss if it was not finite and no step was made with it."""
        for handle in self._handles:
            handle.remove()
        if not self.told and not self._ended:
            self._guarded(self._at_the_end)()

    def _called(self, module: torch.nn.Module, args: Any) -> None:
        if self._came_in or self._watch.calls.depth() > 1:  # the watch has noted this call already
            return
        for number, tensor in enumerate(tensors_in(args)):
            if isinstance(tensor, torch.Tensor) and not tensor.requires_grad and what_is(tensor):
                self._came_in = _described(tensor, number, module)
                return

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self.told:
            return
        self._steps += 1
        if object.__getattribute__(optimizer, "__dict__").get("found_inf") is not None:
            return  # a gradient scaler has left it to a fused optimizer to skip the step
        spoilt = _spoilt(parameters(optimizer))
        if spoilt:
            self._say(_harm(spoilt, self._steps))
        elif self._is_lost():
            self._say(f"The loss was not finite in step {numbered(self._steps)}, but the gradients were.")
        elif len(self._watch.nonfinite) > _MANY:
            self._watch.forget_births()

    def _at_the_end(self) -> None:
        if self._is_lost() and not self._may_be_scaled():
            self._say("The last loss was not finite; no optimizer step used its gradients.")

    def _is_lost(self) -> bool:
        """Whether the last backward began from a loss that was not finite."""
        last = self._watch.backwards[-1:] if self._watch.lost else ()
        return bool(last) and last[0].index in self._watch.lost

    def _may_be_scaled(self) -> bool:
        """Whether a gradient scaler may have overflowed the loss: it finds its scale by skipping steps until none is.

        Overflow makes infinities. Where the forward made a NaN, the loss was lost without it.
        """
        if any(born.phase == "forward" and born.kind == "nan" for born in self._watch.nonfinite):
            return False
        return bool(search((), collect=(torch.amp.GradScaler,)).found)

    def _say(self, harm: str) -> None:
        self.told = True
        finding = told(self._watch.nonfinite, self._watch.lost, (harm,))
        if finding is None and self._came_in:
            finding = Finding(BIRTH, "error", self._came_in, (harm,), _DATA_FIX)
        if finding is None:
            finding = Finding(
                BIRTH,
                "error",
                "The inputs already contained NaN or infinity: no operation on finite values produced it.",
                (harm, "They came from the data, from a mask of -inf, or from loaded weights."),
                "Check the data of this step, the weights before the first step, and whether a mask covers everything.",
            )
        self._tell(finding)

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        @uncompiled
        def guarded(*given: Any) -> None:
            if torch.compiler.is_compiling() or self._ended:
                return
            try:
                if not is_jit_traced():
                    with no_torch_function(), no_torch_dispatch(), torch.no_grad():
                        hook(*given)
            except BaseException as failure:
                self._ended = True
                failed("stopped tracing NaN origins", ours(failure))

        return guarded


def _spoilt(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the parameters whose gradient is not finite; where all are, that is found out at once."""
    held = [
        (p, p.grad) for p in tensors if p.grad is not None and p.grad.layout == torch.strided and holds_values(p.grad)
    ]
    if not held or _are_finite([grad for _, grad in held]):
        return []
    return [p for p, grad in held if what_is(grad)]


def _are_finite(gradients: Sequence[torch.Tensor]) -> bool:
    """Whether the largest values of all of them are finite; False too where they cannot be asked together."""
    try:
        return bool(torch.nn.utils.get_total_norm(gradients, math.inf).isfinite())
    except (RuntimeError, TypeError):
        return False


def _harm(spoilt: Sequence[torch.Tensor], step: int) -> str:
    names = [next((name.path for name in found), "a parameter") for found in search(spoilt[:4]).names]
    shown = listed([*names, *[""] * len(spoilt[4:])], 4)
    return f"It reached the {'gradient' if len(spoilt) == 1 else 'gradients'} of {shown}, in step {numbered(step)}."


def _described(tensor: torch.Tensor, number: int, module: torch.nn.Module) -> str:
    names = search([tensor], limit=1).names[0]
    what = names[0].path if names else f"Argument {number + 1}"
    nans, infs = int(tensor.isnan().sum()), int(tensor.isinf().sum())
    parts = [f"{count:,} {noun}" for count, noun in ((nans, "NaN"), (infs, "infinite")) if count]
    return (
        f"{what}, an input of {type(module).__name__}, holds {' and '.join(parts)} of "
        f"{counted(tensor.numel(), 'value')} (shape {shaped(tensor.shape)})."
    )
