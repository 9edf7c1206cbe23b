"""BS202: a tensor that an operation had saved for its backward was modified in place.

The operation that failed still has its saved tensors, so the tensor, who saved it and its versions are exact. Who
changed it is asked of the story.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.modified.stepped import changed_by_step
from backsight.diagnosis.errors.modified.wording import needs, spoken, why_saved
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, failing, listed, lost, shaped, shown, tensor_of
from backsight.findings.evidence import Fact
from backsight.snapshot import Survey, survey
from backsight.source import Place, assignments, loop_facts, only, statement_at
from backsight.source.body import body_around, callee, dotted, expressions
from backsight.source.changes import memory_of, read_before_written
from backsight.source.definitions import values_of
from backsight.story.changes import Changed, changed_by_module, changes, shared_at, stale, stale_beside
from backsight.story.failure import Failure, around_engine
from backsight.story.files import calls_in_files
from backsight.story.fixes import leave_as_it_was, reads_itself, without_working_in_place
from backsight.story.memory import base_of, needs_gradient, shape_of
from backsight.story.subject import Subject
from backsight.tape import Node, Saved
from backsight.tape.ops import op_name

_DETAILS = re.compile(
    r"\[\S+ (?:\[(?P<shape>[\d, ]*)\]|.*?)\](?:, which is output \d+ of (?P<op>[^,]+),)? "
    r"is at version (?P<version>\d+); expected version (?P<expected>\d+)",
    re.DOTALL,
)
"""A nested tensor has a table in place of its shape, over several lines; an operation of C++ may have a namespace."""

_FIX = (
    "Create a new tensor instead of modifying the old one: x = x + 1, not x += 1. Or modify a copy: x = x.clone() "
    "first. If an optimizer modified it, compute the loss after its step()."
)


_NAMED = 2
"""Other tensors that a title names, too."""


@dataclass(frozen=True)
class Said:
    """What the message tells of the tensor: `writer` is the operation that created it, or modified it last.

    shape: None for a nested tensor, which has none.
    """

    shape: tuple[int, ...] | None
    version: int
    expected: int
    writer: str


@explains("BS202", r"modified by an inplace operation")
def modified_in_place(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, who saved it, and the statement, step or module that changed it."""
    failure, said = failure if failure.roots else around_engine(failure), said_by(failure.message)
    surveyed = survey(failure.roots, frames=failure.frames) if any(map(needs_gradient, failure.roots)) else None
    found = _modified(surveyed, said) if surveyed else None
    if surveyed is None or found is None:
        return _by_message(failure, said)
    subject = Subject(failure, surveyed, *found, writer=said.writer if said else "")
    every = changes(subject)
    return (
        changed_by_step(subject, [each for each in every if each.by == "optimizer"])
        or _changed(subject, [each for each in every if each.by == "statement"])
        or _unlocated(subject)
    )


def _changed(subject: Subject, found: Sequence[Changed]) -> Finding | None:
    """One statement did it, or several; or several may have done it."""
    if not found:
        return None
    first = found[0]
    sure = first.certainty != "read"
    held = "" if subject.is_held_in_part and first.outer else subject.holder
    name = ((sure or subject.is_weight) and held) or first.outer or _described(subject)
    view = _is_view(subject, first)
    through = f" through {first.name}, a view of it," if view and first.name != name else ""
    operation = _operation(subject)
    title = f"{_capital(name)} was modified in place{through} after {spoken(operation)} had saved it for backward."
    if first.path:
        who = f"{first.path}, {a_kind(first.module)} created with inplace=True,"
        title = f"{who} changed what {spoken(operation)} had saved for backward."
    beside = [] if first.path else [*stale_beside(subject, found)]
    names = [each for other, changed in beside if (each := other.holder or changed.name)]
    if beside and len(names) == len(beside) <= _NAMED and not view:
        alike = {_operation(other) for other, _ in beside} == {operation}
        by = spoken(operation) if alike else "operations"
        title = f"{_capital(listed([name, *names]))} were modified in place after {by} had saved them for backward."
    exact = first.certainty == "seen" or (first.certainty == "held" and len(found) in (1, subject.times))
    return explanation(
        title,
        (
            *_sharing(subject, first),
            _saving(subject, first, name if view or _inside(subject, first) else first.outer or name),
            *(
                shown(each.place, _does(each), each.certainty)
                for each in found
                if each.saver != each.place or each.path
            ),
            *(shown(changed.place, _does_too(changed), changed.certainty) for _, changed in beside),
            *needs(subject),
            "(It is unknown which of these statements ran after the tensor was saved.)" if sure and not exact else None,
        ),
        leave_as_it_was(subject, first, name if view else "", found[1:], beside),
        source=first.place,
        exact=exact,
    )


def _sharing(subject: Subject, changed: Changed) -> list[Fact]:
    """The property that returned the tensor itself; the statement that only gave it another name, `out = x`."""
    found = shared_at(subject, changed)
    if found:
        return [shown(found.place, f"returns {found.name} itself, or a view of its memory.")]
    body = changed.scene.section.body if changed.scene is not None else None
    facts, line = loop_facts(body, changed.place.line), changed.place.line
    loop = statement_at(body, *facts.loop.position) if facts is not None else None
    last = (loop.end_lineno or line) if loop is not None else line  # what follows the loop gives it nothing here
    every = assignments(body, changed.name, before=last + 1) if body is not None and changed.name.isidentifier() else ()
    bound = ((each, statement_at(body, *each.position)) for each in every)
    place, statement = only([each for each in bound if not isinstance(each[1], ast.AugAssign)]) or (None, None)
    given = dotted(statement.value) if isinstance(statement, ast.Assign) else None
    if place is None or given is None or len(getattr(statement, "targets", ())) != 1:
        return []
    return [shown(place, f"makes no copy: {changed.name} is {given} itself.")]


def _is_view(subject: Subject, changed: Changed) -> bool:
    """Whether the statement changes the tensor through a view of it that has a name of its own."""
    value = changed.scene.section.value(changed.name) if changed.scene and changed.name else None
    return (
        changed.certainty != "read"
        and base_of(value) is not None
        and not subject.leaf
        and (shape_of(value) != subject.saved.shape and subject.is_held_by(value))
    )


def _inside(subject: Subject, changed: Changed) -> bool:
    """Whether the statement changes what a container holds."""
    return changed.scene is not None and subject.in_container(changed.scene.section.value(changed.name))


def _saving(subject: Subject, changed: Changed, name: str) -> Fact:
    """Where the tensor was saved, and why."""
    reason = _reason(subject)
    saver = changed.saver
    if saver is None:
        return f"{_saved(subject)} {lost('Where it was saved')}"
    if saver == changed.place and not changed.path:
        body = body_around(saver.file, saver.line)
        statement = statement_at(body, saver.line)
        if statement is not None and reads_itself(statement, changed.name):
            return shown(saver, f"saves a part of {name}, then writes into {name}: {reason}.", changed.certainty)
        first = body.text(read) if body and (read := read_before_written(statement, changed.name)) else ""
        if first:
            does = f"computes `{first}`, which saves {name}, and then modifies {name} in place: {reason}."
            return shown(saver, does, changed.certainty)
        again = "the next iteration " if loop_facts(body, saver.line) is not None else ""
        return shown(saver, f"saves {name}, and {again}modifies it in place: {reason}.", changed.certainty)
    where = f"in {subject.module}, " if subject.module and _is_of_module(subject, changed) else ""
    what = name if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", saver.text) else _read_as(saver, name)
    return shown(saver, f"{where}saves {what}: {reason}.", changed.certainty)


def _read_as(saver: Place, name: str) -> str:
    """What the statement that saves a tensor reads it as, `part, a view of x`, where it has one such variable."""
    body = body_around(saver.file, saver.line)
    read = {dotted(each) or "" for each in expressions(statement_at(body, saver.line))} - {name}
    values = ((each, only(values_of(body, each, saver.line))) for each in read if body and each.isidentifier())
    view = only(each for each, value in values if value is not None and memory_of(value) == name)
    return f"{view}, a view of {name}" if view else "it"


def _saved(subject: Subject) -> str:
    """Which operation saved the tensor, where no statement is known."""
    of = f" in {subject.module}" if subject.module else ""
    what = "its result" if subject.is_result else f"it as `{subject.saved.name}`"
    return f"{subject.node.name}{of} saved {what}: {_reason(subject)}."


def _is_of_module(subject: Subject, changed: Changed) -> bool:
    """Whether the statement stands in the forward of the module that is said to have run the operation.

    Of the modules in a list the reader of a loop takes the first, so that its `self` tells the class and no more.
    """
    if changed.certainty == "seen":
        return True
    scene, module = changed.scene, next(iter(subject.modules), None)
    if scene is None or scene.function != "forward" or module is None:
        return False
    held = scene.section.variables
    return type(held.get("self")) is type(module) or any(module is each for each in held.values())


def _does(changed: Changed) -> str:
    """What the statement does."""
    scene = changed.scene
    times = {1: "", 2: ", twice"}.get(changed.count, f", {changed.count} times")
    if changed.path:
        return f"runs {changed.path}, which overwrites its input{times}."
    via = f" in {changed.via}" if changed.via and changed.via.split(".")[-1] not in changed.place.text else ""
    also = f", which is {changed.outer}," if changed.outer != changed.name else ""
    if scene and changed.name in scene.running:
        also = ", which iterates over the parameters,"
    called = f"; {scene.function} was called at line {scene.call.line}" if scene and scene.call else ""
    because = f": this {changed.module} was created with inplace=True" if changed.module else ""
    if changed.via in _LOOKUPS:
        because = ": it has a max_norm, to which it rescales the rows that it looks up"
    return f"modifies {changed.name or 'it'}{also} in place{via}{_when(changed)}{times}{called}{because}."


_LOOKUPS = ("Embedding.forward", "EmbeddingBag.forward")
"""What changes its weight in place if it has a `max_norm`, and for no other reason."""


def _does_too(changed: Changed) -> str:
    """What a statement does to another tensor that this backward needs."""
    name = changed.outer or changed.name or "another tensor"
    when = f"after line {changed.saver.line} had saved it" if changed.saver else "which is needed as well"
    return f"also modifies {name} in place, {when}."


def _when(changed: Changed) -> str:
    """`, in a later iteration`, where the statement stands before the one that saved."""
    scene, saver = changed.scene, changed.saver
    around = body_around(saver.file, saver.line) if saver else None
    if scene is None or saver is None or around is None or around.node is not scene.section.body.node:
        return ""
    if saver.line <= changed.place.line:
        return ""
    again = "iteration" if loop_facts(scene.section.body, changed.place.line) else "call"
    return f", in a later {again}" if again == "iteration" or scene.section.level is None else ""


def _unlocated(subject: Subject) -> Finding:
    """Tensor and operation are known, and no statement: a module made with `inplace=True` changed it, or who knows."""
    operation = spoken(_operation(subject))
    kind, path = changed_by_module(subject)
    if kind:
        who = f"{path}, {a_kind(kind)} created with inplace=True," if path else f"A {kind} created with inplace=True"
        title = f"{who} changed what {operation} had saved for backward."
        fix = without_working_in_place(subject, kind, path)
        how = f"{path or f'A {kind}'} overwrites its input. {lost('Where the tensor was saved')}"
    else:
        name = subject.holder or _described(subject)
        title, fix = f"{_capital(name)} was modified in place after {operation} had saved it for backward.", _FIX
        how = lost("Where it was saved and modified")
    lines = (_saved(subject), *needs(subject), how)
    return explanation(title, lines, fix, source=subject.failure.source, exact=bool(path))


def _by_message(failure: Failure, said: Said | None) -> Finding:
    """Only the text of the error is at hand."""
    what = f"A tensor of shape {shaped(said.shape)}" if said and said.shape is not None else "A tensor"
    lines: list[Fact] = [*failing(failure, "is the call that failed.")]
    if said:
        lines.append(f"It was saved at version {said.expected} and is at version {said.version} now.")
    if said and said.writer:
        function = _function(said.writer)
        lines.append(f"{function} created it, or modified it last.")
        alike = only(each for each in calls_in_files(failure) if callee(each[2])[1] == f"{function}_")
        if alike is not None:
            place = alike[0].place(alike[1])
            lines.append(shown(place, f"is the only call of {function}_() in the program.", "read"))
    return explanation(
        f"{what} that backward needs was modified in place after the forward pass saved it.",
        lines,
        _FIX,
        source=failure.source,
        exact=False,
    )


def _operation(subject: Subject) -> str:
    """The operation that saved the tensor, as a person would write it: `sigmoid`."""
    return subject.node.op if subject.node.kind == "custom" else subject.node.op.lower()


def _reason(subject: Subject) -> str:
    return why_saved(_operation(subject), subject.is_result, subject.node.kind == "custom")


def _described(subject: Subject) -> str:
    """`a tensor of shape 3×4`, for one without a name."""
    return tensor_of(subject.saved.shape)


def _capital(name: str) -> str:
    """A description as the beginning of a sentence; a name of the program's as it is."""
    return f"A{name[1:]}" if name.startswith("a ") else name


def _function(operation: str) -> str:
    """The function of PyTorch that an operation is of: `clamp` of `Clamp1`; else its name."""
    name = operation.lower()
    return next((each for each in (name, name.rstrip("0123456789")) if hasattr(torch, each)), operation)


def said_by(message: str) -> Said | None:
    """Read PyTorch's message."""
    found = _DETAILS.search(message)
    if found is None:
        return None
    sizes = found["shape"]
    shape = None if sizes is None else tuple(int(size) for size in sizes.split(",") if size.strip())
    writer = op_name((found["op"] or "").rpartition("::")[2])
    return Said(shape, int(found["version"]), int(found["expected"]), writer)


def _modified(surveyed: Survey, said: Said | None) -> tuple[Node, Saved] | None:
    """Return the operation that failed, and the saved tensor that it failed for: the first that fits the message."""
    found = stale(surveyed.graph)
    wanted = (said.shape, said.version, said.expected) if said else None
    fitting = (pair for pair in found if (pair[1].shape, pair[1].version, pair[1].expected) == wanted)
    return next(fitting, next(iter(found), None))
