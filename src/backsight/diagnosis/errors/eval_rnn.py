"""BS229: backward through a cuDNN RNN that ran in evaluation mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.naming import search
from backsight.naming.plain import class_name
from backsight.source import Body
from backsight.source.bindings import parameters_of
from backsight.source.body import LOOPS, callee, dotted, is_constant, statements
from backsight.source.edits import put
from backsight.story.failure import Failure, Level
from backsight.story.files import calls_in_files
from backsight.story.fixes import first_statement
from backsight.tape import modules_in, parameters_in


@explains("BS229", r"cudnn RNN backward can only be called in training mode")
def eval_rnn(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the RNN that is in evaluation mode, and the line that put it there."""
    found = search((), frames=failure.frames, collect=(torch.nn.RNNBase,)).found
    held = [(each, name.path) for each, name in found if isinstance(each, torch.nn.RNNBase) and not each.training]
    names = [path for _, path in held]
    kind = class_name(type(held[0][0])) if held else "RNN"
    name = listed(names, 2) if names else "An RNN"
    parts = {part for path in names for part in path.split(".")}
    parts |= {name for each, _ in held for level in failure.users for name in _around(level, each)}
    evals = list(_evaluating(failure, parts))
    forgotten = _forgotten(failure, [each for each, _ in held], evals)
    says = "puts it in evaluation mode." if not forgotten else "turns on evaluation mode, which is still on."
    lines = [shown(body.place(statement), says, "read") for body, statement in evals[:2]]
    first = names[0] if len(names) == 1 else "rnn"
    dropped = any(each.dropout for each, _ in held)
    quiet = f" Without dropout, set {first}.dropout = 0.0." if dropped else ""
    own = failure.user.body if failure.user is not None else None
    edit = ""
    if len(names) == len(evals) == 1 and own is not None and own.node is evals[0][0].node:
        edit = str(put(f"{first}.train()", "below", own.place(evals[0][1])))
    return explanation(
        f"{name}{f' (a {kind})' if held else ''} ran in evaluation mode, where cuDNN saves nothing for backward.",
        (*lines, *failing(failure, "needs what only training mode saves.")),
        forgotten
        or f"Keep it in training mode, also where its weights are frozen: {first}.train() after the model is put in "
        f"evaluation mode{edit}.{quiet} Or run its forward pass inside "
        "`with torch.backends.cudnn.flags(enabled=False):`.",
        source=str(evals[0][0].place(evals[0][1])) if len(evals) == 1 else failure.source,
        exact=len(names) == 1 and len(evals) == 1,
    )


def _evaluating(failure: Failure, parts: set[str]) -> Iterator[tuple[Body, ast.stmt]]:
    """The statements that put one of these, or a module around it, in evaluation mode.

    If there are none, the only one that does so with what its function was given: under a name of its own.
    """
    given: list[tuple[Body, ast.stmt]] | None = []
    for body, statement, call in calls_in_files(failure):
        receiver, method = callee(call)
        off = method == "eval" or (method == "train" and bool(call.args) and is_constant(call.args[0], False))
        name = dotted(receiver) or ""
        if not off or (method == "eval" and call.args):
            continue
        if name.split(".")[-1] in parts:
            yield body, statement
            given = None
        elif given is not None and name in parameters_of(body.node):
            given.append((body, statement))
    if given is not None and len(given) == 1:
        yield given[0]


def _around(level: Level, rnn: torch.nn.Module) -> Iterator[str]:
    """The names of a level for what an RNN is part of."""
    for name, value in level.variables.items():
        if isinstance(value, torch.nn.Module) and any(each is rnn for _, each in modules_in(value)):
            yield name


def _forgotten(failure: Failure, rnns: Sequence[torch.nn.RNNBase], evals: Sequence[tuple[Body, ast.stmt]]) -> str:
    """Where to turn training mode on again: of a model that trains its RNN, and that something which does not run any
    more, or a loop around the backward, has put in evaluation mode; empty where that may be meant."""
    level = failure.user
    trained = rnns and all(p.requires_grad for each in rnns for p in parameters_in(each))
    if level is None or level.body is None or not trained or len(evals) != 1:
        return ""
    whole = (name for name in _around(level, rnns[0]) if not getattr(level.variables[name], "training", True))
    name, (where, statement) = next(whole, ""), evals[0]
    own, node = where.node is level.body.node, level.body.node
    loops = [each for each in statements(node) if isinstance(each, LOOPS) and _spans(each, level.line)]
    around = next((each for each in loops if not own or _spans(each, statement.lineno)), None)
    running = any(each.body is not None and each.body.node is where.node for each in failure.users)
    if not name or (running and not (own and around is not None and statement.lineno > level.line)):
        return ""
    if isinstance(node, ast.FunctionDef) and not own:
        first = first_statement(level.body)
        edit = put(f"{name}.train()", "above", first) if first is not None else ""
        return f"Call {name}.train() at the beginning of {node.name}(), before its forward pass{edit}."
    if around is None:
        return ""
    edit = put(f"{name}.train()", "below", level.body.place(around))
    return f"Call {name}.train() at the beginning of the loop on line {around.lineno}, before its forward pass{edit}."


def _spans(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or 0)
