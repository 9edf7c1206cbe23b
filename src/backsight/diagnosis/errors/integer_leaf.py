"""BS220: a gradient is asked for of integers, which have none."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any, TypeGuard

import torch

from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.gradients import Held
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import Body, parsed
from backsight.source.bindings import bound, target_names
from backsight.source.body import callee, calls_in, dotted, expressions, given_to, is_compound, keyword, statements
from backsight.source.edits import (
    OR,
    Edit,
    alternatives,
    on_line,
    put,
    remove,
    sentence,
    without_marks,
    write,
)
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, simple, without_request
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff, cuts, why
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_module, is_tensor, may_have_gradient
from backsight.story.sections import section_of
from backsight.story.trained import trained
from backsight.tape import modules_in
from backsight.tape.rows import dtype_name
from backsight.text import lines_at


@explains("BS220", r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients")
def integer_leaf(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor or the call that makes it, and what to ask instead."""
    level = failure.user
    text, tensor = next(_asked(failure, level), ("", None)) if level else ("", None)
    made = _making(level) if level is not None and tensor is None else None
    what, does = "A tensor holds integers", "makes it require grad."
    only_floating = ", but only floating-point and complex tensors can require grad."
    if level is None or (tensor is None and made is None):
        fix = "Convert them to floating point first with .float(), or leave out what you do not train."
        return unlocated(failure, f"{what}{only_floating}", does, fix)
    if tensor is None:
        what, fix = f"{_target(level) or 'A tensor'} holds integers", _fix_of_call(level, made) if made else ""
    else:
        name = Held(failure, level, text, tensor).name if text else names_of(failure, [tensor])[0]
        name = name or _given_to_parameter(level)
        what, fix = f"{name or 'A tensor'} holds integers ({dtype_name(tensor.dtype)})", _fix(level, text, name)
    cut = _cut_off(failure, level, text) if tensor is not None and name == text else None
    if cut is not None:
        fix = _fix_of_cut(level, text, cut)
    lines: list[Fact] = [shown(cut.cut.place, f"{why(cut.cut)}.")] if cut is not None else []
    lines += [shown(level.place, does), *_numbers(level)]
    source = cut.cut.place if cut is not None else failure.source
    return explanation(f"{what}{only_floating}", lines, fix, source=source)


def _given_to_parameter(level: Level) -> str:
    """What a call of nn.Parameter is given."""
    calls = (each for each in calls_in(level.statement) if callee(each)[1] == "Parameter")
    given = next((one for each in calls for one in given_to(each)[:1]), None)
    return level.body.text(given) if given is not None and level.body is not None else ""


def _numbers(level: Level) -> Iterator[str]:
    """The whole numbers that `torch.tensor(x)` makes integers of, by the name of the list."""
    for call in calls_in(level.statement):
        name = dotted(call.args[0]) if call.args and callee(call)[1] in ("tensor", "as_tensor") else None
        held: Any = level.value(name) if name else None
        if type(held) in (list, tuple) and held and all(type(each) is int for each in held):
            many = f"{str([*held[:_MOST]])[:-1]}, ...]" if len(held) > _MOST else str([*held])
            yield f"{name} has whole numbers alone, {many}, and a tensor of these holds integers."


_MOST = 6


def _asked(failure: Failure, level: Level) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of integers that the statement names, each as it does; then those in the call that failed."""
    statement = level.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    owners = [each.value for each in targets if isinstance(each, ast.Attribute) and each.attr == "requires_grad"]
    for node in (*owners, *expressions(statement)):
        value = value_of(level, node)
        if _is_of_integers(value) and level.body:
            yield level.body.text(node), value
    for inner in itertools.takewhile(lambda each: each is not level, reversed(failure.levels)):
        yield from (("", value) for value in inner.variables.values() if _is_of_integers(value))


def _of_floating_point(level: Level) -> str:
    """The statement that asks for the gradients of several tensors, of those alone that can have one."""
    body, statement = level.body, level.statement
    if body is None or statement is None or is_compound(statement):
        return ""
    name: str | None = None
    for receiver, method in map(callee, calls_in(statement)):
        if method == "requires_grad_" and receiver is not None and is_module(value_of(level, receiver)):
            return f"for p in {body.text(receiver)}.parameters(): p.requires_grad_(p.is_floating_point())"
        if method == "requires_grad_" and isinstance(receiver, ast.Name):
            name = name or receiver.id
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=target), attr="requires_grad")]):
            name = name or target
    return f"if {name}.is_floating_point(): {body.text(statement)}" if name else ""


def _is_of_integers(value: object) -> TypeGuard[torch.Tensor]:
    return is_tensor(value) and not may_have_gradient(value)


def _making(level: Level) -> ast.Call | None:
    """The call that makes a tensor and asks for its gradient at once."""
    for call in calls_in(level.statement):
        receiver, method = callee(call)
        is_both = method == "requires_grad_" and isinstance(receiver, ast.Call)
        if is_both or keyword(call, "requires_grad") is not None:
            return call
    return None


def _target(level: Level) -> str:
    statement = level.statement
    return next(iter(target_names(*statement.targets)), "") if isinstance(statement, ast.Assign) else ""


def _fix_of_call(level: Level, made: ast.Call) -> str:
    """How the call makes them of floating point."""
    receiver, method = callee(made)
    kept = [each for each in made.keywords if each.arg != "dtype"]
    dtype = ast.keyword("dtype", ast.parse("torch.float32", mode="eval").body)
    new = ast.unparse(ast.Call(made.func, made.args, [dtype, *kept]))
    if method == "requires_grad_" and receiver is not None:
        new = f"{ast.unparse(receiver)}.float().requires_grad_()"
    return _of_index(level, _target(level)) or f"Make them floating point: {new}{_instead(level, made, new)}."


def _fix(level: Level, text: str, name: str) -> str:
    made = next((each for each in calls_in(level.statement) if callee(each)[1] == "Parameter"), None)
    if made is not None:
        given = next(iter(given_to(made)), None)
        text = text or _given_to_parameter(level) or "x"
        frozen, floating = f"nn.Parameter({text}, requires_grad=False)", f"nn.Parameter({_floating(given, text)})"
        to_train = f"convert it to floating point: {floating}{_instead(level, made, floating)}."
        buffer = f"make it a buffer{_as_buffer(level, text)}, {OR}or {frozen}{_instead(level, made, frozen)}."
        if isinstance(given, ast.Call) and callee(given)[1] in ("tensor", "Tensor", "as_tensor"):  # numbers by hand
            return f"To train it, {to_train} {OR}If you do not train it, {buffer}"
        return f"If you do not train it, {buffer} {OR}To train it, {to_train}"
    if name != text:  # one of several, which the statement goes through
        each, how = text or "parameter", _of_floating_point(level)
        how = on_line(level.place, how) if how else f"if {each}.is_floating_point(): {each}.requires_grad_()"
        return f"Set requires_grad on floating-point parameters only: {how}."
    new = f"{text} = {simple(text)}.float()"
    first = put(new, "above", level.place) if isinstance(parsed(text), ast.Name | ast.Attribute) else ""
    return _of_index(level, text) or (
        f"Convert it to floating point first: {new}{first}. If it holds indices, as of words, "
        "differentiate what an embedding looks up with them: call retain_grad() on that."
    )


def _cut_off(failure: Failure, level: Level, text: str) -> CutOff | None:
    """What took the integers from something with a graph, as `argmax`, where a loss is computed from them below."""
    body = level.body
    if body is None or not text.isidentifier():
        return None
    backward = (call for each in statements(body.node) if each.lineno > level.line for call in calls_in(each))
    losses = [(loss, each.lineno) for each in backward if (loss := _differentiated(each)) is not None]
    start = section_of(level, tuple(losses[:1]) or ((text, level.line),))
    found = cuts(failure, trained(failure), starts=[start]) if start is not None else []
    return next((each for each in found if each.verdict and each.cut.kind in _WHOLE and text in _bound(each)), None)


_WHOLE = ("index", "integer")


def _differentiated(call: ast.Call) -> str | None:
    receiver, method = callee(call)
    return dotted(receiver) if method == "backward" else None


def _bound(cut: CutOff) -> set[str]:
    return {*bound(cut.statement)} if cut.statement is not None else set()


def _fix_of_cut(level: Level, text: str, cut: CutOff) -> str:
    """How the loss is computed from what the integers were taken from, without asking for their gradient."""
    body, statement, mend = level.body, level.statement, mended(cut)
    asked = f"remove line {level.line}{remove(level.place)}"
    if body is not None and statement is not None and bound(statement) & {text}:
        asked = on_line(level.place, without_request(body, statement)) or f"do not ask for it on line {level.line}"
    instead = f"{mend.edit}{mend.why}".rstrip(".")
    fix = f"{instead}. {sentence(asked)}: no gradient goes through {text}, of whatever dtype."
    return fix if alternatives(mend.edit) and alternatives(asked) else without_marks(fix)


def _floating(given: ast.expr | None, text: str) -> str:
    """What is given to a parameter as floating point: with a dtype where numbers are made a tensor."""
    if isinstance(given, ast.Call) and callee(given)[1] in ("tensor", "as_tensor") and library(given.func) == "torch":
        kept = [each for each in given.keywords if each.arg != "dtype"]
        dtype = ast.keyword("dtype", ast.parse("torch.float32", mode="eval").body)
        return ast.unparse(ast.Call(given.func, given.args, [dtype, *kept]))
    return f"{simple(text)}.float()"


def _as_buffer(level: Level, text: str) -> str:
    """The statement that makes a buffer of an attribute, and its line."""
    match level.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)], value=ast.Call()):
            new = f'{owner}.register_buffer("{name}", {text})'
            return f" ({on_line(level.place, new)})"
    return ""


def _instead(level: Level, node: ast.expr, new: str) -> str:
    """The failing statement with an expression written anew, as an edit."""
    body, statement = level.body, level.statement
    line = rewritten(body, statement, {node: new}) if body is not None and statement is not None else ""
    return str(write(level.place, line)) if line else ""


def _of_index(level: Level, text: str) -> str:
    """Where the integers are looked up in an embedding: how to get the gradient of what it looks up, in a module that
    takes the integers; empty where nothing shows that they are."""
    body, statement = level.body, level.statement
    if body is None or not isinstance(statement, ast.Expr | ast.Assign):
        return ""
    later = (each for each in statements(body.node) if each.lineno > level.line)
    for call in (call for each in later for call in calls_in(each)):
        taken = any(body.text(given) == text for given in (*call.args, *(k.value for k in call.keywords)))
        module = value_of(level, call.func) if taken else None
        for path, inner in modules_in(module) if is_module(module) else ():
            if isinstance(inner, torch.nn.Embedding | torch.nn.EmbeddingBag):
                return _hooked(body, statement, ".".join(filter(None, [body.text(call.func), path])), text)
    return ""


def _hooked(body: Body, statement: ast.stmt, name: str, text: str) -> str:
    """How a hook keeps what an embedding looks up, and which reads of the gradient are to be of that."""
    where, removing, reads, instead = "", "", list[ast.stmt](), list[Edit]()
    for each in statements(body.node):
        nodes = [node for node in expressions(each) if body.text(node) == f"{text}.grad"]
        if nodes:
            reads.append(each)
            new = rewritten(body, each, dict.fromkeys(nodes, "rows[0].grad.norm(dim=-1)"))
            instead.append(write(body.place(each), new))
    if reads:
        where = f" instead of `{text}.grad` on {lines_at(each.lineno for each in reads)}{''.join(map(str, instead))}"
        removing = str(put("hook.remove()", "below", body.place(reads[-1])))
    hook = f"hook = {name}.register_forward_hook(lambda m, i, out: rows.append(out) or out.retain_grad())"
    at, both = body.place(statement), f"rows = []\n{hook}"
    begin = f"Instead of line {statement.lineno}, write{write(at, both)}"
    if plain := without_request(body, statement):
        begin = f"{sentence(on_line(at, plain))}, and below it{put(both, 'below', at)}"
    return (
        f"{text} holds indices, which have no gradient: differentiate what {name} looks up. {begin} `rows = []` and "
        f"`{hook}`; after backward(), read `rows[0].grad.norm(dim=-1)`{where}, and call hook.remove(){removing}."
    )
