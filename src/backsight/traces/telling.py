"""Origins in sentences: one finding for each class and code, the gravest first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from math import isfinite

from backsight.findings import Finding, Severity
from backsight.findings.evidence import Evidence
from backsight.source import Place as Statement
from backsight.text import counted
from backsight.traces.difference import shown
from backsight.traces.distance import Distances
from backsight.traces.judging import Class, Judged, call
from backsight.traces.origins import Origin
from backsight.traces.pairing import RANDOM, plain_name
from backsight.traces.records import Place, Trace, Variables
from backsight.traces.remedy import alike, statement_of, written_at

_SEVERITY: dict[Class, Severity] = {"semantics": "error", "precision": "warning", "noise": "note"}
_MOST_ULPS = 1e6
"""Units in the last place beyond which nobody counts them."""

Called = tuple[Variables, Variables]
"""What both programs call their models."""

_RANK: tuple[Class, ...] = ("semantics", "precision", "noise")

_FIXES = {
    "BS501": "Make both programs call the same operation with the same arguments here, and compare again.",
    "BS502": "To look for bugs, compare at one precision: autocast off, and the same matmul precision in both.",
    "BS503": "",
    "BS504": "Start both from one state_dict, or seed both before the model is built; a resumed training must load "
    "weights, optimizer, scheduler and random state.",
    "BS505": "Give both the same batch: the same seed, order of the data and augmentation.",
    "BS506": "Seed both with torch.manual_seed, and draw the same numbers in the same order; or disable dropout.",
    "BS507": "Check the backward with backsight.verify(function, ...).",
    "BS508": "Unless that is intended, give both optimizers the same hyperparameters and state.",
}

_OF_RANKS = (
    "Average gradients over ranks, as DistributedDataParallel does, and give each rank its own part of one batch; a "
    "loss that is a sum wants a sum."
)


def findings(judged: Sequence[Judged], distances: Distances) -> tuple[Finding, ...]:
    """Return a finding for the first origin of each code, the gravest class first."""
    firsts: dict[str, Judged] = {}
    parted = min((each.origin.step for each in judged if each.cls != "noise"), default=0)
    for each in judged:
        if each.cls == "noise" or each.origin.step == parted or not _inherits(each.origin, distances):
            firsts.setdefault(each.code, each)
    ranked = sorted(firsts.values(), key=lambda each: _RANK.index(each.cls))
    return tuple(_finding(each, [one for one in judged if one.code == each.code], distances) for each in ranked)


def _inherits(origin: Origin, distances: Distances) -> bool:
    """Whether an earlier step may be why a result differs: it is computed from what differs already."""
    if _takes_others(origin):
        first, second = (t.values[n].name for t, n in zip((distances.a, distances.b), origin.values, strict=True))
        return bool(first) and first == second  # the same weight, which an earlier step has updated otherwise
    return origin.before > 0 and not origin.decides


def _takes_others(origin: Origin) -> bool:
    """Whether both programs call the same operations, on other tensors."""
    return origin.kind == "program" and not origin.only_a and not origin.only_b


def _finding(judged: Judged, others: Sequence[Judged], distances: Distances) -> Finding:
    """others: it, and all others of its code."""
    origin = judged.origin
    called = distances.a.called, distances.b.called
    title = _title(judged, called)
    setting = _setting(judged)
    first = setting or origin.kind == "start"
    reasons = judged.reasons[1:] if first else judged.reasons  # the title says the first
    reasons = tuple(each for each in reasons if not _repeats(each, title, inside(origin, called)))
    unheld = _unheld(setting)
    evidence: list[Evidence | str] = [*_lines(origin, unheld), *map(_sentence, reasons), _size(origin)]
    if values := _values(origin, distances.a, distances.b):
        evidence.append(values)
    evidence.extend(_elsewhere(origin.step, others, distances.a))
    written = written_at(origin)
    place = written[1] or written[0] or origin.places[1] or origin.places[0]
    return Finding(
        judged.code,
        _SEVERITY[judged.cls],
        title,
        tuple(evidence),
        judged.fix or (_OF_RANKS if _is_of_ranks(origin) else _fix(judged)),
        source=_source(place) if place else None,
        exact=origin.apart.exact or not origin.rounds,
        since=None,
    )


def _fix(judged: Judged) -> str:
    return (alike(judged) if judged.code == "BS501" else "") or _FIXES[judged.code]


def _elsewhere(step: int, others: Sequence[Judged], a: Trace) -> Iterator[str]:
    """Say how often the same happens: in what calls of the step, or to what parameters where all of them update one.

    Later steps do not count: most of what differs there is inherited, which only the first step tells apart.
    """
    names = {a.values[each.origin.values[0]].name if each.origin.a else "" for each in others}
    if len(names) > 1 and all(name.startswith("weight ") for name in names):
        yield f"The same happens to {counted(len(names) - 1, 'more parameter')}."
    elif more := sum(each.origin.step == step for each in others) - 1:
        what = "more call" if all(each.origin.a is not None for each in others) else "more place"
        yield f"The same happens in {counted(more, what)} of step {step}."


def _repeats(reason: str, title: str, inside: str) -> bool:
    """Whether a title says a reason already: `only A calls relu`, or `A calls relu where B calls gelu`."""
    called = reason.removeprefix("only ") if reason.startswith(("only A calls ", "only B calls ")) else ""
    either = bool(called) and (f": {called} where " in title or f" where {called}{inside}." in title)
    return f": {reason}{inside}." in title or either


def _setting(judged: Judged) -> str:
    """The setting of the optimizer that makes an update differ: it is the cause, whichever operation shows it first."""
    reason = judged.reasons[0] if judged.code == "BS508" and judged.reasons else ""
    is_setting = " of the optimizer is " in reason or reason.startswith("the optimizer is ")
    return reason if is_setting or _unheld(reason) else ""


def _unheld(reason: str) -> str:
    """Which program, A or B, has no optimizer that holds a parameter; empty if both have."""
    match = re.match(r"no optimizer of ([AB]) holds ", reason)
    return match[1] if match else ""


def _is_of_ranks(origin: Origin) -> bool:
    return origin.kind == "held" and origin.phase == "backward" and not origin.rounds


def _source(place: Place) -> str:
    here = os.getcwd() + os.sep
    return f"{place.file.removeprefix(here)}:{place.line}"


def _title(judged: Judged, called: Called) -> str:
    origin = judged.origin
    if origin.kind == "start":
        return f"The trainings start from different values: {judged.reasons[0]}."
    where = f"in step {origin.step}, {origin.phase}"
    if origin.kind == "input":
        taker = f"{origin.a.short}{inside(origin, called)}" if origin.a is not None else "the step"
        if judged.cls == "noise":
            return f"The batch comes in other parts {where}: {taker} receives a different tensor."
        return f"The data differ {where}: {taker} receives a different tensor."
    if judged.code == "BS505" and origin.a is not None:
        picked = origin.a if origin.kind == "operation" else (*origin.only_a, *origin.only_b, origin.a)[0]
        does = "draws a different order" if plain_name(picked.op) in RANDOM else "picks different samples"
        return f"{_first(judged)} {where}: {picked.short} {does}."
    if setting := _setting(judged):
        return f"{_first(judged)} in step {origin.step}: {setting}."
    if origin.kind == "held":
        return f"{_first(judged)} {where}: the {_held(origin, called[0])} differs."
    if origin.kind == "program":
        return f"{_first(judged)} {where}: {_called(origin)}{inside(origin, called)}."
    assert origin.a is not None
    return f"{_first(judged)} {where}: {origin.a.short}{inside(origin, called)}."


def _held(origin: Origin, called: Variables) -> str:
    kind, _, name = called.held(origin.names[0]).partition(" ")
    return f"gradient of {name}" if kind == "grad" else f"{kind} {name}"


def _called(origin: Origin) -> str:
    """Say what one program calls and the other does not."""
    ours, theirs = (call(each[-1]) if each else "" for each in (origin.only_a, origin.only_b))
    if ours and theirs:
        return f"A calls {ours} where B calls {theirs}"
    if ours or theirs:
        return f"only {'A' if ours else 'B'} calls {ours or theirs}"
    return f"{origin.a.short if origin.a is not None else 'the step'} uses different tensors"


def _first(judged: Judged) -> str:
    return {
        "BS501": "The programs diverge",
        "BS502": "The precision differs",
        "BS503": "Rounding differs",
        "BS505": "The data differ",
        "BS506": "The random numbers differ",
        "BS507": "The backward passes diverge",
        "BS508": "The updates diverge",
    }[judged.code]


def inside(origin: Origin, called: Called) -> str:
    """Return ` in module net.0`: where an origin is, as its program calls that."""
    alone = (*origin.only_a, *origin.only_b)
    module = alone[-1].module if alone else origin.a.module if origin.a is not None else ""
    return f" in module {called[bool(origin.only_b)](module)}" if module else ""


def _lines(origin: Origin, unheld: str) -> list[Evidence]:
    """Show the lines of an origin; `unheld` is the program that does nothing there."""
    if any(written_at(origin)):
        return _settings(origin)
    first, second = origin.places
    if first and (first.file, first.line, first.text) == (second.file, second.line, second.text):
        return [Evidence("runs in both.", _statement(first))]
    found = []
    for name, place in zip(("A", "B"), origin.places, strict=True):
        if place and name != unheld:
            found.append(Evidence(f"runs in {name}.", _statement(place)))
    return found


def _settings(origin: Origin) -> list[Evidence]:
    """Show where an argument that differs is set, as where a module is made; else where the operation runs."""
    found = []
    for name, place, runs in zip(("A", "B"), written_at(origin), origin.places, strict=True):
        if place and (written := statement_of(place)) is not None:
            found.append(Evidence(f"sets `{origin.arguments[0][0]}` in {name}.", written))
        elif runs:
            found.append(Evidence(f"runs in {name}.", _statement(runs)))
    return found


def _statement(place: Place) -> Statement:
    return Statement(place.file, place.line, place.text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _size(origin: Origin) -> str:
    before = (
        "The inputs agree to the last bit"
        if not origin.before
        else f"The relative difference of the inputs is {shown(origin.before)}"
    )
    if origin.kind in ("start", "input", "held"):
        return f"The relative difference of the values is {shown(origin.apart.relative)}."
    if _takes_others(origin) and isfinite(origin.apart.relative):
        return f"The relative difference of the results is {shown(origin.apart.relative)}."
    if origin.by_values:
        return "What this takes is in both programs, in whatever order and shape; what it makes is only in one."
    if not isfinite(origin.apart.relative):
        return f"{before}; the results have different shapes, or are NaN or infinite in different places."
    several = origin.apart.ulps is not None and 1 <= origin.apart.ulps <= _MOST_ULPS
    ulps = f" (at most {origin.apart.ulps:,.0f} units in the last place)" if several else ""
    return (
        f"{before}; the relative difference of the results is {shown(origin.apart.relative)}{ulps}; rounding explains "
        f"up to {shown(origin.allowed)}."
    )


def _values(origin: Origin, a: Trace, b: Trace) -> str:
    rows = []
    for name, trace, number in (("A", a, origin.values[0]), ("B", b, origin.values[1])):
        value = trace.values[number]
        if value.mark < 0:
            return ""
        row = trace.prints[value.mark]["stats"]
        numbers = f"mean {row['mean']:.6g}, min {row['min']:.6g}, max {row['max']:.6g}"
        rows.append(f"{name}: {value.dtype}{list(value.shape)} {numbers}")
    return "\n".join(rows)
