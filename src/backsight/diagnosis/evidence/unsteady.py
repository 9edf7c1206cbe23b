"""What in a function may come out differently when it runs a second time."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from backsight.diagnosis.wording import listed
from backsight.naming.plain import class_dict, class_name, is_class, mro, namespace
from backsight.source import Body, Place, function_at, statement_at
from backsight.source.bindings import are_alternatives, bound, declared, names_read, parameters_of, spots, targets, uses
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.definitions import FILLING, values_of
from backsight.source.edits import OR, on_line, without_marks
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import is_users, method
from backsight.story.fixes import every_time
from backsight.story.memory import is_tensor, maker_of, needs_gradient
from backsight.story.sections import Section

_DRAWING_MODULES = frozenset({"random", "numpy.random", "secrets", "uuid"})
_DRAWING_CLASSES = frozenset({"Random", "SystemRandom", "RandomState", "Generator"})
_CLOCKS = frozenset({"time", "datetime"})
_MODULE_OF: Any = type.__dict__["__module__"]  # past any metaclass


@dataclass(frozen=True)
class Unsteady:
    """A statement whose effect changes from run to run, why, and what to do; `within`: the statement in the function
    that it has an effect on, where it is another; `counted`: the statement that may as well run outside, once; `kept`:
    what is written in its place, if that has to be computed inside; `also`: further statements of the kind, and
    why; `filled`: the parameter that holds the container into which the run writes; `read`: the expression at `place`
    of which both runs get the same value as an argument."""

    place: Place
    why: str
    fix: str
    within: Place | None = None
    counted: str = ""
    kept: str = ""
    also: tuple[tuple[Place, str], ...] = ()
    filled: str = ""
    read: str = ""


def unsteady(
    sections: Iterable[Section], around: Sequence[Body] = (), meanwhile: Iterable[Unsteady] = ()
) -> Iterator[Unsteady]:
    """Yield what may differ from run to run, the surest first; `around` are the functions that run it, `meanwhile` is
    what they are sure to change in between."""
    every = list(sections)
    yield from _draws(every)
    for section in every:
        yield from _advances(section)
    yield from meanwhile
    for section in every:
        yield from _buffers(section, every)
        yield from _counts(section)
    yield from _handed(every[:1])
    for section in every:
        yield from _switches(section, around)
    for section in every:
        yield from _outside(section, around)
        yield from _stores(section)


def draws(sections: Iterable[Section]) -> tuple[str, Place] | None:
    """What draws random numbers of PyTorch in a function, as it is written, and where; None if nothing is seen to."""
    for section in sections:
        for call, place in section.calls():
            name = callee(call)[1]
            module = section.value(dotted(call.func) or "")
            active = "Dropout" in type(module).__name__ and (namespace(module) or {}).get("training") is True
            if active or name.rstrip("_") in _DRAWING:
                return section.body.text(call), place
    return None


_DRAWING = frozenset(
    ("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli")
) | {
    *("multinomial", "normal", "uniform", "exponential", "poisson", "gumbel_softmax"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"),
}


def decided(file: str, line: int) -> Unsteady | None:
    """The condition on which a line runs that ran the first time only."""
    body = body_around(file, line)
    spot = next((each for each in spots(body.node) if each.node.lineno == line), None) if body else None
    around = next(iter(spot.around(ast.If)[::-1]), None) if spot else None
    if body is None or around is None:
        return None
    read = names_read(around.test)
    called = {name for call in calls_in(around) if (name := dotted(call.func)) is not None and "." not in name}
    names = [name for name in read if name not in called and not any(other.startswith(f"{name}.") for other in read)]
    what = listed(names, 3) or "what decides it"
    return Unsteady(
        body.place(around),
        "took the other branch in the second run.",
        f"Change {what} only after backward(), or pass it to checkpoint as an argument.",
    )


class _Draw(NamedTuple):
    """A call that draws what checkpoint does not restore, and what draws it of PyTorch's own generator, if known."""

    section: Section
    call: ast.Call
    place: Place
    why: str
    new: str
    is_own: bool

    @property
    def text(self) -> str:
        return self.section.body.text(self.call)


def _draws(sections: Sequence[Section]) -> Iterator[Unsteady]:
    """Random numbers that PyTorch's checkpoint does not restore, all at once, and clocks."""
    found, seen = list[_Draw](), set[ast.Call]()
    for section in sections:
        for call, place in section.calls():
            source, text = _origin(section, call), section.body.text(call)
            if call in seen:
                continue
            seen.add(call)
            if (given := keyword(call, "generator")) is not None and section.body.text(given) != "None":
                without = text.replace(f", generator={section.body.text(given)}", "", 1)
                why = (
                    f"{text} draws different numbers in the second run, from a generator whose state checkpoint does "
                    "not restore."
                )
                found.append(_Draw(section, call, place, why, without if without != text else "", True))
            elif source in _CLOCKS:
                yield Unsteady(
                    place, f"{text} reads the clock.", f"Read the clock before the checkpoint and {_HAND_IN}."
                )
            elif source:
                why = f"{text} draws a different number in the second run."
                found.append(_Draw(section, call, place, why, _in_torch(section, call, source), False))
    if found:
        first, *others = found
        yield Unsteady(first.place, first.why, _drawn_again(found), also=tuple((e.place, e.why) for e in others))


def _drawn_again(draws: Sequence[_Draw]) -> str:
    """How all are drawn of what checkpoint restores: one that stays draws others, mostly without an error."""
    by_line: dict[Place, list[_Draw]] = {}
    for each in draws:
        by_line.setdefault(each.place, []).append(each)
    lines, whole = list[str](), True
    for place, here in by_line.items():
        body, statement = here[0].section.body, statement_at(here[0].section.body, *place.position)
        known = statement is not None and all(each.new for each in here)
        changes = dict(_changes(each, statement) for each in here) if known and statement else {}
        new = rewritten(body, statement, changes) if changes and statement else ""
        lines += [on_line(place, new)] if new else [_instead(each) for each in here]
        whole &= bool(new)
    if len(draws) > 1:
        values, why = "the values as arguments", " One that stays draws other numbers for backward, without an error."
    else:
        values, why = "the value as an argument", ""
    what = "from PyTorch's own generator, which checkpoint restores" if draws[0].is_own else _RESTORED
    how = "; ".join(each for each in lines if each)
    draw = f"raw {what}{f': {how}' if how else ''}."
    before = f"raw before the checkpoint and pass {values}."
    if whole or len(draws) == 1:
        return f"D{draw} {OR}Or d{before}{why}"
    return f"D{before} Or d{without_marks(draw)}{why}"


def _changes(draw: _Draw, statement: ast.stmt) -> tuple[ast.expr, str]:
    """What takes the place of a draw: of all of `int(rng.integers(9))`, where that is around it."""
    whole = (each for each in calls_in(statement) if callee(each) == (None, "int") and each.args == [draw.call])
    return next(whole, draw.call) if draw.new.startswith("int(") else draw.call, draw.new


_RESTORED = "with PyTorch, whose random state checkpoint restores for the second run"


def _instead(draw: _Draw) -> str:
    if draw.is_own:
        return ""
    name, given = callee(draw.call)[1], "..." if draw.call.args or draw.call.keywords else "()"
    kind = "randint" if name in _INTEGERS else "randn" if name in _NORMAL else "rand"
    return f"torch.{kind}({given}) instead of {draw.text}"


_HAND_IN = "pass the value as an argument"
_INTEGERS = ("randint", "randrange", "integers", "choice", "choices", "sample")
_NORMAL = ("gauss", "normalvariate", "normal", "randn")


def _in_torch(section: Section, call: ast.Call, source: str) -> str:
    """The same draw of PyTorch's own generator, of the same type where it is an integer."""
    name, size, given = callee(call)[1], keyword(call, "size"), [section.body.text(each) for each in call.args]
    if name not in ("randint", "randrange", "integers"):
        if given or call.keywords or name in _INTEGERS:
            return ""
        return "torch.randn(())" if name in _NORMAL else "torch.rand(())"
    if len(call.keywords) > (size is not None) or not 0 < len(given) < 3:
        return ""
    if name == "randint" and source in ("random", "Random", "SystemRandom"):  # which has the upper end, too
        last = call.args[-1]
        is_number = isinstance(last, ast.Constant) and isinstance(last.value, int)
        given[-1] = str(int(given[-1]) + 1) if is_number else f"{given[-1]} + 1"
    if size is None:
        return f"int(torch.randint({', '.join(given)}, ()))"
    shape = section.body.text(size)
    if not isinstance(size, ast.Tuple):
        if not _is_number(section, size):
            return ""
        shape = f"({shape},)"
    return f"torch.randint({', '.join(given)}, {shape}).numpy()"


def _is_number(section: Section, size: ast.expr) -> bool:
    """Whether an expression is surely one number: `3`, `len(x)`, or a variable that has it from such a one."""
    if isinstance(size, ast.Name):
        values = values_of(section.body, size.id, size.lineno)
        return bool(values) and all(not isinstance(each, ast.Name) and _is_number(section, each) for each in values)
    if isinstance(size, ast.Call):
        drawn = callee(size)[1] in ("randint", "randrange", "integers") and not size.keywords and len(size.args) < 3
        return drawn or callee(size) in ((None, "int"), (None, "len"))
    return isinstance(size, ast.Constant) and type(size.value) is int


def _origin(section: Section, call: ast.Call) -> str:
    """The module or class of random numbers, or clock, that a call asks; empty if it asks none."""
    receiver, name = callee(call)[0], dotted(call.func)
    path = dotted(receiver) if receiver is not None else None
    holder = section.value(path) if path else getattr(section.value(name), "__self__", None) if name else None
    if issubclass(type(holder), ModuleType):
        module = (namespace(holder) or {}).get("__name__")
        return module if type(module) is str and module in _DRAWING_MODULES | _CLOCKS else ""
    kind = type(holder)
    origin = _MODULE_OF.__get__(kind)
    drawing = type(origin) is str and origin.partition(".")[0] in ("random", "numpy")
    return class_name(kind) if drawing and class_name(kind) in _DRAWING_CLASSES else ""


def _advances(section: Section) -> Iterator[Unsteady]:
    """Iterators that a run takes an item from, and containers that it takes one out of."""
    for call, place in section.calls():
        receiver, method_called = callee(call)
        taken = call.args[0] if receiver is None and method_called == "next" and call.args else None
        taken = receiver if method_called in ("__next__", *_TAKING) else taken
        held = value_of(section, taken)
        kinds = [class_dict(each) for each in mro(type(held))]
        wanted = "pop" if method_called in _TAKING else "__next__"
        name = dotted(taken) or ""
        if (
            held is None
            or not any(wanted in each for each in kinds)
            or name.partition(".")[0] in section.own - {"self"}
        ):
            continue
        text = section.body.text(call)
        yield Unsteady(
            place,
            f"takes an item from {name}, so the second run gets another one.",
            f"Take the item before checkpoint runs: move `{text}` out of the checkpointed function, and pass what it "
            "gives to checkpoint as an argument. Both runs then get the same.",
        )


_TAKING = ("pop", "popleft", "popitem")


def _counts(section: Section) -> Iterator[Unsteady]:
    """Attributes and globals that a run changes, and reads."""
    every = list(statements(section.body.node))
    read = names_read(*every)
    outer = declared(section.body.node)
    for each in every:
        changed = {name for name in bound(each) if name.startswith("self.") or name in outer}
        for target, _, _ in targets(each):
            if isinstance(target, ast.Subscript):
                changed |= {dotted(target.value) or ""} - section.own
        calls = calls_in(each) if isinstance(each, ast.Expr) else ()
        filled = {dotted(callee(call)[0]) or "" for call in calls if callee(call)[1] in FILLING}
        elsewhere = {use.name for other in every if other is not each for use in uses(other)}
        changed |= {name for name in filled & elsewhere if name.startswith("self.") or name not in section.own - outer}
        if isinstance(each, ast.AugAssign):
            changed -= {name for name in changed if is_tensor(section.value(name))}  # is told by _buffers
        for name in sorted(changed & read):
            yield Unsteady(
                section.body.place(each),
                _done_already(section, each) or f"changes {name}, so the second run reads a different value.",
                _each_time(section, each, name)
                or f"Change {name} outside the checkpointed function, or pass its value to checkpoint as an argument.",
                counted=section.body.text(each) if isinstance(each, ast.AugAssign) else "",
            )


def _handed(outermost: Sequence[Section]) -> Iterator[Unsteady]:
    """Dicts and lists that the function is given, reads, and writes into: `cache["k"] = k`."""
    for section in outermost:
        every, given = list(statements(section.body.node)), parameters_of(section.body.node) - {"self"}
        for each in every:
            entries = [target for target, _, _ in targets(each) if isinstance(target, ast.Subscript)]
            keyed = {dotted(target.value) or "" for target in entries if _is_text(target.slice)}
            calls = calls_in(each) if isinstance(each, ast.Expr) else ()
            filled = {dotted(callee(call)[0]) or "" for call in calls if callee(call)[1] in FILLING}
            anew = {name for other in every for name in bound(other)}
            others = [other for other in every if other is not each]
            for name in sorted((keyed | filled) & given - anew):
                read = [other for other in others if name in names_read(other) and not _only_fills(other, name)]
                if read:
                    first = section.body.place(read[0])
                    yield Unsteady(
                        section.body.place(each),
                        f"writes into {name}, so the second run reads at line {first.line} what the first has left.",
                        f"Let both runs read the same: write into {name} outside the checkpointed function, from what "
                        "that returns. Or do not checkpoint what fills it.",
                        filled=name,
                    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _only_fills(statement: ast.stmt, name: str) -> bool:
    """Whether a statement has a container only to write into it."""
    stored = [target.value for target, _, _ in targets(statement) if isinstance(target, ast.Subscript)]
    stored += [node for call in calls_in(statement) if callee(call)[1] in FILLING and (node := callee(call)[0])]
    read = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == name]
    return all(any(node is each for each in stored) for node in read)


def _buffers(section: Section, every: Sequence[Section]) -> Iterator[Unsteady]:
    """Tensors of a module's own that are changed in place and read elsewhere, if overwritten, before."""
    for each in statements(section.body.node):
        name, calls = _changed_in_place(each)
        value = section.value(name) if name.startswith("self.") else None
        if not is_tensor(value):
            continue
        place, own = section.body.place(each), section.value("self")
        overwrites = bool(calls) and callee(calls[-1])[1] in ("copy_", "zero_", "fill_")
        reading = (
            (other, node)
            for other in every
            if other is section or other.value("self") is own
            for node in statements(other.body.node)
            if node is not each and name in names_read(node)
        )
        if not any(
            other is not section
            or (
                (node.lineno < each.lineno or not overwrites)
                and not are_alternatives(section.body, place, section.body.place(node))
            )
            for other, node in reading
        ):
            continue
        plain = len(calls) == 1 and len(calls[0].args) == 1 and not calls[0].keywords
        operand = each.value if isinstance(each, ast.AugAssign) else calls[0].args[0] if plain else None
        text = section.body.text(operand) if operand is not None else "…"
        later = f"{name}_due"
        changed = rewritten(section.body, each, {operand: later}) if operand is not None else ""
        alone = isinstance(each, ast.AugAssign) and names_read(each.value).isdisjoint(section.own - {"self"})
        whole = "…" not in text and not needs_gradient(value) and not alone
        yield Unsteady(
            place,
            f"changes {name} in place, so the second run reads a different value.",
            f"Change {name} only after backward(), outside the checkpointed function.",
            counted=section.body.text(each) if alone else changed if whole else "",
            kept=f"{later} = {text}" if whole and changed else "",
        )


def _changed_in_place(statement: ast.stmt) -> tuple[str, list[ast.Call]]:
    """The name of what a statement changes in place, with the calls that do, the last first; empty for another."""
    target = statement.target if isinstance(statement, ast.AugAssign) else getattr(statement, "value", None)
    calls = list[ast.Call]()
    while isinstance(statement, ast.Expr) and isinstance(target, ast.Call):
        calls.append(target)
        target, called = callee(target)
        if not called.endswith("_") or called.endswith("__"):
            return "", []
    return (dotted(target) or "" if calls or isinstance(statement, ast.AugAssign) else ""), calls


def _each_time(section: Section, statement: ast.stmt, name: str) -> str:
    """How both runs compute what a condition keeps: filled before, it would keep the graph of its step. Or empty."""
    every = every_time(section.body, statement, name)
    why = ", as what it keeps has a graph, which serves one backward" if _has_graph(section.value(name)) else ""
    kept = section.body.text(statement.targets[0]) if isinstance(statement, ast.Assign) else name
    return f"Compute {kept} in every run{why}: {every}." if every else ""


def _has_graph(value: object) -> bool:
    """Whether a value, or one in a dict, is a tensor with a graph."""
    values = [*dict.values(value)] if type(value) is dict else [value]
    return any(is_tensor(each) and maker_of(each) is not None for each in values)


def _done_already(section: Section, statement: ast.stmt) -> str:
    """What keeps a statement from running again: `if self.cache is None:` around it, and what sets that."""
    around = spots(section.body.node)
    arms = next((each.arms for each in around if each.node is statement), ())
    condition = next((each for each, label in reversed(arms) if isinstance(each, ast.If) and label == "body"), None)
    read = names_read(condition.test) if condition else set()
    for each in around:
        name = next((name for name in sorted(bound(each.node) & read) if name.startswith("self.")), None)
        if condition is not None and name is not None and any(arm is condition for arm, _ in each.arms):
            who = "it" if each.node is statement else f"line {each.node.lineno}"
            return f"runs in the first run only: {who} sets {name}, which line {condition.lineno} tests."
    return ""


def _stores(section: Section) -> Iterator[Unsteady]:
    """Objects that the function is given and fills: a cache, whose class is the only one with such a method."""
    every = [each for each in section.globals.values() if is_class(each)]
    classes = [each for each in every if is_users(each)]
    given = parameters_of(section.body.node)
    for call, place in section.calls():
        receiver, name = callee(call)
        held = dotted(receiver)
        owners = [each for each in classes if method(each, name) is not None]
        if held == "self" or held not in given or len(owners) != 1:
            continue
        body = function_at(method(owners[0], name).__code__)
        own = Section(body, (), {}, section.globals) if body is not None else None
        changed = next(_counts(own), None) if own is not None else None
        if changed is not None:
            yield Unsteady(
                place,
                f"changes {held}, so the second run starts from what the first has put there ({changed.place}).",
                f"Pass None for {held} while the model trains with checkpoints, or do not checkpoint what fills it: a "
                "cache is for inference.",
            )


def _outside(section: Section, around: Sequence[Body]) -> Iterator[Unsteady]:
    """Items of outer containers, and outer variables, that the code around changes."""
    for each in statements(section.body.node):
        for node in expressions(each):
            name = dotted(node.value) if isinstance(node, ast.Subscript) else dotted(node)
            if not name or name.split(".")[0] in section.own or not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            change = next((place for body in around if (place := _assigned_at(body, node, name, section))), None)
            if change is not None and type(section.value(name)) in _CHANGING:
                text = section.body.text(node)
                yield Unsteady(
                    section.body.place(each),
                    f"reads {text}, which line {change.line} changes between the two runs.",
                    f"Pass {text} to checkpoint as an argument: both runs get the same arguments.",
                    read=text,
                )


_CHANGING = (dict, list, int, float, bool, str)


def _assigned_at(body: Body, node: ast.expr, name: str, section: Section) -> Place | None:
    """The last statement of a function that assigns to the same item, or again to the same variable."""
    found, every = None, spots(body.node)
    given = [each for each in every if name in bound(each.node)]
    if not isinstance(node, ast.Subscript) and given:
        around = isinstance(body.node, ast.Module) or any(each is section.body.node for each in ast.walk(body.node))
        again = len(given) > 1 or bool(given[0].around(ast.For, ast.While))
        if name not in declared(body.node) and not (around and again):
            return None  # a variable of its own, or what is assigned once
    for each in statements(body.node):
        for target, _, _ in targets(each):
            is_item = isinstance(target, ast.Subscript) and dotted(target.value) == name
            if is_item if isinstance(node, ast.Subscript) else dotted(target) == name:
                found = body.place(each)
    return found


def _switches(section: Section, around: Sequence[Body]) -> Iterator[Unsteady]:
    """Conditions on what may be switched between forward and backward: `self.training`, if anything switches modes."""
    called = (callee(call) for body in around for each in statements(body.node) for call in calls_in(each))
    switched = any(receiver is not None and name in ("train", "eval") for receiver, name in called)
    for each in statements(section.body.node):
        if not isinstance(each, ast.If | ast.While):
            continue
        for node in expressions(each):
            name = dotted(node) or (dotted(node.func) if isinstance(node, ast.Call) else "") or ""
            stays = name.endswith(".training") and section.value(name) is True and not switched
            if name.endswith((".training", "is_grad_enabled")) and not stays:
                yield Unsteady(
                    section.body.place(each),
                    f"reads {name}, which changed between forward and backward.",
                    "Call backward before you switch the model between train() and eval().",
                )
                break
