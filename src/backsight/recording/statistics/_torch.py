"""Every part of torch below its public face that this room touches, and why.

- `torch._C.DisableTorchFunction`: keeps a user's `__torch_function__` and TorchFunctionModes out of our reads.
- `torch._C._DisableTorchDispatch`: the same for TorchDispatchModes, such as a FLOP counter that is to count the user's
  operations and not ours.
- `torch._C._is_torch_function_mode_enabled`: whether a TorchFunctionMode would see what we ask a tensor.
- `Tensor.__dlpack_c_exchange_api__`: DLPack's table of C functions, by which a tensor tells where it lies (2.10 on).
- `torch._C._dispatch_keys`: tells a tensor whose class answers for its operations itself (`__torch_dispatch__`): its
  memory, if it has any, is not what it stands for.
- `Tensor._is_zerotensor`: zeros that autograd made without memory.
- `torch._mkldnn`: the layout of `to_mkldnn()`, which has no public name.
- `torch.distributed._functional_collectives.AsyncCollectiveTensor`: a local shard that is still on its way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from operator import methodcaller
from typing import Any

import torch

from backsight.surface import take

without_overrides: Any = take("torch._C.DisableTorchFunction", "tensor subclasses", without=nullcontext)
function_mode: Any = take("torch._C._is_torch_function_mode_enabled", "modes beside a recording", without=lambda: False)
without_modes: Any = take("torch._C._DisableTorchDispatch", "modes beside a recording", without=nullcontext)
MKLDNN: Any = take("torch._mkldnn", "recorded layouts", without=None)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of a DTensor; any other tensor as it is. Whoever has made one has imported its module."""
    for module, name, method in (
        ("torch.distributed.tensor", "DTensor", "to_local"),
        ("torch.distributed._functional_collectives", "AsyncCollectiveTensor", "wait"),
    ):
        kind: Any = getattr(sys.modules.get(module), name, None)
        if kind is not None and issubclass(type(tensor), kind):
            tensor = getattr(kind, method)(tensor)
    return tensor


_keys: Any = take("torch._C._dispatch_keys", "recorded layouts", without=None)
_python: Any = take("torch._C.DispatchKey.Python", "recorded layouts", without=None)


def answers_itself(tensor: torch.Tensor) -> bool:
    """Whether the class of this tensor has a `__torch_dispatch__` of its own."""
    if _keys is None or _python is None:
        return type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    return bool(_keys(tensor).has(_python))


without_memory: Callable[[torch.Tensor], bool] = take(
    "torch.Tensor._is_zerotensor",
    "recorded layouts",
    without=lambda _: False,
    read=lambda _: methodcaller("_is_zerotensor"),
)
"""Whether the tensor is zeros that were never written anywhere."""
