"""What storages are for, as models and optimizers tell while the step runs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.memory.ledger import Kind
from backsight.memory.tensors import address_of, all_tensors, named_tensors, parts_of, tensors_of
from backsight.naming import search
from backsight.runs.unlisted import Unlisted
from backsight.tape import is_mended, made_by, no_torch_function

NAMED = 40
"""Tensors whose variables are looked for."""

LONGEST = 60
"""Characters of a name that still tells something."""


@dataclass(frozen=True, slots=True)
class Claim:
    """At `time` (ns), what lived at `address` was for `kind`; None where only the name is known."""

    time: int
    address: int
    kind: Kind | None
    name: str
    module: str | None = None
    """The module whose parameter it is, or is about; None if that is not known."""


class Claims:
    """Writes down claims while it is entered, of the models and optimizers that it is told of, and those that step.

    None of them is kept alive: what a step builds and lets go of must not count in the next one.
    """

    def __init__(self) -> None:
        self.written: list[Claim] = []
        self.pauses: list[tuple[int, int]] = []
        """When the step stood still for a search (ns)."""
        self._models: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._optimizers: list[weakref.ref[torch.optim.Optimizer]] = []
        self._names: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        self._looked = False
        self._hooks = ExitStack()

    def __enter__(self) -> Claims:
        for handle in (
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ):
            self._hooks.callback(handle.remove)
        return self

    def __exit__(self, *raised: object) -> None:
        self._hooks.close()

    def finish(self) -> None:
        """Write down what is there at the end, and let go of everything."""
        for known, prefix in self._models:
            if (model := known()) is not None:
                self._of_model(model, prefix)
        for each in self._optimizers:
            if (optimizer := each()) is not None:
                self._of_optimizer(optimizer)
        if not self._looked:
            self.variables()
        self._models.clear()
        self._optimizers.clear()
        self._names.clear()
        self._modules.clear()

    def model(self, model: torch.nn.Module, prefix: str = "") -> None:
        """Claim the parameters, buffers and gradients of a model."""
        own = [id(tensor) for _, tensor in named_tensors(model, prefix)]
        self._models.append((weakref.ref(model, lambda _: self._forget(own)), prefix))
        self._of_model(model, prefix)

    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Claim parameters, gradients and state of an optimizer; once it is known, of what has a gradient."""
        known = any(each() is optimizer for each in self._optimizers)
        if not known:
            own = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
            self._optimizers.append(weakref.ref(optimizer, lambda _: self._forget(own)))
        self._of_optimizer(optimizer, stepped_alone=known)

    def _forget(self, tensors: Iterable[int]) -> None:
        """Forget the ids of tensors whose owner is no more: others get them."""
        for tensor in tensors:
            self._names.pop(tensor, None)
            self._modules.pop(tensor, None)

    def inputs(self, arguments: Any) -> None:
        """Claim what a model is called with and nothing computed."""
        with no_torch_function():
            for tensor in tensors_of(arguments):
                if made_by(tensor) is None and not is_mended(tensor) and id(tensor) not in self._names:
                    self._claim(tensor, "inputs", "")

    def variables(self) -> None:
        """Give the largest tensors that nobody has claimed the names of the variables that hold them."""
        began, caller, failed = time.time_ns(), threading.get_ident(), list[Exception]()

        def name_them() -> None:
            try:
                with no_torch_function():
                    self._name_variables(caller)
            except Exception as failure:
                failed.append(failure)

        try:
            Unlisted(name_them).join()  # here the profiler would write down each call, and a search makes very many
        except RuntimeError:  # no more threads can be had
            name_them()
        self.pauses.append((began, time.time_ns()))
        for failure in failed:
            raise failure

    def _name_variables(self, caller: int) -> None:
        claimed = {claim.address for claim in self.written if claim.kind is not None}
        found = {address: t for t in all_tensors() if (address := address_of(t)) and address not in claimed}
        largest = sorted(found.values(), key=lambda t: -t.untyped_storage().nbytes())[:NAMED]
        for tensor, names in zip(largest, search(largest, limit=1, thread=caller).names, strict=True):
            if names and names[0].exact and len(names[0].path) <= LONGEST:
                self._claim(tensor, None, names[0].path)

    def _of_model(self, model: torch.nn.Module, prefix: str) -> None:
        with no_torch_function():
            for name, tensor in named_tensors(model, prefix):
                self._modules.setdefault(id(tensor), name.rpartition(".")[0])
                self._parameter(tensor, name)

    def _of_optimizer(self, optimizer: torch.optim.Optimizer, *, stepped_alone: bool = False) -> None:
        """Some step one parameter after the other; and each call made here is an event of the profiler's."""
        seen = {id(group) for group in optimizer.param_groups}  # which some keep in the state of each parameter
        with no_torch_function():
            for number, group in enumerate(optimizer.param_groups):
                for position, parameter in enumerate(group["params"]):
                    if stepped_alone and (not parameter.is_leaf or parameter.grad is None):
                        continue
                    name = self._parameter(parameter, f"group {number}, parameter {position}")
                    self._of_state(optimizer.state.get(parameter), name, parameter, seen)

    def _of_state(self, state: object, name: str, parameter: torch.Tensor, seen: set[int]) -> None:
        seen.add(id(state))
        for key, value in state.items() if isinstance(state, dict) else ():
            for tensor in tensors_of(value, seen):
                self._claim(tensor, "optimizer state", f"{key} of {name}", parameter)

    def _parameter(self, parameter: torch.Tensor, name: str) -> str:
        name = self._names.setdefault(id(parameter), name)
        self._claim(parameter, "parameters", name, parameter)
        gradient = parameter.grad if parameter.is_leaf else None
        if gradient is not None:
            self._claim(gradient, "gradients", f"{name}.grad", parameter)
        return name

    def _claim(self, tensor: torch.Tensor, kind: Kind | None, name: str, of: torch.Tensor | None = None) -> None:
        now, module = time.time_ns(), self._modules.get(id(of))
        for part in parts_of(tensor):
            if address := address_of(part):
                self.written.append(Claim(now, address, kind, name, module))

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.optimizer(optimizer)
        if not self._looked:
            self._looked = True
            self.variables()

    def _step_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.optimizer(optimizer)
