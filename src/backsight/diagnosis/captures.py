"""BS169, BS170: a captured CUDA graph goes on with the tensors, or the learning rate, of its capture."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown, warning
from backsight.source import Body, Place, calls_of, function_at, read_at
from backsight.source.bindings import bound
from backsight.source.body import LOOPS, callee, calls_in, dotted, functions, keyword, statements
from backsight.source.edits import OR, put, write
from backsight.source.rewriting import rewritten
from backsight.tracing import Baked, Input, Line, Watch, outdated_numbers, stale_inputs


def captured_for_good(watch: Watch) -> Iterator[Finding]:
    """Yield the findings of names that became other tensors, and of numbers that changed, after a capture."""
    renewed: dict[tuple[Place, Line], list[str]] = {}
    for each, line in stale_inputs(watch):
        place = _binding(each)
        if place is not None:
            names = renewed.setdefault((place, line), [])
            name = f"self.{each.name}" if each.holder is not None else each.name
            names += [name] if name not in names else []
    for (place, line), names in renewed.items():
        yield _stale(names, place, line)
    told: set[tuple[Line, str]] = set()
    for baked, line in outdated_numbers(watch):
        if (line, baked.option) not in told:
            told.add((line, baked.option))
            yield _outdated(baked, line)


def _binding(each: Input) -> Place | None:
    """Return the statement that gives a name another tensor: in a loop, or in a method for an attribute."""
    body = function_at(each.code)
    if body is None:
        return None
    if each.holder is not None:
        found = [
            other.place(statement)
            for other in functions(body.file)
            if getattr(other.node, "name", "__init__") != "__init__"
            for statement in statements(other.node)
            if f"self.{each.name}" in bound(statement)
        ]
    else:
        found = [body.place(statement) for statement in _in_loops(body) if each.name in bound(statement)]
    return found[0] if found else None


def _in_loops(body: Body) -> Iterator[ast.stmt]:
    for loop in statements(body.node):
        if isinstance(loop, LOOPS):
            yield loop
            yield from statements(ast.Module(loop.body, []))


def _stale(names: list[str], place: Place, line: Line) -> Finding:
    several = len(names) > 1
    new = [f"new_{name.split('.')[-1]}" for name in names]
    copies = "; ".join(f"{name}.copy_({other})" for name, other in zip(names, new, strict=True))
    renamed = _renamed(place, names, new)
    return warning(
        "BS169",
        f"The captured graph never sees the new {listed([f'`{name}`' for name in names], 4)}: each replay reads the "
        f"{'tensors' if several else 'tensor'} of the capture.",
        (
            shown(place, f"gives {listed(names, 4)} {'other tensors' if several else 'another tensor'} in each step."),
            shown(line, f"was captured, with what {listed(names, 4)} {'were' if several else 'was'} then."),
        ),
        f"Copy into the memory that was captured, before each replay: {renamed.rstrip(':') or 'new values'}, "
        f"then {copies}{_copying(place, renamed, copies)}.",
        place,
    )


def _renamed(place: Place, names: list[str], new: list[str]) -> str:
    """Return the statement with other names for what it binds."""
    body, statement = read_at(place)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.For):
        targets = [statement.target]
    renames = dict(zip(names, new, strict=True))
    changes = {
        node: renames[text]
        for each in targets
        for node in ast.walk(each)
        if isinstance(node, ast.expr) and (text := dotted(node)) in renames
    }
    return rewritten(body, statement, changes) if body is not None and statement is not None else ""


def _copying(place: Place, renamed: str, copies: str) -> str:
    """Write the statement with the other names, and copy below it."""
    below = copies.replace("; ", "\n")
    if not renamed.endswith(":"):
        return written(place, f"{renamed}\n{below}") if renamed else ""
    return f"{write(place, renamed)}{put(below, 'below', place)}"


def _outdated(baked: Baked, line: Line) -> Finding:
    step = read_at(line.place)[1]
    receiver = next((dotted(callee(c)[0]) for c in calls_in(step) if callee(c)[1] == "step"), None)
    what = "The learning rate" if baked.option == "lr" else baked.option
    made = _making(baked, line)
    tensor = (made[1], written(*made)) if made is not None else (_given(baked, "1e-3"),)
    return warning(
        "BS170",
        f"{what} of {receiver or baked.kind} stays {baked.was:.3g} in the captured graph, whatever it changes to.",
        (
            shown(line, f"was captured with {baked.option} as a number, which the graph keeps."),
            shown(made[0], "makes it a number.", "read") if made is not None else None,
            f"It has changed to {baked.now:.3g} since, which no replay sees.",
        ),
        f"Make it a tensor, which a schedule fills in place: {''.join(tensor)}. {OR}"
        f"Or leave {receiver or 'the optimizer'}.step() out of the capture.",
        made[0] if made is not None else line,
    )


def _given(baked: Baked, value: str) -> str:
    capturable = ", capturable=True" if baked.capturable else ""
    return f"{baked.option}=torch.tensor({value}, device={baked.device.split(':')[0]!r}){capturable}"


def _making(baked: Baked, line: Line) -> tuple[Place, str] | None:
    """Return the only statement that makes such an optimizer, and the same with a tensor for the number."""
    found = [(body, statement, call) for body, statement, call in calls_of(line.file) if callee(call)[1] == baked.kind]
    if len(found) != 1:
        return None
    body, statement, call = found[0]
    given = keyword(call, baked.option)
    if given is None:
        return None
    capturable = baked.capturable and keyword(call, "capturable") is None
    new = f"torch.tensor({body.text(given)}, device={baked.device.split(':')[0]!r})"
    text = rewritten(body, statement, {given: f"{new}, capturable=True" if capturable else new})
    return (body.place(statement), text) if text else None
