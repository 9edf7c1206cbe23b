"""A recording of a training on a device: the right numbers, the same weights, and no wait on the training thread."""

from __future__ import annotations

import contextlib
import math
import time

import numpy as np
import pytest
import torch
from at_hand import DEVICE, REHEARSAL, Waits, backend, finished, only_there
from torch import nn

import backsight as bs
from backsight.recording.statistics import measure, triton_launch

pytestmark = [pytest.mark.device("recording a training on CUDA"), pytest.mark.usefixtures("quietly")]

TAPS = ("input", "output", "weight", "grad", "state", "output_grad", "update")


class Net(nn.Module):
    """Layers without atomics in their backward: two runs have the same bits."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.norm = nn.Linear(width, 4 * width), nn.LayerNorm(4 * width)
        self.last = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.last(torch.nn.functional.gelu(self.norm(self.first(x))))


def made(**how):
    torch.manual_seed(0)
    net = Net().to(DEVICE)
    return net, torch.optim.AdamW(net.parameters(), lr=1e-3, **(how or {"fused": True}))


def batches(steps):
    torch.manual_seed(1)
    return [torch.randn(32, 64, device=DEVICE) for _ in range(steps)]


def train(net, optimizer, data):
    for x in data:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def bits(net):
    return [each.detach().cpu() for each in net.state_dict().values()]


def assert_same(one, other):
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def rows(run, **query):
    columns = bs.open_run(run).frame(as_="numpy", **query)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}], ids=str)
def test_the_weights_have_the_same_bits_and_the_rows_are_of_them(tmp_path, how):
    data = batches(4)
    plain, optimizer = made(**how)
    train(plain, optimizer, data)
    recorded, optimizer = made(**how)
    gradients = {}
    with bs.record(recorded, optimizer, tmp_path / "run", taps=TAPS):
        train(recorded, optimizer, data)
        gradients = {name: each.grad.clone() for name, each in recorded.named_parameters()}
    assert_same(bits(plain), bits(recorded))
    found = rows(tmp_path / "run", steps=3)
    assert {row["kind"] for row in found} >= {"input", "output", "weight", "grad", "state", "output_grad", "update"}
    for row in found:
        if row["kind"] == "grad":
            expected = measure([gradients[row["tensor"]].cpu()]).rows[0]
            assert (row["min"], row["max"]) == (expected["min"], expected["max"])
            assert row["mean"] == pytest.approx(float(expected["mean"]), rel=1e-4, abs=1e-9)


def test_the_training_thread_never_waits(tmp_path, told):
    def waits_of(net, optimizer):
        train(net, optimizer, batches(3))
        data = batches(5)
        with Waits() as waits:
            train(net, optimizer, data)
        return waits.told

    plain = waits_of(*made(foreach=True))
    net, optimizer = made(foreach=True)
    with bs.record(net, optimizer, tmp_path / "run", taps=TAPS) as rec:
        assert waits_of(net, optimizer) == plain
    assert rec.dropped == 0
    assert len(bs.open_run(tmp_path / "run").steps) == 8
    told(f"{len(plain)} waits in 5 steps, recorded and not")


def test_the_numbers_of_each_step_are_those_of_the_device(tmp_path):
    (net, optimizer), seen = made(), []
    with bs.record(net, optimizer, tmp_path / "run"):
        for x in batches(3):
            optimizer.zero_grad()
            objective = net(x).square().mean()
            objective.backward()
            norm = torch.linalg.vector_norm(torch.stack([each.grad.norm() for each in net.parameters()]))
            optimizer.step()
            seen.append((objective.detach().clone(), norm))
    found = bs.open_run(tmp_path / "run").scalars()
    assert found["objective"].values.tolist() == pytest.approx([each.item() for each, _ in seen])
    assert found["grad_norm"].values.tolist() == pytest.approx([each.item() for _, each in seen], rel=1e-4)
    assert 0 < found["update_ratio"].values[0] < 1
    assert found["lr"].values[0] == 1e-3


def test_with_a_gradient_scaler_that_skips_a_step(tmp_path):
    def trained(run):
        net, optimizer = made()
        scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**120 if DEVICE == "cpu" else 2.0**60, growth_interval=2)
        with bs.record(net, optimizer, run) if run else contextlib.nullcontext():
            for x in batches(6):
                optimizer.zero_grad()
                with torch.autocast(DEVICE, torch.bfloat16 if REHEARSAL else torch.float16):
                    loss = net(x).square().mean()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        return bits(net), scaler.get_scale()

    plain, recorded = trained(None), trained(tmp_path / "run")
    assert_same(plain[0], recorded[0])
    assert plain[1] == recorded[1]
    assert len({row["step"] for row in rows(tmp_path / "run", kind="grad")}) == 6


@pytest.mark.parametrize("mode", ["default", pytest.param("reduce-overhead", marks=only_there)])
def test_under_torch_compile_what_is_outside_of_it_is_recorded(tmp_path, mode):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    data = batches(6)
    net, optimizer = made()
    compiled = torch.compile(net, **({"backend": backend()} if REHEARSAL else {"mode": mode}))
    with bs.record(compiled, optimizer, tmp_path / "run"):
        train(compiled, optimizer, data)
        gradients = {name: each.grad.abs().max().item() for name, each in net.named_parameters()}
    assert (counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())) == (1, 0)
    found = {row["tensor"]: row for row in rows(tmp_path / "run", steps=5, kind="grad")}
    assert {name: max(abs(row["min"]), abs(row["max"])) for name, row in found.items()} == pytest.approx(gradients)
    torch._dynamo.reset()


@only_there
def test_a_step_in_a_cuda_graph_is_captured_and_replayed_as_without_a_recording(tmp_path):
    def trained(run):
        net, optimizer = made(capturable=True, foreach=True)
        x = batches(1)[0]
        with bs.record(net, optimizer, run, taps=TAPS) if run else contextlib.nullcontext():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                train(net, optimizer, [x] * 3)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):
                net(x).square().mean().backward()
                time.sleep(0.5)  # meanwhile what was recorded before is fetched and written by another thread
                optimizer.step()
            for each in batches(5):
                x.copy_(each)
                graph.replay()
            finished()
        return bits(net)

    assert_same(trained(None), trained(tmp_path / "run"))
    found = bs.open_run(tmp_path / "run")
    assert list(found.steps)[:3] == [0, 1, 2]
    assert all(math.isfinite(row["max"]) for row in rows(tmp_path / "run", kind="grad", steps=slice(0, 3)))


@only_there
def test_graphed_callables_are_made_while_the_recording_rests(tmp_path):
    net, optimizer = made()
    rec = bs.record(net, optimizer, tmp_path / "run")
    rec.disarm()
    net.first = torch.cuda.make_graphed_callables(net.first, (batches(1)[0].requires_grad_(),))
    rec.rearm()
    train(net, optimizer, batches(3))
    rec.close()
    assert {row["tensor"] for row in rows(tmp_path / "run", kind="grad")} == set(dict(net.named_parameters()))


@only_there
def test_a_training_on_a_stream_of_its_own_has_the_same_rows(tmp_path):
    def trained(name, stream):
        net, optimizer = made()
        data = batches(4)
        finished()
        with torch.cuda.stream(stream), bs.record(net, optimizer, tmp_path / name):
            train(net, optimizer, data)
        return rows(tmp_path / name)

    one, other = trained("one", torch.cuda.current_stream()), trained("other", torch.cuda.Stream())
    for a, b in zip(one, other, strict=True):
        assert (a["tensor"], a["kind"], a["step"]) == (b["tensor"], b["kind"], b["step"])
        np.testing.assert_equal((a["mean"], a["min"], a["max"]), (b["mean"], b["min"], b["max"]))


def test_memory_goes_back_to_where_it_was(tmp_path, told):
    net, optimizer = made()
    train(net, optimizer, batches(2))
    optimizer.zero_grad()
    finished()
    before = 0 if REHEARSAL else torch.cuda.memory_allocated()
    with bs.record(net, optimizer, tmp_path / "run", taps=TAPS):
        train(net, optimizer, batches(5))
    optimizer.zero_grad()
    finished()
    assert (0 if REHEARSAL else torch.cuda.memory_allocated()) == before


def test_without_triton_the_rows_are_the_same(tmp_path, monkeypatch):
    def trained(name):
        net, optimizer = made()
        with bs.record(net, optimizer, tmp_path / name):
            train(net, optimizer, batches(2))
        return rows(tmp_path / name)

    one = trained("one")
    monkeypatch.setattr(triton_launch, "DEVICES", ())
    other = trained("other")
    for a, b in zip(one, other, strict=True):
        assert (a["tensor"], a["kind"], a["min"], a["max"]) == (b["tensor"], b["kind"], b["min"], b["max"])
        assert a["mean"] == pytest.approx(b["mean"], rel=1e-4, abs=1e-9)
