"""The autograd graph, once: behind what the models return in the first recorded step that has one."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from backsight.recording._torch import COMPILED, is_script
from backsight.recording.held import parameters_of
from backsight.recording.module_calls import ModuleCalls
from backsight.recording.nested import tensors_in
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, joined
from backsight.recording.page import Page
from backsight.recording.taps.tap import Tap
from backsight.tape import (
    CallLog,
    Graph,
    TooManyNodes,
    backward_number,
    capture,
    document,
    no_torch_function,
    with_models,
)
from backsight.tape.modules import OUTSIDE

MOST_NODES = 20_000
"""A larger graph is not kept: it takes about 25 µs a node, within the training's first step."""

PATIENCE = 3
"""Recorded steps after which a graph that has not been seen is not waited for any longer."""


@dataclass
class Captured:
    """A graph as plain data; which optimizer owns its leaves is known when the step ends."""

    step: int
    held: dict[str, Any]
    nodes: int
    leaves: int
    seconds: float

    def owned(self, owners: Mapping[str, str]) -> dict[str, Any]:
        """Return the graph, its leaves with their owners: the names of optimizers by those of parameters."""
        for leaf in self.held["leaves"]:
            leaf["owner"] = next((owners[name] for name in leaf["names"] if name in owners), None)
        return self.held


class GraphTap(Tap):
    """Takes the graph behind the outputs of the outermost models, at the first calls with grad mode on.

    The calls of the modules in them are logged as long as that lasts, so that each operation is under the module that
    made it. Nothing is walked here but by the tape, which leaves any graph safe to free, and no tensor is kept: of
    several models those outputs are roots that are alive when the last of them returns.
    """

    name = "graph"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self.captured: Captured | None = None
        self.left_out = ""
        """Why there is none, once that is clear."""
        self._log = CallLog()
        self._roots: dict[str, list[tuple[str, weakref.ref[torch.Tensor]]]] = {}
        self._page: Page | None = None
        self._pages = 0
        self._seconds = 0.0
        self._calls = ModuleCalls(notebook, self.fail, by_keyword=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be found; to be asked when a page has been finished."""
        self._pages += self._calls.attached
        if self.captured is None and not self.left_out and self._pages >= PATIENCE:
            self.left_out = (
                f"no model returned anything with a graph in {PATIENCE} recorded steps: it is compiled as a whole, or "
                "is not called itself"
            )
        return self.broken or bool(self.captured or self.left_out)

    def survey(self) -> None:
        models = {id(reference()): name for name, reference in self.observed.models.items()}
        taken = []
        for _, module in self.observed.modules():
            if not is_script(module):  # whose inner calls are not Python's
                name = models.get(id(module))
                taken.append((module, self._enter, self._leave if name is None else self._leave_model(name)))
        self._calls.choose(taken)

    def install(self) -> None:
        self._calls.attach()

    def detach(self) -> None:
        super().detach()
        self._calls.detach()

    def entered(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._calls.entered(module, args, kwargs)

    def from_root(self, page: Page, name: str, root: torch.Tensor) -> None:
        """Take the graph behind a tensor, where no model has returned one: its own `forward` is not what is called."""
        if self.captured is None and not self.left_out and self._page in (None, page) and root.requires_grad:
            self._page = page
            self._roots[name] = [(name, weakref.ref(root))]
            self._capture(page)

    def _wanted(self, page: Page) -> bool:
        """Whether this call is part of the step that is to be captured; a forward in a backward is a recomputation."""
        open_ = self._page in (None, page) and len(self._roots) < len(self.observed.models)
        return open_ and not (self.left_out or self.broken) and backward_number() == -1 and torch.is_grad_enabled()

    def _enter(self, page: Page, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if self._wanted(page):
            self._log.enter(module)

    def _leave(self, page: Page, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._wanted(page):
            self._log.leave(module)

    def _leave_model(self, name: str) -> Callable[..., None]:
        def leave(page: Page, module: torch.nn.Module, args: Any, output: Any) -> None:
            if not self._wanted(page):
                return
            self._log.leave(module)
            with no_torch_function():
                found = [(path, tensor) for path, tensor in tensors_in(output, "output") if tensor.requires_grad]
            if name not in self._roots and found:
                self._page = page
                self._roots[name] = [(_root_name(name, path), weakref.ref(tensor)) for path, tensor in found]
                self._capture(page)

        return leave

    def _capture(self, page: Page) -> None:
        """Capture what the outputs so far come from, and keep it if it holds more parameters than what is kept."""
        alive = [(name, tensor) for roots in self._roots.values() for name, r in roots if (tensor := r()) is not None]
        began = time.perf_counter()
        try:
            graph = self._graph([tensor for _, tensor in alive], [name for name, _ in alive])
        except TooManyNodes:
            if self.captured is None:
                self.left_out = f"it has more than {MOST_NODES:,} nodes"
            return
        held = document(graph)
        self._seconds += time.perf_counter() - began
        if self.captured is None or len(graph.leaves) > self.captured.leaves:
            self.captured = Captured(page.step, held, len(graph), len(graph.leaves), self._seconds)
        self.captured.seconds = self._seconds

    def _graph(self, tensors: list[torch.Tensor], names: list[str]) -> Graph:
        models = {name: held for name, reference in self.observed.models.items() if (held := reference()) is not None}
        graph = with_models(capture(tensors, most=MOST_NODES), models, self._log)
        spell = _Spelling(next(iter(models)) if len(models) == 1 else "")
        leaves = [
            replace(leaf, name=spell(leaf.name), names=tuple(map(spell, leaf.names)), module=spell.path(leaf.module))
            if leaf.names
            else leaf
            for leaf in graph.leaves
        ]
        modules = tuple(map(spell.path, graph.modules))
        around = tuple(tuple((spell(path), call) for path, call in calls) for calls in graph.around)
        classes = {**graph.classes, **{spell(path): name for path, name in graph.classes.items()}}
        return replace(graph.renamed(leaves, names), modules=modules, around=around, classes=classes)


def owners(observed: Observed, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, str]:
    """Return which optimizer holds a parameter, by the parameter's name."""
    places = observed.parameters()
    found: dict[str, str] = {}
    for number, optimizer in enumerate(optimizers, 1):
        name = f"optimizer {number}" if len(optimizers) > 1 else "optimizer"
        for parameter in parameters_of(optimizer) & places.keys():
            found.setdefault(places[parameter].name, name)
    return found


def _root_name(model: str, path: str) -> str:
    """Return what a root is called: `output`, `logits`, or `generator.output`."""
    own = path.removeprefix("output.") or path
    return f"{model}.{own}" if model else own


@dataclass(frozen=True)
class _Spelling:
    """Spells paths as the rows of a run do: the tape omits the name of a single model."""

    model: str

    def __call__(self, path: str) -> str:
        own = ".".join(part for part in path.split(".") if part != COMPILED) if COMPILED in path else path
        return joined(self.model, own) if own else self.model

    def path(self, path: str | None) -> str | None:
        """Return the path of a module, where there is one."""
        return path if path is None or path == OUTSIDE else self(path)
