"""`watch`: notes taken while a program runs, through PyTorch's own hooks, which make later answers exact."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from backsight.tape import CallLog, Node, announce, modules_in
from backsight.tracing.compiled import Hushed
from backsight.tracing.facts import Backward, Change, Line, NonFinite, Operation, Severed
from backsight.tracing.steps import StepLog

Level = Literal["calls", "lines", "exact"]

_current: list[Watch] = []


class Watch:
    """A context manager that logs module calls and optimizer steps; everything is removed at the end.

    Attributes:
        calls: the module calls; graphs captured while this object is held get exact modules from it.
        steps: the optimizer steps.
    """

    def __init__(self, model: torch.nn.Module | None = None, *, level: Level = "calls", nonfinite: bool = False):
        if model is not None and not issubclass(type(model), torch.nn.Module):
            raise TypeError(f"watch(model=...) expects a torch.nn.Module or nothing, not {type(model).__name__}.")
        self.level = level
        self.notes: tuple[str, ...] = ()
        self.calls = CallLog()
        self.steps = StepLog()
        self._model = model
        self._handles: list[Any] = []
        self._used = self._failed = False

    def __enter__(self) -> Watch:
        if self._used:
            raise RuntimeError("this watch is running or has ended; make another with backsight.watch().")
        self._used = True
        announce(self.calls)
        of_interest = None if self._model is None else {id(module) for _, module in modules_in(self._model)}

        def enter(module: torch.nn.Module, args: Any) -> None:
            if of_interest is None or id(module) in of_interest:
                self.calls.enter(module)

        def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
            if of_interest is None or id(module) in of_interest:
                self.calls.leave(module)

        def stepped(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
            self.steps.stepped(optimizer)

        self._handles = [
            register_module_forward_pre_hook(self._guarded(enter)),
            register_module_forward_hook(self._guarded(leave), always_call=True),
            register_optimizer_step_post_hook(self._guarded(stepped)),
            Hushed(),
        ]
        _current.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.calls.close()
        _current.remove(self)

    def line_of(self, node: Node | int, thread: int | None = None) -> Line | None:
        """Return the line that made `node`; None where that was not seen."""
        return None

    def operation_of(self, node: Node | int, thread: int | None = None) -> Operation | None:
        """Return the operation that made `node`, with its operands; None below the exact level."""
        return None

    def changes(self, tensor: torch.Tensor | int, since: int | None = None) -> tuple[Change, ...]:
        """Return the changes in place of the memory of `tensor`, oldest first; `since` a version of it, if given."""
        return ()

    @property
    def backwards(self) -> tuple[Backward, ...]:
        """The calls of `backward()` and `torch.autograd.grad()`, oldest first."""
        return ()

    def backward_before(self, node: Node | int, thread: int | None = None) -> Backward | None:
        """Return the first backward that began after `node` was made; None if there was none."""
        return None

    def severed(self, tensor: torch.Tensor) -> tuple[Severed, ...]:
        """Return what cut `tensor`, which requires no gradient, off from what did, the nearest first."""
        return ()

    @property
    def departures(self) -> tuple[Severed, ...]:
        """Where tensors that required a gradient were handed to Python: `.item()`, `.tolist()`, `.numpy()`."""
        return ()

    @property
    def nonfinite(self) -> tuple[NonFinite, ...]:
        """The births of NaN and infinities, in order."""
        return ()

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Keep a failure of ours from the training: it is told once, and nothing more is noted."""

        def guarded(*given: Any) -> None:
            # torch.compile traces hooks: this line makes them vanish from what it compiles instead of breaking it.
            if torch.compiler.is_compiling() or self._failed:
                return
            try:
                hook(*given)
            except Exception as failure:
                self._give_up(failure)

        return guarded

    def _give_up(self, failure: Exception) -> None:
        # The hooks stay until the end: an optimizer iterates over the live dict of its hooks while it calls this one.
        self._failed = True
        self.calls.close()
        try:
            text = f"backsight: nothing more is watched, {type(failure).__name__}: {failure}"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        except Exception:  # warnings are errors here, or the failure's text raises: neither may end the training
            return


def watch(model: torch.nn.Module | None = None, *, level: Level = "calls", nonfinite: bool = False) -> Watch:
    """Take notes while the program runs, so that what is asked afterwards is exact.

    ```python
    with backsight.watch():
        loss = criterion(model(x), y)
        print(backsight.graph(loss))    # every operation under the module that ran it
    ```

    Logs the calls of every module (or only of those in `model`) and the optimizer steps: some microseconds a call.
    Weights and results are untouched, and nothing stays behind at the end. Under `torch.compile` the hooks vanish from
    the compiled code.

    Raises:
        TypeError: if `model` is not a module.
    """
    return Watch(model, level=level, nonfinite=nonfinite)


def current() -> Watch | None:
    """Return the innermost watch that is running, if any."""
    return _current[-1] if _current else None
