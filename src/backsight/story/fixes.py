"""What to write instead: one function for each kind of event, whoever asks."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from backsight.source import (
    Place,
    assignments,
    backward_roots,
    calls_of,
    loop_facts,
    only,
    parsed,
    read_at,
    statement_at,
)
from backsight.source.bindings import arms_of, bound, names_read, reads, spots
from backsight.source.body import (
    LOOPS,
    Body,
    blocks,
    callee,
    calls_in,
    covers,
    dotted,
    statements,
)
from backsight.source.edits import Edit, change, instead, lines_of, move, on_line, put, remove, unwrap, write
from backsight.source.keeping import early_return
from backsight.source.out_of_place import OPERATORS, out_of_place, written_out
from backsight.story.changes import Changed, changed_by_modules, shared_at, stale, works_in_place
from backsight.story.copies import above, entry_anew, is_entry, is_only_given, read_from_copies, saved_copy, spelled
from backsight.story.failure import is_users
from backsight.story.made_in_place import made_otherwise
from backsight.story.memory import needs_gradient, storage_of
from backsight.story.parts import fills, fills_in_order, in_a_list
from backsight.story.sections import results_of
from backsight.story.subject import Subject
from backsight.tape import modules_in
from backsight.text import listed

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
        f"Compute with {a_copy}, so that {listed(states)} may change: write {saved_copy(saver, states)}. Or update "
        f"{them} after backward()."
    )


def _as_it_was(
    subject: Subject, changed: Changed, whole: str = "", others: Sequence[Changed] = ()
) -> str | _Copy | _OfState:
    name = changed.outer or changed.name
    if changed.module:
        return without_working_in_place(subject, changed.module, changed.path)
    if whole and whole != name:
        known = changed.scene is not None and subject.is_held_by(changed.scene.section.value(whole))
        copied = f"put {whole} = {whole}.clone()" if known else "create it with .clone()"
        taken = _taken(changed) if known else None
        edit = put(f"{whole} = {whole}.clone()", "above", taken) if taken is not None else ""
        return f"Modify a copy: {copied} before {name} is taken from it{edit}."
    if subject.is_weight:
        return _later(subject, changed)
    if state := _state(subject, changed):
        if changed.saver is not None and saved_copy(changed.saver, [state]):
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
    read = read_from_copies(subject, changed)
    if read:
        return _Copy("Compute with a copy: write", listed(read))
    if is_only_given(changed):
        return (
            f"Compute with a copy of it, created with .clone(), wherever line {changed.place.line} modifies it later."
        )
    copied = spelled(subject, changed)
    if (entry := entry_anew(subject, changed)) is not None:
        if entry:
            first = above(changed)
            return _Copy("Modify a copy:", f"put `{entry}` before line {first.line}{put(entry, 'above', first)}")
        copied = ""
    if not copied:
        return f"Modify a copy of it, created with .clone() before line {changed.before.line}."
    first, copy = above(changed), f"{copied} = {copied}.clone()"
    return _Copy("Modify a copy:", f"put {copy} before line {first.line}{put(copy, 'above', first)}")


def _taken(changed: Changed) -> Place | None:
    """The statement that takes a view from its tensor, in the function that changes it."""
    scene = changed.scene
    if scene is None or scene.call or not changed.name.isidentifier():
        return None
    return only(assignments(scene.section.body, changed.name))


def without_working_in_place(subject: Subject, kind: str, path: str) -> str:
    """Say where a module is made that is to leave its input alone, and which ones stand in the same place of others, or
    have changed what this backward needs as well."""
    held = dict(pair for name, model in subject.survey.models.items() for pair in modules_in(model, name))
    owner, _, attribute = path.rpartition(".")
    cls = type(held.get(owner))
    beside = [(kind, f"{at}.{attribute}") for at, each in held.items() if type(each) is cls and is_users(cls)]
    beside = [(of, at) for of, at in beside if works_in_place(held.get(at))]
    others = [each for each in (*changed_by_modules(subject), *beside) if path and each[1] != path]
    return f"Create that {kind} without inplace=True{made_otherwise(subject.failure, held, (kind, path), others)}"


def _later(subject: Subject, changed: Changed) -> str:
    """A weight is updated: it has to be, but later."""
    weight = subject.holder or (subject.leaf.label if subject.leaf else changed.name)
    below = f"below every backward() that needs the original {weight}."
    if changed.scene is not None and changed.scene.section.goals and changed.scene.level is None:
        name = spelled(subject, changed)
        copy = f"a copy, {name}.clone()," if name else "a copy, created with .clone(),"
        there = f": write {there}" if name and (there := saved_copy(changed.saver, [name])) else ""
        return f"Compute with {copy} wherever it is used before line {changed.place.line} modifies it{there}."
    if changed.scene is None or changed.scene.level is None:
        function = changed.scene.function if changed.scene else ""
        above = f"above the forward pass that uses {weight}, or"
        return f"Call {function}(), which modifies it, only {above} {below}" if function else f"Do it {below}"
    what, first = _block(subject, changed)
    later = f"Move {what}, {_of_one(subject, changed, weight, first) or below}"
    if subject.leaf is None or subject.leaf.owner or subject.leaf.kind != "parameter":
        return later
    return f"{later} If this loss should not train {weight}, compute with it under torch.no_grad()."


def _block(subject: Subject, changed: Changed) -> tuple[str, Place]:
    """The statement that changes a tensor, with the condition around it that would be left empty; and its head."""
    level, first = subject.failure.user, changed.before
    body = level.body if level is not None else None
    arms = next((e.arms for e in spots(body) if body and body.place(e.node) == first), ())
    inside = [arm for arm, _ in arms if level and not covers(arm, level.line)]
    if body is None or not inside or isinstance(inside[0], LOOPS):
        return f"line {first.line}, `{first.text}`", first
    text = f"lines {inside[0].lineno} to {inside[0].end_lineno}, the block around `{first.text}`"
    return text, body.place(inside[0])


def _of_one(subject: Subject, changed: Changed, weight: str, block: Place) -> str:
    """Below which backward a statement, or its block, goes, where only one follows it in the function."""
    level, first = subject.failure.user, changed.before
    calls = [place for _, place in backward_roots(level.body)] if level and level.body else []
    later = [place for place in calls if place.file == first.file and place.line > first.line]
    if level is None or later != [level.place]:
        return ""
    edit = move(block, "below", level.place)
    return f"below line {level.line}, `{level.place.text}`, which needs the original {weight}{edit}."


def _state(subject: Subject, changed: Changed) -> str:
    """The attribute of which a buffer or a running statistic, without history, is changed; empty if it is none."""
    node = parsed(changed.name)
    while isinstance(node, ast.Subscript) and not is_entry(changed, node):
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
    statement = statement_at(body, *changed.place.position)
    fixed, out = without_inplace(text), _OUT.search(text)
    if fixed:
        return f"Remove inplace=True: {fixed}{instead(body, statement, fixed)}"
    if out and isinstance(statement, ast.Expr):
        made = f"{out[1]} = {_OUT.sub('', text)}"
        return f"Write {made}{instead(body, statement, made)}: that creates a new tensor."
    if body is None or statement is None or (changed.scene and changed.scene.call and "." not in name):
        return None
    if fills(statement, name) and loop_facts(body, changed.place.line) is not None:
        if fills_in_order(body, statement, name):
            return in_a_list(body, statement, name)
        return _same_part(body, statement, name)
    if reads_itself(statement, name):
        return _from_copy(body, name, _saved_as_result(subject), subject.saved.name == "result")
    if new := out_of_place(body, statement.lineno, statement.col_offset):
        edit = instead(body, statement, new)
        return f"Write {new}{edit}: that creates a new tensor and leaves the saved one unchanged."
    if isinstance(statement, ast.AugAssign) and type(statement.op) in OPERATORS and is_entry(changed, statement.target):
        new = written_out(body, statement)
        return f"Assign a new tensor: {new}{instead(body, statement, new)}."
    return _expression_anew(changed)


def _same_part(body: Body, statement: ast.stmt, name: str) -> str | None:
    """Where each iteration writes into a state that it reads, `u[1:-1] = f(u)`: into a copy, the next state."""
    if not isinstance(statement, ast.Assign) or not reads(statement.value, name):
        return None
    written = [ast.unparse(each).replace(f"{name}[", "new[", 1) for each in statement.targets]
    new = [f"new = {name}.clone()", f"{' = '.join(written)} = {ast.unparse(statement.value)}", f"{name} = new"]
    value, edit = body.text(statement.value), instead(body, statement, "\n".join(new))
    return (
        f"On line {statement.lineno}, write into a copy that becomes the next {name}: new = {name}.clone(); "
        f"{' = '.join(written)} = {value}; {name} = new{edit}."
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


def _from_copy(body: Body, name: str, as_result: bool, fails_there: bool) -> str:
    """The same computed from copies of what these statements read; of the whole first, if what made it has saved it,
    and of that alone if it is what fails."""
    every = [each for each in statements(body.node) if isinstance(each, ast.Assign) and reads_itself(each, name)]
    copies = [(each, _Copying(name).visit(copy.deepcopy(each.value))) for each in every]
    new = [(each, ast.unparse(ast.Assign(each.targets, value, lineno=0))) for each, value in copies]
    texts = [f"`{code}` on line {each.lineno}{instead(body, each, code)}" for each, code in new]
    copied, place = f"{name} = {name}.clone()", body.place(every[0])
    first = f"ut `{copied}` above line {place.line}{put(copied, 'above', place)}, as what created {name} has saved it"
    if fails_there:  # what is computed from parts of it has been passed, and has saved none
        return f"Modify a copy: p{first}."
    return f"{f'P{first}. And c' if as_result else 'C'}ompute it from a copy: write {listed(texts)}."


def on_lines(new: Mapping[int, str], file: str) -> str:
    """Say what to write on each line of a file: "on line 14, write `a = 1` and on line 15, write `b = 2`"."""
    return listed([on_line(Place(file, line, ""), code) for line, code in new.items()], len(new))


def first_statement(body: Body) -> Place | None:
    """The statement at which a function, a class or a module begins, below its docstring."""
    inside = body.node.body
    is_text = isinstance(inside[0], ast.Expr) and isinstance(inside[0].value, ast.Constant)
    return next((body.place(each) for each in inside[is_text:]), None)


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
    forms = [out_of_place(body, *each.place.position) for body, each in zip(bodies, changes, strict=True)]
    if len(forms) > _MOST or not all(forms):
        return None
    found = [statement_at(body, *each.place.position) for body, each in zip(bodies, changes, strict=True)]
    edits = [instead(body, each, form or "") for body, each, form in zip(bodies, found, forms, strict=True)]
    every = zip(forms, changes, edits, strict=True)
    lines = listed([f"`{form}` on line {each.place.line}{edit}" for form, each, edit in every])
    return f"Write {lines}: that creates new tensors and leaves the saved one unchanged."


def _expression_anew(changed: Changed) -> str | None:
    """`Write h.mul(mask) in place of h.mul_(mask)`, for a change amid an expression whose value is used."""
    match parsed(changed.segment):
        case ast.Call(func=ast.Attribute(attr=method)) if (
            method.endswith("_") and not method.startswith("_") and method not in _WITHOUT_NAMESAKE
        ):
            new = changed.segment.replace(f".{method}(", f".{method[:-1]}(", 1)
            body = changed.scene.section.body if changed.scene else None
            statement = statement_at(body, *changed.place.position)
            if _is_of_hook(changed):
                edit = instead(body, statement, f"return {new}")
                return f"Return a new tensor from the hook: return {new}{edit}."
            if _is_thrown_away(statement, changed.segment):
                return None
            inside = body is not None and changed.segment in body.lines[changed.place.line - 1]
            edit = change(changed.place, changed.segment, new) if inside else ""
            return f"Write {new} instead of {changed.segment}{edit}: that creates a new tensor."
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
    return any(
        callee(node)[1] in ("register_forward_hook", "register_forward_pre_hook")
        and any((dotted(each) or "").rpartition(".")[2] == name for each in node.args[:1])
        for _, _, node in calls_of(body.file)
    )


def every_time(body: Body, statement: ast.stmt, name: str, *, asking: bool = True) -> str:
    """How a statement that keeps a value runs each time, though `if self.cache is None:` is around it: which line to
    remove; empty where there is no such condition, or another branch.

    asking: whether the condition has to ask for what is kept there.
    """
    if (early := early_return(body, name, statement.lineno)) is not None:
        first, last = early.lineno, early.end_lineno
        lines = f"line {first}" if first == last else f"lines {first} {'and' if last == first + 1 else 'to'} {last}"
        gone = remove(lines_of(body.file, *range(first, (last or first) + 1)))
        return f"remove {lines}, `{body.text(early)}`{' and its return' if first != last else ''}{gone}"
    arms = arms_of(body, statement)
    around = next((each for each, label in reversed(arms) if isinstance(each, ast.If) and label == "body"), None)
    if around is None or around.orelse or not isinstance(statement, ast.Assign):
        return ""
    inside = (each for each in statements(body.node) if covers(around, each.lineno))
    kept = {name, *(each for other in inside for each in bound(other))}
    asks = not asking or not kept.isdisjoint(names_read(around.test))
    if not asks or reads(statement.value, name):
        return ""
    if around.lineno == statement.lineno:
        text = body.text(statement)
        return f"write `{text}` on line {statement.lineno}, without the condition{write(body.place(around), text)}"
    gone = unwrap(body.place(around))
    return f"remove line {around.lineno}, `{body.text(around)}`, and dedent the lines inside it{gone}"


def removed(*places: Place) -> str:
    """How statements go: `remove lines 12 and 14`. An `if` or `with` of which they are all goes along; where they are
    all of another block, `write `pass` on line 12`."""
    return "".join(_removal(*places))


def _removal(*places: Place) -> tuple[str, str]:
    found = [read_at(each) for each in places]
    going, gone, left = [statement for _, statement in found], dict[str, None](), dict[str, None]()
    edits = dict[Edit, None]()
    for place, (body, statement) in zip(places, found, strict=True):
        whole = _whole(body, statement, going) if body is not None and statement is not None else None
        first, last = (whole.lineno, whole.end_lineno or 0) if whole is not None else (place.line, place.last)
        lines = [f"{first} to {last}" if last > first + 1 else str(each) for each in range(first, last + 1)]
        goes = whole is not None or statement is None
        (gone if goes else left).update(dict.fromkeys(lines))
        edits[remove(lines_of(place.file, *range(first, last + 1))) if goes else write(place, "pass")] = None
    text = " and ".join(
        f"{how} line{'s' * (len(lines) > 1 or any(' ' in each for each in lines))} {listed(list(lines), len(lines))}"
        for how, lines in (("write `pass` on", left), ("remove", gone))
        if lines
    )
    return text, "".join(map(str, edits))


def _whole(body: Body, statement: ast.stmt, going: Sequence[ast.stmt | None]) -> ast.stmt | None:
    """A statement, or the block around it that is empty without those that go; None where one must keep a `pass`."""
    arms = arms_of(body, statement)
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
