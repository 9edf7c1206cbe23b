"""BS142: hooks that are registered again and again, and never removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

import torch

from backsight.diagnosis._torch import gradient_hooks
from backsight.diagnosis.errors.hook_result import registrations
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import files_around
from backsight.diagnosis.wording import if_known, listed, numbered, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.story.failure import function_of

_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_FORWARD = ("register_forward_hook", "register_forward_pre_hook")


def hooks(held: torch.Tensor | torch.nn.Module) -> Counter[Any]:
    """Return how often each function of the program's is a hook of a parameter or module; by its code, as a lambda is
    another one each time."""
    if isinstance(held, torch.Tensor):
        every = gradient_hooks(held)
    else:
        tables: list[Any] = [(namespace(held) or {}).get(name) for name in _TABLES]
        every = [hook for table in tables if table for hook in list(table.values())]
    return Counter(filter(None, map(_of, every))) if len(every) > 1 else Counter()


def _of(hook: Any) -> CodeType | BuiltinFunctionType | None:
    """Return the code of a hook of the program's, or a function of PyTorch's that has none; None for all others."""
    while type(hook) is partial:
        hook = hook.func
    function = function_of(hook)
    if function is None:
        return hook if type(hook) is BuiltinFunctionType else None
    code: CodeType = function.__code__
    return None if is_library(code.co_filename) or is_ours(code.co_filename) else code


def piled(
    held: Sequence[torch.Tensor | torch.nn.Module], hook: object, counts: Sequence[tuple[int, int]], frame: FrameType
) -> Finding:
    """Return the finding that the same hook is on these more and more often.

    counts: the steps at which its copies were counted, and how many there were.
    """
    every = [each for file in files_around(frame) for each in registrations(file, *_FORWARD)]
    fitting = [each for each in every if isinstance(hook, CodeType) and each.is_of(hook)]
    fitting = fitting or [each for each in every if each.fits(getattr(hook, "co_name", getattr(hook, "__name__", "")))]
    place = fitting[0].place if len(fitting) == 1 else None
    few = listed([found[0].path if found else "a parameter" for found in search(held, limit=1).names], 2)
    step, many = counts[-1]
    grown = listed([f"{count:,} at step {numbered(at)}" for at, count in counts[-3:]])
    return warning(
        "BS142",
        f"The same hook runs {many:,} times on {few}: it is registered again and again, and never removed.",
        (
            f"Copies of it: {grown}.",
            if_known(place, "registers it once more each time it runs."),
        ),
        "Register it once, before the training. Or keep the handle that the registration returns, and call its "
        "remove() before you register it again.",
        place,
        since=step,
    )
