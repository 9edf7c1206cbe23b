"""What an optimizer counts, and the numbers at which it may do something else than before."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch

LATE = (100, 1_000, 10_000, 100_000, 1_000_000)
"""Counts that are gone to in any case: what begins at a count that is computed has begun there."""

LARGEST = 10**7
"""Greater numbers are no counts of steps."""


class Counter(NamedTuple):
    """A number that goes up by one with each step, and where it is kept."""

    holder: Any
    key: Any
    value: float

    def add(self, steps: int) -> None:
        """Have it be as after this many more steps."""
        now = self.holder[self.key]
        if isinstance(now, torch.Tensor):
            with torch.no_grad():
                now.add_(steps)
        else:
            self.holder[self.key] = now + steps


def numbers(optimizer: torch.optim.Optimizer) -> dict[tuple[Any, ...], Counter]:
    """Return every number that an optimizer holds, by its place."""
    found: dict[tuple[Any, ...], Counter] = {}
    for number, group in enumerate(optimizer.param_groups):
        _collect(("group", number), {key: value for key, value in group.items() if key != "params"}, group, found)
    attributes = {
        key: value
        for key, value in vars(optimizer).items()
        if key not in ("state", "param_groups", "defaults") and not key.startswith("_optimizer_")
    }
    _collect(("attribute",), attributes, vars(optimizer), found)
    for key, entries in optimizer.state.items():
        if isinstance(entries, dict):
            _collect(("state", id(key)), entries, entries, found)
        else:
            _collect(("state",), {key: entries}, optimizer.state, found)
    return found


def counting(before: dict[tuple[Any, ...], Counter], after: dict[tuple[Any, ...], Counter]) -> set[tuple[Any, ...]]:
    """Return the whole numbers that went up, mostly by one, from one step to the next."""
    return {at for at, now in after.items() if at in before and _is_count(now.value - before[at].value)}


def outside(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the numbers that an optimizer's class and module hold, which all optimizers of the class share."""
    found: dict[str, float] = {}
    for base in type(optimizer).__mro__:
        if _is_of_others(base):
            held = {f"{base.__name__}.{name}": value for name, value in vars(base).items()}
            module = vars(sys.modules.get(base.__module__, object))
            held.update((f"{base.__module__}.{name}", value) for name, value in module.items())
            for name, value in held.items():
                places: dict[tuple[Any, ...], Counter] = {}
                _collect((), {name: value}, held, places)
                found.update((".".join(map(str, at)), each.value) for at, each in places.items())
    return found


def turning_points(optimizer: torch.optim.Optimizer) -> list[int]:
    """Return the whole numbers of an optimizer's settings and attributes, then of its class, then of its code."""
    held: set[int] = set()
    for value in (*(each.value for each in numbers(optimizer).values()), *optimizer.defaults.values()):
        held |= _whole(value)
    shared = {count for value in _of_class(type(optimizer)) for count in _whole(value)}
    written = {count for value in _written(type(optimizer)) for count in _whole(value)}
    return [*sorted(held), *sorted(shared - held), *sorted(written - held - shared)]


def thresholds(optimizer: torch.optim.Optimizer) -> list[float]:
    """Return the fractions of an optimizer's class and code with which its learning rate may be compared."""
    kind = type(optimizer)
    return sorted({value for value in (*_of_class(kind), *_written(kind)) if type(value) is float and 0 < value < 1})


def _of_class(kind: type) -> list[Any]:
    """Return what the class of an optimizer, and its bases outside of PyTorch, hold."""
    return [value for base in kind.__mro__ if _is_of_others(base) for value in vars(base).values()]


def _written(kind: type) -> list[Any]:
    """Return the constants in the code of a class, and those of its module that the code names."""
    found: list[Any] = []
    for code in _codes(kind):
        found += code.co_consts
    for base in kind.__mro__:
        if _is_of_others(base):
            module = vars(sys.modules.get(base.__module__, object))
            names = {name for code in _codes(base) for name in code.co_names}
            found += [module[name] for name in names if isinstance(module.get(name), (int, float))]
    return found


def _collect(place: tuple[Any, ...], entries: Any, holder: Any, found: dict[tuple[Any, ...], Counter]) -> None:
    for key, value in entries.items():
        number = _number(value)
        if number is not None:
            at = (*place, id(key) if isinstance(key, torch.Tensor) else key)
            found[at] = Counter(holder, key, number)
        elif type(value) is dict:
            _collect((*place, key), value, value, found)
        elif type(value) is list and len(value) <= 64:
            _collect((*place, key), dict(enumerate(value)), value, found)


def _number(value: Any) -> float | None:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1 or value.is_complex() or type(value) not in (torch.Tensor, torch.nn.Parameter):
            return None
        return float(value.detach())
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _is_count(rise: float) -> bool:
    return rise >= 1 and rise.is_integer()


def _whole(value: Any) -> set[int]:
    """Return the counts that a constant may stand for."""
    if isinstance(value, (tuple, list, frozenset)):
        return {count for each in value for count in _whole(each)}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return set()
    return {int(value)} if 2 <= value <= LARGEST and value == int(value) else set()


def _codes(kind: type) -> Iterator[CodeType]:
    """Yield the code of a class and of its bases outside of PyTorch, and of the functions that they name."""
    seen: set[CodeType] = set()
    waiting: list[Any] = []
    for base in kind.__mro__:
        if _is_of_others(base):
            waiting += [(getattr(each, "__func__", each), base.__module__) for each in vars(base).values()]
    while waiting:
        value, module = waiting.pop()
        value = inspect.unwrap(value) if callable(value) else value
        code = value if isinstance(value, CodeType) else getattr(value, "__code__", None)
        if not isinstance(code, CodeType) or code in seen:
            continue
        seen.add(code)
        yield code
        waiting += [(each, module) for each in code.co_consts if isinstance(each, CodeType)]
        named = vars(sys.modules.get(module, object)) if module in sys.modules else {}
        waiting += [
            (named[name], named[name].__module__)
            for name in code.co_names
            if isinstance(named.get(name), FunctionType) and not named[name].__module__.startswith("torch.")
        ]


def _is_of_others(base: type) -> bool:
    return base.__module__.split(".")[0] not in ("torch", "builtins")


def jumps(points: Sequence[int], most: int) -> list[int]:
    """Return the counts to which to jump: late ones, and two before each turning point, and before the doubles."""
    counts = dict.fromkeys(point - 2 for point in points)
    counts.update(dict.fromkeys(2 * point - 2 for point in points[:most]))
    return sorted({*[count for count in counts if count >= 5][:most], *LATE})
