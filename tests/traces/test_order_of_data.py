"""Other samples of the same data: told as the data, with what draws their order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

import backsight as bs


class Drawn(Sampler):
    """Draws another order in each epoch, unless nobody tells it which."""

    def __init__(self, count: int):
        self.count, self.epoch = count, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(self.count, generator=generator).tolist())

    def __len__(self) -> int:
        return self.count


class Pairs(TensorDataset):
    def __getitem__(self, k):
        return tuple(each[k] for each in self.tensors)


def trained(path: Path, batches, step: int = 0) -> Path:
    """Train two epochs of three steps, and trace one step; batches yields those of an epoch."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(24, 6, generator=generator)
    y = x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.trace(path, steps=step):
        for epoch in range(2):
            for some, wanted in batches(x, y, epoch):
                optimizer.zero_grad()
                nn.functional.mse_loss(model(some), wanted).backward()
                optimizer.step()
    return path


def loaded(told: bool):
    sampler = Drawn(24)

    def batches(x, y, epoch):
        if told:
            sampler.epoch = epoch
        return DataLoader(Pairs(x, y), batch_size=8, sampler=sampler)

    return batches


def indexed(seed: int, used: bool = False):
    generator = torch.Generator().manual_seed(seed)
    if used:
        torch.randn(3, generator=generator)

    def batches(x, y, epoch):
        for _ in range(3):
            picked = torch.randint(len(x), (8,), generator=generator)
            yield x[picked], y[picked]

    return batches


def test_a_sampler_that_is_not_told_the_epoch_is_the_data_and_its_seed_is_said(tmp_path):
    difference = bs.diff(trained(tmp_path / "a", loaded(True), 3), trained(tmp_path / "b", loaded(False), 3))
    assert (difference.cls, difference.first.code) == ("semantics", "BS505"), difference.text()
    assert "randperm draws a different order" in difference.first.title
    assert "`generator` is freshly seeded with 1 in A and freshly seeded with 0 in B" in difference.origin.reasons
    assert [each.code for each in difference.findings] == ["BS505"]


@pytest.mark.parametrize("used", [False, True])
def test_indices_that_are_drawn_otherwise_are_the_data(tmp_path, used):
    theirs = indexed(0, used=True) if used else indexed(5)
    difference = bs.diff(trained(tmp_path / "a", indexed(0)), trained(tmp_path / "b", theirs))
    assert difference.first.code == "BS505", difference.text()
    assert "randint draws a different order" in difference.first.title
    assert "picked = torch.randint(len(x), (8,), generator=generator)" in difference.origin.origin.places[1].text


def test_whole_numbers_that_are_drawn_for_the_model_are_no_data(tmp_path):
    def noised(seed):
        generator = torch.Generator().manual_seed(seed)

        def batches(x, y, epoch):
            for _ in range(3):
                level = torch.randint(1, 9, (len(x), 1), generator=generator)
                yield x * level, y

        return batches

    difference = bs.diff(trained(tmp_path / "a", noised(0)), trained(tmp_path / "b", noised(1)))
    assert difference.first.code == "BS506", difference.text()


def test_another_column_of_what_the_model_computes_is_no_other_sample(tmp_path):
    def train(path, column):
        torch.manual_seed(0)
        layer = nn.Linear(4, 4)
        with bs.trace(path) as trace:
            layer(torch.ones(2, 4))[column].sum().backward()
            trace.step()
        return path

    difference = bs.diff(train(tmp_path / "a", 0), train(tmp_path / "b", 1))
    assert difference.cls == "same" or difference.first.code != "BS505", difference.text()
