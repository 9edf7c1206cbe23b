"""Gradients that are averaged over ranks before they are used: by DistributedDataParallel, or a bucket at a time by us.

DistributedDataParallel (DDP) averages a bucket of gradients once all of them are there; hooks of a parameter run before
that. So nothing may be stepped in them, and we step where DDP lets a program in: in its communication hook.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import distributed

from backsight.gradient_release._torch import at_end_of_backward, is_sharded
from backsight.gradient_release.errors import NotReleasable, ReleaseError


class Releasing(Protocol):
    """What the communication hook needs of a release."""

    def averaged(self, gradients: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Step parameters, each given with its gradient, which has been averaged."""

    def hide_placeholders(self, parameters: Sequence[torch.Tensor]) -> None:
        """Take placeholders out of `grad`, where DDP is about to put its own buckets."""

    def show_placeholders(self) -> None:
        """Put placeholders back."""


class DdpBuckets:
    """The communication hook of one DDP: averages a bucket as DDP itself does, and has its parameters stepped.

    DDP takes one hook for good, so this one stays when a release is removed, and only averages then.

    A bucket is stepped when the next one is on its way, so that communication goes on during backward; in the thread
    of backward, so that no weight changes while a node of the graph reads it.
    """

    def __init__(self, model: Any):
        self._world = distributed.get_world_size(model.process_group)
        self._group = model.process_group
        self._views = bool(model.gradient_as_bucket_view)
        self._releases: weakref.WeakSet[Any] = weakref.WeakSet()
        self._on_the_way: list[tuple[list[tuple[torch.Tensor, torch.Tensor]], Any]] = []
        self._stepped: list[torch.Tensor] = []
        try:
            model.register_comm_hook(self, lambda state, bucket: state.average(bucket))
        except RuntimeError as error:
            raise NotReleasable(
                "This DistributedDataParallel has a communication hook already, and takes no second one, in which "
                "release would step what was averaged. Leave the hook, or mixed_precision, out."
            ) from error

    def add(self, release: Releasing) -> None:
        """Have the parameters of a release be stepped, too."""
        self._releases.add(release)

    def discard(self, release: Releasing) -> None:
        """Leave the parameters of a release to its optimizer."""
        self._releases.discard(release)

    def average(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """Average a bucket over the ranks, while the one before it is stepped."""
        buffer = bucket.buffer()
        buffer.mul_(1.0 / self._world)  # as DDP does: a division would round differently
        work = distributed.all_reduce(buffer, group=self._group, async_op=True)
        future: torch.futures.Future[Any] = work.get_future()
        if self._releases and not buffer.is_sparse:
            if bucket.index() == 0:  # a new pass; the one before may have ended in an exception
                at_end_of_backward(self._end)
                self._on_the_way, self._stepped = [], []
            before = self._on_the_way
            self._on_the_way = [(list(zip(bucket.parameters(), bucket.gradients(), strict=True)), future)]
            self._step(before)
        return future.then(lambda done: done.value()[0])

    def _step(self, arrived: list[tuple[list[tuple[torch.Tensor, torch.Tensor]], Any]]) -> None:
        for pairs, future in arrived:
            future.wait()
            # A parameter without a gradient was not used on this rank; only DDP knows whether it was on another.
            here = [(parameter, gradient) for parameter, gradient in pairs if parameter.grad is not None]
            for release in self._releases:
                release.averaged(here)
            self._stepped += [parameter for parameter, _ in here]

    def _end(self) -> None:
        """Step the last bucket, before DDP ends its part of the backward pass, and clear up after that."""
        last, self._on_the_way = self._on_the_way, []
        self._step(last)
        stepped, self._stepped = self._stepped, []
        if self._views:
            for release in self._releases:
                release.hide_placeholders(stepped)
        at_end_of_backward(self._after)

    def _after(self) -> None:
        for release in self._releases:
            release.show_placeholders()


_BUCKETS: weakref.WeakKeyDictionary[Any, DdpBuckets] = weakref.WeakKeyDictionary()
"""The hook of each DDP that has one."""


def buckets_of(model: Any, parameters: Sequence[torch.Tensor]) -> DdpBuckets:
    """Return the communication hook of a DDP, which is registered if it has none.

    Raises:
        TypeError: if the model is no DistributedDataParallel.
        NotReleasable: if it holds none of the parameters, or has another hook.
    """
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise TypeError(f"ddp is the DistributedDataParallel around the model, not a {type(model).__name__}.")
    ours = {id(each) for each in parameters}
    if not any(id(each) in ours for each in model.parameters()):
        raise NotReleasable("This DistributedDataParallel holds none of the optimizer's parameters.")
    if model not in _BUCKETS:
        _BUCKETS[model] = DdpBuckets(model)
    return _BUCKETS[model]


class GroupAverage:
    """Averages gradients over the ranks of a process group, a bucket of the release at a time, without a DDP.

    Every rank has to come with the same parameters in the same order. That is compared before each bucket, so that a
    parameter that one rank did not use raises on all of them, instead of a sum of wrong things or waiting for ever.

    Raises:
        NotReleasable: if a parameter is sharded (DTensor), or the weights are not the same on all ranks.
    """

    def __init__(self, group: distributed.ProcessGroup, parameters: Sequence[torch.Tensor]):
        if any(is_sharded(each) for each in parameters):
            raise NotReleasable(
                "FSDP2 reduces the gradients of sharded parameters itself: leave process_group out."
            )
        self._group = group
        self._world = distributed.get_world_size(group)
        self._device = parameters[0].device
        self._places = {id(each): at for at, each in enumerate(parameters)}
        with torch.no_grad():
            known = [zlib.crc32(each.detach().cpu().reshape(-1).view(torch.uint8).numpy().data) for each in parameters]
        if not self._same([len(known), *known]):
            raise NotReleasable(
                "The weights are not the same on all ranks, and averaged gradients would not bring them together. "
                "Before, load one checkpoint, or: for p in model.parameters(): torch.distributed.broadcast(p.data, 0)"
            )

    def average(self, parameters: Sequence[torch.Tensor]) -> None:
        """Average the gradients of parameters over the ranks, in place.

        Raises:
            ReleaseError: on all ranks, if they do not come with the same parameters.
        """
        places = [self._places.get(id(each), -1) for each in parameters]
        if not self._same([len(places), *places]):
            raise ReleaseError(
                "The ranks come with the gradients of different parameters, and cannot average them: one rank did not "
                "use a parameter that another did, or used them in another order. Use each parameter on each rank "
                "(`loss + 0 * unused.sum()`), or DistributedDataParallel(find_unused_parameters=True) and ddp=."
            )
        with torch.no_grad():
            for gradients in _by_type([each.grad for each in parameters if each.grad is not None]):
                flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).mul_(1.0 / self._world)
                distributed.all_reduce(flat, group=self._group)
                parts = torch.split(flat, [gradient.numel() for gradient in gradients])
                for gradient, part in zip(gradients, parts, strict=True):
                    gradient.copy_(part.view(gradient.shape))

    def _same(self, numbers: list[int]) -> bool:
        """Whether all ranks say the same."""
        told = torch.tensor([zlib.crc32(repr(numbers).encode())], device=self._device)
        others = [torch.empty_like(told) for _ in range(self._world)]
        distributed.all_gather(others, told, group=self._group)
        return all(int(other) == int(told) for other in others)


def _by_type(gradients: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for gradient in gradients:
        if gradient.is_sparse:
            raise ReleaseError("Sparse gradients are not averaged over a process group: use sparse=False.")
        groups.setdefault((gradient.device, gradient.dtype), []).append(gradient)
    return list(groups.values())
