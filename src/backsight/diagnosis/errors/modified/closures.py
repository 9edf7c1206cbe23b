"""A closure that `optimizer.step(closure)` is just calling needs the weights of before: something that was computed
outside of it holds a graph over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.diagnosis.errors.modified.wording import needs
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.holders import below, made_in, results_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown, unwatched
from backsight.source import Body, Place, assignments
from backsight.source.ancestry import ancestors
from backsight.source.bindings import prefixes, uses
from backsight.source.body import SCOPES, calls_in, dotted, functions, statement_at, statements
from backsight.story.changes import Changed
from backsight.story.failure import Level
from backsight.story.memory import is_module
from backsight.story.stepping import OpenStep, open_step
from backsight.story.subject import Subject


def within_closure(subject: Subject, case: Case, steps: Sequence[Changed]) -> Finding | None:
    """The step that is still open, between whose calls of the closure the weights change."""
    opened = open_step(subject.failure, subject.optimizer)
    step = next((each for each in steps if opened and str(each.place) == str(opened.outer.place)), None)
    if opened is None or step is None:
        return None
    weight, name = subject.holder or "a weight", _outside(subject, case, opened.inner)
    sure = step.certainty == "seen"
    if not name and not sure:
        return None
    closure = _called(opened)
    around = _around(opened.inner.body) if name else None
    made = assignments(around, name, before=opened.inner.frame.f_code.co_firstlineno) if around else ()
    what = name or "a result from outside"
    outside = f"{name} was computed outside {closure}" if name else f"{closure} uses a result from outside"
    return explanation(
        f"{outside}: {step.name}.step() has changed {weight} since.",
        (
            *([shown(made[-1], f"computes {name} once, before {step.name}.step() calls {closure}.")] if made else []),
            shown(
                step.place,
                f"calls {closure}, and modifies {weight} in place after each call.",
                None if sure else step.certainty,
            ),
            *needs(subject, f"reaches the graph of {what}, which needs the original value of {weight}"),
            *([] if sure else unwatched()),
        ),
        _inside(opened, closure, name, around, made[-1] if len(made) == 1 else None),
        source=str(made[-1] if made else step.place),
        exact=sure,
    )


def _outside(subject: Subject, case: Case, inner: Level) -> str:
    """What the closure reads from outside, and has the operation which failed in its graph."""
    for name, each in case.ancestors(inner).items():
        reached = made_in(case.graph, inner.value(name)) if each.entering and not each.bound else []
        if subject.node.index in below(case.graph, reached):
            return name
    return ""


def _called(opened: OpenStep) -> str:
    name = opened.inner.frame.f_code.co_name
    return "the closure" if name.startswith("<") else f"{name}()"


def _around(body: Body | None) -> Body | None:
    """The function, or the module, in which another is defined."""
    every = functions(body.file) if body else ()
    return next((each for each in every if body and any(s is body.node for s in statements(each.node))), None)


def _inside(opened: OpenStep, closure: str, name: str, around: Body | None, made: Place | None) -> str:
    """Which lines to move into the closure."""
    retained = " Then backward needs no retain_graph=True either." if "retain_graph" in _text(opened.inner) else ""
    fresh = f"then each call computes {name or 'it'} with the current weights."
    if around is None or made is None or closure == "the closure":
        what = f"{name}" if name else "everything that its loss depends on"
        return f"Compute {what} inside {closure}: {fresh}{retained}"
    lines = sorted({made.line, *_along(opened, around, made)})
    texts = [place.text for line in lines if (place := _at(around, line))]
    elsewhere = {
        each.lineno
        for each in statements(around.node)
        if each.lineno not in lines and not isinstance(each, SCOPES)
        for use in uses(each)
        if use.name == name and not use.binds
    }
    which = f"line {lines[0]}, `{texts[0]}`," if len(lines) == 1 else f"lines {listed([*map(str, lines)])}"
    do = f"Run {which} again at" if elsewhere else f"Move {which} to"
    return f"{do} the start of {closure}: {fresh}{retained}"


def _along(opened: OpenStep, around: Body, made: Place) -> Iterator[int]:
    """The lines before it that compute what it is computed from with weights."""
    frames = (each for each in opened.levels if each.body and each.body.node is around.node)
    level = next(frames, None)
    read = [use.name for use in uses(statement_at(around, *made.position)) if not use.binds]
    for each, found in (pair for name in read for pair in ancestors(around, name, made.line).items()):
        for place in found.bound:
            if level is not None:
                computed = bool(results_in(level.value(each)))
            else:
                called = (dotted(call.func) or "" for call in calls_in(statement_at(around, *place.position)))
                computed = any(is_module(opened.inner.value(part)) for one in called for part in prefixes(one))
            if computed:
                yield place.line


def _at(body: Body, line: int) -> Place | None:
    statement = statement_at(body, line)
    return body.place(statement) if statement else None


def _text(level: Level) -> str:
    return "\n".join(level.body.text(each) for each in statements(level.body.node)) if level.body else ""
