"""The reasons why a loss has no history, each as a finding, or None where it is another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.no_grad.fixes import fix, leaves_pytorch
from backsight.diagnosis.errors.no_grad.frontier import lost_in_call
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.no_grad.sources import Sources
from backsight.diagnosis.errors.no_grad.suspects import Suspect, why
from backsight.diagnosis.evidence.spoken import passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shaped, shown
from backsight.naming.roots import is_library
from backsight.source import Body, Place, function_at
from backsight.source.bindings import spots, uses
from backsight.source.body import body_around, callee, dotted, expressions, is_constant, statements
from backsight.source.cut_rules import FROZEN, rule_of
from backsight.source.definitions import definitions
from backsight.story.failure import function_of
from backsight.story.handed import handed
from backsight.story.sections import methods_of, undecorated

CODE = "BS203"
_SWITCHED_OFF = (
    "torch.is_grad_enabled() is False as this is explained, so some code disabled gradients and never re-enabled them."
)
_PLAIN = re.compile(r"[\w.]+ = torch\.\w+\(.*[^,(]\)")
_INITIAL = re.compile(r"torch\.(zeros|ones|full|empty)\(")


def switched_off(scene: Scene) -> Finding | None:
    """`torch.set_grad_enabled(False)` was called and is still in force."""
    if torch.is_grad_enabled():
        return None
    place = next(_switches(scene), None)
    off = shown(place, "switches them off for everything that follows.") if place else _SWITCHED_OFF
    return Finding(
        CODE,
        "error",
        scene.title("gradients are switched off in the whole program"),
        (off, *_fails(scene)),
        "Call torch.set_grad_enabled(True) before training, or use `with torch.no_grad():` around what only evaluates, "
        "which ends by itself.",
        source=str(place) if place else scene.failure.source,
        exact=place is not None,
    )


def cut_off(scene: Scene) -> Finding | None:
    """A statement turned a tensor that has a history into one that has none."""
    proven = [suspect for suspect in scene.suspects if suspect.verdict]
    if not proven:
        return None
    if lost_in_call(scene.failure, scene.trained):
        called = [suspect for suspect in scene.suspects if suspect.section.level is None]
        inside = next((suspect for suspect in called if suspect.verdict is not False), None)
        if inside is not None:
            return _finding(scene, inside, [inside])
    cutting = [suspect for suspect in proven if suspect.cut.kind != "no_grad"]
    return _finding(scene, (cutting or proven)[0], proven)


def cut_as_seen(scene: Scene) -> Finding | None:
    """A watch has seen where the history ended."""
    return _finding(scene, scene.seen[0], scene.seen) if scene.seen else None


def likely(scene: Scene) -> Finding | None:
    """A statement cuts histories off, and nothing speaks against it."""
    possible = [suspect for suspect in scene.suspects if suspect.verdict is None and suspect.cut.kind != "frozen"]
    return _finding(scene, possible[0], possible[:1]) if possible else None


def frozen(scene: Scene) -> Finding | None:
    """The modules that computed the loss have parameters, and none of them requires grad."""
    found = scene.sources
    if not found.are_frozen or found.require_grad:
        return None
    names, count = list(found.modules), len(found.parameters)
    frozen_at = _frozen_at(scene, names)
    model = listed(names, 3)
    return Finding(
        CODE,
        "error",
        scene.title(
            f"none of the {counted(count, 'parameter')} of {model} does" if count > 1 else f"{model} is frozen"
        ),
        (
            *((shown(frozen_at, "turns it off."),) if frozen_at else ()),
            f"{model}: requires_grad is False for {'all ' if count > 1 else 'its '}{counted(count, 'parameter')}.",
            *_fails(scene),
        ),
        f"Unfreeze what is to be trained: {names[0]}.requires_grad_(True), or only a part of it. If the gradient of an "
        "input is wanted, call x.requires_grad_() on it before the forward pass.",
        source=str(frozen_at) if frozen_at else scene.failure.source,
    )


def nothing_requires_grad(scene: Scene) -> Finding | None:
    """The tensors that the loss was computed from are plain data."""
    found = scene.sources
    if not found.tensors or found.require_grad or found.parameters:
        return None
    names = [source.name for source in found.tensors]
    return Finding(
        CODE,
        "error",
        scene.title(f"it is computed from {listed(names, 4)}, and {_none(len(names))}"),
        (*_tensors(found), *_fails(scene)),
        f"Ask for the gradient of what is to be learnt where it is made: {_asking(scene, found)}.",
        source=scene.failure.source,
        exact=False,
    )


def _frozen_at(scene: Scene, modules: list[str]) -> Place | None:
    """The statement that turned requires_grad off, in a function that is still there or in a method of the class."""
    for level in scene.failure.users:
        for name in modules:
            owner, _, attribute = name.rpartition(".")
            bodies = [(level.body, name)] if level.body else []
            bodies += [(body, f"self.{attribute}") for body in methods_of(type(level.value(owner)))] if owner else []
            place = next((place for body, variable in bodies for place in _freezing(body, variable)), None)
            if place is not None:
                return place
    return next((place for name in modules for place in _frozen_where_made(scene, name)), None)


def _frozen_where_made(scene: Scene, module: str) -> Iterator[Place]:
    """The statements of the function that made the module, or of one that it was given to, which freeze parameters."""
    for level in scene.failure.users:
        for each in statements(level.body.node) if level.body else ():
            if not any(use.name == module for use in uses(each)):
                continue
            for call in (node for node in expressions(each) if isinstance(node, ast.Call)):
                function = undecorated(function_of(level.value(dotted(call.func) or "")))
                body = function_at(function.__code__) if type(function).__name__ == "function" else None
                if body is not None and not is_library(body.file):
                    yield from (body.place(inner) for inner in statements(body.node) if _freezes(inner))


def _freezes(statement: ast.stmt) -> bool:
    """Whether a statement is `p.requires_grad = False`, or calls `.requires_grad_(False)`."""
    if isinstance(statement, ast.Assign) and is_constant(statement.value, False):
        return any(isinstance(each, ast.Attribute) and each.attr == "requires_grad" for each in statement.targets)
    calls = (node for node in expressions(statement) if isinstance(node, ast.Call))
    return any(callee(c)[1] == "requires_grad_" and c.args and is_constant(c.args[0], False) for c in calls)


def _freezing(body: Body, name: str) -> Iterator[Place]:
    for spot in spots(body.node):
        for each in definitions(spot, name):
            if each.freezes or any(rule_of(value) is FROZEN for value in each.values):
                yield body.place(spot.node)


def _asking(scene: Scene, found: Sources) -> str:
    """The statement that makes the tensor to be learnt, with the request for a gradient added."""
    owned = scene.trained.owned or frozenset()
    made = [source for source in found.tensors if source.made and _PLAIN.fullmatch(source.made.text)]
    best = next((source for source in made if id(source.tensor) in owned), None)
    best = best or next((source for source in made if source.made and _INITIAL.search(source.made.text)), None)
    if best is None or best.made is None:
        return "w = torch.zeros(3, requires_grad=True), or w.requires_grad_() before anything is computed from w"
    return f"{best.made.text[:-1]}, requires_grad=True)"


def _none(number: int) -> str:
    return {1: "it does not either", 2: "neither does"}.get(number, "none of them does")


def _tensors(found: Sources) -> Iterator[str]:
    for source in found.tensors[:4]:
        what = f"makes {source.name} ({shaped(source.tensor.shape)}), which does not require grad."
        yield shown(source.made, what) if source.made else f"{source.name}{what.removeprefix(f'makes {source.name}')}"


def _finding(scene: Scene, suspect: Suspect, all_of_them: list[Suspect]) -> Finding:
    others = [each.cut.place for each in all_of_them if each is not suspect]
    culprit = suspect.behind if suspect.behind and leaves_pytorch(suspect.behind) else suspect
    held = bool(suspect.verdict) and suspect.section.level is not None
    seen = held or suspect.seen or any(scene.saw(place) for place in _places(suspect))
    return Finding(
        CODE,
        "error",
        scene.title(_because(culprit)),
        (
            *_steps(suspect),
            *_fails(scene),
            *((f"Other histories end at {listed([str(place) for place in others], 3)}.",) if others else ()),
            *(() if seen else (_from_text(suspect),)),
        ),
        fix(culprit, scene.loss),
        source=str(culprit.cut.place),
        exact=seen,
    )


def _from_text(suspect: Suspect) -> str:
    if suspect.section.level is not None:
        return "(Read from the source text: what the variables held then is not known.)"
    function = getattr(suspect.section.body.node, "name", "a function")
    return f"(Read from the source text of {function}(), which has returned.)"


def _places(suspect: Suspect) -> Iterator[Place]:
    """Where a watch may have seen that it happened."""
    yield suspect.cut.place
    yield from (place for place, _ in suspect.inside)
    if suspect.behind:
        yield from _places(suspect.behind)


def _because(suspect: Suspect) -> str:
    expression = suspect.cut.expression
    match suspect.cut.kind:
        case "no_grad" if suspect.seen and not suspect.inside:
            return f"{expression} ran while gradients were switched off"
        case "frozen":
            return f"{expression} ran on nothing that requires grad"
        case "no_grad" if not suspect.verdict:
            return f"something that it comes from was computed under {expression}, where nothing is recorded"
        case "no_grad":
            return f"it was computed under {expression}, where nothing is recorded"
        case "copy":
            return f"{expression} creates a new tensor, detached from the model"
    return f"{expression} cut it off from what is to be trained"


def _steps(suspect: Suspect) -> Iterator[str]:
    """What happened to the history, in the order in which it happened."""
    if suspect.behind:
        yield from _steps(suspect.behind)
    held = suspect.held.replace("what ", "What ", 1) if suspect.held.startswith("what ") else suspect.held
    weighed = suspect.operand and suspect.verdict and not suspect.seen
    had = f" {held} is attached to a graph; the result is not." if weighed else ""
    if suspect.cut.kind == "no_grad" and (suspect.inside or not suspect.seen):
        yield shown(suspect.cut.place, "records nothing of what is computed inside.")
        for place, name in suspect.inside[:2]:
            yield shown(place, f"stands inside, and uses {name or 'a tensor'}, which is to be trained.")
    else:
        yield shown(suspect.cut.place, f"{why(suspect.cut)}.{'' if suspect.behind else had}")


def _fails(scene: Scene) -> Iterator[str]:
    yield from passed(handed(scene.failure, scene.root))
    if scene.failure.user:
        yield shown(scene.failure.user.place, "finds nothing to go back through.")


def _switches(scene: Scene) -> Iterator[Place]:
    """The statements of the user's files that switch gradients off for good, those of a function that ran too."""
    for file in dict.fromkeys(level.frame.f_code.co_filename for level in scene.failure.users):
        module = body_around(file, 0)
        every = ast.walk(module.node) if module else ()
        yield from (module.place(each) for each in every if module and isinstance(each, ast.stmt) and _is_switch(each))


def _is_switch(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.With | ast.AsyncWith):
        return False
    calls = (node for node in expressions(statement) if isinstance(node, ast.Call))
    return any(callee(c)[1] == "set_grad_enabled" and c.args and is_constant(c.args[0], False) for c in calls)
