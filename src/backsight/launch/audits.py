"""What the audits of a training's first steps have found."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.evidence.singular import Singular, singular
from backsight.launch.passes import PASSES
from backsight.launch.sign import Audit, Course, Sign, Step, stepping
from backsight.launch.zeros import Zeros
from backsight.naming.roots import is_library, is_ours
from backsight.tape import Graph, Living
from backsight.text import numbered
from backsight.tracing import Watch
from backsight.tracing.steps import parameters

_OF_THE_START = "BS131"
"""The code of what is a fault only if it is so from the first step on, and stays so."""

_UNLESS_TRAINED = "BS141"
"""The code of what is a fault unless another loss trains the same parameters."""

_UNLESS_HELD = "BS101"
"""The code of what is a fault unless an optimizer holds it later on."""

_UNLESS_REACHED = "BS102"
"""The code of what is a fault unless the same loss reaches it in another step, as with what half of the steps use."""

_MOST_SINGULAR = 8
"""Operations whose gradient may be infinite: one may have cost the weights, among many it is no help to say so."""


@dataclass(slots=True)
class _Missed:
    """A backward that does not reach all that an optimizer trains, and the leaves that it has reached since.

    is_first: whether that was before the first step.
    """

    site: Site
    is_first: bool
    reached: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)


class Audits(Sign):
    """Keeps each finding once, with the step since which it holds, and what else is known of the graphs."""

    def __init__(self, zeros: Zeros, watch: Watch) -> None:
        self.found: dict[tuple[str, str], Finding] = {}
        self.customs: list[tuple[str, str]] = []
        """The custom Functions of the program's in the audited graphs, each with its file."""
        self.singular: list[Singular] = []
        self._zeros = zeros
        self._sites: set[Site] = set()
        """The backwards that were audited before."""
        self._of_start: dict[Site, dict[str, Finding]] = {}
        self._about: dict[tuple[str, str], list[weakref.ref[torch.Tensor]]] = {}
        """The leaves of what the training may disprove, and"""
        self._missed: dict[tuple[str, str], _Missed] = {}
        """what a backward did not reach."""
        self._steps = watch.steps
        self._courses: Living[Course] = Living()
        self._disproved: set[tuple[str, str]] = set()

    def audited(self, audit: Audit) -> None:
        if (graph := audit.report.graph) is not None:
            self.customs = list(dict.fromkeys([*self.customs, *_customs(graph)]))
            self.singular = list(dict.fromkeys([*self.singular, *singular(graph)]))[:_MOST_SINGULAR]
        self._starting(audit)
        self._courses = audit.courses
        for finding in audit.report.findings:
            key, step = (finding.code, finding.title), audit.steps + 1
            if finding.code in (_UNLESS_TRAINED, _UNLESS_HELD):
                self._about.setdefault(key, [weakref.ref(each) for each in audit.leaves(finding)])
            elif finding.code == _UNLESS_REACHED:
                self._missed.setdefault(key, _Missed(audit.site, is_first=not audit.steps))
            if key in self.found or finding.code == _OF_THE_START:
                continue
            if audit.is_late and audit.site in self._sites:
                late = f"First seen in step {numbered(step)}; earlier audits did not see it."
                finding = replace(finding, evidence=(*finding.evidence, late))
            self.found[key] = replace(finding, since=step)
        self._sites.add(audit.site)
        leaves = [p for each in graph.leaves if (p := each.tensor()) is not None] if graph is not None else []
        for missed in self._missed.values():
            if missed.site == audit.site:
                missed.reached.update((id(p), weakref.ref(p)) for p in leaves)
        self._judge()

    def run_doubled(self, step: Step) -> None:
        self._judge()

    @property
    def findings(self) -> Iterator[Finding]:
        self._judge()
        yield from (each for key, each in self.found.items() if key not in self._disproved)
        yield from (each for found in self._of_start.values() for each in found.values())

    def _judge(self) -> None:
        """Withdraw what the training has shown not to be so; at the end of a function, its optimizers are gone."""
        self._disproved |= {key for key in [*self._about, *self._missed] if self._is_disproved(key)}

    def _starting(self, audit: Audit) -> None:
        """Keep of what is found in the first passes at a place what is found there at each later look as well."""
        found = {each.title: each for each in audit.report.findings if each.code == _OF_THE_START}
        known = self._of_start.get(audit.site)
        if known is None or audit.steps < PASSES:
            new = {title: replace(each, since=audit.steps + 1) for title, each in found.items()}
            known = {**(known or {}), **new}
        self._of_start[audit.site] = {title: each for title, each in known.items() if title in found}

    def _is_disproved(self, key: tuple[str, str]) -> bool:
        """Whether the training has shown since that something is not so, or not in each step."""
        about = [p for ref in self._about.get(key, ()) if (p := ref()) is not None]
        if key in self._disproved:
            return False
        if key[0] == _UNLESS_TRAINED:
            return any(not self._zeros.may_be_zero(p) for p in about)
        if key[0] == _UNLESS_HELD:
            held = {id(p) for optimizer in stepping(self._courses) for p in parameters(optimizer)}
            return bool(about) and all(id(p) in held for p in about)
        return key[0] == _UNLESS_REACHED and self._is_reached(self._missed[key])

    def _is_reached(self, missed: _Missed) -> bool:
        """Whether the same backward has reached since, in one step or another, all that its optimizers train."""
        alone = missed.is_first and len(self._sites) == 1  # nothing else gives them a gradient
        found = False
        for optimizer in stepping(self._courses):
            trained = [p for p in parameters(optimizer) if p.requires_grad]
            missing = [p for p in trained if (ref := missed.reached.get(id(p))) is None or ref() is not p]
            if len(missing) == len(trained):
                continue
            found = True
            if missing and not (alone and all(self._steps.has_trained(optimizer, p) for p in missing)):
                return False
        return found


def _customs(graph: Graph) -> list[tuple[str, str]]:
    if not any(kind.kind == "custom" for kind in graph.types):
        return []
    found = [(n.name.removesuffix("Backward"), n.definition.rpartition(":")[0]) for n in graph.nodes if n.definition]
    return [each for each in found if not is_library(each[1]) and not is_ours(each[1])]
