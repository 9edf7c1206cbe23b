"""Every private attribute of PyTorch that the tape touches, each with what we need of it.

`tests/tape/test_private_surface.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from inspect import getattr_static
from operator import attrgetter, methodcaller
from types import CodeType
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch.autograd import forward_ad

from backsight.quiet import quietly
from backsight.surface import code_of, take, there

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

NO_SEQUENCE = 2**64 - 1
"""`_sequence_nr()` of AccumulateGrad: it is made once a leaf and stands outside the order of creation."""


def _no_number(node: Any) -> int:
    return NO_SEQUENCE if type(node).__name__ == "AccumulateGrad" else 0


sequence_number: Callable[[Any], int] = take(
    "torch.autograd.Function._sequence_nr",
    "lines of operations",
    without=_no_number,
    read=lambda _: methodcaller("_sequence_nr"),
)
"""Return the per-thread creation number of a node; sorting by it is a topological sort within a thread."""


no_torch_function: Callable[[], AbstractContextManager[Any]] = take(
    "torch._C.DisableTorchFunction", "tensor subclasses", without=nullcontext
)
"""Keep `__torch_function__` of tensor subclasses and modes from running while we look at tensors."""


def unseen(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """Let a function look at tensors without subclasses and modes of the program seeing it."""

    @wraps(function)
    def alone(*args: _Given.args, **keywords: _Given.kwargs) -> _Made:
        with no_torch_function():
            return function(*args, **keywords)

    return alone


_tracing_state: Callable[[], Any] = take("torch._C._get_tracing_state", "traced programs", without=lambda: None)


def is_jit_traced() -> bool:
    """Whether `torch.jit.trace` records what is computed now, and names it by the variables of the frames around."""
    return _tracing_state() is not None


_set_tracing_state: Callable[[Any], None] = take(
    "torch._C._set_tracing_state", "traced programs", without=lambda state: None
)


@contextmanager
def no_jit_trace() -> Iterator[None]:
    """Keep what we compute, and ask of shapes, from becoming part of what `torch.jit.trace` records."""
    state = _tracing_state()
    if state is None:
        yield
        return
    _set_tracing_state(None)
    try:
        yield
    finally:
        _set_tracing_state(state)


no_torch_dispatch: Callable[[], AbstractContextManager[Any]] = take(
    "torch._C._DisableTorchDispatch", "tensor subclasses", without=nullcontext
)
"""Keep `__torch_dispatch__` of modes, such as a counter of operations, from running while we compute.

That of a subclass does not run either, so only plain tensors may be computed with.
"""


grad_fn: Callable[[torch.Tensor], Any] = getattr_static(torch.Tensor, "grad_fn").__get__
"""Read `grad_fn` past whatever a subclass of `Tensor` defines under that name."""


_version: Callable[[torch.Tensor], int | None] = take(
    "torch.Tensor._version", "version counters", without=lambda _: None, read=attrgetter("__get__")
)

looks_into: Callable[[torch.Tensor], torch.Tensor | None] = take(
    "torch.Tensor._base", "version counters", without=lambda _: None, read=attrgetter("__get__")
)
"""Return the tensor that a view looks into, past whatever a subclass defines as `_base`; None of what is no view."""


def version(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was modified in place; None where that is not counted, as of inference tensors."""
    try:
        return _version(tensor)
    except RuntimeError:  # an inference tensor
        return None


def _keeps_its_wrapper() -> bool:
    """Whether a node of this PyTorch owns the Python object that stands for it, which then lives as long as the node.

    Before, that object dies with its last reference, and another node's may be made at the same address.
    """
    with no_torch_function(), torch.inference_mode(False), torch.enable_grad():
        made = torch.zeros((), device="cpu", requires_grad=True).exp()
    node, unowned = grad_fn(made), object()
    return sys.getrefcount(node) > sys.getrefcount(unowned)


def _id_of_metadata(node: Any) -> int:
    return id(node.metadata)


identity: Callable[[Any], int] = id if _keeps_its_wrapper() else _id_of_metadata
"""Return a number that no other node has while `node` lives: the address of what it owns in Python.

Where that is not its wrapper it is the dict of its `metadata`, which is made when it is first asked for.
"""


def is_mended(tensor: torch.Tensor) -> bool:
    """Whether autograd may mend the history of `tensor` when asked for it: a view of what was modified in place.

    That makes a new node, and of a view that a graph has saved it may close a circle in C++ which nothing frees. Even
    `is_leaf` asks. Source: torch/csrc/autograd/variable.cpp, `VariableHooks::grad_fn`.
    """
    base = looks_into(tensor)
    return base is not None and base.requires_grad and bool(version(tensor))


def made_by(tensor: torch.Tensor) -> Any:
    """Return the node that made a tensor; None for a leaf, and for a view whose history autograd would have to mend.

    To ask for that changes the graph, and raises where the view and the change were not under one mode.
    """
    return None if is_mended(tensor) else grad_fn(tensor)


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether `tensor` requires a gradient and nothing made it; a view of what was modified in place counts as made."""
    return tensor.requires_grad and not is_mended(tensor) and tensor.is_leaf


next_sequence_number: Callable[[], int] = take(
    "torch._C._autograd._get_sequence_nr", "lines of operations", without=lambda: 0
)
"""Return the number that the next node made in this thread will get; as it is, because it is called at every line."""


backward_number: Callable[[], int] = take("torch._C._current_graph_task_id", "calls of backward", without=lambda: -1)
"""Return the number of the backward pass that this thread is inside of, or -1. As it is: hooks ask it all the time."""


def in_backward() -> bool:
    """Whether this thread is inside of a backward pass."""
    return backward_number() != -1


def _engine_calls() -> Iterator[tuple[CodeType, tuple[EngineCall, str]]]:
    names: tuple[tuple[str, EngineCall, str], ...] = (
        ("torch.Tensor.backward", "backward", "self"),
        ("torch.autograd.backward", "backward", "tensors"),
        ("torch.autograd.grad", "grad", "outputs"),
    )
    for path, call, roots in names:
        code = take(path, "calls of backward", without=None, read=code_of)
        if code is not None:
            yield code, (call, roots)


EngineCall = Literal["backward", "grad"]

ENGINE_CALLS: dict[CodeType, tuple[EngineCall, str]] = dict(_engine_calls())
"""The functions through which people start the engine: what each is called, and the variable that holds the roots.
`Tensor.backward` calls the second."""

_described: bool = there("torch.autograd.Function._input_metadata", "shapes of results")


def input_metadata(node: Any) -> Any:
    """Return shape, dtype and device of each gradient that comes into `node`: those of the outputs it made."""
    return getattr(node, "_input_metadata", ()) if _described else ()


def leaf_dtype(leaf: torch.Tensor, otherwise: torch.dtype) -> torch.dtype | None:
    """Return the dtype in which `leaf` wants its gradient: `grad_dtype`, where PyTorch has it; None for any."""
    getter = getattr_static(torch.Tensor, "grad_dtype", None)
    return otherwise if getter is None else getter.__get__(leaf)


_forward_cls: bool = there("torch.autograd.Function._backward_cls._forward_cls", "custom functions")


def forward_class(node_type: type) -> type | None:
    """Return the user's `torch.autograd.Function` class behind the type of a custom node."""
    return getattr(node_type, "_forward_cls", None) if _forward_cls else None


def is_parameter(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is a Parameter or a custom tensor marked as one; `isinstance` would ask its `__getattr__`."""
    return issubclass(type(tensor), torch.nn.Parameter) or "_is_param" in object.__getattribute__(tensor, "__dict__")


_REGISTRIES = frozenset(
    name for name in ("_parameters", "_buffers", "_modules") if there(f"torch.nn.Module.{name}", "names from models")
)


def load_forward_mode() -> None:
    """Have PyTorch load what it needs for forward mode, once: that warns of `torch.jit.script`, which it uses itself,
    and the warning would be told as if it were for the user."""
    load = getattr(forward_ad, "_maybe_load_decompositions", None)
    if load is not None and "torch._decomp.decompositions_for_jvp" not in sys.modules:
        with quietly():
            load()


def registered(module: torch.nn.Module, registry: str) -> dict[str, object]:
    """Return a module's `_modules`, `_parameters` or `_buffers`, past whatever its class overrides.

    A module whose `__init__` never called that of `nn.Module` has none.
    """
    held: Any = object.__getattribute__(module, "__dict__").get(registry) if registry in _REGISTRIES else None
    return dict(dict.items(held)) if issubclass(type(held), dict) else {}


RAW: str = take(
    "torch._C._functions.ExpBackward0._raw_saved_result",
    "saved tensors",
    without="none of the names",
    read=lambda _: "_raw_saved_",
)
"""Prefix of the handles on saved tensors. `_saved_x` without `raw` runs unpack hooks: one read of it under
checkpointing re-ran the forward pass. The handle's `.data` and `.unpack_hook` run nothing."""

CHECKED = "_saved_"
"""Prefix of the getters that check the version. Only read where no hook is installed."""


raw_of_custom: Callable[[Any], Any] = take(
    "torch.autograd.Function._raw_saved_tensors",
    "saved tensors",
    without=lambda _: (),
    read=lambda _: attrgetter("_raw_saved_tensors"),
)
"""Return the handles on what the node of a custom Function saved. Raises RuntimeError once a backward has freed it."""

_READ = [there(f"torch._C._autograd.SavedTensor.{name}", "saved tensors") for name in ("data", "unpack_hook")]

unpacks_alone: bool = there("torch._C._autograd.SavedTensor.unpack", "one saved tensor of several")  # from 2.12 on
"""Whether one of several saved tensors can be unpacked, and so asked for its version, by itself."""


def can_read(raw: Any) -> bool:
    """Whether this PyTorch lets a saved tensor be looked at without being unpacked."""
    return all(_READ)


keeps_metadata: bool = there("torch.autograd.Function.metadata", "deep graphs")
"""Whether `node.metadata` is there: a dict that lives as long as the node, whoever holds it."""

_storage_key: bool = there("torch.UntypedStorage._cdata", "saved tensors")


def storage_key(storage: torch.UntypedStorage) -> int:
    """Return what tells the memory of tensors apart: the address of C++'s storage, or that of the memory itself."""
    return storage._cdata if _storage_key else storage.data_ptr()


def _skipping(frames: Any) -> Callable[[CodeType], None]:
    never = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    return lambda code: frames.set_code_exec_strategy(code, never)


leave_uncompiled: Callable[[CodeType], None] = take(
    "torch._C._dynamo.eval_frame", "compiled functions", without=lambda code: None, read=_skipping
)
"""Have torch.compile leave alone whatever runs this code, and all that it calls."""
