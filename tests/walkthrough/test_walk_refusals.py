"""What cannot be walked is refused before the first step, with the reason and what to do."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import backsight as bs

x = torch.randn(3, requires_grad=True)


def test_a_tensor_without_a_graph():
    with pytest.raises(
        bs.NothingToCapture, match=r"walk\(\) was given a float32 tensor of shape 2, which has no autograd"
    ):
        bs.walk(torch.ones(2))


def test_nothing_at_all():
    with pytest.raises(bs.NothingToCapture, match=r"as in backsight\.walk\(loss\)"):
        bs.walk()


def test_a_root_that_is_no_scalar():
    with pytest.raises(bs.WalkError, match=r"a float32 tensor of shape 3 has no implicit gradient: only a scalar has"):
        bs.walk(x * 2)
    assert bs.walk(x * 2, gradient=torch.ones(3)).run().grad(x).tolist() == [2, 2, 2]


def test_a_complex_root():
    z = torch.complex(x, x).sum()
    with pytest.raises(
        bs.WalkError, match=r"only a real scalar has\. Walk a real function of it, such as \.abs\(\)\.sum\(\)"
    ):
        bs.walk(z)
    assert bs.walk(z, gradient=torch.ones((), dtype=z.dtype)).run().done


def test_gradients_that_do_not_fit():
    with pytest.raises(
        bs.WalkError, match="the gradient is a float32 tensor of shape 2, but its root is a float32 tensor"
    ):
        bs.walk(x * 2, gradient=torch.ones(2))
    with pytest.raises(bs.WalkError, match="2 gradients for 1 roots"):
        bs.walk(x * 2, gradient=[torch.ones(3), torch.ones(3)])
    with pytest.raises(bs.WalkError, match="cannot start with a gradient of dtype"):
        bs.walk(x * 2, gradient=torch.ones(3, dtype=torch.complex64))


def test_a_gradient_edge_needs_a_gradient():
    edge = torch.autograd.graph.get_gradient_edge(x * 2)
    with pytest.raises(bs.WalkError, match="a GradientEdge has no known shape"):
        bs.walk(edge)
    assert bs.walk(edge, gradient=torch.ones(3)).run().grad(x).tolist() == [2, 2, 2]


def test_a_freed_graph():
    loss = x.sin().sum()
    loss.backward()
    x.grad = None
    with pytest.raises(
        bs.WalkError, match=r"the graph is already freed: a backward released what SinBackward0 #1 saved"
    ):
        bs.walk(loss)


def test_a_reentrant_checkpoint():
    y = checkpoint(torch.sin, x, use_reentrant=True).sum()
    with pytest.raises(
        bs.WalkError, match=r"is a reentrant checkpoint.* Use checkpoint\(\.\.\., use_reentrant=False\)"
    ):
        bs.walk(y)


def test_questions_too_early_or_in_the_wrong_place():
    y = x.sin()
    w = bs.walk(y.sum())
    with pytest.raises(bs.WalkError, match=r"the walk is not over"):
        w.accumulate()
    with pytest.raises(bs.WalkError, match="SinBackward0 #1 is not a leaf"):
        w.grad(y)
    assert w.grad(x) is None


def test_a_custom_function_that_returns_too_few_gradients():
    class Short(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return g

    w = bs.walk(Short.apply(x, 2.0).sum())
    with pytest.raises(bs.WalkError, match="ShortBackward returned 1 gradients for the 2 arguments of its forward"):
        w.run()


def test_a_custom_function_that_returns_a_gradient_of_the_wrong_shape():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return torch.ones(2)

    w = bs.walk(Wrong.apply(x * 1).sum())
    with pytest.raises(bs.WalkError, match="a gradient of shape 2 came for MulBackward0, whose output has the shape 3"):
        w.run()
    assert w.next.op == "Wrong", "the walk stands before the node that failed"
