"""The tensors of an operation that failed, what the program calls them, and which of them is not where the rest is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.refused import Refusal, read_by
from backsight.diagnosis.evidence.spoken import names_of
from backsight.source.body import dotted
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.tape import no_torch_function, registered

_MOST = 40
_ARGUMENT = re.compile(r"but got (?P<name>\w+) is on (?P<odd>[\w:]+), different from other tensors on (?P<rest>[\w:]+)")
_NAMED = re.compile(r"\b(?:cpu|meta|cuda|xpu|mps|hpu|npu|xla)(?::\d+)?\b")


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor, what the program calls it (empty where no variable holds it), and the level that calls it so."""

    text: str
    tensor: torch.Tensor
    level: Level
    argument: str = ""

    @property
    def device(self) -> torch.device:
        return device_of(self.tensor)

    @property
    def named(self) -> str:
        return self.text or (f"the argument {self.argument}" if self.argument else "a tensor")


def device_of(tensor: torch.Tensor) -> torch.device:
    """Return where a tensor is, past what its class may answer."""
    with no_torch_function():
        device: torch.device = torch.Tensor.device.__get__(tensor)
    return device


def operands(failure: Failure) -> list[Placed]:
    """Return the tensors that the failing line read and that PyTorch's functions below it had, each once."""
    level = failure.user
    if level is None:
        return []
    refusal, found = Refusal(failure, level), dict[int, Placed]()
    for text, tensor in _written(level, refusal.expression):
        found.setdefault(id(tensor), Placed(text, tensor, level))
    inner = [*_given(refusal)]
    missing = [tensor for _, tensor in inner if id(tensor) not in found][:_MOST]
    names = dict(zip(map(id, missing), names_of(failure, missing), strict=True))
    for argument, tensor in inner:
        if id(tensor) in names or id(tensor) in found:
            found.setdefault(id(tensor), Placed(names.get(id(tensor), ""), tensor, level, argument))
    return list(found.values())[:_MOST]


def _written(level: Level, node: ast.AST | None) -> Iterator[tuple[str, torch.Tensor]]:
    """What an expression reads, and the elements of the lists in it."""
    yield from ((text, each) for text, each in read_by(level, node) if is_tensor(each))
    for each in ast.walk(node) if node is not None and level.body is not None else ():
        held = value_of(level, each) if isinstance(each, ast.expr) and dotted(each) else None
        if type(held) in (list, tuple) and level.body is not None and isinstance(each, ast.expr):
            items = enumerate(list(held)[:_MOST])  # type: ignore[call-overload]  # a list or a tuple
            yield from ((f"{level.body.text(each)}[{k}]", item) for k, item in items if is_tensor(item))


def _given(refusal: Refusal) -> Iterator[tuple[str, torch.Tensor]]:
    """What PyTorch's functions below the line had, the innermost first, and the weights of the module that failed."""
    if refusal.module is not None:
        for registry in ("_parameters", "_buffers"):
            held = registered(refusal.module, registry).items()
            yield from ((name, each) for name, each in held if is_tensor(each))
    for level in reversed(refusal.below):
        for name, value in level.variables.items():
            if is_tensor(value):
                yield name, value


@dataclass(frozen=True, eq=False)
class Apart:
    """The tensor that is not where the others are, and one of the others."""

    odd: Placed
    rest: Placed


def apart(failure: Failure, placed: list[Placed], indexed: str | None) -> Apart | None:
    """Return which tensor is on another device than which; None where all that is known is on one.

    An index has to be where the indexed tensor is. Else what is on the accelerator has been moved there on purpose, and
    what is on the CPU has been left behind; of tensors without data (`meta`) it is those that were never given any.
    """
    told = _ARGUMENT.search(failure.message)
    if told is not None:
        fitting = [each for each in placed if _is_on(each.device, told["odd"])]
        named = [each for each in fitting if each.argument == told["name"]] or fitting
        others = [each for each in placed if _is_on(each.device, told["rest"])]
        if named and others:
            return Apart(named[0], others[0])
    if indexed is not None:
        odd = [each for each in placed if not _is_on(each.device, indexed) and not each.tensor.is_floating_point()]
        rest = [each for each in placed if _is_on(each.device, indexed)]
        return Apart(odd[0], rest[0]) if odd and rest else None
    named_devices = set(_NAMED.findall(failure.message))
    wanted = _wanted(placed, "meta" in named_devices)
    odd = [each for each in placed if each.device.type != wanted]
    rest = [each for each in placed if each.device.type == wanted]
    if not odd and rest:  # several of one kind: cuda:0 and cuda:1
        odd = [each for each in rest if each.device != rest[0].device]
    return Apart(min(odd, key=_rank), min(rest, key=_rank)) if odd and rest else None


def _wanted(placed: list[Placed], about_meta: bool) -> str:
    kinds = {each.device.type for each in placed}
    if about_meta:
        return next((kind for kind in kinds if kind not in ("meta", "cpu")), "cpu")
    return next((kind for kind in kinds if kind != "cpu"), "cpu")


def _rank(each: Placed) -> tuple[bool, bool]:
    """One that the program has a name for comes first, and one with dimensions: a number may be on the CPU."""
    return (not each.text, not each.tensor.dim())


def _is_on(device: torch.device, text: str) -> bool:
    kind, _, index = text.partition(":")
    return device.type == kind and (not index or device.index in (None, int(index)))
