"""BS106: a parameter is stepped twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import listed
from backsight.snapshot import groups

Place = tuple[str, int]
"""The name of an optimizer, and which of its groups."""


@rule("BS106")
def parameter_twice(scene: Scene) -> Iterator[Finding]:
    """A parameter stands twice in one optimizer, or in two of them.

    Two optimizers that take turns are in order (Adam, then LBFGS; an adversarial autoencoder), so that is a note until
    the watch has seen both use one and the same gradient.
    """
    places, tensors = _places(scene)
    twice = {key: where for key, where in places.items() if len(where) > 1}
    grave = {key: where for key, where in twice.items() if _is_stepped_twice(scene, tensors[key], where)}
    for found, severity in ((grave, "warning"), ({k: w for k, w in twice.items() if k not in grave}, "note")):
        if found:
            yield _finding(scene, [tensors[key] for key in found], next(iter(found.values())), severity == "warning")


def _places(scene: Scene) -> tuple[dict[int, list[Place]], dict[int, torch.Tensor]]:
    """Return where each parameter stands, by id. A wrapper that shares another's groups is that other optimizer."""
    places: defaultdict[int, list[Place]] = defaultdict(list)
    tensors: dict[int, torch.Tensor] = {}
    seen: set[int] = set()
    for name, optimizer in scene.involved().items():
        for g, group in enumerate(groups(optimizer)):
            if id(group) in seen:
                continue
            seen.add(id(group))
            for p in group["params"]:
                tensors[id(p)] = p
                places[id(p)].append((name, g))
    return places, tensors


def _is_stepped_twice(scene: Scene, parameter: torch.Tensor, where: list[Place]) -> bool:
    names = [name for name, _ in where]
    if len(set(names)) < len(names):
        return True
    if scene.steps is None:
        return False
    used = (scene.steps.consumed(scene.optimizers[name], parameter) for name in names)
    return any(each is not None and each.shared for each in used)


def _finding(scene: Scene, tensors: list[torch.Tensor], where: list[Place], grave: bool) -> Finding:
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    subject = f"{scene.names(tensors[:1])[0]}{more}"
    if grave:
        return Finding(
            "BS106",
            "warning",
            f"{subject} will be stepped {'twice' if len(where) == 2 else f'{len(where)} times'}.",
            (f"{'It is' if len(tensors) == 1 else 'They are'} among the parameters of {_spelt(scene, where)}.",),
            "Give each parameter to one group of one optimizer.",
        )
    return Finding(
        "BS106",
        "note",
        f"{subject} {'is' if len(tensors) == 1 else 'are'} in {len(where)} optimizers.",
        (f"{'It is' if len(tensors) == 1 else 'They are'} among the parameters of {_spelt(scene, where)}.",),
        "Nothing to do if they take turns. If all of them step after one backward(), each parameter moves "
        f"{len(where)} times: give it to one of them only.",
    )


def _spelt(scene: Scene, where: list[Place]) -> str:
    """`adam and sgd`, `opt (2 times)`, `opt.param_groups[0] and opt.param_groups[1]`."""
    places = Counter(
        name if len(groups(scene.optimizers[name])) == 1 else f"{name}.param_groups[{g}]" for name, g in where
    )
    return listed([place if times == 1 else f"{place} ({times} times)" for place, times in places.items()])
