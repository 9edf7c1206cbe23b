"""Edits of fixes that name an expression: what they make of the statement around it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from backsight.diagnosis.amending import (
    above_loops,
    added,
    created_below,
    given_anew,
    given_too,
    gone,
    instead,
    is_known,
    place_on,
    renewed,
    swapped,
    with_keyword,
    without_keyword,
    written,
)
from backsight.source import Place, read_at
from backsight.source.body import calls_in
from backsight.source.edits import alternatives, edited
from backsight.tracing import Line

PROGRAM = """\
import torch
from torch import nn

def train(model, x, y):
    loss = ((model(x) - y) ** 2).mean()
    for step in range(3):
        loss.backward(); y = x - x
    return loss, nn.Linear(3, bias=True, out_features=4)

def step(x):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    opt.step()

net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
late = nn.Linear(4, 4)
if net:
    late.zero_grad()
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return str(path)


def line(file: str, number: int, segment: str) -> Line:
    """An expression as a watch has seen it."""
    text = PROGRAM.splitlines()[number - 1]
    at = text.index(segment)
    return Line(file, number, number, "train", segment, text.strip(), at, at + len(segment))


def place(file: str, number: int) -> Place:
    found = place_on(file, number)
    assert found is not None
    return found


def call(file: str, number: int, name: str) -> tuple:
    body, statement = read_at(place(file, number))
    return body, statement, next(each for each in calls_in(statement) if ast.unparse(each.func).endswith(name))


def changed(file: str, mark: str) -> list[str]:
    """The lines that a program has with the edits in a text, and did not have without them."""
    (edits,) = alternatives(mark)
    return [each for each in edited(edits, {file: PROGRAM})[file].splitlines() if each not in PROGRAM.splitlines()]


def test_an_operand_is_written_anew_in_brackets_where_it_needs_them(file: str) -> None:
    assert changed(file, swapped(line(file, 5, "model(x) - y"), {"y": "y.view(-1, 1) + 1"})) == [
        "    loss = ((model(x) - (y.view(-1, 1) + 1)) ** 2).mean()"
    ]
    assert changed(file, renewed(line(file, 5, "model(x)"), "model(x).squeeze(1)")) == [
        "    loss = ((model(x).squeeze(1) - y) ** 2).mean()"
    ]


def test_what_stands_there_twice_or_not_at_all_is_not_swapped(file: str) -> None:
    assert swapped(line(file, 7, "x - x"), {"x": "z"}) == ""
    assert swapped(place(file, 5), {"nothing": "z"}) == ""
    assert swapped(None, {"x": "z"}) == ""


def test_a_keyword_is_given_changed_or_taken_away(file: str) -> None:
    body, statement, linear = call(file, 8, "Linear")
    given = changed(file, instead(body, statement, with_keyword(body, linear, "device", "'cpu'")))
    assert given == ["    return loss, nn.Linear(3, bias=True, out_features=4, device='cpu')"]
    other = changed(file, instead(body, statement, with_keyword(body, linear, "bias", "False")))
    assert other == ["    return loss, nn.Linear(3, bias=False, out_features=4)"]
    taken = changed(file, instead(body, statement, without_keyword(body, linear, "bias")))
    assert taken == ["    return loss, nn.Linear(3, out_features=4)"]


def test_a_statement_beside_others_on_its_line_leaves_them_there(file: str) -> None:
    assert changed(file, written(place(file, 7), "loss.sum().backward()")) == [
        "        loss.sum().backward(); y = x - x"
    ]
    assert gone(place(file, 7)) == ""


def test_what_is_all_of_a_block_becomes_pass(file: str) -> None:
    assert changed(file, gone(place(file, 18))) == ["    pass"]


def test_nothing_is_added_where_a_variable_is_not_known(file: str) -> None:
    assert is_known("model(x)[0]", place(file, 5)) and not is_known("late(z)", place(file, 5))
    assert added("opt.zero_grad()", "above", place(file, 5)) != ""  # of the module
    assert added("loss.detach()", "below", place(file, 15)) == ""
    assert added("model.train()", "end", Place(file, 4, "def train(model, x, y):")) != ""


def test_an_optimizer_is_created_elsewhere_or_of_other_parameters(file: str) -> None:
    built = place(file, 15)
    assert given_anew(built, "late.parameters()") == "opt = torch.optim.SGD(late.parameters(), lr=0.1)"
    too = given_too(built.text, "*late.parameters()")
    assert too == "opt = torch.optim.SGD([*net.parameters(), *late.parameters()], lr=0.1)"
    (edits,) = alternatives(created_below(built, place(file, 16), too))
    assert edited(edits, {file: PROGRAM})[file].splitlines()[13:16] == [
        "net = nn.Linear(3, 4)",
        "late = nn.Linear(4, 4)",
        too,
    ]
    (edits,) = alternatives(above_loops(place(file, 11)))
    assert edited(edits, {file: PROGRAM})[file].splitlines()[8:12] == [
        "",
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)",
        "def step(x):",
        "    opt.step()",
    ]
