"""What is wrong with a backward that is called on its own: its conduct first, then what it returns.

It needs no forward: whatever the operation is, its backward is linear in what arrives, the same for the same, and does
not touch what it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from backsight.tape import input_metadata
from backsight.tape.rows import dtype_name
from backsight.verification.case import Case, Draw, Known
from backsight.verification.conduct import Changed, Coarse, Conduct, told
from backsight.verification.custom import place_of
from backsight.verification.hypotheses import Explanation, explained
from backsight.verification.live.trial import Trial
from backsight.verification.report import WrongGradient


def judged(trial: Trial) -> tuple[WrongGradient, ...]:
    """Return what is wrong with a backward."""
    if grave := tuple(_finding(trial, *each) for each in told(_conduct(trial))):
        return grave
    found = []
    for k, (producer, _) in enumerate(trial.live.next_functions):
        if producer is not None and (case := _case(trial, k)) is not None and (said := explained(case)) is not None:
            found.append(_finding(trial, *said, trial.inputs[k]))
    return tuple(found)


def _case(trial: Trial, number: int) -> Called | None:
    made = trial.raw[number], trial.of_u[number], trial.of_v[number], trial.of_both[number]
    nothing = trial.cls is not None and made[0] is None
    if not nothing and not all(each is not None and each.numel() for each in made):
        return None
    case = Called(trial, number)
    return case if nothing or bool(case.is_wrong.any()) else None


def _conduct(trial: Trial) -> Conduct:
    return Conduct(
        trial.subject,
        trial.cls is not None,
        trial.refused,
        trial.grad_output if trial.overwritten else "",
        changed=tuple(Changed(name) for name in trial.changed),
        differs=_unsteadiness(trial),
        coarse=tuple(_coarse(trial)),
    )


def _unsteadiness(trial: Trial) -> float:
    """By how much two results of the same differ, where that is more than rounding."""
    widest = 0.0
    for first, again in zip(trial.of_u, trial.again, strict=True):
        if first is None or again is None or not first.numel():
            continue
        if float(trial.apart(first, again).max()) > trial.precision:
            widest = max(widest, float((first - again).abs().nan_to_num().max()))
    return widest


def _coarse(trial: Trial) -> Iterator[Coarse]:
    """A custom Function returns a coarser dtype than its input's and its output's."""
    if trial.cls is None:
        return
    came = [g.dtype for g in trial.u if g is not None and (g.dtype.is_floating_point or g.dtype.is_complex)]
    for k, (producer, output) in enumerate(trial.live.next_functions):
        made = trial.of_u[k] if k < len(trial.of_u) else None
        if made is None or producer is None:
            continue
        wanted = input_metadata(producer)[output].dtype
        if all(torch.finfo(made.dtype).eps > torch.finfo(each).eps for each in (wanted, *came)):
            seen = f"It returns {dtype_name(made.dtype)}: autograd casts that back, but the digits are lost."
            yield Coarse(trial.inputs[k], made.dtype, wanted, seen)


def _finding(trial: Trial, code: str, explanation: Explanation, of: str = "") -> WrongGradient:
    written = trial.definition
    backward = explanation.line or (place_of(written.backward) if written is not None else None)
    return WrongGradient(
        code,
        explanation.severity,
        explanation.title,
        explanation.evidence,
        explanation.fix
        if written is not None
        else "This is PyTorch's own backward: if the error is not in its inputs, it is a bug.",
        str(backward) if backward is not None else trial.node.source,
        operation=trial.name,
        input=of,
        forward=place_of(written.forward) if written is not None else None,
        backward=backward,
    )


class Called(Case):
    """The gradient of one input of a live node, of whose right value only this is known: it is linear in what arrives.

    So a draw is held against what remains of their sum without the other draw.
    """

    known = Known.BACKWARD

    def __init__(self, trial: Trial, number: int):
        self._trial = trial
        self.number = number
        self.subject = trial.subject
        self.argument = trial.inputs[number]
        self.grad_output = trial.grad_output
        self.definition = trial.definition
        self.outputs = tuple(k for k, u in enumerate(trial.u) if u is not None)
        self.returned_none = trial.cls is not None and trial.raw[number] is None
        if self.returned_none:
            self.draws = []
            return
        first, second, together = trial.of_u[number], trial.of_v[number], trial.of_both[number]
        assert first is not None and second is not None and together is not None
        self.together = together
        self.positions = torch.arange(first.numel())
        us, vs = ([each for each in made if each is not None] for made in (trial.u, trial.v))
        self.draws = [
            Draw(us, first, (together - second).reshape(-1)),
            Draw(vs, second, (together - first).reshape(-1)),
        ]

    @property
    def shape(self) -> torch.Size:
        return self.draws[0].got.shape

    @property
    def place(self) -> tuple[int, int] | None:
        return self._trial.place_of(self.number)

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self._trial.apart(a, b, [draw.got for draw in self.draws]) <= self._trial.precision

    def backward(self, us: Sequence[torch.Tensor]) -> torch.Tensor | None:
        full: list[torch.Tensor | None] = [None] * len(self._trial.u)
        for k, u in zip(self.outputs, us, strict=True):
            full[k] = u
        return self._trial.called(full)[self.number]
