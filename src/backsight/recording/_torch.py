"""Every private attribute of PyTorch that recording touches, each with what we need of it.

`tests/recording/test_private_surface_of_recording.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from backsight.surface import code_of, take, there
from backsight.tape import unnumbered

COMPILED = "_orig_mod"
"""The name under which what `torch.compile(module)` returns holds the module; it says nothing to a reader."""


when_backward_ends: Callable[[Callable[[], None]], None] | None = take(
    "torch.autograd.Variable._execution_engine.queue_callback", "gradients read together", without=None
)
"""Call something at the end of the backward pass that this thread is inside of; not if that raises."""


transform: Callable[[], Any] = take(
    "torch._C._functorch.peek_interpreter_stack", "recorded transforms", without=lambda: None
)
"""Return the `vmap`, `grad` or other transform that this thread is inside of, or None; its tensors stand for others."""


as_the_program: Any = take("torch._C._EnableTorchFunction", "tensor subclasses", without=nullcontext)
"""Within this, the program's own modes and subclasses are asked again, in what is called for it within a hook."""


CALL: CodeType | None = take("torch.nn.Module._call_impl", "models called by the program", without=None, read=code_of)
"""The code through which every call of a module goes, be it with hooks or without."""


def in_transform() -> bool:
    """Whether this thread is inside of a transform."""
    return transform() is not None


_SWAPPING: CodeType | None = take(
    "torch.nn.utils.stateless._functional_call", "weights of functional calls left out", without=None, read=code_of
)


def in_functional_call() -> bool:
    """Whether this thread is inside of `torch.func.functional_call`, where modules hold others' tensors."""
    return _SWAPPING is not None and any(frame.f_code is _SWAPPING for frame in _calls(sys._getframe()))


def in_ddp() -> bool:
    """Whether this thread is inside of the forward of a DistributedDataParallel: every rank has the same weights."""
    ddp = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
    return getattr(ddp, "_active_ddp_module", None) is not None


def agreed(proposal: str) -> str | None:
    """Return what the ranks of the process group agree on: the proposal that came first; None without a group.

    It is one question to the store in which they met, and waits for no other rank.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    try:
        store = torch.distributed.distributed_c10d._get_default_store()
        return store.compare_set("backsight/start", "", proposal).decode() or None
    except Exception:  # a group of another sort, MPI's for one, has no such store
        return None


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether this is a DTensor, of which a rank holds a shard."""
    dtensor = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return dtensor is not None and issubclass(type(tensor), dtensor)


def is_script(module: torch.nn.Module) -> bool:
    """Whether TorchScript has made this module."""
    return issubclass(type(module), torch.jit.ScriptModule)


def registered(module: torch.nn.Module, table: str) -> dict[str, Any]:
    """Return `_modules`, `_parameters` or `_buffers` without asking the module's own `__getattr__`."""
    own = object.__getattribute__(module, "__dict__")
    held = own.get(table)
    if held is None:
        inner = own.get("_actual_script_module")  # what torch.jit.trace returns has everything in another one
        return {} if inner is None else registered(inner, table)
    return held if isinstance(held, dict) else dict(held.items())  # a ScriptModule has tables of C++


def _calling(call: Any) -> CodeType:
    """Return the code in which hooks are called: a function within `_call_impl` that shares its variable `kwargs`."""
    codes = [code_of(call), *(each for each in code_of(call).co_consts if type(each) is CodeType)]
    return next(code for code in codes if "kwargs" in code.co_freevars)


_CALLING: CodeType | None = take(
    "torch.nn.Module._call_impl", "recorded arguments by keyword", without=None, read=_calling
)


def keywords(caller: FrameType) -> dict[str, Any]:
    """Return what the module is being called with by keyword; to be asked with the frame that called a hook.

    PyTorch gives them to hooks on the module, but not to global ones, of which nothing is left on the module.
    """
    if caller.f_code is not _CALLING:
        return {}
    held: dict[str, Any] = caller.f_locals["kwargs"]
    return held


_STEPPING: CodeType | None = take(
    "torch.optim.Optimizer.profile_hook_step",
    "recorded steps",
    without=None,
    read=lambda hooked: next(each for each in code_of(hooked).co_consts if type(each) is CodeType),
)


def busy(of: str) -> bool:
    """Whether PyTorch may be walking through its tables of hooks of "modules" or of "optimizers".

    In another thread; of optimizers also in this one, where a hook of somebody is asking.
    """
    code, innermost = (CALL if of == "modules" else _STEPPING), sys._current_frames()
    del innermost[get_ident()]  # our own frame in a variable of its own would be a cycle, and keep the program's alive
    if any(here.f_code is code for frame in innermost.values() for here in _calls(frame)):
        return True
    return of == "optimizers" and _in_hook_of_step()


def _in_hook_of_step() -> bool:
    """Whether this thread is in a hook that is called before or after a step, and not in the step itself."""
    called = sys._getframe(1)
    for here in _calls(called):
        if here.f_code is _STEPPING and called.f_code is not getattr(here.f_locals.get("func"), "__code__", None):
            return True
        called = here
    return False


def _calls(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


_fx_traces: Callable[[], bool] = take(
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing", "calls that FX traces", without=lambda: False
)


def traced() -> bool:
    """Whether FX or TorchScript is tracing a program: its calls are none, and its tensors may stand for others."""
    return bool(torch._C._is_tracing()) or _fx_traces()


def new_hook_key() -> int:
    """Return a key for tables of hooks that no other hook has.

    With a key of its own a hook can be put into a table, and out of it, again and again. PyTorch's functions make a
    handle each time, which for each parameter takes longer than the step that is to be recorded.
    """
    with unnumbered():
        return RemovableHandle(OrderedDict()).id


_gradient_hooks: bool = there("torch.Tensor._post_accumulate_grad_hooks", "recorded gradients")


def gradient_hooks(tensor: torch.Tensor) -> dict[int, Any]:
    """Return the table of hooks that are called when a gradient has been added to `tensor.grad`; a new one if need be.

    As `Tensor.register_post_accumulate_grad_hook` does. The tensor has to be a leaf that requires a gradient.
    """
    if not _gradient_hooks:
        return {}  # of nobody: what is put there is not called
    table: dict[int, Any] | None = tensor._post_accumulate_grad_hooks
    if table is None:
        table = tensor._post_accumulate_grad_hooks = OrderedDict()
    return table


def drop_empty_hooks(tensor: torch.Tensor) -> None:
    """Take away the table of hooks on a parameter's gradient if it is empty.

    PyTorch leaves the table there when the last hook is removed, and goes on calling into Python for it in each
    backward pass. Not to be called within one, where PyTorch may be walking through the table.
    """
    if _gradient_hooks and tensor._post_accumulate_grad_hooks is not None and not tensor._post_accumulate_grad_hooks:
        tensor._post_accumulate_grad_hooks = None  # type: ignore[assignment]  # None until a hook comes


def hooks_traced() -> int:
    """Return how many times torch.compile has traced a hook of ours in this process."""
    return len(_traced)


def note_trace() -> None:
    """Count that a hook is being traced; to be called where `torch.compiler.is_compiling()`."""
    _traced.append(None)


# What `torch.compiler.assume_constant_result` does, without its import of all of torch._dynamo: the function is called
# while torch.compile traces, and is no part of what it compiles.
note_trace._dynamo_marked_constant = True  # type: ignore[attr-defined]  # a mark on a function
_traced: list[None] = []


def is_uninitialized(tensor: torch.Tensor) -> bool:
    """Whether a parameter or buffer of a lazy module has yet to get its shape."""
    return bool(torch.nn.parameter.is_lazy(tensor))
