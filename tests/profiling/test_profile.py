"""What a profile says of an ordinary step: who took how much, in which module, for which parameter."""

import pickle

import pytest
import torch
from profiled import Doubled, Net, batch, ops, row
from torch import nn

import backsight as bs


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def test_a_node_has_its_module_and_its_times_forward_and_backward(model):
    with bs.profile() as p:
        model(batch()).backward()
    first, second = row(p, "AddmmBackward0", "first"), row(p, "AddmmBackward0", "second")
    for each in (first, second):
        assert each.forward > 0 and each.backward > 0
        assert (each.forward_calls, each.backward_calls, each.calls) == (1, 1, 1)
    assert row(p, "TanhBackward0").module == "", "made in the model itself"


def test_a_gradient_has_the_name_of_its_parameter_and_the_module_that_owns_it(model):
    with bs.profile() as p:
        model(batch()).backward()
    leaves = {(r.parameters, r.module) for r in p.rows if r.kind == "leaf"}
    assert leaves == {
        (("model.first.weight",), "first"),
        (("model.first.bias",), "first"),
        (("model.second.weight",), "second"),
        (("model.second.bias",), "second"),
    }


def test_a_leaf_that_is_no_parameter_has_the_name_of_its_variable(model):
    shift = torch.zeros(6, requires_grad=True)
    with bs.profile() as p:
        model(batch() + shift).backward()
    assert (("shift",), None) in {(r.parameters, r.module) for r in p.rows if r.kind == "leaf"}


def test_a_tied_parameter_has_all_its_names(model):
    model.tied = nn.Linear(6, 8)
    model.tied.weight = model.first.weight
    with bs.profile() as p:
        model(batch()).backward()
    assert ("model.first.weight", "model.tied.weight") in {r.parameters for r in p.rows}


def test_what_runs_outside_of_modules_says_so(model):
    with bs.profile() as p:
        (model(batch()) * 3).backward()
    assert row(p, "MulBackward0").module == "(outside)"


def test_an_optimizer_is_one_row_of_updates(model):
    optimizer = torch.optim.AdamW(model.parameters())
    with bs.profile() as p:
        model(batch()).backward()
        optimizer.step()
        optimizer.zero_grad()
    step = row(p, "AdamW.step")
    assert step.kind == "optimizer" and step.update > 0 and step.forward == step.backward == 0
    assert not any(r.op == "aten::addcdiv_" for r in p.rows), "its operations are its time"


def test_the_forward_and_backward_of_a_closure_are_not_the_optimizers(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        loss = model(batch())
        loss.backward()
        return loss

    with bs.profile() as p:
        optimizer.step(closure)
    assert row(p, "AddmmBackward0", "first").forward > 0
    assert row(p, "AddmmBackward0", "first").backward > 0


def test_operations_without_gradients_are_rows_of_their_own_in_their_modules(model):
    with bs.profile() as p, torch.no_grad():
        model(batch())
    assert {("aten::linear", "first"), ("aten::linear", "second"), ("aten::tanh", "")} <= ops(p)
    assert all(r.kind == "operation" and r.backward == 0 for r in p.rows)


def test_an_operation_counts_for_the_node_that_it_makes_whatever_ran_before_it(model):
    constant, w = torch.ones(3), torch.ones(3, requires_grad=True)
    with bs.profile() as p:
        (constant.exp() * w.sin()).sum().backward()
    assert row(p, "SinBackward0").forward > 0
    assert row(p, "MulBackward0").forward > 0
    assert row(p, "aten::exp").kind == "operation", "it began with the number of the next node, and made none"


def test_the_overhead_of_a_composite_operation_belongs_to_its_first_node(model):
    logits = torch.randn(4, 5, requires_grad=True)
    with bs.profile() as p:
        nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 3])).backward()
    assert row(p, "LogSoftmaxBackward0").forward > 0 and row(p, "NllLossBackward0").forward > 0
    assert not any(r.op == "aten::cross_entropy_loss" for r in p.rows)


def test_a_node_that_never_runs_backward_goes_by_its_operation(model):
    with bs.profile() as p:
        aside = batch().requires_grad_().cos()
        model(batch()).backward()
    assert aside.grad_fn is not None
    assert row(p, "aten::cos").backward == 0


def test_no_time_counts_twice(model):
    with bs.profile() as p:
        model(batch()).backward()
    assert 0 < sum(r.total for r in p.rows) <= p.wall
    assert p.outside == pytest.approx(p.wall - sum(r.total for r in p.rows), abs=1e-9)
    assert sum(r.share for r in p.rows) == pytest.approx(1)
    assert [r.total for r in p.rows] == sorted((r.total for r in p.rows), reverse=True)


def test_several_models_have_their_names_before_their_modules():
    generator, critic = Net(), nn.Linear(1, 1)
    with bs.profile() as p:
        critic(generator(batch()).reshape(1, 1)).sum().backward()
    assert {("AddmmBackward0", "generator.first"), ("AddmmBackward0", "critic")} <= ops(p)


def test_a_criterion_without_parameters_has_its_name_and_leaves_the_models_paths_alone(model):
    criterion = nn.MSELoss()
    with bs.profile() as p:
        criterion(model(batch()), torch.tensor(0.0)).backward()
    assert {("MseLossBackward0", "criterion"), ("AddmmBackward0", "first")} <= ops(p)


def test_a_model_can_be_given_or_several_by_name(model):
    for given, path in ((model, "first"), ({"net": model}, "first"), ({"a": model.first, "b": model.second}, "a")):
        with bs.profile(given) as p:
            model(batch()).backward()
        assert ("AddmmBackward0", path) in ops(p)


def test_a_model_made_in_the_block_goes_by_its_class():
    with bs.profile() as p:
        Net()(batch()).backward()
    assert ("AddmmBackward0", "first") in ops(p)
    assert ("Net.first.weight",) in {r.parameters for r in p.rows}


def test_a_custom_function_counts_its_operations(model):
    x = torch.ones(3, requires_grad=True)
    with bs.profile() as p:
        Doubled.apply(x).sum().backward()
    custom = row(p, "DoubledBackward")
    assert custom.forward > 0 and custom.backward > 0
    assert not any(r.op in ("aten::clone", "aten::mul") for r in p.rows)


def test_times_by_module_and_by_op_add_up_to_the_same(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.profile() as p:
        model(batch()).backward()
        optimizer.step()
    for view in (p.by_module(), p.by_module(depth=1), p.by_op()):
        assert sum(r.total for r in view.rows) == pytest.approx(sum(r.total for r in p.rows))
    assert {r.module for r in p.by_module().rows} == {"first", "second", "", "(outside)", None}
    (linear,) = (r for r in p.by_op().rows if r.op == "AddmmBackward0")
    assert linear.calls == 2


def test_modules_fold_at_a_depth():
    model = nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), nn.Linear(6, 1))
    with bs.profile() as p:
        model(batch()).sum().backward()
    modules = {r.module for r in p.by_module(depth=1).rows}
    assert {"0", "1"} <= modules and "0.0" not in modules


def test_a_profile_is_plain_data(model):
    with bs.profile() as p:
        model(batch()).backward()
    again = pickle.loads(pickle.dumps(p))
    assert again.rows == p.rows and again.wall == p.wall and str(again) == str(p)


def test_rows_become_a_data_frame(model):
    pytest.importorskip("pandas")
    with bs.profile() as p:
        model(batch()).backward()
    frame = p.to_pandas()
    assert list(frame.op) == [r.op for r in p.rows]
    assert frame.total.sum() == pytest.approx(sum(r.total for r in p.rows))


def test_the_trace_is_pytorchs_own_with_our_marks(model, tmp_path):
    import gzip
    import json

    with bs.profile() as p:
        model(batch()).backward()
    p.export_chrome_trace(tmp_path / "trace.json")
    p.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert {"aten::addmm", "module model.first", "gradient of model.first.weight"} <= names
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == trace
    after = pickle.loads(pickle.dumps(p))
    after.export_chrome_trace(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "trace.json").read_bytes()


def test_times_are_added_up_when_they_are_first_asked_for_and_once(model, monkeypatch):
    from backsight.profiling import session

    added = []
    attribution = session.Attribution
    monkeypatch.setattr(session, "Attribution", lambda *given: added.append(1) or attribution(*given))
    with bs.profile() as p:
        model(batch()).backward()
    assert p.finished and p.wall > 0 and not added
    assert p.rows and p.outside >= 0 and p.device is None
    assert p == pickle.loads(pickle.dumps(p)) and len(added) == 1
    with pytest.raises(AttributeError, match="'Profile' object has no attribute 'row'"):
        _ = p.row


def test_a_profile_that_nobody_has_read_pickles_with_its_times(model):
    with bs.profile() as p:
        model(batch()).backward()
    assert pickle.loads(pickle.dumps(p)).rows == p.rows != ()
