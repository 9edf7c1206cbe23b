"""A result that is computed once, before the loop that uses it in every iteration."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.containers import cached, emptied, filled, kept_detached
from backsight.diagnosis.errors.second_backward.local import along, computed_along
from backsight.diagnosis.errors.second_backward.recomputing import (
    computed_again,
    detached_for,
    once_without_graph,
    stored_at,
)
from backsight.diagnosis.evidence.carried import detached_as
from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import (
    below,
    identified,
    made_in,
    needs_saved,
    results_held,
    results_in,
    terms,
)
from backsight.diagnosis.evidence.joints import joint_of
from backsight.diagnosis.evidence.ratios import ratio_of_one
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.source import LoopFacts, Place, assignments, read_at, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.bindings import Use, bound, prefixes, uses
from backsight.source.body import calls_in, dotted, expressions, statements
from backsight.source.keeping import Keeping
from backsight.story.failure import Level
from backsight.story.memory import is_tensor
from backsight.story.stepping import optimizer_steps


def computed_once(case: Case, upstream: bool = False) -> Finding | None:
    """A variable that the loop reads and never assigns holds a result of this very graph.

    upstream: whether what the joints were computed from counts too.
    """
    joints = set(below(case.graph, case.joints) if upstream else case.joints)
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            for name, ancestor in names.items():
                value = level.value(name)
                anew = any(each in facts.assigned for each in prefixes(name))
                if anew or value is case.root or _is_namespace(value) or _acts(level, ancestor):
                    continue
                nodes = [i for i in made_in(case.graph, value) if needs_saved(case.graph, i)]
                if not nodes or (joints and not set(nodes) & joints):
                    continue
                if not upstream or name in facts.outside or ancestor.read == facts.loop:
                    return _of_container(case, level, ancestor, nodes) or _finding(case, level, facts, ancestor, nodes)
    return None


def computed_before(case: Case) -> Finding | None:
    """Such a variable, from which a part is recomputed in the loop."""
    return computed_once(case, upstream=True) if case.joints else None


def computed_outside(case: Case) -> Finding | None:
    """The loss itself is computed once, and a function that is called again and again, as a closure is, goes back."""
    level, name = case.failure.user, case.receiver
    if level is None or not name.isidentifier() or assignments(level.body, name):
        return None
    if case.earlier is not None and len(case.old) < len(case.graph) - len(case.graph.leaves):
        return None  # a part of it is new
    around = next((each for each in case.failure.users if assignments(each.body, name)), None)
    places = assignments(around.body, name) if around is not None else ()
    if around is None or len(places) != 1 or around.value(name) is not case.root:
        return None
    function = level.function.rpartition(".")[2]
    first = level.body.node.body[0].lineno if level.body is not None else level.line
    return explanation(
        f"{name} was computed once, outside {function}(), and backward() already ran on it.",
        (
            shown(places[0], f"computes {name} once."),
            shown(level.place, f"frees its graph in the first call of {function}(), and needs it again."),
        ),
        f"Move line {places[0].line}, `{places[0].text}`, into {function}(), above line {first}, so each call "
        "recomputes it.",
        source=str(places[0]),
        exact=case.earlier is not None,
    )


def _of_container(case: Case, level: Level, ancestor: Ancestor, nodes: list[int]) -> Finding | None:
    """It was put together from what a container keeps: to put it together again would not help."""
    name, inside = ancestor.name, set(below(case.graph, nodes)) - set(nodes)
    every = list(_kept_results(case))
    for (container, within), node in every:
        apart = within and container.partition(".")[0] != name
        keeping = filled(case, container) if apart and node in inside else None
        if keeping is not None:
            return _container_keeps(
                container,
                keeping,
                "results computed before the loop, whose graph the first backward() freed.",
                shown(ancestor.read, f"uses it in every iteration, as a part of {name}."),
                shown(level.place, "frees that graph in the first iteration, and needs it again in the next."),
                fix=kept_detached(container, keeping, case, [node], emptied=True) + _too(case, every, container)
                if _trained_without(case, nodes)
                else f"Keep what {keeping.value or name} is computed from, and compute {name} from it inside the loop: "
                "the loss trains through it, so it needs a new graph in every iteration.",
            )
    return None


def _too(case: Case, every: list[tuple[_Kept, int]], container: str) -> str:
    """What to do about the other containers that keep results from before: the next errors."""
    owner, others = container.rpartition(".")[0], dict[str, Keeping]()
    for kept, node in every:
        variable, keeping = kept.variable, None
        if (
            kept.inside
            and variable != container
            and variable.rpartition(".")[0] == owner
            and needs_saved(case.graph, node)
        ):
            keeping = filled(case, variable) if variable not in others and (not case.old or node in case.old) else None
        if keeping is not None:
            others[variable] = keeping
    return "".join(f" {kept_detached(variable, keeping, emptied=True)}" for variable, keeping in others.items())


def kept_for_later(case: Case) -> Finding | None:
    """What an object keeps for good, in a container or as an attribute, holds results that this loss is computed of."""
    for kept, node in _kept_results(case):
        reached = below(case.graph, [node])
        if "." not in kept.variable or case.failure.user is None or not needs_saved(case.graph, node):
            continue
        if case.old and not case.old.intersection(reached):
            continue
        keeping = kept.keeping(case)
        if keeping is not None:
            return _container_keeps(
                kept.variable,
                keeping,
                _STEPS if kept.inside else "a result of an earlier step, whose graph backward() freed.",
                *_used_again(case, keeping),
                shown(case.failure.user.place, "backpropagates through it, and needs that graph again."),
                fix=_after_step(case.failure.user, kept.variable, keeping)
                if _is_read_below(keeping)
                else kept_detached(kept.variable, keeping, case, [node]),
                exact=bool(case.old),
            )
    return None


def _is_read_below(keeping: Keeping) -> bool:
    """Whether the function that keeps a result reads it from there: put in detached, this step would not train it."""
    body, statement = read_at(keeping.place)
    below = (each for each in statements(body.node) if statement and each.lineno > statement.lineno) if body else ()
    return not keeping.cached and any(Use(keeping.name, False) in uses(each) for each in below)


def _after_step(level: Level, variable: str, keeping: Keeping) -> str:
    """How to detach what is carried over once this step is done, or what this step need not train through either."""
    steps = [each for each in optimizer_steps(level) if each.line >= level.line] or [level.place]
    cut = detached_as(variable, level.value(variable))
    put = keeping.with_value(f"{simple(keeping.value)}.detach()") if keeping.value else ""
    other = f" Or write `{put}`, if no step should train through it." if put else ""
    return f"Detach once per step, after line {steps[0].line}, {steps[0].text}: {cut}.{other}"


def _used_again(case: Case, keeping: Keeping) -> Iterator[Fact]:
    """The statement that a watch has seen to compute with what is kept."""
    joint = joint_of(case)
    if joint is not None and joint.used is not None and joint.used.line != keeping.place.line:
        yield shown(joint.used, "uses it again.")


_STEPS = "results of earlier steps, whose graph an earlier backward() freed."


class _Kept(NamedTuple):
    """A variable that holds a result of this graph; `inside`, in a container."""

    variable: str
    inside: bool

    def keeping(self, case: Case) -> Keeping | None:
        """The statement that keeps it for good: nothing empties the container, or nothing makes the attribute anew."""
        if self.inside:
            return None if emptied(case, self.variable) else filled(case, self.variable)
        return cached(case, self.variable)


def _kept_results(case: Case) -> Iterator[tuple[_Kept, int]]:
    """Each variable that holds results of this graph, with the node that made one of them."""
    nodes = {its: index for index, its in enumerate(case.graph.identities)}
    for tensor, held in results_held(case.failure.frames):
        variable, element, _ = held.path.partition("[")
        made = identified(tensor)
        if made in nodes:
            yield _Kept(variable, bool(element)), nodes[made]


def _container_keeps(container: str, keeping: Keeping, what: str, *then: Fact, fix: str, exact: bool = True) -> Finding:
    return explanation(
        f"{container} keeps {what}",
        (shown(keeping.place, f"stores {keeping.value or 'it'}, still attached to its graph."), *then),
        fix,
        source=str(keeping.place),
        exact=exact,
    )


def _is_namespace(value: object) -> bool:
    """Whether this is the dictionary that `exec` was given: what it holds was computed by code elsewhere."""
    return type(value) is dict and "__builtins__" in value


def _acts(level: Level, ancestor: Ancestor) -> bool:
    """Whether the statement calls a method of what the name stands for: an object computes, it was not computed."""
    value = level.value(ancestor.name)
    if is_tensor(value) or type(value) in (list, tuple, dict):
        return False
    statement = statement_at(level.body, *ancestor.read.position)
    calls = calls_in(statement)
    return any((dotted(call.func) or "").startswith(f"{ancestor.name}.") for call in calls)


def _finding(case: Case, level: Level, facts: LoopFacts, ancestor: Ancestor, nodes: list[int]) -> Finding:
    name, read = _element(case, level, ancestor, nodes)
    filled = [place for place in ancestor.bound if place.line > facts.loop.line]
    made = [place for place in ancestor.bound if place.line < facts.loop.line]
    if filled:
        return explanation(
            f"{name} still holds results of earlier iterations, whose graphs backward() has freed.",
            (
                shown(filled[0], "adds to it in every iteration, and nothing empties it."),
                shown(ancestor.read, "uses all of it again."),
                shown(level.place, "reaches what the previous iteration freed."),
            ),
            f"Empty {name} at the start of each iteration, or add only detached results to it.",
            source=str(filled[0]),
        )
    seen = case.watch.line_of(case.graph.nodes[nodes[0]]) if case.watch and not made else None
    origin: Fact = shown(made[-1], "computes it before the loop.") if made else _given(level, name)
    stored = _computed_and_stored(case, name) if not made else None
    if stored is not None:
        origin = shown(stored, f"computes {name} once, before the loop.")
        made = [stored]
    elif seen is not None:  # elsewhere, by who has handed it over
        origin = shown(seen, f"computes {name} before the loop.")
        made = [seen.place]
    use = shown(read, f"uses it in every iteration of the loop at line {facts.loop.line}.")
    summed = _summed(case, level, facts, ancestor)
    among = f"in {name}" if type(level.value(name)) in (list, tuple, dict) else f"that come from {name}"
    inside = _into_loop(level, facts, name, made)
    if stored is not None:
        inside = f"compute {name} inside the loop, as line {stored.line} does{_needing(level, stored)}"
        if again := computed_again(case, name):
            inside = f"compute it inside the loop: put `{again}` below line {facts.loop.line}"
    plain = "" if summed else _without_graph(case, level, facts, name, made, nodes)
    fix = (
        (plain if ratio_of_one(case.graph, nodes) else f"{plain} Otherwise, {inside}.")
        if plain
        else f"{inside[0].upper()}{inside[1:]}.{_otherwise(case, nodes)}"
    )
    added = "" if summed or plain else _added(case, level, facts)
    fix = f"{added} Or {inside}." if added else fix
    fix = "" if summed else detached_for(case, nodes) or fix
    return explanation(
        f"{name} is computed once, before the loop, and the first backward() has freed its graph."
        if not summed
        else f"The losses {among} share operations, and the first backward() has freed them.",
        (
            origin,
            *((use,) if read != level.place else ()),
            shown(level.place, "frees its graph in the first iteration, and needs it again in the next."),
        ),
        summed or fix,
        source=str(level.place if summed else made[-1] if made else read),
        exact=bool(made or summed),
    )


def _element(case: Case, level: Level, ancestor: Ancestor, nodes: list[int]) -> tuple[str, Place]:
    """What is used again, and where: of a dictionary, the one entry that has this graph."""
    value = level.value(ancestor.name)
    entries = value if type(value) is dict else {}
    keys = [key for key, each in entries.items() if type(key) is str and set(made_in(case.graph, each)) & set(nodes)]
    texts = {f"{ancestor.name}[{quote}{key}{quote}]" for key in keys for quote in "'\""}
    body = level.body if len(keys) == 1 else None
    for each in statements(body.node) if body else ():
        if body and each.lineno >= ancestor.read.line and any(body.text(node) in texts for node in expressions(each)):
            return f'{ancestor.name}["{keys[0]}"]', body.place(each)
    return ancestor.name, ancestor.read


def _without_graph(case: Case, level: Level, facts: LoopFacts, name: str, made: list[Place], nodes: list[int]) -> str:
    """What to do about values that a loss only weighs or compares with: it trains the same weights without them.

    Empty for a term of the loss: without its graph it would be a constant.
    """
    trained = _trained_without(case, nodes)
    if not trained:
        return ""
    if is_tensor(level.value(name)) or "[" in name:
        how = f"put {name} = {name}.detach() before line {facts.loop.line}, or "
        once = made and made[-1] == _computed_and_stored(case, name)
        how += (
            f"put line {made[-1].line} inside `with torch.no_grad():`" if once else "compute it under torch.no_grad()"
        )
    elif made and level.body and made[-1].file == level.body.file:
        how = f"put line {made[-1].line} inside `with torch.no_grad():`"
    else:
        return ""
    weights = listed([leaf.label for leaf in case.graph.leaves if leaf.node in trained], 1)
    return f"To use its values only, {how}: the loss trains {weights} through the rest of its graph."


def _trained_without(case: Case, nodes: list[int]) -> set[int]:
    """What optimizers hold behind some nodes, if the rest of the graph trains all of it as well; none for a term of the
    loss, which would be a constant."""
    graph, behind = case.graph, set(below(case.graph, nodes))
    owned = {leaf.node for leaf in graph.leaves if leaf.owner}
    roots, trained, left = [root for root, _ in graph.root_edges], owned & behind, set[int]()
    for term in terms(graph, roots, nodes):
        without = owned & set(below(graph, [term], without=set(nodes)))
        left |= without
        if not without and behind & set(below(graph, [term])):
            return set()
    return trained if trained <= left else set()


def _summed(case: Case, level: Level, facts: LoopFacts, ancestor: Ancestor) -> str:
    """What to do where the loop goes through a container of losses, and runs backward on each."""
    name, value = ancestor.name, level.value(ancestor.name)
    loop = statement_at(level.body, *facts.loop.position)
    if type(value) not in (list, tuple, dict) or not any(each is case.root for each in results_in(value)):
        if not isinstance(loop, ast.For) or level.body is None or not _runs_on(level, loop):
            return ""
        return f"Add the losses and call backward once, instead of the loop: on sum({level.body.text(loop.iter)})."
    every = f"{name}.values()" if type(value) is dict else name
    return f"Add the losses and call backward once, instead of the loop: sum({every}).backward()."


def _runs_on(level: Level, loop: ast.For) -> bool:
    """Whether the loop goes through losses, with backward on each, and no optimizer steps in it."""
    target = dotted(loop.target) or ""
    if level.body is None or level.receiver is None or not results_in(level.value(target)):
        return False
    steps = (each.line for each in optimizer_steps(level))
    is_loss = target == level.receiver or target in ancestors(level.body, level.receiver, level.line)
    return is_loss and not any(loop.lineno < line <= (loop.end_lineno or 0) for line in steps)


def _added(case: Case, level: Level, facts: LoopFacts) -> str:
    """How the losses of a loop in which no optimizer steps are added up, for one backward below it."""
    body, steps = level.body, [each.line for each in optimizer_steps(level)]
    loop = statement_at(body, *facts.loop.position)
    stepped = case.watch.steps.marks.get(threading.get_ident(), -1) if case.watch else -1
    if body is None or loop is None or not steps or level is not case.failure.user or level.receiver is None:
        return ""
    last = loop.end_lineno or loop.lineno
    if any(loop.lineno <= line <= last for line in steps) or (case.earlier and case.earlier.mark <= stepped):
        return ""
    total = next(each for each in ("total", "total_loss", "sum_of_losses", "summed") if each not in level.variables)
    return (
        f"No optimizer steps in the loop, so add the losses and call backward once: put `{total} = 0.0` before line "
        f"{loop.lineno}, write `{total} = {total} + {simple(level.receiver)}` on line {level.line}, and put "
        f"`{total}.backward()` below the loop, after line {last}."
    )


def _into_loop(level: Level, facts: LoopFacts, name: str, made: list[Place]) -> str:
    """Which statement to move into the loop, with those that it needs there."""
    if level.body is None or len(made) != 1 or made[0].file != level.body.file:
        return f"compute {name} inside the loop{along(level, made)}"
    lines = sorted({made[0].line, *computed_along(level, made[0])})
    if not any(each.lineno == made[0].line for each in statements(level.body.node)):  # of another function
        return f"compute {name} inside the loop{along(level, made)}"
    which = f"line {lines[0]}, `{made[0].text}`," if len(lines) == 1 else f"lines {listed([*map(str, lines)])}"
    after = _after(level, lines, facts.loop.line)
    if any(not _is_data(level.value(each)) for statement in after for each in _bound(statement)):
        return f"run {which} again at the start of the loop at line {facts.loop.line}"  # what is built must stay
    if after:
        parts = sorted({*lines, *(line for each in after for line in range(each.lineno, (each.end_lineno or 0) + 1))})
        whole = [*range(parts[0], parts[-1] + 1)] == parts
        which = f"lines {parts[0]} to {parts[-1]}" if whole else f"lines {listed([*map(str, parts)])}"
        which += f" (what {'is' if len(after) == 1 else 'was'} computed from line {lines[-1]} moves too)"
    return f"move {which} inside the loop at line {facts.loop.line}"


def _computed_and_stored(case: Case, name: str) -> Place | None:
    """The only statement of its class that gives an attribute its value, if it computes that, too."""
    place = stored_at(case, name) if "." in name else None
    statement = read_at(place)[1]
    single = isinstance(statement, ast.Assign) and dotted(statement.targets[0]) is not None
    return place if single and any(True for _ in calls_in(statement)) else None


def _needing(level: Level, stored: Place) -> str:
    """What a statement of another function reads of its own variables, which have to be kept to run it again."""
    body, statement = read_at(stored)
    if body is None or statement is None:
        return ""
    arguments = getattr(body.node, "args", None)
    own = {each.arg for each in arguments.args[1:]} if arguments is not None else set()
    own |= set[str]().union(*(bound(each) for each in statements(body.node)))
    own -= level.variables.keys()
    read = [use.name for use in uses(statement) if not use.binds and use.name in own and "." not in use.name]
    return f" (keep {listed(list(dict.fromkeys(read)))} for that)" if read else ""


def _after(level: Level, lines: Sequence[int], loop: int) -> list[ast.stmt]:
    """The statements between those lines and the loop that read what they bind, and so on."""
    every = [*statements(level.body.node)] if level.body else []
    names = set[str]().union(*(bound(each) for each in every if each.lineno in lines))
    found: list[ast.stmt] = []
    for each in every:
        end = each.end_lineno or each.lineno
        if not lines[0] < each.lineno <= end < loop or each.lineno in lines:
            continue
        inside = (one for one in ast.walk(each) if isinstance(one, ast.stmt))
        if each.lineno > max([0, *(one.end_lineno or 0 for one in found)]) and any(
            use.name in names and not use.binds for one in inside for use in uses(one)
        ):
            found.append(each)
            names |= _bound(each)
    return found


def _bound(statement: ast.stmt) -> set[str]:
    return set[str]().union(*(bound(each) for each in ast.walk(statement) if isinstance(each, ast.stmt)))


def _is_data(value: object) -> bool:
    """Whether a value may be computed anew in every iteration: not a model, an optimizer or a record of the run."""
    return is_tensor(value) or value is None or type(value) in (int, float, bool, str)


def _otherwise(case: Case, nodes: list[int]) -> str:
    """What to do if it is computed once on purpose."""
    if any(optimizer_steps(each) for each in case.failure.users):
        return once_without_graph(case, nodes)
    call = f"{simple(case.receiver or 'loss')}.backward"
    return (
        " If it is computed once on purpose and no optimizer steps between the backwards, keep its graph: "
        f"{call}(retain_graph=True) in every iteration but the last."
    )


def _given(level: Level, name: str) -> str:
    known = name.split(".")[0] in level.variables
    return f"{level.function} receives {name}, already computed." if known else f"{name} was computed before."
