"""An optimizer that refuses what it is given: sparse gradients, dense ones, vectors, several groups.

PyTorch stops at the first tensor of the kind, and names none: here all are named, each with the statement to change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from backsight.diagnosis.errors.optimizer_state import made_at, optimizer_of
from backsight.diagnosis.errors.parameter_groups import in_two_groups, tied
from backsight.diagnosis.errors.registry import refusal
from backsight.diagnosis.errors.sparse_and_dense import apart, moved_to_adam
from backsight.diagnosis.evidence.gradients import holder_of
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, if_known, listed, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name
from backsight.snapshot import groups
from backsight.source import Body, Place, calls_of, only, statements_of
from backsight.source.bindings import assigned, target_names
from backsight.source.body import (
    callee,
    calls_in,
    dotted,
    expressions,
    functions,
    is_constant,
    is_text,
    keyword,
    statements,
)
from backsight.source.edits import OR, Edit, alternatives, change, on_line, without_marks, write
from backsight.source.imports import meaning
from backsight.source.out_of_place import arguments
from backsight.source.rewriting import rewritten, rewritten_line
from backsight.story.files import user_files
from backsight.story.holders import found_around
from backsight.story.memory import gradient_of, is_tensor
from backsight.tape import registered
from backsight.text import as_code

_SPARSE = re.compile(
    r"does not support sparse grad|weight_decay option is not compatible with sparse gradients"
    r"|add\(sparse, dense\) is not supported"
)
"""Of SGD, Adagrad and LBFGS, which take sparse gradients, the decay alone refuses them, or the fused implementation."""

_FUSED = re.compile(r"_?fused\w*` does not support sparse grad")
_DENSE = "does not support dense gradients"
_GROUPS = "LBFGS doesn't support per-parameter options"
_TWICE = "some parameters appear in more than one parameter group"
_ASKING = ("sparse", "sparse_grad")
"""The arguments of nn.Embedding, F.embedding and torch.gather that make a gradient sparse."""

_MOST = 4


def optimizer_refused(found: Refusal) -> Finding | None:
    """Name what an optimizer does not take, where it was made, and what to make instead; None for another error."""
    message = found.failure.message
    if _GROUPS in message:
        return _one_group(found)
    optimizer = optimizer_of(found)
    if optimizer is None:
        return _clipped(found)
    if message.startswith(_TWICE):
        return in_two_groups(found, optimizer)
    case = _Case(found, optimizer)
    if "add(sparse, dense)" in message and not case.decays:
        return None
    if _SPARSE.search(message):
        return _sparse(case)
    if _DENSE in message:
        return _dense(case)
    return None


_NO_NORM = re.compile(r"Could not run 'aten::\w*(?:norm|clamp)\w*(?:\.\w+)?' with arguments from the 'Sparse")


def _clipped(found: Refusal) -> Finding | None:
    """The clipping of sparse gradients, whose norm PyTorch does not compute, and which it does not clamp."""
    inside = [each for each in found.below if "clip_grad" in each.frame.f_code.co_name]
    held = inside[0].variables.get("parameters") if inside else None
    given = [*held] if isinstance(held, list | tuple) else []
    sparse = [each for each in given if is_tensor(each) and (g := gradient_of(each)) is not None and g.is_sparse]
    if not _NO_NORM.search(found.failure.message) or not sparse:
        return None
    return _sparse(_Case(found, None, tuple(given), inside[0].frame.f_code.co_name))


@dataclass(frozen=True, eq=False)
class _Case:
    """An optimizer that has refused a tensor; None for the clipping of gradients, with what it was given."""

    found: Refusal
    optimizer: torch.optim.Optimizer | None
    clipped: tuple[torch.Tensor, ...] = ()
    function: str = "clip_grad_norm_"

    @cached_property
    def held(self) -> list[torch.Tensor]:
        if self.optimizer is None:
            return [*self.clipped]
        return [each for group in groups(self.optimizer) for each in group["params"] if is_tensor(each)]

    @property
    def kind(self) -> str:
        return class_name(type(self.optimizer)) if self.optimizer is not None else f"{self.function}()"

    @cached_property
    def name(self) -> str:
        names = names_of(self.found.failure, [self.optimizer]) if self.optimizer is not None else [""]
        return f"{as_code(names[0])} ({self.kind})" if names[0] else self.kind

    def with_gradient(self, *, sparse: bool) -> list[torch.Tensor]:
        """What has a gradient of this kind."""
        gradients = ((each, gradient_of(each)) for each in self.held)
        return [each for each, gradient in gradients if gradient is not None and gradient.is_sparse is sparse]

    @cached_property
    def _decaying(self) -> list[dict[str, Any]]:
        """The groups that have a sparse gradient, and a weight decay other than 0."""
        sparse = {id(each) for each in self.with_gradient(sparse=True)}
        every = groups(self.optimizer) if self.optimizer is not None else []
        held = [each for each in every if sparse & {*map(id, each["params"])}]
        return [each for each in held if type(each.get("weight_decay")) in (int, float) and each["weight_decay"]]

    @property
    def decays(self) -> list[float]:
        return [each["weight_decay"] for each in self._decaying]

    @property
    def decays_others(self) -> bool:
        """Whether the same groups have other parameters."""
        sparse = {id(each) for each in self.with_gradient(sparse=True)}
        return any({*map(id, each["params"])} - sparse for each in self._decaying)

    def named(self, tensors: list[torch.Tensor]) -> list[str]:
        """What the program calls each: the module that has it, else a variable."""
        return [as_code(name or described(each)) for each, name in zip(tensors, self.paths(tensors), strict=True)]

    def paths(self, tensors: list[torch.Tensor]) -> list[str]:
        failure = self.found.failure
        holders = [holder_of(failure, each) for each in tensors[:_MOST]]
        others = [name if ".param_groups[" not in name else "" for name in names_of(failure, tensors)]
        known = [each.path if each else name for each, name in zip(holders, others, strict=False)]
        return [*known, *others[len(known) :]]

    def told(self, title: str, evidence: Sequence[Fact | None], fix: str, source: Place | None) -> Finding:
        failed = shown(self.found.level.place, "failed.")
        return refusal(self.found, title, (*evidence, failed), fix, source, exact=source is not None)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What gives an argument of this name a value: a call, the entry of a dict, a field of a class."""

    body: Body
    statement: ast.stmt
    name: str
    value: ast.expr
    call: ast.Call | None = None

    @property
    def place(self) -> Place:
        """Its statement; of one over several lines, which may be a whole config, the line that has the value."""
        if self.value.lineno == self.statement.lineno or self.call is not None:
            return self.body.place(self.statement)
        return self.body.place(self.value, self.body.lines[self.value.lineno - 1].strip())

    @property
    def targets(self) -> set[str]:
        """What it is assigned to, the last part alone: `user_emb` of `self.user_emb = nn.Embedding(...)`."""
        targets = self.statement.targets if isinstance(self.statement, ast.Assign) else []
        names = (dotted(each) or "" for each in targets)
        return {name.rpartition(".")[2] for name in names} | target_names(*targets)

    @property
    def number(self) -> object:
        return self.value.value if isinstance(self.value, ast.Constant) else None

    def is_of(self, case: _Case) -> bool:
        """Whether it is an argument of the optimizer."""
        return self.call is not None and callee(self.call)[1] == case.kind

    def with_value(self, new: str, *others: _Asked) -> str:
        """The statement with another value, of several in it in each; where `place` is a line of it, that line."""
        if self.place.line == self.statement.lineno:
            changes = {each.value: new for each in (self, *others) if each.statement is self.statement}
            return rewritten(self.body, self.statement, changes)
        return rewritten_line(self.body, self.value, new)

    @property
    def asking(self) -> Fact:
        return shown(self.place, f"asks for a sparse gradient ({self.name}={self.body.text(self.value)}).")

    def edit(self, new: str) -> Edit:
        """The statement, or the line of it, written as `with_value` has it."""
        is_part = self.place.line != self.statement.lineno
        return change(self.place, self.place.text, new) if is_part else write(self.place, new)


def _asked(case: _Case, *names: str) -> Iterator[_Asked]:
    """Everything in the user's files that gives one of these names a value, but False."""
    for file in user_files(case.found.failure):
        for body in functions(file):
            for each in _own_statements(body):
                for asked in _settings(body, each):
                    if asked.name in names and not is_constant(asked.value, False):
                        yield asked


def _own_statements(body: Body) -> Iterator[ast.stmt]:
    """The statements of a function; of a module with those of its classes, which may be configs."""
    for each in statements(body.node):
        yield each
        if isinstance(each, ast.ClassDef):
            yield from each.body


def _settings(body: Body, statement: ast.stmt) -> Iterator[_Asked]:
    for target, value in assigned(statement):
        if isinstance(value, ast.Constant):  # `sparse = [p for p in ...]` is no setting
            yield _Asked(body, statement, (dotted(target) or "").rpartition(".")[2], value)
    for node in expressions(statement):
        if isinstance(node, ast.Call):
            yield from (_Asked(body, statement, each.arg, each.value, node) for each in node.keywords if each.arg)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield _Asked(body, statement, key.value, value)


def _sparse(case: _Case) -> Finding | None:
    """Every parameter with a sparse gradient, and the statements that ask for one."""
    sparse = case.with_gradient(sparse=True)
    if not sparse:
        return None
    names, paths, message = case.named(sparse), case.paths(sparse), case.found.failure.message
    every, parts = list(_asked(case, *_ASKING)), {part for path in paths for part in path.split(".")}
    every = [each for each in every if each.targets & parts] or every
    known = list({each.statement: each for each in every}.values())
    dense, given, evidence = _densely(known, every), _list_of(paths), [each.asking for each in known[:_MOST]]
    has, them, their = (
        ("has a sparse gradient", "it", "its") if len(names) == 1 else ("have sparse gradients", "them", "their")
    )
    what = "does not take sparse gradients"
    own = f"torch.optim.SparseAdam({given})" if given else "torch.optim.SparseAdam"
    optimizer = f"an optimizer of {their} own, {own}, leave {them} out of this one"
    other = (
        f"if the tables are so large that sparse updates pay off, give {them} {optimizer}, and call zero_grad() and "
        "step() on both"
    )
    if case.optimizer is None:
        other = "clip the others alone, and leave out what has p.grad.is_sparse"
    fix = f"Ask for dense gradients: {dense}. {OR}Or{', ' if case.optimizer else ' '}{other}."
    if _FUSED.search(message):
        fused = next(iter(_asked(case, "fused")), None)
        new = fused.with_value("False") if fused else ""
        how = f"write `{new}` on line {fused.place.line}" if fused else "make it with fused=False"
        how += str(fused.edit(new)) if fused and new else ""
        what = "does not take sparse gradients with fused=True"
        fix = f"Leave the fused kernel out: {how}. {OR}Or {dense}."
    elif "weight_decay" in message or "add(sparse" in message:
        decaying, says = _decaying(case), "sets the weight decay, which would make a sparse gradient dense."
        evidence += [shown(each.place, says) for each in decaying]
        what = "cannot apply weight_decay to sparse gradients"
        fix = f"{_no_decay(case, decaying, given)} {OR}Or ask for dense gradients: {dense}."
    title = f"{case.name} {what}, and {listed(names, _MOST)} {has}."
    return case.told(title, evidence, fix, known[0].place if known else None)


def _densely(known: Sequence[_Asked], every: Sequence[_Asked]) -> str:
    """How each statement that asks for a sparse gradient asks for a dense one; with edits, if none is too long."""
    new = {each: each.with_value("False", *every) for each in known}
    if not known:
        return "make what looks it up with sparse=False"
    how = f"write {known[0].name}=False on lines {listed([*map(str, dict.fromkeys(e.place.line for e in known))], 9)}"
    if len(known) <= 3 and all(new.values()):
        how = f"write {listed([f'`{line}` on line {each.place.line}' for each, line in new.items()], _MOST)}"
    return how + ("".join(str(each.edit(line)) for each, line in new.items()) if all(new.values()) else "")


def _list_of(paths: list[str]) -> str:
    return f"[{', '.join(paths)}]" if all(paths) and len(paths) <= _MOST else ""


def _decaying(case: _Case) -> list[_Asked]:
    """Where the weight decay of the groups with sparse gradients is written: as an argument of the optimizer, else the
    only place of the program where that number stands under this name."""
    every = list(_asked(case, "weight_decay"))
    found = [each for each in every if each.number in case.decays]
    arguments = [each for each in every if each.is_of(case)]
    return found if len(found) == 1 else arguments[:1]


def _no_decay(case: _Case, decaying: list[_Asked], given: str) -> str:
    """How an optimizer is made without the weight decay that it cannot apply to sparse gradients."""
    written = [(new, each) for each in decaying if (new := each.with_value("0"))]
    how = "".join(f"write `{new}` on line {each.place.line}{each.edit(new)}" for new, each in written[:1])
    fix = f"{how[:1].upper()}{how[1:]}" if how else f"Make {class_name(type(case.optimizer))} with weight_decay=0"
    if not case.decays_others or not given:
        return f"{fix}: no decay for sparse gradients."
    return (
        f"{fix}. To keep the decay of the other parameters, give the optimizer two groups instead: "
        f'{{"params": {given}, "weight_decay": 0}} and one with the others.'
    )


def _dense(case: _Case) -> Finding | None:
    """SparseAdam is given what has a dense gradient: every parameter of it, and where an embedding may be sparse."""
    dense = case.with_gradient(sparse=False)
    if not dense:
        return None
    names, others = case.named(dense), case.with_gradient(sparse=True)
    has = "has a dense gradient" if len(names) == 1 else "have dense gradients"
    keep = _list_of(case.paths(others)) if others else ""
    looked_up = {id(each) for each in _looked_up_sparsely(case)}
    table = next((each for each in dense if id(each) in looked_up), None)
    if table is not None:
        return _used_otherwise(case, dense, table, keep)
    asked, built, failure = list(_asked(case, *_ASKING)), made_at(case.found), case.found.failure
    dense_ones, sparse_ones = ([*map(as_code, case.paths(each))] for each in (dense, others))
    split = moved_to_adam(failure, dense_ones, sparse_ones) or apart(failure, built, sparse_ones)
    fix = (
        f"Give SparseAdam only what has a sparse gradient, and the rest to torch.optim.Adam: {split}."
        if split
        else f"Give SparseAdam only what has a sparse gradient, torch.optim.SparseAdam({keep}), and the rest to an "
        "optimizer of its own, torch.optim.Adam; call zero_grad() and step() on both."
        if keep
        else "Make the embeddings with sparse=True, give their weights alone to SparseAdam, and the rest to "
        f"torch.optim.Adam; call zero_grad() and step() on both. {OR}Or use torch.optim.Adam for everything"
        f"{_as_adam(case)}."
        if asked or _has_tables(case)
        else f"Use torch.optim.Adam{_as_adam(case)}. SparseAdam is for embeddings made with sparse=True; here are none."
    )
    return case.told(
        f"{case.name} takes sparse gradients only, and {listed(names, _MOST)} {has}.",
        [
            if_known(built, "makes it."),
            "A gradient with many zeros is dense, too, unless it is stored as a sparse tensor, as that of an embedding "
            "with sparse=True is.",
        ],
        fix,
        built or case.found.level.place,
    )


def _as_adam(case: _Case) -> str:
    """The statement that makes a SparseAdam, the only one of the program, with Adam in place of it."""
    calls = [each for each in calls_of(*user_files(case.found.failure)) if callee(each[2])[1] == case.kind]
    body, statement, call = calls[0] if len(calls) == 1 else (None, None, None)
    if body is None or statement is None or call is None:
        return ""
    if isinstance(call.func, ast.Name):
        return ""  # Adam may not be imported
    line = rewritten(body, statement, {call.func: f"{body.text(call.func).removesuffix(case.kind)}Adam"})
    return f": {on_line(body.place(statement), line)}" if line else ""


def _has_tables(case: _Case) -> bool:
    """Whether the program has an embedding, which may be looked up sparsely."""
    found = found_around(case.found.failure.frames, torch.nn.Module)
    return any(isinstance(each, torch.nn.Embedding | torch.nn.EmbeddingBag) for each, _ in found)


def _looked_up_sparsely(case: _Case) -> Iterator[torch.Tensor]:
    """The weights of embeddings that ask for sparse gradients."""
    for module, _ in found_around(case.found.failure.frames, torch.nn.Module):
        if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.__dict__.get("sparse") is True:
            yield from (each for each in registered(module, "_parameters").values() if is_tensor(each))


def _used_otherwise(case: _Case, dense: list[torch.Tensor], table: torch.Tensor, keep: str) -> Finding:
    """A table that is looked up sparsely, and used by something else, too, whose gradient is dense: so is their sum."""
    name, paths = case.named([table])[0], _paths_of(case, table)
    others = [as_code(each) for each in paths if as_code(each) != name]
    uses = list(tied(case.found)) if others else list(_reading(case, {each.split(".")[-2] for each in paths}))
    says = "makes them one parameter." if others else "uses that weight, too."
    also = f"it is {listed(others, 3)} as well" if others else "something else uses it, too"
    whole = listed(case.named(dense), _MOST)
    sparse = case.with_gradient(sparse=True)
    lists = [[*map(as_code, case.paths(each))] for each in (dense, sparse)]
    rest = f", the others to torch.optim.SparseAdam({keep})" if keep else ""
    again, split = _dense_again(case, paths), moved_to_adam(case.found.failure, *lists)
    if not split or not alternatives(again):
        again, split = without_marks(again), ""
    return case.told(
        f"{case.name} takes sparse gradients only, and {name} has a dense gradient, although its embedding is made "
        f"with sparse=True: {also}.",
        [
            *(shown(each, says, sure_if(len(uses) == 1)) for each in uses[:_MOST]),
            "A sparse and a dense gradient of one parameter add up to a dense one.",
        ],
        f"Leave {whole} to torch.optim.Adam{f': {split}' if split else rest}; make {again}. "
        "To keep its gradient sparse, nothing but the embedding may use the weight.",
        uses[0] if len(uses) == 1 else None,
    )


def _dense_again(case: _Case, paths: Sequence[str]) -> str:
    """What to say of the embedding that is to have a dense gradient, with the statement that makes it."""
    attributes = {each.split(".")[-2] for each in paths}
    made = only(
        (body, each, call, dotted(target) or "")
        for body, each in statements_of(*user_files(case.found.failure))
        for target, _ in assigned(each)
        if (dotted(target) or "").rpartition(".")[2] in attributes
        for call in calls_in(each)
        if keyword(call, "sparse") is not None
    )
    if made is None:
        return "that embedding without sparse=True"
    body, statement, call, name = made
    left = ", ".join(arguments(body, call, "sparse"))
    new = rewritten(body, statement, {call: f"{body.text(call.func)}({left})"})
    return f"{name} without sparse=True{f': {on_line(body.place(statement), new)}' if new else ''}"


def _paths_of(case: _Case, tensor: torch.Tensor) -> list[str]:
    """All that the modules of the program call a parameter."""
    found = found_around(case.found.failure.frames, torch.nn.Module)
    owners = ((path, registered(each, "_parameters")) for each, path in found)
    return [f"{path}.{key}" for path, own in owners for key, held in own.items() if held is tensor]


def _reading(case: _Case, owners: set[str]) -> Iterator[Place]:
    """The statements that read the weight of a module by one of these names, but those that make an optimizer."""
    for file in user_files(case.found.failure):
        for body, each in statements_of(file):
            names = {dotted(node) or "" for node in expressions(each) if isinstance(node, ast.Attribute)}
            made = any((meaning(call.func) or "").startswith("torch.optim.") for call in calls_in(each))
            if not made and any(name.endswith(".weight") and name.split(".")[-2] in owners for name in names):
                yield body.place(each)


def _one_group(found: Refusal) -> Finding | None:
    """LBFGS is given several groups: the same parameters as one list."""
    call, body = found.expression, found.level.body
    statement = found.level.statement
    if not isinstance(call, ast.Call) or body is None or statement is None or not call.args:
        return None
    given = call.args[0]
    entries = given.elts if isinstance(given, ast.List | ast.Tuple) else []
    parts = [
        next((v for k, v in zip(each.keys, each.values, strict=True) if is_text(k, "params")), None)
        for each in entries
        if isinstance(each, ast.Dict)
    ]
    if parts and all(parts):
        flat = f"[{', '.join(f'*{body.text(each)}' for each in parts if each is not None)}]"
    else:
        flat = f"[p for group in {body.text(given)} for p in group['params']]"
    new = rewritten(body, statement, {given: flat})
    how = f"write `{new}` on line {statement.lineno}{write(body.place(statement), new)}" if new else flat
    return refusal(
        found,
        "LBFGS takes one parameter group, but got several.",
        (shown(found.level.place, "failed."),),
        f"Give it one list: {how}. All of them then share the same lr.",
    )
