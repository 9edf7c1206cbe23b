"""BS224: a GradScaler is called in another order than once scale, unscale_, step and update."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import torch

from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.errors.scaler_calls import Call, Misused, is_before, is_scaler, misused_in
from backsight.diagnosis.errors.scaler_half import half_precision
from backsight.diagnosis.errors.scaler_skipped import clears_always, skipped
from backsight.diagnosis.errors.scaler_unchecked import unchecked
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source import Body, Place, calls_of, loop_facts, parsed, statement_at
from backsight.source.bindings import bound, spots, uses
from backsight.source.body import callee, is_shared, statements
from backsight.source.edits import OR, marks_of, move, on_line, put, put_at, sentence, without_marks, write
from backsight.source.exits import exits
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.scenes import called_function
from backsight.text import lines_at

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
        return half_precision(misused)
    return unchecked(misused) if "optimizer" in str(said["unchecked"]) else _no_step(misused)


def _again(misused: Misused, method: str) -> Finding:
    """A second unscale_() or step() before update()."""
    here, others = misused.here, misused.others(method)
    title = f"{misused.name}.{method}({misused.argument}) runs twice without {misused.name}.update() in between."
    again = [shown(misused.asked, "calls it again.")] if misused.asked else []
    if others:
        before = [each for each in others if here and each.section is here.section and is_before(each, here)]
        first = [*others, *before][-1] if before else others[0]
        fix = (
            _unscale_once(misused, first, here)
            if method == "unscale_"
            else f"Step each optimizer once, then call {misused.name}.update(): remove one of the two"
            f"{marks_of(removed(first.place))}{OR}{marks_of(removed(misused.asked)) if misused.asked else ''}."
        )
        return misused.told(title, first.place, [shown(first.place, f"calls {method}() first."), *again], fix)
    updates = misused.others("update")
    if here is not None and here.loop is not None and not updates:
        steps = [each for each in misused.calls if each.method == "step" and misused.is_of(each)]
        of_branches = len(steps) > 1 and any(each.conditions for each in steps)
        step = next((each for each in reversed(steps) if each.loop is here.loop), steps[0] if steps else None)
        below = f", below line {step.place.line}, `{step.place.text}`" if step and not of_branches else ""
        fix = f"Call {misused.name}.update() at the end of each step{below}{_updating(here, steps, step)}."
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


def _updating(here: Call, steps: Sequence[Call], step: Call | None) -> str:
    """update() below a step of the loop; where several branches have one, below all of these."""
    if step is None or step.loop is not here.loop:
        return ""
    code, body = f"{step.section.body.text(callee(step.node)[0] or step.node)}.update()", step.section.body
    around = [each.conditions[0] if each.conditions and each.loop is here.loop else None for each in steps]
    if len(steps) < 2 or not any(around):
        return str(put(code, "below", step.place))
    outer = around[0] if len(set(around)) == 1 else None
    return str(put(code, "beside", body.place(outer))) if outer is not None else ""


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
        code = "; ".join([updated, *(each.place.text for each in late[:1] if not early)])
        first = _before(body, found, code)
        others = marks_of("".join(_before(body, each, code) for each in every[1:]))
        same = f" The same above {lines_at(each.line for each in every[1:])}{others}." if every[1:] else ""
        around = arms.get(found, ())
        handled = found.position > update.place.position
        leaves = f"runs after an exception, which skips line {update.place.line}, `{updated}`: the next call fails."
        if not handled:
            leaves = f"leaves before line {update.place.line}, `{updated}`, so the next call fails."
        condition = next((arm for arm, _ in reversed(around) if isinstance(arm, ast.If)), None)
        why = shown(body.place(condition), "decides that this step is skipped.") if condition else None
        return misused.told(
            title,
            found,
            [if_known(misused.asked, f"calls {here.method}()."), why, shown(found, leaves)],
            f"{sentence(first)}: each {here.method}() needs an update() before the next, also in a skipped step.{same}",
            exact=len(every) == 1,
        )
    return None


def _before(body: Body, place: Place, code: str) -> str:
    """How something is to run before a statement: above it, or on its line where that is `if failed: continue`."""
    if not is_shared(body, place.line):
        return put_at(code, "above", place)
    line = body.lines[place.line - 1].encode("utf-8", "replace")
    parts = (line[: place.column], f"{code}; ".encode(), line[place.column :])
    return on_line(place, b"".join(parts).decode("utf-8", "replace").strip())


def _in_function_of(misused: Misused, here: Call, update: Call) -> Call | None:
    """The call itself, or that of the helper which makes it, in the function that updates and before it does."""
    every = (here, *_callers(misused, here))
    return next((each for each in every if _together(each, update) and is_before(each, update)), None)


def _callers(misused: Misused, call: Call) -> Iterator[Call]:
    """The calls of the function in which a call stands."""
    for each in misused.calls:
        inner = called_function(each.section, each.node)
        if inner is not None and inner.body.node is call.section.body.node:
            yield each


def _together(one: Call, other: Call) -> bool:
    return one.section.body.node is other.section.body.node


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
                f"Unscale once per step, after the last backward() and before clipping: {without}, and "
                f"{put_at(call, 'above', level.place)}."
            )
    return f"Call {method}() once in each step: {removed(first)}, {_or_this(misused.asked)}."


def _or_this(place: Place | None) -> str:
    return f"{OR}or this one{marks_of(removed(place)) if place else ''}"


def _unscale_once(misused: Misused, first: Call, here: Call | None) -> str:
    """Where to unscale: where two functions do, either of which may run alone, before the calls of both."""
    once = "Unscale once per step, after the last backward() and before clipping: "
    at = next(_callers(misused, first), None)
    if here is None or _together(here, first) or at is None:
        return f"{once}{removed(first.place)}, {_or_this(here.place if here else misused.asked)}."
    own = [each for each in (at, *_callers(misused, here)) if _together(each, at)]
    place = min((each.place for each in own), key=lambda each: each.line)
    call = f"{misused.name}.unscale_({misused.argument})"
    calls = f"call {call} before line {place.line}{put(call, 'above', place)}"
    return f"{once}{removed(first.place, here.place)}, and {calls}."


def _between(misused: Misused, here: Call, update: Call, title: str, again: Sequence[Fact]) -> Finding:
    """update() stands where it does not run after every call."""
    lines = [*again, shown(update.place, "runs less often.")]
    stepping = next(iter(misused.others("step")), None)
    comparable = not here.conditions or (here.loop is update.loop is not None)
    if comparable and any(each not in here.conditions for each in update.conditions):
        elsewhere = not _together(update, here)
        beside = stepping if stepping and stepping.conditions else update
        clipping = _clipping(misused, here)
        if (elsewhere or clipping is not None) and not clears_always(misused, here):
            lines[-1] = shown(update.place, "runs less often: until then, gradients accumulate.")
        what, places = _moved(misused, here, beside, clipping)
        moves = _under(here, beside, places)
        kept = _kept(here, beside, clipping)
        fix = (
            f"Call {here.method}() only when {misused.name}.step() runs: move {what} under the condition on line "
            f"{beside.conditions[-1].lineno}, before {misused.name}.step({misused.argument}){moves}."
            f"{kept if moves else without_marks(kept)}"
        )
        return misused.told(title, here.place, lines, fix)
    if _together(update, here) and update.loop is not here.loop:
        step, updated = f"{misused.name}.step({misused.argument})", f"{misused.name}.update()"
        return misused.told(title, here.place, lines, f"Call {step} and {updated} in the same loop as {here.method}().")
    return _not_beside(misused, here.method, title, again)


def _under(here: Call, beside: Call, places: Sequence[Place]) -> str:
    """These statements moved to the step: into another function only what it knows by the same names."""
    if beside.method != "step" or not beside.conditions:
        return ""
    mine, other = here.section, beside.section
    if mine.body.node is not other.body.node and places[0] == here.place:
        moved = [statement for each in places if (statement := statement_at(mine.body, *each.position)) is not None]
        names = {use.name.partition(".")[0] for each in moved for use in uses(each)}
        alone = len(getattr(mine.body.node, "body", ())) == len(places)
        if alone or any(map(bound, moved)) or any(mine.value(each) is not other.value(each) for each in names):
            return ""
    return str(move(places, "above", beside.place))


def _moved(misused: Misused, here: Call, beside: Call, clipping: Place | None) -> tuple[str, list[Place]]:
    """What has to go under the condition of `beside`: a helper that unscales, its condition, or else the clipping."""
    own = next((each for each in here.conditions if each not in beside.conditions), None)
    if own is not None and _together(here, beside):
        text = here.section.body.text(own).rstrip(":")
        return f"lines {own.lineno} to {own.end_lineno}, the whole `{text}`,", [here.section.body.place(own)]
    at = next((each for each in _callers(misused, here) if not _together(each, here)), None)
    plain = not any(each.method == "backward" for each in misused.calls if _together(each, here))
    if at is not None and plain and _together(at, beside):
        return f"line {at.place.line}, {at.place.text},", [at.place]
    if clipping is None:
        return f"line {here.place.line}" if not _together(here, beside) else "it", [here.place]
    return f"line {here.place.line} and the clipping on line {clipping.line}", [here.place, clipping]


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
    started_at = put(f"{read[0][1]} = torch.zeros(())", "above", body.place(start))
    return (
        f" Put {read[0][1]} = torch.zeros(()) {before}{started_at}: {lines_at(lines, 3)} "
        f"read{'s' * (len(lines) == 1)} it in every {'pass' if here.loop else 'call'}."
    )


def _clipping(misused: Misused, here: Call) -> Place | None:
    """The statement after unscale_() that clips gradients: where they are still scaled, it would clip all of them."""
    after = (
        each.place
        for each in misused.calls
        if each.method.startswith("clip_grad") and _together(each, here)
        if is_before(here, each) and each.conditions == here.conditions
    )
    return next(after, None) if here.method == "unscale_" else None


def _late(misused: Misused) -> Finding:
    step = next(iter(misused.others("step")), None)
    name, argument, here = misused.name, misused.argument, misused.here
    if step and here and step.section is here.section and is_before(here, step):  # in this order: of a step before
        again = [shown(misused.asked, "starts another step.")] if misused.asked else []
        return misused.told(
            f"{name}.unscale_({argument}) runs again without {name}.update() since the last {name}.step({argument}).",
            step.place,
            [shown(step.place, "already stepped."), *again],
            f"Call {name}.update() once at the end of each step, after every optimizer has stepped"
            f"{_updated_last(misused, step)}.",
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


def _updated_last(misused: Misused, step: Call) -> str:
    """update() below the last step of a function without conditions."""
    own = [each for each in misused.calls if each.method == "step" and each.section is step.section]
    own = [each for each in own if misused.is_of(each)]
    if misused.others("update") or any(each.conditions or each.loop is not step.loop for each in own):
        return ""
    return str(put(f"{misused.name}.update()", "below", max(own, key=lambda each: each.spot.order).place))


def _up(misused: Misused, step: Call | None) -> str:
    """Where the statement that unscales, or the helper that does, goes: above the step."""
    here = misused.here
    if step is None or here is None:
        return ""
    for each in (here, *_callers(misused, here)):
        if _together(each, step) and is_before(step, each):
            moves = move(each.place, "above", step.place)
            return f" (move line {each.place.line}, `{each.place.text}`, above line {step.place.line}{moves})"
    return ""


def _never_scaled(misused: Misused, method: str) -> Finding:
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
            f"Use one GradScaler throughout: {name}.scale(...) there{_instead(misused, other, name)}.",
        )
    plain = [each for each in misused.calls if each.method == "backward" and _is_plain(each)]
    here = misused.here
    before = [each for each in plain if here is None or each.section is not here.section or is_before(each, here)]
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
        f"Scale the loss: {name}.scale({loss}).backward(){_instead(misused, call, f'{name}.scale({loss})')}.",
        exact=len(plain) == 1,
    )


def _instead(misused: Misused, call: Call, new: str) -> str:
    """A call with this in its receiver's place, or in its own if it is `step()`, where the scaler has that name."""
    node = call.node if call.method == "step" else callee(call.node)[0]
    known = node is not None and value_of(call.section, parsed(misused.name)) is misused.scaler
    line = rewritten(call.section.body, call.spot.node, {node: new}) if node is not None and known else ""
    return str(write(call.place, line)) if line else ""


def _is_plain(call: Call) -> bool:
    """Whether it runs backward on a tensor as it is, not on what a scaler has scaled."""
    receiver = callee(call.node)[0]
    return receiver is not None and not (isinstance(receiver, ast.Call) and callee(receiver)[1] == "scale")


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
            f"Step through the scaler: {name}.step({optimizer}){_instead(misused, call, f'{name}.step({optimizer})')}.",
        )
    stepping = misused.others("step")
    here = misused.here
    if here and stepping and stepping[0].conditions and not here.conditions:
        return misused.told(
            title,
            here.place,
            [shown(stepping[0].place, "is skipped by its condition."), *asked],
            f"Call {name}.update() under the condition on line {stepping[0].conditions[-1].lineno}, like "
            f"{name}.step(){_beside_step(here, stepping)}.",
        )
    fix = f"Call {name}.step(optimizer) before {name}.update(), once per step."
    return misused.told(title, misused.asked, asked, fix, exact=False)


def _beside_step(here: Call, stepping: Sequence[Call]) -> str:
    """update() below the last step that the same condition decides on."""
    same = [each for each in stepping if each.section is here.section]
    same = [each for each in same if each.conditions == stepping[0].conditions and is_before(each, here)]
    return str(move(here.place, "below", same[-1].place)) if same else ""
