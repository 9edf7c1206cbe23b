"""What `measure_memory` tells of a step."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from steps import GPT, most, training, words
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import backsight as bs
from backsight.gradient_release import release
from backsight.memory.claims import Claims


def test_every_kind_has_the_bytes_that_it_should():
    model, optimizer, batch, step = training(foreach=True)
    step()
    weights = sum(p.nbytes for p in model.parameters())
    measured = bs.measure_memory(step)
    assert most(measured, "parameters") == weights
    assert most(measured, "gradients") == weights
    assert most(measured, "inputs") == sum(t.nbytes for t in batch)
    state = sum(t.nbytes for per in optimizer.state.values() for t in per.values())
    assert most(measured, "optimizer state") == state == 2 * weights + 4 * len(list(model.parameters()))
    assert measured.history.phase_at(measured.history.peak_at) == "optimizer"
    assert measured.by_kind["temporaries"] >= weights  # what foreach takes on top of all gradients


def test_state_and_gradients_that_the_first_step_makes_are_known():
    model, _, _, step = training(foreach=True)
    measured = bs.measure_memory(step)
    made = [block for block in measured.history.blocks if block.kind == "optimizer state"]
    assert {block.phase for block in made} == {"optimizer"}
    assert {"exp_avg of layers.0.weight", "step of layers.2.bias"} <= {block.name for block in made}
    names = {block.name for block in measured.history.blocks if block.kind == "gradients"}
    assert names == {f"{name}.grad" for name, _ in model.named_parameters()}


def test_saved_for_backward_is_what_the_graph_holds():
    model, batch = GPT(64, 2, 2, 300), words(2, 32, 300)
    graphs = []

    def step():
        loss = model(*batch)
        graphs.append(bs.graph(loss, names=False))
        loss.backward()

    measured = bs.measure_memory(step)
    saved = {s.storage: s.storage_bytes for node in graphs[0].nodes for s in node.saved if s.storage}
    there_before = {t.untyped_storage()._cdata for t in [*model.parameters(), *batch]}
    made = sum(size for storage, size in saved.items() if storage not in there_before)
    assert (
        made <= most(measured, "saved for backward") <= made + 8
    )  # with the loss and the gradient that backward begins


def test_a_result_that_a_variable_holds_is_told_by_its_name_and_not_as_saved():
    model, x = nn.Linear(16, 5000), torch.randn(64, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        logits = model(x)
        F.cross_entropy(logits, torch.zeros(64, dtype=torch.long)).backward()
        optimizer.step()

    measured = bs.measure_memory(step)
    (block,) = (block for block in measured.history.blocks if block.name == "logits")
    assert (block.kind, block.bytes, block.shape, block.op) == ("other", 64 * 5000 * 4, (64, 5000), "aten::addmm")
    assert block.node.startswith("AddmmBackward0 #")


def test_modules_are_told_by_their_paths_and_nodes_by_their_numbers():
    model, batch = GPT(64, 2, 2, 300), words(2, 32, 300)
    measured = bs.measure_memory(lambda: model(*batch).backward())
    gelu = [b for b in measured.history.blocks if b.op == "aten::gelu"]
    assert [block.module for block in gelu] == ["blocks.0", "blocks.1"]
    assert all(block.node.startswith("GeluBackward0 #") and block.kind == "saved for backward" for block in gelu)
    back = [b for b in measured.history.blocks if b.node == gelu[1].node and b.phase == "backward"]
    assert {block.module for block in back} == {"blocks.1"}  # a node's backward is for the module of its forward
    assert "head" in measured.by_module
    assert any(node.startswith("NllLossBackward0 #") for node in measured.by_node)


def test_several_models_are_told_apart():
    models = {"generator": nn.Linear(8, 64), "critic": nn.Linear(64, 1)}
    with bs.measure_memory(models) as measured:
        models["critic"](models["generator"](torch.randn(4, 8))).sum().backward()
    assert {"generator", "critic"} <= set(measured.by_module)
    assert "generator.weight" in {block.name for block in measured.history.blocks}


def test_a_model_with_its_step_is_named_from_the_model_and_not_from_its_calls():
    model = nn.ModuleDict({"inner": nn.Linear(8, 8)})
    measured = bs.measure_memory(lambda: model["inner"](torch.randn(2, 8)).sum().backward(), model=model)
    assert "inner" in measured.by_module


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_recomputed_and_what_it_saves_then_is_saved(reentrant):
    layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()) for _ in range(3))
    x = torch.randn(128, 64, requires_grad=True)

    def step(checkpointed):
        h = x
        for layer in layers:
            h = checkpoint(layer, h, use_reentrant=reentrant) if checkpointed else layer(h)
        h.sum().backward()

    plain, lean = (bs.measure_memory(lambda c=c: step(c)) for c in (False, True))
    assert {span.phase for span in lean.history.spans} == {"forward", "recomputation", "backward"}
    assert most(lean, "saved for backward") < most(plain, "saved for backward")
    again = [b for b in lean.history.blocks if b.phase == "recomputation" and b.op == "aten::tanh"]
    assert {block.kind for block in again} == {"saved for backward"}


def test_a_graph_that_is_kept_for_a_second_pass_is_saved_until_then():
    model, x = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)), torch.randn(64, 32)

    def step():
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    measured = bs.measure_memory(step)
    (tanh,) = (b for b in measured.history.blocks if b.op == "aten::tanh")
    assert tanh.kind == "saved for backward"


def test_an_optimizer_that_steps_one_parameter_after_the_other_is_looked_at_where_it_steps():
    """Its state leads to its groups, and from there to all parameters."""

    class Single(torch.optim.Optimizer):
        def step(self, parameter):
            self.state[parameter].setdefault("average", torch.zeros_like(parameter))
            self.state[parameter]["group"] = self.param_groups[0]
            self.state[parameter]["own"] = self.state[parameter]

    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(30)))
    optimizer = Single(model.parameters(), {})
    count = len(list(model.parameters()))
    with Claims() as claims:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
            optimizer.step(parameter)
            parameter.grad = None
        claims.finish()
    kinds = Counter(claim.kind for claim in claims.written)
    assert count <= kinds["optimizer state"] <= 3 * count
    assert kinds["parameters"] <= 5 * count
    assert kinds["gradients"] <= 3 * count


def test_a_forward_pass_alone_saves_nothing():
    model = GPT(64, 2, 2, 300)
    with torch.no_grad():
        measured = bs.measure_memory(lambda: model(*words(2, 32, 300)))
    assert most(measured, "saved for backward") == most(measured, "gradients") == 0
    assert most(measured, "temporaries") > 0


def test_tensors_that_die_in_the_step_and_were_there_before_are_seen_to_die():
    held = [torch.randn(1000)]

    def step():
        held.clear()
        torch.empty(250)

    measured = bs.measure_memory(step)
    assert measured.end == measured.start - 4000
    assert measured.peak == measured.start


def test_a_storage_that_grows_counts_with_its_new_size():
    x = torch.zeros(0)
    measured = bs.measure_memory(lambda: x.resize_(1000))
    assert measured.end - measured.start == 4000


def test_a_step_that_does_nothing_has_its_peak_before():
    held = torch.randn(1000)
    measured = bs.measure_memory(lambda: None)
    assert measured.peak == measured.start >= held.nbytes
    assert "before the step" in str(measured.at_peak)
    assert measured.events == ()
    assert "by kind" in measured.table()


def test_memory_of_a_released_optimizer_shows_that_gradients_go():
    def peak_of_gradients(released):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(128, 128) for _ in range(12)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        released_by = release(optimizer, bucket=0) if released else None

        def step():
            model(torch.randn(8, 128)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        measured = bs.measure_memory(step)
        assert released_by is None or released_by.remove() is None
        return most(measured, "gradients")

    assert peak_of_gradients(True) < peak_of_gradients(False) / 4


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_are_zeroed_before_the_forward_pass_are_no_step_of_the_optimizer(set_to_none):
    model, optimizer, batch, step = training()
    step()
    model(*batch).backward()

    def begins_with_zeros():
        optimizer.zero_grad(set_to_none=set_to_none)
        model(*batch).backward()
        optimizer.step()

    measured = bs.measure_memory(begins_with_zeros)
    assert [span.phase for span in measured.history.spans] == ["forward", "backward", "optimizer"]
