"""Which gradients are kept as factors, and that all others are the ordinary ones."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
import torch.nn.functional as F
from gradient_release.clipped import gradients, is_factored
from torch import nn

from backsight.gradient_release.clipping.taps import Taps
from backsight.gradient_release.errors import ReleaseError


def test_more_micro_batches_than_pay_make_the_gradient_dense(only):
    torch.manual_seed(0)
    layer, batches = nn.Linear(20, 20), [torch.randn(4, 20) for _ in range(4)]
    expected = gradients(copy.deepcopy(layer), *batches)
    only(layer)
    found = gradients(layer, *batches)
    assert not is_factored(found["weight"])
    torch.testing.assert_close(found["weight"].densify(), expected["weight"])


def test_a_layer_with_many_tokens_keeps_its_gradient_dense_and_says_why(only):
    layer = nn.Linear(8, 8)
    taps = only(layer)
    layer(torch.ones(100, 8)).sum().backward()
    assert type(layer.weight.grad) is torch.Tensor
    assert taps.last[id(layer.weight)].reason.startswith("100 tokens: factors of 6,400 bytes for a gradient of 256")


def test_a_weight_that_is_also_used_outside_of_its_layer_gets_both_parts(only):
    torch.manual_seed(0)
    layer, given = nn.Linear(20, 20), torch.randn(2, 20)

    def run(layer):
        (layer(given).sin().sum() + layer.weight.square().sum() + F.linear(given, layer.weight).cos().sum()).backward()
        return layer.weight.grad

    expected = run(copy.deepcopy(layer))
    only(layer)
    torch.testing.assert_close(run(layer).clone(), expected)


def test_a_layer_whose_forward_is_the_users_own_is_left_alone(only):
    class Scaled(nn.Linear):
        def forward(self, given):
            return F.linear(given, self.weight * 2, self.bias) + self.weight.sum()

    torch.manual_seed(0)
    model = nn.Sequential(Scaled(20, 20), nn.Linear(20, 20))
    model[1].forward = lambda given: F.linear(given, model[1].weight.tanh())
    expected = gradients(copy.deepcopy(model), torch.ones(1, 20))["0.weight"]
    only(model)
    found = gradients(model, torch.ones(1, 20))
    assert type(found["0.weight"]) is type(found["1.weight"]) is torch.Tensor
    assert torch.equal(found["0.weight"], expected)


def test_multi_head_attention_which_uses_its_weights_by_itself_has_the_ordinary_gradients(only):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    given = torch.randn(1, 3, 32)
    expected = gradients(copy.deepcopy(model), given)
    only(model)
    found = gradients(model, given)
    assert is_factored(found["linear1.weight"]) and not is_factored(found["self_attn.out_proj.weight"])
    for name, each in found.items():
        torch.testing.assert_close(each.densify() if is_factored(each) else each, expected[name])


@pytest.mark.parametrize("setting", ["max_norm", "scale_grad_by_freq", "sparse"])
def test_embeddings_with_a_rule_of_their_own_are_left_alone(only, setting):
    layer = nn.Embedding(50, 4, **{setting: 1.0 if setting == "max_norm" else True})
    taps = only(layer)
    layer(torch.tensor([1, 1])).sum().backward()
    assert type(layer.weight.grad) is torch.Tensor
    assert taps.last[id(layer.weight)].reason


def test_autograd_grad_and_backward_with_inputs_leave_no_factors_behind(only):
    torch.manual_seed(0)
    layer, given = nn.Linear(20, 20), torch.randn(2, 20, requires_grad=True)
    plain = copy.deepcopy(layer)
    only(layer)
    for wanted in ((given,), (layer.weight,), (layer.weight, given)):
        mirrored = [plain.weight if each is layer.weight else each for each in wanted]
        found = torch.autograd.grad(layer(given).sin().sum(), wanted)
        expected = torch.autograd.grad(plain(given).sin().sum(), mirrored)
        torch.testing.assert_close(found, expected)
    assert layer.weight.grad is None
    layer(given).sin().sum().backward(inputs=[given])
    assert layer.weight.grad is None
    layer(given).sin().sum().backward(inputs=[layer.weight])
    assert type(layer.weight.grad) is torch.Tensor


def test_second_derivatives_are_those_of_the_ordinary_layer(only):
    torch.manual_seed(0)
    layer, given = nn.Linear(20, 20), torch.randn(2, 20, requires_grad=True)

    def penalty(layer):
        (slope,) = torch.autograd.grad(layer(given).sin().sum(), given, create_graph=True)
        slope.square().sum().backward()
        return layer.weight.grad

    expected = penalty(copy.deepcopy(layer))
    given.grad = None
    only(layer)
    torch.testing.assert_close(penalty(layer).clone(), expected)


def test_two_backward_passes_over_one_graph_add_up(only):
    torch.manual_seed(0)
    layer = nn.Linear(30, 30)
    only(layer)
    loss = layer(torch.ones(1, 30)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(layer.weight.grad.densify(), torch.full((30, 30), 2.0))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_layers_are_kept_as_factors(only, use_reentrant):
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 30), nn.ReLU(inplace=True), nn.Linear(30, 30))
    given = torch.randn(2, 30, requires_grad=True)

    def run(model):
        checkpoint(model, given, use_reentrant=use_reentrant).square().sum().backward()
        return [p.grad for p in model.parameters()]

    expected = run(copy.deepcopy(model))
    only(model)
    found = run(model)
    assert is_factored(found[0]) and is_factored(found[2])
    for each, right in zip(found, expected, strict=True):
        assert torch.equal(each.densify() if is_factored(each) else each, right)


def test_a_hook_on_the_weight_sees_its_gradient(only):
    layer, seen = nn.Linear(30, 30), []
    layer.weight.register_hook(seen.append)
    only(layer)
    layer(torch.ones(1, 30)).sum().backward()
    assert len(seen) == 1 and torch.equal(seen[0], torch.ones(30, 30))


def test_what_follows_a_layer_may_write_to_its_output(only):
    torch.manual_seed(0)
    layer, given = nn.Linear(30, 30), torch.randn(2, 30)

    def run(layer):
        out = layer(given)
        out[0].mul_(3)
        out.relu_().square().sum().backward()
        return layer.weight.grad

    expected = run(copy.deepcopy(layer))
    only(layer)
    assert torch.equal(run(layer).densify(), expected)


def test_the_batch_may_be_overwritten_before_the_step(only):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(40, 30), nn.Linear(30, 30))
    lone = nn.Linear(30, 30)
    only(nn.ModuleList([model, lone]))
    index, batch = torch.tensor([1, 2]), torch.ones(1, 30)
    model(index).sum().backward()
    lone(batch).sum().backward()
    expected = model[0].weight.grad.dense()
    index.zero_()
    batch.zero_()
    assert torch.equal(model[0].weight.grad.dense(), expected)
    assert torch.equal(lone.weight.grad.dense(), torch.ones(30, 30))


def test_an_activation_that_is_overwritten_before_the_step_raises(only):
    model = nn.Sequential(nn.Linear(30, 30), nn.Linear(30, 30))
    only(model)
    hidden = model[0](torch.ones(1, 30))
    model[1](hidden).sum().backward()
    hidden.detach().zero_()
    with pytest.raises(ReleaseError, match="modified in place after backward"):
        model[1].weight.grad.dense()


def test_without_grad_nothing_is_tapped(only):
    layer = nn.Linear(30, 30)
    taps = only(layer)
    with torch.no_grad():
        assert layer(torch.ones(1, 30)).grad_fn is None
    assert not taps.last


def test_torch_func_goes_past_the_taps(only):
    layer = nn.Linear(30, 30)
    only(layer)

    def loss(parameters, given):
        return torch.func.functional_call(layer, parameters, given).square().sum()

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    found = torch.func.grad(loss)(parameters, torch.ones(2, 30))
    each = torch.func.vmap(torch.func.grad(lambda given: layer(given).sum()))(torch.ones(2, 30))
    assert found["weight"].shape == (30, 30) and each.shape == (2, 30)
    assert layer.weight.grad is None


def test_a_compiled_layer_is_left_to_the_compiler(only):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 30))
    given = torch.randn(2, 30)
    expected = gradients(copy.deepcopy(model), given)
    only(model)
    model[0].compile(backend="aot_eager", fullgraph=True)
    found = gradients(model, given)
    assert not is_factored(found["0.weight"]) and is_factored(found["2.weight"])
    for name, each in found.items():
        torch.testing.assert_close(each.densify() if is_factored(each) else each, expected[name])


def test_copies_and_pickles_of_a_tapped_model_are_plain(only, tmp_path):
    model = nn.Sequential(nn.Linear(30, 30))
    only(model)
    model(torch.ones(1, 30)).sum().backward()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin(torch.ones(1, 30)).sum().backward()
        assert type(twin[0].weight.grad) is torch.Tensor


def test_a_recorded_output_is_the_one_that_counts(only):
    """A hook on all modules that was there first sees the output that the backward pass goes through."""
    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: output.register_hook(seen.append) and None
    )
    try:
        layer = nn.Linear(30, 30)
        only(layer)
        layer(torch.ones(1, 30)).sum().backward()
    finally:
        handle.remove()
    assert len(seen) == 1


def test_a_graph_that_outlives_the_taps_has_ordinary_gradients():
    layer = nn.Linear(30, 30)
    taps = Taps(lambda weight: True)
    loss = layer(torch.ones(1, 30)).sum()
    taps.close()
    loss.backward()
    assert type(layer.weight.grad) is torch.Tensor


def test_a_factored_gradient_does_not_keep_its_parameter_alive(only):
    layer = nn.Linear(30, 30)
    only(layer).last.clear()
    layer(torch.ones(1, 30)).sum().backward()
    weight = weakref.ref(layer.weight)
    gc.disable()
    try:
        del layer
        assert weight() is None
    finally:
        gc.enable()
