"""BS146, BS169, BS170: results that are lost, and new tensors, or rates, that a captured CUDA graph never sees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from inspect import unwrap
from types import FrameType
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import assigned_at, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, looped, writes_around
from backsight.diagnosis.wording import listed, shown, warning
from backsight.findings.evidence import Evidence
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, calls_of, function_at, parsed, read_at
from backsight.source.bindings import assigned, bound, parameters_of, target_names, uses
from backsight.source.body import LOOPS, callee, callers, calls_in, dotted, functions, keyword, statements
from backsight.source.edits import OR, put, write
from backsight.source.out_of_place import arguments
from backsight.source.rewriting import rewritten
from backsight.story.failure import method
from backsight.tracing import Baked, Input, Line, Sighting, Spot, Watch, Write, outdated_numbers, stale_inputs

_WITHOUT_TWIN = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16"})


def dropped(sightings: Iterable[Sighting]) -> Iterator[Finding]:
    """Yield the findings of statements that were seen to do nothing but to make a tensor, which nobody gets."""
    for seen in sightings:
        spot = seen.spot
        if not spot.dropped or not isinstance(spot.call.func, ast.Attribute):
            continue
        receiver, place = spot.body.text(spot.call.func.value), spot.body.place(spot.statement)
        yield warning(
            "BS146",
            f"{receiver} is not changed: the result of {spot.method} is thrown away.",
            (shown(place, f"returns a new tensor and leaves {receiver} as it was."),),
            _kept(seen, spot, receiver),
            place,
        )


def lost_in_step(optimizer: torch.optim.Optimizer) -> Finding | None:
    """Return the finding of an update that an optimizer of the program's computes and throws away."""
    lost = lost_update(optimizer)
    if lost is None:
        return None
    return warning(
        "BS146",
        f"{type(optimizer).__name__}.step() does not change {lost.name}: the result of {lost.lost} is thrown away.",
        lost.shown,
        lost.fix,
        lost.place,
    )


def _kept(seen: Sighting, spot: Spot, receiver: str) -> str:
    """Say how to keep the result: in place where the memory itself is meant, and where autograd allows it."""
    given = ", ".join(arguments(spot.body, spot.call))
    assigned = f"{receiver} = {spot.body.text(spot.call)}"
    in_place = f"{receiver}.{spot.method}_({given})"
    place = spot.body.place(spot.statement)
    anew, there = f"{assigned}{written(place, assigned)}", f"{in_place}{written(place, in_place)}"
    if spot.method in _WITHOUT_TWIN or not dotted(spot.call.func.value):  # type: ignore[attr-defined]  # an attribute
        return f"Assign the result: {anew}."
    last = ending(receiver)
    attached = seen.enabled and seen.requires_grad
    if receiver in looped(spot.body) and attached:
        block = written(place, f"with torch.no_grad():\n    {in_place}")
        return f"Change it in place, inside `with torch.no_grad():`: {in_place}{block}."
    if (receiver in looped(spot.body) or last in ("data", "grad") or seen.requires_grad) and not attached:
        return f"Change it in place: {there}."
    return f"Assign the result: {anew}."


_CONVERTS = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16", "detach", "requires_grad_"})


def rebound(frame: FrameType) -> Iterator[Finding]:
    """Yield the findings of loops over the parameters of two modules that bind their own variable to a tensor, which
    nothing reads: `for p, q in zip(net.parameters(), other.parameters()): p = q`."""
    for each in writes_around(frame):
        goal, value = assigned_at(each.place)
        is_run = each.body.name in ("", "__init__", "forward", "step") or any(callers(each.body))
        tree = parsed(value)
        read = target_names(tree) & looped(each.body) if tree is not None else ()
        converts = isinstance(tree, ast.Call) and callee(tree)[1] in _CONVERTS
        if each.how != "rebinds" or each.called is not None or not is_run or not read or converts:
            continue
        into = f"with torch.no_grad():\n    {goal}.copy_({value})"
        yield warning(
            "BS146",
            f"{each.target} is not changed: {goal} is only the variable of the loop.",
            (
                shown(
                    each.place, f"binds that name to another tensor; the parameters of {each.target} stay as they are."
                ),
            ),
            f"Write into the parameter, under torch.no_grad(): {goal}.copy_({value}){written(each.place, into)}.",
            each.place,
        )


def lost_writes(writes: Iterable[Write]) -> Iterator[Finding]:
    """Yield the findings of `x[index] += y` where the index was seen to have repeated entries."""
    for each in writes:
        target, index = each.target, each.body.text(each.target.slice)
        name, place = each.body.text(target.value), each.body.place(each.statement)
        yield warning(
            "BS146",
            f"{name} loses additions: {index} has repeated entries, and += through an index adds only once to each.",
            (
                shown(
                    place,
                    f"adds at {each.entries:,} entries, {each.distinct:,} of them distinct: of those that are the "
                    "same, the last one overwrites the others.",
                ),
            ),
            f"Accumulate: {_accumulated(each, name, index)}{written(place, _accumulated(each, name, index))}.",
            place,
        )


def _accumulated(write: Write, name: str, index: str) -> str:
    added = write.body.text(write.added)
    several = isinstance(write.target.slice, ast.Tuple)
    sign = "-" if write.subtracts else ""
    if several or not write.is_by_rows or isinstance(write.added, ast.Constant):
        is_plain = isinstance(write.added, ast.Name | ast.Constant | ast.Subscript)
        value = f"{sign}{added}" if is_plain or not sign else f"{sign}({added})"
        if isinstance(write.added, ast.Constant):
            value = f"torch.tensor({value}, dtype={name}.dtype)"
        indices = f"({index})" if several else f"({index},)"
        return f"{name}.index_put_({indices}, {value}, accumulate=True)"
    return f"{name}.index_add_(0, {index}, {added}{', alpha=-1' if sign else ''})"


# Updates that an optimizer of the program's computes in its step and throws away.


_KINDS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_OF = frozenset({"p", "param", "parameter", "w", "weight", "theta"})
"""What a helper calls the parameter that it is given."""


class LostUpdate(NamedTuple):
    """A statement of a step that leaves a parameter as it was: what it is called, what is lost, and what to write."""

    place: Place
    name: str
    lost: str
    fix: str

    @property
    def shown(self) -> tuple[Evidence, ...]:
        """The statement as evidence."""
        return (shown(self.place, f"returns a new tensor and leaves {self.name} as it was."),)


def lost_update(optimizer: torch.optim.Optimizer) -> LostUpdate | None:
    """Return the first statement, in a step of the program's or what it calls, whose result is lost."""
    if not is_user_class(type(optimizer).__module__):
        return None
    step = unwrap(method(type(optimizer), "step"))  # no_grad() wraps it, and so does Optimizer
    body = function_at(step.__code__) if step is not None else None
    if body is None:
        return None
    called = {callee(n)[1] for s in statements(body.node) for n in calls_in(s)}
    helpers = (each for each in functions(body.file) if each.name in called - {"step"})
    return next((found for each in (body, *helpers) for found in _lost_in(each, is_helper=each is not body)), None)


def _lost_in(body: Body, *, is_helper: bool) -> Iterator[LostUpdate]:
    held = looped(body) | (set(parameters_of(body.node)) & _OF if is_helper else set())
    for block in _blocks(body.node):
        for statement in block:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr=op)) as call) if (
                    _root(receiver) in held and hasattr(torch.Tensor, f"{op}_") and hasattr(torch.Tensor, op)
                ):
                    text = body.text(receiver)
                    given = ", ".join(arguments(body, call))
                    place, new = body.place(statement), f"{text}.{op}_({given})"
                    yield LostUpdate(place, text, op, f"Change it in place: {new}{written(place, new)}.")
            for target, value in assigned(statement):
                match target, value:
                    case ast.Name(id=name), ast.BinOp(left=left, op=operator, right=right) if (
                        name in held and _root(left) == name and not _is_read(body, statement, name)
                    ):
                        if kind := _KINDS.get(type(operator)):
                            place, new = body.place(statement), f"{name}.{kind}_({body.text(right)})"
                            fix = f"Change it in place: {new}{written(place, new)}."
                            yield LostUpdate(place, name, kind, fix)


def _root(node: ast.expr) -> str:
    """Return the `p` of `p` and `p.data`."""
    return (dotted(node) or "").removesuffix(".data")


def _is_read(body: Body, statement: ast.stmt, name: str) -> bool:
    """Whether a variable, and not only its gradient, is used after a statement."""
    later = (s for s in statements(body.node) if s.lineno > (statement.end_lineno or 0))
    return any(use.name.split(".")[0] == name and ".grad" not in use.name for s in later for use in uses(s))


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements of a function that run for each parameter, whatever the options are."""
    for field in ("body", "orelse"):
        block = getattr(node, field, [])
        if block and not (field == "orelse" and isinstance(node, ast.If)):
            yield block
        for each in block:
            if not isinstance(each, ast.If) or "grad" in ast.unparse(each.test):
                yield from _blocks(each)


# BS169, BS170: a captured CUDA graph goes on with the tensors, or the learning rate, of its capture.


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
