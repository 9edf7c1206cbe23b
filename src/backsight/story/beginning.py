"""To let what is carried begin anew, where a method of the object that keeps it does so, and where edits go."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.source import Body, Place, calls_of, only, read_at
from backsight.source.bindings import Use, spots, uses
from backsight.source.body import callee, dotted, expressions, statements
from backsight.source.edits import OR, Edit, Where, instead, put
from backsight.story.carrier import Carrier
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.histories import begins_anew
from backsight.story.memory import needs_gradient
from backsight.story.sections import methods_of
from backsight.story.stepping import steps_of_pass
from backsight.story.stores import held_as
from backsight.text import as_code, listed


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
    """To call the method which would let it begin anew, and which nothing calls: `lif.reset()`."""
    level, owner, body = found.level, found.name.rpartition(".")[0], _uncalled(found)
    if body is None:
        return ""
    name, owners = body.name, found.alike or (owner,)
    call = f"for each in ({', '.join(owners)}): each.{name}()" if len(owners) > 1 else f"{owners[0]}.{name}()"
    steps = along(level, steps_of_pass(level, found.facts))
    after = next((each for each in steps if each.line >= level.line), level.place)
    return f" {OR}Or, if each {found.span} should begin anew, put there: {call}{putting(call, 'below', after)}."


def _uncalled(found: Carrier) -> Body | None:
    """The one method of the object that keeps it which would let it begin anew, and which nothing calls."""
    owner, _, attribute = found.name.rpartition(".")
    held = held_as(found.case.failure, owner) if owner else None
    every = {b.name: b for b in methods_of(type(held)) if begins_anew(b, attribute, held)} if owner else {}
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
