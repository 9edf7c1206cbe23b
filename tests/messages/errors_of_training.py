"""Errors of the code around a training step: what backward is called on, what an optimizer is given, a GradScaler."""

from __future__ import annotations

import numpy as np
import torch
from errors_of_graphs import leaf
from provoking import provokes


@provokes("BS222")
def backward_of_a_number():
    leaf().sum().item().backward()


@provokes("BS222")
def backward_of_a_plain_integer():
    (0).backward()


@provokes("BS222")
def backward_of_a_number_of_numpy():
    np.mean(leaf().detach().numpy()).backward()


@provokes("BS222")
def backward_of_an_array():
    leaf().detach().numpy().backward()


@provokes("BS222")
def backward_of_a_tuple():
    (leaf().sum(), 1).backward()


@provokes("BS222")
def backward_of_a_dict():
    {"loss": leaf().sum()}.backward()


@provokes("BS222")
def a_number_given_to_a_scaler():
    torch.amp.GradScaler("cpu").scale(leaf().sum().item())


@provokes("BS223")
def an_optimizer_without_parameters():
    torch.optim.SGD([], lr=0.1)


def scaled():
    x = leaf()
    scaler = torch.amp.GradScaler("cpu")
    return scaler, torch.optim.SGD([x], lr=0.1), x.sum()


@provokes("BS224")
def gradients_unscaled_twice():
    scaler, optimizer, loss = scaled()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


@provokes("BS224")
def gradients_unscaled_after_the_step():
    scaler, optimizer, loss = scaled()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.unscale_(optimizer)


@provokes("BS224")
def a_second_step_of_a_scaler():
    scaler, optimizer, loss = scaled()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.step(optimizer)


@provokes("BS224")
def a_step_of_a_scaler_that_has_scaled_nothing():
    scaler, optimizer, loss = scaled()
    loss.backward()
    scaler.step(optimizer)


@provokes("BS224")
def gradients_unscaled_that_were_never_scaled():
    scaler, optimizer, loss = scaled()
    loss.backward()
    scaler.unscale_(optimizer)


@provokes("BS224")
def an_update_of_a_scaler_that_has_scaled_nothing():
    scaler, _, loss = scaled()
    loss.backward()
    scaler.update()


@provokes("BS224")
def a_step_of_a_scaler_without_gradients():
    scaler, optimizer, _ = scaled()
    scaler.scale(torch.ones(()))
    scaler.step(optimizer)


@provokes("BS224")
def an_update_of_a_scaler_without_a_step():
    scaler, _, loss = scaled()
    scaler.scale(loss).backward()
    scaler.update()


@provokes("BS224")
def half_precision_gradients_unscaled():
    scaler, x = torch.amp.GradScaler("cpu"), leaf().half().detach().requires_grad_()
    scaler.scale(x.sum()).backward()
    scaler.step(torch.optim.SGD([x], lr=0.1))


@provokes(None)
def a_closure_given_to_a_scaler():
    scaler, optimizer, loss = scaled()
    scaler.scale(loss).backward()
    scaler.step(optimizer, closure=lambda: loss)


@provokes(None)
def a_number_given_to_an_optimizer():
    torch.optim.SGD([1.0], lr=0.1)


@provokes(None)
def a_tensor_given_to_an_optimizer():
    torch.optim.SGD(leaf(), lr=0.1)


@provokes(None)
def backward_of_a_class_of_ones_own():
    type("Layer", (), {})().backward()


def one_cycle(**length):
    optimizer = torch.optim.SGD([leaf()], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, **length)
    for _ in range(5):
        optimizer.step()
        schedule.step()


@provokes("BS234")
def a_schedule_stepped_past_its_end():
    one_cycle(total_steps=4)


@provokes("BS234")
def a_schedule_of_epochs_stepped_past_its_end():
    one_cycle(epochs=2, steps_per_epoch=2)
