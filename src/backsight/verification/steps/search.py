"""`found`: the alteration of a step, or of two, that makes autograd return a given gradient."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import torch

from backsight.verification.steps.alterations import (
    constant,
    exponent,
    left_out,
    passed_on,
    with_stand_in,
    without,
)
from backsight.verification.steps.bounds import added, masked
from backsight.verification.steps.loops import RUNS, carried, in_runs
from backsight.verification.steps.numbers import NOT_ADDED
from backsight.verification.steps.places import (
    Move,
    coordinates,
    in_reverse,
    integers,
    out_in_reverse,
    repeated_otherwise,
    starts,
    taken,
    with_integer,
)
from backsight.verification.steps.replay import OPERANDS, Forward, run_stepwise
from backsight.verification.steps.step import Step, Stepping
from backsight.verification.steps.substitutions import Substitutions
from backsight.verification.steps.table import (
    ALTERATIONS,
    EARLIER,
    FACTOR,
    IN_RUNS,
    INTEGER,
    MASKED,
    OF_RUN,
    PASSED_SCALED,
    PATHS,
    REPEATED,
    REVERSED,
    REVERSED_OUT,
    SCALED,
    SCALED_BOTH,
    TAKEN,
    UP_TO,
    WHOLE,
)
from backsight.verification.steps.telling import Found, named, operand
from backsight.verification.wording import number as shown
from backsight.verification.wording import times

SECONDS = 2.5
"""Processor time for all of it: what explains most, and costs least, is tried first."""

MOST_PAIRED = 20
MOST_DIMENSIONS = 6

RUNNING = frozenset({"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"})

LARGEST = 1 << 20
"""In all runs together so many places are looked at."""

PLACES = "With those places, the returned gradient is reproduced."


def found(
    forward: Forward,
    x: torch.Tensor,
    draws: Sequence[Sequence[torch.Tensor]],
    given: Sequence[torch.Tensor],
    is_given: Callable[[int, torch.Tensor], bool],
    arguments: Mapping[str, torch.Tensor],
) -> Found | None:
    """Return the first alteration that makes the gradient of `x` the given one.

    Args:
        forward: the forward that is differentiated.
        x: its input.
        draws: gradients of its outputs.
        given: the wrong gradients, one for each draw.
        is_given: whether a gradient is, closely enough, the one given for draw number k.
        arguments: the tensors that forward got, by name.
    """
    asked = (forward, x, draws, given, is_given, arguments, time.thread_time() + SECONDS)
    search = _Search(*asked)
    if (mistake := search.first()) is None and search.idle:
        mistake = _Search(*asked, cut=search.idle).first()
    return mistake


def repeated(
    mistake: Found,
    forward: Forward,
    x: torch.Tensor,
    draws: Sequence[Sequence[torch.Tensor]],
    given: Sequence[torch.Tensor],
    is_given: Callable[[int, torch.Tensor], bool],
    arguments: Mapping[str, torch.Tensor],
) -> Found | None:
    """Return a mistake that was found with another input or other values of a forward, if it explains this gradient."""
    if mistake.alteration not in ALTERATIONS and mistake.again is None:
        return None
    asked = (forward, x, draws, given, is_given, arguments, time.thread_time() + SECONDS)
    search = _Search(*asked)
    same = search.again(mistake)
    return same or (_Search(*asked, cut=search.idle).again(mistake) if search.idle else None)


def factor_of(
    mistake: Found, forward: Forward, x: torch.Tensor, us: Sequence[torch.Tensor], given: torch.Tensor
) -> float | None:
    """Return the factor by which the same derivative is off at another point, as at other sizes."""

    def is_given(_: int, gradient: torch.Tensor) -> bool:
        return torch.allclose(gradient, given, rtol=1e-5, atol=1e-5 * float(given.abs().max()))

    return _Search(forward, x, [us], [given], is_given, {}, time.thread_time() + SECONDS).factor_in(mistake)


LEFT_OUT = next(each for each in ALTERATIONS if each.alter is left_out)


class _Search(Substitutions):
    """The ways to alter a forward, the simplest first, until the time is over."""

    def first(self) -> Found | None:
        """The first alteration that explains the gradient."""
        ways = (
            self.by_table,
            self.as_a_whole,
            self.up_to,
            self.by_factor,
            self.by_paths,
            self.by_intermediate,
            self.by_constant,
            self.by_mask,
            self.by_place,
            self.by_order,
            self.by_numbers,
            self.by_run,
            self.by_carried,
            self.by_integer,
            self.by_index,
            self.by_set,
            self.in_two_steps,
            self.by_common_factor,
            self.by_output,
            self.by_stand_in,
            self.by_branch,
            self.by_two_factors,
            self.by_tensor_factor,
        )
        return next((mistake for way in ways if (mistake := way()) is not None), None)

    def by_table(self) -> Found | None:
        """One step, with a mistake of the table."""
        for alteration in ALTERATIONS:
            for key, number in self._operands():
                if self._applies(alteration, key, number) and self._fits_altered((key,), alteration.alter, number):
                    return Found(alteration, self._steps[key], number, self._in_order)
        return None

    def again(self, mistake: Found) -> Found | None:
        """A mistake that was found with another input."""
        if mistake.again is not None:
            return mistake.again(self)
        alteration, key, number = mistake.alteration, mistake.step.key, mistake.operand
        if key in self._steps and self._fits_altered((key,), alteration.alter, number):
            return Found(alteration, self._steps[key], number, self._in_order)
        return None

    def by_factor(self) -> Found | None:
        """One step, with a derivative that is off by a factor."""
        for key, number in self._operands():
            lacking = self._gradients((key,), without, number)
            for told, whole in ((SCALED, self._right), (PASSED_SCALED, self._gradients((key,), passed_on, number))):
                if lacking is None or whole is None or (factor := self._factor(lacking, whole)) is None:
                    continue
                if self._fits([a + factor * (b - a) for a, b in zip(lacking, whole, strict=True)]):
                    words = {"factor": times(factor), "inverse": times(1 / factor, words=False)}
                    return Found(told, self._steps[key], number, self._in_order, words=words, factor=factor)
        return None

    def factor_in(self, mistake: Found) -> float | None:
        """The factor of a mistake that was found in another run of the same forward."""
        keys = [each.key for each in (mistake.step, mistake.beside) if each is not None]
        alone = mistake.beside is None
        lacking = self._gradients(keys, without if alone else constant, mistake.operand)
        passed = mistake.alteration is PASSED_SCALED
        whole = self._gradients(keys, passed_on, mistake.operand) if passed else self._right
        if lacking is None or whole is None or (factor := self._factor(lacking, whole, same=True)) is None:
            return None
        fits = self._fits([a + factor * (b - a) for a, b in zip(lacking, whole, strict=True)])
        return factor if fits else None

    def by_common_factor(self) -> Found | None:
        """Two steps, both with a derivative that is off by one factor: a mean and a deviation."""
        for pair in combinations(list(self._steps)[:MOST_PAIRED], 2):
            lacking = self._gradients(pair, constant, 0)
            if lacking is None or (factor := self._factor(lacking, self._right)) is None:
                continue
            if self._fits([a + factor * (b - a) for a, b in zip(lacking, self._right, strict=True)]):
                words = {"factor": times(factor), "inverse": times(1 / factor, words=False)}
                first, second = (self._steps[each] for each in reversed(pair))
                return Found(SCALED_BOTH, first, 0, self._in_order, beside=second, words=words, factor=factor)
        return None

    def by_paths(self) -> Found | None:
        """Two operands of one step, each path counted a number of times."""
        for key, step in self._steps.items():
            if step.operand(0) is None or step.operand(1) is None:
                continue
            lacking = [self._gradients((key,), without, number) for number in (0, 1)]
            if lacking[0] is None or lacking[1] is None:
                continue
            parts = [[a - b for a, b in zip(self._right, each, strict=True)] for each in lacking if each is not None]
            rest = [a - b - c for a, b, c in zip(self._right, *parts, strict=True)]
            first, second = _counted(self._given - rest[0], parts[0][0], parts[1][0])
            whole = abs(first - round(first)) < 1e-5 and abs(second - round(second)) < 1e-5
            if whole and self._fits([r + first * a + second * b for r, a, b in zip(rest, *parts, strict=True)]):
                return Found(
                    PATHS, step, 0, self._in_order, words={"first": str(round(first)), "second": str(round(second))}
                )
        return None

    def by_intermediate(self) -> Found | None:
        """The right gradient, divided or multiplied by the result of a step."""
        for step in self._steps.values():
            try:
                factor = step.result.detach().expand(self._x.shape)
            except RuntimeError:  # it does not broadcast to the input
                continue
            if bool((factor == 1).all()):
                continue
            for has, changed, gradients in (
                ("divided", "multiplied", [each / factor for each in self._right]),
                ("multiplied", "divided", [each * factor for each in self._right]),
            ):
                if self._fits(gradients):
                    return Found(FACTOR, step, 0, self._in_order, words={"has": has, "changed": changed})
        return None

    def as_a_whole(self) -> Found | None:
        """The whole derivative where its transpose is right."""
        last = next(iter(self._steps.values()), None)
        if last is None or any(len(us) != 1 or us[0].shape != self._x.shape for us in self._draws):
            return None
        outputs, leaf = run_stepwise(Stepping(cut=self._cut), self._forward, self._x)
        u = torch.zeros_like(outputs[0]).requires_grad_()
        (pulled,) = torch.autograd.grad(outputs[0], leaf, u, create_graph=True)
        if not pulled.requires_grad:
            return None
        pushed = [torch.autograd.grad(pulled, u, us[0], retain_graph=True)[0] for us in self._draws]
        return Found(WHOLE, last, 0, self._in_order) if self._fits(pushed) else None

    def up_to(self) -> Found | None:
        """All that is computed before one step, taken for the input itself."""
        for key, step in self._steps.items():
            if step.result.shape != self._x.shape or step.result.dtype != self._x.dtype:
                continue
            if self._fits_altered((key,), constant, 0, of_input=True):
                return Found(UP_TO, step, 0, self._in_order)
        return None

    def in_two_steps(self) -> Found | None:
        """Two steps, each with an operand that is taken for a constant, as mean and deviation."""
        alone = next(each for each in ALTERATIONS if each.alter is constant)
        for pair in combinations(list(self._steps)[:MOST_PAIRED], 2):
            if self._fits_altered(pair, constant, 0):
                return Found(alone, self._steps[pair[1]], 0, self._in_order, beside=self._steps[pair[0]])
        operands = [(k, n) for k, n in self._operands() if self._steps[k].operand(n) is not None][:MOST_PAIRED]
        for (a, first), (b, second) in combinations(operands, 2):
            numbers = {a: first, b: second}
            if a != b and self._fits_altered((a, b), lambda step, _, at=numbers: without(step, at[step.key]), 0):
                return Found(LEFT_OUT, self._steps[b], second, self._in_order, beside=self._steps[a])
        return None

    def by_mask(self) -> Found | None:
        """Of a step that chooses, the entries that are masked otherwise: each is one of two, and the gradient tells."""
        for key, step in self._steps.items():
            where = step.name == "where"
            mask = step.args[0] if where else None
            if where and (not isinstance(mask, torch.Tensor) or len(step.args) != 3):
                continue
            yes, no = (
                self._gradients((key,), lambda each, _, on=on: masked(each, torch.full(self._x.shape, on)), 0)
                for on in (True, False)
            )
            if yes is None or no is None or step.result.shape != self._x.shape:
                continue
            chosen = self._chosen(yes, no)
            right = self._chosen(yes, no, self._right)
            if chosen is None or right is None or torch.equal(chosen, right):
                continue
            if self._fits_altered((key,), lambda each, _, chosen=chosen: masked(each, chosen), 0):
                return Found(MASKED, step, 0, self._in_order, words=self._told_of_mask(chosen, right))
        return None

    def _chosen(self, yes: Any, no: Any, given: Any = None) -> torch.Tensor | None:
        """Which entries are those of a mask of ones, the others being those of zeros; None where some are neither."""
        given = self._all_given if given is None else given
        scale = max(float(each.abs().max()) for each in given) or 1.0
        ones = [(a - g).abs() <= 1e-6 * scale for a, g in zip(yes, given, strict=True)]
        zeros = [(a - g).abs() <= 1e-6 * scale for a, g in zip(no, given, strict=True)]
        one, zero = torch.stack(ones).all(0), torch.stack(zeros).all(0)
        return one if bool((one | zero).all()) else None

    def _told_of_mask(self, chosen: torch.Tensor, right: torch.Tensor) -> dict[str, str]:
        turned = chosen != right
        places = [
            name
            for name, each in self._arguments.items()
            if each.shape == chosen.shape and not each.is_complex() and torch.equal(each > 0, chosen)
        ]
        tensor = f" It is open where `{places[0]}` is positive." if len(places) == 1 else ""
        between = _between(self._x, turned)
        return {"count": f"{int(turned.sum())} of {turned.numel()}", "between": between, "tensor": tensor}

    def by_integer(self) -> Found | None:
        """One step, with another integer: a stride, a diagonal, a dimension."""
        for key, step in self._steps.items():
            for place, old, new in integers(step):
                if self._fits_altered((key,), lambda each, _, at=place, new=new: with_integer(each, at, new), 0):
                    words = {"old": str(old), "new": str(new)}
                    return Found(INTEGER, step, 0, self._in_order, words=words)
        return None

    def by_place(self) -> Found | None:
        """One step, which takes its entries from places beside, or where a stride is forgotten."""
        for key, step in self._steps.items():
            for dims, where, was, moves in _moves(self._runs[key]):
                if self._fits_altered((key,), lambda each, _, moves=moves: taken(each, moves), 0):
                    words = {"where": where, "was": was, "dimensions": _dimensions(dims)}
                    return Found(TAKEN, step, 0, self._in_order, words=words)
        return None

    def by_order(self) -> Found | None:
        """One step, whose result or derivative comes in reverse order, or whose result is repeated in another one."""
        if found := self._out_in_reverse([each for each in self._operands() if self._steps[each[0]].name in RUNNING]):
            return found
        for key, step in self._steps.items():
            dims = range(min(step.result.dim(), MOST_DIMENSIONS))
            for turned in (*((dim,) for dim in dims), *combinations(dims, 2)):
                if in_reverse(step, turned) is None:
                    continue
                if self._fits_altered((key,), lambda each, _, turned=turned: in_reverse(each, turned), 0):
                    words = {"dimensions": _dimensions(turned)}
                    return Found(REVERSED, step, 0, self._in_order, words=words)
            for dim in dims:
                if self._fits_altered((key,), repeated_otherwise, dim):
                    each = step.name == "repeat_interleave"
                    ways = ("each entry one after the other", "all of them in turn")
                    words = {"dimension": str(dim), "was": ways[not each], "other": ways[each]}
                    return Found(REPEATED, step, 0, self._in_order, words=words)
        return self._out_in_reverse(self._operands())

    def _out_in_reverse(self, operands: Iterable[tuple[Hashable, int]]) -> Found | None:
        for key, number in operands:
            step = self._steps[key]
            x = step.operand(number)
            for dim in range(min(x.dim(), MOST_DIMENSIONS) if x is not None else 0):

                def alter(each: Step, k: int, dims: tuple[int, ...] = (dim,)) -> torch.Tensor | None:
                    return out_in_reverse(each, k, dims)

                if self._may_be(key, alter, number) and self._fits_altered((key,), alter, number):
                    words = {"dimension": str(dim)}
                    return Found(REVERSED_OUT, step, number, self._in_order, words=words)
        return None

    def by_numbers(self) -> Found | None:
        """Several sums with one number, such as eps above and below a line, that are left out together."""
        sums: dict[float, list[Hashable]] = {}
        for key, step in self._steps.items():
            if (number := added(step)) is not None:
                sums.setdefault(number, []).append(key)
        for keys in sums.values():
            if len(keys) == 2 and self._fits_altered(keys, NOT_ADDED.alter, 0):
                first, second = (self._steps[key] for key in reversed(keys))
                return Found(NOT_ADDED, first, 0, self._in_order, beside=second)
        return None

    def by_run(self) -> Found | None:
        """A step of a loop that is a constant in some of its runs: in all but the last, in the first."""
        for key, number in self._operands():
            step, count = self._steps[key], len(self._runs[key])
            if count < 2:
                continue
            ways = [(constant, "{step}")] * (not number) + [(without, "{operand} of {step}")]
            for which, chosen in RUNS.items():
                for alter, what in ways:
                    if self._fits_altered((key,), in_runs(alter, chosen, count), number):
                        at = {"step": self._named(step), "operand": operand(step, number)}
                        words = {"which": which, "count": str(count), "what": what.format(**at)}
                        return Found(IN_RUNS, step, number, self._in_order, words=words)
        return None

    def by_carried(self) -> Found | None:
        """A step of a loop, differentiated with the state of another run: the new one where the last one belongs."""
        for key, number in self._operands():
            for other in carried(self._runs, key, number):

                def alter(step: Step, k: int, operands: Any = other.operands) -> torch.Tensor | None:
                    return with_stand_in(step, k, operands[step.run])

                if self._fits_altered((key,), alter, number):
                    step = self._steps[key]
                    fix = other.fix.format(step=self._named(step))
                    words = {"which": other.which, "origin": self._named(other.origin), "other": other.of, "fix": fix}
                    return Found(OF_RUN, step, number, self._in_order, words=words)
        return None

    def by_constant(self) -> Found | None:
        """Something that forward computes without the input, such as a target, in the form that it had before."""
        for key, step in self._constants.items():
            earlier = [(f"the result of {self._named(each)}", each.result) for each in self._constants.values()]
            operands = enumerate(step.args[:OPERANDS])
            own = [(f"{operand(step, k)} of it", each) for k, each in operands if isinstance(each, torch.Tensor)]
            given = [(f"`{name}`", each) for name, each in self._arguments.items()]
            for name, other in (*own, *given, *earlier):
                if other is step.result or other.shape != step.result.shape or other.dtype != step.result.dtype:
                    continue
                if self._fits_altered((key,), lambda *_, other=other: other.detach().clone(), 0):
                    return Found(EARLIER, step, 0, self._in_order, words={"stand_in": name})
        return None


def _counted(given: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    """How many times each of two parts is in what is given, as least squares tell."""
    parts = torch.stack([torch.view_as_real(x).reshape(-1) if x.is_complex() else x.reshape(-1) for x in (a, b)], 1)
    given = torch.view_as_real(given).reshape(-1) if given.is_complex() else given.reshape(-1)
    first, second = torch.linalg.lstsq(parts, given[:, None]).solution[:, 0].tolist()
    return first, second


def _between(x: torch.Tensor, chosen: torch.Tensor) -> str:
    """Say in which range these entries lie, if none of the others lies there: of the values, or of their sizes."""
    if x.is_complex():
        return ""
    for values, name in ((x, "`{argument}`"), (x.abs(), "|{argument}|")):
        low, high = values[chosen].min(), values[chosen].max()
        if torch.equal((values >= low) & (values <= high), chosen) and low < high:
            return f", where {name} lies between {shown(low)} and {shown(high)}"
    return ""


def _moves(runs: Sequence[Step]) -> Iterator[tuple[tuple[int, ...], str, str, dict[int, Move]]]:
    """Yield other places to take entries from: along which dimensions, in words, what it is, and the moves."""
    step = runs[0]
    try:
        if taken(step, {}) is None or step.args[0].numel() * len(runs) > LARGEST:
            return
        dims = tuple(range(step.args[0].dim()))
        begins = dict(enumerate(starts(runs)))
        strides = {dim: _stride(step, dim) for dim in dims}
    except Exception:  # an operation that does not take integers
        return
    for dim in dims:
        for where, by in (("one place later", 1), ("one place earlier", -1)):
            yield (dim,), where, PLACES, {dim: partial(_shifted, by)}
    gaps = {dim: min((b - a for a, b in pairwise(known)), default=1) for dim, known in begins.items()}
    even = [dim for dim in dims if gaps[dim] > 1 and all((k - begins[dim][0]) % gaps[dim] == 0 for k in begins[dim])]
    for some in _together(even):
        gap, known = gaps[some[0]], begins[some[0]]
        for new in _strides(gap, int(coordinates(step)[some[0]].max()) + 1 - known[0]):
            where = f"from {_few(k // gap * new for k in known)} on in its runs"
            moves: dict[int, Move] = {dim: partial(_begun, gaps[dim], new) for dim in some}
            yield some, where, f"It takes them from {_few(known)} on.", moves
    for dim in (dim for dim in dims if len(begins[dim]) > 1):
        known = begins[dim]
        where = f"from {_few(reversed(known))} on in its runs"
        yield (dim,), where, f"It takes them from {_few(known)} on.", {dim: partial(_mirrored, known[0] + known[-1])}
    if step.name == "unfold" and len(step.args) == 4:
        dim, size, stride = step.args[1] % len(dims), step.args[2], step.args[3]
        for new in _strides(stride, size):
            where = f"in windows that start {new} apart"
            yield (dim,), where, f"They start {stride} apart.", {dim: partial(_windowed, stride, new)}
    apart = [dim for dim in dims if strides[dim] > 1]
    for some in _together(apart):
        told = " and ".join(str(strides[dim]) for dim in some)
        moves = {dim: partial(_beside, strides[dim]) for dim in some}
        yield some, "side by side", f"It takes them {told} apart.", moves


def _together(dims: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all dimensions, and each alone."""
    if dims:
        yield from dict.fromkeys((tuple(dims), *((dim,) for dim in dims)))


def _strides(stride: int, size: int) -> list[int]:
    """Return what a stride is taken for: 1, the size of a window, one more or less."""
    return [each for each in dict.fromkeys((1, size, stride + 1, stride - 1)) if each > 0 and each != stride]


def _shifted(by: int, places: torch.Tensor) -> torch.Tensor:
    return places + by


def _begun(gap: int, new: int, places: torch.Tensor) -> torch.Tensor:
    return places - places.min() + places.min() // gap * new


def _mirrored(ends: int, places: torch.Tensor) -> torch.Tensor:
    return places - places.min() + ends - places.min()


def _windowed(stride: int, new: int, places: torch.Tensor) -> torch.Tensor:
    begin = places.amin(-1, keepdim=True)
    return places - begin + begin // stride * new


def _beside(stride: int, places: torch.Tensor) -> torch.Tensor:
    return places.min() + (places - places.min()) // stride


def _dimensions(dims: Sequence[int]) -> str:
    return f"dimension{'s' * (len(dims) > 1)} {' and '.join(map(str, dims))}"


def _few(numbers: Iterable[int]) -> str:
    first = list(map(str, numbers))
    return ", ".join(first[:3]) + ", …" * (len(first) > 3)


def _stride(step: Step, dimension: int) -> int:
    """How far the entries are apart that an indexing takes along a dimension of its operand; 0 where unequally."""
    places: torch.Tensor = torch.unique(coordinates(step)[dimension])
    gaps: torch.Tensor = torch.unique(places.diff())
    return int(gaps) if gaps.numel() == 1 else 0


def numbers_in(forward: Callable[[torch.Tensor], Any], x: torch.Tensor) -> list[tuple[str, float]]:
    """Return the numbers that a forward computes, or multiplies and divides by, each with what it is."""
    stepping = Stepping()
    outputs, _ = run_stepwise(stepping, forward, x)
    steps = (*stepping.constants.values(), *stepping.steps.values())
    found = []
    for step in reversed(steps):
        if (power := exponent(step)) is not None:
            found.append((f"the exponent of {named(step, steps)}", power))
        elif (says := _SCALING.get(step.name)) is not None:
            numbers = (each for each in step.args if isinstance(each, int | float) and not isinstance(each, bool))
            found += [(f"{says} {named(step, steps)}", float(each)) for each in numbers]
        real = step.result.numel() == 1 and step.result.is_floating_point()
        if real and not any(step.result is each for each in outputs) and len(stepping.runs[step.key]) == 1:
            found.append((f"the result of {named(step, steps)}", float(step.result)))
    return found


def counts_in(forward: Callable[[torch.Tensor], Any], x: torch.Tensor) -> dict[str, float]:
    """Return the numbers that a forward counts without its input, as the rows of a mask, by what they are."""
    stepping = Stepping()
    run_stepwise(stepping, forward, x)
    known = tuple(stepping.in_order.values())
    return {
        f"the result of {named(step, known)}": float(step.result)
        for step in (*stepping.integers.values(), *stepping.constants.values())
        if step.name in ("sum", "count_nonzero") and step.result.numel() == 1 and not step.result.is_complex()
    }


def last_step(forward: Callable[[torch.Tensor], Any], x: torch.Tensor) -> str:
    """Return the name of the step that makes the output of a forward; "" where that is none."""
    stepping = Stepping()
    outputs, _ = run_stepwise(stepping, forward, x)
    return next((step.name for step in stepping.steps.values() if step.result is outputs[0]), "")


_SCALING = {
    "mul": "the number in",
    "rmul": "the number in",
    "div": "the divisor of",
    "truediv": "the divisor of",
    "true_divide": "the divisor of",
}
