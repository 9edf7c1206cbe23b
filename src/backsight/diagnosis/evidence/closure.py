"""The closure that a failing step of an optimizer was given, as the user's line writes it."""

from __future__ import annotations

import ast

import torch

from backsight.source.body import callee, calls_in, dotted, keyword
from backsight.story.failure import Failure, Level


def closure_given(failure: Failure) -> tuple[Level, ast.Call] | None:
    """Return the call that a closure stands for, and the level that gives it to the step; None if that did not fail.

    The optimizer itself has to have stumbled over what the closure returned: the user's code is not running any more.
    """
    innermost, level = (failure.levels or (None,))[-1], failure.user
    if innermost is None or level is None or level.statement is None or innermost is level:
        return None
    if innermost.variables.get("closure") is None or not issubclass(
        type(innermost.variables.get("self")), torch.optim.Optimizer
    ):
        return None
    for node in calls_in(level.statement):
        given = (node.args[0] if node.args else keyword(node, "closure")) if callee(node)[1] == "step" else None
        if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call):
            return level, given.body
        if given is not None and dotted(given):
            return level, ast.copy_location(ast.Call(given, [], []), given)
    return None
