"""BS145, BS161, BS166, BS168: the same batch, the same random numbers, or rows that do not belong together."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

from backsight.diagnosis.amending import instead, rid_of_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, calls_around, ending, files_around, loops_around, program_frames
from backsight.diagnosis.wording import if_known, listed, numbered, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place, calls_of, function_at, only, statements_of
from backsight.source.bindings import assigned, bound, parameters_of, uses
from backsight.source.body import LOOPS, body_around, callee, calls_in, dotted, expressions, statements
from backsight.source.edits import OR
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
