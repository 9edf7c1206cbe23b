"""A statement of the user's changed the saved tensor: `x[0] = 0`, `x += y`, `x.clamp_()`, `nn.ReLU(inplace=True)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from backsight.diagnosis.errors.modified.case import Case, said_by
from backsight.diagnosis.errors.modified.fixes import fix
from backsight.diagnosis.errors.modified.scenes import Scene, scenes
from backsight.diagnosis.errors.modified.spelling import is_spelled, spoken, why_saved
from backsight.diagnosis.evidence.memory import is_tensor, shape_of, storage_of
from backsight.diagnosis.evidence.written import works_in_place
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.naming.plain import class_name
from backsight.source import Place, assignments, inplace_changes, loop_facts, statement_at
from backsight.source.bindings import spots, uses
from backsight.source.body import Body, blocks, dotted, expressions, statements
from backsight.source.changes import is_tensor_data, makes_new

_ENOUGH = 2
"""The least score of a statement on which the text alone may lay the blame."""

_PLAIN = 3
"""The score of a statement after the one that saved: nobody else need be looked for."""


@dataclass(frozen=True, eq=False)
class Change:
    """A statement that may have changed the tensor.

    name: what it calls the tensor. sure: whether that name stands for this very memory now.
    saver: the statement that may have saved the tensor.
    module: the class of the module that works in place, if the text of the statement does not show that it does.
    score: how much speaks for it.
    """

    scene: Scene
    name: str
    place: Place
    sure: bool
    saver: Place | None
    module: str
    score: int


def changed_by_statement(case: Case) -> Finding | None:
    """A statement in a function on the way to the loss changes a name that holds the saved tensor, or held it."""
    seen: list[Scene] = []
    sure: list[Change] = []
    for scene in scenes(case):
        seen.append(scene)
        sure += _changes(case, scene, scene.held | scene.running)
        if any(each.score >= _PLAIN for each in sure):
            break
    found = sure or [each for scene in seen for each in _changes(case, scene, scene.names) if each.score >= _ENOUGH]
    best = max((each.score for each in found), default=0)
    likely = [each for each in found if each.score == best]
    return _finding(case, likely) if likely else None


def _changes(case: Case, scene: Scene, names: Collection[str]) -> Iterator[Change]:
    for statement, name, module in _in_place(scene, names):
        place = scene.section.body.place(statement)
        value = scene.section.value(name)
        sure = name in scene.held or name in scene.running
        if sure or not _holds_another(scene, name, place, value):
            saver = _saver(case, scene, name, place)
            if _ran_before(scene, name, place, saver) or (not sure and _is_another(scene, name, place, saver)):
                continue
            yield Change(scene, name, place, sure, saver, module, _score(case, scene, place, saver))


def _in_place(scene: Scene, names: Collection[str]) -> Iterator[tuple[ast.stmt, str, str]]:
    """The statements that change one of `names` in a way that counts as a new version, and the class of the module if
    one that works in place does it. A change through `.data` does not count."""
    body, value = scene.section.body, scene.section.value
    for statement in statements(body.node):
        used = [use.name for use in uses(statement) if use.name in names]
        if not used or any(True for _ in blocks(statement)):
            continue
        alone = Body(body.file, ast.Module([statement], []), body.lines)
        called = {dotted(call.args[0]): value(dotted(call.func) or "") for call in _calls(statement) if call.args}
        through_data = any(is_tensor_data(node) for node in expressions(statement))
        for name in dict.fromkeys(used):
            if works_in_place(called.get(name)):
                yield statement, name, class_name(type(called[name]))
                break
            if not through_data and inplace_changes(alone, name):
                yield statement, name, ""
                break


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (node for node in expressions(statement) if isinstance(node, ast.Call))


def _holds_another(scene: Scene, name: str, place: Place, value: object) -> bool:
    """Whether the variable, which was not assigned since, holds another tensor: then this statement is not the one."""
    if scene.section.level is None or storage_of(value) is None:
        return False
    return all(each.line <= place.line for each in assignments(scene.section.body, name))


def _ran_before(scene: Scene, name: str, place: Place, saver: Place | None) -> bool:
    """Whether the statement can only have run before the tensor was saved: it fills a local, which is used later."""
    if saver is None or scene.section.level is None or scene.caller or "." in name:
        return False
    return saver.line > place.line and loop_facts(scene.section.body, place.line) is None


def _is_another(scene: Scene, name: str, place: Place, saver: Place | None) -> bool:
    """Whether the name was given a new tensor between the saving and `place`, which then changes that one."""
    if saver is None or scene.caller or saver.position > place.position:
        return False
    every = {(each.node.lineno, each.node.col_offset): each for each in spots(scene.section.body.node)}
    change = every.get(place.position)
    return change is not None and any(
        makes_new(each.node, name)
        for position, each in every.items()
        if saver.position < position < place.position
        and each.branches == change.branches[: len(each.branches)]  # not in a block that may have been skipped
    )


def _saver(case: Case, scene: Scene, name: str, place: Place) -> Place | None:
    """The statement that may have run the operation on `name`, or with `name` as its result: the last before `place`.

    A function that is called for its effect changes what its caller has saved.
    """
    if scene.caller and scene.call:
        return _saver(case, scene.caller, scene.given.get(name, name), scene.call)
    section = scene.section
    repeated = loop_facts(section.body, place.line) is not None
    others = [each for each in statements(section.body.node) if repeated or each.lineno != place.line]
    names = [name, *sorted(scene.held - {name})]
    for each in names:
        for statement in sorted(others, key=lambda one: (one.lineno >= place.line, -one.lineno)):
            takes_part = any(use.name == each and use.binds == case.is_result for use in uses(statement))
            if takes_part and is_spelled(case.node.op, statement, section.value):
                return section.body.place(statement)
    return None


def _score(case: Case, scene: Scene, place: Place, saver: Place | None) -> int:
    """The writer that the message names counts only for an input: of a saved result it names who made it."""
    said, body = said_by(case.failure.message), scene.section.body
    statement = statement_at(body, place.line)
    writer = said.writer if said and not case.is_result else ""
    fits = bool(writer and statement and is_spelled(writer, statement, scene.section.value))
    changed = scene.call or place
    around = scene.caller.section.body if scene.caller else body
    in_order = saver is not None and (saver.line < changed.line or loop_facts(around, changed.line) is not None)
    return 2 * in_order + (saver is not None) + 2 * fits


def _finding(case: Case, likely: Sequence[Change]) -> Finding:
    first = likely[0]
    outer = first.scene.given.get(first.name, first.name)
    name = ((first.sure or case.leaf) and case.holder) or outer
    through = f" through {first.name}, a view of it," if first.sure and _is_part(case, first) else ""
    inside = through or case.in_container(first.scene.section.value(first.name))
    lines = [_saving(case, first, name if inside else outer)]
    if first.saver != first.place:
        lines += [shown(each.place, _says(each)) for each in likely]
    if case.failure.user:
        lines.append(shown(case.failure.user.place, f"needs the original value; {case.since}."))
    exact = first.sure and (len(likely) == 1 or len(likely) == case.changes)
    if not exact:
        lines.append(_doubt(likely))
    return Finding(
        "BS202",
        "error",
        f"{name} was changed in place{through} after {spoken(case.operation)} had saved it for backward.",
        tuple(lines),
        fix(case, first.scene, first.name, first.place, first.module, len(likely), name if through else ""),
        source=str(first.place),
        exact=exact,
    )


def _is_part(case: Case, change: Change) -> bool:
    """Whether the statement changes the tensor through a view of it that has a name of its own."""
    value, whole = change.scene.section.value(change.name), case.saved.shape
    return is_tensor(value) and not case.leaf and shape_of(value) != whole


def _saving(case: Case, change: Change, name: str) -> str:
    reason = why_saved(case.operation, case.is_result)
    if change.saver and change.saver == change.place:
        return shown(change.place, f"saves {name}, and the next iteration changes it in place: {reason}.")
    if change.saver:
        where = f"in {case.module}, " if case.module and _is_of_module(case, change) else ""
        what = name if re.search(rf"(?<![\w.]){re.escape(name)}\b", change.saver.text) else "it"
        return shown(change.saver, f"{where}saves {what}: {reason}.")
    of = f" in {case.module}" if case.module else ""
    return f"{case.node.name}{of} saved {'its result' if case.is_result else f'it as `{case.saved.name}`'}: {reason}."


def _is_of_module(case: Case, change: Change) -> bool:
    """Whether the statement stands in the forward of the very module that is said to have run the operation."""
    held = list(change.scene.section.variables.values())
    return change.scene.function == "forward" and any(case.modules[0] is each for each in held if case.modules)


def _says(change: Change) -> str:
    scene, name = change.scene, change.name
    later = change.saver and not scene.caller and change.saver.line > change.place.line
    again = "iteration" if loop_facts(scene.section.body, change.place.line) else "call"
    when = f", in a later {again}" if later and (again == "iteration" or scene.section.level is None) else ""
    if change.module:
        return f"changes {name} in place{when}: this {change.module} was made with inplace=True."
    outer = scene.given.get(name, name)
    also = f", which is {outer}," if outer != name else ""
    if name in scene.running:
        also = ", which runs over the parameters,"
    called = f"; {scene.function} was called at line {scene.call.line}" if scene.call else ""
    return f"changes {name}{also} in place{when}{called}."


def _doubt(likely: Sequence[Change]) -> str:
    functions = listed(list(dict.fromkeys(each.scene.function for each in likely)))
    if likely[0].sure:
        return "(Which of these statements ran after the saving is not known.)"
    if likely[0].scene.section.level is None:
        return f"(Read from the source text: {functions} has returned, so its variables are gone.)"
    return "(Read from the source text; the variable does not hold that tensor any more.)"
