"""`verify_graph`: which nodes are left alone, and that nothing is disturbed."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import fresh
import misbehaving
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight as bs


def x_of(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype).requires_grad_()


# ---- what is left alone


class Reentrant(torch.autograd.Function):
    """A checkpoint as people write it: the forward again in backward, and a backward through it."""

    calls = 0

    @staticmethod
    def forward(ctx, x, layer):
        ctx.save_for_backward(x)
        ctx.layer = layer
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        Reentrant.calls += 1
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, grad)
        return x.grad, None


def test_what_runs_a_backward_of_its_own_is_left_alone() -> None:
    layer = nn.Linear(3, 3)
    Reentrant.calls = 0
    report = bs.verify_graph(Reentrant.apply(torch.randn(2, 3, requires_grad=True), layer).sum())
    assert [(each.name, each.why) for each in report.skipped] == [
        ("Reentrant", "its backward runs a backward of its own, which writes to .grad")
    ]
    assert Reentrant.calls == 0 and layer.weight.grad is None


class kernels:
    """Stands for a compiled extension: its `backward` is a kernel, not the engine."""

    @staticmethod
    def backward(grad):
        return 2 * grad


class Extension(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return kernels.backward(grad)


def test_a_kernel_that_is_called_backward_is_tested() -> None:
    report = bs.verify_graph(Extension.apply(torch.randn(3, requires_grad=True)).sum())
    assert report.ok and report.skipped == ()


def test_checkpoints_are_left_alone() -> None:
    runs = []

    def block(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return (x * x).sin()

    x = torch.randn(3, requires_grad=True)
    reentrant = bs.verify_graph(checkpoint(block, x, use_reentrant=True).sum())
    plain = bs.verify_graph(checkpoint(block, x, use_reentrant=False).sum())
    assert [each.why for each in reentrant.skipped] == [
        "a reentrant checkpoint: its backward runs a whole backward of its own, which writes to .grad"
    ]
    assert {each.why for each in plain.skipped} == {
        "what it saved is packed by hooks (checkpointing, offloading), and unpacking would run them"
    }
    assert len(runs) == 2 and x.grad is None


DISTRIBUTED = """
import sys, warnings, torch, backsight as bs
from torch import nn
import torch.distributed.nn.functional as collective

warnings.simplefilter("ignore")
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2), static_graph=True)
loss = collective.all_reduce(model(torch.randn(4, 3))).sum()
print(bs.verify_graph(loss))
print([parameter.grad for parameter in model.parameters()])
loss.backward()
torch.distributed.destroy_process_group()
"""


def test_communication_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DISTRIBUTED, str(tmp_path / "meeting")]
    ended = fresh.run(command, timeout=120)
    assert ended.returncode == 0, ended.stderr
    said = [line for line in ended.stdout.splitlines() if not line.startswith("[Gloo]")]
    assert said == [
        "backsight: 3 nodes tested, every backward is linear and deterministic: Sum, Addmm, T",
        "not tested: _AllReduce, _DDPSink (its backward communicates with other processes)",
        "[None, None]",
    ]


def test_a_freed_graph_says_so() -> None:
    loss = torch.randn(3, requires_grad=True).sin().sum()
    loss.backward()
    report = bs.verify_graph(loss)
    assert [(each.name, each.why) for each in report.skipped] == [("Sin", "a backward has released what it saved")]
    assert str(report).split("\n")[1:] == ["not tested: Sin (a backward has released what it saved)"]


def test_what_was_modified_in_place_says_so() -> None:
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    with torch.no_grad():
        y.mul_(2)
    (skipped,) = bs.verify_graph(loss).skipped
    assert skipped.why == "what it saved was modified in place afterwards: backward() will raise"


def test_a_backward_that_raises_is_reported_and_the_others_tested() -> None:
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("not today")

    report = bs.verify_graph(Raises.apply(x_of(3)).sin().sum())
    assert [each.why for each in report.skipped] == ["raises ValueError: not today"]
    assert {each.name for each in report.checked} == {"Sum", "Sin"}


def test_tensors_without_values_or_shapes_are_left_alone() -> None:
    meta = torch.randn(3, device="meta", requires_grad=True)
    (skipped,) = bs.verify_graph((meta * 2).sum(0)).skipped[1:]
    assert (skipped.name, skipped.why) == ("Mul", "its tensors are on the meta device, and have no values")
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, requires_grad=True)
    report = bs.verify_graph(nested.sin().values().sum())
    assert [each.name for each in report.skipped] == ["Sin"]
    assert report.skipped[0].why == "its outputs have no shape or dtype for which gradients can be generated"


def test_what_has_no_graph_is_refused() -> None:
    with pytest.raises(bs.NothingToCapture, match=r"^verify_graph\(\) was given a float32 tensor of shape \(\), which"):
        bs.verify_graph(torch.zeros(()))
    with pytest.raises(bs.NothingToCapture, match=r"pass the loss, as in backsight.verify_graph\(loss\)\.$"):
        bs.verify_graph()


# ---- nothing is disturbed


def gradients(loss: torch.Tensor, model: nn.Module) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), retain_graph=True))


def test_gradients_hooks_and_random_numbers_stay_as_they_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.GELU(), nn.Linear(5, 1))
    x, called = torch.randn(7, 5), []
    h = model[:2](x)
    h.register_hook(lambda g: called.append("tensor"))
    model[0].register_full_backward_hook(lambda *_: called.append("module"))
    model[0].weight.register_hook(lambda g: called.append("leaf"))
    loss = model[2:](misbehaving.Noisy.apply(misbehaving.Mutating.apply(h))).mean() + model(x).sum()
    state, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()

    report = bs.verify_graph(loss)

    assert {finding.code for finding in report} == {"BS410", "BS411"}
    assert called == []
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    loss.backward()  # nothing was freed
    assert called


def test_what_a_backward_spoils_is_put_back() -> None:
    x = x_of(4)
    right = x.detach().cos()
    loss = misbehaving.ChangingSaved.apply(x).sum()
    bs.verify_graph(loss)
    loss.backward()
    torch.testing.assert_close(x.grad, right)


def test_the_gradients_after_are_those_without_to_the_bit() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    loss = layer(torch.randn(2, 5, 16)).square().mean()
    before = gradients(loss, layer)
    assert bs.verify_graph(loss).ok
    assert all(torch.equal(a, b) for a, b in zip(before, gradients(loss, layer), strict=True))


def test_a_deep_graph_is_walked_and_freed() -> None:
    h = x_of(2)
    for _ in range(3000):
        h = h + 1
    assert len(bs.verify_graph(h.sum()).checked) == 3001


def test_gradient_mode_and_autocast_of_the_caller_do_not_matter() -> None:
    loss = (x_of(4, 4, dtype=torch.float32) @ x_of(4, 4, dtype=torch.float32)).sum()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert bs.verify_graph(loss).ok
