"""What the audits of a training's first steps have found."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.evidence.singular import Singular, singular
from backsight.launch.passes import PASSES
from backsight.launch.sign import Audit, Sign
from backsight.launch.zeros import Zeros
from backsight.naming.roots import is_library, is_ours
from backsight.tape import Graph
from backsight.text import numbered

_OF_THE_START = "BS131"
"""The code of what is a fault only if it is so from the first step on, and stays so."""

_UNLESS_TRAINED = "BS141"
"""The code of what is a fault unless another loss trains the same parameters."""

_MOST_SINGULAR = 8
"""Operations whose gradient may be infinite: one may have cost the weights, among many it is no help to say so."""


class Audits(Sign):
    """Keeps each finding once, with the step since which it holds, and what else is known of the graphs."""

    def __init__(self, zeros: Zeros) -> None:
        self.found: dict[tuple[str, str], Finding] = {}
        self.customs: list[tuple[str, str]] = []
        """The custom Functions of the program's in the audited graphs, each with its file."""
        self.singular: list[Singular] = []
        self._zeros = zeros
        self._sites: set[Site] = set()
        """The backwards that were audited before."""
        self._of_start: dict[Site, dict[str, Finding]] = {}
        self._flat: dict[tuple[str, str], list[weakref.ref[torch.Tensor]]] = {}

    def audited(self, audit: Audit) -> None:
        if (graph := audit.report.graph) is not None:
            self.customs = list(dict.fromkeys([*self.customs, *_customs(graph)]))
            self.singular = list(dict.fromkeys([*self.singular, *singular(graph)]))[:_MOST_SINGULAR]
        self._starting(audit)
        for finding in audit.report.findings:
            key, step = (finding.code, finding.title), audit.steps + 1
            if finding.code == _UNLESS_TRAINED:
                self._flat.setdefault(key, [weakref.ref(each) for each in audit.leaves(finding)])
            if key in self.found or finding.code == _OF_THE_START:
                continue
            if audit.is_late and audit.site in self._sites:
                late = f"First seen in step {numbered(step)}; earlier audits did not see it."
                finding = replace(finding, evidence=(*finding.evidence, late))
            self.found[key] = replace(finding, since=step)
        self._sites.add(audit.site)

    @property
    def findings(self) -> Iterator[Finding]:
        yield from (each for key, each in self.found.items() if not self._is_trained(key))
        yield from (each for found in self._of_start.values() for each in found.values())

    def _starting(self, audit: Audit) -> None:
        """Keep of what is found in the first passes at a place what is found there at each later look as well."""
        found = {each.title: each for each in audit.report.findings if each.code == _OF_THE_START}
        known = self._of_start.get(audit.site)
        if known is None or audit.steps < PASSES:
            new = {title: replace(each, since=audit.steps + 1) for title, each in found.items()}
            known = {**(known or {}), **new}
        self._of_start[audit.site] = {title: each for title, each in known.items() if title in found}

    def _is_trained(self, key: tuple[str, str]) -> bool:
        """Whether the leaves that get nothing by a finding were seen to get something."""
        held = (ref() for ref in self._flat.get(key, ()))
        return any(p is not None and not self._zeros.may_be_zero(p) for p in held)


def _customs(graph: Graph) -> list[tuple[str, str]]:
    if not any(kind.kind == "custom" for kind in graph.types):
        return []
    found = [(n.name.removesuffix("Backward"), n.definition.rpartition(":")[0]) for n in graph.nodes if n.definition]
    return [each for each in found if not is_library(each[1]) and not is_ours(each[1])]
