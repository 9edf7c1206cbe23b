"""`print(walk)`: numbers for a formula, norms by module for a model, in 80 columns as in 160, plain in a pipe."""

import pytest
import torch
import walked

import backsight as bs


def test_a_formula_is_told_with_numbers():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    a, b = x * 2, -x
    y = (a * -b).sum()
    del a, b
    lines = bs.walk(y).run().text(width=80).splitlines()
    assert lines[0].startswith("backward of y  6 of 6 steps, 1 of 1 leaves reached")
    assert lines[1].split() == ["#", "node", "g", "arriving", "g", "leaving", "norm"]
    assert "Sum" in lines[2] and "3 [1, 1, 1]" in lines[2]
    assert lines[-2].lstrip().startswith("5  → x") and "3 [4, 8, 12] (Σ of 2)" in lines[-2]
    assert lines[-1] == "# is the index in walk.graph.nodes"

    w = bs.walk(walked.mean_squared_error()).run()
    numbers = [int(line.split()[0]) for line in w.text().splitlines()[2:-1]]
    assert numbers == [step.node.index for step in w.steps] != [step.number for step in w.steps]


def test_a_walk_that_has_not_begun_says_what_comes():
    text = bs.walk(walked.mean_squared_error()).text(width=80)
    assert text.splitlines()[1:] == ["next: MeanBackward0 #0"]


def test_a_model_is_told_by_module():
    model = walked.Residual()
    with bs.watch(model):
        loss = model(torch.randn(2, 3, 8, 8)).sum()
    lines = bs.walk(loss, model=model).run().text(width=100).splitlines()
    assert lines[1].split() == [
        "module",
        "steps",
        "norm",
        "in",
        "norm",
        "out",
        "out/in",
        "leaves",
        "norm",
        "in,",
        "log",
        "scale",
    ]
    modules = [line.split()[0] for line in lines[2:]]
    assert not any("(outside)" in each and each != "(outside)" for each in modules)
    assert modules.index("model.fc") < modules.index("model.layer2.1.bn2")
    assert {"model.stem", "model.layer1.0.conv1", "model.layer2.1.bn2"} <= set(modules)


def test_a_stop_is_told():
    x = torch.tensor([0.0], requires_grad=True)
    text = bs.walk(x.sqrt().sum()).run(nonfinite=True).text(width=80)
    assert "stopped: SqrtBackward0 #1 produced a gradient that is not finite" in text
    assert "next: x" in text


@pytest.mark.parametrize("width", [40, 80, 100, 160])
@pytest.mark.parametrize("program", ["mean_squared_error", "many_paths", "custom_function", "residual", "lstm"])
def test_no_line_is_wider_than_asked(program, width):
    text = bs.walk(walked.PROGRAMS[program]()).run().text(width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_in_a_pipe_it_is_plain_and_in_colour_only_where_asked(capsys):
    w = bs.walk(walked.mean_squared_error()).run()
    print(w)
    assert "\x1b" not in capsys.readouterr().out
    assert "\x1b[" in w.text(color=True)


def test_names_cannot_write_to_the_terminal():
    hostile = {"\x1b[2J[bold]\n": torch.ones(2, requires_grad=True)}
    text = bs.walk((hostile["\x1b[2J[bold]\n"] * 2).sum()).run().text(width=200)
    assert "\x1b" not in text and len(text.splitlines()) == 6


def test_of_a_long_formula_the_last_steps_are_shown():
    y = x = torch.ones(2, requires_grad=True)
    for _ in range(60):
        y = y * 1.5
    lines = bs.walk((y + x).sum()).run().text(width=80).splitlines()
    assert lines[-1] == "the last 40 steps are shown; walk.steps has all of them"
    assert len(lines) == 44
