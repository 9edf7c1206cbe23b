"""The vital signs of a training: facts of every optimizer step that cost next to nothing, over the whole run.

Attributes of Python objects are read, and the values of one small tensor that no device holds; but at a few spaced
steps no device is waited for. A sign that changes is worth a closer look, and what holds at the end is told with the
step since which it does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from backsight.diagnosis import Finding, Report, Site
from backsight.launch.audits import Audits
from backsight.launch.collapsing import Collapsing
from backsight.launch.drifting import Drifting
from backsight.launch.ending import Lost
from backsight.launch.evaluating import Evaluating
from backsight.launch.freezing import Attributes, LeftFrozen, RowsMoving, StillMoving, Thawed
from backsight.launch.functional import Functional
from backsight.launch.hearing import SILENT, Hearing
from backsight.launch.inputs import Batches, Inputs
from backsight.launch.keeping import Keeping
from backsight.launch.likelihoods import Likelihoods
from backsight.launch.modes import Modes
from backsight.launch.outputs import Outputs
from backsight.launch.passing import Passing
from backsight.launch.piling import Piling
from backsight.launch.pruned import Pruned
from backsight.launch.rates import Decay, Rates
from backsight.launch.reading import Loads, Loops, Taken, Updates, Watched
from backsight.launch.references import References
from backsight.launch.rewriting import Rewriting
from backsight.launch.sharing import Sharing, Tying
from backsight.launch.sign import Audit, Course, Sign, Step, caller, key_of
from backsight.launch.skipping import Skipping
from backsight.launch.successors import Renewed, Successions
from backsight.launch.turns import Turns
from backsight.launch.twins import Twins
from backsight.launch.unmoved import Unmoved
from backsight.launch.views import Views
from backsight.launch.wiped import Idle, Wiped
from backsight.launch.zeros import Stopping, Zeros
from backsight.naming import standstill
from backsight.tape import Living
from backsight.tracing import Watch


class VitalSigns:
    """Tells the signs of a training what happens, each what it wants to know, and collects what they have found.

    A new sign is a subclass of `Sign` and one line in the list here, in the order of which findings are told that began
    in the same step.
    """

    def __init__(self, watch: Watch) -> None:
        self.steps = 0
        """The steps in the thread that is followed."""
        self.zeros = Zeros()
        self.audits = Audits(self.zeros, watch)
        self.unmoved = Unmoved(watch)
        self.outputs = Outputs()
        self.modes = Modes()
        self.keeping = Keeping()
        self.evaluating = Evaluating(self.modes)
        self.functional = Functional(watch)
        self._pruned = Pruned()
        self.lost = Lost(self.audits)
        self._courses: Living[Course] = Living()
        self._signs: tuple[Sign, ...] = (
            self.audits,
            self.unmoved,
            Rewriting(watch),
            self.outputs,
            Inputs(watch),
            Batches(watch),
            Views(watch),
            Collapsing(watch),
            Hearing(),
            Turns(),
            Rates(),
            self.modes,
            self.evaluating,
            Renewed(),
            Attributes(),
            Updates(),
            Decay(),
            LeftFrozen(),
            StillMoving(),
            RowsMoving(),
            Drifting(),
            Piling(),
            self.zeros,
            Thawed(),
            Successions(),
            Loads(),
            Loops(),
            Twins(),
            Sharing(),
            Tying(),
            self.keeping,
            Wiped(),
            Idle(),
            Passing(watch),
            self._pruned,
            References(watch, self.modes),
            Likelihoods(),
            self.functional,
            Taken(watch),
            Watched(watch),
            Stopping(watch, self.zeros),
            Skipping(watch),
            self.lost,
        )
        self._each_step = self._listening("each_step")
        self._doubled = self._listening("doubled")
        self._run_doubled = self._listening("run_doubled")
        self._returned = self._listening("returned")
        self._audited = self._listening("audited")

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Note a step that an optimizer is about to make."""
        self._pruned.stepping(optimizer, key_of(optimizer), self.steps, caller)

    def stepped(self, optimizer: torch.optim.Optimizer) -> bool:
        """Note a step that an optimizer has just made; return whether a sign has changed."""
        self.steps += 1
        key = key_of(optimizer)
        course = self._courses.at(key)
        if course is None:
            course = Course(weakref.ref(optimizer))
            self._courses.put(key, optimizer, course)
        course.steps += 1
        course.last = self.steps
        step = Step(optimizer, key, course.steps, self.steps, self._courses, self.modes.models)
        step.news = course.steps == 1 and self.steps > SILENT  # something else is trained from here on
        if not course.steps & (course.steps - 1) or not self.steps & (self.steps - 1):
            with standstill():
                self._tell_doubled(step)
        for tell in self._each_step:
            tell(step)
        return step.news

    def _tell_doubled(self, step: Step) -> None:
        """Tell that the steps of an optimizer, or of the run, are a power of two."""
        if not step.steps & (step.steps - 1):
            for tell in self._doubled:
                tell(step)
        if not step.number & (step.number - 1):
            for tell in self._run_doubled:
                tell(step)

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        """Note that a module that no other has called returned something with a graph."""
        for tell in self._returned:
            tell(module, given, output)

    def audited(self, site: Site, roots: Any, report: Report, steps: int, *, is_late: bool) -> None:
        """Note an audit of a loss after so many steps; `is_late`: in a later look."""
        audit = Audit(site, roots, report, steps, is_late, self.steps, self._courses)
        for tell in self._audited:
            tell(audit)

    def findings(self, *, failed: bool = False) -> list[Finding]:
        """Return what the signs tell. `failed`: steps are not followed any more, so that nobody knows what lasts."""
        found: list[Finding] = []
        for sign in self._signs:
            if not (failed and _follows_steps(sign)):
                found += sign.told(found)
        return found

    def _listening(self, event: str) -> list[Callable[..., None]]:
        """Return the methods of the signs that want to be told of an event."""
        return [getattr(sign, event) for sign in self._signs if _wants(sign, event)]


def _wants(sign: Sign, event: str) -> bool:
    return getattr(type(sign), event) is not getattr(Sign, event)


def _follows_steps(sign: Sign) -> bool:
    return any(_wants(sign, event) for event in ("each_step", "doubled", "run_doubled"))
