"""Where a history was lost inside of a call: what goes in has one, what comes out has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.errors.no_grad.trained import Trained
from backsight.source import statement_at
from backsight.source.bindings import bound
from backsight.source.body import dotted
from backsight.source.cut_rules import reads_form, rule_of
from backsight.story.failure import Failure
from backsight.story.sections import Section, sections


def lost_in_call(failure: Failure, trained: Trained) -> bool:
    """Whether a statement whose own text cuts nothing off has lost a history: then a function that it calls did.

    A `.detach()` elsewhere, on the target of the loss perhaps, is then not to blame.
    """
    here = next((section for section in sections(failure) if section.level is failure.user), None)
    return here is not None and any(_loses(here, line, trained) for line in here.lines())


def _loses(section: Section, line: int, trained: Trained) -> bool:
    statement = statement_at(section.body, line)
    if statement is None or any(trained.carries(section.value(name)) for name in bound(statement)):
        return False
    known = [name for name in bound(statement) if trained.carries(section.value(name)) is False]
    is_goal = any(line == goal_line for _, goal_line in section.goals)
    if not known and not is_goal:
        return False
    return any(trained.carries(section.value(name)) for name in _entering(statement))


def _entering(statement: ast.stmt) -> Iterator[str]:
    """The names in the arguments of calls that the statement reads in full, those apart that it cuts off itself."""
    stack: list[tuple[ast.AST, bool]] = [(statement, False)]
    while stack:
        node, in_call = stack.pop()
        rule = rule_of(node) if isinstance(node, ast.expr) else None
        if (rule and rule.always) or (isinstance(node, ast.expr) and reads_form(node)):
            continue
        name = dotted(node)
        if name is not None:
            if in_call:
                yield name
        elif isinstance(node, ast.Call):
            stack += [(each, True) for each in (*node.args, *(given.value for given in node.keywords))]
            stack.append((node.func, in_call))
        else:
            stack += [(each, in_call) for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]
