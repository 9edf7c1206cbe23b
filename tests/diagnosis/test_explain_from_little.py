"""Where the source, the traceback or both are missing, what is left is told, and nothing is guessed."""

import pytest
import torch
from failures import explained, failing
from setups import CLASSIFIER, HIDDEN_STATE

import backsight as bs

IN_PLACE = """
def main():
    x = torch.randn(3, requires_grad=True)
    y = x.sigmoid()
    y[0] = 1
    y.sum().backward()
main()
"""

FUNCTION = """
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k=1):
        return k * x
    @staticmethod
    def backward(ctx, g):
        return {returned}
a = torch.randn(4, 3, requires_grad=True)
Op.apply({arguments}).sum().backward()
"""
ONE_GRADIENT = FUNCTION.format(returned="2 * g", arguments="a, 2")

OTHER_DTYPE = """
from torch.utils.checkpoint import checkpoint
x, calls = torch.ones(3, requires_grad=True), [0]
def block(x):
    calls[0] += 1
    return (x.double() if calls[0] > 1 else x).sin().float()
y = checkpoint(block, x, use_reentrant=False)
y.sum().backward()
"""

PARTS = "h = torch.nn.Linear(4, 4)(torch.randn(2, 4))\na, b = h.chunk(2, dim=1)\na += 1\n"
TWO_INPUTS = """
x, t = torch.rand(10, 2, requires_grad=True), torch.rand(10, 2, requires_grad=True)
u = x.sin()
torch.autograd.grad(u.sum(), (x, t))
"""

# A program, the code, whether its cause is certain, and some of what is said.
WITHOUT_SOURCE = {
    f"{CLASSIFIER}loss = model(x).argmax().float()\nloss.backward()\n": (
        "BS203",
        False,
        "The source of this code is not available, so what detached it is unknown.",
    ),
    HIDDEN_STATE: ("BS201", False, "hidden = hidden.detach()"),
    IN_PLACE: (
        "BS202",
        False,
        "y was modified in place after sigmoid had saved it for backward.",
        "Where it was saved and modified is no longer known: `backsight run` would have seen it.",
    ),
    "w = torch.ones(3, requires_grad=True)\nw += 1\n": (
        "BS205",
        False,
        "A leaf that requires grad was modified in place while autograd was recording.",
        "train.py:2",
    ),
    ONE_GRADIENT: ("BS207", True, "Received x and k; k needs no gradient."),
    OTHER_DTYPE: (
        "BS210",
        False,
        "block computed something different when checkpoint reran it for backward.",
        "checkpoint(..., debug=True) lists the operations of both runs.",
    ),
    TWO_INPUTS: ("BS204", True, "its graph does not lead there"),
    "w = torch.ones(3, requires_grad=True) * 2\ntorch.optim.SGD([w], lr=0.1)\n": ("BS206", True, "w is a non-leaf"),
    "x = torch.rand(5, requires_grad=True)\nloss = x * 2\nloss.backward()\n": (
        "BS212",
        True,
        "loss is a float32 tensor of shape 5",
    ),
}

WITHOUT_TRACEBACK = {
    IN_PLACE: (
        "BS202",
        "A tensor of shape 3 that backward needs was modified in place after the forward pass saved it.",
        "It was saved at version 0 and is at version 1 now.",
        "sigmoid created it, or modified it last.",
    ),
    PARTS: ("BS209", "A view made by split was modified in place, which autograd cannot follow."),
    ONE_GRADIENT: (
        "BS207",
        "Op's backward returns 1 gradient; its forward received 2 arguments.",
        "Return one value for each argument of forward after ctx",
    ),
    FUNCTION.format(returned="g[0], None", arguments="a, 2"): (
        "BS208",
        "Op's backward returns a gradient for its input 0 that does not match it: got [3]",
    ),
}

MESSAGES = {
    "Tried to step 4 times. The specified number of total steps is 3": (
        "The schedule of the learning rate was made for 3 steps, and is stepped once more."
    ),
    "grad can be implicitly created only for scalar outputs": (
        "The tensor is not a scalar, but backward() must start from one number."
    ),
    "grad can be implicitly created only for real scalar outputs but got torch.complex64": (
        "The tensor is not a real scalar, but backward() must start from one real number."
    ),
    "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got <class 'int'>": (
        "The function returns an int, but torch.func needs a tensor."
    ),
    "Expected to have finished reduction in the prior iteration before starting a new one. Since "
    "`find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate in "
    "computing loss.": "does not see a result that forward returns but nothing uses",
}


def said(finding):
    return "\n".join([finding.title, finding.source or "", *map(str, finding.evidence), finding.fix])


@pytest.mark.parametrize("source", WITHOUT_SOURCE)
def test_without_source_what_is_known_is_told(source):
    code, exact, *texts = WITHOUT_SOURCE[source]
    finding = explained(source, readable=False)
    assert (finding.code, finding.exact) == (code, exact)
    assert [text for text in texts if text not in said(finding)] == []


def test_without_source_a_watch_knows_the_line_all_the_same():
    with bs.watch(level="exact"):
        finding = explained(f"{CLASSIFIER}h = model(x).detach()\nloss = h.sum()\nloss.backward()\n", readable=False)
    assert (finding.code, finding.source) == ("BS203", "train.py:6")


@pytest.mark.parametrize("source", WITHOUT_TRACEBACK)
def test_without_a_traceback_the_message_is_read(source):
    code, *texts = WITHOUT_TRACEBACK[source]
    finding = bs.explain(failing(source).with_traceback(None))
    assert (finding.code, finding.exact) == (code, False)
    assert [text for text in texts if text not in said(finding)] == []


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_alone_becomes_a_sentence(message):
    finding = bs.explain(RuntimeError(message))
    assert MESSAGES[message] in said(finding)
    assert not finding.exact


def test_where_a_tensor_was_made_is_not_found_the_failing_statement_is_named():
    with torch.inference_mode():
        given = torch.ones(3)
    finding = explained("y = given * torch.ones(3, requires_grad=True)\n", given=given)
    assert (finding.code, finding.source, finding.exact) == ("BS214", "train.py:1", False)


def test_the_exception_that_checkpoint_has_started_in_its_debug_mode_is_read_too():
    finding = explained(OTHER_DTYPE.replace("use_reentrant=False", "use_reentrant=False, debug=True"))
    assert finding.code == "BS210"
    assert "Saved tensor 0 was float32" in said(finding)
