"""Which statements create what a finding is about: a parameter, or the module of several, and the optimizer."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import torch

from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Evidence
from backsight.naming.roots import is_user_class
from backsight.source import Place, assignments, only
from backsight.source.bindings import assigned
from backsight.source.body import body_around, functions, statements
from backsight.story.holders import found_around
from backsight.story.sections import methods_of
from backsight.tape import Leaf


def creations(scene: Scene, tensors: Sequence[torch.Tensor], optimizer: str) -> tuple[Evidence, ...]:
    """Return the statements that create some parameters and the optimizer that holds them, as far as they are known.

    >>> [str(fact) for fact in creations(scene, [encoder.weight, encoder.bias], "optimizer")]
    ['train.py:7  encoder = nn.Linear(8, 16)\\n    creates encoder.',
     'train.py:8  optimizer = Adam(model.parameters())\\n    passes them to optimizer.']
    """
    created, built = _creation(scene, tensors), built_at(scene, optimizer)
    facts = [shown(place, f"creates {name}.") for place, name in ([created] if created is not None else [])]
    if built is not None and all(fact.place != built for fact in facts):
        facts.append(shown(built, f"passes {'it' if len(tensors) == 1 else 'them'} to {optimizer}."))
    return tuple(facts)


def built_at(scene: Scene, optimizer: str) -> Place | None:
    """Return the statement that makes an optimizer."""
    return _assigned(scene, optimizer, scene.optimizers[optimizer])


def attribute_assignments(scene: Scene, path: str, *, inside: bool, tying: bool = True) -> list[Place]:
    """Return the statements, in the file of the backward, that assign the attribute at the end of a path, in an
    `__init__` or not; `tying`: also those that give it another attribute."""
    return [
        body.place(statement)
        for body in functions(scene.site[0])
        for statement in (statements(body.node) if (body.name == "__init__") == inside else ())
        for target, value in assigned(statement)
        if isinstance(target, ast.Attribute) and target.attr == path.rpartition(".")[2]
        if tying or not isinstance(value, ast.Attribute)
    ]


def only_built(scene: Scene) -> Place | None:
    """Return the statement that makes the only optimizer."""
    return built_at(scene, next(iter(scene.optimizers))) if len(scene.optimizers) == 1 else None


def put_in_place(scene: Scene, leaf: Leaf) -> tuple[Place | None, str]:
    """Return the one statement, in the file of the backward and outside of any `__init__`, that assigns an attribute of
    the name of the leaf, or of a module around it, and this name. One that ties it to another replaces nothing.

    Of several that one which follows the optimizer in its function.
    """
    parts = leaf.name.split(".")
    for path in (".".join(parts[: at + 1]) for at in reversed(range(1, len(parts)))):
        places = attribute_assignments(scene, path, inside=False, tying=False)
        if len(places) > 1 and (built := only_built(scene)) is not None:
            around = body_around(built.file, built.line)
            scope = around.node if around is not None else None
            own = [each for each in places if (b := body_around(each.file, each.line)) is not None and b.node is scope]
            places = [each for each in own if each.file == built.file and each.line > built.last] or places
        if places:
            return (places[0], path) if len(places) == 1 else (None, "")
    return None, ""


def _creation(scene: Scene, tensors: Sequence[torch.Tensor]) -> tuple[Place, str] | None:
    """The statement that creates the innermost named thing that all tensors are of, `encoder`, and its name."""
    path = _common(scene.names(tensors))
    modules = {path: module for module, path in found_around((), torch.nn.Module)}
    while path:
        around, _, attribute = path.rpartition(".")
        parent = modules.get(around)
        held = modules.get(path, only(tensors))
        if parent is None or is_user_class(type(parent).__module__):
            place = _assigned(scene, path, held) if parent is None else _constructed(parent, attribute)
            return (place, path) if place is not None else None
        path = around
    return None


def _assigned(scene: Scene, name: str, held: object) -> Place | None:
    """The statement that assigns a variable what it holds, or the only one of the file that assigns the attribute."""
    if "." not in name:
        return scene.assigned(held)
    return only(each for inside in (True, False) for each in attribute_assignments(scene, name, inside=inside))


def _constructed(module: torch.nn.Module, attribute: str) -> Place | None:
    """The only statement of a module's constructors that assigns one of its attributes."""
    bodies = (body for body in methods_of(type(module)) if body.name == "__init__")
    return only(place for body in bodies for place in assignments(body, f"self.{attribute}"))


def _common(names: Sequence[str]) -> str:
    """The beginning that dotted names share: `model.encoder` of its weight and bias."""
    parts = [name.split(".") for name in names]
    shared = next((k for k, each in enumerate(zip(*parts, strict=False)) if len(set(each)) > 1), min(map(len, parts)))
    return ".".join(parts[0][:shared])
