"""BS140: what changes a batch in place changes the stored data that it is a part of."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, warning
from backsight.naming import search
from backsight.tape.saved import memory
from backsight.tracing import Change

CODES = ("BS140",)

_ARITHMETIC = frozenset({"add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__"})
"""What is done to values that are there. What writes others into a memory, as a replay memory is filled, is meant."""


def changed_batch(batch: torch.Tensor, changes: Sequence[Change], since: int) -> Finding | None:
    """Return the finding that rows of stored data are changed in place, some of them more than once.

    A batch that is the whole of what is stored may be a state that moves; rows that are taken one after the other are
    data.
    """
    if not changes or any(each.kind != "in place" or each.op not in _ARITHMETIC for each in changes):
        return None
    key, stored, own = memory(batch)
    lines = {each.line for each in changes}
    times = sum(each.count for each in changes)
    line = next(iter(lines))
    if len(lines) != 1 or line is None or times * own <= stored:
        return None
    held = [
        (each, name.path)
        for each, name in search((), collect=(torch.Tensor,)).found
        if isinstance(each, torch.Tensor) and memory(each)[0] == key and each.numel() > batch.numel()
    ]
    name = max(held, key=lambda each: each[0].numel())[1] if held else "The stored data"
    return warning(
        "BS140",
        f"{name} changes while it is read: what it returns depends on how often it was read before.",
        (
            f"The batches are slices of it, which share its memory. They were changed in place {times} times: each "
            "row more than once.",
            shown(line, "modifies the stored values themselves."),
        ),
        "Create a new tensor there, as x = x + noise does: without the underscore in add_(), or with x.clone() first.",
        line,
        since=since,
    )
