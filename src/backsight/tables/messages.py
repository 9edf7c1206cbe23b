"""Which code an error message belongs to, of which only the text is there: of a terminal, a log, a colleague."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backsight.diagnosis.pasted import Line

_HEAD = re.compile(
    r"^[ \t|+-]*(?:\[rank\d+\]:[ ]*)?(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:Error|Warning|Exception)):[ ]*", re.M
)
"""What stands before a message at the end of a traceback."""

_RANK = re.compile(r"^\[rank\d+\]:[ ]?", re.M)
_CODE = re.compile(r"\bBS[1-5]\d\d\b")


def codes_of(text: str) -> list[str]:
    """Return the codes that a text is about: of backsight's own, those that it names; else that of PyTorch's message.

    Of a chain of tracebacks the message that is known and began it counts, as in `backsight.explain`.

    >>> codes_of("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn")
    ['BS203']
    """
    if named := list(dict.fromkeys(_CODE.findall(text))):
        return named
    from backsight.diagnosis.explained import code_of

    return next(([code] for each in _messages(text) if (code := code_of(each))), [])


_OF_ORIGINS = re.compile(r"Function '\w+' returned nan values in its|is non-finite, so it cannot be clipped")
"""PyTorch's messages of what is not finite, which name no cause."""

_NOT_FINITE = re.compile(r"\b(?:nans?|inf|infs|infinity|infinite)\b", re.IGNORECASE)
_OF_TRAINING = re.compile(r"\b(?:loss|losses|grads?|gradients?|weights?|parameters?)\b", re.IGNORECASE)


_WEIGHT_MODIFIED = re.compile(
    r"modified by an inplace operation: \[\S+ \[[\d, ]*\]\]"
    r"(?:, which is output 0 of (?:AsStrided|T|Transpose)(?:Backward\d*)?,)? is at version"
)
"""A tensor that no operation made, or its transpose, as a linear layer saves its weight: an optimizer's step did it."""


def program_of(text: str) -> str:
    """Return which of the programs of its page a message most likely belongs to; "" for the first.

    >>> program_of("modified by an inplace operation: [torch.FloatTensor [8, 4, 3, 3]] is at version 2")
    'step'
    """
    return "step" if _WEIGHT_MODIFIED.search(" ".join(text.split())) else ""


_MODIFIED = re.compile(
    r"modified by an inplace operation: \[\S+ \[(?P<shape>[\d, ]*)\]\]"
    r"(?:, which is output \d+ of (?:\w+::)?(?P<op>\w+?)(?:Backward\d*)?,)? "
    r"is at version (?P<now>\d+); expected version (?P<then>\d+)"
)


def read_out(text: str) -> str:
    """Return what a message tells of the tensor that it is about; empty for one that tells nothing.

    >>> read_out("modified by an inplace operation: [torch.FloatTensor [4, 3]], which is output 0 of SigmoidBackward0, "
    ...          "is at version 1; expected version 0 instead.")
    'A tensor of shape 4×3, created or last modified by Sigmoid, was modified in place once after it had been saved.'
    """
    found = _MODIFIED.search(" ".join(text.split()))
    if found is None:
        return ""
    what = f"A tensor of shape {found['shape'].replace(', ', '×')}" if found["shape"] else "A scalar tensor"
    by = f", created or last modified by {found['op']}," if found["op"] and not program_of(text) else ""
    times = int(found["now"]) - int(found["then"])
    often = {1: "once", 2: "twice"}.get(times, f"{times} times")
    return f"{what}{by} was modified in place {often} after it had been saved."


_CHAINED = re.compile(r"^(?:The above exception was|During handling of the above)", re.MULTILINE)


@dataclass(frozen=True)
class Pasted:
    """An error of which there is the text: its class, its message, and the lines of its traceback, outermost first."""

    kind: str
    message: str
    lines: tuple[Line, ...]


def raised_at(text: str) -> tuple[str, int, str] | None:
    """Return the innermost line of a traceback that is no library's: its file, its number and its text.

    Of a chain of tracebacks that which began it, as in `codes_of`.
    """
    from backsight.diagnosis.pasted import lines_of

    lines = [each for each in lines_of(_CHAINED.split(text)[0]) if not each.is_library]
    return (lines[-1].file, lines[-1].number, lines[-1].text) if lines else None


def pasted(text: str) -> Pasted | None:
    """Return the error that `codes_of` tells the code of, with its own traceback."""
    from backsight.diagnosis.explained import code_of
    from backsight.diagnosis.pasted import lines_of

    text = _RANK.sub("", text)
    heads = list(_HEAD.finditer(text))
    for k, (head, message) in enumerate(zip(heads, _messages(text), strict=False)):
        if code_of(message):
            before = text[heads[k - 1].end() if k else 0 : head.start()]
            return Pasted(head[1], message, tuple(lines_of(before.rpartition(_BEGINS)[2])))
    return None


_BEGINS = "Traceback (most recent call last):"


def describing(text: str) -> list[str]:
    """Return the codes that are about what a text describes, without being a message that an explanation knows.

    >>> describing("RuntimeError: Function 'PowBackward0' returned nan values in its 0th output.")
    ['BS112']
    >>> describing("loss is nan"), describing("the loss is high")
    (['BS112', 'BS301', 'BS309'], [])
    """
    if _OF_ORIGINS.search(text):
        return ["BS112"]
    return ["BS112", "BS301", "BS309"] if _NOT_FINITE.search(text) and _OF_TRAINING.search(text) else []


def _messages(text: str) -> list[str]:
    """Return what may be messages: each that an exception's name stands before, in order, then all of the text."""
    text = _RANK.sub("", text)
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    parts = [text[head.end() : end] for head, end in zip(heads, ends, strict=False)]
    return [each.partition("\n\n")[0].strip() for each in parts] or [" ".join(text.split()), text.strip()]


def quoting(text: str, pages: Mapping[str, str]) -> list[str]:
    """Return the codes whose pages quote a message, of which there may be the beginning alone.

    >>> quoting("grad can be implicitly...", {"BS212": "RuntimeError: grad can be implicitly\\ncreated"})
    ['BS212']
    """
    words = " ".join(_HEAD.sub("", text).split()).rstrip(" .…").lower()
    if len(words) < _SHORTEST:
        return []
    return [code for code, page in pages.items() if words in " ".join(page.split()).lower()]


_SHORTEST = 12
"""Characters of which there is but one message."""
