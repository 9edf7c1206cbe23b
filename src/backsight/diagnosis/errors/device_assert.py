"""BS230: a kernel of the device stopped at an assertion: an index outside of what it indexes, as a rule."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source import parsed, read_at
from backsight.source.body import callee, calls_in, keyword
from backsight.source.edits import Edit, write
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import calls_in_files
from backsight.tracing import Line, Outside, current, outside

_MOST = 4
_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_INDEXING = {
    "cross_entropy": "takes targets from 0 to the number of classes - 1, or ignore_index.",
    "nll_loss": "takes targets from 0 to the number of classes - 1, or ignore_index.",
    "one_hot": "takes indices from 0 to num_classes - 1.",
    "gather": "takes indices from 0 to the size of that dimension - 1.",
    "index_select": "takes indices from 0 to the size of that dimension - 1.",
    "scatter": "takes indices from 0 to the size of that dimension - 1.",
    "scatter_": "takes indices from 0 to the size of that dimension - 1.",
    "scatter_add_": "takes indices from 0 to the size of that dimension - 1.",
    "binary_cross_entropy": "takes values from 0 to 1.",
}


@explains("BS230", r"device-side assert triggered")
def device_assert(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which indices were out of range, if a watch has seen them move to the device; else that the error may be
    older than its line, and which operations of the program use indices."""
    if (seen := _seen(failure)) is not None:
        return seen
    script = (each.frame for each in failure.users if each.frame.f_globals.get("__name__") == "__main__")
    file = next((frame.f_code.co_filename for frame in script), "train.py")
    return explanation(
        "A kernel of the GPU stopped at an assertion, as for an index that is out of range. The line that reports it "
        "may come later than the cause.",
        (*failing(failure, "is where it was noticed: the GPU runs behind the program."), *_suspects(failure)),
        "Run it once on the CPU, where the same operation raises an IndexError at its own line. Or wait for each "
        f"kernel: CUDA_LAUNCH_BLOCKING=1 backsight run {shlex.quote(Path(file).name)}",
        source=failure.source,
        exact=False,
    )


def _seen(failure: Failure) -> Finding | None:
    """The indices that an operation does not take, as they were when they were moved."""
    watch = current()
    found = outside(watch) if watch is not None else []
    each, line, moved, text = found[0] if found else (None, None, None, "")
    if each is None or line is None:
        return None
    given, last = each.given, each.size - 1
    over = given.high > last
    value = given.high if over else given.low
    weight = each.weight() if each.weight is not None else None
    name = names_of(failure, [weight])[0].removesuffix(".weight") if weight is not None else ""
    takes = f"{name or each.op} takes {'targets' if each.op in _LOSSES else 'indices'} from {each.first} to {last}"
    if name and line.segment:
        text = next(iter(_argument(line.segment)), text)
    what = f"`{text}`" if text and "…" not in text else "an index"
    evidence = [
        shown(line, f"compares them with {each.size} classes." if each.op in _LOSSES else "looks them up."),
        shown(moved, f"moves numbers from {given.low} to {given.high} to the device.") if moved is not None else None,
        *failing(failure, "is where it was noticed: the GPU runs behind the program."),
    ]
    return explanation(
        f"A kernel of the GPU stopped at an index that is out of range: {what} holds {value}, and {takes}.",
        tuple(fact for fact in evidence if fact is not None),
        _mended(each, value, name, text, line),
        source=str(line),
        exact=given.whole and len(found) == 1,
    )


def _mended(each: Outside, value: int, name: str, text: str, line: Line) -> str:
    if each.op in _LOSSES:
        edit: Edit | str = ""
        body, statement = read_at(line.place)
        call = next((c for c in calls_in(statement) if callee(c)[1] == each.op), None)
        ignoring = f"ignore_index={value}"
        if body is not None and statement is not None and call is not None and keyword(call, "ignore_index") is None:
            whole = body.text(call)
            new = rewritten(body, statement, {call: f"{whole[:-1].rstrip(', ')}, {ignoring})"})
            ignoring, edit = new or ignoring, write(line.place, new) if new else ""
        return (
            f"If {value} stands for entries without a label, pass ignore_index: write `{ignoring}`{edit}. Otherwise "
            f"the model needs {value + 1} classes, or the labels other numbers."
            if value >= each.size
            else f"Targets begin with 0. If {value} stands for entries without a label, pass it: `{ignoring}`{edit}."
        )
    if value < each.first:
        return f"Number from 0: {text or 'the index'} holds {value}."
    if value == each.size and name:
        return (
            f"Number from 0, or give {name} one more row: nn.Embedding({value + 1}, ...). A numbering that begins with "
            f"1 ends at {value}."
        )
    where = f"Give {name} {value + 1} rows" if name else f"Make what is looked up {value + 1} entries long"
    return f"{where}, or end the numbering at {each.size - 1}."


def _argument(segment: str) -> Iterator[str]:
    """How a call of a module writes what it is given."""
    node = parsed(segment)
    if isinstance(node, ast.Call) and node.args:
        yield ast.unparse(node.args[0])


def _suspects(failure: Failure) -> list[Fact]:
    """The embeddings with the indices that they take, and the other operations of the program that take some.

    No value is read: after such an error every operation of the device fails.
    """
    found = search((), frames=failure.frames, collect=(torch.nn.Embedding, torch.nn.EmbeddingBag)).found
    every: list[Fact] = [
        f"{name.path} takes indices from 0 to {each.num_embeddings - 1}."
        for each, name in found
        if isinstance(each, torch.nn.Embedding | torch.nn.EmbeddingBag)
    ]
    return [*every, *_operations(failure)][:_MOST]


def _operations(failure: Failure) -> Iterator[Fact]:
    for body, statement, call in calls_in_files(failure):
        module = next((v for each in failure.users if (v := value_of(each, call.func)) is not None), None)
        loss = isinstance(module, torch.nn.CrossEntropyLoss | torch.nn.NLLLoss)
        says = _INDEXING.get("cross_entropy" if loss else callee(call)[1])
        if says is not None:
            yield shown(body.place(statement), says, "read")
