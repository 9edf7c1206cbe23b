"""Where a tensor or a module got its name, and how that function writes a device."""

from __future__ import annotations

from backsight.diagnosis.errors.devices.owners import (
    dotted_text,
    moves,
)
from backsight.diagnosis.errors.devices.placed import Placed
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.source import Place, assignments, statement_at
from backsight.source.body import body_around, callee, calls_in, dotted
from backsight.story.failure import Failure
from backsight.story.sections import methods_of


def device_there(failure: Failure, place: Place | None, device: str) -> str:
    """How the function that makes something writes a device: as where it moves a model, if it does; else as here."""
    body = body_around(place.file, place.line) if place else None
    for other, _ in moves(failure):
        inside = body_around(other.file, other.line)
        statement = statement_at(inside, *other.position)
        for call in calls_in(statement) if inside is not None and body is not None and inside.node is body.node else ():
            if callee(call)[1] == "to" and call.args and inside is not None and dotted(call.args[0]):
                return inside.text(call.args[0])
    return device


def origin(failure: Failure, each: Placed) -> Place | None:
    """Where a variable got its value; of a loop's, the loop."""
    if not each.text or not dotted_text(each.text.partition("[")[0]):
        return None
    text = each.text.partition("[")[0]
    tensor = each.tensor if text == each.text else each.level.value(text)
    found = made(Held(failure, each.level, text, tensor))  # type: ignore[arg-type]  # a container is looked for alike
    if found is not None:
        return found.place
    for level in failure.users:
        name = next((name for name, value in level.variables.items() if value is each.tensor), None)
        places = assignments(level.body, name, before=level.line + 1) if name else ()
        if places and places[-1] != level.place:
            return places[-1]
    owner, _, attribute = text.rpartition(".")
    holder = each.level.value(owner) if owner else None
    bodies = list(methods_of(type(holder))) if holder is not None else []
    places = tuple(place for body in bodies for place in assignments(body, f"self.{attribute}"))
    return places[0] if places else None


def made_as(failure: Failure, name: str, value: object) -> Place | None:
    """Where a module got its name: in a function that still runs, or in a method of the object that has it."""
    for level in failure.users:
        for each in dict.fromkeys((name, *(n for n, held in level.variables.items() if held is value))):
            if level.value(each) is not value or level.body is None:
                continue
            places = assignments(level.body, each, before=level.line)
            if places:
                return places[-1]
            owner, _, attribute = each.rpartition(".")
            bodies = methods_of(type(level.value(owner))) if owner else ()
            found = [place for body in bodies for place in assignments(body, f"self.{attribute}")]
            if found:
                return found[0]
        module_places = assignments(body_around(level.frame.f_code.co_filename, 1), name)
        if level.frame.f_globals.get(name) is value and module_places:
            return module_places[-1]
    return None
