"""A statement with parts of it replaced."""

from __future__ import annotations

import ast

import pytest

from backsight.source import Body, statement_at
from backsight.source.body import expressions
from backsight.source.rewriting import rewritten


def rewrite(text: str, old: str, new: str) -> str:
    body = Body("given.py", ast.parse(text), tuple(text.splitlines(keepends=True)))
    statement = statement_at(body, 1)
    assert statement is not None
    found = [each for each in expressions(statement) if body.text(each) == old]
    return rewritten(body, statement, dict.fromkeys(found, new))


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("error = output.detach() - target", "output.detach()", "output", "error = output - target"),
        ("y = f('ä', x.item())", "x.item()", "x", "y = f('ä', x)"),  # columns count bytes
        ("a = x + x", "x", "x.clone()", "a = x.clone() + x.clone()"),
        ("run(lambda t: t.mul_(2), t)", "t.mul_(2)", "t.mul(2)", "run(lambda t: t.mul(2), t)"),
        ("for h in hidden.data:  # of all\n    use(h)", "hidden.data", "hidden", "for h in hidden:"),
    ],
)
def test_what_is_replaced_leaves_the_rest_as_it_is_written(text: str, old: str, new: str, expected: str) -> None:
    assert rewrite(text, old, new) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if late: h = h.data  # of all\n", "if late: h = h"),
        ("k += 1; h = h.data; use(h)\n", "k += 1; h = h; use(h)"),
        ("    h = h.data  # alone\n", "h = h"),
    ],
)
def test_a_statement_that_shares_its_line_is_written_with_all_of_it(text: str, expected: str) -> None:
    body = Body("given.py", ast.parse(text.strip()), tuple(text.splitlines(keepends=True)))
    margin = len(text) - len(text.lstrip())
    statement = next(each for each in ast.walk(body.node) if isinstance(each, ast.Assign))
    assert isinstance(statement.value, ast.Attribute)
    for node in (each for each in ast.walk(statement) if isinstance(each, ast.stmt | ast.expr)):
        node.col_offset += margin
        node.end_col_offset = (node.end_col_offset or 0) + margin
    assert rewritten(body, statement, {statement.value: "h"}) == expected


def test_a_statement_over_several_lines_is_written_in_one() -> None:
    assert rewrite("loss = criterion(\n    h.detach(), y\n)", "h.detach()", "h") == "loss = criterion(h, y)"


def test_a_statement_that_is_too_long_to_read_is_not_written() -> None:
    assert rewrite(f"y = [{'1, ' * 80}x.item()]", "x.item()", "x") == ""
