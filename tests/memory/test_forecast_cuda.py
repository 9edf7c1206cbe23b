"""For CUDA a forecast calls what CUDA would call: held to the peaks of a real device, and function by function."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import handle_torch_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from backsight.memory import forecast, like_cuda
from backsight.memory.caching_allocator import replay
from backsight.memory.cuda_operators import FUSED_NORM
from backsight.memory.like_cuda import LikeCUDA
from backsight.memory.plan import requests

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from forecast import CASES

# What `torch.cuda.max_memory_allocated` said of the second step on an NVIDIA H100 80GB with PyTorch 2.11 (CUDA 13.0);
# second, where cuDNN took workspaces, the peak of the allocator's events without them.
PEAKS = {
    "100 layers of 256×256": (105_501_184, None),
    "decoder, 4×128": (168_231_424, None),
    "decoder, 1×16": (109_539_840, None),
    "decoder, 1×16, foreach": (136_874_496, None),
    "decoder, 1×16, released (1 MB)": (88_533_504, None),
    "decoder, 4×128, bf16 autocast": (149_838_848, None),
    "decoder, 4×128, checkpointed": (116_069_888, None),
    "decoder, 4×128, checkpointed, released": (111_541_248, None),
    "convolutions with batch norm": (49_547_264, 46_234_928),
    "PyTorch's TransformerEncoder": (99_250_176, None),
    "LSTM of 64, 400 words": (60_896_256, 15_379_288),
    "LSTM of 512, 2 layers, both ways": (317_083_136, 215_434_584),
    "Conv3d": (34_329_088, 34_326_064),
    "ConvTranspose2d": (19_476_992, 16_328_232),
    "grouped Conv1d with weight norm": (21_365_760, 17_040_644),
}


@pytest.mark.parametrize("name", PEAKS)
def test_a_forecast_for_cuda_is_within_one_percent_of_what_an_h100_allocated_without_workspaces(name):
    if "decoder" in name and not FUSED_NORM:
        pytest.skip("the H100 had RMSNorm as one kernel, and this PyTorch has not")
    peak, without_workspaces = PEAKS[name]
    torch.manual_seed(0)
    case = CASES[name]()
    optimizer = case.optimizer(case.model.parameters())
    options = {"autocast": case.autocast, "release": case.release, "device": "cuda"}
    foretold = forecast(case.model, case.batch, optimizer, variants=False, **options)
    expected = replay(requests(foretold.memory.history)).peak_allocated
    assert expected == pytest.approx(without_workspaces or peak, rel=0.01)
    assert bool(foretold.notes) == (name in CUDNN)


CUDNN = {
    "convolutions with batch norm",
    "LSTM of 64, 400 words",
    "LSTM of 512, 2 layers, both ways",
    "Conv3d",
    "ConvTranspose2d",
    "grouped Conv1d with weight norm",
}


class Called(TorchDispatchMode):
    """Write down the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def seen(function, *, autocast=None, backward=True):
    """Return the tensors that a function saved, as (dtype, size), what it returned, and the operators it called."""
    saved = []

    def pack(tensor):
        saved.append((tensor.dtype, tuple(tensor.size())))
        return tensor

    casting = torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None)
    with FakeTensorMode(), LikeCUDA(set()), Called() as called:
        with saved_tensors_hooks(pack, lambda each: each), casting:
            result = function()
        if backward:
            result.sum().backward()
    return saved, result, called.names


def needed(*size, **options):
    return torch.randn(*size, requires_grad=True, **options)


@pytest.mark.parametrize(
    "dropped",
    [
        lambda x: F.dropout(x, 0.5),
        lambda x: F.dropout(input=x, p=0.5, training=True),
        lambda x: torch.dropout(x, 0.5, True),
        lambda x: nn.Dropout(0.5)(x),
    ],
)
def test_dropout_saves_a_mask_of_bool(dropped):
    saved, result, _ = seen(lambda: dropped(needed(8, 4)))
    assert saved == [(torch.bool, (8, 4))]
    assert result.shape == (8, 4)


@pytest.mark.parametrize(
    "dropped",
    [
        lambda x: F.dropout(x, 0.0),
        lambda x: F.dropout(x, 1.0),
        lambda x: F.dropout(x, 0.5, training=False),
        lambda x: F.dropout(x * 1, 0.5, inplace=True),
        lambda x: F.dropout1d(x.view(1, 8, 4), 0.5),
        lambda x: F.alpha_dropout(x, 0.5, training=True),
    ],
)
def test_what_cuda_composes_stays_composed(dropped):
    _, _, called = seen(lambda: dropped(needed(8, 4)))
    assert "native_dropout" not in called


@pytest.mark.skipif(not FUSED_NORM, reason="CUDA composes RMSNorm in this PyTorch, too")
def test_rms_norm_saves_its_input_and_a_number_for_each_row(monkeypatch):
    saved, _, called = seen(lambda: nn.RMSNorm(16)(needed(4, 8, 16)))
    assert sorted(saved, key=str) == [
        (torch.float32, (16,)),
        (torch.float32, (4, 8, 1)),
        (torch.float32, (4, 8, 16)),
    ]
    assert {"_fused_rms_norm", "_fused_rms_norm_backward"} <= set(called)
    assert "_fused_rms_norm" in seen(lambda: F.rms_norm(needed(4, 16), (16,)))[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says on the CPU, too, that it composes it
        mixed = seen(lambda: nn.RMSNorm(16)(needed(4, 8, 16, dtype=torch.bfloat16)))[2]
    assert "_fused_rms_norm" not in mixed, "CUDA composes it where the weight has another type"
    monkeypatch.setattr(like_cuda, "FUSED_NORM", False)
    assert "_fused_rms_norm" not in seen(lambda: nn.RMSNorm(16)(needed(4, 8, 16)))[2]


MASKS = {
    "none": {},
    "dropout": {"dropout_p": 0.1},
    "causal, dropout": {"is_causal": True, "dropout_p": 0.1},
    "of bool": {"attn_mask": (24, 24)},
    "for each head": {"attn_mask": (2, 4, 24, 24)},
}


@pytest.mark.parametrize("how", MASKS)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_attention_saves_nothing_of_tokens_by_tokens_but_the_mask_itself(how, kind):
    def attended():
        options = dict(MASKS[how])
        if "attn_mask" in options:
            mask = torch.ones(options["attn_mask"])
            options["attn_mask"] = mask > 0 if how == "of bool" else mask.to(kind)
        return F.scaled_dot_product_attention(*(needed(2, 4, 24, 16, dtype=kind) for _ in range(3)), **options)

    saved, result, called = seen(attended)
    assert result.shape == (2, 4, 24, 16)
    squares = [size for _, size in saved if size[-2:] == (24, 24)]
    assert len(squares) == ("attn_mask" in MASKS[how])
    plain = kind is torch.bfloat16 and "attn_mask" not in MASKS[how]
    assert f"_scaled_dot_product_{'flash' if plain else 'efficient'}_attention" in called


def test_attention_that_no_kernel_takes_is_composed():
    def of(*size):
        return lambda: F.scaled_dot_product_attention(*(needed(*size) for _ in range(3)), dropout_p=0.1)

    assert "bmm" in seen(of(2, 4, 24, 7))[2]
    assert "bmm" in seen(of(4, 24, 16))[2]
    assert "bmm" not in seen(of(2, 4, 24, 16))[2]
    with sdpa_kernel(SDPBackend.MATH):
        assert "bmm" in seen(of(2, 4, 24, 16))[2]


@pytest.mark.parametrize("weights", [True, False])
def test_what_pytorchs_own_functions_call_is_seen(weights):
    def attended():
        x = needed(2, 24, 16)
        return nn.MultiheadAttention(16, 4, 0.1, batch_first=True)(x, x, x, need_weights=weights)[0]

    called = seen(attended)[2]
    assert ("native_dropout" if weights else "_scaled_dot_product_efficient_attention") in called
    layer = seen(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)(needed(2, 24, 16)))[2]
    assert layer.count("native_dropout") == 3
    assert "bernoulli_" not in layer


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_it_is_seen_where_a_checkpoint_computes_again(reentrant, kept):
    def checkpointed():
        return checkpoint(lambda x: F.dropout(x, 0.5) * 2, needed(4), use_reentrant=reentrant, preserve_rng_state=kept)

    called = seen(checkpointed)[2]
    assert called.count("native_dropout") == 2
    assert "bernoulli_" not in called


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_cross_entropy_under_autocast_saves_logarithms_in_the_lower_precision(kind):
    def loss():
        x, target = needed(8, 16), torch.zeros(8, dtype=torch.long)
        return F.cross_entropy(F.linear(x, needed(32, 16)), target)

    saved, result, _ = seen(loss, autocast=kind)
    assert (kind, (8, 32)) in saved
    assert result.dtype is torch.float32


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.layer_norm(x, (16,)),
        lambda x: F.group_norm(x, 4),
        lambda x: x.softmax(-1),
        lambda x: F.log_softmax(x, dim=-1),
        torch.exp,
        lambda x: x**2,
        torch.Tensor.rsqrt,
        torch.sum,
        lambda x: x.cumsum(0),
        lambda x: F.mse_loss(x, x.detach()),
    ],
)
def test_what_cudas_autocast_does_in_float32(function):
    assert seen(lambda: function(needed(8, 16).bfloat16()), autocast=torch.bfloat16)[1].dtype is torch.float32
    assert seen(lambda: function(needed(8, 16).bfloat16()))[1].dtype is torch.bfloat16


def test_what_only_the_autocast_of_the_cpu_does_in_float32():
    pooled = seen(lambda: F.adaptive_avg_pool3d(needed(1, 2, 4, 4, 4).bfloat16(), 1), autocast=torch.bfloat16)[1]
    assert pooled.dtype is torch.bfloat16


def test_softmax_of_float16_into_float32_makes_no_copy():
    _, result, called = seen(lambda: F.softmax(needed(8, 16, dtype=torch.float16), dim=-1, dtype=torch.float32))
    assert result.dtype is torch.float32
    assert "_to_copy" not in called


@pytest.mark.parametrize(
    ("layer", "size", "reserve"),
    [
        (lambda: nn.LSTM(64, 64), (400, 16, 64), 8_192_256),
        (lambda: nn.LSTM(512, 512, 2, bidirectional=True), (50, 16, 512), 36_045_056),
        (lambda: nn.LSTM(512, 512, 2, bidirectional=True, batch_first=True), (16, 50, 512), 36_045_056),
    ],
)
def test_the_reserve_of_an_lstm_is_that_of_an_h100(layer, size, reserve):
    saved, result, _ = seen(lambda: layer()(torch.randn(size))[0])
    assert (torch.uint8, (reserve,)) in saved
    assert result.shape == (*size[:2], size[2] * (1 if size[2] == 64 else 2))


class Squared(nn.Module):
    """The mean of what a layer returns, squared."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        result = self.layer(x)
        return (result[0] if isinstance(result, tuple) else result).square().mean()


def notes_of(layer, *size):
    return " ".join(forecast(Squared(layer), torch.randn(*size), device="cuda", variants=False).notes)


def test_a_note_says_what_cudnn_takes_and_what_is_counted_as_on_the_cpu():
    recurrent, as_on_the_cpu = "cuDNN takes for recurrent layers is missing", "is counted as on the CPU"
    assert recurrent in notes_of(nn.LSTM(8, 8), 5, 2, 8)
    assert as_on_the_cpu not in notes_of(nn.LSTM(8, 8), 5, 2, 8)
    for layer in (nn.GRU(8, 8), nn.RNN(8, 8), nn.LSTM(8, 8, proj_size=4)):
        assert recurrent in notes_of(layer, 5, 2, 8)
        assert as_on_the_cpu in notes_of(layer, 5, 2, 8)
    assert "cuDNN takes for convolutions are missing" in notes_of(nn.Conv1d(8, 8, 3), 2, 8, 9)
    assert notes_of(nn.Linear(8, 8), 2, 8) == ""


def test_the_gradients_of_an_lstm_are_taken_as_they_are():
    foretold = forecast(Squared(nn.LSTM(64, 64)), torch.randn(5, 2, 64), device="cuda", variants=False)
    gradients = [each for each in foretold.memory.history.blocks if each.kind == "gradients"]
    assert {each.bytes for each in gradients} == {4 * (2 * 4 * 64 * 64 + 2 * 4 * 64)}, "one block, and no copies"


def test_transforms_of_torch_func_are_left_alone():
    with FakeTensorMode(), LikeCUDA(set()):
        x, weight = torch.randn(4, 16), torch.randn(16)
        gradient = torch.func.grad(lambda w: F.rms_norm(F.dropout(x, 0.5), (16,), w).sum())(weight)
        assert gradient.shape == (16,)
        assert torch.vmap(lambda row: F.rms_norm(row, (16,)))(x).shape == (4, 16)


def test_functions_of_others_and_other_arguments_are_left_alone():
    def dropout(x, asked=True):
        return handle_torch_function(dropout, (x,), x, asked=False) if asked else x

    with LikeCUDA(set()):
        x = torch.ones(3)
        assert torch.softmax(input=x, dim=0, out=torch.empty(3)).sum() == pytest.approx(1)
        assert dropout(x) is x
        with pytest.raises(TypeError, match="dropout"):
            torch.dropout(x)


def test_a_forecast_for_the_cpu_knows_none_of_it():
    model = Squared(nn.Sequential(nn.RMSNorm(16), nn.Dropout(0.5)))
    ops = {
        device: {
            each.op for each in forecast(model, torch.randn(4, 16), device=device, variants=False).memory.history.blocks
        }
        for device in ("cpu", "cuda")
    }
    assert "aten::native_dropout" in ops["cuda"]
    assert not {"aten::native_dropout", "aten::_fused_rms_norm"} & ops["cpu"]
