"""How much of a difference rounding can explain: from the dtype, the length of the reduction and its condition."""

from __future__ import annotations

from math import prod, sqrt

from backsight.traces.distance import norm, unit
from backsight.traces.pairing import plain_name
from backsight.traces.records import Operation, Trace

PRODUCTS = frozenset(
    ("mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "convolution", "convolution_backward", "linear", "einsum")
)
SUMS = frozenset(("sum", "mean", "add", "sub", "_foreach_add", "_foreach_sub", "rsub", "cumsum", "var_mean"))

_FIRST = 4.0
"""Units in the last place that an operation without a reduction may be off by: `exp` and the like on other hardware."""

_MOST = 0.05
"""No result is off by more than that, whatever was estimated of its operation."""

_WORST = 1e3
"""The largest condition that is believed: it is estimated from norms."""


def rounding(trace: Trace, operation: Operation) -> float:
    """Return the largest relative difference that rounding explains in the results of an operation whose inputs agree.

    Errors of a sum of K terms grow like sqrt(K) when they are independent, relative to the size of its terms (Higham:
    Accuracy and Stability of Numerical Algorithms, 2002, 4.2): where terms cancel, relative to the result by more.
    """
    inputs = [trace.values[each] for each in operation.inputs]
    outputs = [trace.values[each] for each in operation.outputs]
    step = max((unit(each.dtype) for each in (*inputs, *outputs)), default=0.0)
    return min(_MOST, step * (_FIRST + sqrt(length(trace, operation)) / 4) * condition(trace, operation))


def left_of(trace: Trace, operation: Operation) -> float:
    """Return the norm of what rounding alone leaves of a sum whose terms cancel; 0 where nothing is summed."""
    values = [trace.values[each] for each in (*operation.inputs, *operation.outputs)]
    step = max((unit(each.dtype) for each in values), default=0.0)
    return step * (_FIRST + sqrt(length(trace, operation)) / 4) * _terms(trace, operation)


def length(trace: Trace, operation: Operation) -> float:
    """Return how many terms a result is the sum of, as the shapes say."""
    taken = sorted((prod(trace.values[each].shape) for each in operation.inputs), reverse=True)
    made = max((prod(trace.values[each].shape) for each in operation.outputs), default=0)
    if not taken or not made:
        return 1.0
    of_product = sqrt(taken[0] * taken[1] / made) if len(taken) > 1 and plain_name(operation.op) in PRODUCTS else 1.0
    return max(1.0, taken[0] / made, of_product)


def condition(trace: Trace, operation: Operation) -> float:
    """Return by how much the terms of a sum are larger than what is left of them."""
    terms = _terms(trace, operation)
    left = max((norm(trace, trace.values[each]) for each in operation.outputs), default=0.0)
    return max(1.0, min(terms / left, _WORST)) if terms and left else 1.0


def _terms(trace: Trace, operation: Operation) -> float:
    """Return the norm of the terms of a sum; 0 of what is none."""
    name = plain_name(operation.op)
    sizes = sorted((norm(trace, trace.values[each]) for each in operation.inputs), reverse=True)
    if not operation.outputs or name not in PRODUCTS | SUMS or not sizes:
        return 0.0
    if name in PRODUCTS and len(sizes) > 1:
        return sizes[0] * sizes[1] / sqrt(length(trace, operation))
    return sizes[0] / length(trace, operation) if name == "mean" else sizes[0]
