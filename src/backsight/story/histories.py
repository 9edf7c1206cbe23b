"""What a program holds, written without its history."""

from __future__ import annotations

import ast
from typing import Any, cast

from backsight.naming.plain import class_dict, namespace
from backsight.naming.roots import is_user_class
from backsight.source import Body
from backsight.source.bindings import bound, uses
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.story.failure import method
from backsight.story.holders import results_in
from backsight.story.memory import is_tensor


def detached_as(name: str, held: object) -> str:
    """Return the statement that cuts the history of a variable which holds `held`: a tensor, or containers of some."""
    if held is None:  # not to be read without running code
        return f"{name} = {name}.detach()"
    cut = without_history(name, held)
    whole = f"{name} = {cut}" if cut else attributes_detached(name, held)
    return whole or f"detach() every tensor that {name} holds"


def attributes_detached(name: str, held: object) -> str:
    """The statements that cut the history of what an object of the user's holds; empty where one cannot be assigned."""
    cls = type(held)
    if not is_user_class(class_dict(cls).get("__module__")) or method(cls, "__setattr__") or issubclass(cls, tuple):
        return ""
    inside = {each: value for each, value in (namespace(held) or {}).items() if results_in(value)}
    cuts = [(f"{name}.{each}", without_history(f"{name}.{each}", value)) for each, value in inside.items()]
    return "; ".join(f"{path} = {cut}" for path, cut in cuts) if all(cut for _, cut in cuts) else ""


def without_history(name: str, held: object, inner: str = "each") -> str | None:
    """Return the expression for `held` without its history; None where it is not one line."""
    if is_tensor(held):
        return f"{name}.detach()"
    if issubclass(type(held), tuple) and "_fields" in class_dict(type(held)):
        fields: Any = class_dict(type(held))["_fields"]
        own = zip(fields, tuple.__iter__(cast("tuple[object, ...]", held)), strict=True)
        inside = {field: without_history(f"{name}.{field}", value) for field, value in own if results_in(value)}
        given = ", ".join(f"{field}={cut}" for field, cut in inside.items())
        return f"{name}._replace({given})" if inside and all(inside.values()) else None
    if not isinstance(held, (dict, list, tuple)) or type(held) not in (dict, list, tuple):
        return None  # of a class of the user's, whose own code would run
    values = [*held.values()] if isinstance(held, dict) else [*held]
    each = "h" if any(map(is_tensor, values)) else inner
    cuts = {without_history(each, value, "") for value in values} if each else set()
    if len(cuts) == 2 and cuts >= {None, "h.detach()"} and not any(results_in(v) for v in values if not is_tensor(v)):
        cuts = {"h.detach() if torch.is_tensor(h) else h"}
    cut = cuts.pop() if len(cuts) == 1 else None
    if cut is None:
        return None
    if type(held) is dict:
        return f"{{key: {cut} for key, {each} in {name}.items()}}"
    return f"[{cut} for {each} in {name}]" if type(held) is list else f"tuple({cut} for {each} in {name})"


def begins_anew(body: Body, attribute: str, held: object) -> bool:
    """Whether a method takes nothing, and gives an attribute of its object another value that has no history."""
    given = body.node.args if isinstance(body.node, ast.FunctionDef) else None
    if given is None or body.name.startswith("__") or len(given.args) != 1 or given.vararg or given.kwonlyargs:
        return False
    name, every = f"self.{attribute}", [*statements(body.node)]
    calls = [call for each in every for call in calls_in(each)]
    resets = any(name in bound(each) for each in every)
    resets = resets or any(callee(each)[1] in ("clear", "update") and dotted(callee(each)[0]) == name for each in calls)
    read = {use.name.split(".")[1] for each in every for use in uses(each) if use.name.startswith("self.")} - {
        attribute
    }
    kept = any(results_in((namespace(held) or {}).get(each)) for each in read)
    return resets and not kept and not any(isinstance(each, ast.Return) for each in every)
