"""Errors of leaves, views, inference tensors, and missing gradients (BS205, BS206, BS209, BS213, BS214)."""

from __future__ import annotations

import torch
from errors_of_graphs import leaf
from provoking import provokes


@provokes("BS205")
def a_leaf_changed():
    leaf().add_(1)


@provokes("BS205")
def an_element_of_a_leaf_assigned():
    leaf()[0] = 1.0


@provokes("BS205")
def a_view_of_a_leaf_changed():
    leaf(2, 2).view(4).mul_(2)


@provokes("BS205")
def a_leaf_changed_by_an_operation_on_many():
    torch._foreach_add_([leaf(), leaf()], 1.0)


@provokes("BS205")
def a_leaf_changed_in_anomaly_mode():
    with torch.autograd.set_detect_anomaly(True):
        leaf().add_(1)


class Increment(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


@provokes("BS205")
def a_leaf_marked_dirty_by_a_custom_function():
    Increment.apply(leaf())


@provokes("BS205")
def a_leaf_changed_in_a_compiled_function():
    import torch._dynamo

    torch.compile(lambda x: x.add_(1), backend="eager", fullgraph=True)(leaf())


@provokes("BS206")
def a_result_given_to_an_optimizer():
    torch.optim.SGD([leaf() * 2], lr=0.1)


@provokes("BS206")
def a_result_in_a_group_given_to_an_optimizer():
    torch.optim.AdamW([{"params": [leaf(), leaf().exp()]}])


@provokes("BS206")
def a_result_added_to_an_optimizer():
    torch.optim.Adam([leaf()]).add_param_group({"params": [leaf().double()]})


@provokes("BS209")
def one_of_several_views_changed():
    (leaf(4) * 1).chunk(2)[0].add_(1)


@provokes("BS209")
def one_of_several_unbound_views_changed():
    for row in (leaf(2, 2) * 1).unbind():
        row.mul_(2)


@provokes("BS209")
def the_base_of_several_views_changed():
    base = leaf(4) * 1
    first, _ = base.chunk(2)
    base.add_(1)
    first.sum()
    first.grad_fn


@provokes("BS209")
def one_of_several_views_of_which_another_was_changed_under_no_grad():
    first, second = (leaf(4) * 1).split(2)
    with torch.no_grad():
        second.zero_()
    first.mul_(2)


@provokes("BS209")
def a_view_made_under_no_grad_changed():
    base = leaf(4) * 1
    with torch.no_grad():
        view = base[:2]
    view.add_(1)


@provokes("BS209")
def a_view_made_under_no_grad_of_a_leaf_changed():
    x = leaf(4)
    with torch.no_grad():
        view = x.view(2, 2)
    view.mul_(2)


@provokes("BS209")
def the_base_of_a_view_made_under_no_grad_changed():
    base = leaf(4) * 1
    with torch.no_grad():
        view = base[:2]
    base.mul_(2)
    view.grad_fn


@provokes("BS209")
def one_of_several_views_made_under_no_grad_changed():
    base = leaf(4) * 1
    with torch.no_grad():
        view, _ = base.chunk(2)
    view.add_(1)


@provokes("BS209")
def a_view_of_a_view_made_under_no_grad_changed():
    base = leaf(4) * 1
    with torch.no_grad():
        view = base[:2]
    view[:1].add_(1)


@provokes("BS209")
def several_views_of_a_view_made_under_no_grad_changed():
    base = leaf(4) * 1
    with torch.no_grad():
        view = base[:2]
    view.chunk(2)[0].add_(1)


@provokes("BS209")
def the_base_of_a_view_of_a_view_made_under_no_grad_changed():
    base = leaf(4) * 1
    with torch.no_grad():
        view = base.view(2, 2)
    part = view.chunk(2)[0]
    base.mul_(2)
    part.grad_fn


@provokes("BS209")
def a_view_made_in_inference_mode_changed():
    base = leaf(4) * 1
    with torch.inference_mode():
        view = base[:2]
    view.add_(1)


@provokes("BS209")
def the_base_of_a_view_made_in_inference_mode_changed():
    base = leaf(4) * 1
    with torch.inference_mode():
        view = base[:2]
    base.mul_(2)
    view.grad_fn


@provokes("BS209")
def a_view_of_a_view_made_in_inference_mode_changed():
    base = leaf(4) * 1
    with torch.inference_mode():
        view = base[:2]
    view.chunk(2)[0].add_(1)


class View(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.view(2, 2)


class AsItIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


@provokes("BS209")
def a_view_returned_by_a_custom_function_changed():
    View.apply(leaf(2, 2) * 1).add_(1)


@provokes("BS209")
def an_input_returned_by_a_custom_function_changed():
    AsItIs.apply(leaf(2, 2) * 1).add_(1)


@provokes("BS209")
def the_base_of_a_view_returned_by_a_custom_function_changed():
    base = leaf(2, 2) * 1
    view = View.apply(base)
    base.add_(1)
    view.grad_fn


@provokes("BS213")
def an_attribute_of_a_missing_gradient():
    leaf().grad.zero_()


@provokes("BS213")
def an_attribute_of_a_missing_gradient_set():
    leaf().grad.requires_grad = True


@provokes("BS213")
def a_missing_gradient_multiplied():
    0.1 * leaf().grad


@provokes("BS213")
def a_missing_gradient_multiplied_by_a_tensor():
    torch.ones(3) * leaf().grad


@provokes("BS213")
def a_missing_gradient_subtracted():
    x = leaf()
    with torch.no_grad():
        x -= x.grad


@provokes("BS213")
def a_missing_gradient_negated():
    -leaf().grad


@provokes("BS213")
def an_element_of_a_missing_gradient():
    leaf().grad[0]


@provokes("BS213")
def a_missing_gradient_looped_over():
    list(leaf().grad)


@provokes("BS213")
def a_missing_gradient_as_a_number():
    float(leaf().grad)


@provokes("BS213")
def a_missing_gradient_as_an_argument():
    torch.norm(torch.ones(3).add(leaf().grad))


@provokes("BS213")
def missing_gradients_joined():
    torch.cat([leaf().grad, leaf().grad])


@provokes("BS213")
def missing_gradients_stacked():
    torch.stack([leaf().grad])


@provokes("BS213")
def a_missing_gradient_flattened():
    torch.linalg.vector_norm(leaf().grad)


@provokes("BS213")
def a_missing_gradient_copied():
    torch.empty(3).copy_(leaf().grad)


def inferred() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(3)


@provokes("BS214")
def an_inference_tensor_saved_for_backward():
    leaf() * inferred()


@provokes("BS214")
def an_inference_tensor_changed_outside():
    inferred().add_(1)


@provokes("BS214")
def an_inference_tensor_asked_for_its_gradient():
    inferred().requires_grad_()


@provokes("BS214")
def an_inference_tensor_saved_by_a_linear_layer():
    torch.nn.Linear(3, 2)(inferred())


@provokes("BS214")
def an_inference_tensor_saved_by_a_custom_function():
    from errors_of_graphs import Exp

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(scale)
            return x * scale

        backward = Exp.backward

    Scale.apply(leaf(), inferred())


@provokes("BS214")
def an_inference_tensor_changed_with_a_leaf():
    inferred().mul_(leaf())


@provokes("BS214")
def a_view_of_an_inference_tensor_changed_outside():
    inferred()[0].zero_()


@provokes("BS214")
def an_inference_tensor_as_out():
    torch.add(torch.ones(3), 1, out=inferred())
