"""Audits of the first training steps, from inside their backward."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.diagnosis import Finding, Report, Site, audit_at
from backsight.diagnosis.crossed import crossed
from backsight.diagnosis.dropped import dropped
from backsight.diagnosis.evidence.singular import Singular, singular
from backsight.diagnosis.lost_writes import lost_writes
from backsight.diagnosis.reordered import reordered
from backsight.diagnosis.rules.unmoved import told_unmoved
from backsight.diagnosis.taken_once import taken_once
from backsight.findings import SEVERITIES
from backsight.launch.aliases import Aliases
from backsight.launch.attention import CALLS, LOOK, Attention, is_spaced
from backsight.launch.ending import Ending
from backsight.launch.hearing import Hearing
from backsight.launch.inputs import Inputs
from backsight.launch.keeping import Keeping
from backsight.launch.outputs import Outputs
from backsight.launch.ranks import ranks
from backsight.launch.sharing import Sharing
from backsight.launch.stopping import Stopping
from backsight.launch.turns import Turns
from backsight.launch.twins import Twins
from backsight.launch.vital_signs import VitalSigns
from backsight.launch.voice import failed
from backsight.launch.wiped import Wiped
from backsight.naming import search
from backsight.naming.roots import is_library, is_ours, ours
from backsight.quiet import quietly
from backsight.snapshot import groups
from backsight.tape import (
    Graph,
    grad_fn,
    is_jit_traced,
    no_torch_dispatch,
    no_torch_function,
    running_backward,
    sequence_number,
    tensors_in,
    uncompiled,
    unnumbered,
)
from backsight.tracing import Level, finest, has_compiled, repeated_writes, sightings, watch
from backsight.tracing.moves import LOOKS

PASSES = 3
"""Passes that are audited of each backward in the program: what is left over from step to step shows by the third."""

_NON_FINITE = ("BS108", "BS112")
"""The findings of which lost weights at the end are a consequence."""

_MOST_SINGULAR = 8
"""Operations whose gradient may be infinite: one may have cost the weights, among many it is no help to say so."""

_END_GRADIENTS = frozenset({"BS121", "BS131", "BS136", "BS141", "BS142", "BS143"})
"""The findings that tell by themselves where a gradient ends."""

_OF_THE_START = "BS131"
"""The code of what is a fault only if it is so from the first step on, and stays so."""

_UNLESS_TRAINED = "BS141"
"""The code of what is a fault unless another loss trains the same parameters."""

_TWICE = "BS106"
"""The code of what two optimizers hold, which is a fault if one undoes what the other learns."""

_MOST_STEPS = 32
"""Optimizer steps after which no more is audited: a backward that comes later is not of the training's first steps."""

_TAKEN = 32
"""The optimizer step at which it is looked for numbers that were taken from what is trained."""

_MOST_LOOKS = 8
"""Optimizer steps at which a loss is looked for in vain: a look takes milliseconds, of every step."""

_MOST_MARKS = 256
"""Outputs that may wait for a backward; beyond that (evaluation with gradients on) the optimizer step is waited for."""


def _guarded(hook: Callable[..., None]) -> Callable[..., None]:
    """Keep a failure of ours from the training: it is told once, and nothing more is looked at."""

    @wraps(hook)
    @uncompiled
    def guarded(self: FirstSteps, *given: Any) -> None:
        if torch.compiler.is_compiling():
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
        self.findings: dict[tuple[str, str], Finding] = {}
        self.failed = False
        self.looked_at = ""
        self.watch = watch(level=level or closest(), nonfinite=nonfinite)
        self.watch.__enter__()
        self._auditing = True
        self._ended = False
        self._passes: dict[Site, list[int]] = {}
        self._audits = 0
        self.customs: list[tuple[str, str]] = []
        """The custom Functions of the program's in the audited graphs, each with its file."""
        self._singular: list[Singular] = []
        self._of_start: dict[Site, dict[str, Finding]] = {}
        self._flat: dict[tuple[str, str], list[weakref.ref[torch.Tensor]]] = {}
        self._looked = 0
        """The optimizer steps there were when it was begun to look more closely."""
        self._most = PASSES
        self._signs = VitalSigns()
        self._stopping = Stopping(self.watch, self._signs.zeros)
        self._hearing = Hearing()
        self._twins = Twins()
        self._turns = Turns()
        self._aliases = Aliases()
        self._sharing = Sharing()
        self._wiped = Wiped()
        self._keeping = Keeping()
        self._taken: list[Finding] = []
        self._in_backwards = False
        self._looks = 0
        self._marked: list[Any] = []
        self._forward_hook: Any = None
        self._looking_again: Any = None
        self._unmoved: dict[int, tuple[Finding, weakref.ref[torch.optim.Optimizer]]] = {}
        self._outputs = Outputs()
        self._inputs = Inputs()
        self._ending = Ending()
        self._attention = Attention(self._pause, self._resume) if level is None and not nonfinite else None
        if self._attention is not None:
            self.watch.limit(CALLS)
        self._listen()
        with unnumbered():
            self._step_hooks = [
                register_optimizer_step_pre_hook(self._unless_paused(self._before_step)),
                register_optimizer_step_post_hook(self._unless_paused(self._after_step)),
                register_optimizer_step_post_hook(self._each_step),
            ]

    def again(self) -> None:
        """Watch as closely as at first: what runs now is something else."""
        if self._attention is not None and not self._ended:
            self.watch.limit(CALLS)
            self._attention.again()

    @property
    def audits(self) -> int:
        """How many losses were audited."""
        return self._audits

    @property
    def steps(self) -> int:
        """How many optimizer steps there were."""
        return self.watch.steps.count

    def report(self, *, origin_told: bool = False) -> Report:
        """Return what the audits found, each finding once, and weights that were lost since, unless it was told why."""
        hearing = (*self._hearing.findings, *self._turns.findings)
        signs = (
            ()
            if self.failed
            else (
                *hearing,
                *self._signs.findings,
                *self._twins.findings,
                *self._aliases.findings,
                *self._sharing.findings,
            )
        )
        found = [
            *(each for key, each in self.findings.items() if not self._is_trained(key)),
            *(each for found in self._of_start.values() for each in found.values()),
            *(found for found, ref in self._unmoved.values() if self._is_unmoved(ref())),
            *self._outputs.findings,
            *self._inputs.findings,
            *signs,
            *self._keeping.findings,
            *self._wiped.findings,
            *self._taken,
            *dropped(sightings(self.watch)),
            *lost_writes(repeated_writes(self.watch)),
            *reordered(sightings(self.watch)),
        ]
        found += crossed(self.watch, found)
        if not any(each.code in _END_GRADIENTS for each in found):
            found += self._stopping.findings
        found = _one_for_each_cause(found)
        since = None if self.failed else self._signs.lost_since
        if since is not None:  # what was seen later of weights that were lost by then is told with the right step
            found = [each for each in found if each.code != "BS108" or (each.since or 0) <= since]
        known = origin_told or any(each.code in _NON_FINITE for each in found)
        lost = None if known else self._ending.finding(audited=self.audits > 0, since=since, singular=self._singular)
        return Report(tuple(_in_order((*found, *([lost] if lost else [])))), self.looked_at)

    def stop(self) -> None:
        """Remove every hook."""
        self._ended = True
        self._stop_auditing()
        self._look_again(begin=False)
        for hook in self._step_hooks:
            hook.remove()
        with quietly(RuntimeWarning):  # it may have begun in a thread that imports torch for the program, and runs on
            self.watch.__exit__(None, None, None)

    @property
    def paused(self) -> bool:
        """Whether what happens now is not watched, as enough was."""
        return self.watch.paused

    def _unless_paused(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Make nothing of the steps of an optimizer that has made many, while the watch is paused."""

        @uncompiled
        def called(optimizer: torch.optim.Optimizer, *given: Any) -> None:
            if is_compiling():
                return
            idle = self.paused and self.watch.steps.moves.steps(optimizer) > LOOKS[-1]
            if not idle or self._outputs.is_due(self.steps):
                hook(optimizer, *given)

        return called

    def _unless_spent(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Make nothing of what modules return without gradients, but where enough was watched."""

        @uncompiled
        def called(*given: Any) -> None:
            if not is_compiling() and (torch.is_grad_enabled() or self.watch.spent):
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
        self._passes.clear()
        self._keeping.again()
        self._looked, self._looks, self._auditing = self.steps, 0, True
        self._most = PASSES if change else 1
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

    def _is_due(self, site: Site) -> bool:
        """Whether the backward at this place is one of its first, and the first since the last optimizer step."""
        passes = self._passes.get(site, [])
        settled = self._most == PASSES or self.steps >= self._looked + LOOK - 1
        return self._auditing and settled and len(passes) < self._most and self.steps not in passes

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
                    self._keeping.made(node)
                    with unnumbered():
                        self._marked.append(node.register_prehook(self._in_backward))
            if len(self._marked) > marked:
                self._outputs.returned(module, args, output)
                self._inputs.given(module, args, self.steps, _caller)
                self._signs.called(module)

    @_guarded
    def _forward_again(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        self._outputs.returned_again(module, output)

    def _look_again(self, begin: bool) -> None:
        """Look, between two steps, at what modules return now, or do so no longer."""
        if self._looking_again is not None:
            self._looking_again.remove()
        with unnumbered():
            self._looking_again = register_module_forward_hook(self._forward_again) if begin else None

    @_guarded
    def _in_backward(self, gradients: Any) -> None:
        self._outputs.heard()
        call = running_backward() if self._auditing else None
        if call is not None:
            roots, frame = call
            self._in_backwards = True
            self._audit(roots, frame, "during backward")

    @_guarded
    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._unmark()
        self._look_again(begin=False)
        self._look_at_moves(optimizer)
        if self._auditing:
            changed = self._looked if self._most == PASSES else 0
            self._outputs.stepping(optimizer, self.steps + 1, changed, _caller())
        if self._auditing and not self._in_backwards:
            loss = _newest_loss() if self._is_due(_site(_caller())) else None
            if loss is not None:
                self._audit(loss, _caller(), "before step")
            else:
                self._looks += 1
        if self.steps - self._looked >= (LOOK if self._most < PASSES else _MOST_STEPS) or self._looks >= _MOST_LOOKS:
            self._stop_auditing()

    @_guarded
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._ending.stepping(optimizer)
        if self._attention is not None:
            self._attention.stepped(first=self.watch.steps.moves.steps(optimizer) == 1)
            if self.watch.spent:
                self._attention.spent()
        self._look_again(begin=self._outputs.is_due(self.steps))

    @_guarded
    def _each_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self.failed:
            return
        signs = self._signs
        signs.stepped(optimizer, _caller)
        signs.news |= self._stopping.stepped()
        self._keeping.stepped(optimizer)
        self._turns.stepped(optimizer, _caller)
        self._hearing.stepped(optimizer, signs.deaf, _caller)
        self._twins.stepped(signs.step, lambda: signs.optimizers, _caller)
        self._sharing.stepped(signs.step, lambda: signs.optimizers, _caller)
        self._aliases.stepped(signs.step, lambda: signs.optimizers, _caller)
        if signs.step == _TAKEN:
            self._taken = taken_once(self.watch, signs.optimizers)
        if signs.news or is_spaced(signs.step):
            change, signs.news = signs.news, False
            self._look_closer(change=change)

    def _starting(self, site: Site, found: list[Finding]) -> None:
        """Keep of what is found in the first passes at a place what is found there at each later look as well."""
        known = self._of_start.get(site)
        if known is None or self.steps < PASSES:
            known = {**(known or {}), **{each.title: replace(each, since=self.steps + 1) for each in found}}
        titles = {each.title for each in found}
        self._of_start[site] = {title: each for title, each in known.items() if title in titles}

    def _is_trained(self, key: tuple[str, str]) -> bool:
        """Whether the leaves that get nothing by a finding were seen to get something."""
        held = (ref() for ref in self._flat.get(key, ()))
        return any(p is not None and not self._signs.zeros.may_be_zero(p) for p in held)

    def _look_at_moves(self, optimizer: torch.optim.Optimizer) -> None:
        """See what the steps so far have not moved; what moves later is no finding any more."""
        moves, key = self.watch.steps.moves, id(groups(optimizer))
        if moves.steps(optimizer) in LOOKS:
            self._unmoved.pop(key, None)
            still = moves.unmoved(optimizer)
            name = next((n.path for n in search([optimizer], limit=1).names[0]), "optimizer") if still else ""
            found = told_unmoved(name, optimizer, still, _site(_caller())[0]) if still else None
            if found is not None:
                self._unmoved[key] = found, weakref.ref(optimizer)

    def _is_unmoved(self, optimizer: torch.optim.Optimizer | None) -> bool:
        """Whether what an optimizer did not move, it does not move now; one that is gone has moved nothing since."""
        return optimizer is None or bool(self.watch.steps.moves.unmoved(optimizer))

    def _audit(self, roots: Any, frame: FrameType, moment: Any) -> None:
        site = _site(frame)
        if not self._is_due(site):
            return
        self._passes.setdefault(site, []).append(self.steps)
        self._audits += 1
        report = audit_at(site, (roots,), moment=moment)
        self.looked_at = report.looked_at
        for optimizer, _ in self._signs.deaf:
            self._hearing.audited(optimizer, site, roots, report.graph)
        if report.graph is not None:
            self._wiped.audited(site, self.steps, report.graph)
            self.customs = list(dict.fromkeys([*self.customs, *_customs(report.graph)]))
            self._singular = list(dict.fromkeys([*self._singular, *singular(report.graph)]))[:_MOST_SINGULAR]
        self._starting(site, [each for each in report.findings if each.code == _OF_THE_START])
        for finding in report.findings:
            if finding.code in (_UNLESS_TRAINED, _TWICE) and report.graph is not None:
                leaves = [leaf.tensor() for leaf in report.graph.leaves if leaf.node in finding.nodes]
                held = [each for each in leaves if each is not None]
                refs = [weakref.ref(each) for each in held]
                if finding.code == _TWICE:
                    self._turns.follow(held, self._signs.optimizers)
                    refs = []
                self._flat.setdefault((finding.code, finding.title), refs)
            if (finding.code, finding.title) in self.findings or finding.code == _OF_THE_START:
                continue
            if self._looked > _MOST_STEPS:
                late = f"First seen in step {self.steps + 1:,}; earlier audits did not see it."
                finding = replace(finding, evidence=(*finding.evidence, late))
            self.findings[finding.code, finding.title] = replace(finding, since=self.steps + 1)


def _customs(graph: Graph) -> list[tuple[str, str]]:
    if not any(kind.kind == "custom" for kind in graph.types):
        return []
    found = [(n.name.removesuffix("Backward"), n.definition.rpartition(":")[0]) for n in graph.nodes if n.definition]
    return [each for each in found if not is_library(each[1]) and not is_ours(each[1])]


def _in_order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which to mend them: the graver first, and of these what began first."""
    last = sys.maxsize
    return sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.since or last))


def _one_for_each_cause(found: list[Finding]) -> list[Finding]:
    """Leave out what is told twice, and what is a consequence of something else that is told."""
    found = list({(each.code, each.title): each for each in found}.values())
    # Whether what a loss does not reach is meant to learn shows a step later; then it may be known where it is cut off.
    known = {(each.code, each.evidence[:1]) for each in found if each.severity != "note"}
    found = [each for each in found if each.severity != "note" or (each.code, each.evidence[:1]) not in known]
    deaf = [each for each in found if each.code == "BS115"]
    dead = [each for each in found if each.code == "BS114"]
    if dead and any(each.code in ("BS131", "BS135", "BS136", "BS147") for each in found):  # then all rows become one
        found = [each for each in found if each.code != "BS114"]
    elif deaf and dead:  # which of them knows where
        drop = "BS114" if any(each.source for each in deaf) else "BS115"
        found = [each for each in found if each.code != drop]
    if any(
        each.code in (_UNLESS_TRAINED, "BS142", "BS151") for each in found
    ):  # then it is known where nothing goes on
        found = [each for each in found if each.code not in ("BS114", "BS115")]
    flat = {each.source for each in found if each.code == _UNLESS_TRAINED}
    found = [each for each in found if each.code != "BS149" or each.source not in flat]
    places = {each.source for each in found if each.code == "BS114"}
    found = [each for each in found if each.code != "BS121" or each.source not in places]  # the whole loss ends there
    # An audit may know what an optimizer has left out before it shows that it does not move.
    left = [each for each in found if each.code == "BS101" and each.severity != "note"]
    found = [each for each in found if each not in left[1:] or "unfrozen" not in each.title]
    stored = [each for each in found if each.code == "BS140"]
    found = [each for each in found if each not in stored[1:] or each.source != stored[0].source]
    # Statistics that are not updated, or none at all: what saturates then, the right mode mends.
    off = min((each.since or 0 for each in found if each.code == "BS116"), default=sys.maxsize)
    found = [each for each in found if each.code != "BS131" or (each.since or 0) < off]
    thrown = {each.source for each in found if each.code == "BS146"}
    found = [each for each in found if each.code != "BS113" or each.source not in thrown]
    carried = any(each.code == "BS110" for each in found)  # then it is known what carries the graph on
    return [each for each in found if not (carried and each.code == "BS111")]


def _site(frame: FrameType) -> Site:
    return frame.f_code.co_filename, frame.f_lineno


def _caller() -> FrameType:
    """Return the innermost frame of the user's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (is_ours(frame.f_code.co_filename) or is_library(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame


def _newest_loss() -> torch.Tensor | None:
    """Return the newest scalar with a graph that a variable holds."""
    found = [t for t, _ in search((), collect=(torch.Tensor,)).found if isinstance(t, torch.Tensor)]
    losses = [t for t in found if t.numel() == 1 and grad_fn(t) is not None]
    return max(losses, key=lambda t: sequence_number(grad_fn(t)), default=None)
