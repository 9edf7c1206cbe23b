"""BS220: a gradient is asked for of integers, which have none."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TypeGuard

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.gradients import Held
from backsight.diagnosis.evidence.spoken import names_of, simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source.bindings import target_names
from backsight.source.body import callee, calls_in, expressions, keyword
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.tape.rows import dtype_name


@explains("BS220", r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients")
def integer_leaf(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor or the call that makes it, and what to ask instead."""
    level = failure.user
    text, tensor = next(_asked(failure, level), ("", None)) if level else ("", None)
    made = None if tensor is not None or level is None else _making(level)
    name = text
    if level is not None and tensor is not None:
        name = Held(failure, level, text, tensor).name if text else names_of(failure, [tensor])[0]
    kind = f" ({dtype_name(tensor.dtype)})" if tensor is not None else ""
    what = f"{name or (made and _target(level)) or 'A tensor'} holds integers{kind}"
    return explanation(
        f"{what}, but only floating-point and complex tensors can require grad.",
        (shown(level.place, "makes it require grad."),) if level else (),
        _fix(level, text, name, tensor, made),
        source=failure.source,
        exact=tensor is not None or made is not None,
    )


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


def _is_of_integers(value: object) -> TypeGuard[torch.Tensor]:
    return is_tensor(value) and not (value.is_floating_point() or value.is_complex())


def _making(level: Level) -> ast.Call | None:
    """The call that makes a tensor and asks for its gradient at once."""
    calls = calls_in(level.statement)
    return next((call for call in calls if keyword(call, "requires_grad") is not None), None)


def _target(level: Level | None) -> str:
    statement = level.statement if level else None
    return next(iter(target_names(*statement.targets)), "") if isinstance(statement, ast.Assign) else ""


def _fix(level: Level | None, text: str, name: str, tensor: torch.Tensor | None, made: ast.Call | None) -> str:
    if made is not None:
        kept = [each for each in made.keywords if each.arg != "dtype"]
        dtype = ast.keyword("dtype", ast.parse("torch.float32", mode="eval").body)
        call = ast.unparse(ast.Call(made.func, made.args, [dtype, *kept]))
        return f"Make them floating point: {call}."
    if tensor is None or level is None:
        return "Convert them to floating point first with .float(), or leave out what you do not train."
    if _is_parameter(level):
        plain = simple(text)
        return (
            f"If you do not train it, make it a buffer, or nn.Parameter({text}, requires_grad=False). To train it, "
            f"convert it to floating point: nn.Parameter({plain}.float())."
        )
    if name != text:  # one of several, which the statement goes through
        each = text or "parameter"
        return (
            f"Set requires_grad on floating-point parameters only: if {each}.is_floating_point(): "
            f"{each}.requires_grad_()."
        )
    return (
        f"Convert it to floating point first: {text} = {simple(text)}.float(). If it holds indices, as of words, "
        "differentiate what an embedding looks up with them: call retain_grad() on that."
    )


def _is_parameter(level: Level) -> bool:
    calls = calls_in(level.statement)
    return any(callee(call)[1] == "Parameter" for call in calls)
