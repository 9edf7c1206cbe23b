"""The functions that computed a value and have returned since: found by name from the frames that are left."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

import torch

from backsight.naming.plain import class_dict, is_class, mro, namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, backward_roots, function_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, target_names, uses
from backsight.source.body import as_function, callee, calls_in, dotted, expressions, statements
from backsight.source.definitions import flow_of
from backsight.story.evaluated import Variables, truth_of, value_of
from backsight.story.failure import Failure, Level, bound_to, follow, function_of, is_users, method, owner_of

MOST = 60


@dataclass(frozen=True, eq=False)
class Section:
    """A function on the way to a value: its source, the expressions that lead on, and what its names stand for.

    level: the level of the traceback, if its frame is still there; its variables then are the real ones.
    own: the names that are the function's own, whatever a global of the same name is.
    whole: whether every statement counts, not only those on the way to the goals.
    caller: the function that called it, where it has returned, by which `call`, and what that gave for each parameter.
    previous: the function whose result it was given instead, of modules that run one after the other.
    lifted: the lines of blocks that are to count as if they enabled gradients.
    """

    body: Body
    goals: tuple[tuple[str, int], ...]
    variables: Mapping[str, object]
    globals: Mapping[str, object] = field(repr=False)
    level: Level | None = None
    own: frozenset[str] = frozenset()
    whole: bool = False
    caller: Section | None = None
    call: ast.Call | None = None
    given: Mapping[str, ast.expr] = field(default_factory=dict, repr=False)
    previous: Section | None = None
    lifted: frozenset[int] = frozenset()

    def value(self, name: str) -> object:
        """The value of a variable or a chain of attributes; None where it is not known."""
        first, *rest = name.split(".")
        outer = None if first in self.own else self.globals.get(first)
        return follow(self.variables.get(first, outer), rest)

    @cached_property
    def enabled(self) -> frozenset[int]:
        """The lines of the blocks of a running function that have enabled gradients, as `set_grad_enabled(training)`
        does where that is true."""
        return self.lifted | frozenset(
            each.lineno
            for each in (statements(self.body.node) if self.level is not None else ())
            for item in (each.items if isinstance(each, ast.With) else ())
            for call in (item.context_expr,)
            if isinstance(call, ast.Call) and callee(call)[1] == "set_grad_enabled" and call.args
            if truth_of(self, call.args[0]) is True
        )

    @cached_property
    def skipped(self) -> frozenset[int]:
        """The lines of statements that have not run: kept from it by a condition in a function that has returned,
        `if self.frozen:`, or in a loop that had nothing to run over, as its variable tells in one that runs still."""
        return frozenset(
            spot.node.lineno
            for spot in flow_of(self.body.node).spots
            for arm, label in spot.arms
            if (_excludes(self, arm, label) if self.level is None else _never_began(self.level, arm, label))
        )

    def lines(self) -> list[int]:
        """The lines of the statements that may take part in the goals; all lines of a whole section."""
        if self.whole:
            return [each.lineno for each in statements(self.body.node)]
        found = dict.fromkeys(line for _, line in self.goals)
        for expression, line in self.goals:
            for ancestor in ancestors(self.body, expression, line).values():
                found |= dict.fromkeys([ancestor.read.line, *(place.line for place in ancestor.bound)])
        return list(found)

    def calls(self) -> Iterator[tuple[ast.Call, Place]]:
        """The calls in those statements, each with its statement."""
        for line in self.lines():
            statement = statement_at(self.body, line)
            for node in calls_in(statement):
                if statement is not None:
                    yield node, self.body.place(statement)


def _excludes(section: Section, arm: ast.stmt, label: str) -> bool:
    return isinstance(arm, ast.If) and truth_of(section, arm.test) is (label != "body")


def _never_began(level: Level, arm: ast.stmt, label: str) -> bool:
    names = target_names(arm.target) if isinstance(arm, ast.For) and label == "body" else frozenset()
    return bool(names) and names.isdisjoint(level.variables)


def sections(failure: Failure) -> Iterator[Section]:
    """Yield the functions that may have computed what backward was called on, the nearest first.

    Calls are followed as far as the names in the text lead to functions of the user's: methods, closures, modules'
    `forward`. Nothing is evaluated but plain attributes.
    """
    yield from followed([section for level in failure.users if (section := _of_level(failure, level))])


def losses(levels: Iterable[Level]) -> list[Section]:
    """Return the functions that run backward, each with what it runs that on as its goals."""
    goals = ((each, tuple((root, at.line) for root, at in backward_roots(each.body))) for each in levels)
    return [section for level, roots in goals if roots and (section := section_of(level, roots))]


def section_of(level: Level, goals: tuple[tuple[str, int], ...] = ()) -> Section | None:
    """Return the function of a level of the traceback, with its variables."""
    own = frozenset(level.frame.f_code.co_varnames)
    return Section(level.body, goals, level.variables, level.frame.f_globals, level, own) if level.body else None


def run_by(function: Any, owner: object, *, whole: bool = True) -> Iterator[Section]:
    """Yield a function and those that it may run, whole or as far as they lead to what it returns; `owner` is the
    object that it is a method of. Of a library's container these are the `forward` of what it has inside."""
    called = issubclass(type(owner), torch.nn.Module) and function_of(owner) is function
    pairs = _forwards(owner) if called else [(function, owner)]
    every = [(undecorated(each), held) for each, held in pairs]
    first = [_of_function(each, held, body, whole) for each, held in every if (body := body_of(each)) is not None]
    yield from followed(first[:MOST])


def followed(queue: list[Section]) -> Iterator[Section]:
    """Yield functions, and those that the statements on the way to their goals call."""
    running, seen = {section.body.node for section in queue}, set[ast.AST]()
    for section in queue:  # grows as we go
        yield section
        for function, owner, call in _called(section):
            called = _section_called(section, function, owner, call, running)
            if called is not None and called.body.node not in seen and len(seen) < MOST:
                seen.add(called.body.node)
                queue.append(called)


def called_by(section: Section, call: ast.Call, running: Collection[ast.AST]) -> list[Section]:
    """Return what a call runs, the last first, but what is `running` still, and has not run before.

    Of modules that run one after the other, each is given what the one before it returns.
    """
    call = _meant(call)
    written = section.given.get(dotted(call.func) or "")
    if isinstance(written, ast.Lambda) and section.caller is not None:
        return [_of_lambda(section, section.caller, written, call)]
    pairs = _functions(section, call.func, callee(call)[1])
    every = (_section_called(section, undecorated(each), owner, call, running) for each, owner in pairs)
    found = [each for each in every if each is not None]
    statement = statement_at(section.body, call.lineno, call.col_offset)
    given = {use.name for each in call.args for use in uses(ast.Expr(each))}
    takes_again = statement is not None and bool(given & bound(statement))
    if not takes_again and not isinstance(section.value(dotted(call.func) or ""), torch.nn.Sequential):
        return found
    chain: list[Section] = []
    for each in reversed(found):
        chain.append(replace(each, previous=chain[-1] if chain else None))
    return chain[-1:]


def _section_called(
    section: Section, function: Any, owner: object, call: ast.Call, running: Collection[ast.AST]
) -> Section | None:
    body = body_of(function)
    if body is None or (body.node in running and not _ran_before(section, call)):
        return None
    given = _given(section, function, owner, call)
    called = _of_function(function, owner, body, section.whole, given, taken(section, call))
    return replace(called, caller=section, call=call, given=passed(function, owner, call))


def _of_lambda(section: Section, outer: Section, written: ast.Lambda, call: ast.Call) -> Section:
    """What a function calls that its caller has given it as a lambda, with the variables that the caller has."""
    body, names = replace(outer.body, node=as_function(written)), [each.arg for each in written.args.args]
    held = {name: value for name, value in outer.variables.items() if name not in names}
    given = dict(zip(names, itertools.takewhile(_is_one, call.args), strict=False))
    goals = results_of(body)
    return Section(body, goals, held, outer.globals, own=frozenset(names), caller=section, call=call, given=given)


def _ran_before(section: Section, call: ast.Call) -> bool:
    """Whether a call of a function that runs now is another, which has ended: `u = f(x); v = f(u)`."""
    return section.level is not None and (call.end_lineno or call.lineno) < section.level.line


def _of_function(
    function: Any,
    owner: object,
    body: Body,
    whole: bool,
    given: Mapping[str, object] = MappingProxyType({}),
    only: tuple[int, int, int] | None = None,
) -> Section:
    own = frozenset(function.__code__.co_varnames)
    held = {**given, **held_by(function, owner)}
    return Section(body, results_of(body, only), held, function.__globals__, own=own, whole=whole)


def taken(section: Section, call: ast.Call) -> tuple[int, int, int] | None:
    """Which part of a tuple that a call returns leads to the goals, as a slice, and of how many: of `loss, seen = f(x)`
    for `loss` the first of two. None where all of it may."""
    statement = statement_at(section.body, call.lineno, call.col_offset)
    targets = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
    names = [dotted(each) for each in targets.elts] if isinstance(targets, ast.Tuple | ast.List) else []
    alike = [each for each, _ in section.calls() if dotted(each.func) == dotted(call.func)]
    if not all(names) or len(alike) > 1:  # another call may lead there by another part
        return None
    read = {name for goal, line in section.goals for name in (goal, *ancestors(section.body, goal, line))}
    wanted = [k for k, name in enumerate(names) if name in read]
    return (wanted[0], wanted[-1] + 1, len(names)) if wanted else None


def _given(section: Section, function: Any, owner: object, call: ast.Call) -> dict[str, object]:
    """The modules, functions, texts and objects that the function was given; a tensor may be another by now."""
    values = {name: value_of(section, node) for name, node in passed(function, owner, call).items()}
    return {name: value for name, value in values.items() if _is_lasting(value)}


def arguments(function: Any, owner: object, call: ast.Call) -> dict[str, str]:
    """For each parameter of a function the name that a call gives for it, where it gives a name."""
    return {name: text for name, value in passed(function, owner, call).items() if (text := dotted(value))}


def passed(function: Any, owner: object, call: ast.Call) -> dict[str, ast.expr]:
    """For each parameter of a function what a call gives for it, or its default if that is a text."""
    code = function.__code__
    bound = bound_to(function, owner)
    parameters = [each for each in code.co_varnames[: code.co_argcount] if each not in bound]
    given = dict(zip(parameters, itertools.takewhile(_is_one, call.args), strict=False))
    given |= {each.arg: each.value for each in call.keywords if each.arg}
    if len(call.keywords) + len(call.args) > len(given):  # what is unpacked may stand in place of any default
        return given
    defaults = dict(zip(reversed(parameters), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    texts: dict[str, ast.expr] = {name: ast.Constant(each) for name, each in defaults.items() if type(each) is str}
    return texts | given


def function_called(section: Variables, call: ast.Call) -> tuple[Any, object]:
    """The Python function behind a call, and the object that it is a method of."""
    value = value_of(section, call.func)
    if value is not None:
        return function_of(value), owner_of(value)
    owner = value_of(section, call.func.value) if isinstance(call.func, ast.Attribute) else None
    if is_class(owner):
        return method(owner, callee(call)[1]), None
    return (method(type(owner), callee(call)[1]), owner) if owner is not None else (None, None)


def _is_one(argument: ast.expr) -> bool:
    return not isinstance(argument, ast.Starred)


def _is_lasting(value: object) -> bool:
    kind = type(value)
    return issubclass(kind, torch.nn.Module | FunctionType | MethodType | str) or (
        not issubclass(kind, torch.Tensor) and is_users(kind)
    )


def methods_of(cls: type, where: Callable[[type], bool] = is_users) -> Iterator[Body]:
    """The source of every method of a class of the user's and its bases; of such bases as another question asks for."""
    for base in mro(cls):
        if where(base):
            functions = (undecorated(method(base, name)) for name in class_dict(base))
            yield from (body for each in functions if each is not None and (body := function_at(each.__code__)))


def _of_level(failure: Failure, level: Level) -> Section | None:
    if level.body is None:
        return None
    receiver = level.receiver if level is failure.user else None
    statement = level.statement
    if receiver is None and statement is not None:
        call = level.running or next(calls_in(statement), None)  # what stands around it has not run yet
        receiver = level.body.text(call) if call is not None else None
    return section_of(level, ((receiver, level.line),) if receiver else ())


def results_of(body: Body, only: tuple[int, int, int] | None = None) -> tuple[tuple[str, int], ...]:
    """The expressions that a function returns or yields, each with its line; of tuples that `taken` knows, the parts
    it names."""
    every = [each if isinstance(each, ast.Return) else getattr(each, "value", None) for each in statements(body.node)]
    found = [each.value for each in every if isinstance(each, ast.Return | ast.Yield) and each.value]
    first, end, count = only or (0, 0, -1)
    parts = (
        each.elts[first:end] if isinstance(each, ast.Tuple) and len(each.elts) == count else [each] for each in found
    )
    return tuple((body.text(value), value.lineno) for each in parts for value in each)


def _called(section: Section) -> Iterator[tuple[Any, object, ast.Call]]:
    """The functions that the statements of a section call, each with the object that it is a method of, and where."""
    for call in (_meant(each) for each, _ in section.calls()):
        for function, owner in _functions(section, call.func, callee(call)[1]):
            yield undecorated(function), owner, call
    yield from _read_properties(section)


def _read_properties(section: Section) -> Iterator[tuple[Any, object, ast.Call]]:
    """The properties that the statements of a section read, `gap.energy`, each as a call without arguments."""
    lines = (statement_at(section.body, line) for line in section.lines())
    for node in (each for statement in lines for each in expressions(statement)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = value_of(section, node.value)
            found = property_of(type(owner), node.attr) if owner is not None else None
            if found is not None:
                yield found, owner, ast.copy_location(ast.Call(node, [], []), node)


def behind_attribute(section: Section, name: str) -> Iterator[Section]:
    """Yield what gives an attribute that a function reads its value: its property, or the other methods that store it,
    each with what they store as its goals."""
    path, _, attribute = name.rpartition(".")
    owner = section.value(path) if path else None
    if owner is None or not is_users(type(owner)):
        return
    found = property_of(type(owner), attribute)
    read = body_of(found)
    if read is not None:
        yield _of_function(found, owner, read, False)
    held = section.value(name)
    if held is None or issubclass(type(held), torch.nn.Module | torch.nn.Parameter):
        return
    for body in methods_of(type(owner)):
        stored = flow_of(body.node).touching.get(f"self.{attribute}", ()) if body.node is not section.body.node else ()
        values = [value for _, each in stored for definition in each for value in definition.values]
        if values:
            goals = tuple((body.text(value), value.lineno) for value in values)
            yield Section(body, goals, {"self": owner}, section.globals, own=frozenset({"self"}))


def property_of(cls: type, name: str) -> Any:
    """What a property of a class runs when it is read; None where that name is none."""
    if not is_users(cls):
        return None
    held = next((each[name] for base in mro(cls) if name in (each := class_dict(base))), None)
    return held.fget if type(held) is property else None


def _meant(call: ast.Call) -> ast.Call:
    """The call that another makes: `model(x)` of `functional_call(model, p, x)`, `f(x)` of `checkpoint(f, x)`."""
    match callee(call)[1], call.args:
        case "functional_call", [function, _, ast.Tuple(elts=given), *_]:
            pass
        case "functional_call", [function, _, *given]:
            pass
        case "checkpoint", [function, *given]:
            pass
        case _:
            return call
    return ast.copy_location(ast.Call(function, given, []), call)


def _functions(section: Section, called: ast.expr, last: str) -> Iterator[tuple[object, object]]:
    value, name = value_of(section, called), dotted(called)
    if isinstance(called, ast.Subscript) and value is None:  # which of the modules is not known
        value = value_of(section, called.value)
    if name is not None and (value is None or issubclass(type(value), torch.nn.Module)):
        value = next(_elements(section, name), value)  # all that a loop goes through, whichever it has come to
    if issubclass(type(value), torch.nn.Module):
        yield from _forwards(value)
    elif value is not None:
        yield function_of(value), owner_of(value)
    elif isinstance(called, ast.Attribute):
        owner = value_of(section, called.value)
        yield method(owner if is_class(owner) else type(owner), last), owner


def _elements(section: Section, name: str) -> Iterator[object]:
    """The containers whose modules a variable of a loop stands for: `block` in `for block in self.blocks:`."""
    loops = (each for each in statements(section.body.node) if isinstance(each, ast.For) and name in bound(each))
    paths = (dotted(node) for loop in loops for node in expressions(loop))
    values = (section.value(path) for path in paths if path and path != name)
    return (value for value in values if issubclass(type(value), torch.nn.Module) and type(value) in _CONTAINERS)


_CONTAINERS = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)


def undecorated(function: Any) -> Any:
    """The user's function behind wrappers that say what they wrap, such as those of `@torch.no_grad()`."""
    for _ in range(MOST):
        wrapped = (namespace(function) or {}).get("__wrapped__")
        if is_user_function(function) or type(wrapped).__name__ != "function":
            break
        function = wrapped
    return function


def _forwards(module: object) -> Iterator[tuple[object, object]]:
    """The `forward` of a module; of a library's container, those of the modules inside it."""
    stack = [module]
    for each in stack:  # grows as we go
        forward = function_of(each)
        yield forward, each
        if not is_user_function(forward):
            children = (namespace(each) or {}).get("_modules")
            inside = [child for child in children.values() if child is not None] if type(children) is dict else []
            stack += reversed(inside)  # the last one is the nearest to the result


def held_by(function: object, owner: object) -> dict[str, object]:
    """What the names of a function that is not running stand for: its closure, `self`, what a partial was given."""
    code, closure = getattr(function, "__code__"), getattr(function, "__closure__") or ()  # noqa: B009
    found: dict[str, object] = {}
    for name, cell in zip(code.co_freevars, closure, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return {**found, **bound_to(function, owner)}


def is_user_function(function: object) -> bool:
    """Whether a function is the program's own."""
    code = getattr(function, "__code__", None)
    return code is not None and not is_library(code.co_filename) and not is_ours(code.co_filename)


def body_of(function: Any) -> Body | None:
    """The source of a function of the program's own; None for any other."""
    return function_at(function.__code__) if is_user_function(function) else None
