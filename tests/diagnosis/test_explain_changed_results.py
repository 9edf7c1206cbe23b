"""BS202: the result of an operation was modified in place, by a statement of the same function."""

from __future__ import annotations

import pytest
from failures import at, evidence, explained

SIGMOID = """
from torch import nn
import torch.nn.functional as F
def train(act=nn.ReLU(inplace=True)):
    x = torch.randn(3, requires_grad=True)
    y = torch.sigmoid(x)
    {change}
    y.sum().backward()
train()
"""

NEW = "that creates a new tensor and leaves the saved one unchanged."

# What changes y after sigmoid has saved it, and what to write instead.
CHANGES = {
    "y += 1": f"Write y = y + 1: {NEW}",
    "y *= x.detach()": f"Write y = y * x.detach(): {NEW}",
    "y.neg_()": f"Write y = y.neg(): {NEW}",
    "y.add_(1)": f"Write y = y.add(1): {NEW}",
    "torch.relu_(y)": f"Write y = torch.relu(y): {NEW}",
    "y[0] = 1": "Modify a copy: put y = y.clone() before line 6.",
    "y[0] += 1": "Modify a copy: put y = y.clone() before line 6.",
    "y.view(-1).zero_()": "Modify a copy: put y = y.clone() before line 6.",
    "F.relu(y, inplace=True)": "Remove inplace=True: F.relu(y)",
    "z = F.relu(y, inplace=True)": "Remove inplace=True: z = F.relu(y)",
    "nn.ReLU(inplace=True)(y)": "Remove inplace=True: nn.ReLU()(y)",
    "act(y)": "Create that ReLU without inplace=True: train.py:3, nn.ReLU(inplace=True).",
}


class TestAChangedResult:
    @pytest.mark.parametrize("change", CHANGES)
    def test_the_statement_that_changed_it_is_named_with_its_fix(self, change):
        finding = explained(SIGMOID.format(change=change))
        assert finding.title == "y was modified in place after sigmoid had saved it for backward."
        assert finding.source == "train.py:6"
        assert finding.fix == CHANGES[change]
        assert finding.exact

    def test_the_saving_statement_comes_first_and_the_backward_last(self):
        finding = explained(
            """
            x = torch.randn(3, requires_grad=True)
            y = torch.exp(x)
            y += 1
            y.sum().backward()
            """
        )
        assert tuple(map(str, finding.evidence)) == (
            "train.py:2  y = torch.exp(x)\n    saves y: the gradient of exp is computed from its result.",
            "train.py:3  y += 1\n    modifies y in place.",
            "train.py:4  y.sum().backward()\n    needs the original value; it was modified once since (version 0 → 1).",
        )

    def test_all_statements_are_named_when_there_were_as_many_changes(self):
        finding = explained(
            """
            y = torch.randn(3, requires_grad=True).sigmoid()
            y.mul_(2)
            y += 1
            y[0] = 3
            y.sum().backward()
            """
        )
        assert [text in evidence(finding) for text in ("y.mul_(2)", "y += 1", "y[0] = 3", "3 times")] == [True] * 4
        assert finding.fix == "Modify a copy: put y = y.clone() before line 2."
        assert finding.exact

    def test_a_change_through_data_is_not_blamed_for_it_counts_no_version(self):
        source = """
            y = torch.randn(3, requires_grad=True).sigmoid()
            y.data.mul_(2)
            y += 1
            y.sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "y += 1")
        assert "y.data.mul_" not in evidence(finding)

    def test_a_change_of_a_view_names_the_whole(self):
        source = """
            y = torch.randn(3, 3, requires_grad=True).sigmoid()
            first = y[0]
            first.zero_()
            y.sum().backward()
            """
        finding = explained(source)
        assert finding.title == (
            "y was modified in place through first, a view of it, after sigmoid had saved it for backward."
        )
        assert finding.source == at(source, "first.zero_()")
        assert finding.fix == "Modify a copy: put y = y.clone() before first is taken from it."

    def test_a_statement_that_ran_before_the_saving_is_not_blamed(self):
        finding = explained(
            """
            x = torch.zeros(3)
            x[0] = 1
            loss = (torch.ones(3, requires_grad=True) * x).sum()
            (lambda t: t.add_(1))(x)
            loss.backward()
            """
        )
        assert finding.title == "x was modified in place after a product had saved it for backward."
        assert "x[0] = 1" not in evidence(finding)
        assert not finding.exact

    def test_a_variable_that_is_still_what_it_was_is_not_blamed_for_want_of_another(self):
        finding = explained(
            """
            def compute(change):
                held = [torch.randn(3, requires_grad=True).sigmoid()]
                change(held[0])
                return held[0].sum()
            other = torch.ones(3).sigmoid()
            loss = compute(lambda t: t.zero_()) + other.sum()
            other += 1
            loss.backward()
            """
        )
        assert "other" not in finding.title
        assert not finding.exact

    def test_an_element_of_a_list_is_called_so(self):
        finding = explained(
            """
            x = torch.randn(3, requires_grad=True)
            outs = [x.sigmoid(), x.tanh()]
            outs[0] += 1
            (outs[0] * outs[1]).sum().backward()
            """
        )
        assert finding.title.startswith("outs[0] was modified in place")
        assert finding.fix == "Assign a new tensor: outs[0] = outs[0] + 1."

    def test_a_change_after_the_name_went_to_a_new_tensor_is_not_listed(self):
        source = gated("h = h + x")
        finding = explained(source)
        assert finding.source == at(source, "h *= g")
        assert "h[:, 0] = 0" not in evidence(finding)
        assert finding.fix.startswith("Write h = h * g:")

    @pytest.mark.parametrize("between", ["if x.dim() > 2: h = h + x", "h = h.view(2, 3)", "h = self.act(h)"])
    def test_a_change_after_the_name_may_have_gone_to_a_new_tensor_is_listed(self, between):
        assert "h[:, 0] = 0" in evidence(explained(gated(between)))

    def test_a_variable_that_holds_another_tensor_is_not_blamed(self):
        source = """
            x = torch.randn(3, requires_grad=True)
            other = torch.ones(3)
            y = x.sigmoid() * other.sum()
            other += 1
            z = (x * 2).tanh()
            z.mul_(2)
            (y.sum() + z.sum()).backward()
            """
        assert explained(source).source == at(source, "z.mul_(2)")


def gated(between):
    """A module that changes the result of its tanh, and then, after a statement, what the variable holds then."""
    return f"""
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.gate, self.act = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Identity()
    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        h = torch.tanh(self.fc(x))
        h *= g
        {between}
        h[:, 0] = 0
        return self.fc(h)
block = Block()
block(torch.randn(2, 3)).sum().backward()
"""
