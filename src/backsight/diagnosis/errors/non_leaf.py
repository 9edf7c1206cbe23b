"""BS206: an optimizer was given a tensor that is computed from others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis._torch import ADD_PARAMETERS
from backsight.diagnosis.errors.leaf_parts import parts_in_groups
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.parametrized import Parametrized, parametrized
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, described, failing, listed, shown
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Place, assignments, only
from backsight.story.failure import Failure
from backsight.story.memory import is_module
from backsight.story.stores import apart, stores
from backsight.tape import Graph, modules_in, registered
from backsight.tracing import Line, current

_LOST = "from an unnamed leaf that requires grad"
MOST = 3
"""How many of the refused tensors are looked at one by one."""


@dataclass(frozen=True, eq=False)
class Refused:
    """A tensor that the optimizer cannot take: its name, the statement that makes it, and the graph behind it."""

    tensor: torch.Tensor
    name: str
    made: Place | None
    rewritten: str | None
    graph: Graph

    @property
    def line(self) -> Line | None:
        """Where a watch saw it computed: in a function that the statement calls, for instance."""
        watch = current()
        return watch.line_of(self.graph.roots[0]) if watch is not None else None

    @property
    def leaves(self) -> list[str]:
        """The leaves that it is computed from and that still have a name."""
        return [leaf.name for leaf in self.graph.leaves if leaf.kind in ("parameter", "variable") and leaf.name]


@explains("BS206", r"can't optimize a non-leaf Tensor")
def non_leaf_in_optimizer(failure: Failure, match: re.Match[str]) -> Finding:
    """Name each tensor that is no leaf, the statement that computes it, and how to make it a leaf."""
    if (of_groups := parts_in_groups(failure)) is not None:
        return of_groups
    tensors = _refused_tensors(failure)
    names = names_of(failure, tensors)
    refused = [_refused(failure, tensor, name) for tensor, name in zip(tensors[:MOST], names, strict=False)]
    if len(tensors) == 1 and (weight := parametrized(failure, refused[0].leaves)) is not None:
        return _parametrized(failure, weight)
    first = next((each.made for each in refused if each.made), None)
    return explanation(
        _title(tensors, [name for name in names if name]),
        tuple(_evidence(failure, refused, len(tensors) - len(refused))),
        _of_buffers(failure, tensors, names) or _fix(refused),
        source=str(first) if first else failure.source,
        exact=bool(refused),
    )


def _parametrized(failure: Failure, weight: Parametrized) -> Finding:
    """The weight of a module is computed whenever it is read."""
    applied, by = weight.applied or (None, "")
    how = f" by {by}()" if by and by != "register_parametrization" else ""
    reading = weight.read[0].place(weight.read[1]) if weight.read else None
    leaves, alone = listed(weight.leaves), len(weight.leaves) == 1
    made = f"a new tensor{how} from {leaves}."
    return explanation(
        f"{weight.name} is a non-leaf tensor, and an optimizer can only train leaves.",
        (
            *((shown(applied, f"parametrizes {weight.name}: it is computed whenever it is read."),) if applied else ()),
            shown(reading, f"reads it, and so computes {made}") if reading else f"To read it computes {made}",
            *failing(failure, "accepts only leaves: tensors that are not computed from others."),
        ),
        f"{weight.fix or f'Pass {leaves} to the optimizer instead'}: {weight.name} is computed from "
        f"{'that leaf' if alone else 'those leaves'}.",
        source=str(reading) if reading else failure.source,
    )


def _title(tensors: list[torch.Tensor], names: list[str]) -> str:
    if not names:
        what = f"A {described(tensors[0])}" if tensors else "A tensor"
        return f"{what} passed to the optimizer is not a leaf; an optimizer can only train leaves."
    many = "is a non-leaf tensor" if len(names) == 1 else "are non-leaf tensors"
    return f"{listed(names, MOST)} {many}, and an optimizer can only train leaves."


def _refused_tensors(failure: Failure) -> list[torch.Tensor]:
    """Every tensor of the group that is no leaf: PyTorch stops at the first."""
    level = next((each for each in failure.levels if each.frame.f_code is ADD_PARAMETERS), None)
    group = level.variables.get("param_group") if level else None
    given = group.get("params", ()) if type(group) is dict else ()
    return [t for t in given if isinstance(t, torch.Tensor) and not t.is_leaf and not t.retains_grad]


def _refused(failure: Failure, tensor: torch.Tensor, name: str) -> Refused:
    graph = survey((tensor,), frames=failure.frames).graph
    origin = made(Held(failure, failure.user, name, tensor)) if name and failure.user else None
    place = origin.place if origin else _put_in(failure, name)
    return Refused(tensor, name, place, origin.rewritten if origin else None, graph)


def _put_in(failure: Failure, name: str) -> Place | None:
    """The only statement that computes what a container holds, above the one that puts it there."""
    container, entries = apart(name)
    store = only(each for each in stores(failure, container) if each.inside) if entries else None
    if store is None:
        return None
    return only(assignments(store.body, store.keeping.value, before=store.place.line + 1)) or store.place


def _evidence(failure: Failure, refused: list[Refused], others: int) -> Iterator[Fact]:
    together = len({(str(each.made), str(each.line), each.graph.roots[0].op, *each.leaves) for each in refused}) == 1
    what, them, to = "it", "it", ""
    if together and len(refused) > 1 and (refused[0].made or refused[0].line):
        what, them, to, refused = "each of them", "them", apart(refused[0].name)[0], refused[:1]
    for each in refused:
        source = f"from {listed(each.leaves, 3)}" if each.leaves else _LOST
        if each.made and each.line and (each.line.file, each.line.line) != (each.made.file, each.made.line):
            yield shown(each.line, f"computes {what} ({each.graph.roots[0].op}) {source}.")
            yield shown(each.made, f"assigns {them} to {to or each.name}.")
        elif at := each.made or (each.line if each.line and str(each.line) != failure.source else None):
            subject = each.name if what == "it" and not each.made else what
            yield shown(at, f"computes {subject or 'it'} ({each.graph.roots[0].op}) {source}.")
        else:
            yield f"{each.name or 'It'} was computed ({each.graph.roots[0].op}) {source}."
    if others:
        yield (
            f"{counted(others, 'more tensor')} of the same group "
            f"{'is not a leaf' if others == 1 else 'are not leaves'} either."
        )
    yield from failing(failure, "accepts only leaves: tensors that are not computed from others.")


def _of_buffers(failure: Failure, tensors: list[torch.Tensor], names: list[str]) -> str:
    """Make leaves of the buffers of a module that a conversion of it has computed anew: it keeps only parameters."""
    level, roots = failure.user, {name.partition(".")[0] for name in names}
    root = roots.pop() if len(roots) == 1 else ""
    module = level.value(root) if level is not None and root else None
    modules = [each for _, each in modules_in(module)] if is_module(module) else []
    held = {id(buffer) for each in modules for buffer in registered(each, "_buffers").values()}
    if level is None or not tensors or not {*map(id, tensors)} <= held:
        return ""
    again = f"for each in [b for b in {root}.buffers() if not b.is_leaf]: each.detach_().requires_grad_()"
    return (
        f"Make leaves of them again: put `{again}` above line {level.line}. Or make parameters of these buffers, with "
        "torch.nn.Parameter: a conversion of the module leaves parameters the leaves that they are."
    )


def _fix(refused: list[Refused]) -> str:
    rewritten = [each for each in refused if each.rewritten]
    if rewritten:
        written = {each.made: f"on line {each.made.line}, write `{each.rewritten}`" for each in rewritten if each.made}
        others = [each.name for each in refused if not each.rewritten and each.name]
        also = f"; do the same for {listed(others, MOST)}" if others else ""
        return f"Compute first and set requires_grad last: {listed([*written.values()], MOST)}{also}."
    leaves = next((each.leaves for each in refused if each.leaves), [])
    owner = next((leaf.owner for each in refused for leaf in each.graph.leaves if leaf.owner), None)
    if leaves and owner:  # a step on those in place would undo what this optimizer learns
        what = refused[0].name.partition("[")[0] or "them"
        return (
            f"{owner} already trains {listed(leaves, 3)}, so do not pass these here. Update {what} out of place, "
            "without an optimizer: gradients from torch.autograd.grad(loss, ..., create_graph=True), then "
            "w - lr * g for each."
        )
    if leaves:
        held = dict.fromkeys(apart(each.name)[0] for each in refused)
        what = (refused[0].name if len(refused) == 1 else listed([*held], MOST)) or "the rest"
        every = list(dict.fromkeys(name for each in refused for name in each.leaves))
        one = len(every) == 1
        return (
            f"Pass the {'leaf itself' if one else 'leaves themselves'}, {listed(every, 3)}, to the optimizer, and "
            f"compute {what} from {'it' if one else 'them'} in every step."
        )
    name = next((each.name for each in refused if each.name), "x")
    leaf = f"{name} = {name}.detach().requires_grad_()"
    last = next((each.made for each in refused if each.made and each.name == name), None)
    how = f"put `{leaf}` below line {last.line}" if last else leaf
    return f"Make it a leaf after the last computation: {how}, or nn.Parameter({name}.detach())."
