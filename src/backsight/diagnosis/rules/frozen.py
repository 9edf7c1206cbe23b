"""BS109, BS133, BS134, BS157: what is not trained: frozen parameters, and rows of an embedding that are padding."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

import torch

from backsight.diagnosis.amending import instead, rid_of_keyword
from backsight.diagnosis.evidence.creation import built_at
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.source import Place, only, read_at, statements_of
from backsight.source.body import dotted, expressions, keyword
from backsight.source.edits import OR
from backsight.source.freezing import freezings, unfreezings_after
from backsight.story.holders import given, kept, users
from backsight.tape import Node, modules_in, parameters_in, registered
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters


@rule("BS109")
def frozen_in_optimizer(scene: Scene) -> Iterator[Finding]:
    """Parameters with requires_grad=False in an optimizer: usual in fine-tuning, so only a note.

    It is none where the program unfreezes later: an optimizer of all parameters is then the right one.
    """
    for name, optimizer in scene.involved().items():
        held = parameters(optimizer)
        frozen = [p for p in held if not p.requires_grad]
        moving = [p for p in frozen if p.grad is not None]
        if moving or (frozen and not _unfreezes(scene, name)):
            fate = "The optimizer skips parameters without a gradient."
            if moving:
                fate = (
                    f"{scene.listed(moving)} still {'has' if len(moving) == 1 else 'have'} an old gradient: step() "
                    "applies it, with momentum and weight decay, until it is None."
                )
            yield Finding(
                "BS109",
                "note",
                f"{len(frozen)} of the {len(held)} parameters in {name} {'is' if len(frozen) == 1 else 'are'} frozen.",
                (f"requires_grad is False for {scene.listed(frozen)}. {fate}",),
                "If you froze them on purpose, there is nothing to do. Otherwise, unfreeze them with "
                "requires_grad_(True) before the forward pass.",
            )


def _unfreezes(scene: Scene, optimizer: str) -> bool:
    """Whether a statement further down than that which builds an optimizer unfreezes something."""
    built = built_at(scene, optimizer)
    return built is not None and bool(unfreezings_after(built))


_LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
"""Layers that multiply by their weight; what is added, as positions are, may well be zero."""

_FIRST = 64
"""Values that are looked at before all of them are."""


@rule("BS133")
def frozen_zeros(scene: Scene) -> Iterator[Finding]:
    """Layers that begin with zeros, such as the second half of an adapter, are there to be trained."""
    for model in scene.models.values():
        held = dict.fromkeys(parameters_in(model))
        if not any(p.requires_grad for p in held):
            continue
        layers = [module for _, module in modules_in(model) if isinstance(module, _LAYERS)]
        weights = {id(module): registered(module, "_parameters").get("weight") for module in layers}.values()
        zeros = [p for p in weights if isinstance(p, torch.Tensor) and not p.requires_grad and _are_zeros(p)]
        if zeros:
            yield _all_zeros(scene, zeros)
            return


def _are_zeros(weight: torch.Tensor) -> bool:
    if not weight.numel() or not is_readable(weight) or weight.layout != torch.strided:
        return False
    with torch.no_grad():
        start = weight.detach()[(0,) * (weight.dim() - 1)][:_FIRST]
    return is_zero(start) is True and is_zero(weight) is True


def _all_zeros(scene: Scene, zeros: list[torch.Tensor]) -> Finding:
    found = list(freezings(scene.site[0]))
    place = found[0].at if len(found) == 1 else None
    several = len(zeros) > 1
    return warning(
        "BS133",
        f"{scene.listed(zeros, 2)} {'are' if several else 'is'} all zeros and frozen: "
        f"{'their' if several else 'its'} output is zero and stays zero.",
        (if_known(place, "decides what is frozen."),),
        f"Call requires_grad_(True) on {'them' if several else 'it'} and pass {'them' if several else 'it'} to the "
        "optimizer; check the names that decide what is frozen.",
        place,
    )


@rule("BS134")
def part_of_a_name(scene: Scene) -> Iterator[Finding]:
    """A statement freezes by a word in a name; it begins a part of some of these names, and of others it ends one.

    `"enc" in name` is meant for `encoder.weight`, and `frequency_head.weight` has it too.
    """
    file = scene.site[0]
    for freezing in freezings(file):
        for place, known in (*freezing.given(), (None, _constants(file))):
            words, begins = freezing.words(known)
            given = [
                each for value in known.values() for each in (value if isinstance(value, list | tuple) else (value,))
            ]
            for word in () if begins else words:
                if place is not None and word not in given:
                    continue
                for variable, names in _frozen(scene, word):
                    meant, inside = _apart(names, word)
                    if meant and inside:
                        yield _finding(variable, word, meant, inside, freezing.at, place)
                        return


def _constants(file: str) -> Mapping[str, object]:
    """What the names of a file's module stand for."""
    modules = (each for each in list(sys.modules.values()) if type(each) is ModuleType)
    return next((vars(each) for each in modules if vars(each).get("__file__") == file), {})


def _frozen(scene: Scene, word: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the models of which some parameters are trained, with the names that have a word, and are frozen."""
    for variable, model in scene.models.items():
        held = [
            (f"{path}.{name}".lstrip("."), parameter.requires_grad)
            for path, module in modules_in(model)
            for name, parameter in registered(module, "_parameters").items()
            if isinstance(parameter, torch.nn.Parameter)
        ]
        if any(trained for _, trained in held):
            yield variable, [name for name, trained in held if not trained and word in name]


def _apart(names: list[str], word: str) -> tuple[list[str], list[str]]:
    """Return the names of which the word begins a part, and those in which it only stands within one."""
    begins = re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}") if word[:1].isalnum() else None
    if begins is None:
        return [], []
    meant = [name for name in names if begins.search(name)]
    return meant, [name for name in names if name not in meant]


def _finding(variable: str, word: str, meant: list[str], inside: list[str], at: Place, given: Place | None) -> Finding:
    whole = next(part for name in meant for part in name.split(".") if word in part)
    names = [f"{variable}.{name}" for name in inside]
    return warning(
        "BS134",
        f'{listed(names, 2)} {"are" if len(names) > 1 else "is"} frozen too: "{word}" appears inside '
        f"{'their names' if len(names) > 1 else 'its name'}.",
        (
            shown(at, "decides what is frozen."),
            if_known(given, f'gives "{word}".'),
            f"In {counted(len(meant), 'other parameter')}, it starts a part of the name: {whole}.",
        ),
        f'Match the whole prefix: name.startswith("{whole}."){_matched(at, word, whole)}. '
        f"{OR}Or freeze the module itself with requires_grad_(False).",
        given or at,
    )


def _matched(at: Place, word: str, whole: str) -> str:
    """Ask whether a name begins with a whole part, where a statement asks whether it has a word."""
    body, statement = read_at(at)
    if body is None:
        return ""
    for node in expressions(statement):
        match node:
            case ast.Compare(left=ast.Constant(value=found), ops=[ast.In()], comparators=[name]) if found == word:
                return instead(body, statement, {node: f'{body.text(name)}.startswith("{whole}.")'})
    return ""


# BS157: an item of the data has the number of the padding, so its row is never trained.


_ON = frozenset(
    {
        *("Sum", "Mean", "Add", "Sub", "Squeeze", "Unsqueeze", "View", "Sigmoid", "Pow", "Abs"),
        *("MseLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits", "SmoothL1Loss", "HuberLoss"),
    }
)
"""What leads from a product to the loss where each sample counts: no mask takes one out."""

_DEEPEST = 16


@rule("BS157")
def padding(scene: Scene) -> Iterator[Finding]:
    """An embedding with `padding_idx` that is given one number for each sample, and multiplied with another one's.

    The padding of sequences is left out of the loss, and a missing category adds nothing to the features of a sample.
    But the product of a user and an item is the prediction: there is no sample without an item.
    """
    tables = {
        id(registered(each, "_parameters").get("weight")): each
        for model in scene.models.values()
        for _, each in modules_in(model)
        if isinstance(each, torch.nn.Embedding) and each.__dict__.get("padding_idx") is not None
    }
    above: Mapping[int, list[Node]] = users(scene.graph) if tables else {}
    leaves = {leaf.node: leaf for leaf in scene.graph.leaves}
    for node in scene.graph.nodes if tables else ():
        leaf = next((leaves[each.index] for each in given(node) if each.index in leaves), None)
        table = tables.get(id(leaf.tensor())) if leaf is not None and node.op == "Embedding" else None
        asked = kept(node, "indices") if table is not None else None
        if table is None or asked is None or asked.dim() != 1 or not _is_prediction(above, node):
            continue
        number = int(table.__dict__["padding_idx"])
        times = int((asked == number).sum())
        if times:
            name = leaf.name.removesuffix(".weight") if leaf is not None else "An embedding"
            yield _of_padding(scene, name, number, times, len(asked))
            return


def _is_prediction(above: Mapping[int, list[Node]], node: Node) -> bool:
    """Whether a row is multiplied with that of another table, and nothing is left out from there to the loss."""
    product = next((each for each in above.get(node.index, ()) if each.op == "Mul"), None)
    if product is None or sum(each.op == "Embedding" for each in given(product)) != 2:
        return False
    here = product
    for _ in range(_DEEPEST):
        after = above.get(here.index, [])
        if len(after) != 1 or after[0].op not in _ON:
            return False
        here = after[0]
        if here.shape == ():
            return True
    return False


def _of_padding(scene: Scene, name: str, number: int, times: int, rows: int) -> Finding:
    place = _made(scene, ending(name))
    edit = rid_of_keyword(place, "padding_idx", "Embedding")
    return warning(
        "BS157",
        f"{name} never learns row {number}: it is the padding, and samples use it.",
        (
            f"{times} of {rows} samples of this batch have index {number}; padding_idx={number} drops their gradient.",
            if_known(place, f"declares row {number} to be padding."),
        ),
        f"Remove padding_idx: nothing is padded here{edit}. {OR}Or number the items from "
        f"{number + 1}, with one more row."
        if not number
        else f"Remove padding_idx{edit}, {OR}or give no item the index {number}.",
        place,
    )


def _made(scene: Scene, last: str) -> Place | None:
    """Return the only statement that makes a table of this name."""
    return only(
        body.place(each)
        for body, each in statements_of(scene.site[0])
        if isinstance(each, ast.Assign) and any(ending(dotted(goal)) == last for goal in each.targets)
        if isinstance(each.value, ast.Call) and keyword(each.value, "padding_idx") is not None
    )
