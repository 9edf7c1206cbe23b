"""What a run answers is what the run holds."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import backsight as bs
from backsight.runs import STATISTICS, RunWriter
from backsight.runs.lines import sealed
from backsight.viewer import Library
from backsight.viewer.library import NoSuchThing
from backsight.viewer.packing import plain
from backsight.viewer.question import HOMES, QUESTIONS, BadQuestion, answering


def numbers(held):
    return np.frombuffer(base64.b64decode(held["data"]), f"<{held['kind']}").reshape(held["shape"])


def test_the_newest_run_comes_first(library):
    assert library.names() == ["hostile", "short", "broken", "other", "again", "first"]


def test_a_run_may_be_shown_alone(runs):
    alone = Library(runs / "first")
    assert alone.names() == ["first"]
    assert alone.ask("first", "about", {})["steps"] == {"count": 60, "made": 60, "first": 0, "last": 59}


def test_a_run_that_begins_later_is_found(tmp_path, monkeypatch):
    from recorded_runs import digits

    monkeypatch.setattr("backsight.viewer.library.FRESH", 0)
    library = Library(tmp_path)
    assert library.names() == []
    digits(tmp_path / "new", 2)
    assert library.names() == ["new"]


def test_tensors_stand_in_the_order_of_the_modules(library):
    modules = library.ask("first", "about", {})["modules"]
    assert [(m["label"], m["depth"]) for m in modules][:4] == [("model", 0), ("stem", 1), ("blocks", 1), ("0", 2)]
    gradients = [name for module in modules for name, kind, _ in module["tensors"] if kind == "grad"]
    blocks = [f"blocks.{k}.0.{p}" for k in range(3) for p in ("weight", "bias")]
    assert gradients == ["stem.weight", "stem.bias", *blocks, "head.weight", "head.bias"]


def test_a_heatmap_is_that_of_the_run(library, runs):
    answer = library.ask("first", "heatmap", {"stat": "l2", "kind": "grad", "columns": "10"})
    expected = bs.open_run(runs / "first").heatmap("l2", "grad", columns=10)
    np.testing.assert_allclose(numbers(answer["values"]), expected.values, rtol=1e-6)
    assert (answer["stretch"], answer["first"], answer["columns"]) == (6, 0, 10)
    assert [tuple(key) for key in answer["tensors"]] == list(expected.tensors)


def test_what_is_not_finite_is_marked(library):
    answer = library.ask("broken", "heatmap", {"stat": "l2", "kind": "grad"})
    marked = numbers(answer["nonfinite"]) > 0
    assert not marked[:, :30].any()
    assert marked[:, 30:].all()


def test_the_lines_of_a_tensor_are_its_series(library, runs):
    answer = library.ask("first", "lines", {"tensor": "head.weight", "kind": "grad"})
    run = bs.open_run(runs / "first")
    for stat, line in answer["lines"].items():
        expected = run.series("head.weight", stat, kind="grad").values.astype("f4")
        np.testing.assert_array_equal(numbers(line), expected)


def test_the_tags_of_one_rank_may_be_asked_for(tmp_path):
    for rank in range(2):
        with RunWriter(tmp_path / "run", rank=rank, world=2) as writer:
            for step in range(3):
                writer.mark(step, loss=10.0 * rank + step)
    library = Library(tmp_path)
    for rank in range(2):
        line = library.ask("run", "marks", {"rank": str(rank)})["lines"]["loss"]
        assert numbers(line["values"]).tolist() == [10.0 * rank + step for step in range(3)]


def test_a_window_may_be_asked_for(library):
    answer = library.ask("first", "lines", {"tensor": "head.weight", "kind": "grad", "first": "10", "last": "19"})
    assert (answer["first"], answer["columns"]) == (10, 10)


def test_all_that_is_about_a_parameter_is_related(library):
    answer = library.ask("first", "related", {"tensor": "head.weight.exp_avg", "kind": "state"})
    assert answer["same"] == [
        ["head.weight", "weight"],
        ["head.weight", "grad"],
        ["head.weight.exp_avg", "state"],
        ["head.weight.exp_avg_sq", "state"],
    ]
    assert ["head.bias", "grad"] in answer["beside"]
    assert (answer["shape"], answer["dtype"]) == ([10, 32], "float32")


def test_magnitudes_are_shares_of_the_elements(library, runs):
    answer = library.ask("first", "histograms", {"tensor": "head.weight", "kind": "weight"})
    shares = answer["most"] * (numbers(answer["shares"]) / 255) ** 2
    held = bs.open_run(runs / "first").histograms("head.weight", kind="weight")
    expected = held.counts / held.sampled[:, None]
    np.testing.assert_allclose(shares, expected, atol=0.01)
    assert ((shares > 0) == (expected > 0)).all()


def ridges_of(answer):
    ridges = answer["ridges"]
    sides = {
        side: ridges["most"] * (numbers(ridges[side]) / 255) ** 2 for side in ("positive", "negative") if side in ridges
    }
    return ridges, sides


def test_ridges_are_shares_by_sign_and_of_what_is_zero(library, runs):
    ridges, sides = ridges_of(library.ask("first", "histograms", {"tensor": "stem.weight", "kind": "grad"}))
    held = bs.open_run(runs / "first").histograms("stem.weight", kind="grad")
    assert len(ridges["columns"]) == 40
    assert (ridges["columns"][0], ridges["columns"][-1]) == (0, 59)
    bins = slice(ridges["low"], ridges["low"] + sides["positive"].shape[1])
    of = held.counts[ridges["columns"]], held.negatives[ridges["columns"]], held.sampled[ridges["columns"], None]
    np.testing.assert_allclose(sides["negative"], (of[1] / of[2])[:, bins], atol=0.01)
    np.testing.assert_allclose(sides["positive"], ((of[0] - of[1]) / of[2])[:, bins], atol=0.01)
    np.testing.assert_allclose(ridges["rest"], 1 - (of[0] / of[2]).sum(axis=1), atol=1e-6)


def test_ridges_of_a_run_without_signs_are_of_magnitudes(tmp_path):
    counts = np.zeros((1, 64), "<u4")
    counts[0, 40:44] = 2
    rows = np.zeros(1, STATISTICS)
    rows["count"] = 16
    with RunWriter(tmp_path / "run") as writer:
        writer.append(0, [writer.tensor("w", "grad")], rows, histograms=counts)
    ridges, sides = ridges_of(Library(tmp_path).ask("run", "histograms", {"tensor": "w", "kind": "grad"}))
    assert list(sides) == ["positive"]
    assert ridges["low"] == 39
    np.testing.assert_allclose(sides["positive"], [[0, *[0.125] * 4, 0]], atol=1e-6)
    assert ridges["rest"] == [0.5]


def test_a_tensor_without_histograms_has_no_ridges(tmp_path):
    rows = np.zeros(1, STATISTICS)
    rows["count"] = 16
    with RunWriter(tmp_path / "run") as writer:
        writer.append(0, [writer.tensor("w", "grad")], rows)
    answer = Library(tmp_path).ask("run", "histograms", {"tensor": "w", "kind": "grad"})
    assert (answer["steps"], answer["ridges"]["columns"], answer["ridges"]["rest"]) == ([], [], [])


def test_rows_are_the_newest_of_too_many(library, monkeypatch):
    monkeypatch.setattr("backsight.viewer.answers.rows.MOST_ROWS", 5)
    answer = library.ask("first", "rows", {"tensor": "stem.output", "kind": "output"})
    assert answer["total"] == 60
    assert [row[0] for row in answer["rows"]] == [55, 56, 57, 58, 59]


def test_tags_are_lines_or_words(library):
    answer = library.ask("broken", "marks", {})
    assert answer["lines"]["loss"]["last"] == "nan"
    assert numbers(answer["lines"]["loss"]["values"]).shape == (50,)
    assert answer["words"] == {"phase": [[0, "warm"], [5, "train"]]}


def test_findings_point_to_the_tensor_and_the_step(library):
    first, *_ = library.ask("broken", "findings", {})["findings"]
    assert (first["code"], first["severity"], first["step"]) == ("BS301", "error", 30)
    assert ["head.bias", "grad"] in first["tensors"]


def test_equal_runs_do_not_part(library):
    answer = library.ask("first", "compare", {"with": "again"})
    assert answer["steps"] == {"both": 40, "one": 60, "other": 40}
    assert answer["exact"] is answer["near"] is None


def test_two_runs_part_where_their_seeds_do(library):
    answer = library.ask("first", "compare", {"with": "other"})
    assert (answer["exact"]["step"], answer["exact"]["kind"]) == (0, "weight")
    assert answer["near"]["tensor"] == answer["exact"]["tensor"] == "stem.weight"
    (norm,) = (pair for pair in answer["exact"]["values"] if pair[0] == "l2")
    assert norm[1] != norm[2]


def test_rounding_is_told_from_a_difference(tmp_path):
    from backsight.runs import STATISTICS, RunWriter

    for name, nudge, break_at in (("one", 0.0, None), ("two", 1e-9, 700)):
        with RunWriter(tmp_path / name) as writer:
            number = writer.tensor("w", "weight")
            for step in range(1000):
                rows = np.zeros(1, STATISTICS)
                rows["count"], rows["mean"] = 1, 1 + (nudge if step >= 300 else 0) + (1 if step == break_at else 0)
                writer.append(step, [number], rows)
    answer = Library(tmp_path).ask("one", "compare", {"with": "two"})
    assert (answer["exact"]["step"], answer["near"]["step"]) == (300, 700)


def test_every_answer_is_json_without_nan(library):
    """What Python's JSON would write as NaN, a browser cannot read."""
    given = {"stat": "l2", "kind": "grad"}
    for name in library.names():
        tensors = [module["tensors"] for module in library.ask(name, "about", {})["modules"]]
        tensor, kind, _ = next(each for held in tensors for each in held)
        for question in HOMES:
            asked = {"tensor": tensor, "kind": kind, "stat": "l2", "code": "BS301"} if question != "heatmap" else given
            json.dumps(
                library.ask(name, question, asked if question != "lines" else {**asked, "stat": ""}), allow_nan=False
            )


@pytest.mark.parametrize(
    ("question", "given", "says"),
    [
        ("heatmap", {"kind": "grad"}, "stat is missing"),
        ("heatmap", {"kind": "grad", "stat": "nrm"}, "no statistic 'nrm'"),
        ("heatmap", {"kind": "grads", "stat": "l2"}, "no tensors of kind 'grads'"),
        ("heatmap", {"kind": "grad", "stat": "l2", "columns": "9999999"}, "columns must be from 1 to 4000"),
        ("heatmap", {"kind": "grad", "stat": "l2", "first": "x"}, "first must be a whole number, not 'x'"),
        ("heatmap", {"kind": "grad", "stat": "l2", "rank": "7"}, "no rank 7"),
        ("lines", {"kind": "grad", "tensor": "head.weigth"}, "did you mean 'head.weight', "),
        ("related", {"kind": "grad", "tensor": "nothing"}, "no tensor 'nothing'"),
        ("lines", {"kind": "grad", "tensor": "x" * 70_000}, "tensor has 70000 characters; the maximum is 65536"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(library, question, given, says):
    with pytest.raises(BadQuestion, match=says):
        library.ask("first", question, given)


@pytest.mark.parametrize("name", ["../first", "first/../first", "/", "", "first/rank-00000", "nothing"])
def test_a_name_leads_to_a_run_of_the_folder_or_nowhere(library, name):
    with pytest.raises(NoSuchThing, match="There is no run"):
        library.ask(name, "about", {})


def test_there_is_no_question_but_those_that_there_are(library):
    with pytest.raises(NoSuchThing, match="no question 'exec'"):
        library.ask("first", "exec", {})


def test_every_number_of_a_run_is_a_line_or_the_same_in_all_steps(library):
    answer = library.ask("first", "metrics", {})
    assert {"loss", "grad_norm", "update_ratio", "step_time", "memory"} <= answer["lines"].keys()
    assert answer["losses"] == ["loss"]
    assert answer["constants"]["lr"] == 3e-3
    assert answer["words"]["phase"] == [[0, "warm"], [5, "train"]]
    assert answer["lines"]["step_time"]["unit"] == "s"
    assert answer["clock"]["steps"][0] == 0
    assert answer["epoch"] is None


def test_while_a_run_is_recorded_numbers_that_were_noted_once_are_the_same_in_all_steps(tmp_path):
    writer = RunWriter(tmp_path / "run")
    writer.scalars(0, {"lr": 0.1, "momentum": 0.9})
    for step in range(4):
        writer.scalars(step, {"loss": 1.0 / (1 + step)})
        writer.mark(step, **({"best": 0.5} if step == 1 else {"phase": "warm"}))
    writer.scalars(3, {"lr": 0.01})
    writer.flush()
    answer = Library(tmp_path).ask("run", "metrics", {})
    writer.close()
    assert answer["constants"] == {"momentum": 0.9}
    assert {"loss", "lr", "best"} <= answer["lines"].keys()


def test_numbers_of_some_steps_are_asked_for(library):
    answer = library.ask("first", "metrics", {"first": "10", "last": "20"})
    assert answer["lines"]["loss"]["steps"] == list(range(10, 21))
    thin = library.ask("first", "metrics", {"columns": "5"})
    assert len(thin["lines"]["loss"]["steps"]) == 5


def test_settings_tell_what_a_run_was_made_with(library):
    found = {(group, name): value for group, name, value in library.ask("other", "settings", {})["settings"]}
    assert found["optimizer", "optimizer"] == "AdamW"
    assert found["optimizer", "lr"] == 3e-3
    assert found["environment", "seed"] == 1
    assert ("environment", "torch") in found


def test_groups_of_an_optimizer_that_differ_are_one_setting(tmp_path):
    with RunWriter(tmp_path / "run", config={"program": "train"}) as writer:
        writer.event(
            "optimizer", step=0, optimizer="SGD", groups=[{"lr": 0.01, "momentum": 0.9}, {"lr": 0.05, "momentum": 0.9}]
        )
        writer.tree([{"name": "m", "type": "Net", "children": []}])
        writer.append(0, [writer.tensor("m.w", "grad", "m", (2,), "float32")], np.ones(1, STATISTICS))
    answer = Library(tmp_path).ask("run", "settings", {})
    assert ["optimizer", "lr", "0.01, 0.05"] in answer["settings"]
    assert ["optimizer", "momentum", 0.9] in answer["settings"]
    assert ["program", "script", "train"] in answer["settings"]
    assert ["program", "model", "Net"] in answer["settings"]
    assert answer["parameters"] == ["m.w"]


def test_a_tensor_that_may_be_missing_is_no_mistake(library):
    given = {"tensor": "nothing", "kind": "grad", "columns": "10"}
    assert library.ask("first", "lines", {**given, "optional": "1"})["columns"] == 0
    with pytest.raises(BadQuestion):
        library.ask("first", "lines", given)


def test_of_very_many_ranks_one_is_shown_until_another_or_all_are_asked_for(tmp_path):
    for rank in range(70):
        with RunWriter(tmp_path / "many", rank=rank, world=70, job="one") as writer:
            number = writer.tensor("w", "grad", "m", (10,), "float32")
            row = np.zeros(1, STATISTICS)
            row["count"], row["mean"] = 10, rank
            writer.append(0, [number], row)
    library = Library(tmp_path)
    about = library.ask("many", "about", {})
    assert (len(about["ranks"]), about["rank"]) == (70, 0)
    given = {"tensor": "w", "kind": "grad", "first": "0", "last": "0"}

    def mean(**rank):
        held = library.ask("many", "rows", {**given, **rank})
        return held["rows"][0][held["columns"].index("mean")]

    assert (mean(), mean(rank="7"), mean(rank="all")) == (0, 7, 34.5)


class Deep(nn.Module):
    """Sigmoids in a row, through which gradients vanish."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(12))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        return self.head(x)


def test_findings_point_to_the_lines_that_use_a_tensor(tmp_path):
    """As far as a watch of lines has seen them, as under `backsight run`."""
    torch.manual_seed(0)
    model = Deep()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.watch(level="lines"), bs.record(model, optimizer, tmp_path / "run"):
        for _ in range(30):
            nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,))).backward()
            optimizer.step()
            optimizer.zero_grad()
    library = Library(tmp_path)
    answer = library.ask("run", "findings", {})
    vanishing = next(each for each in answer["findings"] if each["code"] == "BS302")
    line = f"{__file__}:{Deep.forward.__code__.co_firstlineno + 2}"
    assert (vanishing["source"], vanishing["lines"]) == (line, []), "what a finding knows is said once"
    assert answer["code"][line] == "for layer in self.layers:" or answer["code"][line].startswith("x = torch.sigmoid")
    assert library.ask("run", "graph", {})["code"] == answer["code"]


def record_in_one_line(folder, model, x, steps=30):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.watch(level="lines"), bs.record(model, optimizer, folder):
        for step in range(steps):
            model(x(step)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def test_a_line_that_calls_the_whole_model_is_not_that_of_a_layer(tmp_path):
    layers = [layer for _ in range(12) for layer in (nn.Linear(16, 16), nn.Sigmoid())]
    record_in_one_line(tmp_path / "run", nn.Sequential(*layers), lambda step: torch.randn(8, 16))
    answer = Library(tmp_path).ask("run", "findings", {})
    assert [each["lines"] for each in answer["findings"] if each["code"] == "BS302"] == [[]]


class Logarithm(nn.Module):
    def forward(self, x):
        return torch.log(x + 2)


def test_nan_of_a_known_operation_is_told_with_its_line_and_no_other_run(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), Logarithm())
    record_in_one_line(tmp_path / "run", model, lambda step: torch.randn(8, 4) * (100 if step >= 12 else 0.1))
    (finding,) = [each for each in Library(tmp_path).ask("run", "findings", {})["findings"] if each["code"] == "BS301"]
    assert finding["source"] == f"{__file__}:{Logarithm.forward.__code__.co_firstlineno + 1}"
    assert finding["source"] not in finding["lines"], "once is enough"
    assert finding["fix"].startswith("Module 1 ends in log, which is NaN for a negative number")
    assert "--nonfinite" not in finding["fix"]


def test_an_integer_that_a_browser_would_round_is_text():
    assert [plain(each) for each in (2**53, -(2**53) - 1, 11545331569842905123, True)] == [
        2**53,
        str(-(2**53) - 1),
        "11545331569842905123",
        True,
    ]


def test_what_a_page_asks_first_is_read_before_it_asks(library, monkeypatch):
    asked = []
    ask = Library.ask
    monkeypatch.setattr(Library, "ask", lambda *given: asked.append(given[1:3]) or ask(*given))
    library.warm()
    newest = library.names()[0]
    assert asked == [(newest, "about"), (newest, "heatmap")]


@pytest.mark.parametrize(
    ("rates", "highest"),
    [((0.0, 0.05, 0.1, 0.02), 0.1), ((0.1, 0.05, 0.0), 0.1), ((0.1, 0.1), 0.1)],
)
def test_of_a_learning_rate_that_a_schedule_raises_the_highest_is_what_was_chosen(tmp_path, rates, highest):
    with RunWriter(tmp_path / "run") as writer:
        writer.event("optimizer", step=0, optimizer="SGD", groups=[{"tensors": 1, "lr": rates[0], "momentum": 0.9}])
        for step, rate in enumerate(rates):
            writer.scalars(step, {"lr": rate})
    settings = Library(tmp_path).ask("run", "settings", {})["settings"]
    assert [[name, value] for group, name, value in settings if "lr" in name] == [["lr", highest]]


@pytest.mark.parametrize("kind", ["grad", "output"])
def test_what_was_read_before_is_what_the_page_asks_for(tmp_path, look, monkeypatch, kind):
    from backsight.viewer import Server

    with RunWriter(tmp_path / "run") as writer:
        number = writer.tensor("t", kind, "t", (2,), "float32")
        for step in range(3):
            writer.append(step, [number], np.ones(1, STATISTICS))
    library, read = Library(tmp_path), counting(monkeypatch, "heatmap")
    library.warm()
    with Server(library) as server:
        page = look("#/run/heatmap", busy=False, server=server)
        page.locator(".cells canvas").wait_for()
    assert read == ["run"]


def counting(monkeypatch, question):
    """Return a list that grows each time a run is read for this question."""
    read, answer = [], answering(question)
    monkeypatch.setitem(QUESTIONS, question, lambda run, asked: read.append(run.name) or answer(run, asked))
    return read


def test_what_a_page_asks_first_is_read_once_while_a_run_is_as_it_was(tmp_path, monkeypatch):
    from recorded_runs import digits

    for seed, name in enumerate(("one", "other")):
        digits(tmp_path / name, 3, seed=seed)
    library, read = Library(tmp_path), counting(monkeypatch, "heatmap")
    given = {"kind": "grad", "stat": "l2"}
    first = library.ask("one", "heatmap", given)
    assert library.ask("one", "heatmap", dict(reversed(given.items()))) == first
    assert read == ["one"]
    assert library.ask("one", "heatmap", {**given, "stat": "std"})["stat"] == "std"
    assert library.ask("other", "heatmap", given) != first
    assert read == ["one", "one", "other"]


def test_what_is_written_to_a_run_is_in_the_next_answer(tmp_path, monkeypatch):
    from recorded_runs import digits

    digits(tmp_path / "run", 3)
    library, read = Library(tmp_path), counting(monkeypatch, "about")
    assert library.ask("run", "about", {})["metrics"] == []
    with (tmp_path / "run" / "rank-00000" / "metrics.jsonl").open("ab") as file:
        file.write(sealed({"id": 0, "name": "later", "merge": "none"}))
    assert library.ask("run", "about", {})["metrics"] == ["later"]
    assert read == ["run", "run"]


def test_a_run_that_is_recorded_is_read_each_time(tmp_path, monkeypatch):
    with RunWriter(tmp_path / "run", config={}) as writer:
        writer.tensor("t", "grad", "", (2,), "float32")
        rows = np.zeros(1, STATISTICS)
        rows["count"] = 2
        writer.append(0, [0], rows)
        writer.flush()
        library, read = Library(tmp_path), counting(monkeypatch, "about")
        for _ in range(2):
            library.ask("run", "about", {})
    assert read == ["run", "run"]


def test_who_asks_while_another_is_answered_gets_the_same_answer(tmp_path, monkeypatch):
    from recorded_runs import digits

    digits(tmp_path / "run", 3)
    library, read = Library(tmp_path), counting(monkeypatch, "about")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: library.ask("run", "about", {}), range(4)))
    assert all(each is answers[0] for each in answers)
    assert read == ["run"]


def test_a_folder_without_a_run_is_not_read_before(tmp_path):
    Library(tmp_path).warm()
