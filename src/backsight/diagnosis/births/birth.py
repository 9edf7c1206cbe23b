"""Births of NaN and infinity: how one looks to its causes, how those are entered, and what is told (BS112)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from backsight.diagnosis.amending import renewed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import assignments, only, parsed
from backsight.source.body import body_around
from backsight.source.edits import OR
from backsight.source.imports import library
from backsight.tracing import NonFinite, Values

_WHERE = frozenset({"where"})


def replaced(expression: str, part: str, by: str) -> str:
    """Return `expression` with `part` replaced wherever it occurs; empty if it does not.

    >>> replaced("torch.sqrt(x)", "x", "x + 1e-12")
    'torch.sqrt(x + 1e-12)'
    """
    whole, wanted, new = parsed(expression), parsed(part), parsed(by)
    if whole is None or wanted is None or new is None:
        return ""
    swap = _Swap(ast.dump(wanted), new)
    changed = swap.visit(whole)
    return re.sub(r"e-0(\d)", r"e-\1", ast.unparse(changed)) if swap.done else ""


def root_kept_away(expression: str, inside: str, edit: Callable[[str], str] = lambda _: "") -> str:
    """Say how a square root is written that has a gradient at 0 as well; `edit` gives the mark that writes it."""
    new = replaced(expression, inside, f"({inside}) + 1e-12") if inside else ""
    added = f"{new}{edit(new)}" if new else "torch.sqrt(x + 1e-12)"
    if re.search(r"\*\*\s*2|square|pow\(2", inside) and "sum(" in inside:
        return f"torch.linalg.vector_norm, whose gradient at 0 is 0; {OR}or a small number inside the sqrt: {added}."
    return f"Add a small number inside the sqrt, not outside it: {added}."


def condition_around(statement: str, expression: str) -> str:
    """Return when a `torch.where` in `statement` takes `expression`: `x > 0`; empty where there is none."""
    tree, wanted = _statement(statement), parsed(expression)
    if tree is None or wanted is None:
        return ""
    inside = ast.dump(wanted)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node.func) not in _WHERE:
            continue
        arguments = list(node.args)
        if isinstance(node.func, ast.Attribute) and not library(node.func):
            arguments = [arguments[0], node.func.value, *arguments[1:]] if arguments else []  # x.where(condition, y)
        if len(arguments) == 3:
            for branch, negated in ((arguments[1], False), (arguments[2], True)):
                if any(ast.dump(each) == inside for each in ast.walk(branch)):
                    return _negated(arguments[0]) if negated else ast.unparse(arguments[0])
    return ""


class _Swap(ast.NodeTransformer):
    def __init__(self, wanted: str, new: ast.expr):
        self.wanted, self.new, self.done = wanted, new, False

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self.wanted:
            self.done = True
            return self.new
        return super().visit(node)  # type: ignore[no-any-return]  # a node, as ast types it


_OPPOSITE: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.GtE(),
    ast.LtE: ast.Gt(),
    ast.Gt: ast.LtE(),
    ast.GtE: ast.Lt(),
}


def _negated(condition: ast.expr) -> str:
    """`x != 0` of `x == 0`; `~(mask)` of what is no comparison."""
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and type(condition.ops[0]) in _OPPOSITE:
        opposite = _OPPOSITE[type(condition.ops[0])]
        return ast.unparse(ast.Compare(condition.left, [opposite], condition.comparators))
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Invert):
        return ast.unparse(condition.operand)
    written = ast.unparse(condition)
    return f"~{written}" if isinstance(condition, ast.Name | ast.Attribute) else f"~({written})"


def _statement(text: str) -> ast.AST | None:
    for whole in (text, f"{text} pass"):  # the head of a compound statement
        try:
            return ast.parse(whole)
        except (SyntaxError, ValueError):
            continue
    return None


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


# A birth, as its causes look at it.


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
    """Return the fix where the loss does not use the values, with an operand that is `safe` there; else `otherwise`."""
    if not birth.cut:
        return otherwise
    known = condition_around(birth.statement, birth.expression)
    condition = known or "used"
    written = operand and replaced(birth.expression, operand, f"torch.where({condition}, {operand}, {safe})")
    inner = written or f"torch.where({condition}, input, {safe})"
    inner += edit_to(birth, written) if written and known else ""
    return f"Before the operation, make the input safe where the result is not used: {inner}."


# Where NaN or infinity really came from.


BIRTH = "BS112"


def told(births: Sequence[NonFinite], lost: Sequence[int] = (), harm: Sequence[str] = ()) -> Finding | None:
    """Return the origin of what is not finite as a finding; None if no birth is to blame.

    lost: the backwards that began from a loss that was not finite. harm: sentences on what came of it.
    """
    found = origin(births, lost)
    if found is None:
        return None
    birth, cause = found.birth, cause_of(found.birth)
    return Finding(
        BIRTH,
        "error",
        f"{_subject(birth, cause)}: {cause.because}.",
        (*_evidence(found, cause), *harm),
        cause.fix,
        source=str(birth.fact.line) if birth.fact.line else None,
    )


def _subject(birth: Birth, cause: Cause) -> str:
    what = _what(birth, cause)
    if birth.cut and not birth.backward:
        return f"{birth.short} is {what} where the loss does not use it, so the gradient is NaN"
    return f"{'The gradient of ' * birth.backward}{birth.short} is {what}"


def _what(birth: Birth, cause: Cause) -> str:
    return cause.result or ("NaN" if birth.nan else "infinite")


def _evidence(found: Origin, cause: Cause) -> Iterator[Fact]:
    birth, symptom = found.birth, found.symptom
    yield _at(birth, _counted(birth, _what(birth, cause)))
    if symptom is not None and symptom.expression != birth.expression:
        caused = cause_of(symptom)
        of = "the gradient of " * symptom.backward
        yield _at(symptom, f"{of}{symptom.short} becomes {_what(symptom, caused)} because of it: {caused.because}.")
    elif birth.cut or symptom is not None:
        yield _dropped(birth)


def _at(birth: Birth, says: str) -> Fact:
    line = birth.fact.line
    return shown(line.place, says) if line else f"In {birth.fact.op}: {says}"


def _counted(birth: Birth, what: str) -> str:
    fact = birth.fact
    subject = f"{'the gradient of ' * birth.backward}{birth.short}"
    if fact.total == 1:
        of = f"{subject} is {what}"
    elif not fact.bad:  # on a device they are not counted
        of = f"some of {fact.total:,} values of {subject} are {what}"
    else:
        of = f"{fact.bad:,} of {fact.total:,} values of {subject} {'is' if fact.bad == 1 else 'are'} {what}"
    given = [f"{each.text} is {numbers(each.at)}" for each in birth.operands if _is_telling(each, fact)]
    if birth.result is not None and birth.result.at:
        given.append(f"{birth.short} is {numbers(birth.result.at)}")
    if birth.backward and fact.incoming:
        given.append(f"the incoming gradient is {numbers(fact.incoming)}")
    return f"{of}: {', '.join(dict.fromkeys(given))}." if given else f"{of}."


def _is_telling(values: Values, fact: NonFinite) -> bool:
    """Whether these are the values at the offending places, or not finite themselves."""
    size = math.prod(values.shape)
    return bool(values.text and values.at) and (values.total_nonfinite > 0 or size in (1, fact.total))


def _dropped(birth: Birth) -> str:
    """Say why values that the loss does not use matter."""
    if condition_around(birth.statement, birth.expression):
        why = "torch.where evaluates both branches, forward and backward, and 0 times NaN or infinity is NaN."
    else:
        why = "the incoming 0 is multiplied by a non-finite number, which is NaN."
    return f"The loss does not use it there, but its gradient is still computed: {why}"


@dataclass(frozen=True)
class Origin:
    """The first cause. `symptom` is where it first did harm, if that is another operation."""

    birth: Birth
    symptom: Birth | None = None


def origin(births: Sequence[NonFinite], lost: Sequence[int] = ()) -> Origin | None:
    """Return the origin of the first loss or gradient that was not finite; None if no birth is to blame.

    An infinity alone is no fault: scores are masked with it, and `torch.where` drops it again. So what happened in a
    forward pass counts if the loss was `lost` by it, or if it produced a gradient that is not finite.
    """
    if not births:
        return None
    backward = next((at for at, each in enumerate(births) if each.phase == "backward"), None)
    first = births[backward].backward if backward is not None else None
    if lost and (first is None or lost[0] <= first):
        return _of_loss([each for each in births if each.phase == "forward"])
    return None if backward is None else _of_gradient(births, births[backward])


def _of_loss(forward: Sequence[NonFinite]) -> Origin | None:
    """Return the birth that a lost loss comes from: a NaN before an infinity, and what no `torch.where` drops."""
    found = [Birth(each) for each in forward]
    likely = [birth for birth in found if not condition_around(birth.statement, birth.expression)] or found
    nan = next((birth for birth in likely if birth.nan), None)
    if nan is None:
        return Origin(likely[0]) if likely else None
    before = _source_of(nan, forward)
    return Origin(before, nan) if before else Origin(nan)


def _of_gradient(births: Sequence[NonFinite], fact: NonFinite) -> Origin:
    cut = bool(fact.incoming) and not any(fact.incoming)
    here = Birth(fact, cut)
    before = births[births.index(fact) - 1] if births[0] is not fact else None
    if before is not None and before.phase == "forward" and _is_custom(fact):
        return Origin(Birth(before), here)  # within the user's own backward
    same = next((each for each in births if each.phase == "forward" and _is_same(Birth(each), here)), None)
    if same is not None and not _is_at_edge(here):
        return Origin(Birth(same, cut), here)
    source = _source_of(here, [each for each in births if each.phase == "forward"])
    return Origin(Birth(source.fact, cut), here) if source else Origin(here)


def _is_custom(fact: NonFinite) -> bool:
    """Whether it is the node of a custom Function: those of PyTorch's own have a number at the end of their name."""
    return fact.op.endswith("Backward")


def _is_at_edge(birth: Birth) -> bool:
    """Whether what the node has saved explains its gradient: a 0 that is divided by, not a result that is NaN."""
    saved = (*birth.operands, *((birth.result,) if birth.result else ()))
    return any(value == value and abs(value) != float("inf") for each in saved for value in each.at)


def _is_same(one: Birth, other: Birth) -> bool:
    a, b = one.fact.line, other.fact.line
    return one.op == other.op and a is not None and b is not None and (a, a.segment) == (b, b.segment)


def _source_of(birth: Birth, forward: Sequence[NonFinite]) -> Birth | None:
    """Return the birth of the infinity that an operation was given, by its expression, else the last one before it."""
    infinite = [each.text for each in birth.operands if each.total_nonfinite]
    if not infinite:
        return None
    before = [Birth(each) for each in forward if each is not birth.fact and each.kind == "inf"]
    named = (each for each in before if each.expression in infinite)
    made = [birth.made_by(at) for at, each in enumerate(birth.operands) if each.total_nonfinite]
    assigned = (each for each in before if any(text.endswith(f"= {each.expression}") for text in made))
    return next(named, None) or next(assigned, None) or only(before)
