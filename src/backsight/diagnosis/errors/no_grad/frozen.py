"""All parameters are frozen: which statement did it, and what it was to spare."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.no_grad.sources import Sources
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.source.bindings import spots
from backsight.source.cut_rules import FROZEN, rule_of
from backsight.source.definitions import definitions
from backsight.source.freezing import Freezing, freezings
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.injected import injected
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered

_NUMBER = re.compile(r"\.(\d+)")


def frozen(scene: Scene) -> Finding | None:
    """The modules that computed the loss have parameters, and none of them requires grad."""
    found = scene.sources
    if not found.are_frozen or found.require_grad:
        return None
    names, count = list(found.modules), len(found.parameters)
    places, freezing = _frozen_at(scene, names)
    model = listed(names, 3)
    missed, fix = _unfreeze(scene, found, freezing)
    return explanation(
        scene.title(
            f"none of the {counted(count, 'parameter')} of {model} does" if count > 1 else f"{model} is frozen"
        ),
        (
            *(shown(each, "sets requires_grad to False.", None if len(places) == 1 else "read") for each in places[:3]),
            *missed,
            f"{model}: requires_grad is False for {'all ' if count > 1 else 'its '}{counted(count, 'parameter')}.",
            *fails(scene),
        ),
        fix
        if scene.trained.owned
        else f"{fix} For the gradient of an input, call x.requires_grad_() before the forward pass.",
        source=str(places[0]) if places else scene.failure.source,
        exact=len(places) < 2,
    )


def _unfreeze(scene: Scene, found: Sources, freezing: Freezing | None) -> tuple[list[Fact], str]:
    """What the condition of the statement that freezes has missed, and what is to stay trainable: the modules that the
    program has added, else the last layer."""
    name, module = next(iter(found.modules.items()))
    every = list(_names(module))
    layer = every[-1].rpartition(".")[0]
    missed, words, begins = _missed(scene, freezing, name, every)
    added = injected(scene.failure, module)
    if added is not None:
        what = "adds it" if added.count == 1 else f"adds {added.count} of them"
        fact = shown(added.place, f"{what}: {added.kind.__name__}, whose parameters are frozen, too.")
        return [*missed, fact], f"{_where(freezing)}, add `{added.unfreezing(name)}`."
    last = name + _NUMBER.sub(r"[\1]", f".{layer}") if layer else name
    rest = f"{last}.requires_grad_(True) for the last layer alone, " if last != name else ""
    what = f"{rest}{name}.requires_grad_(True){' for all of it' if rest else ''}"
    fix = f"{_where(freezing)}, unfreeze what should be trained: {what}."
    if not words:
        return missed, fix
    spared = [each for each in every if (each.startswith(layer) if begins else layer in each)]
    if len(words) == 1 and layer and all(each.rpartition(".")[0] == layer for each in spared):
        fix = f'Write "{layer}" instead of "{words[0]}" to train only the last layer.'
    return missed, f"{fix} The names are {listed([_quoted(each) for each in every], 6)}."


def _where(freezing: Freezing | None) -> str:
    """Where to unfreeze: below the only call of the function that freezes, else below the statement and its loop."""
    if freezing is None:
        return "Before the forward pass"
    calls = [place for place, _ in freezing.given()]
    if len(calls) == 1 and "\n" not in calls[0].text:
        return f"Below line {calls[0].line}, `{calls[0].text}`"
    return f"Below {f'the loop on line {freezing.loop.line}' if freezing.loop else f'line {freezing.place.line}'}"


def _missed(
    scene: Scene, freezing: Freezing | None, model: str, every: list[str]
) -> tuple[list[Fact], tuple[str, ...], bool]:
    """What the condition that freezes looks for in the names of parameters and finds in none of them."""
    if freezing is None or not freezing.chosen:
        return [], (), False
    scope = next((each.frame.f_globals for each in scene.failure.users if each.place.file == freezing.place.file), {})
    words, begins = freezing.words(scope)
    if not words or any(each.startswith(word) if begins else word in each for word in words for each in every):
        same = freezing.at == freezing.place
        return [] if same else [shown(freezing.at, "decides what is frozen, and leaves nothing trainable.")], (), False
    how, texts = "begins with" if begins else "contains", " or ".join(_quoted(word) for word in words[:3])
    says = f"leaves nothing trainable: no parameter name of {model} {how} {texts}."
    return [shown(freezing.at, says)], words, begins


def _quoted(text: str) -> str:
    return f'"{text}"'


def _names(module: torch.nn.Module) -> Iterator[str]:
    """The names of all parameters."""
    for path, each in modules_in(module):
        yield from (
            f"{path}.{name}".lstrip(".") for name, held in registered(each, "_parameters").items() if held is not None
        )


def _frozen_at(scene: Scene, modules: list[str]) -> tuple[list[Place], Freezing | None]:
    """The statement that turned requires_grad off: one that names a module, else those of the user's files."""
    levels = scene.failure.users
    named = [place for level in levels for name in modules for place in _freezing(level, name)][:1]
    every = [each for file in user_files(scene.failure) for each in freezings(file)]
    chosen = [each for each in every if each.place in named] if named else every
    return named or [each.place for each in every], chosen[0] if len(chosen) == 1 else None


def _freezing(level: Level, module: str) -> Iterator[Place]:
    """The statements of a function, or of a method of the class that has the module, that freeze it."""
    owner, _, attribute = module.rpartition(".")
    bodies = [(level.body, module)] if level.body else []
    bodies += [(body, f"self.{attribute}") for body in methods_of(type(level.value(owner)))] if owner else []
    for body, name in bodies:
        for spot in spots(body.node):
            for each in definitions(spot, name):
                if each.freezes or any(rule_of(value) is FROZEN for value in each.values):
                    yield body.place(spot.node)
