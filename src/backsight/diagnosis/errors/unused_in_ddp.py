"""BS211: DistributedDataParallel waits for gradients of parameters that the loss does not reach."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backsight.diagnosis._torch import DDP_FORWARD
from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.evidence.failure import Failure, follow
from backsight.diagnosis.evidence.sections import methods_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown
from backsight.naming.plain import class_name, namespace
from backsight.source import Body, Place, backward_calls, receiver_of_backward
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, spots, uses

CODE = "BS211"
_INDICES = re.compile(r"Parameter indices which did not receive grad for rank \d+:([\d ]+)")
_SEARCHES = "find_unused_parameters=True` is enabled"


@dataclass(frozen=True, eq=False)
class Idle:
    """A module none of whose parameters got a gradient, or such a parameter: its path, and the module that owns it."""

    path: str
    owner: Any

    @property
    def attribute(self) -> str:
        """What the owner calls it: `self.auxiliary`."""
        return f"self.{self.path.rpartition('.')[2]}"


@dataclass(frozen=True)
class Reason:
    """Why nothing reaches it: the evidence, the statement that matters, and the cure."""

    evidence: tuple[str, ...]
    place: Place
    cure: str
    sometimes: bool = False


@explains(CODE, r"Expected to have finished reduction in the prior iteration before starting a new one")
def unused_in_ddp(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the parameters that got no gradient, and say where their result is lost."""
    module = _wrapped(failure)
    every = list(_trainable(module)) if module is not None else []
    found = _INDICES.search(failure.message)
    numbers = {int(each) for each in found.group(1).split()} if found else set()
    names = [name for number, name in enumerate(every) if number in numbers]
    idle = [Idle(path, follow(module, path.split(".")[:-1])) for path in _whole(names, every)]
    reason = _never_used(idle) or next((reason for each in idle if (reason := _reason(failure, each))), None)
    whole = listed([each.path for each in idle]) or "Some parameters"
    parts = f" ({counted(len(names), 'parameter')})" if len(names) > len(idle) else ""
    return Finding(
        CODE,
        "error",
        f"{whole}{parts} got no gradient in the step before, and DistributedDataParallel waits for one of every "
        "parameter.",
        (*(reason.evidence if reason else ()), *_waits(failure, reason)),
        _cure(failure, reason, whole if idle else "every parameter"),
        source=str(reason.place) if reason else failure.source,
        exact=bool(names) and reason is not None,
    )


def _waits(failure: Failure, reason: Reason | None) -> Iterator[str]:
    if failure.user and (reason is None or reason.place != failure.user.place):
        yield shown(failure.user.place, "starts the next step, while DDP still waits for the last.")


def _wrapped(failure: Failure) -> Any:
    """The module inside the DDP that raised."""
    level = next((each for each in failure.levels if each.frame.f_code is DDP_FORWARD), None)
    return follow(level.variables.get("self"), ["module"]) if level else None


def _trainable(module: Any) -> Iterator[str]:
    """The parameters that DDP counts, in its order: those that require grad, each once, module by module."""
    stack: list[tuple[str, Any]] = [("", module)]
    seen: set[int] = set()
    while stack:
        prefix, each = stack.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        inside: dict[str, Any] = namespace(each) or {}
        for name, parameter in (inside.get("_parameters") or {}).items():
            if parameter is not None and parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{prefix}{name}"
        children = (inside.get("_modules") or {}).items()
        stack += [(f"{prefix}{name}.", child) for name, child in reversed(children)]


def _whole(names: list[str], every: list[str]) -> list[str]:
    """The outermost modules all of whose parameters are in `names`; parameters that stand alone as they are."""
    missing, found = set(names), []
    for name in names:
        parts = name.split(".")
        prefixes = (".".join(parts[:end]) for end in range(1, len(parts)))
        whole = (p for p in prefixes if all(each in missing for each in every if each.startswith(f"{p}.")))
        found.append(next(whole, name))
    return list(dict.fromkeys(found))


def _never_used(idle: list[Idle]) -> Reason | None:
    """No method of the class that owns them uses them."""
    unread = [each for each in idle if not any(_reads_of(each))]
    if not unread or len(unread) < len(idle):
        return None
    kind = class_name(type(unread[0].owner))
    of_kind = [each.attribute for each in unread if each.owner is unread[0].owner]
    nodes = ((body, body.node) for body in methods_of(type(unread[0].owner)))
    forward = next((b.place(n) for b, n in nodes if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
    if forward is None:
        return None
    them = "it" if len(of_kind) == 1 else "them"
    return Reason(
        (shown(forward, f"never uses {listed(of_kind)}, and no other method of {kind} does."),),
        forward,
        f"Use {listed(of_kind)} in forward, or remove {them} from {kind}.",
    )


def _reason(failure: Failure, idle: Idle) -> Reason | None:
    body, place = next(_reads_of(idle), (None, None))
    if body is None or place is None:
        return None
    return _lost_result(failure, idle, place) or _conditional(idle, body, place)


def _reads_of(idle: Idle) -> Iterator[tuple[Body, Place]]:
    return ((body, place) for body in methods_of(type(idle.owner)) for place in _reads(body, idle.attribute))


def _reads(body: Body, attribute: str) -> Iterator[Place]:
    """The statements of a method, `__init__` apart, that use an attribute."""
    if getattr(body.node, "name", "") == "__init__":
        return
    for spot in spots(body.node):
        if any(use.name == attribute and not use.binds for use in uses(spot.node)):
            yield body.place(spot.node)


def _lost_result(failure: Failure, idle: Idle, place: Place) -> Reason | None:
    """The loss does not use a result of the model."""
    for level in failure.users:
        statement = level.statement
        if level.body is None or statement is None:
            continue
        losses = [
            (receiver, call.line, ancestors(level.body, receiver, call.line))
            for call in backward_calls(level.body)
            if (receiver := receiver_of_backward(level.body, call.line))
        ]
        unused = sorted(name for name in bound(statement) if not any(name in read for _, _, read in losses))
        if losses and unused and bound(statement) != set(unused):
            loss = losses[0][0]
            return Reason(
                (
                    shown(place, f"uses {idle.attribute}."),
                    shown(level.place, f"takes the result as {listed(unused)}, which {loss} is not computed from."),
                ),
                level.place,
                f"Use {listed(unused)} in {loss}, or remove {idle.path} from the model.",
            )
    return None


def _conditional(idle: Idle, body: Body, place: Place) -> Reason | None:
    """It runs only under a condition."""
    spot = next(each for each in spots(body.node) if each.node.lineno == place.line)
    branch = next((around for around, _ in reversed(spot.arms) if isinstance(around, ast.If)), None)
    if branch is None:
        return None
    return Reason(
        (shown(body.place(branch), f"decides whether {idle.attribute} takes part."), shown(place, "uses it.")),
        place,
        "If it takes part in some steps only, find_unused_parameters=True is made for that; if in none, remove it.",
        sometimes=True,
    )


def _cure(failure: Failure, reason: Reason | None, what: str) -> str:
    if reason is not None and reason.sometimes:
        return reason.cure
    cure = reason.cure if reason else f"Let the loss depend on {what}, or remove it from the model, or freeze it."
    if "static_graph set to True" in failure.message:
        return f"{cure} static_graph=True promises that every step uses the same parameters: leave it out if not."
    if _SEARCHES in failure.message:
        return f"{cure} find_unused_parameters=True does not see a result that leaves forward and is not used after."
    return (
        f"{cure} find_unused_parameters=True silences the error too, but nothing more is learnt by it, and every step "
        "pays for a search of the graph."
    )
