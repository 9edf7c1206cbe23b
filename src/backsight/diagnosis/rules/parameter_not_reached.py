"""BS102: an optimizer holds parameters that this loss does not depend on."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from backsight.diagnosis.evidence.creation import creations, put_in_place
from backsight.diagnosis.evidence.cuts import ends, removing, straight_through, undoing, where
from backsight.diagnosis.evidence.severed import hook_around, severing
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import listed, shown, warning
from backsight.findings.evidence import Fact
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Cut, Place, function_at, read_at
from backsight.source.bindings import assigned
from backsight.source.body import body_around, callee, calls_in, dotted, statements
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff
from backsight.story.hardened import hardened
from backsight.story.sections import Section
from backsight.tape import modules_in, registered
from backsight.tracing import Severed, current, whence
from backsight.tracing.steps import parameters


@rule("BS102")
def parameter_not_reached(scene: Scene) -> Iterator[Finding]:
    """An optimizer some of whose parameters are leaves of the loss also holds trainable ones that are not.

    A model may well have parts that a step does not use: experts, dropped layers, the head of another task, a pooler
    that nobody asked for. So this is a note, unless it shows that what they compute is cut off from the loss, or the
    caller has given optimizers to go with the loss, and it reaches nothing of them.
    """
    if any(kind.kind == "checkpoint" for kind in scene.graph.types):
        return  # reentrant checkpointing hides what runs inside of it: the graph cannot tell
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
    names = scene.names(missing)
    other = _of_other_losses(scene.optimizers[optimizer], missing)
    in_vain = len(missing) == total
    seen = next(_fed(scene, missing), None) if in_vain else _seen(scene, optimizer, missing)
    if seen is not None:
        return _severed(scene, optimizer, missing, total, seen)
    cut = None if other and not in_vain else severing(scene, {id(p) for p in missing}, names, wanted=in_vain)
    if cut is not None and (met := _met(scene, missing)):  # what was seen of these parameters goes before what was read
        known = _worked_around(met)
        if known is None and all(each.line is None or each.line.place.line != cut.place.line for each in met):
            known = min(met, key=lambda each: each.by == "derivative")
        if known is not None:
            return _severed(scene, optimizer, missing, total, known)
    if _are_trained_by_none(scene, optimizer, missing):
        copied = copied_values(scene.models.values(), {id(p) for p in missing})
        if copied is not None:
            return _by_value(scene, optimizer, copied, total)
    one = len(missing) == 1
    evidence = _no_path(names, total)
    if cut is not None:
        return warning(
            "BS102",
            f"{optimizer} holds parameters that are detached from this loss.",
            (
                evidence,
                *creations(scene, missing, optimizer),
                shown(cut.place, f"ends their path to the loss at `{cut.expression}`: {cut.why}."),
            ),
            f"{removing(cut.place, names) or _undone(cut)}, if they should learn from this loss. Otherwise, freeze "
            "them with requires_grad_(False) and leave them out of the optimizer.",
            cut.place,
        )
    if in_vain:
        return warning(
            "BS102",
            f"{optimizer} learns nothing from this loss.",
            (evidence,),
            "Look between their output and the loss for .detach(), .data, .item(), torch.no_grad(), or an unused "
            "result. Or pass audit() the optimizer that belongs to this loss.",
        )
    trains = (
        f"{'It has' if one else f'{other} of them have'} a gradient or took a step before, from another loss or batch."
    )
    return Finding(
        "BS102",
        "note",
        f"{optimizer} holds parameters that this loss does not depend on.",
        (evidence, *([trains] if other else [])),
        "Nothing to do if this step should not use them. Otherwise, look between their output and the loss for "
        ".detach(), .data, .item(), torch.no_grad(), or an unused result.",
    )


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
    """Yield the cuts between the parameters and what the operations of this very loss were given, the nearest first.

    One line may serve several losses, as that of a discriminator does; what it was given in each is another tensor.
    """
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


def _severed(scene: Scene, optimizer: str, missing: Sequence[torch.Tensor], total: int, cut: Severed) -> Finding:
    names, place = scene.names(missing), where(cut)
    evidence: list[Fact] = [shown(place, ends(cut))] if place is not None else []
    fix = (
        f"{removing(place, names) or undoing(cut)}, if they should learn from this loss. Otherwise, freeze them with "
        "requires_grad_(False) and leave them out of the optimizer."
    )
    hook = hook_around(scene.models.values(), cut)
    if hook is not None:
        evidence.append(shown(hook.place, f"what a {hook.kind} returns replaces the {hook.replaces} of its module."))
        fix = f"Return nothing from {hook.name}, so the module keeps its own {hook.replaces}."
        place = hook.place
    return warning(
        "BS102",
        f"{optimizer} holds parameters that are detached from this loss.",
        (
            _no_path(names, total),
            *creations(scene, missing, optimizer),
            *evidence,
        ),
        fix,
        place,
    )


def _no_path(names: Sequence[str], total: int) -> str:
    """Say which of an optimizer's parameters the loss does not reach."""
    of = f": {len(names)} of its {total} trainable parameters" if len(names) < total else ""
    return f"No path leads from the loss to {listed(names)}{of}."


def _by_value(scene: Scene, optimizer: str, copied: Copied, total: int) -> Finding:
    missing = list(copied.parameters)
    names = scene.names(missing)
    return warning(
        "BS102",
        f"{optimizer} holds parameters that are detached from this loss.",
        (
            _no_path(names, total),
            *creations(scene, missing, optimizer),
            shown(copied.place, "copies their values into a new tensor, which has no graph."),
        ),
        f"Stack them, which keeps the graph: {copied.attached}."
        if copied.attached
        else f"Use torch.stack or torch.cat, which keep the graph, instead of `{copied.call}`.",
        copied.place,
    )


def _undone(cut: Cut) -> str:
    """Return how the cut is taken back: `Remove .detach()`."""
    if cut.kind == "no_grad":
        if cut.place.text.startswith("@"):
            return f"Remove {cut.place.text}"
        return f"Compute their output outside the {cut.expression} block"
    body = body_around(cut.place.file, cut.place.line)
    choice = hardened(body, cut.expression, cut.place.line) if body is not None else None
    section = Section(body, (), {}, {}) if body is not None else None
    return choice or (mended(CutOff(section, cut, None)).edit if section is not None else f"Remove {cut.expression}")


def _of_other_losses(optimizer: torch.optim.Optimizer, missing: Sequence[torch.Tensor]) -> int:
    """Return how many have a gradient, or were stepped before: something trains them, if not this loss."""
    stepped = {id(p) for p in dict.keys(object.__getattribute__(optimizer, "__dict__").get("state", {}))}
    return sum(p.grad is not None or id(p) in stepped for p in missing)


_COPIES = frozenset({"tensor", "Tensor", "FloatTensor", "DoubleTensor"})


@dataclass(frozen=True)
class Copied:
    """The statement that copies the values of parameters, that call, what would keep the graph, and whose they are."""

    place: Place
    call: str
    attached: str
    parameters: tuple[torch.Tensor, ...]


def copied_values(models: Iterable[torch.nn.Module], lost: Collection[int]) -> Copied | None:
    """Return the one call that copies the values of some parameters with the ids `lost`, of one module.

    No gradient can reach a parameter that no method of its module reads otherwise.
    """
    for module in (each for model in models for _, each in modules_in(model)):
        held = registered(module, "_parameters").items()
        own = {name: p for name, p in held if isinstance(p, torch.Tensor) and id(p) in lost}
        bodies = list(_methods(type(module))) if own else []
        calls = [found for body in bodies for found in _copying(body, own)]
        if len(calls) != 1:
            continue
        body, statement, call = calls[0]
        inside = {id(node) for node in ast.walk(call)}
        read = {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute) and _is_own(n, own)}
        if any(_is_own(n, read) and id(n) not in inside for each in bodies for n in ast.walk(each.node)):
            continue
        values = tuple(own[name] for name in own if name in read)
        scalars = all(each.dim() == 0 for each in values)
        attached = ast.unparse(_stacked(call.args[0], read)) if scalars else ""
        return Copied(body.place(statement), body.text(call), attached, values)
    return None


def _methods(kind: type) -> Iterator[Body]:
    """Yield the methods of the program's in a class of modules, without what makes it."""
    held: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        held |= {name: getattr(value, "fget", value) for name, value in vars(each).items()}
    for name, value in held.items():
        if isinstance(value, FunctionType) and name not in ("__init__", "reset_parameters"):
            file = value.__code__.co_filename
            body = None if is_library(file) or is_ours(file) else function_at(value.__code__)
            if body is not None:
                yield body


def _copying(body: Body, names: Collection[str]) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Yield the calls that copy a display of numbers, in which attributes of `self` of these names stand."""
    for statement in statements(body.node):
        for call in calls_in(statement):
            shown = call.args[0] if call.args and callee(call)[1] in _COPIES else None
            if isinstance(shown, ast.List | ast.Tuple) and any(_is_own(n, names) for n in ast.walk(shown)):
                yield body, statement, call


def _is_own(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in names and dotted(node.value) == "self"


def _stacked(value: ast.expr, names: Collection[str]) -> ast.expr:
    """Return a display of tensors as calls of torch.stack, and of what is no parameter as a tensor."""
    if isinstance(value, ast.List | ast.Tuple):
        inner = ast.List([_stacked(each, names) for each in value.elts], ast.Load())
        return ast.Call(ast.parse("torch.stack", mode="eval").body, [inner], [])
    if any(_is_own(each, names) for each in ast.walk(value)):
        return value
    return ast.Call(ast.parse("torch.as_tensor", mode="eval").body, [value], [])
