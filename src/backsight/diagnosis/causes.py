"""Which finding is a consequence of which: what is so in a training, and which codes tell why."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from backsight.diagnosis.finding import SEVERITIES, Finding


@dataclass(frozen=True)
class Fact:
    """Something that is so in a training. Where a finding tells its reason, others need not state it.

    reasons: the codes of what tells why it is so. states: those of what only says that it is, left out beside a reason.
    where: what a reason has to know: nothing, any statement, or the one that the other finding names, as its own or
    among those it shows; the leaf with which the title of the other begins; or since when it has to be so: no later
    than the other, or since a step that is known.
    notes: whether only notes state it, and a warning of the same code says more.
    """

    reasons: frozenset[str]
    states: frozenset[str] = frozenset()
    where: Literal["anywhere", "somewhere", "same place", "shown", "named", "before", "dated", "moved"] = "anywhere"
    notes: bool = False

    def is_explained(self, found: Iterable[Finding]) -> bool:
        """Whether a finding tells why it is so."""
        return any(each.code in self.reasons for each in found)

    def told_once(self, found: Sequence[Finding]) -> list[Finding]:
        """Leave out what only states it, if something else tells why."""
        told: list[Finding] = []
        for each in found:
            others = told if each.code in self.reasons else found  # of two that tell why, the first one does
            if not any(self.explains(other, each) for other in others):
                told.append(each)
        return told

    def explains(self, reason: Finding, stated: Finding) -> bool:
        """Whether a finding tells why something is so that another only states."""
        if reason.code not in self.reasons or stated.code not in self.states:
            return False
        if self.notes and stated.severity != "note":
            return False
        return {
            "anywhere": True,
            "somewhere": bool(reason.source),
            "same place": reason.source == stated.source,
            "shown": any(str(getattr(each, "place", "")) == stated.source for each in reason.evidence),
            "named": _is_named(stated.title.partition(" ")[0], reason),
            "before": (reason.since or 0) <= (stated.since or 0),
            "dated": reason.since is not None and reason.since <= (stated.since or sys.maxsize),
            "moved": (stated.since or 0) > 1,
        }[self.where]


def _is_named(leaf: str, reason: Finding) -> bool:
    return "." in leaf and any(leaf in each for each in reason.evidence if isinstance(each, str))


def _codes(*numbers: int) -> frozenset[str]:
    return frozenset(f"BS{number}" for number in numbers)


FACTS = (
    # All rows become one on their way through a model.
    Fact(_codes(131, 135, 136, 147), states=_codes(114)),
    # An explosion of the loss leaves units that are all dead; a loss that merely did not fall tells no step.
    Fact(_codes(310), states=_codes(114), where="dated"),
    # The loss has nothing to do with a model. What knows where that begins is told, of the model or its optimizer.
    Fact(_codes(115), states=_codes(114), where="somewhere"),
    Fact(_codes(114), states=_codes(115)),
    # No gradient goes on from an operation or a hook, whatever arrives there.
    Fact(_codes(141, 142, 151), states=_codes(114, 115)),
    # An optimizer was given other parameters than those that its loss trains.
    Fact(_codes(115), states=_codes(101), where="named"),
    # No gradient arrives at an optimizer, so the backward before its step trains nothing of it.
    Fact(_codes(115), states=_codes(127)),
    # What is trained decides over what is drawn, through which no gradient goes.
    Fact(_codes(141), states=_codes(149), where="same place"),
    # A term has no gradient: it may be the whole loss.
    Fact(_codes(114), states=_codes(121), where="same place"),
    # A loss leaves gradients to the optimizer of another: they are mixed, and they are never zeroed.
    Fact(_codes(123), states=_codes(103), where="shown"),
    # All parameters of an optimizer are frozen, and what is computed from them alone is a constant.
    Fact(_codes(115), states=_codes(121), where="before"),
    # A view mixes the entries of dimensions: the graph and the text both show it.
    Fact(_codes(147), states=_codes(147), where="same place"),
    # A term has no gradient, and with it what only it would train.
    Fact(_codes(121), states=_codes(102), where="same place"),
    # A target is the network itself, so that its values have the graph of that.
    Fact(_codes(144), states=_codes(173)),
    # Inputs grow, as the stored data are changed.
    Fact(_codes(140), states=_codes(140), where="same place"),
    # Statistics are not updated, or there are none: what saturates then, the right mode mends.
    Fact(_codes(116), states=_codes(131), where="before"),
    # Steps that are too large, as nothing clips them, leave units saturated.
    Fact(_codes(124), states=_codes(131), where="moved"),
    # A quotient is always 0, and so is the gradient of what multiplies it.
    Fact(_codes(158), states=_codes(141), where="shown"),
    # A parameter does not move.
    Fact(_codes(146), states=_codes(113), where="same place"),
    # An optimizer takes the place of another, and both hold the same parameters.
    Fact(_codes(128), states=_codes(106), notes=True),
    # Weights end as NaN: a recording knows which operation began it, and in which step.
    Fact(_codes(301), states=_codes(108), where="somewhere"),
    # The graph grows from step to step.
    Fact(_codes(110), states=_codes(111)),
)
"""In the order in which they are looked at."""

GRADIENT_ENDS = Fact(_codes(121, 131, 136, 141, 142, 143))
"""Gradients are zeros."""

NOTHING_ARRIVES = _codes(102, 114, 115)
"""What trains nothing of a model: whatever else is wrong with its loss does not show before."""

NOT_FINITE = Fact(_codes(108, 112))
"""Weights are NaN at the end."""


def one_for_each_cause(found: Iterable[Finding]) -> list[Finding]:
    """Leave out what is told twice, and what is a consequence of something else that is told."""
    told = list({(each.code, each.title): each for each in found}.values())
    # Whether what a loss does not reach is meant to learn shows a step later; then it may be known where it is cut off.
    known = {(each.code, each.evidence[:1]) for each in told if each.severity != "note"}
    told = [each for each in told if each.severity != "note" or (each.code, each.evidence[:1]) not in known]
    for fact in FACTS:
        told = fact.told_once(told)
    return told


def follows(finding: Finding, reason: Finding) -> bool:
    """Whether a finding is a consequence of another, and left out beside it."""
    return any(fact.explains(reason, finding) for fact in FACTS)


def in_order(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which to mend them: the graver first, of these what began first, and of these
    what lets no gradient arrive at all."""

    def place(each: Finding) -> tuple[int, int, bool]:
        return SEVERITIES.index(each.severity), each.since or sys.maxsize, each.code not in NOTHING_ARRIVES

    return tuple(sorted(found, key=place))
