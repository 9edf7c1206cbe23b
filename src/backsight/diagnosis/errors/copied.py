"""What was being copied when a tensor refused: the object, its name, and every other result that it keeps."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch

from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.wording import listed
from backsight.naming import search
from backsight.naming.plain import class_name, mro, namespace
from backsight.source.body import callee, calls_in
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_module, is_tensor, maker_of
from backsight.tape import modules_in, registered
from backsight.text import as_code

_MOST = 4


def copied_in(failure: Failure) -> str:
    """What the user's line calls the object that is copied: what it gives to `deepcopy`, or what a class of PyTorch's
    copies, as `AveragedModel(model)` does."""
    level = failure.user
    given = argument(level, "deepcopy") if level else ""
    if given or level is None:
        return given
    outermost = next((each for each in failure.levels if each.frame.f_code is copy.deepcopy.__code__), None)
    held = outermost.variables.get("x") if outermost else None
    names = search([held], frames=(level.frame,)).names[0] if is_module(held) else ()
    return names[0].path if names else ""


def argument(level: Level, function: str) -> str:
    """What the statement gives to the first call of a function by this name."""
    for node in calls_in(level.statement):
        if node.args and callee(node)[1] == function:
            return level.body.text(node.args[0]) if level.body else ""
    return ""


def results_kept(level: Level, copied: str) -> list[tuple[str, str]]:
    """The results with a graph that the modules in what is copied keep, as attributes or buffers, each with the name of
    its module: each one would be refused."""
    model = level.value(copied) if copied else None
    return [
        (path, name)
        for path, module in (modules_in(model, copied) if is_module(model) else ())
        for name, value in _own(module)
        if is_tensor(value) and maker_of(value) is not None
    ]


def _own(module: torch.nn.Module) -> Iterator[tuple[str, object]]:
    yield from (namespace(module) or {}).items()
    yield from registered(module, "_buffers").items()


def detaching(copied: str, kept: list[tuple[str, str]], beside: str = "") -> str:
    """The statements that detach all of these; `beside` is an attribute that only their modules have."""
    parts = []
    for attribute in dict.fromkeys(name for _, name in kept):
        owners = [path for path, name in kept if name == attribute]
        if len(owners) == 1:
            parts.append(f"{owners[0]}.{attribute} = {simple(f'{owners[0]}.{attribute}')}.detach()")
            continue
        every = f"({', '.join(owners)})"
        if len(owners) > _MOST:
            every = f"(m for m in {copied}.modules() if hasattr(m, '{beside or attribute}'))"
        parts.append(f"for each in {every}: each.{attribute} = each.{attribute}.detach()")
    joint = " and " if any(each.startswith("for ") for each in parts) else "; "
    return joint.join(parts)


def pruned(module: object, attribute: str) -> bool:
    """Whether torch.nn.utils.prune computes an attribute of a module before each forward pass: what is trained is
    `weight_orig`, and `weight` its product with `weight_mask`."""
    hooks = (namespace(module) or {}).get("_forward_pre_hooks")
    found = list(hooks.values()) if isinstance(hooks, dict) else []
    return any(
        any(class_name(base) == "BasePruningMethod" for base in mro(type(each)))
        and (namespace(each) or {}).get("_tensor_name") == attribute
        for each in found
    )


def told_of_pruning(kept: list[tuple[str, str]], attribute: str) -> str:
    """That the attribute is computed, and in which modules."""
    owners = [as_code(path) for path, name in kept if name == attribute]
    where = f" in {listed(owners, 4)}" if owners else ""
    return f"Pruning computes {attribute} as {attribute}_orig * {attribute}_mask{where}, before each forward pass."
