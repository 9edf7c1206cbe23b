"""BS213: a gradient that is None where it is used, and the errors about None that are none of our business."""

import pytest
from failures import failing

import backsight as bs


@pytest.mark.parametrize(
    "source",
    [
        "name = None\nname.upper()",
        "w = torch.ones(3, requires_grad=True)\ng = w.grad\nname = None\nname.upper()",
        "w = torch.ones(3, requires_grad=True)\n{}.get('a').mul(w.grad)",
        "w = torch.ones(3, requires_grad=True)\n(w * 2).sum().backward()\nother = None\nw.grad.add_(other)",
        "class Config:\n    grad = None\nConfig().grad.norm()",
        "from torch import nn\nnn.Linear(2, 2, bias=False).bias.grad",
        "raise TypeError('NoneType')",
    ],
)
def test_other_errors_about_none_are_left_alone(source):
    error = failing(source)
    assert bs.explain(error).code == "BS200"
    with pytest.raises(type(error)), bs.explaining() as explaining:
        raise error
    assert all(each.code == "BS200" for each in explaining.findings)


def test_nothing_of_the_users_is_evaluated():
    source = """
class Model:
    @property
    def weight(self):
        raise AssertionError("a property was evaluated")

    def __getattr__(self, name):
        raise AssertionError("an attribute was looked up")

def read(model):
    None.grad.norm(model.weight.grad)
read(Model())
"""
    assert bs.explain(failing(source)).code == "BS200"
