"""BS301: NaN or infinity came into the training: where, and how to find the operation. BS309: a loss stays so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backsight.diagnosis.births.birth import number
from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.recordings.losses import Rise, before, is_lost, losses, rise, what
from backsight.diagnosis.recordings.recording import Recording, rule, run_again
from backsight.diagnosis.recordings.rows import Mask, Rows
from backsight.diagnosis.wording import counted, listed
from backsight.tape.ops import VIEWS, op_name

_KEPT = ("weight", "state", "buffer")
"""What lasts from step to step: once it is not finite, nothing after it is."""

_GRADIENTS = ("grad", "averaged_grad", "output_grad", "update")

_NAMED = ("between", "output", "gradient", "lost loss", "unknown loss")
"""Where an operation produced it, whose line is named when the program runs again."""

_GROWN = 100.0
"""How many times gradients grow in the steps before where a training diverges."""

_FIXES = {
    "input": "Check the data of this step, and the code that prepares it for the model.",
    "between": "Check the forward of {0}: its input is finite, and so are the outputs of the modules inside it, so it "
    "arose in the lines between: a division by 0, log(0), sqrt of a negative number, an overflow in exp or in half "
    "precision, or a fully masked row.",
    "output": (
        "Check the module: a division by 0, log(0), sqrt of a negative number, an overflow in exp or in half "
        "precision, or a fully masked row."
    ),
    "gradient": "The forward pass was finite, so look for an infinite derivative: sqrt or norm at 0, a power below 1 "
    "at 0, torch.where around log(0) or a division by 0, or an overflow in half precision.",
    "lost loss": (
        "The loss of this step was not finite itself: check it and its inputs for a division by 0, log(0), or an "
        "overflow."
    ),
    "unknown loss": (
        "The recording does not say whether the loss of this step was finite. Check the loss for a division by 0, "
        "log(0), or an overflow, and for an infinite derivative: sqrt or norm at 0, a power below 1 at 0, "
        "torch.where around log(0) or a division by 0."
    ),
    "weight": "Check the previous step: its update was too large or not finite. Lower the learning rate, or clip "
    "gradients.",
    "diverging": "Training diverged before that: lower the learning rate, warm it up, or clip gradients.",
}


@rule("BS301")
def non_finite(recording: Recording) -> Iterator[Finding]:
    """The first tensor of the step from which on it lasts; what passes, as under loss scaling, is only a note.

    Infinities alone, in what modules are given and return, are masks as long as gradients and weights are finite.
    """
    bad = _bad(recording)
    if bad is None:
        return
    if (lasts := _lasting(recording, bad)) is not None:
        yield _finding(recording, *lasts)
    else:
        yield _in_passing(recording, bad.every, bad.gradients)


def lasting_since(recording: Recording) -> int | None:
    """Return the step since which tensors are not finite, if that has lasted; None if it has not."""
    bad = _bad(recording)
    lasts = _lasting(recording, bad) if bad is not None else None
    return lasts[0] if lasts is not None else None


class _Bad(NamedTuple):
    """The steps in which something was not finite: in what lasts, in gradients, in what passes."""

    kept: set[int]
    gradients: set[int]
    passing: set[int]

    @property
    def every(self) -> set[int]:
        return self.kept | self.gradients | self.passing


def _bad(recording: Recording) -> _Bad | None:
    if recording.run.first_nonfinite() is None:
        return None
    bad = _Bad(*(_bad_steps(recording, kinds) for kinds in _groups(recording)))
    return bad if bad.every else None


def _lasting(recording: Recording, bad: _Bad) -> tuple[int, set[int], Severity] | None:
    """Return since which step it lasts, all steps that have it, and how bad it is; None if it was in passing."""
    ended = {int(recording.steps[-1])}
    lost = {since for marked in losses(recording.run).values() if (since := is_lost(marked)) is not None} & bad.every
    if lasting := bad.kept | lost | bad.gradients & ended:
        return _start(recording, bad.every, min(lasting)), bad.every, "error"
    if "grad" not in recording.kinds and bad.passing & ended:
        return _start(recording, bad.every, min(ended)), bad.every, "warning"
    return None


def _groups(recording: Recording) -> tuple[list[str], list[str], list[str]]:
    """Return the kinds that last, those that are gradients, and those that pass."""
    passing = [kind for kind in recording.kinds if kind not in _KEPT + _GRADIENTS]
    return [*_KEPT], [*_GRADIENTS], passing


def _bad_steps(recording: Recording, kinds: list[str]) -> set[int]:
    """Return the steps with NaN, or with infinity where it cannot be meant."""
    return {
        int(step)
        for kind in kinds
        for rows in recording.rows(kind).values()
        for step in rows.nonfinite["step"][_is_bad(rows)]
    }


def _is_bad(rows: Rows) -> Mask:
    held, kind = rows.nonfinite, rows.tensor.kind
    bad: Mask = held["nans"] > 0
    from_the_start = len(held["step"]) > 0 and held["step"][0] == rows.began  # a weight may hold a mask
    if kind in ("state", *_GRADIENTS) or (kind == "weight" and not from_the_start):
        bad |= held["infs"] > 0
    return bad


def _start(recording: Recording, bad: set[int], step: int) -> int:
    """Return the first step of the unbroken stretch of bad steps that leads to this one."""
    earlier = recording.steps[recording.steps < step].tolist()
    while earlier and earlier[-1] in bad:
        step = earlier.pop()
    return step


def _finding(recording: Recording, step: int, bad: set[int], severity: Severity) -> Finding:
    first = origin(recording, step, bad)
    norms = norms_before(recording, step)
    grown = len(norms) > 1 and norms[max(norms)] > _GROWN * norms[min(norms)]
    fix, line, seen = _fix(recording, first, step, grown=grown)
    evidence = [first.shown(), *surroundings(recording, first, step), *seen]
    risen = _risen(recording, step)
    if risen is not None:
        evidence.append(
            f"The loss {risen[0]!r} rose to more than 10 times its median at step {risen[1].step} and stayed there: "
            f"{before(losses(recording.run)[risen[0]], step)}."
        )
    if norms:
        sizes = ", ".join(f"{norm:.2g}" for norm in norms.values())
        steps = listed([str(at) for at in norms], len(norms))
        evidence.append(f"Gradient norm at step{'s' * (len(norms) > 1)} {steps}: {sizes}.")
    evidence += _lost_with_it(recording, step, risen[0] if risen is not None else None)
    if spoilt := _spoilt(recording):
        evidence.append(f"Not finite in the last step: {listed(spoilt, 4)}.")
    title = f"{label(first)} first contained {first.what} at step {step}."
    if risen is not None and risen[1].is_jump:
        changed = f"what changed at step {risen[1].step}: the data, the targets, or the learning rate."
        fix = f"{fix} Also check {changed}" if line is not None else f"Check {changed} {fix}"
    return Finding("BS301", severity, title, tuple(evidence), fix, source=line)


def _lost_with_it(recording: Recording, step: int, risen: str | None) -> Iterator[str]:
    """Yield the losses that are lost since this step, or since a later one; of one that rose the values are told."""
    for name, marked in losses(recording.run).items():
        since = is_lost(marked)
        if since is not None and since >= step:
            values = before(marked, since)
            known = f"; before: {values}" if values and name != risen else ""
            yield f"The loss {name!r} is {what(marked, since)} from step {since} to the end{known}."


def _risen(recording: Recording, step: int) -> tuple[str, Rise] | None:
    """Return the name of the first loss that rose shortly before a step, and where."""
    found = ((name, rise(marked, step)) for name, marked in losses(recording.run).items())
    return next(((name, risen) for name, risen in found if risen is not None), None)


def _in_passing(recording: Recording, bad: set[int], gradients: set[int]) -> Finding:
    step = min(gradients or bad)
    first = origin(recording, step, bad)
    if gradients:
        harm = (
            f"Gradients were not finite in {counted(len(gradients), 'step')}, but no weight changed because of it, as "
            "when a gradient scaler skips a step."
        )
        fix = "Nothing to do if the loss is scaled. Otherwise, check the data of that step."
    else:
        harm = f"This happened in {counted(len(bad), 'step')}, and no gradient or weight was affected."
        fix = "Nothing to do if it is intended, as when NaN marks missing values."
    title = f"{label(first)} held {first.what} at step {step}, without lasting harm."
    return Finding("BS301", "note", title, (first.shown(), harm), fix)


def _spoilt(recording: Recording) -> list[str]:
    """Return the weights that are not finite in the last step."""
    last = int(recording.steps[-1])
    return [name for name, rows in recording.rows("weight").items() if last in rows.nonfinite["step"]]


def _fix(recording: Recording, first: Strange, step: int, *, grown: bool) -> Undefined:
    """Return what to do, and the line that produced it; `grown`: whether gradients grew in the steps before."""
    known = None if first.infs else of_a_parameter(recording, step)
    if known is None and grown:
        return Undefined(_FIXES["diverging"], None)
    cause, around = first.kind.removeprefix("eval_"), _around(recording, first)
    if cause in ("grad", "output_grad"):
        finite = _loss_was_finite(recording, step)
        cause = "unknown loss" if finite is None else "gradient" if finite else "lost loss"
    elif cause == "input" and around:
        cause = "between"
    if known is None and cause == "output" and not first.infs:
        known = last_operation(recording, first.module or "")
    known = known or Undefined(_FIXES.get(cause, _FIXES["weight"]).format(around), None)
    if known.line is not None or cause not in _NAMED:
        return known
    return known._replace(fix=f"{known.fix} `{run_again(recording.run, '--nonfinite')}` names the line.")


def _around(recording: Recording, first: Strange) -> str | None:
    """Return the module within which the module of an input was called, if its own input is recorded, and so finite."""
    given = {tensor.module for tensor in recording.kinds.get(first.kind, [])}
    path = first.module or ""
    while path:
        path = path.rpartition(".")[0]
        if path in given:
            return path or "the model"
    return None


def _loss_was_finite(recording: Recording, step: int) -> bool | None:
    """Whether the loss of a step was finite, by a mark or by a scalar that a module returned; None if it is unknown."""
    marked = [values[steps == step] for steps, values in losses(recording.run).values()]
    if any(map(len, marked)):
        return bool(np.isfinite(np.concatenate(marked)).all())
    held = (*recording.rows("output").values(), *recording.rows("variable").values())
    scalars = [rows for rows in held if rows.tensor.shape == () and rows.is_float and rows.began <= step]
    if any(step in rows.nonfinite["step"] for rows in scalars):
        return None  # it may be another scalar than the loss
    return True if scalars else None


_MASKS = ("input", "output", "eval_input", "eval_output", "buffer", "variable")
"""Kinds in which infinities may be meant."""


@dataclass(frozen=True)
class Strange:
    """A row that is not finite; `is_mask` if it is infinities beside one other value, as in a mask added to scores."""

    tensor: str
    kind: str
    module: str | None
    call: int
    count: int
    nans: int
    infs: int
    is_mask: bool

    @property
    def what(self) -> str:
        return "NaN" if self.nans else "infinity"

    def shown(self) -> str:
        """`3 NaN and 1 infinite of 640 elements; output of module 4.`"""
        parts = [f"{number:,} {noun}" for number, noun in ((self.nans, "NaN"), (self.infs, "infinite")) if number]
        kind = _KINDS.get(self.kind, self.kind)
        where = f" of module {self.module}" if self.module else " of the model itself" if self.module == "" else ""
        call = f", call {self.call}" if self.call else ""
        return f"{' and '.join(parts)} of {counted(self.count, 'element')}; {kind}{where}{call}."


_KINDS = {
    "grad": "gradient of a weight",
    "output_grad": "gradient of an output",
    "averaged_grad": "averaged gradient of a weight",
    "state": "state of the optimizer",
}


def label(row: Strange) -> str:
    """Return what a sentence calls it."""
    prefix = {
        "grad": "The gradient of ",
        "output_grad": "The gradient of ",
        "averaged_grad": "The averaged gradient of ",
        "update": "The update of ",
    }
    return prefix.get(row.kind, "") + row.tensor


def origin(recording: Recording, step: int, bad: set[int]) -> Strange:
    """Return the first row of a step that was not finite, leaving out what is so in good steps too.

    Gradients of weights are not always recorded in the order in which they came about, so of these it is the one of the
    last module, where the backward pass comes first.
    """
    rows = _rows_at(recording, step)
    usual = _usual(recording, bad)
    new = [row for row in rows if not row.is_mask and (row.tensor, row.kind) not in usual] or rows
    if new[0].kind == "grad":
        gradients = [row for row in new if row.kind == "grad"]
        return max(gradients, key=lambda row: recording.order.get(row.module or "", -1))
    return new[0]


def surroundings(recording: Recording, row: Strange, step: int) -> Iterator[str]:
    """Yield what is known of the moment before."""
    if row.kind == "output" and (largest := _largest_input(recording, row.module or "", step)) is not None:
        yield f"The input of the module was finite (largest magnitude {largest:.2g}), so it arose inside."
    earlier = recording.steps[recording.steps < step]
    if row.kind in ("weight", "state", "buffer") and len(earlier) and step - int(earlier[-1]) > 1:
        yield f"The previous recorded step is {earlier[-1]}: it arose after that."


def norms_before(recording: Recording, step: int) -> dict[int, float]:
    """Return the norm of all gradients together at the three recorded steps before, as `grad_norm` has it."""
    run, before = recording.run, recording.steps[recording.steps < step][-3:]
    kind = "averaged_grad" if "averaged_grad" in recording.kinds else "grad"
    if not len(before) or kind not in recording.kinds:
        return {}
    one = run.ranks[0] if run.world > 1 and any(tensor.replicated for tensor in run.tensors) else None
    rank = None if kind == "averaged_grad" else one
    held = run.frame(kind=kind, steps=slice(int(before[0]), step), stat="l2", rank=rank, as_="numpy")
    rows = zip(*(held[name].tolist() for name in ("step", "call", "tensor", "l2")), strict=True)
    last = {(at, tensor): norm for at, _, tensor, norm in sorted(rows)}
    squares = dict.fromkeys(before.tolist(), 0.0)
    for (at, _), norm in last.items():
        squares[at] += norm**2
    return {at: sum_**0.5 for at, sum_ in squares.items() if any(at == each for each, _ in last)}


def _rows_at(recording: Recording, step: int) -> list[Strange]:
    """Return the rows of a step that are not finite, in the order in which they came about."""
    held = recording.run.frame(steps=step, stat=("count", "nans", "infs", "min", "max"), as_="numpy")
    strange = np.flatnonzero(held["nans"] + held["infs"] > 0).tolist()
    may_be_mask = (held["nans"] == 0) & ~(held["min"] < held["max"])
    return [
        Strange(
            held["tensor"][k],
            held["kind"][k],
            held["module"][k],
            int(held["call"][k]),
            int(held["count"][k]),
            int(held["nans"][k]),
            int(held["infs"][k]),
            bool(may_be_mask[k]) and held["kind"][k] in _MASKS,
        )
        for k in strange
    ]


def _usual(recording: Recording, bad: set[int]) -> set[tuple[str, str]]:
    """Return the tensors that were not finite in steps where that did no harm."""
    return {
        (name, kind)
        for kind in recording.kinds
        for name, rows in recording.rows(kind).items()
        if not bad.issuperset(rows.nonfinite["step"].tolist())
    }


def _largest_input(recording: Recording, module: str, step: int) -> float | None:
    """Return the largest magnitude that a module was given in a step, if all was finite."""
    found = [0.0]
    for rows in recording.rows("input").values():
        if rows.tensor.module == module and rows.is_float:
            if step in rows.nonfinite["step"]:
                return None
            at = rows["step"] == step
            found += np.maximum(np.abs(rows["min"][at]), np.abs(rows["max"][at])).tolist()
    return max(found) or None


@rule("BS309")
def lost_loss(recording: Recording) -> Iterator[Finding]:
    """What backward() was called on, and tags with "loss" in their name.

    One that becomes finite again was only waiting for its value. One that was lost with a tensor, or after it, is told
    with that tensor, by BS301.
    """
    lost = {name: since for name, each in losses(recording.run).items() if (since := is_lost(each)) is not None}
    cause = lasting_since(recording) if lost else None
    for name, since in lost.items():
        if cause is not None and cause <= since:
            continue
        marked = losses(recording.run)[name]
        count, finite = int((marked[0] >= since).sum()), before(marked, since)
        yield Finding(
            "BS309",
            "error",
            f"The loss {name!r} is {what(marked, since)} from step {since} on.",
            (
                f"Before: {finite}. It stays so to the end, for {counted(count, 'step')}."
                if finite
                else f"It was never finite in {counted(count, 'step')}.",
            ),
            "All recorded tensors are finite then, so check the loss function: log(0), a division by 0, or an empty "
            "batch.",
        )


# An operation that gives NaN though it is given finite numbers: of a parameter, or the last one of a module.


_POSITIVE = "Keep its argument positive, for example with .clamp(min=1e-6) or softplus."
_INSIDE = "Keep its argument inside, for example with .clamp(-1 + 1e-6, 1 - 1e-6)."

_UNDEFINED = {
    "Log": ("log, which is NaN for a negative number; log(0) is -inf", _POSITIVE),
    "Log2": ("log2, which is NaN for a negative number; log2(0) is -inf", _POSITIVE),
    "Log10": ("log10, which is NaN for a negative number; log10(0) is -inf", _POSITIVE),
    "Log1P": (
        "log1p, which is NaN below -1; log1p(-1) is -inf",
        "Keep its argument above -1, for example with .clamp(min=-1 + 1e-6).",
    ),
    "Sqrt": ("sqrt, which is NaN for a negative number", _POSITIVE),
    "Rsqrt": ("rsqrt, which is NaN for a negative number; rsqrt(0) is infinite", _POSITIVE),
    "Div": ("a division, which is NaN for 0 / 0; any other number over 0 is infinite", "Keep its denominator from 0."),
    "Acos": ("acos, which is NaN outside of -1 to 1", _INSIDE),
    "Asin": ("asin, which is NaN outside of -1 to 1", _INSIDE),
    "Atanh": ("atanh, which is NaN outside of -1 to 1; atanh(1) is infinite", _INSIDE),
    "Softmax": ("softmax, which is NaN in a row of -inf only", "Leave at least one position of each row unmasked."),
    "LogSoftmax": (
        "log_softmax, which is NaN in a row of -inf only",
        "Leave at least one position of each row unmasked.",
    ),
}
"""When an operation gives NaN without infinity beside it, and what to do."""

_POSITIVE_NUMBERS, _UNIT = (0.0, math.inf), (-1.0, 1.0)

_DOMAINS = {
    **dict.fromkeys(("Log", "Log2", "Log10", "Sqrt", "Rsqrt"), _POSITIVE_NUMBERS),
    "Log1P": (-1.0, math.inf),
    **dict.fromkeys(("Acos", "Asin", "Atanh"), _UNIT),
}
"""From where to where an operation is defined."""

_FREE = {
    _POSITIVE_NUMBERS: "Nothing keeps the parameter {0} from becoming negative: compute {1} of F.softplus({0}), or "
    "train its logarithm and take .exp() of it.",
    _UNIT: "Nothing keeps the parameter {0} from -1 to 1: compute {1} of torch.tanh({0}).",
}


class Undefined(NamedTuple):
    """What to do about an operation that gives NaN, its line where that is known, and what was seen of it."""

    fix: str
    line: str | None
    seen: tuple[str, ...] = ()


def of_a_parameter(recording: Recording, step: int) -> Undefined | None:
    """Return the first operation whose operand is a parameter outside of what it is defined for, at this step."""
    weights = recording.rows("weight")
    for op, name, line in _on_parameters(recording):
        low, high = _DOMAINS[op]
        rows = weights.get(name)
        at = int(rows["step"].searchsorted(step)) if rows is not None else 0
        if rows is None or at == len(rows) or rows["step"][at] != step:
            continue
        if rows["min"][at] < low or rows["max"][at] > high:
            what = op.lower()
            why = f"The forward computes {what} of {name}, which {_went(rows, at)}: {what} is NaN there."
            free = _FREE.get((low, high), f"Nothing keeps the parameter {{0}} above {low:.0f}.").format(name, what)
            return Undefined(free, line, (why,))
    return None


def _on_parameters(recording: Recording) -> Iterator[tuple[str, str, str | None]]:
    """Yield the operations on a parameter that are not defined for every number, with its name and the line."""
    graph = recording.graph
    for node in reversed(graph.nodes if graph is not None else ()):
        edge = node.inputs[0] if node.op in _DOMAINS and node.inputs else None
        while edge is not None and edge.node.op in VIEWS and edge.node.inputs:
            edge = edge.node.inputs[0]
        if edge is not None and edge.node.leaf is not None:
            yield node.op, edge.node.leaf.name, graph.lines[node.index] if graph.lines else None


def _went(rows: Rows, at: int) -> str:
    """`went from 0.01093 at step 65 to -0.003246 at step 66`; of many numbers, the smallest and the largest."""
    steps = rows["step"]

    def told(k: int) -> str:
        low, high = number(rows["min"][k]), number(rows["max"][k])
        return f"{low if low == high else f'{low} to {high}'} at step {steps[k]}"

    return f"went from {told(at - 1)} to {told(at)}" if at and _is_finite(rows, at - 1) else f"was {told(at)}"


def _is_finite(rows: Rows, at: int) -> bool:
    return not rows["nans"][at] + rows["infs"][at]


def last_operation(recording: Recording, module: str) -> Undefined | None:
    """Return what is known of the last operation of a module, if it can give NaN; None if it tells nothing."""
    op, line = _ends_in(recording, module)
    known = _UNDEFINED.get(op or "")
    if known is None:
        return None
    return Undefined(f"{f'Module {module}' if module else 'The model'} ends in {known[0]}. {known[1]}", line)


def _ends_in(recording: Recording, module: str) -> tuple[str | None, str | None]:
    """Return the operation whose result a module returns, and its line, if all of its calls end in the same."""
    graph = recording.graph
    if graph is None:
        return None, None
    last: dict[int, tuple[str, str | None]] = {}
    for node, around in enumerate(graph.around):  # backward order: what is made last comes first
        if (op := op_name(graph.types[graph.columns.type[node]].name)) not in VIEWS:
            for path, call in around:
                if path == module:
                    last.setdefault(call, (op, graph.lines[node] if graph.lines else None))
    ops, lines = {op for op, _ in last.values()}, {line for _, line in last.values()}
    return ops.pop() if len(ops) == 1 else None, lines.pop() if len(lines) == 1 else None
