"""BS161, BS166: pairs that are drawn, or put in an order, each by itself; and data of which a part is drawn."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

from backsight.diagnosis.amending import call_at, instead, without_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around
from backsight.diagnosis.same_batch import has_more
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place, calls_of, statements_of
from backsight.source.bindings import assigned
from backsight.source.body import body_around, callee, dotted, statements
from backsight.source.edits import OR
from backsight.tracing import Line, Watch, disordered, unpaired

CODES = ("BS161", "BS166")


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
                shown(made.place, "makes the order.") if made is not None and apart else None,
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
        made = [(b, s, c) for b, s, c in calls_around(frame) if callee(c)[1] == "WeightedRandomSampler" and c.args]
        place = made[0][0].place(made[0][1]) if len(made) == 1 else None
        given = dotted(made[0][2].args[0]) if len(made) == 1 else None
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
    wanted = {name.split(".")[-1] for name in names}
    for body, statement, call in calls_of(file):
        given = {(dotted(each) or "").split(".")[-1] for each in call.args}
        if callee(call)[1] == "zip" and wanted <= given:
            yield body.place(statement)


def _made(file: str, name: str) -> tuple[Place, ast.Call] | None:
    """Return the only statement that makes a loader, and its call."""
    found = [
        (body.place(statement), value)
        for body, statement in statements_of(file)
        for goal, value in assigned(statement)
        if isinstance(value, ast.Call) and (dotted(goal) or "").split(".")[-1] == name.split(".")[-1]
    ]
    return found[0] if len(found) == 1 and callee(found[0][1])[1] == "DataLoader" else None


def _finding(
    compared: Place, together: Place, names: Sequence[str], made: Sequence[tuple[Place, ast.Call] | None]
) -> Finding:
    data = [dotted(each[1].args[0]) for each in made if each is not None and each[1].args]
    both = ", ".join(each for each in data if each is not None)
    one, other = (each[0] if each is not None else None for each in made)
    edits = [_in_order(each) for each in (one, other)]
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


def _in_order(made: Place | None) -> str:
    """Make a loader that does not shuffle."""
    body, statement, call = call_at(made, "DataLoader")
    return instead(body, statement, without_keyword(body, call, "shuffle")) if body and call is not None else ""
