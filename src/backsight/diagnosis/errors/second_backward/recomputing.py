"""What to write where a loss needs a result whose graph is freed: to compute it again, or without its graph."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from backsight.diagnosis.errors.second_backward.containers import kept_detached
from backsight.diagnosis.errors.second_backward.local import local_of
from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import below, made_in
from backsight.diagnosis.evidence.joints import (
    Joint,
    is_of_this_pass,
    passes_before,
)
from backsight.diagnosis.evidence.spoken import simple
from backsight.source import Body, Place, assignments, only, read_at, statement_at
from backsight.source.bindings import bound, stored_arguments, target_names
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, statements
from backsight.source.keeping import Keeping
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_module, is_tensor
from backsight.story.sections import methods_of
from backsight.story.stepping import steps_in
from backsight.tracing import Line


def fix_of(case: Case, joint: Joint, name: str, container: str, keeping: Keeping | None, *, known: bool) -> str:
    if keeping is not None:
        return kept_detached(container, keeping, case, [joint.old.index])
    init = assigned_once(case, name.partition("[")[0])
    if init is not None or (
        joint.made is not None and joint.made.function.endswith("__init__") and name.count(".") and _is_module(joint)
    ):
        where = f"line {init.line} of __init__" if init else "__init__"
        whole = _as_parameter(case, joint, init or (joint.made.place if joint.made else None))
        if whole:
            return (
                f"Put the whole value into the parameter: {whole}. As it is, the nn.Parameter inside is registered "
                "nowhere, and no optimizer trains it."
            )
        return _untrained(case, joint, name) or (
            f"Compute {name} in forward, each time it is used: it depends on parameters that are trained, and {where} "
            "runs only once."
        )
    here = local_of(case, joint)
    if other := detached_for(case, [joint.old.index]):
        return other
    if here is not None and (here.loop is None or here.inner):
        return here.fix
    if passes_before(case) and is_of_this_pass(case, joint):
        return f"Add the losses and call backward once, or compute {name} a second time for the second backward()."
    without = _untrained(case, joint, name)
    if without:
        return without
    if not known:  # what keeps it is not known, and so not whether it is carried over
        return (
            f"Look for what keeps {name} from one iteration to the next. Detach a state that is carried over: state = "
            "state.detach(). Recompute in each iteration what depends on trained weights."
        )
    other = once_without_graph(case, [joint.old.index])
    uncached = _uncached(joint)
    if uncached:
        return f"Recompute {name} each time it is read: {uncached}.{other}"
    used = _in_method_of(case, joint, name)
    again = computed_again(case, name, "self") if used else ""
    if used and again:
        return f"Compute {name} each time it is used: put `{again}` above line {used.line}.{other}"
    if rows := _embedded(case, joint, name):
        return rows
    again = computed_again(case, name)
    if again:
        return f"Recompute {name} at the start of each iteration: {again}.{other}"
    return f"Recompute {name} in each iteration, inside the loop that uses it.{other}"


def stored_at(case: Case, name: str) -> Place | None:
    """The only statement of its class that assigns an attribute: where it is computed once, whatever computes it."""
    owner, _, attribute = name.rpartition(".")
    held = _held(case, owner)
    return only(each for body in methods_of(type(held)) for each in assignments(body, f"self.{attribute}"))


def computed_again(case: Case, name: str, called: str = "") -> str:
    """The statement of a constructor that computes an attribute, as it would be written outside: `self` is the object,
    and an argument what the constructor has kept of it. Empty where not all of it is kept."""
    place, (owner, _, attribute) = stored_at(case, name), name.rpartition(".")
    body, statement = read_at(place)
    if body is None or not isinstance(body.node, ast.FunctionDef) or not isinstance(statement, ast.Assign):
        return ""
    owner = called or owner
    kept = {value: f"{owner}.{key}" for key, value in stored_arguments(body)} | {"self": owner}
    given = {each.arg for each in body.node.args.args}.union(*(bound(each) for each in statements(body.node)))
    value = copy.deepcopy(statement.value)
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in given:
            if node.id not in kept:
                return ""
            node.id = kept[node.id]
    return f"{owner}.{attribute} = {ast.unparse(value)}"


def detached_for(case: Case, nodes: Sequence[int]) -> str:
    """What to write where a loss reaches an old result that its own optimizer does not train: the statement that reads
    the result, with `.detach()`. Empty where the step after this backward is not known, or trains part of it."""
    level, graph = case.failure.user, case.graph
    steps = [each for each in steps_in(level) if each.place.line > level.line] if level else []
    trained = frozenset[int]().union(*(each.trained for each in steps))
    behind = set(below(graph, nodes))
    needed = {id(leaf.tensor()): leaf.node in behind for leaf in graph.leaves}
    old = {each for each, is_old in needed.items() if is_old}
    known = all(each.trained for each in steps)
    if level is None or level.body is None or not known or not old or old & trained or not trained & set(needed):
        return ""
    for name, ancestor in case.ancestors(level).items():
        statement = statement_at(level.body, *ancestor.read.position)
        if not set(made_in(graph, level.value(name))) & set(nodes) or statement is None:
            continue
        every = [*expressions(statement)]
        sizes = {id(each.value) for each in every if isinstance(each, ast.Attribute) and each.attr in _SIZES}
        read = [node for node in every if dotted(node) == name and id(node) not in sizes]
        new = rewritten(level.body, statement, dict.fromkeys(read, f"{name}.detach()"))
        if is_tensor(level.value(name)) and read and new:
            return (
                f"On line {statement.lineno}, write `{new}`: {steps[0].call} trains nothing that {name} is computed "
                "from, so this backward need not go there."
            )
    return ""


_SIZES = frozenset({"size", "shape", "ndim", "dim", "dtype", "device", "numel"})


def once_without_graph(case: Case, nodes: Sequence[int]) -> str:
    """The other way: none for what this loss has to train, and reaches only through it."""
    graph, behind = case.graph, set(below(case.graph, nodes))
    trained = {leaf.node for leaf in graph.leaves if leaf.node in behind and leaf.owner}
    if trained:
        beside = set(below(graph, [root for root, _ in graph.root_edges], without=set(nodes)))
        return " If only its values are wanted, compute it once under torch.no_grad()." if trained <= beside else ""
    return " If nothing behind it is trained here, compute it once under torch.no_grad()."


def _held(case: Case, name: str) -> object:
    """What the nearest level of the program that has a variable of this name holds in it."""
    return next((value for level in case.failure.users if name and (value := level.value(name)) is not None), None)


def _in_method_of(case: Case, joint: Joint, name: str) -> Place | None:
    """The statement that uses an attribute again, where a method of the object that keeps it does."""
    owner = name.rpartition(".")[0]
    held = _held(case, owner)
    used = joint.used.place if joint.used else None
    body = body_around(used.file, used.line) if used else None
    is_own = body is not None and any(each.node is body.node for each in methods_of(type(held)))
    return used if is_own and getattr(body.node if body else None, "name", "") != "__getitem__" else None


def _embedded(case: Case, joint: Joint, name: str) -> str:
    """A dataset that keeps what a module computed of all its rows, `self.rows = encoder(x)`: it keeps the rows, and the
    loop computes, of each batch."""
    place, level = stored_at(case, name), case.failure.user
    body, statement = read_at(place)
    call = statement.value if isinstance(statement, ast.Assign) else None
    used = body_around(joint.used.file, joint.used.line) if joint.used else None
    if level is None or level.body is None or body is None or not isinstance(call, ast.Call) or len(call.args) != 1:
        return ""
    facts = next(iter(loops(level)), None)
    module = _given_for(case, body, dotted(call.func) or "")
    loop = statement_at(level.body, *facts.loop.position) if facts else None
    if getattr(used.node if used else None, "name", "") != "__getitem__" or not module or not isinstance(loop, ast.For):
        return ""
    batch = [each for each in target_names(loop.target) if joint.old.index in _behind(case, level, each)]
    if len(batch) != 1 or statement is None:
        return ""
    new = rewritten(body, statement, {call: body.text(call.args[0])})
    return (
        f"Keep the raw rows in the dataset, and embed each batch: on line {statement.lineno}, write "
        f"`{new}`, and put `{batch[0]} = {module}({batch[0]})` above line {loop.body[0].lineno}. (With detach(), "
        f"{dotted(call.func)} would not be trained.)"
    )


def _behind(case: Case, level: Level, name: str) -> set[int]:
    return set(below(case.graph, made_in(case.graph, level.value(name))))


def _given_for(case: Case, init: Body, argument: str) -> str:
    """What the only call of a class gives to its constructor for an argument, if that is a module."""
    if not isinstance(init.node, ast.FunctionDef) or argument not in (names := [a.arg for a in init.node.args.args]):
        return ""
    at = names.index(argument) - 1
    for level in case.failure.users:
        for each in statements(level.body.node) if level.body else ():
            for call in calls_in(each):
                cls = value_of(level, call.func)
                own = isinstance(cls, type) and any(body.node is init.node for body in methods_of(cls))
                text = level.body.text(call.args[at]) if own and level.body and at < len(call.args) else ""
                if text and is_module(level.value(text)):
                    return text
    return ""


def _uncached(joint: Joint) -> str:
    """What to write instead of a decorator that keeps the result of the function in which the old result was made."""
    body = body_around(joint.made.file, joint.made.line) if joint.made else None
    for each in getattr(body.node, "decorator_list", []) if body else ():
        name = (dotted(each.func if isinstance(each, ast.Call) else each) or "").rpartition(".")[2]
        if name in ("cached_property", "cache", "lru_cache"):
            return (
                f"write `@property` on line {each.lineno}"
                if name == "cached_property"
                else f"remove line {each.lineno}"
            )
    return ""


def _untrained(case: Case, joint: Joint, name: str) -> str:
    """What to do where optimizers train other parts of this graph, and nothing that the old result is computed from."""
    behind = set(below(case.graph, [joint.old.index]))
    made, owned = joint.made, {leaf.node for leaf in case.graph.leaves if leaf.owner}
    body, statement = read_at(made.place if made else None)
    if not owned or owned & behind or made is None or not isinstance(statement, ast.Assign | ast.Return):
        return ""
    value = statement.value
    if value is None or (isinstance(statement, ast.Return) and (body is None or made.segment != body.text(value))):
        return ""
    if owned & set(below(case.graph, _made_at(case, made))):  # the same statement computes what is trained
        return ""
    if getattr(body.node if body else None, "name", "") in ("forward", "__call__"):
        return ""
    held = (level.value(name) for level in case.failure.users)
    single = isinstance(statement, ast.Return) or (
        len(statement.targets) == 1
        and not isinstance(statement.targets[0], ast.Tuple)
        and any(is_tensor(each) for each in held)
    )
    new = rewritten(body, statement, {value: f"{simple(body.text(value))}.detach()"}) if body else ""
    if new and single and "…" not in new:
        return f"No optimizer trains anything it is computed from: on line {made.line}, write `{new}`."
    return f"No optimizer trains anything it is computed from: put line {made.line} inside `with torch.no_grad():`."


def _made_at(case: Case, made: Line) -> list[int]:
    """The operations of this graph that a line made."""
    lines = ((node.index, case.watch.line_of(node)) for node in case.graph.nodes) if case.watch else ()
    return [index for index, line in lines if line and (line.file, line.line) == (made.file, made.line)]


def _as_parameter(case: Case, joint: Joint, made: Place | None) -> str:
    """The statement of `self.w = nn.Parameter(x) / 2` with all of it in the parameter; empty where what it is computed
    from belongs to a module or to an optimizer."""
    inside = below(case.graph, [joint.old.index])
    if made is None or any(leaf.module or leaf.owner for leaf in case.graph.leaves if leaf.node in inside):
        return ""
    body, statement = read_at(made)
    if body is None or not isinstance(statement, ast.Assign):
        return ""
    inner = [node for node in calls_in(statement) if callee(node)[1] == "Parameter" and len(node.args) == 1]
    if len(inner) != 1 or inner[0] is statement.value:
        return ""
    value, call = body.text(statement.value), body.text(inner[0])
    rest = value.replace(call, body.text(inner[0].args[0]), 1)
    return f"{body.text(statement.targets[0])} = {body.text(inner[0].func)}({rest})"


def assigned_once(case: Case, name: str) -> Place | None:
    """Where `__init__` assigns an attribute of a module, if no other method does."""
    owner, _, attribute = name.rpartition(".")
    held = _held(case, owner)
    found = [(body, each) for body in methods_of(type(held)) for each in assignments(body, f"self.{attribute}")]
    once = is_module(held) and all(body.name == "__init__" for body, _ in found)
    return found[0][1] if found and once else None


def _is_module(joint: Joint) -> bool:
    """Whether the class that made it has a `forward`."""
    body = body_around(joint.made.file, 0) if joint.made else None
    classes = [each for each in body.node.body if isinstance(each, ast.ClassDef)] if body else []
    line = joint.made.line if joint.made else 0
    around = next((each for each in classes if each.lineno <= line <= (each.end_lineno or 0)), None)
    return any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in (around.body if around else ()))
