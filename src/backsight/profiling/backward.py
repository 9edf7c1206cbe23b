"""`profile_backward`: the times of one backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.profiling.profile import Profile
from backsight.profiling.session import Profiling
from backsight.profiling.subjects import LeafName, Subjects, found
from backsight.snapshot import graph
from backsight.tape import Graph, Models


def profile_backward(
    loss: torch.Tensor,
    gradient: torch.Tensor | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
    model: Models = None,
) -> Profile:
    """Run `loss.backward()` and return the time of each autograd node.

    ```python
    loss = criterion(model(x), y)
    print(backsight.profile_backward(loss))      # in place of loss.backward()
    ```

    The forward pass is over, so its times are missing: `backsight.profile()` around both has them. For the same reason
    the modules of nodes are those of `backsight.graph`: exact within `backsight.watch()`, else inferred from the graph.
    What a checkpoint recomputes is attributed exactly.

    Args:
        loss: the tensor to go back from.
        gradient: this and the next three are those of `torch.Tensor.backward`.
        retain_graph: whether the graph is to be kept.
        create_graph: whether the gradients are to have graphs of their own.
        inputs: the leaves that are to get gradients; all, if not given.
        model: the module, or modules by name, whose paths nodes are given; found around the caller if not given.

    Raises:
        TypeError: if `loss` is not a tensor.
        NothingToCapture: if it has no graph.
        ProfilingError: if another profile, or a profiler of PyTorch, runs.
    """
    if not issubclass(type(loss), torch.Tensor):
        raise TypeError(f"profile_backward() takes the tensor to run backward from, not {_kind(loss)}.")
    recorded = graph(loss, model=model)
    given: dict[str, Any] = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
    backward: Any = loss.backward  # not typed
    with Profiling(_with_leaves(found(model), recorded), _modules(recorded)) as times:
        backward(gradient, **given)
    return times


def _with_leaves(subjects: Subjects, recorded: Graph) -> Subjects:
    """Add the leaves of a graph that no variable leads to any more."""
    known = {id(leaf) for leaf, _ in subjects.leaves}
    held = [(leaf.tensor(), LeafName((leaf.label,))) for leaf in recorded.leaves]
    others = [(tensor, name) for tensor, name in held if tensor is not None and id(tensor) not in known]
    return Subjects(subjects.modules, (*subjects.leaves, *others))


def _modules(recorded: Graph) -> dict[tuple[str, int], str | None]:
    """Return the modules by node name and sequence number; none where nodes of several threads share both."""
    modules: dict[tuple[str, int], str | None] = {}
    for node in recorded.nodes:
        if node.sequence is not None:
            key = node.name, node.sequence
            modules[key] = None if key in modules else node.module
    return modules


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
