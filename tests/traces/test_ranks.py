"""Trainings on several ranks, compared with one process: gradients averaged, shards joined."""

from __future__ import annotations

import os
import sys
import textwrap

import fresh
import pytest
import torch
from torch import nn

import backsight as bs

BATCH = torch.randn(8, 6, generator=torch.Generator().manual_seed(3))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 1))


def averaged(grads: list[torch.Tensor]) -> torch.Tensor:
    return sum(grads) / len(grads)


def on_ranks(path, monkeypatch, world=2, synchronize=averaged, loss=torch.mean, values=False, lr=0.1):
    """Train a step on each rank, one after the other, with the gradients that all of them together have."""
    nets = [model() for _ in range(world)]
    found = []
    for net, part in zip(nets, BATCH.chunk(world), strict=True):
        loss(net(part).square()).backward()
        found.append([each.grad.clone() for each in net.parameters()])
        net.zero_grad()
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        optimizer = torch.optim.SGD(nets[rank].parameters(), lr=lr)
        with bs.trace(path, values=values):
            loss(nets[rank](BATCH.chunk(world)[rank]).square()).backward()
            for k, each in enumerate(nets[rank].parameters()):
                if synchronize is not None:
                    each.grad = synchronize([grads[k] for grads in found])
            optimizer.step()
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    return path


@pytest.fixture
def alone(tmp_path, monkeypatch):
    return on_ranks(tmp_path / "alone", monkeypatch, 1)


@pytest.mark.parametrize("values", [False, True])
def test_averaged_gradients_are_those_of_one_process_but_for_rounding(tmp_path, monkeypatch, alone, values):
    two = on_ranks(tmp_path / "two", monkeypatch, values=values)
    difference = bs.diff(alone, two)
    assert difference.cls in ("same", "noise")
    assert difference.steps[0].losses[0] == pytest.approx(difference.steps[0].losses[1])
    assert "1 rank in A and 2 ranks in B: weights, gradients and losses are compared" in difference.notes[-1]
    assert difference.text() and difference.html() and difference.to_json()


def test_a_sum_in_place_of_an_average_is_named(tmp_path, monkeypatch, alone):
    summed = on_ranks(tmp_path / "two", monkeypatch, synchronize=sum)
    difference = bs.diff(alone, summed)
    assert (difference.cls, difference.first.code) == ("semantics", "BS507")
    assert difference.first.title.endswith("diverge in step 0, backward: the gradient of net.4.bias differs.")
    assert "B is A times 2: averaged over 2 ranks in one, and not in the other" in difference.origin.reasons
    assert "Average gradients over ranks" in difference.first.fix
    back = bs.diff(summed, alone)
    assert any("B is A times 0.5" in each for each in back.origin.reasons)


def test_gradients_that_nobody_averages_are_averaged_here_and_said_to_differ(tmp_path, monkeypatch, alone):
    apart = on_ranks(tmp_path / "two", monkeypatch, synchronize=None)
    difference = bs.diff(alone, apart)
    assert any(
        "are gradients that differ between ranks: their average is compared" in each for each in difference.notes
    )
    assert all(each.cls == "noise" for each in difference.steps[0].origins if each.origin.names[0].startswith("grad"))
    assert any("differ between ranks, as" in each for each in difference.notes)


def test_a_loss_that_is_another_is_told_with_the_gradients(tmp_path, monkeypatch, alone):
    difference = bs.diff(alone, on_ranks(tmp_path / "two", monkeypatch, loss=torch.sum))
    assert difference.first.code == "BS501" and "the loss differs as well" in difference.origin.reasons[0]


def test_another_learning_rate_is_the_optimizers_on_ranks_too(tmp_path, monkeypatch, alone):
    difference = bs.diff(alone, on_ranks(tmp_path / "two", monkeypatch, lr=0.2))
    assert [each.code for each in difference.findings if each.severity == "error"] == ["BS508"]


def test_as_many_ranks_are_compared_rank_by_rank(tmp_path, monkeypatch):
    paths = [on_ranks(tmp_path / name, monkeypatch) for name in ("a", "b")]
    for rank in (0, 1):
        difference = bs.diff(*paths, rank=rank)
        assert difference.same and difference.steps[0].agree > 10


SHARDED = """
    import os, sys, torch
    import torch.distributed as dist
    import backsight as bs
    from torch.distributed.fsdp import fully_shard
    sys.path += sys.argv[3:]
    from test_ranks import BATCH, model

    path, store = sys.argv[1:3]
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    net = model()
    fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.trace(path, model=net):
        net(BATCH.chunk(2)[rank]).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_shards_of_fsdp2_are_joined(tmp_path, alone):
    pytest.importorskip("torch.distributed.fsdp", reason="needs FSDP2")
    if not hasattr(torch.distributed.fsdp, "fully_shard"):
        pytest.skip("this PyTorch has no FSDP2")
    command = [sys.executable, "-c", textwrap.dedent(SHARDED), str(tmp_path / "fsdp"), str(tmp_path / "store")]
    command += [os.path.dirname(__file__), os.path.dirname(fresh.__file__)]
    envs = [{**os.environ, "RANK": str(n), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"} for n in range(2)]
    ranks = fresh.run_together(command, command, envs=envs)
    assert [rank.returncode for rank in ranks] == [0, 0], ranks
    held = bs.open_trace(tmp_path / "fsdp", 1)
    assert {each.dimension for each in held.shards.values()} == {0}
    difference = bs.diff(alone, tmp_path / "fsdp")
    names = {each.name for each in difference.steps[0].points if each.what in ("grad", "weight")}
    assert difference.cls in ("same", "noise") and "net.2.weight" in names
    far = [each.relative for each in difference.steps[0].points if each.what in ("grad", "weight")]
    assert max(far) < 1e-4
