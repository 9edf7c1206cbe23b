"""Questions that a page may ask, as it spells them: words and numbers in a query string, each checked here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backsight.runs import Run

MOST_COLUMNS = 4000
"""Columns of a picture, or points of a line, that may be asked for at once: more than a screen shows."""

LONGEST_WORD = 1 << 16
"""Characters of one parameter: names of tensors may be long, as whoever made the run chose them."""


ALL_RANKS = "all"
"""The `rank` of a question that is about all of them."""


class BadQuestion(ValueError):
    """A parameter is missing, or is not what it has to be."""


@dataclass(frozen=True)
class Asked:
    """The parameters of a question."""

    given: Mapping[str, str]

    def word(self, name: str, default: str | None = None) -> str:
        """Return a parameter that is text.

        Raises:
            BadQuestion: if it is not given and has no default, or is too long.
        """
        value = self.given.get(name, default)
        if value is None:
            raise BadQuestion(f"{name} is missing.")
        if len(value) > LONGEST_WORD:
            raise BadQuestion(f"{name} has {len(value)} characters; the maximum is {LONGEST_WORD}.")
        return value

    def words(self, name: str) -> list[str]:
        """Return a parameter that is a list: its words stand between commas."""
        return [word for word in self.word(name, "").split(",") if word]

    def number(self, name: str, default: int | None, least: int = 0, most: int = 1 << 62) -> int | None:
        """Return a parameter that is a whole number.

        Raises:
            BadQuestion: if it is none, or out of bounds.
        """
        text = self.given.get(name, "")
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise BadQuestion(f"{name} must be a whole number, not {text[:40]!r}.") from None
        if not least <= value <= most:
            raise BadQuestion(f"{name} must be from {least} to {most}, not {value}.")
        return value

    def columns(self, default: int) -> int:
        """Return how many columns or points are asked for."""
        return self.number("columns", default, 1, MOST_COLUMNS) or default

    def window(self) -> slice | None:
        """Return the steps that are asked for: `first` to `last`, both included; None for all."""
        first, last = self.number("first", None), self.number("last", None)
        return None if first is None and last is None else slice(first, None if last is None else last + 1)

    @property
    def rank(self) -> int | None:
        """The rank that is asked for; None for all of them, merged."""
        return None if self.given.get("rank") == ALL_RANKS else self.number("rank", None)

    def of(self, run: Run) -> Run:
        """Return what of a run answers: where there are very many ranks one of them, unless all are asked for."""
        if run.overview is run or self.given.get("rank") == ALL_RANKS:
            return run
        return run.overview if self.rank is None else run.only(self.rank)


Answer = dict[str, Any]
Question = Callable[["Run", Asked], Answer]

QUESTIONS: dict[str, Question] = {}
"""What may be asked of a run, as far as it is imported."""


HOMES = {
    "about": "about",
    "settings": "about",
    "heatmap": "heat",
    "histograms": "histograms",
    "metrics": "metrics",
    "lines": "tensor",
    "related": "tensor",
    "rows": "rows",
    "marks": "rows",
    "explain": "pages",
    "findings": "findings",
    "graph": "picture",
    "memory": "memory",
}
"""What may be asked of a run, and the file of `answers` that answers."""


def answering(name: str) -> Question:
    """Return what answers a question. Some need PyTorch, which takes seconds to import: the others do not wait."""
    import_module(f"backsight.viewer.answers.{HOMES[name]}")
    return QUESTIONS[name]


def question(name: str) -> Callable[[Question], Question]:
    """Register what answers a question about a run: with data that JSON can hold, and no NaN in it."""

    def register(answer: Question) -> Question:
        QUESTIONS[name] = answer
        return answer

    return register
