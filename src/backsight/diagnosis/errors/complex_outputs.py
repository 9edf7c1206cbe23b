"""A complex loss: the statement that squares complex values, and how the square of their magnitude is written."""

from __future__ import annotations

import ast
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import called, passed, simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, shown
from backsight.snapshot import survey
from backsight.source import Place, statement_at
from backsight.source.body import callee, calls_in, dotted, expressions, given_to
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure
from backsight.story.handed import handed
from backsight.story.memory import is_tensor
from backsight.story.sections import Section, sections

_REAL = frozenset({"abs", "absolute", "angle", "real", "imag", "view_as_real"})


def complex_output(failure: Failure) -> Finding:
    """Say where the loss became complex, and what real number to minimize."""
    root = next((each for each in failure.roots if is_tensor(each) and each.is_complex()), None)
    name = called(failure, root) if root is not None else ""
    what = f"a {described(root)}" if root is not None else "not a real scalar"
    square = _square(failure, root) if root is not None else None
    call = "autograd.grad()" if failure.call == "grad" else "backward()"
    return explanation(
        f"{name or 'The tensor'} is {what}, but {call} must start from one real number.",
        (
            *((shown(square.place, f"squares {square.operand}, and so leaves a complex number."),) if square else ()),
            *passed(handed(failure, root)),
            *failing(failure, f"starts from {name or 'it'}."),
        ),
        _fix(simple(name or "loss"), square),
        source=str(square.place) if square else failure.source,
        exact=root is not None,
    )


class _Square(NamedTuple):
    """Where complex values are squared, what they are called, and the statement with their magnitude instead."""

    place: Place
    operand: str
    mended: str


def _fix(name: str, square: _Square | None) -> str:
    if square is None:
        return (
            f"Take the magnitude of the elements that {name} is computed from, x.abs() or x.abs() ** 2, before their "
            f"sum or mean. {name}.real ignores the imaginary part: it is right only where that part is 0 but for "
            "rounding, as in the sum of x * x.conj()."
        )
    line = square.place.line
    how = f"write `{square.mended}`" if square.mended else f"square the magnitude of {square.operand} instead"
    return (
        f"On line {line}, {how}: the squared magnitude is real. {name}.real and {name}.abs() would silence the error, "
        "but minimize something else."
    )


def _square(failure: Failure, root: torch.Tensor) -> _Square | None:
    """The statement on the way to a complex loss that may square complex values: of several, the only one that also
    takes their mean or sum. None where the text does not tell which it is, or the graph has no such operation.
    """
    nodes = survey((root,), frames=failure.frames).graph.nodes
    if not any(each.op in ("Pow", "Mul") and each.dtype is not None and each.dtype.is_complex for each in nodes):
        return None
    found: dict[_Square, bool] = {}
    for section in sections(failure):
        for line in section.lines():
            statement = statement_at(section.body, line)
            pairs = [(each, base) for each in expressions(statement) if (base := _base(each)) is not None]
            pairs = [(each, base) for each, base in pairs if _may_be_complex(section, base)]
            if statement is None or not pairs:
                continue
            text = section.body.text(pairs[0][1])
            mended = rewritten(section.body, statement, {each: _magnitude(section, each, base) for each, base in pairs})
            reduces = any(callee(each)[1] in ("mean", "sum") for each in calls_in(statement))
            found[_Square(section.body.place(statement), text, mended)] = reduces
    likely = [each for each, reduces in found.items() if reduces] or [*found]
    return likely[0] if len(likely) == 1 else None


def _base(node: ast.expr) -> ast.expr | None:
    """What an expression is the square of: `e` of `e ** 2`, `e * e`, `e * e.conj()`, `e.pow(2)`, `torch.square(e)`."""
    match node:
        case ast.BinOp(base, ast.Pow(), ast.Constant(2)):
            return base
        case ast.BinOp(left, ast.Mult(), right) if ast.dump(left) == ast.dump(_conjugated(right)):
            return left
        case ast.Call() as call:
            match callee(call)[1], given_to(call):
                case ("square", [base]) | ("pow", [base, ast.Constant(2)]):
                    return base
    return None


def _conjugated(node: ast.expr) -> ast.expr:
    """`e` of `e.conj()`; any other expression itself."""
    match node:
        case ast.Call(func=ast.Attribute(base, "conj"), args=[]):
            return base
    return node


def _may_be_complex(section: Section, base: ast.expr) -> bool:
    if any(isinstance(each, ast.Call) and callee(each)[1] in _REAL for each in ast.walk(base)):
        return False
    value = section.value(dotted(base) or "")
    return value is None or (is_tensor(value) and value.is_complex())


def _magnitude(section: Section, whole: ast.expr, base: ast.expr) -> str:
    """The square of the magnitude, as the expression that it replaces binds: `e.abs() ** 2`, or a call."""
    magnitude = f"{simple(section.body.text(base))}.abs()"
    return f"{magnitude} ** 2" if isinstance(whole, ast.BinOp) else f"{magnitude}.square()"
