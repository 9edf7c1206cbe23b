"""One rank of a training over two processes: `python ranks.py <what to do> <file to meet at> <rank>`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.checkpoint import state_dict as checkpoint
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import backsight.gradient_release as gradient_release

STEPS = 8
OPTIMIZERS = {
    "loop": lambda parameters: optim.AdamW(parameters, lr=1e-2, foreach=False),
    "fused": lambda parameters: optim.AdamW(parameters, lr=1e-2, fused=True),
    "momentum": lambda parameters: optim.SGD(parameters, lr=1e-2, momentum=0.9),
}


class Own(optim.AdamW):
    """An optimizer that is none of PyTorch's own, so that release keeps one gradient of each group back."""


class Net(nn.Module):
    """Six layers; `unused` leaves one out on one rank, another one on both, in some steps."""

    def __init__(self, unused=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
        self.unused = unused

    def forward(self, x, step=0):
        for number, layer in enumerate(self.layers):
            here = number == 2 and (dist.get_rank() + step) % 2
            if not (self.unused and (here or (number == 4 and step % 3 == 1))):
                x = torch.tanh(layer(x))
        return x


def data(step, part=0):
    return torch.randn(4, 64, generator=torch.Generator().manual_seed(100 * step + 10 * part + dist.get_rank()))


def loss(model, step=0, part=0):
    return model(data(step, part), step).square().mean()


def whole(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def outcome(model, optimizer):
    """Return weights and state of a training, sharded ones as a whole."""
    state = [whole(value).clone() for entries in optimizer.state.values() for value in entries.values()]
    return [whole(each.detach()).clone() for each in model.parameters()] + state


def assert_same(found, expected):
    assert len(found) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def train(model, optimizer, released=None, *, micro=1, steps=STEPS, first=0, earlier=contextlib.nullcontext, zero=True):
    """Take steps of `micro` backward passes each; return what comes out, and the norms of the gradients."""
    total, norms = STEPS + 1, []
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - (first + step) / total)
    for step in range(first, first + steps):
        for part in range(micro):
            with earlier() if part < micro - 1 else contextlib.nullcontext():
                loss(model, step, part).backward()
        norms.append(whole(nn.utils.clip_grad_norm_(model.parameters(), 1e9)))
        optimizer.step()
        if released is not None:
            torch.testing.assert_close(released.grad_norm(), norms[-1])
        optimizer.zero_grad(set_to_none=zero)
        schedule.step()
    return outcome(model, optimizer), norms


def compare(releasing, make_model, make_optimizer, **settings):
    """Assert that trainings with each way of releasing come to the bits of the ordinary one."""
    expected = norms = None
    for release_it in (lambda optimizer, model: None, *releasing):
        net, model = make_model()
        optimizer = make_optimizer(net.parameters())
        release = release_it(optimizer, model)
        earlier = settings.get("earlier", lambda model, release: contextlib.nullcontext)(model, release)
        found, found_norms = train(model, optimizer, release, **{**settings, "earlier": earlier})
        if release is None:
            expected, norms = found, found_norms
        assert_same(found, expected)
        torch.testing.assert_close(found_norms, norms)


def ddp(unused=False, **settings):
    net = Net(unused)
    return net, DistributedDataParallel(net, bucket_cap_mb=0.04, **settings)


def refused(kind, action):
    """Assert that something is refused; return why."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was expected")


def pairs(some, others, every):
    """Return every pair; or as few as have each of `some`, and of the fewer others."""
    return itertools.product(some, others) if every else zip(some, itertools.cycle(others), strict=False)


def in_ddp(every=False):
    """The communication hook comes to the bits of plain DDP."""
    releasing = [lambda optimizer, model: gradient_release.release(optimizer, ddp=model)]
    no_sync = {"micro": 2, "earlier": lambda model, release: model.no_sync}
    makers = (*OPTIMIZERS.values(), lambda parameters: Own(parameters, lr=1e-2))
    ways = (
        ({}, {**no_sync, "zero": False}),
        ({"find_unused_parameters": True, "unused": True}, {}),
        ({"find_unused_parameters": True, "unused": True}, no_sync),
        ({"static_graph": True}, {}),
    )
    for make, views in pairs(makers, (False, True), every):
        compare(releasing, functools.partial(ddp, gradient_as_bucket_view=views), make)
    for (settings, more), views in pairs(ways, (True, False), every):
        model = functools.partial(ddp, gradient_as_bucket_view=views, **settings)
        compare(releasing, model, OPTIMIZERS["fused"], **more)


def in_ddp_every_way():
    in_ddp(every=True)


def in_ddp_gradients_are_freed():
    """Of gradients, no more than DDP's buckets and the ones on their way to them are alive."""
    net, model = ddp()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    loss(model).backward()  # DDP has one large bucket in its first pass
    optimizer.zero_grad()
    release = gradient_release.release(optimizer, ddp=model)
    for step in range(3):
        loss(model, step).backward()
        assert len(release.stepped) == 12
        assert {type(each.grad).__name__ for each in net.parameters()} == {"Placeholder"}
        optimizer.step()
        optimizer.zero_grad()
    assert release.peak_gradient_bytes <= 3 * (64 * 64 + 64) * 4  # of six layers: a bucket of three is under way


def in_ddp_errors_are_loud():
    net, model = ddp()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    assert "ddp=model" in refused(gradient_release.NotReleasable, lambda: gradient_release.release(optimizer))
    refused(TypeError, lambda: gradient_release.release(optimizer, ddp=net))
    refused(ValueError, lambda: gradient_release.release(optimizer, ddp=model, process_group=dist.group.WORLD))
    release = gradient_release.release(optimizer, ddp=model)
    assert "averaged" in refused(gradient_release.NotReleasable, lambda: release.clip(1.0))
    loss(model).backward()
    refused(gradient_release.GradientGone, lambda: nn.utils.clip_grad_norm_(net.parameters(), 1e-3))
    refused(gradient_release.GradientGone, lambda: net.layers[0].weight.grad.copy_(torch.ones(64, 64)))
    refused(gradient_release.AlreadyStepped, lambda: loss(model).backward())
    optimizer.step()
    optimizer.zero_grad()
    other, hooked = ddp()
    hooked.register_comm_hook(None, lambda state, bucket: bucket)
    optimizer = optim.SGD(other.parameters(), lr=0.1)
    text = refused(gradient_release.NotReleasable, lambda: gradient_release.release(optimizer, ddp=hooked))
    assert "already has a communication hook" in text
    assert not optimizer._optimizer_step_pre_hooks
    assert all(not each._post_accumulate_grad_hooks for each in other.parameters())


def in_ddp_removed():
    """After remove(), and in steps whose gradients are kept, there is plain DDP; release can be attached once more."""
    net, model = ddp()
    optimizer = OPTIMIZERS["momentum"](net.parameters())
    expected = train(model, optimizer, steps=8)[0]
    net, model = ddp()
    optimizer = OPTIMIZERS["momentum"](net.parameters())
    release = gradient_release.release(optimizer, ddp=model)
    train(model, optimizer, steps=2)
    with release.accumulate():
        train(model, optimizer, steps=2, first=2)
    release.remove()
    train(model, optimizer, steps=2, first=4)
    gradient_release.release(optimizer, ddp=model)
    assert_same(train(model, optimizer, steps=2, first=6)[0], expected)


def in_ddp_uneven():
    """Ranks that have more data than others go on under `join`."""
    results = []
    for released in (False, True):
        net, model = ddp()
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        if released:
            gradient_release.release(optimizer, ddp=model)
        with model.join():
            for step in range(3 + dist.get_rank()):
                loss(model, step).backward()
                optimizer.step()
                optimizer.zero_grad()
        results.append([each.detach().clone() for each in net.parameters()])
    assert_same(*results)


def in_ddp_one_fails():
    """A rank that fails inside of backward and ends is noticed by the other one."""
    net, model = ddp(find_unused_parameters=True)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    release = gradient_release.release(optimizer, ddp=model)

    def fail(parameter):
        raise ValueError("on this rank only")

    if dist.get_rank() == 1:
        net.layers[0].weight.register_post_accumulate_grad_hook(fail)
    refused(Exception, lambda: loss(model).backward())
    assert release.stepped
    print("failed", flush=True)
    os._exit(0)  # nothing can be agreed upon any more


def over_a_group(every=False):
    """Gradients that release averages itself come to the bits of DDP, and are freed."""
    for make, micro in pairs(OPTIMIZERS.values(), (1, 2), every):
        net = Net()
        model, optimizer = DistributedDataParallel(net), make(net.parameters())
        expected, _ = train(model, optimizer, micro=micro, earlier=model.no_sync)
        for bucket in (0, 40_000, float("inf")):
            net = Net()
            optimizer = make(net.parameters())
            release = gradient_release.release(optimizer, bucket, process_group=dist.group.WORLD)
            # Norms between backward and step are those of gradients of which some are not averaged yet.
            found, _ = train(net, optimizer, micro=micro, earlier=release.accumulate)
            assert_same(found, expected)
            if micro == 1 and bucket < 1e9:
                assert release.peak_gradient_bytes <= bucket + 64 * 64 * 4


def over_a_group_every_way():
    over_a_group(every=True)


def over_a_group_errors_are_loud():
    """A parameter that one rank did not use raises on both, as do different weights."""
    group = dist.group.WORLD
    for bucket in (0, float("inf")):
        net = Net(unused=True)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        release = gradient_release.release(optimizer, bucket, process_group=group)

        def step(net=net, optimizer=optimizer):
            loss(net).backward()
            optimizer.step()

        assert "different parameters" in refused(gradient_release.ReleaseError, step)
    refused(gradient_release.NotReleasable, lambda: gradient_release.release(optimizer, process_group=group))
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    release = gradient_release.release(optimizer, process_group=group)
    refused(gradient_release.NotReleasable, lambda: release.clip(1.0))
    net = Net()
    with torch.no_grad():
        net.layers[0].bias += dist.get_rank()
    other = optim.SGD(net.parameters(), lr=0.1)
    text = refused(gradient_release.NotReleasable, lambda: gradient_release.release(other, process_group=group))
    assert "weights differ between ranks" in text


def sharded(policy=None):
    net = Net()
    settings = {} if policy is None else {"mp_policy": policy}
    for layer in net.layers:
        fully_shard(layer, **settings)
    fully_shard(net, **settings)
    return net, net


def in_fsdp():
    """Mixed precision and momentum; the rest is in test_fully_sharded.py."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    releasing = [
        lambda optimizer, model, bucket=bucket: gradient_release.release(optimizer, bucket)
        for bucket in (0, 65536, float("inf"))
    ]
    compare(releasing, lambda: sharded(policy), OPTIMIZERS["fused"])
    compare(releasing, sharded, OPTIMIZERS["momentum"])
    kept = {"micro": 2, "earlier": lambda model, release: release.accumulate if release else contextlib.nullcontext}
    compare(releasing[:1], sharded, OPTIMIZERS["loop"], **kept)


def in_fsdp_checkpoints_move():
    """A checkpoint of a released training continues without release, and vice versa."""
    for first, second in ((0, None), (None, 0)):
        net, _ = sharded()
        optimizer = OPTIMIZERS["fused"](net.parameters())
        expected = train(net, optimizer, steps=6)[0]
        net, _ = sharded()
        optimizer = OPTIMIZERS["fused"](net.parameters())
        if first is not None:
            gradient_release.release(optimizer, first)
        train(net, optimizer, steps=3)
        saved = checkpoint.get_state_dict(net, optimizer)
        saved = [dict(each) for each in saved]
        other, _ = sharded()
        resumed = OPTIMIZERS["fused"](other.parameters())
        if second is not None:
            gradient_release.release(resumed, second)
        checkpoint.set_state_dict(other, resumed, model_state_dict=saved[0], optim_state_dict=saved[1])
        for group in resumed.param_groups:
            group["lr"] = group["initial_lr"] = 1e-2
        assert_same(train(other, resumed, steps=3, first=3)[0], expected)


def in_fsdp_clipped(every=False):
    """Clipping has the bits of `clip_grad_norm_`, by either way."""
    for make, method in pairs(OPTIMIZERS.values(), ("factored", "two-pass"), every):
        results = []
        for released in (False, True):
            net, _ = sharded()
            optimizer = make(net.parameters())
            release = gradient_release.release(optimizer, 0) if released else None
            if release is not None:
                release.clip(1e-4, method=method)
            norms = []
            for step in range(5):
                if release is not None:
                    release.backward(loss(net, step))
                else:
                    loss(net, step).backward()
                    norms.append(whole(nn.utils.clip_grad_norm_(net.parameters(), 1e-4)))
                    assert norms[-1] > 1e-4
                optimizer.step()
                if release is not None:
                    norms.append(release.grad_norm())
                optimizer.zero_grad()
            results.append(outcome(net, optimizer) + norms)
        assert_same(*results)


def in_fsdp_clipped_every_way():
    in_fsdp_clipped(every=True)


def in_fsdp_errors_are_loud():
    net, _ = sharded()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    gradient_release.release(optimizer, 0)  # lives as long as its optimizer
    loss(net).backward()
    weight = net.layers[0].weight
    assert whole(nn.utils.clip_grad_norm_(net.parameters(), 1e9)) > 0
    refused(gradient_release.GradientGone, lambda: nn.utils.clip_grad_norm_(net.parameters(), 1e-3))
    refused(gradient_release.GradientGone, lambda: weight.grad.full_tensor())
    refused(gradient_release.GradientGone, lambda: weight.grad.to_local())
    refused(gradient_release.GradientGone, lambda: weight.grad + 1)
    refused(AssertionError, lambda: loss(net).backward())  # that of FSDP, which expects a DTensor


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=int(sys.argv[3]), world_size=2)
    globals()[sys.argv[1]]()
    dist.barrier()  # a rank that leaves early closes the connections of the other
    print("done", flush=True)
    dist.destroy_process_group()
    # Not the interpreter's end: a thread of gloo may still free a tensor of FSDP2's then, and PyTorch 2.13 aborts.
    os._exit(0)
