"""What gradient release needs of PyTorch beyond its documented surface, each with what we need of it.

`tests/gradient_release/test_private_surface_of_release.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from backsight.surface import take, there
from backsight.tape import alive

there("torch.Tensor._post_accumulate_grad_hooks", "release")
there("torch.Tensor._version", "release")
there("torch.optim.Optimizer._optimizer_step_pre_hooks", "release")
there("torch.optim.Optimizer._optimizer_step_post_hooks", "release")
there("torch._C.FunctionSchema.arguments", "release")


def is_last_hook(parameter: torch.Tensor, hook: Any) -> bool:
    """Whether a hook is the last of those that PyTorch calls when this parameter's gradient has been accumulated."""
    hooks: Any = parameter._post_accumulate_grad_hooks
    return not hooks or next(reversed(hooks.values())) == hook


def drop_empty_hooks(parameter: torch.Tensor) -> None:
    """Take away the table of hooks on a parameter's gradient if it is empty, or PyTorch goes on calling for it."""
    hooks: Any = parameter._post_accumulate_grad_hooks
    if hooks is not None and not hooks:
        held: Any = parameter
        held._post_accumulate_grad_hooks = None


at_end_of_backward: Callable[[Any], None] = take("torch.autograd.Variable._execution_engine.queue_callback", "release")
"""Call something when the backward pass under way is through, after what was given here before."""

PAST_TORCH_FUNCTION: Any = take("torch._C._disabled_torch_function_impl", "release")
"""The `__torch_function__` of a subclass whose calls all go to its `__torch_dispatch__`."""

no_subclass_function: Callable[[], AbstractContextManager[Any]] = take(
    "torch._C.DisableTorchFunctionSubclass", "release"
)
"""Within this, `__torch_function__` of subclasses is not called; that of modes is."""

_use_count: Callable[[int], int] = take("torch._C._storage_Use_Count", "release")
_ALONE = 2
"""The count for memory that one tensor has: its own, and that of the Python object by which we ask."""


def shares_memory(parameter: torch.Tensor) -> bool:
    """Whether another tensor that is alive, a view, `.data`, a NumPy array's, has the same memory."""
    return _use_count(parameter.untyped_storage()._cdata) > _ALONE


make_wrapper: Any = take("torch.Tensor._make_wrapper_subclass", "release")
make_alike: Any = take("torch.Tensor._make_subclass", "release")
"""Make a tensor of a class over the memory of another."""


def wrapper(kind: type[torch.Tensor], like: torch.Tensor, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor of a subclass that has the shape, type and device of another, or these, and no memory."""
    return make_wrapper(kind, like.shape, dtype=dtype or like.dtype, device=device or like.device, requires_grad=False)


def written(func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """Return the arguments that an operation writes into, tensors or lists of them."""
    for at, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = kwargs.get(argument.name) if argument.kwarg_only or at >= len(args) else args[at]
            if given is not None:
                yield given


def own_hook_tables(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer was made by `Optimizer.__init__`; wrappers such as Accelerate's were not."""
    return "_optimizer_step_pre_hooks" in vars(optimizer)


def step_hooks(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the hooks that are called before each step of an optimizer."""
    return list(vars(optimizer).get("_optimizer_step_pre_hooks", {}).values())


def hook_last_before_step(optimizer: torch.optim.Optimizer, handle: Any) -> None:
    """Have a hook be the last before each step, so that the user's see what it does not want to be missed."""
    hooks: Any = optimizer._optimizer_step_pre_hooks
    if next(reversed(hooks), handle.id) != handle.id:
        hooks.move_to_end(handle.id)


def hook_first_after_step(optimizer: torch.optim.Optimizer, handle: Any) -> None:
    """Have a hook be the first after each step."""
    hooks: Any = optimizer._optimizer_step_post_hooks
    hooks.move_to_end(handle.id, last=False)


def counts_for_a_scheduler(step: Any) -> bool:
    """Whether a `step` in an optimizer's own `__dict__` is the one with which a scheduler counts calls."""
    return bool(getattr(step, "_wrapped_by_lr_sched", False))


def ddp_models() -> Iterator[Any]:
    """Return every DistributedDataParallel in this process."""
    module = sys.modules.get("torch.nn.parallel.distributed")
    if module is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return iter(())
    return iter(alive(module.DistributedDataParallel))


_compiling: Callable[[], Any] = take(
    "torch._C._dynamo.eval_frame.get_eval_frame_callback", "release", without=lambda: None
)


def in_compiled_function() -> bool:
    """Whether this runs within a function compiled by torch.compile, be it traced or run by Python after all."""
    return torch.compiler.is_compiling() or callable(_compiling())


_FUNCTION_NODE: type[Any] = torch.autograd.function.BackwardCFunction
_COMPILED = "CompiledFunctionBackward"
"""The class of such a node, which comes with what is compiled. Source: torch/_functorch/_aot_autograd.py."""


def compiled_backwards() -> Iterator[Any]:
    """Return the nodes, alive in this process, that run the backward of something compiled by torch.compile."""
    if not any(each.__name__ == _COMPILED for each in type.__subclasses__(_FUNCTION_NODE)):
        return iter(())  # nothing was compiled: to ask for all objects alive takes a tenth of a second, or seconds
    return (each for each in alive(_FUNCTION_NODE) if type(each).__name__ == _COMPILED)


def leaves_of(node: Any) -> Iterable[torch.Tensor]:
    """Return the leaves into whose gradients a node's results go straight."""
    for following, _ in node.next_functions:
        if following is not None and hasattr(following, "variable"):
            yield following.variable


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether this is a DTensor, of which a rank holds a shard."""
    dtensor = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return dtensor is not None and issubclass(type(tensor), dtensor)


def bytes_of(parameter: torch.Tensor) -> int:
    """Return how many bytes the gradient of a parameter takes in this process."""
    local: Any = parameter
    held = local.to_local() if is_sharded(parameter) else parameter
    dtype = getattr(parameter, "grad_dtype", None) or parameter.dtype
    return int(held.numel() * dtype.itemsize)
