"""`profile_backward`: the backward pass alone, with the names of the snapshot of its graph."""

import pytest
import torch
from profiled import Net, batch, row
from torch.utils.checkpoint import checkpoint

import backsight as bs


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def test_it_does_what_backward_does(model):
    bs.profile_backward(model(batch()))
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(batch()).backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(ours, model.parameters(), strict=True))


def test_nodes_are_in_the_modules_that_fed_them_parameters(model):
    p = bs.profile_backward(model(batch()))
    assert row(p, "AddmmBackward0", "first").backward > 0 and row(p, "AddmmBackward0", "second").backward > 0
    assert all(r.forward_calls == 0 for r in p.rows if r.kind == "node")
    assert ("model.first.weight",) in {r.parameters for r in p.rows}


def test_under_a_watch_modules_are_exact(model):
    with bs.watch():
        p = bs.profile_backward(model(batch()) * 3)
    assert row(p, "TanhBackward0").module == ""
    assert row(p, "MulBackward0").module == "(outside)"


def test_it_takes_the_arguments_of_backward(model):
    loss = model(batch())
    p = bs.profile_backward(loss, torch.tensor(2.0), retain_graph=True, inputs=[model.first.weight])
    assert {r.parameters for r in p.rows if r.kind == "leaf"} == {("model.first.weight",)}
    assert model.second.weight.grad is None
    loss.backward(create_graph=False)


def test_recomputation_is_told_apart(model):
    p = bs.profile_backward(checkpoint(model, batch(), use_reentrant=False), model=model)
    assert any(r.recomputed > 0 and r.module == "first" for r in p.rows)


def test_a_leaf_without_a_variable_is_named_as_in_the_snapshot():
    delta = torch.ones(3, requires_grad=True)
    delta = delta / 2
    p = bs.profile_backward(delta.sum())
    (leaf,) = (r for r in p.rows if r.kind == "leaf")
    assert leaf.parameters and "delta" in leaf.parameters[0]


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match=r"profile_backward\(\) takes the tensor to run backward from, not None"):
        bs.profile_backward(None)


def test_what_has_no_graph_is_refused():
    with pytest.raises(bs.NothingToCapture):
        bs.profile_backward(torch.ones(1))


def test_an_error_in_backward_passes(model):
    loss = model(batch())
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        bs.profile_backward(loss)
    assert bs.profile_backward(model(batch())).finished
