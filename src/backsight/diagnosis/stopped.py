"""BS141: a gradient that becomes zero in an operation, whatever it is given: where, why, and what to do."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.parallel import DistributedDataParallel

from backsight.diagnosis.amending import gone, written
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, method_of
from backsight.diagnosis.wording import if_known, listed, numbered, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place, only, statements_of
from backsight.source.body import callee, dotted
from backsight.source.edits import OR
from backsight.source.imports import library
from backsight.tape import parameters_in
from backsight.tracing import Operation, Stop, Watch


class _Kind(NamedTuple):
    """What an operation is called, why it passes on zeros, and what to do; `{factor}` is what it multiplies by."""

    name: str
    why: str
    fix: str


_CLAMP = _Kind(
    "clamp",
    "every value lies outside its bounds, where its slope is zero",
    "Train on the values before the clamp, and clamp for metrics and display only. Or use bounds that contain the "
    "values, or a sigmoid scaled to the bounds: low + (high - low) * torch.sigmoid(x).",
)
_RELU = _Kind(
    "ReLU",
    "all of its inputs are negative, where its slope is zero: its units are dead",
    "Start the layer before it with a bias of 0 and weights from torch.nn.init.kaiming_normal_, scale its inputs, or "
    "lower the learning rate. Or use a leaky ReLU or GELU.",
)
_BOUNDED = (
    "every result is at a bound, where its slope rounds to zero",
    "Scale the inputs or start with smaller weights, so that the values before it lie between about -4 and 4; or add a "
    "normalization layer.",
)
_FLAT = (
    "its slope is zero",
    "Compute the loss from the value before it. Or pass the gradient straight through: x + (hard - x).detach().",
)
_SAMPLE = (
    "a sample has no gradient to what it is drawn from",
    "Sample with reparametrization, such as mean + std * torch.randn_like(std) or rsample() of a distribution; or "
    "train with log_prob() of the sample.",
)
_MASK = (
    "its mask covers every value that gets a gradient",
    "Check the mask: it may be inverted, computed before its data, or compared with the wrong dimension.",
)
_ZEROS = (
    "{factor} is zero wherever a gradient arrives",
    "Find out why that is zero: a mask that keeps nothing, an integer division, or weights that start at zero. Of two "
    "factors that are trained, only one may start at zero.",
)

_UNDERFLOW = _Kind(
    "a cast to float16",
    "it casts the gradient to float16, where everything below 3e-8 rounds to zero",
    "Scale the loss: scaler = torch.amp.GradScaler(), then scaler.scale(loss).backward(), scaler.step(optimizer) and "
    "scaler.update(). Or use bfloat16, whose smallest numbers are those of float32.",
)
_CASTS = frozenset({"ToCopy"})
_STUCK = (
    "both factors are zero, so each makes the gradient of the other zero, and neither ever changes",
    "Start only one of the two factors at zero: let {factor} start from small random values.",
)
_ONE = (
    "its dimension {dim} has size 1, so every result is 1, whatever the scores are",
    "Apply it to the dimension of what competes, here perhaps dim={other}, of size {size}.",
    "With one score for each row, use a sigmoid; or let the layer before it return one score for each class.",
)
"""Of a softmax over one entry: why, and what to do where another dimension has more, or none has."""

_OF_ZEROS = (
    "its input is all zeros",
    "Look at what goes in there: a buffer that is never filled, a mask that keeps nothing, or units that are dead. If "
    "zeros belong there, as the point 0 of a boundary condition, look whether the other terms of the loss reach it.",
)
"""Of a layer whose weight gets zeros."""

_KINDS = {
    **dict.fromkeys(("Clamp", "ClampMin", "ClampMax"), _CLAMP),
    "Hardtanh": _Kind("hardtanh", _CLAMP.why, _CLAMP.fix),
    "Hardsigmoid": _Kind("hardsigmoid", _CLAMP.why, _CLAMP.fix),
    "Relu": _RELU,
    "Threshold": _Kind("threshold", _RELU.why, _RELU.fix),
    "Tanh": _Kind("tanh", *_BOUNDED),
    "Sigmoid": _Kind("sigmoid", *_BOUNDED),
    "Softmax": _Kind(
        "softmax",
        "its results are exactly 0 or 1, where its slope is zero",
        "Divide the scores by a temperature, or scale what they are computed from.",
    ),
    **{op: _Kind(op.lower(), *_FLAT) for op in ("Round", "Floor", "Ceil", "Trunc", "Sign", "Heaviside")},
    **{op: _Kind(op.lower(), *_SAMPLE) for op in ("Normal", "Bernoulli", "Poisson")},
    "Where": _Kind("where", "its condition takes the other side everywhere", _MASK[1]),
    **dict.fromkeys(("MaskedFill", "MaskedScatter"), _Kind("masked_fill", *_MASK)),
    "Mul": _Kind("the product", *_ZEROS),
    **dict.fromkeys(("Mm", "Addmm", "Bmm", "Baddbmm", "Mv", "Dot"), _Kind("the matrix product", *_ZEROS)),
    **dict.fromkeys(("Convolution", "ConvolutionOverrideable"), _Kind("the convolution", *_ZEROS)),
}


_NORMALIZES = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}
_LAYERS = {"Addmm": (2, "mat1"), "Mm": (1, "self"), "Convolution": (1, "input")}
"""Which input of its operation the weight of a layer is, and as what it keeps its own input."""

_GATES = frozenset({"Mul", "Where", "MaskedFill", "MaskedScatter"})
"""By which experts and branches idle."""

_PRODUCTS = frozenset({"mul", "__mul__", "multiply", "matmul", "__matmul__", "mm", "bmm"})


def stopped(
    lost: Sequence[torch.Tensor], trained: Sequence[torch.Tensor], found: Sequence[Stop], watch: Watch, since: int
) -> Finding | None:
    """Return the finding of parameters whose gradient was zero at every look, by the operation in which it becomes so.

    Of several on one way, the one behind which most of them lie. Nothing is said of an expert that idles while others
    of its list learn, of a margin that is satisfied, and of what is multiplied by a number: that is how a term is
    switched off.
    """
    wanted = {id(p) for p in lost}
    best: tuple[Stop, Operation, set[int]] | None = None
    for stop in found:
        operation = watch.operation_of(stop.number)
        behind = _behind(stop) & wanted
        if _kind(stop) is None or operation is None or not behind or _is_meant(stop):
            continue
        if best is None or len(behind) > len(best[2]):
            best = stop, operation, behind
    if best is None:
        return None
    stop, operation, behind = best
    stuck = _is_stuck([each for each in found if each.number == stop.number], wanted)
    if stuck:  # and so are the same factors in other layers
        there = [each for each in found if (other := watch.operation_of(each.number)) and other.line == operation.line]
        behind = behind.union(*(_behind(each) & wanted for each in there))
    held = [p for p in lost if id(p) in behind]
    names = _names(held)
    if stop.op in _GATES and not stuck and _idles(names, _names(trained)):
        return None
    return _stuck(stop, operation, held, names, since) if stuck else _finding(stop, operation, names, since)


def _is_stuck(both: Sequence[Stop], lost: Collection[int]) -> bool:
    """Whether two factors, both zero, keep each other so: each has parameters of its own that get no gradient."""
    behind = [_behind(each) & set(lost) for each in both]
    return len(behind) == 2 and bool(behind[0] - behind[1]) and bool(behind[1] - behind[0])


def _behind(stop: Stop) -> set[int]:
    return {id(p) for ref in stop.leaves if (p := ref()) is not None}


def _kind(stop: Stop) -> _Kind | None:
    if stop.op in _NORMALIZES and stop.shape[stop.dim : stop.dim + 1] == (1,):
        others = [at for at, size in enumerate(stop.shape) if at and size > 1]
        other = max((at for at in others if at < stop.dim), default=max(others, default=0))
        fix = _ONE[1].format(other=other, size=stop.shape[other]) if others else _ONE[2]
        return _Kind(f"a {_NORMALIZES[stop.op]} over one entry", _ONE[0].format(dim=stop.dim), fix)
    weight, given = _LAYERS.get(stop.op, (-1, ""))
    if stop.position == weight and given in stop.kept_zeros:
        return _Kind(_KINDS[stop.op].name, *_OF_ZEROS)
    return _UNDERFLOW if stop.op in _CASTS and stop.dtype == "float16" else _KINDS.get(stop.op)


def _names(tensors: Sequence[torch.Tensor]) -> list[str]:
    return [found[0].path if found else "a parameter" for found in search(tensors, limit=1).names]


def _is_meant(stop: Stop) -> bool:
    if stop.is_term and stop.op in ("Relu", "ClampMin", "Clamp", "Threshold"):
        return True
    return stop.op == "Mul" and stop.by_number


def _idles(names: Collection[str], trained: Collection[str]) -> bool:
    """Whether all of them belong to entries of lists of which other entries learn: `experts.3` beside `experts.1`."""
    return all(any(_are_entries(name, other) for other in trained) for name in names)


def _are_entries(name: str, other: str) -> bool:
    parts, others = name.split("."), other.split(".")
    at = next((k for k, (a, b) in enumerate(zip(parts, others, strict=False)) if a != b), len(parts))
    return at < min(len(parts), len(others)) - 1 and parts[at].isdigit() and others[at].isdigit()


def _stuck(stop: Stop, operation: Operation, held: Sequence[torch.Tensor], names: Sequence[str], since: int) -> Finding:
    """Two factors are zero, each of which keeps the other so."""
    place, kind = operation.line.place, _kind(stop) or _KINDS[stop.op]
    zero = [name for p, name in zip(held, names, strict=True) if is_zero(p)]
    made = list(dict.fromkeys(at for name in zero if (at := zeroing(place.file, name)) is not None))[:2]
    factors = [each.text for each in operation.operands if each.text]
    named = next((each for each in factors if each.replace(".", "").isidentifier()), "one of them")
    fix = _STUCK[1].format(factor=named)
    if made:
        new = _random(made[0])
        fix = f"Start only one of them at zero: change line {made[0].line} to {new}{written(made[0], new)}."
    return warning(
        "BS141",
        f"{listed(zero, 2)} stay zero: both factors of {kind.name} start at zero."
        if len(zero) > 1
        else f"The gradient of {listed(names, 2)} is always zero: both factors of {kind.name} are zero.",
        (
            *(shown(each, f"sets {'the other' if at else 'one of them'} to zero.") for at, each in enumerate(made)),
            shown(place, f"gets a gradient and passes on zeros: {_STUCK[0]}."),
            f"Each gradient that was read from step {numbered(since)} on was exactly zero.",
        ),
        fix,
        made[0] if made else place,
        since=since,
    )


def _random(zeroed: Place) -> str:
    """Return what a statement that sets a parameter to zeros is to be instead."""
    text = zeroed.text.replace("torch.zeros(", "0.02 * torch.randn(").replace("zeros_(", "normal_(")
    if text == zeroed.text:
        return "small random values"
    return text if ".normal_(" not in text or text.count("(") != 1 else f"{text[:-1]}, std=0.02)"


def _finding(stop: Stop, operation: Operation, names: Sequence[str], since: int) -> Finding:
    kind = _kind(stop) or _KINDS[stop.op]
    few = listed(names, 2)
    place = operation.line.place
    why = kind.why.format(factor=_factor(stop, operation))
    return warning(
        "BS141",
        f"The gradient of {few} is always zero: {kind.name} passes on no gradient.",
        (
            shown(place, f"gets a gradient and passes on zeros: {why}."),
            _values(stop),
            f"Each gradient that was read from step {numbered(since)} on was exactly zero.",
        ),
        kind.fix,
        place,
        since=since,
    )


def _factor(stop: Stop, operation: Operation) -> str:
    """Return how the program wrote what a product multiplies by."""
    others = [each.text for each in operation.operands if each.position != stop.position]
    known = operation.op in _PRODUCTS and len(operation.operands) == 2 and len(others) == 1 and others[0]
    return others[0] if known else "what it multiplies by"


def _values(stop: Stop) -> str | None:
    """Tell the values and the bounds, where they are known."""
    low, high = stop.bounds.get("min"), stop.bounds.get("max")
    if stop.values is None or (low is None and high is None):
        return None
    least, greatest = stop.values
    bounds = f"from {low:g}" if high is None else f"up to {high:g}" if low is None else f"from {low:g} to {high:g}"
    return f"Its input has values from {least:.3g} to {greatest:.3g}; the bounds are {bounds}."


def zeroing(file: str, path: str) -> Place | None:
    """Return the last statement that sets a parameter to zeros, by the end of its path, if no other does."""
    written = [
        (body.place(statement), zeros)
        for body, statement in statements_of(file)
        for name, zeros in _written(statement)
        if _ends(path, name)
    ]
    last = [place for place, zeros in written if zeros]
    return last[-1] if last and all(zeros is not False for _, zeros in written) else None


def _ends(path: str, name: str) -> bool:
    """Whether a name in a class, `self.up.weight`, may stand for a path."""
    own = name.split(".")[1:] or [name]
    parts = path.split(".")
    return parts[-len(own) :] == own


def _written(statement: ast.stmt) -> Iterator[tuple[str, bool | None]]:
    """Yield the names of what a statement fills, and whether with zeros; None for memory that has no values yet."""
    match statement:
        case ast.Assign(targets=[target], value=value) if (name := dotted(target)) is not None:
            inner = value
            while isinstance(inner, ast.Call) and callee(inner)[1] == "Parameter" and inner.args:
                inner = inner.args[0]
            made = callee(inner)[1] if isinstance(inner, ast.Call) else ""
            yield name, True if made in ("zeros", "zeros_like") else None if made == "empty" else False
        case ast.Expr(value=ast.Call() as call):
            receiver, method = callee(call)
            given = call.args[0] if call.args else None
            on = given if library(call.func) else receiver
            name = (dotted(on) or "").removesuffix(".data")
            nothing = bool(call.args) and isinstance(call.args[-1], ast.Constant) and call.args[-1].value == 0
            if name and method.endswith("_"):
                yield name, method in ("zeros_", "zero_") or (method in ("constant_", "fill_") and nothing)


# A hook of DistributedDataParallel that sends float16, in which all gradients are zero.


_HALVES = "fp16_compress"
"""How the hooks of PyTorch that send gradients as float16 begin."""


def compressed(lost: Sequence[torch.Tensor], since: int, frame: FrameType | None) -> Finding | None:
    """Return the finding that a hook rounds all gradients to zero, where no operation was seen to make them zero."""
    ids = {id(p) for p in lost}
    for model, name in search((), collect=(DistributedDataParallel,)).found:
        if not isinstance(model, torch.nn.Module) or not _halving(model):
            continue
        if all(id(p) in ids for p in parameters_in(model) if p.requires_grad):
            places = [body.place(s) for body, s, call in calls_around(frame) if method_of(call)[1] == _REGISTERS]
            place = only(places)
            return warning(
                "BS141",
                f"All gradients of {name.path} are zero: its communication hook rounds them to zero.",
                (
                    if_known(place, "sends each gradient as float16, where everything below 3e-8 rounds to zero."),
                    f"Each gradient that was read from step {numbered(since)} on was exactly zero.",
                ),
                f"Remove the hook{gone(place)}, so the gradients stay in float32. {OR}Or multiply the loss by a "
                "constant, such as 2**16, before backward(), and divide the gradients by it before the step.",
                place,
                since=since,
            )
    return None


_REGISTERS = "register_comm_hook"


def _halving(model: torch.nn.Module) -> bool:
    """Whether one of the hooks of a model sends float16."""
    hooks: Any = (namespace(model) or {}).get("_comm_hooks", ())
    names = [getattr(each[0], "__name__", "") for each in hooks if type(each) is tuple and each]
    return any(each.startswith(_HALVES) for each in names if isinstance(each, str))
