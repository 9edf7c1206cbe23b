"""A birth of NaN or infinity, as its causes look at it: the operation, what it was given; how causes are entered."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from backsight.diagnosis.amending import renewed
from backsight.diagnosis.births.safe import condition_around, replaced
from backsight.source import assignments
from backsight.source.body import body_around
from backsight.tracing import NonFinite, Values

_NODE = re.compile(r"Backward\d*$")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w(])")
_LONG = 60
_OPERATOR = re.compile(r"^__[ri]?(\w+)__$")

_SAME = {
    "truediv": "div",
    "true_divide": "div",
    "divide": "div",
    "rtruediv": "div",
    "float_power": "pow",
    "square": "pow",
    "arccos": "acos",
    "arcsin": "asin",
    "arctanh": "atanh",
    "arccosh": "acosh",
    "_softmax": "softmax",
    "logsoftmax": "log_softmax",
    "linear": "matmul",
    "addmm": "matmul",
    "mm": "matmul",
    "bmm": "matmul",
    "baddbmm": "matmul",
    "linalgeigh": "linalg_eigh",
    "linalgsvd": "linalg_svd",
    "nll_loss": "cross_entropy",
}


@dataclass(frozen=True)
class Birth:
    """One birth. `cut` says that the loss does not use the values where it happened: their incoming gradient is 0."""

    fact: NonFinite
    cut: bool = False

    @cached_property
    def op(self) -> str:
        """`sqrt` for `sqrt`, `sqrt_` and `SqrtBackward0`."""
        name = _NODE.sub("", self.fact.op)
        if name != self.fact.op:
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        name = _OPERATOR.sub(r"\1", name).rstrip("_") or name
        return _SAME.get(name, _SAME.get(name.replace("_", ""), name))

    @property
    def backward(self) -> bool:
        return self.fact.phase == "backward"

    @property
    def nan(self) -> bool:
        return self.fact.kind == "nan"

    @property
    def expression(self) -> str:
        """The operation as the program wrote it; `sqrt` where that is not known."""
        line = self.fact.line
        return (line.segment if line else "") or f"{self.op}(…)"

    @property
    def statement(self) -> str:
        return self.fact.line.text if self.fact.line else ""

    @property
    def operands(self) -> tuple[Values, ...]:
        """What it was given; in the backward without its own result."""
        return tuple(each for each in self.fact.operands if not self._is_result(each))

    @property
    def result(self) -> Values | None:
        """Its own result, if it has saved that for the backward."""
        return next((each for each in self.fact.operands if self._is_result(each)), None)

    def _is_result(self, values: Values) -> bool:
        line = self.fact.line
        return self.backward and (
            values.text == "result" or bool(line and line.segment and values.text == line.segment)
        )

    @property
    def blind(self) -> bool:
        """Whether no value is known: recomputed by a checkpoint, packed by a hook, or overwritten in place."""
        return not any(each.at for each in self.fact.operands)

    def operand(self, index: int = 0) -> Values:
        """Return an operand; an empty one if there is no such."""
        return self.operands[index] if index < len(self.operands) else Values("", (), ())

    def value(self, index: int = 0) -> tuple[float, ...]:
        """Return the values of an operand at the offending places."""
        return self.operand(index).at

    def named(self, index: int = 0) -> str:
        """Return what the program calls an operand."""
        return self.operand(index).text or ("its input" if index == 0 else "its other operand")

    @property
    def short(self) -> str:
        """The expression for a title; what is long is cut."""
        return self.expression if len(self.expression) <= _LONG else f"{self.expression[: _LONG - 1].rstrip()}…"

    def made_by(self, index: int = 0) -> str:
        """Return an operand with what its variables were last assigned: `1 - p, p = torch.sigmoid(score)`."""
        text, line = self.operand(index).text, self.fact.line
        body = body_around(line.file, line.line) if line else None
        names = dict.fromkeys(_NAME.findall(text)) if body else ()
        last = [found[-1].text for name in names if body and line and (found := assignments(body, name, line.line))]
        return ", ".join([text, *last])


def has(values: Iterable[float], what: float) -> bool:
    """Whether one of the values is exactly that."""
    return any(value == what for value in values)


def number(value: float) -> str:
    """`0.0`, `-0.001`, `1.0001`, `1e+06`, `NaN`, `-inf`: short, yet no other number than it is when that is whole."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)
    found = (f"{value:.{digits}g}" for digits in (4, 6, 8, 10))
    text = next((each for each in found if value.is_integer() or not float(each).is_integer()), f"{value:.10g}")
    return text if re.search(r"[.e]", text) else f"{text}.0"


def numbers(values: Iterable[float], most: int = 3) -> str:
    """`0.0`, `-1.0 and 2.5`; each once."""
    found = list(dict.fromkeys(map(number, values)))
    shown = found[:most]
    more = ", …" if len(found) > most else ""
    return f"{', '.join(shown)}{more}" if more or len(shown) < 2 else f"{', '.join(shown[:-1])} and {shown[-1]}"


@dataclass(frozen=True)
class Cause:
    """`because` completes a sentence: `x.log() is -inf: x is 0.0 there`. `result` is what it gave, if that is known."""

    because: str
    fix: str
    result: str = ""


Explanation = Callable[[Birth], "Cause | None"]

CAUSES: dict[str, Explanation] = {}


def cause(*operations: str) -> Callable[[Explanation], Explanation]:
    """Enter the decorated function as what explains births in these operations."""

    def enter(function: Explanation) -> Explanation:
        for operation in operations:
            CAUSES[operation] = function
        return function

    return enter


def cause_of(birth: Birth) -> Cause:
    """Return why it happened; in general terms for an operation that has no explanation of its own."""
    explanation = CAUSES.get(birth.op)
    return (explanation(birth) if explanation else None) or overflow(birth) or _unknown(birth)


_LARGEST = {"float16": "65,504", "bfloat16": "3.39e38", "float32": "3.4e38", "float64": "1.8e308"}


def overflow(birth: Birth) -> Cause | None:
    """An infinity of an operation that cannot make one but by a result too large for its dtype."""
    dtype = birth.fact.dtype
    if birth.nan or dtype not in _LARGEST:
        return None
    because = f"the result is larger than {_LARGEST[dtype]}, the largest {dtype}"
    if dtype != "float16":
        fix = "Check how large its inputs are: the model may diverge, or the data may not be normalized."
    elif birth.backward:
        fix = (
            "Use torch.amp.GradScaler, which skips such a step and lowers its scale. Or use bfloat16, which has the "
            "range of float32."
        )
    else:
        fix = "Compute it in float32 (.float() on its input), or use bfloat16, which has the range of float32."
    return Cause(because, fix)


def _unknown(birth: Birth) -> Cause:
    what = "a finite gradient" if birth.backward else "finite values"
    return Cause(
        f"{birth.op} received {what}",
        "Find where it is undefined or has no finite slope, and keep its input away from there.",
    )


def edit_to(birth: Birth, new: str) -> str:
    """Write an expression for that of a birth; nothing for one that changes a tensor in place."""
    name = birth.fact.op
    return "" if name.endswith("_") and not name.endswith("__") else renewed(birth.fact.line, new)


def put_there(birth: Birth, new: str) -> str:
    """Return an expression for that of a birth, with the edit that writes it there."""
    return f"{new}{edit_to(birth, new)}"


def masked(birth: Birth, operand: str, safe: str, otherwise: str) -> str:
    """Return the fix where the loss does not use the values: the input has to be made safe, and not the result.

    `safe` is a value of the operand at which all is well; `otherwise` is the fix where nothing is masked.
    """
    if not birth.cut:
        return otherwise
    known = condition_around(birth.statement, birth.expression)
    condition = known or "used"
    written = operand and replaced(birth.expression, operand, f"torch.where({condition}, {operand}, {safe})")
    inner = written or f"torch.where({condition}, input, {safe})"
    inner += edit_to(birth, written) if written and known else ""
    return f"Before the operation, make the input safe where the result is not used: {inner}."
