"""The step that is being traced: operations and values as they come, handed to the file some hundreds at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from backsight.tape import NO_SEQUENCE, in_backward, next_sequence_number, no_torch_dispatch, sequence_number
from backsight.traces._torch import current_node
from backsight.traces.arguments import taken_apart, tensors_in, written
from backsight.traces.beginnings import Beginnings
from backsight.traces.fingerprints import as_array
from backsight.traces.ledger import Ledger
from backsight.traces.lines import place_here
from backsight.traces.mode import Call
from backsight.traces.modules import ModuleCalls
from backsight.traces.records import Held, Kind, Phase, Place, Shard
from backsight.traces.store import Writer

SMALL = 1024
"""Elements of a tensor that is kept whole."""

MOST = 200_000
"""Operations of a step; an evaluation between two steps can have any number, and none of them is of interest."""

_BLANK = ("aten.empty", "aten.new_empty")
"""Operators whose results hold whatever was in the memory before."""

Row = list[Any]
"""An operation as it is stored: the fields of `Operation`, with the place as a tuple, until its outputs are known."""

_NOWHERE = Place()
_AT_ONCE = 512
_ROOM = 1 << 22
"""Elements that are kept until they are written, where all are."""


class Page:
    """Takes down the operations of a step."""

    def __init__(
        self,
        step: int,
        writer: Writer,
        values: Values,
        ledger: Ledger,
        calls: ModuleCalls,
        first: int,
        beginnings: Beginnings | None = None,
    ):
        self.step, self.count = step, first
        self._beginnings = beginnings
        """Where what was there before the first step comes from."""
        self.optimizing = 0
        self.updating = False
        """Whether the program updates its parameters itself."""
        self.begun: set[tuple[str, str]] = set()
        """Kinds and names of what was held as the step began."""
        self._first = first
        self._writer, self._values, self._ledger, self._calls = writer, values, ledger, calls
        self._operations: list[Row] = []
        self._made: list[Row] = []
        self.newest = next_sequence_number() - 1
        self._forward: dict[int, tuple[int, str, Place]] = {}
        """By sequence number of a node, the operation that made it, its module and its line."""

    @property
    def full(self) -> bool:
        return self.count - self._first >= MOST

    def before(self, call: Call, grad: bool) -> Any:
        """Take down what an operation is given; return what `after` needs. grad: whether autograd is recording."""
        func, args, kwargs = call
        given, tensors = taken_apart(func, args, kwargs)
        inputs = self._taken(tensors)
        newest, node = next_sequence_number() - 1, current_node()
        phase, module, place, name, of = self._where(node, grad)
        if newest != self.newest and node is None:  # autograd made a node before it came here
            self.newest = newest
            self._forward[newest] = self.count, module, place
        made = self._row(phase, str(func), module, place, given, inputs, name, of)
        return made, written(func, args, kwargs)

    def _taken(self, tensors: list[torch.Tensor]) -> list[int]:
        """Return the numbers of what an operation or module is given; where that comes from is told once."""
        known = self._ledger.count
        numbers = self._ledger.of(tensors)
        if self._beginnings is not None and self._ledger.count != known:
            new = {number: each for number, each in zip(numbers, tensors, strict=True) if number >= known}
            self._made += self._beginnings.rows(new, new.values(), exact=True)
        return numbers

    def after(self, ticket: tuple[Row, list[torch.Tensor]], result: Any) -> None:
        """Take down what an operation made."""
        made, targets = ticket
        number, op, outputs = made[0], made[3], made[8]
        new = list(tensors_in(result))
        if targets:
            outputs += self._ledger.made(targets, number, written=True)
            own = {id(each) for each in targets}
            new = [each for each in new if id(each) not in own]
        outputs += self._ledger.made(new, number, blank=op.startswith(_BLANK))
        self._add(made)

    def module(self, path: str, args: Any, output: Any) -> None:
        """Take down what a module returned; what it was given and hands on, as `nn.Identity` does, it has not made."""
        self._taken(list(tensors_in(args)))
        outputs = self._ledger.of(tensors_in(output), self.count)
        if outputs:
            made = self._row("recomputation" if in_backward() else "forward", "module", path, _NOWHERE, {}, outputs)
            made[8] = outputs
            self._add(made)

    def hold(
        self,
        at: Any,
        kind: Kind,
        tensors: dict[str, torch.Tensor],
        shards: dict[str, Shard],
    ) -> None:
        """Take down what the program holds. shards: which of it is a part of what several processes hold."""
        numbers = self._ledger.of(tensors.values())
        held = [Held(self.step, at, kind, name, number) for name, number in zip(tensors, numbers, strict=True)]
        self.flush()
        self._writer.say(b"S", [[each.step, each.at, each.kind, each.name, each.value] for each in held])
        if shards:
            of = {each.name: each.value for each in held}
            rows = [
                [of[name], each.shape, each.dimension, each.coordinate, each.parts] for name, each in shards.items()
            ]
            self._writer.say(b"D", rows)
        if at == "start" and self._beginnings is not None:
            self._made += self._beginnings.rows(numbers, tensors.values())

    def flush(self) -> None:
        """Hand over the operations so far; values and fingerprints go first."""
        self._values.flush(self._writer)
        if self._made:
            self._writer.say(b"M", self._made)
            self._made.clear()
        if self._operations:
            self._writer.say(b"O", self._operations)
            self._operations.clear()

    def _row(
        self,
        phase: Phase,
        op: str,
        module: str,
        place: Place,
        given: Mapping[str, Any],
        inputs: list[int],
        node: str = "",
        of: int = -1,
    ) -> Row:
        number = self.count
        self.count += 1
        where = (place.file, place.line, place.function, place.text)
        return [number, self.step, phase, op, module, where, given, inputs, [], node, of]

    def _add(self, made: Row) -> None:
        self._operations.append(made)
        if len(self._operations) >= _AT_ONCE or self._values.crowded:
            self.flush()

    def _where(self, node: Any, grad: bool) -> tuple[Phase, str, Place, str, int]:
        """Return in which phase an operation is, its module, line, node and forward operation."""
        if self.optimizing:
            return "optimizer", "", place_here() or _NOWHERE, "", -1
        module = self._calls.path
        if node is None and self.updating and not self._calls.inside and not in_backward():
            return "optimizer", "", place_here() or _NOWHERE, "", -1
        if node is None:
            return ("recomputation" if in_backward() else "forward"), module, place_here() or _NOWHERE, "", -1
        if self._calls.inside and grad:
            return "recomputation", module, place_here() or _NOWHERE, "", -1
        number = sequence_number(node)
        of, module, place = self._forward.get(number, (-1, "", _NOWHERE))
        name = node.name().rpartition("::")[2]
        if number == NO_SEQUENCE:
            return "backward", "", _NOWHERE, name, -1
        return "backward", module, place_here(within_backward=True) or place, name, of


class Values:
    """The values and fingerprints that are yet to be written."""

    def __init__(self, everything: bool):
        self._everything = everything
        self._prints: list[bytes] = []
        self._whole: list[tuple[int, NDArray[Any]]] = []
        self._met: list[list[Any]] = []
        self._elements = 0

    @property
    def crowded(self) -> bool:
        """Whether what is kept whole takes so much memory that it is to be written at once."""
        return self._elements > _ROOM

    def kept(self, number: int, row: bytes, plain: torch.Tensor) -> None:
        """Take a fingerprint, and the tensor with it if it is small."""
        self._prints.append(row)
        if self._everything or plain.numel() <= SMALL:
            with no_torch_dispatch(), torch.no_grad():
                array = as_array(plain)  # a copy: the program goes on writing to it
            self._whole.append((number, array))
            self._elements += array.size

    def met(self, value: list[Any]) -> None:
        """Take the fields of a value."""
        self._met.append(value)

    def flush(self, writer: Writer) -> None:
        if self._prints:
            writer.put(b"P", b"".join(self._prints))
        for number, array in self._whole:
            writer.keep(number, array)
        if self._met:
            writer.say(b"V", self._met)
        self._prints, self._whole, self._met, self._elements = [], [], [], 0
