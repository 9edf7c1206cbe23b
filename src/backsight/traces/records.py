"""A trace as plain data: operations, the values that they take and make, and what was held at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from backsight.runs import STATISTICS

Phase = Literal["forward", "backward", "recomputation", "optimizer"]
Kind = Literal["weight", "buffer", "grad", "state"]

BUCKETS = 16
"""Numbers of a projection."""

PRINT = np.dtype([("hash", "<u8"), ("stats", STATISTICS), ("sketch", "<f8", BUCKETS)])
"""A fingerprint as it is stored: the bits as a number, the statistics, and a random projection."""


@dataclass(frozen=True)
class Place:
    """A line of the program: its file, number, function and text. Empty where there is none."""

    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.file)

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else ""


@dataclass(frozen=True)
class Value:
    """A tensor as it was at one moment.

    number: its place in the trace.
    mark: the place of its fingerprint; -1 where it could not be read.
    maker: the number of the operation that made or last wrote it; -1 for what came from outside of the step.
    name: what the program calls it: "weight fc.weight", "state exp_avg of fc.weight"; empty for all else.
    """

    number: int
    shape: tuple[int, ...]
    dtype: str
    device: str
    mark: int
    maker: int
    name: str = ""


@dataclass(frozen=True)
class Operation:
    """One call of an operator, as PyTorch dispatched it, or (`op` is "module") the end of the call of a module.

    given: the arguments by name; tensors stand there as {"in": place in `inputs`}.
    of: in the backward pass, the number of the forward operation that made the node; else -1.
    node: in the backward pass, the name of the node.
    """

    number: int
    step: int
    phase: Phase
    op: str
    module: str
    place: Place
    given: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    node: str = ""
    of: int = -1

    @property
    def short(self) -> str:
        """The name of the operator without its namespace and overload: `mm`; `t` is written out."""
        name = self.op.removeprefix("aten.").partition(".")[0] if self.op.startswith("aten.") else self.op
        return "transpose" if name == "t" else name


@dataclass(frozen=True)
class Held:
    """What the program held when a step began (`at` is "start") or ended ("end")."""

    step: int
    at: Literal["start", "end"]
    kind: Kind
    name: str
    value: int


@dataclass(frozen=True)
class Made:
    """What is known of a weight or buffer that was there before the first traced step.

    place, call: the line that wrote it last, and with what: `normal_(0, 0.02)`; empty where that was not seen.
    rounded: the coarser dtype that its elements fit though it has another: "bfloat16"; else empty.
    """

    place: Place
    call: str
    rounded: str = ""


@dataclass(frozen=True)
class Shard:
    """Which part of a DTensor a process holds.

    shape: that of the whole; dimension: the one that is split, -1 where every process has all of it.
    coordinate: the place of the part among `parts`.
    """

    shape: tuple[int, ...]
    dimension: int
    coordinate: int
    parts: int


@dataclass(frozen=True)
class Summary:
    """What is known of a step whether it was traced or not.

    bits: a digest of the statistics of all gradients and weights, in any order: the same where all bits are.
    optimizers: for each step of an optimizer, the numbers of its groups.
    grads, weights: the norms of what optimizers hold, before and after they step; -1 for a gradient that is not there.
    """

    step: int
    bits: str
    optimizers: tuple[tuple[Mapping[str, Any], ...], ...]
    grads: NDArray[np.float32]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Variables:
    """What the program calls what it holds; a trace names the first model "" and later ones by their class.

    by_path: the variable that holds a model, by what the trace calls that; what no module owns is there as it is.
    """

    by_path: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, path: str) -> str:
        """Return a module, or what one holds, as the program reaches it: `lin.weight` for `Linear.weight`."""
        head = path
        while head and head not in self.by_path:
            head = head.rpartition(".")[0]
        rest = path[len(head) :].removeprefix(".")
        return ".".join(filter(None, (self.by_path.get(head, ""), rest)))

    def held(self, name: str) -> str:
        """Return the name of a value with its path so written: `weight lin.weight`, `state exp_avg of lin.weight`."""
        kind, _, rest = name.partition(" ")
        what, of, path = rest.rpartition(" of ")
        return f"{kind} {what}{of}{self(path)}" if rest else name


@dataclass(frozen=True)
class Trace:
    """The traced steps of one process.

    ```python
    trace = bs.open_trace("traces/first")
    [operation.op for operation in trace.operations if operation.step == 0]
    ```

    steps: those that were traced; `whole`: those of them that ended.
    head: where and how the program ran.
    settings: what the program had set at the start of each step: precision, threads, random state, optimizers.
    notes: what could not be traced or read, in sentences.
    """

    path: str
    rank: int
    head: Mapping[str, Any]
    steps: tuple[int, ...]
    whole: tuple[int, ...]
    settings: Mapping[int, Mapping[str, Any]]
    operations: tuple[Operation, ...]
    values: tuple[Value, ...]
    held: tuple[Held, ...]
    prints: NDArray[np.void]
    kept: Mapping[int, NDArray[Any]]
    """The whole tensors that were kept, by the number of their fingerprint."""
    notes: tuple[str, ...] = ()
    shards: Mapping[int, Shard] = field(default_factory=dict)
    """Of values that are parts of a DTensor, which part, by number."""
    summaries: tuple[Summary, ...] = ()
    """Of every step that ended, as `backsight run --trace` takes them."""
    made: Mapping[int, Made] = field(default_factory=dict)
    """Of weights and buffers that were there before, where they come from, by number of the value."""
    called: Variables = field(default_factory=Variables)
    """What the program calls its models."""

    def __repr__(self) -> str:
        return f"<Trace {self.path!r}, steps {list(self.steps)}, {len(self.operations):,} operations>"
