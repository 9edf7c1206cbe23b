"""The reasons why a loss has no history, each as a finding, or None where it is another."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from backsight.diagnosis.errors.no_grad.scene import Scene, Sources
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.reentrant import checkpointing, reentrant_call, without_reentry
from backsight.diagnosis.evidence.spoken import passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, listed, shaped, shown, sure_if
from backsight.findings.evidence import Certainty, Fact
from backsight.naming.plain import class_dict
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, assignments, calls_of, only, statement_at
from backsight.source.bindings import assigned, stored_arguments
from backsight.source.body import body_around, callee, calls_in, dotted, is_constant, keyword, read_at
from backsight.source.edits import on_line, write
from backsight.source.rewriting import rewritten
from backsight.story.cut_fixes import fix, silenced
from backsight.story.cuts import CutOff, along, around, asked, node_of, origin, why
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, follow, method
from backsight.story.files import calls_in_files, user_files
from backsight.story.handed import handed
from backsight.story.hooks import hooks
from backsight.story.modes import chosen_at
from backsight.story.sections import Section, methods_of, sections

_PLAIN = re.compile(r"[\w.]+ = torch\.\w+\(.*[^,(]\)")
_INITIAL = re.compile(r"torch\.(zeros|ones|full|empty)\(")


def off_around(scene: Scene) -> Finding | None:
    """A function that still runs, or a block in it, disabled gradients, and all that the loss is made of ran inside.

    Whatever else cuts histories off there, `.detach()` at the start of a chain, also runs where gradients are enabled.
    """
    blocks = _around_all(scene.failure, scene.root is not None and scene.root.is_inference())
    if not blocks:
        return None
    suspect = block = blocks[0]
    if scene.failure.call != "grad" or not block.inside:  # what there was to train inside it
        same = (each for each in scene.suspects if each.cut.kind == "no_grad" and each.cut.place == block.cut.place)
        suspect = replace(next(same, block), trains=block.trains, enabled=block.enabled)
    return _finding(scene, replace(suspect, around=tuple(blocks[1:])), [suspect])


def _around_all(failure: Failure, is_inference: bool) -> list[CutOff]:
    """The blocks and decorators around the failing call that disable gradients, the innermost first, if the loss was
    computed inside; for an inference tensor, those with inference mode, which `enable_grad` inside does not end."""
    user = failure.user
    if user is None or user.body is None or user.receiver is None:
        return []
    is_name = all(part.isidentifier() for part in user.receiver.split("."))
    made = assignments(user.body, user.receiver, before=user.line) if is_name else (user.place,)
    stack = [(level, made[-1].line if level is user else level.line) for level in failure.users] if made else []
    found = around(stack, "inference" if is_inference else "no_grad")
    node = user.body.node if failure.call == "backward" else None
    trains = user.body.place(node, "") if isinstance(node, ast.FunctionDef) else None
    return [replace(each, trains=trains if each.inside else None) for each in found]


def cut_off(scene: Scene) -> Finding | None:
    """A statement cuts the loss off, and some is known to have lost what had a history."""
    proven = [each for each in scene.suspects if each.verdict]
    is_frozen = scene.sources.are_frozen and not scene.sources.require_grad
    blocks = all(each.cut.kind == "no_grad" for each in proven)
    if not proven or (blocks and (is_frozen or reentrant_call(scene.failure) is not None)):
        return None  # of what has no gradient anyway a block takes nothing away
    near = _nearest(scene)
    among = [each for each in near if each.verdict or each.section.level is None]
    return _of_first(scene, among, [each for each in near if each.verdict])


def likely(scene: Scene) -> Finding | None:
    """A statement cuts histories off, and nothing speaks against it."""
    return _of_first(scene, _nearest(scene), [])


def _nearest(scene: Scene) -> list[CutOff]:
    """The suspects without those behind others which alone are enough: what is behind these has a gradient by now."""
    enough = {each.cut for each in scene.suspects if each.arrives}
    return [each for each in scene.suspects if enough.isdisjoint(each.before)]


def _of_first(scene: Scene, among: Sequence[CutOff], proven: list[CutOff]) -> Finding | None:
    """The first that a gradient meets, of those that are the likeliest to be a mistake."""
    found = (each for each in among if each.verdict is not False and each.cut.kind != "frozen")
    first = min(found, key=partial(_is_meant, scene), default=None)
    if first is None:
        return None
    beside = [each for each in scene.suspects if each.arrives and not each.before and each.cut.always]
    return _finding(scene, first, proven if first.section.level is not None else beside)


def _is_meant(scene: Scene, cut: CutOff) -> int:
    """How likely a cut is no mistake: of labels, around a target, or of what may have no gradient anyway. Of
    two as likely ones, `.detach()` is written on purpose, and results are not copied into a new tensor on purpose."""
    is_block = cut.cut.kind == "no_grad" and not cut.cut.place.text.startswith("@")
    leads_on = cut.arrives or any(each.before and each.before[-1] == cut.cut for each in scene.suspects)
    is_asked_for = cut.cut.kind == "detach" and any(_copies_results(each) for each in scene.suspects)
    return 8 * (not leads_on) + 4 * (not cut.cut.always) + 2 * is_block + is_asked_for


def _copies_results(cut: CutOff) -> bool:
    """Whether a new tensor is made of results that a gradient goes into, and that it comes to by no other cut."""
    return cut.cut.kind == "copy" and cut.verdict is True and not cut.before


def cut_as_seen(scene: Scene) -> Finding | None:
    """A watch has seen where the history ended. How a line was reached that runs often, it does not know: then the text
    may show what disables gradients."""
    if not scene.seen:
        return None
    first = scene.seen[0]
    unknown = first.cut.kind == "no_grad" and not first.inside
    block = next((each for each in scene.suspects if unknown and each.cut.kind == "no_grad" and each.verdict), None)
    return _finding(scene, first, scene.seen) if block is None else _finding(scene, replace(block, seen=True), [])


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
    text, (body, statement) = f"{best.made.text[:-1]}, requires_grad=True)", read_at(best.made)
    value = next(calls_in(statement), None)
    new = rewritten(body, statement, {value: text.partition(" = ")[2]}) if body and statement and value else ""
    return f"{text}{write(best.made, new)}"


def _none(number: int) -> str:
    return {1: "it does not either", 2: "neither does"}.get(number, "none of them does")


def _tensors(found: Sources) -> Iterator[Fact]:
    for source in found.tensors[:4]:
        what = f"{source.name} ({shaped(source.tensor.shape)})"
        does = f"creates {what}, which does not require grad."
        yield shown(source.made, does, "read") if source.made else f"{what} does not require grad."


def _finding(scene: Scene, suspect: CutOff, all_of_them: list[CutOff]) -> Finding:
    suspect = origin(suspect, scene.suspects)
    further = [*suspect.around, *_likewise(scene, suspect), *along(suspect, scene.suspects)]
    told = {each.cut.place for each in (suspect, *further)}
    apart = [each for each in all_of_them if each.cut.place not in told and each.cut.kind != "no_grad"]
    others = list(dict.fromkeys(str(each.cut.place) for each in apart))
    held = bool(suspect.verdict) and suspect.section.level is not None
    chosen = _setting(scene, suspect)
    seen = held or suspect.seen or any(scene.saw(place) for each in (suspect, *further) for place in places(each))
    return explanation(
        scene.title(_because(suspect)),
        (
            *(chosen.evidence if chosen else ()),
            *_steps(suspect, sure_if(seen), scene.failure.call == "grad"),
            *(_again(each, suspect, sure_if(seen)) for each in further),
            shown(suspect.called, f"calls {suspect.section.body.name}().")
            if suspect.called and not suspect.calling
            else None,
            *(_fails_again(scene) if asked(suspect) else fails(scene)),
            f"Other graphs are detached at {listed(others, 3)}." if others else None,
        ),
        f"{chosen.fix}, so that this gradient has its own graph. {silenced(scene.loss)}"
        if chosen
        else fix(suspect, scene.loss, further, derivative=_derivative(scene)),
        source=chosen.place if chosen else call.place if (call := asked(suspect)) else suspect.cut.place,
        exact=seen,
    )


def _again(cut: CutOff, first: CutOff, certainty: Certainty | None) -> Fact:
    """What else ends the same way as the first cut."""
    if cut.cut.kind == "no_grad":
        also = " as well" if first.cut.kind == "no_grad" else ""
        return shown(cut.cut.place, f"disables gradients{also}.", certainty)
    if (call := asked(cut)) is not None:
        return shown(call.place, f"{call.does}.", certainty)
    too = "returns gradients without a graph, too" if cut.cut.kind == "gradient" else why(cut.cut)
    return shown(cut.cut.place, f"{too}.", certainty)


def _setting(scene: Scene, suspect: CutOff) -> Setting | None:
    """What decided that a gradient was asked for without a graph, where that is a setting of the program's."""
    node = node_of(suspect.section, suspect.cut) if suspect.cut.kind == "gradient" else None
    if not isinstance(node, ast.Call) or asked(suspect) is not None:
        return None
    known = (each for each in sections(scene.failure) if each.body.node is suspect.section.body.node)
    return setting(scene.failure, next(known, suspect.section), node, "create_graph")


def _derivative(scene: Scene) -> Place | None:
    """The statement that asks autograd.grad for a derivative, which evaluation may need too."""
    return scene.failure.user.place if scene.failure.user and scene.failure.call == "grad" else None


def _likewise(scene: Scene, cut: CutOff) -> list[CutOff]:
    """The gradients without a graph that other statements take on the way to the loss, or the positions in other scores
    that the same function takes: with a graph for one of them, it would run, and take the others for constants."""
    own, call = cut.section.body.node, cut.section.call
    others = [each for each in scene.suspects if each.cut.kind == cut.cut.kind and each.arrives]
    if cut.cut.kind == "index":
        others = [each for each in others if each.section.body.node is own]
    elif cut.cut.kind != "gradient":
        return []
    return [each for each in others if not each.is_at(cut.cut.place) or each.section.call not in (call, None)]


def places(suspect: CutOff) -> Iterator[Place]:
    """Where a watch may have seen that it happened."""
    yield suspect.cut.place
    yield from (place for place, _ in suspect.inside)


def _because(suspect: CutOff) -> str:
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


def _steps(suspect: CutOff, certainty: Certainty | None, derivative: bool = False) -> Iterator[Fact]:
    """What happened to the history, in the order in which it happened; `derivative`: autograd.grad was asked for it."""
    weighed = suspect.operand and suspect.verdict and not suspect.seen
    had = f" {_attached(suspect)}" if weighed else ""
    if suspect.cut.kind == "no_grad" and (suspect.inside or not suspect.seen):
        yield from filter(None, [if_known(chosen_at(suspect.section.body, suspect.cut.expression), "chooses it.")])
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
        yield shown(suspect.cut.place, f"{does}.{had}", certainty)


def _attached(suspect: CutOff) -> str:
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


_SILENT = "With use_reentrant=True, checkpoint records nothing if no input requires grad, as here."


def reentrant(scene: Scene) -> Finding | None:
    """The result came through a reentrant checkpoint whose inputs are plain data."""
    call = reentrant_call(scene.failure)
    fix = without_reentry(scene.failure, call)
    if not fix:
        return None
    where = shown(call.place, "computes it.") if call else f"{checkpointing(scene.failure)} checkpoints its layers."
    return explanation(
        scene.title("it went through a checkpoint whose inputs do not require grad"),
        (
            where,
            call.passing if call else None,
            _SILENT,
            *failing(scene.failure, "has nothing to backpropagate through."),
        ),
        fix,
        source=call.place if call else scene.failure.source,
        exact=_is_seen(scene),
    )


def _is_seen(scene: Scene) -> bool:
    """Whether a watch has seen gradients switched off by no block of the program's: checkpoint does it by itself."""
    return bool(scene.seen) and scene.seen[0].cut.kind == "no_grad" and not scene.seen[0].inside


# Which setting a call has a flag from: what a `partial` passes, or an attribute of an object.


@dataclass(frozen=True)
class Setting:
    """A flag that is False, and where that was decided.

    place: the statement to change. evidence: the statements that the value came through, the first first.
    fix: what to write there.
    """

    place: Place
    evidence: tuple[Fact, ...]
    fix: str


def setting(failure: Failure, of: Level | Section, call: ast.Call, flag: str) -> Setting | None:
    """Return what decided that a call has False for a flag; None where its text does, or where that is not known."""
    body, given = of.body, keyword(call, flag)
    if body is None:
        return None
    if given is not None:
        place = body.place(statement_at(body, call.lineno, call.col_offset) or call)
        return _of_attribute(failure, of, None, body, given, (), flag, place)
    name, function = dotted(call.func), value_of(of, call.func)
    if name is None or type(function) is not functools.partial or function.keywords.get(flag) is not False:
        return None
    owner = value_of(of, ast.parse(name.rpartition(".")[0], mode="eval").body) if "." in name else None
    for where, statement, made in _partials(of, owner, name):
        given = keyword(made, flag)
        if given is None:
            continue
        place, written = where.place(statement), where.text(given)
        if is_constant(given, False):
            new = rewritten(where, statement, {given: "True"})
            return Setting(place, (shown(place, f"passes {flag}=False to it."),), _capital(on_line(place, new)))
        passes = shown(place, f"passes {flag}={written} to it, which is False.")
        return _of_attribute(failure, of, owner, where, given, (passes,), flag, place)
    return None


def _partials(of: Level | Section, owner: object, name: str) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """The statements that give a name, or an attribute of an object, a `partial`."""
    bodies = [(of.body, name)] if of.body is not None else []
    module = body_around(of.body.file, 0) if of.body is not None else None
    bodies += [(module, name)] if module is not None else []
    bodies += (
        [(each, f"self.{name.rpartition('.')[2]}") for each in methods_of(type(owner))] if owner is not None else []
    )
    for body, called in bodies:
        for place in assignments(body, called):
            statement = statement_at(body, *place.position)
            for target, value in assigned(statement) if statement is not None else ():
                if dotted(target) == called and isinstance(value, ast.Call) and callee(value)[1] == "partial":
                    yield body, statement, value  # type: ignore[misc]  # it is there, or nothing was assigned


def _of_attribute(
    failure: Failure,
    of: Level | Section,
    owner: object,
    body: Body,
    given: ast.expr,
    before: tuple[Fact, ...],
    flag: str,
    place: Place,
) -> Setting | None:
    """The setting that an expression reads, `cfg.second_order`, by the object that has it."""
    holder, attribute = (given.value, given.attr) if isinstance(given, ast.Attribute) else (None, "")
    held = value_of(of, holder) if holder is not None and body is of.body else None
    if held is None and holder is not None and owner is not None:  # in a method of the object, which has returned
        first, *rest = (dotted(holder) or "").split(".")
        kept = {parameter: attr for attr, parameter in stored_arguments(body)}
        held = follow(owner, rest if first == "self" else [kept[first], *rest] if first in kept else [""])
    kind = type(held)
    if held is None or follow(held, [attribute]) is not False or not is_user_class(class_dict(kind).get("__module__")):
        return Setting(place, before, f"Pass {flag}=True on line {place.line}") if before else None
    made = [each for each in calls_in_files(failure) if callee(each[2])[1] == kind.__name__]
    new = _with(*made[0], kind, attribute) if len(made) == 1 else ""
    if new:
        at = made[0][0].place(made[0][1])
        evidence = (*before, shown(at, f"makes the {kind.__name__}, with {attribute} False."))
        return Setting(at, evidence, _capital(on_line(at, new)))
    return Setting(place, before, f"Set {attribute} of the {kind.__name__} to True")


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _with(body: Body, statement: ast.stmt, call: ast.Call, kind: type, attribute: str) -> str:
    """A statement that makes the object, with the setting True; empty where its arguments do not show what it gives."""
    unpacked = any(isinstance(each, ast.Starred) for each in call.args) or any(k.arg is None for k in call.keywords)
    if attribute not in _parameters(kind) or unpacked:
        return ""
    given = _given(kind, call, attribute)
    if given is not None:
        return rewritten(body, statement, {given: "True"}) if is_constant(given, False) else ""
    arguments = [ast.unparse(each) for each in (*call.args, *call.keywords)]
    return rewritten(
        body, statement, {call: f"{ast.unparse(call.func)}({', '.join([*arguments, f'{attribute}=True'])})"}
    )


def _given(kind: type, call: ast.Call, attribute: str) -> ast.expr | None:
    """What a call of a class gives for a parameter."""
    return dict(zip(_parameters(kind), call.args, strict=False)).get(attribute) or keyword(call, attribute)


def _parameters(kind: type) -> tuple[str, ...]:
    """What `__init__` takes, also of a dataclass."""
    code = getattr(method(kind, "__init__"), "__code__", None)
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if code is not None else ()


# A forward hook that was to look at an output, and replaces it by what it returns: `return out.detach()`.


def by_forward_hook(scene: Scene) -> Finding | None:
    """A forward hook returns its output without its graph, and so replaces the output of its module."""
    trained = {name: each for name, each in scene.sources.modules.items() if scene.trained.carries(each)}
    found = [(each, each.cut) for each in hooks(trained) if each.cut is not None]
    seen = [(each, cut) for each, cut in found if scene.saw(cut.place)]
    if not found or (scene.seen and not seen):
        return None
    hook, cut = (seen or found)[-1]
    registers = f"register_{hook.kind.replace(' ', '_').replace('-', '_')}"
    calls = calls_of(*user_files(scene.failure))
    registered = only(body.place(each) for body, each, call in calls if callee(call)[1] == registers)
    says = f"the {hook.kind} on {listed(hook.modules, 3)} replaces the {hook.replaces} by {cut.expression}"
    return explanation(
        scene.title(says),
        (
            if_known(registered, "registers the hook."),
            shown(hook.place, hook.does, sure_if(bool(seen))),
            *fails(scene),
        ),
        f"{hook.fix}. {silenced(scene.loss)}",
        source=hook.place,
        exact=bool(seen),
    )
