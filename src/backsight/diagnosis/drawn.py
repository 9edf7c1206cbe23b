"""BS137, BS145, BS161, BS166, BS168: an exhausted iterator, the same batch or random numbers, or rows of others."""

from __future__ import annotations

import ast
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType, GeneratorType
from typing import Any

import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

from backsight.diagnosis.amending import added, instead, rid_of_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, calls_around, ending, files_around, loops_around, program_frames
from backsight.diagnosis.wording import if_known, listed, numbered, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place, assignments, calls_of, function_at, only, read_at, statements_of
from backsight.source.bindings import assigned, bound, parameters_of, prefixes, uses
from backsight.source.body import LOOPS, Loop, block_of, body_around, callee, calls_in, dotted, expressions, statements
from backsight.source.edits import OR, move
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, method
from backsight.story.fixes import removed
from backsight.tracing import Line, Watch, disordered, drawn_again, unpaired


def same_batch(model: str, steps: Sequence[int], rows: int, frame: FrameType | None) -> Finding | None:
    """Return the finding that a model was given the same values at each of some steps.

    Who overfits one batch takes it once, before the loop. So a statement has to take the first of a new iterator for
    each step, and a loader has to hold more than these rows.
    """
    found = list(_firsts(frame))
    if len(found) != 1:
        return None
    place, text = found[0]
    loaders = [(each, name) for each, name in search((), collect=(DataLoader,)).found if type(each) is DataLoader]
    named = [each for each, name in loaders if ending(name.path) == ending(text)]
    if not any(has_more(each, rows) for each in named or [each for each, _ in loaders]):
        return None
    return warning(
        "BS145",
        f"{model} is trained on the same batch in every step.",
        (
            f"Its input had the same values at steps {listed([numbered(each) for each in steps[:4]], 4)}.",
            shown(place, "creates a new iterator for each batch, so it always returns the first one.", "read"),
        ),
        f"Iterate with `for batch in {text}`. Or create the iterator once, iterator = iter({text}), call "
        "next(iterator) in each step, and create a new one at StopIteration.",
        place,
        since=steps[0],
    )


def _firsts(frame: FrameType | None) -> Iterator[tuple[Place, str]]:
    """Yield the statements that may run `next(iter(loader))` in each step, with what they call the loader."""
    running = {}
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is not None:
            running[id(body.node)] = each.f_lineno
    for file in files_around(frame):
        for body, statement in statements_of(file):
            text = next(filter(None, map(_first, expressions(statement))), "")
            if text and _is_repeated(body, statement, running.get(id(body.node))):
                yield body.place(statement), text


def _first(node: ast.expr) -> str:
    """Return the name of what `next(iter(name))` takes the first of."""
    if isinstance(node, ast.Call) and dotted(node.func) == "next" and node.args:
        inner = node.args[0]
        if isinstance(inner, ast.Call) and dotted(inner.func) == "iter" and len(inner.args) == 1:
            return dotted(inner.args[0]) or ""
        if isinstance(inner, ast.Call) and callee(inner)[1] == "__iter__":
            return dotted(callee(inner)[0]) or ""
    return ""


def _is_repeated(body: Body, statement: ast.stmt, line: int | None) -> bool:
    """Whether a statement may run for each step: in a function that is called, or in a loop that leads to the step."""
    if line is None:
        return isinstance(body.node, ast.FunctionDef) and body.node.name != "__init__"
    return bool(set(loops_around(body, statement.lineno)) & set(loops_around(body, line)))


def has_more(loader: Any, rows: int) -> bool:
    """Whether what a data set holds, as far as that can be seen without asking it, has more rows than these."""
    dataset: Any = (namespace(loader) or {}).get("dataset")
    values = [dataset, *(namespace(dataset) or {}).values()]
    values += [each for value in values if type(value) is tuple for each in value]
    return any(_rows(each) > rows for each in values)


def _rows(value: Any) -> int:
    if type(value) is list:
        return len(value)
    if type(value) is torch.Tensor or (type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"):
        return int(value.shape[0]) if len(value.shape) else 0
    return 0


# BS168: each step draws the same random numbers, because each seeds the generator.


_SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed_everything", "set_seed"})
_MODULES = frozenset({"torch", "cuda", "random"})


def seeded_again(watch: Watch, frame: FrameType) -> Finding | None:
    """Return the finding that the watch saw the same numbers in each step, which a statement seeds with one number."""
    drawn = drawn_again(watch)
    around = [body for line in drawn for body in [body_around(line.file, line.line)] if body is not None]
    seeds = list(dict.fromkeys(_seeds(frame, around)))
    if not drawn or not seeds:
        return None
    place = seeds[0]
    draws = shown(drawn[0], "draws the same numbers in each step.") if drawn[0].place != place else None
    return warning(
        "BS168",
        "Each step draws the same random numbers: it seeds the generator again.",
        (shown(place, "runs in each step.", "read"), draws),
        f"Seed once, before the training: {removed(place)}. For numbers that an evaluation repeats, seed "
        "inside `with torch.random.fork_rng():`, which puts the state back.",
        place,
        since=1,
    )


def _seeds(frame: FrameType, around: list[Body]) -> Iterator[Place]:
    """Yield the statements that seed with one number in each step: around a draw, or in a loop around the step."""
    every = list(bodies(frame))
    inside = [body for body in around if isinstance(body.node, ast.FunctionDef)]
    for body in inside:
        yield from _seeding(body, every, list(statements(body.node)))
    for each in program_frames(frame):
        running = function_at(each.f_code)
        if running is None:
            continue
        loops = (s for s in statements(running.node) if isinstance(s, LOOPS))
        if turning := [s for s in loops if s.lineno <= each.f_lineno <= (s.end_lineno or 0)]:
            yield from _seeding(running, every, list(statements(ast.Module(turning[-1].body, []))))
            return
        yield from _seeding(running, every, list(statements(running.node)))


def _seeding(body: Body, every: list[Body], run: list[ast.stmt]) -> Iterator[Place]:
    forked = [each for each in statements(body.node) if isinstance(each, ast.With) and "fork_rng" in body.text(each)]
    for statement in run:
        if any(each.lineno <= statement.lineno <= (each.end_lineno or 0) for each in forked):
            continue
        for call in calls_in(statement):
            if (_is_seed(call) or _calls_seeder(call, every)) and _are_fixed(body, call):
                yield body.place(statement)


def _is_seed(call: ast.Call) -> bool:
    """Whether a call seeds a generator of PyTorch's own, and not one of the program's."""
    receiver, method = callee(call)
    last = ending(dotted(receiver)) if receiver is not None else "torch"
    return method in _SEEDS and (last in _MODULES or method not in ("manual_seed", "manual_seed_all"))


def _calls_seeder(call: ast.Call, every: list[Body]) -> bool:
    """Whether a call runs a function of the program that seeds and does nothing but that kind of thing."""
    name = callee(call)[1]
    named = (body for body in every if isinstance(body.node, ast.FunctionDef) and body.node.name == name)
    return any(
        all(isinstance(each, ast.Expr | ast.Assign | ast.If) for each in body.node.body)
        and any(_is_seed(inner) for each in statements(body.node) for inner in calls_in(each))
        and not any(isinstance(each, ast.Return) for each in statements(body.node))
        for body in named
    )


def _are_fixed(body: Body, call: ast.Call) -> bool:
    """Whether a call is given no index: nothing itself that the function is given, nor what one of its loops counts."""
    loops = [each for each in statements(body.node) if isinstance(each, LOOPS)]
    varying = parameters_of(body.node) | {name for each in loops for name in bound(each)}
    for value in (*call.args, *(each.value for each in call.keywords)):
        held = {use.name.split(".")[0] for use in uses(value) if "." in use.name}
        if any(use.name in varying and use.name not in held for use in uses(value)):
            return False
    return True


# BS161, BS166: pairs that are drawn, or put in an order, each by itself; and data of which a part is drawn.


def drawn_apart(watch: Watch) -> Iterator[Finding]:
    """Yield the finding that a loss pairs the rows of two loaders that the program goes through side by side.

    What has a generator of its own may draw in the same order as the other, and is left alone.
    """
    told = set()
    for each, line in unpaired(watch):
        loaders = [(held, name) for ref in each.loaders for held, name in _loaders() if _draws(held, ref())]
        if (
            line is None
            or len(loaders) != 2
            or str(line.place) in told
            or any(map(_is_seeded, (h for h, _ in loaders)))
        ):
            continue
        names = [name for _, name in loaders]
        together = next(_side_by_side(line.file, names), None)
        if together is not None:
            told.add(str(line.place))
            yield _finding(line.place, together, names, [_made(line.file, name) for name in names])


def disarranged(watch: Watch) -> Iterator[Finding]:
    """Yield the findings that a loss compares rows with targets in another order: the rows were sorted, or shuffled."""
    for each, line, taken, made, (rows, order) in disordered(watch):
        if line is None or taken is None:
            continue
        name = order if order.isidentifier() else ""
        apart = made is not None and made.place != taken.place
        yield warning(
            "BS161",
            f"The loss compares rows with the targets of others: {f'`{name}`' if name else 'an order'} is applied to "
            f"{f'`{rows}`' if rows else 'the rows'}, and not to the targets.",
            (
                if_known(made if apart else None, "makes the order."),
                shown(taken.place, f"puts {each.rows} rows in this order."),
                shown(line.place, "compares them with targets that were never put in it."),
            ),
            _brought_back(taken, line, name or "order"),
            taken.place,
        )


def _brought_back(taken: Line, compared: Line, order: str) -> str:
    """Return how the rows get their order back, where the function that has changed it returns them."""
    body, other = (body_around(each.file, each.line) for each in (taken, compared))
    also = f"{OR}Or put the targets in the same order: targets[{order}]."
    if body is None or (other is not None and other.node is body.node):
        return (
            f"Put the targets in the same order, targets[{order}]. {OR}Or put the results back: "
            f"results[{order}.argsort()]."
        )
    returns = [each for each in statements(body.node) if isinstance(each, ast.Return) and each.lineno >= taken.line]
    value = returns[0].value if len(returns) == 1 else None
    if isinstance(value, ast.Call | ast.Name | ast.Subscript | ast.Attribute):
        new = f"{ast.unparse(value)}[{order}.argsort()]"
        edit = instead(body, returns[0], {value: new})
        return f"Put the results back in their order: return {new}{edit}. {also}"
    return f"Put the results back in their order before you return them: results[{order}.argsort()]. {also}"


def drawn_in_part(frame: FrameType) -> Iterator[Finding]:
    """Yield the findings of samplers that have a weight for each class, where they need one for each sample."""
    for loader, name in _loaders():
        held: Any = (namespace(loader) or {}).get("sampler")
        weights: Any = (namespace(held) or {}).get("weights") if type(held) is WeightedRandomSampler else None
        count = len(weights) if isinstance(weights, torch.Tensor) and weights.dim() == 1 else 0
        if not count or not has_more(loader, 2 * count):
            continue
        every = (each for each in calls_around(frame) if callee(each[2])[1] == "WeightedRandomSampler" and each[2].args)
        made = only(every)
        place = made[0].place(made[1]) if made is not None else None
        given = dotted(made[2].args[0]) if made is not None else None
        yield warning(
            "BS166",
            f"{name} draws only the first {count} samples: its sampler has {count} weights.",
            (
                if_known(place, f"uses {count} weights as those of samples 0 to {count - 1}."),
                "WeightedRandomSampler needs a weight for each sample, not for each class: no other sample is drawn.",
            ),
            f"Give it the weight of each sample's class: {given or 'class_weights'}[labels].",
            place,
        )


def _loaders() -> list[tuple[Any, str]]:
    found = search((), collect=(DataLoader,)).found
    return [(each, name.path) for each, name in found if type(each) is DataLoader]


def _draws(loader: Any, batches: object) -> bool:
    return batches is not None and (namespace(loader) or {}).get("batch_sampler") is batches


def _is_seeded(loader: Any) -> bool:
    held = namespace(loader) or {}
    return held.get("generator") is not None or (namespace(held.get("sampler")) or {}).get("generator") is not None


def _side_by_side(file: str, names: Sequence[str]) -> Iterator[Place]:
    """Yield the statements that go through both at once, by the last parts of their names."""
    wanted = set(map(ending, names))
    for body, statement, call in calls_of(file):
        given = {ending(dotted(each)) for each in call.args}
        if callee(call)[1] == "zip" and wanted <= given:
            yield body.place(statement)


def _made(file: str, name: str) -> tuple[Place, ast.Call] | None:
    """Return the only statement that makes a loader, and its call."""
    found = only(
        (body.place(statement), value)
        for body, statement in statements_of(file)
        for goal, value in assigned(statement)
        if isinstance(value, ast.Call) and ending(dotted(goal)) == ending(name)
    )
    return found if found is not None and callee(found[1])[1] == "DataLoader" else None


def _finding(
    compared: Place, together: Place, names: Sequence[str], made: Sequence[tuple[Place, ast.Call] | None]
) -> Finding:
    data = [dotted(each[1].args[0]) for each in made if each is not None and each[1].args]
    both = ", ".join(each for each in data if each is not None)
    one, other = (each[0] if each is not None else None for each in made)
    edits = [rid_of_keyword(each, "shuffle", "DataLoader") for each in (one, other)]
    pairs = f"torch.utils.data.StackDataset({both})" if len(data) == 2 and all(data) else "a dataset that returns both"
    return warning(
        "BS161",
        f"{names[0]} and {names[1]} shuffle independently, so the rows that the loss pairs do not belong together.",
        (
            if_known(one, "draws the samples in an order of its own."),
            if_known(other, "draws them in another."),
            shown(together, "iterates over both in parallel."),
            shown(compared, "treats rows of both as pairs."),
        ),
        f"Draw pairs from one loader: DataLoader({pairs}, ..., shuffle=True). {OR}Or shuffle neither"
        f"{''.join(edits) if all(edits) else ''}.",
        one or together,
    )


# BS137: an iterator that can be gone through once, in a loop that runs in every epoch.


_BUILT_IN: tuple[Iterable[object], ...] = ([], (), {}, {}.items(), {}.values(), "", range(0))
_ONCE = frozenset(
    {GeneratorType, zip, map, filter, enumerate, reversed, itertools.chain, itertools.islice}
    | {type(iter(each)) for each in _BUILT_IN}
)
_HANDS_ON = frozenset({"enumerate", "tqdm", "track"})


@dataclass(frozen=True)
class _Inside:
    """A statement of an `__iter__` that goes through an attribute, the attribute, and what gave it its value."""

    place: Place
    attribute: str
    made: Place | None
    holder: object


@dataclass(frozen=True)
class _Gone:
    """An iterator, what it is called, the loop that goes through it, and an `__iter__` that hands it on."""

    iterator: object
    name: str
    loop: Place
    inside: _Inside | None = None


def used_up(frame: FrameType, since: int) -> tuple[Finding, Callable[[], bool]] | None:
    """Return the finding that a loop around that which leads to a step does not make its iterator anew; and what tells
    later whether it may be used up.
    """
    gone: _Gone | None = None
    for each in program_frames(frame):
        level = Level(each, each.f_lineno)
        body = level.body
        if body is None:
            return None
        name = _name(level, gone) if gone is not None else ""
        for loop in reversed(loops_around(body, level.line)):
            if gone is None:
                gone = _gone_through(level, body, loop)
                name = gone.name if gone is not None else ""
            elif name and _goes_on(level, loop) and not _binds(loop, name):
                made = _creation(body, name, loop) or (gone.loop if gone.inside is not None else None)
                if made is None:
                    return None
                return _of_iterator(gone, name, made, body.place(loop), since), _is_over(gone)
        if gone is not None and not name:
            return None
    return None


def _gone_through(level: Level, body: Body, loop: Loop) -> _Gone | None:
    """Return what a loop goes through to its end, if that is an iterator which a variable holds."""
    given = loop.iter if isinstance(loop, ast.For) else None
    while isinstance(given, ast.Call) and callee(given)[1] in _HANDS_ON and given.args:
        given = given.args[0]
    name, held = dotted(given), value_of(level, given) if given is not None else None
    held, inside = (held, None) if type(held) in _ONCE else _behind(held)
    if name is None or type(held) not in _ONCE or any(isinstance(n, ast.Break | ast.Return) for n in ast.walk(loop)):
        return None
    return _Gone(held, name, body.place(loop), inside)


def _behind(held: object) -> tuple[object, _Inside | None]:
    """Return the iterator that an object of a class of the program's holds, and that its `__iter__` goes through."""
    data = (namespace(held) or {}).get("dataset") if type(held) is DataLoader else held
    function = method(type(data), "__iter__")
    body = function_at(function.__code__) if function is not None else None
    values = namespace(data) or {}
    if body is None or not values:
        return None, None
    for statement in statements(body.node):
        for node in filter(None, map(_handed_on, _passed(statement))):
            name = dotted(node) or ""
            value = values.get(name.removeprefix("self.")) if name.startswith("self.") else None
            if type(value) not in _ONCE or any(name in bound(each) for each in statements(body.node)):
                continue
            made = only(each.place(s) for each, s in statements_of(body.file) if name in bound(s))
            return value, _Inside(body.place(statement), name, made, held)
    return None, None


def _passed(statement: ast.stmt) -> list[ast.expr | None]:
    """Return what a statement of an `__iter__` goes through to its end, or returns."""
    if isinstance(statement, ast.Return | ast.For):
        return [statement.value if isinstance(statement, ast.Return) else statement.iter]
    return [each.value for each in ast.walk(statement) if isinstance(each, ast.YieldFrom)]


def _handed_on(given: ast.expr | None) -> ast.expr | None:
    """Return what is gone through: of `iter(x)`, `enumerate(x)` and `map(f, x)`, the last argument."""
    while isinstance(given, ast.Call) and callee(given)[1] in (*_HANDS_ON, "iter", "map", "filter") and given.args:
        given = given.args[-1]
    return given


def _name(level: Level, gone: _Gone) -> str:
    """Return what a caller calls the iterator: what it hands on, or by the same name."""
    given = (dotted(node) for node in expressions(level.statement))
    names = [gone.name, *(name for name in given if name is not None)]
    held = gone.iterator if gone.inside is None else gone.inside.holder
    return next((name for name in names if level.value(name) is held), "")


def _goes_on(level: Level, loop: Loop) -> bool:
    """Whether a loop has another pass after the first, as far as the text shows."""
    if isinstance(loop, ast.While):
        return not any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))
    times = loop.iter.args if isinstance(loop.iter, ast.Call) and callee(loop.iter)[1] == "range" else []
    return len(times) != 1 or value_of(level, times[0]) != 1


def _binds(loop: Loop, name: str) -> bool:
    inside = (node for node in ast.walk(loop) if isinstance(node, ast.stmt))
    return any(not set(prefixes(name)).isdisjoint(bound(statement)) for statement in inside)


def _creation(body: Body, name: str, loop: Loop) -> Place | None:
    """Return the one statement that makes it, before the loop; of an attribute, the only one in the file."""
    if "." not in name:
        return next(reversed(assignments(body, name, before=loop.lineno)), body.place(loop))
    last = ending(name)
    every = statements_of(body.file)
    return only(each.place(s) for each, s in every if any(ending(n) == last and "." in n for n in bound(s)))


def _is_over(gone: _Gone) -> Callable[[], bool]:
    """Return what tells of a generator whether it has come to its end; of others that is not to be known."""
    if not isinstance(gone.iterator, GeneratorType):
        return lambda: True
    held = weakref.ref(gone.iterator)

    def is_over() -> bool:
        generator = held()
        return generator is None or generator.gi_frame is None

    return is_over


def _of_iterator(gone: _Gone, name: str, made: Place, around: Place, since: int) -> Finding:
    kind = type(gone.iterator).__name__
    if gone.inside is not None:
        return _of_an_object(gone, gone.inside, name, around, kind, since)
    source, listing = made if made != around else gone.loop, f"{name} = list({name})"
    return warning(
        "BS137",
        f"{name} is exhausted after the first epoch: later epochs train nothing.",
        (
            if_known(made if made != around else None, f"creates it: a {kind}, which can be iterated only once."),
            shown(around, "runs the loop over it again without recreating it."),
            shown(gone.loop, "exhausts it in the first epoch and finds it empty afterwards."),
        ),
        f"Create it inside the loop at line {around.line}{_into(made, around)}. {OR}Or store what it yields: {listing}"
        f"{added(listing, 'below', made) if made != around else ''}.",
        source,
        since=since,
    )


def _into(made: Place, around: Place) -> str:
    """Move what makes an iterator to the start of each turn of a loop."""
    (body, statement), (other, loop) = read_at(made), read_at(around)
    if body is None or statement is None or loop is None or other is None or body.node is not other.node:
        return ""
    same = any(each is loop for each in block_of(body, statement))
    return str(move(made, "below", around)) if same and made.line < around.line else ""


def _of_an_object(gone: _Gone, inside: _Inside, name: str, around: Place, kind: str, since: int) -> Finding:
    new = f"a new {kind}" if kind != "generator" else "a new generator"
    return warning(
        "BS137",
        f"{name} is exhausted after the first epoch: its __iter__ returns the same {kind} each time.",
        (
            if_known(inside.made, f"creates it once: a {kind} can be iterated only once."),
            shown(inside.place, "goes through it again in each epoch."),
            shown(around, "runs the loop over it again."),
            shown(gone.loop, "exhausts it in the first epoch and finds it empty afterwards."),
        ),
        f"Create {new} in __iter__, in place of {inside.attribute}. {OR}Or store what it yields: {inside.attribute} = "
        f"list(...), and return iter({inside.attribute}){_listed(inside)}.",
        inside.place,
        since=since,
    )


def _listed(inside: _Inside) -> str:
    """Keep a list of what an iterator yields, and go through that."""
    (body, made), (_, used) = read_at(inside.made), read_at(inside.place)
    values = [value for goal, value in assigned(made) if dotted(goal) == inside.attribute]
    if body is None or len(values) != 1:
        return ""
    edit = instead(body, made, {values[0]: f"list({body.text(values[0])})"})
    if isinstance(used, ast.Return) and used.value is not None and dotted(used.value) == inside.attribute:
        edit += instead(read_at(inside.place)[0], used, {used.value: f"iter({inside.attribute})"})
    return edit
