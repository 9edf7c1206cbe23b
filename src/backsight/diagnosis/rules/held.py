"""BS102, BS106, BS107: what an optimizer holds: what a loss does not reach, twice, or what no variable holds."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType

import torch

from backsight.diagnosis.evidence.creation import built_at, put_in_place
from backsight.diagnosis.evidence.cuts import restarted
from backsight.diagnosis.evidence.idle import idle_among, unread
from backsight.diagnosis.evidence.severed import no_path, of_other_losses, severance
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import constructions, ending, few_of, modules, named
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, listed, shown, warning
from backsight.findings.evidence import Evidence
from backsight.snapshot import groups
from backsight.source import Body, Place, assignments, calls_of, only, read_at, rebinding
from backsight.source.bindings import assigned
from backsight.source.body import body_around, callee, calls_in, dotted
from backsight.source.edits import on_line_with
from backsight.story.holders import below
from backsight.tape import Leaf
from backsight.tracing.steps import parameters


@rule("BS102")
def parameter_not_reached(scene: Scene) -> Iterator[Finding]:
    """An optimizer some of whose parameters are leaves of the loss also holds trainable ones that are not.

    A model may well have parts that a step does not use: experts, dropped layers, the head of another task, a pooler
    that nobody asked for. So this is a note, unless it shows that what they compute is cut off from the loss, or the
    caller has given optimizers to go with the loss, and it reaches nothing of them.
    """
    if scene.is_checkpointed:
        return
    reached = scene.reached()
    involved = scene.involved()
    in_vain = scene.chosen and not involved
    for name, optimizer in (scene.optimizers if in_vain else involved).items():
        trained = [p for p in parameters(optimizer) if p.requires_grad]
        missing = [p for p in trained if id(p) not in reached]
        if not missing or not (in_vain or len(missing) < len(trained)):  # with none reached, it serves another loss
            continue
        left = [] if in_vain else _left_behind(scene, missing)
        replaced = _replaced(scene) if left else {}
        if replaced:
            yield _of_no_module(name, left, replaced, len(trained))
            missing = [p for p in missing if all(p is not each for each in left)]
        if missing:
            yield _finding(scene, name, missing, len(trained))


def _left_behind(scene: Scene, missing: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the parameters that nothing but an optimizer holds anymore."""
    return [p for p, path in zip(missing, scene.names(missing), strict=True) if ".param_groups[" in path]


def _replaced(scene: Scene) -> dict[str, Place]:
    """Return the parameters of this loss, or the modules around them, that statements have replaced, with these."""
    put = dict.fromkeys(put_in_place(scene, leaf) for leaf in scene.graph.leaves if leaf.kind == "parameter")
    own = [(place, path) for place, path in put if place is not None and _assigns(place, path)]
    places = [place for place, _ in own]
    return {path: place for place, path in own if places.count(place) == 1}  # `layer.weight = ...` may be any


def _assigns(place: Place, path: str) -> bool:
    """Whether a statement assigns what has this path, whatever it calls the object: `self.head.weight`."""
    names = [dotted(target) or "" for target, _ in assigned(read_at(place)[1])]
    return any(path.endswith(f".{name.partition('.')[2]}") for name in names if "." in name)


def _of_no_module(optimizer: str, left: Sequence[torch.Tensor], replaced: dict[str, Place], total: int) -> Finding:
    them, they, their = ("it", "it", "its") if len(left) == 1 else ("them", "they", "their")
    return Finding(
        "BS102",
        "note",
        f"{optimizer} holds parameters that belong to no module anymore.",
        (
            f"Only {optimizer} still holds {len(left)} of its {total} trainable parameters.",
            *(shown(place, f"replaces {path}.") for path, place in replaced.items()),
        ),
        f"Create {optimizer} again after each replacement to drop {them}. Until then, {they} and {their} state take "
        "memory.",
    )


def _finding(scene: Scene, optimizer: str, missing: Sequence[torch.Tensor], total: int) -> Finding:
    if (found := severance(scene, optimizer, missing, total)) is not None:
        wanted = "if they should learn from this loss. Otherwise, freeze them with requires_grad_(False) and leave them"
        fix = found.fix
        if (parts := restarted(found.place)) is not None:
            part, of = parts
            fix = f"Hand on {part}.grad of all turns before the step, with {of}.backward(gradient=...), or keep the "
            fix += f"graph of {of} and run backward once, on the sum of the losses"
        return warning(
            "BS102",
            f"{optimizer} holds parameters that are detached from this loss.",
            found.evidence,
            f"{fix}." if found.is_sure else f"{fix}, {wanted} out of the optimizer.",
            found.place,
        )
    evidence = no_path(scene.names(missing), total)
    if len(missing) == total:
        return warning(
            "BS102",
            f"{optimizer} learns nothing from this loss.",
            (evidence,),
            "Look between their output and the loss for .detach(), .data, .item(), torch.no_grad(), or an unused "
            "result. Or pass audit() the optimizer that belongs to this loss.",
        )
    other = of_other_losses(scene.optimizers[optimizer], missing)
    have = "It has" if len(missing) == 1 else f"{other} of them have"
    lost = next((reason for each in idle_among(modules(), missing) if (reason := unread(each))), None)
    return Finding(
        "BS102",
        "note",
        f"{optimizer} holds parameters that this loss does not depend on.",
        (
            evidence,
            *([f"{have} a gradient or took a step before, from another loss or batch."] if other else []),
            *(lost.evidence if lost is not None else ()),
        ),
        "Nothing to do if this step should not use them. Otherwise, look between their output and the loss for "
        ".detach(), .data, .item(), torch.no_grad(), or an unused result.",
        source=str(lost.place) if lost is not None else None,
    )


# BS106: a parameter is stepped twice.


Entry = tuple[str, int]
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
            made = _of_two(scene, held, next(iter(found.values())), severity == "warning")
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
    """Return the finding that one optimizer steps what another trains against it: the mean cosine over some steps."""
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


def _places(scene: Scene) -> tuple[dict[int, list[Entry]], dict[int, torch.Tensor]]:
    """Return where each parameter stands, by id. A wrapper that shares another's groups is that other optimizer."""
    places: defaultdict[int, list[Entry]] = defaultdict(list)
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


def _is_stepped_twice(scene: Scene, parameter: torch.Tensor, where: list[Entry]) -> bool:
    names = [name for name, _ in where]
    if len(set(names)) < len(names):
        return True
    if scene.steps is None:
        return False
    used = (scene.steps.consumed(scene.optimizers[name], parameter) for name in names)
    return any(each is not None and each.shared for each in used)


def _of_two(scene: Scene, tensors: list[torch.Tensor], where: list[Entry], grave: bool) -> Finding:
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    subject = f"{scene.names(tensors[:1])[0]}{more}"
    if grave:
        place, instead = _listed_twice(scene, tensors)
        return warning(
            "BS106",
            f"{subject} will be stepped {'twice' if len(where) == 2 else f'{len(where)} times'}.",
            (
                f"{'It is' if len(tensors) == 1 else 'They are'} among the parameters of {_spelt(scene, where)}.",
                if_known(place, "lists them twice."),
            ),
            instead or "Give each parameter to one group of one optimizer.",
            place,
        )
    return Finding(
        "BS106",
        "note",
        f"{subject} {'is' if len(tensors) == 1 else 'are'} in {len(where)} optimizers.",
        (f"{'It is' if len(tensors) == 1 else 'They are'} among the parameters of {_spelt(scene, where)}.",),
        "Nothing to do if they take turns. If all of them step after one backward(), each parameter moves "
        f"{len(where)} times: give it to one of them only.",
    )


def _listed_twice(scene: Scene, tensors: list[torch.Tensor]) -> tuple[Place | None, str]:
    """Return the only statement with `a.parameters()` in it twice, and a fix where one part beside `a` is in none."""
    calls: dict[tuple[Body, ast.stmt, str], list[ast.expr]] = defaultdict(list)
    for body, statement, call in calls_of(scene.site[0]):
        receiver, method = callee(call)
        if method == "parameters" and receiver is not None and dotted(receiver) and not call.args:
            calls[body, statement, dotted(receiver) or ""].append(receiver)
    twice = only((key, given) for key, given in calls.items() if len(given) == 2 and _are_together(key[1], given))
    if twice is None:
        return None, ""
    (body, statement, name), (_, second) = twice
    part, place, names = ending(name), body.place(statement), scene.names(tensors)
    around = only({f".{path}".partition(f".{part}.")[0] for path in names if f".{part}." in f".{path}"})
    if around is None:
        return None, ""
    free = [f".{leaf.name}" for leaf in scene.graph.leaves if leaf.kind == "parameter" and not leaf.owner]
    beside = {each.removeprefix(f"{around}.").partition(".")[0] for each in free if each.startswith(f"{around}.")}
    other = only(beside) if "." in name else None
    if other is None:
        return place, ""
    meant = f"{name.rpartition('.')[0]}.{other}"
    new = on_line_with(body, statement, {second: meant})
    return place, f"No optimizer has {meant}. If it was meant: {new}. If not, leave one of the two out." if new else ""


def _are_together(statement: ast.stmt, given: Sequence[ast.expr]) -> bool:
    """Whether two expressions stand in one list, and not in the calls that make two optimizers."""
    calls = [each for each in calls_in(statement) if callee(each)[1] not in ("parameters", "list", "tuple")]
    return not any(len({*ast.walk(each)} & {*given}) == 1 for each in calls)


def _spelt(scene: Scene, where: list[Entry]) -> str:
    """`adam and sgd`, `opt (2 times)`, `opt.param_groups[0] and opt.param_groups[1]`."""
    places = Counter(
        name if len(groups(scene.optimizers[name])) == 1 else f"{name}.param_groups[{g}]" for name, g in where
    )
    return listed([place if times == 1 else f"{place} ({times} times)" for place, times in places.items()])


# BS107: the variable that held a leaf now holds something computed from it.


@rule("BS107")
def overwritten_leaf(scene: Scene) -> Iterator[Finding]:
    """A leaf has lost its name to one of its own results."""
    for leaf in scene.graph.leaves:
        if leaf.kind == "overwritten":
            fate = f"{leaf.owner} still updates it" if leaf.owner else "no optimizer updates it"
            name = leaf.name.removesuffix(" (overwritten)")
            at = rebinding(*scene.site, name)
            near = Evidence(f"It is an {leaf.near}: the name now refers to the result.", certainty="read")
            before: list[Evidence] = []
            if at is not None and f"`{at.text}`, {at}" in leaf.near:
                near = shown(at, f"rebinds {name}, the leaf, to a result computed from it.", "read")
                before = [*_creation(name, at), *_optimizer(scene, leaf)]
            else:
                at = None
            yield warning(
                "BS107",
                f"{leaf.name} is a leaf that no variable holds anymore.",
                (*before, near, f"Its gradient can no longer be read, and {fate}."),
                "Give the result another name, keep the leaf's name, and recompute the result in each step.",
                at,
                exact=False,
                nodes=(leaf.node,),
            )


def _creation(name: str, overwritten: Place) -> Iterator[Evidence]:
    """The one statement that gave the variable its leaf, before another overwrote it."""
    places = assignments(body_around(overwritten.file, overwritten.line), name, before=overwritten.line)
    if len(places) == 1:
        yield shown(places[0], f"creates {name}, the leaf.", "read")


def _optimizer(scene: Scene, leaf: Leaf) -> Iterator[Evidence]:
    """The statement that makes the optimizer of the leaf, or the only one, which might have got it."""
    only = next(iter(scene.optimizers)) if len(scene.optimizers) == 1 else ""
    built = built_at(scene, leaf.owner or only) if leaf.owner or only else None
    if built is not None:
        yield shown(built, f"passes it to {leaf.owner}." if leaf.owner else "leaves it out.")
