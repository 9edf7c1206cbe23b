"""The `.grad` that a statement reads: of which tensor, and where that tensor was made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.evidence.idle import parameter_at, trainable
from backsight.naming import search
from backsight.naming.frames import is_function
from backsight.snapshot import survey
from backsight.source import Body, LoopFacts, Place, assignments, loop_facts, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import assigned, names_read, reads, target_names
from backsight.source.body import LOOPS, callee, calls_in, dotted, expressions, keyword
from backsight.source.imports import library
from backsight.source.leaf_last import asks_for_gradient, element_last, leaf_last
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.holders import found_around
from backsight.story.memory import gradient_of, is_module, is_tensor, maker_of
from backsight.story.sections import methods_of
from backsight.tape import modules_in
from backsight.tracing import current


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor that a statement of the user's has to do with; `text` is what the statement calls it, `p`."""

    failure: Failure
    level: Level
    text: str
    tensor: torch.Tensor

    @cached_property
    def name(self) -> str:
        """What the program calls the tensor, `model.head.weight`; looked for only when it is asked for."""
        return _name(self.failure, self.level, self.text, self.tensor)

    @property
    def is_result(self) -> bool:
        """Whether the tensor was computed, so that backward leaves no gradient in it."""
        return maker_of(self.tensor) is not None


@dataclass(frozen=True, eq=False)
class Read(Held):
    """A gradient that a statement reads, and that is None.

    place: the statement that reads `.grad`, mostly the one that failed.
    """

    place: Place


@dataclass(frozen=True)
class Made:
    """Where a variable was given its value; `rewritten`: the same so that it makes a leaf, where that is plain; `name`:
    what the variable is called there, where that is known; `leaf`: what made the leaf that the name stood for before,
    and which nothing else holds; `passed`: whether the statement only gives another name to it."""

    place: Place
    rewritten: str | None
    name: str = ""
    leaf: Place | None = None
    passed: bool = False


def gradient_read(failure: Failure) -> Read | None:
    """The first gradient that is None of those that the innermost statement of the user's reads."""
    return next((read for level in failure.users[:2] for read in _reads(failure, level)), None)


def made(held: Held) -> Made | None:
    """Where the tensor was made, as far as the functions that still run show it, and its class's methods: where it was
    computed, if its gradient is read, else where it got the name."""
    if (again := _made_in_loop(held)) is not None:
        return again
    passed = None
    here = held.level.body
    queue = [(body, name, held.level.line if body is here else None) for body, name in _candidates(held)]
    while queue:
        body, name, before = queue.pop(0)
        for place in reversed(assignments(body, name, before=before)):
            statement = statement_at(body, *place.position)
            if statement is not None and _may_make(statement, name, held.is_result):
                rewritten = leaf_last(body, name, place.line) or element_last(statement)
                if rewritten is None and held.is_result and asks_for_gradient(statement):
                    continue  # it makes a leaf
                if isinstance(held, Read) and (other := _passed(statement, name)):
                    passed = passed or Made(place, None, name, passed=True)
                    queue.insert(0, (body, other, place.line))
                    break
                leaf = _lost_leaf(held, body, name, place) if isinstance(held, Read) else None
                cut = _cut_to_leaf(body, name, statement) if leaf is not None else None
                return Made(place, rewritten or updated_by_hand(body, name, statement) or cut, name, leaf)
    if passed is not None:
        return passed
    failing = held.level.statement
    updated = updated_by_hand(here, held.text, failing) if here and failing else None
    return Made(held.level.place, updated) if updated else None


def _passed(statement: ast.stmt, name: str) -> str:
    """The other name that an assignment passes on, `image` of `self.image = image`."""
    given = dotted(_given(statement, name)) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    return given if given and given != name else ""


def _lost_leaf(held: Held, body: Body, name: str, place: Place) -> Place | None:
    """What made the leaf that the name stood for before `x = x.float()`, if the result comes from it alone."""
    statement, before = statement_at(body, *place.position), assignments(body, name, before=place.line)
    first = statement_at(body, *before[-1].position) if before else None
    renews = reads(statement, name)
    if not held.is_result or first is None or not renews or not asks_for_gradient(first):
        return None
    leaves = survey((held.tensor,), frames=held.failure.frames).graph.leaves
    alone = len(leaves) == 1 and leaves[0].kind not in ("parameter", "variable")
    return before[-1] if alone else None


def _cut_to_leaf(body: Body, name: str, statement: ast.stmt) -> str | None:
    """An assignment of a result, so that it leaves a leaf."""
    value = _value_of(body, name, statement)
    return _as_leaf(name, value) if value else None


def updated_by_hand(body: Body, name: str, statement: ast.stmt) -> str | None:
    """The statement of an update, `w = w - lr * w.grad`, so that it leaves a leaf; None for any other."""
    value = _value_of(body, name, statement)
    by_gradient = any(body.text(node) == f"{name}.grad" for node in expressions(statement))
    return _as_leaf(name, value) if value and by_gradient else None


def _value_of(body: Body, name: str, statement: ast.stmt) -> str:
    """What a statement gives a variable, as it is written; empty where that is shortened."""
    given = next((value for target, value in assigned(statement) if body.text(target) == name), None)
    text = body.text(given) if given is not None else ""
    return "" if text.endswith("…") else text


def _as_leaf(name: str, value: str) -> str:
    return f"{name} = {simple(value)}.detach().requires_grad_()"


def _made_in_loop(held: Held) -> Made | None:
    """The statement of the loop that gave a result the name which stood for a leaf before: `x = x + step * x.grad`."""
    body = held.level.body
    facts = loop_facts(body, held.level.line)
    if body is None or facts is None or held.text not in facts.carried or not held.is_result:
        return None
    before = assignments(body, held.text, before=facts.loop.line)
    first = statement_at(body, *before[-1].position) if before else None
    place = facts.carried[held.text][1]
    again = statement_at(body, *place.position)
    if first is None or not isinstance(again, ast.Assign):
        return None
    asked = asks_for_gradient(first) and not leaf_last(body, held.text, first.lineno)
    if not asked and not _is_seen_made(held, place, before[-1]) and not _has_gone_round(held, facts):
        return None
    if not asked and held.text not in _comes_from(body, again):
        return Made(place, None)
    return Made(place, _as_leaf(held.text, _value_of(body, held.text, again) or held.text))


def _comes_from(body: Body, statement: ast.Assign) -> set[str]:
    """The names that an assigned value may come from, the statement's own and those before it."""
    read = {*names_read(statement)}
    return read.union(*(ancestors(body, name, statement.lineno) for name in read))


def _is_seen_made(held: Held, place: Place, other: Place) -> bool:
    """Whether a watch has seen one place make the tensor, itself or in a function that it calls, and not the other."""
    watch, body = current(), held.level.body
    line = watch.line_of(survey((held.tensor,), frames=held.failure.frames).graph.roots[0]) if watch else None
    if line is None or body is None:
        return False
    if line.file == body.file:
        here = statement_at(body, line.line, line.column if line.column >= 0 else None)
        if here is statement_at(body, *place.position):
            return True
    function = line.function.rpartition(".")[2]
    return function in _called(body, place) and function not in _called(body, other)


def _called(body: Body, place: Place) -> set[str]:
    statement = statement_at(body, *place.position)
    return {callee(node)[1] for node in calls_in(statement)} if statement else set()


def _has_gone_round(held: Held, facts: LoopFacts) -> bool:
    """Whether the loop has got past the failing statement before: a name from below is there, or it counts."""
    body, level = held.level.body, held.level
    loop = statement_at(body, *facts.loop.position)
    if body is None or not isinstance(loop, LOOPS):
        return False
    if _counted(loop, level) and level.statement in loop.body:
        return not any(isinstance(each, ast.Continue) for each in ast.walk(loop))
    if not is_function(level.frame):  # a name of a module may have its value from another run of a cell
        return False
    code = level.frame.f_code
    given = {*code.co_freevars, *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
    for name in facts.assigned - given:
        places = assignments(body, name) if name in level.variables else ()
        if places and all(place.position >= level.place.position for place in places):
            return True
    return False


def _counted(loop: ast.stmt, level: Level) -> bool:
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_])):
            count = level.variables.get(name)
            return type(count) is int and count > 0
    return False


def _may_make(statement: ast.stmt, name: str, result: bool) -> bool:
    """Whether a statement may give a variable a tensor, for a result one with a graph: not `self.hidden = None`."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        given = _given(statement, name)
        return not isinstance(given, ast.Constant) and not (result and is_plain(given))
    return not isinstance(statement, ast.For | ast.FunctionDef)


def is_plain(value: ast.expr | None) -> bool:
    """Whether an expression makes a tensor of nothing that has a graph: `torch.zeros(3)`, `x.detach()`, of no list."""
    if not isinstance(value, ast.Call):
        return False
    receiver, name = callee(value)
    if name in ("detach", "new_zeros", "new_ones", "new_empty", "new_full"):
        return receiver is not None
    return bool(library(value.func)) and name in _FACTORIES and keyword(value, "requires_grad") is None


_FACTORIES = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "linspace", "eye", "tensor"}
    | {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "from_numpy"}
)


def _given(statement: ast.Assign | ast.AnnAssign, name: str) -> ast.expr | None:
    """What an assignment gives a variable: `None` of `self.layer, self.hidden = layer, None`."""
    return next((value for target, value in assigned(statement) if dotted(target) == name), statement.value)


def _candidates(held: Held) -> Iterator[tuple[Body, str]]:
    """The functions in which it may have been made, the one that names it first, and what it is called there."""
    users = held.failure.users
    for level in users:
        if level.body is None:
            continue
        known = [name for name in (held.text, held.name) if level.value(name) is held.tensor]
        for name in dict.fromkeys([*known, *(name for name, value in level.variables.items() if value is held.tensor)]):
            yield level.body, name
            owner, _, attribute = name.rpartition(".")
            if owner and level.value(owner) is not None:
                # What another method than `__init__` assigns, it has assigned since.
                methods = sorted(methods_of(type(level.value(owner))), key=lambda body: body.name == "__init__")
                yield from ((body, f"self.{attribute}") for body in methods)
    container = held.name.partition("[")[0]
    if container != held.name:
        yield from ((level.body, container) for level in users if level.body and level.value(container))


def _reads(failure: Failure, level: Level) -> Iterator[Read]:
    statement = level.statement
    if statement is None or level.body is None:
        return
    wanted = _MISSING.search(failure.message)
    for each in (statement, *_that_gave_none(level, statement)):
        for node in expressions(each):
            if _reads_gradient(node) and (each is not statement or wanted is None or _is_asked(each, node, wanted[1])):
                for tensor in _tensors(level, each, node.value):  # type: ignore[attr-defined]  # an attribute
                    if gradient_of(tensor) is None:
                        text = level.body.text(node.value)  # type: ignore[attr-defined]  # an attribute
                        yield Read(failure, level, text, tensor, level.body.place(each))


_MISSING = re.compile(r"'NoneType' object has no attribute '(\w+)'")


def _reads_gradient(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load)


def _is_asked(statement: ast.stmt, gradient: ast.expr, attribute: str) -> bool:
    """Whether it is this gradient that is asked for an attribute which None does not have."""
    return any(
        isinstance(node, ast.Attribute) and node.value is gradient and node.attr == attribute
        for node in expressions(statement)
    )


def _tensors(level: Level, statement: ast.stmt, node: ast.expr) -> list[torch.Tensor]:
    """What an expression stands for; of a comprehension's variable, whose frame is gone, all that it went through."""
    value = value_of(level, node)
    if is_tensor(value):
        return [value]
    loops = [g for each in expressions(statement) for g in getattr(each, "generators", ())]
    iterated = next((g.iter for g in loops if dotted(node) in target_names(g.target)), None)
    return list(_through(level, iterated)) if iterated is not None else []


def _through(level: Level, iterated: ast.expr) -> Iterator[torch.Tensor]:
    """The tensors of a list, or the parameters of a module: `model.named_parameters()`."""
    held = value_of(level, iterated)
    if type(held) is list or type(held) is tuple:
        yield from (each for each in held if is_tensor(each))
    if isinstance(iterated, ast.Call) and callee(iterated)[1] in ("parameters", "named_parameters"):
        module = value_of(level, callee(iterated)[0])
        found = (parameter_at(module, path) for path in trainable(module)) if is_module(module) else ()
        yield from (each for each in found if is_tensor(each))


def _that_gave_none(level: Level, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements that gave a variable its value, which this one reads and which is None: `g = p.grad`."""
    for node in expressions(statement):
        name = dotted(node)
        if name and level.body and name in level.variables and level.variables[name] is None:
            places = assignments(level.body, name, before=level.line)
            found = statement_at(level.body, *places[-1].position) if places else None
            if found is not None:
                yield found


def _name(failure: Failure, level: Level, text: str, tensor: torch.Tensor) -> str:
    """What the program calls the tensor; of a loop's variable, what it stands for."""
    if not _is_passing(level, text):
        return text
    holder = holder_of(failure, tensor)
    if holder is not None:
        return holder.path
    element = next((found for each in failure.users if (found := _element(each, level, text, tensor))), "")
    if element:
        return element
    (names,) = search([tensor], frames=failure.frames).names
    return next((name.path for name in names if name.path != text and ".param_groups[" not in name.path), text)


@dataclass(frozen=True, eq=False)
class Holder:
    """The largest module that has a parameter: what it is called, and the parameter in it, `encoder.0.weight`."""

    module: torch.nn.Module
    name: str
    parameter: str

    @property
    def path(self) -> str:
        return f"{self.name}.{self.parameter}"


def holder_of(failure: Failure, tensor: torch.Tensor) -> Holder | None:
    """Return the largest module around the failure that has `tensor` for a parameter; None if none does."""
    owning: list[tuple[tuple[int, int], Holder]] = []
    for module, name in found_around(failure.frames, torch.nn.Module):
        paths = list(trainable(module))
        own = next((path for path in paths if parameter_at(module, path) is tensor), None)
        if own is not None:
            size = len(paths), len(list(modules_in(module)))  # a list of layers has as many parameters as its owner
            owning.append((size, Holder(module, name, own)))
    return max(owning, key=lambda each: each[0], default=((0, 0), None))[1]


def _element(around: Level, level: Level, text: str, tensor: torch.Tensor) -> str:
    """`weights[1]` for the variable of a loop or comprehension over `weights`, a list that holds the tensor."""
    if around.body is None or level.body is None or around.body.node is not level.body.node:
        return ""
    for target, iterated in _loops(level.body):
        held = value_of(around, iterated) if dotted(target) == text else None
        if type(held) is list or type(held) is tuple:
            at = next((k for k, each in enumerate(held) if each is tensor), None)
            if at is not None:
                return f"{level.body.text(iterated)}[{at}]"
    return ""


def gone_through(read: Read) -> list[torch.Tensor]:
    """All that a loop or comprehension goes through whose variable is the tensor now."""
    body = read.level.body
    if body is None:
        return []
    levels = [each for each in read.failure.users if each.body is not None and each.body.node is body.node]
    loops = [iterated for target, iterated in _loops(body) if read.text in target_names(target)]
    return [tensor for each in loops for level in levels for tensor in _through(level, each)]


def _loops(body: Body) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What the loops and comprehensions of a function go through, each with its target."""
    for node in ast.walk(body.node):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.target, node.iter


def _is_passing(level: Level, text: str) -> bool:
    """Whether a name only passes over things: the target of a loop or comprehension, or a parameter."""
    code = level.frame.f_code
    if text in code.co_varnames[: code.co_argcount]:
        return True
    return any(text in target_names(target) for target, _ in _loops(level.body)) if level.body else False
