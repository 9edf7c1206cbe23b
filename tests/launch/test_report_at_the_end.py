"""`backsight run --report out.html`: what a script did, in one file; nothing else about the script changes."""

import json
import re

import pytest

import backsight as bs

LOOP = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    loss = (model(torch.randn(16, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(*(p.double().sum().item() for p in model.parameters()))
sys.exit(3)
"""


def reported(bench, *options, source=LOOP):
    bench.write("train.py", source)
    return bench.observed("--report", "out.html", *options, "train.py")


def answers(file):
    held = re.search(r'<script type="application/json" id="answers">(.*?)</script>', file.read_text(), re.S)
    return json.loads(held[1])


@pytest.mark.process
def test_the_report_is_written_and_nothing_else_stays(bench):
    ended = reported(bench)
    assert ended.status == 3
    assert ended.out == bench.forked.python("train.py").out
    assert ended.err.splitlines()[-1] == "backsight: 6 steps recorded: out.html"
    assert sorted(path.name for path in bench.folder.iterdir()) == ["out.html", "train.py"]
    held = answers(bench.folder / "out.html")
    assert held["name"] == "train"
    assert held["answers"]["about?"]["steps"] == {"count": 6, "made": 6, "first": 0, "last": 5}


def test_a_folder_that_was_given_keeps_the_recording(bench):
    ended = reported(bench, "--run", "kept")
    assert ended.err.splitlines()[-1] == "backsight: 6 steps recorded: backsight runs show kept, out.html"
    assert len(bs.open_run(bench.folder / "kept").steps) == 6
    assert answers(bench.folder / "out.html")["name"] == "kept"


def test_a_script_that_dies_has_its_report(bench):
    ended = reported(
        bench, source=LOOP.replace("    optimizer.step()\n", "    optimizer.step()\n    if step == 3: 1 / 0\n")
    )
    assert ended.status == 1
    assert "ZeroDivisionError" in ended.err
    assert answers(bench.folder / "out.html")["answers"]["about?"]["steps"]["count"] >= 3


def test_a_report_that_cannot_be_written_costs_the_script_nothing(bench):
    source = "import os\n" + LOOP.replace("sys.exit(3)", "os.mkdir('out.html')")
    ended = reported(bench, "--run", "kept", source=source)
    assert ended.status == 0
    assert "backsight: no report: " in ended.err
    assert len(bs.open_run(bench.folder / "kept").steps) == 6


def test_without_a_model_there_is_no_report(bench):
    ended = reported(bench, source="import torch\nprint('done')\n")
    assert (ended.status, ended.out) == (0, "done\n")
    assert not (bench.folder / "out.html").exists()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("out.txt", "a report is one HTML file: its name must end in .html, not 'out.txt'"),
        ("nowhere/out.html", "there is no folder for 'nowhere/out.html'"),
    ],
)
def test_what_would_fail_at_the_end_is_said_at_the_start(bench, file, said):
    bench.write("train.py", "print('ran')")
    ended = bench.observed("--report", file, "train.py")
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
