"""The right gradients of a layer, by autograd in double precision, and what they would be if a step were left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from backsight.tape.errors import describe
from backsight.verification.directions import wide

Replace = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
"""Makes another output of a module, its input and its output: of the same values, and with another derivative."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A layer with its input and the gradient of its output, in double precision.

    Of inputs, only those have a gradient that is `asked` for: a target has none.

    ```python
    reference.gradients()                       # {"weight_grad": ..., "bias_grad": ..., "input_grad": ...}
    reference.gradients(grad_out=ones)          # the same for another grad_out
    ```
    """

    layer: nn.Module
    inputs: tuple[torch.Tensor, ...]
    grad_out: torch.Tensor
    output: torch.Tensor
    asked: frozenset[str]

    @classmethod
    def of(
        cls, layer: nn.Module, inputs: tuple[torch.Tensor, ...], grad_out: torch.Tensor, asked: frozenset[str]
    ) -> Reference:
        """Run the layer forward.

        Raises:
            ValueError: if `grad_out` has not the shape of the output, or the layer is random.
        """
        inputs = tuple(wide(each.detach()) for each in inputs)
        made, again = (_forward(layer, _tensors(layer, False), inputs, seed) for seed in (0, 1))
        if not isinstance(made, torch.Tensor):
            raise ValueError(f"the layer returned a {type(made).__name__}; it has to return one tensor.")
        if not torch.allclose(made, again, rtol=0, atol=0, equal_nan=True):
            raise ValueError(
                "the layer is random (dropout, for instance): its gradient is another at each call. Call layer.eval() "
                "before."
            )
        if made.shape != grad_out.shape:
            raise ValueError(
                f"grad_out is a {describe(grad_out)}, and the layer returns a {describe(made.detach())}. grad_out is "
                "the gradient of the loss with respect to that output, and has its shape."
            )
        return cls(layer, inputs, wide(grad_out.detach()), made.detach(), asked)

    @property
    def samples(self) -> int:
        """The size of the first dimension of the output: of a batch, as a rule."""
        return self.output.shape[0] if self.output.dim() > 1 else 1

    def gradients(
        self, grad_out: torch.Tensor | None = None, replace: Replace | None = None
    ) -> dict[str, torch.Tensor]:
        """Return the gradient of each parameter and input, for another `grad_out`, or with steps replaced."""
        tensors = _tensors(self.layer, True)
        inputs = tuple(each.detach().clone() for each in self.inputs)
        named = ("input_grad",) if len(inputs) == 1 else tuple(f"input_grad[{k}]" for k in range(len(inputs)))
        for name, x in zip(named, inputs, strict=True):
            x.requires_grad_(_is_real(x) and name in self.asked)
        with torch.enable_grad(), _replaced(self.layer, replace):
            output = _forward(self.layer, tensors, inputs, 0)
        wanted = {f"{name}_grad": each for name, each in tensors.items() if each.requires_grad}
        wanted |= {name: x for name, x in zip(named, inputs, strict=True) if x.requires_grad}
        given = self.grad_out if grad_out is None else grad_out
        found = torch.autograd.grad(output, list(wanted.values()), given, allow_unused=True)
        return {
            name: torch.zeros_like(x) if g is None else g.detach()
            for (name, x), g in zip(wanted.items(), found, strict=True)
        }

    def value_of(self, name: str) -> torch.Tensor:
        """Return the parameter or input that a gradient belongs to."""
        number = self._number(name)
        return _tensors(self.layer, False)[name.removesuffix("_grad")] if number is None else self.inputs[number]

    def output_with(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Run the layer with another value of that; what autograd records of it is the caller's."""
        tensors, inputs = _tensors(self.layer, True), list(self.inputs)
        number = self._number(name)
        if number is None:
            tensors[name.removesuffix("_grad")] = value
        else:
            inputs[number] = value
        output: torch.Tensor = _forward(self.layer, tensors, tuple(inputs), 0)
        return output

    def _number(self, name: str) -> int | None:
        """Which input a gradient belongs to; None for that of a parameter."""
        if not name.startswith("input_grad"):
            return None
        return int(name.removeprefix("input_grad").strip("[]") or 0)


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _tensors(layer: nn.Module, recorded: bool) -> dict[str, torch.Tensor]:
    """Return copies of the parameters and buffers in double precision."""
    parameters = {name: wide(each.detach().clone()) for name, each in layer.named_parameters()}
    buffers = {name: wide(each.detach().clone()) for name, each in layer.named_buffers()}
    return {name: each.requires_grad_(recorded) for name, each in parameters.items()} | buffers


def _forward(layer: nn.Module, tensors: Mapping[str, torch.Tensor], inputs: tuple[torch.Tensor, ...], seed: int) -> Any:
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        return functional_call(layer, dict(tensors), inputs)


@contextmanager
def _replaced(layer: nn.Module, replace: Replace | None) -> Iterator[None]:
    """Let the modules inside of a layer return what `replace` makes of their outputs."""
    if replace is None:
        yield
        return

    def hook(module: nn.Module, given: tuple[Any, ...], output: Any) -> Any:
        return replace(module, given[0], output) if isinstance(output, torch.Tensor) and given else output

    handles = [module.register_forward_hook(hook) for module in layer.modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
