"""Whether the steps of an optimizer's parameters are independent of one another, by what flows, not by example.

Three things are shown on tiny copies of the parameters. What operations carry from one parameter into another is seen
by labels (`flow`). What Python decides on a value that it reads is seen by having it read something else
(`interventions`). What hangs on a count of steps is looked for at the counts that the optimizer's code and settings
name (`counters`). A comparison bit for bit comes after that (`probe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from backsight.gradient_release.copies import Copies, Make, tiny
from backsight.gradient_release.counters import jumps, outside, thresholds, turning_points
from backsight.gradient_release.course import Course
from backsight.gradient_release.errors import NotReleasable
from backsight.gradient_release.flow import Flow, Read
from backsight.gradient_release.interventions import (
    Detour,
    Listening,
    Substitution,
    instead_of,
    other_gradients,
    step_ahead,
)
from backsight.gradient_release.labels import Labels, bit
from backsight.gradient_release.moment import Moment, Outcome, changed
from backsight.gradient_release.origin import Line, Trail, line_of_failure
from backsight.gradient_release.per_step_globals import same
from backsight.gradient_release.scenario import EVEN, Given, at_counts, at_settings, even_steps, rare_steps

MOST_OF_A_GROUP = 4
MOST_JUMPS = 16
MOST_RATES = 8
MOST_RUNS = 3000
"""Parameters that may be stepped in interventions; about a second."""

TRUSTED_KERNELS = ("bitsandbytes.",)
"""Modules of optimizers whose kernels write past PyTorch's operations, each to one parameter (compared bit for bit)."""


class Proof(NamedTuple):
    """How far the steps were looked at.

    steps: that were followed; replaced: runs with something replaced; counted: the greatest count of steps reached;
    kernels: whether the optimizer has kernels that cannot be seen into, and is known.
    """

    steps: int
    replaced: int
    counted: int
    kernels: bool = False

    def __str__(self) -> str:
        if self.kernels:
            return "its kernels are known to step one parameter at a time"
        return (
            f"no parameter's step depends on another's in {self.steps} steps of tiny copies up to step {self.counted}, "
            f"and {self.replaced} runs in which a gradient, or a value that the step reads, was replaced"
        )


def prove(optimizer: torch.optim.Optimizer, make: Make | None) -> Proof:
    """Show that no parameter's step hangs on another parameter.

    Raises:
        NotReleasable: with the line of the optimizer's code where one does, or with what cannot be seen into.
    """
    copies = Copies(optimizer, make, MOST_OF_A_GROUP, tiny)
    try:
        followed = _Followed(copies)
        tried = _Tried(copies, followed)
    except _Unseen as unseen:
        if type(optimizer).__module__.startswith(TRUSTED_KERNELS):
            return Proof(0, 0, 0, kernels=True)
        raise NotReleasable(
            f"{type(optimizer).__name__} cannot be shown to step each parameter separately: {unseen} If you know that "
            "it does, override this with release(optimizer, trust=True)."
        ) from unseen
    return Proof(len(followed.steps), tried.runs, followed.counted)


INSIST = "If you know that it steps each parameter separately, override this with release(optimizer, trust=True)."
_WITHOUT_FOREACH = "If it computes parameters of one shape together, create it with foreach=False. "


def takes_foreach(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer takes `foreach`, and was not made without."""
    held = (*optimizer.param_groups, vars(optimizer))
    return any("foreach" in each and each["foreach"] is not False for each in held)


class _Unseen(Exception):
    """Something that a step does cannot be seen into."""


class _Followed:
    """Steps with labels: what was given to each that could be taken, and what Python read in it."""

    def __init__(self, copies: Copies):
        self._name = type(copies.original).__name__
        self._foreach = takes_foreach(copies.original)
        self.steps: list[tuple[int, Given, list[Read]]] = []
        self._labels = Labels()
        self._course = Course(*copies.new())
        places = copies.places
        even = even_steps(places)
        for number, given in enumerate(even):
            self._follow(number, given)
        counts = jumps(turning_points(self._course.optimizer), MOST_JUMPS)
        late = at_counts(places, counts, len(self._course.leaders()))
        rates = at_settings(places, thresholds(self._course.optimizer), MOST_RATES)
        for number, given in enumerate([*late, *rates, *rare_steps(places)], len(even)):
            self._follow(number, given)

    @property
    def counted(self) -> int:
        """The greatest count of steps that was reached."""
        return max(self._course.reached, len(self.steps))

    def _follow(self, number: int, given: Given) -> None:
        course = self._course
        moment = Moment(course.optimizer, course.parameters)
        course.prepare(number, given)
        values = [(each.data_ptr(), each.detach().clone()) for each in course.parameters]
        shared = outside(course.optimizer)
        flow = Flow(self._labels, course.own())
        try:
            with flow:
                take_step(course.optimizer)
        except Exception as failure:
            moment.restore()
            if number < EVEN:
                self._refuse_failure(number, given, failure)
            return  # numbers that this optimizer cannot take
        judge(course.optimizer, flow, course.own(), self._foreach)
        self._refuse_counts(shared, outside(course.optimizer))
        for each, (pointer, value) in zip(course.parameters, values, strict=True):
            if each.data_ptr() == pointer and flow.unseen(each) and not same(each.detach(), value):
                raise _Unseen("its step changes parameters by kernels that do not go through PyTorch's operations.")
        self.steps.append((number, given, flow.reads))

    def _refuse_failure(self, number: int, given: Given, failure: Exception) -> None:
        """Say why an even step failed: because it was followed, or by itself."""
        self._course.prepare(number, given)
        try:
            take_step(self._course.optimizer)
        except Exception as own:
            if None in given.factors:
                first = str(own).partition("\n")[0].rstrip(":")
                raise NotReleasable(
                    f"{self._name} cannot skip a parameter without a gradient, at {line_of_failure(own)} "
                    f"({type(own).__name__}: {first}), but in optimizer.step(), parameters stepped "
                    "inside backward have none. Make its step skip them, `if p.grad is None: continue`, or train "
                    "without "
                    "release()."
                ) from own
            raise NotReleasable(
                f"{self._name} cannot be probed: its plain step failed with small parameters "
                f"({type(own).__name__}: {own}). {INSIST}"
            ) from own
        raise _Unseen(f"its step cannot be followed ({type(failure).__name__}: {failure}).") from failure

    def _refuse_counts(self, before: dict[str, float], after: dict[str, float]) -> None:
        """Refuse what is counted outside of the optimizer, where each partial step would count once more."""
        moved = [name for name in after if name in before and not same(before[name], after[name])]
        if moved:
            raise NotReleasable(
                f"{self._name} changes {moved[0]} in each step, which does not belong to it: a step taken in parts "
                "would change it several times. Keep it in the optimizer (`self`), or train without release()."
            )


class _Tried:
    """The same steps again, from the same state, with something replaced."""

    def __init__(self, copies: Copies, followed: _Followed):
        self._name = type(copies.original).__name__
        course = Course(*copies.new())
        self._course = course
        self._optimizer, self._parameters = course.optimizer, course.parameters
        self._most = max(60, MOST_RUNS // len(self._parameters))
        self._foreach = takes_foreach(copies.original)
        self._seen: dict[Any, int] = {}
        self._detours: set[Any] = set()
        self.runs = 0
        for number, given, reads in followed.steps:
            course.prepare(number, given)
            self._moment = Moment(self._optimizer, self._parameters)
            self._before = self._moment.outcome()
            listening = Listening()
            with listening:
                take_step(self._optimizer)
            self._expected = self._moment.outcome()
            if number == 1:
                self._refuse_chance()
            if number in (1, 4):
                self._other_counters()
            if number in (1, 3, 5) or (number >= EVEN and given.even and (number - EVEN) % 3):
                self._other_gradients(brief=number >= EVEN)
            if len(listening.values) == len(reads):
                for at, (read, value) in enumerate(zip(reads, listening.values, strict=True)):
                    self._other_value(at, read, value)
            self._moment.restore()
            take_step(self._optimizer)

    def _other_value(self, at: int, read: Read, value: Any) -> None:
        """Have one read return something else, unless such a one was tried often enough."""
        if not read.labels:
            return
        several = bool(read.labels & (read.labels - 1))
        site = read.line, read.operation, several or read.labels
        often = self._seen[site] = self._seen.get(site, 0) + 1
        if (often > 3 and not several) or self.runs > self._most:
            return
        for other in instead_of(value):
            with Substitution(at, other):
                found = self._again()
            if found is None:
                continue
            own, shared = changed(self._expected, found)
            others = [number for number in own if several or bit(number) != read.labels]
            if others or shared:
                what = "a value of several parameters" if several else "a value of one parameter"
                whom = "their step" if several else "the step of others" if others else "what all parameters share"
                raise coupled(self._name, f"its step reads {what} into Python, and {whom} depends on it", read.line)
            detour = read.line, read.operation, repr(other)
            if own and detour not in self._detours:
                self._detours.add(detour)
                self._take_detour(at, other)

    def _take_detour(self, at: int, other: Any) -> None:
        """Follow the step in which one read returns something else: it may take another branch."""
        self.runs += 1
        self._moment.restore()
        flow = Detour(self._course.own(), at, other)
        try:
            with flow:
                take_step(self._optimizer)
        except Exception:
            return
        judge(self._optimizer, flow, self._course.own(), self._foreach)

    def _other_gradients(self, brief: bool) -> None:
        """Give one parameter other gradients."""
        for number in {0} if brief else {0, len(self._parameters) - 1}:
            if self.runs > self._most:
                return
            self._moment.restore()
            kept = self._parameters[number].grad
            for gradient in other_gradients(kept, brief):
                found = self._again(number, gradient)
                if found is None:
                    continue
                if gradient is None and not found.untouched(number, self._before):
                    raise coupled(
                        self._name,
                        "its step changes a parameter that has no gradient, or its state; parameters stepped inside "
                        "backward have none",
                        self._changing(number),
                    )
                own, shared = changed(self._expected, found)
                if own - {number} or (shared and gradient is not None):
                    line = self._where(number, gradient)
                    whom = "the step of others" if own - {number} else "what all parameters share"
                    raise coupled(self._name, f"the gradient of one parameter decides over {whom}", line)

    def _other_counters(self) -> None:
        """Have one parameter be at another step than the others."""
        for number in {0, len(self._parameters) - 1}:
            for by in (1, 7):
                self._moment.restore()
                if not step_ahead(self._optimizer, self._parameters[number], by):
                    continue
                found = self._again(restored=True)
                if found is not None and changed(self._expected, found)[0] - {number}:
                    raise coupled(
                        self._name, "the count of steps of one parameter decides over the step of others", None
                    )

    def _again(
        self, number: int | None = None, gradient: torch.Tensor | None = None, restored: bool = False
    ) -> Outcome | None:
        """Return what the step makes now; None if it raises, which is no silent difference."""
        self.runs += 1
        if not restored:
            self._moment.restore()
        if number is not None:
            self._parameters[number].grad = gradient
        try:
            take_step(self._optimizer)
        except Exception:
            return None
        return self._moment.outcome()

    def _where(self, number: int, gradient: torch.Tensor | None) -> Line | None:
        """Return the line from which on another way is taken with another gradient."""
        trails = []
        for replaced in (False, True):
            self._moment.restore()
            if replaced:
                self._parameters[number].grad = gradient
            with Trail() as trail:
                take_step(self._optimizer)
            trails.append(trail)
        return trails[0].parts_from(trails[1])

    def _changing(self, number: int) -> Line | None:
        """Return the line that changes a parameter without a gradient."""
        self._moment.restore()
        self._parameters[number].grad = None
        with Flow(Labels(), self._course.own()) as flow:
            take_step(self._optimizer)
        line: Line | None = flow.changed.get(number)
        return line

    def _refuse_chance(self) -> None:
        found = self._again()
        if found is None or any(changed(self._expected, found)[0]) or changed(self._expected, found)[1]:
            raise _Unseen("two steps from the same state give different results.")


def take_step(optimizer: torch.optim.Optimizer) -> None:
    """Take a step: the frame up to which a line is looked for."""
    optimizer.step()


def judge(
    optimizer: torch.optim.Optimizer, flow: Flow, own: Sequence[Sequence[torch.Tensor]], takes_foreach: bool
) -> None:
    """Refuse an optimizer, in a step of which values came from one parameter to another, or chance from the order.

    Raises:
        NotReleasable: with the line where that was.
    """
    name = type(optimizer).__name__
    if (write := flow.foreign(own)) is not None:
        raise coupled(
            name,
            "values of several parameters flow into the step of one",
            write.line,
            "" if write.source == write.line else f" (they come together at {write.source})",
            (_WITHOUT_FOREACH if takes_foreach else "")
            + "If this clips by the norm of all gradients, turn it off and call release.clip(max_norm) instead.",
        )
    if flow.drawn is not None or flow.drew():
        raise coupled(
            name,
            "its step draws random numbers, and which ones a parameter gets depends on the order of all",
            flow.drawn,
        )


def coupled(name: str, what: str, line: Line | None, before: str = "", do: str = "") -> NotReleasable:
    """Return the refusal of an optimizer whose parameters hang on one another."""
    at = "" if line is None or not line.number else f", at {line}"
    return NotReleasable(
        f"{name} does not step each parameter separately: {what}{at}{before}. Release steps a parameter before the "
        f"gradients of the others exist, so the result would differ. {do}{' ' if do else ''}Otherwise train without "
        "release(), or override this with release(optimizer, trust=True)."
    )
