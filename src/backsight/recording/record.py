"""`record`: the one call that puts a recorder on a training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal

import torch

from backsight.recording.arguments import configuration, folder_of, given, whole
from backsight.recording.cost import Cost
from backsight.recording.environment import environment, new_run, rank_and_world
from backsight.recording.job import job
from backsight.recording.observed import Models, Observed, observed
from backsight.recording.recorder import Beside, Recorder
from backsight.recording.schedule import Pace, Schedule
from backsight.recording.sink import Sink
from backsight.recording.steps import Optimizers, given_optimizers
from backsight.recording.taps import MORE_TAPS, TAPS
from backsight.recording.taps.variables import Variables, by_name
from backsight.recording.voice import Voice
from backsight.runs import NotARun, RunError, RunExists, RunWriter

MOST_PARTS = 64
"""Processes forked off a rank that each write a part of its run."""


def record(
    model: Models,
    optimizer: Optimizers = None,
    run: str | os.PathLike[str] | None = None,
    *,
    every: int | Literal["auto"] | Callable[[int], bool] = 1,
    first: int = 0,
    taps: Iterable[str] = TAPS,
    variables: Variables = (),
    histograms: bool = True,
    calls: int = 256,
    graph: bool = True,
    queue: int = 512,
    config: Mapping[str, Any] | None = None,
) -> Recorder:
    """Record statistics of every tensor of a training, step by step, into a folder.

    ```python
    rec = backsight.record(model, optimizer, run="runs/first")
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()            # ends the step
    rec.close()                     # or: with backsight.record(...) as rec
    backsight.open_run("runs/first").latest()
    ```

    Args:
        model: a module, or several by name.
        optimizer: whose `step()` ends a step; of several, the last. If None, optimizers that hold parameters of the
            model are found when they step. Without any, call `rec.step()`.
        run: the folder to write to; a name is made up if there is none. Where a run is already, a number is added.
        every: every how many steps; or a function of the step that chooses; or "auto": so many that recording takes a
            tenth of the time at most, which the run tells as events "every".
        first: so many steps at the beginning are recorded in any case.
        taps: what to take: "input" and "output" of each module, "weight" (and buffers), "grad" of each parameter,
            "state" of the optimizer; also "output_grad", and "update" (needs a copy of the weights during `step()`).
        variables: tensors that belong to no module, as names of variables or functions by name.
        histograms: whether to keep a histogram of magnitudes for each tensor.
        calls: how many calls of one module are recorded in a step.
        graph: whether to keep the autograd graph of the first recorded step, for `run.graph` and the viewer.
        queue: how many steps may wait to be written; then the oldest is dropped, and counted in `rec.dropped`.
        config: what else to store with the run, as JSON can hold it.

    Rows. Weights and buffers are those that the first module call of the step finds. A gradient is taken each time that
    a backward pass has added to it, before any clipping. A module that is called several times has a row a call.
    Modules called without grad mode between two steps are evaluation: kinds "eval_input" and "eval_output", with the
    step that comes next. What a forward that raised had done so far is in the rows.

    Under `torch.compile` the hooks vanish from what is compiled: recorded are weights, gradients, state, and the inputs
    and outputs of modules outside of compiled code, which include those of what `torch.compile(module)` returned if
    that is what is recorded. To keep those of every block, compile block by block before recording:
    `model.blocks[k] = torch.compile(block)`. Nothing is compiled anew for a step; `disarm` and `close` may cause it
    once.

    What an optimizer holds and no module owns is recorded under the name of its variable. Inputs are those before hooks
    on the module change them, and outputs those that `forward` returned.

    The training is never stopped: what cannot be recorded is left out with one `RecordingWarning`. Numbers are the same
    to the last bit, and nothing of the recorder hangs on modules: `deepcopy`, `pickle`, TorchScript and FX see none.

    Raises:
        TypeError: if an argument is of another type than said above.
        ValueError: if there is no such tap, a number is too small, `run` is empty, or a process of several has not been
            told a run.
    """
    watched = observed(model)
    first_model = next(iter(watched.models.values()))()
    return begin(
        watched,
        given_optimizers(optimizer),
        folder_of(run) or _new_folder(type(first_model).__name__),
        schedule=Schedule(every, first),
        taps=_checked_taps(taps),
        variables=by_name(variables),
        histograms=histograms,
        calls=whole("calls", calls, 1, 'omit it for 256; taps=("weight", "grad", "state") records no calls'),
        graph=graph,
        queue=whole("queue", queue, 1, "omit it for 512 steps"),
        config=configuration(config),
        voice=Voice(),
    )


def begin(
    watched: Observed,
    optimizers: Sequence[torch.optim.Optimizer] | None,
    folder: Path,
    *,
    schedule: Schedule,
    taps: Sequence[str],
    variables: Mapping[str, Callable[[], Any] | None],
    histograms: bool = True,
    calls: int = 256,
    graph: bool = True,
    queue: int = 512,
    config: Mapping[str, Any] | None = None,
    voice: Voice,
    beside: Sequence[Beside] = (),
    part: bool = False,
) -> Recorder:
    """Return a recorder of what has been checked: into the folder, one beside it, or none.

    part: whether this process was forked off the one whose run that is; then it writes a part of it, as a rank does.
    """
    cost = Cost()
    kept = {**schedule.described(), "taps": list(taps), "variables": list(variables), **(config or {})}
    writer = _part(folder, kept, voice) if part else _writer(folder, kept, voice)
    return Recorder(
        watched,
        optimizers,
        None if writer is None else Sink(writer, voice, cost, capacity=queue),
        run=folder if writer is None else writer.path,
        voice=voice,
        pace=Pace(schedule, cost),
        taps=taps,
        variables=variables,
        histograms=histograms,
        calls=calls,
        graph=graph,
        cost=cost,
        beside=beside,
    )


def _checked_taps(taps: Iterable[str]) -> tuple[str, ...]:
    if not isinstance(taps, Iterable):
        raise TypeError(f"taps must be names of taps, not {given(taps)}: omit it for {', '.join(TAPS)}.")
    chosen = (taps,) if isinstance(taps, str) else tuple(taps)
    for tap in chosen:
        if tap not in (*TAPS, *MORE_TAPS):
            raise ValueError(f"there is no tap {tap!r}; choose from {', '.join((*TAPS, *MORE_TAPS))}.")
    return chosen


def _new_folder(name: str) -> Path:
    try:
        return new_run(name)
    except ValueError as failure:
        raise ValueError(f"{failure}: record(..., run='runs/NAME').") from None


def _writer(folder: Path, config: Mapping[str, Any], voice: Voice) -> RunWriter | None:
    """Return a writer for the folder, or for one beside it if it is taken; None if it cannot be written."""
    rank, world = rank_and_world()
    around = environment()
    path, why = folder, None
    for number in count(2):
        try:
            writer = RunWriter(path, rank=rank, world=world, job=job(), config=config, environment=around)
        except (RunExists, NotARun) as taken:
            path, why = _beside(folder, number), why or taken
        except (RunError, OSError, ValueError) as failure:  # a path with a NUL in it is a ValueError
            voice.say("run", f"not recording; training continues: {failure}")
            return None
        else:
            if why is not None:
                still = f" open_run({str(folder)!r}) still opens the earlier run." if type(why) is RunExists else ""
                voice.say("run", f"recording into {path} instead. {why}{still}")
            return writer
    raise AssertionError("numbers do not end")


def _part(folder: Path, config: Mapping[str, Any], voice: Voice) -> RunWriter | None:
    """Return a writer for the next part of a run that has no number yet; those of ranks stay free for ranks."""
    _, world = rank_and_world()
    around = {**environment(), "forked from": os.getppid()}
    for number in range(world, world + MOST_PARTS):
        try:
            return RunWriter(folder, rank=number, world=world, job=job(), config=config, environment=around, part=True)
        except RunExists:
            continue
        except (RunError, OSError, ValueError) as failure:
            voice.say("run", f"not recording in process {os.getpid()}, which continues: {failure}")
            return None
    voice.say("run", f"not recording in process {os.getpid()}: {folder} already has {MOST_PARTS} parts")
    return None


def free_folder(folder: Path) -> Path:
    """Return the folder, or the one beside it that a recording goes to where there is something in it by now."""
    path = folder
    for number in count(2):
        if not path.exists():
            return path
        path = _beside(folder, number)
    raise AssertionError("numbers do not end")


def _beside(folder: Path, number: int) -> Path:
    """Return the folder of this number beside one that is taken."""
    # `.` and `..` have no name that a number could be added to.
    named = folder if folder.name not in ("", "..") else Path(os.path.abspath(folder))
    return named.parent / f"{named.name or 'run'}-{number}"
