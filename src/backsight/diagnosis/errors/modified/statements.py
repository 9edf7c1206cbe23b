"""A statement of the user's changed the saved tensor: `x[0] = 0`, `x += y`, `x.clamp_()`, `nn.ReLU(inplace=True)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.modified.case import Case, said_by, storage_of
from backsight.diagnosis.errors.modified.spelling import is_spelled, why_saved
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.sections import Section, sections
from backsight.diagnosis.wording import counted, listed, shown
from backsight.naming.plain import class_name, namespace
from backsight.source import Place, assignments, inplace_changes, loop_facts, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import uses
from backsight.source.body import dotted, expressions, statements
from backsight.source.changes import is_tensor_data
from backsight.source.out_of_place import out_of_place


@dataclass(frozen=True, eq=False)
class Change:
    """A statement that may have changed the tensor.

    sure: whether the variable still holds this very memory.
    saver: the statement that may have saved it.
    module: the class of the module that works in place, if the text of the statement does not show that it does.
    score: how much speaks for it.
    """

    section: Section
    name: str
    place: Place
    sure: bool
    saver: Place | None
    module: str
    score: int

    @property
    def statement(self) -> ast.stmt | None:
        return statement_at(self.section.body, self.place.line)


def changed_by_statement(case: Case) -> Finding | None:
    """A statement in a function on the way to the loss changes a name that may hold the saved tensor."""
    found = [each for section in sections(case.failure) for each in _changes(case, section)]
    found = [each for each in found if each.sure] or found
    best = max((each.score for each in found), default=0)
    likely = [each for each in found if each.score == best]
    return _finding(case, likely) if likely else None


def _changes(case: Case, section: Section) -> Iterator[Change]:
    seen: set[tuple[str, int]] = set()
    for name in _names(case, section):
        value = section.value(name)
        sure = case.is_held_by(value)
        for place, module in _places(section, name):
            if (name, place.line) in seen or (not sure and _holds_another(section, name, place, value)):
                continue
            seen.add((name, place.line))
            saver = _saver(case, section, name, place)
            yield Change(section, name, place, sure, saver, module, _score(case, section, place, saver))


def _names(case: Case, section: Section) -> list[str]:
    """The names that may hold the tensor: what the result is computed from, and the variables over its memory."""
    names = dict.fromkeys(name for goal, line in section.goals for name in ancestors(section.body, goal, line))
    held = (name for name, value in section.variables.items() if section.level and case.is_held_by(value))
    return list(names | dict.fromkeys(held))


def _places(section: Section, name: str) -> Iterator[tuple[Place, str]]:
    """The statements that change `name` in a way that counts as a new version, which one through `.data` does not."""
    for place in inplace_changes(section.body, name):
        statement = statement_at(section.body, place.line)
        if statement is not None and not any(is_tensor_data(node) for node in expressions(statement)):
            yield place, ""
    for statement in statements(section.body.node):
        for node in expressions(statement):
            if isinstance(node, ast.Call) and node.args and dotted(node.args[0]) == name:
                module = section.value(dotted(node.func) or "")
                if works_in_place(module):
                    yield section.body.place(statement), class_name(type(module))


def works_in_place(value: object) -> bool:
    """Whether `value` is a module such as `nn.ReLU(inplace=True)`."""
    return issubclass(type(value), torch.nn.Module) and (namespace(value) or {}).get("inplace") is True


def _holds_another(section: Section, name: str, place: Place, value: object) -> bool:
    """Whether the variable, which was not assigned since, holds another tensor: then this statement is not the one."""
    if section.level is None or storage_of(value) is None:
        return False
    return all(each.line < place.line for each in assignments(section.body, name))


def _saver(case: Case, section: Section, name: str, place: Place) -> Place | None:
    """The statement before `place` that may have run the operation: on `name`, or with `name` as its result."""
    before = [each for each in statements(section.body.node) if each.lineno != place.line]
    for statement in sorted(before, key=lambda each: (each.lineno > place.line, -each.lineno)):
        takes_part = any(use.name == name and use.binds == case.is_result for use in uses(statement))
        if takes_part and is_spelled(case.node.op, statement, section.value):
            return section.body.place(statement)
    return None


def _score(case: Case, section: Section, place: Place, saver: Place | None) -> int:
    """The writer that the message names counts only for an input: of a saved result it names who made it."""
    said = said_by(case.failure.message)
    statement = statement_at(section.body, place.line)
    writer = said.writer if said and not case.is_result else ""
    fits = bool(writer and statement and is_spelled(writer, statement, section.value))
    in_order = saver is not None and (saver.line < place.line or loop_facts(section.body, place.line) is not None)
    return 2 * in_order + (saver is not None) + 2 * fits


def _finding(case: Case, likely: Sequence[Change]) -> Finding:
    first = likely[0]
    name = case.holder if first.sure and case.holder else first.name
    exact = first.sure and len(likely) == 1
    of = f" in {case.module}" if case.module and first.section.level is None else ""
    lines = [shown(each.place, _says(each, case)) for each in likely]
    reason = why_saved(case.operation, case.is_result)
    if first.saver:
        lines.insert(0, shown(first.saver, f"saves {first.name}{of}: {reason}."))
    else:
        lines.insert(0, f"{case.node.name}{of} saved it as `{case.saved.name}`: {reason}.")
    if case.failure.user:
        lines.append(shown(case.failure.user.place, f"needs it unchanged: {case.versions}."))
    if not exact:
        lines.append(_doubt(case, likely))
    return Finding(
        "BS202",
        "error",
        f"{name} was changed in place after {case.operation} had saved it for backward.",
        tuple(lines),
        _cure(case, first),
        source=str(first.place),
        exact=exact,
    )


def _says(change: Change, case: Case) -> str:
    if change.module:
        return f"changes {change.name} in place: this {change.module} was made with inplace=True."
    return f"changes {change.name} in place{', and may be the one' if not change.sure and not change.saver else ''}."


def _doubt(case: Case, likely: Sequence[Change]) -> str:
    functions = listed(list(dict.fromkeys(getattr(each.section.body.node, "name", "") for each in likely)))
    if likely[0].sure:
        times = (case.saved.version or 0) - (case.saved.expected or 0)
        return f"(There were {counted(times, 'change')}; which of these statements came after the saving is not known.)"
    if likely[0].section.level is None:
        return f"(Read from the source text: {functions} has returned, so its variables are gone.)"
    return "(Read from the source text: the variable has been assigned again since.)"


def _cure(case: Case, change: Change) -> str:
    name, body, line = change.name, change.section.body, change.place.line
    statement = change.statement
    if change.module:
        return f"Make that {change.module} without inplace=True."
    if "." in name and _is_state(change):
        return (
            f"Compute with a copy, {name}.clone(), where the loss is computed: then {name} may change. Or update it "
            "after backward()."
        )
    if _fills(statement, name) and loop_facts(body, line) is not None:
        return (
            f"Collect the parts in a list and join them after the loop: {name} = torch.stack(parts). Or write into a "
            f"copy: {name} = {name}.clone() just before the change."
        )
    instead = out_of_place(body, line)
    if instead:
        return f"Write {instead}: that makes a new tensor and leaves the saved one as it was."
    return f"Write into a copy: {name} = {name}.clone() just before the change."


def _is_state(change: Change) -> bool:
    """Whether the name is an attribute that holds a tensor without history: a buffer or a running statistic."""
    value = change.section.value(change.name)
    return storage_of(value) is not None and not getattr(value, "requires_grad", True)


def _fills(statement: ast.stmt | None, name: str) -> bool:
    """Whether the statement assigns a part of `name`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) and dotted(target.value) == name for target in targets)
