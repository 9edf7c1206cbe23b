"""Why operations give NaN or infinity: logarithms, roots, quotients and powers; reductions and losses over nothing."""

from __future__ import annotations

import math
import re
from functools import partial

from backsight.diagnosis.births.birth import (
    Birth,
    Cause,
    cause,
    edit_to,
    has,
    masked,
    numbers,
    overflow,
    put_there,
    replaced,
    root_kept_away,
)
from backsight.source.edits import OR
from backsight.source.rewriting import simple

_EXP_LIMIT = {"float16": "11.09", "bfloat16": "88.7", "float32": "88.72", "float64": "709.78"}


@cause("log", "log2", "log10", "log1p")
def logarithm(birth: Birth) -> Cause | None:
    """log at 0 or below."""
    edge = -1.0 if birth.op == "log1p" else 0.0
    values, name = birth.value(), birth.named()
    below = [value for value in values if value < edge]
    fix = masked(birth, birth.operand().text, str(1 + edge), _fix_of_logarithm(birth, edge))
    if birth.blind:
        return _unseen(birth, f"at {edge}", fix, "" if birth.nan else "-inf")
    if has(values, edge) and birth.backward:
        return Cause(f"{birth.op} has an infinite slope where {name} is {edge}{times_zero(birth)}", fix)
    if has(values, edge):
        return Cause(f"{name} is {edge} there", fix, "-inf")
    if below:
        return Cause(f"{name} is {numbers(below)} there, and {birth.op} is undefined below {edge}", fix)
    return None


def _fix_of_logarithm(birth: Birth, edge: float) -> str:
    made, text = birth.made_by(), birth.operand().text
    if "softmax" in made:
        return (
            "Use a fused function, which avoids the small number: torch.log_softmax(scores, dim), or F.cross_entropy "
            "on the scores."
        )
    if "sigmoid" in made:
        return (
            "Use a fused function, which avoids the small number: F.logsigmoid(score), "
            "F.logsigmoid(-score) for the log of 1 - sigmoid(score), or F.binary_cross_entropy_with_logits."
        )
    if text and re.search(rf"(?<![\w.]){re.escape(text)}\s*\*\s*[\w.]*log", birth.statement):
        return f"torch.xlogy({text}, {text}), which is 0 at 0; torch.special.entr for an entropy."
    low = "-1 + 1e-7" if edge else "1e-12"
    return f"Keep its input above {edge:.0f}: {clamped(birth, text, low)}."


@cause("sqrt")
def root(birth: Birth) -> Cause | None:
    """sqrt at 0, where its slope is infinite, or below."""
    inside = _inside_of_root(birth)
    below = [value for value in birth.value() if value < 0]
    fix = masked(birth, inside, "1.0", root_kept_away(birth.expression, inside, partial(edit_to, birth)))
    if birth.blind:
        return _unseen(birth, "at 0.0", fix)
    if birth.backward and birth.result is not None and has(birth.result.at, 0.0):
        return Cause(f"sqrt has an infinite slope at 0.0{times_zero(birth)}", fix)
    if birth.backward or not below:
        return None
    otherwise = (
        f"Keep its input above 0: {clamped(birth, inside, '1e-12')}. (Rounding can push the difference of two large "
        "numbers below it.)"
    )
    return Cause(f"{birth.named()} is {numbers(below)} there", masked(birth, inside, "1.0", otherwise))


def _inside_of_root(birth: Birth) -> str:
    """Return what the root is taken of, as it is written: `x` of `torch.sqrt(x)` and of `x.sqrt()`."""
    if birth.operand().text:
        return birth.operand().text
    found = re.fullmatch(r"torch\.sqrt\((.*)\)|(.*)\.sqrt\(\)", birth.expression, re.DOTALL)
    return (found[1] or found[2]) if found else ""


@cause("rsqrt", "reciprocal")
def inverse(birth: Birth) -> Cause | None:
    """1/x and 1/sqrt(x) at 0."""
    text, values = birth.operand().text, birth.value()
    fix = masked(birth, text, "1.0", f"Keep its input away from 0: {clamped(birth, text, '1e-12')}.")
    if birth.blind:
        return _unseen(birth, "at 0.0", fix)
    if birth.backward and birth.result is not None and birth.result.total_nonfinite:
        return Cause(f"its input is 0.0 there, where both its value and its slope are infinite{times_zero(birth)}", fix)
    if has(values, 0.0):
        return Cause(f"{birth.named()} is 0.0 there", fix)
    if birth.op == "rsqrt" and any(value < 0 for value in values):
        return Cause(f"{birth.named()} is {numbers(v for v in values if v < 0)} there, below 0", fix)
    return None


@cause("div")
def quotient(birth: Birth) -> Cause | None:
    """x / 0 and 0 / 0."""
    above, below = birth.operand(0), birth.operand(1)
    if birth.backward or birth.fact.op.startswith("__r"):  # a node saves `other` first; `1 / x` is asked of x
        above, below = below, above
    elif len(birth.operands) == 1:
        above, below = birth.operand(1), birth.operand(0)
    if birth.blind:
        return _unseen(birth, "where it divides by 0.0", "Keep what it divides by away from 0: .clamp_min(1e-8).")
    if not has(below.at, 0.0):
        return overflow(birth)
    name = below.text or "what it divides by"
    fix = masked(birth, below.text, "1.0", _fix_of_quotient(birth, above.text, below.text))
    if birth.backward:
        return Cause(f"{name} is 0.0 there, where a quotient has an infinite slope{times_zero(birth)}", fix)
    if birth.nan:
        return Cause(f"{above.text or 'what is divided'} and {name} are both 0.0 there", fix)
    return Cause(f"{name} is 0.0 there", fix)


def _fix_of_quotient(birth: Birth, above: str, below: str) -> str:
    if above and "norm(" in below and above in below:
        new = replaced(birth.expression, below, f"{simple(below)}.clamp_min(1e-12)")
        edit = edit_to(birth, new) if new else ""
        return (
            f"F.normalize({above}, dim=...), which keeps the norm above 1e-12; {OR}or {below}.clamp_min(1e-12){edit}."
        )
    return (
        f"Keep what it divides by away from 0: {clamped(birth, below, '1e-8')}; {OR}add a small number instead if it "
        "can be negative."
    )


@cause("exp", "expm1", "exp2", "sinh", "cosh")
def exponential(birth: Birth) -> Cause | None:
    """An exponential whose argument is too large."""
    dtype = birth.fact.dtype
    fix = masked(birth, birth.operand().text or _inside_of(birth), "0.0", _fix_of_exponential(birth))
    if birth.backward:
        return Cause(f"{birth.short} is infinite there{times_zero(birth)}", fix)
    limit = f"{birth.op} of more than {_EXP_LIMIT.get(dtype, '88.72')} does not fit into {dtype}"
    return Cause(f"{birth.named()} is {numbers(birth.value())} there, and {limit}", fix)


def _inside_of(birth: Birth) -> str:
    found = re.fullmatch(rf"torch\.{birth.op}\((\w+)\)|(\w+)\.{birth.op}\(\)", birth.expression)
    return (found[1] or found[2]) if found else ""


def _fix_of_exponential(birth: Birth) -> str:
    text = birth.statement
    if re.search(r"log\w*\(\s*1\s*\+|log1p\(|\(1\s*\+[^=]*exp.*\)\.log\(", text):
        return "F.softplus(x), which is log(1 + exp(x)) for x of any size."
    if "log" in text and "sum" in text:
        return "torch.logsumexp(x, dim), which subtracts the largest value first."
    if "/" in text and "sum" in text:
        return "torch.softmax(x, dim), which subtracts the largest value first."
    return (
        "Stay in the logarithm (log_softmax, logsumexp, log-probabilities), subtract the largest value first, or clamp "
        "the argument: .clamp(max=80)."
    )


@cause("pow")
def power(birth: Birth) -> Cause | None:
    """A power below 1 at 0, a fractional power of a negative number, or one that is too large."""
    text, values = birth.operand().text, birth.value()
    below = [value for value in values if value < 0]
    if below and birth.nan:
        fix = masked(birth, text, "1.0", f"Keep the base above 0: {clamped(birth, text, '1e-12')}.")
        because = f"{birth.named()} is {numbers(below)} there, and a fractional power of a negative number is not real"
        return Cause(because, fix)
    fix = masked(birth, text, "1.0", f"Keep the base above 0: {clamped(birth, text, '1e-12')}.")
    if birth.blind and birth.backward:
        return _unseen(birth, "at 0.0 if its exponent is below 1", fix)
    if not has(values, 0.0):
        return overflow(birth)
    if birth.backward:
        return Cause(f"a power below 1 has an infinite slope where {birth.named()} is 0.0{times_zero(birth)}", fix)
    return Cause(f"{birth.named()} is 0.0 there, and the exponent is negative", fix)


@cause("acos", "asin", "atanh", "acosh")
def angle(birth: Birth) -> Cause | None:
    """acos and its like at the ends of their range, or beyond."""
    values, name = birth.value(), birth.named()
    beyond = [v for v in values if (v < 1 if birth.op == "acosh" else abs(v) > 1)]
    edge = [v for v in values if abs(v) == 1]
    fix = masked(birth, birth.operand().text, "2.0" if birth.op == "acosh" else "0.0", _fix_of_angle(birth))
    if birth.blind:
        return _unseen(birth, "at the end of its range", fix)
    if beyond:
        return Cause(f"{name} is {numbers(beyond)} there, outside the domain of {birth.op}", fix)
    if edge and birth.backward:
        return Cause(f"{birth.op} has an infinite slope where {name} is {numbers(edge)}{times_zero(birth)}", fix)
    return Cause(f"{name} is {numbers(edge)} there", fix) if edge else None


def _fix_of_angle(birth: Birth) -> str:
    text = birth.operand().text or "x"
    eps = "1e-3" if birth.fact.dtype in ("float16", "bfloat16") else "1e-7"
    if birth.op == "acosh":
        return f"Keep its input above 1: {text}.clamp_min(1 + {eps}){_inside(birth, f'clamp_min(1 + {eps})')}."
    bounds = f"clamp(-1 + {eps}, 1 - {eps})"
    fix = f"Keep its input inside the range: {text}.{bounds}{_inside(birth, bounds)}"
    if birth.op == "atanh":
        return f"{fix}."
    return f"{fix}; {OR}or use torch.atan2 of the sine and the cosine, which has no such edge."


def _inside(birth: Birth, bounds: str) -> str:
    """Write an expression with its operand between bounds."""
    text = birth.operand().text
    new = replaced(birth.expression, text, f"{simple(text)}.{bounds}") if text else ""
    return edit_to(birth, new) if new else ""


def _unseen(birth: Birth, edge: str, fix: str, result: str = "") -> Cause:
    """Return the usual cause, where the values are not known."""
    what = "has an infinite slope" if birth.backward else "is not finite"
    return Cause(f"{birth.op} {what} {edge}{times_zero(birth)} (its values were not kept)", fix, result)


def times_zero(birth: Birth) -> str:
    """`, and times the incoming 0, that is NaN`, where it is so."""
    return ", and times the incoming 0, that is NaN" if birth.nan and has(birth.fact.incoming, 0.0) else ""


def clamped(birth: Birth, operand: str, low: str) -> str:
    """Return the expression with its operand kept from falling below `low`: `p.clamp_min(1e-12).log()`."""
    if not operand:
        return f".clamp_min({low})"
    inner = operand if re.fullmatch(r"[\w.\[\], ]+", operand) else f"({operand})"
    new = replaced(birth.expression, operand, f"{inner}.clamp_min({low})")
    return put_there(birth, new) if new else f"{inner}.clamp_min({low})"


@cause("softmax", "log_softmax", "logsumexp", "scaled_dot_product_attention")
def of_scores(birth: Birth) -> Cause | None:
    """A row in which every score is -inf."""
    scores = birth.operand()
    infinite = birth.result if birth.backward and not scores.text else scores
    if infinite is None or not infinite.total_nonfinite:
        return overflow(birth)
    name = scores.text or "its input"
    if math.inf in scores.at:
        return Cause(f"{name} is inf there, and inf - inf is NaN", "Find where the infinite score comes from.")
    return Cause(
        f"{name} is -inf in a whole row, so nothing is left to choose from",
        "Leave one position of each row unmasked. Or mask with torch.finfo(scores.dtype).min instead of -inf, and "
        "set fully masked rows to 0 afterwards.",
    )


@cause("cross_entropy")
def of_classes(birth: Birth) -> Cause | None:
    """The mean over no targets."""
    if not birth.nan or birth.operand().total_nonfinite:
        return overflow(birth)
    return Cause(
        "every target is ignore_index, and the mean over no target is 0 / 0",
        'Skip such a batch, or divide by a count that is at least 1: F.cross_entropy(..., reduction="sum") / '
        "(target != ignore_index).sum().clamp_min(1).",
    )


@cause("std", "var", "std_mean", "var_mean")
def of_spread(birth: Birth) -> Cause | None:
    """The unbiased variance of one value."""
    given = birth.operand()
    if birth.result is not None and has(birth.result.at, 0.0):
        return Cause(
            f"all values are equal there, where {birth.op} has an infinite slope{times_zero(birth)}",
            f"Take the root of a variance that stays above 0: ({given.text or 'x'}.var(dim) + 1e-12).sqrt().",
        )
    if not birth.nan:
        return overflow(birth)
    shape = f"{given.text or 'its input'} has the shape {given.shape}"
    if 0 in given.shape:
        return Cause(f"{shape}: of no values there is none", "Skip it when nothing is left.")
    return Cause(
        f"{shape}, and one value has no spread: n - 1 is 0, and 0 / 0 is NaN",
        f"{birth.op}(..., correction=0), which is 0 for one value. Or skip groups with only one value.",
    )


@cause("mean", "nanmean", "median")
def of_nothing(birth: Birth) -> Cause | None:
    """The mean of no values."""
    given = birth.operand()
    if not birth.nan or 0 not in given.shape:
        return overflow(birth)
    text = given.text or "x"
    return Cause(
        f"{given.text or 'its input'} is empty, and the mean of no values is 0 / 0",
        f"Skip it when nothing is left; or {text}.sum() / max({text}.numel(), 1).",
    )


@cause("sub", "rsub", "add", "radd", "sum", "cumsum", "mul", "rmul", "matmul")
def of_infinities(birth: Birth) -> Cause | None:
    """inf - inf and 0 * inf: the infinity was there before."""
    infinite = next((each for each in birth.operands if each.total_nonfinite), None)
    if infinite is None or not birth.nan:
        return overflow(birth)
    law = "0 times infinity" if birth.op in ("mul", "rmul", "matmul") else "inf - inf"
    said = f"{infinite.text or 'an operand'} is {numbers(infinite.at)} there, and {law} is NaN"
    return Cause(said, "Find where the infinity comes from.")


@cause("checkpoint_function")
def of_checkpoint(birth: Birth) -> Cause | None:
    """A part that reentrant checkpointing computes again within the backward."""
    return Cause(
        "it arose in the part that a reentrant checkpoint recomputes, which backsight cannot watch",
        "Run it once with use_reentrant=False, or without the checkpoint, to see where.",
    )


@cause("linalg_eigh", "linalg_eig", "linalg_svd")
def of_spectrum(birth: Birth) -> Cause | None:
    """Equal eigenvalues: the gradient of their vectors divides by their difference."""
    if not birth.backward:
        return overflow(birth)
    return Cause(
        "two of its values are equal, and the gradient of their vectors divides by the difference",
        "If you only need the values, use torch.linalg.eigvalsh or svdvals, whose gradients are finite. Otherwise, "
        "make them differ by adding a small random diagonal.",
    )
