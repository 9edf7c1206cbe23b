"""Parameters that were frozen and are not any more, and whether anything moves them: looked at at spaced steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.thawed import thawed
from backsight.tape import parameters_in
from backsight.tracing.changes import version

_MOST = 4096
_BETWEEN = 64
"""Steps after which is looked again, where something was frozen."""


@dataclass(slots=True)
class _Frozen:
    """A parameter that was seen frozen; once it is not, since which step, and its version then."""

    parameter: weakref.ref[torch.Tensor]
    since: int = 0
    version: int = 0


class Thawed:
    """Follows the parameters of the models that were called."""

    def __init__(self) -> None:
        self._frozen: dict[int, _Frozen] = {}
        self._finding: tuple[Finding, list[_Frozen]] | None = None

    def is_due(self, step: int) -> bool:
        """Whether to look after so many steps of the run."""
        return not step & (step - 1) or (bool(self._frozen) and step % _BETWEEN == 0)

    def look(
        self,
        models: Iterable[torch.nn.Module],
        optimizer: torch.optim.Optimizer,
        stepping: Callable[[int], set[int]],
        step: int,
        caller: Callable[[], FrameType],
    ) -> None:
        """Look after a step; `stepping` returns the ids of what optimizers hold that have made one since another."""
        still = []
        for parameter in (p for model in models for p in parameters_in(model)):
            known = self._frozen.get(id(parameter))
            if not parameter.requires_grad:
                if len(self._frozen) < _MOST or known is not None:
                    self._frozen[id(parameter)] = _Frozen(weakref.ref(parameter))
            elif known is not None and known.parameter() is parameter and parameter.grad is not None:
                if not known.since:
                    known.since, known.version = step, version(parameter)
                elif version(parameter) != known.version:
                    del self._frozen[id(parameter)]
                else:
                    still.append((parameter, known))
        if still and self._finding is None:
            since = min(known.since for _, known in still)
            held = stepping(since)
            lost = [(p, known) for p, known in still if id(p) not in held]
            found = thawed([p for p, _ in lost], optimizer, since, caller()) if lost else None
            self._finding = (found, [known for _, known in lost]) if found is not None else None

    @property
    def findings(self) -> list[Finding]:
        """What has not moved to the end."""
        if self._finding is None:
            return []
        held = [(p, known) for known in self._finding[1] if (p := known.parameter()) is not None]
        return [self._finding[0]] if all(version(p) == known.version for p, known in held) else []
