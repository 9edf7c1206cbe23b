"""`Point`: an operation called again at some values, with its graph, so that both sides of the test can be computed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import torch

from backsight.tape import load_forward_mode
from backsight.verification._torch import seed
from backsight.verification.directions import equal, precision, wide
from backsight.verification.errors import CannotTest, OutOfTime, raised
from backsight.verification.operation import Kept, Operation, tensors_of

FORWARD_SEED = 0
BACKWARD_SEED = 1000
"""Random numbers drawn in a forward are the same at each call, so that dropout drops the same entries; those drawn in
a backward differ from call to call, so that a backward that draws them is seen to differ."""


class Way(NamedTuple):
    """How a backward is called: with gradients that are `strided`, not contiguous, or for output `only` alone.

    The others then get no gradient at all, which a Function sees as None or zeros.
    """

    strided: bool = False
    only: int | None = None


class Clock:
    """Says when the time is over."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def tick(self) -> None:
        """Raises:
        OutOfTime: when the time is over.
        """
        if time.monotonic() > self._end:
            raise OutOfTime(f"verify ran out of its {self.seconds:g} s; allow more with seconds=")


class Point:
    """An operation at some values of its arguments.

    ```python
    point = Point.of(operation, clock)          # in double precision where the operation takes it
    gradients = point.pulled(us)                # Jᵀ u, by the backward of the operation
    there = point.moved(0, 1e-6 * direction)    # the outputs with the first input moved
    ```

    `inputs` are the values of the arguments that a gradient is wanted for, `wanted` their positions among the arguments
    of the operation; `outputs` those outputs that carry a gradient, without their graph. `only_once` is set where a
    backward spoils its graph: each then gets a new one.
    """

    def __init__(self, operation: Operation, values: list[Any], clock: Clock, way: Way = Way()):  # noqa: B008  # frozen
        self.operation = operation
        self.way = way
        self.values = values
        self.clock = clock
        self.wanted = operation.wanted
        self.inputs = [values[k] for k in self.wanted]
        self.devices = frozenset(each.device.type for each in values if isinstance(each, torch.Tensor))
        self.changed_grad_output = False
        self.only_once = False
        self._calls = 0
        self._triangles: dict[int, bool] = {}
        self._leaves = [each.detach().requires_grad_() for each in self.inputs]
        self._written: tuple[int, ...] = ()
        self._copy = True
        self._run()

    @classmethod
    def of(cls, operation: Operation, clock: Clock) -> Point:
        """Return the point at which the operation was recorded; in double precision where it takes that.

        Raises:
            CannotTest: if the operation raises when it is called again.
        """
        try:
            return cls(operation, _values(operation, wide), clock)
        except CannotTest:
            raise
        except Exception:  # whatever the user's function raises at a dtype it does not take
            pass
        try:
            return cls(operation, _values(operation, torch.clone), clock)
        except CannotTest:
            raise
        except Exception as error:
            raise CannotTest(f"called a second time, it raises {raised(error)}") from None

    def at(self, inputs: Sequence[torch.Tensor]) -> Point:
        """Return the point with these inputs."""
        values = list(self.values)
        for number, (k, each) in enumerate(zip(self.wanted, inputs, strict=True)):
            values[k] = (each + each.mH) / 2 if self.reads_one_triangle(number) else each
        point = Point(self.operation, values, self.clock, self.way)
        point._calls = self._calls  # its backwards get seeds that were not used yet
        point._triangles = self._triangles
        return point

    def passive(self) -> Point:
        """Return the point with those outputs for its own that carry no gradient, and could: only to be moved."""
        point = copy(self)
        point._carrying = self._passive
        return point

    @property
    def eps(self) -> float:
        """The relative precision of the coarsest number in it."""
        return precision([*self.inputs, *self.outputs])

    @property
    def node(self) -> Any:
        """The autograd node of the operation, if it has one output."""
        return self._live[0].grad_fn if len(self._live) == 1 else None

    def pulled(self, us: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        """Return Jᵀ u for each input: what the backward of the operation makes of `us`; None where it gives none."""
        self.clock.tick()
        if self.only_once and self._calls:
            self._run()
        self._calls += 1
        seed(BACKWARD_SEED + self._calls, self.devices)
        given = [strided(u) if self.way.strided else u.clone() for u in us]
        found = torch.autograd.grad(self._live, self._leaves, given, retain_graph=True, allow_unused=True)
        self.changed_grad_output |= not all(equal(a, b) for a, b in zip(given, us, strict=True))
        return [g if g is None else self._own(g) for g in found]

    def reads_one_triangle(self, number: int) -> bool:
        """Whether an input of a custom Function is a symmetric matrix of which its forward reads one triangle alone.

        Its gradient may be that of the triangle, or symmetric: only the symmetric parts of the two are equal.
        """
        if number not in self._triangles:
            x = self.inputs[number]
            self._triangles[number] = self.operation.definition is not None and is_symmetric(x) and self._lacks_one(x)
        return self._triangles[number]

    def _lacks_one(self, x: torch.Tensor) -> bool:
        number, size = next(k for k, each in enumerate(self.inputs) if each is x), float(x.abs().max())
        by = 1e-4 * size * (1 + torch.arange(x.numel(), device=x.device).reshape(x.shape) % 7).to(x.dtype)
        try:
            here = self.moved(number, None)
            changed = [
                any(not equal(a, b) for a, b in zip(here, self.moved(number, each), strict=True))
                for each in (by.triu(1), by.tril(-1))
            ]
        except CannotTest:
            raise
        except Exception:  # both are read, and a matrix that is not symmetric is refused
            return False
        return changed[0] != changed[1]

    def moved(self, number: int, by: torch.Tensor | None) -> list[torch.Tensor]:
        """Return the outputs with input number `number` moved by `by`."""
        return self.moved_together({} if by is None else {number: by})

    def moved_together(self, by: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs with several inputs moved at once, each by its own."""
        self.clock.tick()
        values = self._passed()
        for number, each in by.items():
            values[self.wanted[number]] = self.inputs[number] + each
        differentiates = self.operation.differentiates
        if differentiates:
            for k in self.wanted:
                values[k] = values[k].detach().requires_grad_()
        seed(FORWARD_SEED, self.devices)
        with torch.set_grad_enabled(differentiates):
            found = self._outputs(self.operation.call(values), values)
        return [found[k].detach() if differentiates else found[k] for k in self._carrying]

    def tangent(self, number: int, direction: torch.Tensor) -> list[torch.Tensor]:
        """Return J v by forward-mode differentiation.

        Raises:
            RuntimeError, NotImplementedError: where an operation has no formula for it.
        """
        from torch.autograd import forward_ad

        # torch leaves both untyped
        make_dual: Any = forward_ad.make_dual
        unpack_dual: Any = forward_ad.unpack_dual

        load_forward_mode()
        values = self._passed()
        seed(FORWARD_SEED, self.devices)
        with torch.no_grad(), forward_ad.dual_level():
            values[self.wanted[number]] = make_dual(self.inputs[number], direction)
            found = self._outputs(self.operation.call(values), values)
            pairs = [unpack_dual(found[k]) for k in self._carrying]
            return [torch.zeros_like(each.primal) if each.tangent is None else each.tangent for each in pairs]

    def _own(self, gradient: torch.Tensor) -> torch.Tensor:
        """Make a gradient dense, and a user's one a copy: it may be a tensor that its next backward changes."""
        if gradient.layout is not torch.strided:
            return gradient.to_dense()
        return gradient if self.operation.definition is None else gradient.clone()

    def _run(self) -> None:
        values = [each.clone() if isinstance(each, torch.Tensor) else each for each in self.values]
        with torch.enable_grad():
            for k, leaf in zip(self.wanted, self._leaves, strict=True):
                values[k] = leaf.clone()  # no leaf: the operation may work in place
            seed(FORWARD_SEED, self.devices)
            given = list(values)
            result = self.operation.call(values)
        returned = tensors_of(result)
        changed = [k for k, each in enumerate(given) if isinstance(each, torch.Tensor) and each._version]
        self._copy = bool(changed)
        silently = tuple(k for k in changed if not any(given[k] is each for each in returned))
        # A Function must tell which of its arguments it changes; PyTorch's own do, as Tensor.__setitem__ does.
        self.changed_inputs = tuple(k for k in silently if k in self.wanted) if self.operation.custom else ()
        self._written = () if self.operation.custom else silently
        found = self._outputs(result, given)
        carrying = [k for k, each in enumerate(found) if each.requires_grad and _is_differentiable(each)]
        self._carrying = carrying if self.way.only is None else carrying[self.way.only : self.way.only + 1]
        self._passive = [k for k, each in enumerate(found) if not each.requires_grad and _is_differentiable(each)]
        self._live = [found[k] for k in self._carrying]
        self.outputs = [each.detach() for each in self._live]

    def _outputs(self, result: Any, given: Sequence[Any]) -> list[torch.Tensor]:
        return [*tensors_of(result), *(given[k] for k in self._written)]

    def _passed(self) -> list[Any]:
        if not self._copy:
            return list(self.values)
        return [each.clone() if isinstance(each, torch.Tensor) else each for each in self.values]


def is_symmetric(x: torch.Tensor) -> bool:
    """Whether a tensor is made of symmetric (or Hermitian) matrices with something beside their diagonals."""
    if x.dim() < 2 or x.shape[-1] != x.shape[-2] or not x.numel() or not bool(x.triu(1).any()):
        return False
    return torch.allclose(x, x.mH, rtol=1e-5, atol=1e-6 * float(x.abs().max()))


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is not contiguous: turned in memory, or with other entries between its own."""
    if tensor.dim() > 1 and tensor.shape[-1] > 1 < tensor.shape[-2]:
        return tensor.detach().mT.clone(memory_format=torch.contiguous_format).mT
    return torch.stack([tensor.detach(), tensor.detach() + 1], dim=-1)[..., 0]


def _values(operation: Operation, cast: Any) -> list[Any]:
    return [_testable(each, cast) if type(each) is Kept else each for each in operation.arguments]


def _testable(kept: Kept, cast: Any) -> torch.Tensor:
    tensor = kept.value
    if tensor.layout is not torch.strided:
        if kept.wanted:
            raise CannotTest(
                f"an input is {str(tensor.layout).removeprefix('torch.')}, which has no directions to perturb"
            )
        return tensor
    if tensor.is_nested or tensor.is_quantized or tensor.is_meta:
        raise CannotTest("an input is a nested, quantized or meta tensor")
    if type(tensor) is not torch.Tensor:
        raise CannotTest(f"an input is a {type(tensor).__name__}, a subclass of Tensor")
    moved: torch.Tensor = cast(tensor)
    return moved


def _is_differentiable(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and (tensor.is_floating_point() or tensor.is_complex())
