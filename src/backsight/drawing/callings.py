"""Which call of its module each group, or operation that is all of one, is, where the picture shows several."""

from __future__ import annotations

from collections import Counter, defaultdict

from backsight.drawing.groups import Group, Item, first_row, inner_groups
from backsight.tape.rows import Rows


def calls(top: Group, rows: Rows, wears: dict[int, str], known: bool) -> dict[Item, int]:
    """Return the numbers, from 1 on, of what stands once in the picture, in forward order.

    Where no call was seen, stretches of operations are calls if each uses the same parameters, and each of them once:
    one call may be in several stretches, and then nothing is numbered. What is in a numbered call needs no number.
    """
    found: dict[str, list[tuple[Item, Group]]] = defaultdict(list)
    around: dict[Group, Group] = {}
    folded = set[Item]()  # what stands in several copies
    for group in inner_groups(top):
        again = group.times > 1 or group in folded
        for item in group.items:
            path = wears.get(item, "") if isinstance(item, int) else item.path * (item.kind == "module")
            if path:
                found[path].append((item, group))
            if again:
                folded.add(item)
            if isinstance(item, Group):
                around[item] = group
    numbers: dict[Item, int] = {}
    for path in sorted(found, key=len):
        all_ = [item for item, _ in found[path]]
        if known and all(isinstance(item, Group) for item in all_):
            items = sorted(all_, key=first_row)
        else:
            items = sorted((i for i, group in found[path] if not _is_numbered(group, around, numbers)), key=first_row)
            if any(i in folded or (isinstance(i, Group) and i.times > 1) for i in all_) or not _are_calls(items, rows):
                continue
        if len(items) > 1:
            numbers.update((item, k) for k, item in enumerate(items, 1) if item not in folded)
    return numbers


def _is_numbered(group: Group | None, around: dict[Group, Group], numbers: dict[Item, int]) -> bool:
    while group is not None and group not in numbers:
        group = around.get(group)
    return group is not None


def _are_calls(items: list[Item], rows: Rows) -> bool:
    """Whether these use the same parameters, each of them once; single operations also have to be alike."""
    if not items or len({rows.type[item] if isinstance(item, int) else -1 for item in items}) > 1:
        return False
    spans = (range(item, item + 1) if isinstance(item, int) else range(item.start, item.stop) for item in items)
    used = [Counter(leaf for row in span for leaf in rows.leaves[row]) for span in spans]
    return bool(used[0]) and set(used[0].values()) == {1} and all(each == used[0] for each in used)
