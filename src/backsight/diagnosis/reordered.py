"""BS117, BS147: the samples of a batch are used along another dimension, or a view gives sizes in another order."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from backsight.diagnosis.amending import instead, renewed, swapped_together
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.dimensions import with_batch_first
from backsight.diagnosis.wording import if_known, shaped, shown, warning
from backsight.source import parsed
from backsight.source.body import Body, callee, dotted, given_to, statements
from backsight.source.imports import library
from backsight.source.rewriting import simple
from backsight.tracing import Line, Sighting, Spot, Watch, aligned, along, flattened

_Sizes = tuple[int, ...]


def reordered(sightings: Sequence[Sighting]) -> Iterator[Finding]:
    """Yield the findings of views that exchange sizes, which no other view takes back.

    Sizes may be the same ones by chance where a view splits or joins them; so they have to be written as they are, or
    their names tell: `b, t, c = x.shape`, and then `x.view(b, c, t)`.
    """
    every = {shapes for each in sightings for shapes in each.shapes}
    alike = Counter(shapes for each in sightings for shapes in each.shapes)
    for seen in sightings:
        for before, after in seen.shapes:
            if (after, before) in every:
                continue
            order = _by_name(seen.spot, before) or _by_size(seen.spot, before, after)
            if order is None and seen.requires_grad and alike[before, after] == 1:
                order = _as_last(seen.spot, before, after)  # what is cut alike may be compared entry by entry
            if order is not None:
                yield _finding(seen.spot, before, after, order)
                break


def _by_name(spot: Spot, before: _Sizes) -> list[int] | None:
    """Return which dimensions a view names, in its order, where that is not the one in which they were named."""
    receiver = dotted(spot.call.func.value) if isinstance(spot.call.func, ast.Attribute) else None
    names = _unpacked(spot.body, receiver, spot.statement.lineno) if receiver is not None else []
    written = [name for each in _given(spot.call) for name in _factors(each)]
    if len(names) != len(before) or not all(each in names for each in written) or len(set(written)) < len(written):
        return None
    order = [names.index(each) for each in written]
    large = [at for at in order if before[at] > 1]
    return order if large != sorted(large) and len({before[at] for at in large}) > 1 and len(order) > 1 else None


def _by_size(spot: Spot, before: _Sizes, after: _Sizes) -> list[int] | None:
    """Return the same where the sizes themselves tell."""
    given = _given(spot.call)
    large, made = [n for n in before if n > 1], [n for n in after if n > 1]
    if sorted(large) != sorted(made) or large == made or not all(map(_is_plain, given)):
        return None
    rest = [at for at, each in enumerate(given) if _is_minus_one(each)]
    if rest and (len(before) != len(after) or before[rest[0]] != after[rest[0]]):
        return None
    if len(set(large)) != len(large) or len(before) != len(after):
        return [] if len(large) > 2 else None
    return [before.index(n) for n in after] if len(large) == len(before) else []


def _as_last(spot: Spot, before: _Sizes, after: _Sizes) -> list[int] | None:
    """Return the same of `x.view(-1, x.size(1))`, where larger dimensions than one follow the one that it puts last."""
    receiver = dotted(spot.call.func.value) if isinstance(spot.call.func, ast.Attribute) else None
    given = _given(spot.call)
    if receiver is None or len(given) != 2 or len(after) != 2 or not _is_minus_one(given[0]):
        return None
    at = _dimension(given[1], receiver)
    if at is None and isinstance(given[1], ast.Name):
        at = _named(spot.body, receiver, spot.statement.lineno).get(given[1].id)
        names = _unpacked(spot.body, receiver, spot.statement.lineno)
        at = names.index(given[1].id) if at is None and given[1].id in names and len(names) == len(before) else at
    if at is None or not 0 < at < len(before) - 1 or before[at] != after[1] or before[at] == 1:
        return None
    rest = before[at + 1 :]
    return [*range(at), *range(at + 1, len(before)), at] if max(rest) > 1 else None


def _dimension(node: ast.expr, receiver: str) -> int | None:
    """Return which dimension of a variable an expression asks the size of: `x.size(1)`, `x.shape[1]`."""
    asked: ast.expr | None = None
    if isinstance(node, ast.Subscript) and _sizes_of(node.value) == receiver:
        asked = node.slice
    elif isinstance(node, ast.Call) and callee(node)[1] == "size" and len(node.args) == 1:
        held = callee(node)[0]
        asked = node.args[0] if held is not None and dotted(held) == receiver else None
    return asked.value if isinstance(asked, ast.Constant) and type(asked.value) is int else None


def _named(body: Body, receiver: str, line: int) -> dict[str, int]:
    """Return the names that sizes of a variable were given, unless the variable was given a value since."""
    names: dict[str, int] = {}
    for each in statements(body.node):
        if not isinstance(each, ast.Assign) or each.lineno >= line:
            continue
        for target in each.targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                names.pop(dotted(one) or "", None)
                if dotted(one) == receiver:
                    names.clear()
        at = _dimension(each.value, receiver)
        if at is not None and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            names[each.targets[0].id] = at
    return names


def _given(call: ast.Call) -> list[ast.expr]:
    given = given_to(call)[1:]
    return list(given[0].elts) if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List) else given


def _factors(node: ast.expr) -> Iterator[str]:
    """Yield the names in a product of names; what is none of them is told by the empty one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node.id if isinstance(node, ast.Name) else ""


def _is_plain(node: ast.expr) -> bool:
    """Whether a size is written as it is, and not computed."""
    size = isinstance(node, ast.Call) and callee(node)[1] == "size"
    return size or isinstance(node, ast.Constant | ast.Name | ast.Attribute | ast.Subscript) or _is_minus_one(node)


def _is_minus_one(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _unpacked(body: Body, receiver: str, line: int) -> list[str]:
    """Return the names that the sizes of a variable were given last, unless the variable was given a value since."""
    names: list[str] = []
    for each in statements(body.node):
        if not isinstance(each, ast.Assign) or each.lineno >= line or len(each.targets) != 1:
            continue
        target = each.targets[0]
        if isinstance(target, ast.Tuple) and _sizes_of(each.value) == receiver:
            names = [one.id if isinstance(one, ast.Name) else "" for one in target.elts]
            continue
        bound = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [] if any(dotted(one) in {receiver, *names} for one in bound) else names
    return names


def _sizes_of(value: ast.expr) -> str | None:
    if isinstance(value, ast.Attribute) and value.attr == "shape":
        return dotted(value.value)
    if isinstance(value, ast.Call) and callee(value)[1] == "size" and not value.args:
        receiver = callee(value)[0]
        return dotted(receiver) if receiver is not None else None
    return None


def _finding(spot: Spot, before: _Sizes, after: _Sizes, order: Iterable[int]) -> Finding:
    place, order = spot.body.place(spot.statement), list(order)
    receiver = spot.body.text(spot.call.func.value) if isinstance(spot.call.func, ast.Attribute) else "it"
    moved = "permute or transpose"
    if len(order) == len(before):
        swapped = [at for at, other in enumerate(order) if at != other]
        by = f"transpose({swapped[0]}, {swapped[1]})" if len(swapped) == 2 else f"permute({', '.join(map(str, order))})"
        same = len(after) == len(before)
        moved = f"{receiver}.{by}" if same else f"{receiver}.{by}.reshape({_written(spot)})"
    edit = instead(spot.body, spot.statement, {spot.call: moved}) if len(order) == len(before) else ""
    return warning(
        "BS147",
        f"{spot.method} gives the sizes of {receiver} in another order, which mixes its entries.",
        (shown(place, f"cuts {shaped(before)} into {shaped(after)} and moves no entry between dimensions."),),
        f"Exchange dimensions with {moved} instead of {spot.method}{edit}.",
        place,
    )


def _written(spot: Spot) -> str:
    return ", ".join(spot.body.text(each) for each in _given(spot.call))


_ATTENTION = ("Transformer", "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer")


def crossed(watch: Watch, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of an exact watch that saw where the axes of each tensor come from."""
    told: set[str] = set()
    every = [(at, texts, each) for each, at, texts in aligned(watch) if at is not None]
    for at, texts, each in every:
        if str(at.place) not in told:
            told.add(str(at.place))
            beside = [(one, *words, *other.shapes) for one, words, other in every if str(one.place) == str(at.place)]
            yield _broadcast(at, texts, *each.shapes, each.axis, _viewed(beside))
    for flat, line, lines in flattened(watch):
        if line is not None and all(lines) and str(line.place) not in told:
            told.add(str(line.place))
            yield _opposite(line, lines, *flat.shapes)
    if any(each.code == "BS147" for each in known):
        return
    for layer, line in along(watch):
        if line is not None and str(line.place) not in told:
            told.add(str(line.place))
            yield _mixes(line, layer.layer, layer.shape)


def _broadcast(
    line: Line, texts: tuple[str, str], small: tuple[int, ...], large: tuple[int, ...], axis: int, edit: str
) -> Finding:
    one, other = (f"`{text}`" if text else name for text, name in zip(texts, ("one", "the other"), strict=True))
    form = _form(small, large)
    fix = f"{texts[0]}.view({form})" if texts[0].isidentifier() else f".view({form}) on {one}"
    both = f"broadcasts {shaped(small)} with {shaped(large)}, which raises nothing because both sizes are {large[0]}."
    return warning(
        "BS117",
        f"{one} has one entry per sample, but is broadcast along dimension {axis} of {other} instead of the batch.",
        (shown(line.place, both),),
        f"Give it the missing dimensions: {fix}{edit}.",
        line.place,
    )


def _form(small: _Sizes, large: _Sizes) -> str:
    """Return the sizes of what meets a larger one along its first dimension."""
    return ", ".join(map(str, (-1, *(1,) * (len(large) - len(small)), *small[1:])))


def _viewed(every: Sequence[tuple[Line, str, str, _Sizes, _Sizes]]) -> str:
    """Give all that meet something larger in one statement the missing dimensions."""
    pairs = [(at, text, f"{simple(text)}.view({_form(small, large)})") for at, text, _, small, large in every]
    return swapped_together(pairs) if all(text for _, text, _ in pairs) else ""


def _opposite(line: Line, lines: Sequence[Line | None], scores: _Sizes, target: _Sizes) -> Finding:
    one, other = (each for each in lines if each is not None)
    both = tuple(f"`{each.segment}`" if each.segment else name for each, name in zip((one, other), _SIDES, strict=True))
    total = scores[0] * scores[1]
    turned = _turned(one.segment)
    both_on_one = f", and {total} targets of {target[0]}×{target[1]}" if one.place == other.place else ""
    return warning(
        "BS147",
        f"{both[0]} and {both[1]} are flattened in opposite orders, so each score meets the target of another entry.",
        (
            shown(one.place, f"makes {total} rows of {scores[0]}×{scores[1]}, in this order{both_on_one}."),
            if_known(None if both_on_one else other.place, f"makes {total} targets of {target[0]}×{target[1]}."),
        ),
        f"Exchange the first two dimensions of one of them before that: {turned}{renewed(one, turned)}."
        if turned
        else "Exchange the first two dimensions of one of them before that: transpose(0, 1).",
        line.place,
    )


_SIDES = ("The scores", "the targets")


def _turned(text: str) -> str:
    """Return what flattens a tensor with its first two dimensions exchanged; empty if that is written otherwise."""
    call = parsed(text.strip())
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    receiver, name = ast.unparse(call.func.value), call.func.attr
    given = ", ".join(ast.unparse(each) for each in (*call.args, *call.keywords))
    if library(call.func) or name not in ("view", "reshape", "flatten"):
        return ""
    return f"{receiver}.transpose(0, 1).{'reshape' if name == 'view' else name}({given})"  # what is turned has no view


def _mixes(line: Line, layer: str, shape: tuple[int, ...]) -> Finding:
    does = "attends across the samples" if layer in _ATTENTION else "takes the samples"
    does += " of the batch" if layer in _ATTENTION else " of the batch for steps in time"
    return warning(
        "BS147",
        f"{layer or 'A layer'} {does}: batch_first is not set.",
        (shown(line.place, f"passes {shaped(shape)}, which it takes for {shape[0]} steps of {shape[1]} samples."),),
        f"Create it with batch_first=True: nn.{layer or 'LSTM'}(..., batch_first=True)"
        f"{with_batch_first(line.file, layer) if layer else ''}.",
        line.place,
    )
