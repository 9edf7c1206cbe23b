"""Whether the weights of a training were lost after its first steps, which alone are audited, and since when."""

from __future__ import annotations

import ctypes
import shlex
import sys
import weakref
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.evidence.singular import Singular, Touched, kept_away, may_be_infinite, touched
from backsight.diagnosis.evidence.values import is_finite
from backsight.diagnosis.wording import numbered, shown
from backsight.launch.sign import Sign, Step, key_of
from backsight.naming import requires_grad, search
from backsight.snapshot import groups
from backsight.tape import Living, grad_fn, no_torch_function, sequence_number
from backsight.tape.saved import is_readable
from backsight.tracing import Told
from backsight.tracing.steps import parameters

if TYPE_CHECKING:
    from backsight.launch.audits import Audits

_MOST = 16
"""Optimizers that are remembered, the newest: a program may make one for each of its tasks."""

_SMALL = 2**18
"""Bytes of memory that may outlive a training by it: those of all that a parameter is a view of."""

_READ = 16
"""Values of a parameter that are read at each step: a microsecond. A NaN in one gradient is mostly one in all."""

_NUMBERS: dict[torch.dtype, Any] = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}


class Since(NamedTuple):
    """The step since which weights are NaN, what the program called the first of them, whether the loss of that step is
    known to be finite, and what in it was where a gradient is infinite."""

    number: int
    name: str
    is_loss_finite: bool
    touched: tuple[Touched, ...] = ()


class Lost(Sign):
    """Reads some values of each optimizer's smallest parameter, if it is in the memory of this machine."""

    def __init__(self, audits: Audits) -> None:
        self._audits = audits
        self._small: Living[_Values] = Living()
        self._lost: dict[int, Since] = {}

    @property
    def since(self) -> Since | None:
        """Since when weights are NaN, where it is known."""
        return min(self._lost.values(), key=lambda each: each.number, default=None)

    def doubled(self, step: Step) -> None:
        if step.steps == 1 and (small := _smallest(step.optimizer)) is not None:
            self._small.put(step.key, step.optimizer, _Values(small))

    def each_step(self, step: Step) -> None:
        small = self._small.at(step.key)
        held = small.tensor() if small is not None else None
        if small is None or held is None:
            return
        values = small.read(held)
        if isfinite(sum(values)) or all(value == value for value in values):
            if self._lost:
                self._lost.pop(step.key, None)
        elif step.key not in self._lost:
            with no_torch_function():
                name = next((each.path for each in search([held]).names[0] if "param_groups[" not in each.path), "")
                seen = tuple(touched(self._audits.singular, step.caller()))
            self._lost[step.key] = Since(step.number, name, _is_loss_finite(), seen)


class _Values:
    """Some values of a tensor, read in place, by no operation: a program's profiler would show one in each step."""

    __slots__ = ("_array", "_dtype", "_numel", "_place", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self._place, self._numel, self._dtype = 0, 0, tensor.dtype
        self._array: Any = ()

    def read(self, held: torch.Tensor) -> list[float]:
        """Return values of the tensor; none if it was moved to a device since, or given back."""
        place, numel = held.data_ptr(), held.numel()
        if place != self._place or numel != self._numel or held.dtype is not self._dtype:
            self._place, self._numel, self._dtype = place, numel, held.dtype
            number = _NUMBERS.get(held.dtype) if held.is_cpu and held.is_contiguous() and place else None
            self._array = (number * min(numel, _READ)).from_address(place) if number is not None else ()
        return list(self._array)


def _is_loss_finite() -> bool:
    """Whether the newest scalar with a graph that a variable holds is finite: then its gradient alone was not."""
    loss = newest_loss()
    return loss is not None and is_readable(loss) and isfinite(float(loss.detach()))


def newest_loss() -> torch.Tensor | None:
    """Return the newest scalar with a graph that a variable holds."""
    found = search((), collect=(torch.Tensor,), where=requires_grad).found
    losses = [t for t, _ in found if isinstance(t, torch.Tensor) and t.numel() == 1 and grad_fn(t) is not None]
    return max(losses, key=lambda t: sequence_number(grad_fn(t)), default=None)


class Ending:
    """Looks at the parameters of every optimizer at the end of a program.

    Of an optimizer that is gone by then, as at the end of a function, the values of its smallest parameter are looked
    at: where one is NaN, a step or two later all are.
    """

    def __init__(self) -> None:
        self._optimizers: dict[int, weakref.ref[torch.optim.Optimizer]] = {}
        self._kept: dict[int, torch.Tensor] = {}

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Note an optimizer that makes a step."""
        key = key_of(optimizer)
        known = self._optimizers.get(key)
        if known is not None and known() is optimizer:
            return
        while len(self._optimizers) >= _MOST:
            oldest = next(iter(self._optimizers))
            del self._optimizers[oldest]
            self._kept.pop(oldest, None)
        self._optimizers[key] = weakref.ref(optimizer)
        self._kept.pop(key, None)  # of one that is gone, and whose place in memory this one has
        trained = [p for p in _parameters(optimizer) if p.untyped_storage().nbytes() <= _SMALL]
        if trained:
            self._kept[key] = min(trained, key=torch.Tensor.numel).detach()

    def finding(
        self,
        *,
        audited: bool,
        since: Since | None = None,
        singular: Sequence[Singular] = (),
        hidden: Sequence[Told] = (),
    ) -> Finding | None:
        """Return what was lost; None if nothing was.

        singular: the operations of the losses that were audited, whose gradient may be infinite. audited: whether there
        were audits, which have seen none of it. since: what is known of the step since which it is so. hidden: where
        the program hides what is not finite after it has computed with it.

        Infinities alone may be meant, and are left alone.
        """
        with no_torch_function():
            alive = {key: optimizer for key, ref in self._optimizers.items() if (optimizer := ref()) is not None}
            held = {id(p): p for optimizer in alive.values() for p in _parameters(optimizer)}
            lost = [p for p in held.values() if _is_lost(p)]
            gone = any(_is_lost(values) for key, values in self._kept.items() if key not in alive)
        if not lost and not gone:
            return None
        number, name, finite, seen = since or (None, "", False, ())
        if number is not None and len(seen) == 1:
            return _told_touched(_called(lost, name), seen[0], number)
        if len(hidden) == 1 and not singular:
            return _told_hidden(_called(lost, name), hidden[0], number, finite)
        return _told(_called(lost, name), singular, hidden, audited, number)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    held = [p for group in groups(optimizer) for p in group["params"]]
    return [p for p in held if is_readable(p) and p.numel() and p.layout == torch.strided]


def _smallest(optimizer: torch.optim.Optimizer) -> torch.Tensor | None:
    found = [p for p in parameters(optimizer) if p.device.type == "cpu" and p.dtype in _NUMBERS and is_readable(p)]
    found = [p for p in found if p.layout == torch.strided and p.numel() and p.requires_grad]
    return min(found, key=torch.Tensor.numel, default=None)


def _is_lost(tensor: torch.Tensor) -> bool:
    given_back = tensor.untyped_storage().size() == 0  # as those of sharded parameters
    return not given_back and is_finite(tensor) is False and bool(torch.isnan(tensor).any())


def _called(lost: list[Any], known: str) -> str:
    """Say what holds NaN at the end."""
    name = next((found.path for names in search(lost[:1]).names for found in names), "A weight") if lost else known
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"{name or 'Weights'}{more} {'hold' if more or not name else 'holds'} NaN at the end."


def _told_touched(lost: str, seen: Touched, since: int) -> Finding:
    """Tell of weights that were lost in a step in which a gradient was infinite."""
    op = "the division" if seen.by.op == "div" else seen.by.op
    of = f"a division by {seen.operand}" if seen.by.op == "div" else f"{op} of {seen.operand}"
    return Finding(
        "BS108",
        "warning",
        f"{seen.operand} is {seen.number} in places, where the gradient of {op} is infinite: it makes the weights NaN.",
        (
            shown(
                seen.by.place,
                f"computes {of}: in step {numbered(since)}, {seen.times:,} of {seen.of:,} values of "
                f"{seen.operand} are exactly {seen.number}.",
            ),
            f"{lost} They have been NaN since that step.",
        ),
        kept_away([seen.by]).rstrip(),
        source=str(seen.by.place),
        since=since,
    )


def _told_hidden(title: str, hidden: Told, since: int | None, finite: bool) -> Finding:
    """Tell of weights that were lost where the program hides a NaN from its loss, but not from its gradient."""
    (computed,), checked = hidden.seen.numbers, hidden.of_other.get(0, "")
    fix = "Replace what is not finite in the inputs, with torch.nan_to_num, before you compute with them"
    if not computed and checked:
        fix = f"Keep the mask, and compute with torch.nan_to_num({checked}) in place of {checked}"
    hides = "hides the rest from the loss, but not from backward: there, its gradient is 0 * NaN, which is NaN."
    return Finding(
        "BS108",
        "warning",
        title,
        (
            *((f"The weights have been NaN since step {numbered(since)}.",) if since else ()),
            *(("The loss of that step is finite: only its gradient is not.",) if finite else ()),
            *((shown(hidden.other.place, "checks what is finite."),) if hidden.other is not None else ()),
            shown(hidden.line.place, hides),
        ),
        f"{fix}: around the result, it comes too late.{'' if finite else f' To be sure, run it again: {_command()}.'}",
        source=str(hidden.line.place),
        exact=finite,
        since=since,
    )


def _told(
    title: str, singular: Sequence[Singular], hidden: Sequence[Told], audited: bool, since: int | None
) -> Finding:
    again = "If there is still a NaN, run it again" if len(singular) == 1 and not hidden else "Run it again"
    hides = "hides what is not finite from the loss, but not from backward."
    return Finding(
        "BS108",
        "warning",
        title,
        (
            *((f"The weights have been NaN since step {numbered(since)}.",) if since else ()),
            *(("The losses of the first steps, which were looked at closely, had no NaN in them.",) if audited else ()),
            *(shown(each.place, may_be_infinite(each)) for each in singular),
            *(shown(each.line.place, hides) for each in hidden),
        ),
        f"{kept_away(singular)}{again}: `{_command()}`. It names the line that produces the first NaN.",
        source=str(singular[0].place) if len(singular) == 1 else None,
        exact=len(singular) != 1,
        since=since,
    )


def _command() -> str:
    """Return the command line that looks for NaN in this very program."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    module = getattr(spec, "name", None)
    program = ["-m", module.removesuffix(".__main__"), *sys.argv[1:]] if isinstance(module, str) else sys.argv
    return shlex.join(["backsight", "run", "--nonfinite", *map(str, program)])
