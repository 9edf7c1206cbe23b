"""One node called a few times, with gradients of which we know what a linear backward makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from backsight.tape import Node
from backsight.tape._torch import forward_class, input_metadata
from backsight.tape.calling import BackwardRaises, call, fitted
from backsight.verification.definition import Definition
from backsight.verification.errors import raised
from backsight.verification.live.operations import definition_of, inputs_of, name_of
from backsight.verification.live.safety import restored
from backsight.verification.probes import Generators, can_be_probed, probe, tolerance

ALPHA, BETA = 2, -3
"""The third gradient is `2 u - 3 v`: not a sum to one, so that a constant that is added shows."""

CLOSELY, ROUGHLY = 1e-3, 8.0
"""How large a result has to be, in units of what came in, to be measured by itself: a custom Function's, PyTorch's."""

MOST_SPARSE = 1 << 22
"""Sparse gradients of so many elements are compared as dense ones; larger ones are not."""

Results = tuple[torch.Tensor | None, ...]


class NotTried(Exception):
    """A node cannot be called with made-up gradients. The message says why."""


@dataclass
class Trial:
    """What the backward of a live node returned for gradients `u`, `v`, `2 u - 3 v`, and for `u` again.

    Results are dense, and None where they cannot be compared; `raw` is that of `u` as it was returned.
    `inputs` names what stands behind each result. `overwritten` holds the outputs whose gradient the backward changed
    in place, `changed` the names of saved tensors that it changed. `refused` says what the engine would say to what
    the backward returned.
    """

    node: Node
    live: Any
    cls: type | None
    inputs: tuple[str, ...]
    u: Results
    raw: Results
    of_u: Results
    of_v: Results
    of_both: Results
    again: Results
    overwritten: tuple[int, ...]
    changed: tuple[str, ...]
    refused: str = ""
    _more: dict[float, Results] = field(default_factory=dict)

    def times(self, factor: float) -> Results:
        """Return what the backward makes of `factor * u`; nothing where it raises at that."""
        if factor not in self._more:
            scaled = [None if g is None else g * factor for g in self.u]
            with restored(self.live):
                try:
                    self._more[factor] = _dense(call(self.live, scaled))
                except Exception:  # of the user's backward: that of u did not raise, and says enough
                    self._more[factor] = (None,) * len(self.inputs)
        return self._more[factor]

    @cached_property
    def definition(self) -> Definition | None:
        """Where the forward and the backward are written; None for PyTorch's own."""
        return None if self.cls is None else definition_of(self.cls)

    @cached_property
    def name(self) -> str:
        """What the operation is called: the class of a custom Function, `mylib::sin` for an operator of a library."""
        return name_of(self.node.name, self.cls)

    @cached_property
    def floor(self) -> float:
        """What a result is measured by at least: cancellation leaves rounding errors of the size of what came in.

        PyTorch's own nodes are linear by their making and have it large; what people write is looked at closely.
        """
        largest = max((float(g.abs().max()) for g in self.u if g is not None and g.numel()), default=0.0) or 1.0
        return largest * (CLOSELY if self.cls is not None else ROUGHLY)

    @cached_property
    def precision(self) -> float:
        """The relative difference that rounding may explain."""
        saved = [saved.dtype for saved in self.node.saved if saved.dtype is not None]
        made = [t.dtype for t in (*self.u, *self.of_u) if t is not None]
        return tolerance([*saved, *made])

    def violation(self, k: int) -> torch.Tensor | None:
        """Return by how much result `k` is not linear, in units of its largest value; None where it cannot be told."""
        parts = self.of_u[k], self.of_v[k], self.of_both[k]
        if any(part is None for part in parts):
            return None
        first, second, both = (part for part in parts if part is not None)
        terms = ALPHA * first, BETA * second, both
        return _relative(terms[0] + terms[1] - both, terms, self.floor)

    def unsteadiness(self, k: int) -> torch.Tensor | None:
        """Return by how much result `k` differs when `u` comes again, in units of its largest value."""
        first, again = self.of_u[k], self.again[k]
        return None if first is None or again is None else _relative(first - again, (first,), self.floor)


def attempt(node: Node, live: Any, generators: Generators) -> Trial:
    """Call a node four times.

    Raises:
        NotTried: if its gradients cannot be made up, or if it raises.
    """
    u, v = _gradients(live, generators), _gradients(live, generators)
    both = [None if a is None or b is None else _mixed(a, b) for a, b in zip(u, v, strict=True)]
    given = _copies(u)
    overwritten: tuple[int, ...] = ()
    refused, changed = "", list[str]()

    def called(gradients: Sequence[torch.Tensor | None]) -> Results:
        with restored(live) as spoilt:
            results = call(live, gradients)
        changed.extend(spoilt)
        return results

    try:
        raw = called(given)
        made = [_dense(raw)]
        overwritten = tuple(k for k, (a, b) in enumerate(zip(given, u, strict=True)) if _differ(a, b))
        made += [_dense(called(gradients)) for gradients in (v, both, _copies(u))]
        refused = _refused(live, raw)
    except BackwardRaises as error:
        raw, refused = (None,) * len(live.next_functions), str(error)
        made = [raw] * 4
    except Exception as error:
        raise NotTried(f"raises {raised(error)}") from None
    cls, inputs = forward_class(type(live)), inputs_of(live)
    of_u, of_v, of_both, again = made
    return Trial(
        node, live, cls, inputs, tuple(u), raw, of_u, of_v, of_both, again, overwritten, tuple(changed), refused
    )


def _copies(gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    return [None if g is None else g.clone() for g in gradients]


def _gradients(live: Any, generators: Generators) -> list[torch.Tensor | None]:
    """Return a random gradient for each output; zeros for those without one, as a custom Function gets them."""
    custom = forward_class(type(live)) is not None
    if any(each.device.type == "meta" for each in input_metadata(live)):
        raise NotTried("its tensors are on the meta device, and have no values")
    made = [_gradient(each, generators, custom) for each in input_metadata(live)]
    # Without a gradient for each output only the engine could call a custom Function, and it runs the hooks.
    if (custom and any(g is None for g in made)) or not any(g is not None and can_be_probed(g.dtype) for g in made):
        raise NotTried("its outputs have no shape or dtype for which gradients can be made up")
    return made


def _gradient(expected: Any, generators: Generators, zeros: bool) -> torch.Tensor | None:
    try:
        shape = tuple(int(size) for size in expected.shape)
    except (RuntimeError, AttributeError):  # nested tensors have none; an output that was never used has nothing
        return None
    if can_be_probed(expected.dtype):
        return probe(shape, expected.dtype, expected.device, generators)
    return torch.zeros(shape, dtype=expected.dtype, device=expected.device) if zeros else None


def _mixed(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ALPHA * u + BETA * v if can_be_probed(u.dtype) else u


def _refused(live: Any, results: Results) -> str:
    """Return what the engine would say to these results; "" if it takes them."""
    for result, (producer, output) in zip(results, live.next_functions, strict=False):
        if result is not None and producer is not None:
            try:
                fitted(result, producer, output)
            except BackwardRaises as error:
                return str(error)
    return ""


def _differ(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is not None and b is not None and not torch.equal(a, b)


def _dense(results: Results) -> Results:
    """Return the results as dense tensors, None for those that cannot be compared."""
    return tuple(None if result is None else _one_dense(result) for result in results)


def _one_dense(result: torch.Tensor) -> torch.Tensor | None:
    if not can_be_probed(result.dtype) or result.is_nested:
        return None
    if result.layout == torch.strided:
        return result
    return result.to_dense() if result.numel() <= MOST_SPARSE else None


def _relative(difference: torch.Tensor, terms: Sequence[torch.Tensor], floor: float) -> torch.Tensor:
    """Return the absolute difference in units of the largest term or `floor`; zero where something is not finite."""
    sizes = [term.detach().abs() for term in terms]
    finite = torch.stack([torch.isfinite(size).all() for size in sizes]).all()
    if not bool(finite):
        known = torch.stack([torch.isfinite(size) for size in sizes]).all(0)
        difference = torch.where(known, difference, torch.zeros_like(difference))
        sizes = [torch.where(known, size, torch.zeros_like(size)) for size in sizes]
    largest = max((float(size.max()) for size in sizes if size.numel()), default=0.0)
    return difference.abs() / max(largest, floor)
