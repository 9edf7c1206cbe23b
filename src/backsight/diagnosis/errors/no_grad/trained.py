"""What is meant to be trained: the parameters that an optimizer holds, as far as the program shows any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.failure import Failure
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.tape import tensors_in
from backsight.tracing.steps import parameters as optimized


@dataclass(frozen=True)
class Trained:
    """The ids of the parameters in the program's optimizers; None if there is no optimizer."""

    owned: frozenset[int] | None

    def carries(self, value: object) -> bool | None:
        """Whether a gradient goes into `value`: a tensor, tensors or a module; None where there is no tensor in it."""
        if issubclass(type(value), torch.nn.Module):
            return any(self.is_trained(parameter) for parameter in parameters(value)) or None
        tensors = [each for each in tensors_in(value) if isinstance(each, torch.Tensor)]
        return any(each.requires_grad for each in tensors) if tensors else None

    def is_trained(self, parameter: torch.Tensor) -> bool:
        return parameter.requires_grad and (self.owned is None or id(parameter) in self.owned)


def trained(failure: Failure) -> Trained:
    """Find the optimizers around the failure."""
    found = search((), frames=failure.frames, collect=(torch.optim.Optimizer,)).found
    owned = {id(p) for o, _ in found if isinstance(o, torch.optim.Optimizer) for p in optimized(o)}
    return Trained(frozenset(owned) if owned else None)


def parameters(module: object) -> Iterator[torch.Tensor]:
    """Every parameter of a module and of the modules inside it; `Module.parameters` could be overridden."""
    stack, seen = [module], {id(module)}
    for each in stack:  # grows as we go
        inside = namespace(each) or {}
        own, children = inside.get("_parameters"), inside.get("_modules")
        yield from (p for p in own.values() if isinstance(p, torch.Tensor)) if type(own) is dict else ()
        for child in children.values() if type(children) is dict else ():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                stack.append(child)
