"""BS223: an optimizer was given no parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import torch

from backsight.diagnosis.errors.learnt_buffers import learnt_buffers
from backsight.diagnosis.errors.out_of_sight import out_of_sight
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.errors.weights_held import CONTAINERS, entries_of, mended
from backsight.diagnosis.errors.weights_made import as_parameters, assigned_at, converted
from backsight.diagnosis.evidence.exhausted import ONCE, exhausted
from backsight.diagnosis.evidence.unbuilt import Unbuilt, made_in_passing, unbuilt
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, counted, described, failing, if_known, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, inherits, is_class, namespace
from backsight.source import assignments, loop_facts, read_at, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.definitions import FILLING, values_of
from backsight.source.edits import change, instead, lines_of, move, put_at, write
from backsight.source.freezing import freezing_of, freezings
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.injected import injected
from backsight.story.memory import is_leaf, is_module, is_tensor, needs_gradient
from backsight.tape import modules_in, registered
from backsight.text import lines_at

_LISTING = ("parameters", "named_parameters")
_LOOKING = frozenset({"print", "type", "isinstance", "id", "repr", "str", "next"})
_SMALL = 1000


@dataclass(frozen=True, eq=False)
class Given:
    """What the optimizer was given: the function that wrote it, and the expression."""

    failure: Failure
    level: Level
    node: ast.expr

    @property
    def text(self) -> str:
        return self.level.body.text(self.node) if self.level.body else "the list"

    @property
    def value(self) -> object:
        return value_of(self.level, self.node)

    @cached_property
    def values(self) -> list[ast.expr]:
        """The expressions that it may stand for, itself first: `params`, `model.parameters()`."""
        name, body = dotted(self.node), self.level.body
        if name is None or body is None:
            return [self.node]
        loops = [each for each in statements(body.node) if isinstance(each, ast.For) and _fills_within(each, name)]
        return [self.node, *values_of(body, name, self.level.line), *(each.iter for each in loops)]

    @cached_property
    def modules(self) -> list[tuple[str, torch.nn.Module]]:
        """The modules whose parameters it lists, each with what the program calls it."""
        found: dict[str, torch.nn.Module] = {}
        for value in self.values:
            for node in ast.walk(value):
                receiver = callee(node)[0] if isinstance(node, ast.Call) and callee(node)[1] in _LISTING else None
                module = value_of(self.level, receiver) if receiver is not None else None
                if is_module(module) and self.level.body and receiver is not None and _lists_as_pytorch(module):
                    found.setdefault(self.level.body.text(receiver), module)
        return list(found.items())

    @property
    def asked(self) -> Fact:
        return shown(self.level.place, f"passes {self.text} to the optimizer; it is empty.")


Cause = Callable[[Given], "Finding | None"]


@explains("BS223", r"optimizer got an empty parameter list")
def empty_optimizer(failure: Failure, match: re.Match[str]) -> Finding:
    """Say why there is nothing in what the optimizer was given."""
    given = _given(failure)
    causes = (cause(given) for cause in CAUSES) if given is not None else ()
    if (finding := next(filter(None, causes), None) or _kept(failure)) is not None:
        return finding
    where = (given.asked,) if given else failing(failure, "leads to it.")
    return explanation(
        f"{given.text if given else 'The list of parameters'} is empty: there is nothing to optimize.",
        where,
        "Pass the parameters that you want to train: list(model.parameters()) shows what the optimizer would get.",
        source=failure.source,
        exact=False,
    )


def _kept(failure: Failure) -> Finding | None:
    """An iterator that something keeps, `partial(Adam, model.parameters())`, and that an earlier call went through."""
    if failure.user is None or (found := exhausted(failure)) is None:
        return None
    holds = f"{found.holder} {'holds' if found.is_of_partial else 'is'}"
    mended = ""
    if found.made and found.mended:
        is_part = (statement := read_at(found.made)[1]) is not None and statement.lineno != found.made.line
        edit = change(found.made, found.made.text, found.mended) if is_part else write(found.made, found.mended)
        mended = f"write `{found.mended}` on line {found.made.line}{edit}"
    return explanation(
        f"{holds} an exhausted {found.kind}: it can be iterated only once."
        if found.sure
        else f"{holds} a {found.kind} that is empty or already exhausted: it can be iterated only once.",
        (
            if_known(found.made, f"creates the {found.kind} once."),
            *failing(failure, "gives it to an optimizer; nothing is left in it."),
        ),
        f"Make a list of it: {mended or 'list(...) where it is made'}.",
        source=found.made or failure.source,
        exact=found.sure,
    )


def _given(failure: Failure) -> Given | None:
    """The parameters as the outermost function writes them that only hands them on."""
    below = next((inner for level, inner in pairwise(failure.levels) if level is failure.user), None)
    if below is None or not inherits(type(below.variables.get("self")), (torch.optim.Optimizer,)):
        return None  # a library that the user's statement calls makes the optimizer
    found: Given | None = None
    name, parameters, function = "params", ["params"], ""
    for level in failure.users:
        if name not in parameters or (node := _argument(level, name, parameters, function)) is None:
            break
        found, code = Given(failure, level, node), level.frame.f_code
        name, function = dotted(node) or "", code.co_name
        parameters = [*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
    return found


def _argument(level: Level, name: str, parameters: list[str], function: str) -> ast.expr | None:
    """What the call that failed gives for a parameter."""
    calls = list(calls_in(level.statement))
    here = [node for node in calls if (node.lineno, node.col_offset) == (level.line, level.column)]
    optimizers = sorted((node for node in calls if _makes_optimizer(level, node)), key=lambda node: node not in here)
    named = [node for node in calls if function and callee(node)[1] == function]
    likely = [*optimizers, *named, *here, *(calls if len(calls) == 1 else ())]
    at = parameters.index(name) - (parameters[0] == "self")
    given = [keyword(each, name) or (each.args[at] if 0 <= at < len(each.args) else None) for each in likely[:1]]
    return given[0] if given else None


def _makes_optimizer(level: Level, call: ast.Call) -> bool:
    cls = value_of(level, call.func)
    return is_class(cls) and inherits(cls, (torch.optim.Optimizer,))


def _lists_as_pytorch(module: torch.nn.Module) -> bool:
    """Whether its class leaves `parameters()` as PyTorch has it."""
    return all(method(type(module), name) is method(torch.nn.Module, name) for name in _LISTING)


def used_up(given: Given) -> Finding | None:
    """A generator that something before has gone through to its end."""
    name, body = dotted(given.node), given.level.body
    if name is None or body is None or not issubclass(type(given.value), ONCE):
        return None
    made = next(reversed(assignments(body, name, before=given.level.line)), None)
    if made is None:
        return None
    here = given.level.place.position
    between = [each for each in statements(body.node) if made.position < (each.lineno, each.col_offset) < here]
    reading = [body.place(each) for each in between if _goes_through(each, name)]
    facts = loop_facts(body, given.level.line)
    if not reading and facts and made.position < facts.loop.position:
        reading = [given.level.place]
    if not reading:
        return None
    last = reading[-1] == given.level.place
    statement = statement_at(body, *made.position)
    value = statement.value if isinstance(statement, ast.Assign) else None
    mended = f"{name} = list({body.text(value)})" if value is not None else f"{name} = list(...)"
    mended = f"{mended}{instead(body, statement, mended)}" if value is not None and statement is not None else mended
    return explanation(
        f"{name} is an exhausted generator: it can be iterated only once.",
        (
            shown(made, f"creates the generator {name}."),
            shown(reading[-1], f"iterates over it{' in the iteration before' if last else ''}."),
            None if last else given.asked,
        ),
        f"Make a list of it: {mended}.",
        source=made,
        exact=_have_parameters(given),
    )


def too_early(given: Given) -> Finding | None:
    """The module's own `__init__` makes the optimizer before its layers."""
    body = given.level.body
    own = [(name, module) for name, module in given.modules if "." not in name and not _parameters(module)]
    if body is None or not own or body.name != "__init__" or own[0][0] != "self":
        return None
    later = [
        (each, name)
        for each in statements(body.node)
        if each.lineno > given.level.line and isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
        for name in bound(each)
        if name.startswith("self.")
    ]
    if not later:
        return None
    place, name = body.place(later[0][0]), later[0][1]
    return explanation(
        f"self.parameters() is empty: __init__ creates {name} later.",
        (given.asked, shown(place, f"creates {name} after that.")),
        f"Create the optimizer after the layers: move line {given.level.line} below line {later[-1][0].lineno}"
        f"{_moved_below(given, later[-1][0])}.",
        source=given.level.place,
    )


def _moved_below(given: Given, statement: ast.stmt) -> str:
    """The optimizer, made below a statement and the block around that, if no line between them reads it."""
    body, own = given.level.body, given.level.statement
    block = getattr(body.node, "body", []) if body else []
    last = next((each for each in block if each.lineno <= statement.lineno <= (each.end_lineno or 0)), None)
    if body is None or last is None or own is None or own not in block:
        return ""
    between = [each for each in statements(body.node) if given.level.line < each.lineno <= (last.end_lineno or 0)]
    if {use.name for each in between for use in uses(each)} & bound(own):
        return ""
    return str(move(given.level.place, "below" if last is statement else "beside", body.place(last)))


def in_plain_container(given: Given) -> Finding | None:
    """The layers are in a plain list or dict, where the model does not see them."""
    for name, module in given.modules if not _have_parameters(given) else ():
        found = {
            (type(inner), attribute): (path, inner, attribute, held)
            for path, inner, attribute, held in reversed([*_hidden(module)])
        }
        if not found:
            continue
        (path, inner, attribute, held), *others = reversed(found.values())
        place = assigned_at(inner, attribute)
        owner = f"{name}.{path}" if path else name
        kind = "dict" if issubclass(type(held), dict) else class_name(type(held))
        what = counted(_number(held), "module" if is_module(_first(held)) else "tensor")
        fixes = [mended("it", inner, attribute, held, _kind_in(held))]
        fixes += [
            mended(f"self.{each[2]} of {class_name(type(each[1]))}", *each[1:], _kind_in(each[3])) for each in others
        ]
        return explanation(
            f"{owner}.{attribute} is a plain {kind}: {name}.parameters() does not see the {what} in it.",
            (
                if_known(place, f"makes a plain {kind}."),
                *(
                    if_known(assigned_at(each[1], each[2]), "makes another, which hides modules too.")
                    for each in others
                ),
                given.asked,
            ),
            " ".join(fixes),
            source=place or given.failure.source,
        )
    return None


def _first(held: object) -> object:
    return next((each for each in _items(held) if _trains(each)), None)


def _kind_in(held: object) -> type:
    return torch.nn.Module if is_module(_first(held)) else torch.Tensor


def in_another_object(given: Given) -> Finding | None:
    """The layers are in an object that is no module, or what a function keeps, where the model does not see them."""
    for name, module in given.modules if not _have_parameters(given) else ():
        found = out_of_sight(module, _trains)
        if found is None:
            continue
        owner, place = f"{name}.{found.path}" if found.path else name, assigned_at(found.inner, found.attribute)
        kind = a_kind(class_name(type(found.held)))
        what = "a function" if found.is_function else f"{kind}, and no nn.Module"
        number = counted(len(found.found), "module")
        where = "that it uses" if found.is_function else "in it"
        return explanation(
            f"{owner}.{found.attribute} is {what}: {name}.parameters() does not see the {number} {where}.",
            (if_known(place, f"assigns {'a function' if found.is_function else kind}."), given.asked),
            found.fix,
            source=place or given.failure.source,
        )
    return None


def _above(given: Given, code: str) -> str:
    return put_at(code, "above", given.level.place)


def of_tensors(given: Given, *, asked: bool) -> Finding | None:
    """The model's weights are tensors, and no parameters; `asked`: such as require grad."""
    for name, module in given.modules if not _have_parameters(given) else ():
        own = [(path, inner, *each) for path, inner in modules_in(module) for each in (namespace(inner) or {}).items()]
        learnt = [each for each in own if _may_learn(*each[2:], asked=asked)]
        if not learnt:
            continue
        _, inner, attribute, held = learnt[0]
        place = assigned_at(inner, attribute)
        lost = converted(*read_at(place), attribute)
        other = lost.place if lost is not None and lost.place != place else None
        loses = f"calls {lost.by}() on a parameter, which returns a plain tensor." if lost is not None else ""
        every = [f"{name}.{path}.{attribute}" if path else f"{name}.{attribute}" for path, _, attribute, _ in learnt]
        held_in = next((class_name(type(each)) for *_, each in learnt if not is_tensor(each)), "")
        plain = f"is a plain {held_in} of tensors" if held_in else "is a plain tensor"
        if len(learnt) > 1:
            plain = "hold plain tensors" if held_in else "are plain tensors"
        does = (
            described(held)
            if is_tensor(held)
            else f"{class_name(type(held))} of {counted(len(_items(held)), 'tensor')}"
        )
        says = f"assigns a {does}."
        them = "it a parameter" if len(every) == 1 else "them parameters"
        what = them if asked else "what should be trained a parameter"
        return explanation(
            f"{listed(every, 4)} {plain}, and {name}.parameters() lists nn.Parameter only.",
            (if_known(other, loses), if_known(place, loses if loses and not other else says), given.asked),
            f"Make {what}: {as_parameters(given.level, [each[1:] for each in learnt])}.",
            source=place or given.failure.source,
        )
    return None


def of_buffers(given: Given) -> Finding | None:
    """The model's weights are buffers that require grad."""
    for name, module in given.modules if not _have_parameters(given) else ():
        if (found := learnt_buffers(given.level, given.node, name, module)) is not None:
            return explanation(found.title, (found.registered, given.asked), found.fix, source=given.failure.source)
    return None


def made_later(given: Given) -> Finding | None:
    """The layers are made by another method than `__init__`, which has not run yet."""
    for name, module in given.modules if not _have_parameters(given) else ():
        for path, inner in modules_in(module):
            found = unbuilt(inner)
            if found is None:
                continue
            owner = f"{name}.{path}" if path else name
            layers, method = listed(found.layers, 3), found.method
            if found.misspelt:
                return explanation(
                    f"{owner} has no parameters: {method}() creates {layers}, and Python never runs it.",
                    (shown(found.definition, "is not __init__, which Python runs for a new object."), given.asked),
                    f"Rename {method} to __init__, on {lines_at(found.misspelt)}{_renamed(found)}.",
                    source=found.definition,
                )
            call = f"{owner}.{method}({'' if found.takes_none else '...'})"
            where = "" if "..." in call else f": {_above(given, call)}"
            return explanation(
                f"{owner} has no parameters yet: {method}() creates {layers}, and it has not run.",
                (shown(found.place, f"creates {found.layers[0]} when {method}() runs."), given.asked),
                f"Create {layers} in __init__(). Or run {name} on one batch before you create the optimizer."
                if found.by_forward
                else f"Call {call} before you create the optimizer{where}.",
                source=found.place,
            )
    return None


def _renamed(found: Unbuilt) -> str:
    """The constructor that is misspelt, and the calls of it, `super().init()`."""
    definition, *calls = lines_of(found.definition.file, *found.misspelt)
    edits = [change(definition, found.method, "__init__")]
    edits += [change(each, f".{found.method}(", ".__init__(") for each in calls]
    return "".join(map(str, edits))


def without_any(given: Given) -> Finding | None:
    """The module has nothing to train at all."""
    if not given.modules or _have_parameters(given) or len(given.modules) > 1:
        return None
    name, module = given.modules[0]
    if (passing := made_in_passing(module)) is not None:
        many = counted(len(passing.layers), "layer")
        return explanation(
            f"{name} has no parameters: its methods make {many} anew each time they run.",
            (*(shown(each, "makes a layer for this call, with new weights.") for each in passing.places), given.asked),
            f"{passing.fix} As it is, nothing keeps their weights, so nothing can train them.",
            source=passing.places[0],
        )
    return explanation(
        f"{name} has no parameters: {class_name(type(module))} has nothing to train.",
        (given.asked,),
        f"Pass the parameters of the module that has layers, or assign the layers of {name} as attributes of it: "
        "self.layer = nn.Linear(...).",
        source=given.failure.source,
    )


def all_frozen(given: Given) -> Finding | None:
    """Only what requires grad was to be given, and nothing does."""
    chosen = any(_asks(value, "requires_grad") for value in given.values) or _filled_under(given, "requires_grad")
    every = [p for _, module in given.modules for p in _parameters(module)]
    if not chosen or not every or any(needs_gradient(each) for each in every):
        return None
    names = listed([name for name, _ in given.modules], 3)
    added = next(((name, new) for name, each in given.modules if (new := injected(given.failure, each))), None)
    freezing = (each for file in user_files(given.failure) for each in freezings(file))
    found = freezing_of([name for name, _ in given.modules], freezing)
    does = "freezes them." if len(found) == 1 else "may have frozen them."
    of_all = "none of the " + counted(len(every), "parameter") if len(every) > 1 else "its one parameter"
    return explanation(
        f"{names} is frozen: {of_all} requires grad, and the optimizer gets only those that do."
        if len(every) > 1
        else f"{names} is frozen: {of_all} does not require grad, and the optimizer gets only those that do.",
        (*(shown(each, does) for each in found[:3]), given.asked),
        f"Before you create the optimizer, {_above(given, added[1].unfreezing(added[0]))}."
        if added
        else f"Before you create the optimizer, unfreeze what you want to train, such as the last layer of {names}, "
        "with requires_grad_(True). Or add the new layers after you freeze the rest.",
        source=found[0] if found else given.failure.source,
        exact=len(found) < 2,
    )


def none_chosen(given: Given) -> Finding | None:
    """A condition on the names of the parameters that none of them fulfils."""
    every = [name for _, module in given.modules for name in _names(module)]
    words = [word for value in given.values for word in _words(value)]
    if not every or not words or any(word in name for word in words for name in every):
        return None
    texts = listed([f'"{word}"' for word in words], 3)
    model = listed([name for name, _ in given.modules], 3)
    return explanation(
        f"{given.text if dotted(given.node) else 'The list'} is empty: no parameter name of {model} contains {texts}.",
        (f"The names are {listed(every, 6)}.", given.asked),
        f"Select parameters by a word that these names contain instead of {texts}.",
        source=given.failure.source,
    )


def filled_later(given: Given) -> Finding | None:
    """A list that is empty when the optimizer is made."""
    name, body = dotted(given.node), given.level.body
    if name is None or body is None or type(given.value) is not list or given.modules:
        return None
    made = next(reversed(assignments(body, name, before=given.level.line)), None)
    filling = [each for each in statements(body.node) if _fills(each, name)]
    later = [body.place(each) for each in filling if each.lineno > given.level.line]
    if made is None or len(later) != len(filling) or not later:
        return None
    return explanation(
        f"{name} is still empty when the optimizer is created.",
        (shown(made, f"makes {name}."), given.asked, shown(later[0], "fills it later.")),
        f"Create the optimizer after line {later[-1].line}, when {name} holds what you want to train"
        f"{_moved_below(given, filling[-1])}.",
        source=given.level.place,
    )


CAUSES: tuple[Cause, ...] = (
    too_early,
    of_buffers,
    in_plain_container,
    in_another_object,
    partial(of_tensors, asked=True),
    made_later,
    partial(of_tensors, asked=False),
    without_any,
    all_frozen,
    used_up,
    none_chosen,
    filled_later,
)


def _parameters(module: torch.nn.Module) -> list[torch.Tensor]:
    every = (held for _, each in modules_in(module) for held in registered(each, "_parameters").values())
    return [held for held in every if is_tensor(held)]


def _have_parameters(given: Given) -> bool:
    return any(_parameters(module) for _, module in given.modules)


def _names(module: torch.nn.Module) -> Iterator[str]:
    for path, each in modules_in(module):
        yield from (f"{path}.{key}".lstrip(".") for key, v in registered(each, "_parameters").items() if is_tensor(v))


def _hidden(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module, str, object]]:
    """The plain containers that hide modules or parameters, in a module and in all that it holds."""
    queue, seen = [("", module)], {id(module)}
    for path, each in queue:  # grows as we go
        for further, inner, attribute, held in _plain_containers(each):
            if not _number(held):
                continue
            whole = ".".join(filter(None, (path, further)))
            yield whole, inner, attribute, held
            entries = held.items() if isinstance(held, dict) else enumerate(entries_of(held))
            for key, value in entries:
                if is_module(value) and id(value) not in seen:
                    seen.add(id(value))
                    queue.append((f"{whole}.{attribute}[{key!r}]".removeprefix("."), value))


def _plain_containers(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module, str, object]]:
    for path, inner in modules_in(module):
        for attribute, held in (namespace(inner) or {}).items():
            if type(held) in CONTAINERS and not attribute.startswith("_"):
                yield path, inner, attribute, held


def _items(held: Any) -> list[object]:
    """What a plain container holds, and what is in the containers inside it."""
    every = entries_of(held)[:_SMALL]
    return [each for item in every for each in (_items(item) if type(item) in CONTAINERS else [item])]


def _number(held: object) -> int:
    return sum(_trains(each) for each in _items(held))


def _trains(value: object, seen: frozenset[int] = frozenset()) -> bool:
    """Whether it is a parameter or a module that has one, be it in a plain container of its own."""
    if not is_module(value):
        return needs_gradient(value) and is_leaf(value)
    if _parameters(value):
        return True
    seen |= {id(value)}
    held = (each for *_, every in _plain_containers(value) for each in _items(every))
    return any(id(each) not in seen and _trains(each, seen) for each in held)


def _goes_through(statement: ast.stmt, name: str) -> bool:
    """Whether a statement iterates over `name`, or hands it to what may: not `print(params)`, `type(params)`."""
    for node in expressions(statement):
        taken = [each.iter for each in getattr(node, "generators", ())]
        if isinstance(node, ast.Starred):
            taken.append(node.value)
        if isinstance(node, ast.Call) and callee(node)[1] not in _LOOKING:
            taken += [*node.args, *(each.value for each in node.keywords)]
        if any(dotted(each) == name for each in taken):
            return True
    return isinstance(statement, ast.For) and dotted(statement.iter) == name


def _may_learn(attribute: str, held: Any, *, asked: bool) -> bool:
    """Whether an attribute is a weight, or a plain container of nothing else; `asked`: one that requires grad."""
    plain = type(held) in (list, tuple, dict) and not attribute.startswith("_")
    every = entries_of(held)[:_SMALL] if plain else [held]
    real = bool(every) and all(is_tensor(each) and each.is_floating_point() for each in every)
    return real and (not asked or any(map(needs_gradient, every)))


def _asks(value: ast.expr, attribute: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == attribute for node in ast.walk(value))


def _filled_under(given: Given, attribute: str) -> bool:
    """Whether what fills the list stands under a condition that asks for an attribute."""
    name, body = dotted(given.node), given.level.body
    for each in statements(body) if name else ():
        if isinstance(each, ast.If) and _asks(each.test, attribute) and _fills_within(each, name or ""):
            return True
    return False


def _fills_within(statement: ast.stmt, name: str) -> bool:
    return any(isinstance(each, ast.stmt) and _fills(each, name) for each in ast.walk(statement))


def _fills(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.AugAssign):
        return dotted(statement.target) == name
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(callee(call)[0]) == name and callee(call)[1] in FILLING


def _words(value: ast.expr) -> Iterator[str]:
    """The texts that the conditions of a comprehension look for in a name."""
    for node in ast.walk(value):
        for test in node.ifs if isinstance(node, ast.comprehension) else ():
            for each in ast.walk(test):
                if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.In):
                    left = each.left
                    if isinstance(left, ast.Constant) and type(left.value) is str:
                        yield left.value
                if isinstance(each, ast.Call) and callee(each)[1] in ("startswith", "endswith"):
                    yield from (a.value for a in each.args if isinstance(a, ast.Constant) and type(a.value) is str)
