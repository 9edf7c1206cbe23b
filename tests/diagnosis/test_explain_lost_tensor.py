"""BS222: what made a number, None or a tuple of the loss, and what backward belongs to."""

import pytest
from failures import failing

import backsight as bs

OTHERS = {
    "a class of the user's with a backward of its own, that lacks it": (
        "class Layer:\n    pass\nlayer = Layer()\nlayer.backward()"
    ),
    "a layer that is missing and is handed a gradient": (
        "class Net:\n    def __init__(self):\n        self.layer = None\nnet = Net()\nnet.layer.backward(torch.ones(3))"
    ),
    "an error of another kind with such a text": "raise KeyError(\"'float' object has no attribute 'backward'\")",
    "an error of the user's with the scaler's text": (
        "raise RuntimeError('outputs must be a Tensor or an iterable of Tensors')"
    ),
}


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_nothing_is_said_of_another_backward(source):
    assert bs.explain(failing(source)).code == "BS200"


def test_nothing_is_said_where_pytorch_is_not_in_sight():
    source = "class Loss:\n    def __call__(self):\n        return 0.5\nloss = Loss()()\nloss.backward()"
    assert bs.explain(failing("del torch\n" + source)).code == "BS200"
    assert bs.explain(failing(source)).code == "BS222"
