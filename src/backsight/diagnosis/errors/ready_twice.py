"""BS221: DistributedDataParallel gets the gradient of a parameter twice in one backward pass."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from torch.nn.parallel import DistributedDataParallel

from backsight.diagnosis._torch import CHECKPOINT_FILE
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.reentrant import Reentrant, reentrant_call
from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.findings.evidence import Fact
from backsight.source import Place, backward_roots
from backsight.source.body import LOOPS, Loop, callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.edits import lines_of, on_line, remove, wrap, write
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.story.routes import leaves_of
from backsight.tape import parameters_in

_PARAMETER = re.compile(r"Parameter at index \d+(?: with name (\S+))? has been marked as ready twice")


@explains("BS221", r"Expected to mark a variable ready only once")
def ready_twice(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the parameter, and the reentrant checkpoints whose backward passes are passes of their own."""
    found = _PARAMETER.search(failure.message)
    name = (found[1] if found else None) or "a parameter"
    reentrant = any(level.frame.f_code.co_filename == CHECKPOINT_FILE for level in failure.levels)
    if not reentrant and (again := several_backwards(failure)) is not None:
        return explanation(
            f"DistributedDataParallel received the gradient of {name} twice for one forward pass; each forward pass "
            "prepares it for one backward pass.",
            (
                shown(again.forward, "runs the wrapped model."),
                *(shown(each, "backpropagates through it.") for each in again.earlier),
                *failing(failure, "backpropagates through it again."),
            ),
            again.fix,
            source=failure.source,
            exact=found is not None,
        )
    call = reentrant_call(failure) if reentrant else None
    place = call.place if call is not None else None
    own = "runs its own backward pass each time it is called (use_reentrant=True)."
    lines: list[Fact] = [shown(place, own)] if place is not None else []
    lines += [call.passing] if call is not None and call.passing is not None else []
    lines += failing(failure, f"backpropagates through {name} more than once.")
    return explanation(
        f"DistributedDataParallel received the gradient of {name} twice in one backward pass; it averages each "
        "gradient once.",
        lines,
        _fix_of_checkpoint(call) if reentrant else _FIX,
        source=place or failure.source,
        exact=found is not None and (place is not None or not reentrant),
    )


_FIX = (
    "Call the wrapped model once for each backward pass, and use its parameters only within its forward. If every step "
    "runs the same operations, DistributedDataParallel(model, static_graph=True) counts how often each gradient "
    "arrives."
)


def _fix_of_checkpoint(call: Reentrant | None) -> str:
    if call is None or not call.mended:
        return (
            "Use a non-reentrant checkpoint, which stays in one backward pass: use_reentrant=False where "
            "checkpoint() is called, or model.gradient_checkpointing_enable(gradient_checkpointing_kwargs="
            '{"use_reentrant": False}).'
        )
    return f"Use a non-reentrant checkpoint, which stays in one backward pass: {on_line(call.setting, call.mended)}."


# Several backward passes over one forward pass of DistributedDataParallel, which counts on one.


@dataclass(frozen=True)
class SeveralBackwards:
    """The statement that runs the model, those that run backward before the one that fails, and what to do instead."""

    forward: Place
    earlier: tuple[Place, ...]
    fix: str


def several_backwards(failure: Failure) -> SeveralBackwards | None:
    """Return what shows that backward runs more than once for one forward: in a loop below it, or by statements."""
    for level in failure.users:
        body = level.body
        every = list(statements(body))
        models = [(each, name) for each in every if (name := _model_in(level, each))]
        before = [each for each in models if each[0].lineno < level.line]
        if body is None or not before:
            continue
        forward, model = before[-1]
        held = level.value(model)
        owned = {id(each) for each in parameters_in(held)} if isinstance(held, DistributedDataParallel) else set[int]()
        roots = [
            (root, place)
            for root, place in backward_roots(body)
            if forward.lineno < place.line <= level.line
            and (place.line == level.line or not is_tensor(loss := level.value(root)) or owned & leaves_of(loss))
        ]
        earlier = tuple(place for _, place in roots if place.line < level.line)
        around = [each for each in every if isinstance(each, LOOPS) and covers(each, level.line)]
        loop = next((each for each in around if each.lineno > forward.lineno), None)
        if not _keeps_graph(every, forward.lineno, level.line) or not (loop or earlier):
            return None
        first = loop.lineno if loop is not None else earlier[0].line
        last = loop.end_lineno or level.line if loop is not None else level.line
        between = [each for each in every if first <= each.lineno <= last]
        if any(callee(call)[1] == "step" for each in between for call in calls_in(each)):
            return None
        is_again = any(each.lineno > last for each, _ in models)
        if any(_takes_gradients(each) for each in between):
            fix = _apart(body.place(forward), model, is_again)
        else:
            fix = _added(level, loop, [root for root, _ in roots])
        return SeveralBackwards(body.place(forward), earlier, fix)
    return None


def _model_in(level: Level, statement: ast.stmt) -> str:
    """What a statement calls the wrapped model that it runs; empty if it runs none."""
    called = (dotted(call.func) for call in calls_in(statement))
    return next((each for each in called if each and isinstance(level.value(each), DistributedDataParallel)), "")


def _keeps_graph(every: list[ast.stmt], first: int, last: int) -> bool:
    calls = (call for each in every if first < each.lineno <= last for call in calls_in(each))
    return any(keyword(call, "retain_graph", "create_graph") is not None for call in calls)


def _takes_gradients(statement: ast.stmt) -> bool:
    """Whether a statement reads gradients, or clears them: those of each loss are wanted apart."""
    reads = any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in expressions(statement))
    return reads or any(callee(call)[1] == "zero_grad" for call in calls_in(statement))


def _apart(forward: Place, model: str, is_again: bool) -> str:
    if not is_again:
        return (
            "Take the gradients of each loss by torch.autograd.grad(loss, parameters, retain_graph=True), which "
            "DistributedDataParallel does not count, and call backward() once."
        )
    return (
        f"Put line {forward.line} inside `with {model}.no_sync():`{wrap(forward, f'with {model}.no_sync():')}, after "
        "which backward() may run several times. Their gradients are then those of one rank, and not averaged."
    )


def _added(level: Level, loop: Loop | None, roots: list[str]) -> str:
    """Add the losses: in place of a loop of nothing else, or of the statements."""
    fix = "Add the losses, and call backward() once, for the sum"
    if loop is None and level.body is not None:
        before = [place for _, place in backward_roots(level.body) if place.line < level.line][-len(roots) + 1 :]
        removed, joined = " and ".join(str(each.line) for each in before), f"({' + '.join(roots)}).backward()"
        return (
            f"{fix}: {on_line(level.place, joined)}, and remove "
            f"line{'s' * (len(before) > 1)} {removed}{remove(before)}."
        )
    if isinstance(loop, ast.For) and len(loop.body) == 1 and roots == [ast.unparse(loop.target)]:
        whole, at = f"sum({ast.unparse(loop.iter)}).backward()", lines_of(level.place.file, loop.lineno)
        return f"{fix}: in place of the loop on line {loop.lineno}: `{whole}`{write(at, whole)}."
    return f"{fix}."
