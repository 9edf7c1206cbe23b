"""A survey: a captured graph with the names of what is in it and around it, found in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from types import FrameType
from typing import Any, TypeVar

import torch

from backsight.naming import Name, Search, search
from backsight.snapshot._torch import groups
from backsight.snapshot.overwritten import name_overwritten
from backsight.tape import (
    Graph,
    Leaf,
    Models,
    buffers_in,
    capture,
    modules_in,
    no_torch_function,
    parameters_in,
    tensors_in,
    with_models,
)

Optimizers = torch.optim.Optimizer | Mapping[str, torch.optim.Optimizer] | None

_T = TypeVar("_T")

_PRIVATE = re.compile(r"\._\w+[.\[]")
"""A private attribute that is gone through: `trainer._connector.strategy._optimizers[0]`, and not `self._optimizer`."""


@dataclass(frozen=True)
class Survey:
    """A named graph, and the models and optimizers around it, by the names of the variables that hold them.

    `saved_names` has the names, by id, of saved tensors that are modified or not finite.
    """

    graph: Graph
    models: Mapping[str, torch.nn.Module]
    optimizers: Mapping[str, torch.optim.Optimizer]
    saved_names: Mapping[int, str]


def survey(
    roots: tuple[Any, ...],
    *,
    model: Models = None,
    optimizer: Optimizers = None,
    details: bool = True,
    finite: bool = False,
    frames: Sequence[FrameType] = (),
) -> Survey:
    """Capture `roots`, and find in one pass the names of what is in the graph and the models and optimizers around it.

    `frames` are searched first: those of a traceback, whose functions have ended.
    """
    captured = capture(*roots, details=details, finite=finite)
    leaf_tensors = [leaf.tensor() for leaf in captured.leaves]
    root_tensors = [t for t in tensors_in(roots) if isinstance(t, torch.Tensor)]
    suspects = _suspects(captured)
    targets = [t for t in [*leaf_tensors, *root_tensors, *suspects] if t is not None]
    found = search(targets, collect=(torch.nn.Module, torch.optim.Optimizer), frames=frames)
    named = {id(target): names for target, names in zip(targets, found.names, strict=True)}
    models = _by_name(model, torch.nn.Module, "model") or _models(found, captured)
    optimizers = optimizers_by_name(optimizer) or _optimizers(found)
    placed = with_models(captured, models)
    leaves = owned(_named(placed.leaves, named), optimizers)
    root_names = [_path(named.get(id(t), ())) for t in tensors_in(roots) if _has_graph(t)]
    named_graph = name_overwritten(placed.renamed(leaves, root_names), frames)
    saved_names = {id(t): path for t in suspects if (path := _path(named.get(id(t), ())))}
    return Survey(named_graph, models, optimizers, saved_names)


def _has_graph(root: Any) -> bool:
    """Whether `root`, a tensor or a GradientEdge, is one that the capture starts from."""
    with no_torch_function():
        return bool(getattr(root, "requires_grad", True))


def _path(names: Sequence[Name]) -> str:
    return names[0].path if names else ""


def _suspects(captured: Graph) -> list[torch.Tensor]:
    """Return the saved tensors that a report will want to name."""
    of_interest = (s for saved in captured.saved.values() for s in saved if s.state == "modified" or s.finite is False)
    return [t for s in of_interest if (t := s.tensor()) is not None]


def _by_name(given: Any, kind: type, argument: str) -> dict[str, Any]:
    """Return what was given as a mapping by name."""
    if given is None:
        return {}
    if issubclass(type(given), kind):
        return {argument: given}
    wanted = f"{'torch.nn' if kind is torch.nn.Module else 'torch.optim'}.{kind.__name__}"
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument} must be a {wanted} or a dict of them by name, not {type(given).__name__}.")
    for name, value in given.items():
        if not issubclass(type(value), kind):
            raise TypeError(f"{argument}[{name!r}] must be a {wanted}, not {type(value).__name__}.")
    return dict(given)


def optimizers_by_name(given: Optimizers) -> dict[str, torch.optim.Optimizer]:
    """Return the optimizers that were given to a call, by name; none if none were."""
    return _by_name(given, torch.optim.Optimizer, "optimizer")


def _models(found: Search, captured: Graph) -> dict[str, torch.nn.Module]:
    """Return the outermost modules found that own a leaf of the graph."""
    modules = [(m, name) for m, name in found.found if isinstance(m, torch.nn.Module)]
    inner = {id(child) for module, _ in modules for path, child in modules_in(module) if path}
    leaves = {id(leaf.tensor()) for leaf in captured.leaves}

    def owns(module: torch.nn.Module) -> bool:
        held = chain(parameters_in(module), (buffer for _, buffer in buffers_in(module)))
        return any(id(tensor) in leaves for tensor in held)

    own = [(m, name) for m, name in modules if id(m) not in inner and owns(m)]
    return _by_path(own)


def _optimizers(found: Search) -> dict[str, torch.optim.Optimizer]:
    """Return the optimizers found; one that wraps another and shares its groups stands for both."""
    own = [(o, _spoken(name), groups(o)) for o, name in found.found if isinstance(o, torch.optim.Optimizer)]
    outermost = {id(held): (o, name) for o, name, held in reversed(own)}
    return _by_path(outermost[key] for key in dict.fromkeys(id(held) for _, _, held in own))


def _spoken(name: Name) -> Name:
    """Return what to call an optimizer: only that, if one gets to it through the inside of a host alone."""
    return replace(name, path="optimizer", text="optimizer") if _PRIVATE.search(name.path) else name


def _by_path(found: Iterable[tuple[_T, Name]]) -> dict[str, _T]:
    """Return what was found by its path, nearest first; where two functions use one name, the text tells them apart."""
    by_path: dict[str, _T] = {}
    for each, name in found:
        candidates = chain([name.path, name.text], (f"{name.text} #{n}" for n in count(2)))
        by_path[next(key for key in candidates if key not in by_path)] = each
    return by_path


def _named(leaves: Iterable[Leaf], named: Mapping[int, Sequence[Name]]) -> list[Leaf]:
    """Return the leaves with the names of the variables that hold them."""
    out = []
    for leaf in leaves:
        names = [n for n in named.get(id(leaf.tensor()), ()) if not _is_only_in_optimizer(n)]
        if names:
            kind = leaf.kind if leaf.kind in ("parameter", "buffer") else "variable"
            leaf = replace(leaf, name=names[0].path, names=tuple(n.path for n in names), kind=kind)
        out.append(leaf)
    return out


def _is_only_in_optimizer(name: Name) -> bool:
    """Whether this is a place that every optimised tensor has, rather than what a person calls it."""
    return ".param_groups[" in name.path or name.path.endswith(".<key>")


def owned(leaves: Iterable[Leaf], optimizers: Mapping[str, torch.optim.Optimizer]) -> tuple[Leaf, ...]:
    """Return the leaves with the optimizers that hold them."""
    owner: dict[int, str] = {}
    for name, optimizer in optimizers.items():
        for group in groups(optimizer):
            for parameter in group["params"]:
                owner.setdefault(id(parameter), name)
    return tuple(replace(leaf, owner=owner.get(id(leaf.tensor()))) for leaf in leaves)
