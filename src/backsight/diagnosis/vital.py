"""BS115, BS116, BS118, BS119: what the vital signs of a training say, with the line of the program that does it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch import nn

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, backward_calls, function_at
from backsight.source.body import body_around, callee, dotted, expressions, functions, statements
from backsight.tracing import Severed
from backsight.tracing.steps import parameters

CODES = ("BS115", "BS116", "BS118", "BS119")

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)

_MOST_FRAMES = 64


def nothing_arrives(
    optimizer: torch.optim.Optimizer,
    since: int,
    *,
    frame: FrameType | None,
    reached: bool = False,
    cut: Finding | None = None,
    others: Sequence[str] = (),
    backwards: bool = True,
) -> Finding:
    """Return the finding that an optimizer gets no gradients.

    reached: whether the loss depends on its parameters. cut: what cuts them off from it. others: the parameters that
    the loss depends on, and no optimizer holds. backwards: whether a backward was seen at all.
    """
    name = named(optimizer, "the optimizer")
    held = parameters(optimizer)
    fix, evidence, source = "", [], None
    if held and not any(p.requires_grad for p in held):
        evidence.append(f"All of its parameters are frozen: {_names(held)} have requires_grad=False.")
        fix = "Call requires_grad_(True) on what is to be trained, before the forward pass."
    elif reached:
        zeroing = _zeroing(frame)
        if zeroing is not None:
            evidence.append(
                "The loss depends on its parameters, and after backward() their gradients are zeroed again."
            )
            evidence.append(shown(zeroing, "zeroes the gradients between backward() and step()."))
            source = str(zeroing)
            fix = f"Call {name}.zero_grad() before backward(), not between backward() and {name}.step()."
        else:
            evidence.append("The loss depends on its parameters, but when it steps their gradients are zeros, or gone.")
            fix = "Look for what zeroes them: a factor of 0, units that are all dead, zero_grad() after backward()."
    elif cut is not None:
        evidence += cut.evidence
        source, fix = cut.source, cut.fix.partition(" if they are to learn")[0] + "."
    elif others:
        evidence.append(
            f"It holds {_names(held)}; the loss depends on {listed(list(others), 2)}, which no optimizer holds."
        )
        made = next(constructions(frame, name), None)
        if made is not None:
            evidence.append(shown(made, "gives it the parameters of something else than what is trained."))
            source = str(made)
        model = others[0].partition(".")[0]
        fix = f"Make {name} after the last change of {model}, with {model}.parameters()."
    elif not backwards:
        evidence.append("No backward() was run.")
        fix = f"Call loss.backward() before {name}.step(); with a closure, inside of it, before it returns the loss."
        closure = _closure(frame)
        if closure is not None:
            evidence.append(shown(closure, "is called for each step, and never runs backward()."))
            source = str(closure)
    else:
        evidence.append(f"No path leads from any loss to {_names(held)}.")
        fix = (
            "Look between their result and the loss for .detach(), .data, .item(), torch.no_grad(), or a result that "
            "is dropped."
        )
    return Finding(
        "BS115",
        "warning",
        f"{name} gets no gradients: none of its {counted(len(held), 'parameter')} is trained.",
        (f"None has come since step {since:,}.", *evidence),
        fix,
        source=source,
    )


def untrained_mode(
    model: torch.nn.Module, modal: Sequence[type], since: int, trained: bool, frame: FrameType
) -> Finding | None:
    """Return the finding that a model is trained in evaluation mode; None where that may be meant.

    A model that was never in training mode is left so on purpose where the training itself does it.
    """
    name = named(model, type(model).__name__)
    found = list(_evaluations(frame))
    aside = [(place, inside) for place, inside in found if inside not in _running(frame)]
    if not trained and not aside:
        return None
    kinds = listed(list(dict.fromkeys(each.__name__ for each in modal)), 3)
    place, inside = (aside or found)[0] if found else (None, "")
    evidence = [f"{kinds}: {' and '.join(dict.fromkeys(map(_in_evaluation, modal)))}."]
    if place is not None:
        one = "turns evaluation mode on" if len(found) == 1 else "may be what turns evaluation mode on"
        evidence.append(shown(place, f"{one}, and training mode is not turned on again."))
    return Finding(
        "BS116",
        "warning",
        f"{name} is trained in evaluation mode since step {since:,}.",
        tuple(evidence),
        f"Call {name}.train() at the start of each epoch"
        + (f", after {inside}()." if inside else ", after evaluating."),
        source=str(place) if place is not None else None,
        exact=place is None or len(found) == 1,
    )


def _in_evaluation(kind: type) -> str:
    normalizes = issubclass(kind, BATCH_NORMS)
    return "the running statistics are used, and learn nothing" if normalizes else "nothing is dropped"


def faded(optimizer: torch.optim.Optimizer, peak: float, rate: float, since: int, frame: FrameType) -> Finding:
    """Return the finding that the learning rate has decayed to nothing."""
    name = named(optimizer, "the optimizer")
    found = search((), collect=(torch.optim.lr_scheduler.LRScheduler,))
    of = [s for s, _ in found.found if namespace(s) is not None and (namespace(s) or {}).get("optimizer") is optimizer]
    kind = type(of[0]).__name__ if of else "the schedule"
    called = named(of[0], "") if of else ""
    steps = [
        body.place(s) for body, s, call in _calls(frame) if called and _method(call) == (called.split(".")[-1], "step")
    ]
    evidence = [f"It was {peak:.3g} and is {rate:.3g}: since step {since:,} no step moves anything."]
    if len(steps) == 1:
        evidence.append(shown(steps[0], f"steps the {kind}."))
    return Finding(
        "BS118",
        "warning",
        f"The learning rate of {name} has decayed to nothing.",
        tuple(evidence),
        f"Make {kind} last as long as the training: it counts its own steps, so where it is meant per epoch, call "
        "its step() after each epoch, not after each batch.",
        source=str(steps[0]) if len(steps) == 1 else None,
    )


def _method(call: ast.Call) -> tuple[str, str]:
    """Return the last name of what a method is called on, and the method."""
    receiver, method = callee(call)
    return (dotted(receiver) or "").split(".")[-1], method


def made_anew(optimizer: torch.optim.Optimizer, times: int, steps: int, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that an optimizer with a state is made anew again and again."""
    name = named(optimizer, "the optimizer")
    if not _has_state(optimizer):
        return None
    each = steps / max(times, 1)
    made = next(constructions(frame, name), None)
    evidence = [
        f"{times + 1} of them trained the same parameters one after the other, each for {each:.0f} "
        f"step{'s' * (round(each) != 1)}: momentum and averages begin at zero each time."
    ]
    if made is not None:
        evidence.append(shown(made, "runs each time."))
    return Finding(
        "BS119",
        "warning" if each < 3 else "note",
        f"{name} is made anew all the time, and forgets its state.",
        tuple(evidence),
        f"Make {name} once, before the loop.",
        source=str(made) if made is not None else None,
    )


_WHY = {
    "detach": "detach cuts the tensor off from the graph that made it",
    "data": ".data has no gradient",
    "no_grad": "it runs with gradients disabled",
    "inference": "it runs in inference mode",
    "integer": "its result is of integers or truth values, which have no gradient",
    "not differentiable": "it has no gradient",
    "item": "a number of Python has no gradient",
    "numpy": "an array has no gradient",
    "rewrapped": "it makes a new tensor of the values alone",
    "frozen": "nothing that it is given requires a gradient",
}


def ends(cut: Severed) -> str:
    """Say that a gradient ends at a cut, and why."""
    return f"ends the gradient at {cut.op.lstrip('.')}: {_WHY[cut.by]}."


def where(cut: Severed) -> Place | None:
    """Return the statement to look at: of what runs with gradients disabled, the one that disables them."""
    if cut.line is None:
        return None
    place = cut.line.place
    body = body_around(place.file, place.line) if cut.by in ("no_grad", "inference") else None
    if body is None:
        return place
    for decorator in getattr(body.node, "decorator_list", []):
        if _disables(decorator):
            return body.place(decorator, f"@{body.text(decorator)}")
    around = [
        each
        for each in statements(body.node)
        if isinstance(each, ast.With)
        and each.lineno <= place.line <= (each.end_lineno or 0)
        and any(_disables(item.context_expr) for item in each.items)
    ]
    return body.place(around[-1]) if around else place


def _disables(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return (dotted(called) or "").split(".")[-1] in ("no_grad", "inference_mode", "set_grad_enabled")


def undoing(cut: Severed) -> str:
    """Say what takes a cut back."""
    if cut.by in ("no_grad", "inference"):
        return "Compute it with gradients enabled, outside of torch.no_grad()"
    if cut.by in ("detach", "data"):
        return f"Remove .{cut.op.lstrip('.')}{'()' if cut.by == 'detach' else ''}"
    if cut.by == "integer" or cut.by == "not differentiable":
        return f"Use something that is differentiable in place of {cut.op}"
    return f"Compute it with tensors, without {cut.op}"


def named(held: object, otherwise: str) -> str:
    """Return what the program calls an object."""
    names = search([held]).names[0]
    return next((name.path for name in names if name.path != "self"), otherwise)


def _names(tensors: Sequence[torch.Tensor]) -> str:
    found = [n[0].path if n else "" for n in search(tensors[:2], limit=1).names]
    if not all(found) or any("param_groups[" in path for path in found):
        return f"{counted(len(tensors), 'parameter')} that nothing else holds any more"
    return listed([*found, *[""] * len(tensors[2:])], 2)


def _has_state(optimizer: torch.optim.Optimizer) -> bool:
    state: Any = object.__getattribute__(optimizer, "__dict__").get("state", {})
    return any(isinstance(v, torch.Tensor) and v.dim() for held in list(state.values())[:1] for v in held.values())


def program_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the program from `frame` outwards."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        file = frame.f_code.co_filename
        if not is_ours(file) and not is_library(file):
            yield frame
        frame = frame.f_back


def _running(frame: FrameType) -> set[str]:
    """Return the names of the functions that lead to the step."""
    return {each.f_code.co_name for each in program_frames(frame)} - {"<module>"} | {""}


def _bodies(frame: FrameType | None) -> Iterator[Body]:
    """Yield the functions and modules of the program's files from which the step is called."""
    files = dict.fromkeys(each.f_code.co_filename for each in program_frames(frame))
    for file in files:
        yield from functions(file)


def _calls(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    for body in _bodies(frame):
        for statement in statements(body.node):
            for node in expressions(statement):
                if isinstance(node, ast.Call):
                    yield body, statement, node


def _evaluations(frame: FrameType) -> Iterator[tuple[Place, str]]:
    """Yield the statements that turn evaluation mode on, each with the name of the function that it stands in."""
    for body, statement, call in _calls(frame):
        receiver, method = callee(call)
        off = method == "train" and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
        if receiver is not None and ((method == "eval" and not call.args) or (off and call.args[0].value is False)):  # type: ignore[attr-defined]
            yield body.place(statement), getattr(body.node, "name", "")


def constructions(frame: FrameType | None, name: str) -> Iterator[Place]:
    """Yield the statements that bind `name` to the result of a call, the function that runs first."""
    last = name.split(".")[-1]
    for body in _bodies(frame):
        for statement in statements(body.node):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                targets = [each for t in statement.targets for each in (t.elts if isinstance(t, ast.Tuple) else [t])]
                if any((dotted(target) or "").split(".")[-1] == last for target in targets):
                    yield body.place(statement)


def _zeroing(frame: FrameType | None) -> Place | None:
    """Return the zero_grad() between backward and step, in the innermost function that has one."""
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is None:
            continue
        began = max((p.line for p in backward_calls(body) if p.line <= each.f_lineno), default=0)
        found = [
            body.place(statement)
            for statement in statements(body.node)
            if began <= statement.lineno <= each.f_lineno
            for node in expressions(statement)
            if isinstance(node, ast.Call) and callee(node)[1] == "zero_grad"
        ]
        if found:
            return found[-1]
    return None


def _closure(frame: FrameType | None) -> Place | None:
    """Return the function of the program that is given to the step."""
    given = {dotted(call.args[0]) for _, _, call in _calls(frame) if callee(call)[1] == "step" and len(call.args) == 1}
    for body in _bodies(frame):
        if isinstance(body.node, ast.FunctionDef) and body.node.name in given:
            return body.place(body.node)
    return None
