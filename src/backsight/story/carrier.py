"""What takes a result of an earlier pass into this one, as it was found."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from backsight.source import LoopFacts, Place, assignments, read_at
from backsight.source.keeping import Keeping
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.stores import apart, held_as
from backsight.tracing import Line

Kind = Literal["carried", "summed", "once", "cached", "kept", "written"]
"""How an old result comes into a new pass: a statement passes it on from pass to pass, or adds it up; it was computed
once; it is computed where there is none yet; a container keeps it; or it was written into a tensor that stays."""

WRITES = ("CopySlices", "IndexPut")
"""The operations of `x[a:b] = y` and of `x[positions] = y`."""


@dataclass(frozen=True, eq=False)
class Carrier:
    """What takes results with their history from one `span` into the next: "iteration", "call" or "pass".

    names: what the function of `level` calls it; if there are several, they are carried alike.
    read: the statement that reads it as it was left. stored: the one that left it so. made: the one that computed it,
        where that is another.
    nodes: what made the old results, where something still holds them.
    facts: the loop whose iterations these are.
    own: whether methods which have returned read and assign it, as an attribute of `self`.
    alike: the objects of one class that each keep a result under this name, that one first.
    keeping: how a container, a cache or a tensor got it.
    dropped: the statement that returns a detached copy, which nothing uses. waits: the one at which a generator waits.
    function: the function that reads it from outside each time it is called.
    sure: whether it is the one, if all else is known; another of the kind may be.
    """

    case: Case
    kind: Kind
    level: Level
    names: tuple[str, ...]
    read: Place | None = None
    stored: Place | None = None
    made: Place | Line | None = None
    nodes: tuple[int, ...] = ()
    span: str = "iteration"
    facts: LoopFacts | None = None
    own: bool = False
    alike: tuple[str, ...] = ()
    keeping: Keeping | None = None
    dropped: Place | None = None
    waits: Place | None = None
    function: str = ""
    sure: bool = True

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def variable(self) -> str:
        """The variable or the attribute itself, without an entry of it."""
        return apart(self.name)[0]

    @property
    def inner(self) -> str:
        """What the statements that read and store it call it."""
        return self.called(self.name)

    def called(self, name: str) -> str:
        """What those statements call one of the names."""
        return f"self.{name.rpartition('.')[2]}" if self.own else name

    def made_of(self, name: str) -> Place | None:
        """The statement of the level's function that gave a variable its value."""
        return next(reversed(assignments(self.level.body, name, before=self.level.line)), None)

    @property
    def value(self) -> object:
        held = self.level.value(self.name)
        return held if held is not None else held_as(self.case.failure, self.name)

    @property
    def when(self) -> str:
        """When it was stored, of what was only once."""
        body, _ = read_at(self.stored)
        if self.facts is not None:
            inside = self.stored is not None and self.stored.line > self.facts.loop.line
            inside = inside and self.stored is not None and self.stored.file == self.facts.loop.file
            return "only in some iterations" if inside and self.kind == "once" else "before the loop"
        if self.function:
            return f"outside {self.function}()"
        if body is not None and isinstance(body.node, ast.ClassDef):
            return f"in the body of class {body.name}"
        prepared = body is not None and (body.name == "__init__" or body.node in self.case.prepared)
        return f"in {body.name}{'()' * (body.name != '__init__')}" if prepared and body is not None else ""
