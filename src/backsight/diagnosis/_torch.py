"""What diagnosis needs of PyTorch beyond its documented surface, each with the reason.

`tests/diagnosis/test_private_surface_of_diagnosis.py` fails loudly when one of them changes.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from torch.utils import checkpoint

from backsight.story.memory import storage_of
from backsight.surface import code_of, take
from backsight.tape import RAW

ADD_PARAMETERS: CodeType | None = take(
    "torch.optim.Optimizer.add_param_group", "refused parameters", without=None, read=code_of
)
"""Where an optimizer refuses a parameter: its `param` is the refused one, its `param_group` the whole group."""

DDP_FORWARD: CodeType | None = take(
    "torch.nn.parallel.DistributedDataParallel.forward", "unused parameters under DDP", without=None, read=code_of
)
"""Where DDP notices that the last backward left parameters without a gradient: its `self` has the names."""

CHECKPOINT_FILE: str = checkpoint.__file__
"""The frames of a recomputation stand in this file."""

VMAP: CodeType | None = take("torch._functorch.vmap.vmap_impl", "functions under vmap", without=None, read=code_of)
"""What stands between the frames that call `torch.vmap` and those of the function that it maps."""

_UNWRAPPED: Any = take("torch._C._functorch.get_unwrapped", "functions under vmap", without=None)


def unwrapped(tensor: Any) -> Any:
    """Return the tensor of all samples behind one that `vmap` has wrapped, once or more; None where none is known."""
    try:
        for _ in range(8):
            if _UNWRAPPED is None or storage_of(tensor) is not None:
                break
            tensor = _UNWRAPPED(tensor)
    except (RuntimeError, TypeError):
        return None
    return tensor if storage_of(tensor) is not None else None


_HOOKS: Any = take("torch.Tensor._backward_hooks", "hooks that zero gradients", without=None)
_AFTER: Any = take("torch.Tensor._post_accumulate_grad_hooks", "hooks that zero gradients", without=None)


def gradient_hooks(leaf: Any) -> list[Any]:
    """Return what runs on the gradient of a leaf: the hooks of `register_hook` and its like, in their order."""
    tables = [read.__get__(leaf) for read in (_HOOKS, _AFTER) if read is not None]
    return [hook for table in tables if table for hook in list(table.values())]


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
        if name.startswith(RAW):
            try:
                raw = getattr(node, name)
            except RuntimeError:  # of `x[:, rows]`, which has no index for its rows
                continue
            every = raw if isinstance(raw, tuple | list) else (raw,)
            if any(getattr(each, "data", None) is packed for each in every):
                return name.removeprefix(RAW)
    return ""
