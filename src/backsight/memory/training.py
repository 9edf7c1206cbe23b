"""A training that is imagined: the step to run, with the models, optimizers and inputs it is made of, all of them fake.

A `Recipe` is a model, a batch, an optimizer and a loss; a `Script` is a function that does a step itself, or makes the
parts of one. Both are the user's own and stay as they are: `imagine` makes copies.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from backsight.gradient_release import Release
from backsight.memory.imagined import Imagination
from backsight.memory.tensors import tensors_of


class NotAStep(ValueError):
    """What was given is no training step, or its parts do not belong together.

    `at_command` is the same for the command line, which takes functions alone: with `command` as the fix.
    """

    def __init__(self, what: str, fix: str = "", command: str = "") -> None:
        super().__init__(f"{what} {fix}".rstrip())
        self.at_command = f"{what} {command or fix}".rstrip()


@dataclass(frozen=True)
class Training:
    """A step of fake tensors, and what it works on."""

    step: Callable[[], Any]
    models: tuple[nn.Module, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    inputs: Any = ()
    releases: tuple[Release, ...] = ()
    """Gradient release that is attached already."""


@dataclass(frozen=True)
class Recipe:
    """What a training step is made of.

    `model` is a module, or a function that builds one, and `batch` what it is called with, or a function that makes it.
    `optimizer` is an optimizer of that model, or called with its parameters; AdamW if None. `loss` is called with the
    output and the target, and the batch is then (input, target).
    """

    model: Any
    batch: Any
    optimizer: Any = None
    loss: Callable[..., Any] | None = None
    dtype: torch.dtype | None = None
    autocast: torch.dtype | None = None

    def imagine(self, mode: Any) -> Training:
        """Return the training, with copies of what is real, and what is built built under the mode."""
        imagination = Imagination(mode)
        model = imagination.copy(self.model)
        if not isinstance(model, nn.Module):
            model = _built(model)
        batch = imagination.copy(self.batch)
        if callable(batch):
            batch = batch()
        if self.dtype is not None:
            model.to(self.dtype)
            batch = _cast(batch, self.dtype)
        optimizer = self._optimizer(model, imagination)
        step = Step(model, batch, optimizer, imagination.copy(self.loss), self.autocast)
        return Training(step, (model,), (optimizer,), batch, imagination.made(Release))

    def _optimizer(self, model: nn.Module, imagination: Imagination) -> Optimizer:
        if isinstance(self.optimizer, Optimizer):
            if not isinstance(self.model, nn.Module):
                raise NotAStep(
                    f"an {type(self.optimizer).__name__} object already has parameters, not those of the model that "
                    "the forecast builds. Pass its class, or `functools.partial(torch.optim.AdamW, lr=1e-4)`."
                )
            copied: Optimizer = imagination.copy(self.optimizer)
            return copied
        make = torch.optim.AdamW if self.optimizer is None else imagination.copy(self.optimizer)
        made = make(model.parameters()) if callable(make) else make
        if not isinstance(made, Optimizer):
            raise NotAStep(
                f"the optimizer is a {type(made).__name__}. Give an optimizer of the model, its class, or a function "
                "that is called with the parameters and returns one."
            )
        closure = inspect.signature(type(made).step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise NotAStep(
                f"{type(made).__name__}.step() takes a closure. Pass forecast a function that does the step."
            )
        return made


@dataclass(frozen=True)
class Script:
    """A function that does a training step; or, if `makes_parts`, one that returns the parts of a recipe.

    These are `(model, batch)`, `(model, batch, optimizer)`, `(model, batch, optimizer, loss)`, or a dict of them.
    """

    function: Callable[[], Any]
    dtype: torch.dtype | None = None
    autocast: torch.dtype | None = None
    makes_parts: bool = False

    def settled(self, mode: Any) -> Script:
        """Call the function to see which of the two it is, and return the script that knows."""
        result = Imagination(mode).copy(self.function)()
        if isinstance(result, nn.Module):
            raise NotAStep("the function only returned a model. Return a batch too: `return model, batch`.")
        parts = isinstance(result, Mapping) and isinstance(result.get("model"), nn.Module)
        parts = parts or (isinstance(result, tuple) and len(result) > 0 and isinstance(result[0], nn.Module))
        if not parts and (self.dtype or self.autocast):
            raise NotAStep("dtype and autocast need a model and a batch; a function that does a step sets them itself.")
        return replace(self, makes_parts=parts)

    def imagine(self, mode: Any) -> Training:
        """Return the training."""
        imagination = Imagination(mode)
        function = imagination.copy(self.function)
        if self.makes_parts:
            return self._recipe(function()).imagine(mode)
        models, optimizers = imagination.made(nn.Module), imagination.made(Optimizer)
        inside = {id(module) for model in models for module in model.modules() if module is not model}
        roots = tuple(model for model in models if id(model) not in inside)
        return Training(function, roots, optimizers, releases=imagination.made(Release))

    def _recipe(self, result: Any) -> Recipe:
        names = ("model", "batch", "optimizer", "loss")
        parts = dict(result) if isinstance(result, Mapping) else dict(zip(names, result, strict=False))
        unknown = sorted(set(parts) - set(names))
        if unknown or "batch" not in parts:
            said = f"Unknown: {', '.join(unknown)}." if unknown else "The batch is missing."
            raise NotAStep(f"the parts of a step are model, batch, optimizer and loss. {said}")
        return replace(Recipe(**parts), dtype=self.dtype, autocast=self.autocast)


@dataclass(frozen=True)
class Step:
    """A training step as a loop does it; loss and output live until its end, as the variables of a function do."""

    model: nn.Module
    batch: Any
    optimizer: Optimizer
    loss: Callable[..., Any] | None
    autocast: torch.dtype | None

    def __call__(self) -> None:
        with self._casting():
            held = self._forward()
        held[1].backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _casting(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.autocast is None else torch.autocast("cpu", self.autocast)

    def _forward(self) -> tuple[Any, Any]:
        """Return the output and the loss."""
        if self.loss is None:
            output = _called(self.model, self.batch)
            return output, loss_in(output)
        if not isinstance(self.batch, (tuple, list)) or len(self.batch) != 2:
            raise NotAStep("with a loss, the batch is a pair: what the model is called with, and the target.")
        inputs, target = self.batch
        output = _called(self.model, inputs)
        return output, loss_in(self.loss(output, target))


def loss_in(output: Any) -> torch.Tensor:
    """Return the loss that a model gave: a scalar, the `loss` of an object or mapping, or the first scalar of a tuple.

    Raises NotAStep where there is none.
    """
    found = output
    if isinstance(output, Mapping):
        found = output.get("loss")
    elif hasattr(output, "loss"):
        found = output.loss
    elif isinstance(output, (tuple, list)):
        found = next((each for each in output if _scalar(each)), None)
    if _scalar(found):
        return found  # type: ignore[no-any-return]  # a tensor, as _scalar tells
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_of(output))
    what = f"tensors of shape {shapes}" if shapes else f"a {type(output).__name__} without a loss"
    raise NotAStep(
        f"the model returned {what}, but a step needs a scalar loss.",
        f"Pass one: forecast(model, (input, target), loss={_loss_of(output)}). Or compute it in the model, or in a "
        "function that does the step.",
        "Let the function return a model that computes its loss, or (model, (input, target), optimizer, loss), or let "
        "it do the step.",
    )


def _loss_of(output: Any) -> str:
    """Return a loss that takes such an output, as a program writes it: of a batch of sequences, each word's."""
    loss, several = "torch.nn.functional.cross_entropy", isinstance(output, (tuple, list))
    first, scores = next(iter(tensors_of(output)), None), "output[0]" if several else "output"
    if first is not None and first.dim() == 3:
        return f"lambda output, target: {loss}({scores}.flatten(0, 1), target.flatten())"
    return f"lambda output, target: {loss}({scores}, target)" if several else loss


def _scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and value.requires_grad


def _called(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def _built(builder: Any) -> nn.Module:
    model = builder() if callable(builder) else builder
    if not isinstance(model, nn.Module):
        raise NotAStep(
            f"the model is a {type(model).__name__}. Give a module, or a function without arguments that builds one."
        )
    return model


def _cast(batch: Any, dtype: torch.dtype) -> Any:
    """Return the batch with its floating-point tensors in another type."""
    if isinstance(batch, torch.Tensor):
        return batch.to(dtype) if batch.is_floating_point() else batch
    if isinstance(batch, Mapping):
        return {key: _cast(value, dtype) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(_cast(value, dtype) for value in batch)
    return batch
