"""One saved tensor that was changed: which operation saved it, who holds it, and what PyTorch's message says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from backsight.diagnosis.evidence.failure import Failure, follow
from backsight.diagnosis.evidence.memory import is_module, storage_of
from backsight.diagnosis.wording import shaped
from backsight.naming import search
from backsight.snapshot import Survey
from backsight.tape import ENGINE_CALLS, Leaf, Node, Saved, parameters_in, tensors_in
from backsight.tape.ops import op_name

_DETAILS = re.compile(
    r"\[\S+ (?:\[(?P<shape>[\d, ]*)\]|.*?)\](?:, which is output \d+ of (?P<op>[^,]+),)? "
    r"is at version (?P<version>\d+); expected version (?P<expected>\d+)",
    re.DOTALL,
)
"""A nested tensor has a table in place of its shape, over several lines; an operation of C++ may have a namespace."""
_SMALL = 1000
_RESULT = re.compile(r"(result|output)\d*")


@dataclass(frozen=True)
class Said:
    """What the message tells of the tensor: `writer` is the operation that made it, or changed it last.

    shape: None for a nested tensor, which has none.
    """

    shape: tuple[int, ...] | None
    version: int
    expected: int
    writer: str


@dataclass(frozen=True, eq=False)
class Case:
    """What the explanations of a modified saved tensor look at."""

    failure: Failure
    survey: Survey
    node: Node
    saved: Saved

    @property
    def is_result(self) -> bool:
        """Whether the operation saved its own result, not one of its inputs."""
        return bool(_RESULT.fullmatch(self.saved.name))

    @property
    def operation(self) -> str:
        """The operation that saved the tensor, as a person would write it: `sigmoid`."""
        return self.node.op if self.node.kind == "custom" else self.node.op.lower()

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

    @cached_property
    def holder(self) -> str:
        """The best name of a variable that still holds this memory; empty if none does."""
        if self.leaf and self.leaf.name:
            return self.leaf.name
        tensor = self.saved.tensor()
        known = self.survey.saved_names.get(id(tensor)) if tensor is not None else None
        if known:
            return known
        found = search((), frames=self.failure.frames, collect=(torch.Tensor,)).found
        return next((name.path for t, name in found if self.is_held_by(t)), "")

    @property
    def description(self) -> str:
        """`a tensor of shape 3×4`, for one without a name."""
        return f"a tensor of shape {shaped(self.saved.shape)}" if self.saved.shape else "a scalar"

    @property
    def changes(self) -> int:
        """How often it was changed since it was saved."""
        return (self.saved.version or 0) - (self.saved.expected or 0)

    @property
    def since(self) -> str:
        """`it was changed once since (version 0 then, 1 now)`."""
        times = {1: "once", 2: "twice"}.get(self.changes, f"{self.changes} times")
        return f"it was modified {times} since (version {self.saved.expected} → {self.saved.version})"

    def is_held_by(self, value: object) -> bool:
        """Whether `value` is a tensor over the very memory that was saved, or a small container of one."""
        if self.saved.storage is None:
            return False
        return storage_of(value) == self.saved.storage or self.in_container(value)

    def in_container(self, value: object) -> bool:
        """Whether `value` is a list, tuple or dict, not a large one, with a tensor over this memory."""
        small = type(value) in (list, tuple, dict) and len(value) <= _SMALL  # type: ignore[arg-type]  # a container
        return small and any(storage_of(each) == self.saved.storage for each in tensors_in(value))


def owns(module: object, weight: object) -> bool:
    """Whether `weight` is a parameter of `module`, or of one inside of it."""
    return is_module(module) and any(held is weight for held in parameters_in(module))


def said_by(message: str) -> Said | None:
    """Read PyTorch's message."""
    found = _DETAILS.search(message)
    if found is None:
        return None
    sizes = found["shape"]
    shape = None if sizes is None else tuple(int(size) for size in sizes.split(",") if size.strip())
    writer = op_name((found["op"] or "").rpartition("::")[2])
    return Said(shape, int(found["version"]), int(found["expected"]), writer)


def at_engine(failure: Failure) -> Failure:
    """Return the failure as seen from the call that started the engine.

    A custom Function's backward raises in the user's own code, inside the engine; the graph is that of the call
    around it.
    """
    if failure.roots:
        return failure
    for k, level in enumerate(failure.levels):
        if level.frame.f_code in ENGINE_CALLS:
            roots = tuple(tensors_in(level.variables.get(ENGINE_CALLS[level.frame.f_code][1])))
            outside = {id(each.frame) for each in failure.levels[:k]}
            users = tuple(each for each in failure.users if id(each.frame) in outside)
            return replace(failure, roots=roots, users=users, call="backward")
    return failure


def modified(survey: Survey, said: Said | None) -> tuple[Node, Saved] | None:
    """Return the operation that failed, and the saved tensor that it failed for: the first that fits the message."""
    found = [
        (survey.graph.nodes[i], saved)
        for i in sorted(survey.graph.saved)
        for saved in survey.graph.saved[i]
        if saved.state == "modified"
    ]
    return next(((node, saved) for node, saved in found if said and _fits(saved, said)), next(iter(found), None))


def _fits(saved: Saved, said: Said) -> bool:
    wanted: Sequence[object] = (said.shape, said.version, said.expected)
    return [saved.shape, saved.version, saved.expected] == list(wanted)
