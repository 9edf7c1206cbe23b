"""BS219: the result of a computation where only a leaf, or values alone, will do."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import backsight as bs


def explained(run):
    try:
        run()
    except RuntimeError as error:
        return bs.explain(error)
    pytest.fail("nothing was raised")


def test_a_parameter_is_handed_to_numpy_by_its_values():
    model = nn.Linear(2, 1)

    def norms():
        return np.linalg.norm(model.weight.numpy(), axis=1)

    finding = explained(norms)
    assert finding.title.startswith("model.weight requires grad")
    assert "model.weight.detach().numpy()" in finding.fix
    assert "no_grad" not in finding.fix  # it was not computed


def test_what_a_call_returns_is_told_by_the_call():
    model = nn.Linear(2, 1)

    def predicted(x):
        return model(x).numpy()

    finding = explained(lambda: predicted(torch.ones(3, 2)))
    assert finding.title.startswith("model(x) requires grad")
    assert "model(x).detach().numpy()" in finding.fix


def test_a_tensor_alone_is_copied_by_its_values():
    weight = torch.ones(3, requires_grad=True)
    scaled = weight * 2

    def copied():
        return copy.deepcopy(scaled)

    finding = explained(copied)
    assert finding.title.startswith("scaled is a non-leaf tensor: it cannot be copied")
    assert "scaled.detach().clone()" in finding.fix


def test_modules_of_a_list_are_named_where_they_hold_it():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.cache = nn.Linear(2, 2), None

        def forward(self, x):
            self.cache = self.layer(x)
            return self.cache

    experts = nn.ModuleList([Block(), Block()])
    experts[1](torch.ones(1, 2))

    def cloned():
        return [copy.deepcopy(each) for each in experts]

    finding = explained(cloned)
    assert finding.title.startswith("experts.1.cache is a non-leaf tensor") or "experts[1].cache" in finding.title
    assert "self.cache = self.layer(x).detach()" in finding.fix


def test_out_is_left_out():
    rows = [torch.ones(2, requires_grad=True) * k for k in range(2)]
    buffer = torch.empty(2, 2)

    def stacked():
        return torch.stack(rows, out=buffer)

    finding = explained(stacked)
    assert "out= has no gradient" in finding.title
    assert "Drop out=." in finding.fix


class Embedded(torch.utils.data.Dataset):
    def __init__(self):
        self.samples = nn.Embedding(4, 2)(torch.arange(4))

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.samples[index]


def test_a_sample_that_requires_grad_is_told_of_a_worker(monkeypatch):
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)  # for so long a worker is waited for
    data = Embedded()
    finding = explained(lambda: next(iter(DataLoader(data, batch_size=2, num_workers=1))))
    assert finding.title.startswith("A sample of the dataset requires grad")
    assert "call detach() where it computes them" in finding.fix
    assert not finding.exact
    gc.collect()  # the worker goes now, while it is waited for no longer
