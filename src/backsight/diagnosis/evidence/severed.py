"""Where the source cuts a module's result off from the loss: the `.detach()` that a lost gradient met."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

import torch

from backsight.diagnosis.scene import Scene
from backsight.source import Cut, backward_roots, cuts, function_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import prefixes
from backsight.source.body import SCOPES, Body, body_around, callee, dotted, statement_at
from backsight.story.failure import function_of
from backsight.story.sections import results_of
from backsight.tape import parameters_in, registered


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
            forward = function_of(parent)
            body = function_at(forward.__code__) if forward is not None else None
            cut = cut_between(body, results_of(body), [f"self.{child}"]) if body is not None else None
            if cut:
                return cut
    body = body_around(*scene.site)
    if body is None:
        return None
    roots = [(root, scene.site[1]) for root in scene.graph.root_names if root]
    roots += [(root, place.line) for root, place in backward_roots(body)]
    found = (cut for path in _whole(scene, names) if (cut := cut_between(body, roots, [path])))
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


def cut_between(body: Body, roots: Sequence[tuple[str, int]], names: Collection[str]) -> Cut | None:
    """Return the first cut on the way from one of `roots`, expressions at a line, to one of `names`."""
    for root, line in roots:
        for cut in cuts(body, root, line):
            read = ancestors(body, cut.expression, cut.place.line)
            if any(name in read or _is_around(body, cut, name) for name in names):
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
        for name, child in registered(parent, "_modules").items():
            if not isinstance(child, torch.nn.Module) or id(child) in seen:
                continue
            seen.add(id(child))
            own = [p for p in parameters_in(child) if p.requires_grad]
            if own and all(id(p) in lost for p in own):
                yield parent, name
            elif own:
                stack.append(child)
