"""Calls that do something else than is meant, as what they are given shows: the findings of `CODES`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from backsight.diagnosis.amending import (
    divided,
    expression_of,
    instead,
    renewed,
    swapped_everywhere,
    with_keyword,
)
from backsight.diagnosis.evidence.attention import lower_right, masked_to_the_end
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.loss_targets import OF_LOSSES, named_operand
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.source import Place, parsed, read_at
from backsight.source.body import callee, calls_in, keyword
from backsight.source.edits import OR
from backsight.source.rewriting import simple
from backsight.tracing import Told, Watch, peculiar

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


def _elsewhere(told: Told) -> Place | None:
    """Return the statement that matters beside the call, if it is another one."""
    place = told.other.place if told.other is not None else None
    return None if place == told.line.place else place


def _mask(told: Told) -> Finding:
    total, ones = told.seen.numbers
    mask = named_operand(told, 1, "index", otherwise="the mask")
    return warning(
        "BS158",
        f"{mask} is a mask of integers, so it is used as an index: it selects rows 0 and 1 again and again.",
        (
            shown(told.line.place, f"selects {total:g} rows: {ones:g} times row 1, and {total - ones:g} times row 0."),
            "Only a mask of dtype bool selects the rows at which it is True.",
        ),
        f"Use it as one: {mask}.bool(){swapped_everywhere(told.line, mask, f'{simple(mask)}.bool()')}. {OR}Or create "
        "it without .long() or .int().",
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
            shown(told.line.place, f"divides integers of at most {high:g} by {by:g}."),
            if_known(_elsewhere(told), "computes with the result as if it were a fraction."),
        ),
        f"Divide with /: {one} / {other}{renewed(told.line, f'{one} / {other}')}."
        if one and other
        else f"Divide with / in place of //{divided(told.line.place)}.",
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
            shown(told.line.place, f"converts values between {low:.2g} and {high:.2g} to integers."),
            if_known(_elsewhere(told), "uses them as classes."),
        ),
        f"Scale them to the number of classes first: (n * {of}).long(), with n classes. Or pass them to a linear layer "
        "as they are.",
        told.line.place,
    )


def _drawn(told: Told) -> Finding | None:
    low, high = told.seen.numbers
    text = told.line.segment
    call = parsed(text.strip())
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
        f"Raise high by one: {ast.unparse(call)}{renewed(told.line, ast.unparse(call))}.",
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


def _inverted(told: Told) -> Finding:
    pads, total = told.seen.numbers
    return warning(
        "BS165",
        "The padding mask is inverted: attention sees only the padding.",
        (
            shown(told.line.place, f"hides all {total - pads:g} tokens and none of the {pads:g} padding positions."),
            "In key_padding_mask and src_key_padding_mask, True means: hide this position.",
        ),
        f"Pass the opposite: tokens == padding_idx, or ~mask{_opposite(told)}.",
        told.line.place,
    )


def _opposite(told: Told) -> str:
    """Invert the padding mask that a call is given."""
    body, statement = read_at(told.line.place)
    names = ("src_key_padding_mask", "key_padding_mask")
    given = [each for call in calls_in(statement) if (each := keyword(call, *names)) is not None]
    if body is None or len(given) != 1:
        return ""
    mask = given[0]
    match mask:
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.Eq() as op], comparators=[right]):
            new = f"{body.text(left)} {'==' if isinstance(op, ast.NotEq) else '!='} {body.text(right)}"
        case _:
            new = f"~{simple(body.text(mask))}"
    return instead(body, statement, {mask: new})


def _to_the_end(told: Told, query: str, key: str, *, one: bool) -> str:
    """Give a call a mask that ends at the last key, or none where a single query comes last."""
    body, statement, call = expression_of(told.line)
    if body is None or not isinstance(call, ast.Call):
        return ""
    if one:
        return instead(body, statement, with_keyword(body, call, "is_causal", f"{query}.size(-2) > 1"))
    return masked_to_the_end(body, statement, call, query, key)


def _aligned(told: Told) -> Finding:
    queries, keys = (int(each) for each in told.seen.numbers)
    query, key = told.operands.get(0) or "query", told.operands.get(1) or "key"
    one = queries == 1
    hides = "1 query" if one else f"{queries} queries"
    shows = "it sees the first alone" if one else f"none sees the last {keys - queries}"
    edit = _to_the_end(told, query, key, one=one) if told.operands.get(0) and told.operands.get(1) else ""
    mask = f"Pass {lower_right(query, key)}, in place of it{edit}."
    return warning(
        "BS165",
        f"is_causal=True hides the last keys from every query: `{query}` is shorter than `{key}`.",
        (
            shown(told.line.place, f"gives {hides} and {keys} keys: {shows}."),
            "The mask begins at the first key: query i sees the keys up to i. With earlier keys in front, as from a "
            "cache, it should end at the last.",
        ),
        f"A single query comes last, and may see every key: is_causal={query}.size(-2) > 1{edit}." if one else mask,
        told.line.place,
    )


_FINDINGS: dict[str, Callable[[Told], Finding | None]] = {
    **OF_LOSSES,
    "mask": _mask,
    "quotient": _quotient,
    "truncated": _truncated,
    "drawn": _drawn,
    "padding": _padding,
    "inverted": _inverted,
    "aligned": _aligned,
}
