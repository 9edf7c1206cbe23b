"""Under torch.compile: nothing is compiled anew or broken up, and what can be kept is."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from torch import nn
from trainings import Net, names, rows, train

import backsight as bs


def compiled_counts():
    from torch._dynamo.utils import counters

    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
        "recompiles": sum(counters["recompiles"].values()) if "recompiles" in counters else 0,
    }


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("record_first", [True, False])
def test_compiled_code_is_compiled_once_and_without_breaks(net, run, every, record_first, fresh_dynamo):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if record_first:
        rec = bs.record(net, optimizer, run, every=every)
        compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    else:
        compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
        train(compiled, optimizer, 1)
        rec = bs.record(net, optimizer, run, every=every)
    with torch._dynamo.config.patch(error_on_recompile=True):
        train(compiled, optimizer, 4)
    rec.close()
    assert compiled_counts() == {"graphs": 1, "breaks": 0, "recompiles": 0}
    assert len(bs.open_run(run).steps) == 4 // every
    assert {"weight", "grad"} <= {row["kind"] for row in rows(run)}


def test_of_what_is_compiled_the_ends_are_recorded(net, run, fresh_dynamo):
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(compiled, optimizer, run):
        train(compiled, optimizer, 2)
    assert names(run, kind="output") == ["output"]
    assert names(run, kind="input") == ["x"]
    assert set(names(run, kind="weight")) == set(dict(net.named_parameters()))
    (event,) = [event for event in bs.open_run(run).events if event.event == "calls not seen"]
    assert sorted(event.details["modules"]) == ["first", "last"]
    assert "torch.compile" in event.details["why"]


def test_weights_of_a_compiled_training_are_the_same_to_the_last_bit(run, fresh_dynamo):
    def weights(record_to=None):
        torch.manual_seed(2)
        model = Net()
        optimizer = torch.optim.Adam(model.parameters())
        rec = bs.record(model, optimizer, record_to) if record_to else None
        train(torch.compile(model, backend="aot_eager"), optimizer, 5)
        if rec is not None:
            rec.close()
        return model.state_dict()

    bare, recorded = weights(), weights(run)
    assert all(torch.equal(bare[key], recorded[key]) for key in bare)


class Blocks(nn.Module):
    """Blocks to be compiled one by one."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(2))
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_of_blocks_that_are_compiled_one_by_one_inputs_and_outputs_are_recorded(run, fresh_dynamo):
    model = Blocks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for k, block in enumerate(model.blocks):
        model.blocks[k] = torch.compile(block, backend="aot_eager", fullgraph=True)
    train(model, optimizer, 1)
    bare = compiled_counts()
    with bs.record(model, optimizer, run), torch._dynamo.config.patch(error_on_recompile=True):
        train(model, optimizer, 4)
    assert compiled_counts() == bare and bare["breaks"] == bare["recompiles"] == 0
    assert names(run, kind="output") == ["blocks.0.output", "blocks.1.output", "head.output", "output"]
    assert {int(row["step"]) for row in rows(run, tensor="blocks.1.output")} == {0, 1, 2, 3}


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="inductor needs a C++ compiler")
@pytest.mark.slow
def test_the_same_under_inductor(net, run, fresh_dynamo):
    compiled = torch.compile(net, fullgraph=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(compiled, optimizer, run), torch._dynamo.config.patch(error_on_recompile=True):
        train(compiled, optimizer, 4)
    assert compiled_counts() == {"graphs": 1, "breaks": 0, "recompiles": 0}
    assert names(run, kind="output") == ["output"]
    assert set(names(run, kind="grad")) == set(dict(net.named_parameters()))
