"""What NumPy computes of a loss, written in PyTorch: from the conversion to where it becomes a tensor again."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.wording import listed
from backsight.naming.plain import namespace
from backsight.source.bindings import bound, uses
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.story.failure import Level

_RENAMED = {"array": "stack", "asarray": "stack", "concatenate": "cat", "append": "cat", "power": "pow"}
_BACK = ("tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor")


def in_pytorch(level: Level, converted: str, name: str) -> str:
    """The fix for a loss that reaches what is trained through NumPy alone: which calls to replace, line by line."""
    statement, body = level.statement, level.body
    if statement is None or body is None:
        return f"Compute with {name} in PyTorch instead of NumPy."
    names, edits = set[str](), list[str]()
    for each in statements(body.node):
        reads = {use.name for use in uses(each) if not use.binds}
        converts = any(callee(call)[1] == "numpy" for call in calls_in(each))
        if each.lineno < statement.lineno or not (each is statement or names & reads or converts):
            continue
        names |= {name for name in bound(each) if "." not in name}
        edits += [f"{edit} (line {each.lineno})" for call in calls_in(each) if (edit := _edit(level, call, converted))]
    return (
        f"Compute it in PyTorch, because the loss depends on {name} through this result alone: "
        f"{listed(list(dict.fromkeys(edits)), 6)}. With {simple(converted)}.detach().numpy(), the loss would have no "
        "graph."
    )


def _edit(level: Level, call: ast.Call, converted: str) -> str:
    """What to write in place of a call, empty if it may stay."""
    receiver, function = callee(call)
    text = level.body.text if level.body else ast.unparse
    owner = namespace(level.value(dotted(receiver) or "")) if receiver is not None else None
    module, given = (owner or {}).get("__name__"), [text(each) for each in call.args]
    if function == "numpy" and receiver is not None:
        return f"{text(receiver)} instead of {text(call)}"
    if module == "torch" and function in _BACK and given:
        return f"{given[0]} instead of {text(call)}"
    if type(module) is not str or module.partition(".")[0] not in ("numpy", "scipy"):
        return ""
    if given == [converted] and function in ("array", "asarray"):
        return f"{converted} instead of {text(call)}"
    if function == "corrcoef" and len(given) == 2:
        return f"torch.corrcoef(torch.stack([{', '.join(given)}])) instead of {text(call)}"
    other = _RENAMED.get(function, function)
    path = next(
        (
            f"{at}{other}"
            for at, held in (("", torch), ("fft.", torch.fft), ("linalg.", torch.linalg))
            if other in vars(held)
        ),
        "",
    )
    return (
        f"torch.{path}() instead of {text(call.func)}()"
        if path
        else f"a PyTorch operation instead of {text(call.func)}()"
    )
