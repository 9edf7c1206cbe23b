"""BS223: why an optimizer was given nothing."""

import pytest
from failures import explained

LIST, DICT = "Make it an nn.ModuleList: ", "Make it an nn.ModuleDict"


UNKNOWN = {
    "an empty list": "torch.optim.SGD([], lr=0.1)",
    "what a function returned": "def chosen():\n    return []\ntorch.optim.SGD(chosen(), lr=0.1)",
    "a class with parameters() of its own": (
        "class Picky(torch.nn.Module):\n    def parameters(self):\n        return iter(())\n"
        "model = Picky()\ntorch.optim.SGD(model.parameters(), lr=0.1)"
    ),
}


@pytest.mark.parametrize("source", UNKNOWN.values(), ids=UNKNOWN)
def test_where_the_reason_does_not_show_none_is_given(source):
    finding = explained(source)
    assert finding.code == "BS223"
    assert finding.title.endswith("is empty: there is nothing to optimize.")
    assert not finding.exact
