"""What an origin is: noise, precision or semantics, under which code, and for what reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from backsight.traces.distance import Distances, factor, norm
from backsight.traces.exactly import Exactly, measured_exactly
from backsight.traces.origins import UNSEEN, Origin
from backsight.traces.pairing import RANDOM, VIEWS, plain_name
from backsight.traces.records import Made, Operation, Place, Trace, Value

Class = Literal["noise", "precision", "semantics"]

CODES = {
    "BS501": "an operation computes something different",
    "BS502": "an operation runs in a different precision",
    "BS503": "results differ only by rounding",
    "BS504": "the trainings start from different weights, buffers or optimizer state",
    "BS505": "the trainings receive different data",
    "BS506": "the trainings draw different random numbers",
    "BS507": "the backward pass differs, though the forward pass agrees",
    "BS508": "the optimizer updates the weights differently",
}

_FLOATS = ("float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")

_COARSE = 2.0**-6
"""The relative difference beyond which no precision of a matrix product explains it."""


_RELATED = 0.5
"""The relative difference below which two tensors are the same one in another precision, and not two drawn ones."""

_DEEPEST = 50
"""Views of one another that are followed."""

_AT_ONE_PRECISION = "Make it in float32 in both, and cast where it is used."
_ZEROED_ALIKE = "Call zero_grad() at the same places in both."
_STARTS = "aten.ones_like.default"
"""What a backward pass begins with."""

_INITIALIZE_ALIKE = "Initialize these in the same way in both, or start both from one state_dict."


@dataclass(frozen=True)
class Judged:
    """An origin with its class, its code, and the reasons, most telling first; `fix`, where it is not that of the
    code."""

    origin: Origin
    cls: Class
    code: str
    reasons: tuple[str, ...]
    fix: str = ""


def judged(origin: Origin, distances: Distances, settled: bool, renamed: Mapping[str, str]) -> Judged:
    """Judge an origin.

    settled: whether what comes of it, the loss and the gradients, agrees but for rounding; renamed: what modules of A
    are called in B.
    """
    found = _judged(origin, distances, settled)
    if found.cls != "semantics" or not (mode := [*modes(origin, distances.a, distances.b, renamed)]):
        return found
    code = _code(origin) if found.code == "BS506" else found.code
    return Judged(origin, "semantics", code, (*mode, *found.reasons))


def _judged(origin: Origin, distances: Distances, settled: bool) -> Judged:
    a, b = distances.a, distances.b
    if origin.kind == "start":
        return _of_start(origin, a, b)
    if origin.kind == "input":
        return Judged(origin, "semantics", "BS505", (*_data(origin, a, b), *_of_generators(origin.step, a, b)))
    if reasons := [*_dtypes(origin, a, b)]:
        return Judged(origin, "precision", "BS502", tuple(reasons))
    random = _random(origin)
    if random and [name for name, *_ in origin.arguments] == ["generator"]:
        return Judged(origin, "semantics", "BS506", tuple(_arguments(origin)))
    update = [*_hyperparameters(origin.step, a, b)] if origin.phase == "optimizer" else []
    if update:  # and numbers that the optimizer computed of them are no cause
        return Judged(origin, "semantics", "BS508", (*update, *_taken(origin, a, b)))
    if origin.phase == "optimizer" and origin.before and not origin.decides:
        return Judged(origin, "noise", "BS503", ("the gradients differ by rounding, and the update amplifies it",))
    exactly = measured_exactly(origin, distances) if not random else None
    if exactly is not None and exactly.same_formula and exactly.equally_good and not origin.decides:
        return Judged(origin, "noise", "BS503", (_float64(exactly), *_arguments(origin), *_added(origin)))
    if not origin.rounds and not settled and (accumulated := _accumulated(origin, a, b)) is not None:
        return accumulated
    if reasons := [*_arguments(origin), *_added(origin), *_taken(origin, a, b)]:
        if origin.rounds and not origin.decides:
            return Judged(origin, "noise", "BS503", (_reordered(origin, a, b), *reasons[:2]))
        if settled and not origin.decides:
            again = "everything computed from it agrees again, up to rounding: different operations for the same result"
            return Judged(origin, "noise", "BS503", (again, *reasons[:2]))
        return Judged(origin, "semantics", _code(origin), (*reasons, *_numbers(origin, a, b)))
    if random:
        drawn = _devices(origin, a, b)
        told = () if drawn is None else (f"{drawn}: their generators draw other numbers, whatever the seed",)
        return Judged(
            origin, "semantics", "BS506", (*told, *_of_generators(origin.step, a, b), *_numbers(origin, a, b))
        )
    device = _devices(origin, a, b)
    if origin.rounds or settled:
        return Judged(origin, "noise", "BS503", (device or _reordered(origin, a, b),))
    if origin.apart.relative < _COARSE and (
        precision := [*([device] if device is not None else []), *_precision(origin.step, a, b)]
    ):
        return Judged(origin, "precision", "BS502", tuple(precision))
    why = [] if exactly is None or exactly.equally_good else [_float64(exactly)]
    why += _numbers(origin, a, b)
    return Judged(origin, "semantics", _code(origin), tuple(why) or ("the arguments are the same",))


def _float64(exactly: Exactly) -> str:
    """Say how far both results are from what float64 makes of the same inputs."""
    ours, theirs = exactly.errors
    if exactly.equally_good:
        return f"in float64 both compute the same: A is a relative {ours:.1e} from it and B {theirs:.1e}"
    return f"A is a relative {ours:.1e} from the result in float64, and B {theirs:.1e}"


def _code(origin: Origin) -> str:
    return {"optimizer": "BS508", "backward": "BS507"}.get(origin.phase, "BS501")


def _random(origin: Origin) -> bool:
    named = [each for each in (origin.a, *origin.only_a, *origin.only_b) if each is not None]
    return any(plain_name(each.op) in RANDOM for each in (named if origin.kind == "program" else named[:1]))


def _arguments(origin: Origin) -> Iterator[str]:
    for name, ours, theirs in origin.arguments:
        yield f"`{name}` is {shown_argument(ours)} in A and {shown_argument(theirs)} in B"


def _taken(origin: Origin, a: Trace, b: Trace) -> Iterator[str]:
    """Say which tensors an operation takes, where both programs have the same operations and use them otherwise."""
    if origin.kind == "program" and not origin.only_a and not origin.only_b:
        ours, theirs = (_named(trace, number) for trace, number in zip((a, b), origin.values, strict=True))
        if ours and theirs and ours[0] != theirs[0]:
            yield f"it takes {ours[1]} in A and {theirs[1]} in B"
        else:
            yield "it takes a different tensor in B than in A"


def _named(trace: Trace, number: int) -> tuple[str, str] | None:
    """Return the name of a value, or of what it looks into, or else the operation that made it: as the trace has it,
    and as the program does."""
    makers = {each.number: each for each in trace.operations}
    for _ in range(_DEEPEST):
        value = trace.values[number]
        maker = makers.get(value.maker)
        if value.name or maker is None:
            return (value.name, trace.called.held(value.name)) if value.name else None
        if not (plain_name(maker.op) in VIEWS and len(maker.inputs) == 1):
            modules = (maker.module, trace.called(maker.module)) if maker.module else ("", "")
            of = [f"the result of {maker.short}" + (f" in {each}" if each else "") for each in modules]
            return of[0], of[1]
        number = maker.inputs[0]
    return None


def modes(origin: Origin, a: Trace, b: Trace, renamed: Mapping[str, str]) -> Iterator[str]:
    """Say that a module trains in one program and evaluates in the other, where that decides on an operation.

    renamed: what modules of A are called in B.
    """
    back = {theirs: ours for ours, theirs in renamed.items()}
    for mine, names, others in (
        ((*origin.only_a, origin.a), renamed, False),
        ((*origin.only_b, origin.b), back, True),
    ):
        for operation in mine:
            if operation is None or not _depends_on_mode(operation):
                continue
            module, other = operation.module, names.get(operation.module, operation.module)
            ours, theirs = (other, module) if others else (module, other)
            evaluating = _evaluates(a, origin.step, ours), _evaluates(b, origin.step, theirs)
            if evaluating[0] != evaluating[1]:
                told = ["evaluation" if each else "training" for each in evaluating]
                name = f"module {(b if others else a).called(module)}" if module else "the model"
                yield f"{name} is in {told[0]} mode in A and in {told[1]} mode in B"
                return


def _evaluates(trace: Trace, step: int, module: str) -> bool:
    """Whether a module is in evaluation mode; of one that a program does not have, whether the model is."""
    known = any(each.module == module for each in trace.operations)
    return (module if known else "") in trace.settings.get(step, {}).get("evaluating", [])


def _depends_on_mode(operation: Operation) -> bool:
    return plain_name(operation.op) in RANDOM or bool(operation.given.keys() & {"training", "train"})


def _added(origin: Origin) -> Iterator[str]:
    """Say what only one of the programs does."""
    if origin.kind != "program":
        return
    for name, mine in (("A", origin.only_a), ("B", origin.only_b)):
        if telling := [each for each in mine if plain_name(each.op) not in VIEWS] or list(mine):
            listed = ", ".join(dict.fromkeys(map(call, telling[-4:])))
            yield f"only {name} calls {listed}" + ("" if len(telling) <= 4 else f" and {len(telling) - 4:,} more")
    yield from _reductions(origin)


def _accumulated(origin: Origin, a: Trace, b: Trace) -> Judged | None:
    """Return the origin where only one program adds to a gradient that an earlier backward pass has left."""
    alone = origin.only_a or origin.only_b
    one_sided = origin.kind == "program" and bool(origin.only_a) != bool(origin.only_b)
    if not one_sided or any(each.node != "AccumulateGrad" for each in alone):
        return None
    in_a = bool(origin.only_a)
    name, other, trace, value = ("A", "B", a, origin.values[0]) if in_a else ("B", "A", b, origin.values[1])
    of = next(
        (f"of {trace.called(each.name)} " for each in trace.held if (each.kind, each.value) == ("grad", value)), ""
    )
    said = f"only {name} adds to a gradient {of}that an earlier backward pass has left; {other} zeroed it before"
    starts = [each.place for each in trace.operations if each.number < alone[0].number and each.op == _STARTS]
    line = starts[-1] if starts else Place()
    at = (line, origin.at[1]) if in_a else (origin.at[0], line)
    return Judged(replace(origin, at=at), "semantics", "BS507", (said, *_numbers(origin, a, b)), _ZEROED_ALIKE)


_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def _reductions(origin: Origin) -> Iterator[str]:
    """Say that a loss is a mean in one program and a sum in the other."""
    ours, theirs = (
        {
            each.short: _REDUCTIONS.get(each.given["reduction"])
            for each in mine
            if type(each.given.get("reduction")) is int
        }
        for mine in (origin.only_a, origin.only_b)
    )
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name]:
            yield f"the reduction of {name} is {ours[name]} in A and {theirs[name]} in B"


def call(operation: Operation) -> str:
    """Return an operation as a call, with the numbers that it is given: `mul(0.125)`."""
    plain = [each for each in operation.given.values() if isinstance(each, (bool, int, float))]
    return f"{operation.short}({', '.join(map(shown_argument, plain[:3]))})" if plain else operation.short


def shown_argument(given: Any) -> str:
    """Return an argument or hyperparameter as text."""
    if given is None:
        return "not given"
    return f"{given:.6g}" if isinstance(given, float) else str(given)


def _dtypes(origin: Origin, a: Trace, b: Trace) -> Iterator[str]:
    x, y = a.values[origin.values[0]], b.values[origin.values[1]]
    if x.dtype != y.dtype and x.dtype in _FLOATS and y.dtype in _FLOATS:
        yield f"the result is {x.dtype} in A and {y.dtype} in B"
    for name, mine in (("A", origin.only_a), ("B", origin.only_b)):
        casts = [
            each for each in mine if plain_name(each.op) in ("_to_copy", "to") and each.given.get("dtype") in _FLOATS
        ]
        others = [each for each in (origin.only_b if name == "A" else origin.only_a) if each not in casts]
        if casts and not others and all(plain_name(each.op) in _CASTS for each in mine):
            dtypes = dict.fromkeys(str(each.given["dtype"]) for each in casts)
            yield f"only {name} casts to {' and '.join(dtypes)}"


_CASTS = VIEWS | {"_to_copy", "to", "clone"}


def _reordered(origin: Origin, a: Trace, b: Trace) -> str:
    threads = [trace.settings.get(origin.step, {}).get("threads") for trace in (a, b)]
    if threads[0] != threads[1]:
        return f"a different order of a sum: {threads[0]} threads in A and {threads[1]} in B"
    return "a different order of a reduction, or a different algorithm for the same result"


def _of_start(origin: Origin, a: Trace, b: Trace) -> Judged:
    """Judge what was different as the step began."""
    made = _made(origin, a, b)
    said = [*_start(origin, a, b)]
    if origin.lost:
        said.append(f"it agreed at the end of step {origin.step - 1}: one of them was replaced since, or not restored")
    said += _written(made)
    held = [trace.values[number].dtype for trace, number in zip((a, b), origin.values, strict=True)]
    if held[0] != held[1] and set(held) <= set(_FLOATS) and origin.apart.relative < _RELATED:
        told = f"it is {held[0]} in A and {held[1]} in B"
        return Judged(origin, "precision", "BS502", (said[0], told, *said[1:]), _AT_ONE_PRECISION)
    dtypes = [each.rounded for each in made]
    if bool(dtypes[0]) != bool(dtypes[1]) and origin.apart.relative < _RELATED:
        name, dtype = ("A", dtypes[0]) if dtypes[0] else ("B", dtypes[1])
        rounded = f"the numbers of {name} are rounded to {dtype}, though their dtype is float32"
        return Judged(origin, "precision", "BS502", (said[0], rounded, *said[1:]), _AT_ONE_PRECISION)
    if origin.seeded_alike:
        what = "tensor is" if origin.seeded_alike == 1 else "tensors are"
        said.append(f"{origin.seeded_alike:,} other {what} drawn at random and the same in both: the seed is the same")
        return Judged(origin, "semantics", "BS504", (*said, *_hyperparameters(origin.step, a, b)), _INITIALIZE_ALIKE)
    return Judged(origin, "semantics", "BS504", (*said, *_settings(origin.step, a, b)))


def _made(origin: Origin, a: Trace, b: Trace) -> list[Made]:
    return [trace.made.get(number, UNSEEN) for trace, number in zip((a, b), origin.values, strict=True)]


def _written(made: Sequence[Made]) -> list[str]:
    """Say what wrote two values last, where it was called otherwise."""
    said = [f"{name}: written last by {each.call}" for name, each in zip("AB", made, strict=True) if each.call]
    return ["; ".join(said)] if len({each.call for each in made} - {""}) > 1 else []


def _start(origin: Origin, a: Trace, b: Trace) -> Iterator[str]:
    x, y = (trace.values[number] for trace, number in zip((a, b), origin.values, strict=True))
    count = len(origin.names)
    listed = ", ".join(map(a.called.held, origin.names[:3])) + (f" and {count - 3:,} more" if count > 3 else "")
    yield f"at the start of step {origin.step} {listed} differ{'s' if count == 1 else ''}"
    yield from _values(x, y, a, b)


def _data(origin: Origin, a: Trace, b: Trace) -> Iterator[str]:
    x, y = (trace.values[number] for trace, number in zip((a, b), origin.values, strict=True))
    yield "the tensor comes from outside the step, and no module or optimizer holds it"
    yield from _written(_made(origin, a, b))
    yield from _values(x, y, a, b)


def _numbers(origin: Origin, a: Trace, b: Trace) -> Iterator[str]:
    x, y = (trace.values[number] for trace, number in zip((a, b), origin.values, strict=True))
    yield from _values(x, y, a, b)


def _values(x: Value, y: Value, a: Trace, b: Trace) -> Iterator[str]:
    """Say what the numbers show of how two values differ."""
    if x.shape != y.shape:
        yield f"the shape is {list(x.shape)} in A and {list(y.shape)} in B"
    if x.mark < 0 or y.mark < 0:
        return
    p, q = a.prints[x.mark]["stats"], b.prints[y.mark]["stats"]
    if _reordered_values(p, q):
        yield "the same numbers in another order"
        return
    if (ratio := factor(a, b, x, y)) is not None:
        yield f"B is A times {ratio:.4g}"
        return
    if p["count"] == q["count"] and abs(int(p["zeros"]) - int(q["zeros"])) > max(1, 0.01 * int(p["count"])):
        yield f"{p['zeros'] / p['count']:.0%} of the elements are 0 in A and {q['zeros'] / q['count']:.0%} in B"
    for name, what in (("nans", "NaN"), ("infs", "infinite")):
        if p[name] != q[name]:
            yield f"{p[name]:,} elements are {what} in A and {q[name]:,} in B"
    sizes = norm(a, x), norm(b, y)
    if min(sizes) > 0 and not 0.9 < sizes[0] / sizes[1] < 1.1:
        yield f"the norm is {sizes[0]:.4g} in A and {sizes[1]:.4g} in B"


def _reordered_values(p: Any, q: Any) -> bool:
    """Whether statistics are those of the same numbers."""
    alike = all(p[name] == q[name] for name in ("count", "min", "max", "zeros")) and p["count"] > 2
    return bool(alike and p["min"] < p["max"] and abs(p["m2"] - q["m2"]) <= 1e-6 * max(p["m2"], q["m2"]))


def _settings(step: int, a: Trace, b: Trace) -> Iterator[str]:
    yield from _hyperparameters(step, a, b)
    yield from _of_generators(step, a, b)


def _hyperparameters(step: int, a: Trace, b: Trace) -> Iterator[str]:
    ours, theirs = (trace.settings.get(step, {}).get("optimizers", []) for trace in (a, b))
    for x, y in zip(ours, theirs, strict=False):
        if x["class"] != y["class"]:
            yield f"the optimizer is {x['class']} in A and {y['class']} in B"
        for p, q in zip(x["groups"], y["groups"], strict=False):
            for name in [each for each in p if each in q]:
                if p[name] != q[name] and name not in UNIMPORTANT and _values_of(x, name) != _values_of(y, name):
                    said = [shown_argument(each[name]) for each in (p, q)]
                    yield f"`{name}` of the optimizer is {said[0]} in A and {said[1]} in B"


def hyperparameters_differ(step: int, a: Trace, b: Trace) -> bool:
    """Whether optimizers of the same class are given other hyperparameters, in whatever order their groups come."""
    ours, theirs = (trace.settings.get(step, {}).get("optimizers", []) for trace in (a, b))
    return any(
        x["class"] == y["class"]
        and x["groups"]
        and y["groups"]
        and any(
            _values_of(x, name) != _values_of(y, name)
            for name in set.intersection(*(set(each) for each in (*x["groups"], *y["groups"]))) - UNIMPORTANT
        )
        for x, y in zip(ours, theirs, strict=False)
    )


def _values_of(optimizer: Mapping[str, Any], name: str) -> set[str]:
    """Return what the groups of an optimizer have as a hyperparameter, in whatever order they come."""
    return {repr(each.get(name)) for each in optimizer["groups"]}


UNIMPORTANT = {"foreach", "fused", "capturable", "differentiable", "initial_lr"}
"""Hyperparameters that do not change what is computed."""


def _of_generators(step: int, a: Trace, b: Trace) -> Iterator[str]:
    ours, theirs = (trace.settings.get(step, {}).get("random state", {}) for trace in (a, b))
    for name, text in (("torch", "PyTorch's"), ("numpy", "NumPy's"), ("python", "Python's")):
        if ours.get(name) != theirs.get(name) and any(_is_used(name, trace, step) for trace in (a, b)):
            yield f"the state of {text} random generator differs as step {step} begins"
            return


def _is_used(generator: str, trace: Trace, step: int) -> bool:
    """Whether a program has seeded or drawn from a generator by the end of a step: all begin in states of their own."""
    held = trace.settings.get(step, {})
    states = [trace.head.get("random state", {}), held.get("random state", {}), held.get("random state at the end", {})]
    known = [each[generator] for each in states if generator in each]
    return generator == "torch" or len(known) < 2 or len(set(known)) > 1


def _devices(origin: Origin, a: Trace, b: Trace) -> str | None:
    """Say that a result is of another kind of device in B."""
    x, y = (trace.values[each].device.partition(":")[0] for trace, each in zip((a, b), origin.values, strict=True))
    return f"the device is {x} in A and {y} in B" if x != y else None


def _precision(step: int, a: Trace, b: Trace) -> Iterator[str]:
    ours, theirs = (trace.settings.get(step, {}) for trace in (a, b))
    for name in ("float32 matmul precision", "TF32 in cuBLAS", "TF32 in cuDNN"):
        if ours.get(name) != theirs.get(name):
            yield f"{name} is {ours.get(name)} in A and {theirs.get(name)} in B"
