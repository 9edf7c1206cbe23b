"""torchID's calls, for notebooks that were written for it: which leaves does a loss reach, and what are they called?

```python
from backsight.compat.torchid import find_leaves, identify_tensors, tag_model

leaves, paths = find_leaves(loss.grad_fn)
tag_model(model)
identify_tensors(leaves, approximate_search=paths)
for leaf in leaves:
    print(leaf.shape, leaf.nmm)     # ['SimpleModel_l1.weight', '__main__.model.l1.weight'], ['__main__.delta'], ...
```

What a name in `.nmm` looks like:

- `SimpleModel_l1.weight`: class and parameter, from `tag_model`;
- `__main__.delta`: the variable that holds the tensor, after its module or function (`train.params[0]`);
- `approximated.2separated.__main__.delta`: no variable holds it any more; `delta` holds what the second node counted
  from the leaf has made (its own `AccumulateGrad` is the first);
- `unidentified`: neither was found.

What differs from torchID 0.2 on purpose:

- Every leaf comes once, in torchID's order, with one shortest path. torchID lists it once for each path: 973,674 leaves
  for the 72 parameters of a 6-layer transformer.
- There is no limit of depth. torchID finds nothing below 1000 nodes, and does not say so.
- Locals, attributes, items, closures and parameters of any live module are found, not only variables of modules.
- Names are looked up at each call. torchID keeps those of its first call, under addresses that later tensors reuse.
- A tied weight has a tag for each of its places, and tags are followed by the exact name, which tells two models of one
  class apart.
- `.nmm` is always a list, and nothing is printed.

Source: https://github.com/daniel-redder/torchID
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils.weak import WeakTensorKeyDictionary

from backsight.blame import warn
from backsight.naming import Name, search
from backsight.tape import grad_fn as read_grad_fn
from backsight.tape import no_torch_function
from backsight.tape.walk import Walk, walk

__all__ = ["find_intersection", "find_leaves", "identify_tensors", "tag_model"]

UNIDENTIFIED = "unidentified"

_HOLDERS = 8
"""How many names of a tensor are asked for: enough that those of the caller's own list of leaves crowd nothing out."""

_tags: MutableMapping[torch.Tensor, list[str]] = WeakTensorKeyDictionary()
"""Tags by parameter. `.nmm` cannot serve as their store: in it they are mixed with names that may be out of date."""


def find_leaves(grad_fn: Any) -> tuple[list[torch.Tensor], list[list[Any]]]:
    """Return the leaves that `grad_fn` reaches, and for each a shortest path to it.

    ```python
    leaves, paths = find_leaves(loss.grad_fn)
    ```

    A path is a list of live nodes: it begins with an input of `grad_fn` and ends with the leaf's `AccumulateGrad`.
    Both lists keep the graph alive for as long as they are held.

    Raises:
        TypeError: if `grad_fn` is not a node.
    """
    live = walk([_checked_node(grad_fn)])
    came_from = _came_from(live)
    leaves = [i for i in _depth_first(live) if i > 0 and type(live.nodes[i]).__name__ == "AccumulateGrad"]
    return [live.nodes[i].variable for i in leaves], [_path(live, came_from, i)[1:] for i in leaves]


def tag_model(model: torch.nn.Module) -> None:
    """Name the parameters of `model` by its class and their place in it: `.nmm = ["SimpleModel_l1.weight"]`.

    Raises:
        TypeError: if `model` is not an `nn.Module`.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"tag_model takes an nn.Module, not {_kind(model)}.")
    # Called on the class: a model's own named_parameters need not know about duplicates, which are tied weights.
    places = list(torch.nn.Module.named_parameters(model, remove_duplicate=False))
    _tags.update((parameter, []) for _, parameter in places)
    for place, parameter in places:
        _tags[parameter].append(f"{type(model).__name__}_{place}")
    for _, parameter in places:
        parameter.nmm = list(_tags[parameter])  # type: ignore[attr-defined]  # what torchID's callers read


def identify_tensors(
    objs: Sequence[torch.Tensor],
    approximate_search: Sequence[Sequence[Any]] | None = None,
    limited_system_search: str | None = None,
) -> list[str]:
    """Set `.nmm`, a list of names with the best first, on each tensor, and return the first names.

    ```python
    identify_tensors(leaves)                            # ['SimpleModel_l1.weight', '__main__.delta']
    identify_tensors(leaves, approximate_search=paths)  # also names overwritten leaves, after their nearest consumer
    ```

    Args:
        objs: tensors, usually the leaves from `find_leaves`. Their places in this very list do not count as names.
        approximate_search: the paths that `find_leaves` returned with the leaves.
        limited_system_search: only believe variables of modules that define a variable of this name, and of functions.
            Installed libraries, which are left out otherwise, are then searched too.

    Raises:
        TypeError: if something in `objs` is not a tensor.
        ValueError: if there is not one path for each tensor.
    """
    tensors = _checked_tensors(objs)
    paths = None if approximate_search is None else _checked_paths(approximate_search, len(tensors))
    # A search ends once all is named, and the list passed in names it all: an object that nobody holds keeps it going.
    found = search(
        [*tensors, objs, object()],
        deep=limited_system_search is not None,
        limit=_HOLDERS,
        collect=(torch.Tensor,) if paths else (),
    )
    *names, own, _ = found.names
    believed = partial(_is_believed, own=own, marker=limited_system_search)
    producers = _producers([(tensor, name) for tensor, name in found.found if believed(name)])
    for i, tensor in enumerate(tensors):
        known = [*_tags.get(tensor, ()), *_spelt(filter(believed, names[i]))]
        tensor.nmm = known or [_approximated(paths[i], producers) if paths else UNIDENTIFIED]
    if not found.complete:
        warn("there were too many objects to look at them all: a tensor may have other names.", UserWarning)
    return [tensor.nmm[0] for tensor in tensors]


def find_intersection(
    tensor_start: torch.Tensor, tensor_end: torch.Tensor, max_depth: int | None = None
) -> list[Any] | None:
    """Return the nodes of a shortest path from the one that made `tensor_start` back to `tensor_end`'s, both included.

    ```python
    find_intersection(loss, model.l1.weight)    # [<MseLossBackward0>, ..., <AccumulateGrad>]
    ```

    None if no gradient flows from the one to the other, or only on paths of more than `max_depth` nodes.

    Raises:
        TypeError: if either is not a tensor.
    """
    start, end = _checked_tensors([tensor_start, tensor_end])
    if start.grad_fn is None or not end.requires_grad:
        return None
    live = walk([start.grad_fn])
    edge = get_gradient_edge(end)
    at = next((i for i, node in enumerate(live.nodes) if node is edge.node), None)
    if at is None:
        return None
    found = _path(live, _came_from(live), at)
    return found if max_depth is None or len(found) <= max_depth else None


def _came_from(live: Walk) -> list[int]:
    """Return, for each node, the consumer before it on a shortest path from the root, which is node 0."""
    start, inputs = live.start.tolist(), live.inputs.tolist()
    came_from = [-1] * len(live.nodes)
    came_from[0] = 0
    queue = [0]
    for i in queue:  # breadth first; grows as we go
        for j in inputs[start[i] : start[i + 1]]:
            if j >= 0 and came_from[j] < 0:
                came_from[j] = i
                queue.append(j)
    return came_from


def _path(live: Walk, came_from: list[int], at: int) -> list[Any]:
    trail = [at]
    while trail[-1] != 0:
        trail.append(came_from[trail[-1]])
    return [live.nodes[i] for i in reversed(trail)]


def _depth_first(live: Walk) -> list[int]:
    """Return all nodes in the order in which torchID's recursion first comes to them."""
    start, inputs = live.start.tolist(), live.inputs.tolist()
    seen: dict[int, None] = {}
    stack = [0]
    while stack:
        i = stack.pop()
        if i >= 0 and i not in seen:
            seen[i] = None
            stack += reversed(inputs[start[i] : start[i + 1]])
    return list(seen)


def _is_believed(name: Name, own: Sequence[Name], marker: str | None) -> bool:
    """Whether a name counts: not a place in the list passed in, whose names are `own`, nor in an unmarked module."""
    if any(name.scope == o.scope and name.path.startswith(f"{o.path}[") for o in own):
        return False
    return marker is None or _may_hold(name.scope, marker)


def _may_hold(scope: str, marker: str) -> bool:
    module = sys.modules.get(scope)
    return marker in vars(module) if issubclass(type(module), ModuleType) else True


def _spelt(names: Iterable[Name]) -> list[str]:
    """Return the best of `names`, and further ones as far as they are variables or places in a model."""
    return [_text(n) for i, n in enumerate(names) if i == 0 or n.kind in ("local", "global", "parameter")]


def _text(name: Name) -> str:
    return name.text if name.kind == "hidden" else f"{name.scope}.{name.path}"


def _producers(named: Iterable[tuple[Any, Name]]) -> dict[Any, str]:
    """Return the name of a tensor that is alive by the node that made it."""
    producers: dict[Any, str] = {}
    with no_torch_function():  # reading grad_fn would call a subclass's __torch_function__
        for tensor, name in named:
            node = read_grad_fn(tensor)
            if node is not None:
                producers.setdefault(node, _text(name))
    return producers


def _approximated(path: Sequence[Any], producers: Mapping[Any, str]) -> str:
    for distance, node in enumerate(reversed(path), start=1):
        if node in producers:
            return f"approximated.{distance}separated.{producers[node]}"
    return UNIDENTIFIED


def _checked_node(grad_fn: Any) -> Any:
    if grad_fn is None:
        raise TypeError(
            "find_leaves was given None: the tensor is a leaf itself, or nothing that it was computed from requires a "
            "gradient. Pass the grad_fn of a loss that does, as in find_leaves(loss.grad_fn)."
        )
    if inspect.getattr_static(type(grad_fn), "next_functions", None) is None:
        raise TypeError(f"find_leaves takes a node, as in find_leaves(loss.grad_fn), not {_kind(grad_fn)}.")
    return grad_fn


def _checked_tensors(objs: Any) -> list[Any]:
    if isinstance(objs, torch.Tensor):
        raise TypeError("identify_tensors takes a list of tensors; put the one in a list: identify_tensors([tensor]).")
    tensors = list(objs)
    for i, tensor in enumerate(tensors):
        if not issubclass(type(tensor), torch.Tensor):
            raise TypeError(f"item {i} is {_kind(tensor)}, where a tensor belongs.")
    return tensors


def _checked_paths(paths: Sequence[Sequence[Any]], expected: int) -> Sequence[Sequence[Any]]:
    if len(paths) != expected:
        raise ValueError(
            f"approximate_search holds {len(paths)} paths for {expected} tensors: pass both lists of one find_leaves."
        )
    return paths


def _kind(value: Any) -> str:
    return "None" if value is None else f"an object of type {type(value).__qualname__}"
