"""What release() refuses to attach to, with the reason."""

from __future__ import annotations

import sys

import fresh
import pytest
import torch
from loops import assert_same, mlp, square
from torch import nn, optim

import backsight.gradient_release as gradient_release
from backsight.gradient_release import NotReleasable, release
from backsight.gradient_release.bucket import bucket_bytes


def refused(optimizer, message, **settings):
    hooks = len(optimizer._optimizer_step_pre_hooks)
    with pytest.raises(NotReleasable, match=message):
        release(optimizer, 0, **settings)
    assert len(optimizer._optimizer_step_pre_hooks) == hooks
    assert all(
        not parameter._post_accumulate_grad_hooks for group in optimizer.param_groups for parameter in group["params"]
    )


def test_an_optimizer_with_a_closure():
    refused(optim.LBFGS(mlp(4, 4).parameters()), "^LBFGS evaluates the loss several times within a step, through a cl")

    refused(
        optim.LBFGS(mlp(4, 4).parameters()), r"It calls the closure at lbfgs.py:\d+: `.*closure\(\)`. Train it without"
    )

    class Sharp(optim.SGD):
        def step(self, closure):
            return closure()

    refused(Sharp(mlp(4, 4).parameters(), lr=0.1), "^Sharp evaluates the loss several times.*at test_refusals.py:")


def test_a_differentiable_optimizer():
    refused(optim.SGD(mlp(4, 4).parameters(), lr=0.1, differentiable=True), r"^SGD\(differentiable=True\) keeps")


def test_nothing_to_train():
    model = mlp(4, 4).requires_grad_(False)
    refused(optim.SGD(model.parameters(), lr=0.1), "^No parameter of this SGD requires a gradient")


def test_parameters_that_two_optimizers_hold():
    model = mlp(4, 4)
    other = optim.SGD([model[0].bias], lr=0.1)
    refused(optim.SGD(model.parameters(), lr=0.1), "^Another optimizer, SGD, holds 1 of the 2 parameters")
    del other


def test_a_step_that_was_replaced():
    optimizer = optim.SGD(mlp(4, 4).parameters(), lr=0.1)
    optimizer.step = lambda: None
    refused(optimizer, "^The `step` of this SGD was replaced")


def test_a_scheduler_that_counts_steps_is_no_replacement():
    optimizer = optim.SGD(mlp(4, 4).parameters(), lr=0.1)
    optim.lr_scheduler.StepLR(optimizer, 1)
    release(optimizer)


def test_a_wrapper_that_is_no_optimizer_of_its_own():
    class Wrapper(optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        @property
        def param_groups(self):
            return self.optimizer.param_groups

    with pytest.raises(NotReleasable, match=r"^Wrapper wraps another optimizer: release that one"):
        release(Wrapper(optim.SGD(mlp(4, 4).parameters(), lr=0.1)))


@pytest.mark.parametrize("wrong", [None, mlp(4, 4), [torch.ones(1)]])
def test_what_is_no_optimizer(wrong):
    with pytest.raises(TypeError, match=r"^release\(\) takes an optimizer, not an object of type"):
        release(wrong)


@pytest.mark.parametrize(
    ("bucket", "error", "message"),
    [
        (
            "0 bananas",
            ValueError,
            r"^bucket='0 bananas' is not a size; write '16MB', '512KB', 'auto', or a number of bytes",
        ),
        ("", ValueError, "is not a size"),
        ("-1MB", ValueError, "is not a size"),
        (-1, ValueError, "^bucket must be a number of bytes, 0 or more, not -1"),
        (float("nan"), ValueError, "not nan"),
        (None, TypeError, "^bucket must be a number of bytes or text such as '16MB', not NoneType"),
        (True, TypeError, "not bool"),
        ([1], TypeError, "not list"),
    ],
)
def test_buckets_that_are_no_size(bucket, error, message):
    model = mlp(4, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(error, match=message):
        release(optimizer, bucket)
    assert not optimizer._optimizer_step_pre_hooks


@pytest.mark.parametrize(
    ("text", "size"),
    [("16MB", 2**24), (" 512 kb ", 2**19), ("1.5GiB", 3 * 2**29), ("0", 0), ("100", 100), (7, 7), (2.5, 2.5)],
)
def test_sizes_of_buckets(text, size):
    assert bucket_bytes(text, 0) == size


def test_the_automatic_bucket_is_a_share_of_all_gradients():
    assert bucket_bytes("auto", 10) == 2**20
    assert bucket_bytes("auto", 2**26) == 2**22
    assert bucket_bytes("auto", 2**40) == 2**24


DDP = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import backsight.gradient_release as gradient_release
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if sys.argv[2] == "before":
    ddp = DistributedDataParallel(model)
    try:
        gradient_release.release(optimizer)
    except gradient_release.NotReleasable as refusal:
        print("refused:", refusal)
else:
    gradient_release.release(optimizer, 0)
    ddp = DistributedDataParallel(model)
    before = model.weight.clone()
    try:
        ddp(torch.ones(1, 4)).sum().backward()
    except gradient_release.NotReleasable as refusal:
        print("refused:", refusal, torch.equal(before, model.weight))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("wrapped", ["before", "after"])
def test_parameters_of_a_ddp_that_averages_their_gradients_later(wrapped, tmp_path):
    done = fresh.run([sys.executable, "-c", DDP, str(tmp_path / "store"), wrapped], check=True)
    assert "refused: The parameters belong to a DistributedDataParallel, which averages" in done.stdout
    assert done.stdout.rstrip().endswith("True" if wrapped == "after" else "release is exact.")


def test_sparse_gradients_give_the_same_bits():
    def run(bucket):
        torch.manual_seed(0)
        model = nn.ModuleList(nn.Embedding(50, 8, sparse=True) for _ in range(3))
        optimizer = optim.SparseAdam(model.parameters(), lr=1e-2)
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(4):
            seen = torch.tensor([step, 3, 3, 7])
            sum(each(seen).square().sum() * (1 + number) for number, each in enumerate(model)).backward()
            optimizer.step()
            if released is not None:
                assert released.grad_norm() > 0
            optimizer.zero_grad()
        return model, optimizer

    for bucket in (0, 2000):
        assert_same(run(bucket), run(None))


@pytest.mark.parametrize("kind", [optim.SparseAdam, optim.SGD])
@pytest.mark.parametrize("bucket", ["auto", 0])
def test_sparse_gradients_of_a_small_model_give_the_same_bits(kind, bucket):
    def run(released):
        torch.manual_seed(0)
        model = nn.Embedding(20, 4, sparse=True)
        optimizer = kind(model.parameters(), lr=1e-2)
        attached = release(optimizer, bucket) if released else None
        for step in range(4):
            model(torch.tensor([step, 3, 3])).square().sum().backward()
            optimizer.step()
            if attached is not None:
                assert attached.grad_norm() > 0
                assert attached.peak_gradient_bytes == 320
            optimizer.zero_grad(set_to_none=step % 2 == 0)
        return model, optimizer

    assert_same(run(True), run(False))


@pytest.mark.parametrize("bucket", ["auto", 0])
@pytest.mark.parametrize("whole", [True, False])
def test_a_training_step_that_is_compiled_is_refused_with_what_to_compile_instead(bucket, whole):
    model = mlp(8, 200, 1)
    optimizer = optim.AdamW(model.parameters())
    release(optimizer, bucket)

    def step():
        if whole:
            square(model).backward()
        optimizer.step()

    if not whole:
        square(model).backward()
    try:
        with pytest.raises(NotReleasable, match=r"inside a function compiled by torch.compile.*`block.compile\(\)`"):
            torch.compile(step, backend="eager")()
    finally:
        torch.compiler.reset()


def test_a_release_tells_plainly_what_it_does():
    model = mlp(8, 200, 1)
    optimizer = optim.AdamW(model.parameters())
    released = release(optimizer, 0)
    assert repr(released) == (
        "<Release of AdamW: steps 4 parameters inside backward, one at a time, and frees their gradients; "
        "no parameter is left for optimizer.step()>"
    )
    released.clip(2.0)
    assert repr(released) == (
        "<Release of AdamW: clips gradients to a norm of 2; until optimizer.step(), gradients of linear layers and "
        "embeddings are kept as two small factors (input and output gradient), all others whole>"
    )
    released.clip(2.0, method="two-pass")
    assert "release.backward(loss) runs backward twice, and the second time steps one at a time>" in repr(released)
    released.clip(None)
    square(model).backward()
    assert repr(released).endswith("; 4 have taken the step under way>")
    optimizer.step()
    released.remove()
    assert repr(released) == "<Release of AdamW, removed>"
    told = repr(release(optimizer, 1024))
    assert "inside backward, 1 KB of gradients at a time, and" in told
    assert told.endswith("; optimizer.step() steps what is left at the end>")
    small = optim.SGD(mlp(8, 8).parameters(), lr=0.1)
    assert repr(release(small)) == (
        "<Release of SGD: 288 B of gradients fit into one bucket, so nothing is stepped early; "
        "bucket=0 steps each parameter by itself>"
    )
    larger = optim.SGD(mlp(200, 200).parameters(), lr=0.1)
    assert "fit into one bucket" in repr(release(larger))


def test_the_room_has_no_other_names():
    assert set(gradient_release.__all__) == {
        "AlreadyStepped", "CoupledOptimizer", "Evidence", "GradientGone", "NotReleasable", "Release", "ReleaseError",
        "ReleaseWarning", "release",
    }  # fmt: skip
