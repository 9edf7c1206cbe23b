"""Audits of the first training steps, from inside their backward."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from backsight.diagnosis import Finding, Report, audit_at
from backsight.launch.voice import failed
from backsight.naming import search
from backsight.tape import tensors_in
from backsight.tracing import watch

STEPS = 3
"""Steps that are audited: the first shows most, and what is left over from step to step shows by the third."""

_MOST_MARKS = 256
"""Outputs that may wait for a backward; beyond that (evaluation with gradients on) the optimizer step is waited for."""

_CALLS: dict[CodeType, str | None] = {
    torch.Tensor.backward.__code__: "self",
    torch.autograd.backward.__code__: "tensors",
    torch.autograd.grad.__code__: None,  # a derivative within the forward pass; the step's own backward comes later
}
"""The functions that run a backward, and the argument that holds its roots; None where it is not the step's own."""


class FirstSteps:
    """Watches a training and audits the first backward of each of the first steps.

    A hook on what the outermost module returns is called within the backward; the stack above it shows which tensor
    backward was called on, and where. A training without modules is audited just before its optimizer steps, from the
    loss that a variable holds. After `STEPS` audits, or a failure, only the optimizer steps are noted.
    """

    def __init__(self) -> None:
        self.findings: dict[tuple[str, str], Finding] = {}
        self.audits = 0
        self.failed = False
        self.looked_at = ""
        self.watch = watch()
        self.watch.__enter__()
        self._last_step = -1
        self._marked: list[Any] = []
        self._hooks = [
            register_module_forward_hook(self._forward_done),
            register_optimizer_step_pre_hook(self._before_step),
        ]

    @property
    def steps(self) -> int:
        """How many optimizer steps there were."""
        return self.watch.steps.count

    def report(self) -> Report:
        """Return what the audits found, each finding once."""
        return Report(tuple(self.findings.values()), self.looked_at)

    def stop(self) -> None:
        """Remove every hook."""
        self._stop_auditing()
        self.watch.__exit__(None, None, None)

    def _stop_auditing(self) -> None:
        for handle in (*self._hooks, *self._marked):
            handle.remove()
        self._hooks.clear()
        self._marked.clear()

    @property
    def _due(self) -> bool:
        return bool(self._hooks) and self._last_step != self.steps

    def _forward_done(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        outermost = not self.watch.calls.is_running()
        if self._due and outermost and torch.is_grad_enabled() and len(self._marked) < _MOST_MARKS:
            for tensor in tensors_in(output):
                if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                    self._marked.append(tensor.register_hook(self._in_backward))  # type: ignore[no-untyped-call]  # torch's

    def _in_backward(self, gradient: torch.Tensor) -> None:
        if self._due:
            call = _backward_call()
            if call is not None:
                roots, frame = call
                self._audit(roots, frame, "during backward")

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._due:
            loss = _newest_loss()
            if loss is not None:
                self._audit(loss, sys._getframe(1), "before step")

    def _audit(self, roots: Any, frame: FrameType, moment: Any) -> None:
        for handle in self._marked:
            handle.remove()
        self._marked.clear()
        self._last_step = self.steps
        try:
            report = audit_at((frame.f_code.co_filename, frame.f_lineno), (roots,), moment=moment)
        except Exception as failure:  # a failure of ours is not a failure of the training: say so once and stop looking
            failed("audits stopped", failure)
            self.failed = True
            self._stop_auditing()
            return
        self.audits += 1
        self.looked_at = report.looked_at
        for finding in report.findings:
            self.findings.setdefault((finding.code, finding.title), finding)
        if self.audits >= STEPS:
            self._stop_auditing()


def _backward_call() -> tuple[Any, FrameType] | None:
    """Return the roots of the backward that is running, and the frame that called for it.

    On a GPU, hooks run in a thread of the engine's: then it is another thread's stack that shows the call.
    """
    for frame in (sys._getframe(1), *sys._current_frames().values()):
        outermost = None
        here: FrameType | None = frame
        while here is not None:
            if here.f_code in _CALLS and here.f_back is not None:
                outermost = here
            elif outermost is not None:
                holds_roots = _CALLS[outermost.f_code]
                return (outermost.f_locals[holds_roots], here) if holds_roots else None
            here = here.f_back
    return None


def _newest_loss() -> torch.Tensor | None:
    """Return the newest scalar with a graph that a variable holds."""
    found = [t for t, _ in search((), collect=(torch.Tensor,)).found if isinstance(t, torch.Tensor)]
    losses = [t for t in found if t.grad_fn is not None and t.numel() == 1]
    return max(losses, key=lambda t: t.grad_fn._sequence_nr(), default=None)  # type: ignore[union-attr]  # not None: see losses
