"""One node called a few times, with gradients of which we know what a linear backward makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from backsight.tape import Node, forward_class, input_metadata
from backsight.tape.calling import BackwardRaises, call, fitted
from backsight.tape.modules import module_of
from backsight.verification.definition import Definition
from backsight.verification.errors import raised
from backsight.verification.live.operations import definition_of, inputs_of, name_of
from backsight.verification.live.safety import restored
from backsight.verification.probes import Generators, can_be_probed, probe, tolerance

CLOSELY, ROUGHLY = 1e-3, 8.0
"""How large a result has to be, in units of what came in, to be measured by itself: a custom Function's, PyTorch's."""

MOST_SPARSE = 1 << 22
"""Sparse gradients of so many elements are compared as dense ones; larger ones are not."""

Results = tuple[torch.Tensor | None, ...]


class NotTried(Exception):
    """A node cannot be called with made-up gradients. The message says why."""


@dataclass
class Trial:
    """What the backward of a live node returned for gradients `u`, `v`, `u + v`, and for `u` again.

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
    v: Results
    raw: Results
    of_u: Results
    of_v: Results
    of_both: Results
    again: Results
    overwritten: tuple[int, ...]
    changed: tuple[str, ...]
    refused: str = ""

    def called(self, gradients: Sequence[torch.Tensor | None]) -> Results:
        """Return what the backward makes of other gradients; nothing where it raises at them."""
        with restored(self.live):
            try:
                return _dense(call(self.live, gradients))
            except Exception:  # of the user's backward: that of u did not raise, and says enough
                return (None,) * len(self.inputs)

    @cached_property
    def definition(self) -> Definition | None:
        """Where the forward and the backward are written; None for PyTorch's own."""
        return None if self.cls is None else definition_of(self.cls)

    @cached_property
    def name(self) -> str:
        """What the operation is called: as the program wrote it where that is known, the class of a custom Function,
        `mylib::sin` for an operator of a library."""
        return self.node.graph.written.get(self.node.index) or name_of(self.node.name, self.cls)

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

    @property
    def subject(self) -> str:
        """`The backward of Poly (in encoder.0)`."""
        module = module_of(self.node)
        return f"The backward of {self.name}{f' (in {module})' if module else ''}"

    @cached_property
    def grad_output(self) -> str:
        """What the backward calls the gradient that comes in, `grad_output` where nothing tells."""
        function = self.definition.backward if self.definition is not None else None
        code = function.__code__ if function is not None else None
        if code is None or code.co_argcount < 2:
            return "grad_output"
        came = code.co_varnames[1 : code.co_argcount]
        real = [name for name, g in zip(came, self.u, strict=False) if g is not None and g.dtype.is_floating_point]
        touched = [name for k, name in enumerate(came) if k in self.overwritten]
        return next(iter([*touched, *real, *came]))

    def place_of(self, number: int) -> tuple[int, int] | None:
        """Which argument of a custom forward stands behind a result, and how many there are."""
        if self.cls is None:
            return None
        behind = [k for k, needed in enumerate(self.live.needs_input_grad) if needed]
        edges = [k for k, (producer, _) in enumerate(self.live.next_functions) if producer is not None]
        place = edges.index(number) if number in edges else len(behind)
        return (behind[place], len(self.live.needs_input_grad)) if place < len(behind) else None

    def apart(self, a: torch.Tensor, b: torch.Tensor, beside: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        """Return by how much results differ, in units of the largest among them and those `beside`, or of `floor`.

        Zero where something is not finite.
        """
        known = torch.isfinite(a) & torch.isfinite(b)
        gap = torch.where(known, a - b, torch.zeros_like(a)).abs()
        largest = max(_largest(each) for each in (a, b, *beside))
        return gap / max(largest, self.floor)


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def attempt(node: Node, live: Any, generators: Generators) -> Trial:
    """Call a node four times.

    Raises:
        NotTried: if its gradients cannot be made up, or if it raises.
    """
    u, v = _gradients(live, generators), _gradients(live, generators)
    both = [None if a is None or b is None else _sum(a, b) for a, b in zip(u, v, strict=True)]
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
        node,
        live,
        cls,
        inputs,
        tuple(u),
        tuple(v),
        raw,
        of_u,
        of_v,
        of_both,
        again,
        overwritten,
        tuple(changed),
        refused,
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
        raise NotTried("its outputs have no shape or dtype for which gradients can be generated")
    return made


def _gradient(expected: Any, generators: Generators, zeros: bool) -> torch.Tensor | None:
    try:
        shape = tuple(int(size) for size in expected.shape)
    except (RuntimeError, AttributeError):  # nested tensors have none; an output that was never used has nothing
        return None
    if can_be_probed(expected.dtype):
        return probe(shape, expected.dtype, expected.device, generators)
    return torch.zeros(shape, dtype=expected.dtype, device=expected.device) if zeros else None


def _sum(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return u + v if can_be_probed(u.dtype) else u


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
