"""The step that is being traced: operations and values as they come, handed to the file some hundreds at a time."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from backsight.tape import NO_SEQUENCE, in_backward, next_sequence_number, no_torch_dispatch, sequence_number
from backsight.traces._torch import current_node
from backsight.traces.arguments import taken_apart, tensors_in, written
from backsight.traces.fingerprints import as_array
from backsight.traces.ledger import Ledger
from backsight.traces.lines import place_here
from backsight.traces.mode import Call
from backsight.traces.modules import ModuleCalls
from backsight.traces.records import Held, Kind, Operation, Phase, Place, Shard, Value
from backsight.traces.store import Writer, as_row

SMALL = 1024
"""Elements of a tensor that is kept whole."""

MOST = 200_000
"""Operations of a step; an evaluation between two steps can have any number, and none of them is of interest."""

_BLANK = ("aten.empty", "aten.new_empty")
"""Operators whose results hold whatever was in the memory before."""

_AT_ONCE = 512
_ROOM = 1 << 22
"""Elements that are kept until they are written, where all are."""


class Page:
    """Takes down the operations of a step."""

    def __init__(self, step: int, writer: Writer, values: Values, ledger: Ledger, calls: ModuleCalls, first: int):
        self.step, self.count = step, first
        self.optimizing = 0
        self._first = first
        self._writer, self._values, self._ledger, self._calls = writer, values, ledger, calls
        self._operations: list[Operation] = []
        self._newest = next_sequence_number() - 1
        self._forward: dict[int, tuple[int, str, Place]] = {}
        """By sequence number of a node, the operation that made it, its module and its line."""

    @property
    def full(self) -> bool:
        return self.count - self._first >= MOST

    def before(self, call: Call, grad: bool) -> Any:
        """Take down what an operation is given; return what `after` needs. grad: whether autograd is recording."""
        func, args, kwargs = call
        given, tensors = taken_apart(func, args, kwargs)
        inputs = self._ledger.of(tensors)
        newest, node = next_sequence_number() - 1, current_node()
        phase, module, place, name, of = self._where(node, grad)
        if newest != self._newest and node is None:  # autograd made a node before it came here
            self._newest = newest
            self._forward[newest] = self.count, module, place
        number = self.count
        self.count += 1
        made = Operation(number, self.step, phase, str(func), module, place, given, tuple(inputs), (), name, of)
        return made, written(func, args, kwargs)

    def after(self, ticket: tuple[Operation, list[torch.Tensor]], result: Any) -> None:
        """Take down what an operation made."""
        made, targets = ticket
        changed = self._ledger.made(targets, made.number, written=True)
        own = {id(each) for each in targets}
        new = [each for each in tensors_in(result) if id(each) not in own]
        made_now = self._ledger.made(new, made.number, blank=made.op.startswith(_BLANK))
        self._add(made, (*changed, *made_now))

    def module(self, path: str, output: Any) -> None:
        """Take down what a module returned."""
        outputs = self._ledger.of(tensors_in(output), self.count)
        if outputs:
            phase: Phase = "recomputation" if in_backward() else "forward"
            made = Operation(self.count, self.step, phase, "module", path, Place(), {}, tuple(outputs), tuple(outputs))
            self.count += 1
            self._add(made, made.outputs)

    def hold(self, at: Any, kind: Kind, tensors: dict[str, torch.Tensor], shards: dict[str, Shard]) -> None:
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

    def flush(self) -> None:
        """Hand over the operations so far; values and fingerprints go first."""
        self._values.flush(self._writer)
        if self._operations:
            self._writer.say(b"O", [as_row(each) for each in self._operations])
            self._operations.clear()

    def _add(self, made: Operation, outputs: tuple[int, ...]) -> None:
        rest = made.given, made.inputs, outputs, made.node, made.of
        self._operations.append(Operation(made.number, made.step, made.phase, made.op, made.module, made.place, *rest))
        if len(self._operations) >= _AT_ONCE or self._values.crowded:
            self.flush()

    def _where(self, node: Any, grad: bool) -> tuple[Phase, str, Place, str, int]:
        """Return in which phase an operation is, its module, line, node and forward operation."""
        if self.optimizing:
            return "optimizer", "", place_here() or Place(), "", -1
        module = self._calls.path
        if node is None:
            return ("recomputation" if in_backward() else "forward"), module, place_here() or Place(), "", -1
        if self._calls.inside and grad:
            return "recomputation", module, place_here() or Place(), "", -1
        number = sequence_number(node)
        of, module, place = self._forward.get(number, (-1, "", Place()))
        name = node.name().rpartition("::")[2]
        if number == NO_SEQUENCE:
            return "backward", "", Place(), name, -1
        return "backward", module, place_here(within_backward=True) or place, name, of


class Values:
    """The values and fingerprints that are yet to be written."""

    def __init__(self, everything: bool):
        self._everything = everything
        self._prints: list[bytes] = []
        self._whole: list[tuple[int, NDArray[Any]]] = []
        self._met: list[Value] = []
        self._elements = 0

    @property
    def crowded(self) -> bool:
        """Whether what is kept whole takes so much memory that it is to be written at once."""
        return self._elements > _ROOM

    def kept(self, number: int, row: Any, plain: torch.Tensor | None) -> None:
        """Take a fingerprint, and the tensor with it if it is small."""
        self._prints.append(row.tobytes())
        if plain is not None and (self._everything or plain.numel() <= SMALL):
            with no_torch_dispatch(), torch.no_grad():
                array = as_array(plain)  # a copy: the program goes on writing to it
            self._whole.append((number, array))
            self._elements += array.size

    def met(self, value: Value) -> None:
        self._met.append(value)

    def flush(self, writer: Writer) -> None:
        if self._prints:
            writer.put(b"P", b"".join(self._prints))
        for number, array in self._whole:
            writer.keep(number, array)
        if self._met:
            writer.say(b"V", [[v.shape, v.dtype, v.device, v.mark, v.maker, v.name] for v in self._met])
        self._prints, self._whole, self._met, self._elements = [], [], [], 0
