"""`Tracer`: what `trace` returns; finds the steps, and looks at operations in traced ones alone."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any

import torch
from torch.compiler import is_compiling

from backsight.naming.roots import ours
from backsight.recording.cost import Cost
from backsight.recording.environment import environment, rank_and_world
from backsight.recording.hook import turn
from backsight.recording.optimizer_steps import leave, listen
from backsight.recording.steps import StepEnds
from backsight.recording.voice import told
from backsight.tape import Hushed, no_torch_dispatch, no_torch_function
from backsight.traces.beginnings import Beginnings, Early
from backsight.traces.ledger import Ledger
from backsight.traces.mode import FRESH, Call, Operations
from backsight.traces.modules import ModuleCalls
from backsight.traces.records import Shard
from backsight.traces.settings import hyperparameters, random_states, settings
from backsight.traces.store import Writer, free_folder
from backsight.traces.summaries import Summaries
from backsight.traces.taking import MOST, Page, Values
from backsight.traces.updates import Updates

Say = Callable[[str], None]


class Tracer:
    """Writes the operations of some steps of a training; made by `trace`.

    Attributes:
        path: the folder of the trace.

    Between traced steps there is nothing but a hook on the steps of optimizers; with `summaries`, it takes a summary of
    every step.
    """

    def __init__(
        self,
        path: Path,
        steps: Iterable[int],
        *,
        values: bool,
        say: Say,
        model: torch.nn.Module | None = None,
        summaries: bool = False,
    ):
        self.path, self.steps = path, tuple(sorted(set(steps)))
        self._say, self._process = say, os.getpid()
        self._values = Values(values)
        self._ledger = Ledger(self._values.kept, self._values.met)
        self._calls = ModuleCalls(self._entered, self._ended)
        if model is not None:
            self._calls.meet(model)
        nothing: Any = lambda *_: None  # noqa: E731
        self._ends = StepEnds(
            self._calls.observed, None, self._before, self._after, nothing, nothing, nothing, self._failed, Cost()
        )
        self._optimizers: list[weakref.ref[torch.optim.Optimizer]] = []
        self._writer: Writer | None = None
        self._summarizing = summaries
        self._summaries: Summaries | None = None
        self._page: Page | None = None
        self._mode: Operations | None = None
        self._updates: Updates | None = Updates()
        """Where steps end as long as no optimizer has stepped and the program has not said so itself."""
        self._beginnings = Beginnings()
        self._stale: Operations | None = None
        """A mode that is still on the stack of its thread."""
        self._hushed: Hushed | None = None
        self._operations = 0
        self._step, self._manual, self.closed = 0, False, False
        self._looked_at: dict[int, weakref.ref[torch.nn.Module]] = {}
        """The models that were held, by `id`, which a later one may have again."""
        self._busy = self._full = False

    def start(self, *, at_call: bool = False) -> None:
        """Look for steps. at_call: whether the first begins with the first call of a module, instead of here."""
        with turn:
            self._writer = self._opened()
            if self._writer is None:
                self.closed = True
                return
            self._summaries = Summaries(self._writer) if self._summarizing else None
            listen(self._ends)
            if 0 in self.steps:
                self._calls.attach()
                if not at_call:
                    self._guarded(self._begin)
            if rank_and_world()[1] > 1:  # what shards parameters writes to them without updating them
                self._updates = None
            elif at_call:
                self._guarded(self._look)

    @property
    def traced(self) -> int:
        """How many operations were written."""
        return self._operations

    @property
    def step_number(self) -> int:
        """How many steps have ended."""
        return self._step

    def step(self) -> None:
        """End the step: for trainings without an optimizer, or with ends of their own choice.

        From the first call on, optimizers do not end steps any more.
        """
        with turn:
            first, self._manual, self._updates = not self._manual, True, None
            if not self.closed and not (first and self._step and self._page is None):
                self._next()

    def close(self) -> None:
        """End the trace: write what there is of the step under way, and remove every hook."""
        with turn:
            if self.closed or os.getpid() != self._process:
                self._sweep()
                return
            self.closed = True
            self._stop_looking(whole=self._updates is not None and self._updates.all_updated)
            self._sweep()
            if self._summaries is not None:
                self._guarded(self._summaries.close)
            if self._writer is not None:
                self._writer.close()

    def _sweep(self) -> None:
        """Take away what could not be before: PyTorch puts a mode back where it failed, and another thread has its own.

        Until then the mode lets everything pass, and hooks wait for the next call of a module or optimizer.
        """
        if self._stale is not None and self._stale.leave():
            self._stale = None
        if self.closed and self._stale is None:
            leave(self._ends)
            self._calls.detach()

    def __enter__(self) -> Tracer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Tracer {'closed' if self.closed else f'at step {self._step}'}, {str(self.path)!r}>"

    def _opened(self) -> Writer | None:
        rank, world = rank_and_world()
        path = free_folder(self.path, rank)
        try:
            path.mkdir(parents=True, exist_ok=True)
            writer = Writer(path / f"{rank}.trace")
            writer.say(b"H", {**environment(), "steps": self.steps, "rank": rank, "world": world,
                              "random state": random_states()})  # fmt: skip
        except (OSError, ValueError) as failure:
            self._say(f"nothing is traced; the training continues: {failure}")
            return None
        if path != self.path:
            self._say(f"tracing into {path}, because {self.path} already holds a trace")
        self.path = path
        return writer

    # What follows is called by hooks and by the mode, and none of it raises.

    def _is_elsewhere(self) -> bool:
        """Whether what happens is none of the training's: in a process that was forked off, or another thread."""
        if self._stale is not None:
            self._sweep()
        mode = self._mode
        return self.closed or os.getpid() != self._process or (mode is not None and mode.thread != get_ident())

    def _entered(self, module: torch.nn.Module) -> None:
        if self._is_elsewhere():
            return
        if self._page is None and self._step in self.steps and self._step == 0:
            self._updates = None if self._updates is None else Updates()  # nothing before belongs to a step
            self._guarded(self._begin)
            return
        updates = self._updates
        if updates is not None and updates.all_updated and torch.is_grad_enabled() and not self._expected():
            updates.restart()
            self._next(by_hand=True)
        held = self._looked_at.get(id(module))
        if self._page is not None and (held is None or held() is not module):
            self._guarded(self._hold_model)

    def _ended(self, path: str, args: Any, output: Any) -> None:
        if not self._is_elsewhere() and self._page is not None and not is_compiling():
            self._guarded(self._page.module, path, args, output)

    def _before(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_elsewhere():
            return
        if self._updates is not None:
            self._updates = None
            if self._page is None:
                self._leave()
            else:
                self._page.updating = False  # what follows is the forward pass for another optimizer
        self._optimizers = [each for each in self._optimizers if each() not in (None, optimizer)]
        self._optimizers.append(weakref.ref(optimizer))
        if self._page is not None:
            self._page.optimizing += 1
            self._guarded(self._hold, "end", ("grad",))
        if self._summaries is not None:
            self._guarded(self._summaries.before, optimizer)

    def _after(self, optimizer: torch.optim.Optimizer, last: bool) -> None:
        if self._is_elsewhere():
            return
        if self._page is not None:
            self._page.optimizing = max(0, self._page.optimizing - 1)
        if self._summaries is not None:
            self._guarded(self._summaries.after, optimizer)
        if last and not self._manual:
            self._next()

    def _next(self, *, by_hand: bool = False) -> None:
        """End the step, and begin the next one. by_hand: whether no optimizer ends it."""
        if by_hand and self._page is not None and self._step == min(self.steps):
            self._note(_BY_HAND)
        self._stop_looking(whole=True, go_on=by_hand)
        if self._summaries is not None and not by_hand:
            self._guarded(self._summaries.end, self._step)
        self._step += 1
        if self._step > max(self.steps) and (self._summaries is None or by_hand):
            self.close()
        elif self._step in self.steps:
            self._guarded(self._begin)

    def _begin(self) -> None:
        assert self._writer is not None
        self._calls.attach()
        self._hushed = Hushed()
        self._writer.say(b"B", {"step": self._step, **settings()})
        beginnings = self._beginnings if self._step == min(self.steps) else None
        self._page = Page(
            self._step, self._writer, self._values, self._ledger, self._calls, self._operations, beginnings
        )
        self._hold("start", ("weight", "buffer", "state"))
        self._look()

    def _look(self) -> None:
        """See operations from here on."""
        if self._mode is None:
            self._mode = Operations(self._operation, self._result)
            self._mode.enter()

    def _leave(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None and not mode.leave():
            self._stale = mode

    def _stop_looking(self, whole: bool, go_on: bool = False) -> None:
        """End the page of a step. go_on: whether operations are looked at all the same, to see where the next ends."""
        if not go_on:
            self._leave()
        if self._hushed is not None:
            self._hushed.remove()
            self._hushed = None
        if self._page is None:
            return
        self._guarded(self._finish, whole)
        self._page = None
        if not whole or self._step + 1 not in self.steps:  # what a step leaves to the next is not from outside
            self._ledger.forget()
        if self._stale is None and not go_on:
            self._calls.detach()

    def _finish(self, whole: bool) -> None:
        assert self._page is not None and self._writer is not None
        if whole:
            self._hold("end", ("weight", "buffer", "state"))
        self._page.flush()
        self._operations = self._page.count
        self._writer.say(b"C", [*self._calls.variables().items()])
        if whole:
            names = {id(tensor): name for name, tensor in self._parameters().items()}
            optimizers = hyperparameters(self._alive(), names)
            self._writer.say(b"E", {"step": self._step, "optimizers": optimizers, "evaluating": self._evaluating(),
                                    "random state": random_states()})  # fmt: skip

    def _evaluating(self) -> list[str]:
        """Return the modules that are in evaluation mode."""
        return [path for path, module in self._calls.observed.modules() if vars(module).get("training") is False]

    def _alive(self) -> list[torch.optim.Optimizer]:
        return [held for each in self._optimizers if (held := each()) is not None]

    def _hold_model(self) -> None:
        self._hold("start", ("weight", "buffer"))

    def _hold(self, at: str, kinds: tuple[str, ...]) -> None:
        """Take down what models and optimizers hold now."""
        assert self._page is not None
        models = self._calls.models.values()
        self._looked_at = {id(each): held for held in models if (each := held()) is not None}
        parameters = self._parameters()
        found: dict[str, dict[str, torch.Tensor]] = {"weight": parameters, "buffer": {}, "grad": {}, "state": {}}
        for place in self._calls.observed.places("_buffers"):
            if (tensor := place.tensor()) is not None:
                found["buffer"][place.name] = tensor
        for name, tensor in parameters.items():
            if tensor.is_leaf and tensor.grad is not None:
                found["grad"][name] = tensor.grad
        if "state" in kinds:
            found["state"] = self._state(parameters)
        for kind in kinds:
            held, shards = parts(found[kind])
            if at == "start":  # what was there already has been changed since, as running statistics by a forward pass
                held = {name: tensor for name, tensor in held.items() if (kind, name) not in self._page.begun}
                shards = {name: shard for name, shard in shards.items() if name in held}
                self._page.begun.update((kind, name) for name in held)
            for name, tensor in held.items():
                self._ledger.name(tensor, f"{kind} {name}")
            if kind == "buffer" or shards:  # what writes to a part is not seen to write to it
                self._ledger.recheck(held.values())
            if held:
                self._page.hold(at, kind, held, shards)  # type: ignore[arg-type]  # one of the kinds

    def _parameters(self) -> dict[str, torch.Tensor]:
        places = self._calls.observed.places("_parameters")
        return {place.name: tensor for place in places if (tensor := place.tensor()) is not None}

    def _state(self, parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        names = {id(tensor): name for name, tensor in parameters.items()}
        found = {}
        for reference in self._optimizers:
            state = object.__getattribute__(reference(), "__dict__").get("state", {}) if reference() is not None else {}
            for parameter, held in dict.items(state):
                for key, value in held.items() if isinstance(held, dict) else ():
                    if isinstance(value, torch.Tensor):
                        found[f"{key} of {names.get(id(parameter), 'a parameter')}"] = value
        return found

    def _expected(self) -> bool:
        """Whether there is an optimizer that has yet to step, so that no step ends before it does."""
        return bool(self._guarded(self._ends.expected))

    def _operation(self, call: Call) -> Any:
        if self._busy:
            return None
        early = self._page is None and self._step == 0 and 0 in self.steps
        if call[0] is FRESH:
            return Early(call) if early else None
        if self._updates is not None:
            self._below_autograd(self._follow, self._updates, call, torch.is_grad_enabled())
        page = self._page
        if page is None and self._step == 0 and 0 in self.steps:
            return Early(call)
        if page is None or self._full:
            return None
        if page.full:
            self._full = True
            self._note(f"step {self._step} has more than {MOST:,} operations; the rest is left out")
            return None
        return self._below_autograd(page.before, call, torch.is_grad_enabled())

    def _follow(self, updates: Updates, call: Call, grad: bool) -> None:
        """Begin and end steps at an operation, where no module and no optimizer does."""
        before = updates.newest
        begins = updates.look(call, grad) and not self._ends.expected()
        if begins:
            self._next(by_hand=True)
        elif self._page is None and self._step == 0 and 0 in self.steps and updates.without_module:
            self._guarded(self._begin)
            begins = True
        self._busy = True
        if self._page is not None:
            self._page.updating = updates.updating and not grad
            if begins:
                self._page.newest = before  # its node is there already

    def _result(self, ticket: Any, result: Any) -> None:
        if isinstance(ticket, Early):
            self._below_autograd(self._beginnings.look, ticket, result)
        elif self._page is not None:
            self._below_autograd(self._page.after, ticket, result)

    def _guarded(self, take: Callable[..., Any], *args: Any) -> Any:
        """Call something of ours; what it raises ends the trace and nothing else."""
        return self._below_autograd(_without_gradients, take, *args)

    def _below_autograd(self, take: Callable[..., Any], *args: Any) -> Any:
        """The same where autograd has been already, as in a mode: some thousand times a step."""
        self._busy = True
        try:
            with turn, no_torch_function(), no_torch_dispatch():
                return take(*args)
        except Exception as failure:
            self._failed(ours(failure))
            return None
        finally:
            self._busy = False

    def _failed(self, failure: Exception) -> None:
        if self.closed:
            return
        self._note(f"the trace ends here: {told(failure)}")
        self._say(f"stopped tracing in step {self._step}; the training continues: {told(failure)}")
        self._page = None
        self.close()

    def _note(self, text: str) -> None:
        try:
            if self._writer is not None:
                self._writer.say(b"N", text)
        except OSError:
            pass  # the disk is full: that is what is said on stderr


_BY_HAND = (
    "no optimizer of PyTorch steps: a step ends where its parameters have been written to, and only the traced steps "
    "are compared"
)


def _without_gradients(take: Callable[..., Any], *args: Any) -> Any:
    with torch.no_grad():
        return take(*args)


def parts(tensors: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, Shard]]:
    """Return tensors with the local part in place of each DTensor, and which part of it that is, where it can be said.

    To be called without gradients, within hooks of ours.
    """
    module = sys.modules.get("torch.distributed.tensor")
    kind: Any = getattr(module, "DTensor", None)
    if kind is None or not any(issubclass(type(each), kind) for each in tensors.values()):
        return dict(tensors), {}
    local, shards = {}, {}
    for name, tensor in tensors.items():
        local[name] = tensor
        if issubclass(type(tensor), kind) and (found := _shard(tensor)) is not None:
            local[name] = kind.to_local(tensor)
            shards[name] = found
    return local, shards


def _shard(tensor: Any) -> Shard | None:
    """Return which part of a tensor is here; None where two dimensions of a mesh split it, and for partial sums.

    Over the other dimensions of a mesh it is replicated, as FSDP2 with replicas does.
    """
    mesh, placements = tensor.device_mesh, tensor.placements
    place = mesh.get_coordinate()
    splits = [k for k, each in enumerate(placements) if not each.is_replicate()]
    if place is None or len(splits) > 1 or any(not placements[k].is_shard() for k in splits):
        return None
    shape = tuple(map(int, tensor.shape))
    if not splits:
        return Shard(shape, -1, 0, 1)
    (split,) = splits
    return Shard(shape, int(placements[split].dim), int(place[split]), int(mesh.size(split)))
