"""Terms that a condition leaves out of a loss: why a step gives some parameters no gradient, and an earlier one did."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.idle import Reason
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import Place, assignments, backward_roots, function_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Spot, bound, names_read, parameters_of, spots, targets
from backsight.source.body import callee, dotted, expressions, statements
from backsight.source.definitions import values_of
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff, choices, cuts, why
from backsight.story.failure import Failure, follow, function_of
from backsight.story.memory import is_module
from backsight.story.sections import Section, followed, function_called, losses, passed
from backsight.story.trained import trained
from backsight.tape import parameters_in


@dataclass(frozen=True)
class LeftOut:
    """A term of the loss that is only added under a condition."""

    condition: Place
    term: Place
    loss: str

    def evidence(self, name: str) -> tuple[Fact, ...]:
        """What the two statements do to the gradients of `name`."""
        return (
            shown(self.condition, f"decides whether {self.loss} has a term that reaches {name}."),
            shown(self.term, "adds that term."),
        )


def left_out(failure: Failure, parameters: Sequence[torch.Tensor]) -> LeftOut | None:
    """Return the one term that reaches `parameters`, if a condition decides whether the loss has it: it calls a module
    that has one of them, or reads what a model returns of such a module."""
    wanted = {id(each) for each in parameters}
    sections = list(followed(losses(failure.users)))
    every = [(section, spot) for section in sections for spot in _conditional(section)]
    found = [each for each in every if any(_owns(m, wanted) for m in _modules_behind(*each, sections))]
    if len(found) != 1:
        return None
    section, spot = found[0]
    branch = spot.around(ast.If)[-1]
    return LeftOut(section.body.place(branch), section.body.place(spot.node), _loss_of(failure))


def detached(failure: Failure, parameters: Sequence[torch.Tensor]) -> Reason | None:
    """Return what ends the way from what the program runs backward on to parameters, none of which got a gradient."""
    starts = losses(failure.users)
    found = cuts(failure, trained(failure), parameters, starts) or list(choices(failure, starts, parameters))
    if not found:
        return None
    places = {each.cut.place: each for each in found}
    if len(places) == 1 and (decides := _decides(found[0])) is not None:
        return _sometimes(found[0], decides)
    return Reason(
        tuple(shown(place, f"{why(each.cut)}.") for place, each in list(places.items())[:3]),
        found[0].cut.place,
        f"{mended(*places.values()).edit}.",
        because="its result is detached from the loss",
    )


def _decides(cut: CutOff) -> ast.expr | None:
    """What decides whether a block records: `updated` of `with torch.set_grad_enabled(updated):`."""
    node = cut.node
    given = node.args[0] if isinstance(node, ast.Call) and callee(node)[1] == "set_grad_enabled" and node.args else None
    return None if isinstance(given, ast.Constant) else given


def _sometimes(cut: CutOff, decides: ast.expr) -> Reason:
    """A block that records in some steps, and has not in this one."""
    body, place, text = cut.section.body, cut.cut.place, cut.section.body.text(decides)
    made = assignments(body, text, before=place.line)[-1:]
    return Reason(
        (
            *(shown(each, f"computes {text}.") for each in made),
            shown(place, f"records nothing inside it in this step: {text} was false."),
        ),
        place,
        f"To train it in this step, {text} must be true on line {place.line}.",
        sometimes=True,
        because="it ran with gradients disabled",
    )


def _loss_of(failure: Failure) -> str:
    roots = [root for level in failure.users for root, _ in backward_roots(level.body)]
    return roots[0] if len(set(roots)) == 1 and roots[0].isidentifier() else "the loss"


def _conditional(section: Section) -> Iterator[Spot]:
    """The statements of a function that add something to its result under a condition without an alternative."""
    read = {name for goal, line in section.goals for name in ancestors(section.body, goal, line)}
    for spot in spots(section.body.node):
        branch = next(((arm, label) for arm, label in reversed(spot.arms) if isinstance(arm, ast.If)), None)
        if branch is None or (branch[1] == "body" and branch[0].orelse):
            continue
        if grown(spot.node) & read:
            yield spot


def grown(statement: ast.stmt) -> set[str]:
    """The names that a statement adds to: `loss` of `loss += x` and `loss = loss + x`, `terms` of `terms["a"] = x`."""
    match statement:
        case ast.AugAssign(target=target, op=ast.Add()):
            return {dotted(target) or ""} - {""}
        case ast.Assign(value=value):
            items = (target for target, _, _ in targets(statement) if isinstance(target, ast.Subscript))
            if filled := {name for each in items if (name := dotted(each.value))}:
                return filled
            return bound(statement) & names_read(value)
        case ast.Expr(value=ast.Call() as call) if callee(call)[1] in ("append", "extend"):
            return {dotted(callee(call)[0]) or ""} - {""}
    return set()


def _owns(module: object, wanted: set[int]) -> bool:
    return is_module(module) and any(id(p) in wanted for p in parameters_in(module))


def _modules_behind(section: Section, spot: Spot, sections: Sequence[Section]) -> Iterator[object]:
    """The modules that a statement calls, and those whose result it reads: `aux` of `main, aux = model(x)`."""
    for node in expressions(spot.node):
        if isinstance(node, ast.Call):
            yield section.value(dotted(node.func) or "")
        if isinstance(node, ast.Name):
            yield from _behind_part(section, node.id, spot, sections)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            for holder, call in _given(section, node.value, sections):
                yield from _under(holder.value(dotted(call.func) or ""), node.slice.value)


def _behind_part(section: Section, name: str, spot: Spot, sections: Sequence[Section]) -> Iterator[object]:
    """The module behind a part of what a model returned: of `main, aux = out`, where a caller gave `model(x)`."""
    for each in spots(section.body.node):
        match each.node:
            case ast.Assign(targets=[ast.Tuple(elts=elts)], value=value) if each.order < spot.order:
                names = [dotted(element) for element in elts]
                if name in names:
                    for holder, call in _given(section, value, sections):
                        yield from _returned(holder.value(dotted(call.func) or ""), names.index(name), len(names))


def _given(section: Section, value: ast.expr, sections: Sequence[Section]) -> Iterator[tuple[Section, ast.Call]]:
    """The calls that an expression stands for: itself, or what the callers of the function give for a parameter."""
    if isinstance(value, ast.Call):
        yield section, value
    name = dotted(value) or ""
    for caller in sections if name in parameters_of(section.body.node) else ():
        for call, _ in caller.calls():
            function, owner = function_called(caller, call)
            if getattr(function, "__name__", "") != section.body.name:
                continue
            given = passed(function, owner, call).get(name)
            path = dotted(given)
            made = values_of(caller.body, path, call.lineno) if path else [given]
            yield from ((caller, each) for each in made if isinstance(each, ast.Call))


def _under(model: object, key: object) -> Iterator[object]:
    """The modules whose results a model returns in a dict under a key."""
    while type(model) is torch.nn.parallel.DistributedDataParallel:
        model = follow(model, ["module"])
    function = function_of(model) if is_module(model) else None
    body = function_at(function.__code__) if function is not None else None
    for node in (node for each in statements(body) for node in expressions(each)):
        pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
        for named, part in pairs:
            owner, _, rest = ((dotted(part.func) if isinstance(part, ast.Call) else None) or "").partition(".")
            if isinstance(named, ast.Constant) and named.value == key and owner == "self" and rest:
                yield follow(model, rest.split("."))


def _returned(model: object, position: int, count: int) -> Iterator[object]:
    """The modules whose results a model returns at a position of its tuple."""
    function = function_of(model) if is_module(model) else None
    body = function_at(function.__code__) if function is not None else None
    for each in statements(body):
        elements = each.value.elts if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple) else []
        if len(elements) == count and isinstance(part := elements[position], ast.Call):
            owner, _, rest = (dotted(part.func) or "").partition(".")
            yield follow(model, rest.split(".")) if owner == "self" and rest else None
