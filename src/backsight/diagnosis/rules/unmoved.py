"""BS113: a parameter gets gradients, its optimizer steps, and it never moves; or a scaler skips every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis.amending import divided, instead
from backsight.diagnosis.dropped import lost_update
from backsight.diagnosis.evidence.singular import Singular, kept_away, may_be_infinite
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, method_of
from backsight.diagnosis.scene import Scene, Site, rule
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place, calls_of, only
from backsight.source.body import body_around, callee, calls_in, dotted, functions, keyword, statements
from backsight.tape.rows import dtype_name
from backsight.tracing.moves import Unmoved
from backsight.tracing.steps import parameters

_HALVES = (torch.float16, torch.bfloat16)
_GRAVE = 0.5
"""The share of all values that never moved, from which on the title says that, and not which parameters stood still."""


@rule("BS113")
def unmoved(scene: Scene) -> Iterator[Finding]:
    """Under a watch: its values are the same to the last bit after six steps of its optimizer or more."""
    if scene.steps is None:
        return
    for name, optimizer in scene.involved().items():
        found = told_unmoved(name, optimizer, scene.steps.moves.unmoved(optimizer), scene.site[0])
        if found is not None:
            yield found


def told_unmoved(name: str, optimizer: torch.optim.Optimizer, still: Sequence[Unmoved], file: str) -> Finding | None:
    """Return what an optimizer does not move as a finding; None if there is nothing to say. `file` runs the training.

    That the last steps to a solution are too small for the type is no fault, so in single precision it has to be the
    learning rate, or something that puts the values back.
    """
    zero = [each for each in still if each.rate == 0.0]
    moving = [each for each in still if each.rate]
    rounded = [each for each in moving if each.parameter.dtype in _HALVES]
    reset = [each for each in moving if each.parameter.dtype not in _HALVES and not _is_too_small(each)]
    grave = zero or rounded or reset
    if not grave:
        return None
    names = [next((n.path for n in found), "a parameter") for found in search([e.parameter for e in grave[:4]]).names]
    made_half = converted(file, names) if grave is rounded else None
    evidence, fix, source = _reason(name, optimizer, grave[0], _set_rate(file) if grave is zero else None, made_half)
    which = listed([*names, *[""] * len(grave[4:])], 4)
    of = len(parameters(optimizer))
    whole, them = (names[0], "it") if len(grave) == 1 else (f"{len(grave)} of its {of} parameters", "them")
    if grave is rounded and len(grave) < of and grave[0].stuck >= _GRAVE:
        whole, them = f"{grave[0].stuck:.0%} of the values of its parameters", "them"
    return warning(
        "BS113",
        f"{name}.step() does not move {whole}.",
        (
            f"{which}: bit-identical in {counted(grave[0].steps, 'step')}, although the gradient is not zero (up to "
            f"{max(each.pull for each in grave):.2g}).",
            *evidence,
        ),
        fix.replace("{them}", them),
        source,
    )


def _is_too_small(each: Unmoved) -> bool:
    """Whether a step of plain descent would be lost in the rounding of the largest value."""
    scale = float(each.parameter.detach().abs().max())
    return each.rate * each.pull <= scale * torch.finfo(each.parameter.dtype).eps


def _reason(
    name: str, optimizer: torch.optim.Optimizer, first: Unmoved, zero: tuple[Place, ...] | None, made_half: Place | None
) -> tuple[tuple[Fact, ...], str, Place | None]:
    if zero is not None:
        says = ("sets it.", "divides whole numbers: // drops the fraction.")
        return (
            ("Its learning rate is 0.", *(shown(at, does) for at, does in zip(zero, says, strict=False))),
            f"Divide with / in place of //{divided(zero[-1])}."
            if len(zero) > 1
            else "Check the scheduler: an integer division in the warm-up, or a rate that decayed to 0. To freeze "
            "{them}, requires_grad_(False) saves the work.",
            zero[-1] if zero else None,
        )
    if first.parameter.dtype in _HALVES:
        return _rounded(first, made_half)
    moved = f"With a learning rate of {first.rate:.2g}, {name}.step() should have moved it"
    lost = lost_update(optimizer)
    if first.written and lost is None:
        return (
            (f"{moved}: something restores the old value.",),
            "Look for code that writes to {them} after the step: copy_(), load_state_dict(), a clamp, or weights that "
            "are computed from others.",
            None,
        )
    why = "its update is thrown away" if first.written else "nothing writes to it: its version counter does not change"
    return (
        (f"{moved}, but {why}.", *(lost.shown if lost else ())),
        lost.fix if lost else "Check that step() changes {them} in place: p.add_(), not p.add() nor p = p + ....",
        lost.place if lost else None,
    )


def _set_rate(file: str) -> tuple[Place, ...]:
    """Return the only statement that sets the rate of a group, and one that divides whole numbers for it, if any."""
    every = [(body, statement) for body in functions(file) for statement in statements(body.node)]
    found = [(body, each) for body, each in every if isinstance(each, ast.Assign) and any(map(_is_rate, each.targets))]
    if len(found) != 1:
        return ()
    body, setting = found[0]
    called = {callee(each)[1] for each in calls_in(setting)}
    floors = [
        other.place(each)
        for other, each in every
        if other.name in called and not hasattr(each, "body")
        if any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) for node in ast.walk(each))
    ]
    return (body.place(setting), *floors[:1])


def _is_rate(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == "lr"


def _rounded(first: Unmoved, made: Place | None) -> tuple[tuple[Fact, ...], str, Place | None]:
    kind = dtype_name(first.parameter.dtype)
    bits = 8 if first.parameter.dtype is torch.bfloat16 else 11
    evidence = (
        f"A {kind} has {bits} significant bits: with a learning rate of {first.rate:.2g} an update is smaller than the "
        "distance to the next number and is rounded away.",
        f"Of the sampled values of all its parameters that have a gradient, {first.stuck:.0%} never moved.",
        *((shown(made, f"makes the weights {kind}."),) if made is not None else ()),
    )
    keep = "Keep {them} in float32 and compute under torch.autocast, or use an optimizer with stochastic rounding."
    return evidence, keep, made


def converted(file: str, names: Sequence[str]) -> Place | None:
    """Return the one statement that makes these parameters half as precise: `model.bfloat16()`."""
    parts = {part for name in names for part in name.split(".")} | {"self"}
    return only(
        {
            body.place(statement)
            for body, statement, call in calls_of(file)
            if _halves(call) and (_owners(statement, call) & parts or callee(call)[1] == "set_default_dtype")
        }
    )


def _halves(call: ast.Call) -> bool:
    method = callee(call)[1]
    if method in ("bfloat16", "half"):
        return True
    given = [keyword(call, "dtype"), *(call.args if method in ("to", "set_default_dtype") else ())]
    return any(ending(dotted(each)) in ("bfloat16", "float16", "half") for each in given)


def _owners(statement: ast.stmt, call: ast.Call) -> set[str]:
    """Return what a statement converts, or binds the converted to, by the last part of its names."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [dotted(callee(call)[0]), *map(dotted, targets)]
    return {ending(name) for name in names if name}


_MASKED = "A factor of 0 after it does not help: 0 * infinity is NaN."

_USUAL = 2.0**16
"""The scale that a scaler begins with, if nothing is said. What is not finite below it is so whatever the scale."""


@dataclass(frozen=True)
class Scaled:
    """The scaler of a training, by what it is called, and the statement that lets it make a step."""

    name: str
    scale: float
    backoff: float
    step: Place | None


def scaled(site: Site) -> Scaled | None:
    """Return the only gradient scaler that is in use while the backward at this place runs."""
    found = [(each, name) for each, name in search((), collect=(torch.amp.GradScaler,)).found]
    held = [(each, name) for each, name in found if (namespace(each) or {}).get("_enabled")]
    if len(held) != 1:
        return None
    scaler, name = held[0]
    values = namespace(scaler) or {}
    scale, backoff = values.get("_init_scale"), values.get("_backoff_factor")
    if not isinstance(scale, int | float) or not isinstance(backoff, int | float):
        return None
    body, own = body_around(*site), ending(name.path)
    steps = (
        body.place(each)
        for each in statements(body)
        if body and any(method_of(call) == (own, "step") for call in calls_in(each))
    )
    return Scaled(name.path, float(scale), float(backoff), next(steps, None))


def _with_defaults(seen: Scaled) -> str:
    """Make the scaler without the options that say how its scale begins and changes."""
    file = seen.step.file if seen.step is not None else ""
    found = only(each for each in calls_of(file) if callee(each[2])[1] == "GradScaler") if file else None
    if found is None:
        return ""
    body, statement, call = found
    kept = [each for each in call.keywords if each.arg in ("device", "enabled")]
    given = [*map(body.text, call.args[:1]), *(f"{each.arg}={body.text(each.value)}" for each in kept)]
    return instead(body, statement, {call: f"{body.text(call.func)}({', '.join(given)})"})


def never_stepped(seen: Scaled, backwards: int, singular: Sequence[Singular] = ()) -> Finding:
    """Return the finding that no step was made; `singular` are the operations whose gradient may be infinite."""
    slow = seen.scale * seen.backoff**backwards > _USUAL
    possible = () if slow else singular
    fix = (
        f"Create {seen.name} with its defaults, torch.amp.GradScaler(){_with_defaults(seen)}: it begins with 65,536 "
        "and halves that until the gradients are finite."
        if slow
        else f"{kept_away(possible)}To be sure, run it with `backsight run --nonfinite`: it names the line that "
        "produces the first NaN."
        if len(possible) == 1
        else "Smaller scales did not help, so the gradients hold NaN or infinity by themselves: run it with "
        "`backsight run --nonfinite` to find the operation."
    )
    return warning(
        "BS113",
        f"No parameter moves: {seen.name} skipped every optimizer step.",
        (
            if_known(seen.step, "skips the step while a gradient is infinite or NaN."),
            *(shown(each.place, f"{may_be_infinite(each)} {_MASKED}") for each in possible),
            f"There were {backwards:,} backward passes or more, and no step.",
            f"It multiplies the loss by {seen.scale:,.0f} at first, and by {seen.backoff:g} times that after each step "
            "that it skips.",
        ),
        fix,
        possible[0].place if len(possible) == 1 else seen.step,
        exact=len(possible) != 1,
    )
