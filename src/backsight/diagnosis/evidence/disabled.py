"""What disabled gradients where an operation ran: a `with` block or a decorator, of its function or of a caller."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from backsight.source import Body, Place, assignments
from backsight.source.body import body_around, dotted, statements
from backsight.source.cut_rules import grad_mode
from backsight.tracing import Severed

_MODES = {"no_grad": ("no_grad", "inference_mode", "set_grad_enabled"), "inference": ("inference_mode",)}
"""What to look for, by what a watch says of a cut."""


@dataclass(frozen=True)
class Disabled:
    """A `with` block or a decorator that disables gradients.

    text: the expression that does it, `torch.no_grad()`.
    body: the function that it stands in; the decorator is its own, if `is_decorator`.
    calling: where the operation ran in another function, the statement inside that has called it.
    """

    place: Place
    text: str
    body: Body
    is_decorator: bool
    calling: Place | None

    @property
    def function(self) -> str:
        """The name of the function that is decorated."""
        return getattr(self.body.node, "name", "")


def disabled_by(cut: Severed) -> Disabled | None:
    """Return the block or decorator that was nearest around an operation, in its own function or in one that called it.

    None where there is none, as after `torch.set_grad_enabled(False)`, or where something else has cut.
    """
    modes = _MODES.get(cut.by, ())
    for line in (cut.line, *cut.callers) if modes else ():
        body = body_around(line.file, line.line) if line is not None else None
        # A lambda or a comprehension runs elsewhere than it stands, or its function is among the callers.
        if line is None or body is None or line.function.endswith(("<lambda>", "<genexpr>", "comp>")):
            continue
        found = _nearest(body, line.line, modes)
        if found is not None:  # where they are enabled, nothing further out can have disabled them
            return replace(found, calling=None if line is cut.line else line.place) if found else None
    return None


def disabled_at(body: Body, line: int, by: str = "no_grad") -> Disabled | None:
    """Return the block or decorator that disables gradients at a line of a function, as its text shows."""
    return _nearest(body, line, _MODES[by]) or None


def _nearest(body: Body, line: int, modes: Sequence[str]) -> Disabled | Literal[False] | None:
    """The innermost that disables gradients; False where the innermost of all enables them."""
    for place, node, is_decorator in _contexts(body, line):
        disables = _disables(body, node, modes)
        if disables is not None:
            return disables and Disabled(place, body.text(node), body, is_decorator, None)
    return None


def _contexts(body: Body, line: int) -> Iterator[tuple[Place, ast.expr, bool]]:
    """Yield the contexts around a line, the innermost first: those of `with` blocks, and the decorators."""
    blocks = [each for each in statements(body.node) if isinstance(each, ast.With) and _is_in(each.body, line)]
    for block in reversed(blocks):
        yield from ((body.place(block), item.context_expr, False) for item in reversed(block.items))
    for decorator in reversed(getattr(body.node, "decorator_list", ())):
        yield body.place(decorator, f"@{body.text(decorator)}"), decorator, True


def _is_in(block: Sequence[ast.stmt], line: int) -> bool:
    return block[0].lineno <= line <= (block[-1].end_lineno or block[-1].lineno)


def _disables(body: Body, node: ast.expr, modes: Sequence[str]) -> bool | None:
    """Whether a context disables gradients, or enables them; None if it does neither. It may be held by a variable."""
    name = dotted(node)
    written = [body.text(node), *(each.text for each in (assignments(body, name) if name else ()))]
    named = any(mode in text for mode in modes for text in written)
    if grad_mode(node) == "on":  # within inference mode, `enable_grad` alone records nothing
        return False if named or "no_grad" in modes else None
    return True if named else None
