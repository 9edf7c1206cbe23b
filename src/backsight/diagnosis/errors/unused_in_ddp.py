"""BS211: DistributedDataParallel waits for gradients of parameters that the loss does not reach."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from typing import Any

from backsight.diagnosis._torch import DDP_FORWARD
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.idle import Reason, idle_in, parameter_at, reason_for, trainable, whole
from backsight.diagnosis.evidence.left_out import detached, left_out
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Place, only
from backsight.source.body import callee
from backsight.source.edits import OR, on_line
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure, follow
from backsight.story.files import calls_in_files
from backsight.story.memory import is_tensor

_INDICES = re.compile(r"Parameter indices which did not receive grad for rank \d+:([\d ]+)")
_SEARCH = "Pass find_unused_parameters=True to DistributedDataParallel."
_SEARCHES = "find_unused_parameters=True` is enabled"


@explains("BS211", r"Expected to have finished reduction in the prior iteration before starting a new one")
def unused_in_ddp(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the parameters that got no gradient, and say where their result is lost."""
    module = _wrapped(failure)
    every = list(trainable(module)) if module is not None else []
    numbers = without_gradient(failure.message)
    names = [name for number, name in enumerate(every) if number in numbers]
    idle = [idle_in(module, path) for path in whole(names, every)]
    reason = reason_for(failure, idle)
    if idle and reason is None:
        lost = [each for name in names if is_tensor(each := parameter_at(module, name))]
        left = left_out(failure, lost)
        if left is not None:
            reason = Reason(left.evidence(listed([each.path for each in idle])), left.term, "", sometimes=True)
        reason = reason or detached(failure, lost)
    named = listed([each.path for each in idle]) or "Some parameters"
    parts = f" ({counted(len(names), 'parameter')})" if len(names) > len(idle) else ""
    return explanation(
        f"{named}{parts} got no gradient in the previous step, but DistributedDataParallel waits for one from every "
        "parameter.",
        (*(reason.evidence if reason else ()), *_waits(failure, reason)),
        _fix(failure, reason, named if idle else "every parameter"),
        source=reason.place if reason else failure.source,
        exact=bool(names) and reason is not None,
    )


def without_gradient(message: str) -> set[int]:
    """Return the numbers of the parameters that got no gradient, as PyTorch's message lists them."""
    found = _INDICES.search(message)
    return {int(each) for each in found[1].split()} if found else set()


def _waits(failure: Failure, reason: Reason | None) -> Iterator[Fact]:
    if failure.user and (reason is None or reason.place != failure.user.place):
        yield shown(failure.user.place, "starts the next step while DDP still waits for the previous one.")


def _wrapped(failure: Failure) -> Any:
    """The module inside the DDP that raised."""
    level = next((each for each in failure.levels if each.frame.f_code is DDP_FORWARD), None)
    return follow(level.variables.get("self"), ["module"]) if level else None


def _searching(failure: Failure) -> str:
    """Say that DDP may look for what is unused, and where; empty where that does not show."""
    found = _searches_on(failure)
    return f"A step may leave parameters unused if DDP looks for them: {found}." if found else ""


def _searches_on(failure: Failure) -> str:
    """What to write where DDP is created; empty where that does not show, or is in several places."""
    found = dict[Place, str]()
    for body, statement, call in calls_in_files(failure):
        if callee(call)[1] in ("DDP", "DistributedDataParallel"):
            node = copy.deepcopy(call)
            node.keywords = [each for each in node.keywords if each.arg != "find_unused_parameters"]
            node.keywords.append(ast.keyword("find_unused_parameters", ast.Constant(True)))
            line = rewritten(body, statement, {call: ast.unparse(node)})
            at = body.place(statement) if line else body.place(node)
            found[at] = on_line(at, line) if line else f"on line {at.line}, write `{ast.unparse(node)}`"
    return only(found.values()) or ""


def _fix(failure: Failure, reason: Reason | None, what: str) -> str:
    if reason is not None and reason.sometimes:
        return _searching(failure) or f"{_SEARCH[:-1]}: then steps need not use all parameters."
    fix = reason.fix if reason else f"Make the loss depend on {what}, remove it from the model, or freeze it."
    if reason is None and not re.search(f"static_graph set to True|{_SEARCHES}", failure.message):
        searching = _searching(failure) or _SEARCH
        return f"{searching} What no step ever uses should be frozen, or removed from the model, instead."
    if "static_graph set to True" in failure.message:
        return f"{fix} static_graph=True promises that every step uses the same parameters: drop it if that is not so."
    if _SEARCHES in failure.message:
        return f"{fix} find_unused_parameters=True does not see a result that forward returns but nothing uses."
    silences = "also silences the error, but trains nothing more and searches the graph in every step."
    if reason is not None and reason.inside and (searching := _searches_on(failure)):
        return f"{fix} {OR}Or, {searching}: that {silences}"
    return f"{fix} find_unused_parameters=True {silences}"
