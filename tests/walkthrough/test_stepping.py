"""A walk stops where it is told to: after a node, at a place, at the first NaN, at a jump of the norm."""

import pytest
import torch
import walked

import backsight as bs


def test_a_step_runs_one_node():
    w = bs.walk(walked.mean_squared_error())
    assert w.next.op == "Mean" and not w.steps
    step = w.step()
    assert step.node.op == "Mean"
    assert w.next.op == "Pow" and w.steps == [step]
    assert step.grad_in[0].value == 1
    assert torch.equal(step.grad_out[0].value, torch.full((2, 4), 0.125))


def test_steps_can_be_walked_in_a_loop():
    w = bs.walk(walked.mean_squared_error())
    assert [step.node.op for step in w if step.node.leaf is None] == ["Mean", "Pow", "Sub", "Add", "Mm", "T"]
    assert w.done and w.next is None


def test_after_the_end_there_is_no_step():
    w = bs.walk(walked.mean_squared_error()).run()
    with pytest.raises(bs.WalkError, match="the walk is over: all 8 steps are done"):
        w.step()


def test_until_a_module_stops_at_what_arrives_there():
    model, x = walked.Residual(), torch.randn(2, 3, 8, 8)
    with bs.watch(model):
        loss = model(x).sum()
    w = bs.walk(loss, model=model)
    step = w.until("layer1.0")
    assert step.node.module.startswith("layer1.0")
    assert all(not (s.node.module or "").startswith("layer1.0") for s in w.steps[:-1])
    again = w.until("layer1.0")
    assert again.number > step.number and again.node.module.startswith("layer1.0")


def test_until_knows_operations_leaves_tensors_and_indices():
    x = torch.randn(3, requires_grad=True)
    y = x.sin()
    z = y.exp().sum()
    assert bs.walk(z).until("Sin").node.op == "Sin"
    assert bs.walk(z).until("ExpBackward0").node.op == "Exp"
    assert bs.walk(z).until("x").node.leaf.name == "x"
    assert bs.walk(z).until(y).node.op == "Sin"
    assert bs.walk(z).until(1).node.index == 1


def test_until_a_place_that_has_been_passed_says_so():
    x = torch.randn(3, requires_grad=True)
    w = bs.walk(x.sin().exp().sum())
    w.until("Exp")
    with pytest.raises(bs.WalkError, match="the walk has already passed 'Exp': it is at step 2"):
        w.until("Exp")


def test_until_a_place_that_does_not_exist_names_what_does():
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(bs.NotInGraph, match="no leaf, root or node of this graph is called 'layer9'"):
        bs.walk(x.sum()).until("layer9")


def test_a_leaf_is_found_without_the_name_of_the_model_where_only_one_ends_so():
    net = walked.Residual()
    w = bs.walk(net(torch.randn(2, 3, 8, 8)).sum()).run()
    assert w.grad("net.fc.weight") is not None
    assert w.grad("fc.weight") is w.grad("net.fc.weight")
    with pytest.raises(bs.NotInGraph, match=r"called 'conv1\.weight'\. The nearest of its 28 names: net\.layer"):
        w.grad("conv1.weight")
    with pytest.raises(bs.NotInGraph, match=r"The nearest of its 28 names: net\.fc\.weight, "):
        w.grad("fc.wieght")


def test_until_a_module_that_does_not_exist_names_the_nearest():
    model, x = walked.Residual(), torch.randn(2, 3, 8, 8)
    with bs.watch(model):
        loss = model(x).sum()
    with pytest.raises(bs.NotInGraph, match=r"The nearest modules: layer1\.1, layer1\.0, "):
        bs.walk(loss, model=model).until("layer1.9")


def test_run_stops_where_the_first_nan_is_made():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    w = bs.walk((x.sqrt() * x).sum().exp())
    w.run(nonfinite=True)
    assert w.stopped.startswith("SqrtBackward0") and w.stopped.endswith("produced a gradient that is not finite")
    assert w.steps[-1].node.op == "Sqrt"
    assert not w.run().stopped and w.done


def test_run_stops_where_the_norm_jumps():
    x = torch.full((4,), 1e-6, requires_grad=True)
    w = bs.walk((x.log() * 2).sum()).run(jump=1e3)
    assert w.steps[-1].node.op == "Log"
    assert "1e+06 times larger" in w.stopped


def test_a_norm_neither_overflows_nor_hides_a_nan():
    x = torch.tensor([1e30, 1e30], requires_grad=True)
    step = bs.walk((x * x).sum()).run().steps[-1]
    assert step.grad_in[0].finite and step.grad_in[0].norm == pytest.approx(8**0.5 * 1e30)


def test_small_gradients_are_kept_and_large_ones_only_measured():
    x = torch.randn(100, requires_grad=True)
    loss = (x * 2).sum()
    assert bs.walk(loss, keep=99).run().steps[0].grad_out[0].value is None
    assert bs.walk(loss, keep=99).run().steps[0].grad_out[0].norm == 10
    assert bs.walk(loss, keep=None).run().steps[0].grad_out[0].value.shape == (100,)


def test_where_paths_meet_the_parts_are_counted():
    x = torch.randn(3, requires_grad=True)
    last = bs.walk((x * x + x).sum()).run().steps[-1]
    assert last.grad_in[0].parts == 3
    assert last.notes == ("3 gradients met here and were summed",)


def test_sums_of_broadcast_gradients_are_told():
    add = bs.walk(walked.mean_squared_error()).until("Add")
    assert add.grad_out[1].summed_from == (2, 4) and add.grad_out[1].shape == (4,)
    assert add.notes == ("other was broadcast: its gradient is summed from 2×4 to 4",)


def test_casts_of_the_engine_are_told():
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    step = bs.walk((weight.float() * 2).sum()).until("ToCopy")
    assert step.grad_out[0].dtype == torch.float64


def test_a_failing_node_is_named_and_the_walk_stands_before_it():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    loss = (y * 2).sum()
    w = bs.walk(loss)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
        w.run()
    assert w.next.op == "Exp"
    assert getattr(raised.value, "__notes__", ["raised in step 2 of the walk, by ExpBackward0 #2"]) == [
        "raised in step 2 of the walk, by ExpBackward0 #2"
    ]


def test_summary_by_module_tells_what_came_and_what_was_passed_on():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(3))
        model[1].weight.copy_(10 * torch.eye(3))
    x = torch.randn(1, 3, requires_grad=True)
    with bs.watch(model):
        y = model(x)
    rows = {row.module: row for row in bs.walk(y.sum(), model=model).run().summary()}
    assert rows["1"].ratio == pytest.approx(10)
    assert rows["0"].norm_in == pytest.approx(10 * 3**0.5)
    assert rows["0"].norm_leaves > 0
