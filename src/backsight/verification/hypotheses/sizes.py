"""Whether a factor is a size: the operation is tried again with more entries along a dimension, or another integer.

A factor of 2 may be the 2 of a square, or the number of groups. Which it is, is said where that holds at all sizes that
were tried; where the operation takes no other sizes, only that the two are equal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from backsight.verification.case import Case, Known
from backsight.verification.differences import central, step_for
from backsight.verification.directions import drawn, size_of
from backsight.verification.documented import direction_of
from backsight.verification.operation import Kept
from backsight.verification.point import Point
from backsight.verification.trial import pulled
from backsight.verification.wording import times

MOST, LARGEST, SECONDS = 12, 1 << 14, 1.5
"""So many other sizes are tried, of tensors of so many entries at most; none is begun after that time."""

CLOSE = 1e-4

NO_SIZE = "The factor stays the same at other sizes, so it is not a size."

Factor: TypeAlias = Callable[[Point], float | None]
"""Measures the factor at a point; None where it is not the same in every entry."""


class Tried(NamedTuple):
    """The operation with another size: `of` is what was changed, from `old` to `new`, and `factor` that found there."""

    point: Point
    of: str
    old: int
    new: int
    factor: float


class Size(NamedTuple):
    """A number of entries, or an integer that is given: its name, how it is written, and its value at a point."""

    name: str
    text: str
    at: Callable[[Point], int]


class Told(NamedTuple):
    """What is said of the sizes that a factor may be, and what undoes it; nothing where sizes do not tell.

    `constant` says whether the factor is the same at all sizes that were tried.
    """

    lines: list[str]
    constant: bool
    undone: str = ""


def told(case: Case, factor: float, measured: Factor) -> Told:
    """Say which size a factor is, or that it is none; nothing of sizes that it has nothing to do with."""
    alike = [
        (size, formula)
        for size in _known(case)
        if size.at(case.point) > 1
        for formula, of in _FORMULAS.items()
        if _is(factor, of(size.at(case.point)))
    ]
    if not alike and not _rational(factor):
        return Told([], True)
    tried = list(_tried(case, measured)) if Known.BACKWARD in case.known else []
    changed = [each for each in tried if not _is(each.factor, factor)]
    holding = [
        (size, formula)
        for size, formula in alike
        if all(_is(each.factor, _FORMULAS[formula](size.at(each.point))) for each in tried)
    ]
    sure = [pair for pair in holding if any(pair[0].at(each.point) != pair[0].at(case.point) for each in tried)]
    if changed and sure:
        return Told([_said(case, *sure[0])], False, _undone(case, *sure[0]))
    if changed:
        lines = [
            f"The factor depends on {each.of}: with {each.new} instead of {each.old} it is "
            f"{times(each.factor, words=False)}."
            for each in changed[:2]
        ]
        fix = f"Find what makes the gradient of `{case.argument}` depend on that size; a fixed number does not undo it"
        return Told(lines, False, fix)
    if holding:  # what could not be tried
        plain = [(size, formula) for size, formula in holding if formula in ("n", "1/n")]
        which, names = _plain(max(factor, 1 / factor)), list(dict.fromkeys(size.name for size, _ in plain))
        if names:
            line = f"{which} is also {_or(names)}; whether that is the reason could not be tried."
            return Told([line], True, f"{_undone(case, *plain[0])} if that is the reason, else by {which}")
        return Told([], True)
    return Told([NO_SIZE] * bool(alike), True)


def sizes_of(case: Case) -> dict[str, int]:
    """Return the sizes that a factor may be, by name."""
    return {size.name: size.at(case.point) for size in _known(case)}


def tried_at(case: Case, measured: Factor) -> Iterator[tuple[Point, float]]:
    """Yield the operation with other sizes, and the factor there."""
    yield from ((each.point, each.factor) for each in _tried(case, measured))


def whole_factor(case: Case) -> Factor:
    """Return how the factor of a whole gradient is measured: along two directions, which must agree."""

    def measured(point: Point) -> float | None:
        generator = torch.Generator().manual_seed(0)
        us = drawn_for(case, point, generator)
        pull = pulled(point, us)
        found = []
        for _ in range(2):
            direction = direction_of(point, case.number, generator)
            right, size = central(point, {case.number: direction}, us, step_for(point, case.number))
            if abs(right) < 1e-3 * size:
                return None
            found.append(pull.along(case.number, direction) / right)
        return found[0] if _is(found[0], found[1]) else None

    return measured


def drawn_for(case: Case, point: Point, generator: torch.Generator) -> list[torch.Tensor]:
    """Draw a grad_output at another point, for the outputs that the case looks at."""
    us = [drawn(each, generator) for each in point.outputs]
    return [u if k in case.outputs else torch.zeros_like(u) for k, u in enumerate(us)]


def _said(case: Case, size: Size, formula: str) -> str:
    n = size.at(case.point)
    if size.name.startswith("`"):
        return f"The factor is {formula}, where n = {n} is {size.name}; this also holds for other values."
    if formula == "n":
        return f"It is multiplied by {n}, {size.name}: a sum where the mean belongs?"
    if formula == "1/n":
        return f"It is divided by {n}, {size.name}: a mean where the sum belongs?"
    return f"The factor is {formula}, where n = {n} is {size.name}; this also holds for other sizes."


def _undone(case: Case, size: Size, formula: str) -> str:
    how = "Multiply" if formula == "1/n" else "Divide"
    by = f"`{size.text}`" if formula in ("n", "1/n") else f"{formula}, where n is `{size.text}`"
    return f"{how} the gradient of `{case.argument}` by {by}"


def _plain(factor: float) -> str:
    return times(factor, words=False).removesuffix(" times")


def _rational(factor: float) -> bool:
    """Whether a factor may be made of sizes in a way that is none of the formulas."""
    return any(_is(factor * k, round(factor * k)) for k in range(1, 257) if round(factor * k))


def _known(case: Case) -> Iterator[Size]:
    """The sizes that a factor may be."""
    mine, output = case.point.wanted[case.number], case.outputs[0]
    given = case.grad_output if output == 0 else "output"  # which has the shape of the output
    yield from _of_shape("the input", case.argument, case.input.dim(), lambda point: point.inputs[case.number].shape)
    yield from _of_shape("the output", given, case.output.dim(), lambda point: point.outputs[output].shape)
    for k, each in enumerate(case.point.values):
        text = case.operation.argument(k)
        name = f"`{text}`"
        if isinstance(each, torch.Tensor) and k != mine:
            yield from _of_shape(name, text, each.dim(), partial(_shape_of, k))
        elif type(each) is int:
            yield Size(name, text, partial(_integer, k))


def _of_shape(name: str, text: str, dims: int, shape: Callable[[Point], torch.Size]) -> Iterator[Size]:
    """The number of entries along each dimension, along two of them, and of all."""
    along = "the number of entries along"
    for d in range(dims):
        yield Size(f"{along} dimension {d} of {name}", f"{text}.shape[{d}]", partial(_along, shape, (d,)))
    if dims > 1:
        yield Size(f"the number of entries of {name}", f"{text}.numel()", partial(_along, shape, tuple(range(dims))))
    for a, b in combinations(range(dims), 2) if dims > 2 else ():
        both = f"{text}.shape[{a}] * {text}.shape[{b}]"
        yield Size(f"{along} dimensions {a} and {b} of {name}", both, partial(_along, shape, (a, b)))


def _along(shape: Callable[[Point], torch.Size], dims: tuple[int, ...], point: Point) -> int:
    return math.prod(shape(point)[d] for d in dims)


def _shape_of(number: int, point: Point) -> torch.Size:
    found: torch.Size = point.values[number].shape
    return found


def _integer(number: int, point: Point) -> int:
    return int(point.values[number])


def _tried(case: Case, measured: Factor) -> Iterator[Tried]:
    get_ready()
    end = time.perf_counter() + SECONDS
    for of, old, new, values in islice(_others(case), MOST):
        if time.perf_counter() > end:
            return
        if made := _at(case, measured, values):
            yield Tried(made[0], of, old, new, made[1])


def _others(case: Case) -> Iterator[tuple[str, int, int, list[Any]]]:
    """Yield other values of all arguments: what was changed, from what to what, and the values.

    A dimension alone, and with all others of its size, where these have to fit; an integer, and 1.
    """
    point = case.point
    mine = point.wanted[case.number]
    tensors = [(k, each) for k, each in enumerate(point.values) if isinstance(each, torch.Tensor)]
    places = [(k, d) for k, each in sorted(tensors, key=lambda pair: pair[0] != mine) for d in range(each.dim())]
    seen = set()
    for k, d in places:
        old = point.values[k].shape[d]
        if old < 2 or point.values[k].numel() > LARGEST:
            continue
        alike = frozenset(place for place in places if point.values[place[0]].shape[place[1]] == old)
        for grown in (frozenset({(k, d)}), alike):
            if grown not in seen:
                seen.add(grown)
                of = " and ".join(
                    f"dimension {dim} of `{case.operation.argument(at)}`" for at, dim in sorted(grown)[:3]
                )
                values = [_doubled(each, at, grown) for at, each in enumerate(point.values)]
                yield f"the size of {of}", old, 2 * old, values
    for k, value in enumerate(point.values):
        if type(value) is int and value > 1:
            for new in (2 * value, 1):
                values = [*point.values[:k], new, *point.values[k + 1 :]]
                yield f"`{case.operation.argument(k)}`", value, new, values


def _at(case: Case, measured: Factor, values: list[Any]) -> tuple[Point, float] | None:
    """Return the operation with other values, and the factor there; None where it is not made for them."""
    point = case.point
    try:
        pairs = zip(point.operation.arguments, values, strict=True)
        arguments = tuple(replace(kept, value=value) if type(kept) is Kept else value for kept, value in pairs)
        with Fitting():
            there = Point(replace(point.operation, arguments=arguments), values, point.clock, point.way)
            factor = measured(there)
    except Exception:  # the user's function; or the time is over, and what is said has to do without
        return None
    return None if factor is None else (there, factor)


def _doubled(value: Any, number: int, places: frozenset[tuple[int, int]]) -> Any:
    """Twice as many entries along some dimensions, the new ones near the old ones."""
    for dim in range(value.dim() if isinstance(value, torch.Tensor) else 0):
        if (number, dim) in places:
            more = value
            if value.is_floating_point() or value.is_complex():
                more = value + 0.1 * size_of(value) * drawn(value, torch.Generator().manual_seed(dim))
            value = torch.cat([value, more], dim)
    return value


def _is(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * abs(b)


def _or(names: list[str]) -> str:
    return " or ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} or {names[-1]}"


_FORMULAS: dict[str, Callable[[int], float]] = {
    "n": lambda n: n,
    "1/n": lambda n: 1 / n,
    "(n - 1)/n": lambda n: (n - 1) / n,
    "n/(n - 1)": lambda n: n / (n - 1) if n > 1 else 0,
    "n - 1": lambda n: n - 1,
    "1/(n - 1)": lambda n: 1 / (n - 1) if n > 1 else 0,
    "(n - 1)/2": lambda n: (n - 1) / 2,
    "2/(n - 1)": lambda n: 2 / (n - 1) if n > 1 else 0,
    "(n + 1)/2": lambda n: (n + 1) / 2,
    "2/(n + 1)": lambda n: 2 / (n + 1),
    "n²": lambda n: n * n,
    "1/n²": lambda n: 1 / (n * n),
    "n/2": lambda n: n / 2,
    "2/n": lambda n: 2 / n,
    "√n": lambda n: n**0.5,
    "1/√n": lambda n: n**-0.5,
    "n(n - 1)/2": lambda n: n * (n - 1) / 2,
    "2/(n(n - 1))": lambda n: 2 / (n * (n - 1)) if n > 1 else 0,
    "(n + 1)/n": lambda n: (n + 1) / n,
    "n/(n + 1)": lambda n: n / (n + 1),
    "-n": lambda n: -n,
    "-1/n": lambda n: -1 / n,
}


class Fitting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """Within it an operation raises, and does not run, where its arguments do not fit one another.

    Not every kernel asks: that of `native_batch_norm` writes behind the end of statistics which are too short, and the
    process dies of it later. The kernels for the meta device, which have shapes and no memory, refuse sizes that do
    not fit.

    ```python
    with Fitting():
        function(*tensors_of_other_sizes)
    ```
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "aten" and not func.is_view and not _BY_VALUE.intersection(func.tags):
            _ask(func, args, kwargs)
        return func(*args, **kwargs)


def get_ready() -> None:
    """Load what operations are asked with: at the first of a process PyTorch imports its compiler, for seconds."""
    with Fitting():
        torch.zeros(1, device="cpu") + 1


_BY_VALUE = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def _ask(func: Any, args: Any, kwargs: Any) -> None:
    """Call an operation for its shapes alone; lets pass what it raises of arguments that do not fit."""
    given = tree_leaves((args, kwargs))
    if any(isinstance(each, torch.Tensor) and each.layout != torch.strided for each in given):
        return
    if any(isinstance(each, torch.Generator) for each in given):  # of the CPU, which an operation on meta refuses
        return
    args, kwargs = tree_map_only(torch.Tensor, _shape, (args, kwargs))
    args, kwargs = tree_map_only(torch.device, lambda _: torch.device("meta"), (args, kwargs))
    with suppress(NotImplementedError):  # there is no kernel for meta tensors
        func(*args, **kwargs)


def _shape(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
