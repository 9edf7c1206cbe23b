"""BS146: additions through an index that has a place several times, of which all but one are lost."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.tracing import Write

CODES = ("BS146",)


def lost_writes(writes: Iterable[Write]) -> Iterator[Finding]:
    """Yield the findings of `x[index] += y` where the index was seen to have repeated entries."""
    for each in writes:
        target, index = each.target, each.body.text(each.target.slice)
        name, place = each.body.text(target.value), each.body.place(each.statement)
        yield Finding(
            "BS146",
            "warning",
            f"{name} loses additions: {index} has repeated entries, and += through an index adds only once to each.",
            (
                shown(
                    place,
                    f"adds at {each.entries:,} entries, {each.distinct:,} of them distinct: of those that are the "
                    "same, the last one overwrites the others.",
                ),
            ),
            f"Accumulate: {_fix(each, name, index)}.",
            source=str(place),
        )


def _fix(write: Write, name: str, index: str) -> str:
    added = write.body.text(write.added)
    several = isinstance(write.target.slice, ast.Tuple)
    sign = "-" if write.subtracts else ""
    if several or not write.is_by_rows or isinstance(write.added, ast.Constant):
        is_plain = isinstance(write.added, ast.Name | ast.Constant | ast.Subscript)
        value = f"{sign}{added}" if is_plain or not sign else f"{sign}({added})"
        if isinstance(write.added, ast.Constant):
            value = f"torch.tensor({value}, dtype={name}.dtype)"
        indices = f"({index})" if several else f"({index},)"
        return f"{name}.index_put_({indices}, {value}, accumulate=True)"
    return f"{name}.index_add_(0, {index}, {added}{', alpha=-1' if sign else ''})"
