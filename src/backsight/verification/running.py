"""`tested`: run a function once, and test each operation that it ran, with a progress bar if that takes long."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils.checkpoint import CheckpointFunction

from backsight.findings import SEVERITIES
from backsight.quiet import quietly
from backsight.source import Place
from backsight.surface import require
from backsight.verification._torch import seed as set_seed
from backsight.verification.check import Outcome
from backsight.verification.errors import CannotTest, raised
from backsight.verification.inputs import copied, nothing, whole
from backsight.verification.operation import Kept, Operation
from backsight.verification.point import Clock
from backsight.verification.recorder import Recorder, Unkept, recording
from backsight.verification.report import Checked, Skipped, Verification, WrongGradient
from backsight.verification.state import kept, restore

Check: TypeAlias = Callable[[Operation, Clock, torch.Generator], Outcome | None]
"""Tests one operation; None where there is nothing to test, CannotTest where it cannot be."""


SECONDS, SEED = 60.0, 0
"""What holds where no such option is given."""


class Options(NamedTuple):
    """What `by`, a function of ours that verifies, was asked beside the function and its inputs; None where not."""

    by: str
    seconds: float | None = None
    seed: int | None = None
    progress: bool | None = None
    surrogates: Iterable[type] | None = None

    def refuse(self, function: Callable[..., Any]) -> None:
        """Raise TypeError for what cannot be called, and for options whose names are parameters of the function."""
        if not callable(function):
            raise TypeError(
                f"{self.by}() expects a function or a module and its inputs, not {type(function).__name__}."
            )
        given = {name for name in self._fields[1:] if getattr(self, name) is not None}
        if clash := sorted(given & _parameters(function)) if given else []:
            raise TypeError(
                f"{self.by}({clash[0]}=...) is an option of {self.by} and also a parameter of the function: wrap the "
                f"function, as in {self.by}(lambda x: f(x, {clash[0]}=...), x)."
            )


def tested(
    check: Check,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    keywords: dict[str, Any],
    options: Options,
    claim: str = "backward",
) -> Verification:
    """Run `function` on copies of its inputs, and `check` every operation in it.

    Raises:
        NothingToVerify: if no operation has a backward.
        TypeError: if the function or the options are refused.
        Unavailable: if this PyTorch lacks something that is needed for it.
    """
    require("verify")
    options.refuse(function)
    if isinstance(function, type) and issubclass(function, torch.autograd.Function):
        function = function.apply  # what is meant by the class
    seconds = SECONDS if options.seconds is None else options.seconds
    seed = SEED if options.seed is None else options.seed
    with kept(function), torch.inference_mode(False), torch.enable_grad(), _eager():
        args, kwargs = copied(inputs, keywords)
        set_seed(seed)
        with recording() as recorder, quietly(module=r"backsight\."):  # PyTorch's, of the line that calls an operator
            result = function(*args, **kwargs)
        try:
            operations = opened(recorder)
            if recorder.unseen:
                operations.append(whole(function, inputs, keywords))
            if not operations and not recorder.failed:
                raise nothing(options.by, function, (inputs, keywords), result)
            report = _verification(check, operations, Clock(seconds), seed, options.progress, claim)
            failed = recorder.failed.values()
            unkept = tuple(Skipped(each.name, each.why, own=each.own) for each in failed)
            return replace(report, skipped=(*report.skipped, *unkept))
        finally:
            for tensor, before in recorder.copies.leaves():
                restore(tensor, before)


def _parameters(function: Callable[..., Any]) -> set[str]:
    called: Any = getattr(function, "forward", function)
    try:
        return set(inspect.signature(called).parameters)
    except (TypeError, ValueError):  # builtins have none
        return set()


@dataclass
class _Entry:
    """What became of one operation."""

    checked: Checked | None = None
    skipped: Skipped | None = None
    findings: tuple[WrongGradient, ...] = ()


_APART = 1_905_141_103
"""What is drawn here is not to be what the program has drawn: with `torch.manual_seed(0)` and `torch.randn` its inputs
would be their own grad_output, to which the gradients of whatever normalizes are at right angles."""


def _verification(
    check: Check, operations: list[Operation], clock: Clock, seed: int, progress: bool | None, claim: str
) -> Verification:
    entries: list[_Entry] = [_Entry() for _ in operations]
    generator = torch.Generator().manual_seed(_APART + seed)
    # The user saw the warnings of the forward when it ran.
    with quietly(), progressing(len(operations), progress) as advance:
        for k in _order(operations):
            if operations[k].differentiates and (found := [f for each in entries for f in each.findings]):
                # What is wrong in it is known: the function as a whole can only be wrong, too.
                why = "a surrogate in it is not the derivative" if _right(found) else "an operation in it is wrong"
                entries[k] = _Entry(skipped=Skipped(operations[k].name, why))
                continue
            entries[k] = _entry(check, operations[k], clock, generator)
            advance(operations[k].name)
    findings = _merged([finding for entry in entries for finding in entry.findings])
    return Verification(
        tuple(findings),
        tuple(entry.checked for entry in entries if entry.checked),
        tuple(entry.skipped for entry in entries if entry.skipped),
        claim=claim,
    )


def _entry(check: Check, operation: Operation, clock: Clock, generator: torch.Generator) -> _Entry:
    source = None if operation.site is None else _line(*operation.site[:2])
    try:
        outcome = check(operation, clock, generator)
    except CannotTest as reason:
        return _Entry(skipped=Skipped(operation.name, str(reason), source, operation.own))
    except Exception as error:  # the user's code, called again at other values, may raise anything
        return _Entry(skipped=Skipped(operation.name, f"its test raised {raised(error)}", source, operation.own))
    if outcome is None:
        return _Entry()
    return _Entry(
        Checked(operation.name, _right(outcome.findings), source, outcome.how) if outcome.judged else None,
        Skipped(operation.name, outcome.unclear, source, operation.own) if outcome.unclear else None,
        outcome.findings,
    )


def _right(findings: Iterable[WrongGradient]) -> bool:
    return all(finding.severity == "note" for finding in findings)


@lru_cache(maxsize=1024)  # a path relative to the working directory costs more than the test of a small operation
def _line(file: str, number: int) -> str:
    return str(Place(file, number, ""))


def _order(operations: list[Operation]) -> Iterator[int]:
    """Custom Functions first, then one operation of each kind, then the others: time may run out."""
    seen: set[Any] = set()
    ranks = []
    for k, operation in enumerate(operations):
        kind = (operation.name, operation.site)
        ranks.append((0 if operation.definition else 1 if kind not in seen else 2, k))
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
    """Compiled functions run as they are written: what they compile to has one backward for everything.

    Where torch._dynamo was never imported nothing is compiled, and its import takes a second.
    """
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def opened(recorder: Recorder) -> list[Operation]:
    """Return the operations of a recorder, with those that a checkpoint runs in place of the checkpoint.

    Each runs once more, with gradients, as in its backward.
    """
    for operation in (opening := recorder.operations):  # what a checkpoint runs is added: it may be a checkpoint too
        if operation.custom is CheckpointFunction:
            before = len(opening)
            function, arguments = _given(operation)
            try:
                with recording(recorder):
                    function(*arguments)
            except Exception as error:  # of the program
                recorder.failed[operation.name] = Unkept(operation.name, f"rerun, it raises {raised(error)}", True)
            if len(opening) == before and not recorder.unseen:
                why = "the function it runs has no backward"
                recorder.failed.setdefault(operation.name, Unkept(operation.name, why, own=True))
    return [each for each in opening if each.custom is not CheckpointFunction]


def _given(checkpoint: Operation) -> tuple[Callable[..., Any], list[Any]]:
    """Return the function that a checkpoint runs, and copies of what it runs it with: no leaves, as in its forward."""
    function, _, *arguments = checkpoint.arguments  # the second says whether to keep the state of the generators
    return function, [
        each.value.clone().requires_grad_(each.wanted).clone() if type(each) is Kept else each for each in arguments
    ]


PATIENCE = 1.0
"""Seconds without a bar."""


@contextmanager
def progressing(total: int, wanted: bool | None) -> Iterator[Callable[[str], None]]:
    """Yield a function to call when one of `total` things is done, with its name.

    The bar stands on stderr and is gone at the end. By default it is shown in a terminal only.
    """
    if wanted is None:
        wanted = sys.stderr.isatty()
    if not wanted:
        yield lambda name: None
        return
    from backsight.text.console import Console
    from backsight.text.rich import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("verifying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
    )
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=total)
    began, shown = time.monotonic(), False

    def advance(name: str) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > PATIENCE:
            bar.start()
            shown = True
        bar.update(task, advance=1, description=name)

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
