"""Optimizers that get no gradients: seen from step to step, and why is asked of the losses that are audited then."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from backsight.diagnosis import Finding, Severance, Site, severed_at
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.nothing_arrives import nothing_arrives
from backsight.launch.sign import Audit, Sign, Step, key_of
from backsight.snapshot import groups
from backsight.tape import Graph, Living
from backsight.tracing import Severed, current, filled, whence
from backsight.tracing.steps import parameters

SILENT = 3
"""Steps in a row without any gradient after which an optimizer is said to get none."""

_LOOKS = (1, 10, 100, 1_000, 10_000, 100_000)
"""Steps of an optimizer at which it is asked whether its gradients are zeros: there a device is waited for."""

_MOST_COUNTS = 8
"""Numbers of gradients that are news: experts that idle in turn make many."""

_EACH, _BETWEEN = 64, 7
"""Gradients are counted at each of so many steps, and then at one of so many, at which few programs do anything."""

_ENOUGH = 3
"""Steps after which it is told what is known, though there was no audit."""


@dataclass(slots=True)
class _Gradients:
    """What is known of the gradients of one optimizer."""

    at: int = 0
    """Which of its parameters had one when one was looked for last."""
    silent: int = 0
    zeros: int = 0
    """Steps in a row in which all were zeros, from a look on."""
    since: int = 0
    """The step of the run since which there were none, or they were zeros."""
    counts: list[int] = field(default_factory=list)
    """How many parameters had one, each number that has occurred."""


@dataclass(slots=True)
class _Deaf:
    """What the audits of a step said of one optimizer."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    reached: bool = False
    cuts: dict[Site, Severance | None] = field(default_factory=dict)
    """What cut it off from each loss, by its backward, the latest last."""
    filled: Severed | None = None
    into: tuple[str, ...] = ()
    copied: Severed | None = None
    copies: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    nameless: bool = False
    """Whether the loss depends on parameters of the same shapes that nothing holds any more but its graph."""
    audits: int = 0
    steps: int = 0
    asked: bool = False
    finding: Finding | None = None


class Hearing(Sign):
    """Collects what audits say of the optimizers that get no gradient, and tells it while the frames are there."""

    def __init__(self) -> None:
        self._gradients: Living[_Gradients] = Living()
        self._silent: set[int] = set()
        """The optimizers, alive or not, that got nothing at their last step, nor at some before."""
        self._deaf: dict[int, _Deaf] = {}

    def audited(self, audit: Audit) -> None:
        for optimizer, _ in self._hearing_nothing():
            self._ask(optimizer, audit, audit.report.graph)

    def each_step(self, step: Step) -> None:
        known = self._gradients.at(step.key)
        if known is None:
            known = _Gradients()
            self._gradients.put(step.key, step.optimizer, known)
        if step.steps <= _EACH or not step.steps % _BETWEEN:
            _count(known, step)
        _listen(known, step)
        if known.silent >= SILENT or known.zeros >= SILENT:
            self._silent.add(step.key)
        elif self._silent:
            self._silent.discard(step.key)
        if self._silent or self._deaf:
            self._leave_to(step.optimizer)
            self._tell(list(self._hearing_nothing()), step)

    @property
    def findings(self) -> list[Finding]:
        """What is known of those that got nothing to the end."""
        return [each.finding for each in self._deaf.values() if each.finding is not None]

    def _hearing_nothing(self) -> Iterator[tuple[torch.optim.Optimizer, int]]:
        """Yield the optimizers that have got no gradient for some steps, each with the step since which."""
        for key, each in self._gradients.items():
            optimizer = self._gradients.held(key) if max(each.silent, each.zeros) >= SILENT else None
            if optimizer is not None:
                yield optimizer, each.since

    def _ask(self, optimizer: torch.optim.Optimizer, audit: Audit, graph: Graph | None) -> None:
        """Ask a loss why nothing of it arrives at an optimizer."""
        known = self._of(optimizer)
        if known.asked or graph is None:
            return
        held = {id(p) for p in parameters(optimizer)}
        known.audits += 1
        known.reached |= any(id(leaf.tensor()) in held for leaf in graph.leaves)
        known_by_name = [leaf for leaf in graph.leaves if leaf.kind == "parameter" and leaf.name]
        known.others = known.others or tuple(leaf.name for leaf in known_by_name if not leaf.owner)
        known.elsewhere = known.elsewhere or tuple(leaf.name for leaf in known_by_name if leaf.owner)
        known.nameless |= _are_copied(graph, parameters(optimizer))
        if not known.reached:
            known.cuts.pop(audit.site, None)
            known.cuts[audit.site] = severed_at(audit.site, audit.roots, optimizer)
        if not known.reached and known.filled is None:
            known.filled, known.into = _filled(graph, held)
        if not known.reached and known.copied is None:
            known.copied, known.copies = _copied(graph)

    def _leave_to(self, optimizer: torch.optim.Optimizer) -> None:
        """Forget that a loss reached the parameters of an optimizer, if another that holds them has stepped on it."""
        held: set[int] = set()
        for known in self._deaf.values():
            other = known.optimizer()
            if known.reached and not known.asked and other is not None and other is not optimizer:
                held = held or {id(p) for p in parameters(optimizer)}
                known.reached = held.isdisjoint(map(id, parameters(other)))

    def _tell(self, deaf: list[tuple[torch.optim.Optimizer, int]], step: Step) -> None:
        """Tell of an optimizer that has made a step, if it is deaf, what is known once its loss was looked at.

        What the source text says is asked once, at that step, after the losses of the others and its own.
        """
        still = {key_of(optimizer) for optimizer, _ in deaf}
        for key in [key for key, each in self._deaf.items() if key not in still and each.optimizer() is not None]:
            del self._deaf[key]  # it has got a gradient since
        since = next((since for optimizer, since in deaf if optimizer is step.optimizer), None)
        if since is None:
            return
        known = self._of(step.optimizer)
        known.steps += 1
        if not known.asked and (known.audits or known.steps > _ENOUGH):
            known.asked, seen = True, self._gradients.at(step.key)
            cut, beside = _last(known.cuts)
            known.finding = nothing_arrives(
                step.optimizer,
                since,
                frame=step.caller(),
                reached=known.reached,
                zeros=seen is not None and seen.zeros >= SILENT,
                cut=cut,
                beside=beside,
                filled=known.filled,
                into=known.into,
                copied=known.copied,
                copies=known.copies,
                others=known.others,
                elsewhere=known.elsewhere,
                nameless=known.nameless,
                backwards=known.audits > 0,
            )

    def _of(self, optimizer: torch.optim.Optimizer) -> _Deaf:
        key = key_of(optimizer)
        known = self._deaf.get(key)
        if known is None or known.optimizer() is not optimizer:
            known = self._deaf[key] = _Deaf(weakref.ref(optimizer))
        return known


def _count(known: _Gradients, step: Step) -> None:
    """Look closer when another number of parameters gets a gradient than ever before, but for the first steps."""
    count = sum(p.grad is not None for p in parameters(step.optimizer))
    if count not in known.counts and len(known.counts) < _MOST_COUNTS:
        known.counts.append(count)
        step.news |= step.steps > SILENT


def _listen(known: _Gradients, step: Step) -> None:
    """Note whether there is a gradient that is not zeros."""
    held = groups(step.optimizer)[0]["params"] if groups(step.optimizer) else []
    if known.at < len(held) and (gradient := held[known.at].grad) is not None:
        if known.zeros or step.steps in _LOOKS:
            known.zeros = known.zeros + 1 if _are_zeros(step.optimizer, gradient) else 0
            if known.zeros:
                known.since = known.since or step.number
                step.news |= known.zeros == SILENT
                return
        known.silent = known.since = 0
        return
    if known.silent > SILENT and step.steps & (step.steps - 1):
        known.silent += 1  # looked for again at each doubling of its steps
        return
    first = next((at for at, p in enumerate(parameters(step.optimizer)) if p.grad is not None), None)
    if first is not None:
        known.at, known.silent, known.since = first, 0, 0
        return
    known.silent += 1
    if known.silent == 1:
        known.since = step.number
    step.news |= known.silent == SILENT


def _are_zeros(optimizer: torch.optim.Optimizer, one: torch.Tensor) -> bool:
    """Whether all gradients are zeros; mostly it is enough to look at one."""
    if not is_zero(one):
        return False
    with torch.no_grad():
        return all(is_zero(p.grad) for p in parameters(optimizer) if p.grad is not None)


def _last(cuts: dict[Site, Severance | None]) -> tuple[Severance | None, Site | None]:
    """Return what cut off the loss that was audited last, the one before the step, and another loss that the same
    statement cuts off as well: as a discriminator's, for which it is meant."""
    own = next(reversed(cuts), None)
    cut = cuts[own] if own is not None else None
    same = (site for site, each in cuts.items() if site != own and each is not None and cut is not None)
    return cut, next((site for site in same if cuts[site].place == cut.place), None)  # type: ignore[union-attr]  # no None


def _filled(graph: Graph, held: set[int]) -> tuple[Severed | None, tuple[str, ...]]:
    """Return what gave leaves of the loss, in this step, the values of what was computed of the tensors with the ids
    `held`, and the names of these leaves."""
    watch = current()
    began = watch.steps.marks.get(threading.get_ident(), 0) if watch is not None else 0
    found: Severed | None = None
    names = []
    for leaf in graph.leaves if watch is not None else ():
        tensor = leaf.tensor()
        end = filled(watch, tensor) if tensor is not None and watch is not None else None
        cut, behind, made = end if end is not None else (None, (), 0)
        is_told = leaf.name and cut is not None and cut.line is not None and made >= began
        if is_told and any(id(ref()) in held for ref in behind):
            found = found or cut
            names.append(leaf.name)
    return found, tuple(dict.fromkeys(names))


def _are_copied(graph: Graph, held: Sequence[torch.Tensor]) -> bool:
    """Whether a loss depends on parameters without a name that have the shapes of all these, in any order."""
    leaves = (leaf.tensor() for leaf in graph.leaves if leaf.kind == "parameter" and not leaf.name and not leaf.owner)
    shapes = Counter(tuple(each.shape) for each in leaves if each is not None)
    return bool(held) and not Counter(tuple(each.shape) for each in held) - shapes


def _copied(graph: Graph) -> tuple[Severed | None, tuple[str, ...]]:
    """Return what cut leaves of the loss off from what they are copies of, as fast weights may be, and the names of
    those that were not made in this step."""
    watch = current()
    cut: Severed | None = None
    began = watch.steps.marks.get(threading.get_ident(), 0) if watch is not None else 0
    names: list[str] = []
    for leaf in graph.leaves if watch is not None else ():
        tensor = leaf.tensor()
        if tensor is not None and watch is not None and leaf.kind != "parameter" and not leaf.owner:
            ends = ((each, made) for each, _, made in whence(watch, tensor) if each.by != "frozen")
            found, made = next(((each, made) for each, made in ends if each.line is not None), (None, 0))
            cut = cut or found
            stays = found is not None and cut is not None and found.line == cut.line and made < began
            names += [leaf.name] if stays and leaf.name else []
    return cut, tuple(names)
