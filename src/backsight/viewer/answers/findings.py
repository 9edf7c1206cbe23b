"""What the rules for recordings find, each with the tensor and the step that show it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from backsight.diagnosis import audit_run
from backsight.findings import Finding
from backsight.findings.evidence import doubt, evidence_of
from backsight.findings.printing.excerpt import shown_at
from backsight.runs import DamagedRun, Run
from backsight.tape import Graph
from backsight.viewer.placing import lines_of, nodes_of, parameter_of
from backsight.viewer.question import Answer, Asked, question

MOST_LINES = 3

SEVERAL = 3
"""Layers in one line, of which it is not known which one a finding is about."""

Progress = Callable[[int, int], None]


@question("findings")
def findings(run: Run, asked: Asked) -> Answer:
    """Look for what went wrong; this reads the run. (A viewer does it as `searching.py` says.)"""
    return findings_of(run)


def findings_of(run: Run, progress: Progress = lambda read, of: None) -> Answer:
    """Look for what went wrong, and tell how many tensors have been read, and of how many."""
    report = audit_run(run, progress)
    names = sorted({(each.name, each.kind) for each in run.tensors}, key=lambda key: -len(key[0]))
    places = _Places(run)
    shown = [_where(" ".join((each.title, *map(str, each.evidence))), names) for each in report]
    return {
        "looked_at": report.looked_at,
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity,
                "title": finding.title,
                "evidence": [str(each) for each in (*finding.evidence, doubt(finding.evidence)) if each],
                "statements": _statements(finding),
                "fix": finding.fix,
                "source": finding.source,
                "exact": finding.exact,
                **where,
                "lines": [] if finding.source else places.lines(where["tensors"]),
            }
            for finding, where in zip(report, shown, strict=True)
        ],
        "code": places.code,
    }


def _statements(finding: Finding) -> list[list[Any] | None]:
    """Return for each line of evidence its statement: where, its text, what is said, and whether it is the culprit."""
    at = shown_at(finding.evidence, finding.source)
    facts = [evidence_of(each) for each in (*finding.evidence, doubt(finding.evidence)) if each]
    return [
        [str(fact.place), fact.place.text, fact.text, fact.place in at] if fact.place and fact.place.text else None
        for fact in facts
    ]


class _Places:
    """The lines of the program that use a parameter, or make what a module returns, as the graph of a run has them."""

    def __init__(self, run: Run):
        try:
            stored = run.stored_graph()
        except DamagedRun:
            stored = None
        self._graph: Graph | None = None if stored is None else stored.value
        self._nodes = nodes_of(self._graph, run.tensors) if self._graph is not None and self._graph.lines else {}

    @property
    def code(self) -> dict[str, str]:
        """The text of the lines, as far as the recording holds it."""
        return {} if self._graph is None else self._graph.code

    def lines(self, tensors: list[list[str]]) -> list[str]:
        """Return the lines of the tensors that a finding speaks of, a few of them.

        A line that uses every parameter, as one that calls the model, says nothing of one of them.
        """
        if self._graph is None:
            return []
        nodes = (node for name, kind in tensors for node in self._nodes.get((name, kind), ()))
        found = lines_of(self._graph, nodes)
        if found == self._of_all and all(parameter_of(name, kind) is not None for name, kind in tensors):
            return []
        return found[:MOST_LINES]

    @cached_property
    def _of_all(self) -> list[str] | None:
        """The lines that use all parameters, if those are of several layers."""
        if self._graph is None:
            return None
        owners = {name.rpartition(".")[0] for leaf in self._graph.leaves for name in leaf.names}
        if len(owners) < SEVERAL:
            return None
        return lines_of(self._graph, (leaf.node for leaf in self._graph.leaves))


def _where(text: str, names: list[tuple[str, str]]) -> Answer:
    """Return the first step that a text speaks of, and the first tensor: the longest name, as others begin alike."""
    step = re.search(r"\bsteps? (\d[\d,]*)", text)
    spoken = [(found.start(), name, kind) for name, kind in names if (found := _said(name, text))]
    spoken = [each for each in spoken if each[2] in _KINDS.get(_word_before(text, each[0]), (each[2],))] or spoken
    first = min((start for start, _, _ in spoken), default=0)
    here = [(name, kind) for start, name, kind in spoken if start == first]
    return {"step": int(step[1].replace(",", "")) if step else None, "tensors": [list(key) for key in here[:8]]}


def _said(name: str, text: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w]|\.\w)", text) if name else None


_KINDS = {"gradient of": ("grad", "output_grad"), "gradients of": ("grad", "output_grad"), "update of": ("update",)}
"""What is meant of the tensors of one name, by the words before it."""


def _word_before(text: str, start: int) -> str:
    return " ".join(text[:start].lower().split()[-2:])
