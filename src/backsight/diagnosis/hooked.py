"""BS142: a hook zeroes the gradient of a parameter in every step, or is registered again and again."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

import torch

from backsight.diagnosis._torch import gradient_hooks
from backsight.diagnosis.evidence.registered import Registered, registrations
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import few_of, files_around, loops_around
from backsight.diagnosis.wording import if_known, listed, numbered, shown, sure_if, warning
from backsight.naming.plain import class_name, namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Place, function_at, only, read_at
from backsight.source.body import callee, dotted
from backsight.story.failure import function_of

_IN_PLACE = ("zero_", "mul_", "fill_", "copy_", "masked_fill_", "clamp_")
_ZEROS = ("zeros_like", "new_zeros", "zero_", "zeros")


@dataclass(frozen=True, eq=False)
class _Hook:
    """A hook that may zero a gradient, what registered it, and whether it is sure to zero whatever it is given."""

    name: str
    registered: tuple[Registered, ...]
    zeroes: bool


def zeroed(tensors: Sequence[torch.Tensor], since: int, frame: FrameType | None) -> list[Finding]:
    """Return the findings of parameters whose gradient was zero at every look, by the hook that makes it so.

    That a gradient is zero may have many reasons, and most are meant: nothing is said where there is no such hook.
    """
    every = [each for file in files_around(frame) for each in registrations(file)]
    by_hook: dict[Any, tuple[_Hook, list[torch.Tensor]]] = {}
    elsewhere: list[torch.Tensor] = []
    for tensor in tensors:
        hooks = [each for hook in gradient_hooks(tensor) if (each := _hook(hook, every)) is not None]
        if hooks:
            key = hooks[0].name, tuple(str(each.place) for each in hooks[0].registered)
            by_hook.setdefault(key, (hooks[0], []))[1].append(tensor)
        else:
            elsewhere.append(tensor)
    found = [_finding(hook, held, since) for hook, held in by_hook.values()]
    sure = [each for each in every if _zeroes(each) and each.method != "register_post_accumulate_grad_hook"]
    if elsewhere and len(sure) == 1 and not by_hook:  # on a result, or a module, that these are computed into
        found.append(_finding(_Hook(sure[0].name, (sure[0],), zeroes=True), elsewhere, since, read=True))
    return found


def _hook(hook: Any, every: Sequence[Registered]) -> _Hook | None:
    """Return a hook of a tensor, if it is the program's and may change the gradient."""
    function = function_of(hook)
    code = function.__code__ if function is not None else None
    name = function.__name__ if function is hook else getattr(hook, "__name__", class_name(type(hook)))
    fitting = tuple(each for each in every if each.fits(name))
    if code is None:
        return _Hook(name, fitting, name in _ZEROS)
    body = None if is_library(code.co_filename) or is_ours(code.co_filename) else function_at(code)
    if body is None or not _changes(body.node):
        return None
    exact = tuple(each for each in every if each.is_of(code))
    return _Hook(name, exact or fitting, any(map(_zeroes, exact)))


def _changes(function: ast.AST) -> bool:
    """Whether a hook may return something else than the gradient, or changes it in place."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            return True
        if isinstance(node, ast.Call) and callee(node)[1] in _IN_PLACE:
            return True
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        if any(isinstance(each, ast.Subscript | ast.Attribute) for each in targets) or isinstance(node, ast.AugAssign):
            return True
    return False


def _zeroes(one: Registered) -> bool:
    """Whether the text of a hook says that it makes zeros of whatever it is given."""
    if one.function is None:
        return one.name in _ZEROS
    calls = (each for each in ast.walk(one.function) if isinstance(each, ast.Call))
    return any(_is_zero(value) for _, value in one.results) or any(callee(each)[1] == "zero_" for each in calls)


def _is_zero(value: ast.expr) -> bool:
    match value:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(isinstance(each, ast.Constant) and not each.value for each in (left, right))
        case ast.Call():
            return callee(value)[1] in _ZEROS
        case ast.Tuple(elts=elements):
            return any(map(_is_zero, elements))
    return False


def _finding(hook: _Hook, held: Sequence[torch.Tensor], since: int, *, read: bool = False) -> Finding:
    few, one = few_of(held), len(held) == 1
    places = list(dict.fromkeys(each.place for each in hook.registered))
    place = only(places)
    called, sure = "a lambda" if hook.name == "<lambda>" else hook.name, not read and len(places) < 2
    lost = _lost(place) if place is not None else None
    why = "a hook zeroes" if hook.zeroes else "a hook seems to zero"
    freeze = f"To freeze {few} for good, use requires_grad_(False)."
    return warning(
        "BS142",
        f"{few} {'gets' if one else 'get'} no gradient: {why} {'it' if one else 'them'} in every step.",
        (
            f"Each gradient that was read from step {numbered(since)} on was exactly zero.",
            *(shown(each, f"registers the hook {called}.", sure_if(sure)) for each in places[:2]),
            f"{lost} holds only the last handle: the other hooks cannot be removed." if lost is not None else None,
        ),
        f"Keep all handles in a list, and call remove() on each of them. {freeze}"
        if lost is not None
        else f"Keep the handle that the registration returns, and call its remove() before training. {freeze}",
        place,
        exact=hook.zeroes and not read,
        since=since,
    )


def _lost(place: Place) -> str | None:
    """Return what the handle is assigned to, where a loop registers several and each takes the place of the last."""
    body, statement = read_at(place)
    if body is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    return dotted(statement.targets[0]) if loops_around(body, place.line) else None


# Hooks that are registered again and again, and never removed.


_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_FORWARD = ("register_forward_hook", "register_forward_pre_hook")


def hooks(held: torch.Tensor | torch.nn.Module) -> Counter[Any]:
    """Return how often each function of the program's is a hook of a parameter or module, by its code."""
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
    """Return the finding that the same hook is on these more and more often: `counts` by step."""
    every = [each for file in files_around(frame) for each in registrations(file, *_FORWARD)]
    fitting = [each for each in every if isinstance(hook, CodeType) and each.is_of(hook)]
    fitting = fitting or [each for each in every if each.fits(getattr(hook, "co_name", getattr(hook, "__name__", "")))]
    place = fitting[0].place if len(fitting) == 1 else None
    step, many = counts[-1]
    grown = listed([f"{count:,} at step {numbered(at)}" for at, count in counts[-3:]])
    return warning(
        "BS142",
        f"The same hook runs {many:,} times on {few_of(held)}: it is registered again and again, and never removed.",
        (
            f"Copies of it: {grown}.",
            if_known(place, "registers it once more each time it runs."),
        ),
        "Register it once, before the training. Or keep the handle that the registration returns, and call its "
        "remove() before you register it again.",
        place,
        since=step,
    )
