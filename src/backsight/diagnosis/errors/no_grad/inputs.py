"""`autograd.grad` was asked for the gradient of a tensor that requires none: an input, a constant derivative."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from typing import Literal

import torch

from backsight.diagnosis.errors.gradient_call import POSITIONS, GradientCall, gradient_call, gradient_calls
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import differentiated, names_of, passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, listed, shown
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Cut, Place, assignments, cuts
from backsight.source.bindings import bound, spots, uses
from backsight.source.body import functions, is_constant, keyword, read_at
from backsight.source.edits import on_line, put, sentence, without_marks
from backsight.story.cuts import CutOff, unrecorded, unrecorded_in, why
from backsight.story.failure import Failure, Level
from backsight.story.handed import Handed, handed
from backsight.story.memory import is_tensor, needs_gradient


def input_without_grad(failure: Failure) -> Finding:
    """Name the inputs that do not require grad, and where they were made."""
    written = differentiated(failure)
    if len(written) != len(failure.inputs):
        written = names_of(failure, failure.inputs)
    known = {id(each): handed(failure, each) for each in failure.inputs}
    bare = [
        (found.name if (found := known[id(t)]) and found.given else name or f"a {described(t)}", t)
        for name, t in zip(written, failure.inputs, strict=True)
        if isinstance(t, torch.Tensor) and not t.requires_grad
    ]
    called = [name for name, _ in bare]
    first = called[0] if called else "x"
    found = known[id(bare[0][1])] if bare else None
    verb = "does" if len(called) == 1 else "do"
    cut = _cut(found, first)
    outer = None if found is None or found.assigned or found.given else _enclosing(found)
    call = f"{first}.requires_grad_()" if len(bare) == 1 and _PATH.fullmatch(first) else ""
    behind = unrecorded_in(failure, found.level, found.name, bare[0][1]) if found is not None and not cut else iter(())
    block = next(behind, None)
    if cut is not None:
        evidence: list[Fact] = [shown(cut.place, f"{why(cut)}.")]
    else:
        evidence = [*_unrecorded(block, found, outer)] if block is not None and found else _made(found, first, outer)
    evidence += passed(found)
    if failure.user:
        asked = [name for name, t in zip(written, failure.inputs, strict=True) if any(t is each for _, each in bare)]
        evidence.append(shown(failure.user.place, f"asks for the gradient with respect to {listed(asked) or 'it'}."))
    return explanation(
        f"{listed(called) or 'An input of autograd.grad()'} {verb} not require grad, so nothing was recorded for "
        f"{'it' if len(called) == 1 else 'them'}.",
        evidence,
        _recorded(failure, cut, first, several=len(bare) > 1)
        or f"Call {first}.requires_grad_() {_where(found, outer, call)}; the forward pass must come after that.",
        source=cut.place if cut else (found and (found.assigned or found.given or outer)) or failure.source,
        exact=bool(bare) and (block is None or block.seen),
    )


def _recorded(failure: Failure, cut: Cut | None, name: str, *, several: bool) -> str:
    """Keep the graph of an input that is a derivative, with create_graph=True where that was taken; and differentiate
    it, where a program asks for the opposite, the gradient of what it was taken of."""
    taken = next(gradient_calls(*read_at(cut.place)), None) if cut and cut.kind == "gradient" else None
    given = keyword(taken.node, "create_graph") if taken is not None else None
    if taken is None or (given is not None and not is_constant(given, False)):
        return ""
    flagged = taken.flagged("create_graph")
    first = f"Keep the graph of {name}: {on_line(taken.place, flagged) or 'give autograd.grad create_graph=True'}"
    asking = gradient_call(failure.user)
    if asking is None or several or asking.body.node is not taken.body.node or asking.body.file != taken.body.file:
        return f"{first}."
    of, wanted = asking.outputs, asking.input
    is_same = of is not None and taken.outputs is not None and taken.body.text(taken.outputs) == asking.body.text(of)
    anew = assignments(asking.body, asking.body.text(of), before=asking.place.line) if of is not None else ()
    if not is_same or of is None or wanted is None or any(each.line > taken.place.line for each in anew):
        return f"{first}."
    was, text = asking.body.text(of), asking.body.text(wanted)
    swapped = _swapped(taken, asking, of, wanted)
    why = f"{text} is computed from {was}, not {was} from {text}"
    if not swapped or not flagged:
        x = taken.body.text(taken.inputs) if taken.inputs is not None else "its input"
        how = f"differentiate {text} with respect to {x}"
        return f"{without_marks(first)}. On line {asking.place.line}, {how}: {why}."
    return f"{first}. Differentiate {text}: {on_line(asking.place, swapped)}, because {why}."


def _swapped(taken: GradientCall, asking: GradientCall, of: ast.expr, wanted: ast.expr) -> str:
    """The statement that differentiates the derivative, by what that was taken for; empty where it has no weights."""
    source, weights = taken.input, asking.weights
    if source is None or weights is None:
        return ""
    read = [each for each in ast.walk(weights) if ast.dump(each) == ast.dump(of)] if weights is not None else []
    if weights is not None and not read:
        return ""
    inputs = asking.inputs or wanted
    memo: dict[int, ast.AST] = {id(inputs): source, id(of): wanted, **{id(each): wanted for each in read}}
    new = copy.deepcopy(asking.node, memo)
    if keyword(new, "create_graph") is None and len(new.args) <= POSITIONS:
        new.keywords.append(ast.keyword("create_graph", ast.Constant(True)))
    return asking.rewritten({asking.node: ast.unparse(new)})


def _enclosing(found: Handed) -> Place | None:
    """Where the function around the running one gives the variable its value, for one that an inner function reads."""
    body, code = found.level.body, found.level.frame.f_code
    if body is None or found.name not in code.co_freevars:
        return None
    line = body.node.lineno if isinstance(body.node, ast.FunctionDef) else found.level.line
    around = [
        each for each in functions(body.file) if isinstance(each.node, ast.FunctionDef) and each.node is not body.node
    ]
    inside = [each for each in around if each.node.lineno <= line <= (each.node.end_lineno or 0)]  # type: ignore[union-attr]
    places = [places[-1] for each in inside if (places := assignments(each, found.name))]
    return places[-1] if places else None


_PATH = re.compile(r"[\w.]+(\[\w+\])*")


def _where(found: Handed | None, outer: Place | None, call: str) -> str:
    """Before anything is computed from it: in the function that has the variable."""
    made = outer or (found.assigned if found is not None else None)
    if made is not None:
        return f"below line {made.line}, {made.text}{put(call, 'below', made)}"
    if found is None or found.given is None:
        return "before computing anything from it"
    return f"before line {found.level.line}, {found.level.place.text}{put(call, 'above', found.level.place)}"


def _cut(found: Handed | None, name: str) -> Cut | None:
    level = found.level if found else None
    every = cuts(level.body, name, level.line) if level else ()
    return every[0] if every else None


def _unrecorded(block: CutOff, found: Handed, outer: Place | None) -> Iterator[Fact]:
    """The block in which it was computed, what would have computed it anew below, and the variable that got it."""
    name, section = found.name, block.section
    certainty: Literal["read"] | None = None if block.seen else "read"
    yield shown(block.cut.place, "disables gradients for what is computed inside.", certainty)
    inside = {each for statement in unrecorded(section, block.cut) for each in bound(statement)}
    last = getattr(block.statement, "end_lineno", 0) or 0
    for spot in spots(section.body.node):
        anew = [arm for arm, label in spot.arms if isinstance(arm, ast.If) and label == "body" and arm.lineno > last]
        if last and anew and inside & bound(spot.node):
            yield shown(
                section.body.place(anew[-1]), f"did not hold, so line {spot.node.lineno} has not run.", certainty
            )
            break
    if (assigned := found.assigned or outer) is not None:
        yield shown(assigned, f"assigns the result to {name}.")


def _made(found: Handed | None, name: str, outer: Place | None) -> list[Fact]:
    place = (found.made if found else None) or outer
    if found is None or place is None:
        return []
    lines: list[Fact] = [shown(place, "creates it without requires_grad=True.")]
    here = found.assigned
    return lines if here is None or here == place else [*lines, shown(here, f"assigns it to {name}.")]


# A derivative that is the same for every input: it has no graph, whatever was asked for.


def constant_derivative(scene: Scene) -> Finding | None:
    """What is differentiated again was itself taken with create_graph=True, of what has a graph."""
    failure = scene.failure
    for name, known in _derivatives(scene) if failure.call == "grad" else ():
        call, of = next(gradient_calls(*read_at(known.made)), None), _differentiated(known)
        if call is None or of is None or not is_constant(keyword(call.node, "create_graph"), True):
            continue
        if any(node.kind == "custom" for node in survey((of[1],), frames=failure.frames).graph.nodes):
            continue
        made = handed(failure, of[1])
        outer = made.name if made else of[0]
        here = failure.user is not None and known.made == failure.user.place
        taken = (known.assigned if here else None) or known.made or call.place
        return explanation(
            scene.title(f"the derivative of {outer} is a constant"),
            (
                shown(made.made, f"computes {outer}.") if made and made.made else None,
                shown(taken, f"takes the derivative of {outer}. It is the same for every input, so it has no graph."),
                *passed(known),
                *failing(failure, "takes its derivative, which is zero."),
            ),
            _zeros(scene, name),
            source=taken,
        )
    return None


def _derivatives(scene: Scene) -> Iterator[tuple[str, Handed]]:
    """What the failing line differentiates, or computes that from, with the name that it has there."""
    level, receiver = scene.failure.user, None if scene.failure.user is None else scene.failure.user.receiver
    if level is None or receiver is None:
        return
    read = [use.name for use in uses(ast.parse(receiver, mode="eval")) if not use.binds]
    held = [(name, value) for name in dict.fromkeys(read) if is_tensor(value := level.value(name))]
    if held and not any(needs_gradient(value) for _, value in held):
        found = ((name, handed(scene.failure, value)) for name, value in held)
        yield from ((name, known) for name, known in found if known is not None)


def _differentiated(known: Handed) -> tuple[str, torch.Tensor] | None:
    """What such a derivative was taken of, in the function that has a variable for it: its only tensor with a graph."""
    level: Level = known.level
    statement = read_at(known.assigned)[1]
    names = dict.fromkeys(use.name for use in uses(statement) if not use.binds) if statement is not None else ()
    values = [(name, value) for name in names if is_tensor(value := level.value(name)) and value.grad_fn is not None]
    return values[0] if len(values) == 1 else None


def _zeros(scene: Scene, name: str) -> str:
    """The failing statement, with zeros where its derivative is a constant."""
    inputs, call = differentiated(scene.failure), gradient_call(scene.failure.user)
    if call is None or not inputs:
        return f"Where {name} does not require grad, use zeros for its derivative."
    body, statement, place, part = call.body, call.statement, call.place, call.taken
    value, zeros = getattr(statement, "value", None), [f"torch.zeros_like({each})" for each in inputs]
    is_first = part is not None and body.text(part.slice) == "0" and len(zeros) == 1
    if part is not None and is_first and id(part) == id(value):
        if isinstance(statement, ast.Return):
            early = f"if not {name}.requires_grad: return {zeros[0]}"
            return f"Above line {place.line}, put `{early}`{put(early, 'above', place)}."
        other = zeros[0]
        line = call.rewritten({part: f"{body.text(part)} if {name}.requires_grad else {other}"})
    else:
        other = f"({', '.join(zeros)},)"
        new = f"{body.text(call.node)} if {name}.requires_grad else {other}"
        line = call.rewritten({call.node: new if value is call.node else f"({new})"})
    if line and "…" not in line:
        return f"{sentence(on_line(place, line))}."
    return f"Where {name}.requires_grad is False, use {other} instead of the result of line {place.line}."
