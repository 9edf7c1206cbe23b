"""A copy of a tensor, to compute with or to modify: what the program calls the tensor, and where the copy goes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.source import Place, assignments, parsed, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, parameters_of, spots, target_names
from backsight.source.body import Body, blocks, body_around, callee, dotted, expressions
from backsight.source.changes import changed_names, memory_of
from backsight.source.definitions import values_of
from backsight.source.edits import instead
from backsight.source.rewriting import rewritten
from backsight.story.changes import Changed, stale
from backsight.story.holders import given
from backsight.story.memory import is_tensor
from backsight.story.parts import fills
from backsight.story.sections import results_of
from backsight.story.subject import Subject
from backsight.text import listed
from backsight.tracing import current


def above(changed: Changed) -> Place:
    """The statement before which a copy goes: the condition around the change, where the tensor is also changed beside
    it, in another branch or below."""
    body, saver, line = changed.scene.section.body if changed.scene else None, changed.saver, changed.before.line
    if body is None or changed.before != changed.place:
        return changed.before
    every, head = spots(body.node), ast.stmt()
    arms = next((each.arms for each in every if each.node.lineno == line), ())
    writing = [each for each in every if changed.name in changed_names(each.node) and not list(blocks(each.node))]
    for arm in (each for each in arms if isinstance(each[0], ast.If | ast.Match)):
        first, last = arm[0].lineno, arm[0].end_lineno or 0
        head = head if getattr(head, "col_offset", None) == arm[0].col_offset else arm[0]  # of an `elif` the `if`
        inside = [each.node for each in every if arm in each.arms]
        own = any(changed.name in bound(each) for each in inside) or (saver is not None and first <= saver.line <= last)
        if not own and any(each.node.lineno >= first and arm not in each.arms for each in writing):
            return body.place(head)
    return changed.before


def saved_copy(saver: Place | None, names: Sequence[str]) -> str:
    """The statement that saves tensors, with copies in their place, and its line."""
    body, statement = read_at(saver)
    read = [each for each in expressions(statement) if dotted(each) in names and _is_read(each)]
    return _written_with_copies(body, statement, read) if body and statement and read else ""


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _written_with_copies(body: Body, statement: ast.stmt, read: Sequence[ast.expr]) -> str:
    new = rewritten(body, statement, {node: f"{body.text(node)}.clone()" for node in read})
    return f"`{new}` on line {statement.lineno}{instead(body, statement, new)}" if new else ""


def is_only_given(changed: Changed) -> bool:
    """Whether a function that is not known to its caller changes what it was given, and does not return it: to change a
    copy would be lost."""
    scene = changed.scene
    if scene is None or scene.call:
        return False
    body = scene.section.body
    lambdas = [each for each in ast.walk(body.node) if isinstance(each, ast.Lambda)]
    if any(each.lineno == changed.place.line and changed.name in parameters_of(each) for each in lambdas):
        return True  # a lambda has no place for a statement
    if scene.section.level is not None:
        return False
    returned = {name for value, line in results_of(body) for name in ancestors(body, value, line)}
    return changed.name in parameters_of(body.node) - returned


def spelled(subject: Subject, changed: Changed) -> str:
    """What the function at whose line the copy is made calls the tensor; empty where it has no name there."""
    scene = changed.scene
    if scene is None:
        return ""
    if scene.call:  # a name of the helper's own, but for what it was given
        return scene.given.get(changed.name, "")
    if changed.name and (changed.certainty == "read" or changed.name in scene.held):
        return changed.name
    if assignments(scene.section.body, changed.name, changed.place.line) and _variable(changed) == changed.name:
        return changed.name  # what else holds the tensor is not what the statement changes
    first, *parts = subject.holder.split(".")
    paths = [(first, *parts), *((name, *parts[k:]) for name in scene.section.variables for k in range(len(parts)))]
    every = (".".join(path) for path in paths)
    return next((each for each in every if subject.is_held_by(scene.section.value(each))), "") or _variable(changed)


def _variable(changed: Changed) -> str:
    """The variable that a statement changes, if another tensor can be given to it: not what a loop takes from it."""
    node = parsed(changed.name)
    while isinstance(node, ast.Subscript) and not is_entry(changed, node):
        node = node.value
    name = dotted(node.value if isinstance(node, ast.Subscript) else node)
    if node is None or name is None or changed.scene is None:
        return ""
    inside = ast.walk(changed.scene.section.body.node)
    loops = [each.target for each in inside if isinstance(each, ast.For | ast.comprehension)]
    return "" if name in target_names(*loops) else ast.unparse(node)


def entry_anew(subject: Subject, changed: Changed) -> str | None:
    """A new tuple with a copy of the entry that is changed, `out[0]`; empty where that may be a
    part of a tensor, and None where it is no entry, or one of a list or dict, which takes another tensor."""
    node, scene = parsed(changed.name), changed.scene
    statement = statement_at(scene.section.body, changed.place.line) if scene else None
    if not isinstance(node, ast.Subscript) and isinstance(statement, ast.Assign | ast.AugAssign):
        node = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
        node = node.value if isinstance(node, ast.Subscript) else node  # of `out[0][:, t] = x`, what is written into
        while isinstance(node, ast.Subscript) and dotted(node.value) != changed.name:
            node = node.value
    whole = dotted(node.value) if isinstance(node, ast.Subscript) else None
    at = node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None
    if whole is None or type(at) is not int or scene is None or scene.call:
        return None
    holder = scene.section.value(whole)
    if type(holder) is not tuple and (holder is not None or not subject.saved.requires_grad):
        return None
    inside = [*ast.walk(scene.section.body.node)]
    indexed = {
        id(each.value) for each in inside if isinstance(each, ast.Subscript) and type(each.slice) is ast.Constant
    }
    read = [each for each in inside if isinstance(each, ast.expr) and dotted(each) == whole and _is_read(each)]
    if holder is None and not all(id(each) in indexed for each in read):
        return None  # a whole that is computed with is a tensor
    queue = [subject.node]  # a part of a tensor would be taken from it on the way to what has saved it
    for each in queue if holder is None else ():  # grows as we go
        if each.op == "Select":
            return ""
        queue += [one for one in given(each) if each is subject.node or len(each.inputs) == 1]
    before, after = (f"*{whole}[:{at}], " if at else ""), f"*{whole}[{at + 1}:]"
    return f"{whole} = ({before}{whole}[{at}].clone(), {after})"


def read_from_copies(subject: Subject, changed: Changed) -> list[str]:
    """Each operand that was saved, as a copy: where the statement fills a part of what outlives its function.

    Others may hold that, too, and a copy of the whole would leave them with the old one. Empty unless every operation
    that has saved it is known, and stands in the function that changes it.
    """
    watch, body = current(), changed.scene.section.body if changed.scene else None
    statement = statement_at(body, changed.place.line)
    if watch is None or body is None or statement is None or not fills(statement, changed.name):
        return []
    if "." not in changed.name and changed.name not in parameters_of(body.node):
        return []
    copies = dict[Place, list[str]]()
    for saver, saved in stale(subject.survey.graph):
        if saved.storage != subject.saved.storage:
            continue
        operation = watch.operation_of(saver)
        if saved.name == "result" and operation is not None and operation.line.segment:
            copies.setdefault(operation.line.place, []).append(operation.line.segment)
            continue
        texts = [each.text for each in operation.operands] if operation else []
        read = [each for each in texts if (node := parsed(each)) and memory_of(node) == changed.name]
        around = body_around(operation.line.file, operation.line.line) if operation else None
        if not read or operation is None or around is None or around.node is not body.node:
            return []
        copies.setdefault(operation.line.place, []).extend(read)
    return [_copied_at(place, [*dict.fromkeys(read)]) for place, read in copies.items()]


def _copied_at(place: Place, texts: Sequence[str]) -> str:
    """The statement at a place with copies of what it reads."""
    body, statement = read_at(place)
    read = [node for node in expressions(statement) if body and body.text(node) in texts]
    written = _written_with_copies(body, statement, read) if body and statement and read else ""
    return written or listed([f"{each}.clone() on line {place.line}" for each in texts])


def is_entry(changed: Changed, target: ast.expr) -> bool:
    """Whether an expression is an entry of a container, not a part of a tensor."""
    if not isinstance(target, ast.Subscript):
        return False
    name, scene = dotted(target.value) or "", changed.scene
    holder = scene.section.value(name) if scene else None
    is_key = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    if type(holder) in (list, dict) or (is_key and not is_tensor(holder)):
        return True
    body = scene.section.body if scene is not None and holder is None else None
    made = values_of(body, name, changed.place.line) if body is not None else []
    return bool(made) and all(_is_container(each) for each in made)


def _is_container(value: ast.expr) -> bool:
    """Whether an expression makes a list or a dict: `{}`, `[x for x in xs]`, `defaultdict(list)`."""
    if isinstance(value, ast.Call):
        return callee(value)[1] in ("list", "dict", "defaultdict", "OrderedDict")
    return isinstance(value, ast.List | ast.Dict | ast.ListComp | ast.DictComp)
