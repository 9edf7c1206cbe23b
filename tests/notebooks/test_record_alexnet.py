"""examples/record_alexnet.ipynb: a network dies, another learns, and each cell shows what the prose claims."""

import re

import pytest

pytestmark = pytest.mark.long

NOTEBOOK = "record_alexnet.ipynb"

PLOT, PAGE = "image/png", "<iframe srcdoc="

SHOWS = {
    "setup": [],
    "data": [PLOT],
    "model": ["240,058 weights"],
    "loop": [],
    "record": ["<Recorder armed, step 0, 'runs/alexnet-fast'>"],
    "metrics": [],
    "training": ["right on 10% of the digits held out"],
    "open": ["200 steps of 132 tensors", "17 weight, 23 input, 23 output, 17 grad, 1 variable, 17 update, 34 state"],
    "frame": ["<table", "zero_fraction", "silent"],
    "zeros": [PLOT],
    "silent": [PLOT],
    "gradients": [PLOT],
    "audit": ["BS304", "(ReLU) has returned only zeros since step"],
    "state": ["features.3.weight.exp_avg\nfeatures.3.weight.exp_avg_sq\n", "0.01 · √19,200 weights: 1.39"],
    "ratio": [PLOT],
    "fixed": ["backsight: nothing found in 200 steps of 132 tensors"],
    "compared": [PLOT],
    "fixed-zeros": [PLOT],
    "view": [PAGE],
    "undisturbed": ["all weights equal: True"],
    "outside": ["alexnet.csv: 26,401 lines"],
}


def numbers(text):
    return [float(found) for found in re.findall(r"\d+\.\d+", text)]


def test_every_cell_shows_what_the_prose_claims(outputs, lacking):
    assert lacking(SHOWS) == {}

    rows = {line.split()[0]: numbers(line)[-6:] for line in outputs["frame"].splitlines() if ".output " in line}
    assert len(rows) == 7
    for _, _, zeros_first, zeros_last, silent_first, silent_last in rows.values():
        assert zeros_first < 0.7 and silent_first < 0.1  # units to spare
        assert zeros_last > 0.8 and silent_last > 0.6  # next to nothing left
    assert max(silent_last for *_, silent_last in rows.values()) == 1

    expected, update, weight = numbers(outputs["state"].partition("weights: ")[2])
    assert 0.9 < update / expected <= 1.01
    assert 0.1 < update / weight < 0.2  # "a seventh"


def test_a_tenth_of_the_learning_rate_learns(outputs):
    (right,) = re.findall(r"right on (\d+)%", outputs["fixed"])
    assert int(right) > 75
