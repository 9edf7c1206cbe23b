"""BS214: a tensor that was made under `torch.inference_mode()` meets autograd."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, if_known, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import (
    Body,
    LoopFacts,
    Place,
    assignments,
    backward_roots,
    loop_facts,
    only,
    parsed,
    read_at,
    statement_at,
    statements_of,
)
from backsight.source.body import callee, calls_in, covers, dotted, expressions, statements
from backsight.source.edits import OR, on_line, put, remove, sentence, unwrap, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, may_have_gradient
from backsight.story.modes import Block, disabled_at, headed, inference_block, inference_seen, without_inference
from backsight.story.sections import Section, called_by, followed, function_called, run_by, section_of
from backsight.story.stores import apart, stores
from backsight.story.trained import Trained, trained
from backsight.tape import tensors_in

_SAYS = {
    "saved": ("needs to save it for backward.", "autograd cannot save it for backward"),
    "changed": ("modifies it in place outside that mode.", "it can be modified in place only in that mode"),
    "asked": ("makes it require grad.", "it can never require grad"),
}
"""What the failing statement does with the tensor, and why that is refused."""


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
    filled = _filled(failure, name) if block is None else None
    lines: list[Fact | None] = []
    if seen is not None:
        made = None if seen.made == seen.place else seen.made
        lines = [shown(seen.place, "enables torch.inference_mode()."), if_known(made, "creates it in that mode.")]
    elif block is not None:
        held = name.partition("[")[0].partition(".")[0] or name
        lines = [
            if_known(block.made, f"assigns the result to {held}."),
            shown(block.place, f"runs {block.what} under torch.inference_mode(), and creates {name} in it."),
        ]
    elif filled is not None:
        block, keeping = filled
        lines = [
            shown(block.place, f"runs {block.what} under torch.inference_mode(), as nothing else does.", "read"),
            shown(keeping, f"creates it when that runs first, and keeps it as {name}."),
        ]
    does, why = next(_SAYS[key] for key, value in said.items() if value)
    label = name or (f"A {described(tensor)}" if tensor is not None else "A tensor")
    return explanation(
        f"{label} was created under torch.inference_mode(), so {why}.",
        (*lines, *failing(failure, does)),
        _fix(failure, said, name, tensor, block),
        source=block.place if block else failure.source,
        exact=tensor is not None and block is not None and filled is None,
    )


def _filled(failure: Failure, name: str) -> tuple[Block, Place] | None:
    """The only block or function of the program under inference mode, and the only statement that keeps what an
    attribute, or an entry of one, holds: one of another function, which then has run in that mode first."""
    variable = apart(name)[0]
    kept = [each for each in stores(failure, variable) if each.inside] or stores(failure, variable)
    kept = [each for each in kept if isinstance(parsed(each.keeping.value), ast.Call | ast.BinOp)]
    inside = ((body, each.lineno) for body, each in statements_of(*user_files(failure)))
    found = {off.place: off for body, line in inside if (off := disabled_at(body, line, "inference")) is not None}
    off, store = only(found.values()), only(kept)
    if off is None or store is None or "." not in variable or "with " in store.keeping.place.text:
        return None
    what = f"{off.function or 'the function'}()" if off.is_decorator else "this block"
    return Block(off.place, what), store.keeping.place


def _inference_tensors(failure: Failure) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors made in inference mode that the failing statement had to do with, and what it calls them."""
    level = failure.user
    if level is not None and level.body is not None:
        every = ((node, value_of(level, node)) for node in expressions(level.statement))
        yield from ((level.body.text(node), value) for node, value in every if _is_inference(value))
    if level is not None:
        yield from (("", value) for value in _returned(level))
    for value in (value for each in reversed(failure.levels) for value in each.variables.values()):
        yield from (("", tensor) for tensor in (*tensors_in(value), *_own(value)) if _is_inference(tensor))


def _returned(level: Level) -> Iterator[torch.Tensor]:
    """Such tensors that a call in the failing statement returned, or a part of: `return self.cache[:length]`."""
    section = section_of(level)
    for call in calls_in(level.statement):
        for called in called_by(section, call, ()) if section is not None else ():
            for node in (parsed(text) for text, _ in called.goals):
                held = (called.value(dotted(each) or "") for each in (ast.walk(node) if node is not None else ()))
                yield from (tensor for each in held for tensor in tensors_in(each) if _is_inference(tensor))


def _own(value: object) -> Iterator[object]:
    """The parameters and buffers of a module itself."""
    held = (namespace(value) or {}) if issubclass(type(value), torch.nn.Module) else {}
    for table in ("_parameters", "_buffers"):
        entries = held.get(table)
        yield from entries.values() if type(entries) is dict else ()


def _is_inference(value: object) -> TypeGuard[torch.Tensor]:
    return is_tensor(value) and bool(torch.Tensor.is_inference(value))


def _fix(failure: Failure, said: dict[str, str | None], name: str, tensor: object, block: Block | None) -> str:
    level, where = failure.user, "where it is created"
    elsewhere = level is not None and block is not None and level.place.file != block.place.file
    if block is not None:
        where = f"on line {block.place.line}" if level is not None and not elsewhere else f"in {block.place}"
    mode, edit = _other_mode(block)
    instead = f"use {mode} {where}{edit}"
    if said.get("asked"):
        copy = f"{name} = {name}.clone().requires_grad_()"
        ask = f"Call requires_grad_() on a copy made outside that block: {copy}"
        if level is not None and level.place.text.startswith(f"{name}.requires_grad"):
            ask = f"Ask for the gradient of a copy: {on_line(level.place, copy)}"
        return f"{ask}. {OR}Or {instead}."
    if issubclass(type(tensor), torch.nn.Parameter):
        whole = name.partition(".")[0]
        return f"Create {whole} outside torch.inference_mode(): tensors created in it cannot be trained."
    if said.get("changed"):
        return f"{sentence(instead)}: its tensors can be modified anywhere."
    constant = f"{sentence(instead)}: autograd can use its tensors as constants."
    is_kept = block is not None and _is_kept(failure, block)
    if block is None or not _computes_with_trained(failure, name, block):
        every = _named(failure, name) if name.isidentifier() else []
        copies = "; ".join(f"{each} = {each}.clone()" for each in every)
        if not every or level is None or is_kept:
            return constant
        of = f" of {os.path.basename(level.place.file)}" if elsewhere else ""
        put_there = f"put `{copies}` above line {level.line}{of}{put(copies, 'above', level.place)}"
        what = "a copy" if len(every) == 1 else "copies"
        return f"{constant} {OR}Or use {what} made outside that block: {put_there}."
    if is_tensor(tensor) and not may_have_gradient(tensor):
        return f"{constant} {name or 'It'} holds integers, through which no gradient goes in any case."
    if is_kept:
        return constant
    lifted = f"remove line {block.place.line}"
    if block.place.text.startswith("@"):
        lifted += str(remove(block.place))
    elif _ONLY.fullmatch(block.place.text):
        lifted += f" and dedent the lines inside it{unwrap(block.place)}"
    of = f" of {os.path.basename(block.place.file)}" if elsewhere else ""
    return (
        f"If the parameters that compute {name or 'it'} should be trained by this loss, {lifted}{of}. {OR}If it is a "
        f"constant, {instead}: this loss then trains what else it is computed from, and not what computed "
        f"{name or 'it'}."
    )


_ONLY = re.compile(r"with [\w.]+\((mode=)?(True)?\):")


def _computes_with_trained(failure: Failure, name: str, block: Block) -> bool:
    """Whether parameters of an optimizer compute what is made in a block or a function under inference mode."""
    owned = trained(failure)
    for level in failure.users if owned.owned is not None else ():
        start = section_of(level)
        for each in followed([replace(start, whole=True)]) if start is not None else ():
            lines = _leading(each, name, block).lines() if each.body.file == block.place.file else ()
            inside = (statement_at(each.body, line) for line in lines if _is_under(each.body, line, block))
            if any(_is_of_trained(each, owned, call) for statement in inside for call in calls_in(statement)):
                return True
    return False


def _leading(section: Section, name: str, block: Block) -> Section:
    """A function as far as it leads to what it makes in the block, where its text shows which statement does."""
    body = section.body
    at = block.made or next(iter(assignments(body, name)[-1:] if name else ()), None)
    made = statement_at(body, *at.position) if at is not None and _is_under(body, at.line, block) else None
    value = getattr(made, "value", None)
    return replace(section, whole=False, goals=((body.text(value), value.lineno),)) if value is not None else section


def _is_under(body: Body, line: int, block: Block) -> bool:
    off = disabled_at(body, line, "inference")
    return off is not None and off.place.line == block.place.line


def _is_kept(failure: Failure, block: Block) -> bool:
    """Whether what a block made serves several steps, as the loop around the step does not run the block: with a graph,
    it would serve one backward alone."""
    around = [(each, facts) for each in failure.users if (facts := loop_facts(each.body, each.line)) is not None]
    trains = [each for each in around if any(at.line in _loop(*each) for _, at in backward_roots(each[0].body))]
    level, facts = next(iter(trains or around), (None, None))
    start = section_of(level) if level is not None else None
    if level is None or facts is None or start is None:
        return False
    lines = _loop(level, facts)
    if start.body.file == block.place.file and block.place.line in lines:
        return False
    inside = (each for each in statements(start.body.node) if each.lineno in lines)
    bodies = [each.body for each in failure.users if each is not level and each.body is not None]
    for call in (call for each in inside for call in calls_in(each)):
        function, owner = function_called(start, call)
        bodies += [each.body for each in run_by(function, owner)] if function is not None else []
    return not any(_has_block(each, block) for each in bodies)


def _loop(level: Level, facts: LoopFacts) -> range:
    """The lines of a loop."""
    loop = statement_at(level.body, *facts.loop.position)
    return range(loop.lineno, (loop.end_lineno or loop.lineno) + 1) if loop is not None else range(0)


def _has_block(body: Body, block: Block) -> bool:
    """Whether a function has a block, or is decorated with it."""
    node, line = body.node, block.place.line
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    inside = isinstance(node, ast.FunctionDef) and covers(node, line)
    return body.file == block.place.file and (inside or any(each.lineno == line for each in decorators))


def _is_of_trained(section: Section, owned: Trained, call: ast.Call) -> bool:
    """Whether a call runs a trained module, or a method of one."""
    name = dotted(call.func) or ""
    return any(owned.carries(each) for each in map(section.value, (name, name.rpartition(".")[0])) if is_module(each))


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
    found = (each for each in read if each.isidentifier() and level and _is_inference(level.value(each)))
    return list(dict.fromkeys((name, *found)))
