"""BS214: a tensor that was made under `torch.inference_mode()` meets autograd."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import parsed, read_at
from backsight.source.body import callee, calls_in, dotted, expressions
from backsight.source.edits import OR, put, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.memory import is_tensor
from backsight.story.modes import Block, headed, inference_block, inference_seen, without_inference
from backsight.story.sections import called_by, section_of
from backsight.tape import tensors_in


@explains(
    "BS214",
    r"Inference tensors cannot be (?P<saved>saved for backward)",
    r"(?P<changed>Inplace update to inference tensor) outside InferenceMode",
    r"(?P<asked>Setting requires_grad=True) on inference tensor",
)
def inference_tensor(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, and the block or function under `inference_mode` that made it."""
    said = match.groupdict()
    text, tensor = next(_inference_tensors(failure), ("", None))
    name = text or (names_of(failure, [tensor])[0] if tensor is not None else "")
    seen = inference_seen(tensor) if tensor is not None else None
    block = seen or (inference_block(failure, name) if name else None)
    if seen is not None:
        lines = [shown(seen.place, "enables torch.inference_mode()."), *_making(seen)]
    elif block is not None:
        lines = [shown(block.place, f"runs {block.what} under torch.inference_mode(), and creates {name} in it.")]
        if block.made:
            lines.insert(
                0, shown(block.made, f"assigns the result to {name.partition('[')[0].partition('.')[0] or name}.")
            )
    else:
        lines = []
    lines += failing(failure, _does(said))
    label = name or (f"A {described(tensor)}" if tensor is not None else "A tensor")
    return explanation(
        f"{label} was created under torch.inference_mode(), so {_why(said)}.",
        lines,
        _fix(failure, said, name, tensor, block),
        source=block.place if block else failure.source,
        exact=tensor is not None and block is not None,
    )


def _making(seen: Block) -> Iterator[Fact]:
    """What a watch has seen to make it."""
    if seen.made is not None and seen.made != seen.place:
        yield shown(seen.made, "creates it in that mode.")


def _inference_tensors(failure: Failure) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors made in inference mode that the failing statement had to do with, and what it calls them."""
    level = failure.user
    for node in expressions(level.statement) if level else ():
        value = value_of(level, node) if level else None
        if is_tensor(value) and _is_inference(value) and level and level.body:
            yield level.body.text(node), value
    for value in _returned(failure):
        yield "", value
    for each in reversed(failure.levels):
        for value in each.variables.values():
            for tensor in (*tensors_in(value), *_own(value)):
                if is_tensor(tensor) and _is_inference(tensor):
                    yield "", tensor


def _returned(failure: Failure) -> Iterator[torch.Tensor]:
    """Such tensors that a call in the failing statement returned, or a part of: `return self.cache[:length]`."""
    level = failure.user
    section = section_of(level) if level is not None else None
    for call in calls_in(level.statement if level is not None else None):
        for called in called_by(section, call, ()) if section is not None else ():
            for node in (parsed(text) for text, _ in called.goals):
                held = (called.value(dotted(each) or "") for each in (ast.walk(node) if node is not None else ()))
                yield from (each for each in held if is_tensor(each) and _is_inference(each))


def _own(value: object) -> Iterator[object]:
    """The parameters and buffers of a module itself."""
    held = (namespace(value) or {}) if issubclass(type(value), torch.nn.Module) else {}
    for table in ("_parameters", "_buffers"):
        entries = held.get(table)
        yield from entries.values() if type(entries) is dict else ()


def _is_inference(tensor: torch.Tensor) -> bool:
    return bool(torch.Tensor.is_inference(tensor))


def _does(said: dict[str, str | None]) -> str:
    if said.get("saved"):
        return "needs to save it for backward."
    return "modifies it in place outside that mode." if said.get("changed") else "makes it require grad."


def _why(said: dict[str, str | None]) -> str:
    if said.get("saved"):
        return "autograd cannot save it for backward: it has no version counter"
    if said.get("changed"):
        return "it can be modified in place only in that mode"
    return "it can never require grad"


def _fix(failure: Failure, said: dict[str, str | None], name: str, tensor: object, block: Block | None) -> str:
    where = "where it is created"
    if block is not None:
        is_here = failure.user is not None and failure.user.place.file == block.place.file
        where = f"on line {block.place.line}" if is_here else f"in {block.place}"
    mode, edit = _other_mode(block)
    instead = f"Use {mode} {where}{edit}"
    failing = failure.user
    if said.get("asked"):
        copy = f"{name} = {name}.clone().requires_grad_()"
        if failing is not None and failing.place.text.startswith(f"{name}.requires_grad"):
            own = f"on line {failing.line}, write `{copy}`{write(failing.place, copy)}"
            return f"Ask for the gradient of a copy: {own}. {OR}Or {_lower(instead)}."
        return f"Call requires_grad_() on a copy made outside that block: {copy}. {OR}Or {_lower(instead)}."
    if issubclass(type(tensor), torch.nn.Parameter):
        whole = name.partition(".")[0]
        return f"Create {whole} outside torch.inference_mode(): tensors created in it cannot be trained."
    if said.get("changed"):
        return f"{instead}: its tensors can be modified anywhere."
    every = _named(failure, name) if name.isidentifier() else []
    what = "a copy" if len(every) == 1 else "copies"
    copies = "; ".join(f"{each} = {each}.clone()" for each in every)
    elsewhere = failing is not None and block is not None and failing.place.file != block.place.file
    of = f" of {os.path.basename(failing.place.file)}" if failing is not None and elsewhere else ""
    where = f": put `{copies}` above line {failing.line}{of}{put(copies, 'above', failing.place)}" if failing else ""
    copy = f" {OR}Or use {what} made outside that block{where}." if every else ""
    return f"{instead}: autograd can use its tensors as constants.{copy}"


def _other_mode(block: Block | None) -> tuple[str, str]:
    """What disables gradients as that block does, given what that was given; and the edit that writes it."""
    body, statement = read_at(block.place if block is not None else None)
    for call in calls_in(statement) if body is not None and statement is not None else ():
        mode = next(iter((*call.args, *(each.value for each in call.keywords))), None)
        if callee(call)[1] == "inference_mode" and isinstance(statement, ast.With) and body and mode is not None:
            inner = mode.operand if isinstance(mode, ast.UnaryOp) and isinstance(mode.op, ast.Not) else None
            enabled = body.text(inner) if inner is not None else f"not {simple(body.text(mode))}"
            new = f"torch.set_grad_enabled({enabled})"
            edit = str(write(body.place(statement), rewritten(body, statement, {call: new})))
            return f"`{new}` instead of `{body.text(call)}`", edit
    plain = without_inference(block.place.text) if block is not None else ""
    known = block is not None and plain != block.place.text
    return "torch.no_grad() instead of torch.inference_mode()", headed(block.place, plain) if block and known else ""


def _named(failure: Failure, name: str) -> list[str]:
    """The refused variable, and the others of the failing statement that are made in that mode as well."""
    level = failure.user
    read = (dotted(node) or "" for node in expressions(level.statement)) if level else ()
    found = [
        each
        for each in read
        if each.isidentifier() and level and is_tensor(value := level.value(each)) and _is_inference(value)
    ]
    return list(dict.fromkeys((name, *found)))


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
