"""What the loss was computed from, and whether any of it requires grad."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from backsight.source import Place, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.body import dotted
from backsight.source.leaf_last import asks_for_gradient
from backsight.story.failure import Failure
from backsight.story.memory import is_module
from backsight.story.sections import Section, sections
from backsight.tape import parameters_in


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor that a variable holds: its name, and the statement that made it, where that is in the same function."""

    name: str
    tensor: torch.Tensor
    made: Place | None


@dataclass(frozen=True, eq=False)
class Sources:
    """The modules that were called on the way to the loss, by name, and the tensors with real numbers that went in."""

    modules: dict[str, torch.nn.Module]
    tensors: tuple[Source, ...]

    @property
    def parameters(self) -> list[torch.Tensor]:
        return list({id(p): p for module in self.modules.values() for p in parameters_in(module)}.values())

    @property
    def are_frozen(self) -> bool:
        """Whether there are parameters, and none of them requires grad."""
        found = self.parameters
        return bool(found) and not any(each.requires_grad for each in found)

    @property
    def require_grad(self) -> bool:
        return any(each.requires_grad for each in (*self.parameters, *(source.tensor for source in self.tensors)))


def sources(failure: Failure) -> Sources:
    """Find what the loss was computed from, as far as the names in the text lead."""
    modules: dict[str, torch.nn.Module] = {}
    tensors: dict[int, Source] = {}
    for section in sections(failure):
        for call, _ in section.calls():
            name = dotted(call.func)
            value = section.value(name) if name else None
            if name and is_module(value) and not any(value is each for each in modules.values()):
                modules[name] = value
        for source in _tensors(section):
            tensors.setdefault(id(source.tensor), source)
    return Sources(_outermost(modules), tuple(tensors.values()))


def _tensors(section: Section) -> list[Source]:
    found = []
    for goal, line in section.goals:
        for name, ancestor in ancestors(section.body, goal, line).items():
            tensor = section.value(name)
            if isinstance(tensor, torch.Tensor) and tensor.is_leaf and tensor.is_floating_point() and tensor.numel():
                found.append(Source(name, tensor, _maker(section, tensor, ancestor)))
    return [each for each in found if not any(each.name == goal for goal, _ in section.goals)]


def _maker(section: Section, tensor: torch.Tensor, ancestor: Ancestor) -> Place | None:
    """The nearest statement that may have made a tensor: none that asks for a gradient made one without."""
    for place in ancestor.bound:
        statement = statement_at(section.body, *place.position)
        if statement is not None and (tensor.requires_grad or not asks_for_gradient(statement)):
            return place
    return None


def _outermost(modules: dict[str, torch.nn.Module]) -> dict[str, torch.nn.Module]:
    """Leave out modules whose parameters are all in one that was called before."""
    kept: dict[str, torch.nn.Module] = {}
    seen: set[int] = set()
    for name, module in modules.items():
        own = {id(p) for p in parameters_in(module)}
        if own - seen:
            kept[name] = module
            seen |= own
    return kept
