"""Weights that no longer require grad: all of them are frozen, or one was replaced by a new tensor."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene, Sources
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.exchanged import exchanged, told
from backsight.diagnosis.evidence.idle import parameter_at
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, failing, listed, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import Place, assignments, lets_through, only
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Use, arms_of, parameters_of, spots, uses
from backsight.source.body import blocks, blocks_of, body_around, dotted, expressions, read_at, statements
from backsight.source.cut_rules import FROZEN, rule_of
from backsight.source.definitions import definitions, flow_of
from backsight.source.edits import OR, change, move, on_line, put, put_at, wrap, write
from backsight.source.freezing import Freezing, freezing_of, freezings
from backsight.source.leaf_last import asks_for_gradient
from backsight.source.out_of_place import in_place
from backsight.source.restoring import ReadTooLate, put_back_unless_raised, read_too_late
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.injected import Replaced, injected, replaced_part
from backsight.story.memory import is_tensor
from backsight.story.modes import disabled_at
from backsight.story.sections import methods_of, sections
from backsight.tape import modules_in, parameters_in, registered

_NUMBER = re.compile(r"\.(\d+)")


def frozen(scene: Scene) -> Finding | None:
    """The modules that computed the loss have parameters, and none of them requires grad."""
    found = scene.sources
    return _frozen(scene, found) if found.are_frozen and not found.require_grad else None


def frozen_in_optimizer(scene: Scene) -> Finding | None:
    """The optimizer that is stepped here holds modules that computed the loss, and all that it holds is frozen.

    What else went into the loss may be a constant on purpose: the fakes that a critic is trained on.
    """
    stepped = {id(each) for each in scene.stepped}
    if not stepped or any(each.requires_grad for each in scene.stepped):
        return None
    modules = {
        name: each for name, each in scene.sources.modules.items() if any(id(p) in stepped for p in parameters_in(each))
    }
    found = Sources(modules, ())
    return _frozen(scene, found) if found.are_frozen else None


def _frozen(scene: Scene, found: Sources) -> Finding:
    names, count = list(found.modules), len(found.parameters)
    held = _held(scene, found)
    places, freezing, spared = _frozen_at(scene, names, held)
    model = listed(names, 3)
    late = _put_back_late(scene, places)
    swap = next((each for name in names if late is None and (each := exchanged(scene.failure, name))), None)
    missed: Sequence[Fact]
    if late is not None:
        missed, fix = (), f"{late.fix}."
    elif swap is not None:
        missed, fix = told(swap)
    elif (skipped := _skipped(scene, places)) is not None:
        missed, fix = skipped
    else:
        missed, fix = _unfreeze(scene, found, freezing, held, spared)
    culprit = late.read if late is not None else swap.place if swap is not None else next(iter(places), None)
    return explanation(
        scene.title(
            f"none of the {counted(count, 'parameter')} of {model} does" if count > 1 else f"{model} is frozen"
        ),
        (
            *(_told_late(late) if late is not None else _told(places)),
            *missed,
            *_only_some(held, spared),
            f"{model}: requires_grad is False for {'all ' if count > 1 else 'its '}{counted(count, 'parameter')}.",
            *fails(scene),
        ),
        fix if scene.trained.owned else _of_an_input(scene, names[0], fix),
        source=culprit or scene.failure.source,
        exact=len(places) < 2 or late is not None,
    )


def _told(places: list[Place]) -> Iterator[Fact]:
    certainty = sure_if(len(places) == 1)
    yield from (shown(each, "sets requires_grad to False.", certainty) for each in places[:3])


def _put_back_late(scene: Scene, places: list[Place]) -> ReadTooLate | None:
    """What was to set requires_grad as it was and sets it to False, if nothing else turns it off."""
    found = [each for file in user_files(scene.failure) for each in read_too_late(file, "requires_grad")]
    return only(each for each in found if all(place in (each.changed, each.restored) for place in places))


def _skipped(scene: Scene, places: list[Place]) -> tuple[Sequence[Fact], str] | None:
    """What would have turned requires_grad on again, and has not run: something in between has left the function."""
    every = [each for file in user_files(scene.failure) for each in put_back_unless_raised(file, "requires_grad")]
    found = [(off, on) for off, on in every if off in places]
    if len(found) != 1 or any(place not in found[0] for place in places):
        return None
    _, on = found[0]
    what = "puts it back, unless an exception leaves the block of the `with` first."
    fix = f"Put `yield` into a `try:`, and line {on.line} with its loop into the `finally:` of that{_tried(on)}"
    return (shown(on, what),), f"{fix}, which also runs after an exception."


def _tried(on: Place) -> str:
    """The edits for a `yield` and the statement right below it, with the loop around that."""
    body, _ = read_at(on)
    for above, below in (pair for block in blocks_of(body) for pair in itertools.pairwise(block)):
        waits = any(isinstance(node, ast.Yield) for node in expressions(above))
        if body and waits and below.lineno <= on.line <= (below.end_lineno or 0):
            return f"{wrap(body.place(above), 'try:')}{wrap(body.place(below), 'finally:')}"
    return ""


def _told_late(late: ReadTooLate) -> tuple[Fact, ...]:
    restored = shown(late.restored, "sets requires_grad to what was read.")
    if late.is_lazy:
        read = shown(late.read, "does not read requires_grad yet, only when it is used up.")
        return read, shown(late.changed, "sets requires_grad to False before that."), restored
    read = shown(late.read, "reads requires_grad only after that: False.")
    return shown(late.changed, "sets requires_grad to False."), read, restored


def _of_an_input(scene: Scene, model: str, fix: str) -> str:
    """The other way, where no optimizer trains anything: the gradient may be that of an input, or of an activation."""
    every = (each for each in sections(scene.failure) if each.level is not None)
    for section, (call, place) in ((each, called) for each in every for called in each.calls()):
        name = dotted(call.args[0]) if call.args and dotted(call.func) == model else None
        value, ask = section.value(name) if name else None, f"{name}.requires_grad_()"
        if is_tensor(value) and value.is_leaf and value.is_floating_point():
            train = fix.replace("Below", "To train it, below", 1)
            asks = f"For the gradient of an input or an activation, {put_at(ask, 'above', place)}."
            return f"No optimizer trains it here. {asks} {OR}{train}"
    return f"{fix} For the gradient of an input, call x.requires_grad_() before the forward pass."


def _held(scene: Scene, found: Sources) -> list[str]:
    """The frozen parameters that the optimizers hold, by name, where those are a part of the model's."""
    owned, module = scene.trained.owned or frozenset(), next(iter(found.modules.values()))
    every = [(name, id(parameter_at(module, name))) for name in _names(module)]
    held = [name for name, known in every if known in owned]
    return held if len(found.modules) == 1 and len(held) < len(every) else []


def _only_some(held: list[str], spared: list[Freezing]) -> Iterator[Fact]:
    """What the optimizer holds of it, and the statement that was to leave only this trainable."""
    if held and spared:
        yield shown(spared[0].place, f"freezes the others; it does not unfreeze {listed(held, 2)}.")
    if held:
        yield f"The optimizer holds {listed(held, 4)}, {'all' if len(held) > 1 else 'which is'} frozen."


def _unfreeze_held(
    name: str, module: torch.nn.Module, freezing: Freezing | None, held: list[str], spared: list[Freezing]
) -> str:
    """How to unfreeze what the optimizer holds: by the module that has it all, by a word in names, one by one."""
    where = _where(freezing)
    every, words = list(_names(module)), [word for each in spared for word in each.words({})[0]]
    owners = [name + _NUMBER.sub(r"[\1]", f".{each}") for each in _wholly(every, held)]
    word = next((each for each in words if [path for path in every if each in path] == held), "")
    if len(owners) == 1:
        how = f"{owners[0]}.requires_grad_(True)"
    elif word:
        how = f'for n, p in {name}.named_parameters(): p.requires_grad_("{word}" in n)'
    else:
        how = f"for each in ({', '.join(owners)}): each.requires_grad_(True)"
    if len(how) > _WIDEST:
        return ""
    fix = f"{where}, unfreeze what the optimizer holds: `{how}`{where.put(how)}."
    if freezing is not None and not freezing.chosen and freezing.loop is None and len(spared) == 1:
        fix += f" {OR}Or {removed(freezing.place)}, as line {spared[0].place.line} freezes the rest."
    return fix


def _wholly(every: list[str], held: list[str]) -> list[str]:
    """The largest modules whose parameters are all among these, and the parameters that are in none."""
    found: dict[str, None] = {}
    for each in held:
        owner, largest = each, each
        while owner := owner.rpartition(".")[0]:
            if all(path in held for path in every if path.startswith(f"{owner}.")):
                largest = owner
        found[largest] = None
    return list(found)


_WIDEST = 160


def _unfreeze(
    scene: Scene, found: Sources, freezing: Freezing | None, held: list[str], spared: list[Freezing]
) -> tuple[list[Fact], str]:
    """What the condition that freezes has missed, and what is to stay trainable: added modules, else the last layer."""
    name, module = next(iter(found.modules.items()))
    every = list(_names(module))
    layer = every[-1].rpartition(".")[0]
    where, (missed, words, begins) = _where(freezing), _missed(scene, freezing, name, every)
    name = _called_at(scene, where, name, module)
    added = injected(scene.failure, module)
    if added is not None:
        what = "adds it" if added.count == 1 else f"adds {added.count} of them"
        fact = shown(added.place, f"{what}: {added.kind.__name__}, whose parameters are frozen, too.")
        how = added.unfreezing(name)
        return [*missed, fact], f"{where}, add `{how}`{where.put(how)}."
    new = replaced_part(scene.failure, module)
    if new is not None and all(each.startswith(f"{new.path}.") for each in held):
        return [*missed, shown(new.place, "puts in a new layer, which was frozen with the rest.")], _unfreeze_new(
            new, freezing, name
        )
    if held and (fix := _unfreeze_held(name, module, freezing, held, spared)):
        return missed, fix
    last = name + _NUMBER.sub(r"[\1]", f".{layer}") if layer else name
    one, all_of_it = f"{last}.requires_grad_(True)", f"{name}.requires_grad_(True)"
    rest = f"{one} for the last layer alone{where.put(one)}, {OR}" if last != name else ""
    what = f"{rest}{all_of_it}{' for all of it' if rest else ''}{where.put(all_of_it)}"
    fix = f"{where}, unfreeze what should be trained: {what}."
    if not words:
        return missed, fix
    left = [each for each in every if _is_chosen(each, [layer], begins)]
    if len(words) == 1 and layer and all(each.rpartition(".")[0] == layer for each in left):
        edit = _for_word(freezing, words[0], layer) if freezing is not None else ""
        fix = f'Write "{layer}" instead of "{words[0]}" to train only the last layer{edit}.'
    return missed, f"{fix} The names are {listed([_quoted(each) for each in every], 6)}."


def _for_word(freezing: Freezing, word: str, other: str) -> str:
    """The edit that looks for another word, where a condition of the statement that freezes writes it."""
    every = (node for condition in freezing.chosen for node in ast.walk(condition) if isinstance(node, ast.Constant))
    found = only(node for node in every if node.value == word)
    at = freezing.body.place(found) if found is not None else None
    return str(change(at, at.text, _quoted(other))) if at is not None else ""


def _unfreeze_new(new: Replaced, freezing: Freezing | None, model: str) -> str:
    """How to train a part that was replaced before the model was frozen: freeze first, or unfreeze it."""
    calls = [place for place, _ in freezing.given()] if freezing is not None else []
    place = calls[0] if len(calls) == 1 else None if calls or freezing is None else freezing.loop or freezing.place
    here = place is not None and _function_of(place) is _function_of(new.place)
    target = new.target if here else _NUMBER.sub(r"[\1]", f"{model}.{new.path}")
    where, how = _where(freezing), f"{target}.requires_grad_(True)"
    fix = f"{where}, add `{how}`{where.put(how)}."
    if here and place is not None and place.line > new.place.line:
        edit = _moved(place, new.place)
        fix += f" {OR}Or freeze above line {new.place.line}, before {target} is replaced{edit}."
    return fix


def _moved(place: Place, above: Place) -> str:
    """The edit that moves a statement above another, with the blocks around it that hold nothing else."""
    body, statement = read_at(place)
    arms = arms_of(body, statement)
    around = [arm for arm, _ in arms if arm.lineno > above.line]
    alone = all(len(block) == 1 for arm in around for _, block in blocks(arm))
    whole = body.place(around[0]) if around and body is not None else place
    return str(move(whole, "above", above)) if alone else ""


def _function_of(place: Place) -> ast.AST | None:
    body = body_around(place.file, place.line)
    return body.node if body is not None else None


class _There(NamedTuple):
    """Where a statement goes, in words, and below what."""

    words: str
    below: Place | None = None

    def __str__(self) -> str:
        return self.words

    def put(self, code: str) -> str:
        """Return the edit that puts it there."""
        return str(put(code, "beside", self.below)) if self.below is not None else ""


def _where(freezing: Freezing | None) -> _There:
    """Where to unfreeze: below the only call of the function that freezes, else below the statement and its loop."""
    if freezing is None or (freezing.call is None and freezing.told):
        return _There("Before the forward pass")
    calls = [freezing.call] if freezing.call is not None else [place for place, _ in freezing.given()]
    if len(calls) == 1 and "\n" not in calls[0].text:
        return _There(f"Below line {calls[0].line}, `{calls[0].text}`", calls[0])
    if freezing.loop is not None:
        return _There(f"Below the loop on line {freezing.loop.line}", freezing.loop)
    return _There(f"Below line {freezing.place.line}", freezing.place)


def _called_at(scene: Scene, where: _There, name: str, module: torch.nn.Module) -> str:
    """What a module is called where a statement goes, which may be another function than the failing one; as there, if
    that is not known."""
    if where.below is None:
        return name
    here, (_, statement) = _function_of(where.below), read_at(where.below)
    level = next((each for each in scene.failure.users if each.body is not None and each.body.node is here), None)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    assigned = [target for each in targets if (target := dotted(each))]
    if level is None:
        own = parameters_of(here) if isinstance(here, ast.FunctionDef) else frozenset[str]()
        return name if name.partition(".")[0] in own else next(iter(assigned), name)
    every = [name, *assigned, *level.variables, *(f"self.{each}" for each in namespace(level.value("self")) or {})]
    return next((each for each in every if level.value(each) is module), name)


def _missed(
    scene: Scene, freezing: Freezing | None, model: str, every: list[str]
) -> tuple[list[Fact], tuple[str, ...], bool]:
    """What the condition that freezes looks for in the names of parameters and finds in none of them."""
    if freezing is None or not freezing.chosen:
        return [], (), False
    scope = next((each.frame.f_globals for each in scene.failure.users if each.place.file == freezing.place.file), {})
    words, begins = freezing.words(scope)
    if not words or any(_is_chosen(each, words, begins) for each in every):
        same = freezing.at == freezing.place
        return [] if same else [shown(freezing.at, "decides what is frozen, and leaves nothing trainable.")], (), False
    how, texts = "begins with" if begins else "contains", " or ".join(_quoted(word) for word in words[:3])
    says = f"leaves nothing trainable: no parameter name of {model} {how} {texts}."
    return [shown(freezing.at, says)], words, begins


def _quoted(text: str) -> str:
    return f'"{text}"'


def _names(module: torch.nn.Module) -> Iterator[str]:
    """The names of all parameters."""
    for path, each in modules_in(module):
        yield from (
            f"{path}.{name}".lstrip(".") for name, held in registered(each, "_parameters").items() if held is not None
        )


def _frozen_at(
    scene: Scene, modules: list[str], held: list[str]
) -> tuple[list[Place], Freezing | None, list[Freezing]]:
    """The statement that turned requires_grad off: one that names a module, else those of the user's files; and those
    of these that choose by words which are in the names of all that the optimizer holds."""
    levels = scene.failure.users
    named = [place for level in levels for name in modules for place in _freezing(level, name)][:1]
    every = [each for file in user_files(scene.failure) for each in freezings(file)]
    spared = [each for each in every if held and _spares(each, held)]
    rest = [each for each in every if each not in spared]
    if not rest:
        rest, spared = every, []
    chosen = [each for each in rest if each.place in named] if named else rest
    places, freezing = named or freezing_of(modules, rest), only(chosen)
    call = only(place for place in places if freezing is not None and place in freezing.told)
    return places, freezing and replace(freezing, call=call), spared


def _spares(freezing: Freezing, held: list[str]) -> bool:
    """Whether a statement chooses by words in the names, which all that the optimizer holds have."""
    words, begins = freezing.words({})
    return bool(words) and all(_is_chosen(each, words, begins) for each in held)


def _is_chosen(name: str, words: Sequence[str], begins: bool) -> bool:
    """Whether a name begins with one of some words, or else contains it."""
    return any(name.startswith(word) if begins else word in name for word in words)


def _freezing(level: Level, module: str) -> Iterator[Place]:
    """The statements of a function, or of a method of the class that has the module, that freeze it."""
    owner, _, attribute = module.rpartition(".")
    bodies = [(level.body, module)] if level.body else []
    bodies += [(body, f"self.{attribute}") for body in methods_of(type(level.value(owner)))] if owner else []
    for body, name in bodies:
        for spot in spots(body.node):
            for each in definitions(spot, name):
                if each.freezes or any(rule_of(value) is FROZEN for value in each.values):
                    yield body.place(spot.node)


def rebound(scene: Scene) -> Finding | None:
    """A variable that was made to be trained holds a plain tensor now: its update by its gradient is a new tensor."""
    return _replaced(scene, _updates)


def cut_from_itself(scene: Scene) -> Finding | None:
    """As `rebound`, by a statement that detaches the variable; nothing else that the loss is made of has a history."""
    return None if scene.sources.require_grad else _replaced(scene, _detaches)


def _updates(statement: ast.stmt, name: str) -> bool:
    return {Use(name, True), Use(f"{name}.grad", False)} <= set(uses(statement))


def _detaches(statement: ast.stmt, name: str) -> bool:
    return {Use(name, True), Use(name, False)} <= set(uses(statement)) and not lets_through(statement, name)


def _replaced(scene: Scene, replaces: Callable[[ast.stmt, str], bool]) -> Finding | None:
    for level in scene.failure.users:
        if level.body is None or not level.receiver:
            continue
        for name in ancestors(level.body, level.receiver, level.line):
            value = level.value(name)
            lost = isinstance(value, torch.Tensor) and not value.requires_grad
            found = _update(level, name, replaces) if lost else None
            if found is not None:
                return _finding_of_leaf(scene, name, *found, _fix_of_leaf(level, name, found[1]))
    return None


def _update(level: Level, name: str, replaces: Callable[[ast.stmt, str], bool]) -> tuple[Place, Place] | None:
    """The statement that asks for the gradient of `name`, and the one that replaces it by what it computes from it."""
    assert level.body is not None
    made = update = None
    flow = flow_of(level.body.node)
    for spot, _ in reversed(flow.touched(name, 0, len(flow.spots))):
        if asks_for_gradient(spot.node):
            made = made or level.body.place(spot.node)
        elif replaces(spot.node, name):
            update = level.body.place(spot.node)
    return (made, update) if made and update else None


def _fix_of_leaf(level: Level, name: str, update: Place) -> str:
    """How to change the leaf itself: as the last statement that computes `name` from `name` does."""
    assert level.body is not None
    keeps, block = f"Modify {name} in place, so it stays a leaf:", "with torch.no_grad():"
    if f"{name}.grad" in update.text and (new := in_place(level.body, name, update.line)):
        new = new if disabled_at(level.body, update.line) else f"{block} {new}"
        others = (each for each in statements(level.body.node) if each.lineno != update.line)
        cleared = any(use.name.startswith(f"{name}.grad") for each in others for use in uses(each))
        none = f"{name}.grad = None"
        clear = "" if cleared else f", and {put_at(none, 'below', update)}"
        return f"{keeps} {on_line(update, new)}{clear}. {OR}Or let an optimizer do it."
    every = ((place, in_place(level.body, name, place.line)) for place in reversed(assignments(level.body, name)))
    place, new = next(((place, each) for place, each in every if each), (update, None))
    if new is None:
        return f"Keep {name} a leaf: {removed(update)}."
    new = f"{block} {new}"
    if place.line == update.line:
        return f"{keeps} `{new}`{write(place, new)}."
    return f"{keeps} {on_line(place, new)}, and {removed(update)}."


def _finding_of_leaf(scene: Scene, name: str, made: Place, update: Place, fix: str) -> Finding:
    assigns = f"assigns a new tensor to {name}, computed without a graph: it does not require grad."
    return explanation(
        scene.title(f"{name} was replaced in its update by a tensor that does not"),
        (
            shown(made, f"creates {name} with requires_grad."),
            shown(update, assigns, "read"),
            *failing(scene.failure, "has nothing to backpropagate through."),
        ),
        fix,
        source=update,
        exact=False,
    )
