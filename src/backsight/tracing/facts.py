"""What a watch can tell: places, operations, changes in place, backwards, cuts and births of NaN, as plain data."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch

from backsight.source import Place


@dataclass(frozen=True)
class Line:
    """Where the user's program did something.

    ```python
    line = watch.line_of(node)
    str(line), line.function, line.segment    # ('train.py:41', 'train', 'h * scale')
    ```

    `line` and `end` are the first and last line of the expression, or of the statement where no more is known;
    `segment` is the source of the very expression, empty where only the line is known; `text` is the statement's source
    in one line, empty without source. `column` and `end_column` count bytes, and are -1 where they are not known.
    """

    file: str
    line: int
    end: int
    function: str
    segment: str = ""
    text: str = ""
    column: int = field(default=-1, compare=False, repr=False)
    end_column: int = field(default=-1, compare=False, repr=False)

    @property
    def place(self) -> Place:
        """The same as what the source room calls a place."""
        end = self.end if self.end > self.line else 0
        return Place(self.file, self.line, self.text, max(self.column, 0), end, seen=True)

    def __str__(self) -> str:
        return str(self.place)


@dataclass(frozen=True)
class Operand:
    """One tensor that an operation was given, and how the program wrote it.

    `text` is the source, such as `params[0]`, and empty where it cannot be told; `position` is its place among the
    arguments, or the keyword.
    """

    text: str
    position: int | str = 0


@dataclass(frozen=True)
class Operation:
    """A call into PyTorch that made nodes of a graph, at the exact level of a watch.

    `op` is what was called (`mul`, `linear`, `__getitem__`, or the class of a custom Function); its nodes are numbered
    from `first` up to `end`, which is not one of them. `via` is PyTorch's own Python code nearest to the program
    through which it was called: `Linear.forward`, `clip_grad_norm_`.
    """

    op: str
    line: Line
    operands: tuple[Operand, ...]
    first: int
    end: int
    thread: int
    via: str = ""


ChangeKind = Literal["in place", "out", "optimizer", "data", "backward", "unseen"]


@dataclass(frozen=True)
class Change:
    """A change of a tensor's memory in place.

    `before` and `after` are the versions of the tensor through which it was made. A change that was made again and
    again by one line is told once, with the first `before`, the last `after` and the `count`. `op` is what changed it:
    `add_`, `__setitem__`, `copy_`, `Adam.step()`; `kind` is "in place"; "out" for an `out=` argument; "optimizer";
    "data" where it was made through `.data` or a detached alias, so that the tensor's own version does not show it;
    "backward" for gradients accumulated by a backward; "unseen" where versions show that something the watch cannot see
    changed it between two changes that it saw. `line` is None for what is unseen. `via` is as in `Operation`. `mark` is
    the number of the next node in the thread that made the (last) change: nodes numbered lower were made before it; -1
    where it is not known.
    """

    op: str
    before: int
    after: int
    line: Line | None
    kind: ChangeKind = "in place"
    count: int = 1
    via: str = ""
    mark: int = field(default=-1, compare=False, repr=False)


@dataclass(frozen=True)
class Backward:
    """One call of `backward()` or `torch.autograd.grad()`.

    `index` counts them from 0. `marks` has, for each thread known by then, the number of the next node it would make as
    the backward began: nodes numbered lower were made before it. `thread` is the one that called. `retain_graph` and
    `create_graph` are None where they were not seen; `done` is False while it runs and if it raised.
    """

    index: int
    call: Literal["backward", "grad"]
    line: Line | None
    thread: int
    marks: dict[int, int] = field(compare=False)
    retain_graph: bool | None = None
    create_graph: bool | None = None
    done: bool = False

    @property
    def mark(self) -> int:
        """The number of the next node in the calling thread as the backward began."""
        return self.marks[self.thread]

    @property
    def freed(self) -> bool:
        """Whether it released the graph that it went through; unknown counts as yes, which is PyTorch's default."""
        return self.done and not (self.create_graph if self.retain_graph is None else self.retain_graph)


SeveredBy = Literal[
    "detach",
    "data",
    "no_grad",
    "inference",
    "integer",
    "not differentiable",
    "derivative",
    "item",
    "numpy",
    "rewrapped",
    "frozen",
]


@dataclass(frozen=True)
class Severed:
    """An operation behind which a gradient does not go on, although what it was given required one.

    `by` says why; `op` is what was called, `line` where; `operand` is how the program wrote the tensor whose gradient
    ends here. "item" and "numpy" leave for Python: what is computed there is no longer followed. "derivative" is what
    `autograd.grad` returns without `create_graph=True`. "frozen" stands for the first operation on parameters of which
    none requires a gradient; it is told of what meets in a loss alone, by `Met`. Of "no_grad" and "inference",
    `callers` are the lines of the program that were running around it, the innermost first: one of them may have
    disabled gradients.
    """

    by: SeveredBy
    op: str
    line: Line | None
    operand: str = ""
    dtype: str = ""
    callers: tuple[Line, ...] = field(default=(), compare=False, repr=False)


End: TypeAlias = tuple[Severed, tuple["weakref.ref[torch.Tensor]", ...], int]
"""A cut, the leaves that the gradient would have gone to, and the number of the next node when it was last made."""

Part: TypeAlias = tuple[tuple["weakref.ref[torch.Tensor]", ...], int]
"""The leaves that the gradient would have gone to at one time that a cut was made, and the number of the next node."""


@dataclass(frozen=True)
class Reach:
    """Between `low` and `high` lie the results of `op`, whose node is numbered `number`; `below` and `above` are the
    shares of a target that lie outside, where a prediction never comes."""

    op: str
    low: float
    high: float
    below: float
    above: float
    number: int


@dataclass(frozen=True)
class Met:
    """Two tensors that met in an operation, in the first step that made it.

    `column` and `row` are the positions of an N×1 and of an N whose result is N×N, else -1. `term` is the position of a
    number that is added and requires no gradient although it comes of what does, else -1. `cuts` are those behind the
    operands that require no gradient, the nearest first, each with the leaves that the gradient would
    have reached, and the number of the next node when it was made last. `reach` is there if the second is a target of
    the first, and lies in part where that never comes. `same` tells that both require a gradient and have the same
    values, `repeats` the same of two of which one was computed without gradients; `target` are the classes that a loss
    was given. `made` is the line at which a square that is met came of the two operands `of`, an N×1 and an N.
    """

    op: str
    line: Line
    shapes: tuple[tuple[int, ...], ...]
    operands: tuple[str, ...]
    column: int
    row: int
    term: int
    cuts: tuple[End, ...]
    reach: Reach | None = None
    same: bool = False
    target: tuple[int, ...] = ()
    repeats: bool = False
    made: Line | None = None
    of: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Values:
    """What one operand held where the result is not finite: up to four values, and its shape."""

    text: str
    shape: tuple[int, ...]
    at: tuple[float, ...]
    total_nonfinite: int = 0


@dataclass(frozen=True)
class NonFinite:
    """The birth of a NaN or an infinity: an operation that was given finite values and returned others.

    `phase` is "forward" or "backward"; in the backward, `op` is the node that returned it and `line` where its
    operation ran in the forward pass; `incoming` holds values of the gradient that came in at the offending places, and
    `operands` the values that the operation had saved there. `kind` is "nan" or "inf"; `bad` of `total` values are, and
    `bad` is 0 where they were not counted: on a device, where to count them would have been to wait.
    `node` is the sequence number of the node in `thread`, None without one; `backward` the index of the backward.
    `dtype` is that of the result: `float16`.
    """

    phase: Literal["forward", "backward"]
    kind: Literal["nan", "inf"]
    op: str
    line: Line | None
    operands: tuple[Values, ...]
    bad: int
    total: int
    incoming: tuple[float, ...] = ()
    thread: int = 0
    node: int | None = None
    backward: int | None = None
    dtype: str = ""


@dataclass(frozen=True)
class Stop:
    """An operation that got a gradient in a backward, and passed on nothing but zeros to one of its inputs.

    `op` is that of its node, `number` the sequence number, `position` which input; `leaves` lie behind that. `bounds`
    are numbers that the operation keeps, such as the `min` and `max` of a clamp, and `values` the least and the
    greatest of what it was given, or returned. `is_term` tells that only sums stand between it and the loss,
    `by_number` that the operation has saved a single number, as a product with one does. `dtype` is that of the zeros.
    `shape` is that of what it returned, and `dim` the dimension along which it normalizes, of those that do.
    `kept_zeros` names what it has saved that is all zeros: `mat1`, `input`.
    """

    op: str
    number: int
    position: int
    leaves: tuple[weakref.ref[torch.Tensor], ...]
    is_term: bool
    bounds: dict[str, float]
    values: tuple[float, float] | None
    by_number: bool
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dim: int = -1
    kept_zeros: tuple[str, ...] = ()
