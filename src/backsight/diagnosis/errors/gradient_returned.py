"""BS213: a function has returned a gradient that is None; its tensors are gone, and its text tells of which it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, shown
from backsight.source import Place, assignments, backward_roots, only, parsed, statement_at
from backsight.source.body import dotted, expressions
from backsight.source.definitions import values_of
from backsight.story.behind import leads_to
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff, cuts, operands, why
from backsight.story.failure import Failure, Level
from backsight.story.sections import Section, called_by, section_of
from backsight.story.trained import trained


@dataclass(frozen=True, eq=False)
class Returned:
    """A variable that is None: the statement that gave it what a function returned, and of which tensor's gradient."""

    name: str
    assigned: Place
    section: Section
    tensor: str
    line: int

    @property
    def function(self) -> str:
        return self.section.body.name


def gradient_returned(failure: Failure) -> Returned | None:
    """Return the gradient that the failing statement reads and that a function of the program has returned."""
    level = failure.user
    return next(_returned(level), None) if level is not None else None


def _returned(level: Level) -> Iterator[Returned]:
    for name in _none_in(level):
        places = assignments(level.body, name, before=level.line)
        statement = statement_at(level.body, *places[-1].position) if places else None
        outer = section_of(level, ((name, level.line),))
        call = statement.value if isinstance(statement, ast.Assign) else None
        for inner in called_by(outer, call, ()) if outer is not None and isinstance(call, ast.Call) else ():
            for goal, line in inner.goals:
                tensor = _graded(inner, parsed(goal), line)
                if tensor:
                    yield Returned(name, places[-1], inner, tensor, line)


def _none_in(level: Level) -> list[str]:
    """The variables that the failing statement reads and that are None."""
    names = [node.id for node in expressions(level.statement) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(names) if name in level.variables and level.variables[name] is None]


def _graded(section: Section, value: ast.expr | None, line: int) -> str:
    """`x` of `x.grad`, and of a variable that is given it."""
    given = only(values_of(section.body, value.id, line)) if isinstance(value, ast.Name) else value
    return dotted(given.value) or "" if isinstance(given, ast.Attribute) and given.attr == "grad" else ""


def returned_none(failure: Failure, found: Returned) -> Finding:
    """Say what cuts the tensor off from what the function has run backward on, as far as the text shows it."""
    section, tensor = found.section, found.tensor
    roots = [(root, place.line) for root, place in backward_roots(section.body)]
    met = cuts(failure, trained(failure), starts=[replace(section, goals=tuple(roots))]) if roots else []
    returns = statement_at(section.body, found.line)
    own = {place.line for place in assignments(section.body, tensor)} | {found.line}  # what makes it, and what reads it
    met = [each for each in met if each.section.body.node is not section.body.node or each.cut.place.line not in own]
    way = [each for cut in met if (each := _on_the_way(failure, cut, section, tensor)) is not None]
    loss, cutting = roots[0][0] if roots else "the loss", {each.cut.place: why(each.cut) for each in way}
    reading = section.body.place(returns) if returns else None
    return explanation(
        f"{found.name} is None: {found.function}() returned {tensor}.grad, and no backward() had reached {tensor}."
        if way
        else f"{found.name} is None: {found.function}() returned {tensor}.grad, and backward() had left nothing there.",
        (
            *(shown(place, f"{does}.", "read") for place, does in [*cutting.items()][:3]),
            if_known(reading, f"returns {tensor}.grad, which was None."),
            *failing(failure, "expects a gradient."),
        ),
        f"{mended(*way).edit}."
        if way
        else f"{tensor} must be a leaf that requires grad, with {loss} computed from it without detach(), .data, "
        ".item(), torch.no_grad(), a rounding or a comparison on the way.",
        source=way[0].cut.place if way else reading or found.assigned,
        exact=False,
    )


def _on_the_way(failure: Failure, cut: CutOff, function: Section, tensor: str) -> CutOff | None:
    """A cut with the operand that leads to what a function calls by this name; None where nothing of it does."""
    if not leads_to(failure, cut.section, cut.read, function, tensor):
        return None
    read = ((name, cut.cut.place.line) for name in operands(cut.section, cut.cut))
    leading = (each for each in read if leads_to(failure, cut.section, [each], function, tensor))
    return replace(cut, operand=next((name for name, _ in leading), cut.operand))
