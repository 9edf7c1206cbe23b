"""The way of a gradient behind a value: through the functions that computed it and those that gave it, to its ends."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

import torch

from backsight.source import Carried, carried
from backsight.source.body import calls_in
from backsight.story.failure import Failure
from backsight.story.memory import is_module
from backsight.story.sections import (
    Section,
    behind_attribute,
    called_by,
    function_called,
    passed,
    section_of,
    undecorated,
)
from backsight.tape import parameters_in, tensors_in

Read = tuple[str, int]
"""A name or an expression, and the line at which it stands."""

_MOST = 200


class Way:
    """A walk along the gradient of what functions read, from function to function, each read once.

    It ends at what cuts a value off. Who walks may go on `behind` such a cut: what is reached without it comes first.
    """

    def __init__(self, failure: Failure) -> None:
        self._failure = failure
        self._running = {level.body.node for level in failure.users if level.body is not None}
        self._queue: deque[tuple[Section, Read, object]] = deque()
        self._later: deque[tuple[Section, Read, object]] = deque()
        self._seen: set[tuple[object, ...]] = set()

    def enter(self, section: Section, read: Sequence[Read], behind: object = None) -> None:
        """Go on from what a function reads, `behind` a cut."""
        (self._queue if behind is None else self._later).extend((section, each, behind) for each in read)

    def steps(self) -> Iterator[tuple[Section, Carried, object]]:
        """Yield each function with what it carries on, and the cut behind which that is."""
        while self._queue or self._later:
            if not self._queue:
                self._queue.append(self._later.popleft())
            section, read, behind = self._queue.popleft()
            key = section.body.node, id(section.value("self")), section.call, section.lifted, read
            if key in self._seen or len(self._seen) >= _MOST:
                continue
            self._seen.add(key)
            inner: list[Section] = []
            here = replace(section, goals=(read,))  # of a tuple that a call returns, the part that is read here
            opens = partial(self._opens, here, inner)
            found = carried(section.body, *read, section.enabled, opens, section.skipped)
            yield section, found, behind
            stored = [each for name in sorted(found.entering) for each in behind_attribute(section, name)]
            for each in (*inner, *_giver(self._failure, section, found.entering), *stored):
                self._queue.extend((each, goal, behind) for goal in each.goals)

    def _opens(self, section: Section, inner: list[Section], call: ast.Call) -> bool:
        """Note what a call runs; whether that is known."""
        called = called_by(section, call, self._running)
        inner += called
        return bool(called)


def comes_of(failure: Failure, section: Section, read: Sequence[Read], tensors: Collection[torch.Tensor]) -> bool:
    """Whether what a function reads may be computed from some tensors, or by a module that trains nothing else."""
    wanted, way = {id(each) for each in tensors}, Way(failure)
    way.enter(section, read)
    return any(_is_of(at.value(name), wanted) for at, found, _ in way.steps() for name in found.names)


def leads_to(failure: Failure, section: Section, read: Sequence[Read], function: Section, name: str) -> bool:
    """Whether what a function reads may be computed from what another function calls by a name."""
    way = Way(failure)
    way.enter(section, read)
    return any(at.body.node is function.body.node and name in found.names for at, found, _ in way.steps())


def _is_of(value: object, wanted: Collection[int]) -> bool:
    if is_module(value):
        own = [each for each in parameters_in(value) if each.requires_grad]
        return bool(own) and all(id(each) in wanted for each in own)
    return any(id(each) in wanted for each in tensors_in(value))


def _giver(failure: Failure, section: Section, read: AbstractSet[str]) -> Iterator[Section]:
    """The caller of a function, with what it gave for parameters, and what both know by one name."""
    if section.previous is not None:
        yield from [section.previous] if read & section.given.keys() else ()
        return
    caller, given, call = section.caller, section.given, section.call
    if section.level is not None and section.level in failure.users:
        at = failure.users.index(section.level) + 1
        outer = failure.users[at] if at < len(failure.users) else None
        caller = section_of(outer) if outer is not None else None
        for each in calls_in(outer.statement) if outer is not None else ():
            function, owner = function_called(outer, each) if outer is not None else (None, None)
            function = undecorated(function)
            if getattr(function, "__code__", None) is section.level.frame.f_code:
                given, call = passed(function, owner, each), each
    if caller is None or call is None:
        return
    for name in read:
        value = given.get(name)
        if value is not None and getattr(value, "lineno", None) is not None:  # no default
            yield replace(caller, goals=((caller.body.text(value), value.lineno),), whole=False)
        elif value is None and name not in section.own and _is_shared(section.value(name), caller.value(name)):
            yield replace(caller, goals=((name, call.lineno),), whole=False)


def _is_shared(value: object, other: object) -> bool:
    """Whether two functions have the same value by a name, and it may hold a gradient."""
    return value is other and value is not None and not callable(value)
