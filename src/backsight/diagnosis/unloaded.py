"""BS167: a state is loaded whose names fit nothing of the model, which strict=False does not say."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, ending
from backsight.diagnosis.wording import shown, warning
from backsight.naming import search
from backsight.source import Place
from backsight.source.body import callee, dotted, is_constant, keyword
from backsight.tape import modules_in, registered

_FEWEST = 2
"""Names of a state none of which fits;"""
_MANY = 4
"""where others do: a layer alone may well have the name of another one."""


def unloaded(frame: FrameType, since: int) -> Iterator[Finding]:
    """Yield the findings of `model.load_state_dict(state, strict=False)` with a state that variables still hold.

    What a state lacks may be meant. So what the model lacks has to be there under the same names behind a prefix, or
    without one, in the same shapes, and all of it.
    """
    calls = [
        (body.place(statement), call, dotted(callee(call)[0]), dotted(call.args[0]))
        for body, statement, call in calls_around(frame)
        if callee(call)[1] == "load_state_dict" and call.args and is_constant(keyword(call, "strict"), False)
    ]
    for place, call, model, state in calls:
        modules: list[torch.nn.Module] = _held(model, torch.nn.Module) if model else []
        if len(modules) != 1 or not model:
            continue
        states: list[dict[str, torch.Tensor]] = list(filter(_is_state, _held(state, dict))) if state else []
        if len(states) != 1 or not state:
            continue
        own, given = _tensors(modules[0]), states[0]
        found = _skipped(own, given)
        if found is not None:
            of = callee(call)[0] or call
            yield _finding(place, of, model, state, found, len(given), len(given) < len(own), since)


@dataclass(frozen=True)
class _Skipped:
    """How many names of a state fit nothing, and what they have in front that the model's lack, or the other way."""

    names: int
    extra: str
    missing: str


def _finding(
    place: Place, model: ast.expr, name: str, state: str, found: _Skipped, entries: int, strict: bool, since: int
) -> Finding:
    every = found.names == entries
    longer, prefix = (state, found.extra) if found.extra else (name, found.missing)
    renamed = f"k.removeprefix({found.extra!r})" if found.extra else f"{found.missing!r} + k"
    loose = ", strict=False" if strict or not every else ""
    load = f"{ast.unparse(model)}.load_state_dict({{{renamed}: v for k, v in {state}.items()}}{loose})"
    return warning(
        "BS167",
        f"load_state_dict() loaded nothing of {state} into {name}: no name matches."
        if every
        else f"load_state_dict() skipped {found.names} of the {entries} names of {state}: {name} has no such names.",
        (
            shown(
                place,
                "skips names without a match, because of strict=False: "
                + (f"all {entries} names." if every else f"{found.names} names."),
            ),
            f"The names differ by a prefix: those of {longer} begin with {prefix!r}.",
        ),
        f"Rename them: {load}{written(place, load)}."
        if every
        else f"Rename them before loading: {renamed} for each such name k.",
        place,
        since=since,
    )


def _held(name: str, kind: type) -> list[Any]:
    """Return the objects that a variable of this name holds, or an attribute whose last name it is."""
    last = ending(name)
    found = {id(each): each for each, at in search((), collect=(kind,)).found if ending(at.path) == last}
    return list(found.values())


def _is_state(held: object) -> bool:
    values = list(held.values()) if isinstance(held, dict) else []
    return bool(values) and all(issubclass(type(each), torch.Tensor) for each in values)


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a module by the names that they have in its state."""
    return {
        f"{path}.{name}" if path else name: tensor
        for path, each in modules_in(module)
        for kind in ("_parameters", "_buffers")
        for name, tensor in registered(each, kind).items()
        if isinstance(tensor, torch.Tensor)
    }


def _skipped(own: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> _Skipped | None:
    """Return what of a state fits nothing of the model, if all of it would by another beginning of the names."""
    rest = {name: tensor for name, tensor in given.items() if name not in own}
    lacking = {name: tensor for name, tensor in own.items() if name not in given}
    if any(type(each) is not str for each in given) or len(rest) < (_FEWEST if len(rest) == len(given) else _MANY):
        return None
    first = next(iter(rest))
    for name in lacking:
        longer, shorter = (first, name) if len(first) > len(name) else (name, first)
        if not longer.endswith(f".{shorter}"):
            continue
        extra = longer.removesuffix(shorter)
        if longer is first:
            fits = [each.removeprefix(extra) if each.startswith(extra) else "" for each in rest]
        else:
            fits = [extra + each for each in rest]
        pairs = zip(fits, rest.values(), strict=True)
        if all(each in lacking and lacking[each].shape == tensor.shape for each, tensor in pairs):
            return _Skipped(len(rest), extra, "") if longer is first else _Skipped(len(rest), "", extra)
    return None
