"""The program around an optimizer step: its frames, its functions, and what it calls things."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType

import torch

from backsight.diagnosis.wording import counted, listed
from backsight.naming import search
from backsight.naming.frames import locals_of
from backsight.naming.roots import is_ours, is_user
from backsight.source import Body, Place, calls_of, function_at, only, statement_at, statements_of
from backsight.source.averaging import Writes, writes
from backsight.source.bindings import assigned, target_names, unpacked
from backsight.source.body import LOOPS, Loop, callee, dotted, functions, statements

_MOST_FRAMES = 64


def named(held: object, otherwise: str | None = None) -> str:
    """Return what the program calls an object; its class is told otherwise."""
    paths = (name.path for name in search([held]).names[0] if name.path != "self")
    return next(paths, type(held).__name__ if otherwise is None else otherwise)


def modules() -> list[torch.nn.Module]:
    """Return the modules that variables hold."""
    found = search((), collect=(torch.nn.Module,)).found
    return [each for each, _ in found if isinstance(each, torch.nn.Module)]


def ending(name: str | None) -> str:
    """Return the last part of what something is called: `lr` of `self.opt.lr`."""
    return (name or "").rpartition(".")[2]


def endings_of(held: object) -> set[str]:
    """Return the last parts of all that the program calls an object."""
    return {ending(name.path) for name in search([held]).names[0]}


def few_of(tensors: Sequence[object], most: int = 2) -> str:
    """`model.0.weight, model.0.bias and 6 more`: what the program calls some of these parameters."""
    names = [found[0].path if found else "a parameter" for found in search(tensors[:most], limit=1).names]
    return listed([*names, *[""] * len(tensors[most:])], most)


def names_of(tensors: Sequence[torch.Tensor]) -> str:
    """`few_of`, but for parameters that may have lost their names."""
    found = [n[0].path if n else "" for n in search(tensors[:2], limit=1).names]
    if not all(found) or any("param_groups[" in path for path in found):
        return f"{counted(len(tensors), 'parameter')} that nothing else holds anymore"
    return listed([*found, *[""] * len(tensors[2:])], 2)


def program_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the program from `frame` outwards."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        if is_user(frame) and not is_ours(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def running_at(frame: FrameType | None) -> tuple[Body, ast.stmt] | tuple[None, None]:
    """Return the statement of the program that a frame runs, and the function around it."""
    around = next(program_frames(frame), None)
    body = function_at(around.f_code) if around is not None else None
    statement = statement_at(body, around.f_lineno) if around is not None else None
    return (body, statement) if body is not None and statement is not None else (None, None)


def running(frame: FrameType) -> set[str]:
    """Return the names of the functions that lead to the step."""
    return {each.f_code.co_name for each in program_frames(frame)} - {"<module>"} | {""}


def files_around(frame: FrameType | None) -> dict[str, None]:
    """Return the program's files from which the step is called, the innermost first."""
    return dict.fromkeys(each.f_code.co_filename for each in program_frames(frame))


def bodies(frame: FrameType | None) -> Iterator[Body]:
    """Yield the functions and modules of these files."""
    return (body for file in files_around(frame) for body in functions(file))


def statements_around(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt]]:
    """Yield the statements in these files."""
    return statements_of(*files_around(frame))


def writes_around(frame: FrameType | None) -> Iterator[Writes]:
    """Yield the statements in these files that write the parameters of one module from those of another."""
    return (each for file in files_around(frame) for each in writes(file))


def calls_around(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Yield the calls in these files."""
    return calls_of(*files_around(frame))


def loops_around(body: Body | None, line: int) -> list[Loop]:
    """Return the loops around a line, the outermost first."""
    every = statements(body)
    return [each for each in every if isinstance(each, LOOPS) and each.lineno < line <= (each.end_lineno or 0)]


def conditions_around(body: Body, line: int) -> list[ast.If]:
    """Return the conditions around a line, the outermost first."""
    every = (each for each in statements(body.node) if isinstance(each, ast.If))
    return [each for each in every if each.lineno < line <= (each.end_lineno or 0)]


def looped(body: Body) -> set[str]:
    """Return the variables of the loops of a function: to assign one changes nothing but itself."""
    return {name for each in statements(body.node) if isinstance(each, ast.For) for name in target_names(each.target)}


def method_of(call: ast.Call) -> tuple[str, str]:
    """Return the last name of what a method is called on, and the method."""
    receiver, method = callee(call)
    return ending(dotted(receiver)), method


def constructions(frame: FrameType | None, made: object, name: str) -> list[Place]:
    """Return the statements that bind `name` to the result of a call, the function that runs first.

    What a person calls `self.opt` or `trainer.opt` is an attribute, and `opt` a variable: one is not the other. Where
    some call its class, the others make something else. Where it is a variable of a function that
    still runs and has bound it to a call itself, it was made there, whatever others call it.
    """
    if own := [place for each in program_frames(frame) for place in _made_in(each, made)]:
        return own
    attribute, last = "." in name, ending(name)
    found = []
    for body, statement in statements_around(frame):
        if not isinstance(statement, ast.Assign):
            continue
        for target, value, _ in (each for goal in statement.targets for each in unpacked(goal, statement.value)):
            called = isinstance(target, ast.Attribute) is attribute and ending(dotted(target)) == last
            if called and isinstance(value, ast.Call):
                found.append((body.place(statement), callee(value)[1] == type(made).__name__))
    of_class = [place for place, calls_class in found if calls_class]
    return of_class or [place for place, _ in found]


def filling(frame: FrameType | None, last: str) -> Place | None:
    """Return the only statement that fills a container, by the last name of it: with a display, or by a call."""
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        for target, value in assigned(statement)
        if isinstance(value, ast.DictComp | ast.ListComp | ast.Call) and ending(dotted(target)) == last
    )


def _made_in(frame: FrameType, made: object) -> Iterator[Place]:
    """Yield the statements of a running function that bind the variable that holds an object to a call."""
    body = function_at(frame.f_code)
    held = {name for name, value in locals_of(frame).items() if value is made} if body is not None else set()
    if body is None or not held:
        return
    for each in statements(body.node):
        if any(isinstance(value, ast.Call) and dotted(target) in held for target, value in assigned(each)):
            yield body.place(each)
