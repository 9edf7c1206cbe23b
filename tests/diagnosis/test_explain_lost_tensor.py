"""BS222: what made a number, None or a tuple of the loss, and what backward belongs to."""

import pytest
from failures import at, evidence, explained, failing

import backsight as bs

LOSS = """
import numpy as np
from torch import nn
model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
"""

CONVERTED = {  # the program, and the beginning of the fix
    "loss = (model(x) - y).pow(2).mean().item()  # here\nloss.backward()": (
        "Keep the tensor: loss = (model(x) - y).pow(2).mean()."
    ),
    "mse = (model(x) - y).pow(2).mean()\nloss = float(mse)  # here\nloss.backward()": (
        "Call backward() on the tensor: on line 7, write `mse.backward()`."
    ),
    "loss = sum([(model(a) - b).pow(2).item() for a, b in zip(x, y)]) / 8  # here\nloss.backward()": (
        "Keep the tensor: loss = sum([(model(a) - b).pow(2) for a, b in zip(x, y)]) / 8."
    ),
    "parts = []\nfor a, b in zip(x, y):\n    part = (model(a) - b).pow(2)\n    parts.append(part.item())  # here\n"
    "loss = np.mean(parts)\nloss.backward()": "Keep the tensor: parts.append(part).",
    "total = 0\nfor a, b in zip(x, y):\n    error = (model(a) - b).pow(2)\n    total = total + error.item()  # here\n"
    "total.backward()": "Keep the tensor: total = total + error.",
    "loss = (model(x) - y).pow(2).mean().detach().cpu().numpy()  # here\nloss.backward()": "Keep the tensor: loss = ",
    "losses = {}\nlosses['kl'] = 0.5\nlosses['mse'] = (model(x) - y).pow(2).mean().item()  # here\n"
    "losses['mse'].backward()": "Keep the tensor: losses['mse'] = (model(x) - y).pow(2).mean().",
    "def step(error):\n    error.backward()\nstep((model(x) - y).pow(2).mean().item())  # here": (
        "Keep the tensor: step((model(x) - y).pow(2).mean())."
    ),
    "def error():\n    value = (model(x) - y).pow(2).mean()\n    return value.item(), value  # here\n"
    "loss, kept = error()\nloss.backward()": "Keep the tensor: return value, value.",
}


@pytest.mark.parametrize("source", CONVERTED)
def test_the_statement_that_makes_a_number_of_it_is_named(source):
    finding = explained(LOSS + source)
    assert finding.code == "BS222"
    assert "not a tensor: there is no graph to run backward on." in finding.title
    assert finding.source == at(LOSS + source)
    assert finding.fix.startswith(CONVERTED[source])
    assert finding.exact


def test_a_sum_beside_the_backward_of_each_step_is_for_the_log():
    finding = explained(
        LOSS
        + """
total = 0
for a, b in zip(x, y):
    error = (model(a) - b).pow(2)
    total += error.item()
    total.backward()
"""
    )
    assert finding.fix == (
        "Call backward() on the tensor: on line 10, write `error.backward()`. total is a number for logging."
    )


NONE = {
    "def error():\n    loss = model(x).sum()\nloss = error()\nloss.backward()": (
        "loss is None: error() returns nothing, but backward() needs a loss tensor.",
        "End error() with `return loss`.",
    ),
    "def error(how):\n    if how:\n        return model(x).sum()\nloss = error(False)\nloss.backward()": (
        "loss is None: error() ends without a return on some paths, but backward() needs a loss tensor.",
        "Return the loss on every path of error(), or skip backward() when there is none.",
    ),
    "loss = model(x).sum().backward()\nloss.backward()": (
        "loss is None, but backward() needs a loss tensor.",
        "backward() already ran there, and it returns None: write loss = model(x).sum(), then loss.backward().",
    ),
    "loss = None\nfor a in []:\n    loss = model(a).sum()\nloss.backward()": (
        "loss is None, but backward() needs a loss tensor.",
        "Assign the loss tensor to loss before backward(), or skip backward() when there is none.",
    ),
}


@pytest.mark.parametrize("source", NONE)
def test_a_loss_that_is_none_is_one_that_nothing_returned(source):
    finding = explained(LOSS + source)
    assert (finding.code, finding.title, finding.fix) == ("BS222", *NONE[source])


INSIDE = {
    "loss = (model(x).sum(), 1)\nloss.backward()": ("loss is a tuple; the loss is inside: loss[0].", "loss[0]"),
    "out = {'loss': model(x).sum(), 'extra': model(x).sum()}\nout.backward()": (
        "out is a dict; the loss is inside: out['loss'].",
        "On line 6, write `out['loss'].backward()`.",
    ),
    "losses = [model(a).sum() for a in x]\nlosses.backward()": (
        "losses is a list, but backward() must start from one tensor.",
        "sum(losses).backward()",
    ),
    "h = nn.LSTM(3, 2)(x)\nh.backward()": (
        "h is a tuple, but backward() must start from one tensor.",
        "Compute one number",
    ),
    "criterion = nn.MSELoss()\ncriterion.backward()": ("criterion is an MSELoss, a module", "Call it first"),
    "loss = model(x).sum\nloss.backward()": ("loss is a function that was not called", "Add the parentheses"),
}


@pytest.mark.parametrize("source", INSIDE)
def test_where_the_tensor_is_inside_it_is_named(source):
    finding = explained(LOSS + source)
    title, fix = INSIDE[source]
    assert finding.code == "BS222"
    assert finding.title.startswith(title)
    assert fix in finding.fix


def test_terms_that_are_no_part_of_one_another_are_not_summed_for_the_user():
    finding = explained(LOSS + "parts = (model(x).sum(), model(y.T[:, :3]).mean())\nparts.backward()")
    assert finding.fix.startswith("Add up the ones to minimize")


def test_the_total_among_its_own_parts_is_the_loss():
    finding = explained(LOSS + "a, b = model(x).sum(), model(x).mean()\nparts = (a, a + b, b)\nparts.backward()")
    assert finding.fix == "On line 7, write `parts[1].backward()`."


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


def test_a_decorated_function_is_read_too():
    source = (
        LOSS
        + "@torch.no_grad()\ndef error():\n    return model(x).sum().item()  # here\nloss = error()\nloss.backward()"
    )
    assert explained(source).source == at(source)


def test_what_a_function_of_the_users_returns_is_read_there():
    source = LOSS + "def error():\n    return model(x).sum().item()  # here\nloss = error()\nloss.backward()"
    finding = explained(source)
    assert finding.title.startswith("loss is a float that error() returns, not a tensor")
    assert "turns model(x).sum() into a Python number." in evidence(finding)


def test_one_of_two_attributes_that_another_method_assigns():
    source = """
from torch import nn
class Fit:
    def __init__(self):
        self.net, self.loss = nn.Linear(3, 1), None
    def measure(self, x):
        out = self.net(x)
        self.loss, self.hits = out.pow(2).mean().item(), int((out > 0).sum())  # here
    def step(self, x):
        self.measure(x)
        self.loss.backward()
Fit().step(torch.ones(4, 3))
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert finding.fix.startswith("Keep the tensor: self.loss, self.hits = out.pow(2).mean(), int((out > 0).sum()).")
