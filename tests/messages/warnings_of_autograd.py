"""Warnings about autograd: those that are explained (BS216 to BS218), hushed because we cause them, and left alone."""

from __future__ import annotations

import warnings

import torch
from errors_of_graphs import leaf
from provoking import in_library, warns


@warns("BS216")
def the_gradient_of_a_result_read():
    (leaf() * 2).grad


@warns("BS216")
def the_gradient_of_a_result_read_after_backward():
    y = leaf() * 2
    y.sum().backward()
    y.grad


@warns("BS217")
def backward_with_create_graph():
    leaf().pow(2).sum().backward(create_graph=True)


@warns("BS218")
def a_gradient_from_another_stream():
    warnings.warn(in_library("The AccumulateGrad node's stream does not match"), UserWarning, stacklevel=1)


@warns(None)
def a_compiled_module_under_global_hooks():
    import torch._dynamo

    handle = torch.nn.modules.module.register_module_forward_hook(lambda *args: None)
    try:
        torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))
    finally:
        handle.remove()


@warns(None)
def a_schedule_stepped_before_its_optimizer():
    optimizer = torch.optim.SGD([leaf()], lr=0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1).step()


@warns(None)
def a_full_backward_hook_without_gradients_of_inputs():
    layer = torch.nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda *args: None)
    layer(torch.ones(1, 3)).sum().backward()


@warns(None)
def a_backward_hook_of_the_old_kind():
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    net.register_backward_hook(lambda *args: None)
    net(leaf(1, 3)).sum().backward()


@warns(None)
def a_result_as_a_number():
    float(leaf(1).sum() * 2)


@warns(None)
def a_tensor_made_of_a_tensor():
    torch.tensor(leaf() * 2)


@warns(None)
def anomaly_mode_entered():
    with torch.autograd.detect_anomaly():
        pass


@warns(None)
def the_traceback_of_an_anomaly():
    with torch.autograd.set_detect_anomaly(True):
        y = (leaf() * 0).sqrt()
        try:
            y.mul(0).sum().backward()
        except RuntimeError:
            return


@warns("BS227")
def a_reentrant_checkpoint_of_constants():
    torch.utils.checkpoint.checkpoint(torch.exp, torch.ones(3), use_reentrant=True)


@warns(None)
def a_checkpoint_that_does_not_say_how():
    torch.utils.checkpoint.checkpoint(torch.exp, leaf())


@warns(None)
def a_loss_of_shapes_that_differ():
    torch.nn.functional.mse_loss(leaf(3, 1), torch.ones(3))


@warns(None)
def a_broadcast_changed_in_place():
    torch.nn.functional.l1_loss(torch.ones(2, 1), torch.ones(2))
