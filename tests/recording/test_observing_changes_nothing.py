"""A recorder observes and does not disturb."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import sys
import weakref

import pytest
import torch
from torch import nn
from trainings import Net, names, rows, train

import backsight as bs

EVERYTHING = ("input", "output", "weight", "grad", "state", "output_grad", "update")


def trained(record_to=None, **how):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    rec = bs.record(model, optimizer, record_to, **how) if record_to else None
    train(model, optimizer, 50)
    if rec is not None:
        rec.close()
    return {**model.state_dict(), "random": torch.rand(3)}, optimizer.state_dict()


@pytest.mark.parametrize("how", [{}, {"taps": EVERYTHING}, {"every": 7}, {"histograms": False}])
def test_weights_are_the_same_to_the_last_bit(run, how):
    bare, bare_state = trained()
    recorded, recorded_state = trained(run, **how)
    assert all(torch.equal(bare[key], recorded[key]) for key in bare)
    for number, state in bare_state["state"].items():
        assert all(torch.equal(value, recorded_state["state"][number][key]) for key, value in state.items())


def on_modules(model):
    """Return the tables of hooks of its modules that are not empty."""
    return [
        f"{name}: {table}"
        for name, m in model.named_modules()
        for table, held in vars(m).items()
        if "hook" in table and held
    ]


def traces(model):
    """Return everything that a recorder could have left on a model, or in the tables of all models."""
    found = on_modules(model)
    modules, optimizers = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
    everywhere = [
        *modules._global_forward_pre_hooks,
        *modules._global_forward_hooks,
        *optimizers._global_optimizer_pre_hooks,
        *optimizers._global_optimizer_post_hooks,
    ]
    on_parameters = [name for name, p in model.named_parameters() if p._post_accumulate_grad_hooks or p._backward_hooks]
    return found + everywhere + on_parameters


def test_a_closed_recorder_leaves_nothing_behind(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = {name: set(vars(module)) for name, module in net.named_modules()}
    with bs.record(net, optimizer, run, taps=EVERYTHING):
        train(net, optimizer, 2)
    assert traces(net) == []
    assert {name: set(vars(module)) for name, module in net.named_modules()} == before
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks


def test_the_state_dict_is_that_of_the_model(net, run):
    keys = list(net.state_dict())
    with bs.record(net, run=run):
        assert list(net.state_dict()) == keys
        net.load_state_dict(net.state_dict())


def test_a_deep_copy_works_and_is_not_recorded(net, run):
    with bs.record(net, run=run) as rec:
        twin = copy.deepcopy(net)
        twin(torch.ones(1, 6)).sum().backward()
        assert on_modules(twin) == []
        rec.step()
    assert "output" not in {row["kind"] for row in rows(run)}
    assert torch.equal(twin.first.weight, net.first.weight)


@pytest.mark.parametrize("dump", [pickle.dumps, lambda model: _saved(model)], ids=["pickle", "torch.save"])
def test_a_pickle_names_nothing_of_ours(run, dump):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with bs.record(model, run=run):
        data = dump(model)
        assert b"backsight" not in data
        twin = pickle.loads(data) if dump is pickle.dumps else torch.load(io.BytesIO(data), weights_only=False)
        twin(torch.ones(1, 2)).sum().backward()
    assert rows(run) == []


def _saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    return file.getvalue()


@pytest.mark.parametrize("moment", ["before", "after forward", "after backward", "after step", "disarmed", "closed"])
def test_nothing_of_a_recorder_is_in_a_model_that_is_saved_or_copied_whole(run, moment):
    def saved(record_to=None):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU())
        optimizer = torch.optim.Adam(model.parameters())
        rec = bs.record(model, optimizer, record_to, taps=EVERYTHING) if record_to else None
        train(model, optimizer, 1, width=2) if moment != "before" else None
        if moment.startswith("after") or moment in ("disarmed", "closed"):
            loss = model(torch.ones(3, 2)).sum()
            if moment != "after forward":
                loss.backward()
            if moment == "after step":
                optimizer.step()
        if rec is not None and moment in ("disarmed", "closed"):
            rec.disarm() if moment == "disarmed" else rec.close()
        made = _saved(model), _saved(copy.deepcopy(model)), _saved(optimizer), _saved(copy.deepcopy(optimizer))
        made += len(pickle.dumps(model)), len(pickle.dumps(list(model.parameters())))  # in which there are addresses
        made += tuple(sorted(vars(each)) for each in model.modules()), tuple(vars(optimizer))
        if rec is not None:
            rec.close()
        return made

    assert saved(run) == saved()


def test_a_whole_model_that_is_being_recorded_is_loaded_as_weights_only(run):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with bs.record(model, run=run):
        model(torch.ones(1, 2)).sum().backward()
        data = _saved(model)
    known = [nn.Sequential, nn.Linear, nn.ReLU]
    with torch.serialization.safe_globals(known):
        twin = torch.load(io.BytesIO(data), weights_only=True)
    assert torch.equal(twin[0].weight, model[0].weight)


def test_the_optimizer_of_a_recording_is_copied_and_pickled(net, run):
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(net, optimizer, run):
        train(net, optimizer, 1)
        assert b"backsight" not in pickle.dumps(optimizer)
        copy.deepcopy(optimizer).step()
    assert {int(row["step"]) for row in rows(run)} == {0}


def test_a_recorder_inside_of_what_is_copied_or_pickled_records_in_one_place_only(net, run):
    with bs.record(net, run=run) as rec:
        trainer = {"model": net, "rec": rec}
        assert copy.deepcopy(trainer)["rec"] is rec
        there = pickle.loads(pickle.dumps(rec))
        assert there.closed
        there.mark(epoch=1)
        there.step()
        there.rearm()
        there.close()
        net(torch.ones(1, 6))
        rec.step()
    assert bs.open_run(run).marks == ()
    assert names(run, kind="output")


def test_no_tensor_is_kept_alive(net, run):
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(net, optimizer, run, taps=EVERYTHING):
        x = torch.ones(2, 6)
        out = net(x)
        loss = out.sum()
        loss.backward()
        alive = [weakref.ref(t) for t in (x, out, loss, *(p.grad for p in net.parameters()))]
        del x, out, loss
        optimizer.step()
        optimizer.zero_grad()
        assert [ref() for ref in alive] == [None] * len(alive)


def test_a_model_is_not_kept_alive_by_its_recorder(run):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec = bs.record(model, optimizer, run)
    train(model, optimizer, 1)
    alive = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert alive() is None
    rec.close()


def test_two_recorders_on_one_model_both_record(net, tmp_path):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, tmp_path / "a"), bs.record(net, optimizer, tmp_path / "b", every=2):
        train(net, optimizer, 3)
    assert len(bs.open_run(tmp_path / "a").steps) == 3
    assert len(bs.open_run(tmp_path / "b").steps) == 2


def test_hooks_of_the_user_run_as_before(net, run):
    seen = []
    net.first.register_forward_hook(lambda module, args, out: seen.append("forward") or out * 2)
    net.first.weight.register_hook(lambda grad: seen.append("grad") or grad * 0)
    with bs.record(net, run=run) as rec:
        net(torch.ones(1, 6)).sum().backward()
        rec.step()
    assert seen == ["forward", "forward", "grad"] or seen == ["forward", "forward", "grad", "grad"]
    assert not net.first.weight.grad.any()


def test_tracing_and_exporting_an_observed_model(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, graph = torch.ones(2, 6), str(torch.fx.symbolic_trace(net, {"scale": None}).graph)
    with bs.record(net, optimizer, run, taps=EVERYTHING):
        for _ in range(2):  # before the training, and amid it
            assert torch.equal(torch.jit.trace(net, x)(x), net(x))
            traced = torch.fx.symbolic_trace(net, {"scale": None})
            assert torch.equal(traced(x), net(x))
            assert str(traced.graph) == graph
            assert torch.equal(torch.export.export(net, (x,)).module()(x), net(x))
            train(net, optimizer, 1)
    calls = [(int(row["step"]), int(row["call"])) for row in rows(run, tensor="output", kind="output")]
    calls_of_step = [len([call for at, call in calls if at == step]) for step in range(2)]
    assert calls_of_step[0] == calls_of_step[1] <= 5, calls  # TorchScript calls once to check its trace


def test_torchscript_compiles_a_model_that_is_being_recorded(net, run):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with bs.record(model, run=run):
        scripted = torch.jit.script(model)
        assert torch.equal(scripted(torch.ones(1, 2)), model(torch.ones(1, 2)))
    assert names(run, kind="output") == ["0.output", "1.output", "output"]


@pytest.mark.parametrize("make", [torch.jit.script, lambda model: torch.jit.trace(model, torch.ones(1, 2))])
def test_of_a_module_of_torchscript_weights_and_gradients_are_recorded_without_a_warning(run, make, recwarn):
    model = make(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with bs.record(model, run=run):
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert {row["kind"] for row in rows(run)} == {"weight", "grad", "state"}
    assert set(names(run, kind="weight", steps=1)) == {"0.weight", "0.bias"}
    assert not [warned for warned in recwarn if issubclass(warned.category, bs.RecordingWarning)]


def test_who_records_is_not_kept_until_the_collector_runs(run):
    class Local:
        pass

    def recorded(name):
        local = Local()
        model = nn.Linear(2, 1)
        with bs.record(model, torch.optim.SGD(model.parameters(), lr=0.1), run=run / name):
            model(torch.ones(1, 2)).sum().backward()
        return weakref.ref(local), weakref.ref(model)

    recorded("first")  # of which PyTorch keeps something
    gc.disable()
    try:
        assert [each() is None for each in recorded("second")] == [True, True]
    finally:
        gc.enable()
