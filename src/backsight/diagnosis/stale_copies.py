"""BS138, BS150, BS164: what predicts, or is computed with, is a copy that stays as it was while another is trained."""

from __future__ import annotations

import ast
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

import torch

from backsight.diagnosis.amending import added, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import (
    calls_around,
    ending,
    endings_of,
    loops_around,
    named,
    running_at,
    statements_around,
    writes_around,
)
from backsight.diagnosis.twins import Twin
from backsight.diagnosis.wording import counted, if_known, numbered, shown, warning
from backsight.naming import search
from backsight.source import Body, Place, only, read_at
from backsight.source.averaging import Writes
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.source.edits import OR
from backsight.tape import modules_in, parameters_in, registered
from backsight.tape.saved import is_readable
from backsight.tracing import Line, Told, Watch, ended, peculiar, whence
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters


def gathered(twin: Twin, reached: Collection[int], since: int, steps: int, frame: FrameType) -> Finding | None:
    """Return the finding that a model is trained with the gradients of a copy that stays as it was.

    reached: the ids of the leaves that losses were seen to depend on: those of the copy, and none of the model's.
    """
    target, trained = twin.target(), twin.trained()
    if target is None or trained is None or not twin.is_unchanged:
        return None
    copies, held = list(parameters_in(target)), list(parameters_in(trained))
    if not any(id(p) in reached and p.grad is not None for p in copies) or any(id(p) in reached for p in held):
        return None
    if not any(p.grad is not None for p in held):
        return None
    name, other = (named(each, "") for each in (target, trained))
    if not name or not other:
        return None
    gathers = list(dict.fromkeys(_gatherings(frame)))
    place = only(gathers)
    refresh, load = _refreshing(frame, other), f"{name}.load_state_dict({other}.state_dict())"
    return warning(
        "BS138",
        f"{name} never changes, although {other} is trained with its gradients.",
        (
            f"The losses depend on {name} and not on {other}. Its parameters have been bit-identical since step "
            f"{numbered(since)}, for {counted(steps, 'step')}, so these are gradients at old weights.",
            if_known(place, f"gives {other} the gradients."),
            if_known(refresh, "copies the weights, but not after each step.", "read"),
        ),
        f"Call {refresh.text} after each optimizer step{_after_step(frame, refresh.text)}."
        if refresh is not None
        else f"Copy the weights after each optimizer step: {load}{_after_step(frame, load)}.",
        refresh or place,
        since=since,
    )


def _after_step(frame: FrameType, code: str) -> str:
    """Run a statement after that which a frame runs, which makes a step."""
    body, statement = running_at(frame)
    return added(code, "beside", body.place(statement)) if body is not None and statement is not None else ""


def _gatherings(frame: FrameType) -> Iterator[Place]:
    """Yield the statements that give a parameter a gradient: `p.grad = ...`."""
    for body, each in statements_around(frame):
        if any(isinstance(goal, ast.Attribute) and goal.attr == "grad" for goal, _ in assigned(each)):
            yield body.place(each)


def _refreshing(frame: FrameType, other: str) -> Place | None:
    """Return the one call of a function that writes the weights of a model into those of others."""
    trained = {name for each in _modules(other) for name in endings_of(each)}
    functions = {
        each.body.name
        for each in writes_around(frame)
        if each.how in ("blends", "loads") and ending(each.origin) in trained
    } - {"", "__init__"}
    return only(
        body.place(statement, ast.unparse(call))
        for body, statement, call in calls_around(frame)
        if callee(call)[1] in functions
    )


def _modules(path: str) -> list[torch.nn.Module]:
    found = search((), collect=(torch.nn.Module,)).found
    return [each for each, name in found if isinstance(each, torch.nn.Module) and name.path == path]


def loads_the_start(twin: Twin, since: int, loads: int, frame: FrameType) -> Finding | None:
    """Return the finding that a twin is loaded again and again with values that it has already."""
    target, trained = twin.target(), twin.trained()
    if target is None or trained is None:
        return None
    name, other, names = named(target, ""), named(trained, ""), twin.names
    every = (each for each in writes_around(frame) if each.how == "loads" and ending(each.target) in names)
    found = list({each.place: each for each in every}.values())
    if len(found) != 1 or found[0].origin or not name or not other:
        return None
    kept = _kept(frame, _state(found[0]))
    load = f"{found[0].target}.load_state_dict({_written(other, found[0])}.state_dict())"
    if kept is None:
        return None
    return warning(
        "BS138",
        f"{name} never changes, although it should follow {other}.",
        (
            f"It was loaded at least {loads} times since step {numbered(since)}, with the values it already had.",
            shown(found[0].place, "loads the same values each time.", "read"),
            shown(kept, "stores them once; training does not change them.", "read"),
        ),
        f"Load what {other} has learned: {load}{written(found[0].place, load)}.",
        found[0].place,
        since=since,
    )


def _state(found: Writes) -> str:
    calls = (
        call
        for each in statements(found.body.node)
        if each.lineno == found.place.line
        for call in ast.walk(each)
        if isinstance(call, ast.Call) and callee(call)[1] == "load_state_dict" and call.args
    )
    return next((dotted(call.args[0]) or "" for call in calls), "")


def _kept(frame: FrameType, state: str) -> Place | None:
    """Return the one statement that gives a state its name, if it is in no loop and a function that begins."""
    if not state:
        return None
    found = [
        (body, each)
        for body, each in statements_around(frame)
        if any(dotted(goal) == state for goal, _ in assigned(each))
    ]
    if len(found) != 1:
        return None
    body, kept = found[0]
    if loops_around(body, kept.lineno):
        return None
    return body.place(kept) if getattr(body.node, "name", "__init__") == "__init__" or "." not in state else None


def _written(other: str, found: Writes) -> str:
    """Write what is trained as the function around a statement does: `self.policy` for `agent.policy`."""
    return f"self.{ending(other)}" if found.target.startswith("self.") and "." in other else other


# BS138: a model is evaluated that never changes, while a dict of its weights is trained.


_FEW = 4


@dataclass(frozen=True)
class Held:
    """The variable that holds a dict of a model's weights, other than its own, and some of the values."""

    name: str
    values: tuple[float, ...]


def held(module: torch.nn.Module) -> Held | None:
    """Return the one dict that has an entry for each parameter of a module, of the same shape, and other values."""
    own = {
        f"{path}.{name}" if path else name: each
        for path, inner in modules_in(module)
        for name, each in registered(inner, "_parameters").items()
        if isinstance(each, torch.Tensor)
    }
    found: dict[int, Held] = {}
    for each, name in search((), collect=(dict,), where=lambda each: dict.__len__(each) == len(own)).found:
        if not isinstance(each, dict) or not own or name.path.startswith("self.__") or set(each) != set(own):
            continue
        pairs = [(own[key], value) for key, value in each.items()]
        if not all(type(value) is torch.Tensor and value.shape == p.shape and is_readable(value) for p, value in pairs):
            continue
        if any(value.data_ptr() == p.data_ptr() or not torch.isfinite(value).all() for p, value in pairs):
            continue
        if any(not torch.equal(value.detach(), p.detach()) for p, value in pairs):
            few = tuple(float(value.detach().sum()) for _, value in pairs[:_FEW])
            found[id(each)] = Held(name.path, few)
    # Several are the velocities of a momentum as well: those that are trained go into functional_call, by name.
    return next(iter(found.values())) if len(found) == 1 else _by_name(list(found.values()))


def _by_name(every: list[Held]) -> Held | None:
    return only(each for each in every if "param" in each.name.lower() or "weight" in each.name.lower())


def never_updated(module: torch.nn.Module, weights: Held, frame: FrameType) -> Finding:
    """Return the finding that a model, evaluated by the statement of a frame, is not what is trained."""
    name, (body, statement) = named(module), running_at(frame)
    place = body.place(statement) if body is not None and statement is not None else None
    trained, copied = _calls(frame), _copied(frame, weights.name)
    call = f"{name}.load_state_dict({weights.name})"
    return warning(
        "BS138",
        f"{name} never changes: what is trained is {weights.name}, a dict of other weights.",
        (
            if_known(copied, f"copies the parameters of {name} into {weights.name}."),
            if_known(trained, f"computes with weights that are handed in, not with those of {name}."),
            if_known(place, f"evaluates {name}, whose parameters are bit-identical to those of the start."),
        ),
        f"Copy them back before you evaluate, and after the training: {call}{added(call, 'above', place)}. "
        f"{OR}Or evaluate with functional_call("
        f"{name}, {weights.name}, (x,)).",
        place,
    )


def _calls(frame: FrameType) -> Place | None:
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        if any(callee(call)[1] == "functional_call" for call in calls_in(statement))
    )


def _copied(frame: FrameType, name: str) -> Place | None:
    """Return the one statement that fills the dict with what a module has for parameters."""
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        if isinstance(statement, ast.Assign) and any(dotted(goal) == name for goal in statement.targets)
        if any(callee(call)[1] in ("named_parameters", "state_dict") for call in calls_in(statement))
    )


# BS164: copies of modules are trained, and the modules themselves predict: `stack_module_state` copies.


_WRITES = frozenset({"load_state_dict", "copy_", "set_"})


def untrained_members(watch: Watch) -> Iterator[Finding]:
    """Yield the finding that modules are called whose parameters were stacked into copies, which an optimizer holds.

    The watch has seen the stacking; that the copies are trained, and that the modules are called and never given the
    trained values, the text tells.
    """
    files: dict[str, Told] = {}
    for each in peculiar(watch):
        if each.seen.kind == "stacked":
            files.setdefault(each.line.file, each)
    for file in files:
        bodies = list(functions(file))
        for stacked in (found for body in bodies for found in _stackings(body)):
            place, members, parameters = stacked
            trained = next((found for body in bodies for found in _trains(body, parameters)), None)
            called = next((found for body in bodies for found in _calls_members(body, members)), None)
            if trained is None or called is None or any(_writes_back(body, members) for body in bodies):
                continue
            yield _finding_of_members(place, trained, called, members, parameters)
            return


def _stackings(body: Body) -> Iterator[tuple[Place, str, str]]:
    """Yield the statements that stack modules: with the name of these, and of the parameters that result."""
    for statement in statements(body.node):
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=[goal, _])], value=ast.Call(args=[given]) as call):
                members, parameters = dotted(given), dotted(goal)
                if callee(call)[1] == "stack_module_state" and members is not None and parameters is not None:
                    yield body.place(statement), members, parameters


def _trains(body: Body, parameters: str) -> Iterator[Place]:
    """Yield the statements that give the stacked parameters to an optimizer."""
    for statement in statements(body.node):
        for call in calls_in(statement):
            inside = (each for given in call.args for each in calls_in(ast.Expr(given)))
            held = {ending(dotted(callee(each)[0])) for each in inside if callee(each)[1] == "values"}
            if ending(parameters) in held and callee(call)[1][:1].isupper():
                yield body.place(statement)


def _loops(body: Body, members: str) -> Iterator[tuple[ast.stmt, set[str], ast.AST]]:
    """Yield what goes through the modules: the statement, the names of each, and where these are used."""
    for statement in statements(body.node):
        if isinstance(statement, ast.For) and _goes_through(statement.iter, members):
            yield statement, _target_names(statement.target), statement
        for node in ast.walk(statement) if not hasattr(statement, "body") else ():
            for each in getattr(node, "generators", ()):
                if _goes_through(each.iter, members):
                    yield statement, _target_names(each.target), node


def _goes_through(given: ast.expr, members: str) -> bool:
    return any(ending(dotted(each)) == ending(members) for each in ast.walk(given))


def _target_names(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _calls_members(body: Body, members: str) -> Iterator[Place]:
    for statement, names, scope in _loops(body, members):
        calls = (each.func for each in ast.walk(scope) if isinstance(each, ast.Call))
        if any(isinstance(each, ast.Name) and each.id in names for each in calls):
            yield body.place(statement)


def _writes_back(body: Body, members: str) -> bool:
    inside = (node for _, _, scope in _loops(body, members) for node in ast.walk(scope))
    return any(isinstance(node, ast.Call) and callee(node)[1] in _WRITES for node in inside)


def _finding_of_members(place: Place, trained: Place, called: Place, members: str, parameters: str) -> Finding:
    return warning(
        "BS164",
        f"{members} are not trained: {parameters} are copies, and the optimizer trains only those.",
        (
            shown(place, "copies the parameters into stacked tensors."),
            shown(trained, "trains the copies.", "read"),
            shown(called, "calls the modules, which still have their initial parameters.", "read"),
        ),
        f"Predict with the trained parameters: functional_call under vmap, as in training. Or copy row k of each "
        f"tensor in {parameters} back into {members}[k] after training.",
        called,
    )


# BS150: a number was taken from what is trained, once, before the training.


_CUTS = frozenset({"detach", "data", "no_grad", "rewrapped"})

_SEEN = 8
"""Optimizer steps that have to be watched: what takes the number again in each of them has done so by then."""


def taken_once(watch: Watch, optimizers: Iterable[torch.optim.Optimizer]) -> list[Finding]:
    """Return the findings of single numbers that are trained, and whose value was taken before: by `.item()`, or as a
    detached tensor with a memory of its own.

    The program has to give it a name once, and to multiply or divide by that elsewhere. Who only wants to print how far
    it has moved subtracts it.
    """
    marks: Sequence[int] = watch.steps.past.get(threading.get_ident(), ())
    if len(marks) < _SEEN:
        return []
    held = {id(p) for each in optimizers for p in parameters(each) if p.numel() == 1}
    visits: dict[Line, list[tuple[list[torch.Tensor], int]]] = {}
    for cut, leaves, made in ended(watch, "item"):
        if cut.line is not None:
            visits.setdefault(cut.line, []).append(([p for ref in leaves if (p := ref()) is not None], made))
    found = []
    for line, times in visits.items():
        leaves_then, made = times[0]
        if len(times) == 1 and made <= marks[0] and len(leaves_then) == 1 and id(leaves_then[0]) in held:
            finding = _told(line.place, leaves_then[0], "takes the value once, as a Python number.")
            found += [finding] if finding is not None else []
    return found or list(_tensors(watch, held, marks[0]))


def _tensors(watch: Watch, held: set[int], began: int) -> Iterator[Finding]:
    """Yield the findings of tensors that were detached before the first step, and were not written since."""
    told = set()
    for tensor, _ in search((), collect=(torch.Tensor,), where=_is_number).found if held else ():
        if not isinstance(tensor, torch.Tensor) or tensor.requires_grad or not _is_fresh(tensor):
            continue
        for cut, refs, made in whence(watch, tensor)[:1]:
            leaves = [p for ref in refs if (p := ref()) is not None]
            if cut.line is None or cut.line in told or cut.by not in _CUTS or made > began:
                continue
            if len(leaves) == 1 and id(leaves[0]) in held and not _shares(tensor, leaves[0]):
                told.add(cut.line)
                finding = _told(cut.line.place, leaves[0], "takes the value once, into a tensor of its own.")
                if finding is not None:
                    yield finding


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.numel() == 1


def _is_fresh(tensor: torch.Tensor) -> bool:
    """Whether no operation has written into a tensor since it was made."""
    return is_readable(tensor) and version(tensor) == 0


def _shares(tensor: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Whether a tensor has the memory of a leaf, and so follows it: `w.detach()`."""
    return not is_readable(leaf) or tensor.data_ptr() == leaf.data_ptr()


def _told(place: Place, leaf: torch.Tensor, says: str) -> Finding | None:
    body, made = read_at(place)
    if body is None or not isinstance(made, ast.Assign) or len(made.targets) != 1:
        return None
    name, bodies = dotted(made.targets[0]), list(functions(place.file))
    if name is None or sum(_binds_anew(each, name) for other in bodies for each in statements(other.node)) != 1:
        return None
    used = next((use for other in bodies if (use := _multiplied(other, name)) is not None), None)
    of = next((each.path for each in search([leaf], limit=1).names[0]), "what is trained")
    if used is None:
        return None
    return warning(
        "BS150",
        f"{name} is a value taken from {of} before training: it does not follow what the optimizer learns.",
        (shown(place, says), shown(used, "computes with that value in each step.")),
        f"Take it again after each optimizer step: {place.text}. Or compute it from {of} where it is used, with "
        "detach() if that loss should not train it.",
        place,
    )


def _binds_anew(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a variable, or an attribute of any object, this name."""
    match statement:
        case ast.Assign(targets=targets):
            goals = [each for goal in targets for each in (goal.elts if isinstance(goal, ast.Tuple) else [goal])]
        case ast.AugAssign(target=goal) | ast.AnnAssign(target=goal):
            goals = [goal]
        case _:
            return False
    return any(ending(dotted(goal)) == ending(name) for goal in goals)


def _multiplied(body: Body, name: str) -> Place | None:
    """Return the statement of a function that multiplies or divides by what has this name."""
    for statement in statements(body.node):
        inside = (each for each in ast.walk(statement) if isinstance(each, ast.BinOp))
        products = (each for each in inside if isinstance(each.op, ast.Mult | ast.Div))
        compound = hasattr(statement, "body")
        if not compound and any(dotted(side) == name for each in products for side in (each.left, each.right)):
            return body.place(statement)
    return None
