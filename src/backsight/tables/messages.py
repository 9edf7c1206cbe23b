"""Which code an error message belongs to, of which only the text is there: of a terminal, a log, a colleague."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HEAD = re.compile(
    r"^[ \t|+-]*(?:\[rank\d+\]:[ ]*)?(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Warning|Exception):[ ]*", re.M
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

    return next(([code] for each in _messages(text) if (code := code_of(each))), []) or _of_symptom(text)


_SYMPTOMS = {
    r"\w+Backward\w*['\"`]? returned nan values": ["BS112"],
    r"\b(?:loss|losses|cost|objective)\b\W+(?:\w+\W+){0,3}(?:nan|inf|infinite|infinity)\b": ["BS112", "BS301", "BS309"],
    r"\b(?:gradients?|grads?)\b\W+(?:\w+\W+){0,3}(?:nan|inf|infinite|infinity)\b": ["BS112", "BS301"],
}
"""What a training shows where no message of PyTorch's names the cause, and the codes that do."""


def _of_symptom(text: str) -> list[str]:
    """Return the codes that lead from a symptom to its cause."""
    return next((codes for each, codes in _SYMPTOMS.items() if re.search(each, text, re.IGNORECASE)), [])


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
