"""The reasons why a loss has no history, each as a finding, or None where it is another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from backsight.diagnosis.errors.no_grad.asked import asked
from backsight.diagnosis.errors.no_grad.attached import in_one_piece
from backsight.diagnosis.errors.no_grad.fixes import fix, leaves_pytorch, silenced
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.no_grad.sources import Sources, Trained
from backsight.diagnosis.errors.no_grad.suspects import Suspect, node_of, operands, unrecorded, why
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.disabled import Disabled, enabled_at, nearest_at
from backsight.diagnosis.evidence.reentrant import Reentrant, reentrant_call
from backsight.diagnosis.evidence.settings import Setting, setting
from backsight.diagnosis.evidence.spoken import passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shaped, shown
from backsight.findings.evidence import Certainty, Fact
from backsight.naming.plain import namespace
from backsight.source import Cut, Place, assignments, parsed, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import callee, dotted
from backsight.source.cut_rules import reads_form, rule_of
from backsight.story.evaluated import Variables, truth_of
from backsight.story.failure import Failure, function_of
from backsight.story.handed import handed
from backsight.story.sections import Section, run_by, section_of, sections
from backsight.tape import modules_in

_PLAIN = re.compile(r"[\w.]+ = torch\.\w+\(.*[^,(]\)")
_INITIAL = re.compile(r"torch\.(zeros|ones|full|empty)\(")


def off_around(scene: Scene) -> Finding | None:
    """A function that still runs, or a block in it, disabled gradients, and all that the loss is made of ran inside.

    Whatever else cuts histories off there, `.detach()` at the start of a chain, also runs where gradients are enabled.
    """
    block = _around_all(scene.failure, scene.root is not None and scene.root.is_inference())
    if block is None:
        return None
    suspect = block
    if scene.failure.call != "grad" or not block.inside:  # what there was to train inside it
        same = (each for each in scene.suspects if each.cut.kind == "no_grad" and each.cut.place == block.cut.place)
        suspect = replace(next(same, block), trains=block.trains, enabled=block.enabled)
    return _finding(scene, suspect, [suspect])


def _around_all(failure: Failure, is_inference: bool) -> Suspect | None:
    """The innermost block or decorator around the failing call that says whether gradients are enabled, if it disables
    them, and if the loss was computed inside it; for an inference tensor, the one with inference mode, which
    `enable_grad` inside does not end."""
    user = failure.user
    if user is None or user.body is None or user.receiver is None:
        return None
    is_name = all(part.isidentifier() for part in user.receiver.split("."))
    made = assignments(user.body, user.receiver, before=user.line) if is_name else (user.place,)
    enabled: Place | None = None
    by = "inference" if is_inference else "no_grad"
    for level in failure.users if made else ():
        line = made[-1].line if level is user else level.line
        off = nearest_at(level.body, line, by) if level.body else None
        if off is False:
            return None
        if enabled is None and level.body and is_inference:
            enabled = enabled_at(level.body, line)
        if off is None:
            continue
        here = section_of(level)
        if not is_sure(level, off):
            return None
        apart = level is not user and level.line > off.place.line  # what stands on the line of the block is seen there
        calling = ((level.place, ""),) if apart else ()
        cut = Cut("no_grad", off.place, off.text, "records nothing")
        node = user.body.node if apart and failure.call == "backward" else None
        trains = user.body.place(node, "") if isinstance(node, ast.FunctionDef) else None
        return Suspect(here, cut, True, inside=calling, trains=trains, enabled=enabled) if here else None
    return None


def is_sure(level: Variables, off: Disabled) -> bool:
    """Whether a context has disabled gradients, whatever it was told: not in `torch.set_grad_enabled(training)`."""
    node = parsed(off.text)
    if node is None:
        return False
    if isinstance(node, ast.Call):
        told = [*node.args, *(each.value for each in node.keywords)]
        wanted = callee(node)[1] == "inference_mode"
        if callee(node)[1] == "no_grad" or (wanted and not told):
            return True
        return len(told) == 1 and truth_of(level, told[0]) is wanted
    held = level.value(dotted(node) or "")
    return off.is_decorator or type(held) in (torch.no_grad, torch.inference_mode)


def _is_enabled(failure: Failure) -> bool:
    """Whether the innermost block or decorator around the failing call enables gradients."""
    around = (nearest_at(level.body, level.line) for level in failure.users if level.body)
    return next((each for each in around if each is not None), None) is False


def cut_off(scene: Scene) -> Finding | None:
    """A statement turned a tensor that has a history into one that has none."""
    proven = [suspect for suspect in scene.suspects if suspect.verdict]
    if (gradient := _asked_after(scene, proven)) is not None:
        return _finding(scene, gradient, [gradient])
    blocks = all(suspect.cut.kind == "no_grad" for suspect in proven)
    if not proven or (blocks and scene.sources.are_frozen and not scene.sources.require_grad):
        return None  # of what is frozen anyway a block takes nothing away
    if lost_in_call(scene.failure, scene.trained, [each for each in proven if each.cut.kind == "no_grad"]):
        called = [each for each in scene.suspects if each.section.level is None and each.cut.kind != "frozen"]
        inside = next((suspect for suspect in called if suspect.verdict is not False), None)
        if inside is not None:
            return _finding(scene, inside, [inside])
        if blocks:  # a statement outside of them has lost it, too
            return None
    if blocks and (found := next((each for each in proven if _is_called_outside(scene, each, proven)), None)):
        return _finding(scene, found, [found])
    cutting = [suspect for suspect in proven if suspect.cut.kind != "no_grad"]
    return _finding(scene, (cutting or proven)[0], proven)


def _asked_after(scene: Scene, proven: Sequence[Suspect]) -> Suspect | None:
    """The gradient that a call asked for without a graph, unless a statement below that call cuts off its result: what
    it was taken of had a graph, whatever was cut off above."""
    for each in scene.suspects:
        call = asked(each) if each.verdict is not False else None
        later = (one.cut.place for one in proven if one is not each)
        if call and not any(place.file == call.place.file and place.line > call.place.line for place in later):
            return each
    return None


def _is_called_outside(scene: Scene, suspect: Suspect, blocks: Sequence[Suspect]) -> bool:
    """Whether a function without gradients, which has returned, was called outside of the blocks that have none: what
    they computed may be a target, and is so on purpose."""
    name, off = suspect.section.body.name, _lines_off(blocks)
    running = [each for each in sections(scene.failure) if each.level is not None] if off else []
    calls = ((call, place) for each in running for call, place in each.calls())
    return suspect.section.level is None and any(
        callee(call)[1] == name and (place.file, place.line) not in off for call, place in calls
    )


def cut_as_seen(scene: Scene) -> Finding | None:
    """A watch has seen where the history ended. How a line was reached that runs often, it does not know: then the text
    may show the block or decorator around it."""
    if not scene.seen:
        return None
    first = scene.seen[0]
    unknown = first.cut.kind == "no_grad" and not first.inside
    blocks = (each for each in scene.suspects if unknown and each.cut.kind == "no_grad" and each.verdict)
    around = next((each for each in blocks if _runs(each, first.cut.place)), None)
    return _finding(scene, (around and replace(around, seen=True)) or first, scene.seen if around is None else [around])


def _runs(block: Suspect, line: Place) -> bool:
    """Whether what a block uses may run a line, in another function."""
    for value in (block.section.value(name) for _, name in block.inside):
        for each in run_by(function_of(value), value) if value is not None else ():
            node, last = each.body.node, getattr(each.body.node, "end_lineno", None) or 0
            if each.body.file == line.file and getattr(node, "lineno", 0) <= line.line <= last:
                return True
    return False


def likely(scene: Scene) -> Finding | None:
    """A statement cuts histories off, and nothing speaks against it."""
    possible = [suspect for suspect in scene.suspects if suspect.verdict is None and suspect.cut.kind != "frozen"]
    if not possible:
        return None
    first = possible[0]
    if "one_hot(" in first.cut.expression:  # what it spreads out has lost its history before
        read = set(operands(first.section, first.cut))
        first = next((each for each in possible if read & _binds(each)), first)
    return _finding(scene, first, [first])


def _binds(suspect: Suspect) -> set[str]:
    statement = statement_at(suspect.section.body, suspect.cut.place.line)
    return bound(statement) if statement is not None else set()


def nothing_requires_grad(scene: Scene) -> Finding | None:
    """The tensors that the loss was computed from are plain data."""
    found = scene.sources
    if not found.tensors or found.require_grad or found.parameters:
        return None
    names = [source.name for source in found.tensors]
    return explanation(
        scene.title(f"it is computed from {listed(names, 4)}, and {_none(len(names))}"),
        (*_tensors(found), *fails(scene)),
        f"Set requires_grad where you create the tensor to train: {_asking(scene, found)}.",
        source=scene.failure.source,
        exact=False,
    )


def _asking(scene: Scene, found: Sources) -> str:
    """The statement that makes the tensor to be learnt, with the request for a gradient added."""
    owned = scene.trained.owned or frozenset()
    made = [source for source in found.tensors if source.made and _PLAIN.fullmatch(source.made.text)]
    best = next((source for source in made if id(source.tensor) in owned), None)
    best = best or next((source for source in made if source.made and _INITIAL.search(source.made.text)), None)
    if best is None or best.made is None:
        return "w = torch.zeros(3, requires_grad=True), or w.requires_grad_() before computing anything from w"
    return f"{best.made.text[:-1]}, requires_grad=True)"


def _none(number: int) -> str:
    return {1: "it does not either", 2: "neither does"}.get(number, "none of them does")


def _tensors(found: Sources) -> Iterator[Fact]:
    for source in found.tensors[:4]:
        what = f"{source.name} ({shaped(source.tensor.shape)})"
        does = f"creates {what}, which does not require grad."
        yield shown(source.made, does, "read") if source.made else f"{what} does not require grad."


def _finding(scene: Scene, suspect: Suspect, all_of_them: list[Suspect]) -> Finding:
    suspect = replace(suspect, beside=_beside(suspect, scene.seen if suspect.seen else scene.suspects))
    suspect = replace(suspect, called=_calling(scene, suspect), likewise=_likewise(scene, suspect))
    told = {each.cut.place for each in (suspect, *suspect.likewise)}
    apart = [each for each in all_of_them if each.cut.place not in told]
    if _is_enabled(scene.failure):  # what has disabled gradients further out, does so no more
        apart = [each for each in apart if each.cut.kind != "no_grad"]
    others = list(dict.fromkeys(str(each.cut.place) for each in apart))
    culprit = suspect.behind if suspect.behind and leaves_pytorch(suspect.behind) else suspect
    held = bool(suspect.verdict) and suspect.section.level is not None
    chosen = _setting(scene, culprit)
    seen = held or suspect.seen or any(scene.saw(place) for place in _places(suspect))
    return explanation(
        scene.title(_because(culprit)),
        (
            *(chosen.evidence if chosen else ()),
            *_steps(suspect, None if seen else "read", scene.failure.call == "grad"),
            *([shown(suspect.called, f"calls {_name(suspect)}().")] if suspect.called and not suspect.calling else []),
            *(_fails_again(scene) if asked(suspect) else fails(scene)),
            *((f"Other graphs are detached at {listed(others, 3)}.",) if others else ()),
        ),
        f"{chosen.fix}, so that this gradient has its own graph. {silenced(scene.loss)}"
        if chosen
        else fix(culprit, scene.loss, _copied_later(scene, culprit), derivative=_derivative(scene)),
        source=str(chosen.place if chosen else call.place if (call := asked(culprit)) else culprit.cut.place),
        exact=seen,
    )


def _setting(scene: Scene, suspect: Suspect) -> Setting | None:
    """What decided that a gradient was asked for without a graph, where that is a setting of the program's."""
    node = node_of(suspect.section, suspect.cut) if suspect.cut.kind == "gradient" else None
    if not isinstance(node, ast.Call) or asked(suspect) is not None:
        return None
    known = (each for each in sections(scene.failure) if each.body.node is suspect.section.body.node)
    return setting(scene.failure, next(known, suspect.section), node, "create_graph")


def _derivative(scene: Scene) -> Place | None:
    """The statement that asks autograd.grad for a derivative, which evaluation may need too."""
    return scene.failure.user.place if scene.failure.user and scene.failure.call == "grad" else None


def _calling(scene: Scene, suspect: Suspect) -> Place | None:
    """The statement that calls the function which a decorator stands on."""
    name = _name(suspect)
    if not suspect.cut.place.text.startswith("@") or suspect.section.level is not None:
        return None
    running = (section for section in sections(scene.failure) if section.level is not None)
    calls = (place for section in running for call, place in section.calls() if callee(call)[1] == name)
    return next(calls, None)


def _name(suspect: Suspect) -> str:
    return suspect.section.body.name


_LEFT_OUT = ("detach", "number")
"""Kinds of cuts that are a call around a tensor, which stays when the call is left out."""


def _beside(suspect: Suspect, all_of_them: list[Suspect]) -> tuple[Suspect, ...]:
    """What else the same statement cuts off, as surely as this: all of it is to be taken back at once."""
    cut = suspect.cut
    kinds = _LEFT_OUT if cut.kind in _LEFT_OUT else () if cut.kind == "no_grad" else (cut.kind,)
    here = (each for each in all_of_them if each.cut.place == cut.place and each.cut.kind in kinds)
    sure = (each for each in here if each.verdict is suspect.verdict)
    return tuple({each.cut.expression: each for each in sure if each.cut.expression != cut.expression}.values())


def _likewise(scene: Scene, suspect: Suspect) -> tuple[Suspect, ...]:
    """The gradients without a graph that other statements take on the way to the loss: with a graph for one of them,
    it would run, and take the others for constants."""
    found = (scene.seen if suspect.seen else scene.suspects) if suspect.cut.kind == "gradient" else ()
    sure = (each for each in found if each.cut.kind == "gradient" and each.verdict is suspect.verdict)
    sure = (each for each in sure if not _is_given(scene, each))
    return tuple({each.cut.place: each for each in sure if each.cut.place != suspect.cut.place}.values())


def _is_given(scene: Scene, gradient: Suspect) -> bool:
    """Whether a gradient that a watch has seen taken is one of data alone, as one that is to be matched: a constant."""
    try:
        names = {use.name for use in uses(ast.parse(gradient.operand, mode="eval")) if gradient.seen}
    except (SyntaxError, ValueError):  # a text that was shortened
        return False
    values = [level.value(name) for level in scene.failure.users for name in names]
    return {True, False} & {scene.trained.carries(each) for each in values if each is not None} == {False}


def _copied_later(scene: Scene, culprit: Suspect) -> Suspect | None:
    """The place where the numbers, kept in a list or added up, were made into one tensor again."""
    if culprit.cut.kind not in ("detach", "number"):
        return None
    copies = (each for each in scene.suspects if each.cut.kind == "copy" and each.cut.place != culprit.cut.place)
    if not culprit.seen:  # a step nearer to the loss, in the same function
        copies = (
            each for each in copies if each.section is culprit.section and not each.verdict and in_one_piece(each)
        )
    return next((each for each in copies if ".item()" in culprit.cut.expression), None)


def _places(suspect: Suspect) -> Iterator[Place]:
    """Where a watch may have seen that it happened."""
    yield suspect.cut.place
    yield from (place for place, _ in suspect.inside)
    if suspect.behind:
        yield from _places(suspect.behind)


def _because(suspect: Suspect) -> str:
    expression = suspect.cut.expression
    match suspect.cut.kind:
        case "no_grad" if suspect.seen and not suspect.inside:
            return f"{expression} ran while gradients were disabled"
        case "frozen":
            return f"{expression} ran on nothing that requires grad"
        case "no_grad" if not suspect.verdict:
            return f"one of its inputs was computed under {expression}, where nothing is recorded"
        case "no_grad":
            return f"it was computed under {expression}, where nothing is recorded"
        case "copy":
            return f"{expression} creates a new tensor, detached from the model"
    if (call := asked(suspect)) is not None:
        return f"{call.text} returned gradients without a graph"
    if suspect.cut.kind == "gradient" and expression.endswith(")"):
        return f"{expression} returned gradients without a graph"
    cutting = listed([each.expression for each in suspect.cuts], 3)
    return f"{cutting} detached it from the graph"


def _steps(suspect: Suspect, certainty: Certainty | None, derivative: bool = False) -> Iterator[Fact]:
    """What happened to the history, in the order in which it happened; `derivative`: autograd.grad was asked for it."""
    if suspect.behind:
        yield from _steps(suspect.behind, certainty)
    weighed = suspect.operand and suspect.verdict and not suspect.seen
    had = f" {_attached(suspect)}" if weighed else ""
    if suspect.cut.kind == "no_grad" and (suspect.inside or not suspect.seen):
        yield shown(suspect.cut.place, "disables gradients for everything inside it.", certainty)
        if suspect.enabled is not None:
            yield shown(suspect.enabled, "enables gradients, but does not end inference mode.", certainty)
        if suspect.calling is not None:
            yield shown(suspect.calling, "runs inside it.", certainty)
        stands = "runs inside it" if suspect.calling is None else "runs there"
        for place, name in suspect.inside[:2]:
            trained = (
                f" and uses {name}, which should be trained" if name and not derivative else ", so it has no graph"
            )
            yield shown(place, f"{stands}{trained}.", certainty)
    else:
        if (call := asked(suspect)) is not None:
            yield shown(call.place, f"{call.does}.", certainty)
        does = listed(list(dict.fromkeys(map(why, suspect.cuts))), 3)
        yield shown(suspect.cut.place, f"{does}.{'' if suspect.behind else had}", certainty)
        for each in suspect.likewise:
            yield shown(each.cut.place, "returns gradients without a graph, too.", certainty)


def _attached(suspect: Suspect) -> str:
    """`w and b are attached to a graph; the results are not.`"""
    held = [*dict.fromkeys([suspect.spoken, *(each.held for each in suspect.beside if each.held)])]
    if len(held) == 1:
        return f"{held[0]} is attached to a graph; the result is not."
    return f"{listed(held, 3)} are attached to a graph; the results are not."


def fails(scene: Scene) -> Iterator[Fact]:
    yield from passed(handed(scene.failure, scene.root))
    yield from failing(scene.failure, "has nothing to backpropagate through.")


def _fails_again(scene: Scene) -> Iterator[Fact]:
    """The call that runs the failing statement on a result of its own; where none does, that statement."""
    users = scene.failure.users
    if len(users) < 2 or users[0].body is None or users[0].function == "<module>":
        yield from fails(scene)
    else:
        name = getattr(users[0].body.node, "name", "")
        yield shown(users[1].place, f"runs {name}() on what was computed from them, which has no graph either.")


def lost_in_call(failure: Failure, trained: Trained, blocks: Sequence[Suspect] = ()) -> bool:
    """Whether a statement whose own text cuts nothing off has lost a history: then a function that it calls did. Those
    in `blocks` without gradients do not count.

    A `.detach()` elsewhere, on the target of the loss perhaps, is then not to blame.
    """
    here = next((section for section in sections(failure) if section.level is failure.user), None)
    off = _lines_off(blocks)
    if here is None or any((level.place.file, level.place.line) in off for level in failure.users):
        return False
    return any(_loses(here, line, trained) for line in here.lines() if (here.body.file, line) not in off)


def _lines_off(blocks: Sequence[Suspect]) -> set[tuple[str, int]]:
    """The lines of functions that still run which these blocks do not record."""
    running = [each for each in blocks if each.section.level is not None]
    return {(each.section.body.file, n.lineno) for each in running for n in unrecorded(each.section, each.cut)}


def _loses(section: Section, line: int, trained: Trained) -> bool:
    statement = statement_at(section.body, line)
    if statement is None or any(trained.carries(section.value(name)) for name in bound(statement)):
        return False
    known = [name for name in bound(statement) if trained.carries(section.value(name)) is False]
    is_goal = any(line == goal_line for _, goal_line in section.goals)
    if not known and not is_goal:
        return False
    return any(trained.carries(section.value(name)) for name in _entering(statement))


def _entering(statement: ast.stmt) -> Iterator[str]:
    """The names in the arguments of calls that the statement reads in full, those apart that it cuts off itself."""
    stack: list[tuple[ast.AST, bool]] = [(statement, False)]
    while stack:
        node, in_call = stack.pop()
        rule = rule_of(node) if isinstance(node, ast.expr) else None
        if (rule and rule.always) or (isinstance(node, ast.expr) and reads_form(node)):
            continue
        name = dotted(node)
        if name is not None:
            if in_call:
                yield name
        elif isinstance(node, ast.Call):
            if (function := dotted(node.func)) is not None:
                yield function
            stack += [(each, True) for each in (*node.args, *(given.value for given in node.keywords))]
            stack.append((node.func, in_call))
        else:
            stack += [(each, in_call) for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]


_SILENT = "With use_reentrant=True, checkpoint records nothing if no input requires grad, as here."


def reentrant(scene: Scene) -> Finding | None:
    """The result came through a reentrant checkpoint whose inputs are plain data."""
    call = reentrant_call(scene.failure)
    place = call.place if call else None
    model = None if place else _checkpointing_model(scene)
    if place is None and model is None:
        return None
    user = scene.failure.user
    where = shown(place, "computes it.") if place else f"{model}.gradient_checkpointing is on."
    enable = f"{model}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{'use_reentrant': False}})"
    of_model = f"Call {enable}, or {model}.enable_input_require_grads()."
    return explanation(
        scene.title("it went through a checkpoint whose inputs do not require grad"),
        (where, _SILENT, *((shown(user.place, "has nothing to backpropagate through."),) if user else ())),
        _not_reentrant(call) if call else of_model,
        source=str(place) if place else scene.failure.source,
        exact=_is_seen(scene),
    )


def _not_reentrant(call: Reentrant) -> str:
    if not call.mended:
        return "Pass use_reentrant=False to checkpoint."
    return f"Pass use_reentrant=False to checkpoint: on line {call.place.line}, write `{call.mended}`."


def _is_seen(scene: Scene) -> bool:
    """Whether a watch has seen gradients switched off by no block of the program's: checkpoint does it by itself."""
    return bool(scene.seen) and scene.seen[0].cut.kind == "no_grad" and not scene.seen[0].inside


def _checkpointing_model(scene: Scene) -> str | None:
    """A model of the transformers library that checkpoints its layers."""
    for name, module in scene.sources.modules.items():
        if any((namespace(each) or {}).get("gradient_checkpointing") is True for _, each in modules_in(module)):
            return name
    return None
