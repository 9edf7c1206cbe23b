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
from backsight.diagnosis.wording import listed, shaped, shown
from backsight.source import Place
from backsight.source.body import body_around, callee, expressions, is_constant
from backsight.story.handed import handed

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
        (off, *fails(scene)),
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
        (*_tensors(found), *fails(scene)),
        f"Ask for the gradient of what is to be learnt where it is made: {_asking(scene, found)}.",
        source=scene.failure.source,
        exact=False,
    )


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
            *fails(scene),
            *((f"Other histories end at {listed([str(place) for place in others], 3)}.",) if others else ()),
            *(() if seen else (_from_text(suspect),)),
        ),
        fix(culprit, scene.loss, _copied_later(scene, culprit)),
        source=str(culprit.cut.place),
        exact=seen,
    )


def _copied_later(scene: Scene, culprit: Suspect) -> Suspect | None:
    """The place where the numbers, kept in a list, were made into one tensor again."""
    if not culprit.seen or culprit.cut.kind not in ("detach", "number"):
        return None
    copies = (each for each in scene.suspects if each.cut.kind == "copy" and each.cut.place != culprit.cut.place)
    return next((each for each in copies if ".item()" in culprit.cut.expression), None)


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


def fails(scene: Scene) -> Iterator[str]:
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
