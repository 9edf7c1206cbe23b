"""Programs in which forward and backward are not one after the other: each part of their time has one place."""

import threading

import pytest
import torch
from profiled import Doubled, batch, ops, row
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight as bs


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return self.linear(x).tanh()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))


def test_what_a_checkpoint_recomputes_is_told_apart(model):
    with bs.profile() as p:
        checkpoint(model, batch(), use_reentrant=False).sum().backward()
    linear = row(p, "AddmmBackward0", "0")
    assert linear.forward > 0 and linear.recomputed > 0 and linear.backward > 0
    assert (linear.forward_calls, linear.backward_calls) == (1, 1)
    assert row(p, "SumBackward0").recomputed == 0


def test_a_reentrant_checkpoint_makes_its_nodes_when_it_recomputes(model):
    with bs.profile() as p:
        checkpoint(model, batch().requires_grad_(), use_reentrant=True).sum().backward()
    linear = row(p, "AddmmBackward0", "0")
    assert linear.forward == 0 and linear.recomputed > 0 and linear.backward > 0
    assert row(p, "aten::linear", "0").forward > 0, "the first time it recorded nothing"
    assert row(p, "CheckpointFunctionBackward").backward > 0


def test_a_reentrant_checkpoint_of_a_function_without_modules():
    def run(x):
        return x.sin().exp()

    with bs.profile() as p:
        checkpoint(run, batch().requires_grad_(), use_reentrant=True).sum().backward()
    assert row(p, "SinBackward0").recomputed > 0 and row(p, "SinBackward0").backward > 0


def test_the_first_backward_is_no_forward_of_the_second(model):
    x = batch().requires_grad_()
    with bs.profile() as p:
        (grad,) = torch.autograd.grad(model(x).pow(3).sum(), x, create_graph=True)
        grad.square().sum().backward()
    tanh = row(p, "TanhBackward0", "1")
    assert tanh.forward > 0 and tanh.backward > 0 and tanh.recomputed == 0
    second = row(p, "TanhBackwardBackward0", "1")
    assert second.forward == 0 and second.backward > 0, "it was made while the first order ran backward"


def test_every_backward_counts(model):
    with bs.profile() as p:
        loss = model(batch()).sum()
        for _ in range(3):
            loss.backward(retain_graph=True)
    linear = row(p, "AddmmBackward0", "0")
    assert (linear.forward_calls, linear.backward_calls, linear.calls) == (1, 3, 3)


def test_a_gradient_that_is_handed_out_is_not_accumulated(model):
    x = batch().requires_grad_()
    with bs.profile() as p:
        torch.autograd.grad(model(x).sum(), x)
    assert [r.calls for r in p.rows if r.kind == "leaf"] == [0], "the engine was there, and called no node"
    assert row(p, "AddmmBackward0", "0").calls == 1


def test_a_module_called_twice_has_both_calls(model):
    with bs.profile() as p:
        (model(batch()) + model(batch() * 2)).sum().backward()
    assert row(p, "AddmmBackward0", "0").calls == 2


def test_threads_are_seen_and_their_nodes_not_mixed_up():
    here, there = nn.Linear(6, 2), nn.Bilinear(6, 6, 2)
    x = batch()
    models = {"here": here, "there": there}

    def work():
        there(x, x).sum().backward()

    with bs.profile(models) as p:
        thread = threading.Thread(target=work)
        loss = here(x).sum()
        thread.start()
        thread.join()
        loss.backward()
    assert row(p, "AddmmBackward0", "here").backward > 0
    in_thread = {r.op for r in p.rows if r.module == "there" and r.kind == "node" and r.forward and r.backward}
    assert in_thread, ops(p)
    assert ("there.weight",) in {r.parameters for r in p.rows}


def test_a_backward_in_another_thread_than_its_forward(model):
    with bs.profile() as p:
        loss = model(batch()).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    linear = row(p, "AddmmBackward0", "0")
    assert linear.forward > 0 and linear.backward > 0


def test_a_custom_function_that_runs_backward_inside_of_its_backward():
    class Rerun(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                return torch.autograd.grad(x.sin(), x, grad)[0]

    x = batch().requires_grad_()
    with bs.profile() as p:
        Rerun.apply(x).sum().backward()
    inner = row(p, "SinBackward0")
    assert inner.forward == 0 and inner.recomputed > 0 and inner.backward > 0
    assert row(p, "RerunBackward").forward > 0


def test_an_operation_in_place_on_a_view_has_its_own_node_and_the_one_that_wraps_it():
    class Scaled(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            y[0].mul_(3)
            return y

    model = nn.Sequential(Scaled(6, 2))
    with bs.profile() as p:
        model(batch()).sum().backward()
    own = row(p, "MulBackward0", "0")
    assert own.forward > 0 and own.backward > 0 and own.calls == 1
    wrapping = row(p, "CopySlices", "0")
    assert wrapping.backward > 0 and wrapping.forward == 0


def test_second_order_through_a_custom_function():
    x = batch().requires_grad_()
    with bs.profile() as p:
        (grad,) = torch.autograd.grad(Doubled.apply(x).exp().sum(), x, create_graph=True)
        grad.sum().backward()
    custom = row(p, "DoubledBackward")
    assert (custom.forward_calls, custom.backward_calls) == (1, 2)
    clone = row(p, "CloneBackward0")
    assert clone.forward == 0 and clone.backward > 0, "recorded while the custom backward ran"


def test_a_compiled_model_is_one_node_without_a_new_compilation(model):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    compiled(batch()).sum().backward()
    before = dict(counters["stats"])
    with bs.profile() as p:
        compiled(batch()).sum().backward()
    assert dict(counters["stats"]) == before
    region = row(p, "CompiledFunctionBackward")
    assert region.forward > 0 and region.backward > 0
    assert not any(r.op == "AddmmBackward0" for r in p.rows)


def test_the_first_call_of_a_compiled_model_may_lie_in_the_block(model):
    torch._dynamo.reset()
    expected = model(batch())
    with bs.profile() as p:
        result = torch.compile(model, backend="aot_eager", fullgraph=True)(batch())
        result.sum().backward()
    torch.testing.assert_close(result, expected)
    assert row(p, "CompiledFunctionBackward").backward > 0


@pytest.mark.parametrize("in_place", [True, False])
def test_blocks_compiled_on_their_own_keep_their_modules(in_place):
    torch._dynamo.reset()
    blocks = nn.Sequential(Block(), Block(), nn.Linear(6, 1))
    for k in range(2):
        if in_place:
            blocks[k].compile(backend="aot_eager")
        else:
            blocks[k] = torch.compile(blocks[k], backend="aot_eager")
    blocks(batch()).sum().backward()
    with bs.profile() as p:
        blocks(batch()).sum().backward()
    regions = {r.module for r in p.by_module(depth=1).rows if r.backward} & {"0", "1", "2"}
    assert regions == {"0", "1", "2"}
    assert {r.module for r in p.rows if r.op == "AddmmBackward0"} == {"2"}


def test_a_backward_whose_forward_was_before_the_block_has_no_modules(model):
    loss = model(batch()).sum()
    with bs.profile() as p:
        loss.backward()
    assert {r.module for r in p.rows if r.kind == "node"} == {None}
    assert ("model.0.weight",) in {r.parameters for r in p.rows}
