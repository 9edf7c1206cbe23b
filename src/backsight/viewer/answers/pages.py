"""The page of a code."""

from __future__ import annotations

from backsight.runs import Run
from backsight.tables.codes import page_of
from backsight.viewer.question import Answer, Asked, BadQuestion, question


@question("explain")
def explain(run: Run, asked: Asked) -> Answer:
    """`code`: its page in Markdown, without what is meant for the docs alone."""
    text = page_of(asked.word("code"))
    if text is None:
        raise BadQuestion("there is no page of this code; the pages are in docs/codes of the source.")
    return {"text": text}
