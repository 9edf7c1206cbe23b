"""Runs drawn with matplotlib."""

from __future__ import annotations

import numpy as np
import pytest

import backsight as bs
from backsight.runs import STATISTICS, RunWriter

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def test_a_line_holds_the_series(runs):
    run = bs.open_run(runs / "first")
    axes = run.plot("head.weight", "grad_norm")
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_ydata(), run.series("head.weight", "grad_norm").values)
    assert axes.get_title() == "head.weight (grad)"
    assert (axes.get_ylabel(), axes.get_yscale()) == ("norm", "log")


def test_a_line_with_gaps_says_so(runs):
    axes = bs.open_run(runs / "broken").plot("head.weight", "grad_norm")
    assert [text.get_text() for text in axes.texts] == ["20 steps are not finite"]


def test_a_heatmap_has_tensors_in_the_order_of_modules(runs):
    axes = bs.open_run(runs / "first").plot_heatmap()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "stem.weight"
    assert names[-1] == "head.bias"
    assert axes.images[0].get_array().shape == (10, 60)


def test_what_is_not_finite_is_marked_in_a_heatmap(runs):
    axes = bs.open_run(runs / "broken").plot_heatmap("norm", "grad")
    marks = axes.images[1].get_array()
    assert marks[:, :30, 3].max() == 0
    assert marks[:, 30:, 3].min() == 1
    assert "NaN" in axes.get_title()


@pytest.mark.parametrize("stat", ["mean", "zero_fraction", "nonfinite", "min"])
def test_every_statistic_has_a_scale(runs, stat):
    for kind in ("grad", "weight", "output"):
        assert bs.open_run(runs / "first").plot_heatmap(stat, kind).images


def test_axes_may_be_given(runs):
    from matplotlib import pyplot

    axes = pyplot.figure().subplots()
    assert bs.open_run(runs / "first").plot("head.weight", "mean", kind="weight", ax=axes) is axes


def test_what_is_not_there_is_said(runs):
    with pytest.raises(bs.RunError, match="no tensor 'nothing'"):
        bs.open_run(runs / "first").plot("nothing", "mean")


def test_exact_zeros_are_grey_in_a_heatmap(tmp_path):
    with RunWriter(tmp_path / "run") as writer:
        numbers = [writer.tensor(name, "grad", name, (2,), "float32") for name in ("dead", "alive")]
        for step in range(4):
            rows = np.zeros(2, STATISTICS)
            rows["count"], rows["zeros"] = 2, (2, 0)
            rows["mean"][1] = rows["min"][1] = rows["max"][1] = 1 + step
            writer.append(step, numbers, rows)
    axes = bs.open_run(tmp_path / "run").plot_heatmap("norm", "grad")
    marks = axes.images[1].get_array()
    assert marks[0, :, :3].tolist() == [[0.66, 0.69, 0.73]] * 4
    assert marks[1, :, 3].max() == 0
    assert "exact zeros in gray" in axes.get_title()
    assert axes.images[0].get_array().mask.tolist() == [[True] * 4, [False] * 4]


def test_a_norm_beyond_what_a_float_holds_is_the_largest_and_not_a_gap(tmp_path):
    with RunWriter(tmp_path / "run", config={}) as writer:
        numbers = [writer.tensor(name, "grad", "", (2,), "float64") for name in ("usual", "huge")]
        for step in range(4):
            rows = np.zeros(2, STATISTICS)
            rows["count"], rows["mean"] = 2, (1, 1.7e308)
            rows["min"] = rows["max"] = rows["mean"]
            writer.append(step, numbers, rows)
    shown = bs.open_run(tmp_path / "run").plot_heatmap("norm", "grad").images[0].get_array()
    assert not np.ma.getmaskarray(shown).any()
    assert np.isfinite(shown).all()


@pytest.mark.parametrize(("height", "named"), [(40, 200), (3, 20)])
def test_rows_are_named_where_there_is_room(tmp_path, height, named):
    from matplotlib import pyplot

    with RunWriter(tmp_path / "run", config={}) as writer:
        numbers = [writer.tensor(f"t{k}", "grad", "", (2,), "float32") for k in range(200)]
        rows = np.zeros(200, STATISTICS)
        rows["count"], rows["mean"] = 2, 1
        writer.append(0, numbers, rows)
    axes = pyplot.figure(figsize=(6, height)).subplots()
    bs.open_run(tmp_path / "run").plot_heatmap("norm", "grad", ax=axes)
    assert len(axes.get_yticks()) == named
