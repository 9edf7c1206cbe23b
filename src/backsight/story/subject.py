"""The tensor that a story is about: which operation saved it, what holds its memory, and which modules are around."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.naming import search
from backsight.snapshot import Survey
from backsight.story.failure import Failure, follow
from backsight.story.memory import base_of, is_module, storage_of
from backsight.tape import Leaf, Node, Saved, parameters_in, tensors_in

_RESULT = re.compile(r"(result|output)\d*")
_SMALL = 1000


@dataclass(frozen=True, eq=False)
class Subject:
    """A tensor that `node` had saved when the failure came, and what stands around it.

    writer: the operation that made it, or changed it last, if PyTorch's message names one.
    """

    failure: Failure
    survey: Survey
    node: Node
    saved: Saved
    writer: str = ""

    @property
    def is_result(self) -> bool:
        """Whether the operation saved its own result, not one of its inputs."""
        return bool(_RESULT.fullmatch(self.saved.name))

    @property
    def module(self) -> str:
        """The module whose forward saved it, `model.1`; empty where that is not known."""
        path, models = self.node.module, list(self.survey.models)
        if not path or path.startswith("("):
            return ""
        return f"{models[0]}.{path}" if len(models) == 1 else path

    @property
    def modules(self) -> tuple[object, ...]:
        """The module that saved the tensor and those around it, innermost first; none where that is not known."""
        whole = self.module
        held_as = max((each for each in self.survey.models if f"{whole}.".startswith(f"{each}.")), key=len, default="")
        chain: list[object] = [self.survey.models.get(held_as)]
        for name in filter(None, whole[len(held_as) :].split(".")):
            chain.append(follow(chain[-1], [name]))
        return tuple(each for each in reversed(chain) if each is not None)

    @cached_property
    def leaf(self) -> Leaf | None:
        """The leaf that was saved, itself or a view of it."""
        storage = self.saved.storage
        return next((leaf for leaf in self.survey.graph.leaves if storage and leaf.storage == storage), None)

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer that holds the weight which was saved."""
        owner = self.leaf.owner if self.leaf else None
        return self.survey.optimizers.get(owner) if owner else None

    @cached_property
    def is_weight(self) -> bool:
        """Whether the memory is a leaf's, or a parameter's that is frozen."""
        held = search((), frames=self.failure.frames, collect=(torch.nn.Parameter,)).found if self.leaf is None else ()
        return self.leaf is not None or any(self.is_held_by(each) for each, _ in held)

    @cached_property
    def holder(self) -> str:
        """The best name of a variable that still holds this memory; empty if none does."""
        if self.leaf and self.leaf.name:
            return self.leaf.name
        return self._held[0]

    @property
    def is_held_in_part(self) -> bool:
        """Whether `holder` is a view of the memory, such as a result that was taken from it later."""
        return not (self.leaf and self.leaf.name) and self._held[1]

    @cached_property
    def _held(self) -> tuple[str, bool]:
        tensor = self.saved.tensor()
        known = self.survey.saved_names.get(id(tensor)) if tensor is not None else None
        if known:
            return known, False
        found = search((), frames=self.failure.frames, collect=(torch.Tensor,)).found
        held = next(((name.path, t) for t, name in found if self.is_held_by(t)), ("", None))
        return held[0], base_of(held[1]) is not None

    @property
    def times(self) -> int:
        """How often it was changed since it was saved."""
        return (self.saved.version or 0) - (self.saved.expected or 0)

    def is_held_by(self, value: object) -> bool:
        """Whether `value` is a tensor over the very memory that was saved, or a small container of one."""
        if self.saved.storage is None:
            return False
        return storage_of(value) == self.saved.storage or self.in_container(value)

    def in_container(self, value: object) -> bool:
        """Whether `value` is a list, tuple or dict, not a large one, with a tensor over this memory."""
        small = type(value) in (list, tuple, dict) and len(value) <= _SMALL  # type: ignore[arg-type]  # a container
        return small and any(storage_of(each) == self.saved.storage for each in tensors_in(value))

    def is_owned_by(self, module: object) -> bool:
        """Whether the weight that was saved is a parameter of `module`, or of one inside of it."""
        weight = self.leaf.tensor() if self.leaf else None
        return weight is not None and is_module(module) and any(held is weight for held in parameters_in(module))
