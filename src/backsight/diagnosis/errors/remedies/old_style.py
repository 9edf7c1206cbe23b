"""Remedies for a custom Function as they were written before its methods had to be static."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.custom import body_of, definition, elements, returned
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import listed, shown
from backsight.naming.plain import class_name, is_class
from backsight.source import Body, calls_of, statements_of
from backsight.source.body import calls_in, dotted, expressions, functions, statements
from backsight.source.cut_rules import rule_of
from backsight.source.edits import change, lines_of, on_line, put, put_at, remove
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.fixes import removed


@remedy(r"Legacy autograd function")
def _no_backward(found: Refusal, match: Match) -> Remedy | None:
    """A Function of the old style that leaves its backward to PyTorch: it is a module."""
    call = found.expression
    cls = _called_class(found.level, call.func) if isinstance(call, ast.Call) else None
    base = torch.autograd.Function
    if cls is None or any(method(cls, each) is not method(base, each) for each in ("backward", "vjp")):
        return None
    forward = body_of(cls, "forward")
    if forward is None or "torch" not in found.level.frame.f_globals:
        return None
    inside = _class_of(forward, class_name(cls))
    if inside is None or any(rule_of(n) for each in statements(forward.node) for n in expressions(each)):
        return None
    body, head = inside
    new = f"class {class_name(cls)}(torch.nn.Module):"
    edits = [on_line(body.place(head), new)]
    for one in (one for one in functions(forward.file) if any(one.node is each for each in head.body)):
        if one.name == "__init__" and "super()" not in "".join(map(one.text, statements(one.node))):
            edits.append(put_at("super().__init__()", "above", one.place(one.node.body[0])))
        for each in statements(one.node):
            match each:
                case ast.Expr(ast.Call(ast.Attribute(ast.Name("self"), name))) if name in _OF_CONTEXTS:
                    edits.append(removed(one.place(each)))
    return Remedy(
        f"{class_name(cls)} defines no backward, and needs none, as PyTorch differentiates what forward computes. Make "
        f"it a module: {listed(edits)}.",
        (shown(body.place(head), "is a Function without a backward."),),
        body.place(head),
    )


def _class_of(forward: Body, name: str) -> tuple[Body, ast.ClassDef] | None:
    """The statement that defines the class of a method, with what it stands in."""
    classes = ((body, each) for body, each in statements_of(forward.file) if isinstance(each, ast.ClassDef))
    inside = [(body, each) for body, each in classes if each.name == name and each.lineno < definition(forward).line]
    return inside[-1] if inside else None


_OF_CONTEXTS = ("save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads")


def _called_class(level: Level, node: ast.expr) -> type | None:
    """The class of the Function that an instance is of: `criterion`, `Mixture(3)`."""
    held = value_of(level, node.func) if isinstance(node, ast.Call) else value_of(level, node)
    cls = held if is_class(held) else type(held)
    return cls if isinstance(cls, type) and issubclass(cls, torch.autograd.Function) else None


@remedy(r"Legacy autograd function")
def _with_static_methods(found: Refusal, match: Match) -> Remedy | None:
    """A Function of the old style: what its constructor keeps becomes arguments, without a gradient."""
    call = found.expression
    cls = _called_class(found.level, call.func) if isinstance(call, ast.Call) else None
    old = _old_style(cls) if cls is not None else None
    if old is None:
        return None
    calls = _applied(old, found.failure)
    return (
        Remedy(
            f"{_static(old)}{_returning(old)} Then call apply: {listed(calls, len(calls))}.",
            (shown(old.body.place(old.head), "is a Function of the old style: its methods are not static."),),
            old.body.place(old.head),
        )
        if calls
        else None
    )


@dataclass(frozen=True)
class _OldStyle:
    """The source of such a class.

    given: the parameters of its constructor, with the text of their defaults. kept: what that assigns to attributes.
    """

    body: Body
    head: ast.ClassDef
    init: Body | None
    forward: Body
    backward: Body
    given: dict[str, str]
    kept: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> list[str]:
        return [each.arg for each in _arguments(self.forward).args[1:]]


def _arguments(body: Body) -> ast.arguments:
    assert isinstance(body.node, ast.FunctionDef)
    return body.node.args


def _is_plain(body: Body) -> bool:
    """Whether a method is undecorated, and takes what it takes by its place."""
    if not isinstance(body.node, ast.FunctionDef) or body.node.decorator_list or body.node.returns is not None:
        return False
    given = body.node.args
    return bool(given.args) and not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs)


def _old_style(cls: type) -> _OldStyle | None:
    """Read a class; None where its methods do more than to keep what they are given and to compute."""
    forward, backward = body_of(cls, "forward"), body_of(cls, "backward")
    found = _class_of(forward, class_name(cls)) if forward is not None else None
    if found is None or forward is None or backward is None or forward.file != backward.file:
        return None
    body, head = found
    own = {one.name: one for one in functions(forward.file) if any(one.node is each for each in head.body)}
    init = own.pop("__init__", None)
    plain = all(_is_plain(each) for each in (forward, backward, *([init] if init else ())))
    texts = [isinstance(each, ast.FunctionDef) or _is_text(each) or isinstance(each, ast.Pass) for each in head.body]
    if not plain or own.keys() != {"forward", "backward"} or not all(texts) or _arguments(forward).defaults:
        return None
    given, kept = _defaults(init) if init else {}, list[tuple[str, str]]()
    for each in statements(init):
        match each:
            case ast.Assign([ast.Attribute(ast.Name(it), name)], value) if init and it == _arguments(init).args[0].arg:
                kept.append((name, init.text(value)))
            case ast.Expr(ast.Call(ast.Attribute(_, "__init__"))):
                continue
            case _ if not _is_text(each):
                return None
    itself = _arguments(init).args[0].arg if init else "self"
    named = {each.arg for each in (*_arguments(forward).args, *_arguments(backward).args)}
    inside = [each for one in (forward, backward) for s in statements(one.node) for each in ast.walk(s)]
    used = {each.id for each in inside if isinstance(each, ast.Name)}
    again = {each.attr for each in inside if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)}
    again &= {name for name, _ in kept}
    computed = any(re.search(rf"\b{itself}\b", value) or "…" in value for _, value in kept)
    if again or computed or given.keys() & (named | used):
        return None
    return _OldStyle(body, head, init, forward, backward, given, tuple(kept))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _defaults(init: Body) -> dict[str, str]:
    """The parameters of a constructor, each with its default as it is written; empty without one."""
    names, values = [each.arg for each in _arguments(init).args[1:]], _arguments(init).defaults
    return dict(zip(names, [""] * (len(names) - len(values)) + [init.text(each) for each in values], strict=True))


def _static(old: _OldStyle) -> str:
    """What becomes of the constructor, and of the heads of both methods."""
    forward = f"def forward({', '.join(('ctx', *old.inputs, *old.given))}):"
    backward = f"def backward({', '.join(('ctx', *(each.arg for each in _arguments(old.backward).args[1:])))}):"
    said = []
    for one, new in ((old.forward, forward), (old.backward, backward)):
        at = definition(one)
        said.append(f"{on_line(at, new)}{put('@staticmethod', 'above', at)}")
    said[0] += "".join(_renamed(old.forward, []))
    said[0] += "".join(_renamed(old.backward, returned(old.backward) if old.given else []))
    keeping = "; ".join(f"ctx.{name} = {value}" for name, value in old.kept)
    if keeping:
        first = next(each for each in old.forward.node.body if not _is_text(each))
        at = old.forward.place(first)
        said.insert(1, f"put `{keeping}` above line {at.line}{put(keeping.replace('; ', chr(10)), 'above', at)}")
    gone = ""
    if old.init is not None:
        node, top = old.init.node, definition(old.init)
        last = getattr(node, "end_lineno", top.line)
        gone = f", remove lines {top.line} to {last} (__init__){remove(lines_of(top.file, *range(top.line, last + 1)))}"
    itself = _arguments(old.forward).args[0].arg
    instead = f", with ctx instead of {itself}" if itself != "ctx" else ""
    return (
        f"Make forward and backward static methods{instead}: put `@staticmethod` above each, {', '.join(said)}{gone}."
    )


def _renamed(one: Body, but: list[ast.Return]) -> Iterator[str]:
    """The edits that write `ctx` for the instance in a method, but in its head and in some statements."""
    itself, head = _arguments(one).args[0].arg, definition(one)
    inside = {n for each in statements(one.node) for n in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    returning = {n for each in but for n in range(each.lineno, (each.end_lineno or 0) + 1)}
    for n in sorted(inside - returning):
        if itself != "ctx" and re.search(rf"(?<![\w.]){itself}(?!\w)", one.lines[n - 1]):
            yield str(change(lines_of(head.file, n), itself, "ctx"))


def _returning(old: _OldStyle) -> str:
    """A gradient of None for each of the new arguments."""
    if not old.given:
        return ""
    itself, nones, told = _arguments(old.backward).args[0].arg, ", None" * len(old.given), []
    for each in returned(old.backward):
        texts = [*map(old.backward.text, elements(each))]
        if len(old.inputs) > 1 and len(texts) == 1:
            texts = [f"*{simple(texts[0])}"]
        new = f"return {', '.join(texts)}{nones}"
        new = re.sub(rf"(?<![\w.]){itself}(?!\w)", "ctx", new)
        told.append(on_line(old.backward.place(each), new))
    need = "needs" if len(old.given) == 1 else "need"
    return f" backward returns None for {listed([*old.given])}, which {need} no gradient: {listed(told)}."


def _applied(old: _OldStyle, failure: Failure) -> list[str]:
    """What to write where instances are made and called; empty where one of them cannot be written."""
    name, told = old.head.name, list[str]()
    changes = dict[tuple[str, int, int], tuple[Body, ast.stmt, dict[ast.expr, str]]]()
    for body, statement, call in calls_of(*user_files(failure)):
        if (dotted(call.func) or "").rpartition(".")[2] != name:
            continue
        given = _given(old, body, call)
        outer = next((each for each in calls_in(statement) if each.func is call), None)
        if given is None or (outer is not None and outer.keywords):
            return []
        whole = f"{dotted(call.func)}.apply"
        inputs = [*map(body.text, outer.args)] if outer is not None else ["*inputs"]
        new = f"{whole}({', '.join((*inputs, *given))})"
        key = (body.file, statement.lineno, statement.col_offset)
        changes.setdefault(key, (body, statement, {}))[2][outer or call] = (
            new if outer is not None else f"lambda *inputs: {new}" if given else whole
        )
    for body, statement, each in changes.values():
        line = rewritten(body, statement, each)
        if not line:
            return []
        told.append(on_line(body.place(statement), line))
    return told


def _given(old: _OldStyle, body: Body, call: ast.Call) -> list[str] | None:
    """What a call of the class gives to each parameter of the constructor."""
    if any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > len(old.given):
        return None
    found = dict(zip(old.given, map(body.text, call.args), strict=False))
    found |= {each.arg: body.text(each.value) for each in call.keywords if each.arg is not None}
    every = [found.get(name) or default for name, default in old.given.items()]
    return every if all(every) and found.keys() <= old.given.keys() else None
