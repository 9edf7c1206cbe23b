"""What to write instead: one function for each kind of event, whoever asks."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Sequence

from backsight.naming.plain import class_dict
from backsight.naming.roots import is_user_class
from backsight.source import loop_facts, statement_at
from backsight.source.body import Body, dotted, statements
from backsight.source.out_of_place import OPERATORS, out_of_place
from backsight.story.changes import Changed, expression, works_in_place
from backsight.story.files import made_in_place
from backsight.story.memory import is_tensor, needs_gradient, storage_of
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


def leave_as_it_was(subject: Subject, changed: Changed, whole: str = "", others: Sequence[Changed] = ()) -> str:
    """Say how the tensor stays as it was when it was saved, until its backward.

    Args:
        subject: the tensor.
        changed: the statement that changed it.
        whole: the name of the tensor, where the statement changes it through a view.
        others: the other statements that changed it.
    """
    name, scene = changed.outer or changed.name, changed.scene
    if changed.module:
        return without_working_in_place(subject, changed.module, changed.path)
    if whole:
        return f"Change a copy: put {whole} = {whole}.clone() before {name} is taken from it."
    if subject.is_weight:
        return _later(subject, changed)
    if _is_state(subject, changed):
        return f"Compute with a copy, {name}.clone(): then {name} may change. Or update {name} after backward()."
    written = _all_anew((changed, *others)) if others else _written_anew(changed)
    if written:
        return written
    if changed.op and not changed.op.endswith("_"):  # told to by a setting that the text does not show
        return f"Let {changed.op} make a new tensor: leave out inplace=True where its settings come from."
    copied = name if changed.certainty == "read" or (scene and changed.name in scene.held) else subject.holder or name
    if not copied or (scene and scene.call and changed.name not in scene.given):  # a name of the helper's own
        return f"Change a copy of it, made with .clone() before line {changed.before.line}."
    return f"Change a copy: put {copied} = {copied}.clone() before line {changed.before.line}."


def without_working_in_place(subject: Subject, kind: str, path: str) -> str:
    """Say where a module is made that is to leave its input alone, and which ones stand in the same place of others."""
    places = list(made_in_place(subject.failure, kind))
    where = f": {places[0]}, {places[0].text}" if len(places) == 1 else ""
    owner, _, attribute = path.rpartition(".")
    every = [pair for name, model in subject.survey.models.items() for pair in modules_in(model, name)]
    held = dict(every)
    cls = type(held.get(owner))
    owners = [at for at, each in every if type(each) is cls and at != owner] if _is_users(cls) else []
    alike = [f"{at}.{attribute}" for at in owners if works_in_place(held.get(f"{at}.{attribute}"))]
    also = f" The same holds for {', '.join(alike[:3])}{' and others' if len(alike) > 3 else ''}." if alike else ""
    return f"Make that {kind} without inplace=True{where}.{also}"


def _is_users(cls: type) -> bool:
    return is_user_class(class_dict(cls).get("__module__"))


def _later(subject: Subject, changed: Changed) -> str:
    """A weight is updated: it has to be, but later."""
    weight = subject.holder or (subject.leaf.label if subject.leaf else changed.name)
    below = f"below every backward() that needs the original {weight}."
    if changed.scene is not None and changed.scene.section.goals and changed.scene.level is None:
        return (
            f"Compute with a copy, {weight}.clone(), wherever it is used before line {changed.place.line} changes it."
        )
    if changed.scene is None or changed.scene.level is None:
        function = changed.scene.function if changed.scene else ""
        return f"Call {function}(), which does it, {below}" if function else f"Do it {below}"
    move = f"Move line {changed.before.line}, {changed.before.text}, {below}"
    if subject.leaf is None or subject.leaf.owner or subject.leaf.kind != "parameter":
        return move
    return f"{move} If {weight} is not to be trained by it: compute with it under torch.no_grad()."


def _is_state(subject: Subject, changed: Changed) -> bool:
    """Whether the name is an attribute that holds a tensor without history: a buffer or a running statistic."""
    if "." not in changed.name or subject.saved.requires_grad:
        return False
    value = changed.scene.section.value(changed.name) if changed.scene else None
    return changed.certainty == "seen" or (storage_of(value) is not None and not needs_gradient(value))


def _written_anew(changed: Changed) -> str | None:
    """The same without a change in place, where it has such a form."""
    text, name = changed.place.text, changed.name
    body = changed.scene.section.body if changed.scene else None
    statement = statement_at(body, changed.place.line) if body else None
    fixed, out = without_inplace(text), _OUT.search(text)
    if fixed:
        return f"Leave out inplace=True: {fixed}"
    if out and isinstance(statement, ast.Expr):
        return f"Write {out[1]} = {_OUT.sub('', text)}: that makes a new tensor."
    if body is None or statement is None or (changed.scene and changed.scene.call):
        return None
    if _fills(statement, name) and loop_facts(body, changed.place.line) is not None:
        joined = f"{name} = torch.stack(parts{_dim(statement)})"
        return f"Collect the parts in a list, and join them after the loop: {joined}."
    if reads_itself(statement, name):
        return _from_copy(body, statement, name)
    instead = out_of_place(body, statement.lineno)
    if instead:
        return f"Write {instead}: that makes a new tensor and leaves the saved one as it was."
    if isinstance(statement, ast.AugAssign) and _is_entry(changed, statement):
        value = body.text(statement.value)
        value = f"({value})" if isinstance(statement.value, ast.BinOp | ast.IfExp | ast.Compare) else value
        target = body.text(statement.target)
        return f"Put a new tensor in its place: {target} = {target} {OPERATORS[type(statement.op)]} {value}."
    return _expression_anew(changed)


def reads_itself(statement: ast.stmt, name: str) -> bool:
    """Whether the statement writes into a tensor what it computes from a part of it: `x[0] = f(x[1])`."""
    return (
        isinstance(statement, ast.Assign)
        and _fills(statement, name)
        and any(isinstance(node, ast.Subscript) and dotted(node.value) == name for node in ast.walk(statement.value))
    )


def _from_copy(body: Body, statement: ast.stmt, name: str) -> str:
    """The same computed from a copy of what it reads, and which other statements need that."""
    assert isinstance(statement, ast.Assign)
    value = _Copying(name).visit(copy.deepcopy(statement.value))
    new = ast.unparse(ast.Assign(statement.targets, value, lineno=statement.lineno))
    also = too([each.lineno for each in statements(body.node) if each is not statement and reads_itself(each, name)])
    first = f"If the operation that made {name} has saved it as well, begin with {name} = {name}.clone()."
    return f"Compute it from a copy: {new}.{also} {first}"


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
    forms = [out_of_place(body, each.place.line) if body else None for body, each in zip(bodies, changes, strict=True)]
    if len(forms) > _MOST or not all(forms):
        return None
    return f"Write {' and '.join(filter(None, forms))}: that makes new tensors, and leaves the saved one as it was."


def _is_entry(changed: Changed, statement: ast.AugAssign) -> bool:
    """Whether the statement changes an entry of a container, not a part of a tensor."""
    target = statement.target
    if type(statement.op) not in OPERATORS or not isinstance(target, ast.Subscript):
        return False
    assert changed.scene is not None
    holder = changed.scene.section.value(dotted(target.value) or "")
    return type(holder) in (list, dict) or (not is_tensor(holder) and _is_key(target.slice))


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _expression_anew(changed: Changed) -> str | None:
    """`Write h.mul(mask) in place of h.mul_(mask)`, for a change amid an expression whose value is used."""
    match expression(changed.segment):
        case ast.Call(func=ast.Attribute(attr=method)) if (
            method.endswith("_") and not method.startswith("_") and method not in _WITHOUT_NAMESAKE
        ):
            new = changed.segment.replace(f".{method}(", f".{method[:-1]}(", 1)
            return f"Write {new} in place of {changed.segment}: that makes a new tensor."
    return None


def _dim(statement: ast.stmt) -> str:
    """Along which dimension the statement fills: `, dim=1` for `x[:, t] = ...`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    index = target.slice if isinstance(target, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    at = next((k for k, each in enumerate(parts) if not isinstance(each, ast.Slice)), 0)
    return f", dim={at}" if at else ""


def _fills(statement: ast.stmt, name: str) -> bool:
    """Whether the statement assigns a part of `name`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) and dotted(target.value) == name for target in targets)
