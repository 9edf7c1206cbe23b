"""Trainings of several processes, started as by torchrun and traced by `backsight run --trace`, beside one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import fresh
import pytest
import torch

import backsight as bs

PROGRAM = Path(__file__).parent / "training_on_ranks.py"

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed"),
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo"),
]


def traced(
    folder: Path, how: str, ranks: int = 2, *, bug: str = "", into: str | None = None, values: bool = False
) -> Path:
    """Run the program, each rank with what torchrun would give it, and return the folder of its trace."""
    into = into if into is not None else f"{how} {bug}".strip()
    envs = [{**os.environ}] if how == "alone" else fresh.given_by_torchrun(ranks)
    command = [sys.executable, *observed(how, bug, into, values)]
    for ran in fresh.run_together(*[command] * len(envs), envs=envs, cwd=folder):
        assert ran.returncode == 0, ran.stderr
    return folder / into


def observed(how: str, bug: str, into: str, values: bool) -> list[str]:
    options = [*(["--into", into] if into else []), *(["--values"] if values else [])]
    words = ["-m", "backsight", "run", "--trace", "steps=0,2", *options, str(PROGRAM), how]
    return [*words, bug] if bug else words


def traced_under_torchrun(folder: Path, how: str) -> Path:
    """The same by torchrun itself, into a folder that the ranks agree upon."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    command = [*start, *observed(how, "", "", False)]
    ran = fresh.run(command, cwd=folder, env=env, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return next((folder / "traces").iterdir())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def alone(folder) -> Path:
    return traced(folder, "alone")


def compared(difference: bs.Difference, what: str) -> dict[str, float]:
    return {each.name: each.relative for each in difference.steps[0].points if each.what == what}


NAMES = {f"net.{layer}.{name}" for layer in (0, 2, 3, 4) for name in ("weight", "bias")}


def test_two_ranks_of_ddp_are_one_process_but_for_rounding(folder, alone):
    two = traced_under_torchrun(folder, "ddp")
    assert sorted(each.name for each in two.iterdir()) == ["0.trace", "1.trace"]
    assert len(list((folder / "traces").iterdir())) == 1
    difference = bs.diff(alone, two)
    assert difference.cls in ("same", "noise"), difference.text()
    assert [step.step for step in difference.steps] == [0, 2]
    for what in ("grad", "weight"):
        assert compared(difference, what).keys() == NAMES and max(compared(difference, what).values()) < 1e-4
    losses = [loss for step in difference.steps for loss in step.losses]
    assert None not in losses and losses[0] == pytest.approx(losses[1]) and losses[2] == pytest.approx(losses[3])


def test_shards_of_fsdp2_on_two_ranks_are_joined(folder, alone):
    difference = bs.diff(alone, traced(folder, "fsdp", values=True))
    assert difference.cls in ("same", "noise"), difference.text()
    for what in ("grad", "weight"):
        assert compared(difference, what).keys() == NAMES and max(compared(difference, what).values()) < 1e-4


@pytest.mark.slow
def test_shards_of_replicas_on_a_mesh_of_two_dimensions_are_joined(folder, alone):
    four = traced(folder, "replicas", ranks=4)
    assert len(list(four.iterdir())) == 4
    difference = bs.diff(alone, four)
    assert difference.cls in ("same", "noise"), difference.text()
    assert compared(difference, "grad").keys() == NAMES - {"net.2.weight"}  # too large to be kept without --values
    assert any("are sharded, and were not kept whole: trace with --values" in each for each in difference.notes)
    assert not any("replicas" in each for each in difference.notes)


@pytest.mark.slow
def test_what_two_dimensions_of_a_mesh_split_is_said_not_to_be_compared(folder, alone):
    difference = bs.diff(alone, traced(folder, "tensor", ranks=4, values=True))
    assert difference.cls in ("same", "noise"), difference.text()
    assert compared(difference, "grad").keys() >= {"net.3.weight", "net.3.bias", "net.4.weight", "net.4.bias"}
    assert "net.0.weight" not in compared(difference, "grad")
    assert any(
        "were not read, as net.0.weight: sparse, a partial sum, or split by two" in each for each in difference.notes
    )


def test_gradients_that_are_averaged_twice_are_named(folder, alone):
    difference = bs.diff(alone, traced(folder, "ddp", bug="averaged twice"))
    assert difference.cls == "semantics" and difference.first.code == "BS507"
    assert any("B is A times 0.5" in each for each in difference.origin.reasons)


def test_ranks_that_train_on_the_same_part_have_another_loss(folder, alone):
    difference = bs.diff(alone, traced(folder, "ddp", bug="same data"))
    assert difference.cls == "semantics" and difference.first.code == "BS501"
    assert "the loss differs as well" in difference.origin.reasons[0]
