"""BS206: which tensor an optimizer refused, what computed it, and how to make it a leaf."""

import pytest
from failures import at, evidence, explained

# The statement that makes `w`, and the same with the gradient asked for last.
REWRITTEN = {
    "w = torch.randn(3, requires_grad=True) * 0.1": "w = (torch.randn(3) * 0.1).requires_grad_()",
    "w = torch.zeros(3, requires_grad=True).double()": "w = torch.zeros(3).double().requires_grad_()",
    "w = torch.zeros(3).requires_grad_().double()": "w = torch.zeros(3).double().requires_grad_()",
    "w = torch.nn.Parameter(torch.zeros(3)).double()": "w = torch.nn.Parameter(torch.zeros(3).double())",
    "w = -torch.rand(3, requires_grad=True)": "w = (-torch.rand(3)).requires_grad_()",
}


@pytest.mark.parametrize("statement", REWRITTEN)
def test_the_fix_is_the_same_statement_with_the_gradient_asked_for_last(statement):
    source = f"{statement}  # here\noptimizer = torch.optim.SGD([w], lr=0.1)\n"
    finding = explained(source)
    assert finding.code == "BS206"
    assert finding.title == "w is a non-leaf tensor, and an optimizer can only train leaves."
    assert finding.source == at(source)
    assert finding.fix == f"Compute first and set requires_grad last: on line 1, write `{REWRITTEN[statement]}`."
    assert finding.exact


@pytest.mark.parametrize("statement", REWRITTEN)
def test_the_fix_fixes(statement):
    import torch

    names = {"torch": torch}
    exec(REWRITTEN[statement], names)
    assert names["w"].is_leaf and names["w"].requires_grad
    torch.optim.SGD([names["w"]], lr=0.1)


def test_every_refused_tensor_is_named_not_only_the_first():
    finding = explained(
        """
        a = torch.ones(3, requires_grad=True) * 2
        b = torch.ones(3, requires_grad=True)
        c = torch.ones(3, requires_grad=True) / 2
        torch.optim.Adam([a, b, c])
        """
    )
    assert finding.title.startswith("a and c are non-leaf tensors")
    assert finding.fix.endswith(
        "on line 1, write `a = (torch.ones(3) * 2).requires_grad_()` and on line 3, write "
        "`c = (torch.ones(3) / 2).requires_grad_()`."
    )


def test_a_name_given_to_what_was_computed_from_it():
    source = """
w = torch.zeros(3, requires_grad=True)
w = w - w.mean()  # here
torch.optim.SGD([w], lr=0.1)
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert "from an unnamed leaf that requires grad" in evidence(finding)
    assert "w = w.detach().requires_grad_()" in finding.fix


def test_a_result_whose_leaf_still_has_a_name():
    finding = explained(
        """
        w = torch.ones(3, requires_grad=True)
        unit = w / w.norm()
        torch.optim.SGD([unit], lr=0.1)
        """
    )
    assert finding.fix == "Pass the leaf itself, w, to the optimizer, and compute unit from it in every step."


def test_an_expression_without_a_name():
    finding = explained(
        "w = torch.ones(3, requires_grad=True)\ntorch.optim.SGD([{'params': [w / w.norm()]}], lr=0.1)\n"
    )
    assert finding.title.startswith("A float32 tensor of shape 3 passed to the optimizer")
    assert "Pass the leaf itself, w" in finding.fix


def test_an_attribute_made_in_the_constructor():
    source = """
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(3)).double()  # here

    def optimizer(self):
        return torch.optim.SGD([self.scale], lr=0.1)

Model().optimizer()
"""
    finding = explained(source)
    assert finding.title.startswith("self.scale is a non-leaf tensor")
    assert finding.source == at(source)
    assert "self.scale = nn.Parameter(torch.zeros(3).double())`." in finding.fix


def test_code_without_source_still_names_the_tensor():
    finding = explained("w = torch.ones(3, requires_grad=True) * 2\ntorch.optim.SGD([w], lr=0.1)\n", readable=False)
    assert finding.title.startswith("w is a non-leaf tensor")
    assert finding.exact
