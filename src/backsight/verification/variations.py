"""`variations`: the circumstances in which a backward that is right may still be wrong.

A Function may look at its batch, at which inputs need a gradient, at the layout of what it gets, or keep something from
the first call. Each variation is the same operation at another point, which the usual test then judges. What a
variation changes of the values is only tried where forward shows that it may be: so that it says nothing of values that
the function is not made for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from backsight.findings import Severity
from backsight.verification.directions import drawn, size_of
from backsight.verification.errors import OutOfTime
from backsight.verification.operation import Kept
from backsight.verification.point import Point, Way, strided
from backsight.verification.sides import stays_within

MOST = 8
"""Of more inputs or outputs than this the first ones are asked for alone."""

NEAR, FAR = 0.05, 30.0
"""How far beside its values an input is moved, relative to their size, and how many times as large it is made."""

FINE = 1e-10

SECONDS = 10.0
"""No variation is begun after this time."""


class Variation(NamedTuple):
    """A point at which an operation is tested again: `where` is that in words, as they end a sentence.

    What a program can meet with the inputs that it has is an error, other values are a warning.
    """

    where: str
    point: Point
    severity: Severity = "error"


def variations(point: Point, generator: torch.Generator) -> Iterator[Variation]:
    """Yield those that apply to the operation at a point.

    Raises:
        OutOfTime: when they take too long.
    """
    ways: list[tuple[Callable[[], Point | None], str, Severity]] = [
        *(
            (lambda k=k: _alone(point, k), f"where `{name}` alone needs a gradient", "error")
            for k, name in _inputs(point)
        ),
        *((lambda k=k: _only(point, k), f"where output {k} alone has a gradient", "error") for k in _outputs(point)),
        (lambda: _together(point), "where the other inputs need a gradient too", "error"),
        (lambda: _moved(point, generator), "where the inputs are others than at the first call", "error"),
        (lambda: _again(point, point.values, Way(strided=True)), "where grad_output is not contiguous", "error"),
        (lambda: _strided(point), "where the inputs are not contiguous", "error"),
        (lambda: _first(point), "for a batch of one", "error"),
        (lambda: _repeated(point), "where an index is repeated", "warning"),
        (lambda: _enlarged(point), f"where the inputs are {FAR:g} times as large", "warning"),
    ]
    end = time.monotonic() + SECONDS
    for make, where, severity in ways:
        if time.monotonic() > end:
            raise OutOfTime("not in all of them, which would take too long")
        try:
            varied = make()
        except OutOfTime:
            raise
        except Exception:  # the function is not made for that
            continue
        if varied is not None and varied.outputs and all(bool(torch.isfinite(each).all()) for each in varied.outputs):
            yield Variation(where, varied, severity)


def _inputs(point: Point) -> Iterator[tuple[int, str]]:
    if len(point.wanted) > 1:
        for k in point.wanted[:MOST]:
            yield k, point.operation.argument(k)


def _outputs(point: Point) -> range:
    return range(min(MOST, len(point.outputs))) if len(point.outputs) > 1 else range(0)


def _again(point: Point, values: list[Any], way: Way = Way()) -> Point:  # noqa: B008  # frozen
    return Point(point.operation, values, point.clock, way)


def _alone(point: Point, position: int) -> Point:
    """`ctx.needs_input_grad` is true of one input alone."""
    return _asking(point, frozenset([position]))


def _together(point: Point) -> Point | None:
    """It is true of all that could have a gradient; those that were not asked for may well have none."""
    able = frozenset(k for k, each in enumerate(point.values) if _is_dense(each) and each.is_floating_point())
    return _asking(point, able | set(point.wanted)) if able - set(point.wanted) else None


def _asking(point: Point, wanted: frozenset[int]) -> Point:
    arguments = [
        replace(each, wanted=k in wanted) if type(each) is Kept else each
        for k, each in enumerate(point.operation.arguments)
    ]
    return Point(replace(point.operation, arguments=tuple(arguments)), point.values, point.clock)


def _only(point: Point, output: int) -> Point:
    return _again(point, point.values, Way(only=output))


def _strided(point: Point) -> Point | None:
    """Inputs in another layout, where forward does not mind."""
    varied = _again(point, [strided(each) if _is_dense(each) else each for each in point.values])
    return varied if _same(varied.outputs, point.outputs) else None


def _first(point: Point) -> Point | None:
    """The first sample, where forward treats each for itself.

    A vector of as many numbers as there are samples may be a parameter, such as the statistics of a batch norm: cut to
    one it would be too short for a kernel that does not look.
    """
    sizes = {each.shape[:1] for each in point.outputs}
    if len(sizes) != 1 or (size := sizes.pop()) in (torch.Size(), torch.Size([1])) or not size.numel():
        return None
    given = [each for each in point.values if isinstance(each, torch.Tensor) and each.shape[:1] == size]
    if any(each.dim() > 1 for each in given) and any(each.dim() == 1 and not _is_integer(each) for each in given):
        return None
    values = [each[:1] if isinstance(each, torch.Tensor) and each.shape[:1] == size else each for each in point.values]
    varied = _again(point, values)
    return varied if _same(varied.outputs, [each[:1] for each in point.outputs]) else None


def _moved(point: Point, generator: torch.Generator) -> Point | None:
    """Values beside those given, after a call with those: nothing of that may have been kept."""
    beside = point.at([each + NEAR * size_of(each) * drawn(each, generator) for each in point.inputs])
    return beside if stays_within(beside, point) else None


def _repeated(point: Point) -> Point | None:
    """Integers of which the second is the first again, unless they are a permutation, which must not repeat any."""
    indices = {k for k, each in enumerate(point.values) if _is_index(each)}
    if not indices:
        return None
    values = list(point.values)
    for k in indices:
        values[k] = values[k].clone(memory_format=torch.contiguous_format)
        values[k].view(-1)[1] = values[k].view(-1)[0]
    return _again(point, values)


def _enlarged(point: Point) -> Point | None:
    """In double precision, where large values do not hide in rounding, and where the outputs do not explode."""
    if point.eps > FINE:
        return None
    far = point.at([each * FAR for each in point.inputs])
    tame = all(size_of(a) <= FAR**3 * size_of(b) for a, b in zip(far.outputs, point.outputs, strict=True))
    return far if tame and stays_within(far, point) else None


def marked(point: Point, generator: torch.Generator) -> Iterator[tuple[int, str]]:
    """Yield the outputs that carry no gradient, and an input that each of them changes with."""
    passive = point.passive()
    here = passive.moved_together({})
    for output, values in enumerate(here):
        for k, each in enumerate(point.inputs):
            by = NEAR * size_of(each) * drawn(each, generator)
            if not torch.equal(passive.moved(k, by)[output], values):
                yield output, point.operation.argument(point.wanted[k])
                break


def _is_index(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() < 2 or not _is_integer(value):
        return False
    values = value.reshape(-1).sort().values
    return not torch.equal(values, torch.arange(values.numel(), device=value.device, dtype=value.dtype))


def _is_integer(value: torch.Tensor) -> bool:
    return value.dtype in (torch.int64, torch.int32)


def _is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and value.numel() > 1


def _same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    """Whether outputs are equal but for rounding."""
    return len(a) == len(b) and all(
        x.shape == y.shape and torch.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )
