"""Statements rewritten so that the gradient is asked for last, checked against what PyTorch makes of them."""

import pytest
import torch
from torch import nn

from backsight.source import statement_at
from backsight.source.leaf_last import asks_for_gradient, element_last, leaf_last

REWRITTEN = [
    "w = torch.randn(3, requires_grad=True) * 0.1",
    "w = 0.1 * torch.randn(3, requires_grad=True, dtype=torch.float64)",
    "w = torch.randn(3, requires_grad=True).double()",
    "w = torch.randn(3, 4, requires_grad=True)[0]",
    "w = torch.stack([torch.zeros(3, requires_grad=True), torch.ones(3)])",
    "w = torch.zeros(3).requires_grad_().double()",
    "w = nn.Parameter(torch.zeros(3)).double()",
    "w = torch.nn.Parameter(torch.zeros(3)) / 2",
    "w: torch.Tensor = -torch.rand(3, requires_grad=True)",
]


@pytest.mark.parametrize("statement", REWRITTEN)
def test_makes_a_leaf_with_the_same_values(body_of, statement):
    text = leaf_last(body_of(f"{statement}\n"), "w", 1)
    before, after = ({"torch": torch, "nn": nn} for _ in range(2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exec(statement, before)
        torch.manual_seed(0)
        exec(text, after)
    assert not before["w"].is_leaf
    assert after["w"].is_leaf and after["w"].requires_grad
    assert torch.equal(before["w"], after["w"])
    assert before["w"].dtype == after["w"].dtype


@pytest.mark.parametrize(
    "statement",
    [
        "w = w * 2",
        "w = v = torch.ones(3, requires_grad=True) * 2",
        "w += 1",
        "v = torch.ones(3, requires_grad=True) * 2",
    ],
)
def test_what_is_not_plain_is_left(body_of, statement):
    assert leaf_last(body_of(f"{statement}\n"), "w", 1) is None


def test_hundreds_of_operands_do_no_harm(body_of):
    text = "w = torch.ones(3, requires_grad=True)" + " + 1" * 400 + "\n"
    rewritten = leaf_last(body_of(text), "w", 1)  # None where Python's limit of recursion is the usual one
    assert rewritten is None or rewritten == f"w = (torch.ones(3){' + 1' * 400}).requires_grad_()"


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("w = torch.ones(3, requires_grad=True)", True),
        ("w = torch.ones(3).requires_grad_()", True),
        ("w = nn.Parameter(torch.ones(3))", True),
        ("w = torch.ones(3, requires_grad=False)", False),
        ("w = w - w.grad", False),
    ],
)
def test_what_asks_for_a_gradient(body_of, text, asks):
    assert asks_for_gradient(statement_at(body_of(text), 1)) is asks


ELEMENTS = [
    (
        "ws = [torch.randn(n, requires_grad=True) / n for n in (2, 3)]",
        "ws = [(torch.randn(n) / n).requires_grad_() for n in (2, 3)]",
    ),
    (
        'config = {"ws": [2 * torch.ones(n, requires_grad=True) for n in (2, 3)]}',
        "config = {'ws': [(2 * torch.ones(n)).requires_grad_() for n in (2, 3)]}",
    ),
    (
        "ws = tuple([nn.Parameter(torch.zeros(n)).double() for n in (2, 3)])",
        "ws = tuple([nn.Parameter(torch.zeros(n).double()) for n in (2, 3)])",
    ),
]


@pytest.mark.parametrize(("statement", "rewritten"), ELEMENTS)
def test_of_a_comprehension_it_is_the_element_that_is_rewritten(body_of, statement, rewritten):
    body = body_of(f"{statement}\n")
    assert element_last(statement_at(body, 1)) == rewritten
    names = {"torch": torch, "nn": nn}
    exec(rewritten, names)
    made = names["config"]["ws"] if "config" in names else names["ws"]
    assert all(each.is_leaf and each.requires_grad for each in made)


@pytest.mark.parametrize(
    "statement", ["ws = [torch.randn(n) for n in (2, 3)]", "w = torch.ones(3, requires_grad=True) * 2"]
)
def test_where_no_element_asks_for_a_gradient_there_is_none(body_of, statement):
    assert element_last(statement_at(body_of(f"{statement}\n"), 1)) is None


def test_a_list_is_not_asked_for_a_gradient(body_of):
    assert leaf_last(body_of("ws = [torch.randn(n, requires_grad=True) / n for n in (2, 3)]\n"), "ws", 1) is None
