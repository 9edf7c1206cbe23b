"""`backsight forecast` finds a function, prints what its step needs, and tells by its exit status whether it fits."""

import sys
from pathlib import Path

import fresh
import pytest

from backsight.cli import main

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))

    def forward(self, x):
        return self.layers(x).square().mean()

def make():
    return Net(), torch.randn(4, 512), torch.optim.AdamW

def step():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 512)).backward()
        optimizer.step()
        optimizer.zero_grad()

def reading():
    loss = Net()(torch.randn(4, 512))
    print(loss.item())

def make_step():
    def step():
        Net()(torch.randn(4, 512)).backward()
    return step

def scores():
    return nn.Linear(8, 8), torch.randn(2, 8)

def misshapen():
    return Net(), torch.randn(4, 500)

class Job:
    @staticmethod
    def make():
        return make()
"""

LINE = PROGRAM.splitlines().index("    print(loss.item())") + 1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "training_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "training_program", raising=False)
    return tmp_path


@pytest.mark.parametrize("target", ["training_program:make", "training_program.py:make", "training_program:Job.make"])
def test_a_function_is_found_in_a_module_a_file_and_a_class(target, capsys):
    assert main(["forecast", target]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Peak ")
    assert "released, fused" in said
    assert "A forecast for the CPU: the step did not run" in said


def test_the_exit_status_says_whether_the_step_fits(capsys):
    assert main(["forecast", "training_program:make", "--memory", "24GB"]) == 0
    assert "yes" in capsys.readouterr().out
    assert main(["forecast", "training_program:make", "--memory", "780MB"]) == 1
    assert "no " in capsys.readouterr().out


def test_checkpointing_is_of_the_modules_that_are_named_or_of_all_blocks_that_repeat(capsys):
    assert main(["forecast", "training_program:make", "--checkpoint", "layers.0", "layers.1"]) == 0
    assert "checkpointed, ordinary" in capsys.readouterr().out
    assert main(["forecast", "training_program:make", "--checkpoint"]) == 2
    assert "Net has no repeated block to checkpoint." in capsys.readouterr().err


def test_a_function_that_trains_by_itself_is_forecast_as_it_is(capsys):
    assert main(["forecast", "training_program:step"]) == 0
    assert "because the step creates its own optimizer" in " ".join(capsys.readouterr().out.split())


def test_options_change_the_step(capsys):
    assert main(["forecast", "training_program:make", "--release", "--dtype", "bfloat16", "--device", "cuda"]) == 0
    first = capsys.readouterr().out.partition("way")[2].splitlines()[1]
    assert first.startswith("released, foreach")


TRANSFORMER = """
import torch
from torch import nn

def make():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(16, 1))
    return model, (torch.randn(2, 4, 16), torch.randn(2, 4, 1)), torch.optim.AdamW(model.parameters()), nn.MSELoss()
"""


@pytest.mark.slow
def test_a_transformer_shows_no_warning_of_tensors_that_have_no_memory(folder):
    (folder / "transformer.py").write_text(TRANSFORMER)
    ended = fresh.run([sys.executable, "-m", "backsight", "forecast", "transformer.py:make"], cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_piped_answer_ends_no_line_with_spaces(capsys):
    main(["forecast", "training_program:make"])
    assert not any(line.endswith(" ") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("training_program", "does not name a function. Write module:function"),
        ("training_program:mae", "there is no mae in training_program; did you mean 'make'?"),
        ("not_a_module_here:make", "there is no module not_a_module_here here"),
        ("trainings.py:make", "there is no file trainings.py; did you mean 'training_program.py'?"),
        ("training_program:Net", "the function only returned a model"),
        (
            "training_program:make_step",
            "returned a function and ran no backward, so it is no step. Name a function",
        ),
        (
            "training_program:scores",
            "but a step needs a scalar loss. Let the function return a model that",
        ),
        ("training_program:reading", f"at `print(loss.item())`, training_program.py:{LINE}"),
    ],
)
def test_what_cannot_be_forecast_is_refused_in_a_line(target, said, capsys):
    assert main(["forecast", target]) == 2
    error = capsys.readouterr().err
    assert error.startswith("backsight: ")
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("options", [["--memory", "bananas"], ["--dtype", "int"], ["--release", "0 bananas"]])
def test_an_option_that_makes_no_sense_is_refused(options, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["forecast", "training_program:make", *options])
    assert f"argument {options[0]}" in capsys.readouterr().err


def test_an_error_of_the_program_is_shown_and_is_no_step_that_does_not_fit(capsys):
    assert main(["forecast", "training_program:misshapen", "--memory", "24GB"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert "return self.layers(x).square().mean()" in error
