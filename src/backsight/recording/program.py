"""A recording whose models are found while the program runs, as `backsight run --record` does."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from backsight.recording._torch import registered
from backsight.recording.hook import Hook
from backsight.recording.observed import Observed
from backsight.recording.record import begin
from backsight.recording.recorder import Recorder
from backsight.recording.schedule import Schedule
from backsight.recording.taps import TAPS
from backsight.recording.voice import Voice


class ProgramRecording:
    """Records every model that joins it into one run, which begins with the first of them.

    ```python
    recording = ProgramRecording(Path("runs/first"), print, every=10)
    recording.join("model", model)
    ...
    recording.close()
    ```

    Optimizers are found when they step. `say` is called with a line where something cannot be recorded.
    """

    def __init__(
        self, folder: Path, say: Callable[[str], None], *, every: int = 1, config: Mapping[str, Any] | None = None
    ):
        self.folder = folder
        self.recorder: Recorder | None = None
        self._schedule = Schedule(every)
        self._voice = _Lines(say)
        self._config = dict(config or {})
        self._models: dict[str, weakref.ref[torch.nn.Module]] = {}

    def join(self, name: str, model: torch.nn.Module, args: tuple[Any, ...] = ()) -> None:
        """Record a model from here on; one of the same name gives way.

        args: what it is being called with, if this is within a global hook of that very call.
        """
        self._models[name] = weakref.ref(model)
        before = list(registered(model, "_forward_pre_hooks").values())
        if self.recorder is None:
            self.recorder = self._begun()
        else:
            self.recorder.rearm()
        # PyTorch has made up the list of this call's hooks by now (torch/nn/modules/module.py, `_call_impl`), so those
        # that have just been added are called by hand. Arguments by keyword are not told to global hooks: those of this
        # one call are missing.
        for hook in list(registered(model, "_forward_pre_hooks").values()):
            if issubclass(type(hook), Hook) and not any(hook is known for known in before):
                hook(model, args, {})

    def close(self) -> None:
        """Write everything and remove every hook."""
        if self.recorder is not None:
            self.recorder.close()

    def _begun(self) -> Recorder:
        return begin(
            Observed(self._models),
            None,
            self.folder,
            schedule=self._schedule,
            taps=TAPS,
            variables={},
            config=self._config,
            voice=self._voice,
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
