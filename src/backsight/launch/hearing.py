"""Why an optimizer gets no gradients: asked of the losses that are audited once that is seen."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis import Finding, Site, audit_at
from backsight.diagnosis.vital import nothing_arrives
from backsight.snapshot import groups
from backsight.tape import Graph
from backsight.tracing import Severed, current, whence
from backsight.tracing.steps import parameters

_ENOUGH = 3
"""Steps after which it is told what is known, though there was no audit."""


@dataclass(slots=True)
class _Deaf:
    """What the audits of a step said of one optimizer."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    reached: bool = False
    cuts: dict[Site, Finding | None] = field(default_factory=dict)
    """What cut it off from each loss, by its backward, the latest last."""
    filled: Severed | None = None
    into: tuple[str, ...] = ()
    copied: Severed | None = None
    copies: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    audits: int = 0
    steps: int = 0
    finding: Finding | None = None


class Hearing:
    """Collects what audits say of the optimizers that get no gradient, and tells it while the frames are there."""

    def __init__(self) -> None:
        self._deaf: dict[int, _Deaf] = {}

    def audited(self, optimizer: torch.optim.Optimizer, site: Site, roots: Any, graph: Graph | None) -> None:
        """Ask a loss why nothing of it arrives at `optimizer`."""
        known = self._of(optimizer)
        if known.finding is not None or graph is None:
            return
        held = {id(p) for p in parameters(optimizer)}
        known.audits += 1
        known.reached |= any(id(leaf.tensor()) in held for leaf in graph.leaves)
        known.others = known.others or tuple(
            leaf.name for leaf in graph.leaves if leaf.kind == "parameter" and not leaf.owner and leaf.name
        )
        known.elsewhere = known.elsewhere or tuple(
            leaf.name for leaf in graph.leaves if leaf.kind == "parameter" and leaf.owner and leaf.name
        )
        if not known.reached:
            found = audit_at(site, (roots,), optimizer={"optimizer": optimizer}, moment="during backward").findings
            known.cuts.pop(site, None)
            known.cuts[site] = next((each for each in found if each.code == "BS102" and each.source), None)
        if not known.reached and known.filled is None:
            known.filled, known.into = _filled(graph, held)
        if not known.reached and known.copied is None:
            known.copied, known.copies = _copied(graph)

    def stepped(
        self,
        stepping: torch.optim.Optimizer,
        deaf: Sequence[tuple[torch.optim.Optimizer, int]],
        caller: Callable[[], FrameType],
    ) -> None:
        """Tell of an optimizer that has made a step, if it is deaf, what is known once its loss was looked at."""
        still = {id(groups(optimizer)) for optimizer, _ in deaf}
        for key in [key for key, each in self._deaf.items() if key not in still and each.optimizer() is not None]:
            del self._deaf[key]  # it has got a gradient since
        since = next((since for optimizer, since in deaf if optimizer is stepping), None)
        if since is None:
            return
        known = self._of(stepping)
        known.steps += 1
        if known.finding is None and (known.audits or known.steps > _ENOUGH):
            cut, beside = _last(known.cuts)
            known.finding = nothing_arrives(
                stepping,
                since,
                frame=caller(),
                reached=known.reached,
                cut=cut,
                beside=beside,
                filled=known.filled,
                into=known.into,
                copied=known.copied,
                copies=known.copies,
                others=known.others,
                elsewhere=known.elsewhere,
                backwards=known.audits > 0,
            )

    @property
    def findings(self) -> list[Finding]:
        """What is known of those that got nothing to the end."""
        return [each.finding for each in self._deaf.values() if each.finding is not None]

    def _of(self, optimizer: torch.optim.Optimizer) -> _Deaf:
        key = id(groups(optimizer))
        known = self._deaf.get(key)
        if known is None or known.optimizer() is not optimizer:
            known = self._deaf[key] = _Deaf(weakref.ref(optimizer))
        return known


def _last(cuts: dict[Site, Finding | None]) -> tuple[Finding | None, Site | None]:
    """Return what cut off the loss that was audited last, the one before the step, and another loss that the same
    statement cuts off as well: as a discriminator's, for which it is meant."""
    own = next(reversed(cuts), None)
    cut = cuts[own] if own is not None else None
    same = (site for site, each in cuts.items() if site != own and each is not None and cut is not None)
    return cut, next((site for site in same if cuts[site].source == cut.source), None)  # type: ignore[union-attr]  # no None


def _filled(graph: Graph, held: set[int]) -> tuple[Severed | None, tuple[str, ...]]:
    """Return what gave leaves of the loss the values of what was computed of the tensors with the ids `held`, and the
    names of these leaves."""
    watch = current()
    found: Severed | None = None
    names = []
    for leaf in graph.leaves if watch is not None else ():
        tensor = leaf.tensor()
        for cut, leaves, _ in whence(watch, tensor) if tensor is not None and watch is not None else ():
            given = cut.by == "data" and cut.op != ".data" and cut.line is not None
            if leaf.name and given and any(id(ref()) in held for ref in leaves):
                found = found or cut
                names.append(leaf.name)
    return found, tuple(dict.fromkeys(names))


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
