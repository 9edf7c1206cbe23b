"""What the healthy training programs share.

Each program takes `check`, which it calls with the audit of every loss just before its backward, for some steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

import backsight as bs

STEPS = 4
Check = Callable[[bs.Report], None]


def mlp(inputs: int = 4, outputs: int = 3, width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def programs(namespace: dict[str, Any]) -> list[Any]:
    """The programs that a module defines: its functions that take `check`, and nothing else that is needed."""
    own = (each for each in namespace.values() if getattr(each, "__module__", "") == namespace["__name__"])
    return [each for each in own if callable(each) and getattr(each, "__code__", None) and _takes_check(each)]


def _takes_check(function: Any) -> bool:
    needed = function.__code__.co_argcount - len(function.__defaults__ or ())
    return needed == 1 and function.__code__.co_varnames[0] == "check"
