"""BS168: a state is loaded whose names fit nothing of the model, which strict=False does not say."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, program_frames
from backsight.diagnosis.wording import shown, warning
from backsight.naming import search
from backsight.source import Body, Place, function_at
from backsight.source.body import callee, dotted, is_constant, keyword, statements
from backsight.tape import buffers_in, modules_in, parameters_in, registered
from backsight.tracing import Watch
from backsight.tracing.changes import version

CODES = ("BS168",)

_MOST = 16
_DEEPEST = 3
_OPEN = (ast.If, ast.For, ast.While, ast.Try, ast.Match)
"""Statements whose blocks may not have run."""

_FEWEST = 2
"""Names of a state none of which fits;"""
_MANY = 4
"""where others do: a layer alone may well have the name of another one."""


def unloaded(frame: FrameType, since: int, watch: Watch) -> Iterator[Finding]:
    """Yield the findings of `model.load_state_dict(state, strict=False)` that has loaded nothing of a state.

    What a state lacks may be meant. So if variables still hold it, what the model lacks has to be there under the same
    names behind a prefix, or without one, in the same shapes, and all of it. If not, all changes of the parameters have
    to be known from their beginning, and the statement has to be one that ran.
    """
    calls = [
        (body, statement, call, dotted(callee(call)[0]), dotted(call.args[0]))
        for body, statement, call in calls_around(frame)
        if callee(call)[1] == "load_state_dict" and call.args and is_constant(keyword(call, "strict"), False)
    ]
    for body, statement, call, model, state in calls:
        place = body.place(statement)
        modules: list[torch.nn.Module] = _held(model, torch.nn.Module) if model else []
        if len(modules) != 1 or not model:
            continue
        states: list[dict[str, torch.Tensor]] = list(filter(_is_state, _held(state, dict))) if state else []
        if not states and keyword(call, "assign") is None and _has_run(body, statement, frame):
            if _is_untouched(modules[0], watch):
                yield _of_unknown(place, model, since)
            continue
        if len(states) != 1 or not state:
            continue
        own, given = _tensors(modules[0]), states[0]
        found = _skipped(own, given)
        if found is not None:
            of = callee(call)[0] or call
            yield _finding(place, of, model, state, found, len(given), len(given) < len(own), since)


def _is_untouched(module: torch.nn.Module, watch: Watch) -> bool:
    """Whether all changes of the parameters are known, and none of them copied values: neither of the buffers."""
    held = list(parameters_in(module))[:_MOST]
    for each in held:
        changes = watch.changes(each)
        if not changes or changes[0].before != 0 or changes[-1].after != version(each):
            return False
        if any(change.op == "copy_" or change.kind in ("unseen", "data") for change in changes):
            return False
    buffers = [buffer for _, buffer in buffers_in(module)]
    return bool(held) and not any(change.op == "copy_" for each in buffers for change in watch.changes(each))


def _has_run(body: Body, statement: ast.stmt, frame: FrameType) -> bool:
    """Whether a statement, or the only call of the function around it, is one that a running function has passed."""
    running = {id(b.node): each.f_lineno for each in program_frames(frame) if (b := function_at(each.f_code))}
    for _ in range(_DEEPEST):
        if any(
            each.lineno < statement.lineno <= (each.end_lineno or 0) and isinstance(each, _OPEN)
            for each in statements(body.node)
        ):
            return False
        if id(body.node) in running:
            return statement.lineno < running[id(body.node)]
        name = getattr(body.node, "name", "")
        calls = [(b, s) for b, s, call in calls_around(frame) if name and callee(call)[1] == name]
        if len(calls) != 1:
            return False
        body, statement = calls[0]
    return False


def _of_unknown(place: Place, model: str, since: int) -> Finding:
    return warning(
        "BS168",
        f"load_state_dict() loaded nothing into {model}: no name fits.",
        (
            shown(place, "skips what does not fit, because of strict=False."),
            f"Nothing has been copied into any parameter or buffer of {model} since it was created.",
        ),
        "Print what load_state_dict() returns, the missing and unexpected names. If they differ by a prefix, such as "
        "'module.', remove it: {k.removeprefix('module.'): v for k, v in state.items()}.",
        place,
        since=since,
    )


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
    first = f"they begin with {found.extra!r} there" if found.extra else f"in the model with {found.missing!r}"
    renamed = f"k.removeprefix({found.extra!r})" if found.extra else f"{found.missing!r} + k"
    loose = ", strict=False" if strict or not every else ""
    return warning(
        "BS168",
        f"load_state_dict() loaded nothing of {state} into {name}: no name fits."
        if every
        else f"load_state_dict() skipped {found.names} of the {entries} names of {state}: they do not fit {name}.",
        (
            shown(
                place,
                "skips what does not fit, because of strict=False: "
                + (f"all {entries} names." if every else f"{found.names} names."),
            ),
            f"The names differ by a prefix: {first}.",
        ),
        f"Rename them: {ast.unparse(model)}.load_state_dict({{{renamed}: v for k, v in {state}.items()}}{loose})."
        if every
        else f"Rename them before loading: {renamed} for each name k of these.",
        place,
        since=since,
    )


def _held(name: str, kind: type) -> list[Any]:
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
