"""`Step`: one node of the backward pass, told: what came, what the node does, what left."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from backsight.tape import Node
from backsight.tape.rows import dimensions, dtype_name
from backsight.walkthrough.arguments import argument_names
from backsight.walkthrough.check import Check, checked
from backsight.walkthrough.engine import Engine
from backsight.walkthrough.errors import WalkError
from backsight.walkthrough.formulas import Formula, formula
from backsight.walkthrough.gradient import Gradient
from backsight.walkthrough.jacobian import Jacobian, jacobians
from backsight.walkthrough.rebuilt import NotRebuilt, rebuilt
from backsight.walkthrough.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class Step:
    """One node of a walked backward pass.

    ```python
    step = walk.step()
    step.node.op, step.norm_in, step.norm_out       # ('Mean', 1.0, 0.3536)
    step.formula, step.words, step.jacobian, step.check
    ```

    `grad_in` has a `Gradient` for each output of the operation (None where none came), `grad_out` one for each of its
    inputs (None where none is needed). `number` counts the steps from 0. Formula, Jacobian and check are found when
    asked for, and the last two call the node again, which needs the graph to be there still.
    """

    number: int
    node: Node
    grad_in: tuple[Gradient | None, ...]
    grad_out: tuple[Gradient | None, ...]
    _engine: Engine = field(repr=False)

    @property
    def op(self) -> str:
        """What the node computes: the class of the module that made nothing else (`Dropout`), or autograd's name."""
        return self.node.graph.written.get(self.node.index, self.node.op)

    @property
    def norm_in(self) -> float:
        """The norm of all that came, taken together."""
        return _norm(self.grad_in)

    @property
    def norm_out(self) -> float:
        """The norm of all that left, taken together; of a leaf, of what it received."""
        return _norm(self.grad_out) if self.node.leaf is None else self.norm_in

    @property
    def finite(self) -> bool:
        """Whether all that left is finite, or, at a leaf, what it received."""
        return all(g.finite for g in (self.grad_in if self.node.leaf else self.grad_out) if g is not None)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The argument of the forward operation behind each of `grad_out`: `("self", "other")`."""
        return argument_names(self._live, self.formula)

    @cached_property
    def formula(self) -> Formula | None:
        """PyTorch's own formula; None for leaves, custom Functions and what PyTorch writes by hand."""
        return formula(self.node.name)

    @property
    def words(self) -> str:
        """What happens here, in a sentence; empty for a rare operation, whose `formula` tells."""
        if self.node.leaf is not None:
            return f"{self.node.leaf.label} receives its gradient: backward() would add it to .grad."
        if self.node.kind == "custom":
            where = f" ({self.node.definition})" if self.node.definition else ""
            return f"The backward of the custom Function {self.node.name.removesuffix('Backward')}{where} was called."
        return sentence(self.node.name)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the engine does beside the node: sums where paths meet and where the forward broadcast, and casts."""
        out = [f"{g.parts} gradients met here and were summed" for g in self.grad_in if g is not None and g.parts > 1]
        for name, g in zip(self.arguments, self.grad_out, strict=True):
            if g is not None and g.summed_from is not None:
                shapes = f"{dimensions(g.summed_from)} to {dimensions(g.shape)}"
                out.append(f"{name} was broadcast: its gradient is summed from {shapes}")
            if g is not None and g.cast_from is not None:
                out.append(f"the gradient of {name} is cast from {dtype_name(g.cast_from)} to {dtype_name(g.dtype)}")
        return tuple(out)

    @cached_property
    def jacobian(self) -> tuple[Jacobian, ...]:
        """The local Jacobian for each input that a gradient left for; in full where it is small.

        Raises:
            WalkError: if the node is a leaf's, if gradients are complex, or if the graph has been freed since.
        """
        if self.node.leaf is not None:
            raise WalkError(f"{self.node} is a leaf: nothing is computed there, so there is no Jacobian.")
        if any(g is not None and g.dtype.is_complex for g in (*self.grad_in, *self.grad_out)):
            raise WalkError(
                f"{self.node} has complex gradients. What it does to them is linear over the reals alone, so one "
                "complex matrix cannot show it; look at the node through torch.view_as_real."
            )
        return jacobians(self._call, self.grad_in, self.grad_out, self.arguments, self._device)

    @cached_property
    def check(self) -> Check:
        """Whether what the node returns is Jᵀ g, by `torch.func` on the operation put together from what it saved."""
        if self.node.leaf is not None:
            return Check(None, why="a leaf computes nothing")
        if self.node.kind != "op":
            return Check(None, why=f"a {self.node.kind} region does not say what its forward was")
        if any(g is not None and (g.dtype.is_complex or not g.finite) for g in (*self.grad_in, *self.grad_out)):
            return Check(None, why="complex or non-finite gradients have nothing to be compared with")
        try:
            operation = rebuilt(self._live, self.formula)
            if len(operation.inputs) != sum(g is not None for g in self.grad_out):
                return Check(None, why="the node leaves an input without gradient")
            gradients = self._gradients()
            results = [r for r in self._call(gradients) if r is not None]
            return checked(operation, gradients, results)
        except NotRebuilt as error:
            return Check(None, why=str(error))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:  # what torch.func cannot differentiate
            return Check(None, why=str(error).strip().split("\n")[0])

    def _gradients(self) -> list[torch.Tensor | None]:
        """Return the gradients that came; in place of those not kept, random ones."""
        generator = torch.Generator(self._device).manual_seed(0)
        return [
            None
            if g is None
            else g.value.detach()
            if g.value is not None
            else torch.randn(g.shape, dtype=g.dtype, device=self._device, generator=generator)
            for g in self.grad_in
        ]

    @property
    def _live(self) -> Any:
        """The autograd node itself, which the walk holds."""
        return self._engine.live.nodes[self.node.index]

    @property
    def _device(self) -> torch.device:
        return self.node.device or torch.device("cpu")

    def _call(self, gradients: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        return self._engine.call(self.node.index, gradients)

    def __str__(self) -> str:
        from backsight.walkthrough.card import card

        return card(self)


def _norm(gradients: tuple[Gradient | None, ...]) -> float:
    return float(sum(g.norm**2 for g in gradients if g is not None) ** 0.5)
