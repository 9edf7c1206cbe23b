"""torchEmber's notebook, replayed on a hand-written AlexNet, shows what it showed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import fresh
import pytest

NOTEBOOKS = Path(__file__).parent / "notebooks"
STATISTICS = ["shape", "mean", "std", "max", "min"]
WHERE = ["module", "ts", "ttype", "tname"]
CONV = "model(AlexNet).features(Sequential).0(Conv2d)"

Cells = dict[str, Any]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """What the notebook's cells showed."""
    home = tmp_path_factory.mktemp("home")
    done = fresh.run(
        [sys.executable, str(NOTEBOOKS / "ember.py")], env={**os.environ, "HOME": str(home), "USERPROFILE": str(home)}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(table: Any, **of: str) -> list[dict[str, Any]]:
    """The rows of a table that say all this."""
    found = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    return [row for row in found if all(row[key] == value for key, value in of.items())]


def test_a_tracker_takes_dicts_and_gives_a_table(cells: Cells) -> None:
    expected = [{"col1": i, "col2": i * 2, "col3": "hahahha"} for i in range(10)]
    assert rows(cells["track"]) == expected
    assert [json.loads(line) for line in cells["file"].splitlines()] == expected


def test_a_tracker_stores_dicts_by_name(cells: Cells) -> None:
    assert cells["about"] is False


def test_disarming_gives_the_model_back_as_it_was(cells: Cells) -> None:
    assert cells["the same model"]


def test_three_passes_make_the_192_rows_of_the_notebook(cells: Cells) -> None:
    table = cells["snowballing"]
    assert table["columns"] == STATISTICS + WHERE
    assert table["index"] == list(range(192))
    assert [(row["module"], row["ttype"], row["tname"]) for row in rows(table)[:6]] == [
        ("model(AlexNet)", "input", "x"),
        ("model(AlexNet).features(Sequential)", "input", "input"),
        (CONV, "input", "input"),
        (CONV, "weight", "weight_0"),
        (CONV, "weight", "weight_1"),
        (CONV, "output", "output_0"),
    ]
    assert [(row["module"], row["shape"], row["ttype"]) for row in rows(table)[-4:]] == [
        ("model(AlexNet).classifier(Sequential).6(Linear)", [1000], "weight"),
        ("model(AlexNet).classifier(Sequential).6(Linear)", [2, 1000], "output"),
        ("model(AlexNet).classifier(Sequential)", [2, 1000], "output"),
        ("model(AlexNet)", [2, 1000], "output"),
    ]


def test_statistics_are_those_of_pytorch(cells: Cells) -> None:
    first, *_ = rows(cells["snowballing"], tname="x")
    weight, *_ = rows(cells["snowballing"], module=CONV, tname="weight_0")
    assert first["shape"] == [2, 3, 224, 224]
    assert [first[name] for name in STATISTICS[1:]] == pytest.approx(cells["truth"]["samp"], rel=1e-5, abs=1e-9)
    assert weight["shape"] == [64, 3, 11, 11]
    assert [weight[name] for name in STATISTICS[1:]] == pytest.approx(cells["truth"]["weight"], rel=1e-5, abs=1e-9)


def test_gradients_appear_with_the_pass_after_the_first_backward(cells: Cells) -> None:
    table = cells["gradients"]
    assert table["index"][:5] == [260, 262, 270, 272, 280]
    assert len(table["rows"]) == 2 * 16
    assert [(row["shape"], row["tname"]) for row in rows(table)[:4]] == [
        ([64, 3, 11, 11], "grad_0"),
        ([64], "grad_1"),
        ([192, 64, 5, 5], "grad_0"),
        ([192], "grad_1"),
    ]
    last, *_ = rows(table, module="model(AlexNet).classifier(Sequential).6(Linear)", tname="grad_1")
    assert [last[name] for name in STATISTICS[1:]] == pytest.approx([0.001, 0, 0.001, 0.001], abs=1e-9)


def test_latest_shows_the_last_pass_only(cells: Cells) -> None:
    table = cells["latest"]
    assert table["columns"] == STATISTICS + WHERE
    assert len(table["rows"]) == 80
    assert len(rows(table, tname="x")) == 1
    (bias,) = rows(table, module="model(AlexNet).classifier(Sequential).6(Linear)", tname="grad_1")
    assert bias["mean"] == pytest.approx(0.002)  # two passes have added up, as no optimizer zeroes it


def test_the_tree_is_nested_by_name_and_stored_beside_the_log(cells: Cells) -> None:
    tree = cells["tree"]
    assert (tree["name"], tree["short"]) == ("model(AlexNet)", "model(AlexNet)")
    features, avgpool, classifier = tree["children"]
    assert features["children"][0] == {"name": CONV, "short": "0(Conv2d)"}
    assert avgpool == {"name": "model(AlexNet).avgpool(AdaptiveAvgPool2d)", "short": "avgpool(AdaptiveAvgPool2d)"}
    assert (len(features["children"]), len(classifier["children"])) == (13, 7)
    assert cells["stored"] == tree


def test_the_log_of_modules_is_that_of_the_last_pass(cells: Cells) -> None:
    assert cells["log"][:4] == [
        "enter model(AlexNet)",
        "enter model(AlexNet).features(Sequential)",
        f"enter {CONV}",
        f"exit {CONV}",
    ]
    assert cells["log"][-1] == "exit model(AlexNet)"
    assert len(cells["log"]) == 2 * 24


def test_functions_of_ones_own_replace_the_statistics(cells: Cells) -> None:
    table, truth = cells["own"], cells["truth"]
    assert table["columns"] == ["num", "row_min", *WHERE, "row_max"]
    assert len(table["rows"]) == 80
    (given,) = rows(table, tname="x")
    (weight,) = rows(table, module=CONV, tname="weight_0")
    (gradient,) = rows(table, module=CONV, tname="grad_0")
    (returned,) = rows(table, module="model(AlexNet)", ttype="output")
    assert (given["num"], given["row_max"]) == (301056, None)
    assert given["row_min"] == pytest.approx(truth["row_min"])
    assert weight["row_max"] == pytest.approx(truth["row_max"])
    assert len(gradient["row_max"]) == 64
    assert returned["row_min"] == pytest.approx(truth["out_row_min"])
