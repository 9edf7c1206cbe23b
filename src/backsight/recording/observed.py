"""The models that are recorded: the names of their modules, and of what these hold."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

from backsight.recording._torch import COMPILED, is_uninitialized, registered
from backsight.recording.held import HeldPlace, parameters_of, unowned
from backsight.tape import version

Models = torch.nn.Module | Mapping[str, torch.nn.Module]


@dataclass(frozen=True)
class Place:
    """A parameter or buffer by where it is registered.

    The tensor is looked up when it is needed: so a replaced one is found, and none is kept alive. (A weak reference to
    a parameter would make `torch.utils.swap_tensors` refuse, and with it some calls of `model.to`.)
    """

    module: weakref.ref[torch.nn.Module]
    table: str
    key: str
    name: str
    owner: str
    """The name of the module."""

    def tensor(self) -> torch.Tensor | None:
        """Return the tensor, or None if there is none now, or one without a shape as yet."""
        module = self.module()
        held = None if module is None else registered(module, self.table).get(self.key)
        return None if held is None or (type(held) is not torch.nn.Parameter and is_uninitialized(held)) else held

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor is the one in this place."""
        module = self.module()
        return module is not None and registered(module, self.table).get(self.key) is tensor


@dataclass(frozen=True)
class Observed:
    """The models by name, of which a single one needs none; and what optimizers hold beside them."""

    models: Mapping[str, weakref.ref[torch.nn.Module]]
    held: list[HeldPlace] = field(default_factory=list)
    """What optimizers hold and no module of the models owns."""
    whole_program: bool = False
    """Whether every optimizer there is counts, and not only those that hold a parameter of the models."""

    def adopt(self, optimizer: torch.optim.Optimizer) -> bool:
        """Observe what this optimizer holds and no module owns; return whether there is any."""
        parameters = self.parameters()
        owned = parameters.keys() & parameters_of(optimizer)
        new = list(unowned(optimizer, owned, {place.name for place in parameters.values()}))
        self.held.extend(new)
        return bool(new)

    def gone(self) -> bool:
        """Whether none of the models is there any more. To be asked now and then: see Note [No Python when something
        dies] in tape/living.py."""
        return not self.whole_program and all(reference() is None for reference in self.models.values())

    def modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yield each module once, by its first name, outer ones first."""
        seen: set[int] = set()
        for prefix, reference in self.models.items():
            if (model := reference()) is not None:
                for name, module in _walk(model, prefix, self.models):
                    if id(module) not in seen:
                        seen.add(id(module))
                        yield name, module

    def places(self, table: str) -> Iterator[Place | HeldPlace]:
        """Yield where each parameter or buffer is registered, by its first name; those without a shape too.

        After the parameters come the tensors that only an optimizer holds.
        """
        seen: set[int] = set()
        for name, module in self.modules():
            for key, tensor in registered(module, table).items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield Place(weakref.ref(module), table, key, joined(name, key), name)
        for place in self.held if table == "_parameters" else ():
            if (tensor := place.tensor()) is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield place

    def parameters(self) -> dict[int, Place | HeldPlace]:
        """Return the places of the parameters by id; an id may pass to another tensor: see `Place.holds`."""
        return {id(p): place for place in self.places("_parameters") if (p := place.tensor()) is not None}

    def written(self, versions: Mapping[int, int | None]) -> bool:
        """Whether something has been written to one of these parameters, by id, since it had this version."""
        known = self.parameters()
        tensors = [(known[key].tensor(), then) for key, then in list(versions.items()) if key in known]
        return any(tensor is not None and version(tensor) != then for tensor, then in tensors)

    def unfinished(self) -> bool:
        """Whether a lazy module has yet to get its parameters."""
        return any(place.tensor() is None for table in ("_parameters", "_buffers") for place in self.places(table))

    def has_ddp(self) -> bool:
        """Whether one of the models is a DistributedDataParallel."""
        ddp = torch.nn.parallel.DistributedDataParallel
        return any(issubclass(type(reference()), ddp) for reference in self.models.values())

    def tree(self) -> list[dict[str, Any]]:
        """Return the modules as plain data, as they are nested."""
        found = []
        for name, reference in self.models.items():
            if (model := reference()) is not None:
                found.append(_branch(model, name))
        return found


class Form:
    """What observed models were made of when they were looked at: to tell cheaply whether they are still the same."""

    def __init__(self, observed: Observed):
        found = list(observed.modules())
        self._modules = {name: weakref.ref(module) for name, module in found}
        self._parameters = {
            joined(name, key): (id(tensor), tensor.requires_grad)
            for name, module in found
            for key, tensor in registered(module, "_parameters").items()
            if tensor is not None
        }
        self._forms = [(weakref.ref(module), _form(module)) for _, module in found]

    def changed(self) -> bool:
        """Whether a module, parameter or buffer has come, gone or been replaced, or was frozen or unfrozen."""
        return any((module := held()) is None or _form(module) != form for held, form in self._forms)

    def since(self, before: Form) -> dict[str, Any]:
        """Return what has changed: the modules that came and went, of which a replaced one did both, and parameters."""
        now, then = self._parameters, before._parameters
        new, old = self._modules, before._modules
        same = {name for name in new.keys() & old.keys() if new[name]() is old[name]()}
        return {
            "came": sorted(new.keys() - same),
            "went": sorted(old.keys() - same),
            "parameters": sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name)),
        }


def _form(module: torch.nn.Module) -> list[Any]:
    """Return what tells which modules and parameters this module has itself, and how many buffers.

    Which buffers would tell too much: many modules replace them at every step.
    """
    parameters = registered(module, "_parameters").values()
    return [
        *map(id, registered(module, "_modules").values()),
        *[(id(each), each is not None and each.requires_grad) for each in parameters],
        sum(each is not None for each in registered(module, "_buffers").values()),
    ]


def observed(model: Any) -> Observed:
    """Return what is to be recorded.

    Raises:
        TypeError: if it is neither a module nor modules by name.
        ValueError: if two modules would have one name.
    """
    if issubclass(type(model), torch.nn.Module):
        return Observed({"": weakref.ref(model)})
    if not isinstance(model, Mapping) or not model:
        raise TypeError(f"model must be a torch.nn.Module or a dict of them by name, not {type(model).__name__}.")
    for name, each in model.items():
        if not isinstance(name, str) or not name or not issubclass(type(each), torch.nn.Module):
            raise TypeError(f"model[{name!r}] must be a torch.nn.Module under a name, not {type(each).__name__}.")
        for inner, module in _walk(each, name):
            if inner != name and model.get(inner, module) is not module:
                raise ValueError(
                    f"two modules would be recorded as {inner!r}: model[{inner!r}] and one inside model[{name!r}]. "
                    "Rename one of them."
                )
    return Observed({name: weakref.ref(each) for name, each in model.items()})


def numbered(name: str, number: int) -> str:
    """Return what is recorded in place of a name that is taken, from the second on."""
    return name if number == 1 else f"{name} #{number}"


def joined(module: str, name: str) -> str:
    """Return the name of something inside of a module."""
    return f"{module}.{name}" if module else name


def _walk(
    model: torch.nn.Module, name: str, roots: Mapping[str, weakref.ref[torch.nn.Module]] = MappingProxyType({})
) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the module and all inside of it, outer ones first; `named_modules` could be overridden.

    One that came after the roots were named, and would have the name of another of them, is `name #2`.
    """
    stack = [(name, model, iter(registered(model, "_modules").items()))]
    above = {id(model)}
    yield name, model
    while stack:
        name, _, children = stack[-1]
        for key, child in children:
            if issubclass(type(child), torch.nn.Module) and id(child) not in above:
                above.add(id(child))
                inner = name if key == COMPILED else joined(name, key)
                if key != COMPILED and inner in roots and roots[inner]() not in (None, child):
                    inner = numbered(inner, 2)
                yield inner, child
                stack.append((inner, child, iter(registered(child, "_modules").items())))
                break
        else:
            stack.pop()


def _branch(model: torch.nn.Module, name: str) -> dict[str, Any]:
    """Return a module with its children; a module met again stands there by name only."""
    names: dict[int, str] = {}
    root: dict[str, Any] = {}
    stack: list[tuple[dict[str, Any], str, torch.nn.Module]] = [(root, name, model)]
    while stack:
        node, name, module = stack.pop()
        node.update(name=name, type=type(module).__name__)
        if (first := names.setdefault(id(module), name)) != name:
            node["same_as"] = first
            continue
        node["parameters"] = [
            _described(key, p) for key, p in registered(module, "_parameters").items() if p is not None
        ]
        children = [(key, child) for key, child in registered(module, "_modules").items() if child is not None]
        inner: list[dict[str, Any]] = [{} for _ in children]
        node["children"] = inner
        named = [(at, joined(name, key), child) for at, (key, child) in zip(inner, children, strict=True)]
        stack.extend(reversed(named))
    return root


def _described(key: str, parameter: torch.Tensor) -> dict[str, Any]:
    shape = None if is_uninitialized(parameter) else list(parameter.shape)
    return {
        "name": key,
        "shape": shape,
        "dtype": str(parameter.dtype).removeprefix("torch."),
        "requires_grad": parameter.requires_grad,
    }
