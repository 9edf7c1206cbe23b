"""What a trace holds of a step."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from trainings_traced import Net, Training

import backsight as bs


def ops(trace: bs.Trace, **where: object) -> list[str]:
    return [each.op for each in trace.operations if all(getattr(each, key) == value for key, value in where.items())]


def test_forward_and_backward_have_modules_and_lines(traced):
    trace = traced((0,))
    assert ops(trace, phase="forward", module="blocks.1.norm") == ["aten.native_layer_norm.default", "module"]
    (back,) = [each for each in trace.operations if each.op == "aten.native_layer_norm_backward.default"][:1]
    assert back.module == "blocks.1.norm" and back.place.text.startswith(
        "h = self.down(torch.relu(self.up(self.norm(x)"
    )
    assert trace.operations[back.of].op == "aten.native_layer_norm.default"
    assert {each.phase for each in trace.operations} == {"forward", "backward", "optimizer"}


def test_a_custom_backward_has_its_own_line(traced):
    trace = traced((0,), factor=0.5)
    (mul,) = [each for each in trace.operations if each.op == "aten.mul.Tensor" and each.node == "HalvedBackward"]
    assert mul.place.text == "return grad_output * ctx.factor, None"
    assert mul.given["other"] == 0.5


def test_inputs_are_linked_to_what_made_them(traced):
    trace = traced((0,))
    for operation in trace.operations:
        for number in operation.inputs:
            maker = trace.values[number].maker
            assert maker == -1 or maker <= operation.number
    outside = {trace.values[number].name for each in trace.operations for number in each.inputs}
    named = {name for name in outside if name.startswith("weight ")}
    assert named == {f"weight {name}" for name, _ in Net().named_parameters()}


def test_what_is_saved_for_backward_is_what_forward_made(traced):
    trace = traced((0,))
    relu = next(each for each in trace.operations if each.op == "aten.relu.default")
    back = [each for each in trace.operations if each.op == "aten.threshold_backward.default"]
    assert relu.outputs[0] in back[-1].inputs


def test_a_tensor_written_in_place_is_another_value(tmp_path):
    with bs.trace(tmp_path / "t") as trace:
        x = torch.ones(4)
        view = x[:2]
        view.mul_(3)
        (x + 1).sum()
        trace.step()
    held = bs.open_trace(trace.path)
    mul, add = (next(each for each in held.operations if each.short == name) for name in ("mul_", "add"))
    assert held.values[add.inputs[0]].maker == mul.number
    assert held.kept[held.values[add.inputs[0]].mark].tolist() == [3, 3, 1, 1]


def test_gradients_weights_and_state_are_held(traced):
    trace = traced((0, 1))
    training = Training().run(2)
    for name, parameter in training.model.named_parameters():
        for kind, tensor in (("weight", parameter), ("grad", parameter.grad)):
            held = [each for each in trace.held if (each.step, each.at, each.kind, each.name) == (1, "end", kind, name)]
            kept = trace.kept[trace.values[held[-1].value].mark]
            np.testing.assert_array_equal(kept.ravel(), tensor.detach().numpy().ravel())
    state = {each.name for each in trace.held if each.kind == "state" and each.at == "start" and each.step == 1}
    assert "exp_avg of head.weight" in state


def test_the_hash_does_not_depend_on_strides(tmp_path):
    x = torch.randn(37, 5)
    with bs.trace(tmp_path / "t") as trace:
        x + 0
        x.t().contiguous().t() + 0
        x.double().float() + 0
        trace.step()
    held = bs.open_trace(trace.path)
    marks = [held.values[each.outputs[0]].mark for each in held.operations if each.short == "add"]
    assert len({int(held.prints[mark]["hash"]) for mark in marks}) == 1


def test_the_hash_tells_signs_and_places(tmp_path):
    x = torch.randn(64)
    swapped = x.clone()
    swapped[[3, 40]] = x[[40, 3]]
    turned = x.clone()
    turned[[5, 7]] *= -1
    with bs.trace(tmp_path / "t") as trace:
        for each in (x, swapped, turned, -x):
            each + 0
        trace.step()
    held = bs.open_trace(trace.path)
    marks = [held.values[each.outputs[0]].mark for each in held.operations if each.short == "add"]
    assert len({int(held.prints[mark]["hash"]) for mark in marks}) == 4


def test_a_projection_tells_how_far_apart_two_tensors_are(tmp_path):
    x = torch.randn(300_000)
    noise = torch.randn(300_000) * 1e-3
    with bs.trace(tmp_path / "t") as trace:
        x + 0
        x + noise
        trace.step()
    held = bs.open_trace(trace.path)
    first, second = [held.prints[held.values[e.outputs[0]].mark] for e in held.operations if e.short == "add"]
    apart = np.linalg.norm(first["sketch"] - second["sketch"]) / float(noise.norm())
    assert 0.4 < apart < 1.8


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64]
)
def test_every_dtype_is_read(tmp_path, dtype):
    with bs.trace(tmp_path / "t") as trace:
        torch.ones(3, 3).to(dtype).t().clone()
        trace.step()
    held = bs.open_trace(trace.path)
    assert held.values[held.operations[-1].outputs[0]].mark >= 0 and not held.notes


def test_uninitialized_memory_is_not_read(tmp_path):
    with bs.trace(tmp_path / "t") as trace:
        torch.empty(5)
        trace.step()
    held = bs.open_trace(trace.path)
    assert held.values[held.operations[0].outputs[0]].mark == -1


def test_values_keeps_every_tensor(tmp_path):
    for values in (False, True):
        with bs.trace(tmp_path / "t", values=values) as trace:
            torch.ones(5000) + 1
            trace.step()
        held = bs.open_trace(trace.path)
        assert (held.values[held.operations[-1].outputs[0]].mark in held.kept) == values


def test_only_the_steps_that_were_asked_for_are_traced(traced):
    trace = traced((1, 3))
    assert trace.steps == trace.whole == (1, 3)
    assert {each.step for each in trace.operations} == {1, 3}


def test_a_step_without_optimizer_ends_by_hand(tmp_path):
    with bs.trace(tmp_path / "t", steps=(0, 2)) as trace:
        for _ in range(3):
            torch.ones(2).sum()
            trace.step()
    assert bs.open_trace(trace.path).whole == (0, 2)


def test_checkpointed_operations_are_a_recomputation(tmp_path):
    net = Net()
    x = torch.randn(2, 8, requires_grad=True)
    with bs.trace(tmp_path / "t") as trace:
        checkpoint(net, x, use_reentrant=False).sum().backward()
        trace.step()
    held = bs.open_trace(trace.path)
    again = [each.op for each in held.operations if each.phase == "recomputation" and each.op != "module"]
    once = [each.op for each in held.operations if each.phase == "forward" and each.module.startswith("blocks.0.up")]
    assert once[1] in again and not held.notes


def test_other_threads_are_left_alone(tmp_path):
    seen: list[int] = []

    def other():
        Training().run(1)
        seen.append(torch._C._len_torch_dispatch_stack())

    with bs.trace(tmp_path / "t", steps=(0,)) as trace:
        worker = threading.Thread(target=other)
        torch.ones(3) + 1
        worker.start()
        worker.join()
        trace.step()
    assert seen == [0]
    assert not [each for each in bs.open_trace(trace.path).operations if each.op == "aten.addmm.default"]


def test_a_second_trace_goes_beside_the_first(tmp_path):
    with bs.trace(tmp_path / "t") as first:
        first.step()
    with pytest.warns(bs.TraceWarning, match="tracing into .*t-2"), bs.trace(tmp_path / "t") as second:
        second.step()
    assert first.path != second.path and Path(second.path).name == "t-2"


def test_lazy_and_shared_modules_and_modules_in_lists_have_paths(tmp_path):
    inner = nn.Linear(4, 4)
    net = nn.Sequential(nn.LazyLinear(4), nn.ModuleDict({"a": inner})["a"], inner)
    with bs.trace(tmp_path / "t") as trace:
        net(torch.ones(2, 4)).sum().backward()
        trace.step()
    held = bs.open_trace(trace.path)
    assert {each.module for each in held.operations if each.op == "aten.addmm.default"} == {"0", "1"}


@pytest.mark.parametrize("wrong", [-1, (), "0", 1.5, (0, True), [None]])
def test_steps_that_are_none_are_refused(tmp_path, wrong):
    with pytest.raises((TypeError, ValueError), match=r"steps must .*steps="):
        bs.trace(tmp_path / "t", steps=wrong)


def test_a_path_that_is_none_is_refused():
    with pytest.raises(TypeError, match="path must be the name of a folder"):
        bs.trace(None)


def test_where_nothing_can_be_written_the_training_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(bs.TraceWarning, match="nothing is traced"), bs.trace(tmp_path / "file" / "t"):
        Training().run(1)
