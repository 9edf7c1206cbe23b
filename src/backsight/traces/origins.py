"""Where two traces diverge: operations whose inputs agree and whose results do not; what only inherits is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from backsight.traces.distance import INCOMPARABLE, Apart, Distances
from backsight.traces.pairing import RANDOM, VIEWS, Pairing, paired, paired_names, plain_name
from backsight.traces.records import Held, Made, Operation, Phase, Place, Trace
from backsight.traces.rounding import condition, rounding

AMPLIFIED = 20.0
"""By how much an operation may enlarge a difference that it inherits, before it counts as one that adds its own."""

_MOST = 200
"""Origins of a step that are looked for."""

_READS = frozenset(("_local_scalar_dense", "item", "equal"))
"""What reads a number into Python, as a loss of an earlier step that is printed."""

_DEEPEST = 400
"""Operations that only one program has, between two that both have, that are followed."""

_NO_MATTER = frozenset(("memory_format", "pin_memory", "layout", "device", "non_blocking", "dtype", "input_dtype"))
"""Arguments that do not change results, or (dtypes) do so in a way that the results themselves tell."""

UNSEEN = Made(Place(), "")

_SHAPES = frozenset(("size", "shape", "sizes", "stride", "normalized_shape", "input_sizes", "split_size", "self_size"))


@dataclass(frozen=True)
class Origin:
    """Where two programs diverge, in one step.

    kind: "operation", both have it; "program", one has operations that the other has not; "start", what was held as the
        step began; "input", a tensor from outside; "held", what was held as the step ended, of all ranks together.
    a, b: the operation, or the one that takes what differs.
    only_a, only_b: of "program", the operations without counterpart.
    values: the numbers of the values that differ.
    before: the largest relative difference of what goes in; 0 if it agrees to the last bit.
    apart: how far apart the results are; allowed: what rounding explains of that.
    arguments: the arguments that differ, with what they are in A and in B.
    names: of "start" and "held", what differs.
    seeded_alike: of "start", how many others were drawn at random and are the same in both.
    at: the lines in A and in B, where no operation of the step has them.
    by_values: whether it was found by the values alone, so that the two operations need not belong together.
    """

    kind: Literal["operation", "program", "start", "input", "held"]
    step: int
    phase: Phase
    a: Operation | None
    b: Operation | None
    values: tuple[int, int]
    apart: Apart
    before: float = 0.0
    allowed: float = 0.0
    only_a: tuple[Operation, ...] = ()
    only_b: tuple[Operation, ...] = ()
    arguments: tuple[tuple[str, Any, Any], ...] = ()
    names: tuple[str, ...] = ()
    by_values: bool = False
    seeded_alike: int = 0
    lost: bool = False
    at: tuple[Place, Place] = (Place(), Place())

    @property
    def rounds(self) -> bool:
        """Whether rounding explains all of it."""
        return self.apart.relative <= self.allowed + AMPLIFIED * self.before

    @property
    def decides(self) -> bool:
        """Whether an argument that differs decides on numbers, and not only on shapes."""
        looks = self.a is not None and plain_name(self.a.op) in VIEWS
        return not looks and any(_decides(*each) for each in self.arguments)

    @property
    def places(self) -> tuple[Place, Place]:
        """The lines in A and in B; of what only one of them has, the line of that."""
        first, second = (self._place(each) for each in (self.only_a, self.only_b))
        return (
            self.at[0] or first or (self.a.place if self.a is not None else Place()),
            self.at[1] or second or (self.b.place if self.b is not None else Place()),
        )

    def _place(self, alone: Sequence[Operation]) -> Place | None:
        """Return the first line of operations that only one has: of the phase, as weights may be made just before."""
        places = [(each.phase != self.phase, each.place) for each in alone if each.place]
        return min(places, key=lambda each: each[0])[1] if places else None


@dataclass
class Walk:
    """One step of both traces, walked in the order of A.

    inherited: how many operations differ only because what they are given does.
    agree: how many agree to the last bit.
    """

    distances: Distances
    step: int
    origins: list[Origin] = field(default_factory=list)
    inherited: int = 0
    agree: int = 0
    pairing: Pairing = field(default_factory=lambda: Pairing({}, {}, {}))
    names: Mapping[str, str] = field(default_factory=dict)

    def run(self, *, first: bool) -> Walk:
        """Find the origins; `first`: whether this is the first step, so that what differs at its start is told."""
        a, b = self.distances.a, self.distances.b
        self._a = {each.number: each for each in a.operations if each.step == self.step}
        self._b = {each.number: each for each in b.operations if each.step == self.step}
        self.names = paired_names(a, b, self.step)
        self.pairing = paired(list(self._a.values()), list(self._b.values()), (a, b))
        self._seen: set[Any] = set()
        self._leaked = False
        if first:
            self._look_at_start(lambda _: True)
        elif self.step - 1 in a.whole and self.step - 1 in b.whole:
            self._look_at_start(self._agreed_before(), lost=True)
        for number, operation in self._a.items():
            partner = self._b.get(self.pairing.to_b.get(number, -1))
            if partner is not None and len(self.origins) < _MOST:
                self._look_at(operation, partner)
        self._look_at_end()
        return self

    def _agreed_before(self) -> Callable[[str], bool]:
        """Return what tells whether a weight or buffer was the same to the last bit as the step before ended.

        Of a model that is new in this step, what all others were counts.
        """
        before = Walk(self.distances, self.step - 1)
        before.names = paired_names(self.distances.a, self.distances.b, self.step - 1)
        held = {
            f"{ours.kind} {ours.name}": self.distances(ours.value, theirs.value).same
            for ours, theirs in before.held("end")
            if ours.kind in ("weight", "buffer")
        }
        new = bool(held) and all(held.values())
        return lambda name: held.get(name, new and not name.startswith("state"))

    def _look_at_start(self, counts: Callable[[str], bool], lost: bool = False) -> None:
        """Look at what both hold as the step begins. lost: whether it agreed as the step before ended."""
        found: dict[str, list[tuple[str, Held, Held, Apart]]] = {}
        alike = 0
        for ours, theirs in self.held("start"):
            if (apart := self.distances(ours.value, theirs.value)).same:
                alike += self._is_drawn(ours.value, self.distances.a)
            elif counts(f"{ours.kind} {ours.name}"):
                found.setdefault(ours.kind, []).append((ours.name, ours, theirs, apart))
        for kind, differing in found.items():
            _, ours, theirs, apart = max(differing, key=lambda each: each[3].relative)
            names = tuple(f"{kind} {name}" for name, *_ in differing)
            values = ours.value, theirs.value
            told = {"names": names, "at": self._made_at(*values), "seeded_alike": 0 if lost else alike, "lost": lost}
            self.origins.append(Origin("start", self.step, "forward", None, None, values, apart, **told))  # type: ignore[arg-type]

    def _made_at(self, x: int, y: int) -> tuple[Place, Place]:
        """Return the lines that made two values before the first step, as far as these are known."""
        return self.distances.a.made.get(x, UNSEEN).place, self.distances.b.made.get(y, UNSEEN).place

    @staticmethod
    def _is_drawn(number: int, trace: Trace) -> bool:
        return trace.made.get(number, UNSEEN).call.partition("(")[0].rstrip("_") in RANDOM

    def _look_at_end(self) -> None:
        """Look at what is held as at what an operation takes: an update may have been made by other operations."""
        began = {(ours.kind, ours.name): (ours.value, theirs.value) for ours, theirs in self.held("start")}
        for ours, theirs in self.held("end"):
            x, y = ours.value, theirs.value
            if len(self.origins) >= _MOST or self._slot(x, y, None, None).same:
                continue
            before = began.get((ours.kind, ours.name))
            unmade = self.distances.a.values[x].maker not in self._a
            if unmade and before is not None and before[0] != x and self.distances(*before).same:
                self._written_unseen(f"{ours.kind} {ours.name}", x, y)

    def _written_unseen(self, name: str, x: int, y: int) -> None:
        """Tell of what an operation has written to though its schema does not say so, as running statistics."""
        values = self.distances.a.values
        took = [each for each in self._a.values() if any(values[number].name == name for number in each.inputs)]
        partners = self.pairing.to_b
        pairs = [(each, self._b[partners[each.number]]) for each in took if each.number in partners]
        a, partner = next((pair for pair in pairs if differing(*pair)), pairs[0] if pairs else (None, None))
        if a is not None and partner is not None and ("written", a.number) not in self._seen:
            self._seen.add(("written", a.number))
            given = zip(a.inputs, partner.inputs, strict=False)
            apart, arguments = self.distances(x, y), differing(a, partner)
            if not arguments and not all(self.distances(*pair).same for pair in given):
                return  # that is why
            allowed = rounding(self.distances.a, a)
            self.origins.append(
                Origin("operation", self.step, a.phase, a, partner, (x, y), apart, 0.0, allowed, arguments=arguments)
            )

    def held(self, at: str) -> Iterator[tuple[Held, Held]]:
        """Yield what both programs hold, paired by name or, where it is called otherwise, as was proposed.

        What is held again and again in a step, as gradients before each of several optimizers, is paired in that order.
        """
        ours, theirs = (self._by_name(trace, at) for trace in (self.distances.a, self.distances.b))
        for (kind, name), mine in ours.items():
            key, separator, rest = name.partition(" of ")
            renamed = f"{key}{separator}{self.names.get(rest, rest)}" if separator else self.names.get(key, key)
            others = theirs.get((kind, renamed), [])
            yield from (
                zip(mine, others, strict=True)
                if len(mine) == len(others)
                else zip(mine[-1:], others[-1:], strict=False)
            )

    def _by_name(self, trace: Trace, at: str) -> dict[tuple[str, str], list[Held]]:
        found: dict[tuple[str, str], list[Held]] = {}
        for each in trace.held:
            if (each.step, each.at) == (self.step, at):
                found.setdefault((each.kind, each.name), []).append(each)
        return found

    def _look_at(self, a: Operation, b: Operation) -> None:
        other = plain_name(a.op) != plain_name(b.op)  # the kernel of another device, with arguments of its own
        slots = [each for each in zip(a.inputs, b.inputs, strict=False) if not other or self._alike_in_shape(*each)]
        given = [self._slot(*slot, a, b) for slot in slots]
        before = max((each.relative for each in given), default=0.0)
        if a.op == "module":
            return
        self._leaked |= before > 0 and a.short in _READS
        results = [(x, y, self.distances(x, y)) for x, y in zip(a.outputs, b.outputs, strict=False)]
        if other:  # what else they return is for their own backward
            results = [each for each in results if self._alike_in_shape(*each[:2])][: None if "backward" in a.op else 1]
        if not results:
            return
        x, y, apart = max(results, key=lambda each: each[2].relative)
        if apart.same:
            self.agree += 1
            return
        arguments = () if self._leaked or other else differing(a, b)
        allowed = rounding(self.distances.a, a)
        adds = apart.relative > condition(self.distances.a, a) * (allowed + AMPLIFIED * before)
        # Beside a mask of -1e9 all else is small, and so is a relative difference.
        # Adam makes a whole step of a gradient that is nothing but rounding.
        adds &= a.phase != "optimizer" and apart.absolute > AMPLIFIED * max(
            (each.absolute for each in given), default=0.0
        )
        told = any(_decides(name, ours, theirs) for name, ours, theirs in arguments) and before < 1e-2
        if before == 0 or adds or told:
            shown = arguments if before < 1e-2 else ()
            self.origins.append(
                Origin("operation", self.step, a.phase, a, b, (x, y), apart, before, allowed, arguments=shown)
            )
        else:
            self.inherited += 1

    def _alike_in_shape(self, x: int, y: int) -> bool:
        return self.distances.a.values[x].shape == self.distances.b.values[y].shape

    def _slot(self, x: int, y: int, a: Operation | None, b: Operation | None) -> Apart:
        """Return how far apart two values are that are taken for the same purpose; tell where they come to differ."""
        apart = self.distances(x, y)
        if apart.same:
            return apart
        ours, theirs = self.distances.a.values[x].maker, self.distances.b.values[y].maker
        if ours == -1 and theirs == -1:
            self._from_outside(x, y, apart, a, b)
        elif ours not in self._a and theirs not in self._b and -1 not in (ours, theirs):
            pass  # both were made in an earlier step, and differ since
        elif not self._partners(x, y):
            self._between(x, y, apart, a, b)
        return apart

    def _partners(self, x: int, y: int) -> bool:
        """Whether two values are the same result of operations that belong together."""
        ours, theirs = self._a.get(self.distances.a.values[x].maker), self._b.get(self.distances.b.values[y].maker)
        if ours is None or theirs is None or self.pairing.to_b.get(ours.number) != theirs.number:
            return False
        if x not in ours.outputs or y not in theirs.outputs:
            return True  # another view of what it wrote to
        return ours.outputs.index(x) == theirs.outputs.index(y)

    def _from_outside(self, x: int, y: int, apart: Apart, a: Operation | None, b: Operation | None) -> None:
        if self.distances.a.values[x].name or a is None or ("input", x, y) in self._seen or a.short in _READS:
            return  # what has a name was held as the step began, and is told of there
        self._seen.add(("input", x, y))
        self.origins.append(Origin("input", self.step, a.phase, a, b, (x, y), apart, at=self._made_at(x, y)))

    def _between(self, x: int, y: int, apart: Apart, a: Operation | None, b: Operation | None) -> None:
        """Look at the operations that only one of the programs has before these values."""
        only_a, edge_a = _alone(self.distances.a, self._a, self.pairing.to_b, x)
        only_b, edge_b = _alone(self.distances.b, self._b, self.pairing.to_a, y)
        key = ("program", *(each.number for each in only_a), -1, *(each.number for each in only_b))
        if key in self._seen:
            return
        self._seen.add(key)
        if not only_a and not only_b:
            key = ("crossed", x, y)
        before = max(self._agreement(edge_a, self._b, to_b=True), self._agreement(edge_b, self._a, to_b=False))
        steps = [*(rounding(self.distances.a, each) for each in only_a)]
        steps += [rounding(self.distances.b, each) for each in only_b]
        if a is not None:
            steps.append(rounding(self.distances.a, a))
        allowed = sum(steps)
        if before and apart.relative <= allowed + AMPLIFIED * before:
            return
        only_a, only_b = self._parting(only_a, only_b, x, y)
        at = _line(self.distances.a, self._a, only_a, x, a), _line(self.distances.b, self._b, only_b, y, b)
        alone = only_a or only_b or ([a] if a is not None else [])
        phase: Phase = alone[-1].phase if alone else "optimizer"
        self.origins.append(
            Origin(
                "program", self.step, phase, a, b, (x, y), apart, before, allowed, tuple(only_a), tuple(only_b), at=at
            )
        )

    def _parting(
        self, only_a: list[Operation], only_b: list[Operation], x: int, y: int
    ) -> tuple[list[Operation], list[Operation]]:
        """Leave out what both compute to the last bit, though by operations that were not paired: they part later."""
        a, b = self.distances.a, self.distances.b
        made = [{_bits(trace, number) for each in mine for number in each.outputs}
                for trace, mine in ((a, only_a), (b, only_b))]  # fmt: skip
        left = _behind(a, only_a, x, made[1] - {None}), _behind(b, only_b, y, made[0] - {None})
        return left if any(left) else (only_a, only_b)

    def _agreement(self, edge: Sequence[int], others: Mapping[int, Operation], *, to_b: bool) -> float:
        """Return how far apart what goes in is from what the other program has in its place."""
        mine = self.distances.a if to_b else self.distances.b
        partners = self.pairing.to_b if to_b else self.pairing.to_a
        own = self._a if to_b else self._b
        furthest = 0.0
        for number in edge:
            maker = mine.values[number].maker
            partner = others.get(partners.get(maker, -1))
            if partner is None or number not in own[maker].outputs:
                continue  # from outside: of what differs there is an origin of its own
            place = own[maker].outputs.index(number)
            other = partner.outputs[place] if place < len(partner.outputs) else None
            pair = (number, other) if to_b else (other, number)
            apart = INCOMPARABLE if other is None else self.distances(*pair)
            furthest = max(furthest, apart.relative)
        return min(furthest, inf)


def _line(
    trace: Trace, operations: Mapping[int, Operation], alone: Sequence[Operation], value: int, taker: Operation | None
) -> Place:
    """Return the line that made a value, where neither an operation of one program alone nor what takes it tells it."""
    maker = trace.values[value].maker
    if maker == -1:
        return trace.made.get(value, UNSEEN).place
    if any(each.place for each in alone) or (taker is not None and taker.place):
        return Place()
    return operations[maker].place if maker in operations else Place()


def _behind(trace: Trace, operations: Sequence[Operation], value: int, known: Set[Any]) -> list[Operation]:
    """Return those of the operations behind a value that come after what is known."""
    makers = {each.number: each for each in operations}
    found: set[int] = set()
    stack = [value]
    while stack:
        maker = makers.get(trace.values[stack.pop()].maker)
        shared = maker is not None and maker.outputs and {_bits(trace, each) for each in maker.outputs} <= known
        if maker is not None and maker.number not in found and not shared:
            found.add(maker.number)
            stack += maker.inputs
    return [each for each in operations if each.number in found]


def _bits(trace: Trace, number: int) -> tuple[str, int, int] | None:
    """Return what tells the bits of a value; None where it holds one number alone, which says nothing."""
    value = trace.values[number]
    if value.mark < 0 or not (row := trace.prints[value.mark])["stats"]["min"] < row["stats"]["max"]:
        return None
    return value.dtype, int(row["stats"]["count"]), int(row["hash"])


def _alone(
    trace: Trace, operations: Mapping[int, Operation], partners: Mapping[int, int], value: int
) -> tuple[list[Operation], list[int]]:
    """Return the operations behind a value that have no partner, in order, and the values that go into them."""
    found: dict[int, Operation] = {}
    edge: list[int] = []
    stack = [value]
    while stack and len(found) < _DEEPEST:
        number = stack.pop()
        maker = operations.get(trace.values[number].maker)
        if maker is None or maker.number in partners:
            edge.append(number)
        elif maker.number not in found:
            found[maker.number] = maker
            stack += maker.inputs
    return [found[number] for number in sorted(found)], edge


def differing(a: Operation, b: Operation) -> tuple[tuple[str, Any, Any], ...]:
    """Return the arguments, but for tensors, in which two operations differ."""
    return tuple(
        (name, a.given.get(name), b.given.get(name))
        for name in dict.fromkeys([*a.given, *b.given])
        if name not in _NO_MATTER
        and not _holds_tensors(a.given.get(name))
        and not _holds_tensors(b.given.get(name))
        and a.given.get(name) != b.given.get(name)
        and repr(a.given.get(name)) != repr(b.given.get(name))  # NaN is not equal to itself
    )


def _holds_tensors(given: Any) -> bool:
    return isinstance(given, dict) or (isinstance(given, list) and any(isinstance(each, dict) for each in given))


def _decides(name: str, ours: Any, theirs: Any) -> bool:
    """Whether an argument decides on numbers, and not only on shapes."""
    return name not in _SHAPES and any(isinstance(each, (bool, int, float)) for each in (ours, theirs))
