"""What a worker of a DataLoader has computed that requires grad: read from the functions that it runs.

Its frames are in another process, but the dataset and the collate function are here too, with all that they hold.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from backsight.naming.plain import namespace
from backsight.snapshot import survey
from backsight.source import Body, Place, cuts, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, dotted, expressions, is_stored
from backsight.source.edits import OR, on_line, sentence, wrap
from backsight.source.leaf_last import without_gradient
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, failure_of, function_of, is_users, method, owner_of
from backsight.story.handed import handed
from backsight.story.holders import found_around
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.modes import disabled_at
from backsight.story.sections import Section, run_by
from backsight.tape import parameters_in, tensors_in
from backsight.tracing.steps import parameters

_DEEPEST = 10
_SEVERAL = ("list", "tuple", "dict", "zip")


@dataclass(frozen=True)
class Computed:
    """A value that requires grad, and why: `spec`, computed by the module `self.stem`; the tensor `self.samples`.

    mended: the statement with the value detached; empty where that is not plain.
    optimizer: what the program calls an optimizer that holds parameters of the module; empty if none is known.
    is_joined: whether only the joining of samples refused it, which a worker alone does with out=.
    is_made: whether the statement makes a tensor that a dataset of PyTorch's holds; `is_leaf`: whether that is a leaf.
    """

    name: str
    place: Place
    by: str
    mended: str
    optimizer: str = ""
    is_joined: bool = False
    is_made: bool = False
    is_leaf: bool = False

    @property
    def fix(self) -> str:
        """To pass its values, and how what computed it can be trained nevertheless."""
        line = self.place.line
        if self.is_made and self.optimizer and not self.is_leaf:
            return (
                f"{self.optimizer} trains what computes {self.name}, so its graph must reach the loss: let the dataset "
                f"hold what {self.name} is computed from, and compute it on the batch in the training loop."
            )
        if self.is_made and self.optimizer:
            return (
                f"{self.optimizer} trains {self.name}, so its graph must reach the loss: let the dataset return the "
                f"index of a sample, and take {self.name} at the indices of the batch in the training loop. Or pass "
                "num_workers=0 to the DataLoader, which then joins the samples in the training process."
            )
        if not self.by:
            return f"{self._written}." if self.mended else f"Pass its values: {self.name}.detach()."
        if self.optimizer:
            here = (
                " Or pass num_workers=0 to the DataLoader, which then computes the samples in the training process."
                if self.is_joined
                else ""
            )
            return (
                f"{self.optimizer} trains {self.by}, so its graph must reach the loss: on line {line}, return what "
                f"{self.by} is given, and call {self.by} on the batch in the training loop.{here} Detached, {self.by} "
                "would get no gradient."
            )
        values, block = self._written if self.mended else f"Detach what {self.by} returns", "with torch.no_grad():"
        return (
            f"{values}, {OR}or put the line inside `{block}`{wrap(self.place, block)}. That does not train {self.by}: "
            f"to train it, return what it is given, and call {self.by} on the batch in the training loop."
        )

    @property
    def _written(self) -> str:
        return sentence(on_line(self.place, self.mended))

    @property
    def why(self) -> str:
        if self.by:
            return f"computes {self.name or 'it'} with {self.by}, whose parameters require grad."
        return f"{'makes' if self.is_made else 'reads'} {self.name}, which requires grad."


def computed_in_worker(failure: Failure) -> Computed | None:
    """Return what a worker has computed, on the way to the line that raised or else to what the dataset returns."""
    every = [section for run in _functions(failure) for section in run]
    goals, (body, _) = told_of(failure), read_at(failure.told)
    if body is not None:
        inside = [replace(each, goals=goals) for each in every if each.body.node is body.node]
        every = [*inside, *(each for each in every if each.body.node is not body.node)] if inside else []
    found = next((pair for section in every for pair in _requiring(section)), None)
    if found is None:
        return _held(failure)
    computed, module = found
    held = _optimizer_of(failure, parameters_in(module)) if is_module(module) else ""
    return replace(computed, optimizer=held, is_joined="out=..." in failure.message)


def _held(failure: Failure) -> Computed | None:
    """The tensor that a dataset of PyTorch's holds, a TensorDataset, as the program called it where it made it."""
    here = failure_of(failure.error)
    dataset = (_loader(failure) or {}).get("_dataset")
    while (inner := (namespace(dataset) or {}).get("dataset")) is not None:  # of a Subset
        dataset = inner
    values = [dataset] if type(dataset) is list else [*(namespace(dataset) or {}).values()]
    tensors = [each for value in values for each in tensors_in(value) if needs_gradient(each)]
    known = handed(here, tensors[0]) if tensors else None
    place = known.made if known is not None else None
    body, statement = read_at(place)
    if known is None or place is None or body is None or statement is None:
        return None
    leaf = ((call, without_gradient(call)) for call in calls_in(statement))
    new: dict[ast.expr, str] = {call: ast.unparse(plain) for call, plain in leaf if plain is not None}
    value = statement.value if isinstance(statement, ast.Assign) and dotted(statement.targets[0]) else None
    if not tensors[0].is_leaf and value is not None:
        new = {value: f"{simple(body.text(value))}.detach()"}
    mended = rewritten(body, statement, new) if len(new) == 1 else ""
    leaves = (each.tensor() for each in survey(tuple(tensors[:1])).graph.leaves)
    held = _optimizer_of(here, [each for each in leaves if each is not None])
    return Computed(known.name, place, "", mended, held, is_made=True, is_leaf=tensors[0].is_leaf)


def _optimizer_of(failure: Failure, trained: Iterable[torch.Tensor]) -> str:
    """What the program calls an optimizer that holds one of these parameters."""
    held = {id(each) for each in trained}
    known = found_around(failure_of(failure.error).frames, torch.optim.Optimizer)
    return next((name for each, name in known if held & set(map(id, parameters(each)))), "")


def _loader(failure: Failure) -> dict[str, Any] | None:
    """The attributes of the loader whose worker has failed."""
    every = (namespace(each.variables.get("self")) or {} for each in failure_of(failure.error).levels)
    return next((held for held in every if "_dataset" in held and "_collate_fn" in held), None)


def _functions(failure: Failure) -> Iterator[Iterator[Section]]:
    """What a worker runs: the collate function, and the method of the dataset that gives a sample."""
    loader = _loader(failure)
    if loader is None:
        return
    collate, dataset = loader.get("_collate_fn"), loader.get("_dataset")
    if (function := function_of(collate)) is not None:
        yield run_by(function, owner_of(collate), whole=False)
    for _ in range(_DEEPEST):  # a Subset of a Subset
        if is_users(type(dataset)):
            break
        dataset = (namespace(dataset) or {}).get("dataset")
    for name in ("__getitem__", "__getitems__", "__iter__"):
        if (function := method(type(dataset), name)) is not None:
            yield run_by(function, dataset, whole=False)


def told_of(failure: Failure) -> tuple[tuple[str, int], ...]:
    """What the line that raised works on, as it is written there: `x` of `x.numpy()`, else what its calls are given."""
    raised = failure.told
    body, statement = read_at(raised)
    if raised is None or body is None:
        return ()
    calls = list(calls_in(statement))
    methods = [receiver for call in calls if callee(call)[1] == "numpy" and (receiver := callee(call)[0]) is not None]
    return tuple((body.text(each), raised.line) for each in methods or [each for call in calls for each in call.args])


def _requiring(section: Section) -> Iterator[tuple[Computed, object]]:
    """What a function computes with trainable parameters, with the module, or reads of tensors that require grad."""
    every = [cut for goal, line in section.goals for cut in cuts(section.body, goal, line)]
    for call, place in section.calls():
        module = value_of(section, call.func)
        trains = is_module(module) and any(map(needs_gradient, parameters_in(module)))
        statement = statement_at(section.body, *place.position)
        is_cut = any(cut.place == place and section.body.text(call) in cut.expression for cut in every)
        if trains and statement is not None and not is_cut and not disabled_at(section.body, place.line):
            names = sorted(bound(statement))
            name = names[0] if len(names) == 1 else ""
            by, mended = section.body.text(call.func), _detached(section.body, statement, call)
            yield Computed(name, place, by, mended), module
    for goal, line in section.goals:
        for name, ancestor in ancestors(section.body, goal, line).items():
            place = ancestor.read
            value = section.value(name)
            is_cut = any(cut.place == place and name in cut.expression for cut in every)
            if is_tensor(value) and needs_gradient(value) and not is_cut:
                statement = statement_at(section.body, *place.position)
                read = (n for n in expressions(statement) if not is_stored(n))
                nodes = (n for n in read if section.body.text(n) == goal or dotted(n) == name)
                node = next(nodes, None)
                new = {node: f"{simple(section.body.text(node))}.detach()"} if node is not None else {}
                mended = rewritten(section.body, statement, new) if statement is not None and new else ""
                yield Computed(name, place, "", mended), None


def _detached(body: Body, statement: ast.stmt, call: ast.Call) -> str:
    """The statement with what it assigns detached, or with what the call returns."""
    value = statement.value if isinstance(statement, ast.Assign) and dotted(statement.targets[0]) else call
    several = isinstance(value, ast.Call) and value is not call and callee(value)[1] in _SEVERAL
    if several or not isinstance(value, ast.BinOp | ast.Call):
        value = call
    return rewritten(body, statement, {value: f"{simple(body.text(value))}.detach()"})
