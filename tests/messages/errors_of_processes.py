"""Errors of DistributedDataParallel (BS211), and errors that another process tells of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from errors_of_graphs import leaf
from provoking import provokes


class Net(torch.nn.Module):
    """A network of which the loss does not reach all."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.used(x), self.spare(x)


@dataclass
class Output:
    used: torch.Tensor
    spare: torch.Tensor

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.used


class Held(Net):
    """A network whose result is unused, in an object of the user's."""

    def forward(self, x: torch.Tensor) -> Output:
        return Output(self.used(x), self.spare(x))


class Sometimes(Net):
    """A network of which the second step uses another part than the first."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        return (self.used(self.spare(x)) if self.calls == 1 else self.used(x)), x


def wrapped(net: torch.nn.Module, **options: object) -> torch.nn.Module:
    """Return `net` for a group of this one process.

    Group and modules live to the end: a group that goes waits for its work with the GIL, which that work may want.
    """
    distributed = torch.distributed
    if not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    _KEPT.append(torch.nn.parallel.DistributedDataParallel(net, **options))
    return _KEPT[-1]


_KEPT: list[torch.nn.Module] = []


def _trained(net: Net, **options: object) -> None:
    module = wrapped(net, **options)
    for _ in range(3):
        module(torch.ones(2, 3))[0].sum().backward()


@provokes("BS211")
def unused_parameters():
    _trained(Net())


@provokes("BS211")
def unused_parameters_with_a_search_for_them():
    _trained(Held(), find_unused_parameters=True)


@provokes("BS211")
def unused_parameters_of_a_static_graph():
    _trained(Sometimes(), static_graph=True)


@provokes("BS211")
def unused_parameters_with_info():
    distributed = torch.distributed
    before = distributed.get_debug_level()
    distributed.set_debug_level(distributed.DebugLevel.INFO)  # as TORCH_DISTRIBUTED_DEBUG=INFO does
    try:
        _trained(Net())
    finally:
        distributed.set_debug_level(before)


class Constants(torch.utils.data.Dataset):
    """A dataset that calls backward on a constant."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> None:
        torch.ones(()).backward()


@provokes("BS203")
def backward_of_a_constant_in_a_worker_of_a_loader():
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.5  # for so long a worker that has failed is waited for
    list(torch.utils.data.DataLoader(Constants(), num_workers=1))


def backward_of_constant(rank: int) -> None:
    torch.ones(()).backward()


@provokes("BS203")
def backward_of_a_constant_in_a_spawned_process():
    torch.multiprocessing.start_processes(backward_of_constant, nprocs=1, start_method="fork")


@provokes("BS201")
def backward_twice_in_a_replica():
    from torch._utils import ExceptionWrapper

    loss = leaf().exp().sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError:
        ExceptionWrapper(where="in replica 0 on device 0").reraise()


@provokes("BS221")
def a_parameter_ready_twice():
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            run = torch.utils.checkpoint.checkpoint
            return run(self.layer, run(self.layer, x, use_reentrant=True), use_reentrant=True)

    wrapped(Twice(), find_unused_parameters=True)(leaf(2, 3)).sum().backward()
