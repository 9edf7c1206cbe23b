"""The output was computed before a loop, from a value of a variable that each iteration replaces."""

from __future__ import annotations

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.diagnosis.errors.unused_input.late import computed_from
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.source import loop_facts
from backsight.source.bindings import bound, uses
from backsight.source.body import statements


def computed_before_loop(case: Unused) -> Finding | None:
    """Name the statement before the loop, and move it inside."""
    level, base = case.failure.user, case.name.partition("[")[0]
    body, read = level.body if level else None, case.ancestors.get(base)
    facts = loop_facts(body, level.line) if level else None
    while facts is not None and base not in facts.carried:
        facts = facts.enclosing
    if level is None or body is None or facts is None or read is None or read.read.line >= facts.loop.line:
        return None
    inside = [each for each in statements(body.node) if facts.loop.line < each.lineno < level.line]
    for each in inside:  # what reads it there as well may depend on this iteration's
        leads = bound(each) & case.ancestors.keys() - {base}
        if leads and base in {use.name for use in uses(each) if not use.binds}:
            return None
    early = computed_from(body, base, read.read.line, facts.loop.line, level.receiver or case.output, level.line)
    if not early:
        return None
    first = next(iter(sorted(bound(early[0]))))
    lines = [str(each.lineno) for each in early]
    top = min(each.lineno for each in statements(body.node) if each.lineno > facts.loop.line)
    what = f"line {lines[0]}, `{body.place(early[0]).text}`," if len(early) == 1 else f"lines {listed(lines)}"
    return explanation(
        f"{case.output} does not depend on {case.name}: {first} was computed before the loop, from an earlier {base}.",
        (
            shown(body.place(early[0]), f"computes {first} from {base}, once, before the loop."),
            shown(facts.carried[base][1], f"replaces {base} in each iteration; {first} stays as it was."),
            case.asked,
        ),
        f"Move {what} into the loop, above line {top}, so that {first} is computed from each new {base}.",
        source=str(body.place(early[0])),
    )
