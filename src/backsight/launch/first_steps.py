"""Audits of the first training steps, from inside their backward, in the one thread that is followed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.diagnosis import Finding, Report, audit_at
from backsight.diagnosis.causes import NOT_FINITE, in_order, one_for_each_cause
from backsight.diagnosis.peculiar import hidden
from backsight.launch.attention import CALLS, Attention, is_spaced
from backsight.launch.ending import Ending, newest_loss
from backsight.launch.passes import PASSES, Passes
from backsight.launch.ranks import ranks
from backsight.launch.sign import caller, site
from backsight.launch.vital_signs import VitalSigns
from backsight.launch.voice import failed
from backsight.naming import standstill
from backsight.naming.roots import ours
from backsight.quiet import quietly
from backsight.tape import (
    grad_fn,
    is_jit_traced,
    no_torch_dispatch,
    no_torch_function,
    running_backward,
    tensors_in,
    uncompiled,
    unnumbered,
)
from backsight.tracing import Level, finest, has_compiled, watch
from backsight.tracing.moves import LOOKS

__all__ = ["PASSES", "FirstSteps", "closest"]

_MOST_MARKS = 256
"""Outputs that may wait for a backward; beyond that (evaluation with gradients on) the optimizer step is waited for."""


def _guarded(hook: Callable[..., None]) -> Callable[..., None]:
    """Keep a failure of ours from the training: it is told once, and nothing more is looked at."""

    @wraps(hook)
    @uncompiled
    def guarded(self: FirstSteps, *given: Any) -> None:
        if is_compiling():
            return
        try:
            if not is_jit_traced():
                with no_torch_function(), no_torch_dispatch():
                    hook(self, *given)
        except BaseException as failure:
            self.give_up(ours(failure))

    return guarded


def closest() -> Level:
    """Return how closely a training is watched that was not told how: exactly, or by its lines if it has several ranks.

    A collective keeps the modes of the thread that called it. At the end a thread of gloo waits for Python's lock to
    let go of them, while the process group waits for that thread and holds the lock: two of nine trainings with DDP
    never ended (PyTorch 2.13, `SafePyObject` in `ThreadLocalState`, and `~ProcessGroupGloo`).
    """
    several = (torch.distributed.is_available() and torch.distributed.is_initialized()) or ranks() > 1
    return "lines" if several else finest()


class FirstSteps:
    """Watches a training and audits the first passes of every backward in its first steps.

    A hook on what the outermost module returns is called within the backward; the stack above it shows which tensor
    backward was called on, and where. A training without modules is audited just before its optimizer steps, from the
    loss that a variable holds. After some steps, a failure, or if no loss is to be found, only the optimizer steps are
    noted. With no `level`, the watch is paused then too, until there is something new.
    """

    def __init__(self, level: Level | None = None, *, nonfinite: bool = False) -> None:
        self.failed = False
        self.looked_at = ""
        self.watch = watch(level=level or closest(), nonfinite=nonfinite)
        self.watch.__enter__()
        self._auditing = True
        self._ended = False
        self._passes = Passes()
        self._audits = 0
        self._thread = OneThread()
        self._signs = VitalSigns(self.watch)
        self._ending = Ending()
        self._in_backwards = False
        self._marked: list[Any] = []
        self._forward_hook: Any = None
        self._looking_again: Any = None
        self._attention = Attention(self._pause, self._resume) if level is None and not nonfinite else None
        if self._attention is not None:
            self.watch.limit(CALLS)
        self._listen()
        with unnumbered():
            self._step_hooks = [
                register_optimizer_step_pre_hook(self._before_each_step),
                register_optimizer_step_post_hook(self._each_step),
            ]

    def again(self) -> None:
        """Watch as closely as at first: what runs now is something else."""
        if self._attention is not None and not self._ended:
            self.watch.limit(CALLS)
            self._attention.again()

    @property
    def findings(self) -> dict[tuple[str, str], Finding]:
        """What the audits have found so far, by code and title."""
        return self._signs.audits.found

    @property
    def customs(self) -> list[tuple[str, str]]:
        """The custom Functions of the program's in the audited graphs, each with its file."""
        return self._signs.audits.customs

    @property
    def audits(self) -> int:
        """How many losses were audited."""
        return self._audits

    @property
    def steps(self) -> int:
        """How many optimizer steps there were."""
        return self.watch.steps.count

    @property
    def trained(self) -> int:
        """How many parameters had a gradient in a step of their optimizer."""
        return self.watch.steps.trained

    def report(self, *, origin_told: bool = False) -> Report:
        """Return what the audits found, each finding once, and weights that were lost since, unless it was told why."""
        found = one_for_each_cause(self._signs.findings(failed=self.failed))
        since = None if self.failed else self._signs.lost.since
        if since is not None:  # what was seen later of weights that were lost by then is told with the right step
            found = [each for each in found if each.code != "BS108" or (each.since or 0) <= since[0]]
        if not origin_told and not NOT_FINITE.is_explained(found):
            singular = self._signs.audits.singular
            lost = self._ending.finding(
                audited=self.audits > 0, since=since, singular=singular, hidden=hidden(self.watch)
            )
            found += [lost] if lost is not None else []
        return Report(tuple(_from_zero(each) for each in in_order(found)), self.looked_at)

    def stop(self) -> None:
        """Remove every hook."""
        self._ended = True
        self._stop_auditing()
        self._look_again(begin=False)
        self._signs.evaluating.stop()
        self._signs.functional.stop()
        for hook in self._step_hooks:
            hook.remove()
        with quietly(RuntimeWarning):  # it may have begun in a thread that imports torch for the program, and runs on
            self.watch.__exit__(None, None, None)

    @property
    def paused(self) -> bool:
        """Whether what happens now is not watched, as enough was."""
        return self.watch.paused

    def _is_idle(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether nothing is to be made of a step: the watch is paused, and the optimizer has made many."""
        idle = self.watch.paused and self.watch.steps.moves.steps(optimizer) > LOOKS[-1]
        return idle and not self._signs.outputs.is_due(self.watch.steps.count)

    def _unless_spent(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Make nothing of what modules return within others, or without gradients, but where enough was watched."""

        @uncompiled
        def called(*given: Any) -> None:
            if is_compiling():
                return
            try:
                cares = self.watch.spent or (torch.is_grad_enabled() and not self.watch.calls.is_running())
            except BaseException as failure:
                self.give_up(ours(failure))
                return
            if cares:
                hook(*given)

        return called

    def _pause(self) -> None:
        self.watch.pause()
        self._unlisten()

    def _resume(self, calls: int) -> None:
        self.watch.resume(calls)
        if not has_compiled():
            self._listen()

    def _listen(self) -> None:
        """Be told what modules return, for as long as losses are audited."""
        if self._forward_hook is None and self._auditing:
            with unnumbered():
                self._forward_hook = register_module_forward_hook(self._unless_spent(self._forward_done))

    def _unlisten(self) -> None:
        # What torch.compile has compiled is compiled anew where the number of hooks changes.
        if self._forward_hook is not None and (self._ended or not has_compiled()):
            self._forward_hook.remove()
            self._forward_hook = None

    def give_up(self, failure: BaseException) -> None:
        """Say that an audit has failed, and make no more."""
        failed("audits stopped", failure)
        self.failed = True
        with suppress(BaseException):  # what has failed may fail here as well, and was told
            self._stop_auditing()

    def _look_closer(self, *, change: bool) -> None:
        """Audit the backwards of the next steps again: those at spaced steps, and those after a change."""
        if self.failed or self._ended or (self._attention is not None and not self._attention.look(change=change)):
            return
        self._passes.again(self.steps, change=change)
        self._signs.keeping.again()
        self._auditing = True
        if not has_compiled():
            self._listen()

    def _stop_auditing(self) -> None:
        # The hook of the optimizer steps stays: this may be called from it, and `Optimizer.step` iterates over the live
        # dict of these hooks, so that one removed there ends the user's step with a RuntimeError.
        self._auditing = False
        self._unlisten()
        self._unmark()

    def _unmark(self) -> None:
        for handle in self._marked:
            handle.remove()
        self._marked.clear()

    @_guarded
    def _forward_done(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self.paused or not self._auditing:
            return
        outermost = not self.watch.calls.is_running()
        if self.watch.spent and self._attention is not None:
            self._attention.spent()
        if self._auditing and outermost and torch.is_grad_enabled() and len(self._marked) < _MOST_MARKS:
            marked = len(self._marked)
            for tensor in tensors_in(output):
                node = grad_fn(tensor) if isinstance(tensor, torch.Tensor) else None
                if node is not None:  # a hook on the tensor itself would be seen by who saves or overrides it
                    self._signs.keeping.made(node)
                    with unnumbered():
                        self._marked.append(node.register_prehook(self._in_backward))
            if len(self._marked) > marked:
                self._signs.returned(module, args, output)
                if self._thread.is_here():
                    self._signs.modes.called(module)

    @_guarded
    def _forward_again(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        self._signs.outputs.returned_again(module, output)

    def _look_again(self, begin: bool) -> None:
        """Look, between two steps, at what modules return now, or do so no longer."""
        if self._looking_again is not None:
            self._looking_again.remove()
        with unnumbered():
            self._looking_again = register_module_forward_hook(self._forward_again) if begin else None

    @_guarded
    def _in_backward(self, gradients: Any) -> None:
        self._signs.outputs.heard()
        call = running_backward() if self._auditing else None
        if call is not None:
            roots, frame = call
            self._in_backwards = True
            self._audit(roots, frame, "during backward")

    @_guarded
    def _before_each_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self._is_idle(optimizer):
            self._before_step(optimizer)
        if not self.failed and self._thread.steps_here():
            self._signs.stepping(optimizer)

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._unmark()
        self._look_again(begin=False)
        self._signs.unmoved.stepping(optimizer)
        if self._auditing:
            self._signs.outputs.stepping(optimizer, self.steps + 1, self._passes.changed, caller())
        if self._auditing and not self._in_backwards:
            frame = caller()
            loss = newest_loss() if self._passes.is_due(site(frame), self.steps) else None
            if loss is not None:
                self._audit(loss, frame, "before step")
            else:
                self._passes.looked_in_vain()
        if self._passes.are_over(self.steps):
            self._stop_auditing()

    @_guarded
    def _each_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self._is_idle(optimizer):
            self._after_step(optimizer)
        if self.failed:
            return
        self._signs.keeping.stepped(optimizer)
        if not self._thread.steps_here():
            return
        change = self._signs.stepped(optimizer)
        if change or is_spaced(self._signs.steps):
            self._look_closer(change=change)

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._ending.stepping(optimizer)
        if self._attention is not None:
            self._attention.stepped(first=self.watch.steps.moves.steps(optimizer) == 1)
            if self.watch.spent:
                self._attention.spent()
        self._look_again(begin=self._signs.outputs.is_due(self.steps))

    def _audit(self, roots: Any, frame: FrameType, moment: Any) -> None:
        here = site(frame)
        if not self._auditing or not self._passes.is_due(here, self.steps):
            return
        self._passes.audited(here, self.steps)
        self._audits += 1
        with standstill():
            report = audit_at(here, (roots,), moment=moment)
            self.looked_at = report.looked_at
            self._signs.audited(here, roots, report, self.steps, is_late=self._passes.are_late)


def _from_zero(finding: Finding) -> Finding:
    """Count its step as users do, the first being step 0; here a step is known by how many there were with it."""
    return replace(finding, since=finding.since - 1) if finding.since else finding


class OneThread:
    """Knows the thread that made a step first; once it has ended, the next one that makes a step.

    A gradient is read in the thread that trains with it, and in no other: the backward of another thread replaces it
    without Python's lock (`accumulateGrad` in PyTorch's torch/csrc/autograd/functions/accumulate_grad.h), and who reads
    `.grad` meanwhile ends the program with a segmentation fault.
    """

    def __init__(self) -> None:
        self._ident = 0
        self._thread: threading.Thread | None = None

    def steps_here(self) -> bool:
        """Whether a step in this thread is one of those to be followed."""
        this = threading.get_ident()
        if this != self._ident and (self._thread is None or not self._thread.is_alive()):
            self._ident, self._thread = this, threading.current_thread()
        return this == self._ident

    def is_here(self) -> bool:
        """Whether this is that thread, or none has made a step."""
        return self._thread is None or threading.get_ident() == self._ident
