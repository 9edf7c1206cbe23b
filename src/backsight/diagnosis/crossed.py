"""BS117, BS147: what belongs to the samples of a batch is used along another dimension, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shaped, shown, warning
from backsight.tracing import Line, Watch, aligned, along

_ATTENTION = ("Transformer", "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer")


def crossed(watch: Watch, known: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of an exact watch that saw where the axes of each tensor come from."""
    told: set[str] = set()
    for each, line, texts in aligned(watch):
        if line is not None and str(line.place) not in told:
            told.add(str(line.place))
            yield _broadcast(line, texts, *each.shapes, each.axis)
    if any(each.code == "BS147" for each in known):
        return
    for layer, line in along(watch):
        if line is not None and str(line.place) not in told:
            told.add(str(line.place))
            yield _mixes(line, layer.layer, layer.shape)


def _broadcast(
    line: Line, texts: tuple[str, str], small: tuple[int, ...], large: tuple[int, ...], axis: int
) -> Finding:
    one, other = (f"`{text}`" if text else name for text, name in zip(texts, ("one", "the other"), strict=True))
    form = ", ".join(map(str, (-1, *(1,) * (len(large) - len(small)), *small[1:])))
    fix = f"{texts[0]}.view({form})" if texts[0].isidentifier() else f".view({form}) on {one}"
    both = f"broadcasts {shaped(small)} with {shaped(large)}, which raises nothing because both sizes are {large[0]}."
    return warning(
        "BS117",
        f"{one} has one entry per sample, but is broadcast along dimension {axis} of {other} instead of the batch.",
        (shown(line.place, both),),
        f"Give it the missing dimensions: {fix}.",
        line.place,
    )


def _mixes(line: Line, layer: str, shape: tuple[int, ...]) -> Finding:
    does = "attends across the samples" if layer in _ATTENTION else "takes the samples"
    does += " of the batch" if layer in _ATTENTION else " of the batch for steps in time"
    return warning(
        "BS147",
        f"{layer or 'A layer'} {does}: batch_first is not set.",
        (shown(line.place, f"passes {shaped(shape)}, which it takes for {shape[0]} steps of {shape[1]} samples."),),
        f"Create it with batch_first=True: nn.{layer or 'LSTM'}(..., batch_first=True).",
        line.place,
    )
