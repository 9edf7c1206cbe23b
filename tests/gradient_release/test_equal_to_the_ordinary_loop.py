"""Released steps leave the same bits as ordinary ones: every optimizer of torch.optim, in every implementation."""

from __future__ import annotations

import functools

import pytest
import torch
from loops import INFINITE, assert_same, decayed, gpt, loss_of, train
from sharded import examples
from torch import optim

STEPS = examples(32)

OPTIMIZERS = {
    "SGD": functools.partial(optim.SGD, lr=1e-2),
    "SGD with momentum": functools.partial(optim.SGD, lr=1e-2, momentum=0.9, dampening=0.1),
    "SGD with nesterov": functools.partial(optim.SGD, lr=1e-2, momentum=0.9, nesterov=True, maximize=True),
    "Adam": functools.partial(optim.Adam, lr=1e-3),
    "Adam amsgrad": functools.partial(optim.Adam, lr=1e-3, amsgrad=True),
    "AdamW": functools.partial(optim.AdamW, lr=1e-3),
    "RMSprop": functools.partial(optim.RMSprop, lr=1e-3, momentum=0.9, centered=True),
    "Adagrad": functools.partial(optim.Adagrad, lr=1e-2),
    "Adadelta": functools.partial(optim.Adadelta, lr=1.0),
    "Adamax": functools.partial(optim.Adamax, lr=1e-3),
    "NAdam": functools.partial(optim.NAdam, lr=1e-3, decoupled_weight_decay=True),
    "RAdam": functools.partial(optim.RAdam, lr=1e-3),
    "ASGD": functools.partial(optim.ASGD, lr=1e-3),
    "Rprop": functools.partial(optim.Rprop, lr=1e-3),
    "Adafactor": functools.partial(optim.Adafactor, lr=1e-2),
    "Muon": functools.partial(optim.Muon, lr=1e-2) if hasattr(optim, "Muon") else None,
}
IMPLEMENTATIONS = {
    "by default": {},
    "loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def exists(name, implementation):
    try:
        OPTIMIZERS[name]([torch.zeros(2, 2, requires_grad=True)], **IMPLEMENTATIONS[implementation])
    except (RuntimeError, TypeError):
        return False
    return True


EACH = [(name, way) for name in OPTIMIZERS if OPTIMIZERS[name] for way in IMPLEMENTATIONS if exists(name, way)]


def trained(name, implementation, bucket):
    model = gpt()
    groups = decayed(model)
    if name == "Muon":
        groups = [{"params": [each for each in model.blocks.parameters() if each.dim() == 2]}]
    if name == "Rprop":
        groups = [{"params": group["params"]} for group in groups]
    optimizer = OPTIMIZERS[name](groups, **IMPLEMENTATIONS[implementation])
    cycle = "momentum" in optimizer.defaults or "betas" in optimizer.defaults
    scheduler = optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=[1e-2] * len(groups), total_steps=STEPS + 1, cycle_momentum=cycle and name != "Muon"
    )
    train(model, optimizer, STEPS, bucket=bucket, loss=loss_of, scheduler=scheduler)
    return model, optimizer


@pytest.mark.parametrize(("name", "implementation"), EACH)
def test_weights_state_and_groups_have_the_same_bits(name, implementation):
    expected = trained(name, implementation, None)
    for bucket in (0, "64KB", INFINITE):
        assert_same(trained(name, implementation, bucket), expected)


def test_every_optimizer_of_torch_is_in_the_comparison_or_refused():
    every = {name for name in dir(optim) if isinstance(getattr(optim, name), type) and name != "Optimizer"}
    assert every - {name.split()[0] for name in OPTIMIZERS} == {"LBFGS", "SparseAdam"}


def test_every_implementation_is_in_the_comparison():
    assert {("AdamW", "fused"), ("AdamW", "foreach"), ("Adagrad", "fused"), ("SGD", "fused")} <= set(EACH)
    assert len(EACH) >= 45
