"""`OnCPU`: a program that asks for another device gets the CPU, so that it can be imagined where that device is not."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backsight.memory._torch import forget_fakes

_MOVES = {torch.Tensor.cuda, torch.Tensor.xpu}
_KEPT = {"cpu", "meta"}


class OnCPU(TorchFunctionMode):
    """Replace every device by the CPU while it is entered: of new tensors, of moves, and of autocast.

    ```python
    with FakeTensorMode() as mode, OnCPU(mode):
        torch.zeros(3, device="cuda"), x.cuda(), x.to("cuda:1"), model.to("cuda")      # all of them on the CPU
    ```
    """

    def __init__(self, mode: Any) -> None:
        super().__init__()
        self._mode = mode
        self._mirrored = False

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]  # PyTorch does not say
        self._mirror(False)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        self._mirror(torch.is_autocast_enabled("cuda"))
        if func in _MOVES:
            return args[0]
        if kwargs.get("device") is not None:
            kwargs["device"] = _here(kwargs["device"])
        if func is torch.Tensor.to or getattr(func, "__name__", "") == "_parse_to":
            args = tuple(_here(arg) if isinstance(arg, (str, torch.device)) else arg for arg in args)
        result = func(*args, **kwargs)
        if func is torch.Tensor.requires_grad_:  # the last that makes a parameter
            forget_fakes(self._mode)
        return result

    def _mirror(self, wanted: bool) -> None:
        """Let autocast of CUDA hold for the CPU, where the imagined tensors are."""
        if wanted == self._mirrored or (wanted and torch.is_autocast_enabled("cpu")):
            return
        self._mirrored = wanted
        torch.set_autocast_enabled("cpu", wanted)
        if wanted:
            torch.set_autocast_dtype("cpu", torch.get_autocast_dtype("cuda"))
        else:
            torch.clear_autocast_cache()


def _here(device: Any) -> Any:
    try:
        given = torch.device(device)
    except RuntimeError:  # not a device: PyTorch says so itself
        return device
    return given if given.type in _KEPT else torch.device("cpu")
