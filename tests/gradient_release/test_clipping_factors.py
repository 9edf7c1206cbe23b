"""A weight's gradient that is kept as factors is, to everyone who looks, the gradient that there would be."""

from __future__ import annotations

import copy
import pickle
import weakref

import pytest
import torch
import torch.nn.functional as F
from gradient_release.clipped import gradients, is_factored
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from backsight.gradient_release.clipping.gradient import FactoredGradient
from backsight.gradient_release.clipping.taps import Taps


def norm_error(gradient, expected):
    return float((torch.linalg.vector_norm(gradient) - expected.norm()).abs() / expected.norm().clamp_min(1e-30))


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
