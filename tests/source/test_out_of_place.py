"""The same computation without changing anything in place, as it is proposed to the user."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backsight.source import Body
from backsight.source.out_of_place import out_of_place


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("x += 1", "x = x + 1"),
        ("self.total **= power", "self.total = self.total ** power"),
        ("x -= a + b", "x = x - (a + b)"),
        ("x *= a if training else b", "x = x * (a if training else b)"),
        ("x.exp_()", "x = x.exp()"),
        ("x.mul_(scale)", "x = x.mul(scale)"),
        ("x.exp_().mul_(scale)", "x = x.exp().mul(scale)"),
        ("torch.relu_(x)", "x = torch.relu(x)"),
        ("F.relu(x, inplace=True)", "x = F.relu(x)"),
        ("F.leaky_relu(x, negative_slope=0.2, inplace=True)", "x = F.leaky_relu(x, negative_slope=0.2)"),
        ("F.dropout(x, 0.5, inplace=True, **settings)", "x = F.dropout(x, 0.5, **settings)"),
    ],
)
def test_a_change_in_place_is_written_as_a_new_tensor(
    body_of: Callable[..., Body], statement: str, instead: str
) -> None:
    assert out_of_place(body_of(statement), 1) == instead


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("x = x.exp_()", "x = x.exp()"),
        ("y = x.exp_()", "y = x.exp()"),
        ("y = F.relu(x, inplace=True)", "y = F.relu(x)"),
        ("self.y = torch.relu_(x)", "self.y = torch.relu(x)"),
        ("y = [x.squeeze_(0) for x in xs]", "y = [x.squeeze(0) for x in xs]"),
        ("x = [x[i].relu_() for i in range(2)]", "x = [x[i].relu() for i in range(2)]"),
    ],
)
def test_a_result_that_had_a_name_keeps_it(body_of: Callable[..., Body], statement: str, instead: str) -> None:
    assert out_of_place(body_of(statement), 1) == instead


@pytest.mark.parametrize(
    "statement",
    [
        "x[0] += 1",  # a part has no name that could be given to a new tensor
        "x |= mask",
        "x.zero_()",
        "x.add_(y, alpha=2)",
        "x.__init__()",
        "f(x)",
        "nn.init.xavier_uniform_(x)",  # there is no nn.init.xavier_uniform, and nn.init is no tensor
        "x.requires_grad_()",  # which changes no values
        "torch.nn.utils.clip_grad_norm_(x, 1.0)",
        "total = total + f(x.add_(1))",  # what reads x later may count on it
        "[x.squeeze_(0) for x in xs]",  # whose results nothing takes
        "a, b = x.exp_(), y",
    ],
)
def test_what_has_no_such_form_is_left_alone(body_of: Callable[..., Body], statement: str) -> None:
    assert out_of_place(body_of(statement), 1) is None


def test_of_several_statements_on_a_line_it_is_the_one_at_a_column(body_of: Callable[..., Body]) -> None:
    body = body_of("y = x.exp(); y += 1")
    assert out_of_place(body, 1) is None
    assert out_of_place(body, 1, 13) == "y = y + 1"
