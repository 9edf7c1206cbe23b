"""Errors of what users write for autograd: custom Functions and operators (BS207, BS208, BS215)."""

from __future__ import annotations

import torch
from errors_of_graphs import leaf
from provoking import in_library, provokes
from torch.autograd.function import once_differentiable


def _function(*gradients: object) -> type[torch.autograd.Function]:
    """Return a custom Function whose backward returns `gradients`."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *others):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return gradients[0] if len(gradients) == 1 else gradients

    return Scale


@provokes("BS207")
def too_few_gradients():
    _function(torch.ones(3)).apply(leaf(), 2.0).sum().backward()


@provokes("BS207")
def too_many_gradients():
    _function(torch.ones(3), None, torch.ones(3)).apply(leaf(), 2.0).sum().backward()


@provokes("BS207")
def no_gradient():
    _function(None).apply(leaf(), leaf()).sum().backward()


@provokes("BS207")
def too_few_gradients_from_a_function_with_setup_context():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, scale):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    Scale.apply(leaf(), 2.0).sum().backward()


@provokes("BS207")
def too_few_gradients_under_functional_grad():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, scale):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    torch.func.grad(lambda x: Scale.apply(x, 2.0).sum())(torch.ones(3))


@provokes("BS208")
def a_gradient_of_another_shape():
    _function(torch.ones(4), None).apply(leaf(), 2.0).sum().backward()


@provokes("BS208")
def a_gradient_of_two_dimensions():
    _function(None, torch.ones(2, 5)).apply(leaf(), leaf(5, 2)).sum().backward()


@provokes("BS208")
def a_gradient_on_another_device():
    _function(torch.ones(3, device="meta"), None).apply(leaf(), 2.0).sum().backward()


@provokes(None)
def a_gradient_of_complex_numbers():
    _function(torch.ones(3, dtype=torch.complex64), None).apply(leaf(), 2.0).sum().backward()


@provokes("BS208")
def a_gradient_of_another_layout():
    _function(torch.ones(4).to_sparse(), None).apply(leaf(), 2.0).sum().backward()


@provokes("BS208")
def a_leaf_of_another_shape_since():
    weight = leaf(3, 3)
    before = (weight * 1).grad_fn  # keeps what accumulates the gradient of the weight
    weight.data = torch.ones(4, 4)
    (torch.ones(2, 4) @ weight).sum().backward()
    del before


@provokes("BS208")
def a_gradient_of_another_shape_under_functional_grad():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad_output):
            return torch.ones(4)

    torch.func.grad(lambda x: Scale.apply(x).sum())(torch.ones(3))


@provokes("BS208")
def a_gradient_of_another_shape_from_a_registered_operator():
    name = f"backsight_messages::double{len(_LIBRARY)}"
    _LIBRARY.append(torch.library.custom_op(name, lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"))
    _LIBRARY[-1].register_autograd(lambda ctx, grad: torch.ones(4))
    _LIBRARY[-1](leaf()).sum().backward()


_LIBRARY: list[object] = []


@provokes("BS215")
def a_function_marked_once_differentiable_differentiated_twice():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            return grad_output * 2 * ctx.saved_tensors[0]

    x = leaf()
    (gradient,) = torch.autograd.grad(Once.apply(x).pow(2).sum(), x, create_graph=True)
    gradient.sum().backward()


@provokes("BS215")
def a_recurrent_network_of_cudnn_differentiated_twice():
    raise RuntimeError(in_library("Double backwards is not supported for CuDNN RNNs"))


@provokes("BS233")
def a_number_to_take_the_gradient_of():
    torch.func.grad(lambda x: x.sum().item())(torch.ones(3))


@provokes("BS233")
def none_to_take_the_gradient_of():
    torch.func.grad(lambda x: None)(torch.ones(3))


@provokes("BS233")
def a_loss_with_others_to_take_the_gradient_of():
    torch.func.grad(lambda x: (x.sum(), x))(torch.ones(3))


@provokes("BS233")
def a_number_to_take_a_jacobian_of():
    torch.func.jacrev(lambda x: x.sum().item())(torch.ones(3))


@provokes("BS233")
def a_number_to_take_a_jacobian_of_in_forward_mode():
    torch.func.jacfwd(lambda x: x.sum().tolist())(torch.ones(3))


@provokes("BS233")
def none_to_take_a_jacobian_of():
    torch.func.jacrev(lambda x: None)(torch.ones(3))


@provokes("BS233")
def no_result_to_take_a_jacobian_of():
    torch.func.jacrev(lambda x: ())(torch.ones(3))


@provokes("BS233")
def a_list_to_take_a_jacobian_of():
    torch.autograd.functional.jacobian(lambda x: x.tolist(), torch.ones(3))


@provokes("BS233")
def a_list_in_a_tuple_to_take_a_jacobian_of():
    torch.autograd.functional.jacobian(lambda x: (x, x.tolist()), torch.ones(3))
