"""One backward without a history: what it was called on, and what there is to look at."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.evidence.spoken import called
from backsight.diagnosis.finding import Finding
from backsight.findings.evidence import evidence_of
from backsight.source import Place, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.source.leaf_last import asks_for_gradient
from backsight.story.cuts import CutOff, cuts, seen
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_module
from backsight.story.sections import Section, sections
from backsight.story.trained import Trained, trained
from backsight.tape import parameters_in
from backsight.tracing.steps import parameters


@dataclass(frozen=True, eq=False)
class Scene:
    """What the explanations of a missing history look at; each part is found when it is asked for."""

    failure: Failure
    root: torch.Tensor | None

    @cached_property
    def loss(self) -> str:
        """What the user's line calls it."""
        return (called(self.failure, self.root) if self.root is not None else "") or "the loss"

    @cached_property
    def trained(self) -> Trained:
        return trained(self.failure)

    @cached_property
    def stepped(self) -> list[torch.Tensor]:
        """The parameters in the optimizers that are stepped after the failing call, or else cleared before it."""
        found = ([p for each in _optimizers(level) for p in parameters(each)] for level in self.failure.users)
        return next((each for each in found if each), [])

    @cached_property
    def suspects(self) -> list[CutOff]:
        return cuts(self.failure, self.trained)

    @cached_property
    def seen(self) -> list[CutOff]:
        """What a watch has seen to cut the tensor off, the nearest first."""
        return self._seen[0]

    def saw(self, told: Finding | Place) -> bool:
        """Whether a watch has seen a history end at a place, or at one of those that a finding names."""
        places = [evidence_of(each).place for each in told.evidence] if isinstance(told, Finding) else [told]
        return any((place.file, place.line) in self._seen[1] for place in places if place is not None)

    @cached_property
    def _seen(self) -> tuple[list[CutOff], frozenset[tuple[str, int]]]:
        return seen(self.root)

    @cached_property
    def sources(self) -> Sources:
        return sources(self.failure)

    def title(self, because: str) -> str:
        loss = self.loss[0].upper() + self.loss[1:] if self.loss == "the loss" else self.loss
        return f"{loss} does not require grad: {because}."


def _optimizers(level: Level) -> list[torch.optim.Optimizer]:
    """The optimizers that a function steps below the failing line, as far as the next backward, those that it gives to
    a GradScaler too; if there are none, those that it clears above that line, from the last backward on."""
    every = list(statements(level.body))
    at = next((k for k, each in enumerate(every) if each is level.statement), len(every))
    after = (call for each in every[at + 1 :] for call in calls_in(each))
    before = (call for each in reversed(every[:at]) for call in calls_in(each))
    for calls, wanted in ((after, "step"), (before, "zero_grad")):
        near = itertools.takewhile(lambda call: callee(call)[1] != "backward", calls)
        nodes = (node for call in near if callee(call)[1] == wanted for node in (callee(call)[0], *call.args))
        found = [each for node in nodes if isinstance(each := value_of(level, node), torch.optim.Optimizer)]
        if found:
            return found
    return []


# What the loss was computed from, and whether any of it requires grad.


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
