"""`graph`: a snapshot of the autograd graph with names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backsight.snapshot.survey import Optimizers, optimizers_by_name, owned, survey
from backsight.tape import Graph, Models, capture, with_models


def graph(
    *roots: Any, model: Models = None, optimizer: Optimizers = None, names: bool = True, details: bool = True
) -> Graph:
    """Take a snapshot of the autograd graph behind `roots`, with its leaves named.

    ```python
    g = backsight.graph(loss)
    print(g)                             # a row per operation, lanes are live tensors
    [leaf.name for leaf in g.leaves]     # ['model.0.weight', 'model.0.bias', 'delta']
    ```

    The snapshot is plain data: it pickles and keeps no tensor and no autograd node alive. Nothing is unpacked,
    recomputed or copied, and the graph stays usable.

    Args:
        roots: tensors, `torch.autograd.graph.GradientEdge`s, or tuples, lists, dicts and dataclasses of them.
        model: the module, or modules by name, whose paths nodes are given; found around the caller if not given.
        optimizer: the optimizer, or optimizers by name, that own leaves; found around the caller if not given.
        names: look for the variables that hold leaves and roots (tens of milliseconds at most).
        details: read shapes and saved tensors of each node. Without names and details only the structure is captured.

    Raises:
        NothingToCapture: if no root has a graph; the message says what came and what to do.
        TypeError: if `model` or `optimizer` is something else.
    """
    if names:
        return survey(roots, model=model, optimizer=optimizer, details=details).graph
    captured = with_models(capture(*roots, details=details), model)
    return replace(captured, leaves=owned(captured.leaves, optimizers_by_name(optimizer)))
