"""BS201: backward ran into a graph that an earlier backward has freed.

Flags that say "freed" mislead here: a failing backward frees the new part of the graph on its way to the old one. So
the evidence is, in this order: what a running watch knows of optimizer steps, other losses with a graph in common, and
what loops and functions carry from one iteration into the next.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.errors.second_backward.carried import carried_over, steps_seen
from backsight.diagnosis.errors.second_backward.derived import differentiated, differentiated_again
from backsight.diagnosis.errors.second_backward.joined import computed_outside, joined, parametrized_once
from backsight.diagnosis.errors.second_backward.losses import another_loss
from backsight.diagnosis.errors.second_backward.repeated import same_loss
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, listed, lost, shown, sure_if
from backsight.naming.frames import is_function
from backsight.snapshot import survey
from backsight.source import Body, Place, assignments, calls_of, loop_facts
from backsight.source.body import callee, expressions
from backsight.source.edits import instead, put
from backsight.source.rewriting import rewritten
from backsight.story.case import Case
from backsight.story.failure import Failure, Level, around_engine
from backsight.story.files import user_files
from backsight.tape import ENGINE_CALLS

Clue = Callable[[Case], Finding | None]

CLUES: tuple[Clue, ...] = (
    differentiated_again,
    same_loss,
    another_loss,
    computed_outside,
    parametrized_once,
    differentiated,
    carried_over,
    joined,
)


@explains("BS201", r"backward through the graph a second time")
def second_backward(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the variable that joins this loss to a graph which was already freed."""
    if (told := freed_context(failure)) is not None:
        return told
    failure = around_engine(failure)
    if not any(getattr(root, "requires_grad", False) for root in failure.roots):
        return _unlocated(failure, ())
    case = Case(failure, survey(failure.roots, frames=failure.frames))
    finding = next((found for clue in CLUES if (found := clue(case)) is not None), None)
    return finding or _unlocated(failure, steps_seen(case), _kept(case))


def _kept(case: Case) -> list[str]:
    """Name what objects of the program hold of this graph from before this iteration, the oldest first: it may be from
    an earlier backward.
    """
    held = dict.fromkeys(path for path, _ in reversed(case.held) if re.search(r"[.\[]", path))
    return [path for path in held if not _is_of_this_iteration(case, path)]


def _is_of_this_iteration(case: Case, path: str) -> bool:
    """Whether a statement of this iteration, or of a function that has no loop, assigns the variable of a path."""
    variable = re.split(r"[.\[]", path, maxsplit=1)[0]
    level = next((each for each in case.failure.users if variable in each.variables), None)
    if level is None or level.body is None:
        return False
    facts = loop_facts(level.body, level.line)
    if facts is None and isinstance(level.body.node, ast.Module):
        return False
    begins = facts.loop.line if facts is not None else 0
    return any(begins < each.line <= level.line for each in assignments(level.body, variable))


def _other_cell(level: Level | None) -> Iterator[str]:
    """Of code at module level, such as a notebook's cell: that the loss is not computed there."""
    name = level.receiver if level else None
    if level is None or level.body is None or not name or not name.isidentifier():
        return
    if isinstance(level.body.node, ast.Module) and not assignments(level.body, name):
        yield (
            f"This code does not compute {name}. If it ran before, as when a notebook cell runs twice, it freed the "
            "graph then."
        )


def _unlocated(failure: Failure, steps: Iterable[str], kept: Sequence[str] = ()) -> Finding:
    where = failing(failure, "is the call that failed.")
    elsewhere = tuple(_other_cell(failure.user))
    again = f"Rerun the code that computes {failure.user.receiver}, then this. " if elsewhere and failure.user else ""
    held = f"The loss is computed through {listed(kept, 2)}, which outlive{'s' * (len(kept) == 1)} an iteration."
    through = held if kept else lost("The variable that leads there")
    return explanation(
        "backward() reached operations whose saved tensors an earlier backward() freed.",
        (*where, *elsewhere, *steps, through),
        f"{again}{'If that does not help, look' if again else 'Look'} for a result that is computed once and used in "
        "every iteration (recompute it each time), one that is carried from iteration to iteration (detach it: "
        "hidden = hidden.detach()), and two losses over one forward pass (add them, and call backward once).",
        source=failure.source,
        exact=False,
    )


# The tensors that a custom Function has saved, read after its backward has run.


def freed_context(failure: Failure) -> Finding | None:
    """Explain an error of `ctx.saved_tensors` outside of any backward; None if it was not that which failed."""
    level = failure.user
    read = _read(level) if level else None
    if level is None or level.body is None or read is None:
        return None
    if any(each.frame.f_code in ENGINE_CALLS for each in failure.levels):
        return None
    name = level.body.text(read)
    saving = list(_saving(failure))
    ran = next((each.place for each in failure.users[1:]), None) if is_function(level.frame) else None
    sure = sure_if(len(saving) == 1)
    lines = [shown(place, "saves them until backward has used them.", sure) for _, place, _ in saving[:1]]
    return explanation(
        f"{name} is read after backward() has freed it.",
        (*lines, shown(level.place, "reads it."), if_known(ran, "runs that after backward().")),
        _fix(level, read, saving),
        source=level.place,
        exact=sure is None,
    )


def _read(level: Level) -> ast.expr | None:
    found = (n for n in expressions(level.statement) if isinstance(n, ast.Attribute) and n.attr == "saved_tensors")
    return next(found, None)


def _saving(failure: Failure) -> Iterator[tuple[Body, Place, ast.Call]]:
    """The statements that save for backward."""
    for body, each, call in calls_of(*user_files(failure)):
        if callee(call)[1] == "save_for_backward":
            yield body, body.place(each), call


def _fix(level: Level, read: ast.expr, saving: list[tuple[Body, Place, ast.Call]]) -> str:
    if len(saving) != 1 or level.body is None or level.statement is None or not isinstance(read, ast.Attribute):
        return "Read it before backward(), or keep copies of what is needed, x.detach(), when it is saved."
    body, place, call = saving[0]
    context = body.text(call.func).rpartition(".")[0]
    kept = ", ".join(f"{body.text(each)}.detach()" for each in call.args)
    held = level.body.text(read.value)
    line = rewritten(level.body, level.statement, {read: f"{held}.kept"})
    keeping = f"{context}.kept = ({kept},)"
    edits = f"{put(keeping, 'below', place)}{instead(level.body, level.statement, line)}"
    return (
        f"Read it before backward(). Or keep a reference: below line {place.line}, put `{keeping}`, "
        f"and on line {level.statement.lineno} write `{line}`{edits}. That keeps the memory for as long as {held} "
        "lives."
    )
