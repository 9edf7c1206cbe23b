"""What a release with clipping does with each gradient, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from backsight.gradient_release.clipping.taps import Tap
from backsight.gradient_release.names import parameter_names
from backsight.text import size


def report(clipping: Any, optimizer: torch.optim.Optimizer) -> str:
    """Return a line for each matrix, whether it is kept as factors or why not, and one for all vectors."""
    taps: Mapping[int, Tap] = {} if clipping.taps is None else clipping.taps.last
    names = parameter_names(optimizer)
    trained = [each for each in clipping.parameters() if each.requires_grad]
    matrices = [each for each in trained if each.dim() > 1]
    kept = [each for each in matrices if id(each) in taps and not taps[id(each)].reason]
    lines = [_headline(clipping, trained, kept)]
    if clipping.taps is not None:
        lines += _columns([_row(names[id(each)], each, taps.get(id(each))) for each in matrices])
        vectors = [each for each in trained if each.dim() <= 1]
        if vectors:
            together = size(sum(each.numel() * each.element_size() for each in vectors))
            lines.append(f"dense     {len(vectors)} vectors, {together}: smaller than any factors")
    return "\n".join(lines)


def _headline(clipping: Any, trained: list[torch.Tensor], kept: list[torch.Tensor]) -> str:
    whole = sum(each.numel() * each.element_size() for each in trained)
    bound = f"Clipping to norm {clipping.bound.max_norm:g} (order {clipping.bound.norm_type:g}), {clipping.method}"
    if clipping.taps is None:
        return f"{bound}: release.backward(loss) runs backward twice"
    now = f"{bound}: {len(kept)} of {len(trained)} gradients are kept as factors"
    held = clipping.kept_bytes
    return f"{now}; the last step held {size(held)} for {size(whole)} of gradients" if held else now


def _row(name: str, weight: torch.Tensor, tap: Tap | None) -> tuple[str, str, str, str]:
    if tap is None:
        return "dense", name, str(tuple(weight.shape)), "no linear layer or embedding was called with it"
    if tap.reason:
        return "dense", name, tap.layer, tap.reason
    whole = size(weight.numel() * weight.element_size())
    return "factored", name, tap.layer, f"{tap.tokens:,} tokens: {size(tap.factor_bytes)} for {whole}"


def _columns(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return [
        "  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].ljust(widths[2]), row[3]]) for row in rows
    ]
