"""What a run answers when a page asks: a file for each question."""

from backsight.viewer.answers import (
    about,
    findings,
    heat,
    histograms,
    memory,
    metrics,
    picture,
    rows,
    tensor,
)
from backsight.viewer.answers.comparing import compared
from backsight.viewer.answers.listing import listing

__all__ = [
    "about",
    "compared",
    "findings",
    "heat",
    "histograms",
    "listing",
    "memory",
    "metrics",
    "picture",
    "rows",
    "tensor",
]
