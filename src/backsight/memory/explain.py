"""The peak in words: where it was, and what was alive then."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backsight.memory.ledger import KINDS, Block, History, Kind, Phase
from backsight.text import amount

STANDING: tuple[Kind, ...] = ("parameters", "optimizer state", "gradients", "inputs")
"""Kinds that come in many tensors, of which the sum tells more than each."""

_LEAST = 0.02
"""The part of the peak that a group of tensors must have to be told."""

_MOST = 3
"""Groups that are told."""


@dataclass(frozen=True)
class Held:
    """Tensors alike, alive at the peak: `count` of `each` bytes. `kind` is theirs, or None if they differ."""

    count: int
    each: int
    kind: Kind | None
    shape: tuple[int, ...] | None
    dtype: str
    names: tuple[str, ...]
    """What each is called, or what made it."""
    modules: tuple[str, ...] = ()
    """The module of each; empty outside of all."""
    sources: tuple[str, ...] = ()
    """The line of the program that made each, as `model.py:41`; empty for what was there before."""

    @property
    def bytes(self) -> int:
        """What they take together."""
        return self.count * self.each


@dataclass(frozen=True)
class Peak:
    """The peak of a step; as `str` in words."""

    bytes: int
    at: int
    phase: Phase | None
    """None if nothing in the step took more than was there before."""
    op: str
    node: str
    module: str
    cls: str
    """The class of that module; empty where that is not known."""
    by_kind: dict[Kind, int]
    held: tuple[Held, ...]
    """Everything alive, in groups, the largest first."""

    @property
    def where(self) -> str:
        """The place in the step: ``in the backward pass, at AddmmBackward0 in layer `lm_head` (Linear)``."""
        if self.phase is None:
            return "before the step"
        cls = f" ({self.cls})" if self.cls else ""
        of = "for" if self.phase == "optimizer" else "in"
        layer = f" {of} layer `{self.module}`{cls}" if self.module else ""
        return f"in the {_PASS[self.phase]}{_at(self.node, self.op, self.phase)}{layer}"

    @property
    def parts(self) -> tuple[tuple[int, str], ...]:
        """What it is made of, the largest first: bytes and words, `(163840000, "4 × 39.1 MB of shape ...")`."""
        return tuple((part.bytes, part.listed) for part in _told(self))

    def __str__(self) -> str:
        return f"peak {amount(self.bytes)} {self.where}: {'; '.join(part.said for part in _told(self))}"


_PASS = {
    "forward": "forward pass",
    "backward": "backward pass",
    "recomputation": "recomputation of a checkpoint",
    "optimizer": "optimizer's step",
}

NOUNS: dict[Kind, str] = {
    "parameters": "parameter",
    "gradients": "gradient",
    "saved for backward": "saved for backward",
    "optimizer state": "optimizer state",
    "inputs": "input",
    "temporaries": "temporary",
    "other": "",
}


def peak_of(history: History) -> Peak:
    """Return what the peak of a history was."""
    at = history.peak_at
    alive = history.alive(at)
    by_kind = history.by("kind", at)
    kinds = {kind: by_kind.get(kind, 0) for kind in KINDS}
    if at < 0:
        return Peak(history.peak, at, None, "", "", "", "", kinds, _groups(alive))
    made = history.blocks[int(history.block[at])]
    phase, cls = history.phase_at(at), history.classes.get(made.module, "")
    return Peak(history.peak, at, phase, made.op, made.node, made.module, cls, kinds, _groups(alive))


def short_op(op: str) -> str:
    """Return an operator's name without its namespace: `log_softmax` for `aten::_log_softmax`."""
    return op.rpartition("::")[2].partition(".")[0].strip("_") or op


def label(block: Block) -> str:
    """Return the best short name of a block: its variable, its parameter, or what made it."""
    if block.name:
        return block.name
    made = short_op(block.op) if block.op else ""
    if not made:
        return f"{NOUNS[block.kind]} from before the step".strip()
    owner = f"layer `{block.module}`" if block.module else ""
    if not owner and block.phase == "backward" and "backward" not in made:
        owner = block.node.partition(" ")[0]
    return f"{made} of {owner}" if owner else made


def names_of(held: Held, most: int) -> str:
    """Return at most so many names of a group; those that differ only in the number of a layer are told as one."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in held.names:
        alike[_NUMBER.sub("*", name)].append(name)
    groups = sorted(alike.items(), key=lambda each: -len(each[1]))
    told = ", ".join(_together(pattern, names) for pattern, names in groups[:most])
    return told + (f" and {len(groups) - most:,} more" if len(groups) > most else "")


def lines_of(held: Held) -> str:
    """Return the line that made a group, or the one that made most of it and how many more; empty if none is known."""
    lines = [each for each, _ in Counter(each for each in held.sources if each).most_common()]
    if len(lines) < 2:
        return "".join(lines)
    return f"{lines[0]} and {len(lines) - 1:,} more"


def _together(pattern: str, names: Sequence[str]) -> str:
    """Return names of one pattern as one, with a star for each number in which they differ.

    >>> _together("gelu of layer `*.mlp.*`", ["gelu of layer `0.mlp.1`", "gelu of layer `1.mlp.1`"])
    'gelu of layer `*.mlp.1`'
    """
    columns = zip(*(_NUMBER.findall(name) for name in names), strict=True)
    numbers = iter([column[0] if len(set(column)) == 1 else "*" for column in columns])
    return re.sub(r"\*", lambda _: next(numbers, "*"), pattern)


def _at(node: str, op: str, phase: Phase) -> str:
    name = node.partition(" ")[0]
    if phase == "backward" and name:
        return f", at {name}"
    return f", at {short_op(op)}" if op else ""


def _groups(alive: Iterable[tuple[Block, int]]) -> tuple[Held, ...]:
    """Return the blocks in groups: those of one size and shape together if they are large, the standing kinds apart."""
    groups: defaultdict[tuple[object, ...], list[tuple[Block, int]]] = defaultdict(list)
    for block, size in alive:
        standing = block.kind if block.kind in STANDING else None
        before = block.born < 0 and block.kind == "other"  # of what the step made more is known
        groups[standing, before, size, block.shape, block.dtype].append((block, size))
    held = (_held([b for b, _ in group], group[0][1]) for group in groups.values())
    return tuple(sorted(held, key=lambda each: -each.bytes))


def _held(blocks: Sequence[Block], each: int) -> Held:
    kinds = {block.kind for block in blocks}
    kind = blocks[0].kind if len(kinds) == 1 else None
    names, modules, sources = zip(*((_called(b, kind), b.module, b.source) for b in blocks), strict=True)
    return Held(len(blocks), each, kind, blocks[0].shape, blocks[0].dtype, names, modules, sources)


def _called(block: Block, kind: Kind | None) -> str:
    """Return what a block is called within its group, with its kind where the group has several."""
    return label(block) if kind is not None or not NOUNS[block.kind] else f"{label(block)} ({NOUNS[block.kind]})"


@dataclass(frozen=True)
class _Part:
    """A part of the peak, as a sentence says it and as a list does, beside its bytes."""

    bytes: int
    said: str
    listed: str


def _told(peak: Peak) -> list[_Part]:
    """Return the parts of the peak, the largest first; what is small is summed up."""
    standing = [_sum(kind, n) for kind in STANDING if (n := peak.by_kind.get(kind, 0))]
    groups = [_group(each) for each in peak.held if each.kind not in STANDING and _tells(each, peak)][:_MOST]
    told = [part for part in (*standing, *groups) if part.bytes >= _LEAST * peak.bytes]
    told.sort(key=lambda part: -part.bytes)
    rest = peak.bytes - sum(part.bytes for part in told)
    return [*told, _sum("all else" if told else "in small tensors", rest)] if rest > 0 or not told else told


def _sum(what: str, size: int) -> _Part:
    return _Part(size, f"{what} {amount(size)}", what)


def _tells(held: Held, peak: Peak) -> bool:
    return held.bytes >= _LEAST * peak.bytes


def _group(held: Held) -> _Part:
    """Return a group in words: `3 × 823 MB of shape (4096, 50257): logits, log_softmax (saved for backward) ...`."""
    shape = f" of shape {held.shape}" if held.shape else ""
    kind = f", {NOUNS[held.kind]}" if held.kind and NOUNS[held.kind] else ""
    made = f", made at {lines}" if (lines := lines_of(held)) else ""
    what, each = f"{shape}{kind}: {names_of(held, 3)}{made}", amount(held.each)
    if held.count > 1:
        return _Part(held.bytes, f"{held.count} × {each}{what}", f"{held.count} × {each}{what}")
    return _Part(held.bytes, f"{each}{what}", f"a tensor{what}")


_NUMBER = re.compile(r"(?<=[. `])\d+(?=[., `]|$)")
"""A number in a path: `blocks.0.fc` and `blocks.1.fc` are told as `blocks.*.fc`."""
