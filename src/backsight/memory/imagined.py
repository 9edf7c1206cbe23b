"""Copies of models, optimizers, batches and functions in which every tensor is a fake one: sizes, and no memory.

    with FakeTensorMode() as mode:
        model, optimizer = Imagination(mode).copy((model, optimizer))

Containers and the user's objects are copied too, so that what a step appends to them does not land with the user;
values that hold no tensor are shared. A function is copied with the closure and the globals of its module that it uses,
which is what lets a training step run on copies of the very objects that it names.

Gradient release is attached anew to the copy of its optimizer; the hooks of a recording, or of whatever else of ours is
attached, are left out. Not copied: iterators, hooks on tensors other than those after accumulation, and what lives only
in C++. Every fake tensor is on the CPU, wherever the original is: a backward pass over fake CUDA tensors ends the
process in a build of PyTorch without CUDA (github.com/pytorch/pytorch/issues/92627).
"""

from __future__ import annotations

import copy
import re
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from backsight.gradient_release import Release
from backsight.gradient_release.placeholder import Placeholder
from backsight.memory._torch import FakeTensor, forget_fakes, without_modes
from backsight.tape import no_torch_function

_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type, ModuleType, Enum, BuiltinFunctionType)
_NOT_ENTERED = {
    "backsight",
    "numpy",
    "pandas",
    "logging",
    "threading",
    "multiprocessing",
    "rich",
    "tqdm",
    "wandb",
    "_pytest",
}
_HOOKS = re.compile(r"_.*_hooks").fullmatch
"""The attributes in which modules and optimizers keep their hooks."""

T = TypeVar("T")


class Imagination:
    """Copies with fake tensors of one FakeTensorMode; what is reached twice, in several calls too, is copied once."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._copies: dict[int, Any] = {}
        self._originals: list[Any] = []  # ids are those of live objects only

    def copy(self, value: Any) -> Any:
        """Return the copy of a value, or the value itself where it is none that could hold a tensor."""
        copied = self._copy(value)
        forget_fakes(self._mode)
        return copied

    def made(self, kind: type[T]) -> tuple[T, ...]:
        """Return the copies of one kind that were made, each once."""
        return tuple({id(each): each for each in self._copies.values() if isinstance(each, kind)}.values())

    def _copy(self, value: Any) -> Any:
        if isinstance(value, _ATOMS):
            return value
        known = self._copies.get(id(value))
        return self._copied(value) if known is None else known

    def _copied(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, Release):
            return self._release(value)
        if isinstance(value, DataLoader):
            return self._remember(value, FewBatches(value, self.copy))
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, (list, set, deque)):
            return self._collection(value)
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return MethodType(self._copy(value.__func__), self._copy(value.__self__))
        if isinstance(value, partial):
            return partial(self._copy(value.func), *map(self._copy, value.args), **self._copy(value.keywords))
        if isinstance(value, weakref.ref):
            target = value()
            return value if target is None else weakref.ref(self._copy(target))
        return self._instance(value) if _entered(value) else value

    def _remember(self, value: Any, copied: Any) -> Any:
        self._originals.append(value)
        self._copies[id(value)] = copied
        return copied

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        fake: torch.Tensor = self._remember(tensor, self._fake(tensor))
        if tensor.is_leaf and type(tensor.grad) is Placeholder:
            fake.grad = None  # it holds no memory, and its copy would
        hooks: Any = tensor._post_accumulate_grad_hooks  # None, or a dict
        register: Any = fake.register_post_accumulate_grad_hook
        for hook in list((hooks or {}).values()):
            if not _is_ours(hook):
                register(self._copy(hook))
        return fake

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a fake tensor; a counter on the CPU keeps its value, as optimizers read those (`step.item()`)."""
        if tensor.device.type != "cpu" or isinstance(tensor, FakeTensor):
            return _like(tensor)
        counter = tensor.dim() == 0 and not tensor.requires_grad and tensor.untyped_storage().nbytes() <= 8
        if counter and type(tensor) is torch.Tensor:
            with without_modes():
                value = tensor.item()
            return torch.tensor(value, dtype=tensor.dtype)  # a fake one that knows its value
        with no_torch_function():  # it asks each tensor for thirty things, and the modes of a forecast heed none
            fake: torch.Tensor = self._mode.from_tensor(tensor, static_shapes=True)
        return fake

    def _mapping(self, value: dict[Any, Any]) -> Any:
        copied = self._remember(value, copy.copy(value))
        items = list(value.items())
        copied.clear()
        for key, item in items:
            copied[self._copy(key)] = self._copy(item)
        return copied

    def _collection(self, value: Any) -> Any:
        copied = self._remember(value, copy.copy(value))
        items = [self._copy(item) for item in value]
        copied.clear()
        copied.update(items) if isinstance(copied, set) else copied.extend(items)
        return copied

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        items = [self._copy(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        made = getattr(type(value), "_make", None)  # a named tuple
        copied: tuple[Any, ...] = made(items) if made else tuple(items)
        return copied

    def _release(self, attached: Release) -> Any:
        """Attach gradient release to the copy of an optimizer, as it is attached to the original."""
        optimizer = self._copy(attached.optimizer)  # may have come here again, by its hooks
        if id(attached) in self._copies:
            return self._copies[id(attached)]
        copied = self._remember(attached, Release(optimizer, attached.bucket, attached.evidence))
        if attached.clipping is not None:
            bound = attached.clipping.bound
            copied.clip(bound.max_norm, bound.norm_type, attached.clipping.method, bound.error_if_nonfinite)
        return copied

    def _hooks(self, hooks: dict[Any, Any], copied: dict[Any, Any]) -> None:
        """Copy the hooks of a module or optimizer, without ours."""
        for key, hook in list(hooks.items()):
            if isinstance(getattr(hook, "__self__", None), Release):
                self._copy(hook.__self__)
            elif not _is_ours(hook):
                copied[key] = self._copy(hook)

    def _instance(self, value: Any) -> Any:
        """Copy an object by its attributes, without its own `__init__`, `__copy__` or `__getattr__`."""
        attributes = object.__getattribute__(value, "__dict__")
        try:
            copied = object.__new__(type(value))
        except TypeError:  # its memory is laid out in C
            return value
        self._remember(value, copied)
        hooked = isinstance(value, (nn.Module, Optimizer))
        hooks = {name for name, each in attributes.items() if hooked and _HOOKS(name) and isinstance(each, dict)}
        for name, attribute in list(attributes.items()):
            copied.__dict__[name] = OrderedDict() if name in hooks else self._copy(attribute)
        for name in hooks:  # at last, as to attach anew takes a whole optimizer
            self._hooks(attributes[name], copied.__dict__[name])
        return copied

    def _function(self, function: FunctionType) -> FunctionType:
        """Copy a function with what it closes over and the globals that it uses, if any of it was copied."""
        used = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
        if not _entered(function):
            used = {}
        if not used and not function.__closure__ and not function.__defaults__ and not function.__kwdefaults__:
            return function
        scope = self._copies.get(id(function.__globals__))
        if scope is None:
            scope = self._remember(function.__globals__, dict(function.__globals__)) if used else function.__globals__
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copied = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells or None)
        self._remember(function, copied)
        for name, value in used.items():
            scope[name] = self._copy(value)
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self._copy(original.cell_contents)
            except ValueError:  # the variable has no value yet
                pass
        copied.__defaults__ = self._copy(function.__defaults__)
        copied.__kwdefaults__ = self._copy(function.__kwdefaults__)
        copied.__dict__.update(function.__dict__)
        copied.__qualname__, copied.__module__ = function.__qualname__, function.__module__
        return copied


def _entered(value: Any) -> bool:
    """Whether the attributes or globals of a value are looked into: those of the user's code and of PyTorch's are."""
    kind = value if isinstance(value, FunctionType) else type(value)
    room = str(kind.__module__).partition(".")[0]
    if str(kind.__module__).startswith("torch.utils.data"):  # read as it is: its tensors turn into fake ones
        return False
    if (room in sys.stdlib_module_names and room != "__main__") or room in _NOT_ENTERED:
        return False
    if isinstance(value, FunctionType):
        return room != "torch"
    return type(getattr(value, "__dict__", None)) is dict and not isinstance(value, (torch.dtype, torch.device))


def _is_ours(hook: Any) -> bool:
    """Whether something of backsight has put a hook there."""
    owner = getattr(hook, "__self__", hook)
    kind = owner if isinstance(owner, FunctionType) else type(owner)
    return str(kind.__module__).partition(".")[0] == "backsight"


def _names(code: CodeType) -> Iterable[str]:
    """Return the names of globals that a function, and those written in it, may use."""
    codes, names = [code], dict[str, None]()
    while codes:
        each = codes.pop()
        names.update(dict.fromkeys(each.co_names))
        codes += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return names


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake tensor on the CPU for one that is elsewhere, on meta, or of another fake mode."""
    fake = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake.requires_grad_(tensor.requires_grad)


BATCHES = 2
"""As many as steps are done: a forecast is of a step, and not of an epoch."""


class FewBatches:
    """The first batches of a loader, read for real and then imagined; it has the length of the loader."""

    def __init__(self, loader: Any, imagine: Callable[[Any], Any]) -> None:
        self._loader = loader
        self._imagine = imagine

    def __iter__(self) -> Iterator[Any]:
        with without_modes():
            batches = list(islice(iter(self._loader), BATCHES))
        yield from map(self._imagine, batches)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
