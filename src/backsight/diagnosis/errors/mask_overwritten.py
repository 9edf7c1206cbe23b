"""BS208 of `x[mask] = values`: the mask selects another number in backward, as its memory was overwritten meanwhile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown, sure_if
from backsight.source import Body, Place, read_at, statements_of
from backsight.source.body import callee, calls_in
from backsight.source.changes import changed_names, memory_of
from backsight.source.edits import change
from backsight.story.failure import Failure
from backsight.story.files import user_files

_COUNTS = re.compile(r"got \[(\d+)(, [\d, ]*)?\] but expected shape compatible with \[(\d+)(, [\d, ]*)?\]")
_SHARING = ("from_numpy", "as_tensor", "asarray", "from_dlpack", "frombuffer")


def by_mask(failure: Failure, match: re.Match[str]) -> Finding | None:
    """Name the array behind the mask, and what writes into it; None where it is no other number of entries."""
    counts = _COUNTS.search(match["what"])
    if not re.match(r"IndexPut(Impl)?Backward\d", match["node"]) or counts is None or counts[2] != counts[4]:
        return None
    found = list(_shared(failure))
    exact = len(found) == 1
    copies = [f"on line {call.line}, write `{new}`{change(call, call.text, new)}" for _, call, new in found]
    return explanation(
        f"A mask selected {counts[3]} entries in the forward pass, and selects {counts[1]} now: its memory was "
        "overwritten, where autograd does not see it.",
        (
            *(shown(_whole(call), "shares its memory with an array.", sure_if(exact)) for _, call, _ in found),
            *(shown(written, "writes into that array.", sure_if(exact)) for written, _, _ in found),
            *failing(failure, "indexes with the mask again."),
        ),
        f"Give the mask memory of its own: {listed(copies)}."
        if found
        else "Give the mask memory of its own: mask.clone() where it is made. Look for a NumPy array, or memory of "
        "another process, that is reused for the next batch.",
        source=_whole(found[0][1]) if found else failure.source,
        exact=exact,
    )


def _shared(failure: Failure) -> Iterator[tuple[Place, Place, str]]:
    """What writes into an array, the call that makes a tensor of its memory, and that call with a copy."""
    every = list(statements_of(*user_files(failure)))
    for body, statement in every:
        for call in calls_in(statement):
            array = memory_of(call.args[0]) if callee(call)[1] in _SHARING and call.args else None
            written = [at for at in _writing(every, array, body) if array is not None]
            if written and "…" not in body.text(call):
                yield written[0], body.place(call), f"{body.text(call)}.clone()"


def _whole(call: Place) -> Place:
    """The statement that a call stands in, where that is on the one line."""
    body, statement = read_at(call)
    one = body is not None and statement is not None and statement.lineno == statement.end_lineno
    return body.place(statement) if one and body is not None and statement is not None else call


def _writing(every: list[tuple[Body, ast.stmt]], array: str | None, here: Body) -> Iterator[Place]:
    """The statements that write into an array: of an attribute, in the whole file, else in the same function."""
    for body, statement in every:
        near = body.file == here.file and (body.node is here.node or "." in (array or ""))
        if near and array in changed_names(statement):
            yield body.place(statement)
