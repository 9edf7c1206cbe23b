"""What testing live nodes needs of PyTorch beyond its documented surface is still there."""

import torch

from backsight.verification._torch import same_versions
from backsight.verification.live import _torch


def test_a_version_can_be_kept():
    x = torch.ones(2)
    version = x._version
    with same_versions([x]):
        x.add_(1)
    assert x._version == version
    assert x.tolist() == [2, 2]


def test_what_a_function_saved_can_be_looked_at_without_unpacking_it():
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    x = torch.ones(2, requires_grad=True)
    y = Saves.apply(x)  # held: the handles point into its node
    handle, empty = _torch.saved_handles(y.grad_fn)
    assert handle.data is x and handle.unpack_hook is None
    assert empty.data is None
    y.sum().backward()
    assert _torch.saved_handles(y.grad_fn) == ()


def test_the_function_made_for_an_operator_of_a_library_leads_to_it():
    @torch.library.custom_op("backsight_tests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    double.register_autograd(lambda ctx, grad: 2 * grad)
    node = double(torch.ones(2, requires_grad=True)).grad_fn
    assert _torch.library_operator(type(node)._forward_cls) is torch.ops.backsight_tests.double
    assert _torch.library_operator(torch.autograd.Function) is None
