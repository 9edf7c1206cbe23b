"""`verify`: record every operation that a function runs, and test the backward of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from backsight.findings import SEVERITIES
from backsight.verification._torch import seed as set_seed
from backsight.verification.check import checked
from backsight.verification.errors import CannotTest
from backsight.verification.inputs import copied, nothing
from backsight.verification.operation import Operation
from backsight.verification.point import Clock, raised
from backsight.verification.progress import progressing
from backsight.verification.recorder import Recorder, recording
from backsight.verification.report import Checked, Skipped, Verification, WrongGradient
from backsight.verification.state import kept, restore


def verify(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    seconds: float = 60.0,
    seed: int = 0,
    progress: bool | None = None,
    **keywords: Any,
) -> Verification:
    """Prove the backward of every operation that a function runs, or say which is wrong, and how.

    ```python
    print(backsight.verify(model, x))               # a module
    print(backsight.verify(MyFunction.apply, x))    # a torch.autograd.Function
    backsight.verify(loss_fn, prediction, target, reduction="sum").raise_if("error")
    ```

    The function runs once, on copies of the inputs, and each operation in it again for the test: along random
    directions u and v, <u, J v> by differences of the forward in double precision must be <Jᵀ u, v> by the backward.
    Nothing of the user's is changed: `.grad`, buffers and random generators are as before.

    Args:
        function: a module, a function, or the `apply` of a `torch.autograd.Function`.
        inputs: its arguments. If no tensor among them requires a gradient, all floating-point ones are taken to.
        seconds: the time after which operations that were not tested yet are skipped, custom Functions being first.
        seed: of the random numbers that the function draws, and of the directions.
        progress: whether to show a progress bar; by default in a terminal, where it takes longer than a second.
        keywords: its keyword arguments.

    Raises:
        NothingToVerify: if no operation has a backward.
        TypeError: if `function` cannot be called, or takes a keyword argument of the name of one of these.
        Exception: what the function itself raises.
    """
    if not callable(function):
        raise TypeError(f"verify() expects a function or a module and its inputs, not {type(function).__name__}.")
    with kept(function), torch.inference_mode(False), torch.enable_grad(), _eager():
        args, kwargs = copied(inputs, keywords)
        set_seed(seed)
        with recording() as recorder:
            result = function(*args, **kwargs)
        try:
            if not recorder.operations:
                raise nothing(function, (inputs, keywords), result)
            return _verification(recorder, Clock(seconds), seed, progress)
        finally:
            for tensor, before in recorder.copies.changed():
                restore(tensor, before)


@dataclass
class _Entry:
    """What became of one operation."""

    checked: Checked | None = None
    skipped: Skipped | None = None
    findings: tuple[WrongGradient, ...] = ()


def _verification(recorder: Recorder, clock: Clock, seed: int, progress: bool | None) -> Verification:
    operations = recorder.operations
    entries: list[_Entry] = [_Entry() for _ in operations]
    generator = torch.Generator().manual_seed(seed)
    with warnings.catch_warnings(), progressing(len(operations), progress) as advance:
        warnings.simplefilter("ignore")  # the user saw the warnings of the forward when it ran
        for k in _order(operations):
            entries[k] = _entry(operations[k], clock, generator)
            advance(operations[k].name)
    findings = _merged([finding for entry in entries for finding in entry.findings])
    return Verification(
        tuple(findings),
        tuple(entry.checked for entry in entries if entry.checked),
        tuple(entry.skipped for entry in entries if entry.skipped),
    )


def _entry(operation: Operation, clock: Clock, generator: torch.Generator) -> _Entry:
    source = None if operation.site is None else str(operation.place)
    try:
        outcome = checked(operation, clock, generator)
    except CannotTest as reason:
        return _Entry(skipped=Skipped(operation.name, str(reason), source))
    except Exception as error:  # the user's code, called again at other values, may raise anything
        return _Entry(skipped=Skipped(operation.name, f"its test raised {raised(error)}", source))
    if outcome is None:
        return _Entry()
    right = not any(finding.severity != "note" for finding in outcome.findings)
    return _Entry(
        Checked(operation.name, right, source, outcome.how) if outcome.judged else None,
        Skipped(operation.name, outcome.unclear, source) if outcome.unclear else None,
        outcome.findings,
    )


def _order(operations: list[Operation]) -> Iterator[int]:
    """Custom Functions first, then one operation of each kind, then the others: time may run out."""
    seen: set[Any] = set()
    ranks = []
    for k, operation in enumerate(operations):
        kind = (operation.name, operation.site)
        ranks.append((0 if operation.custom else 1 if kind not in seen else 2, k))
        seen.add(kind)
    yield from (k for _, k in sorted(ranks))


def _merged(findings: list[WrongGradient]) -> list[WrongGradient]:
    """Make one finding of those that say the same of the same Function called at several lines."""
    found: dict[Any, WrongGradient] = {}
    for finding in findings:
        # The same words; for PyTorch's own operations also the same line, since nothing else names them.
        key = (finding.code, finding.title, finding.backward or finding.calls)
        known = found.get(key)
        if known is None:
            found[key] = finding
        elif not set(finding.calls) <= set(known.calls):
            found[key] = replace(known, calls=(*known.calls, *finding.calls))
    return sorted(found.values(), key=lambda f: SEVERITIES.index(f.severity))


def _eager() -> Any:
    """Compiled functions run as they are written: what they compile to has one backward for everything."""
    return torch.compiler.set_stance("force_eager")
