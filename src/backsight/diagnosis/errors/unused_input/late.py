"""The output was computed too early: before the gradient of the input was turned on, or before the variable got it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused, computed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place, loop_facts, only
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Spot, Use, bound, names_read, spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.source.edits import lines_of, move, put, put_at, sentence
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, needs_gradient


@dataclass(frozen=True, eq=False)
class Late:
    """A function that has both tensors: where it uses the input, and where the gradient of that is turned on later.

    repeats: the statements that have computed something from the input by then, in their order.
    inside: whether it is turned on in another function, which the last statement runs.
    """

    level: Level
    body: Body
    name: str
    output: str
    use: Place
    turned: Place
    repeats: Sequence[ast.stmt]
    inside: bool


def enabled_late(case: Unused) -> Finding | None:
    """Name the statement that used the input, and the one that turned its gradient on too late."""
    late = next(_late(case, case.tensors[0]), None)
    if late is None:
        return None
    others = [next(_late(case, each), None) for each in case.tensors[1:]]
    beside = [each.name for each in others if each is not None and each.turned == late.turned]
    if len(beside) < len(others):
        return None
    names, one = listed(case.names), not beside
    between = [name for each in late.repeats for name in sorted(bound(each)) if name != late.output]
    first = next((name for name in between if name in ancestors(late.body, late.output, late.level.line)), "")
    uses_it = f"uses {names if beside else late.name}, without a gradient at that moment."
    again = not _can_move(late)
    return explanation(
        f"{case.output} does not depend on {names}, which {'was' if one else 'were'} used before "
        f"{'its' if one else 'their'} gradient was turned on.",
        (
            shown(late.use, f"computes {first} from {late.name}, without a gradient." if again and first else uses_it),
            shown(late.turned, "turns it on, which does not change what was computed before."),
            *(computed(case) if again and late.use != case.made else ()),
            case.asked,
        ),
        _fix(late, first, beside),
        source=late.turned,
    )


def _late(case: Unused, tensor: torch.Tensor) -> Iterator[Late]:
    inner: list[tuple[Level, str]] = []
    for level in case.failure.users:
        found = search([tensor], frames=(level.frame,)).names[0]
        paths = [each.path for each in found]
        name = next((path for path in paths if _is_plain(path)), "")
        if level.body is None or not paths:
            continue
        inner += [(level, path) for path in paths]
        output = level.receiver if level is case.failure.user else case.output
        used = ancestors(level.body, output, level.line).get(name) if output and name else None
        if used is None or output is None:
            continue
        use = used.read
        for one, called in inner:
            for turned in enabling(one.body, called) if one.body else ():
                here = one is level
                after = use.line < turned.line <= level.line if here else use.line <= level.line
                if after and turned.line <= one.line:
                    until = turned.line if here else level.line
                    repeats = computed_from(level.body, name, use.line, until, output, level.line)
                    yield Late(level, level.body, name, output, use, turned, repeats, inside=not here)


def _is_plain(path: str) -> bool:
    """Whether a path is a name or a chain of attributes."""
    return all(part.isidentifier() for part in path.split("."))


def enabling(body: Body, name: str) -> Iterator[Place]:
    """The statements that turn on the gradient of a variable, or of each element of the list or tuple that has it."""
    container = name.partition("[")[0]
    every = list(statements(body.node))
    loops = [each for each in every if isinstance(each, ast.For)]
    loops += [each for one in every for node in expressions(one) for each in getattr(node, "generators", ())]
    names = {
        name,
        *(dotted(each.target) or "" for each in loops if container != name and dotted(each.iter) == container),
    }
    for each in every:
        if any(callee(c)[1] == "requires_grad_" and dotted(callee(c)[0]) in names for c in calls_in(each)) or (
            isinstance(each, ast.Assign)
            and any(
                isinstance(t, ast.Attribute) and t.attr == "requires_grad" and dotted(t.value) in names
                for t in each.targets
            )
        ):
            yield body.place(each)


def computed_from(body: Body, name: str, first: int, until: int, output: str, line: int) -> list[ast.stmt]:
    """The statements on the way to the output that were computed from a name between two lines."""
    names, found = {name}, list[ast.stmt]()
    leading = {output, *ancestors(body, output, line)}
    for each in statements(body.node):
        read = names_read(each)
        made = bound(each) & leading
        if first <= each.lineno < until and made and names & read:
            names |= made
            found.append(each)
    return found


def _can_move(late: Late) -> bool:
    """Whether it is enough to turn it on earlier: in the same block, with no backward in between."""
    arms = {spot.node.lineno: spot.arms for spot in spots(late.body.node)}
    last = late.level.line if late.inside else late.turned.line
    between = (each for each in statements(late.body.node) if late.use.line < each.lineno < late.level.line)
    return arms.get(last) == arms.get(late.use.line) and not any(
        callee(call)[1] in ("backward", "grad") for each in between for call in calls_in(each)
    )


def _fix(late: Late, first: str, beside: Sequence[str]) -> str:
    """Turn it on earlier; else compute anew what was computed by then."""
    turning, line = "; ".join(f"{each}.requires_grad_()" for each in (late.name, *beside)), late.turned.line
    if _can_move(late) or not late.repeats:
        if late.inside:
            return f"{sentence(put_at(turning, 'above', late.use))}: on line {line} it is too late."
        above = f"above line {late.use.line}{move(late.turned, 'above', late.use)}"
        return f"Move line {line}, `{late.turned.text}`, {above}."
    again = "; ".join(_part(late, each) for each in late.repeats)
    if late.inside:
        both = f"{turning}; {again}"
        there = put(both, "above", late.level.place)
        return f"Above line {late.level.line}, put `{both}`{there}: on line {line} it is too late."
    return f"Compute {first or late.output} again after that: {put_at(again, 'below', late.turned)}."


def _part(late: Late, statement: ast.stmt) -> str:
    """The statement as text."""
    return ast.unparse(statement) if statement.end_lineno != statement.lineno else late.body.text(statement)


# What an entry or an attribute is turned on for was computed from it by a function that has returned.


def entry_enabled_late(case: Unused) -> Finding | None:
    """Name the statement that computed another entry, or attribute, from the input before its gradient was turned on:
    `data["shift"] = data["pos"] - center`."""
    for level in case.failure.users if len(case.tensors) == 1 else ():
        for statement in statements(level.body):
            receivers = (callee(each)[0] for each in calls_in(statement) if callee(each)[1] == "requires_grad_")
            own = next((each for each in receivers if value_of(level, each) is case.tensors[0]), None)
            if level.body is None or own is None or _key(own) is None or statement.lineno > level.line:
                continue
            early = only(_computed_from_entry(level, str(_key(own))))
            holder = value_of(level, getattr(own, "value", None))
            held = holder if type(holder) is dict else namespace(holder) or {}
            other = held.get(early[1]) if early is not None else None
            if early is None or not is_tensor(other) or not other.is_floating_point() or needs_gradient(other):
                return None
            first, _, place, at, turning = early
            turned, asking = level.body.place(statement), put_at(f"{turning}.requires_grad_()", "above", at)
            return explanation(
                f"{case.output} does not depend on {case.name}: {first} was computed from it before its gradient was "
                "turned on.",
                (
                    shown(place, f"computes {first} from it, without a gradient."),
                    shown(turned, "turns it on, which does not change what was computed before."),
                    case.asked,
                ),
                f"{sentence(asking)}: on line {turned.line} it is too late.",
                source=turned,
            )
    return None


def _key(node: ast.AST | None) -> str | None:
    """The entry or the attribute that an expression reads or assigns."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))) | ast.Attribute(attr=key):
            return key
    return None


def _computed_from_entry(level: Level, key: str) -> Iterator[tuple[str, str, Place, Place, str]]:
    """For each function that computes entries from one: the first, its key and place, and where it reads that one."""
    for body in functions(level.place.file):
        own, reads = set[str](), list[tuple[Place, str]]()
        for each in statements(body.node):
            value = getattr(each, "value", None)
            read = next((n for n in expressions(value) if _key(n) == key and not _is_called(n, value)), None)
            if read is not None:
                reads.append((body.place(each), body.text(read)))
            named = names_read(value) & own
            target = each.targets[0] if isinstance(each, ast.Assign) and (read is not None or named) else None
            if isinstance(target, ast.Name):
                own.add(target.id)
            elif target is not None and _key(target) not in (None, key) and reads:
                yield body.text(target), str(_key(target)), body.place(each), *reads[0]
                break


def _is_called(node: ast.expr, value: ast.AST | None) -> bool:
    """Whether an attribute is what a call runs, `.pos()`."""
    return any(each.func is node for each in ast.walk(value) if isinstance(each, ast.Call)) if value else False


# The output was computed before a loop, from a value of a variable that each iteration replaces.


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
        if leads and base in names_read(each):
            return None
    early = computed_from(body, base, read.read.line, facts.loop.line, level.receiver or case.output, level.line)
    if not early:
        return None
    first = next(iter(sorted(bound(early[0]))))
    lines = [str(each.lineno) for each in early]
    top = min(each.lineno for each in statements(body.node) if each.lineno > facts.loop.line)
    what = f"line {lines[0]}, `{body.place(early[0]).text}`," if len(early) == 1 else f"lines {listed(lines)}"
    inside_it = move([body.place(each) for each in early], "above", *lines_of(body.file, top))
    return explanation(
        f"{case.output} does not depend on {case.name}: {first} was computed before the loop, from an earlier {base}.",
        (
            shown(body.place(early[0]), f"computes {first} from {base}, once, before the loop."),
            shown(facts.carried[base][1], f"replaces {base} in each iteration; {first} stays as it was."),
            case.asked,
        ),
        f"Move {what} into the loop, above line {top}{inside_it}, so that {first} is computed from each new {base}.",
        source=body.place(early[0]),
    )


# The variable holds another tensor now than when the output was computed.


def replaced(case: Unused) -> Finding | None:
    """Name the statement that has read the earlier tensor, and the one that replaced it."""
    for level in case.failure.users:
        names = [each for each, value in level.variables.items() if value is case.tensors[0]]
        body, name = level.body, names[0] if len(names) == 1 else ""
        every = [each for each in spots(body) if each.node.lineno < level.line]
        same = {each.line for each in enabling(body, name)} if body is not None else set()
        kept = [each for each in every if name in bound(each.node) and each.node.lineno not in same]
        made = kept[-1] if kept else None
        if body is None or made is None:
            continue
        read = _read_by_output(case, level, body, every, made, name) or _read_alone(
            case, level, body, every, made, name
        )
        if read is not None:
            reads, makes = body.place(read.node), body.place(made.node)
            does = f"computes {value}" if (value := next(iter(sorted(bound(read.node))), "")) else "computes"
            return explanation(
                f"{name} is not the tensor that {case.output} was computed from.",
                (
                    shown(reads, f"{does} from the {name} of that moment."),
                    shown(makes, f"assigns a new tensor to {name}."),
                    case.asked,
                ),
                _moved(every, read, made, name, makes)
                or f"Give the new tensor another name, or create it before {case.output} is computed.",
                source=makes,
            )
    return None


def _read_by_output(
    case: Unused, level: Level, body: Body, every: Sequence[Spot], made: Spot, name: str
) -> Spot | None:
    """The statement by which the output is computed from it, as the text shows, if that stands above."""
    ancestor = case.ancestors.get(name) if level is case.failure.user else None
    if ancestor is None or body.place(made.node) in ancestor.bound:
        return None
    return next((each for each in every[: every.index(made)] if body.place(each.node) == ancestor.read), None)


def _read_alone(case: Unused, level: Level, body: Body, every: Sequence[Spot], made: Spot, name: str) -> Spot | None:
    """The first statement of the same block that computes something from the earlier tensor, where none reads the new
    one before its gradient is asked for: whatever the output is computed from, it is not this."""
    held = any(value is root for value in level.variables.values() for root in case.failure.roots)
    new = any(callee(each)[1] in _NEW for each in calls_in(made.node))
    others = (each for each in functions(body.file) if isinstance(body.node, ast.Module) and each.node is not body.node)
    inner = name in level.frame.f_code.co_cellvars or any(name in _reading(each) for each in others)
    at = every.index(made)
    if not held or not new or inner or any(Use(name, False) in uses(each.node) for each in every[at + 1 :]):
        return None
    later = {use.name for each in every[at + 1 :] for use in uses(each.node) if not use.binds}
    before = [each for each in every[:at] if each.arms == made.arms and name not in bound(each.node)]
    since = max((k for k, each in enumerate(every[:at]) if name in bound(each.node)), default=-1)
    reading = (each for each in before if every.index(each) > since and Use(name, False) in uses(each.node))
    return next((each for each in reading if bound(each.node) & later), None)


_NEW = frozenset({"clone", "detach", "tensor", "Variable"})
"""The calls that never return the tensor that they are given."""


def _reading(body: Body) -> set[str]:
    return {use.name for each in spots(body.node) for use in uses(each.node) if not use.binds}


def _moved(every: Sequence[Spot], read: Spot, made: Spot, name: str, makes: Place) -> str:
    """To create it above the statement that has read the earlier one, where nothing between gives it what it needs."""
    between = every[every.index(read) : every.index(made)]
    needed = names_read(made.node)
    if read.arms != made.arms or any((needed | {name}) & bound(each.node) for each in between):
        return ""
    above = f"above line {read.node.lineno}{move(makes, 'above', *lines_of(makes.file, read.node.lineno))}"
    return f"Move line {makes.line}, `{makes.text}`, {above}."
