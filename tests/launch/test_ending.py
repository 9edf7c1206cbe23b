"""What is remembered of a training for the look at its end stays little, however many optimizers it makes."""

from __future__ import annotations

import weakref

import torch

from backsight.launch import ending


def test_of_many_optimizers_the_newest_are_remembered() -> None:
    looking, made = ending.Ending(), []
    for _ in range(3 * ending._MOST):
        parameter = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        looking.stepping(optimizer)
        made.append((optimizer, weakref.ref(parameter)))
    assert len(looking._optimizers) == len(looking._kept) == ending._MOST
    assert looking.finding(audited=True) is None
    with torch.no_grad():
        made[-1][1]().fill_(torch.nan)  # type: ignore[union-attr]
    found = looking.finding(audited=True)
    assert found is not None and found.code == "BS108"


def test_nothing_large_outlives_a_training_whose_parameters_are_views_of_it() -> None:
    looking = ending.Ending()
    everything = torch.zeros(ending._SMALL)
    memory = weakref.ref(everything.untyped_storage())
    bias = everything[:2].requires_grad_()
    looking.stepping(torch.optim.SGD([bias], lr=0.1))
    del everything, bias
    assert memory() is None and looking.finding(audited=True) is None
