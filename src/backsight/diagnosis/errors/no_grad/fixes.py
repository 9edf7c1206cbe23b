"""What to do instead, for each way to lose a history."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.no_grad.suspects import Suspect, operands
from backsight.diagnosis.wording import listed
from backsight.source.body import callee
from backsight.source.definitions import gathers, values_of
from backsight.story.sections import Section


def fix(suspect: Suspect, loss: str, copied: Suspect | None = None) -> str:
    """Return the fix for what a suspect does; never `loss.requires_grad_()`. `copied`: where its numbers went."""
    names = operands(copied.section, copied.cut) if copied else []
    also = f" Put torch.stack({names[0]}) in place of {copied.cut.expression}." if copied and names else ""
    return f"{_fix(suspect)}{also} {silenced(loss)}"


def silenced(loss: str) -> str:
    """Say why the fix that people find first is none."""
    name = loss if loss.isidentifier() else "loss"
    return f"{name}.requires_grad_() would only silence the error: nothing would be trained."


def _fix(suspect: Suspect) -> str:
    if suspect.cut.kind == "no_grad":
        return _of_block(suspect)
    if suspect.behind is not None:
        return _of_numbers(suspect)
    operand = (
        suspect.held if suspect.operand else next(iter(operands(suspect.section, suspect.cut)), "") or "the values"
    )
    expression, function = suspect.cut.expression, _function(suspect.cut.expression)
    match suspect.cut.kind:
        case "index":
            return of_positions(operand, function)
        case "comparison":
            return of_comparison(operand)
        case "integer":
            return of_integers(operand)
        case "detach":
            return (
                f"Use {operand} without {_dotted(function)} here; keep that for logging, and for what must not be "
                "trained."
            )
        case "copy" if is_several(suspect.section, operand, suspect.cut.place.line):
            return (
                f"Put torch.stack({operand}) in place of {expression}: it joins tensors and keeps their graphs. "
                f"{operand} must hold the tensors themselves, not their numbers."
            )
        case "copy":
            return of_copy(operand, expression)
        case "frozen":
            return f"Let something that {expression} is given require grad."
        case "gradient":
            return "Pass create_graph=True where that gradient is computed, so that it has a graph of its own."
        case "number":
            return _of_number(operand, function)
    return f"Compute the loss without {expression}."


def of_positions(operand: str, function: str) -> str:
    """What to do instead of taking the position of the largest, and the like."""
    return (
        f"Compute the loss from {operand} itself, as F.cross_entropy does for class scores; keep {function} for the "
        "accuracy."
    )


def of_comparison(operand: str) -> str:
    """What to do instead of comparing."""
    return (
        f"Compute the loss from {operand} before it is compared: a comparison jumps from 0 to 1 and has no slope to "
        "follow. Where a soft step is meant, use torch.sigmoid."
    )


def of_integers(operand: str) -> str:
    """What to do instead of casting."""
    return f"Keep {operand} in floating point here; integers are for labels and indices."


def of_copy(operand: str, expression: str) -> str:
    """What to do instead of making a new tensor of values."""
    if expression.startswith(_OF_SEVERAL):
        values = expression.partition("(")[2]
        return f"Write torch.stack({values} there: it joins tensors and keeps their graphs."
    return (
        f"Where {operand} is one tensor, use {operand} itself instead of {expression}; where it holds several, "
        f"torch.stack({operand})."
    )


_OF_SEVERAL = ("torch.tensor([", "torch.as_tensor([", "torch.Tensor([")


def is_several(section: Section, name: str, line: int) -> bool:
    """Whether a name stands for several tensors: as it is held, else as the text shows that it was put together."""
    value = section.value(name)
    if value is not None:
        return type(value) in (list, tuple)
    return any(gathers(each) for each in values_of(section.body, name, line))


def leaves_pytorch(suspect: Suspect) -> bool:
    """Whether all the computing goes on elsewhere from here: in NumPy, or with a list of numbers."""
    return _function(suspect.cut.expression) in (*_NUMPY, "tolist")


_NUMPY = ("numpy", "array", "asarray")


def _of_number(operand: str, function: str) -> str:
    if function == "tolist":
        return (
            f"Go on with {operand} itself, without .tolist(), and compute in PyTorch: torch.sqrt(x) in place of "
            "math.sqrt(x), torch.stack([...]) in place of torch.tensor([...])."
        )
    if function in _NUMPY:
        return (
            f"Stay in PyTorch, with {operand} as it is: NumPy records no graph, and most of its functions have a "
            "namesake in torch."
        )
    return (
        f"Leave out {_dotted(function)} here and go on with the tensor; take the number only for what is printed or "
        "logged."
    )


def _of_numbers(suspect: Suspect) -> str:
    assert suspect.behind is not None
    names = operands(suspect.section, suspect.cut)
    function = _function(suspect.behind.cut.expression)
    return (
        f"Leave out .{function}() there, so that {names[0] if names else 'the list'} holds tensors with their graphs, "
        f"and put torch.stack({names[0] if names else '...'}) in place of {suspect.cut.expression}."
    )


def _of_block(suspect: Suspect) -> str:
    expression = suspect.cut.expression
    if suspect.seen and not suspect.inside:
        return f"Compute {expression} with gradients switched on: outside of the block, or before they are."
    if suspect.seen:
        what, block = suspect.inside[0][0].text, suspect.cut.place.text.rstrip(":")
        return f"Compute `{what}` outside of that block, `{block}`, wherever it is to be trained."
    if suspect.cut.place.text.startswith("@"):
        return f"Remove @{expression} from {suspect.section.body.node.name}; it belongs on what only evaluates."  # type: ignore[union-attr]  # a decorator stands on a function
    if "set_grad_enabled" in expression:
        return (
            f"Call backward only where the argument of {expression} is true: in training, not in evaluation. If this "
            "is training, see that it is true."
        )
    if not suspect.inside and suspect.verdict:
        return f"Compute the loss outside of the {expression} block."
    if not suspect.inside:
        return (
            f"Compute outside of the {expression} block what the loss needs with its graph. Weights that the block "
            "updates must be changed in place (w -= lr * w.grad): then they stay the leaves that they were."
        )
    places = [place for place, _ in suspect.inside]
    texts = listed([f"`{place.text}`" for place in places], 2)
    belong = "belongs" if len(places) == 1 else "belong"
    return f"End the block before line {places[0].line}: {texts} {belong} after it, one level to the left."


def _dotted(function: str) -> str:
    if function in ("float", "int"):
        return f"{function}()"
    return function if function.startswith(".") else f".{function}()"


def _function(expression: str) -> str:
    """`argmax` of `logits.argmax(dim=1)`, `.data` of `x.data`."""
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):  # a text that was shortened
        return "it"
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return callee(node)[1]
    return f".{node.attr}" if isinstance(node, ast.Attribute) else "it"
