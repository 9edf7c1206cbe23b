"""What a program holds, written without its history, or begun anew by a method, and where such edits go."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from backsight.naming.plain import class_dict, namespace
from backsight.source import Body, Place, calls_of, only, read_at
from backsight.source.bindings import Use, bound, spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, is_constant, last_name, statements
from backsight.source.edits import OR, Edit, Where, instead, put, put_at
from backsight.story.carrier import Carrier
from backsight.story.case import loops
from backsight.story.failure import Level, is_users, method
from backsight.story.files import user_files
from backsight.story.holders import results_in
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.sections import methods_of
from backsight.story.stepping import steps_of_pass
from backsight.story.stores import each_of, held_as, keeps_results
from backsight.tape import registered
from backsight.text import as_code, listed


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
    if not is_users(cls) or method(cls, "__setattr__") or issubclass(cls, tuple):
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


def trained_start(found: Carrier) -> str:
    """To call the method that computes an attribute from parameters: detached, it would never train them again."""
    level, (owner, _, attribute) = found.level, found.name.rpartition(".")
    steps = [each for each in along(level, steps_of_pass(level, found.facts)) if each.line >= level.line]
    body = _uncalled(found)
    if body is None or not steps or len(found.names) > 1 or len(found.alike) > 1:
        return ""
    made = [each for each in statements(body.node) if Use(f"self.{attribute}", True) in uses(each)]
    read = {dotted(node) or "" for each in made for node in expressions(each)} - {f"self.{attribute}"}
    names = sorted(f"{owner}.{name[5:]}" for name in read if name.startswith("self."))
    trained = [name for name in names if needs_gradient(value_under(found, name))]
    call = f"{owner}.{body.name}()"
    edit = putting(call, "below", steps[0])
    return (
        f"Compute it anew in each step: put `{call}` below line {steps[0].line}{edit}. Detached, it would train "
        f"{listed(trained)} no more."
        if trained
        else ""
    )


def begun_without(found: Carrier) -> str:
    """To let it begin anew: by the method that does and which nothing calls, `lif.reset()`, or as None."""
    level, (owner, _, attribute), body = found.level, found.name.rpartition("."), _uncalled(found)
    held = held_as(found.case.failure, owner)
    if body is None and not all(_begins_as_none(held, each.rpartition(".")[2]) for each in found.names):
        return ""
    then, owners = f"{body.name}()" if body is not None else f"{attribute} = None", found.alike or (owner,)
    every = [f"{owners[0]}.{then}"] if len(found.names) == 1 or body is not None else []
    every = every or [f"{name} = None" for name in found.names]
    if len(owners) > 1:
        every = [f"for each in {each_of(found.case.failure, owners)}: each.{then}"]
    steps, code = along(level, steps_of_pass(level, found.facts)), "; ".join(every)
    after = next((each for each in steps if each.line >= level.line), level.place)
    return f" {OR}Or, if each {found.span} should begin anew, put there: {code}{putting(code, 'below', after)}."


def _begins_as_none(held: object, attribute: str) -> bool:
    """Whether a module has an attribute without a value until it is called, and asks whether it has one."""
    bodies = [*methods_of(type(held), where=keeps_results)] if is_module(held) else []
    made = [each for body in bodies if body.name == "__init__" for each in statements(body.node)]
    begins = any(
        f"self.{attribute}" in bound(each) and is_constant(getattr(each, "value", None), None) for each in made
    )
    asked = (node for body in bodies for node in ast.walk(body.node) if isinstance(node, ast.Compare))
    return begins and any(
        last_name(each.left) == attribute and is_constant(each.comparators[0], None) for each in asked
    )


def _uncalled(found: Carrier) -> Body | None:
    """The one method of the object that keeps it which would let it begin anew, and which nothing calls."""
    owner, _, attribute = found.name.rpartition(".")
    held = held_as(found.case.failure, owner) if owner else None
    bodies = methods_of(type(held), where=keeps_results) if owner else ()
    every = {b.name: b for b in bodies if begins_anew(b, attribute, held)}
    if not is_users(type(held)):
        every = {name: b for name, b in every.items() if not name.startswith("_")}
    for body, _, call in calls_of(*user_files(found.case.failure)) if every else ():
        if body.name != "__init__":
            every.pop(callee(call)[1], None)
    return only(every.values())


def value_under(found: Carrier, name: str) -> object:
    value = found.level.value(name)
    return value if value is not None else held_as(found.case.failure, name)


def along(level: Level, places: Sequence[Place]) -> list[Place]:
    """Those of some statements of a function that run whenever the line does at which it is."""
    arms = {each.node.lineno: each.arms for each in spots(level.body.node)} if level.body is not None else {}
    own = arms.get(level.place.line, ())
    return [each for each in places if own[: len(arms.get(each.line, ()))] == arms.get(each.line, ())]


def putting(code: str, where: Where, at: Place) -> Edit | str:
    """What puts a code above or below a line; nothing for one that is shortened, or said in words."""
    return put(code, where, at) if _is_code(code) else ""


def writing(at: Place, code: str) -> Edit | str:
    """What writes a code at a line; nothing for one that is shortened, or said in words."""
    body, statement = read_at(at)
    return instead(body, statement, code) if body is not None and statement is not None and _is_code(code) else ""


def _is_code(text: str) -> bool:
    try:
        ast.parse(as_code(text))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def pruned(found: Carrier) -> str:
    """A weight that pruning computes before its module is called, where another module reads it without calling that:
    `out_proj.weight` of attention."""
    owner, _, attribute = found.name.rpartition(".")
    module = held_as(found.case.failure, owner) if owner else None
    parts = [held.get(f"{attribute}_{part}") for held, part in zip(_tables(module), ("orig", "mask"), strict=False)]
    level = found.case.failure.user
    facts = next(loops(level), None) if level is not None else None
    if (
        not parts
        or facts is None
        or not all(map(is_tensor, parts))
        or level is None
        or level.value(owner) is not module
    ):
        return ""
    new = f"{found.name} = {found.name}_orig * {found.name}_mask"
    return (
        f"Pruning computes {found.name} when {owner} is called, and what reads it here does not call that. Compute it "
        f"in each iteration: {put_at(new, 'below', facts.loop)}. Or leave {owner} out of what is pruned."
    )


def _tables(module: object) -> list[dict[str, object]]:
    return [registered(module, "_parameters"), registered(module, "_buffers")] if is_module(module) else []
