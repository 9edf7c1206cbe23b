"""`Walk`: the backward pass in the hand of a person, one node at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import overload

import torch

from backsight.tape import Graph, Leaf, Node
from backsight.tape.queries import NotInGraph, Place, locate, nearest
from backsight.walkthrough._torch import hooks_of
from backsight.walkthrough.engine import Engine, Executed
from backsight.walkthrough.errors import WalkError
from backsight.walkthrough.gradient import gradient_of, number
from backsight.walkthrough.modules import Row, by_module
from backsight.walkthrough.step import Step


class Walk:
    """A backward pass that goes on when it is told to. Make one with `backsight.walk(loss)`.

    ```python
    w = backsight.walk(loss)
    w.step()                    # the first node has run; a Step
    w.until("layer1.0")         # on to the first node of that module, which has run too
    print(w.run())              # to the end; a table of what happened
    w.grad("layer1.0.weight")   # what backward() would have added to .grad, bit for bit
    ```

    `.grad` stays as it is, and the graph stays usable: `loss.backward()` may follow. Hooks on tensors and nodes do not
    run. The walk holds the graph's nodes until it is dropped.
    """

    def __init__(self, graph: Graph, engine: Engine, keep: int | None):
        self.graph = graph
        self.steps: list[Step] = []
        self.stopped = ""
        self._engine = engine
        self._keep = keep
        self._received: dict[int, torch.Tensor] = {}
        self._accumulated = False

    @property
    def next(self) -> Node | None:
        """The node that the next step runs; None at the end."""
        i = self._engine.next
        return None if i is None else self.graph.nodes[i]

    @property
    def done(self) -> bool:
        """Whether every node has run."""
        return self._engine.next is None

    def step(self) -> Step:
        """Run one node, and return what it did.

        Raises:
            WalkError: if every node has run.
            RuntimeError: what the node raises, as in `backward()`: a saved tensor was modified in place, the graph was
                freed. The walk then stands before that node, and a note on the error names it.
        """
        node = self.next
        if node is None:
            raise WalkError(
                f"the walk is over: all {len(self.steps)} steps are done. backsight.walk(loss) starts a new one."
            )
        try:
            executed = self._engine.advance()
        except Exception as error:
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(f"raised in step {len(self.steps)} of the walk, by {node}")
            raise
        self.steps.append(self._told(node, executed))
        return self.steps[-1]

    def until(self, place: Place) -> Step:
        """Run up to `place` and through it, and return its step: what arrives at a layer is its `grad_in`.

        Said again, it goes on to the next node of the module.

        Args:
            place: the path of a module, an operation (`"Softmax"`), or a place in the graph as in `Graph.path`: a
                tensor, the name of a leaf, a node or its index.

        Raises:
            NotInGraph: if the graph has no such place.
            WalkError: if it has been passed, or is not reached.
        """
        wanted = self._matching(place)
        if not any(wanted(node) for node in self._to_come()):
            raise WalkError(f"the walk has already passed {_spelt(place)}: it is at step {len(self.steps)}.")
        while not self.done:
            step = self.step()
            if wanted(step.node):
                return step
        raise WalkError(f"the walk ended before it reached {_spelt(place)}.")

    def run(self, *, nonfinite: bool = False, jump: float | None = None) -> Walk:
        """Run to the end, or until something is wrong; `stopped` then says what, and `steps[-1]` shows it.

        ```python
        w.run(nonfinite=True).stopped       # 'SqrtBackward0 #7 produced a gradient that is not finite'
        w.run(jump=1e3)
        ```

        Args:
            nonfinite: stop after the first node that makes a NaN or an infinity out of finite gradients.
            jump: stop after a node whose gradient out has more than `jump` times the norm of its gradient in.
        """
        self.stopped = ""
        while not self.done and not self.stopped:
            step = self.step()
            if nonfinite and not step.finite and (step.number == 0 or all(g.finite for g in step.grad_in if g)):
                self.stopped = f"{step.node} produced a gradient that is not finite"
            elif jump is not None and step.norm_out > jump * step.norm_in > 0:
                ratio = number(step.norm_out / step.norm_in)
                self.stopped = f"{step.node} made the gradient norm {ratio} times larger"
        return self

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps that are left, running each."""
        while not self.done:
            yield self.step()

    @property
    def gradients(self) -> tuple[torch.Tensor | None, ...]:
        """What each of `graph.leaves` has received: what this pass alone would add to `.grad`; None for nothing."""
        return tuple(self._received.get(leaf.node) for leaf in self.graph.leaves)

    def grad(self, leaf: Place) -> torch.Tensor | None:
        """Return what a leaf has received so far, by its name or the tensor itself; None for nothing yet.

        Raises:
            NotInGraph: if the graph has no such leaf.
        """
        node = self.graph.nodes[locate(self.graph, leaf)]
        if node.leaf is None:
            raise WalkError(
                f"{node} is not a leaf. Its incoming gradient is steps[i].grad_in, where steps[i].node is the node."
            )
        return self._received.get(node.index)

    def accumulate(self) -> None:
        """Add what the leaves have received to their `.grad`, as `loss.backward()` would have done.

        Raises:
            WalkError: if the walk is not over, or if this was done before.
        """
        if not self.done:
            raise WalkError("the walk is not over: run() it to the end, then accumulate() its gradients.")
        if self._accumulated:
            raise WalkError("the gradients of this walk were already added to .grad.")
        self._accumulated = True
        with torch.set_grad_enabled(self._engine.create_graph):
            for i, gradient in self._received.items():
                self._engine.live.nodes[i](gradient)

    def free(self) -> None:
        """Free what the graph saved for backward, as `loss.backward()` does; a walk by itself frees nothing.

        This takes one more pass, by PyTorch's engine, whose gradients are dropped: `.grad` stays as it is, hooks run.
        Afterwards steps can neither be made nor asked for their Jacobians.
        """
        self._engine.free()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of this walk should know."""
        hooked = [leaf.label for leaf in self.graph.leaves if (t := leaf.tensor()) is not None and hooks_of(t)]
        return (f"hooks do not run in a walk; there are some on {', '.join(hooked[:6])}",) if hooked else ()

    def summary(self) -> tuple[Row, ...]:
        """Return what the steps so far did, by module. See `Row`."""
        return by_module(self.steps)

    def text(self, *, width: int | None = None, color: bool = False) -> str:
        """Return the walk as a table: its steps with numbers if there are few, else its modules with norms."""
        from backsight.walkthrough.table import table

        return table(self, width=width, color=color)

    @overload
    def to_html(self, file: None = None, *, picture: str | Callable[[], str] | None = None) -> str: ...

    @overload
    def to_html(self, file: str | os.PathLike[str], *, picture: str | Callable[[], str] | None = None) -> Path: ...

    def to_html(
        self, file: str | os.PathLike[str] | None = None, *, picture: str | Callable[[], str] | None = None
    ) -> str | Path:
        """Write the walk to `file` as one page, its steps beside the graph, and return its path; without one, the page.

        A walk that has made no step is run to its end first.

        ```python
        backsight.walk(loss).to_html("walk.html")
        w.to_html("walk.html", picture=lambda: w.graph.to_svg(max_boxes=60))
        ```

        Args:
            file: where to write it.
            picture: an SVG to stand there instead of the graph's own, or what makes one; "" for none. Elements whose
                attribute `data-node` has the index of a node are lit at its step (`"1 4-7"`: several).

        Raises:
            RuntimeError: what a node raises, if the walk is run here.
        """
        from backsight.walkthrough.page import page

        if not self.steps:
            self.run()
        html = page(self, picture() if callable(picture) else picture)
        if file is None:
            return html
        (path := Path(file)).write_text(html, encoding="utf-8")
        return path

    def _told(self, node: Node, executed: Executed) -> Step:
        keep = self._keep
        arrived = tuple(gradient_of(a.value, keep, parts=a.parts) for a in executed.arrived)
        made = (*executed.made, *[None] * (len(executed.sent) - len(executed.made)))
        sent = tuple(gradient_of(s, keep, made=m) for s, m in zip(executed.sent, made, strict=False))
        if node.leaf is not None and executed.arrived[0].value is not None:
            self._received[node.index] = executed.arrived[0].value
        return Step(len(self.steps), node, arrived, sent, self._engine)

    def _to_come(self) -> Iterator[Node]:
        run = {step.node.index for step in self.steps}
        return (node for node in self.graph.nodes if node.index not in run)

    def _matching(self, place: Place) -> Callable[[Node], bool]:
        """Return what tells whether a node is at `place`."""
        if isinstance(place, str):
            modules = dict.fromkeys(module for module in self.graph.modules if module)
            path = place.removeprefix(f"{self.graph.model}.")
            for wanted in (place, path):
                if any(_within(module, wanted) for module in modules):
                    return lambda node: node.leaf is None and node.module is not None and _within(node.module, wanted)
            if any(place in self._names(node) for node in self.graph.nodes if node.leaf is None):
                return lambda node: node.leaf is None and place in self._names(node)
        try:
            at = locate(self.graph, place)
        except NotInGraph as error:
            if isinstance(place, str) and modules:
                close = nearest(place, _with_those_around(modules))
                raise NotInGraph(f"{error} The nearest modules: {', '.join(close)}.") from None
            raise
        return lambda node: node.index == at

    def _names(self, node: Node) -> tuple[str, ...]:
        """Return what an operation is called: by autograd, and by the class of the module that made nothing else."""
        return node.op, node.name, self.graph.written.get(node.index, "")

    def __len__(self) -> int:
        return len(self.graph)

    def __str__(self) -> str:
        from backsight.walkthrough.table import printed

        return printed(self)

    def __repr__(self) -> str:
        return f"<Walk: {len(self.steps)} of {len(self)} steps>"

    def _repr_html_(self) -> str:
        from backsight.walkthrough.page import framed

        return framed(self)


def _within(module: str, path: str) -> bool:
    """Whether `module` is the module at `path`, or inside of it."""
    return bool(path) and (module == path or module.startswith(f"{path}."))


def _with_those_around(modules: Iterable[str]) -> list[str]:
    """Return these paths and those of the modules around them: `blocks`, `blocks.0`, `blocks.0.mlp`."""
    parts = (module.split(".") for module in modules)
    return list(dict.fromkeys(".".join(each[:k]) for each in parts for k in range(1, len(each) + 1)))


def _spelt(place: Place) -> str:
    return repr(place) if isinstance(place, (str, int)) else str(place) if isinstance(place, (Node, Leaf)) else "it"
