"""BS101: a leaf collects gradients that no optimizer will ever use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import added, around, created_below, given_anew, given_too, instead, is_known, written
from backsight.diagnosis.evidence.constants import derivatives, renewed
from backsight.diagnosis.evidence.creation import attribute_assignments, built_at, only_built, put_in_place
from backsight.diagnosis.evidence.cuts import restarted
from backsight.diagnosis.evidence.unheld import (
    Anew,
    all_of,
    created_after,
    filtering,
    first_use,
    followers,
    given_to_init,
    gradient_is_wanted,
    made_anew,
    made_late,
    trainable,
)
from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.program import ending, loops_around
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import counted, listed, shaped, shown, warning
from backsight.findings.evidence import Fact
from backsight.naming import requires_grad, search
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, only, parsed, read_at, statement_at
from backsight.source.bindings import arms_of, assigned, names_read, target_names
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, functions, statements
from backsight.source.edits import OR
from backsight.source.freezing import unfreezings_after
from backsight.source.rewriting import simple
from backsight.story.holders import node_of
from backsight.tape import Leaf, buffers_in, is_mended, parameters_in
from backsight.tracing.steps import parameters


@rule("BS101")
def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]:
    """A leaf of the loss requires grad, optimizers were found, and none of them holds it.

    A leaf whose gradient the program itself wants is a note, and so are the parameters of models through which an
    input is optimised: an image, a perturbation, a latent code.
    """
    if not any(leaf.owner for leaf in scene.graph.leaves) and not _only_frozen(scene):
        return  # nothing in this graph is optimised by anything we found: say nothing rather than everything
    state = _state_of_libraries(scene)
    every = [leaf for leaf in scene.graph.leaves if not leaf.owner and leaf.kind != "overwritten"]
    alone = [leaf for leaf in every if id(leaf.tensor()) not in state]
    copied = {leaf: kept for leaf in alone if not leaf.name and (kept := _kept_of(scene, leaf))}
    yield from (_computed_once(scene, leaf, kept) for leaf, kept in copied.items())
    elsewhere = {point.node for each in derivatives(scene) for point in each.points}
    elsewhere |= {each.leaf.node for each in renewed(scene)}  # BS121 tells why
    alone = [leaf for leaf in alone if leaf not in copied and leaf.node not in elsewhere]
    of_models = [leaf for leaf in alone if leaf.kind == "parameter"]
    anew = {leaf: made for leaf in of_models if (made := made_anew(scene, leaf))}
    if anew:
        yield _created_anew(anew)
    of_models = [leaf for leaf in of_models if leaf not in anew]
    for name, (leaves, place) in followers(scene, of_models).items():
        yield _follows(name, leaves, place)
        of_models = [leaf for leaf in of_models if leaf not in leaves]
    if of_models:
        passed = _only_passed_through(scene, of_models)
        for leaves, left in _by_cause(scene, of_models, bool(passed)):
            yield _finding(scene, leaves, "note" if passed else "warning", passed, left)
    reached, held = scene.reached(), (p for each in scene.involved().values() for p in parameters(each))
    cut_off = any(p.requires_grad and id(p) not in reached for p in held)
    for leaf in alone:
        if leaf.kind != "parameter" and not (cut_off and restarted(scene.assigned(leaf.tensor()))):  # BS102 tells why
            wanted = gradient_is_wanted(scene, leaf)
            yield _finding(scene, [leaf], "note" if wanted else "warning", wanted)


def _follows(name: str, leaves: Sequence[Leaf], place: Place | None) -> Finding:
    more = f" and {len(leaves) - 1} more" if len(leaves) > 1 else ""
    return Finding(
        "BS101",
        "note",
        f"{name} gets gradients that nothing uses: its parameters follow those of another model.",
        (
            f"The loss depends on {leaves[0].label}{more}. No optimizer holds them, as is right for a target network, "
            "a teacher or an average.",
            *((shown(place, "writes its parameters."),) if place is not None else ()),
        ),
        f"Nothing to do for the result. To save the time and memory of these gradients: {name}.requires_grad_(False), "
        "or call it under torch.no_grad().",
        source=str(place) if place is not None else None,
        nodes=tuple(leaf.node for leaf in leaves),
    )


def _created_anew(anew: dict[Leaf, tuple[Anew, ...]]) -> Finding:
    made = list(dict.fromkeys(each for found in anew.values() for each in found))
    made.sort(key=lambda each: each.place.position)
    one = len(made) == 1
    it, kept = "it" if one else "them", ", ".join(each.kept for each in made[:3])
    of_a_module = kept.startswith("self.")
    names = listed([each.name for each in made], 3)
    shapes = listed([shaped(leaf.shape) for leaf in anew], 3)
    return warning(
        "BS101",
        f"{names} {'is' if one else 'are'} recreated in every step: nothing trains {it}.",
        (
            f"{counted(len(anew), 'parameter')} of this loss ({shapes}): the next step replaces them, so no "
            "optimizer can update them.",
            *(shown(each.place, "creates it again each time it runs.") for each in made[:3]),
        ),
        f"Create {it} once, in __init__: {kept}; forward only uses {it}.{given_to_init(made[:3])}"
        if of_a_module
        else f"Create {it} once, before the loop ({kept}), and pass the parameters to the optimizer.",
        made[0].place,
        nodes=tuple(leaf.node for leaf in anew),
    )


class _Left(NamedTuple):
    """The optimizer that holds the parameters of a module that was replaced, and how many these are."""

    optimizer: str
    number: int
    replaced: Place | None
    """The statement that replaces it; None where there is not one alone."""

    module: str = ""
    """What the program calls the module; the parameter, where it is one that was replaced."""

    def is_of(self, leaves: Sequence[Leaf]) -> bool:
        """Whether parameters were replaced, and no module."""
        return self.module == leaves[0].name


def _by_cause(scene: Scene, leaves: Sequence[Leaf], passed: bool) -> Iterator[tuple[list[Leaf], _Left | None]]:
    """Yield the leaves of each module that was replaced, those of other modules, and those of none, in their order."""
    behind: dict[str, tuple[str, int] | None] = {}
    found: dict[object, list[Leaf]] = {}
    lefts: dict[object, _Left] = {}
    for leaf in leaves:
        model = leaf.name.partition(".")[0]
        if model not in behind:
            behind[model] = None if passed else _left_behind(scene, leaf)
        left = behind[model] if "." in leaf.name else None
        place, module = put_in_place(scene, leaf) if left else (None, "")
        key = place or (left is not None and model) or re.search(r"[.\[]", leaf.name) is not None
        found.setdefault(key, []).append(leaf)
        if left is not None:
            lefts.setdefault(key, _Left(*left, place, module))
    for cause, together in found.items():
        only = lefts.get(cause)
        yield together, only._replace(number=0) if only and len(lefts) > 1 else only


def _finding(
    scene: Scene, leaves: Sequence[Leaf], severity: Severity, wanted: str, left: _Left | None = None
) -> Finding:
    optimizers = listed(list(scene.optimizers))
    label = leaves[0].label
    one = len(leaves) == 1
    it = "it" if one else "them"
    all_named = len(leaves) <= _IN_TITLE
    named = listed([leaf.label for leaf in leaves], _IN_TITLE if all_named else 1)
    title = f"{named} {'requires' if one else 'require'} grad, but no optimizer updates {it}."
    which = "" if all_named else f" ({_which(leaves)})"
    if one:
        shape = leaves[0].shape
        which = f" (a leaf of shape {shaped(shape)})" if shape else " (a scalar leaf)"
    alone = f"{optimizers} {'does' if len(scene.optimizers) == 1 else 'do'} not hold {it}{_only_frozen(scene)}"
    put = left.replaced if left else None
    new: list[Fact] = [shown(put, _replacing(left, leaves))] if left and put else []
    if not wanted and not new and (listed_at := _container_made(scene, leaves)) is not None:
        put = listed_at
        new = [shown(put, f"makes a plain {_plain_kind(scene, leaves)}.")]
    made = _made(scene, leaves[0]) if one and not wanted else None
    group: _Group | None = None
    early: tuple[tuple[Fact, ...], str] | None = None
    if made is not None:
        leaf_made, optimizer_made = made
        new = [
            shown(leaf_made, f"assigns {label}, which requires grad."),
            shown(optimizer_made, f"leaves out {label}."),
        ]
        put = optimizer_made
    elif not wanted and not new and (built := _leaving_out(scene, leaves)) is not None:
        group = _unused_group(built)
        early = _too_early(scene, leaves, built)
        new = [*((shown(built, f"leaves {it} out."),) if not _is_first_at(built, early) else ()), *(early or ((),))[0]]
        new += [shown(group.place, f"creates the group {group.name}, which is never passed on.")] if group else []
        put = group.place if group else built
    elif one and not wanted and not new and leaves[0].name.isidentifier():
        put = scene.assigned(leaves[0].tensor())  # in another function, such as a generator
        new = [shown(put, f"assigns {label}, which requires grad.")] if put is not None else []
    used = first_use(scene, leaves[0]) if not leaves[0].name else None
    new += [used] if used is not None else []
    return Finding(
        "BS101",
        severity,
        title,
        (f"The loss depends on {it}{which}, but {alone}.", *([wanted] if wanted else []), *new),
        group.fix if group else early[1] if early else _fix(scene, leaves, wanted, made, left),
        source=None if put is None else str(put),
        nodes=tuple(leaf.node for leaf in leaves),
    )


def _which(leaves: Sequence[Leaf]) -> str:
    """Name some leaves; of many the modules that they are of, or how many modules these are."""
    if len(leaves) <= _NAMED:
        return listed([leaf.label for leaf in leaves])
    modules = list(dict.fromkeys(leaf.name.rpartition(".")[0] for leaf in leaves))
    if not all(modules):
        return f"{len(leaves)} leaves"
    return f"parameters of {listed(modules) if len(modules) <= _NAMED else counted(len(modules), 'module')}"


_IN_TITLE = 2
"""Leaves that a title names one by one."""

_NAMED = 4
"""Leaves, or modules, that are named one by one."""


def _made(scene: Scene, leaf: Leaf) -> tuple[Place, Place] | None:
    """The statements of one function that assign the leaf and then the only optimizer, which might have got it."""
    if len(scene.optimizers) != 1 or not leaf.name.isidentifier():
        return None
    (optimizer,) = scene.optimizers.values()
    leaf_made, optimizer_made = scene.assigned(leaf.tensor()), scene.assigned(optimizer)
    if leaf_made is None or optimizer_made is None:
        return None
    bodies = [body_around(place.file, place.line) for place in (leaf_made, optimizer_made)]
    together = bodies[0] is not None and bodies[1] is not None and bodies[0].node is bodies[1].node
    return (leaf_made, optimizer_made) if together and leaf_made.line < optimizer_made.line else None


def _leaving_out(scene: Scene, leaves: Sequence[Leaf]) -> Place | None:
    """The statement that makes the only optimizer, without parameters of a model that it could have been given."""
    registered = leaves[0].kind == "parameter" and not _in_plain_container(scene, leaves)
    return only_built(scene) if registered else None


def _too_early(scene: Scene, leaves: Sequence[Leaf], built: Place) -> tuple[tuple[Fact, ...], str] | None:
    """Why an optimizer was built too early to hold some leaves, and what to do."""
    statement = read_at(built)[1]
    name = dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else None
    if name is None:
        return None
    if created := created_after(scene, leaves, built):
        facts = tuple(shown(each.place, f"creates {each.name} after that.") for each in created[:_NAMED])
        last = created[-1].place.last
        if _only_frozen(scene):
            return (
                facts,
                f"Create {name} after line {last}, from the parameters that require grad: {trainable(leaves)}"
                f"{created_below(built, created[-1].place, given_anew(built, trainable(leaves)))}.",
            )
        alone = [all_of(each.name, leaves) for each in created if "." not in each.name]
        if alone:  # nothing that the optimizer was made from has them
            code = given_too(built.text, ", ".join(alone))
            what = f"{listed(alone).replace('*', '')} as well{f': {code}' if code else ''}"
            what += created_below(built, created[-1].place, code)
            return facts, f"Create {name} after line {last}, with {what}."
        after = "this" if len(created) == 1 else "these"
        edit = created_below(built, created[-1].place, built.text)
        return facts, f"Create {name} after {after}: move line {built.line} below line {last}{edit}."
    if (filtering_at := filtering(built)) is not None:
        fact = shown(filtering_at, f"takes only parameters that require grad when {name} is created.")
        model = leaves[0].name.partition(".")[0]
        turned = unfreezings_after(built)
        later = (shown(turned[0], f"unfreezes them later, and adds nothing to {name}."),) if len(turned) == 1 else ()
        loop = _loop_over_parameters(turned[0]) if later else None
        below = loop or (turned[0] if later else None)
        after = f"after line {turned[0].last}" if later and turned[0].file == built.file else "after that"
        group = f"{name}.add_param_group({{'params': {_missing(scene, leaves, name)}}})"
        with_all = written(filtering_at, given_anew(filtering_at, f"{model}.parameters()"))
        adding = added(group, "beside" if loop else "below", below) if below is not None else ""
        return (fact, *later), (
            f"Unfreeze before you create {name}, or add what you unfreeze later, {after}: {group}"
            f"{adding}. {OR}Or create {name} from {model}.parameters()"
            f"{with_all}: it skips what has no gradient."
        )
    return None


def _loop_over_parameters(unfreezing: Place) -> Place | None:
    """The loop in which a statement unfreezes one parameter after the other."""
    body, statement = read_at(unfreezing)
    around = arms_of(body, statement)
    loop = around[-1][0] if around else None
    if body is None or statement is None or not isinstance(loop, ast.For):
        return None
    return body.place(loop) if target_names(loop.target) & names_read(statement) else None


def _only_frozen(scene: Scene) -> str:
    """Say that the optimizers hold nothing but frozen parameters; empty where they hold something else, or nothing."""
    held = [parameters(optimizer) for optimizer in scene.optimizers.values()]
    if not held or not all(held) or any(p.requires_grad for each in held for p in each):
        return ""
    return f": all {counted(sum(map(len, held)), 'parameter')} in {'it' if len(held) == 1 else 'them'} are frozen"


def _missing(scene: Scene, leaves: Sequence[Leaf], optimizer: str) -> str:
    """The expression for the parameters that an optimizer lacks, and none that it has: a second time is an error."""
    paths = [leaf.name.split(".")[:-1] for leaf in leaves]
    same = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    around = ".".join(same)
    held = any(each.owner and each.name.startswith(f"{around}.") for each in scene.graph.leaves)
    module = re.sub(r"\.(\d+)", r"[\1]", around)
    if around and not held:
        return f"{module}.parameters()"
    every = f"g in {optimizer}.param_groups for q in g['params']"
    return f"[p for p in {module or 'model'}.parameters() if all(p is not q for {every})]"


def _is_first_at(built: Place, early: tuple[tuple[Fact, ...], str] | None) -> bool:
    """Whether what is told first of why an optimizer came too early is about the statement that builds it."""
    return early is not None and getattr(early[0][0], "place", None) == built


class _Group(NamedTuple):
    """A group of parameters that is collected and then forgotten."""

    place: Place
    name: str
    fix: str


def _unused_group(built: Place) -> _Group | None:
    """The group that is only ever filled, `group["params"].append(p)`, where an optimizer is made."""
    body = body_around(built.file, built.line)
    called = {callee(node)[1] for node in calls_in(statement_at(body, *built.position))} if body is not None else set()
    own = [each for each in functions(built.file) if getattr(each.node, "name", None) in called]
    for each in [body, *own] if body is not None else own:
        every = list(statements(each.node))
        for statement in every:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if any(
                    isinstance(key, ast.Constant) and key.value == "params" for key in keys
                ):
                    if not any(_hands_on(other, name) for other in every):
                        given = [s.value for s in every if isinstance(s, ast.Return) and isinstance(s.value, ast.Name)]
                        how = f": {given[-1].id}.append({name})" if given else ""
                        ends = [s for s in every if isinstance(s, ast.Return) and s.value is not None]
                        edit = added(how[2:], "above", each.place(ends[-1])) if given else ""
                        return _Group(each.place(statement), name, f"Pass {name} on with the other groups{how}{edit}.")
    return None


def _hands_on(statement: ast.stmt, name: str) -> bool:
    """Whether a statement reads a variable otherwise than to look into it."""
    nodes = list(expressions(statement))
    inside = {id(each.value) for each in nodes if isinstance(each, ast.Subscript | ast.Attribute)}
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and id(n) not in inside for n in nodes
    )


def _kept_of(scene: Scene, leaf: Leaf) -> list[str]:
    """The attributes of modules that hold what was computed of a leaf at once, as `self.shift = zeros.clone()` does."""
    users = {node.index for node in scene.graph.nodes if any(e and e.node.index == leaf.node for e in node.inputs)}
    found = search((), collect=(torch.Tensor,), where=requires_grad).found
    held = ((name.path, t) for t, name in found if isinstance(t, torch.Tensor) and "." in name.path)
    paths = [
        path for path, t in held if not is_mended(t) and t.grad_fn is not None and node_of(scene.graph, t) in users
    ]
    models = [f"{name}." for name in scene.models]
    return [path for path in paths if path.startswith(tuple(models))]


def _computed_once(scene: Scene, leaf: Leaf, kept: Sequence[str]) -> Finding:
    one = len(kept) == 1
    places = [each for path in kept for each in attribute_assignments(scene, path, inside=True)][: len(kept)]
    first = ending(kept[0])
    value = _converted_first(places[0].text.partition(" = ")[2]) if places else "..."
    return warning(
        "BS101",
        f"{listed(kept, 3)} {'is' if one else 'are'} computed once from a parameter and "
        f"{'is not a parameter itself' if one else 'are not parameters themselves'}: no optimizer updates "
        f"{'it' if one else 'them'}.",
        tuple(shown(place, "computes it once, from a parameter that nothing else holds.") for place in places),
        f"Register {'it' if one else 'them'}: self.{first} = nn.Parameter({value}){_all_registered(kept, places)}.",
        places[0] if places else None,
        nodes=(leaf.node,),
    )


def _all_registered(kept: Sequence[str], places: Sequence[Place]) -> str:
    if len(places) != len(kept):
        return ""
    new = [each.text.partition(" = ") for each in places]
    edits = [
        written(place, f"{goal} = nn.Parameter({_converted_first(value)})")
        for place, (goal, _, value) in zip(places, new, strict=True)
    ]
    return "".join(edits) if all(edits) and all(is_known("nn", each) for each in places) else ""


def _state_of_libraries(scene: Scene) -> set[int]:
    """Return the ids of the buffers of modules that an installed package wrote: what it does with them is its affair.

    A quantizer may start its loss at a zero of its own that requires grad. In a module of the program's, such a buffer
    is a weight that was registered as what no optimizer sees.
    """
    return {
        id(buffer)
        for model in scene.models.values()
        for module, buffer in buffers_in(model)
        if not is_user_class(type(module).__module__)
    }


def _only_passed_through(scene: Scene, parameter_leaves: Sequence[Leaf]) -> str:
    """Say that the optimizers hold nothing but what goes into the models; empty if they hold a parameter of one."""
    held = {id(p) for optimizer in scene.optimizers.values() for p in parameters(optimizer)}
    own = {id(p) for model in scene.models.values() for p in parameters_in(model)}
    if held & own or not {id(leaf.tensor()) for leaf in parameter_leaves} <= own:
        return ""
    owned = [leaf for leaf in scene.graph.leaves if leaf.owner]
    if not owned:
        return ""
    return (
        f"Only {listed([leaf.label for leaf in owned], 3)} is optimized here, and no parameter of "
        f"{listed(list(scene.models), 3)}."
    )


def _fix(
    scene: Scene, leaves: Sequence[Leaf], wanted: str, made: tuple[Place, Place] | None, left: _Left | None
) -> str:
    if wanted and leaves[0].kind == "parameter":
        return (
            f"Nothing to do if {listed(list(scene.models), 3)} should not be trained: requires_grad_(False) on it "
            "saves the time and memory for its gradients."
        )
    if wanted:
        return "Nothing to do if you only want its gradient. Otherwise, add it to an optimizer."
    unseen = _in_plain_container(scene, leaves)
    if unseen:
        looks = f"{_model_of(scene, unseen)}.parameters() does not look inside a plain {_plain_kind(scene, leaves)}."
        return f"{_registered(scene, leaves)} {looks}"
    one, first = len(leaves) == 1, _stepping(scene)
    if leaves[0].name and (late := made_late(scene, leaves[0])) is not None:
        return f"Create it in __init__, not in the first forward pass ({late}), or create {first} after that pass."
    if left is not None:
        return _created_after(scene, left, leaves)
    code = given_too(made[1].text, leaves[0].name) if made else ""
    it = "it" if one else "them"
    how = f"write {code}{written(made[1], code)}" if code and made else f"add {it} to {first}"
    if not code:
        how += _held_too(scene, leaves, first)
    return f"To train {it}, {how}. {OR}Otherwise, freeze {it} with requires_grad_(False)."


def _stepping(scene: Scene) -> str:
    """The optimizer that makes a step next after the backward, as the text has it; else the first one."""
    body, called = body_around(*scene.site), {ending(name): name for name in reversed(list(scene.optimizers))}
    below = (s for s in statements(body) if s.lineno >= scene.site[1]) if called else ()
    steps = (callee(call) for each in below for call in calls_in(each))
    found = (called.get(ending(dotted(receiver))) for receiver, method in steps if method == "step")
    return next(filter(None, found), next(iter(scene.optimizers)))


def _held_too(scene: Scene, leaves: Sequence[Leaf], optimizer: str) -> str:
    """Add a group with the parameters of one model below the statement that makes the only optimizer."""
    built = only_built(scene)
    if built is None or not all("." in leaf.name for leaf in leaves):
        return ""
    return added(f"{optimizer}.add_param_group({{'params': {_missing(scene, leaves, optimizer)}}})", "below", built)


def _replacing(left: _Left, leaves: Sequence[Leaf]) -> str:
    """What the statement does that replaces a module, or parameters one by one."""
    if not left.is_of(leaves):
        return f"replaces {left.module}, whose old parameters {left.optimizer} still holds."
    names, form = listed([leaf.label for leaf in leaves], _NAMED), "its" if len(leaves) == 1 else "their"
    return f"replaces {names}, which {left.optimizer} still holds in {form} old form."


def _created_after(scene: Scene, left: _Left, leaves: Sequence[Leaf]) -> str:
    """Say after which line the optimizer of a replaced module is created."""
    number = counted(left.number, "parameter") if left.number else "parameters"
    if left.replaced is None:
        return (
            f"Create {left.optimizer} again after each replacement of a module: it holds {number} that nothing else "
            f"uses anymore, but not {'this one' if len(leaves) == 1 else 'these'}."
        )
    body = body_around(left.replaced.file, left.replaced.line)
    again = " again" if loops_around(body, left.replaced.line) else ""
    holds = f"the {number}" if left.number != 1 else "the parameter"
    built = built_at(scene, left.optimizer)
    edit = created_below(built, left.replaced, built.text) if built is not None and not again else ""
    after = f"Create {left.optimizer}{again} after line {left.replaced.last}{edit}."
    return after if left.is_of(leaves) else f"{after} It still holds {holds} of the old {left.module}."


def _left_behind(scene: Scene, leaf: Leaf) -> tuple[str, int] | None:
    """The optimizer of the rest of the leaf's model, and how many of its parameters nothing else holds, if any."""
    model, _, inner = leaf.name.partition(".")
    reached = scene.reached()
    owners = {each.owner for each in scene.graph.leaves if each.name.startswith(f"{model}.")}
    for name, optimizer in scene.involved().items() if inner else ():
        if name not in owners:
            continue
        lost = [p for p in parameters(optimizer) if p.requires_grad and id(p) not in reached]
        number = sum(".param_groups[" in path for path in scene.names(lost))
        if number:
            return name, number
    return None


def _in_plain_container(scene: Scene, leaves: Sequence[Leaf]) -> str:
    """The plain list or dict of a model that holds all of the leaves, `net.layers`; of several alike the first."""
    holders = list(dict.fromkeys(leaf.name.partition("[")[0] if "[" in leaf.name else "" for leaf in leaves))
    attributes = set(map(ending, holders))
    inside = all(_model_of(scene, holder) for holder in holders)
    return holders[0] if inside and len(attributes) == 1 else ""


def _model_of(scene: Scene, path: str) -> str:
    """The model whose attribute a path names, `self.model` of `self.model.layers`; empty if it is of none."""
    return next((name for name in scene.models if path.startswith(f"{name}.")), "")


def _container_made(scene: Scene, leaves: Sequence[Leaf]) -> Place | None:
    """The one statement, of an `__init__`, that makes the plain list or dict."""
    attribute = ending(_in_plain_container(scene, leaves))
    found = attribute_assignments(scene, attribute, inside=True) if attribute else []
    return only(found)


class _Plain(NamedTuple):
    """The part of a statement that makes a plain list or dict, and which of both it is."""

    body: Body
    target: ast.expr
    value: ast.expr
    kind: str


def _plain_made(scene: Scene, leaves: Sequence[Leaf]) -> _Plain | None:
    """What makes the plain list or dict, where the text shows which of both it is."""
    attribute, made = ending(_in_plain_container(scene, leaves)), _container_made(scene, leaves)
    body, statement = read_at(made)
    for target, value in assigned(statement) if body is not None and statement is not None else ():
        assert body is not None
        if isinstance(target, ast.Attribute) and target.attr == attribute:
            if isinstance(value, ast.List | ast.ListComp):
                return _Plain(body, target, value, "list")
            if isinstance(value, ast.Dict | ast.DictComp):
                return _Plain(body, target, value, "dict")
    return None


def _plain_kind(scene: Scene, leaves: Sequence[Leaf]) -> str:
    made = _plain_made(scene, leaves)
    return made.kind if made is not None else "list or dict"


def _registered(scene: Scene, leaves: Sequence[Leaf]) -> str:
    """Say how to make a list or dict that a model sees: with the statement that makes it, where that shows what it is.

    >>> self.layers = nn.ModuleList([nn.Linear(20, 64), nn.Linear(64, 64)])
    """
    unseen, name = _in_plain_container(scene, leaves), leaves[0].name
    kind = "Parameter" if name.endswith("]") else "Module"
    made = _plain_made(scene, leaves) if name.count("[") == 1 else None
    if made is not None and "…" not in made.body.text(made.value):
        wanted = f"nn.{kind}{'Dict' if made.kind == 'dict' else 'List'}"
        value = f"{wanted}({made.body.text(made.value)})"
        edit = instead(made.body, around(made.body, made.value), {made.value: value}) if _has_nn(made.body) else ""
        return f"Make it an {wanted}: {made.body.text(made.target)} = {value}{edit}."
    return f"Make {unseen} an nn.{kind}List or nn.{kind}Dict."


def _has_nn(body: Body) -> bool:
    return is_known("nn", Place(body.file, getattr(body.node, "lineno", 1), ""))


def _converted_first(value: str) -> str:
    """What a parameter is to be made of: `x.to(device)` for `nn.Parameter(x).to(device)`, which is no parameter."""
    node = parsed(value)
    if not isinstance(node, ast.Call) or callee(node)[1] not in ("to", "cuda", "double", "half", "float", "bfloat16"):
        return value
    made = callee(node)[0]
    if not isinstance(made, ast.Call) or callee(made)[1] != "Parameter" or len(made.args) != 1:
        return value
    inner = ast.get_source_segment(value, made.args[0]) or ""
    end = (made.end_col_offset or 0) - (made.func.end_col_offset or 0)
    return f"{simple(inner)}{value[(made.func.end_col_offset or 0) + end :]}" if inner and value.isascii() else value
