"""BS207 and BS208, and in-place errors around custom Functions: which argument, which line, what to return."""

from __future__ import annotations

import pytest
import torch
from failures import explained, failing

import backsight as bs

FUNCTION = """
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {parameters}):
        return {result}
    @staticmethod
    def backward(ctx, g):
        {backward}
a = torch.randn(4, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
Op.apply({arguments}).sum().backward()
"""


def function(parameters: str, result: str, backward: str, arguments: str) -> str:
    return FUNCTION.format(parameters=parameters, result=result, backward=backward, arguments=arguments)


class TestTheNumberOfGradients:
    def test_without_source_the_arguments_are_still_known(self):
        source = function("x, k", "k * x", "return 2 * g", "a, 2")
        finding = bs.explain(failing(source, readable=False))
        assert "Received x and k; k needs no gradient." in finding.evidence

    def test_without_traceback_the_message_is_read(self):
        error = failing(function("x, k", "k * x", "return 2 * g", "a, 2")).with_traceback(None)
        finding = bs.explain(error)
        assert finding.title == "Op's backward returns 1 gradient; its forward received 2 arguments."
        assert finding.fix.startswith("Return one value for each argument of forward after ctx")
        assert not finding.exact


class TestTheShapeOfAGradient:
    def test_without_traceback_the_message_is_read(self):
        error = failing(function("x", "x * 2", "return g[0]", "a")).with_traceback(None)
        finding = bs.explain(error)
        assert finding.title.startswith(
            "Op's backward returns a gradient for its input 0 that does not match it: got [3]"
        )
        assert not finding.exact


@pytest.mark.parametrize(
    "source",
    [
        function("x, k", "k * x", "return 2 * g", "a, 2"),
        function("x", "x * 2", "return g[0]", "a"),
    ],
)
def test_a_function_whose_class_answers_no_questions(source):
    guarded = "class Meta(type(torch.autograd.Function)):\n    def __repr__(cls):\n        raise ValueError\n"
    source = guarded + source.lstrip("\n").replace(
        "torch.autograd.Function)", "torch.autograd.Function, metaclass=Meta)"
    )
    finding = explained(source)
    assert finding.code in ("BS207", "BS208")
    assert "could not analyze it further" not in str(finding)


def test_the_engine_counts_tensors_alone():
    """What `argument_at` relies on: an edge for each tensor, in the order of the arguments."""

    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, k, x, fixed, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return None, g, None, g

    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    made = Op.apply(3, x, torch.ones(2), y)  # held: before PyTorch 2.13 a custom node dies with what it made
    node = made.grad_fn
    assert node.needs_input_grad == (False, True, False, True)
    assert [edge is not None for edge, _ in node.next_functions] == [True, False, True]
