"""BS212: a loss of many values, and how to make it one."""

from failures import at, evidence, explained

import backsight as bs

SETUP = """
from torch import nn
import torch.nn.functional as F
model = nn.Linear(4, 3)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
"""


def test_a_loss_for_each_element():
    source = f"{SETUP}loss = (model(x) - 1) ** 2\nloss.backward()  # here\n"
    finding = explained(source)
    assert finding.code == "BS212"
    assert finding.title == "loss is a float32 tensor of shape 8×3, but backward() must start from one number."
    assert "would start from 24 numbers at once." in evidence(finding)
    assert finding.source == at(source)
    assert finding.fix.startswith("Put loss = loss.mean() before line ")
    assert finding.exact


def test_an_expression_is_put_in_brackets():
    assert "Call (model(x) - 1).mean().backward()" in explained(f"{SETUP}(model(x) - 1).backward()\n").fix


def test_a_reduction_turned_off_in_the_call():
    source = f"{SETUP}loss = F.cross_entropy(model(x), labels, reduction='none')  # here\nloss.backward()\n"
    finding = explained(source)
    assert finding.source == at(source)
    assert "keeps the loss of every element" in evidence(finding)
    assert finding.fix.startswith("Let the loss function reduce, as it does by default.")


def test_a_reduction_turned_off_in_a_loss_module():
    source = f"""{SETUP}
class Trainer:
    def __init__(self):
        self.criterion = nn.CrossEntropyLoss(reduction="none")

    def step(self):
        loss = self.criterion(model(x), labels)  # here
        loss.backward()

Trainer().step()
"""
    assert explained(source).source == at(source)


def test_a_derivative_in_every_point():
    finding = explained("x = torch.rand(5, 1, requires_grad=True)\nu = x.sin()\ntorch.autograd.grad(u, x)\n")
    assert finding.title == "u is a float32 tensor of shape 5×1, but autograd.grad() must start from one number."
    assert finding.fix.startswith("Pass u.sum()")
    assert "grad_outputs=torch.ones_like(u)" in finding.fix


def test_a_complex_number():
    finding = explained("x = torch.rand(5, requires_grad=True)\nz = torch.fft.fft(x).sum()\nz.backward()\n")
    assert finding.title == "z is a complex64 scalar, but backward() must start from one real number."
    assert finding.fix.startswith("Take the magnitude of the elements that z is computed from")
    assert "z.abs()" not in finding.fix


def test_without_a_traceback_the_title_is_still_a_sentence():
    error = RuntimeError("grad can be implicitly created only for scalar outputs")
    assert bs.explain(error).title == "The tensor is not a scalar, but backward() must start from one number."
    error = RuntimeError("grad can be implicitly created only for real scalar outputs but got torch.complex64")
    assert bs.explain(error).title == "The tensor is not a real scalar, but backward() must start from one real number."


def test_the_one_of_several_losses():
    finding = explained(
        """
        x = torch.rand(5, requires_grad=True)
        first, second = x.sum(), x * 2
        torch.autograd.backward([first, second])
        """
    )
    assert finding.title.startswith("second is a float32 tensor of shape 5")


def test_code_without_source():
    finding = explained("x = torch.rand(5, requires_grad=True)\nloss = x * 2\nloss.backward()\n", readable=False)
    assert finding.title.startswith("loss is a float32 tensor of shape 5")
