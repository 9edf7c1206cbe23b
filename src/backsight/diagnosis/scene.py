"""What the rules of an audit look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from backsight.diagnosis.history import Past
from backsight.tape import Graph
from backsight.tracing import StepLog

Moment = Literal["before backward", "during backward", "before step"]


@dataclass(frozen=True)
class Scene:
    """A named graph and what stands around it.

    `past` is the last audit at the same call site, `steps` the optimizer steps if a watch is running. During and after
    a backward, part of the graph has rightly been freed. `saved_names` are the names, by id, of saved tensors that are
    modified or not finite.
    """

    graph: Graph
    models: Mapping[str, torch.nn.Module]
    optimizers: Mapping[str, torch.optim.Optimizer]
    steps: StepLog | None = None
    past: Past | None = None
    moment: Moment = "before backward"
    saved_names: Mapping[int, str] = field(default_factory=dict)

    def parameter_name(self, tensor: torch.Tensor) -> str:
        """Return a parameter's path in the models, else its place in an optimizer."""
        for prefix, model in self.models.items():
            for path, parameter in torch.nn.Module.named_parameters(model):
                if parameter is tensor:
                    return f"{prefix}.{path}"
        for name, optimizer in self.optimizers.items():
            for g, group in enumerate(optimizer.param_groups):
                for k, parameter in enumerate(group["params"]):
                    if parameter is tensor:
                        return f"{name}.param_groups[{g}]['params'][{k}]"
        return f"a tensor of shape {tuple(tensor.shape)}"
