"""`run.audit()`: what is looked at, how it is said, and which codes there are."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from audits import codes, of
from recorded import EVERYTHING, batch, layers, train

import backsight as bs
from backsight.diagnosis import audit_run
from backsight.diagnosis.recordings import RULES, rule
from backsight.diagnosis.recordings.rows import MOST_STEPS
from backsight.findings import Finding
from backsight.runs import STATISTICS, RunWriter, add_event


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_every_code_is_that_of_one_rule() -> None:
    assert sorted(RULES) == [f"BS{number}" for number in range(301, 312)]
    with pytest.raises(ValueError, match="two rules have the code BS301"):
        rule("BS301")(lambda recording: ())


def test_a_report_says_what_was_looked_at(tmp_path: Path) -> None:
    report = train(tmp_path / "run", layers(1), steps=12)
    assert str(report) == "backsight: nothing found in 12 steps of 16 tensors"
    assert str(audit_run(bs.open_run(tmp_path / "run"))) == str(report)


def test_the_gravest_comes_first(tmp_path: Path) -> None:
    model = layers(1)
    model.register_module("unused", torch.nn.Linear(2, 2))

    def loss(step: int) -> torch.Tensor:
        x, y = batch()
        return (model[2](model[1](model[0](x))) - y).square().mean() * (math.nan if step == 15 else 1)

    report = train(tmp_path / "run", model, loss)
    found = [(finding.code, finding.severity) for finding in report]
    assert found == [("BS301", "error"), ("BS306", "note")]


def test_an_empty_run_has_nothing_to_find(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").close()
    assert str(bs.open_run(tmp_path / "run").audit()) == "backsight: nothing found in 0 steps of 0 tensors"


@pytest.mark.parametrize("tap", EVERYTHING)
def test_a_recording_of_one_tap_only_can_be_audited(tap: str, tmp_path: Path) -> None:
    def diverging(step: int) -> torch.Tensor:
        x, y = batch()
        return (model(x) - y).square().mean() * 10.0**step

    model = layers(6)
    optimizer = torch.optim.Adam(model.parameters())
    report = train(tmp_path / "run", model, diverging, optimizer, taps=(tap,), steps=50)
    assert "BS301" in codes(report)


def test_a_run_is_audited_while_it_is_written(tmp_path: Path) -> None:
    model = layers(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    rec = bs.record(model, optimizer, run=tmp_path / "run")
    for _ in range(12):
        x, y = batch()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    rec.flush()
    assert codes(bs.open_run(rec.run).audit()) == ["BS306"]
    rec.close()


def rows(values: float) -> np.ndarray:
    held = np.zeros(1, STATISTICS)
    held["count"], held["mean"], held["min"], held["max"] = 4, values, values, values
    return held


def test_of_a_long_run_evenly_chosen_steps_are_looked_at_but_nan_is_found_in_any(tmp_path: Path) -> None:
    steps = 3 * MOST_STEPS
    with RunWriter(tmp_path / "run") as writer:
        weight = writer.tensor("weight", "weight", "", (2, 2), "float32")
        gradient = writer.tensor("weight", "grad", "", (2, 2), "float32")
        for step in range(steps):
            pull = rows(1.0)
            pull["nans"] = step == 4001
            writer.append(step, [weight, gradient], np.concatenate([rows(0.5), pull]))
    report = bs.open_run(tmp_path / "run").audit()
    assert report.looked_at == f"{steps:,} steps of 2 tensors"
    (passing,) = of(report, "BS301")
    assert "at step 4001" in passing.title
    (still,) = of(report, "BS306")
    assert still.evidence[0] == f"weight: bit-identical in {MOST_STEPS:,} steps."


def test_ranks_are_looked_at_as_one(tmp_path: Path) -> None:
    for rank in range(2):
        with RunWriter(tmp_path / "run", rank=rank, world=2) as writer:
            output = writer.tensor("act.output", "output", "act", (2, 2), "float32")
            given = writer.tensor("act.input", "input", "act", (2, 2), "float32")
            writer.tree([{"name": "act", "type": "ReLU", "parameters": [], "children": []}])
            for step in range(12):
                dead, varied = rows(0.0), rows(-1.0)
                dead["zeros"] = 4 if rank == 0 or step > 0 else 3
                varied["min"], varied["m2"] = -2, 1
                writer.append(step, [given, output], np.concatenate([varied, dead]))
    (finding,) = bs.open_run(tmp_path / "run").audit()
    assert finding.title == "act (ReLU) has returned only zeros since step 1."


@pytest.mark.parametrize("held", [None, 3, [1, {}, {"code": "BS999"}, {"code": 1, "severity": "error"}], {"a": []}])
def test_findings_that_were_damaged_are_passed_over(tmp_path: Path, held: object) -> None:
    report = train(tmp_path / "run", layers(1))
    add_event(tmp_path / "run", 0, "findings", findings=held)
    assert bs.open_run(tmp_path / "run").audit() == report


def test_findings_that_were_kept_are_found_once(tmp_path: Path) -> None:
    train(tmp_path / "run", layers(1))
    kept = Finding("BS103", "warning", "Gradients were not zeroed.", ("They add up.",), "Zero them.", source="t.py:3")
    for _ in range(2):
        add_event(tmp_path / "run", 0, "findings", findings=[kept.to_dict()])
    (found,) = bs.open_run(tmp_path / "run").audit()
    assert str(found) == str(kept)
