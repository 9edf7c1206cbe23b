"""Where the source cuts a module's result off from the loss: the `.detach()` that a lost gradient met."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from types import FunctionType

import torch

from backsight.diagnosis.scene import Scene
from backsight.source import Cut, backward_calls, cuts, function_at, receiver_of_backward
from backsight.source.ancestry import ancestors
from backsight.source.bindings import prefixes
from backsight.source.body import SCOPES, Body, body_around, callee, dotted, statement_at, statements


def severing(scene: Scene, lost: Collection[int], names: Collection[str], *, wanted: bool = False) -> Cut | None:
    """Return the cut between the loss and the parameters with the ids `lost`, whose names are `names`.

    It is looked for in the function that was audited and in the `forward` of each module some of whose children are
    lost. A program that runs several backwards cuts its losses from one another on purpose (an actor's from its
    critic's), so nothing is said of it, unless these parameters are known to be `wanted`.
    """
    if not wanted and _backwards(*scene.site) > 1:
        return None
    for model in scene.models.values():
        for parent, child in _lost_children(model, lost):
            body = _forward(parent)
            cut = body and _between(body, _returns(body), f"self.{child}")
            if cut:
                return cut
    body = body_around(*scene.site)
    if body is None:
        return None
    roots = [(root, scene.site[1]) for root in scene.graph.root_names if root]
    roots += [(root, place.line) for place in backward_calls(body) if (root := receiver_of_backward(body, place.line))]
    found = (cut for path in _whole(scene, names) if (cut := _between(body, roots, path)))
    return next(found, None)


def _backwards(file: str, line: int) -> int:
    """Return how many calls of backward the function or class around a line contains, what is nested included."""
    module = body_around(file, 0)
    if module is None:
        return 0
    top = next((each for each in module.node.body if _covers(each, line)), None)
    found = ast.walk(top if isinstance(top, SCOPES) else module.node)
    return sum(isinstance(node, ast.Call) and callee(node)[1].endswith("backward") for node in found)


def _covers(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _whole(scene: Scene, names: Collection[str]) -> list[str]:
    """Return the variables and attributes whose parameters are all lost: `encoder`, `model.critic`."""
    reached = [leaf.name for leaf in scene.graph.leaves]
    paths = dict.fromkeys(path for name in names for path in reversed(prefixes(name)) if path != name)
    return [path for path in paths if not any(name == path or name.startswith(f"{path}.") for name in reached)]


def _between(body: Body, roots: list[tuple[str, int]], name: str) -> Cut | None:
    """Return the first cut on the way from one of `roots`, expressions at a line, to `name`."""
    for root, line in roots:
        for cut in cuts(body, root, line):
            if name in ancestors(body, cut.expression, cut.place.line) or _is_around(body, cut, name):
                return cut
    return None


def _is_around(body: Body, cut: Cut, name: str) -> bool:
    """Whether the cut is a block, such as `with torch.no_grad():`, in which `name` is used."""
    block = statement_at(body, cut.place.line)
    return isinstance(block, ast.With) and any(dotted(node) == name for node in ast.walk(block))


def _lost_children(model: torch.nn.Module, lost: Collection[int]) -> Iterator[tuple[torch.nn.Module, str]]:
    """Yield (parent, name) of the outermost modules inside of `model` whose trainable parameters are all lost."""
    stack, seen = [model], {id(model)}
    for parent in stack:  # grows as we go
        for name, child in _children(parent).items():
            if id(child) in seen:
                continue
            seen.add(id(child))
            own = [p for p in _parameters(child) if p.requires_grad]
            if own and all(id(p) in lost for p in own):
                yield parent, name
            elif own:
                stack.append(child)


def _parameters(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    stack, seen = [module], {id(module)}
    for each in stack:  # grows as we go
        yield from (p for p in _registry(each, "_parameters").values() if isinstance(p, torch.Tensor))
        inner = [child for child in _children(each).values() if id(child) not in seen]
        seen.update(map(id, inner))
        stack += inner


def _children(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return {name: child for name, child in _registry(module, "_modules").items() if isinstance(child, torch.nn.Module)}


def _registry(module: torch.nn.Module, name: str) -> dict[str, object]:
    """Return a registry of the module, past whatever its class overrides."""
    return object.__getattribute__(module, "__dict__").get(name) or {}


def _forward(module: torch.nn.Module) -> Body | None:
    """Return the source of a module's forward."""
    for cls in type.__dict__["__mro__"].__get__(type(module)):
        forward = type.__dict__["__dict__"].__get__(cls).get("forward")
        if forward is not None:
            return function_at(forward.__code__) if type(forward) is FunctionType else None
    return None


def _returns(body: Body) -> list[tuple[str, int]]:
    """Return the expressions that a function returns, each with its line."""
    return [
        (body.text(each.value), each.lineno)
        for each in statements(body.node)
        if isinstance(each, ast.Return) and each.value is not None
    ]
