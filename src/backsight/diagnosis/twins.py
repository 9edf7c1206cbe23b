"""A network that is to follow another one, a target or an average of its weights, and does not.

BS138: it never changes. BS144: it is the other one, as both have the same parameters.
"""

from __future__ import annotations

import ast
import ctypes
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType

import torch

from backsight.diagnosis.amending import added, are_beside, around, assigned_at, instead, place_on, swapped, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.misplaced import modulus
from backsight.diagnosis.modes import BATCH_NORMS
from backsight.diagnosis.program import (
    bodies,
    calls_around,
    conditions_around,
    ending,
    endings_of,
    files_around,
    loops_around,
    modules,
    named,
    program_frames,
    running,
    statements_around,
    writes_around,
)
from backsight.diagnosis.wording import counted, if_known, listed, numbered, shown, warning
from backsight.naming import search
from backsight.source import Body, Place, only, statements_of
from backsight.source.averaging import Writes, writes
from backsight.source.bindings import assignments, target_names
from backsight.source.body import (
    body_around,
    callee,
    callers,
    dotted,
    expressions,
    statement_at,
    statements,
)
from backsight.source.edits import OR
from backsight.source.guards import begins_later
from backsight.story.fixes import removed
from backsight.tape import is_captured, modules_in, parameters_in, registered
from backsight.tape.saved import is_readable
from backsight.tracing import current
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

_NUMBERS = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}
_FEW = 4
"""Parameters of a module that are looked at, and of each"""
_SMALL = 64
"""as many values."""

_MOST = 4
_STATISTICS = frozenset({"update_bn", "buffers", "named_buffers", "load_state_dict", "reset_running_stats"})
_LOST = ("rebinds", "state")
"""How a statement writes nothing into the parameters."""


@dataclass(frozen=True)
class Twin:
    """A module that no optimizer trains, made like one that is trained, and what its parameters were at first.

    `names` are the last ones of its variables then: what they hold later may be another module.
    """

    target: weakref.ref[torch.nn.Module]
    trained: weakref.ref[torch.nn.Module]
    was: tuple[object, ...]
    names: frozenset[str]
    statistics: tuple[tuple[object, ...], tuple[object, ...]] = ((), ())
    """What the running means of its batch normalizations were, and those of the trained one's."""

    @property
    def is_outdated(self) -> bool:
        """Whether its parameters follow, while its running statistics are those of the start."""
        target, trained = self.target(), self.trained()
        if target is None or trained is None or not self.statistics[0] or self.is_unchanged:
            return False
        return _mark(_means(target)) == self.statistics[0] and _mark(_means(trained)) != self.statistics[1]

    @property
    def is_evaluated(self) -> bool:
        """Whether it is in evaluation mode, in which those are used."""
        target = self.target()
        modules = modules_in(target) if target is not None else ()
        return not any(each.training for _, each in modules if isinstance(each, BATCH_NORMS))

    @property
    def values(self) -> tuple[int, tuple[object, ...]]:
        """How often its first parameter was changed in place, and some values of some; nothing once it is gone."""
        target = self.target()
        marks = _mark(parameters_in(target)) if target is not None else ()
        return (int(str(marks[0])), marks[2::3]) if marks else (0, ())

    @property
    def is_unchanged(self) -> bool:
        """Whether its parameters are what they were; so they stay once it is gone."""
        target = self.target()
        return target is None or _mark(parameters_in(target)) == self.was


def twins(optimizers: Iterable[torch.optim.Optimizer]) -> list[Twin]:
    """Return the modules that variables hold, none of whose parameters an optimizer has, and whose like is trained."""
    held = {id(p) for each in optimizers for p in parameters(each)}
    pairs = []
    for alike in _alike(lambda p: (p.shape, p.dtype)):
        trained = [m for m in alike if any(id(p) in held for p in parameters_in(m))]
        others = [m for m in alike if not any(id(p) in held for p in parameters_in(m))]
        marks = [(each, _mark(parameters_in(each))) for each in others] if len(trained) == 1 else []
        means = _mark(_means(trained[0])) if marks else ()
        pairs += [
            Twin(weakref.ref(t), weakref.ref(trained[0]), was, frozenset(endings_of(t)), (_mark(_means(t)), means))
            for t, was in marks
            if was
        ]
    return pairs[:_MOST]


def _alike(what: Callable[[torch.Tensor], object]) -> Iterable[list[torch.nn.Module]]:
    """Return the modules of each class that have the same of their parameters, if they have any."""
    alike: dict[object, list[torch.nn.Module]] = {}
    for module in modules():
        if marks := tuple(map(what, parameters_in(module))):
            alike.setdefault((type(module), marks), []).append(module)
    return alike.values()


def _means(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    norms = (each for _, each in modules_in(module) if isinstance(each, BATCH_NORMS))
    means = (registered(each, "_buffers").get("running_mean") for each in norms)
    return (each for each in means if isinstance(each, torch.Tensor))


def _mark(tensors: Iterable[torch.Tensor]) -> tuple[object, ...]:
    """Return what changes with the first of some tensors; nothing if they lie on a device.

    A change through `.data` counts no version, so values are read, in place, as no operation of PyTorch's.
    """
    marks: list[object] = []
    for parameter in islice(tensors, _FEW):
        number = _NUMBERS.get(parameter.dtype)
        if number is None or not parameter.is_cpu or not is_readable(parameter) or not parameter.is_contiguous():
            return ()
        size = min(parameter.numel(), _SMALL)
        place = parameter.data_ptr()
        marks += [version(parameter), place, ctypes.string_at(place, size * parameter.element_size()) if size else b""]
    return tuple(marks)


def never_follows(twin: Twin, since: int, steps: int, frame: FrameType | None) -> Finding | None:
    """Return the finding that a twin has not changed, where the program says that it follows what is trained.

    That a network stays as it was is mostly meant: a teacher, a reference. So a statement has to write it, from where
    it would do so again and again; or one writes it into what is trained, little by little, and none the other way.
    """
    target, trained = twin.target(), twin.trained()
    if target is None or trained is None or not twin.is_unchanged:
        return None
    (of_target, of_trained) = (endings_of(each) for each in (target, trained))
    every = list(writes_around(frame))
    follows = [each for each in every if ending(each.target) in of_target and ending(each.origin) in {*of_trained, ""}]
    back = [each for each in every if ending(each.target) in of_trained and ending(each.origin) in of_target]
    name, other = (search([each]).names[0] for each in (target, trained))
    if not name or not other:
        return None
    names = name[0].path, other[0].path
    follows = list({each.place: each for each in follows}.values())  # a function and its call, by the same names
    periodic = [each for each in follows if _is_periodic(each)]
    nothing = all(each.how in _LOST for each in periodic)
    once = len(periodic) == 1 and (nothing or len(follows) == 1) and not _has_run(periodic[0], target)
    if once and (nothing or not _begins_later(periodic[0], steps)):
        return _finding(names, periodic[0], since, steps)
    blends = [each for each in back if each.how == "blends" and _is_periodic(each)]
    if len(blends) == 1 and not follows:
        return _exchanged(names, blends[0], since, steps)
    return None


def outdated(twin: Twin, since: int, frame: FrameType | None) -> Finding | None:
    """Return the finding that a twin follows what is trained by its parameters, but not by its batch statistics."""
    target, trained = twin.target(), twin.trained()
    if target is None or trained is None or not twin.is_outdated:
        return None
    (of_target, of_trained) = (endings_of(each) for each in (target, trained))
    name, other = (named(each, "") for each in (target, trained))
    every = [each for each in writes_around(frame) if each.how == "blends"]
    places = {each.place: each for each in every if ending(each.target) in of_target}
    places = places or {each.place: each for each in every if ending(each.origin) in of_trained}
    place = next(iter(places)) if len(places) == 1 else None
    if not name or not other:
        return None
    first = f"The running mean and variance of its batch normalizations are unchanged since step {numbered(since)}"
    return warning(
        "BS138",
        f"{name} follows the parameters of {other}, but not its batch normalization statistics.",
        (
            f"{first}, and eval() uses them; those of {other} have changed.",
            if_known(place, "writes the parameters alone: buffers are not among them."),
        ),
        f"Copy the buffers too: for a, b in zip({name}.buffers(), {other}.buffers()): a.copy_(b)"
        f"{_buffers_too(next(iter(places.values()), None), name, other)}. {OR}For an average that is used "
        "only at the end, torch.optim.swa_utils.update_bn computes them.",
        place,
        since=since,
    )


def _buffers_too(found: Writes | None, name: str, other: str) -> str:
    """Copy the buffers where the parameters are written."""
    if found is None:
        return ""
    code = f"for a, b in zip({name}.buffers(), {other}.buffers()):\n    a.copy_(b)"
    return added(code, "beside", Place(found.body.file, found.begins, ""))


def computes_statistics(frame: FrameType | None) -> bool:
    """Whether the program's files have something that may write running statistics at the end of a training."""
    return any(callee(call)[1] in _STATISTICS for _, _, call in calls_around(frame))


def shared(since: int, frame: FrameType | None) -> list[Finding]:
    """Return the findings of what a statement writes into itself: two names that have the same parameters.

    To share parameters is mostly meant. So the program has to blend, or load, one into the other again and again, and a
    watch must have seen it do so, or do the same once: where there is no average, both may be one.
    """
    written = [each for each in writes_around(frame) if each.origin and each.target != each.origin]
    findings = {}
    for alike in _alike(id) if written else ():
        names = {ending(name.path): name.path for module in alike for name in search([module]).names[0]}
        found = [
            (target, origin, each)
            for each in written
            if (target := names.get(ending(each.target))) and (origin := names.get(ending(each.origin)))
            if target != origin and each.how not in _LOST
        ]
        has_run = {(a, b) for a, b, each in found if _has_run(each, alike[0]) or _is_due(each, frame)}
        for target, origin, each in found:
            if (target, origin) in has_run and _is_periodic(each):
                findings[str(each.outermost)] = _same(target, origin, each, since, frame)
    return list(findings.values())


def _same(target: str, origin: str, found: Writes, since: int, frame: FrameType | None) -> Finding:
    made = [
        body.place(statement)
        for body, statement in statements_around(frame)
        if isinstance(statement, ast.Assign)
        and any(ending(dotted(each)) == ending(target) for each in statement.targets)
    ]
    made = [each for each in made if "copy" in each.text or ending(origin) in each.text] or made
    place = only(made)
    goal, _, given = place.text.partition(" = ") if place is not None else ("", "", "")
    named = re.fullmatch(r"[\w.]+", goal) and re.fullmatch(r"[\w.]+(\.(to|cuda|cpu|eval)\([\w., ]*\))*", given)
    shallow = place is not None and "copy.copy" in place.text
    own = f"{goal} = copy.deepcopy({given})"
    deep = place.text.replace("copy.copy(", "copy.deepcopy(") if place is not None else ""
    says = "copies the module alone, not its parameters." if shallow else "gives it the parameters of the other."
    return warning(
        "BS144",
        f"{target} and {origin} share all their parameters, although one should follow the other.",
        (
            if_known(place, says),
            shown(found.outermost, f"writes {origin} into {target}, which changes nothing."),
        ),
        f"Make it a model of its own: {deep}{written(place, deep)}."
        if shallow and place is not None
        else f"Make it a model of its own: {own}{written(place, own)}."
        if named
        else f"Make it a model of its own, with copy.deepcopy({ending(origin)}).",
        place or found.outermost,
        since=since,
    )


def _is_periodic(found: Writes) -> bool:
    """Whether a statement runs more often than what makes the module: in a loop, or in a function of its own."""
    if loops_around(found.body, found.begins):
        return True
    function, last = found.body.name, ending(found.target)
    makes = any(assignments(found.body, name) for name in (found.target, last, f"self.{last}"))
    once = {caller.name for caller, _, _ in callers(found.body)} == {"__init__"}
    return function not in ("", "__init__") and not makes and not once


def _is_due(found: Writes, frame: FrameType | None) -> bool:
    """Whether a statement of a function that leads to the step waits for a number of turns alone: `n % every == 0`."""
    tests = conditions_around(found.body, found.begins)
    if frame is None or not tests or found.body.name not in running(frame):
        return False
    return all(isinstance(each.test, ast.Compare) and modulus(found.body, each) is not None for each in tests)


def _begins_later(found: Writes, steps: int) -> bool:
    """Whether a statement that never ran may do so yet; half of the steps are enough for one that is due every few."""
    places = (found.place, found.outermost)
    bodies = ((body_around(place.file, place.line), place.line) for place in places)
    return any(body is not None and begins_later(body, line, steps // 2) for body, line in bodies)


def _has_run(found: Writes, target: torch.nn.Module) -> bool:
    """Whether a watch has seen the statement change a parameter, as it may have before these were looked at."""
    watch = current()
    parameter = next(iter(parameters_in(target)), None)
    changes = watch.changes(parameter) if watch is not None and parameter is not None else ()
    lines = {(found.place.file, found.place.line), (found.outermost.file, found.outermost.line)}
    return any(each.line is not None and (each.line.file, each.line.line) in lines for each in changes)


def _finding(names: tuple[str, str], found: Writes, since: int, steps: int) -> Finding:
    name, other = names
    place = found.place if found.how in _LOST else found.outermost
    if found.how == "rebinds":
        says = "rebinds the name to a new tensor: nothing is written into the parameter."
        fix = f"Write into the parameter under torch.no_grad(), with lerp_ or copy_{_in_place(place)}, so that "
        fix += f"{name} follows {other}."
    elif found.how == "state":
        says = "changes an entry of the dict that state_dict() returned: nothing is written into the parameter."
        load = f"{found.target}.load_state_dict({_state(found)})"
        edit = added(load, "beside", Place(found.body.file, found.begins, ""))
        fix = f"Load the dict after the loop, {load}{edit}, {OR}or write with copy_."
    else:
        says = f"would write {other} into it, but never ran."
        function = found.body.name
        fix = f"Check the condition for line {place.line}, and what it counts."
        if function and not any(callers(found.body)):
            fix = f"Call {function}() after the optimizer step: this file never calls it."
    title = f"{name} never changes, although it should follow {other}."
    return warning("BS138", title, (_so_far(since, steps), shown(place, says)), fix, place, since=since)


def _in_place(place: Place) -> str:
    """Write a value into the tensor of a variable, in place of giving the variable another one."""
    goal, value = assigned_at(place)
    return written(place, f"with torch.no_grad():\n    {goal}.copy_({value})") if goal.isidentifier() else ""


def _state(found: Writes) -> str:
    statement = statement_at(found.body, *found.place.position)
    goal = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return dotted(goal.value if isinstance(goal, ast.Subscript) else None) or "state"


def merged(pairs: Iterable[Twin], since: int, frame: FrameType | None) -> list[Finding]:
    """Return the findings of twins that have become what is trained, or have its memory, by a later assignment.

    One name for both is such a fault where one statement gives the twin's name the other module. To share memory may be
    meant, as of an actor with its learner: so the statement has to be one of many steps, as a target that lags has it.
    """
    files = files_around(frame)
    findings: dict[str, Finding] = {}
    for twin in pairs:
        target, trained = twin.target(), twin.trained()
        if trained is None:
            continue
        names, held = search([trained]).names[0], search([target]).names[0] if target is not None else []
        now = [name.path for name in names if ending(name.path) in twin.names]
        other = [name.path for name in names if ending(name.path) not in twin.names]
        if now and other and not any(ending(name.path) in twin.names for name in held):
            places = [each for file in files for each in _replacements(file, now[0], endings_of(trained))]
            says = f"makes both one module: from here on {now[0]} is {other[0]}."
        elif target is not None and names and held and _share(target, trained):
            now, other = [held[0].path], [names[0].path]
            every = (each for each in writes_around(frame) if each.how == "shares")
            places = [each.place for each in every if _is_on_condition(each)]
            says = "gives it the memory of the other, so it changes with each optimizer step."
        else:
            continue
        if len(places) == 1:  # of modules inside of one another, the outermost comes first
            findings.setdefault(str(places[0]), _merged(now[0], other[0], places[0], says, since))
    return list(findings.values())


def _share(target: torch.nn.Module, trained: torch.nn.Module) -> bool:
    """Whether the parameters of two modules have the same memory."""
    first, other = (next(iter(parameters_in(each)), None) for each in (target, trained))
    if first is None or other is None or not (is_readable(first) and is_readable(other)):
        return False
    return first.data_ptr() == other.data_ptr() != 0


def _replacements(file: str, name: str, others: set[str]) -> list[Place]:
    """Return the statements that give a variable the module of another one: `self.target = self.online`."""
    return [
        body.place(each)
        for body, each in statements_of(file)
        if isinstance(each, ast.Assign) and ending(dotted(each.value)) in others - {ending(name)}
        if any(ending(dotted(goal)) == ending(name) for goal in each.targets)
    ]


def _is_on_condition(found: Writes) -> bool:
    """Whether a statement, or the call of the function around it, is inside of an `if`."""
    bodies = [(found.body, found.begins), *((each, at.lineno) for each, at, _ in callers(found.body))]
    return any(
        isinstance(each, ast.If) and each.lineno <= line <= (each.end_lineno or 0)
        for body, line in bodies
        for each in statements(body.node)
    )


def _merged(name: str, other: str, place: Place, says: str, since: int) -> Finding:
    return warning(
        "BS144",
        f"{name} and {other} share all their parameters, although one should follow the other.",
        (f"They were two models at first; at step {numbered(since)} they are one.", shown(place, says)),
        f"Keep both models: {removed(place)}, because line {loaded.line} copies the values."
        if (loaded := _loaded_beside(place)) is not None
        else f"Copy the values and keep both models: {name}.load_state_dict({other}.state_dict()){_loading(place)}.",
        place,
        since=since,
    )


def _loaded_beside(place: Place) -> Place | None:
    """Return the statement that loads the state of a module into another, in the block that then makes both one."""
    goal, value = assigned_at(place)
    found = [
        each.place for each in writes(place.file) if (each.target, each.origin, each.how) == (goal, value, "loads")
    ]
    return only(each for each in found if are_beside(each, place))


def _loading(place: Place) -> str:
    """Load the state of a module that a statement gives another name."""
    goal, value = assigned_at(place)
    loads = goal and not place.text.count(".data")
    return written(place, f"{goal}.load_state_dict({value}.state_dict())") if loads else ""


def _exchanged(names: tuple[str, str], found: Writes, since: int, steps: int) -> Finding:
    name, other = names
    place = found.outermost
    return warning(
        "BS138",
        f"{name} never changes: it is blended into {other}, not {other} into it.",
        (_so_far(since, steps), shown(place, f"writes into {other}, which is trained; nothing writes into {name}.")),
        f"Swap the two on line {place.line}{_swapping(found)}, so that {name} becomes the average.",
        place,
        since=since,
    )


def _swapping(found: Writes) -> str:
    """Exchange two modules in the call that hands them in, or at the head of the loop over their parameters."""
    head = found.called or place_on(found.body.file, found.begins)
    return swapped(head, {found.target: found.origin, found.origin: found.target})


def _so_far(since: int, steps: int) -> str:
    return (
        f"No optimizer trains it, and its parameters have been bit-identical since step {numbered(since)}, for "
        f"{counted(steps, 'step')}."
    )


# BS144: the members of an ensemble are one and the same network, as they began with the same weights.


_LARGEST = 1 << 20
_ROUNDING = 1e-5
"""The relative difference of members that begin as one: a product of several matrices may round each in its own way."""

_LOADS = frozenset({"deepcopy", "copy"})


def one_for_all(optimizers: Iterable[torch.optim.Optimizer], since: int, frame: FrameType) -> list[Finding]:
    """Return the findings of optimizers whose stacked parameters have the same values for each member: `[net] * 5`."""
    for optimizer in optimizers:
        held = [p for p in parameters(optimizer) if p.requires_grad]
        if not _are_the_same(held):
            continue
        frames = list(program_frames(frame))
        found = [each for body in bodies(frame) for each in _repeated(body)]
        networks = [each for each in found if any(_is_network(frame, each[2]) for frame in frames)]
        if len(networks or found) == 1:
            return [_of_members(held, *(networks or found)[0], since)]
    return []


def _is_network(frame: FrameType, name: str) -> bool:
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    return issubclass(type(value), torch.nn.Module)


def _are_the_same(held: list[torch.Tensor]) -> bool:
    """Whether all parameters have as many slices, the same but for rounding, and those of one differ within."""
    sizes = {p.shape[0] if p.dim() else 0 for p in held}
    if len(held) < 2 or len(sizes) != 1 or min(sizes) < 2 or is_captured() or all(p.dim() < 2 for p in held):
        return False
    if any(not is_readable(p) or p.numel() > _LARGEST or p.layout != torch.strided for p in held):
        return False
    with torch.no_grad():
        varied = any(p.dim() > 2 and bool((p[0] != p[0].reshape(-1)[0]).any()) for p in held if p[0].numel())
        return varied and all(float((p - p[:1]).abs().max()) <= _ROUNDING * float(p.abs().max()) for p in held)


def _repeated(body: Body) -> Iterator[tuple[Place, Body, str, ast.expr]]:
    """Yield the lists of one network, or of copies of it, with the name of that."""
    for statement in statements(body.node):
        for node in expressions(statement):
            match node:
                case ast.ListComp(elt=element, generators=[each]) if not each.ifs:
                    if isinstance(element, ast.Call) and callee(element)[1] in _LOADS and len(element.args) == 1:
                        element = element.args[0]
                    name = dotted(element)
                    if name is not None and name.split(".")[0] not in target_names(each.target):
                        yield body.place(statement), body, name, node
                case ast.BinOp(left=ast.List(elts=[element]), op=ast.Mult()) if dotted(element):
                    yield body.place(statement), body, dotted(element) or "", node


def _of_members(held: list[torch.Tensor], place: Place, body: Body, name: str, node: ast.expr, since: int) -> Finding:
    size = held[0].shape[0]
    names = [n[0].path if n else "" for n in search(held[:2], limit=1).names]
    called = listed([*names, *[""] * len(held[2:])], 2) if all(names) else counted(len(held), "parameter")
    made = assignments(body, name)
    values = [each for each in statements(body.node) if isinstance(each, ast.Assign) and body.place(each) in made]
    of = body.text(values[0].value) if len(values) == 1 and isinstance(values[0].value, ast.Call) else "Net(...)"
    times = "range(n)"
    if isinstance(node, ast.ListComp):
        times = body.text(node.generators[0].iter)
    elif isinstance(node, ast.BinOp):
        times = f"range({body.text(node.right)})"
    new = f"[{of} for _ in {times}]"
    edit = instead(body, around(body, node), {node: new}) if of != "Net(...)" else ""
    return warning(
        "BS144",
        f"All {size} members of the ensemble are one network: their weights are the same.",
        (
            shown(place, f"repeats {name}, so every member begins with the same weights."),
            f"In {called}, all {size} slices are still equal after {since} steps: with the same data "
            "and loss they stay so.",
        ),
        f"Create each member by itself: [{of} for _ in {times}]{edit}.",
        place,
        since=since,
    )
