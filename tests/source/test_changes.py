"""Which statements change a tensor in place, checked against what PyTorch does."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from backsight.source import statement_at
from backsight.source.changes import inplace_changes, makes_new

CHANGES = [
    "x += 1",
    "x *= y",
    "x[0] = 1",
    "x[0][1] = 1",
    "x[:, 0] += 1",
    "x[0], z = 1, 2",
    "x.add_(1)",
    "x.mul_(2).add_(1)",
    "x[0].zero_()",
    "x.view(-1)[0] = 1",
    "x.t().mul_(2)",
    "x.T.mul_(2)",
    "x.data.mul_(2)",
    "x.data[0] = 1",
    "x.data += 1",
    "x.detach().add_(1)",
    "torch.relu_(x)",
    "F.relu(x, inplace=True)",
    "F.relu(input=x, inplace=True)",
    "nn.ReLU(inplace=True)(x)",
    "torch.add(y, 1, out=x)",
    "nn.init.xavier_uniform_(x)",
    "nn.init.zeros_(tensor=x)",
    "z = x.exp_() * 2",
]

KEEPS = [
    "x",
    "z = x + 1",
    "y += x",
    "y.add_(x)",
    "y[0] = x[0]",
    "z = F.relu(x, inplace=False)",
    "torch.add(x, 1, out=y)",
    "x.requires_grad_()",
    "z = x.__len__()",
    "x.clone().mul_(2)",
    "nn.utils.clip_grad_norm_(x, 1.0)",
]


def run(statement):
    """Runs the statement on a tensor `x`: whether its values changed."""
    x = torch.linspace(-1, 1, 4).reshape(2, 2)
    before = x.clone()
    exec(statement, {"torch": torch, "F": F, "nn": nn, "x": x, "y": torch.full((2, 2), 3.0)})
    return not torch.equal(x, before)


class TestInplaceChanges:
    @pytest.mark.parametrize("statement", CHANGES)
    def test_finds_what_changes_the_tensor(self, body_of, statement):
        assert run(statement)
        assert [place.text for place in inplace_changes(body_of(statement), "x")] == [statement]

    @pytest.mark.parametrize("statement", KEEPS)
    def test_passes_by_what_leaves_it_alone(self, body_of, statement):
        assert not run(statement)
        assert inplace_changes(body_of(statement), "x") == ()

    def test_new_values_for_data_count(self, body_of):
        assert [place.line for place in inplace_changes(body_of("x.data = y\nx = y\n"), "x")] == [1]

    def test_every_tensor_of_out_is_changed(self, body_of):
        body = body_of("torch.max(a, 0, out=(values, indices))\n")
        assert inplace_changes(body, "values") == inplace_changes(body, "indices") != ()

    def test_attributes_of_self(self, body_of):
        body = body_of(
            """
            class Trainer:
                def fit(self):
                    self.hidden[0] = 0
                    self.data += 1
                    self.hidden = f(self.hidden)
                    if self.hidden.sum() > 0:
                        self.hidden.mul_(2)
            """,
            "fit",
        )
        assert [place.line for place in inplace_changes(body, "self.hidden")] == [3, 7]
        assert [place.line for place in inplace_changes(body, "self.data")] == [4]
        assert inplace_changes(body, "self") == ()


MAKES_NEW = [
    "x = x + 1",
    "x = -x",
    "x = x.clone()",
    "x = torch.relu(x)",
    "x = F.softmax(x, 0)",
    "x = x.clamp(min=0.1)",
    "x = torch.where(x > 0, x, y)",
]

MAY_NOT_MAKE_NEW = [
    "x = x.view(-1)",
    "x = x.float()",
    "x = x.contiguous()",
    "x = x.relu_()",
    "x = F.relu(x, inplace=True)",
    "x = self.relu(x)",
    "x = +x",
    "x += 1",
    "z = x + 1",
]


@pytest.mark.parametrize("statement", MAKES_NEW)
def test_a_statement_that_makes_new_memory(body_of, statement):
    x = torch.linspace(-1.0, 1.0, 4)
    scope = {"x": x, "y": torch.ones(4), "torch": torch, "F": F}
    exec(statement, scope)
    assert scope["x"].data_ptr() != x.data_ptr()
    assert makes_new(statement_at(body_of(f"{statement}\n"), 1), "x")


@pytest.mark.parametrize("statement", MAY_NOT_MAKE_NEW)
def test_a_statement_that_may_leave_the_memory_as_it_is(body_of, statement):
    assert not makes_new(statement_at(body_of(f"{statement}\n"), 1), "x")
