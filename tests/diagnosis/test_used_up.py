"""Whether an iterator has come to its end, without asking it for an element."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from backsight.diagnosis.misplaced import _is_used_up

ITERATORS: dict[str, Callable[[], Iterator[object]]] = {
    "generator": lambda: (each for each in [1, 2]),
    "filter": lambda: filter(None, (each for each in [1, 2])),
    "map": lambda: map(str, iter([1, 2])),
    "zip": lambda: zip((each for each in [1, 2]), itertools.count()),
    "enumerate": lambda: enumerate(each for each in [1, 2]),
    "chain": lambda: itertools.chain([1], (each for each in [2])),
    "list": lambda: iter([1, 2]),
    "tuple": lambda: iter((1, 2)),
    "dict": lambda: iter({1: 2, 3: 4}.values()),
}


@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iterator_is_used_up_at_its_end_and_not_before(kind: str) -> None:
    held = ITERATORS[kind]()
    assert not _is_used_up(held)
    next(held)
    assert not _is_used_up(held)
    assert len(list(held)) == 1
    assert _is_used_up(held)


@pytest.mark.parametrize("held", [[], (), {}, None, 3, itertools.count(), filter(None, [1])])
def test_what_is_no_iterator_or_has_more_is_not(held: object) -> None:
    assert not _is_used_up(held)


class Hostile:
    """To look at it, beyond its type, ends the test."""

    def __getattribute__(self, name: str) -> object:
        raise SystemError(f"an object of the program was asked for {name}")


def test_an_object_of_the_program_is_asked_nothing() -> None:
    assert not _is_used_up(Hostile())
    assert not _is_used_up(map(Hostile(), iter([1])))  # type: ignore[arg-type]
