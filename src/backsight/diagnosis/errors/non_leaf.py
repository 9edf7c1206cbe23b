"""BS206: an optimizer was given a tensor that is computed from others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from backsight.diagnosis._torch import ADD_PARAMETERS
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, described, failing, if_known, listed, shown
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Body, Place, assignments, backward_roots, only, statements_of
from backsight.source.ancestry import ancestors
from backsight.source.body import callee, calls_in, dotted, expressions, functions, last_name, read_at, statements
from backsight.source.edits import OR, on_line, on_line_with, put, put_at, sentence, without_marks
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.handed import handed
from backsight.story.memory import base_of, is_module, is_tensor
from backsight.story.sections import Section, called_by, section_of
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
    what = f"A {described(tensors[0])}" if tensors else "A tensor"
    title = f"{what} passed to the optimizer is not a leaf; an optimizer can only train leaves."
    if known := [name for name in names if name]:
        many = "is a non-leaf tensor" if len(known) == 1 else "are non-leaf tensors"
        title = f"{listed(known, MOST)} {many}, and an optimizer can only train leaves."
    return explanation(
        title,
        _evidence(failure, refused, len(tensors) - len(refused)),
        _of_buffers(failure, tensors, names) or _fix(failure, refused),
        source=next((each.made for each in refused if each.made), None) or failure.source,
        exact=bool(refused),
    )


def _parametrized(failure: Failure, weight: Parametrized) -> Finding:
    """The weight of a module is computed whenever it is read."""
    reading, leaves = weight.read[0].place(weight.read[1]) if weight.read else None, listed(weight.leaves)
    made, those = f"a new tensor from {leaves}.", "that leaf" if len(weight.leaves) == 1 else "those leaves"
    return explanation(
        f"{weight.name} is a non-leaf tensor, and an optimizer can only train leaves.",
        (
            shown(reading, f"reads it, and so computes {made}") if reading else f"To read it computes {made}",
            *failing(failure, "accepts only leaves: tensors that are not computed from others."),
        ),
        f"{weight.fix or f'Pass {leaves} to the optimizer instead'}: {weight.name} is computed from {those}.",
        source=reading or failure.source,
    )


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
        op = each.graph.roots[0].op.replace("ToCopy", "a conversion")
        if each.made and each.line and (each.line.file, each.line.line) != (each.made.file, each.made.line):
            yield shown(each.line, f"computes {what} ({op}) {source}.")
            yield shown(each.made, f"assigns {them} to {to or each.name}.")
        elif at := each.made or (each.line if each.line and str(each.line) != failure.source else None):
            subject = each.name if what == "it" and not each.made else what
            yield shown(at, f"computes {subject or 'it'} ({op}) {source}.")
        else:
            yield f"{each.name or 'It'} was computed ({op}) {source}."
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
        f"Make leaves of them again: {put_at(again, 'above', level.place)}. {OR}Or "
        "make parameters of these buffers, with torch.nn.Parameter: a conversion of the module leaves parameters the "
        "leaves that they are."
    )


def _fix(failure: Failure, refused: list[Refused]) -> str:
    if written := {each.made: on_line(each.made, each.rewritten) for each in refused if each.rewritten and each.made}:
        others = [each.name for each in refused if not each.rewritten and each.name]
        also, how = f"; do the same for {listed(others, MOST)}" if others else "", listed([*written.values()], MOST)
        return f"Compute first and set requires_grad last: {without_marks(how) if also else how}{also}."
    leaves = next((each.leaves for each in refused if each.leaves), [])
    owner = next((leaf.owner for each in refused for leaf in each.graph.leaves if leaf.owner), None)
    if leaves and owner:  # a step on those in place would undo what this optimizer learns
        what = refused[0].name.partition("[")[0] or "them"
        return (
            f"{owner} already trains {listed(leaves, 3)}, so do not pass these here. Update {what} out of place, "
            "without an optimizer: gradients from torch.autograd.grad(loss, ..., create_graph=True), then "
            "w - lr * g for each."
        )
    if leaves and (alone := _part_alone(failure, refused)):
        return alone
    if kept := _kept_by_module(failure, refused):
        return kept
    if leaves:
        held = dict.fromkeys(apart(each.name)[0] for each in refused)
        what = (refused[0].name if len(refused) == 1 else listed([*held], MOST)) or "the rest"
        every = list(dict.fromkeys(name for each in refused for name in each.leaves))
        itself, them = ("leaf itself", "it") if len(every) == 1 else ("leaves themselves", "them")
        return f"Pass the {itself}, {listed(every, 3)}, to the optimizer, and compute {what} from {them} in every step."
    name = next((each.name for each in refused if each.name), "x")
    leaf = how = f"{name} = {name}.detach().requires_grad_()"
    last = next((each.made for each in refused if each.made and each.name == name), None)
    if last:
        how = put_at(leaf, "below", last)
    elif refused and failure.user and failure.user.value(name) is refused[0].tensor:
        how += str(put(leaf, "above", failure.user.place))
    return f"Make it a leaf after the last computation: {how}, {OR}or nn.Parameter({name}.detach())."


def _kept_by_module(failure: Failure, refused: list[Refused]) -> str:
    """The leaves alone, where modules have what they compute in every pass among their parameters."""
    level = failure.user
    call = only(each for each in calls_in(level.statement if level else None) if callee(each)[1] == "parameters")
    if level is None or level.body is None or call is None or not all(_is_registered(level, each) for each in refused):
        return ""
    one = len(refused) == 1
    it, is_computed = ("it", "it is computed") if one else ("them", "they are computed")
    leaves = on_line_with(level.body, level.statement, {call: f"[p for p in {level.body.text(call)} if p.is_leaf]"})
    return (
        f"A module has {it} among its parameters, although {is_computed}. Give the optimizer the leaves alone: "
        f"{leaves}. Their gradients train what {is_computed} from."
    )


def _is_registered(level: Level, each: Refused) -> bool:
    owner, _, attribute = each.name.rpartition(".")
    holder = level.value(owner) if owner else None
    return is_module(holder) and registered(holder, "_parameters").get(attribute) is each.tensor


_PARTS = ("Slice", "Select", "Index", "IndexSelect", "Narrow", "Split")


def _part_alone(failure: Failure, refused: list[Refused]) -> str:
    """Make a leaf of a part that the program computes with elsewhere, too: to train the whole leaf trains more."""
    one = refused[0]
    body, statement = read_at(one.made)
    known = len(refused) == 1 and one.graph.roots[0].op in _PARTS and isinstance(statement, ast.Assign)
    if not known or body is None or one.made is None or not isinstance(statement, ast.Assign):
        return ""
    skipped = {(one.made.file, one.made.line), *((each.place.file, each.place.line) for each in failure.users)}
    last = one.name.rpartition(".")[2]
    if not any(
        last_name(node) == last and isinstance(getattr(node, "ctx", None), ast.Load)
        for inner, each in statements_of(*user_files(failure))
        if (inner.file, each.lineno) not in skipped
        for node in expressions(each)
        if isinstance(node, ast.Name | ast.Attribute)
    ):
        return ""
    new = f"{simple(body.text(statement.value))}.detach().clone().requires_grad_()"
    line = on_line_with(body, statement, {statement.value: new})
    whole = one.leaves[0]
    return line and (
        f"To train this part alone, make it a leaf of its own: {line}. {OR}To train all of {whole}, pass {whole} "
        f"itself to the optimizer, and compute {one.name} from it in every step."
    )


# A weight that a parametrization computes: `layer.weight` of `orthogonal(layer)`.


_ORIGINAL = re.compile(r"(?P<owner>.+)\.parametrizations\.(?P<attribute>\w+)\.original\d*")


@dataclass(frozen=True, eq=False)
class Parametrized:
    """The module, the attribute that is computed, and the leaves that it is computed from.

    owner: what the program calls the module, `net.rec`.
    """

    failure: Failure
    owner: str
    attribute: str
    leaves: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.attribute}"

    @cached_property
    def read(self) -> tuple[Body, ast.stmt, ast.expr] | None:
        """The only statement of the program that reads the attribute of a module by this name."""
        return only(
            (body, each, node)
            for body, each in self._statements()
            for node in expressions(each)
            if isinstance(node, ast.Attribute) and (dotted(node) or "").endswith(self._tail)
        )

    @property
    def fix(self) -> str:
        """The statement that reads it with the leaf instead; empty where there is none, or several leaves."""
        if self.read is None or len(self.leaves) != 1:
            return ""
        body, statement, node = self.read
        leaf = self.leaves[0][len(self.owner) :]
        line = rewritten(body, statement, {node: f"{(dotted(node) or '').removesuffix(f'.{self.attribute}')}{leaf}"})
        return sentence(on_line(body.place(statement), line))

    @property
    def _tail(self) -> str:
        return f".{self.owner.rpartition('.')[2]}.{self.attribute}" if "." in self.owner else self.name

    def _statements(self) -> Iterator[tuple[Body, ast.stmt]]:
        """The statements of the program, without those that the failing functions had still to run."""
        ends = {level.body.node: level.line for level in self.failure.users if level.body is not None}
        for body in (body for file in user_files(self.failure) for body in functions(file)):
            last = ends.get(body.node)
            yield from ((body, each) for each in statements(body.node) if last is None or each.lineno <= last)


def parametrized(failure: Failure, leaves: Sequence[str]) -> Parametrized | None:
    """Return the weight that is computed from these leaves alone, by a parametrization."""
    found = [_ORIGINAL.fullmatch(each) for each in leaves]
    owners = {(each["owner"], each["attribute"]) for each in found if each is not None}
    if not found or None in found or len(owners) != 1:
        return None
    return Parametrized(failure, *owners.pop(), tuple(leaves))


# Parameter groups for the parts of one leaf, each with settings of its own: each index creates a new tensor.


@dataclass(frozen=True, eq=False)
class Parts:
    """What the groups hold: the parts of a leaf, in their order."""

    leaf: torch.Tensor
    name: str
    assigned: Place | None
    parts: tuple[torch.Tensor, ...]

    @property
    def are_entries(self) -> bool:
        """Whether they are all that the leaf has, one after the other: `x[0]`, `x[1]`, ..."""
        leaf = self.leaf
        alike = all(each.shape == leaf.shape[1:] for each in self.parts)
        starts = [leaf.storage_offset() + k * leaf.stride(0) for k in range(len(leaf))] if leaf.dim() else []
        return alike and starts == [each.storage_offset() for each in self.parts]


def parts_in_groups(failure: Failure) -> Finding | None:
    """Several groups were given, and all that they hold is cut out of one leaf."""
    found = _parts(failure)
    if found is None:
        return None
    name, made = found.name, found.assigned
    at = next(_indexed(failure, found), None)
    place, own = at or made, failure.user.place if failure.user else None
    what = "element" if found.are_entries else "part"
    return explanation(
        f"The parameter groups hold {what}s of {name}: non-leaf tensors, and an optimizer can only train leaves.",
        (
            if_known(made, f"creates the leaf, {name}."),
            shown(at, f"takes {what}s of it: each index creates a new tensor.") if at and at != own else None,
            *failing(failure, "accepts only leaves: tensors that are not computed from others."),
        ),
        _of_lists(failure, found),
        source=place or failure.source,
    )


def _parts(failure: Failure) -> Parts | None:
    given = (each.variables.get("param_groups") for each in reversed(failure.levels))
    groups = next((each for each in given if type(each) is list and all(type(group) is dict for group in each)), [])
    held = [each for group in groups for each in _tensors(group.get("params"))]
    bases = [base_of(each) for each in held]
    leaf = bases[0] if bases else None
    if leaf is None or len(groups) < 2 or not leaf.is_leaf or any(each is not leaf for each in bases):
        return None
    known = handed(failure, leaf)
    name = known.name if known is not None else names_of(failure, [leaf])[0]
    return Parts(leaf, name, known.assigned if known is not None else None, tuple(held)) if name else None


def _tensors(given: object) -> list[torch.Tensor]:
    every = given if isinstance(given, list | tuple) else [given]
    return [each for each in every if is_tensor(each)]


def _indexed(failure: Failure, found: Parts) -> Iterator[Place]:
    """The statements that take the parts: in the functions that run, and in those that these call with the leaf."""
    for level in failure.users:
        here = section_of(level)
        if here is None:
            continue
        yield from _subscripts(here, found.leaf)
        for statement in statements(here.body.node):
            for call in calls_in(statement):
                for inner in called_by(here, call, ()):
                    given = {name: here.value(dotted(value) or "") for name, value in inner.given.items()}
                    yield from _subscripts(replace(inner, variables={**inner.variables, **given}), found.leaf)


def _subscripts(section: Section, leaf: torch.Tensor) -> Iterator[Place]:
    for statement in statements(section.body.node):
        indexed = (each.value for each in expressions(statement) if isinstance(each, ast.Subscript))
        if any(section.value(dotted(each) or "") is leaf for each in indexed):
            yield section.body.place(statement)


def _of_lists(failure: Failure, found: Parts) -> str:
    name, assigned = found.name, found.assigned
    if not found.are_entries or not name.isidentifier() or assigned is None:
        join = "torch.stack" if found.are_entries else "torch.cat"
        return (
            "The settings of a group apply to whole leaves: make each part a leaf of its own, `part = "
            f"{name}[...].detach().clone().requires_grad_()`, put these into the groups, and compute with {join}() of "
            f"them in every step, in place of {name}."
        )
    used = [on_line(at, text) for at, text in _computing(failure, found.leaf) if text]
    each = f"{name} = [each.detach().requires_grad_() for each in {name}]"
    return (
        f"The settings of a group apply to whole leaves, so make each element one: below line {assigned.line}, put "
        f"`{each}`{put(each, 'below', assigned) if used else ''}, and "
        f"{', '.join(used) if used else f'compute with torch.stack({name}) in every step'}."
    )


def _computing(failure: Failure, leaf: torch.Tensor) -> Iterator[tuple[Place, str]]:
    """The statements that compute the loss from the leaf as a whole, with its elements joined."""
    for level in failure.users:
        for root, place in backward_roots(level.body) if level.body else ():
            every = [at for each in ancestors(level.body, root, place.line).values() for at in each.bound]
            for at in dict.fromkeys([*every, place]):
                body, statement = read_at(at)
                nodes = [
                    each
                    for each in expressions(statement)
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and level.value(each.id) is leaf
                ]
                changes: dict[ast.expr, str] = {each: f"torch.stack({each.id})" for each in nodes}
                if body is not None and statement is not None and changes:
                    yield body.place(statement), rewritten(body, statement, changes)
