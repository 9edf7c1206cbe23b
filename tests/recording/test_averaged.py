"""Gradients under DDP: each rank's own, and the one that the optimizer is given, which is the same on all ranks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import backsight as bs

pytest.importorskip("torch.distributed")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training of two processes, each with its own data."""
    folder = tmp_path_factory.mktemp("ddp")
    torch.multiprocessing.spawn(train, (2, str(folder)), nprocs=2)
    return bs.open_run(folder / "run")


def train(rank: int, world: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    with bs.record(model, optimizer, run=f"{folder}/run"):
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(5, 3)).square().mean().backward()
            optimizer.step()
    torch.distributed.destroy_process_group()


def norms(run, kind, rank=None):
    (name,) = {each.name for each in run.tensors if each.kind == kind and each.name.endswith("weight")}
    return run.series(name, "l2", kind=kind, rank=rank).values


@pytest.mark.slow
def test_the_averaged_gradient_is_the_same_on_all_ranks_and_read_once(run):
    assert list(norms(run, "averaged_grad", 0)) == list(norms(run, "averaged_grad", 1))
    assert list(norms(run, "averaged_grad")) == list(norms(run, "averaged_grad", 0))


def test_it_is_no_longer_than_what_the_ranks_have_added(run):
    mean = (norms(run, "grad", 0) + norms(run, "grad", 1)) / 2
    assert (norms(run, "averaged_grad") <= mean * (1 + 1e-6)).all()
    assert (norms(run, "averaged_grad") < mean).any()


def test_the_norm_of_all_gradients_is_that_of_the_averaged_ones(run):
    squares = sum(
        run.series(each.name, "l2", kind="averaged_grad").values ** 2
        for each in run.tensors
        if each.kind == "averaged_grad"
    )
    assert run.scalars()["grad_norm"].values == pytest.approx(squares**0.5)


def test_without_ddp_nothing_is_read_twice(tmp_path):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run=tmp_path / "run"):
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert "averaged_grad" not in {each.kind for each in bs.open_run(tmp_path / "run").tensors}
