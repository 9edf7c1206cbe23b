"""BS101, BS116, BS126, BS129, BS139, BS155: the modes of a model, and what a program freezes, against what it means."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from types import CodeType, FrameType, FunctionType

import torch
from torch import nn

from backsight.diagnosis.amending import added, functional, instead, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import (
    bodies,
    calls_around,
    conditions_around,
    constructions,
    ending,
    endings_of,
    few_of,
    looped,
    loops_around,
    named,
    names_of,
    program_frames,
    running,
    running_at,
    statements_around,
)
from backsight.diagnosis.wording import counted, if_known, listed, numbered, shown, sure_if, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, function_at, only, read_at
from backsight.source.bindings import parameters_of
from backsight.source.body import (
    LOOPS,
    callee,
    callers,
    calls_in,
    covers,
    dotted,
    handed,
    is_constant,
    keyword,
    statements,
)
from backsight.source.evaluations import always_dropping, chance, evaluates, is_meant, is_named_so
from backsight.tape import modules_in, parameters_in, registered
from backsight.text import as_code

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def untrained_mode(
    model: torch.nn.Module, modal: Sequence[type], since: int, trained: bool, frame: FrameType
) -> Finding | None:
    """Return the finding that a model is trained in evaluation mode; None where that may be meant.

    A model that was never in training mode is left so on purpose where the training itself does it; so is one for which
    a function turns evaluation mode on, and then runs all of this training.
    """
    name = named(model)
    found = list(_evaluations(frame))
    aside = [(place, inside) for place, inside in found if inside not in running(frame)]
    if (not trained and not aside) or _meant(frame):
        return None
    of = endings_of(model)
    own = [each for each in aside or found if ending(dotted(_turned(each[0]))) in of]
    place, inside = next(iter(own or aside or found), (None, ""))
    sure = len(found) == 1
    says = "turns on evaluation mode, in which the training goes on."
    if not _may_turn_on(frame):
        says = "turns on evaluation mode; training mode is never turned on again."
    return warning(
        "BS116",
        f"{name} has been trained in evaluation mode since step {numbered(since)}.",
        (_in_evaluation(list(dict.fromkeys(modal))), if_known(place, says, sure_if(sure))),
        _at_end(place, name, frame) if place is not None and inside else f"Call {name}.train() after evaluating.",
        place,
        exact=place is None or sure,
        since=since,
    )


def _turned(place: Place) -> ast.expr | None:
    """Return the module of which a statement sets the mode."""
    return next((callee(call)[0] for call in calls_in(read_at(place)[1]) if _sets_mode(call)), None)


def _sets_mode(call: ast.Call) -> bool:
    return callee(call)[0] is not None and callee(call)[1] in ("eval", "train")


def _may_turn_on(frame: FrameType) -> bool:
    """Whether training mode may be turned on again: in a loop that leads to the step, or by a function aside."""
    frames = {each.f_code.co_name: each.f_lineno for each in program_frames(frame)}
    for body, statement, call in calls_around(frame):
        if _turns_on(call):
            line = frames.get(body.name or "<module>")
            if line is None or any(covers(each, line) for each in loops_around(body, statement.lineno)):
                return True
    return False


def _at_end(place: Place, name: str, frame: FrameType) -> str:
    """Say to turn training mode on again at the end of the function that turns it off, or after the call of that; of a
    function that does nothing else, at the end of the one that calls it."""
    body, on = read_at(place)[0], dotted(_turned(place))
    if body is None or on is None or on.partition(".")[0] in looped(body):
        return f"Call {name}.train() at the end of {body.name}()." if body else f"Call {name}.train() after evaluating."
    begins = all(_sets_mode(call) for each in statements(body) if each.lineno > place.line for call in calls_in(each))
    if not begins:
        return f"Call {name}.train() at the end of {body.name}(){_turned_on_at_end(body, on, name)}."
    found = only(callers(body))
    if found is None or found[0].name in running(frame):
        return f"Call {name}.train() after evaluating, where the training goes on."
    around, _, call = found
    given, (root, _, rest) = handed(body, call), on.partition(".")
    there = dotted(given.get(root)) if root in parameters_of(body.node) else root
    there = f"{there}.{rest}" if there and rest else there
    edit = _turned_on_at_end(around, there) if there else ""
    return f"Call {there or name}.train() at the end of {around.name}(){edit}."


def _turned_on_at_end(body: Body, on: str, name: str = "") -> str:
    """Turn training mode on again at the end of a function, or after the call of that, by the name of there, if any."""
    if isinstance(body.node, ast.Module):
        return ""
    last, code = body.node.body[-1], f"{on}.train()"
    returns = [each for each in statements(body.node) if isinstance(each, ast.Return)]
    if not returns:
        return added(code, "end", body.place(body.node))
    runs = [dotted(call.func) == on for call in calls_in(last)]
    if not name:  # what is called there may run it
        root = on.partition(".")[0]
        runs = [getattr(each, "id", "") == root for call in calls_in(last) for each in ast.walk(call)]
    if returns == [last] and not any(runs):
        return added(code, "above", body.place(last))
    found = only((other, each) for other, each, _ in callers(body)) if name else None
    return added(f"{name}.train()", "beside", found[0].place(found[1])) if found is not None else ""


def _in_evaluation(kinds: Sequence[type]) -> str:
    """Say what these do in evaluation mode.

    >>> _in_evaluation([nn.Dropout, nn.BatchNorm1d])
    'Dropout is off; BatchNorm1d uses its running statistics and does not update them.'
    """
    return in_mode(
        kinds,
        ("is off", "are off"),
        (
            "uses its running statistics and does not update them",
            "use their running statistics and do not update them",
        ),
    )


def in_mode(kinds: Sequence[type], dropping: tuple[str, str], norms: tuple[str, str]) -> str:
    """Say what modules do in a mode: those that drop values, then batch normalizations; of one, and of several."""
    sorts = (
        ([each.__name__ for each in kinds if not issubclass(each, BATCH_NORMS)], dropping),
        ([each.__name__ for each in kinds if issubclass(each, BATCH_NORMS)], norms),
    )
    return f"{'; '.join(f'{listed(names, 3)} {does[len(names) > 1]}' for names, does in sorts if names)}."


def _evaluations(frame: FrameType) -> Iterator[tuple[Place, str]]:
    """Yield the statements that turn evaluation mode on, each with the name of the function that it stands in."""
    for body, statement, call in calls_around(frame):
        receiver, method = callee(call)
        off = method == "train" and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
        if receiver is not None and ((method == "eval" and not call.args) or (off and call.args[0].value is False)):  # type: ignore[attr-defined]
            yield body.place(statement), body.name


def _meant(frame: FrameType) -> bool:
    """Whether a function that is running has turned evaluation mode on before the loops that lead to the step."""
    for each in program_frames(frame):
        body = function_at(each.f_code)
        modes = [
            (statement.lineno, callee(node)[1])
            for statement in statements(body)
            if statement.lineno < each.f_lineno
            for node in calls_in(statement)
            if callee(node)[1] in ("eval", "train")
        ]
        line, mode = max(modes, default=(0, ""))
        loops = (s for s in statements(body) if isinstance(s, LOOPS))
        again = any(s.lineno <= line and each.f_lineno <= (s.end_lineno or 0) for s in loops)
        if mode == "eval" and not again:
            return True
    return False


# BS155: a model drops values, or normalizes by the batch, where it is evaluated.


def acting(module: nn.Module) -> list[nn.Module]:
    """Return the modules inside that compute something else in training mode, and are in it."""
    return [each for _, each in modules_in(module) if each.__dict__.get("training", False) and _acts(each)]


def _acts(module: nn.Module) -> bool:
    if isinstance(module, DROPOUTS):
        return bool(module.__dict__.get("p", 0.0))
    if isinstance(module, nn.RNNBase):
        return bool(module.__dict__.get("dropout", 0.0))
    return isinstance(module, BATCH_NORMS) and registered(module, "_buffers").get("running_mean") is not None


def is_evaluation(frame: FrameType, training: Container[CodeType]) -> bool:
    """Whether what a frame runs evaluates, by the text; `training`: the functions from which steps are made."""
    inner = True
    for each in program_frames(frame):
        body, trains = function_at(each.f_code), each.f_code in training
        if body is None:
            continue
        if inner:
            if evaluates(body, each.f_lineno, trains=trains):
                return True
            inner = False
        if trains or is_meant(body):
            return False
        if is_named_so(body):
            return True
    return False


def in_training_mode(module: nn.Module, since: int, frame: FrameType, training: Container[CodeType]) -> Finding | None:
    """Return the finding that a model is evaluated in training mode by the statement that a frame runs."""
    modal = acting(module)
    body, statement = running_at(frame)
    if not modal or body is None or statement is None:
        return None
    name, place = named(module), body.place(statement)
    function = "" if next(program_frames(frame)).f_code in training else body.name
    again = any(_turns_on(call) for _, _, call in calls_around(frame))
    where = f"at the start of {function}()" if function else f"before line {place.line}"
    edit = _in_evaluation_mode(body, place, statement, name, function, again=again)
    back = f"{name}.train() turns training mode on again" if again else f"{name}.train() after it"
    return warning(
        "BS155",
        f"{name} is evaluated in training mode.",
        (
            shown(place, "calls it without gradients, but nothing has called eval()."),
            _in_training([*dict.fromkeys(type(each) for each in modal)]),
        ),
        f"Call {name}.eval() {where}{edit}" + (f"; {back}." if again else f", and {back}."),
        place,
        since=since,
    )


def _in_evaluation_mode(body: Body, place: Place, statement: ast.stmt, name: str, function: str, *, again: bool) -> str:
    """Turn evaluation mode on before a statement, or the function that it stands in, and training mode after it."""
    on, off = f"{name}.eval()", f"{name}.train()"
    start = body.place(body.node) if function and not isinstance(body.node, ast.Module) else place
    begin = added(on, "below" if function else "above", start)
    if again or not begin:
        return begin
    if not function:
        end = added(off, "beside", place) if not isinstance(statement, ast.Return) else ""
        return begin + end if end else ""
    called = only((other, each) for other, each, _ in callers(body))
    end = added(off, "beside", called[0].place(called[1])) if called and not isinstance(called[1], ast.Return) else ""
    return begin + end if end else ""


def _turns_on(call: ast.Call) -> bool:
    receiver, method = callee(call)
    return method == "train" and receiver is not None and not call.args


def _in_training(kinds: list[type]) -> str:
    """Say what these do in training mode.

    >>> _in_training([nn.Dropout, nn.BatchNorm1d])
    'Dropout drops values; BatchNorm1d normalizes by each batch, and updates its running statistics with this data.'
    """
    return in_mode(
        kinds,
        ("drops values", "drop values"),
        (
            "normalizes by each batch, and updates its running statistics with this data",
            "normalize by each batch, and update their running statistics with this data",
        ),
    )


def dropping(module: nn.Module) -> Iterator[tuple[Place, str, str]]:
    """Yield the statements of modules that drop values in any mode, with the call as it is, and as it should be."""
    seen: set[type] = set()
    for _, each in modules_in(module):
        if type(each) in seen or "mc" in type(each).__name__.lower():
            continue
        seen.add(type(each))
        held = namespace(each) or {}
        for kind in type(each).__mro__:
            for function in vars(kind).values():
                code = function.__code__ if isinstance(function, FunctionType) else None
                if code is None or is_library(code.co_filename) or is_ours(code.co_filename):
                    continue
                body = function_at(code)
                for place, call in always_dropping(body) if body is not None and not is_meant(body) else ():
                    if _is_possible(chance(call), held):
                        yield place, ast.unparse(call), _following(call)


def _is_possible(p: ast.expr | None, held: dict[str, object]) -> bool:
    """Whether something is dropped with a probability; what is no number, and no attribute that is one, may be 0."""
    if p is None:
        return True
    value: object = p.value if isinstance(p, ast.Constant) else None
    name = dotted(p) or ""
    if name.startswith("self."):
        value = held.get(name.removeprefix("self."))
    return type(value) is float and 0.0 < value < 1.0


def _following(call: ast.Call) -> str:
    """Write a call so that it follows the mode of the module."""
    p = chance(call)
    written = ast.unparse(p) if p is not None else "0.5"
    if callee(call)[1] == "scaled_dot_product_attention":
        return f"dropout_p={written} if self.training else 0.0"
    if isinstance(call.func, ast.Call):
        return f"F.dropout({ast.unparse(call.args[0]) if call.args else 'x'}, {written}, training=self.training)"
    return f"{ast.unparse(call)[:-1]}, training=self.training)"


def always_on(module: nn.Module, found: list[tuple[Place, str, str]], since: int, frame: FrameType) -> Finding:
    """Return the finding that a model in evaluation mode drops values."""
    name, (place, _, written) = named(module), found[0]
    body, statement = running_at(frame)
    called = shown(body.place(statement), "calls it in evaluation mode.") if body and statement else None
    more = f" The same holds for {listed([str(p) for p, _, _ in found[1:]], 3)}." if len(found) > 1 else ""
    return warning(
        "BS155",
        f"{name} drops values in evaluation mode too.",
        (shown(place, "drops values in any mode: it ignores eval()."), called),
        f"Follow the mode of the module: {written}{''.join(map(_obeying, found))}.{more}",
        place,
        since=since,
    )


def _obeying(found: tuple[Place, str, str]) -> str:
    """Have a call that drops values follow the mode."""
    place, old, new = found
    body, statement = read_at(place)
    call = next((each for each in calls_in(statement) if ast.unparse(each) == old), None)
    if body is None or call is None:
        return ""
    if callee(call)[1] == "scaled_dot_product_attention":
        given = keyword(call, "dropout_p")
        return instead(body, statement, {given: new.partition("=")[2]}) if given is not None else ""
    return f"{instead(body, statement, {call: new})}{functional(body.file) if new.startswith('F.') else ''}"


def is_trained(module: nn.Module, ids: Container[int]) -> bool:
    """Whether something of a module has one of these ids and gets gradients."""
    return any(p.requires_grad and id(p) in ids for p in parameters_in(module))


# BS139: the running statistics of what is frozen go on changing.


def drifting(
    model: torch.nn.Module, norms: list[torch.nn.Module], since: int, trained: bool, frame: FrameType
) -> Finding:
    """Return the finding that norms in frozen parts go by each batch; a note unless that was `trained` before."""
    names = [".".join(each for each in (named(model), part) if each) for part in _frozen_parts(model, norms)]
    calls = [f"{as_code(each)}.eval()" for each in names]
    turning = [
        (body, body.place(statement))
        for body, statement, call in calls_around(frame)
        if callee(call)[1] == "train" and callee(call)[0] is not None
        if not call.args or is_constant(call.args[0], True)
    ]
    own, _ = running_at(frame)
    before = [at for body, at in turning if own is not None and body.node is own.node and at.line < frame.f_lineno]
    place = only(at for _, at in turning) or (before[-1] if before else None)
    kind = type(norms[0]).__name__
    if len(names) > _FEW_PARTS:
        name = f"{names[0]} and {len(names) - 1} more parts"
        code = f"for module in {as_code(named(model))}.modules():\n"
        still = " and not module.weight.requires_grad" if trained else ""
        code += f"    if isinstance(module, torch.nn.{kind}){still}:\n        module.eval()"
        every = [each for _, each in modules_in(model) if type(each).__name__ == kind]
        told = f"eval() of each {kind}"
        again = added(code, "below", place) if len(every) == len(norms) else ""
    else:
        name, told = listed(names), listed(calls)
        again = "".join(added(_while_frozen(each) if trained else each, "below", place) for each in calls)
    kinds = counted(len(norms), f"{kind} layer")
    several, is_still = len(names) > 1, all(each.__dict__.get("momentum") == 0 for each in norms)
    are, they, their = ("are", "they are", "their") if several else ("is", "it is", "its")
    title = f"{name} {are} frozen, but {their} running statistics are not."
    does = f"each forward pass updates the mean and variance of {kinds}, which evaluation uses."
    if is_still:
        title = f"{name} {are} frozen, but normalized by the statistics of each batch."
        does = f"the mean and variance of each batch normalize {kinds}, while evaluation uses running statistics "
        does += "that momentum=0 never updates."
    finding = warning(
        "BS139",
        title,
        (
            f"{their.capitalize()} parameters have been frozen since step {numbered(since)} or earlier, but {they} in "
            f"training mode: {does}",
            if_known(place, "turns on training mode for the whole model."),
        ),
        f"Call {told} after each train() while {they} frozen{again}.",
        place,
        since=since,
    )
    return finding if trained else replace(finding, severity="note")


def _while_frozen(call: str) -> str:
    """Write an eval() that lets alone what trains: the function that a train() stands in may run before the freezing.

    >>> print(_while_frozen("net.body.eval()"))
    if not any(p.requires_grad for p in net.body.parameters()):
        net.body.eval()
    """
    return f"if not any(p.requires_grad for p in {call.removesuffix('eval()')}parameters()):\n    {call}"


_FEW_PARTS = 3
"""Frozen parts that are named one by one."""


def _frozen_parts(model: torch.nn.Module, norms: list[torch.nn.Module]) -> list[str]:
    """Return the paths of the outermost modules with these inside of which everything is frozen."""
    wanted, found = {id(each) for each in norms}, list[str]()
    for path, module in modules_in(model):
        held, inside = list(parameters_in(module)), {id(each) for _, each in modules_in(module)}
        if held and not any(p.requires_grad for p in held) and wanted & inside:
            found.append(path)
            wanted -= inside
    return found or [""]


# BS101, BS126, BS129: what the program freezes and unfreezes, and whether that does what it is meant to do.


def attribute_alone(model: nn.Module, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that `module.requires_grad = ...` was set, which tells the module's parameters nothing."""
    for path, module in modules_in(model):
        wanted = (namespace(module) or {}).get("requires_grad")
        held = list(parameters_in(module))
        against = [p for p in held if p.requires_grad is not wanted] if isinstance(wanted, bool) else []
        if not against:
            continue
        name = ".".join(part for part in (named(model), path) if part)
        last = ending(name)
        found = setting(frame, "requires_grad", wanted, last)
        place, called = found or (None, name)
        name = called  # several models may hold it
        edit = written(place, f"{called}.requires_grad_({wanted})")
        state = "frozen" if wanted else "trained"
        told = "A module does not pass requires_grad on to its parameters."
        return warning(
            "BS126",
            f"requires_grad = {wanted} only sets an attribute of {name}: "
            f"{len(against)} of its {counted(len(held), 'parameter')} {'is' if len(against) == 1 else 'are'} {state}.",
            (told,) if place is None else (shown(place, "sets it; a module does not pass it on to its parameters."),),
            f"Call {called}.requires_grad_({wanted}){edit}, which sets it for each of them.",
            place,
            since=since,
        )
    return None


def left_frozen(
    optimizer: torch.optim.Optimizer, frozen: Sequence[torch.Tensor], since: int, frame: FrameType
) -> Finding | None:
    """Return the finding that what an optimizer has trained is frozen for another step, and stays so.

    Who freezes layers for good does so once, before a phase or on a condition. So it has to be done without one, in a
    function that makes a step itself, and nothing in the program's files may enable the gradients again.
    """
    found = [(body, s, on) for body, s, on in freezing(frame)]
    if any(on for _, _, on in found):
        return None
    for body, statement, _ in found:
        steps = any(callee(call)[1] == "step" for s in statements(body.node) for call in calls_in(s))
        if conditions_around(body, statement.lineno) or not steps:
            continue
        name, place = named(optimizer, "the optimizer"), body.place(statement)
        never = "it is never unfrozen" if len(frozen) == 1 else "they are never unfrozen"
        return warning(
            "BS129",
            f"{name} no longer trains {names_of(frozen)}: {never}.",
            (shown(place, "sets requires_grad to False; nothing sets it back to True."),),
            "Call requires_grad_(True) again after the backward that needed them frozen.",
            place,
            since=since,
        )
    return None


def freezing(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, bool]]:
    """Yield the statements that set requires_grad, each with whether it may be turned on."""
    for body, statement in statements_around(frame):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        value: ast.expr | None = getattr(statement, "value", None)
        if any(isinstance(target, ast.Attribute) and target.attr == "requires_grad" for target in targets):
            yield body, statement, not is_constant(value, False)
        for call in calls_in(statement):
            if callee(call)[1] == "requires_grad_":
                yield body, statement, not (call.args and is_constant(call.args[0], False))


def setting(frame: FrameType, attribute: str, value: object, last: str) -> tuple[Place, str] | None:
    """Return the statement that sets an attribute of a module to a value, and what it calls the module.

    last: what the module is called last, `encoder`. A helper may call it otherwise: then it is the only statement that
    sets this value, of what is no variable of a loop, as parameters are.
    """
    every: list[tuple[Place, str]] = []
    for body in bodies(frame):
        variables = looped(body)
        for statement in statements(body.node):
            for target in statement.targets if isinstance(statement, ast.Assign) else ():
                receiver = dotted(target.value) if isinstance(target, ast.Attribute) else None
                if receiver is None or target.attr != attribute:  # type: ignore[attr-defined]  # an attribute
                    continue
                if receiver not in variables and not is_constant(statement.value, not value):  # type: ignore[attr-defined]
                    every.append((body.place(statement), receiver))
    of_name = [each for each in every if ending(each[1]) == last]
    return next(iter(of_name), None) or only(every)


def thawed(
    tensors: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer, since: int, frame: FrameType | None
) -> Finding | None:
    """Return the finding that unfrozen parameters have gradients and do not move; None where those are read."""
    every = (node for body in bodies(frame) for node in ast.walk(body.node))
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in every):
        return None
    one, name, made = len(tensors) == 1, *_made(optimizer, frame)
    on = [body.place(statement) for body, statement, on in freezing(frame) if on]
    last = made[-1] if made else None
    return warning(
        "BS101",
        f"{few_of(tensors)} {'was' if one else 'were'} unfrozen, but no optimizer updates {'it' if one else 'them'}.",
        (
            "Frozen at first, they have gradients now, and their values do not change.",
            if_known(only(on), "sets requires_grad, but adds nothing to an optimizer."),
            if_known(last, f"creates {name}, which does not hold {'it' if one else 'them'}."),
        ),
        f"Add them when you unfreeze them, with {name}.add_param_group, or create {name} with all parameters: it skips "
        "those that have no gradient.",
        last or only(on),
        since=since,
    )


def _made(optimizer: torch.optim.Optimizer, frame: FrameType | None) -> tuple[str, list[Place]]:
    """Return the name under which an optimizer is created, and where; a function may call it otherwise."""
    names = [each.path for each in search([optimizer]).names[0]]
    for name in names:
        if made := constructions(frame, optimizer, name):
            return next((each for each in names if made[-1].text.startswith(f"{each} =")), name), made
    return named(optimizer, "the optimizer"), []
