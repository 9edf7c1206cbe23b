"""Which call of its module each group, or operation that is all of one, is, where the picture shows several."""

from __future__ import annotations

from collections import Counter, defaultdict

from backsight.drawing.groups import Group, Item, first_row
from backsight.tape.rows import Rows


def calls(top: Group, rows: Rows, wears: dict[int, str], known: bool) -> dict[Item, int]:
    """Return the numbers, from 1 on, of what stands once in the picture, in forward order.

    Where no call was seen, stretches of operations are calls if each uses the same parameters, and each of them once:
    one call may be in several stretches, and then nothing is numbered. What is in a numbered call needs no number.
    """
    found: dict[str, list[tuple[Item, Group]]] = defaultdict(list)
    around: dict[Group, Group] = {}
    folded = set[str]()
    waiting = [top]
    while waiting:
        group = waiting.pop()
        inner = [item for item in group.items if isinstance(item, Group)]
        around.update((item, group) for item in inner)
        folded.update(item.path for item in inner if item.times > 1)
        for item in group.items:
            path = wears.get(item, "") if isinstance(item, int) else item.path * (item.kind == "module")
            if path:
                found[path].append((item, group))
        waiting += [item for item in reversed(inner) if item.times == 1]
    numbers: dict[Item, int] = {}
    for path in sorted(found.keys() - folded, key=len):
        seen = known and all(isinstance(item, Group) for item, _ in found[path])
        items = [item for item, group in found[path] if seen or not _is_numbered(group, around, numbers)]
        if len(items) > 1 and (seen or _are_calls(items, rows)):
            items.sort(key=first_row)
            numbers.update((item, k) for k, item in enumerate(items, 1))
    return numbers


def _is_numbered(group: Group | None, around: dict[Group, Group], numbers: dict[Item, int]) -> bool:
    while group is not None and group not in numbers:
        group = around.get(group)
    return group is not None


def _are_calls(items: list[Item], rows: Rows) -> bool:
    """Whether these use the same parameters, each of them once; single operations also have to be alike."""
    if len({rows.type[item] if isinstance(item, int) else -1 for item in items}) > 1:
        return False
    spans = (range(item, item + 1) if isinstance(item, int) else range(item.start, item.stop) for item in items)
    used = [Counter(leaf for row in span for leaf in rows.leaves[row]) for span in spans]
    return bool(used[0]) and set(used[0].values()) == {1} and all(each == used[0] for each in used)
