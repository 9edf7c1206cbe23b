"""What changed the saved tensor, as a watch has seen it: exact, whatever function it stands in."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import torch

from backsight.diagnosis.errors.modified.case import Case
from backsight.diagnosis.errors.modified.spelling import spoken, why_saved
from backsight.diagnosis.evidence.written import without_inplace, works_in_place
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.located import Located
from backsight.naming import search
from backsight.naming.plain import class_name
from backsight.source import statement_at
from backsight.source.body import Body, body_around, callee, dotted
from backsight.source.out_of_place import OPERATORS, out_of_place
from backsight.tape import modules_in
from backsight.tracing import Change, Line, current

_READ = "(Read from the source text"
_OUT = re.compile(r",\s*out\s*=\s*([\w.\[\]\"']+)")


def as_watched(case: Case, read: Finding | None) -> Finding | None:
    """Return what was read from the text, exact if the watch has seen the same; else what the watch has seen."""
    changes = _changes(case)
    if not changes:
        return None
    if read is not None and _confirms(changes, read):
        kept = tuple(each for each in read.evidence if not each.startswith(_READ) and not each.startswith("(Which of"))
        return read if read.exact else replace(read, evidence=kept, exact=True)
    return _finding(case, changes)


def _confirms(changes: list[tuple[Change, Line]], read: Finding) -> bool:
    """Whether what was read from the text blames a line that did change it.

    Where an optimizer did, the cause may be another: a history that leads back before its step.
    """
    lines = {(line.file, line.line) for _, line in changes}
    if changes[0][0].kind == "optimizer":
        return any(isinstance(each, Located) and (each.file, each.line) in lines for each in read.evidence)
    return any(str(line.place) == read.source for _, line in changes)


def _changes(case: Case) -> list[tuple[Change, Line]]:
    """The changes since the tensor was saved, each line once."""
    watch = current()
    if watch is None or case.saved.storage is None:
        return []
    found: dict[tuple[str, int], tuple[Change, Line]] = {}
    for change in watch.changes(case.saved.storage, case.saved.expected):
        if change.line is not None and change.kind not in ("backward", "unseen", "data"):
            key = (change.line.file, change.line.line)
            earlier = found.get(key)
            found[key] = (replace(change, count=earlier[0].count + change.count) if earlier else change, change.line)
    return list(found.values())


def _finding(case: Case, changes: list[tuple[Change, Line]]) -> Finding:
    change, line = changes[0]
    module, kind = _module(case, change)
    name = case.holder or _written(line) or case.description
    who = f"{name[0].upper()}{name[1:]}" if name == case.description else name
    title = f"{who} was changed in place after {spoken(case.operation)} had saved it for backward."
    if module:
        title = f"{module} changed what {spoken(case.operation)} had saved for backward."
    if change.kind == "optimizer":
        title = f"{_optimizer(line)}.step() changed {name} between the forward pass and its backward."
    lines = [_saving(case, name), *(shown(at, f"{_does(each, module)}.") for each, at in changes)]
    if case.failure.user:
        lines.append(shown(case.failure.user.place, f"needs the original value; {case.since}."))
    return Finding(
        "BS202",
        "error",
        title,
        tuple(lines),
        f"Make that {kind} without inplace=True." if module else _fix(case, change, line, name),
        source=str(line.place),
    )


def _saving(case: Case, name: str) -> str:
    watch = current()
    line = watch.line_of(case.node) if watch else None
    reason = why_saved(case.operation, case.is_result)
    if line is not None and line.text:
        where = f"in {case.module}, " if case.module else ""
        return shown(line, f"{where}saves {'its result' if case.is_result else name}: {reason}.")
    return f"{case.node.name} saved {'its result' if case.is_result else name}: {reason}."


def _does(change: Change, module: str) -> str:
    times = {1: "", 2: ", twice"}.get(change.count, f", {change.count} times")
    if module:
        return f"runs {module.partition(',')[0]}, which writes over what it is given{times}"
    via = f" by way of {change.via}" if change.via else ""
    return f"changes it in place{via}: {change.op}{times}"


def _module(case: Case, change: Change) -> tuple[str, str]:
    """`model.1, a ReLU made with inplace=True,` and its class, where a module did it; else nothing."""
    if not change.via.endswith(".forward"):
        return "", ""
    reading = [node.module for node, edge in case.survey.graph.edges if edge.node.index == case.node.index]
    every = [pair for name, model in case.survey.models.items() for pair in modules_in(model, name)]
    found = [(path, class_name(type(each))) for path, each in every if works_in_place(each)]
    for path, kind in found:
        if any(inner and (path == inner or path.endswith(f".{inner}")) for inner in reading):
            return f"{path}, a {kind} made with inplace=True,", kind
    kinds = {kind for _, kind in found if kind.lower() == change.op.rstrip("_").replace("_", "")}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return (f"A {kind} made with inplace=True", kind) if kind else ("", "")


def _optimizer(line: Line) -> str:
    return (line.segment or line.text).partition(".step(")[0]


def _segment(line: Line) -> ast.expr | None:
    try:
        return ast.parse(line.segment, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):  # a statement, or nothing
        return None


def _written(line: Line) -> str:
    """What the changing statement calls the tensor: `h` of `h.mul_(mask)`, `attention` of `attention[mask] = 0`."""
    node = _segment(line)
    if isinstance(node, ast.Call):
        receiver, method = callee(node)
        if method.endswith("_") and receiver is not None and dotted(receiver) not in ("torch", "F"):
            return ast.unparse(receiver)
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value)
    if isinstance(node, ast.Call) and node.args and dotted(node.args[0]):  # F.dropout(h, **settings)
        return ast.unparse(node.args[0])
    body = body_around(line.file, line.line)
    statement = statement_at(body, line.line) if body else None
    return body.text(statement.target) if body and isinstance(statement, ast.AugAssign) else ""


def _fix(case: Case, change: Change, line: Line, name: str) -> str:
    loss = (case.failure.user.receiver if case.failure.user else "") or "the loss"
    if change.kind == "optimizer":
        step = f"{_optimizer(line)}.step()"
        return (
            f"Compute {loss} after {step}, with a new forward pass. Or call backward on every loss before the first "
            "optimizer steps."
        )
    if case.leaf is not None or _is_weight(case):
        return f"{_later(case, line)} below every backward() that needs the original {name}."
    if "." in case.holder and not case.saved.requires_grad:
        written = _written(line) or name
        later = f"Or update {written} after backward()."
        return f"Compute with a copy, {written}.clone(): then {written} may change. {later}"
    instead = _rewritten(line)
    if instead:
        return instead
    if not change.op.endswith("_") and change.kind == "in place":  # told to by a setting that the text does not show
        return f"Let {change.op} make a new tensor: leave out inplace=True where its settings come from."
    if name == case.description:
        return f"Change a copy of it, made with .clone() before line {line.line}."
    return f"Change a copy: put {name} = {name}.clone() before line {line.line}."


def _is_weight(case: Case) -> bool:
    """Whether the memory is a parameter's, one that is frozen too."""
    found = search((), frames=case.failure.frames, collect=(torch.nn.Parameter,)).found
    return any(case.is_held_by(each) for each, _ in found)


def _later(case: Case, line: Line) -> str:
    """`Move line 12, model.load_state_dict(best),`; or what to do with a function that does it."""
    body = body_around(line.file, line.line)
    if any(level.body and body and level.body.node is body.node for level in case.failure.users):
        return f"Move line {line.line}{f', {line.segment},' if line.segment else ''}"
    return f"Call {line.function}(), which does it,"


def _rewritten(line: Line) -> str:
    """The same without a change in place, where it has such a form."""
    body = body_around(line.file, line.line)
    fixed = without_inplace(line.text)
    if fixed:
        return f"Leave out inplace=True: {fixed}"
    out = _OUT.search(line.segment)
    if out:
        return f"Write {out[1]} = {_OUT.sub('', line.segment)}: that makes a new tensor."
    instead = _assignment(body, line) if body else None
    if instead:
        return f"Write {instead}: that makes a new tensor and leaves the saved one as it was."
    node = _segment(line)
    in_comprehension = line.function.startswith("<") and line.function != "<lambda>"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not in_comprehension:
        method = node.func.attr
        if method.endswith("_") and not method.startswith("_") and method not in ("copy_", "zero_", "fill_"):
            new = line.segment.replace(f".{method}(", f".{method[:-1]}(", 1)
            return f"Write {new} in place of {line.segment}: that makes a new tensor."
    return ""


def _assignment(body: Body, line: Line) -> str | None:
    statement = statement_at(body, line.line)
    if isinstance(statement, ast.AugAssign) and not dotted(statement.target):
        target, operator = body.text(statement.target), OPERATORS.get(type(statement.op))
        is_item = isinstance(statement.target, ast.Subscript) and isinstance(statement.target.slice, ast.Constant)
        value = body.text(statement.value)
        value = f"({value})" if isinstance(statement.value, ast.BinOp | ast.IfExp | ast.Compare) else value
        return f"{target} = {target} {operator} {value}" if is_item and operator else None
    return out_of_place(body, line.line)
