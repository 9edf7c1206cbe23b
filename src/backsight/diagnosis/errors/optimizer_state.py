"""The state of an optimizer goes to its parameters by position: of which parameters was it saved, and in which order?

A state has no names. What is told of it fits the shapes that it has at each position.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from backsight.diagnosis.errors.registry import refusal
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, if_known, listed, shaped, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, is_class, namespace
from backsight.snapshot import groups
from backsight.source import Place, calls_of, only, read_at, statements_of
from backsight.source.bindings import are_alternatives, assigned
from backsight.source.body import block_of, callee, calls_in, covers, dotted, statements
from backsight.source.edits import OR, move, on_line, put_at
from backsight.source.freezing import freezings
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.files import calls_in_files, user_files
from backsight.story.fixes import removed
from backsight.story.holders import found_around
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.tape import modules_in, registered
from backsight.text import as_code

Shape = tuple[int, ...]

_OTHER_NUMBER = "parameter group that doesn't match the size of optimizer's group"
_OTHER_SHAPE = re.compile(r"must match the size|size mismatch|shape.* (?:match|same)")


def state_refused(found: Refusal) -> Finding | None:
    """Tell the parameters that a state was saved of from those of the optimizer; None for another error."""
    optimizer = optimizer_of(found)
    if optimizer is None:
        return None
    case = _Case(found, optimizer)
    if issubclass(type(found.failure.error), KeyError | TypeError):
        return _of_another_class(case)
    if _OTHER_NUMBER in found.failure.message:
        return _of_others(case)
    return _of_other_shapes(case) if _OTHER_SHAPE.search(found.failure.message) else None


def made_at(found: Refusal) -> Place | None:
    """The statement that makes the optimizer which refused a state."""
    optimizer = optimizer_of(found)
    return _Case(found, optimizer).built if optimizer is not None else None


def optimizer_of(found: Refusal) -> torch.optim.Optimizer | None:
    """The optimizer in one of whose methods an error came."""
    held = (each.variables.get("self") for each in reversed(found.below))
    return next((each for each in held if isinstance(each, torch.optim.Optimizer)), None)


@dataclass(frozen=True, eq=False)
class _Case:
    """An optimizer that has refused a state, or that failed in a step with one."""

    found: Refusal
    optimizer: torch.optim.Optimizer

    @cached_property
    def held(self) -> list[torch.Tensor]:
        return [each for group in groups(self.optimizer) for each in group["params"] if is_tensor(each)]

    @cached_property
    def model(self) -> tuple[str, dict[str, torch.Tensor]]:
        """The largest model that has the parameters of the optimizer: its name and all of its parameters by path, in
        the order of `parameters()`."""
        mine = {id(each) for each in self.held}
        found = found_around(self.found.failure.frames, torch.nn.Module)
        models = [(path, _parameters(each, path)) for each, path in found]
        around = [each for each in models if mine <= {id(one) for one in each[1].values()}]
        return max(around, key=lambda each: len(each[1]), default=("", {}))

    @property
    def every(self) -> dict[str, torch.Tensor]:
        return self.model[1]

    @cached_property
    def name(self) -> str:
        return as_code(names_of(self.found.failure, [self.optimizer])[0] or "this optimizer")

    @cached_property
    def built(self) -> Place | None:
        """The statement that makes it: the last one above that gives a variable of a function still running its value,
        or the object that holds it, or the only one of the program that makes the attribute."""
        kind = class_name(type(self.optimizer))
        for level in self.found.failure.users:
            own = {name for name, value in level.variables.items() if value is self.optimizer}
            around = {name for name, value in level.variables.items() if self._is_held_by(value)}
            above = [each for each in statements(level.body) if each.lineno < level.line]
            made = [
                each
                for each in above
                for target, value in assigned(each)
                if (dotted(target) in own and _calls(value)) or (dotted(target) in around and kind in _calls(value))
            ]
            made = [s for s in made if self._may_make(level, s)]
            if made and level.body is not None:
                last = level.body.place(made[-1])
                others = (level.body.place(each) for each in made[:-1])
                return None if any(are_alternatives(level.body, each, last) for each in others) else last
        attribute = self.name.rpartition(".")[2]
        return only(
            body.place(each)
            for body, each in statements_of(*user_files(self.found.failure))
            for target, value in assigned(each)
            if (dotted(target) or "").endswith(f".{attribute}") and _calls(value)
        )

    @property
    def where(self) -> str:
        return f" on line {self.built.line}" if self.built else ""

    def _may_make(self, level: Level, statement: ast.stmt) -> bool:
        """Whether a statement may make this optimizer: not where it calls another class of optimizers."""
        called = [value_of(level, each.func) for each in calls_in(statement)]
        kinds = [each for each in called if is_class(each) and issubclass(each, torch.optim.Optimizer)]
        return not kinds or type(self.optimizer) in kinds

    def _is_held_by(self, value: object) -> bool:
        return any(each is self.optimizer for each in (namespace(value) or {}).values())

    @cached_property
    def loaded(self) -> Place | None:
        """The only statement of the program that may have loaded its state."""
        return only(
            body.place(each)
            for body, each, call in calls_in_files(self.found.failure)
            if callee(call)[1] == "load_state_dict" and self._may_be_it(dotted(callee(call)[0]))
        )

    def _may_be_it(self, name: str | None) -> bool:
        values = [level.value(name) for level in self.found.failure.users] if name else []
        known = [each for each in values if each is not None]
        return not known or any(each is self.optimizer for each in known)

    def called(self, tensors: Sequence[torch.Tensor]) -> list[str]:
        """What parameters are called: by a module, if they are all of it in its order, else each by its own name."""
        paths = {id(each): path for path, each in self.every.items()}
        left, found = [paths.get(id(each), "") for each in tensors], list[str]()
        while left:
            parts = left[0].removeprefix(self.model[0]).split(".")
            for k in range(1, len(parts) + 1):
                prefix = self.model[0] + ".".join(parts[:k])
                inside = [each for each in self.every if f"{each}.".startswith(f"{prefix}.")]
                if inside and left[: len(inside)] == inside:
                    break
            found.append(prefix)
            left = left[max(1, len(inside)) :]
        return [as_code(each) for each in found]

    def told(
        self, title: str, evidence: Sequence[Fact | None], fix: str, source: Place | None, *, exact: bool
    ) -> Finding:
        failed = shown(self.found.level.place, "failed.")
        is_told = any(getattr(each, "place", None) == failed.place for each in evidence)
        return refusal(self.found, title, (*evidence, None if is_told else failed), fix, source, exact=exact)


def _calls(value: ast.expr) -> set[str]:
    """What an expression calls."""
    return {callee(node)[1] for node in ast.walk(value) if isinstance(node, ast.Call)}


def _parameters(model: torch.nn.Module, path: str) -> dict[str, torch.Tensor]:
    """The parameters of a model by path, each once."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for inner, module in modules_in(model, path):
        for name, each in registered(module, "_parameters").items():
            if is_tensor(each):
                found.setdefault(id(each), (f"{inner}.{name}", each))
    return dict(found.values())


def _shape(state: Any) -> Shape | None:
    """The shape of the parameter that a state is of; None where it has nothing of a shape, or several."""
    tensors = [each for each in state.values() if is_tensor(each)] if isinstance(state, dict) else []
    shapes = {shape for each in tensors if (shape := shape_of(each))}
    return only(shapes)


def _of_others(case: _Case) -> Finding | None:
    """A state of more parameters than the optimizer has, or of fewer."""
    given = case.found.below[-1].variables.get("state_dict")
    every: Any = given if isinstance(given, dict) else {}
    states, saved = every.get("state"), every.get("param_groups")
    if not isinstance(states, dict) or not isinstance(saved, list) or not case.every:
        return None
    shapes = [_shape(states.get(k)) for each in saved for k in each.get("params", ())]
    if len(shapes) > len(case.held):
        return _of_more(case, shapes)
    return _of_fewer(case, shapes) if len(shapes) < len(case.held) else None


def _of_more(case: _Case, saved: list[Shape | None]) -> Finding | None:
    """The optimizer leaves out what the state was saved of, too: the rest of the model, if number and shapes fit."""
    mine = {id(each) for each in case.held}
    absent = [each for each in case.every.values() if id(each) not in mine]
    whole = [shape_of(each) or () for each in case.every.values()]
    if len(whole) != len(saved) or Counter(filter(None, saved)) - Counter(whole):
        return None
    called, failure = case.called(absent), case.found.failure
    names, sure, frozen = listed(called, 4), all(saved), not any(needs_gradient(each) for each in absent)
    freezing = [each for file in user_files(failure) for each in freezings(file)] if frozen else []
    sets = f"sets requires_grad, which is False in {names}."
    froze = [shown(each.place, sets, sure_if(len(freezing) == 1)) for each in freezing]
    title = f"{case.name} has {len(case.held)} of the {len(saved)} parameters that the state was saved with: "
    anew = f"{OR}Or start with a new state, and train on without {names}: {removed(case.found.level.place)}."
    added = _added_empty(case, len(absent)) if frozen else None
    if added is not None and all(is_module(case.found.level.value(each)) for each in called):
        adding, at = added
        turning = "; ".join(f"{each}.requires_grad_(True)" for each in called)
        return case.told(
            f"{title}the group of {names} is empty.",
            (
                *froze[:1],
                shown(adding, f"adds an empty group to {case.name}."),
                shown(at, f"runs that while {names} is frozen.") if at != adding else None,
            ),
            f"Unfreeze {names} before its group is added: {put_at(turning, 'above', at)}. {anew}",
            at,
            exact=sure,
        )
    ordered = sure and all(each in (None, shape) for each, shape in zip(saved, whole, strict=True))
    order = f"of {as_code(case.model[0])}.parameters()" if ordered else "in which it was saved"
    order = f"a state goes to the parameters by position, here in the order {order}"
    over = f"Make {case.name}{case.where} over {names} as well, as it was when the state was saved: {order}."
    if frozen:
        skips = f"{case.name} leaves alone what is frozen by then, as it gets no gradient"
        then = _frozen_later(case, [place for each in freezing for place in each.places])
        after = f"{over} Freeze {names} after that: {skips}."
        over = f"Load the state first, then freeze: {then}; {skips}." if then else after
    return case.told(
        f"{title}it lacks {names}.",
        (*froze[:2], if_known(case.built, f"makes {case.name} without {names}.")),
        f"{over} {anew}",
        case.built,
        exact=sure,
    )


def _frozen_later(case: _Case, freezing: Sequence[Place]) -> str:
    """Say how what freezes goes below the statement that loads, where the optimizer is made between the two."""
    level, built = case.found.level, case.built
    if level.body is None or level.statement is None or built is None or not freezing:
        return ""
    block = block_of(level.body, level.statement)
    own = [each for each in block if any(covers(each, at.line) for at in freezing)]
    sure = all(at.file == built.file and any(covers(each, at.line) for each in own) for at in freezing)
    if not sure or not any(covers(each, built.line) and built.file == level.place.file for each in block):
        return ""
    if any((each.end_lineno or 0) >= built.line for each in own) or built.line >= level.line:
        return ""
    first, last = own[0].lineno, own[-1].end_lineno or 0
    if sum((each.end_lineno or 0) - each.lineno + 1 for each in own) != last - first + 1:
        return ""
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    moved = move([level.body.place(each) for each in own], "below", level.place)
    return f"move {lines} below line {level.line}{moved}"


def _added_empty(case: _Case, absent: int) -> tuple[Place, Place] | None:
    """The only statement that adds a group to the optimizer, and the one of the failing function that runs it, where
    that group is empty and was saved with all that is absent."""
    given: Any = case.found.below[-1].variables["state_dict"]
    sizes = [
        (len(own["params"]), len(then["params"]))
        for own, then in zip(groups(case.optimizer), given["param_groups"], strict=False)
    ]
    calls = calls_of(*user_files(case.found.failure))
    added = only((body, body.place(each)) for body, each, call in calls if callee(call)[1] == "add_param_group")
    level = case.found.level
    if added is None or level.body is None or [each for each in sizes if each[0] != each[1]] != [(0, absent)]:
        return None
    inner, place = added
    if inner.node is level.body.node:
        return place, place
    above = [each for each in statements(level.body.node) if each.lineno < level.line]
    runs = [each for each in above if any(callee(call)[1] == inner.name for call in calls_in(each))]
    return (place, level.body.place(runs[-1])) if runs else None


def _of_fewer(case: _Case, saved: list[Shape | None]) -> Finding | None:
    """The optimizer has parameters that the state was not saved of: those that the shapes leave over, in order."""
    mine = [shape_of(each) or () for each in case.held]
    first, last = _fitted(saved, mine), _fitted(saved[::-1], mine[::-1])
    if first is None or last is None:
        return None
    ends, total = [len(mine) - 1 - k for k in last], len(saved)
    absent = [k for k in range(len(mine)) if sum(e < k for e in first) + sum(e > k for e in ends) >= total]
    if len(absent) == len(mine):
        return None
    named, sure = case.called([case.held[k] for k in absent]), len(absent) == len(mine) - total
    names = listed(named, 4)
    told = f"{names} {'was' if len(named) == 1 else 'were'} not among them"
    if not sure:
        told = f"by the shapes, {len(mine) - total} of the parameters of {names} were not among them"
    without, them = (f"without {names}", names) if sure else ("over the same parameters as then", "the others")
    return case.told(
        f"{case.name} has {counted(len(mine), 'parameter')}, and the state was saved with {len(saved)}: {told}.",
        (if_known(case.built, f"makes {case.name} with {names}."),),
        f"Make {case.name}{case.where} {without}, load the state, and then give it {them} as a group of its own, "
        f"with {case.name}.add_param_group(...). {OR}Or start with a new state: {removed(case.found.level.place)}.",
        case.built,
        exact=sure,
    )


def _of_another_class(case: _Case) -> Finding | None:
    """A state that another class of optimizer has saved: loading it replaces the settings of each group."""
    own, group = class_name(type(case.optimizer)), next(iter(groups(case.optimizer)), {})
    absent = [each for each in case.optimizer.defaults if each not in group]
    saved = _class_of(group)
    if not absent or saved == own:
        return None
    failed = case.found.level.place
    loading = (
        failed if any(each.frame.f_code.co_name == "load_state_dict" for each in case.found.below) else case.loaded
    )
    of, new = f"class {saved}" if saved else "another class", _made_with(case, own, saved, group.get("lr"))
    made = on_line(case.built, new) if case.built and new else f"make {case.name} with it"
    without = f"leave out its state: {removed(loading)}" if loading else "do not load its state"
    return case.told(
        f"{case.name} is of class {own}, but the state that it loads is of {of}: it lacks {listed(absent, 3)}.",
        (
            if_known(case.built, f"makes {case.name}."),
            if_known(loading, f"loads a state that {saved or of} has saved."),
        ),
        f"To go on with {saved or 'the class that has saved it'}, {made}: its other settings are loaded with the "
        f"state. {OR}Or to train on with {own}, {without}.",
        loading,
        exact=True,
    )


def _made_with(case: _Case, own: str, saved: str, rate: object) -> str:
    """The statement that makes an optimizer, with another class; empty where one of them is not known."""
    body, statement = read_at(case.built)
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not saved or body is None or statement is None or not isinstance(call, ast.Call) or not call.args:
        return ""
    receiver, name = callee(call)
    text = f"{body.text(receiver) if receiver is not None else 'torch.optim'}.{saved}"
    return rewritten(body, statement, {call: f"{text}({body.text(call.args[0])}, lr={rate})"}) if name == own else ""


def _class_of(group: dict[str, Any]) -> str:
    """The class of PyTorch's that has the settings of a group: of several the one that has most; else empty."""
    fitting: dict[str, int] = {}
    for name in dir(torch.optim):
        held = getattr(torch.optim, name)
        if isinstance(held, type) and issubclass(held, torch.optim.Optimizer) and held is not torch.optim.Optimizer:
            takes = set(inspect.signature(held).parameters) - {"params"}
            if takes <= group.keys():
                fitting[name] = len(takes)
    most = only(each for each, count in fitting.items() if count == max(fitting.values())) or ""
    return "AdamW" if most == "Adam" and group.get("decoupled_weight_decay") is True else most


def _fitted(saved: Sequence[Shape | None], mine: Sequence[Shape]) -> list[int] | None:
    """The first positions whose shapes are those saved, in order."""
    found, at = [], 0
    for each in saved:
        while at < len(mine) and each not in (None, mine[at]):
            at += 1
        if at == len(mine):
            return None
        found.append(at)
        at += 1
    return found


def _of_other_shapes(case: _Case) -> Finding | None:
    """A step with states of other shapes than the parameters have: in another order, or of other parameters."""
    saved = [_shape(dict.get(_states(case.optimizer), each)) for each in case.held]
    mine = [shape_of(each) or () for each in case.held]
    wrong = [k for k, each in enumerate(saved) if each not in (None, mine[k])]
    if not wrong or not case.every:
        return None
    (odd, *_), shape = case.called([case.held[wrong[0]]]), saved[wrong[0]]
    has = f"the state of {odd} has shape {shaped(shape)}, and the parameter {shaped(mine[wrong[0]])}"
    by_position = "loads a state, which goes to the parameters by position."
    loads = if_known(case.loaded, by_position)
    if case.loaded is None or None in saved or Counter(saved) != Counter(mine):
        return case.told(
            f"The state of {case.name} does not fit its parameters: {has}.",
            (loads,),
            "A state fits the parameters that it was made or saved for, in their order. Where a parameter has been "
            f"given another shape since, make {case.name} anew, and its scheduler: it then starts with a new state.",
            case.loaded,
            exact=False,
        )
    order = _order(case, saved)
    then, now = (_in_order(case.called(each)) for each in (order, case.held))
    alike = max(Counter(mine).values()) > 1
    return case.told(
        f"{case.name} has its parameters in another order than the state that it has loaded: {has}.",
        (if_known(case.built, f"makes {case.name} over {now}."), loads),
        f"Make {case.name}{case.where} with its parameters in the order in "
        f"which they were when the state was saved. Its shapes fit {then}"
        + ("; they do not tell parameters of one shape from each other." if alike else "."),
        case.built or case.loaded,
        exact=not alike,
    )


def _in_order(names: Sequence[str]) -> str:
    return f"{listed(names, 8)}, in this order" if len(names) > 1 else f"{names[0]} in the order of its parameters"


def _states(optimizer: torch.optim.Optimizer) -> dict[Any, Any]:
    held = object.__getattribute__(optimizer, "__dict__").get("state")
    return held if isinstance(held, dict) else {}


def _order(case: _Case, saved: list[Shape | None]) -> list[torch.Tensor]:
    """The parameters of the model by the shapes of the states: of several, the next one in the model."""
    left, found, at = list(case.every.values()), list[torch.Tensor](), 0
    mine = {id(each) for each in case.held}
    left = [each for each in left if id(each) in mine]
    for shape in saved:
        fits = [k for k, each in enumerate(left) if shape_of(each) == shape]
        at = next((k for k in fits if k >= at), fits[0])
        found.append(left.pop(at))
    return found
