"""A weight's gradient that is kept as factors is, to everyone who looks, the gradient that there would be."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from backsight.gradient_release.clipping.gradient import FactoredGradient
from backsight.gradient_release.clipping.taps import Taps
from backsight.gradient_release.errors import ReleaseError


def gradients(model, *inputs, loss=lambda out: out.square().sum()):
    """Run backward from zero gradients, once for each input."""
    model.zero_grad()
    for each in inputs:
        loss(model(each)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def is_factored(gradient):
    return type(gradient) is FactoredGradient and len(gradient.factors) > 0


def norm_error(gradient, expected):
    return float((torch.linalg.vector_norm(gradient) - expected.norm()).abs() / expected.norm().clamp_min(1e-30))


@pytest.fixture
def only():
    """Open taps for the parameters of one model, so that a copy of it runs ordinarily beside it."""
    opened = []

    def tap(model):
        ours = {id(p) for p in model.parameters()}
        opened.append(Taps(lambda weight: id(weight) in ours))
        return opened[-1]

    yield tap
    for each in opened:
        each.close()


class Tied(nn.Module):
    """An embedding whose weight is also the head, and a layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(300, 96, padding_idx=3)
        self.inner = nn.Linear(96, 96)
        self.head = nn.Linear(96, 300, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, index):
        hidden = self.embedding(index)
        for _ in range(2):
            hidden = hidden + F.relu(self.inner(hidden), inplace=True)
        return self.head(hidden)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    bias=st.booleans(),
    double=st.booleans(),
    wants_input=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_linear_layer_has_the_gradients_of_the_ordinary_one_for_inputs_of_any_shape(
    shape, rows, columns, bias, double, wants_input, seed
):
    torch.manual_seed(seed)
    dtype = torch.float64 if double else torch.float32
    layer = nn.Linear(columns, rows, bias=bias, dtype=dtype)
    plain = copy.deepcopy(layer)
    given = torch.randn(*shape, columns, dtype=dtype, requires_grad=wants_input)
    again = given.detach().clone().requires_grad_(wants_input)
    taps = Taps(lambda weight: weight is layer.weight)
    try:
        value = layer(given)
        expected = plain(again)
        assert torch.equal(value, expected)
        value.sin().sum().backward()
        expected.sin().sum().backward()
    finally:
        taps.close()
    close = {"rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(torch.linalg.vector_norm(layer.weight.grad), plain.weight.grad.norm(), **close)
    dense = layer.weight.grad.densify() if type(layer.weight.grad) is FactoredGradient else layer.weight.grad
    torch.testing.assert_close(dense, plain.weight.grad, **close)
    if bias:
        torch.testing.assert_close(layer.bias.grad, plain.bias.grad, **close)
    if wants_input:
        torch.testing.assert_close(given.grad, again.grad, **close)


@settings(max_examples=40, deadline=None)
@given(
    tokens=st.lists(st.lists(st.integers(0, 59), max_size=6), min_size=1, max_size=3),
    padding=st.one_of(st.none(), st.integers(0, 59)),
    also_linear=st.booleans(),
)
def test_an_embedding_has_the_ordinary_gradient_and_norm_however_often_an_index_occurs(tokens, padding, also_linear):
    torch.manual_seed(0)
    layer = nn.Embedding(60, 8, padding_idx=padding)
    head = nn.Linear(8, 60, bias=False)
    head.weight = layer.weight

    def run(embedding, head):
        for each in tokens:
            hidden = embedding(torch.tensor(each, dtype=torch.long))
            (head(hidden) if also_linear else hidden).sin().sum().backward()
        return embedding.weight.grad

    expected = run(*copy.deepcopy((layer, head)))
    taps = Taps(lambda weight: weight is layer.weight)
    try:
        found = run(layer, head)
    finally:
        taps.close()
    torch.testing.assert_close(torch.linalg.vector_norm(found), expected.norm(), rtol=5e-7, atol=1e-7)
    dense = found.densify() if type(found) is FactoredGradient else found
    torch.testing.assert_close(dense, expected, rtol=1e-6, atol=1e-6)


def test_an_embedding_tied_to_the_head_counts_the_cross_terms_over_calls_and_micro_batches(only):
    torch.manual_seed(1)
    model, index = Tied(), torch.randint(0, 300, (2, 5))
    expected = gradients(copy.deepcopy(model), index, index + 1)
    only(model)
    found = gradients(model, index, index + 1)
    assert {name for name, each in found.items() if is_factored(each)} == {"embedding.weight", "inner.weight"}
    for name, each in found.items():
        assert norm_error(each, expected[name]) < 5e-7
        assert torch.equal(each.dense() if is_factored(each) else each, expected[name]) or torch.allclose(
            each.dense(), expected[name], rtol=1e-6, atol=1e-7 * float(expected[name].abs().max())
        )


def test_the_norm_is_right_where_tokens_cancel_each_other(only):
    """A sum of terms that are 10,000 times as large as it: in float32 a Gram matrix would be off by per cents."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 64, bias=False)
    given = torch.randn(6, 64) + 100
    upstream = torch.randn(6, 64)
    upstream -= upstream.mean(0)
    plain = copy.deepcopy(layer).double()
    (plain(given.double()) * upstream.double()).sum().backward()
    only(layer)
    (layer(given) * upstream).sum().backward()
    assert is_factored(layer.weight.grad)
    assert norm_error(layer.weight.grad.norm_of(2).double(), plain.weight.grad.norm()) < 5e-7


def test_conv1d_of_transformers_is_kept_as_factors(only):
    conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D
    torch.manual_seed(0)
    layer = conv1d(96, 32)
    given = torch.randn(2, 3, 32, requires_grad=True)
    plain, again = copy.deepcopy((layer, given))
    plain(again).square().sum().backward()
    only(layer)
    layer(given).square().sum().backward()
    assert is_factored(layer.weight.grad)
    assert torch.equal(layer.weight.grad.dense(), plain.weight.grad)
    assert torch.equal(given.grad, again.grad) and torch.equal(layer.bias.grad, plain.bias.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_gradient_and_norm_have_the_bits_of_the_ordinary_ones(only, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
    given = torch.randn(4, 32)

    def loss(model):
        with torch.autocast("cpu", dtype=dtype):
            out = model(given)
        return out.float().square().sum()

    plain = copy.deepcopy(model)
    loss(plain).backward()
    only(model)
    loss(model).backward()
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(torch.linalg.vector_norm(found.grad), expected.grad.norm())
        assert torch.equal(found.grad.densify() if is_factored(found.grad) else found.grad, expected.grad)
    assert model[0].weight.grad.dtype == torch.float32


def test_clip_grad_norm_of_the_user_scales_factors_as_it_would_gradients(only):
    torch.manual_seed(0)
    model, index = Tied(), torch.randint(0, 300, (2, 5))
    plain = copy.deepcopy(model)
    gradients(plain, index)
    only(model)
    gradients(model, index)
    total = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    torch.testing.assert_close(total, nn.utils.clip_grad_norm_(plain.parameters(), 0.1), rtol=5e-7, atol=0)
    assert is_factored(model.inner.weight.grad)
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        dense = found.grad.densify() if is_factored(found.grad) else found.grad
        torch.testing.assert_close(dense, expected.grad, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "read",
    [
        lambda grad: grad.abs().max(),
        lambda grad: grad[0, 1],
        lambda grad: torch.from_numpy(grad.numpy()).sum(),
        lambda grad: torch.tensor(grad.tolist()),
        lambda grad: copy.deepcopy(grad),
        lambda grad: pickle.loads(pickle.dumps(grad)),
        lambda grad: grad.clamp_(-0.1, 0.1).clone(),
        lambda grad: grad.detach().mul_(2).clone(),
        lambda grad: grad.norm(1),
        lambda grad: grad.norm(dim=0),
        lambda grad: (1 + grad).clone(),
        lambda grad: grad.add_(torch.ones_like(grad)).clone(),
        lambda grad: torch.stack(torch._foreach_norm([grad, torch.ones(3)])),
        lambda grad: torch.stack(torch._foreach_mul([grad], 2.0)),
    ],
)
def test_whatever_reads_or_writes_a_factored_gradient_gets_the_numbers_of_the_ordinary_one(only, read):
    torch.manual_seed(0)
    layer, given = nn.Linear(12, 7), torch.randn(1, 12)
    plain = copy.deepcopy(layer)
    plain(given).square().sum().backward()
    only(layer)
    layer(given).square().sum().backward()
    assert is_factored(layer.weight.grad)
    torch.testing.assert_close(read(layer.weight.grad), read(plain.weight.grad), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(layer.weight.grad.clone(), plain.weight.grad, rtol=1e-6, atol=1e-7)


def test_zero_grad_drops_the_factors(only):
    layer = nn.Linear(30, 30)
    only(layer)
    layer(torch.ones(1, 30)).sum().backward()
    held = weakref.ref(layer.weight.grad.factors[0].left)
    layer.zero_grad()
    assert layer.weight.grad is None and held() is None


def test_zero_grad_that_keeps_zeros_keeps_no_memory_for_them(only):
    layer, given = nn.Linear(30, 30), torch.ones(1, 30)
    only(layer)
    layer(given).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert torch.linalg.vector_norm(layer.weight.grad) == 0
    layer(given).sum().backward()
    assert is_factored(layer.weight.grad)
    assert torch.equal(layer.weight.grad.dense(), torch.ones(30, 30))


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
    with pytest.raises(ReleaseError, match="changed in place after backward"):
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
