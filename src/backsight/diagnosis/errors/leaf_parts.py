"""Parameter groups for the parts of one leaf, each with settings of its own: each index creates a new tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.source import Place, backward_roots
from backsight.source.ancestry import ancestors
from backsight.source.body import calls_in, dotted, expressions, read_at, statements
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure
from backsight.story.handed import handed
from backsight.story.memory import base_of, is_tensor
from backsight.story.sections import Section, called_by, section_of


@dataclass(frozen=True, eq=False)
class Parts:
    """What the groups hold: the parts of a leaf, in their order."""

    leaf: torch.Tensor
    name: str
    assigned: Place | None
    parts: tuple[torch.Tensor, ...]

    @property
    def are_entries(self) -> bool:
        """Whether they are all that the leaf has, one after the other: `x[0]`, `x[1]`, ..."""
        leaf = self.leaf
        alike = all(each.shape == leaf.shape[1:] for each in self.parts)
        starts = [leaf.storage_offset() + k * leaf.stride(0) for k in range(len(leaf))] if leaf.dim() else []
        return alike and starts == [each.storage_offset() for each in self.parts]


def parts_in_groups(failure: Failure) -> Finding | None:
    """Several groups were given, and all that they hold is cut out of one leaf."""
    found = _parts(failure)
    if found is None:
        return None
    name, made = found.name, found.assigned
    at = next(_indexed(failure, found), None)
    place, own = at or made, failure.user.place if failure.user else None
    what = "element" if found.are_entries else "part"
    return explanation(
        f"The parameter groups hold {what}s of {name}: non-leaf tensors, and an optimizer can only train leaves.",
        (
            *([shown(made, f"creates the leaf, {name}.")] if made else []),
            *([shown(at, f"takes {what}s of it: each index creates a new tensor.")] if at and at != own else []),
            *failing(failure, "accepts only leaves: tensors that are not computed from others."),
        ),
        _fix(failure, found),
        source=str(place) if place else failure.source,
    )


def _parts(failure: Failure) -> Parts | None:
    given = (each.variables.get("param_groups") for each in reversed(failure.levels))
    groups = next((each for each in given if type(each) is list and all(type(group) is dict for group in each)), [])
    held = [each for group in groups for each in _tensors(group.get("params"))]
    bases = [base_of(each) for each in held]
    leaf = bases[0] if bases else None
    if leaf is None or len(groups) < 2 or not leaf.is_leaf or any(each is not leaf for each in bases):
        return None
    known = handed(failure, leaf)
    name = known.name if known is not None else names_of(failure, [leaf])[0]
    return Parts(leaf, name, known.assigned if known is not None else None, tuple(held)) if name else None


def _tensors(given: object) -> list[torch.Tensor]:
    every = given if isinstance(given, list | tuple) else [given]
    return [each for each in every if is_tensor(each)]


def _indexed(failure: Failure, found: Parts) -> Iterator[Place]:
    """The statements that take the parts: in the functions that run, and in those that these call with the leaf."""
    for level in failure.users:
        here = section_of(level)
        if here is None:
            continue
        yield from _subscripts(here, found.leaf)
        for statement in statements(here.body.node):
            for call in calls_in(statement):
                for inner in called_by(here, call, ()):
                    given = {name: here.value(dotted(value) or "") for name, value in inner.given.items()}
                    yield from _subscripts(replace(inner, variables={**inner.variables, **given}), found.leaf)


def _subscripts(section: Section, leaf: torch.Tensor) -> Iterator[Place]:
    for statement in statements(section.body.node):
        indexed = (each.value for each in expressions(statement) if isinstance(each, ast.Subscript))
        if any(section.value(dotted(each) or "") is leaf for each in indexed):
            yield section.body.place(statement)


def _fix(failure: Failure, found: Parts) -> str:
    name, assigned = found.name, found.assigned
    if not found.are_entries or not name.isidentifier() or assigned is None:
        join = "torch.stack" if found.are_entries else "torch.cat"
        return (
            "The settings of a group apply to whole leaves: make each part a leaf of its own, `part = "
            f"{name}[...].detach().clone().requires_grad_()`, put these into the groups, and compute with {join}() of "
            f"them in every step, in place of {name}."
        )
    used = [f"on line {line}, write `{text}`" for line, text in _computing(failure, found.leaf) if text]
    return (
        f"The settings of a group apply to whole leaves, so make each element one: below line {assigned.line}, put "
        f"`{name} = [each.detach().requires_grad_() for each in {name}]`, and "
        f"{', '.join(used) if used else f'compute with torch.stack({name}) in every step'}."
    )


def _computing(failure: Failure, leaf: torch.Tensor) -> Iterator[tuple[int, str]]:
    """The statements that compute the loss from the leaf as a whole, with its elements joined."""
    for level in failure.users:
        for root, place in backward_roots(level.body) if level.body else ():
            every = [at for each in ancestors(level.body, root, place.line).values() for at in each.bound]
            for at in dict.fromkeys([*every, place]):
                body, statement = read_at(at)
                nodes = [
                    each
                    for each in expressions(statement)
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and level.value(each.id) is leaf
                ]
                changes: dict[ast.expr, str] = {each: f"torch.stack({each.id})" for each in nodes}
                if body is not None and statement is not None and changes:
                    yield statement.lineno, rewritten(body, statement, changes)
