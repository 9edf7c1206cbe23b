"""Where the tensors of a run are in the picture of its graph, and how much of the graph is open."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import backsight as bs
from backsight.runs import RunWriter
from backsight.tape import capture, document
from backsight.viewer import Library
from backsight.viewer.question import BadQuestion


def trained(folder, model, width=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with bs.record(model, optimizer, folder / "run", taps=("input", "output", "weight", "grad", "state", "update")):
        model(torch.ones(2, width)).square().mean().backward()
        optimizer.step()
    return Library(folder)


def boxes(answer):
    """Return the texts of each box by its number."""
    root = ElementTree.fromstring(answer["svg"])
    space = "{http://www.w3.org/2000/svg}"
    return {
        g.attrib["data-box"]: [text.text for text in g.findall(f"{space}text") if text.get("class") != "amount"]
        for g in root.iter(f"{space}g")
        if "data-box" in g.attrib
    }


def holding(answer, kind):
    """Return what is in each box of a kind, by the first words on it."""
    named = boxes(answer)
    return {" ".join(named[index][:2]): set(names) for index, names in answer["tensors"].get(kind, {}).items()}


def test_parameters_are_where_they_are_used_and_outputs_where_they_are_made(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    answer = trained(tmp_path, model).ask("run", "graph", {})
    assert holding(answer, "grad") == {"0 Linear": {"0.weight", "0.bias"}, "2 Linear": {"2.weight", "2.bias"}}
    assert holding(answer, "state")["2 Linear"] == {"2.weight.momentum_buffer", "2.bias.momentum_buffer"}
    assert holding(answer, "output") == {
        "0 Linear": {"0.output"},
        "1 Tanh": {"1.output"},
        "2 Linear": {"2.output", "output"},
    }
    assert holding(answer, "input") == {
        "0 Linear": {"0.input", "input"},
        "1 Tanh": {"1.input"},
        "2 Linear": {"2.input"},
    }
    assert holding(answer, "update") == holding(answer, "weight") == holding(answer, "grad")


def test_a_weight_that_is_used_twice_is_in_both_boxes(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).relu())

    answer = trained(tmp_path, Tied()).ask("run", "graph", {"tensor": "a.weight", "kind": "grad"})
    assert holding(answer, "grad") == {"a Linear": {"a.weight", "a.bias"}, "b Linear": {"a.weight", "b.bias"}}
    assert len(answer["here"]) == 2


def test_a_pill_tells_what_was_recorded_of_its_leaf(tmp_path):
    answer = trained(tmp_path, nn.Linear(4, 2)).ask("run", "graph", {})
    told = {leaf["name"]: leaf["kinds"] for leaf in answer["leaves"].values()}
    kinds = {"weight": "weight", "grad": "weight", "update": "weight", "state": "weight.momentum_buffer"}
    assert told["weight"] == kinds


class Deep(nn.Module):
    """Blocks in which there is something to open."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(blocks)])

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def test_layers_that_are_alike_are_drawn_one_by_one_and_as_open_as_each_other(tmp_path):
    library = trained(tmp_path, Deep(12))
    answer = library.ask("run", "graph", {})
    assert not answer["fold"]
    assert sum(words[0].startswith("blocks.") for words in boxes(answer).values()) == 12
    folded = library.ask("run", "graph", {"fold": "1"})
    assert len(boxes(folded)) < len(boxes(answer))


def test_of_very_many_layers_one_is_drawn(tmp_path):
    answer = trained(tmp_path, Deep(80)).ask("run", "graph", {})
    assert answer["fold"]
    assert len(boxes(answer)) < 10
    # The first stands by itself: what comes into it needs no gradient, so that its sum has one input.
    (names,) = (names for names in answer["tensors"]["grad"].values() if "blocks.1.0.weight" in names)
    assert "blocks.79.0.weight" in names


def test_what_is_wanted_is_opened_and_groups_are_opened_and_closed(tmp_path):
    library = trained(tmp_path, Deep(12))
    closed = library.ask("run", "graph", {})
    wanted = library.ask("run", "graph", {"tensor": "blocks.5.2.weight", "kind": "weight"})
    assert len(boxes(wanted)) == len(boxes(closed)) + 2
    (here,) = wanted["here"]
    assert boxes(wanted)[str(here)][:2] == ["2", "Linear"]
    group = next(index for index, words in boxes(closed).items() if words[0] == "blocks.3")
    opened = library.ask("run", "graph", {"open": group})
    assert len(boxes(opened)) == len(boxes(closed)) + 2
    assert boxes(library.ask("run", "graph", {"open": "999999"})) == boxes(closed)


def test_too_much_is_not_drawn(tmp_path):
    library = trained(tmp_path, Deep(250))
    folded = library.ask("run", "graph", {"fold": "0"})
    everything = ",".join(map(str, folded["groups"]))
    with pytest.raises(BadQuestion, match="this would show more than 500 boxes: close some"):
        library.ask("run", "graph", {"fold": "0", "open": everything})


@pytest.mark.parametrize("given", [{"open": "x"}, {"fold": "2"}, {"open": "1,"}, {"tensor": "nothing", "kind": "grad"}])
def test_odd_questions_get_an_answer_or_a_reason(tmp_path, given):
    library = trained(tmp_path, nn.Linear(4, 2))
    try:
        assert library.ask("run", "graph", given)["here"] == []
    except BadQuestion as error:
        assert str(error) in ("open must be comma-separated numbers.", "fold must be from 0 to 1, not 2.")


def test_a_graph_with_no_modules_at_all_is_drawn(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with RunWriter(tmp_path / "run") as writer:
        writer.graph(0, document(capture(x.exp().sum(), details=False)))
    answer = Library(tmp_path).ask("run", "graph", {})
    assert len(boxes(answer)) == 2
    json.dumps(answer, allow_nan=False)
