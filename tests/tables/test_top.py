"""`backsight top`, and `backsight runs show` of several runs: what stands on the screen, at 80 columns too."""

from __future__ import annotations

import io
import math
import re

import numpy as np
import pytest
import torch
from torch import nn

import backsight as bs
from backsight.cli import main
from backsight.runs import STATISTICS, RunWriter
from backsight.tables.scalars import lines, told
from backsight.tables.settings import parsed
from backsight.tables.top import Top
from backsight.text.console import Console, printed


def trained(folder, *, lr=1e-2, steps=30, nan_at=None, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    with bs.record(model, optimizer, folder):
        for step in range(steps):
            x = torch.randn(16, 8)
            loss = (model(x) - x[:, :1]).square().mean() * (math.nan if step == nan_at else 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    trained(folder / "slow", lr=1e-3)
    trained(folder / "fast", lr=1e-1, seed=1)
    trained(folder / "broken", nan_at=20)
    return folder


def screen(run, width=80, height=24):
    console = Console(width=width, file=io.StringIO())
    with console.capture() as held:
        console.print(*Top(bs.open_run(run)).screen(width, height), sep="\n")
    return held.get()


def test_a_screen_of_80_by_24_holds_numbers_gradients_and_findings(runs):
    text = screen(runs / "broken")
    lines = text.rstrip("\n").split("\n")
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) <= 24
    assert re.match(r"broken  finished, step 29, ", lines[0])
    assert re.search(r"^loss +nan ", text, re.MULTILINE)
    assert re.search(r"^gradient norm ", text, re.MULTILINE)
    assert "✗" in text, "what is not finite is marked in the heatmap"
    assert "BS301" in text


@pytest.mark.parametrize(("width", "height"), [(60, 16), (200, 60), (80, 10)])
def test_a_screen_of_any_size_is_filled_and_not_exceeded(runs, width, height):
    lines = screen(runs / "slow", width, height).rstrip("\n").split("\n")
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= max(height, 12)


def test_the_heatmap_has_one_scale_for_all_modules(runs):
    text = screen(runs / "slow", 80, 40)
    rows = [line for line in text.split("\n") if re.match(r"\S+ +[░▒▓█]", line)]
    assert [row.split()[0] for row in rows][:2] == ["0.0.weight", "0.0.bias"]
    assert len(rows) == 8
    assert set("".join(row.split(maxsplit=1)[1] for row in rows)) - {" "} == set("░▒▓█")


def test_the_time_of_a_step_is_without_the_first_ones_where_there_are_others(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    for name, steps in (("long", 100), ("short", 40)):
        with RunWriter(tmp_path / name) as writer:
            number = writer.tensor("t", "weight", None, (1,), "float32")
            for step in range(steps):
                now[0] += 0.05 if step < 33 else 0.002 + 0.001 * (step % 2)
                writer.append(step, [number], np.ones(1, STATISTICS))
                writer.mark(step, loss=1.0 / (step + 1))
    assert re.search(r"^step time +3 ms +2 ms +3 ms ", screen(tmp_path / "long"), re.MULTILINE)
    assert re.search(r"^step time +3 ms +2 ms +50 ms ", screen(tmp_path / "short"), re.MULTILINE)
    assert re.search(r"^ +\w+ +min +max +step time: from step 33 on *$", screen(tmp_path / "long"), re.MULTILINE)
    assert "from step 33" not in screen(tmp_path / "short")
    heading = screen(tmp_path / "long").split("\n")[0]
    assert re.fullmatch(r"long  finished, step 99, 1\.8 s, mean \S+ steps/s *", heading)


def test_it_says_what_is_seen_and_where_findings_are_told_in_full(runs):
    text = screen(runs / "broken", 200, 40)
    assert re.search(r"^ +last +min +max *$", text, re.MULTILINE), "it has ended: nothing is now"
    steps = text.index("gradient norms, steps 0 to 29: ")
    assert steps < text.index("█", text.index("█", steps) + 1), "above what it is about"
    assert f"with evidence and fixes: backsight runs audit {runs / 'broken'}" in text


def test_a_run_without_a_step_says_so(tmp_path):
    RunWriter(tmp_path / "empty").close()
    assert "no step has been recorded yet" in screen(tmp_path / "empty")


def test_where_the_output_is_no_terminal_it_is_shown_once(runs, capsys):
    assert main(["top", str(runs / "slow")]) == 0
    assert "gradient norms, steps 0 to " in capsys.readouterr().out


def test_a_run_that_is_not_there_is_said(tmp_path, capsys):
    assert main(["top", str(tmp_path / "none"), "--once"]) == 2
    assert "there is no run" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "nan", "often", "1e9"])
def test_the_pause_is_a_number_of_seconds(wrong, capsys):
    with pytest.raises(SystemExit):
        main(["top", "--every", wrong])
    assert "from 0.1 to 3600 seconds" in capsys.readouterr().err


def test_several_runs_are_laid_side_by_side(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["runs", "show", str(runs / "slow"), str(runs / "fast"), str(runs / "broken")]) == 0
    text = capsys.readouterr().out
    head, differing = text.split("settings that differ")
    assert head.split("\n")[0].split() == ["last", "value", "slow", "fast", "broken"]
    assert re.search(r"^steps +30 +30 +30$", head, re.MULTILINE)
    assert re.search(r"^loss .* nan +\S+$", head, re.MULTILINE)
    assert re.search(r"^lr +0.001 +0.1 +0.01$", differing, re.MULTILINE)
    assert re.search(r"^seed +0 +1 +0$", differing, re.MULTILINE)
    assert "weight_decay" not in differing


def test_of_the_time_of_a_step_several_runs_have_the_median(tmp_path, capsys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    for name in ("a", "b"):
        with RunWriter(tmp_path / name) as writer:
            number = writer.tensor("t", "weight", None, (1,), "float32")
            for step in range(40):
                now[0] += 0.008 if step < 39 else 0.003
                writer.append(step, [number], np.ones(1, STATISTICS))
                writer.mark(step, loss=1.0 / (step + 1))
    assert main(["runs", "show", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert re.search(r"^median step time +8 ms +\S+ +8 ms ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(("columns", "drawn"), [(80, True), (60, False)])
def test_curves_of_several_runs_are_as_long_as_there_is_room_and_do_not_vanish_without_a_word(
    runs, capsys, monkeypatch, columns, drawn
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["runs", "show", str(runs / "slow"), str(runs / "fast"), str(runs / "broken")]) == 0
    text = capsys.readouterr().out
    table = [line for line in text.splitlines() if str(runs) not in line]
    assert ("█" in text) == drawn and max(map(len, table)) <= columns
    assert ("\ncurves: in a terminal of 75 columns or more\n" in text) != drawn


def test_a_loss_with_a_spike_is_drawn_on_a_log_scale_that_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("calm", "spiked"):
        with RunWriter(tmp_path / name) as writer:
            number = writer.tensor("w", "grad", "", (2,), "float32")
            for step in range(20):
                writer.append(step, [number], np.ones(1, STATISTICS))
                writer.mark(step, loss=20.0 if (name, step) == ("spiked", 9) else 2.0 / (step + 1))
    calm, spiked = (
        printed(lines(told(bs.open_run(tmp_path / name)), 100, "latest"), width=100) for name in ("calm", "spiked")
    )
    drawn = r"^loss .*  log scale *$"  # the time of a step may have a spike too
    assert not re.search(drawn, calm, re.MULTILINE) and re.search(drawn, spiked, re.MULTILINE)
    assert re.search(r"^loss .*▃.*█", spiked, re.MULTILINE)
    assert main(["runs", "show", str(tmp_path / "calm"), str(tmp_path / "spiked")]) == 0
    assert re.search(r"^loss, log scale .*▃.*█", capsys.readouterr().out, re.MULTILINE)


def test_a_setting_that_several_places_say_alike_has_one_row(runs, capsys, monkeypatch):
    held = {
        "slow": [("arguments", "lr", "1e-3"), ("optimizer", "lr", 0.001), ("optimizer", "initial_lr", 0.001)],
        "fast": [("arguments", "lr", "0.1"), ("optimizer", "lr", 0.1), ("optimizer", "initial_lr", 0.1)],
    }
    monkeypatch.setattr("backsight.tables.several.settings_of", lambda run: held[run.name])
    told = ["runs", "show", str(runs / "slow"), str(runs / "fast")]
    assert main(told) == 0
    assert len(re.findall(r"^lr +1e-3 +0\.1$|lr \(|initial_lr", capsys.readouterr().out, re.MULTILINE)) == 1
    held["fast"][0] = ("arguments", "lr", "0.2")
    assert main(told) == 0
    rows = re.findall(
        r"^((?:initial_)?lr.*?)  ", capsys.readouterr().out.split("settings that differ")[1], re.MULTILINE
    )
    assert rows == ["lr (arguments)", "lr (optimizer)"]


def test_options_of_one_run_are_refused_for_several(runs, capsys):
    with pytest.raises(SystemExit):
        main(["runs", "show", str(runs / "slow"), str(runs / "fast"), "--step", "3"])
    assert "work with one recording only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--lr", "0.1", "--fast"], {"lr": "0.1", "fast": True}),
        (["--lr=0.1", "-k", "-3"], {"lr": "0.1", "k": "-3"}),
        (["model.width=64", "fit"], {"model.width": "64", "argument 1": "fit"}),
        (["--layers", "64", "32"], {"layers": "64 32"}),
        (["-"], {"argument 1": "-"}),
        (["--expression", "a=b"], {"expression": "a=b"}),
    ],
)
def test_a_command_line_is_read_as_arguments(words, expected):
    assert parsed(words) == expected
