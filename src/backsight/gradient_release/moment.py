"""An optimizer and its parameters at a moment, to which they can be put back as often as one likes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from backsight.gradient_release.per_step_globals import same


class Outcome(NamedTuple):
    """What a step has made: of each parameter with its state, and of what they share."""

    own: list[tuple[torch.Tensor, Any]]
    shared: list[Any]

    def untouched(self, number: int, before: Outcome) -> bool:
        """Whether a parameter, and what its state held before, is as it was; more may have come to its state."""
        (weight, state), (earlier, held) = self.own[number], before.own[number]
        if isinstance(state, dict) and isinstance(held, dict):
            state = {key: value for key, value in state.items() if key in held}
        return same(weight, earlier) and (not held or same(state, held))


class Moment:
    """A moment of small copies.

    ```python
    moment = Moment(optimizer, parameters)
    optimizer.step()
    moment.restore()      # as if the step had not been
    ```
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]):
        self._optimizer = optimizer
        self._parameters = parameters
        self._held = self._copy((_contents(optimizer), [(each.data, each.grad) for each in parameters]))

    def restore(self) -> None:
        """Put everything back."""
        (attributes, state, groups), tensors = self._copy(self._held)
        optimizer = self._optimizer
        for name in [name for name in vars(optimizer) if name not in attributes and _is_plain(name)]:
            del vars(optimizer)[name]
        vars(optimizer).update(attributes)
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, settings in zip(optimizer.param_groups, groups, strict=True):
            for key in [key for key in group if key not in settings and key != "params"]:
                del group[key]
            group.update(settings)
        for parameter, (data, gradient) in zip(self._parameters, tensors, strict=True):
            parameter.data = data
            parameter.grad = gradient

    def outcome(self) -> Outcome:
        """Return a copy of what there is now."""
        attributes, state, groups = _contents(self._optimizer)
        own = [(each.data, state.pop(each, None)) for each in self._parameters]
        copied = self._copy((own, [attributes, state, groups]))
        return Outcome(*copied)

    def _copy(self, value: Any) -> Any:
        """Return a deep copy that holds the same parameters and the same optimizer."""
        memo: dict[int, Any] = {id(each): each for each in (*self._parameters, self._optimizer)}
        with torch.no_grad():
            return _copied(value, memo)


def changed(expected: Outcome, found: Outcome) -> tuple[set[int], bool]:
    """Return the parameters whose step differs, and whether what they share does."""
    own = {number for number, each in enumerate(expected.own) if not same(each, found.own[number])}
    return own, not same(expected.shared, found.shared)


def _contents(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Any], dict[Any, Any], list[dict[str, Any]]]:
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    attributes = {name: value for name, value in vars(optimizer).items() if _is_plain(name)}
    return attributes, dict(optimizer.state), groups


def _is_plain(name: str) -> bool:
    return name not in ("state", "param_groups", "defaults", "step") and not name.startswith("_optimizer_")


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Copy deeply, what is held twice once; what cannot be copied is kept as it is."""
    if id(value) in memo:
        return memo[id(value)]
    made: Any
    if type(value) is dict:
        made = memo[id(value)] = {}
        made.update((key, _copied(each, memo)) for key, each in value.items())
    elif type(value) is list:
        made = memo[id(value)] = []
        made += [_copied(each, memo) for each in value]
    elif type(value) is tuple:
        made = tuple(_copied(each, memo) for each in value)
    else:
        try:
            made = copy.deepcopy(value, memo)
        except Exception:
            made = value
    return made
