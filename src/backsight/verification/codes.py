"""The codes of what `verify`, `verify_graph` and `verify_second_order` find, each with a page in `docs/codes/`."""

from __future__ import annotations

CODES = {
    "BS400": "the gradient is wrong in a way that no hypothesis explains",
    "BS401": "backward ignores grad_output",
    "BS402": "backward adds something that is not multiplied by grad_output",
    "BS403": "the gradient has the wrong sign",
    "BS404": "the gradient is off by a constant factor",
    "BS405": "a transpose is missing",
    "BS406": "a sum over broadcast dimensions is missing",
    "BS407": "the gradients come in the wrong order",
    "BS408": "the gradient is masked in the wrong places",
    "BS409": "backward returns None for an input that needs a gradient",
    "BS410": "backward modifies grad_output in place",
    "BS411": "backward is not deterministic",
    "BS412": "a saved tensor was modified",
    "BS413": "the gradient lost precision",
    "BS414": "backward raises an error",
    "BS415": "the gradient ignores part of what an input changes",
    "BS416": "a factor is missing or extra",
    "BS417": "the gradient is a surrogate, not the derivative",
    "BS418": "backward is not linear in grad_output",
    "BS419": "the gradient is NaN or infinite where the forward is finite",
    "BS420": "the second derivative is silently wrong",
}
