"""BS210: a checkpointed function did something else when backward ran it again: the first tensor that differs."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from backsight.diagnosis._torch import CHECKPOINT_FILE, checkpointed, recomputed, saved_as
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.meanwhile import changed_meanwhile
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.evidence.unsteady import Unsteady, decided, draws, unsteady
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, failing, if_known, listed, shaped, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name
from backsight.source import Place, function_at, loop_facts, read_at
from backsight.source.bindings import names_read, uses
from backsight.source.body import callee, dotted, expressions, is_constant, keyword, parsed, statements
from backsight.source.edits import change, on_line, on_line_with, put, put_at, sentence
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure, follow, function_of, message_of, owner_of
from backsight.story.files import calls_in_files
from backsight.story.fixes import removed
from backsight.story.memory import is_module, needs_gradient
from backsight.story.sections import run_by, sections
from backsight.tape import no_torch_function, sequence_number
from backsight.tape.capture import root_edges
from backsight.tape.rows import dtype_name
from backsight.tape.walk import walk
from backsight.tracing import Line, current

_COUNTS = re.compile(r"saved during forward: (\d+).*saved during recomputation: (\d+)", re.DOTALL)
_METADATA = re.compile(r"tensor at position (\d+):\s*saved metadata: ([^\n]*)\s*recomputed metadata: ([^\n]*)")


@explains(
    "BS210",
    r"different number of tensors was saved during the original forward and recomputation",
    r"trying to save more tensors during recomputation than during the original forward",
    r"tensors have different metadata than during the forward pass",
    r"Detected non-determinism while running activation checkpointing",
)
def checkpoint_mismatch(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the function that was run again, and what in it may differ from run to run."""
    function = _checkpointed(failure)
    name = _name(failure, function) if function is not None else "The checkpointed function"
    cause = _cause(failure, function) if function is not None else None
    parting = first_difference(failure)
    difference, of_counts = _difference(failure)
    line = parting.line if parting else None
    late = cause is None and line is not None
    cause = decided(line.file, line.line) if late and line is not None else cause
    at = (cause.within or cause.place) if cause else None
    seen = line is not None and at is not None and at.file == line.file and at.line <= line.line
    found = ((cause.place, cause.why), *cause.also) if cause else ()
    why = [shown(place, does, None if seen else "read") for place, does in found]
    again = f"reruns {name.partition(' (')[0]} to recompute the tensors that backward needs."
    called = next((place for _, place in _checkpointing(failure)), None)
    saves = if_known(called, "saves only the inputs; backward recomputes the rest.")
    told = cause is not None and cause.place == called
    evidence: list[Fact | None] = [None if told else saves, *([] if late else why), *failing(failure, again)]
    evidence += why if late else []
    if parting and line:
        evidence.append(shown(line, f"is where {parting}"))
    elif parting:
        evidence.append(sentence(str(parting)))
    if difference and (parting is None or of_counts):
        evidence.append(difference)
    if not seen:
        evidence += [] if cause else ["The source text does not show what differs between the two runs."]
        evidence.append("checkpoint(..., debug=True) lists the operations of both runs.")
    return explanation(
        f"{name} computed something different when checkpoint reran it for backward.",
        evidence,
        next(filter(None, (each(failure, function, cause) for each in _ELSEWHERE)), cause.fix) if cause else _FIX,
        source=cause.place if cause else line or _where(function) or failure.source,
        exact=seen,
    )


def _outside(failure: Failure, function: object, cause: Unsteady) -> str:
    """Where a statement that counts goes so that both runs read the same: before the call of checkpoint."""
    run, found = function_of(function), next(_checkpointing(failure), None)
    body = function_at(run.__code__) if run is not None else None
    given = found[0].args[0] if found and found[0].args else None
    held = dotted(given)
    if not cause.counted or cause.kept or found is None or held is None or body is None:
        return ""
    inside = body.file == cause.place.file and any(each.lineno == cause.place.line for each in statements(body.node))
    owner = held if is_module(function) else held.rpartition(".")[0]
    if not inside or not owner or not cause.counted.startswith("self."):
        return ""
    counted = re.sub(r"\bself\.", f"{owner}.", cause.counted)
    before = f"put `{counted}` before line {found[1].line}{put(counted, 'above', found[1])}"
    return f"Count outside: {removed(cause.place)}, and {before}."


def _afterwards(failure: Failure, function: object, cause: Unsteady) -> str:
    """Where a buffer is changed with what each run computes: below backward, in all modules that have kept it."""
    level, root = failure.user, names_of(failure, [function])[0].partition(".")[0]
    if not cause.kept or level is None or level.statement is None or not is_module(level.value(root)):
        return ""
    due = cause.kept.partition(" = ")[0].removeprefix("self.")
    changed = re.sub(r"\bself\.", "each.", cause.counted)
    later = f'for each in [m for m in {root}.modules() if hasattr(m, "{due}")]: {changed}'
    return (
        f"Change it after the second run: {on_line(cause.place, cause.kept)}, and below line "
        f"{level.statement.end_lineno}, put `{later}`{put(later, 'below', level.place)}."
    )


def _from_a_copy(failure: Failure, function: object, cause: Unsteady) -> str:
    """How both runs read what a container held before the first: from a copy, which checkpoint keeps for the second."""
    run, found = function_of(function), list(_checkpointing(failure))
    body = function_at(run.__code__) if run is not None else None
    if body is None or not isinstance(body.node, ast.FunctionDef) or len(found) != 1 or not cause.filled:
        return ""
    (call, at), name, given = found[0], cause.filled, body.node.args
    every, names = list(statements(body.node)), [each.arg for each in given.args]
    handed = [each for each in names if each != "self"]
    caller, statement = read_at(at)
    first, writing = body.node.body[0], [each for each in every if body.place(each) == cause.place]
    reading = [each for each in every if name in names_read(each) and each not in writing]
    plain = (
        not (given.vararg or given.kwarg or given.kwonlyargs or given.defaults) and len(call.args) == len(handed) + 1
    )
    later = any(each.lineno >= cause.place.line for each in reading)
    looped = loop_facts(body, cause.place.line) is not None
    again = any(use.name == "past" for each in every for use in uses(each)) or "past" in names
    if (
        not plain
        or name not in handed
        or later
        or looped
        or again
        or len(writing) != 1
        or caller is None
        or statement is None
    ):
        return ""
    kind, held = "list" if ".append(" in cause.place.text else "dict", caller.text(call.args[handed.index(name) + 1])
    new = rewritten(caller, statement, {call.args[-1]: f"{caller.text(call.args[-1])}, {kind}({held})"})
    head = f"def {body.name}({', '.join((*names, 'past=None'))}):"
    copied = f"past = {kind}({name}) if past is None else past"
    lines = sorted({each.lineno for each in reading})
    if not new or any(each.end_lineno != each.lineno and not hasattr(each, "body") for each in reading):
        return ""
    places = [body.place(each) for each in reading]
    on_lines = f"line{'s' * (len(lines) > 1)} {listed([*map(str, lines)], len(lines))}"
    edits = "".join(str(change(each, name, "past")) for each in places)
    return (
        f"Let both runs read a copy that was taken before the first: {on_line(at, new)}; "
        f"{on_line(body.place(body.node), head)}, {put_at(copied, 'above', body.place(first))}, and read past instead "
        f"of {name} on {on_lines}{edits}. Line {cause.place.line} still writes into {name}."
    )


def _as_argument(failure: Failure, function: object, cause: Unsteady) -> str:
    """How both runs get what is read as an argument, where the call of checkpoint and the function are plain enough."""
    run, found = function_of(function), [*_checkpointing(failure)]
    body = function_at(run.__code__) if run is not None else None
    node = parsed(cause.read) if cause.read else None
    if body is None or not isinstance(body.node, ast.FunctionDef) or len(found) != 1 or node is None:
        return ""
    (call, at), given, every = found[0], body.node.args, list(statements(body.node))
    names = [each.arg for each in given.args]
    reading = {each: [one for one in expressions(each) if body.text(one) == cause.read] for each in every}
    reading = {each: inside for each, inside in reading.items() if inside}
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            pass
        case _:
            return ""
    used = {use.name.partition(".")[0] for each in every for use in uses(each)} - {cause.read}
    plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults)
    handed = [each for each in names if each != "self"]
    outside = _as_outside(failure, function, call, cause.read)
    if not plain or not name.isidentifier() or name in {*used, *names} or len(call.args) != len(handed) + 1:
        return ""
    if not outside or not any(body.place(each) == cause.place for each in reading) or not call.args[1:]:
        return ""
    elsewhere = [each for _, _, each in calls_in_files(failure) if dotted(each.func) == dotted(call.args[0])]
    caller, statement = read_at(at)
    passing = {call.args[-1]: f"{caller.text(call.args[-1])}, {outside}"} if caller is not None else {}
    head = f"def {body.name}({', '.join((*names, f'{name}=None' if elsewhere else name))}):"
    lines = [on_line_with(caller, statement, passing), on_line(body.place(body.node), head)]
    if elsewhere:
        otherwise = f"{name} = {cause.read} if {name} is None else {name}"
        lines.append(put_at(otherwise, "above", body.place(body.node.body[0])))
    if not isinstance(node, ast.Name):
        changes = (on_line_with(body, each, dict.fromkeys(inside, name)) for each, inside in reading.items())
        lines += changes
    return f"Pass it to checkpoint as an argument, which both runs get: {'; '.join(lines)}." if all(lines) else ""


def _as_outside(failure: Failure, function: object, call: ast.Call, read: str) -> str:
    """An expression that the function reads, as the caller of checkpoint writes it; empty where that is not known."""
    owner, held = owner_of(function), dotted(call.args[0]) or ""
    root, path = read.split(".")[0], (dotted(parsed(read)) or "").rpartition(".")[0]
    if root != "self":
        return read if root.split("[")[0] not in function_of(function).__code__.co_freevars else ""
    inside = follow(owner, path.split(".")[1:])
    same = any(call in [each for each, _ in s.calls()] and s.value(path) is inside for s in sections(failure))
    held = held if is_module(function) else held.rpartition(".")[0]
    return read if same else f"{held}{read.removeprefix('self')}" if held else ""


_ELSEWHERE = (_afterwards, _outside, _from_a_copy, _as_argument)

_FIX = (
    "Make both runs identical: nothing inside may depend on Python's or NumPy's random numbers, on a counter "
    "or cache that the first run changes, or on a mode that changes between forward and backward, such as train() and "
    "eval(). Or pass such a value to checkpoint as an argument."
)


def _checkpointed(failure: Failure) -> object:
    """The function or module that was run again, from the frames of torch.utils.checkpoint."""
    levels = (each for each in failure.levels if each.frame.f_code.co_filename == CHECKPOINT_FILE)
    function = next((found for each in levels if (found := checkpointed(dict(each.variables))) is not None), None)
    while type(function) is functools.partial:
        function = function.func
    return function


def _name(failure: Failure, function: object) -> str:
    name = names_of(failure, [function])[0]
    run = function_of(function)
    if type(function).__name__ == "method" and run is not None and not name:
        return str(run.__qualname__).rpartition("<locals>.")[2]
    if run is None or run is function:
        return name or getattr(run, "__name__", "") or "The checkpointed function"
    kind = a_kind(class_name(type(function)))
    return f"{name} ({kind})" if name else sentence(kind)


def _cause(failure: Failure, function: object) -> Unsteady | None:
    run, owner = function_of(function), owner_of(function)
    if run is None:
        return None
    every = ((keyword(call, "preserve_rng_state"), place) for call, place in _checkpointing(failure))
    given, place = next(((given, at) for given, at in every if given and is_constant(given, False)), (None, None))
    drawn = draws(run_by(run, owner)) if place is not None else None
    if place is not None and given is not None and drawn is not None:
        body, statement = read_at(place)
        new = rewritten(body, statement, {given: "True"}) if body and statement else ""
        how = sentence(on_line(place, new)) if new else "Remove preserve_rng_state=False"
        return Unsteady(
            place,
            f"keeps no random state: {drawn[0]} draws other numbers in the second run.",
            f"{how}: then checkpoint restores PyTorch's random state for the second run.",
            drawn[1],
        )
    around = [level.body for level in failure.users if level.body]
    inside = [*run_by(run, owner)]
    return next(unsteady(inside, around, changed_meanwhile(inside, sections(failure))), None)


def _where(function: object) -> str | None:
    run = function_of(function)
    code = getattr(run, "__code__", None)
    return str(Place(code.co_filename, code.co_firstlineno, "")) if code is not None else None


def _checkpointing(failure: Failure) -> Iterator[tuple[ast.Call, Place]]:
    for section in sections(failure):
        yield from ((call, place) for call, place in section.calls() if callee(call)[1].startswith("checkpoint"))


def _difference(failure: Failure) -> tuple[str, bool]:
    """What PyTorch has seen to differ, in one sentence, and whether that is how many tensors the runs saved."""
    causes = [failure.error, failure.error.__cause__]
    text = "\n".join(message_of(each) for each in causes if each is not None)
    if counts := _COUNTS.search(text):
        first, second = counts.groups()
        return f"The first run saved {first} tensors for backward, the second {second}.", True
    if "trying to save more tensors" in text:
        return "The second run saved more tensors for backward than the first.", True
    if metadata := _METADATA.search(text):
        position, before, after = metadata.groups()
        runs = f"{_described(before)} in the first run and {_described(after)} in the second"
        return f"Saved tensor {position} was {runs}.", False
    return "", False


def _described(metadata: str) -> str:
    """`float32 of shape 2×3` for what PyTorch prints as a dict."""
    shape = re.search(r"torch\.Size\(\[([\d, ]*)\]\)", metadata)
    dtype = re.search(r"torch\.(\w+\d*)", metadata.replace("torch.Size", ""))
    if not shape or not dtype:
        return metadata[:100]
    dims = "×".join(shape.group(1).replace(" ", "").split(",")) or "scalar"
    device = re.search(r"device\(type='(\w+)'", metadata)
    return f"{dtype.group(1)} of shape {dims}{f' on {device.group(1)}' if device else ''}"


@dataclass(frozen=True)
class Difference:
    """The first tensor that the two runs did not save alike.

    position: its number, from 0; first and second: what each run saved there, empty if it saved no more.
    operation, field: the node that saved it in the first run, and as what; line: where that ran, if a watch has it.
    """

    position: int
    first: str
    second: str
    operation: str = ""
    field: str = ""
    line: Line | None = None

    def __str__(self) -> str:
        of = f" (`{self.field}` of {self.operation})" if self.operation else ""
        then = f"the second saved {self.second}" if self.second else "the second saved none"
        return f"the two runs diverge at saved tensor {self.position}: the first saved {self.first}{of}, {then}."


def first_difference(failure: Failure) -> Difference | None:
    """Compare what the two runs have saved, tensor by tensor; None if all that both have is alike, or not known."""
    levels = (each for each in failure.levels if each.frame.f_code.co_filename == CHECKPOINT_FILE)
    found = next((pair for each in levels if (pair := recomputed(dict(each.variables))) is not None), None)
    if found is None:
        return None
    frame, run = found
    second: Mapping[Any, Any] = frame.recomputed.get(run, {})
    for position, (reference, metadata) in enumerate(zip(frame.weak_holders, frame.x_metadatas, strict=False)):
        holder = reference()
        handle = holder.handles.get(run) if holder is not None else None
        tensor = second.get(handle) if handle is not None else None
        has = _metadata(tensor) if tensor is not None else {}
        alike = type(metadata) is not dict or all(metadata.get(key) == value for key, value in has.items())
        if holder is not None and (tensor is None or not alike):
            then = _kind_of(has) if tensor is not None else ""
            return Difference(position, _kind_of(metadata), then, *_saved_by(failure, holder))
    return None


def _saved_by(failure: Failure, holder: object) -> tuple[str, str, Line | None]:
    """The node that saved a tensor, as what, and where that ran."""
    with no_torch_function():
        roots = [root for root in failure.roots if needs_gradient(root)]
        for node in walk([node for node, _ in root_edges(roots)]).nodes if roots else ():
            field = saved_as(node, holder)
            if field:
                watch = current()
                return type(node).__name__, field, watch.line_of(sequence_number(node)) if watch else None
    return "", "", None


def _metadata(tensor: torch.Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _kind_of(metadata: Any) -> str:
    if type(metadata) is not dict or not {"shape", "dtype"} <= metadata.keys():
        return "a tensor"
    kind = dtype_name(metadata["dtype"])
    return f"{'an' if kind.startswith('int') else 'a'} {kind} tensor of shape {shaped(metadata['shape'])}"
