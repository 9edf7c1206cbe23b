"""BS219 in the workers of a DataLoader: a sample that requires grad is told with the line that computes it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import backsight as bs

SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


def explained(run):
    try:
        run()
    except RuntimeError as error:
        return bs.explain(error)
    pytest.fail("nothing was raised")


class Embedded(torch.utils.data.Dataset):
    def __init__(self):
        self.samples = nn.Embedding(4, 2)(torch.arange(4))

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.samples[index]


class Encoded(torch.utils.data.Dataset):
    def __init__(self, values=False):
        self.stem, self.values = nn.Linear(2, 2), values

    def __len__(self):
        return 4

    def __getitem__(self, index):
        x = torch.ones(2) * index
        code = self.stem(x).relu()
        return (code.numpy(), index) if self.values else (code, index)


class Streamed(torch.utils.data.IterableDataset):
    def __init__(self):
        self.stem = nn.Linear(2, 2)

    def coded(self, x):
        with torch.no_grad():
            scale = self.stem(x).norm()
        code = self.stem(x)
        return code / scale

    def __iter__(self):
        for _ in range(4):
            yield self.coded(torch.ones(2))


FAR = nn.Linear(2, 3)


def collated(batch):
    far = FAR(torch.stack([x.detach() for x, _ in batch]))
    return torch.utils.data.default_collate(list(far))


WORKERS = {
    "a tensor that the dataset holds": (Embedded, {}, "self.samples", "write `return self.samples[index].detach()`."),
    "what a module of the dataset computes": (
        Encoded,
        {},
        "code",
        "write `code = self.stem(x).relu().detach()`, or put",
    ),
    "a part of a dataset": (
        lambda: torch.utils.data.Subset(Encoded(), [0, 1]),
        {},
        "code",
        "write `code = self.stem(x).relu().detach()`, or put",
    ),
    "a method that a stream calls": (Streamed, {}, "code", "write `code = self.stem(x).detach()`, or put"),
    "a function that collates": (
        lambda: [(torch.ones(2), 0)] * 4,
        {"collate_fn": collated},
        "far",
        "write `far = FAR(torch.stack([x.detach() for x, _ in batch])).detach()`, or put",
    ),
}


@pytest.fixture
def quick_workers(monkeypatch):
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)  # for so long a worker is waited for


@pytest.mark.usefixtures("quick_workers")
@pytest.mark.parametrize("case", WORKERS)
def test_a_sample_that_requires_grad_is_told_of_a_worker(case):
    make, how, name, fix = WORKERS[case]
    data = make()
    finding = explained(lambda: next(iter(DataLoader(data, batch_size=2, num_workers=1, **how))))
    assert finding.title == f"{name} requires grad, but DataLoader workers can only pass values."
    statement = fix.split("`")[1].removesuffix(".detach()")
    line = next(number for number, text in enumerate(SOURCE, 1) if text.strip() == statement)
    assert finding.source is not None
    assert finding.source.endswith(f"test_explain_workers.py:{line}")
    assert fix in finding.fix
    assert not finding.exact


@pytest.mark.usefixtures("quick_workers")
def test_values_taken_in_a_worker_are_told_with_their_variable():
    data = Encoded(values=True)
    finding = explained(lambda: next(iter(DataLoader(data, batch_size=2, num_workers=1))))
    assert finding.title == "code requires grad, but NumPy arrays carry no gradient."
    assert "whose parameters require grad" in "\n".join(map(str, finding.evidence))
    assert "write `code = self.stem(x).relu().detach()`" in finding.fix


@pytest.mark.usefixtures("quick_workers")
def test_what_an_optimizer_trains_is_not_detached_in_a_worker():
    data = Encoded()
    optimizer = torch.optim.SGD(data.stem.parameters(), lr=0.1)

    def epoch():
        assert optimizer.param_groups
        next(iter(DataLoader(data, batch_size=2, num_workers=1)))

    finding = explained(epoch)
    assert finding.fix.startswith("optimizer trains self.stem, so its graph must reach the loss: on line")
    assert "num_workers=0" in finding.fix
    assert ".detach()" not in finding.fix
    next(iter(DataLoader(data, batch_size=2)))[0].sum().backward()
    assert data.stem.weight.grad is not None


@pytest.mark.usefixtures("quick_workers")
def test_values_of_what_an_optimizer_trains_would_fail_without_workers_too():
    data = Encoded(values=True)
    optimizer = torch.optim.SGD(data.stem.parameters(), lr=0.1)

    def epoch():
        assert optimizer.param_groups
        next(iter(DataLoader(data, batch_size=2, num_workers=1)))

    finding = explained(epoch)
    assert finding.fix.startswith("optimizer trains self.stem")
    assert "num_workers=0" not in finding.fix


@pytest.mark.usefixtures("quick_workers")
def test_a_sample_of_which_nothing_shows_why_it_requires_grad_is_told_without_a_line():
    data = [(torch.ones(2) * nn.Parameter(torch.ones(2)), 0)] * 4
    finding = explained(lambda: next(iter(DataLoader(data, batch_size=2, num_workers=1))))
    assert finding.title.startswith("A sample of the dataset requires grad")
    assert "call detach() where it computes them" in finding.fix
    assert finding.source is None
    gc.collect()  # the worker goes now, while it is waited for no longer
