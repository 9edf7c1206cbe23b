"""Whether operations of PyTorch's take the sizes that they are given, asked before they run.

Not every kernel asks: that of `native_batch_norm` writes behind the end of statistics which are too short, and the
process dies of it later. The kernels for the meta device, which have shapes and no memory, refuse sizes that do
not fit.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


class Fitting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """Within it an operation raises, and does not run, where its arguments do not fit one another.

    ```python
    with Fitting():
        function(*tensors_of_other_sizes)
    ```
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "aten" and not func.is_view and not _BY_VALUE.intersection(func.tags):
            _ask(func, args, kwargs)
        return func(*args, **kwargs)


def get_ready() -> None:
    """Load what operations are asked with: at the first of a process PyTorch imports its compiler, for seconds."""
    with Fitting():
        torch.zeros(1, device="cpu") + 1


_BY_VALUE = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def _ask(func: Any, args: Any, kwargs: Any) -> None:
    """Call an operation for its shapes alone; lets pass what it raises of arguments that do not fit."""
    given = tree_leaves((args, kwargs))
    if any(isinstance(each, torch.Tensor) and each.layout != torch.strided for each in given):
        return
    if any(isinstance(each, torch.Generator) for each in given):  # of the CPU, which an operation on meta refuses
        return
    args, kwargs = tree_map_only(torch.Tensor, _shape, (args, kwargs))
    args, kwargs = tree_map_only(torch.device, lambda _: torch.device("meta"), (args, kwargs))
    with suppress(NotImplementedError):  # there is no kernel for meta tensors
        func(*args, **kwargs)


def _shape(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
