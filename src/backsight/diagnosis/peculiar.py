"""Calls that do something else than is meant, as what they are given shows: the findings of `CODES`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.source import Place, assignments
from backsight.source.body import body_around, callee
from backsight.tracing import Told, Watch, peculiar

CODES = ("BS117", "BS122", "BS158", "BS159", "BS160", "BS162", "BS165")

_LEAST = 2
"""Looks at which a call has to be peculiar."""

_BY_CHANCE = frozenset({"inverted", "signs", "mask", "quotient", "truncated", "drawn", "logs", "same"})
"""What has to be so at every look."""

_BY_USE = frozenset({"quotient", "truncated"})
_LEAST_OF_NUMBERS = 3


def peculiarities(watch: Watch, known: Sequence[Finding] = ()) -> Iterator[Finding]:
    """Yield the findings of calls that an exact watch has looked at, beside those that are known."""
    told: set[tuple[str, str]] = {("outer", each.source or "") for each in known if each.code == "BS117"}
    for each in peculiar(watch):
        seen = each.seen
        least = _LEAST_OF_NUMBERS if seen.kind in _BY_USE else _LEAST
        if seen.times < least or (seen.kind in _BY_CHANCE and not seen.is_always):
            continue
        if (seen.kind in _BY_USE and not seen.used) or seen.kind not in _FINDINGS:
            continue
        key = seen.kind, str(each.line.place)
        finding = _FINDINGS[seen.kind](each) if key not in told else None
        if finding is not None:
            told.add(key)
            yield finding


def hidden(watch: Watch) -> list[Told]:
    """Return where the program hides what is not finite after it has computed with it."""
    return [each for each in peculiar(watch) if each.seen.kind == "hidden"]


def _named(told: Told, *at: int | str, otherwise: str) -> str:
    """Return how the program wrote an argument, if that is a name, or an attribute, or an item of one."""
    text = next((told.operands[each] for each in at if told.operands.get(each)), "")
    return text if text and len(text) <= 40 else otherwise


def _elsewhere(told: Told) -> Place | None:
    """Return the statement that matters beside the call, if it is another one."""
    place = told.other.place if told.other is not None else None
    return None if place == told.line.place else place


_ZERO = {
    "cosine_embedding_loss": "A target of 0 adds 0 to the loss: pairs that differ train nothing.",
    "margin_ranking_loss": "A target of 0 adds the margin, whatever the scores are: such pairs train nothing.",
    "soft_margin_loss": "A target of 0 adds log(2), whatever the score is: such samples train nothing.",
    "hinge_embedding_loss": "A target of 0 counts as both, 1 and -1: pairs that differ are never pushed apart.",
}


def _signs(told: Told) -> Finding:
    op, (zeros, total) = told.seen.op, told.seen.numbers
    target = _named(told, 2 if op in ("cosine_embedding_loss", "margin_ranking_loss") else 1, "target", otherwise="")
    given = f"`{target}`" if target else "its target"
    return warning(
        "BS122",
        f"{op} expects targets of 1 and -1, but gets 1 and 0.",
        (shown(told.line.place, f"gets {given}, of which {zeros:g} of {total:g} entries are 0."), _ZERO[op]),
        f"Pass 2 * {target or 'target'} - 1 in place of {target or 'the target'}.",
        told.line.place,
    )


def _range(told: Told) -> Finding:
    low, high, share = told.seen.numbers
    target = _named(told, 1, "target", otherwise="target")
    if low < 0:
        fix = f"Pass ({target} + 1) / 2 if they are 1 and -1."
    elif high > 200:
        fix = f"Pass {target} / 255 if they are pixels."
    else:
        fix = "Use cross_entropy if they are classes."
    return warning(
        "BS122",
        f"binary_cross_entropy_with_logits expects targets from 0 to 1, but gets {low:g} to {high:g}.",
        (
            shown(told.line.place, f"compares with `{target}`: {share:.0%} of its entries lie outside."),
            "For these the loss has no minimum: it falls without bound as the logits grow.",
        ),
        f"{fix} Or scale them to the range from 0 to 1.",
        told.line.place,
    )


def _blank(told: Told) -> Finding:
    blanks, total, blank = told.seen.numbers
    return warning(
        "BS122",
        f"ctc_loss expects targets without the blank, {blank:g}, but {blanks:g} of {total:g} entries are the blank.",
        (
            shown(told.line.place, "compares with these targets."),
            "The blank stands between symbols and for none of them: what the model learns of it is contradictory.",
        ),
        "Number the symbols from 1 on and give the model one more output. Or pass blank=... with a class that no "
        "target has.",
        told.line.place,
    )


def _logs(told: Told) -> Finding:
    low, high = told.seen.numbers
    target = _named(told, 1, "target", otherwise="target")
    return warning(
        "BS122",
        "kl_div with log_target=True expects log-probabilities as its target, but gets probabilities.",
        (shown(told.line.place, f"compares with `{target}`, whose entries are between {low:.2g} and {high:.2g}."),),
        f"Remove log_target=True. Or pass {target}.log().",
        told.line.place,
    )


def _mask(told: Told) -> Finding:
    total, ones = told.seen.numbers
    mask = _named(told, 1, "index", otherwise="the mask")
    return warning(
        "BS158",
        f"{mask} is a mask of whole numbers, so it is used as an index: it selects rows 0 and 1 again and again.",
        (
            shown(told.line.place, f"selects {total:g} rows: {ones:g} times row 1, and {total - ones:g} times row 0."),
            "Only a mask of dtype bool selects the rows at which it is True.",
        ),
        f"Use it as one: {mask}.bool(). Or create it without .long() or .int().",
        told.line.place,
    )


def _quotient(told: Told) -> Finding:
    by, high = told.seen.numbers
    text = told.line.segment or "the quotient"
    one, other = told.operands.get(0, ""), told.operands.get(1, "")
    return warning(
        "BS158",
        f"`{text}` is always 0: // drops the fraction.",
        (
            shown(told.line.place, f"divides whole numbers of at most {high:g} by {by:g}."),
            if_known(_elsewhere(told), "computes with the result as if it were a fraction."),
        ),
        f"Divide with /: {one} / {other}." if one and other else "Divide with / in place of //.",
        told.line.place,
    )


def _truncated(told: Told) -> Finding:
    low, high = told.seen.numbers
    text = told.line.segment or f"{told.seen.op}()"
    of = told.operands.get(0) or "x"
    return warning(
        "BS158",
        f"`{text}` is always 0: {told.seen.op}() drops the fraction.",
        (
            shown(told.line.place, f"makes whole numbers of values between {low:.2g} and {high:.2g}."),
            if_known(_elsewhere(told), "takes them for classes."),
        ),
        f"Scale them to the number of classes first: (n * {of}).long(), with n classes. Or pass them to a linear layer "
        "as they are.",
        told.line.place,
    )


def _drawn(told: Told) -> Finding | None:
    low, high = told.seen.numbers
    text = told.line.segment
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or callee(call)[1] != "randint":
        return None
    written = [each for each in call.args[:2] if isinstance(each, ast.Constant) and each.value in (low, high)]
    if len(written) != 2 or low != 0:
        return None
    written[1].value = int(high) + 1
    return warning(
        "BS158",
        f"`{text}` always draws {low:g}: high is not included.",
        (shown(told.line.place, f"draws from {low:g} up to, and not including, {high:g}."),),
        f"Draw from one more: {ast.unparse(call)}.",
        told.line.place,
    )


def _padding(told: Told) -> Finding:
    short, total, longest, first = told.seen.numbers
    taken = told.line.segment or "the last entry"
    out, rows = told.operands.get(0) or "out", "torch.arange(len(lengths))"
    right = f"{out}[{rows}, lengths - 1]" if first else f"{out}[lengths - 1, {rows}]"
    does = f"takes the last step: zeros for {short:g} of {total:g} samples, which train nothing."
    return warning(
        "BS159",
        f"`{taken}` is padding for every sample that is shorter than the longest of its batch.",
        (
            if_known(told.other, f"fills shorter samples with zeros up to {longest:g} steps."),
            shown(told.line.place, does),
        ),
        f"Take the last step of each sample: {right}, with the lengths that pad_packed_sequence returns. Or use the "
        "final hidden state that the recurrent layer returns, h[-1].",
        told.line.place,
    )


def _same(told: Told) -> Finding:
    names = ("anchor", "positive", "negative")
    one, other = (names[int(at)] for at in told.seen.numbers)
    texts = [told.operands.get(int(at), "") for at in told.seen.numbers]
    both = f"`{texts[0]}` and `{texts[1]}`" if all(texts) and texts[0] != texts[1] else f"The {one} and the {other}"
    return warning(
        "BS160",
        f"{both} are the same values: the {one} and the {other} of {told.seen.op}.",
        (shown(told.line.place, f"gets the {one} as the {other}, so their distance is always 0."),),
        f"Pass another sample as the {other}.",
        told.line.place,
    )


def _scales(told: Told) -> Finding | None:
    total, samples, each = told.seen.numbers
    if not told.seen.latest or told.seen.times < _LEAST_OF_NUMBERS:
        return None
    return warning(
        "BS162",
        f"The reconstruction is averaged over {total:,.0f} entries, but the KL divergence is summed over the batch.",
        (
            if_known(told.other, f"sums over all {samples:g} samples."),
            shown(told.line.place, f"adds both: the KL divergence weighs {total:,.0f} times as much as in the ELBO."),
            f"It has fallen to {each:.2g} for each sample: the code tells the decoder nothing about its sample.",
        ),
        f'Sum the reconstruction as well, reduction="sum". Or divide the KL divergence by {total:,.0f}, the number of '
        "entries.",
        told.line.place,
    )


def _outer(told: Told) -> Finding:
    (rows,) = told.seen.numbers
    target = _named(told, 1, "target", otherwise="the target")
    body = body_around(told.line.file, told.line.line)
    made = assignments(body, target, before=told.line.line)
    return warning(
        "BS117",
        f"{target} has shape {rows:g}×{rows:g}, but the prediction has {rows:g} entries: each is compared with all.",
        (
            if_known(made[-1] if made else None, f"makes {rows:g}×{rows:g} of {rows:g}×1 and {rows:g}."),
            shown(told.line.place, "compares every prediction with every target."),
        ),
        "Give what it is made of the same shape: .squeeze(1) on what has shape N×1, or no unsqueeze(1).",
        made[-1] if made else told.line.place,
    )


def _inverted(told: Told) -> Finding:
    pads, total = told.seen.numbers
    return warning(
        "BS165",
        "The padding mask is inverted: attention sees the padding alone.",
        (
            shown(
                told.line.place, f"hides the {total - pads:g} tokens of {total:g}, and none of the {pads:g} of padding."
            ),
            "In key_padding_mask and src_key_padding_mask, True means: hide this position.",
        ),
        "Pass the opposite: tokens == padding_idx, or ~mask.",
        told.line.place,
    )


_FINDINGS: dict[str, Callable[[Told], Finding | None]] = {
    "signs": _signs,
    "range": _range,
    "blank": _blank,
    "logs": _logs,
    "mask": _mask,
    "quotient": _quotient,
    "truncated": _truncated,
    "drawn": _drawn,
    "padding": _padding,
    "same": _same,
    "scales": _scales,
    "outer": _outer,
    "inverted": _inverted,
}
