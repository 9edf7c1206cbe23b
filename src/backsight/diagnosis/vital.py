"""BS115, BS116, BS118, BS119, BS126, BS128, BS129, BS135: what vital signs say, with the line that does it."""

from __future__ import annotations

import ast
import gc
import math
import re
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, TypeGuard

import torch
from torch import nn

from backsight.diagnosis.evidence.copies import copied_anew
from backsight.diagnosis.evidence.disabled import disabled_by
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.naming.roots import is_ours, is_user
from backsight.snapshot import groups
from backsight.source import Body, Place, backward_calls, function_at
from backsight.source.bindings import target_names, uses
from backsight.source.body import (
    LOOPS,
    body_around,
    callee,
    dotted,
    expressions,
    functions,
    is_constant,
    keyword,
    statement_at,
    statements,
)
from backsight.tape import modules_in, parameters_in
from backsight.tracing import Severed
from backsight.tracing.steps import parameters

CODES = ("BS115", "BS116", "BS118", "BS119", "BS126", "BS128", "BS129", "BS135")

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)

_MOST_FRAMES = 64

_VANISHING = 0.02
"""The share of a weight that decay may take away in a step: usual are a thousandth and less."""


def nothing_arrives(
    optimizer: torch.optim.Optimizer,
    since: int,
    *,
    frame: FrameType | None,
    reached: bool = False,
    cut: Finding | None = None,
    beside: tuple[str, int] | None = None,
    filled: Severed | None = None,
    into: Sequence[str] = (),
    copied: Severed | None = None,
    copies: Sequence[str] = (),
    others: Sequence[str] = (),
    elsewhere: Sequence[str] = (),
    backwards: bool = True,
) -> Finding:
    """Return the finding that an optimizer gets no gradients.

    reached: whether the loss depends on its parameters. cut: what cuts them off from it. beside: where another loss,
    which the same statement cuts off, runs its backward. filled: what has given leaves of the loss, called `into`, the
    values of what was computed of its parameters. copied: what cuts leaves of the loss off from what they are copies
    of. copies: what those of them are called that stay from step to step. others: the parameters that the loss depends
    on, and no optimizer holds; elsewhere: those that another one holds. backwards: whether a backward was seen.
    """
    name = named(optimizer, "the optimizer")
    held = parameters(optimizer)
    evidence: list[Fact] = []
    fix, source = "", None
    if held and not any(p.requires_grad for p in held):
        evidence.append(f"All of its parameters are frozen: {_names(held)} have requires_grad=False.")
        fix = "Call requires_grad_(True) on what you want to train, before the forward pass."
    elif reached:
        zeroing = _zeroing(frame)
        if zeroing is not None:
            evidence.append("The loss depends on its parameters, but their gradients are zeroed after backward().")
            evidence.append(shown(zeroing, "zeroes the gradients between backward() and step()."))
            source = str(zeroing)
            fix = f"Call {name}.zero_grad() before backward(), not between backward() and {name}.step()."
        else:
            evidence.append("The loss depends on its parameters, but their gradients are zero or None when it steps.")
            fix = "Find what zeroes them: a factor of 0, dead units, or zero_grad() after backward()."
    elif filled is not None and filled.line is not None:
        source, model = str(filled.line.place), _owner(into or others)
        evidence.append(f"The loss depends on {listed(list(into), 2)}, which get only the values of a result.")
        evidence.append(
            shown(filled.line.place, f"copies the values without their graph: no gradient goes back to {_names(held)}.")
        )
        fix = (
            f"Compute with the result itself in place of the parameters of {model}: torch.func.functional_call("
            f"{model}, {_given(filled)}, (x,)), with a dict from their names to tensors."
        )
    elif cut is not None:
        evidence += cut.evidence
        source, fix = cut.source, cut.fix.partition(" if they should learn")[0] + "."
        kept = _kept_attached(cut) if beside is not None else None
        if kept is not None and beside is not None:
            variable, statement = kept
            fix = (
                f"Keep {variable} attached: {statement}. Detach it only for the other loss, whose backward runs at "
                f"{Place(*beside, '')} and would free its graph: pass {variable}.detach() there."
            )
    elif copied is not None and (place := where(copied)) is not None:
        evidence.append("The loss is computed with copies that are new leaves, so the gradient stops there.")
        evidence.append(shown(place, ends(copied)))
        source, fix = str(place), f"{undoing(copied)}, so the copies stay attached to the originals."
        if copies:
            parts = (each.partition("['") for each in copies)
            of = list(dict.fromkeys(f"{whole}.values()" if at else whole for whole, at, _ in parts))
            evidence[-1] = shown(place, "copies the parameters once into new leaves, which no optimizer holds.")
            fix = f"Create {name} after this line, from the copies: {listed(of, 3)}."
        again = _in_place(copied)
        if again is not None:
            variable, statement = again
            evidence[-2] = f"The loss is computed from the new {variable}; {name} still holds the one that it replaced."
            evidence[-1] = shown(place, f"replaces {variable} by a new leaf.")
            fix = f"Modify {variable} in place, so that {name} still holds it: with torch.no_grad(): {statement}."
    elif (copy := copied_anew(frame, held, [*others, *elsewhere], name)) is not None:
        place, original, variable = copy
        on = [each for each in (*others, *elsewhere) if each.split(".")[0] == variable]
        evidence.append(f"The loss depends on the copy, {listed(on, 2)}, and not on {_names(held)}.")
        evidence.append(shown(place, f"copies {original} each time it runs; gradients stay in the copy."))
        source = str(place)
        fix = (
            f"Compute from the parameters of {original} itself: dict({original}.named_parameters()), updated out of "
            f"place. Or copy the gradients over before {name}.step(), of several copies their sum: for p, q in "
            f"zip({original}.parameters(), {variable}.parameters()): p.grad = q.grad."
        )
    elif others:
        evidence.append(
            f"It holds {_names(held)}; the loss depends on {listed(list(others), 2)}, which no optimizer holds."
        )
        places = constructions(frame, optimizer, name)
        made = places[0] if len(places) == 1 else None
        if made is not None:
            evidence.append(shown(made, "passes it the parameters of something other than the trained model."))
            source = str(made)
        model = _owner(others)
        fix = f"Create {name} after the last change of {model}, with {model}.parameters()."
    elif not backwards:
        evidence.append("No backward() was run.")
        fix = f"Call loss.backward() before {name}.step(). With a closure, call it inside, before it returns the loss."
        closure = _closure(frame)
        if closure is not None:
            evidence.append(shown(closure, "is called for each step but never runs backward()."))
            source = str(closure)
    else:
        evidence.append(f"No path leads from any loss to {_names(held)}.")
        fix = (
            "Look between their output and the loss for .detach(), .data, .item(), torch.no_grad(), or an unused "
            "result."
        )
    return Finding(
        "BS115",
        "warning",
        f"{name} gets no gradients: none of its {counted(len(held), 'parameter')} is trained.",
        (f"There has been none since step {since:,}.", *evidence),
        fix,
        source=source,
        since=since,
    )


def _given(filled: Severed) -> str:
    """Return what the program calls the tensors that fill parameters: `weights` of `p.data = weights[name]`."""
    statement = _statement_of(filled)
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    if isinstance(value, ast.Call) and value.args:
        value = value.args[0]
    return (dotted(value.value) if isinstance(value, ast.Subscript) else None) or "weights"


def _kept_attached(cut: Finding) -> tuple[str, str] | None:
    """Return the variable that a statement detaches, `fake = net(z).detach()`, and the statement without that."""
    place = next((p for each in cut.evidence if (p := getattr(each, "place", None)) and str(p) == cut.source), None)
    body = body_around(place.file, place.line) if place is not None else None
    statement = statement_at(body, *place.position) if body is not None and place is not None else None
    match statement:
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(value=value, attr="detach")) as whole) if (
            not whole.args and (name := dotted(target)) is not None
        ):
            return name, f"{name} = {ast.unparse(value)}"
    return None


def untrained_mode(
    model: torch.nn.Module, modal: Sequence[type], since: int, trained: bool, frame: FrameType
) -> Finding | None:
    """Return the finding that a model is trained in evaluation mode; None where that may be meant.

    A model that was never in training mode is left so on purpose where the training itself does it; so is one for which
    a function turns evaluation mode on, and then runs all of this training.
    """
    name = named(model, type(model).__name__)
    found = list(_evaluations(frame))
    aside = [(place, inside) for place, inside in found if inside not in _running(frame)]
    if (not trained and not aside) or _meant(frame):
        return None
    kinds = listed(list(dict.fromkeys(each.__name__ for each in modal)), 3)
    place, inside = (aside or found)[0] if found else (None, "")
    evidence: list[Fact] = [f"{kinds}: {' and '.join(dict.fromkeys(map(_in_evaluation, modal)))}."]
    if place is not None:
        says = "turns on evaluation mode; training mode is never turned on again."
        evidence.append(shown(place, says, None if len(found) == 1 else "read"))
    return Finding(
        "BS116",
        "warning",
        f"{name} has been trained in evaluation mode since step {since:,}.",
        tuple(evidence),
        f"Call {name}.train() at the end of {inside}()." if inside else f"Call {name}.train() after evaluating.",
        source=str(place) if place is not None else None,
        exact=place is None or len(found) == 1,
        since=since,
    )


def _in_evaluation(kind: type) -> str:
    normalizes = issubclass(kind, BATCH_NORMS)
    return "running statistics are used but not updated" if normalizes else "dropout is off"


def faded(
    optimizer: torch.optim.Optimizer, steps_made: int, peak: float, rate: float, since: int, frame: FrameType
) -> Finding:
    """Return the finding that the learning rate has decayed to 0; `steps_made` by the optimizer so far."""
    name = named(optimizer, "the optimizer")
    of = schedules_of(optimizer)
    kind = type(of[0]).__name__ if of else "the schedule"
    steps = _steps_of(of[0], frame) if of else []
    evidence: list[Fact] = [f"It was {peak:.3g} and is now {rate:.3g}: since step {since:,} no step moves anything."]
    if len(steps) == 1:
        evidence.append(shown(steps[0], f"steps the {kind}."))
    counts = (namespace(each) or {} for each in of)
    counted = max((n for each in counts if type(n := each.get("last_epoch")) is int), default=0)
    often = round(counted / max(steps_made, 1))
    if often > 1:
        evidence.append(
            f"It was stepped {counted:,} times, and {name} {steps_made:,} times: {often} times for each step."
        )
    return Finding(
        "BS118",
        "warning",
        f"The learning rate of {name} has decayed to 0.",
        tuple(evidence),
        f"Step {kind} where {name}.step() is called, once for each. Or make it {often} times as long."
        if often > 1
        else f"Make {kind} last as long as the training. It counts its own steps: if you mean epochs, call its step() "
        "after each epoch, not after each batch.",
        source=str(steps[0]) if len(steps) == 1 else None,
        since=since,
    )


def counts_batches(
    optimizer: torch.optim.Optimizer, steps_made: int, peak: float, rate: float, since: int, frame: FrameType
) -> Finding | None:
    """Return the finding that a schedule has made the learning rate low early, as it is stepped once for each step of
    the optimizer, which stands in a loop over batches inside of one over epochs.
    """
    of = [each for each in schedules_of(optimizer) if _counted(each) >= 0.9 * steps_made]
    loops = _loops_around(frame)
    if not of or len(loops) < 2:
        return None
    kind, name, steps = type(of[0]).__name__, named(optimizer, "the optimizer"), _steps_of(of[0], frame)
    called = dotted(_receiver(frame, steps[0])) if len(steps) == 1 else None
    evidence: list[Fact] = [
        f"It was {peak:.3g}, and since step {since:,} it is at most 1% of that; at step {steps_made:,} it "
        f"was {rate:.3g}."
    ]
    if len(steps) == 1:
        evidence.append(shown(steps[0], f"steps the {kind} after each batch."))
    return Finding(
        "BS118",
        "warning",
        f"The learning rate of {name} decays too early: {kind} counts batches, not epochs.",
        tuple(evidence),
        f"Call {called or 'its'}{'.' if called else ' '}step() once after each epoch: at the end of the loop at line "
        f"{loops[1].line}, outside of the loop at line {loops[0].line}. If you mean batches, make {kind} decay over "
        "all batches of the training.",
        source=str(steps[0]) if len(steps) == 1 else None,
        since=since,
    )


def _counted(schedule: Any) -> int:
    """Return how many times a schedule was stepped, as it counts itself."""
    count = (namespace(schedule) or {}).get("last_epoch")
    return count if type(count) is int else 0


def _receiver(frame: FrameType, place: Place) -> ast.expr | None:
    """Return what the statement at a place calls step() of."""
    return next(
        (callee(c)[0] for b, s, c in calls_around(frame) if b.place(s) == place and callee(c)[1] == "step"),
        None,
    )


def _loops_around(frame: FrameType) -> list[Place]:
    """Return the loops in which the step is made, the innermost first, from function to function."""
    found = []
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is None:
            break
        inside = [s for s in statements(body.node) if isinstance(s, LOOPS)]
        around = [s for s in inside if s.lineno < each.f_lineno <= (s.end_lineno or 0)]
        found += [body.place(s) for s in sorted(around, key=lambda s: -s.lineno)]
    return found


def schedules_of(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the schedules of PyTorch's that are alive and drive an optimizer."""
    found = search((), collect=(torch.optim.lr_scheduler.LRScheduler,)).found
    return [each for each, _ in found if (namespace(each) or {}).get("optimizer") is optimizer]


def drives_another(schedule: Any, optimizer: torch.optim.Optimizer, since: int, frame: FrameType) -> Finding:
    """Return the finding that a schedule goes on for an optimizer which `optimizer` has replaced."""
    kind, name, called = type(schedule).__name__, named(optimizer, "the optimizer"), named(schedule, "")
    steps = _steps_of(schedule, frame)
    made = constructions(frame, optimizer, name)
    evidence: list[Fact] = [f"It has not stepped since step {since:,}, but {kind} still schedules it."]
    if len(steps) == 1:
        evidence.append(shown(steps[0], "steps the scheduler of the old one."))
    if made:
        evidence.append(shown(made[-1], f"creates the new {name.split('.')[-1]}."))
    return Finding(
        "BS128",
        "warning",
        f"{called or kind} drives an optimizer that {name} replaced: {name} has no scheduler.",
        tuple(evidence),
        f"Create a new {kind} where {name} is created. Or add the parameters to the old optimizer with "
        "add_param_group.",
        source=str(made[-1]) if made else None,
        since=since,
    )


def _owner(names: Sequence[str]) -> str:
    """Return what these parameters have in common, `self.model` of `self.model.0.weight` and `self.model.2.bias`."""
    paths = [name.split(".")[:-1] for name in names]
    same = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    return ".".join(same) or names[0].partition(".")[0]


def _steps_of(schedule: Any, frame: FrameType) -> list[Place]:
    """Return the statements of the program's files that may step a schedule, by any name that it has.

    A search for names ends at the first ones, and a callback may have another.
    """
    called = {name.path.split(".")[-1] for name in search([schedule]).names[0]}
    holding = ((each if type(each) is dict else namespace(each) or {}) for each in gc.get_referrers(schedule))
    called |= {key for each in holding for key, value in list(each.items()) if value is schedule and type(key) is str}
    return [
        body.place(s) for body, s, call in calls_around(frame) if _method(call) in {(name, "step") for name in called}
    ]


def shrinking(optimizer: torch.optim.Optimizer, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that weight decay alone makes the weights of an optimizer vanish within some tens of steps."""
    shares = [_decayed(optimizer, group) for group in groups(optimizer)]
    share = max(shares, default=0.0)
    if share < _VANISHING:
        return None
    group = groups(optimizer)[shares.index(share)]
    known = _decay(optimizer, frame)
    name, half = named(optimizer, "the optimizer"), math.ceil(math.log(0.5) / math.log(1 - share)) if share < 1 else 1
    return Finding(
        "BS135",
        "warning",
        f"The weight decay of {name} shrinks the weights to 0.",
        (
            *((shown(known[0], "sets it."),) if known else ()),
            f"With weight_decay={group['weight_decay']:g} and lr={group['lr']:g} each step shrinks every weight by "
            f"{share:.1%}: after {counted(half, 'step')} it is half as large, unless the gradient opposes it.",
        ),
        (_undivided(known[1]) if known else "")
        or "Usual values are 1e-4 to 1e-2 for SGD and up to 0.1 for AdamW. Check whether the value was meant for "
        "something else, such as the decay of the learning rate.",
        source=str(known[0]) if known else None,
        since=since,
    )


def _decay(optimizer: torch.optim.Optimizer, frame: FrameType) -> tuple[Place, ast.expr] | None:
    """Return the one statement that gives an optimizer a weight decay, and the decay: in a group of parameters, else to
    the class of the optimizer, else as an argument of this name."""
    grouped: list[tuple[Place, ast.expr]] = []
    to_class: list[tuple[Place, ast.expr]] = []
    every: list[tuple[Place, ast.expr]] = []
    for body in _bodies(frame):
        for statement in statements(body.node):
            for node in expressions(statement):
                if isinstance(node, ast.Call) and _is_decay(value := keyword(node, "weight_decay")):
                    every.append((body.place(statement), value))
                    if callee(node)[1] == type(optimizer).__name__:
                        to_class.append(every[-1])
                elif isinstance(node, ast.Dict):
                    entries = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if _is_text(k)}
                    if "params" in entries and _is_decay(value := entries.get("weight_decay")):
                        grouped.append((body.place(statement), value))
    found = grouped or to_class or every
    return found[0] if len(found) == 1 else None


def _is_decay(value: ast.expr | None) -> TypeGuard[ast.expr]:
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def _is_text(key: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(key, ast.Constant) and type(key.value) is str


def _undivided(value: ast.expr) -> str:
    """Say what to give in place of a decay that is divided by the learning rate; empty for any other."""
    match value:
        case ast.BinOp(left=left, op=ast.Div(), right=right) if re.search(r"lr|rate", ast.unparse(right)):
            return (
                f"Pass weight_decay={ast.unparse(left)}, without the division: each step multiplies the decay by the "
                "learning rate itself."
            )
    return ""


def _decayed(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    """Return the share of a weight that each step takes away, apart from the gradient; 0 where that is not known.

    Source: the algorithms in the documentation of torch.optim.SGD and AdamW.
    """
    rate, decay, momentum = (group.get(key, 0.0) for key in ("lr", "weight_decay", "momentum"))
    if any(type(each) not in (float, int) for each in (rate, decay, momentum)):
        return 0.0
    if isinstance(optimizer, torch.optim.SGD):
        return min(1.0, float(rate * decay / max(1 - momentum, 1e-3)))
    return float(rate * decay) if isinstance(optimizer, torch.optim.AdamW) else 0.0


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
    made = next(iter(constructions(frame, optimizer, name)), None)
    evidence: list[Fact] = [
        f"{times + 1} of them trained the same parameters one after the other, each for {each:.0f} "
        f"step{'s' * (round(each) != 1)}: momentum and averages start from zero each time."
    ]
    if made is not None:
        evidence.append(shown(made, "runs each time."))
    return Finding(
        "BS119",
        "warning" if each < 3 else "note",
        f"{name} is recreated again and again and loses its state.",
        tuple(evidence),
        f"Create {name} once, before the loop.",
        source=str(made) if made is not None else None,
        since=since,
    )


def attribute_alone(model: nn.Module, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that `module.requires_grad = ...` was set, which tells the module's parameters nothing."""
    for path, module in modules_in(model):
        wanted = (namespace(module) or {}).get("requires_grad")
        held = list(parameters_in(module))
        against = [p for p in held if p.requires_grad is not wanted] if isinstance(wanted, bool) else []
        if not against:
            continue
        name = ".".join(part for part in (named(model, type(model).__name__), path) if part)
        last = name.split(".")[-1]
        found = setting(frame, "requires_grad", wanted, last)
        place, written = found or (None, name)
        state = "frozen" if wanted else "trained"
        told = "A module does not pass requires_grad on to its parameters."
        return Finding(
            "BS126",
            "warning",
            f"requires_grad = {wanted} only sets an attribute of {name}: "
            f"{len(against)} of its {counted(len(held), 'parameter')} {'is' if len(against) == 1 else 'are'} {state}.",
            (told,) if place is None else (shown(place, "sets it; a module does not pass it on to its parameters."),),
            f"Call {written}.requires_grad_({wanted}), which sets it for each of them.",
            source=str(place) if place is not None else None,
            since=since,
        )
    return None


def left_frozen(
    optimizer: torch.optim.Optimizer, frozen: Sequence[torch.Tensor], since: int, frame: FrameType
) -> Finding | None:
    """Return the finding that what an optimizer has trained is frozen for another step, and stays so.

    Who freezes layers for good does so once, before a phase or on a condition. So it has to be done without one, in a
    function that makes a step itself, and nothing in the program's files may enable the gradients again.
    """
    found = [(body, s, on) for body, s, on in freezing(frame)]
    if any(on for _, _, on in found):
        return None
    for body, statement, _ in found:
        conditional = any(
            isinstance(each, ast.If) and each.lineno < statement.lineno <= (each.end_lineno or 0)
            for each in statements(body.node)
        )
        steps = (n for s in statements(body.node) for n in expressions(s) if isinstance(n, ast.Call))
        if conditional or not any(callee(call)[1] == "step" for call in steps):
            continue
        name, place = named(optimizer, "the optimizer"), body.place(statement)
        return Finding(
            "BS129",
            "warning",
            f"{name} no longer trains {_names(frozen)}: {'it is' if len(frozen) == 1 else 'they are'} never unfrozen.",
            (shown(place, "sets requires_grad to False; nothing sets it back to True."),),
            "Call requires_grad_(True) again after the backward that needed them frozen.",
            source=str(place),
            since=since,
        )
    return None


def freezing(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, bool]]:
    """Yield the statements that set requires_grad, each with whether it may be turned on."""
    for body in _bodies(frame):
        for statement in statements(body.node):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            value: ast.expr | None = getattr(statement, "value", None)
            if any(isinstance(target, ast.Attribute) and target.attr == "requires_grad" for target in targets):
                yield body, statement, not is_constant(value, False)
            for call in expressions(statement):
                if isinstance(call, ast.Call) and callee(call)[1] == "requires_grad_":
                    yield body, statement, not (call.args and is_constant(call.args[0], False))


def setting(frame: FrameType, attribute: str, value: object, last: str) -> tuple[Place, str] | None:
    """Return the statement that sets an attribute of a module to a value, and what it calls the module.

    last: what the module is called last, `encoder`. A helper may call it otherwise: then it is the only statement that
    sets this value, of what is no variable of a loop, as parameters are.
    """
    every: list[tuple[Place, str]] = []
    for body in _bodies(frame):
        looped = {n for s in statements(body.node) if isinstance(s, ast.For) for n in target_names(s.target)}
        for statement in statements(body.node):
            for target in statement.targets if isinstance(statement, ast.Assign) else ():
                receiver = dotted(target.value) if isinstance(target, ast.Attribute) else None
                if receiver is None or target.attr != attribute:  # type: ignore[attr-defined]  # an attribute
                    continue
                if receiver not in looped and not is_constant(statement.value, not value):  # type: ignore[attr-defined]
                    every.append((body.place(statement), receiver))
    of_name = [each for each in every if each[1].split(".")[-1] == last]
    return next(iter(of_name), None) or (every[0] if len(every) == 1 else None)


_WHY = {
    "detach": "detach returns a tensor that is detached from the graph",
    "data": ".data has no gradient",
    "no_grad": "it runs with gradients disabled",
    "inference": "it runs in inference mode",
    "integer": "it returns integers or booleans, which have no gradient",
    "not differentiable": "it is not differentiable",
    "derivative": "without create_graph=True, its result has no graph",
    "item": "a Python number has no gradient",
    "numpy": "a NumPy array has no gradient",
    "rewrapped": "it creates a new tensor from the values alone",
    "frozen": "none of its inputs requires grad",
}


def ends(cut: Severed) -> str:
    """Say that a gradient ends at a cut, and why."""
    return f"ends the gradient at {cut.op.lstrip('.')}: {_WHY[cut.by]}."


def where(cut: Severed) -> Place | None:
    """Return the statement to look at: of what runs with gradients disabled, the one that disables them."""
    if cut.line is None:
        return None
    off, checkpoint = disabled_by(cut), _checkpoint(cut)
    return off.place if off is not None else checkpoint or cut.line.place


def _checkpoint(cut: Severed) -> Place | None:
    """Return the statement that runs a function under a checkpoint, if a cut without gradients was made in there."""
    lines = (cut.line, *cut.callers) if cut.by == "no_grad" else ()
    return next((each.place for each in lines if each is not None and "checkpoint(" in each.place.text), None)


def undoing(cut: Severed) -> str:
    """Say what takes a cut back."""
    if cut.by in ("detach", "data") and _stores(cut):
        return "Recompute it in each step instead of using the stored, detached result"
    off = disabled_by(cut)
    if off is not None and off.is_decorator:
        return f"Remove @{off.text} from {off.function}, or compute it elsewhere, with gradients enabled"
    if off is None and _checkpoint(cut) is not None:
        return "Pass use_reentrant=False to this checkpoint: a reentrant one computes no gradient for frozen inputs"
    if cut.by == "no_grad" and off is None:
        return "Compute it with gradients enabled: not under torch.no_grad(), nor a checkpoint with use_reentrant=True"
    if cut.by in ("no_grad", "inference"):
        return "Compute it with gradients enabled, outside of torch.no_grad()"
    if cut.by == "derivative":
        return "Pass create_graph=True to autograd.grad"
    if (estimator := straight_through(cut)) is not None:
        text, trained, passed = estimator
        return f"Use {trained} itself in a loss term, not {text}, which passes the gradient to {passed} alone,"
    if cut.by in ("detach", "data"):
        return f"Remove .{cut.op.lstrip('.')}{'()' if cut.by == 'detach' else ''}"
    if cut.by == "integer" or cut.by == "not differentiable":
        return f"Use something differentiable instead of {cut.op}"
    return f"Compute it with tensors, without {cut.op}"


def _statement_of(cut: Severed) -> ast.stmt | None:
    place = cut.line.place if cut.line is not None else None
    body = body_around(place.file, place.line) if place is not None else None
    return statement_at(body, *place.position) if body is not None and place is not None else None


def straight_through(cut: Severed) -> tuple[str, str, str] | None:
    """Return the estimator that a statement cuts a gradient for, `z + (q - z).detach()`, and its `q` and `z`."""
    statement = _statement_of(cut) if cut.by in ("detach", "data") else None
    for node in expressions(statement) if statement is not None else ():
        match node:
            case ast.BinOp(op=ast.Add(), left=one, right=other):
                for kept, detached in ((one, other), (other, one)):
                    match detached:
                        case (
                            ast.Call(func=ast.Attribute(value=ast.BinOp(left=q, op=ast.Sub(), right=z), attr="detach"))
                            | ast.Attribute(value=ast.BinOp(left=q, op=ast.Sub(), right=z), attr="data")
                        ) if ast.dump(z) == ast.dump(kept):
                            return ast.unparse(node), ast.unparse(q), ast.unparse(z)
    return None


def _in_place(cut: Severed) -> tuple[str, str] | None:
    """Return a variable that the statement of a cut gives a new tensor made of its own values, and the same in place.

    `x = x.detach().clamp(0, 1).requires_grad_(True)` as `x.copy_(x.clamp(0, 1))`.
    """
    statement = _statement_of(cut)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    name = dotted(target)
    if name is None or not isinstance(statement, ast.Assign):
        return None
    if not any(use.name == name and not use.binds for use in uses(statement.value)):
        return None
    value = _Attached().visit(ast.parse(ast.unparse(statement.value), mode="eval").body)
    return (name, f"{name}.copy_({ast.unparse(value)})") if dotted(value) != name else None


class _Attached(ast.NodeTransformer):
    """Takes away what makes a new leaf of an expression."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        receiver, method = callee(node)
        return receiver if receiver is not None and method in ("detach", "clone", "requires_grad_") else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return node.value if node.attr == "data" else node


def _stores(cut: Severed) -> bool:
    """Whether the statement of a cut puts the result into a container, or an attribute, that outlives the step."""
    statement = _statement_of(cut)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript | ast.Attribute) for target in targets)


def named(held: object, otherwise: str) -> str:
    """Return what the program calls an object."""
    names = search([held]).names[0]
    return next((name.path for name in names if name.path != "self"), otherwise)


def _names(tensors: Sequence[torch.Tensor]) -> str:
    found = [n[0].path if n else "" for n in search(tensors[:2], limit=1).names]
    if not all(found) or any("param_groups[" in path for path in found):
        return f"{counted(len(tensors), 'parameter')} that nothing else holds anymore"
    return listed([*found, *[""] * len(tensors[2:])], 2)


def _has_state(optimizer: torch.optim.Optimizer) -> bool:
    state: Any = object.__getattribute__(optimizer, "__dict__").get("state", {})
    return any(isinstance(v, torch.Tensor) and v.dim() for held in list(state.values())[:1] for v in held.values())


def program_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the program from `frame` outwards."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        if is_user(frame) and not is_ours(frame.f_code.co_filename):
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


def calls_around(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Yield the calls in the program's files from which the step is called."""
    for body in _bodies(frame):
        for statement in statements(body.node):
            for node in expressions(statement):
                if isinstance(node, ast.Call):
                    yield body, statement, node


def _evaluations(frame: FrameType) -> Iterator[tuple[Place, str]]:
    """Yield the statements that turn evaluation mode on, each with the name of the function that it stands in."""
    for body, statement, call in calls_around(frame):
        receiver, method = callee(call)
        off = method == "train" and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
        if receiver is not None and ((method == "eval" and not call.args) or (off and call.args[0].value is False)):  # type: ignore[attr-defined]
            yield body.place(statement), getattr(body.node, "name", "")


def _meant(frame: FrameType) -> bool:
    """Whether a function that is running has turned evaluation mode on before the loops that lead to the step."""
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is None:
            continue
        modes = [
            (statement.lineno, callee(node)[1])
            for statement in statements(body.node)
            if statement.lineno < each.f_lineno
            for node in expressions(statement)
            if isinstance(node, ast.Call) and callee(node)[1] in ("eval", "train")
        ]
        line, mode = max(modes, default=(0, ""))
        loops = (s for s in statements(body.node) if isinstance(s, LOOPS))
        again = any(s.lineno <= line and each.f_lineno <= (s.end_lineno or 0) for s in loops)
        if mode == "eval" and not again:
            return True
    return False


def constructions(frame: FrameType | None, optimizer: torch.optim.Optimizer, name: str) -> list[Place]:
    """Return the statements that bind `name` to the result of a call, the function that runs first.

    What a person calls `self.opt` or `trainer.opt` is an attribute, and `opt` a variable: one is not the other. Where
    some call the class of the optimizer, the others make something else.
    """
    attribute, last = "." in name, name.split(".")[-1]
    found = []
    for body in _bodies(frame):
        for statement in statements(body.node):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                targets = [each for t in statement.targets for each in (t.elts if isinstance(t, ast.Tuple) else [t])]
                bound = [each for each in targets if isinstance(each, ast.Attribute) is attribute]
                if any((dotted(target) or "").split(".")[-1] == last for target in bound):
                    found.append((body.place(statement), callee(statement.value)[1] == type(optimizer).__name__))
    of_class = [place for place, calls_class in found if calls_class]
    return of_class or [place for place, _ in found]


def _zeroing(frame: FrameType | None) -> Place | None:
    """Return the zero_grad() between backward and step: in the innermost function that has one, or the only one."""
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
    every = [(body, statement) for body, statement, call in calls_around(frame) if callee(call)[1] == "zero_grad"]
    if len(every) == 1 and not backward_calls(every[0][0]):  # a helper or callback, and nothing else zeroes them
        return every[0][0].place(every[0][1])
    return None


def _closure(frame: FrameType | None) -> Place | None:
    """Return the function of the program that is given to the step."""
    given = {
        dotted(call.args[0]) for _, _, call in calls_around(frame) if callee(call)[1] == "step" and len(call.args) == 1
    }
    for body in _bodies(frame):
        if isinstance(body.node, ast.FunctionDef) and body.node.name in given:
            return body.place(body.node)
    return None
