"""A module that another one was given in the place of: the teacher where the student belongs."""

from __future__ import annotations

from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name
from backsight.source import only
from backsight.source.bindings import prefixes
from backsight.source.edits import on_line, sentence
from backsight.source.swapped import Swapped, swapped
from backsight.story.failure import Failure
from backsight.story.files import user_files


def exchanged(failure: Failure, held: str) -> Swapped | None:
    """Return the only place of the user's files that gave another module as `held`: to a class of which a variable of
    a running function is, or an object on the way to `held`; to a running function; or by taking results apart."""
    level, last = failure.user, held.rpartition(".")[2]
    objects = [level.value(each) for each in prefixes(held)[:-1]] if level is not None else []
    objects += [value for each in failure.users for value in each.variables.values()]
    into = {"", *(class_name(type(each)) for each in objects), *(each.frame.f_code.co_name for each in failure.users)}
    every = [each for file in user_files(failure) for each in swapped(file)]
    return only(each for each in every if last in each.names and each.into in into)


def told(swap: Swapped) -> tuple[tuple[Fact, ...], str]:
    """Return the evidence, and the fix."""
    one, other = swap.names
    takes = shown(swap.takes, f"{'takes' if swap.into else 'returns'} {other}, then {one}.")
    gives = shown(swap.place, f"{'gives' if swap.into else 'takes'} {one} as {other}, and {other} as {one}.")
    line = sentence(on_line(swap.place, swap.mended))
    return (takes, gives), f"{line or f'Exchange {one} and {other} there'}."
