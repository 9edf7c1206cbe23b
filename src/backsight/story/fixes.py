"""What to write instead: one function for each kind of event, whoever asks."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from backsight.naming.plain import class_dict
from backsight.naming.roots import is_user_class
from backsight.source import Place, assignments, backward_roots, loop_facts, parsed, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, parameters_of, spots, target_names, uses
from backsight.source.body import (
    LOOPS,
    Body,
    blocks,
    body_around,
    callee,
    calls_in,
    dotted,
    expressions,
    functions,
    statements,
)
from backsight.source.changes import changed_names, memory_of
from backsight.source.keeping import early_return
from backsight.source.out_of_place import OPERATORS, out_of_place
from backsight.source.rewriting import rewritten
from backsight.story.changes import Changed, shared_at, stale, works_in_place
from backsight.story.files import made_in_place
from backsight.story.holders import given
from backsight.story.memory import is_tensor, needs_gradient, storage_of
from backsight.story.parts import fills, fills_in_order, in_a_list, reads
from backsight.story.sections import results_of
from backsight.story.subject import Subject
from backsight.tape import modules_in
from backsight.text import listed
from backsight.tracing import Line, current

_IN_PLACE = re.compile(r",?\s*inplace\s*=\s*True")
_OUT = re.compile(r",\s*out\s*=\s*([\w.\[\]\"']+)")
_MOST = 3
"""Statements that are rewritten, one by one; of more a copy is changed."""

_WITHOUT_NAMESAKE = frozenset({"copy_", "zero_", "fill_"})


def without_inplace(text: str) -> str | None:
    """A statement without its `inplace=True`; None if it has none.

    >>> without_inplace("y = F.relu(x, inplace=True)")
    'y = F.relu(x)'
    """
    left = _IN_PLACE.sub("", text)
    return left if left != text else None


class _Copy(NamedTuple):
    """One of several copies that a fix asks for in the same words: what it begins with, and what is said of each."""

    asks: str
    each: str


class _OfState(NamedTuple):
    """A state that is to be computed with as a copy, in the statement that saves it."""

    name: str
    saver: Place


def leave_as_it_was(
    subject: Subject,
    changed: Changed,
    whole: str = "",
    others: Sequence[Changed] = (),
    beside: Sequence[tuple[Subject, Changed]] = (),
) -> str:
    """Say how the tensor stays as it was when it was saved, until its backward.

    Args:
        subject: the tensor.
        changed: the statement that changed it.
        whole: the name of the tensor, where the statement changes it through a view.
        others: the other statements that changed it.
        beside: other tensors that the same backward needs, each with the statement that changed it.
    """
    every = [_as_it_was(subject, changed, whole, others), *(_as_it_was(*each) for each in beside)]
    savers = dict.fromkeys(each.saver for each in every if isinstance(each, _OfState))
    states = {
        saver: [each.name for each in every if isinstance(each, _OfState) and each.saver == saver] for saver in savers
    }
    told = [_with_copies(each.saver, states[each.saver]) if isinstance(each, _OfState) else each for each in every]
    asked = dict.fromkeys(each if isinstance(each, str) else each.asks for each in told)
    copies = {asks: [each.each for each in told if isinstance(each, _Copy) and each.asks == asks] for asks in asked}
    return " ".join(f"{asks} {listed(what)}." if (what := copies[asks]) else asks for asks in asked)


def _with_copies(saver: Place, states: Sequence[str]) -> str:
    """How one statement computes with copies of all the states that it saves."""
    a_copy, them = ("a copy", states[0]) if len(states) == 1 else ("copies", "them")
    return (
        f"Compute with {a_copy}, so that {listed(states)} may change: write {_saved_copy(saver, states)}. Or update "
        f"{them} after backward()."
    )


def _as_it_was(
    subject: Subject, changed: Changed, whole: str = "", others: Sequence[Changed] = ()
) -> str | _Copy | _OfState:
    name = changed.outer or changed.name
    if changed.module:
        return without_working_in_place(subject, changed.module, changed.path)
    if whole:
        known = changed.scene is not None and subject.is_held_by(changed.scene.section.value(whole))
        copied = f"put {whole} = {whole}.clone()" if known else "create it with .clone()"
        return f"Modify a copy: {copied} before {name} is taken from it."
    if subject.is_weight:
        return _later(subject, changed)
    if state := _state(subject, changed):
        if changed.saver is not None and _saved_copy(changed.saver, [state]):
            return _OfState(state, changed.saver)
        copied = ((own := shared_at(subject, changed)) and own.written) or ""
        how = f": write {copied}" if copied else ""
        copy = "" if copied else f", {state}.clone()"
        return f"Compute with a copy{copy}, so that {state} may change{how}. Or update {state} after backward()."
    written = _all_anew((changed, *others)) if others else _written_anew(changed, subject)
    if written:
        return written
    if changed.op and not changed.op.endswith("_"):  # told to by a setting that the text does not show
        return f"Let {changed.op} create a new tensor: remove inplace=True from its settings."
    read = _read_from_copies(subject, changed)
    if read:
        return _Copy("Compute with a copy: write", listed(read))
    if _is_only_given(changed):
        return (
            f"Compute with a copy of it, created with .clone(), wherever line {changed.place.line} modifies it later."
        )
    copied = _spelled(subject, changed)
    if (entry := _entry_anew(subject, changed)) is not None:
        if entry:
            return _Copy("Modify a copy:", f"put `{entry}` before line {_above(changed)}")
        copied = ""
    if not copied:
        return f"Modify a copy of it, created with .clone() before line {changed.before.line}."
    return _Copy("Modify a copy:", f"put {copied} = {copied}.clone() before line {_above(changed)}")


def _above(changed: Changed) -> int:
    """The line before which a copy goes: that of the condition around the change, where the tensor is also changed
    beside it, in another branch or below."""
    body, saver, line = changed.scene.section.body if changed.scene else None, changed.saver, changed.before.line
    if body is None or changed.before != changed.place:
        return line
    every = spots(body.node)
    arms = next((each.arms for each in every if each.node.lineno == line), ())
    writing = [each for each in every if changed.name in changed_names(each.node) and not list(blocks(each.node))]
    for arm in (each for each in arms if isinstance(each[0], ast.If | ast.Match)):
        first, last = arm[0].lineno, arm[0].end_lineno or 0
        inside = [each.node for each in every if arm in each.arms]
        own = any(changed.name in bound(each) for each in inside) or (saver is not None and first <= saver.line <= last)
        if not own and any(each.node.lineno >= first and arm not in each.arms for each in writing):
            return first
    return line


def _saved_copy(saver: Place | None, names: Sequence[str]) -> str:
    """The statement that saves tensors, with copies in their place, and its line."""
    body, statement = read_at(saver)
    read = [each for each in expressions(statement) if dotted(each) in names and _is_read(each)]
    return _written_with_copies(body, statement, read) if body and statement and read else ""


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _written_with_copies(body: Body, statement: ast.stmt, read: Sequence[ast.expr]) -> str:
    new = rewritten(body, statement, {node: f"{body.text(node)}.clone()" for node in read})
    return f"`{new}` on line {statement.lineno}" if new else ""


def _is_only_given(changed: Changed) -> bool:
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


def _spelled(subject: Subject, changed: Changed) -> str:
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
    spelled = (".".join(path) for path in paths)
    return next((each for each in spelled if subject.is_held_by(scene.section.value(each))), "") or _variable(changed)


def _variable(changed: Changed) -> str:
    """The variable that a statement changes, if another tensor can be given to it: not what a loop takes from it."""
    node = parsed(changed.name)
    while isinstance(node, ast.Subscript) and not _is_entry(changed, node):
        node = node.value
    name = dotted(node.value if isinstance(node, ast.Subscript) else node)
    if node is None or name is None or changed.scene is None:
        return ""
    inside = ast.walk(changed.scene.section.body.node)
    loops = [each.target for each in inside if isinstance(each, ast.For | ast.comprehension)]
    return "" if name in target_names(*loops) else ast.unparse(node)


def _entry_anew(subject: Subject, changed: Changed) -> str | None:
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


def _read_from_copies(subject: Subject, changed: Changed) -> list[str]:
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
    copies: dict[str, None] = {}
    for saver, saved in stale(subject.survey.graph):
        if saved.storage != subject.saved.storage:
            continue
        operation = watch.operation_of(saver)
        if saved.name == "result" and operation is not None and operation.line.segment:
            copies[_copied_at(operation.line, [operation.line.segment])] = None
            continue
        texts = [each.text for each in operation.operands] if operation else []
        read = [each for each in texts if (node := parsed(each)) and memory_of(node) == changed.name]
        around = body_around(operation.line.file, operation.line.line) if operation else None
        if not read or operation is None or around is None or around.node is not body.node:
            return []
        copies[_copied_at(operation.line, read)] = None
    return [*copies]


def _copied_at(line: Line, texts: Sequence[str]) -> str:
    """The statement at a line with copies of what it reads."""
    body, statement = read_at(line.place)
    read = [node for node in expressions(statement) if body and body.text(node) in texts]
    written = _written_with_copies(body, statement, read) if body and statement and read else ""
    return written or listed([f"{each}.clone() on line {line.line}" for each in texts])


def without_working_in_place(subject: Subject, kind: str, path: str) -> str:
    """Say where a module is made that is to leave its input alone, and which ones stand in the same place of others."""
    owner, _, attribute = path.rpartition(".")
    every = [pair for name, model in subject.survey.models.items() for pair in modules_in(model, name)]
    held = dict(every)
    places = made_in_place(subject.failure, kind, held.get(owner), attribute)
    where = f": {places[0]}, {places[0].text}" if len(places) == 1 else ""
    cls = type(held.get(owner))
    owners = [at for at, each in every if type(each) is cls and at != owner] if _is_users(cls) else []
    alike = [f"{at}.{attribute}" for at in owners if works_in_place(held.get(f"{at}.{attribute}"))]
    also = f" The same applies to {', '.join(alike[:3])}{' and others' if len(alike) > 3 else ''}." if alike else ""
    return f"Create that {kind} without inplace=True{where}.{also}"


def _is_users(cls: type) -> bool:
    return is_user_class(class_dict(cls).get("__module__"))


def _later(subject: Subject, changed: Changed) -> str:
    """A weight is updated: it has to be, but later."""
    weight = subject.holder or (subject.leaf.label if subject.leaf else changed.name)
    below = f"below every backward() that needs the original {weight}."
    if changed.scene is not None and changed.scene.section.goals and changed.scene.level is None:
        spelled = _spelled(subject, changed)
        copy = f"a copy, {spelled}.clone()," if spelled else "a copy, created with .clone(),"
        there = f": write {there}" if spelled and (there := _saved_copy(changed.saver, [spelled])) else ""
        return f"Compute with {copy} wherever it is used before line {changed.place.line} modifies it{there}."
    if changed.scene is None or changed.scene.level is None:
        function = changed.scene.function if changed.scene else ""
        above = f"above the forward pass that uses {weight}, or"
        return f"Call {function}(), which modifies it, only {above} {below}" if function else f"Do it {below}"
    move = f"Move {_block(subject, changed)}, {_of_one(subject, changed, weight) or below}"
    if subject.leaf is None or subject.leaf.owner or subject.leaf.kind != "parameter":
        return move
    return f"{move} If this loss should not train {weight}, compute with it under torch.no_grad()."


def _block(subject: Subject, changed: Changed) -> str:
    """The statement that changes a tensor, with the condition around it that would be left empty."""
    level, first = subject.failure.user, changed.before
    body = level.body if level is not None else None
    arms = next((e.arms for e in (spots(body.node) if body else ()) if body and body.place(e.node) == first), ())
    inside = [arm for arm, _ in arms if level and not arm.lineno <= level.line <= (arm.end_lineno or 0)]
    if body is None or not inside or isinstance(inside[0], LOOPS):
        return f"line {first.line}, `{first.text}`"
    return f"lines {inside[0].lineno} to {inside[0].end_lineno}, the block around `{first.text}`"


def _of_one(subject: Subject, changed: Changed, weight: str) -> str:
    """Below which backward a statement goes, where only one follows it in the function."""
    level, first = subject.failure.user, changed.before
    calls = [place for _, place in backward_roots(level.body)] if level and level.body else []
    later = [place for place in calls if place.file == first.file and place.line > first.line]
    if level is None or later != [level.place]:
        return ""
    return f"below line {level.line}, `{level.place.text}`, which needs the original {weight}."


def _state(subject: Subject, changed: Changed) -> str:
    """The attribute that holds a tensor without history, a buffer or a running statistic, all or a part of which is
    changed; empty if it is none."""
    node = parsed(changed.name)
    while isinstance(node, ast.Subscript) and not _is_entry(changed, node):
        node = node.value
    if not isinstance(node, ast.Attribute) or subject.saved.requires_grad:
        return ""
    name = ast.unparse(node)
    value = changed.scene.section.value(name) if changed.scene else None
    known = changed.certainty == "seen" if storage_of(value) is None else not needs_gradient(value)
    return name if known else ""


def _written_anew(changed: Changed, subject: Subject) -> str | None:
    """The same without a change in place, where it has such a form."""
    text, name = changed.place.text, changed.name
    body = changed.scene.section.body if changed.scene else None
    statement = statement_at(body, changed.place.line)
    fixed, out = without_inplace(text), _OUT.search(text)
    if fixed:
        return f"Remove inplace=True: {fixed}"
    if out and isinstance(statement, ast.Expr):
        return f"Write {out[1]} = {_OUT.sub('', text)}: that creates a new tensor."
    if body is None or statement is None or (changed.scene and changed.scene.call and "." not in name):
        return None
    if fills(statement, name) and loop_facts(body, changed.place.line) is not None:
        if fills_in_order(body, statement, name):
            return in_a_list(body, statement, name)
        return _same_part(body, statement, name)
    if reads_itself(statement, name):
        return _from_copy(body, name, _saved_as_result(subject))
    instead = out_of_place(body, statement.lineno)
    if instead:
        return f"Write {instead}: that creates a new tensor and leaves the saved one unchanged."
    if (
        isinstance(statement, ast.AugAssign)
        and type(statement.op) in OPERATORS
        and _is_entry(changed, statement.target)
    ):
        value = body.text(statement.value)
        value = f"({value})" if isinstance(statement.value, ast.BinOp | ast.IfExp | ast.Compare) else value
        target = body.text(statement.target)
        return f"Assign a new tensor: {target} = {target} {OPERATORS[type(statement.op)]} {value}."
    return _expression_anew(changed)


def _same_part(body: Body, statement: ast.stmt, name: str) -> str | None:
    """Where each iteration writes into a state what it computes from it, `u[1:-1] = f(u)`: into a copy, the next."""
    if not isinstance(statement, ast.Assign) or not reads(statement.value, name):
        return None
    written = [ast.unparse(each).replace(f"{name}[", "new[", 1) for each in statement.targets]
    value = body.text(statement.value)
    if value.endswith("…"):
        return (
            f"Write into a copy that becomes the next {name}: new = {name}.clone() above line {statement.lineno}, "
            f"{' = '.join(written)} = ... there, and {name} = new below it."
        )
    return (
        f"On line {statement.lineno}, write into a copy that becomes the next {name}: new = {name}.clone(); "
        f"{' = '.join(written)} = {value}; {name} = new."
    )


def reads_itself(statement: ast.stmt, name: str) -> bool:
    """Whether the statement writes into a tensor what it computes from a part of it: `x[0] = f(x[1])`."""
    return (
        isinstance(statement, ast.Assign)
        and fills(statement, name)
        and any(isinstance(node, ast.Subscript) and dotted(node.value) == name for node in ast.walk(statement.value))
    )


def _saved_as_result(subject: Subject) -> bool:
    """Whether an operation has saved the tensor, or what it is a part of, as its own result."""
    every = (each for _, each in stale(subject.survey.graph))
    return any(each.storage == subject.saved.storage and each.name == "result" for each in every)


def _from_copy(body: Body, name: str, as_result: bool) -> str:
    """The same computed from copies of what these statements read; of the whole first, if what made it has saved it."""
    every = [each for each in statements(body.node) if isinstance(each, ast.Assign) and reads_itself(each, name)]
    copies = [(each, _Copying(name).visit(copy.deepcopy(each.value))) for each in every]
    new = [f"`{ast.unparse(ast.Assign(e.targets, v, lineno=0))}` on line {e.lineno}" for e, v in copies]
    first = f" And put `{name} = {name}.clone()` above line {every[0].lineno}, as what created it saved it too."
    return f"Compute it from a copy: write {listed(new)}.{first if as_result else ''}"


def on_lines(new: Mapping[int, str]) -> str:
    """Say what to write on each line: "on line 14, write `a = 1` and on line 15, write `b = 2`"."""
    return listed([f"on line {line}, write `{code}`" for line, code in new.items()], len(new))


def too(lines: Sequence[int]) -> str:
    """Say which other lines need what a fix says: ` Line 25 needs the same.`; empty if there are none."""
    if not lines:
        return ""
    return f" Line{'s' * (len(lines) > 1)} {listed([*map(str, lines)])} need{'s' * (len(lines) == 1)} the same."


class _Copying(ast.NodeTransformer):
    """Puts `.clone()` on each part of a tensor that an expression reads."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        copied = ast.Call(ast.Attribute(node, "clone", ast.Load()), [], [])
        return copied if dotted(node.value) == self.name else node


def _all_anew(changes: Sequence[Changed]) -> str | None:
    """The same without any of these changes in place, where each has such a form."""
    bodies = [each.scene.section.body if each.scene and not each.scene.call else None for each in changes]
    forms = [out_of_place(body, each.place.line) for body, each in zip(bodies, changes, strict=True)]
    if len(forms) > _MOST or not all(forms):
        return None
    lines = listed([f"`{form}` on line {each.place.line}" for form, each in zip(forms, changes, strict=True)])
    return f"Write {lines}: that creates new tensors and leaves the saved one unchanged."


def _is_entry(changed: Changed, target: ast.expr) -> bool:
    """Whether an expression is an entry of a container, not a part of a tensor."""
    if not isinstance(target, ast.Subscript):
        return False
    holder = changed.scene.section.value(dotted(target.value) or "") if changed.scene else None
    return type(holder) in (list, dict) or (not is_tensor(holder) and _is_key(target.slice))


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _expression_anew(changed: Changed) -> str | None:
    """`Write h.mul(mask) in place of h.mul_(mask)`, for a change amid an expression whose value is used."""
    match parsed(changed.segment):
        case ast.Call(func=ast.Attribute(attr=method)) if (
            method.endswith("_") and not method.startswith("_") and method not in _WITHOUT_NAMESAKE
        ):
            new = changed.segment.replace(f".{method}(", f".{method[:-1]}(", 1)
            if _is_of_hook(changed):
                return f"Return a new tensor from the hook: return {new}."
            body = changed.scene.section.body if changed.scene else None
            if _is_thrown_away(statement_at(body, *changed.place.position), changed.segment):
                return None
            return f"Write {new} instead of {changed.segment}: that creates a new tensor."
    return None


def _is_thrown_away(statement: ast.stmt | None, segment: str) -> bool:
    """Whether nothing takes the result of a call: `w.mul_(2)`, also where more is then done to it in place."""
    node = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        if ast.unparse(node) == ast.unparse(parsed(segment) or node.func):
            return True
        node = node.func.value
    return False


def _is_of_hook(changed: Changed) -> bool:
    """Whether a statement changes what a forward hook was given, one that returns nothing."""
    body = changed.scene.section.body if changed.scene else None
    statement = statement_at(body, changed.place.line) if body else None
    name = body.name if body else ""
    if body is None or not name or not isinstance(statement, ast.Expr) or results_of(body):
        return False
    calls = [node for each in functions(body.file) for node in _calls(each)]
    return any(
        callee(node)[1] in ("register_forward_hook", "register_forward_pre_hook")
        and any((dotted(each) or "").rpartition(".")[2] == name for each in node.args[:1])
        for node in calls
    )


def _calls(body: Body) -> list[ast.Call]:
    inside = (node for each in statements(body.node) for node in expressions(each))
    return [node for node in inside if isinstance(node, ast.Call)]


def every_time(body: Body, statement: ast.stmt, name: str, *, asking: bool = True) -> str:
    """How a statement that keeps a value runs each time, though `if self.cache is None:` is around it: which line to
    remove; empty where there is no such condition, or another branch.

    asking: whether the condition has to ask for what is kept there.
    """
    if (above := early_return(body, name, statement.lineno)) is not None:
        first, last = above.lineno, above.end_lineno
        lines = f"line {first}" if first == last else f"lines {first} {'and' if last == first + 1 else 'to'} {last}"
        return f"remove {lines}, `{body.text(above)}`{' and its return' if first != last else ''}"
    arms = next((each.arms for each in spots(body.node) if each.node is statement), ())
    around = next((each for each, label in reversed(arms) if isinstance(each, ast.If) and label == "body"), None)
    if around is None or around.orelse or not isinstance(statement, ast.Assign):
        return ""
    inside = (each for each in statements(body.node) if around.lineno <= each.lineno <= (around.end_lineno or 0))
    kept = {name, *(each for other in inside for each in bound(other))}
    asks = not asking or any(use.name in kept and not use.binds for use in uses(around.test))
    if not asks or reads(statement.value, name):
        return ""
    if around.lineno == statement.lineno:
        return f"write `{body.text(statement)}` on line {statement.lineno}, without the condition"
    return f"remove line {around.lineno}, `{body.text(around)}`, and dedent the lines inside it"


def removed(*places: Place) -> str:
    """How statements go: `remove lines 12 and 14`. An `if` or `with` of which they are all goes along; where they are
    all of another block, `write `pass` on line 12`."""
    found = [read_at(each) for each in places]
    going, gone, left = [statement for _, statement in found], dict[str, None](), dict[str, None]()
    for place, (body, statement) in zip(places, found, strict=True):
        whole = _whole(body, statement, going) if body is not None and statement is not None else None
        first, last = (whole.lineno, whole.end_lineno or 0) if whole is not None else (place.line, place.last)
        lines = [f"{first} to {last}" if last > first + 1 else str(each) for each in range(first, last + 1)]
        (gone if whole is not None or statement is None else left).update(dict.fromkeys(lines))
    return " and ".join(
        f"{how} line{'s' * (len(lines) > 1 or any(' ' in each for each in lines))} {listed(list(lines), len(lines))}"
        for how, lines in (("write `pass` on", left), ("remove", gone))
        if lines
    )


def _whole(body: Body, statement: ast.stmt, going: Sequence[ast.stmt | None]) -> ast.stmt | None:
    """A statement, or the block around it that is empty without those that go; None where one must keep a `pass`."""
    arms = next((each.arms for each in spots(body.node) if each.node is statement), ())
    for around, label in reversed(arms):
        is_elif = label == "orelse" and isinstance(statement, ast.If) and statement.col_offset == around.col_offset
        if is_elif or any(each is not statement and each not in going for each in dict(blocks(around))[label]):
            return statement
        asks = isinstance(around, ast.If) and not (around.orelse or any(True for _ in calls_in(around)))
        if not asks and not isinstance(around, ast.With):
            return None
        statement = around
    rest = [each for each in body.node.body if each is not statement and each not in going]
    return statement if rest or isinstance(body.node, ast.Module) else None
