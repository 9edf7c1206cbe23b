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
from backsight.source import Body, Place, calls_of, function_at, only, statements_of
from backsight.source.bindings import assigned, unpacked
from backsight.source.body import callee, dotted, functions, statements

_MOST_FRAMES = 64


def named(held: object, otherwise: str) -> str:
    """Return what the program calls an object."""
    names = search([held]).names[0]
    return next((name.path for name in names if name.path != "self"), otherwise)


def names_of(tensors: Sequence[torch.Tensor]) -> str:
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


def calls_around(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Yield the calls in these files."""
    return calls_of(*files_around(frame))


def method_of(call: ast.Call) -> tuple[str, str]:
    """Return the last name of what a method is called on, and the method."""
    receiver, method = callee(call)
    return (dotted(receiver) or "").split(".")[-1], method


def constructions(frame: FrameType | None, optimizer: torch.optim.Optimizer, name: str) -> list[Place]:
    """Return the statements that bind `name` to the result of a call, the function that runs first.

    What a person calls `self.opt` or `trainer.opt` is an attribute, and `opt` a variable: one is not the other. Where
    some call the class of the optimizer, the others make something else. Where it is a variable of a function that
    still runs and has bound it to a call itself, it was made there, whatever others call it.
    """
    if made := [place for each in program_frames(frame) for place in _made_in(each, optimizer)]:
        return made
    attribute, last = "." in name, name.split(".")[-1]
    found = []
    for body, statement in statements_around(frame):
        if not isinstance(statement, ast.Assign):
            continue
        for target, value, _ in (each for goal in statement.targets for each in unpacked(goal, statement.value)):
            called = (dotted(target) or "").split(".")[-1]
            if isinstance(value, ast.Call) and isinstance(target, ast.Attribute) is attribute and called == last:
                found.append((body.place(statement), callee(value)[1] == type(optimizer).__name__))
    of_class = [place for place, calls_class in found if calls_class]
    return of_class or [place for place, _ in found]


def filling(frame: FrameType | None, last: str) -> Place | None:
    """Return the only statement that fills a container, by the last name of it: with a display, or by a call."""
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        for target, value in assigned(statement)
        if isinstance(value, ast.DictComp | ast.ListComp | ast.Call) and (dotted(target) or "").split(".")[-1] == last
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
