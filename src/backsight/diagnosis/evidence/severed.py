"""What cuts the parameters of an optimizer off from a loss: as a watch has seen it, else as frames and text show it."""

from __future__ import annotations

import ast
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.creation import creations
from backsight.diagnosis.evidence.cuts import ends, straight_through, taken_back, undoing, where
from backsight.diagnosis.scene import Scene, Site
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.source.body import SCOPES, body_around, callee, covers
from backsight.story.cuts import CutOff, along, cuts, origin, why
from backsight.story.failure import failure_at, function_of
from backsight.story.hooks import hook_around
from backsight.story.sections import losses, run_by, section_of
from backsight.story.trained import Trained
from backsight.tape import parameters_in, registered
from backsight.tracing import Severed, current, whence
from backsight.tracing.steps import parameters


class Severance(NamedTuple):
    """What cuts parameters off from a loss.

    fix: what takes it back, without a full stop. is_sure: whether it must be a mistake, whatever the loss is for.
    """

    evidence: tuple[Fact, ...]
    fix: str
    place: Place | None
    is_sure: bool = False


def severance(scene: Scene, optimizer: str, missing: Sequence[torch.Tensor], total: int) -> Severance | None:
    """Return what cuts `missing`, of `total` parameters of an optimizer, off from the loss.

    A program that runs several backwards cuts its losses from one another on purpose (an actor's from its critic's),
    so there nothing that was only read is told of parameters that may be another loss's.
    """
    in_vain = len(missing) == total
    seen = next(_fed(scene, missing), None) if in_vain else _seen(scene, optimizer, missing)
    meant = not in_vain and (of_other_losses(scene.optimizers[optimizer], missing) or _backwards(*scene.site) > 1)
    read = [each for each in _read(scene, missing) if each.verdict is not False] if seen or not meant else []
    first = origin(read[0], read) if read and not meant else None
    if seen is None and first is not None and (met := _met(scene, missing)):  # what was seen goes before what was read
        seen = _worked_around(met)
        if seen is None and all(each.line is None or not first.is_at(each.line.place) for each in met):
            seen = min(met, key=lambda each: each.by == "derivative")
    begins: tuple[Fact, ...] = (no_path(scene.names(missing), total), *creations(scene, missing, optimizer))
    if seen is not None and (hook := hook_around(scene.models, seen.line)) is not None:
        return Severance((*begins, *_ends(seen), shown(hook.place, hook.does)), hook.fix, hook.place, is_sure=True)
    if seen is not None:
        place = where(seen)
        several = (each for each in read if place is not None and each.is_at(place) and each.beside)
        fix = next((taken_back(each) for each in several), "") or undoing(seen)
        return Severance((*begins, *_ends(seen)), fix, place)
    if first is None:
        return None
    says = f"ends their path to the loss at `{first.cut.expression}`: {first.cut.why}."
    further = along(first, read)
    facts = (shown(first.cut.place, says), *(shown(each.cut.place, f"{why(each.cut)}.") for each in further))
    return Severance((*begins, *facts), taken_back(first, *further), first.cut.place)


def _ends(cut: Severed) -> tuple[Fact, ...]:
    place = where(cut)
    return (shown(place, ends(cut)),) if place is not None else ()


def _read(scene: Scene, missing: Sequence[torch.Tensor]) -> list[CutOff]:
    """What cuts parameters off, as frames and text show it: in running functions, and forwards around them."""
    frame = _running(scene.site)
    failure = failure_at(Warning(), frame)
    roots = [root for root in scene.graph.root_names if root]
    running = (each for each in failure.users if each.frame is frame)
    named = (section_of(each, tuple((root, each.line) for root in roots)) for each in running)
    starts = [each for each in named if each is not None] + losses(failure.users)
    for model in scene.models.values():
        for parent in _around(model, {id(p) for p in missing}):
            starts += itertools.islice(run_by(function_of(parent), parent, whole=False), 1)
    owned = frozenset(id(p) for optimizer in scene.optimizers.values() for p in parameters(optimizer))
    return cuts(failure, Trained(owned), missing, starts)


def _running(site: Site) -> FrameType | None:
    """Return the frame that runs a line: of this thread, or of one for which the engine runs a backward in this."""
    this = threading.get_ident()  # our own frame, in a variable of its own, would be a cycle
    others = (frame for thread, frame in sys._current_frames().items() if thread != this)
    for frame in (sys._getframe(1), *others):
        each: FrameType | None = frame
        while each is not None:
            if (each.f_code.co_filename, each.f_lineno) == site:
                return each
            each = each.f_back
    return None


def _backwards(file: str, line: int) -> int:
    """Return how many calls of backward the function or class around a line contains, what is nested included."""
    module = body_around(file, 0)
    if module is None:
        return 0
    top = next((each for each in module.node.body if covers(each, line)), None)
    found = ast.walk(top if isinstance(top, SCOPES) else module.node)
    return sum(isinstance(node, ast.Call) and callee(node)[1].endswith("backward") for node in found)


def _around(model: torch.nn.Module, lost: Collection[int]) -> Iterator[torch.nn.Module]:
    """Yield the modules with parts, the outermost such, whose trainable parameters are all lost."""
    stack, seen = [model], {id(model)}
    for parent in stack:  # grows as we go
        children = [each for each in registered(parent, "_modules").values() if isinstance(each, torch.nn.Module)]
        new = [each for each in children if id(each) not in seen]
        every = [(each, [p for p in parameters_in(each) if p.requires_grad]) for each in new]
        seen |= {id(each) for each, _ in every}
        if any(own and all(id(p) in lost for p in own) for _, own in every):
            yield parent
        stack += [each for each, own in every if any(id(p) not in lost for p in own)]


def _seen(scene: Scene, optimizer: str, missing: Sequence[torch.Tensor]) -> Severed | None:
    """Return the cut that a watch saw between the parameters and this loss, if no other loss trains them.

    What NumPy makes of an array is not followed: there it is enough that nothing but what they compute is handed over.
    Whether one does shows once the optimizer has stepped: then they would have had a gradient.
    """
    if not _are_trained_by_none(scene, optimizer, missing):
        return None
    cuts = _met(scene, missing)
    if cuts:  # a derivative without a graph may be meant: a step of first order
        return _worked_around(cuts) or min(cuts, key=lambda each: each.by == "derivative")
    if (cut := _begun_anew(scene, missing)) is not None:
        return cut
    lost = {id(p) for p in missing}
    for cut, leaves, made in scene.ended():
        behind = {id(leaf) for ref in leaves if (leaf := ref()) is not None}
        if cut.line is not None and behind and behind <= lost and made > scene.began:
            return cut
    return None


def _are_trained_by_none(scene: Scene, optimizer: str, missing: Sequence[torch.Tensor]) -> bool:
    """Whether the optimizer has stepped with gradients of other parameters, and with none of these."""
    held = scene.optimizers[optimizer]
    used = [scene.steps.consumed(held, p) for p in parameters(held)] if scene.steps is not None else []
    return scene.steps is not None and any(used) and not any(scene.steps.consumed(held, p) for p in missing)


def _fed(scene: Scene, missing: Sequence[torch.Tensor]) -> Iterator[Severed]:
    """Yield the cuts between the parameters and what this very loss was given, the nearest first."""
    watch, lost = current(), {id(p) for p in missing}
    kept = (saved.tensor() for each in scene.graph.saved.values() for saved in each) if watch is not None else ()
    for tensor in kept:
        for cut, leaves, _ in whence(watch, tensor) if tensor is not None and watch is not None else ():
            if cut.line is not None and cut.by != "frozen" and any(id(ref()) in lost for ref in leaves):
                yield cut


def _met(scene: Scene, missing: Sequence[torch.Tensor]) -> list[Severed]:
    """Return the cuts that values of the parameters passed on their way into this loss."""
    lost = {id(p) for p in missing}
    return [
        cut
        for met in scene.met().values()
        for cut, leaves, _ in met.cuts
        if cut.line is not None and any((leaf := ref()) is not None and id(leaf) in lost for ref in leaves)
    ]


def _begun_anew(scene: Scene, missing: Sequence[torch.Tensor]) -> Severed | None:
    """Return the cut behind leaves of the loss that are copies of the parameters, made in this very step: fast weights
    that begin with the values of what is to learn, and with nothing of its graph.

    Each parameter behind it has to have such a copy: one leaf of the shape of one may be a result of many.
    """
    watch, shapes, lost = current(), {tuple(p.shape) for p in missing}, {id(p): p for p in missing}
    copied: dict[Severed, tuple[list[tuple[int, ...]], dict[int, torch.Tensor]]] = {}
    for leaf in scene.graph.leaves if watch is not None else ():
        tensor = leaf.tensor()
        if leaf.owner or tensor is None or tuple(tensor.shape) not in shapes or watch is None:
            continue
        for cut, leaves, made in whence(watch, tensor):
            if cut.by in ("detach", "data") and cut.line is not None and made >= scene.began:
                found, originals = copied.setdefault(cut, ([], {}))
                found.append(tuple(tensor.shape))
                originals |= {id(p): p for ref in leaves if (p := ref()) is not None and id(p) in lost}
    for cut, (found, originals) in copied.items():
        wanted = Counter(tuple(p.shape) for p in originals.values())
        if wanted and wanted <= Counter(found):
            return cut
    return None


def _worked_around(cuts: Sequence[Severed]) -> Severed | None:
    """Return the cut of a straight-through estimator: a detach in another term, of a commitment, is meant to be one."""
    return next((cut for cut in cuts if straight_through(cut) is not None), None)


def of_other_losses(optimizer: torch.optim.Optimizer, missing: Sequence[torch.Tensor]) -> int:
    """Return how many have a gradient, or were stepped before: something trains them, if not this loss."""
    stepped = {id(p) for p in dict.keys(object.__getattribute__(optimizer, "__dict__").get("state", {}))}
    return sum(p.grad is not None or id(p) in stepped for p in missing)


def no_path(names: Sequence[str], total: int) -> str:
    """Say which of an optimizer's parameters the loss does not reach."""
    of = f": {len(names)} of its {total} trainable parameters" if len(names) < total else ""
    return f"No path leads from the loss to {listed(names)}{of}."
