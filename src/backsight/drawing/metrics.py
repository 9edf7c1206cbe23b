"""How wide text is: the advance widths of Helvetica, which Arial, Liberation Sans and Nimbus Sans share.

Source: Adobe Core 14 AFM files, Helvetica and Helvetica-Bold, in thousandths of the font size.
"""

from __future__ import annotations

from functools import lru_cache
from unicodedata import category, east_asian_width

_REGULAR = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_BOLD = (
    "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333 "
    "584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 "
    "333 611 556 778 556 556 500 389 280 389 584"
)
_WIDTHS = {
    weight: {chr(32 + k): int(width) for k, width in enumerate(table.split())}
    | {"×": 584, "…": 1000, "·": 278, "–": 556, "≠": 549, "≤": 549}
    for weight, table in (("regular", _REGULAR), ("bold", _BOLD))
}


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide `text` is, in the unit of the font's `size`.

    ```python
    text_width("weight", 10)        # 28.9
    ```
    """
    widths = _WIDTHS["bold" if bold else "regular"]
    return sum(widths.get(c) or _other(c) for c in text) * size / 1000


@lru_cache(maxsize=4096)
def _other(character: str) -> int:
    """Return the width to reckon with for a character that Helvetica's table lacks.

    Letters are about as wide as those of other scripts are in sans-serif fonts, as a text is stretched to what is
    reckoned; of signs it is rather too much than too little.
    """
    kind = category(character)
    if kind in ("Mn", "Me", "Cf"):
        return 0
    if east_asian_width(character) in "WF":
        return 1000 if kind == "Lo" else 1100
    return 700 if kind == "Lu" else 580 if kind[0] == "L" else 780


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Return `text`, with an ellipsis for its middle if it is wider than `room`.

    Both ends of a name tell more than its middle: `transf…c_attn`.
    """
    if text_width(text, size, bold=bold) <= room:
        return text
    low, high = 0, min(len(text), 400)
    while low < high:  # the most characters that may stay
        keep = (low + high + 1) // 2
        if text_width(_shortened(text, keep), size, bold=bold) <= room:
            low = keep
        else:
            high = keep - 1
    return _shortened(text, low)


def _shortened(text: str, keep: int) -> str:
    head = keep // 2
    return f"{text[:head]}…{text[len(text) - (keep - head) :] if keep > head else ''}"
