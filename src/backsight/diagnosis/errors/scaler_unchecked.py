"""BS224: a step finds no gradient to check: cleared too early, none arrived in this step, or all weights are frozen."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.scaler_calls import Call, Misused, has_run, is_before
from backsight.diagnosis.evidence.exchanged import exchanged, told
from backsight.diagnosis.evidence.idle import left_idle
from backsight.diagnosis.evidence.left_out import detached, left_out
from backsight.diagnosis.evidence.over_nothing import over_nothing
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, listed, shown, sure_if
from backsight.findings.evidence import Evidence, Fact
from backsight.source import Body, Place, only, statements_of
from backsight.source.bindings import assigned, names_read, targets
from backsight.source.body import LOOPS, callee, calls_in, dotted, is_shared, statements
from backsight.source.edits import OR, instead, marks_of, move, on_line, repeat
from backsight.source.freezing import freezing_of, freezings
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.holders import found_around
from backsight.story.memory import gradient_of, is_module, needs_gradient
from backsight.tape import modules_in, parameters_in
from backsight.tracing.steps import parameters


def unchecked(misused: Misused) -> Finding:
    """step() or unscale_() found no gradient at all in the optimizer."""
    name, argument, here = misused.name, misused.argument, misused.here
    title = f"{name}.step({argument}): none of the parameters of {argument} has a gradient."
    asked = if_known(misused.asked, "finds no gradients to check.")
    backward = [each for each in misused.calls if each.method == "backward"]
    if here is not None and (too_early := _cleared(misused, here, backward)) is not None:
        runs, zeroed = too_early
        later = (each for each in misused.others("update") if each.section is here.section)
        updated = next((each for each in later if is_before(here, each)), None)
        return misused.told(
            title,
            zeroed,
            (shown(zeroed, "sets the gradients to None, after backward()."), asked),
            f"Zero the gradients before backward(): move line {zeroed.line}, `{zeroed.text}`, above line "
            f"{runs.line}{move(zeroed, 'above', runs)}. {OR}Or zero them after {name}.update()"
            f"{move(zeroed, 'below', updated.place) if updated else ''}.",
        )
    with_gradients = _with_gradients(misused)
    if misused.parameters and not any(needs_gradient(each) for each in misused.parameters):
        return frozen_in_optimizer(misused, with_gradients, title, asked)
    if not with_gradients and backward:
        return _none_this_time(misused, asked)
    lines: tuple[Fact, ...] = ()
    fix = f"Step only after a backward() that reaches the parameters of {argument}: {name}.scale(loss).backward()."
    if with_gradients:
        where = names_of(misused.failure, [misused.optimizer])[0] or argument
        if (other := replaced(misused.failure, with_gradients[0], where)) is not None:
            place, lines, fix = other
            return misused.told(title, place, (*lines, asked), fix)
        lines = (f"{listed(with_gradients, 3)} has gradients, but {where} holds none of its parameters.",)
        fix = f"Pass {where} the parameters that the loss is computed from: {with_gradients[0]}.parameters()."
    return misused.told(title, misused.asked, (*lines, asked), fix, exact=False)


def _cleared(misused: Misused, here: Call, backward: Sequence[Call]) -> tuple[Place, Place] | None:
    """The last backward before a step in its function, and what clears the gradients between the two."""
    own = here.section.body.node
    runs = [each for each in backward if each.section.body.node is own and is_before(each, here)]
    cleared = [each for each in misused.calls if each.method == "zero_grad" and each.section.body.node is own]
    between = [each for each in cleared if runs and is_before(runs[-1], each) and is_before(each, here)]
    return (runs[-1].place, between[-1].place) if between else None


def _none_this_time(misused: Misused, asked: Fact | None) -> Finding:
    """What has gradients has an optimizer of its own: this step's loss does not depend on what this one holds."""
    step, argument, place = f"{misused.name}.step({misused.argument})", misused.argument, misused.asked
    owner, skipped = owner_of(misused), _skipped(misused)
    held = owner or f"the parameters of {argument}"
    title = f"{step}: {held} got no gradient in this step"
    given = misused.failure, misused.parameters
    nothing = over_nothing(*given) if skipped is None else None
    reason = nothing
    if reason is None and (skipped is None or has_run(skipped[1])):
        reason = detached(*given) or left_idle(*given)
    alone = len(found_around(misused.failure.frames, torch.optim.Optimizer)) < 2
    stands = place is not None and place.text == step
    stands = stands and not (misused.here is not None and is_shared(misused.here.section.body, misused.here.place.line))
    stepping = f"if any(p.grad is not None for group in {argument}.param_groups for p in group['params']): {step}"
    how = on_line(place, stepping) if stands and place is not None else f"`{stepping}`"
    skipping = f"Step only an optimizer that has gradients: {how}."
    if reason is not None:
        fix = reason.fix
        if reason.sometimes:
            fix = f"{skipping} {OR}{fix}" if fix else skipping
        elif not alone and nothing is None:
            leaves = marks_of(removed(place)) if stands and place is not None else ""
            fix = f"{fix} {OR}If it should not learn from this loss, leave {step} out{leaves}."
        title = f"{title}, as {reason.because}."
        return misused.told(title, reason.place, (*reason.evidence, asked), fix)
    out = left_out(*given)
    condition = out.condition if out else place
    lines = out.evidence(held) if out else (f"The loss of this step does not depend on {held}.",)
    if skipped is not None:
        condition, ran = skipped
        lines = (shown(condition, "decides whether backward runs before this step."), shown(ran, "is that backward."))
    return misused.told(
        f"{title}.",
        condition,
        (*lines, asked),
        skipping
        if skipped or out or not alone
        else f"Compute the loss from what {held} computes: look on the way for .detach(), .item(), torch.tensor() "
        f"and torch.no_grad(). Skip backward(), step() and {misused.name}.update() only in a step with nothing to "
        "train.",
        exact=skipped is not None or out is not None,
    )


def _skipped(misused: Misused) -> tuple[Place, Place] | None:
    """The condition of every backward since the last zero_grad, of which none has run, and the first of them."""
    here = misused.here
    own = [each for each in misused.calls if here is not None and each.section.body.node is here.section.body.node]
    before = [each for each in own if here is not None and is_before(each, here)]
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
    frames = misused.failure.frames
    others = [each for each, _ in found_around(frames, torch.optim.Optimizer)]
    held = {id(p) for each in others for p in parameters(each)} | {id(each) for each in misused.parameters}
    models = [
        (module, path)
        for module, path in found_around(frames, torch.nn.Module)
        if any(gradient_of(p) is not None for p in parameters_in(module))
        and not any(id(p) in held for p in parameters_in(module))
    ]
    inner = {id(m) for module, _ in models for path, m in modules_in(module) if path}
    return [path for module, path in models if id(module) not in inner]


# An optimizer whose parameters are all frozen, so that no backward gives them gradients.


def frozen_in_optimizer(misused: Misused, trained: Sequence[str], title: str, asked: Fact | None) -> Finding:
    """Name what has frozen them, or given them in the place of what is to be trained; `trained` are the modules that
    have gradients."""
    argument = misused.argument
    held = owner_of(misused) or f"all that {argument} holds"
    title = f"{title[:-1]}: {held} is frozen."
    frozen = freezing_of([held], (each for file in user_files(misused.failure) for each in freezings(file)))
    lines: list[Fact] = [shown(each, "sets requires_grad to False.", sure_if(len(frozen) == 1)) for each in frozen[:3]]
    lines += [f"{listed(trained, 3)} has gradients, but no optimizer holds its parameters."] if trained else []
    if (swap := exchanged(misused.failure, held)) is not None:
        evidence, fix = told(swap)
        return misused.told(title, swap.place, (*lines, *evidence, asked), fix)
    left = _unheld(misused)
    building = _built_early(misused, left) if left else None
    if left and (building is not None or not trained):
        names = listed(list(trained) or [each for each in names_of(misused.failure, left) if each], 4)
        lines = [*lines[: len(frozen[:3])], f"{names}: what has gradients here, no optimizer holds."]
        fix = f"{argument} needs what is to be trained: {argument}.add_param_group({{'params': [...]}}) of it."
        if building is not None:
            lines.append(shown(building[0], f"builds {argument} of what the model is then."))
            fix = f"Build {argument} after all that it is to train is made: {building[1]}."
        place = building[0] if building else misused.asked
        return misused.told(title, place, (*lines, asked), fix, exact=building is not None)
    fix = f"If {held} should be trained, do not freeze it: call {held}.requires_grad_(True) before the forward pass."
    if trained:
        fix += f" If it should not, {argument} needs the parameters of what should."
    else:
        fix += f" While it is frozen, leave {misused.name}.step({argument}) out."
    return misused.told(title, only(frozen) or misused.asked, (*lines, asked), fix, exact=False)


def _unheld(misused: Misused) -> list[torch.Tensor]:
    """The parameters of the program's modules that have gradients and that no optimizer holds."""
    frames = misused.failure.frames
    every = [misused.parameters, *(parameters(each) for each, _ in found_around(frames, torch.optim.Optimizer))]
    held = {id(one) for some in every for one in some}
    modules = (module for module, _ in found_around(frames, torch.nn.Module))
    left = {id(p): p for each in modules for p in parameters_in(each) if gradient_of(p) is not None}
    return [each for one, each in left.items() if one not in held]


def _built_early(misused: Misused, left: Sequence[torch.Tensor]) -> tuple[Place, str] | None:
    """The statement that builds the optimizer of all that a module has then, and how to move it to where the module
    has these as well: above the loop that trains, if nothing reads the optimizer before."""
    built, here, level = only(_assigned(misused.failure, misused.argument)), misused.here, misused.failure.user
    loops = [arm for arm, _ in here.spot.arms if isinstance(arm, LOOPS)] if here is not None else []
    if built is None or here is None or level is None or not loops or built.body.node is not here.section.body.node:
        return None
    listing = (call for call in calls_in(built.statement) if callee(call)[1] == "parameters")
    modules = [value_of(level, receiver) for call in listing if (receiver := callee(call)[0]) is not None]
    own = {id(p) for each in modules if is_module(each) for p in parameters_in(each)}
    first, last = built.statement.lineno, loops[0].lineno
    between = [each for each in statements(built.body.node) if first < each.lineno < last]
    read = any(misused.argument in names_read(each) for each in between)
    if first > last or read or not all(id(each) in own for each in left):
        return None
    building, loop = built.body.place(built.statement), built.body.place(loops[0])
    words = f"move line {first}, `{building.text}`, above the loop on line {last}"
    return building, f"{words}{move(building, 'above', loop)}"


def owner_of(misused: Misused) -> str:
    """What the program calls the largest module all of whose parameters the optimizer holds; empty if there is none."""
    held = {id(each) for each in misused.parameters}
    every = [(list(parameters_in(m)), path) for m, path in found_around(misused.failure.frames, torch.nn.Module)]
    owned = [(len(ps), path) for ps, path in every if ps and all(id(p) in held for p in ps)]
    return max(owned, key=lambda each: each[0], default=(0, ""))[1]


# A model that was replaced by another one after its optimizer was built: the optimizer still holds the old weights.


def replaced(failure: Failure, model: str, optimizer: str) -> tuple[Place, tuple[Evidence, ...], str] | None:
    """Return the one statement that assigns another model, with evidence and fix; None where none or several do.

    The optimizer is known to hold no parameter of the model as it is now. What is assigned above the optimizer, in the
    same function, is what it was built for.
    """
    built, every = list(_assigned(failure, optimizer)), list(_assigned(failure, model))
    found = [
        given
        for given in every
        if not any(given.body.node is one.body.node and given.statement.lineno < one.statement.lineno for one in built)
    ]
    if len(found) != 1 or len(built) != 1 or len(every) == 1:  # the only one replaces nothing
        return None
    body, statement, target, value = found[0]
    place, building = body.place(statement), built[0].body.place(built[0].statement)
    evidence = (
        shown(building, f"builds {optimizer} for the model that {model} is then."),
        shown(place, f"replaces it by another one, whose parameters {optimizer} does not hold."),
    )
    match value:
        case ast.Call(args=[copied, *_]) as call if callee(call)[1] == "deepcopy":
            loading = f"{target}.load_state_dict({body.text(copied)}.state_dict())"
            how = f"write `{loading}`{instead(body, statement, loading)}"
            if len(list(targets(statement))) > 1:
                left = _without(body, statement, target)
                both = instead(body, statement, f"{loading}; {left}") if left else ""
                how = f"leave {target} out, and write `{loading}` above it{both}"
            fix = f"On line {place.line}, {how}: it changes the values of the weights that {optimizer} holds."
        case _:
            again = repeat(building, "below", place) if built[0].body.node is body.node else ""
            fix = f"Build {optimizer} again below line {place.line}, as line {building.line} does{again}."
    return place, evidence, fix


def _without(body: Body, statement: ast.stmt, target: str) -> str:
    """`self.a, self.b = x, y` without one of its targets; empty for another form."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=goals)], value=ast.Tuple(elts=values)) if len(goals) == len(values):
            left = [(body.text(a), body.text(b)) for a, b in zip(goals, values, strict=True) if dotted(a) != target]
            return f"{', '.join(a for a, _ in left)} = {', '.join(b for _, b in left)}"
    return ""


class _Assigned(NamedTuple):
    body: Body
    statement: ast.stmt
    target: str
    value: ast.expr


def _assigned(failure: Failure, name: str) -> Iterator[_Assigned]:
    """The statements of the program's files that assign an attribute by this name, or a variable."""
    last = name.rpartition(".")[2]
    for body, each in statements_of(*user_files(failure)):
        for goal, value in assigned(each):
            target = dotted(goal)
            if target is not None and ("." in target) == ("." in name) and target.rpartition(".")[2] == last:
                yield _Assigned(body, each, target, value)
