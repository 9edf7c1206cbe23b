"""BS106: a parameter is stepped twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import constructions, ending, few_of, named
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, listed, warning
from backsight.snapshot import groups
from backsight.source import only
from backsight.story.holders import below
from backsight.tracing.steps import parameters

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
            held = [tensors[key] for key in found]
            made = _finding(scene, held, next(iter(found.values())), severity == "warning")
            yield replace(made, nodes=tuple(_judging(scene, held))) if severity == "note" else made


def _judging(scene: Scene, shared: list[torch.Tensor]) -> list[int]:
    """Return the leaves that two optimizers share and through which this loss comes to what only one of them trains.

    So is a critic in the optimizer of its generator or actor. Of an encoder that two losses train together it is the
    other way round.
    """
    mine = {id(p) for p in shared}
    alone = Counter(id(p) for o in scene.optimizers.values() for p in parameters(o))
    leaves = {leaf.node: id(leaf.tensor()) for leaf in scene.graph.leaves}
    own = {node for node, each in leaves.items() if alone[each] == 1 and each not in mine}
    known = {node for node, each in leaves.items() if each in mine}
    used = set(known)  # a weight is mostly used transposed
    for node in scene.graph.nodes if own and known else ():
        given = {edge.node.index for edge in node.inputs if edge is not None}
        if node.op in ("T", "Transpose") and given <= known:
            used.add(node.index)
        elif given & used and own & set(below(scene.graph, [node.index])):
            return sorted(known)
    return []


def opposed(
    wider: torch.optim.Optimizer,
    narrower: torch.optim.Optimizer,
    shared: Sequence[torch.Tensor],
    agreement: float,
    steps: int,
    frame: FrameType,
) -> Finding:
    """Return the finding that what one optimizer trains, another one steps against it, for a loss of its own.

    agreement: the mean cosine between the gradients of the two steps, over so many steps.
    """
    name, other = named(wider, "an optimizer"), named(narrower, "another one")
    few = few_of(shared, 1)
    places = constructions(frame, wider, name)
    if not any(type(wider).__name__ in each.text for each in places):  # a function that returns them may
        places = constructions(frame, wider, ending(name)) or places
    place = only(places)
    return warning(
        "BS106",
        f"{name} undoes what {other} learns: both step {few}.",
        (
            f"Both {other} and {name} hold these parameters.",
            f"Their losses pull in opposite directions: the cosine between the two gradients is {agreement:.2f} on "
            f"average over {steps} steps.",
            if_known(place, f"creates {name} with parameters that {other} trains."),
        ),
        f"Leave the parameters of {other} out of {name}. The gradient still passes through them.",
        place,
    )


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
        return warning(
            "BS106",
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
