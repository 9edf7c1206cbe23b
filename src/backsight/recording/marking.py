"""Which step a mark is about: the one under way, or the one that has just ended."""

from __future__ import annotations

from typing import Any

from backsight.recording.page import Page


class Marking:
    """Tells of each tag its step.

    Between the end of a step and the next forward pass both are meant by somebody: `epoch` is told at the head of a
    loop, and `loss` at its foot, after the optimizer's step. A tag of the first sort is there before any step has
    ended, and one of the second is not. So the first time that a tag is given says where it is given always.
    """

    def __init__(self) -> None:
        self._ahead: set[str] = set()
        """Tags that were first given in the step that they are about."""
        self._behind: set[str] = set()
        """Tags that were first given when that step had ended."""

    def steps(self, under_way: int, page: Page | None, tags: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the tags of each step."""
        begun = under_way == 0 or has_begun(page)
        found: dict[int, dict[str, Any]] = {}
        for name, value in tags.items():
            if name not in self._ahead and name not in self._behind:
                (self._ahead if begun else self._behind).add(name)
            ended = name in self._behind and not begun
            found.setdefault(under_way - ended, {})[name] = value
        return found


_AT_REST = ("weight", "buffer", "eval_input", "eval_output")
"""Kinds of rows that evaluation between two steps leaves as well."""


def has_begun(page: Page | None) -> bool:
    """Whether training has been recorded of the step under way; the newest rows are the likeliest to tell."""
    return page is not None and any(row[0].kind not in _AT_REST for row in reversed(page.rows))
