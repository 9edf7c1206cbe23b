"""Errors of hooks: what a hook of a tensor, a node or a module has returned."""

from __future__ import annotations

import functools

import torch
from errors_of_graphs import leaf
from provoking import provokes


def first(gradient):
    return gradient[:1]


@provokes("BS225")
def a_hook_that_changes_the_shape():
    y = leaf() * 2
    y.register_hook(lambda gradient: gradient[:1])
    y.sum().backward()


@provokes("BS225")
def a_hook_without_a_name_that_changes_the_shape():
    y = leaf() * 2
    y.register_hook(functools.partial(first))
    y.sum().backward()


@provokes("BS225")
def a_hook_that_changes_the_dtype():
    y = leaf() * 2
    y.register_hook(lambda gradient: gradient.double())
    y.sum().backward()


@provokes("BS225")
def a_hook_that_changes_the_device():
    y = leaf() * 2
    y.register_hook(lambda gradient: gradient.to("meta"))
    y.sum().backward()


@provokes("BS225")
def a_hook_that_returns_a_number():
    y = leaf() * 2
    y.register_hook(lambda gradient: 1.0)
    y.sum().backward()


@provokes("BS225")
def a_hook_that_returns_a_tuple():
    y = leaf() * 2
    y.register_hook(lambda gradient: (gradient,))
    y.sum().backward()


@provokes("BS225")
def a_hook_of_a_node_that_returns_a_tensor():
    y = leaf() * 2
    y.grad_fn.register_hook(lambda inputs, outputs: inputs[0])
    y.sum().backward()


@provokes("BS225")
def a_hook_of_a_node_that_returns_too_many():
    y = leaf() * 2
    y.grad_fn.register_hook(lambda inputs, outputs: inputs * 2)
    y.sum().backward()


@provokes("BS225")
def a_hook_of_a_module_that_changes_the_shape():
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0][:1],))
    layer(torch.ones(4, 3, requires_grad=True)).sum().backward()


@provokes("BS225")
def a_hook_of_a_module_that_returns_too_many():
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: inputs * 2)
    layer(torch.ones(4, 3, requires_grad=True)).sum().backward()


@provokes("BS225")
def a_hook_of_a_module_whose_input_needs_no_gradient():
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: outputs)
    layer(torch.ones(4, 3)).sum().backward()


@provokes("BS225")
def a_hook_before_a_module_that_returns_too_many():
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_pre_hook(lambda module, outputs: outputs * 2)
    layer(torch.ones(4, 3, requires_grad=True)).sum().backward()


@provokes(None)
def a_hook_of_a_module_that_returns_a_number():
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: 2.0)
    layer(torch.ones(4, 3, requires_grad=True)).sum().backward()


@provokes(None)
def a_saved_tensor_unpacked_as_an_array():
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach().numpy(), lambda array: array):
        y = leaf().exp()
    y.sum().backward()
