"""Why no optimizer has a leaf: it is new with each loss, came after the optimizer or was frozen when that was built, or
its gradient is wanted for itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from torch.optim.swa_utils import AveragedModel

from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import if_known, listed
from backsight.findings.evidence import Evidence
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, only, parsed, read_at, statements_of
from backsight.source.averaging import Writes, writes
from backsight.source.bindings import assigned, bound, names_read, parameters_of, targets
from backsight.source.body import (
    LOOPS,
    body_around,
    callee,
    callers,
    calls_in,
    covers,
    dotted,
    expressions,
    functions,
    statements,
)
from backsight.source.imports import is_gradient_call, meaning
from backsight.tape import Leaf, modules_in, parameters_in
from backsight.tracing import current

_FORWARD = ("forward", "__call__")


class Anew(NamedTuple):
    """The statement that creates a parameter, what it calls it, and the assignment that would keep it."""

    place: Place
    name: str
    kept: str


def made_anew(scene: Scene, leaf: Leaf) -> tuple[Anew, ...]:
    """Return what creates a parameter in each forward pass, or each turn of the loop that the training is.

    Of what nothing holds any more when the backward runs there will be another one in the next step. What somebody
    holds is so if the statement stands in a `forward`, under no condition, or in the loop around the backward.
    """
    if leaf.name:
        each_time = [each for each in _holding(scene, leaf) if _runs_each_time(scene, *each)]
        return _told(each_time)[:1]
    return next((made for group in _behind(scene, leaf) if (made := _told(group))), ())


def made_late(scene: Scene, leaf: Leaf) -> Place | None:
    """Return the statement of a `forward` that creates, under a condition, what holds a parameter."""
    found = [(b, s) for b, s in _holding(scene, leaf) if b.name in _FORWARD]
    body, statement = found[0] if len(found) == 1 else (None, None)
    if body is None or statement is None or _constructor(getattr(statement, "value", None)) is None:
        return None
    return body.place(statement)


def _told(found: Iterable[tuple[Body, ast.stmt]]) -> tuple[Anew, ...]:
    """Return those of some statements that construct an object of a class."""
    return tuple(
        _anew(body, statement, call)
        for body, statement in found
        if (call := _constructor(getattr(statement, "value", None))) is not None
    )


def _anew(body: Body, statement: ast.stmt, call: ast.Call) -> Anew:
    name = next((text for target, _, _ in targets(statement) if (text := dotted(target))), "")
    value = body.text(call)
    own = name.removeprefix("self.") or "layer"
    return Anew(body.place(statement), name or value, f"{'self.' if _is_method(body) else ''}{own} = {value}")


def _is_method(body: Body) -> bool:
    arguments = getattr(body.node, "args", None)
    return bool(arguments and arguments.args and arguments.args[0].arg == "self")


def _constructor(value: ast.expr | None) -> ast.Call | None:
    """Return the call of a class in an expression: `nn.Linear(4, 4)` also of `nn.Linear(4, 4).to(x)` and `(...)(x)`."""
    found = [
        node
        for node in (ast.walk(value) if value is not None else ())
        if isinstance(node, ast.Call)
        and callee(node)[1][:1].isupper()
        and not (meaning(node.func) or "").startswith("torch.nn.functional")
    ]
    return found[0] if found else None


def _behind(scene: Scene, leaf: Leaf) -> Iterator[list[tuple[Body, ast.stmt]]]:
    """Yield the statements that may have created a leaf which nothing holds, what is surest first: what filled it, what
    bound the names that the first operation on it reads, and what constructs the class whose function these stand in.
    """
    watch, tensor = current(), leaf.tensor()
    changes = watch.changes(tensor) if watch is not None and tensor is not None else ()
    users = [node for node in scene.graph.nodes if any(e and e.node.index == leaf.node for e in node.inputs)]
    lines = [each.line for each in changes[:1]] + [scene.line_of(node) for node in users]
    for line in lines:
        place = line.place if line is not None else None
        body, statement = read_at(place)
        if line is None or place is None or body is None or statement is None:
            continue
        if body.name != "__init__":
            yield [(body, statement)]
            read = _names_in(line.segment) or {*names_read(statement)}
            yield [(body, s) for s in statements(body.node) if _binds(s, read)]
        kind = _class_around(place)
        yield [
            (other, s)
            for other in functions(place.file)
            if kind is not None and other.name not in ("__init__", "")
            for s in statements(other.node)
            if _constructs(s, kind)
        ]


def _names_in(segment: str) -> set[str]:
    tree = parsed(segment.strip())
    return {name for node in ast.walk(tree) if (name := dotted(node))} if tree is not None else set()


def _binds(statement: ast.stmt, names: set[str]) -> bool:
    return any(dotted(target) in names for target, _, _ in targets(statement))


def _constructs(statement: ast.stmt, kind: str) -> bool:
    call = _constructor(getattr(statement, "value", None))
    return call is not None and callee(call)[1] == kind


def _class_around(place: Place) -> str | None:
    module = body_around(place.file, 0)
    classes = (n for n in (module.node.body if module is not None else ()) if isinstance(n, ast.ClassDef))
    return next((each.name for each in classes if covers(each, place.line)), None)


def _holding(scene: Scene, leaf: Leaf) -> Iterator[tuple[Body, ast.stmt]]:
    """Yield what assigns an attribute around a leaf, outside of any `__init__`, or the variable of its model."""
    root, *inner = leaf.name.split(".")
    for body in functions(scene.site[0]):
        for statement in statements(body.node) if body.name != "__init__" else ():
            for target, _, _ in targets(statement):
                if isinstance(target, ast.Attribute) and dotted(target.value) == "self" and target.attr in inner:
                    yield body, statement
    place = scene.assigned(scene.models.get(root)) if root in scene.models else None
    around, made = read_at(place)
    if around is not None and made is not None:
        yield around, made


def _runs_each_time(scene: Scene, body: Body, statement: ast.stmt) -> bool:
    if body.name in _FORWARD and any(each is statement for each in body.node.body):
        return True
    line = scene.site[1]
    first, last = min(statement.lineno, line), max(statement.lineno, line)
    loops = (s for s in statements(body.node) if isinstance(s, LOOPS) and body.file == scene.site[0])
    return any(s.lineno < first and last <= (s.end_lineno or 0) for s in loops)


def filtering(built: Place) -> Place | None:
    """Return the statement that takes only what requires a gradient: the one that builds an optimizer, or one of a
    function in its file that it calls."""
    body, statement = read_at(built)
    if body is None or statement is None:
        return None
    names = {callee(call)[1] for call in calls_in(statement)}
    inside = [(body, statement)]
    inside += [(b, s) for b in functions(body.file) if b.name in names for s in statements(b.node)]
    return only(each.place(s) for each, s in inside if _filters(s))


def _filters(statement: ast.stmt) -> bool:
    """Whether a statement selects parameters by `requires_grad`: a filter, a comprehension, or an `if`."""
    tests = [statement.test] if isinstance(statement, ast.If) else []
    if isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        tests += [i for each in ast.walk(statement) if isinstance(each, ast.comprehension) for i in each.ifs]
        tests += [c.args[0] for c in calls_in(statement) if callee(c) == (None, "filter") and c.args]
    return any(isinstance(n, ast.Attribute) and n.attr == "requires_grad" for each in tests for n in ast.walk(each))


class Late(NamedTuple):
    """A statement that makes what an optimizer was created without, and what the program calls that."""

    place: Place
    name: str


def created_after(scene: Scene, leaves: Sequence[Leaf], built: Place) -> list[Late]:
    """Return the statements, further down than that which builds an optimizer, that create leaves or their modules."""
    around = body_around(built.file, built.line)
    if around is None:
        return []
    below = [each for each in statements(around.node) if each.lineno > built.last]
    again = {id(inner) for each in below if isinstance(each, LOOPS) for inner in ast.walk(each)}
    bound = {name: each for each in below if id(each) not in again for name in _bound_to_new(each)}
    found: dict[Place, Late] = {}
    constructed: dict[frozenset[str], Place | None] = {}
    for leaf in leaves:
        parts = leaf.name.split(".")
        prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        name = next((each for each in prefixes if each in bound), "")
        place = around.place(bound[name]) if name else None
        if place is None:
            own, name = _kinds_around(scene, leaf), leaf.name.rpartition(".")[0]
            if own not in constructed:
                constructed[own] = _constructed_after(around, own, built)
            place = constructed[own]
        if place is not None:
            found.setdefault(place, Late(place, name))
    return sorted(found.values(), key=lambda each: each.place.position)


def first_use(scene: Scene, leaf: Leaf) -> Evidence | None:
    """The statement that a watch saw use first what no variable holds any more."""
    users = (node for node in scene.graph.nodes if any(each and each.node.index == leaf.node for each in node.inputs))
    first = min(users, key=lambda node: node.sequence or 0, default=None)
    return if_known(scene.line_of(first), "uses it first.") if first is not None else None


def all_of(name: str, leaves: Sequence[Leaf]) -> str:
    """The expression for a leaf, or for the parameters of a model, in a list."""
    return name if any(leaf.name == name for leaf in leaves) else f"*{name}.parameters()"


def trainable(leaves: Sequence[Leaf]) -> str:
    """The expression for what an optimizer created after these leaves is to hold."""
    models = list(dict.fromkeys(leaf.name.partition(".")[0] for leaf in leaves if "." in leaf.name))
    each = [f"p for p in {model}.parameters() if p.requires_grad" for model in models]
    alone = [leaf.name for leaf in leaves if "." not in leaf.name]
    if len(each) == 1 and not alone:
        return f"[{each[0]}]"
    return f"[{', '.join([*(f'*({one})' for one in each), *alone])}]"


def _bound_to_new(statement: ast.stmt) -> Iterator[str]:
    """Yield what a statement binds to what it constructs, as a path: `model.2` of `model[2] = nn.Linear(4, 4)`."""
    for target, value in assigned(statement):
        if _constructor(value) is not None and (path := _path_of(target)):
            yield path


def _path_of(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return f"{inner}.{target.slice.value!s}" if (inner := _path_of(target.value)) else ""
    if isinstance(target, ast.Attribute):
        return f"{inner}.{target.attr}" if (inner := _path_of(target.value)) else ""
    return target.id if isinstance(target, ast.Name) else ""


def _kinds_around(scene: Scene, leaf: Leaf) -> frozenset[str]:
    """Return the names of the program's own classes of the modules that have a leaf, but for the model's."""
    model = scene.models.get(leaf.name.partition(".")[0])
    return frozenset(
        type(module).__name__
        for path, module in (modules_in(model) if model is not None else ())
        if path and is_user_class(type(module).__module__) and any(p is leaf.tensor() for p in parameters_in(module))
    )


def _constructed_after(around: Body, kinds: Collection[str], built: Place) -> Place | None:
    """The only statement that leads to the constructors of some classes, if it stands below the optimizer's."""
    if not kinds:
        return None
    found = list(_calling(built.file, kinds))
    inner = {body.name for body, _ in found if body.node is not around.node}
    if inner:
        found = [each for each in found if each[0].node is around.node] + list(_calling(built.file, inner))
    elsewhere = any(body.node is not around.node for body, _ in found) or "__init__" in inner
    lines = dict.fromkeys(around.place(statement) for _, statement in found)
    place = next(iter(lines)) if len(lines) == 1 and not elsewhere else None
    return place if place is not None and place.line > built.last else None


def _calling(file: str, names: Collection[str]) -> Iterator[tuple[Body, ast.stmt]]:
    for body, statement in statements_of(file):
        if any(callee(call)[1] in names for call in calls_in(statement)):
            yield body, statement


_DERIVATIVE = re.compile(r"grad|jacobian|hessian|laplac|derivative|^[vj]jp$", re.IGNORECASE)
_SHOWS = frozenset({"print", "debug", "info", "log"})


def gradient_is_wanted(scene: Scene, leaf: Leaf) -> str:
    """Say why the gradient of a leaf is most likely an end in itself; empty if nothing speaks for it.

    Physics-informed networks and gradient penalties differentiate with respect to an input, attacks and weights that
    are updated by hand read `.grad`. An input is new in each step, where a forgotten weight stays.
    """
    if not leaf.name:
        return "No variable holds it anymore, so it lives only for this step."
    if any("BackwardBackward" in kind.name for kind in scene.graph.types):
        return "This loss contains gradients (create_graph=True) with respect to such leaves."
    if scene.past is not None and not scene.past.had_leaf(leaf.tensor()):
        return "It is new: the previous audit here saw a different one."
    names = [other for name in leaf.names for other in (name, *_items_of(scene.site[0], name))]
    line = next((line for name in names for line in _uses_gradient(scene.site[0], name)), None)
    return f"Its gradient is used on line {line}." if line else ""


def _items_of(file: str, name: str) -> Iterator[str]:
    """Yield what loops of a file call an item of a list or dict, `w` of `for p, w in zip(parameters, inner)`."""
    whole = name.partition("[")[0]
    module = body_around(file, 0) if whole != name else None
    for node in ast.walk(module.node) if module is not None else ():
        if not isinstance(node, ast.For | ast.comprehension):
            continue
        over, target = node.iter, node.target
        pairs = [(target, over)]
        if isinstance(over, ast.Call) and callee(over)[1] == "zip" and isinstance(target, ast.Tuple):
            pairs = list(zip(target.elts, over.args, strict=False))
        for goal, given in pairs:
            inner = callee(given)[0] if isinstance(given, ast.Call) and callee(given)[1] == "values" else given
            if isinstance(goal, ast.Name) and dotted(inner) == whole:
                yield goal.id


def _uses_gradient(file: str, name: str) -> Iterator[int]:
    """Yield the lines of a file that read the gradient of the variable `name`, or differentiate with respect to it."""
    module = body_around(file, 0)
    stack: list[ast.AST] = [module.node] if module else []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and callee(node)[1] in _SHOWS:
            continue
        reads = isinstance(node, ast.Attribute) and node.attr == "grad" and dotted(node.value) == name
        if reads or (isinstance(node, ast.Call) and name in _given(node) and _differentiates(file, callee(node)[1])):
            yield int(getattr(node, "lineno", 0))
        stack += ast.iter_child_nodes(node)


def _differentiates(file: str, function: str) -> bool:
    """Whether a function is called after what it does, or is one of the file's that calls `autograd.grad`."""
    if _DERIVATIVE.search(function):
        return True
    bodies = (each for each in functions(file) if each.name == function)
    calls = (node for body in bodies for s in statements(body.node) for node in expressions(s))
    return any(isinstance(n, ast.Call) and is_gradient_call(n) for n in calls)


def _given(call: ast.Call) -> set[str | None]:
    """Return the variables that are handed to a call after its first argument, which is what is differentiated."""
    given = [*call.args[1:], *(k.value for k in call.keywords if k.arg in ("inputs", "wrt", "primals", "x"))]
    return {dotted(node) for each in given for node in ast.walk(each)}


# Models whose parameters follow those of another one: a target network, a teacher, an average of weights.


_MOST_CALLS = 3
"""Functions that call one another, between a loop and a statement."""


def followers(scene: Scene, leaves: Sequence[Leaf]) -> dict[str, tuple[list[Leaf], Place | None]]:
    """Return the models, by name, that hold leaves and are written by the program, and the statement that does it.

    No optimizer is to hold these leaves: what they learn comes from the other model.
    """
    averaged = {name for name, model in scene.models.items() if issubclass(type(model), AveragedModel)}
    written = {
        each.target.rpartition(".")[2]: each.outermost
        for each in (writes(scene.site[0]) if leaves else ())
        if each.target and each.origin and each.how in ("loads", "blends", "shares") and _again(each)
    }
    found: dict[str, tuple[list[Leaf], Place | None]] = {}
    for leaf in leaves:
        parts = leaf.name.split(".")
        paths = {".".join(parts[: at + 1]): parts[at] for at in range(len(parts) - 1)}
        for path, last in paths.items():
            if path in averaged or last in written:
                found.setdefault(path, ([], written.get(last)))[0].append(leaf)
                break
    return found


def _again(written: Writes) -> bool:
    """Whether a statement runs again while the training goes on: what is copied once may be a first value."""
    return _is_in_a_loop(written.body, written.begins) or _is_repeated(written.body, _MOST_CALLS)


def _is_repeated(body: Body, most: int) -> bool:
    """Whether a function is called in a loop, or by a function that is."""
    calls = callers(body) if most and body.name != "__init__" else ()
    return any(_is_in_a_loop(each, at.lineno) or _is_repeated(each, most - 1) for each, at, _ in calls)


def _is_in_a_loop(body: Body, line: int) -> bool:
    loops = (each for each in statements(body.node) if isinstance(each, LOOPS))
    return any(covers(each, line) for each in loops)


def given_to_init(made: Sequence[Anew]) -> str:
    """Say which variables of the function that creates modules __init__ has to be given."""
    found, where = dict[str, None](), ""
    for each in made:
        body, statement = read_at(each.place)
        where = body.name if body is not None else ""
        own = parameters_of(body.node).union(*map(bound, statements(body.node))) if body is not None else set()
        found |= dict.fromkeys(name for name in names_read(statement) if name in own and name != "self")
    if not found:
        return ""
    them, are = ("an argument", "it is") if len(found) == 1 else ("arguments", "they are")
    return f" __init__ has to be given {listed([*found])}, as {them}: {are} known in {where}() alone."
