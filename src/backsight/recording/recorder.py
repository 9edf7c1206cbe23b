"""`Recorder`: what `record` returns, the one object that a training script holds."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

import torch

from backsight.naming.roots import ours
from backsight.recording import processes
from backsight.recording._torch import hooks_traced, in_functional_call
from backsight.recording.calls_seen import CallsSeen
from backsight.recording.cost import Cost
from backsight.recording.hook import turn
from backsight.recording.metrics import Metric, Metrics
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Form, Observed
from backsight.recording.schedule import SHARE, Pace, Schedule
from backsight.recording.sink import Sink
from backsight.recording.steps import Backwards, Marking, StepEnds, has_begun
from backsight.recording.tables import settle
from backsight.recording.taps import METRIC_KINDS, Tap, make_taps
from backsight.recording.taps.gradients import GradientTap
from backsight.recording.taps.graph import GraphTap, owners
from backsight.recording.taps.scalars import Scalars, ScalarTap
from backsight.recording.voice import Voice, told
from backsight.runs import EVALUATION
from backsight.tape import unseen


class Measured(Protocol):
    """The memory of a step: a `backsight.memory.StepMemory`."""

    def document(self) -> dict[str, Any]: ...


class Beside(Protocol):
    """What looks at calls of modules as well, and only while a step is recorded."""

    def attach(self) -> None: ...

    def detach(self) -> None: ...


class Recorder:
    """Records the steps of a training until it is closed; made by `record`.

    Attributes:
        run: the folder of the run.
    """

    def __init__(
        self,
        observed: Observed,
        optimizers: Sequence[torch.optim.Optimizer] | None,
        sink: Sink | None,
        *,
        run: Path,
        voice: Voice,
        pace: Pace,
        taps: Sequence[str],
        variables: Mapping[str, Callable[[], Any] | None],
        histograms: bool = True,
        calls: int = 256,
        graph: bool = False,
        cost: Cost,
        beside: Sequence[Beside] = (),
    ):
        self.run = run
        self._observed = observed
        self._sink = sink
        self._voice = voice
        self._pace = pace
        self._said_every = pace.every
        self._notebook = Notebook(voice, Metrics(voice), self._failed, self._cut, calls, cost, histograms)
        self._ends = StepEnds(
            observed,
            optimizers,
            self._before,
            self._after,
            self._adopted,
            self._replaced,
            self.close,
            self._stop,
            cost,
        )
        self._backwards = Backwards(observed, self._ends)
        if observed.whole_program:
            self._notebook.every_loss = True
            self._notebook.begun = self._begun_again
            self._notebook.by_hand = self._stepped_by_hand
        self._beside = beside
        self._taps = make_taps(self._notebook, observed, taps, variables)
        self._graph = GraphTap(self._notebook, observed) if graph else None
        if self._graph is not None:
            self._taps.append(self._graph)
        self._scalars = ScalarTap(
            self._notebook, self._ends.several, self._met, self._new_loss, moves="update" not in taps
        )
        self._taps.append(self._scalars)
        self._hooked = [tap for tap in self._taps if type(tap).install is not Tap.install]
        self._asked_before = [tap for tap in self._taps if type(tap).before_update is not Tap.before_update]
        self._asked_after = [tap for tap in self._taps if type(tap).after_update is not Tap.after_update]
        self._marking = Marking()
        self._step = 0
        self._due = 0
        """Steps before this one are not recorded."""
        self._traced_before = hooks_traced()
        self._manual = False
        self._armed = self._ended = False
        self._attached = False
        self._unfinished = False
        self._last: Literal["step", "evaluation"] | None = None
        self._seen = CallsSeen(self._event, recorded=bool({"input", "output"} & set(taps)))
        self._form = Form(Observed({}))
        self._swapped = False
        """Whether something else was in place of parameters when they were looked at."""
        self._notebook.first_call = self._look_again
        self._notebook.passed_by = self._close_if_gone
        self._amid = False
        """Whether the step under way had begun before it was recorded, so that its calls were not seen."""
        self._close_sink = weakref.finalize(self, sink.close) if sink is not None else None
        if self._close_sink is not None and sink is not None:
            self._close_sink.atexit = False  # `processes` does it, and the step under way with it
            processes.add(self)
            self._ends.adopt()
            self._look()
            self.arm()

    @property
    def steps(self) -> int:
        """How many steps have ended, recorded or not: the number of the step under way."""
        return self._step

    @property
    def optimizer_steps(self) -> int:
        """How many steps of optimizers these were made of."""
        return self._ends.count

    @property
    def recorded(self) -> int:
        """How many steps were recorded, those that were dropped among them."""
        return 0 if self._sink is None else self._sink.taken

    @property
    def after_the_last(self) -> Literal["step", "evaluation"] | None:
        """What is recorded after the last step that has ended: a step that has not, or an evaluation alone."""
        return self._last

    @property
    def every(self) -> int | None:
        """One step in how many is recorded now; None where a function chooses."""
        return self._pace.every

    @property
    def dropped(self) -> int:
        """How many recorded steps were dropped because writing could not keep up."""
        return 0 if self._sink is None else self._sink.dropped

    @property
    def closed(self) -> bool:
        """Whether nothing will be recorded any more; so it is too once the models are gone."""
        return self._is_closed() or self._observed.gone()

    def _is_closed(self) -> bool:
        return self._sink is None or self._sink.closed

    def step(self) -> None:
        """End the step: for trainings without an optimizer, or with ends of their own choice.

        From the first call on, optimizers do not end steps any more.
        """
        with turn:
            first, self._manual = not self._manual, True
            self._notebook.begun = None
            if first and self.steps and not self._notebook.page:
                return  # the optimizer has just ended this very step
            page = self._notebook.page
            if page is not None:
                for tap in self._asked_before:
                    tap.guarded(tap.before_update, page, None)
            self._next()

    def mark(self, **tags: Any) -> None:
        """Tag the rows of a step.

        ```python
        for batch in batches:
            rec.mark(epoch=3)               # of the step to come
            ...
            optimizer.step()
            rec.mark(loss=loss.item())      # of the step that has just ended
        ```

        In the midst of a step a tag is about that step. Between two steps it is about the one to come if it was first
        given before any step had ended, and about the one that has ended otherwise.
        """
        if self._sink is not None:
            for step, held in self._marking.steps(self.steps, self._notebook.page, tags).items():
                self._sink.mark(step, held)

    def metric(self, kind: str) -> Callable[[Metric], Metric]:
        """Add a metric for every tensor of a kind, as a decorator.

        ```python
        @rec.metric("weight")
        def sparsity(weight):
            return (weight.abs() < 1e-3).float().mean()
        ```

        The function gets the tensor, detached, and returns a number, a short list of them, or several by name in a
        dict. One of the same name is replaced. A metric that raises is dropped, with one warning.

        Raises:
            ValueError: if there is no such kind.
        """
        if kind not in METRIC_KINDS:
            raise ValueError(f"there is no kind of tensor {kind!r}; choose from {', '.join(METRIC_KINDS)}.")

        def add(metric: Metric) -> Metric:
            self._notebook.metrics.add(kind, metric)
            if self._notebook.page is not None:
                self._notebook.page.metrics = self._notebook.metrics
            return metric

        return add

    def arm(self) -> None:
        """Record from here on, as the schedule says.

        Raises:
            RuntimeError: if the recorder has been closed.
        """
        self._check_open()
        if not self._armed and not self.closed:
            self._ends.attach()  # which may wait for other threads, and these for their turn
            with turn:
                self._armed = True
                self._turn_page()

    def disarm(self) -> None:
        """Record nothing until `arm`; steps go on being counted. What the step under way has so far is left out."""
        with turn:
            self._armed = False
            self._turn_page()

    def rearm(self) -> None:
        """Look at the models anew, after modules or parameters were replaced, and record from here on."""
        if self._sink is None or self.closed:
            return
        self._ends.attach()
        with turn:
            self._look()
            self._armed, self._attached = True, False
            self._turn_page() if self._notebook.page is None else self._attach()

    def entered(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take a call of a module that began before there were hooks of this recorder."""
        for tap in self._hooked:
            tap.guarded(tap.entered, module, args, kwargs)

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Take an optimizer's step that began before there were hooks of this recorder."""
        self._amid = True
        self._ends.stepping(optimizer)

    @property
    def attached(self) -> bool:
        """Whether the hooks are there that a call of a module meets."""
        return self._attached

    def memory(self, measured: Measured, *, step: int | None = None) -> None:
        """Keep the memory of a step that `backsight.measure_memory` measured: `run.memory`, and the viewer, show it.

        ```python
        with backsight.measure_memory(model, optimizer) as m:
            ...                         # a step
        rec.memory(m)
        ```

        step: which it was, by default the one that ended last. A later measurement takes the place of an earlier one.

        Raises:
            RuntimeError: if the measurement has not ended.
        """
        held = measured.document()
        if self._sink is not None:
            self._sink.memory(max(0, self.steps - 1) if step is None else step, held)

    def graph_of(self, loss: torch.Tensor) -> None:
        """Keep the autograd graph behind this loss for `run.graph`, if no model has returned one by now, and only once.

        For models that are not called themselves, as a LightningModule in whose `training_step` the layers are. To be
        called before backward; the step under way has to be recorded.
        """
        page = self._notebook.page
        if self._graph is not None and page is not None:
            self._graph.guarded(self._graph.from_root, page, "loss", loss)

    def flush(self) -> None:
        """Write what has been recorded so far; this also happens by itself, several times a second."""
        if self._sink is not None:
            self._sink.flush()

    def close(self) -> None:
        """Record the step under way as far as it came, write everything, and remove every hook."""
        self._ended = True
        with turn:
            if self._sink is None or self._is_closed():
                return
            arrived = self._notebook.arrived
            ends = bool(arrived and self._notebook.begun) and self._backwards.end_steps(arrived)
            self._step += ends  # no call of the model is to come that would end it
            before, begun = self.recorded, has_begun(self._notebook.page)
            self._finish_page()
            self._write(self._scalars.last())
            if not ends and self.recorded > before:
                self._last = "step" if begun else "evaluation"
                if self._last == EVALUATION:
                    self._event(EVALUATION)
            self._detach()
            self._ends.detach()
            self._seen.end()
            self._armed = False
        if self._close_sink is not None:
            self._close_sink()

    def __enter__(self) -> Recorder:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError(
                f"this recorder is closed and {self.run} is complete: start another with backsight.record(..., "
                "run=...)."
            )

    def __repr__(self) -> str:
        state = "closed" if self.closed else "armed" if self._armed else "disarmed"
        return f"<Recorder {state}, step {self.steps}, {str(self.run)!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _elsewhere, (str(self.run),)

    def _before(self, optimizer: torch.optim.Optimizer) -> None:
        page = self._notebook.page
        if page is not None:
            self._look_again()
            for tap in self._asked_before:
                tap.guarded(tap.before_update, page, optimizer)
        elif self._is_between():
            self._scalars.guarded(self._scalars.stepping, optimizer)

    def _after(self, optimizer: torch.optim.Optimizer, last: bool) -> None:
        self._backwards.stepped()
        self._notebook.arrived.clear()
        page = self._notebook.page
        if page is not None:
            for tap in self._asked_after:
                tap.guarded(tap.after_update, page, optimizer)
        elif self._is_between():
            self._scalars.guarded(self._scalars.stepped, optimizer)
        if last and not self._manual:
            self._next()

    def _begun_again(self) -> None:
        """A model is called after a backward pass, and no optimizer has stepped."""
        ends = self._backwards.end_steps(self._notebook.arrived)
        self._notebook.arrived.clear()
        if ends:
            self._next()

    def _stepped_by_hand(self) -> None:
        """A step was taken by hand between two that are recorded: look at calls from here on, to count such steps."""
        with turn:
            if self._armed and not self._attached and not self._ends.amid:
                self._step += 1
                self._backwards.counting = True
                self._attach()

    def _close_if_gone(self) -> None:
        """What is called is not recorded: the models may be gone, and no call of theirs be to come."""
        if self._observed.gone():
            self.close()

    def _look_again(self) -> None:
        """A layer may have come, gone or been replaced: what is there now is recorded from this very step on."""
        if self._form.changed():
            before, known = self._form, not self._swapped
            self._adopted()
            if known:
                self._event("model changed", **self._form.since(before))

    def _adopted(self) -> None:
        """An optimizer holds what no module owns: it is recorded from this very step on."""
        self._look()
        if self._notebook.page is not None:
            self._attach()

    def _replaced(self, optimizer: torch.optim.Optimizer) -> None:
        """Another optimizer ends steps from here on."""
        self._event("optimizer replaced", by=type(optimizer).__name__)

    def _next(self) -> None:
        """End a step and begin the next."""
        if self._is_between() and not self._scalars.broken:
            self._write(self._scalars.between(self._step))
        self._step += 1
        self._notebook.arrived.clear()
        if self._notebook.page is not None or self._step >= self._due:
            self._finish_page()
            self._notebook.between = True
            self._turn_page()
            self._notebook.between = False

    def _finish_page(self) -> None:
        page = self._notebook.close()
        if page is None or self._sink is None or not page:
            return
        amid, self._amid = self._amid, False
        self._seen.take(page, whole=not amid)
        self._sink.page(page)
        self._write(self._scalars.taken(page.step))
        if self._graph is not None and self._graph.ended:
            self._keep_graph(self._graph)

    def _event(self, event: str, *, step: int | None = None, **details: Any) -> None:
        """Write down what else happened, by default in the step under way."""
        if self._sink is not None:
            self._sink.event(event, step=self.steps if step is None else step, **details)

    def _write(self, scalars: Scalars) -> None:
        """Write down numbers of steps."""
        for step, found in scalars.items():
            if found and self._sink is not None:
                self._sink.scalars(step, found)

    def _met(self, settings: dict[str, Any]) -> None:
        """An optimizer steps for the first time."""
        self._event("optimizer", **settings)

    def _new_loss(self, name: str, step: int) -> None:
        """Backward was called on something for the first time."""
        self._event("loss", step=step, name=name)

    def _keep_graph(self, tap: GraphTap) -> None:
        """Store the graph, or why there is none, and take its hooks away: it is the first step's alone."""
        self._graph = None
        if self._sink is not None and (found := tap.captured) is not None:
            self._sink.graph(found.step, found.owned(owners(self._observed, self._ends.optimizers())))
            told_ = {"nodes": found.nodes, "leaves": found.leaves, "milliseconds": round(found.seconds * 1e3, 1)}
            self._event("graph", step=found.step, **told_)
        elif tap.left_out:
            self._event("graph left out", why=tap.left_out)
        if not self._compiled():  # else it would be compiled anew without our hooks, which do nothing from here on
            tap.detach()
            self._taps.remove(tap)
            self._hooked.remove(tap)

    def _turn_page(self) -> None:
        """Attach the taps and open a page if the step under way is to be recorded, else detach them."""
        if self._sink is not None and self._sink.failure is not None:
            self._armed = False
        step = self.steps
        wanted = self._armed and self._wanted()
        if self._said_every != self._pace.every:
            self._said_every = self._pace.every
            self._event("every", every=self._pace.every, why=f"at most {SHARE:.0%} of the time")
        if wanted:
            self._due = step
            self._scalars.forget()
            self._notebook.open(step)
            if self._unfinished and not self._observed.unfinished():
                self._attached = False
                self._look()
            if self._attached:
                self._settle()
            else:
                self._attach()
        else:
            self._notebook.close()
            self._due = self._pace.due(step) if self._armed else sys.maxsize
            if self._attached and not (self._armed and (self._compiled() or self._backwards.counting)):
                self._detach()
                self._leave_first()

    def _leave_first(self) -> None:
        """Leave the hooks that see backward passes begin: these have losses, and steps may come to be taken by hand."""
        for tap in self._taps if self._is_between() else ():
            if isinstance(tap, GradientTap):
                tap.guarded(tap.keep_first)

    def _is_between(self) -> bool:
        """Whether the step under way is one that is not recorded, of a whole program: its losses are kept nevertheless.

        Who records a model chooses steps for what they cost, and can mark them all.
        """
        return self._armed and self._notebook.page is None and self._observed.whole_program

    def _settle(self) -> None:
        """Install what could not be installed while other threads were in calls of modules, and say what was missed."""
        settled = settle()
        self._amid = self._amid or not settled
        self._seen.settled(settled, self.steps)

    @unseen
    def _look(self) -> None:
        """Find what is in the models now, and store it."""
        self._unfinished = self._observed.unfinished()
        self._form, self._swapped = Form(self._observed), in_functional_call()
        for tap in self._taps:
            tap.look()
        if self._sink is not None:
            self._sink.tree(self._observed.tree())

    def _wanted(self) -> bool:
        try:
            return self._pace(self.steps)
        except Exception as failure:  # the user's function, in the middle of the user's training
            self._voice.say("schedule", f"every(step) failed; recording stopped: {told(ours(failure))}")
            self._armed = False
            return False

    def _compiled(self) -> bool:
        """Whether our hooks were there when something was compiled: without them it would be compiled anew."""
        return hooks_traced() > self._traced_before

    @unseen
    def _attach(self) -> None:
        for each in (*self._hooked, *self._beside):
            each.attach()
        self._attached = True
        self._settle()

    @unseen
    def _detach(self) -> None:
        for each in (*self._taps, *self._beside):
            each.detach()
        self._attached = False

    def _cut(self, name: str) -> None:
        """Note that something happens more often in a step than is recorded; what there is more of is like the rest."""
        self._event("calls left out", of=name, recorded=self._notebook.calls)

    def _failed(self, tap: str, failure: Exception) -> None:
        if self._voice.say(f"tap {tap}", f"{tap} is no longer recorded: {told(failure)}"):
            self._event("tap failed", tap=tap, cause=told(failure))

    def _stop(self, failure: Exception) -> None:
        """Give up altogether: a failure outside of any tap."""
        self._notebook.close()
        self._armed = False
        self._detach()
        self._ends.detach()
        self._voice.say("recorder", f"recording stopped; training continues without it: {told(failure)}")

    def abandon(self) -> None:
        """Record nothing any more: this process was forked off the one that records, and the files are not its own."""
        self._notebook.page = None
        self._armed = False
        self._detach()
        self._ends.detach()
        if self._close_sink is not None:
            self._close_sink.detach()
        if self._sink is not None:
            self._sink.abandon()


def _elsewhere(run: str) -> Recorder:
    """Return what a recorder is in another process: closed."""
    voice = Voice()
    cost = Cost()
    return Recorder(
        Observed({}),
        None,
        None,
        run=Path(run),
        voice=voice,
        pace=Pace(Schedule(), cost),
        taps=(),
        variables={},
        cost=cost,
    )
