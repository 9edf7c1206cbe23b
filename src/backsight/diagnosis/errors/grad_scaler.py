"""BS224: a GradScaler is called in another order than once scale, unscale_, step and update."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import torch

from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.errors.scaler_calls import Call, Misused, has_run, is_scaler, misused_in
from backsight.diagnosis.errors.scaler_frozen import frozen_in_optimizer, owner_of, replaced
from backsight.diagnosis.errors.scaler_skipped import clears_always, skipped
from backsight.diagnosis.evidence.left_out import detached, left_out
from backsight.diagnosis.evidence.over_nothing import over_nothing
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source import Place, calls_of, loop_facts, statement_at
from backsight.source.bindings import assigned, bound, spots, uses
from backsight.source.body import callee, statements
from backsight.source.exits import exits
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.memory import gradient_of, is_module, needs_gradient
from backsight.story.scenes import called_function
from backsight.tape import modules_in, parameters_in
from backsight.text import as_code
from backsight.tracing.steps import parameters

_ORDER = (
    "The order in each step: scaler.scale(loss).backward(), scaler.unscale_(optimizer), scaler.step(optimizer), "
    "scaler.update()."
)


@explains(
    "BS224",
    r"(?P<again>unscale_|step)\(\) has already been called (?:on this optimizer )?since the last update\(\)",
    r"(?P<late>unscale_)\(\) is being called after step\(\)",
    r"Attempted (?P<unscaled>\w+) but _scale is None",
    r"No inf checks were recorded (?P<unchecked>for this optimizer|prior to update)",
    r"Attempting to unscale (?P<half>FP16) gradients",
)
def grad_scaler(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which call came too often, too late or not at all."""
    said = match.groupdict()
    misused = misused_in(failure)
    if said.get("again"):
        return _again(misused, str(said["again"]))
    if said.get("late"):
        return _late(misused)
    if said.get("unscaled"):
        return _never_scaled(misused, str(said["unscaled"]))
    if said.get("half"):
        return _half(misused)
    return _unchecked(misused) if "optimizer" in str(said["unchecked"]) else _no_step(misused)


def _again(misused: Misused, method: str) -> Finding:
    """A second unscale_() or step() before update()."""
    here, others = misused.here, misused.others(method)
    title = f"{misused.name}.{method}({misused.argument}) runs twice without {misused.name}.update() in between."
    again = [shown(misused.asked, "calls it again.")] if misused.asked else []
    if others:
        before = [each for each in others if here and each.section is here.section and _is_before(each, here)]
        first = [*others, *before][-1] if before else others[0]
        fix = (
            _unscale_once(misused, first, here)
            if method == "unscale_"
            else f"Step each optimizer once, then call {misused.name}.update(): remove one of the two."
        )
        return misused.told(title, first.place, [shown(first.place, f"calls {method}() first."), *again], fix)
    updates = misused.others("update")
    if here is not None and here.loop is not None and not updates:
        steps = [each for each in misused.calls if each.method == "step" and misused.is_of(each)]
        of_branches = len(steps) > 1 and any(each.conditions for each in steps)
        step = next((each for each in reversed(steps) if each.loop is here.loop), steps[0] if steps else None)
        below = f", below line {step.place.line}, `{step.place.text}`" if step and not of_branches else ""
        fix = f"Call {misused.name}.update() at the end of each step{below}."
        never = f"{misused.name}.update() is never called in the loop."
        return misused.told(title, here.place, [*again, never], fix)
    always = here is not None and bool(updates) and all(each in here.conditions for each in updates[0].conditions)
    if here is not None and always and (left := _left_early(misused, here, updates, title)) is not None:
        return left
    if here is not None and (found := skipped(misused, here, updates, title)) is not None:
        return found
    if here is not None and updates:
        return _between(misused, here, updates[0], title, again)
    return _not_beside(misused, method, title, again)


def _left_early(misused: Misused, here: Call, updates: Sequence[Call], title: str) -> Finding | None:
    """A `return` or `continue` between the call and update() skips update()."""
    for update in updates:
        start = _in_function_of(misused, here, update)
        body = start.section.body if start is not None else None
        arms = {body.place(each.node): each.arms for each in spots(body.node)} if body is not None else {}
        ended = [each.place for each in updates if body is not None and each.section.body.node is body.node]
        every = [
            found
            for found in (exits(body, start.place, update.place) if body is not None and start is not None else ())
            if not any(arms.get(each) == arms.get(found) and each.position < found.position for each in ended)
        ]
        if start is None or body is None or not every:
            continue
        found, updated = every[0], update.place.text
        own = [each for each in misused.calls if each.section.body.node is body.node]
        cleared = [each for each in own if each.method == "zero_grad"]
        late = [each for each in cleared if each.place.position > found.position and not each.conditions]
        early = any(each.place.position < start.place.position for each in cleared)
        put = "; ".join([updated, *(each.place.text for each in late[:1] if not early)])
        around = arms.get(found, ())
        handled = found.position > update.place.position
        leaves = f"runs after an exception, which skips line {update.place.line}, `{updated}`: the next call fails."
        if not handled:
            leaves = f"leaves before line {update.place.line}, `{updated}`, so the next call fails."
        condition = next((arm for arm, _ in reversed(around) if isinstance(arm, ast.If)), None)
        why = [shown(body.place(condition), "decides that this step is skipped.")] if condition else []
        return misused.told(
            title,
            found,
            [
                *([shown(misused.asked, f"calls {here.method}().")] if misused.asked else []),
                *why,
                shown(found, leaves),
            ],
            f"Put `{put}` above line {found.line}: each {here.method}() needs an update() before the next, "
            f"also in a skipped step.{f' The same above {_lines(every[1:])}.' if every[1:] else ''}",
            exact=len(every) == 1,
        )
    return None


def _lines(places: Sequence[Place]) -> str:
    return f"line{'s' * (len(places) > 1)} {listed([str(each.line) for each in places])}"


def _in_function_of(misused: Misused, here: Call, update: Call) -> Call | None:
    """The call itself, or that of the helper which makes it, in the function that updates and before it does."""
    called = ((each, called_function(each.section, each.node)) for each in misused.calls)
    helpers = [each for each, inner in called if inner is not None and inner.body.node is here.section.body.node]
    for each in (here, *helpers):
        if each.section.body.node is update.section.body.node and _is_before(each, update):
            return each
    return None


def _not_beside(misused: Misused, method: str, title: str, again: Sequence[Fact]) -> Finding:
    """The first call stands in no function that the text leads to from here."""
    first = _elsewhere(misused, method)
    if first is None:
        unknown = "An earlier call already did; the source text does not show which one."
        return misused.told(title, misused.asked, [*again, unknown], _ORDER, exact=False)
    lines = [shown(first, f"calls {method}() first.", "read"), *again]
    return misused.told(title, first, lines, _instead_of_both(misused, first, method), exact=False)


def _elsewhere(misused: Misused, method: str) -> Place | None:
    """The other call in the program's files, if there is one alone: a callback, which no name in the text leads to."""
    asked = misused.asked
    found = {
        (place.file, place.line): place
        for body, each, node in calls_of(*user_files(misused.failure))
        if callee(node)[1] == method and (place := body.place(each)) != asked and len(node.args) == 1
        if method == "unscale_" or "scaler" in body.text(node.func)
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _instead_of_both(misused: Misused, first: Place, method: str) -> str:
    """Remove both calls; one in their place, before the function is called that runs the one after the other."""
    without = removed(*(each for each in (first, misused.asked) if each))
    for level in misused.failure.users[1:] if method == "unscale_" else ():
        if level.body is None or level.statement is None or loop_facts(level.body, level.line) is not None:
            continue
        scaler, optimizer = search([misused.scaler, misused.optimizer], frames=(level.frame,)).names
        if scaler and optimizer:
            call = f"{scaler[0].path}.unscale_({optimizer[0].path})"
            return (
                f"Unscale once per step, after the last backward() and before clipping: {without}, and put `{call}` "
                f"above line {level.line}."
            )
    return f"Call {method}() once in each step: {removed(first)}, or this one."


def _unscale_once(misused: Misused, first: Call, here: Call | None) -> str:
    """Where to unscale: where two functions do, either of which may run alone, before the calls of both."""
    once = "Unscale once per step, after the last backward() and before clipping: "
    node = first.section.body.node
    bodies = {each: inner.body.node for each in misused.calls if (inner := called_function(each.section, each.node))}
    at = next((each for each, inner in bodies.items() if inner is node), None)
    if here is None or here.section.body.node is node or at is None:
        return f"{once}{removed(first.place)}, or this one."
    beside = (each for each, inner in bodies.items() if inner is here.section.body.node)
    own = [each for each in (at, *beside) if each.section.body.node is at.section.body.node]
    line = min(each.place.line for each in own)
    return (
        f"{once}{removed(first.place, here.place)}, and call "
        f"{misused.name}.unscale_({misused.argument}) before line {line}."
    )


def _between(misused: Misused, here: Call, update: Call, title: str, again: Sequence[Fact]) -> Finding:
    """update() stands where it does not run after every call."""
    lines = [*again, shown(update.place, "runs less often.")]
    stepping = next(iter(misused.others("step")), None)
    comparable = not here.conditions or (here.loop is update.loop is not None)
    if comparable and any(each not in here.conditions for each in update.conditions):
        elsewhere = update.section.body.node is not here.section.body.node
        beside = stepping if stepping and stepping.conditions else update
        clipping = _clipping(misused, here)
        if (elsewhere or clipping is not None) and not clears_always(misused, here):
            lines[-1] = shown(update.place, "runs less often: until then, gradients accumulate.")
        what = _moved(misused, here, beside, clipping)
        fix = (
            f"Call {here.method}() only when {misused.name}.step() runs: move {what} under the condition on line "
            f"{beside.conditions[-1].lineno}, before {misused.name}.step({misused.argument})."
            f"{_kept(here, beside, clipping)}"
        )
        return misused.told(title, here.place, lines, fix)
    if update.section.body.node is here.section.body.node and update.loop is not here.loop:
        step, updated = f"{misused.name}.step({misused.argument})", f"{misused.name}.update()"
        return misused.told(title, here.place, lines, f"Call {step} and {updated} in the same loop as {here.method}().")
    return _not_beside(misused, here.method, title, again)


def _moved(misused: Misused, here: Call, beside: Call, clipping: Place | None) -> str:
    """What has to go under the condition of `beside`: a helper that unscales, its condition, or else the clipping."""
    inside = here.section.body.node
    own = next((each for each in here.conditions if each not in beside.conditions), None)
    if own is not None and beside.section.body.node is inside:
        text = here.section.body.text(own).rstrip(":")
        return f"lines {own.lineno} to {own.end_lineno}, the whole `{text}`,"
    called = ((each, called_function(each.section, each.node)) for each in misused.calls)
    at = next(
        (each for each, inner in called if inner and inner.body.node is inside is not each.section.body.node), None
    )
    plain = not any(each.method == "backward" for each in misused.calls if each.section.body.node is inside)
    if at is not None and plain and at.section.body.node is beside.section.body.node:
        return f"line {at.place.line}, {at.place.text},"
    if clipping is None:
        return f"line {here.place.line}" if beside.section.body.node is not inside else "it"
    return f"line {here.place.line} and the clipping on line {clipping.line}"


def _kept(here: Call, beside: Call, clipping: Place | None) -> str:
    """What to do about the result of the clipping where it is read in passes in which nothing is clipped any more."""
    body = here.section.body
    statement = statement_at(body, *clipping.position) if clipping is not None else None
    names = bound(statement) if statement is not None else set()
    inside = beside.conditions[-1]
    read = [
        (each.lineno, use.name)
        for each in statements(body.node)
        if statement is not None and each.lineno > statement.lineno
        if not inside.lineno <= each.lineno <= (inside.end_lineno or 0)
        for use in uses(each)
        if use.name in names and not use.binds
    ]
    start = here.loop or inside
    started = {name for each in statements(body.node) if each.lineno < start.lineno for name in bound(each) - names}
    read = [(line, name) for line, name in read if name not in started]
    if not read or (here.loop is None and beside.section.body.node is not body.node):
        return ""
    lines = sorted({line for line, _ in read})
    before = f"{'before the loop on' if here.loop else 'above'} line {start.lineno}"
    return (
        f" Put {read[0][1]} = torch.zeros(()) {before}: line{'s' * (len(lines) > 1)} "
        f"{listed([*map(str, lines)], 3)} read{'s' * (len(lines) == 1)} it in every {'pass' if here.loop else 'call'}."
    )


def _clipping(misused: Misused, here: Call) -> Place | None:
    """The statement after unscale_() that clips gradients: where they are still scaled, it would clip all of them."""
    after = (
        each.place
        for each in misused.calls
        if each.method.startswith("clip_grad") and each.section.body.node is here.section.body.node
        if _is_before(here, each) and each.conditions == here.conditions
    )
    return next(after, None) if here.method == "unscale_" else None


def _late(misused: Misused) -> Finding:
    """unscale_() after step()."""
    step = next(iter(misused.others("step")), None)
    name, argument, here = misused.name, misused.argument, misused.here
    if step and here and step.section is here.section and _is_before(here, step):  # in this order: of a step before
        again = [shown(misused.asked, "starts another step.")] if misused.asked else []
        return misused.told(
            f"{name}.unscale_({argument}) runs again without {name}.update() since the last {name}.step({argument}).",
            step.place,
            [shown(step.place, "already stepped."), *again],
            f"Call {name}.update() once at the end of each step, after every optimizer has stepped.",
        )
    lines = [shown(step.place, "unscales the gradients itself, then steps.")] if step else []
    lines += [shown(misused.asked, "runs after that.")] if misused.asked else []
    return misused.told(
        f"{name}.unscale_({argument}) runs after {name}.step({argument}), which has already used the gradients.",
        misused.asked,
        lines,
        f"Unscale before the step{_up(misused, step)}: first {name}.unscale_({argument}), then clip or inspect the "
        f"gradients, then {name}.step({argument}) and {name}.update(). If you do neither, drop unscale_().",
    )


def _up(misused: Misused, step: Call | None) -> str:
    """Where the statement that unscales, or the helper that does, goes: above the step."""
    here = misused.here
    if step is None or here is None:
        return ""
    called = ((each, called_function(each.section, each.node)) for each in misused.calls)
    helpers = [each for each, inner in called if inner is not None and inner.body.node is here.section.body.node]
    for each in (here, *helpers):
        if each.section.body.node is step.section.body.node and _is_before(step, each):
            return f" (move line {each.place.line}, `{each.place.text}`, above line {step.place.line})"
    return ""


def _never_scaled(misused: Misused, method: str) -> Finding:
    """The loss of this scaler was never scaled."""
    name = misused.name
    title = f"{name}.{method}() runs, but {name}.scale() never did: the loss was not scaled."
    asked = [shown(misused.asked, f"calls {method}().")] if misused.asked else []
    scaling = [each for each in misused.calls if each.method == "scale" and is_scaler(each.receiver)]
    other = next((each for each in scaling if each.receiver is not misused.scaler), None)
    if other is not None:
        text = other.section.body.text(other.node.func)
        return misused.told(
            title,
            other.place,
            [shown(other.place, f"scales with another scaler, {text.rpartition('.')[0]}."), *asked],
            f"Use one GradScaler throughout: {name}.scale(...) there.",
        )
    plain = [each for each in misused.calls if each.method == "backward" and _is_plain(each)]
    here = misused.here
    before = [each for each in plain if here is None or each.section is not here.section or _is_before(each, here)]
    if scaling or not before:
        return misused.told(title, misused.asked, asked, _ORDER, exact=False)
    own = [each for each in before if here and each.section is here.section]
    call = (own or before)[-1]
    receiver = callee(call.node)[0]
    loss = call.section.body.text(receiver) if receiver is not None else "loss"
    return misused.told(
        title,
        call.place,
        [shown(call.place, "runs backward on the unscaled loss."), *asked],
        f"Scale the loss: {name}.scale({loss}).backward().",
        exact=len(plain) == 1,
    )


def _is_plain(call: Call) -> bool:
    """Whether it runs backward on a tensor as it is, not on what a scaler has scaled."""
    receiver = callee(call.node)[0]
    return receiver is not None and not (isinstance(receiver, ast.Call) and callee(receiver)[1] == "scale")


def _is_before(call: Call, here: Call) -> bool:
    return call.spot.order < here.spot.order


def _unchecked(misused: Misused) -> Finding:
    """step() or unscale_() found no gradient at all in the optimizer."""
    name, argument = misused.name, misused.argument
    title = f"{name}.step({argument}): none of the parameters of {argument} has a gradient."
    asked = [shown(misused.asked, "finds no gradients to check.")] if misused.asked else []
    here = misused.here
    cleared = [each for each in misused.calls if each.method == "zero_grad"]
    backward = [each for each in misused.calls if each.method == "backward"]
    if here is not None:
        own = here.section.body.node
        runs = [each for each in backward if each.section.body.node is own and _is_before(each, here)]
        between = [
            each
            for each in cleared
            if each.section.body.node is own and runs and _is_before(runs[-1], each) and _is_before(each, here)
        ]
        if between:
            zeroed = between[-1].place
            return misused.told(
                title,
                zeroed,
                [shown(zeroed, "sets the gradients to None, after backward()."), *asked],
                f"Zero the gradients before backward(): move line {zeroed.line}, `{zeroed.text}`, above line "
                f"{runs[-1].place.line}. Or zero them after {name}.update().",
            )
    with_gradients = _with_gradients(misused)
    if misused.parameters and not any(needs_gradient(each) for each in misused.parameters):
        return frozen_in_optimizer(misused, with_gradients, title, asked)
    if not with_gradients and any(backward):
        return _none_this_time(misused, asked)
    if with_gradients:
        where = names_of(misused.failure, [misused.optimizer])[0] or argument
        if (other := replaced(misused.failure, with_gradients[0], where)) is not None:
            place, lines, fix = other
            return misused.told(title, place, [*lines, *asked], fix)
        return misused.told(
            title,
            misused.asked,
            [f"{listed(with_gradients, 3)} has gradients, but {where} holds none of its parameters.", *asked],
            f"Pass {where} the parameters that the loss is computed from: {with_gradients[0]}.parameters().",
            exact=False,
        )
    return misused.told(
        title,
        misused.asked,
        asked,
        f"Step only after a backward() that reaches the parameters of {argument}: {name}.scale(loss).backward().",
        exact=False,
    )


def _none_this_time(misused: Misused, asked: Sequence[Fact]) -> Finding:
    """What has gradients has an optimizer of its own: this step's loss does not depend on what this one holds."""
    name, argument = misused.name, misused.argument
    owner = owner_of(misused)
    held = owner or f"the parameters of {argument}"
    skipped = _skipped(misused)
    nothing = over_nothing(misused.failure, misused.parameters) if skipped is None else None
    ended = nothing is None and (skipped is None or has_run(skipped[1]))
    reason = nothing[1] if nothing else detached(misused.failure, misused.parameters) if ended else None
    alone = len(search((), frames=misused.failure.frames, collect=(torch.optim.Optimizer,)).found) < 2
    stands = misused.asked is not None and misused.asked.text == f"{name}.step({argument})"
    where = f"on line {misused.asked.line}, write " if stands and misused.asked else ""
    skipping = (
        f"Step only an optimizer that has gradients: {where}"
        f"`if any(p.grad is not None for group in {argument}.param_groups for p in group['params']): "
        f"{name}.step({argument})`."
    )
    if reason is not None:
        because = "it ran with gradients disabled" if reason.sometimes else "its result is detached from the loss"
        because = nothing[0] if nothing else because
        apart = not alone and nothing is None
        or_not = f" If it should not learn from this loss, leave {name}.step({argument}) out." if apart else ""
        return misused.told(
            f"{name}.step({argument}): {held} got no gradient in this step, as {because}.",
            reason.place,
            [*reason.evidence, *asked],
            f"{skipping} {reason.fix}" if reason.sometimes else f"{reason.fix}{or_not}",
        )
    out = left_out(misused.failure, misused.parameters, [owner.rpartition(".")[2]] if owner else [])
    lines: Sequence[Fact]
    condition: Place | None
    if skipped is not None:
        condition, ran = skipped
        lines = (shown(condition, "decides whether backward runs before this step."), shown(ran, "is that backward."))
    else:
        condition = out.condition if out else misused.asked
        lines = out.evidence(held) if out else (f"The loss of this step does not depend on {held}.",)
    return misused.told(
        f"{name}.step({argument}): {held} got no gradient in this step.",
        condition,
        [*lines, *asked],
        skipping
        if skipped or out or not alone
        else f"Compute the loss from what {held} computes: look on the way for .detach(), .item(), torch.tensor() "
        f"and torch.no_grad(). Skip backward(), step() and {name}.update() only in a step with nothing to train.",
        exact=skipped is not None or (out is not None and out.sure),
    )


def _skipped(misused: Misused) -> tuple[Place, Place] | None:
    """The condition of every backward since the last zero_grad, of which none has run, and the first of them."""
    here = misused.here
    own = [each for each in misused.calls if here is not None and each.section.body.node is here.section.body.node]
    before = [each for each in own if here is not None and _is_before(each, here)]
    cleared = [k for k, each in enumerate(before) if each.method == "zero_grad" and not _only_if(each, here)]
    ran = [each for each in before[cleared[-1] + 1 :] if each.method == "backward"] if cleared else []
    conditions = {id(found): found for each in ran if (found := _only_if(each, here)) is not None}
    if not ran or len(conditions) != 1 or any(_only_if(each, here) is None for each in ran):
        return None
    (condition,) = conditions.values()
    return ran[0].section.body.place(condition), ran[0].place


def _only_if(call: Call, here: Call | None) -> ast.If | None:
    """The condition on which a call runs and another does not depend."""
    around = {id(arm) for arm, _ in here.spot.arms} if here is not None else set()
    found = (arm for arm, label in call.spot.arms if isinstance(arm, ast.If) and label == "body")
    return next((arm for arm in found if id(arm) not in around), None)


def _with_gradients(misused: Misused) -> list[str]:
    """The models with gradients none of whose parameters this optimizer holds, nor any other."""
    found = search((), frames=misused.failure.frames, collect=(torch.optim.Optimizer,)).found
    others = [each for each, _ in found if isinstance(each, torch.optim.Optimizer)]
    held = {id(p) for each in others for p in parameters(each)} | {id(each) for each in misused.parameters}
    found = search((), frames=misused.failure.frames, collect=(torch.nn.Module,)).found
    every: list[tuple[Any, str]] = [(module, name.path) for module, name in found if is_module(module)]
    models = [
        (module, name)
        for module, name in every
        if any(gradient_of(p) is not None for p in parameters_in(module))
        and not any(id(p) in held for p in parameters_in(module))
    ]
    inner = {id(m) for module, _ in models for path, m in modules_in(module) if path}
    return [name for module, name in models if id(module) not in inner]


def _no_step(misused: Misused) -> Finding:
    """update() without a step of the scaler's since the last one."""
    name = misused.name
    title = f"{name}.update() runs, but {name}.step() did not: no gradients were checked since the last update()."
    asked = [shown(misused.asked, "updates the scale.")] if misused.asked else []
    steps = [
        each
        for each in misused.calls
        if each.method == "step" and issubclass(type(each.receiver), torch.optim.Optimizer)
    ]
    if steps:
        call = steps[-1]
        optimizer = call.section.body.text(callee(call.node)[0])  # type: ignore[arg-type]  # it has a receiver
        return misused.told(
            title,
            call.place,
            [shown(call.place, "bypasses the scaler: it steps with gradients that are still scaled."), *asked],
            f"Step through the scaler: {name}.step({optimizer}).",
        )
    stepping = misused.others("step")
    here = misused.here
    if here and stepping and stepping[0].conditions and not here.conditions:
        return misused.told(
            title,
            here.place,
            [shown(stepping[0].place, "is skipped by its condition."), *asked],
            f"Call {name}.update() under the condition on line {stepping[0].conditions[-1].lineno}, like "
            f"{name}.step().",
        )
    fix = f"Call {name}.step(optimizer) before {name}.update(), once per step."
    return misused.told(title, misused.asked, asked, fix, exact=False)


def _half(misused: Misused) -> Finding:
    """The weights themselves are in half precision."""
    half = [p for p in misused.parameters if p.dtype == torch.float16]
    asked = [shown(misused.asked, "unscales gradients that are float16, like their weights.")] if misused.asked else []
    cast = next((each for each in misused.calls if _is_to_half(each) and _converts(each, half)), None)
    lines: list[Fact] = [shown(cast.place, "converts the weights to float16.")] if cast else []
    many, verb = counted(len(half), "parameter") if half else "The weights", "is" if len(half) == 1 else "are"
    named = [as_code(each) for each in names_of(misused.failure, half) if each and ".param_groups[" not in each]
    if half and len(named) == len(half):
        lines.append(f"{listed(named, 4)}: float16.")
    text = simple(cast.section.body.text(callee(cast.node)[0])) if cast else "the model"  # type: ignore[arg-type]
    how = f"{text} without the cast"
    if cast and isinstance(cast.spot.node, ast.Expr) and len(cast.node.args) + len(cast.node.keywords) < 2:
        how = f"so {removed(cast.place)}"
    module = cast.receiver if cast else None
    frozen = is_module(module) and any(not needs_gradient(p) for p in parameters_in(module) if p.dtype == torch.float16)
    alone = (
        f" To keep the frozen weights alone in float16, put `for p in {text}.parameters(): p.data = p.data.float() if "
        f"p.requires_grad else p.data` below line {cast.place.line}."
        if cast and frozen and isinstance(cast.spot.node, ast.Expr)
        else ""
    )
    return misused.told(
        f"{many} of {misused.argument} {verb} float16, but a GradScaler needs float32 weights.",
        cast.place if cast else misused.asked,
        [*lines, *asked],
        f"Keep the weights in float32, {how}, and run the forward pass under torch.autocast, which computes in float16 "
        f"where that is safe.{alone}",
        exact=cast is not None,
    )


def _is_to_half(call: Call) -> bool:
    """Whether a call converts to float16, under whatever name the dtype is passed."""
    given = [*call.node.args, *(each.value for each in call.node.keywords)]
    known = any(value_of(call.section, each) is torch.float16 for each in given)
    return call.method == "half" or (call.method == "to" and (known or "float16" in call.section.body.text(call.node)))


def _converts(call: Call, half: list[torch.Tensor]) -> bool:
    """Whether it converts a module that has some of these parameters."""
    named = (target for target, value in assigned(call.spot.node) if any(each is call.node for each in ast.walk(value)))
    held = [call.receiver, *(value_of(call.section, each) for each in named)]
    known = [p for each in held if is_module(each) for p in parameters_in(each)]
    return any(p is each for p in known for each in half) if half else bool(known)
