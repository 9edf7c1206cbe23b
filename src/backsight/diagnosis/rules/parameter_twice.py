"""BS106: a parameter is stepped twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene


@rule("BS106")
def parameter_twice(scene: Scene) -> Iterator[Finding]:
    """A parameter stands in two optimizers, or twice in one."""
    places: defaultdict[int, list[str]] = defaultdict(list)
    tensors: dict[int, torch.Tensor] = {}
    for name, optimizer in scene.optimizers.items():
        for g, group in enumerate(optimizer.param_groups):
            for p in group["params"]:
                tensors[id(p)] = p
                places[id(p)].append(name if len(optimizer.param_groups) == 1 else f"{name}.param_groups[{g}]")
    twice = {key: where for key, where in places.items() if len(where) > 1}
    if twice:
        key, where = next(iter(twice.items()))
        more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
        yield Finding(
            "BS106",
            "warning",
            f"{scene.parameter_name(tensors[key])}{more} will be stepped {len(where)} times.",
            (f"It is a parameter of {' and of '.join(where)}.",),
            "Give each parameter to one group of one optimizer.",
        )
