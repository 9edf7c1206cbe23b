"""PyTorch's own database of operators as a test set: every differentiable sample as an operation to test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from backsight.verification.operation import Kept, Operation, flattened


@dataclass(frozen=True)
class Sample:
    """One call of an operator, as `gradcheck` would make it: symmetric matrices stay symmetric."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def operation(self, function: Callable[..., Any] | None = None) -> Operation:
        """The call as a recorder would keep it."""
        flat, spec = flattened(self.args, self.kwargs)
        kept = (Kept(t.detach().clone(), t.requires_grad) if isinstance(t, torch.Tensor) else t for t in flat)
        return Operation(self.name, function or self.function, tuple(kept), spec)

    def of_inputs(self) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
        """The call as a function of the tensors that require a gradient, and these."""
        flat, spec = tree_flatten((self.args, self.kwargs))
        wanted = [k for k, t in enumerate(flat) if isinstance(t, torch.Tensor) and t.requires_grad]

        def call(*tensors: torch.Tensor) -> Any:
            leaves = list(flat)
            for k, tensor in zip(wanted, tensors, strict=True):
                leaves[k] = tensor
            args, kwargs = tree_unflatten(leaves, spec)
            return self.function(*args, **kwargs)

        return call, tuple(flat[k] for k in wanted)


def samples(each: int, shard: int = 0, shards: int = 1) -> Iterator[Sample]:
    """Yield the first few float64 samples of every differentiable operator, or of each so-many-th."""
    from operators import operators

    for op in operators()[shard::shards]:
        if not op.supports_autograd or torch.float64 not in op.supported_backward_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), each))
        for sample in found:
            yield Sample(op.name, _called(op, sample), (sample.input, *sample.args), dict(sample.kwargs))


def _called(op: Any, sample: Any) -> Callable[..., Any]:
    after = sample.output_process_fn_grad or (lambda output: output)
    return lambda *args, **kwargs: after(op.gradcheck_wrapper(op.get_op(), *args, **kwargs))
