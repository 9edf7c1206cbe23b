"""What changed the memory of a saved tensor: as a watch has seen it, else as frames and source text show it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch

from backsight.findings.evidence import Certainty
from backsight.naming.plain import class_name, namespace
from backsight.source import Place, assignments, inplace_changes, loop_facts, parsed, read_at, statement_at
from backsight.source.bindings import names_read, spots, uses
from backsight.source.body import Body, begins, callee, calls_in, covers, dotted, expressions, is_compound, statements
from backsight.source.changes import changed_names, is_tensor_data, makes_new, read_before_written
from backsight.source.imports import library
from backsight.story.memory import is_module, storage_of
from backsight.story.scenes import Scene, Shared, called_function, operator_called, scenes, shared_by
from backsight.story.sections import Section, arguments, function_called, results_of, undecorated
from backsight.story.stepping import open_step, steps_in
from backsight.story.subject import Subject
from backsight.tape import Graph, Node, Saved, modules_in
from backsight.tape.ops import op_name
from backsight.tracing import Change, Line, current

_ENOUGH = 2
"""The least score of a statement on which the text alone may lay the blame."""

_PLAIN = 3
"""The score of a statement after the one that saved: nobody else need be looked for."""


@dataclass(frozen=True, eq=False)
class Changed:
    """A statement that changed the tensor in place, or may have.

    certainty: "seen" by a watch; "held" if `name` stands for this very memory now; "read" from the text alone.
    scene: the function in which it stands; None without source.
    name: what the statement calls the tensor, or the optimizer that it steps; empty where the text does not show it.
    saver: the statement before it that saved the tensor, as far as that is known.
    module: the class of the module made with `inplace=True` that did it, and by `path` which, where no statement shows.
    segment, op, via, count: the very expression, and what it ran, as a watch has seen them; no segment where it is amid
        a comprehension, which has no name for the tensor.
    """

    place: Place
    scene: Scene | None
    name: str = ""
    certainty: Certainty = "read"
    by: Literal["statement", "optimizer"] = "statement"
    saver: Place | None = None
    module: str = ""
    path: str = ""
    segment: str = ""
    op: str = ""
    via: str = ""
    count: int = 1
    score: int = 0

    @property
    def outer(self) -> str:
        """What the caller calls the tensor, where the function is called for its effect."""
        return self.scene.given.get(self.name, self.name) if self.scene else self.name

    @property
    def before(self) -> Place:
        """Where it happens as seen from the function that goes on: the call of a function that does it."""
        return (self.scene.call if self.scene else None) or self.place


def changes(subject: Subject) -> list[Changed]:
    """Return what a watch has seen to change the tensor since it was saved, oldest first.

    Without a watch: what the text shows, with all that fit equally well; first an optimizer's steps, each of which may
    be the one.
    """
    return _seen(subject) or [*_stepped(subject), *_read(subject)]


def _seen(subject: Subject) -> list[Changed]:
    """Each line once."""
    watch = current()
    if watch is None or subject.saved.storage is None:
        return []
    found: dict[tuple[str, int], tuple[Line, Change, int]] = {}
    for change in watch.changes(subject.saved.storage, subject.saved.expected):
        if change.line is not None and change.kind not in ("backward", "unseen", "data"):
            line, first, count = found.get((change.line.file, change.line.line), (change.line, change, 0))
            found[line.file, line.line] = line, first, count + change.count
    made = watch.line_of(subject.node)
    saver = made.place if made is not None and made.text else None
    return [_told(subject, line, replace(change, count=count), saver) for line, change, count in found.values()]


def _told(subject: Subject, line: Line, change: Change, saver: Place | None) -> Changed:
    scene, place = _scene_at(subject, line), replace(line.place, text=line.text)
    opened = open_step(subject.failure, subject.optimizer) if subject.is_weight else None
    is_open = opened is not None and (opened.outer.place.file, opened.outer.line) == (line.file, line.line)
    if change.kind == "optimizer" or is_open:  # an optimizer that calls a closure has not told that it stepped
        return Changed(place, scene, _stepping(subject, line), "seen", "optimizer", saver)
    inside = change.via.endswith(".forward") and not subject.is_weight
    module, path = _module(subject, {change.op}) if inside else ("", "")
    looked_up = subject.is_weight and change.via.startswith(("Embedding.", "EmbeddingBag."))
    name = "" if looked_up else _name(line, scene.section.body if scene else None)
    amid = line.function.startswith("<") and line.function != "<lambda>"
    segment = "" if amid else line.segment
    seen = (segment, change.op, change.via, change.count)
    return Changed(place, scene, name, "seen", "statement", saver, module, path, *seen)


def _stepping(subject: Subject, line: Line) -> str:
    """What a statement that steps calls the optimizer: `opt` of `opt.step()`; of `scaler.step(opt)`, its own name."""
    receiver, _, given = (line.segment or line.text).partition(".step(")
    every = subject.survey.optimizers.items() if not given.startswith(")") else ()
    return next((name for name, each in every if each is subject.optimizer), receiver.rpartition("= ")[2].strip())


def _scene_at(subject: Subject, line: Line) -> Scene | None:
    body, _ = read_at(line.place)
    if body is None:
        return None
    known = (scene for scene in scenes(subject) if scene.section.body.node is body.node)
    return next(known, Scene(Section(body, (), {}, {})))


def _name(line: Line, body: Body | None) -> str:
    """What a changing statement calls the tensor: `h` of `h.mul_(mask)`, `attention` of `attention[mask] = 0`."""
    match parsed(line.segment):
        case ast.Call() as call:
            receiver, name = callee(call)
            if name.endswith("_") and receiver is not None and not library(receiver):
                return ast.unparse(receiver)
            if name == "load_state_dict":  # its argument is what it reads
                return ""
            return dotted(call.args[0]) or "" if call.args else ""  # F.dropout(h, **settings)
        case ast.Subscript(value=value):
            return ast.unparse(value)
    statement = statement_at(body, line.line)
    if body and isinstance(statement, ast.AugAssign):
        return body.text(statement.target)
    return _only_name(line.line, body) if body and not line.segment else ""


def _only_name(line: int, body: Body) -> str:
    """The one name that the statements of a line change. Python 3.10 knows of an instruction its line alone."""
    here = [each for each in statements(body.node) if covers(each, line)]
    names = set[str]().union(*(changed_names(each) for each in here if not is_compound(each)))
    return names.pop() if len(names) == 1 else ""


def _stepped(subject: Subject) -> Iterator[Changed]:
    """The statements that step the optimizer which holds the weight: the last before the failing line first."""
    if subject.optimizer is None:
        return
    running = [scene for scene in scenes(subject) if scene.section.level or scene.call]
    for scene in running:
        level = scene.section.level
        here = level.place.position if level else (0, 0)
        steps = [step for step in steps_in(scene.section) if step.optimizer is subject.optimizer]
        earlier = [step for step in steps if step.place.position < here]
        for step in (*reversed(earlier), *steps[len(earlier) :]):
            yield Changed(step.place, scene, step.name, by="optimizer")


def _read(subject: Subject) -> list[Changed]:
    """A statement on the way to the loss changes a name that holds or held the tensor; else a module in place."""
    every: list[Scene] = []
    sure: list[Changed] = []
    for scene in scenes(subject):
        every.append(scene)
        sure += _changing(subject, scene, scene.held | scene.running)
        if any(each.score >= _PLAIN for each in sure):
            break
    found = sure or [each for s in every for each in _changing(subject, s, s.names) if each.score >= _ENOUGH]
    best = max((each.score for each in found), default=0)
    likely = [each for each in found if each.score == best]
    alike = [each for each in found if likely and (each.scene, each.name) == (likely[0].scene, likely[0].name)]
    return alike if len(alike) == subject.times else likely  # as many as there were changes: then it was all of them


def _changing(subject: Subject, scene: Scene, names: Collection[str]) -> Iterator[Changed]:
    for statement, name, module in _in_place(scene, names):
        place = scene.section.body.place(statement)
        sure = name in scene.held or name in scene.running
        if sure or not _holds_another(scene, name, place):
            saving = _saving(subject, scene, name, place)
            saver = saving.at if saving else None
            if _ran_before(scene, name, place, saver) or (not sure and _is_another(scene, name, place, saver)):
                continue
            yield Changed(
                place,
                scene,
                name,
                "held" if sure else "read",
                saver=saving.place if saving else None,
                module=module,
                score=_score(subject, scene, place, saver),
            )


def _in_place(scene: Scene, names: Collection[str]) -> Iterator[tuple[ast.stmt, str, str]]:
    """The statements that change a name such that its version counts on, and the class of the module that does it."""
    body, value = scene.section.body, scene.section.value
    for statement in statements(body.node):
        if is_compound(statement):
            continue
        calls = [node for node in calls_in(statement) if node.args]
        owners = [name for call in calls if (name := dotted(call.func)) and renormalizes(value(name))]
        renormalized = next((f"{owner}.weight" for owner in owners if f"{owner}.weight" in names), None)
        if renormalized is not None:
            yield statement, renormalized, ""
            continue
        used = [use.name for use in uses(statement) if use.name in names]
        operator = operator_called(statement)
        if not used or (operator is not None and called_function(scene.section, operator) is not None):
            continue  # of an operator of the user's, what it does is told in its own function
        alone = Body(body.file, ast.Module([statement], []), body.lines)
        called = {dotted(call.args[0]): value(dotted(call.func) or "") for call in calls}
        through_data = any(is_tensor_data(node) for node in expressions(statement))
        for name in dict.fromkeys(used):
            if works_in_place(called.get(name)):
                yield statement, name, class_name(type(called[name]))
                break
            if not through_data and inplace_changes(alone, name):
                yield statement, name, ""
                break


def works_in_place(value: object) -> bool:
    """Whether `value` is a module such as `nn.ReLU(inplace=True)`."""
    return issubclass(type(value), torch.nn.Module) and (namespace(value) or {}).get("inplace") is True


def renormalizes(value: object) -> bool:
    """Whether `value` is an embedding with `max_norm`, which changes its weight in place whenever it looks rows up."""
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return issubclass(type(value), kinds) and (namespace(value) or {}).get("max_norm") is not None


def _holds_another(scene: Scene, name: str, place: Place) -> bool:
    """Whether the variable, which was not assigned since, holds another tensor: then this statement is not the one."""
    if scene.section.level is None or storage_of(scene.section.value(name)) is None:
        return False
    return all(each.line <= place.line for each in assignments(scene.section.body, name))


def _ran_before(scene: Scene, name: str, place: Place, saver: Place | None) -> bool:
    """Whether the statement can only have run before the tensor was saved: it fills a local, which is used later."""
    if saver is None or scene.section.level is None or scene.caller or "." in name:
        return False
    return saver.line > place.line and loop_facts(scene.section.body, place.line) is None


def _is_another(scene: Scene, name: str, place: Place, saver: Place | None) -> bool:
    """Whether the name was given a new tensor between the saving and `place`, which then changes that one."""
    if saver is None or scene.caller or saver.position > place.position:
        return False
    every = {begins(each.node): each for each in spots(scene.section.body.node)}
    change = every.get(place.position)
    return change is not None and any(
        makes_new(each.node, name)
        for position, each in every.items()
        if saver.position < position < place.position
        and each.branches == change.branches[: len(each.branches)]  # not in a block that may have been skipped
    )


class _Saving(NamedTuple):
    """The statement that saved the tensor, and at which of the function that changes it: maybe a call."""

    place: Place
    at: Place


def _saving(subject: Subject, scene: Scene, name: str, place: Place) -> _Saving | None:
    """The last statement before `place` that may have run the operation on `name`: of a mere effect, the caller's."""
    if scene.caller and scene.call:
        return _saving(subject, scene.caller, scene.given.get(name, name), scene.call)
    section = scene.section
    repeated = loop_facts(section.body, place.line) is not None
    others = [
        each
        for each in statements(section.body.node)
        if repeated or each.lineno != place.line or read_before_written(each, name) is not None
    ]
    for each in (name, *sorted(scene.held - {name})):
        for statement in sorted(others, key=lambda one: (one.lineno >= place.line, -one.lineno)):
            at = section.body.place(statement)
            if _saves(subject, section, statement, {each}):
                return _Saving(at, at)
            inner = _saved_inside(subject, section, statement, {each}) if statement.lineno < place.line else None
            if inner is not None:
                return _Saving(inner, at)
    return None


def _saves(subject: Subject, section: Section, statement: ast.stmt, names: Collection[str]) -> bool:
    """Whether a statement may have run the operation on one of some names, or with it as the result."""
    takes_part = any(use.name in names and use.binds == subject.is_result for use in uses(statement))
    return takes_part and is_spelled(subject.node.op, statement, section.value)


def _saved_inside(
    subject: Subject, section: Section, statement: ast.stmt, names: Collection[str], depth: int = 3
) -> Place | None:
    """The statement that saved the tensor in a function which a statement calls, and gives it to or holds it."""
    if subject.is_result and not any(use.binds and use.name in names for use in uses(statement)):
        return None
    for call in calls_in(statement):
        function, owner = function_called(section, call)
        inner = called_function(section, call)
        if inner is None:
            continue
        given = arguments(undecorated(function), owner, call).items()
        known = {each for each, outer in given if outer in names}
        read = {use.name for each in statements(inner.body.node) for use in uses(each)}
        known |= {each for each in read if subject.is_held_by(inner.value(each))}
        if subject.is_result:
            known = {expression for expression, _ in results_of(inner.body)}
        for each in reversed([*statements(inner.body.node)] if known else []):
            returns = subject.is_result and isinstance(each, ast.Return)
            if _saves(subject, inner, each, known) or (returns and is_spelled(subject.node.op, each, inner.value)):
                return inner.body.place(each)
            if depth > 1 and (found := _saved_inside(subject, inner, each, known, depth - 1)) is not None:
                return found
    return None


def _score(subject: Subject, scene: Scene, place: Place, saver: Place | None) -> int:
    """The writer that the message names counts only for an input: of a saved result it names who made it."""
    statement = statement_at(scene.section.body, place.line)
    writer = "" if subject.is_result else subject.writer
    fits = bool(writer and statement and is_spelled(writer, statement, scene.section.value))
    changed, around = scene.call or place, (scene.caller or scene).section.body
    in_order = saver is not None and (saver.line < changed.line or loop_facts(around, changed.line) is not None)
    return 2 * in_order + (saver is not None) + 2 * fits


def shared_at(subject: Subject, changed: Changed) -> Shared | None:
    """Return the property through which the statement that saved a tensor has read it; None if it read none."""
    saver = changed.saver
    body, statement = read_at(saver)
    known = (each.section for each in scenes(subject) if body is not None and each.section.body.node is body.node)
    section = next(known, None)
    read = names_read(statement) if section is not None and statement else []
    every = (each for name in read if section is not None for each in shared_by(section, name))
    return next((each for each in every if subject.is_held_by(each.value)), None)


def changed_by_module(subject: Subject) -> tuple[str, str]:
    """Return the class and the path of the module that works in place and runs what changed the tensor."""
    if subject.writer and not subject.is_result:
        return _module(subject, {subject.writer})
    consumers = (node for node, edge in subject.survey.graph.edges if edge.node.index == subject.node.index)
    return _module(subject, {op_name(node.name) for node in consumers})


def _module(subject: Subject, operations: set[str]) -> tuple[str, str]:
    """The class and the path of the only module that works in place and runs one of `operations`, the nearest first."""
    wanted = {each.replace("_", "").lower() for each in operations}
    every = (pair for name, model in subject.survey.models.items() for pair in modules_in(model, name))
    found = {path: class_name(type(each)) for path, each in every if works_in_place(each)}
    found = {path: kind for path, kind in found.items() if {kind.lower(), *_RUNS.get(kind, ())} & wanted}
    edges = [edge for edge in subject.survey.graph.edges if edge[1].node.index == subject.node.index]
    reading = {node.module for node, _ in edges} - {""}
    beside = subject.module.rpartition(".")[0]
    exactly = {path: kind for path, kind in found.items() if any(f".{path}".endswith(f".{each}") for each in reading)}
    near = {path: found[path] for path in found if beside and path.rpartition(".")[0] in (beside, subject.module)}
    best = exactly or near or found
    kinds = set(best.values())
    return (kinds.pop(), next(iter(best)) if len(best) == 1 else "") if len(kinds) == 1 else ("", "")


def changed_by_modules(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield the class and the path of each module that has changed a tensor which this graph needs."""
    for node, saved in stale(subject.survey.graph)[:_MOST]:
        other = Subject(subject.failure, subject.survey, node, saved)
        found = [(each.module, each.path) for each in changes(other)[:1]]
        kind, path = found[0] if found else changed_by_module(other)
        if path:
            yield kind, path


_RUNS = {"Dropout": ("mul", "nativedropout"), "ReLU6": ("hardtanh",)}
"""What else a module runs than the operation of its name."""


# How an operation of the graph may be written in the text.


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_PRODUCT = frozenset({"matmul", "mm", "bmm", "mv", "dot", "linear", "addmm", "einsum"})
_ALSO: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot", "linear"), _PRODUCT),
    "convolution": frozenset({"conv1d", "conv2d", "conv3d", "convtranspose1d", "convtranspose2d", "convtranspose3d"}),
    "linalgvectornorm": frozenset({"norm", "vectornorm"}),
    "mseloss": frozenset({"mseloss"}),
    "pow": frozenset({"square"}),
    "mul": frozenset({"multiply"}),
    "div": frozenset({"divide", "truedivide"}),
    **dict.fromkeys(("mkldnnrnnlayer", "cudnnrnn"), frozenset({"rnn", "gru", "lstm"})),
    "elu": frozenset({"selu", "celu"}),
    "nativelayernorm": frozenset({"layernorm"}),
    "nativebatchnorm": frozenset({"batchnorm1d", "batchnorm2d", "batchnorm3d", "batchnorm"}),
    "hardtanh": frozenset({"relu6", "clamp"}),
}


def is_spelled(operation: str, statement: ast.stmt, value: Callable[[str], object]) -> bool:
    """Whether the text of `statement` may run `operation`; `value` tells what a name stands for: modules count too."""
    wanted = _plain(operation)
    words = _words(statement, value)
    return wanted in words or bool(_ALSO.get(wanted, frozenset()) & words)


def _words(statement: ast.stmt, value: Callable[[str], object]) -> set[str]:
    operator = _OPERATORS.get(type(statement.op)) if isinstance(statement, ast.AugAssign) else None
    found = {operator} if operator else set()
    for node in expressions(statement):
        if isinstance(node, ast.BinOp):
            found.add(_OPERATORS.get(type(node.op), ""))
        elif isinstance(node, ast.Call):
            receiver, method = callee(node)
            name = dotted(node.func)
            found.add(_plain((dotted(receiver) or "").split(".")[-1] if method == "apply" else method))
            called = value(name) if name else None
            inside = [module for _, module in modules_in(called)] if is_module(called) else [called]
            found |= {_plain(class_name(type(each))) for each in inside}
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add("copyslices")
    return found


def _plain(word: str) -> str:
    return word.replace("_", "").lower()


# What a graph cannot go back through any more: its saved tensors that were modified in place since.


_MOST = 8
"""Tensors whose changes are looked for."""


def stale(graph: Graph) -> list[tuple[Node, Saved]]:
    """Return the saved tensors that were changed since, each with the operation that saved it, in backward order."""
    every = ((graph.nodes[i], saved) for i in sorted(graph.saved) for saved in graph.saved[i])
    return [(node, saved) for node, saved in every if saved.state == "modified"]


def stale_beside(subject: Subject, found: Sequence[Changed]) -> Iterator[tuple[Subject, Changed]]:
    """Yield the other tensors of the graph that statements have changed, as far as that is certain.

    found: what has changed the subject; each further statement is told once, with the first tensor that it changed.
    """
    storages, told = [subject.saved.storage], {each.place for each in found}
    for node, saved in stale(subject.survey.graph):
        if saved.storage in storages or len(storages) > _MOST:
            continue
        storages.append(saved.storage)
        other = Subject(subject.failure, subject.survey, node, saved)
        for each in changes(other)[:1]:
            if each.by == "statement" and each.certainty != "read" and each.place not in told:
                told.add(each.place)
                yield other, each
