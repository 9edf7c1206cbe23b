"""A hook steps an optimizer while the backward still runs, and changes a weight that the rest of it needs."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from backsight.diagnosis._torch import gradient_hooks
from backsight.diagnosis.errors.modified.wording import needs
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, if_known, listed, shown, sure_if
from backsight.source import function_at, statements_of
from backsight.source.bindings import bound
from backsight.source.body import LOOPS, SCOPES, Body, is_compound, statements
from backsight.source.edits import instead
from backsight.source.rewriting import rewritten
from backsight.story.case import Case
from backsight.story.changes import Changed
from backsight.story.failure import function_of, owner_of
from backsight.story.sections import run_by
from backsight.story.stepping import Step, steps_in
from backsight.story.subject import Subject


@dataclass(frozen=True, eq=False)
class _Hook:
    """A hook on leaves of the graph: its code, what it is on, and where the program makes it.

    called: what was registered; of several with the same code the first.
    around: the function that makes it, and made: the statement there that does.
    """

    called: Any
    body: Body
    on: tuple[str, ...]
    around: Body | None
    made: ast.stmt | None

    @property
    def late(self) -> list[str]:
        """The variables of a loop that the hook reads only when it runs: all hooks of that loop read the last value."""
        if self.around is None or self.made is None or len(self.on) < 2:
            return []
        loops = [each for each in statements(self.around.node) if isinstance(each, LOOPS) and _is_in(self.made, each)]
        varying = {
            name for loop in loops for each in ast.walk(loop) if isinstance(each, ast.stmt) for name in bound(each)
        }
        code = function_of(self.called).__code__
        own = {*code.co_varnames, *code.co_cellvars}
        inside = [node for each in self.body.node.body for node in ast.walk(each)]
        read = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        return sorted((read - own) & varying)


def stepped_by_hook(subject: Subject, case: Case, steps: Sequence[Changed]) -> Finding | None:
    """The hook that runs the step which changed the weight; None where no hook of this graph runs it.

    steps: what is known of steps that changed it; none if nobody watched.
    """
    seen = [each for each in steps if each.certainty == "seen" and each.scene]
    if steps and not seen:
        return None
    for hook in _hooks(subject):
        for section in run_by(function_of(hook.called), owner_of(hook.called)):
            for step in steps_in(section):
                if seen and str(step.place) in {str(each.place) for each in seen}:
                    return _told(subject, hook, step, exact=True)
                known = step.optimizer is subject.optimizer is not None
                if not seen and (known or (step.optimizer is None and hook.late)):
                    return _told(subject, hook, step, exact=False)
    return None


def _hooks(subject: Subject) -> Iterator[_Hook]:
    """The hooks of the program on the leaves of the graph, those with one code together."""
    found: dict[Any, tuple[Any, list[str]]] = {}
    for leaf in subject.survey.graph.leaves:
        tensor = leaf.tensor()
        for hook in gradient_hooks(tensor) if tensor is not None else ():
            function = function_of(hook)
            if function is not None:
                found.setdefault(function.__code__, (hook, []))[1].append(leaf.label)
    for code, (hook, on) in found.items():
        body = function_at(code)
        if body is not None:
            yield _Hook(hook, body, tuple(on), *_made(body))


def _made(body: Body) -> tuple[Body, ast.stmt] | tuple[None, None]:
    """The function in which another, or a lambda, is written, and the statement that makes it."""
    arguments = getattr(body.node, "args", None)
    for around, each in statements_of(body.file):
        if each is body.node or _lambda(each, arguments) is not None:
            return around, each
    return None, None


def _lambda(statement: ast.stmt, arguments: object) -> ast.Lambda | None:
    if isinstance(statement, SCOPES) or is_compound(statement):
        return None
    inside = (each for each in ast.walk(statement) if isinstance(each, ast.Lambda))
    return next((each for each in inside if each.args is arguments), None)


def _is_in(statement: ast.stmt, loop: ast.stmt) -> bool:
    return loop.lineno < statement.lineno <= (loop.end_lineno or 0)


def _told(subject: Subject, hook: _Hook, step: Step, exact: bool) -> Finding:
    weight, late = subject.holder or "a weight", hook.late
    place = hook.around.place(hook.made) if hook.around and hook.made else None
    which = "that hook" if place else f"the hook of {_of(hook.on)}"
    made = f"makes the hook of {_of(hook.on)}"
    if late:
        made += f", which reads {listed(late)} only when it runs: by then the loop is over, and all get the last value"
    return explanation(
        f"A hook ran {step.name}.step() while backward was running, and changed {weight}, which the rest of it needs.",
        (
            if_known(place, f"{made}."),
            shown(step.place, f"runs in {which}, and modifies {weight} in place.", sure_if(exact)),
            *needs(subject, f"needs the original value of {weight}"),
        ),
        _bound_early(hook, late) or _later(subject, step),
        source=place if late and place else step.place,
        exact=exact,
    )


def _of(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} and of {counted(len(labels) - 1, 'other parameter')}"


def _bound_early(hook: _Hook, late: Sequence[str]) -> str:
    """How the hook keeps the values of its own turn: as defaults."""
    node, around, made = hook.body.node, hook.around, hook.made
    if not late or around is None or made is None or not isinstance(node, ast.FunctionDef):
        return ""
    arguments = copy.deepcopy(node.args)
    into = arguments.kwonlyargs if arguments.vararg or arguments.kwonlyargs else arguments.args
    defaults = arguments.kw_defaults if into is arguments.kwonlyargs else arguments.defaults
    into += [ast.arg(each) for each in late]
    defaults += [ast.Name(each, ast.Load()) for each in late]
    written = _lambda(made, node.args)
    if written is not None:
        new = rewritten(around, made, {written: f"lambda {ast.unparse(arguments)}: {around.text(written.body)}"})
    else:
        new = f"def {node.name}({ast.unparse(arguments)}):"
    keep = f"Let each hook keep its own {listed(late)}, as a default"
    return f"{keep}: write `{new}` on line {made.lineno}{instead(around, made, new)}." if new else ""


def _later(subject: Subject, step: Step) -> str:
    failing = subject.failure.user
    below = f"below line {failing.line}, `{failing.place.text}`" if failing else "after backward()"
    return (
        f"Step in the hook only the weight whose gradient has just been accumulated, with an optimizer of its own, or "
        f"step {below}, when the backward has ended."
    )
