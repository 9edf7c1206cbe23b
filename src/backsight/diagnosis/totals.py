"""BS162: a sum over the whole batch is added to what each sample has of its own."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, warning
from backsight.tracing import Watch, totals

CODES = ("BS162",)


def summed_over_samples(watch: Watch) -> Iterator[Finding]:
    """Yield the findings of sums over all samples that are added to each of them, before the mean over them."""
    for each, line, summed, (text, of) in totals(watch):
        if line is None:
            continue
        what = f"`{text}`" if text else "A sum"
        over = ", ".join(map(str, each.dims))
        name = simple(of) if of else "the tensor"
        instead = f"{name}.sum({over if len(each.dims) == 1 else f'({over})'})" if each.dims else name
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
            f"Keep the samples apart: {instead} in place of {name}.sum().",
            line,
        )
