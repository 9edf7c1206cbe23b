"""BS123: the gradients that another loss has left are still there, and this backward adds to them."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator

import torch

from backsight.diagnosis.amending import added
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Past, Scene, first_uses, recall
from backsight.diagnosis.wording import counted, shown, warning
from backsight.source.body import body_around, dotted, expressions, statements
from backsight.source.edits import OR
from backsight.tracing import Backward, current
from backsight.tracing.steps import StepLog, parameters


@rule("BS123")
def mixed_gradient(scene: Scene) -> Iterator[Finding]:
    """The backward just before this one ran for something else, and its gradients were not zeroed.

    It ran for an optimizer that has stepped since, whose parameters come before these on the way, as a generator's do
    before its critic's, or behind them and on the way of this loss, too, as a critic's do. Or for the gradient of an
    input, as an attack does. Losses that are meant to be added up do none of this.
    """
    found = _two_backwards(scene)
    if found is None or scene.steps is None:
        return
    before, now = found
    past = recall((before.line.file, before.line.line)) if before.line is not None else None
    if past is None or before.line is None or now.line is None:
        return
    uses = first_uses(scene.graph)
    for name, optimizer in scene.involved().items():
        held = [p for p in parameters(optimizer) if id(p) in uses and past.had_leaf(p)]
        if not held or not _is_left(scene.steps, optimizer, min(held, key=lambda p: uses[id(p)]), before):
            continue
        whose, fix = _for_another(scene, past, optimizer, held, before), ""
        if not whose and (given := _read_after(before, past.given)):
            whose = f"runs for {given}.grad"
            fix = f" {OR}Or use torch.autograd.grad(..., {given}), which does not touch the weights."
        if not whose:
            continue
        yield warning(
            "BS123",
            f"{name}.step() also uses gradients left by another loss.",
            (
                shown(
                    before.line.place,
                    f"{whose} and also leaves gradients in {counted(len(held), 'parameter')} of {name}.",
                ),
                shown(now.line.place, "adds its own gradients to them."),
            ),
            f"Call {name}.zero_grad() right before `{now.line.place.text}`"
            f"{added(f'{name}.zero_grad()', 'above', now.line.place)}.{fix}",
            now.line.place,
        )


def _two_backwards(scene: Scene) -> tuple[Backward, Backward] | None:
    """Return the backward of this thread before the one that is running, and this one."""
    watch, thread = current(), threading.get_ident()
    if watch is None or scene.moment != "during backward":
        return None
    every = [each for each in watch.backwards if each.thread == thread and each.call == "backward"]
    if len(every) < 2 or every[-1].done or not every[-2].done or every[-1].line == every[-2].line:
        return None
    return every[-2], every[-1]


def _is_left(steps: StepLog, optimizer: torch.optim.Optimizer, last: torch.Tensor, before: Backward) -> bool:
    """Whether what an earlier backward has added is still in the gradient which this one comes to last of all."""
    consumed = steps.consumed(optimizer, last)
    if last.grad is None or is_zero(last.grad):
        return False
    return consumed is None or (consumed.marks[-1] < before.mark and not consumed.is_untouched(last.grad))


def _for_another(
    scene: Scene, past: Past, optimizer: torch.optim.Optimizer, held: list[torch.Tensor], before: Backward
) -> str:
    """Say for which optimizer that backward ran: it has stepped since, and what it trains comes before `held`, or
    behind all of it and on the way of this loss as well."""
    begin, end = min(past.uses[id(p)] for p in held), max(past.uses[id(p)] for p in held)
    reached = scene.reached()
    for name, other in scene.optimizers.items():
        own = [p for p in parameters(other) if past.had_leaf(p)] if other is not optimizer else []
        consumed = scene.steps.consumed(other, own[0]) if own and scene.steps is not None else None
        if consumed is None or consumed.marks[-1] < before.mark:
            continue
        uses = [past.uses[id(p)] for p in own]
        if max(uses) < begin or (min(uses) > end and all(id(p) in reached for p in own)):
            return f"runs for {name}.step()"
    return ""


def _read_after(before: Backward, given: frozenset[str]) -> str:
    """Return the input whose gradient the function reads that ran the backward, below it; nothing if it reads none."""
    line = before.line
    body = body_around(line.file, line.line) if line is not None and given else None
    for statement in statements(body.node) if body is not None and line is not None else ():
        for node in expressions(statement) if line is not None and statement.lineno > line.line else ():
            if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
                name = dotted(node.value) or ""
                if name in given:
                    return name
    return ""
