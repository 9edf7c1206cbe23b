"""An operation was given two dtypes, and only its backward refuses them: `huber_loss` of float32 and float64."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.errors.remedies.tensors import CASTS, cast_at
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import described, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.snapshot import survey
from backsight.source import Body, Place, assignments, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.body import dotted, expressions
from backsight.source.edits import OR, on_line, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, around_engine
from backsight.story.memory import is_module, is_tensor, needs_gradient, storage_of
from backsight.story.sections import methods_of
from backsight.tape import Node, registered
from backsight.tracing import current


class _Given(NamedTuple):
    """The operation, and what it has saved: the tensor to convert, and the one whose dtype it should have."""

    node: Node
    other: torch.Tensor
    kept: torch.Tensor


@remedy(r"Found dtype (?P<got>\w+) but expected (?P<due>\w+)")
def _of_two_dtypes(found: Refusal, match: Match) -> Remedy | None:
    given = _given(found, match)
    if given is None:
        return None
    name, kept = names_of(found.failure, [given.other, given.kept])
    place = _place(found, given)
    body, statement = read_at(place)
    text, like = (_called(found, body, statement, each) for each in (given.other, given.kept))
    what, beside = _told(text or name, given.other), _told(like or kept, given.kept)
    took = [shown(place, f"takes {what}, and {beside}.")] if place else [f"It was given {what}, and {beside}."]
    to = f"{like}.dtype" if like else str(given.kept.dtype)
    nodes = [node for node in expressions(statement) if text and dotted(node) == text]
    new = rewritten(body, statement, {nodes[0]: f"{text}.to({to})"}) if body and statement and len(nodes) == 1 else ""
    how = on_line(place, new) if new and place else f"{text or name}.to({to})"
    above = _cast_above(found, given) if not text else None
    if above is not None:
        return Remedy(
            f"The backward of this operation needs one dtype. {above.fix}", (*took, *above.evidence), above.place
        )
    if not new and not text and name.startswith("self.") and body is not None and statement is not None:
        read = [node for node in expressions(statement) if dotted(node) == name]
        line = rewritten(body, statement, {read[0]: how}) if len(read) == 1 else ""
        how += str(write(body.place(statement), line)) if line else ""
    which = text or name or f"the {described(given.other)}"
    kept_in = _kept_in(found, like, given.kept) if like else None
    usual = f" {OR}Or {kept_in.fix}" if kept_in is not None else ""
    return Remedy(
        f"The backward of this operation needs one dtype. Convert {which} before it: {how}.{usual}",
        (*took, *_origin(found, text or name, given.other), *(kept_in.evidence if kept_in is not None else ())),
        place,
    )


def _kept_in(found: Refusal, name: str, tensor: torch.Tensor) -> Remedy | None:
    """The one attribute of the program's own object that a tensor of an unusual dtype was computed with and has that
    dtype from: where it is made, and how to make it of the usual one."""
    usual = torch.get_default_dtype()
    level = next((each for each in found.failure.users if each.value(name) is tensor), None)
    if level is None or tensor.dtype == usual or usual not in CASTS:
        return None
    held: dict[tuple[str, str], torch.Tensor] = {}
    for each in ancestors(level.body, name, level.line):
        owner, dot, attribute = each.rpartition(".")
        value = level.value(each)
        every = [(attribute, value)] if dot and is_tensor(value) else _tensors_of(value)
        held |= {
            (owner if dot and is_tensor(value) else each, key): one for key, one in every if one.dtype == tensor.dtype
        }
    (owner, attribute), kept = next(iter(held.items()), (("", ""), None))
    places = [(b, p) for b in methods_of(type(level.value(owner))) for p in assignments(b, f"self.{attribute}")]
    if len(held) != 1 or len(places) != 1 or kept is None:
        return None
    (body, place), *_ = places
    statement = statement_at(body, *place.position)
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    cast = f"{simple(body.text(value))}.{CASTS[usual]}()" if value is not None else ""
    new = rewritten(body, statement, {value: cast}) if statement is not None and value is not None else ""
    told = _told(f"{owner}.{attribute}", kept)
    if not new:
        return None
    evidence = shown(place, f"makes {told}, from which {name} has its dtype.", "read")
    return Remedy(
        f"make {owner}.{attribute} {str(usual).removeprefix('torch.')}: {on_line(place, new)}.",
        (evidence,),
    )


def _tensors_of(value: object) -> Sequence[tuple[str, torch.Tensor]]:
    """The tensors that an object of the program keeps as attributes, buffers among them."""
    inside = {**(namespace(value) or {}), **(registered(value, "_buffers") if is_module(value) else {})}
    return () if is_tensor(value) else [(name, each) for name, each in inside.items() if is_tensor(each)]


def _cast_above(found: Refusal, given: _Given) -> Remedy | None:
    """Where a function that still runs got the tensor: the one that has the operation has returned, and its names are
    others."""
    if given.kept.dtype not in CASTS:
        return None
    casts = (cast_at(level, [given.other], CASTS[given.kept.dtype]) for level in reversed(found.failure.users))
    return next((each for each in casts if each is not None), None)


def _told(name: str, tensor: torch.Tensor) -> str:
    kind = described(tensor)
    return f"{name}{', ' * bool(name)}{'an' if kind[0] in 'iu' else 'a'} {kind}"


def _given(found: Refusal, match: Match) -> _Given | None:
    """The operation at which backward stopped: it comes to the newest of those that have saved both dtypes first."""
    roots = tuple(each for each in around_engine(found.failure).roots if is_tensor(each))
    wanted = {getattr(torch, match[each].lower(), None) for each in ("got", "due")}
    for node in survey(roots, frames=found.failure.frames).graph.nodes if roots else ():
        saved = [tensor for each in node.saved if (tensor := each.tensor()) is not None]
        if {each.dtype for each in saved} == wanted and len(saved) == 2:
            kept, other = sorted(saved, key=lambda each: (not needs_gradient(each), not each.is_floating_point()))
            return _Given(node, other, kept)
    return None


def _place(found: Refusal, given: _Given) -> Place | None:
    """The statement of the operation: as a watch has seen it, else the one on the way to the loss that reads both."""
    watch = current()
    if watch is not None and (line := watch.line_of(given.node)) is not None:
        return line.place
    for level in found.failure.users:
        for each in _on_the_way(level):
            statement = statement_at(level.body, *each.position)
            held = [value_of(level, node) for node in expressions(statement)]
            if all(any(_is_same(value, each) for value in held) for each in (given.other, given.kept)):
                return each
    return None


def _on_the_way(level: Level) -> Iterator[Place]:
    if level.body is not None and level.receiver:
        for each in ancestors(level.body, level.receiver, level.line).values():
            yield from each.bound


def _is_same(value: object, tensor: torch.Tensor) -> bool:
    """Whether a value is a tensor, or what that is detached from."""
    if value is tensor or not is_tensor(value) or storage_of(value) is None or storage_of(value) != storage_of(tensor):
        return value is tensor
    return (value.dtype, value.shape, value.stride()) == (tensor.dtype, tensor.shape, tensor.stride())


def _called(found: Refusal, body: Body | None, statement: ast.stmt | None, tensor: torch.Tensor) -> str:
    """What a statement calls a tensor, if its function still runs."""
    for level in found.failure.users:
        if body is not None and level.body is not None and level.body.node is body.node:
            return next(
                (name for n in expressions(statement) if (name := dotted(n)) and _is_same(value_of(level, n), tensor)),
                "",
            )
    return ""


def _origin(found: Refusal, name: str, tensor: torch.Tensor) -> Iterator[Fact]:
    """What a tensor has its dtype from: the names of the same dtype that it was computed from, and nothing before."""
    for level in found.failure.users:
        if level.body is None or not _is_same(level.value(name), tensor):
            continue
        every = ancestors(level.body, name, level.line)
        held = {each: value for each in every if each != name and is_tensor(value := level.value(each))}
        alike = {each: value for each, value in held.items() if value.dtype == tensor.dtype}
        for each, value in alike.items():
            before = set(ancestors(level.body, each, every[each].read.line)) - {each}
            if not before & alike.keys():
                for place in every[each].bound[-1:]:
                    yield shown(place, f"gives {_told(each, value)}, from which {name} has its dtype.")
        if not alike and name in every:
            for place in every[name].bound[-1:]:
                yield shown(place, f"gives {_told(name, tensor)}.")
        return
