"""`Release`: what `release` returns, the one object that a training script holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from backsight.gradient_release._torch import drop_empty_hooks
from backsight.gradient_release.accumulation import MomentumAccumulation
from backsight.gradient_release.bucket import told
from backsight.gradient_release.clipping import Method, backward, clip
from backsight.gradient_release.errors import GradientGone, NotReleasable, ReleaseError
from backsight.gradient_release.norms import norms_of, total_norm
from backsight.gradient_release.own_step import OwnStep
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.remedy import listed
from backsight.surface import require
from backsight.tape import in_backward


class Release(OwnStep):
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
        peak_gradient_bytes: the most bytes of its parameters' gradients that were alive at once, of any step so far.
    """

    def remove(self) -> None:
        """Give the plain training loop back; state, schedulers and weights are what they would be without release.

        Raises:
            ReleaseError: in the middle of a step, when some of the parameters have taken it and others have not.
        """
        if self._book.stepped:
            raise ReleaseError(
                f"remove() in the middle of a step: {listed(self.stepped)} took it inside of the backward pass, and "
                "the others did not. Call optimizer.step() first."
            )
        self._removed = True
        self._book.close()
        if self._ddp is not None:
            self._ddp.close()
        if self._clipping is not None:
            self._clipping.close()
        for handle in self._handles:
            handle.remove()
        slots, self._slots = self._slots, {}
        for _, handle in slots.values():
            handle.remove()
        for parameter in self._parameters():
            if not in_backward():
                drop_empty_hooks(parameter)
            if type(parameter.grad) is Placeholder:
                parameter.grad = None

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
            raise ValueError(f"accumulate(into={into!r}): it is 'momentum', or left out.")
        before = self._book.holding, self._momentum
        if into and self._clipping is not None:
            raise NotReleasable("accumulate(into='momentum') forms no sum whose norm release.clip() could find.")
        if into and self._removed:
            raise ReleaseError("This release was removed: gradients are kept, as in the ordinary loop.")
        if into:
            self._momentum = MomentumAccumulation(self.optimizer)
            self._attach()
        self._book.holding = True
        try:
            yield
        finally:
            self._book.holding, self._momentum = before

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
        clip(self, max_norm, norm_type, method, error_if_nonfinite)

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
        backward(self, loss, gradient=gradient, retain_graph=retain_graph, scaler=scaler)

    def grad_norm(self) -> torch.Tensor:
        """Return the 2-norm of all gradients of a step, which is what `clip_grad_norm_` returns.

        Between backward and `optimizer.step()` it is that of the step under way, after that of the last one. Where
        gradients are sharded (DTensor), every rank has to call it.

        Raises:
            GradientGone: if the gradients were never there as a whole, or were overwritten before somebody asked.
        """
        if self._clipping is not None and self._clipping.total_norm is not None:
            return self._clipping.total_norm
        return total_norm(list(self._norms_by_key().values()))

    def grad_norms(self) -> dict[str, torch.Tensor]:
        """Return the 2-norm of each parameter's gradient, by the parameter's name; else as `grad_norm`."""
        return {self._name(key): norm for key, norm in self._norms_by_key().items()}

    def __repr__(self) -> str:
        kind = type(self.optimizer).__name__
        if self._removed:
            return f"<Release of {kind}, removed>"
        if not self._slots:
            return f"<Release of {kind}: {told(self._bytes)} of gradients fit into a bucket; nothing is stepped early>"
        done = f"; {len(self._book.stepped)} have taken the step under way" if self._book.stepped else ""
        if self._ddp is not None:
            return f"<Release of {kind}: steps each bucket that DistributedDataParallel has averaged{done}>"
        size = "one at a time" if self.bucket == 0 else f"whenever {told(self.bucket)} of them are there"
        return (
            f"<Release of {kind}: backward uses the gradients of {len(self._slots)} parameters for their step, {size}, "
            f"and frees them; optimizer.step() does the rest{done}>"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None  # a copy of the optimizer is a plain one

    def _norms_by_key(self) -> dict[int, torch.Tensor]:
        """Return the norms of the step under way, if a gradient has come, else of the last."""
        if self._clipping is not None:
            return self._clipping.norms
        there = {id(each): each.grad for each in self._parameters() if type(each.grad) not in (type(None), Placeholder)}
        book, last = self._book, self._last()
        if self._slots:
            under_way = bool(book.stepped or book.pending or book.kept or book.absorbed)
        else:
            under_way = any(gradient is not None and not last.keeps(gradient) for gradient in there.values())
        if under_way:
            taken = dict(self._norms.each())
            left = {key: gradient for key, gradient in there.items() if gradient is not None and key not in taken}
            if left:
                taken.update(zip(left, norms_of(list(left.values())), strict=True))
        else:
            taken = last.each()
        if book.absorbed if under_way else not last.whole():
            raise GradientGone(
                "The norms of this step are not known: its gradients went into the momentum one after another, or were "
                "overwritten in place before somebody asked; in the latter case the next ones are taken in time."
            )
        return {id(each): taken[id(each)] for each in self._parameters() if id(each) in taken}
