"""BS206: which tensor an optimizer refused, what computed it, and how to make it a leaf."""

from failures import explained


def test_code_without_source_still_names_the_tensor():
    finding = explained("w = torch.ones(3, requires_grad=True) * 2\ntorch.optim.SGD([w], lr=0.1)\n", readable=False)
    assert finding.title.startswith("w is a non-leaf tensor")
    assert finding.exact
