"""A run shown elsewhere while it is recorded: the right numbers, few charts, and no harm."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn

import backsight as bs
import backsight.runs
from backsight.integrations.mirror import Mirror, Sink, TensorBoard
from backsight.integrations.mirror.digest import PARTS, has_histograms, is_point, parts_of


class Kept(Sink):
    """Keeps what it is shown."""

    def __init__(self):
        self.values, self.histograms, self.findings, self.calls = {}, [], [], []
        self.came = threading.Event()

    def start(self, run):
        self.calls.append("start")

    def charts(self, charts):
        for name, steps, times, values in charts:
            assert len(steps) == len(times) == len(values)
            assert all(1.6e9 < time < 1e11 for time in times)
            self.values.setdefault(name, {}).update(zip(steps, values.tolist(), strict=True))
        if any(not name.startswith("mark/") for name, *_ in charts):
            self.came.set()

    def histogram(self, name, step, time, edges, counts):
        assert len(edges) == len(counts) + 1
        self.histograms.append((name, step, int(counts.sum())))

    def finding(self, step, time, finding):
        self.findings.append(finding.code)

    def finish(self):
        self.calls.append("finish")


class Breaks(Sink):
    def charts(self, charts):
        raise ConnectionError("no server")


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 1, bias=False)
    )


def train(steps, to, run, *, between=lambda step: None, pause=0.01):
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    with bs.record(model, optimizer, run=run) as recorder, Mirror(recorder, to, pause=pause) as mirror:
        for step in range(steps):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            recorder.mark(loss=loss, note="a word")
            loss.backward()
            optimizer.step()
            between(step)
    return mirror, torch.cat([each.detach().flatten() for each in model.parameters()])


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirrored")
    kept = Kept()
    train(70, [kept, "tensorboard"], folder / "run")
    return folder, kept, bs.open_run(folder / "run")


def test_each_statistic_has_a_chart_for_the_model_and_one_for_each_part(mirrored):
    _, kept, _ = mirrored
    charts = [
        "nonfinite/all",
        *(f"gradient_norm/{part}" for part in ("all", "0", "2.0", "3")),
        *(f"weight_norm/{part}" for part in ("all", "0", "2.0", "3")),
        *(f"output_rms/{part}" for part in ("0", "2.0", "3")),
        "mark/loss",
    ]
    assert sorted(kept.values) == sorted(charts)
    assert kept.calls == ["start", "finish"]


def test_what_is_shown_is_what_was_recorded(mirrored):
    _, kept, run = mirrored
    assert all(list(values) == list(range(70)) for name, values in kept.values.items() if name != "mark/loss")
    rows = run.frame(kind="grad", stat="norm", steps=40)
    whole = float(np.sqrt((rows["norm"] ** 2).sum()))
    first = float(np.sqrt((rows["norm"][rows["module"] == "0"] ** 2).sum()))
    assert kept.values["gradient_norm/all"][40] == pytest.approx(whole)
    assert kept.values["gradient_norm/0"][40] == pytest.approx(first)
    output = run.frame(tensor="3.output", kind="output", stat=["mean", "std"], steps=40).iloc[0]
    square = output["mean"] ** 2 + output["std"] ** 2 * 15 / 16
    assert kept.values["output_rms/3"][40] == pytest.approx(square**0.5)
    assert set(kept.values["nonfinite/all"].values()) == {0.0}
    assert kept.values["mark/loss"][69] < kept.values["mark/loss"][0]
    assert kept.histograms == [(f"gradient_log2/{part}", step, size) for step in (0, 64) for part, size in SIZES]


SIZES = (("0", 40), ("2.0", 72), ("3", 8))
"""Parameters of each part."""


def test_tensorboard_reads_charts_histograms_and_findings(mirrored):
    folder, kept, _ = mirrored
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard" / "run"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(kept.values)
    shown = {event.step: event.value for event in events.Scalars("gradient_norm/all")}
    assert shown == pytest.approx(kept.values["gradient_norm/all"], rel=1e-6)
    histogram = events.Histograms("gradient_log2/2.0")[0].histogram_value
    assert histogram.num == sum(histogram.bucket) == 72
    assert histogram.min == histogram.bucket_limit[0] - 1
    assert histogram.max == histogram.bucket_limit[-1]


def test_findings_of_the_recording_come_once_each(tmp_path):
    kept = Kept()
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e4)
    with bs.record(model, optimizer, run=tmp_path / "run") as recorder:
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.ones(8, 4)).square().sum().backward()
            optimizer.step()
    Mirror(recorder.run, [kept, TensorBoard(tmp_path / "logs")]).close()
    expected = [finding.code for finding in bs.open_run(recorder.run).audit().without_notes()]
    assert kept.findings == expected
    assert "BS301" in expected
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    (text,) = (bytes(each).decode() for each in events.Tensors("findings/BS301")[0].tensor_proto.string_val)
    assert "error BS301" in text
    assert max(kept.values["nonfinite/all"].values()) > 0


def test_a_run_is_shown_while_it_is_recorded_and_the_newest_step_when_it_is_whole(tmp_path):
    kept, seen = Kept(), []

    def between(step):
        if step == 30:
            assert kept.came.wait(30)
            seen.append(max(kept.values["weight_norm/all"]))

    train(40, kept, tmp_path / "run", between=between)
    assert 0 <= seen[0] <= 30
    assert max(kept.values["weight_norm/all"]) == 39


def test_of_several_ranks_a_step_is_shown_when_all_have_ended_it(tmp_path):
    writers = [bs.runs.RunWriter(tmp_path / "run", rank=rank, world=2) for rank in range(2)]
    for writer, steps in zip(writers, (10, 5), strict=True):
        tensor = writer.tensor("w", "grad", "", (4,), "float32")
        for step in range(steps):
            row = np.zeros(1, bs.runs.STATISTICS)
            row["count"], row["mean"] = 4, step + 1
            writer.append(step, [tensor], row)
        writer.flush()
    kept = Kept()
    with Mirror(tmp_path / "run", kept, pause=0.01):
        assert kept.came.wait(30)
        shown = dict(kept.values["gradient_norm/all"])
        for writer in writers:
            writer.close()
    assert list(shown) == [0, 1, 2, 3]
    assert shown[3] == pytest.approx(4 * 8**0.5)
    assert list(kept.values["gradient_norm/all"]) == list(range(10))


def test_a_sink_that_fails_is_told_of_once_and_the_training_and_the_others_go_on(tmp_path):
    kept = Kept()
    _, expected = train(30, kept, tmp_path / "alone")
    other = Kept()
    with pytest.warns(bs.RecordingWarning) as said:
        _, weights = train(30, [Breaks(), other], tmp_path / "run", between=lambda step: other.came.wait(0.01))
    (warning,) = said
    assert str(warning.message).startswith(
        f"backsight: Breaks no longer shows {tmp_path / 'run'}; training continues: ConnectionError: no server"
    )
    assert torch.equal(weights, expected)
    assert other.values.keys() == kept.values.keys()


def test_a_run_that_cannot_be_read_ends_the_mirror_and_nothing_else(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("gone")

    monkeypatch.setattr("backsight.integrations.mirror.digest.Digest.charts", fail)
    kept = Kept()
    with pytest.warns(bs.RecordingWarning, match="is no longer mirrored: OSError: gone"):
        train(5, kept, tmp_path / "run")
    assert kept.calls == ["start", "finish"]


def test_a_mirror_needs_a_run_and_a_sink_that_there_is(tmp_path):
    with pytest.raises(bs.RunError, match="there is no run at"):
        Mirror(tmp_path / "none", "tensorboard")
    train(2, [], tmp_path / "run")
    with pytest.raises(ValueError, match=r"there is no sink 'comet'; choose from mlflow, tensorboard, wandb\."):
        Mirror(tmp_path / "run", "comet")


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_what_a_sink_needs_is_named_with_the_command_that_installs_it(name, tmp_path, monkeypatch):
    train(2, [], tmp_path / "run")
    monkeypatch.setitem(sys.modules, name, None)  # Python takes None for a module that is not there
    command = rf'pip install "backsight\[{name}\]"'
    with pytest.raises(ImportError, match=rf"^This needs {name}, which is not installed: {command}$"):
        Mirror(tmp_path / "run", name)


def test_points_are_dense_at_first_and_a_million_steps_are_a_few_thousand():
    assert all(map(is_point, range(1024)))
    assert [k for k in range(1024, 1032) if is_point(k)] == [1024, 1026, 1028, 1030]
    assert [k for k in range(4096, 4112) if is_point(k)] == [4096, 4104]
    points = [k for k in range(1_000_000) if is_point(k)]
    assert len(points) == 6097
    assert sum(map(has_histograms, points)) == 96


def module(name, of="Linear", children=(), parameters=True):
    return {"name": name, "type": of, "parameters": [{"name": "weight"}] * parameters, "children": list(children)}


def names(model):
    return list(dict.fromkeys(parts_of([model]).values()))


def gpt(layers):
    def block(k):
        inner = [module(f"h.{k}.{j}") for j in range(4)]
        return module(f"h.{k}", "Block", inner, parameters=False)

    stack = module("h", "ModuleList", map(block, range(layers)), parameters=False)
    around = [module("wte"), module("wpe"), module("drop", "Dropout", parameters=False), stack, module("head")]
    return module("", "GPT", around, parameters=False)


def test_parts_are_the_blocks_and_what_is_around_them():
    assert names(gpt(12)) == ["wte", "wpe", *(f"h.{k}" for k in range(12)), "head"]
    parts = parts_of([gpt(12)])
    assert parts["h.3.2"] == "h.3"
    assert "drop" not in parts


def test_of_too_many_blocks_some_are_shown_at_even_distances():
    found = names(gpt(100))
    assert len(found) == PARTS
    assert found[:4] == ["wte", "wpe", "h.0", "h.5"]
    assert found[-2:] == ["h.99", "head"]


def test_what_is_opened_keeps_its_own_parameters_as_a_part():
    attention = module("encoder.attention", "Attention", [module("encoder.attention.out")])
    model = module("", "Model", [module("encoder", "Encoder", [attention], parameters=False), module("head")])
    parts = parts_of([model])
    assert parts == {
        "": "Model",
        "encoder.attention": "encoder.attention",
        "encoder.attention.out": "encoder.attention.out",
        "head": "head",
    }


def test_a_model_without_inner_modules_is_a_part_by_its_class():
    assert parts_of([module("")]) == {"": "Linear"}
