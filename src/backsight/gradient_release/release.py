"""`Release`: what `release` returns, the one object that a training script holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from backsight.gradient_release.attachments import Attachments, Calls
from backsight.gradient_release.clipping import Clipping, Method, backward, clip
from backsight.gradient_release.data_parallel import Averaging
from backsight.gradient_release.errors import GradientGone, ReleaseError
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.ledger import Ledger
from backsight.gradient_release.norms import norms_of, total_norm
from backsight.gradient_release.own_step import OwnStep
from backsight.gradient_release.partial_step import PartialStep
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.stepping import Stepping
from backsight.surface import require
from backsight.text import counted, size


class Release:
    """Steps an optimizer inside of the backward pass, a bucket at a time, until it is removed; made by `release`.

    An exception inside of a backward pass leaves the parameters named by `stepped` with this step taken, and the others
    without. Either load the last checkpoint into model and optimizer, or end the step as it is:
    `optimizer.zero_grad(); optimizer.step()`.

    Between backward and `optimizer.step()` weights are partly new. What the ordinary loop may do there with all of them
    alike raises: setting a learning rate, taking gradients away, changing weights. Reading weights warns: evaluate,
    average and store a model after `optimizer.step()`.

    Attributes:
        optimizer: the optimizer, which stays an ordinary one.
        bucket: bytes of gradients at which they are used and freed.
        evidence: why the steps are taken to be exact.
    """

    optimizer: torch.optim.Optimizer
    bucket: float
    evidence: Evidence

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        bucket: float,
        evidence: Evidence,
        averaging: Callable[[Stepping], Averaging] | None = None,
    ):
        self.optimizer = optimizer
        self.bucket = bucket
        self.evidence = evidence
        ledger = Ledger(bucket)
        calls = Calls(self._before_step, self._after_step, self._loaded, self._storing)  # which keep this object alive
        partial = PartialStep(optimizer, evidence.layout)
        attachments = Attachments(optimizer, ledger, calls)
        self._stepping = Stepping(bucket, partial, attachments, ledger, probing=not evidence.optimizer)
        self._own_step = OwnStep(self._stepping)
        self._removed = False
        self._stepping.survey()
        if averaging is not None:
            try:
                self._stepping.averaged_by(averaging(self._stepping))
            except BaseException:
                self.remove()
                raise

    @property
    def stepped(self) -> tuple[str, ...]:
        """The names of the parameters that have already taken the step under way."""
        return self._stepping.stepped

    @property
    def clipping(self) -> Clipping | None:
        """How gradients are clipped, or None; `print(release.clipping)` tells what is kept as factors, and why not."""
        return self._stepping.clipping

    @property
    def accumulating(self) -> bool:
        """Whether gradients are kept: those of earlier micro-batches."""
        return self._stepping.accumulating

    @property
    def peak_gradient_bytes(self) -> int:
        """The most bytes of the parameters' gradients that were alive at once, of any step so far."""
        return self._stepping.peak_gradient_bytes

    def remove(self) -> None:
        """Give the plain training loop back; state, schedulers and weights are what they would be without release.

        Raises:
            ReleaseError: in the middle of a step, when some of the parameters have taken it and others have not.
        """
        self._stepping.close()
        self._removed = True

    @contextmanager
    def accumulate(self, into: Literal["momentum"] | None = None) -> Iterator[None]:
        """Within this, gradients are kept and nothing is stepped: for all micro-batches of a step but the last.

        ```python
        with release.accumulate():
            loss(first_half).backward()
        loss(second_half).backward()     # steps, with the sum of both
        optimizer.step()
        ```

        This is exact, and the gradients of all parameters are alive until the last backward frees them.

        Args:
            into: "momentum" adds the gradients to the momentum of SGD at once, for which no memory is needed; equal up
                to rounding. In the first step, which has no momentum yet, fused or dampened SGD keeps them after all.

        Raises:
            NotReleasable: if the optimizer has no momentum to which gradients can be added.
        """
        if into not in (None, "momentum"):
            raise ValueError(f"accumulate(into={into!r}): it must be 'momentum' or omitted.")
        if into and self._removed:
            raise ReleaseError("This release was removed: gradients are kept, as in the ordinary loop.")
        with self._stepping.accumulation(into_momentum=into is not None):
            yield

    def clip(
        self,
        max_norm: float | None,
        norm_type: float = 2.0,
        method: Method = "auto",
        error_if_nonfinite: bool = False,
    ) -> None:
        """Clip the gradients of every step from now on, as `clip_grad_norm_` between backward and step would.

        ```python
        release.clip(1.0)
        loss.backward()      # gradients wait; those of linear layers and embeddings as the two factors they are made of
        optimizer.step()     # finds the norm of all of them, and steps a bucket at a time
        release.grad_norm()  # before clipping
        ```

        Args:
            max_norm: the largest norm of all gradients of the optimizer together; `math.inf` only waits for `step()`,
                which GradScaler needs; None ends clipping.
            norm_type: the order of the norm, `math.inf` for the largest number.
            method: "factored" keeps the loop as it is; equal up to rounding (5e-7). A layer with so many tokens that
                its factors are more than half of its gradient keeps that. "two-pass" has equal bits, takes about twice
                the time of a step, and needs `release.backward(loss)` instead of `loss.backward()`; hooks of the user
                fire in both passes. "auto" is "factored", but for a `release.backward(loss)` after a forward that
                leaves more than half of the gradients dense.
            error_if_nonfinite: raise if the norm is not finite, before any weight moves.

        Raises:
            ReleaseError: in the middle of a step.
            ValueError: if an argument is none of these.
            Unavailable: if this PyTorch lacks something that clipping needs.

        Source: LOMO (arXiv 2306.09782) for two passes.
        """
        require("release of clipped gradients")
        clip(self._stepping, max_norm, norm_type, method, error_if_nonfinite)

    def backward(
        self,
        loss: torch.Tensor,
        *,
        gradient: torch.Tensor | None = None,
        retain_graph: bool = False,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        """Run `loss.backward()`, twice where the gradients are clipped by two passes.

        Args:
            loss: as scaled by `scaler`, if there is one: `release.backward(scaler.scale(loss), scaler=scaler)`.
            gradient: of the loss, where it is not a single number.
            retain_graph: whether the graph can be used once more afterwards.
            scaler: a GradScaler, whose `unscale_` this calls; if a gradient overflows, no weight moves.
        """
        backward(self._stepping, loss, gradient=gradient, retain_graph=retain_graph, scaler=scaler)

    def grad_norm(self) -> torch.Tensor:
        """Return the 2-norm of all gradients of a step, which is what `clip_grad_norm_` returns.

        Between backward and `optimizer.step()` it is that of the step under way, after that of the last one. Where
        gradients are sharded (DTensor), every rank has to call it.

        Raises:
            GradientGone: if the gradients were never there as a whole, or were overwritten before somebody asked.
        """
        if self.clipping is not None and self.clipping.total_norm is not None:
            return self.clipping.total_norm
        return total_norm(list(self._norms_by_key().values()))

    def grad_norms(self) -> dict[str, torch.Tensor]:
        """Return the 2-norm of each parameter's gradient, by the parameter's name; else as `grad_norm`."""
        return {self._stepping.attachments.name(key): norm for key, norm in self._norms_by_key().items()}

    def __repr__(self) -> str:
        kind = type(self.optimizer).__name__
        if self._removed:
            return f"<Release of {kind}, removed>"
        attachments, taken = self._stepping.attachments, len(self._stepping.ledger.stepped)
        if not attachments or (attachments.bytes < self.bucket and not self._stepping.averaging.has_buckets):
            held = f"{size(attachments.bytes)} of gradients fit into one bucket"
            return f"<Release of {kind}: {held}, so nothing is stepped early; bucket=0 steps each parameter by itself>"
        done = f"; {taken} have taken the step under way" if taken else ""
        if self._stepping.averaging.has_buckets:
            return f"<Release of {kind}: steps each bucket that DistributedDataParallel has averaged{done}>"
        when = "one at a time" if self.bucket == 0 else f"{size(self.bucket)} of gradients at a time"
        if self.clipping is not None:
            return f"<Release of {kind}: {_clips(self.clipping, when)}{done}>"
        left = (
            "no parameter is left for optimizer.step()"
            if self.bucket == 0
            else "optimizer.step() steps what is left at the end"
        )
        return (
            f"<Release of {kind}: steps {counted(len(attachments), 'parameter')} inside backward, {when}, and frees "
            f"their gradients; {left}{done}>"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None  # a copy of the optimizer is a plain one

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        return self._own_step.before(args, kwargs)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._own_step.after()

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        self._own_step.loaded()

    def _storing(self, optimizer: torch.optim.Optimizer) -> None:
        self._own_step.storing()

    def _norms_by_key(self) -> dict[int, torch.Tensor]:
        """Return the norms of the step under way, if a gradient has come, else of the last."""
        if self.clipping is not None:
            return self.clipping.norms
        stepping, ledger, last = self._stepping, self._stepping.ledger, self._stepping.norms.last
        parameters = list(stepping.attachments.parameters())
        there = {id(each): each.grad for each in parameters if type(each.grad) not in (type(None), Placeholder)}
        under_way = ledger.under_way
        if not stepping.attachments:
            under_way = any(gradient is not None and not last.keeps(gradient) for gradient in there.values())
        if under_way:
            taken = dict(stepping.norms.now.each())
            left = {key: gradient for key, gradient in there.items() if gradient is not None and key not in taken}
            if left:
                taken.update(zip(left, norms_of(list(left.values())), strict=True))
        else:
            taken = last.each()
        if ledger.absorbed if under_way else not last.whole():
            raise GradientGone(
                "The norms of this step are not known: its gradients went into the momentum one after another, or were "
                "overwritten in place before you asked; in the second case, those of the next steps are known."
            )
        return {id(each): taken[id(each)] for each in parameters if id(each) in taken}


def _clips(clipping: Clipping, when: str) -> str:
    """Say what becomes of gradients that are clipped."""
    bound = clipping.bound.max_norm
    does = f"clips gradients to a norm of {bound:g}" if math.isfinite(bound) else "clips no gradient, but waits"
    if clipping.method == "two-pass":
        return f"{does}; release.backward(loss) runs backward twice, and the second time steps {when}"
    return (
        f"{does}; until optimizer.step(), gradients of linear layers and embeddings are kept as two small factors "
        "(input and output gradient), all others whole"
    )
