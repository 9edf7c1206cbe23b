"""Calls that do something else than is meant, as what they are given shows.

BS117, BS122, BS160, BS162: losses that are given, add up, or minimize, what they do not take. BS158, BS159, BS165.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from backsight.diagnosis.amending import (
    divided,
    expression_of,
    instead,
    renewed,
    rid_of_keyword,
    swapped,
    swapped_everywhere,
    with_keyword,
)
from backsight.diagnosis.evidence.attention import lower_right, masked_to_the_end
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import line_of
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.findings.evidence import Evidence
from backsight.source import Place, assignments, parsed, read_at
from backsight.source.body import body_around, callee, calls_in, keyword
from backsight.source.edits import OR
from backsight.source.rewriting import rewritten, simple
from backsight.story.holders import given, leaves_below
from backsight.tape import Graph, Node
from backsight.tracing import Told, Watch, peculiar, totals

_LEAST = 3
"""Looks at which a divergence has to be next to nothing."""


def named_operand(told: Told, *at: int | str, otherwise: str) -> str:
    """Return how the program wrote an argument, if that is a name, or an attribute, or an item of one."""
    text = next((told.operands[each] for each in at if told.operands.get(each)), "")
    return text if text and len(text) <= 40 else otherwise


_ZERO = {
    "cosine_embedding_loss": "A target of 0 adds 0 to the loss: pairs that differ train nothing.",
    "margin_ranking_loss": "A target of 0 adds the margin, whatever the scores are: such pairs train nothing.",
    "soft_margin_loss": "A target of 0 adds log(2), whatever the score is: such samples train nothing.",
    "hinge_embedding_loss": "A target of 0 counts as both 1 and -1: pairs that differ are never pushed apart.",
}


def _signs(told: Told) -> Finding:
    op, (zeros, total) = told.seen.op, told.seen.numbers
    target = named_operand(
        told, 2 if op in ("cosine_embedding_loss", "margin_ranking_loss") else 1, "target", otherwise=""
    )
    given = f"`{target}`" if target else "its target"
    return warning(
        "BS122",
        f"{op} expects targets of 1 and -1, but gets 1 and 0.",
        (shown(told.line.place, f"gets {given}, of which {zeros:g} of {total:g} entries are 0."), _ZERO[op]),
        f"Pass 2 * {target or 'target'} - 1 in place of {target or 'the target'}"
        f"{swapped(told.line, {target: f'2 * {simple(target)} - 1'}) if target else ''}.",
        told.line.place,
    )


def _range(told: Told) -> Finding:
    low, high, share = told.seen.numbers
    target = named_operand(told, 1, "target", otherwise="target")
    if low < 0:
        edit = swapped(told.line, {target: f"({target} + 1) / 2"})
        fix = f"Pass ({target} + 1) / 2 if they are 1 and -1{edit}."
    elif high > 200:
        fix = f"Pass {target} / 255 if they are pixels{swapped(told.line, {target: f'{simple(target)} / 255'})}."
    else:
        fix = "Use cross_entropy if they are classes."
    return warning(
        "BS122",
        f"binary_cross_entropy_with_logits expects targets from 0 to 1, but gets {low:g} to {high:g}.",
        (
            shown(told.line.place, f"compares with `{target}`: {share:.0%} of its entries lie outside."),
            "For these the loss has no minimum: it falls without bound as the logits grow.",
        ),
        f"{fix} {OR}Or scale them to the range from 0 to 1.",
        told.line.place,
    )


def _blank(told: Told) -> Finding:
    blanks, total, blank = told.seen.numbers
    return warning(
        "BS122",
        f"ctc_loss expects targets without the blank, {blank:g}, but {blanks:g} of {total:g} entries are the blank.",
        (
            shown(told.line.place, "compares with these targets."),
            "The blank separates symbols and stands for none of them: these targets contradict that.",
        ),
        "Number the symbols from 1 on and give the model one more output. Or pass blank=... with a class that no "
        "target has.",
        told.line.place,
    )


def _logs(told: Told) -> Finding:
    low, high = told.seen.numbers
    target = named_operand(told, 1, "target", otherwise="target")
    return warning(
        "BS122",
        "kl_div with log_target=True expects log-probabilities as its target, but gets probabilities.",
        (shown(told.line.place, f"compares with `{target}`, whose entries are between {low:.2g} and {high:.2g}."),),
        f"Remove log_target=True{rid_of_keyword(told.line, 'log_target', 'kl_div', 'KLDivLoss')}. "
        f"{OR}Or pass {target}.log(){swapped(told.line, {target: f'{simple(target)}.log()'})}.",
        told.line.place,
    )


def _outer(told: Told) -> Finding:
    (rows,) = told.seen.numbers
    target = named_operand(told, 1, "target", otherwise="the target")
    body = body_around(told.line.file, told.line.line)
    made = assignments(body, target, before=told.line.line)
    return warning(
        "BS117",
        f"{target} has shape {rows:g}×{rows:g}, but the prediction has {rows:g} entries: each is compared with all.",
        (
            if_known(made[-1] if made else None, f"broadcasts {rows:g}×1 and {rows:g} to {rows:g}×{rows:g}."),
            shown(told.line.place, "compares every prediction with every target."),
        ),
        "Give its operands the same shape: .squeeze(1) on what has shape N×1, or no unsqueeze(1).",
        made[-1] if made else told.line.place,
    )


def _scales(told: Told) -> Finding | None:
    total, samples, each = told.seen.numbers
    if not told.seen.latest or told.seen.times < _LEAST:
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


OF_LOSSES: dict[str, Callable[[Told], Finding | None]] = {
    "signs": _signs,
    "range": _range,
    "blank": _blank,
    "logs": _logs,
    "outer": _outer,
    "scales": _scales,
    "same": _same,
}
"""By the kind of what is peculiar."""


def summed_over_samples(watch: Watch) -> Iterator[Finding]:
    """Yield the findings of sums over all samples that are added to each of them, before the mean over them."""
    for each, line, summed, (text, of) in totals(watch):
        if line is None:
            continue
        what = f"`{text}`" if text else "A sum"
        over = ", ".join(map(str, each.dims))
        name = simple(of) if of else "the tensor"
        apart = f"{name}.sum({over if len(each.dims) == 1 else f'({over})'})" if each.dims else name
        yield warning(
            "BS162",
            f"{what} is summed over all {each.rows} samples, and then added to each of them.",
            (
                if_known(
                    summed if summed is not None and summed.place != line.place else None, "sums over the samples."
                ),
                if_known(line, "adds it to the value of each sample, of which the mean is taken."),
                f"So it weighs {each.rows} times as much as the value that it is added to.",
            ),
            f"Keep the samples apart: {apart} in place of {name}.sum(){renewed(summed or line, apart) if of else ''}.",
            line,
        )


# BS122: the logarithm of a probability is minimized, so that what is right becomes ever less probable.


_AVERAGES = frozenset({"Mean", "Sum", "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Select"})
_CHOOSES = frozenset({"Gather", "Index"})
_LAYERS = frozenset({"Addmm", "Mm"})
_DEEPEST = 16


def minimized(graph: Graph) -> Node | None:
    """Return the node of a log-probability that is the whole loss, up to a sum or mean; None if there is none.

    It is a score less the logarithm of the sum of all of them, or an entry of a log-softmax. Whoever looks for an input
    that is misunderstood minimizes that as well: so what is trained has to be the model, and nothing but that.
    """
    if len(graph.roots) != 1 or any(kind.kind == "custom" for kind in graph.types):
        return None
    node, negative = graph.roots[0], False
    for _ in range(_DEEPEST):
        inputs = given(node)
        if node.op == "Neg":
            negative = not negative
        elif node.op not in _AVERAGES or len(inputs) != 1:
            break
        if not inputs:
            return None
        node = inputs[0]
    if negative or not (_is_difference(graph, node) or _is_entry(node)):
        return None
    alone = len({leaf.owner for leaf in graph.leaves}) == 1  # else one of several may be trained against another
    return node if alone and all(leaf.owner and leaf.kind == "parameter" for leaf in graph.leaves) else None


def _is_difference(graph: Graph, node: Node) -> bool:
    """Whether a node subtracts from a score the logarithm of a sum over all scores: what is trained for both is one."""
    first, second = node.inputs if node.op == "Sub" and len(node.inputs) == 2 else (None, None)
    if first is None or second is None or _behind(second.node).op != "Logsumexp":
        return False
    one, other = (leaves_below(graph, each.node.index) for each in (first, second))
    return bool(one) and {leaf.node for leaf in one} <= {leaf.node for leaf in other}


def _is_entry(node: Node) -> bool:
    """Whether a node takes entries of a log-softmax over what a layer that is trained returns."""
    inputs = given(node)
    if node.op not in _CHOOSES or len(inputs) != 1:
        return False
    softmax = _behind(inputs[0])
    scores = given(softmax) if softmax.op == "LogSoftmax" else []
    layer = _behind(scores[0]) if len(scores) == 1 else None
    return layer is not None and layer.op in _LAYERS and any(each.kind == "leaf" for each in _transposed(layer))


def _behind(node: Node) -> Node:
    for _ in range(_DEEPEST):
        inputs = given(node)
        if node.op not in _AVERAGES - {"Mean", "Sum"} or len(inputs) != 1:
            break
        node = inputs[0]
    return node


def _transposed(layer: Node) -> list[Node]:
    """Return what a layer multiplies, behind a transpose."""
    return [given(each)[0] if each.op in ("T", "Transpose") and given(each) else each for each in given(layer)]


def less_probable(graph: Graph, node: Node, first: float, last: float, step: int) -> Finding:
    """Return the finding that a log-probability is minimized, which was `first` and is `last` at a step."""
    line, root = line_of(node), line_of(graph.roots[0])
    place = line.place if line is not None else root.place if root is not None else None
    return warning(
        "BS122",
        "The loss is the logarithm of a probability, which training makes ever smaller.",
        (
            if_known(line, "computes it: a score minus the logarithm of the sum over all of them.")
            if node.op == "Sub"
            else if_known(line, "computes it: an entry of a log-softmax."),
            if_known(None if root and root.place == place else root, "averages it, and nothing changes its sign."),
            f"A logarithm of a probability is never above 0. The loss fell from {first:.4g} to {last:.4g}.",
        ),
        f"Minimize its negative{_negated(place)}.",
        place,
        nodes=(node.index,),
        since=step,
    )


def _negated(place: Place | None) -> str:
    """Return a statement that returns or assigns an expression, with its negative."""
    body, statement = read_at(place)
    value = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
    if body is None or statement is None or value is None:
        return ""
    text = body.text(value)
    simple = isinstance(value, ast.Call | ast.Name | ast.Attribute | ast.Subscript)
    changes: dict[ast.expr, str] = {value: f"-{text}" if simple else f"-({text})"}
    mended = rewritten(body, statement, changes)
    return f": {mended}{instead(body, statement, changes)}" if mended else ""


# Calls other than losses, and all of them together.


_LEAST_OF_CALLS = 2
"""Looks at which a call has to be peculiar."""

_BY_CHANCE = frozenset({"inverted", "signs", "mask", "quotient", "truncated", "drawn", "logs", "same"})
"""What has to be so at every look."""

_BY_USE = frozenset({"quotient", "truncated"})
_LEAST_OF_NUMBERS = 3


def peculiarities(watch: Watch, known: Sequence[Finding] = ()) -> Iterator[Finding]:
    """Yield the findings of calls that an exact watch has looked at, beside those that are known."""
    evidence = (of for each in known if each.code == "BS117" for of in each.evidence if isinstance(of, Evidence))
    told = {("outer", str(of.place)) for of in evidence}
    for each in peculiar(watch):
        seen = each.seen
        least = _LEAST_OF_NUMBERS if seen.kind in _BY_USE else _LEAST_OF_CALLS
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
