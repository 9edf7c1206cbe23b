"""Several processes that train together, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import fresh
import pytest
import torch
from trainings import rows

import backsight as bs

TOGETHER = """
    import os, sys, torch
    import torch.distributed as dist
    import backsight as bs

    way, run, store = sys.argv[1:]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    if way == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        trained = fully_shard(model)
    else:
        trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(trained.parameters())
    with bs.record(model if way != "ddp, wrapped" else trained, run=run):
        for step in range(3):
            optimizer.zero_grad()
            trained(torch.full((2, 4), rank + 1.0)).sum().backward()
            optimizer.step()
    dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
@pytest.mark.parametrize("way", ["ddp", "ddp, wrapped", "fsdp2"])
def test_ranks_that_train_together_make_one_run_with_true_numbers(run, tmp_path, way):
    command = [sys.executable, "-c", textwrap.dedent(TOGETHER), way, str(run), str(tmp_path / "store")]
    envs = [{**os.environ, "RANK": str(n), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"} for n in range(2)]
    ranks = fresh.run_together(command, command, envs=envs, timeout=120)
    assert [rank.returncode for rank in ranks] == [0, 0], ranks
    torch.manual_seed(0)
    weight = torch.nn.Linear(4, 4).weight.detach().double()
    prefix = "module." if way == "ddp, wrapped" else ""
    (first,) = rows(run, tensor=f"{prefix}0.weight", kind="weight", steps=0)
    assert (first["count"], first["mean"]) == (16, pytest.approx(weight.mean().item()))
    assert first["l2"] == pytest.approx(weight.norm().item())
    (given,) = rows(run, tensor=f"{prefix}0.input", steps=0)
    assert (given["count"], given["mean"], given["ranks"]) == (16, 1.5, 2)
    (state,) = rows(run, tensor=f"{prefix}0.weight.exp_avg", steps=2)
    assert state["count"] == 16
    assert bs.open_run(run).steps.tolist() == [0, 1, 2]
    assert len({json.loads((run / f"rank-0000{k}" / "manifest.json").read_bytes())["job"] for k in range(2)}) == 1
    trained = {f"{prefix}{layer}.{name}" for layer in (0, 2) for name in ("weight", "bias")}
    assert {leaf.name for leaf in bs.open_run(run).graph.leaves} == trained


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("moment", [0.0, 0.03, 0.11, 0.3])
def test_what_a_killed_training_had_written_is_read_and_true(run, moment):
    program = f"""
        import torch, backsight as bs
        model = torch.nn.Linear(4, 1, bias=False)
        torch.nn.init.constant_(model.weight, 0.0)
        with bs.record(model, run={str(run)!r}) as rec:
            while True:
                model(torch.ones(1, 4))
                with torch.no_grad():
                    model.weight += 1
                rec.step()
                if rec.steps == 20:
                    rec.flush()
                    print("ready", flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout.readline() == b"ready\n"
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    steps = bs.open_run(run).steps.tolist()
    assert len(steps) >= 20
    assert all(row["mean"] == row["step"] for row in rows(run, tensor="weight", kind="weight"))
    assert len(rows(run, tensor="weight", kind="weight")) >= 20


def test_at_the_end_of_a_program_a_recording_that_fails_to_close_does_not_keep_others_from_it(tmp_path, in_a_process):
    done = in_a_process(
        f"""
        import torch, backsight as bs
        from backsight.recording import processes

        class Broken:
            def close(self):
                raise ValueError("inside backsight")

        held = []
        for name in "abc":
            model = torch.nn.Linear(2, 1)
            held.append((model, Broken(), bs.record(model, run={str(tmp_path)!r} + "/" + name)))
            processes.add(held[-1][1])
            model(torch.ones(1, 2))
        """
    )
    said = done.stderr.splitlines()
    assert len(said) == 3
    assert all(
        line.startswith("backsight: a recording was not closed; what was flushed is safe: ValueError") for line in said
    )
    assert all(names_of(tmp_path / name) for name in "abc")


def names_of(path):
    """Return the outputs that a run holds."""
    return {row["tensor"] for row in rows(path, kind="output")}
