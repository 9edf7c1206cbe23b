"""Gradients that are averaged over ranks before they are used: by DistributedDataParallel, or a bucket at a time by us.

DistributedDataParallel (DDP) averages a bucket of gradients once all of them are there; hooks of a parameter run before
that. So nothing may be stepped in them, and we step where DDP lets a program in: in its communication hook.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from backsight.gradient_release._torch import at_end_of_backward, is_sharded
from backsight.gradient_release.ahead import set_gradient
from backsight.gradient_release.errors import NotReleasable, ReleaseError
from backsight.gradient_release.ledger import Entry
from backsight.tape import in_backward

if TYPE_CHECKING:
    from backsight.gradient_release.stepping import Stepping


def are_sharded(optimizers: Iterable[torch.optim.Optimizer]) -> bool:
    """Whether all that is optimized is sharded (FSDP2), so that gradients arrive reduced, without help."""
    parameters = [each for one in optimizers for group in one.param_groups for each in group["params"]]
    return bool(parameters) and all(map(is_sharded, parameters))


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
        self.releases: weakref.WeakSet[OverDdp] = weakref.WeakSet()
        self._on_the_way: list[tuple[list[int], Any]] = []
        try:
            model.register_comm_hook(self, lambda state, bucket: state.average(bucket))
        except RuntimeError as error:
            raise NotReleasable(
                "This DistributedDataParallel already has a communication hook and accepts no second one, which "
                "release needs to step averaged gradients. Remove the hook or mixed_precision."
            ) from error

    def average(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """Average a bucket over the ranks, while the one before it is stepped."""
        buffer = bucket.buffer()
        buffer.mul_(1.0 / self._world)  # as DDP does: a division would round differently
        work = distributed.all_reduce(buffer, group=self._group, async_op=True)
        future: torch.futures.Future[Any] = work.get_future()
        # `ddp.join()` calls this outside of backward, for ranks that have no more data and do not step.
        if self.releases and in_backward() and not buffer.is_sparse:
            if bucket.index() == 0:  # a new pass; the one before may have ended in an exception
                at_end_of_backward(self._end)
                self._on_the_way = []
                for release in self.releases:
                    release.begin()
            before = self._on_the_way
            # A parameter that this rank did not use is left to DDP, which knows whether another did.
            pairs = zip(bucket.parameters(), bucket.gradients(), strict=True)
            gradients = {id(parameter): gradient for parameter, gradient in pairs}
            for release in self.releases:
                release.free(gradients)
            self._on_the_way = [(list(gradients), future)]
            self._step(before)
        return future.then(lambda done: done.value()[0])

    def _step(self, arrived: list[tuple[list[int], Any]]) -> None:
        for keys, future in arrived:
            future.wait()
            for release in self.releases:
                release.step(keys)

    def _end(self) -> None:
        """Step the last bucket, before DDP ends its part of the backward pass, and clear up after that."""
        last, self._on_the_way = self._on_the_way, []
        self._step(last)
        if self._views:
            for release in self.releases:
                release.hide()
        at_end_of_backward(self._after)

    def _after(self) -> None:
        for release in self.releases:
            release.end()


_BUCKETS: weakref.WeakKeyDictionary[Any, DdpBuckets] = weakref.WeakKeyDictionary()
"""The hook of each DDP that has one."""


def expect_ddp(model: object) -> None:
    """Refuse what is given for a DistributedDataParallel and is none."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise TypeError(f"ddp must be the DistributedDataParallel around the model, not a {type(model).__name__}.")


class Averaging:
    """What a release asks whoever averages its gradients; this is the answer of a single rank, where nobody does.

    Attributes:
        over_ranks: whether gradients are averaged.
        has_buckets: whether that is done in buckets of its own, and parameters are stepped when it says so.
    """

    over_ranks = False
    has_buckets = False

    @property
    def ddp(self) -> torch.nn.Module | None:
        """The DistributedDataParallel that averages, if one does."""
        return None

    def average(self, parameters: Sequence[torch.Tensor]) -> None:
        """Average the gradients of parameters that are about to be stepped, each once a step."""

    def turn(self) -> None:
        """Begin the next step."""

    def close(self) -> None:
        """Leave gradients alone from now on."""


class OverDdp(Averaging):
    """Has parameters be stepped when a DDP has averaged their gradients.

    At the end of a backward pass DDP overwrites all gradients with what it has averaged, or points them to its buckets.
    The first the placeholders let pass, so that no memory is needed; for the second they are away meanwhile.

    Raises:
        NotReleasable: if the DDP holds none of the parameters, or has another hook.
    """

    over_ranks = has_buckets = True

    def __init__(self, stepping: Stepping, model: Any):
        ours = {id(each) for each in stepping.attachments.parameters()}
        if not any(id(each) in ours for each in model.parameters()):
            raise NotReleasable("This DistributedDataParallel holds none of the optimizer's parameters.")
        if model not in _BUCKETS:
            _BUCKETS[model] = DdpBuckets(model)
        self._model = weakref.ref(model)
        self._stepping = weakref.ref(stepping)
        self._here: set[int] = set()
        """Whose gradients are those in DDP's buckets, averaged or on the way to it."""
        self._averaged: set[int] = set()
        self._passing: list[Entry] = []
        """What was stepped in the backward pass under way."""
        _BUCKETS[model].releases.add(self)

    @property
    def ddp(self) -> torch.nn.Module | None:
        """The DDP, if it is still there."""
        return self._model()

    def close(self) -> None:
        """Leave all gradients to the optimizer."""
        model = self._model()
        if model is not None:
            _BUCKETS[model].releases.discard(self)

    def begin(self) -> None:
        """Begin a backward pass; the one before may have ended in an exception."""
        self._here, self._averaged = set(), set()
        self._let_pass(False)
        self._passing = []

    def free(self, gradients: dict[int, torch.Tensor]) -> None:
        """Free gradients of this rank: DDP has copied them to its bucket, of which this is each one's part by `id`."""
        stepping = self._stepping()
        if stepping is not None:
            self._here |= stepping.move(gradients)
            stepping.ledger.leave_out(self._here)

    def step(self, keys: Iterable[int]) -> None:
        """Step parameters of which the gradients, in DDP's bucket, have been averaged; given by their `id`."""
        stepping = self._stepping()
        if stepping is None:
            return
        self._averaged.update(self._here.intersection(keys))
        self._passing += stepping.step_averaged(self._averaged)
        stepping.ledger.leave_out(self._here)
        self._let_pass(True)

    def hide(self) -> None:
        """Take placeholders out of `grad`, where DDP is about to put its own buckets."""
        for _, parameter in self._passing:
            set_gradient(parameter, None)

    def end(self) -> None:
        """Put placeholders back, after DDP has ended its part of a backward pass."""
        for slot, parameter in self._passing:
            set_gradient(parameter, slot.placeholder)
        self._let_pass(False)
        self._passing = []

    def _let_pass(self, whether: bool) -> None:
        for slot, _ in self._passing:
            if slot.placeholder is not None:
                slot.placeholder.overwritable = whether


class GroupAverage(Averaging):
    """Averages gradients over the ranks of a process group, a bucket of the release at a time, without a DDP.

    Every rank has to come with the same parameters in the same order. That is compared before each bucket, so that a
    parameter that one rank did not use raises on all of them, instead of a sum of wrong things or waiting for ever.

    Raises:
        NotReleasable: if a parameter is sharded (DTensor), or the weights are not the same on all ranks.
    """

    over_ranks = True

    def __init__(self, group: distributed.ProcessGroup, parameters: Sequence[torch.Tensor]):
        if any(is_sharded(each) for each in parameters):
            raise NotReleasable("FSDP2 reduces the gradients of sharded parameters itself: remove process_group.")
        self._group = group
        self._world = distributed.get_world_size(group)
        self._done: set[int] = set()
        self._device = parameters[0].device
        self._places = {id(each): at for at, each in enumerate(parameters)}
        with torch.no_grad():
            known = [zlib.crc32(each.detach().cpu().reshape(-1).view(torch.uint8).numpy().data) for each in parameters]
        if not self._same([len(known), *known]):
            raise NotReleasable(
                "The weights differ between ranks, and averaged gradients would not make them equal. First load one "
                "checkpoint on all ranks, or: for p in model.parameters(): torch.distributed.broadcast(p.data, 0)"
            )

    def average(self, parameters: Sequence[torch.Tensor]) -> None:
        """Average the gradients of parameters over the ranks, in place.

        Raises:
            ReleaseError: on all ranks, if they do not come with the same parameters.
        """
        parameters = [each for each in parameters if id(each) not in self._done]
        self._done.update(id(each) for each in parameters)
        places = [self._places.get(id(each), -1) for each in parameters]
        if not self._same([len(places), *places]):
            raise ReleaseError(
                "The ranks have gradients of different parameters and cannot average them: one rank did not use a "
                "parameter that another did, or used them in a different order. Use each parameter on each rank "
                "(`loss + 0 * unused.sum()`), or DistributedDataParallel(find_unused_parameters=True) and ddp=."
            )
        with torch.no_grad():
            for gradients in _by_type([each.grad for each in parameters if each.grad is not None]):
                flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).mul_(1.0 / self._world)
                distributed.all_reduce(flat, group=self._group)
                parts = torch.split(flat, [gradient.numel() for gradient in gradients])
                for gradient, part in zip(gradients, parts, strict=True):
                    gradient.copy_(part.view(gradient.shape))

    def turn(self) -> None:
        """Begin the next step."""
        self._done = set()

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
            raise ReleaseError("Release cannot average sparse gradients over a process group: use sparse=False.")
        groups.setdefault((gradient.device, gradient.dtype), []).append(gradient)
    return list(groups.values())
