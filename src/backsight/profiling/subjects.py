"""Which modules and leaves a program has, and what it calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from backsight.naming import search
from backsight.tape import Models, is_leaf, modules_in, no_torch_function, registered
from backsight.tape.modules import ModelTree


class Place(NamedTuple):
    """A module: the name of its model, and its path in there. `weighs` says whether the model has parameters."""

    model: str
    path: str
    weighs: bool = True

    @property
    def full(self) -> str:
        """The path from the variable that holds the model."""
        return ".".join(filter(None, (self.model, self.path)))


class LeafName(NamedTuple):
    """What a leaf is called, tied ones several times, and the module that owns it."""

    names: tuple[str, ...]
    place: Place | None = None


@dataclass(frozen=True)
class Subjects:
    """Modules with their places, and leaves with their names."""

    modules: tuple[tuple[torch.nn.Module, Place], ...]
    leaves: tuple[tuple[torch.Tensor, LeafName], ...]

    @classmethod
    def of(cls, models: Mapping[str, torch.nn.Module]) -> Subjects:
        """Return the modules in `models` and their parameters."""
        modules: list[tuple[torch.nn.Module, Place]] = []
        leaves: dict[int, tuple[torch.Tensor, LeafName]] = {}
        for name, model in models.items():
            inside = list(modules_in(model))
            weighs = any(True for _, module in inside for _ in _parameters(module))
            for path, module in inside:
                place = Place(name, path, weighs)
                modules.append((module, place))
                for key, parameter in _parameters(module):
                    held = leaves.get(id(parameter), (parameter, LeafName((), place)))[1]
                    names = (*held.names, f"{place.full}.{key}")
                    leaves[id(parameter)] = parameter, LeafName(names, held.place)
        return cls(tuple(modules), tuple(leaves.values()))


def found(model: Models) -> Subjects:
    """Return the modules of `model`, or all that the caller's variables lead to, and the leaves around.

    Raises:
        TypeError: if `model` is neither a module nor a dict of modules by name.
    """
    ModelTree.of(model)  # says what is wrong with it
    given = [] if model is None else [model] if isinstance(model, torch.nn.Module) else list(model.values())
    seen = search(given, collect=(torch.nn.Module, torch.Tensor))
    if isinstance(model, torch.nn.Module):
        models = {seen.names[0][0].path if seen.names[0] else "": model}
    elif model is not None:
        models = dict(model)
    else:
        models = _outermost([(m, name.path) for m, name in seen.found if isinstance(m, torch.nn.Module)])
    subjects = Subjects.of(models)
    known = {id(leaf) for leaf, _ in subjects.leaves}
    others = [
        (tensor, LeafName((name.path,)))
        for tensor, name in seen.found
        if isinstance(tensor, torch.Tensor) and id(tensor) not in known and _is_leaf(tensor)
    ]
    return Subjects(subjects.modules, (*subjects.leaves, *others))


def _outermost(modules: list[tuple[torch.nn.Module, str]]) -> dict[str, torch.nn.Module]:
    """Return the modules that are in no other, by name, nearest to the caller first."""
    inner = {id(child) for module, _ in modules for path, child in modules_in(module) if path}
    models: dict[str, torch.nn.Module] = {}
    for module, name in modules:
        if id(module) not in inner:
            taken = sum(other == name or other.startswith(f"{name} #") for other in models)
            models[f"{name} #{taken + 1}" if taken else name] = module
    return models


def _parameters(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in registered(module, "_parameters").items():
        if isinstance(parameter, torch.Tensor):
            yield name, parameter


def _is_leaf(tensor: torch.Tensor) -> bool:
    with no_torch_function():
        return is_leaf(tensor)
