"""What the callbacks of all hosts do: record, audit, release, mirror, explain; the host only tells when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec

import torch

from backsight.integrations.mirror import Mirror, Sinks
from backsight.integrations.mirror.mirror import chosen
from backsight.launch.recording import counted
from backsight.launch.voice import failed, say, show

if TYPE_CHECKING:
    from backsight.diagnosis import Report, explaining
    from backsight.gradient_release import Release
    from backsight.launch.first_steps import FirstSteps
    from backsight.recording import Recorder
    from backsight.tracing import Level

Given = ParamSpec("Given")


class Observing:
    """What stands beside one training after another, from `_begin` to `_end`; a callback of a host is one of these.

    A failure of its own is told in a line, ends it, and leaves the training alone. Only release, which was asked for,
    may refuse.

    Attributes:
        recorder: that of the training under way, or of the last; None if nothing is recorded.
        report: what was found in the training under way, or in the last.
        releases: one for each optimizer, while they are released.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        every: int | Literal["auto"] = 1,
        record: bool = True,
        audit: bool = True,
        watch: Level | None = None,
        release: bool | int | float | str = False,
        clip: float | None = None,
        mirror: Sinks = (),
        quiet: bool = False,
    ):
        """Say what is wanted; nothing happens before a training begins.

        Args:
            run: the folder to record into; a name is made up if there is none.
            every: every how many optimizer steps are recorded; or "auto", as by `record`.
            record: whether to record at all.
            audit: whether to audit the first steps, and to tell what was found. Without, errors are explained from
                their tracebacks alone, in which a host has left out the functions that computed the loss.
            watch: how closely operations are watched meanwhile, for explanations, as by `backsight run --watch`:
                "exact" costs some 2 µs each, "calls" next to nothing. If not given, exactly; by lines of several ranks.
            release: whether the optimizers step inside of backward: True, or the size of a bucket, such as "16MB".
            clip: the norm to which released gradients are clipped, in place of the host's own clipping.
            mirror: where else what is recorded goes: "tensorboard", "wandb", "mlflow", a `Sink`, or several.
            quiet: say nothing where nothing is found.

        Raises:
            TypeError: if `run` is no path, or `every` neither a number nor "auto".
            ValueError: if something is asked for that needs what was not, or that there is not.
        """
        from backsight.recording.arguments import folder_of
        from backsight.recording.schedule import Schedule
        from backsight.tracing.watch import LEVELS

        super().__init__()
        if clip is not None and release is False:
            raise ValueError("clip= is the norm that release clips to: add release=True, or let the host clip.")
        if mirror and not record:
            raise ValueError("mirror= shows the recording: remove record=False.")
        # Here, and not when the host begins: what is told in a line then, is an error of whoever wrote this.
        folder_of(run)
        Schedule(every)
        if watch is not None and watch not in LEVELS:
            raise ValueError(f'watch= expects "calls", "lines" or "exact", not {watch!r}: omit it if unsure.')
        self.run, self.every, self.quiet = run, every, quiet
        self.recorder: Recorder | None = None
        self.releases: tuple[Release, ...] = ()
        self._record, self._audit, self._bucket, self._clip = record, audit, release, clip
        self._watch = watch
        self._sinks = chosen(mirror)
        self._mirror: Mirror | None = None
        self._steps: FirstSteps | None = None
        self._explaining: explaining | None = None
        self._report: Report | None = None
        self._told = 0
        self._gave_up = False
        self._handles: list[Any] = []

    @property
    def report(self) -> Report:
        """What was found so far in the training under way, or in all of the last."""
        from backsight.diagnosis import Report

        if self._steps is not None:
            return self._steps.report().without_notes()
        return self._report or Report(())

    def _begin(
        self, model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], config: Mapping[str, Any]
    ) -> None:
        """Begin to observe a training; `_release` comes before."""
        self._gave_up = False
        try:
            self._observe(model, optimizers, config)
        except Exception as failure:  # of ours, and no failure of the training
            self._give_up(failure)

    def _observe(
        self, model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], config: Mapping[str, Any]
    ) -> None:
        from backsight.diagnosis import explaining
        from backsight.launch.first_steps import FirstSteps
        from backsight.recording import record

        self._told, self._report, self.recorder = 0, None, None
        if self._audit:
            self._steps = FirstSteps(self._watch)
        if self._record:
            # Of several, the one that ends a step is found as they step: the order in which a host has them tells not.
            alone = optimizers[0] if len(optimizers) == 1 else None
            self.recorder = record(model, alone, run=self.run, every=self.every, config=config)
            if self._sinks and _is_first() and not self.recorder.closed:
                self._mirror = self._mirrored(self.recorder)
        self._explaining = explaining()
        self._explaining.__enter__()

    def _mirrored(self, recorder: Recorder) -> Mirror | None:
        try:
            return Mirror(recorder, self._sinks)
        except Exception as failure:  # what is recorded is worth as much without
            failed("the recording is not mirrored", failure)
            return None

    def _release(self, optimizers: Sequence[torch.optim.Optimizer], ddp: torch.nn.Module | None = None) -> None:
        """Release the optimizers if that was asked for; `ddp` is the DistributedDataParallel that the host has made.

        Raises:
            NotReleasable: if it would not be exact; then none is released.
        """
        if self._bucket is False:
            return
        from backsight.gradient_release import release

        try:
            for optimizer in optimizers:
                released = release(optimizer, "auto" if self._bucket is True else self._bucket, ddp=ddp)
                self.releases += (released,)
                if self._clip is not None:
                    released.clip(self._clip)
        except Exception:
            self._stop_releasing()
            raise

    def _mark(self, **tags: Any) -> None:
        if self.recorder is not None:
            self.recorder.mark(**tags)

    def _stepped(self) -> None:
        """Tell what the audits of the first steps have found since this was last called."""
        if self._steps is None or len(self._steps.findings) == self._told:
            return
        from backsight.diagnosis import Report

        new = list(self._steps.findings.values())[self._told :]
        self._told = len(self._steps.findings)
        shown = Report(tuple(new), self._steps.looked_at).without_notes()
        if shown.findings and _is_first():
            show(shown, explains=False)

    def _end(self, error: BaseException | None = None) -> None:
        """End observing and releasing; an autograd error that has ended the training gets its explanation."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stop_releasing()
        if self._gave_up:
            return
        try:
            self._close(error)
        except Exception as failure:  # the training has ended as it did
            self._give_up(failure)

    def _close(self, error: BaseException | None) -> None:
        held, self._explaining = self._explaining, None
        if held is not None:
            held.__exit__(None if error is None else type(error), error, None)
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.stop()
            self._report = steps.report().without_notes()
        recording = self.recorder is not None and not self.recorder.closed
        if recording and self.recorder is not None:
            self.recorder.close()
        mirror, self._mirror = self._mirror, None
        if mirror is not None:
            mirror.close()
        if _is_first():
            self._say_what_was_found(steps, error)
            if recording and self.recorder is not None and not self.quiet:
                what = counted(self.recorder, adapts=self.every == "auto")
                say(f"backsight: {what} recorded: backsight runs show {self.recorder.run}")

    def _say_what_was_found(self, steps: FirstSteps | None, error: BaseException | None) -> None:
        """Tell what is known only at the end, unless an error has ended the training before it was there to be seen."""
        if steps is None or steps.failed or error is not None:
            return
        from backsight.diagnosis import Report
        from backsight.launch.summary import for_tools, summary

        told = list(steps.findings.values())[: self._told]
        rest = tuple(each for each in self.report.findings if each not in told)
        if rest:
            show(Report(rest, self.report.looked_at), explains=False)
        elif not self.report.findings and not self.quiet:
            say(summary(steps), text=for_tools(steps))

    def _give_up(self, failure: Exception) -> None:
        """Tell of a failure of ours, and leave nothing but release, on which the training relies by now."""
        self._gave_up = True
        failed("no longer observing the training", failure)
        steps, held, mirror = self._steps, self._explaining, self._mirror
        self._steps = self._explaining = self._mirror = None
        ends: list[Callable[[], object]] = []
        if steps is not None:
            ends.append(steps.stop)
        if held is not None:
            ends.append(lambda: held.__exit__(None, None, None))
        if self.recorder is not None:
            ends.append(self.recorder.close)
        if mirror is not None:
            ends.append(mirror.close)
        for end in ends:
            try:
                end()
            except Exception:  # one failure has been told; the others follow from it
                continue

    def _stop_releasing(self) -> None:
        releases, self.releases = self.releases, ()
        for each in releases:
            try:
                each.remove()
            except Exception as failure:  # an error within backward has left some parameters stepped, and others not
                failed("release stays attached", failure)


def _is_first() -> bool:
    """Whether this is the one of several processes that speaks for all; hosts start them in ways of their own."""
    from backsight.recording.environment import rank_and_world

    return rank_and_world()[0] == 0


Method = Callable[Concatenate[Any, Given], None]


def guarded(method: Method[Given]) -> Method[Given]:
    """Keep a failure of ours, in a method that a host calls, from the host."""

    @wraps(method)
    def guarded_method(self: Observing, /, *args: Given.args, **kwargs: Given.kwargs) -> None:
        if self._gave_up:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as failure:
            self._give_up(failure)

    return guarded_method
