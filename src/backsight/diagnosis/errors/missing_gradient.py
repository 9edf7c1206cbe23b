"""BS213: a program goes on with a gradient that is None."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.gradient_returned import gradient_returned, returned_none
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.errors.warned import below, of_result
from backsight.diagnosis.evidence.gradients import Read, gone_through, gradient_read, holder_of, made
from backsight.diagnosis.evidence.idle import Reason, idle_in, parameter_at, reason_for, trainable, whole
from backsight.diagnosis.evidence.left_out import detached, left_out
from backsight.diagnosis.evidence.over_nothing import over_nothing
from backsight.diagnosis.evidence.values_alone import values_alone
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, listed, shown, tensor_of
from backsight.findings.evidence import Fact, as_read, evidence_of
from backsight.snapshot import survey
from backsight.source import Body, Place, backward_calls, backward_roots
from backsight.source.bindings import arms_of, spots, target_names
from backsight.source.body import LOOPS, callee, calls_in, dotted, expressions, functions, statements
from backsight.source.edits import OR, move, on_line
from backsight.source.rewriting import rewritten
from backsight.story.cuts import met_in
from backsight.story.failure import Failure, failure_of
from backsight.story.files import user_files
from backsight.story.fixes import too
from backsight.story.memory import gradient_of, is_tensor, maker_of, needs_gradient, shape_of
from backsight.tracing import current


def reads_none(error: BaseException) -> bool:
    """Whether an error about None comes from a statement that reads a gradient which is None."""
    if not issubclass(type(error), AttributeError | TypeError):
        return False
    failure = failure_of(error)
    return gradient_read(failure) is not None or gradient_returned(failure) is not None


@explains("BS213", r"NoneType", when=reads_none)
def missing_gradient(failure: Failure, match: re.Match[str]) -> Finding:
    """Say why backward has left no gradient in the tensor."""
    read, returned = gradient_read(failure), gradient_returned(failure)
    if read is None and returned is not None:
        return returned_none(failure, returned)
    assert read is not None  # as `reads_none` has seen
    if read.is_result:
        origin = made(read)
        return of_result(read, origin, origin.place if origin else read.place)
    asked, cleared = needs_gradient(read.tensor), clearing(read)
    untimely = _untimely(failure, read) if asked else None
    usual = not asked or untimely or _have_some(_siblings(failure, read)) or _take_turns(failure)
    if cleared is not None and usual:
        return _nothing_to_clear(read, cleared)
    if not asked:
        return _not_asked(failure, read)
    return untimely or _unreached(failure, read)


def _nothing_to_clear(read: Read, cleared: Clearing) -> Finding:
    """A statement that only clears the gradient loses nothing where there is none, whatever the reason is."""
    if needs_gradient(read.tensor):
        why_none = f"{read.name} has none before a backward() reaches it, and none after zero_grad()."
    else:
        why_none = f"{read.name} does not require grad, so backward() leaves none in it."
    return explanation(
        f"{read.name}.grad is None: there is no gradient to {cleared.verb}.",
        (shown(read.level.place, f"expects a gradient. {why_none}"),),
        f"{_guarding(read, cleared)} The zero_grad() of an optimizer or a module does the same.",
        source=read.level.place,
    )


def _guarding(read: Read, cleared: Clearing) -> str:
    """The statement for those alone that have a gradient, and those that would be the next to fail."""
    lines = {read.level.place: cleared.guarded, **cleared.also}
    if not cleared.guarded:
        return f"Skip what has no gradient: `if {cleared.gradient} is not None`."
    if not all(lines.values()):
        also = too([each.line for each in cleared.also])
        return f"On line {read.level.place.line}, write `{cleared.guarded}`.{also}"
    written = listed([on_line(place, code) for place, code in lines.items()], len(lines))
    return f"{written[:1].upper()}{written[1:]}."


def _below(failure: Failure, zeroed: Place) -> str:
    """How a statement that zeroes comes after the one that reads, where one function runs both."""
    for level in failure.users:
        inside = level.body is not None and any(each.lineno == zeroed.line for each in statements(level.body.node))
        if inside and level.body is not None and zeroed.file == level.place.file and zeroed.line < level.place.line:
            arms = arms_of(level.body, level.statement)
            around = next((arm for arm, _ in arms if arm.lineno > zeroed.line), None)
            words, edit = f"line {level.place.line}", move(zeroed, "below", level.place)
            if around is not None:
                what = "loop" if isinstance(around, LOOPS) else "block"
                words, edit = f"the {what} on line {around.lineno}", move(zeroed, "beside", level.body.place(around))
            return f": move line {zeroed.line}, `{zeroed.text}`, below {words}{edit}"
    return ""


def _not_asked(failure: Failure, read: Read) -> Finding:
    origin, shape = made(read), tensor_of(shape_of(read.tensor))
    asking = (
        f"Call {read.name}.requires_grad_() before computing anything from it{below(origin, 'requires_grad_')}; "
        "backward() then sets its .grad."
    )
    if _goes_through_others(read) and _have_some(_siblings(failure, read)):
        asking = f"{_skipping(read)} {OR}Or, to train it as well: {asking[0].lower()}{asking[1:]}"
    return explanation(
        f"{read.name}.grad is None: {read.name} does not require grad.",
        (
            shown(origin.place, f"creates {read.name}, {shape}, without requires_grad=True.") if origin else None,
            _reading(read),
        ),
        asking,
        source=origin.place if origin else read.place,
    )


def _goes_through_others(read: Read) -> bool:
    """Whether the statement reads the gradients of several tensors, one after the other, in a loop."""
    loops = [arm for arm, _ in arms_of(read.level.body, read.level.statement) if isinstance(arm, ast.For)]
    inner = [each for node in expressions(read.level.statement) for each in getattr(node, "generators", ())]
    return read.text in target_names(*(each.target for each in (*loops, *inner)))


def _untimely(failure: Failure, read: Read) -> Finding | None:
    """The gradient was set to None after the backward, or is read before it."""
    if _have_some(_siblings(failure, read)):
        return None
    place, name, later = _last_call(failure) or (None, "", None)
    watch, reading = current(), _reading(read)
    unseen = watch is not None and watch.level != "calls" and not watch.backwards
    if later is None and not unseen:
        if place is None or name == "backward":
            return None
        return explanation(
            f"{read.name}.grad is None: zero_grad() set it to None.",
            (shown(place, "sets the gradients to None, its default."), reading),
            f"Read the gradients between backward() and zero_grad(){_below(failure, place)}. "
            "zero_grad(set_to_none=False) won't help: it leaves zeros.",
            source=place,
        )
    if name == "backward" and not unseen:
        return None
    when = if_known(later, "would set it, but runs later.")
    runs = backward_calls(failure.user.body) if failure.user is not None and later is None else ()
    later = next((each for each in runs if each.position > read.place.position), later)
    fix = "Read it after backward(): move the line below that."
    if later is not None:
        after = f"line {later.line}"
        moved, edit = _block(read, later) if later.file == read.place.file else ("the line", "")
        fix = f"Read it after {after}, where backward() runs: move {moved} below {after}{edit}."
    before = f"{read.name}.grad is None: it is read before backward() sets it."
    return explanation(before, (reading, when), fix, source=read.place)


def _block(read: Read, later: Place) -> tuple[str, str]:
    """The statement that reads the gradient, with the blocks around it that end before another; and the edit."""
    body, place = read.level.body, read.place
    arms = next((each.arms for each in spots(body.node) if body.place(each.node) == place), ()) if body else ()
    for arm, _ in arms:
        if arm.lineno < (arm.end_lineno or 0) < later.line:
            whole = Place(place.file, arm.lineno, "")
            words = f"lines {arm.lineno} to {arm.end_lineno}, the block around `{place.text}`,"
            return words, str(move(whole, "below", later))
    return f"line {place.line}, `{place.text}`,", str(move(place, "below", later))


def _last_call(failure: Failure) -> tuple[Place, str, Place | None] | None:
    """The last `zero_grad()` or backward before the failing statement, and a backward that comes after it."""
    for level in failure.users:
        if level.body is None:
            continue
        here = level.place.position
        every = [*_named(level.body, "zero_grad"), *((place, "backward") for place in backward_calls(level.body))]
        before = [each for each in every if each[0].position < here]
        after = [place for place, name in every if name == "backward" and place.position > here]
        if before or after:
            place, name = max(before, key=lambda each: each[0].position, default=(after[0] if after else None, "none"))
            return (place, name, after[0] if after else None) if place is not None else None
    return None


def _named(body: Body, method: str) -> Iterator[tuple[Place, str]]:
    for each in statements(body.node):
        if any(callee(node)[1] == method for node in calls_in(each)):
            yield body.place(each), method


def _unreached(failure: Failure, read: Read) -> Finding:
    """The loss was not computed from it."""
    siblings, turns = _siblings(failure, read), _take_turns(failure)
    others = _have_some(siblings)
    bare = [read.tensor, *(each for each in siblings if gradient_of(each) is None)]
    reason = over_nothing(failure, bare) or detached(failure, bare)
    if reason is not None and turns:  # other losses may reach it: then it need not be a mistake
        fix = f"{_skipping(read)} {OR}If this loss should train {read.name}: {reason.fix[:1].lower()}{reason.fix[1:]}"
        reason = replace(reason, place=read.place, fix=fix)
    reason = reason or _in_module(failure, read) or (None if others else _of_other_leaves(failure, read))
    out = left_out(failure, [read.tensor]) if others and reason is None else None
    exact = others or (reason is not None and (reason.held or _was_seen(failure, read, reason)))
    evidence = reason.evidence if reason else out.evidence(read.name) if out else ()
    known = " Other parameters have one." if others else ""
    since = " since the last zero_grad()" if others and _is_zeroed(failure) else ""
    if reason and reason.sometimes:  # a part of a model that runs only under a condition
        part = read.name.rpartition(".")[0] or read.name
        fix = f"{_skipping(read)} If the loss should train {part}, let it run in every step."
    elif reason:
        fix = reason.fix
    elif out:
        fix = f"{_skipping(read)} {OR}Or include that term in every step."
    elif turns:
        fix = f"{_skipping(read)} If this loss should train {read.name}, compute it from {read.name}."
    else:
        fix = (
            f"Make the loss depend on the current {read.name}: replace it, or set its requires_grad, before the "
            f"forward pass. {OR}Or skip parameters without a gradient: `if {read.text}.grad is not None`."
        )
    return explanation(
        f"{read.name}.grad is None: no backward() has reached {read.name}{since}.",
        (
            *(evidence if exact else as_read(evidence)),
            shown(read.place, f"reads {read.text}.grad, which is None.{known}"),
        ),
        fix,
        source=reason.place if reason else out.condition if out else read.place,
        exact=exact,
    )


def _take_turns(failure: Failure) -> bool:
    """Whether the program runs backward in several places: then no loss need reach every parameter."""
    found = (place for each in user_files(failure) for body in functions(each) for place in backward_calls(body))
    return len(dict.fromkeys(found)) > 1


def _skipping(read: Read) -> str:
    new = _skipped(read)
    how = on_line(read.level.place, new) if new else f"`if {read.text}.grad is not None`"
    return f"Skip parameters without a gradient: {how}."


def _skipped(read: Read) -> str:
    """The statement that reads the gradients, with those left out that are None."""
    body, statement, condition = read.level.body, read.level.statement, f"{read.text}.grad is not None"
    if body is None or statement is None or read.place.position != read.level.place.position:
        return ""
    loops = [each for node in expressions(statement) for each in getattr(node, "generators", ())]
    around = next((each for each in loops if read.text in target_names(each.target)), None)
    if around is not None:
        new = f"{body.text(around.iter)} if {condition}"
        return "" if around.ifs else rewritten(body, statement, {around.iter: new})
    alone = body.lines[statement.lineno - 1].strip() == body.text(statement)
    simple = isinstance(statement, ast.AugAssign | ast.Expr) and alone
    return f"if {condition}: {body.text(statement)}" if simple else ""


def _is_zeroed(failure: Failure) -> bool:
    """Whether the functions that run set gradients to None, so that an earlier backward may have reached it."""
    return any(True for level in failure.users if level.body for _ in _named(level.body, "zero_grad"))


def _was_seen(failure: Failure, read: Read, reason: Reason) -> bool:
    """Whether a watch has seen that statement, or another of the same way, cut off what a loss was computed from."""
    places = [each.place for each in map(evidence_of, reason.evidence) if each.place is not None]
    losses = [each.value(root) for each in failure.users for root, _ in backward_roots(each.body)]
    for loss in losses:
        if is_tensor(loss) and maker_of(loss) is not None:
            met = met_in(survey((loss,), frames=failure.frames).graph, [read.tensor])
            if any(cut.is_at(place) for cut, _ in met for place in places):
                return True
    return False


def _in_module(failure: Failure, read: Read) -> Reason | None:
    """Why the module that has it does not use it."""
    holder = holder_of(failure, read.tensor)
    if holder is None:
        return None
    every = list(trainable(holder.module))
    missing = [path for path in every if gradient_of(parameter_at(holder.module, path)) is None]
    own = f"{holder.parameter}."
    paths = [path for path in whole(missing, every) if own.startswith(f"{path}.")]
    return reason_for(failure, [idle_in(holder.module, path) for path in paths])


def _of_other_leaves(failure: Failure, read: Read) -> Reason | None:
    """The loss was computed from other leaves, into which values were written that are computed from it."""
    for level in failure.users:
        for receiver, _ in backward_roots(level.body):
            loss = level.value(receiver)
            if not is_tensor(loss) or maker_of(loss) is None:
                continue
            leaves = survey((loss,), frames=failure.frames).graph.leaves
            if not leaves or any(leaf.tensor() is read.tensor for leaf in leaves):
                continue
            held = [each for leaf in leaves if (each := leaf.tensor()) is not None]
            if (written := values_alone(failure, held, read.tensor)) is not None:
                return written
    return None


def _siblings(failure: Failure, read: Read) -> list[torch.Tensor]:
    """The other parameters of the model that has it, and the other tensors that the statement goes through."""
    holder = holder_of(failure, read.tensor)
    found = [parameter_at(holder.module, path) for path in trainable(holder.module)] if holder else []
    found += gone_through(read)
    return [each for each in found if isinstance(each, torch.Tensor) and each is not read.tensor]


def _have_some(tensors: list[torch.Tensor]) -> bool:
    return any(gradient_of(each) is not None for each in tensors)


def _reading(read: Read) -> Fact:
    return shown(read.place, f"reads {read.text}.grad, which is None.")


# A statement that only clears a gradient, `p.grad.zero_()`: where there is none, nothing is to be done.


_VERBS = {"zero_": "zero", "fill_": "zero", "mul_": "zero", "detach_": "detach"}


class Clearing(NamedTuple):
    """What the failing statement clears: what it says for it, `to zero`, and the statement with a condition.

    also: the statements of the function that do the same with a gradient, and the next of which fails as this one did;
    each with a condition, likewise.
    """

    gradient: str
    verb: str
    guarded: str
    also: dict[Place, str]


def clearing(read: Read) -> Clearing | None:
    """Return what the failing statement clears; None where it needs the gradient for something else."""
    body, statement = read.level.body, read.level.statement
    if body is None or statement is None:
        return None
    found = next((each for call in calls_in(statement) if (each := _cleared(body, call, read))), None)
    if found is None:
        return None
    gradient, verb = found
    return Clearing(gradient, verb, _guarded(body, statement, gradient), dict(_alike(read, body, statement)))


def _guarded(body: Body, statement: ast.stmt, gradient: str) -> str:
    stands_alone = body.lines[statement.lineno - 1].strip() == body.text(statement)
    simple = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and stands_alone
    return f"if {gradient} is not None: {body.text(statement)}" if simple else ""


def _alike(read: Read, body: Body, statement: ast.stmt) -> Iterator[tuple[Place, str]]:
    for each in statements(body.node):
        if each is not statement and isinstance(each, ast.Expr):
            none = next((text for call in calls_in(each) if (text := _none(body, call, read))), "")
            if none:
                yield body.place(each), _guarded(body, each, none)


def _none(body: Body, call: ast.Call, read: Read) -> str:
    """The gradient that a call clears, if that is None, too."""
    found = _kind(call)
    name = dotted(found[0].value) if found and isinstance(found[0], ast.Attribute) else None
    tensor = read.level.value(name) if name else None
    alike = name == read.text or (is_tensor(tensor) and gradient_of(tensor) is None)
    return body.text(found[0]) if found and alike else ""


def _cleared(body: Body, call: ast.Call, read: Read) -> tuple[str, str] | None:
    """The gradient that a call clears, as it is written, if it is the one that was read."""
    found = _kind(call)
    if found is None:
        return None
    gradient, verb = found
    text = body.text(gradient)
    taken = isinstance(gradient, ast.Name) and read.place.position < read.level.place.position  # g = p.grad
    if text != f"{read.text}.grad" and not (taken and read.level.value(text) is None):
        return None
    return text, verb


def _kind(call: ast.Call) -> tuple[ast.expr, str] | None:
    """What a call clears, and how: `p.grad` of `p.grad.data.zero_()`."""
    receiver, method = callee(call)
    if method in ("fill_", "mul_") and [getattr(each, "value", None) for each in call.args] != [0]:
        return None
    if isinstance(receiver, ast.Attribute) and receiver.attr == "data":
        receiver = receiver.value
    known = isinstance(receiver, ast.Name) or (isinstance(receiver, ast.Attribute) and receiver.attr == "grad")
    return (receiver, _VERBS[method]) if receiver is not None and known and method in _VERBS else None
