"""Weights that a module registers as buffers, though they require grad: `parameters()` does not list them."""

from __future__ import annotations

import ast
from typing import NamedTuple

import torch

from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source.body import callee, calls_in, is_text, statements
from backsight.source.edits import OR, on_line_with
from backsight.story.failure import Level
from backsight.story.memory import needs_gradient
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered


class LearntBuffers(NamedTuple):
    """What there is to say of them."""

    title: str
    registered: Fact
    fix: str


def learnt_buffers(level: Level, node: ast.expr, name: str, module: torch.nn.Module) -> LearntBuffers | None:
    """Return what to say of the buffers of a module that require grad; None if it has none.

    node: what the optimizer was given.
    """
    own = [(path, inner, key) for path, inner in modules_in(module) for key in _learnt(inner)]
    if not own:
        return None
    paths = [f"{name}.{path}.{key}" if path else f"{name}.{key}" for path, _, key in own]
    _, inner, key = own[0]
    new, how = f"[each for each in {name}.buffers() if each.requires_grad]", ""
    for given in (new, *(f"{name}.{method}()" for method in _yielding(module))):
        if line := on_line_with(level.body, level.statement, {node: given}):
            how += f". {OR}Or {line}, if {given} gives them" if how else line
    return LearntBuffers(
        f"{listed(paths, 4)} {'are buffers' if len(own) > 1 else 'is a buffer'}, and {name}.parameters() lists "
        "nn.Parameter only.",
        _registered(inner, key) or f"{counted(len(own), 'buffer')} of {name} require grad.",
        f"Pass the buffers that require grad: {how or new}.",
    )


def _learnt(module: torch.nn.Module) -> list[str]:
    return [key for key, held in registered(module, "_buffers").items() if needs_gradient(held)]


def _registered(module: torch.nn.Module, key: str) -> Fact | None:
    """The statement that registers a buffer by its name."""
    for body in methods_of(type(module)):
        for each in statements(body.node):
            for call in calls_in(each):
                if callee(call)[1] == "register_buffer" and call.args and is_text(call.args[0], key):
                    return shown(body.place(each), "registers it as a buffer.")
    return None


def _yielding(module: torch.nn.Module) -> list[str]:
    """The methods of the program's that take nothing and yield what may be the weights: `params`."""
    found = []
    for body in methods_of(type(module)):
        node = body.node
        if isinstance(node, ast.FunctionDef) and len(node.args.args) == 1 and not node.args.kwonlyargs:
            single = [each for each in ast.walk(node) if isinstance(each, ast.Yield | ast.YieldFrom)]
            plain = single and not any(isinstance(each.value, ast.Tuple) for each in single)
            named = body.name.startswith("named")
            if plain and not named and ("param" in body.name or "weight" in body.name):
                found.append(body.name)
    return found[:1]
