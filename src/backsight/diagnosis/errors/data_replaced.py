"""BS208 of an operation of PyTorch's: the data of a leaf got another shape since what accumulates its gradient was
made."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.findings.evidence import Certainty
from backsight.snapshot import survey
from backsight.source import Body, Place, statements_of
from backsight.source.bindings import assigned
from backsight.source.body import dotted
from backsight.source.changes import is_tensor_data
from backsight.source.definitions import values_of
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.memory import needs_gradient
from backsight.story.sections import methods_of
from backsight.tape import Leaf
from backsight.tape.ops import op_name


class _Replaced(NamedTuple):
    """A statement that replaces the data of a leaf, `b.data = torch.cat(...)`; `path` is what it could assign."""

    leaf: Leaf
    place: Place
    path: str
    value: str


def data_replaced(failure: Failure, match: re.Match[str], index: int) -> Finding:
    """Name every leaf whose shape is not that of its gradient, and the statements that have replaced their data."""
    can_be_read = any(needs_gradient(root) for root in failure.roots)
    graph = survey(failure.roots, frames=failure.frames).graph if can_be_read else None
    shapes = {leaf.index: graph.nodes[leaf.node].shape for leaf in graph.leaves} if graph else {}
    leaves = [leaf for leaf in graph.leaves if shapes[leaf.index] not in (None, leaf.shape)] if graph else []
    names = [leaf.name for leaf in leaves if leaf.name]
    replaced = [each for leaf in leaves for each in _replacements(failure, leaf)]
    times = Counter(each.leaf.index for each in replaced)
    # Its shape shows that something replaced it: the only statement that can is known.
    known: dict[int, Certainty] = {index: "held" if count == 1 else "read" for index, count in times.items()}
    what = listed(names, 4) or f"input {index} of {op_name(match['node']).lower()}"
    gradient = "gradients in the old shapes" if len(names) > 1 else "gradient in the old shape"
    return explanation(
        f"{what} got another shape through .data, but autograd expects {'their' if len(names) > 1 else 'its'} "
        f"{gradient}.",
        (
            *(
                shown(each.place, f"replaces the data of {each.leaf.name}.", known[each.leaf.index])
                for each in replaced
            ),
            f"{match['node']}, input {index}: {match['what']}.",
            *failing(failure, "is the call that failed."),
        ),
        _fix(replaced, leaves),
        source=str(replaced[0].place) if replaced else failure.source,
        exact=bool(names) and "read" not in known.values(),
    )


def _replacements(failure: Failure, leaf: Leaf) -> Iterator[_Replaced]:
    """The assignments to `.data` of what is this leaf: by a variable that has it, or in a method of what holds it."""
    for body, statement in statements_of(*user_files(failure)):
        for target, value in assigned(statement):
            path = _meant(body, target.value, statement.lineno) if is_tensor_data(target) else ""
            if path and _is_leaf(failure, body, path, leaf):
                yield _Replaced(leaf, body.place(statement), path, ast.unparse(value))


def _meant(body: Body, tensor: ast.expr, line: int) -> str:
    """The chain of attributes that an expression stands for: `self.head.bias` for a `b` that was given it."""
    name = dotted(tensor) or ""
    given = values_of(body, name, line) if name.isidentifier() else []
    return (dotted(given[0]) if len(given) == 1 else None) or name


def _is_leaf(failure: Failure, body: Body, path: str, leaf: Leaf) -> bool:
    first, _, rest = path.partition(".")
    if first != "self":
        return any(level.value(path) is leaf.tensor() for level in failure.users)
    owner = leaf.name.removesuffix(f".{rest}")
    held = next((value for level in failure.users if (value := level.value(owner)) is not None), None)
    return owner != leaf.name and any(each.node is body.node for each in methods_of(type(held)))


def _fix(replaced: list[_Replaced], leaves: list[Leaf]) -> str:
    """Write a new parameter for each, and give those to the optimizer that holds the old ones."""
    names = [leaf.name for leaf in leaves if leaf.name]
    written = [f"on line {each.place.line}, write `{each.path} = nn.Parameter({each.value})`" for each in replaced]
    owners = {leaf.owner: [each.name for each in leaves if each.owner == leaf.owner] for leaf in leaves if leaf.owner}
    added = [f'`{owner}.add_param_group({{"params": [{", ".join(held)}]}})`' for owner, held in owners.items()]
    one = len(names) < 2
    new = f"a new nn.Parameter{'' if one else ' for each'} instead"
    create = f"Create {new}: {listed(written, len(written))}." if written else f"Create {new}."
    of = listed(names, 4) or "that tensor"
    look = f"Look for what replaced the data of {of}: `.data = ...`, `.resize_()`, pruning. "
    pass_on = f"Then pass {'it' if one else 'them'} to the optimizer{': ' * bool(added)}{listed(added)}"
    return f"{'' if written else look}{create} {pass_on}, and rerun the forward pass."
