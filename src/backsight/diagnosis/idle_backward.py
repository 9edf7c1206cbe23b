"""BS127: what a backward gives is zeroed before the optimizer that holds it steps, while another one steps for it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import torch

from backsight.diagnosis.amending import gone, is_known
from backsight.diagnosis.evidence.turns import uses_gradients
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import conditions_around, ending, endings_of, few_of, loops_around, named
from backsight.diagnosis.scene import Site
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.source import Body, Place, statement_at
from backsight.source.bindings import assignments
from backsight.source.body import body_around, callee, calls_in, dotted, functions, keyword, statements
from backsight.source.edits import OR, on_line_with, put_at
from backsight.tracing.steps import parameters


def idle(
    site: Site, given: Sequence[torch.Tensor], beside: torch.optim.Optimizer, holder: torch.optim.Optimizer, since: int
) -> Finding | None:
    """Return the finding that a backward trains nothing: `beside` steps after it and holds nothing of what it gave, and
    `holder`, which does, steps only once that is gone.

    Who reads gradients has used them, and a step on a condition may come another time: then nothing is said.
    """
    body = body_around(*site)
    statement = statement_at(body, site[1])
    backward = next((c for c in calls_in(statement) if callee(c)[1] == "backward"), None)
    if body is None or statement is None or backward is None or keyword(backward, "inputs", "gradient") is not None:
        return None
    steps = _steps_of(body.file, holder)
    if not steps or uses_gradients(body.file):
        return None
    here, name = body.place(statement), named(beside)
    loss = dotted(callee(backward)[0]) or ""
    cut = _cut(body, loss, here.line, beside) if loss else None
    fix = f"If it should train what {name} updates, compute its loss from that, with the graph."
    if cut is not None:
        fix = f"If it should train what {name} updates, {cut[1]}."
    return warning(
        "BS127",
        f"`{here.text}` trains nothing: its gradients are zeroed before any step uses them.",
        (
            shown(here, f"computes the gradients of {few_of(given)}, of which {name} holds none."),
            if_known(cut[0] if cut is not None else None, "ends the gradient at detach."),
            shown(steps[0], "steps later, after these gradients were zeroed."),
        ),
        f"{fix} {OR}If its loss is only logged, remove this line{gone(here)}.",
        here,
        since=since,
    )


def _steps_of(file: str, optimizer: torch.optim.Optimizer) -> list[Place]:
    """Return where an optimizer steps; nothing where one of these depends on a condition, or who steps is not known."""
    names, found = endings_of(optimizer), []
    for body in functions(file):
        for statement in statements(body.node):
            for call in calls_in(statement):
                receiver, method = callee(call)
                if method != "step":
                    continue
                if call.args and any(ending(dotted(each)) in names for each in call.args):  # a scaler may skip it
                    return []
                if ending(dotted(receiver)) not in names:
                    continue
                loops, tests = loops_around(body, statement.lineno), conditions_around(body, statement.lineno)
                if any(loops or not isinstance(body.node, ast.Module) for _ in tests):
                    return []
                found.append(body.place(statement))
    return found


def _cut(body: Body, loss: str, line: int, beside: torch.optim.Optimizer) -> tuple[Place, str] | None:
    """Return the statement on the way to a loss that detaches what a model of `beside` computed, and a fix."""
    for _ in range(8):
        made = assignments(body, loss, before=line)
        statement = statement_at(body, *made[-1].position) if made else None
        if not isinstance(statement, ast.Assign):
            return None
        detached = [c for c in calls_in(statement) if callee(c)[1] == "detach" and not c.args]
        if detached:
            return _undone(body, statement, detached[0], beside) if len(detached) == 1 else None
        read = [n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name) and assignments(body, n.id, line)]
        if len(set(read)) != 1:
            return None
        loss, line = read[0], statement.lineno
    return None


def _undone(
    body: Body, statement: ast.stmt, detached: ast.Call, beside: torch.optim.Optimizer
) -> tuple[Place, str] | None:
    """Say how a statement reads what it detaches with its graph: computed anew, where another loop has computed it."""
    receiver = callee(detached)[0]
    if isinstance(receiver, ast.Call) and _is_of(receiver, beside):
        return body.place(statement), on_line_with(body, statement, {detached: body.text(receiver)})
    of = dotted(receiver) or ""
    made = assignments(body, of, before=statement.lineno)
    source = statement_at(body, *made[-1].position) if made else None
    if len(made) != 1 or not isinstance(source, ast.Assign) or not isinstance(source.value, ast.Call):
        return None
    if not _is_of(source.value, beside):
        return None
    here, there, says = body.place(statement), body.place(source), on_line_with(body, statement, {detached: of})
    if loops_around(body, source.lineno) == loops_around(body, statement.lineno):
        return here, says
    if "…" in there.text or not is_known(there.text, here):
        return None
    return here, f"compute {of} there, in each turn of its loop: {put_at(there.text, 'above', here)}, and {says}"


def _is_of(call: ast.Call, optimizer: torch.optim.Optimizer) -> bool:
    """Whether a call is of a module of which an optimizer holds parameters."""
    called, held = callee(call), {id(p) for p in parameters(optimizer)}
    name = ".".join(filter(None, (dotted(called[0]), called[1])))
    every: Any = search((), collect=(torch.nn.Module,)).found
    return any(n.path == name and any(id(p) in held for p in module.parameters()) for module, n in every)
