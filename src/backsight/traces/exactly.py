"""Operations of a trace, run again in float64 on the values that it kept: whether rounding is all that differs.

Only operators of PyTorch that compute a result from what they are given are run, on copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, prod
from typing import Any

import numpy as np
import torch

from backsight.tape import no_torch_dispatch, no_torch_function
from backsight.traces.arguments import tensors_in, written
from backsight.traces.distance import Distances
from backsight.traces.origins import Origin, differing
from backsight.traces.pairing import VIEWS, plain_name
from backsight.traces.records import Operation, Trace

_ELEMENTWISE = (
    *("add", "sub", "rsub", "mul", "div", "neg", "exp", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "square"),
    *("reciprocal", "pow", "tanh", "sigmoid", "relu", "leaky_relu", "gelu", "silu", "elu", "erf", "sin", "cos", "abs"),
    *("sign", "clamp", "clamp_min", "clamp_max", "where", "masked_fill", "maximum", "minimum", "lerp", "addcmul"),
    *("addcdiv", "softplus", "hardtanh", "clone", "_to_copy", "detach", "alias", "log_sigmoid_forward"),
    *("threshold_backward", "gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward", "elu_backward"),
    *("leaky_relu_backward", "hardtanh_backward", "softplus_backward", "native_dropout_backward"),
)
_REDUCING = (
    *("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution", "convolution_backward"),
    *("sum", "mean", "var", "std", "var_mean", "amax", "amin", "cumsum", "linalg_vector_norm", "logsumexp"),
    *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm"),
    *("native_layer_norm_backward", "native_group_norm", "native_group_norm_backward", "native_batch_norm"),
    *("native_batch_norm_backward", "nll_loss_forward", "nll_loss_backward", "mse_loss", "mse_loss_backward"),
    *("binary_cross_entropy_with_logits", "embedding", "embedding_dense_backward", "cat", "stack", "gather"),
    *("index_select", "avg_pool2d", "upsample_nearest2d", "upsample_bilinear2d"),
)
RUN_AGAIN = frozenset((*_ELEMENTWISE, *_REDUCING, *VIEWS))
"""Operators that are run again."""

_UNSAID = frozenset(("device", "layout", "memory_format", "pin_memory", "non_blocking"))
"""Arguments that say where and how a tensor lies, and nothing of its numbers."""

_LARGEST = 1 << 26
"""Elements of a tensor that is computed again; where a trace asks for more, it is left alone."""


@dataclass(frozen=True)
class Exactly:
    """What float64 says of a pair of results, all relative to their norm.

    formula: how far apart the results are if both are computed in float64 from the same inputs.
    errors: how far the results of A and of B are from their own in float64.
    """

    formula: float
    errors: tuple[float, float]

    @property
    def same_formula(self) -> bool:
        """Whether both compute the same: in float64 less than a thousandth of what rounding left of it differs."""
        return self.formula <= max(1e-12, 1e-3 * max(self.errors))

    @property
    def equally_good(self) -> bool:
        """Whether neither result is much further from float64 than the other, and both are near it."""
        return max(self.errors) <= min(_FAR, _WORSE * max(min(self.errors), _ROUNDED))


_WORSE = 30.0
"""By how much one result may be further from float64 than the other, before it counts as less precise."""

_FAR = 2.0**-5
"""Beyond this no result counts as rounded: one of the two programs has not computed what its trace says."""

_ROUNDED = 2.0**-24
"""Where one result is exact by luck, the other is still only rounded."""


def measured_exactly(origin: Origin, distances: Distances) -> Exactly | None:
    """Run what an origin is about again in float64; None where values were not kept, or it cannot be run again."""
    if origin.kind not in ("operation", "program") or (origin.kind == "program" and origin.before):
        return None
    a, b = distances.a, distances.b
    x, y = origin.values
    with no_torch_function(), no_torch_dispatch(), torch.no_grad():
        first, second = _kept(a, x), _kept(b, y)
        if first is None or second is None or first.shape != second.shape:
            return None
        if origin.kind == "program":
            ours, theirs = _again(a, origin.only_a, x), _again(b, origin.only_b, y)
            formula = None if ours is None or theirs is None else _apart(ours, theirs)
        else:
            assert origin.a is not None and origin.b is not None
            ours, theirs = _again(a, [origin.a], x), _again(b, [origin.b], y)
            formula = _formula(origin, distances, ours)
        if ours is None or theirs is None or formula is None:
            return None
        return Exactly(formula, (_apart(first, ours), _apart(second, theirs)))


def _formula(origin: Origin, distances: Distances, ours: torch.Tensor | None) -> float | None:
    """Return how far B's operation is from A's if it is given what A's was given."""
    assert origin.a is not None and origin.b is not None
    if not differing(origin.a, origin.b):
        return 0.0
    y = origin.values[1]
    if len(origin.a.inputs) != len(origin.b.inputs) or y not in origin.b.outputs or ours is None:
        return None
    given = dict(zip(origin.b.inputs, (_kept(distances.a, each) for each in origin.a.inputs), strict=True))
    theirs = _again(distances.b, [origin.b], y, given)
    return None if theirs is None or theirs.shape != ours.shape else _apart(ours, theirs)


def _again(
    trace: Trace,
    operations: Sequence[Operation],
    wanted: int,
    given: Mapping[int, torch.Tensor | None] | None = None,
) -> torch.Tensor | None:
    """Run operations in float64, and return the value that is wanted."""
    known: dict[int, torch.Tensor | None] = dict(given or {})
    for operation in operations:
        if plain_name(operation.op) not in RUN_AGAIN or not operation.op.startswith("aten."):
            return None
        inputs = [known[each] if each in known else _kept(trace, each) for each in operation.inputs]
        try:
            made = _run(operation, inputs)
        except Exception:  # another PyTorch, or a trace that says what cannot be: then nothing is measured
            return None
        known.update(zip(operation.outputs, made, strict=False))
    return known[wanted] if wanted in known else _kept(trace, wanted)


class _Cannot(Exception):
    """An operation cannot be run again."""


def _run(operation: Operation, inputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    func: Any = torch.ops
    for name in operation.op.split("."):
        func = getattr(func, name)
    taken = [None if each is None else each.clone() for each in inputs]  # some operators write to what they are given
    kwargs = {name: _argument(name, value, taken) for name, value in operation.given.items() if name not in _UNSAID}
    result = func(**kwargs)
    targets = written(func, (), kwargs)
    own = {id(each) for each in targets}
    made = [*targets, *(each for each in tensors_in(result) if id(each) not in own)]
    if any(each.numel() > _LARGEST for each in made):
        raise _Cannot
    return made


def _argument(name: str, given: Any, inputs: Sequence[torch.Tensor | None]) -> Any:
    if isinstance(given, dict):
        held = inputs[given["in"]]
        if held is None:
            raise _Cannot
        return held
    if isinstance(given, list):
        if "…" in given or prod(abs(each) for each in given if type(each) is int and each) > _LARGEST:
            raise _Cannot
        return [_argument(name, each, inputs) for each in given]
    if name in ("dtype", "input_dtype", "out_dtype") and isinstance(given, str):
        dtype = getattr(torch, given)
        return torch.float64 if dtype.is_floating_point else dtype
    return given


def _kept(trace: Trace, number: int) -> torch.Tensor | None:
    """Return a value that was kept whole: in float64, if it is of floating point at all."""
    value = trace.values[number]
    array = trace.kept.get(value.mark)
    dtype = getattr(torch, value.dtype, None)
    if array is None or not isinstance(dtype, torch.dtype) or dtype.is_complex or array.size != prod(value.shape):
        return None
    held = torch.from_numpy(np.array(array, order="C")).reshape(value.shape)
    return held.to(torch.float64 if dtype.is_floating_point else dtype)


def _apart(x: torch.Tensor, y: torch.Tensor) -> float:
    p, q = x.to(torch.float64), y.to(torch.float64)
    if p.shape != q.shape:
        return inf
    alike = (p == q) | (p.isnan() & q.isnan())
    difference = float(torch.where(alike, 0.0, p - q).norm())
    size = max(float(p.nan_to_num(0, 0, 0).norm()), float(q.nan_to_num(0, 0, 0).norm()))
    if not difference:
        return 0.0
    return difference / size if size and isfinite(difference) else inf
