"""BS215: second derivatives through operations that have only the first."""

import pytest
import torch
from failures import at, evidence, explained, failing

import backsight as bs

ATTENTION = """
import torch.nn.functional as F
x = torch.randn(1, 1, 5, 8, requires_grad=True)
y = F.scaled_dot_product_attention(x, x, x)  # here
(g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
g.square().sum().backward()
"""


def test_attention_is_named_with_the_implementation_that_can():
    finding = explained(ATTENTION)
    assert finding.code == "BS215"
    assert finding.title == (
        "scaled_dot_product_attention can be differentiated only once, and this is the second time."
    )
    assert finding.source == at(ATTENTION)
    assert "differentiates once and records a graph of the gradient." in evidence(finding)
    assert "SDPBackend.MATH" in finding.fix


def test_attention_inside_of_a_module_is_found_by_its_class():
    source = """
from torch import nn
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
x = torch.randn(1, 5, 8, requires_grad=True)
y = layer(x)  # here
(g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
g.square().sum().backward()
"""
    assert explained(source).source == at(source)


def once_only(function):
    """Whether this PyTorch has no second derivative of `function`."""
    x = torch.rand(5, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    try:
        torch.autograd.grad(gradient.sum(), x)
    except RuntimeError:
        return True
    return False


def test_distances():
    if not once_only(lambda x: torch.cdist(x, x + 1)):
        pytest.skip("this PyTorch has the second derivative of distances")
    source = """
x = torch.randn(5, 3, requires_grad=True)
d = torch.cdist(x, x + 1)  # here
(g,) = torch.autograd.grad(d.sum(), x, create_graph=True)
g.square().sum().backward()
"""
    finding = explained(source)
    assert finding.title == "cdist can be differentiated only once, and this is the second time."
    assert finding.source == at(source)
    assert "((x.unsqueeze(-2) - (x + 1).unsqueeze(-3)).square().sum(-1) + 1e-12).sqrt()" in finding.fix


def test_a_product_over_zeros_that_were_scattered_to_one_place():
    source = """
values = torch.zeros(3, requires_grad=True)
y = torch.ones(2).scatter_reduce(0, torch.tensor([0, 0, 1]), values, "prod")  # here
(g,) = torch.autograd.grad(y.sum(), values, create_graph=True)
g.square().sum().backward()
"""
    finding = explained(source)
    assert finding.code == "BS215"
    assert finding.title == "scatter_reduce can be differentiated only once, and this is the second time."
    assert finding.source == at(source)


def test_a_compiled_function():
    source = """
import torch._dynamo
energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")  # here
x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad(energy(x), x, create_graph=True)  # first
g.square().sum().backward()
"""
    finding = explained(source)
    assert finding.code == "BS215"
    assert finding.title == "energy can be differentiated only once, and this is the second time."
    assert at(source, "# first") in evidence(finding)
    assert finding.source == at(source)
    assert "write `energy = lambda x: x.pow(3).sum()`, without torch.compile" in finding.fix


@pytest.mark.parametrize("also", ["", "half = torch.compile(lambda x: x / 2, backend='eager')"])
def test_of_several_compiled_functions_the_one_on_the_way_is_named(also):
    source = f"""
import torch._dynamo
{also}
twice = torch.compile(lambda x: 2 * x, backend="aot_eager")
energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")  # here
x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad(energy(x), x, create_graph=True)
twice(g.detach())
g.square().sum().backward()
"""
    assert explained(source).source == at(source)


def test_where_two_compiled_functions_are_on_the_way_both_are_told():
    source = """
import torch._dynamo
twice = torch.compile(lambda x: 2 * x, backend="aot_eager")
energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")
x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad(energy(x), x, create_graph=True)
twice(g).square().sum().backward()  # here
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert finding.fix.startswith("Call that function without torch.compile.")
    assert not finding.exact


def test_a_function_that_forbids_it():
    source = """
from torch.autograd.function import once_differentiable
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    @once_differentiable  # here
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad

x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad((x * Cube.apply(x)).sum(), x, create_graph=True)
g.sum().backward()
"""
    finding = explained(source)
    assert finding.title == (
        "Cube's backward is marked @once_differentiable, but here its gradient is differentiated again."
    )
    assert finding.source == at(source)


@pytest.mark.parametrize(
    ("said", "operation"),
    [
        ("derivative for aten::_scaled_dot_product_efficient_attention_backward is not implemented", "scaled_dot"),
        ("derivative for aten::_thnn_fused_lstm_cell_backward is not implemented", "lstm"),
        ("derivative for aten::grid_sampler_2d_backward is not implemented", "grid_sampler_2d"),
        ("the derivative for '_pdist_backward' is not implemented.", "pdist"),
        ("Double backwards is not supported for CuDNN RNNs due to limitations in the CuDNN API.", "rnn"),
    ],
)
def test_what_pytorch_says_on_other_devices_is_known(said, operation):
    finding = explained(f"raise RuntimeError({said!r})")
    assert finding.code == "BS215"
    assert finding.title.startswith(operation)


def test_an_operation_without_any_derivative_is_not_meant():
    assert bs.explain(failing("raise RuntimeError('derivative for aten::foo is not implemented')")).code == "BS200"
