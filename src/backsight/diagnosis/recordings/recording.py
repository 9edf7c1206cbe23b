"""The rules for recordings by their codes, and what they look at: the modules of a run, and the rows of its tensors."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.rows import Rows, read
from backsight.diagnosis.registry import Rules
from backsight.runs import DamagedRun, Run, Tensor

Progress = Callable[[int, int], None]
"""Called with how many tensors have been read, and of how many."""


@dataclass(frozen=True)
class Module:
    """A module as the run describes it.

    root: the name of the model that it is part of.
    trains: whether each of its own parameters requires a gradient, by the name of the parameter.
    """

    name: str
    type: str
    root: str
    is_leaf: bool
    trains: Mapping[str, bool]

    @property
    def label(self) -> str:
        """`features.3 (ReLU)`; the model itself goes by its class."""
        return f"{self.name} ({self.type})" if self.name else self.type


_UNKNOWN = Module("", "a module", "", True, {})


class Recording:
    """A run with its modules in their order, and the rows of its tensors, read when a rule first asks for them.

    `found` is what `backsight run` found while it was recorded.
    """

    def __init__(self, run: Run, progress: Progress = lambda read, of: None, found: Sequence[Finding] = ()):
        self.run = run
        self.found = found
        self._rows: dict[str, dict[str, Rows]] = {}
        self._progress = progress
        self._read = 0

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        return self.run.steps

    @cached_property
    def modules(self) -> dict[str, Module]:
        return modules_of(self.run)

    @cached_property
    def order(self) -> dict[str, int]:
        """The place in the forward pass of each module that was seen there."""
        return order_of(self.run)

    @property
    def graph(self) -> Any:
        """The autograd graph of the run; None where it has none that can be read."""
        try:
            return self.run.graph
        except DamagedRun:
            return None

    @cached_property
    def kinds(self) -> dict[str, list[Tensor]]:
        found: dict[str, list[Tensor]] = {}
        for tensor in self.run.tensors:
            found.setdefault(tensor.kind, []).append(tensor)
        return found

    def rows(self, kind: str) -> dict[str, Rows]:
        """Return the rows of all tensors of a kind, by name."""
        if kind not in self._rows:
            tensors = self.kinds.get(kind, [])
            found = {}
            for tensor, rows in read(self.run, tensors, len(self.steps)):
                self._read += 1
                self._progress(self._read, len(self.run.tensors))
                if rows is not None:
                    found[tensor.name] = rows
            self._rows[kind] = found
        return self._rows[kind]

    def module(self, rows: Rows) -> Module:
        """Return the module that a tensor belongs to."""
        return self.modules.get(rows.tensor.module or "", _UNKNOWN)

    def place(self, rows: Rows) -> int:
        """Return where in the forward pass the module of a tensor comes; those that were not seen there come last."""
        return self.order.get(rows.tensor.module or "", len(self.order))

    def inputs(self, module: Module) -> list[Rows]:
        """Return what a module was given in training that is fractional: no indices, and no masks of bits."""
        return [rows for rows in self.rows("input").values() if rows.tensor.module == module.name and rows.is_float]

    def outputs(self, *, around: bool = False) -> Iterator[tuple[Module, Rows]]:
        """Yield what innermost modules, or those `around` them too, returned, in order; no single numbers."""
        held = (rows for rows in self.rows("output").values() if rows.is_float and rows["count"].max() > 1)
        for rows in sorted(held, key=self.place):
            module = self.modules.get(rows.tensor.module or "")
            if module is not None and (around or module.is_leaf):
                yield module, rows


RULES: Rules[Recording] = Rules()

rule = RULES.enter


def modules_of(run: Run) -> dict[str, Module]:
    """Return the modules by name, outer ones first."""
    found: dict[str, Module] = {}
    stack = [(branch, branch["name"]) for branch in reversed(run.tree or [])]
    while stack:
        branch, root = stack.pop()
        if "same_as" not in branch:
            found[branch["name"]] = _module(branch, root)
            stack.extend((child, root) for child in reversed(branch["children"]))
    return found


def order_of(run: Run) -> dict[str, int]:
    """Return the place of each module in the last forward pass that was recorded; empty if modules were not tapped."""
    orders = [event.details.get("modules") for event in run.events if event.event == "order"]
    last = orders[-1] if orders and type(orders[-1]) is list else ()
    whole = (each for each in last if type(each) is list and [type(part) for part in each] == [str, str])
    entered = (name for what, name in whole if what == "enter")
    return {name: k for k, name in enumerate(dict.fromkeys(entered))}


def _module(branch: dict[str, Any], root: str) -> Module:
    name = branch["name"]
    prefix = f"{name}." if name else ""
    trains = {prefix + parameter["name"]: bool(parameter["requires_grad"]) for parameter in branch["parameters"]}
    return Module(name, branch["type"], root, not branch["children"], trains)


# The command that runs the program of a recording again.


_LONGEST = 160
"""A command of more characters says less than its options do."""

_NO_PROGRAM = ("ipykernel_launcher", "colab_kernel_launcher")


def run_again(run: Run, *options: str) -> str:
    """Return the whole command if the recording tells what was run, as one process; else its beginning."""
    ours = ("backsight", "run", *options)
    held = run.environment
    command, given = held.get("command"), held.get("arguments")
    program = _program(command, given) if run.world == 1 else None
    if program is None:
        return " ".join(ours)
    whole = shlex.join([*ours, *program])
    return whole if len(whole) <= _LONGEST and whole.isprintable() else " ".join(ours)


def _program(command: object, given: object) -> list[str] | None:
    """Return the script, or -m and the module, and its arguments, by how Python was started."""
    if not isinstance(command, list) or not isinstance(given, list):
        return None
    words, arguments = [str(each) for each in command], [str(each) for each in given]
    started = words[: len(words) - len(arguments)]
    if [*started, *arguments] != words or len(started) < 2:
        return None  # the program has changed sys.argv
    *before, name = started
    if before[-1] == "-m":
        return None if name in _NO_PROGRAM else ["-m", name, *arguments]
    return [name, *arguments] if name.endswith(".py") else None
