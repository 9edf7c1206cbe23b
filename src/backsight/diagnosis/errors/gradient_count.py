"""BS207: the backward of a custom Function returns more or fewer gradients than its forward has arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.custom import Applied, applied, body_of, concatenated, definition, elements, returned
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_dict, class_name, mro
from backsight.source import Body, Place, only
from backsight.source.bindings import bound
from backsight.source.body import statements
from backsight.source.edits import OR, instead, marks_of, put, sentence, without_marks
from backsight.source.rewriting import simple
from backsight.story.failure import Failure

_RULE = "Return one value for each argument of forward after ctx, in the same order; None where no gradient is needed."


@explains(
    "BS207",
    r"function (?P<node>\w+) returned an incorrect number of gradients \(expected (?P<due>\d+), got (?P<got>\d+)\)",
)
def gradient_count(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which arguments forward has, and which of them need no gradient but a None in its place."""
    due, got = int(match["due"]), int(match["got"])
    found = applied(failure, match["node"])
    function = found.name if found else match["node"].removesuffix("Backward")
    body = body_of(found.cls, found.backward) if found else None
    returns = counted(got, "gradient") if body is None or returned(body) else "nothing"
    title = f"{function}'s backward returns {returns}; its forward received {counted(due, 'argument')}."
    if found is None:
        return explanation(title, fix=_RULE, source=failure.source, exact=False)
    forward, place = body_of(found.cls, "forward"), _place(found, got)
    lines: list[Fact] = []
    if forward:
        lines.append(shown(definition(forward), f"{_given(found)}."))
    if place:
        whose = f" {function} inherits it from {base}." if (base := _inherited(found)) else ""
        lines.append(shown(place, f"{_returns(place, due, got)}{whose}"))
    elif not forward:
        lines.append(f"{sentence(_given(found))}.")
    fix = _fix(found, due, got)
    if base := _inherited(found):
        fix = without_marks(fix)
        fix = f"Give {function} a {found.backward} of its own, as that of {base} fits another forward. {fix}"
    return explanation(title, tuple(lines), fix, place or failure.source)


def _inherited(found: Applied) -> str:
    """The base class that has the backward, where the forward is another class's; else empty."""
    owners = [
        next((each for each in mro(found.cls) if name in class_dict(each)), found.cls)
        for name in (found.backward, "forward")
    ]
    return class_name(owners[0]) if owners[0] is not owners[1] and owners[0] is not found.cls else ""


def _given(found: Applied) -> str:
    """`received x and slope; slope needs no gradient`."""
    without = [name for name, needs in zip(found.arguments, found.needed, strict=True) if not needs]
    plural = "needs" if len(without) == 1 else "need"
    return f"received {listed(found.arguments)}" + (f"; {listed(without)} {plural} no gradient" if without else "")


def _returns(place: Place, due: int, got: int) -> str:
    if not place.text.startswith("return"):
        return "returns nothing."
    return f"returns {counted(got, 'value')}: {abs(due - got)} too {'few' if got < due else 'many'}."


def _place(found: Applied, got: int) -> Place | None:
    """The statement that returned `got` values: the only one that may have, or the only one there is."""
    body = body_of(found.cls, found.backward)
    if body is None:
        return None
    every = returned(body)
    fitting = [each for each in every if len(elements(each)) == got]
    chosen = fitting or every
    return body.place(chosen[-1]) if chosen else definition(body)


def _fix(found: Applied, due: int, got: int) -> str:
    body = body_of(found.cls, found.backward)
    if body is not None and not returned(body) and (ending := _ending(found, body)):
        return ending
    statement = next((each for each in returned(body) if len(elements(each)) == got), None) if body else None
    if statement is None and body is not None and (unpacking := _unpacking(found, body, got)):
        return unpacking
    if statement is None or body is None:
        ends = f"End {found.backward} with a return of {counted(due, 'value')}. {_RULE}"
        return ends if body and not returned(body) else _RULE
    written = [body.text(each) for each in elements(statement)]
    values = iter([each for each in written if each != "None"])
    if got < due and len(written) - written.count("None") == sum(found.needed):
        whole = ", ".join(next(values) if needs else "None" for needs in found.needed)
        return f"Return None for each argument that needs no gradient: {_returning(body, statement, whole)}"
    if got < due and not any(found.needed[got:]):
        whole = ", ".join([*written, *["None"] * (due - got)])
        return f"Return None for each argument that needs no gradient: {_returning(body, statement, whole)}"
    if got < due:
        missing = [name for name, needs in zip(found.arguments, found.needed, strict=True) if needs][got:]
        if all_of := _computed(found, body):
            return f"Return the gradient of {listed(missing)} too: {_returning(body, statement, ', '.join(all_of))}."
        return f"Compute the gradient of {listed(missing)} too. {_RULE}"
    if written[0] == "None" and got == due + 1:
        return f"Drop the None for ctx, which does not count: {_returning(body, statement, ', '.join(written[1:]))}"
    if due < got <= len(found.parameters):
        left_out = listed(found.parameters[due:])
        fewer = marks_of(_returning(body, statement, ", ".join(written[:due])))
        return (
            f"Return {counted(due, 'value')} only{fewer}, {OR}or pass {left_out} to apply: a default left out has no "
            "gradient."
        )
    return _RULE


def _unpacking(found: Applied, body: Body, got: int) -> str:
    """The only return of a backward, which unpacks the gradients of some arguments in a row, with a None for each
    argument that needs none: `None, None, *grads`."""
    statement = only(returned(body))
    parts = concatenated(statement.value) if statement is not None and statement.value is not None else []
    given = [each for each in parts if not (isinstance(each, ast.Constant) and each.value is None)]
    unpacked = only(each for each in parts if isinstance(each, ast.Starred))
    due = [k for k, needs in enumerate(found.needed) if needs]
    if (
        statement is None
        or unpacked is None
        or len(given) - 1 + (count := got - len(parts) + 1) != len(due)
        or not count
    ):
        return ""
    first = given.index(unpacked)
    run = due[first : first + count]
    if run != [*range(run[0], run[0] + count)]:
        return ""
    texts = {
        k: body.text(each)
        for k, each in zip(due[:first] + due[first + count :], given[:first] + given[first + 1 :], strict=True)
    }
    texts |= {run[0]: f"*{simple(body.text(unpacked.value))}"}
    values = [texts.get(k, "None") for k in range(len(found.needed)) if k not in run[1:]]
    return f"Return None for each argument that needs no gradient: {_returning(body, statement, ', '.join(values))}"


def _ending(found: Applied, body: Body) -> str:
    """How a backward ends that computes each gradient and returns nothing, where names tell whose it is."""
    values = _computed(found, body)
    if not values or not any(found.needed):
        return ""
    code, place = f"return {', '.join(values)}", body.place(body.node.body[-1])
    return f"Return what it computes: put `{code}` below line {place.end or place.line}{put(code, 'beside', place)}."


def _computed(found: Applied, body: Body) -> Sequence[str]:
    """The variables of a backward that hold the gradients, by their names; empty where one of them has none."""
    names = {name for each in statements(body.node) for name in bound(each)}
    values = [_named(*each, names) for each in zip(found.arguments, found.needed, strict=True)]
    return values if all(values) else []


def _named(argument: str, needs: bool, names: set[str]) -> str:
    """The variable for the gradient of an argument: `grad_x`, `dx`; None where it needs none."""
    if not needs:
        return "None"
    ways = (f"grad_{argument}", f"{argument}_grad", f"d{argument}", f"d_{argument}", f"g_{argument}")
    return next((each for each in ways if each in names), "")


def _returning(body: Body, statement: ast.Return, values: str) -> str:
    return f"return {values}{instead(body, statement, f'return {values}')}"
