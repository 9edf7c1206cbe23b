"""BS160: a state is loaded whose names fit nothing of the model, which strict=False does not say."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FrameType

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around
from backsight.diagnosis.wording import counted, shown, warning
from backsight.naming import search
from backsight.source.body import callee, dotted, is_constant, keyword
from backsight.tape import modules_in, registered

CODES = ("BS160",)


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
        modules = _held(model, torch.nn.Module) if model else []
        states = [each for each in _held(state, dict) if _is_state(each)] if state else []
        if len(modules) != 1 or len(states) != 1 or not model or not state:
            continue
        own, given = _tensors(modules[0]), states[0]  # type: ignore[arg-type]
        prefix = _prefix(own, given)  # type: ignore[arg-type]
        if prefix is None:
            continue
        lacking, there = prefix
        names = f"they begin with {lacking!r} there" if lacking else f"they begin with {there!r} in the model"
        renamed = f"k.removeprefix({lacking!r})" if lacking else f"{there!r} + k"
        yield warning(
            "BS160",
            f"load_state_dict() loaded nothing of {state} into {model}: no name fits.",
            (
                shown(place, f"skips what does not fit, because of strict=False: all {counted(len(given), 'name')}."),  # type: ignore[arg-type]
                f"The names differ by a prefix: {names}.",
            ),
            f"Rename them: {ast.unparse(callee(call)[0] or call)}.load_state_dict({{{renamed}: v for k, v in "
            f"{state}.items()}}{', strict=False' if len(given) < len(own) else ''}).",  # type: ignore[arg-type]
            place,
            since=since,
        )


def _held(name: str, kind: type) -> list[object]:
    """Return the objects that a variable of this name holds, or an attribute whose last name it is."""
    last = name.split(".")[-1]
    found = {id(each): each for each, at in search((), collect=(kind,)).found if at.path.split(".")[-1] == last}
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


def _prefix(own: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> tuple[str, str] | None:
    """Return what all names of a state have in front of the model's, or the model's in front of these."""
    if any(type(each) is not str for each in given) or own.keys() & given.keys() or len(given) < 2:
        return None
    first = next(iter(given))
    for name in own:
        longer, shorter = (first, name) if len(first) > len(name) else (name, first)
        if not longer.endswith(f".{shorter}"):
            continue
        extra = longer.removesuffix(shorter)
        fits = [
            each.removeprefix(extra) if longer == first else extra + each
            for each in given
            if longer != first or each.startswith(extra)
        ]
        same = (own[n].shape == t.shape for n, t in zip(fits, given.values(), strict=False) if n in own)
        if len(fits) == len(given) and all(each in own for each in fits) and all(same):
            return (extra, "") if longer == first else ("", extra)
    return None
