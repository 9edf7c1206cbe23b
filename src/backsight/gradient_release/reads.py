"""Where values leave tensors during a step: `.item()`, `bool()`, `tolist()`, and what compares whole tensors.

From there Python decides, and what it decides may be about other parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_ESCAPES = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """A mode that sees the operations of a step, and asks `on_read` what each read of values returns.

    Operations on subclasses of tensors (quantized states) are seen as those that they are made of.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self._stack = ExitStack()

    def on_read(self, operation: str, tensors: list[torch.Tensor], value: Any) -> Any:
        """Return what the program is to get for a value that it reads of tensors."""
        return value

    def on_operation(self, func: Any, args: Any, kwargs: Any, call: Callable[[], Any]) -> Any:
        """Return what an operation returns."""
        return call()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(each not in (torch.Tensor, torch.nn.Parameter) for each in types):
            return NotImplemented
        kwargs = kwargs or {}
        result = self.on_operation(func, args, kwargs, lambda: func(*args, **kwargs))
        if torch.Tag.data_dependent_output in func.tags and not isinstance(result, torch.Tensor):
            return self.on_read(func.overloadpacket.__name__, tensors_in((*args, *kwargs.values())), result)
        return result

    def __enter__(self) -> Any:
        self._stack.enter_context(_Escapes(self))
        return super().__enter__()  # type: ignore[no-untyped-call]  # as above

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)  # type: ignore[no-untyped-call]  # as above
        self._stack.close()


class _Escapes(TorchFunctionMode):
    """Tells of values that are read without an operation."""

    def __init__(self, operations: Operations):
        super().__init__()
        self._operations = operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _ESCAPES and not args[0].is_meta:
            return self._operations.on_read(func.__name__, [args[0]], result)
        return result


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors among arguments, and those in lists of them."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found
