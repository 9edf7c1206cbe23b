"""Where a module's result is cut off from the loss: the `.detach()` that a lost gradient met, or a hook's result."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.scene import Scene
from backsight.source import Cut, Place, backward_roots, cuts, function_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import prefixes
from backsight.source.body import SCOPES, Body, body_around, callee, dotted, statement_at, statements
from backsight.story.failure import function_of
from backsight.story.sections import results_of
from backsight.tape import modules_in, parameters_in, registered
from backsight.tracing import Severed


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
            cut = next(cuts_between(body, results_of(body), [f"self.{child}"]), None) if body is not None else None
            if cut:
                return cut
    body = body_around(*scene.site)
    if body is None:
        return None
    roots = [(root, scene.site[1]) for root in scene.graph.root_names if root]
    roots += [(root, place.line) for root, place in backward_roots(body)]
    found = (cut for path in _whole(scene, names) for cut in cuts_between(body, roots, [path]))
    return next(found, None)


def _backwards(file: str, line: int) -> int:
    """Return how many calls of backward the function or class around a line contains, what is nested included."""
    module = body_around(file, 0)
    if module is None:
        return 0
    top = next((each for each in module.node.body if each.lineno <= line <= (each.end_lineno or each.lineno)), None)
    found = ast.walk(top if isinstance(top, SCOPES) else module.node)
    return sum(isinstance(node, ast.Call) and callee(node)[1].endswith("backward") for node in found)


def _whole(scene: Scene, names: Collection[str]) -> list[str]:
    """Return the variables and attributes whose parameters are all lost: `encoder`, `model.critic`."""
    reached = [leaf.name for leaf in scene.graph.leaves]
    paths = dict.fromkeys(path for name in names for path in reversed(prefixes(name)) if path != name)
    return [path for path in paths if not any(name == path or name.startswith(f"{path}.") for name in reached)]


def cuts_between(body: Body, roots: Sequence[tuple[str, int]], names: Collection[str]) -> Iterator[Cut]:
    """Yield the cuts on the way from one of `roots`, expressions at a line, to one of `names`, the nearest first."""
    for root, line in roots:
        for cut in cuts(body, root, line):
            read = ancestors(body, cut.expression, cut.place.line)
            if any(name in read or _is_around(body, cut, name) for name in names):
                yield cut


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


_KINDS = (("_forward_hooks", "forward hook", "output"), ("_forward_pre_hooks", "forward pre-hook", "input"))


class Hook(NamedTuple):
    """The statement of a hook that returns something, what it is called, and what it replaces."""

    place: Place
    name: str
    kind: str
    replaces: str


def hook_around(models: Iterable[torch.nn.Module], cut: Severed) -> Hook | None:
    """Return the hook of a module in which a gradient is cut off, if it returns something."""
    if cut.line is None:
        return None
    for module in (m for model in models for _, m in modules_in(model)):
        for attribute, kind, replaces in _KINDS:
            for hook in list((module.__dict__.get(attribute) or {}).values()):
                code = getattr(function_of(hook), "__code__", None)
                body = function_at(code) if code is not None and code.co_filename == cut.line.file else None
                if body is not None and body.node.lineno <= cut.line.line <= (body.node.end_lineno or 0):  # type: ignore[union-attr]  # no module
                    for each in statements(body.node):
                        if isinstance(each, ast.Return) and not _is_nothing(each.value):
                            name = body.name
                            return Hook(body.place(each), name if name.isidentifier() else "the hook", kind, replaces)
    return None


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
