"""What diagnosis needs of PyTorch beyond its documented surface, each with the reason.

`tests/diagnosis/test_private_surface_of_diagnosis.py` fails loudly when one of them changes.
"""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils import checkpoint

ENGINE_CALLS: dict[CodeType, tuple[str, str]] = {
    inspect.unwrap(torch.Tensor.backward).__code__: ("backward", "self"),
    inspect.unwrap(torch.autograd.backward).__code__: ("backward", "tensors"),
    inspect.unwrap(torch.autograd.grad).__code__: ("grad", "outputs"),
}
"""The functions through which people start the engine: what each is called, and the variable that holds the roots."""

ADD_PARAMETERS: CodeType = inspect.unwrap(torch.optim.Optimizer.add_param_group).__code__
"""Where an optimizer refuses a parameter: its `param` is the refused one, its `param_group` the whole group."""

DDP_FORWARD: CodeType = inspect.unwrap(DistributedDataParallel.forward).__code__
"""Where DDP notices that the last backward left parameters without a gradient: its `self` has the names."""

CHECKPOINT_FILE: str = checkpoint.__file__
"""The frames of a recomputation stand in this file."""


TENSOR: Any = torch._C.TensorBase
"""Where the attributes of tensors really are: its descriptors read them past whatever a subclass overrides."""

NEEDS_INPUT_GRAD: Any = torch._C._FunctionBase.needs_input_grad
"""`ctx.needs_input_grad`, past an attribute of the same name that a custom Function may have set on its `ctx`."""


def forward_class(node: Any) -> type | None:
    """Return the user's `torch.autograd.Function` class behind a custom node."""
    return getattr(type(node), "_forward_cls", None)


def checkpointed(variables: dict[str, Any]) -> Any:
    """Return the function that is being recomputed, from the variables of a frame of torch.utils.checkpoint, or None.

    The hooks of `_checkpoint_hook` close over a `_CheckpointFrame`, the `frame`, whose `recompute_fn` closes over the
    function, `fn`; that function's own frame has `fn` at hand.
    """
    if "fn" in variables and "recompute_context" in variables:
        return variables["fn"]
    recompute = getattr(variables.get("frame"), "recompute_fn", None)
    names = getattr(getattr(recompute, "__code__", None), "co_freevars", ())
    held = dict(zip(names, getattr(recompute, "__closure__", None) or (), strict=False))
    return held["fn"].cell_contents if "fn" in held else None


def recomputed(variables: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the `_CheckpointFrame` whose runs were compared and the number of the run, from the frame that did it.

    It has a `weak_holders` and an `x_metadatas` for each tensor that the first run saved, in order, and under
    `recomputed` those of each later run, by what a holder's `handles` has for that run.
    """
    frame, run = variables.get("self"), variables.get("gid")
    wanted = ("weak_holders", "x_metadatas", "recomputed")
    return (frame, run) if run is not None and all(hasattr(frame, each) for each in wanted) else None


def saved_as(node: Any, packed: object) -> str:
    """Return the name under which a node has saved what a pack hook made of a tensor; empty if it has not."""
    for name in dir(type(node)):
        if name.startswith("_raw_saved_"):
            raw = getattr(node, name)
            every = raw if isinstance(raw, tuple | list) else (raw,)
            if any(getattr(each, "data", None) is packed for each in every):
                return name.removeprefix("_raw_saved_")
    return ""
