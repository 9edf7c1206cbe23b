"""Numbers and expressions as explanations show them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch

from backsight.text import listed as in_words

ADDED_UP = "An entry that is used many times gets a gradient from each use, and they add up."

_PARTS = ("third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_WORDS = {Fraction(1, 2): "half", Fraction(2): "twice", Fraction(3): "three times"} | {
    Fraction(1, n): f"{'an' if part == 'eighth' else 'a'} {part} of" for n, part in enumerate(_PARTS, 3)
}


def number(value: Any) -> str:
    """Return `0.5`, `-1.234`, `1.2e-07`: four digits."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, complex):
        return f"{value.real:.4g}{value.imag:+.4g}j"
    return f"{value:.4g}"


def times(factor: float, *, words: bool = True) -> str:
    """Return `half`, `twice`, `a fifth of` or `1.01 times`; without words the number alone, `1/2`."""
    fraction = Fraction(factor).limit_denominator(12)
    if factor and abs(inverse := round(1 / factor)) > 12:
        fraction = Fraction(1, inverse)
    if abs(float(fraction) - factor) < 1e-5 * abs(factor):
        if fraction in _WORDS and words:
            return _WORDS[fraction]
        if fraction.denominator > 1:
            return f"{fraction}{' times' * words}"
    return f"{factor:.6g}{' times' * words}"


def listed(names: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`, each in backquotes."""
    return in_words([f"`{name}`" for name in names])
