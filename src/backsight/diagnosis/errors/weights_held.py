"""What makes the modules in a plain container a model's own: one that registers them, or another list beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from backsight.diagnosis.errors.weights_made import assigned_at, contained
from backsight.source import Body, Place, read_at
from backsight.source.body import callee, dotted, imported_in, statements
from backsight.source.definitions import FILLING
from backsight.source.edits import on_line, put
from backsight.source.rewriting import rewritten
from backsight.story.memory import is_module, is_tensor
from backsight.story.sections import methods_of

CONTAINERS = (list, tuple, dict, set)
_EMPTY = ("[]", "{}", "list()", "dict()", "()", "tuple()")


def entries_of(held: Any) -> list[Any]:
    return list(held.values() if type(held) is dict else held)


def mended(what: str, inner: torch.nn.Module, attribute: str, held: object, of: type) -> str:
    """The sentence that says how the modules or tensors (`of`) in a plain container of a module are registered."""
    place = assigned_at(inner, attribute)
    kind = "Parameter" if of is torch.Tensor else "Module"
    wanted = f"nn.{kind}{_letters(held)}"
    nested = any(type(each) in CONTAINERS for each in entries_of(held))
    if not _fits(held, of):
        return f"{_beside(what, attribute, held, place, kind)}."
    if not nested:
        return f"Make {what} an {wanted}: {contained(attribute, place, wanted)}."
    lines = _nested(inner, attribute, held, place) if kind == "Module" else ""
    if lines:
        return f"Make {what} an {wanted}, and the containers in it modules too: {lines}."
    return f"{_beside(what, attribute, held, place, kind)}."


def _letters(held: object) -> str:
    return "Dict" if type(held) is dict else "List"


def _fits(held: Any, of: type) -> bool:
    """Whether a container of modules takes all of it: it takes nothing else, and texts as the keys of a dict."""
    if type(held) is dict and not all(type(key) is str and key and "." not in key for key in held):
        return False
    if type(held) not in CONTAINERS:
        return is_tensor(held) if of is torch.Tensor else is_module(held)
    return all(_fits(each, of) for each in entries_of(held))


def beside(attribute: str, expressions: str, place: Place | None, kind: str = "Module") -> str:
    """What registers modules that stay where they are: a list of them at the end of what assigns the attribute."""
    code = f"self.{attribute}_{kind.lower()}s = {nn_of(place)}.{kind}List({expressions})"
    body, statement = read_at(place)
    if (
        body is None
        or not isinstance(body.node, ast.FunctionDef)
        or body.name != "__init__"
        or statement not in body.node.body
    ):
        return f"`{code}`, once it is filled"
    return f"put `{code}` at the end of __init__(){put(code, 'end', body.place(body.node))}"


def nn_of(place: Place | None) -> str:
    return "nn" if place is None or "nn" in imported_in(place.file) else "torch.nn"


def _beside(what: str, attribute: str, held: Any, place: Place | None, kind: str) -> str:
    """The same of what is in a container, or in the containers in it."""
    inner = [each for each in entries_of(held) if type(each) in CONTAINERS]
    kinds = {type(each) for each in inner}
    name, values = f"self.{attribute}", ".values()" if type(held) is dict else ""
    within = (each for each in inner for each in entries_of(each))
    if inner and (len(inner) < len(entries_of(held)) or len(kinds) > 1 or any(type(e) in CONTAINERS for e in within)):
        return f"Register the {kind.lower()}s of {what} in an nn.{kind}List beside it"
    loops = f"for one in {name}{values}"
    if inner:
        loops += f" for each in one{'.values()' if kinds == {dict} else ''}"
    last = "each" if inner else "one"
    every = [each for one in entries_of(held) for each in (entries_of(one) if inner else [one])]
    wanted = f"{nn_of(place)}.{kind}"
    plain = f"{name}{values}" if not inner else f"{last} {loops}"
    if not all(is_module(each) if kind == "Module" else is_tensor(each) for each in every):
        plain = f"{last} {loops} if isinstance({last}, {wanted})"
    why = "" if inner else f", as an nn.{kind}{_letters(held)} does not take all that is in it"
    them = "its" if what == "it" else "the"
    of = "" if what == "it" else f" of {what}"
    return f"Register {them} {kind.lower()}s{of} beside it{why}: {beside(attribute, plain, place, kind)}"


def _nested(inner: torch.nn.Module, attribute: str, held: Any, place: Place | None) -> str:
    """The statements that make and fill a container of containers, with each of them a module."""
    body, statement = read_at(place)
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if place is None or body is None or statement is None or value is None:
        return ""
    name = f"self.{attribute}"
    if body.text(value) not in _EMPTY:
        new = _wrapped(body, value, [held], nn_of(place))
        return on_line(place, rewritten(body, statement, {value: new})) if new else ""
    lines = [on_line(place, f"{name} = {nn_of(place)}.Module{_letters(held)}()")]
    for other, each, given in _fillings(inner, name):
        new = _wrapped(other, given, entries_of(held), nn_of(place)) if given is not None else ""
        lines.append(on_line(other.place(each), rewritten(other, each, {given: new})) if new and given else "")
    return ", and ".join(lines) if len(lines) > 1 and all(lines) else ""


def _fillings(inner: torch.nn.Module, name: str) -> Iterator[tuple[Body, ast.stmt, ast.expr | None]]:
    """The statements that put something into a container, with what, where that is one entry."""
    for body in methods_of(type(inner)):
        for each in statements(body.node):
            call = each.value if isinstance(each, ast.Expr) else None
            if isinstance(call, ast.Call) and dotted(callee(call)[0]) == name and callee(call)[1] in FILLING:
                yield body, each, call.args[0] if callee(call)[1] == "append" and len(call.args) == 1 else None
            target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
            if isinstance(target, ast.Subscript) and dotted(target.value) == name:
                yield body, each, each.value if isinstance(each, ast.Assign) else None
            if isinstance(each, ast.AugAssign) and dotted(target) == name:
                yield body, each, None


def _wrapped(body: Body, node: ast.expr, held: Sequence[Any], nn: str) -> str:
    """An expression with each literal that makes a container made a module; `held`: what it may have made."""
    containers = [each for each in held if type(each) in CONTAINERS]
    if not containers:
        return body.text(node)
    if not isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.ListComp):
        return ""
    if isinstance(node, ast.ListComp):
        part = _wrapped(body, node.elt, [each for one in containers for each in entries_of(one)], nn)
        loops = body.text(node).removeprefix(f"[{body.text(node.elt)}").removesuffix("]")
        return f"{nn}.ModuleList([{part}{loops}])" if part and loops.lstrip().startswith("for") else ""
    values = node.values if isinstance(node, ast.Dict) else node.elts
    columns = _columns(containers, len(values))
    parts = [_wrapped(body, each, column, nn) for each, column in zip(values, columns, strict=False)]
    if len(parts) < len(values) or not all(parts):
        return ""
    if isinstance(node, ast.Dict):
        keys = [body.text(key) for key in node.keys if key is not None]
        pairs = ", ".join(f"{key}: {part}" for key, part in zip(keys, parts, strict=True))
        return f"{nn}.ModuleDict({{{pairs}}})" if len(keys) == len(parts) else ""
    return f"{nn}.ModuleList([{', '.join(parts)}])"


def _columns(containers: Sequence[Any], number: int) -> list[list[Any]]:
    """For each entry of a literal, what the containers that it made have there; nothing where they differ in length."""
    fitting = [entries for each in containers if len(entries := entries_of(each)) == number]
    return [[entries[k] for entries in fitting] for k in range(number)] if fitting else []
