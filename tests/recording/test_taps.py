"""What is recorded, and under which names."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn
from trainings import Net, names, rows, train

import backsight as bs


def of(path, name, stat="mean", **query):
    """Return a statistic of one tensor, row by row."""
    return [row[stat] for row in rows(path, tensor=name, **query)]


def test_a_training_step_has_rows_of_every_kind(net, run):
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(net, optimizer, run):
        train(net, optimizer, 1)
    assert {row["kind"] for row in rows(run)} == {"input", "output", "weight", "grad", "state"}
    assert names(run, kind="input") == ["x", "first.input", "last.input"]
    assert names(run, kind="output") == ["first.output", "last.output", "output"]
    assert set(names(run, kind="weight")) == {"first.weight", "first.bias", "last.weight", "last.bias"}
    assert set(names(run, kind="grad")) == {"first.weight", "first.bias", "last.weight", "last.bias"}
    assert "first.weight.exp_avg_sq" in names(run, kind="state")
    assert not any(name.endswith(".step") for name in names(run))


def test_numbers_are_those_of_the_tensors(net, run):
    x = torch.randn(4, 6)
    with bs.record(net, run=run) as rec:
        out = net(x)
        out.square().mean().backward()
        rec.step()
    expected = {
        ("x", "input"): x,
        ("output", "output"): out.detach(),
        ("first.weight", "weight"): net.first.weight.detach(),
        ("last.weight", "grad"): net.last.weight.grad,
    }
    for (name, kind), tensor in expected.items():
        (row,) = rows(run, tensor=name, kind=kind)
        wanted = tensor.double()
        assert row["count"] == tensor.numel()
        assert row["mean"] == pytest.approx(wanted.mean().item(), rel=1e-5)
        assert row["std"] == pytest.approx(wanted.std().item(), rel=1e-5)
        assert (row["min"], row["max"]) == (tensor.min().item(), tensor.max().item())
        assert row["l2"] == pytest.approx(wanted.norm().item(), rel=1e-5)


def test_a_module_that_is_called_twice_has_a_row_a_call(net, run):
    with bs.record(net, run=run) as rec:
        net(torch.ones(1, 6))
        rec.step()
    assert [row["call"] for row in rows(run, tensor="first.output")] == [0, 1]
    assert [row["call"] for row in rows(run, tensor="last.output")] == [0]


def test_calls_are_counted_anew_in_each_step(net, run):
    with bs.record(net, run=run) as rec:
        for _ in range(2):
            net(torch.ones(1, 6))
            rec.step()
    assert [(row["step"], row["call"]) for row in rows(run, tensor="first.output")] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_module_under_two_names_goes_by_the_first(run):
    shared = nn.Linear(2, 2)
    model = nn.Sequential(OrderedDict(a=shared, b=shared))
    with bs.record(model, run=run) as rec:
        model(torch.ones(1, 2))
        rec.step()
    assert [row["call"] for row in rows(run, tensor="a.output")] == [0, 1]
    assert not [name for name in names(run) if name.startswith("b.")]
    assert bs.open_run(run).tree[0]["children"][1]["same_as"] == "a"


def test_arguments_have_the_names_that_forward_gives_them(net, run):
    with bs.record(net, run=run) as rec:
        net(torch.ones(1, 6), scale=torch.full((1, 6), 2.0))
        rec.step()
    assert of(run, "scale") == [2.0]


def test_arguments_beyond_the_names_are_numbered(run):
    class Sum(nn.Module):
        def forward(self, first, *others, **more):
            return first + sum(others) + more["last"]

    model = Sum()
    with bs.record(model, run=run) as rec:
        model(*(torch.tensor([float(n)]) for n in range(3)), last=torch.tensor([3.0]))
        rec.step()
    assert names(run, kind="input") == ["first", "others[0]", "others[1]", "last"]
    assert of(run, "others[1]") == [2.0]


def test_tensors_are_found_in_nested_containers_and_the_rest_is_ignored(run):
    Pair = namedtuple("Pair", "left right")

    @dataclasses.dataclass
    class Batch:
        ids: torch.Tensor
        note: str = "not a tensor"

    class Nested(nn.Module):
        def forward(self, batch):
            return {"pair": Pair(batch["data"].ids, [1, None, batch["data"].ids * 2]), "odd name": batch["x"][0]}

    model = Nested()
    with bs.record(model, run=run) as rec:
        model({"data": Batch(torch.ones(2)), "x": (torch.zeros(2),), "text": "hello", 3: {"deep": torch.ones(1)}})
        rec.step()
    assert names(run, kind="input") == ["batch.data.ids", "batch.x[0]", "batch[3].deep"]
    assert names(run, kind="output") == ["output.pair.left", "output.pair.right[2]", "output['odd name']"]


def test_an_input_that_the_module_modifies_is_the_one_that_came_in(run):
    model = nn.Sequential(nn.ReLU(inplace=True))
    with bs.record(model, run=run) as rec:
        model(torch.tensor([-3.0, 1.0]))
        rec.step()
    assert of(run, "0.input", "min") == [-3.0]
    assert of(run, "0.output", "min") == [0.0]


def test_an_output_that_is_modified_later_is_the_one_that_came_out(run):
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()
            self.after = nn.Identity()

        def forward(self, x):
            out = self.inner(x.clone())
            out += 10
            return self.after(out)

    model = Residual()
    with bs.record(model, run=run) as rec:
        model(torch.ones(3))
        rec.step()
    assert of(run, "inner.output") == [1.0]
    assert of(run, "after.input") == [11.0]


def test_weights_are_those_that_the_step_was_made_with(run):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    with bs.record(model, optimizer, run):
        train(model, optimizer, 3, width=1, loss=lambda out: out.sum() * 0 + model.weight.sum())
    assert of(run, "weight", kind="weight") == [1.0, 0.75, 0.5]


def events(path, name):
    return [event for event in bs.open_run(path).events if event.event == name]


@pytest.mark.parametrize("swap", ["values", "parameters"])
def test_weights_of_an_evaluation_are_not_those_of_the_step(net, run, swap):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    average = nn.Parameter(torch.zeros(1, 6))
    true = []
    with bs.record(net, optimizer, run):
        for _ in range(3):
            own, kept = net.last.weight, net.last.weight.detach().clone()
            with torch.no_grad():
                net.last.weight.zero_() if swap == "values" else setattr(net.last, "weight", average)
                net(torch.ones(1, 6))
                own.copy_(kept) if swap == "values" else setattr(net.last, "weight", own)
            true.append(net.last.weight.norm().item())
            train(net, optimizer, 1)
    assert [row["l2"] for row in rows(run, tensor="last.weight", kind="weight")] == pytest.approx(true)
    assert not events(run, "model changed")


def test_weights_of_a_functional_call_are_not_those_of_the_step(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    true = []
    with bs.record(net, optimizer, run):
        for _ in range(3):
            true.append(net.last.weight.norm().item())
            optimizer.zero_grad()
            others = {name: weight * 3 for name, weight in net.named_parameters()}
            torch.func.functional_call(net, others, (torch.ones(1, 6),)).sum().backward()
            optimizer.step()
    assert [row["l2"] for row in rows(run, tensor="last.weight", kind="weight")] == pytest.approx(true)
    assert not events(run, "model changed")
    assert len(rows(run, tensor="last.weight", kind="grad")) == 3


def test_weights_changed_behind_the_back_of_autograd_are_read_again(run):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    with bs.record(model, run=run) as rec:
        for _ in range(3):
            model(torch.ones(1))
            model.weight.data.mul_(2)  # raises no version
            rec.step()
    assert of(run, "weight", kind="weight") == [1.0, 2.0, 4.0]


def test_buffers_are_recorded_with_the_weights(run):
    model = nn.BatchNorm1d(3)
    with bs.record(model, run=run, taps=("weight",)) as rec:
        model(torch.ones(4, 3))
        rec.step()
    assert set(names(run, kind="buffer")) == {"running_mean", "running_var", "num_batches_tracked"}
    assert of(run, "running_var") == [1.0]


def test_gradients_are_taken_as_they_arrive(run):
    model = nn.Linear(1, 1, bias=False)
    with bs.record(model, run=run) as rec:
        for factor in (1.0, 2.0):
            (model(torch.ones(1, 1)) * factor).sum().backward()
        rec.step()
    assert [(row["call"], row["mean"]) for row in rows(run, tensor="weight", kind="grad")] == [(0, 1.0), (1, 3.0)]


def test_gradients_that_are_freed_inside_of_the_backward_pass_are_seen(net, run):
    rec = bs.record(net, run=run)
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    net(torch.ones(1, 6)).sum().backward()
    rec.step()
    rec.close()
    assert len(rows(run, kind="grad")) == 4


def test_a_gradient_overwritten_inside_of_the_backward_pass_is_left_out_once_and_never_wrong(run):
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    nn.init.constant_(model[1].weight, 2.0)
    norm = model[0].weight.item()  # what reaches the second layer, and so its gradient
    rec = bs.record(model, run=run)

    def overwrite(parameter):
        model[1].weight.grad.fill_(-7)
        parameter.grad.fill_(-7)

    model[0].weight.register_post_accumulate_grad_hook(overwrite)
    for _ in range(3):
        model.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        rec.step()
    rec.close()
    assert [(row["step"], row["mean"]) for row in rows(run, tensor="0.weight", kind="grad")] == [
        (step, 2.0) for step in range(3)
    ]
    found = rows(run, tensor="1.weight", kind="grad")
    assert [(row["step"], row["mean"]) for row in found] == [(step, pytest.approx(norm)) for step in (1, 2)]


def test_a_backward_pass_that_raises_leaves_the_gradients_that_had_arrived(run):
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, bias=False))
    nn.init.constant_(model[0].weight, 3.0)
    nn.init.zeros_(model[0].bias)

    def refuse(grad):
        raise ValueError("not this one")

    with bs.record(model, run=run) as rec:
        model[0].bias.register_hook(refuse)
        with pytest.raises(ValueError, match="not this one"):
            model(torch.ones(1, 1)).sum().backward()
        rec.step()
    assert of(run, "1.weight", kind="grad") == [3.0]


def test_gradients_put_there_by_hand_are_taken_before_the_update(run):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with bs.record(model, optimizer, run):
        model.weight.grad = torch.full((1, 1), 7.0)
        optimizer.step()
    assert of(run, "weight", kind="grad") == [7.0]


class Arriving:
    """The norms of a model's gradients as backward makes them, before anybody clips them."""

    def __init__(self, model):
        self.model, self.norms = model, {}

    def backward(self, step, optimizer):
        optimizer.zero_grad()
        self.model(torch.ones(2, 6)).square().mean().mul(100).backward()
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                self.norms[name, step] = parameter.grad.norm().item()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1e-3)


def gradient_norms(path):
    return {(row["tensor"], row["step"]): row["l2"] for row in rows(path, kind="grad")}


def add_a_free_tensor(net, optimizer):
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))]})


def replace_a_layer(net, optimizer):
    net.first = nn.Linear(6, 6)
    optimizer.add_param_group({"params": net.first.parameters()})


def replace_a_weight(net, optimizer):
    net.last.weight = nn.Parameter(torch.ones(1, 6))
    optimizer.add_param_group({"params": [net.last.weight]})


@pytest.mark.parametrize("change", [add_a_free_tensor, replace_a_layer, replace_a_weight])
@pytest.mark.parametrize("amid", [False, True])
def test_where_an_optimizer_gets_parameters_gradients_are_those_that_arrived(net, run, change, amid):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    truth = Arriving(net)
    with bs.record(net, optimizer, run):
        for step in range(4):
            if step == 2 and not amid:
                change(net, optimizer)
            truth.backward(step, optimizer)
            if step == 2 and amid:
                change(net, optimizer)
            optimizer.step()
    found = gradient_norms(run)
    assert {key: found[key] for key in truth.norms} == pytest.approx(truth.norms)


def test_a_gradient_that_was_there_before_its_hook_is_left_out_of_that_step(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    truth = Arriving(net)
    truth.backward(0, optimizer)
    with bs.record(net, optimizer, run):
        optimizer.step()
        truth.backward(1, optimizer)
        optimizer.step()
    of_later = {key: norm for key, norm in truth.norms.items() if key[1]}
    assert gradient_norms(run) == pytest.approx(of_later)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("write", ["replaced", "in place"])
def test_gradients_put_there_by_hand_are_taken_in_every_recorded_step(run, every, write):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run, every=every):
        for step in range(4):
            made = torch.full((1, 1), float(step))
            if model.weight.grad is None or write == "replaced":
                model.weight.grad = made
            else:
                model.weight.grad.copy_(made)
            optimizer.step()
    assert of(run, "weight", kind="grad") == list(range(0, 4, every))


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("hooked", ["before", "after"])
def test_optimizers_that_step_inside_of_backward_get_the_gradients_that_arrived(net, run, hooked, to_none, every):
    names_of = {parameter: name for name, parameter in net.named_parameters()}
    each = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in net.parameters()}
    norms, now = {}, [0]

    def learn(parameter):
        norms[names_of[parameter], now[0]] = parameter.grad.norm().item()
        parameter.grad.mul_(1e-3)
        each[parameter].step()
        each[parameter].zero_grad(set_to_none=to_none)

    def hook():
        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(learn)

    if hooked == "before":
        hook()
    with bs.record(net, run=run, every=every) as rec:
        if hooked == "after":
            hook()
        for now[0] in range(5):
            net(torch.ones(2, 6)).square().mean().backward()
        assert rec.steps == 5
    assert gradient_norms(run) == pytest.approx({key: norm for key, norm in norms.items() if key[1] % every == 0})


def test_gradients_of_outputs_are_recorded_if_asked_for(net, run):
    with bs.record(net, run=run, taps=("output_grad",)) as rec:
        net(torch.ones(2, 6)).sum().backward()
        rec.step()
    assert sorted(names(run)) == ["first.output", "last.output", "output"]
    assert of(run, "output") == [1.0]
    assert sorted(row["call"] for row in rows(run, tensor="first.output")) == [0, 1]


def test_the_update_is_weight_after_minus_weight_before(run):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with bs.record(model, optimizer, run, taps=("update",)):
        model(torch.full((1, 1), 3.0)).sum().backward()
        optimizer.step()
    assert of(run, "weight", kind="update") == [-1.5]


def test_the_state_is_that_after_the_update(run):
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    with bs.record(model, optimizer, run, taps=("state",)):
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
    assert of(run, "weight.momentum_buffer") == [1.0, 1.5]


def test_evaluation_has_kinds_and_calls_of_its_own(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 1)
        with torch.no_grad():
            net(torch.ones(2, 6))
        with torch.inference_mode():
            net(torch.ones(2, 6))
        train(net, optimizer, 1)
    calls = [(row["step"], row["call"]) for row in rows(run, tensor="last.output", kind="eval_output")]
    assert calls == [(1, 0), (1, 1)]
    assert [(row["step"], row["call"]) for row in rows(run, tensor="last.output", kind="output")] == [(0, 0), (1, 0)]


def test_a_recomputation_by_checkpointing_is_no_call(run):
    inner = nn.Linear(3, 3)

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    model = Checkpointed()
    with bs.record(model, run=run) as rec:
        model(torch.ones(1, 3, requires_grad=True)).sum().backward()
        rec.step()
    assert [row["call"] for row in rows(run, tensor="inner.output")] == [0]


def test_free_variables_by_function_and_by_name(net, run):
    delta = torch.full((3,), 2.0, requires_grad=True)
    with bs.record(net, run=run, variables={"doubled": lambda: delta.detach() * 2, "delta": lambda: delta}) as rec:
        (net(torch.ones(1, 6)).sum() * delta.sum()).backward()
        rec.step()
    assert of(run, "doubled") == [4.0]
    assert of(run, "delta", kind="variable") == [2.0]
    assert of(run, "delta", kind="grad") == pytest.approx([delta.grad.mean().item()])


def test_a_variable_by_name_is_looked_up_where_the_step_ends(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    rec = bs.record(net, optimizer, run, variables=("temperature",))

    def loop():
        for n in range(2):
            temperature = torch.tensor([float(n)])
            (net(torch.ones(1, 6)) * temperature).sum().backward()
            optimizer.step()

    loop()
    rec.close()
    assert of(run, "temperature") == [0.0, 1.0]


def test_several_models_stand_under_their_names(run):
    pair = {"generator": nn.Linear(2, 2), "critic": nn.Linear(2, 1)}
    with bs.record(pair, run=run) as rec:
        pair["critic"](pair["generator"](torch.ones(1, 2))).sum().backward()
        rec.step()
    assert names(run, kind="output") == ["generator.output", "critic.output"]
    assert "critic.weight" in names(run, kind="grad")


class Scaled(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.w = nn.Parameter(torch.full((2,), start))

    def forward(self, b):
        return (b["x"] if isinstance(b, dict) else b) * self.w


class Plain(Scaled):
    def forward(self, x):
        return x * self.w


def test_a_name_that_two_modules_give_to_a_tensor_of_theirs_is_numbered(run):
    model = Scaled(2.0)
    model.b = Plain(5.0)
    with bs.record(model, run=run) as rec:
        model.b(model({"x": torch.full((2,), 3.0)}))
        rec.step()
    found = {row["tensor"]: row["mean"] for row in rows(run, kind="input")}
    assert found == {"b.x": 3.0, "b.x #2": 6.0}


def test_a_child_that_comes_later_takes_no_name_of_another_model(run):
    model, other = Scaled(2.0), Plain(3.0)
    with bs.record({"a": model, "a.b": other}, run=run) as rec:
        for step in range(2):
            other(model(torch.ones(2)))
            rec.step()
            if step == 0:
                model.b = Plain(5.0)
                rec.rearm()
    weights = {(row["step"], row["tensor"]): row["mean"] for row in rows(run, kind="weight") if row["step"] < 2}
    assert weights == {
        (0, "a.w"): 2.0,
        (0, "a.b.w"): 3.0,
        (1, "a.w"): 2.0,
        (1, "a.b.w"): 3.0,
        (1, "a.b #2.w"): 5.0,
    }


def test_the_tree_and_the_order_of_modules_are_stored(net, run):
    with bs.record(net, run=run) as rec:
        for _ in range(2):
            net(torch.ones(1, 6))
            rec.step()
    held = bs.open_run(run)
    (root,) = held.tree
    assert (root["type"], [child["name"] for child in root["children"]]) == ("Net", ["first", "last"])
    assert root["children"][0]["parameters"][0] == {
        "name": "weight",
        "shape": [6, 6],
        "dtype": "float32",
        "requires_grad": True,
    }
    orders = [event for event in held.events if event.event == "order"]
    assert [event.step for event in orders] == [0, 1]
    assert orders[0].details["modules"] == [
        ["enter", ""],
        *([["enter", "first"], ["leave", "first"]] * 2),
        ["enter", "last"],
        ["leave", "last"],
        ["leave", ""],
    ]


def test_only_the_taps_asked_for_are_recorded(run):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    with bs.record(model, optimizer, run, taps="grad"):
        train(model, optimizer, 1)
    assert {row["kind"] for row in rows(run)} == {"grad"}


def test_a_tensor_without_numbers_is_left_out_with_the_reason(run):
    model = nn.Identity()
    with bs.record(model, run=run) as rec:
        model(torch.empty(3, device="meta"))
        rec.step()
    (event, *_) = [event for event in bs.open_run(run).events if event.event == "skipped"]
    assert event.details["tensor"] == "input"
    assert "meta" in event.details["reason"]


def test_inside_of_vmap_nothing_is_recorded_and_nothing_breaks(net, run):
    with bs.record(net, run=run) as rec:
        out = torch.func.vmap(lambda x: torch.func.functional_call(net, dict(net.named_parameters()), (x,)))(
            torch.ones(3, 6)
        )
        rec.step()
    assert out.shape == (3, 1)
    assert "output" not in {row["kind"] for row in rows(run)}
