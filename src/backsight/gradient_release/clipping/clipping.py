"""`Clipping`: the state of a release whose gradients are clipped to a norm of all, and what it does with each."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import torch

from backsight.gradient_release.attachments import parameter_names
from backsight.gradient_release.clipping.bound import Bound, scale
from backsight.gradient_release.clipping.gradient import FactoredGradient
from backsight.gradient_release.clipping.taps import Tap, Taps
from backsight.gradient_release.errors import ReleaseError
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.scaler import undo_scale
from backsight.text import size

Method = Literal["auto", "two-pass", "factored"]

HOLDING, MEASURING, RELEASING = "holding", "measuring", "releasing"
"""What is done with gradients that arrive: they wait; their norms are taken; they go into the bucket."""


class Releasing(Protocol):
    """What clipping needs of a release."""

    optimizer: torch.optim.Optimizer
    peak_gradient_bytes: int

    def arrived(self, parameter: torch.Tensor) -> None:
        """Put the gradient of a parameter, which was held, into the bucket."""

    @property
    def accumulating(self) -> bool:
        """Whether gradients are those of earlier micro-batches."""


class Clipping:
    """How gradients are clipped, until it is closed; `print(release.clipping)` tells what is kept as factors and why.

    A gradient that arrives is held until `optimizer.step()`, where the norm of all of them is known; then they are
    stepped a bucket at a time. What makes that cheap is that weights of linear layers and embeddings keep two factors
    instead. In two passes, a gradient is measured and freed, and comes a second time.

    Attributes:
        bound: the norm to which gradients are clipped.
        method: how, as given.
    """

    def __init__(self, release: Releasing, bound: Bound, method: Method):
        self.bound = bound
        self.method = method
        self.phase = HOLDING
        self.measure: Callable[[torch.Tensor], None] | None = None
        self.taps: Taps | None = None
        self.kept_bytes = 0
        self._releasing = weakref.ref(release)  # a parameter's table of hooks, which no collector sees, leads here
        self._ours: dict[int, weakref.ref[torch.Tensor]] = {}
        self._norms: dict[int, torch.Tensor] = {}
        self._total = torch.tensor(0.0)
        self._under_way = False
        self._coefficients: list[torch.Tensor] = []
        self._scaled: set[int] = set()
        self._decided = False
        self.after_step()
        if method != "two-pass":
            self.taps = Taps(_among(self._ours))

    @property
    def _release(self) -> Releasing:
        release = self._releasing()
        if release is None:
            raise ReleaseError("The release whose gradients are to be clipped is gone, with its optimizer.")
        return release

    @property
    def norms(self) -> dict[int, torch.Tensor]:
        """The norm of each gradient before clipping, by the `id` of its parameter: of the step under way, or the last.

        A step that was left out, because GradScaler found an overflow, is not one.
        """
        return self._now()[0]

    @property
    def total_norm(self) -> torch.Tensor:
        """The norm of all gradients before clipping, as `clip_grad_norm_` returns it; else as `norms`."""
        return self._now()[1]

    def parameters(self) -> Iterator[torch.Tensor]:
        """Iterate over the optimizer's parameters, in its order."""
        return (each for group in self._release.optimizer.param_groups for each in group["params"])

    def holds(self, parameter: torch.Tensor) -> bool:
        """Whether a gradient that has arrived is not to be put into the bucket now; measures it if that is the phase.

        Raises:
            ReleaseError: if the norm is to be found by a pass of its own, and this is another.
        """
        if self.phase == RELEASING:
            return False
        self._under_way = True
        if self.measure is not None:
            self.measure(parameter)
        elif self.method == "two-pass" and not self._release.accumulating:
            raise ReleaseError(
                "Two-pass clipping runs both passes itself: write release.backward(loss) instead of loss.backward(). "
                "No weight was moved. (release.clip(max_norm, method='factored') works with loss.backward().)"
            )
        return True

    def before_step(self) -> None:
        """Find the norm, and step everything but the last bucket, which the optimizer's own step is left with."""
        if not self._decided:
            self._find_norm()
        self.release_held()

    def decide(
        self, parameters: Sequence[torch.Tensor], norms: Sequence[torch.Tensor], unscale: torch.Tensor | None = None
    ) -> None:
        """Settle what the gradients of this step, whose norms are known, are multiplied by; first by `unscale`."""
        self._total = self.bound.total(norms, parameters)
        self._norms = {id(parameter): norm for parameter, norm in zip(parameters, norms, strict=True)}
        coefficient = self.bound.coefficient(self._total)
        self._coefficients = [each for each in (unscale, coefficient) if each is not None]
        self._decided = True

    def release_held(self) -> None:
        """Put what was held into the bucket: dense gradients first, which are there, then those of factors."""
        waiting = [each for each, _ in self._there() if id(each) not in self._scaled]  # no gradient is held here
        self.phase = RELEASING
        try:
            for parameter in waiting:
                if not _is_factored(parameter.grad) and not _has_graph(parameter.grad):
                    self._release.arrived(parameter)
            for parameter in waiting:
                self._make(parameter)
        finally:
            self.phase = HOLDING

    def _make(self, parameter: torch.Tensor) -> None:
        """Make the gradient of a parameter from its factors, if it is kept so, and put it into the bucket."""
        gradient = parameter.grad
        if not isinstance(gradient, FactoredGradient):
            return
        made = gradient.dense_times(self._coefficients)
        if made is not None:
            self._scaled.add(id(parameter))
        parameter.grad = gradient.dense() if made is None else made
        del gradient, made
        self._release.arrived(parameter)

    def scale(self, parameters: Sequence[torch.Tensor]) -> None:
        """Clip the gradients of parameters that are about to be stepped, each once."""
        fresh = [each for each in parameters if id(each) not in self._scaled]
        gradients = [each.grad for each in fresh if each.grad is not None]
        with torch.no_grad():
            for coefficient in self._coefficients:
                scale(gradients, coefficient)
        self._scaled.update(id(each) for each in fresh)

    @contextmanager
    def with_dense_gradients(self) -> Iterator[None]:
        """Within this, nothing is kept as factors."""
        if self.taps is not None:
            self.taps.passes.factoring = False
        try:
            yield
        finally:
            if self.taps is not None:
                self.taps.passes.factoring = True

    def after_step(self) -> None:
        """Begin the next step."""
        self._decided = self._under_way = False
        self._coefficients = []
        self._scaled = set()
        self._ours.clear()
        self._ours.update((id(each), weakref.ref(each)) for each in self.parameters())

    def close(self) -> None:
        """Leave layers alone; gradients that are there become ordinary ones."""
        if self.taps is not None:
            self.taps.close()
        for parameter in self.parameters():
            if isinstance(parameter.grad, FactoredGradient):
                parameter.grad = parameter.grad.densify()

    def __repr__(self) -> str:
        return f"<Clipping to norm {self.bound.max_norm:g} of order {self.bound.norm_type:g}, {self.method}>"

    def __str__(self) -> str:
        return report(self, self._release.optimizer)

    def _find_norm(self) -> None:
        """Settle the norm of the gradients that have been held."""
        there = self._there()
        if not there:
            return
        gradients = [gradient for _, gradient in there]
        self.kept_bytes = sum(_alive(gradient) for gradient in gradients)
        self._release.peak_gradient_bytes = max(self._release.peak_gradient_bytes, self.kept_bytes)
        undo_scale(self._release.optimizer, gradients)
        self.decide([parameter for parameter, _ in there], self.bound.norms(gradients))

    def _there(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the parameters that have a gradient that was not used yet, each with it."""
        with_gradient = ((each, each.grad) for each in self.parameters())
        return [(each, gradient) for each, gradient in with_gradient if gradient is not None and not _is_gone(gradient)]

    def _now(self) -> tuple[dict[int, torch.Tensor], torch.Tensor]:
        """Return the norms, and that of all, of the step under way, if a gradient has come, else of the last."""
        there = [] if self._decided else self._there()
        if not self._under_way and not any(_is_factored(gradient) for _, gradient in there):
            return self._norms, self._total
        if self._decided or not there:
            return self._norms, self._total
        norms = self.bound.norms([gradient for _, gradient in there])
        parameters = [parameter for parameter, _ in there]
        return {id(p): norm for p, norm in zip(parameters, norms, strict=True)}, self.bound.total(norms, parameters)


def _among(ours: dict[int, weakref.ref[torch.Tensor]]) -> Callable[[torch.Tensor], bool]:
    """Return what tells these weights from others, for a hook that must not hold its `Clipping`."""

    def is_ours(weight: torch.Tensor) -> bool:
        found = ours.get(id(weight))
        return found is not None and found() is weight

    return is_ours


def _is_factored(gradient: torch.Tensor | None) -> bool:
    return type(gradient) is FactoredGradient


def _has_graph(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and gradient.requires_grad


def _is_gone(gradient: torch.Tensor) -> bool:
    return type(gradient) is Placeholder


def _alive(gradient: torch.Tensor) -> int:
    """Return the bytes of a gradient, or of its factors."""
    if isinstance(gradient, FactoredGradient) and gradient.factors:
        return sum(factor.nbytes for factor in gradient.factors)
    return gradient.numel() * gradient.element_size()


def report(clipping: Any, optimizer: torch.optim.Optimizer) -> str:
    """Return a line for each matrix, whether it is kept as factors or why not, and one for all vectors."""
    taps: Mapping[int, Tap] = {} if clipping.taps is None else clipping.taps.last
    names = parameter_names(optimizer)
    trained = [each for each in clipping.parameters() if each.requires_grad]
    matrices = [each for each in trained if each.dim() > 1]
    kept = [each for each in matrices if id(each) in taps and not taps[id(each)].reason]
    lines = [_headline(clipping, trained, kept)]
    if clipping.taps is not None and _is_known(clipping):
        lines += _columns([_row(names[id(each)], each, taps.get(id(each))) for each in matrices])
        vectors = [each for each in trained if each.dim() <= 1]
        if vectors:
            together = size(sum(each.numel() * each.element_size() for each in vectors))
            lines.append(f"dense     {len(vectors)} vectors, {together}: smaller than any factors")
    return "\n".join(lines)


def _headline(clipping: Any, trained: list[torch.Tensor], kept: list[torch.Tensor]) -> str:
    whole = sum(each.numel() * each.element_size() for each in trained)
    bound = f"Clipping to norm {clipping.bound.max_norm:g} (order {clipping.bound.norm_type:g}), {clipping.method}"
    if clipping.taps is None:
        return f"{bound}: release.backward(loss) runs backward twice"
    if not _is_known(clipping):
        return f"{bound}: what is kept as factors is not known before the first step"
    now = f"{bound}: {len(kept)} of {len(trained)} gradients are kept as factors"
    held = clipping.kept_bytes
    return f"{now}; the last step held {size(held)} for {size(whole)} of gradients" if held else now


def _is_known(clipping: Any) -> bool:
    """Whether layers were called, or a step was taken without any."""
    return bool(clipping.taps.last or clipping.kept_bytes)


def _row(name: str, weight: torch.Tensor, tap: Tap | None) -> tuple[str, str, str, str]:
    if tap is None:
        return "dense", name, str(tuple(weight.shape)), "no linear layer or embedding was called with it"
    if tap.reason:
        return "dense", name, tap.layer, tap.reason
    whole = size(weight.numel() * weight.element_size())
    return "factored", name, tap.layer, f"{tap.tokens:,} tokens: {size(tap.factor_bytes)} for {whole}"


def _columns(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return [
        "  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].ljust(widths[2]), row[3]]) for row in rows
    ]
