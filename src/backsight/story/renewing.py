"""What to write so that no pass goes into the graph of an earlier one: where to cut it, or to compute it anew."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence

from backsight.source import Body, LoopFacts, Place, assignments, backward_roots, calls_of, loop_facts, parsed, read_at
from backsight.source.bindings import are_alternatives, bound, parameters_of, reads, spots, uses
from backsight.source.body import blocks, callee, calls_in, covers, dotted, expressions, statement_at, statements
from backsight.source.edits import OR, change, instead, move, on_line, put, put_at, sentence, write
from backsight.source.keeping import Keeping
from backsight.source.out_of_place import in_place
from backsight.source.rewriting import rewritten, simple
from backsight.story.carrier import Carrier
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.fixes import every_time, first_statement, on_lines
from backsight.story.histories import (
    along,
    attributes_detached,
    begun_without,
    detached_as,
    putting,
    trained_start,
    value_under,
    without_history,
    writing,
)
from backsight.story.holders import below
from backsight.story.joints import joint_of
from backsight.story.one_backward import one_backward
from backsight.story.recomputing import as_values, recomputed, trained_without, uncached
from backsight.story.sections import function_called, methods_of, run_by
from backsight.story.stepping import optimizer_steps, steps_of_pass
from backsight.story.stores import apart, each_of, held_as, stores
from backsight.story.updates import asked_for, updated_from_values
from backsight.text import listed
from backsight.tracing import Line


def renewed(found: Carrier, then: str = "") -> str:
    """Say what to write about what carries an earlier graph into this pass.

    then: a sentence about what was meant to help, which follows where a graph is cut or computed anew.
    """
    write = {"carried": _cut, "summed": _summed, "kept": _of_container, "cached": _cached, "written": _written}
    text = write.get(found.kind, recomputed)(found)
    return (
        f"{text} {then}"
        if then and not text.startswith((f"Keep {found.name} the leaf", "Store what", "If one"))
        else text
    )


def _cut(found: Carrier) -> str:
    case, name = found.case, found.name
    if found.dropped is not None and (kept := _kept_copy(found, found.dropped)):
        return kept
    if found.waits is not None:
        end, cut = found.waits.end or found.waits.line, detached(found)
        where = f"below line {end}, where {found.level.function}() goes on"
        return f"Put `{cut}` {where}{putting(cut, 'below', found.waits)}."
    leaf = next((each for each in case.graph.leaves if each.owner and each.name == f"{name} (overwritten)"), None)
    if leaf is not None and found.stored is not None:
        body, statement = read_at(found.stored)
        change = in_place(found.level.body, name, found.stored.line) if found.level.body else None
        new = f"with torch.no_grad(): {change or f'{name}.copy_(...)'}"
        edit = instead(body, statement, new) if change else ""
        return (
            f"Keep {name} the leaf that {leaf.owner} updates, and modify it in place: `{new}`{edit}. Or give the "
            f"result another name. {name}.detach() won't help: {leaf.owner} does not hold the new tensor."
        )
    if found.function:
        return _in_function(found)
    rest = f"{_after_step(found)}{begun_without(found)}"
    return (
        updated_from_values(found)
        or _all_that_is_trained(case)
        or trained_start(found)
        or one_backward(found)
        or _values_alone(found)
        or rest
    )


def _kept_copy(found: Carrier, dropped: Place) -> str:
    """To keep the detached copies that are thrown away; empty where a function makes them which cannot keep them."""
    (body, statement), held = read_at(dropped), found.value
    call = next(calls_in(statement), None)
    if body is None or call is None:
        return ""
    if found.inner in (dotted(callee(call)[0]), *map(dotted, call.args)):
        new = f"{found.inner} = {dropped.text}"
        return f"On line {dropped.line}, write `{new}`{writing(dropped, new)}."
    every = {each.lineno: (dotted(callee(call)[0]), body.text(each)) for each, call in copies_dropped(body)}
    if all(name and "." in name for name, _ in every.values()):
        kept = {line: f"{name} = {text}" for line, (name, text) in every.items()}
        return f"{sentence(on_lines(kept, body.file))}."
    arguments = body.node.args.args if isinstance(body.node, ast.FunctionDef) else []
    around = [each for each in body.node.body if any(covers(each, line) for line in every)]
    inside = [one for each in around for one in ast.walk(each) if isinstance(one, ast.stmt)]
    alone = all(isinstance(each, ast.For | ast.If) or each.lineno in every for each in inside)
    of_class = any(each.node is body.node for each in methods_of(type(held)))
    if not (of_class and alone and len(arguments) == len(around) == 1):
        return ""
    cut = attributes_detached(arguments[0].arg, held)
    first, last = around[0].lineno, around[0].end_lineno or 0
    lines = f"lines {first} to {last}" if last > first else f"line {first}"
    return f"Keep the copies: on {lines}, write `{cut}`{write(body.place(around[0]), cut)}." if cut else ""


def copies_dropped(body: Body) -> Iterator[tuple[ast.Expr, ast.Call]]:
    """The statements of a function that detach something, and drop the detached copy: `h.detach()`."""
    for each in statements(body.node):
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and callee(each.value)[1] == "detach":
            yield each, each.value


def _in_function(found: Carrier) -> str:
    """What to write in the function whose variable it is: nobody else can reach it."""
    body, statement = read_at(found.stored)
    value = getattr(statement, "value", None)
    if body is None or found.stored is None or found.read is None:
        return _after_step(found)
    after = (each for each in statements(body.node) if each.lineno >= found.stored.line)
    if not any(reads(each, found.name) for each in after) and dotted(value) and statement:
        held = found.level.value(dotted(value) or "")
        cut = without_history(dotted(value) or "", held) or f"{dotted(value)}.detach()"
        new = f"{found.name} = {cut}"
        edit = instead(body, statement, new)
        return f"Keep its values alone: on line {statement.lineno}, write `{new}`{edit}."
    at, cut = min(found.read, found.stored, key=lambda each: each.line), detached(found)
    where = f"above line {at.line}{putting(cut, 'above', at)}"
    return f"Detach it where {found.function}() begins with it: put `{cut}` {where}."


def detached(found: Carrier) -> str:
    """The statements that cut the history of all that is carried alike."""
    if len(found.alike) > 1:
        cuts = (
            detached_as(f"each.{name.rpartition('.')[2]}", held_as(found.case.failure, name)) for name in found.names
        )
        return f"for each in {each_of(found.case.failure, found.alike)}: {'; '.join(cuts)}"
    asked = asked_for(found.level, found.facts)
    return "; ".join(
        detached_as(name, value_under(found, name)) + ".requires_grad_()" * (name in asked) for name in found.names
    )


def _after_step(found: Carrier) -> str:
    """Where to detach: not in a loop within the iteration, nor in a method, which may run many times in a step."""
    level, facts, place = found.level, found.facts, found.stored
    within = loop_facts(read_at(place)[0], place.line) if place else None
    inner = (
        within is not None and (facts is None or within.loop != facts.loop) and not _covers(within.loop, level.place)
    )
    within_pass, steps = steps_of_pass(level, facts), optimizer_steps(level)
    is_failing = level is found.case.failure.user
    but = f", and not in the loop at line {within.loop.line}" if inner and within else ""
    cut = detached(found)
    often = "backward()" if is_failing and steps and not within_pass else "step"  # which comes after the loop
    if not inner and not found.own and not found.name.startswith("self."):
        if within_pass or (is_failing and not steps):
            lasts = [facts.carried[each][1] for each in found.names if each in facts.carried] if facts else []
            ends = [*filter(None, (level.place, place)), *lasts, *along(level, within_pass)]
            every = [max(ends, key=lambda each: each.line), *_instead_of(level)]
            lines = (
                f"line{'s' * (len(every) > 1)} {listed([*map(str, sorted(each.end or each.line for each in every))])}"
            )
            edits = "".join(str(putting(cut, "below", each)) for each in every)
            return f"Detach after each step: put `{cut}` below {lines}{edits}."
        last = max(filter(None, (level.place, place)), key=lambda each: each.line)  # the step is made within
        where = f"below line {last.end or last.line}{putting(cut, 'below', last)}"
        return f"Detach after each {often}: put `{cut}` {where}."
    after = next((each for each in along(level, within_pass) if each.line >= level.line), level.place)
    if often != "step":
        where = f"below line {after.end or after.line}{but}{putting(cut, 'below', after)}"
        return f"Detach after each {often}: put `{cut}` {where}."
    return f"Detach once per step, after line {after.line}, {after.text}{but}: {cut}{putting(cut, 'below', after)}."


def _instead_of(level: Level) -> list[Place]:
    """The statements of a function that run backward in a pass in which the line at which it is does not run."""
    body, here = level.body, level.place
    every = {each.node.lineno: each for each in spots(body.node)} if body is not None else {}
    found = list[Place]()
    for _, place in backward_roots(body):
        if place.position >= here.position:
            continue
        block = every[place.line].arms[-1:]
        last = [*dict(blocks(block[0][0]))[block[0][1]]][-1] if block else None
        leaves = isinstance(last, ast.Return | ast.Continue | ast.Raise)
        if body is not None and (leaves or are_alternatives(body, place, here)):
            found.append(place)
    return found


def _covers(loop: Place, place: Place) -> bool:
    """Whether a statement stands in a loop."""
    around = loop_facts(read_at(place)[0], place.line) if loop.file == place.file else None
    while around is not None and around.loop != loop:
        around = around.enclosing
    return around is not None


def _all_that_is_trained(case: Case) -> str:
    """What to do about stored results that are all that a loss trains through: not to detach them."""
    graph, joint = case.graph, joint_of(case)
    owned = {leaf.node for leaf in graph.leaves if leaf.owner}
    beside = below(graph, [root for root, _ in graph.root_edges], without=set(case.joints))
    if not owned or joint is None or joint.made is None or owned & set(beside):
        return ""
    return (
        f"Store what line {joint.made.line}, `{joint.made.place.text}`, is computed from, and compute it again in each "
        f"step: it is all that {case.loss} trains through; detached, it would train nothing."
    )


def _values_alone(found: Carrier) -> str:
    """The statement that keeps a result, with its values alone, where nothing reads it again in that pass; or empty."""
    level, (body, statement) = found.level, read_at(found.stored)
    single = found.own and len(found.names) == len(found.alike) == 1 and isinstance(statement, ast.Assign)
    if not single or body is None or statement is None or level.body is None or loop_facts(body, statement.lineno):
        return ""
    calls = [each for each in calls_of(*{body.file, level.body.file}) if callee(each[2])[1] == body.name]
    loops_around = [loop_facts(caller, each.lineno) for caller, each, _ in calls if caller.node is level.body.node]
    methods = methods_of(type(held_as(found.case.failure, found.name.rpartition(".")[0])))
    earlier = all(
        within.node is body.node and each.lineno < statement.lineno
        for within, name in [(level.body, found.name), *((each, found.inner) for each in methods)]
        for each in statements(within.node)
        if reads(each, name)
    )
    if len(calls) != 1 or loops_around != [loop_facts(level.body, level.line)] or not earlier:
        return ""
    line = on_line(body.place(statement), as_values(body, statement))
    return f"Keep its values alone: {line}." if line else ""


def _summed(found: Carrier) -> str:
    if found.span == "pass":
        return _begun_anew(found)
    name, facts = found.name, found.facts
    loop = statement_at(found.level.body, *facts.loop.position) if facts is not None else None
    ends = f", below line {loop.end_lineno}" if loop is not None else ""
    once = facts is not None and found.level is found.case.failure.user and not steps_of_pass(found.level, facts)
    later = move(found.level.place, "beside", facts.loop) if facts is not None and once else ""
    return (
        f"Call backward on the loss of this iteration alone, and add its value to {name} with .detach() or .item()"
        f"{_of_iteration(found)}; {OR}or call {name}.backward() once, after the loop{ends}{later}."
    )


def _of_iteration(found: Carrier) -> str:
    """What adds a loss to a sum without its graph, and goes back from that loss alone."""
    name, level, (body, statement) = found.name, found.level, read_at(found.stored)
    value = added_to(statement, name) if statement is not None else None
    before = found.stored is not None and found.stored.position < level.place.position
    if body is None or level.body is None or statement is None or value is None or not before:
        return ""
    if body.node is not level.body.node or not level.place.text.startswith(f"{name}.backward("):
        return ""
    loss, made = value.id if isinstance(value, ast.Name) else "loss", ""
    if not isinstance(value, ast.Name):
        made = f"{loss} = {ast.unparse(value)}\n"
        if any(use.name == loss for each in statements(body.node) for use in uses(each)):
            return ""
    new = rewritten(body, statement, {value: f"{loss}.detach()"})
    return f"{instead(body, statement, made + new)}{change(level.place, f'{name}.backward', f'{loss}.backward')}"


def _begun_anew(found: Carrier) -> str:
    """To begin the sum anew below the backward that has freed the graph of what it holds."""
    name, body, earlier, added = found.name, found.level.body, found.read, found.stored
    every = spots(body)
    spot = next((each for each in every if added is not None and each.node.lineno == added.line), None)
    if body is None or spot is None or earlier is None:
        return f"Begin {name} anew after that backward()."
    outer = next((arm for arm, _ in spot.arms if arm.lineno > earlier.line), spot.node)
    value, why = added_to(spot.node, name), f": {name} then begins a graph of its own."
    if outer is spot.node and value is not None:
        new = f"{name} = {body.text(value)}"
        return f"On line {outer.lineno}, write `{new}`{writing(body.place(outer), new)}{why}"
    first = (each.node for each in every if each.node.lineno < earlier.line and name in bound(each.node))
    zero = next((each for each in first if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)), None)
    start = body.text(zero) if zero is not None else f"{name} = 0"
    place = body.place(outer)
    return f"Put `{start}` above line {outer.lineno}, `{place.text}`{putting(start, 'above', place)}{why}"


def added_to(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a statement adds to a variable, `loss += term` or `loss = loss + term`; None if it does not."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=value) if target == name:
            return value
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add(), right=value)
        ):
            return value if target == left == name else None
    return None


def _of_container(found: Carrier) -> str:
    case, keeping, container = found.case, found.keeping, found.variable
    if keeping is None:  # in the loop that uses all of it
        clear = f"{container}.clear()" if type(found.level.value(container)) in _CONTAINERS else ""
        edit = put(clear, "below", found.facts.loop) if clear and found.facts is not None else ""
        return f"Empty {container} at the start of each iteration{edit}, or add only detached results to it."
    if found.facts is not None:  # before the loop
        value = keeping.value or found.name
        if not trained_without(case, found.nodes[1:]):
            return (
                f"Keep what {value} is computed from, and compute {found.names[-1]} from it inside the loop: the loss "
                "trains through it, so it needs a new graph in every iteration."
            )
        return _put_detached(found, container, keeping) + _too(found, container)
    if _is_read_below(keeping) and case.failure.user is not None:
        level = case.failure.user
        steps = [each for each in along(level, steps_of_pass(level)) if each.line >= level.line] or [level.place]
        within = loop_facts(read_at(keeping.place)[0], keeping.place.line)  # detached, no turn would train another
        each_turn = within is not None and within != loop_facts(level.body, level.line)
        new = _cut_in(found, keeping) if not (each_turn or _trains_all(case, container)) else ""
        edit = writing(keeping.place, new)
        other = f" {OR}Or write `{new}`{edit}, if no step should train through it." if new else ""
        held = held_as(case.failure, container)
        cut = detached_as(container, held)
        if container.isidentifier() and not assignments(level.body, container):
            # it is another function's: to assign it would make a local one
            cut = cut.replace(" =", "[:] =", 1) if type(held) is list else cut
            cut = f"{container}.update({cut.partition(' = ')[2]})" if type(held) is dict else cut
        if len(owners := _owners_alike(case, container)) > 1:
            cut = detached_as(f"each.{container.rpartition('.')[2]}", held)
            cut = f"for each in {each_of(case.failure, owners)}: {cut}"
        where = f"after line {steps[0].line}, {steps[0].text}"
        return f"Detach once per step, {where}: {cut}{putting(cut, 'below', steps[0])}.{other}"
    if keeping.replaces:
        return _put_detached(found, container, keeping)
    clear = _clearing(case.failure.user, container)
    if _trains_all(case, container):
        return (
            f"Let {container} hold the results of one step only, and empty it after each step{clear}. The loss trains "
            "through them alone: detached, they would train nothing."
        )
    return (
        f"If {container} should hold the results of one step only, empty it after each step{clear}. {OR}If it should "
        f"keep older ones, put them into it detached: {_detached_at(found, keeping)}."
    )


def _owners_alike(case: Case, container: str) -> list[str]:
    """The objects of one class that each keep results of this graph under the name of a container."""
    owner, _, attribute = container.rpartition(".")
    every = dict.fromkeys(apart(path)[0].rpartition(".") for path, node in case.held if case.is_old(node))
    known = type(held_as(case.failure, owner))
    return sorted(
        each for each, _, its in every if its == attribute and each and type(held_as(case.failure, each)) is known
    )


def _put_detached(found: Carrier, container: str, keeping: Keeping) -> str:
    return f"Put results into {container} detached: {_detached_at(found, keeping)}."


def _detached_at(found: Carrier, keeping: Keeping) -> str:
    written = _cut_in(found, keeping)
    edit = writing(keeping.place, written)
    return f"on line {keeping.place.line}, write `{written}`{edit}" if written else "x.detach(), not x"


_CONTAINERS = (list, dict, set, deque)


def _clearing(level: Level | None, container: str) -> str:
    """Where a container is emptied: below the step that follows the failing backward. Empty of one of containers."""
    value = level.value(container) if level is not None else None
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, _CONTAINERS) else ()
    if level is None or type(value) not in _CONTAINERS or any(type(each) in _CONTAINERS for each in inside):
        return ""
    after = next((each for each in along(level, steps_of_pass(level)) if each.line >= level.line), level.place)
    code = f"{container}.clear()"
    return f": {put_at(code, 'below', after)}"


def _trains_all(case: Case, container: str) -> bool:
    """Whether what optimizers hold is reached through the results in a container alone."""
    kept = [node for path, node in case.held if apart(path)[0] == container]
    beside = below(case.graph, [root for root, _ in case.graph.root_edges], without=kept)
    owned = {leaf.node for leaf in case.graph.leaves if leaf.owner}
    return bool(owned) and not owned & set(beside)


def _cut_in(found: Carrier, keeping: Keeping) -> str:
    """The statement that keeps a value, with it detached; empty where that is not a tensor, or a tuple of some."""
    body, statement = read_at(keeping.place)
    target = statement.targets[-1] if isinstance(statement, ast.Assign) else None
    deep = sum(isinstance(each, ast.Subscript) for each in ast.walk(target)) if target is not None else 0
    entries = apart(found.name)[1].count("[")
    cut = _detached(keeping.value) if keeping.value and (not deep or entries <= deep) else ""
    return keeping.with_value(cut) if cut and body else ""


def _detached(value: str) -> str:
    """An expression without its history, of a tuple each of its elements; empty where it cannot be written."""
    node = parsed(value)
    if isinstance(node, ast.Tuple):
        return f"({', '.join(_detached(ast.unparse(each)) for each in node.elts)})"
    return f"{simple(value)}.detach()" if node is not None else ""


def _too(found: Carrier, container: str) -> str:
    """What to do about the other containers of an object that keep results from before: the next errors."""
    case, owner, others = found.case, container.rpartition(".")[0], dict[str, Keeping]()
    for path, node in reversed(case.held):
        variable, entries = apart(path)
        if entries and variable != container and variable.rpartition(".")[0] == owner and case.is_old(node):
            inside = (each.keeping for each in stores(case.failure, variable) if each.inside)
            keeping = next(inside, None) if variable not in others and (not case.old or node in case.old) else None
            if keeping is not None:
                others[variable] = keeping
    return "".join(f" {_put_detached(found, variable, keeping)}" for variable, keeping in others.items())


def _is_read_below(keeping: Keeping) -> bool:
    """Whether this step trains what it keeps: the result is read again, or was only handed over to be kept."""
    body, statement = read_at(keeping.place)
    if body is not None and keeping.value in parameters_of(body.node):
        return True
    after = (each for each in statements(body) if statement and each.lineno > statement.lineno)
    return any(reads(each, keeping.name) for each in after)


def _written(found: Carrier) -> str:
    """A tensor into which each pass writes, and what else of its object it writes into."""
    body, statement = read_at(found.stored)
    case, name = found.case, found.keeping.name if found.keeping else found.name
    if found.facts is not None:
        return _written_in_loop(found, found.facts)
    if body is None or not isinstance(statement, ast.Assign):
        return f"Drop the old graphs at the start of each pass: {found.name} = {found.name}.detach()."
    alike = written_alike(found)
    cuts = "; ".join(f"{each} = {each}.detach()" for each in alike)
    begins = "Drop the old graphs at the start of each pass"
    if any(_is_read_back(body, each) for each in alike):
        first = first_statement(body)
        edit = put(cuts, "above", first) if first is not None and _runs_once(case, body) else ""
        return f"{begins}: {cuts}{edit}."
    fix = f"{begins}: {cuts}."
    inside = [each for each in statements(body.node) if _writes(each, name)]
    new = [text for each in inside if (text := as_values(body, each))]
    edits = "".join(str(instead(body, each, text)) for each, text in zip(inside, new, strict=False))
    lines = [f"on line {each.lineno}, `{text}`" for each, text in zip(inside, new, strict=False)]
    values = listed(lines) if len(lines) > 1 else next(iter(new), "")
    return f"{fix} {OR}Or store only values: {values}{edits}." if values else fix


def _runs_once(case: Case, body: Body) -> bool:
    """Whether one statement of what runs backward calls a function, once in each pass."""
    for level in case.failure.users:
        every = [(each, call) for each in statements(level.body) for call in calls_in(each)]
        ran = ((each, function_called(level, call)) for each, call in every)
        calls = [each for each, given in ran if any(one.body.node is body.node for one in [*run_by(*given)][:1])]
        if calls:
            around = [loop_facts(level.body, each.lineno) for each in calls]
            return around == [loop_facts(level.body, level.line)]
    return False


def _written_in_loop(found: Carrier, facts: LoopFacts) -> str:
    """A tensor from before a loop: where an iteration drops its graph, or makes it anew."""
    loop, (_, made) = statement_at(found.level.body, *facts.loop.position), read_at(facts.outside.get(found.name))
    first = next((block[0] for _, block in blocks(loop) if block), None) if loop is not None else None
    cuts = "; ".join(f"{each} = {each}.detach()" for each in written_alike(found))
    edit = put(cuts, "above", found.level.body.place(first)) if found.level.body and first is not None else ""
    line = first.lineno if first is not None else 0
    fix = f"Drop the old graphs at the start of each iteration: put `{cuts}` above line {line}{edit}."
    if not isinstance(made, ast.Assign) or [dotted(each) for each in made.targets] != [found.name]:
        return fix
    edit = move(facts.outside[found.name], "below", facts.loop)
    return (
        f"{fix} {OR}Or move line {made.lineno}, `{facts.outside[found.name].text}`, inside the loop at line "
        f"{facts.loop.line}{edit}, if no iteration needs what an earlier one wrote."
    )


def written_alike(found: Carrier) -> dict[str, Place]:
    """The tensor into which a function writes, and the others of its object into which it writes as well, by where it
    does."""
    body, _ = read_at(found.stored)
    name = found.keeping.name if found.keeping else found.name
    alike: dict[str, Place] = {}
    for each in statements(body):
        target = each.targets[0] if isinstance(each, ast.Assign) else None
        held = (dotted(target.value) or "") if isinstance(target, ast.Subscript) else ""
        if body is None or not isinstance(each, ast.Assign) or held.rpartition(".")[0] != name.rpartition(".")[0]:
            continue
        if found.facts is not None and (each.lineno < found.facts.loop.line or held in found.facts.assigned):
            continue
        cut = isinstance(each.value, ast.Call) and callee(each.value)[1] == "detach"
        attached = not cut and not isinstance(each.value, ast.Constant)
        if held == name or (attached and _is_read_back(body, held) == _is_read_back(body, name)):
            alike.setdefault(held, body.place(each))
    return alike


def _is_read_back(body: Body, name: str) -> bool:
    """Whether the function reads what it has written into the attribute: its graph is needed, then."""
    first = min((each.lineno for each in statements(body.node) if _writes(each, name)), default=0)
    after = (each for each in statements(body.node) if each.lineno > first and not _writes(each, name))
    return any(dotted(node) == name for each in after for node in expressions(each))


def _writes(statement: ast.stmt, name: str) -> bool:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(target, ast.Subscript) and dotted(target.value) == name


def _cached(found: Carrier) -> str:
    """What to do about a result that is computed once and kept: again in each step only where it may be trained."""
    keeping = found.keeping
    assert keeping is not None
    value, (body, statement) = keeping.value or "it", read_at(keeping.place)
    through, beside = _owners(found.case, found.nodes)
    if not through and beside:
        cut = _cut_in(found, keeping)
        written = f"On line {keeping.place.line}, write `{cut}`{writing(keeping.place, cut)}"
        how = written if cut else "Compute it under torch.no_grad()"
        return f"{how}: {listed(beside)} trains nothing that {value} is computed from."
    every = (every_time(body, statement, keeping.name) if body and statement else "") or uncached(keeping.place)
    made = found.made.place if isinstance(found.made, Line) else found.made
    inner, _ = read_at(made)
    if inner is not None and (anew := uncached(made)):
        value, every = f"the result of {inner.name}()", anew
    how = f": {every}" if every else " instead of storing it"
    behind = set(below(found.case.graph, found.nodes))
    leaves = [each.name for each in found.case.graph.leaves if each.name]
    if leaves and all(each.node in behind for each in found.case.graph.leaves):
        return (
            f"Recompute {value} in each step{how}. It cannot be detached: {found.case.loss} reaches "
            f"{listed(leaves, 3)} through it alone."
        )
    if not through:
        return (
            f"If the parameters that {value} depends on are trained, recompute it in each step{how}. If they should "
            "not be, compute it under torch.no_grad()."
        )
    if every:
        why = "because the parameters it depends on are trained"
        return f"Recompute {value} in each step, {why}{how}. If they should not be, compute it under torch.no_grad()."
    return (
        f"Recompute {value} in each step{how}: the parameters it depends on are trained. If they should not be, "
        "compute it under torch.no_grad()."
    )


def _owners(case: Case, nodes: Sequence[int]) -> tuple[list[str], list[str]]:
    """The optimizers that hold what a loss reaches: through a result, and elsewhere."""
    behind = set(below(case.graph, nodes))
    owned = [leaf for leaf in case.graph.leaves if leaf.owner]
    through = {str(leaf.owner) for leaf in owned if leaf.node in behind}
    return sorted(through), sorted({str(leaf.owner) for leaf in owned if leaf.node not in behind})
