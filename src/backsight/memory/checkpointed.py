"""Activation checkpointing put on the blocks of an imagined model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from backsight.memory.training import NotAStep
from backsight.text.meant import offered

_SWITCHES = ("activation_checkpointing", "gradient_checkpointing")
"""What models of transformers call it, the newer name first."""


def repeated_blocks(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the blocks that a model repeats, such as the layers of a transformer, with their paths.

    They are the children of one ModuleList, ModuleDict or Sequential, at least two of one class that has modules of its
    own and parameters; of blocks within blocks only the outer ones.
    """
    found: list[tuple[str, nn.Module]] = []
    waiting = [("", model)]
    while waiting:
        path, module = waiting.pop(0)
        children = list(module.named_children())
        repeated = set(_repeated(children)) if isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)) else ()
        for name, child in children:
            inner = f"{path}.{name}" if path else name
            (found if name in repeated else waiting).append((inner, child))
    return found


def checkpointable(model: nn.Module) -> bool:
    """Return whether `apply` finds anything to checkpoint."""
    return bool(getattr(model, "supports_gradient_checkpointing", False)) or bool(repeated_blocks(model))


def apply(model: nn.Module, where: bool | Sequence[str] = True) -> None:
    """Compute the activations of the blocks again in the backward pass. Changes the model: give it a copy.

    A model of Hugging Face has its own switch, and it is used. Raises NotAStep for the name of no module, and where
    there is no repeated block.
    """
    if where is True and getattr(model, "supports_gradient_checkpointing", False):
        for name in _SWITCHES:
            switch: Any = getattr(model, f"{name}_enable", None)
            if switch is not None:
                switch(**{f"{name}_kwargs": {"use_reentrant": False}})
                return
    for block in _blocks(model, where):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def _blocks(model: nn.Module, where: bool | Sequence[str]) -> list[nn.Module]:
    if where is True:
        blocks = [block for _, block in repeated_blocks(model)]
        if not blocks:
            raise NotAStep(
                f"{type(model).__name__} has no repeated block to checkpoint. Name the modules: "
                'checkpointing=["encoder", "decoder"], or --checkpoint encoder decoder.'
            )
        return blocks
    modules = dict(model.named_modules())
    for name in where or ():
        if name not in modules:
            near = [known for known in modules if known and name.split(".")[-1] in known][:3]
            raise NotAStep(f"{type(model).__name__} has no module {name!r} to checkpoint{offered(near) or '.'}")
    return [modules[name] for name in where or ()]


def _repeated(children: Sequence[tuple[str, nn.Module]]) -> Iterator[str]:
    """Yield the names of the children whose class occurs more than once, and that are more than a layer."""
    classes = [type(child) for _, child in children]
    for name, child in children:
        whole = next(child.children(), None) is not None and next(child.parameters(), None) is not None
        if whole and classes.count(type(child)) > 1:
            yield name
