"""`Substitutions`: a tensor of a derivative is another, a sum runs over others, one of several ways back is wrong."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from itertools import combinations
from typing import Any

import torch

from backsight.verification.steps.alteration import Alteration, on_one_way
from backsight.verification.steps.alterations import left_out, with_stand_in, without
from backsight.verification.steps.bounds import DIVISIONS
from backsight.verification.steps.first_order import inner
from backsight.verification.steps.numbers import NUMBERS
from backsight.verification.steps.replay import PRECISE, Replay
from backsight.verification.steps.step import INDICES, Step
from backsight.verification.steps.substitutes import (
    Summed,
    at_index,
    derived_at_index,
    forms,
    indices,
    normalized_over,
    over,
    summed,
)
from backsight.verification.steps.table import (
    ALTERATIONS,
    AT_INDEX,
    FORWARD_AT_INDEX,
    OF_OUTPUT_OTHER,
    OTHER_NORM,
    OTHER_SUM,
    READ_AT_INDEX,
    SCALED_APART,
    STAND_IN,
    TIMES_TENSOR,
)
from backsight.verification.steps.telling import Found, operand
from backsight.verification.wording import times

FEWEST = 6
"""So many numbers must be explained: where there are many candidates, one of them fits fewer by chance."""

MOST_SUMMED = 3
CLOSE = 1e-5

POWERS = (1, -1, 2, -2, 3, -3)

ON_ONE_WAY = tuple(each for each in ALTERATIONS if each not in NUMBERS and each.alter is not left_out)


class Substitutions(Replay):
    """The ways in which a derivative is computed with something else that is at hand."""

    def by_stand_in(self) -> Found | None:
        """One step, differentiated with another tensor of the same shape."""
        for key, step in self._steps.items():
            for number, old in enumerate(step.args[:2]):
                if not isinstance(old, torch.Tensor):
                    continue
                for name, other in self._tensors.items():
                    if _could_be(other, old) and (found := self._stood_in(key, number, name)):
                        return found
        return None

    def _stood_in(self, key: Hashable, number: int, name: str) -> Found | None:
        step, other = self._steps.get(key), self._tensors.get(name)
        if step is None or other is None:
            return None

        def alter(each: Step, k: int) -> torch.Tensor | None:
            return with_stand_in(each, k, other)

        if not self._may_be(key, alter, number) or not self._fits_altered((key,), alter, number):
            return None
        words = {"stand_in": name, "old": self._called(step.args[number]) or operand(step, number)}
        return self._found(STAND_IN, step, number, words, lambda search: search._stood_in(key, number, name))

    def by_output(self) -> Found | None:
        """The derivative of a step in terms of its output, with another tensor for that: a deviation and its eps."""
        for key, step in self._steps.items():
            for k, _ in enumerate(forms(step)):
                for name, other in self._tensors.items():
                    if _could_be(other, step.result) and (found := self._of_output(key, k, name)):
                        return found
        return None

    def _of_output(self, key: Hashable, k: int, name: str) -> Found | None:
        step, other = self._steps.get(key), self._tensors.get(name)
        if step is None or other is None:
            return None
        where, substituted = list(forms(step))[k]

        def alter(each: Step, _: int) -> torch.Tensor | None:
            return substituted(each, other)

        if not self._may_be(key, alter, 0) or not self._fits_altered((key,), alter, 0):
            return None
        words = {"stand_in": name, "where": where}
        return self._found(OF_OUTPUT_OTHER, step, 0, words, lambda search: search._of_output(key, k, name))

    def by_index(self) -> Found | None:
        """An indexing whose derivative has another tensor of integers, or whose entries are others in a derivative."""
        for key, step in (*self._steps.items(), *self._constants.items()):
            for which, old in enumerate(indices(step)):
                for name, other in self._indices.items():
                    if other.shape == old.shape and other.dtype == old.dtype and not torch.equal(other, old):
                        for way in (self._derived_at, self._read_at, self._run_at):
                            if found := way(key, which, name):
                                return found
        return None

    def _derived_at(self, key: Hashable, which: int, name: str) -> Found | None:
        step, other = self._steps.get(key), self._indices.get(name)
        if step is None or other is None:
            return None

        def alter(each: Step, _: int) -> torch.Tensor | None:
            return derived_at_index(each, which, other)

        if not self._may_be(key, alter, 0) or not self._fits_altered((key,), alter, 0):
            return None
        words = {"stand_in": name, "old": self._index(step, which)}
        return self._found(AT_INDEX, step, 0, words, lambda search: search._derived_at(key, which, name))

    def _read_at(self, key: Hashable, which: int, name: str) -> Found | None:
        read, other = self._step(key), self._indices.get(name)
        if read is None or other is None or (made := _tried_at(read, which, other)) is None:
            return None
        for user, step in self._steps.items():
            for number, each in enumerate(step.args):
                if each is not read.result:
                    continue

                def alter(it: Step, k: int) -> torch.Tensor | None:
                    return with_stand_in(it, k, made)

                if self._may_be(user, alter, number) and self._fits_altered((user,), alter, number):
                    words = {"stand_in": name, "old": self._index(read, which), "origin": self._named(read)}
                    return self._found(
                        READ_AT_INDEX, step, number, words, lambda search: search._read_at(key, which, name)
                    )
        return None

    def _run_at(self, key: Hashable, which: int, name: str) -> Found | None:
        step, other = self._step(key), self._indices.get(name)
        if step is None or other is None or _tried_at(step, which, other) is None:
            return None

        def alter(each: Step, _: int) -> torch.Tensor | None:
            made = at_index(each, which, other)
            return None if made is None else made.detach() + (each.result - each.result.detach())

        if not self._fits_altered((key,), alter, 0):
            return None
        words = {"stand_in": name, "old": self._index(step, which)}
        return self._found(FORWARD_AT_INDEX, step, 0, words, lambda search: search._run_at(key, which, name))

    def by_set(self) -> Found | None:
        """A sum whose derivative is that of a sum over other entries: all of them, and not those of one index."""
        for key, step in self._steps.items():
            if (dims := step.result.dim()) > MOST_SUMMED or len(self._runs[key]) > 1:
                continue
            every = [some for count in range(1, dims + 1) for some in combinations(range(dims), count)]
            if self._sums(step) is not None:
                for some in reversed(every):
                    if found := self._summed_over(key, some):
                        return found
        return None

    def _summed_over(self, key: Hashable, dims: tuple[int, ...]) -> Found | None:
        step = self._steps.get(key)
        known = None if step is None else self._sums(step)
        if step is None or known is None:
            return None
        for told, make in ((OTHER_NORM, normalized_over), (OTHER_SUM, over)):
            alter = make(dims, known)
            if self._may_be(key, alter, 0) and self._fits_altered((key,), alter, 0):
                words = {
                    "dimensions": f"dimension{'s' * (len(dims) > 1)} {' and '.join(map(str, dims))}",
                    "kind": "mean" if known.mean else "sum",
                    "operand": operand(step, known.number).capitalize(),
                }
                return self._found(told, step, known.number, words, lambda search: search._summed_over(key, dims))
        return None

    def _sums(self, step: Step) -> Summed | None:
        try:
            return summed(step) if len(step.args) > 1 else None
        except Exception:  # an operation may refuse to be differentiated alone
            return None

    def by_tensor_factor(self) -> Found | None:
        """One operand of a step, whose derivative has a power of a tensor as a factor too many: a norm, a deviation."""
        if not self._tells or self._x.dtype not in PRECISE:
            return None
        for key, number, does in self._first_order.slopes():
            for name, other in self._factors.items():
                if not _broadcasts(other, does):
                    continue
                for power in POWERS:
                    missing = float(((other**power - 1) * does).sum())
                    if not self._first_order.explains(missing):
                        continue
                    if found := self._times_tensor(key, number, name, power):
                        return found
        return None

    def _times_tensor(self, key: Hashable, number: int, name: str, power: int) -> Found | None:
        step, other = self._steps.get(key), self._tensors.get(name)
        if step is None or other is None:
            return None
        factor = other.detach() ** power

        def alter(each: Step, k: int) -> torch.Tensor | None:
            x = each.operand(k)
            if x is None or not _broadcasts(factor, x):
                return None
            return each.with_operand(k, x.detach() + factor * (x - x.detach()))

        if not self._fits_altered((key,), alter, number):
            return None
        raised = {1: "", 2: "the square of ", 3: "the cube of "}[abs(power)] + name
        words = {
            "factor": raised if power > 0 else f"one over {raised}",
            "mended": f"{'Divide' if power > 0 else 'Multiply'} that part by {raised}",
        }
        return self._found(
            TIMES_TENSOR, step, number, words, lambda search: search._times_tensor(key, number, name, power)
        )

    @cached_property
    def _factors(self) -> dict[str, torch.Tensor]:
        """The real tensors that a factor may be, each once: those with no zero, whose entries are not all alike."""
        found: dict[str, torch.Tensor] = {}
        for name, each in self._tensors.items():
            value = each.detach()
            if (
                not value.is_floating_point()
                or value.numel() < 2
                or bool((value == 0).any())
                or bool((value == value.max()).all())
            ):
                continue
            if not any(value.shape == known.shape and torch.equal(value, known) for known in found.values()):
                found[name] = value
        return found

    def by_branch(self) -> Found | None:
        """A mistake in one step that holds on one of several ways back: a weight forgotten in a statistic alone."""
        if not self._tells:
            return None
        for alteration in ON_ONE_WAY:
            for key, number in self._operands():
                if self._applies(alteration, key, number) and (found := self._on_one_way(alteration, key, number)):
                    return found
        return None

    def _on_one_way(self, alteration: Alteration, key: Hashable, number: int) -> Found | None:
        step = self._steps.get(key)
        if step is None or self._x.dtype not in PRECISE:
            return None
        try:
            for edge in self._first_order.branches(key, alteration.alter, number):
                changes = self._first_order.through(self._leaf, key, alteration.alter, number, edge)
                if self._fits([a + b for a, b in zip(self._right, changes, strict=True)]):
                    way = f"{operand(*edge)} of {self._named(edge[0])}"
                    return self._found(
                        on_one_way(alteration),
                        step,
                        number,
                        {"way": way},
                        lambda search: search._on_one_way(alteration, key, number),
                    )
        except Exception:  # an operation may refuse what it is altered to
            return None
        return None

    def by_two_factors(self) -> Found | None:
        """Two steps, each with a derivative that is off by a factor of its own: one for each column."""
        if not self._tells:
            return None
        edges = sorted(self._parts, key=lambda edge: _plainness(self._steps[edge[0]]))
        missing = self._given - self._right[0]
        size = inner(missing, missing)
        gains = {edge: inner(self._parts[edge], missing) for edge in edges}
        norms = {edge: inner(self._parts[edge], self._parts[edge]) for edge in edges}
        for a, b in combinations(edges, 2):
            both = inner(self._parts[a], self._parts[b])
            determinant = norms[a] * norms[b] - both**2
            if determinant <= 1e-9 * norms[a] * norms[b]:
                continue
            first = (gains[a] * norms[b] - gains[b] * both) / determinant
            second = (gains[b] * norms[a] - gains[a] * both) / determinant
            if size - first * gains[a] - second * gains[b] > CLOSE**2 * size or min(abs(first), abs(second)) < 1e-4:
                continue
            if found := self._scaled_apart({a: 1 + first, b: 1 + second}):
                return found
        return None

    def _scaled_apart(self, factors: Mapping[tuple[Hashable, int], float]) -> Found | None:
        (a, first), (b, second) = factors.items()
        if a[0] not in self._steps or b[0] not in self._steps or a[0] == b[0] or not first or not second:
            return None

        def alter(step: Step, _: int) -> torch.Tensor | None:
            number, factor = (a[1], first) if step.key == a[0] else (b[1], second)
            x = step.operand(number)
            return None if x is None else step.with_operand(number, x.detach() + factor * (x - x.detach()))

        if not self._fits_altered((a[0], b[0]), alter, 0):
            return None
        words = {
            "factor": times(first),
            "inverse": times(1 / first, words=False),
            "other": self._named(self._steps[b[0]]),
            "second": times(second),
            "inverse_of_second": times(1 / second, words=False),
        }
        step = self._steps[a[0]]
        return self._found(SCALED_APART, step, a[1], words, lambda search: search._scaled_apart(factors))

    @cached_property
    def _parts(self) -> dict[tuple[Hashable, int], torch.Tensor]:
        """What comes through each operand of each step."""
        found = {}
        for key, number in self._operands():
            lacking = self._gradients((key,), without, number)
            if lacking is not None and bool((part := self._right[0] - lacking[0]).any()):
                found[key, number] = part
        return found

    @property
    def _tells(self) -> bool:
        """Whether there are numbers enough, so that none of many candidates fits by chance."""
        return sum(each.numel() for each in self._all_given) >= FEWEST and self._x.numel() > 2

    @cached_property
    def _tensors(self) -> dict[str, torch.Tensor]:
        return {name: each for name, each in self._known() if each.is_floating_point() or each.is_complex()}

    @cached_property
    def _indices(self) -> dict[str, torch.Tensor]:
        """The tensors of integers at hand: arguments, what forward makes, and what it indexes with."""
        found = {f"`{name}`": each for name, each in self._arguments.items() if each.dtype in INDICES}
        for step in self._integers.values():
            found.setdefault(f"the result of {self._named(step)}", step.result)
        for step in (*self._steps.values(), *self._constants.values()):
            for which, each in enumerate(indices(step)):
                found.setdefault(self._index(step, which), each)
        return found

    def _index(self, step: Step, which: int) -> str:
        index = indices(step)[which]
        return self._called(index) or f"the index of {self._named(step)}"

    def _called(self, tensor: torch.Tensor) -> str:
        """What an argument is called."""
        for name, each in self._arguments.items():
            if each.shape == tensor.shape and each.dtype == tensor.dtype and torch.equal(each, tensor):
                return f"`{name}`"
        return ""

    def _step(self, key: Hashable) -> Step | None:
        return self._steps.get(key) or self._constants.get(key)

    def _found(self, told: Alteration, step: Step, number: int, words: Mapping[str, str], again: Any) -> Found:
        return Found(told, step, number, self._in_order, words=words, again=again)


def _tried_at(step: Step, which: int, other: torch.Tensor) -> torch.Tensor | None:
    try:
        with torch.no_grad():
            return at_index(step, which, other)
    except Exception:  # beyond the end of what is indexed
        return None


def _could_be(other: torch.Tensor, old: torch.Tensor) -> bool:
    return other is not old and other.shape == old.shape and other.dtype == old.dtype and not torch.equal(other, old)


def _broadcasts(factor: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether a factor is one for each row, or the like, of a tensor; not one for each entry."""
    return (
        factor.numel() < x.numel()
        and factor.dim() == x.dim()
        and all(a in (1, b) for a, b in zip(factor.shape, x.shape, strict=True))
    ) or (factor.shape == x.shape and 1 in x.shape)


def _plainness(step: Step) -> int:
    """How little it tells that a step is off by a factor: a product with a number has one, a sum has none."""
    if step.name in ("mul", "rmul", *DIVISIONS) and any(isinstance(each, int | float) for each in step.args):
        return 0
    return 2 if step.name in ("add", "radd", "sub", "rsub", "getitem", "sum") else 1
