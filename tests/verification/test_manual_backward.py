"""`assert_manual_backward`: right gradients pass, and what is wrong with the others is said as a teacher would."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import backsight as bs

check = bs.testing.assert_manual_backward


def said(*args: object, **kwargs: object) -> str:
    """What the assertion says."""
    with pytest.raises(AssertionError) as raised:
        check(*args, **kwargs)
    return str(raised.value).strip()


def title(*args: object, **kwargs: object) -> str:
    """The code and the title of the first finding, in one line, without the words that all of them begin with."""
    found = re.search(r"error (BS\d+  .*?)\n  ", said(*args, **kwargs), re.DOTALL)
    return found[1].replace("\n", " ").replace("The manual backward of ", "")


def linear(inputs: int = 3, outputs: int = 2, batch: int = 8) -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs), torch.randn(batch, inputs), torch.randn(batch, outputs)


# ---- right ones


def test_the_backward_of_a_linear_layer() -> None:
    layer, x, g = linear()
    check(layer, x, g, weight_grad=g.T @ x, bias_grad=g.sum(0), input_grad=g @ layer.weight)


def test_the_backward_of_a_convolution() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(2, 3, 3, padding=1, stride=2), torch.randn(4, 2, 7, 7)
    g = torch.randn_like(layer(x))
    check(
        layer,
        x,
        g,
        weight_grad=nn.grad.conv2d_weight(x, layer.weight.shape, g, stride=2, padding=1),
        bias_grad=g.sum((0, 2, 3)),
        input_grad=nn.grad.conv2d_input(x.shape, layer.weight, g, stride=2, padding=1),
    )


def test_the_backward_of_an_embedding() -> None:
    layer, x = nn.Embedding(5, 3), torch.tensor([[1, 1], [4, 0]])
    g = torch.randn(2, 2, 3)
    check(layer, x, g, weight_grad=torch.zeros(5, 3).index_add(0, x.flatten(), g.flatten(0, 1)))


def layer_norm() -> tuple[nn.LayerNorm, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    layer, x, g = nn.LayerNorm(5), torch.randn(4, 5), torch.randn(4, 5)
    nn.init.normal_(layer.weight)
    std = (x.var(-1, correction=0, keepdim=True) + layer.eps).sqrt()
    return layer, x, g, std, (x - x.mean(-1, keepdim=True)) / std


def test_the_backward_of_a_layer_norm() -> None:
    layer, x, g, std, normalised = layer_norm()
    h = g * layer.weight
    down = (h - h.mean(-1, True) - normalised * (h * normalised).mean(-1, True)) / std
    check(layer, x, g, weight_grad=(g * normalised).sum(0), bias_grad=g.sum(0), input_grad=down)


def test_the_parameters_of_a_sequence_by_name_and_arrays() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
    x, g = torch.randn(6, 3), torch.randn(6, 2)
    hidden = model[1](model[0](x))
    delta = (g @ model[2].weight) * hidden * (1 - hidden)
    grads = {
        "0.weight": (delta.T @ x).detach().numpy(),
        "0.bias": np.asarray(delta.detach()).sum(0).tolist(),
        "2.weight": g.T @ hidden,
    }
    check(model, x, g, grads=grads, input_grad=delta @ model[0].weight)


def test_several_inputs() -> None:
    torch.manual_seed(0)
    layer, a, b, g = nn.Bilinear(2, 3, 1), torch.randn(4, 2), torch.randn(4, 3), torch.randn(4, 1)
    w = layer.weight[0]
    check(layer, (a, b), g, input_grad=(g * (b @ w.T), g * (a @ w)), weight_grad=(a.T @ (g * b))[None])
    assert title(layer, (a, b), g, input_grad=(g * (b @ w.T), -g * (a @ w))) == (
        "BS403  Bilinear returns the gradient of `input[1]` with the wrong sign."
    )


def test_a_loss_whose_target_has_no_gradient() -> None:
    x, target, g = torch.randn(5), torch.tensor([1.0, -1, 1, 1, -1]), torch.tensor(2.0)
    check(nn.SoftMarginLoss(), (x, target), g, input_grad=(-g / 5 * target * (-target * x).sigmoid(), None))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64])
def test_rounding_is_allowed(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, x, g = nn.Linear(30, 20).to(dtype), torch.randn(50, 30, dtype=dtype), torch.randn(50, 20, dtype=dtype)
    check(layer, x, g, weight_grad=g.T @ x.conj(), bias_grad=g.sum(0), input_grad=g @ layer.weight.conj())


# ---- wrong ones


def test_a_transpose_that_is_missing_in_full() -> None:
    layer, x, g = linear()
    assert said(layer, x, g, weight_grad=x.T @ g, bias_grad=g.sum(0), input_grad=g @ layer.weight) == (
        "backsight: 1 of 3 gradients has a wrong value: weight_grad\n"
        "\n"
        "error BS405  The manual backward of Linear returns the gradient of `weight` transposed.\n"
        "  Transposed it is right. It has the shape 3×2, and `weight` has 2×3.\n"
        "  fix: Swap the factors, or transpose the result. weight_grad = grad_out.T @ x."
    )


def test_a_sum_that_is_missing_in_full() -> None:
    layer, x, g = linear()
    assert said(layer, x, g, bias_grad=g) == (
        "backsight: 1 of 1 gradient has a wrong value: bias_grad\n"
        "\n"
        "error BS406  The manual backward of Linear lacks the sum over the batch in the gradient of `bias`.\n"
        "  It has the shape 8×2, and `bias` has 2: one gradient for each sample. Summed over dimension 0 it is right.\n"
        "  An entry that is used many times gets a gradient from each use, and they add up.\n"
        "  fix: Add .sum(0). bias_grad = grad_out.sum(0)."
    )


Wrong = Callable[[torch.nn.Linear, torch.Tensor, torch.Tensor], dict[str, torch.Tensor]]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (
            lambda l, x, g: {"weight_grad": -g.T @ x},
            "BS403  Linear returns the gradient of `weight` with the wrong sign.",
        ),
        (
            lambda l, x, g: {"weight_grad": g.T @ x / 8},
            "BS404  Linear returns an eighth of the right gradient for `weight`.",
        ),
        (
            lambda l, x, g: {"bias_grad": g.sum(0) * 8},
            "BS404  Linear returns 8 times the right gradient for `bias`.",
        ),
        (
            lambda l, x, g: {"weight_grad": g.T @ x * 2},
            "BS404  Linear returns twice the right gradient for `weight`.",
        ),
        (
            lambda l, x, g: {"bias_grad": g.sum(0, keepdim=True)},
            "BS406  Linear returns the gradient of `bias` in another shape.",
        ),
        (
            lambda l, x, g: {"weight_grad": g[:, :, None] * x[:, None]},
            "BS406  Linear lacks the sum over the batch in the gradient of `weight`.",
        ),
        (
            lambda l, x, g: {"weight_grad": torch.outer(g[-1], x[-1])},
            "BS406  Linear returns only the gradient of the last sample for `weight`.",
        ),
        (
            lambda l, x, g: {"weight_grad": torch.ones_like(g).T @ x},
            "BS401  Linear ignores grad_out.",
        ),
        (
            lambda l, x, g: {"input_grad": torch.zeros_like(x)},
            "BS409  Linear returns zeros for `input`, which needs a gradient.",
        ),
        (
            lambda l, x, g: {"input_grad": g},
            "BS406  Linear returns a gradient of the wrong shape for `input`.",
        ),
        (
            lambda l, x, g: {"input_grad": g @ l.weight / 0},
            "BS419  Linear returns infinite for `input`, where forward is finite.",
        ),
        (
            lambda l, x, g: {"input_grad": g @ l.weight * 1.001 + 0.0005},
            "BS400  Linear returns a gradient for `input` that is only right to",
        ),
        (
            lambda l, x, g: {"input_grad": (g @ l.weight).index_fill(1, torch.tensor([2]), 7)},
            "BS400  Linear returns a wrong gradient for `input`.",
        ),
    ],
)
def test_each_kind_of_mistake(wrong: Wrong, expected: str) -> None:
    layer, x, g = linear()
    assert title(layer, x, g, **wrong(layer, x, g)).startswith(expected)


def test_a_square_weight_hides_nothing() -> None:
    layer, x, g = linear(3, 3)
    assert title(layer, x, g, weight_grad=x.T @ g) == "BS405  Linear lacks a transpose in the gradient of `weight`."
    wrong = title(layer, x, g, input_grad=g @ layer.weight.T)
    assert wrong == "BS405  Linear lacks a transpose in the gradient of `input`."


def test_two_that_are_exchanged() -> None:
    torch.manual_seed(0)
    layer, a, b, g = nn.Bilinear(3, 3, 1), torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 1)
    w = layer.weight[0]
    assert title(layer, (a, b), g, input_grad=(g * (a @ w), g * (b @ w.T))) == (
        "BS407  Bilinear returns the gradients of `input[0]` and `input[1]` in the wrong order."
    )


def activated(activation: nn.Module) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), activation), torch.randn(6, 3), torch.randn(6, 4)


@pytest.mark.parametrize("activation", [nn.Sigmoid(), nn.Tanh(), nn.ReLU(), nn.GELU()], ids=lambda a: type(a).__name__)
def test_the_derivative_of_an_activation_that_was_left_out(activation: nn.Module) -> None:
    layer, x, g = activated(activation)
    assert title(layer, x, g, weight_grad=g.T @ x) == (
        f"BS416  Sequential returns the gradient of `0.weight` as if the derivative of "
        f"{type(activation).__name__.lower()} were 1."
    )


def test_a_gradient_of_two_entries_is_enough() -> None:
    torch.manual_seed(0)
    layer, x, g = nn.Sequential(nn.Linear(3, 2), nn.Sigmoid()), torch.randn(8, 3), torch.randn(8, 2)
    assert title(layer, x, g, bias_grad=g.sum(0)) == (
        "BS416  Sequential returns the gradient of `0.bias` as if the derivative of sigmoid were 1."
    )


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (
            nn.Sigmoid(),
            "BS416  Sigmoid returns the gradient of `input` as if the derivative of sigmoid were 1.",
        ),
        (nn.Tanh(), "BS416  Tanh is missing the factor (1 - output²) in the gradient of"),
        (nn.ReLU(), "BS416  ReLU returns the gradient of `input` as if the derivative of relu were 1."),
    ],
)
def test_an_activation_whose_backward_hands_on_what_it_gets(activation: nn.Module, expected: str) -> None:
    _, x, g = activated(activation)
    assert title(activation, x, g[:, :3], input_grad=g[:, :3]).startswith(expected)


def test_the_derivative_of_an_activation_in_the_wrong_place() -> None:
    layer, x, g = activated(nn.Sigmoid())
    y = layer(x).sigmoid()
    wrong = said(layer, x, g, bias_grad=(g * y * (1 - y)).sum(0))
    assert "with the output of sigmoid where its input belongs" in " ".join(wrong.split())
    assert "With its derivative at its output" in " ".join(wrong.split())


def test_repeated_indices_of_an_embedding() -> None:
    layer, x, g = nn.Embedding(5, 3), torch.tensor([1, 1, 4]), torch.randn(3, 3)
    grad = torch.zeros(5, 3)
    grad[x] = g
    assert (
        title(layer, x, g, weight_grad=grad)
        == "BS406  Embedding returns the gradient of `weight` without the sum over repeated indices of embedding."
    )


def test_mean_and_variance_taken_for_constants() -> None:
    layer, x, g, std, _ = layer_norm()
    assert title(layer, x, g, input_grad=g * layer.weight / std) == (
        "BS415  LayerNorm returns the gradient of `input` as if the first mean inside layer_norm and the sqrt inside "
        "layer_norm were constants."
    )
    torch.manual_seed(0)
    batch = nn.BatchNorm2d(3)
    images, signal = torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2)
    scale = (images.var((0, 2, 3), correction=0, keepdim=True) + batch.eps).rsqrt()
    assert "as if the first mean inside batch_norm and the sqrt" in title(
        batch, images, signal, input_grad=signal * scale
    )
    assert int(batch.num_batches_tracked) == 0


def test_the_cross_terms_of_a_softmax() -> None:
    torch.manual_seed(0)
    x, g = torch.randn(4, 3), torch.randn(4, 3)
    y = x.softmax(-1)
    check(nn.Softmax(-1), x, g, input_grad=y * (g - (g * y).sum(-1, keepdim=True)))
    assert title(nn.Softmax(-1), x, g, input_grad=g * y * (1 - y)) == (
        "BS415  Softmax returns the gradient of `input` as if each output entry depended only on the input entry at "
        "the same place."
    )


def test_a_kernel_that_is_turned_round_and_a_sum_over_places() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(2, 3, 3), torch.randn(4, 2, 6, 6)
    g = torch.randn_like(layer(x))
    right = nn.grad.conv2d_weight(x, layer.weight.shape, g)
    assert (
        title(layer, x, g, weight_grad=right.flip(-1, -2))
        == "BS405  Conv2d returns the gradient of `weight` with the kernel of conv2d the wrong way round."
    )
    assert (
        title(layer, x, g, bias_grad=g)
        == "BS406  Conv2d lacks a sum over dimensions 0, 2 and 3 in the gradient of `bias`."
    )


def test_every_wrong_gradient_is_told_of() -> None:
    layer, x, g = linear()
    text = said(layer, x, g, weight_grad=-g.T @ x, bias_grad=2 * g.sum(0), input_grad=g @ layer.weight)
    assert text.startswith("backsight: 2 of 3 gradients have a wrong value: weight_grad, bias_grad\n")


@pytest.mark.filterwarnings("ignore")
def test_the_modules_of_pytorch_are_right_and_every_fault_in_them_is_found() -> None:
    from torch.testing._internal.common_modules import module_db

    compared = 0
    for info in module_db:
        for sample in info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=True, training=False
        )[:1]:
            layer = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).double().eval()
            arguments = sample.forward_input.args
            if len(arguments) != 1 or sample.forward_input.kwargs or not isinstance(arguments[0], torch.Tensor):
                continue
            x = arguments[0].detach().requires_grad_(arguments[0].is_floating_point())
            y = layer(x)
            if not isinstance(y, torch.Tensor) or not y.requires_grad or "Fractional" in info.name:
                continue  # fractional pooling is random
            g = torch.randn_like(y)
            tensors = dict(layer.named_parameters()) | ({"input": x} if x.requires_grad else {})
            found = torch.autograd.grad(y, list(tensors.values()), g)
            for name, right in zip(tensors, found, strict=True):
                given = {"input_grad": right} if name == "input" else {"grads": {name: right}}
                fault = {"input_grad": -right} if name == "input" else {"grads": {name: -right}}
                check(layer, x, g, **given)
                if right.abs().max() > 0:
                    assert "with the wrong sign" in title(layer, x, g, **fault)
                compared += 1
    assert compared > 100


# ---- what cannot be compared


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "give what you computed: weight_grad=, bias_grad=, input_grad=, or grads={name: gradient}."),
        ({"weight_grad": "x"}, TypeError, "weight_grad must be a tensor or an array, not a str."),
        (
            {"grads": {"wieght": torch.ones(2, 3)}},
            ValueError,
            "there is no wieght_grad: gradients exist for weight_grad, bias_grad.",
        ),
    ],
)
def test_what_is_given_has_to_make_sense(arguments: dict[str, object], error: type, message: str) -> None:
    layer, x, g = linear()
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        check(layer, x, g, **arguments)


def test_a_name_that_several_have() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"^weight_grad is ambiguous: 0.weight_grad, 1.weight_grad\. Pass"):
        check(model, torch.ones(2, 3), torch.ones(2, 3), weight_grad=torch.ones(3, 3))


def test_a_grad_out_of_another_shape() -> None:
    layer, x, g = linear()
    with pytest.raises(
        ValueError, match=r"^grad_out is a float32 tensor of shape 2×8, but the layer returns a float64"
    ):
        check(layer, x, g.T, bias_grad=g.sum(0))


def test_a_layer_that_is_random() -> None:
    layer = nn.Sequential(nn.Linear(3, 2), nn.Dropout())
    with pytest.raises(ValueError, match=r"^the layer is random .* Call layer\.eval\(\) first\.$"):
        check(layer, torch.ones(4, 3), torch.ones(4, 2), bias_grad=torch.ones(2))
    layer.eval()
    check(layer, torch.ones(4, 3), torch.ones(4, 2), bias_grad=4 * torch.ones(2))


def test_what_is_no_module() -> None:
    with pytest.raises(TypeError, match=r"^the layer must be a torch\.nn\.Module, not a function\.$"):
        check(lambda x: x, torch.ones(2), torch.ones(2), input_grad=torch.ones(2))


def test_nothing_is_left_behind() -> None:
    layer, x, g = linear()
    x.requires_grad_()
    before, random = {name: value.clone() for name, value in layer.state_dict().items()}, torch.get_rng_state()
    said(layer, x, g, weight_grad=x.T @ g)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert layer.weight.grad is None and x.grad is None and not layer._forward_hooks
    assert torch.equal(torch.get_rng_state(), random)
