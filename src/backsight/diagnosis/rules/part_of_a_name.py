"""BS134: parameters are frozen since a word appears inside their names."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

import torch

from backsight.diagnosis.amending import instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.source import Place, read_at
from backsight.source.body import expressions
from backsight.source.edits import OR
from backsight.source.freezing import freezings
from backsight.tape import modules_in, registered


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
