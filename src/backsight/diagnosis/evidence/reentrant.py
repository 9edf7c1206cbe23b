"""The call of a checkpoint that runs its part again inside of backward: `use_reentrant` is not False."""

from __future__ import annotations

import ast
from typing import NamedTuple

import torch

from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import Place, statement_at
from backsight.source.body import callee, dotted, expressions, is_constant, is_text, keyword, statements_of
from backsight.source.edits import write
from backsight.source.rewriting import rewritten, with_flag
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.holders import found_around
from backsight.story.sections import Section, sections
from backsight.tape import modules_in

CHECKPOINTS = frozenset({"checkpoint", "checkpoint_sequential"})


class Reentrant(NamedTuple):
    """The statement of the call, the name of the function, and the statement with use_reentrant=False; empty where that
    is too long. `setting`: that statement, where the call takes what another passes: `checkpoint(f, x, **self.kwargs)`.
    """

    place: Place
    name: str
    mended: str
    setting: Place

    @property
    def passing(self) -> Fact | None:
        """What another statement passes to the call."""
        return shown(self.setting, "passes use_reentrant=True to it.") if self.setting != self.place else None


def reentrant_call(failure: Failure) -> Reentrant | None:
    """Return the nearest call of a reentrant checkpoint on the way to what backward was run on."""
    for section in sections(failure):
        for call, place in section.calls():
            name, given = callee(call)[1], keyword(call, "use_reentrant")
            if name not in CHECKPOINTS or is_constant(given, False):
                continue
            if found := _passed(failure, section, call):
                return Reentrant(place, name, *found)
            statement = statement_at(section.body, *place.position)
            return Reentrant(place, name, with_flag(section.body, statement, call, "use_reentrant", "False"), place)
    return None


def _passed(failure: Failure, section: Section, call: ast.Call) -> tuple[str, Place] | None:
    """The only statement that says use_reentrant=True, mended, where a call takes its keywords from a dict."""
    unpacked = [section.value(dotted(each.value) or "") for each in call.keywords if each.arg is None]
    if not unpacked or not any(
        each is None or (type(each) is dict and each.get("use_reentrant") is True) for each in unpacked
    ):
        return None
    found = list[tuple[str, Place]]()
    for body, statement in statements_of(*user_files(failure)):
        every = ((node, given) for node in expressions(statement) if (given := _flag_in(node)) is not None)
        for node, given in every:
            direct = isinstance(node, ast.Call) and callee(node)[1] in CHECKPOINTS
            if is_constant(given, True) and not direct:
                found.append((rewritten(body, statement, {given: "False"}), body.place(statement)))
    return found[0] if len(found) == 1 and found[0][0] else None


def _flag_in(node: ast.expr) -> ast.expr | None:
    """What a call or a dict gives for `use_reentrant`."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return next((value for key, value in pairs if is_text(key, "use_reentrant")), None)
    return keyword(node, "use_reentrant") if isinstance(node, ast.Call) else None


def without_reentry(failure: Failure, call: Reentrant | None) -> str:
    """How a checkpoint, or those of a model of the transformers library, record what inputs without a gradient give."""
    if call is not None:
        mended = f"write `{call.mended}`{write(call.setting, call.mended)}"
        how = mended if call.mended else f"pass use_reentrant=False to {call.name}()"
        return f"On line {call.setting.line}, {how}."
    model = checkpointing(failure)
    if not model:
        return ""
    enable = f"{model}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{'use_reentrant': False}})"
    return f"Call {enable}, or {model}.enable_input_require_grads()."


def checkpointing(failure: Failure) -> str:
    """A model of the transformers library that checkpoints its layers, as the functions that run call it."""
    held = found_around(failure.frames, torch.nn.Module)
    inside = ((path, namespace(each) or {}) for module, path in held for _, each in modules_in(module))
    paths = (path for path, attributes in inside if attributes.get("gradient_checkpointing") is True)
    return min(paths, key=len, default="")
