"""BS233: a function that torch.func is to differentiate returns no tensor: a number, None, or a tuple."""

from __future__ import annotations

import ast
import re
from typing import Any, TypeGuard

from backsight.diagnosis.errors.lost_tensor import ended, kept, result_in, without
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.conversion import Conversion, Kind, conversion_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, failing, if_known
from backsight.source import Place, calls_of, only
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.source.edits import Edit, on_line, without_marks, write
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure, Level, function_of, owner_of
from backsight.story.files import user_files
from backsight.story.memory import is_tensor, shape_of
from backsight.story.sections import Section, run_by

_TYPE = r"<class '(?P<type>[\w.]+)'>"


@explains(
    "BS233",
    rf"Expected f\(\*args\) to return a Tensor, got {_TYPE}",
    rf"expected f\(\*primals\) to return only tensors, got unsupported type {_TYPE}",
    r"Expected f to be a function that has non-empty output \(got output = \[(?:None)?\]\)",
    rf"outputs of the user-provided function given to \w+ must be .* has type {_TYPE}",
)
def no_output(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the function, and the statement that makes something else of the tensor."""
    type_name = match.groupdict().get("type") or "NoneType"
    level = _caller(failure)
    function = level.variables.get("func") if level else None
    section = next(run_by(function_of(function), owner_of(function)), None) if function is not None else None
    if level is None or section is None:
        return unlocated(
            failure,
            f"The function returns {a_kind(type_name)}, but torch.func needs a tensor.",
            "differentiates it.",
            "Return the tensor itself from the function, without .item(), float() or NumPy; for further results, "
            "has_aux=True.",
        )
    name = _name(section)
    output = level.variables.get("output")  # of torch.func.grad
    if type_name == "tuple" and not level.variables.get("has_aux") and _is_loss_first(output):
        return _with_others(failure, section, name, len(output))
    kind: Kind = "none" if type_name == "NoneType" else "tuple" if type_name in ("tuple", "list", "dict") else "number"
    made = conversion_in(failure, section, kind)
    if made is None and kind == "tuple":  # a list of numbers
        made, kind = conversion_in(failure, section, "other"), "other"
    place = made.place if made else _only_return(section)
    does = made.does if made else f"returns {a_kind(type_name)}"
    what = "nothing" if type_name == "NoneType" else f"{a_kind(type_name)}, not a tensor"
    return explanation(
        f"{_begun(name)} returns {what}: there is nothing to differentiate.",
        (if_known(place, f"{does}."), *failing(failure, f"differentiates {name}.")),
        _of_pair(section, name) if kind == "tuple" and level.variables.get("has_aux") else _fix(made, name, kind),
        source=place or failure.source,
        exact=made.sure if made else place is not None,
    )


def _caller(failure: Failure) -> Level | None:
    """PyTorch's function that has called the user's, and has its result."""
    levels = (each for each in reversed(failure.levels) if each not in failure.users)
    return next((each for each in levels if "func" in each.variables), None)


def _name(section: Section) -> str:
    name = section.body.name
    return f"{name}()" if name.isidentifier() else "the lambda"


def _begun(name: str) -> str:
    """The name as a sentence begins with it."""
    return f"The{name.removeprefix('the')}" if name.startswith("the ") else name


def _only_return(section: Section) -> Place | None:
    returns = [each for each in statements(section.body.node) if isinstance(each, ast.Return)]
    return section.body.place(returns[0]) if len(returns) == 1 else None


def _is_loss_first(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return type(value) is tuple and len(value) > 1 and is_tensor(value[0]) and shape_of(value[0]) == ()


def _with_others(failure: Failure, section: Section, name: str, count: int) -> Finding:
    """The loss is the first of several results: PyTorch must be told."""
    place = _only_return(section)
    told = _told_so(failure, section, _beside(section) if count == 2 else "rest")
    fix = f"{told}, which then returns the gradient and what {name} returns beside the loss."
    if count > 2 and place is not None:
        pair = _as_pair(section) if without_marks(told) != told else ""
        fix = fix if pair else without_marks(fix)
        fix = f"On line {place.line}, return a pair, the loss and a tuple of the others{pair}. {fix}"
    beside = "another value" if count == 2 else f"{count - 1} other values"
    return explanation(
        f"{_begun(name)} returns a tuple, not a tensor: torch.func does not know that the loss is its first element.",
        (if_known(place, f"returns the loss with {beside}."), *failing(failure, f"differentiates {name}.")),
        fix,
        source=place or failure.source,
    )


def _as_pair(section: Section) -> Edit | str:
    """The only return of a function, with all but the first of its results in a tuple."""
    body = section.body
    match [each for each in statements(body.node) if isinstance(each, ast.Return)]:
        case [ast.Return(value=ast.Tuple(elts=[first, *others]) as whole) as statement]:
            first, *inner = first.elts if isinstance(first, ast.Tuple) and first.elts else [first]
            others = [*inner, *others]
            new = f"{body.text(first)}, ({', '.join(map(body.text, others))}{',' * (len(others) == 1)})"
            line = rewritten(body, statement, {whole: new})
            return write(body.place(statement), line) if line and body.name.isidentifier() else ""
    return ""


def _beside(section: Section) -> str:
    """What a function that returns a pair calls the second: `logits`."""
    pairs = [each.value for each in statements(section.body.node) if isinstance(each, ast.Return)]
    match pairs:
        case [ast.Tuple(elts=[_, ast.Name(id=name)])]:
            return name
    return "rest"


def _told_so(failure: Failure, section: Section, beside: str) -> str:
    level = failure.user
    if level is not None and level.body is not None and level.statement is not None:
        for call in calls_in(level.statement):
            if callee(call)[1] in ("grad", "grad_and_value") and call.args:
                last = (*call.args, *(each.value for each in call.keywords))[-1]
                text = f"{level.body.text(last)}, has_aux=True"
                changes: dict[ast.expr, str] = {last: text}
                match level.statement:
                    case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Call(func=called)) if any(
                        each is call for each in ast.walk(called)
                    ):
                        changes[target] = f"{name}, {beside if beside not in level.variables else 'rest'}"
                if "…" not in text and (line := rewritten(level.body, level.statement, changes)):
                    return f"Pass has_aux=True: {on_line(level.place, line)}"
    return f"Pass has_aux=True to torch.func.grad{_taken_anywhere(failure, section)}"


def _taken_anywhere(failure: Failure, section: Section) -> Edit | str:
    """The only statement that takes the derivative of the function, as what is called later, told so."""
    found = only(
        (body, statement, call.args[0])
        for body, statement, call in calls_of(*user_files(failure))
        if callee(call)[1] in ("grad", "grad_and_value") and [*map(dotted, call.args)] == [section.body.name]
    )
    if found is None or found[2].lineno in {each.line for each in failure.users}:
        return ""
    body, statement, given = found
    new = rewritten(body, statement, {given: f"{body.text(given)}, has_aux=True"})
    return write(body.place(statement), new) if new else ""


def _of_pair(section: Section, name: str) -> str:
    pair = _as_pair(section)
    return f"Return a pair from {name}: the tensor to differentiate, then all the rest as one value{pair}."


def _fix(made: Conversion | None, name: str, kind: Kind) -> str:
    if kind == "none":
        result = result_in(made) if made and made.returns_none else ""
        return f"{ended(made, name, result)}." if made and result else f"Return the tensor from {name}."
    if kind == "tuple" or (kind == "other" and made is None):
        return f"Return one tensor from {name}."
    if made and made.call is not None and made.operand is not None and (line := without(made)):
        at = f"on line {made.place.line}"
        is_statement = made.section.body.name.isidentifier()  # a lambda's body is a part of one
        how = f"{at}, write `{line}`" if is_statement else f"write `{line}` instead of `{made.place.text}` {at}"
        return f"Keep the tensor: {how}{kept(made, line)}. Convert to a number after differentiating."
    return f"Compute what {name} returns with PyTorch operations, and return the tensor."
