"""BS304 to BS308: outputs that say nothing, or have no slope; weights that never move, or by too much or too little."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.diagnosis.causes import NOTHING_ARRIVES
from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.recordings.recording import Module, Recording, rule
from backsight.diagnosis.recordings.rows import STEADY, Mask, Rows
from backsight.diagnosis.wording import counted, listed, warning
from backsight.tape.ops import op_name
from backsight.tracing.moves import NEGLIGIBLE

FLAT = 0.01
"""The mean slope, as a part of the steepest, that is too little."""


@rule("BS305")
def saturated(recording: Recording) -> Iterator[Finding]:
    """The mean slope has been below a hundredth of the steepest for ten steps up to the end."""
    for module, rows, slope in saturations(recording):
        yield _finding(module.label, rows, slope)
    for kind, module, rows in _called(recording):
        slope = _slope(kind, rows)
        since = rows.lasting(slope < FLAT)
        if since is not None:
            here = rows["step"] >= since
            yield _finding(f"The {kind.lower()} before {module.label}", rows.during(since), slope[here])


def _finding(name: str, rows: Rows, slope: NDArray[np.float64]) -> Finding:
    steps = counted(len(np.unique(rows["step"])), "recorded step")
    least, greatest = rows["min"][-1], rows["max"][-1]
    between = f"are all {least:.3g}" if least == greatest else f"lie between {least:.3g} and {greatest:.3g}"
    return warning(
        "BS305",
        f"{name} has been saturated since step {rows['step'][0]}.",
        (
            f"Its {int(rows['count'][-1]):,} outputs {between}, where it is flat: its mean slope was "
            f"{slope[-1]:.2%} of the maximum in the last step, and below {FLAT:.0%} in each of the last {steps}.",
            "Backward multiplies gradients by that slope.",
        ),
        "Start with smaller weights (torch.nn.init.xavier_normal_), scale the inputs, add a normalization layer "
        "before it, or lower the learning rate.",
    )


def _called(recording: Recording) -> Iterator[tuple[str, Module, Rows]]:
    """Yield the functions whose results modules are given, as the graph has it: `torch.tanh` called by hand."""
    graph = recording.graph
    if graph is None or not graph.modules:
        return
    columns = graph.columns
    ops = [op_name(graph.types[each].name) for each in columns.type.tolist()]
    for module in recording.modules.values():
        given = recording.inputs(module) if module.is_leaf and module.trains else []
        if len(given) != 1:
            continue
        nodes = [k for k, name in enumerate(graph.modules) if name == module.name]
        sources = {j for k in nodes for j in columns.inputs[columns.start[k] : columns.start[k + 1]].tolist()}
        outside = {j for j in sources if j not in nodes and j not in graph.leaf_at}
        made = {ops[j] for j in outside if recording.modules.get(graph.modules[j] or "", module).type not in _KINDS}
        if len(outside) == 1 and made <= _KINDS and made:
            yield made.pop(), module, given[0]


_KINDS = {"Tanh", "Sigmoid"}


def saturations(recording: Recording) -> Iterator[tuple[Module, Rows, NDArray[np.float64]]]:
    """Yield the saturated activations, with their rows and slopes since.

    The last module of a model is left out: a classifier's sigmoid that is sure of itself is as it should be.
    """
    for module, rows in recording.outputs():
        slope = slope_of(module, rows)
        if slope is None or _is_last(recording, module):
            continue
        since = rows.lasting(slope < FLAT)
        if since is not None:
            yield module, rows.during(since), slope[rows["step"] >= since]


def slope_of(module: Module, rows: Rows) -> NDArray[np.float64] | None:
    """Return the mean slope of an activation by row, as a part of the steepest; None for another module."""
    return _slope(module.type, rows) if module.type in _KINDS else None


def _slope(kind: str, rows: Rows) -> NDArray[np.float64]:
    """Return the mean slope of tanh or the sigmoid where it returned these rows: it follows from mean and variance.

    The slope of tanh is 1 - y², that of the sigmoid y(1 - y), which is at most 1/4.
    """
    n = np.maximum(rows["count"] - rows["nans"] - rows["infs"], 1)
    square: NDArray[np.float64] = rows["m2"] / n + rows["mean"] ** 2
    return np.maximum(1 - square, 0) if kind == "Tanh" else np.maximum(4 * (rows["mean"] - square), 0)


def _is_last(recording: Recording, module: Module) -> bool:
    """Whether no module with parameters of its own comes after it in its model."""
    here = recording.order.get(module.name, -1)
    after = (
        recording.modules[name]
        for name, place in recording.order.items()
        if place > here and name in recording.modules and recording.modules[name].root == module.root
    )
    return not any(other.trains and other.is_leaf for other in after)


# Outputs that say nothing, and the innermost module that is to blame, not those that only pass it on.


_HARDLY_ANY, _MOSTLY = 0.999, 0.75

Quiet = Callable[[Rows], Mask]
"""Whether each row says nothing."""


@dataclass(frozen=True)
class Silence:
    """An output that says nothing from a step on, whatever the module is given."""

    module: Module
    rows: Rows
    since: int

    @property
    def steps(self) -> int:
        return len(np.unique(self.rows.during(self.since)["step"]))


def silences(recording: Recording, quiet: Quiet, *, around: bool = False) -> list[Silence]:
    """Return the outputs that are quiet for STEADY steps up to the end, though what the module is given varies.

    A module that returns several tensors is quiet if all of them are. Modules that are given indices count if they have
    parameters of their own: the others make masks and positions.

    around: also of modules that hold others, if none of those is quiet.
    """
    outputs: dict[str, list[Rows]] = {}
    for module, rows in recording.outputs(around=around):
        outputs.setdefault(module.name, []).append(rows)
    found = []
    for name, held in outputs.items():
        module = recording.modules[name]
        begins = [rows.lasting(quiet(rows) & (rows["count"] > 1)) for rows in held]
        since = [begin for begin in begins if begin is not None]
        if len(since) == len(held) and _is_given_something(recording, module, max(since)):
            found.append(Silence(module, held[0], max(since)))
    names = [each.module.name for each in found]
    return [each for each in found if not any(_is_inside(name, each.module) for name in names)]


def _is_inside(name: str, module: Module) -> bool:
    return name != module.name and (not module.name or name.startswith(f"{module.name}."))


def is_constant(rows: Rows) -> Mask:
    """Whether all elements are finite and the same."""
    same: Mask = (rows["min"] == rows["max"]) & (rows["nans"] + rows["infs"] == 0)
    return same


def is_zero(rows: Rows) -> Mask:
    """Whether all elements are zero."""
    zero: Mask = rows["zeros"] == rows["count"]
    return zero


def is_dying(rows: Rows) -> Mask:
    """Whether at most one element in a thousand is not zero, of an output that has none in three rows of four.

    The last units of a layer that has died come up in some batches, and save nothing.
    """
    hardly: Mask = rows["zeros"] >= _HARDLY_ANY * rows["count"]
    return hardly if hardly.any() and is_zero(rows)[hardly].mean() >= _MOSTLY else is_zero(rows)


def given(recording: Recording, module: Module) -> str:
    """`, though it was given values from -3.1 to -0.2`: its last input; nothing if that is not known."""
    for rows in recording.inputs(module):
        if not is_constant(rows)[-1]:
            return f", although its input ranged from {rows['min'][-1]:.4g} to {rows['max'][-1]:.4g}"
    return ""


def _negative(recording: Recording, module: Module) -> str:
    """Return that all an activation was given last is negative, which is why it returns zeros; nothing otherwise."""
    for rows in recording.inputs(module):
        if not module.trains and module.is_leaf and rows["max"][-1] < 0:
            low, high = rows["min"][-1], rows["max"][-1]
            return f", because its whole input is negative ({low:.4g} to {high:.4g} in the last step)"
    return ""


def _is_given_something(recording: Recording, module: Module, since: int) -> bool:
    inputs = [rows.during(since) for rows in recording.inputs(module)]
    inputs = [rows for rows in inputs if len(rows)]
    if not inputs:
        return bool(module.trains)
    return any(not is_constant(rows).any() for rows in inputs)


_OF_ACTIVATIONS = (
    "ReLU units die when all their inputs are negative: lower the learning rate, clip gradients, start with zero "
    "biases, or use LeakyReLU or GELU."
)
_OF_LAYERS = (
    "Check how its weights are initialized, whether they are trained, and whether weight decay shrank them to 0."
)


_IN_BETWEEN = "The modules inside it return other numbers: it is a function that it calls itself, such as F.relu."


@rule("BS304")
def dead_output(recording: Recording) -> Iterator[Finding]:
    """All of an output has been zero for ten steps up to the end, though the input of the module is not constant.

    Hardly any element in a few of these steps makes no difference.
    """
    for silence in silences(recording, is_dying, around=True):
        zeros, steps = _zero_steps(silence), silence.steps
        almost, no = ("", "no") if zeros == steps else ("almost ", "hardly any")
        but = "one of these steps" if steps - zeros == 1 else f"{steps - zeros} of these steps"
        yield warning(
            "BS304",
            f"{silence.module.label} has returned {almost}only zeros since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1]):,} elements of {silence.rows.tensor.name} were 0 from step "
                f"{silence.since} to the end ({counted(steps, 'recorded step')})"
                f"{_negative(recording, silence.module) or given(recording, silence.module)}."
                f"{f' In {but}, a few were not.' * (zeros < steps)}",
                f"Layers before it get {no} gradient through it.",
                *(() if silence.module.is_leaf else (_IN_BETWEEN,)),
            ),
            _OF_LAYERS if silence.module.trains else _OF_ACTIVATIONS,
        )


def _zero_steps(silence: Silence) -> int:
    """Return in how many of its steps all of the output is zero."""
    rows = silence.rows.during(silence.since)
    steps = set(rows["step"].tolist())
    return len(steps - set(rows["step"][~is_zero(rows)].tolist()))


@rule("BS308")
def constant_output(recording: Recording) -> Iterator[Finding]:
    """All elements of an output were the same number for ten steps up to the end, though the input varies.

    Where that number is 0, or the bound of a saturated activation, BS304 and BS305 say so. A module of the program's
    own that has no parameters, and never returned anything else, makes a mask or the like.
    """
    flat = {module.name for module, _, _ in saturations(recording)}
    for silence in silences(recording, is_constant):
        if silence.module.name in flat or is_zero(silence.rows)[-1] or _is_made_so(silence):
            continue
        yield warning(
            "BS308",
            f"{silence.module.label} has returned the same number everywhere since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1]):,} elements of {silence.rows.tensor.name} were equal in each of "
                f"the last {counted(silence.steps, 'recorded step')} ({silence.rows['mean'][-1]:.4g} in the last)"
                f"{given(recording, silence.module)}.",
            ),
            "The network has collapsed here: check the scale of the module's input, its weights, and the learning "
            "rate.",
        )


def _is_made_so(silence: Silence) -> bool:
    module = silence.module
    own = module.is_leaf and not module.trains and not hasattr(torch.nn, module.type)
    return own and bool(is_constant(silence.rows).all())


# BS306, BS307: weights that get a gradient and never move; updates far too large or too small for their weights.


USUAL = "between 1e-4 and 1e-2"
LARGE = 1e-1
HUGE = 0.5
SMALL = 1e-6

_Ratio = tuple[float, str]


@rule("BS307")
def update_ratio(recording: Recording) -> Iterator[Finding]:
    """The norm of the update over the norm of the weight, median over the steps; needs the tap "update".

    A decade above the usual range is a note, and so are two decades below it: small updates may be meant, as at the end
    of a schedule. Updates of half the weight are a warning. Biases and other vectors are left out: many begin at 0.
    """
    ratios = sorted(_ratios(recording))
    large = [ratio for ratio in ratios if ratio[0] > LARGE][::-1]
    small = [ratio for ratio in ratios if ratio[0] < SMALL]
    if large:
        severity: Severity = "warning" if large[0][0] > HUGE else "note"
        yield _of_updates(severity, "large", large, len(ratios), "Lower the learning rate, or warm it up.")
    if small:
        fix = "Raise the learning rate, or find out why the gradients are so small. Nothing to do at the end of a run."
        yield _of_updates("note", "small", small, len(ratios), fix)


def _of_updates(severity: Severity, what: str, found: list[_Ratio], of: int, fix: str) -> Finding:
    shown = ", ".join(f"{name} {ratio:.2g}" for ratio, name in found[:4])
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return Finding(
        "BS307",
        severity,
        f"Updates are very {what} for {len(found)} of {of} weight {'matrix' if of == 1 else 'matrices'}.",
        (f"Update norm / weight norm, median over the steps (usually {USUAL}): {shown}{more}.",),
        fix,
    )


def _ratios(recording: Recording) -> Iterator[_Ratio]:
    weights = recording.rows("weight")
    for name, update in recording.rows("update").items():
        weight = weights.get(name)
        if weight is not None and weight.is_matrix and (ratio := _median(weight, update.last_calls)) is not None:
            yield ratio, name


def _median(weight: Rows, update: Rows) -> float | None:
    """Return the median over the steps in which there was an update and a weight to be updated."""
    _, at_weight, at_update = np.intersect1d(weight["step"], update["step"], return_indices=True)
    held, moved = weight["l2"][at_weight], update["l2"][at_update]
    known = (held > 0) & (moved > 0) & np.isfinite(held) & np.isfinite(moved)
    return float(np.median(moved[known] / held[known])) if known.sum() >= STEADY else None


RESOLUTION = 2.0**-23
"""A gradient so small, as a part of the weight, moves nothing by itself: the model has converged."""


@rule("BS306")
def never_moves(recording: Recording) -> Iterator[Finding]:
    """Its statistics are the same to the last bit in all of ten or more steps.

    With a gradient worth the name that is a warning. Without one it is only a note, as unused heads are common; and of
    frozen weights nothing is said.
    """
    still = [rows for rows in recording.rows("weight").values() if _is_still(rows)]
    if not still:
        return
    pulls = {name: _pull(rows) for name, rows in recording.rows("grad").items()}
    enough = NEGLIGIBLE * max(pulls.values(), default=0.0)
    pulled = [rows for rows in still if pulls.get(rows.tensor.name, 0.0) > max(enough, RESOLUTION * rows["l2"][-1])]
    if pulled:
        yield _of_pulled(recording, pulled, pulls)
    idle = [rows for rows in still if rows not in pulled and recording.module(rows).trains.get(rows.tensor.name)]
    taken_off = [rows for rows in idle if _is_taken_off(recording, rows)]
    idle = _untold(recording, [rows for rows in idle if rows not in taken_off])
    if taken_off and pulls:
        yield _of_taken_off(taken_off)
    if idle and pulls:
        yield _of_idle(recording, idle, pulls)


def _untold(recording: Recording, idle: list[Rows]) -> list[Rows]:
    """Return those of which the program's run has not told that nothing arrives, which it knows more of.

    It names some of many, and says how many more there are.
    """
    facts = [str(each) for found in recording.found if found.code in NOTHING_ARRIVES for each in found.evidence]
    before = r"(?<!\w)" if len({module.root for module in recording.modules.values()}) == 1 else r"(?<![\w.])"
    for fact in facts:
        rest = [rows for rows in idle if not re.search(rf"{before}{re.escape(rows.tensor.name)}(?!\w|\.\w)", fact)]
        more = re.search(r"\band (\d[\d,]*) more\b", fact)
        if len(rest) < len(idle):
            idle = [] if more and len(rest) <= int(more[1].replace(",", "")) else rest
    return idle


_SUBTRACTS = re.compile(r"(Batch|Instance)Norm")
"""Modules that subtract the mean of each channel, and with it what a bias has added."""


def _is_taken_off(recording: Recording, rows: Rows) -> bool:
    """Whether it is a bias, and the next module of the forward pass subtracts it again."""
    called = [each for name in recording.order if (each := recording.modules.get(name)) and each.is_leaf]
    owners = [each.name for each in called]
    if not rows.tensor.name.endswith("bias") or rows.tensor.module not in owners:
        return False
    after = called[owners.index(rows.tensor.module) + 1 :]
    return bool(after) and _SUBTRACTS.search(after[0].type) is not None


def _of_taken_off(biases: list[Rows]) -> Finding:
    one = len(biases) == 1
    return Finding(
        "BS306",
        "note",
        f"{'A bias' if one else f'{len(biases)} biases'} before a normalization {'has' if one else 'have'} no effect.",
        (
            f"{listed([rows.tensor.name for rows in biases], 4)}: the normalization subtracts the mean, and with it "
            f"the bias, whose gradient is only rounding.",
        ),
        f"Leave {'it' if one else 'them'} out, with bias=False.",
    )


def _of_pulled(recording: Recording, pulled: list[Rows], pulls: dict[str, float]) -> Finding:
    name, them = pulled[0].tensor.name, "it" if len(pulled) == 1 else "them"
    steps = counted(max(len(np.unique(rows["step"])) for rows in pulled), "step")
    many = f"{_some(recording, pulled)} get gradients but never move."
    held, fix = _held(recording, pulled, them)
    return warning(
        "BS306",
        f"{name} gets gradients but never moves." if len(pulled) == 1 else many,
        (
            f"{listed([rows.tensor.name for rows in pulled], 4)}: bit-identical in {steps}.",
            f"Gradient norm of {name}, median of these steps: {pulls[name]:.2g}.",
            *([held] if held else []),
        ),
        fix,
    )


def _of_idle(recording: Recording, idle: list[Rows], pulls: dict[str, float]) -> Finding:
    names = [rows.tensor.name for rows in idle]
    found = f"{listed(names, 4)}: the gradient was 0, almost 0, or missing."
    fix = "Nothing to do if they are unused. Otherwise, check whether the loss depends on them."
    if all(pulls.get(name, 0.0) > 0 for name in names):
        strongest = max(names, key=lambda name: pulls[name])
        found = (
            f"{listed(names, 4)}: the largest gradient norm, of {strongest}, is {pulls[strongest]:.2g} in the median."
        )
        fix = (
            "The loss does depend on them. If gradients vanish on the way (BS302), fix that; otherwise, check the "
            "scale of the loss."
        )
    return Finding("BS306", "note", f"{_some(recording, idle)} never moved and got almost no gradient.", (found,), fix)


def _some(recording: Recording, rows: list[Rows]) -> str:
    return f"{len(rows)} of {counted(len(recording.rows('weight')), 'weight')}"


def _held(recording: Recording, pulled: list[Rows], them: str) -> tuple[str, str]:
    """Say whether an optimizer holds them, as far as its state tells, and what to do."""
    states = [tensor.name for tensor in recording.kinds.get("state", ())]
    held = [rows for rows in pulled if any(name.startswith(f"{rows.tensor.name}.") for name in states)]
    rate = (
        "check that the learning rate is not 0 and that updates are not lost to rounding, as small ones are in bfloat16"
    )
    put = f"Put {them} into the optimizer, or freeze {them} with requires_grad_(False)"
    if not states:
        return "", f"{put}; if the optimizer holds {them}, {rate}."
    if not held:
        return f"The optimizer has no state for {them}, so it probably does not hold {them}.", f"{put}."
    which = them if len(held) == len(pulled) else f"{len(held)} of them"
    return f"The optimizer has state for {which}.", f"{rate[0].upper()}{rate[1:]}."


def _is_still(rows: Rows) -> bool:
    if len(np.unique(rows["step"])) < STEADY or (rows["nans"] + rows["infs"]).any():
        return False
    return all((rows[name] == rows[name][0]).all() for name in ("mean", "m2", "min", "max", "zeros"))


def _pull(rows: Rows) -> float:
    """Return the median norm of a gradient over the steps, 0 if it was other than 0 in too few of them.

    Of several calls in a step it is the smallest: another model's loss may have left a gradient here that no optimizer
    used, as a generator's does in its discriminator.
    """
    starts = np.flatnonzero(np.append(True, np.diff(rows["step"]) > 0))
    norms = np.minimum.reduceat(rows["l2"], starts)
    return float(np.median(norms[norms > 0])) if (norms > 0).sum() >= STEADY else 0.0
