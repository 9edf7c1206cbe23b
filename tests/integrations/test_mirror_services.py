"""Weights & Biases and MLflow, off line: a mirror has a run of its own there, or leaves the user's as it is."""

from __future__ import annotations

import json
import struct
from collections import defaultdict

import pytest
import torch
from torch import nn

import backsight as bs
from backsight.integrations.mirror import Mirror, MLflow, WandB

STEPS = 70


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run=tmp_path_factory.mktemp("runs") / "first") as recorder:
        for step in range(STEPS):
            recorder.mark(loss=1.0 / (step + 1))
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
    return bs.open_run(recorder.run)


def norm(run, step):
    rows = run.frame(kind="weight", stat="norm", steps=step)
    return float((rows["norm"] ** 2).sum()) ** 0.5


@pytest.fixture
def wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="W&B IS NOT TESTED: pip install wandb")
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path), "CACHE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    yield wandb
    wandb.teardown()


def written(folder):
    """Return what W&B has written off line by the kind of record; the file is a log as LevelDB writes them."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # what it writes is whole when its process has ended
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, held, records = file.read_bytes(), 7, b"", defaultdict(list)
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # the rest of a block is left empty
            at += 32768 - at % 32768
            continue
        _, length, part = struct.unpack_from("<IHB", data, at)
        held, at = held + data[at + 7 : at + 7 + length], at + 7 + length
        if part in (1, 4):
            record = Record.FromString(held)
            records[record.WhichOneof("record_type")].append(record)
            held = b""
    return records


def rows_of(records):
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records["history"]
    ]


def test_wandb_gets_a_run_of_its_own_with_the_steps_of_the_recording(run, wandb, tmp_path):
    Mirror(run, "wandb").close()
    assert wandb.run is None
    records = written(tmp_path)
    rows = rows_of(records)
    charted = [row for row in rows if "weight_norm/all" in row]
    assert [row["backsight_step"] for row in charted] == list(range(STEPS))
    assert charted[40]["weight_norm/all"] == pytest.approx(norm(run, 40))
    assert sum(any(name.startswith("gradient_log2/0") for name in row) for row in rows) == 2
    assert records["run"][0].run.display_name == "first"
    assert {each.metric.glob_name: each.metric.step_metric for each in records["metric"] if each.metric.glob_name} == {
        f"{section}/*": "backsight_step"
        for section in ("nonfinite", "gradient_norm", "weight_norm", "output_rms", "gradient_log2", "mark")
    }


def test_a_wandb_run_of_the_user_s_keeps_its_own_steps(run, wandb, tmp_path):
    with wandb.init() as mine:
        mine.log({"accuracy": 0.1}, step=0)
        Mirror(run, WandB()).close()
        mine.log({"accuracy": 0.2}, step=1)
        mine.log({"accuracy": 0.3}, step=2)
        assert wandb.run is mine
    rows = rows_of(written(tmp_path))
    assert [(row["_step"], row["accuracy"]) for row in rows if "accuracy" in row] == [(0, 0.1), (1, 0.2), (2, 0.3)]
    assert any("weight_norm/all" in row and row["backsight_step"] == STEPS - 1 for row in rows)


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLFLOW IS NOT TESTED: pip install mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the only store that needs neither a server nor a database
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    return mlflow


def test_mlflow_gets_a_run_of_its_own_with_the_steps_of_the_recording(run, mlflow):
    Mirror(run, MLflow(experiment="digits")).close()
    client = mlflow.MlflowClient()
    (made,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert (made.info.run_name, made.info.status) == ("first", "FINISHED")
    history = client.get_metric_history(made.info.run_id, "weight_norm/all")
    assert [each.step for each in history] == list(range(STEPS))
    assert history[40].value == pytest.approx(norm(run, 40))
    assert history[40].timestamp == int(run.times()[1][40] * 1000)
    assert {"gradient_norm/0", "gradient_norm/2", "output_rms/2", "mark/loss"} <= made.data.metrics.keys()


def test_an_mlflow_run_that_is_under_way_is_the_one_and_stays_open(run, mlflow):
    with mlflow.start_run() as mine:
        Mirror(run, "mlflow").close()
        assert mlflow.active_run().info.run_id == mine.info.run_id
        assert mlflow.MlflowClient().get_run(mine.info.run_id).info.status == "RUNNING"
    assert "weight_norm/2" in mlflow.get_run(mine.info.run_id).data.metrics


def test_names_that_mlflow_does_not_allow_are_spelt_in_letters_that_it_does(mlflow):
    from backsight.integrations.mirror.mlflow import _allowed

    assert _allowed("weight_norm/blocks.0") == "weight_norm/blocks.0"
    assert _allowed("mark/größe (m²)") == "mark/gr__e _m__"
