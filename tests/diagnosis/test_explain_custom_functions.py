"""BS207 and BS208, and in-place errors around custom Functions: which argument, which line, what to return."""

from __future__ import annotations

import pytest
import torch
from failures import at, evidence, explained, failing, of_example

import backsight as bs


class TestTheExamples:
    def test_12_one_gradient_for_two_arguments(self):
        finding = of_example("12")
        assert finding.code == "BS207"
        assert finding.title == "SlopedReLU's backward returns 1 gradient; its forward received 2 arguments."
        assert finding.source.endswith("12_custom_function_count.py:24")
        assert "def forward(ctx, x, slope):\n    received x and slope; slope needs no gradient." in evidence(finding)
        assert finding.fix == (
            "Return None for each argument that needs no gradient: return torch.where(x > 0, grad_output, ctx.slope "
            "* grad_output), None"
        )
        assert finding.exact

    def test_13_a_transposed_gradient(self):
        finding = of_example("13")
        assert finding.code == "BS208"
        assert finding.title == (
            "LinearFunction's backward returns a gradient of shape 20×5 for weight, whose shape is 5×20."
        )
        assert finding.source.endswith("13_custom_function_shape.py:24")
        assert "grad_weight = x.T @ grad_output\n    returns a gradient of shape 20×5 for weight." in evidence(finding)
        assert finding.fix.startswith(
            "The gradient has the transposed shape: on line 24, write `grad_weight = grad_output.T @ x`."
        )
        assert finding.exact


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
    def test_a_none_in_the_middle_is_put_where_it_belongs(self):
        finding = explained(function("x, k, y", "k * x + y", "return 2 * g, g.sum(0)", "a, 2, b"))
        assert "received x, k and y; k needs no gradient." in evidence(finding)
        assert finding.fix == "Return None for each argument that needs no gradient: return 2 * g, None, g.sum(0)"

    def test_a_gradient_that_is_needed_is_not_replaced_by_none(self):
        finding = explained(function("x, y", "x + y", "return g", "a, b"))
        assert "None" in finding.fix
        assert finding.fix.startswith("Compute the gradient of y too.")

    def test_ctx_is_not_counted(self):
        source = function("x", "x * 2", "return None, 2 * g", "a")
        finding = explained(source)
        assert finding.title == "Op's backward returns 2 gradients; its forward received 1 argument."
        assert finding.source == at(source, "return None, 2 * g")
        assert "returns 2 values: 1 too many." in evidence(finding)
        assert finding.fix == "Drop the None for ctx, which does not count: return 2 * g"

    def test_defaults_that_were_left_out_have_no_gradient(self):
        finding = explained(function("x, k=2, mode=None", "k * x", "return 2 * g, g.sum()", "a"))
        assert finding.fix == "Return 1 value only, or pass k and mode to apply: a default left out has no gradient."

    def test_arguments_behind_a_star_are_numbered(self):
        finding = explained(function("*xs", "xs[0] + xs[1]", "return g", "a, b"))
        assert "received xs[0] and xs[1]." in evidence(finding)
        assert finding.fix.startswith("Compute the gradient of xs[1] too.")

    def test_a_backward_without_return(self):
        source = function("x, y", "x + y", "g = g * 2", "a, b")
        finding = explained(source)
        assert finding.source == at(source, "def backward")
        assert finding.fix.startswith("End backward with a return of 2 values.")

    def test_of_several_returns_the_one_with_that_many_values(self):
        source = function("x, y", "x + y", "if g is None:\n            return None, None\n        return g", "a, b")
        assert explained(source).source == at(source, "return g")

    def test_a_forward_with_a_context_of_its_own_has_no_ctx(self):
        finding = explained(
            """
            class Scale(torch.autograd.Function):
                @staticmethod
                def forward(x, k):
                    return x * k
                @staticmethod
                def setup_context(ctx, inputs, output):
                    ctx.k = inputs[1]
                @staticmethod
                def backward(ctx, g):
                    return g * ctx.k
            Scale.apply(torch.randn(3, requires_grad=True), 2.0).sum().backward()
            """
        )
        assert "received x and k; k needs no gradient." in evidence(finding)
        assert finding.fix == "Return None for each argument that needs no gradient: return g * ctx.k, None"

    def test_a_backward_under_its_other_name(self):
        source = function("x, k", "k * x", "return 2 * g", "a, 2").replace("def backward", "def vjp")
        finding = explained(source)
        assert finding.source == at(source, "return 2 * g")

    def test_a_function_inside_of_a_model(self):
        source = """
            class Clamp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, low):
                    return x.clamp(min=low)
                @staticmethod
                def backward(ctx, g):
                    return g
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
                def forward(self, x):
                    return self.b(Clamp.apply(self.a(x), 0.0)).mean()
            def train(net):
                loss = net(torch.randn(5, 3))
                loss.backward()
            train(Net())
            """
        finding = explained(source)
        assert finding.source == at(source, "return g")
        assert finding.fix == "Return None for each argument that needs no gradient: return g, None"

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
    def test_it_is_counted_among_the_tensors_alone(self):
        """The engine's index leaves out what is no tensor: index 0 may be the second argument."""
        source = function("k, x", "k * x", "return None, g[0]", "2, a")
        finding = explained(source)
        assert finding.title == "Op's backward returns a gradient of shape 3 for x, whose shape is 4×3."
        assert finding.source == at(source, "return None, g[0]")

    def test_a_tensor_that_needs_no_gradient_counts_among_the_tensors(self):
        finding = explained(function("k, x", "k * x", "return None, g[0]", "torch.ones(1), a"))
        assert "for x, whose shape is 4×3" in finding.title

    def test_a_scalar(self):
        finding = explained(function("x, y", "x + y", "return g, g.sum()", "a, b"))
        assert finding.title == "Op's backward returns a gradient without dimensions for y, whose shape is 3."
        assert "over the other dimensions alone: on line 7, write `return g, g.sum(0)`." in finding.fix

    def test_the_same_entries_in_another_shape(self):
        finding = explained(function("x", "x.view(-1)", "return g", "a"))
        assert (
            "The gradient has as many entries as x. If they are in the same order, reshape it: "
            "on line 7, write `return g.reshape(ctx.x_shape)`, with ctx.x_shape" in finding.fix
        )

    def test_a_product_that_is_no_plain_one_is_transposed_as_a_whole(self):
        source = """
            class Op(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, w):
                    ctx.save_for_backward(x)
                    return x @ w
                @staticmethod
                def backward(ctx, g):
                    (x,) = ctx.saved_tensors
                    grad_w = 2 * g.T @ x
                    return None, grad_w
            Op.apply(torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)).sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "grad_w = 2")
        assert "transposed shape: on line 9, write `grad_w = (2 * g.T @ x).T`." in finding.fix

    def test_a_weight_whose_data_was_replaced(self):
        finding = explained(
            """
            w = torch.nn.Parameter(torch.randn(3, 3))
            before = (w * 1).grad_fn  # keeps what accumulates the gradient of w
            w.data = torch.randn(4, 4)
            loss = (torch.randn(2, 4) @ w).sum()
            loss.backward()
            """
        )
        assert finding.code == "BS208"
        assert finding.title.startswith("w got another shape through .data")
        assert finding.source.endswith(":3")
        assert "w.data = torch.randn(4, 4)\n    replaces the data of w." in evidence(finding)
        assert (
            "Create a new nn.Parameter instead: on line 3, write `w = nn.Parameter(torch.randn(4, 4))`." in finding.fix
        )

    def test_data_that_two_statements_replace_are_told_with_both_and_with_doubt(self):
        finding = explained(
            """
            w = torch.nn.Parameter(torch.randn(3, 3))
            before = (w * 1).grad_fn
            w.data = torch.randn(3, 3)
            w.data = torch.randn(4, 4)
            (torch.randn(2, 4) @ w).sum().backward()
            """
        )
        assert not finding.exact
        assert evidence(finding).count("replaces the data of w.") == 2

    def test_without_traceback_the_message_is_read(self):
        error = failing(function("x", "x * 2", "return g[0]", "a")).with_traceback(None)
        finding = bs.explain(error)
        assert finding.title.startswith(
            "Op's backward returns a gradient for its input 0 that does not match it: got [3]"
        )
        assert not finding.exact


class TestInPlaceAroundThem:
    def test_what_a_function_saved_was_changed(self):
        """The error is raised in the user's own backward, when it asks for what was saved."""
        source = """
            class Mul(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, w):
                    ctx.save_for_backward(x, w)
                    return x * w
                @staticmethod
                def backward(ctx, g):
                    x, w = ctx.saved_tensors
                    return g * w, g * x
            def main():
                x = torch.randn(3, requires_grad=True)
                w = x.exp() + 1
                y = Mul.apply(x, w)
                w.zero_()
                y.sum().backward()
            main()
            """
        finding = explained(source)
        assert finding.title == "w was modified in place after Mul had saved it for backward."
        assert finding.source == at(source, "w.zero_()")
        assert "y = Mul.apply(x, w)\n    saves w" in evidence(finding)
        assert "y.sum().backward()\n    needs the original value" in evidence(finding)

    @pytest.mark.parametrize("result", ["x.view(-1)", "x"])
    def test_a_view_that_forward_returned(self, result):
        source = f"""
            class Flat(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return {result}
                @staticmethod
                def backward(ctx, g):
                    return g.view(3, 2)
            def f():
                x = torch.nn.Linear(2, 2)(torch.randn(3, 2))
                flat = Flat.apply(x)
                flat.mul_(2)
            f()
            """
        finding = explained(source)
        assert finding.code == "BS209"
        assert finding.title == "flat is a view that Flat's forward returned, and this statement modifies it in place."
        assert finding.source == at(source, "flat.mul_(2)")
        assert f"return {result}\n    creates what Flat returns: its input, or a view of it." in evidence(finding)
        assert finding.fix.startswith("Return a new tensor from forward, with .clone().")


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
