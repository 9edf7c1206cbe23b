"""Which job a rank belongs to, and that those of two jobs never make one run."""

from __future__ import annotations

import json
import os
import sys

import fresh
import pytest
import torch

import backsight as bs
from backsight.recording.job import job
from backsight.runs import RunExists, RunWriter, places

LOGS = "/logs/torchelastic_q/none_{}/attempt_{}/{}/error.json"


def of_torchrun(rank, *, start="abc", attempt=0, name="none", nodes=1):
    """What torchrun puts around a rank."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(2 * nodes),
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": name,
        "TORCHELASTIC_ERROR_FILE": LOGS.format(start, attempt, rank % 2),
    }


def test_the_ranks_of_a_start_are_one_job_and_those_of_the_next_start_or_attempt_another():
    first = job(of_torchrun(0))
    assert first is not None and first == job(of_torchrun(1))
    assert len({first, job(of_torchrun(0, start="xyz")), job(of_torchrun(0, attempt=1))}) == 3


def test_over_several_machines_it_is_the_name_that_torchrun_was_given_and_the_address_of_the_first():
    night = job(of_torchrun(0, nodes=2, name="night"))
    assert night == job(of_torchrun(2, nodes=2, name="night", start="xyz")) == "torchrun night, localhost:29500"
    assert night != job({**of_torchrun(0, nodes=2, name="night"), "MASTER_PORT": "41017"})
    assert job(of_torchrun(0, nodes=2)) == job(of_torchrun(2, nodes=2, start="xyz")) == "localhost:29500"


def test_under_slurm_it_is_its_job_step_and_restart():
    around = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}
    assert job(around) == "slurm 4711.0"
    assert job({**around, "SLURM_RESTART_COUNT": "1"}) != job(around)


def test_where_nothing_tells_there_is_no_name():
    assert job({}) is None


def test_torchrun_gives_a_job_of_its_own_to_each_start(tmp_path):
    script = tmp_path / "said.py"
    script.write_text(
        "import json, os, pathlib\n"
        "pathlib.Path(os.environ['SAID'] + os.environ['RANK']).write_text(json.dumps(dict(os.environ)))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    said = set()
    for start in "ab":
        at = tmp_path / start
        fresh.run(command, env={**os.environ, "SAID": str(at), "OMP_NUM_THREADS": "1"}, check=True, timeout=120)
        ranks = [job(json.loads((tmp_path / f"{start}{rank}").read_text())) for rank in range(2)]
        assert ranks[0] == ranks[1] is not None
        said.add(ranks[0])
    assert len(said) == 2


TRAINING = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


RECORDED = ["-m", "backsight", "run", "--record", "--every", "1"]


def made_one_run(folder, said):
    (run,) = bs.runs_in(folder / "runs")
    assert run.ranks == (0, 1) and run.steps.tolist() == [0, 1, 2]
    return said.count(f"3 steps recorded: backsight runs show runs/{run.name}") == 1


def test_under_torchrun_the_ranks_make_one_run_though_none_is_named(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    started = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *RECORDED, "train.py"]
    done = fresh.run(started, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert made_one_run(tmp_path, done.stderr)


def test_ranks_of_one_start_make_one_run_where_it_is_named_too(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    command = [sys.executable, *RECORDED, "--into", "runs/mine", "train.py"]
    envs = [{**os.environ, **of_torchrun(rank)} for rank in range(2)]
    ranks = fresh.run_together(command, command, envs=envs, timeout=120, cwd=tmp_path)
    assert [rank.returncode for rank in ranks] == [0, 0], ranks
    assert made_one_run(tmp_path, "".join(rank.stderr for rank in ranks))


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_where_several_starts_look_alike_the_ranks_of_a_process_group_agree_on_a_name():
    around, said = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}, []
    for _ in range(2):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        try:
            said += [job(around), job(around), job({})]
        finally:
            torch.distributed.destroy_process_group()
    first, again, alone = said[:3]
    assert first == again and first.startswith("localhost:29500, start ") and first.endswith(alone)
    assert len(set(said)) == 4


def recorded(rank, around, run, monkeypatch):
    """Record a step as this rank of a job; the recorder is closed."""
    for name, value in around.items():
        monkeypatch.setenv(name, value)
    model = torch.nn.Linear(2, 1)
    with bs.record(model, run=run) as rec:
        model(torch.ones(1, 2))
        rec.step()
    return rec


def test_a_rank_does_not_write_into_what_an_earlier_job_has_begun_and_never_finished(run, monkeypatch):
    recorded(0, of_torchrun(0), run, monkeypatch)  # its rank 1 died before it began
    with pytest.warns(bs.RecordingWarning, match=r"Rank 0 of another job \(torchrun none_abc/attempt_0\)") as warned:
        second = recorded(1, of_torchrun(1, start="xyz"), run, monkeypatch)
    with pytest.warns(bs.RecordingWarning, match="There is already a run in"):
        first = recorded(0, of_torchrun(0, start="xyz"), run, monkeypatch)
    assert len(warned) == 1
    assert second.run == first.run == run.with_name("run-2")
    assert bs.open_run(run).ranks == (0,)
    assert bs.open_run(first.run).ranks == (0, 1)


def test_of_two_jobs_that_begin_at_once_one_has_the_run(run, monkeypatch):
    monkeypatch.setattr(places, "_refuse_others", lambda *_: None)  # as if neither had seen the other's rank
    RunWriter(run, rank=0, world=2, job="a").close()
    with pytest.raises(RunExists, match=r"Another job \(a\) wrote into .*, but this is rank 1 of b\. Choose"):
        RunWriter(run, rank=1, world=2, job="b")
    RunWriter(run, rank=1, world=2, job="a").close()
    assert bs.open_run(run).ranks == (0, 1)
    assert sorted(os.listdir(run)) == [".job", "rank-00000", "rank-00001"]


def test_without_hard_links_the_manifests_tell_jobs_apart(run, monkeypatch):
    def link(*_):
        raise OSError("not on this file system")

    monkeypatch.setattr(os, "link", link)
    RunWriter(run, rank=0, world=2, job="a").close()
    with pytest.raises(RunExists, match=r"Rank 0 of another job \(a\)"):
        RunWriter(run, rank=1, world=2, job="b")
    assert os.listdir(run) == ["rank-00000"]


def test_ranks_of_two_jobs_in_one_run_are_not_merged(run, monkeypatch):
    from backsight.runs import RunWarning, lines

    for rank in range(2):
        recorded(rank, of_torchrun(rank), run, monkeypatch)
    manifest = run / "rank-00001" / "manifest.json"
    manifest.write_bytes(lines.sealed({**lines.opened(manifest.read_bytes()[:-1]), "job": "torchrun another"}))
    assert json.loads(manifest.read_bytes())["job"] == "torchrun another"
    held = bs.open_run(run)
    with pytest.warns(RunWarning, match="rank 1 was written by a different job than rank 0"):
        found = held.frame(tensor="weight", kind="weight", as_="numpy")
    assert held.ranks == (0,) and found["count"].tolist() == [2] and found["ranks"].tolist() == [1]
