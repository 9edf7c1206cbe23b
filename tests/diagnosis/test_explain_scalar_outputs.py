"""BS212: a loss of many values, and how to make it one."""

from failures import explained

import backsight as bs


def test_without_a_traceback_the_title_is_still_a_sentence():
    error = RuntimeError("grad can be implicitly created only for scalar outputs")
    assert bs.explain(error).title == "The tensor is not a scalar, but backward() must start from one number."
    error = RuntimeError("grad can be implicitly created only for real scalar outputs but got torch.complex64")
    assert bs.explain(error).title == "The tensor is not a real scalar, but backward() must start from one real number."


def test_code_without_source():
    finding = explained("x = torch.rand(5, requires_grad=True)\nloss = x * 2\nloss.backward()\n", readable=False)
    assert finding.title.startswith("loss is a float32 tensor of shape 5")
