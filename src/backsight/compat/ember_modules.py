"""The modules of a model under torchEmber's names, and what is taken of each."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from backsight.compat.ember_rows import Row
from backsight.recording import is_uninitialized, registered
from backsight.recording.nested import Arguments, arguments_of, tensors_in

Found = tuple[str, str, torch.Tensor]
"""A kind of row, the name in the module, and the tensor."""


class Recording(Protocol):
    """What modules report to."""

    def idle(self) -> bool:
        """Whether calls are none of the training's."""
        ...

    def entered(self, module: Watched) -> None: ...

    def record(self, module: Watched, found: list[Found]) -> None: ...

    def wants_weights(self) -> bool:
        """Whether weights and gradients are taken when a module is called."""
        ...

    def left(self, module: Watched) -> None: ...


class Watched:
    """One module: its hooks, its weights and its gradients.

    Attributes:
        name: such as `model(AlexNet).features(Sequential).0(Conv2d)`.
        root: whether it is the model itself.
    """

    def __init__(self, module: torch.nn.Module, name: str, root: bool):
        self.name = name
        self.root = root
        self.module = weakref.ref(module)
        self.recording: Recording | None = None
        self._arguments: tuple[type, Arguments] | None = None

    def enter(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Before a call: take what the module is given."""
        recording = self.recording
        if recording is None or recording.idle():
            return
        recording.entered(self)
        if self._arguments is None or self._arguments[0] is not type(module):  # a lazy module changes its type
            self._arguments = type(module), arguments_of(module)
        names = self._arguments[1]
        given = [*((names.name(position), value) for position, value in enumerate(args)), *kwargs.items()]
        recording.record(
            self, [("input", path, tensor) for name, value in given for path, tensor in tensors_in(value, name)]
        )

    def leave(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """After a call: take the weights, their gradients, and what the module returns."""
        recording = self.recording
        if recording is None or recording.idle():
            return
        if recording.wants_weights():
            recording.record(self, self.weights(gradients=True))
        outputs = output if issubclass(type(output), (tuple, list)) else (output,)
        recording.record(
            self,
            [
                ("output", path, tensor)
                for number, value in enumerate(outputs)
                for path, tensor in tensors_in(value, f"output_{number}")
            ],
        )
        recording.left(self)

    def weights(self, *, values: bool = True, gradients: bool = False) -> list[Found]:
        """Return the parameters of the module itself, each followed by its gradient if it has one."""
        module = self.module()
        held = {} if module is None else registered(module, "_parameters")
        found: list[Found] = []
        for number, parameter in enumerate(each for each in held.values() if each is not None):
            if is_uninitialized(parameter):
                continue
            if values:
                found.append(("weight", f"weight_{number}", parameter))
            # The gradient of what is no leaf, as under functional_call, is not there to be asked for.
            if gradients and parameter.is_leaf and parameter.grad is not None:
                found.append(("weight_grad", f"grad_{number}", parameter.grad))
        return found


def survey(model: torch.nn.Module) -> tuple[Row, list[Watched]]:
    """Return the modules as they are nested, and each of them once, by its first name, outer ones first.

    A module that is met again stands in the tree without children.
    """
    tree: Row = {}
    watched: list[Watched] = []
    seen: set[int] = set()
    stack: list[tuple[torch.nn.Module, str, str, Row]] = [(model, "", "model", tree)]
    while stack:
        module, above, key, node = stack.pop()
        short = f"{key}({type(module).__name__})"
        name = f"{above}.{short}" if above else short
        node.update(name=name, short=short)
        if id(module) in seen:
            continue
        seen.add(id(module))
        watched.append(Watched(module, name, module is model))
        inner = [
            (child, name, key, Row()) for key, child in registered(module, "_modules").items() if child is not None
        ]
        if inner:
            node["children"] = [node for *_, node in inner]
        stack.extend(reversed(inner))
    return tree, watched
