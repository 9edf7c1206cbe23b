"""Which nodes can be called without doing harm, and calling one so that nothing is left behind."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from backsight.random_state import random_state_kept
from backsight.source.body import dotted
from backsight.tape import Node, forward_class
from backsight.verification._torch import same_versions
from backsight.verification.custom import body_of
from backsight.verification.live._torch import saved_handles
from backsight.verification.live.operations import definition_of

_STATES = {
    "freed": "a backward has released what it saved",
    "modified": "what it saved was modified in place afterwards: backward() will raise",
    "hooked": "what it saved is packed by hooks (checkpointing, offloading), and unpacking would run them",
    "unread": "this PyTorch offers no way to read what it saved",
}

_COMMUNICATES = ("torch.distributed", "torch.nn.parallel", "deepspeed", "megatron", "fairscale")
"""Functions from here talk to other processes, which would wait for this one."""

_COLLECTIVE = re.compile(r"c10d|All_?(Reduce|Gather|To_?All)|Reduce_?Scatter")


def harm_of(node: Node, live: Any) -> str:
    """Return why a live node is not to be called; "" where it can be."""
    if node.kind == "leaf":
        return "writes to .grad"
    if node.kind == "compiled":
        return "a compiled region"
    if node.kind == "checkpoint":
        return "a reentrant checkpoint: its backward runs a whole backward of its own, which writes to .grad"
    for saved in node.saved:
        if saved.state in _STATES:
            return _STATES[saved.state]
    cls = forward_class(type(live))
    if (cls is not None and cls.__module__.startswith(_COMMUNICATES)) or _COLLECTIVE.search(node.name):
        return "its backward communicates with other processes"
    if cls is not None and _runs_backward(cls):
        return "its backward runs a backward of its own, which writes to .grad"
    return ""


def _runs_backward(cls: type) -> bool:
    """Whether the backward of a Function runs `.backward()` on tensors; true where its source does not tell.

    `kernels.backward(...)` of a module or a class is another function of that name.
    """
    function = definition_of(cls).backward
    if function is None or not _mentions_backward(function.__code__):
        return False
    body = body_of(function)
    if body is None:
        return True
    calls = (node for node in ast.walk(body.node) if isinstance(node, ast.Call))
    return any(_is_engine(call.func, function.__globals__) for call in calls)


def _mentions_backward(code: types.CodeType) -> bool:
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return "backward" in code.co_names or any(map(_mentions_backward, inner))


def _is_engine(called: ast.expr, scope: Mapping[str, object]) -> bool:
    if not isinstance(called, ast.Attribute) or called.attr != "backward":
        return False
    owner = dotted(called.value)
    if owner is None:
        return True  # the result of an expression: torch.autograd.backward is spelt with names
    found = scope.get(owner.split(".")[0])
    return owner.endswith("autograd") or not isinstance(found, (types.ModuleType, type))


@contextmanager
def unchanged(devices: list[torch.device]) -> Iterator[None]:
    """Run backwards as the engine does outside of `autocast`, and leave the random state as it was."""
    with ExitStack() as stack:
        stack.enter_context(random_state_kept())
        stack.enter_context(torch.no_grad())
        for kind in {"cpu", *(device.type for device in devices)}:
            if torch.amp.is_autocast_available(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextmanager
def restored(live: Any) -> Iterator[list[str]]:
    """Put back what the backward of a custom Function changes on its ctx; yield the names of what it changed.

    What PyTorch's own nodes saved they do not change.
    """
    changed: list[str] = []
    if forward_class(type(live)) is None:
        yield changed
        return
    attributes = object.__getattribute__(live, "__dict__")
    before = dict(attributes)
    kept = [(name, tensor, tensor._version, tensor.detach().clone()) for name, tensor in _held(live, before)]
    with same_versions([tensor for _, tensor, _, _ in kept]):
        try:
            yield changed
        finally:
            for name, tensor, version, copy in kept:
                if tensor._version != version or not bool(((tensor == copy) | (tensor != tensor)).all()):
                    changed.append(name)
                    tensor.detach().copy_(copy)
            attributes.clear()
            attributes.update(before)


def _held(live: Any, attributes: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a custom node keeps, each once; none of them is unpacked by a hook."""
    named = [(f"saved_tensors[{k}]", handle.data) for k, handle in enumerate(saved_handles(live))]
    seen: set[int] = set()
    for name, tensor in (*named, *((f"ctx.{name}", value) for name, value in attributes.items())):
        plain = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and not tensor.is_inference()
        if plain and id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor
