"""BS200: an error out of PyTorch that no explanation knows: its line, the expression, and the tensors that it is about.

Only what the frames hold is told, and no cause: a fix is given where PyTorch's message leaves nothing else to be wrong.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.errors.vmap import batch_norm_mapped
from backsight.diagnosis.evidence.elsewhere import elsewhere
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import UNKNOWN, Finding
from backsight.diagnosis.remedies import remedy
from backsight.diagnosis.wording import described, shown
from backsight.findings.evidence import Certainty, Fact, evidence_of
from backsight.naming.plain import class_name
from backsight.naming.roots import is_ours
from backsight.source import Place, function_at
from backsight.source.bindings import spots
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.source.freezing import freezings
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, failure_of, method
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.tape import parameters_in, registered
from backsight.text import as_code
from backsight.tracing.callers import CALL_NAME

_MOST = 5
_LONGEST = 160
_TORCH = os.path.dirname(torch.__file__) + os.sep
_KINDS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
"""What PyTorch raises where it refuses what it is given; others, as an OSError, are about something else."""

_OF_TENSORS = re.compile(r"tensor|dimension", re.IGNORECASE)
_WANTS_GRADIENT = re.compile(r"doesn't require gradient|has requires_grad=False")


@dataclass(frozen=True, eq=False)
class Refusal:
    """An error that PyTorch raised below a line of the user's."""

    failure: Failure
    level: Level

    @cached_property
    def expression(self) -> ast.stmt | ast.expr | None:
        """What failed: the part of the statement that begins where the exception passed; else all of it."""
        statement, level = self.level.statement, self.level
        if statement is None or level.column is None:
            return statement
        at = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Compare)
            and (node.lineno, node.col_offset) == (level.line, level.column)
            and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        ]
        inner = self.below[0].frame.f_code.co_name if self.below else ""  # of `f(x).g()` it tells which
        calls = [node for node in at if isinstance(node, ast.Call)]
        runs_module = (node for node in calls if "call_impl" in inner and is_module(value_of(level, node.func)))
        called = next((node for node in calls if callee(node)[1] == inner), None) or next(runs_module, None)
        return called or (at[0] if at else statement)

    @cached_property
    def below(self) -> tuple[Level, ...]:
        """The levels of PyTorch's own below the line, outermost first."""
        after = self.failure.levels[self.failure.levels.index(self.level) + 1 :]
        codes = ((each, each.frame.f_code) for each in after)
        return tuple(each for each, code in codes if not is_ours(code.co_filename) and code.co_name != CALL_NAME)

    @property
    def is_custom(self) -> bool:
        """Whether it failed in the backward of a custom Function."""
        given = next(iter(self.level.variables.values()), None)
        return self.level.frame.f_code.co_name == "backward" and issubclass(
            type(given), torch.autograd.function.FunctionCtx
        )

    @property
    def text(self) -> str:
        body, node = self.level.body, self.expression
        return body.text(node) if body and node is not None else ""

    @cached_property
    def module(self) -> torch.nn.Module | None:
        """The module of PyTorch's in which it failed."""
        held = (each.variables.get("self") for each in reversed(self.below))
        return next((each for each in held if is_module(each)), None)

    @cached_property
    def module_name(self) -> str:
        name = names_of(self.failure, [self.module])[0] if self.module is not None else ""
        return as_code(name)

    @cached_property
    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """What the expression reads, what the module was given, and the module's own weights."""
        found = dict.fromkeys(_read(self.level, self.expression))
        every = [(text, value) for text, value in found if is_tensor(value)]
        if not every and self.failure.call:
            roots = [each for each in self.failure.roots if is_tensor(each)]
            every = list(zip(names_of(self.failure, roots), roots, strict=True))
        if not every and self.below:
            inner = [each for each in self.below[-1].variables.values() if is_tensor(each)]
            every = [pair for pair in zip(names_of(self.failure, inner), inner, strict=True) if pair[0]]
        if self.module is not None:
            at = next((each for each in reversed(self.below) if each.variables.get("self") is self.module), None)
            given = at.variables.get("input") if at else None
            if is_tensor(given) and not any(value is given for _, value in every):
                every.append((f"the input of {self.module_name or class_name(type(self.module))}", given))
            own = registered(self.module, "_parameters").items()
            named = [(f"{self.module_name or 'its'}.{name}", each) for name, each in own if is_tensor(each)]
            every += [pair for pair in named if not any(value is pair[1] for _, value in every)]
        return every[:_MOST]


def refused(error: BaseException) -> Finding | None:
    """Say where PyTorch has refused what, in an error that no explanation knows; None for one that is not PyTorch's."""
    if not issubclass(type(error), _KINDS) or elsewhere(error) is not None:
        return None
    failure = failure_of(error)
    found = Refusal(failure, failure.user) if failure.user else None
    if found is None or not _is_of_torch(found):
        return None
    if (norm := batch_norm_mapped(failure)) is not None:
        return norm
    saving = _saving(found)
    message = " ".join("".join(each for each in failure.message.partition("\n")[0] if each.isprintable()).split())
    said = f": {message[:_LONGEST]}{'…' if len(message) > _LONGEST else ''}" if message else ""
    evidence = tuple(_evidence(found))
    what = f"{found.text} raised" if found.text and "…" not in found.text else "PyTorch raised"
    return Finding(
        UNKNOWN,
        "error",
        f"{what} {type.__dict__['__name__'].__get__(type(error))}{said}",
        evidence,
        remedy(failure.message, found.tensors, found.module_name, custom=found.is_custom),
        source=str(saving) if saving else failure.source,
        exact="read" not in {evidence_of(each).certainty for each in evidence},
    )


def _is_of_torch(found: Refusal) -> bool:
    """Whether PyTorch raised it: its own code did, or what it has in C below a line that works on tensors."""
    error, level = found.failure.error, found.level
    if found.below:
        return found.below[-1].frame.f_code.co_filename.startswith(_TORCH)
    if isinstance(level.statement, ast.Raise | ast.Assert):
        return False
    works = any(is_tensor(value) or is_module(value) for _, value in _read(level, level.statement))
    return works and (issubclass(type(error), RuntimeError) or bool(_OF_TENSORS.search(found.failure.message)))


def _read(level: Level, node: ast.AST | None) -> Iterator[tuple[str, object]]:
    """The names, attributes and items that an expression reads, the longest that lead to a tensor or a module."""
    if node is None or level.body is None or isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = value_of(level, node)
        if is_tensor(value) or is_module(value):
            yield level.body.text(node), value
            return
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield from _read(level, child)


def _evidence(found: Refusal) -> Iterator[Fact]:
    inside = found.module is not None and found.module_name and f"{found.module_name}(" not in found.text
    where = f" in {found.module_name} (a {class_name(type(found.module))})" if inside else ""
    yield shown(found.level.place, f"failed{where}.")
    for text, tensor in found.tensors:
        kind = _kind(tensor)
        plain = Held(found.failure, found.level, text, tensor) if dotted(_parsed(text)) else None
        origin = made(plain) if plain is not None and not isinstance(tensor, torch.nn.Parameter) else None
        if origin is not None and origin.place != found.level.place:
            yield shown(origin.place, f"computes {text}: {kind}.", _certainty(found, origin.place))
        else:
            yield f"{text}: {kind}."
    if (saving := _saving(found)) is not None:
        yield shown(saving, "saves a value that is not a tensor.")
    if found.is_custom and "type" in found.failure.message:
        yield from _autocast(found)
    if _WANTS_GRADIENT.search(found.failure.message):
        yield from _frozen(found)


def _saving(found: Refusal) -> Place | None:
    """The statement of a custom Function's forward that saves what no tensor is: PyTorch only looks as it returns."""
    call = found.expression if "save_for_backward" in found.failure.message else None
    cls = value_of(found.level, callee(call)[0]) if isinstance(call, ast.Call) else None
    forward = method(cls, "forward") if isinstance(cls, type) else None
    body = function_at(forward.__code__) if forward is not None else None
    for each in statements(body.node) if body is not None else ():
        if any(callee(node)[1] == "save_for_backward" for node in calls_in(each)):
            return body.place(each) if body is not None else None
    return None


def _kind(tensor: torch.Tensor) -> str:
    """`float32 tensor of shape 8×4 on cuda:0, requires grad`."""
    on = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{described(tensor)}{on}, {'requires' if needs_gradient(tensor) else 'does not require'} grad"


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _autocast(found: Refusal) -> Iterator[Fact]:
    """A block of the user's files under autocast: the backward of a custom Function runs without it."""
    for body in (body for file in user_files(found.failure) for body in functions(file)):
        for each in (each for each in statements(body.node) if isinstance(each, ast.With)):
            if any(isinstance(c := item.context_expr, ast.Call) and callee(c)[1] == "autocast" for item in each.items):
                place = body.place(each)
                yield shown(place, "runs forward under autocast; backward runs without it.", _certainty(found, place))
                return


def _certainty(found: Refusal, place: Place) -> Certainty | None:
    """None for a statement that must have run: it stands before a line of the traceback, under no condition."""
    for level in (each for each in found.failure.users if each.body is not None and each.body.file == place.file):
        every = {each.node.lineno: each for each in spots(level.body.node)} if level.body else {}
        first, then = every.get(place.line), every.get(level.line)
        if first is None or then is None or first.order >= then.order:
            continue
        if all(arm in then.arms or isinstance(arm[0], ast.With | ast.For) for arm in first.arms):
            return None
    return "read"


def _frozen(found: Refusal) -> Iterator[Fact]:
    """What does not let a tensor require grad: the frozen module that computed it, and what froze that."""
    held = [value for level in found.failure.users for value in level.variables.values() if is_module(value)]
    module = next(iter(held), None)
    every = list(parameters_in(module)) if module is not None else []
    if not torch.is_grad_enabled():
        yield "Gradients are disabled here."
    elif module is not None and every and not any(needs_gradient(each) for each in every):
        name = names_of(found.failure, [module])[0] or class_name(type(module))
        for each in [one for file in user_files(found.failure) for one in freezings(file)][:3]:
            yield shown(each.place, "sets requires_grad to False.", _certainty(found, each.place))
        yield f"{name}: none of its {len(every)} parameters requires grad."
