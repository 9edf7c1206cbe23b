"""One backward for all losses of a loop: where a part of a model has its only gradient from what iterations carry."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.source import loop_facts
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.source.edits import OR, put, put_at, remove, write
from backsight.source.rewriting import rewritten
from backsight.story.carrier import Carrier
from backsight.story.histories import along, value_under
from backsight.story.holders import below, made_in
from backsight.story.stepping import steps_of_pass
from backsight.text import listed


def trained_through(found: Carrier, nodes: Sequence[int] = ()) -> list[str]:
    """Return what optimizers hold and the loss comes to only through carried results, or `nodes`, by module; none if
    these are not known."""
    case, stored, line = found.case, found.stored, found.level.line
    left = stored is not None and stored.line > line and found.facts is not None  # the variable still has the old one
    held = [i for each in found.names if left for i in made_in(case.graph, value_under(found, each))]
    nodes = nodes or case.joints or held
    roots = [root for root, _ in case.graph.root_edges]
    lost = {*below(case.graph, nodes)} - {*below(case.graph, roots, without={*nodes})}
    names = [leaf.name for leaf in case.graph.leaves if leaf.owner and leaf.node in lost]
    return list(dict.fromkeys(name.rpartition(".")[0] or name for name in names if name))


def one_backward(found: Carrier) -> str:
    """Say how to run backward once over the losses of a loop, and what a `.detach()` would not train; empty where
    it would train all the same."""
    lost, case = trained_through(found), found.case
    if not lost or found.facts is None or found.stored is None:
        return ""
    only = f"{listed(lost, 3)} {'get' if len(lost) > 1 else 'gets'} a gradient only through {found.name}"
    again = f"tore what {found.name} is computed from, and compute it again in each iteration"
    detached = f"{only}: detached, it would not train {'them' if len(lost) > 1 else 'it'}."
    users = case.failure.users  # innermost first
    outer = users[users.index(found.level) + 1 :] if found.level in users else ()
    if found.facts.enclosing is None and not any(loop_facts(each.body, each.line) for each in outer):
        return f"S{again}. {detached}"
    how = _written(found) or "add the losses of the loop, and run backward and the step once, below it"
    return f"If one step for all of the loop will do, {how}. {OR}If not, s{again}. {detached}"


def _written(found: Carrier) -> str:
    """The statements: losses are gathered in the loop, and what runs backward and steps stands below it."""
    level, loop = found.level, found.facts.loop if found.facts is not None else None
    body, statement = level.body, level.statement
    steps = along(level, steps_of_pass(level, found.facts))
    root = _run_on(found)
    if body is None or statement is None or loop is None or root is None or not isinstance(statement, ast.Expr):
        return ""
    if not steps or len(steps) < len(steps_of_pass(level, found.facts)) or steps[0].line < level.line:
        return ""
    moved = [body.place(each) for each in statements(body.node) if _clips(each)]
    moved = [*along(level, [each for each in moved if level.line < each.line < steps[-1].line]), *steps]
    name = next(each for each in ("losses", "all_losses", "summands") if each not in level.variables)
    call = rewritten(body, statement, {root: f"sum({name})"})
    texts = [call, *(each.text for each in sorted(moved, key=lambda each: each.line))]
    if not call or "scale(" in call or not all(body.lines[each.line - 1].strip() == each.text for each in moved):
        return ""
    made, adds = f"{name} = []", f"{name}.append({body.text(root)})"
    end = loop.end or loop.line
    return (
        f"{put_at(made, 'above', loop)}, write `{adds}` on line {level.line}"
        f"{write(level.place, adds)}, and put {listed([f'`{each}`' for each in texts])} below the loop at line {end} "
        f"instead of on line{'s' * (len(moved) > 1)} {listed([str(each.line) for each in moved])}"
        f"{''.join(str(remove(each)) for each in moved)}{put(chr(10).join(texts), 'beside', loop)}"
    )


def _run_on(found: Carrier) -> ast.expr | None:
    """The loss in the statement that runs backward, or that hands it to a function which does."""
    level = found.level
    for call in calls_in(level.statement):
        receiver, method = callee(call)
        for each in [receiver if method == "backward" else None, *call.args]:
            name = dotted(each) if each is not None else None
            if name and level.value(name) is found.case.root:
                return each
    return None


def _clips(statement: ast.stmt) -> bool:
    names = [callee(call)[1] for call in calls_in(statement)]
    return isinstance(statement, ast.Expr) and any(name.startswith("clip_grad") for name in names)
