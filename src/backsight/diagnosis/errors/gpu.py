"""BS229, BS230, BS231: what the GPU alone refuses, and when: an RNN in evaluation mode, an index, a wait."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import class_name
from backsight.source import Body, parsed, read_at
from backsight.source.bindings import parameters_of
from backsight.source.body import LOOPS, callee, calls_in, dotted, is_constant, keyword, statements
from backsight.source.edits import Edit, put, write
from backsight.source.rewriting import rewritten, simple, with_flag
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, failure_of, message_of, of_error
from backsight.story.files import calls_in_files
from backsight.story.fixes import first_statement
from backsight.tape import modules_in, parameters_in
from backsight.tracing import Line, Outside, current, outside


@explains("BS229", r"cudnn RNN backward can only be called in training mode")
def eval_rnn(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the RNN that is in evaluation mode, and the line that put it there."""
    found = search((), frames=failure.frames, collect=(torch.nn.RNNBase,)).found
    held = [(each, name.path) for each, name in found if isinstance(each, torch.nn.RNNBase) and not each.training]
    names = [path for _, path in held]
    kind = class_name(type(held[0][0])) if held else "RNN"
    name = listed(names, 2) if names else "An RNN"
    parts = {part for path in names for part in path.split(".")}
    parts |= {name for each, _ in held for level in failure.users for name in _around(level, each)}
    evals = list(_evaluating(failure, parts))
    forgotten = _forgotten(failure, [each for each, _ in held], evals)
    says = "puts it in evaluation mode." if not forgotten else "turns on evaluation mode, which is still on."
    lines = [shown(body.place(statement), says, "read") for body, statement in evals[:2]]
    first = names[0] if len(names) == 1 else "rnn"
    dropped = any(each.dropout for each, _ in held)
    quiet = f" Without dropout, set {first}.dropout = 0.0." if dropped else ""
    own = failure.user.body if failure.user is not None else None
    edit = ""
    if len(names) == len(evals) == 1 and own is not None and own.node is evals[0][0].node:
        edit = str(put(f"{first}.train()", "below", own.place(evals[0][1])))
    return explanation(
        f"{name}{f' (a {kind})' if held else ''} ran in evaluation mode, where cuDNN saves nothing for backward.",
        (*lines, *failing(failure, "needs what only training mode saves.")),
        forgotten
        or f"Keep it in training mode, also where its weights are frozen: {first}.train() after the model is put in "
        f"evaluation mode{edit}.{quiet} Or run its forward pass inside "
        "`with torch.backends.cudnn.flags(enabled=False):`.",
        source=evals[0][0].place(evals[0][1]) if len(evals) == 1 else failure.source,
        exact=len(names) == 1 and len(evals) == 1,
    )


def _evaluating(failure: Failure, parts: set[str]) -> Iterator[tuple[Body, ast.stmt]]:
    """The statements that put one of these in evaluation mode; else the only one that does so with a parameter."""
    given: list[tuple[Body, ast.stmt]] | None = []
    for body, statement, call in calls_in_files(failure):
        receiver, method = callee(call)
        off = method == "eval" or (method == "train" and bool(call.args) and is_constant(call.args[0], False))
        name = dotted(receiver) or ""
        if not off or (method == "eval" and call.args):
            continue
        if name.split(".")[-1] in parts:
            yield body, statement
            given = None
        elif given is not None and name in parameters_of(body.node):
            given.append((body, statement))
    if given is not None and len(given) == 1:
        yield given[0]


def _around(level: Level, rnn: torch.nn.Module) -> Iterator[str]:
    """The names of a level for what an RNN is part of."""
    for name, value in level.variables.items():
        if isinstance(value, torch.nn.Module) and any(each is rnn for _, each in modules_in(value)):
            yield name


def _forgotten(failure: Failure, rnns: Sequence[torch.nn.RNNBase], evals: Sequence[tuple[Body, ast.stmt]]) -> str:
    """Where to turn training mode on again that something which is over has turned off; empty if that may be meant."""
    level = failure.user
    trained = rnns and all(p.requires_grad for each in rnns for p in parameters_in(each))
    if level is None or level.body is None or not trained or len(evals) != 1:
        return ""
    whole = (name for name in _around(level, rnns[0]) if not getattr(level.variables[name], "training", True))
    name, (where, statement) = next(whole, ""), evals[0]
    own, node = where.node is level.body.node, level.body.node
    loops = [each for each in statements(node) if isinstance(each, LOOPS) and _spans(each, level.line)]
    around = next((each for each in loops if not own or _spans(each, statement.lineno)), None)
    running = any(each.body is not None and each.body.node is where.node for each in failure.users)
    if not name or (running and not (own and around is not None and statement.lineno > level.line)):
        return ""
    if isinstance(node, ast.FunctionDef) and not own:
        first = first_statement(level.body)
        edit = put(f"{name}.train()", "above", first) if first is not None else ""
        return f"Call {name}.train() at the beginning of {node.name}(), before its forward pass{edit}."
    if around is None:
        return ""
    edit = put(f"{name}.train()", "below", level.body.place(around))
    return f"Call {name}.train() at the beginning of the loop on line {around.lineno}, before its forward pass{edit}."


def _spans(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or 0)


_MOST = 4
_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_INDEXING = {
    **dict.fromkeys(_LOSSES, "takes targets from 0 to the number of classes - 1, or ignore_index."),
    **dict.fromkeys(
        ("gather", "index_select", "scatter", "scatter_", "scatter_add_"),
        "takes indices from 0 to the size of that dimension - 1.",
    ),
    "one_hot": "takes indices from 0 to num_classes - 1.",
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
    if name and isinstance(called := parsed(line.segment or ""), ast.Call) and called.args:
        text = ast.unparse(called.args[0])
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
        source=line,
        exact=given.whole and len(found) == 1,
    )


def _mended(each: Outside, value: int, name: str, text: str, line: Line) -> str:
    if each.op in _LOSSES:
        edit: Edit | str = ""
        body, statement = read_at(line.place)
        call = next((c for c in calls_in(statement) if callee(c)[1] == each.op), None)
        ignoring = f"ignore_index={value}"
        if body is not None and statement is not None and call is not None and keyword(call, "ignore_index") is None:
            new = with_flag(body, statement, call, "ignore_index", str(value))
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


def _suspects(failure: Failure) -> list[Fact]:
    """The operations of the program that take indices; no value is read, as every operation of the device fails."""
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


_CAPTURING = (
    r"operation not permitted when stream is capturing",
    r"operation failed due to a previous error during capture",
    r"operation would make the legacy stream depend on a capturing blocking stream",
)
_READS = ("item", "tolist", "cpu", "numpy", "nonzero", "synchronize", "print", "float", "int", "bool")


@explains("BS231", *_CAPTURING)
def captured(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the call that waits for the device: of two errors, the first has its line."""
    first = _first(failure)
    level = first.user
    refusal = Refusal(first, level) if level else None
    whole = refusal.expression if refusal else None
    where = (shown(failure.user.place, "captures the graph."),) if failure.user and first is not failure else ()
    masked = next(filter(None, (_masked(level, node) for node in ast.walk(whole))), None) if level and whole else None
    if masked is not None:
        text, fix = masked
        return explanation(
            f"{text} selects by a mask while a CUDA graph is captured: how many entries that are is not known "
            "before the graph is replayed.",
            (*failing(first, "needs the number of entries, for which it waits."), *where),
            fix,
            source=first.source,
        )
    calls = (node for node in ast.walk(whole) if isinstance(node, ast.Call)) if whole is not None else ()
    reading = next((node for node in calls if callee(node)[1] in _READS), None)
    call, reads = reading or whole, reading is not None
    written = level.body.text(call) if level and level.body and call is not None else "…"
    what = written if isinstance(call, ast.expr) and "…" not in written else "This line"
    says = "waits for the device" if reads else "does what a graph cannot record"
    return explanation(
        f"{what} {says} while a CUDA graph is captured: nothing runs until the graph is replayed.",
        (*failing(first, "fails here." if not reads else "needs a value that does not exist yet."), *where),
        "Keep it a tensor in what is captured: no .item(), .cpu(), print or `if` on a value, but torch.where(...) or a "
        "product with the condition. Read the tensor after graph.replay().",
        source=first.source,
        exact=reads,
    )


def _masked(level: Level, node: ast.AST) -> tuple[str, str] | None:
    """What is selected by a mask, `per[real]`, and how to compute the same with tensors whose shapes are known."""
    match node:
        case (
            ast.Subscript(of, mask)
            | ast.Call(ast.Attribute(ast.Name("torch"), "masked_select"), [of, mask])
            | ast.Call(ast.Attribute(of, "masked_select"), [mask])
        ):
            pass
        case _:
            return None
    body, held, chosen = level.body, value_of(level, of), value_of(level, mask)
    if body is None or not _is_mask(chosen, mask) or (held is not None and not isinstance(held, torch.Tensor)):
        return None
    x, m = simple(body.text(of)), simple(body.text(mask))
    wide = isinstance(held, torch.Tensor) and isinstance(chosen, torch.Tensor) and held.dim() > chosen.dim()
    zeroed = f"{x} * {m}" if not wide else f"{x} * {m}[..., None]"
    line = _of_all(level, node, x, m, zeroed) if not wide else ""
    how = f"{zeroed} in place of {body.text(node)}, and {m}.sum() for their number"
    how = f"write `{line}`{write(level.place, line)}" if line else how
    return body.text(node), (
        f"Keep all entries, and let the mask decide what counts: {how}. Its shapes do not depend on values, so the "
        "graph can record it."
    )


def _is_mask(value: object, node: ast.expr) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype == torch.bool
    return value is None and isinstance(node, ast.Compare | ast.UnaryOp | ast.BinOp)


def _of_all(level: Level, node: ast.expr, x: str, m: str, zeroed: str) -> str:
    """The statement with what it computes of the selected entries computed of all; empty for what is not known."""
    body, statement = level.body, level.statement
    if body is None or statement is None:
        return ""
    lowest, not_m = 'float("-inf")', f"~{m}" if m.isidentifier() else f"~({m.strip('()')})"
    instead = {
        "mean": f"({zeroed}).sum() / {m}.sum()",
        "sum": f"({zeroed}).sum()",
        "max": f"{x}.masked_fill({not_m}, {lowest}).max()",
        "min": f"{x}.masked_fill({not_m}, {lowest.replace('-', '')}).min()",
    }
    for call in calls_in(statement):
        receiver, method = callee(call)
        if receiver is node and not call.args and not call.keywords and method in instead:
            alone = getattr(statement, "value", None) is call or method != "mean"
            return rewritten(body, statement, {call: instead[method] if alone else f"({instead[method]})"})
    return ""


def _first(failure: Failure) -> Failure:
    """The error that ended the capture: the one that was handled when the end of the capture failed."""
    before = of_error(failure.error, "__context__")
    if before is None or not any(re.search(pattern, message_of(before)) for pattern in _CAPTURING):
        return failure
    return failure_of(before)
