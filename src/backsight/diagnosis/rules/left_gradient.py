"""BS103, BS123: gradients of the last step, or of another loss, are still there, and this backward adds to them."""

from __future__ import annotations

import ast
import threading
from collections.abc import Container, Iterator, Sequence

import torch

from backsight.diagnosis.amending import added, given_keyword, is_known
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, named
from backsight.diagnosis.scene import Past, Scene, first_uses, recall, rule
from backsight.diagnosis.wording import counted, if_known, shown, warning
from backsight.source import Place
from backsight.source.body import body_around, callee, dotted, expressions, statements
from backsight.source.edits import OR
from backsight.story.holders import given, users
from backsight.tape import Graph, Node
from backsight.tracing import Backward, Change, StepLog, Watch, current
from backsight.tracing.steps import parameters


@rule("BS103")
def stale_gradient(scene: Scene) -> Iterator[Finding]:
    """Gradients that an optimizer step has consumed were not zeroed; deliberate accumulation is not flagged."""
    stale = {name: [p for p in of if _is_stale(scene, name, p)] for name, of in _held(scene).items()}
    for name, tensors in stale.items():
        left = [p for p in tensors if p.grad is not None and not is_zero(p.grad)]
        if left:
            running = scene.running or _last_backward(scene)
            inside = f" in {running_in}()" if running and (running_in := _closure(running)) else ""
            yield warning(
                "BS103",
                f"{counted(len(left), 'gradient')} {'has' if len(left) == 1 else 'have'} not been zeroed since "
                f"{name}.step().",
                (
                    f"{scene.listed(left)}: the gradient of the previous step is still there, so this backward adds "
                    "to it, and the next step follows the sum of all gradients so far.",
                    if_known(running, "adds to them."),
                ),
                f"Call {name}.zero_grad(){inside or ' in each step'} before backward()"
                f"{added(f'{name}.zero_grad()', 'above', running)}.",
                running,
            )


def _last_backward(scene: Scene) -> Place | None:
    """The statement that ran every backward since the last step but one, where a closure runs them within the step."""
    watch = current() if scene.moment == "before step" else None
    thread = threading.get_ident()
    past = list(scene.steps.past.get(thread, ())) if scene.steps is not None else []
    if watch is None or len(past) < 2:
        return None
    since = [each.line for each in watch.backwards if each.done and each.marks.get(thread, 0) > past[-2]]
    places = {each.place for each in since if each is not None}
    return places.pop() if len(places) == 1 and None not in since else None


def _closure(place: Place) -> str:
    """The function that holds a backward and is given to a step of its file, `opt.step(closure)`; empty if none is."""
    name = getattr(getattr(body_around(place.file, place.line), "node", None), "name", "")
    module = body_around(place.file, 0)
    calls = [each for each in ast.walk(module.node) if isinstance(each, ast.Call)] if module is not None else []
    given = {dotted(each) for call in calls if callee(call)[1] == "step" for each in call.args}
    return name if name in set(map(ending, given)) else ""


def _held(scene: Scene) -> dict[str, list[torch.Tensor]]:
    """Return the parameters that this loss reaches and that have a gradient, by optimizer."""
    reached = scene.reached()
    held = {
        name: [p for p in parameters(optimizer) if id(p) in reached and p.grad is not None]
        for name, optimizer in scene.involved().items()
    }
    return {name: tensors for name, tensors in held.items() if tensors}


def _is_stale(scene: Scene, optimizer: str, parameter: torch.Tensor) -> bool:
    if scene.moment != "before backward" and scene.steps is not None:
        accumulated = scene.moment == "before step"
        held = scene.optimizers[optimizer]
        exactly = _was_only_added_to(scene.steps, held, parameter, accumulated)
        return scene.steps.is_stale(held, parameter, accumulated) if exactly is None else exactly
    # zero_grad() may still come between this audit and backward(), so only two audits can tell.
    return scene.past is not None and _was_not_zeroed(scene.past, parameter)


def _was_not_zeroed(past: Past, parameter: torch.Tensor) -> bool:
    """Whether between two audits the parameter was stepped and its gradient changed once, and not by zeroing."""
    before = past.gradients.get(id(parameter))
    return before is not None and past.was_changed(parameter) and before.is_untouched(parameter.grad, changes=1)


def _was_only_added_to(
    steps: StepLog, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, accumulated: int
) -> bool | None:
    """Whether between the last two steps nothing but backwards and clipping changed the gradient; None if not known.

    The exact level of a watch sees what is written in place, but for what backwards add. So as many changes as there
    were backwards must have escaped it, and no other: also where several batches are accumulated for each step.

    Of several optimizers, the backwards between the last two steps may be those of either loss, or, as in a GAN whose
    two losses go through the critic, all since the same optimizer stepped before.
    """
    watch, consumed = current(), steps.consumed(optimizer, parameter)
    if watch is None or watch.level != "exact" or consumed is None or consumed.changes is None:
        return None
    gradient, (backwards, own, after) = parameter.grad, _backwards_between(watch, steps, consumed.marks)
    if backwards is None or gradient is None:
        return None if backwards is None else False
    since = consumed.version - consumed.changes
    every = [each for each in watch.changes(gradient, since=since) if each.kind not in ("unseen", "backward")]
    seen = [each for each in every if each.before < consumed.version]
    late = len(every) - len(seen)  # clipped once the step has used them
    expected = {backwards} if consumed.is_untouched(gradient, accumulated + late) else set()
    expected |= {own} if own is not None and consumed.is_untouched(gradient, after + late) else set()
    if not expected or not all(map(_scales, every)):
        return False
    return consumed.changes - len(seen) in expected


def _scales(change: Change) -> bool:
    """Whether it is a clipping, or what a gradient scaler does before it."""
    return change.via.startswith("clip_grad") or change.op == "_amp_foreach_non_finite_check_and_unscale_"


def _backwards_between(watch: Watch, steps: StepLog, own: tuple[int, ...]) -> tuple[int | None, int | None, int]:
    """Return how many backwards there were between the last two steps of this thread; None if that is not known.

    torch.autograd.grad() is none of them: it adds to no gradient. And how many between the two steps at `own`, and
    since the second of them.
    """
    thread = threading.get_ident()
    past = list(steps.past.get(thread, ()))
    if len(past) < 2:
        return None, None, 0
    added = [each for each in watch.backwards if each.done and each.call == "backward"]
    began = [each.marks.get(thread, 0) for each in added]
    between = sum(past[-2] < mark <= past[-1] for mark in began)
    if len(own) < 2 or not set(own) <= set(past):
        return between, None, 0
    return between, sum(own[0] < mark <= own[1] for mark in began), sum(own[1] < mark for mark in began)


# BS123: the gradients that another loss has left.


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
    """Say for which optimizer that backward ran: it has stepped since, and trains what comes before or behind."""
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
    for statement in statements(body) if line is not None else ():
        for node in expressions(statement) if line is not None and statement.lineno > line.line else ():
            if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
                name = dotted(node.value) or ""
                if name in given:
                    return name
    return ""


# BS123: what a loss leaves in a network that it only leads through is used by that network's own optimizer.


_LINEAR = frozenset({"Neg", "Mean", "Sum", "Add", "Sub", "Minimum", "Min", "View", "UnsafeView", "ReshapeAlias"})
_LINEAR |= frozenset({"Squeeze", "Unsqueeze", "Select", "Slice", "Index", "Stack", "Cat", "Unbind", "Expand"})
_TIMES_A_NUMBER = frozenset({"Mul", "Div"})


def leads_through(graph: Graph, ids: set[int]) -> bool:
    """Whether a loss is a sum of what the last layers of a network return, and all of it is computed from other leaves.

    ids: of the parameters of the network. Such a loss has no target: the network that returns it could make it as
    small as you like by its last bias alone. What else is added to it, an entropy, may not depend on the network.
    """
    ends, rest = _summed(graph, ids, _below(graph, ids, True))
    return bool(ends) and not rest and ends <= _below(graph, ids, False)


def has_target(graph: Graph, ids: set[int]) -> bool:
    """Whether a loss depends on a network, and nothing that its last layers return is only summed."""
    return not _summed(graph, ids, range(len(graph)))[0]


def _summed(graph: Graph, ids: set[int], own: Container[int]) -> tuple[set[int], bool]:
    """Return which last layers of a network a loss sums up, of the nodes `own`; and whether it depends on others."""
    ends, rest, waiting, seen = set[int](), False, [each.index for each in graph.roots], set[int]()
    while waiting:
        index = waiting.pop()
        if index in seen or index not in own:
            continue
        seen.add(index)
        node = graph.nodes[index]
        inputs = given(node)
        if any(_is_own(graph, each, ids) for each in inputs):
            ends.add(index)
        elif node.op in _LINEAR or (node.op in _TIMES_A_NUMBER and len(inputs) == 1):
            waiting += [each.index for each in inputs]
        else:
            rest = True
    return ends, rest


def _is_own(graph: Graph, node: Node, ids: set[int]) -> bool:
    """Whether a node stands for a parameter of the network, or its transpose."""
    if node.op in ("T", "Transpose") and len(given(node)) == 1:
        node = given(node)[0]
    leaf = graph.leaf_at.get(node.index)
    return leaf is not None and id(graph.leaves[leaf].tensor()) in ids


def _below(graph: Graph, ids: set[int], own: bool) -> set[int]:
    """Return the nodes that depend on a parameter of the network, or else on one that some optimizer or model owns."""
    start = {each.node for each in graph.leaves if (id(each.tensor()) in ids) is own and (own or each.owner)}
    using, found, waiting = users(graph), set(start), list(start)
    while waiting:
        new = [each.index for each in using.get(waiting.pop(), ()) if each.index not in found]
        found.update(new)
        waiting += new
    return found


def led_through(
    of: torch.optim.Optimizer, other: torch.optim.Optimizer, held: Sequence[torch.Tensor], first: Place, then: Place
) -> Finding:
    """Return the finding that the step of one optimizer also uses what the loss of another one has left."""
    name, its = named(of, "the optimizer"), named(other, "the other optimizer")
    return warning(
        "BS123",
        f"{name}.step() also uses gradients left by another loss.",
        (
            shown(first, f"computes the gradients of {counted(len(held), 'parameter')} of {name}."),
            shown(then, f"runs for {its}.step() and adds its own gradients to them: its loss has no target for them."),
        ),
        f"Call {name}.step() before `{then.text}`, and compute that loss after it; {OR}or pass inputs= with the "
        f"parameters of {its} to that backward{_for_inputs(then, its)}.",
        then,
    )


def _for_inputs(then: Place, optimizer: str) -> str:
    """Have a backward add to the gradients of what an optimizer holds, and to no other."""
    held = f"[p for group in {optimizer}.param_groups for p in group['params']]"
    return given_keyword(then, "backward", "inputs", held) if is_known(held, then) else ""
