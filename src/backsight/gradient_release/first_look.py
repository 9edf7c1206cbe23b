"""What can only be seen once a backward pass runs: compiled models, and models wrapped after the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch

from backsight.blame import warn
from backsight.gradient_release._torch import (
    bytes_of,
    compiled_backwards,
    ddp_models,
    in_compiled_function,
    leaves_of,
)
from backsight.gradient_release.errors import NotReleasable, ReleaseWarning
from backsight.text import size


def look(parameters: Sequence[torch.Tensor], bucket: float, ddp: object = None) -> None:
    """Look at the backward pass under way before the first parameter is stepped in it.

    Raises:
        NotReleasable: if the parameters are those of a DistributedDataParallel other than `ddp`, or backward is called
            by a compiled function.
    """
    if in_compiled_function():
        refuse_compiled()
    refuse_ddp(parameters, ddp)
    warn_of_compiled(parameters, bucket)


def refuse_compiled() -> NoReturn:
    """Refuse a training step that is compiled as a whole.

    Raises:
        NotReleasable: with what to compile instead.
    """
    raise NotReleasable(
        "backward() or optimizer.step() runs inside a function compiled by torch.compile, which traces the hooks of "
        "release and recompiles for each partial step. Compile the model or its blocks (`block.compile()`), and keep "
        "backward() and optimizer.step() outside the compiled function."
    )


def refuse_ddp(parameters: Sequence[torch.Tensor], ddp: object = None) -> None:
    """Refuse parameters whose gradients DistributedDataParallel has yet to average when release would use them.

    Raises:
        NotReleasable: if a DistributedDataParallel other than `ddp` holds one of them.
    """
    ours = {id(each) for each in parameters}
    for model in ddp_models():
        if model is not ddp and any(id(each) in ours for each in model.parameters()):
            raise NotReleasable(
                "The parameters belong to a DistributedDataParallel, which averages gradients over the ranks after "
                "release would have used them: the ranks would diverge. With bs.release(optimizer, ddp=model), after "
                "the model was wrapped, or with fully_shard (FSDP2), release is exact."
            )


def warn_of_waiting(names: str) -> None:
    """Say that gradients are not released, because the memory of their parameters has other holders."""
    warn(
        f"The gradients of {names} wait for optimizer.step(), which is exact but saves less: another live tensor "
        "(detach(), .data, a view, a NumPy array) shares the memory of the parameter and might read or modify it "
        "during backward.",
        ReleaseWarning,
    )


def warn_of_compiled(parameters: Sequence[torch.Tensor], bucket: float) -> None:
    """Say if one compiled backward returns the gradients of more than a bucket of parameters at once."""
    ours = {id(each): bytes_of(each) for each in parameters}
    most = max((sum(ours.get(id(leaf), 0) for leaf in leaves_of(node)) for node in compiled_backwards()), default=0)
    if most > max(bucket, 2 * max(ours.values(), default=0)):  # twice: a layer's weight and bias come together
        warn(
            f"One compiled backward returns {size(most)} of gradients at once, so releasing them saves almost "
            "nothing; the weights are still right. Compile the model's blocks instead of the whole model: "
            "`for block in model.blocks: block.compile()`.",
            ReleaseWarning,
        )
