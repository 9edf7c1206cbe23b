"""Errors of autograd that no explanation is meant for, and that look like those for which one is."""

from __future__ import annotations

import copy

import torch
from errors_of_graphs import Exp, leaf
from provoking import provokes
from torch.utils.checkpoint import checkpoint


@provokes("BS220")
def a_gradient_asked_of_integers():
    torch.ones(3, dtype=torch.int64).requires_grad_()


@provokes("BS219")
def a_result_asked_to_need_no_gradient():
    (leaf() * 2).requires_grad_(False)


@provokes("BS219")
def an_output_into_a_tensor_that_requires_grad():
    torch.add(leaf(), 1, out=leaf())


@provokes("BS219")
def an_output_into_a_constant():
    torch.add(leaf(), 1, out=torch.ones(3))


@provokes(None)
def a_leaf_resized():
    leaf().resize_(4)


@provokes("BS219")
def a_result_as_an_array():
    (leaf() * 2).numpy()


@provokes("BS219")
def a_result_copied_deeply():
    copy.deepcopy(leaf() * 2)


@provokes("BS208")
def a_gradient_of_another_shape_assigned():
    leaf().grad = torch.ones(4)


@provokes("BS208")
def a_gradient_of_another_dtype_assigned():
    leaf().grad = torch.ones(3, dtype=torch.float64)


@provokes("BS208")
def a_gradient_on_another_device_assigned():
    leaf().grad = torch.ones(3, device="meta")


@provokes(None)
def something_else_assigned_as_gradient():
    leaf().grad = 1.0


@provokes(None)
def a_gradient_of_another_shape_given():
    (leaf() * 2).backward(torch.ones(4))


@provokes(None)
def a_gradient_of_another_dtype_given():
    (leaf() * 2).backward(torch.ones(3, dtype=torch.complex64))


@provokes(None)
def a_gradient_wanted_in_a_constant():
    leaf().sum().backward(inputs=[torch.ones(3)])


@provokes(None)
def no_inputs_given():
    leaf().sum().backward(inputs=[])


@provokes(None)
def a_nan_in_anomaly_mode():
    with torch.autograd.set_detect_anomaly(True):
        (leaf() * 0).sqrt().mul(0).sum().backward()


@provokes(None)
def a_hook_on_a_constant():
    torch.ones(3).register_hook(print)


@provokes(None)
def a_gradient_kept_of_a_constant():
    torch.ones(3).retain_grad()


@provokes(None)
def an_operation_without_a_derivative():
    torch.igamma(leaf(), torch.ones(3)).sum().backward()


@provokes(None)
def an_in_place_operation_on_a_smaller_tensor():
    torch.ones(3).add_(torch.ones(2, 3))


@provokes(None)
def a_custom_function_without_backward():
    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    Forward.apply(leaf()).sum().backward()


@provokes(None)
def a_custom_function_called_by_its_instance():
    Exp()(leaf())


@provokes(None)
def a_gradient_for_no_tensor():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            return x * scale

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output

    Scale.apply(leaf(), 2.0).sum().backward()


@provokes(None)
def a_backward_that_returns_no_tensor():
    class Number(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return 2.0

    Number.apply(leaf()).sum().backward()


@provokes(None)
def something_else_saved_for_backward():
    class Number(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(2.0)
            return x * 2

    Number.apply(leaf())


@provokes(None)
def a_tensor_marked_dirty_that_is_not_returned():
    class Dirty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    Dirty.apply(leaf() * 1)


@provokes(None)
def a_reentrant_checkpoint_within_grad():
    x = leaf()
    torch.autograd.grad(checkpoint(torch.exp, x, use_reentrant=True).sum(), x)


@provokes(None)
def a_checkpoint_unpacked_twice():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.exp())
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.saved_tensors[0] * ctx.saved_tensors[0]

    checkpoint(lambda x: Twice.apply(x.sin()), leaf(), use_reentrant=False).sum().backward()


@provokes(None)
def the_version_of_an_inference_tensor():
    with torch.inference_mode():
        x = torch.ones(3)
    x._version


@provokes(None)
def a_parameter_given_twice_to_an_optimizer():
    x = leaf()
    torch.optim.SGD([{"params": [x]}, {"params": [x]}], lr=0.1)


@provokes(None)
def matrices_that_do_not_fit():
    torch.nn.Linear(3, 2)(torch.ones(4))


@provokes(None)
def a_parameter_made_of_a_result():
    torch.nn.Linear(3, 2).weight = leaf() * 2


@provokes(None)
def an_attribute_of_a_graph_that_is_none():
    leaf().grad_fn.next_functions


@provokes(None)
def grad_of_a_function_of_several_values():
    torch.func.grad(lambda x: x * 2)(torch.ones(3))


@provokes("BS203")
def a_jacobian_that_is_strict():
    torch.autograd.functional.jacobian(lambda x: torch.ones(3), leaf(), strict=True)
