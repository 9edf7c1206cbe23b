"""The example of several processes, run for true: four ranks are one run, also when one of them is killed."""

from __future__ import annotations

import base64
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import fresh
import numpy as np
import pytest
import torch

import backsight as bs
from backsight.viewer import Library

ROOT = Path(__file__).parents[1]
RANKS = range(4)
STEPS = 11
KILLED_AT = 8

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]


PROGRAM = [str(ROOT / "examples" / "distributed.py"), "--epochs", "1"]


def forked(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the example on four ranks that have what torchrun would give them; return what the first one said."""
    command = [sys.executable, *PROGRAM, *arguments]
    return fresh.run_together(*[command] * 4, envs=fresh.given_by_torchrun(4), cwd=folder, timeout=240)[0]


def launched(folder: Path, *arguments: str, torchrun: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the example on four processes of torchrun's."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", *torchrun]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return fresh.run([*launcher, *PROGRAM, *arguments], cwd=folder, env=env, timeout=240)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An FSDP2 run, and a DDP run of which a rank is killed, after which torchrun starts all four once more."""
    folder = tmp_path_factory.mktemp("distributed")
    sharded = forked(folder, "--fsdp", "--release", "--into", "runs/fsdp")
    killed = ("--kill", "2", "--at", str(KILLED_AT), "--release", "--into", "runs/ddp")
    again = launched(folder, *killed, torchrun=("--max-restarts", "1"))
    return SimpleNamespace(folder=folder, runs=folder / "runs", sharded=sharded, again=again)


@pytest.fixture(scope="module")
def fsdp(made):
    return bs.open_run(made.runs / "fsdp")


@pytest.fixture(scope="module")
def killed(made):
    return bs.open_run(made.runs / "ddp")


@pytest.fixture(scope="module")
def ddp(made):
    return bs.open_run(made.runs / "ddp-2")


@pytest.fixture(scope="module")
def exports(made, fsdp, killed, ddp):
    """The runs as docs/distributed.md exports them."""
    for way, by_rank in (("merged", False), ("by_rank", True)):
        (made.folder / way).mkdir()
        for name, run in (("fsdp", fsdp), ("killed", killed), ("ddp", ddp)):
            run.export(made.folder / way / f"{name}.parquet", by_rank=by_rank)
    return made.folder


def rows(run, **asked):
    """The rows of a run, each a dict."""
    held = run.frame(as_="numpy", **asked)
    return [dict(zip(held, values, strict=True)) for values in zip(*held.values(), strict=True)]


@pytest.mark.slow
def test_each_of_the_ways_ends_with_one_run_of_four_ranks(made, fsdp, ddp):
    assert "recorded: backsight runs show runs/fsdp" in made.sharded.stdout, made.sharded.stderr
    assert made.again.returncode == 0 and "recorded: backsight runs show runs/ddp-2" in made.again.stdout
    assert sorted(path.name for path in made.runs.iterdir()) == ["ddp", "ddp-2", "fsdp"]
    for run in (fsdp, ddp):
        assert (run.ranks, run.world, run.steps.tolist()) == (tuple(RANKS), 4, list(range(STEPS)))
        assert not any((run.damage.blocks, run.damage.lines, run.damage.torn))
        assert not [each for each in run.audit() if each.severity != "note"]


def test_shards_are_read_as_the_whole_tensor(fsdp):
    (weight,) = rows(fsdp, tensor="head.weight", kind="weight", steps=5)
    shards = [rows(fsdp, tensor="head.weight", kind="weight", steps=5, rank=rank)[0] for rank in RANKS]
    assert (weight["count"], weight["ranks"], weight["shape"]) == (1280, 4, (10, 128))
    assert [shard["count"] for shard in shards] == [384, 384, 384, 128]  # ten rows among four
    assert weight["l2"] == pytest.approx(math.sqrt(sum(shard["l2"] ** 2 for shard in shards)))


def test_buffers_are_those_that_the_forward_finds_though_weights_wait_for_their_shards(fsdp, ddp):
    for run in (fsdp, ddp):
        (before,) = rows(run, tensor="norm1.running_mean", kind="buffer", steps=0)
        assert (before["zeros"], before["count"], before["ranks"]) == (64, 64, 4)  # four times 16
        (after,) = rows(run, tensor="norm1.running_mean", kind="buffer", steps=1)
        assert after["zeros"] == 0


def test_what_every_rank_holds_is_read_once_and_what_differs_from_rank_to_rank_together(ddp):
    (weight,) = rows(ddp, tensor="head.weight", kind="weight", steps=5)
    (gradient,) = rows(ddp, tensor="head.weight", kind="grad", steps=5)
    assert (weight["count"], weight["ranks"]) == (1280, 1)
    assert (gradient["count"], gradient["ranks"]) == (4 * 1280, 4)
    norms = {rows(ddp, tensor="head.weight", kind="weight", steps=5, rank=rank)[0]["l2"] for rank in RANKS}
    assert norms == {weight["l2"]}


def test_both_ways_train_the_same_model_on_the_same_data(fsdp, ddp):
    for rank in RANKS:
        one, other = (run.tags(rank)[0]["loss"][1] for run in (fsdp, ddp))
        np.testing.assert_allclose(one, other, rtol=1e-3)
        assert one[-3:].mean() < one[:3].mean() * 0.9
    for step in (0, STEPS - 1):
        one, other = (rows(run, tensor="head.weight", kind="weight", steps=step)[0]["l2"] for run in (fsdp, ddp))
        assert one == pytest.approx(other, rel=1e-3)


def test_of_a_run_with_a_killed_rank_all_that_was_written_is_there_and_true(killed, ddp):
    assert killed.ranks == tuple(RANKS)
    assert 0 < len(killed.steps) <= KILLED_AT + 1
    assert not any((killed.damage.blocks, killed.damage.lines))
    assert not [each for each in killed.audit() if each.severity != "note"]
    for rank in RANKS:
        steps = sorted({row["step"] for row in rows(killed, kind="grad", rank=rank)})
        assert steps == list(range(len(steps)))
        assert rank != 2 or len(steps) <= KILLED_AT
        for row in rows(killed, tensor="head.weight", kind="weight", rank=rank):  # the second attempt did the same
            (same,) = rows(ddp, tensor="head.weight", kind="weight", rank=rank, steps=int(row["step"]))
            assert row["l2"] == pytest.approx(same["l2"], rel=1e-5)


def test_a_second_attempt_records_beside_the_first_and_says_so(made):
    assert made.again.stderr.count("recording into runs/ddp-2 instead. There is already a run in runs/ddp") == 4


def test_in_the_terminal_it_is_one_run_with_the_loss_of_the_first_rank(made, ddp):
    command = [sys.executable, "-m", "backsight", "runs", "show", "runs/ddp-2"]
    wide = {**os.environ, "COLUMNS": "120"}
    shown = subprocess.run(command, cwd=made.folder, env=wide, capture_output=True, text=True, timeout=60)
    assert "4 of 4 ranks" in shown.stdout
    loss = ddp.tags(0)[0]["loss"][1][-1]
    assert f"step {STEPS - 1}, epoch 0\n" in shown.stdout and f", {loss:.4g} at step {STEPS - 1}, " in shown.stdout


def numbers(held):
    return np.frombuffer(base64.b64decode(held["data"]), f"<{held['kind']}").reshape(held["shape"])


def test_the_viewer_answers_for_one_run_and_for_each_rank(made, fsdp):
    library = Library(made.runs)
    assert sorted(library.names()) == ["ddp", "ddp-2", "fsdp"]
    about = library.ask("fsdp", "about", {})
    assert (about["ranks"], about["world"], about["steps"]["count"]) == ([0, 1, 2, 3], 4, STEPS)
    asked = {"stat": "l2", "kind": "grad"}
    merged = library.ask("fsdp", "heatmap", asked)
    each = [numbers(library.ask("fsdp", "heatmap", {**asked, "rank": str(rank)})["values"]) for rank in RANKS]
    np.testing.assert_allclose(numbers(merged["values"]), np.sqrt(sum(values**2 for values in each)), rtol=1e-5)
    tensor = {"tensor": "head.weight", "kind": "weight", "first": "3", "last": "3"}
    shard = library.ask("fsdp", "rows", {**tensor, "rank": "3"})
    assert [dict(zip(shard["columns"], row, strict=True))["count"] for row in shard["rows"]] == [128]
    loss = library.ask("fsdp", "marks", {})["lines"]["loss"]
    np.testing.assert_allclose(numbers(loss["values"]), fsdp.tags(0)[0]["loss"][1], rtol=1e-6)
    assert library.ask("fsdp", "findings", {})


def questions():
    """The questions in SQL that docs/distributed.md asks."""
    text = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    return re.findall(r"```sql\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow
def test_the_questions_of_the_page_are_answered_over_all_runs(exports, fsdp, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(exports)
    exceeded, apart, ended = (duckdb.sql(question).fetchall() for question in questions())

    large = [row for row in rows(fsdp, kind="grad") if row["l2"] > 0.6]
    expected = {row["tensor"]: row["step"] for row in reversed(large)}  # the first step of each stays
    assert {tensor: first for run, tensor, first, _ in exceeded if run == "fsdp"} == expected != {}
    assert {run for run, *_ in exceeded} == {"ddp", "fsdp", "killed"}

    statistics = {f"norm{k}.running_{what}" for k in (1, 2) for what in ("mean", "var")}
    assert {run for run, *_ in apart} == {"fsdp"}
    assert {tensor for _, tensor, *_ in apart} == statistics

    assert {run for run, *_ in ended} <= {"killed"}


@pytest.mark.slow
def test_the_command_exports_rank_by_rank(made, exports):
    command = [sys.executable, "-m", "backsight", "runs", "export", "runs/fsdp", "again.parquet", "--by-rank"]
    subprocess.run(command, cwd=made.folder, check=True, capture_output=True, timeout=60)
    parquet = pytest.importorskip("pyarrow.parquet")
    kept = ["step", "tensor", "kind", "rank", "count", "l2"]
    again, before = (
        parquet.read_table(exports / name, columns=kept) for name in ("again.parquet", "by_rank/fsdp.parquet")
    )
    assert again.equals(before) and set(again["rank"].to_pylist()) == set(RANKS)


def test_folders_of_two_machines_copied_into_one_are_the_run(made, tmp_path, fsdp):
    for node, ranks in enumerate(((0, 1), (2, 3))):
        for rank in ranks:
            folder = f"rank-{rank:05d}"
            shutil.copytree(made.runs / "fsdp" / folder, tmp_path / f"node{node}" / folder)
    assert bs.open_run(tmp_path / "node1").ranks == (2, 3)
    for node in range(2):
        shutil.copytree(tmp_path / f"node{node}", tmp_path / "whole", dirs_exist_ok=True)
    whole = bs.open_run(tmp_path / "whole")
    assert whole.ranks == tuple(RANKS)
    assert whole.frame(as_="arrow").equals(fsdp.frame(as_="arrow"))
