"""`watch`: notes taken while a program runs, which make later answers exact."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal

import torch

from backsight.blame import warn_only
from backsight.naming.roots import ours
from backsight.tape import CallLog, Node, announce, announce_lines, is_jit_traced, no_torch_dispatch, no_torch_function
from backsight.tracing._torch import SEES_CALLS
from backsight.tracing.around import Function, around
from backsight.tracing.axes import Aligned, Along, Flattened, Unpaired
from backsight.tracing.births import Births
from backsight.tracing.captures import Baked, Input
from backsight.tracing.exact import Exact
from backsight.tracing.facts import Backward, Change, End, Line, Met, NonFinite, Operation, Part, Severed, Stop
from backsight.tracing.hooks import ModuleHooks, StepHooks
from backsight.tracing.inside import Shape
from backsight.tracing.log import Errors, Log
from backsight.tracing.orders import Disordered
from backsight.tracing.peculiar import Told
from backsight.tracing.ranges import Outside
from backsight.tracing.spots import Copy, Sighting, Write
from backsight.tracing.steps import StepLog
from backsight.tracing.totals import Total
from backsight.tracing.traces import cleaned

Level = Literal["calls", "lines", "exact"]
LEVELS = ("calls", "lines", "exact")

_current: list[Watch] = []


class Watch:
    """Notes of a running program, as a context manager or a decorator; everything is removed at the end.

    It answers for as long as it is held. Where something was not seen, or the level is too low for it, the answer is
    None or empty.

    Attributes:
        calls: the module calls; graphs captured while this object is held get exact modules from it.
        steps: the optimizer steps.
        level: what is really watched.
        notes: what could not be watched, and why; each is also given as a warning, once.
        paused: whether no notes are taken, between `pause()` and `resume()`.
    """

    def __init__(self, model: torch.nn.Module | None = None, *, level: Level = "calls", nonfinite: bool = False):
        if model is not None and not issubclass(type(model), torch.nn.Module):
            raise TypeError(f"watch(model=...) expects a torch.nn.Module or nothing, not {type(model).__name__}.")
        if level not in LEVELS:
            raise ValueError(f'watch(level=...) expects "calls", "lines" or "exact", not {level!r}.')
        self.level: Level = "exact" if nonfinite else level
        self._asked = self.level  # where a place for a tracer is taken, `level` goes down
        self.notes: tuple[str, ...] = ()
        self.calls = CallLog()
        self.steps = StepLog()
        self._log = Log(self._give_up)
        self._model = model
        self._births = Births(self._log.sites, self._operands_of, self._give_up) if nonfinite else None
        self._steps = StepHooks(self.steps, self._guarded, self._borne)
        self._modules = ModuleHooks(self.calls, model, self._borne, all_calls=nonfinite)
        self._parts: list[Any] = []
        self._left: list[Exact] = []
        """Those that another thread has paused, which cannot take them off the thread that they began in."""
        self._used = self._failed = False
        self.paused = False

    def __enter__(self) -> Watch:
        if self._used:
            raise RuntimeError("this watch is running or has ended; make another with backsight.watch().")
        self._used = True
        announce(self.calls)
        if self.level == "exact" and not SEES_CALLS:
            self.level = "lines"
            self._note("lines are watched, not calls: this PyTorch lacks what the exact level needs (backsight doctor)")
        if self.level != "calls":
            announce_lines(self._log)
        self._attend()
        self._steps.start()
        _current.append(self)
        return self

    def _attend(self, *, again: bool = False) -> None:
        """Start what takes notes between optimizer steps; `again`: after a pause."""
        exact = None
        if self.level == "exact":
            exact = Exact(self._log, self._births)
            self._start(exact)
        elif self.level == "lines":
            self._start(_tracer(self._log))
        self._modules.attend(exact, again=again)
        self._steps.attend(self._log, exact)

    def _look_away(self, *, pausing: bool = False) -> None:
        """Stop it again; for a pause only as far as what was compiled allows."""
        self._steps.idle()
        resting = next((part for part in self._parts if pausing and isinstance(part, Exact) and part.rest()), None)
        self._modules.pause(resting)
        if resting is not None:
            return
        for part in reversed(self._parts):
            self._note(part.stop())
            if isinstance(part, Exact) and part.out_of_reach():
                self._left.append(part)
        self._parts.clear()

    def pause(self) -> None:
        """Take no more notes until `resume()`: only optimizer steps are counted, and the program runs as if unwatched.

        What was noted before is still told.
        """
        if not self.paused and self in _current:
            self.paused = True
            self._look_away(pausing=True)

    def resume(self, calls: int | None = None) -> None:
        """Take notes again, in this thread; of at most so many `calls` into PyTorch, if given, at the exact level.

        Before Python 3.12 nothing is noted any more, and `paused` stays, once `torch.compile` has compiled something at
        the exact level: it would have to be compiled anew.

        Raises:
            ValueError: if `calls` is not a positive whole number.
        """
        if calls is not None:
            _check_positive("resume", calls)
        if self.paused and self in _current and not self._parts:
            self.paused = False
            self._log.budget = calls
            self._log.meetings.again()
            self._log.sites.places.clear()
            self._attend(again=True)

    def limit(self, calls: int) -> None:
        """Note only so many more calls into PyTorch, at the exact level.

        Raises:
            ValueError: if `calls` is not a positive whole number.
        """
        _check_positive("limit", calls)
        self._log.budget = calls

    @property
    def spent(self) -> bool:
        """Whether the calls that were to be noted are noted, so that nothing more is until `pause()` and `resume()`."""
        return self._log.budget is not None and self._log.budget <= 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._look_away()
        self._note(next((stays for part in self._left if (stays := part.let_go())), ""))
        self._modules.remove()
        self._steps.stop()
        if error is not None and self.level == "exact":
            cleaned(error)
        _current.remove(self)

    def __call__(self, function: Function) -> Function:
        """Watch each call of `function` with a watch of its own like this one; a generator until it has ended."""

        def again() -> Watch:
            return Watch(self._model, level=self._asked, nonfinite=self._births is not None)

        return around(function, again)

    def line_of(self, node: Node | int, thread: int | None = None) -> Line | None:
        """Return the line that made a node, given as one of a graph or by its sequence number.

        The number counts in `thread`: this one, or the only one that made any, if not given.
        """
        return self._log.line_of(_number(node), self._made_in(node) if thread is None else thread)

    def operation_of(self, node: Node | int, thread: int | None = None) -> Operation | None:
        """Return the operation that made a node, with its operands; None below the exact level."""
        return self._log.operation_of(_number(node), self._made_in(node) if thread is None else thread)

    def _made_in(self, node: Node | int) -> int | None:
        return self._log.made_in(_number(node), node.name) if isinstance(node, Node) else None

    def changes(self, tensor: torch.Tensor | int, since: int | None = None) -> tuple[Change, ...]:
        """Return the changes in place of a tensor's memory, oldest first.

        Args:
            tensor: a tensor, or the `storage` of a `Saved` or `Leaf`.
            since: only what came after the tensor had this version.
        """
        return self._log.changes.told(tensor, since)

    @property
    def backwards(self) -> tuple[Backward, ...]:
        """The latest calls of `backward()` and `torch.autograd.grad()`, oldest first."""
        return self._log.backwards.told()

    def backward_before(self, node: Node | int, thread: int | None = None) -> Backward | None:
        """Return the first backward that began after a node was made; None if there was none."""
        found = self._log.threads.of(number := _number(node), thread)
        return self._log.backwards.before(number, found[0]) if found else None

    def severed(self, tensor: torch.Tensor) -> tuple[Severed, ...]:
        """Return what cut `tensor`, which requires no gradient, off from what did, the nearest first."""
        return self._log.flow.severed(tensor)

    @property
    def departures(self) -> tuple[Severed, ...]:
        """Where tensors that required a gradient were handed to Python: `.item()`, `.tolist()`, `.numpy()`."""
        return tuple(map(self._log.flow.told, self._log.flow.departed()))

    @property
    def nonfinite(self) -> tuple[NonFinite, ...]:
        """The births of NaN and infinities, in order."""
        return tuple(self._births.found.values()) if self._births is not None else ()

    @property
    def lost(self) -> tuple[int, ...]:
        """The backwards, by index, that began from a loss that was not finite; with `nonfinite=True`."""
        return tuple(self._births.lost) if self._births is not None else ()

    def forget_births(self) -> None:
        """Forget the births so far, as those that a gradient scaler has dealt with: only so many are kept."""
        if self._births is not None:
            self._births.forget()

    def _operands_of(self, sequence: int) -> tuple[Line, list[str], int] | None:
        """Return the line of a node, how its operands are written, and its thread."""
        operation = self._log.operation_of(sequence)
        if operation is None:
            return None
        texts = [operation.line.segment, *(each.text for each in operation.operands)]
        return operation.line, texts, operation.thread

    def _start(self, part: Any) -> None:
        """Start a part; where that is not possible, say so and go on with less."""
        refused = part.start()
        if refused:
            self.level = "calls"
            self._note(refused)
        else:
            self._parts.append(part)

    def _note(self, text: str) -> None:
        if text:
            self.notes = (*self.notes, text)
            _warn(f"backsight: {text}")

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Keep a failure of ours from the training, and subclasses and modes of the program from what we compute."""

        def unseen(*given: Any) -> None:
            with no_torch_function(), no_torch_dispatch():
                hook(*given)

        return self._borne(unseen)

    def _borne(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Keep a failure of ours from the training: it is told once, and nothing more is noted.

        The hook itself is to look at no tensor.
        """

        def borne(*given: Any) -> None:
            # torch.compile traces hooks: this line makes them vanish from what it compiles instead of breaking it.
            if torch.compiler.is_compiling() or self._failed:
                return
            try:
                if not is_jit_traced():
                    hook(*given)
            except BaseException as failure:
                self._give_up(ours(failure))

        return borne

    def _give_up(self, failure: BaseException) -> None:
        # The hooks stay until the end: an optimizer iterates over the live dict of its hooks while it calls this one.
        if self._failed:
            return
        self._failed = True
        self.calls.close()
        try:
            text = f"{type(failure).__name__}: {failure}"
        except Exception:  # the failure's text may be a user's, and raise
            text = type(failure).__name__
        _warn(f"backsight: stopped watching: {text}")


def _check_positive(method: str, calls: int) -> None:
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ValueError(
            f"{method}(calls=...) expects a positive whole number, not {calls!r}: to stop watching at once, call "
            "pause()."
        )


def _warn(text: str) -> None:
    warn_only(text, RuntimeWarning)


def _number(node: Node | int) -> int:
    """Return the sequence number; -1, which no node has, for a leaf."""
    if isinstance(node, Node):
        return node.sequence if node.sequence is not None else -1
    return node


def _tracer(log: Log) -> Any:
    if sys.version_info >= (3, 12):
        from backsight.tracing.line_monitor import LineMonitor

        return LineMonitor(log)
    from backsight.tracing.line_trace import LineTrace

    return LineTrace(log)


def watch(model: torch.nn.Module | None = None, *, level: Level = "calls", nonfinite: bool = False) -> Watch:
    """Take notes while the program runs, so that what is asked afterwards is exact.

    ```python
    with backsight.watch(level="lines"):
        loss = criterion(model(x), y)
        print(backsight.graph(loss).nodes[0].source)    # train.py:41

    @backsight.watch(level="exact")
    def train(): ...
    ```

    Weights and results are untouched, and nothing stays behind at the end. Nothing is kept but what graphs that are
    alive may be asked about. Under `torch.compile` all of it vanishes from the compiled code.

    Args:
        model: log only the calls of this module and those inside of it; of every module if not given.
        level: `"calls"` logs module calls and optimizer steps, some microseconds each. `"lines"` adds the line of the
            program that made each node, and each backward: 1 to 6 µs an operation. `"exact"` sees every call into
            PyTorch instead: it adds the expression and the operands, what changes tensors in place, and what cuts a
            gradient off: 7 to 11 µs an operation, or 3 µs on the program's own lines after the first 20,000 calls.
        nonfinite: also look for the births of NaN and infinities, at the exact level.

    Raises:
        TypeError: if `model` is not a module.
        ValueError: if there is no such level.
    """
    return Watch(model, level=level, nonfinite=nonfinite)


def sightings(watch: Watch) -> tuple[Sighting, ...]:
    """Return what calls were given that are looked at closer, at the exact level."""
    return tuple(watch._log.spots.seen.values())


def aligned(watch: Watch) -> list[tuple[Aligned, Line | None, tuple[str, str]]]:
    """Return where the axis of the samples was aligned with another, with the line and the text of both operands."""
    found = []
    for each in watch._log.axes.aligned():
        texts = {operand.position: operand.text for operand in watch._log.sites.operands(each.site)}
        both = texts.get(each.small, ""), texts.get(1 - each.small, "")
        found.append((each, watch._log.sites.line(each.site), both))
    return found


def along(watch: Watch) -> list[tuple[Along, Line | None]]:
    """Return the layers that went along the axis of the samples, each with the line."""
    return [(each, watch._log.sites.line(each.site)) for each in watch._log.axes.along()]


def flattened(watch: Watch) -> list[tuple[Flattened, Line | None, tuple[Line | None, Line | None]]]:
    """Return what was flattened in opposite orders and compared: with that line, and those of scores and target."""
    sites, found = watch._log.sites, watch._log.axes.flattened()
    return [(each, sites.line(each.site), (sites.line(each.sites[0]), sites.line(each.sites[1]))) for each in found]


def unpaired(watch: Watch) -> list[tuple[Unpaired, Line | None]]:
    """Return where a loss takes the rows of two loaders for pairs, which draw each in an order of its own."""
    return [(each, watch._log.sites.line(each.site)) for each in watch._log.axes.unpaired()]


def disordered(watch: Watch) -> list[tuple[Disordered, Line | None, Line | None, Line | None, tuple[str, str]]]:
    """Return where rows in an order were compared with targets in another: with the lines of the comparison, of the
    index, and of what made the order; and how the program wrote the rows and the order at the index."""
    sites, found = watch._log.sites, []
    for each in watch._log.axes.orders.found():
        texts = {operand.position: operand.text for operand in sites.operands(each.taken)}
        both = texts.get(0, ""), texts.get(2, texts.get(1, ""))
        found.append((each, sites.line(each.site), sites.line(each.taken), sites.line(each.made), both))
    return found


def totals(watch: Watch) -> list[tuple[Total, Line | None, Line | None, tuple[str, str]]]:
    """Return where a sum over all samples was added to what each has of its own, and averaged: with that line and the
    one of the sum, and how the program wrote the sum there and what it sums."""
    sites, found = watch._log.sites, []
    for each in watch._log.axes.totals.found():
        texts = {operand.position: operand.text for operand in sites.operands(each.site)}
        of = {operand.position: operand.text for operand in sites.operands(each.summed)}
        both = texts.get(each.position, ""), of.get(0, "")
        found.append((each, sites.line(each.site), sites.line(each.summed), both))
    return found


def drawn_again(watch: Watch) -> list[Line]:
    """Return where each of the first steps drew the same random numbers, though none of them was put back."""
    sites = watch._log.sites
    return [line for site in watch._log.draws.again() if (line := sites.line(site)) is not None]


def stale_inputs(watch: Watch) -> list[tuple[Input, Line]]:
    """Return the names that a captured graph does not see become other tensors, and the line of its backward."""
    log = watch._log
    return [(each, line) for each in log.captures.stale() if (line := log.sites.line(each.site)) is not None]


def outdated_numbers(watch: Watch) -> list[tuple[Baked, Line]]:
    """Return the numbers of optimizers that a captured step does not see change, and the line of the step."""
    log = watch._log
    return [(each, line) for each in log.captures.outdated() if (line := log.sites.line(each.site)) is not None]


def outside(watch: Watch) -> list[tuple[Outside, Line | None, Line | None, str]]:
    """Return the indices on a device that an operation does not take: its line, that of the move, and how the program
    wrote the indices."""
    sites, found = watch._log.sites, []
    for each in watch._log.ranges.told():
        texts = {operand.position: operand.text for operand in sites.operands(each.site)}
        found.append((each, sites.line(each.site), sites.line(each.given.site), texts.get(each.position, "")))
    return found


def repeated_writes(watch: Watch) -> tuple[Write, ...]:
    """Return where items were added to through an index with repeated entries, at the exact level."""
    return tuple(watch._log.spots.lost)


def own_copies(watch: Watch) -> list[Copy]:
    """Return where tensors were copied onto themselves, and never onto others, at the exact level."""
    return [each for each in watch._log.spots.copies if each.own > 1 and not each.others]


def peculiar(watch: Watch) -> list[Told]:
    """Return the calls that do something else than is meant, as what they were given shows, at the exact level."""
    return watch._log.peculiarities.told()


def report_errors(watch: Watch, errors: Errors) -> None:
    """Tell `errors` of what calls into PyTorch raise while a watch sees them: at the exact level."""
    watch._log.errors = errors


def met(watch: Watch, sequences: Sequence[int]) -> dict[int, Met]:
    """Return what met at the operations that made these nodes, by the first node of each that is worth telling."""
    return watch._log.met(sequences)


def whence(watch: Watch, tensor: torch.Tensor) -> list[End]:
    """Return what cut a tensor off, the nearest first, with the leaves that the gradient would have gone to."""
    return [watch._log.ends(cut) for cut in watch._log.flow.cuts(tensor)]


def filled(watch: Watch, leaf: torch.Tensor) -> End | None:
    """Return what has given a leaf the values of a result, with the leaves that this was computed of."""
    cut = watch._log.flow.filled(leaf)
    return watch._log.ends(cut) if cut is not None else None


def ended(watch: Watch, by: Literal["numpy", "item"] = "numpy") -> list[End]:
    """Return where tensors were handed to NumPy, or to Python as numbers.

    For each time, with the leaves that the gradient would have gone to.
    """
    log = watch._log
    cuts = [cut for cut in log.flow.departed() if cut.by == by]
    return [(log.flow.told(cut), part, made) for cut in cuts for part, made in log.meetings.parts.get(cut.site, ())]


def repeated(watch: Watch) -> list[tuple[Severed, list[Part], int]]:
    """Return what was detached more than once, with the first times, and the number of the next node at the latest."""
    return watch._log.repeated()


def shapes_inside(watch: Watch, file: str, first: int, last: int) -> tuple[Shape | None, Shape | None]:
    """Return the shape of the tensor that the function at some lines was given in the latest backward, a hook for one,
    and the shape of what these lines computed; None for what was not seen."""
    return watch._log.inside.shapes(file, first, last)


def find_stops(watch: Watch) -> None:
    """Look at each gradient of the next backward, at the exact level, for where it becomes zero."""
    watch._log.stops.wanted = True


def stops(watch: Watch) -> tuple[Stop, ...]:
    """Return where gradients became zero in the last backward that was looked at, nearest to the loss first."""
    return () if watch._log.stops.wanted else watch._log.stops.found


def inferred(watch: Watch, tensor: torch.Tensor) -> Severed | None:
    """Return the call in inference mode that made a tensor, or what it is a view of; None if none was seen."""
    return watch._log.flow.inferred(tensor)


def finest() -> Level:
    """Return the level that sees most of what this PyTorch lets be seen."""
    return "exact" if SEES_CALLS else "lines"


def is_watched() -> bool:
    """Whether a watch is there, paused or not."""
    return bool(_current)


def current() -> Watch | None:
    """Return the innermost watch that is running and not paused, if any."""
    return next((each for each in reversed(_current) if not each.paused), None)
