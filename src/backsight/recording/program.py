"""A recording whose models are found while the program runs, as `backsight run --record` does."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from backsight.recording import processes
from backsight.recording.cost import Cost
from backsight.recording.hook import Hook, turn
from backsight.recording.observed import Observed
from backsight.recording.optimizer_steps import leave, listen
from backsight.recording.record import begin, free_folder
from backsight.recording.recorder import Beside, Recorder
from backsight.recording.schedule import Schedule
from backsight.recording.taps import TAPS
from backsight.recording.voice import Voice


class ProgramRecording:
    """Records every model that joins it, and all that optimizers hold, into one run, which begins with the first.

    ```python
    recording = ProgramRecording(Path("runs/first"), print, every=10)
    recording.join("model", model)
    ...
    recording.close()
    ```

    Attributes:
        of_parts: the folder that forked processes write their parts into.

    Optimizers are found when they step. A process that is forked off records nothing, until an optimizer steps in it:
    from then on it writes a part of this run, as a rank does. `say` is called with a line where something cannot be
    recorded; `beside` are told when calls of modules are of interest.
    """

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        *,
        every: int | Literal["auto"] = 1,
        config: Mapping[str, Any] | None = None,
    ):
        self.folder = folder
        self.recorder: Recorder | None = None
        self.beside: Sequence[Beside] = ()
        self._schedule = Schedule(every)
        self._voice = _Lines(say)
        self._config = dict(config or {})
        self._models: dict[str, weakref.ref[torch.nn.Module]] = {}
        self.of_parts = free_folder(folder)
        self._is_part = self._closed = False
        cost = Cost()
        self.stepping = Hook(self._stepping, self._failed, cost)
        self.stepped = Hook(lambda optimizer: None, self._failed, cost)
        listen(self)
        processes.add(self)

    @property
    def steps(self) -> int:
        """How many steps have ended."""
        return 0 if self.recorder is None else self.recorder.steps

    def join(
        self, name: str, model: torch.nn.Module, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> None:
        """Record a model from here on; one of the same name gives way.

        args, kwargs: what it is being called with, if this is within a global hook of that very call.
        """
        with turn:
            if self._closed:
                return
            self._models[name] = weakref.ref(model)
            if self.recorder is None and self._is_part:
                return
            # PyTorch has made up the list of this call's hooks by now (torch/nn/modules/module.py, `_call_impl`): those
            # that have just been added are not in it.
            too_late = self.recorder is None or not self.recorder.attached
            if self.recorder is None:
                self.recorder = self._begun()
            else:
                self.recorder.rearm()
            if too_late:
                self.recorder.entered(model, args, dict(kwargs or {}))

    def close(self) -> None:
        """Write everything and remove every hook."""
        self._closed = True
        leave(self)
        if self.recorder is not None:
            self.recorder.close()

    def abandon(self) -> None:
        """Record nothing in this process, which was forked off the one that records, until an optimizer steps in it."""
        self.of_parts = self.of_parts if self.recorder is None else self.recorder.run
        self.recorder, self._is_part = None, True
        if not self._closed:
            listen(self)

    def _stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin with an optimizer where nothing else has been recorded; from then on the recorder itself listens."""
        if self.recorder is None and not self._closed:
            self.recorder = self._begun()
            self.recorder.stepping(optimizer)

    def _failed(self, failure: Exception) -> None:
        self._closed = True
        self._voice.say("program", f"recording stopped: {type(failure).__name__}: {failure}")

    def _begun(self) -> Recorder:
        if self._is_part and "multiprocessing.util" in sys.modules:  # whose processes end without running atexit
            sys.modules["multiprocessing.util"].Finalize(None, self.close, exitpriority=1)
        return begin(
            Observed(self._models, whole_program=True),
            None,
            self.of_parts if self._is_part else self.folder,
            schedule=self._schedule,
            taps=TAPS,
            variables={},
            config=self._config,
            voice=self._voice,
            beside=self.beside,
            part=self._is_part,
        )


class _Lines(Voice):
    """Says in a line what a recorder has to say: a warning could be turned into an error, or hidden, by the program."""

    def __init__(self, say: Callable[[str], None]):
        super().__init__()
        self._say = say

    def say(self, cause: str, text: str) -> bool:
        if cause in self._said:
            return False
        self._said.add(cause)
        self._say(f"backsight: {text}")
        return True
