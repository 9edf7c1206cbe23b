"""Looks at what is taken, divided, drawn, masked and stacked before a loss compares it."""

from __future__ import annotations

from typing import Any

import torch

from backsight.tape import made_by
from backsight.tracing.peculiar import FEWEST, Call, Kind, Said, bounds, can_read, looks


@looks("__getitem__", "index_select", of=("padded",), by_index=True)
def _taken(call: Call) -> Said | None:
    """Rows that are chosen by a mask of whole numbers; and the last entry of what was padded."""
    tensor: Any = call.args[0] if call.args else None
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return None
    padded = call.book.padded.of(tensor)
    index = call.given(1)
    if call.kwargs or len(call.args) == 3:
        at, index = call.given(1, "dim"), call.given(2, "index")
        if padded is not None and isinstance(call.result, torch.Tensor) and at == (0 if padded[2] else 1):
            site, lengths, first = padded
            order = index.tolist() if can_read(index) else []
            if len(order) == len(lengths):
                kept = tuple(lengths[k] for k in order)
                call.book.padded.put(id(call.result), call.result, (site, kept, first))
        if at != 0:
            return None
    if padded is not None and type(index) in (tuple, int):
        return _last_of_padded(call, index, *padded)
    made = call.book.finite.of(index) if index is not None else None
    if made is not None and made_by(tensor) is not None:
        call.other = made[0]
        return "hidden", True, (made[1],)
    return _by_mask(tensor, index)


def _last_of_padded(call: Call, index: Any, site: int, lengths: tuple[int, ...], first: bool) -> Said | None:
    parts = index if type(index) is tuple else (index,)
    if first and (type(parts[0]) is not slice or parts[0] != slice(None)):
        return None
    taken = parts[1:2] if first else parts[:1]
    if not taken or type(taken[0]) is not int or taken[0] != -1 or not call.result.requires_grad:
        return None
    call.other = site
    short = sum(n < max(lengths) for n in lengths)
    return "padding", short > 0, (short, len(lengths), max(lengths), first)


def _by_mask(tensor: torch.Tensor, index: Any) -> Said | None:
    if type(index) is not torch.Tensor or index.dtype not in (torch.int64, torch.int32) or not can_read(index):
        return None
    if index.numel() < FEWEST or tensor.shape[: index.dim()] != index.shape:
        return None
    is_so = bounds(index) == (0, 1)
    return "mask", is_so, (index.numel(), int((index == 1).sum()))


@looks("__floordiv__", "floor_divide")
def _quotient(call: Call) -> Said | None:
    """Whole numbers that are divided by one above all of them: the result is 0 throughout."""
    given, by = call.values(0, "input"), call.given(1, "other")
    by = by.item() if can_read(by) and by.numel() == 1 else by
    if given is None or type(by) is not int or given.is_floating_point() or given.numel() < FEWEST:
        return None
    low, high = bounds(given)
    is_so = low >= 0 and by > high and low != high
    if is_so:
        call.book.zeros.put(id(call.result), call.result, call.site)
    return "quotient", is_so, (by, high)


@looks("long", "int", "to", "type")
def _truncated(call: Call) -> Said | None:
    """Fractions below 1 that are made whole numbers: all of them become 0."""
    given, made = call.values(0), call.result
    if not isinstance(made, torch.Tensor) or made.dtype not in (torch.int64, torch.int32):
        as_fraction(call)
        return None
    if given is None or not given.is_floating_point() or given.numel() < FEWEST:
        return None
    low, high = bounds(given)
    is_so = low > -1 and high < 1 and low != high and len(set(given.reshape(-1)[: 8 * FEWEST].tolist())) >= FEWEST
    if is_so:
        call.book.zeros.put(id(call.result), call.result, call.site)
    return "truncated", is_so, (low, high)


@looks("unsqueeze", "view", "reshape", "expand", "squeeze", of=("zeros",))
def _same_values(call: Call) -> None:
    if call.args and (made := call.book.zeros.of(call.args[0])) is not None and call.result is not None:
        call.book.zeros.put(id(call.result), call.result, made)


@looks("float", "double", "half", "__truediv__", "div", of=("zeros",))
def as_fraction(call: Call) -> None:
    """A quotient that is computed with as a fraction."""
    if isinstance(call.result, torch.Tensor) and call.result.is_floating_point():
        _used(call, "quotient")


@looks("embedding")
def _looked_up(call: Call) -> None:
    """Tokens, of which some are padding."""
    _as_class(call)
    tokens, pad = call.values(0, "input"), call.given(2, "padding_idx")
    if tokens is not None and type(pad) is int and pad >= 0 and tokens.dim() == 2 and len(call.book.pads) < FEWEST:
        call.book.pads[tuple(tokens.shape)] = tokens == pad


@looks("multi_head_attention_forward")
def _masked(call: Call) -> Said | None:
    """A mask that hides the tokens and not the padding."""
    mask = call.kwargs.get("key_padding_mask")
    pads = call.book.pads.pop(tuple(mask.shape), None) if isinstance(mask, torch.Tensor) and can_read(mask) else None
    if mask is None or pads is None or pads.device != mask.device or not pads.any() or pads.all():
        return None
    hides = mask if mask.dtype == torch.bool else mask == -torch.inf
    return "inverted", torch.equal(hides, ~pads), (int(pads.sum()), pads.numel())


@looks("scaled_dot_product_attention")
def _aligned(call: Call) -> Said | None:
    """A causal mask that begins at the first of the keys, where the queries are the last of them."""
    if call.given(5, "is_causal", False) is not True:
        return None
    queries, keys = call.given(0, "query").shape[-2], call.given(1, "key").shape[-2]
    return "aligned", 0 < queries < keys, (queries, keys)


@looks("one_hot", "cross_entropy", "nll_loss", of=("zeros",))
def _as_class(call: Call) -> None:
    """What was truncated, that is looked up as a class."""
    _used(call, "truncated")


def _used(call: Call, kind: Kind) -> None:
    for each in call.args[:2]:
        made = call.book.zeros.of(each) if isinstance(each, torch.Tensor) else None
        if made is not None:
            call.book.use(made, call.site, kind)


@looks("_pad_packed_sequence")
def _padded(call: Call) -> None:
    result: Any = call.result if type(call.result) is tuple and len(call.result) == 2 else (None, None)
    output, lengths = result
    if isinstance(output, torch.Tensor) and can_read(lengths):
        call.book.padded.put(id(output), output, (call.site, tuple(lengths.tolist()), call.args[2] is True))


@looks("isfinite", "isnan")
def _finite(call: Call) -> None:
    if isinstance(call.result, torch.Tensor) and call.args:
        call.book.finite.put(id(call.result), call.result, (call.site, bool(call.args[0].requires_grad)))


@looks("__invert__", "logical_not", "bitwise_not")
def _inverted(call: Call) -> None:
    made = call.book.finite.of(call.args[0]) if call.args else None
    if made is not None and isinstance(call.result, torch.Tensor):
        call.book.finite.put(id(call.result), call.result, made)


@looks("where", "masked_fill", "nan_to_num", "nansum", "nanmean")
def _hidden(call: Call) -> Said | None:
    """What is not finite is hidden after it was computed with: its gradient is not."""
    if not isinstance(call.result, torch.Tensor) or not call.result.requires_grad or not call.args:
        return None
    masks = [call.book.finite.of(each) for each in (*call.args[:2], call.kwargs.get("mask"))]
    call.other, computed = next((made for made in masks if made is not None), (0, False))
    of_itself = call.args[0] if not call.other and len(call.args) == 1 else None
    computed |= isinstance(of_itself, torch.Tensor) and of_itself.requires_grad
    return ("hidden", True, (computed,)) if call.other or computed else None


@looks("randint")
def _drawn(call: Call) -> Said | None:
    """A random number of which there is one only."""
    numbers = [each for each in call.args[:2] if type(each) is int]
    low, high = (0, numbers[0]) if len(numbers) == 1 else (numbers or [0, 0])[:2]
    low, high = call.kwargs.get("low", low), call.kwargs.get("high", high)
    return ("drawn", high - low == 1, (low, high)) if type(low) is type(high) is int and high > low else None


@looks("stack")
def _stacked(call: Call) -> Said | None:
    """Parameters of several modules that become one."""
    given = call.given(0, "tensors")
    if type(given) not in (list, tuple) or len(given) < 2 or any(type(t) is not torch.nn.Parameter for t in given):
        return None
    return "stacked", True, (len(given),)
